"""Spells every key of a namespace. No other file does.

Every key starts with `tenure:{namespace}`; the braces keep a namespace in one slot of a cluster. Jobs share a few large
keys instead of having keys each, so that a script over many jobs needs few commands, and a waiting job takes little
memory.

Scores that are times are whole microseconds, except in `ticks`. A *ref* is the stored form of a job's id
(`records.py`). A *member* is a job's seq in six bytes followed by its ref. Members sort by seq, so every sorted set of
members breaks ties by seq.

| fixed key    | type | what it holds |
|--------------|------|---|
| `meta`       | hash | `layout`: version of the layout; `seq`: counter of seqs; `turn:CHORE`: when a periodic chore was last claimed; `survey:queues`, `survey:keys`: cursors of `survey` |
| `jobs`       | hash | ref → the part of a job that never changes: time, content and number of its enqueue |
| `records`    | hash | ref → the part that changes: state, seq, token, attempts, times, result, error. A job in line that has not changed has none |
| `recent`     | list | number + ref of the latest jobs in order of enqueueing, including jobs that are gone |
| `order`      | zset | refs of older jobs by number |
| `edges`      | hash | position + ref → value of an edge of that dependent: its blocker while open, the outcome once closed; `#` + ref → number of open edges; `@` + ref → what that dependent was told to wait for: a MessagePack array of refs, and its number |
| `dependents` | zset | names of open edges: those to one blocker are adjacent, ordered by their dependents' numbers |
| `uniques`    | hash | task + NUL + unique key → until when it is owned (0: until its job is final), and the ref of its owner |
| `windows`    | zset | entries of `uniques` with a window, by its end |
| `waiters`    | hash | ref → the channels on which the end of that job is announced |
| `kept`       | zset | refs of final jobs with a `keep` option that have not handed over, by its end |
| `queues`     | set  | names of all queues |
| `paused`     | set  | names of the paused queues |
| `arrivals`   | list | filled when a queue is created, for workers of earlier versions that serve patterns |
| `ready`      | zset | queues that may have something to do now: a job in line or due, or an inbox entry. All scores are 0, so they sort by name |
| `timed`      | zset | queues by when they have something to do: a job becomes due or expires, a lease or parking ends. Never later than that, often earlier |
| `listeners`  | hash | lists of patterns that idle workers wait with → when a worker last began to wait, and Lua patterns to match queues |
| `holding`    | hash | worker id, registered or not → number of jobs that it holds |
| `workers`    | zset | ids of the registered workers, in order of registration |

| key of a queue      | type | what it holds |
|---------------------|------|---|
| `line:QUEUE`        | zset | members of the jobs in line, by priority |
| `suspects:QUEUE`    | zset | the same for suspects, which are leased only alone |
| `scheduled:QUEUE`   | zset | members by run_at |
| `blocked:QUEUE`     | zset | members by priority |
| `held:QUEUE`        | zset | members of running jobs, by the end of the lease |
| `expiring:QUEUE`    | zset | in addition to another: members of jobs that have not started, by when they expire |
| `parked:QUEUE`      | zset | in addition to `blocked`: members by the end of the parking |
| `ended:STATE:QUEUE` | zset | members of final jobs, by their end |
| `apart:STATE:QUEUE` | zset | the same for jobs that the queue's retention does not cover: those with a `keep` option, or a successor |
| `totals:QUEUE`      | hash | counts of events; `longest`: seconds of the longest lease given; `quiet_since`, `quiet_totals`: when pruning first found the queue empty, and the sum of its totals then |
| `marker:QUEUE`      | list | one entry for each job that an idle worker may be woken for, up to a hundred |
| `inbox:QUEUE`       | list | entries of other programs, oldest first |

| key of a list of patterns | type | what it holds |
|---------------------------|------|---|
| `calls:PATTERNS`          | list | names of queues with new work, one for each worker to wake, up to a hundred |

| key of flows     | type | what it holds |
|------------------|------|---|
| `flows`          | set  | names of the flows that have runs |
| `flow:FLOW`      | zset | refs of the runs of a flow, by number |
| `current`        | hash | ref of a run that has handed over → the queue of the step before, NUL, and the ref of the current step |
| `attributes:REF` | hash | the attributes of a run, by name |
| `lookups`        | zset | flow, name, value, number and ref of each lookup of a run, so that equal values are adjacent |
| `found_by`       | hash | ref of a run → its lookups |

| key of schedules | type | what it holds |
|------------------|------|---|
| `schedules`      | hash | name → record: version, settings, next tick, last job, history (`parts/schedules.lua`) |
| `schedule_names` | zset | names of all schedules. All scores are 0, so they sort by name |
| `ticks`          | zset | names of active schedules by their next tick, in seconds: a fraction must stay exact. Never later than the record says |

| key of measures            | type | what it holds |
|----------------------------|------|---|
| `measured:RESOLUTION`      | zset | begins of the slots of a resolution that have rows, each scored by itself, in seconds |
| `measures:RESOLUTION:SLOT` | hash | queue + NUL + task → MessagePack array of two maps: counts and gauges |
| `marks`                    | list | MessagePack arrays of time and label, oldest first |

| key of the audit | type | what it holds |
|------------------|------|---|
| `actions`        | list | MessagePack arrays of number, time and action (JSON), oldest first. The numbers have no gaps |

| other key      | type | what it holds |
|----------------|------|---|
| `worker:ID`    | hash | a worker: its info, start, beat, pulse, channel and totals; `order`: the order that stands, if it was given one |
| `failures:TASK`| zset | members of failed jobs of a task, by their end |
| `history`      | hash | ref → the latest attempts of a job that did not succeed, or left output |
| `ready_at`     | hash | ref → when the job last became due, as a double, if its seq is not the one of its enqueue. An entry from before the job was enqueued is stale |
| `probe`        | –    | exists for a moment while a store object probes which commands its user may run |
| `signals:ID`   | –    | channel of one store object, for announcements |
| `notes`        | –    | channel of event messages |
"""

