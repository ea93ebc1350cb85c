"""`StoreConformance`: the rules of docs/store-contract.md as a test suite. A store that passes it is a Tenure store.

    class TestMine(StoreConformance):
        @pytest.fixture
        def clock(self) -> ManualClock: ...

        @pytest.fixture
        def make_store(self, clock) -> Iterator[MakeStore]: ...  # each call makes one more store object on the same data

        @pytest.fixture
        def put_in(self) -> PutIn: ...  # `await put_in(queue, entry)` puts it in the inbox, as another program would

A store that is `transactional` has `Transactions` as a second base. The suite needs pytest and pytest-asyncio. Time
passes only by `clock.advance`, except in tests of real waiting. For readable failures, call
`pytest.register_assert_rewrite("tenure.testing.conformance")` in a conftest.py first.
"""

from __future__ import annotations

import pytest

from tenure.stores.base import Store
from tenure.testing.conformance.auditing import Auditing
from tenure.testing.conformance.busy_queues import FindingBusyQueues
from tenure.testing.conformance.consequences import Consequences
from tenure.testing.conformance.edges import Edges
from tenure.testing.conformance.enqueueing import Enqueueing
from tenure.testing.conformance.handing_over import HandingOver
from tenure.testing.conformance.headers import Headers
from tenure.testing.conformance.history import History
from tenure.testing.conformance.inbox import Inbox
from tenure.testing.conformance.leasing import Leasing
from tenure.testing.conformance.listing import Listing
from tenure.testing.conformance.measuring import Measuring
from tenure.testing.conformance.operators import Operators
from tenure.testing.conformance.reaping import Reaping
from tenure.testing.conformance.registry import Registry
from tenure.testing.conformance.retention import Keeping
from tenure.testing.conformance.run_removal import RunRemoval
from tenure.testing.conformance.runs import Runs
from tenure.testing.conformance.scene import MakeStore, PutIn
from tenure.testing.conformance.schedules import Schedules
from tenure.testing.conformance.settling import Settling
from tenure.testing.conformance.transactions import Transactions
from tenure.testing.conformance.unique import Unique
from tenure.testing.conformance.waiting import Waiting

__all__ = ["MakeStore", "PutIn", "StoreConformance", "Transactions"]


@pytest.mark.asyncio
class StoreConformance(
    Enqueueing,
    Leasing,
    Settling,
    Reaping,
    FindingBusyQueues,
    Operators,
    Edges,
    Unique,
    Keeping,
    Registry,
    Waiting,
    Listing,
    Inbox,
    Runs,
    HandingOver,
    RunRemoval,
    History,
    Consequences,
    Schedules,
    Measuring,
    Headers,
    Auditing,
):
    """All tests of the contract but those of transactions. Subclass it and provide `clock`, `make_store` and `put_in`."""

    @pytest.fixture
    def store(self, make_store: MakeStore) -> Store:
        return make_store()
