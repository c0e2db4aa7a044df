"""The Dirichlet process mixture of normals, collapsed to partitions, and SMC over its data."""

import math
from collections.abc import Mapping
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from aide._core.jax_compat import is_traced
from aide._core.types import Key, LogProb, Numbers, Value
from aide._core.validate import check_size
from aide.problems.dpmm.clusters import Clusters, log_predictive
from aide.problems.dpmm.move import NextDatum
from aide.problems.dpmm.updates import NAMES, from_value, log_prior, sample_prior, to_value
from aide.smc.policy import AbstractResampler, EveryStep
from aide.smc.smc import Smc
from aide.smc.steps import Steps


def as_observations(data: Numbers) -> Any:
    """A vector of finite numbers in double precision; raise an error that names a wrong value."""
    if is_traced(data):
        return data
    try:
        array = np.asarray(data)
    except ValueError:
        raise ValueError(f"data must be a list of numbers, got {data!r}.") from None
    if array.dtype.kind not in "iuf" or array.ndim != 1 or array.size == 0:
        raise ValueError(f"data must be a list of at least one number, got {data!r}.")
    array = array.astype(np.float64)
    wrong = np.flatnonzero(~np.isfinite(array))
    if wrong.size:
        raise ValueError(f"data must be finite; datum {wrong[0]} is {array[wrong[0]]}.")
    if np.max(np.abs(array)) > 1e100:
        largest = array[np.argmax(np.abs(array))]
        raise ValueError(f"data must be of order 1, got {largest:.6g}: standardise them first.")
    return array


def as_fixed(fixed: Mapping[str, float] | None) -> dict[str, float] | None:
    """All five hyperparameters as floats; raise an error that names a wrong one."""
    if fixed is None:
        return None
    if not isinstance(fixed, dict) or set(fixed) != set(NAMES):
        raise ValueError(f"fixed must be a dict of the hyperparameters {NAMES}, got {fixed!r}.")
    for name, number in fixed.items():
        is_number = isinstance(number, int | float | np.number) and np.isfinite(number)
        if not is_number or (name != "m" and number <= 0):
            raise ValueError(
                f"fixed[{name!r}] must be a positive number (m: any number), got {number!r}."
            )
    return {name: float(fixed[name]) for name in NAMES}


PROPOSALS = ("prior", "optimal")
"""Names of the proposals for the cluster of a new datum."""


