"""serve: runs `tenure work` or `tenure bridge` in one of three modes: alone, as supervisor, or as a process of one."""

from __future__ import annotations

import contextlib
import os
import secrets
import signal
import sys
import traceback
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NoReturn

from tenure.cli import early
from tenure.cli.background import Background
from tenure.cli.logs import log_to_stderr
from tenure.cli.messages import CommandError, print_message
from tenure.cli.pidfile import pidfile
from tenure.core.options import WorkerOptions
from tenure.errors import TenureError, UnknownTask
from tenure.observe.http import listener
from tenure.worker.stopping import ExitStatus, term_stop
from tenure.worker.supervision.sources import app_files
from tenure.worker.supervision.supervisor import Supervisor
from tenure.worker.supervision.tether import Tether

if TYPE_CHECKING:
    from tenure.app import App
    from tenure.worker.worker import Worker

__all__ = ["Given", "Program", "serve"]

Given = Mapping[str, Any]
"""Options of the command by name."""

NEED_SUPERVISOR = ("max_jobs", "max_age", "max_memory", "reload", "background")
"""Options for which even one process needs a supervisor, because something must start its replacement."""

GRACE = 15.0
"""Seconds that a worker has to stop, beyond its own timeouts, before its supervisor kills it."""


# A supervisor does not need the app, so only what needs it imports it.


class Program:
    """What `tenure work` runs; `tenure bridge` has another."""

    command = "work"
    """The command that a supervisor starts its processes with."""

    def load(self, given: Given) -> App:
        """Import the app. `CommandError` if that fails."""
        from tenure.cli.target import load_app

        return load_app(given["target"])

    def worker(self, app: App, options: WorkerOptions) -> Worker:
        """Make the worker of one process."""
        from tenure.worker.worker import Worker

        return Worker(app, options)

    def served(self, given: Given) -> str:
        """What the workers serve, as a phrase."""
        return f"queues {','.join(given['queues']) or '*'}"


def serve(given: Given, arguments: Sequence[str], supervised: int | None, program: Program) -> NoReturn:
    """Run jobs with these options. `arguments` is the command line, which a supervisor passes on to its processes.

    `supervised`: in a process of a supervisor, the file descriptor of its connection to it; else None.
    """
    options = _worker_options(given)
    if supervised is not None:
        _work_supervised(given, options, supervised, program)
    # Pid 1 of a container inherits every orphaned process there and has to reap it, which the supervisor does.
    if given["processes"] > 1 or any(given[name] for name in NEED_SUPERVISOR) or os.getpid() == 1:
        _supervise(given, options, arguments, program)
    _work_alone(given, options, program)


def _work_alone(given: Given, options: WorkerOptions, program: Program) -> NoReturn:
    with pidfile(given["pidfile"]), _hup_as_term():
        app = _app(given, program)
        print_message(_summary(app.url, _tasks(app, options), given, program))
        worker = program.worker(app, options)
        worker.early_signals = early.received
        sys.exit(worker.run(until_empty=given["until_empty"]))


def _supervise(given: Given, options: WorkerOptions, arguments: Sequence[str], program: Program) -> NoReturn:
    """Start processes that run the jobs, and replace those that end. The app is not imported here."""
    with contextlib.ExitStack() as stack:
        background = stack.enter_context(Background()) if given["background"] else None
        stack.enter_context(pidfile(given["pidfile"]))
        log_to_stderr(_level(given), given["log_format"])

        def begun(url: str, tasks: str) -> None:
            print_message(_summary(url, tasks, given, program))
            if background is not None:
                background.report_started()

        # -B: if a module is written twice within a second, its cache may be of the first version.
        flags = ["-B"] if given["reload"] else []
        supervisor = Supervisor(
            lambda fd: [sys.executable, *flags, "-m", "tenure", program.command, "--supervised", str(fd), *arguments],
            processes=given["processes"],
            kill_after=_stop_timeouts(options),
            until_empty=given["until_empty"],
            watches=given["reload"],
            health=None
            if options.health_port is None
            else listener(options.health_host, options.health_port, "health_port"),
            say=print_message,
            on_ready=begun,
            early_signals=early.received,
        )
        sys.exit(supervisor.run())


