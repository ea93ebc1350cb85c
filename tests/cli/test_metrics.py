"""`tenure metrics` as it is run: what it prints and serves, and what it refuses."""

from __future__ import annotations

import errno
import http.client
import json
import os
import signal
import socket
import sys
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tenure import App
from tenure.observe.prometheus import Collector
from tests.faults.processes import Processes, eventually

from .conftest import Tenure, free_port
from .service import Service


@pytest.fixture
def processes(tmp_path: Path) -> Iterator[Processes]:
    processes = Processes(tmp_path)
    yield processes
    processes.end()


def parsed(text: str) -> dict[str, dict[tuple[str, ...], float]]:
    """Samples by name, and by the values of their labels in the order of the labels' names."""
    found: dict[str, dict[tuple[str, ...], float]] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            labels = tuple(value for _, value in sorted(sample.labels.items()))
            found.setdefault(sample.name, {})[labels] = sample.value
    return found


def get(port: int, path: str) -> tuple[int, str, str]:
    """The status, the type and the text of an answer."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    connection.request("GET", path)
    answer = connection.getresponse()
    text = answer.read().decode()
    connection.close()
    return answer.status, answer.getheader("Content-Type", ""), text


def test_once_prints_what_prometheus_can_parse(tenure: Tenure, url: str) -> None:
    with App(url) as app:
        app.remote("send", queue="mail").enqueue()

    said = tenure("metrics", "--once", "--target", "5")

    assert said.exit_code == 0
    assert parsed(said.stdout)["tenure_queue_jobs"]["mail", "in_line"] == 1
    assert parsed(said.stdout)["tenure_queue_slots_wanted"] == {("mail",): 1}
    assert said.stderr == ""


def test_a_store_that_nothing_has_used_yet_has_metrics(tenure: Tenure) -> None:
    """An exporter may be the first that a deployment starts."""
    said = tenure("metrics", "--once")

    assert said.exit_code == 0
    assert parsed(said.stdout)["tenure_store_up"] == {(): 1}


def test_a_store_that_is_down_is_said_by_the_exit_code(tenure: Tenure) -> None:
    said = tenure("metrics", "--once", "--url", f"redis://127.0.0.1:{free_port()}/0?connect_timeout=1")

    assert said.exit_code == 1
    assert parsed(said.stdout) == {"tenure_store_up": {(): 0}}


@pytest.mark.parametrize(("option", "file"), [("--rules", "alerts.yml"), ("--grafana", "grafana.json")])
def test_rules_and_dashboard_are_printed_as_they_are_shipped(tenure: Tenure, option: str, file: str) -> None:
    said = tenure("metrics", option)

    assert said.exit_code == 0
    assert said.stdout == files("tenure.observe").joinpath(file).read_text()


def test_two_things_to_print_are_refused(tenure: Tenure) -> None:
    said = tenure("metrics", "--once", "--rules")

    assert (said.exit_code, said.stderr) == (2, "tenure: give only one of --once, --rules and --grafana\n")


def test_a_port_that_another_program_uses_is_one_sentence(tenure: Tenure) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        said = tenure("metrics", "--port", str(port))

    assert said.exit_code == 2
    assert said.stderr == (
        f"tenure: --port {port} on 127.0.0.1 cannot be used: {os.strerror(errno.EADDRINUSE)}; choose another\n"
    )


@pytest.mark.parametrize("option", ["--once", "--port=0"])
def test_without_the_package_one_sentence_says_what_to_install(
    tenure: Tenure, option: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "prometheus_client", None)
    monkeypatch.delitem(sys.modules, "tenure.observe.prometheus")

    said = tenure("metrics", option)

    assert said.exit_code == 2
    assert said.stderr == (
        'tenure: metrics for Prometheus need a package that is not installed: pip install "tenure[prometheus]"\n'
    )
    assert tenure("metrics", "--rules").exit_code == 0


@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGINT])
def test_it_serves_until_a_signal(processes: Processes, url: str, signum: signal.Signals) -> None:
    with App(url) as app:
        app.enqueue(*[app.remote("send", queue="mail").bind() for _ in range(120)])
    port = free_port()
    exporter = processes.run(
        sys.executable, "-m", "tenure", "metrics", "--url", url, "--port", str(port), "--target", "30"
    )
    eventually(lambda: "are at" in exporter.log.read_text(), "the exporter")

    status, kind, text = get(port, "/metrics")
    assert (status, kind) == (200, "text/plain; version=0.0.4; charset=utf-8")
    assert parsed(text)["tenure_queue_slots_wanted"]["mail",] == 4
    status, kind, text = get(port, "/scale?queue=mail&target=10")
    found: dict[str, Any] = json.loads(text)
    assert (status, kind, found["slots"], found["in_line"]) == (200, "application/json", 12, 120)
    assert get(port, "/scale")[0] == 400
    assert get(port, "/")[0] == 200
    assert get(port, "/x")[0] == 404
    exporter.send(signum)
    assert exporter.wait() == 0
    assert (
        exporter.log.read_text()
        == f"tenure: the metrics of {url} are at http://127.0.0.1:{port}/metrics, Ctrl-C stops it\n"
    )


def test_counters_never_fall_while_workers_are_killed_restarted_and_pruned(
    processes: Processes, tmp_path: Path, url: str
) -> None:
    service = Service(url, processes, tmp_path)
    collector, before = Collector(service.app, cache=0), dict[tuple[str, tuple[str, ...]], float]()

    def look() -> float:
        """Compare all counters and histograms with the last look; how many jobs have succeeded."""
        now = {
            (name, labels): value
            for name, samples in parsed(collector.exposition().decode()).items()
            if name.endswith(("_total", "_bucket", "_count", "_sum"))
            for labels, value in samples.items()
        }
        assert before.keys() - now.keys() == set()
        assert {key: (value, now[key]) for key, value in before.items() if now[key] < value} == {}
        before.update(now)
        return now.get(("tenure_jobs_finished_total", ("succeeded", "default")), 0)

    def kill_one() -> None:
        """Kill a worker among its jobs, and delete the jobs that have ended."""
        done, victim = look(), service.workers(2)[0]
        service.enqueue("nap", 0.02, number=40)
        eventually(lambda: look() > done, "the first of them")
        os.kill(victim.pid, signal.SIGKILL)
        eventually(lambda: victim.id not in {worker.id for worker in service.workers(2)}, "another worker")
        look()
        assert service.app.delete(state="succeeded", queue="default")
        look()

    supervisor = service.start("-p", "2")
    kill_one()
    kill_one()
    supervisor.send(signal.SIGTERM)
    supervisor.wait()
    look()
    supervisor = service.start("-p", "2")
    kill_one()
    eventually(lambda: not service.app.jobs(state="waiting") and not service.app.jobs(state="running"), "the end")
    supervisor.send(signal.SIGTERM)
    supervisor.wait()
    look()
    service.app.close()
    counted = before["tenure_task_attempts_total", ("succeeded", "default", "nap")]
    assert 0 < counted <= before["tenure_jobs_finished_total", ("succeeded", "default")]
