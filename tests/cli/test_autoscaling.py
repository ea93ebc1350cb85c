"""The manifests of docs/prometheus.md, applied by a small imitation of KEDA and of the HorizontalPodAutoscaler."""

from __future__ import annotations

import json
import math
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tenure import App
from tests.documentation import ROOT, Block, blocks
from tests.faults.processes import Processes, eventually

from .conftest import free_port
from .test_metrics import get

MANIFESTS = [block for block in blocks(ROOT / "docs/prometheus.md") if block.code.startswith("apiVersion:")]

TOLERANCE = 0.1
"""Share by which the metric may miss its target before the HorizontalPodAutoscaler acts: its documented default."""


class Autoscaler:
    """What a cluster does with a manifest: read the metric from the exporter, and choose a number of replicas."""

    def __init__(self, manifest: str, port: int) -> None:
        self._port = port
        # By key, wherever it stands; the last of several counts, which of `name` is the metric.
        self._settings = dict(re.findall(r'^[ -]*(\w+): "?(.+?)"?$', manifest, re.MULTILINE))
        self._keda = "kind: ScaledObject" in manifest

    def number(self, *names: str) -> int:
        """The first of these settings that the manifest has."""
        return next(int(self._settings[name]) for name in names if name in self._settings)

    def metric(self) -> float:
        """The value that the trigger asks the exporter for."""
        if "url" in self._settings:  # metrics-api: a value in a JSON document
            [path] = re.findall(r"http://[^/]+(/.+)", self._settings["url"])
            status, _, text = get(self._port, path)
            assert status == 200
            return float(json.loads(text)[self._settings["valueLocation"]])
        if "query" in self._settings:
            [(name, queue)] = re.findall(r'max\((\w+)\{queue="(\w+)"\}\)', self._settings["query"])
        else:
            name, queue = self._settings["name"], self._settings["queue"]
        samples = [
            sample.value
            for family in text_string_to_metric_families(get(self._port, "/metrics")[2])
            for sample in family.samples
            if sample.name == name and sample.labels == {"queue": queue}
        ]
        return max(samples, default=0.0)

    def replicas(self, now: int) -> int:
        """The replicas that a deployment of `now` replicas should have."""
        value, target = self.metric(), self.number("targetValue", "threshold", "averageValue")
        least, most = self.number("minReplicaCount", "minReplicas"), self.number("maxReplicaCount", "maxReplicas")
        if self._keda and (now == 0 or value == 0):
            # KEDA itself scales from and to zero: a trigger is active if its value is above 0.
            return max(least, 1) if value > 0 else least
        if abs(value / (target * now) - 1) <= TOLERANCE:
            return now
        return min(max(math.ceil(value / target), least, 1), most)


@pytest.fixture
def processes(tmp_path: Path) -> Iterator[Processes]:
    processes = Processes(tmp_path)
    yield processes
    processes.end()


@pytest.mark.parametrize(
    ("due", "now", "replicas"),
    [
        (0, 0, 0),
        (1, 0, 1),  # from zero
        (1, 1, 1),
        (0, 3, 0),
        (1_260, 1, 1),  # 21 slots, which is within the tolerance
        (3_000, 1, 3),
        (3_000, 5, 3),
        (30_000, 1, 20),  # not more than the manifest allows
    ],
)
def test_a_deployment_follows_its_queue(processes: Processes, url: str, due: int, now: int, replicas: int) -> None:
    with App(url) as app:
        send = app.remote("send", queue="mail")  # its run time is not known, so it counts as a second
        send.using(delay=3600).enqueue()
        send.enqueue_many([()] * due)
    port = free_port()
    exporter = processes.run(sys.executable, "-m", "tenure", "metrics", "--url", url, "--port", str(port))
    eventually(lambda: "are at" in exporter.log.read_text(), "the exporter")

    for manifest in MANIFESTS:
        autoscaler = Autoscaler(manifest.code, port)
        least = autoscaler.number("minReplicaCount", "minReplicas")
        assert autoscaler.replicas(max(now, least)) == max(replicas, least), manifest


def test_the_page_has_a_manifest_for_each_way_to_scale() -> None:
    def kind(manifest: Block) -> list[str]:
        return re.findall(r"^(?:kind| +- type): (.+)$", manifest.code, re.MULTILINE)

    assert [kind(manifest) for manifest in MANIFESTS] == [
        ["ScaledObject", "metrics-api"],
        ["ScaledObject", "prometheus"],
        ["HorizontalPodAutoscaler", "External"],
    ]
