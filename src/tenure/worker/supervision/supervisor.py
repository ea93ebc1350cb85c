"""Keeping several worker processes at work: what `tenure work -p N` is beside its workers."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
from collections.abc import Callable, Mapping, Sequence

from tenure.worker.health import serve
from tenure.worker.stopping import Exit
from tenure.worker.supervision.place import RESTART, Place, restart_in
from tenure.worker.supervision.process import WorkerProcess, cause
from tenure.worker.supervision.retirement import prepare, retire
from tenure.worker.supervision.sources import Sources

__all__ = ["Supervisor"]

START = 60.0
"""Seconds within which a process that dies without having been at work has failed to start."""

LAST_WORD = 5.0
"""Seconds that the supervisor, when all have ended, gives the store to hear of those that died."""

AGAIN = 80_000.0
"""Seconds until the same advice is logged again: a little less than a day, after which workers repeat it."""

LOOK = 0.25
"""Seconds between looks at the source files."""

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

    It never imports the app, so a process that it starts has the code of that moment, and nothing that an app does can harm
    it. Only it passes signals on. If it dies itself, however, its workers stop as if by TERM.
    """

    def __init__(
        self,
        command: Callable[[int], Sequence[str]],
        *,
        processes: int,
        patience: Mapping[signal.Signals, float | None],
        until_empty: bool = False,
        watches: bool = False,
        health: socket.socket | None = None,
        say: Callable[[str], None],
        begun: Callable[[str, str], None],
        told_early: Sequence[int] = (),
    ) -> None:
        """`command` starts a worker process whose `Tether` is at that descriptor.

        `patience` are the seconds that a process has to end after each signal that stops it; None: as long as it takes.
        `watches`: starts them anew whenever a source file changes. `health` is where it is asked whether all is well. `say`
        tells the user one sentence; `begun` hears, once, that a process has imported the app: the URL of its store, and its tasks in words.
        `told_early` are signals that came before it had handlers, to be sent again.
        """
        self._command = command
        self._patience = patience
        self._until_empty = until_empty
        self._sources = Sources() if watches else None
        self._health = health
        self._say = say
        self._begun: Callable[[str, str], None] | None = begun
        self._told_early = told_early
        self._places = [Place() for _ in range(processes)]
        self._processes: dict[int, WorkerProcess] = {}
        self._retirements: set[asyncio.Task[None]] = set()
        self._unretired: dict[str, str] = {}
        """Dead workers that processes were asked to retire and have not yet, and what they died of."""

        self._advised: dict[str, float] = {}
        """When it was last logged that something should be mended, by what it is about."""

        self._terminal = _has_terminal()
        self._paused = False
        self._stopping = False
        self._proven = False
        """Whether any process has ever been at work."""

        self._exit_code = Exit.STOPPED

    def run(self) -> int:
        """Supervise until told to stop, or until it is hopeless; the exit code."""
        return asyncio.run(self._run())

    async def _run(self) -> int:
        self._loop = asyncio.get_running_loop()
        self._ended = asyncio.Event()
        for signum in WATCHED:
            self._loop.add_signal_handler(signum, self._signalled, signum)
        if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # nohup
            self._loop.add_signal_handler(signal.SIGHUP, self._signalled, signal.SIGHUP)
        for early in self._told_early:
            os.kill(os.getpid(), early)
        for place in self._places:
            self._fill(place)
        if self._sources is not None:
            self._look(self._sources)
        answering = None if self._health is None else self._loop.create_task(serve(self._health, self._told))
        await self._ended.wait()
        if answering is not None:
            answering.cancel()
        if self._retirements:
            await asyncio.wait(self._retirements, timeout=LAST_WORD)
        return self._exit_code

    # Signals.

    def _signalled(self, signum: signal.Signals) -> None:
        match signum:
            case signal.SIGCHLD:
                self._reap()
            case signal.SIGHUP if not (self._terminal and not _has_terminal()):
                self._reload()
            case signal.SIGHUP:
                log.warning("the terminal is gone")
                self._stop(signal.SIGTERM)
            case signal.SIGTERM | signal.SIGINT | signal.SIGQUIT:
                self._stop(signum)
            case _:
                if signum is not signal.SIGUSR1:
                    self._paused = signum is signal.SIGUSR2
                self._pass_on(signum)

    def _pass_on(self, signum: signal.Signals) -> None:
        log.info("%s is passed on to %d process(es)", signum.name, len(self._processes))
        for process in self._processes.values():
            process.send(signum)

    def _stop(self, signum: signal.Signals) -> None:
        """Start nothing any more, and end when all have ended."""
        self._stopping = True
        for place in self._places:
            if place.start is not None:
                place.start.cancel()
        self._pass_on(signum)
        patience = self._patience[signum]
        if patience is not None:
            self._loop.call_later(patience, self._kill, list(self._processes.values()))
        self._end_if_empty()

    def _kill(self, processes: Sequence[WorkerProcess]) -> None:
        for process in processes:
            if process.exit_code is None:
                log.error("%s has not stopped in time and is killed", process)
                process.send(signal.SIGKILL)

    def _end_if_empty(self) -> None:
        if not self._processes and (self._stopping or all(place.done for place in self._places)):
            self._ended.set()

    # Starting.

    def _fill(self, place: Place) -> None:
        place.start = None
        place.renewing = False
        place.process = self._start()
        if place.process is None:
            place.deaths += 1
            place.start = self._loop.call_later(RESTART.jittered(place.deaths), self._fill, place)

    def _start(self) -> WorkerProcess | None:
        try:
            process = WorkerProcess(self._command)
        except OSError as error:  # no memory, too many processes or files: it may pass
            log.error("no process can be started: %s", error)  # noqa: TRY400 - the place in the code says nothing
            return None
        self._processes[process.pid] = process
        self._loop.add_reader(process.socket, self._hear, process)
        return process

    def _reload(self) -> None:
        """Start a successor for every process; each takes over when it is at work, and not if it never is."""
        if self._stopping:
            return
        log.warning("reloading: %d new process(es) start, the old ones finish what they run", len(self._places))
        for place in self._places:
            if place.successor is not None:
                place.successor.send(signal.SIGTERM)
            if place.start is not None:
                place.start.cancel()
            if place.process is None:
                place.deaths, place.done = 0, False
                self._fill(place)
            else:
                place.successor = self._start()

    def _look(self, sources: Sources) -> None:
        """Start all anew if a source file has changed; jobs are interrupted, and run again with the new code."""
        changed = sources.changed()
        if changed is not None and not self._stopping:
            self._say(f"{changed} has changed")
            for place in self._places:
                place.failure = None
                if place.start is not None:
                    place.start.cancel()
                if place.process is None:
                    self._fill(place)
                elif not place.renewing:
                    place.renewing = True
                    place.process.send(signal.SIGTERM)
                    self._loop.call_later(self._patience[signal.SIGTERM] or START, self._kill, [place.process])
        self._loop.call_later(LOOK, self._look, sources)

    # What processes tell.

    def _hear(self, process: WorkerProcess) -> None:
        listened, registered = process.listens, process.registered
        if not process.hear():
            self._loop.remove_reader(process.socket)
        if process.listens and not listened and self._paused:
            process.send(signal.SIGUSR2)
        if process.ready and self._begun is not None:
            begun, self._begun = self._begun, None
            begun(process.url, process.tasks)
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
        """Log what a process says should be mended, unless another has said so within the last day."""
        now, told_at = self._loop.time(), self._advised.get(about)
        if told_at is None or now - told_at >= AGAIN:
            self._advised[about] = now
            log.warning("%s", advice)

    def _at_work(self, process: WorkerProcess) -> None:
        log.info("%s is at work", process)
        if self._stopping:
            return
        if not self._proven:
            self._proven = True
            for place in self._places:
                if place.process is None and place.start is None and not place.done:
                    self._fill(place)
        for unretired in self._unretired.items():
            process.order(retire=unretired)
        for place in self._places:
            if place.successor is process:
                old, place.process, place.successor = place.process, process, None
                if old is not None:
                    log.info("%s takes over from %s", process, old)
                    old.send(signal.SIGQUIT)
            if place.process is process:
                place.failure = None

    def _told(self) -> dict[str, object]:
        """What somebody is told who asks whether all is well."""
        troubles = [trouble for place in self._places if (trouble := place.trouble)]
        trouble = "it is stopping" if self._stopping else "; ".join(troubles)
        workers = [process.worker_id for process in self._processes.values() if process.registered]
        return {"status": "stuck" if trouble else "ok", "trouble": trouble, "workers": workers}

    # Ends.

    def _reap(self) -> None:
        """Wait for all that have ended, also for strangers: pid 1 of a container inherits every orphan there."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if not pid:
                return
            process = self._processes.pop(pid, None)
            if process is None:
                log.debug("process %d, an orphan, has ended", pid)
                continue
            self._hear(process)
            self._loop.remove_reader(process.socket)
            process.ended(status)
            self._died(process, os.waitstatus_to_exitcode(status))

    def _died(self, process: WorkerProcess, exit_code: int) -> None:
        well = exit_code in (Exit.STOPPED, Exit.RECYCLED)
        if not well:
            self._retire(process, cause(exit_code))
        place = next((place for place in self._places if process in (place.process, place.successor)), None)
        if self._stopping:
            # Of TERM one may die that no longer handles it, because it has ended its work.
            if process.registered and not well and exit_code != -signal.SIGTERM:
                log.error("%s: %s", process, cause(exit_code))
                self._exit_code = max(self._exit_code, Exit.FAILED)
        elif place is None:
            log.info("%s, replaced before, has ended: %s", process, cause(exit_code))
        elif place.successor is process:
            place.successor = None
            log.error("the new code does not start, the old goes on: %s", process.refusal or cause(exit_code))
        elif place.successor is not None:
            place.process, place.successor = place.successor, None
        else:
            place.process = None
            self._replace(place, process, exit_code)
        self._end_if_empty()

    def _replace(self, place: Place, process: WorkerProcess, exit_code: int) -> None:
        if place.renewing:
            self._fill(place)
            return
        if self._until_empty and exit_code == Exit.STOPPED:
            place.done = True
            return
        if not process.registered and exit_code != Exit.RECYCLED and process.age < START:
            known = {other.failure for other in self._places}
            place.failure = process.refusal or cause(exit_code)
            if self._sources:
                if place.failure not in known:
                    self._say(f"{place.failure}; waiting for a source file to change")
                return
            if not self._proven and all(place.failure for place in self._places):
                self._give_up(process)
                return
            if not self._proven and process.refusal is not None:
                return  # it would say the same again, unless another one shows that it need not
        pause, place.deaths = restart_in(exit_code, process.age, place.deaths, registered=process.registered)
        log.log(
            logging.INFO if exit_code == Exit.RECYCLED else logging.WARNING,
            "%s has ended after %.1f s (%s), another starts %s",
            process,
            process.age,
            process.refusal or cause(exit_code),
            f"in {pause:.1f} s" if pause else "now",
        )
        place.start = self._loop.call_later(pause, self._fill, place)

    def _give_up(self, last: WorkerProcess) -> None:
        number = len(self._places)
        who = (
            "the worker process ended before it was"
            if number == 1
            else f"all {number} worker processes ended before they were"
        )
        self._say(f"gave up: {who} at work: {self._places[0].failure}")
        self._exit_code = Exit.FAILED if last.refusal is None else Exit.REFUSED
        self._stop(signal.SIGTERM)

    def _retire(self, process: WorkerProcess, reason: str) -> None:
        """Take its jobs from it; where only the app can reach the store, have another process do that."""
        if process.worker_id is None:
            return
        if "://" in process.url:
            task = self._loop.create_task(retire(process.url, process.worker_id, reason))
            self._retirements.add(task)
            task.add_done_callback(self._retirements.discard)
            return
        self._unretired[process.worker_id] = reason
        for other in self._processes.values():
            if other.registered:  # if it is dead too, its successor is asked
                other.order(retire=(process.worker_id, reason))
                return


def _has_terminal() -> bool:
    try:
        os.close(os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY))
    except OSError:
        return False
    return True
