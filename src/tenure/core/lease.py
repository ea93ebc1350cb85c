"""The time-limited right to a job, and its proof."""

from __future__ import annotations

import secrets
from enum import StrEnum

import msgspec

from tenure.core.job import JobRecord

__all__ = ["AbortReason", "Lease", "Token", "new_nonce"]


class AbortReason(StrEnum):
    """Why a running job must stop."""

    TAKEN = "taken_by_another_worker"
    COMPLETED = "already_completed"
    NOT_FOUND = "not_found"
    ERROR = "error"
    CANCELLED = "cancelled"
    TIMEOUT = "timeout"
    SHUTDOWN = "shutdown"


class Token(msgspec.Struct, frozen=True, order=True, gc=False):
    """Proof of a lease. Tokens of one job strictly grow; the nonce tells two stores' worth of equal fences apart."""

    fence: int
    """The how-manieth lease of this job it is."""

    nonce: int
    """63 random bits, drawn by whoever asked for the lease."""

    def __str__(self) -> str:
        return f"{self.fence}-{self.nonce:016x}"


class Lease(msgspec.Struct, frozen=True, gc=False):
    """One job in one worker's hands, until it settles the lease or loses it."""

    job: JobRecord
    token: Token
    ttl: float
    """Seconds from one renewal to the expiry."""

    solo: bool = False
    """Whether it was handed out alone, because the job is a suspect."""

    number: int = 0
    """By which the store that gave it finds the job again, and may lock it: not to be made up. Of no meaning to others."""


def new_nonce() -> int:
    """Draw the random part of a token: 63 bits, so that every store can hold it in a signed integer."""
    return secrets.randbits(63)