from __future__ import annotations

import re

__all__ = ["Keys", "acl_rules", "with_keys"]

FIXED = ("meta", "jobs", "records", "recent", "order", "edges", "dependents", "uniques", "windows", "waiters", "kept", "queues",
         "paused", "arrivals", "holding", "workers")  # fmt: skip
FAMILIES = ("line", "suspects", "scheduled", "blocked", "held", "expiring", "parked", "ended", "apart", "totals", "marker",
            "inbox", "worker", "failures", "signals", "flow", "attributes", "calls", "measured",
            "measures")  # fmt: skip
"""Keys with a name behind them: one for each queue, worker, task, flow, run or slot."""

UNDECLARED = ("flows", "current", "lookups", "found_by", "history", "ready", "timed", "listeners", "schedules",
              "schedule_names", "ticks", "ready_at", "marks", "actions", "probe")  # fmt: skip
"""Fixed keys that scripts do not declare, because every call would pay for it."""


class Keys:
    """The keys of one namespace."""

    def __init__(self, namespace: str) -> None:
        self._prefix = f"tenure:{{{namespace}}}:"
        self.fixed = tuple(self._prefix + name for name in FIXED)
        """The keys that every script declares. All other keys share their prefix, and so their cluster slot."""

        self.meta = self._prefix + "meta"
        self.ready = self._prefix + "ready"
        self.events = self._prefix + "notes"
        self.marks = self._prefix + "marks"

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


def acl_rules(namespace: str) -> str:
    """The rights that a Redis user needs for this namespace, as ACL rules."""
    keys = f"tenure:{{{namespace}}}:*"
    return (
        f"~{keys} &{keys} +@hash +@list +@set +@sortedset +eval +evalsha +del +exists +publish +subscribe +pubsub|numsub "
        "+ping +time +info +scan"
    )


def with_keys(source: str) -> str:
    """A script with its keys spelled out: `Key.jobs` becomes a whole key, `Key.line` a prefix for the name of a queue.

    The text is replaced because Lua would build a table of keys again at every call.
    """
    return f"local prefix = string.sub(KEYS[1], 1, -{len(FIXED[0]) + 1})\n" + re.sub(
        r"\bKey\.(\w+)", _key_expression, source
    )


def _key_expression(name: re.Match[str]) -> str:
    if name[1] in FIXED:
        return f"KEYS[{FIXED.index(name[1]) + 1}]"
    if name[1] in FAMILIES:
        return f"prefix .. '{name[1]}:'"
    if name[1] in UNDECLARED:
        return f"prefix .. '{name[1]}'"
    raise ValueError(f"a script names an unknown key: {name[0]}")
