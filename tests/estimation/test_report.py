r"""What a person sees: summary, table, figure, progress bar. They never fail on odd numbers."""

import io
import math
import subprocess
import sys

import jax.numpy as jnp
import matplotlib.figure
import numpy as np
import pytest
import rich.console
from support.made import estimate_with, made_draws, with_tables
from support.pairs import NoisyGaussian, NumpyGaussian, gaussian, run

import aide
from aide._core.algorithm import plain
from aide._core.types import GOLD, TARGET
from aide.estimation.looseness import fall_at_other
from aide.estimation.terms import rests_on_one_density
from aide.problems.distributions import Normal

NOISY = NoisyGaussian(0.3, 0.8, 0.5), NoisyGaussian(-0.4, 0.5, 0.9)
ODD_NAME = "fit [/x] [bold] {y} ≤"


NOISE = np.linspace(-1.0, 1.0, 60)
RESULTS = {
    "plain": lambda: run(*NOISY),
    "several M": lambda: run(*NOISY, num_meta_gold=2, num_meta_target=5),
    "no looseness": lambda: run(*NOISY, measure_looseness=False),
    "single run": lambda: run(*NOISY, 1, 1),
    "infinite": lambda: estimate_with(np.r_[np.inf, NOISE], NOISE),
    "all infinite": lambda: estimate_with(np.full(30, np.inf), np.full(30, np.inf)),
    "exact": lambda: estimate_with(np.zeros(30), np.zeros(30)),
    "constant": lambda: estimate_with(5.0 + 1e-15 * NOISE, -5.0 + 1e-15 * NOISE, (None, 0.0)),
    "enormous": lambda: estimate_with(np.r_[1e12, NOISE], NOISE),
    "unknown Z": lambda: estimate_with(NOISE, NOISE, (None, None)),
    "odd name": lambda: estimate_with(NOISE, NOISE, names=("gold", ODD_NAME)),
}


@pytest.fixture(params=RESULTS)
def result(request):
    return RESULTS[request.param]()


def _headline(draws):
    """Densities known up to constants that agree at every output have no divergence to show."""
    is_normalised = all(side.log_z is not None for side in draws.sides)
    if rests_on_one_density(draws) and not is_normalised:
        return "No number: gold standard and target state the same density at every output"
    return "Symmetrised KL divergence ≤ "


def test_summary(result):
    text = repr(result)
    draws = result.draws
    assert text.startswith(_headline(draws))
    metas = (f"{side.num_meta:,}" for side in draws.sides)
    assert f"Meta-inference runs per output: M = {' and '.join(metas)}." in text
    for side in draws.sides:
        assert f"{side.num_runs:,} of the {side.role.word}" in text
    differs = "may differ" if rests_on_one_density(draws) else "differs"
    assert f"Any probability computed from the target {differs} from the gold standard's" in text
    assert "may be missing; they could add any number of nats" in text
    assert "nan" not in text
    assert all(note in text for note in result.notes)
    known = all(side.log_z is not None for side in draws.sides)
    assert ("large where the target misses mass" in text) == known
    assert ("told apart: log Z is unknown" in text) == (not known)


def test_rich_table(result):
    console = rich.console.Console(record=True, width=200, file=io.StringIO())
    console.print(result)
    text = console.export_text()
    assert _headline(result.draws) in text
    for side in result.draws.sides:
        assert side.name in text


def test_plot(result):
    figure = result.plot()
    assert isinstance(figure, matplotlib.figure.Figure)
    figure.canvas.draw()
    labels = [panel.get_xlabel() for panel in figure.axes]
    has_curve = max(side.num_meta for side in result.draws.sides) > 1
    assert ("meta-inference runs M" in labels) == has_curve
    assert labels[-1].startswith("log ratio gold/target (nats")
    mine = matplotlib.figure.Figure()
    assert result.plot(mine.subplots(1, 2)) is mine


def test_summary_shows_the_numbers():
    result = estimate_with(np.linspace(0.0, 2.0, 101), np.linspace(-0.5, 0.5, 101))
    text = repr(result)
    error = math.hypot(np.linspace(0, 2, 101).std(ddof=1), np.linspace(0, 1, 101).std(ddof=1))
    assert f"≤ 1.000 ± {error / math.sqrt(101):.3f} nats" in text
    low, high = result.interval()
    assert f"95% interval {low:.3g} to {high:.3g}" in text
    assert "gold → target   1.000 ± 0.058" in text
    assert "target → gold   0.000 ± 0.029" in text


def test_rounding_errors_are_not_shown_as_results():
    """Tractable algorithms have no looseness: 1e-17 of rounding is no line in a summary."""
    log_density = lambda x: 5.0 - (x - 0.1) ** 2 / 0.98
    shifted = aide.Tractable(Normal(0.1, 0.7).sample, log_density, log_z=None)
    text = repr(run(shifted, gaussian(0.1, 0.7), 100, 100))
    assert "looseness" not in text
    assert "0.000000000" not in text


