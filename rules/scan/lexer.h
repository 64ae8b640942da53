/* The words of JSON: UTF-8, white space, strings, numbers, escapes.
 *
 * Portable C99. Nothing here reads at `end` or behind it, allocates, or keeps anything. Sources: RFC 8259, RFC 3629.
 */
#ifndef VEIL_LEXER_H
#define VEIL_LEXER_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#if defined(__SSE2__) && defined(__GNUC__) && !defined(VEIL_NO_SIMD)
#include <emmintrin.h>
#define VEIL_SSE2 1
#endif

#if defined(__GNUC__)
#define VEIL_INLINE static inline __attribute__((always_inline))
#else
#define VEIL_INLINE static inline
#endif

typedef const uint8_t *veil_at;

#define VEIL_EACH(byte) (UINT64_C(0x0101010101010101) * (byte))

/* The first byte that is a quote, a back-slash or a control character. */
VEIL_INLINE veil_at veil_plain_end(veil_at p, veil_at end)
{
#ifdef VEIL_SSE2
    const __m128i quote = _mm_set1_epi8('"'), slash = _mm_set1_epi8('\\'), control = _mm_set1_epi8(0x1f);
    while (end - p >= 16) {
        __m128i v = _mm_loadu_si128((const __m128i *)p);
        __m128i found = _mm_or_si128(_mm_or_si128(_mm_cmpeq_epi8(v, quote), _mm_cmpeq_epi8(v, slash)),
                                     _mm_cmpeq_epi8(_mm_min_epu8(v, control), v));
        unsigned at = (unsigned)_mm_movemask_epi8(found);
        if (at)
            return p + __builtin_ctz(at);
        p += 16;
    }
#else
    while (end - p >= 8) {
        uint64_t v, quote, slash;
        memcpy(&v, p, 8);
        quote = v ^ VEIL_EACH('"');
        slash = v ^ VEIL_EACH('\\');
        if ((((quote - VEIL_EACH(1)) & ~quote) | ((slash - VEIL_EACH(1)) & ~slash) | ((v - VEIL_EACH(0x20)) & ~v)) & VEIL_EACH(0x80))
            break; /* one of these eight */
        p += 8;
    }
#endif
    while (p < end && *p != '"' && *p != '\\' && *p >= 0x20)
        p++;
    return p;
}

static inline veil_at veil_ascii_end(veil_at p, veil_at end)
{
#ifdef VEIL_SSE2
    while (end - p >= 16) {
        unsigned at = (unsigned)_mm_movemask_epi8(_mm_loadu_si128((const __m128i *)p));
        if (at)
            return p + __builtin_ctz(at);
        p += 16;
    }
#else
    while (end - p >= 8) {
        uint64_t v;
        memcpy(&v, p, 8);
        if (v & VEIL_EACH(0x80))
            break;
        p += 8;
    }
#endif
    while (p < end && *p < 0x80)
        p++;
    return p;
}

static inline int veil_follows(uint8_t byte)
{
    return (byte & 0xc0) == 0x80;
}

/* Whether all of it is UTF-8: no overlong form, no surrogate, nothing above U+10FFFF. */
static int veil_is_utf8(veil_at p, veil_at end)
{
    for (;;) {
        uint8_t c;
        if (p < end && *p < 0x80)
            p = veil_ascii_end(p, end);
        if (p >= end)
            return 1;
        c = *p;
        if (c < 0xc2)
            return 0;
        if (c < 0xe0) {
            if (end - p < 2 || !veil_follows(p[1]))
                return 0;
            p += 2;
        } else if (c < 0xf0) {
            if (end - p < 3 || !veil_follows(p[1]) || !veil_follows(p[2]))
                return 0;
            if ((c == 0xe0 && p[1] < 0xa0) || (c == 0xed && p[1] > 0x9f))
                return 0;
            p += 3;
        } else if (c < 0xf5) {
            if (end - p < 4 || !veil_follows(p[1]) || !veil_follows(p[2]) || !veil_follows(p[3]))
                return 0;
            if ((c == 0xf0 && p[1] < 0x90) || (c == 0xf4 && p[1] > 0x8f))
                return 0;
            p += 4;
        } else
            return 0;
    }
}

