"""A Redis session as bytes in, bytes out: order, transactions, logins, subscriptions, rules that change."""

from __future__ import annotations

import pytest

from proxy.core.errors import WireError
from proxy.core.session import SessionSettings
from proxy.core.steps import Record
from proxy.core.viewer import Viewer
from proxy.protocols.redis.session import RedisSession
from proxy.protocols.redis.wire import encode_command
from rules.model import (
    AccessList,
    Connection,
    Extent,
    Field,
    FieldKind,
    Grant,
    Kind,
    Method,
    Partial,
    Platform,
    Redact,
    Rule,
    RuleBook,
    Whom,
)
from rules.paths import parse_path
from rules.policy import Policy
from tests.playbook import Play

SHOP = Connection("shop", Platform.REDIS, "production")
MASK = "••••".encode()
CANARY = b"c4n4ry-4111111111111111"


def rule(name: str, keys: str, *fields: Field, mask_all: bool = False) -> Rule:
    return Rule(name, Platform.REDIS, ((Kind.KEY, (keys,)),), mask_all=mask_all, fields=fields)


def path(text: str, method: Method = Redact()) -> Field:
    return Field(FieldKind.JSON_PATH, method, parse_path(text))


def named(name: str, method: Method = Redact()) -> Field:
    return Field(FieldKind.FIELD, method, name=name)


WHOLE = Field(FieldKind.WHOLE_VALUE, Redact())
SECRETS = rule("Secrets", "secret:*", WHOLE)
PROFILES = rule("Profiles", "user:*", named("email"))
JSON = rule("Documents", "doc:*", path("$.card"))
EVERYTHING = Grant(True, "messages.read.unmasked", Whom.USER, "alice", Extent(installation=True))
EU_ONLY = Grant(True, "messages.read.unmasked", Whom.USER, "erin", Extent(resources=((Kind.KEY, ("secret:eu:*",)),)))
BOOK = RuleBook("1", (SECRETS, PROFILES, JSON), AccessList(grants=(EVERYTHING, EU_ONLY)))


class Clock:
    now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


class Desk:
    """A session with its policy and clock at hand."""

    def __init__(self, book: RuleBook = BOOK, *, settings: SessionSettings | None = None, fixed: str | None = None) -> None:
        self.policy = Policy(book)
        self.clock = Clock()
        self.viewer = Viewer(SHOP, "redis", "127.0.0.1:5", lambda: self.policy, self.clock, fixed=fixed)
        self.play = Play(RedisSession(self.viewer, settings or SessionSettings()))

    def ask(self, *argv: bytes, answer: bytes = b"") -> bytes:
        """What the reader sees of one command and the server's answer to it; asserts that nothing else went up."""
        said = self.play.reader(encode_command(argv))
        return said + (self.play.server(answer) if answer else b"")

    def log_in(self, name: bytes) -> None:
        assert self.ask(b"AUTH", name, b"pw", answer=b"+OK\r\n") == b"+OK\r\n"
        self.play.sent_up()

    def replace(self, *rules: Rule) -> None:
        self.policy = Policy(RuleBook("2", rules, BOOK.access))
        self.play.policy_changed()


@pytest.fixture
def desk() -> Desk:
    return Desk()


def blob(data: bytes) -> bytes:
    return b"$%d\r\n%s\r\n" % (len(data), data)


def array(*items: bytes) -> bytes:
    return b"*%d\r\n" % len(items) + b"".join(items)


MASKED = blob(MASK)
REFUSED = b'-NOPERM veil: %b on "%b" is refused: the masking rule "Secrets" covers it\r\n'


def test_a_covered_string_is_masked_and_another_is_not(desk: Desk) -> None:
    assert desk.ask(b"GET", b"secret:1", answer=blob(CANARY)) == MASKED
    assert desk.ask(b"GET", b"open:1", answer=blob(CANARY)) == blob(CANARY)


