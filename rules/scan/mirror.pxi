# The automaton as C structs, made when a document first needs them, and the buffers of one scan.

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
    cdef dict decided  # seen verdicts, as bits of a number -> bits of fields
    cdef dict hits  # bits of fields -> what they stand for
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
        self.hits = {}
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

    cdef object named(self):
        """What was hit in this scan."""
        bits = self.bits()
        hits = self.hits.get(bits)
        if hits is None:
            hits = (<object>self.root.state).named(bits)
            if len(self.hits) < 1024:
                self.hits[bits] = hits
        return hits

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


cdef inline bint has_size(CState *state, Py_ssize_t size) noexcept nogil:
    """Whether some name waited for has that many bytes."""
    return (state.sizes >> (63 if size > 63 else size)) & 1


cdef inline bint is_same(const uint8_t *one, const uint8_t *other, Py_ssize_t size) noexcept nogil:
    return size == 0 or (one[0] == other[0] and memcmp(one, other, size) == 0)


cdef CState *named(Mirror x, CState *state, const uint8_t *name, Py_ssize_t size) noexcept nogil:
    """The state of the member of that name."""
    cdef CKey *key = NULL
    cdef uint32_t at
    cdef int i
    if not has_size(state, size):
        return other_of(x, state)
    if state.key_count <= LINEAR:
        for i in range(state.key_count):
            if state.keys[i].size == size and is_same(state.keys[i].name, name, size):
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
