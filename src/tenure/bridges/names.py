"""Names of Tenure's queues for the queues of other systems."""

from __future__ import annotations

import hashlib
import re

__all__ = ["native_queue_name", "queue_name", "queue_pattern"]

LONGEST = 127
"""Characters that a queue name may have."""

DIGEST = 8


def queue_name(kind: str, queue: str) -> str:
    """The queue in Tenure's store for a queue of another system, such as `resque:math`.

    Characters that a name may not have become `-`; a digest then keeps different queues apart, as it does for a name that is cut.
    """
    return _allowed(f"{kind}:", queue)


def native_queue_name(queue: str) -> str:
    """The queue in Tenure's store for what is moved from a queue of another system: the same name, where it may be one."""
    return _allowed("" if re.match(r"[A-Za-z0-9]", queue, re.ASCII) else "queue-", queue)


def _allowed(prefix: str, queue: str) -> str:
    """A name that a queue may have; a digest keeps those apart of which the name had to be changed."""
    bare = re.sub(r"[^A-Za-z0-9_.:-]", "-", queue)
    name = f"{prefix}{bare}"
    if bare == queue and len(name) <= LONGEST:
        return name
    digest = hashlib.sha256(queue.encode(errors="surrogateescape")).hexdigest()[:DIGEST]
    return f"{name[: LONGEST - DIGEST - 1]}-{digest}"


def queue_pattern(kind: str) -> str:
    """The pattern of all queues that `queue_name` makes for this kind of bridge."""
    return f"{kind}:*"
