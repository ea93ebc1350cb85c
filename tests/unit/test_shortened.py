"""`shortened`: jobs as listings show them in brief."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from tenure.core.job import ErrorInfo, JobRecord, State, shortened

JOB = JobRecord(
    id="a-long-identity",
    task="a.long.name",
    queue="q",
    state=State.FAILED,
    payload="äöü".encode(),
    tags=("a-long-tag",),
    headers={"tenant": "a long text"},
    result='"äöü"',
    error=ErrorInfo("ValueError", "äöüäöü", "Traceback …", "output"),
)


def test_without_a_limit_a_job_is_as_it_is() -> None:
    assert shortened(JOB, None) is JOB


def test_payload_is_cut_by_bytes_and_texts_by_characters() -> None:
    brief = shortened(JOB, 3)

    assert brief.payload == "äöü".encode()[:3]
    assert (brief.result, brief.error) == ('"äö', ErrorInfo("Val", "äöü"))


@pytest.mark.parametrize("most", [0, 1, 3, 10, 1000])
def test_traceback_and_output_go_and_the_rest_stays(most: int) -> None:
    brief = shortened(JOB, most)

    assert brief.error is not None
    assert (brief.error.traceback, brief.error.output) == (None, None)
    assert replace(brief, payload=JOB.payload, result=JOB.result, error=JOB.error) == JOB


def test_what_is_short_stays() -> None:
    job = JobRecord(id="1", task="t", queue="q", state=State.WAITING, payload=b"{}")

    assert shortened(job, 2) == job
    assert shortened(replace(job, result="", error=ErrorInfo("E", "")), 2) == replace(
        job, result="", error=ErrorInfo("E", "")
    )
