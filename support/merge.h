/* merge.h: functions for generated merge nodes: prefixes of keys, and writing messages to a
 * window. */
#ifndef WL_MERGE_H
#define WL_MERGE_H
#include "base.h"

/* A key as two numbers that order as the bytes do. `hi` is its first 8 bytes, big endian, with
 * zeros behind a shorter key. `lo` is the next 7 bytes, and in its low byte the key's length; 16
 * stands for 16 and more. So equal pairs are equal keys unless they are long. Only long keys need a
 * comparison of their bytes. */
static inline bool wl_key_long(uint64_t lo) { return (lo & 31) == 16; }
static inline uint64_t wl_key_hi(wl_bytes b) {
    if (WL_LIKELY(b.n >= 8)) return wl_be64(b.p);
    uint64_t v = 0;
    for (uint32_t i = 0; i < b.n; i++) v |= (uint64_t)b.p[i] << (56 - 8 * i);
    return v;
}
static inline uint64_t wl_key_lo(wl_bytes b) {
    uint64_t v = b.n < 16 ? b.n : 16;
    for (uint32_t i = 8; i < b.n && i < 15; i++) v |= (uint64_t)b.p[i] << (56 - 8 * (i - 8));
    return v;
}
/* The same where 16 bytes may be read at p. */
static inline uint64_t wl_key_hi_at(const uint8_t *p, uint32_t n) {
    return wl_be64(p) & (n >= 8 ? UINT64_MAX : ~(UINT64_MAX >> (8 * n & 63)));
}
static inline uint64_t wl_key_lo_at(const uint8_t *p, uint32_t n) {
    uint32_t k = n <= 8 ? 0 : n >= 15 ? 7 : n - 8;
    return (wl_be64(p + 8) & ~(UINT64_MAX >> (8 * k))) | (n < 16 ? n : 16);
}

/* The least of n numbers, and which of them equal x (n at most 64); n is a multiple of 8. */
static inline uint64_t wl_least(const uint64_t *v, uint32_t n) {
#if defined(WL_AVX512)
    __m512i m = _mm512_loadu_si512(v);
    for (uint32_t i = 8; i < n; i += 8) m = _mm512_min_epu64(m, _mm512_loadu_si512(v + i));
    return _mm512_reduce_min_epu64(m);
#else
    uint64_t m = v[0];
    for (uint32_t i = 1; i < n; i++) m = v[i] < m ? v[i] : m;
    return m;
#endif
}
static inline uint64_t wl_equal(const uint64_t *v, uint32_t n, uint64_t x) {
    uint64_t bits = 0;
#if defined(WL_AVX512)
    for (uint32_t i = 0; i < n; i += 8)
        bits |= (uint64_t)_mm512_cmpeq_epu64_mask(_mm512_loadu_si512(v + i), _mm512_set1_epi64((long long)x)) << i;
#elif defined(WL_AVX2)
    for (uint32_t i = 0; i < n; i += 4) {
        __m256i e = _mm256_cmpeq_epi64(_mm256_loadu_si256((const __m256i *)(const void *)(v + i)), _mm256_set1_epi64x((long long)x));
        bits |= (uint64_t)(uint32_t)_mm256_movemask_pd(_mm256_castsi256_pd(e)) << i;
    }
#else
    for (uint32_t i = 0; i < n; i++) bits |= (uint64_t)(v[i] == x) << i;
#endif
    return bits;
}

/* ---- short records: lines of at most 32 bytes are read as one block ---- */

