"""The app and its options."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

import tenure
from tenure import App, Backoff, Retention
from tenure.errors import InvalidName, InvalidOption, InvalidUrl, StoreError


def test_the_public_names() -> None:
    assert set(tenure.__all__) == {
        "AbortReason", "App", "At", "Backoff", "Context", "Cron", "Dequeueing", "Done", "Enqueueing", "Every", "Fail", "Flow",
        "FlowRun", "Job", "Next", "RemoteFlow", "Reschedule", "Retention", "Retry", "Schedule", "State", "Task", "Wait",
        "add_type", "current", "errors", "events",
    }  # fmt: skip
    assert all(hasattr(tenure, name) for name in tenure.__all__)


def test_the_store_is_that_of_the_environment_or_a_file_here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TENURE_URL", "memory://from-environment")
    assert App().url == "memory://from-environment"
    assert App("memory://given").url == "memory://given"
    monkeypatch.delenv("TENURE_URL")
    assert App().url == "sqlite:///tenure.db"


def test_options_are_given_by_name_and_in_any_unit() -> None:
    options = App(
        "memory://", retry=None, max_attempts=None, lease=timedelta(minutes=1), renew=10, wakeup=False
    ).options

    assert (options.retry, options.max_attempts, options.lease, options.renew, options.wakeup) == (
        None,
        None,
        60.0,
        10.0,
        False,
    )
    assert App("memory://").options.retry == Backoff()


def test_retention_is_one_for_all_or_one_for_each_queue() -> None:
    short, long = Retention(succeeded=1), Retention(succeeded=99)

    assert App("memory://", keep=short).options.keep == short
    by_queue = App("memory://", keep={"mail": long, "*": short}).options
    assert (by_queue.keep, dict(by_queue.keep_in)) == (short, {"mail": long})
    assert App("memory://", keep={"mail": long}).options.keep == Retention()


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"lease": 0.5}, InvalidOption),
        ({"lease": 10, "renew": 6}, InvalidOption),
        ({"max_attempts": 0}, InvalidOption),
        ({"payload_limit": 0}, InvalidOption),
        ({"default_queue": "a b"}, InvalidName),
        ({"default_queue": ""}, InvalidName),
        ({"keep": {"": Retention()}}, InvalidName),
        ({"keep": {"a b": Retention()}}, InvalidName),
    ],
)
def test_options_are_checked_when_the_app_is_made(options: dict[str, Any], error: type[Exception]) -> None:
    with pytest.raises(error):
        App("memory://", **options)


@pytest.mark.parametrize("url", ["mysql://x", "jobs.db", "", "sqlite://", "mysql://user:secret@host/0"])
def test_a_url_that_names_no_store_is_told_in_one_sentence_without_its_password(url: str) -> None:
    with pytest.raises(InvalidUrl) as error:
        App(url or "nothing").jobs()

    assert "secret" not in str(error.value)
    assert "\n" not in str(error.value)


def test_a_password_is_not_shown() -> None:
    assert repr(App("postgresql://ann:secret@host/db")) == "<App postgresql://•••@host/db>"


def test_worker_options_are_passed_on() -> None:
    app = App("memory://")

    @app.task
    def add() -> None: ...

    worker = app.worker("mail", tasks=[add, "other"], concurrency=4, id="w", lease=60, poll=timedelta(seconds=2))

    assert (worker.options.queues, worker.options.tasks, worker.options.concurrency) == (("mail",), ("add", "other"), 4)
    assert (worker.options.id, worker.options.lease, worker.options.poll) == ("w", 60.0, 2.0)
    assert app.worker(["a", "b*"]).options.queues == ("a", "b*")
    assert app.worker().options.queues == ("*",)


def test_middleware_is_kept_in_the_order_of_registration() -> None:
    app = App("memory://")

    @app.middleware
    async def outer(ctx: Any, call_next: Any) -> Any: ...
    @app.middleware
    async def inner(ctx: Any, call_next: Any) -> Any: ...

    assert app.internals.middlewares == [outer, inner]


def test_settings_are_looked_up_on_the_task_then_on_the_app() -> None:
    app = App("memory://", retry=None, max_attempts=7, lease=20)

    @app.task(max_attempts=2, lease=50)
    def own() -> None: ...
    @app.task
    def plain() -> None: ...

    assert (app.internals.settings("own").policy.max_attempts, app.internals.settings("own").lease) == (2, 50.0)
    assert (app.internals.settings("plain").policy.max_attempts, app.internals.settings("plain").lease) == (7, 20.0)
    assert app.internals.settings("plain").policy.retry is None
    assert own.name in app.tasks
    assert plain.name in app.tasks


def test_a_relative_file_is_made_where_the_program_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    app = App("sqlite:///here.db")
    app.remote("t").enqueue(1)
    app.close()

    assert (tmp_path / "here.db").exists()


def test_a_store_in_memory_is_the_apps_own_unless_it_has_a_name() -> None:
    one, other = App("memory://"), App("memory://")
    named, same = App("memory://shared-by-two"), App("memory://shared-by-two")

    one.remote("t").enqueue(1)
    named.remote("t").enqueue(1)

    assert (len(one.jobs()), len(other.jobs()), len(same.jobs())) == (1, 0, 1)
    same.reset()


async def test_a_store_in_memory_can_be_emptied(tmp_path: Path) -> None:
    app = App("memory://")

    @app.task
    async def double(n: int) -> int:
        return 2 * n

    async with app.worker():
        assert await (await double.using(unique="k", window=60).aenqueue(1)).aresult(10) == 2
        await app.areset()
        assert await app.ajobs() == []
        assert await (await double.using(unique="k", window=60).aenqueue(2)).aresult(10) == 4
    with pytest.raises(StoreError, match="use memory:// in tests"):
        await App(f"sqlite:///{tmp_path}/jobs.db").areset()
