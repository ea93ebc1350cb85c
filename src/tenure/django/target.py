"""default, and every other alias in `TASKS`: its app, as a target of `tenure work tenure.django.target:default`.

Importing this module sets Django up, by DJANGO_SETTINGS_MODULE, and imports the `tasks` module of every installed app.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import django
from django.apps import apps

if not apps.ready:
    django.setup()

from tenure.django.backend import TenureBackend
from tenure.django.framework import task_backends
from tenure.django.registry import registry

if TYPE_CHECKING:
    from tenure.app import App

    default: App

registry.discover()

if not TYPE_CHECKING:

    def __getattr__(name: str) -> App:
        backend = task_backends[name] if name in task_backends.settings else None
        if not isinstance(backend, TenureBackend):
            raise AttributeError(f"TASKS has no TenureBackend {name!r}")  # noqa: TRY004
        return backend.app
