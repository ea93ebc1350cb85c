"""RQ on Redis. Variants of a drain: `fork`, a process for each job, which is its default; else in the worker itself."""

from __future__ import annotations

import logging
import time

from measured import asked, rate, say
from redis import Redis
from rq import Queue, SimpleWorker, Worker

what, url, number, variant = asked()
connection = Redis.from_url(url)
queue = Queue(connection=connection)
NOOP = "time.monotonic"


def bulk(size: int) -> None:
    queue.enqueue_many([Queue.prepare_data(NOOP, result_ttl=0) for _ in range(size)])


if what == "enqueue":
    queue.enqueue(NOOP)
    rate(number, lambda: queue.enqueue(NOOP, result_ttl=0), number)
elif what == "bulk":
    rate(number, lambda: bulk(1000), number // 1000)
else:
    bulk(number)
    logging.disable()
    worker = (Worker if variant == "fork" else SimpleWorker)([queue], connection=connection)
    begun = time.perf_counter()
    worker.work(burst=True, logging_level="CRITICAL")
    say(number / (time.perf_counter() - begun))
