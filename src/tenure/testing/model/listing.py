"""`Listing`: the searches of the model."""

from __future__ import annotations

from typing import Any

from tenure.core.job import ErrorInfo, State
from tenure.stores.values import Search
from tenure.testing.model.data import Job, ModelData

__all__ = ["Listing"]


class Listing(ModelData):
    """Data that can be searched. The model gives all jobs at once, without pages and without a limit of rows."""

    def search(self, search: Search) -> list[Job]:
        return sorted(self.where(lambda job: _fits(job, search)), key=lambda job: self.sort_key(job, search))

    def sort_key(self, job: Job, search: Search) -> tuple[float, ...]:
        """What a job is listed by. Jobs for which this is equal may be listed in any order."""
        match search.state:
            case None:
                return (-job.number,)
            case State.WAITING:
                place = (0.0, job.new.priority) if job.run_at is None else (1.0, job.run_at)
                return place if search.queue is None else (*place, job.seq)
            case State.BLOCKED:
                return (job.new.priority,)
            case State.RUNNING:
                return (job.started_at or 0.0,)
            case _:
                return (-(job.ended_at or 0.0),)

    def listed(self, job: Job, search: Search) -> tuple[Any, ...]:
        """The payload, result, error and headers of a job, as a search shows them."""
        most, error = search.brief, job.error
        if error is not None and most is not None:
            error = ErrorInfo(error.type[:most], error.message[:most])
        return job.new.payload[:most], None if job.result is None else job.result[:most], error, job.new.headers


def _fits(job: Job, search: Search) -> bool:
    error = ErrorInfo("", "") if job.error is None else job.error
    texts = (job.new.payload, error.type.encode(), error.message.encode())
    return all(
        [
            search.state in {None, job.state},
            search.queue in {None, job.new.queue},
            search.task in {None, job.new.task},
            search.tag is None or search.tag in job.new.tags,
            search.scheduled in {None, job.place == "scheduled"},
            search.error in {None, error.type},
            search.text is None or any(search.text.encode() in text for text in texts),
            search.worker in {None, job.worker},
            search.before is None or (job.ended_at is not None and job.ended_at <= search.before),
        ]
    )
