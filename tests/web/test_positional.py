"""Positional arguments have the names of their parameters if the code of the task is here, and are hidden by them."""

from __future__ import annotations

import pytest
from starlette.testclient import TestClient

from tenure import App
from tenure.web import Identity, dashboard
from tenure.web.arguments import naming_of


@pytest.fixture
def app() -> App:
    app = App("memory://positional", log=False)
    app.reset()

    @app.task
    def charge(order: int, card: str, /, note: str = "") -> None: ...

    @app.task
    def send(order: int, card: str = "", *, note: str = "") -> None: ...

    @app.task
    def many(order: int, *cards: str) -> None: ...

    return app


def test_a_positional_secret_is_hidden_on_every_page_and_in_the_api(app: App) -> None:
    job = app.tasks["send"].enqueue(42, "4111-1111", note="gift")
    with TestClient(dashboard(app, auth=lambda _: Identity("ann", "operate"))) as client:
        for path in (f"/jobs/{job.id}", "/jobs", f"/jobs/{job.id}/again", f"/api/v1/jobs/{job.id}", "/api/v1/jobs"):
            shown = client.get(path).text
            assert "4111" not in shown, path
            assert "order" in shown, path
            assert "gift" in shown, path
        assert job.id not in client.get("/jobs?text=4111").text
        assert job.id in client.get("/jobs?text=gift").text


def test_a_job_runs_again_with_its_positional_secret(app: App) -> None:
    from tenure.web.written import written_call

    job = app.tasks["send"].enqueue(42, "4111-1111")
    record = app.job(job.id).record
    assert record is not None
    assert '"card": "•••"' in written_call(record, naming_of(app.tasks["send"]))


@pytest.mark.parametrize(
    ("task", "call", "shown"),
    [
        ("send", {"args": [1, "x"]}, {"kwargs": {"order": 1, "card": "x"}}),
        ("send", {"args": [1], "kwargs": {"note": "n"}}, {"kwargs": {"order": 1, "note": "n"}}),
        ("send", {"args": [1, "x", "y"]}, {"args": [1, "x", "y"]}),
        ("send", {"v": 2, "args": [1, "x"]}, {"v": 2, "args": [1, "x"]}),
        ("many", {"args": [1, "x"]}, {"args": [1, "x"]}),
        ("send", {"kwargs": {"order": 1}}, {"kwargs": {"order": 1}}),
        ("send", {"args": "no list"}, {"args": "no list"}),
        ("send", ["no", "call"], ["no", "call"]),
        ("charge", {"args": [1]}, {"args": [1]}),
        (None, {"args": [1, "x"]}, {"args": [1, "x"]}),
    ],
)
def test_only_arguments_whose_parameter_is_known_are_named(
    app: App, task: str | None, call: object, shown: object
) -> None:
    assert naming_of(None if task is None else app.tasks[task])(call) == shown
