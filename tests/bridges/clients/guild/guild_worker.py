"""A bridge worker for tests with the real client: `python guild_worker.py STORE REDIS FOLDER LOCK`.

Each attempt of `checking` appends its userId to `started` in the folder. Jobs from userId 1000 wait there for the file `go`.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from tenure import App
from tenure.bridges import Guild

store, redis_url, folder = sys.argv[1], sys.argv[2], Path(sys.argv[3])
app = App(store, lease=1, missing_after=1.5)
guild = Guild(app, redis_url, flow="access", lookup=["userId", "roleIds"])


@guild.queue("checking", then="granting", lock=int(sys.argv[4]), max_losses=None)  # tests kill it more than twice
async def checking(userId: int, roleIds: list[str]) -> dict[str, object]:
    with (folder / "started").open("a") as started:
        started.write(f"{userId}\n")
    while userId >= 1000 and not (folder / "go").exists():
        await asyncio.sleep(0.01)
    return {"allowed": roleIds}


@guild.queue("parent:role", lock=int(sys.argv[4]))
def role(roleId: str) -> dict[str, object]:
    return {"done": True, "ok": roleId}


if __name__ == "__main__":
    guild.worker(concurrency=2, beat=0.5).run()
