"""A real web console in front of a real Redis: first directly, so that the test is known to see values, then through Veil."""

from __future__ import annotations

import json

import pytest

from tests.brokers.redis_server import RedisServer
from tests.brokers.veil import Veil, VeilFactory
from tests.canary import Canary, CanaryFound

from .browser import Browser
from .fixtures import ConsoleFactory
from .redis_commander import RedisCommander

pytestmark = pytest.mark.slow

RULES = """
rules:
  - name: Customer contact
    platform: redis
    resources: {key: ["customer:*"]}
    fields:
      - {kind: json_path, path: $.email, method: redact}
      - {kind: json_path, path: $.card, method: partial, keep_last: 4}
  - name: Profiles
    platform: redis
    resources: {key: ["profile:*"]}
    fields:
      - {kind: field, name: email, method: redact}
  - name: Sessions
    platform: redis
    resources: {key: ["session:*"]}
    mask_all: true
"""
MASK = "••••"


def _filled(server: RedisServer, canary: Canary) -> None:
    server.add_user("support", "demo")
    server.close_default()
    with server.admin() as admin:
        document = {"name": "Ada", "email": canary.text(), "card": canary.text()}
        admin.call("SET", "customer:1", json.dumps(document))
        admin.call("HSET", "profile:1", "email", canary.text(), "name", "Ada")
        admin.call("RPUSH", "session:1", canary.text(), canary.text())
        admin.call("SADD", "session:2", canary.text())
        admin.call("ZADD", "session:3", 7, canary.text())
        admin.call("XADD", "session:4", "*", "token", canary.text())
        admin.call("SET", "public:1", "plain to see")


KEYS = "customer:1", "profile:1", "session:1", "session:2", "session:3", "session:4", "public:1"


def _show(browser: Browser, console: RedisCommander, key: str) -> str:
    """Selects a key as a click in the tree does, and gives what can be read then."""
    node = json.dumps(f"{console.connection}:{key}")
    browser.go(console.url)
    browser.wait_for("typeof getKeyTree === 'function' && document.querySelectorAll('#keyTree li').length > 1")
    browser.evaluate("getKeyTree().open_all(); 0")
    browser.wait_for(f"!!getKeyTree().get_node({node})")
    browser.evaluate(f"getKeyTree().select_node({node}); 0")
    browser.wait_for(f"document.querySelector('#body').innerText.includes({json.dumps(key)})")
    return browser.text()


def test_directly_the_console_shows_every_value(
    redis_once: RedisServer, redis_commander: ConsoleFactory, canary: Canary
) -> None:
    _filled(redis_once, canary)
    console = redis_commander(redis_once, user="support", password="demo")

    answers = [json.dumps(console.key(key)) for key in KEYS]

    for value in canary.values:
        assert any(value in answer for answer in answers), f"{value} is nowhere: the masked test would prove nothing"
    with pytest.raises(CanaryFound):
        canary.assert_not_in(bytes(console.seen))


def test_directly_the_page_shows_the_value(
    redis_once: RedisServer, redis_commander: ConsoleFactory, browser: Browser, canary: Canary
) -> None:
    _filled(redis_once, canary)
    console = redis_commander(redis_once, user="support", password="demo")

    _show(browser, console, "customer:1")
    browser.screenshot("redis-commander-direct")

    with pytest.raises(CanaryFound):
        canary.assert_not_in(browser.html())


@pytest.fixture
def masked(redis_once: RedisServer, veil: VeilFactory, canary: Canary) -> Veil:
    """Veil in front of the filled server."""
    _filled(redis_once, canary)
    return veil(RULES, upstream=redis_once)


def test_through_veil_no_answer_of_the_console_holds_a_masked_value(
    masked: Veil, redis_commander: ConsoleFactory, canary: Canary
) -> None:
    console = redis_commander(masked, user="support", password="demo")

    document = json.loads(str(console.key("customer:1")["value"]))
    table = console.key("profile:1")
    others = [json.dumps(console.key(key), ensure_ascii=False) for key in KEYS[2:-1]]

    assert document["name"] == "Ada"
    assert document["email"] == MASK
    assert document["card"] == "•" * 24 + canary.values[1][-4:]
    assert "Ada" in str(table)
    assert MASK in str(table)
    for answer in others:
        assert MASK in answer
    assert console.key("public:1")["value"] == "plain to see"
    canary.assert_not_in(bytes(console.seen), "an answer of the console")
    canary.assert_not_in(console.log(), "the console's log")
    canary.assert_nowhere(masked)


@pytest.mark.parametrize(
    "line",
    ["GETRANGE customer:1 0 -1", "EVAL \"return redis.call('get','customer:1')\" 0", "DUMP customer:1", "SORT session:1 ALPHA"],
)
def test_through_veil_the_consoles_terminal_reveals_nothing(
    masked: Veil, redis_commander: ConsoleFactory, canary: Canary, line: str
) -> None:
    console = redis_commander(masked, user="support", password="demo")

    console.command(line)

    canary.assert_not_in(bytes(console.seen), f"the answer to {line}")
    canary.assert_nowhere(masked)


def test_through_veil_the_page_shows_the_mask(
    masked: Veil, redis_commander: ConsoleFactory, browser: Browser, canary: Canary
) -> None:
    console = redis_commander(masked, user="support", password="demo")

    text = _show(browser, console, "customer:1")
    browser.screenshot("redis-commander-masked")

    assert MASK in browser.html()
    assert "customer:1" in text
    canary.assert_not_in(browser.html(), "the page")
    canary.assert_nowhere(masked)
