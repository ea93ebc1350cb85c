"""Every stage of a completion against every event: the stage that follows, or None where the event is an error."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tenure.tasks.completion.stage import Stage, StageEvent, next_stage

RUNNING, OPEN, SETTLING, JOINED, UNKNOWN, FINAL = Stage

TABLE: dict[StageEvent, Sequence[Stage | None]] = {
    # from:                       RUNNING  OPEN      SETTLING JOINED   UNKNOWN  FINAL
    StageEvent.ENTERED:           (OPEN,    None,     None,    None,    None,    None),
    StageEvent.SETTLE:            (None,    SETTLING, None,    None,    None,    None),
    StageEvent.JOIN:              (None,    JOINED,   None,    None,    None,    None),
    StageEvent.COMMITTED:         (None,    None,     FINAL,   None,    None,    None),
    StageEvent.ROLLED_BACK:       (RUNNING, RUNNING,  RUNNING, RUNNING, RUNNING, None),
    StageEvent.PROCESS_ENDED:     (RUNNING, RUNNING,  JOINED,  JOINED,  UNKNOWN, FINAL),
    StageEvent.FOUND_COMMITTED:   (FINAL,   OPEN,     FINAL,   FINAL,   FINAL,   FINAL),
    StageEvent.FOUND_UNCOMMITTED: (RUNNING, OPEN,     RUNNING, RUNNING, RUNNING, FINAL),
    StageEvent.NOT_FOUND_OUT:     (UNKNOWN, OPEN,     UNKNOWN, UNKNOWN, UNKNOWN, FINAL),
}  # fmt: skip

CASES = [(stage, event, TABLE[event][index]) for event in StageEvent for index, stage in enumerate(Stage)]


@pytest.mark.parametrize(("stage", "event", "following"), [case for case in CASES if case[2] is not None])
def test_an_event_leads_to_the_stage_of_the_table(stage: Stage, event: StageEvent, following: Stage) -> None:
    assert next_stage(stage, event) is following


@pytest.mark.parametrize(("stage", "event"), [case[:2] for case in CASES if case[2] is None])
def test_an_event_that_cannot_happen_in_a_stage_is_refused(stage: Stage, event: StageEvent) -> None:
    with pytest.raises(RuntimeError, match=f"{stage.name} cannot get the event {event.name}"):
        next_stage(stage, event)


def test_what_is_final_stays_final() -> None:
    assert {TABLE[event][-1] for event in StageEvent} == {FINAL, None}
