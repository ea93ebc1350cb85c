"""Measure Tenure on the embedded store, each figure beside the bare engine in the same run.

    make bench                         everything, about ten minutes
    python bench/run.py drain latency  some of it
    python bench/run.py --quick        shorter runs, for a first look

Machines are noisy: compare within one run. Every pair is measured in turns, and the median of the turns is shown.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import bare
from nothing import overhead
from rich.console import Console
from rich.table import Table

from tenure import App

HERE = Path(__file__).parent
TURNS = 3

console = Console()


class Report:
    """The figures so far, printed as they come and kept for the end."""

    def __init__(self) -> None:
        self.rows: list[dict[str, Any]] = []

    def add(self, what: str, tenure: str, bare_engine: str = "", ratio: float | None = None, bar: str = "") -> None:
        row = {"what": what, "tenure": tenure, "bare": bare_engine, "ratio": ratio, "bar": bar}
        self.rows.append(row)
        shown = "" if ratio is None else f"  {ratio:.0%} of bare"
        console.print(f"[bold]{what}[/]  {tenure}  [dim]{bare_engine}[/]{shown}  [dim]{bar}[/]")

    def show(self) -> None:
        table = Table("figure", "tenure", "bare engine", "share", "bar", title="Tenure on SQLite")
        for row in self.rows:
            share = "" if row["ratio"] is None else f"{row['ratio']:.0%}"
            table.add_row(row["what"], row["tenure"], row["bare"], share, row["bar"])
        console.print(table)


class Bench:
    """One run: its folder, its lengths, its report."""

    def __init__(self, folder: Path, quick: bool) -> None:
        self.folder = folder
        self.quick = quick
        self.report = Report()
        self._files = 0

    def of(self, quick: int, full: int) -> int:
        return quick if self.quick else full

    def fresh(self) -> str:
        self._files += 1
        return f"sqlite:///{self.folder}/tenure-{self._files}.db"

    @contextmanager
    def child(self, url: str, *arguments: str) -> Iterator[subprocess.Popen[str]]:
        process = subprocess.Popen(
            [sys.executable, str(HERE / "child.py"), *arguments],
            env=os.environ | {"TENURE_URL": url},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert process.stdout is not None
        assert process.stdout.readline().strip() == "ready"
        try:
            yield process
        finally:
            process.kill()
            process.wait()

    def turns(self, ours: Callable[[], float], theirs: Callable[[], float]) -> tuple[float, float]:
        """Run both in turns; the median of each."""
        pairs = [(ours(), theirs()) for _ in range(self.of(1, TURNS))]
        return statistics.median(pair[0] for pair in pairs), statistics.median(pair[1] for pair in pairs)

    def overhead(self) -> None:
        number = self.of(20_000, 100_000)
        spent = statistics.median(asyncio.run(overhead(number, 100)) for _ in range(self.of(1, TURNS)))
        self.report.add("a worker's own time, each job", f"{spent * 1e6:.1f} µs", bar="< 25 µs")

    # Enqueueing.

    def enqueue(self) -> None:
        number = self.of(300, 2000)
        bulk = self.of(20_000, 100_000)
        blocking, raw = self.turns(
            lambda: self._enqueue_blocking(number), lambda: bare.enqueue_one_by_one(self.folder, number)
        )
        self.report.add("enqueue one by one, blocking", rate(blocking), rate(raw), blocking / raw)
        awaited, raw = self.turns(
            lambda: asyncio.run(self._aenqueue(number)), lambda: bare.enqueue_one_by_one(self.folder, number)
        )
        self.report.add("enqueue one by one, async", rate(awaited), rate(raw), awaited / raw, "≥ 60 %")
        together = statistics.median(asyncio.run(self._aenqueue_together(number * 5)) for _ in range(self.of(1, TURNS)))
        self.report.add("100 concurrent aenqueue", rate(together), bar=f"{together / awaited:.1f}× one by one, ≥ 8×")
        many, raw = self.turns(lambda: self._enqueue_many(bulk), lambda: bare.enqueue_bulk(self.folder, bulk))
        self.report.add("bulk enqueue, 1,000 a call", rate(many), rate(raw), many / raw, "≥ 30 %")

    def _enqueue_blocking(self, number: int) -> float:
        with App(self.fresh()) as app:
            task = app.task(noop)
            task.enqueue()
            begun = time.perf_counter()
            for _ in range(number):
                task.enqueue()
            return number / (time.perf_counter() - begun)

    async def _aenqueue(self, number: int) -> float:
        async with App(self.fresh()) as app:
            task = app.task(noop)
            await task.aenqueue()
            begun = time.perf_counter()
            for _ in range(number):
                await task.aenqueue()
            return number / (time.perf_counter() - begun)

    async def _aenqueue_together(self, number: int) -> float:
        async with App(self.fresh()) as app:
            task = app.task(noop)
            await task.aenqueue()

            async def producer() -> None:
                for _ in range(number // 100):
                    await task.aenqueue()

            begun = time.perf_counter()
            await asyncio.gather(*[producer() for _ in range(100)])
            return number / (time.perf_counter() - begun)

    def _enqueue_many(self, number: int, url: str | None = None, task: str = "noop") -> float:
        with App(url or self.fresh()) as app:
            noop = app.remote(task)
            begun = time.perf_counter()
            for _ in range(number // 1000):
                noop.enqueue_many([()] * 1000)
            return number / (time.perf_counter() - begun)

    # Draining.

    def drain(self) -> None:
        number = self.of(20_000, 200_000)
        rates: dict[str, float] = {}
        ours, raw = self.turns(
            lambda: self._drain(number, "noop", 100)[0], lambda: bare.drain(self.folder, number, batch=64)
        )
        rates["one"] = ours
        self.report.add(
            "drain, async no-op, concurrency 100", rate(ours), f"{rate(raw)} (batch 64)", ours / raw, "≥ 35 %"
        )
        two = statistics.median(self._drain(number, "noop", 100, processes=2)[0] for _ in range(self.of(1, TURNS)))
        self.report.add("drain, two processes", rate(two), bar=f"{two / ours:.2f}× one, ≥ 1.0×")
        threaded = statistics.median(
            self._drain(number // 4, "noop_in_thread", 100)[0] for _ in range(self.of(1, TURNS))
        )
        self.report.add("drain, threaded no-op, concurrency 100", rate(threaded))
        single = statistics.median(self._drain(number // 4, "noop", 1)[0] for _ in range(self.of(1, TURNS)))
        self.report.add("drain, async no-op, concurrency 1", rate(single))

    def _drain(self, number: int, task: str, concurrency: int, processes: int = 1) -> tuple[float, float]:
        """Jobs per second from the first run to the last, and processor time per job."""
        url = self.fresh()
        self._enqueue_many(number, url, task)
        found = self._work(url, ["drain", str(concurrency)], processes)
        assert sum(each["jobs"] for each in found) == number, "some job was lost, or ran twice"
        span = max(each["last"] for each in found) - min(each["first"] for each in found)
        return number / span, sum(each["cpu"] for each in found) / number

    def _work(self, url: str, arguments: list[str], processes: int = 1) -> list[dict[str, Any]]:
        with ExitStack() as stack:
            children = [stack.enter_context(self.child(url, *arguments)) for _ in range(processes)]
            for child in children:
                go(child)
            return [answer(child) for child in children]

    # Depth.

    def depth(self) -> None:
        shallow, deep = 10_000, self.of(100_000, 1_000_000)
        few = statistics.median(self._drain(shallow, "noop", 100)[0] for _ in range(self.of(1, 5)))
        url = self.fresh()
        self._enqueue_many(deep, url)
        self._listing(url, deep)
        [found] = self._work(url, ["drain", "100", str(shallow * 5)])
        many = found["jobs"] / (found["last"] - found["first"])
        self.report.add(
            f"drain at {deep:,} waiting",
            rate(many),
            f"{rate(few)} at {shallow:,}",
            bar=f"{many / few:.2f}×, within 25 %",
        )

    def _listing(self, url: str, deep: int) -> None:
        with App(url) as app:
            app.queues()
            listings: dict[str, Callable[[], object]] = {
                "counts": app.queues,
                "all jobs": app.jobs,
                "waiting jobs": lambda: app.jobs(state="waiting"),
                "of a task": lambda: app.jobs(task="noop"),
                "failed": lambda: app.jobs(state="failed"),
                "by a tag that none has": lambda: app.jobs(tag="nobody"),
            }
            for name, call in listings.items():
                spent = []
                for _ in range(5):
                    begun = time.perf_counter()
                    call()
                    spent.append(time.perf_counter() - begun)
                self.report.add(f"{name}, {deep:,} waiting", f"{statistics.median(spent) * 1000:.1f} ms", bar="< 50 ms")

    # Latency and idling.

    def latency(self) -> None:
        number = self.of(50, 300)
        ours, floor = [], []
        for _ in range(self.of(1, TURNS)):
            ours += self._latency(number)
            floor += self._floor(number)
        (p50, p99), (f50, f99) = percentiles(ours), percentiles(floor)
        self.report.add(
            "latency to an idle worker, p50",
            f"{p50 * 1000:.2f} ms",
            f"{f50 * 1000:.2f} ms",
            bar=f"{p50 / f50:.2f}× ≤ 1.5×",
        )
        self.report.add(
            "latency to an idle worker, p99",
            f"{p99 * 1000:.2f} ms",
            f"{f99 * 1000:.2f} ms",
            bar=f"{p99 / f99:.2f}× ≤ 3×",
        )

    def _latency(self, number: int) -> list[float]:
        """Seconds from the call of enqueue to the first line of the function, in another process."""
        url = self.fresh()
        with App(url) as app:
            stamp = app.remote("stamp")
            stamp.enqueue()
            with self.child(url, "serve"):
                sent = []
                for _ in range(number):
                    begun = time.monotonic()
                    sent.append((begun, stamp.enqueue()))
                    time.sleep(0.01)
                # Asked for at the end: to wait for a result writes to the file too.
                return [float(job.result(timeout=10)) - begun for begun, job in sent]

    def _floor(self, number: int) -> list[float]:
        connection = bare.connect(self.folder, synchronous="FULL")
        self._files += 1
        bell = f"{self.folder}/bell-{self._files}"
        process = subprocess.Popen(
            [sys.executable, str(HERE / "floor.py"), connection.filename, bell], stdout=subprocess.PIPE, text=True
        )
        assert process.stdout is not None
        process.stdout.readline()
        sender = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        spent = []
        for index in range(number):
            begun = time.monotonic()
            connection.execute(bare.INSERT, (f"job-{index}", index))
            sender.sendto(b"work", bell)
            spent.append(float(process.stdout.readline()) - begun)
            time.sleep(0.01)
        process.kill()
        process.wait()
        return spent

    def idle(self) -> None:
        url = self.fresh()
        with self.child(url, "serve") as child:
            time.sleep(self.of(5, 60))
            go(child)
            used = answer(child)
        self.report.add("idle worker, share of a core", f"{used['cpu']:.2%}", bar="≤ 0.5 %")
        self.report.add("idle worker, memory", f"{used['rss'] / 1e6:.0f} MB", bar="≤ 40 MB")


def go(child: subprocess.Popen[str]) -> None:
    """Let a child begin, or end."""
    assert child.stdin is not None
    child.stdin.write("go\n")
    child.stdin.flush()


def answer(child: subprocess.Popen[str]) -> dict[str, Any]:
    """What a child has measured."""
    assert child.stdout is not None
    figures: dict[str, Any] = json.loads(child.stdout.readline())
    return figures


async def noop() -> None:
    """Nothing."""


def rate(value: float) -> str:
    return f"{value:,.0f}/s"


def percentiles(values: list[float]) -> tuple[float, float]:
    ordered = sorted(values)
    return ordered[len(ordered) // 2], ordered[int(len(ordered) * 0.99)]


CASES = ("overhead", "enqueue", "drain", "latency", "idle", "depth")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", nargs="*", metavar="case", help=f"which of {', '.join(CASES)}; all if none is named")
    parser.add_argument("--quick", action="store_true", help="shorter runs")
    parser.add_argument("--json", action="store_true", help="print the figures as JSON at the end")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="tenure-bench-") as folder:
        bench = Bench(Path(folder), arguments.quick)
        for case in arguments.cases or CASES:
            getattr(bench, case)()
    if arguments.json:
        print(json.dumps(bench.report.rows, indent=2))
    else:
        bench.report.show()


if __name__ == "__main__":
    main()
