"""Stan: models of BridgeStan, and programs that the httpstan wheel compiles.

post = aide.stan.posterior(bridgestan.StanModel("model.stan", "data.json"))
gold = post.from_draws(fit.stan_variables())       # CmdStanPy; from_arviz takes all others
"""

import hashlib
from collections.abc import Callable
from threading import Lock
from typing import Any, Protocol

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from aide._core.keywords import keywords
from aide._core.types import LogProb
from aide.adapters.layout import Layout, Variable
from aide.adapters.posterior import AbstractPosterior, Values
from aide.adapters.stan_compiled import HttpstanModel, compile_program
from aide.adapters.stan_fits import StanFit, gaussian_of, places_of, read_csv
from aide.algorithms.reference import ReferenceDraws
from aide.algorithms.tractable import Tractable
from aide.engine.programs.map_runs import in_double
from aide.reporting.numbers import short

__all__ = [
    "HttpstanModel",
    "StanFit",
    "StanModel",
    "StanPosterior",
    "compile_program",
    "posterior",
    "read_csv",
]


NUM_TRIED = 8
"""Number of points of which one must have a log density."""
_lock = Lock()
"""One call at a time: a model without STAN_THREADS stores derivatives in one place."""


class StanModel(Protocol):
    """A model with BridgeStan's methods; `propto` says whether constants are dropped.

    Example:
        >>> class Mean:  # what bridgestan.StanModel is; the mean of one datum, 2.0
        ...     def param_names(self, *, include_tp=False, include_gq=False): return ["mu"]
        ...     def param_unc_num(self): return 1
        ...     def param_constrain(self, theta_unc): return theta_unc
        ...     def param_unconstrain(self, theta): return theta
        ...     def log_density(self, theta_unc, *, propto=True, jacobian=True):
        ...         return float(-0.5 * theta_unc[0] ** 2 - 0.5 * (2.0 - theta_unc[0]) ** 2)
        ...     def log_density_gradient(self, theta_unc, *, propto=True, jacobian=True):
        ...         return self.log_density(theta_unc), 2.0 - 2.0 * theta_unc
        ...
        >>> aide.stan.posterior(Mean()).names
        ('mu',)
    """

    def param_names(self, *, include_tp: bool = False, include_gq: bool = False) -> list[str]:
        """Names of the scalars, such as `theta.1`; on request transformed and generated ones."""
        ...

    def param_unc_num(self) -> int:
        """Length of the unconstrained vector."""
        ...

    def param_constrain(self, theta_unc: np.ndarray) -> np.ndarray:
        """Values on the scale of the model, in the order of `param_names`."""
        ...

    def param_unconstrain(self, theta: np.ndarray) -> np.ndarray:
        """The unconstrained vector of values in the order of `param_names`."""
        ...

    def log_density(
        self, theta_unc: np.ndarray, *, propto: bool = True, jacobian: bool = True
    ) -> float:
        """The log density of an unconstrained vector."""
        ...

    def log_density_gradient(
        self, theta_unc: np.ndarray, *, propto: bool = True, jacobian: bool = True
    ) -> tuple[float, np.ndarray]:
        """The log density and its gradient."""
        ...


RowFunction = Callable[[np.ndarray], float | np.ndarray]
"""A function of the model at one point."""


