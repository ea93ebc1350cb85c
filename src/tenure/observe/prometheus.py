"""`Collector`: the metrics of all queues and workers of a store, for Prometheus.

The numbers are in the store. So one exporter shows the whole system, its counters survive restarts of every process, and two
exporters show the same. No label is made of an id of a job or worker, or of a tag.
"""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from http import HTTPStatus
from itertools import accumulate
from math import isfinite
from time import monotonic
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs

from tenure.core.measures import OTHERS, HistoryRow, buckets, sum_counts
from tenure.errors import MissingExtra, StoreError, StoreUnavailable
from tenure.observe.http import Answer, json_answer, text_answer
from tenure.observe.readings import QUEUES, Background, Reading, read, read_background
from tenure.stores.values import Health, QueueInfo
from tenure.sync import run

try:
    from prometheus_client import CollectorRegistry, generate_latest
    from prometheus_client.core import (
        CounterMetricFamily,
        GaugeMetricFamily,
        HistogramMetricFamily,
        Metric,
    )
    from prometheus_client.registry import Collector as AnyCollector
except ModuleNotFoundError as error:
    if str(error.name).partition(".")[0] != "prometheus_client":
        raise
    raise MissingExtra("prometheus", "metrics for Prometheus need a package") from None

if TYPE_CHECKING:
    from tenure.app import App

__all__ = ["Collector", "respond"]

CACHE = 5.0
"""Seconds for which what was read from the store is shown again."""

BACKGROUND = 60.0
"""Seconds between two readings of what changes slowly."""

ANSWER_WITHIN = 5.0
"""Seconds after which a store that does not answer counts as down: half of Prometheus' own limit for a scrape."""

PAIRS = 100
"""Pairs of queue and task that are shown, at most; the last one is `OTHERS`, the sum of the rest."""

TARGET = 60.0
"""Seconds within which everything in line should be running, by default."""

BOUNDS = tuple(2.0**exponent for exponent in range(-10, 13))
"""Upper bounds of waits and runs, in seconds: every second bound of the buckets in the history, so the counts are exact."""

METRICS: Sequence[tuple[type[Metric], str, str, tuple[str, ...]]] = (
    (GaugeMetricFamily, "tenure_queue_jobs", "Jobs in the store.", ("queue", "state")),
    (GaugeMetricFamily, "tenure_queue_oldest_seconds", "Age of the oldest job in line; 0 if none is.", ("queue",)),
    (GaugeMetricFamily, "tenure_queue_paused", "1 if the queue is paused.", ("queue",)),
    (
        GaugeMetricFamily,
        "tenure_queue_slots_wanted",
        "Slots that run what is running, and what is in line within the target.",
        ("queue",),
    ),
    (
        CounterMetricFamily,
        "tenure_jobs_finished",
        "Jobs that have ended, exact, as the store counts them.",
        ("queue", "outcome"),
    ),
    (
        CounterMetricFamily,
        "tenure_attempts",
        "Attempts by their end, exact, as the store counts them; a job that fails without an attempt counts as failed.",
        ("queue", "outcome"),
    ),
    (
        CounterMetricFamily,
        "tenure_task_attempts",
        "Attempts by their end, as workers count them: a worker that is killed takes up to 10 s of counts with it.",
        ("queue", "task", "outcome"),
    ),
    (
        CounterMetricFamily,
        "tenure_task_errors",
        "Failed attempts by the type of the error, as workers count them.",
        ("queue", "task", "type"),
    ),
    (HistogramMetricFamily, "tenure_job_wait_seconds", "Seconds from being due to the start.", ("queue", "task")),
    (HistogramMetricFamily, "tenure_job_run_seconds", "Seconds that attempts ran.", ("queue", "task")),
    (GaugeMetricFamily, "tenure_workers", "Workers in the registry.", ("state", "release")),
    (GaugeMetricFamily, "tenure_slots", "Jobs that the workers can run at a time.", ("release",)),
    (GaugeMetricFamily, "tenure_slots_busy", "Slots that hold a job.", ("release",)),
    (GaugeMetricFamily, "tenure_store_up", "1 if the store answers.", ()),
    (GaugeMetricFamily, "tenure_store_seconds", "Seconds that the store took to answer the last scrape.", ()),
    (GaugeMetricFamily, "tenure_store_facts", "Findings of tenure doctor about the store.", ("health",)),
)
"""Kind, name without `_total`, description and labels of each metric."""

STATES = {"in_line": "waiting"} | {
    state: state for state in ("scheduled", "blocked", "running", "succeeded", "failed", "cancelled", "broken")
}
"""The field of `QueueInfo` for each state."""

FINISHED = ("succeeded", "failed", "cancelled", "broken")
ATTEMPTS = ("succeeded", "retried", "failed", "lost")
TASK_ATTEMPTS = ("succeeded", "retried", "failed", "broken", "stale")


