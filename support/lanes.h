/* lanes.h: sixteen frames side by side, a word of 32 bits of each in a vector, a truth of each in a bit. For generated programs that look at
 * many frames of one shape at once; needs AVX-512 (F and BW), else WL_LANES is not defined and they look at one after the other. */
#ifndef WL_LANES_H
#define WL_LANES_H
#include "base.h"
#if defined(__AVX512F__) && defined(__AVX512BW__)
#include <immintrin.h>
#define WL_LANES 16u
#define WL_LANES_ALL 0xffffu

typedef __m512i wl_lanes;

WL_INLINE wl_lanes wl_lanes_set(uint32_t v) { return _mm512_set1_epi32((int)v); }
WL_INLINE wl_lanes wl_lanes_load(const uint32_t *p) { return _mm512_loadu_si512(p); }
WL_INLINE void wl_lanes_store(void *p, wl_lanes v) { _mm512_storeu_si512(p, v); }

/* Pairs of words, the low ones first. */
WL_INLINE void wl_lanes_pairs(uint64_t *p, wl_lanes low, wl_lanes high) {
    const __m512i first = _mm512_setr_epi32(0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
    wl_lanes_store(p, _mm512_permutex2var_epi32(low, first, high));
    wl_lanes_store(p + 8, _mm512_permutex2var_epi32(low, _mm512_add_epi32(first, _mm512_set1_epi32(8)), high));
}

/* ---- numbers ---- */

WL_INLINE wl_lanes wl_lanes_add(wl_lanes a, wl_lanes b) { return _mm512_add_epi32(a, b); }
WL_INLINE wl_lanes wl_lanes_sub(wl_lanes a, wl_lanes b) { return _mm512_sub_epi32(a, b); }
WL_INLINE wl_lanes wl_lanes_mul(wl_lanes a, wl_lanes b) { return _mm512_mullo_epi32(a, b); }
WL_INLINE wl_lanes wl_lanes_and(wl_lanes a, wl_lanes b) { return _mm512_and_si512(a, b); }
WL_INLINE wl_lanes wl_lanes_or(wl_lanes a, wl_lanes b) { return _mm512_or_si512(a, b); }
WL_INLINE wl_lanes wl_lanes_xor(wl_lanes a, wl_lanes b) { return _mm512_xor_si512(a, b); }
WL_INLINE wl_lanes wl_lanes_shl(wl_lanes a, const unsigned n) { return _mm512_slli_epi32(a, n); }
WL_INLINE wl_lanes wl_lanes_shr(wl_lanes a, const unsigned n) { return _mm512_srli_epi32(a, n); }
/* The bytes of each word the other way round. */
WL_INLINE wl_lanes wl_lanes_swap(wl_lanes a) { return _mm512_shuffle_epi8(a, _mm512_set4_epi32(0x0c0d0e0f, 0x08090a0b, 0x04050607, 0x00010203)); }

/* ---- truths ---- */

WL_INLINE uint32_t wl_lanes_eq(wl_lanes a, wl_lanes b) { return _mm512_cmpeq_epu32_mask(a, b); }
WL_INLINE uint32_t wl_lanes_le(wl_lanes a, wl_lanes b) { return _mm512_cmple_epu32_mask(a, b); }
WL_INLINE uint32_t wl_lanes_lt(wl_lanes a, wl_lanes b) { return _mm512_cmplt_epu32_mask(a, b); }
/* Whether the bits of a mask have a value. */
WL_INLINE uint32_t wl_lanes_has(wl_lanes a, uint32_t mask, uint32_t value) { return _mm512_cmpeq_epu32_mask(wl_lanes_and(a, wl_lanes_set(mask)), wl_lanes_set(value)); }
WL_INLINE uint32_t wl_lanes_all(bool b) { return WL_LANES_ALL & (0 - (uint32_t)b); }
WL_INLINE wl_lanes wl_lanes_choose(uint32_t who, wl_lanes a, wl_lanes b) { return _mm512_mask_mov_epi32(b, (__mmask16)who, a); }
WL_INLINE uint64_t wl_lanes_count(uint32_t who) { return (uint64_t)__builtin_popcount(who); }

/* Sums of 64 bits, eight of them: adds the numbers of `who`. */
WL_INLINE wl_lanes wl_lanes_more(wl_lanes sums, uint32_t who, wl_lanes v) {
    const wl_lanes some = _mm512_maskz_mov_epi32((__mmask16)who, v);
    return _mm512_add_epi64(sums, _mm512_add_epi64(_mm512_srli_epi64(some, 32), _mm512_and_si512(some, _mm512_set1_epi64(0xffffffff))));
}
WL_INLINE uint64_t wl_lanes_total(wl_lanes sums) { return (uint64_t)_mm512_reduce_add_epi64(sums); }

/* ---- whether to look ---- */

/* Where none of the last frames was of the shape that is looked for, the next 15 batches or groups are not looked at. */
WL_INLINE bool wl_lanes_try(uint8_t *rest) {
    if (WL_LIKELY(!*rest)) return true;
    --*rest;
    return false;
}
WL_INLINE void wl_lanes_had(uint8_t *rest, uint64_t same) { if (WL_UNLIKELY(!same)) *rest = 15; }

/* ---- memory ---- */

/* Four rows of sixteen bytes, turned: word w of r has bytes 4 * w to 4 * w + 3 of each. */
typedef struct wl_lanes_4 { wl_lanes w[4]; } wl_lanes_4;
WL_INLINE wl_lanes wl_lanes_quad(const uint8_t *a, const uint8_t *b, const uint8_t *c, const uint8_t *d) {
    const __m128i *pa = (const __m128i *)(const void *)a, *pb = (const __m128i *)(const void *)b, *pc = (const __m128i *)(const void *)c, *pd = (const __m128i *)(const void *)d;
    return _mm512_inserti32x4(_mm512_inserti32x4(_mm512_inserti32x4(_mm512_castsi128_si512(_mm_loadu_si128(pa)), _mm_loadu_si128(pb), 1), _mm_loadu_si128(pc), 2), _mm_loadu_si128(pd), 3);
}
WL_INLINE wl_lanes_4 wl_lanes_turn(wl_lanes a, wl_lanes b, wl_lanes c, wl_lanes d) {
    const wl_lanes ab = _mm512_unpacklo_epi32(a, b), cd = _mm512_unpacklo_epi32(c, d), AB = _mm512_unpackhi_epi32(a, b), CD = _mm512_unpackhi_epi32(c, d);
    return (wl_lanes_4){{_mm512_unpacklo_epi64(ab, cd), _mm512_unpackhi_epi64(ab, cd), _mm512_unpacklo_epi64(AB, CD), _mm512_unpackhi_epi64(AB, CD)}};
}
/* Sixteen bytes of each frame, from `at` on. */
WL_INLINE wl_lanes_4 wl_lanes_bytes(const wl_frame *f, const uint32_t at) {
    wl_lanes q[4];
    for (unsigned i = 0; i < 4; i++) q[i] = wl_lanes_quad(f[i].p + at, f[i + 4].p + at, f[i + 8].p + at, f[i + 12].p + at);
    return wl_lanes_turn(q[0], q[1], q[2], q[3]);
}
/* How many bytes each frame has. (What is loaded begins behind the pointer: else compilers take that out of the vector again.) */
WL_INLINE wl_lanes wl_lanes_lengths(const wl_frame *f) {
    wl_lanes q[4];
    const uint8_t *p = (const uint8_t *)&f->n;
    const size_t s = sizeof *f;
    for (unsigned i = 0; i < 4; i++) q[i] = wl_lanes_quad(p + i * s, p + (i + 4) * s, p + (i + 8) * s, p + (i + 12) * s);
    return wl_lanes_turn(q[0], q[1], q[2], q[3]).w[0];
}
/* Whether all frames have at least so many bytes, and no more than any usual one. */
WL_INLINE bool wl_lanes_hold(wl_lanes lengths, uint32_t least) { return _mm512_cmple_epu32_mask(wl_lanes_sub(lengths, wl_lanes_set(least)), wl_lanes_set(65535 - least)) == WL_LANES_ALL; }

/* Words at p + index * size, of `who`; the last one may reach up to three bytes past its entry. */
WL_INLINE wl_lanes wl_lanes_at(const void *p, wl_lanes index, uint32_t size, uint32_t who) {
    return _mm512_mask_i32gather_epi32(_mm512_setzero_si512(), (__mmask16)who, wl_lanes_mul(index, wl_lanes_set(size)), p, 1);
}
/* Where a frame goes that leaves through an instance of a port. */
WL_INLINE wl_lanes wl_lanes_to(uint32_t port, uint32_t instance) { return wl_lanes_set(port << 16 | (instance & 0xffff)); }
/* Frames whose bytes no handler moves leave as they are. One by one: scattering takes longer. */
WL_INLINE void wl_lanes_leave(wl_frame *f, wl_lanes out) {
    uint32_t to[WL_LANES] __attribute__((aligned(64)));
    wl_lanes_store(to, out);
#pragma GCC unroll 16
    for (unsigned k = 0; k < WL_LANES; k++) {
        uint32_t one = to[k];
        __asm__("" : "+r"(one));   /* no scattering */
        f[k].out = one;
    }
}
#endif
#endif