def test_equal_terms_are_not_called_exact():
    """500 runs without spread prove little: a part of mass 0.3% goes unseen in one of five."""
    result = estimate_with(np.zeros(500), np.zeros(500))
    text = repr(result)
    assert "exact" not in text
    assert "≤ 0 ± 0 nats" in text
    assert "may differ from the gold standard's: see the note" in text  # one density, two samplers
    assert result.total_variation() == 1.0
    assert "Outputs rarer than 0.74% may be missing" in text
    close = estimate_with(1e-7 * np.linspace(-1, 1, 500), 1e-7 * np.linspace(-1, 1, 500))
    assert close.total_variation() == pytest.approx(1 - 0.05 ** (1 / 1000), rel=0.2)
    assert "differs from the gold standard's by at most 0.0035 (95%)" in repr(close)
    unequal = estimate_with(np.zeros(500), np.zeros(100))
    assert "rarer than 0.74% (gold) or 3.6% (target)" in repr(unequal)


def test_looseness_speaks_of_its_own_outputs_and_the_second_meter_of_the_others():
    """Own scores agree to 0.001, cross scores vary by tens of nats: the bound is not tight."""
    rng = np.random.default_rng(0)
    own = 1e-3 * rng.normal(size=(200, 5))
    wild, calm = -20.0 * rng.exponential(size=(200, 4)), np.zeros((200, 1))
    draws = made_draws((np.zeros((200, 2)), wild), (own, calm), (1, 4), (0.0, 0.0))
    text = repr(aide.estimation.Estimate(draws))
    assert "Meta-inference of the target adds" in text
    assert "at the gold's the last doubling of M took off" in text
    assert "at most 0.00" not in text
    fall = fall_at_other(draws, TARGET)
    assert fall is not None
    assert fall.value > 3.0
    assert fall_at_other(draws, GOLD) is None
    single = with_tables(draws, GOLD, np.zeros((200, 2)), wild[:, :1]).with_num_meta(TARGET, 1)
    assert "what it adds at the gold's is unknown (M = 1)" in repr(aide.estimation.Estimate(single))
    hopeless = np.full((200, 4), -np.inf)
    hopeless[0, 0] = 0.0
    lost = with_tables(draws, GOLD, np.zeros((200, 2)), hopeless)
    assert fall_at_other(lost, TARGET) == (math.inf, math.inf)


def test_names_reach_neither_markup_nor_terminal():
    name = "fit [/] \x1b[31mred\x1b[0m \u202e[bold"
    console = rich.console.Console(record=True, width=200, file=io.StringIO())
    console.print(estimate_with(NOISE, NOISE, names=(name, "plain")))
    text = console.export_text()
    assert "fit [/] �[31mred�[0m �[bold" in text
    assert plain("a\tb\nc\x07") == "a b c�"


@pytest.mark.full
def test_no_pyplot_state():
    script = (
        f"import sys; sys.path = {sys.path}\n"
        "from support.made import estimate_with\n"
        "import numpy as np\n"
        "estimate_with(np.zeros(3), np.ones(3), (0.0, 0.0), ('gold', 'target')).plot()\n"
        "assert 'matplotlib.figure' in sys.modules\n"
        "assert 'matplotlib.pyplot' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True, capture_output=True)


@pytest.mark.parametrize("kind", ["jax", "python"])
def test_progress_goes_to_standard_error(kind, capfd):
    gold = gaussian(0.0, 1.0, ODD_NAME)
    if kind == "python":
        gold = aide.PythonAlgorithm(NumpyGaussian(), label=ODD_NAME)
    run(gold, gaussian(0.5, 1.0, "the target"), progress=True)
    out, err = capfd.readouterr()
    assert out == ""
    assert "the target" in err
    assert "60/60" in err  # 20 runs of the gold standard, each scored twice
    run(gold, gaussian(0.5, 1.0), progress=False)
    run(gold, gaussian(0.5, 1.0))
    assert capfd.readouterr() == ("", "")


def test_results_can_be_compared_and_stored_in_sets():
    """`==` on results is a natural thing to write; it must not raise."""
    one, two = estimate_with(NOISE, NOISE), estimate_with(NOISE, NOISE + 1.0)
    assert isinstance(one == two, bool)
    assert one != two
    assert len({one, two}) == 2


def test_jax_arrays_are_not_needed_to_read_results(result):
    for number in (result.value, result.std_error, *result.interval(), result.total_variation()):
        assert isinstance(number, float)
        assert not isinstance(number, jnp.ndarray)