def test_a_hash_field_is_hidden_and_its_neighbour_is_not(desk: Desk) -> None:
    answer = array(blob(b"name"), blob(b"Ada"), blob(b"email"), blob(CANARY))
    expected = array(blob(b"name"), blob(b"Ada"), blob(b"email"), MASKED)

    assert desk.ask(b"HGETALL", b"user:1", answer=answer) == expected


def test_a_resp3_map_is_masked_too(desk: Desk) -> None:
    desk.ask(b"HELLO", b"3", answer=b"%1\r\n+proto\r\n:3\r\n")

    shown = desk.ask(b"HGETALL", b"user:1", answer=b"%1\r\n" + blob(b"email") + blob(CANARY))

    assert shown == b"%1\r\n" + blob(b"email") + MASKED


@pytest.mark.parametrize(
    ("words", "answer"),
    [
        (b"HKEYS secret:1", array(blob(b"email"), blob(b"name"))),
        (b"HEXISTS secret:1 email", b":1\r\n"),
        (b"HTTL secret:1 FIELDS 1 email", array(b":-1\r\n")),
        (b"XPENDING secret:1 g - + 10", array(array(blob(b"1-1"), blob(b"c"), b":7\r\n", b":1\r\n"))),
        (b"XINFO GROUPS secret:1", array(b"%1\r\n" + blob(b"name") + blob(b"g"))),
        (b"HRANDFIELD secret:1", blob(b"email")),
        (b"BF.INFO secret:1", b"%1\r\n+Capacity\r\n:100\r\n"),
    ],
)
def test_names_and_counts_of_a_covered_key_pass_in_any_form(desk: Desk, words: bytes, answer: bytes) -> None:
    assert desk.ask(*words.split(), answer=answer) == answer
    assert desk.ask(b"PING", answer=b"+PONG\r\n") == b"+PONG\r\n"


def test_a_pipeline_keeps_its_order_with_a_refusal_inside(desk: Desk) -> None:
    get, strlen, ping = (encode_command(argv) for argv in ((b"GET", b"open"), (b"STRLEN", b"secret:1"), (b"PING",)))

    assert desk.play.reader(get + strlen + ping) == b""
    assert desk.play.sent_up() == get + ping
    assert desk.play.server(blob(b"7") + b"+PONG\r\n") == blob(b"7") + REFUSED % (b"STRLEN", b"secret:1") + b"+PONG\r\n"
    assert [(note.event, note.operation) for note in desk.play.notes] == [("masking.refused", "STRLEN")]


def test_byte_by_byte_gives_the_same_bytes(desk: Desk) -> None:
    asked = encode_command((b"GET", b"secret:1")) + b"GET secret:2\r\n" + encode_command((b"GET", b"open"))
    answered = blob(CANARY) + blob(CANARY) + blob(b"7")
    shown = b""

    for byte in asked:
        shown += desk.play.reader(bytes([byte]))
    for byte in answered:
        shown += desk.play.server(bytes([byte]))

    assert desk.play.sent_up() == b"".join(encode_command((b"GET", key)) for key in (b"secret:1", b"secret:2", b"open"))
    assert shown == MASKED + MASKED + blob(b"7")


def test_an_inline_command_goes_up_as_an_array(desk: Desk) -> None:
    desk.play.reader(b'GET "secret:\\x31"\r\n')

    assert desk.play.sent_up() == encode_command((b"GET", b"secret:1"))
    assert desk.play.server(blob(CANARY)) == MASKED


@pytest.mark.parametrize("line", [b"POST / HTTP/1.1\r\n", b"host: x\r\n"])
def test_an_http_request_closes_and_nothing_goes_up(desk: Desk, line: bytes) -> None:
    with pytest.raises(WireError):
        desk.play.reader(line + encode_command((b"GET", b"open")))

    assert desk.play.sent_up() == b""


def test_nonsense_is_answered_after_what_was_asked_before(desk: Desk) -> None:
    desk.play.reader(encode_command((b"GET", b"secret:1")) + b"*1\r\n:3\r\n")

    with pytest.raises(WireError) as caught:
        desk.play.server(blob(CANARY))
    assert caught.value.answer.startswith(b"-ERR Protocol error")
    assert desk.play.to_reader == MASKED


