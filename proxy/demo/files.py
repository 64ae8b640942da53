"""The files of the demo: its config, its rules, who may read unmasked, and what is left on record."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from proxy.runtime.upstream import Address

from .screen import HOST, free_port, free_ports

REDIS_PORT, KAFKA_PORT, AUDITOR_PORT, ADMIN_PORT = 6390, 19092, 19192, 9480  # taken when they are free, else any
ORDINARY, PERMITTED = "support", "auditor"
REDIS, KAFKA, KAFKA_AUDITOR = "demo", "demo-kafka", "demo-kafka-auditor"

RULES = """\
# Edit and read again: a change is in force within two seconds, no restart.
rules:
  - name: Customer contact
    platform: redis
    resources: {key: ["customer:*"]}
    fields:
      - {kind: json_path, path: $.name, method: redact}
      - {kind: json_path, path: $.mail, method: partial, keep_first: 1}
      - {kind: json_path, path: $.card, method: partial, keep_last: 4}
    compliance: [GDPR, PCI]
    information_kind: contact
    risk: high
  - name: Customer profile
    platform: redis
    resources: {key: ["profile:*"]}
    fields:
      - {kind: field, name: phone, method: partial, keep_last: 2}
      - {kind: field, name: iban, method: redact}
    compliance: [GDPR]
  - name: Orders
    platform: redis
    resources: {key: ["orders:*"]}
    fields:
      - {kind: json_path, path: $.address, method: redact}
"""

KAFKA_RULES = """\
# Edit and read again: a change is in force within two seconds, no restart.
rules:
  - name: Card orders
    platform: kafka
    resources: {topic: ["orders"]}
    fields:
      - {kind: record_key, method: partial, keep_first: 2}
      - {kind: header, name: authorization, method: redact}
      - {kind: json_path, path: $.customer.name, method: redact}
      - {kind: json_path, path: $.customer.mail, method: partial, keep_first: 1}
      - {kind: json_path, path: "$..card", method: partial, keep_last: 4}
    compliance: [GDPR, PCI]
    information_kind: payment
    risk: high
"""

ACCESS = f"""\
users:
  {ORDINARY}: {{teams: [support]}}
grants:
  - {{allow: messages.read.unmasked, to: {{user: {PERMITTED}}}, on: {{connection: {REDIS}}}}}
  - {{allow: messages.read.unmasked, to: {{user: {PERMITTED}}}, on: {{connection: {KAFKA_AUDITOR}}}}}
"""


def write_files(folder: Path, valkey: Address | None, kafka: Mapping[int, Address]) -> Path:
    """The demo's config, with rules that are left alone where they are there already.

    `kafka` is the nodes of the cluster by number, empty where there is none.
    """
    rules = folder / "rules.d"
    rules.mkdir(parents=True, exist_ok=True)
    texts = {"customers.yaml": RULES, "access.yaml": ACCESS, **({"orders.yaml": KAFKA_RULES} if kafka else {})}
    for name, text in texts.items():
        if not (rules / name).exists():
            (rules / name).write_text(text, encoding="utf-8")
    config = folder / "veil.yaml"
    head = f"""\
store: {{files: {{directory: rules.d}}}}
audit: {{file: {{path: audit.jsonl}}}}
admin: {{listen: "{HOST}:{free_port(ADMIN_PORT)}"}}
connections:
"""
    config.write_text(head + "".join(_connections(valkey, kafka)), encoding="utf-8")
    return config


def _connections(valkey: Address | None, kafka: Mapping[int, Address]) -> Iterator[str]:
    if valkey is not None:
        yield f"""\
  - name: {REDIS}
    platform: redis
    listeners:
      - {{protocol: redis, listen: "{HOST}:{free_port(REDIS_PORT)}", upstream: "{valkey}"}}
"""
    if not kafka:
        return
    bootstrap = ",".join(map(str, kafka.values()))
    # The cluster of the demo has no logins, so the listener says who reads: two listeners, two connections.
    for name, user, wanted in ((KAFKA, ORDINARY, KAFKA_PORT), (KAFKA_AUDITOR, PERMITTED, AUDITOR_PORT)):
        ports = free_ports(1 + len(kafka), wanted)
        yield f"""\
  - name: {name}
    platform: kafka
    reader: {{from: fixed, user: {user}}}
    listeners:
      - protocol: kafka
        listen: "{HOST}:{ports[0]}"
        upstream: "{bootstrap}"
        brokers: {{ports: {ports[1]}-{ports[-1]}, table: nodes-{name}-{ports[0]}.json}}
"""


def last_entry(audit: Path, event: str, platform: str) -> str:
    """The newest entry of an event, or an empty text."""
    for line in reversed(audit.read_text(encoding="ascii").splitlines()):
        told = json.loads(line)
        if told["event"] == event and told["platform"] == platform:
            return line
    return ""


def spilled(folder: Path, secrets: Iterable[bytes]) -> list[str]:
    """What Veil's log and audit file hold of the secrets: nothing, or the demo fails."""
    found = []
    for name in ("veil.log", "audit.jsonl"):
        text = (folder / name).read_bytes() if (folder / name).exists() else b""
        found += [f"{name} holds {secret.decode()}" for secret in secrets if secret in text]
    return found
