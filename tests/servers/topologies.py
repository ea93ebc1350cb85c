"""Several servers that are one: a cluster, and a master watched by sentinels."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from .server import PATIENCE, Server

__all__ = ["Cluster", "Watched", "eventually"]

SLOTS = 16384

QUICK = ("--repl-diskless-sync-delay", "0", "--repl-ping-replica-period", "1")


def eventually(holds: Callable[[], object], what: str, timeout: float = PATIENCE) -> None:
    """Wait until something holds, looking often."""
    deadline = time.monotonic() + timeout
    while not holds():
        assert time.monotonic() < deadline, f"{what} did not come true within {timeout:g} s"
        time.sleep(0.02)


class Cluster:
    """Masters that share the slots evenly, and one replica for each of the first few."""

    def __init__(self, folder: Path, masters: int = 3, replicas: int = 0) -> None:
        options = (
            *QUICK,
            "--cluster-enabled",
            "yes",
            "--cluster-node-timeout",
            "500",
            "--cluster-require-full-coverage",
            "no",
        )
        self.nodes = [
            Server(folder / str(number), *options, "--cluster-config-file", f"nodes-{number}.conf").start()
            for number in range(masters + replicas)
        ]
        self.masters = self.nodes[:masters]
        self.replicas = self.nodes[masters:]
        for number, node in enumerate(self.masters):
            first, last = number * SLOTS // masters, (number + 1) * SLOTS // masters - 1
            node.do("CLUSTER", "ADDSLOTSRANGE", first, last)
            node.do("CLUSTER", "SET-CONFIG-EPOCH", number + 1)
        for node in self.nodes[1:]:
            node.do("CLUSTER", "MEET", "127.0.0.1", self.nodes[0].port)
        for node in self.nodes:
            eventually(lambda node=node: self._knows_all(node), "a node that knows the others")  # type: ignore[misc]
        for replica, master in zip(self.replicas, self.masters, strict=False):
            replica.do("CLUSTER", "REPLICATE", self.id_of(master))
            eventually(lambda replica=replica: self._follows(replica), "a replica in sync")  # type: ignore[misc]
        for node in self.nodes:  # a failover needs their votes, which those who know nothing of a replica do not give
            eventually(lambda node=node: self._sees_replicas(node), "a node that knows the replicas")  # type: ignore[misc]

    @property
    def url(self) -> str:
        return "redis+cluster://" + ",".join(f"127.0.0.1:{node.port}" for node in self.nodes)

    def id_of(self, node: Server) -> str:
        return str(node.do("CLUSTER", "MYID").decode())

    def holder_of(self, slot: int) -> Server:
        """The master of a slot."""
        number = next(n for n in range(len(self.masters)) if slot < (n + 1) * SLOTS // len(self.masters))
        return self.masters[number]

    def begin_to_move(self, slot: int, source: Server, target: Server) -> None:
        target.do("CLUSTER", "SETSLOT", slot, "IMPORTING", self.id_of(source))
        source.do("CLUSTER", "SETSLOT", slot, "MIGRATING", self.id_of(target))

    def move_keys(self, slot: int, source: Server, target: Server) -> None:
        while keys := source.do("CLUSTER", "GETKEYSINSLOT", slot, 100):
            source.do("MIGRATE", "127.0.0.1", target.port, "", 0, 5000, "KEYS", *keys)

    def end_move(self, slot: int, target: Server) -> None:
        mine = self.id_of(target)
        for node in [target, *(each for each in self.masters if each is not target)]:
            node.do("CLUSTER", "SETSLOT", slot, "NODE", mine)

    def close(self) -> None:
        for node in self.nodes:
            node.kill()

    def _knows_all(self, node: Server) -> bool:
        facts = node.do("CLUSTER", "INFO")
        return f"cluster_known_nodes:{len(self.nodes)}\r\n".encode() in facts and b"cluster_state:ok" in facts

    def _sees_replicas(self, node: Server) -> bool:
        return sum(len(nodes) - 1 for _, _, *nodes in node.do("CLUSTER", "SLOTS")) == len(self.replicas)

    @staticmethod
    def _follows(node: Server) -> bool:
        role = node.do("ROLE")
        return bool(role[0] == b"slave" and role[3] == b"connected")


class Watched:
    """A master, a replica, and sentinels that make the replica master when the master is gone."""

    def __init__(self, folder: Path, sentinels: int = 3) -> None:
        self.name = "main"
        self.master = Server(folder / "master", *QUICK).start()
        self.replica = Server(folder / "replica", "--replicaof", f"127.0.0.1 {self.master.port}").start()
        eventually(lambda: self.replica.do("ROLE")[3] == b"connected", "a replica in sync")
        self.sentinels = [self._sentinel(folder / f"sentinel-{number}") for number in range(sentinels)]
        for each in self.sentinels:
            eventually(lambda each=each: self._sees_all(each), "a sentinel that knows the others")  # type: ignore[misc]

    @property
    def url(self) -> str:
        return "redis+sentinel://" + ",".join(f"127.0.0.1:{each.port}" for each in self.sentinels) + f"/{self.name}"

    def close(self) -> None:
        for each in (*self.sentinels, self.master, self.replica):
            each.kill()

    def _sentinel(self, folder: Path) -> Server:
        folder.mkdir()
        configuration = folder / "sentinel.conf"
        configuration.write_text(
            f"sentinel monitor {self.name} 127.0.0.1 {self.master.port} 2\n"
            f"sentinel down-after-milliseconds {self.name} 500\n"
            f"sentinel failover-timeout {self.name} 2000\n"
        )
        return Server(folder, sentinel=configuration).start()

    def _sees_all(self, sentinel: Server) -> bool:
        facts = sentinel.do("SENTINEL", "MASTER", self.name)
        known = dict(zip(facts[::2], facts[1::2], strict=True))
        return int(known[b"num-other-sentinels"]) == len(self.sentinels) - 1 and int(known[b"num-slaves"]) == 1
