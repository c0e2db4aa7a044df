"""When to resample: at every step, never, or when the effective sample size falls."""

from abc import abstractmethod
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from aide._core.numerics import as_parameter, scaled_exp
from aide._core.types import Key, Parameter
from aide.smc.resampling import NOBODY, AbstractScheme, Multinomial, as_scheme


class Resampled(NamedTuple):
    r"""The result of resampling: ancestors and new weights.

    `log_evidence` is the factor $\log \frac1P \sum_i w_i$ of $\hat p(y)$ that the new weights no
    longer hold. `ancestors` is `None` if every particle is its own ancestor.
    """

    ancestors: Int[Array, " num"] | None
    log_weights: Float[Array, " num"]
    log_evidence: Float[Array, ""]
    retained: Int[Array, ""] | None


class AbstractResampler(eqx.Module):
    """A scheme, and the decision when to use it, which depends on the weights alone."""

    @abstractmethod
    def __call__(
        self, key: Key, log_weights: Float[Array, " num"], retained: Int[Array, ""] | None
    ) -> Resampled:
        """Resample; if `retained` is an index, by the twin that keeps this particle alive."""

    def around(
        self, key: Key, log_weights: Float[Array, " num"], retained: Int[Array, ""]
    ) -> Resampled:
        """Resample a run that may be free: no particle is kept where `retained` is `NOBODY`.

        The decision depends on the weights alone, so that the free and the conditional result
        differ in their ancestors only.
        """
        free = self(key, log_weights, None)
        twin = self(key, log_weights, jnp.maximum(retained, 0))
        is_free, ancestors = retained == NOBODY, free.ancestors
        if ancestors is not None and twin.ancestors is not None:
            ancestors = jnp.where(is_free, ancestors, twin.ancestors)
        assert twin.retained is not None
        slot = jnp.where(is_free, NOBODY, twin.retained)
        return Resampled(ancestors, twin.log_weights, twin.log_evidence, slot)


class EveryStep(AbstractResampler):
    """Resample before every move.

    Args:
        scheme: "multinomial" (the default), "stratified", "systematic", "residual", or an instance
            of one of their classes.

    Example:
        >>> aide.smc.EveryStep("systematic")
        EveryStep(scheme=Systematic())
    """

    scheme: AbstractScheme = eqx.field(converter=as_scheme, default=Multinomial())

    def __call__(
        self, key: Key, log_weights: Float[Array, " num"], retained: Int[Array, ""] | None
    ) -> Resampled:
        r"""Resample; $\log \frac1P \sum_i w_i$ goes into the evidence. One particle stays."""
        fresh = jnp.zeros_like(log_weights)
        if log_weights.shape[0] == 1:
            return Resampled(None, fresh, log_weights[0], retained)
        weights, shift = scaled_exp(log_weights)
        log_evidence = shift + jnp.log(jnp.mean(weights))
        if retained is None:
            return Resampled(self.scheme.ancestors(key, weights), fresh, log_evidence, None)
        ancestors, slot = self.scheme.conditional(key, weights, retained)
        return Resampled(ancestors, fresh, log_evidence, slot)

    def around(
        self, key: Key, log_weights: Float[Array, " num"], retained: Int[Array, ""]
    ) -> Resampled:
        """The same, by the scheme's twin for runs that may be free."""
        return EveryStep(_Around(self.scheme))(key, log_weights, retained)


class Never(AbstractResampler):
    """Carry the weights to the end (importance sampling on paths).

    Example:
        >>> resampled = aide.smc.Never()(jax.random.key(0), jnp.log(jnp.array([0.1, 0.9])), None)
        >>> resampled.ancestors is None
        True
    """

    def __call__(
        self, key: Key, log_weights: Float[Array, " num"], retained: Int[Array, ""] | None
    ) -> Resampled:
        """Keep all particles and their weights."""
        return Resampled(None, log_weights, jnp.zeros((), log_weights.dtype), retained)


class EssBelow(AbstractResampler):
    r"""Resample when $(\sum w)^2/\sum w^2 < $ `fraction` $\cdot\,P$.

    Weights are exchangeable between the conditional and the unconditional run, so the decision is
    the same function of the trace in both and $\xi$ stays valid.

    Args:
        fraction: Resample if the effective sample size is below this share of the particles.
        scheme: As in `EveryStep`.

    Example:
        >>> aide.tempered_smc(
        ...     Normal(0.0, 2.0),
        ...     lambda x: -x * x,
        ...     kernel=aide.kernels.RandomWalk(0.5),
        ...     num_particles=10,
        ...     num_temperatures=5,
        ...     resampler=aide.smc.EssBelow(0.5, "stratified"),
        ... ).resampler
        EssBelow(fraction=0.5, scheme=Stratified())
    """

    fraction: Parameter = eqx.field(converter=as_parameter, default=0.5)
    scheme: AbstractScheme = eqx.field(converter=as_scheme, default=Multinomial())

    def __check_init__(self) -> None:
        if not isinstance(self.fraction, jax.Array) and not 0.0 <= self.fraction <= 1.0:
            raise ValueError(f"fraction must lie between 0 and 1, got {self.fraction}.")

    def __call__(
        self, key: Key, log_weights: Float[Array, " num"], retained: Int[Array, ""] | None
    ) -> Resampled:
        """Compute both outcomes, and choose by the effective sample size."""
        num = log_weights.shape[0]
        if num == 1:
            return EveryStep(self.scheme)(key, log_weights, retained)
        weights, _ = scaled_exp(log_weights)
        low = jnp.sum(weights) ** 2 < self.fraction * num * jnp.sum(weights**2)
        done = EveryStep(self.scheme)(key, log_weights, retained)
        assert done.ancestors is not None
        slot = None
        if done.retained is not None and retained is not None:
            slot = jnp.where(low, done.retained, retained)
        return Resampled(
            jnp.where(low, done.ancestors, jnp.arange(num, dtype=done.ancestors.dtype)),
            jnp.where(low, done.log_weights, log_weights),
            jnp.where(low, done.log_evidence, 0.0),
            slot,
        )

    def around(
        self, key: Key, log_weights: Float[Array, " num"], retained: Int[Array, ""]
    ) -> Resampled:
        """The same, by the scheme's twin for runs that may be free."""
        return EssBelow(self.fraction, _Around(self.scheme))(key, log_weights, retained)


class _Around(AbstractScheme):
    """A scheme whose twin also handles free runs."""

    scheme: AbstractScheme

    def ancestors(self, key: Key, weights: Float[Array, " num"]) -> Int[Array, " num"]:
        return self.scheme.ancestors(key, weights)

    def conditional(
        self, key: Key, weights: Float[Array, " num"], retained: Int[Array, ""]
    ) -> tuple[Int[Array, " num"], Int[Array, ""]]:
        return self.scheme.around(key, weights, retained)


def as_resampler(resampler: object) -> AbstractResampler:
    """Return a resampler; a scheme, or the name of one, is used at every step."""
    if isinstance(resampler, AbstractResampler):
        return resampler
    if isinstance(resampler, str | AbstractScheme):
        return EveryStep(as_scheme(resampler))
    raise TypeError(
        "resampler must be aide.smc.EveryStep(...), aide.smc.EssBelow(...), aide.smc.Never() or "
        f"the name of a scheme such as 'systematic', got {resampler!r}."
    )
