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

from .errors import NotJson, TooDeep

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

cdef enum:
    MAX_OPENED = 8  # as in `python`
    LINEAR = 8  # so many names are compared one by one; more are looked up by their hash
    SHORT_NAME = 256
    KEPT_OUT = 65536  # bytes of an output buffer that are kept for the next scan
    MIRRORS_KEPT = 8
    RELEASE = 32768  # bytes from which on the interpreter's lock is let go

cdef enum Outcome:
    FINE, NOT_JSON, TOO_DEEP, NO_MEMORY, FAILED, FOUND

cdef enum Purpose:
    MASK, COUNT, FIND

cdef struct CAct:
    PyObject *act
    bint redacting
    bint redacts
    Py_ssize_t keep_first
    Py_ssize_t keep_last
    Py_ssize_t floor
    int verdict  # the first of its verdicts: what decides when nothing is hidden for its length; then one a threshold
    int thresholds
    Py_ssize_t *threshold  # how much each partial reveals, rising

cdef struct CKey:
    const uint8_t *name
    Py_ssize_t size
    CState *child

cdef struct CState:
    PyObject *state
    CState *other
    CState *element
    CAct *text
    CAct *scalar
    CAct *failed
    CKey *keys
    uint64_t sizes  # bit n: a name has n bytes; the last bit: or more
    int key_count
    uint32_t slots  # of the table behind LINEAR, less one
    int *slot
    bint looks
    bint opens
    bint dead

cdef struct Frame:
    CState *state
    uint8_t closer

cdef struct Level:
    const uint8_t *data
    const uint8_t *end
    bint escaped  # its bytes are not those of the level around, but what they stand for
    veil_cursor cursor


