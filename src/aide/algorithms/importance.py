"""Outputs chosen among proposals: importance sampling with resampling (SIR), rejection sampling."""

from typing import ClassVar, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array

from aide._core.algorithm import Draw, Label
from aide._core.distribution import Distribution, check_distribution, log_density_of, sample_from
from aide._core.keywords import keywords
from aide._core.numerics import as_log, as_parameter, log_ratio
from aide._core.types import Key, LogDensity, LogProb, Parameter, Value
from aide._core.validate import check_finite, check_size, raise_if
from aide._core.versions import AbstractAlgorithm
from aide.smc.smc import Smc


@keywords("aide.sir")
def sir(start: Distribution, log_joint: LogDensity, *, num_particles: int, label: str = "") -> Smc:
    r"""Draw $P$ proposals, output one of them by weight $\gamma(x)/k(x)$: SMC without moves.

    Args:
        start: The proposal $k$, with `sample(key)` and `log_density(x)`.
        log_joint: $\log\gamma(x)$, normalised or not.
        num_particles: $P$.
        label: A name for tables.

    Returns:
        The sampler, an `aide.smc.Smc`.

    Example:
        >>> prior = Normal(0.0, 1.0)
        >>> log_joint = lambda x: prior.log_prob(x) - 0.5 * (x - 2.0) ** 2
        >>> sampler = aide.sir(prior, log_joint, num_particles=10)
        >>> exact = aide.Tractable.of(Normal(1.0, 0.5**0.5))
        >>> estimate = aide.estimate(0, exact, sampler, num_meta_target=10)
        >>> 0.0 < estimate.value < 0.3
        True
    """
    return Smc(start, (), log_joint, num_particles, label=label or f"SIR, {num_particles}")


class _State(NamedTuple):
    tries: Array
    x: Value
    log_excess: Array
    accepted: Array


class RejectionSampler(AbstractAlgorithm):
    r"""Propose $x \sim g$, accept with probability $\gamma(x)/(g(x)\,e^B)$.

    $\xi = \gamma(x)$, so $Z = \int\gamma$ (the evidence if $\gamma(x) = p(x, y)$) and `log_z` is
    unknown. The rejected proposals need no meta-inference: they are independent of $x$.

    Args:
        proposal: $g$, with `sample(key)` and a normalised `log_density(x)`.
        log_joint: $\log\gamma$.
        log_bound: $B \ge \sup_x \log\gamma(x) - \log g(x)$. A proposal above the bound is an error.
        max_tries: Largest number of proposals for one output; then an error.
        label: A name for tables.

    Example:
        >>> class Start:
        ...     def sample(self, key):
        ...         return 2.0 * jax.random.normal(key)
        ...     def log_density(self, x):
        ...         return Normal(0.0, 2.0).log_prob(x)
        ...
        >>> log_joint = lambda x: -0.5 * (x - 1.0) ** 2
        >>> sampler = aide.RejectionSampler(Start(), log_joint, log_bound=1.9)
        >>> exact = aide.Tractable.of(Normal(1.0, 1.0))
        >>> abs(aide.estimate(0, exact, sampler, num_gold=50, num_target=50).value) < 1e-4
        True
    """

    determines_log_xi: ClassVar[bool] = True

    proposal: Distribution
    log_joint: LogDensity
    log_bound: Parameter = eqx.field(converter=as_parameter)
    max_tries: int = eqx.field(static=True, default=1_000_000)
    label: str = eqx.field(converter=Label, default="")

    def __check_init__(self) -> None:
        check_size("max_tries", self.max_tries)
        check_finite("log_bound", self.log_bound)
        check_distribution("proposal", self.proposal)

    @property
    def log_z(self) -> None:
        r"""Unknown: $Z = \int\gamma$."""
        return

    def simulate(self, key: Key) -> Draw:
        """Propose until accepted."""

        def attempt(state: _State) -> _State:
            key_x, key_u = jax.random.split(jax.random.fold_in(key, state.tries))
            x = sample_from(self.proposal, key_x)
            log_ratio_x = log_ratio(self.log_joint(x), log_density_of(self.proposal, x))
            excess = log_ratio_x - self.log_bound
            # A NaN stops the loop; jnp.maximum passes it on.
            accepted = (jnp.log(jax.random.uniform(key_u)) < excess) | jnp.isnan(excess)
            return _State(state.tries + 1, x, jnp.maximum(state.log_excess, excess), accepted)

        def unfinished(state: _State) -> Array:
            return (
                ~state.accepted & (state.tries < self.max_tries) & ~(state.log_excess > _ROUNDING)
            )

        shape = jax.eval_shape(lambda k: sample_from(self.proposal, k), key)
        blank = jax.tree.map(lambda s: jnp.zeros(s.shape, s.dtype), shape)
        first = _State(jnp.uint32(0), blank, -jnp.asarray(jnp.inf, float), jnp.asarray(False))
        end = jax.lax.while_loop(unfinished, attempt, first)
        log_xi = as_log(self.log_joint(end.x))
        log_xi = raise_if(log_xi, jnp.isnan(end.log_excess), _UNDEFINED)
        log_xi = raise_if(log_xi, end.log_excess > _ROUNDING, _TOO_LOW)
        log_xi = raise_if(log_xi, ~end.accepted, _GAVE_UP)
        return Draw(end.x, log_xi)

    def regenerate(self, key: Key, value: Value) -> LogProb:
        r"""$\log\gamma(x)$; the key is not used."""
        return as_log(self.log_joint(value))


_ROUNDING = 1e-9
"""Nats by which rounding may exceed the bound: a tight bound is met with equality."""
_TOO_LOW = (
    "log_bound of RejectionSampler proved too low: a proposal had log_joint(x) - log proposal "
    "density above it, so its outputs would not follow the posterior. Raise log_bound to the "
    "maximum of that difference over all x."
)
_UNDEFINED = (
    "the acceptance probability of RejectionSampler is NaN at a proposal: there log_joint, the log "
    "density of the proposal or log_bound is NaN, so its outputs would follow no known density. A "
    "log density may be -inf outside its support, never nan."
)
_GAVE_UP = (
    "RejectionSampler accepted none of max_tries proposals. Use a proposal closer to the posterior "
    "or a tighter log_bound, or raise max_tries."
)
