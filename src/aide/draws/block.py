"""One block of runs: simulate what is unknown, score what is not scored yet."""

from collections.abc import Callable

import jax
import numpy as np

from aide.draws.outputs import check_log_xi
from aide.draws.plan import ROLES, Plan
from aide.draws.repeats import check_varied, fingerprints_of
from aide.draws.sides import Runs
from aide.running.operations import regenerate_runs, replay_run, simulate_runs


def draw_block(
    plan: Plan,
    role: int,
    begin: int,
    end: int,
    known: Runs | None,
    report: Callable[[int], None],
) -> Runs:
    """Runs `begin` to `end` of one role, starting from what `known` holds of them."""
    runs = np.arange(plan.first_run + begin, plan.first_run + end)
    algorithm = plan.algorithms[role]
    num_own, num_cross = plan.num_own(role), plan.num_cross(role)
    own = np.empty((len(runs), 0)) if known is None else known.own[:, :num_own]
    cross = np.empty((len(runs), 0)) if known is None else known.cross[:, :num_cross]
    values = None if known is None else known.values
    complete = own.shape[1] == num_own and cross.shape[1] == num_cross
    first, prints = (None, None) if known is None else (known.first, known.fingerprints)
    if complete and (values is not None or not plan.keep_values):
        return Runs(own, cross, values, first, prints)

    if values is None:
        chunk = plan.simulate_chunk(role)
        values, log_xi = simulate_runs(plan.key, role, algorithm, runs, chunk, report)

        def replay(row: int) -> None:
            replay_run(plan.key, role, algorithm, int(runs[row]))

        check_log_xi(ROLES[role], algorithm, "simulate", log_xi, values, replay)
        prints = fingerprints_of(values)
        check_varied(ROLES[role], algorithm, values, prints)
        if own.shape[1]:
            _check_same(ROLES[role], own[:, 0], log_xi)
        else:
            own = log_xi[:, None]
    values = jax.tree.map(lambda a, like: np.asarray(a).astype(like.dtype), values, plan.output)
    if begin == 0:
        first = jax.tree.map(lambda a: a[0], values)

    def score(by: int, metas: np.ndarray) -> np.ndarray:
        which = plan.algorithms[by]
        chunk = plan.regenerate_chunk(by)
        log_xi = regenerate_runs(
            plan.key, role, which, values, runs, metas, by == role, chunk, report
        )
        check_log_xi(ROLES[by], which, "regenerate", log_xi, values)
        return log_xi

    if own.shape[1] < num_own:
        metas = np.arange(own.shape[1], num_own)
        own = np.concatenate([own, score(role, metas)], axis=1)
    if cross.shape[1] < num_cross:
        metas = np.arange(cross.shape[1], num_cross)
        cross = np.concatenate([cross, score(1 - role, metas)], axis=1)
    return Runs(own, cross, values, first, prints)


def _check_same(role: str, stored: np.ndarray, again: np.ndarray) -> None:
    if not np.allclose(stored, again, rtol=1e-6, atol=1e-6):
        raise ValueError(
            f"the stored runs were not made by this {role} algorithm: run again with the same key, "
            f"its first log_xi is {again[0]:.6g} instead of {stored[0]:.6g}. Draw afresh, without "
            "share, extend or the old checkpoint."
        )
