"""A long run of real processes on one store under continuous faults: what to start before a release.

    make soak                               ten minutes on each of sqlite, redis and postgres
    make soak MINUTES=60 STORES=redis       longer, on one of them
    make soak SEED=1234                     the same choices again (what the machine makes of them differs)

Four workers, four producers (two that await, two that block) and an operator share a store. The jobs are quick or slow, fail
and are retried, delayed, unique, expiring, wait for others, have children, or are prey to the operator, who cancels, completes,
retries, triggers and deletes jobs, pauses queues and retires the dead. Finished jobs are pruned after seconds. All the while,
at random instants, workers and producers are killed with -9, workers are stopped past their lease and go on, or are told to
stop and replaced. A Redis server is killed too, and started again from what it has on disk; its scripts are flushed, its
connections cut. So is a PostgreSQL server, as by a power cut; its backends are ended, one or all of them, and some hold on to
old transactions. A SQLite file is checkpointed by others, and read by some who hold on to what they see.

In the end the faults stop, all jobs end and all processes go. It is a success, with exit code 0, if

- nothing was lost, and nothing was done under a stale token: the checker of `tests/faults` finds the history of all calls of
  all processes in order (I1 to I9, I13 and I14);
- every job that was seen to end (all are, before they are pruned) ended as its task and its arguments make it end, each
  parent with one child;
- counts and totals equal a recount, and a SQLite file is sound;
- the processes that were never killed, and the store, are not much larger at the end than after the first quarter: memory,
  descriptors, threads, file, log, doorbells, keys, tables, clients (said of runs of a minute or more);
- when the last job is pruned and the last worker retired, nothing is left behind.

To check the history takes about 80 MB of memory, and of disk 15 MB, for every minute of it.
"""

from __future__ import annotations

import argparse
import random
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from .run import Soak
from .subjects import SUBJECTS

SHOWN = 30
"""Complaints that are printed."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Soak each of the stores; the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description=__doc__.split("\n", 1)[0])
    parser.add_argument("--minutes", type=float, default=10.0, help="on each store (10)")
    parser.add_argument("--stores", default=",".join(SUBJECTS), help=f"which, with commas ({','.join(SUBJECTS)})")
    parser.add_argument("--seed", default=str(random.randrange(10_000)), help="repeat the choices of another run")
    options = parser.parse_args(arguments)
    stores = options.stores.split(",")
    for store in stores:
        if store not in SUBJECTS:
            parser.error(f"there is no store {store!r}: it is one of {', '.join(SUBJECTS)}")
    verdicts = [soak(store, 60 * options.minutes, options.seed) for store in stores]
    return 0 if all(verdicts) else 1


def soak(store: str, seconds: float, seed: str) -> bool:
    """Soak one store, in a temporary folder that stays if something is wrong; whether nothing is."""
    say(f"{store}: {seconds:g} s with seed {seed}")
    began = time.monotonic()
    folder = Path(tempfile.mkdtemp(prefix=f"tenure-soak-{store}-"))
    subject = SUBJECTS[store](folder)
    try:
        run = Soak(subject, folder, seconds, seed, say)
        run.run()
    finally:
        subject.close()
    say(f"  {', '.join(f'{number:,} {what}' for what, number in run.counts.items())}")
    for growth in run.growth():
        say(f"  {growth}")
    for complaint in run.complaints[:SHOWN]:
        say(f"  WRONG: {complaint}")
    if run.complaints:
        say(
            f"{store}: {len(run.complaints)} complaints after {time.monotonic() - began:.0f} s, seed {seed}; see {folder}"
        )
    else:
        shutil.rmtree(folder)
        say(f"{store}: all is well after {time.monotonic() - began:.0f} s")
    return not run.complaints


def say(line: str) -> None:
    print(line, flush=True)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # else nobody ends the processes
    sys.exit(main())