# --- transactions ----------------------------------------------------------------------------------------------------


def begin(desk: Desk) -> None:
    assert desk.ask(b"MULTI", answer=b"+OK\r\n") == b"+OK\r\n"


def test_exec_masks_each_element_by_its_own_command(desk: Desk) -> None:
    begin(desk)
    for argv in ((b"GET", b"secret:1"), (b"GET", b"open"), (b"HGETALL", b"user:1")):
        assert desk.ask(*argv, answer=b"+QUEUED\r\n") == b"+QUEUED\r\n"

    answer = array(blob(CANARY), blob(b"7"), array(blob(b"email"), blob(CANARY)))

    assert desk.ask(b"EXEC", answer=answer) == array(MASKED, blob(b"7"), array(blob(b"email"), MASKED))


def test_a_refusal_in_a_transaction_aborts_it(desk: Desk) -> None:
    begin(desk)
    assert desk.ask(b"STRLEN", b"secret:1") == REFUSED % (b"STRLEN", b"secret:1")
    desk.ask(b"SET", b"open", b"1", answer=b"+QUEUED\r\n")
    desk.play.sent_up()

    shown = desk.ask(b"EXEC", answer=b"+OK\r\n")

    assert desk.play.sent_up() == encode_command((b"DISCARD",))
    assert shown.startswith(b"-EXECABORT")
    assert desk.ask(b"GET", b"secret:1", answer=blob(CANARY)) == MASKED


@pytest.mark.parametrize(
    "argv", [(b"AUTH", b"alice", b"pw"), (b"HELLO", b"3"), (b"SUBSCRIBE", b"x"), (b"CLIENT", b"REPLY", b"OFF")]
)
def test_what_may_not_be_queued_is_refused_in_a_transaction(desk: Desk, argv: tuple[bytes, ...]) -> None:
    begin(desk)
    desk.play.sent_up()

    assert desk.ask(*argv).startswith(b"-NOPERM veil: ")
    assert desk.play.sent_up() == b""
    assert desk.ask(b"EXEC", answer=b"+OK\r\n").startswith(b"-EXECABORT")


def test_exec_judges_its_queue_again_when_a_rule_came(desk: Desk) -> None:
    begin(desk)
    desk.ask(b"STRLEN", b"late:1", answer=b"+QUEUED\r\n")
    desk.replace(SECRETS, rule("Late", "late:*", WHOLE))
    desk.play.sent_up()

    assert desk.ask(b"EXEC", answer=b"+OK\r\n").startswith(b"-EXECABORT")
    assert desk.play.sent_up() == encode_command((b"DISCARD",))


def test_an_exec_of_another_length_closes_both_sides(desk: Desk) -> None:
    begin(desk)
    desk.ask(b"GET", b"secret:1", answer=b"+QUEUED\r\n")

    with pytest.raises(WireError):
        desk.ask(b"EXEC", answer=array(blob(b"1"), blob(CANARY)))
    assert CANARY not in desk.play.to_reader


def test_nested_multi_and_watch_nil_keep_the_queue_aligned(desk: Desk) -> None:
    begin(desk)
    desk.ask(b"MULTI", answer=b"-ERR MULTI calls can not be nested\r\n")
    desk.ask(b"GET", b"secret:1", answer=b"+QUEUED\r\n")
    assert desk.ask(b"EXEC", answer=b"*-1\r\n") == b"*-1\r\n"
    begin(desk)
    desk.ask(b"GET", b"secret:1", answer=b"+QUEUED\r\n")

    assert desk.ask(b"EXEC", answer=array(blob(CANARY))) == array(MASKED)


# --- who reads -------------------------------------------------------------------------------------------------------


def test_a_permitted_reader_sees_it_after_it_was_recorded(desk: Desk) -> None:
    desk.log_in(b"alice")

    assert desk.ask(b"GET", b"secret:1", answer=blob(CANARY)) == blob(CANARY)
    (entry,) = desk.play.recorded
    assert (entry.event, entry.who, entry.rules[0].name) == ("broker.message.read-unmasked", "alice", "Secrets")


