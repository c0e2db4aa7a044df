"""The base class of all results, with every way to show or export them."""

import csv
import json
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from enum import Enum
from io import StringIO
from typing import TYPE_CHECKING, Any

import numpy as np

from aide._core.keywords import Former
from aide.reporting.figures import PanelGrid, panels_of
from aide.reporting.grid import Grid
from aide.reporting.page import Page, page_html

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def as_data(value: Any) -> Any:
    """Convert a value to numbers, texts, lists and dictionaries that JSON can hold.

    JSON has no infinities and no NaN: they become the texts `inf`, `-inf` and `nan`, which
    `float` reads.
    """
    if isinstance(value, Enum):
        return value.name.lower()
    if value is None or isinstance(value, str | bool | np.bool_):
        return bool(value) if isinstance(value, np.bool_) else value
    if isinstance(value, int | np.integer):
        return int(value)
    if isinstance(value, float | np.floating):
        return float(value) if np.isfinite(value) else str(float(value))
    if isinstance(value, tuple) and hasattr(value, "_asdict"):
        return as_data(value._asdict())
    if isinstance(value, Mapping):
        return {str(name): as_data(part) for name, part in value.items()}
    return [as_data(part) for part in value]


def as_csv(records: Sequence[Mapping[str, Any]]) -> str:
    """One line per record under the names of its entries; `None` is an empty cell."""
    text = StringIO(newline="")
    if records:
        writer = csv.DictWriter(text, list(records[0]))
        writer.writeheader()
        writer.writerows({k: "" if v is None else v for k, v in one.items()} for one in records)
    return text.getvalue()


class Result(ABC):
    """A result of a computation, with words about it.

    Showing a result is cheap and always gives the same text: nothing is trained or run, and
    nothing depends on earlier calls.

    Example:
        >>> exact, fit = (aide.Tractable.of(Normal(m, 1.0)) for m in (0.0, 0.5))
        >>> estimate = aide.estimate(0, exact, fit, num_gold=100, num_target=100)
        >>> isinstance(estimate, aide.reporting.Result), sorted(estimate.to_dict())[:3]
        (True, ['head', 'headline', 'notes'])
    """

    @property
    def subject(self) -> str:
        """The subject of the result, if the headline does not name it."""
        return ""

    @property
    @abstractmethod
    def headline(self) -> str:
        """The result on one line."""

    @property
    def head(self) -> tuple[str, ...]:
        """Sentences to read before the numbers, on the trust in the gold standard."""
        return ()

    @abstractmethod
    def rows(self) -> list[tuple[str, str]]:
        """Name and text of every line below the headline, notes apart."""

    @property
    def notes(self) -> tuple[str, ...]:
        """Caveats, in sentences."""
        return ()

    @property
    def verdict(self) -> str | None:
        """`passed`, `failed` or `undecided`, if there was a question (`reporting.verdict`)."""
        return None

    def grid(self) -> Grid | None:
        """Lines of one kind, as a table between headline and rows."""
        return None

    def records(self) -> list[dict[str, Any]]:
        """The numbers of these lines, one dictionary each."""
        return []

    @abstractmethod
    def numbers(self) -> dict[str, Any]:
        """The numbers of the result as a whole, by name."""

    def layout(self) -> PanelGrid:
        """The panels that `plot_on` needs."""
        return PanelGrid()

    @abstractmethod
    def plot_on(self, panels: np.ndarray) -> None:
        """Plot the result on the matplotlib axes of `layout`."""

    def plot(self, axes: "Axes | np.ndarray | None" = None) -> Any:
        """Plot the result on the given matplotlib axes or a new figure; return the figure."""
        panels = panels_of(axes, self.layout())
        self.plot_on(panels)
        return panels[0].figure

    draw = Former("plot")

    def to_dict(self) -> dict[str, Any]:
        """All texts and numbers of the result, as data that JSON can hold."""
        found = {
            "result": type(self).__name__,
            "subject": self.subject,
            "headline": self.headline,
            "head": self.head,
            "verdict": self.verdict,
            "numbers": self.numbers(),
            "records": self.records(),
            "rows": self.rows(),
            "notes": self.notes,
        }
        return as_data(found)

    def to_json(self) -> str:
        """The data of `to_dict` as text; infinite numbers are the texts `inf` and `-inf`."""
        return json.dumps(self.to_dict(), indent=1, ensure_ascii=False, allow_nan=False)

    def to_csv(self) -> str:
        """The records as comma-separated values; empty without records."""
        return as_csv(self.records())

    def _page(self) -> Page:
        rows = [*self.rows(), *(("note", note) for note in self.notes)]
        return Page.of(self.subject, self.headline, self.grid(), rows, self.verdict, self.head)

    def __repr__(self) -> str:
        return self._page().text()

    def __rich__(self) -> Page:
        return self._page()

    def _repr_html_(self) -> str:
        return page_html(self._page())
