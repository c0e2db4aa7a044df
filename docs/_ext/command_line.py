"""The help of the command `aide`, as it prints it: every command with its arguments and options."""

from typing import Any

import typer
from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from aide.cli import app as aide_command


class CommandLine(SphinxDirective):
    """A section for each command: its sentence, its usage and its options."""

    def run(self) -> list[nodes.Node]:
        """Called by Sphinx."""
        group: Any = typer.main.get_command(aide_command)  # of a class of Typer's own
        commands = group.commands
        return [_section("aide", group), *(_section(f"aide {n}", c) for n, c in commands.items())]


def _section(name: str, command: Any) -> nodes.section:
    """One command."""
    section = nodes.section(ids=[nodes.make_id(name)], names=[name])
    section += nodes.title("", "", nodes.literal(text=name))
    section += nodes.paragraph(text=" ".join((command.help or "").split()))
    with command.context_class(command, info_name=name) as context:
        usage = " ".join([name, *command.collect_usage_pieces(context)])
        section += nodes.literal_block(usage, usage, language="text")
        records = [parameter.get_help_record(context) for parameter in command.params]
    rows = [_row(*record) for record in records if record is not None]  # hidden options have none
    if rows:
        section += _table(rows)
    return section


def _row(written: str, meaning: str) -> tuple[str, str]:
    """An option or argument as it is written, and what it means."""
    return written, " ".join(meaning.split())


def _table(rows: list[tuple[str, str]]) -> nodes.table:
    """Two columns without a head."""
    group = nodes.tgroup("", *(nodes.colspec(colwidth=width) for width in (35, 65)), cols=2)
    body = nodes.tbody()
    for written, meaning in rows:
        left = nodes.entry("", nodes.paragraph("", "", nodes.literal(text=written)))
        body += nodes.row("", left, nodes.entry("", nodes.paragraph(text=meaning)))
    group += body
    return nodes.table("", group)


def setup(app: Sphinx) -> dict[str, Any]:
    """Called by Sphinx."""
    app.add_directive("command-line", CommandLine)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
