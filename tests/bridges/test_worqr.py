"""Worqr: tasks of its clients run here, its own workers and tools stay right, and nothing is lost or done twice."""

from __future__ import annotations

import asyncio
import json
import random
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tenure import App, Backoff, Context, Fail, Retention
from tenure.bridges import Worqr, source
from tenure.bridges.custody import End, Taken
from tenure.bridges.worqr import WorqrForeign
from tenure.core.job import State
from tenure.errors import InvalidOption, PayloadError, UniqueConflict
from tenure.stores.redis.address import Address
from tests.bridges.scenes import Monitor, There, keys_of, replay, scenes_of
from tests.servers.server import Server

TEXT = scenes_of("worqr-text")
TENURE = scenes_of("worqr-tenure")
CLIENT = scenes_of("worqr-client")


ENTRIES, KILLS, SLOTS = 3000, 8, 3


@pytest.fixture
async def app(tmp_path: Path) -> AsyncIterator[App]:
    app = App(f"sqlite:///{tmp_path}/jobs.db")
    yield app
    await app.aclose()


@pytest.fixture
def worqr(app: App, server: Server, there: There) -> Worqr:
    return Worqr(app, server.url)


@asynccontextmanager
async def foreign_to(server: Server, *queues: str) -> AsyncIterator[WorqrForeign]:
    foreign = WorqrForeign(Address.from_url(server.url), "worqr", queues)
    yield foreign
    await foreign.close()


async def until(happened: Callable[[], Any]) -> Any:
    """Wait until this is true, and return it."""
    async with asyncio.timeout(20):
        while not (found := happened()):
            await asyncio.sleep(0.01)
    return found


def held(there: There) -> int:
    """Tasks in custody."""
    count = there.hlen("worqr:tenure:custody")
    assert isinstance(count, int)
    return count


# The traces.


async def test_every_scene_of_the_text_passes(server: Server, worqr: Worqr, there: There) -> None:
    def same_keys(scene: str) -> None:
        expected = {key: value for key, value in TEXT[scene].keys.items() if not key.startswith("worqr:workerTimers:")}
        assert {
            key: value for key, value in keys_of(there).items() if not key.startswith("worqr:workerTimers:")
        } == expected, scene

    def same_commands(scene: str, heard: list[list[str]]) -> None:
        assert [shape(words) for words in heard] == [shape(words) for words in TEXT[scene].of("t")], scene

    def shape(words: list[str]) -> list[str]:
        if words[0] == "RPOPLPUSH":
            return ["LMOVE", *words[1:], "RIGHT", "LEFT"]
        return words[:-1] if words[0] == "PUBLISH" and words[1].endswith("_work") else words

    async with foreign_to(server, "q1") as foreign:
        with Monitor(server.port) as monitor:
            for task in ("t0", "t1", "t2"):
                await worqr.aenqueue("q1", task)
            same_commands("enqueue", monitor.writes())
            same_keys("enqueue")
            for scene in ("start-worker", "start-work"):
                replay(there, TEXT[scene].of("t"))

            monitor.writes()
            await foreign.take("w1", ["p0"])
            [taken] = await foreign.take("w0", ["p1"])
            assert (taken.queue, taken.entry) == ("q1", b"t1")
            same_commands("start-task", monitor.writes())
            same_keys("start-task")

            await foreign.give_back(["p1"])
            same_commands("stop-task", monitor.writes())
            same_keys("stop-task")

            await foreign.take("w0", ["p2"])
            same_commands("start-task-again", monitor.writes())
            same_keys("start-task-again")

            replay(there, TEXT["fail-worker"].of("t"))  # a peer does it
            same_keys("fail-worker")
            assert await foreign.held_there(["p0", "p2"]) == [False, True]
            assert await foreign.renew("w1", ["p0", "p2"]) == ["p0"]
            monitor.writes()
            await foreign.record("w1", [End("p0", State.SUCCEEDED)], (), ())
            await foreign.let_go(["p0"])
            assert monitor.writes() == [["SREM", "worqr:workingProcesses:w1_q1", "q1_p0"]]

            there.set("worqr:uniqueTasks:83f1535f99ab0bf4e9d02dfd85d3e3f7", " ")
            monitor.writes()
            await foreign.record("w0", [End("p2", State.SUCCEEDED, "null")], (), ())
            same_commands("finish-task", monitor.writes())
            same_keys("finish-task")

            await worqr.acancel("q1", "t2")
            same_commands("cancel-tasks", monitor.writes())
            same_keys("cancel-tasks")
    assert held(there) == 0


