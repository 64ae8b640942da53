"""proxy.core.renditions: what was shown masked is known when it comes back, of its resource, and not for ever."""

from __future__ import annotations

import threading

import pytest

from proxy.core import renditions
from proxy.core.renditions import Renditions


def test_a_rendition_is_known_of_its_resource_alone() -> None:
    one = Renditions()
    one.remember(b"orders", b'{"card":0}')

    assert one.has_shown(b"orders", b'{"card":0}')
    assert not one.has_shown(b"orders", b'{"card": 0}')
    assert not one.has_shown(b"free", b'{"card":0}')


def test_the_one_that_was_shown_longest_ago_is_forgotten_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(renditions, "MOST_RENDITIONS", 2)
    one = Renditions()
    for shown in (b"0", b"1", b"0", b"2"):
        one.remember(b"q", shown)

    assert [one.has_shown(b"q", shown) for shown in (b"0", b"1", b"2")] == [True, False, True]


def test_it_bears_several_threads_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(renditions, "MOST_RENDITIONS", 50)
    one = Renditions()

    def remember(start: int) -> None:
        for number in range(2000):
            one.remember(b"q", b"%d" % (start + number))

    threads = [threading.Thread(target=remember, args=(at * 1000,)) for at in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()

    assert sum(one.has_shown(b"q", b"%d" % number) for number in range(5000)) == 50


def test_nothing_of_a_value_is_kept() -> None:
    one = Renditions()
    one.remember(b"orders", b"secret-rendition")

    assert "secret" not in repr(vars(one))
