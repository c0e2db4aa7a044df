"""The command `aide`: parsing only."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

import aide
from aide.experiments.command import EXPERIMENTS, TAKES_DATA

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    help="How accurate is your probabilistic inference?",
)


OWN_DATA = ", ".join(f"{what} for {name}" for name, what in TAKES_DATA.items())
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
    from aide._core.interrupts import cause, exit_code, terminable
    from aide.experiments.bad_input import BadInput

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
        code, line = exit_code(stop), f"{cause(stop)}: {str(stop) or 'nothing is saved'}. {go_on}"
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
    """Measure eight particle filters on 100 years of the Nile's flow (about half a minute)."""
    with _ending("demo", "The same command starts again."):
        from aide._core.files import make_folder
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
    num_runs: Annotated[int | None, typer.Option(help="Runs each way (N).")] = None,
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

    from aide.checking.load import BadTarget, load_target

    try:
        algorithm = load_target(target)
        report = aide.check(
            jax.random.key(seed),
            algorithm,
            num_runs=num_runs,
            false_alarm=false_alarm,
            shrink=shrink,
        )
    except BadTarget as error:
        typer.echo(f"aide check: {error}", err=True)
        raise typer.Exit(2) from None
    except (Exception, SystemExit) as error:  # of the user's code: that is no broken law
        typer.echo(f"aide check: {type(error).__name__}: {error}", err=True)
        raise typer.Exit(2) from error
    Console().print(report)
    codes = {"passed": 0, "FAILED": 1}
    raise typer.Exit(codes.get(report.verdict, 3))