async def test_a_peer_that_fails_another_leaves_ours(server: Server, there: There) -> None:
    async with foreign_to(server, "mail") as foreign:
        with Monitor(server.port) as monitor:
            await foreign.enter("w9", 1)
            assert monitor.writes() == TENURE["start"].of("t")
            there.delete("worqr:workers", "worqr:permanentWorkers")  # as a peer that fails it does
            await foreign.renew("other", [])
            assert keys_of(there) == {}
            await foreign.renew("w9", [])
            replay(there, TENURE["start"].of("c2", "c3", "c4", "c5"))
            monitor.writes()

            await foreign.take("w9", ["0198-1"])
            assert monitor.writes() == TENURE["take"].of("t")

            replay(there, TENURE["peers-fail"].of("c2", "c3"))
            there.delete("worqr:workerTimers:worker-a", "worqr:workerTimers:worker-b")
            assert keys_of(there) == TENURE["peers-fail"].keys
            assert await foreign.held_there(["0198-1"]) == [True]
            monitor.writes()

            await foreign.record("w9", [End("0198-1", State.SUCCEEDED, '{"ok":1}')], (), ())
            assert monitor.writes() == TENURE["finish"].of("t")
            assert keys_of(there) == TENURE["finish"].keys

            await foreign.take("w9", ["0198-2"])
            await foreign.give_back(["0198-2"])
            assert monitor.writes() == TENURE["give-back"].of("t")
            assert keys_of(there) == TENURE["give-back"].keys


async def test_a_step_whose_answer_was_lost_may_be_repeated(server: Server, worqr: Worqr, there: There) -> None:
    await worqr.aenqueue("mail", "a", "b", "c")
    async with foreign_to(server, "mail") as foreign:
        await foreign.take("w1", ["1", "2", "3"])
        with Monitor(server.port) as monitor:
            assert await foreign.adopt("1", "w1", "w2")
            assert not await foreign.adopt("1", "w1", "w3")
            assert there.smembers("worqr:workingProcesses:w2_mail") == {b"mail_1"}
            assert there.smembers("worqr:workingProcesses:w1_mail") == {b"mail_2", b"mail_3"}
            for _ in range(2):
                await foreign.mark_returning(["2", "3"])
                await foreign.give_back(["2", "3"])
                await foreign.record("w2", [End("1", State.SUCCEEDED)], (), ())
            written = [words[:2] for words in monitor.writes()]
        assert written.count(["PUBLISH", "worqr_mail_done"]) == written.count(["PUBLISH", "worqr_mail_work"]) == 1
        assert keys_of(there) == {"worqr:queues:mail": ["c", "b"]}
    assert held(there) == 0


async def test_what_the_client_enqueues_and_what_we_enqueue_are_the_same(
    server: Server, worqr: Worqr, there: There
) -> None:
    with Monitor(server.port) as monitor:
        await worqr.aenqueue("mail", b"t1")
        await worqr.aenqueue("mail", "t2", "", "tä3")
        assert monitor.writes() == CLIENT["enqueue"].of("c1") + CLIENT["enqueue-many"].of("c1")
    assert keys_of(there) == CLIENT["enqueue-many"].keys

    await worqr.aenqueue("mail", "u1", unique=True)
    with pytest.raises(UniqueConflict, match="a unique task b'u1' has not finished"):
        await worqr.aenqueue("mail", "v1", "u1", unique=True)
    with pytest.raises(UniqueConflict):
        await worqr.aenqueue("mail", "twice", "twice", unique=True)
    assert keys_of(there) == CLIENT["enqueue-unique"].keys


# Workers.


