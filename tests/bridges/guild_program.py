"""A worker of the Guild queue `checking` that a test can kill: `python -m tests.bridges.guild_program STORE REDIS FOLDER`.

Each attempt appends its Guild id to `started` in the folder, and waits there for the file `go`.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

from tenure import App
from tenure.bridges import Guild

store, redis_url, folder = sys.argv[1], sys.argv[2], Path(sys.argv[3])
app = App(store, lease=1.5, missing_after=2)
guild = Guild(app, redis_url, flow="access", lookup=["userId", "roleIds"])


@guild.queue("checking", then="granting", lock=10)
def checking(id: str, userId: int) -> dict[str, object]:  # noqa: A002 - names of Guild's attributes
    with (folder / "started").open("a") as started:
        started.write(f"{id}\n")
    while not (folder / "go").exists():
        time.sleep(0.01)
    return {"checked": userId}


if __name__ == "__main__":
    guild.worker(concurrency=2, beat=0.5).run()
