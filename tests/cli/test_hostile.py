"""What anybody may have stored is shown, never obeyed (I22)."""

from __future__ import annotations

import asyncio
import base64
import json

import pytest

from tenure.core.job import ErrorInfo, NewJob, State, new_id
from tenure.core.lease import new_nonce
from tenure.core.lifecycle import Finish
from tenure.stores import open_store
from tenure.stores.values import LeaseRequest

from .conftest import Tenure, document

HOSTILE = "\x1b[2J\x1b]0;owned\x07 \u202egnp.exe\r\nroot: all is well [bold red]x[/] \x9b31m \x7f"
OBEYED = set("\x1b\x07\r\u202e\x9b\x7f")


@pytest.fixture
async def hostile(url: str) -> str:
    """A failed job whose payload and error are full of what terminals obey."""
    payload = json.dumps({"args": [HOSTILE]}, ensure_ascii=False).encode()
    new = NewJob(id=new_id(), task="task", queue="queue", payload=payload)
    store = open_store(url)
    await store.enqueue([new])
    request = LeaseRequest(queues=("queue",), limit=1, worker="w", ttl=30, nonce=new_nonce())
    [lease] = (await store.lease(request)).leases
    await store.settle([(lease, Finish(State.FAILED, error=ErrorInfo("Evil", HOSTILE, f"Traceback\n{HOSTILE}")))])
    await store.close()
    return new.id


@pytest.mark.parametrize("terminal", [{}, {"FORCE_COLOR": "1", "COLUMNS": "200"}])
def test_a_listing_shows_hostile_text_as_escapes(tenure: Tenure, hostile: str, terminal: dict[str, str]) -> None:
    shown = tenure("jobs", "--state", "failed", NO_COLOR="1", **terminal).stdout

    assert r"Evil: \x1b[2J\x1b]0;owned\x07 \u202egnp.exe\r\nroot" in shown
    assert "[bold red]x[/]" in shown
    assert len(shown.splitlines()) == 2
    assert OBEYED.isdisjoint(shown.replace("\x1b[1m", "").replace("\x1b[2m", "").replace("\x1b[0m", ""))


def test_one_job_shows_hostile_text_as_escapes(tenure: Tenure, hostile: str) -> None:
    shown = tenure("job", hostile).stdout

    assert OBEYED.isdisjoint(shown)
    assert "\nroot: all is well" not in shown
    assert "[bold red]x[/]" in shown


@pytest.mark.parametrize("command", [("explain",), ("failed", "show")])
def test_what_became_of_it_shows_hostile_text_as_escapes(
    tenure: Tenure, hostile: str, command: tuple[str, ...]
) -> None:
    shown = tenure(*command, hostile).stdout

    assert OBEYED.isdisjoint(shown)
    assert r"Evil: \x1b[2J\x1b]0;owned\x07" in shown
    assert "\nroot: all is well" not in shown


@pytest.mark.parametrize("arguments", [("jobs",), ("job",)])
def test_json_is_ascii_and_gives_hostile_text_back_exactly(tenure: Tenure, hostile: str, arguments: tuple[str]) -> None:
    result = tenure(*arguments, *([hostile] if arguments == ("job",) else []), "--json")

    shown = document(result)
    job = shown["jobs"][0] if "jobs" in shown else shown
    assert result.stdout.isascii()
    assert OBEYED.isdisjoint(result.stdout)
    assert job["payload"] == {"args": [HOSTILE]}
    assert job["error"]["message"] == HOSTILE


@pytest.mark.parametrize("payload", [b"{", b"", b'{"args": [NaN]}', b'{"args": [1e999]}', b"[" * 100_000])
async def test_a_payload_that_is_no_json_is_shown_as_it_is(tenure: Tenure, url: str, payload: bytes) -> None:
    new = NewJob(id=new_id(), task="task", queue="queue", payload=payload)
    store = open_store(url)
    await store.enqueue([new])
    await store.close()

    as_json = await asyncio.to_thread(tenure, "job", new.id, "--json")
    as_text = await asyncio.to_thread(tenure, "job", new.id)

    assert base64.b64decode(document(as_json)["payload_base64"]) == payload
    assert as_text.exit_code == 0


async def test_a_raw_payload_is_shown_as_it_is(tenure: Tenure, url: str) -> None:
    new = NewJob(id=new_id(), task="task", queue="queue", payload=b"\xff\x1b[2J", raw=True)
    store = open_store(url)
    await store.enqueue([new])
    await store.close()

    as_json = await asyncio.to_thread(tenure, "job", new.id, "--json")
    as_text = await asyncio.to_thread(tenure, "job", new.id)

    assert base64.b64decode(document(as_json)["payload_base64"]) == new.payload
    assert r"b'\xff\x1b[2J'" in as_text.stdout


def test_a_hostile_name_in_an_answer_stays_on_its_line(tenure: Tenure, hostile: str) -> None:
    refused = tenure("cancel", f"x{HOSTILE}")

    assert refused.exit_code == 2
    assert refused.stderr.count("\n") == 1
    assert OBEYED.isdisjoint(refused.stderr)