async def test_tasks_run_and_finish_in_order_and_their_results_are_told(worqr: Worqr, there: There) -> None:
    ran = []

    @worqr.queue("mail")
    def mail(task: bytes) -> object:
        ran.append(task)
        if task == b"bad":
            raise Fail("no")
        return {"sent": task.decode(errors="replace")} if task else None

    replay(there, CLIENT["enqueue"].of("c1") + CLIENT["enqueue-many"].of("c1"))
    heard = there.pubsub(ignore_subscribe_messages=True)
    heard.subscribe("worqr_mail_done")
    heard.get_message(timeout=5)
    async with worqr.worker(concurrency=1) as worker:
        await until(lambda: len(ran) == 4)
        await worqr.aenqueue("mail", b"\xff\x00", "bad", unique=True)
        await until(lambda: len(ran) == 6)
        await until(lambda: not held(there))
        [workers] = [there.smembers("worqr:permanentWorkers")]
        assert workers == {str(worker.id).encode()} == there.smembers("worqr:workers")
        told = [json.loads(heard.get_message(timeout=5)["data"]) for _ in range(6)]

    assert ran == [b"t1", b"t2", b"", "tä3".encode(), b"\xff\x00", b"bad"]
    assert [(each["task"], each.get("result")) for each in told] == [
        ("t1", {"sent": "t1"}), ("t2", {"sent": "t2"}), ("", None), ("tä3", {"sent": "tä3"}),
        ("\ufffd\x00", {"sent": "\ufffd\x00"}), ("bad", None),
    ]  # fmt: skip
    assert ["result" in each for each in told] == [True, True, False, True, True, False]
    assert list(there.scan_iter()) == []  # uniqueness is free, and the worker has left
    heard.close()
    [failed] = await worqr.app.ajobs(state="failed")
    assert (failed.task, failed.queue) == ("worqr:mail", "worqr:mail")


async def test_tasks_given_back_are_next_in_their_old_order(worqr: Worqr, there: There) -> None:
    begun: list[bytes] = []

    @worqr.queue("mail")
    async def mail(task: bytes) -> None:
        begun.append(task)
        await asyncio.Event().wait()

    await worqr.aenqueue("mail", *(f"t{number}" for number in range(5)))
    stop = await worqr.worker(concurrency=2).start()
    await until(lambda: len(begun) == 2)
    await stop(0)

    assert list(there.scan_iter()) == [b"worqr:queues:mail"]
    assert there.lrange("worqr:queues:mail", 0, -1)[::-1] == [b"t0", b"t1", b"t2", b"t3", b"t4"]


