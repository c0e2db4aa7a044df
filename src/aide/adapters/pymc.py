"""PyMC: models, ADVI fits and traces.

post = aide.pymc.posterior(model)
gold = post.from_arviz(idata)        # of pm.sample or pm.sample_smc
target = post.guide(approx)          # of pm.fit
"""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from pymc import Model, logcdf
from pymc.distributions.moments import mean
from pymc.exceptions import UndefinedMomentException
from pymc.pytensorf import compile, find_rng_nodes, reseed_rngs
from pymc.sampling.jax import get_jaxified_graph  # noqa: E402
from pymc.variational.approximations import FullRank, MeanField
from pytensor import tensor
from pytensor.compile.mode import Mode
from pytensor.compile.sharedvalue import SharedVariable
from pytensor.graph.basic import Constant
from pytensor.graph.replace import graph_replace
from pytensor.graph.traversal import ancestors
from pytensor.tensor.random.basic import NormalRV
from pytensor.tensor.random.type import RandomType

from aide._core.types import Key, LogProb
from aide.adapters.gaussian import Gaussian
from aide.adapters.layout import Layout, Variable
from aide.adapters.posterior import AbstractPosterior, Values, check_data, warn_of_other
from aide.adapters.predictions import Prediction, ValuesByName, predictions_of
from aide.algorithms.tractable import Tractable
from aide.engine.programs.map_runs import in_double

NUM_TRIED = 4
"""Number of points at which the log likelihood is computed where data hold NaN."""


def predictable(model: Model) -> list[str]:
    """Names of the deterministic and observed variables."""
    return [one.name for one in (*model.deterministics, *model.observed_RVs)]


def graph_of(model: Model, name: str, threshold: float | None) -> Any:
    """A deterministic value, or the mean of a distribution; with a threshold, its probability."""
    variable: Any = model[name]
    is_random = variable in model.observed_RVs
    if threshold is None and not is_random:
        return variable
    if threshold is not None and not is_random:
        return (variable <= threshold).astype("float64")
    try:
        return mean(variable) if threshold is None else _share_below(variable, threshold)
    except (NotImplementedError, UndefinedMomentException) as error:
        raise ValueError(cannot(name, threshold, error)) from None


def _share_below(variable: Any, threshold: float) -> Any:
    """The probability of every element to be at or below the threshold."""
    op: Any = variable.owner.op
    if isinstance(op, NormalRV):  # PyMC's log probability has an operation that JAX lacks
        parameters: Any = op.dist_params(variable.owner)
        location, scale = parameters
        erfc: Any = tensor.erfc
        return 0.5 * erfc((location - threshold) / (scale * np.sqrt(2)))
    log_share: Any = logcdf(variable, np.float64(threshold), warn_rvs=False)
    return log_share.exp()


def cannot(name: str, threshold: float | None, error: Exception) -> str:
    """Why a variable cannot be predicted, and what to do."""
    what = "mean" if threshold is None else "distribution function"
    return (
        f"{name}: there is no {what} of its distribution in PyMC that JAX can compute ({error}). "
        "Write a function of the posterior's variables instead."
    )


_flags = os.environ.get("XLA_FLAGS")

# PyMC's import asks XLA for 100 devices for its own chains; programs of aide need cores instead.
if _flags is None:
    os.environ.pop("XLA_FLAGS", None)
else:
    os.environ["XLA_FLAGS"] = _flags

__all__ = [
    "PymcPosterior",
    "posterior",
]

Node = Any
"""A variable of PyTensor."""
PLAIN = Mode(linker="py", optimizer=None)  # pyrefly: ignore[bad-argument-type]
"""Evaluates a graph without compiling it."""


