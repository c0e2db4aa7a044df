"""Everything learned about the reverse of an algorithm: the fit, its file, its notes."""

import dataclasses
import json
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import numpy as np

from aide._core.distribution import Distribution
from aide._core.numerics import FlatLayout
from aide._core.types import LogDensity
from aide.kernels.kernel import AnyKernel
from aide.kernels.retrace import parts_of
from aide.learned.fitting.families import (
    FAMILIES,
    example_state,
    family_for,
    family_of,
    state_size,
)
from aide.learned.models.divided import DividedModel, GaussianClusters
from aide.learned.models.joint import JointMixture, JointModel, Stored
from aide.learned.models.mean_weights import MeanWeights
from aide.learned.records.transitions import FlatKernel

FALSE_ALARMS = 1e-3
"""Probability that any pilot of a Gaussian posterior is called too low: a choice."""
MARGIN = 2.0
"""Factor by which a log density may be lower than a Gaussian's tail before a note says so."""
FEWEST_STEPS = 20
"""Least number of steps of a chain that may be called stuck; shorter ones may stay by chance."""
FORMAT = "aide reverse fit, version 3"
"""First words of a file; the number changes with the format."""


def write_tree(path: str | Path, form: str, facts: Mapping[str, Any], tree: Any) -> None:
    """Write a tree of arrays; `form` names its kind, and `facts` go into the first line."""
    shapes = [[list(leaf.shape), leaf.dtype.str] for leaf in jax.tree.leaves(tree)]
    header = {"format": form, "shapes": shapes, **facts}
    with open(path, "wb") as file:
        file.write((json.dumps(header) + "\n").encode())
        eqx.tree_serialise_leaves(file, tree)


def read_tree(path: str | Path, form: str, build: Callable[[Mapping[str, Any]], Any]) -> Any:
    """Read a file that `write_tree` wrote.

    Args:
        path: The file.
        form: The kind that the file must have.
        build: Builds from the facts a tree of the right structure, with any leaves.
    """
    with open(path, "rb") as file:
        try:
            header = json.loads(file.readline())
            if header["format"] != form:
                raise ValueError
        except (ValueError, KeyError, TypeError):
            raise ValueError(f"{path} does not hold a fit written by ReverseFit.save.") from None
        leaves = [np.zeros(shape, dtype) for shape, dtype in header["shapes"]]
        skeleton = jax.tree.unflatten(jax.tree.structure(build(header)), leaves)
        return eqx.tree_deserialise_leaves(file, skeleton)


def describe_stragglers(
    log_density: np.ndarray, moves: np.ndarray, size: int | None, num_steps: int
) -> tuple[str, ...]:
    r"""Sentences about pilots that ended too low or stopped moving; empty if there are none.

    For a Gaussian posterior of dimension $d$, $\max\log\gamma - \log\gamma(x)$ is half a
    $\chi^2_d$ variable.

    Args:
        log_density: At the last state of every pilot.
        moves: Per pilot, share of the last half of its transitions that changed the state.
        size: Dimension of the state; `None` for discrete states, whose tails are not judged.
        num_steps: Transitions per pilot.
    """
    from scipy import stats

    num = len(log_density)
    sentences = []
    tail = np.inf if size is None else stats.chi2.isf(FALSE_ALARMS / num, size)
    limit = MARGIN * tail / 2
    gap = log_density.max() - log_density
    low = gap > limit
    if low.any():
        sentences.append(
            f"{low.sum()} of {num} pilot chains ({low.mean():.2%}) end where the log density is "
            f"more than {limit:.0f} nats below the best one seen (the lowest: {gap.max():.3g}). "
            "Either the posterior has heavy tails, or these chains were late or stuck. Such runs "
            "dominate the divergence when they occur; an estimate from "
            f"fewer than {int(np.ceil(3 / low.mean()))} runs may well miss them."
        )
    still = moves == 0.0
    if num_steps >= FEWEST_STEPS and still.any() and np.median(moves) > 0.1:
        sentences.append(
            f"{still.sum()} of {num} pilot chains ({still.mean():.2%}) did not move at all in the "
            f"last {num_steps - num_steps // 2} steps, while the median chain moved in "
            f"{np.median(moves):.0%} of them: they are stuck."
        )
    return tuple(sentences)


def _frozen(scores: Mapping[str, float] | Iterable[tuple[str, float]]) -> Mapping[str, float]:
    return _Scores(scores)


class _Scores(dict[str, float]):
    """A dictionary that can be part of a pytree's structure."""

    def __hash__(self) -> int:  # pyrefly: ignore
        return hash(tuple(self.items()))


