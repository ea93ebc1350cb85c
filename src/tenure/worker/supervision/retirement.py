"""`retire`: takes the jobs of a dead worker process from it at once."""

from __future__ import annotations

import asyncio
import logging

from tenure.errors import OutcomeUnknown, StoreFull, StoreUnavailable

__all__ = ["prepare", "retire"]

PAUSES = (0.0, 0.2, 0.5, 1.0, 2.0, 4.0)
"""Seconds before each try."""

ANSWER = 5.0
"""Seconds that a try may take."""

log = logging.getLogger("tenure.supervisor")


def prepare(url: str) -> None:
    """Import what is needed to reach this store. When a worker has died there is no time for it."""
    import tenure.observe.observed  # noqa: F401
    from tenure.stores import open_store

    open_store(url)


async def retire(url: str, worker_id: str, reason: str) -> None:
    """Retire a dead worker in the store, so that its jobs go back to the front.

    A store that does not answer is tried a few times. After that, the jobs come back when their leases end.
    """
    for pause in PAUSES:
        await asyncio.sleep(pause)
        try:
            async with asyncio.timeout(ANSWER):
                await _retire(url, worker_id, reason)
        except (TimeoutError, StoreUnavailable, OutcomeUnknown, StoreFull) as error:
            log.info("could not retire worker %s: %s", worker_id, error)
        except Exception:
            log.exception("could not retire worker %s: its jobs come back when their leases end", worker_id)
            return
        else:
            return
    from tenure.stores import masked

    log.error("%s does not answer: the jobs of worker %s come back when their leases end", masked(url), worker_id)


async def _retire(url: str, worker_id: str, reason: str) -> None:
    from tenure.observe.audience import Audience
    from tenure.observe.observed import observed
    from tenure.stores import open_store

    store = observed(open_store(url), Audience())
    try:
        taken = 0
        while reaped := await store.retire(worker_id, reason=reason):
            taken += len(reaped)
    finally:
        await store.close()
    log.log(
        logging.WARNING if taken else logging.INFO,
        "worker %s retired (%s), %d job(s) taken from it",
        worker_id,
        reason,
        taken,
    )
