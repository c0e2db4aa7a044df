"""What a draw stage has to do, checked before anything runs."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from aide._core.algorithm import describe, log_z_of
from aide._core.identity import Identity, identity_of
from aide._core.roles import GOLD, TARGET, Role
from aide._core.validate import check_count, check_memory
from aide.draws.draws import Draws
from aide.draws.outputs import check_algorithm, common_output
from aide.draws.sides import Side
from aide.draws.storage.dataset import check_no_nan
from aide.draws.storage.kept import Kept, nothing
from aide.running.operations import Chunk, compile_tasks, probe_output, regenerate_runs
from aide.running.programs import default_device, num_threads

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
        rows = [self.counts[role] * (self.num_own(role) + self.num_cross(role)) for role in (0, 1)]
        check_memory("the log xi of these runs and meta-runs", 8 * sum(rows))
        self.names = (describe(self.algorithms[0]), describe(self.algorithms[1]))
        self.log_z = (log_z_of(self.algorithms[0]), log_z_of(self.algorithms[1]))
        self.identities = (identity_of(self.algorithms[0]), identity_of(self.algorithms[1]))

    def prepare(self, known: tuple[Kept, Kept]) -> None:
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
        for role, kept in enumerate(known):
            if kept.num_runs:
                self._check_first_run(role, kept)

    def _check_first_run(self, role: int, kept: Kept) -> None:
        """Repeat the first run: output, own and cross scores must be those that are stored."""
        chunk = self.simulate_chunk(role)
        value, log_xi = self.probes[role].first_run(chunk)
        again = [("log_xi", kept.own[0, 0], log_xi)]
        leaves = (jax.tree.leaves(tree) for tree in (kept.first, value))
        again += [("output", old, new) for old, new in zip(*leaves, strict=False)]
        stacked = jax.tree.map(lambda a, like: np.asarray(a, like.dtype)[None], value, self.output)
        for by, table, number, first in (
            (role, kept.own, kept.num_own[0], 1),
            (1 - role, kept.cross, kept.num_cross[0], 0),
        ):
            if number > first:
                scores = regenerate_runs(
                    self.key,
                    role,
                    self.algorithms[by],
                    stacked,
                    np.array([self.first_run]),
                    np.array([first]),
                    by == role,
                    self.regenerate_chunk(by),
                    lambda done: None,
                )
                words = f"log_xi of regenerate of the {ROLES[by]} algorithm"
                again.append((words, table[0, first], scores[0, 0]))
        for what, stored, found in again:
            if not np.allclose(stored, found, rtol=1e-6, atol=1e-6):
                raise ValueError(
                    f"the stored runs were not made by this {ROLES[role]} algorithm: in its first "
                    f"run {what} is {_short(found)}, the stored one {_short(stored)}. Draw afresh, "
                    "without share, extend or the old checkpoint."
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
        """Draws without runs: who plays which part, and settings."""
        return Draws(
            gold=self.side(GOLD),
            target=self.side(TARGET),
            key_data=tuple(np.asarray(jax.random.key_data(self.key)).ravel().tolist()),
            first_run=self.first_run,
        )

    def side(self, role: Role) -> Side:
        """The facts about the algorithm of this role, without runs."""
        return Side(
            np.empty((0, self.num_own(role))),
            np.empty((0, self.num_cross(role))),
            role=role,
            num_meta=self.metas[role],
            name=self.names[role],
            log_z=self.log_z[role],
            tractable=_is_tractable(self.algorithms[role]),
            identity=self.identities[role],
        )

    def known(self, share: Any, extend: Any) -> tuple[Kept, Kept]:
        """The runs that need not be repeated, checked to belong to this plan."""
        if share is not None and extend is not None:
            raise ValueError(
                "give share or extend, not both: extend already contains the gold runs."
            )
        if extend is not None:
            draws = _as_draws("extend", extend)
            self.check_same("extend", draws, ROLES)
            return _as_kept("extend", draws.gold), _as_kept("extend", draws.target)
        if share is not None:
            draws = _as_draws("share", share)
            self.check_same("share", draws, ("gold",))
            return _as_kept("share", draws.gold).without_cross(), nothing()
        return nothing(), nothing()

    def block_size(self, role: int) -> int:
        """Runs per block: enough to keep all threads busy, few enough to lose little."""
        probe = self.probes[role]
        chunks = probe.chunk_size(self.counts[role]) * probe.num_threads
        if self.chunk_size is not None:
            chunks = min(self.chunk_size, self.counts[role]) * probe.num_threads
        rows_per_run = self.num_own(role) + self.num_cross(role)
        return min(self.counts[role], max(chunks, -(-CHUNKS_PER_BLOCK * chunks // rows_per_run)))

    def blocks(self, role: int, known: Kept) -> Iterator[tuple[int, int]]:
        """Ranges of runs to finish one by one; what is known of one range is known alike."""
        num = self.counts[role]
        edges = {*range(0, num, self.block_size(role)), num}
        edges |= {edge for edge in known.edges() if edge < num}
        ordered = sorted(edges | {0})
        yield from zip(ordered[:-1], ordered[1:], strict=True)

    def work(self, known: tuple[Kept, Kept]) -> tuple[int, int]:
        """Runs and meta-runs to do per role, for the progress bar."""
        totals = []
        for role, kept in enumerate(known):
            own, cross = self.num_own(role), self.num_cross(role)
            rows = slice(0, self.counts[role])
            done = np.minimum(kept.num_own[rows], own) + np.minimum(kept.num_cross[rows], cross)
            totals.append(self.counts[role] * (own + cross) - int(done.sum()))
        return totals[0], totals[1]

    def check_same(self, argument: str, draws: Draws, roles: tuple[str, ...]) -> None:
        """Raise unless stored runs are of this key and of these very algorithms."""
        header = self.header()
        if draws.key_data != header.key_data or draws.first_run != self.first_run:
            raise ValueError(
                f"{argument} holds runs of another key or first_run (key {draws.key_data}, run "
                f"{draws.first_run}), but this call has key {header.key_data}, run "
                f"{self.first_run}. Use the same ones, or concatenate the two results instead."
            )
        for name in roles:
            role = GOLD if name == "gold" else 1 - GOLD
            _check_identity(argument, name, draws.side(Role(role)).identity, self.identities[role])


def _check_identity(argument: str, role: str, before: Identity | None, now: Identity) -> None:
    where = f"{argument} holds runs that were not made by this {role} algorithm"
    fresh = "Draw afresh, without share, extend or the old checkpoint."
    if before is None:
        raise ValueError(f"{where}, or by nobody knows which: they carry no identity. {fresh}")
    if before.unseen or now.unseen:
        parts = ", ".join(dict.fromkeys((*before.unseen, *now.unseen)))
        raise ValueError(
            f"{argument} cannot be used with this {role} algorithm: nobody can tell whether "
            f"{parts} is what it was. {fresh} Or give the object an attribute aide_identity, a "
            "text that changes whenever its results do."
        )
    changed = before.differences(now)
    if changed:
        raise ValueError(f"{where}: {changed} changed since. {fresh}")


def _as_draws(argument: str, given: Any) -> Draws:
    draws = getattr(given, "draws", given)
    if not isinstance(draws, Draws):
        raise TypeError(
            f"{argument} must be draws or an estimate (of aide.draw, aide.estimate or "
            f"aide.draws.load), got {given!r}."
        )
    return draws


def _as_kept(argument: str, side: Side) -> Kept:
    kept = Kept.of(side)
    check_no_nan(argument, kept)
    return kept


def _is_tractable(algorithm: Any) -> bool:
    return getattr(algorithm, "determines_log_xi", False) is True


def _short(number: Any) -> str:
    return np.array2string(np.asarray(number), precision=6, threshold=4)
