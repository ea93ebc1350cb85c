"""`manage.py tenure`: every command of Tenure's command line, for the app of a backend in `TASKS`."""

from __future__ import annotations

import os
import sys
from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from tenure.cli import main
from tenure.django.backend import tenure_backends

__all__ = ["Command"]


class Command(BaseCommand):  # type: ignore[misc]  # Django has no types
    """Passes its arguments on. `--alias NAME` in front of them chooses a backend; by default it is `default`."""

    help = "Run jobs and look after them: manage.py tenure work, jobs, failed, explain … (manage.py tenure --help)."
    requires_system_checks: tuple[str, ...] = ()

    def run_from_argv(self, argv: list[str]) -> None:
        """Take everything after the name of the command as it is, because its options are Tenure's."""
        try:
            arguments = self._prepare(_without_options_of_django(argv[2:]))
        except CommandError as error:
            self.stderr.write(str(error))
            sys.exit(1)
        main(arguments, prog_name=f"{os.path.basename(argv[0])} {argv[1]}")

    def add_arguments(self, parser: ArgumentParser) -> None:
        """For `call_command("tenure", "queues")`."""
        parser.add_argument("arguments", nargs="*")

    def handle(self, *_: Any, arguments: list[str], **__: Any) -> None:
        """Run a command in this process."""
        main(self._prepare(arguments), prog_name="tenure", standalone_mode=False)

    def _prepare(self, arguments: list[str]) -> list[str]:
        """Name the app in the environment, where processes of a supervisor find it too. The arguments without `--alias`."""
        aliases = [backend.alias for backend in tenure_backends()]
        if not aliases:
            raise CommandError('TASKS has no backend "tenure.django.TenureBackend"')
        alias = "default" if "default" in aliases else aliases[0]
        if arguments[:1] == ["--alias"]:
            alias, arguments = "".join(arguments[1:2]), arguments[2:]
            if alias not in aliases:
                raise CommandError(f"TASKS has no TenureBackend {alias!r}: there are {', '.join(aliases)}")
        os.environ["TENURE_APP"] = f"tenure.django.target:{alias}"
        # Processes of a supervisor look for modules where `manage.py` stands, from wherever it was called.
        paths = os.environ.get("PYTHONPATH", "").split(os.pathsep)
        if sys.path[0] not in paths:
            os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [sys.path[0], *paths]))
        return arguments


def _without_options_of_django(arguments: list[str]) -> list[str]:
    """Drop `--settings` and `--pythonpath`, which Django has obeyed already."""
    kept: list[str] = []
    rest = iter(arguments)
    for argument in rest:
        name, equals, _ = argument.partition("=")
        if name not in {"--settings", "--pythonpath"}:
            kept.append(argument)
        elif not equals:
            next(rest, None)
    return kept
