/* scan.h: searches for bytes. A `wl_set` is a set of byte values in three forms: a 256-bit map for
 * single bytes, and two nibble tables for vectors. A table lookup by the low nibble gives the rows
 * in which the byte's column is set; the high nibble picks the row's bit. Every search gives the
 * first index in [i, n) whose byte is in the set, else n. It never reads outside [p, p + n). */
#ifndef WL_SCAN_H
#define WL_SCAN_H
#include <stdint.h>
#include <string.h>
/* Code that is not optimised serves first. It has vectors of 16 bytes only: to read <immintrin.h>
 * takes half of the time of its compiler. */
#if defined(__AVX2__) && defined(__OPTIMIZE__)
#define WL_AVX2 1
#include <immintrin.h>
#if defined(__AVX512F__)
#define WL_AVX512 1
#endif
#elif defined(__SSSE3__)
#include <tmmintrin.h>
#elif defined(__SSE2__)
#include <emmintrin.h>
#endif

typedef struct wl_set {
    uint64_t map[4];
    uint8_t lo[16], hi[16];   /* rows 0..7 and 8..15 of the column given by the low nibble */
} wl_set;

static inline int wl_in(const wl_set *s, uint8_t b) { return (int)(s->map[b >> 6] >> (b & 63) & 1); }

#if defined(__SSSE3__)
static inline uint32_t wl_hits16(__m128i v, __m128i lo, __m128i hi, __m128i bit) {
    __m128i rows = _mm_or_si128(_mm_shuffle_epi8(lo, v), _mm_shuffle_epi8(hi, _mm_xor_si128(v, _mm_set1_epi8((char)0x80))));
    __m128i row = _mm_shuffle_epi8(bit, _mm_and_si128(_mm_srli_epi16(v, 4), _mm_set1_epi8(15)));
    return ~(uint32_t)_mm_movemask_epi8(_mm_cmpeq_epi8(_mm_and_si128(rows, row), _mm_setzero_si128())) & 0xffffu;
}
#define WL_BITS 1, 2, 4, 8, 16, 32, 64, (char)128, 1, 2, 4, 8, 16, 32, 64, (char)128
#endif

#if defined(WL_AVX2)
static inline uint32_t wl_hits32(__m256i v, __m256i lo, __m256i hi, __m256i bit) {
    __m256i rows = _mm256_or_si256(_mm256_shuffle_epi8(lo, v),
                                   _mm256_shuffle_epi8(hi, _mm256_xor_si256(v, _mm256_set1_epi8((char)0x80))));
    __m256i row = _mm256_shuffle_epi8(bit, _mm256_and_si256(_mm256_srli_epi16(v, 4), _mm256_set1_epi8(15)));
    return ~(uint32_t)_mm256_movemask_epi8(_mm256_cmpeq_epi8(_mm256_and_si256(rows, row), _mm256_setzero_si256()));
}
#endif

/* Where lanes can be left out, the last bytes take one step: a loop over them would be left at a
   byte that cannot be foreseen. */
#if defined(WL_AVX512) && defined(__AVX512BW__) && defined(__AVX512VL__)
#define WL_MASKED 1
/* The bytes from p, fewer than 16; the rest is zero, and not read. */
static inline __m128i wl_few(const uint8_t *p, uint32_t n) { return _mm_maskz_loadu_epi8((__mmask16)((1u << n) - 1), p); }
#endif

/* First byte in the set. */
static inline uint32_t wl_scan_set(const uint8_t *p, uint32_t i, uint32_t n, const wl_set *s) {
#if defined(__SSSE3__)
    const __m128i l = _mm_loadu_si128((const __m128i *)s->lo), h = _mm_loadu_si128((const __m128i *)s->hi), b = _mm_setr_epi8(WL_BITS);
#if defined(WL_AVX2)
    if (n - i >= 32) {
        const __m256i ll = _mm256_broadcastsi128_si256(l), hh = _mm256_broadcastsi128_si256(h), bb = _mm256_broadcastsi128_si256(b);
        for (; n - i >= 32; i += 32) {
            uint32_t m = wl_hits32(_mm256_loadu_si256((const __m256i *)(p + i)), ll, hh, bb);
            if (m) return i + (uint32_t)__builtin_ctz(m);
        }
    }
#endif
    for (; n - i >= 16; i += 16) {
        uint32_t m = wl_hits16(_mm_loadu_si128((const __m128i *)(p + i)), l, h, b);
        if (m) return i + (uint32_t)__builtin_ctz(m);
    }
#endif
#if defined(WL_MASKED)
    return i + (uint32_t)__builtin_ctz(wl_hits16(wl_few(p + i, n - i), l, h, b) | 1u << (n - i));
#else
    while (i < n && !wl_in(s, p[i])) i++;
    return i;
#endif
}

/* First byte equal to a or b (a == b: one byte). */
static inline uint32_t wl_scan_two(const uint8_t *p, uint32_t i, uint32_t n, uint8_t a, uint8_t b) {
#if defined(WL_AVX2)
    __m256i va = _mm256_set1_epi8((char)a), vb = _mm256_set1_epi8((char)b);
    for (; n - i >= 32; i += 32) {
        __m256i v = _mm256_loadu_si256((const __m256i *)(p + i));
        uint32_t m = (uint32_t)_mm256_movemask_epi8(_mm256_or_si256(_mm256_cmpeq_epi8(v, va), _mm256_cmpeq_epi8(v, vb)));
        if (m) return i + (uint32_t)__builtin_ctz(m);
    }
#endif
#if defined(__SSE2__)
    __m128i wa = _mm_set1_epi8((char)a), wb = _mm_set1_epi8((char)b);
    for (; n - i >= 16; i += 16) {
        __m128i v = _mm_loadu_si128((const __m128i *)(p + i));
        uint32_t m = (uint32_t)_mm_movemask_epi8(_mm_or_si128(_mm_cmpeq_epi8(v, wa), _mm_cmpeq_epi8(v, wb)));
        if (m) return i + (uint32_t)__builtin_ctz(m);
    }
#endif
#if defined(WL_MASKED)
    __m128i v = wl_few(p + i, n - i);
    return i + (uint32_t)__builtin_ctz(_mm_cmpeq_epi8_mask(v, wa) | _mm_cmpeq_epi8_mask(v, wb) | 1u << (n - i));
#else
    while (i < n && p[i] != a && p[i] != b) i++;
    return i;
#endif
}

/* Whether a literal is next: 1 yes, 0 no, -1 only its beginning is there yet. */
static inline int wl_match(const uint8_t *p, uint32_t n, const char *lit, uint32_t len) {
    if (n >= len) return __builtin_memcmp(p, lit, len) == 0;
    return __builtin_memcmp(p, lit, n) == 0 ? -1 : 0;
}

/* The same. With `last` no more bytes come. */
static inline int wl_match_last(const uint8_t *p, uint32_t n, const char *lit, uint32_t len, int last) {
    int m = wl_match(p, n, lit, len);
    return m < 0 && last ? 0 : m;
}
#endif
