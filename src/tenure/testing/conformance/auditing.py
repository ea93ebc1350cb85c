"""Tests of the audit: what operators have done."""

from __future__ import annotations

from msgspec.structs import replace

from tenure.stores.base import BATCH, Store
from tenure.stores.values import ACTION_TEXT, ACTIONS, ACTIONS_KEPT, Action
from tenure.testing.clock import ManualClock
from tenure.testing.conformance.scene import MakeStore

__all__ = ["Auditing"]


def an_action(**changes: object) -> Action:
    return Action(**{"who": "ann@db1", "by": "cli", "what": "retry", "target": "job 1"} | changes)  # type: ignore[arg-type]


class Auditing:
    async def test_what_operators_do_is_listed_latest_first(
        self, store: Store, clock: ManualClock, make_store: MakeStore
    ) -> None:
        assert (await store.actions()).actions == []
        first, second, third = (
            an_action(at=5.0),
            an_action(what="pause", target="mail"),
            an_action(who="bob@db2", count=7),
        )
        await store.note_actions([first])
        begun = clock.wall()
        clock.advance(5)
        await make_store().note_actions([second, third])

        page = await make_store().actions()

        assert page.actions == [
            replace(third, at=begun + 5),
            replace(second, at=begun + 5),
            replace(first, at=begun),
        ]
        assert page.cursor is None

    async def test_the_audit_is_read_a_page_at_a_time(self, store: Store) -> None:
        for number in range(7):
            await store.note_actions([an_action(count=number)])

        found, cursor, pages = [], None, 0
        while True:
            page = await store.actions(3, cursor)
            found += [each.count for each in page.actions]
            cursor, pages = page.cursor, pages + 1
            if pages == 1:
                await store.note_actions([an_action(count=99)])
            if cursor is None:
                break

        assert (found, pages) == ([6, 5, 4, 3, 2, 1, 0], 3)
        assert (await store.actions(8)).cursor is None

    async def test_actions_come_back_as_they_were(self, store: Store) -> None:
        text = ("Zoë “quoted” \\ \n 'x' 😀 " + "y" * ACTION_TEXT)[:ACTION_TEXT]
        whole = an_action(who=text, by="dashboard", what="delete", target=text, count=1 << 40)
        await store.note_actions([whole])
        await store.note_actions([an_action(target="", count=0)])

        [last, first] = (await store.actions()).actions

        assert replace(first, at=0.0) == whole
        assert (last.target, last.count) == ("", 0)

    async def test_the_audit_is_bounded(self, store: Store) -> None:
        for first in range(0, ACTIONS + BATCH, BATCH):
            await store.note_actions([an_action(count=first + number) for number in range(BATCH)])

        page = await store.actions(ACTIONS + 1)

        assert [each.count for each in page.actions] == list(range(ACTIONS + BATCH - 1, BATCH - 1, -1))
        assert page.cursor is None

    async def test_old_actions_are_gone(self, store: Store, clock: ManualClock) -> None:
        await store.note_actions([an_action(count=1)])
        clock.advance(ACTIONS_KEPT / 2)
        await store.note_actions([an_action(count=2)])
        clock.advance(ACTIONS_KEPT / 2)
        await store.note_actions([an_action(count=3)])

        assert [each.count for each in (await store.actions()).actions] == [3, 2]