class StanCalls:
    """Calls of a Stan model that JAX can trace; a batch takes one callback for all points.

    Points that Stan rejects (`reject`, a scale that is not positive or not finite) have density 0,
    as for its own samplers.

    Args:
        model: The model.
        propto: Whether the log density leaves out constants.

    `aide_identity`, once it is set, states the model and the data of the callbacks.
    """

    def __init__(self, model: StanModel, propto: bool):
        self.model, self.propto = model, propto
        self.dimension = model.param_unc_num()
        self.num_values = len(model.param_names())
        self._run: Here = getattr(model, "run", _directly)
        self.aide_identity = ""
        self._log_density = jax.custom_jvp(self._value)
        self._log_density.defjvp(self._slope)

    def log_density(self, x: Float[Array, " d"]) -> Array:
        """The log density with the Jacobian; has a gradient, but no second derivatives."""
        return self._log_density(x)

    def log_density_without_jacobian(self, x: Float[Array, " d"]) -> Array:
        """The log density on the scale of the model; has no gradient."""
        return self._call("log density without Jacobian", self._score(jacobian=False), (), x)

    def constrain(self, x: Float[Array, " d"]) -> Array:
        """Values on the scale of the model; has no gradient."""
        return self._call(
            "constrain", lambda row: self.model.param_constrain(row), (self.num_values,), x
        )

    def unconstrain(self, values: Array) -> Array:
        """The unconstrained vector; NaN where Stan refuses the values."""

        def move(row: np.ndarray) -> np.ndarray:
            try:
                return self.model.param_unconstrain(row)
            except (RuntimeError, ValueError):
                return np.full(self.dimension, np.nan)

        return self._call("unconstrain", move, (self.dimension,), values)

    def _value(self, x: Array) -> Array:
        return self._call("log density", self._score(jacobian=True), (), x)

    def _slope(self, primals: tuple[Array], tangents: tuple[Array]) -> tuple[Array, Array]:
        def both(row: np.ndarray) -> np.ndarray:
            try:
                value, gradient = self.model.log_density_gradient(row, propto=self.propto)
            except (RuntimeError, ValueError):
                value, gradient = -np.inf, np.zeros(self.dimension)
            return np.concatenate([[value], gradient])

        found = self._call("log density and gradient", both, (1 + self.dimension,), primals[0])
        return found[0], found[1:] @ tangents[0]

    def _call(self, what: str, function: RowFunction, shape: tuple[int, ...], x: Array) -> Array:
        """`function` of a vector, by a callback that states its model and function."""
        stated = f"{what} of {self.aide_identity}" if self.aide_identity else None
        return _call(self._run, function, shape, x, stated)

    def _score(self, jacobian: bool) -> Callable[[np.ndarray], float]:
        def score(row: np.ndarray) -> float:
            try:
                return self.model.log_density(row, propto=self.propto, jacobian=jacobian)
            except (RuntimeError, ValueError):
                return -np.inf

        return score


Here = Callable[[Callable[[], np.ndarray]], np.ndarray]
"""A function that does work in the thread that the model needs."""


def _directly(work: Callable[[], np.ndarray]) -> np.ndarray:
    return work()


