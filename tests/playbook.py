"""Drives a session by hand: feed either side, look at what it wants done. No I/O, no loop."""

from __future__ import annotations

from dataclasses import dataclass, field

from proxy.core.addresses import Endpoint, Node
from proxy.core.session import Session
from proxy.core.steps import Advertise, Ask, Close, EndServer, Hold, Note, Record, Step, Steps, ToReader, ToServer
from rules.audit import Entry, Receipt


@dataclass
class Waiting:
    """A direction that stands at a step: `resume` answers it."""

    play: Play
    steps: Steps[None]
    step: Step

    def resume(self, answer: object = None) -> None:
        self.play.carry(self.steps, answer)


@dataclass
class Play:
    """`journal_works` and `proven` answer Record and Ask, `places` Advertise (any node, unless some are listed);
    `stop_at` makes a direction wait at such a step."""

    session: Session
    journal_works: bool = True
    proven: bool = True
    stop_at: type[Step] | None = None
    places: dict[int, Endpoint] | None = None
    advertised: list[Node] = field(default_factory=list)
    to_server: bytes = b""
    to_reader: bytes = b""
    recorded: list[Entry] = field(default_factory=list)
    notes: list[Entry] = field(default_factory=list)
    closed: str = ""
    ended: bool = False
    waiting: list[Waiting] = field(default_factory=list)
    held: list[Steps[None]] = field(default_factory=list)

    def reader(self, data: bytes) -> bytes:
        """What the reader is sent while its bytes are worked on."""
        before = len(self.to_reader)
        self.carry(self.session.from_reader(data))
        return self.to_reader[before:]

    def server(self, data: bytes) -> bytes:
        """What the reader is sent because of bytes of the server."""
        before = len(self.to_reader)
        self.carry(self.session.from_server(data))
        self._wake()
        return self.to_reader[before:]

    def policy_changed(self) -> None:
        self.carry(self.session.policy_changed())
        self._wake()

    def wake(self) -> None:
        self.carry(self.session.wake())
        self._wake()

    def _wake(self) -> None:
        held, self.held = self.held, []
        for steps in held:
            self.carry(steps)

    def carry(self, steps: Steps[None], answer: object = None) -> None:
        while True:
            try:
                step = steps.send(answer)
            except StopIteration:
                return
            answer = None
            if self.stop_at is not None and isinstance(step, self.stop_at):
                self.waiting.append(Waiting(self, steps, step))
                return
            match step:
                case ToServer(data):
                    self.to_server += data
                case ToReader(data):
                    self.to_reader += data
                case Record(entries):
                    if self.journal_works:
                        self.recorded += entries
                        answer = tuple(Receipt(entry, len(self.recorded)) for entry in entries)
                case Note(entry):
                    self.notes.append(entry)
                case Ask():
                    answer = self.proven
                case Advertise(nodes):
                    self.advertised += nodes
                    answer = self.places
                    if self.places is None:
                        answer = {node.id: Endpoint("veil.example", 19100 + node.id) for node in nodes}
                case Hold():
                    self.held.append(steps)
                    return
                case EndServer():
                    self.ended = True
                case Close(reason):
                    self.closed = reason
                    return

    def sent_up(self) -> bytes:
        """What went to the server since the last call."""
        data, self.to_server = self.to_server, b""
        return data
