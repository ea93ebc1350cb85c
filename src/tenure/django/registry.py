"""`registry`: the tasks of Django that this process knows, and its apps, one for each URL.

Django makes a backend for each thread and context, but connections and workers belong to the process.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any

from django.db import connections
from django.utils.module_loading import autodiscover_modules

from tenure.app import App
from tenure.core.after_fork import call_after_fork
from tenure.django.framework import Task
from tenure.django.running import failure_hook_of, function_of
from tenure.django.task import task_options_of
from tenure.tasks.task import register_task

__all__ = ["Registry", "registry"]


class Registry:
    """Every app knows every task, so that a job runs whichever backend has enqueued it."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._tasks: dict[str, Task[..., Any]] = {}
        self._apps: dict[str, tuple[App, Mapping[str, Any]]] = {}
        self._discovered = False

    def add(self, task: Task[..., Any]) -> None:
        """Register a task under its module path, unless its function is registered already.

        Another function of that name, of a module that was loaded again, takes its place.
        """
        with self._lock:
            known = self._tasks.get(task.module_path)
            if known is not None and known.func is task.func:
                return
            self._tasks[task.module_path] = task
            for app, options in self._apps.values():
                _register(app, task, options)

    def task(self, path: str) -> Task[..., Any] | None:
        """The task with this module path. The `tasks` modules of all apps are imported before it is said to be unknown."""
        if path not in self._tasks:
            self.discover()
        return self._tasks.get(path)

    def discover(self) -> None:
        """Import the module `tasks` of every installed app that has one."""
        if not self._discovered:
            autodiscover_modules("tasks")
            self._discovered = True

    def known_app(self, url: str) -> App | None:
        """The app of this URL, if there is one."""
        known = self._apps.get(url)
        return None if known is None else known[0]

    def app(self, url: str, options: Mapping[str, Any]) -> App:
        """The app of this URL, made on first use with these options."""
        with self._lock:
            if url not in self._apps:
                app = App(url, **options)
                app.before_fork(_close_connections)
                for task in self._tasks.values():
                    _register(app, task, options)
                self._apps[url] = app, options
            return self._apps[url][0]

    def close(self, url: str) -> None:
        """Close the app of this URL, if there is one. Later calls make another."""
        with self._lock:
            app, _ = self._apps.pop(url, (None, None))
        if app is not None:
            if app.internals.in_memory:
                app.reset()  # all stores of this name share their jobs, those of the next test run too
            app.close()

    def renew_lock(self) -> None:
        """After a fork: another thread of the parent may have held the lock."""
        self._lock = threading.RLock()


def _register(app: App, task: Task[..., Any], options: Mapping[str, Any]) -> None:
    app.internals.tasks.pop(task.module_path, None)
    made = register_task(app, function_of(task), {"name": task.module_path, **task_options_of(task, options)})
    made.on_failure(failure_hook_of(task))


def _close_connections() -> None:
    """Close Django's connections before a child process is forked, which would share them."""
    connections.close_all()


registry = Registry()
call_after_fork(registry.renew_lock)
