/* simd.h: sixteen frames side by side. It has a 32-bit word of each frame in a vector and a bool of
 * each frame in a mask bit. It is for generated programs that handle many frames of one header
 * stack at once. It needs AVX-512 (F and BW). Without that, WL_LANES is not defined, and programs
 * handle frames one by one. */
#ifndef WL_LANES_H
#define WL_LANES_H
#include "base.h"
#if defined(WL_AVX512) && defined(__AVX512BW__)
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

/* Sums of 64 bits, eight of them: adds the numbers of the lanes `who`. */
WL_INLINE wl_lanes wl_lanes_more(wl_lanes sums, uint32_t who, wl_lanes v) {
    const wl_lanes some = _mm512_maskz_mov_epi32((__mmask16)who, v);
    return _mm512_add_epi64(sums, _mm512_add_epi64(_mm512_srli_epi64(some, 32), _mm512_and_si512(some, _mm512_set1_epi64(0xffffffff))));
}
WL_INLINE uint64_t wl_lanes_total(wl_lanes sums) { return (uint64_t)_mm512_reduce_add_epi64(sums); }

/* ---- whether to look ---- */

/* Where none of the last frames was of the shape that is looked for, the next 15 batches or groups
   are not looked at. */
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
/* Eight words of each frame, from byte place[k] on, and whether they lie in one row of sixteen
 * bytes. Of the frames, the bytes from `from` up to `end` are looked at, no more than 64; there are
 * at least 28 before `end`. All of this is known where it is inlined. */
typedef struct wl_lanes_8 { wl_lanes w[8]; } wl_lanes_8;
WL_INLINE bool wl_lanes_near(uint32_t at, uint32_t first) { return at >= first && at - first <= 12 && (at - first) % 4 == 0; }
WL_INLINE bool wl_lanes_in_row(const uint32_t *place) {
    bool all = true;
    for (unsigned k = 1; k < 8; k++) all &= wl_lanes_near(place[k], place[0]);
    return all;
}
/* Row by row. */
WL_INLINE wl_lanes_8 wl_lanes_rows(const wl_frame *f, const uint32_t end, const uint32_t *place) {
    wl_lanes_8 words;
    wl_lanes_4 row;
    uint32_t first = UINT32_MAX;
#pragma GCC unroll 8
    for (unsigned k = 0; k < 8; k++) {
        if (!wl_lanes_near(place[k], first)) {
            first = place[k] + 16 <= end ? place[k] : place[k] - (place[k] + 16 - end + 3) / 4 * 4;
            row = wl_lanes_bytes(f, first);
        }
        words.w[k] = row.w[(place[k] - first) / 4];
    }
    return words;
}
#ifdef __AVX512VBMI__
/* Four rows of four pieces of sixteen bytes, turned. */
WL_INLINE wl_lanes_4 wl_lanes_turn_pieces(const wl_lanes *r) {
    const wl_lanes ab = _mm512_shuffle_i32x4(r[0], r[1], 0x44), AB = _mm512_shuffle_i32x4(r[0], r[1], 0xee), cd = _mm512_shuffle_i32x4(r[2], r[3], 0x44), CD = _mm512_shuffle_i32x4(r[2], r[3], 0xee);
    return (wl_lanes_4){{_mm512_shuffle_i32x4(ab, cd, 0x88), _mm512_shuffle_i32x4(ab, cd, 0xdd), _mm512_shuffle_i32x4(AB, CD, 0x88), _mm512_shuffle_i32x4(AB, CD, 0xdd)}};
}
/* Picked out of whole frames, two at a time. */
WL_INLINE wl_lanes_8 wl_lanes_picked(const wl_frame *f, const uint32_t from, const uint32_t end, const uint32_t *place) {
    const __mmask64 there = end - from < 64 ? (UINT64_C(1) << (end - from)) - 1 : UINT64_MAX;
    /* The bytes of word k: of the first frame, and of the second, which lies 64 bytes further
       on. */
#define WL_LANES_ONE(k) (int)((place[k] - from) * 0x01010101u + 0x03020100u), (int)((place[k] - from + 64) * 0x01010101u + 0x03020100u)
#define WL_LANES_PICK(...) _mm512_setr_epi32(__VA_ARGS__)
    const wl_lanes which = WL_LANES_PICK(WL_LANES_ONE(0), WL_LANES_ONE(1), WL_LANES_ONE(2), WL_LANES_ONE(3), WL_LANES_ONE(4), WL_LANES_ONE(5), WL_LANES_ONE(6), WL_LANES_ONE(7));
#undef WL_LANES_ONE
#undef WL_LANES_PICK
    wl_lanes even[4], odd[4];
    for (unsigned i = 0; i < 4; i++) {
        wl_lanes two[2];
        for (unsigned j = 0; j < 2; j++) {
            const wl_frame *g = f + 4 * i + 2 * j;
            two[j] = _mm512_permutex2var_epi8(_mm512_maskz_loadu_epi8(there, g[0].p + from), which, _mm512_maskz_loadu_epi8(there, g[1].p + from));
        }
        even[i] = _mm512_unpacklo_epi64(two[0], two[1]);
        odd[i] = _mm512_unpackhi_epi64(two[0], two[1]);
    }
    const wl_lanes_4 e = wl_lanes_turn_pieces(even), o = wl_lanes_turn_pieces(odd);
    return (wl_lanes_8){{e.w[0], o.w[0], e.w[1], o.w[1], e.w[2], o.w[2], e.w[3], o.w[3]}};
}
#endif
WL_INLINE wl_lanes_8 wl_lanes_words(const wl_frame *f, const uint32_t from, const uint32_t end, uint32_t a, uint32_t b, uint32_t c, uint32_t d, uint32_t e, uint32_t g, uint32_t h, uint32_t i) {
    const uint32_t place[8] = {a, b, c, d, e, g, h, i};
#ifdef __AVX512VBMI__
    if (!wl_lanes_in_row(place)) return wl_lanes_picked(f, from, end, place);
#endif
    (void)from;
    return wl_lanes_rows(f, end, place);
}
/* How many bytes each frame has. (The loads begin behind the pointer: else compilers take
   that out of the vector again.) */
