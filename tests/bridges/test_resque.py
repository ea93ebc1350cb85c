"""The bridge to Resque, beside recorded clients: entries, records, order, pauses, producers, pruning and schedules."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import sqlite3
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from signal import SIGCONT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2
from typing import Any

import pytest

from tenure import App, Backoff
from tenure.bridges import Resque
from tenure.bridges.scripts import load
from tenure.errors import InvalidOption, PayloadError, UseAsync
from tests.servers.server import Server

from .golden import alike, golden, keys, replay
from .resque_program import Program


def push(there: Any, queue: str, *entries: str | bytes) -> None:
    there.sadd("resque:queues", queue)
    there.rpush(f"resque:queue:{queue}", *entries)


def entry(name: str, *args: Any) -> str:
    """An entry with the bytes of Ruby."""
    return json.dumps({"class": name, "args": args}, separators=(",", ":"))


def until(condition: Callable[[], Any], seconds: float = 15.0) -> Any:
    deadline = time.monotonic() + seconds
    while not (value := condition()):
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.005)
    return value


def failures(there: Any) -> list[dict[str, Any]]:
    return [json.loads(each) for each in there.lrange("resque:failed", 0, -1)]


def worker_ids(there: Any) -> set[str]:
    return {each.decode() for each in there.smembers("resque:workers")}


def noted(there: Any) -> list[Any]:
    return [json.loads(each)[0] for each in there.lrange("noted", 0, -1)]


# Records.


def test_the_records_are_those_of_the_trace_byte_for_byte(app: App, resque: Resque, there: Any) -> None:
    seen: dict[str, Any] = {}

    @app.task(aliases=["Demo::Job"])
    def demo(*args: Any) -> None:
        until(lambda: there.get("resque:stat:processed") == b"2" and there.exists("resque:stat:failed"))
        seen.update(keys(there))

    @app.task
    def boom(x: str) -> None:
        x += " – ü"
        raise ValueError(f"no: {x}")

    @app.task
    def fine() -> None: ...

    push(
        there,
        "math",
        '{"class":"Demo::Job","args":[{"ü":"a \\"b\\""},1.5,[]]}',
        '{"class":"boom","queue":"math","args":["x"]}',
    )
    push(there, "other", '{"class":"fine","args":[]}')

    resque.worker(["math", "other"], concurrency=2).run(until_empty=True)

    seen.pop("resque:queues")
    expected = golden("resque-tenure", "success").keys
    assert alike(seen) == alike(expected)


def test_a_worker_that_has_stopped_leaves_totals_only(app: App, resque: Resque, there: Any) -> None:
    app.task(name="fine")(lambda: None)
    push(there, "math", entry("fine"), entry("nothing"))

    resque.worker(["math"]).run(until_empty=True)

    left = keys(there)
    assert sorted(left) == ["resque:failed", "resque:queues", "resque:stat:failed", "resque:stat:processed"]
    assert (left["resque:stat:processed"], left["resque:stat:failed"]) == ("2", "1")
    assert there.keys("resque:tenure:*") == []


async def test_two_workers_of_one_process_have_different_slots(app: App, resque: Resque, there: Any) -> None:
    stops = [await resque.worker(["math"], concurrency=2).start() for _ in range(2)]
    await asyncio.to_thread(until, lambda: len(worker_ids(there)) == 4)
    await stops[0]()
    assert len(worker_ids(there)) == 2
    stops.append(await resque.worker(["math"], concurrency=1).start())
    await asyncio.to_thread(until, lambda: len(worker_ids(there)) == 3)
    for stop in stops[1:]:
        await stop()

    assert worker_ids(there) == set()


async def test_records_that_others_have_removed_come_back(resque: Resque, there: Any) -> None:
    stop = await resque.worker(["*"], concurrency=1).start()
    [worker] = await asyncio.to_thread(until, lambda: worker_ids(there))
    there.flushall()  # as if another bridge had taken it for dead

    assert await asyncio.to_thread(until, lambda: worker_ids(there)) == {worker}
    assert there.hgetall("resque:workers:heartbeat").keys() == {worker.encode()}
    await stop()


async def test_a_worker_that_registers_again_keeps_the_record_of_what_it_runs(resque: Resque, there: Any) -> None:
    foreign = resque.connect(["math"])
    await foreign.enter("w1", 1)
    [worker] = worker_ids(there)
    there.set(f"resque:worker:{worker}", "its job")

    await foreign.enter("w2", 1)
    assert there.get(f"resque:worker:{worker}") == b"its job"
    there.hset("resque:tenure:workers", worker, "a process that had its number")
    await foreign.enter("w3", 1)
    assert there.get(f"resque:worker:{worker}") is None

    assert there.hgetall("resque:tenure:workers") == {worker.encode(): b"w3"}
    await foreign.leave("w3")
    await foreign.close()


async def test_heartbeat_and_ping_are_written_again(resque: Resque, there: Any) -> None:
    foreign, renewing = resque.connect(["math"]), resque.connect(["math"])
    await foreign.enter("w1", 2)
    worker = f"{socket.gethostname()}.tenure:{os.getpid()}+1"
    there.hset("resque:workers:heartbeat", f"{worker}:math", "old")
    there.delete(f"resque:worker:ping:{worker}")

    await renewing.renew("w1", [])

    assert seconds_since(there.hget("resque:workers:heartbeat", f"{worker}:math").decode()) < 10
    assert abs(json.loads(there.get(f"resque:worker:ping:{worker}"))["time"] - time.time()) < 10
    await renewing.leave("another")
    assert len(worker_ids(there)) == 2
    await renewing.leave("w1")  # as the sweep of another bridge does
    assert keys(there) == {}
    for each in (foreign, renewing):
        await each.close()


def seconds_since(text: str) -> float:
    return abs((datetime.now(UTC) - datetime.fromisoformat(text)).total_seconds())


def test_scripts_write_dates_as_python_does(there: Any) -> None:
    source = load("resque", "enter").source
    calendar = source[source.index("local function now") : source.index("-- A text as JSON")]
    script = f"{calendar} return dated('%04d-%02d-%02dT%02d:%02d:%02d+00:00', tonumber(ARGV[1]))"
    days = [*range(0, 40_000, 97), *(day for year in range(1970, 2110) for day in around_march(year))]

    for number, day in enumerate(days):
        seconds = day * 86_400 + number * 613 % 86_400
        assert there.eval(script, 0, seconds).decode() == datetime.fromtimestamp(seconds, UTC).isoformat()


def around_march(year: int) -> range:
    first = (datetime(year, 3, 1) - datetime(1970, 1, 1)).days
    return range(first - 1, first + 1)


# Entries.


def test_an_unknown_class_and_bad_bytes_fail_visibly_and_the_worker_goes_on(
    app: App, resque: Resque, there: Any, caplog: pytest.LogCaptureFixture
) -> None:
    ran: list[int] = []
    app.task(name="fine")(ran.append)
    bad: list[str | bytes] = [entry("Nothing::Here", 1), b"\xff\x00{", b"[]", "", entry("fine", {"k": 2**70})]
    push(there, "math", *bad, entry("fine", 7))

    resque.worker(["math"], concurrency=2).run(until_empty=True)

    assert ran == [7]
    failed = failures(there)
    assert [(each["exception"], each["payload"]["class"]) for each in failed] == [
        ("UnknownTask", "Nothing::Here"),
        ("PayloadError", "(unreadable)"),
        ("PayloadError", "(unreadable)"),
        ("PayloadError", "(unreadable)"),
        ("PayloadError", "fine"),
    ]
    assert failed[1]["payload"]["args"] == ["\\xff\x00{"]
    assert "'Nothing::Here'" in failed[0]["error"]
    assert all(isinstance(each["backtrace"], list) and each["queue"] == "math" for each in failed)
    assert (there.get("resque:stat:processed"), there.get("resque:stat:failed")) == (b"6", b"5")
    said = [record.getMessage() for record in caplog.records if record.name == "tenure.bridges"]
    assert len(said) == 5
    assert said[0].startswith("an entry in queue math fails without a job: UnknownTask: no task named 'Nothing::Here'")


@pytest.mark.parametrize("queues", [["math"], ["*"]])
def test_a_bridge_says_once_that_its_namespace_has_no_queue(
    resque: Resque, there: Any, caplog: pytest.LogCaptureFixture, queues: list[str]
) -> None:
    resque.worker(queues).run(until_empty=True)
    there.sadd("resque:queues", "math")
    resque.worker(queues).run(until_empty=True)

    [said] = [record.getMessage() for record in caplog.records if record.name == "tenure.bridges"]
    assert said.endswith("namespace resque yet: if that is wrong, check the URL and the namespace")


def test_a_failure_can_be_retried_after_a_deploy(app: App, resque: Resque, there: Any) -> None:
    push(there, "math", entry("late", 1))
    resque.worker(["math"]).run(until_empty=True)
    [failed] = failures(there)
    ran: list[int] = []
    app.task(name="late")(ran.append)

    push(there, failed["queue"], json.dumps(failed["payload"]))  # what `Retry` of resque-web does
    resque.worker(["math"]).run(until_empty=True)

    assert ran == [1]


def test_a_rails_entry_runs_with_keywords_and_times(app: App, resque: Resque, there: Any) -> None:
    ran: list[Any] = []

    @app.task(aliases=["Mail"])
    def mail(number: int = 0, text: Any = None, extra: Any = None, to: str = "", at: datetime | None = None) -> None:
        ran.append((number, text, extra, to, at))

    replay(there, golden("resque-activejob", "enqueue"), "c1")

    resque.worker(["mail", "low"], concurrency=1).run(until_empty=True)

    assert ran == [
        (1, "ü", {"k": [1.5, None]}, "", None),
        (2, None, None, "ann", datetime(2030, 1, 1, tzinfo=UTC)),
        (0, None, None, "", None),
    ]


def test_a_task_that_says_so_is_retried_and_then_fails_once(app: App, resque: Resque, there: Any) -> None:
    tries: list[str] = []

    @app.task(retry=Backoff(initial=0.01, jitter=0), max_attempts=3)
    def stubborn() -> None:
        tries.append("stubborn")
        raise ValueError("no")

    @app.task
    def once() -> None:
        tries.append("once")
        raise ValueError("no")

    push(there, "math", entry("stubborn"), entry("once"))

    resque.worker(["math"]).run(until_empty=True)

    assert sorted(tries) == ["once", "stubborn", "stubborn", "stubborn"]
    assert sorted(each["payload"]["class"] for each in failures(there)) == ["once", "stubborn"]


def test_a_cancelled_job_counts_as_processed_and_not_as_failed(app: App, resque: Resque, there: Any) -> None:
    @app.task
    def doomed() -> None:
        app.cancel(task="doomed")
        time.sleep(0.1)

    push(there, "math", entry("doomed"))

    resque.worker(["math"]).run(until_empty=True)

    assert (there.get("resque:stat:processed"), failures(there)) == (b"1", [])


# Queues.


def test_queues_are_served_in_order_with_patterns_and_exclusions(app: App, resque: Resque, there: Any) -> None:
    ran: list[str] = []
    app.task(name="note")(ran.append)
    for queue in ("zebra", "slow", "ant", "critical", "Über / x"):
        push(there, queue, entry("note", queue), entry("note", queue))

    resque.worker(["critical", "*", "!slow"], concurrency=1).run(until_empty=True)

    assert ran == ["critical", "critical", "ant", "ant", "zebra", "zebra", "Über / x", "Über / x"]
    assert there.llen("resque:queue:slow") == 2


async def test_a_queue_that_is_new_is_found_by_a_pattern(app: App, resque: Resque, there: Any) -> None:
    ran: list[str] = []
    app.task(name="note")(ran.append)
    stop = await resque.worker(["*"]).start()
    await asyncio.to_thread(until, lambda: worker_ids(there))

    push(there, "brand-new", entry("note", "a"))

    await asyncio.to_thread(until, lambda: ran)
    await stop()


@pytest.mark.parametrize("says", ["true", " TRUE\n"])
async def test_nothing_is_taken_while_all_workers_are_to_pause(app: App, resque: Resque, there: Any, says: str) -> None:
    ran: list[int] = []
    app.task(name="Add")(lambda a, b: ran.append(a + b))
    there.set("resque:pause-all-workers", says)
    push(there, "math", entry("Add", 3, 4))
    stop = await resque.worker(["math"]).start()
    await asyncio.to_thread(until, lambda: worker_ids(there))
    await asyncio.sleep(0.3)
    assert (ran, there.llen("resque:queue:math")) == ([], 1)

    there.delete("resque:pause-all-workers")

    await asyncio.to_thread(until, lambda: ran == [7])
    await stop()


async def test_an_entry_that_arrives_in_a_pause_stays_where_others_see_it(app: App, resque: Resque, there: Any) -> None:
    app.task(name="Add")(lambda a, b: None)
    stop = await resque.worker(["math"]).start()
    await asyncio.to_thread(until, lambda: waiting_moves(there) == 1)
    there.set("resque:pause-all-workers", "true")

    push(there, "math", entry("Add", 3, 4))  # a wait that began before the pause moves it

    await asyncio.to_thread(until, lambda: waiting_moves(there) == 0 and there.llen("resque:queue:math") == 1)
    await stop()


def waiting_moves(there: Any) -> int:
    return sum("b" in client["flags"] for client in there.client_list())


async def test_an_idle_bridge_hears_of_an_entry_at_once(app: App, resque: Resque, there: Any) -> None:
    ran = asyncio.Event()
    loop = asyncio.get_running_loop()
    app.task(name="ring")(lambda: loop.call_soon_threadsafe(ran.set))
    stop = await resque.worker(["math", "other"]).start()
    waits = []
    for queue in ("math", "other", "math"):
        await asyncio.to_thread(until, lambda: waiting_moves(there) == 2)
        began = time.monotonic()
        push(there, queue, entry("ring"))
        await ran.wait()
        waits.append(time.monotonic() - began)
        ran.clear()
    await stop()

    assert min(waits) < 0.3


async def test_what_arrives_when_there_is_no_room_goes_back_to_the_front(app: App, resque: Resque, there: Any) -> None:
    go = threading.Event()
    app.task(name="slow")(lambda: bool(go.wait(20)))
    stop = await resque.worker(["a", "b", "c"], concurrency=1).start()
    await asyncio.to_thread(until, lambda: waiting_moves(there) == 3)

    with there.pipeline() as together:
        for queue in ("a", "b", "c"):
            together.rpush(f"resque:queue:{queue}", entry("slow"), entry("slow", queue))
        together.execute()

    lists = ["resque:queue:a", "resque:queue:b", "resque:queue:c"]
    await asyncio.to_thread(until, lambda: sum(there.llen(each) for each in lists) == 5)
    assert there.keys("resque:tenure:arrived:*") == []
    assert [there.lindex(each, -1) for each in lists] == [entry("slow", q).encode() for q in "abc"]
    assert waiting_moves(there) == 0
    there.delete(*lists)
    go.set()
    await stop()


async def test_an_idle_bridge_makes_at_most_one_call_a_second(resque: Resque, there: Any) -> None:
    stop = await resque.worker(["math", "other"]).start()
    await asyncio.to_thread(until, lambda: waiting_moves(there) == 2)
    before = calls(there)
    await asyncio.sleep(2)
    made = calls(there) - before
    await stop()

    assert made <= 3  # in two seconds: one each, and one at either edge


def calls(there: Any) -> int:
    """The calls that bridges have made; what their scripts call does not count."""
    sent = ("evalsha", "eval", "blmove", "hgetall", "hvals", "hmget")
    return sum(stats["calls"] for name, stats in there.info("commandstats").items() if name[8:] in sent)


# Signals.


@pytest.fixture
def store(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/jobs.db"


def test_on_term_what_has_not_ended_is_at_the_front_again_in_order(store: str, server: Server, there: Any) -> None:
    push(there, "math", *(entry("slow", str(number)) for number in range(5)))
    with Program(store, server.url, "math", concurrency=2, term_timeout=0.2) as program:
        until(lambda: there.llen("begun") == 2)
        program.send(SIGTERM)
        program.process.wait(15)

    assert there.lrange("resque:queue:math", 0, -1) == [entry("slow", str(number)).encode() for number in range(5)]
    assert (worker_ids(there), failures(there), there.get("resque:stat:processed")) == (set(), [], None)
    assert there.keys("resque:tenure:*") == []


def test_on_quit_a_worker_ends_what_it_has_begun(store: str, server: Server, there: Any) -> None:
    push(there, "math", *(entry("slow", str(number)) for number in range(3)))
    with Program(store, server.url, "math", concurrency=2) as program:
        until(lambda: there.llen("begun") == 2)
        program.send(SIGQUIT)
        time.sleep(0.2)
        there.set("go", 1)
        program.process.wait(15)

    assert sorted(noted(there)) == ["0", "1"]
    assert there.lrange("resque:queue:math", 0, -1) == [entry("slow", "2").encode()]
    assert there.get("resque:stat:processed") == b"2"


def test_usr2_takes_nothing_until_cont_and_usr1_fails_what_runs_in_children(
    store: str, server: Server, there: Any
) -> None:
    with Program(store, server.url, "math", concurrency=1) as program:
        push(there, "math", entry("isolated", "x"))
        until(lambda: there.llen("begun") == 1)
        program.send(SIGUSR1)
        [failed] = until(lambda: failures(there))
        assert failed["payload"] == {"class": "isolated", "args": ["x"]}
        assert there.get("resque:stat:failed") == b"1"

        program.send(SIGUSR2)
        time.sleep(0.5)
        push(there, "math", entry("note", "later"))
        time.sleep(0.5)
        assert noted(there) == []
        program.send(SIGCONT)
        until(lambda: noted(there) == ["later"])


# Other workers.


def test_the_start_of_a_ruby_worker_leaves_a_live_bridge_alone(resque: Resque, there: Any) -> None:
    async def play() -> None:
        stop = await resque.worker(["math"], concurrency=1).start()
        before = await asyncio.to_thread(until, lambda: worker_ids(there))
        beats = there.hgetall("resque:workers:heartbeat")
        replay(there, golden("resque-ruby", "worker-start"), "c2")
        assert before < worker_ids(there)
        assert beats.items() <= there.hgetall("resque:workers:heartbeat").items()
        await stop()

    asyncio.run(play())


# Producing.


@pytest.mark.parametrize(
    ("trace", "scene", "name", "client"),
    [("resque-ruby", "enqueue", "Add", "ruby"), ("resque-node", "enqueue", "add", "node")],
)
def test_a_producer_leaves_the_keys_of_the_client(
    resque: Resque, there: Any, trace: str, scene: str, name: str, client: Any
) -> None:
    resque.enqueue(name, 1, 2, queue="math", client=client)

    expected = golden(trace, scene).keys
    expected.pop("resque:connection_test_key", None)
    assert keys(there) == expected


def test_a_job_for_later_has_the_keys_of_node(resque: Resque, there: Any) -> None:
    at = datetime.fromtimestamp(1_899_999_999.5, UTC)

    resque.enqueue("add", 3, 4, queue="math", at=at, client="node")
    resque.enqueue("add", 5, 6, queue="math", at=at, client="node")

    expected = golden("resque-node", "enqueue-at").keys
    expected.pop("resque:connection_test_key")
    found = keys(there)
    assert found.pop("resque:delayed_queue_schedule")[0][0] == "1900000000"
    expected.pop("resque:delayed_queue_schedule")
    assert found == expected


async def test_a_producer_has_an_async_twin(resque: Resque, there: Any) -> None:
    await resque.aenqueue("Notify", 42, queue="mail")

    assert there.lrange("resque:queue:mail", 0, -1) == [b'{"class":"Notify","args":[42]}']
    with pytest.raises(UseAsync):
        resque.enqueue("Notify", 42, queue="mail")


def test_wrong_arguments_are_refused_before_anything_is_pushed(resque: Resque, there: Any) -> None:
    with pytest.raises(PayloadError):
        resque.enqueue("Notify", object(), queue="mail")
    with pytest.raises(InvalidOption, match="'ruby' or 'node'"):
        resque.enqueue("Notify", queue="mail", client="perl")  # type: ignore[arg-type]
    with pytest.raises(InvalidOption, match="time zone"):
        resque.enqueue("Notify", queue="mail", at=datetime(2030, 1, 1))
    with pytest.raises(TypeError, match="no keyword arguments, got to"):
        resque.remote("Notify", queue="mail").enqueue(1, to="ann")
    with pytest.raises(PayloadError):
        resque.remote("Notify", queue="mail").enqueue(object())

    assert keys(there) == {}


def test_remote_pushes_what_was_committed_and_nothing_that_was_rolled_back(
    tmp_path: Path, server: Server, there: Any
) -> None:
    with App(f"sqlite:///{tmp_path}/jobs.db", log=False) as app:
        resque = Resque(app, server.url)
        app.stats()  # the file has its tables
        notify = resque.remote("Notify", queue="mail")
        database = sqlite3.connect(tmp_path / "jobs.db")
        for number, end in ((1, database.rollback), (2, database.commit)):
            database.execute("BEGIN IMMEDIATE")
            notify.using(connection=database).enqueue(number)
            end()
        database.close()
        resque.worker(["none"]).run(until_empty=True)

        assert there.lrange("resque:queue:mail", 0, -1) == [b'{"class":"Notify","args":[2]}']


def test_remote_takes_the_options_of_jobs(app: App, resque: Resque, there: Any) -> None:
    notify = resque.remote("Notify", queue="mail", client="node").using(unique=True)

    first, again, other = notify.enqueue(1), notify.enqueue(1), notify.enqueue(2)
    later = notify.using(delay=timedelta(hours=1)).enqueue(3)
    resque.worker(["none"]).run(until_empty=True)

    assert first.id == again.id != other.id
    assert there.lrange("resque:queue:mail", 0, -1) == [
        b'{"class":"Notify","queue":"mail","args":[1]}',
        b'{"class":"Notify","queue":"mail","args":[2]}',
    ]
    assert app.job(later.id).state == "waiting"


async def test_a_push_of_the_same_job_does_nothing_the_second_time(resque: Resque, there: Any) -> None:
    foreign = resque.connect(())

    assert await foreign.push("mail", b"{}", job_id="7")
    assert not await foreign.push("mail", b"{}", job_id="7")

    assert there.llen("resque:queue:mail") == 1
    assert 604_000 < there.ttl("resque:tenure:sent:7") <= 604_800
    await foreign.close()


def test_an_app_has_one_bridge_to_a_namespace(app: App, resque: Resque) -> None:
    assert Resque(app, resque.url)._push is resque._push
    assert Resque(app, resque.url, namespace="{mail}").remote("A", queue="b").name.startswith("resque:push:-mail-")
    with pytest.raises(InvalidOption, match=r"'resque' at redis://127.* already: use that one, or make another app"):
        Resque(app, "redis://elsewhere")


# What else Ruby's workers and schedulers do.


def test_a_ruby_worker_without_a_heartbeat_for_five_minutes_is_pruned_as_in_the_trace(
    app: App, server: Server, there: Any
) -> None:
    record = '{"queue":"math","run_at":"2026-11-17T17:45:44Z","payload":{"class":"Add","args":[1,2]},"worker":"x"}'
    now = datetime.now(UTC).replace(microsecond=0)
    ages = {"hostr:1:math": 301, "hostr:2:math": 298, "hostr:3:idle": 1000, "hostr.tenure:4+1:math": 1000}
    for worker, age in ages.items():
        there.hset("resque:workers:heartbeat", worker, (now - timedelta(seconds=age)).isoformat())
    there.hset("resque:tenure:workers", "hostr.tenure:4+1:math", "a bridge")
    for worker in (
        *ages,
        "hostn:5:math",
        "hostp:6:math",
    ):  # the last two are Node's and pyres's: they have no heartbeat
        there.sadd("resque:workers", worker)
        there.set(f"resque:worker:{worker}:started", "x")
        there.set(f"resque:stat:processed:{worker}", 7)
        if worker != "hostr:3:idle":
            there.set(f"resque:worker:{worker}", record)
    foreign = Resque(app, server.url, prune=True).connect(["math"])

    async def play() -> None:
        await foreign.enter("w1", 1)
        await foreign.leave("w1")
        await foreign.close()

    asyncio.run(play())

    assert worker_ids(there) == {"hostr:2:math", "hostr.tenure:4+1:math", "hostn:5:math", "hostp:6:math"}
    [failed] = [each.decode() for each in there.lrange("resque:failed", 0, -1)]
    expected = golden("resque-ruby-prune", "worker-start").keys["resque:failed"][0]
    assert alike(failed) == alike(expected.replace("hostr.tenure:999993+1:math", "hostr:1:math"))
    assert not any("hostr:1:" in key or "hostr:3:" in key for key in keys(there))
    assert there.get("resque:stat:failed") is None
    assert 50 < there.ttl("resque:pruning_dead_workers_in_progress") <= 60


async def test_delayed_jobs_that_are_due_reach_their_queues_in_order(app: App, server: Server, there: Any) -> None:
    resque = Resque(app, server.url, schedule=True)
    now = datetime.now(UTC)
    for ago in (1, 30, 60):
        await resque.aenqueue("note", ago, queue="math", at=now - timedelta(seconds=ago + 1))
    await resque.aenqueue("note", 0, queue="math", at=now + timedelta(hours=1), client="node")
    there.rpush("resque:delayed:5", "not JSON")
    there.zadd("resque:delayed_queue_schedule", {"5": 5, "6": 6})
    foreign = resque.connect(["math"])

    await foreign.renew("w1", [])

    assert [json.loads(each)["args"] for each in there.lrange("resque:queue:math", 0, -1)] == [[60], [30], [1]]
    assert there.zcard("resque:delayed_queue_schedule") == 1
    assert len(there.keys("resque:timestamps:*")) == 1
    assert there.lrange("resque:tenure:unscheduled", 0, -1) == [b"not JSON"]
    assert foreign.renew_every == 1
    await foreign.close()


def test_a_bridge_that_schedules_runs_what_was_due(app: App, server: Server, there: Any) -> None:
    resque = Resque(app, server.url, schedule=True)
    ran = threading.Event()
    app.task(name="note")(ran.set)

    async def play() -> None:
        stop = await resque.worker(["math"]).start()
        await resque.aenqueue("note", queue="math", at=datetime.now(UTC) - timedelta(seconds=1))
        await asyncio.to_thread(until, ran.is_set)
        await stop()

    asyncio.run(play())


# Outages.


@pytest.mark.parametrize("seconds", [2.0, pytest.param(30.0, marks=pytest.mark.long)])
@pytest.mark.timeout(120)
async def test_while_resque_is_away_jobs_end_and_their_ends_are_written_later(
    tmp_path: Path, app: App, seconds: float
) -> None:
    server = Server(tmp_path / "away").start()
    resque = Resque(app, f"{server.url}?timeout=0.3")
    go = threading.Event()
    ended: list[int] = []

    @app.task
    def slow(number: int) -> None:
        go.wait(60)
        ended.append(number)

    with server.client() as there:
        push(there, "math", *(entry("slow", number) for number in range(6)))
        stop = await resque.worker(["math"], concurrency=3).start()
        await asyncio.to_thread(until, lambda: there.llen("resque:queue:math") == 3)
        await asyncio.to_thread(
            until, lambda: sum(there.exists(f"resque:worker:{each}") for each in worker_ids(there)) == 3
        )
        server.pause()
        go.set()
        await asyncio.to_thread(until, lambda: len(ended) == 3)
        await asyncio.sleep(seconds)
        assert len(ended) == 3
        server.go_on()
        await asyncio.to_thread(until, lambda: there.get("resque:stat:processed") == b"6", 30)
        await stop()

        assert sorted(ended) == list(range(6))
        assert there.hlen("resque:tenure:custody") == 0
    server.kill()


async def test_while_the_own_store_is_away_nothing_is_popped(tmp_path: Path, server: Server, there: Any) -> None:
    own = Server(tmp_path / "own").start()
    async with App(f"{own.url}?timeout=0.3", log=False) as app:
        app.task(name="fine")(lambda number: None)
        stop = await Resque(app, server.url).worker(["math"], concurrency=2).start()
        await asyncio.to_thread(until, lambda: waiting_moves(there) == 1)
        own.pause()
        await asyncio.sleep(1)
        push(there, "math", *(entry("fine", number) for number in range(20)))
        await asyncio.sleep(1.5)
        taken = 20 - there.llen("resque:queue:math")
        own.go_on()
        await asyncio.to_thread(until, lambda: there.get("resque:stat:processed") == b"20", 30)
        await stop()

    assert taken <= 2  # what the free slots had room for before the outage was noticed
    own.kill()
