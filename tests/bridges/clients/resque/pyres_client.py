"""The Python client of Resque: `enqueue PORT QUEUE FIRST LAST`, `info PORT`, or `work PORT QUEUE`. Run by a Python that has pyres."""

import json
import sys

from pyres import ResQ  # type: ignore[import-not-found,unused-ignore]
from pyres.worker import Worker  # type: ignore[import-not-found,unused-ignore]

step, port, *given = sys.argv[1:]
server = f"127.0.0.1:{port}"
resq = ResQ(server)

if step == "enqueue":
    queue, first, last = given
    for number in range(int(first), int(last)):
        resq.enqueue_from_string("note", queue, f"{queue}:{number}")
elif step == "info":
    info = resq.info()
    info["working"] = [str(worker) for worker in Worker.working(resq)]
    info["all"] = [str(worker) for worker in Worker.all(resq)]
    info.pop("servers", None)
    print(json.dumps(info))
else:
    Worker.run(given, server=server, interval=1)
