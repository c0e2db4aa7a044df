r"""Sums over many pilots at every time, from which tilted models are learned.

Pilots themselves are not stored, so that there may be hundreds of thousands of them. With $g$ the
gradient of the step's own $\log\gamma_t$, the sums are, for the states before and after a step,
those of $(1, x)(1, x, g(x))^\top$, and for the step those of $(1, y, z)(1, y, z, x)^\top$, where
$z$ is the noise of its record relative to the centre of the kernel's own guess. Powers of
$\gamma_t$ are learned from sums of $g g^\top$ and of the Hessian $H$ of $\log\gamma_t$ besides;
one product $H e$ with random signs $e$ estimates $H$ without bias, as $H e e^\top$.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int

from aide._core.types import Key
from aide.engine.programs.map_runs import map_runs
from aide.kernels.retrace import parts_of
from aide.learned.models.joint import Stored
from aide.learned.records.recorders import Recorder, Recording, refuse_dead, time_grid
from aide.learned.records.transitions import Transitions

FOLDS = 8
"""Number of sets of pilots with separate sums: each set tests a fit to the others."""
KEY_SIGNS = 1000
"""Index of the key of random signs, above all indices of keys that a run uses."""
AT_ONCE = 64
"""Pilots of one set that run side by side, whose sums are one product of matrices."""


class Statistics(NamedTuple):
    """Sums over pilots, [folds, times, ...].

    Attributes:
        before: Sums of $(1, x)(1, x, g)^T$ for states before the steps; with curvature, of
            $(1, x, g)(1, x, g)^T$.
        after: The same sums for states after the steps.
        hessians: With curvature, sums of $H$ before and after, [folds, times, 2, d, d]; else empty.
        steps: Sums of $(1, y, z)(1, y, z, x)^T$ for steps that moved.
        moved: Number of steps that moved.
        count: Number of pilots, [folds].
        dead: Number of pilots all of whose particles had weight zero at some time, [folds].
    """

    before: Stored
    after: Stored
    hessians: Stored
    steps: Stored
    moved: Stored
    count: Stored
    dead: Stored


def shadow_steps(transitions: Transitions, size: int) -> np.ndarray:
    """Steps $h$ of the densities' shadows, [times, size]; 0 for kernels without a shadow."""
    times = times_of(transitions)

    def at(inputs: Any) -> Array:
        (kernel,) = parts_of(transitions.move_at(inputs).kernel)
        step = getattr(kernel, "shadow_step", None)
        return jnp.zeros(size) if step is None else step(size)

    with jax.enable_x64(True):
        if transitions.inputs is None:
            return np.broadcast_to(np.asarray(at(None)), (len(times), size))
        return np.asarray(jax.vmap(at)(jax.tree.map(jnp.asarray, transitions.inputs)))


def times_of(transitions: Transitions) -> np.ndarray:
    """Every step if densities or kernels change from step to step, else a grid."""
    if transitions.inputs is None:
        return time_grid(transitions.num_steps)
    return np.arange(transitions.num_steps)


def gather_statistics(
    key: Key,
    recorder: Recorder,
    num_pilots: int,
    report: Callable[[int], None],
    with_curvature: bool = False,
) -> Statistics:
    """Run at least `num_pilots` pilots and add up; `report` counts finished folds."""
    num_batches = max(1, -(-num_pilots // (FOLDS * AT_ONCE)))
    numbers = np.arange(FOLDS * num_batches * AT_ONCE, dtype=np.uint32)
    rows = (numbers.reshape(FOLDS, num_batches, AT_ONCE),)
    what = "the algorithm of the pilot runs"
    add_up = _fold_with_curvature if with_curvature else _fold
    found = map_runs(add_up, recorder, key, rows, what=what, report=report)
    refuse_dead(int(np.sum(found.dead)), numbers.size)
    if not np.isfinite(found.after).all():
        raise ValueError(
            "the state overflowed in some pilot runs: the kernel, which has no accept step, "
            "diverges. Give it a smaller step size."
        )
    return found


def _fold_with_curvature(recorder: Recorder, stream: Key, numbers: Array) -> Statistics:
    """`_fold` with sums for powers of densities."""
    return _fold(recorder, stream, numbers, True)


def _fold(
    recorder: Recorder, stream: Key, numbers: Int[Array, "batches n"], with_curvature: bool = False
) -> Statistics:
    """All pilots of one fold as an operation of the engine."""

    def batch(numbers: Array) -> Statistics:
        run = lambda number: _vectors(recorder, jax.random.fold_in(stream, number), with_curvature)
        return _add_up(*jax.vmap(run)(numbers))

    def add(total: Statistics, numbers: Array) -> tuple[Statistics, None]:
        return jax.tree.map(jnp.add, total, batch(numbers)), None

    shapes = jax.eval_shape(batch, numbers[0])
    zeros = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), shapes)
    return jax.lax.scan(add, zeros, numbers)[0]


class _States(NamedTuple):
    """States at every time with weights that sum to 1, [G, P, ...], and their gradients.

    `hessians` are $e$ and $H e$, [2, G, P, d], or `None` without curvature.
    """

    states: Array
    weights: Array
    gradients: Array
    hessians: Array | None


