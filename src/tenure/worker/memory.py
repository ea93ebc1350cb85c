"""`occupied`: how much memory this process uses."""

from __future__ import annotations

import os
import resource
import sys
from pathlib import Path

__all__ = ["occupied"]

_STATM = Path("/proc/self/statm")
_PAGE = os.sysconf("SC_PAGE_SIZE")


def occupied() -> int:
    """Resident memory of this process, in bytes. Where the system does not say: its peak."""
    try:
        return int(_STATM.read_bytes().split()[1]) * _PAGE
    except OSError:
        most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return most if sys.platform == "darwin" else most * 1024
