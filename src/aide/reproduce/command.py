"""What `aide reproduce` does after its arguments are parsed."""

from collections.abc import Callable, Sequence

from rich.console import Console

from aide.reproduce.bimodal import bimodal
from aide.reproduce.dpmm import dpmm, galaxy
from aide.reproduce.hmm import hmm
from aide.reproduce.linreg import linreg
from aide.reproduce.runner import BadInput, Experiment, Options, make_folder, run_experiment

EXPERIMENTS: dict[str, Callable[[Options], Experiment]] = {
    "linreg": linreg,
    "bimodal": bimodal,
    "hmm": hmm,
    "dpmm": dpmm,
    "galaxy": galaxy,
}
SCALES = ("smoke", "default", "paper")
TAKES_DATA = ("hmm", "dpmm", "galaxy")


def reproduce(name: str, options: Options, console: Console) -> None:
    """Run one experiment, or all of them; inputs are checked before anything is written."""
    if name != "all" and name not in EXPERIMENTS:
        raise BadInput(f"unknown experiment {name!r}; choose {', '.join(EXPERIMENTS)} or all.")
    if options.data is not None and name not in TAKES_DATA:
        raise BadInput(f"--data applies to {', '.join(TAKES_DATA)}, not to {name}.")
    names: Sequence[str] = tuple(EXPERIMENTS) if name == "all" else (name,)
    experiments = [EXPERIMENTS[each](options) for each in names]
    make_folder(options.out)
    for experiment in experiments:
        folder = run_experiment(experiment, options, console)
        console.print(f"{experiment.name}: {folder}", highlight=False, soft_wrap=True)


def parse_counts(option: str, text: str | None) -> tuple[int, ...] | None:
    """`1,3,10` as numbers, all at least 1, without repetition."""
    if text is None:
        return None
    try:
        numbers = tuple(dict.fromkeys(int(part) for part in text.split(",")))
    except ValueError:
        raise BadInput(f"{option} takes numbers such as 1,3,10, got {text!r}.") from None
    if min(numbers) < 1:
        raise BadInput(f"{option} takes numbers of at least 1, got {text!r}.")
    return numbers


def check_options(options: Options) -> Options:
    """Check what does not depend on the experiment."""
    if options.scale not in SCALES:
        raise BadInput(f"--scale must be one of {', '.join(SCALES)}, got {options.scale!r}.")
    if options.num_runs is not None and options.num_runs < 2:
        raise BadInput(f"--num-runs must be at least 2, got {options.num_runs}.")
    return options
