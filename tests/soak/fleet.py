"""The processes of a soak: started, killed, stopped, told to leave, replaced."""

from __future__ import annotations

import random
import signal
import time
from collections.abc import Callable
from pathlib import Path
from sched import scheduler

from tests.faults.processes import Process, Processes

from . import load

__all__ = ["Fleet", "Member"]

PARTS: dict[str, Callable[..., object]] = {
    "worker": load.work,
    "producer": load.produce,
    "blocking producer": load.produce_blocking,
    "operator": load.operate,
}

CREW = [("worker", 4), ("producer", 0), ("blocking producer", 0), ("operator", 0)]
"""Those who are never killed, so that one can see whether they grow; with the number of slots of a worker."""

MORTALS = [("worker", 1), ("worker", 3), ("worker", 8), ("producer", 0), ("blocking producer", 0)]
"""Those who are killed, and replaced."""

LEAVE = 15.0
"""Seconds within which a process that was told to stop must be gone."""

YOUNG = 3.0
"""Seconds within which a process may not yet listen to signals."""


class Member:
    """One process and its part."""

    def __init__(self, part: str, slots: int, process: Process, *, mortal: bool) -> None:
        self.part = part
        self.slots = slots
        self.process = process
        self.mortal = mortal
        self.born = time.monotonic()

    def ended_well(self, told: float) -> bool:
        """Whether it has ended as one that was told to stop at this time should."""
        code = self.process.wait()
        return code == 0 or (code == -signal.SIGTERM and told < self.born + YOUNG)


class Fleet:
    """All processes on one store. What must not be is a complaint."""

    def __init__(self, url: str, folder: Path, chance: random.Random, agenda: scheduler) -> None:
        self.members: list[Member] = []
        self.complaints: list[str] = []
        self._url = url
        self._folder = folder
        self._chance = chance
        self._agenda = agenda
        self._started = 0
        self._leaving: dict[Member, float] = {}
        self._stopped: set[Member] = set()

    def start(self) -> None:
        for part, slots in CREW:
            self._add(part, slots, mortal=False)
        for part, slots in MORTALS:
            self._add(part, slots, mortal=True)

    def roll_call(self) -> None:
        """Those who were told to leave must leave, the others must be there."""
        for member in list(self.members):
            if member.process.ended:
                self._complain(member, "ended by itself")
                self._replace(member)
                member.process.end()
        for member, told in list(self._leaving.items()):
            if member.process.ended:
                if not member.ended_well(told):
                    self._complain(member, "ended badly")
                del self._leaving[member]
                member.process.end()
            elif time.monotonic() > told + LEAVE:
                self._complain(member, "was told to stop and did not")
                member.process.kill()

    def dismiss(self, *parts: str) -> None:
        """Tell all of these parts to leave, and see them off."""
        for member in [member for member in self.members if member.part in parts]:
            self.members.remove(member)
            self._tell_to_leave(member)
        while self._leaving:
            self.roll_call()
            time.sleep(0.05)

    def end(self) -> None:
        """Kill whoever is still there."""
        for member in (*self.members, *self._leaving):
            member.process.end()

    # Faults.

    def kill(self) -> None:
        """End some worker or producer at once, whatever it does."""
        victim = self._chance.choice([member for member in self.members if member.mortal])
        self._replace(victim)
        self._stopped.discard(victim)
        victim.process.end()

    def stop(self) -> None:
        """Stop a worker for a while, perhaps past its leases."""
        victim = self._one_awake(lambda member: not member.process.ended)
        victim.process.stop()
        self._stopped.add(victim)
        self._agenda.enter(self._chance.uniform(0.5, 3) * load.LEASE, 0, self._go_on, (victim,))

    def restart(self) -> None:
        """Tell a worker to stop, and start another in its place at once."""
        member = self._one_awake(lambda member: member.mortal)
        self._replace(member)
        self._tell_to_leave(member)

    def _one_awake(self, fits: Callable[[Member], bool]) -> Member:
        workers = [member for member in self.members if member.part == "worker" and member not in self._stopped]
        return self._chance.choice([member for member in workers if fits(member)])

    def _go_on(self, member: Member) -> None:
        if member in self._stopped:
            self._stopped.remove(member)
            member.process.go_on()

    def _tell_to_leave(self, member: Member) -> None:
        member.process.send(signal.SIGTERM)
        self._leaving[member] = time.monotonic()

    def _add(self, part: str, slots: int, *, mortal: bool) -> None:
        self._started += 1
        folder = self._folder / f"{self._started}-{part.replace(' ', '-')}"
        folder.mkdir()
        how = slots or f"{self._chance.random()}"
        process = Processes(folder).start(PARTS[part], self._url, folder, how)
        self.members.append(Member(part, slots, process, mortal=mortal))

    def _replace(self, member: Member) -> None:
        self.members.remove(member)
        self._add(member.part, member.slots, mortal=member.mortal)

    def _complain(self, member: Member, what: str) -> None:
        self.complaints.append(f"{member.part} {member.process.pid} {what}; {member.process.last_words()}")
