"""The lowest possible latency: block on a list that an enqueue script pushes to, then lease with a script. Argument: PORT."""

from __future__ import annotations

import sys
import time

import redis
from bare_redis import KEYS, SETTLE_AND_LEASE

client = redis.Redis(port=int(sys.argv[1]), socket_timeout=60)
lease = client.register_script(SETTLE_AND_LEASE)
lease(KEYS, [10, time.time() + 30])
print("ready", flush=True)
while client.blpop([KEYS[4]], timeout=50):
    lease(KEYS, [10, time.time() + 30])
    print(time.monotonic(), flush=True)
