"""`Supervisor`: keeps several worker processes running, for `tenure work -p N`."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
from collections.abc import Callable, Mapping, Sequence

from tenure.observe.http import serve
from tenure.worker.health import respond
from tenure.worker.stopping import ExitStatus
from tenure.worker.supervision.process import WorkerProcess, describe_exit
from tenure.worker.supervision.process_slot import RESTART, ProcessSlot, restart_delay
from tenure.worker.supervision.retirement import prepare, retire
from tenure.worker.supervision.sources import SourceWatcher
from tenure.worker.vitals import exposition

__all__ = ["Supervisor"]

START_TIMEOUT = 60.0
"""A process that dies within this many seconds without having worked has failed to start."""

RETIRE_TIMEOUT = 5.0
"""Seconds that the supervisor waits at its end for dead workers to be retired in the store."""

ADVICE_INTERVAL = 80_000.0
"""Seconds until the same advice is logged again: a little less than the day after which workers repeat it."""

SOURCES_INTERVAL = 0.25
"""Seconds between checks of the source files."""

WATCHED = (
    signal.SIGCHLD,
    signal.SIGTERM,
    signal.SIGINT,
    signal.SIGQUIT,
    signal.SIGUSR1,
    signal.SIGUSR2,
    signal.SIGCONT,
)

log = logging.getLogger("tenure.supervisor")


class Supervisor:
    """Runs worker processes, replaces those that die, and retires them at once, so that others get their jobs.

    It never imports the app. So each process that it starts has the code of that moment, and nothing that an app does
    can harm the supervisor. Only the supervisor passes signals on. If it dies, its workers stop as on TERM.
    """

    def __init__(
        self,
        command: Callable[[int], Sequence[str]],
        *,
        processes: int,
        kill_after: Mapping[signal.Signals, float | None],
        until_empty: bool = False,
        watches: bool = False,
        health: socket.socket | None = None,
        say: Callable[[str], None],
        on_ready: Callable[[str, str], None],
        early_signals: Sequence[int] = (),
    ) -> None:
        """`command` returns the command line of a worker process whose `Tether` uses the given descriptor.

        `kill_after`: seconds that a process has to exit after each stopping signal; None: as long as it takes.
        `watches`: restart the processes when a source file changes. `health`: socket of the health server. `say` shows
        the user one sentence. `on_ready` is called once, when a process has imported the app, with the URL of its store
        and its task names. `early_signals`: signals that arrived before there were handlers, to be sent again.
        """
        self._command = command
        self._kill_after = kill_after
        self._until_empty = until_empty
        self._sources = SourceWatcher() if watches else None
        self._health = health
        self._say = say
        self._on_ready: Callable[[str, str], None] | None = on_ready
        self._early_signals = early_signals
        self._slots = [ProcessSlot() for _ in range(processes)]
        self._processes: dict[int, WorkerProcess] = {}
        self._retirements: set[asyncio.Task[None]] = set()
        self._unretired: dict[str, str] = {}
        """Dead workers that other processes are to retire and have not yet, with the cause of death."""

        self._advised: dict[str, float] = {}
        """When each advice was last logged, by its key."""

        self._terminal = _has_terminal()
        self._paused = False
        self._stopping = False
        self._proven = False
        """Whether any process has ever worked."""

        self._exit_code = ExitStatus.STOPPED

    def run(self) -> int:
        """Supervise until stopped, or until no process can start; returns the exit code."""
        return asyncio.run(self._run())

    async def _run(self) -> int:
        self._loop = asyncio.get_running_loop()
        self._ended = asyncio.Event()
        for signum in WATCHED:
            self._loop.add_signal_handler(signum, self._signalled, signum)
        if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # nohup
            self._loop.add_signal_handler(signal.SIGHUP, self._signalled, signal.SIGHUP)
        for early in self._early_signals:
            os.kill(os.getpid(), early)
        for slot in self._slots:
            self._fill(slot)
        if self._sources is not None:
            self._check_sources(self._sources)
        answering: asyncio.Task[None] | None = None
        if self._health is not None:
            answering = self._loop.create_task(serve(self._health, respond(self._health_report, self._metrics)))
        await self._ended.wait()
        if answering is not None:
            answering.cancel()
        if self._retirements:
            await asyncio.wait(self._retirements, timeout=RETIRE_TIMEOUT)
        return self._exit_code

    # Signals.

    def _signalled(self, signum: signal.Signals) -> None:
        match signum:
            case signal.SIGCHLD:
                self._reap()
            case signal.SIGHUP if not (self._terminal and not _has_terminal()):
                self._reload()
            case signal.SIGHUP:
                log.warning("the terminal is gone: stopping")
                self._stop(signal.SIGTERM)
            case signal.SIGTERM | signal.SIGINT | signal.SIGQUIT:
                self._stop(signum)
            case _:
                if signum is not signal.SIGUSR1:
                    self._paused = signum is signal.SIGUSR2
                self._pass_on(signum)

    def _pass_on(self, signum: signal.Signals) -> None:
        log.info("passing %s on to %d process(es)", signum.name, len(self._processes))
        for process in self._processes.values():
            process.send(signum)

    def _stop(self, signum: signal.Signals) -> None:
        """Start no more processes, and end when all have exited."""
        self._stopping = True
        for slot in self._slots:
            if slot.start is not None:
                slot.start.cancel()
        self._pass_on(signum)
        kill_after = self._kill_after[signum]
        if kill_after is not None:
            self._loop.call_later(kill_after, self._kill, list(self._processes.values()))
        self._end_if_empty()

    def _kill(self, processes: Sequence[WorkerProcess]) -> None:
        for process in processes:
            if process.exit_code is None:
                log.error("%s has not stopped in time: killed", process)
                process.send(signal.SIGKILL)

    def _end_if_empty(self) -> None:
        if not self._processes and (self._stopping or all(slot.done for slot in self._slots)):
            self._ended.set()

    # Starting.

    def _fill(self, slot: ProcessSlot) -> None:
        slot.start = None
        slot.reloading = False
        slot.process = self._start()
        if slot.process is None:
            slot.deaths += 1
            slot.start = self._loop.call_later(RESTART.jittered(slot.deaths), self._fill, slot)

    def _start(self) -> WorkerProcess | None:
        try:
            process = WorkerProcess(self._command)
        except OSError as error:  # no memory, or too many processes or files: that may pass
            log.error("cannot start a process: %s", error)  # noqa: TRY400 - the slot in the code says nothing
            return None
        self._processes[process.pid] = process
        self._loop.add_reader(process.socket, self._read, process)
        return process

    def _reload(self) -> None:
        """Start a successor for every process. Each takes over when it works, or never if it does not."""
        if self._stopping:
            return
        log.warning("reloading: starting %d new process(es), the old ones finish their jobs", len(self._slots))
        for slot in self._slots:
            if slot.successor is not None:
                slot.successor.send(signal.SIGTERM)
            if slot.start is not None:
                slot.start.cancel()
            if slot.process is None:
                slot.deaths, slot.done = 0, False
                self._fill(slot)
            else:
                slot.successor = self._start()

    def _check_sources(self, sources: SourceWatcher) -> None:
        """Restart all processes if a source file has changed. Jobs are interrupted, and run again with the new code."""
        changed = sources.changed()
        if changed is not None and not self._stopping:
            self._say(f"{changed} has changed")
            for slot in self._slots:
                slot.failure = None
                if slot.start is not None:
                    slot.start.cancel()
                if slot.process is None:
                    self._fill(slot)
                elif not slot.reloading:
                    slot.reloading = True
                    slot.process.send(signal.SIGTERM)
                    self._loop.call_later(self._kill_after[signal.SIGTERM] or START_TIMEOUT, self._kill, [slot.process])
        self._loop.call_later(SOURCES_INTERVAL, self._check_sources, sources)

    # Messages of processes.

    def _read(self, process: WorkerProcess) -> None:
        had_handlers, registered = process.has_handlers, process.registered
        if not process.read_messages():
            self._loop.remove_reader(process.socket)
        if process.has_handlers and not had_handlers and self._paused:
            process.send(signal.SIGUSR2)
        if process.ready and self._on_ready is not None:
            on_ready, self._on_ready = self._on_ready, None
            on_ready(process.url, process.tasks)
            if "://" in process.url:
                prepare(process.url)
        while process.advice:
            self._advise(*process.advice.pop(0))
        while process.retired:
            self._unretired.pop(process.retired.pop(), None)
        if self._sources is not None:
            self._sources.add(process.files)
        if process.registered and not registered:
            self._at_work(process)

    def _advise(self, about: str, advice: str) -> None:
        """Log the advice of a process, unless another has given it within the last day."""
        now, logged_at = self._loop.time(), self._advised.get(about)
        if logged_at is None or now - logged_at >= ADVICE_INTERVAL:
            self._advised[about] = now
            log.warning("%s", advice)

    def _at_work(self, process: WorkerProcess) -> None:
        log.info("%s is at work", process)
        if self._stopping:
            return
        if not self._proven:
            self._proven = True
            for slot in self._slots:
                if slot.process is None and slot.start is None and not slot.done:
                    self._fill(slot)
        for unretired in self._unretired.items():
            process.send_command(retire=unretired)
        for slot in self._slots:
            if slot.successor is process:
                old, slot.process, slot.successor = slot.process, process, None
                if old is not None:
                    log.info("%s takes over from %s", process, old)
                    old.send(signal.SIGQUIT)
            if slot.process is process:
                slot.failure = None

    def _health_report(self) -> dict[str, object]:
        """The body of the answer to a health request."""
        troubles = [trouble for slot in self._slots if (trouble := slot.trouble)]
        trouble = "it is stopping" if self._stopping else "; ".join(troubles)
        workers = [process.worker_id for process in self._processes.values() if process.registered]
        return {"status": "stuck" if trouble else "ok", "trouble": trouble, "workers": workers}

    def _metrics(self) -> str:
        """The answer to a request for metrics: all processes, each under the number of its slot, which restarts keep."""
        running = [(number, slot.process) for number, slot in enumerate(self._slots, 1) if slot.process is not None]
        return exposition(
            [(str(number), process.vital_signs) for number, process in running if process.vital_signs is not None]
        )

    # Exits.

    def _reap(self) -> None:
        """Wait for all processes that have exited, also for strangers: pid 1 of a container inherits every orphan."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if not pid:
                return
            process = self._processes.pop(pid, None)
            if process is None:
                log.debug("process %d, an orphan, has exited", pid)
                continue
            self._read(process)
            self._loop.remove_reader(process.socket)
            process.ended(status)
            self._died(process, os.waitstatus_to_exitcode(status))

    def _died(self, process: WorkerProcess, exit_code: int) -> None:
        well = exit_code in (ExitStatus.STOPPED, ExitStatus.RECYCLED)
        if not well:
            self._retire(process, describe_exit(exit_code))
        slot = next((slot for slot in self._slots if process in (slot.process, slot.successor)), None)
        if self._stopping:
            # A process that has finished its work no longer handles TERM, and may die of it.
            if process.registered and not well and exit_code != -signal.SIGTERM:
                log.error("%s: %s", process, describe_exit(exit_code))
                self._exit_code = max(self._exit_code, ExitStatus.FAILED)
        elif slot is None:
            log.info("%s, already replaced, has exited: %s", process, describe_exit(exit_code))
        elif slot.successor is process:
            slot.successor = None
            log.error("the new code does not start, keeping the old: %s", process.refusal or describe_exit(exit_code))
        elif slot.successor is not None:
            slot.process, slot.successor = slot.successor, None
        else:
            slot.process = None
            self._replace(slot, process, exit_code)
        self._end_if_empty()

    def _replace(self, slot: ProcessSlot, process: WorkerProcess, exit_code: int) -> None:
        if slot.reloading:
            self._fill(slot)
            return
        if self._until_empty and exit_code == ExitStatus.STOPPED:
            slot.done = True
            return
        if not process.registered and exit_code != ExitStatus.RECYCLED and process.age < START_TIMEOUT:
            known = {other.failure for other in self._slots}
            slot.failure = process.refusal or describe_exit(exit_code)
            if self._sources:
                if slot.failure not in known:
                    self._say(f"{slot.failure}; waiting for a source file to change")
                return
            if not self._proven and all(slot.failure for slot in self._slots):
                self._give_up(process)
                return
            if not self._proven and process.refusal is not None:
                return  # another try would fail alike, unless another process shows that it need not
        pause, slot.deaths = restart_delay(exit_code, process.age, slot.deaths, registered=process.registered)
        log.log(
            logging.INFO if exit_code == ExitStatus.RECYCLED else logging.WARNING,
            "%s exited after %.1f s (%s), another starts %s",
            process,
            process.age,
            process.refusal or describe_exit(exit_code),
            f"in {pause:.1f} s" if pause else "now",
        )
        slot.start = self._loop.call_later(pause, self._fill, slot)

    def _give_up(self, last: WorkerProcess) -> None:
        number = len(self._slots)
        who = (
            "the worker process ended before it was"
            if number == 1
            else f"all {number} worker processes ended before they were"
        )
        self._say(f"gave up: {who} at work: {self._slots[0].failure}")
        self._exit_code = ExitStatus.FAILED if last.refusal is None else ExitStatus.REFUSED
        self._stop(signal.SIGTERM)

    def _retire(self, process: WorkerProcess, reason: str) -> None:
        """Retire a dead process's worker. Where only the app can reach the store, another process does so."""
        if process.worker_id is None:
            return
        if "://" in process.url:
            task = self._loop.create_task(retire(process.url, process.worker_id, reason))
            self._retirements.add(task)
            task.add_done_callback(self._retirements.discard)
            return
        self._unretired[process.worker_id] = reason
        for other in self._processes.values():
            if other.registered:  # if that one dies too, its successor is asked
                other.send_command(retire=(process.worker_id, reason))
                return


def _has_terminal() -> bool:
    try:
        os.close(os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY))
    except OSError:
        return False
    return True
