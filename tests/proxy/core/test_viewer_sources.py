"""Where the name of a reader comes from, and what each may see: the table of sources by grants."""

from __future__ import annotations

import pytest

from proxy.core.steps import Ask, Probe, Record, Step, Steps
from proxy.core.viewer import Viewer
from rules.access import Reader
from rules.audit import Receipt
from rules.model import (
    AccessList,
    Connection,
    Extent,
    Field,
    FieldKind,
    Grant,
    Kind,
    Platform,
    Redact,
    Rule,
    RuleBook,
    User,
    Whom,
)
from rules.policy import Policy
from rules.view import View

SHOP = Connection("shop", Platform.REDIS)
WHOLE = Field(FieldKind.WHOLE_VALUE, Redact())
RULE = Rule("R", Platform.REDIS, ((Kind.KEY, ("*",)),), fields=(WHOLE,))
EVERYWHERE = Extent(installation=True)


def grant(name: str = "alice", on: Extent = EVERYWHERE, *, allow: bool = True) -> Grant:
    return Grant(allow, "messages.read.unmasked", Whom.USER, name, on)


ACCESS = {
    "granted": AccessList(grants=(grant(),)),
    "granted on the key": AccessList(grants=(grant(on=Extent(resources=((Kind.KEY, ("k",)),))),)),
    "granted elsewhere": AccessList(grants=(grant(on=Extent(connection="other")),)),
    "granted and denied": AccessList(grants=(grant(), grant(allow=False))),
    "granted and disabled": AccessList(users=(User("alice", disabled=True),), grants=(grant(),)),
    "granted to nobody's empty name": AccessList(grants=(grant(""), grant("None"))),
    "granted to the one logged in as": AccessList(grants=(grant("root"),)),
    "no grant": AccessList(),
}
SOURCES: dict[str, tuple[Reader | None, str | None, bool]] = {
    # who is fixed by the config or a certificate, who logs in, whether the upstream refuses a wrong password
    "protocol": (None, "alice", True),
    "protocol, proving nothing": (None, "alice", False),
    "protocol, not logged in": (None, None, True),
    "fixed or certificate": (Reader("alice"), None, False),
    "fixed or certificate, logged in as root": (Reader("alice"), "root", True),
    "certificate without a name": (Reader(None), None, True),
    "certificate without a name, logged in as alice": (Reader(None), "alice", True),
    "certificate without a name, logged in as root": (Reader(None), "root", True),
    "certificate of mallory, logged in as alice": (Reader("mallory"), "alice", True),
}
UNMASKED = {
    (source, access)
    for source in ("protocol", "fixed or certificate", "fixed or certificate, logged in as root")
    for access in ("granted", "granted on the key")
}


def run(steps: Steps[tuple[View, ...]] | Steps[None], *, worth: bool) -> tuple[View, ...] | None:
    answer: object = None
    while True:
        try:
            step: Step = steps.send(answer)
        except StopIteration as done:
            return done.value  # type: ignore[no-any-return]
        answer = tuple(Receipt(entry, 1) for entry in step.entries) if isinstance(step, Record) else worth
        assert isinstance(step, Record | Ask)


@pytest.mark.parametrize("access", ACCESS)
@pytest.mark.parametrize("source", SOURCES)
def test_who_reads_and_what_is_granted_decide_together(source: str, access: str) -> None:
    fixed, login, worth = SOURCES[source]
    policy = Policy(RuleBook("1", (RULE,), ACCESS[access]))
    viewer = Viewer(SHOP, "redis", "peer", lambda: policy, lambda: 0.0, fixed=fixed)
    viewer.prove = lambda name: Probe(name, lambda nonce: nonce.encode(), lambda data: None)
    if login is not None:
        viewer.named(login)
        run(viewer.settle(), worth=worth)

    key, everything = viewer.view(viewer.resource(Kind.KEY, b"k")), viewer.anything()
    views = run(viewer.lift((key, everything), viewer.begin(), "GET"), worth=worth)

    assert views is not None
    assert (not views[0].masks) is ((source, access) in UNMASKED)
    assert (not views[1].masks) is ((source, access) in UNMASKED and access == "granted")
    if fixed is not None:
        assert viewer.reader == fixed


def vouched_for(name: str | None, fixed: Reader | None = None) -> tuple[Viewer, View]:
    """The viewer, and what whoever is vouched for sees."""
    policy = Policy(RuleBook("1", (RULE,), AccessList(grants=(grant(),))))
    viewer = Viewer(SHOP, "http", "127.0.0.1:5", lambda: policy, lambda: 0.0, fixed=fixed)
    viewer.vouched(name)
    work = viewer.lift((viewer.view(viewer.resource(Kind.KEY, b"k")),), viewer.begin(), "get")
    answer: object = None
    try:
        while True:
            step = work.send(answer)
            assert isinstance(step, Record)
            answer = tuple(Receipt(entry, 1) for entry in step.entries)
    except StopIteration as done:
        return viewer, done.value[0]


def test_whom_somebody_trusted_vouches_for_needs_no_proof() -> None:
    viewer, view = vouched_for("alice")

    assert (viewer.reader, view.masks, viewer.is_fixed) == (Reader("alice"), False, False)


@pytest.mark.parametrize(("name", "fixed"), [(None, None), ("bob", None), ("alice", Reader("bob"))])
def test_nobody_an_ordinary_reader_and_one_that_is_fixed_see_what_is_theirs(name: str | None, fixed: Reader | None) -> None:
    viewer, view = vouched_for(name, fixed)

    assert view.masks
    assert viewer.reader == (fixed or Reader(name))
    assert viewer.is_fixed is (fixed is not None)
