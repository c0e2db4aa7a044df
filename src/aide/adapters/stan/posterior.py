"""A compiled Stan model with its data."""

import hashlib
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from aide._core.types import LogProb
from aide.adapters.layout import Layout, Variable
from aide.adapters.posterior import AbstractPosterior, Values
from aide.adapters.stan.model import StanCalls, StanModel
from aide.algorithms.reference import ReferenceDraws
from aide.engine.programs.map_runs import in_double

CONSTANTS = "log Z lacks the constants that Stan's ~ drops"
NO_SPLIT = (
    "a Stan program does not tell its prior from its likelihood. Start a sampler from a fitted "
    "distribution instead of the prior: a Gaussian fitted to draws, Pathfinder, a variational fit."
)
METHODS = (
    *("log_density", "log_density_gradient", "param_names"),
    *("param_unc_num", "param_constrain", "param_unconstrain"),
)


class StanPosterior(AbstractPosterior):
    r"""The posterior of a Stan model; `posterior` makes one.

    The log joint is Stan's `target` with the Jacobian, called back from JAX: it has a gradient and
    no second derivatives. BridgeStan keeps all constants (`keeps_constants`), so that $\log Z$ is
    the log evidence. httpstan drops those of `~` statements: divergences do not change, $\log Z$
    does, and reference draws say so in their name.
    """

    def __init__(self, model: StanModel, layout: Layout, derived: tuple[str, ...], label: str):
        super().__init__(layout, derived, label)
        self.keeps_constants = getattr(model, "keeps_constants", True)
        self._calls = StanCalls(model, propto=not self.keeps_constants)
        self._places = _places(model.param_names())
        self._coordinates = _owners(model, self._places)
        self._calls.aide_identity = _fingerprint(model, self._calls)

    def log_joint(self, x: Float[Array, " d"]) -> LogProb:
        r"""$\log p(T(x), y) + \log|\det T'(x)|$, up to a constant unless `keeps_constants`."""
        return self._calls.log_density(x)

    def log_prior(self, x: Float[Array, " d"]) -> LogProb:
        """Unknown: an error says what to do."""
        raise NotImplementedError(NO_SPLIT)

    def log_likelihood(self, x: Float[Array, " d"]) -> LogProb:
        """Unknown: an error says what to do."""
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

    def from_draws(
        self, draws: Values, name: str = "", *, check_score: bool = True
    ) -> ReferenceDraws:
        """Posterior draws by name as a gold standard, taken as exact; see `AbstractPosterior`.

        Draws of CmdStanPy (`fit.stan_variables()`) fit. The name says it if constants are missing.
        """
        found = super().from_draws(draws, name, check_score=check_score)
        if self.keeps_constants:
            return found
        words = f"{found.label}; {CONSTANTS}"
        return ReferenceDraws(found.draws, self.log_joint, has_chains=True, name=words)


def posterior(model: StanModel, label: str = "Stan model") -> StanPosterior:
    """The posterior of a compiled Stan model with its data.

    Args:
        model: A `bridgestan.StanModel`, or what `aide.stan.compile_program` returns.
        label: A name for messages.
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
    places = _places(names)
    owners = _owners(model, places)
    variables = []
    for name, place in places.items():
        size = len(owners[name])
        shape = tuple(np.shape(place))
        flat = shape if len(shape) < 2 and int(np.prod(shape)) == size else (size,)
        variables.append(Variable(name, shape, flat, "as the program declares it"))
    everything = _places(model.param_names(include_tp=True, include_gq=True))
    derived = tuple(name for name in everything if name not in places)
    return StanPosterior(model, Layout(tuple(variables)), derived, label)


def _places(names: list[str]) -> dict[str, np.ndarray]:
    """For every variable, where its entries stand among the scalars: `theta.2.1` is theta[1, 0]."""
    entries: dict[str, dict[tuple[int, ...], int]] = {}
    for place, name in enumerate(names):
        base, *indices = name.split(".")
        entries.setdefault(base, {})[tuple(int(index) - 1 for index in indices)] = place
    found = {}
    for base, where in entries.items():
        shape = tuple(1 + max(column) for column in zip(*where, strict=True))
        found[base] = np.zeros(shape, np.int64)
        for index, place in where.items():
            found[base][index] = place
    return found


def _owners(model: StanModel, places: dict[str, np.ndarray]) -> dict[str, list[int]]:
    """Which unconstrained coordinates each variable is a function of, found by moving them.

    Coordinates stand in the order in which the program declares its parameters. A bound may depend
    on parameters declared before, so that of all variables that move the first is the owner.
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


def _fingerprint(model: StanModel, calls: StanCalls) -> str:
    """A digest of names and of log densities at fixed points: other data give others."""
    points = np.random.default_rng(1).normal(size=(3, calls.dimension))
    facts: list[Any] = [*model.param_names(), calls.propto]
    facts += [float(np.asarray(calls.log_density(jnp.asarray(point)))) for point in points]
    return f"Stan model {hashlib.sha256(repr(facts).encode()).hexdigest()}"
