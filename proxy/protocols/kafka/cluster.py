"""What all sessions of a connection know together of its cluster: names of topic ids, and what was shown masked.

Topic ids never change their topic (KIP-516), so whatever one session learns holds for all.
"""

from __future__ import annotations

import threading
from collections import OrderedDict

NO_ID = bytes(16)
MOST_TOPICS = 200_000  # more than any cluster has; what falls out is asked for again
MOST_RENDITIONS = 100_000


class Cluster:
    """Used from several threads at once."""

    def __init__(self) -> None:
        self._changing = threading.Lock()
        self._names: OrderedDict[bytes, bytes | None] = OrderedDict()
        self._shown: OrderedDict[int, None] = OrderedDict()
        self.is_open = False
        """It has answered somebody who had not logged in: whoever asks it nothing yet is not kept from it by a login."""

    def name(self, topic_id: bytes) -> bytes | None:
        """The topic's name; None where it is not known, or where the id was given to two."""
        return self._names.get(topic_id)

    def learn(self, topic_id: bytes, name: bytes) -> None:
        """The cluster says that the topic of this id has this name. The zero id belongs to no topic, and an id that is
        given a second name belongs to none that could be told."""
        if topic_id == NO_ID or not name:
            return
        with self._changing:
            if topic_id in self._names:
                if self._names[topic_id] != name:
                    self._names[topic_id] = None
                return
            self._names[topic_id] = name
            if len(self._names) > MOST_TOPICS:
                self._names.popitem(last=False)

    def remember(self, topic: bytes, shown: bytes) -> None:
        """A masked value that bears no mask text was shown of the topic: a zero or a false in place of a number or a flag.
        Kept as a hash under a key of this process."""
        told = hash((topic, shown))
        with self._changing:
            self._shown[told] = None
            self._shown.move_to_end(told)
            if len(self._shown) > MOST_RENDITIONS:
                self._shown.popitem(last=False)

    def has_shown(self, topic: bytes, value: bytes) -> bool:
        return hash((topic, value)) in self._shown
