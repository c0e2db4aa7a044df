r"""SMC and AIS with learned meta-inference.

The path $x_{0:T}$ that led to the output $x$ is hidden, and so are the other particles.
Meta-inference guesses the path by SMC backwards in time (`aide.learned.walk_back.backward`) for

$$f(x_{0:T}) = q_0(x_0)\,c_0(x_0) \prod_t k_t(x_t \mid x_{t-1})\,c_t(x_t), \qquad
c_t(x) = \frac{w_t(x)}{m_t(w_t(x))},$$

which is nearly the law of the path that survives (`aide.learned.models.mean_weights`; with
$P = 1$, $m = w$ and it is exactly that of the chain), and then the other particles by SMC over
whole populations (`aide.learned.walk_back.islands`). With $\hat Z$ the estimate of $\int f$ given
$x$ and $\hat C$ that of $E[1/\hat p]$ around the path,

$$\xi = \hat Z\,\hat C \prod_t m_t(w_t(x_t)), \qquad E_r[\xi] = q(x).$$

`simulate` runs SMC, then the conditional twins of both around what really happened.
"""

import dataclasses
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array

from aide._core.algorithm import Draw, Label
from aide._core.observation import ObservedSteps
from aide._core.random import derive, derive_keys
from aide._core.types import Key, LogProb, Value
from aide._core.validate import check_size, raise_if
from aide.learned.fitting.reverse_fit import ReverseFit
from aide.learned.models.mean_weights import MeanWeights
from aide.learned.records.flat_states import FlatLayout
from aide.learned.records.smc_recorder import SmcRecorder
from aide.learned.walk_back.backward import Backward, choose_path
from aide.learned.walk_back.islands import Path, log_inverse_evidence
from aide.learned.walk_back.reverse_particles import ReverseParticles
from aide.smc.policy import AbstractResampler, EssBelow, as_resampler
from aide.smc.resampling import Systematic
from aide.smc.smc import ALL_ZERO, Smc


