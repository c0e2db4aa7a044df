"""Tables of many lines of one kind, as text."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Grid:
    """Cells under titles.

    Attributes:
        titles: One per column.
        lines: The cells of every line, as text.
        verdicts: One per line, by which it is coloured; empty texts are not.
        texts: Titles of columns that hold words: they stand left, numbers right.
    """

    titles: tuple[str, ...]
    lines: tuple[tuple[str, ...], ...]
    verdicts: tuple[str, ...]
    texts: frozenset[str] = frozenset()

    def is_text(self, index: int) -> bool:
        """Whether a column holds words."""
        return self.titles[index] in self.texts
