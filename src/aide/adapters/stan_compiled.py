"""Stan programs compiled by the httpstan wheel, which carries Stan's compiler and headers."""

import asyncio
import warnings
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from threading import current_thread
from typing import Any, TypeVar

import numpy as np

Result = TypeVar("Result")
_HOME = "aide-httpstan"
_home = ThreadPoolExecutor(1, thread_name_prefix=_HOME)
"""The only thread that may call compiled programs: Stan prepares its storage of derivatives for
the thread that loads a program, and a call from another thread ends the process."""


class HttpstanModel:
    """A compiled program with its data, and the methods of a BridgeStan model.

    httpstan evaluates `target` without the constants that `~` drops, and has no other form:
    `keeps_constants` is false. Every call sets up the data again, which is slow for large data;
    BridgeStan avoids that.

    Example:
        >>> code = "parameters { real mu; } model { mu ~ normal(0, 1); 2 ~ normal(mu, 1); }"
        >>> model = aide.stan.compile_program(code, {}, optimise=False)
        >>> model.param_names(), model.param_unc_num()
        (['mu'], 1)
    """

    keeps_constants = False

    def __init__(self, services: Any, data: Mapping[str, Any]):
        self._services = _Home(services)
        self._data = {name: np.asarray(value).tolist() for name, value in data.items()}
        names = services.get_param_names(self._data)
        dims = services.get_dims(self._data)
        self._all_names = services.constrained_param_names(self._data)
        self._dimension = self._find_dimension([int(np.prod(shape)) for shape in dims])
        num_values = len(self.param_constrain(np.zeros(self._dimension)))
        self._names = self._all_names[:num_values]
        own = {name.partition(".")[0] for name in self._names}
        self._dims = {n: tuple(shape) for n, shape in zip(names, dims, strict=True) if n in own}

    @staticmethod
    def run(work: Callable[[], Result]) -> Result:
        """Do work with many calls of programs in the thread that may call them."""
        return at_home(work)

    def param_names(self, *, include_tp: bool = False, include_gq: bool = False) -> list[str]:
        """Names of the scalars; with either setting, of derived quantities too."""
        return list(self._all_names if include_tp or include_gq else self._names)

    def param_unc_num(self) -> int:
        """Length of the unconstrained vector."""
        return self._dimension

    def param_constrain(self, theta_unc: np.ndarray) -> np.ndarray:
        """Values on the scale of the model, in the order of `param_names`."""
        return np.array(self._services.write_array(self._data, theta_unc.tolist(), False, False))

    def param_unconstrain(self, theta: np.ndarray) -> np.ndarray:
        """The unconstrained vector of values in the order of `param_names`."""
        values, begin = {}, 0
        for name, shape in self._dims.items():
            end = begin + int(np.prod(shape))
            values[name] = np.reshape(theta[begin:end], shape, order="F").tolist()
            begin = end
        return np.array(self._services.transform_inits(self._data, values))

    def log_density(
        self, theta_unc: np.ndarray, *, propto: bool = True, jacobian: bool = True
    ) -> float:
        """The log density without constants."""
        _check_propto(propto)
        return self._services.log_prob(self._data, theta_unc.tolist(), jacobian)

    def log_density_gradient(
        self, theta_unc: np.ndarray, *, propto: bool = True, jacobian: bool = True
    ) -> tuple[float, np.ndarray]:
        """The log density without constants, and its gradient, by two calls."""
        value = self.log_density(theta_unc, propto=propto, jacobian=jacobian)
        gradient = self._services.log_prob_grad(self._data, theta_unc.tolist(), jacobian)
        return value, np.array(gradient)

    def _find_dimension(self, sizes: Sequence[int]) -> int:
        """Find the dimension by trial: httpstan only refuses a vector of another length.

        Parameters come first among all variables, and most have one real per value.
        """
        likely = np.cumsum([0, *sizes]).tolist()
        for dimension in dict.fromkeys([*likely, *range(likely[-1] + 1)]):
            try:
                self._services.write_array(self._data, [0.0] * dimension, False, False)
            except RuntimeError as error:
                if "number of parameters does not match" not in str(error):
                    raise
            else:
                return dimension
        raise ValueError("the program has no parameters that httpstan could count.")


def compile_program(
    program_code: str, data: Mapping[str, Any], *, optimise: bool = True
) -> HttpstanModel:
    """Compile a Stan program offline by httpstan (part of PyStan): minutes at first, then cached.

    Args:
        program_code: The program.
        data: Its data by name.
        optimise: Compile with `-O3`, the default of httpstan; `False` compiles a slower model
            sooner.

    Returns:
        The compiled model with its data, for `aide.stan.posterior`.

    Example:
        >>> code = "parameters { real mu; } model { mu ~ normal(0, 1); 2 ~ normal(mu, 1); }"
        >>> model = aide.stan.compile_program(code, {}, optimise=False)
        >>> float(model.log_density(np.ones(1)))
        -1.0
    """
    try:
        from httpstan import models  # pyrefly: ignore[missing-import]
    except ModuleNotFoundError as error:
        raise ImportError(
            "compile_program needs httpstan: pip install 'aide-inference[stan]'. A model that "
            "BridgeStan compiled needs nothing: aide.stan.posterior(model)."
        ) from error

    name = models.calculate_model_name(program_code)
    load = lambda: models.import_services_extension_module(name)
    try:
        services = at_home(load)
    except KeyError:
        options = None if optimise else ["-O1", "-std=c++14", "-Wno-sign-compare"]
        with warnings.catch_warnings():  # httpstan finds its own files by a deprecated function
            warnings.simplefilter("ignore", DeprecationWarning)
            asyncio.run(models.build_services_extension_module(program_code, options))
        services = at_home(load)
    return HttpstanModel(services, data)


class _Home:
    """A module whose functions are called in the thread that may call compiled programs."""

    def __init__(self, module: Any):
        self._module = module

    def __getattr__(self, name: str) -> Callable[..., Any]:
        function = getattr(self._module, name)
        return lambda *arguments: at_home(lambda: function(*arguments))


def at_home(work: Callable[[], Result]) -> Result:
    """Do work in the thread that may call compiled programs."""
    if current_thread().name.startswith(_HOME):
        return work()
    return _home.submit(work).result()


def _check_propto(propto: bool) -> None:
    if not propto:
        raise ValueError(
            "httpstan evaluates log densities without the constants that ~ drops: propto=False is "
            "what BridgeStan has."
        )
