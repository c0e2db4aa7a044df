"""Posteriors of the package `sbi`, or anything with their interface, for many observations at once.

`aide.sbi.posterior(posterior)` is what `aide.tuning.measure_amortized` takes. Neither `sbi` nor
PyTorch is imported here: tensors are made by the PyTorch that the posterior itself brings, and an
object of NumPy with the same two methods will do.
"""

import inspect
import sys
from collections.abc import Callable
from contextlib import contextmanager
from typing import Any

import jax
import numpy as np

from aide._core.types import Key

CHUNK = 200_000
"""Largest number of draws that one call of the posterior samples or scores."""
NUM_LEAKAGE = 2_000
"""Draws per observation from which sbi computes the mass inside the bounds of the prior."""


class SbiPosterior:
    """An amortised posterior of sbi as an object with `sample_batch` and `log_prob_batch`.

    Args:
        posterior: Has `sample(shape, x=...)` and `log_prob(theta, x=...)`; `sample_batched` and
            `log_prob_batched`, where it has them, handle many observations in one call.
        label: A name for tables.

    Example:
        >>> class Network:  # what build_posterior() of sbi returns has the same two methods
        ...     def sample(self, shape, x):
        ...         return np.random.normal(0.5 * x, 0.5**0.5, (*shape, 1))
        ...     def log_prob(self, theta, x):
        ...         return -((theta - 0.5 * x) ** 2)[:, 0] - 0.5 * np.log(np.pi)
        ...
        >>> target = aide.sbi.SbiPosterior(Network())
        >>> target.sample_batch(jax.random.key(0), np.array([[0.5], [1.0]]), 3).shape
        (2, 3, 1)
    """

    def __init__(self, posterior: Any, label: str = ""):
        for name in ("sample", "log_prob"):
            if not callable(getattr(posterior, name, None)):
                raise TypeError(
                    f"posterior must have sample(shape, x=...) and log_prob(theta, x=...), as the "
                    f"posteriors of sbi have, got {posterior!r} without {name}."
                )
        if type(posterior).__name__ in POTENTIALS:
            raise TypeError(
                f"A {type(posterior).__name__} of sbi draws by Markov chains or rejection and has "
                "no normalised density to measure in one pass. Give its potential as log_joint to "
                "aide.tempered_smc, as a gold standard; or measure its draws with "
                "aide.ReferenceDraws or aide.compare_draws."
            )
        self._posterior = posterior
        self.label = label or type(posterior).__name__

    def sample_batch(self, key: Key, observations: Any, num: int) -> np.ndarray:
        """Draws, shape (observations, num, parameters); the key seeds PyTorch for this call."""
        data = np.asarray(observations)
        with _seeded(key):
            batched = getattr(self._posterior, "sample_batched", None)
            if callable(batched):
                options = _quiet(batched)
                parts = [
                    _numpy(batched((num,), x=_tensor(part), **options)).swapaxes(0, 1)
                    for part in _parts(data, num)
                ]
                return np.concatenate(parts)
            options = _quiet(self._posterior.sample)
            return np.stack(
                [_numpy(self._posterior.sample((num,), x=_tensor(x), **options)) for x in data]
            )

    def log_prob_batch(self, values: np.ndarray, observations: Any) -> np.ndarray:
        """Log densities, shape (observations, num)."""
        data, values = np.asarray(observations), np.asarray(values)
        batched = getattr(self._posterior, "log_prob_batched", None)
        if callable(batched):
            pieces, begin = [], 0
            for part in _parts(data, values.shape[1]):
                theta = values[begin : begin + len(part)].swapaxes(0, 1)
                options = self._normalising(batched)
                pieces.append(_numpy(batched(_tensor(theta), x=_tensor(part), **options)).T)
                begin += len(part)
            return np.concatenate(pieces)
        pairs = zip(values, data, strict=True)
        log_prob = self._posterior.log_prob
        options = self._normalising(log_prob)
        return np.stack([_numpy(log_prob(_tensor(v), x=_tensor(x), **options)) for v, x in pairs])

    def _normalising(self, log_prob: Callable[..., Any]) -> dict[str, Any]:
        """Options by which sbi divides by the mass inside the prior, if the prior has bounds."""
        known = inspect.signature(log_prob).parameters
        if "norm_posterior" not in known:
            return {}
        bounded = _has_bounds(getattr(self._posterior, "prior", None))
        leakage = {"num_rejection_samples": NUM_LEAKAGE}
        if bounded and "leakage_correction_params" in known:
            return {"norm_posterior": True, "leakage_correction_params": leakage}
        return {"norm_posterior": bounded}


