"""What compiled code depends on besides the program itself: versions, machine, settings."""

import functools
import hashlib
import importlib.metadata
import os
import platform
from pathlib import Path
from typing import Any

import jax

import aide._version
from aide.running.device import Place

PACKAGES = ("jax", "jaxlib", "equinox", "jaxtyping", "numpy", "scipy")
_IRRELEVANT = ("cache", "log", "traceback", "raise", "dump", "profil")


def surroundings_of(place: Place) -> tuple[Any, ...]:
    """All of it, the same in another process on the same machine."""
    device = place.device
    backend = (device.platform, device.device_kind, device.client.platform_version, device.id)
    return (_versions(), _machine(), _settings(), backend, place.num_threads, place.quick)


@functools.cache
def _versions() -> tuple[Any, ...]:
    """Versions of what programs are made by; of this library, the files as they are."""
    versions = []
    for name in PACKAGES:
        try:
            versions.append((name, importlib.metadata.version(name)))
        except importlib.metadata.PackageNotFoundError:
            versions.append((name, ""))
    folder = Path(aide._version.__file__).parent
    digest = hashlib.sha256()
    for path in sorted(folder.rglob("*.py")):
        digest.update(str(path.relative_to(folder)).encode() + path.read_bytes())
    return (*versions, platform.python_version(), aide._version.__version__, digest.hexdigest())


@functools.cache
def _machine() -> tuple[Any, ...]:
    """The instructions that its processor knows, and how many cores it has."""
    known = (platform.machine(), platform.processor(), os.cpu_count())
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return known
    names = ("flags", "Features", "model name")
    return (*known, *sorted({line for line in lines if line.startswith(names)}))


def _settings() -> tuple[Any, ...]:
    """Settings of JAX and XLA that may change what is traced or compiled."""
    values = {
        name: str(getattr(jax.config, name, None))
        for name in sorted(jax.config.values)
        if not any(word in name for word in _IRRELEVANT)
    }
    flags = (os.environ.get("XLA_FLAGS"), os.environ.get("JAX_PLATFORMS"))
    return (*values.items(), *flags)
