"""`tenure bridge`: which bridge it runs, with the options of `tenure work`, and what it gives back."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis

from tenure.cli.bridge import OTHER, bridge
from tenure.cli.work import work
from tenure.core.job import new_id

from .conftest import Tenure, run_process
from .test_refusals import sentence


class Yard:
    """A program with an app and a Resque namespace of its own."""

    def __init__(self, folder: Path, url: str) -> None:
        self.redis_url = url
        self.namespace = new_id()
        self.client = redis.Redis.from_url(url)
        self.path = folder / "yard.py"
        self.path.write_text(
            f"""
from tenure import App
from tenure.bridges import Resque

app = App("sqlite:///{folder}/jobs.db")
resque = Resque(app, "{url}", namespace="{self.namespace}")


@app.task(aliases=["Sweep"], retry=None)
def sweep(n: int) -> int:
    return 10 // n
"""
        )

    def push(self, *numbers: int, queue: str = "yard") -> None:
        self.client.sadd(f"{self.namespace}:queues", queue)
        for n in numbers:
            self.client.rpush(f"{self.namespace}:queue:{queue}", json.dumps({"class": "Sweep", "args": [n]}))

    def counted(self, what: str) -> int:
        return int(self.client.get(f"{self.namespace}:stat:{what}") or 0)

    def waiting(self, queue: str = "yard") -> list[int]:
        return [json.loads(each)["args"][0] for each in self.client.lrange(f"{self.namespace}:queue:{queue}", 0, -1)]

    def custody(self) -> int:
        return self.client.hlen(f"{self.namespace}:tenure:custody")


@pytest.fixture
def yard(tmp_path: Path, redis_server_url: str) -> Iterator[Yard]:
    made = Yard(tmp_path, redis_server_url)
    yield made
    for key in made.client.scan_iter(match=f"{made.namespace}:*"):
        made.client.unlink(key)
    made.client.close()


def test_the_jobs_of_another_system_run_until_none_is_left(yard: Yard) -> None:
    yard.push(*range(20))

    ran = run_process("bridge", "resque", f"{yard.path}:resque", "--until-empty", "-c", "4")

    assert ran.returncode == 0, ran.stderr
    assert f", resque queues * at {yard.redis_url}, tasks " in ran.stderr
    assert (yard.counted("processed"), yard.counted("failed"), yard.custody()) == (20, 1, 0)


def test_processes_under_a_supervisor_share_the_queues_that_are_named(yard: Yard) -> None:
    yard.push(*range(1, 21))
    yard.push(1, 2, queue="other")

    ran = run_process("bridge", "resque", f"{yard.path}:app", "-p", "2", "-q", "y*", "--until-empty")

    assert ran.returncode == 0, ran.stderr
    assert (yard.counted("processed"), yard.counted("failed"), yard.custody()) == (20, 0, 0)
    assert yard.waiting("other") == [1, 2]


def test_a_url_makes_a_bridge_for_an_app(yard: Yard) -> None:
    yard.push(1)

    ran = run_process(
        "bridge", "resque", f"{yard.path}:app", "--url", yard.redis_url, "--namespace", yard.namespace, "--until-empty"
    )

    assert ran.returncode == 0, ran.stderr
    assert yard.counted("processed") == 1


def test_what_bridges_that_are_gone_have_left_is_given_back(yard: Yard, tenure: Tenure) -> None:
    yard.push(3)
    key = f"{yard.namespace}:tenure:custody"
    for n in (1, 2):  # two entries that a worker took before it died
        yard.client.hset(key, f"000{n}", f'["gone:1","yard",1,false]\n{json.dumps({"class": "Sweep", "args": [n]})}')

    done = tenure("bridge", "resque", f"{yard.path}:resque", "--return")

    assert done.exit_code == 0, done.output
    assert "gave back 2 entries to resque" in done.output
    assert (yard.waiting(), yard.custody()) == ([1, 2, 3], 0)


def test_what_a_live_bridge_holds_stays_and_the_exit_code_says_so(yard: Yard, tenure: Tenure) -> None:
    entry = json.dumps({"class": "Sweep", "args": [1]})
    yard.client.hset(f"{yard.namespace}:tenure:custody", "0001", f'["alive:1","yard",1,false]\n{entry}')
    yard.client.set(f"{yard.namespace}:tenure:beat:alive:1", "1")

    done = tenure("bridge", "resque", f"{yard.path}:resque", "--return")

    assert done.exit_code == 1, done.output
    assert "1 stay in custody: their bridge is at work" in done.output
    assert yard.custody() == 1


@pytest.mark.parametrize(
    ("target", "options", "said"),
    [
        ("app", ["--namespace", "x"], "--namespace needs --url"),
        ("resque", ["--url", "redis://elsewhere"], "says where resque is: leave out --url and --namespace"),
        ("sweep", [], "is of type Task, neither a bridge to resque nor an App"),
        ("resq", [], "did you mean 'resque'?"),
    ],
)
def test_what_is_no_bridge_is_refused_in_one_sentence(
    yard: Yard, tenure: Tenure, target: str, options: list[str], said: str
) -> None:
    assert said in sentence(tenure, "bridge", "resque", f"{yard.path}:{target}", *options)


def test_an_app_without_a_bridge_needs_a_url(tenure: Tenure, tmp_path: Path) -> None:
    (tmp_path / "bare.py").write_text("from tenure import App\napp = App('memory://')\n")

    assert "say where it is with --url" in sentence(tenure, "bridge", "resque", f"{tmp_path}/bare.py:app")


def test_every_option_of_tenure_work_is_one_of_tenure_bridge() -> None:
    own = {parameter.name for parameter in bridge.params}

    assert {parameter.name for parameter in work.params} - {*OTHER} <= own
    assert {"kind", "target", "url", "namespace", "queues", "keep", "give_back"} <= own
