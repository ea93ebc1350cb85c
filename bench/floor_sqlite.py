"""The lowest possible latency: wait for a Unix datagram that follows an insert, then lease. Arguments: FILE SOCKET."""

from __future__ import annotations

import socket
import sys
import time

import apsw
from bare_sqlite import FIRST, LEASE

connection = apsw.Connection(sys.argv[1])
connection.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, 1)
connection.execute("PRAGMA synchronous = NORMAL").fetchall()
connection.set_busy_timeout(5000)
bell = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
bell.bind(sys.argv[2])
print("ready", flush=True)
while bell.recv(10):
    connection.execute("BEGIN IMMEDIATE")
    rows = connection.execute(FIRST, (10,)).fetchall()
    connection.execute(LEASE, (str([row[0] for row in rows]), 1, time.time() + 30))
    connection.execute("COMMIT")
    print(time.monotonic(), flush=True)