VEIL_INLINE veil_at veil_blank_end(veil_at p, veil_at end)
{
    while (p < end && *p <= ' ' && (*p == ' ' || *p == '\n' || *p == '\r' || *p == '\t'))
        p++;
    return p;
}

static inline int veil_digit(uint8_t c)
{
    return c >= '0' && c <= '9';
}

/* What a hexadecimal digit stands for; -1 when it is none. */
static inline int veil_hex(uint8_t c)
{
    if (veil_digit(c))
        return c - '0';
    c |= 0x20;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* The closing quote of the string whose contents start at p; NULL when it is no string. Tells whether it has escapes. */
VEIL_INLINE veil_at veil_string_end(veil_at p, veil_at end, int *escaped)
{
    *escaped = 0;
    for (;;) {
        p = veil_plain_end(p, end);
        if (p >= end || *p < 0x20)
            return NULL;
        if (*p == '"')
            return p;
        *escaped = 1;
        if (end - p < 2)
            return NULL;
        switch (p[1]) {
        case '"': case '\\': case '/': case 'b': case 'f': case 'n': case 'r': case 't':
            p += 2;
            break;
        case 'u':
            if (end - p < 6 || veil_hex(p[2]) < 0 || veil_hex(p[3]) < 0 || veil_hex(p[4]) < 0 || veil_hex(p[5]) < 0)
                return NULL;
            p += 6;
            break;
        default:
            return NULL;
        }
    }
}

/* Behind the number at p; NULL when there is none. */
static inline veil_at veil_number_end(veil_at p, veil_at end)
{
    if (p < end && *p == '-')
        p++;
    if (p >= end || !veil_digit(*p))
        return NULL;
    if (*p++ != '0')
        while (p < end && veil_digit(*p))
            p++;
    if (p < end && *p == '.') {
        if (++p >= end || !veil_digit(*p))
            return NULL;
        while (p < end && veil_digit(*p))
            p++;
    }
    if (p < end && (*p == 'e' || *p == 'E')) {
        p++;
        if (p < end && (*p == '+' || *p == '-'))
            p++;
        if (p >= end || !veil_digit(*p))
            return NULL;
        while (p < end && veil_digit(*p))
            p++;
    }
    return p;
}

/* From here on: inside the contents of strings that were found valid. */

/* The code point of the escape at p (which is a back-slash), surrogates without a twin being themselves; *next is behind it. */
static inline uint32_t veil_escape(veil_at p, veil_at end, veil_at *next)
{
    uint32_t point, low;
    if (p[1] != 'u') {
        *next = p + 2;
        switch (p[1]) {
        case 'b': return 8;
        case 'f': return 12;
        case 'n': return 10;
        case 'r': return 13;
        case 't': return 9;
        default: return p[1];
        }
    }
    point = (uint32_t)(veil_hex(p[2]) << 12 | veil_hex(p[3]) << 8 | veil_hex(p[4]) << 4 | veil_hex(p[5]));
    *next = p + 6;
    if (point < 0xd800 || point > 0xdbff || end - p < 12 || p[6] != '\\' || p[7] != 'u')
        return point;
    low = (uint32_t)(veil_hex(p[8]) << 12 | veil_hex(p[9]) << 8 | veil_hex(p[10]) << 4 | veil_hex(p[11]));
    if (low < 0xdc00 || low > 0xdfff)
        return point;
    *next = p + 12;
    return 0x10000 + ((point - 0xd800) << 10) + (low - 0xdc00);
}

static inline int veil_width(uint32_t point)
{
    return point < 0x80 ? 1 : point < 0x800 ? 2 : point < 0x10000 ? 3 : 4;
}

/* Behind the character at p: an escape, a pair of surrogate escapes, or a character as it is. */
static inline veil_at veil_character_end(veil_at p, veil_at end)
{
    veil_at next;
    if (*p < 0x80) {
        if (*p != '\\')
            return p + 1;
        veil_escape(p, end, &next);
        return next;
    }
    return p + (*p < 0xe0 ? 2 : *p < 0xf0 ? 3 : 4);
}

/* What the contents stand for, in UTF-8, written to `out`, which is as large as they are: never longer than its spelling.
 * Gives its length. A surrogate without its twin is written as three bytes, or with `strict` ends it with -1. */
static ptrdiff_t veil_decode(veil_at p, veil_at end, uint8_t *out, int strict)
{
    uint8_t *at = out;
    while (p < end) {
        uint32_t point;
        veil_at slash = (veil_at)memchr(p, '\\', (size_t)(end - p));
        size_t plain = (size_t)((slash ? slash : end) - p);
        memcpy(at, p, plain);
        at += plain;
        p += plain;
        if (p >= end)
            break;
        point = veil_escape(p, end, &p);
        if (strict && point >= 0xd800 && point <= 0xdfff)
            return -1;
        switch (veil_width(point)) {
        case 1:
            *at++ = (uint8_t)point;
            break;
        case 2:
            *at++ = (uint8_t)(0xc0 | point >> 6);
            *at++ = (uint8_t)(0x80 | (point & 0x3f));
            break;
        case 3:
            *at++ = (uint8_t)(0xe0 | point >> 12);
            *at++ = (uint8_t)(0x80 | (point >> 6 & 0x3f));
            *at++ = (uint8_t)(0x80 | (point & 0x3f));
            break;
        default:
            *at++ = (uint8_t)(0xf0 | point >> 18);
            *at++ = (uint8_t)(0x80 | (point >> 12 & 0x3f));
            *at++ = (uint8_t)(0x80 | (point >> 6 & 0x3f));
            *at++ = (uint8_t)(0x80 | (point & 0x3f));
        }
    }
    return at - out;
}

/* Whether the contents begin with an opening bracket after white space, escapes counting as what they stand for. */
static int veil_begins(veil_at p, veil_at end)
{
    while (p < end) {
        uint32_t point = *p;
        veil_at next = p + 1;
        if (point == '\\')
            point = veil_escape(p, end, &next);
        if (point == '{' || point == '[')
            return 1;
        if (point != ' ' && point != '\n' && point != '\r' && point != '\t')
            return 0;
        p = next;
    }
    return 0;
}

/* A place in a string's contents, known on both sides: where it is spelled, and how many bytes it stands for come before it. */
typedef struct {
    veil_at at;
    veil_at end;
    ptrdiff_t inner;
} veil_cursor;

/* Moves on to the place that so many bytes come before, and says where it is spelled. Places are asked for in rising order. */
static veil_at veil_outer(veil_cursor *cursor, ptrdiff_t inner)
{
    while (cursor->inner < inner) {
        ptrdiff_t left = inner - cursor->inner, plain = cursor->end - cursor->at;
        veil_at slash = (veil_at)memchr(cursor->at, '\\', (size_t)(plain < left ? plain : left));
        if (slash == NULL) {
            cursor->at += left;
            cursor->inner += left;
            break;
        }
        cursor->inner += slash - cursor->at;
        cursor->inner += veil_width(veil_escape(slash, cursor->end, &cursor->at));
    }
    return cursor->at;
}

/* FNV-1a, for the table of a state's names. The names are a rule writer's; what is looked up may be anybody's. */
static inline uint32_t veil_hash(veil_at p, ptrdiff_t size)
{
    uint32_t h = UINT32_C(2166136261);
    while (size-- > 0)
        h = (h ^ *p++) * UINT32_C(16777619);
    return h;
}

#endif
