r"""A posterior whose variables have names, and approximations of it on its vector.

Algorithms work on one vector $x \in R^d$: the unconstrained values of all variables. The posterior
assigns its entries to variables, and has the density on either scale.
"""

import warnings
import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Float

from aide._core.distribution import Distribution, log_density_of, sample_from
from aide._core.keywords import keywords
from aide._core.types import Key, LogProb
from aide.adapters.arviz import divergences_in, draws_in
from aide.adapters.layout import Layout, flatten_draws
from aide.algorithms.draw_arrays import column_names
from aide.algorithms.reference import ReferenceDraws
from aide.algorithms.tractable import Tractable
from aide.engine.programs.map_runs import in_double
from aide.gold_standards.make import MAX_EVALUATIONS, MAX_LOOSENESS, gold_standard
from aide.gold_standards.pilots.losses import StartError
from aide.gold_standards.result import GoldStandard
from aide.kernels.kernel import AnyKernel
from aide.reporting.numbers import PASSED, p_value

Values = Mapping[str, ArrayLike]
"""Values of the variables by name, on the scale of the model."""


_constrain_rows: weakref.WeakKeyDictionary[Any, dict[Any, Any]] = weakref.WeakKeyDictionary()
"""`constrain` for rows, of every posterior, compiled once for all rows of one shape.

Compiled programs are kept, and no traced ones. JAX (0.10) converts a NumPy array once for all
precisions as long as a traced program holds it: a model's own array of indices, traced here in
double precision, would stay `int64` in the user's single precision, and be an error there.
"""


def check_data(what: str, data: Values, log_likelihoods: Callable[[], Any], advice: str) -> None:
    """Raise if data hold NaN and the log likelihood is NaN wherever it is tried.

    A model that masks or imputes missing entries has a log likelihood, and passes.

    Args:
        what: The model in words.
        data: Arrays by name; other objects count as without NaN.
        log_likelihoods: Log likelihoods at some points of the support, computed if there is a NaN.
        advice: What the library offers for missing entries.
    """
    found = []
    for name, value in data.items():
        kind = getattr(value, "dtype", None)
        array = np.asarray(value) if kind is not None or np.ndim(value) == 0 else np.empty(0)
        num = int(np.isnan(array).sum()) if array.dtype.kind == "f" else 0
        found += [f"{num:,} of {array.size:,} entries of {name}"] if num else []
    if found and np.isnan(np.asarray(log_likelihoods())).all():
        raise ValueError(
            f"{what} got data with NaN ({', '.join(found)}), and its log likelihood is NaN at "
            f"every point that was tried, so that there is no posterior. {advice}"
        )


def with_divergences(gold: ReferenceDraws, num: int) -> ReferenceDraws:
    """The draws with a caveat, and a warning, if steps of their sampler diverged."""
    if not num:
        return gold
    words = (
        f"{num:,} of {gold.chains.size:,} transitions of the sampler diverged, so that draws of a "
        "strongly curved region may be missing"
    )
    warnings.warn(
        f"{gold.label}: {words}. Sample with a larger target acceptance or other coordinates.",
        UserWarning,
        stacklevel=4,
    )
    return gold.with_caveat(words)


SAME_MODEL = 1e-6
"""Largest spread in nats of the difference of two log joints that count as one model's."""


def warn_of_other(
    own: "AbstractPosterior", other: "AbstractPosterior", subject: str, noun: str
) -> None:
    """Warn if two posteriors of the same coordinates have different log joints.

    Args:
        own: The posterior at hand.
        other: The posterior for which a fit or draws were made.
        subject: The fit or the draws with a verb, such as `guide was`.
        noun: The fit or the draws.
    """
    points = np.random.default_rng(0).uniform(-1.0, 1.0, (4, own.dimension))

    def difference(x: np.ndarray) -> float:
        return float(own.log_joint(jnp.asarray(x)) - other.log_joint(jnp.asarray(x)))

    if not np.ptp([in_double(difference, x) for x in points]) <= SAME_MODEL:
        warnings.warn(
            f"the {subject} made for {other.label}, whose log joint is not that of {own.label}, "
            f"although variables share their names: divergences will be about this posterior, not "
            f"the model of the {noun}.",
            UserWarning,
            stacklevel=4,
        )