cdef class Mirror:
    """The states of an automaton as the scanner walks them, and the buffers of one scan."""

    # what stays from scan to scan
    cdef list kept  # what the structs point into
    cdef dict found_states
    cdef dict found_acts
    cdef dict decided
    cdef CState **states
    cdef int state_count, state_room
    cdef CAct **acts
    cdef int act_count, act_room
    cdef list verdicts  # bits of fields, a verdict each
    cdef uint8_t *seen
    cdef int *order
    cdef int verdict_room
    cdef CState *root
    # of one scan
    cdef object failure
    cdef object found
    cdef Purpose purpose
    cdef Py_ssize_t max_depth
    cdef Frame *frames
    cdef Py_ssize_t frame_count, frame_room
    cdef Level levels[MAX_OPENED + 1]
    cdef uint8_t *out
    cdef size_t out_size, out_room
    cdef const uint8_t *copied  # of the text at the top: up to here
    cdef Py_ssize_t touches
    cdef int seen_count
    cdef bint unopened  # something was touched that is not inside an opened string

    def __cinit__(self, object root):
        self.kept = []
        self.found_states = {}
        self.found_acts = {}
        self.decided = {}
        self.verdicts = []
        self.root = self.state_of(root)

    def __dealloc__(self):
        cdef int i
        for i in range(self.state_count):
            free(self.states[i].keys)
            free(self.states[i].slot)
            free(self.states[i])
        free(self.states)
        for i in range(self.act_count):
            free(self.acts[i].threshold)
            free(self.acts[i])
        free(self.acts)
        free(self.seen)
        free(self.order)
        free(self.frames)
        free(self.out)

    cdef CState *state_of(self, object state) except NULL:
        """The struct of a state, made when it was never met."""
        cdef CState *made
        cdef CState **grown
        cdef int room
        known = self.found_states.get(state)
        if known is not None:
            return self.states[<int>known]
        if self.state_count == self.state_room:
            room = 16 if self.state_room == 0 else self.state_room * 2
            grown = <CState **>realloc(self.states, room * sizeof(CState *))
            if grown == NULL:
                raise MemoryError
            self.states = grown
            self.state_room = room
        made = <CState *>calloc(1, sizeof(CState))
        if made == NULL:
            raise MemoryError
        self.states[self.state_count] = made
        self.state_count += 1
        made.state = <PyObject *>state
        made.dead = state.dead
        made.looks = state.looks
        made.opens = state.opens
        made.text = self.act_of(state.text)
        made.scalar = self.act_of(state.scalar)
        made.failed = self.act_of(state.failed)
        if not made.dead:
            self.add_names(made, state.names())
        self.kept.append(state)
        self.found_states[state] = self.state_count - 1  # last: what failed half-way is never found
        return made

    cdef int add_names(self, CState *made, list names) except -1:
        cdef int i, count = len(names)
        cdef uint32_t at, slots = 2
        cdef bytes name
        if count == 0:
            return 0
        made.keys = <CKey *>calloc(count, sizeof(CKey))
        if made.keys == NULL:
            raise MemoryError
        self.kept.append(names)
        for i in range(count):
            name = names[i]
            made.keys[i].name = <const uint8_t *>PyBytes_AS_STRING(name)
            made.keys[i].size = PyBytes_GET_SIZE(name)
            made.sizes |= (<uint64_t>1) << min(made.keys[i].size, 63)
        if count > LINEAR:
            while slots < 2 * <uint32_t>count:
                slots *= 2
            made.slot = <int *>calloc(slots, sizeof(int))
            if made.slot == NULL:
                raise MemoryError
            made.slots = slots - 1
            for i in range(count):
                at = veil_hash(made.keys[i].name, made.keys[i].size) & made.slots
                while made.slot[at]:
                    at = (at + 1) & made.slots
                made.slot[at] = i + 1
        made.key_count = count
        return 0

    cdef CAct *act_of(self, object act) except? NULL:
        """The struct of an act; NULL for None, without an error."""
        cdef CAct *made
        cdef CAct **grown
        cdef int room, i
        if act is None:
            return NULL
        known = self.found_acts.get(act)
        if known is not None:
            return self.acts[<int>known]
        if self.act_count == self.act_room:
            room = 16 if self.act_room == 0 else self.act_room * 2
            grown = <CAct **>realloc(self.acts, room * sizeof(CAct *))
            if grown == NULL:
                raise MemoryError
            self.acts = grown
            self.act_room = room
        made = <CAct *>calloc(1, sizeof(CAct))
        if made == NULL:
            raise MemoryError
        self.acts[self.act_count] = made
        self.act_count += 1
        made.act = <PyObject *>act
        made.redacting = act.redacting != 0
        made.redacts = act.outcome.redacts
        made.keep_first = act.outcome.keep_first
        made.keep_last = act.outcome.keep_last
        made.floor = act.outcome.floor
        made.verdict = len(self.verdicts)
        verdicts = [act.deciders()]
        if not made.redacting:
            thresholds = act.thresholds()
            made.threshold = <Py_ssize_t *>calloc(len(thresholds), sizeof(Py_ssize_t))
            if made.threshold == NULL:
                raise MemoryError
            for i, threshold in enumerate(thresholds):
                made.threshold[i] = threshold
                verdicts.append(act.deciders(threshold))
            made.thresholds = len(thresholds)
        self.make_room(len(self.verdicts) + len(verdicts))
        self.verdicts += verdicts
        self.kept.append(act)
        self.found_acts[act] = self.act_count - 1
        return made

    cdef int make_room(self, int verdicts) except -1:
        """For that many verdicts to be marked as seen."""
        cdef int room = self.verdict_room
        cdef uint8_t *seen
        cdef int *order
        if verdicts <= room:
            return 0
        room = max(verdicts, 2 * room, 64)
        order = <int *>realloc(self.order, room * sizeof(int))
        if order == NULL:
            raise MemoryError
        self.order = order
        seen = <uint8_t *>realloc(self.seen, room)
        if seen == NULL:
            raise MemoryError
        self.seen = seen
        while self.verdict_room < room:
            seen[self.verdict_room] = 0
            self.verdict_room += 1
        return 0

    cdef object bits(self):
        """The bits of all fields that decided something in this scan."""
        cdef uint64_t few = 0
        cdef int i
        if len(self.verdicts) <= 64:  # the same few combinations again and again
            for i in range(self.seen_count):
                few |= (<uint64_t>1) << self.order[i]
            known = self.decided.get(few)
            if known is not None:
                return known
        total = 0
        for i in range(self.seen_count):
            total |= self.verdicts[self.order[i]]
        if len(self.verdicts) <= 64 and len(self.decided) < 1024:
            self.decided[few] = total
        return total

    cdef void start_over(self, bytes data, Purpose purpose, Py_ssize_t max_depth):
        take_back(self, 0)
        self.failure = self.found = None
        self.purpose = purpose
        self.max_depth = max_depth
        self.frame_count = self.touches = 0
        self.out_size = 0
        self.unopened = False
        self.copied = <const uint8_t *>PyBytes_AS_STRING(data)
        self.levels[0].data = self.copied
        self.levels[0].end = self.copied + PyBytes_GET_SIZE(data)
        self.levels[0].escaped = False

    cdef inline void let_go(self):
        """Of what only a large text needed."""
        if self.out_room > KEPT_OUT:
            free(self.out)
            self.out = NULL
            self.out_room = 0


