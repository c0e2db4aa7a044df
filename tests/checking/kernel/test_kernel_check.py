"""`aide.check_kernel`: right kernels pass at every seed, wrong ones are rejected, both by name."""

import io
import re

import blackjax
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from kernels.test_kernels import BACKWARD, FORWARD, KERNELS, LINE, PLANE, TABLE, WRONG, log_line
from rich.console import Console
from support.toys import TABLE_START
from support.wrong import WrongDrift

import aide
from aide.checking.kernel.check import check_kernel
from aide.engine.programs.programs import compile_quickly
from aide.problems import IsingModel
from aide.problems.distributions import Normal

SEEDS = (0, 1, 2)
FEW = 30_000


class PlaneStart(eqx.Module):
    """A wider version of the plane's density."""

    def sample(self, key):
        keys = jax.random.split(key)
        a = Normal(0.5, 1.6).sample(keys[0])
        return {"a": a, "b": Normal(0.6 * a + 0.3 * a**2, 1.1).sample(keys[1])}

    def log_prob(self, x):
        a = x["a"]
        bend = Normal(0.6 * a + 0.3 * a**2, 1.1).log_prob(x["b"])
        return Normal(0.5, 1.6).log_prob(a) + bend


LINE_START = Normal(0.3, 1.8)
STARTS = {LINE: LINE_START, PLANE: PlaneStart(), TABLE: TABLE_START}
PAIR_START = Normal(np.array([0.3, 0.5]), np.array([1.8, 1.5]))


def log_pair(x):
    """The mixture, and a normal that depends on it."""
    return log_line(x[0]) + Normal(0.4 * x[0], 0.8).log_prob(x[1])


@pytest.fixture(autouse=True)
def _quick_compilation():
    with compile_quickly():
        yield


def known(value):
    assert value is not None
    return value


def check(kernel, log_density=log_line, start=LINE_START, seed=0, **options):
    return check_kernel(jax.random.key(seed), kernel, log_density, start, **options)


def some_quick(names, *quick):
    """The others run in `make test-full`."""
    return [pytest.param(name, marks=() if name in quick else pytest.mark.full) for name in names]


@pytest.mark.parametrize("name", some_quick(KERNELS, "cycle", "gibbs-three"))
def test_right_kernels_pass(name):
    kernel, problem = KERNELS[name]
    for seed in SEEDS:
        result = check(kernel, problem[1], STARTS[problem], seed, num_runs=FEW)
        assert result.passed, result


@pytest.mark.parametrize("name", some_quick(WRONG, "cycle"))
def test_a_wrong_reversal_is_rejected(name):
    """And it is the reversal that is blamed: the density is invariant all the same."""
    kernel, problem = WRONG[name]
    result = check(kernel, problem[1], STARTS[problem])
    assert result.verdict == "failed"
    assert result.p_value < 1e-12
    assert result.invariance.p_value > 1e-3
    assert "not reversible" in repr(result)
    assert "in reverse order" in repr(result)
    alone = check(kernel, problem[1], STARTS[problem], reversal=False)
    assert alone.passed, alone
    assert alone.reversal is None


@pytest.mark.full
def test_the_sweep_of_a_homogeneous_grid_is_seen():
    """Law 2 cannot tell this sweep from its reversal, by symmetry; pairs of functions can."""
    model = IsingModel(coupling=0.4, field=0.0, shape=(3, 3))
    for coupling, passed in ((model.gibbs(), True), (Stubborn(model.gibbs()), False)):
        result = check(coupling, model.log_density, model.uniform())
        assert result.passed == passed, result


class Stubborn(eqx.Module):
    """A kernel that claims to be its own reversal."""

    right: aide.kernels.AbstractKernel

    def step(self, key, log_density, x):
        return self.right.step(key, log_density, x)

    def reversal(self):
        return self


MASS = np.ones(2)
BLACKJAX = {
    "rmh": lambda: blackjax.additive_step_random_walk(
        log_pair, blackjax.mcmc.random_walk.normal(jnp.array([0.8, 0.8]))
    ),
    "mala": lambda: blackjax.mala(log_pair, 0.3),
    "hmc": lambda: blackjax.hmc(log_pair, 0.4, MASS, 3),
    "nuts": lambda: blackjax.nuts(log_pair, 0.5, MASS, max_num_doublings=3),
    "barker": lambda: blackjax.barker(log_pair, 0.7),
}


