"""What was said and sent goes out in order, in one step a side, and what is alone is not copied."""

from __future__ import annotations

from proxy.core.outbox import FLUSH_BYTES, Outbox
from proxy.core.steps import ToReader, ToServer
from rules.view import plain


def test_all_that_was_said_goes_out_as_one_step_in_its_order() -> None:
    outbox = Outbox()
    outbox.say(plain(b"a"))
    outbox.send(b"up")
    outbox.say(plain(b"x" * FLUSH_BYTES))
    outbox.send(b"wards")
    outbox.say(plain(b""))
    outbox.say(plain(b"b"))

    assert outbox.is_long
    assert list(outbox.flush()) == [ToServer(b"upwards"), ToReader(plain(b"a" + b"x" * FLUSH_BYTES + b"b"))]
    assert list(outbox.flush()) == []
    assert not outbox.is_long


def test_an_answer_that_is_alone_goes_out_as_the_very_bytes() -> None:
    outbox, answer = Outbox(), plain(b"x" * FLUSH_BYTES)
    outbox.say(answer)

    (step,) = outbox.flush()

    assert isinstance(step, ToReader)
    assert step.data is answer


def test_what_is_said_while_a_step_is_under_way_waits_for_the_next() -> None:
    outbox = Outbox()
    outbox.send(b"up")
    outbox.say(plain(b"a"))
    steps = outbox.flush()

    assert next(steps) == ToServer(b"up")
    outbox.say(plain(b"b"))
    assert next(steps) == ToReader(plain(b"ab"))
    outbox.say(plain(b"c"))
    assert list(steps) == []
    assert list(outbox.flush()) == [ToReader(plain(b"c"))]
