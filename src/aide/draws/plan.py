"""How a draw stage will run: what the outputs look like, in which chunks and blocks."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields
from typing import Any
from uuid import uuid4

import numpy as np

from aide._core.identity import Identity
from aide._core.roles import GOLD, TARGET, Role
from aide.draws.outputs import common_output
from aide.draws.request import Request
from aide.draws.storage.kept import Kept
from aide.running.choose import runner_of
from aide.running.chunks import Chunk
from aide.running.device import current_place
from aide.running.runner import FirstRun, Runner

CHUNKS_PER_BLOCK = 16
"""Runs are finished in blocks of about this many chunks; an interrupted run keeps whole blocks."""
MOST_RECEIVED = 4
_all_received: dict[str, "Plan"] = {}


@dataclass(frozen=True)
class Plan:
    """A request whose algorithms were looked at. Make one with `make_plan`.

    Attributes:
        request: What was asked for.
        runners: Who runs the two algorithms.
        output: Shapes and dtypes to which the outputs of both are promoted.
        identities: What the two algorithms compute.
        first_runs: The first run of an algorithm that had to be run to be looked at.
        simulate_chunks: Chunks in which each algorithm is simulated.
        regenerate_chunks: Chunks for its meta-inference, the same at both outputs.
        block_sizes: Runs per block: enough to keep all threads busy, few enough to lose little.
        token: The name of this plan among all plans, in whatever process.
    """

    request: Request
    runners: dict[Role, Runner]
    output: Any
    identities: dict[Role, Identity]
    first_runs: dict[Role, FirstRun | None]
    simulate_chunks: dict[Role, Chunk]
    regenerate_chunks: dict[Role, Chunk]
    block_sizes: dict[Role, int]
    token: str

    def __reduce__(self) -> Any:
        return _received, tuple(getattr(self, field.name) for field in fields(self))

    def compile_tasks(self) -> Iterator[Callable[[], None]]:
        """Functions that compile all programs; they may run in threads, each once it comes."""
        for role, runner in self.runners.items():
            chunks = self.simulate_chunks[role], self.regenerate_chunks[role]
            yield from runner.compile_tasks(self.request.key, self.output, *chunks)

    def blocks(self, role: Role, known: Kept) -> Iterator[tuple[int, int]]:
        """Ranges of runs to finish one by one; what is known of one range is known alike."""
        num = self.request.counts[role]
        edges = {0, num, *range(0, num, self.block_sizes[role])}
        edges |= {edge for edge in known.edges() if edge < num}
        ordered = sorted(edges)
        yield from zip(ordered[:-1], ordered[1:], strict=True)


def make_plan(
    request: Request, runners: Mapping[Role, Runner] | None = None, num_parts: int = 1
) -> Plan:
    """Look at both algorithms and compare their outputs; nothing is compiled yet.

    Args:
        request: What was asked for.
        runners: Runners that hold programs already; the others are made here.
        num_parts: Blocks that the runs of either algorithm are divided into, at least.
    """
    algorithms = request.algorithms
    chosen = {} if runners is None else dict(runners)
    for role in Role:
        if role not in chosen:
            again = role is TARGET and algorithms[GOLD] is algorithms[TARGET]
            chosen[role] = chosen[GOLD] if again else runner_of(algorithms[role])
    shares = {role: -(-request.counts[role] // num_parts) for role in Role}
    simulate = {role: Chunk(shares[role], request.chunk_size) for role in Role}
    with current_place().entered():
        looks = {
            role: chosen[role].look(request.key, role, request.first_run, simulate[role])
            for role in Role
        }
        identities = {role: chosen[role].identity(request.key) for role in Role}
        output = common_output(looks[GOLD].output, looks[TARGET].output, request.names)
    sizes = {}
    for role, look in looks.items():
        at_once = look.chunk_size * look.num_threads
        columns = request.num_own(role) + request.num_cross(role)
        enough = max(at_once, -(-CHUNKS_PER_BLOCK * at_once // columns))
        sizes[role] = min(shares[role], enough)
    regenerate = {}
    for role in Role:
        own = sizes[role] * max(1, request.num_own(role) - 1)
        cross = sizes[role.other] * request.num_cross(role.other)
        regenerate[role] = Chunk(max(own, cross), request.chunk_size)
        if looks[role].is_shared:
            rows = max(simulate[role].rows, regenerate[role].rows)
            simulate[role] = regenerate[role] = Chunk(rows, request.chunk_size)
    first_runs = {role: look.first_run for role, look in looks.items()}
    token = uuid4().hex
    plan = (request, chosen, output, identities, first_runs, simulate, regenerate, sizes, token)
    return Plan(*plan)


def remaining_work(request: Request, known: Mapping[Role, Kept]) -> dict[Role, int]:
    """Runs and meta-runs to do per role, for the progress bar."""
    totals = {}
    for role, kept in known.items():
        own, cross = request.num_own(role), request.num_cross(role)
        rows = slice(0, request.counts[role])
        done = np.minimum(kept.num_own[rows], own) + np.minimum(kept.num_cross[rows], cross)
        totals[role] = request.counts[role] * (own + cross) - int(done.sum())
    return totals


def _received(*parts: Any) -> Plan:
    """A plan that came from another process: of all its copies the first, which has programs."""
    plan = Plan(*parts)
    while len(_all_received) >= MOST_RECEIVED:
        _all_received.pop(next(iter(_all_received)), None)
    return _all_received.setdefault(plan.token, plan)