@pytest.mark.parametrize("name", some_quick(BLACKJAX, "rmh"))
@pytest.mark.full
def test_blackjax_kernels_pass(name):
    kernel = BLACKJAX[name]()
    for seed in SEEDS:
        result = check(kernel, log_pair, PAIR_START, seed, num_runs=FEW)
        assert result.passed, result
        assert result.start.moved > 0.3


def propose(key, x, step=0.9):
    drift = x + 0.5 * step**2 * jax.grad(log_line)(x)
    return drift + step * jax.random.normal(key)


def langevin(key, x):
    """Unadjusted: no accept step."""
    return propose(key, x)


def accept(key, x, y):
    accepted = jnp.log(jax.random.uniform(key)) < log_line(y) - log_line(x)
    return jnp.where(accepted, y, x)


def without_hastings(key, x):
    """MALA without the ratio of its proposals."""
    key_y, key_u = jax.random.split(key)
    return accept(key_u, x, propose(key_y, x))


def by_hand(key, x):
    """A random walk, written out: right."""
    key_y, key_u = jax.random.split(key)
    return accept(key_u, x, x + 1.1 * jax.random.normal(key_y))


class WrongJacobian(aide.kernels.Hmc):
    """Stretches the end point by 20% and does not pay for it."""

    def involution(self, log_density, x, v):
        y, w = super().involution(log_density, x, v)
        return 1.2 * y, w


class NoAccept(aide.kernels.Hmc):
    """Leapfrog steps, always accepted."""

    def step(self, key, log_density, x):
        return self.involution(log_density, x, self.noise(key, x))[0]


class WrongTemperature(aide.kernels.RandomWalk):
    """Accepts at temperature 1.25."""

    def step(self, key, log_density, x):
        return super().step(key, lambda x: 0.8 * log_density(x), x)


REJECTED = {
    "no Hastings correction": without_hastings,
    "drift": WrongDrift(1.2),
    "Jacobian": WrongJacobian(0.5, 3),
    "no accept step": NoAccept(0.9, 3),
    "unadjusted Langevin": langevin,
    "temperature": WrongTemperature(1.2),
}


@pytest.mark.parametrize("name", some_quick(REJECTED, "no accept step"))
def test_wrong_kernels_are_rejected(name):
    result = check(REJECTED[name])
    assert result.verdict == "failed"
    assert result.p_value < 1e-9, result


@pytest.mark.full
def test_unadjusted_samplers_of_libraries_are_rejected():
    """`Ula` claims no reversal, so that invariance alone is tested; MCLMC is taken at its word."""
    result = check(aide.kernels.Ula(0.9))
    assert result.reversal is None
    assert result.p_value < 1e-9
    kernel = blackjax.mclmc(log_pair, L=2.0, step_size=1.5)
    assert check(kernel, log_pair, PAIR_START).p_value < 1e-9


@pytest.mark.full
def test_hand_written_kernels():
    """With and without the density as an argument; with a reversal given by hand."""
    assert check(by_hand).passed
    assert check(lambda key, density, x: by_hand(key, x)).passed
    right = check(FORWARD, PLANE[1], STARTS[PLANE], reversal=BACKWARD)
    assert right.passed
    assert right.reversal is not None
    assert right.reversal.law == "reversal"
    assert (
        check(aide.kernels.RandomWalk(1.2), reversal=aide.kernels.Hmc(0.5, 2)).verdict == "failed"
    )


def test_a_kernel_that_never_moves_passes_and_the_words_say_so():
    result = check(lambda key, x: x)
    assert result.passed
    assert result.start.moved == 0.0
    assert "never moved" in repr(result)
    assert "Whether the kernel gets everywhere" in repr(result)


@pytest.mark.parametrize(
    ("start", "words"),
    [
        pytest.param(
            Normal(0.0, 0.2), "heavy-tailed|relative to the start", marks=pytest.mark.full
        ),
        (Normal(9.0, 1.0), "heavy-tailed|worth only|relative to the start"),
    ],
)
def test_a_bad_start_gives_no_verdict_for_a_right_kernel(start, words):
    """Neither a pass nor a false alarm; and the fix."""
    result = check(aide.kernels.RandomWalk(1.2), start=start)
    assert result.verdict == "undecided", result
    assert not result.passed
    assert re.search(f"(?s)({words}).*closer to the density", repr(result))