class ReverseFit(eqx.Module):
    """Learned meta-inference: what `aide.refine` learns, or takes as `fit`.

    A pytree of arrays: `fit.save(path)` and `aide.learned.load_reverse(path)` store it. It serves
    chains of up to `num_steps` transitions of the kernel it was learned for, or SMC of exactly as
    many moves. For another density, start or step size the bound stays valid and becomes loose.

    Attributes:
        models: One `JointModel` per part of the kernel, stacked over grid times.
        index: For each step, its grid time.
        log_z: The estimate of the density's log constant, at each grid time.
        last_log_density: Log density at the end of every pilot.
        moves: Per pilot, share of the second half of its transitions that changed the state.
        held_out: Log likelihood of held-out pilots for each candidate: of their records, for
            numbers of Gaussians; of their outputs, for a tilted model and a mixture.
        mean_weights: For SMC, the mean weight of the population given that of the surviving
            particle, at the start and after each move; empty for chains.

    Example:
        >>> start, posterior = Normal(0.0, 3.0), Normal(1.0, 0.5)
        >>> kernel = aide.kernels.RandomWalk(0.9)
        >>> chain = aide.mcmc(start, posterior.log_prob, kernel=kernel, num_steps=8)
        >>> fit = aide.refine(0, chain, num_pilots=300).fit
        >>> fit.num_steps
        8
        >>> refined = aide.refine(None, chain, fit=fit, num_reverse=200)  # learns nothing anew
    """

    models: tuple[Any, ...]
    index: Stored
    log_z: Stored
    last_log_density: Stored
    moves: Stored
    held_out: Mapping[str, float] = eqx.field(static=True, converter=_frozen, default=())
    mean_weights: MeanWeights = MeanWeights.none()

    @property
    def num_steps(self) -> int:
        """Largest number of transitions of a chain that the fit serves."""
        return len(self.index)

    @property
    def kernel_weights(self) -> np.ndarray:
        r"""$w_0$ for each step: 1 where the chain has arrived and meta-inference is exact.

        Mixtures and tables have these weights, tilted models do not.
        """
        weights = np.exp(np.asarray(self.models[-1].log_kernel) + np.asarray(self.log_z))
        return weights[np.asarray(self.index)]

    @property
    def notes(self) -> tuple[str, ...]:
        """Sentences about pilots that were stuck or late; empty if there were none."""
        size = family_of(self.models).tail_size(self.models)
        return describe_stragglers(
            np.asarray(self.last_log_density), np.asarray(self.moves), size, self.num_steps
        )

    def check_serves(self, start: Distribution, log_density: LogDensity, kernel: AnyKernel) -> None:
        """Raise unless states and noise have the sizes for which the fit was learned."""
        drawn, known = family_for(start), family_of(self.models)
        if drawn is not known:
            raise ValueError(
                f"start draws {drawn.words}, but this fit is for states of {known.words}. Leave "
                "fit out to learn one for this algorithm."
            )
        size = state_size(start)
        if size != self.models[0].sizes[0]:
            raise ValueError(
                f"this fit is for states of {self.models[0].sizes[0]} numbers, but those of "
                f"start have {size}. Leave fit out to learn one for this algorithm."
            )
        parts = parts_of(kernel)
        if len(parts) != len(self.models):
            raise ValueError(
                f"the fit has models for {len(self.models)} kernels, but one transition runs "
                f"{len(parts)}. Leave fit out to learn one for this very kernel."
            )
        with jax.enable_x64(True):
            layout = FlatLayout(example_state(start))
            sizes = [FlatKernel(part, log_density, layout).noise_size for part in parts]
        if sizes != [model.sizes[1] for model in self.models]:
            raise ValueError(
                f"the noise of this kernel has sizes {sizes}, that of the kernel the fit was "
                f"learned for {[model.sizes[1] for model in self.models]}. Leave fit out to learn "
                "one for this very kernel."
            )

    def save(self, path: str | Path) -> None:
        """Write the fit to a file that `aide.learned.load_reverse` reads."""
        names = [type(model).__name__ for model in self.models]
        write_tree(path, FORMAT, {"models": names, "held_out": dict(self.held_out)}, self)


def load_reverse(path: str | Path) -> ReverseFit:
    """Read a fit from a file that `ReverseFit.save` wrote.

    Args:
        path: The file.

    Returns:
        The fit, for the argument `fit` of `aide.refine`.

    Example:
        >>> import tempfile
        >>> start, posterior = Normal(0.0, 3.0), Normal(1.0, 0.5)
        >>> kernel = aide.kernels.RandomWalk(0.9)
        >>> chain = aide.mcmc(start, posterior.log_prob, kernel=kernel, num_steps=8)
        >>> fit = aide.refine(0, chain, num_pilots=300).fit
        >>> path = f"{tempfile.mkdtemp()}/walk.fit"
        >>> fit.save(path)
        >>> aide.learned.load_reverse(path).num_steps
        8
    """
    return read_tree(path, FORMAT, _skeleton)


def _skeleton(facts: Mapping[str, Any]) -> ReverseFit:
    kinds = {kind.__name__: kind for family in FAMILIES for kind in family.models}
    blank = np.zeros(())
    plain = lambda kind: kind(*[blank] * len(dataclasses.fields(kind)))

    def model(name: str) -> JointModel:
        if name != DividedModel.__name__:
            return plain(kinds[name])
        halves = [plain(JointMixture) for _ in range(2)]
        clusters = [plain(GaussianClusters) for _ in range(2)]
        return DividedModel(*halves, *clusters, *[blank] * 4)

    models = tuple(model(name) for name in facts["models"])
    return ReverseFit(models, blank, blank, blank, blank, facts["held_out"])
