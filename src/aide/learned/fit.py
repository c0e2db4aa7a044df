"""What has been learned about the reverse of a chain."""

from collections.abc import Mapping
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from aide._core.distribution import sample_from
from aide._core.types import LogDensity, Value
from aide.kernels.kernel import Repeat
from aide.kernels.retrace import parts_of
from aide.learned.chain import LearnedChain, check_models
from aide.learned.flat import FlatKernel, Layout
from aide.learned.joint import Stored
from aide.learned.stragglers import describe_stragglers
from aide.learned.survival import MeanWeights
from aide.learned.table import JointTable


def _frozen(scores: Any) -> Mapping[str, float]:
    return _Scores(scores)


class _Scores(dict[str, float]):
    """A dictionary that can be part of a pytree's structure."""

    def __hash__(self) -> int:  # pyrefly: ignore
        return hash(tuple(self.items()))


class ReverseFit(eqx.Module):
    """Learned meta-inference of a chain: pass it to `aide.mcmc(..., meta=fit)`.

    A pytree of arrays: `fit.save(path)` and `aide.learned.load_reverse(path)` store it. It serves
    chains of up to `num_steps` transitions of the kernel it was learned for. For another density,
    start or step size the bound stays valid and becomes loose.

    Attributes:
        models: One `JointMixture` per part of the kernel, stacked over grid times.
        index: For each step, its grid time.
        log_z: The estimate of the density's log constant, at each grid time.
        last_log_density: Log density at the end of every pilot.
        moves: Per pilot, how often the second half of its transitions changed the state.
        held_out: Mean log density of held-out records per number of Gaussians that was tried.
        mean_weights: For SMC, what surviving weights say about the others, at the start and after
            each move; else empty.
    """

    models: tuple[Any, ...]
    index: Stored
    log_z: Stored
    last_log_density: Stored
    moves: Stored
    held_out: Mapping[str, float] = eqx.field(static=True, converter=_frozen, default=())
    mean_weights: MeanWeights = MeanWeights(*[np.zeros((0, 0))] * 3)

    @property
    def num_steps(self) -> int:
        """The longest chain it serves."""
        return len(self.index)

    @property
    def kernel_weights(self) -> np.ndarray:
        r"""$w_0$ for each step: 1 where the chain has arrived and meta-inference is exact."""
        weights = np.exp(np.asarray(self.models[-1].log_kernel) + np.asarray(self.log_z))
        return weights[np.asarray(self.index)]

    @property
    def cautions(self) -> tuple[str, ...]:
        """What the pilots say about the chain, in words: stuck or late ones."""
        size = None if isinstance(self.models[0], JointTable) else self.models[0].sizes[0]
        return describe_stragglers(
            np.asarray(self.last_log_density), np.asarray(self.moves), size, self.num_steps
        )

    def attach(
        self,
        initial: Any,
        log_joint: LogDensity,
        kernel: Any,
        num_steps: int,
        num_reverse: int,
        label: str,
    ) -> LearnedChain:
        """The chain with this meta-inference; called by `aide.mcmc`."""
        kernel, num_steps = unroll(kernel, num_steps)
        if num_steps > self.num_steps:
            raise ValueError(
                f"this fit serves chains of up to {self.num_steps} steps, got num_steps = "
                f"{num_steps}. Learn a longer one: aide.learn_reverse(..., num_steps={num_steps})."
            )
        self.check_serves(initial, log_joint, kernel)
        index = self.index[:num_steps]
        return LearnedChain(
            initial, log_joint, kernel, self.models, index, num_reverse, label=label
        )

    def check_serves(self, initial: Any, log_density: LogDensity, kernel: Any) -> None:
        """Raise an error unless states and noise have the sizes this was learned for."""
        example, discrete = example_state(initial)
        if discrete != isinstance(self.models[0], JointTable):
            kinds = ("integers", "real numbers") if discrete else ("real numbers", "integers")
            raise ValueError(
                f"initial draws {kinds[0]}, but this fit is for states of {kinds[1]}. Learn the "
                "reverse of this chain."
            )
        size = state_size(initial)
        if size != self.models[0].sizes[0]:
            raise ValueError(
                f"this fit is for states of {self.models[0].sizes[0]} numbers, but those of "
                f"initial have {size}. Learn the reverse of this chain."
            )
        check_models(kernel, self.models)
        with jax.enable_x64(True):
            layout = Layout(example)
            sizes = [FlatKernel(p, log_density, layout).noise_size for p in parts_of(kernel)]
        if sizes != [model.sizes[1] for model in self.models]:
            raise ValueError(
                f"the noise of this kernel has sizes {sizes}, that of the kernel the fit was "
                f"learned for {[model.sizes[1] for model in self.models]}. Learn the reverse of "
                "this very kernel."
            )

    def save(self, path: Any) -> None:
        """Write the fit to a file; see `aide.learned.load_reverse`."""
        from aide.learned.storage import save_reverse

        save_reverse(self, path)


def unroll(kernel: Any, num_steps: int) -> tuple[Any, int]:
    """A kernel repeated n times per step is n steps of that kernel."""
    while isinstance(kernel, Repeat):
        kernel, num_steps = kernel.kernel, num_steps * kernel.num_times
    return kernel, num_steps


def example_state(initial: Any) -> tuple[Value, bool]:
    """A state of the right structure, and whether it is discrete (all integers)."""
    with jax.enable_x64(True):
        shapes = jax.eval_shape(lambda: sample_from(initial, jax.random.key(0)))
    kinds = {jnp.issubdtype(leaf.dtype, jnp.floating) for leaf in jax.tree.leaves(shapes)}
    if len(kinds) != 1:
        types = sorted({str(leaf.dtype) for leaf in jax.tree.leaves(shapes)})
        raise TypeError(
            "learned meta-inference handles states of real numbers or states of integers, but "
            f"initial draws {' and '.join(types) or 'nothing'}. Use meta='canonical'."
        )
    return jax.tree.map(lambda leaf: np.zeros(leaf.shape, leaf.dtype), shapes), kinds == {False}


def state_size(initial: Any) -> int:
    """How many numbers a state has."""
    return sum(np.size(leaf) for leaf in jax.tree.leaves(example_state(initial)[0]))