def _call(
    run: Here, function: RowFunction, shape: tuple[int, ...], x: Array, stated: str | None
) -> Array:
    """`function` of a vector, by a callback; under `vmap`, of every row of the batch in turn.

    Numbers are sent as their 32-bit words: the thread of the callback does not know of
    `jax.enable_x64`, and JAX would round doubles in both directions.
    """
    x = jnp.asarray(x, float)
    kind = np.dtype(x.dtype)
    words = (kind.itemsize // 4,)

    def loop(batch: Array) -> np.ndarray:
        numbers = np.asarray(batch).view(kind)[..., 0]
        rows = numbers.reshape(-1, numbers.shape[-1]).astype(np.float64)
        with _lock:
            found = run(lambda: np.array([function(row) for row in rows]))
        shaped = np.reshape(found, (*numbers.shape[:-1], *shape)).astype(kind)
        return np.ascontiguousarray(shaped[..., None]).view(np.uint32)

    if stated is not None:
        loop.aide_identity = stated  # pyrefly: ignore[missing-attribute]
    sent = jax.lax.bitcast_convert_type(x, jnp.uint32).reshape(*x.shape, *words)
    back = jax.ShapeDtypeStruct((*shape, *words), jnp.uint32)
    received = jax.pure_callback(loop, back, sent, vmap_method="broadcast_all")
    if words == (1,):
        received = received[..., 0]
    return jax.lax.bitcast_convert_type(received, kind)


CONSTANTS = "log Z lacks the constants that Stan's ~ drops"
NO_SPLIT = (
    "a Stan program does not tell its prior from its likelihood. Start a sampler from a fitted "
    "distribution instead of the prior: a Gaussian fitted to draws, Pathfinder, a variational fit."
)
NUM_COMPARED = 50
"""Draws at which the log density in a file is compared with the posterior's."""
SAME_MODEL = 0.01
"""Largest spread in nats of the difference of both: the digits of a file."""
METHODS = (
    *("log_density", "log_density_gradient", "param_names"),
    *("param_unc_num", "param_constrain", "param_unconstrain"),
)


class StanPosterior(AbstractPosterior):
    r"""The posterior of a Stan model; `posterior` makes one.

    The log joint is Stan's `target` with the Jacobian, called back from JAX: it has a gradient but
    no second derivatives. BridgeStan keeps all constants (`keeps_constants`), so that $\log Z$ is
    the log evidence. httpstan drops those of `~` statements: divergences do not change, but
    $\log Z$ does, and the name of reference draws says so.

    Example:
        >>> code = "parameters { real mu; } model { mu ~ normal(0, 1); 2 ~ normal(mu, 1); }"
        >>> model = aide.stan.compile_program(code, {}, optimise=False)
        >>> post = aide.stan.posterior(model)
        >>> post.names, post.dimension, post.keeps_constants
        (('mu',), 1, False)
    """

    def __init__(self, model: StanModel, layout: Layout, derived: tuple[str, ...], label: str):
        super().__init__(layout, derived, label)
        self.keeps_constants = getattr(model, "keeps_constants", True)
        self._calls = StanCalls(model, propto=not self.keeps_constants)
        self._places = places_of(model.param_names())
        self._coordinates = _owners(model, self._places)
        self._calls.aide_identity = _fingerprint(model, self._calls)

    def log_joint(self, x: Float[Array, " d"]) -> LogProb:
        r"""$\log p(T(x), y) + \log|\det T'(x)|$, up to a constant unless `keeps_constants`."""
        return self._calls.log_density(x)

    def log_prior(self, x: Float[Array, " d"]) -> LogProb:
        """Raise, with advice: Stan does not know the prior alone."""
        raise NotImplementedError(NO_SPLIT)

    def log_likelihood(self, x: Float[Array, " d"]) -> LogProb:
        """Raise, with advice: Stan does not know the likelihood alone."""
        raise NotImplementedError(NO_SPLIT)

    def log_jacobian(self, x: Float[Array, " d"]) -> LogProb:
        r"""$\log|\det T'(x)|$."""
        return self._calls.log_density(x) - self._calls.log_density_without_jacobian(x)

    def constrain(self, x: Float[Array, " d"]) -> dict[str, Array]:
        r"""$\theta = T(x)$, by name."""
        values = self._calls.constrain(x)
        return {name: values[place] for name, place in self._places.items()}

    def unconstrain(self, values: Values) -> Float[Array, " d"]:
        r"""$x = T^{-1}(\theta)$."""
        flat = jnp.zeros(self._calls.num_values)
        for name, place in self._places.items():
            flat = flat.at[place].set(jnp.asarray(values[name], float))
        return self._calls.unconstrain(flat)

    @keywords("from_draws")
    def from_draws(
        self, draws: Values, label: str = "", *, check_score: bool = True
    ) -> ReferenceDraws:
        """Posterior draws by name as a gold standard, taken as exact; see `AbstractPosterior`.

        Draws of CmdStanPy (`fit.stan_variables()`) fit. The name says if constants are missing.
        """
        found = super().from_draws(draws, label, check_score=check_score)
        if self.keeps_constants:
            return found
        words = f"{found.label}; {CONSTANTS}"
        return ReferenceDraws(found.draws, self.log_joint, has_chains=True, label=words)

    @keywords("post.guide")
    def guide(self, fit: StanFit, label: str = "") -> Tractable:
        """Pathfinder's, Laplace's or ADVI's fit as a target: a Gaussian of the vector.

        Args:
            fit: What `aide.stan.read_csv` read. The Gaussian is recovered from its draws and their
                log densities; importance resampling of the draws is not part of it.
            label: A name for tables.
        """
        rows = self.flatten({name: fit.draws[name] for name in self.names if name in fit.draws})
        rows = rows.reshape(-1, self.dimension)
        gaussian = gaussian_of(fit, rows)
        if fit.log_p is not None:
            self._compare_densities(rows[:NUM_COMPARED], fit.log_p[:NUM_COMPARED])
        return Tractable.of(gaussian, label=label or f"{fit.method} of CmdStan")

    def _compare_densities(self, rows: np.ndarray, log_p: np.ndarray) -> None:
        """Raise if the file's log density of the model is not the posterior's up to a constant."""
        own = in_double(lambda: jax.vmap(self.log_joint)(jnp.asarray(rows)))
        spread = float(np.ptp(log_p - np.asarray(own)))
        if not spread <= SAME_MODEL + 1e-5 * float(np.ptp(log_p)):
            raise ValueError(
                f"the file's log density of the model differs from that of {self.label} by an "
                f"amount that varies by {short(spread)} nats over {len(rows)} draws: the fit was "
                "made with other data or another model, or without the Jacobian (jacobian=0)."
            )


def posterior(model: StanModel, label: str = "Stan model") -> StanPosterior:
    """The posterior of a compiled Stan model with its data.

    Args:
        model: A `bridgestan.StanModel`, or a model from `aide.stan.compile_program`.
        label: A name for messages.

    Returns:
        The posterior, with methods that make gold standards and targets from draws.

    Example:
        >>> code = "parameters { real mu; } model { mu ~ normal(0, 1); 2 ~ normal(mu, 1); }"
        >>> model = aide.stan.compile_program(code, {}, optimise=False)
        >>> post = aide.stan.posterior(model)
        >>> fit = post.on_vector(Normal(np.ones(1), 0.7), {"mu": 0})
        >>> fit.simulate(jax.random.key(0)).value.shape
        (1,)
    """
    missing = [method for method in METHODS if not callable(getattr(model, method, None))]
    if missing:
        raise TypeError(
            f"{type(model).__name__} has no {', '.join(missing)}: posterior takes a "
            "bridgestan.StanModel, or aide.stan.compile_program(code, data). A CmdStanPy or PyStan "
            "model has no log density of its own; BridgeStan compiles the same program."
        )
    return in_double(_posterior, model, label)


def _posterior(model: StanModel, label: str) -> StanPosterior:
    names = model.param_names()
    _check_defined(model, label)
    places = places_of(names)
    owners = _owners(model, places)
    variables = []
    for name, place in places.items():
        size = len(owners[name])
        shape = tuple(np.shape(place))
        flat = shape if len(shape) < 2 and int(np.prod(shape)) == size else (size,)
        variables.append(Variable(name, shape, flat, "as the program declares it"))
    everything = places_of(model.param_names(include_tp=True, include_gq=True))
    derived = tuple(name for name in everything if name not in places)
    return StanPosterior(model, Layout(tuple(variables)), derived, label)


def _owners(model: StanModel, places: dict[str, np.ndarray]) -> dict[str, list[int]]:
    """The unconstrained coordinates of which each variable is a function, found by moving them.

    Coordinates have the order in which the program declares its parameters. A bound may depend
    on parameters declared before, so that the first variable that moves is the owner.
    """
    center = 0.1 * np.random.default_rng(0).normal(size=model.param_unc_num())
    values = np.asarray(model.param_constrain(center))
    owners: dict[str, list[int]] = {name: [] for name in places}
    for coordinate in range(center.size):
        moved = center.copy()
        moved[coordinate] += 0.5
        changed = np.asarray(model.param_constrain(moved)) != values
        name = next(name for name, place in places.items() if np.any(changed[place]))
        owners[name].append(coordinate)
    return owners


def _check_defined(model: StanModel, label: str) -> None:
    """Raise if the log density is NaN wherever it is tried, as with NaN among the data."""
    points = np.random.default_rng(2).uniform(-2.0, 2.0, (NUM_TRIED, model.param_unc_num()))
    propto, said = not getattr(model, "keeps_constants", True), ""
    for point in points:
        try:
            if not np.isnan(model.log_density(point, propto=propto)):
                return
        except (RuntimeError, ValueError) as error:
            if "is nan" not in str(error):
                return
            said = f" Stan says: {' '.join(str(error).split())}"
    raise ValueError(
        f"the log density of {label} is NaN at {NUM_TRIED} of {NUM_TRIED} points that were tried, "
        f"so that there is no posterior: do the data hold NaN?{said} Leave missing entries out, or "
        "declare them as parameters."
    )


def _fingerprint(model: StanModel, calls: StanCalls) -> str:
    """A digest of names and of log densities at fixed points, which other data change."""
    points = np.random.default_rng(1).normal(size=(3, calls.dimension))
    facts: list[Any] = [*model.param_names(), calls.propto]
    facts += [float(np.asarray(calls.log_density(jnp.asarray(point)))) for point in points]
    return f"Stan model {hashlib.sha256(repr(facts).encode()).hexdigest()}"
