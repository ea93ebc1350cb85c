"""A network that fails all the time."""

from __future__ import annotations

import contextlib
import random
import threading
from collections.abc import Iterator

from tests.servers.proxy import Proxy

__all__ = ["failing"]


@contextlib.contextmanager
def failing(proxy: Proxy, request: bytes, chance: random.Random) -> Iterator[None]:
    """While the block runs: answers to such requests are lost, connections are cut, silent or slow, at any instant."""
    over = threading.Event()

    def fail() -> None:
        while not over.wait(chance.uniform(0, 0.1)):
            match chance.choice(["lose", "lose", "lose", "cut", "deafen", "drip"]):
                case "lose":
                    proxy.lose_reply(to=request)
                case "cut":
                    proxy.cut()
                case "deafen" if chance.random() < 0.3:
                    proxy.deafen()
                case _:
                    proxy.drip = 0.001
                    over.wait(0.05)
                    proxy.drip = None

    thread = threading.Thread(target=fail)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
        proxy.heal()
