"""The command explain: says why a job does not run."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from tenure.cli.connection import with_app
from tenure.cli.document import emit, json_option
from tenure.cli.ids import resolve_id
from tenure.documents import explanation_document

if TYPE_CHECKING:
    from tenure.app import App

__all__ = ["explain"]


@click.command()
@click.argument("job_id", metavar="ID")
@json_option
@with_app()
async def explain(app: App, job_id: str, as_json: bool) -> None:
    """Say why a job does not run, and what to do about it. For a run: why its current step does not.

    Exit code 2 if there is no such job.
    """
    from tenure.cli.display import console, text

    found = await app.aexplain(await resolve_id(app, job_id))
    if as_json:
        emit(explanation_document(found))
    else:
        out = console()
        out.print(text(found.summary, "bold"))
        for reason in found.reasons:
            out.print(text(f"- {reason.sentence}"))
            if reason.advice:
                out.print(text(f"  {reason.advice}", "dim"))
    if found.state is None:
        raise click.exceptions.Exit(2)
