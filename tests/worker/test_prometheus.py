"""One collector shows the whole system to Prometheus, exactly, bounded and cheaply, whatever happens to the store."""

from __future__ import annotations

import asyncio
import json
import re
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from http import HTTPStatus
from importlib.resources import files
from typing import Any

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from tenure import Fail
from tenure.app import App
from tenure.core.measures import HistoryWrite, bucket, upper_bound
from tenure.errors import MissingExtra, StoreUnavailable
from tenure.observe import prometheus
from tenure.observe.prometheus import BOUNDS, PAIRS, Collector, respond
from tenure.observe.readings import slots_wanted
from tenure.stores.base import Store
from tenure.stores.values import Health, QueueInfo
from tenure.worker import historian
from tests.conftest import KINDS
from tests.documentation import ROOT

from .conftest import MakeApp, Start, Wire, eventually

on_memory = pytest.mark.parametrize("url", [KINDS[0]], indirect=True)

Samples = dict[str, dict[tuple[str, ...], float]]
"""Samples by name, and by the values of their labels in the order of the labels' names."""


def parsed(text: str) -> Samples:
    found: Samples = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            labels = tuple(value for _, value in sorted(sample.labels.items()))
            assert labels not in found.setdefault(sample.name, {}), sample
            found[sample.name][labels] = sample.value
    return found


async def shown(collector: Collector) -> Samples:
    return parsed((await asyncio.to_thread(collector.exposition)).decode())


