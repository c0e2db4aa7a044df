"""A process that was forked after JAX ran in it hangs: see that before it does."""

import os

_owner: int | None = None


def check_not_forked() -> None:
    """Raise in a child of the process that called this first, before it computes anything.

    `fork` copies the memory of JAX but not its threads, for which the child then waits for ever.
    """
    global _owner
    if _owner is None:
        _owner = os.getpid()
    if _owner != os.getpid():
        raise RuntimeError(
            f"this process ({os.getpid()}) was forked from one that has already run aide "
            f"({_owner}), where JAX would hang. Start it afresh instead: "
            "multiprocessing.get_context('spawn') or ProcessPoolExecutor(mp_context=...), joblib's "
            "loky; or fork before anything runs."
        )
