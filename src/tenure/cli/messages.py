"""CommandError and print_message: what the command line prints on stderr, beside its answers on stdout."""

from __future__ import annotations

from typing import IO, Any

import click

from tenure.core.escape import escaped

__all__ = ["CommandError", "print_message"]


class CommandError(click.ClickException):
    """A command cannot do what the user asked: one sentence on stderr, exit code 2, no traceback."""

    exit_code = 2

    def show(self, file: IO[Any] | None = None) -> None:  # noqa: ARG002
        print_message(self.message)


def print_message(message: str) -> None:
    """Print one line on stderr, escaped."""
    click.echo(f"tenure: {escaped(message)}", err=True)
