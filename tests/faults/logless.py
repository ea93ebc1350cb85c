"""A process that enqueues jobs one by one and says which of them were acknowledged, whatever becomes of the log."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from tenure import App
from tenure.errors import OutcomeUnknown, StoreUnavailable
from tenure.stores.sqlite.store import SqliteStore

from .clients import a_job
from .processes import say, told

__all__ = ["obey", "produce"]


async def produce(path: str) -> None:
    """Enqueue until killed, by the store itself: no retry hides an error."""
    store = SqliteStore(path)
    while True:
        job = a_job()
        try:
            await store.enqueue([job])
        except (StoreUnavailable, OutcomeUnknown) as error:
            say("refused", type(error).__mro__[1].__name__)
        else:
            say("stored", job.id)


def obey(url: str) -> None:
    """Enqueue one job at each word, from the main thread or from another one, and say what came of it."""
    app = App(url)
    remote = app.remote("t")
    while True:
        match told():
            case ["main"]:
                _enqueue(remote.enqueue)
            case ["thread"]:
                thread = threading.Thread(target=_enqueue, args=(remote.enqueue,))
                thread.start()
                thread.join()
            case ["list"]:
                try:
                    say("listed", len(list(app.jobs())))
                except StoreUnavailable as error:
                    say("refused", str(error))


def _enqueue(enqueue: Callable[[], Any]) -> None:
    try:
        say("stored", enqueue().id)
    except StoreUnavailable as error:
        say("refused", str(error))
