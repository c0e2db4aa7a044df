"""The plan of a call: checked settings, runners, chunks and blocks."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import jax
import numpy as np

from aide._core.algorithm import InferenceAlgorithm, describe, log_z_of
from aide._core.chains import Chains
from aide._core.random import as_key
from aide._core.types import GOLD, TARGET, Key, Role
from aide._core.validate import check_count, check_memory
from aide.engine.draws import Draws, Runs, Side
from aide.engine.outputs import check_algorithm, common_output
from aide.engine.programs.places import Chunk, current_place
from aide.engine.runners.choose import runner_of
from aide.engine.runners.runner import Look, Runner

NUM_RUNS = 500
"""Default number of runs of an algorithm; of a fixed list of draws at most all of them."""
CHUNKS_PER_BLOCK = 16
"""Approximate number of chunks in a block of runs. An interrupted call keeps whole blocks: more
chunks per block keep all threads busy, fewer lose less."""


@dataclass(frozen=True)
class Task:
    """The runs that a plan needs of one algorithm.

    Attributes:
        runner: The runner of the algorithm.
        num_runs: N.
        num_own: Columns of own scores: the run's own trace, M - 1 more, and one for the looseness.
        num_cross: Columns of scores by the other algorithm.
        simulate: Chunks of runs.
        regenerate: Chunks of meta-inference runs, the same at both algorithms' outputs.
        block_size: Runs per block.
    """

    runner: Runner
    num_runs: int
    num_own: int
    num_cross: int
    simulate: Chunk
    regenerate: Chunk
    block_size: int

    @property
    def algorithm(self) -> Any:
        """The algorithm."""
        return self.runner.algorithm


@dataclass(frozen=True)
class Plan:
    """All runs of a call. Make one with `make_plan`; it never changes.

    Attributes:
        key: The key from which the keys of all runs are derived.
        header: Draws without runs: roles, identities and settings of both algorithms.
        tasks: The runs of either algorithm.
        output: Shapes and dtypes to which the outputs of both are promoted.
        keep_values: Whether outputs are wanted of every run, also of known ones.
    """

    key: Key
    header: Draws
    tasks: dict[Role, Task]
    output: Any
    keep_values: bool

    @property
    def first_run(self) -> int:
        """Index of the first run."""
        return self.header.first_run

    def compile_tasks(self) -> Iterator[Callable[[], None]]:
        """Functions that compile all programs; each may run in a thread once it is yielded."""
        for task in self.tasks.values():
            chunks = task.simulate, task.regenerate
            yield from task.runner.compile_tasks(self.key, self.output, *chunks)

    def blocks(self, role: Role, known: Runs) -> Iterator[tuple[int, int]]:
        """Ranges of runs to finish one by one; known runs of one range have equal columns."""
        num = self.tasks[role].num_runs
        edges = {0, num, *range(0, num, self.tasks[role].block_size)}
        edges |= {edge for edge in known.edges() if edge < num}
        ordered = sorted(edges)
        yield from zip(ordered[:-1], ordered[1:], strict=True)

    def remaining_work(self, role: Role, known: Runs) -> int:
        """Number of runs and meta-inference runs of one algorithm that are still to be made."""
        task = self.tasks[role]
        done = np.minimum(known.num_own, task.num_own) + np.minimum(known.num_cross, task.num_cross)
        return task.num_runs * (task.num_own + task.num_cross) - int(done[: task.num_runs].sum())


def make_plan(
    key: Key | int,
    gold: InferenceAlgorithm,
    target: InferenceAlgorithm,
    *,
    runners: Mapping[Role, Runner] | None = None,
    num_parts: int = 1,
    keep_values: bool = False,
    num_gold: int | None = None,
    num_target: int | None = None,
    num_meta_gold: int = 1,
    num_meta_target: int = 1,
    measure_looseness: bool = True,
    first_run: int = 0,
    chunk_size: int | None = None,
) -> Plan:
    """Check all settings and trace both algorithms; nothing is compiled.

    Args:
        key: A JAX key, or an integer seed.
        gold: The gold standard.
        target: The algorithm that is measured.
        runners: Runners that hold programs already; missing ones are made here.
        num_parts: Least number of blocks of either algorithm.
        keep_values: See `Plan`.
        num_gold: See `aide.draw`, here and below.
        num_target: Runs of the target.
        num_meta_gold: Meta-inference runs of the gold standard per output.
        num_meta_target: Meta-inference runs of the target per output.
        measure_looseness: Draw one more meta-inference run per output.
        first_run: Index of the first run.
        chunk_size: Runs computed at a time.
    """
    key, algorithms = as_key(key), {GOLD: gold, TARGET: target}
    metas = {GOLD: num_meta_gold, TARGET: num_meta_target}
    stated = {GOLD: num_gold, TARGET: num_target}
    counts = _checked_counts(algorithms, stated, metas, first_run, chunk_size)
    size = None if chunk_size is None else int(chunk_size)
    sides = {role: _side(role, algorithms[role], metas, measure_looseness) for role in Role}
    scores = sum(counts[role] * (s.own.shape[1] + s.cross.shape[1]) for role, s in sides.items())
    check_memory("the log xi of these runs and meta-runs", 8 * scores)
    chosen = {} if runners is None else dict(runners)
    for role in Role:
        if role not in chosen:
            again = role is TARGET and gold is target
            chosen[role] = chosen[GOLD] if again else runner_of(algorithms[role])
    looks: dict[Role, Look] = {}
    with current_place().entered():
        for role in Role:
            chunk = Chunk(-(-counts[role] // num_parts), size)
            looks[role] = chosen[role].look(key, role, int(first_run), chunk)
        for role in Role:
            facts = facts_of(algorithms[role])  # a look may have tested the algorithm
            sides[role] = replace(sides[role], identity=chosen[role].identity(key), **facts)
        names = {role: sides[role].name for role in Role}
        output = common_output(looks[GOLD].output, looks[TARGET].output, names)
    data = tuple(np.asarray(jax.random.key_data(key)).ravel().tolist())
    header = Draws(sides[GOLD], sides[TARGET], data, int(first_run))
    tasks = _tasks(chosen, looks, header, counts, num_parts, size)
    return Plan(key, header, tasks, output, keep_values)


def _checked_counts(
    algorithms: Mapping[Role, InferenceAlgorithm],
    stated: Mapping[Role, int | None],
    metas: Mapping[Role, int],
    first_run: int,
    chunk_size: int | None,
) -> dict[Role, int]:
    """Number of runs of either algorithm; raise for an impossible setting."""
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
    return counts


def _tasks(
    runners: Mapping[Role, Runner],
    looks: Mapping[Role, Look],
    header: Draws,
    counts: Mapping[Role, int],
    num_parts: int,
    chunk_size: int | None,
) -> dict[Role, Task]:
    """Chunks and blocks, from the sizes that the runners report."""
    columns = {role: header.side(role).own.shape[1] for role in Role}
    crossed = {role: header.side(role).cross.shape[1] for role in Role}
    sizes, tasks = {}, {}
    for role, look in looks.items():
        at_once = look.chunk_size * look.num_threads
        enough = -(-CHUNKS_PER_BLOCK * at_once // (columns[role] + crossed[role]))
        sizes[role] = min(-(-counts[role] // num_parts), max(at_once, enough))
    for role, look in looks.items():
        rows = -(-counts[role] // num_parts)
        own = sizes[role] * max(1, columns[role] - 1)
        meta_rows = max(own, sizes[role.other] * crossed[role.other])
        if look.is_shared:
            rows = meta_rows = max(rows, meta_rows)
        chunks = Chunk(rows, chunk_size), Chunk(meta_rows, chunk_size)
        scores = columns[role], crossed[role]
        tasks[role] = Task(runners[role], counts[role], *scores, *chunks, sizes[role])
    return tasks


def _side(
    role: Role, algorithm: InferenceAlgorithm, metas: Mapping[Role, int], measure_looseness: bool
) -> Side:
    """The facts about the algorithm of this role, without runs and without an identity."""
    return Side(
        np.empty((0, int(metas[role]) + (1 if measure_looseness else 0))),
        np.empty((0, int(metas[role.other]))),
        role=role,
        num_meta=int(metas[role]),
        name=describe(algorithm),
        log_z=log_z_of(algorithm),
        **facts_of(algorithm),
    )


def facts_of(algorithm: InferenceAlgorithm) -> dict[str, Any]:
    """An algorithm's statements about its trust, as fields of `Side`."""
    doubts = getattr(algorithm, "doubts", None)
    return {
        "tractable": getattr(algorithm, "determines_log_xi", False) is True,
        "provenance": str(getattr(algorithm, "provenance", "")),
        "doubts": None if doubts is None else tuple(map(str, doubts)),
        "chains": _chains_of(algorithm),
    }


def _num_runs(role: Role, algorithm: InferenceAlgorithm, stated: int | None, first: int) -> int:
    """Number of runs, as stated or by default; raise if a fixed list of draws has too few."""
    chains = _chains_of(algorithm)
    if stated is not None:
        check_count(f"num_{role.word}", stated)
    num = NUM_RUNS if stated is None else int(stated)
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
