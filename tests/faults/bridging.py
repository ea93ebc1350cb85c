"""A bridge in a process of its own, which dies right after one step of the hand-over."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path
from typing import Any

from tenure import App
from tenure.bridges import Resque, source
from tenure.bridges.resque.layout import ResqueForeign
from tenure.stores.base import Store

from .processes import say

__all__ = ["FOREIGN", "STORE", "a_bridge", "work"]

FOREIGN = ("take", "record", "mark_returning", "give_back")
"""Steps in the other system."""

STORE = ("enqueue", "lease", "settle_and_lease", "cancel")
"""Steps in the own store; `lease` is the one by hand, before giving back."""


def a_bridge(url: str, redis_url: str, namespace: str, folder: str) -> Resque:
    """An app with two tasks: one that only notes that it ran, and one that also waits as long as there is a file `hold`."""
    app = App(url, missing_after=1.5, lease=1)

    def note(word: str, n: int) -> None:
        with Path(folder, "ran").open("a") as ran:
            ran.write(f"{word} {n} {os.getpid()}\n")

    @app.task(name="Note", retry=None)
    def note_it(n: int) -> int:
        note("ran", n)
        return 10 // (n % 10)

    @app.task(name="Hold", retry=None)
    async def hold(n: int) -> None:
        note("held", n)
        say("held", n)
        while Path(folder, "hold").exists():
            await asyncio.sleep(0.01)

    return Resque(app, redis_url, namespace=namespace)


def work(url: str, redis_url: str, namespace: str, folder: str, die_after: str, concurrency: int) -> None:
    """Run a bridge until it is stopped. `die_after` names the step that kills it, when it has done something; empty: none."""
    bridge = a_bridge(url, redis_url, namespace, folder)
    if die_after in FOREIGN:
        deadly(ResqueForeign, die_after)
    elif die_after:
        deadly(type(bridge.app.internals.make_store()), die_after)
    source.RETURN_LEASE = 1.25  # if it dies then, the next one waits for that; no other lease is so long
    bridge.worker(concurrency=concurrency, beat=0.5, poll=0.1, term_timeout=0.05).run()


def deadly(owner: type[ResqueForeign | Store], name: str) -> None:
    method = getattr(owner, name)

    async def call(self: Any, *args: Any) -> Any:
        answer = await method(self, *args)
        match name:
            case "take":
                did = bool(answer)
            case "record":
                did = bool(args[1])
            case "lease":
                did = args[0].ttl == source.RETURN_LEASE
            case "settle_and_lease":
                did = bool(args[0])
            case _:
                did = True
        if did:
            os.kill(os.getpid(), signal.SIGKILL)
        return answer

    setattr(owner, name, call)