WL_INLINE wl_lanes wl_lanes_lengths(const wl_frame *f) {
    wl_lanes q[4];
    const uint8_t *p = (const uint8_t *)&f->n;
    const size_t s = sizeof *f;
    for (unsigned i = 0; i < 4; i++) q[i] = wl_lanes_quad(p + i * s, p + (i + 4) * s, p + (i + 8) * s, p + (i + 12) * s);
    return wl_lanes_turn(q[0], q[1], q[2], q[3]).w[0];
}
/* Whether all frames have at least so many bytes, and no more than any common one. */
WL_INLINE bool wl_lanes_hold(wl_lanes lengths, uint32_t least) { return _mm512_cmple_epu32_mask(wl_lanes_sub(lengths, wl_lanes_set(least)), wl_lanes_set(65535 - least)) == WL_LANES_ALL; }

/* Words `place` bytes behind entries of so many bytes, of `who`; the last one may reach up to three
 * bytes past its entry. All entries have numbers below `used`: most often they lie in one line. */
WL_INLINE wl_lanes wl_lanes_at(const void *entries, wl_lanes index, const uint32_t size, const uint32_t place, uint32_t used, uint32_t who) {
#ifdef __AVX512VBMI__
    if (WL_LIKELY(used - 1 < 64 / size)) {
        const wl_lanes bytes = wl_lanes_add(wl_lanes_mul(index, wl_lanes_set(size * 0x01010101u)), wl_lanes_set(place * 0x01010101u + 0x03020100u));
        return _mm512_maskz_mov_epi32((__mmask16)who, _mm512_permutexvar_epi8(bytes, _mm512_maskz_loadu_epi8(UINT64_MAX >> (64 - used * size), entries)));
    }
#endif
    (void)used;
    return _mm512_mask_i32gather_epi32(_mm512_setzero_si512(), (__mmask16)who, wl_lanes_mul(index, wl_lanes_set(size)), (const uint8_t *)entries + place, 1);
}
/* Frames that leave, and their bytes. */
typedef struct wl_lanes_left { uint64_t frames; wl_lanes bytes; } wl_lanes_left;
WL_INLINE void wl_lanes_count_left(wl_lanes_left *left, wl_lanes out, wl_lanes lengths) {
    const uint32_t who = wl_lanes_lt(out, wl_lanes_set(WL_GONE));
    left->frames += wl_lanes_count(who);
    left->bytes = wl_lanes_more(left->bytes, who, lengths);
}
/* All frames of a batch that leave do so through one instance of a port. */
WL_INLINE void wl_lanes_all_left(wl_core *core, wl_lanes_left left, uint32_t out) {
    core->left = (wl_left){.bytes = wl_lanes_total(left.bytes), .frames = (uint32_t)left.frames, .out = out, .known = 1};
}
/* The same in all places of a column. */
WL_INLINE void wl_lanes_fill(uint32_t *column, uint32_t n, uint32_t v) { for (uint32_t k = 0; k < n; k += WL_LANES) wl_lanes_store(column + k, wl_lanes_set(v)); }
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
