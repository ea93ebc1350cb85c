"""A worker of a bridge, to be killed.

Each job notes that it runs, and does not end until there is a file `go-on`. Those whose name ends with 0 fail.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

from tenure import App
from tenure.bridges import Hworker, Worqr


def main(kind: str, url: str, folder: Path, slots: int) -> None:
    app = App(f"sqlite:///{folder}/jobs.db", missing_after=1.5, lease=1.0)

    def run(job: str) -> None:
        with (folder / "ran").open("a") as log:
            log.write(f"{job}\n")
        while not (folder / "go-on").exists():
            time.sleep(0.01)
        if job.endswith("0"):
            raise ValueError(job)

    if kind == "worqr":
        worqr = Worqr(app, url)

        @worqr.queue("mail")
        def mail(task: bytes) -> None:
            run(task.decode())

        worqr.worker(concurrency=slots, beat=0.5).run()
    else:
        hworker = Hworker(app, url)

        @hworker.queue("mail")
        def post(job: str) -> None:
            run(job)

        hworker.worker(concurrency=slots, beat=0.5).run()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], Path(sys.argv[3]), int(sys.argv[4]))
