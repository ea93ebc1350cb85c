"""Comparisons with other queues: each peer runs in a separate process, with its best settings.

The extra `bench` installs the peers. One that is not installed is reported and left out.
"""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

__all__ = ["COMPARISONS", "Comparison", "Peer"]

PROGRAMS = Path(__file__).parent / "peers"


@dataclass(frozen=True)
class Peer:
    """One measurement of a peer: what it does, and how many times."""

    name: str
    what: str
    number: int
    variant: str = ""

    @property
    def installed(self) -> bool:
        return importlib.util.find_spec(self.name) is not None

    def __str__(self) -> str:
        return f"{self.name} {self.variant}".strip()

    def measure(self, url: str, quick: bool) -> float:
        """Jobs per second, or the median seconds until a job begins, in an unused store."""
        number = max(self.number // 10, 1000 if self.number >= 1000 else 30) if quick else self.number
        command = [
            sys.executable,
            str(PROGRAMS / f"{self.name}_peer.py"),
            self.what,
            url.partition("?")[0],
            str(number),
        ]
        answer = subprocess.run([*command, self.variant], capture_output=True, text=True, check=False)
        try:
            return float(json.loads(answer.stdout.splitlines()[-1]))
        except (IndexError, ValueError):
            raise RuntimeError(f"{self} did not {self.what}: {answer.stderr[-500:]}") from None


@dataclass(frozen=True)
class Comparison:
    """One figure of Tenure beside the same figure of the peers; the fastest peer counts."""

    what: str
    ours: str
    """`drain TASK CONCURRENCY NUMBER`, `enqueue NUMBER`, `bulk NUMBER` or `latency NUMBER`."""

    peers: tuple[Peer, ...]
    bar: str

    @property
    def is_time(self) -> bool:
        """Whether the figure is a time, so that lower is better."""
        return self.ours.startswith("latency")


COMPARISONS = {
    "redis": (
        Comparison(
            "drain, async no-op", "drain noop 100 200000",
            (Peer("dramatiq", "drain", 30_000, "one"), Peer("huey", "drain", 50_000, "one"), Peer("rq", "drain", 1_000)), "≥ 5×",
        ),
        Comparison("drain, threaded no-op", "drain noop_in_thread 100 50000", (Peer("dramatiq", "drain", 30_000),), "≥ 5×"),
        Comparison(
            "drain, one at a time", "drain noop 1 50000",
            (Peer("dramatiq", "drain", 10_000, "one"), Peer("huey", "drain", 50_000, "one")), "≥ 5×",
        ),
        Comparison("drain, isolated no-op", "drain noop_isolated 2 2000", (Peer("rq", "drain", 300, "fork"),), "≥ 5×"),
        Comparison("enqueue one by one, blocking", "enqueue 5000", (Peer("huey", "enqueue", 5_000),), "≥ 0.65×"),
        Comparison("bulk enqueue", "bulk 100000", (Peer("rq", "bulk", 20_000),), "≥ 5×"),
        Comparison("latency to an idle worker, p50", "latency 200", (Peer("huey", "latency", 200),), "≤ 1×"),
    ),
    "postgres": (
        Comparison("drain, async no-op", "drain noop 100 200000", (Peer("pgqueuer", "drain", 50_000),), "≥ 1.5×"),
        Comparison(
            "drain, threaded no-op", "drain noop_in_thread 100 50000", (Peer("procrastinate", "drain", 3_000),), "≥ 5×"
        ),
        Comparison(
            "drain, one at a time", "drain noop 1 50000",
            (Peer("pgqueuer", "drain", 5_000, "one"), Peer("procrastinate", "drain", 2_000, "one")), "≥ 5×",
        ),
        Comparison("enqueue one by one, blocking", "enqueue 2000", (Peer("pgqueuer", "enqueue", 2_000),), "≥ 1×"),
        Comparison("bulk enqueue", "bulk 100000", (Peer("pgqueuer", "bulk", 100_000),), "≥ 1.5×"),
        Comparison("latency to an idle worker, p50", "latency 200", (Peer("pgqueuer", "latency", 200),), "≤ 1×"),
    ),
    "sqlite": (
        Comparison("drain, async no-op", "drain noop 100 200000", (Peer("huey", "drain", 100_000, "one"),), "≥ 5×"),
        Comparison(
            "drain, async no-op, the peer without sync", "drain noop 100 200000", (Peer("huey", "drain", 100_000, "one loose"),),
            "≥ 3×",
        ),
        Comparison("drain, threaded no-op", "drain noop_in_thread 100 50000", (Peer("huey", "drain", 100_000, "one"),), "≥ 4×"),
        Comparison("enqueue one by one, blocking", "enqueue 2000", (Peer("huey", "enqueue", 2_000),), "≥ 0.8×"),
        Comparison("latency to an idle worker, p50", "latency 200", (Peer("huey", "latency", 200, "one"),), "≤ 0.5×"),
        Comparison("the same, the peer with eight threads that look", "latency 200", (Peer("huey", "latency", 200),), ""),
    ),
}  # fmt: skip
"""The comparisons by the scheme of the store's URL."""
