"""The waterfall of a run: to scale, and many alike in a row as one."""

from __future__ import annotations

from typing import Any

from tenure.core.job import ErrorInfo, JobRecord, State
from tenure.web.waterfall import SCALE, waterfall_of


def step(name: str, created: float, started: float | None, ended: float | None, **fields: Any) -> JobRecord:
    return JobRecord(
        **{
            "id": f"{name}-{created}", "task": f"order.{name}", "queue": "q", "payload": b"", "attempt": 1, "worker": "w",
            "state": State.RUNNING if ended is None else State.SUCCEEDED,
            "created_at": created, "started_at": started, "ended_at": ended, **fields,
        }
    )  # fmt: skip


def test_bars_are_to_scale() -> None:
    steps = [step("pack", 100.0, 110.0, 120.0), step("ship", 120.0, 120.0, 140.0)]
    [pack, ship] = waterfall_of(steps, "order", 200.0).rows

    assert [(bar.kind, bar.x, bar.width) for bar in pack.bars] == [("wait", 0, 250), ("run", 250, 250)]
    assert [(bar.kind, bar.x, bar.width) for bar in ship.bars] == [("run", 500, 500)]
    assert (pack.name, pack.waited, pack.took) == ("pack", "10s", "10s")


def test_a_running_step_reaches_until_now() -> None:
    [row] = waterfall_of([step("ship", 100.0, 150.0, None)], "order", 200.0).rows

    assert row.bars[-1].x + row.bars[-1].width == SCALE
    assert (row.took, row.label) == ("50s", "running")


def test_a_waiting_step_has_no_run() -> None:
    [row] = waterfall_of([step("ship", 100.0, None, None, state=State.WAITING)], "order", 200.0).rows

    assert [bar.kind for bar in row.bars] == ["wait"]
    assert (row.waited, row.took) == ("2m", "")


def test_a_parked_step_waits_though_it_has_run() -> None:
    [row] = waterfall_of([step("approve", 100.0, 110.0, None, state=State.BLOCKED)], "order", 200.0).rows

    assert [bar.kind for bar in row.bars] == ["wait"]
    assert (row.took, row.says) == ("", "waits to be completed")


def test_five_alike_in_a_row_are_one() -> None:
    steps = [step("look", float(at), at + 0.5, at + 1.0) for at in range(5)]
    waterfall = waterfall_of([*steps, step("end", 5.0, 5.0, 6.0)], "order", 9.0)

    assert [(row.name, row.count, len(row.bars)) for row in waterfall.rows] == [("look", 5, 10), ("end", 1, 1)]
    assert [row.count for row in waterfall_of(steps[:4], "order", 9.0).rows] == [1] * 4


def test_steps_in_another_state_are_not_alike() -> None:
    steps = [step("look", float(at), at + 0.5, at + 1.0) for at in range(5)]
    failed = step("look", 5.0, 5.0, 6.0, state=State.FAILED, error=ErrorInfo("ValueError", "no\nmore"))

    assert [(row.count, row.says) for row in waterfall_of([*steps, failed], "order", 9.0).rows] == [
        (5, ""),
        (1, "ValueError: no"),
    ]


def test_ticks_are_round() -> None:
    ticks = waterfall_of([step("ship", 0.0, 0.0, 130.0)], "order", 130.0).ticks

    assert [words for _, words in ticks] == ["0", "30s", "1m", "1m 30s", "2m"]
    assert ticks[1][0] == round(30 / 130 * SCALE, 1)


def test_a_run_without_steps_has_no_rows() -> None:
    assert waterfall_of([], "order", 1.0).rows == ()
