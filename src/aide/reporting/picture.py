"""A figure that a notebook shows without any other line.

A figure of matplotlib shows itself only after `matplotlib.pyplot` was imported. Figures of results
carry no `pyplot` state, so that `estimate.plot()` alone would print `<Figure size ...>`.
"""

import io
from typing import Any

from matplotlib.figure import Figure

SHARPNESS = 2.0
"""Pixels of the picture for each pixel of the page: sharp on screens of high resolution."""


class Picture(Figure):
    """A figure of matplotlib with the picture that notebooks ask for."""

    def _repr_png_(self) -> tuple[bytes, dict[str, Any]]:
        """The picture, and its width and height in pixels of the page."""
        file = io.BytesIO()
        self.savefig(file, format="png", dpi=SHARPNESS * self.dpi)
        width, height = (int(side) for side in self.get_size_inches() * self.dpi)
        return file.getvalue(), {"width": width, "height": height}
