"""Patience: the machine may be busy with the other tests."""

from __future__ import annotations

import pytest

from tenure.stores.redis import subscription


@pytest.fixture(autouse=True)
def listening_for_certain(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who begins to listen on Redis does listen: else it goes on after a second without, and hints are lost until it does."""
    monkeypatch.setattr(subscription, "SUBSCRIBE_TIMEOUT", 20.0)
