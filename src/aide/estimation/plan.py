"""What a draw stage has to do, checked before anything runs."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

import jax
import numpy as np

from aide._algorithm import describe, log_z_of
from aide._random import GOLD
from aide._validate import check_count
from aide.estimation.check_outputs import check_algorithm, common_output
from aide.estimation.draws import Draws, Side, join
from aide.estimation.engine import default_device, num_threads
from aide.estimation.operations import Chunk, compile_tasks, probe_output
from aide.estimation.repeats import is_same_algorithm

CHUNKS_PER_BLOCK = 16
"""Runs are finished in blocks of about this many chunks; an interrupted run keeps whole blocks."""
ROLES = ("gold", "target")


@dataclass
class Plan:
    """All settings of a draw stage. `counts` and `metas` are (gold, target)."""

    key: Any
    algorithms: tuple[Any, Any]
    counts: tuple[int, int]
    metas: tuple[int, int]
    looseness: bool
    first_run: int
    chunk_size: int | None
    output: Any = None
    probes: Any = None
    keep_values: bool = False

    def __post_init__(self) -> None:
        for role, name in enumerate(ROLES):
            check_algorithm(name, self.algorithms[role])
            check_count(f"num_{name}", self.counts[role])
            check_count(f"num_meta_{name}", self.metas[role])
        check_count("first_run", self.first_run, 0)
        if self.first_run + max(self.counts) > 2**32:
            raise ValueError(
                f"runs are numbered up to 2**32, but first_run = {self.first_run} with "
                f"{max(self.counts)} runs goes beyond: use another key and concatenate."
            )
        if self.chunk_size is not None:
            check_count("chunk_size", self.chunk_size)
            self.chunk_size = int(self.chunk_size)
        self.counts = (int(self.counts[0]), int(self.counts[1]))
        self.metas = (int(self.metas[0]), int(self.metas[1]))
        self.first_run = int(self.first_run)
        self.names = (describe(self.algorithms[0]), describe(self.algorithms[1]))

    def prepare(self, known: tuple[Side | None, Side | None]) -> None:
        """Trace both algorithms, compare their outputs, compile all four programs at once.

        Known runs must be of these very algorithms: the first of them is repeated.
        """
        probes = [
            probe_output(self.key, role, algorithm, self.first_run)
            for role, algorithm in enumerate(self.algorithms)
        ]
        self.output = common_output(probes[0].output, probes[1].output, self.names)
        self.probes = (probes[0], probes[1])
        tasks = [
            task
            for role, algorithm in enumerate(self.algorithms)
            for task in compile_tasks(
                self.key,
                algorithm,
                self.output,
                self.simulate_chunk(role),
                self.regenerate_chunk(role),
            )
        ]
        with ThreadPoolExecutor(num_threads(default_device())) as pool:
            for done in [pool.submit(task) for task in tasks]:
                done.result()
        for role, side in enumerate(known):
            if side is not None and side.num_runs:
                self._check_first_run(role, float(side.own[0, 0]))

    def _check_first_run(self, role: int, stored: float) -> None:
        again = self.probes[role].first_log_xi(self.simulate_chunk(role))
        if abs(stored - again) > 1e-6 * max(1.0, abs(stored)):
            raise ValueError(
                f"the stored runs were not made by this {ROLES[role]} algorithm: its first run has "
                f"log_xi = {again:.6g}, the stored one {stored:.6g}. Were its data or parameters "
                "changed? Then draw afresh, without share, extend or the old checkpoint."
            )

    def simulate_chunk(self, role: int) -> Chunk:
        """Chunks in which to simulate the algorithm of this role."""
        return Chunk(self.counts[role], self.chunk_size)

    def regenerate_chunk(self, role: int) -> Chunk:
        """Chunks for meta-inference of the algorithm of this role, the same at both outputs."""
        own = self.block_size(role) * max(1, self.num_own(role) - 1)
        return Chunk(
            max(own, self.block_size(1 - role) * self.num_cross(1 - role)), self.chunk_size
        )

    def num_own(self, role: int) -> int:
        """Columns of own scores: the real trace, M - 1 more, and one for the looseness."""
        return self.metas[role] + (1 if self.looseness else 0)

    def num_cross(self, role: int) -> int:
        """Columns of scores by the other algorithm."""
        return self.metas[1 - role]

    def header(self) -> Draws:
        """Draws without runs: names, claims and settings."""
        return Draws(
            gold=self.empty(0),
            target=self.empty(1),
            num_meta_gold=self.metas[0],
            num_meta_target=self.metas[1],
            names=self.names,
            log_z=(log_z_of(self.algorithms[0]), log_z_of(self.algorithms[1])),
            key_data=tuple(np.asarray(jax.random.key_data(self.key)).ravel().tolist()),
            first_run=self.first_run,
            same_algorithm=is_same_algorithm(*self.algorithms),
        )

    def empty(self, role: int) -> Side:
        """A side without runs."""
        return Side(np.empty((0, self.num_own(role))), np.empty((0, self.num_cross(role))))

    def known(self, share: Draws | None, extend: Draws | None) -> tuple[Side | None, Side | None]:
        """The runs that need not be repeated, checked to belong to this plan."""
        if share is not None and extend is not None:
            raise ValueError(
                "give share or extend, not both: extend already contains the gold runs."
            )
        share, extend = getattr(share, "draws", share), getattr(extend, "draws", extend)
        if extend is not None:
            self._check_same("extend", extend, ROLES)
            return extend.gold, extend.target
        if share is not None:
            self._check_same("share", share, ("gold",))
            gold = share.gold
            return replace(gold, cross=np.empty((gold.num_runs, 0))), None
        return None, None

    def block_size(self, role: int) -> int:
        """Runs per block: enough to keep all threads busy, few enough to lose little."""
        probe = self.probes[role]
        chunks = probe.chunk_size(self.counts[role]) * probe.num_threads
        if self.chunk_size is not None:
            chunks = min(self.chunk_size, self.counts[role]) * probe.num_threads
        rows_per_run = self.num_own(role) + self.num_cross(role)
        return min(self.counts[role], max(chunks, -(-CHUNKS_PER_BLOCK * chunks // rows_per_run)))

    def collect(self, role: int, parts: list[Side], known: Side | None) -> Side:
        """The finished runs, and after them what was known of the runs not yet reached."""
        sides = [self.empty(role), *parts]
        done = sum(side.num_runs for side in sides)
        widths = (self.num_own(role), self.num_cross(role))
        if known is not None and done < self.counts[role]:
            sides.append(known.take(slice(done, self.counts[role])))
        sides = [side for side in sides if side.num_runs] or sides[:1]
        # Where only some runs of a side have been given more meta-runs, the old number stays.
        own = min(widths[0], *(side.own.shape[1] for side in sides))
        cross = min(widths[1], *(side.cross.shape[1] for side in sides))
        return join([replace(s, own=s.own[:, :own], cross=s.cross[:, :cross]) for s in sides])

    def blocks(self, role: int, known: Side | None) -> Iterator[tuple[int, int]]:
        """Ranges of runs to finish one by one; none straddles the end of what is known."""
        num = self.counts[role]
        edges = {*range(0, num, self.block_size(role)), num}
        if known is not None:
            edges.add(min(known.num_runs, num))
        ordered = sorted(edges)
        yield from zip(ordered[:-1], ordered[1:], strict=True)

    def work(self, known: tuple[Side | None, Side | None]) -> tuple[int, int]:
        """Runs and meta-runs to do per role, for the progress bar."""
        totals = []
        for role, side in enumerate(known):
            total = self.counts[role] * (self.num_own(role) + self.num_cross(role))
            if side is not None:
                shared = min(side.num_runs, self.counts[role])
                own = min(side.own.shape[1], self.num_own(role))
                total -= shared * (own + min(side.cross.shape[1], self.num_cross(role)))
            totals.append(total)
        return totals[0], totals[1]

    def _check_same(self, argument: str, draws: Draws, roles: tuple[str, ...]) -> None:
        header = self.header()
        if draws.key_data != header.key_data or draws.first_run != self.first_run:
            raise ValueError(
                f"{argument} holds runs of another key or first_run (key {draws.key_data}, run "
                f"{draws.first_run}), but this call has key {header.key_data}, run "
                f"{self.first_run}. Use the same ones, or concatenate the two results instead."
            )
        for name in roles:
            role = GOLD if name == "gold" else 1 - GOLD
            if draws.names[role] != self.names[role]:
                raise ValueError(
                    f"{argument} holds runs with {name} = {draws.names[role]!r}, but this call has "
                    f"{name} = {self.names[role]!r}."
                )
