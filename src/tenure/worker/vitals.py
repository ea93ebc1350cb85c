"""`Vitals`: what only a worker knows about itself, and `exposition`, which writes it as metrics for Prometheus.

The numbers of jobs, queues and workers are in the store, where one exporter reads them (`tenure.observe.prometheus`). These
have other names, so every worker can be scraped beside that exporter and nothing is counted twice.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from itertools import accumulate

import msgspec

__all__ = ["BOUNDS", "VitalSigns", "Vitals", "exposition"]

BOUNDS = tuple(2.0**exponent for exponent in range(-14, 5))
"""Upper bounds of the buckets of round trips, in seconds: 61 microseconds to 16 seconds."""


class VitalSigns(msgspec.Struct, frozen=True):
    """The state of one worker process at one moment."""

    lag: float
    """Seconds that its event loop took to answer the last ping, or has not answered for."""

    memory: int
    """Resident memory, in bytes."""

    busy: int
    """Slots that run a job."""

    renewals: int
    """Leases that it has renewed since its start."""

    refused: int
    """Ends of jobs that the store has refused, because the lease was lost."""

    trips: list[int]
    """Round trips of its loop to the store, by bucket; the last bucket has no upper bound."""

    trip_seconds: float
    """Seconds of all round trips."""


class Vitals:
    """Counters of one worker. The loop and the keeper add to different ones, each on its own thread."""

    def __init__(self) -> None:
        self.renewals = 0
        self.refused = 0
        self._trips = [0] * (len(BOUNDS) + 1)
        self._trip_seconds = 0.0

    def round_trip(self, seconds: float) -> None:
        """Count a round trip to the store."""
        self._trips[bisect_left(BOUNDS, seconds)] += 1
        self._trip_seconds += seconds

    def signs(self, *, lag: float, memory: int, busy: int) -> VitalSigns:
        """Its counters, with these values of the moment. May be called from any thread."""
        return VitalSigns(
            lag, memory, busy, self.renewals, self.refused, list(self._trips), round(self._trip_seconds, 6)
        )


def exposition(processes: Sequence[tuple[str, VitalSigns]]) -> str:
    """The metrics of these processes, each with its label, in the text format of Prometheus."""
    return "".join(f"{line}\n" for line in _lines(processes))


def _lines(processes: Sequence[tuple[str, VitalSigns]]) -> Iterator[str]:
    for name, kind, about, field in (
        ("loop_lag_seconds", "gauge", "Seconds that the event loop of the worker took to answer a ping.", "lag"),
        ("memory_bytes", "gauge", "Resident memory of the worker process.", "memory"),
        ("busy", "gauge", "Slots of the worker that run a job.", "busy"),
        ("renewals_total", "counter", "Leases that the worker has renewed.", "renewals"),
        ("refused_total", "counter", "Ends of jobs that the store refused because the lease was lost.", "refused"),
    ):
        yield f"# HELP tenure_worker_{name} {about}"
        yield f"# TYPE tenure_worker_{name} {kind}"
        for process, signs in processes:
            yield f'tenure_worker_{name}{{process="{process}"}} {getattr(signs, field)}'
    name = "tenure_worker_round_trip_seconds"
    yield f"# HELP {name} Seconds of the round trips of the worker's loop to the store."
    yield f"# TYPE {name} histogram"
    for process, signs in processes:
        counts = list(accumulate(signs.trips))
        for bound, count in zip((*BOUNDS, "+Inf"), counts, strict=True):
            yield f'{name}_bucket{{process="{process}",le="{bound}"}} {count}'
        yield f'{name}_sum{{process="{process}"}} {signs.trip_seconds}'
        yield f'{name}_count{{process="{process}"}} {counts[-1]}'
