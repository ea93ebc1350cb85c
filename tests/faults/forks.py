"""Processes that use an app and fork."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import threading
import traceback
from collections.abc import Callable
from multiprocessing.connection import Connection

from tenure import App

from .processes import say, told

__all__ = ["fork_and_outlive_the_parent", "fork_while_enqueueing", "fork_with_multiprocessing", "prefork"]


def an_app(url: str) -> tuple[App, Callable[[], str]]:
    """An app, and a function that enqueues a job and gives its id once it can be read."""
    app = App(url)
    task = app.remote("task", queue="q")

    def enqueue() -> str:
        job = task.enqueue()
        assert job.refresh().state == "waiting"
        return job.id

    return app, enqueue


def in_a_child(function: Callable[[], object]) -> int:
    """Run a function in a forked child, which then ends; its process id."""
    child = os.fork()
    if child:
        return child
    try:
        function()
        sys.stdout.flush()
        os._exit(0)
    except BaseException:
        traceback.print_exc()
        sys.stderr.flush()
        os._exit(1)


def ended_well(*children: int) -> bool:
    return all(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0 for child in children)


def prefork(url: str) -> None:
    """What a web server does: use the app, fork, use it in every child and in the parent."""
    app, enqueue = an_app(url)
    say("enqueued", enqueue())
    children = [in_a_child(lambda: say("enqueued", *(enqueue() for _ in range(5)))) for _ in range(4)]
    say("enqueued", *(enqueue() for _ in range(5)))
    assert ended_well(*children)
    say("enqueued", enqueue())
    app.close()
    say("done")


def fork_and_outlive_the_parent(url: str) -> None:
    """What a daemon does: the parent uses the app, forks and ends; the child uses it before and after."""
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})
    app, enqueue = an_app(url)
    say("enqueued", enqueue())

    def child() -> None:
        say("enqueued", *(enqueue() for _ in range(3)))
        told()
        say("enqueued", *(enqueue() for _ in range(3)))
        say("done")

    in_a_child(child)
    # Parent and child would both read what the test says: the parent hears a signal instead.
    signal.sigwait({signal.SIGUSR1})
    app.close()
    say("parent done")


def fork_while_enqueueing(url: str, times: int) -> None:
    """Fork in the middle of the writes of other threads."""
    _, enqueue = an_app(url)
    say("enqueued", enqueue())
    over = threading.Event()

    def enqueue_on_and_on() -> None:
        while not over.is_set():
            say("enqueued", enqueue())

    threads = [threading.Thread(target=enqueue_on_and_on) for _ in range(3)]
    for thread in threads:
        thread.start()
    for _ in range(times):
        assert ended_well(in_a_child(lambda: say("enqueued", enqueue(), enqueue())))
    over.set()
    for thread in threads:
        thread.join()
    say("done")


def fork_with_multiprocessing(url: str) -> None:
    """Use an app that the parent has used in children that multiprocessing forks."""
    app, enqueue = an_app(url)
    say("enqueued", enqueue())
    context = multiprocessing.get_context("fork")
    here, there = context.Pipe()
    children = [context.Process(target=_enqueue_for, args=(enqueue, there)) for _ in range(3)]
    for child in children:
        child.start()
    say("enqueued", *(here.recv() for _ in children))
    for child in children:
        child.join()
        assert child.exitcode == 0
    say("enqueued", enqueue())
    app.close()
    say("done")


def _enqueue_for(enqueue: Callable[[], str], there: Connection) -> None:
    there.send(enqueue())
