"""Bench: measures Tenure, each figure beside the bare engine of the same store in the same run.

    make bench                                 everything on every store, about an hour
    python bench/run.py redis drain latency    some of it
    python bench/run.py --quick                shorter runs, for a first look

Machines are noisy: compare only within one run. Both sides use uvloop, as the extra `fast` does. Every pair is measured in
turns, and the median of the turns is shown.
"""

from __future__ import annotations

import argparse
import asyncio
import functools
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent))  # for the servers of the tests

import uvloop  # noqa: E402
from bare_postgres import Postgres  # noqa: E402
from bare_redis import Redis  # noqa: E402
from bare_sqlite import Sqlite  # noqa: E402
from browsing import PAGES, Browser, dashboard_of  # noqa: E402
from comparisons import COMPARISONS, Comparison  # noqa: E402
from engine import Engine  # noqa: E402
from listings import fail, fill, listings, remember  # noqa: E402
from nothing import overhead  # noqa: E402
from report import Report, milliseconds, percentiles, rate, share  # noqa: E402
from scheduled import created, crowd, lateness, wait_for_last  # noqa: E402

from tenure import App, Every  # noqa: E402

TURNS = 5


class Bench:
    """The measurements on one store."""

    def __init__(self, engine: Engine, quick: bool) -> None:
        self.engine = engine
        self.quick = quick
        self.report = Report(engine)

    def of(self, quick: int, full: int) -> int:
        return quick if self.quick else full

    @contextmanager
    def child(self, url: str, *arguments: str, program: str = "child") -> Iterator[subprocess.Popen[str]]:
        process = subprocess.Popen(
            [sys.executable, str(HERE / f"{program}.py"), *arguments],
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
        """Run both in turns; returns the median of each."""
        pairs = [(ours(), theirs()) for _ in range(self.of(1, TURNS))]
        return statistics.median(pair[0] for pair in pairs), statistics.median(pair[1] for pair in pairs)

    def median(self, measure: Callable[[], float]) -> float:
        return statistics.median(measure() for _ in range(self.of(1, TURNS)))

    def overhead(self) -> None:
        number = self.of(20_000, 100_000)
        spent = self.median(lambda: uvloop.run(overhead(number, 100)))
        self.report.add("a worker's time for each job, no store", f"{spent * 1e6:.1f} µs", bar="< 25 µs")

    # Enqueueing.

    def enqueue(self) -> None:
        number = self.of(300, 2000)
        bulk = self.of(20_000, 100_000)
        blocking, raw = self.turns(lambda: self._enqueue_blocking(number), lambda: self.engine.enqueue(number))
        self.report.add("enqueue one by one, blocking", rate(blocking), rate(raw), share(blocking, raw))
        awaited, raw = self.turns(
            lambda: uvloop.run(self._aenqueue(number)), lambda: uvloop.run(self.engine.aenqueue(number))
        )
        self.report.add("enqueue one by one, async", rate(awaited), rate(raw), share(awaited, raw), "aenqueue")
        together = self.median(lambda: uvloop.run(self._aenqueue_together(number * 5)))
        self.report.add(
            "100 concurrent aenqueue", rate(together), found=f"{together / awaited:.1f}× one by one", bar="together"
        )
        many, raw = self.turns(lambda: self._enqueue_many(bulk), lambda: self.engine.enqueue_bulk(bulk))
        self.report.add("bulk enqueue, 1,000 a call", rate(many), rate(raw), share(many, raw), "bulk")

    def _enqueue_blocking(self, number: int) -> float:
        with App(self.engine.fresh()) as app:
            task = app.task(noop)
            task.enqueue()
            begun = time.perf_counter()
            for _ in range(number):
                task.enqueue()
            return number / (time.perf_counter() - begun)

    async def _aenqueue(self, number: int) -> float:
        async with App(self.engine.fresh()) as app:
            task = app.task(noop)
            await task.aenqueue()
            begun = time.perf_counter()
            for _ in range(number):
                await task.aenqueue()
            return number / (time.perf_counter() - begun)

    async def _aenqueue_together(self, number: int) -> float:
        async with App(self.engine.fresh()) as app:
            task = app.task(noop)
            await task.aenqueue()

            async def producer() -> None:
                for _ in range(number // 100):
                    await task.aenqueue()

            begun = time.perf_counter()
            await asyncio.gather(*[producer() for _ in range(100)])
            return number / (time.perf_counter() - begun)

    def _enqueue_many(self, number: int, url: str | None = None, task: str = "noop", *arguments: str) -> float:
        with App(url or self.engine.fresh()) as app:
            noop = app.remote(task)
            app.queues()  # the layout is made, as the tables of the others are
            begun = time.perf_counter()
            for begin in range(0, number, 1000):
                noop.enqueue_many([arguments] * min(1000, number - begin))
            return number / (time.perf_counter() - begun)

    def transactional(self) -> None:
        """What an enqueue adds to a transaction of the caller."""
        found = uvloop.run(self._orders(self.of(300, 1000)))
        if not found:
            return
        alone, both = (statistics.median(turn[at][0] for turn in found) for at in (0, 1))
        trips = found[0][1][1] - found[0][0][1]
        self.report.add("a caller's transaction that inserts a row", milliseconds(both), milliseconds(alone))
        self.report.add("  enqueue in it, in round trips", f"{trips:.1f}", bar="≤ 1")

    async def _orders(self, number: int) -> list[tuple[tuple[float, float], tuple[float, float]]]:
        """Seconds and round trips of a transaction, without an enqueue and with one, in turns."""
        found = []
        async with App(self.engine.fresh()) as app:
            task = app.task(noop)
            for _ in range(self.of(1, TURNS)):
                alone = await self.engine.orders(number)
                if alone is None:
                    break
                both = await self.engine.orders(number, lambda connection: task.using(connection=connection).aenqueue())
                assert both is not None
                found.append((alone, both))
        return found

    # Draining.

    def drain(self) -> None:
        number = self.of(20_000, 200_000)
        busy: list[str] = []
        one, raw = self.turns(lambda: self._drain(number, "noop", 100, busy=busy), lambda: self.engine.drain(number))
        self.report.add("drain, async no-op, concurrency 100", rate(one), rate(raw), share(one, raw), "drain")
        self.report.add("  busy, worker + server", busy[-1])
        two = self.median(lambda: self._drain(number, "noop", 100, processes=2, busy=busy))
        self.report.add("drain, two processes", rate(two), found=f"{two / one:.2f}× one", bar="two")
        self.report.add("  busy, both workers + server", busy[-1])
        threaded = self.median(lambda: self._drain(number // 4, "noop_in_thread", 100))
        self.report.add("drain, threaded no-op, concurrency 100", rate(threaded))
        single = self.median(lambda: self._drain(number // 4, "noop", 1))
        self.report.add("drain, async no-op, concurrency 1", rate(single))

    def _drain(
        self, number: int, task: str, concurrency: int, processes: int = 1, busy: list[str] | None = None
    ) -> float:
        """Jobs per second between the first and the last job; also records the load of workers and server, in cores."""
        url = self.engine.fresh()
        self._enqueue_many(number, url, task)
        cpu = self.engine.cpu()
        program = "isolated" if task == "noop_isolated" else "child"
        found = self._work(url, ["drain", str(concurrency)], processes, program)
        cpu = self.engine.cpu() - cpu
        ran = sum(each["jobs"] for each in found)
        assert ran == number, f"some job was lost, or ran twice: {ran:,} ran, of {number:,}"
        span = max(each["last"] for each in found) - min(each["first"] for each in found)
        if busy is not None:
            workers = " + ".join(f"{each['cpu'] / span:.0%}" for each in found)
            busy.append(f"{workers} + {cpu / span:.0%} of a core")
        return float(number / span)

    def _work(self, url: str, arguments: list[str], processes: int = 1, program: str = "child") -> list[dict[str, Any]]:
        with ExitStack() as stack:
            children = [stack.enter_context(self.child(url, *arguments, program=program)) for _ in range(processes)]
            for child in children:
                go(child)
            return [answer(child) for child in children]

    # Events.

    def events(self) -> None:
        """Drain with a log or a listener that gets the events of every job, beside draining without either, in turns."""
        number = self.of(20_000, 200_000)
        whom = ("none", "log", "listener")
        turns = [[self._drain_told(number, to) for to in whom] for _ in range(self.of(3, TURNS))]
        without, *others = (statistics.median(column) for column in zip(*turns, strict=True))
        for to, found, bar in zip(whom[1:], others, ("≥ 85 %", ""), strict=True):
            what = f"drain, every job sent to a {to}"
            self.report.add(what, rate(found), f"{rate(without)} without events", share(found, without), bar)
        times = [(uvloop.run(overhead(number, 100, bare=bare))) for _ in range(TURNS) for bare in (True, False)]
        bare, observed = statistics.median(times[::2]), statistics.median(times[1::2])
        self.report.add(
            "a worker's time for each job, without events",
            f"{observed * 1e6:.2f} µs",
            f"{bare * 1e6:.2f} µs unobserved",
            f"{(observed - bare) * 1e6:+.2f} µs",
            "≤ 1 µs",
        )

    def _drain_told(self, number: int, to: str) -> float:
        with tempfile.TemporaryDirectory(prefix="tenure-bench-") as folder:
            os.environ |= {"BENCH_EVENTS": to, "BENCH_LOG": f"{folder}/jobs.log"}
            try:
                found = self._drain(number, "noop", 100)
                if to == "log":
                    lines = Path(folder, "jobs.log").read_text(encoding="utf-8").count(" succeeded")
                    assert lines == number, f"{lines:,} lines for {number:,} jobs"
                return found
            finally:
                del os.environ["BENCH_EVENTS"], os.environ["BENCH_LOG"]

    # History.

    def history(self) -> None:
        """Drain with a history and without one, in turns."""
        number = self.of(100_000, 200_000)
        with_it, without = self.turns(
            lambda: self._drain_history(number, "1"), lambda: self._drain_history(number, "0")
        )
        self.report.add(
            "drain, history written", rate(with_it), f"{rate(without)} without", f"{with_it / without:.1%}", "≥ 98 %"
        )

    def _drain_history(self, number: int, wanted: str) -> float:
        os.environ["BENCH_HISTORY"] = wanted
        try:
            return self._drain(number, "noop", 100)
        finally:
            del os.environ["BENCH_HISTORY"]

    # A process for each job.

    def isolated(self) -> None:
        """Isolated jobs beside a bare loop that forks and waits, in a process with the same libraries loaded."""
        number = self.of(200, 2000)
        for concurrency in (1, 2, 4):
            ours, bare = self.turns(
                functools.partial(self._drain, number, "noop_isolated", concurrency), lambda: self._forks(number)
            )
            self.report.add(
                f"drain, isolated no-op, concurrency {concurrency}",
                rate(ours), f"{rate(bare)} bare forks", f"{bare / ours:.2f}×", "≤ 1.3×" if concurrency == 2 else "",
            )  # fmt: skip

    def _forks(self, number: int) -> float:
        command = [sys.executable, str(HERE / "isolated.py"), "bare", str(number)]
        environment = os.environ | {"TENURE_URL": self.engine.fresh()}
        return float(subprocess.run(command, env=environment, stdout=subprocess.PIPE, check=True).stdout)

    # Flows.

    def flows(self) -> None:
        """Runs of flows beside as many plain jobs as the runs have steps, enqueued and drained."""
        number = self.of(2000, 20_000)
        for what, kind, bar in (("of nothing", "five", "≤ 1.3×"), ("that read and write", "rich", "")):
            ours, plain = self.turns(
                functools.partial(self._flow, kind, number), functools.partial(self._flow, "jobs", number * 5)
            )
            self.report.add(
                f"{number:,} runs of five steps {what}",
                f"{ours:.2f} s", f"{plain:.2f} s for {number * 5:,} jobs", f"{ours / plain:.2f}×", bar,
            )  # fmt: skip
        number = self.of(5, 50)
        ours, plain = self.turns(
            functools.partial(self._flow, "join", number), functools.partial(self._flow, "jobs", number * 1000)
        )
        self.report.add(
            f"{number} joins of 1,000 children",
            f"{ours:.2f} s", f"{plain:.2f} s for {number * 1000:,} jobs", f"{ours / plain:.2f}×", "≤ 1.5×",
        )  # fmt: skip

    def _flow(self, kind: str, number: int) -> float:
        command = [sys.executable, str(HERE / "flows.py"), kind, str(number)]
        environment = os.environ | {"TENURE_URL": self.engine.fresh()}
        return float(subprocess.run(command, env=environment, stdout=subprocess.PIPE, check=True).stdout)

    # Beside other queues.

    def peers(self) -> None:
        """Tenure beside the fastest of other queues, each with its best settings, in turns."""
        for comparison in COMPARISONS[self.engine.fresh().partition(":")[0].removesuffix("ql")]:
            for peer in [peer for peer in comparison.peers if not peer.installed]:
                self.report.say(f"{peer.name} is not installed, and left out: make bench installs it")
            peers = [peer for peer in comparison.peers if peer.installed]
            if not peers:
                continue
            turns = [
                (self._ours(comparison), *(peer.measure(self.engine.fresh(), self.quick) for peer in peers))
                for _ in range(self.of(1, TURNS))
            ]
            ours, *theirs = (statistics.median(column) for column in zip(*turns, strict=True))
            best, shown = (min(theirs), milliseconds) if comparison.is_time else (max(theirs), rate)
            self.report.add(
                f"{comparison.what}, to peers",
                shown(ours),
                ", ".join(f"{peer} {shown(found)}" for peer, found in zip(peers, theirs, strict=True)),
                f"{ours / best:.1f}×",
                comparison.bar,
            )

    def _ours(self, comparison: Comparison) -> float:
        match comparison.ours.split():
            case ["drain", task, concurrency, number]:
                return self._drain(self.of(int(number) // 10, int(number)), task, int(concurrency))
            case ["enqueue", number]:
                return self._enqueue_blocking(self.of(int(number) // 10, int(number)))
            case ["bulk", number]:
                return self._enqueue_many(self.of(int(number) // 10, int(number)))
            case ["latency", number]:
                return percentiles(self._latency(self.of(int(number) // 4, int(number))))[0]
        raise ValueError(comparison.ours)

    # Depth and size.

    def depth(self) -> None:
        shallow, deep = 10_000, self.of(100_000, 1_000_000)
        few = self.median(lambda: self._drain(shallow, "noop", 100))
        small = self._listing(shallow)
        url = self.engine.fresh()
        self._enqueue_many(deep, url)
        self._listings(url, deep, small, shallow)
        [found] = self._work(url, ["drain", "100", str(shallow * 5)])
        many = found["jobs"] / (found["last"] - found["first"])
        self.report.add(
            f"drain at {deep:,} waiting", rate(many), f"{rate(few)} at {shallow:,}", f"{many / few:.2f}×", "within 25 %"
        )

    def _listings(self, url: str, deep: int, small: dict[str, float], shallow: int) -> None:
        """Each listing on a full store beside the same on a store with few jobs."""
        for name, spent in self._listing_times(url).items():
            beside = f"{small[name] * 1000:.1f} ms at {shallow:,}"
            figure = f"{name}, {deep:,} waiting", f"{spent * 1000:.1f} ms", beside, f"{spent / small[name]:.2f}×"
            self.report.add(*figure, "< 50 ms, < 2×")

    def _listing(self, number: int) -> dict[str, float]:
        """Seconds that each listing takes on a new store with this number of jobs."""
        url = self.engine.fresh()
        self._enqueue_many(number, url)
        return self._listing_times(url)

    def _listing_times(self, url: str) -> dict[str, float]:
        """Seconds that each listing takes, by name; the median of seven."""
        asyncio.run(fail(url, 5000))
        asyncio.run(remember(url, 100))
        found = {}
        with App(url) as app:
            app.queues()
            for name, call in listings(app).items():
                spent = []
                for _ in range(7):
                    begun = time.perf_counter()
                    call()
                    spent.append(time.perf_counter() - begun)
                found[name] = statistics.median(spent)
        return found

    # The dashboard.

    def dashboard(self) -> None:
        """Pages on a full store beside a small one, and what open pages cost a drain."""
        shallow, deep = 1000, self.of(100_000, 1_000_000)
        pages = []
        for number in (shallow, deep):
            url = self.engine.fresh()
            self._enqueue_many(number * 2 if number == shallow else number, url)
            asyncio.run(fail(url, 1000))
            asyncio.run(remember(url, 20))
            with dashboard_of(url) as browser:
                pages.append({path: self._page_time(browser, path) for path in PAGES})
                if number == deep:
                    self._weigh(browser)
        for path in PAGES:
            few, many = (each[path] for each in pages)
            beside = f"{few * 1000:.1f} ms at {shallow:,}"
            self.report.add(
                f"page {path}, {deep:,} jobs", f"{many * 1000:.1f} ms", beside, f"{many / few:.2f}×", "≤ 2×"
            )
        watched, alone = self.turns(lambda: self._drain_watched(10), lambda: self._drain_watched(0))
        self.report.add(
            "drain, ten pages open", rate(watched), f"{rate(alone)} none", f"{watched / alone:.1%}", "≥ 95 %"
        )
        late = sorted(self._seen_after() for _ in range(self.of(5, 20)))
        self.report.add(
            "a new job is on an open page after",
            f"{statistics.median(late):.2f} s",
            found=f"at most {late[-1]:.2f} s",
            bar="0.5 s, at most 1 s",
        )

    def _page_time(self, browser: Browser, path: str) -> float:
        browser.get(path)
        return statistics.median(browser.get(path)[0] for _ in range(7))

    def _weigh(self, browser: Browser) -> None:
        whole, scripts = max(browser.weight(path) for path in PAGES)
        self.report.add(
            "heaviest page, with styles and scripts",
            f"{whole / 1000:.0f} kB",
            found=f"scripts {scripts / 1000:.0f} kB",
            bar="≤ 150 kB, 30 kB",
        )
        asyncio.run(browser.read_for(["/", "/jobs", "/jobs?state=failed", "/queues"] * 25, 5.0))
        self.report.add("memory of a dashboard with 100 viewers", f"{browser.memory() / 1e6:.0f} MB", bar="≤ 100 MB")

    def _drain_watched(self, pages: int) -> float:
        """Jobs a second while this number of pages of a dashboard is open."""
        number, url = self.of(40_000, 200_000), self.engine.fresh()
        self._enqueue_many(number, url)
        with ExitStack() as stack:
            if pages:
                browser = stack.enter_context(dashboard_of(url))
                topics = [PAGES[each % len(PAGES)] for each in range(pages)]
                reading = threading.Thread(target=lambda: asyncio.run(browser.read_for(topics, 60.0)), daemon=True)
                reading.start()
                time.sleep(1.5)
            [found] = self._work(url, ["drain", "100"])
        return float(found["jobs"] / (found["last"] - found["first"]))

    def _seen_after(self) -> float:
        """Seconds from the enqueue of a job until an open page of jobs has it."""

        async def wait(browser: Browser, app: App) -> float:
            async with browser.stream("/jobs") as reader:
                await reader.readuntil(b"event: patch")
                await asyncio.sleep(random.uniform(0.5, 1.5))
                job = await app.remote("noop").aenqueue()
                begun = time.perf_counter()
                await reader.readuntil(job.id.encode())
                return time.perf_counter() - begun

        url = self.engine.fresh()
        with App(url) as app:
            app.remote("noop").enqueue()
            with dashboard_of(url) as browser:
                return asyncio.run(wait(browser, App(url)))

    def churn(self) -> None:
        """Whether the store is still as fast after many jobs as it was at the start."""
        url = self.engine.fresh()
        step, number = self.of(10_000, 50_000), self.of(100_000, 1_000_000)
        rates = [self._pass_through(url, step) for _ in range(number // step)]
        start, end = statistics.median(rates[:3]), statistics.median(rates[-3:])
        self.report.add(
            f"drain after {number:,} jobs of churn",
            rate(end),
            f"{rate(start)} at the start",
            f"{end / start:.2f}×, least {min(rates) / start:.2f}×",
            "within 25 %",
        )

    def _pass_through(self, url: str, number: int) -> float:
        self._enqueue_many(number, url)
        [found] = self._work(url, ["drain", "100"])
        return float(found["jobs"] / (found["last"] - found["first"]))

    def size(self) -> None:
        """Bytes per job in the store: a waiting no-op, one with an argument of 100 bytes, and a finished one that is kept."""
        number = 10_000  # as many finished ones as a queue keeps
        for what, arguments in (("a waiting no-op job", ()), ("a waiting job, 100-byte argument", ("x" * 98,))):
            url = self.engine.fresh()
            self._enqueue_many(1000, url, "noop", *arguments)  # so that fixed costs are not counted
            empty = self.engine.bytes_used(url)
            self._enqueue_many(number * 5, url, "noop", *arguments)
            used = (self.engine.bytes_used(url) - empty) / (number * 5)
            self.report.add(f"bytes, {what}", f"{used:.0f}", bar="waiting" if not arguments else "")
        url = self.engine.fresh()
        with App(url) as app:
            app.remote("noop").enqueue()
        empty = self.engine.bytes_used(url)
        self._enqueue_many(number - 1000, url)
        self._work(url, ["drain", "100"])
        used = (self.engine.bytes_used(url) - empty) / (number - 1000)
        self.report.add("bytes, a finished no-op job that is kept", f"{used:.0f}")

    # Latency and idling.

    def latency(self) -> None:
        number = self.of(50, 200)
        ours, floor = [], []
        for _ in range(self.of(1, TURNS)):
            ours += self._latency(number)
            floor += self.engine.floor(number)
        for name, mine, least in zip(("p50", "p99"), percentiles(ours), percentiles(floor), strict=True):
            self.report.add(
                f"latency to an idle worker, {name}",
                milliseconds(mine),
                milliseconds(least),
                f"{mine / least:.2f}× the floor",
                name,
            )

    def _latency(self, number: int) -> list[float]:
        """Seconds from the call of enqueue to the first line of the function in another process."""
        url = self.engine.fresh()
        with App(url) as app:
            stamp = app.remote("stamp")
            stamp.enqueue()
            with self.child(url, "serve"):
                for _ in range(5):  # to warm up, as the floor does
                    stamp.enqueue().result(timeout=10)
                sent = []
                for _ in range(number):
                    begun = time.monotonic()
                    sent.append((begun, stamp.enqueue()))
                    time.sleep(0.01)
                # Read at the end, because waiting for a result writes to the store too.
                return [float(job.result(timeout=10)) - begun for begun, job in sent]

    def queues(self) -> None:
        """The cost of many queues, nearly all of them empty, to a worker that serves all of them."""
        alone = self.median(lambda: self._drain(20_000, "noop", 100))
        for number in (5_000, 50_000) if self.quick else (5_000, 50_000, 100_000):
            url = self.engine.fresh()
            uvloop.run(fill(url, number))
            with self.engine.watched() as waits:
                [found] = self._work(url, ["drain", "100"])
            each = found["jobs"] / (found["last"] - found["first"])
            assert found["jobs"] == number, f"{found['jobs']:,} ran, of {number:,}"
            what = f"{number:,} queues"
            self.report.add(f"{what}, a job in each: drain", rate(each))
            self._stalls(f"{what}, a job in each", waits)
            with self.engine.watched() as waits:
                spent = self._latency_in(url, [f"q{at}" for at in random.sample(range(number), self.of(50, 200))])
            for name, late in zip(("p50", "p99"), percentiles(spent), strict=True):
                self.report.add(f"{what}, empty: latency in one of them, {name}", milliseconds(late), bar="≤ 50 ms")
            self._stalls(f"{what}, empty", waits)
            self._enqueue_many(20_000, url)
            [found] = self._work(url, ["drain", "100"])
            among = found["jobs"] / (found["last"] - found["first"])
            self.report.add(
                f"{what}, empty: drain of another", rate(among), f"{rate(alone)} alone", f"{among / alone:.2f}×"
            )
            with App(url) as app:
                begun = time.perf_counter()
                with self.engine.watched() as waits:
                    app.queues()
                self.report.add(f"{what}: listed", milliseconds(time.perf_counter() - begun))
                self._stalls(f"{what}: listed", waits)

    def _stalls(self, what: str, waits: dict[str, float]) -> None:
        for name, longest in waits.items():
            self.report.add(f"{what}: {name}, at most", milliseconds(longest), bar="≤ 5 ms")

    def _latency_in(self, url: str, queues: list[str]) -> list[float]:
        with App(url) as app, self.child(url, "serve"):
            time.sleep(2)  # until it is idle
            sent = []
            for queue in queues:
                stamp = app.remote("stamp", queue=queue)
                begun = time.monotonic()
                sent.append((begun, stamp.enqueue()))
                time.sleep(0.02)
            return [float(job.result(timeout=60)) - begun for begun, job in sent]

    def idle(self) -> None:
        url = self.engine.fresh()
        seconds = self.of(5, 60)
        with self.child(url, "serve") as child:
            time.sleep(2)  # until it is idle
            calls = self.engine.calls()
            time.sleep(seconds)
            after = self.engine.calls()
            go(child)
            used = answer(child)
        self.report.add("idle worker, share of a core", f"{used['cpu']:.2%}", bar="idle")
        self.report.add("idle worker, memory", f"{used['rss'] / 1e6:.0f} MB", bar="memory")
        if calls is not None and after is not None:
            self.report.add("idle worker, calls to the store a second", f"{(after - calls) / seconds:.1f}", bar="calls")

    def schedules(self) -> None:
        """Many schedules due at once, a lone one, and what an idle worker pays for those that are not due."""
        url, number = self.engine.fresh(), self.of(2_000, 10_000)
        at = crowd(url, number)
        with ExitStack() as stack:
            for _ in range(4):
                stack.enter_context(self.child(url, "serve"))
            found = list(wait_for_last(url, at))
        once = sum(len(record.history) == 1 and record.history[0].enqueued for record in found)
        what = f"{number:,} schedules due in one second, 4 processes"
        self.report.add(f"{what}: fired once", f"{once:,}", bar="all")
        self.report.add(
            f"{what}: the last", f"{max(record.history[-1].at for record in found) - at:.2f} s", bar="≤ 5 s"
        )
        url = self.engine.fresh()
        with ExitStack() as stack:
            for _ in range(4):
                stack.enter_context(self.child(url, "serve"))
            late = lateness(url, self.of(10, 60))
        self.report.add("a lone schedule: late by, p50", milliseconds(statistics.median(late)), bar="≤ 20 ms")
        self.report.add("a lone schedule: late by, at most", milliseconds(max(late)), bar="≤ 50 ms")
        with_many, with_none = self.turns(lambda: self._idle_with(1_000), lambda: self._idle_with(0))
        self.report.add(
            "idle worker with 1,000 schedules, share of a core", f"{with_many:.2%}", f"{with_none:.2%} without",
            f"{with_many - with_none:+.2%}", "≤ +0.1 %",
        )  # fmt: skip

    def _idle_with(self, schedules: int) -> float:
        url = self.engine.fresh()
        asyncio.run(created(url, schedules, Every(86400 * 365)))
        with self.child(url, "serve") as child:
            time.sleep(self.of(5, 30))
            go(child)
            return float(answer(child)["cpu"])

    def memory(self) -> None:
        """Whether the memory of a worker still grows after the first tenth of its jobs."""
        url = self.engine.fresh()
        number = self.of(100_000, 1_000_000)
        step = number // 20
        with self.child(url, "last") as child:
            sizes = []
            for ran in range(step, number + 1, step):
                self._enqueue_many(step, url, "count")
                go(child, str(ran))
                sizes.append(answer(child)["rss"] / 1e6)
        settled = sizes[1]
        self.report.add(
            f"memory of a worker after {number:,} jobs",
            f"{sizes[-1]:.1f} MB",
            f"{settled:.1f} MB after {step * 2:,}",
            f"{sizes[-1] / settled - 1:+.1%}, at most {max(sizes[1:]) / settled - 1:+.1%}",
            "± 5 %",
        )


def go(child: subprocess.Popen[str], line: str = "go") -> None:
    """Send a line to a child, which makes it begin, end or answer."""
    assert child.stdin is not None
    child.stdin.write(f"{line}\n")
    child.stdin.flush()


def answer(child: subprocess.Popen[str]) -> dict[str, Any]:
    """The figures that a child prints."""
    assert child.stdout is not None
    figures: dict[str, Any] = json.loads(child.stdout.readline())
    return figures


async def noop() -> None:
    """Do nothing."""


STORES: dict[str, Callable[[Path], Engine]] = {"sqlite": Sqlite, "redis": Redis, "postgres": Postgres}
CASES = (
    "overhead",
    "enqueue",
    "transactional",
    "drain",
    "latency",
    "queues",
    "idle",
    "memory",
    "size",
    "depth",
    "churn",
    "isolated",
    "events",
    "history",
    "flows",
    "schedules",
    "dashboard",
    "peers",
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    named = f"stores ({', '.join(STORES)}) and cases ({', '.join(CASES)}); all if none is named"
    parser.add_argument("names", nargs="*", metavar="name", choices=[*STORES, *CASES, []], help=named)
    parser.add_argument("--quick", action="store_true", help="shorter runs")
    parser.add_argument("--json", action="store_true", help="print the figures as JSON at the end")
    arguments = parser.parse_args()
    reports = []
    for store, make in STORES.items():
        if store not in arguments.names and any(name in STORES for name in arguments.names):
            continue
        with tempfile.TemporaryDirectory(prefix="tenure-bench-") as folder:
            engine = make(Path(folder))
            bench = Bench(engine, arguments.quick)
            for case in [name for name in arguments.names if name in CASES] or CASES:
                getattr(bench, case)()
            engine.close()
        reports.append(bench.report)
    if arguments.json:
        print(json.dumps([row for report in reports for row in report.rows], indent=2))
    else:
        for report in reports:
            report.show()


if __name__ == "__main__":
    main()