class AbstractPosterior(ABC):
    r"""A posterior $p(\theta \mid y)$ of named variables $\theta = T(x)$, $x \in R^d$.

    Gold standards and targets made by it all output the vector $x$; `constrain` gives the
    values by name. Divergences do not depend on the scale: $T$ is one-to-one.

    An adapter defines the six abstract methods, for one $x$, traceable by JAX. Algorithms call
    them in double precision; call them yourself inside of
    `jax.enable_x64(True)`.

    Args:
        layout: The variables and their places in $x$.
        derived: Names of functions of the variables (deterministic sites, generated quantities),
            which draws may have and which are left out.
        label: A name for messages.

    Example:
        >>> class Mean(aide.adapters.AbstractPosterior):  # of one datum, 2.0, with a normal prior
        ...     def log_prior(self, x): return Normal(0.0, 1.0).log_prob(x[0])
        ...     def log_likelihood(self, x): return Normal(x[0], 1.0).log_prob(2.0)
        ...     def log_joint(self, x): return self.log_prior(x) + self.log_likelihood(x)
        ...     def log_jacobian(self, x): return jnp.zeros(())
        ...     def constrain(self, x): return {"mean": x[0]}
        ...     def unconstrain(self, values): return jnp.atleast_1d(values["mean"])
        ...
        >>> post = Mean(aide.adapters.Layout((aide.adapters.Variable("mean"),)))
        >>> fit = post.on_vector(Normal(np.ones(1), 0.7), {"mean": 0})
        >>> fit.simulate(jax.random.key(0)).value.shape, post.names
        ((1,), ('mean',))
    """

    def __init__(self, layout: Layout, derived: tuple[str, ...] = (), label: str = "posterior"):
        self.layout = layout
        self.derived = derived
        self.label = label

    @abstractmethod
    def log_joint(self, x: Float[Array, " d"]) -> LogProb:
        r"""$\log p(T(x), y) + \log|\det T'(x)|$, on the unconstrained scale."""

    @abstractmethod
    def log_prior(self, x: Float[Array, " d"]) -> LogProb:
        r"""$\log p(T(x)) + \log|\det T'(x)|$, on the unconstrained scale.

        A library that does not separate prior and likelihood raises `NotImplementedError`.
        """

    @abstractmethod
    def log_likelihood(self, x: Float[Array, " d"]) -> LogProb:
        r"""$\log p(y \mid T(x))$; law: `log_joint` is `log_prior` + `log_likelihood`."""

    @abstractmethod
    def log_jacobian(self, x: Float[Array, " d"]) -> LogProb:
        r"""$\log|\det T'(x)|$, as in the densities of the library."""

    @abstractmethod
    def constrain(self, x: Float[Array, " d"]) -> dict[str, Array]:
        r"""$\theta = T(x)$, by name."""

    @abstractmethod
    def unconstrain(self, values: Values) -> Float[Array, " d"]:
        r"""$x = T^{-1}(\theta)$; not all finite if $\theta$ is outside the support.

        Law: `unconstrain(constrain(x))` is `x`.
        """

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.label}: {', '.join(self.names)})"

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the variables."""
        return self.layout.names

    @property
    def dimension(self) -> int:
        """Length of $x$."""
        return self.layout.dimension

    def log_joint_of(self, values: Values) -> LogProb:
        r"""$\log p(\theta, y)$ on the scale of the model: without the Jacobian."""
        x = self.unconstrain(values)
        inside = jnp.all(jnp.isfinite(x))
        log_joint = self.log_joint(x) - self.log_jacobian(x)
        return jnp.where(inside, log_joint, -jnp.inf)

    def flatten(self, draws: Values) -> np.ndarray:
        """Draws by name as an array (chain, draw, coordinate) of unconstrained numbers.

        Args:
            draws: Constrained draws: arrays (chain, draw, ...) or (draw, ...), all alike. A missing
                or unknown name, a wrong shape or a value outside the support is an error that
                names it.
        """
        return flatten_draws(self, draws)

    @keywords("post.gold")
    def gold(
        self,
        key: Key | int,
        *,
        start: Distribution | ArrayLike | None = None,
        max_looseness: float = MAX_LOOSENESS,
        kernel: AnyKernel | None = None,
        max_evaluations: float = MAX_EVALUATIONS,
        max_seconds: float | None = None,
        num_pilots: int | None = None,
        num_values: ArrayLike | None = None,
        progress: bool | None = None,
    ) -> GoldStandard:
        """A gold standard for this posterior, made by `aide.gold_standard`.

        Args:
            key: A JAX key, or an integer seed.
            start: A distribution over vectors from which the path starts. By default the prior of
                the model, if it can be sampled; otherwise, or if the log density has no value
                at most draws of the prior, heavy tails about the modes that optimisers find about
                zero. The record states which.
            max_looseness: Looseness in nats that is small enough.
            kernel: Your own kernel for all temperatures.
            max_evaluations: Approximate limit of evaluations of the log density or its gradient.
            max_seconds: Approximate limit in seconds; see `aide.gold_standard`.
            num_pilots: Particles of the pilots; by default chosen by the dimension.
            num_values: For integers: the number of values 0, 1, 2, … of each, one number or an
                array of the length of the vector.
            progress: Show progress bars; by default in long runs at a terminal.
        """
        make = partial(
            gold_standard,
            key,
            self.log_joint,
            max_looseness=max_looseness,
            kernel=kernel,
            max_evaluations=max_evaluations,
            max_seconds=max_seconds,
            num_pilots=num_pilots,
            num_values=num_values,
            progress=progress,
            names=self.layout.coordinates,
        )
        prior = self.prior_start() if start is None else None
        if prior is not None:
            try:
                return make(prior)
            except StartError:  # raised within the first evaluations
                pass
        return make(np.zeros(self.dimension) if start is None else start)

    def prior_start(self) -> Distribution | None:
        """The prior as a distribution over vectors; `None` if it cannot be sampled."""
        return None

    def sample_joint(self, key: Key) -> tuple[Float[Array, " d"], dict[str, Any]]:
        """Draw parameters from the prior, as the vector, and data given them, by name.

        It is the `sample_joint` of `aide.check_calibration` and of `aide.audit_simulated`.
        """
        raise NotImplementedError(
            f"{type(self).__name__} cannot simulate data: write sample_joint(key) -> (x, y) as a "
            "function, with x = post.unconstrain(values)."
        )

    def log_joint_given(self, x: Float[Array, " d"], data: Mapping[str, Any]) -> LogProb:
        """The log joint for other data than the posterior's own, by name as in `sample_joint`."""
        raise NotImplementedError(
            f"{type(self).__name__} has the log joint for its own data alone: write "
            "log_joint(x, y) as a function."
        )

    def values_of(self, rows: ArrayLike) -> dict[str, np.ndarray]:
        """Convert outputs, vectors in rows, to values by name on the model's scale."""

        def constrain_all() -> dict[str, np.ndarray]:
            array = jnp.asarray(rows)
            programs = _constrain_rows.setdefault(self, {})
            kind = array.shape, array.dtype
            if kind not in programs:
                posterior = weakref.proxy(self)  # a program must not keep its posterior alive
                run = jax.jit(jax.vmap(lambda x: posterior.constrain(x)))
                programs[kind] = run.lower(array).compile()
            return jax.tree.map(np.asarray, programs[kind](array))

        return in_double(constrain_all)

    @keywords("from_draws")
    def from_draws(
        self, draws: Values, label: str = "", *, check_score: bool = True
    ) -> ReferenceDraws:
        r"""Posterior draws by name as a gold standard, taken as exact.

        Args:
            draws: See `flatten`.
            label: A name for tables.
            check_score: Whether to test that the draws belong to the log joint
                (`ReferenceDraws.score_check`): other data or another model are an error that names
                the variables; a p-value below 1% is a warning.
        """
        rows = self.flatten(draws)
        label = label or f"{rows.shape[0] * rows.shape[1]:,} draws"
        gold = ReferenceDraws(rows, self.log_joint, has_chains=True, label=label)
        if check_score:
            self._check_score(gold)
        return gold

    @keywords("from_arviz")
    def from_arviz(self, data: Any, label: str = "", *, check_score: bool = True) -> ReferenceDraws:
        """The posterior group of an ArviZ `InferenceData` or `DataTree`, as a gold standard.

        Args:
            data: The data, or its `posterior` group, with dimensions `chain` and `draw`. Variables
                that the model does not have are an error unless they are `derived`.
            label: A name for tables.
            check_score: See `from_draws`.
        """
        made = self.from_draws(draws_in(data), label, check_score=check_score)
        return with_divergences(made, divergences_in(data))

    def _check_score(self, gold: ReferenceDraws) -> None:
        check = gold.score_check()
        if check.passed:
            if check.verdict != PASSED:
                warnings.warn(
                    f"{gold.label} may not be draws from {self.label} ({p_value(check.p_value)}): "
                    "print(gold.score_check()) shows what speaks against them; more draws decide.",
                    UserWarning,
                    stacklevel=4,
                )
            return
        names = dict(zip(column_names(gold.draws), self.layout.coordinates, strict=True))
        found = [test for test in check.worst if test.p_value < 1e-4]
        worst = [names.get(test.coordinate, test.coordinate) for test in found]
        raise ValueError(
            f"{gold.label} are not draws from {self.label} ({p_value(check.p_value)}): moves "
            f"of {', '.join(dict.fromkeys(worst))} are not balanced. Usual causes: other "
            f"data or another model than the sampler's; chains that have not converged (R-hat is "
            f"{gold.rhat:.3f}). check_score=False takes the draws as they are."
        )

    def on_vector(
        self, distribution: Distribution, order: Mapping[str, ArrayLike], label: str = ""
    ) -> Tractable:
        r"""A target that is a distribution on $R^d$ with its own order of coordinates.

        Args:
            distribution: Anything with `sample` and `log_prob`, over vectors of length $d$.
            order: For every variable, the places of its unconstrained entries in those vectors:
                integers of its unconstrained shape.
            label: A name for tables.
        """
        self.layout.check_names("order", order)
        parts = {name: jnp.asarray(np.asarray(index)) for name, index in order.items()}
        index = np.asarray(self.layout.pack(parts))
        if sorted(index.tolist()) != list(range(self.dimension)):
            raise ValueError(
                f"order must hold each of 0 to {self.dimension - 1} once, got {index.tolist()}."
            )
        target = ReorderedTarget(distribution, index)
        return Tractable(target.sample, target.log_density, label=label)

    def on_values(
        self,
        sample: Callable[[Key], Values],
        log_density: Callable[[Values], Any],
        label: str = "",
    ) -> Tractable:
        r"""A target on the scale of the model: $\log q(x) = \log q(T(x)) + \log|\det T'(x)|$.

        Args:
            sample: Draws values by name from a key.
            log_density: Their normalised log density.
            label: A name for tables.
        """
        target = ConstrainedTarget(self, sample, log_density)
        return Tractable(target.sample, target.log_density, label=label)


