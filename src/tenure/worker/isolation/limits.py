"""`limited_memory`: middleware that limits the memory that a child process may allocate."""

from __future__ import annotations

import re
import resource
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from tenure.tasks.context import Context, Middleware

__all__ = ["limited_memory"]

_STATUS = Path("/proc/self/status")


def limited_memory(limit: int) -> Middleware:
    """Middleware that lets the function allocate `limit` bytes beyond what the process has; more raises `MemoryError`."""

    async def limited(ctx: Context, call_next: Callable[[], Awaitable[Any]]) -> Any:  # noqa: ARG001
        # RLIMIT_DATA counts private writable memory, which is what a job allocates. RLIMIT_AS would also count mapped
        # files and libraries, and the address space that the allocator reserves for each thread.
        _, most = resource.getrlimit(resource.RLIMIT_DATA)
        resource.setrlimit(resource.RLIMIT_DATA, (_allocated() + limit, most))
        try:
            return await call_next()
        except MemoryError as error:
            resource.setrlimit(resource.RLIMIT_DATA, (most, most))  # reporting the error needs memory
            raise MemoryError(f"the attempt has reached its memory_limit of {limit:,} bytes") from error
        finally:
            resource.setrlimit(resource.RLIMIT_DATA, (most, most))

    return limited


def _allocated() -> int:
    """Bytes that already count towards the limit; 0 where the system does not say."""
    try:
        found = re.search(rb"VmData:\s+(\d+) kB", _STATUS.read_bytes())
    except OSError:
        return 0
    return 0 if found is None else int(found[1]) * 1024
