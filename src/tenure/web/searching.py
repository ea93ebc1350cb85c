"""The search box: `target_of` turns its text into the address of a job or a listing, `suggestions_of` completes it."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import TYPE_CHECKING
from urllib.parse import quote, urlencode

from tenure.core.job import State
from tenure.stores.values import QueueInfo, WorkerInfo

if TYPE_CHECKING:
    from tenure.web.site import Site

__all__ = ["TOKENS", "suggestions_of", "summary_of_queues", "target_of"]

SUGGESTIONS = 500
"""Words that the search box suggests, at most."""

TOKENS = ("state", "queue", "task", "tag", "error", "worker", "text", "before", "scheduled")
"""Names of the filters that the search box knows."""


async def target_of(site: Site, text: str) -> str:
    """The path that this search leads to: an id to its job, `state:failed queue:mail` to a listing, other words to a text search."""
    try:
        words = shlex.split(text[:500])
    except ValueError:
        words = text[:500].split()
    if len(words) == 1 and ":" not in words[0]:
        found = await site.read(site.store.get([words[0]]))
        if found[0] is not None:
            return f"/jobs/{quote(words[0], safe='')}"
        if _looks_like_an_id(words[0]):
            ids = await site.read(site.store.ids(words[0], 2))
            return f"/jobs/{quote(ids[0] if len(ids) == 1 else words[0], safe='')}"
    query: dict[str, str] = {}
    rest = []
    for word in words:
        name, sign, value = word.partition(":")
        if sign and name in TOKENS and value:
            query[name] = value
        else:
            rest.append(word)
    if rest:
        query["text"] = " ".join(rest)
    return f"/jobs?{urlencode(query)}" if query else "/jobs"


def suggestions_of(queues: Sequence[QueueInfo], workers: Sequence[WorkerInfo]) -> list[str]:
    """Filters that may be typed: every state, and the queues and tasks that are known without a search."""
    states = [f"state:{state}" for state in (*(each.value for each in State), "scheduled")]
    tasks = sorted({task for worker in workers for task in worker.tasks})
    names = [f"queue:{queue.name}" for queue in queues] + [f"task:{task}" for task in tasks]
    return (states + [shlex.quote(name) for name in names])[:SUGGESTIONS]


def summary_of_queues(queues: Sequence[QueueInfo]) -> str:
    """The store in a few words, which a screen reader reads out now and then."""
    failed, waiting, running = (
        sum(getattr(queue, state) for queue in queues) for state in ("failed", "waiting", "running")
    )
    return f"{failed:,} failed, {waiting:,} in line, {running:,} running"


def _looks_like_an_id(word: str) -> bool:
    return len(word) >= 8 and all(character in "0123456789abcdef-" for character in word)