class ReorderedTarget(eqx.Module):
    """A distribution over vectors, with its coordinates in another order; the Jacobian is 1.

    Args:
        distribution: A distribution over vectors $z$.
        index: $x_i = z_{index_i}$.
    """

    distribution: Distribution
    index: np.ndarray

    def sample(self, key: Key) -> Float[Array, " d"]:
        """Draw $z$ and reorder it."""
        return sample_from(self.distribution, key)[self.index]

    def log_density(self, x: Float[Array, " d"]) -> LogProb:
        """The density of $z$."""
        return log_density_of(self.distribution, jnp.zeros_like(x).at[self.index].set(x))


class ConstrainedTarget(eqx.Module):
    r"""A density of values by name, as a density of the unconstrained vector.

    $\log q(x) = \log q(T(x)) + \log|\det T'(x)|$.
    """

    posterior: AbstractPosterior
    sample_values: Callable[[Key], Any]
    log_density_of_values: Callable[[Any], Any]

    def sample(self, key: Key) -> Float[Array, " d"]:
        """Draw values and unconstrain them."""
        return self.posterior.unconstrain(self.sample_values(key))

    def log_density(self, x: Float[Array, " d"]) -> LogProb:
        """The density of the values, and the Jacobian."""
        log_density = self.log_density_of_values(self.posterior.constrain(x))
        return log_density + self.posterior.log_jacobian(x)