def test_nothing_is_shown_before_it_is_recorded(desk: Desk) -> None:
    desk.log_in(b"alice")
    desk.play.stop_at = Record
    desk.play.reader(encode_command((b"GET", b"secret:1")))

    assert desk.play.server(blob(CANARY)) == b""
    desk.play.stop_at = None
    desk.play.waiting[0].resume(None)
    assert desk.play.to_reader.endswith(MASKED)
    assert len(desk.play.recorded) == 0


def test_a_refusal_cannot_overtake_a_reply_that_waits_for_the_record(desk: Desk) -> None:
    desk.log_in(b"alice")
    desk.viewer.named("erin")
    desk.play.to_reader = b""
    desk.play.reader(encode_command((b"GET", b"secret:eu:1")))
    desk.play.stop_at = Record
    desk.play.server(blob(CANARY))
    assert desk.play.reader(encode_command((b"STRLEN", b"secret:us:1"))) == b""
    desk.play.stop_at = None
    desk.play.waiting[0].resume(None)

    assert desk.play.to_reader == MASKED + REFUSED % (b"STRLEN", b"secret:us:1")


def test_with_a_dead_journal_the_permitted_reader_is_an_ordinary_one(desk: Desk) -> None:
    desk.log_in(b"alice")
    desk.play.journal_works = False

    assert desk.ask(b"GET", b"secret:1", answer=blob(CANARY)) == MASKED
    assert desk.ask(b"STRLEN", b"secret:1") == REFUSED % (b"STRLEN", b"secret:1")
    assert desk.ask(b"EVAL", b"return 1", b"0").startswith(b"-NOPERM veil: EVAL is refused")


def test_a_name_that_any_password_opens_is_ordinary(desk: Desk) -> None:
    desk.play.proven = False
    desk.log_in(b"alice")

    assert desk.ask(b"GET", b"secret:1", answer=blob(CANARY)) == MASKED
    assert desk.play.recorded == []


def test_nothing_goes_up_between_a_login_and_its_answer(desk: Desk) -> None:
    desk.play.reader(encode_command((b"AUTH", b"alice", b"pw")) + encode_command((b"GET", b"secret:1")))
    assert desk.play.sent_up() == encode_command((b"AUTH", b"alice", b"pw"))

    desk.play.server(b"-WRONGPASS no\r\n")

    assert desk.play.sent_up() == encode_command((b"GET", b"secret:1"))
    assert desk.play.server(blob(CANARY)) == MASKED


def test_reset_makes_nobody_of_the_reader(desk: Desk) -> None:
    desk.log_in(b"alice")
    assert desk.ask(b"RESET", answer=b"+RESET\r\n") == b"+RESET\r\n"

    assert desk.ask(b"GET", b"secret:1", answer=blob(CANARY)) == MASKED


def test_a_queued_auth_names_nobody(desk: Desk) -> None:
    desk.ask(b"AUTH", b"alice", b"pw", answer=b"+QUEUED\r\n")

    assert desk.ask(b"GET", b"secret:1", answer=blob(CANARY)) == MASKED


def test_hello_with_auth_names_its_reader(desk: Desk) -> None:
    desk.ask(b"HELLO", b"3", b"SETNAME", b"x", b"AUTH", b"alice", b"pw", answer=b"%1\r\n+proto\r\n:3\r\n")

    assert desk.ask(b"GET", b"secret:1", answer=blob(CANARY)) == blob(CANARY)


def test_what_names_no_key_needs_a_grant_on_all_of_the_connection(desk: Desk) -> None:
    desk.log_in(b"erin")
    assert desk.ask(b"EVAL", b"return 1", b"0").startswith(b"-NOPERM")
    desk.log_in(b"alice")

    assert desk.ask(b"EVAL", b"return 1", b"0", answer=b":1\r\n") == b":1\r\n"
    assert desk.play.recorded[-1].resource is not None
    assert desk.play.recorded[-1].resource.name == b"*"
    assert {tag.name for tag in desk.play.recorded[-1].rules} == {"Secrets", "Profiles", "Documents"}


