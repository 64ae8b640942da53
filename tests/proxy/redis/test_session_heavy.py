"""What a session says of the work that is to come, and a policy that is put in force in the middle of a step."""

from __future__ import annotations

import pytest

from proxy.core.outbox import FLUSH_BYTES
from proxy.protocols.redis.contents import SHAPES
from proxy.protocols.redis.session.pending import ARGUMENT_BYTES, LARGE_BYTES
from proxy.protocols.redis.wire import Node, encode_command
from rules.model import RuleBook
from rules.policy import Policy
from rules.view import View

from .desk import BOOK, CANARY, MASK, WHOLE, Desk, array, blob, path, rule

OK = b"+OK\r\n"
QUEUED = b"+QUEUED\r\n"
LATE = rule("Late", "doc:*", WHOLE)


def weight(desk: Desk) -> int:
    return desk.play.session.weight


def test_a_flood_of_small_commands_weighs_nothing(desk: Desk) -> None:
    desk.play.reader(encode_command((b"GET", b"secret:1")) * 1000)

    assert weight(desk) == 0


@pytest.mark.parametrize(
    "argv",
    [
        (b"RPUSH", b"secret:1", b"x" * LARGE_BYTES),
        (b"MGET", *[b"k"] * (LARGE_BYTES // ARGUMENT_BYTES)),
    ],
    ids=["one long argument", "many short arguments"],
)
def test_a_large_command_weighs_until_it_is_answered(desk: Desk, argv: tuple[bytes, ...]) -> None:
    desk.play.reader(encode_command(argv))

    assert weight(desk) >= LARGE_BYTES

    desk.play.server(b":1\r\n" if argv[0] == b"RPUSH" else array(*[b"$-1\r\n"] * (len(argv) - 1)))

    assert weight(desk) == 0


def test_a_transaction_weighs_from_its_commands_to_the_answer_of_exec(desk: Desk) -> None:
    count = LARGE_BYTES // ARGUMENT_BYTES
    desk.ask(b"MULTI", answer=OK)
    for _ in range(count):
        desk.ask(b"GET", b"secret:1", answer=QUEUED)

    assert weight(desk) >= LARGE_BYTES

    desk.play.reader(encode_command((b"EXEC",)))

    assert weight(desk) >= LARGE_BYTES

    desk.play.server(array(*[blob(CANARY)] * count))

    assert weight(desk) == 0
    assert CANARY not in desk.play.to_reader


def test_a_transaction_that_is_given_up_weighs_nothing(desk: Desk) -> None:
    desk.ask(b"MULTI", answer=OK)
    desk.ask(b"RPUSH", b"open", b"x" * LARGE_BYTES, answer=QUEUED)
    desk.ask(b"DISCARD", answer=OK)

    assert weight(desk) == 0


def in_the_middle(monkeypatch: pytest.MonkeyPatch, desk: Desk, *policies: Policy) -> None:
    """Each time a value was masked another of the policies is in force, as if the loop had put it there meanwhile."""
    left = list(policies)
    masked = View.value

    def value(view: View, data: bytes) -> object:
        cut = masked(view, data)
        if left:
            desk.policy = left.pop(0)
        return cut

    monkeypatch.setattr(View, "value", value)


def test_a_rule_that_comes_while_a_reply_is_masked_masks_it(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    in_the_middle(monkeypatch, desk, Policy(RuleBook("2", (*BOOK.rules, LATE), BOOK.access)))
    document = b'{"card":"%b","name":"%b"}'

    assert desk.ask(b"GET", b"doc:1", answer=blob(document % (b"1", CANARY))) == blob(document % (MASK, MASK))
    assert CANARY not in desk.play.to_reader


def test_rules_that_come_one_after_the_other_are_all_taken_in(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    second = rule("Second", "doc:*", path("$.name"))
    in_the_middle(
        monkeypatch,
        desk,
        Policy(RuleBook("2", (*BOOK.rules, second), BOOK.access)),
        Policy(RuleBook("3", (*BOOK.rules, second, LATE), BOOK.access)),
    )
    document = b'{"card":"%b","name":"%b","note":"%b"}'
    expected = blob(document % (MASK, MASK, MASK))

    assert desk.ask(b"LRANGE", b"doc:1", b"0", b"-1", answer=array(blob(document % (b"1", b"2", CANARY)))) == array(expected)
    assert CANARY not in desk.play.to_reader


def test_what_is_counted_of_a_reply_that_was_masked_again_counts_once(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    document = blob(b'{"card":"%b"}' % CANARY)
    early = Desk()
    for each in (early, desk):
        each.play.reader(encode_command((b"GET", b"doc:1")))
    early.policy = Policy(BOOK)  # before the reply is there
    early.play.server(document)
    in_the_middle(monkeypatch, desk, Policy(BOOK))
    desk.play.server(document)

    assert desk.viewer.tally.masked == early.viewer.tally.masked
    assert CANARY not in desk.play.to_reader


def test_a_rule_that_comes_while_a_message_is_masked_masks_it(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    desk.ask(b"SUBSCRIBE", b"doc:1", answer=array(blob(b"subscribe"), blob(b"doc:1"), b":1\r\n"))
    in_the_middle(monkeypatch, desk, Policy(RuleBook("2", (*BOOK.rules, LATE), BOOK.access)))
    payload = b'{"name":"%b"}'
    message = array(blob(b"message"), blob(b"doc:1"), blob(payload % CANARY))

    assert desk.play.server(message) == array(blob(b"message"), blob(b"doc:1"), blob(payload % MASK))
    assert CANARY not in desk.play.to_reader


def test_a_rule_that_would_refuse_and_comes_while_a_reply_is_laid_out_refuses_it(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk.replace(rule("Documents", "doc:*", path("$.card")), rule("Others", "other:*", WHOLE))
    newest = Policy(RuleBook("3", (rule("Late", "doc:*", WHOLE),), BOOK.access))
    whole = SHAPES["hidden"]

    def hidden(argv: tuple[bytes, ...], reply: Node, lens: object, version: int) -> Node:
        desk.policy = newest
        return whole(argv, reply, lens, version)  # type: ignore[arg-type]

    monkeypatch.setitem(SHAPES, "hidden", hidden)
    desk.play.reader(encode_command((b"GETRANGE", b"doc:1", b"0", b"30")))
    desk.replace(rule("Documents", "doc:*", path("$.card")))

    shown = desk.play.server(blob(b"%b" % CANARY))

    assert CANARY not in shown
    assert CANARY not in desk.play.to_reader


def while_judging(monkeypatch: pytest.MonkeyPatch, desk: Desk, newest: Policy) -> None:
    """The policy comes into force as soon as a view was looked up."""
    view = Policy.view

    def changed(policy: Policy, *what: object) -> View:
        seen = view(policy, *what)  # type: ignore[arg-type]
        desk.policy = newest
        return seen

    monkeypatch.setattr(Policy, "view", changed)


@pytest.mark.parametrize("argv", [(b"STRLEN", b"late:1"), (b"COPY", b"late:1", b"open"), (b"GETBIT", b"late:1", b"0")])
def test_a_command_that_a_policy_refuses_which_comes_while_it_is_judged_is_not_sent(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, argv: tuple[bytes, ...]
) -> None:
    while_judging(monkeypatch, desk, Policy(RuleBook("2", (rule("Late", "late:*", WHOLE),), BOOK.access)))

    assert desk.play.reader(encode_command(argv)).startswith(b"-NOPERM veil: " + argv[0])
    assert desk.play.sent_up() == b""


def test_a_transaction_that_a_policy_refuses_which_comes_at_its_exec_is_given_up(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk.ask(b"MULTI", answer=OK)
    desk.ask(b"COPY", b"late:1", b"open", answer=QUEUED)
    desk.ask(b"STRLEN", b"other:1", answer=QUEUED)
    desk.play.sent_up()
    while_judging(monkeypatch, desk, Policy(RuleBook("2", (rule("Late", "late:*", WHOLE),), BOOK.access)))

    assert desk.ask(b"EXEC", answer=OK).startswith(b"-EXECABORT")
    assert desk.play.sent_up() == encode_command((b"DISCARD",))


TRANSACTION = (b"MULTI",), (b"GET", b"late:1"), (b"GET", b"doc:1"), (b"EXEC",)
LARGE = blob(b'{"card":"1","note":"%b"}' % (b"x" * FLUSH_BYTES))
EARLY = blob(CANARY)


@pytest.mark.parametrize(
    ("commands", "replies"),
    [
        (((b"GET", b"late:1"), (b"GET", b"doc:1")), EARLY + LARGE),
        (((b"GET", b"late:1"), (b"LRANGE", b"doc:1", b"0", b"-1")), EARLY + array(*[blob(b'{"card":"1"}')] * 5000)),
        (((b"GET", b"late:1"), *[(b"GET", b"doc:1")] * 100), EARLY + blob(b'{"card":"%b"}' % (b"1" * 1000)) * 100),
        (TRANSACTION, b"+OK\r\n" + b"+QUEUED\r\n" * 2 + array(EARLY, LARGE)),
        (
            ((b"SUBSCRIBE", b"doc:1"),),
            array(blob(b"subscribe"), blob(b"doc:1"), b":1\r\n")
            + array(blob(b"message"), blob(b"late:1"), EARLY)
            + array(blob(b"message"), blob(b"doc:1"), LARGE),
        ),
        (
            ((b"GET", b"late:1"),),
            EARLY + b">3\r\n" + blob(b"message") + blob(b"doc:1") + LARGE,
        ),
    ],
    ids=["a value", "a list", "many small values", "a transaction", "a message", "a push"],
)
def test_what_was_said_before_something_large_is_on_its_way_when_that_is_masked(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, commands: tuple[tuple[bytes, ...], ...], replies: bytes
) -> None:
    """A rule that comes meanwhile applies to what is shown after it: it must find nothing that waits to be sent."""
    taken: list[bool] = []
    masked = View.value

    def value(view: View, data: bytes) -> object:
        taken.append(CANARY in desk.play.to_reader)
        return masked(view, data)

    monkeypatch.setattr(View, "value", value)
    for each in commands:
        desk.play.reader(encode_command(each))
    desk.play.server(replies)

    assert taken[-1]
