/* tuple_space_batch.h: lookups of a batch's keys in a table of masks, all at once.
 *
 * Keys of a batch lie in columns: word w of the key of frame k is key[w * WL_TUPLE_SPACE_KEYS + k].
 * In a short list all keys are compared with one entry after the other. Otherwise sixteen keys are
 * hashed side by side for one tuple after the other. Slots with the right tag in the gathered
 * buckets go to a list of candidates, which are compared when the list is complete. No branch
 * depends on a frame's data, so the searches of many frames overlap. */
#ifndef WL_TUPLE_SPACE_BATCH_H
#define WL_TUPLE_SPACE_BATCH_H
#include "tuple_space.h"

#define WL_TUPLE_SPACE_KEYS 64u
/* With more masks than that, it is better to stop early for each key. */
#define WL_TUPLE_SPACE_EACH_TUPLES 32u
/* Fewer keys than that of sixteen are looked up one by one. */
#define WL_TUPLE_SPACE_EACH_LEAST 4

static __attribute__((noinline, unused)) uint32_t wl_tuple_space_find_column(const wl_tuple_space *t, const uint32_t *key, uint32_t k, const uint32_t words) {
    uint32_t one[WL_TUPLE_SPACE_MAX_WORDS];
    for (uint32_t w = 0; w < words; w++) one[w] = wl_tuple_space_word(key, w * WL_TUPLE_SPACE_KEYS + k);
    return wl_tuple_space_find(t, one, words);
}
#ifdef WL_TUPLE_SPACE_VECTOR
/* Word w of sixteen keys from k on. */
WL_TUPLE_SPACE_INLINE __m512i wl_tuple_space_column(const uint32_t *key, uint32_t w, uint32_t k) { return _mm512_load_si512(key + (size_t)w * WL_TUPLE_SPACE_KEYS + k); }
/* Where sixteen keys from k on differ from the value of word w: bits of `mask` that are not
   those of `want`. */
WL_TUPLE_SPACE_INLINE __m512i wl_tuple_space_unlike(__m512i column, uint32_t mask, uint32_t want) {
    return _mm512_ternarylogic_epi32(column, _mm512_set1_epi32((int)mask), _mm512_set1_epi32((int)want), 0x6a);
}

/* ---- against a short list ----
 *
 * Entry by entry, the best last: each is loaded once for all keys. */
#define WL_TUPLE_SPACE_GROUPS (WL_TUPLE_SPACE_KEYS / 16)

/* For four groups of keys, the differences from entry e in the words of `asks`. That is a bit for
 * each of the first four varying words, and a constant where this is inlined. */
