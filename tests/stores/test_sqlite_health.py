"""What a SQLite file has to tell about itself."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from tenure.stores.sqlite import health
from tenure.stores.sqlite.doorbell import Doorbells
from tenure.stores.sqlite.library import Library
from tenure.stores.sqlite.store import SqliteStore
from tenure.stores.values import Health

MOUNTS = r"""proc /proc proc rw 0 0
/dev/sda1 / ext4 rw 0 0
server:/home /home nfs4 rw 0 0
/dev/sdb1 /home/local xfs rw 0 0
share /mnt/two\040words cifs rw 0 0
/dev/sdc1 /var ext4 rw 0 0
overlay /var btrfs rw 0 0
"""


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/jobs.db", "ext4"),
        ("/home/me/jobs.db", "nfs4"),
        ("/home/local/jobs.db", "xfs"),
        ("/home/locality/jobs.db", "nfs4"),
        ("/homes/jobs.db", "ext4"),
        ("/mnt/two words/jobs.db", "cifs"),
        ("/var/lib/jobs.db", "btrfs"),
    ],
)
def test_the_file_system_of_a_path_is_that_of_its_innermost_mount(path: str, kind: str) -> None:
    assert health.file_system(path, MOUNTS) == kind


def test_a_system_without_such_a_table_says_nothing_about_it() -> None:
    assert health.file_system("/jobs.db", "") == "unknown"


@pytest.mark.parametrize(
    ("version", "verdict"), [("3.40.1", "warn"), ("3.51.2", "warn"), ("3.51.3", "ok"), ("3.100.0", "ok")]
)
def test_a_library_that_may_corrupt_the_file_is_warned_of(version: str, verdict: str) -> None:
    assert health._library(version, Library.PYTHON).health == verdict


@pytest.mark.parametrize(("free", "verdict"), [(10 << 30, "ok"), (200 << 20, "warn"), (1 << 20, "bad")])
def test_a_disk_that_fills_up_is_told_of_in_time(free: int, verdict: str) -> None:
    assert health._space(free).health == verdict


def test_a_bell_that_somebody_else_has_swept_away_is_no_fault(tmp_path: Path) -> None:
    bells, others, over = Doorbells(str(tmp_path / "jobs.db")), Doorbells(str(tmp_path / "jobs.db")), threading.Event()

    def sweep() -> None:
        while not over.is_set():
            others.sweep()

    bells.address("")  # makes the folder
    sweeper = threading.Thread(target=sweep)
    sweeper.start()
    try:
        found = {health._doorbell(bells).health for _ in range(500)}
    finally:
        over.set()
        sweeper.join()
        bells.close()
        others.close()
    assert found == {Health.OK}


def test_another_journal_is_bad() -> None:
    assert [health._journal(mode).health for mode in ("wal", "delete")] == ["ok", "bad"]


async def test_the_examination_leaves_no_trace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(health, "SLOW", 20.0)  # for the other tests may keep the disk busy
    store = SqliteStore(tmp_path / "jobs.db")

    facts = await store.examine()

    assert [fact for fact in facts if fact.health is not Health.OK] == []
    assert await store.queues() == []
    assert sorted(path.name for path in (tmp_path / "jobs.db-bells").iterdir()) == ["idle"]
    await store.close()