async def test_a_worker_that_waits_is_woken_by_the_event_of_a_client(
    worqr: Worqr, there: There, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(source, "POLL", 100.0)
    ran = asyncio.Event()

    @worqr.queue("mail")
    async def mail(task: bytes) -> None:
        ran.set()

    async with worqr.worker():
        await until(lambda: there.pubsub_numsub("worqr_mail_work")[0][1])
        await asyncio.sleep(0.2)  # it looks in vain
        replay(there, CLIENT["enqueue"].of("c1"))
        async with asyncio.timeout(5):
            await ran.wait()


async def test_a_cancel_event_stops_a_task_that_runs_and_finishes_it(
    worqr: Worqr, there: There, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(source, "POLL", 0.1)
    begun, stopped = asyncio.Event(), asyncio.Event()

    @worqr.queue("mail")
    async def mail(task: bytes) -> None:
        if task == b"u1":
            begun.set()
            try:
                await asyncio.Event().wait()
            finally:
                stopped.set()

    await worqr.aenqueue("mail", "u1", unique=True)
    async with worqr.worker():
        await begun.wait()
        await until(lambda: there.pubsub_numsub("worqr_mail_cancel")[0][1])
        replay(there, CLIENT["cancel"].of("c2"))
        async with asyncio.timeout(10):
            await stopped.wait()
        await until(lambda: not held(there))
        assert not there.exists("worqr:uniqueTasks:e4774cdda0793f86414e8b9140bb6db4")

    assert list(there.scan_iter()) == []
    [job] = await worqr.app.ajobs(queue="worqr:mail")
    assert job.state == "cancelled"


async def test_a_task_that_a_peer_takes_back_while_it_runs_gets_no_end(
    worqr: Worqr, there: There, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(source, "POLL", 0.1)
    monkeypatch.setattr(WorqrForeign, "renew_every", 0.05)
    begun: list[int] = []
    go_on = threading.Event()

    @worqr.queue("mail")
    def mail(task: bytes) -> int:  # a thread, which cannot be stopped
        begun.append(len(begun))
        if len(begun) == 1:
            go_on.wait(20)
        return begun[-1]

    heard = there.pubsub(ignore_subscribe_messages=True)
    heard.subscribe("worqr_mail_done")
    heard.get_message(timeout=5)
    await worqr.aenqueue("mail", "t1")
    async with worqr.worker(concurrency=2):
        await until(lambda: begun)
        [process] = there.keys("worqr:processes:*")
        there.lmove(process, "worqr:queues:mail", "LEFT", "RIGHT")
        await until(lambda: len(begun) == 2)  # the same task again, from the queue
        await until(lambda: not held(there))
        go_on.set()
    told = heard.get_message(timeout=5)
    assert json.loads(told["data"])["result"] == 1
    assert heard.get_message(timeout=0.2) is None
    heard.close()
    assert list(there.scan_iter()) == []


def start(server: Server, folder: Path, slots: int = 1) -> subprocess.Popen[bytes]:
    """Start a worker in a process of its own."""
    program = [sys.executable, "-m", "tests.bridges.declared_program", "worqr", server.url, str(folder), str(slots)]
    return subprocess.Popen(program, start_new_session=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


async def test_a_task_of_a_killed_worker_runs_again_and_finishes_once(
    worqr: Worqr, there: There, server: Server, tmp_path: Path
) -> None:
    heard = there.pubsub(ignore_subscribe_messages=True)
    heard.subscribe("worqr_mail_done")
    heard.get_message(timeout=5)
    await worqr.aenqueue("mail", "t1", "t2")

    def ran() -> list[str]:
        log = tmp_path / "ran"
        return log.read_text().split() if log.exists() else []

    first = start(server, tmp_path)
    try:
        await until(lambda: ran() == ["t1"])
    finally:
        first.kill()
        first.wait()
    (tmp_path / "go-on").touch()
    dead = there.smembers("worqr:workers")
    assert held(there)
    await until_missing(worqr.app)
    second = start(server, tmp_path)
    try:
        await until(lambda: held(there) == 0 and ran() == ["t1", "t1", "t2"])
        await until(lambda: there.smembers("worqr:workers").isdisjoint(dead))
        assert there.keys("worqr:processes:*") == there.keys("worqr:workingProcesses:*") == []
    finally:
        second.terminate()
        second.wait(20)
    told = [json.loads(heard.get_message(timeout=5)["data"])["task"] for _ in range(2)]
    assert told == ["t1", "t2"]
    assert heard.get_message(timeout=0.2) is None
    heard.close()
    assert list(there.scan_iter()) == []


@pytest.mark.long
@pytest.mark.timeout(300)
async def test_tasks_finish_once_each_while_workers_are_killed(
    worqr: Worqr, there: There, server: Server, tmp_path: Path
) -> None:
    heard = there.pubsub(ignore_subscribe_messages=True)
    heard.subscribe("worqr_mail_done")
    heard.get_message(timeout=5)
    tasks = [f"t{number}" for number in range(ENTRIES)]
    await worqr.aenqueue("mail", *tasks)

    def done(alive: set[int]) -> bool:
        registered = {int(worker.split(b":")[1]) for worker in there.smembers("worqr:workers")}
        return not held(there) and not there.exists("worqr:queues:mail") and registered == alive

    await kill_again_and_again(server, tmp_path, done)
    told = []
    while (message := heard.get_message(timeout=0.5)) is not None:
        told.append(json.loads(message["data"])["task"])
    heard.close()
    assert sorted(told) == sorted(tasks)
    assert list(there.scan_iter()) == []
    ran = (tmp_path / "ran").read_text().split()
    assert {*ran} == {*tasks}
    assert len(ran) <= ENTRIES + KILLS * SLOTS


async def kill_again_and_again(server: Server, folder: Path, done: Callable[[set[int]], bool]) -> None:
    """Let two workers at a time run everything; one of them is killed and replaced, again and again.

    `done` is asked with the process ids of those that live.
    """
    (folder / "go-on").touch()
    workers = [start(server, folder, SLOTS) for _ in range(2)]
    try:
        for _ in range(KILLS):
            await asyncio.sleep(1 + random.random())
            killed = workers.pop(0)
            killed.kill()
            killed.wait()
            workers.append(start(server, folder, SLOTS))
        async with asyncio.timeout(60):
            while not done({worker.pid for worker in workers}):
                await asyncio.sleep(0.1)
    finally:
        for worker in workers:
            worker.terminate()
        for worker in workers:
            worker.wait(30)


async def until_missing(app: App) -> None:
    async with asyncio.timeout(20):
        while not all(worker.missing for worker in await app.aworkers()):
            await asyncio.sleep(0.05)


async def test_what_another_program_has_left_waits_for_that_program(
    app: App, server: Server, worqr: Worqr, there: There
) -> None:
    ran: list[bytes] = []

    @worqr.queue("mail")
    async def mail(task: bytes) -> None:
        ran.append(task)

    await worqr.aenqueue("other", b"\xff")
    async with foreign_to(server, "other") as foreign:
        await foreign.enter("dead", 1)
        await foreign.take("dead", ["0" * 8 + "-0000-7000-8000-" + "0" * 12])
    async with worqr.worker(concurrency=1):
        await until(lambda: there.smembers("worqr:workers") and b"dead" not in there.smembers("worqr:workers"))
        await worqr.aenqueue("mail", b"\x00")
        await until(lambda: ran == [b"\x00"] and held(there) == 1)
    assert await app.ajobs(queue="worqr:other") == []

    other = Worqr(app, server.url)
    other.queue("other")(ran.append)
    async with other.worker():
        await until(lambda: ran == [b"\x00", b"\xff"] and held(there) == 0)
    assert list(there.scan_iter()) == []


async def test_a_task_that_fails_is_tried_again_if_its_queue_says_so(worqr: Worqr, there: There) -> None:
    attempts: list[int] = []

    @worqr.queue("mail", max_attempts=None, retry=Backoff(initial=0.01))
    def mail(task: bytes, ctx: Context) -> None:
        attempts.append(ctx.job.attempt)
        if len(attempts) < 3:
            raise ValueError

    await worqr.aenqueue("mail", "t1")
    async with worqr.worker():
        await until(lambda: len(attempts) == 3 and not held(there))
    assert attempts == [1, 2, 3]


def test_a_failed_task_is_kept_as_long_as_other_failed_jobs(app: App, server: Server, worqr: Worqr) -> None:
    taken = Taken("1", "mail", b"t1")
    worqr.queue("mail")(lambda task: None)
    assert worqr.read(taken).keep is None
    worqr.queue("kept", keep=86400)(lambda task: None)
    assert worqr.read(Taken("1", "kept", b"")).keep == 86400
    brief = Worqr(App("memory://", keep=Retention(succeeded=60)), server.url)
    brief.queue("mail")(lambda task: None)
    assert brief.read(taken).keep == 600


# Refusals.


def test_wrong_declarations_are_refused(app: App, server: Server, worqr: Worqr) -> None:
    with pytest.raises(InvalidOption, match="before the first _"):
        Worqr(app, server.url, prefix="my_app")
    with pytest.raises(InvalidOption, match="many slots of a cluster"):
        Worqr(app, "redis+cluster://localhost:7000")
    with pytest.raises(InvalidOption, match="would serve no queue of worqr"):
        worqr.worker()
    worqr.queue("mail")(lambda task: None)
    with pytest.raises(InvalidOption, match="declared twice"):
        worqr.queue("mail")
    with pytest.raises(InvalidOption, match="patterns"):
        worqr.queue("m*")
    with pytest.raises(InvalidOption, match="the name of a queue"):
        worqr.queue("")
    with pytest.raises(InvalidOption, match=r"@worqr.queue\('post'\)"):
        worqr.worker(["mail", "post"])
    with pytest.raises(PayloadError, match="bytes or a text, got int"):
        worqr.enqueue("mail", 1)  # type: ignore[arg-type]


def test_blocking_code_enqueues_and_cancels(worqr: Worqr, there: There) -> None:
    worqr.enqueue("mail", "a", "b", "a")
    worqr.enqueue("mail")
    worqr.enqueue("mail", "c", unique=True)
    assert worqr.cancel("mail", "a", "c", "d") == 3
    assert list(there.scan_iter()) == [b"worqr:queues:mail"]
    assert there.lrange("worqr:queues:mail", 0, -1) == [b"b"]
