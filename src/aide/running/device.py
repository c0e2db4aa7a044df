"""Where programs run: the device, and how many chunks run on it at a time."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, NamedTuple

import jax

QUICK = ContextVar("quick", default=False)
"""Whether programs that are traced now should compile quickly; see `compile_quickly`."""
OWN_DEVICE: ContextVar[Any] = ContextVar("own_device", default=None)
"""The device of a thread that has one to itself (`aide.running.devices`); `None` elsewhere."""


class Place(NamedTuple):
    """Where and how programs are compiled and run.

    Attributes:
        device: A JAX device.
        quick: Whether a short compilation matters more than speed.
        num_threads: Chunks run at a time: one per core on CPU, one elsewhere.
    """

    device: Any
    quick: bool
    num_threads: int

    @property
    def is_cpu(self) -> bool:
        """Whether it is the CPU, whose cores run one chunk each."""
        return self.device.platform == "cpu"

    def here(self) -> "Place":
        """The same on the device of this thread, if it has one to itself."""
        own = OWN_DEVICE.get()
        return self if own is None else self._replace(device=own)

    @contextmanager
    def entered(self) -> Iterator[None]:
        """Double precision on this device; threads do not inherit it and enter it themselves."""
        with jax.enable_x64(True), jax.default_device(self.device):
            yield


def current_place() -> Place:
    """Where JAX computes now: on `jax.default_device`, or on the first device."""
    device: Any = getattr(jax.config, "jax_default_device", None)
    if device is None or isinstance(device, str):
        device = jax.devices(device)[0]
    return Place(device, QUICK.get(), num_cores() if device.platform == "cpu" else 1)


def num_cores() -> int:
    """Cores that this process may use, as far as the system says."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 1
