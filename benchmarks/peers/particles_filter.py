"""The `particles` peer of the benchmark: the filter of filter.c, by Chopin's package.

Run by the interpreter of `.venv-particles` (see `filters.ensure_particles_env`):

    python particles_filter.py P RUNS SEED INPUT

INPUT and the JSON object on standard output are those of filter.c. The seconds cover the runs
alone: the imports, and one run that warms up compiled code, are left out.
"""

import argparse
import json
import time
import warnings
from pathlib import Path

import numpy as np
import particles
from particles import distributions as dists
from particles import state_space_models as ssm


class AR1(ssm.StateSpaceModel):
    """Linear Gaussian AR(1): x_1 ~ N(0, s0^2), x_t = phi x_{t-1} + sx N, y_t = x_t + sy N."""

    def PX0(self) -> dists.ProbDist:
        """Return the law of the first state."""
        return dists.Normal(loc=0.0, scale=self.s0)

    def PX(self, t: int, xp: np.ndarray) -> dists.ProbDist:
        """Return the law of the state at t given the one before."""
        return dists.Normal(loc=self.phi * xp, scale=self.sx)

    def PY(self, t: int, xp: np.ndarray, x: np.ndarray) -> dists.ProbDist:
        """Return the law of the observation at t given the state."""
        return dists.Normal(loc=x, scale=self.sy)


def read_input(path: Path) -> tuple[AR1, np.ndarray]:
    """Read the model and the observations from an INPUT file."""
    first, *rest = path.read_text().split("\n", 1)
    phi, sx, sy, s0 = map(float, first.split())
    return AR1(phi=phi, sx=sx, sy=sy, s0=s0), np.array(rest[0].split(), dtype=float)


def run_filter(fk: ssm.Bootstrap, count: int) -> tuple[float, bool]:
    """Run the filter once: its log evidence, and whether it resampled before every step t >= 2."""
    smc = particles.SMC(fk=fk, N=count, resampling="multinomial", ESSrmin=1.0)
    smc.run()
    return float(smc.logLt), all(smc.summaries.rs_flags[1:])


def main() -> None:
    """Run the filter as the command line says and print the JSON object."""
    parser = argparse.ArgumentParser(description="Bootstrap filter with the particles package.")
    parser.add_argument("particles", type=int)
    parser.add_argument("runs", type=int)
    parser.add_argument("seed", type=int)
    parser.add_argument("input", type=Path)
    args = parser.parse_args()
    warnings.filterwarnings("ignore", module=r"particles\.")
    model, ys = read_input(args.input)
    fk = ssm.Bootstrap(ssm=model, data=ys)
    np.random.seed(args.seed)  # noqa: NPY002 - the package draws from it
    run_filter(fk, args.particles)
    start = time.perf_counter()
    results = [run_filter(fk, args.particles) for _ in range(args.runs)]
    seconds = time.perf_counter() - start
    # ESSrmin=1 resamples when ESS < N, which weights equal up to rounding would not satisfy.
    if not all(resampled for _, resampled in results):
        raise SystemExit("particles_filter: a step was not preceded by resampling")
    log_evidence = [estimate for estimate, _ in results]
    print(json.dumps({"seconds": seconds, "log_evidence": log_evidence}))


if __name__ == "__main__":
    main()
