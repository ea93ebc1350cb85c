"""`load_app` imports the app that the pytest setting `tenure_app` names."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import pytest

from tenure.app import App

__all__ = ["load_app"]


def load_app(target: str, root: Path) -> App:
    """The app that `target` names, as `module:name`; `root`, the folder of the pytest configuration, is searched too."""
    module, _, name = target.partition(":")
    if not module or not name:
        raise pytest.UsageError(
            'the fixture jobs does not know the app: set tenure_app = "shop:app" in [tool.pytest.ini_options], '
            f"or define a fixture tenure_app that returns it (tenure_app is {target!r})"
        )
    if str(root) not in sys.path:
        sys.path.append(str(root))
    try:
        found = importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name is None or not module.startswith(error.name):
            raise
        raise pytest.UsageError(
            f"tenure_app is {target!r}, and there is no module {error.name!r} on sys.path: set pythonpath, or correct the name"
        ) from None
    value: object = found
    for part in name.split("."):
        value = getattr(value, part, None)
    if not isinstance(value, App):
        raise pytest.UsageError(f"tenure_app is {target!r}, and {name} in {module} is no App, but {value!r:.80}")
    return value
