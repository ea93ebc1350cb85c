"""What each value of a step means, and what its attributes become: no I/O."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest

from tenure import App, Done, Flow, Next, Wait
from tenure.core.attributes import lookups_of
from tenure.core.job import BlockerPolicy, JobRecord, NewJob, State
from tenure.core.lifecycle import Finish
from tenure.errors import InvalidName, InvalidOption, PayloadError, PayloadTooLarge

RUN = "0190-run"


def a_step_of(flow: Flow, step: str, **fields: Any) -> JobRecord:
    """A job of this step, in the hands of somebody."""
    return JobRecord("j1", f"{flow.name}.{step}", "default", State.RUNNING, b"{}", run_id=RUN, **fields)


def successor(finish: Finish) -> NewJob:
    assert finish.successor is not None
    return finish.successor


@pytest.mark.parametrize(
    ("step", "value", "result", "follows", "written"),
    [
        ("reserve", None, "null", "order.charge", None),
        ("reserve", {}, "null", "order.charge", None),
        ("reserve", {"a": 1, "b": [2]}, "null", "order.charge", {"a": "1", "b": "[2]"}),
        ("reserve", Next("receipt", amount=3), "null", "order.receipt", {"amount": "3"}),
        ("reserve", Next("reserve"), "null", "order.reserve", None),
        ("reserve", Done("x"), '"x"', None, None),
        ("reserve", Done(), "null", None, None),
        ("reserve", Done({"a": 1}), '{"a":1}', None, None),
        ("charge", None, "null", None, None),
        ("charge", 5, "5", None, None),
        ("charge", {"a": 1}, '{"a":1}', None, {"a": "1"}),
        ("charge", [{"a": 1}], '[{"a":1}]', None, None),
    ],
    ids=str,
)
def test_what_a_step_gives_says_what_follows(  # G22, G23, G26, Q43
    flow: Flow, step: str, value: Any, result: str, follows: str | None, written: dict[str, str] | None
) -> None:
    child = NewJob(id="c", task="t", queue="q")

    finish = flow.steps[step]._finish(a_step_of(flow, step), value, (child,))

    assert (finish.state, finish.result, finish.children) == (State.SUCCEEDED, result, (child,))
    assert (finish.successor and finish.successor.task) == follows
    assert (finish.writes and finish.writes.attributes) == written
    if finish.successor is not None:
        assert finish.successor.run_id == RUN


@pytest.mark.parametrize(
    ("value", "error", "message"),
    [
        (
            5,
            TypeError,
            "step 'order.reserve' has then='charge' and gave an int: give a mapping of attributes, None, Next",
        ),
        ("charge", TypeError, "gave a str"),
        ([("a", 1)], TypeError, "gave a list"),
        ({1: 2}, TypeError, r"attributes have names .* got 1: .* return Done\(value\)"),
        ({"a\n": 2}, TypeError, "attributes have names"),
        ({"": 2}, TypeError, "attributes have names"),
        ({"quantity": "x"}, PayloadError, "attribute 'quantity': it does not fit its annotation"),
        ({"free": float("nan")}, PayloadError, "attribute 'free'"),
        ({"free": "x" * (1 << 20)}, PayloadTooLarge, "limit"),
        (Next("charg"), InvalidOption, "flow 'order' has no step 'charg'; did you mean 'charge'"),
        (Next("receipt").using(after=[RUN]), InvalidOption, "cannot wait for its own run"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_what_means_nothing_is_an_error_in_one_sentence(
    flow: Flow, value: Any, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message) as raised:
        flow.steps["reserve"]._finish(a_step_of(flow, "reserve"), value)
    assert "\n" not in str(raised.value)


def test_a_step_may_say_which_it_chooses_from(no_store: App) -> None:
    flow = no_store.flow("f")
    one = flow.step(name="one", then="two", next=["three"])(lambda: None)
    for name in ("two", "three"):
        flow.step(name=name)(lambda: None)

    for allowed in ("two", "three"):
        assert successor(one._finish(a_step_of(flow, "one"), Next(allowed))).task == f"f.{allowed}"
    with pytest.raises(TypeError, match=r"gave Next\('one'\), which its next= does not name"):
        one._finish(a_step_of(flow, "one"), Next("one"))


def test_a_successor_inherits_priority_tags_and_keep_unless_told_otherwise(flow: Flow) -> None:  # G49
    job = a_step_of(flow, "charge", priority=7, tags=("vip",), keep=9.0)
    charge = flow.steps["charge"]

    plain = successor(charge._finish(job, Next("receipt", amount=1)))
    assert (plain.priority, plain.tags, plain.keep, plain.queue) == (7, ("vip",), 9.0, "default")
    own = successor(charge._finish(job, Next("charge")))
    assert (own.priority, own.tags, own.keep, own.queue) == (-5, ("vip",), 60.0, "billing")
    told = Next(flow.steps["receipt"], amount=1).using(
        priority=1, tags=["t"], keep=0, queue="q", delay=3, max_attempts=2, expires=5
    )
    other = successor(charge._finish(job, told))
    assert (other.priority, other.tags, other.keep, other.queue) == (1, ("t",), 0.0, "q")
    assert (other.delay, other.max_attempts, other.expires) == (3.0, 2, 5.0)


def test_what_a_successor_waits_for_comes_to_exist_before_it(flow: Flow) -> None:  # G46, Q55
    task = flow.app.task(name="resize")(lambda n: n)
    chosen = Next("receipt", amount=1).using(
        after=[task.bind(1), "existing", flow.bind(sku="x"), task.bind(2)], if_blocker_fails="proceed"
    )

    finish = flow.steps["charge"]._finish(a_step_of(flow, "charge"), chosen)

    join, children = successor(finish), finish.children
    assert [child.task for child in children] == ["resize", "order.reserve", "resize"]
    assert join.after == (children[0].id, "existing", children[1].id, children[2].id)
    assert join.if_blocker_fails is BlockerPolicy.PROCEED
    assert children[1].run_id == children[1].id


@pytest.mark.parametrize(
    "options",
    [{"delay": -1}, {"queue": "a b"}, {"after": "abc"}, {"after": [1]}, {"if_blocker_fails": "hope"}],
    ids=str,
)
def test_options_of_next_that_cannot_be_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises((InvalidOption, InvalidName)):
        Next("x").using(**options)


def test_a_wait_names_the_step_that_follows_when_its_time_is_over(flow: Flow) -> None:
    assert Wait(timeout=3, on_timeout=flow.steps["receipt"]).on_timeout == "receipt"
    assert Wait(timeout=3).on_timeout is None
    with pytest.raises(InvalidOption, match="needs a timeout"):
        Wait(on_timeout="receipt")
    with pytest.raises(InvalidOption, match="takes a step"):
        Next(5)  # type: ignore[arg-type]


# Attributes.


@dataclass
class Address:
    street: str
    at: datetime


def test_attributes_are_checked_by_the_annotations_of_the_steps_that_read_them(no_store: App) -> None:  # Q44
    flow = no_store.flow("f", lookup=["key", "many"])

    @flow.step(then="two")
    def one(address: Address, key: UUID) -> None: ...

    @flow.step
    def two(key: str, many: Any = None) -> None: ...

    noon = datetime(2026, 1, 1, 12, tzinfo=UTC)
    writes = flow.bind(address=Address("x", noon), key=UUID(int=1), many=["a", "b"], extra={"k": [1]}).writes
    assert writes is not None
    assert writes.attributes["address"] == '{"street":"x","at":"2026-01-01T12:00:00Z"}'
    assert writes.lookups == {"key": (f'"{UUID(int=1)}"',), "many": ('"a"', '"b"')}
    assert flow.bind(address=Address("x", noon), key="as two has it") is not None
    with pytest.raises(PayloadError, match="attribute 'address'"):
        flow.bind(address="x", key="k")
    with pytest.raises(PayloadError, match="attribute 'extra'"):
        flow.bind(address=Address("x", noon), key="k", extra={1, 2})
    with pytest.raises(PayloadError, match="attribute 'key'"):
        flow.bind(address=Address("x", noon), key=None)


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ('"c1"', ('"c1"',)),
        ("1", ("1",)),
        ("1.0", ("1",)),
        ("2.5", ("2.5",)),
        ("true", ("true",)),
        ('"true"', ('"true"',)),
        ('["a","b","a"]', ('"a"', '"b"')),
        ("[1,null,{},[2]]", ("1",)),
        ("null", ()),
        ('{"a":1}', ()),
        ("[]", ()),
    ],
)
def test_what_runs_are_found_by(text: str, values: tuple[str, ...]) -> None:  # G40
    assert lookups_of(text) == values


def test_a_long_value_is_found_by_its_hash() -> None:
    [value] = lookups_of(f'"{"x" * 255}"')
    assert len(value) == 64
    assert lookups_of(f'"{"x" * 254}"') == (f'"{"x" * 254}"',)
