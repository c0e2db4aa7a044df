"""`python -m aide` is the command `aide`."""

from aide.cli import app

app(prog_name="aide")
