"""TenureBackend: enqueues tasks of Django as jobs, in the transaction that is open, and reads their results."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Literal, TypeAlias

from django.core import mail
from django.core.checks import CheckMessage
from django.db import DEFAULT_DB_ALIAS, connections, transaction
from django.utils import timezone

from tenure.app import App
from tenure.core.checks import name as checked_name
from tenure.core.job import JobRecord
from tenure.django.address import database_of, store_url
from tenure.django.framework import (
    BaseTaskBackend,
    InvalidTask,
    InvalidTaskBackend,
    Task,
    TaskResult,
    TaskResultDoesNotExist,
    normalize_json,
    task_backends,
    task_enqueued,
)
from tenure.django.registry import registry
from tenure.django.results import new_result, result_of
from tenure.django.task import TenureTask, job_options_of, task_options_of
from tenure.errors import InvalidName, InvalidOption
from tenure.jobs.enqueue import enqueue, prepare_calls
from tenure.stores.base import Store
from tenure.stores.callers import caller_connection
from tenure.sync import refuse_on_loop, run
from tenure.tasks.task import Call

__all__ = ["TenureBackend", "tenure_backends"]

OnCommit: TypeAlias = Literal["join", "after", "now"]
MODES: tuple[OnCommit, ...] = ("join", "after", "now")
OPTIONS = ("DATABASE", "URL", "APP", "ON_COMMIT")


class TenureBackend(BaseTaskBackend):
    """A backend of `TASKS` whose tasks are jobs of Tenure.

    OPTIONS: `DATABASE` is the alias of the database that holds the jobs (default: `"default"`), or `URL` names another store;
    `APP` has options of `tenure.App`; `ON_COMMIT` says when a job that is enqueued in a transaction exists:

    - `"join"`: it is part of the transaction. The default if the jobs are in the database `"default"`.
    - `"after"`: it is stored once the transaction of `"default"` has committed. The default for every other store.
    - `"now"`: at once, whatever becomes of the transaction.
    """

    task_class = TenureTask
    supports_defer = True
    supports_async_task = True
    supports_get_result = True
    supports_priority = True

    def __init__(self, alias: str, params: dict[str, Any]) -> None:
        super().__init__(alias, params)
        unknown = [option for option in self.options if option not in OPTIONS]
        if unknown:
            raise InvalidTaskBackend(
                f"TASKS[{alias!r}]: there is no option {unknown[0]!r}: the options are {', '.join(OPTIONS)}"
            )
        self.database = database_of(self.options)
        """The alias of the Django database that holds the jobs; None if the store is elsewhere."""

        self.on_commit: OnCommit = self.options.get(
            "ON_COMMIT", "join" if self.database == DEFAULT_DB_ALIAS else "after"
        )
        if self.on_commit not in MODES:
            raise InvalidTaskBackend(
                f"TASKS[{alias!r}]: ON_COMMIT must be one of {', '.join(MODES)}, not {self.on_commit!r}"
            )
        if self.on_commit == "join" and self.database is None:
            raise InvalidTaskBackend(
                f"TASKS[{alias!r}]: ON_COMMIT 'join' needs the jobs in a database of DATABASES: "
                "name it with DATABASE in place of URL, or say 'after'"
            )

    @property
    def app_options(self) -> Mapping[str, Any]:
        """Options of the app. Backends with the same store share one app, with the options of all of them."""
        url, options = store_url(self.options), dict(self.options.get("APP") or {})
        for other in tenure_backends():
            if other.alias != self.alias and store_url(other.options) == url:
                options = {**(other.options.get("APP") or {}), **options}
        return options

    @property
    def app(self) -> App:
        """The app of this process for the store of this backend."""
        url = store_url(self.options)
        return registry.known_app(url) or registry.app(url, self.app_options)

    def validate_task(self, task: Task[..., Any]) -> None:
        """Check a task as Django asks for it whenever one is made, and register its function."""
        super().validate_task(task)
        try:
            checked_name("task", task.module_path)
        except InvalidName as error:
            raise InvalidTask(
                f"the path of a task's function must be a name of a task (tenure.E003): {error}"
            ) from None
        task_options_of(task, self.options.get("APP") or {})
        job_options_of(task, _aware(task.run_after))
        registry.add(task)

    def enqueue(self, task: Task[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> TaskResult[Any]:
        """Store a job, when `ON_COMMIT` says so. Its id is known at once."""
        refuse_on_loop("enqueue")
        self.validate_task(task)
        app = self.app
        self.check_access()
        caller = app.tasks[task.module_path].using(**job_options_of(task, _aware(task.run_after)))
        given = normalize_json(list(args)), normalize_json(dict(kwargs))
        call: Call[Any] = caller.bind(*given[0], **given[1])
        if self.on_commit == "after" and connections[DEFAULT_DB_ALIAS].in_atomic_block:
            return self._enqueue_after_commit(app, task, call, given)
        joined = self.on_commit == "join" and self._in_transaction
        if self.on_commit == "now" and self.database and self._connection.vendor == "sqlite" and self._in_transaction:
            raise InvalidOption(
                "ON_COMMIT 'now' would wait for the transaction that it is in, because SQLite has one writer: "
                "say 'join' or 'after', or enqueue outside of the transaction"
            )
        [job] = app.enqueue(call, connection=self._connection if joined else None)
        if job.duplicate:
            return self.get_result(job.id)
        result = new_result(task, job.id, *given, self.alias)
        task_enqueued.send(type(self), task_result=result)
        return result

    def _enqueue_after_commit(
        self, app: App, task: Task[..., Any], call: Call[Any], given: tuple[Any, Any]
    ) -> TaskResult[Any]:
        [job], pending, _ = prepare_calls(app, [call])
        result = new_result(task, job.id, *given, self.alias)

        def store() -> None:
            enqueue(app, pending)
            task_enqueued.send(type(self), task_result=result)

        transaction.on_commit(store, using=DEFAULT_DB_ALIAS)
        return result

    def get_result(self, result_id: str) -> TaskResult[Any]:
        """The result of a job by its id; in a transaction that jobs join, as that transaction sees it."""
        refuse_on_loop("get_result")
        app = self.app
        self.check_access()
        job = self._read(app, result_id)
        task = None if job is None else registry.task(job.task)
        if job is None or task is None:
            raise TaskResultDoesNotExist(result_id)
        return result_of(task, job, self.alias)

    def check_access(self) -> None:
        """In a test that may not use the database, raise what Django or pytest-django raises for it.

        Jobs have connections of their own, which neither forbids, and in such a test they would lead to the real database: only
        tests that use one get a test database.
        """
        if self.database is not None and hasattr(mail, "outbox") and not _is_apart(self.app):
            self._connection.cursor().close()

    def check(self, **_: Any) -> Iterable[CheckMessage]:
        """What is wrong with the settings of this backend. Connects to nothing."""
        from tenure.django.checks import messages_of

        return messages_of(self)

    def _read(self, app: App, job_id: str) -> JobRecord | None:
        async def outside() -> JobRecord | None:
            [found] = await app.internals.session.store.get([job_id])
            return found

        async def opened() -> Store:
            return await app.internals.session.open()

        if _is_apart(app) or self.on_commit != "join" or not self._in_transaction:
            return run(outside())
        [found] = caller_connection(self._connection).run(run(opened()).getting([job_id]))
        return found

    @property
    def _connection(self) -> Any:
        assert self.database is not None
        return connections[self.database]

    @property
    def _in_transaction(self) -> bool:
        """Whether statements on the database of the store are in a transaction that Django has to end."""
        connection = self._connection
        if connection.in_atomic_block:
            return True
        # Before it connects, a connection says that it does not commit by itself, whatever the settings say.
        is_set = connection.autocommit if connection.connection is not None else connection.settings_dict["AUTOCOMMIT"]
        return not is_set


def _is_apart(app: App) -> bool:
    """Whether the jobs are elsewhere than in the database: in memory, in a kit or inline."""
    parts = app.internals
    return parts.in_memory or parts.any_connection or bool(parts.inlines)


def tenure_backends() -> list[TenureBackend]:
    """The backends of `TASKS` that are of this class."""
    return [backend for backend in task_backends.all() if isinstance(backend, TenureBackend)]


def _aware(moment: datetime | None) -> datetime | None:
    return timezone.make_aware(moment) if moment is not None and timezone.is_naive(moment) else moment
