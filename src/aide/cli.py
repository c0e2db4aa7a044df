"""The command `aide`: parsing only."""

import os
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

import aide
from aide.experiments.command import EXPERIMENTS, TAKES_DATA

STUDY_FILE = Annotated[
    Path, typer.Argument(help="A Python file that defines gold, and target or targets.")
]
SEED = Annotated[int, typer.Option(help="Seed of all runs.")]
TOLERANCE = Annotated[
    str | None,
    typer.Option(
        help="What is good enough: a divergence in nats, such as 0.5, or errors, such as "
        "'means 0.1 sd, sds 10%, probabilities 0.05'."
    ),
]
UNTIL = Annotated[
    str | None,
    typer.Option(help="Add runs until this standard error, or 'verdict' (with --tolerance)."),
]
MAX_RUNS = Annotated[int | None, typer.Option(help="Limit of runs; by default 100,000.")]
MAX_TIME = Annotated[str | None, typer.Option(help="Limit of time, such as 90s, 10min or 2h.")]


def _former_budget(text: str | None) -> None:
    if text is not None:
        raise typer.BadParameter("--budget is called --max-runs 20000 --max-time 10min now.")


BUDGET = Annotated[str | None, typer.Option(hidden=True, callback=_former_budget)]
NUM_RUNS = Annotated[int | None, typer.Option(help="Runs of each algorithm; by default 500.")]
META = Annotated[int | None, typer.Option(help="Meta-inference runs per output.")]
OUT = Annotated[
    Path | None, typer.Option(help="Folder; what it holds is continued. aide-studies/FILE without.")
]
AS_JSON = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]
WORKERS = Annotated[int | None, typer.Option(help="Run on a local Dask cluster of N processes.")]
DASK = Annotated[str | None, typer.Option(help="Run on a Dask cluster: tcp://HOST:PORT.")]
DEVICES = Annotated[bool, typer.Option("--devices", help="Run on all GPUs of this machine.")]
UNCHANGED = Annotated[
    bool,
    typer.Option(
        "--unchanged",
        help="Say that plain Python code, which JAX cannot trace, is what it was when the runs in "
        "the folder were made.",
    ),
]
app = typer.Typer(
    no_args_is_help=True,
    help="How accurate is your probabilistic inference?",
)


OWN_DATA = ", ".join(f"{what} for {name}" for name, what in TAKES_DATA.items())
WIDE = 140
"""Width in characters of output to a file or a pipe, unless the variable COLUMNS states one."""
ROOM = "Choose another --out, or make it writable with room to spare."


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"aide {aide.__version__}")
        raise typer.Exit


@contextmanager
def _ending(command: str, go_on: str) -> Iterator[None]:
    """End with one line: exit code 2 if the user can mend it, 130 or 143 if stopped.

    Args:
        command: Whose line it is.
        go_on: What to do after an interruption.
    """
    from aide._core.process import exit_code, reason_to_stop, terminable
    from aide.experiments.runner import BadInput

    try:
        with terminable():
            yield
    except BadInput as error:
        code, line = 2, str(error)
    except OSError as error:
        if error.filename is None:  # no file of ours: a closed pipe, for example
            raise
        code, line = 2, f"cannot write to {error.filename}: {error.strerror}. {ROOM}"
    except KeyboardInterrupt as stop:
        saved = str(stop) or "nothing is saved"
        code, line = exit_code(stop), f"{reason_to_stop(stop)}: {saved}. {go_on}"
    else:
        return
    typer.echo(f"aide {command}: {line}", err=True)
    raise typer.Exit(code)


@app.callback()
def main(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show version.")
    ] = False,
    cache: Annotated[
        bool,
        typer.Option(envvar="AIDE_CACHE", help="Keep compiled programs for the next time."),
    ] = True,
) -> None:
    """How accurate is your probabilistic inference?"""
    if cache:
        aide.keep_programs()


@app.command()
def demo(
    out: Annotated[Path, typer.Option(help="Folder for the figure.")] = Path("aide-demo"),
    seed: Annotated[int, typer.Option(help="Seed; the same seed gives the same table.")] = 0,
) -> None:
    """Measure six particle filters on 100 years of the Nile's flow (about a minute)."""
    with _ending("demo", "The same command starts again."):
        from aide._core.process import make_folder
        from aide.experiments.command import check_seed
        from aide.experiments.demo import run_demo

        run_demo(make_folder(out), check_seed(seed))


