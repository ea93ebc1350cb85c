"""Enqueueing into a store that does not answer."""

from __future__ import annotations

import re
import time

import pytest

from tenure import App
from tenure.errors import OutcomeUnknown
from tests.servers.proxy import proxied

from .conftest import Do

TIMEOUT = 2.0


@pytest.mark.parametrize("url", ["redis", "postgres"], indirect=True)
async def test_a_server_that_hangs_costs_one_deadline_however_often_it_is_asked(
    url: str, do: Do, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tenure.jobs.session.ENQUEUE_TIMEOUT", TIMEOUT)
    address = re.search(r"127\.0\.0\.1:(\d+)", url)
    assert address is not None
    with proxied(int(address[1])) as proxy:
        joint = "&" if "?" in url else "?"
        app = App(f"{url.replace(address[0], f'127.0.0.1:{proxy.port}')}{joint}timeout={TIMEOUT:g}")
        for n in range(3):  # so that every kind of connection is open
            await do(app.remote("t").enqueue, n)
        proxy.blackhole()

        began = time.monotonic()
        with pytest.raises(OutcomeUnknown):
            await do(app.remote("t").enqueue, 2)
        took = time.monotonic() - began

        proxy.heal()
        await do(app.remote("t").enqueue, 3)
        await app.aclose()
    assert TIMEOUT * 0.9 < took < TIMEOUT * 1.75
