"""Examines a file for `tenure doctor`: the version of SQLite, the disk, the doorbells, latencies."""

from __future__ import annotations

import os
import re
import secrets
import shutil
import socket
from collections.abc import Awaitable, Callable
from pathlib import Path
from time import perf_counter

from tenure.stores.sqlite import schema
from tenure.stores.sqlite.doorbell import Doorbells
from tenure.stores.sqlite.engine import Engine
from tenure.stores.sqlite.library import Library
from tenure.stores.values import Fact, Health

__all__ = ["facts", "file_system"]

FIXED_IN = (3, 51, 3)
"""The version of SQLite that fixed a race between a checkpoint and a reset of the log, which could corrupt the file."""

LOW_SPACE, NO_SPACE = 256 << 20, 16 << 20
"""Free bytes on the disk below which the finding is a warning, and a failure."""

SLOW = 0.1
"""Seconds from which on a round trip is too slow."""

NETWORK = {
    "9p", "afs", "beegfs", "ceph", "cifs", "fuse.glusterfs", "fuse.rclone", "fuse.s3fs", "fuse.sshfs", "glusterfs", "lustre",
    "ncpfs", "nfs", "nfs4", "smb3", "smbfs",
}  # fmt: skip


async def facts(engine: Engine) -> list[Fact]:
    """Examine the file, creating it if need be."""
    [journal] = await engine.read(lambda tx: list(tx.select("PRAGMA journal_mode", ())))
    [version] = await engine.read(lambda tx: list(tx.select("SELECT sqlite_version()", ())))
    [size, log] = [_size(engine.path + suffix) for suffix in ("", "-wal")]
    return [
        _library(version[0], engine.library),
        Fact("file", f"{engine.path}, {_bytes(size)}, and {_bytes(log)} of log"),
        Fact("layout", f"{schema.KNOWN}"),
        _journal(journal[0]),
        Fact(
            "durability", "an enqueue is on disk before it returns; a job whose end is lost in a power cut runs again"
        ),
        _space(shutil.disk_usage(os.path.dirname(engine.path)).free),
        _disk(engine.path),
        _doorbell(engine.bells),
        # The reserved seq stays unused.
        await _latency("write", lambda: engine.write(lambda tx: tx.reserve_seqs(1), durable=True)),
        await _latency("read", lambda: engine.read(lambda tx: tx.one("list_queues"))),
    ]


def file_system(path: str, mounts: str) -> str:
    """The type of the file system that contains `path`, by a table such as /proc/mounts. Of equal mounts the last one counts."""
    best, found = "", "unknown"
    for line in mounts.splitlines():
        _, point, kind, *_ = line.split(" ")
        point = re.sub(r"\\(\d{3})", lambda octal: chr(int(octal[1], 8)), point)
        if os.path.commonpath([path, point]) == point and len(point) >= len(best):
            best, found = point, kind
    return found


def _library(version: str, library: Library) -> Fact:
    value = f"{version}, through {library}"
    if tuple(int(part) for part in version.split(".")[:3]) >= FIXED_IN:
        return Fact("SQLite", value)
    advice = {
        Library.APSW: "upgrade apsw, which brings its own",
        Library.PYTHON: "use a Python with a newer SQLite, or use the file only through apsw",
    }
    return Fact("SQLite", value, Health.WARN, f"it may corrupt the file under load: {advice[library]}")


def _journal(mode: str) -> Fact:
    if mode == "wal":
        return Fact("journal", mode)
    return Fact(
        "journal", mode, Health.BAD, "writers and readers block each other: let no other program change it from wal"
    )


def _space(free: int) -> Fact:
    if free >= LOW_SPACE:
        return Fact("free space", _bytes(free))
    health = Health.WARN if free >= NO_SPACE else Health.BAD
    return Fact("free space", _bytes(free), health, "a full disk refuses new jobs: free some, or move the file")


def _disk(path: str) -> Fact:
    try:
        kind = file_system(os.path.realpath(path), Path("/proc/mounts").read_text(encoding="utf-8"))
    except OSError:
        kind = "unknown"
    if kind not in NETWORK:
        return Fact("file system", kind)
    return Fact(
        "file system", kind, Health.WARN, "locks do not hold over a network: move the file to a disk of this machine"
    )


def _doorbell(bells: Doorbells) -> Fact:
    """Create a doorbell and remove it again."""
    name = f"doctor-{secrets.token_hex(4)}"
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as bell:
            bell.bind(bells.address(name))
        bells.take_down(name)  # a worker that has just started may have removed it: it sweeps dead doorbells
    except OSError as error:
        why = f"none in {bells.folder}: {error.strerror or error}"
        return Fact(
            "doorbell",
            why,
            Health.WARN,
            "idle workers find new jobs only by polling: let all users of the file write to that folder",
        )
    return Fact("doorbell", str(bells.folder))


async def _latency(what: str, call: Callable[[], Awaitable[object]]) -> Fact:
    taken = []
    for _ in range(3):
        began = perf_counter()
        await call()
        taken.append(perf_counter() - began)
    typical = sorted(taken)[1]
    name, value = f"{what} latency", f"{typical * 1000:.2g} ms" if typical < SLOW else f"{typical:.2g} s"
    if typical < SLOW:
        return Fact(name, value)
    return Fact(name, value, Health.WARN, "the disk is slow or busy: put the file on a faster one")


def _size(path: str) -> int:
    try:
        return os.stat(path).st_size
    except FileNotFoundError:
        return 0


def _bytes(number: float) -> str:
    for unit in ("B", "kB", "MB"):
        if number < 1000:
            return f"{number:.3g} {unit}"
        number /= 1000
    return f"{number:.3g} GB"