def test_a_blocking_read_lapses(desk: Desk) -> None:
    desk.log_in(b"alice")
    desk.play.reader(encode_command((b"BLPOP", b"secret:1", b"0")))
    desk.clock.now_s = 601.0

    assert desk.play.server(array(blob(b"secret:1"), blob(CANARY))) == array(blob(b"secret:1"), MASKED)


# --- rules that change -----------------------------------------------------------------------------------------------


def test_a_rule_that_came_while_the_reply_was_under_way_masks_it(desk: Desk) -> None:
    desk.play.reader(encode_command((b"GET", b"late:1")) + encode_command((b"STRLEN", b"late:1")))
    desk.replace(rule("Late", "late:*", WHOLE))

    shown = desk.play.server(blob(CANARY) + b":23\r\n")

    assert shown.startswith(MASKED + b"-NOPERM veil: STRLEN")
    assert b":23" not in shown


def test_a_rule_that_went_while_the_reply_was_under_way_still_masks_it(desk: Desk) -> None:
    desk.play.reader(encode_command((b"GET", b"secret:1")))
    desk.replace(PROFILES)

    assert desk.play.server(blob(CANARY)) == MASKED
    assert desk.ask(b"GET", b"secret:1", answer=blob(CANARY)) == blob(CANARY)


def test_a_slice_that_went_up_before_the_rule_is_hidden_whole(desk: Desk) -> None:
    desk.play.reader(encode_command((b"GETRANGE", b"late:1", b"0", b"3")))
    desk.replace(rule("Late", "late:*", path("$.card", Partial(keep_first=1))))

    assert desk.play.server(blob(CANARY[:4])) == MASKED


def test_a_blocked_copy_is_ended_when_a_rule_would_refuse_it(desk: Desk) -> None:
    desk.play.reader(encode_command((b"BLMOVE", b"late:1", b"out", b"LEFT", b"LEFT", b"0")))
    desk.replace(rule("Late", "late:*", WHOLE))

    assert desk.play.closed


def test_a_caching_reader_is_told_to_forget_when_a_rule_changes(desk: Desk) -> None:
    desk.ask(b"HELLO", b"3", answer=b"%1\r\n+proto\r\n:3\r\n")
    desk.ask(b"CLIENT", b"TRACKING", b"ON", answer=b"+OK\r\n")
    desk.play.to_reader = b""

    desk.replace(PROFILES)

    assert desk.play.to_reader == b">2\r\n$10\r\ninvalidate\r\n_\r\n"


def test_the_invalidation_waits_for_the_end_of_a_frame(desk: Desk) -> None:
    desk.ask(b"HELLO", b"3", answer=b"%1\r\n+proto\r\n:3\r\n")
    desk.ask(b"CLIENT", b"TRACKING", b"ON", answer=b"+OK\r\n")
    desk.play.reader(encode_command((b"GET", b"open")))
    desk.play.to_reader = b""
    desk.play.server(b"$6\r\nabc")
    desk.replace(PROFILES)
    desk.play.server(b"def\r\n")

    assert desk.play.to_reader == blob(b"abcdef") + b">2\r\n$10\r\ninvalidate\r\n_\r\n"


def test_a_rule_that_comes_while_a_value_streams_ends_the_connection(desk: Desk) -> None:
    desk.play.reader(encode_command((b"GET", b"late:1")))
    desk.play.server(b"$200000\r\n" + b"x" * 1000)
    desk.replace(rule("Late", "late:*", WHOLE))

    with pytest.raises(WireError):
        desk.play.server(CANARY)
    assert CANARY not in desk.play.to_reader


@pytest.mark.parametrize("answer", [b":7\r\n", array(blob(b"email")), b"+hash\r\n", b"*0\r\n", b"$-1\r\n"])
def test_names_and_counts_of_a_covered_key_pass(desk: Desk, answer: bytes) -> None:
    assert desk.ask(b"HKEYS", b"user:1", answer=answer) == answer
    begin(desk)
    desk.ask(b"HKEYS", b"user:1", answer=b"+QUEUED\r\n")
    assert desk.ask(b"EXEC", answer=array(answer)) == array(answer)