def as_jax(inputs: Sequence[Node], outputs: Sequence[Node]) -> Callable[..., tuple[Any, ...]]:
    """The outputs as a function of the inputs that JAX can trace, with data compiled in."""
    try:
        function = get_jaxified_graph(inputs=list(inputs), outputs=list(outputs))
    except NotImplementedError as error:
        raise NotImplementedError(
            f"the model needs an operation that PyTensor cannot translate to JAX: {error} Write "
            "that part of the model with other operations (pm.Potential, pm.CustomDist with logp), "
            "or make the posterior from a program of another library."
        ) from None
    return lambda *arguments: tuple(function(*arguments))


def unconstrain_graph(model: Model) -> tuple[list[Node], list[Node]]:
    """Inputs: values of the free variables, on the scale of the model. Outputs: unconstrained."""
    values = {variable: variable.type(name=variable.name) for variable in model.free_RVs}
    outputs = []
    for variable, value in values.items():
        transform = model.rvs_to_transforms[variable]
        output = value
        if transform is not None:
            output = transform.forward(value, *variable.owner.inputs)
        outputs.append(output)
    return list(values.values()), graph_replace(outputs, values, strict=False)


def draws_at_random(outputs: Sequence[Node]) -> bool:
    """Whether a graph contains a random generator, as a log density should not."""
    return any(isinstance(node.type, RandomType) for node in _walk(outputs))


def _walk(outputs: Sequence[Node]) -> Iterator[Node]:
    """Every variable once, after those from which it is computed."""
    seen: set[Node] = set()
    waiting = [(output, False) for output in reversed(outputs)]
    while waiting:
        node, is_ready = waiting.pop()
        if is_ready:
            yield node
        elif node not in seen:
            seen.add(node)
            waiting.append((node, True))
            if node.owner is not None:
                waiting += [(part, False) for part in reversed(node.owner.inputs)]


