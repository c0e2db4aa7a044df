"""The work of `aide reproduce`, after its arguments are parsed."""

from collections.abc import Callable, Sequence

from rich.console import Console

from aide._core.process import make_folder
from aide.experiments.bimodal import bimodal
from aide.experiments.dpmm import dpmm, galaxy
from aide.experiments.hmm import hmm
from aide.experiments.linreg import linreg
from aide.experiments.runner import BadInput, Experiment, Options, quote, run_experiment

SCALES = ("smoke", "default", "paper")
"""Sizes of an experiment: seconds, minutes, and the paper's size."""
TAKES_DATA = {"hmm": "JSON", "dpmm": "a column", "galaxy": "a column"}
"""Experiments that accept a user's own data, and the form of the data."""
LARGEST_COUNT = 1_000_000
"""Largest number of particles or of meta-inference runs: 1,000 times the paper's.

One run still fits in memory."""
LARGEST_NUM_RUNS = 10_000_000
"""Largest number of runs of an estimate: 1,000 times the paper's."""
LARGEST_SEED = 2**32 - 1
"""Largest seed: JAX uses 32 bits, so that a larger seed would repeat a smaller one's draws."""


EXPERIMENTS: dict[str, Callable[[Options], Experiment]] = {
    "linreg": linreg,
    "bimodal": bimodal,
    "hmm": hmm,
    "dpmm": dpmm,
    "galaxy": galaxy,
}


def reproduce(name: str, options: Options, console: Console) -> None:
    """Run one experiment, or all of them; inputs are checked before anything is written."""
    if name != "all" and name not in EXPERIMENTS:
        raise BadInput(f"unknown experiment {quote(name)}; choose {', '.join(EXPERIMENTS)} or all.")
    if options.data is not None and name not in TAKES_DATA:
        raise BadInput(f"--data applies to {', '.join(TAKES_DATA)}, not to {name}.")
    names: Sequence[str] = tuple(EXPERIMENTS) if name == "all" else (name,)
    experiments = [EXPERIMENTS[each](options) for each in names]
    make_folder(options.out)
    for experiment in experiments:
        folder = run_experiment(experiment, options, console)
        console.print(f"{experiment.name}: {folder}", highlight=False, soft_wrap=True)


def parse_counts(option: str, text: str | None) -> tuple[int, ...] | None:
    """Numbers from a text such as `1,3,10`, all at least 1, without repetition."""
    if text is None:
        return None
    try:
        numbers = tuple(dict.fromkeys(int(part) for part in text.split(",")))
    except ValueError:
        raise BadInput(f"{option} takes numbers such as 1,3,10, got {quote(text)}.") from None
    if min(numbers) < 1 or max(numbers) > LARGEST_COUNT:
        raise BadInput(f"{option} takes numbers from 1 to {LARGEST_COUNT:,}, got {quote(text)}.")
    return numbers


def check_seed(seed: int) -> int:
    """Return the seed; raise if JAX cannot distinguish it from another one."""
    if not 0 <= seed <= LARGEST_SEED:
        raise BadInput(f"--seed must be from 0 to {LARGEST_SEED}, got {quote(str(seed))}.")
    return seed


def check_options(options: Options) -> Options:
    """Check the options that all experiments share."""
    check_seed(options.seed)
    if options.scale not in SCALES:
        raise BadInput(f"--scale must be one of {', '.join(SCALES)}, got {quote(options.scale)}.")
    num = options.num_runs
    if num is not None and not 2 <= num <= LARGEST_NUM_RUNS:
        raise BadInput(
            f"--num-runs must be at least 2 and at most {LARGEST_NUM_RUNS:,}, "
            f"got {quote(str(num))}."
        )
    return options
