"""Every call of a store, and what must be in it after a call whose answer was lost has been made again (F16)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

from tenure.core.job import State
from tenure.core.lease import Lease, new_nonce
from tenure.core.measures import EVER, HistorySearch, HistoryWrite
from tenure.core.options import Retention
from tenure.core.schedule import Firing, SchedulePut, ScheduleSearch
from tenure.stores.base import Store
from tenure.stores.values import Action, LeaseRequest, Order, Pulse, Renewal, Search
from tenure.testing.conformance.scene import (
    FAIL,
    SUCCEED,
    PutIn,
    a_job,
    a_worker,
    enqueue,
    everything,
    lease,
    lease_one,
)

__all__ = ["CALLS", "Call", "Scene", "a_request", "a_scene", "after", "states"]


ACTION = Action(who="ann@db1", by="cli", what="retry", target="fail", count=1)


class Scene(NamedTuple):
    """A store that has been used for all that follows, and what is in it."""

    store: Store
    held: Lease


async def a_scene(store: Store, put_in: PutIn) -> Scene:
    """A registered worker that holds a job, a failed one, a waiting one, a scheduled one, an entry in the inbox, a schedule, a history, an audit."""
    await store.register(a_worker())
    await enqueue(store, a_job(id="held"), a_job(id="fail"))
    held = await lease_one(store)
    [fail] = await lease(store, limit=1)
    await store.settle([(fail, FAIL)])
    await enqueue(store, a_job(id="waiting"), a_job(id="scheduled", delay=3600))
    await put_in("q", b'{"task": "t", "id": "foreign"}')
    await store.put_schedules([SchedulePut(name="schedule", if_version=0, settings="{}", next=0.0)])
    await store.record_history([HistoryWrite("q", "", {"failed": 1.0}, {"in_line": 2.0})])
    await store.mark("v1")
    await store.note_actions([ACTION])
    return Scene(store, held)


def a_request(**changes: Any) -> LeaseRequest:
    usual: dict[str, Any] = {"queues": ("q",), "limit": 10, "worker": "w", "ttl": 30.0, "nonce": new_nonce()}
    return LeaseRequest(**usual | changes)


async def states(scene: Scene) -> dict[str, State]:
    return {job.id: job.state for job in await everything(scene.store)}


class Call(NamedTuple):
    """A call whose answer is lost, made once more with the answer, and what is then in the store."""

    ask: Callable[[Scene], Awaitable[Any]]
    again: Callable[[Any], bool]
    changed: dict[str, State | None] = {}
    """States that differ from those before."""


def kinds(*wanted: str) -> Callable[[Any], bool]:
    return lambda verdicts: [verdict.kind for verdict in verdicts] == [*wanted]


def _recorded(rows: Any) -> bool:
    return [(row.counts, row.gauges) for row in rows] == [({"failed": 1.0}, {"in_line": 2.0})]


CALLS = {
    "enqueue": Call(
        lambda scene: scene.store.enqueue([a_job(id="new")]),
        lambda answers: [answer.id for answer in answers] == ["new"],
        {"new": State.WAITING},
    ),
    "enqueue that may be refused": Call(
        lambda scene: scene.store.enqueue([a_job(id="new", after=("waiting",))]),
        lambda answers: [answer.state for answer in answers] == ["blocked"],
        {"new": State.BLOCKED},
    ),
    "lease": Call(
        lambda scene: scene.store.lease(a_request()), lambda leased: leased.leases == [], {"waiting": State.RUNNING}
    ),
    "settle": Call(lambda scene: scene.store.settle([(scene.held, SUCCEED)]), kinds("ok"), {"held": State.SUCCEEDED}),
    "settle_and_lease": Call(
        lambda scene: scene.store.settle_and_lease([(scene.held, SUCCEED)], a_request()),
        lambda answer: kinds("ok")(answer[0]) and answer[1].leases == [],
        {"held": State.SUCCEEDED, "waiting": State.RUNNING},
    ),
    "held": Call(lambda scene: scene.store.leases_of(a_request()), lambda leases: leases == []),
    "renew": Call(lambda scene: scene.store.renew([Renewal(scene.held, ttl=60)]), lambda reasons: reasons == [None]),
    "reap": Call(lambda scene: scene.store.reap(["q"]), lambda reaped: reaped == []),
    "busy_queues": Call(lambda scene: scene.store.busy_queues(["*"]), lambda told: told.queues == ("q",)),
    "retire": Call(lambda scene: scene.store.retire("w"), lambda reaped: reaped == [], {"held": State.WAITING}),
    "register": Call(lambda scene: scene.store.register(a_worker("x")), lambda nothing: nothing is None),
    "beat": Call(lambda scene: scene.store.beat("w", Pulse(held=1)), lambda order: order is Order.GO_ON),
    "order": Call(lambda scene: scene.store.order("w", Order.QUIET), lambda known: known is True),
    "forget": Call(lambda scene: scene.store.forget({"w": 0.0, "x": 0.0}), lambda gone: gone == []),
    "turn": Call(lambda scene: scene.store.claim_chore("registry", 60), lambda mine: mine is False),
    "leave": Call(lambda scene: scene.store.leave("w"), lambda nothing: nothing is None),
    "cancel": Call(lambda scene: scene.store.cancel(["held"]), kinds("refused"), {"held": State.CANCELLED}),
    "complete": Call(
        lambda scene: scene.store.complete("held", SUCCEED),
        lambda verdict: verdict.kind == "refused",
        {"held": State.SUCCEEDED},
    ),
    "retry": Call(lambda scene: scene.store.retry(["fail"]), kinds("refused"), {"fail": State.WAITING}),
    "trigger": Call(lambda scene: scene.store.trigger(["scheduled"]), kinds("refused")),
    "release": Call(lambda scene: scene.store.release(["held"]), kinds("refused"), {"held": State.WAITING}),
    "delete": Call(lambda scene: scene.store.delete(["held"]), lambda gone: gone == [], {"held": None}),
    "pause": Call(lambda scene: scene.store.pause("q"), lambda changed: changed is False),
    "resume": Call(lambda scene: scene.store.resume("q"), lambda changed: changed is False),
    "purge": Call(lambda scene: scene.store.purge("q"), lambda gone: gone == 0, {"waiting": None, "scheduled": None}),
    "prune": Call(lambda scene: scene.store.prune(Retention(failed=0), {}), lambda gone: gone == 0, {"fail": None}),
    "take_in": Call(lambda scene: scene.store.take_in(["q"]), lambda taken: taken == 0, {"foreign": State.WAITING}),
    "put_schedules": Call(
        lambda scene: scene.store.put_schedules(
            [
                SchedulePut(name="new", if_version=0, settings="{}"),
                SchedulePut(name="schedule", if_version=1, settings="{}", active=False),
            ]
        ),
        lambda written: written == [False, False],
    ),
    "put_schedules that deletes": Call(
        lambda scene: scene.store.put_schedules([SchedulePut(name="schedule", if_version=1)]),
        lambda written: written == [False],
    ),
    "confirm_schedules": Call(
        lambda scene: scene.store.confirm_schedules(["schedule", "none"]), lambda known: known == [True, False]
    ),
    "fire": Call(
        lambda scene: scene.store.fire(
            [Firing(name="schedule", version=1, jobs=((1.0, a_job(id="fired")),), tick=1.0, next=2.0)]
        ),
        lambda fired: fired == [None],
        {"fired": State.WAITING},
    ),
    "schedules": Call(
        lambda scene: scene.store.schedules(ScheduleSearch(due=True)),
        lambda page: [each.version for each in page.schedules] == [1],
    ),
    "get": Call(lambda scene: scene.store.get(["held"]), lambda jobs: jobs[0].state == "running"),
    "search": Call(lambda scene: scene.store.search(Search()), lambda page: len(page.jobs) == 4),
    "edges": Call(lambda scene: scene.store.edges("held"), lambda edges: edges == []),
    "queues": Call(lambda scene: scene.store.queues(), lambda queues: queues[0].running == 1),
    "workers": Call(lambda scene: scene.store.workers(), lambda workers: len(workers) == 1),
    # Written once or twice: a lost answer may count what one worker has counted in ten seconds once more.
    "record_history": Call(
        lambda scene: scene.store.record_history([HistoryWrite("q", "t", {"succeeded": 1.0})]),
        lambda nothing: nothing is None,
    ),
    "history": Call(lambda scene: scene.store.history(HistorySearch(resolution=EVER, queue="q")), _recorded),
    "mark": Call(lambda scene: scene.store.mark("deploy"), lambda nothing: nothing is None),
    "marks": Call(lambda scene: scene.store.marks(), lambda marks: [mark.label for mark in marks] == ["v1"]),
    # Written once or twice: a lost answer may show an action once more.
    "note_actions": Call(lambda scene: scene.store.note_actions([ACTION]), lambda nothing: nothing is None),
    "actions": Call(
        lambda scene: scene.store.actions(), lambda page: [action.what for action in page.actions] == ["retry"]
    ),
    "wait": Call(lambda scene: scene.store.wait(["fail"]), lambda found: found["fail"].state == "failed"),
}


def after(call: Call, before: dict[str, State]) -> dict[str, State]:
    """The states once a call has been made, whether once or twice."""
    return {id_: state for id_, state in (before | call.changed).items() if state is not None}
