# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, embedsignature=False
"""The scanner compiled: what `python` does, of equal meaning, in one pass over the bytes.

States of the automaton are mirrored as C structs when a document first needs them. A `Mirror` serves one scan at a
time; spare ones wait at the automaton's root, so that several threads can scan under one plan, large texts without
the interpreter's lock. A string that holds a document is scanned as a level of its own: what is written for it is
taken back when it turns out to be none. Brackets that are open stand on the heap, levels on the stack, eight at most.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.object cimport PyObject
from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free, malloc, realloc
from libc.string cimport memcmp, memcpy

from ..cut import Cut
from .errors import NotJson, TooDeep

cdef extern from "Python.h":
    ctypedef struct PyTypeObject:
        object tp_new(PyTypeObject *, object, PyObject *)
    PyTypeObject PyTuple_Type

cdef extern from "lexer.h" nogil:
    ctypedef struct veil_cursor:
        const uint8_t *at
        const uint8_t *end
        ptrdiff_t inner
    bint veil_is_utf8(const uint8_t *p, const uint8_t *end)
    const uint8_t *veil_blank_end(const uint8_t *p, const uint8_t *end)
    const uint8_t *veil_string_end(const uint8_t *p, const uint8_t *end, int *escaped)
    const uint8_t *veil_number_end(const uint8_t *p, const uint8_t *end)
    const uint8_t *veil_ascii_end(const uint8_t *p, const uint8_t *end)
    const uint8_t *veil_character_end(const uint8_t *p, const uint8_t *end)
    ptrdiff_t veil_decode(const uint8_t *p, const uint8_t *end, uint8_t *out, int strict)
    bint veil_begins(const uint8_t *p, const uint8_t *end)
    const uint8_t *veil_outer(veil_cursor *cursor, ptrdiff_t inner)
    uint32_t veil_hash(const uint8_t *p, ptrdiff_t size)

cdef object made_of = Cut  # looked up once

include "fingerprint.pxi"
include "mirror.pxi"
include "written.pxi"


cdef Outcome open_string(Mirror x, int level, CState *state, const uint8_t *start, const uint8_t *end, bint escaped) noexcept nogil:
    """Scans what a string holds. NOT_JSON: it is no document, and nothing was done."""
    cdef Level *inner = &x.levels[level + 1]
    cdef veil_cursor cursors[MAX_OPENED + 1]
    cdef uint8_t *buffer = NULL
    cdef const uint8_t *copied = x.copied
    cdef size_t out_size = x.out_size
    cdef Py_ssize_t frame_count = x.frame_count, touches = x.touches
    cdef int seen_count = x.seen_count, i
    cdef ptrdiff_t size
    cdef Purpose purpose = x.purpose
    cdef Outcome outcome
    inner.escaped = escaped
    inner.data = start
    inner.end = end
    if escaped:
        buffer = <uint8_t *>malloc(end - start)
        if buffer == NULL:
            return NO_MEMORY
        size = veil_decode(start, end, buffer, 1)
        if size < 0:
            free(buffer)
            return NOT_JSON
        inner.data = buffer
        inner.end = buffer + size
    inner.cursor.at = start
    inner.cursor.end = end
    inner.cursor.inner = 0
    for i in range(level + 1):
        cursors[i] = x.levels[i].cursor
    if purpose == FIND:  # only in what is known to be a document
        x.purpose = COUNT
    outcome = scan(x, level + 1, state)
    x.purpose = purpose
    if outcome == FINE and purpose == FIND and x.touches > touches:
        outcome = scan(x, level + 1, state)
    elif outcome == NOT_JSON:
        for i in range(level + 1):
            x.levels[i].cursor = cursors[i]
        take_back(x, seen_count)
        x.copied = copied
        x.out_size = out_size
        x.frame_count = frame_count
        x.touches = touches
    free(buffer)
    return outcome


cdef Outcome string(Mirror x, int level, CState *state, const uint8_t *start, const uint8_t *end, bint escaped) noexcept nogil:
    """A string, by its contents, where something may have to be done."""
    cdef CAct *act = state.text
    cdef Outcome outcome
    if state.looks and veil_begins(start, end):
        act = state.failed
        if state.opens:
            if level >= MAX_OPENED:
                return TOO_DEEP
            outcome = open_string(x, level, state, start, end, escaped)
            if outcome != NOT_JSON:
                return outcome
    if act == NULL:
        return FINE
    x.touches += 1
    if x.purpose == MASK:
        return hide_string(x, level, act, start, end, escaped)
    if x.purpose == FIND:
        return look(x, act, start, end)
    if level == 0:
        x.unopened = True
    return FINE


cdef Outcome enter(Mirror x, CState *state, uint8_t closer) noexcept nogil:
    cdef Py_ssize_t room
    cdef Frame *grown
    if x.frame_count == x.frame_room:
        room = 64 if x.frame_room == 0 else 2 * x.frame_room
        grown = <Frame *>realloc(x.frames, room * sizeof(Frame))
        if grown == NULL:
            return NO_MEMORY
        x.frames = grown
        x.frame_room = room
    x.frames[x.frame_count].state = state
    x.frames[x.frame_count].closer = closer
    x.frame_count += 1
    return FINE


cdef Outcome scan(Mirror x, int level, CState *state) noexcept nogil:
    """One document, from its first byte to its last; `state` is that of its top."""
    cdef const uint8_t *p = x.levels[level].data
    cdef const uint8_t *end = x.levels[level].end
    cdef const uint8_t *start
    cdef const uint8_t *quote
    cdef Py_ssize_t base = x.frame_count
    cdef CState *around
    cdef CAct *act
    cdef Outcome outcome
    cdef uint8_t c, closer
    cdef int escaped = 0
    cdef bint entered
    while True:
        entered = False
        p = veil_blank_end(p, end)
        if p >= end:
            return NOT_JSON
        c = p[0]
        start = p
        act = NULL
        if c == c'"':
            p = veil_string_end(p + 1, end, &escaped)
            if p == NULL:
                return NOT_JSON
            if state.text != NULL or state.looks:
                outcome = string(x, level, state, start + 1, p, escaped)
                if outcome != FINE:
                    return outcome
            p += 1
        elif c == c"{" or c == c"[":
            if x.frame_count >= x.max_depth:
                return TOO_DEEP
            closer = c"}" if c == c"{" else c"]"
            p = veil_blank_end(p + 1, end)
            if p < end and p[0] == closer:
                p += 1
            else:
                if enter(x, state, closer) != FINE:
                    return NO_MEMORY
                entered = True
        elif c == c"t":
            if end - p < 4 or memcmp(p, b"true", 4) != 0:
                return NOT_JSON
            p += 4
            act = state.scalar
        elif c == c"f":
            if end - p < 5 or memcmp(p, b"false", 5) != 0:
                return NOT_JSON
            p += 5
            act = state.scalar
        elif c == c"n":
            if end - p < 4 or memcmp(p, b"null", 4) != 0:
                return NOT_JSON
            p += 4
        else:
            p = veil_number_end(p, end)
            if p == NULL:
                return NOT_JSON
            act = state.scalar
        if act != NULL:
            x.touches += 1
            if x.purpose == MASK:
                outcome = hide_boolean(x, level, act, start, p) if (p - 1)[0] == c"e" else hide_number(x, level, act, start, p)
                if outcome != FINE:
                    return outcome
            elif x.purpose == COUNT and level == 0:
                x.unopened = True
        while not entered:
            p = veil_blank_end(p, end)
            if x.frame_count == base:
                return FINE if p == end else NOT_JSON
            if p >= end:
                return NOT_JSON
            if p[0] == c",":
                p += 1
                break
            if p[0] != x.frames[x.frame_count - 1].closer:
                return NOT_JSON
            x.frame_count -= 1
            p += 1
        around = x.frames[x.frame_count - 1].state
        if x.frames[x.frame_count - 1].closer == c"]":
            if around.dead:
                state = around
                continue
            state = around.element if around.element != NULL else grow(x, around, NULL, True)
            if state == NULL:
                return FAILED
            continue
        p = veil_blank_end(p, end)
        if p >= end or p[0] != c'"':
            return NOT_JSON
        start = p + 1
        quote = veil_string_end(start, end, &escaped)
        if quote == NULL:
            return NOT_JSON
        p = veil_blank_end(quote + 1, end)
        if p >= end or p[0] != c":":
            return NOT_JSON
        p += 1
        if around.dead:
            state = around
        elif not escaped and around.other != NULL and not has_size(around, quote - start):
            state = around.other
        else:
            outcome = member(x, around, start, quote, escaped, &state)
            if outcome != FINE:
                return outcome


cdef Outcome run(Mirror x, bytes data, Purpose purpose, Py_ssize_t max_depth):
    cdef Outcome outcome
    x.start_over(data, purpose, max_depth)
    if PyBytes_GET_SIZE(data) < RELEASE:
        return read(x)
    with nogil:
        outcome = read(x)
    return outcome


cdef Outcome read(Mirror x) noexcept nogil:
    if not veil_is_utf8(x.levels[0].data, x.levels[0].end):
        return NOT_JSON
    return scan(x, 0, x.root)


cdef class Spare:
    """Mirrors of the automaton below one root that no scan uses now."""

    cdef Mirror first  # the one that nearly every scan takes
    cdef list others

    def __cinit__(self):
        self.others = []

    cdef inline Mirror take(self, object root):
        cdef Mirror x = self.first
        if x is not None:
            self.first = None
            return x
        return <Mirror>self.others.pop() if self.others else Mirror(root)

    cdef inline int give_back(self, Mirror x) except -1:
        x.let_go()
        if self.first is None:
            self.first = x
        elif len(self.others) < MIRRORS_KEPT:
            self.others.append(x)
        return 0


cdef inline Spare spare_of(object root):
    spare = root.spare
    if spare is None:
        spare = root.spare = Spare()
    return <Spare?>spare


cdef object failure_of(Mirror x, Outcome outcome):
    """What to raise."""
    if outcome == NOT_JSON:
        return NotJson("not JSON")
    if outcome == TOO_DEEP:
        return TooDeep("nested too deeply")
    if outcome == NO_MEMORY:
        return MemoryError()
    failure, x.failure = x.failure, None
    return failure


cdef bytes result(Mirror x):
    """What was written, and the rest of the text."""
    cdef size_t left = x.levels[0].end - x.copied
    cdef bytes made = PyBytes_FromStringAndSize(NULL, x.out_size + left)
    memcpy(PyBytes_AS_STRING(made), x.out, x.out_size)
    memcpy(PyBytes_AS_STRING(made) + x.out_size, x.copied, left)
    return made


def cut(bytes data not None, object root, Py_ssize_t max_depth):
    """What `mask` leaves, with what was hit; None when the text does not begin with a bracket. Raises what `mask` raises."""
    cdef Spare spare
    cdef Mirror x
    cdef Outcome outcome
    cdef uint8_t first = <uint8_t>PyBytes_AS_STRING(data)[0]  # 0 behind the last byte
    if first != c"{" and first != c"[":
        return None
    spare = spare_of(root)
    x = spare.take(root)
    try:
        outcome = run(x, data, MASK, max_depth)
        if outcome != FINE:
            raise failure_of(x, outcome)
        left = (data, (), None, None) if x.touches == 0 else (result(x), x.named(), None, None)
    finally:
        spare.give_back(x)
    return PyTuple_Type.tp_new(<PyTypeObject *>made_of, (left,), NULL)  # a Cut, without the detour over its constructor


def mask(bytes data not None, object root, Py_ssize_t max_depth):
    """The text with its masks put in, and the bits of the fields that decided them.

    The very object that came in, and 0, when nothing is covered.

    Raises:
        NotJson: it is no JSON text.
        TooDeep: more than `max_depth` brackets are open at once, or more than `MAX_OPENED` strings.
        TooManyPaths: from the automaton.
        MemoryError: there is none left.
    """
    cdef Spare spare = spare_of(root)
    cdef Mirror x = spare.take(root)
    cdef Outcome outcome
    try:
        outcome = run(x, data, MASK, max_depth)
        if outcome != FINE:
            raise failure_of(x, outcome)
        return (data, 0) if x.touches == 0 else (result(x), x.bits())
    finally:
        spare.give_back(x)


def mask_in(bytes data not None, object root, Py_ssize_t max_depth):
    """The bit of a field whose mask the first covered string that bears one bears; None when none does.

    Opened strings are looked into as well. Raises what `mask` raises, unless a mask was found before.
    """
    cdef Spare spare = spare_of(root)
    cdef Mirror x = spare.take(root)
    cdef Outcome outcome
    try:
        outcome = run(x, data, FIND, max_depth)
        if outcome == FOUND:
            return x.found
        if outcome != FINE:
            raise failure_of(x, outcome)
        return None
    finally:
        spare.give_back(x)


def opens(bytes data not None, object root, Py_ssize_t max_depth):
    """Whether what a JSON string holds is a document to be masked inside, not a text. Raises what `mask` raises."""
    cdef Spare spare = spare_of(root)
    cdef Mirror x = spare.take(root)
    cdef Outcome outcome
    try:
        outcome = run(x, data, COUNT, max_depth)
        if outcome != FINE:
            raise failure_of(x, outcome)
        return not x.unopened
    finally:
        spare.give_back(x)
