"""load_app: imports the app that `module:app` or `path/to/file.py:app` names. The only place that does so."""

from __future__ import annotations

import difflib
import importlib
import importlib.util
import pkgutil
import sys
import traceback
from collections.abc import Iterable
from pathlib import Path
from types import ModuleType

import click

from tenure.app import App
from tenure.cli.messages import CommandError
from tenure.core.escape import escaped
from tenure.worker.supervision.sources import app_files

__all__ = ["import_included", "load", "load_app", "show_traceback"]


def load_app(target: str) -> App:
    """Import the module or file and return the App that the target names, by default `app`, with its included modules.

    Raises `CommandError` with one sentence, which suggests the closest existing name.
    """
    _, found = load(target, App)
    if not isinstance(found, App):
        raise CommandError(f"{target} is of type {type(found).__name__}, not an App")
    import_included(found)
    return found


def load(target: str, *kinds: type) -> tuple[ModuleType, object]:
    """Import the module or file; returns it and what the target names there. If that is missing, one of `kinds` is suggested."""
    where, colon, attribute = target.rpartition(":")
    if not colon:
        where, attribute = target, "app"
    module = _file(where) if where.endswith(".py") else _module(where)
    try:
        return module, getattr(module, attribute)
    except AttributeError:
        fitting = [name for name, value in vars(module).items() if isinstance(value, kinds)]
        hint = _hint(attribute, fitting or vars(module))
        raise CommandError(f"{where} has no attribute {attribute!r}{hint}") from None


def import_included(app: App) -> None:
    """Import the modules that the app includes."""
    for name in app.internals.included:  # importing one may add others
        _module(name)


def _module(name: str) -> ModuleType:
    # A console script does not have the working directory on its path; `python -m` does.
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    if not all(part.isidentifier() for part in name.split(".")):
        raise CommandError(f"{name!r} is not a module name: write module:app or path/to/file.py:app")
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and f"{name}.".startswith(f"{error.name}."):
            raise CommandError(f"there is no module {error.name!r}{_hint(error.name, _siblings(error.name))}") from None
        raise _import_error(name, error) from error
    except (Exception, SystemExit) as error:  # a user's module may raise anything when it is imported
        raise _import_error(name, error) from error


def _file(where: str) -> ModuleType:
    path = Path(where).resolve()
    if not path.is_file():
        raise CommandError(
            f"there is no file {where}{_hint(path.name, (other.name for other in path.parent.glob('*.py')))}"
        )
    # A file may have the name of a module that is already imported (queue.py), which must not be replaced.
    name = path.stem if path.stem not in sys.modules else f"{path.stem}_py"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    sys.path.insert(0, str(path.parent))
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:  # a user's module may raise anything when it is imported
        raise _import_error(where, error) from error
    return module


def _siblings(name: str) -> list[str]:
    """The full names of the modules beside `name`, to suggest the closest."""
    package, dot, _ = name.rpartition(".")
    paths = getattr(sys.modules[package], "__path__", []) if dot else None
    return [f"{package}{dot}{module.name}" for module in pkgutil.iter_modules(paths)]


def _hint(name: str, known: Iterable[str]) -> str:
    close = difflib.get_close_matches(name, known, n=1)
    return f": did you mean {close[0]!r}?" if close else ""


def _import_error(where: str, error: BaseException) -> CommandError:
    """The error of an import that failed, with the last line of the user's code in its traceback."""
    place, line = "", None
    if isinstance(error, SyntaxError):
        place, line = f" in {error.filename}, line {error.lineno}", error.text
    elif frames := _frames(error):
        theirs = app_files(frame.filename for frame in frames)
        last = next((frame for frame in reversed(frames) if str(Path(frame.filename).resolve()) in theirs), frames[-1])
        place, line = f" in {last.filename}, line {last.lineno}", last.line
    says = f" (the line is: {line.strip():.200})" if line and line.strip() else ""
    return CommandError(f"importing {where} failed{place}: {type(error).__name__}: {error!s:.500}{says}")


def _frames(error: BaseException) -> list[traceback.FrameSummary]:
    """The frames of the traceback of an import, without those of the import machinery and of this module."""
    return [f for f in traceback.extract_tb(error.__traceback__) if f.filename[0] != "<" and f.filename != __file__]


def show_traceback(error: BaseException) -> None:
    """Print the traceback of a failed import on stderr, escaped."""
    whole = traceback.TracebackException.from_exception(error)
    whole.stack = traceback.StackSummary.from_list(_frames(error))
    for line in "".join(whole.format()).splitlines():
        click.echo(escaped(line), err=True)
