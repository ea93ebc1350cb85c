"""The soak of `make soak`, for a few seconds, so that it is in order when somebody needs it; and that it finds fault."""

from __future__ import annotations

import msgspec
import pytest

from tenure.core.job import JobRecord, State
from tests.soak.__main__ import main
from tests.soak.growth import Measure, changes
from tests.soak.subjects import SUBJECTS
from tests.soak.verdict import against_arguments

from .scale import lengths


@pytest.mark.timeout(150)
@pytest.mark.parametrize("store", lengths("postgres", *sorted(SUBJECTS.keys() - {"postgres"})))
def test_a_short_soak_finds_nothing_wrong(store: str, capsys: pytest.CaptureFixture[str]) -> None:  # I1 to I9, I16, I20
    code = main(["--minutes", "0.15", "--stores", store, "--seed", "4"])

    said = capsys.readouterr().out
    assert code == 0, said
    for what in ("jobs", "starts", "kills"):
        assert f" {what}," in said


def test_what_goes_on_growing_is_told_from_what_has_found_its_size() -> None:  # I16
    leak, plateau = Measure("leak", slack=10), Measure("plateau", slack=10)
    samples = [(at, {leak: at, plateau: min(at, 50) + at % 3}) for at in map(float, range(200))]

    grown = {growth.measure: growth.too_much for growth in changes(samples, 200)}

    assert grown == {leak: True, plateau: False}


def test_jobs_that_end_otherwise_than_they_must_are_found() -> None:  # I1, I13
    def ended(task: str, arguments: list[object], result: object, at: float = 1.0) -> JobRecord:
        payload = msgspec.json.encode({"args": arguments})
        job = JobRecord(f"{task}-{at:g}", task, "q", State.SUCCEEDED, payload, created_at=at, ended_at=at + 1)
        return msgspec.structs.replace(job, result=msgspec.json.encode(result).decode())

    right = [
        ended("quick", [7], 7),
        ended("parent", [7], 7),
        ended("child", ["parent-1"], "parent-1"),
    ]
    wrong = [
        ended("quick", [7], 8, 3),
        ended("stumble", [7, 3], 7),
        ended("parent", [7], 7, 3),
    ]

    assert list(against_arguments(right)) == []
    assert len(list(against_arguments([*right, *wrong]))) == len(wrong)
