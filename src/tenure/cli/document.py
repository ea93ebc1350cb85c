"""`emit` prints one JSON document, and `json_option` is the option that asks for it; `tenure.documents` makes them."""

from __future__ import annotations

import json

import click

__all__ = ["emit", "json_option"]

json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")


def emit(document: object) -> None:
    """Print one JSON document; control characters and non-ASCII characters are escaped."""
    click.echo(json.dumps(document, indent=2).replace("\x7f", "\\u007f"))
