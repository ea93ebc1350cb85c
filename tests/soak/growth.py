"""Whether anything grew without bound: measured again and again, and what was early compared with what was late."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import NamedTuple

__all__ = ["MIB", "Growth", "Measure", "changes", "process_measures"]

MIB = 1 << 20


class Measure(NamedTuple):
    """Something that may go up and down, and must not go on growing."""

    name: str
    unit: int = 1
    """What it is shown in."""

    factor: float = 1.0
    slack: float = 0.0
    """It may become so many times as large, and so much more."""

    def shown(self, value: float) -> str:
        return f"{value / self.unit:.1f} MiB" if self.unit == MIB else f"{value:g}"


class Growth(NamedTuple):
    """How one measure has changed."""

    measure: Measure
    early: float
    late: float

    @property
    def too_much(self) -> bool:
        return self.late > self.early * self.measure.factor + self.measure.slack

    def __str__(self) -> str:
        return f"{self.measure.name} {self.measure.shown(self.early)} → {self.measure.shown(self.late)}"


Sample = tuple[float, Mapping[Measure, float]]
"""When something was measured, and what."""


def changes(samples: Sequence[Sample], seconds: float) -> Iterator[Growth]:
    """Compare what was usual after the first quarter of so many seconds with what was usual at their end."""
    for measure in dict.fromkeys(measure for _, values in samples for measure in values):
        early, late = (
            [values[measure] for at, values in samples if measure in values and begin <= at / seconds <= end]
            for begin, end in ((0.25, 0.4), (0.85, 1.0))
        )
        if early and late:
            yield Growth(measure, median(early), median(late))


def process_measures(who: str, pid: int) -> dict[Measure, float]:
    """Memory, open files and threads of a process."""
    status = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    return {
        Measure(f"{who} memory", MIB, factor=1.2, slack=4 * MIB): int(status["VmRSS"].split()[0]) * 1024,
        Measure(f"{who} descriptors", slack=8): len(os.listdir(f"/proc/{pid}/fd")),
        Measure(f"{who} threads", slack=4): int(status["Threads"]),
    }