class PymcPosterior(AbstractPosterior):
    r"""The posterior of a PyMC model; `posterior` makes one.

    Prior: the free variables. Likelihood: observed variables and potentials. The map
    $\theta = T(x)$ consists of the model's own transforms, which may depend on other variables. The
    data are those at construction: after `pm.set_data`, make another posterior.

    Example:
        >>> import pymc as pm
        >>> with pm.Model() as model:
        ...     scale = pm.HalfNormal("scale", 1.0)
        ...     observed = pm.Normal("y", 0.0, scale, observed=2.0)
        ...
        >>> post = aide.pymc.posterior(model)
        >>> post.values_of(np.zeros((1, 1)))["scale"]  # the coordinate is the log of the scale
        array([1.])
    """

    def __init__(self, model: Model, layout: Layout):
        derived = tuple(variable.name for variable in model.deterministics)
        super().__init__(layout, derived, model.name or "PyMC model")
        self.model = model
        values = model.value_vars
        with_jacobian: Any = model.varlogp
        jacobian = with_jacobian - model.varlogp_nojac
        self._log_prior = as_jax(values, [model.varlogp])
        self._log_likelihood = as_jax(values, [model.datalogp])
        self._log_jacobian = as_jax(values, [jacobian])
        self._constrain = as_jax(values, model.replace_rvs_by_values(model.free_RVs))
        self._unconstrain = as_jax(*unconstrain_graph(model))
        self._free_names = [variable.name for variable in model.free_RVs]
        self._simulator: Any = None
        self._given: Any = None
        self._value_names = {
            model.rvs_to_values[variable].name: variable.name for variable in model.free_RVs
        }

    def log_joint(self, x: Float[Array, " d"]) -> LogProb:
        r"""$\log p(T(x), y) + \log|\det T'(x)|$."""
        return self._guarded(x, self._at(self._log_prior, x) + self._at(self._log_likelihood, x))

    def log_prior(self, x: Float[Array, " d"]) -> LogProb:
        r"""$\log p(T(x)) + \log|\det T'(x)|$: free variables, and the Jacobian."""
        return self._guarded(x, self._at(self._log_prior, x))

    def log_likelihood(self, x: Float[Array, " d"]) -> LogProb:
        r"""$\log p(y \mid T(x))$: observed variables and potentials."""
        return self._guarded(x, self._at(self._log_likelihood, x))

    def log_jacobian(self, x: Float[Array, " d"]) -> LogProb:
        r"""$\log|\det T'(x)|$."""
        return self._at(self._log_jacobian, x)

    def constrain(self, x: Float[Array, " d"]) -> dict[str, Array]:
        r"""$\theta = T(x)$, by name."""
        values = self._constrain(*self.layout.unpack(x).values())
        return {name: jnp.asarray(v) for name, v in zip(self.names, values, strict=True)}

    def unconstrain(self, values: Values) -> Float[Array, " d"]:
        r"""$x = T^{-1}(\theta)$."""
        arguments = [jnp.asarray(values[name], float) for name in self.names]
        parts = self._unconstrain(*arguments)
        return self.layout.pack(dict(zip(self.names, parts, strict=True)))

    def sample_joint(self, key: Key) -> tuple[Float[Array, " d"], dict[str, np.ndarray]]:
        """Draw parameters from the prior, as the vector, and data of all observed variables.

        PyMC draws, seeded by the key; JAX cannot trace it.
        """
        seed = int(np.asarray(jax.random.key_data(key)).astype(np.uint64).sum() % 2**31)
        if self.model.potentials:
            raise ValueError(
                f"{self.label} cannot be simulated: it has potentials, which no data are drawn "
                "from. Write sample_joint(key) -> (x, y) as a function."
            )
        if self._simulator is None:
            outputs = [*self.model.free_RVs, *self.model.observed_RVs]
            self._simulator = compile([], outputs, random_seed=seed), find_rng_nodes(outputs)
        draw, generators = self._simulator
        reseed_rngs(generators, seed)
        drawn = [np.asarray(value) for value in draw()]
        num = len(self.names)
        x = self.unconstrain(dict(zip(self._free_names, drawn[:num], strict=True)))
        names = [one.name for one in self.model.observed_RVs]
        return x, dict(zip(names, drawn[num:], strict=True))

    def log_joint_given(self, x: Float[Array, " d"], data: Mapping[str, Any]) -> LogProb:
        """The log joint for these values of the observed variables."""
        if self._given is None:
            values = [self.model.rvs_to_values[one] for one in self.model.observed_RVs]
            inputs = [value.type() for value in values]
            known = dict(zip(values, inputs, strict=True))
            outputs = graph_replace([self.model.varlogp, self.model.datalogp], known, strict=False)
            self._given = as_jax([*self.model.value_vars, *inputs], outputs)
        observed = [jnp.asarray(data[one.name]) for one in self.model.observed_RVs]
        parts = self._given(*self.layout.unpack(x).values(), *observed)
        return self._guarded(x, jnp.asarray(parts[0] + parts[1], float))

    def guide(self, approx: Any, label: str = "") -> Tractable:
        """A fit of `pm.fit` as a target: a Gaussian on the unconstrained scale.

        Args:
            approx: A mean-field or full-rank approximation (`method="advi"`, `"fullrank_advi"`), or
                what `fit_laplace` of pymc-extras returns, data with a group `fit`.
            label: A name for tables.
        """
        laplace = _laplace_group(approx)
        if laplace is not None:
            mean, covariance = (
                np.asarray(laplace[name], np.float64) for name in ("mean_vector", LAPLACE)
            )
            order = self._order_of([str(name) for name in laplace["rows"].values])
            gaussian = Gaussian(mean, np.linalg.cholesky(covariance))
            return self.on_vector(gaussian, order, label or "Laplace approximation")
        if not isinstance(approx, MeanField | FullRank):
            raise TypeError(
                f"{type(approx).__name__} has no density that could be scored: guide takes a "
                'MeanField or FullRank approximation, of pm.fit(method="advi") or '
                '"fullrank_advi", or the data of fit_laplace. Draws of others give lower limits, '
                "by aide.compare_draws, or are reference draws: "
                "post.from_arviz(approx.sample(...))."
            )
        self._compare_models(approx)
        mean = np.asarray(approx.mean.eval(mode=PLAIN), np.float64)
        if isinstance(approx, MeanField):
            factor, name = approx.std.eval(mode=PLAIN), "mean-field ADVI"
        else:
            factor, name = np.linalg.cholesky(approx.cov.eval(mode=PLAIN)), "full-rank ADVI"
        return self.on_vector(Gaussian(mean, factor), self._order(approx), label or name)

    def predict(
        self, *names: str, below: float | None = None, above: float | None = None
    ) -> dict[str, Prediction]:
        r"""Deterministic and observed variables by name, as functions for `errors(functions=...)`.

        A deterministic variable is its value; an observed one is the mean of its distribution,
        given the free variables, so that the mean of the function is the mean of the posterior
        predictive. Predictions are those for the data that the model has now: `pm.set_data`
        before this call gives those for other data, as for `pm.sample_posterior_predictive`.

        Args:
            names: Variables; by default all that the model has. Arrays are reported by element.
            below: With a threshold, the probability to be at or below it, in place of the mean.
            above: With a threshold, the probability to be above it.
        """
        example = in_double(self.constrain, np.zeros(self.dimension))
        known = predictable(self.model)
        return in_double(predictions_of, self._predictor, names, known, below, above, example)

    def _predictor(self, name: str, threshold: float | None) -> Callable[[ValuesByName], Array]:
        """A prediction as a function of the values of the free variables."""
        free = {one: one.type(name=one.name) for one in self.model.free_RVs}
        [output] = graph_replace([graph_of(self.model, name, threshold)], free, strict=False)
        if draws_at_random([output]):
            raise ValueError(
                f"{name} depends on random variables that the posterior does not have, so that "
                "its mean given the posterior's variables is not known. Write a function of the "
                "posterior's variables instead."
            )
        try:
            compiled = as_jax(list(free.values()), [output])
        except NotImplementedError as error:
            raise ValueError(cannot(name, threshold, error)) from None
        return lambda values: jnp.asarray(
            compiled(*(jnp.asarray(values[one.name], float) for one in free))[0]
        )

    def _compare_models(self, approx: Any) -> None:
        """Warn if an approximation was fitted to a model with another log joint."""
        other = getattr(approx.groups[0], "model", None)
        if other is None or other is self.model:
            return
        try:
            others = posterior(other)
        except Exception:  # fitted to minibatches: no comparison
            return
        if others.layout.coordinates == self.layout.coordinates:
            warn_of_other(self, others, "fit was", "fit")

    def _order(self, approx: Any) -> dict[str, np.ndarray]:
        """The places of each variable's entries in the approximation's vectors."""
        order = {}
        for value_name, where, shape, _ in approx.ordering.values():
            name = self._value_names.get(value_name)
            if name is None:
                raise ValueError(
                    f"the approximation has {value_name}, which the model does not have: it was "
                    "fitted to another model."
                )
            order[name] = np.arange(where.start, where.stop).reshape(shape)
        return order

    def _order_of(self, names: list[str]) -> dict[str, np.ndarray]:
        """The places of each variable's entries in a vector whose entries are named `beta[1]`."""
        places: dict[str, list[int]] = {}
        for place, name in enumerate(names):
            base = name.partition("[")[0]
            places.setdefault(self._value_names.get(base, base), []).append(place)
        shapes = {one.name: one.unconstrained_shape for one in self.layout.variables}
        self.layout.check_names("the fit", places)
        return {name: np.reshape(found, shapes[name]) for name, found in places.items()}

    def _at(self, function: Callable[..., tuple[Any, ...]], x: Float[Array, " d"]) -> LogProb:
        return jnp.asarray(function(*self.layout.unpack(x).values())[0], float)

    def _guarded(self, x: Float[Array, " d"], log_density: LogProb) -> LogProb:
        r"""Where a value overflows ($e^{800}$), the density is 0 and not `inf - inf`."""
        finite = [jnp.all(jnp.isfinite(value)) for value in self.constrain(x).values()]
        return jnp.where(jnp.all(jnp.stack(finite)), log_density, -jnp.inf)


