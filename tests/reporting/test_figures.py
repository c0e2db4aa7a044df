"""Titles of figures are whole, ticks do not overlap, and what has nothing to show is absent."""

import itertools
import subprocess
import sys

import matplotlib.figure
import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from support.made import estimate_with
from support.results import NOISE, RESULTS

from aide.comparing.compare import compare_estimates
from aide.convergence.convergence import Convergence
from aide.reporting.figures import as_label, plain_ticks, plot_limits
from aide.tuning.point import Point
from aide.tuning.sweep import Sweep


def _curve():
    steps = (5, 10, 20, 40, 80, 160, 320, 640, 960)
    estimates = tuple(estimate_with(30.0 / n**2 + NOISE, 0.1 + NOISE) for n in range(1, 10))
    return Convergence(steps, estimates, (0.0,) * 9, (1.02,) * 9, (123.0,) * 9, 4, "runs.")


def _sweep(sizes, seconds):
    points = tuple(
        Point({"num_particles": n}, n, s, 9 / n, 0.1, 9 / n, 8 / n, 10 / n, None, 1, 200)
        for n, s in zip(sizes, seconds, strict=True)
    )
    return Sweep("gold", points, 0.5)


FIGURES = {
    **RESULTS,
    "a real curve": _curve,
    "wide sweep": lambda: _sweep(
        (10, 30, 100, 300, 1000, 3000), (1e-4, 3e-4, 1e-3, 3e-3, 0.01, 0.1)
    ),
    "narrow sweep": lambda: _sweep((10, 11, 12, 13), (1.01e-3, 1.05e-3, 1.1e-3, 1.2e-3)),
}


def _boxes(axis, renderer):
    """Boxes of the tick labels that are seen, within the limits of the axis."""
    low, high = sorted(axis.get_view_interval())
    slack = 1e-9 * (high - low)
    return [
        tick.label1.get_window_extent(renderer)
        for tick in axis.get_major_ticks() + axis.get_minor_ticks()
        if low - slack <= tick.get_loc() <= high + slack
        and tick.label1.get_text()
        and tick.label1.get_visible()
    ]


def drawn(figure):
    """Draw for real: the canvas of a bare figure does nothing."""
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    return canvas.get_renderer()


def check(figure):
    """Nothing sticks out, no two tick labels of an axis overlap."""
    renderer = drawn(figure)
    labels = [panel.xaxis.label for panel in figure.axes if panel.xaxis.label.get_text()]
    for pair in itertools.combinations([text.get_window_extent(renderer) for text in labels], 2):
        assert not pair[0].overlaps(pair[1])
    for panel in figure.axes:
        for text in (panel.title, panel.xaxis.label, panel.yaxis.label):
            box = text.get_window_extent(renderer)
            assert not text.get_text() or (box.x0 >= -1 and box.x1 <= figure.bbox.x1 + 1)
        for axis in (panel.xaxis, panel.yaxis):
            for one, other in itertools.combinations(_boxes(axis, renderer), 2):
                assert not one.overlaps(other), (axis, one, other)


@pytest.mark.parametrize("name", FIGURES)
def test_titles_are_whole_and_ticks_have_room(name):
    check(FIGURES[name]().plot())


def test_crowded_ticks_would_be_noticed():
    """The control: a hundred ticks do overlap."""
    figure = matplotlib.figure.Figure(figsize=(3, 2))
    panel = figure.subplots()
    panel.set_xticks(np.linspace(0.0, 1.0, 100))
    with pytest.raises(AssertionError):
        check(figure)


def test_one_bad_target_does_not_flatten_the_others():
    near = {
        f"{shift:g}": estimate_with(shift + NOISE / 9, shift + NOISE / 9) for shift in (0.1, 0.3)
    }
    [panel] = (
        compare_estimates({**near, "bad": estimate_with(300 + NOISE, 300 + NOISE)}).plot().axes
    )
    assert panel.get_xscale() == "symlog"
    place = lambda value: panel.transData.transform((value, 0.0))[0]
    width = panel.bbox.width
    assert place(0.6) - place(0.2) > 0.08 * width
    [panel] = compare_estimates(near).plot().axes
    assert panel.get_xscale() == "linear"


def test_an_estimate_shows_what_can_be_compared():
    """One M is no curve; where Z is unknown, ratios are centred: their distance is the estimate."""
    unknown = estimate_with(140.5 + NOISE, -139.5 + NOISE, (None, 0.0))
    [panel] = unknown.plot().axes
    means = sorted(line.get_xdata()[0] for line in panel.lines)
    assert means == pytest.approx([-0.5, 0.5])
    assert means[1] - means[0] == pytest.approx(unknown.value)
    assert "centred" in panel.get_xlabel()
    known = estimate_with(0.5 + NOISE, 0.5 + NOISE)
    labels = [panel.get_xlabel() for panel in known.plot().axes]
    assert labels == ["bound on the divergence (nats)", "log ratio gold/target (nats)"]
    lost = estimate_with(np.full(60, np.inf), NOISE)
    assert [panel.get_xlabel() for panel in lost.plot().axes] == ["log ratio gold/target (nats)"]


def test_names_are_no_formulas_and_go_on_in_a_second_line():
    assert as_label("a $x$ \x1b name") == r"a \$x\$ � name"
    assert as_label("bootstrap filter with a thousand particles").count("\n") == 1
    panel = matplotlib.figure.Figure().subplots()
    plot_limits(panel, ["$\\frac{"], [(0.0, 1.0)], [0.5])
    drawn(panel.figure)


@pytest.mark.parametrize(
    ("limits", "labels"),
    [((1, 60), ["1", "2", "5", "10", "20", "50"]), ((1, 2e6), ["1", "100", "10,000", "1e+06"])],
)
def test_logarithmic_ticks_are_plain_numbers(limits, labels):
    panel = matplotlib.figure.Figure().subplots()
    panel.set(xscale="log", xlim=limits)
    plain_ticks(panel.xaxis)
    drawn(panel.figure)
    found = [tick.label1.get_text() for tick in panel.xaxis.get_major_ticks()]
    assert [text for text in labels if text in found] == labels


def test_a_notebook_shows_the_figure_of_a_result_without_pyplot():
    code = "\n".join(
        [
            "import sys, aide",
            "from aide.problems import Normal",
            "exact, fit = (aide.Tractable.of(Normal(0.0, 1.0 + s)) for s in (0.0, 0.2))",
            "figure = aide.estimate(0, exact, fit, num_gold=20, num_target=20).plot()",
            "assert 'matplotlib.pyplot' not in sys.modules",
            "picture, size = figure._repr_png_()",
            "assert picture.startswith(b'\\x89PNG') and size['width'] > size['height'] > 100",
        ]
    )
    subprocess.run([sys.executable, "-c", code], check=True)
