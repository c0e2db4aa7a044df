"""What a draw stage was asked for, checked before anything runs."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields
from typing import Any
from uuid import uuid4

import jax
import numpy as np

from aide._core.algorithm import InferenceAlgorithm, describe, log_z_of
from aide._core.chains import Chains
from aide._core.random import as_key
from aide._core.types import GOLD, TARGET, Key, Role
from aide._core.validate import check_count, check_memory
from aide.engine.draws import Draws
from aide.engine.outputs import check_algorithm, common_output
from aide.engine.programs.identity import Identity
from aide.engine.programs.places import Chunk, current_place
from aide.engine.runners.choose import runner_of
from aide.engine.runners.runner import FirstRun, Runner
from aide.engine.runs import Kept, Side

NUM_RUNS = 500
"""Runs of an algorithm unless stated; of a fixed list of draws at most all of them."""


@dataclass(frozen=True)
class Request:
    """All settings of a draw stage, and what its two algorithms say of themselves.

    Make one with `make_request`, which checks them. Attributes by role: the algorithms, the numbers
    of runs and of meta-runs, names, claims about log Z.
    """

    key: Key
    algorithms: dict[Role, InferenceAlgorithm]
    counts: dict[Role, int]
    metas: dict[Role, int]
    measure_looseness: bool
    first_run: int
    chunk_size: int | None
    keep_values: bool
    names: dict[Role, str]
    log_z: dict[Role, float | None]

    @property
    def key_data(self) -> tuple[int, ...]:
        """The words of the key."""
        return tuple(np.asarray(jax.random.key_data(self.key)).ravel().tolist())

    def num_own(self, role: Role) -> int:
        """Columns of own scores: the real trace, M - 1 more, and one for the looseness."""
        return self.metas[role] + (1 if self.measure_looseness else 0)

    def num_cross(self, role: Role) -> int:
        """Columns of scores by the other algorithm."""
        return self.metas[role.other]


def make_request(
    key: Key | int,
    gold: InferenceAlgorithm,
    target: InferenceAlgorithm,
    *,
    num_gold: int | None = None,
    num_target: int | None = None,
    num_meta_gold: int = 1,
    num_meta_target: int = 1,
    measure_looseness: bool = True,
    first_run: int = 0,
    chunk_size: int | None = None,
    keep_values: bool = False,
) -> Request:
    """Check everything that can be checked without running anything; see `aide.draw`."""
    key = as_key(key)
    algorithms = {GOLD: gold, TARGET: target}
    stated = {GOLD: num_gold, TARGET: num_target}
    metas = {GOLD: num_meta_gold, TARGET: num_meta_target}
    check_count("first_run", first_run, 0)
    counts = {}
    for role in Role:
        check_algorithm(role.word, algorithms[role])
        counts[role] = _num_runs(role, algorithms[role], stated[role], first_run)
        check_count(f"num_meta_{role.word}", metas[role])
    most = max(counts.values())
    if first_run + most > 2**32:
        raise ValueError(
            f"runs are numbered up to 2**32, but first_run = {first_run} with {most} runs goes "
            "beyond: use another key and concatenate."
        )
    if chunk_size is not None:
        check_count("chunk_size", chunk_size)
    request = Request(
        key=key,
        algorithms=algorithms,
        counts={role: int(count) for role, count in counts.items()},
        metas={role: int(num) for role, num in metas.items()},
        measure_looseness=measure_looseness,
        first_run=int(first_run),
        chunk_size=None if chunk_size is None else int(chunk_size),
        keep_values=keep_values,
        names={role: describe(algorithm) for role, algorithm in algorithms.items()},
        log_z={role: log_z_of(algorithm) for role, algorithm in algorithms.items()},
    )
    columns = {role: request.num_own(role) + request.num_cross(role) for role in Role}
    size = sum(request.counts[role] * columns[role] for role in Role)
    check_memory("the log xi of these runs and meta-runs", 8 * size)
    return request


def draws_without_runs(request: Request, identities: Mapping[Role, Identity]) -> Draws:
    """Draws that hold no run yet: who plays which part, and settings."""
    return Draws(
        gold=_side(request, GOLD, identities[GOLD]),
        target=_side(request, TARGET, identities[TARGET]),
        key_data=request.key_data,
        first_run=request.first_run,
    )


def _side(request: Request, role: Role, identity: Identity) -> Side:
    """The facts about the algorithm of this role, without runs."""
    return Side(
        np.empty((0, request.num_own(role))),
        np.empty((0, request.num_cross(role))),
        role=role,
        num_meta=request.metas[role],
        name=request.names[role],
        log_z=request.log_z[role],
        identity=identity,
        **facts_of(request.algorithms[role]),
    )


def facts_of(algorithm: InferenceAlgorithm) -> dict[str, Any]:
    """What an algorithm says about how far it can be trusted, as fields of `Side`."""
    doubts = getattr(algorithm, "doubts", None)
    return {
        "tractable": getattr(algorithm, "determines_log_xi", False) is True,
        "provenance": str(getattr(algorithm, "provenance", "")),
        "doubts": None if doubts is None else tuple(map(str, doubts)),
        "chains": _chains_of(algorithm),
    }


def _num_runs(role: Role, algorithm: InferenceAlgorithm, stated: int | None, first: int) -> int:
    """How many runs, as stated or by default; a fixed list of draws must have that many."""
    chains = _chains_of(algorithm)
    if stated is not None:
        check_count(f"num_{role.word}", stated)
    num = NUM_RUNS if stated is None else stated
    if chains is None:
        return num
    left = chains.size - first
    if left < (1 if stated is None else num):
        begin = f" from first_run = {first} on" if first else ""
        raise ValueError(
            f"num_{role.word} = {num}{begin} asks for more runs than the {chains.size} draws that "
            f"{describe(algorithm)} holds, and no draw is used twice: ask for at most "
            f"{max(left, 0)}, or give more draws."
        )
    return min(num, left)


def _chains_of(algorithm: InferenceAlgorithm) -> Chains | None:
    chains = getattr(algorithm, "chains", None)
    return chains if isinstance(chains, Chains) else None


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