WL_TUPLE_SPACE_INLINE void wl_tuple_space_few_wrong(__m512i (*column)[WL_TUPLE_SPACE_GROUPS], const uint32_t *const *few, uint32_t e, const uint32_t masks, const uint32_t asks, __m512i *d) {
    if (!asks) for (uint32_t g = 0; g < WL_TUPLE_SPACE_GROUPS; g++) d[g] = _mm512_setzero_si512();
    for (uint32_t j = 0; j < WL_TUPLE_SPACE_FEW_WORDS; j++) {
        if (!(asks >> j & 1)) continue;
        const bool first = !(asks & ((1u << j) - 1));
        const uint32_t mask = few[j][e + masks], want = few[j][e];
        for (uint32_t g = 0; g < WL_TUPLE_SPACE_GROUPS; g++) {
            const __m512i wrong = wl_tuple_space_unlike(column[j][g], mask, want);
            d[g] = first ? wrong : _mm512_or_si512(d[g], wrong);
        }
    }
}
/* Where no more than four words vary and all keys have the bits of the fixed ones. */
WL_TUPLE_SPACE_INLINE void wl_tuple_space_few_plain(const wl_tuple_space *t, const uint32_t *key, uint32_t *found, const uint32_t words) {
    __m512i column[WL_TUPLE_SPACE_FEW_WORDS][WL_TUPLE_SPACE_GROUPS], number[WL_TUPLE_SPACE_GROUPS];
    const uint32_t *few[WL_TUPLE_SPACE_FEW_WORDS], *const numbers = WL_FEW_NUMBER(t), used = t->used;
    for (uint32_t j = 0; j < WL_TUPLE_SPACE_FEW_WORDS; j++) {
        const uint32_t w = j < t->varyings ? t->varying[j] : 0;
        few[j] = t->few + (size_t)w * WL_TUPLE_SPACE_FEW;
        for (uint32_t g = 0; g < WL_TUPLE_SPACE_GROUPS; g++) column[j][g] = wl_tuple_space_column(key, w, 16 * g);
    }
    for (uint32_t g = 0; g < WL_TUPLE_SPACE_GROUPS; g++) number[g] = _mm512_set1_epi32(-1);
    for (uint32_t e = used; e-- > 0;) {
        __m512i d[WL_TUPLE_SPACE_GROUPS];
        switch (t->few_asks[e]) {
#define WL_TUPLE_SPACE_ASKS(n) case n: wl_tuple_space_few_wrong(column, few, e, words * WL_TUPLE_SPACE_FEW, n, d); break;
        WL_TUPLE_SPACE_ASKS(1) WL_TUPLE_SPACE_ASKS(2) WL_TUPLE_SPACE_ASKS(3) WL_TUPLE_SPACE_ASKS(4) WL_TUPLE_SPACE_ASKS(5) WL_TUPLE_SPACE_ASKS(6) WL_TUPLE_SPACE_ASKS(7) WL_TUPLE_SPACE_ASKS(8)
        WL_TUPLE_SPACE_ASKS(9) WL_TUPLE_SPACE_ASKS(10) WL_TUPLE_SPACE_ASKS(11) WL_TUPLE_SPACE_ASKS(12) WL_TUPLE_SPACE_ASKS(13) WL_TUPLE_SPACE_ASKS(14) WL_TUPLE_SPACE_ASKS(15)
        default: wl_tuple_space_few_wrong(column, few, e, words * WL_TUPLE_SPACE_FEW, 0, d);
#undef WL_TUPLE_SPACE_ASKS
        }
        const __m512i it = _mm512_set1_epi32((int)numbers[e]);
        for (uint32_t g = 0; g < WL_TUPLE_SPACE_GROUPS; g++) number[g] = _mm512_mask_mov_epi32(number[g], _mm512_testn_epi32_mask(d[g], d[g]), it);
    }
    for (uint32_t g = 0; g < WL_TUPLE_SPACE_GROUPS; g++) _mm512_storeu_si512(found + 16 * g, number[g]);
}
/* Any number of words; of keys in `off` it is known which entries' fixed words they do not have. */
WL_TUPLE_SPACE_INLINE void wl_tuple_space_few_other(const wl_tuple_space *t, const uint32_t *key, uint32_t (*off)[WL_TUPLE_SPACE_GROUPS], uint32_t *found, const uint32_t words) {
    const uint32_t *const numbers = WL_FEW_NUMBER(t), fixeds = t->fixeds, varyings = t->varyings;
    __m512i number[WL_TUPLE_SPACE_GROUPS];
    for (uint32_t g = 0; g < WL_TUPLE_SPACE_GROUPS; g++) number[g] = _mm512_set1_epi32(-1);
    for (uint32_t e = t->used; e-- > 0;) {
        __m512i d[WL_TUPLE_SPACE_GROUPS];
        uint32_t not[WL_TUPLE_SPACE_GROUPS];
        for (uint32_t g = 0; g < WL_TUPLE_SPACE_GROUPS; g++) { d[g] = _mm512_setzero_si512(); not[g] = 0; }
        for (uint32_t j = 0; j < varyings; j++) {
            const uint32_t w = t->varying[j], mask = t->few[(size_t)(words + w) * WL_TUPLE_SPACE_FEW + e], want = t->few[(size_t)w * WL_TUPLE_SPACE_FEW + e];
            for (uint32_t g = 0; g < WL_TUPLE_SPACE_GROUPS; g++) d[g] = _mm512_or_si512(d[g], wl_tuple_space_unlike(wl_tuple_space_column(key, w, 16 * g), mask, want));
        }
        for (uint32_t i = 0; i < fixeds; i++) for (uint32_t g = 0; g < WL_TUPLE_SPACE_GROUPS; g++) not[g] |= off[i][g] & -(uint32_t)(t->fixed[i].entries >> e & 1);
        for (uint32_t g = 0; g < WL_TUPLE_SPACE_GROUPS; g++) number[g] = _mm512_mask_mov_epi32(number[g], _mm512_testn_epi32_mask(d[g], d[g]) & (__mmask16)~not[g], _mm512_set1_epi32((int)numbers[e]));
    }
    for (uint32_t g = 0; g < WL_TUPLE_SPACE_GROUPS; g++) _mm512_storeu_si512(found + 16 * g, number[g]);
}
WL_TUPLE_SPACE_INLINE void wl_tuple_space_few_each(const wl_tuple_space *t, const uint32_t *key, uint64_t who, uint32_t *found, const uint32_t words, const uint64_t even) {
    uint32_t off[WL_TUPLE_SPACE_MAX_WORDS][WL_TUPLE_SPACE_GROUPS];
    uint64_t any = 0;
    for (uint32_t i = 0; i < t->fixeds; i++) {
        uint32_t all = 0;
        __m512i d[WL_TUPLE_SPACE_GROUPS];
        for (uint32_t g = 0; g < WL_TUPLE_SPACE_GROUPS; g++) d[g] = _mm512_setzero_si512();
        for (uint32_t w = t->fixed[i].from; w < t->fixed[i].to; w++) {
            const uint32_t mask = t->fixed_mask[w], want = t->fixed_key[w];
            if (even >> w & 1) all |= (key[w * WL_TUPLE_SPACE_KEYS] & mask) ^ want;
            else for (uint32_t g = 0; g < WL_TUPLE_SPACE_GROUPS; g++) d[g] = _mm512_or_si512(d[g], wl_tuple_space_unlike(wl_tuple_space_column(key, w, 16 * g), mask, want));
        }
        for (uint32_t g = 0; g < WL_TUPLE_SPACE_GROUPS; g++) {
            off[i][g] = all ? 0xffff : _mm512_test_epi32_mask(d[g], d[g]);
            any |= (uint64_t)off[i][g] << 16 * g;
        }
    }
    /* Most keys have the values of the fixed words. */
    if (WL_LIKELY(!(any & who) && t->varyings <= WL_TUPLE_SPACE_FEW_WORDS)) wl_tuple_space_few_plain(t, key, found, words);
    else wl_tuple_space_few_other(t, key, off, found, words);
}