@app.command()
def reproduce(
    experiment: Annotated[str, typer.Argument(help=f"{', '.join(EXPERIMENTS)} or all.")],
    scale: Annotated[str, typer.Option(help="smoke (seconds), default, or paper.")] = "default",
    seed: Annotated[int, typer.Option(help="Seed of all runs.")] = 0,
    out: Annotated[Path, typer.Option(help="Folder; what it holds is continued.")] = Path(
        "aide-reproduce"
    ),
    num_runs: Annotated[int | None, typer.Option(help="Runs of each algorithm (N).")] = None,
    particles: Annotated[str | None, typer.Option(help="Numbers of particles: 1,3,10.")] = None,
    meta: Annotated[str | None, typer.Option(help="Meta-inference runs (M): 1,100.")] = None,
    data: Annotated[Path | None, typer.Option(help=f"Your own data: {OWN_DATA}.")] = None,
) -> None:
    """Reproduce the experiments of the AIDE paper: results, figure and settings of each."""
    with _ending("reproduce", "The same command continues."):
        from rich.console import Console

        from aide.experiments import command
        from aide.experiments.runner import Options

        options = Options(
            scale,
            seed,
            out,
            num_runs,
            command.parse_counts("--particles", particles),
            command.parse_counts("--meta", meta),
            data,
        )
        command.reproduce(experiment, command.check_options(options), Console())


@app.command()
def check(
    target: Annotated[
        str,
        typer.Argument(help="FILE.py:NAME, an algorithm or a function without arguments."),
    ],
    num_runs: Annotated[int, typer.Option(help="Runs of simulate, over all versions.")] = 18_000,
    seed: Annotated[int, typer.Option(help="Seed of all runs.")] = 0,
    false_alarm: Annotated[
        float, typer.Option(help="Chance that a correct algorithm is reported as wrong.")
    ] = 1e-4,
    shrink: Annotated[bool, typer.Option(help="Also test small versions of it.")] = True,
) -> None:
    """Test whether an algorithm's simulate and regenerate obey the laws.

    Exit code 0: passed. 1: a law is broken. 2: bad input. 3: not decided, some law was not tested.
    """
    import jax
    from rich.console import Console

    from aide.experiments.runner import BadInput
    from aide.reporting.numbers import EXIT_CODES
    from aide.studies.study import load_target

    try:
        algorithm = load_target(target)
        report = aide.check(
            jax.random.key(seed),
            algorithm,
            num_runs=num_runs,
            false_alarm=false_alarm,
            shrink=shrink,
        )
    except BadInput as error:
        typer.echo(f"aide check: {error}", err=True)
        raise typer.Exit(2) from None
    except (Exception, SystemExit) as error:  # of the user's code: that is no broken law
        typer.echo(f"aide check: {type(error).__name__}: {error}", err=True)
        raise typer.Exit(2) from error
    Console().print(report)
    raise typer.Exit(EXIT_CODES[report.verdict])


@app.command()
def measure(
    study: STUDY_FILE,
    until: UNTIL = None,
    tolerance: TOLERANCE = None,
    max_runs: MAX_RUNS = None,
    max_time: MAX_TIME = None,
    budget: BUDGET = None,
    num_runs: NUM_RUNS = None,
    meta: META = None,
    seed: SEED = 0,
    out: OUT = None,
    as_json: AS_JSON = False,
    workers: WORKERS = None,
    dask: DASK = None,
    devices: DEVICES = False,
    unchanged: UNCHANGED = False,
) -> None:
    """Measure how far a target's outputs are from a gold standard's, in nats.

    Runs, result and report.html are in a folder that the same command continues. Exit code 0:
    passed (the divergence is below the tolerance), or no tolerance given. 1: failed (it is above).
    2: bad input. 3: undecided.
    """
    given = (seed, until, max_runs, max_time, tolerance, num_runs, meta, out, unchanged)
    _study("measure", study, given, as_json, (workers, dask, devices))