cdef CState *grow(Mirror x, CState *at, CKey *key, bint element) noexcept with gil:
    """The child of a state that was not needed before; NULL when there can be none, which `failure` says."""
    cdef CState *child
    try:
        state = <object>at.state
        if element:
            child = at.element = x.state_of(state.element)
        elif key == NULL:
            child = at.other = x.state_of(state.other)
        else:
            child = key.child = x.state_of(state.member(PyBytes_FromStringAndSize(<const char *>key.name, key.size)))
        return child
    except BaseException as failure:
        x.failure = failure
        return NULL


cdef Outcome look(Mirror x, CAct *act, const uint8_t *start, const uint8_t *end) noexcept with gil:
    """Whether the contents of a string bear a mask of the act."""
    cdef uint8_t *buffer = NULL
    cdef ptrdiff_t size
    try:
        buffer = <uint8_t *>malloc(end - start + 1)
        if buffer == NULL:
            return NO_MEMORY
        size = veil_decode(start, end, buffer, 0)
        text = PyBytes_FromStringAndSize(<const char *>buffer, size).decode("utf-8", "surrogatepass")
        x.found = (<object>act.act).left_by(text)
        return FINE if x.found is None else FOUND
    except BaseException as failure:
        x.failure = failure
        return FAILED
    finally:
        free(buffer)


cdef inline CState *other_of(Mirror x, CState *state) noexcept nogil:
    return state.other if state.other != NULL else grow(x, state, NULL, False)


cdef CState *named(Mirror x, CState *state, const uint8_t *name, Py_ssize_t size) noexcept nogil:
    """The state of the member of that name."""
    cdef CKey *key = NULL
    cdef uint32_t at
    cdef int i
    if (state.sizes >> (63 if size > 63 else size)) & 1 == 0:
        return other_of(x, state)
    if state.key_count <= LINEAR:
        for i in range(state.key_count):
            if state.keys[i].size == size and memcmp(state.keys[i].name, name, size) == 0:
                key = &state.keys[i]
                break
    else:
        at = veil_hash(name, size) & state.slots
        while state.slot[at]:
            i = state.slot[at] - 1
            if state.keys[i].size == size and memcmp(state.keys[i].name, name, size) == 0:
                key = &state.keys[i]
                break
            at = (at + 1) & state.slots
    if key == NULL:
        return other_of(x, state)
    return key.child if key.child != NULL else grow(x, state, key, False)


cdef Outcome member(Mirror x, CState *state, const uint8_t *start, const uint8_t *end, bint escaped, CState **child) noexcept nogil:
    cdef uint8_t short_name[SHORT_NAME]
    cdef uint8_t *name = short_name
    if state.dead:
        child[0] = state
        return FINE
    if state.key_count == 0 or not escaped:
        child[0] = other_of(x, state) if state.key_count == 0 else named(x, state, start, end - start)
    else:
        if end - start > SHORT_NAME:
            name = <uint8_t *>malloc(end - start)
            if name == NULL:
                return NO_MEMORY
        child[0] = named(x, state, name, veil_decode(start, end, name, 0))
        if name != short_name:
            free(name)
    return FINE if child[0] != NULL else FAILED


# What is written

cdef inline const uint8_t *outward(Mirror x, int level, const uint8_t *p) noexcept nogil:
    """Where a place of a level is spelled in the text at the top."""
    while level > 0:
        if x.levels[level].escaped:
            p = veil_outer(&x.levels[level].cursor, p - x.levels[level].data)
        level -= 1
    return p


