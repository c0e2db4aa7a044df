"""Run benchmarks; write what they measure with machine, date and versions.

    python benchmarks/run.py --list
    python benchmarks/run.py speed                                    # a section
    python benchmarks/run.py coverage/intervals --replications 10000  # one benchmark
    python benchmarks/run.py learned/mcmc --only walk1d               # one of its tables
    python benchmarks/run.py learned/mcmc --help                      # its options
    python benchmarks/run.py speed --out FOLDER                       # not benchmarks/results/

A benchmark is a file in the folder of a section. Its `TABLES` are functions that yield rows, by the
name of the table; their parameters, which all have defaults, are the options. Tables go to
`benchmarks/results/<section>/<name>.md`, and with all digits to the `.json` beside it.
"""

import argparse
import ast
import inspect
import sys
from collections.abc import Callable, Iterator, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

HERE = Path(__file__).resolve().parent
# Benchmarks use truths and known pairs of the tests (`reference`, `support`), never the reverse.
sys.path[:1] = [str(HERE.parent), str(HERE.parent / "tests")]

from benchmarks.machine import as_line, describe  # noqa: E402
from benchmarks.table import Row, save, show  # noqa: E402

SECTIONS = ("speed", "coverage", "power", "learned", "gold", "adapters", "studies")
Table = Callable[..., Iterator[Row]]


class Benchmark(NamedTuple):
    """A file in the folder of a section."""

    section: str
    name: str

    def __str__(self) -> str:
        return f"{self.section}/{self.name}"

    @property
    def about(self) -> str:
        """The first line of its docstring."""
        tree = ast.parse((HERE / self.section / f"{self.name}.py").read_text())
        return (ast.get_docstring(tree) or "").partition("\n")[0]

    def load(self) -> tuple[str, dict[str, Table]]:
        """Its docstring and its tables."""
        module = import_module(f"benchmarks.{self.section}.{self.name}")
        return module.__doc__ or "", module.TABLES


Entry = tuple[Benchmark, str, Table]
"""A table, its name, and whose it is."""


def all_benchmarks() -> list[Benchmark]:
    """Every benchmark, section by section."""
    files = [file for section in SECTIONS for file in sorted((HERE / section).glob("*.py"))]
    return [Benchmark(file.parent.name, file.stem) for file in files]


def chosen(word: str) -> list[Benchmark]:
    """A section, one benchmark, or with an empty word all of them."""
    found = [each for each in all_benchmarks() if word in ("", each.section, str(each))]
    if not found:
        names = ", ".join([*SECTIONS, *map(str, all_benchmarks())])
        sys.exit(f"no benchmark is called {word!r}; there are {names}.")
    return found


def options_of(table: Table) -> dict[str, Any]:
    """Defaults of a table's parameters: a bool, a number, a text, or a tuple of numbers."""
    return {name: each.default for name, each in inspect.signature(table).parameters.items()}


def add_option(parser: argparse.ArgumentParser, name: str, default: Any) -> None:
    """`--name`, as its default shows; None where it is not given."""
    flag = f"--{name.replace('_', '-')}"
    if isinstance(default, bool):
        parser.add_argument(flag, action="store_true", default=None)
    elif isinstance(default, tuple):
        kind = type(default[0])
        parser.add_argument(flag, type=kind, nargs="+", help=f"numbers; {default} without")
    else:
        parser.add_argument(flag, type=type(default), help=f"{default!r} without")


def main(words: Sequence[str]) -> None:
    """Run what the command line asks for."""
    if "--list" in words:
        for benchmark in all_benchmarks():
            print(f"{benchmark!s:<22} {benchmark.about}")
        return
    if words[:1] in (["--help"], ["-h"]):
        print(__doc__)
        return
    named = bool(words) and not words[0].startswith("-")
    loaded = {each: each.load() for each in chosen(words[0] if named else "")}
    about = next(iter(loaded.values()))[0] if len(loaded) == 1 else __doc__ or ""
    tables = [(each, *item) for each, (_, part) in loaded.items() for item in part.items()]
    options = parse(words[1:] if named else words, about, tables)
    out, only = options.pop("out"), options.pop("only")
    for table in tables:
        if not only or table[1] in only:
            run_table(*table, options, out)


def parse(words: Sequence[str], about: str, tables: Sequence[Entry]) -> dict[str, Any]:
    """Where to write, which tables, and what was said of their options."""
    parser = argparse.ArgumentParser(
        "run.py", description=about, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    names = [name for _, name, _ in tables]
    parser.add_argument("--out", type=Path, default=HERE / "results", help="folder for the tables")
    parser.add_argument("--only", choices=names, action="append", help="tables to make")
    defaults = {name: value for *_, each in tables for name, value in options_of(each).items()}
    for name, value in defaults.items():
        add_option(parser, name, value)
    return vars(parser.parse_args(words))


def run_table(
    benchmark: Benchmark, name: str, table: Table, options: dict[str, Any], out: Path
) -> None:
    """Measure, print and save one table; one without rows is not saved."""
    settings = options_of(table)
    settings |= {name: options[name] for name in settings if options[name] is not None}
    head = {**describe(), "options": settings}
    print(f"\n{benchmark}: {name}\n{as_line(head)}\n", flush=True)
    if rows := show(table(**settings)):
        save(out / benchmark.section / benchmark.name, name, head, rows)


if __name__ == "__main__":
    main(sys.argv[1:])
