"""What has been learned about the reverse of a chain."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from aide._distribution import sample_from
from aide._types import LogDensity, Value
from aide.kernels.kernel import Repeat
from aide.kernels.retrace import parts_of
from aide.learned.chain import LearnedChain
from aide.learned.flat import FlatKernel
from aide.learned.mixture import JointMixture, Stored
from aide.learned.stragglers import describe_stragglers


class ReverseFit(eqx.Module):
    """Learned meta-inference of a chain: pass it to `aide.mcmc(..., meta=fit)`.

    A pytree of arrays: `fit.save(path)` and `aide.load_reverse(path)` store it. It serves chains of
    up to `num_steps` transitions of the kernel it was learned for. For another density, start or
    step size the bound stays valid and becomes loose.

    Attributes:
        models: One `JointMixture` per part of the kernel, stacked over grid times.
        index: For each step, its grid time.
        log_z: The estimate of the density's log constant.
        last_log_density: Log density at the end of every pilot.
        moves: Per pilot, how often the second half of its transitions changed the state.
        held_out: Mean log density of held-out records per number of Gaussians that was tried.
    """

    models: tuple[JointMixture, ...]
    index: Stored
    log_z: Stored
    last_log_density: Stored
    moves: Stored
    held_out: dict[str, float] = eqx.field(default_factory=dict)

    @property
    def num_steps(self) -> int:
        """The longest chain it serves."""
        return len(self.index)

    @property
    def kernel_weights(self) -> np.ndarray:
        r"""$w_0$ for each step: 1 where the chain has arrived and meta-inference is exact."""
        weights = np.exp(np.asarray(self.models[-1].log_kernel) + float(self.log_z))
        return weights[np.asarray(self.index)]

    @property
    def cautions(self) -> tuple[str, ...]:
        """What the pilots say about the chain, in words: stuck or late ones."""
        sizes = self.models[0].white_y.shape
        return describe_stragglers(
            np.asarray(self.last_log_density), np.asarray(self.moves), sizes[-1], self.num_steps
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
        size = state_size(initial)
        if num_steps > self.num_steps:
            raise ValueError(
                f"this fit serves chains of up to {self.num_steps} steps, got num_steps = "
                f"{num_steps}. Learn a longer one: aide.learn_reverse(..., num_steps={num_steps})."
            )
        if size != self.models[0].white_y.shape[-1]:
            raise ValueError(
                f"this fit is for states of {self.models[0].white_y.shape[-1]} numbers, but those "
                f"of initial have {size}. Learn the reverse of this chain."
            )
        index = self.index[:num_steps]
        chain = LearnedChain(
            initial, log_joint, kernel, self.models, index, num_reverse, label=label
        )
        with jax.enable_x64(True):
            example = example_state(initial)
            sizes = [FlatKernel(p, log_joint, example).noise_size for p in parts_of(kernel)]
        if sizes != [model.white_v.shape[-2] for model in self.models]:
            raise ValueError(
                f"the noise of this kernel has sizes {sizes}, that of the kernel the fit was "
                f"learned for {[model.white_v.shape[-2] for model in self.models]}. Learn the "
                "reverse of this very kernel."
            )
        return chain

    def save(self, path: Any) -> None:
        """Write the fit to a file; see `aide.load_reverse`."""
        from aide.learned.storage import save_reverse

        save_reverse(self, path)


def unroll(kernel: Any, num_steps: int) -> tuple[Any, int]:
    """A kernel repeated n times per step is n steps of that kernel."""
    while isinstance(kernel, Repeat):
        kernel, num_steps = kernel.kernel, num_steps * kernel.num_times
    return kernel, num_steps


def example_state(initial: Any) -> Value:
    """A state of the right structure; real numbers are all that learned meta-inference handles."""
    with jax.enable_x64(True):
        shapes = jax.eval_shape(lambda: sample_from(initial, jax.random.key(0)))
    wrong = [leaf for leaf in jax.tree.leaves(shapes) if not jnp.issubdtype(leaf.dtype, float)]
    if wrong:
        raise TypeError(
            f"learned meta-inference handles real-valued states, but initial draws {wrong[0].dtype}"
            ". Use meta='canonical' for discrete states."
        )
    return jax.tree.map(lambda leaf: np.zeros(leaf.shape), shapes)


def state_size(initial: Any) -> int:
    """How many numbers a state has."""
    return int(ravel_pytree(example_state(initial))[0].size)