class RefinedSmc(eqx.Module):
    r"""An SMC algorithm, with the same outputs for the same key and tighter meta-inference.

    Built by `aide.refine`.

    Args:
        smc: The algorithm; one `Steps` of moves that are kernels with weights.
        fit: What was learned.
        num_reverse: Reverse particles, for the path.
        num_islands: Populations, for the other particles.
        resampler: When and how reverse particles and populations are resampled.
        label: A name for tables.
    """

    smc: Smc
    fit: ReverseFit
    num_reverse: int = eqx.field(static=True)
    num_islands: int = eqx.field(static=True, default=1)
    resampler: AbstractResampler = eqx.field(
        converter=as_resampler, default=EssBelow(0.8, Systematic())
    )
    label: str = eqx.field(converter=Label, default="")

    def __check_init__(self) -> None:
        check_size("num_reverse", self.num_reverse)
        check_size("num_islands", self.num_islands)

    @property
    def log_z(self) -> float:
        r"""$\log Z = 0$: $\xi$ is an unbiased estimate of $q(x)$ itself."""
        return 0.0

    def with_reverse(self, num_reverse: int) -> "RefinedSmc":
        """The same algorithm with another number of reverse particles, and islands in proportion.

        Both parts of the walk back need more if it is to become tight.
        """
        num_islands = max(1, -(-self.num_islands * num_reverse // self.num_reverse))
        return dataclasses.replace(self, num_reverse=num_reverse, num_islands=num_islands)

    def shrunk(self) -> dict[str, "RefinedSmc"]:
        """Versions for `aide.check`: few particles of all kinds show errors best."""
        versions = dict[str, RefinedSmc]()
        for num in (1, 2, 3):
            particles = min(num, self.smc.num_particles)
            reverse, islands = min(num, self.num_reverse), min(num, self.num_islands)
            smc = dataclasses.replace(self.smc, num_particles=particles)
            name = f"{particles} particles, {reverse} reverse, {islands} islands"
            versions[name] = dataclasses.replace(
                self, smc=smc, num_reverse=reverse, num_islands=islands
            )
        return versions

    def simulate(self, key: Key) -> Draw:
        r"""Run SMC, then walk back around the path of its output."""
        recorder = SmcRecorder(self.smc)
        layout, x, trace, totals, _, populations = recorder.record(key)
        # Keys 0 to 2 are those of the run.
        key_back, key_islands = derive(key, 3), derive(key, 4)
        particles, _ = self._walk_back(key_back, recorder, layout, x, trace)
        log_xi = particles.log_estimate()
        if self.smc.num_particles > 1:
            states = jnp.concatenate([trace[0].before, x[None]])
            log_xi = log_xi + self._log_others(key_islands, recorder, layout, states, populations)
        return Draw(layout.unravel(x), raise_if(log_xi, totals[-1] == -jnp.inf, ALL_ZERO))

    def observe_steps(self, key: Key) -> tuple[ObservedSteps, ...]:
        """What the steps of the algorithm show; meta-inference changes none of them."""
        return self.smc.observe_steps(key)

    def regenerate(self, key: Key, value: Value) -> LogProb:
        r"""Walk back from $x$, choose a path, guess the other particles."""
        key_back, key_path, key_islands = derive_keys(key, 3)
        recorder, layout = SmcRecorder(self.smc), FlatLayout(value)
        x = layout.flat
        particles, history = self._walk_back(key_back, recorder, layout, x, None)
        log_xi = particles.log_estimate()
        if self.smc.num_particles == 1:
            return log_xi
        states = jnp.concatenate([choose_path(key_path, particles, history), x[None]])
        log_others = self._log_others(key_islands, recorder, layout, states, None)
        return jnp.where(log_xi == -jnp.inf, -jnp.inf, log_xi + log_others)

    def _log_others(
        self, key: Key, recorder: SmcRecorder, layout: FlatLayout, states: Array, true: Any
    ) -> LogProb:
        r"""$\log\hat C \prod_t m_t(w_t)$."""
        transitions = recorder.transitions
        log_w = recorder.log_weights(layout, states)
        path = Path(states, log_w)
        options = (self.num_islands, self.resampler, true)
        log_c = log_inverse_evidence(key, self.smc, transitions, layout, path, *options)
        log_means = jax.vmap(lambda mean, w: mean(w))(self.fit.mean_weights, log_w)
        return jnp.where(jnp.any(log_w == -jnp.inf), -jnp.inf, log_c + jnp.sum(log_means))

    def _walk_back(
        self, key: Key, recorder: SmcRecorder, layout: FlatLayout, x: Array, trace: Any
    ) -> tuple[ReverseParticles, Any]:
        transitions, means = recorder.transitions, self.fit.mean_weights
        backward = Backward(self.fit.models, self.fit.index, self.num_reverse, self.resampler)
        # A step's inputs travel with the mean weights after it.
        pick = lambda part: jax.tree.map(lambda a: jnp.asarray(a)[part], means)
        inputs = (transitions.inputs, pick(slice(1, None)))
        move_at = _First(transitions.move_at)
        timed = dataclasses.replace(transitions, move_at=move_at, inputs=inputs)

        def log_start(states: Array) -> Array:
            weigh = lambda x: self.smc.log_first_weight(layout.unravel(x))
            return transitions.log_start(layout, states) + self._log_survival(
                jax.vmap(weigh, -1)(states), pick(0)
            )

        def log_factor(inputs: Any, states: Array) -> Array:
            weigh = lambda x: transitions.move_at(inputs[0]).log_weight(layout.unravel(x))
            return self._log_survival(jax.vmap(weigh, -1)(states), inputs[1])

        return backward.run(key, timed, layout, x, trace, log_start, log_factor)

    def _log_survival(self, log_w: Array, mean: MeanWeights) -> Array:
        r"""$\log c = \log w - \log m(w)$."""
        if self.smc.num_particles == 1:
            return jnp.zeros_like(log_w)
        return jnp.where(log_w == -jnp.inf, -jnp.inf, log_w - mean(log_w))


class _First(eqx.Module):
    """Builds a move from the first of a pair of inputs."""

    move_at: Any

    def __call__(self, inputs: Any) -> Any:
        return self.move_at(inputs[0])