def _work_supervised(given: Given, options: WorkerOptions, fd: int, program: Program) -> NoReturn:
    """Run jobs as a process of a supervisor, and report to it."""
    tether = Tether(fd, files=given["reload"], health=options.health_port is not None)
    tether.hello(early.received)
    try:
        app = _app(given, program)
        if given["processes"] > 1 and app.url.startswith("memory:"):
            raise CommandError(
                "memory:// works in one process only, and -p asks for several: use sqlite:///, redis:// or postgresql://"
            )
        # The id that was given is the prefix of a new id for each process. The health check has one port, on which the supervisor
        # answers for all processes.
        worker_id = None if options.id is None else f"{options.id}:{secrets.token_hex(4)}"
        worker = program.worker(app, replace(options, id=worker_id, health_port=None))
        worker.tether = tether
        tether.send_files()
        tether.send(ready=True, url=app.url, tasks=_tasks(app, options))
        sys.exit(worker.run(until_empty=given["until_empty"]))
    except (CommandError, TenureError) as error:
        tether.send_files(*_files_of(error, given["target"]))
        tether.send(refused=str(error))
        sys.exit(ExitStatus.REFUSED)


@contextlib.contextmanager
def _hup_as_term() -> Iterator[None]:
    """Treat HUP as TERM: a closed terminal must not cost jobs their attempts, and without a supervisor nothing can be reloaded."""
    before = signal.getsignal(signal.SIGHUP)
    if before is signal.SIG_IGN:  # nohup
        yield
        return
    signal.signal(signal.SIGHUP, lambda *_: os.kill(os.getpid(), signal.SIGTERM))
    try:
        yield
    finally:
        signal.signal(signal.SIGHUP, before)


def _worker_options(given: Given) -> WorkerOptions:
    """The options of the worker among those of the command. `InvalidOption` if one is wrong."""
    names = WorkerOptions.__dataclass_fields__.keys() & given.keys() - {"queues", "tasks"}
    return WorkerOptions(
        queues=given["queues"] or ("*",), tasks=given["tasks"] or None, **{name: given[name] for name in names}
    )


def _stop_timeouts(options: WorkerOptions) -> dict[signal.Signals, float | None]:
    """Seconds that a worker with these options has to stop after each signal; None: no limit, because it finishes its jobs."""
    stop = term_stop(options)
    soon = (stop.finish or 0.0) + stop.clean_up + GRACE
    return {
        signal.SIGTERM: None if options.graceful_term else soon,
        signal.SIGINT: soon,
        signal.SIGQUIT: None,
    }


def _app(given: Given, program: Program) -> App:
    from tenure.cli.target import show_traceback

    try:
        app = program.load(given)
    except CommandError as refusal:
        if refusal.__cause__ is not None:
            if not given["verbose"]:
                raise CommandError(f"{refusal.message}; -v shows the traceback") from refusal.__cause__
            show_traceback(refusal.__cause__)
        raise
    for task in given["tasks"]:
        if task not in app.tasks:
            raise UnknownTask(task, app.tasks)
    app.internals.check_code()
    log_to_stderr(_level(given), given["log_format"])
    return app


def _tasks(app: App, options: WorkerOptions) -> str:
    """Names of the tasks that the workers run, as a phrase."""
    from tenure.worker.settings import SettingsByTask, shortened

    return shortened(SettingsByTask(app.tasks, options, app.options).known) or "none"


def _level(given: Given) -> str:
    return str(given["log_level"] or ("warning", "info", "debug")[min(given["verbose"], 2)])


def _summary(url: str, tasks: str, given: Given, program: Program) -> str:
    from tenure.stores import masked

    concurrency, processes = given["concurrency"], given["processes"]
    many = f" in each of {processes} processes" if processes > 1 else ""
    return f"at work on {masked(url)}, {program.served(given)}, tasks {tasks}, {concurrency} at a time{many}"


def _files_of(error: BaseException, target: str) -> list[str]:
    """The user's source files that are involved in this error: the target, and those of its tracebacks."""
    files = {target.rpartition(":")[0] or target}
    cause: BaseException | None = error
    while cause is not None:
        files.update(frame.filename for frame in traceback.extract_tb(cause.__traceback__))
        if isinstance(cause, SyntaxError) and cause.filename is not None:
            files.add(cause.filename)
        cause = cause.__cause__ or cause.__context__
    return app_files(files)
