"""The lease of a job: a worker's right to it for a limited time, and the token that proves it."""

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
    """Proof of a lease. Tokens of one job strictly grow. The nonce tells equal fences apart, as after a restored backup."""

    fence: int
    """Number of this lease of the job, from 1."""

    nonce: int
    """63 random bits, drawn by the worker that asked for the lease."""

    def __str__(self) -> str:
        return f"{self.fence}-{self.nonce:016x}"


class Lease(msgspec.Struct, frozen=True, gc=False):
    """One worker's hold on one job, until the worker settles the lease or loses it."""

    job: JobRecord
    token: Token
    ttl: float
    """Seconds from a renewal to the expiry."""

    solo: bool = False
    """Whether the job was leased alone, because it is a suspect."""

    number: int = 0
    """The internal number under which the store finds and locks the job. Only the store that gave the lease can set it."""


def new_nonce() -> int:
    """Draw the random part of a token: 63 bits, so that every store can hold it in a signed integer."""
    return secrets.randbits(63)
