"""One block of runs: simulate what is unknown, score what is not scored yet.

A block is a function of the plan, the role, the range of runs and what is known of them: nothing
else is read, and nothing is written.
"""

import jax
import numpy as np

from aide._core.roles import Role
from aide.draws.outputs import check_log_xi
from aide.draws.plan import Plan
from aide.draws.repeats import check_varied, fingerprints_of
from aide.draws.sides import Runs
from aide.running.map_runs import Report
from aide.running.runner import MetaRuns


def draw_block(
    plan: Plan, role: Role, begin: int, end: int, known: Runs | None, report: Report
) -> Runs:
    """Runs `begin` to `end` of one role, starting from what `known` holds of them."""
    request, runner = plan.request, plan.runners[role]
    runs = np.arange(request.first_run + begin, request.first_run + end)
    num_own, num_cross = request.num_own(role), request.num_cross(role)
    own = np.empty((len(runs), 0)) if known is None else known.own[:, :num_own]
    cross = np.empty((len(runs), 0)) if known is None else known.cross[:, :num_cross]
    values = None if known is None else known.values
    complete = own.shape[1] == num_own and cross.shape[1] == num_cross
    first, prints = (None, None) if known is None else (known.first, known.fingerprints)
    if complete and (values is not None or not request.keep_values):
        return Runs(own, cross, values, first, prints)

    if values is None:
        chunk = plan.simulate_chunks[role]
        values, log_xi = runner.simulate(request.key, role, runs, chunk, report)

        def replay(row: int) -> None:
            runner.replay(request.key, role, int(runs[row]))

        algorithm = request.algorithms[role]
        check_log_xi(role.word, algorithm, "simulate", log_xi, values, replay)
        prints = fingerprints_of(values)
        check_varied(role.word, algorithm, values, prints)
        if own.shape[1]:
            _check_same(role, own[:, 0], log_xi)
        else:
            own = log_xi[:, None]
    values = jax.tree.map(lambda a, like: np.asarray(a).astype(like.dtype), values, plan.output)
    if begin == 0:
        first = jax.tree.map(lambda a: a[0], values)

    def score(by: Role, metas: np.ndarray) -> np.ndarray:
        chunk = plan.regenerate_chunks[by]
        asked = MetaRuns(role, values, runs, metas, own=by is role)
        log_xi = plan.runners[by].regenerate(request.key, asked, chunk, report)
        check_log_xi(by.word, request.algorithms[by], "regenerate", log_xi, values)
        return log_xi

    if own.shape[1] < num_own:
        metas = np.arange(own.shape[1], num_own)
        own = np.concatenate([own, score(role, metas)], axis=1)
    if cross.shape[1] < num_cross:
        metas = np.arange(cross.shape[1], num_cross)
        cross = np.concatenate([cross, score(role.other, metas)], axis=1)
    return Runs(own, cross, values, first, prints)


def _check_same(role: Role, stored: np.ndarray, again: np.ndarray) -> None:
    if not np.allclose(stored, again, rtol=1e-6, atol=1e-6):
        raise ValueError(
            f"the stored runs were not made by this {role.word} algorithm: run again with the same "
            f"key, its first log_xi is {again[0]:.6g} instead of {stored[0]:.6g}. Draw afresh, "
            "without share, extend or the old checkpoint."
        )
