from __future__ import annotations

from rules.automaton import Automaton
from rules.scan import python
from rules.scan.mirror import MIRRORS_KEPT, Mirror, mirror_of

from .making import path, rule


def automaton(*paths: str) -> Automaton:
    return Automaton([rule("R", *map(path, paths))])


def test_a_mirror_stands_for_the_states_that_a_document_meets() -> None:
    root = automaton("$.a.b", "$..é").root
    mirror = mirror_of(root)

    a, other = mirror.member(b"a"), mirror.member(b"x")

    assert other.state is root.member(b"x")
    assert a.state is root.member(b"a")
    assert (mirror.keys[b"a"], mirror.names["a"], mirror.other) == (a, a, other)
    assert (mirror.keys["é".encode()], mirror.names["é"]) == (None, None)
    assert mirror.first_element().state is root.element


def test_a_state_has_one_mirror_however_it_is_reached() -> None:
    mirror = mirror_of(automaton("$..a").root)

    assert mirror.member(b"x") is mirror
    assert mirror.first_element() is mirror
    assert mirror.member(b"a").member(b"x").state.dead is False


def test_a_name_with_half_a_surrogate_pair_is_kept_as_bytes() -> None:
    mirror = mirror_of(automaton("$['\ud800']").root)

    assert mirror.member(b"\xed\xa0\x80") is mirror.keys[b"\xed\xa0\x80"]
    assert mirror.other is None


def test_so_many_automata_are_remembered_and_no_more() -> None:
    roots = [automaton("$.a").root for _ in range(MIRRORS_KEPT + 1)]
    mirrors: list[Mirror] = [mirror_of(root) for root in roots]

    assert mirror_of(roots[-1]) is mirrors[-1]
    assert mirror_of(roots[0]) is not mirrors[0]


def test_an_automaton_that_starts_over_is_mirrored_anew() -> None:
    one = automaton("$..a")
    before = one.root
    assert python.mask(b'{"a":1}', before, 512)[1]
    after = one.start_over()

    assert python.mask(b'{"a":1}', after, 512)[1]
    assert mirror_of(after) is not mirror_of(before)
