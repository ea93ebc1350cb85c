"""Under which name a worker enters the registry."""

from __future__ import annotations

import os
import re
import secrets
import socket

__all__ = ["Identity"]


class Identity:
    """The names of one worker: each `take` gives one that nobody has had, but for the first if the user gave a name."""

    def __init__(self, given: str | None) -> None:
        self.host = socket.gethostname()
        self.pid = os.getpid()
        host = re.sub(r"[^A-Za-z0-9.-]", "-", self.host).strip(".-")[:80] or "worker"
        self.stem = given or f"{host}:{self.pid}"
        """What all of them begin with."""

        self._free = given

    def take(self) -> str:
        # Host and pid alone would come again: containers have equal ones, and pids are reused.
        taken, self._free = self._free or f"{self.stem}:{secrets.token_hex(4)}", None
        return taken
