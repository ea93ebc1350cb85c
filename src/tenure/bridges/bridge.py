"""`Bridge`: what the user's objects, such as `Resque`, have in common."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Unpack

from msgspec.structs import replace

from tenure.bridges.custody import Taken
from tenure.bridges.foreign import Foreign
from tenure.bridges.names import queue_name, queue_pattern
from tenure.bridges.source import BridgeSource
from tenure.core.job import ErrorInfo, NewJob
from tenure.core.keywords import WorkerKeywords
from tenure.core.options import Unset
from tenure.errors import UnknownTask
from tenure.stores import masked
from tenure.tasks.task import Task

if TYPE_CHECKING:
    from tenure.app import App
    from tenure.worker.worker import Worker

__all__ = ["Bridge"]

KEEP = 600.0
"""Seconds that the record of a job is kept at least: a bridge that comes back within this time writes the end of the entry."""


class Bridge(ABC):
    """Runs the entries of another system as jobs of an app, and writes their ends back there."""

    kind: ClassVar[str]
    """The name of the other system, and the first part of its queues' names here."""

    def __init__(self, app: App, url: str) -> None:
        self.app = app
        self.url = url

    @property
    def shown(self) -> str:
        """The address of the other system, without its password."""
        return masked(self.url)

    def worker(
        self, queues: Iterable[str] = ("*",), *, keep: bool = False, **options: Unpack[WorkerKeywords]
    ) -> Worker:
        """Make a worker for these queues of the other system, not yet started; `app.worker` describes the options.

        `queues` are names and patterns there, in order of preference. A worker that stops gives back what it has not started,
        unless `keep`. It also runs jobs of this bridge that another worker has left.
        """
        served = tuple(queues)
        return self.app.internals.new_worker(
            {"queues": self.leased(served), **options}, (self.source(served, keep=keep),)
        )

    def source(self, queues: Iterable[str] = (), *, keep: bool = False) -> BridgeSource:
        """What brings the entries of these queues to one worker; no queues: all. Internal."""
        return BridgeSource(self, tuple(queues) or ("*",), keep=keep)

    def leased(self, queues: Sequence[str]) -> Sequence[str]:  # noqa: ARG002
        """The queues and patterns here that a worker for these queues there serves; no queues: all. Internal."""
        return (queue_pattern(self.kind),)

    @abstractmethod
    def connect(self, queues: Sequence[str]) -> Foreign:
        """Make the connection for one event loop. `queues` are the names and patterns that it serves."""

    @abstractmethod
    def read(self, entry: Taken) -> NewJob | ErrorInfo:
        """The job of an entry, or why it must fail at once."""

    def _task(self, name: str) -> Task[..., Any]:
        """The task of this name or alias. Nothing is imported by name: `UnknownTask` if there is none."""
        task = self.app.tasks.get(name)
        if task is None:
            raise UnknownTask(name, self.app.tasks)
        return task

    def _job(self, entry: Taken, task: Task[..., Any], payload: bytes) -> NewJob:
        """A job of this task for an entry, with one attempt unless the task says how often to retry."""
        options = task.options
        retries = not (isinstance(options.retry, Unset) and isinstance(options.max_attempts, Unset))
        template = task._template
        return replace(
            template,
            id=entry.id,
            queue=queue_name(self.kind, entry.queue),
            payload=payload,
            keep=max(template.keep or 0.0, KEEP),
            max_attempts=template.max_attempts if retries else 1,
        )
