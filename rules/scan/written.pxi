# What is written: the text as it came up to a place, masks in place of what is there.

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
    if size == 0:  # there may be no buffer yet, and C forbids to copy even nothing to nowhere
        return FINE
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
