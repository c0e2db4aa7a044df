"""What an object is, as far as its results depend on it: data, settings and code."""

from aide._core.identity.identity import (
    Identity,
    identity_of,
    is_packaged,
    program_identity_of,
)

__all__ = ["Identity", "identity_of", "is_packaged", "program_identity_of"]