@app.command()
def compare(
    study: STUDY_FILE,
    tolerance: TOLERANCE = None,
    num_runs: NUM_RUNS = None,
    meta: META = None,
    seed: SEED = 0,
    out: OUT = None,
    as_json: AS_JSON = False,
    workers: WORKERS = None,
    dask: DASK = None,
    devices: DEVICES = False,
    unchanged: UNCHANGED = False,
) -> None:
    """Compare several targets with one gold standard: a ranked table, and a verdict each.

    Exit code 0: all targets passed (their divergences are below the tolerance), or no tolerance
    given. 1: one failed. 2: bad input. 3: none failed, but one is undecided.
    """
    given = (seed, None, None, None, tolerance, num_runs, meta, out, unchanged)
    _study("compare", study, given, as_json, (workers, dask, devices))


@app.command()
def tune(
    study: Annotated[
        Path,
        typer.Argument(
            help="A Python file that defines gold, target (from parameters to an algorithm), and "
            "settings (values of the parameters)."
        ),
    ],
    tolerance: Annotated[
        str,
        typer.Option(
            help="Largest divergence in nats that is good enough, such as 0.5, or errors: 'means "
            "0.1 sd, sds 10%, probabilities 0.05'."
        ),
    ],
    max_runs: MAX_RUNS = None,
    max_time: MAX_TIME = None,
    budget: BUDGET = None,
    seed: SEED = 0,
    out: OUT = None,
    as_json: AS_JSON = False,
    workers: WORKERS = None,
    dask: DASK = None,
    devices: DEVICES = False,
    unchanged: UNCHANGED = False,
) -> None:
    """Find the cheapest setting of a target that is within a tolerance.

    Exit code 0: found. 2: bad input. 3: none was shown to be.
    """
    given = (seed, None, max_runs, max_time, tolerance, None, None, out, unchanged)
    _study("tune", study, given, as_json, (workers, dask, devices))


@app.command()
def report(
    folder: Annotated[Path, typer.Argument(help="The folder of a finished study.")],
) -> None:
    """Write report.html of a finished study again, from its result.json alone."""
    with _ending("report", "The same command starts again."):
        from aide.studies.folder import StudyFolder
        from aide.studies.report import write_report

        found = StudyFolder(folder)
        write_report(found.load(), found.report)
        typer.echo(found.report)


@app.command()
def scorecard(
    folder: Annotated[
        Path,
        typer.Argument(
            help="The folder posterior_database of a copy of posteriordb; a checkout of TensorFlow "
            "Probability, for Inference Gym; or the word evidence."
        ),
    ],
    out: Annotated[Path, typer.Option(help="Folder; what it holds is continued.")] = Path(
        "aide-scorecard"
    ),
    only: Annotated[str, typer.Option(help="Names of posteriors, such as 'kidiq*'.")] = "*",
    algorithm: Annotated[
        list[str] | None, typer.Option(help="An algorithm, such as Laplace; may be repeated.")
    ] = None,
    tolerance: TOLERANCE = None,
    num_runs: NUM_RUNS = None,
    max_time: MAX_TIME = None,
    max_row_time: Annotated[
        str | None, typer.Option(help="Limit of time of one row; by default 10min.")
    ] = None,
    seed: SEED = 0,
    workers: Annotated[
        int, typer.Option(help="Processes at a time, which share the cores of this machine.")
    ] = 1,
    dask: DASK = None,
    retry: Annotated[
        bool, typer.Option("--retry", help="Run rows again that have a reason, no number.")
    ] = False,
    as_json: AS_JSON = False,
) -> None:
    """Measure usual algorithms on every posterior of posteriordb that has reference draws.

    Each row is a file of its own; the same command goes on where it stopped. --max-time limits the
    making of one gold standard. Needs the extras numpyro and blackjax. Other suites, of numbers
    that others published, get rows that say: published, ours, z.
    """
    with _ending("scorecard", "The same command continues."):
        from rich.console import Console

        from aide._core.process import InUse
        from aide.experiments.runner import BadInput
        from aide.studies.options import parse_time
        from aide.studies.study import dask_client

        try:
            from aide import scorecard as card
        except ImportError as error:
            raise BadInput(f"{error}. The card needs the extras numpyro and blackjax.") from None
        given = {
            "tolerance": tolerance,
            "num_runs": num_runs,
            "max_seconds": parse_time(max_time),
            "max_row_seconds": parse_time(max_row_time),
            "algorithms": algorithm or None,
        }
        chosen: dict[str, Any] = {name: one for name, one in given.items() if one is not None}
        chosen |= {"only": only, "seed": seed, "num_workers": workers, "retry": retry}
        try:
            if card.suite_at(str(folder)) is None:
                run = partial(card.scorecard, **chosen)
            else:
                run = partial(card.published, **_for_suites(chosen))
            with nullcontext() if dask is None else dask_client(dask) as client:
                executor = None if client is None else client.get_executor()
                found = run(folder, out, executor=executor, progress=True)
        except (InUse, ValueError) as error:
            raise BadInput(str(error)) from error
        if isinstance(found, card.Scorecard):
            (out / "card.md").write_text(found.markdown())
        (out / "card.csv").write_text(found.to_csv())
        if as_json:
            typer.echo(found.to_json())
        else:
            Console().print(found)