class DirichletMixture(eqx.Module):
    r"""Data $y_{1:n}$ in clusters, whose number is unknown.

    The partition follows a Chinese restaurant process with concentration
    $\alpha \sim \mathrm{Gamma}(1, 1)$. Within a cluster $y_i \sim N(\mu, 1/\tau)$ with
    $\tau \sim \mathrm{Gamma}(\nu/2, s/2)$ (shape, rate; mean $\nu/s$) and
    $\mu \sim N(m, 1/(r\tau))$, both integrated out; $m \sim N(0, 1)$ and
    $r, \nu, s \sim \mathrm{Gamma}(1, 1)$. Standardise the data first: the prior is of order 1.

    A value is a dict: `labels` numbers the cluster of each datum, in order of first appearance
    (0, 0, 1, 0, 2, …), and `alpha`, `m`, `r`, `nu` and `s` are the hyperparameters; the density is
    with respect to Lebesgue measure of these.

    Args:
        data: $y_{1:n}$, in the order in which SMC adds them.
        fixed: Known hyperparameters, as a dict of all five; they then have no density.

    Example:
        >>> mixture = aide.problems.DirichletMixture([-1.0, -0.9, 1.1])
        >>> mixture.smc(num_particles=10).num_particles
        10
    """

    data: Float[Array, " num"] = eqx.field(converter=as_observations)
    fixed: dict[str, float] | None = eqx.field(converter=as_fixed, default=None)

    def log_joint(self, value: Value) -> LogProb:
        r"""$\log p(\alpha, m, r, \nu, s) + \log p(z \mid \alpha) + \log p(y \mid z, m, r, \nu, s)$.

        Labels may be any integers. $-\infty$ outside the support of the hyperparameters.
        """
        hyper, prior = from_value(value), self._log_hyper(value)
        data = jnp.asarray(self.data, float)
        same, is_first = _compare(value["labels"])
        size = jnp.sum(same, axis=1, dtype=data.dtype)
        mean = jnp.sum(same * data, axis=1) / size
        spread = jnp.sum(same * (data - mean[:, None]) ** 2, axis=1)
        log_gamma = jax.lax.lgamma
        s_n = hyper.s + spread + hyper.r * size / (hyper.r + size) * (mean - hyper.m) ** 2
        cluster = (
            log_gamma(size)
            + jnp.log(hyper.alpha)
            + log_gamma(0.5 * (hyper.nu + size))
            - log_gamma(0.5 * hyper.nu)
            + 0.5 * (hyper.nu * jnp.log(hyper.s) - (hyper.nu + size) * jnp.log(s_n))
            + 0.5 * (jnp.log(hyper.r) - jnp.log(hyper.r + size))
        )
        num = data.shape[0]
        total = (
            log_gamma(hyper.alpha) - log_gamma(hyper.alpha + num) - 0.5 * num * math.log(math.pi)
        )
        total = total + jnp.sum(jnp.where(is_first, cluster, 0.0)) + prior
        return jnp.where(prior == -jnp.inf, -jnp.inf, total)

    def smc(
        self,
        num_particles: int,
        *,
        proposal: str = "prior",
        num_sweeps: int = 0,
        resampler: AbstractResampler | None = None,
        label: str = "",
    ) -> Smc:
        """SMC over the data, one datum per step.

        Only the numbers of data and particles are compiled in; everything else may change freely.

        Args:
            num_particles: Number of particles.
            proposal: Draw a new datum's cluster from the Chinese restaurant process ("prior") or
                given the datum ("optimal").
            num_sweeps: Sweeps of Gibbs and Metropolis–Hastings updates over the data so far,
                before each new datum; see `rejuvenate` in `aide.problems.dpmm.move`.
            resampler: An `EveryStep`, `EssBelow` or `Never`; by default multinomial at every step.
            label: A name for tables.
        """
        check_size("num_sweeps", num_sweeps, 0)
        if proposal not in PROPOSALS:
            raise ValueError(f"proposal must be one of {PROPOSALS}, got {proposal!r}.")
        next_datum = NextDatum(
            self.data,
            np.asarray(num_sweeps, np.int32),
            np.asarray(proposal == "optimal"),
            np.asarray(self.fixed is not None),
        )
        return Smc(
            _Start(self),
            (Steps(next_datum, np.arange(1, self.data.shape[0], dtype=np.int32)),),
            self.log_joint,
            num_particles,
            self._log_first,
            EveryStep() if resampler is None else resampler,
            label,
        )

    def num_clusters(self, value: Value) -> Int[Array, ""]:
        """The number of clusters of a value, for use as a probe."""
        return jnp.sum(_compare(value["labels"])[1])

    def _log_first(self, value: Value) -> LogProb:
        """The joint density of hyperparameters and the first datum."""
        zero = jnp.zeros((), float)
        y = jnp.asarray(self.data, float)[0]
        predictive = log_predictive(from_value(value), Clusters(zero, zero, zero), y)
        prior = self._log_hyper(value)
        return jnp.where(prior == -jnp.inf, -jnp.inf, prior + predictive)

    def _log_hyper(self, value: Value) -> LogProb:
        if self.fixed is None:
            return log_prior(from_value(value))
        differs = [jnp.asarray(value[name] != number) for name, number in self.fixed.items()]
        return jnp.where(jnp.any(jnp.stack(differs)), -jnp.inf, 0.0)


class _Start(eqx.Module):
    """Hyperparameters from their prior, and the first datum alone in cluster 0."""

    model: DirichletMixture

    def sample(self, key: Key) -> Value:
        labels = jnp.full(self.model.data.shape, -1, jnp.int32).at[0].set(0)
        hyper = self.model.fixed
        if hyper is None:
            return {"labels": labels, **to_value(sample_prior(key))}
        return {"labels": labels, **{name: jnp.asarray(hyper[name], float) for name in hyper}}

    def log_density(self, x: Value) -> LogProb:
        return self.model._log_hyper(x)


def _compare(labels: Any) -> tuple[Bool[Array, "num num"], Bool[Array, " num"]]:
    """Whether two data share a cluster, and whether a datum is the first of its cluster."""
    labels = jnp.asarray(labels)
    same = labels[:, None] == labels[None, :]
    return same, ~jnp.any(jnp.tril(same, -1), axis=1)
