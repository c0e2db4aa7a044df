"""Annealed Langevin without an accept step: its bound on log Z, canonical, learned and published.

    python benchmarks/run.py learned/langevin --only ionosphere --data ../shared/data/ionosphere.csv
    python benchmarks/run.py learned/langevin --only simulated --size 61 --powers 1

`gap` is log Z minus E[log p(x, y) - log xi]: the sampler's own error KL(q || p) together with the
looseness of its meta-inference. It is at least `error` (xi of fresh meta-inference at the outputs,
which is below log q on average), and the two enclose KL(q || p). `canonical` is the gap of the
equilibrium reverse. Step sizes, temperatures (k/K)^power and, with momenta, the persistence come
from a small grid, by the gap of other runs; the start is a Gaussian with the mode and the marginal
variances of the Laplace approximation (`--start full`: its covariance).
"""

import time
from collections.abc import Iterator
from itertools import product
from typing import Any, NamedTuple

import jax
import numpy as np

import aide
from aide.engine.programs.map_runs import map_runs
from benchmarks.regressions import Laplace, LogisticRegression
from benchmarks.table import Row

STEPS = (8, 16, 32, 64, 128, 256)
LOG_Z = -111.605
"""Of the ionosphere regression."""
PUBLISHED = {
    "ULA": (4.77, 3.80, 2.85, 2.12, 1.54, 1.08),
    "MCD": (3.32, 2.35, 1.60, 1.07, 0.69, 0.34),
    "CMCD": (1.58, 1.01, 1.01, 0.59, 0.35, 0.29),
    "UHA": (3.99, 2.75, 1.79, 1.11, 0.68, 0.42),
    "LDVI": (3.03, 1.63, 0.94, 0.47, 0.27, 0.24),
    "CMCD-UHA": (1.16, 0.96, 0.57, 0.36, 0.25, 0.18),
}
"""Gaps on the ionosphere regression at STEPS (Vargas, Padhy, Blessing, Nüsken 2024)."""
OF_KIND = {"overdamped": ("ULA", "MCD", "CMCD"), "underdamped": ("UHA", "LDVI", "CMCD-UHA")}
RELATIVE = {"overdamped": (0.7, 1.0, 1.3), "underdamped": (1.1, 1.5)}
"""Step sizes, in units of the narrowest direction of the posterior."""
POWERS = (1.0, 0.5)
PERSISTENCE = {"overdamped": (0.0,), "underdamped": (0.5, 0.8)}


class Setting(NamedTuple):
    """What the grid chooses."""

    step: float
    power: float
    persistence: float


class Study(NamedTuple):
    """A posterior, its log Z, and the kind of steps."""

    model: LogisticRegression
    log_z: float
    kind: str
    start: str
    powers: tuple[float, ...] = POWERS

    def algorithm(self, num_steps: int, setting: Setting) -> Any:
        """The sampler with K steps."""
        fitted = Laplace.of(self.model)
        start = fitted.full() if self.start == "full" else fitted.mean_field()
        kernel: Any = aide.kernels.Ula(setting.step)
        if self.kind == "underdamped":
            kernel = aide.kernels.UnderdampedLangevin(setting.step, setting.persistence)
        temperatures = (np.arange(1, num_steps + 1) / num_steps) ** setting.power
        return aide.annealed_langevin(start, self.model, kernel=kernel, temperatures=temperatures)

    def settings(self) -> list[Setting]:
        """The grid."""
        narrowest = np.linalg.eigvalsh(Laplace.of(self.model).precision)[-1] ** -0.5
        sizes = [round(float(factor * narrowest), 3) for factor in RELATIVE[self.kind]]
        grid = product(sizes, self.powers, PERSISTENCE[self.kind])
        return [Setting(*point) for point in grid]

    def measure(self, key: Any, algorithm: Any, runs: int) -> dict[str, np.ndarray]:
        """Gaps of every run with xi of its own and of fresh meta-inference."""
        rows = (np.arange(runs, dtype=np.uint32),)
        log_joint, own, fresh = map_runs(_pair, algorithm, key, rows, what="the sampler")
        gaps = {"gap": self.log_z - log_joint + own, "error": self.log_z - log_joint + fresh}
        return {**gaps, "looseness": own - fresh}


def _pair(algorithm: Any, key: Any, run: Any) -> tuple[Any, Any, Any]:
    """One run: log joint of its output, log xi of its own and of fresh meta-inference."""
    keys = jax.random.split(jax.random.fold_in(key, run))
    value, log_xi = algorithm.simulate(keys[0])
    plain = getattr(algorithm, "algorithm", algorithm)
    return plain.log_joint(value), log_xi, algorithm.regenerate(keys[1], value)


