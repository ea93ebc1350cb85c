"""Identity: the names under which a worker enters the registry."""

from __future__ import annotations

import os
import re
import secrets
import socket

__all__ = ["Identity"]


class Identity:
    """Makes the names of one worker. The first is the one that the user gave, if any; all others are new."""

    def __init__(self, given: str | None) -> None:
        self.host = socket.gethostname()
        self.pid = os.getpid()
        host = re.sub(r"[^A-Za-z0-9.-]", "-", self.host).strip(".-")[:80] or "worker"
        self.stem = given or f"{host}:{self.pid}"
        """The beginning of all its names."""

        self._free = given

    def take(self) -> str:
        # Host and pid alone are not unique: containers have equal ones, and pids are reused.
        taken, self._free = self._free or f"{self.stem}:{secrets.token_hex(4)}", None
        return taken