LAPLACE = "covariance_matrix"
"""The covariance in the group `fit` of a Laplace approximation of pymc-extras."""


def _laplace_group(data: Any) -> Any:
    """The group `fit` of the data of a Laplace approximation; `None` for anything else."""
    group = getattr(data, "fit", None)
    return group if LAPLACE in getattr(group, "data_vars", ()) else None


def posterior(model: Model) -> PymcPosterior:
    """The posterior of a PyMC model, with its present data.

    Discrete free variables and minibatches are refused with advice.

    Args:
        model: The model.

    Returns:
        The posterior, with methods that make gold standards and targets from runs and fits.

    Example:
        >>> import pymc as pm
        >>> with pm.Model() as model:
        ...     mu = pm.Normal("mu", 0.0, 1.0)
        ...     observed = pm.Normal("y", mu, 1.0, observed=2.0)
        ...
        >>> aide.pymc.posterior(model).layout.coordinates
        ('mu',)
    """
    if not isinstance(model, Model):
        raise TypeError(f"posterior takes a pymc.Model, got {type(model).__name__}.")
    return in_double(_posterior, model)


def _posterior(model: Model) -> PymcPosterior:
    what = model.name or "the model"
    if not model.free_RVs:
        raise ValueError(f"{what} has no free variable: there is nothing to infer.")
    for variable in model.free_RVs:
        if variable.dtype.startswith(("int", "uint", "bool")):
            raise ValueError(
                f"{variable.name} of {what} is discrete, and there is no density of reals for it. "
                "Sum it out (pm.Mixture, pymc_extras.marginalize), or condition on it: pm.observe."
            )
    densities = [model.varlogp, model.datalogp]
    if draws_at_random(densities):
        raise ValueError(
            f"the log density of {what} draws at random, so that it would change with every call. "
            "Build the model with all data in place of pm.Minibatch; an approximation "
            "fitted with minibatches can be measured against it."
        )
    shapes = model.eval_rv_shapes()
    variables = tuple(_variable(model, variable, shapes) for variable in model.free_RVs)
    made = PymcPosterior(model, Layout(variables))
    points = np.random.default_rng(0).uniform(-1.0, 1.0, (NUM_TRIED, made.dimension))
    check_data(
        what,
        _data_of(model, densities),
        lambda: [float(made.log_likelihood(jnp.asarray(x))) for x in points],
        "Leave these entries out. PyMC imputes missing entries of observed= where these are given "
        "as a NumPy masked array, and makes them variables.",
    )
    return made


def _data_of(model: Model, densities: Sequence[Any]) -> dict[str, np.ndarray]:
    """Values of the observed variables and of all arrays in the log density, by name."""
    found = {one.name: model.rvs_to_values[one] for one in model.observed_RVs}
    known = {id(node) for node in found.values()}
    for number, node in enumerate(ancestors(densities)):
        if isinstance(node, Constant | SharedVariable) and id(node) not in known:
            found[node.name or f"array {number} of the log density"] = node
    values = {
        name: node.get_value() if isinstance(node, SharedVariable) else getattr(node, "data", None)
        for name, node in found.items()
    }
    return {name: np.asarray(value) for name, value in values.items() if value is not None}


def _variable(model: Model, variable: Any, shapes: dict[str, Any]) -> Variable:
    value, transform = model.rvs_to_values[variable], model.rvs_to_transforms[variable]
    shape, flat = (tuple(int(n) for n in shapes[v.name]) for v in (variable, value))
    support = "real" if transform is None else f"reached by {transform.name}"
    return Variable(variable.name, shape, flat, support)
