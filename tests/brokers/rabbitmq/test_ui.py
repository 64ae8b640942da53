"""RabbitMQ's own console in a real browser: first directly, so that the tests are known to see values, then through Veil.

Each answer that the browser got is kept and searched: for what is masked, and for ports that lead round Veil.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.canary import Canary, CanaryFound
from tests.consoles.rabbitmq_ui import RabbitUi
from tests.consoles.watched import Watched

from ..processes import wait_until
from ..rabbitmq_server import USERS, RabbitServer
from ..veil import Veil, VeilFactory
from .scenery import ACCESS, MASK, RULES, VAULT

pytestmark = pytest.mark.slow

REFUSED_PAGES = {"#/top", "#/top/ets"}
KNOWN = re.compile(r"/img/bg-green\.png|/api/policies/%2F/(?:undefined|null)|/api/top/|/js/main\.js$")
"""What the console asks for and no broker has, and the two pages that are refused (of one of its calls it names the script)."""


def filled(server: RabbitServer, canary: Canary) -> None:
    for name in ("orders", "vault", "free", "mine"):
        server.queue(name)
    document = {"email": canary.text(), "card": canary.number(), "note": "plain to see"}
    server.publish("orders", json.dumps(document), headers={"x-iban": canary.text()}, correlation_id=canary.text())
    server.publish("vault", json.dumps([canary.text(), {"deep": canary.text()}]), headers={"any": canary.text()})
    server.publish("free", "nobody minds")


@pytest.fixture
def masked(rabbitmq_server: RabbitServer, veil: VeilFactory, canary: Canary) -> Veil:
    """Veil in front of the filled broker."""
    filled(rabbitmq_server, canary)
    return veil(RULES + VAULT.replace("\nrules:\n", ""), ACCESS, upstream=rabbitmq_server)


def opened(browser: Watched, at: Veil | RabbitServer, user: str = "bob") -> RabbitUi:
    ui = RabbitUi(browser, at.address)
    ui.log_in(user, USERS[user])
    return ui


def nothing_got_out(browser: Watched, veil: Veil, server: RabbitServer, canary: Canary) -> None:
    canary.assert_nowhere(veil, [browser])
    canary.assert_not_in(browser.html(), "the page")
    told = [
        (port, each.path) for each in browser.fetched for port in server.secrets if port in each.body + each.headers.encode()
    ]
    assert told == []


def test_directly_the_page_shows_every_value(rabbitmq_server: RabbitServer, watched: Watched, canary: Canary) -> None:
    filled(rabbitmq_server, canary)
    ui = opened(watched, rabbitmq_server)

    shown = ""
    for name in ("orders", "vault"):
        ui.open_queue(name)
        shown += ui.messages()
    watched.screenshot("rabbitmq-ui-direct")
    ui.open("#/")

    assert [value for value in canary.values if value not in shown] == []
    with pytest.raises(CanaryFound):
        canary.assert_not_in(bytes(watched.received))
    for port in rabbitmq_server.secrets:
        assert port in watched.received, "the addresses are nowhere: the masked test would prove nothing"


def test_get_messages_shows_masks_and_the_mark(
    masked: Veil, rabbitmq_server: RabbitServer, watched: Watched, canary: Canary
) -> None:
    ui = opened(watched, masked)

    ui.open_queue("orders")
    orders = ui.messages()
    watched.evaluate("document.querySelector('#msg-wrapper').scrollIntoView(); 0")
    watched.screenshot("rabbitmq-ui-masked")
    ui.open_queue("vault")
    vault = ui.messages()
    ui.open_queue("free")
    free = ui.messages()

    assert '"card": 0, "note": "plain to see"' in orders
    assert f'"email": "{canary.values[0][0]}•' in orders
    assert f"x-iban:{MASK}" in orders
    assert f"correlation_id:{MASK}" in orders
    assert 'veil-masked:[{"field":"$.email","method":"partial","rule":"Contact"}' in orders
    assert f'["{MASK}", {{"deep": "{MASK}"}}]' in vault
    assert "nobody minds" in free
    assert "veil-masked" not in free
    nothing_got_out(watched, masked, rabbitmq_server, canary)


def test_move_messages_is_refused_with_a_reason_to_read(
    masked: Veil, rabbitmq_server: RabbitServer, watched: Watched, canary: Canary
) -> None:
    ui = opened(watched, masked)

    ui.open_queue("orders")
    ui.send("#/shovel-parameters-move-messages", {"dest-queue": "mine"})
    watched.wait_for("document.querySelectorAll('.form-popup-warn').length > 0")
    watched.screenshot("rabbitmq-ui-move-refused")
    reason = ui.popup()

    assert reason.startswith("veil: PUT /api/parameters/")
    assert 'on the queue "orders" is refused: the masking rule "Contact" covers it' in reason
    assert rabbitmq_server.ask("GET", "/api/parameters").json() == []
    assert rabbitmq_server.ask("GET", "/api/queues/%2F/mine").json().get("messages", 0) == 0
    nothing_got_out(watched, masked, rabbitmq_server, canary)


def test_every_page_is_clicked_through_and_nothing_gets_out(
    masked: Veil, rabbitmq_server: RabbitServer, watched: Watched, canary: Canary
) -> None:
    rabbitmq_server.exchange("inner")
    rabbitmq_server.bind("inner", "orders")
    ui = opened(watched, masked)

    pages = ui.walk()
    for page in ("#/", "#/queues/%2F/orders", "#/users/admin"):
        ui.open(page)
        watched.screenshot("rabbitmq-ui-" + (re.sub(r"\W+", "-", page).strip("-") or "overview"))

    assert len(pages) > 35
    assert {"#/", "#/connections", "#/channels", "#/exchanges", "#/queues", "#/users", "#/vhosts", "#/policies", "#/traces",
            "#/shovels", "#/dynamic-shovels", "#/stream/connections", "#/queues/%2F/orders", "#/exchanges/%2F/inner",
            *REFUSED_PAGES} <= set(pages)  # fmt: skip
    for page, text in pages.items():
        is_refused = "is refused while the masking rule" in text
        assert is_refused == (page in REFUSED_PAGES), page
    assert [each for each in watched.complaints if not KNOWN.search(each)] == []
    assert [(each.method, each.path) for each in watched.fetched if each.status >= 400 and not KNOWN.search(each.path)] == []
    nothing_got_out(watched, masked, rabbitmq_server, canary)


def test_publish_purge_and_delete_work_and_a_masked_message_is_not_written_back(
    masked: Veil, rabbitmq_server: RabbitServer, watched: Watched, canary: Canary
) -> None:
    ui = opened(watched, masked)
    publish = "#/exchanges/publish"

    ui.open_queue("free")
    ui.send(publish, {"payload": "a new one"})
    published = ui.popup()
    ui.open_queue("orders")
    ui.send(publish, {"payload": f'{{"email": "{MASK}", "card": 0}}'})
    written_back = ui.popup()
    ui.send(publish, {"payload": '{"email": "new@example.com"}'})
    added = ui.popup()
    at = rabbitmq_server.ask
    wait_until(lambda: at("GET", "/api/queues/%2F/orders").json().get("messages") == 2, "two messages in orders")
    watched.evaluate("$('form.confirm-purge-queue').submit(); 0")
    purged = ui.popup()
    watched.evaluate("$('form.confirm-queue').submit(); 0")
    watched.wait_for("location.hash === '#/queues'")

    assert published == added == "Message published."
    assert 'on the queue "orders" is refused: the masking rule "Contact" covers it ($.email)' in written_back
    assert purged == "Queue purged"
    assert len(watched.questions) == 2
    assert at("GET", "/api/queues/%2F/orders", status=404).status == 404
    left = at("POST", "/api/queues/%2F/free/get", {"count": 9, "ackmode": "ack_requeue_true", "encoding": "auto"}).json()
    assert [each["payload"] for each in left] == ["nobody minds", "a new one"]
    nothing_got_out(watched, masked, rabbitmq_server, canary)


def test_definitions_are_exported_without_passwords_and_imported_unless_they_copy(
    masked: Veil, rabbitmq_server: RabbitServer, watched: Watched, canary: Canary, tmp_path: Path
) -> None:
    plain, copying = tmp_path / "plain.json", tmp_path / "copying.json"
    queue = {"name": "imported", "vhost": "/", "durable": True, "auto_delete": False, "arguments": {}}
    policy = {"vhost": "/", "name": "p", "pattern": "^orders$", "definition": {"dead-letter-exchange": "mine"}}
    plain.write_text(json.dumps({"queues": [queue]}))
    copying.write_text(json.dumps({"queues": [queue | {"name": "never"}], "policies": [policy]}))
    ui = opened(watched, masked)

    ui.open("#/")
    ui.choose_import(copying)
    refused = ui.popup()
    ui.choose_import(plain)
    imported = ui.popup()
    watched.evaluate("$('#download-definitions').click(); 0")
    wait_until(lambda: ui.evaluated() and bool(ui.answers("GET", "/api/definitions")), "the definitions were downloaded")
    (export,) = ui.answers("GET", "/api/definitions")

    assert 'is refused while the masking rule "Contact" applies to you' in refused
    assert imported == "Your definitions were imported successfully."
    names = [each["name"] for each in rabbitmq_server.ask("GET", "/api/queues").json()]
    assert "imported" in names
    assert "never" not in names
    told = json.loads(export.body)
    assert {each["name"] for each in told["users"]} >= set(USERS)
    assert {each["password_hash"] for each in told["users"]} == {""}
    nothing_got_out(watched, masked, rabbitmq_server, canary)


def test_two_readers_one_after_the_other_in_one_browser_see_what_each_may(
    masked: Veil, rabbitmq_server: RabbitServer, watched: Watched, canary: Canary
) -> None:
    alice = opened(watched, masked, "alice")
    alice.open_queue("orders")
    original = alice.messages()
    alice.log_out()
    before = len(watched.fetched)

    bob = opened(watched, masked)
    bob.open_queue("orders")
    shown = bob.messages()

    assert canary.values[0] in original
    assert 'veil-unmasked:["Contact"]' in original
    assert '"card": 0' in shown
    reads = [(each["who"], each["resource"]) for each in masked.audit() if each["event"] == "broker.message.read-unmasked"]
    assert ("alice", {"queue": "orders"}) in reads
    assert {who for who, _ in reads} == {"alice"}
    for each in watched.fetched[before:]:
        canary.assert_not_in(each.headers.encode() + each.body, each.path)
    canary.assert_not_in(watched.html(), "the page")
    canary.assert_nowhere(masked)


def test_a_wrong_password_is_told_and_reads_nothing(
    masked: Veil, rabbitmq_server: RabbitServer, watched: Watched, canary: Canary
) -> None:
    ui = RabbitUi(watched, masked.address)
    ui.open_login()

    ui.fill_login("alice", "wrong")
    watched.wait_for("document.querySelector('#login-status').innerText.includes('Login failed')")
    told = [each for each in watched.fetched if each.path == "/api/whoami"]
    ui.log_in("bob", USERS["bob"])
    ui.open_queue("orders")

    assert [each.status for each in told] == [401]
    assert '"card": 0' in ui.messages()
    nothing_got_out(watched, masked, rabbitmq_server, canary)
