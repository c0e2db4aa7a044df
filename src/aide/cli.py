"""The command `aide`: parsing only."""

from pathlib import Path
from typing import Annotated

import typer

import aide

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    help="How accurate is your probabilistic inference?",
)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"aide {aide.__version__}")
        raise typer.Exit


@app.callback()
def main(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show version.")
    ] = False,
) -> None:
    """How accurate is your probabilistic inference?"""


@app.command()
def demo(
    out: Annotated[Path, typer.Option(help="Folder for the figure.")] = Path("aide-demo"),
    seed: Annotated[int, typer.Option(help="Seed; the same seed gives the same table.")] = 0,
) -> None:
    """Measure eight particle filters on 100 years of the Nile's flow (about half a minute)."""
    from aide.demo import run_demo

    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        typer.echo(
            f"aide demo: cannot write to {out}: {error.strerror}. Choose another --out.", err=True
        )
        raise typer.Exit(2) from None
    run_demo(out, seed)