cdef inline Outcome make_room(Mirror x, size_t more) noexcept nogil:
    return FINE if more <= x.out_room - x.out_size else grow_out(x, more)


cdef Outcome grow_out(Mirror x, size_t more) noexcept nogil:
    cdef size_t room
    cdef uint8_t *grown
    if more > (<size_t>-1) // 4 - x.out_size:
        return NO_MEMORY
    room = x.out_size + more
    if x.out == NULL:
        room = max(room, <size_t>(x.levels[0].end - x.levels[0].data))
    room += room // 2 + 64
    grown = <uint8_t *>realloc(x.out, room)
    if grown == NULL:
        return NO_MEMORY
    x.out = grown
    x.out_room = room
    return FINE


cdef inline Outcome put(Mirror x, const void *data, size_t size) noexcept nogil:
    if make_room(x, size) != FINE:
        return NO_MEMORY
    memcpy(x.out + x.out_size, data, size)
    x.out_size += size
    return FINE


cdef Outcome put_quote(Mirror x, int level) noexcept nogil:
    """A quote as it is spelled that many strings deep."""
    cdef int i, slashes = (1 << level) - 1
    if make_room(x, slashes + 1) != FINE:
        return NO_MEMORY
    for i in range(slashes):
        x.out[x.out_size + i] = c"\\"
    x.out[x.out_size + slashes] = c'"'
    x.out_size += slashes + 1
    return FINE


cdef Outcome put_dots(Mirror x, size_t count) noexcept nogil:
    cdef size_t i
    cdef uint8_t *at
    if count > (<size_t>-1) // 16 or make_room(x, 3 * count) != FINE:
        return NO_MEMORY
    at = x.out + x.out_size
    for i in range(count):
        memcpy(at + 3 * i, b"\xe2\x80\xa2", 3)
    x.out_size += 3 * count
    return FINE


cdef Outcome put_mask(Mirror x, int level) noexcept nogil:
    if level == 0:
        return put(x, b'"\xe2\x80\xa2\xe2\x80\xa2\xe2\x80\xa2\xe2\x80\xa2"', 14)
    if put_quote(x, level) != FINE or put_dots(x, 4) != FINE:
        return NO_MEMORY
    return put_quote(x, level)


cdef inline Outcome copy_until(Mirror x, int level, const uint8_t *p) noexcept nogil:
    """The text as it came, up to a place of a level."""
    cdef const uint8_t *there = outward(x, level, p)
    cdef Outcome outcome = put(x, x.copied, there - x.copied)
    x.copied = there
    return outcome


cdef inline void skip_until(Mirror x, int level, const uint8_t *p) noexcept nogil:
    x.copied = outward(x, level, p)


cdef inline void decide(Mirror x, CAct *act, Py_ssize_t characters) noexcept nogil:
    """Notes who decided. Less than no characters: it has none to be kept, as a boolean has."""
    cdef int i, verdict = act.verdict
    if not act.redacting and characters >= 0 and (act.redacts or characters <= act.floor):
        for i in range(act.thresholds):
            if characters <= act.threshold[i]:
                verdict += 1 + i
                break
    if not x.seen[verdict]:
        x.seen[verdict] = 1
        x.order[x.seen_count] = verdict
        x.seen_count += 1


cdef void take_back(Mirror x, int seen_count) noexcept nogil:
    """All verdicts but the first so many."""
    while x.seen_count > seen_count:
        x.seen_count -= 1
        x.seen[x.order[x.seen_count]] = 0


cdef Outcome hide_string(
    Mirror x, int level, CAct *act, const uint8_t *start, const uint8_t *end, bint escaped
) noexcept nogil:
    """A string with its contents from `start` to `end`; its quotes are beside them."""
    cdef Py_ssize_t characters = 0, i
    cdef const uint8_t *first = start
    cdef const uint8_t *last = start
    cdef bint plain = False  # a byte a character
    if not act.redacting:
        plain = not escaped and veil_ascii_end(start, end) == end
        if plain:
            characters = end - start
        else:
            while last < end:
                last = veil_character_end(last, end)
                characters += 1
    decide(x, act, characters)
    if act.redacting or act.redacts or characters <= act.floor:
        if copy_until(x, level, start - 1) != FINE or put_mask(x, level) != FINE:
            return NO_MEMORY
        skip_until(x, level, end + 1)
        return FINE
    characters -= act.keep_first + act.keep_last
    if plain:
        first = start + act.keep_first
        last = end - act.keep_last
    else:
        for i in range(act.keep_first):
            first = veil_character_end(first, end)
        last = first
        for i in range(characters):
            last = veil_character_end(last, end)
    if copy_until(x, level, first) != FINE or put_dots(x, characters) != FINE:
        return NO_MEMORY
    skip_until(x, level, last)
    return FINE


