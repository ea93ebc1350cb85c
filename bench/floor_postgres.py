"""The lowest possible latency: listen for the notification of an insert, then lease with one statement. Argument: URL."""

from __future__ import annotations

import re
import sys
import time

import psycopg
from bare_postgres import SETTLE_AND_LEASE

connection = psycopg.connect(sys.argv[1], autocommit=True)
lease = re.sub(r"\$\d", "%s", SETTLE_AND_LEASE)
connection.execute("LISTEN work")
connection.execute(lease, ([], 0, 1, time.time() + 30, 10), prepare=True)
print("ready", flush=True)
while list(connection.notifies(timeout=50, stop_after=1)):
    connection.execute(lease, ([], 0, 1, time.time() + 30, 10), prepare=True).fetchall()
    print(time.monotonic(), flush=True)