# --- subscriptions ---------------------------------------------------------------------------------------------------


def confirmation(verb: bytes, name: bytes, count: int) -> bytes:
    return array(blob(verb), blob(name), b":%d\r\n" % count)


def test_messages_are_masked_by_their_channel_and_replies_stay_in_step(desk: Desk) -> None:
    desk.play.reader(encode_command((b"SUBSCRIBE", b"secret:ch", b"open")))
    confirmed = confirmation(b"subscribe", b"secret:ch", 1) + confirmation(b"subscribe", b"open", 2)
    assert desk.play.server(confirmed) == confirmed

    message = array(blob(b"message"), blob(b"secret:ch"), blob(CANARY))
    assert desk.play.server(message) == array(blob(b"message"), blob(b"secret:ch"), MASKED)

    desk.play.reader(encode_command((b"UNSUBSCRIBE",)))
    left = confirmation(b"unsubscribe", b"open", 1) + confirmation(b"unsubscribe", b"secret:ch", 0)
    assert desk.play.server(left) == left
    assert desk.ask(b"GET", b"secret:1", answer=blob(CANARY)) == MASKED


def test_resp3_confirmations_are_pushes_and_take_their_slot(desk: Desk) -> None:
    desk.ask(b"HELLO", b"3", answer=b"%1\r\n+proto\r\n:3\r\n")
    desk.play.reader(encode_command((b"SUBSCRIBE", b"secret:ch")) + encode_command((b"GET", b"secret:1")))
    push = b">3\r\n" + blob(b"subscribe") + blob(b"secret:ch") + b":1\r\n"
    early = b">3\r\n" + blob(b"message") + blob(b"secret:ch") + blob(CANARY)

    shown = desk.play.server(push + early + blob(CANARY))

    assert shown == push + b">3\r\n" + blob(b"message") + blob(b"secret:ch") + MASKED + MASKED


def test_only_channels_recorded_at_the_start_are_heard_unmasked(desk: Desk) -> None:
    desk.log_in(b"alice")
    desk.play.reader(encode_command((b"SUBSCRIBE", b"secret:a")) + encode_command((b"PSUBSCRIBE", b"secret:*")))
    desk.play.server(confirmation(b"subscribe", b"secret:a", 1) + confirmation(b"psubscribe", b"secret:*", 2))
    known = array(blob(b"message"), blob(b"secret:a"), blob(CANARY))
    by_pattern = [array(blob(b"pmessage"), blob(b"secret:*"), blob(b"secret:b"), each) for each in (blob(CANARY), MASKED)]

    assert desk.play.server(known) == known
    assert desk.play.server(by_pattern[0]) == by_pattern[1]
    desk.clock.now_s = 601.0
    assert CANARY not in desk.play.server(known)


def test_a_subscription_hears_a_new_rule_at_once(desk: Desk) -> None:
    desk.play.reader(encode_command((b"SUBSCRIBE", b"late:ch")))
    desk.play.server(confirmation(b"subscribe", b"late:ch", 1))
    desk.replace(rule("Late", "late:*", WHOLE))

    assert CANARY not in desk.play.server(array(blob(b"message"), blob(b"late:ch"), blob(CANARY)))


# --- what comes besides ----------------------------------------------------------------------------------------------


def test_client_reply_is_carried_out_here(desk: Desk) -> None:
    assert desk.ask(b"CLIENT", b"REPLY", b"SKIP") == b""
    assert desk.ask(b"GET", b"open", answer=blob(b"7")) == b""
    assert desk.ask(b"GET", b"secret:1", answer=blob(CANARY)) == MASKED
    assert desk.ask(b"CLIENT", b"REPLY", b"OFF") == b""
    assert desk.ask(b"STRLEN", b"secret:1") == b""
    assert desk.ask(b"CLIENT", b"REPLY", b"ON") == b"+OK\r\n"
    assert b"REPLY" not in desk.play.sent_up()


