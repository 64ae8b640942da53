"""proxy.protocols.redis.contents.diagnostics: what a server says about itself tells no contents, no sizes and no addresses."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.protocols.redis import wire
from proxy.protocols.redis.contents import SHAPES
from proxy.protocols.redis.contents.diagnostics import monitor_line
from proxy.protocols.redis.wire import Node

from .lenses import CANARY, MASK, lens, of, tree_of

C = CANARY
M = MASK


def lay(shape: str, line: bytes, reply: Node) -> Node:
    return SHAPES[shape](tuple(line.split()), reply, lens(), 2)


def text_of(node: Node) -> bytes:
    assert node.body is not None
    return node.body


LIBRARY = {b"library_name": b"lib", b"engine": b"LUA", b"functions": [{b"name": b"f"}], b"library_code": C}
STATS = {b"running_script": {b"name": b"f", b"command": [b"FCALL", b"f", b"1", C], b"duration_ms": 7}, b"engines": {b"LUA": 1}}
ENTRY = [14, 1309448221, 15, [b"SET", b"user:1", C, C], b"127.0.0.1:58217", b"worker"]
SHOWN = [14, 1309448221, 15, [b"SET", b"user:1", M, M], b"127.0.0.1:58217", b"worker"]

CASES: list[tuple[str, bytes, object, object]] = [
    ("config", b"CONFIG GET *", {b"requirepass": C, b"MasterAuth": C, b"save": b"60 1"}, {b"requirepass": M, b"MasterAuth": M, b"save": b"60 1"}),
    ("config", b"CONFIG GET *", {b"tls-key-file-pass": C, b"primaryuser": C, b"sentinel-pass": C},
     {b"tls-key-file-pass": M, b"primaryuser": M, b"sentinel-pass": M}),
    ("config", b"CONFIG GET *", {b"replicaof": C, b"slaveof": C, b"primaryof": C, b"cluster-announce-ip": C, b"replica-priority": b"100"},
     {b"replicaof": M, b"slaveof": M, b"primaryof": M, b"cluster-announce-ip": M, b"replica-priority": b"100"}),
    ("config", b"CONFIG GET *", [b"requirepass", C, C], [M, M, M]),
    ("config", b"CONFIG GET *", C, M),
    ("function_list", b"FUNCTION LIST WITHCODE", [LIBRARY], [{**LIBRARY, b"library_code": M}]),
    ("function_list", b"FUNCTION LIST", [{b"library_name": b"lib", b"new": [C]}], [{b"library_name": b"lib", b"new": [M]}]),
    ("function_list", b"FUNCTION LIST", [[b"library_code", C, C]], [[M, M, M]]),
    ("function_list", b"FUNCTION LIST", C, M),
    ("function_stats", b"FUNCTION STATS", STATS, {**STATS, b"running_script": {b"name": b"f", b"command": [b"FCALL", M, M, M], b"duration_ms": 7}}),
    ("function_stats", b"FUNCTION STATS", {b"running_script": None, b"engines": {}}, {b"running_script": None, b"engines": {}}),
    ("function_stats", b"FUNCTION STATS", {b"running_script": {b"command": C}}, {b"running_script": {b"command": M}}),
    ("function_stats", b"FUNCTION STATS", {C: C}, {M: M}),
    ("slowlog", b"SLOWLOG GET 10", [ENTRY], [SHOWN]),
    ("slowlog", b"SLOWLOG GET", [ENTRY[:4]], [SHOWN[:4]]),
    ("slowlog", b"SLOWLOG GET", [[1, 2, 3, [b"ECHO", C], b"a", b""]], [[1, 2, 3, [b"ECHO", M], b"a", b""]]),
    ("slowlog", b"SLOWLOG GET", [[1, 2, 3, [b"SET", b"k", C + b"... (172 more bytes)", b"... (3 more arguments)"], b"a", b""]],
     [[1, 2, 3, [b"SET", b"k", M, M], b"a", b""]]),
    ("slowlog", b"COMMANDLOG GET 10 slow", [ENTRY], [SHOWN]),
    ("slowlog", b"COMMANDLOG GET 10 large-reply", [ENTRY], [[*SHOWN[:2], 0, *SHOWN[3:]]]),
    ("slowlog", b"COMMANDLOG GET 10 large-request", [ENTRY], [[*SHOWN[:2], 0, *SHOWN[3:]]]),
    ("slowlog", b"SLOWLOG GET", [[1, 2, 3, C, b"a", b""]], [[0, 0, 0, M, M, M]]),
    ("slowlog", b"SLOWLOG GET", [[1, 2, C, [b"SET"], b"a", b""]], [[0, 0, M, [M], M, M]]),
    ("slowlog", b"SLOWLOG GET", [[*ENTRY, C]], [[0, 0, 0, [M, M, M, M], M, M, M]]),
    ("slowlog", b"SLOWLOG GET", [[1, 2, 3, [b"SET", [C]], b"a", b""]], [[0, 0, 0, [M, [M]], M, M]]),
    ("slowlog", b"SLOWLOG GET", C, M),
    ("memory_stats", b"MEMORY STATS", {b"peak.allocated": 4711, b"allocator.frag": b"4.711", b"db.0": {b"overhead": 4711}, b"x": 1.5},
     {b"peak.allocated": 0, b"allocator.frag": b"0", b"db.0": {b"overhead": 0}, b"x": 0.0}),
    ("memory_stats", b"MEMORY STATS", [b"a", 1, C], [M, 0, M]),
    ("role", b"ROLE", [b"master", 3129659, [[b"10.0.0.5", b"9001", b"3129242"]]], [b"master", 0, []]),
    ("role", b"ROLE", [b"slave", b"10.0.0.5", 6379, b"connected", 3167038], [b"slave", b"", 0, b"connected", 0]),
    ("role", b"ROLE", [b"sentinel", [b"mymaster"]], [b"sentinel", [b"mymaster"]]),
    ("role", b"ROLE", [b"master", C], [M, M]),
    ("role", b"ROLE", [b"sentinel", [[C]]], [M, [[M]]]),
    ("role", b"ROLE", C, M),
    ("config", b"CONFIG GET *", [[C], b"x"], [[M], M]),
    ("config", b"CONFIG GET *", [b"save", [C]], [b"save", [M]]),
    ("function_list", b"FUNCTION LIST", wire.tree(wire.MAP, [of(C), of(C)]), wire.tree(wire.MAP, [of(M), of(M)])),
    ("function_list", b"FUNCTION LIST", [[[C], b"x"]], [[[M], M]]),
    ("function_stats", b"FUNCTION STATS", {b"running_script": {b"command": [b"FCALL", [C]]}}, {b"running_script": {b"command": [M, [M]]}}),
    ("function_stats", b"FUNCTION STATS", [[C], C], [[M], M]),
    ("slowlog", b"SLOWLOG GET", [[1, 2, 3, [b"SET"], [C], b""]], [[0, 0, 0, [M], [M], M]]),
    ("slowlog", b"SLOWLOG GET", wire.tree(wire.MAP, [of(C), of(C)]), wire.tree(wire.MAP, [of(M), of(M)])),
    ("slowlog", b"SLOWLOG GET", [C, None], [M, None]),
    ("memory_stats", b"MEMORY STATS", [[C], 1], [[M], 0]),
    ("role", b"ROLE", [b"slave", b"10.0.0.5", 6379, [C], 1], [M, M, 0, [M], 0]),
    ("info", b"INFO", [C], [M]),
    ("client_list", b"CLIENT LIST", [C], [M]),
]  # fmt: skip
each_case = pytest.mark.parametrize(("shape", "line", "reply", "expected"), CASES)


@each_case
@pytest.mark.parametrize("version", [2, 3])
def test_what_tells_contents_is_masked(shape: str, line: bytes, reply: object, expected: object, version: int) -> None:
    shown = lay(shape, line, of(reply, version))

    assert wire.encode(shown) == wire.encode(of(expected, version))


@each_case
def test_it_is_shown_as_it_came_where_nothing_masks(shape: str, line: bytes, reply: object, expected: object) -> None:
    node, argv = of(reply), tuple(line.split())

    assert SHAPES[shape](argv, node, lens(lifted=True), 2) == node
    assert SHAPES[shape](argv, node, lens(anything=False), 2) == node


def test_what_tells_nothing_is_left_as_it_came() -> None:
    node = of({b"save": b"60 1", b"requirepass": None})

    assert SHAPES["config"]((b"CONFIG", b"GET", b"save"), node, lens(), 2) == node


# --- INFO and CLIENT LIST --------------------------------------------------------------------------------------------

ZEROED = [
    b"total_net_input_bytes:4711", b"total_net_output_bytes:4711", b"used_memory:4711", b"used_memory_human:47.11K",
    b"mem_clients_normal:4711", b"mem_fragmentation_ratio:47.11", b"instantaneous_input_kbps:47.11", b"repl_backlog_size:4711",
    b"repl_backlog_histlen:4711", b"master_repl_offset:4711", b"slave_read_repl_offset:4711", b"client_recent_max_input_buffer:4711",
    b"rdb_last_cow_size:4711", b"current_cow_peak:4711", b"aof_current_size:4711", b"aof_base_size:4711", b"aof_buffer_length:4711",
    b"client_biggest_input_buf:4711", b"allocator_active:4711", b"rss_overhead_ratio:4.711", b"lazyfree_pending_bytes:4711", b"Used_Memory_Peak:4711",
]  # fmt: skip
DROPPED = [
    b"master_host:10.0.0.4711", b"master_port:4711", b"primary_host:4711", b"slave0:ip=10.0.0.1,port=4711,state=online",
    b"replica12:ip=4711", b"listener0:name=tcp,bind=127.0.0.1,port=4711", b"master0:name=m,address=10.0.0.1:4711",
    b"db0_distrib_strings_sizes:16=1,4711=2", b"a line that is no line 4711",
]  # fmt: skip
KEPT = [
    b"# Server", b"redis_version:7.0.15", b"maxmemory:1024", b"maxmemory_policy:noeviction", b"mem_allocator:jemalloc-5",
    b"role:master", b"connected_slaves:1", b"db0:keys=1,expires=0", b"cmdstat_memory|usage:calls=1,usec=2", b"", b"# Keyspace",
]  # fmt: skip


@pytest.mark.parametrize("verbatim", [False, True])
def test_info_zeroes_bytes_and_leaves_out_addresses(verbatim: bool) -> None:
    sizes = [b"# Keysizes", b"db0_distrib_lists_items:4711=1", b"anything:4711", b"# Cpu", b"used_cpu_sys:1"]
    text = b"\r\n".join([*ZEROED, *DROPPED, *sizes, *KEPT])
    node = Node(wire.VERBATIM, b"%d" % (len(text) + 4), b"txt:" + text) if verbatim else of(text)
    expected = b"\r\n".join([*(line.split(b":")[0] + b":0" for line in ZEROED), b"# Cpu", b"used_cpu_sys:1", *KEPT])

    shown = lay("info", b"INFO", node)

    assert text_of(shown) == (b"txt:" if verbatim else b"") + expected
    assert shown.line == b"%d" % len(text_of(shown))


def test_client_list_zeroes_sizes_and_nothing_else() -> None:
    line = (
        b"id=3 addr=127.0.0.1:1 name=qbuf=9 db=0 sub=0 qbuf=47 qbuf-free=47 argv-mem=47 multi-mem=47 rbs=47 rbp=47 obl=47 oll=47"
        b" omem=47 tot-mem=47 events=r cmd=get user=default tot-net-in=47 tot-net-out=47 tot-cmds=5\n"
    )
    expected = (
        b"id=3 addr=127.0.0.1:1 name=qbuf=9 db=0 sub=0 qbuf=0 qbuf-free=0 argv-mem=0 multi-mem=0 rbs=0 rbp=0 obl=0 oll=0"
        b" omem=0 tot-mem=0 events=r cmd=get user=default tot-net-in=0 tot-net-out=0 tot-cmds=5\n"
    )

    assert text_of(lay("client_list", b"CLIENT LIST", of(line * 2))) == expected * 2
    verbatim = Node(wire.VERBATIM, b"%d" % (len(line) + 4), b"txt:" + line)
    assert text_of(lay("client_list", b"CLIENT INFO", verbatim)) == b"txt:" + expected


@pytest.mark.parametrize("shape", ["info", "client_list"])
@pytest.mark.parametrize(
    "node", [of([C]), wire.simple(C), Node(wire.VERBATIM, b"11", C), Node(wire.BULK, b"99", large=True), of({C: C}, 3)]
)
def test_a_text_in_another_form_is_hidden(shape: str, node: Node) -> None:
    assert CANARY not in wire.encode(lay(shape, b"INFO", node))


@pytest.mark.parametrize("shape", ["info", "client_list"])
def test_a_text_is_untouched_where_nothing_masks(shape: str) -> None:
    node = of(b"used_memory:4711\r\nid=1 qbuf=47")

    assert SHAPES[shape]((b"X", b"Y"), node, lens(anything=False), 2) is node


# --- MONITOR ---------------------------------------------------------------------------------------------------------

STAMP = b"1339518083.107412 [0 127.0.0.1:60866] "


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (STAMP + b'"SET" "user:1" "S3CR3T" "EX" "4711"', STAMP + b'"SET" "user:1" "%b" "%b" "%b"' % (M, M, M)),
        (STAMP + b'"set" "k\\x00\\"\\\\ \\n" "S3CR3T"', STAMP + b'"set" "k\\x00\\"\\\\ \\n" "%b"' % M),
        (STAMP + b'"EVAL" "return \\"S3CR3T\\"" "0"', STAMP + b'"EVAL" "%b" "%b"' % (M, M)),
        (STAMP + b'"\\x53ET" "k" ""', STAMP + b'"\\x53ET" "k" "%b"' % M),
        (STAMP + b'"SET"', STAMP + b'"SET"'),
        (b'1.1 [15 lua] "SET" "k" "S3CR3T"', b'1.1 [15 lua] "SET" "k" "%b"' % M),
        (b'1.1 [0 [::1]:6379] "GET" "k"', b'1.1 [0 [::1]:6379] "GET" "k"'),
        (b'1.1 [0 unix:/run/my redis.sock] "SET" "k" "S3CR3T"', b'1.1 [0 unix:/run/my redis.sock] "SET" "k" "%b"' % M),
    ],
)
def test_a_monitor_line_keeps_its_stamp_its_command_and_a_first_key(line: bytes, expected: bytes) -> None:
    assert monitor_line(wire.simple(line), lens()) == wire.simple(expected)
    assert SHAPES["monitor"]((b"MONITOR",), wire.simple(line), lens(), 2) == wire.simple(expected)


UNREADABLE = [
    b"S3CR3T",
    STAMP + b"S3CR3T",
    STAMP + b'"SET" "k" S3CR3T',
    STAMP + b'"SET" "k" "S3CR3T',
    STAMP + b'"SET" "k" "S3CR3T" ',
    STAMP + b'"SET" "k"  "S3CR3T"',
    STAMP + b'"SET" "k""S3CR3T"',
    STAMP + b'"SET" "S3CR3T\\"',
    STAMP,
    b'1.1 [0 somewhere] "SET" "k" "S3CR3T"',
    b'x [0 lua] "SET" "k" "S3CR3T"',
    b'1.1 [0 lua S3CR3T] "SET" "k"',
]


@pytest.mark.parametrize("line", UNREADABLE)
def test_a_monitor_line_that_cannot_be_read_is_dropped(line: bytes) -> None:
    assert monitor_line(wire.simple(line), lens()) is None
    assert CANARY[:6] not in wire.encode(SHAPES["monitor"]((b"MONITOR",), wire.simple(line), lens(), 2))


def test_a_monitor_line_in_another_form_is_dropped() -> None:
    for node in (of(STAMP + b'"SET" "k" "v"'), of([C]), tree_of(b"-ERR S3CR3T\r\n")):
        assert monitor_line(node, lens()) is None


def test_the_answer_to_monitor_stays() -> None:
    assert SHAPES["monitor"]((b"MONITOR",), wire.simple(b"OK"), lens(), 2) == wire.simple(b"OK")


def test_a_monitor_line_is_untouched_where_nothing_masks() -> None:
    node = wire.simple(STAMP + b'"SET" "k" "v"')

    assert monitor_line(node, lens(anything=False)) is node
    assert monitor_line(node, lens(lifted=True)) is node


def repr_of(arg: bytes) -> bytes:
    """As the server prints an argument (sdscatrepr)."""
    named = {0x22: b'\\"', 0x5C: b"\\\\", 0x0A: b"\\n", 0x0D: b"\\r", 0x09: b"\\t", 0x07: b"\\a", 0x08: b"\\b"}
    return b'"%b"' % b"".join(named.get(byte, b"%c" % byte if 32 <= byte < 127 else b"\\x%02x" % byte) for byte in arg)


@given(st.binary(min_size=1), st.lists(st.binary()))
def test_of_any_line_the_server_prints_the_key_stays_and_the_values_do_not(key: bytes, values: list[bytes]) -> None:
    line = STAMP + b" ".join(repr_of(arg) for arg in (b"SET", key, *values))
    expected = STAMP + b" ".join([b'"SET"', repr_of(key), *(b'"%b"' % M for _ in values)])

    assert monitor_line(wire.simple(line), lens()) == wire.simple(expected)


@pytest.mark.parametrize("count", [0, 1, 1023, 1024, 1025, 2048, 5000])
def test_no_count_of_escapes_changes_where_an_argument_ends(count: int) -> None:
    key = b"k" + b'\n"' * count
    line = STAMP + b'"SET" %b %b' % (repr_of(key), repr_of(b"S3CR3T" + b'"\\' * count))

    assert monitor_line(wire.simple(line), lens()) == wire.simple(STAMP + b'"SET" %b "%b"' % (repr_of(key), M))
    assert monitor_line(wire.simple(line[:-1]), lens()) is None


@given(st.lists(st.sampled_from([b'"', b"\\", b" ", b"S3CR3T", b'" "', b"x", b'" ', b' "']), max_size=8).map(b"".join))
def test_no_way_of_quoting_lets_a_value_through(rest: bytes) -> None:
    shown = monitor_line(wire.simple(STAMP + b'"ECHO" ' + rest), lens())

    assert shown is None or b"S3CR3T" not in shown.line
