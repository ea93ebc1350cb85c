"""Dramatiq on Redis, eight threads, 256 messages prefetched; variant `one`: one thread, which was the fastest with no-ops."""

from __future__ import annotations

import os
import time

os.environ["dramatiq_queue_prefetch"] = "256"  # noqa: SIM112  (read when dramatiq is imported)

import dramatiq
from dramatiq.brokers.redis import RedisBroker
from measured import asked, end_after, mark, rate

what, url, number, variant = asked()
broker = RedisBroker(url=url)
dramatiq.set_broker(broker)


@dramatiq.actor
def noop() -> None:
    mark()


if what == "enqueue":
    noop.send()
    rate(number, noop.send, number)
else:
    for _ in range(number):
        noop.send()
    end_after(number)
    dramatiq.Worker(broker, worker_threads=1 if variant == "one" else 8).start()
    time.sleep(3600)