def test_attributes_do_not_shift_replies(desk: Desk) -> None:
    desk.ask(b"HELLO", b"3", answer=b"%1\r\n+proto\r\n:3\r\n")
    desk.play.reader(encode_command((b"GET", b"open")) + encode_command((b"GET", b"secret:1")))

    shown = desk.play.server(b"|1\r\n+ttl\r\n" + blob(CANARY) + blob(b"7") + blob(CANARY))

    assert shown == blob(b"7") + MASKED


@pytest.mark.parametrize("error", [b"MOVED 3999 10.0.0.9:6381", b"ASK 3999 10.0.0.9:6381", b"REDIRECT 10.0.0.9:6381"])
def test_no_address_of_another_node_gets_through(desk: Desk, error: bytes) -> None:
    shown = desk.ask(b"GET", b"open", answer=b"-" + error + b"\r\n")

    assert shown.startswith(b"-CLUSTERDOWN")
    assert b"10.0.0.9" not in shown


def test_an_answer_without_a_command_closes(desk: Desk) -> None:
    with pytest.raises(WireError):
        desk.play.server(blob(CANARY))
    assert desk.play.to_reader == b""


def test_a_type_byte_nobody_knows_closes(desk: Desk) -> None:
    desk.play.reader(encode_command((b"GET", b"open")))

    with pytest.raises(WireError):
        desk.play.server(b"?" + CANARY + b"\r\n")


def test_monitor_lines_keep_the_command_and_its_key(desk: Desk) -> None:
    assert desk.ask(b"MONITOR", answer=b"+OK\r\n") == b"+OK\r\n"
    line = b'+1700000000.000001 [0 127.0.0.1:4] "set" "secret:1" "%b"\r\n' % CANARY

    shown = desk.play.server(line)

    assert b"secret:1" in shown
    assert CANARY not in shown


def test_a_large_reply_of_an_open_key_streams_through(desk: Desk) -> None:
    desk.play.reader(encode_command((b"GET", b"open")))

    assert desk.play.server(b"$200000\r\n" + b"x" * 1000) == b"$200000\r\n" + b"x" * 1000


def test_a_covered_value_over_the_limit_is_masked_whole_without_being_held() -> None:
    desk = Desk()
    desk.play.reader(encode_command((b"GET", b"secret:1")))
    size = 65 * 1024 * 1024
    shown = desk.play.server(b"$%d\r\n" % size)
    for _ in range(65):
        shown += desk.play.server(b"s" * 1024 * 1024)

    assert shown + desk.play.server(b"\r\n") == MASKED


def test_a_full_queue_holds_the_reader_and_loses_nothing(desk: Desk) -> None:
    asked = encode_command((b"GET", b"secret:1")) * 3000
    desk.play.reader(asked)
    assert desk.play.held
    for _ in range(3000):
        desk.play.server(blob(CANARY))

    assert desk.play.sent_up() == asked
    assert desk.play.to_reader == MASKED * 3000


def test_before_the_first_read_of_the_rules_everything_is_masked() -> None:
    desk = Desk()
    desk.policy = Policy.closed()

    assert desk.ask(b"GET", b"any", answer=blob(CANARY)) == MASKED
    assert b"the masking rules could not be read" in desk.ask(b"STRLEN", b"any")
    assert b"the masking rules could not be read" in desk.ask(b"NOSUCH", b"any")


@pytest.mark.parametrize("rules", [rule("Whole", "z:*", WHOLE), rule("All", "z:*", mask_all=True)], ids=["whole", "all"])
def test_no_member_of_a_sorted_set_can_be_told_from_another_where_values_are_hidden_whole(rules: Rule) -> None:
    desk = Desk(RuleBook("1", (rules,)))
    held = array(blob(b'{"email":"%b"}' % CANARY), blob(b"null"), blob(b'{"guess'), blob(b"plain"))

    assert desk.ask(b"ZRANGE", b"z:1", b"0", b"-1", answer=held) == array(*[MASKED] * 4)