enum { WL_LINE = 32, WL_SLACK = 64 /* bytes that must be there from a record's first one */ };
#if defined(WL_AVX2)
typedef __m256i wl_line;
static inline wl_line wl_line_at(const uint8_t *p) { return _mm256_loadu_si256((const __m256i *)(const void *)p); }
static inline uint64_t wl_line_has(wl_line b, uint8_t c) {
    return (uint32_t)_mm256_movemask_epi8(_mm256_cmpeq_epi8(b, _mm256_set1_epi8((char)c)));
}
#elif defined(__SSE2__)
typedef struct wl_line { __m128i a, b; } wl_line;
static inline wl_line wl_line_at(const uint8_t *p) {
    return (wl_line){_mm_loadu_si128((const __m128i *)(const void *)p), _mm_loadu_si128((const __m128i *)(const void *)(p + 16))};
}
static inline uint64_t wl_line_has(wl_line b, uint8_t c) {
    __m128i v = _mm_set1_epi8((char)c);
    return (uint32_t)_mm_movemask_epi8(_mm_cmpeq_epi8(b.a, v)) | (uint64_t)(uint32_t)_mm_movemask_epi8(_mm_cmpeq_epi8(b.b, v)) << 16;
}
#else
typedef const uint8_t *wl_line;
static inline wl_line wl_line_at(const uint8_t *p) { return p; }
static inline uint64_t wl_line_has(wl_line b, uint8_t c) {
    uint64_t bits = 0;
    for (uint32_t i = 0; i < WL_LINE; i++) bits |= (uint64_t)(b[i] == c) << i;
    return bits;
}
#endif
/* The first of these bytes at or behind pos (at most 33); 32: none. */
static inline uint32_t wl_line_next(uint64_t bits, uint32_t pos) {
    uint64_t rest = (bits | UINT64_C(1) << 32 | UINT64_C(1) << 33) & (UINT64_MAX << pos);
    uint32_t at = (uint32_t)__builtin_ctzll(rest);
    return at > 32 ? 32 : at;
}
/* n digits, 1 to 8; 8 bytes may be read at p. Any other n or byte is `bad`. */
static inline uint64_t wl_digits8(const uint8_t *p, uint32_t n, uint64_t *bad) {
    const uint64_t zeros = UINT64_C(0x3030303030303030);
    *bad |= n - 1 > 7;
    uint64_t v = wl_le64(p) << (8 * (8 - n) & 63) | (zeros >> 8) >> (8 * (n - 1) & 63);
    *bad |= ((v + UINT64_C(0x4646464646464646)) | (v - zeros)) & UINT64_C(0x8080808080808080);
    v -= zeros;
    v = v * 10 + (v >> 8);   /* pairs, in every other byte */
    return ((v & UINT64_C(0xff000000ff)) * (100 + (UINT64_C(1000000) << 32)) + (v >> 16 & UINT64_C(0xff000000ff)) * (1 + (UINT64_C(10000) << 32))) >> 32;
}
/* Copies n bytes; if they are at most 32, always 32: both sides must have the room. */
static inline void wl_copy32(uint8_t *d, const uint8_t *s, uint32_t n) {
    if (WL_LIKELY(n <= 32)) memcpy(d, s, 32);
    else memcpy(d, s, n);
}

static inline uint8_t *wl_w_uint(uint8_t *o, uint64_t v, unsigned n, bool big) {
    for (unsigned i = 0; i < n; i++) { unsigned at = big ? n - 1 - i : i; o[i] = at < 8 ? (uint8_t)(v >> (8 * at)) : 0; }
    return o + n;
}
static inline uint64_t wl_w_sign(uint8_t **o, int64_t v) {
    if (v >= 0) return (uint64_t)v;
    *(*o)++ = '-';
    return 0 - (uint64_t)v;
}
/* Below 10^8, at least one digit; writes 8 bytes, of which those behind the digits do not count. */
static inline uint8_t *wl_w_short(uint8_t *o, uint32_t v) {
    /* Digits by halves, in ever smaller lanes: 4 and 4, 2 and 2, 1 and 1. The first digit is in the
       lowest byte. */
    uint64_t x = v / 10000 | (uint64_t)(v % 10000) << 32;
    uint64_t q = x * 10486 >> 20 & UINT64_C(0x7f0000007f);
    x = q | (x - q * 100) << 16;
    q = x * 103 >> 10 & UINT64_C(0x000f000f000f000f);
    x = q | (x - q * 10) << 8;
    uint32_t zeros = (uint32_t)__builtin_ctzll(x | UINT64_C(1) << 56) / 8;
    x = (x | UINT64_C(0x3030303030303030)) >> (8 * zeros);
    memcpy(o, &x, 8);
    return o + 8 - zeros;
}
/* 8 bytes more than the number takes may be written. */
static inline uint8_t *wl_w_number(uint8_t *o, uint64_t v, unsigned radix, unsigned width) {
    if (radix == 10 && width == 0 && WL_LIKELY(v < 100000000)) return wl_w_short(o, (uint32_t)v);
    uint8_t b[64];
    uint32_t n = wl_digits_of(b, v, radix);
    while (n < width && n < 64) b[63 - n++] = '0';
    memcpy(o, b + 64 - n, n);
    return o + n;
}
static inline uint8_t *wl_w_varint(uint8_t *o, uint64_t v) {
    do { *o++ = (uint8_t)((v & 127) | (v > 127 ? 128 : 0)); v >>= 7; } while (v);
    return o;
}
#endif