@pytest.fixture
def history_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have workers write to the history often."""
    monkeypatch.setattr(historian, "INTERVAL", 0.05)


async def all_done(app: App, ids: Sequence[str]) -> bool:
    return all([(await app.ajob(each)).done for each in ids])


def filled(samples: Mapping[tuple[str, ...], float]) -> dict[tuple[str, ...], float]:
    """The samples that are not 0."""
    return {labels: value for labels, value in samples.items() if value}


async def test_everything_that_happens_is_shown(make_app: MakeApp, start: Start, history_at_once: None) -> None:
    app = make_app(release="v7", retry=None)
    go_on = asyncio.Event()

    @app.task(queue="mail")
    async def send(number: int) -> None:
        if number == 1:
            raise Fail("no")
        if number == 2:
            raise KeyError("x")

    @app.task(queue="slow")
    async def wait() -> None:
        await go_on.wait()

    jobs = [await send.aenqueue(number) for number in range(10)]
    await wait.aenqueue()
    await start(app, "mail", "slow", concurrency=4, poll=0.05, beat=0.1)
    await eventually(lambda: all_done(app, [job.id for job in jobs]))
    await app.apause("mail")
    await send.aenqueue(3)
    await send.using(delay=3600).aenqueue(4)
    collector = Collector(app, cache=0)

    async def complete() -> Samples | None:
        found = await shown(collector)
        counted = sum(found.get("tenure_task_attempts_total", {}).values()) == 10
        return found if counted and found["tenure_slots_busy"] == {("v7",): 1} else None

    found = await eventually(complete, 25)
    go_on.set()
    assert filled(found["tenure_queue_jobs"]) == {
        ("mail", "in_line"): 1,
        ("mail", "scheduled"): 1,
        ("mail", "succeeded"): 8,
        ("mail", "failed"): 2,
        ("slow", "running"): 1,
    }
    assert len(found["tenure_queue_jobs"]) == 16
    assert found["tenure_queue_paused"] == {("mail",): 1, ("slow",): 0}
    assert 0 < found["tenure_queue_oldest_seconds"]["mail",] < 60
    assert found["tenure_queue_oldest_seconds"]["slow",] == 0
    assert found["tenure_queue_slots_wanted"] == {("mail",): 0, ("slow",): 1}  # the former is paused
    assert filled(found["tenure_jobs_finished_total"]) == {("succeeded", "mail"): 8, ("failed", "mail"): 2}
    assert filled(found["tenure_attempts_total"]) == {("succeeded", "mail"): 8, ("failed", "mail"): 2}
    assert filled(found["tenure_task_attempts_total"]) == {
        ("succeeded", "mail", "send"): 8,
        ("failed", "mail", "send"): 2,
    }
    assert found["tenure_task_errors_total"] == {("mail", "send", "Fail"): 1, ("mail", "send", "KeyError"): 1}
    for name in ("tenure_job_wait_seconds", "tenure_job_run_seconds"):
        assert found[f"{name}_count"] == {("mail", "send"): 10}
        assert found[f"{name}_bucket"]["+Inf", "mail", "send"] == 10
        assert 0 < found[f"{name}_sum"]["mail", "send"] < 60
    assert found["tenure_workers"] == {("v7", "well"): 1, ("v7", "trouble"): 0, ("v7", "missing"): 0}
    assert found["tenure_slots"] == {("v7",): 4}
    assert found["tenure_store_up"] == {(): 1}
    assert 0 < found["tenure_store_seconds"][()] < 5
    facts = await app.internals.session.store.examine()
    assert found["tenure_store_facts"] == {
        (health.value,): sum(fact.health is health for fact in facts) for health in Health
    }


async def test_a_store_without_jobs_and_workers_has_no_worker_that_is_well(app: App) -> None:
    found = await shown(Collector(app))

    assert found["tenure_workers"] == {("", "well"): 0, ("", "trouble"): 0, ("", "missing"): 0}
    assert "tenure_queue_jobs" not in found


async def test_two_exporters_on_one_store_say_the_same(make_app: MakeApp, store: Store) -> None:
    await store.record_history([HistoryWrite("q", f"t{number}", counts(0.3)) for number in range(150)])
    one, other = [await shown(Collector(make_app())) for _ in range(2)]

    for found in one, other:
        del found["tenure_store_seconds"]
    assert one == other


def counts(*runs: float) -> dict[str, float]:
    """The counters of attempts that succeeded after these seconds."""
    made: dict[str, float] = {"succeeded": len(runs), "run": sum(runs), "wait": 0.0, "wait:-40": len(runs)}
    for seconds in runs:
        made[f"run:{bucket(seconds)}"] = made.get(f"run:{bucket(seconds)}", 0) + 1
    return made


@on_memory
async def test_the_buckets_are_exact_sums_of_those_in_the_history(app: App, store: Store) -> None:
    # One duration in the middle of each bucket of the history, and beyond the last bound.
    runs = [upper_bound(number) * 0.9 for number in range(-40, 40)]
    await store.record_history([HistoryWrite("q", "t", counts(*runs))])

    found = await shown(Collector(app))

    buckets = {float(le): number for (le, _, _), number in found["tenure_job_run_seconds_bucket"].items()}
    assert list(buckets) == [*BOUNDS, float("inf")]
    assert buckets == {bound: sum(seconds < bound for seconds in runs) for bound in [*BOUNDS, float("inf")]}
    assert found["tenure_job_run_seconds_sum"]["q", "t"] == pytest.approx(sum(runs))


# Neither broken nor swollen.


@on_memory
async def test_texts_of_users_break_nothing(make_app: MakeApp, start: Start, history_at_once: None) -> None:
    app = make_app(retry=None, release='a"b\n\\ \ud800')
    hostile = 'E"\n\r\\} 1\ntenure_store_up 0\n\u2028'
    wrong = type(hostile, (Exception,), {})

    @app.task(name="a.b:c-d_e")
    async def fails() -> None:
        raise wrong("no")

    job = await fails.aenqueue()
    await start(app, poll=0.05)
    await eventually(lambda: all_done(app, [job.id]))
    collector = Collector(app, cache=0)

    async def counted() -> Samples | None:
        found = await shown(collector)
        return found if found.get("tenure_task_errors_total") else None

    found = await eventually(counted, 25)
    [(_, task, kind)] = found["tenure_task_errors_total"]
    assert (task, kind) == ("a.b:c-d_e", hostile)
    assert found["tenure_store_up"] == {(): 1}
    assert ('a"b\n\\ ?', "well") in found["tenure_workers"]


async def test_ten_thousand_tasks_do_not_swell_it(app: App, store: Store) -> None:
    for first in range(0, 10_000, 50):
        writes = [
            HistoryWrite("q", f"t{first + number:05}", {**counts(0.5), f"error:E{first}": 1}) for number in range(50)
        ]
        await store.record_history(writes)

    found = await shown(Collector(app))

    pairs = {(queue, task) for _, queue, task in found["tenure_task_attempts_total"]}
    assert len(pairs) == PAIRS
    assert pairs == {("…", "…"), *(("q", f"t{number:05}") for number in range(PAIRS - 1))}
    assert sum(found["tenure_task_attempts_total"].values()) == 10_000
    assert sum(found["tenure_job_run_seconds_count"].values()) == 10_000
    assert sum(found["tenure_task_errors_total"].values()) == 10_000
    assert [labels for labels in found["tenure_task_errors_total"] if labels[0] == "…"] == [("…", "…", "…")]
    assert len(await asyncio.to_thread(Collector(app).exposition)) < 1_000_000


# Cost.


async def test_a_scrape_is_three_calls_and_none_while_it_is_fresh(
    make_app: MakeApp, wire: Wire, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = make_app(store=wire.open)
    await app.remote("t", queue="mail").aenqueue()
    await start(app, "*", poll=0.05)  # that serves all queues
    await eventually(lambda: wire.calls["register"])
    await asyncio.to_thread(app.workers)
    scraping: list[str] = []
    watched = make_app(store=lambda: Counting(wire.open(), scraping))
    collector = Collector(watched, cache=30)
    registry = CollectorRegistry(auto_describe=True)
    registry.register(collector)
    assert scraping == []

    await shown(collector)
    assert scraping == ["examine", "history", "queues", "workers", "history"]
    await asyncio.gather(*(shown(collector) for _ in range(5)))
    assert len(scraping) == 5
    monkeypatch.setattr(collector, "_cache", 0)
    await shown(collector)
    assert scraping[5:] == ["queues", "workers", "history"]


class Counting:
    """A store that writes down which of its methods are called."""

    def __init__(self, store: Store, calls: list[str]) -> None:
        self._store = store
        self._calls = calls

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._store, name)
        if not callable(method) or name in ("close", "aclose"):
            return method

        def call(*args: Any, **options: Any) -> Any:
            self._calls.append(name)
            return method(*args, **options)

        return call


@on_memory
def test_it_collects_on_any_thread_and_on_a_running_loop(url: str) -> None:
    app = App(url)
    app.remote("t", queue="mail").enqueue()
    registry = CollectorRegistry(auto_describe=True)
    registry.register(Collector(app, cache=0))

    async def on_a_loop() -> bytes:
        return generate_latest(registry)

    with ThreadPoolExecutor(8) as pool:
        texts = [*pool.map(lambda _: generate_latest(registry), range(32)), asyncio.run(on_a_loop())]
    for text in texts:
        assert parsed(text.decode())["tenure_queue_jobs"]["mail", "in_line"] == 1
    app.close()


# The store away.


@on_memory
async def test_a_store_that_is_down_is_one_sample(make_app: MakeApp, wire: Wire) -> None:
    app = make_app(store=wire.open)
    collector = Collector(app, cache=0)
    assert len(await shown(collector)) > 3

    async def refuse(*_: Any, **__: Any) -> Any:
        raise StoreUnavailable("gone")

    wire.hooks["queues"] = refuse
    assert await shown(collector) == {"tenure_store_up": {(): 0}}
    answer = await respond(collector)("/scale?queue=mail")
    assert (answer.status, json.loads(answer.body)) == (503, {"error": "the store does not answer: gone"})
    assert (await respond(collector)("/metrics")).status is HTTPStatus.OK
    wire.hooks.clear()
    assert (await shown(collector))["tenure_store_up"] == {(): 1}


@on_memory
async def test_a_store_that_hangs_is_down(make_app: MakeApp, wire: Wire, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prometheus, "ANSWER_WITHIN", 0.1)
    collector = Collector(make_app(store=wire.open), cache=0)

    async def hang(*_: Any, **__: Any) -> Any:
        await asyncio.Event().wait()

    wire.hooks["workers"] = hang
    assert await shown(collector) == {"tenure_store_up": {(): 0}}


# Scaling.


@pytest.mark.parametrize(
    ("queue", "run_time", "target", "slots"),
    [
        ({}, 1.0, 60, 0),
        ({"waiting": 1}, 0.001, 60, 1),
        ({"waiting": 1240, "running": 8}, 1.4, 60, 8 + 29),
        ({"waiting": 1240}, None, 60, 21),  # a run time that is not known is taken for a second
        ({"waiting": 10}, 600.0, 60, 10),  # not more than one for each job
        ({"waiting": 10, "running": 3}, 0.0, 60, 4),
        ({"waiting": 1000, "running": 3, "paused": True}, 1.0, 60, 3),
        ({"waiting": 100}, 1.0, 10, 10),
        ({"scheduled": 5}, 1.0, 60, 0),
    ],
)
def test_the_slots_that_a_queue_needs(queue: dict[str, Any], run_time: float | None, target: float, slots: int) -> None:
    assert slots_wanted(QueueInfo(name="q", **queue), run_time, target) == slots


async def test_what_an_autoscaler_asks_for(app: App, store: Store) -> None:
    await app.aenqueue(*[app.remote("t", queue="mail").bind() for _ in range(90)])
    await store.record_history(
        [HistoryWrite("mail", "", counts(2.0, 4.0)), HistoryWrite("mail", "t", counts(2.0, 4.0))]
    )
    answers = respond(Collector(app))

    async def asked(path: str) -> tuple[int, Any]:
        answer = await answers(path)
        return answer.status, json.loads(answer.body)

    status, found = await asked("/scale?queue=mail&target=30")
    assert (status, found["slots"], found["in_line"]) == (200, 9, 90)
    assert 0 < found["oldest"] < 60
    assert (await asked("/scale?queue=mail"))[1]["slots"] == 5
    assert await asked("/scale?queue=new") == (200, {"slots": 0, "in_line": 0, "oldest": 0.0})
    for wrong in (
        "/scale",
        "/scale?queue=",
        "/scale?queue=mail&target=0",
        "/scale?queue=mail&target=x",
        "/scale?queue=q&target=inf",
    ):
        assert (await asked(wrong))[0] == 400
    assert (await answers("/elsewhere")).status == 404


async def test_the_latest_run_times_count(app: App, store: Store) -> None:
    """Those of this hour and the one before are read apart from those since ever."""
    await app.aenqueue(*[app.remote("t", queue="mail").bind() for _ in range(60)])
    # The row of the queue is that of the hour too; a row of a task alone is found since ever only.
    await store.record_history([HistoryWrite("mail", "", counts(3.0)), HistoryWrite("mail", "t", counts(30.0))])

    assert (await shown(Collector(app)))["tenure_queue_slots_wanted"]["mail",] == 3


async def test_a_delayed_job_that_is_due_wakes_a_deployment_from_zero(app: App, url: str) -> None:
    later = app.remote("t", queue="mail")
    await later.using(delay=3600).aenqueue()
    collector = Collector(app, cache=0)

    async def wanted() -> float:
        return (await shown(collector))["tenure_queue_slots_wanted"]["mail",]

    assert await wanted() == 0 or url.startswith("redis")  # which names the queue until a worker has looked
    await later.using(delay=0.3).aenqueue()

    async def woken() -> bool:
        return await wanted() == 1

    await eventually(woken)


@on_memory
async def test_a_queue_beyond_those_that_are_shown_can_be_scaled(app: App, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prometheus, "QUEUES", 2)
    monkeypatch.setattr("tenure.observe.readings.QUEUES", 2)
    for name in "abcdefg":
        await app.remote("t", queue=name).aenqueue()
    collector = Collector(app)

    assert {queue for queue, _ in (await shown(collector))["tenure_queue_jobs"]} == {"a", "b"}
    assert (await asyncio.to_thread(collector.scale, "g"))["in_line"] == 1
    assert (await asyncio.to_thread(collector.scale, "z"))["in_line"] == 0


# What comes with the package.


WORKERS = {
    f"tenure_worker_{name}"
    for name in ("loop_lag_seconds", "memory_bytes", "busy", "round_trip_seconds", "renewals_total", "refused_total")
}
"""The metrics of the health port of a worker."""


def names(text: str) -> set[str]:
    """The metrics that a text names."""
    return set(re.findall(r"\btenure_[a-z_]+", text))


@on_memory
def test_rules_and_dashboard_name_metrics_that_there_are(url: str) -> None:
    collector = Collector(App(url))
    known = {
        f"{metric.name}{suffix}"
        for metric in collector.describe()
        for suffix in {"counter": ["_total"], "histogram": ["_bucket", "_sum", "_count"]}.get(metric.type, [""])
    }
    rules, dashboard = [files("tenure.observe").joinpath(each).read_text() for each in ("alerts.yml", "grafana.json")]

    assert names(rules) - known == set()
    assert names(dashboard) - known == set()
    assert len(names(rules)) >= 6
    assert len(names(dashboard)) >= 10


@on_memory
def test_the_page_names_every_metric_and_no_other(url: str) -> None:
    shown = {f"{each.name}_total" if each.type == "counter" else each.name for each in Collector(App(url)).describe()}

    assert names((ROOT / "docs" / "prometheus.md").read_text()) == shown | WORKERS


def test_the_dashboard_has_twelve_panels_that_do_not_overlap() -> None:
    panels = json.loads(files("tenure.observe").joinpath("grafana.json").read_text())["panels"]

    places = [
        (x, y)
        for each in panels
        for x in range(each["gridPos"]["x"], each["gridPos"]["x"] + each["gridPos"]["w"])
        for y in range(each["gridPos"]["y"], each["gridPos"]["y"] + each["gridPos"]["h"])
    ]
    assert len(panels) == len({each["id"] for each in panels}) == 12
    assert len(places) == len(set(places))
    assert max(x for x, _ in places) < 24


def test_every_rule_says_what_is_wrong() -> None:
    rules = files("tenure.observe").joinpath("alerts.yml").read_text().split("- alert: ")[1:]

    assert len(rules) == 8
    for rule in rules:
        assert all(f" {field}: " in rule for field in ("expr", "severity", "summary"))


def test_the_wheel_contains_them() -> None:
    from hatchling.builders.wheel import WheelBuilder

    contained = {each.distribution_path for each in WheelBuilder(str(ROOT)).recurse_included_files()}

    assert {"tenure/observe/alerts.yml", "tenure/observe/grafana.json", "tenure/observe/prometheus.py"} <= contained


# Without the package.


def test_without_the_package_the_sentence_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "prometheus_client", None)
    monkeypatch.delitem(sys.modules, "tenure.observe.prometheus")

    with pytest.raises(MissingExtra) as caught:
        import tenure.observe.prometheus  # noqa: F401

    assert str(caught.value) == (
        'metrics for Prometheus need a package that is not installed: pip install "tenure[prometheus]"'
    )