class Collector(AnyCollector):
    """Collects the metrics of an app's store, for `REGISTRY.register`. Register it in one process, not in all.

    `collect` may be called from any thread. It blocks for as long as the store takes to answer, at most `ANSWER_WITHIN`
    seconds, and within `cache` seconds it shows again what it has read. While the store is down there is one sample,
    `tenure_store_up 0`.

    `target` is the time in seconds by which `tenure_queue_slots_wanted` is computed.
    """

    def __init__(self, app: App, *, target: float = TARGET, cache: float = CACHE) -> None:
        self._app = app
        self._target = target
        self._cache = cache
        self._lock = threading.Lock()
        self._reading: Reading | str | None = None
        """What was read; a text if it could not be read, which says why."""

        self._read_at = 0.0
        self._text: tuple[Reading | str, bytes] | None = None
        """What was last read, and the text that it makes."""

        self._background: Background | None = None
        self._background_at = 0.0

    def describe(self) -> Iterable[Metric]:
        """All metrics without samples, so that registering the collector does not read the store."""
        return list(_families().values())

    def collect(self) -> Iterable[Metric]:
        return self._metrics(self._current())

    def exposition(self) -> bytes:
        """All metrics in the text format of Prometheus."""
        reading = self._current()
        if self._text is None or self._text[0] is not reading:  # because writing takes longer than reading
            registry = CollectorRegistry()
            registry.register(_Made(self._metrics(reading)))
            self._text = reading, generate_latest(registry)
        return self._text[1]

    def _metrics(self, reading: Reading | str) -> list[Metric]:
        families = _families()
        families["tenure_store_up"].add_metric([], int(isinstance(reading, Reading)))
        if isinstance(reading, str):
            return [families["tenure_store_up"]]
        _add_queues(families, reading, self._target)
        _add_tasks(families, _limited(reading.rows))
        _add_workers(families, reading)
        families["tenure_store_seconds"].add_metric([], reading.seconds)
        healths = Counter(fact.health for fact in reading.facts)
        for health in Health:
            families["tenure_store_facts"].add_metric([health.value], healths[health])
        return list(families.values())

    def scale(self, queue: str, target: float | None = None) -> dict[str, float]:
        """Slots that a queue needs, its jobs in line and the age of the oldest; zeros if it never had a job.

        Raises `StoreUnavailable` while the store is down.
        """
        reading = self._current()
        if isinstance(reading, str):
            raise StoreUnavailable(reading)
        found = next((each for each in reading.queues if each.name == queue), None)
        if found is None and len(reading.queues) == QUEUES:
            found = run(self._find(queue, reading.queues[-1].name))
        found = QueueInfo(name=queue) if found is None else found
        slots = reading.slots(found, self._target if target is None else target)
        return {"slots": slots, "in_line": found.waiting, "oldest": round(found.oldest or 0.0, 3)}

    def _current(self) -> Reading | str:
        """What was read from the store, at most `cache` seconds ago, or why it could not be read."""
        with self._lock:
            if self._reading is None or monotonic() - self._read_at >= self._cache:
                self._reading = run(self._read())
                self._read_at = monotonic()
            return self._reading

    async def _read(self) -> Reading | str:
        store = self._app.internals.session.store
        try:
            async with asyncio.timeout(ANSWER_WITHIN):
                if self._background is None or monotonic() - self._background_at >= BACKGROUND:
                    self._background = await read_background(store)
                    self._background_at = monotonic()
                return await read(store, self._background)
        except TimeoutError:
            return f"it has not answered for {ANSWER_WITHIN:g} s"
        except StoreError as error:
            return str(error)

    async def _find(self, queue: str, after: str) -> QueueInfo | None:
        """The queue of this name among those that come after the ones that were read."""
        store = self._app.internals.session.store
        while page := await store.queues(after=after, limit=QUEUES):
            for each in page:
                if each.name == queue:
                    return each
            after = page[-1].name
        return None


class _Made(AnyCollector):
    """Metrics that are made already."""

    def __init__(self, metrics: list[Metric]) -> None:
        self._metrics = metrics

    def collect(self) -> Iterable[Metric]:
        return self._metrics


Families = Mapping[str, Any]
"""The metrics to fill, by name."""


def _families() -> dict[str, Any]:
    return {name: kind(name, about, labels=labels) for kind, name, about, labels in METRICS}  # type: ignore[call-arg]


def _add_queues(families: Families, reading: Reading, target: float) -> None:
    for queue in reading.queues:
        for state, field in STATES.items():
            families["tenure_queue_jobs"].add_metric([queue.name, state], getattr(queue, field))
        families["tenure_queue_oldest_seconds"].add_metric([queue.name], queue.oldest or 0.0)
        families["tenure_queue_paused"].add_metric([queue.name], int(queue.paused))
        families["tenure_queue_slots_wanted"].add_metric([queue.name], reading.slots(queue, target))
        for metric, outcomes in (("tenure_jobs_finished", FINISHED), ("tenure_attempts", ATTEMPTS)):
            for outcome in outcomes:
                families[metric].add_metric([queue.name, outcome], getattr(queue.totals, outcome))


