"""Where everything is: the one file that spells the keys of a namespace.

Every key starts with `tenure:{namespace}`, whose braces keep a namespace in one slot of a cluster. Jobs share a few large
keys instead of having some each: a step over many jobs is then a few commands, and a waiting job takes little memory.

Scores that are times are whole microseconds. A *ref* is a job's id as it is stored (`records.py`). A *place* is the job's seq in six bytes and its ref: places sort as
their seqs do, and every sorted set below that has places for members breaks its ties by seq.

| fixed key    | type | what it holds |
|--------------|------|---|
| `meta`       | hash | `layout`: the version of all this; `seq`: the counter that places are drawn from; `turn:CHORE`: when one was last begun that somebody does for all |
| `jobs`       | hash | ref → what never changes about a job: number, time and content of its enqueue |
| `records`    | hash | ref → what does: state, seq, token, attempts, times, result, error. A job in line that nothing has happened to has none |
| `recent`     | list | number + ref of the latest jobs in order of enqueueing, those that are gone by now among them |
| `order`      | zset | refs of older jobs by number |
| `edges`      | hash | position + ref → an edge of a dependent: its blocker while open, what it was given once closed; `#` + ref → how many are open |
| `dependents` | zset | open edges by name, so that those to one blocker stand together, in order of their dependents' numbers |
| `uniques`    | hash | task + NUL + unique key → until when it is held (0: until its job is final), and the ref of who holds it |
| `windows`    | zset | entries of `uniques` that end with a window, by that end |
| `waiters`    | hash | ref → the channels to tell when that job is final |
| `kept`       | zset | refs of final jobs with a `keep` of their own that have not handed over, by its end |
| `queues`     | set  | names of all queues |
| `paused`     | set  | names of the paused ones |
| `arrivals`   | list | filled when a queue comes to exist, for workers of earlier versions that serve patterns |
| `ready`      | zset | queues that may have something to do now, all with score 0 and so by name: a job in line or due, or an entry in the inbox |
| `timed`      | zset | queues by when they have something to do: a job comes due or expires, a lease or a parking ends. Never later than that, often sooner |
| `listeners`  | hash | lists of patterns that idle workers wait with → when one last began to, and how to match them |
| `holding`    | hash | id of a worker, registered or not → how many jobs it holds |
| `workers`    | zset | ids of the registered workers, in order of registration |

| key of a queue      | type | what it holds |
|---------------------|------|---|
| `line:QUEUE`        | zset | places of the jobs in line, by priority |
| `suspects:QUEUE`    | zset | the same, of those that are handed out only alone |
| `scheduled:QUEUE`   | zset | places by run_at |
| `blocked:QUEUE`     | zset | places by priority |
| `held:QUEUE`        | zset | places of running jobs, by the end of the lease |
| `expiring:QUEUE`    | zset | beside another: places of jobs that have not started, by when they are cancelled for that |
| `parked:QUEUE`      | zset | beside `blocked`: places, by when their parking ends |
| `ended:STATE:QUEUE` | zset | places of final jobs, by their end |
| `apart:STATE:QUEUE` | zset | the same, of those that the retention of the queue is not about: with a `keep` of their own, or a successor |
| `totals:QUEUE`      | hash | what has happened, and how often; `longest`: seconds of the longest lease that was given there; `quiet_since`, `quiet_totals`: when pruning first found the queue empty, and the sum of its totals then |
| `marker:QUEUE`      | list | one entry for each job that an idle worker may be woken for, up to a hundred |
| `inbox:QUEUE`       | list | entries of other programs, the oldest first |

| key of a list of patterns | type | what it holds |
|---------------------------|------|---|
| `calls:PATTERNS`          | list | names of queues with new work, one for each worker to wake, up to a hundred |

| key of flows     | type | what it holds |
|------------------|------|---|
| `flows`          | set  | names of the flows that have runs |
| `flow:FLOW`      | zset | refs of the runs of a flow, by number |
| `current`        | hash | ref of a run that has handed over → the ref of its current step, and the queue of the step before |
| `attributes:REF` | hash | the attributes of a run, by name |
| `lookups`        | zset | flow, name, value, number and ref of what a run can be found by, so that equal ones stand together |
| `found_by`       | hash | ref of a run → its lookups |

| other key      | type | what it holds |
|----------------|------|---|
| `worker:ID`    | hash | a worker as it described itself, its start, beat, pulse, channel and totals |
| `failures:TASK`| zset | places of failed jobs of a task, by their end |
| `history`      | hash | ref → the latest attempts of a job that did not succeed, or left output |
| `probe`        | –    | there for a moment, while a store object tries which commands its user may use |
| `signals:ID`   | –    | the channel of one store object |
| `notes`        | –    | the channel of all who watch |
"""

from __future__ import annotations

import re

__all__ = ["Keys", "rights", "spelled"]

FIXED = ("meta", "jobs", "records", "recent", "order", "edges", "dependents", "uniques", "windows", "waiters", "kept", "queues",
         "paused", "arrivals", "holding", "workers")  # fmt: skip
FAMILIES = ("line", "suspects", "scheduled", "blocked", "held", "expiring", "parked", "ended", "apart", "totals", "marker",
            "inbox", "worker", "failures", "signals", "flow", "attributes", "calls")  # fmt: skip
"""Keys of which there are many: of each queue, worker, task, flow or run one."""

UNDECLARED = ("flows", "current", "lookups", "found_by", "history", "ready", "timed", "listeners", "probe")
"""Whole keys too: every call would pay for declaring them."""


class Keys:
    """The keys of one namespace."""

    def __init__(self, namespace: str) -> None:
        self._prefix = f"tenure:{{{namespace}}}:"
        self.fixed = tuple(self._prefix + name for name in FIXED)
        """What every script declares; the other keys that it uses begin like these, and so are in the same slot."""

        self.meta = self._prefix + "meta"
        self.ready = self._prefix + "ready"
        self.notes = self._prefix + "notes"

    def marker(self, queue: str) -> str:
        return f"{self._prefix}marker:{queue}"

    def calls(self, patterns: str) -> str:
        return f"{self._prefix}calls:{patterns}"

    def inbox(self, queue: str) -> str:
        return f"{self._prefix}inbox:{queue}"

    def attributes(self, run: bytes) -> bytes:
        return f"{self._prefix}attributes:".encode() + run

    def channel(self, name: str) -> str:
        return f"{self._prefix}signals:{name}"


def rights(namespace: str) -> str:
    """The least that a user of Redis needs for this namespace, as ACL rules."""
    keys = f"tenure:{{{namespace}}}:*"
    return (
        f"~{keys} &{keys} +@hash +@list +@set +@sortedset +eval +evalsha +del +exists +publish +subscribe +pubsub|numsub "
        "+ping +time +info +scan"
    )


def spelled(source: str) -> str:
    """A script with its keys spelled out: `Key.jobs` is a whole key, `Key.line` wants a queue behind it.

    In place, not by a table of keys: a script would make that anew at every call.
    """
    return f"local prefix = string.sub(KEYS[1], 1, -{len(FIXED[0]) + 1})\n" + re.sub(r"\bKey\.(\w+)", _spell, source)


def _spell(name: re.Match[str]) -> str:
    if name[1] in FIXED:
        return f"KEYS[{FIXED.index(name[1]) + 1}]"
    if name[1] in FAMILIES:
        return f"prefix .. '{name[1]}:'"
    if name[1] in UNDECLARED:
        return f"prefix .. '{name[1]}'"
    raise ValueError(f"a script names a key that there is not: {name[0]}")