def _for_suites(chosen: dict[str, Any]) -> dict[str, Any]:
    """Return the options of a suite of published numbers.

    Raises:
        ValueError: If an option was given that such a suite does not have.
    """
    for name in ("tolerance", "max_row_seconds"):
        if name in chosen:
            raise ValueError(f"A suite of published numbers has no {name}: its rows have a z.")
    names = {"num_runs": "num_draws", "max_seconds": "max_seconds", "only": "only", "seed": "seed"}
    found = {names[name]: value for name, value in chosen.items() if name in names}
    return {**found, "num_workers": chosen["num_workers"] or 1}


@app.command()
def references(
    folder: Annotated[
        Path, typer.Argument(help="The folder posterior_database of a copy of posteriordb.")
    ],
    out: Annotated[Path, typer.Option(help="Folder; what it holds is continued.")] = Path(
        "aide-references"
    ),
    only: Annotated[str, typer.Option(help="Names of posteriors, such as 'wells*,dogs*'.")] = "*",
    num_draws: Annotated[int, typer.Option(help="Draws of each reference.")] = 10_000,
    max_time: MAX_TIME = None,
    nuts: Annotated[
        bool, typer.Option("--nuts", help="Compare each reference with a long run of NUTS too.")
    ] = False,
    seed: SEED = 0,
    workers: WORKERS = None,
    as_json: AS_JSON = False,
) -> None:
    """Make references for the posteriors of posteriordb that have no reference draws.

    Draws of gold standards that passed their tests, in the format of the database. --max-time
    limits the making of one gold standard. Needs the extras numpyro and blackjax.
    """
    with _ending("references", "The same command continues."):
        from rich.console import Console

        from aide.experiments.runner import BadInput
        from aide.studies.options import parse_time

        try:
            from aide import scorecard as card
        except ImportError as error:
            raise BadInput(f"{error}. Models need the extras numpyro and blackjax.") from None
        limit = parse_time(max_time)
        chosen: dict[str, Any] = {} if limit is None else {"max_seconds": limit}
        try:
            found = card.references(
                *(folder, out),
                only=only.split(","),
                num_draws=num_draws,
                nuts=nuts,
                seed=seed,
                num_workers=workers or 1,
                **chosen,
            )
        except ValueError as error:
            raise BadInput(str(error)) from error
        if as_json:
            typer.echo(found.to_json())
        else:
            Console().print(found)


def _study(
    command: str,
    study: Path,
    given: tuple[Any, ...],
    as_json: bool,
    where: tuple[int | None, str | None, bool],
) -> None:
    """Run one of the commands on a study, print what it found, and end with its exit code."""
    with _ending(command, "The same command continues."):
        from rich.console import Console

        from aide.studies import run
        from aide.studies.options import options_of
        from aide.studies.study import load_study, workers

        options = options_of(study, *given)
        loaded = load_study(str(study), tuning=command == "tune")
        with workers(*where, loaded.module) as executor:
            found = run.COMMANDS[command](loaded, options, executor)
        if as_json:
            typer.echo(found.to_json())
        else:
            console = Console()
            if not console.is_terminal:  # a file or a pipe has no width to keep to
                console = Console(width=int(os.environ.get("COLUMNS", WIDE)))
            for shown in run.shown_of(found):
                console.print(shown)
            typer.echo(f"\nReport: {options.out / 'report.html'}", err=True)
        code = run.exit_code(found, options.tolerance)
    raise typer.Exit(code)