cdef Outcome hide_number(Mirror x, int level, CAct *act, const uint8_t *start, const uint8_t *end) noexcept nogil:
    """A number: 0, or under a partial a string of its digits."""
    cdef Py_ssize_t size = end - start
    decide(x, act, size)
    if copy_until(x, level, start) != FINE:
        return NO_MEMORY
    if act.redacts:
        if put(x, b"0", 1) != FINE:
            return NO_MEMORY
    elif size <= act.floor:
        if put_mask(x, level) != FINE:
            return NO_MEMORY
    else:
        if put_quote(x, level) != FINE or copy_until(x, level, start + act.keep_first) != FINE:
            return NO_MEMORY
        if put_dots(x, size - act.keep_first - act.keep_last) != FINE:
            return NO_MEMORY
        skip_until(x, level, end - act.keep_last)
        if copy_until(x, level, end) != FINE:
            return NO_MEMORY
        return put_quote(x, level)
    skip_until(x, level, end)
    return FINE


cdef Outcome hide_boolean(Mirror x, int level, CAct *act, const uint8_t *start, const uint8_t *end) noexcept nogil:
    decide(x, act, -1)
    if copy_until(x, level, start) != FINE or put(x, b"false", 5) != FINE:
        return NO_MEMORY
    skip_until(x, level, end)
    return FINE


# What is read

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
        outcome = member(x, around, start, quote, escaped, &state)
        if outcome != FINE:
            return outcome


# The three doors

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


cdef inline Mirror take(object root, list spare):
    return <Mirror?>spare.pop() if spare else Mirror(root)


cdef inline int give_back(list spare, Mirror x) except -1:
    x.let_go()
    if len(spare) < MIRRORS_KEPT:
        spare.append(x)
    return 0


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


def mask(bytes data not None, object root, Py_ssize_t max_depth):
    """The text with its masks put in, and the bits of the fields that decided them.

    The very object that came in, and 0, when nothing is covered.

    Raises:
        NotJson: it is no JSON text.
        TooDeep: more than `max_depth` brackets are open at once, or more than `MAX_OPENED` strings.
        TooManyPaths: from the automaton.
        MemoryError: there is none left.
    """
    cdef list spare = root.spare
    cdef Mirror x = take(root, spare)
    cdef Outcome outcome
    try:
        outcome = run(x, data, MASK, max_depth)
        if outcome != FINE:
            raise failure_of(x, outcome)
        return (data, 0) if x.touches == 0 else (result(x), x.bits())
    finally:
        give_back(spare, x)


def mask_in(bytes data not None, object root, Py_ssize_t max_depth):
    """The bit of a field whose mask the first covered string that bears one bears; None when none does.

    Opened strings are looked into as well. Raises what `mask` raises, unless a mask was found before.
    """
    cdef list spare = root.spare
    cdef Mirror x = take(root, spare)
    cdef Outcome outcome
    try:
        outcome = run(x, data, FIND, max_depth)
        if outcome == FOUND:
            return x.found
        if outcome != FINE:
            raise failure_of(x, outcome)
        return None
    finally:
        give_back(spare, x)


def opens(bytes data not None, object root, Py_ssize_t max_depth):
    """Whether what a JSON string holds is a document to be masked inside, not a text. Raises what `mask` raises."""
    cdef list spare = root.spare
    cdef Mirror x = take(root, spare)
    cdef Outcome outcome
    try:
        outcome = run(x, data, COUNT, max_depth)
        if outcome != FINE:
            raise failure_of(x, outcome)
        return not x.unopened
    finally:
        give_back(spare, x)
