"""Carrying out a plan: every block run, kept, and saved on the way."""

from collections.abc import Mapping
from concurrent.futures import Executor
from contextlib import ExitStack

from aide._core.roles import GOLD, TARGET, Role
from aide.draws.draws import Draws
from aide.draws.plan import Plan, remaining_work
from aide.draws.request import Request, draws_without_runs
from aide.draws.sides import Runs, join
from aide.draws.spread import run_blocks
from aide.draws.storage.checkpoint import Checkpoint
from aide.draws.storage.dataset import check_savable
from aide.draws.storage.kept import Kept
from aide.running.progress import Progress


def progress_of(request: Request, known: Mapping[Role, Kept], show: bool | None) -> Progress:
    """A bar for each role."""
    totals = remaining_work(request, known)
    names = [f"{role.word:<6}  {request.names[role]}" for role in Role]
    return Progress(names, [totals[role] for role in Role], show)


def run_plan(
    plan: Plan,
    known: Mapping[Role, Kept],
    file: Checkpoint | None,
    executor: Executor | None,
    bar: Progress,
) -> Draws:
    """All runs of the plan, with their outputs; `file` grows block by block."""
    header, keep_values = (
        draws_without_runs(plan.request, plan.identities),
        plan.request.keep_values,
    )
    sides: dict[Role, dict[int, Runs]] = {role: {} for role in Role}

    def save() -> None:
        if file is not None:
            grown = {
                role: known[role].with_runs([*sides[role].values()], keep_values) for role in Role
            }
            file.save(header, (grown[GOLD], grown[TARGET]))

    def keep(role: Role, begin: int, runs: Runs) -> None:
        sides[role][begin] = runs
        if file is not None and file.is_due:
            save()

    with ExitStack() as stack:
        if file is not None:  # an unwritable file, or outputs that cannot be saved, show now
            check_savable(plan.output if keep_values else None)
            save()
            stack.enter_context(file.saved_at_the_end(save))
        run_blocks(plan, known, executor, bar, keep)
    joined = {role: join([*blocks.values()]) for role, blocks in sides.items()}
    return header.with_runs(joined[GOLD], joined[TARGET])
