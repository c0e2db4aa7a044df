"""What has been learned about the reverse of an algorithm."""

import dataclasses
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import numpy as np

from aide._core.flat_states import FlatLayout
from aide._core.types import LogDensity
from aide.kernels.retrace import parts_of
from aide.learned.fitting.families import (
    FAMILIES,
    example_state,
    family_for,
    family_of,
    state_size,
)
from aide.learned.fitting.storage import read_tree, write_tree
from aide.learned.fitting.stragglers import describe_stragglers
from aide.learned.models.divided import Clusters, DividedModel
from aide.learned.models.joint import JointModel, Stored
from aide.learned.models.mean_weights import MeanWeights
from aide.learned.models.mixture import JointMixture
from aide.learned.records.flat_states import FlatKernel

FORMAT = "aide reverse fit, version 3"


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
        moves: Per pilot, how often the second half of its transitions changed the state.
        held_out: What was tried, and how likely held-out pilots are: records, per number of
            Gaussians; outputs, where a tilted model and a mixture competed.
        mean_weights: For SMC, what surviving weights say about the others, at the start and after
            each move; else empty.
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
        """The longest chain it serves."""
        return len(self.index)

    @property
    def kernel_weights(self) -> np.ndarray:
        r"""$w_0$ for each step: 1 where the chain has arrived and meta-inference is exact.

        Mixtures and tables have it, tilted models have not.
        """
        weights = np.exp(np.asarray(self.models[-1].log_kernel) + np.asarray(self.log_z))
        return weights[np.asarray(self.index)]

    @property
    def notes(self) -> tuple[str, ...]:
        """What the pilots say about the chain, in words: stuck or late ones."""
        size = family_of(self.models).tail_size(self.models)
        return describe_stragglers(
            np.asarray(self.last_log_density), np.asarray(self.moves), size, self.num_steps
        )

    def check_serves(self, initial: Any, log_density: LogDensity, kernel: Any) -> None:
        """Raise an error unless states and noise have the sizes this was learned for."""
        drawn, known = family_for(initial), family_of(self.models)
        if drawn is not known:
            raise ValueError(
                f"initial draws {drawn.words}, but this fit is for states of {known.words}. Leave "
                "fit out to learn one for this algorithm."
            )
        size = state_size(initial)
        if size != self.models[0].sizes[0]:
            raise ValueError(
                f"this fit is for states of {self.models[0].sizes[0]} numbers, but those of "
                f"initial have {size}. Leave fit out to learn one for this algorithm."
            )
        parts = parts_of(kernel)
        if len(parts) != len(self.models):
            raise ValueError(
                f"the fit has models for {len(self.models)} kernels, but one transition runs "
                f"{len(parts)}. Leave fit out to learn one for this very kernel."
            )
        with jax.enable_x64(True):
            layout = FlatLayout(example_state(initial))
            sizes = [FlatKernel(part, log_density, layout).noise_size for part in parts]
        if sizes != [model.sizes[1] for model in self.models]:
            raise ValueError(
                f"the noise of this kernel has sizes {sizes}, that of the kernel the fit was "
                f"learned for {[model.sizes[1] for model in self.models]}. Leave fit out to learn "
                "one for this very kernel."
            )

    def save(self, path: str | Path) -> None:
        """Write the fit to a file, for `aide.learned.load_reverse`."""
        names = [type(model).__name__ for model in self.models]
        write_tree(path, FORMAT, {"models": names, "held_out": dict(self.held_out)}, self)


def load_reverse(path: str | Path) -> ReverseFit:
    """Read a fit that `ReverseFit.save` wrote."""
    return read_tree(path, FORMAT, _skeleton)


def _skeleton(facts: Mapping[str, Any]) -> ReverseFit:
    kinds = {kind.__name__: kind for family in FAMILIES for kind in family.models}
    blank = np.zeros(())
    plain = lambda kind: kind(*[blank] * len(dataclasses.fields(kind)))

    def model(name: str) -> JointModel:
        if name != DividedModel.__name__:
            return plain(kinds[name])
        halves = [plain(JointMixture) for _ in range(2)]
        clusters = [plain(Clusters) for _ in range(2)]
        return DividedModel(*halves, *clusters, *[blank] * 4)

    models = tuple(model(name) for name in facts["models"])
    return ReverseFit(models, blank, blank, blank, blank, facts["held_out"])