/* ---- by tuple space ---- */

/* A candidate: the entry + 1, the key's number << 20, the tuple << 26. */
_Static_assert(WL_TUPLE_SPACE_KEYS <= 64 && WL_TUPLE_SPACE_EACH_TUPLES <= 64, "a candidate has six bits for each");
#define WL_TUPLE_SPACE_LIST 1024u

/* A search of many keys: the candidates, the rank of the best one so far (its priority + 1), and
   its entry. */
typedef struct wl_tuple_space_search {
    const uint32_t *key;
    uint32_t *found, n, list[WL_TUPLE_SPACE_LIST];
    uint64_t best[WL_TUPLE_SPACE_KEYS];
} wl_tuple_space_search;

/* Takes the best of the candidates that fit, and empties the list. */
WL_TUPLE_SPACE_INLINE void wl_tuple_space_choose(const wl_tuple_space *t, wl_tuple_space_search *s, const uint32_t words, const uint32_t hashed) {
    /* Read once: for the compiler, the stores below might change the table. */
    const uint32_t *const entry = t->entry, *const mask = t->tuple_mask, *column[WL_TUPLE_SPACE_MAX_WORDS], n = s->n;
    size_t word[WL_TUPLE_SPACE_MAX_WORDS];
    for (uint32_t j = 0; j < hashed; j++) {
        word[j] = wl_whole(t->loose_word[j]);
        column[j] = s->key + word[j] * WL_TUPLE_SPACE_KEYS;
    }
    for (uint32_t c = 0; c < n; c++) {
        const uint32_t e = (s->list[c] & 0xfffff) - 1, k = s->list[c] >> 20 & 63;
        const uint32_t *v = entry + (size_t)e * WL_TUPLE_SPACE_STRIDE(words), *m = mask + (size_t)(s->list[c] >> 26) * 16;
        uint32_t d = 0;
        for (uint32_t j = 0; j < hashed; j++) d |= (column[j][k] & m[word[j]]) ^ v[word[j]];
        const uint64_t rank = d ? 0 : (uint64_t)v[words] + 1;
        const bool better = rank > s->best[k];
        s->best[k] = better ? rank : s->best[k];
        s->found[k] = better ? e : s->found[k];
    }
    s->n = 0;
}
/* Appends the overflow of marked buckets; `over` has a bit for each of sixteen keys. */
static __attribute__((noinline, unused)) void wl_tuple_space_over_each(const wl_tuple_space *t, wl_tuple_space_search *s, uint32_t i, uint32_t k, uint32_t over, __m512i h) {
    uint32_t hash[16];
    _mm512_storeu_si512(hash, h);
    for (; over; over &= over - 1) {
        const uint32_t j = (uint32_t)__builtin_ctz(over), *g = t->arena + t->tuple[i].base + wl_tuple_space_second(hash[j], t->tuple[i].slots);
        for (unsigned o = 0; o < 8; o++) if ((g[o] & 0xfffff) && (g[o] >> 20 & 0x7ff) == wl_tuple_space_tag(hash[j])) s->list[s->n++] = (g[o] & 0xfffff) | (k + j) << 20 | i << 26;
    }
}
/* Appends those of sixteen slots that are in `in`. */
WL_TUPLE_SPACE_INLINE void wl_tuple_space_append(wl_tuple_space_search *s, __m512i slots, uint32_t in, __m512i whose) {
    const __m512i all = _mm512_or_si512(_mm512_and_si512(slots, _mm512_set1_epi32(0xfffff)), whose);
    _mm512_storeu_si512(s->list + s->n, _mm512_maskz_compress_epi32((__mmask16)in, all));
    s->n += (uint32_t)__builtin_popcount(in);
}
/* Appends the candidates of the keys `who` of sixteen from k on. */
WL_TUPLE_SPACE_INLINE void wl_tuple_space_candidates(const wl_tuple_space *t, wl_tuple_space_search *s, uint32_t k, uint32_t who, const uint32_t words, const uint32_t hashed) {
    /* Read once: for the compiler, the stores below might change the table. */
    __m512i column[WL_TUPLE_SPACE_MAX_WORDS], factor[WL_TUPLE_SPACE_MAX_WORDS];
    const uint32_t *lane[WL_TUPLE_SPACE_MAX_WORDS], *const arena = t->arena, *const bias = WL_LANE_BIAS(t), *const shift = WL_LANE_SHIFT(t), *const base = WL_LANE_BASE(t);
    const uint32_t tuples = t->tuples;
    for (uint32_t j = 0; j < hashed; j++) {
        lane[j] = t->lane + (size_t)t->loose_word[j] * WL_TUPLE_SPACE_TUPLES;
        column[j] = wl_tuple_space_column(s->key, t->loose_word[j], k);
        factor[j] = _mm512_set1_epi32((int)t->factor[t->loose_word[j]]);
    }
    const __m512i even = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30), odd = _mm512_or_si512(even, _mm512_set1_epi32(1));
    const __m512i number = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15), tags = _mm512_set1_epi32(0x7ff00000);
    const __m512i keys = _mm512_slli_epi32(_mm512_add_epi32(number, _mm512_set1_epi32((int)k)), 20);
    for (uint32_t i = 0; i < tuples; i++) {
        __m512i h = _mm512_set1_epi32((int)bias[i]);
        for (uint32_t j = 0; j < hashed; j++) h = _mm512_add_epi32(h, _mm512_mullo_epi32(_mm512_and_si512(column[j], _mm512_set1_epi32((int)lane[j][i])), factor[j]));
        h = _mm512_mullo_epi32(_mm512_xor_si512(h, _mm512_srli_epi32(h, 15)), _mm512_set1_epi32(0x2c1b3c6d));
        const __m512i at = _mm512_add_epi32(_mm512_srlv_epi32(h, _mm512_set1_epi32((int)shift[i])), _mm512_set1_epi32((int)base[i]));
        const __m512i a = _mm512_mask_i32gather_epi64(_mm512_setzero_si512(), (__mmask8)who, _mm512_castsi512_si256(at), arena, 8);
        const __m512i b = _mm512_mask_i32gather_epi64(_mm512_setzero_si512(), (__mmask8)(who >> 8), _mm512_extracti64x4_epi64(at, 1), arena, 8);
        const __m512i tag = _mm512_slli_epi32(_mm512_max_epu32(_mm512_and_si512(h, _mm512_set1_epi32(0x7ff)), _mm512_set1_epi32(1)), 20);
        const __m512i whose = _mm512_or_si512(keys, _mm512_set1_epi32((int)(i << 26)));
        /* The first slots of all buckets, and the second ones: seldom do both have the tag. */
        const __m512i x = _mm512_permutex2var_epi32(a, even, b), y = _mm512_permutex2var_epi32(a, odd, b);
        const uint32_t in_x = _mm512_testn_epi32_mask(_mm512_xor_si512(x, tag), tags), in_y = _mm512_testn_epi32_mask(_mm512_xor_si512(y, tag), tags);
        wl_tuple_space_append(s, _mm512_mask_mov_epi32(x, (__mmask16)in_y, y), in_x | in_y, whose);
        if (WL_UNLIKELY(in_x & in_y)) wl_tuple_space_append(s, x, in_x & in_y, whose);
        const uint32_t over = _mm512_movepi32_mask(x);
        if (WL_UNLIKELY(over)) wl_tuple_space_over_each(t, s, i, k, over, h);
        /* A tuple adds no more than two slots and eight places for each of sixteen keys. */
        if (WL_UNLIKELY(s->n > WL_TUPLE_SPACE_LIST - 2 * 16 * 10)) wl_tuple_space_choose(t, s, words, hashed);
    }
}
/* The keys of sixteen that have the bits that all entries want in the uneven words. */
WL_TUPLE_SPACE_INLINE uint32_t wl_tuple_space_wanted(const wl_tuple_space *t, const uint32_t *key, uint32_t k, const uint32_t words, const uint64_t even) {
    __m512i d = _mm512_setzero_si512();
    for (uint32_t w = 0; w < words; w++)
        if (t->want_mask[w] && !(even >> w & 1)) d = _mm512_or_si512(d, wl_tuple_space_unlike(wl_tuple_space_column(key, w, k), t->want_mask[w], t->want_key[w]));
    return _mm512_testn_epi32_mask(d, d);
}
/* Whether the even words are what all entries want. */
WL_TUPLE_SPACE_INLINE bool wl_tuple_space_wanted_even(const wl_tuple_space *t, const uint32_t *key, const uint32_t words, const uint64_t even) {
    uint32_t d = 0;
    for (uint32_t w = 0; w < words; w++) if (even >> w & 1) d |= (key[w * WL_TUPLE_SPACE_KEYS] & t->want_mask[w]) ^ t->want_key[w];
    return !d;
}
/* By tuple space, keys that are many; answers those that are left. */
WL_TUPLE_SPACE_INLINE uint64_t wl_tuple_space_many_each(const wl_tuple_space *t, const uint32_t *key, uint64_t who, uint32_t *found, const uint32_t words, const uint32_t hashed, const uint64_t even) {
    if (!wl_tuple_space_wanted_even(t, key, words, even)) return who;
    wl_tuple_space_search s;
    s.key = key;
    s.found = found;
    s.n = 0;
    memset(s.best, 0, sizeof s.best);
    for (uint32_t k = 0; k < WL_TUPLE_SPACE_KEYS; k += 16) {
        uint32_t some = (uint32_t)(who >> k) & 0xffff;
        if (__builtin_popcount(some) < WL_TUPLE_SPACE_EACH_LEAST) continue;
        some &= wl_tuple_space_wanted(t, key, k, words, even);
        who &= ~((uint64_t)some << k);
        _mm512_storeu_si512(found + k, _mm512_set1_epi32(-1));
        wl_tuple_space_candidates(t, &s, k, some, words, hashed);
    }
    wl_tuple_space_choose(t, &s, words, hashed);
    return who;
}
WL_TUPLE_SPACE_INLINE uint64_t wl_tuple_space_vectors(const wl_tuple_space *t, const uint32_t *key, uint64_t who, uint32_t *found, const uint32_t words, const uint64_t even) {
    if (t->used > WL_TUPLE_SPACE_FEW) {
        if (t->tuples > WL_TUPLE_SPACE_EACH_TUPLES) return who;
        return t->hashed == 4 ? wl_tuple_space_many_each(t, key, who, found, words, 4, even) : wl_tuple_space_many_each(t, key, who, found, words, t->hashed, even);
    }
    if (__builtin_popcountll(who) < WL_TUPLE_SPACE_EACH_LEAST) return who;
    wl_tuple_space_few_each(t, key, who, found, words, even);
    return 0;
}
#endif
/* The entries of the keys in `who`, a bit for each; UINT32_MAX: none. `words` is t->words. `even`
 * has a bit for each word that is the same in all columns' places, whether they are asked or
 * not. */
static __attribute__((noinline, unused)) void wl_tuple_space_find_each(const wl_tuple_space *t, const uint32_t *key, uint64_t who, uint32_t *found, const uint32_t words, const uint64_t even) {
    (void)even;
#ifdef WL_TUPLE_SPACE_VECTOR
    who = wl_tuple_space_vectors(t, key, who, found, words, even);
#endif
    for (; who; who &= who - 1) found[__builtin_ctzll(who)] = wl_tuple_space_find_column(t, key, (uint32_t)__builtin_ctzll(who), words);
}
#endif