POTENTIALS = ("MCMCPosterior", "RejectionPosterior", "ImportanceSamplingPosterior")
"""Posteriors of sbi without a normalised density: those of NLE and NRE."""


def posterior(posterior: Any, label: str = "") -> SbiPosterior:
    """A posterior of NPE, as `aide.tuning.measure_amortized` takes it; see `SbiPosterior`.

    Args:
        posterior: What `build_posterior()` of sbi's NPE returns, or any object with `sample` and
            `log_prob` of the same form.
        label: A name for tables.

    Returns:
        The target of `aide.tuning.measure_amortized`.

    Example, with `posterior = NPE(prior).append_simulations(theta, x)...build_posterior()`:
    `aide.tuning.measure_amortized(0, aide.sbi.posterior(posterior), observations, gold)`.

    Example:
        >>> class Network:  # what build_posterior() of sbi returns has the same two methods
        ...     def sample(self, shape, x):
        ...         return np.random.normal(0.5 * x, 0.5**0.5, (*shape, 1))
        ...     def log_prob(self, theta, x):
        ...         return -((theta - 0.5 * x) ** 2)[:, 0] - 0.5 * np.log(np.pi)
        ...
        >>> target, observations = aide.sbi.posterior(Network()), np.linspace(-2.0, 2.0, 5)[:, None]
        >>> exact = lambda y: Normal(0.5 * y, 0.5**0.5)
        >>> aide.tuning.measure_amortized(0, target, observations, exact).values.round(6)
        array([0., 0., 0., 0., 0.])
    """
    return SbiPosterior(posterior, label)


def _has_bounds(prior: Any) -> bool:
    """Whether the prior may leave out part of the space: if it does not say, it may."""
    supports = [str(getattr(part, "support", "?")) for part in _parts_of_prior(prior)]
    return not all("Real()" in support for support in supports)


def _parts_of_prior(prior: Any) -> list[Any]:
    parts = getattr(prior, "dists", None)
    return list(parts) if parts else [prior]


def _parts(data: np.ndarray, num: int) -> list[np.ndarray]:
    """Observations, as many at a time as `CHUNK` draws allow."""
    size = max(1, CHUNK // num)
    return [data[begin : begin + size] for begin in range(0, len(data), size)]


def _quiet(function: Callable[..., Any]) -> dict[str, Any]:
    known = inspect.signature(function).parameters
    return {"show_progress_bars": False} if "show_progress_bars" in known else {}


def _torch() -> Any:
    """PyTorch, if anything in this process has loaded it: what sbi builds on."""
    return sys.modules.get("torch")


def _tensor(values: Any) -> Any:
    torch = _torch()
    if torch is None:
        return np.asarray(values)
    return torch.as_tensor(np.array(values), dtype=torch.get_default_dtype())


def _numpy(values: Any) -> np.ndarray:
    detach = getattr(values, "detach", None)
    return np.asarray(detach().cpu().numpy() if callable(detach) else values, float)


@contextmanager
def _seeded(key: Key):
    """PyTorch's and NumPy's global generators, seeded by the key and restored afterwards."""
    seed = int(np.asarray(jax.random.key_data(key)).ravel().astype(np.uint64).sum() % 2**32)
    torch, state = _torch(), np.random.get_state()  # noqa: NPY002
    before = None if torch is None else torch.random.get_rng_state()
    np.random.seed(seed)  # noqa: NPY002
    if torch is not None:
        torch.manual_seed(seed)
    try:
        yield
    finally:
        np.random.set_state(state)  # noqa: NPY002
        if torch is not None:
            torch.random.set_rng_state(before)