def _limited(rows: Sequence[HistoryRow]) -> list[HistoryRow]:
    """At most `PAIRS` of these rows; all others are added up to one.

    By name, because an order by size would move a pair in and out of the sum, and counters must not fall. A row is never
    removed from the store, so the sum only grows.
    """
    rows = sorted(rows, key=lambda row: (row.queue == OTHERS, row.queue, row.task))
    if len(rows) <= PAIRS:
        return rows
    rest = sum_counts(row.counts for row in rows[PAIRS - 1 :])
    # Types of errors too, because each row may have others.
    errors = sum(count for name, count in rest.items() if name.startswith("error:"))
    rest = {name: count for name, count in rest.items() if not name.startswith("error:")}
    if errors:
        rest[f"error:{OTHERS}"] = errors
    return [*rows[: PAIRS - 1], HistoryRow(0.0, OTHERS, OTHERS, rest)]


def _add_tasks(families: Families, rows: Iterable[HistoryRow]) -> None:
    for row in rows:
        pair = [row.queue, row.task]
        for outcome in TASK_ATTEMPTS:
            families["tenure_task_attempts"].add_metric([*pair, outcome], row.counts.get(outcome, 0))
        for name, count in sorted(row.counts.items()):
            if name.startswith("error:"):
                families["tenure_task_errors"].add_metric([*pair, _text(name.removeprefix("error:"))], count)
        for what in ("wait", "run"):
            counts = buckets(row.counts, "wait" if what == "wait" else "run")
            families[f"tenure_job_{what}_seconds"].add_metric(pair, _cumulative(counts), row.counts.get(what, 0.0))


def _cumulative(counts: Mapping[int, float]) -> list[tuple[str, float]]:
    """Number of durations up to each of `BOUNDS`, and of all. Bucket 2k of the history ends at 2^k seconds."""
    by_bound = [0.0] * (len(BOUNDS) + 1)
    for number, count in counts.items():
        exponent = -(-number // 2)
        by_bound[min(max(exponent + 10, 0), len(BOUNDS))] += count
    return list(zip((*map(str, BOUNDS), "+Inf"), accumulate(by_bound), strict=True))


def _add_workers(families: Families, reading: Reading) -> None:
    releases = sorted({worker.release for worker in reading.workers} or {""})
    for release in releases:
        workers = [worker for worker in reading.workers if worker.release == release]
        there = [worker for worker in workers if not worker.missing]
        troubled = sum(bool(worker.trouble) for worker in there)
        states = {"well": len(there) - troubled, "trouble": troubled, "missing": len(workers) - len(there)}
        for state, number in states.items():
            families["tenure_workers"].add_metric([state, _text(release)], number)
        families["tenure_slots"].add_metric([_text(release)], sum(worker.concurrency for worker in there))
        busy = sum(min(worker.held, worker.concurrency) for worker in there)
        families["tenure_slots_busy"].add_metric([_text(release)], busy)


def _text(value: str) -> str:
    """A text that comes from users' code, as UTF-8 can hold it."""
    return value.encode("utf-8", "replace").decode()


# Over HTTP.


def respond(collector: Collector) -> Callable[[str], Awaitable[Answer]]:
    """Answers `/metrics`, and `/scale?queue=mail&target=60` for autoscalers."""

    async def answer(path: str) -> Answer:
        place, _, query = path.partition("?")
        match place:
            case "/metrics":
                return text_answer((await asyncio.to_thread(collector.exposition)).decode())
            case "/scale":
                return await _scale_answer(collector, query)
            case "/":
                return text_answer("tenure metrics: /metrics, /scale?queue=NAME&target=SECONDS\n")
        return text_answer("there is /metrics, and /scale?queue=NAME\n", HTTPStatus.NOT_FOUND)

    return answer


async def _scale_answer(collector: Collector, query: str) -> Answer:
    given = parse_qs(query)
    queue, target = given.get("queue", [""])[-1], _seconds(given.get("target"))
    if not queue:
        return json_answer({"error": "name a queue: /scale?queue=mail"}, HTTPStatus.BAD_REQUEST)
    if target == 0:
        return json_answer({"error": "target must be a number of seconds above 0"}, HTTPStatus.BAD_REQUEST)
    try:
        return json_answer(await asyncio.to_thread(collector.scale, queue, target))
    except StoreError as error:
        return json_answer({"error": f"the store does not answer: {error}"}, HTTPStatus.SERVICE_UNAVAILABLE)


def _seconds(given: list[str] | None) -> float | None:
    """The number of seconds that was given; None if none was, 0 if it is no number above 0."""
    if given is None:
        return None
    try:
        seconds = float(given[-1])
    except ValueError:
        return 0
    return seconds if seconds > 0 and isfinite(seconds) else 0
