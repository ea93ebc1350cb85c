"""How much memory a child process may allocate."""

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
    """Let what is called allocate so many bytes beside what the process has; more raises `MemoryError`."""

    async def limited(ctx: Context, call_next: Callable[[], Awaitable[Any]]) -> Any:  # noqa: ARG001
        # RLIMIT_DATA counts the private memory that can be written, which is what a job allocates. RLIMIT_AS would count
        # files and libraries that are mapped too, and the address space that the allocator reserves for each thread.
        _, most = resource.getrlimit(resource.RLIMIT_DATA)
        resource.setrlimit(resource.RLIMIT_DATA, (_allocated() + limit, most))
        try:
            return await call_next()
        except MemoryError as error:
            resource.setrlimit(resource.RLIMIT_DATA, (most, most))  # to be told of, it needs some
            raise MemoryError(f"the attempt has reached its memory_limit of {limit:,} bytes") from error
        finally:
            resource.setrlimit(resource.RLIMIT_DATA, (most, most))

    return limited


def _allocated() -> int:
    """Bytes that count already; 0 where the system does not tell."""
    try:
        found = re.search(rb"VmData:\s+(\d+) kB", _STATUS.read_bytes())
    except OSError:
        return 0
    return 0 if found is None else int(found[1]) * 1024
