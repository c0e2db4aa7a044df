"""Several devices of one process: one thread each, one block of runs at a time."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from queue import SimpleQueue
from typing import Any

import jax

from aide.running.device import OWN_DEVICE


class Devices(ThreadPoolExecutor):
    """JAX devices as an executor: `aide.estimate(..., executor=aide.draws.Devices())`.

    Every device compiles the programs for itself and takes the next block when it has finished one.
    Runs are divided into as many blocks as there are devices, or more.

    Args:
        devices: JAX devices, all of one kind, so that they compute the same numbers; by default all
            local ones of the default backend (`jax.local_devices()`).
    """

    def __init__(self, devices: Sequence[Any] | None = None):
        self.devices = tuple(jax.local_devices() if devices is None else devices)
        if not self.devices or len(set(self.devices)) < len(self.devices):
            raise ValueError(f"devices must be different ones, at least one, got {devices!r}.")
        kinds = sorted({str(device.device_kind) for device in self.devices})
        if len(kinds) > 1:
            raise ValueError(
                f"devices must be of one kind, got {' and '.join(kinds)}: numbers of different "
                "kinds are not the same bits. Choose some: Devices(jax.devices('gpu'))."
            )
        free: SimpleQueue[Any] = SimpleQueue()
        for device in self.devices:
            free.put(device)
        super().__init__(
            len(self.devices),
            thread_name_prefix="aide-device",
            initializer=lambda: OWN_DEVICE.set(free.get()),
        )
