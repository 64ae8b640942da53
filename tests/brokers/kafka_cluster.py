"""Three real Kafka nodes, each broker and controller, as processes: what happens when one is gone."""

from __future__ import annotations

import shutil
from pathlib import Path

from . import mode
from .kafka_java import HOW, java
from .kafka_server import CONTROLLER, PLAIN, SASL, KafkaServer
from .processes import wait_until

NODES = 1, 2, 3


class KafkaCluster:
    """Its nodes by id; topics have three replicas and need one of them."""

    def __init__(self, folder: Path) -> None:
        if java() is None:
            mode.absent("kafka", HOW)
        self.nodes: dict[int, KafkaServer] = {}
        for node in NODES:
            own = folder / f"node{node}"
            own.mkdir()
            server = KafkaServer(own, listeners=(PLAIN, SASL), heap="256m")
            server.node_id = node
            server.replication = len(NODES)
            self.nodes[node] = server
        self._choose_ports()

    def _choose_ports(self) -> None:
        for server in self.nodes.values():
            server.choose_ports()
            shutil.rmtree(server.folder / "data", ignore_errors=True)
        voters = {node: server.ports[CONTROLLER] for node, server in self.nodes.items()}
        for server in self.nodes.values():
            server.voters = voters

    def address(self, listener: str = PLAIN) -> str:
        """All nodes, as a client's bootstrap list."""
        return ",".join(server.at(listener) for server in self.nodes.values())

    @property
    def secrets(self) -> tuple[bytes, ...]:
        """As of one node: what may be in no byte that a reader gets."""
        return tuple(sorted({each for server in self.nodes.values() for each in server.secrets}))

    def first(self) -> None:
        """Starts all.

        Raises:
            OSError: they did not come up, nor did they on other ports.
        """
        for attempt in range(3):
            try:
                self.begin()
            except OSError:
                self.stop()
                if attempt == 2:
                    raise
                self._choose_ports()  # somebody took a port between the look and the start
            else:
                return

    def begin(self) -> None:
        """Starts all that do not run, at once, and returns when each knows of all."""
        for server in self.nodes.values():
            if not server.alive():
                server.launch()
            else:
                server.resume()
        for server in self.nodes.values():
            server.wait()
        wait_until(lambda: all(self.seen_by(node) == set(NODES) for node in NODES), "three nodes know each other", 60)

    def seen_by(self, node: int) -> set[int]:
        """The ids of the nodes that this one tells of."""
        with self.nodes[node].client() as client:
            return {int(each.node_id) for each in client.metadata().brokers}

    def leader(self, topic: str, partition: int = 0, *, ask: int) -> int:
        """The node that leads it as node `ask` knows it; -1 for none."""
        with self.nodes[ask].client() as client:
            for each in client.metadata().topics:
                if each.name == topic:
                    return next((int(one.leader_id) for one in each.partitions if one.partition_index == partition), -1)
        return -1

    def kill(self, node: int) -> None:
        """SIGKILL. The others notice after three seconds."""
        self.nodes[node].kill()

    def start(self, node: int) -> None:
        """It again, on its ports and with its data."""
        self.nodes[node].start()

    def stop(self) -> None:
        for server in self.nodes.values():
            server.stop()