def choose(study: Study, num_steps: int, runs: int, reverse: int) -> Setting:
    """The setting of the grid with the least gap."""
    gaps = dict[Setting, float]()
    for setting in study.settings():
        algorithm = study.algorithm(num_steps, setting)
        try:
            refined = aide.refine(
                jax.random.key(11), algorithm, num_reverse=reverse, num_pilots=8192
            )
        except ValueError:  # the step diverges
            continue
        gaps[setting] = float(np.mean(study.measure(jax.random.key(12), refined, runs)["gap"]))
        print(num_steps, setting, f"{gaps[setting]:.3f}", flush=True)
    return min(gaps, key=lambda setting: gaps[setting])


def rows(
    study: Study, steps: tuple[int, ...], reverse: int, runs: int, tries: int, stated: str
) -> Iterator[Row]:
    """One row per K; `stated` is a setting instead of the grid: step,power,persistence."""
    for num_steps in steps:
        if stated:
            setting = Setting(*map(float, stated.split(",")))
        else:
            setting = choose(study, num_steps, tries, max(reverse // 10, 10))
        algorithm = study.algorithm(num_steps, setting)
        canonical = study.measure(jax.random.key(2), algorithm, 2000)["gap"]
        begun = time.perf_counter()
        refined = aide.refine(jax.random.key(1), algorithm, num_reverse=reverse)
        learning = time.perf_counter() - begun
        found = study.measure(jax.random.key(2), refined, runs)
        seconds = time.perf_counter() - begun - learning
        row: Row = {"kind": study.kind, "K": num_steps, **setting._asdict(), "R": reverse}
        row["canonical"] = float(canonical.mean())
        for name, values in found.items():
            row[name] = float(values.mean())
            row[f"{name}_error"] = float(values.std(ddof=1) / runs**0.5)
        row |= {"learning": learning, "seconds": seconds}
        if study.log_z == LOG_Z and num_steps in STEPS:
            place = STEPS.index(num_steps)
            row |= {name: PUBLISHED[name][place] for name in OF_KIND[study.kind]}
        yield row


def ionosphere(
    kind: str = "overdamped",
    steps: tuple[int, ...] = STEPS,
    reverse: int = 1000,
    runs: int = 500,
    tries: int = 100,
    start: str = "mean field",
    powers: tuple[float, ...] = POWERS,
    setting: str = "",
    data: str = "../shared/data/ionosphere.csv",
) -> Iterator[Row]:
    """35 dimensions, beside published gaps."""
    study = Study(LogisticRegression.of(data), LOG_Z, kind, start, powers)
    yield from rows(study, steps, reverse, runs, tries, setting)


def simulated(
    size: int = 26,
    kind: str = "overdamped",
    steps: tuple[int, ...] = STEPS,
    reverse: int = 1000,
    runs: int = 500,
    tries: int = 100,
    start: str = "mean field",
    powers: tuple[float, ...] = POWERS,
    setting: str = "",
) -> Iterator[Row]:
    """Simulated data; log Z by SMC from the Laplace approximation."""
    model = LogisticRegression.simulated(size)
    log_z, error = evidence(model)
    print(f"log Z = {log_z:.3f} ± {error:.3f}", flush=True)
    study = Study(model, log_z, kind, start, powers)
    for row in rows(study, steps, reverse, runs, tries, setting):
        yield {"size": size, **row}


def evidence(
    model: LogisticRegression, runs: int = 32, particles: int = 200
) -> tuple[float, float]:
    """Log Z of a posterior, from short paths that begin at a Gaussian fitted to it."""
    fitted = Laplace.of(model)
    covariance = np.linalg.inv(fitted.precision)
    smc = aide.tempered_smc(
        fitted.full(1.1),
        model,
        kernel=aide.kernels.Hmc(0.5, 4, covariance),
        num_particles=particles,
        num_temperatures=10,
    )
    numbers = (np.arange(runs, dtype=np.uint32),)
    log_joint, log_xi = map_runs(_run, smc, jax.random.key(7), numbers, what="SMC")
    log_p = log_joint - log_xi
    relative = np.exp(log_p - log_p.max())
    mean = float(log_p.max() + np.log(relative.mean()))
    return mean, float(relative.std(ddof=1) / relative.mean() / runs**0.5)


def _run(smc: Any, key: Any, run: Any) -> tuple[Any, Any]:
    value, log_xi = smc.simulate(jax.random.fold_in(key, run))
    return smc.log_joint(value), log_xi


TABLES = {"ionosphere": ionosphere, "simulated": simulated}