def test_a_start_without_mass_where_the_density_has_some():
    """A uniform start on [0, 1]: both laws are exact there, and a pass would say nothing."""

    class Unit(eqx.Module):
        def sample(self, key):
            return jax.random.uniform(key)

        def log_prob(self, x):
            return jnp.where((x >= 0) & (x <= 1), 0.0, -jnp.inf)

    right = check(aide.kernels.RandomWalk(1.2), start=Unit())
    assert right.verdict == "undecided"
    assert right.p_value > 1e-3
    assert check(WrongDrift(1.2), start=Unit()).verdict == "failed"


def log_two_modes(x):
    """0.99 N(0, 1) + 0.01 N(10, 1)."""
    near, far = Normal(0.0, 1.0).log_prob(x), Normal(10.0, 1.0).log_prob(x)
    return jnp.logaddexp(jnp.log(0.99) + near, jnp.log(0.01) + far)


def independence(key, x):
    """An exact draw, wherever it starts: reversible."""
    key_mode, key_x = jax.random.split(key)
    return jnp.where(jax.random.uniform(key_mode) < 0.01, 10.0, 0.0) + jax.random.normal(key_x)


def test_a_right_kernel_with_a_rare_mode_is_not_rejected():
    """The start hardly ever sees the mode that one step in a hundred leads to."""
    for seed in range(4):
        result = check(independence, log_two_modes, Normal(0.0, 3.0), seed, num_runs=FEW)
        assert result.verdict != "failed", result


def test_errors_come_early_and_name_the_fix():
    with pytest.raises(TypeError, match="kernel must be an aide kernel, a function step"):
        check(3.0)
    with pytest.raises(TypeError, match="start must be an object with sample"):
        check(by_hand, start=log_line)
    with pytest.raises(ValueError, match="num_runs must be an integer of at least 1000"):
        check(by_hand, num_runs=10)
    with pytest.raises(ValueError, match="false_alarm must lie strictly between 0 and 1"):
        check(by_hand, false_alarm=0.0)
    with pytest.raises(ValueError, match=r"must return a state like the one it was given, \(\)"):
        check(lambda key, x: jnp.stack([x, x]))
    with pytest.raises(ValueError, match=r"stepped to nan in \d+ of \d+ runs, first at x"):
        check(lambda key, x: jnp.where(x > 0, jnp.nan, x))
    with pytest.raises(ValueError, match="log_density is -inf at all"):
        check(by_hand, lambda x: jnp.where(x > 100, 0.0, -jnp.inf))
    with pytest.raises(TypeError, match="not traceable by JAX"):
        check(lambda key, x: x if float(x) > 0 else -x)


def test_the_report():
    result = check(WrongDrift(1.2))
    text = repr(result)
    assert re.match(r"Kernel check of WrongDrift: failed \(p (=|<) ", text)
    assert "missing ratio of proposal densities" in text
    assert "standard errors in" in text
    console = Console(width=120, record=True, file=io.StringIO())
    console.print(result)
    assert "failed" in console.export_text()


@pytest.mark.full
@pytest.mark.parametrize("start", [Normal(4.0, 1.0), Normal(0.0, 0.2)])
def test_no_false_alarms_from_bad_starts(start):
    """Detailed balance is judged wherever the start is, and p-values keep their meaning."""
    found = []
    for seed in range(100):
        result = check(aide.kernels.RandomWalk(1.2), start=start, seed=seed, num_runs=FEW)
        assert result.verdict == "undecided"
        found.append(known(result.reversal).p_value)
    assert (np.array(found) < 0.1).sum() < 10 + 5 * 3


@pytest.mark.full
def test_p_values_are_calibrated():
    """Right kernels: p below 0.1 in at most 10% of the seeds, up to 5 standard deviations."""
    for name in ("walk", "hmc-plane", "gibbs"):
        kernel, problem = KERNELS[name]
        settings = (kernel, problem[1], STARTS[problem])
        found = [check(*settings, seed, num_runs=FEW).p_value for seed in range(100, 300)]
        p_values = np.array(found, float)
        assert (p_values < 0.1).sum() < 20 + 5 * np.sqrt(18)
        assert p_values.min() > 1e-4