def _vectors(
    recorder: Recorder, key: Key, with_curvature: bool
) -> tuple[_States, _States, Array, Array, Array, Array, Array]:
    """The terms of one pilot: states before and after, x, y, z, which steps moved, and `dead`."""
    transitions = recorder.transitions
    run = recorder.record(key)
    times = times_of(transitions)
    trace = run.trace[0]
    x = trace.before
    y = jnp.concatenate([x[1:], run.last[None]])
    inputs = jax.tree.map(lambda a: jnp.asarray(a)[times], transitions.inputs)

    def noise_and_gradients(inputs: Any, y: Array, noise: Array, *states: Array) -> Any:
        (kernel,) = transitions.kernels(inputs, run.layout)
        gradient = lambda states: _finite(jax.vmap(jax.grad(kernel.log_density))(states))
        z = noise - kernel.centre(y[:, None])[:, 0]
        return (z, *(gradient(each) for each in states))

    def hessian_times(inputs: Any, signs: Array, states: Array) -> Array:
        (kernel,) = transitions.kernels(inputs, run.layout)
        gradient = jax.grad(kernel.log_density)
        product = lambda state, e: jax.jvp(gradient, (state,), (e,))[1]
        return _finite(jax.vmap(product)(states, signs))

    states = _populations(run, transitions, x, y, times)
    (xs, before), (ys, after) = states
    z, *gradients = jax.vmap(noise_and_gradients)(inputs, y[times], trace.noise[times], xs, ys)
    hessians = [None, None]
    if with_curvature:
        shape = (2, *xs.shape)
        signs = jax.random.rademacher(jax.random.fold_in(key, KEY_SIGNS), shape, xs.dtype)
        hessians = [
            jnp.stack([e, jax.vmap(hessian_times)(inputs, e, states)])
            for e, states in zip(signs, (xs, ys), strict=True)
        ]
    laws = (
        _States(xs, before, gradients[0], hessians[0]),
        _States(ys, after, gradients[1], hessians[1]),
    )
    dead = jnp.any(run.log_evidence == -jnp.inf)
    return *laws, x[times], y[times], z, jnp.any(x != y, axis=1)[times], dead


def _populations(
    run: Recording, transitions: Transitions, x: Array, y: Array, times: np.ndarray
) -> tuple[tuple[Array, Array], tuple[Array, Array]]:
    """States before and after every step, with weights.

    For SMC all particles count: before a step with the weights by which the step resamples, after
    it with their weights before the step's own. (The output's path depends on later steps, which
    the walk back must not know.)
    """
    population = run.populations
    if population is None or population.log_weights.shape[1] == 1:
        ones = jnp.ones((len(times), 1))
        return (x[times][:, None], ones), (y[times][:, None], ones)

    def weigh(inputs: Any, states: Array) -> Array:
        move = transitions.move_at(inputs)
        return jax.vmap(lambda state: move.log_weight(run.layout.unravel(state)))(states)

    particles, log_weights = population.particles, population.log_weights
    if transitions.inputs is None:
        last = jax.vmap(lambda states: weigh(None, states))(particles[1:])
    else:
        last = jax.vmap(weigh)(transitions.inputs, particles[1:])
    before = jax.nn.softmax(log_weights[:-1], axis=1)
    # A particle of weight 0 has left the support: its weight before the step is unknown.
    left = log_weights[1:] == -jnp.inf
    after = jax.nn.softmax(jnp.where(left, -jnp.inf, log_weights[1:] - last), axis=1)
    return (particles[:-1][times], before[times]), (particles[1:][times], after[times])


def _add_up(
    before: _States, after: _States, x: Array, y: Array, z: Array, moved: Array, dead: Array
) -> Statistics:
    """Sums over the first axis, that of pilots."""

    def of_law(law: _States) -> Array:
        ones = jnp.ones((*law.states.shape[:-1], 1), law.states.dtype)
        left = jnp.concatenate([ones, law.states], axis=-1)
        right = jnp.concatenate([left, law.gradients], axis=-1)
        left = left if law.hessians is None else right
        return jnp.einsum("ntp,ntpa,ntpb->tab", law.weights, left, right)

    def hessian_of(law: _States) -> Array:
        assert law.hessians is not None
        signs, products = law.hessians[:, 0], law.hessians[:, 1]
        return jnp.einsum("ntp,ntpa,ntpb->tab", law.weights, products, signs)

    ones = jnp.ones((*y.shape[:-1], 1), y.dtype)
    left = jnp.concatenate([ones, y, z], axis=-1) * moved[..., None]
    right = jnp.concatenate([ones, y, z, x], axis=-1)
    steps = jnp.einsum("nta,ntb->tab", left, right)
    counts = (jnp.sum(moved.astype(x.dtype), axis=0), jnp.asarray(len(x), x.dtype), jnp.sum(dead))
    hessians = jnp.zeros((steps.shape[0], 0))
    if before.hessians is not None:
        hessians = jnp.stack([hessian_of(before), hessian_of(after)], axis=1)
    return Statistics(of_law(before), of_law(after), hessians, steps, *counts)


def _finite(derivatives: Array) -> Array:
    """Set derivatives that are not finite to 0, as in proposals, where kernels then reject."""
    return jnp.where(jnp.isfinite(derivatives), derivatives, 0.0)
