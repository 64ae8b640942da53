"""The worker's side: carries out what the supervisor wants, and ends when there is none any more."""

from __future__ import annotations

from typing import Protocol

import trio

from .channel import Channel, ChannelBroken
from .report import Report

FAREWELL_S = 1.0


class Serving(Protocol):
    """What serves the readers."""

    def report(self) -> Report: ...
    def drain(self) -> None: ...
    def stop_now(self) -> None: ...
    def reread(self) -> None: ...


class Desk:
    def __init__(self, channel: Channel) -> None:
        self._channel = channel

    async def run(self, serving: Serving) -> None:
        """Obeys until it is cancelled. Without a supervisor nobody reads metrics or ends what runs away: it stops."""
        await self._channel.send(serving.report().as_message())
        while True:
            try:
                message = await self._channel.receive()
            except ChannelBroken:
                message = None
            if message is None:
                serving.stop_now()
                return
            match message.get("want"):
                case "report":
                    await self._channel.send(serving.report().as_message())
                case "drain":
                    serving.drain()
                case "stop":
                    serving.stop_now()
                case "reread":
                    serving.reread()
                case _:
                    serving.stop_now()
                    return

    async def farewell(self, serving: Serving) -> None:
        """The last counts, once no reader is left."""
        with trio.move_on_after(FAREWELL_S):
            await self._channel.send(serving.report().as_message())
