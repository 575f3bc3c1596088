/* wild.h: tables whose entries have masks: wildcard rules with priorities, longest prefixes. Of one core, no locks.
 *
 * Tuple space search: entries of one mask (a tuple) share a hash table over the masked key. Tuples are kept in falling order of
 * their best priority, 16 side by side, so that one vector computes 16 hashes and fetches 16 buckets; the search ends where no
 * tuple ahead can hold anything better. Up to WL_WILD_FEW entries are not hashed but compared one after the other, 16 at a time.
 * A bucket has two slots; where more entries fall, the bucket is marked and they lie in a group of eight slots of a second hash; where
 * that is full, too, the tuple's table is made anew with another seed, or larger. All memory is laid out at the start: entries, tuples, and an arena from which tuples' tables are cut in powers of two.
 *
 * Entries with the same key and mask are a chain by falling priority. Keys, masks and values are whole 32-bit words; of a prefix
 * table the priority is the prefix's length. At most WL_WILD_TUPLES masks at once and 2^20 - 2 entries. */
#ifndef WL_WILD_H
#define WL_WILD_H
#include "table.h"
#if defined(__AVX512F__) && defined(__AVX512BW__)
#include <immintrin.h>
#endif

/* Rules with prefixes of all lengths and ranges of ports have thousands of masks. A multiple of 16, and no power of two, so that a
 * lane of one word does not push out those of the others from the cache. */
#define WL_WILD_TUPLES 16400u
#define WL_WILD_FEW 48u
#define WL_WILD_CLASSES 24u

typedef struct wl_wild_tuple { uint32_t slots, base, seed, best, count; } wl_wild_tuple;   /* slots: a power of two, base: into the arena */

typedef struct wl_wild {
    wl_table_stats stats;
    uint32_t *key, *mask;        /* of entries: [capacity][words], the key masked */
    uint32_t *priority, *next;   /* next: of the chain, or of the free list; entry + 1 */
    uint32_t *lane;              /* masks by word: [words][TUPLES], then base, shift and seed by lane */
    uint32_t *few;               /* the first entries by falling priority: [2 * words][FEW], then their numbers */
    uint32_t *arena;             /* slots: tag << 20 | entry + 1; bit 31 of a bucket's first: it has overflowed */
    wl_wild_tuple tuple[WL_WILD_TUPLES];
    uint32_t free_table[WL_WILD_CLASSES];   /* tables by the logarithm of their size: base + 1, linked through their first slot */
    uint32_t words, capacity, used, free_entry, fresh, tuples, arena_slots, arena_used;
} wl_wild;

/* Words of memory behind the struct that a table needs. */
#define WL_WILD_ARENA(capacity) (16u * (capacity) + 32768u)
#define WL_WILD_WORDS(words, capacity) ((size_t)(2 * (words) + 2) * (capacity) + (size_t)((words) + 3) * WL_WILD_TUPLES + (size_t)(2 * (words) + 1) * WL_WILD_FEW + WL_WILD_ARENA(capacity) + 64)

static inline void wl_wild_init(wl_wild *t, uint32_t *memory, uint32_t words, uint32_t capacity) {
    memset(t, 0, sizeof *t);
    t->words = words;
    t->capacity = capacity;
    /* Lanes and few are loaded 16 words at a time. */
    uint32_t *p = (uint32_t *)(void *)(((uintptr_t)memory + 63) & ~(uintptr_t)63);
    t->lane = p; p += (size_t)(words + 3) * WL_WILD_TUPLES;
    t->few = p; p += (size_t)(2 * words + 1) * WL_WILD_FEW;
    t->arena = p; p += WL_WILD_ARENA(capacity);
    t->arena_slots = WL_WILD_ARENA(capacity);
    t->key = p; p += (size_t)words * capacity;
    t->mask = p; p += (size_t)words * capacity;
    t->priority = p; p += capacity;
    t->next = p;
}
#define WL_LANE_BASE(t) ((t)->lane + (size_t)(t)->words * WL_WILD_TUPLES)
#define WL_LANE_SHIFT(t) (WL_LANE_BASE(t) + WL_WILD_TUPLES)
#define WL_LANE_SEED(t) (WL_LANE_BASE(t) + 2 * WL_WILD_TUPLES)
#define WL_FEW_NUMBER(t) ((t)->few + (size_t)2 * (t)->words * WL_WILD_FEW)

static const uint32_t wl_wild_prime[16] = {0x9e3779b1, 0x85ebca6b, 0xc2b2ae35, 0x27d4eb2f, 0x165667b1, 0xd3a2646d, 0xfd7046c5, 0xb55a4f09,
                                           0x2c1b3c6d, 0x297a2d39, 0x3c6ef373, 0xdaa66d2b, 0x78dde6e5, 0x1715609d, 0xb54cda57, 0x53845411};

static inline uint32_t wl_wild_hash(const uint32_t *key, const uint32_t *mask, uint32_t words, uint32_t seed) {
    uint32_t h = seed;
    for (uint32_t w = 0; w < words; w++) h ^= ((mask ? key[w] & mask[w] : key[w]) + seed) * wl_wild_prime[w & 15];
    h ^= h >> 15;
    h *= 0x2c1b3c6d;
    return h;
}
static inline uint32_t wl_wild_tag(uint32_t h) { return h & 0x7ff; }
/* The even slot of a bucket: the hash's high bits. */
static inline uint32_t wl_wild_bucket(uint32_t h, uint32_t slots) { return (uint32_t)((uint64_t)h * (slots / 2) >> 32) * 2; }

/* The first of the eight slots for what a bucket has no room for. */
static inline uint32_t wl_wild_second(uint32_t h, uint32_t slots) { return (uint32_t)((uint64_t)(h * 0x85ebca6bu) * (slots / 8) >> 32) * 8; }
#define WL_WILD_OVER 0x80000000u

static inline bool wl_wild_is(const wl_wild *t, uint32_t e, const uint32_t *key) {
    const uint32_t *k = t->key + (size_t)e * t->words, *m = t->mask + (size_t)e * t->words;
    uint32_t d = 0;
    for (uint32_t w = 0; w < t->words; w++) d |= (key[w] & m[w]) ^ k[w];
    return d == 0;
}

/* ---- tables of tuples ---- */

static inline uint32_t wl_wild_class(uint32_t slots) { return 31u - (uint32_t)__builtin_clz(slots); }
static inline void wl_wild_give_table(wl_wild *t, uint32_t base, uint32_t slots) {
    uint32_t c = wl_wild_class(slots);
    t->arena[base] = t->free_table[c];
    t->free_table[c] = base + 1;
}
/* Base of a zeroed table, or UINT32_MAX. A larger free table is split. */
static inline uint32_t wl_wild_take_table(wl_wild *t, uint32_t slots) {
    uint32_t want = wl_wild_class(slots), c = want;
    while (c < WL_WILD_CLASSES && !t->free_table[c]) c++;
    uint32_t base;
    if (c < WL_WILD_CLASSES) {
        base = t->free_table[c] - 1;
        t->free_table[c] = t->arena[base];
        for (; c > want; c--) wl_wild_give_table(t, base + (1u << (c - 1)), 1u << (c - 1));
    } else {
        if (t->arena_slots - t->arena_used < slots) return UINT32_MAX;
        base = t->arena_used;
        t->arena_used += slots;
    }
    memset(t->arena + base, 0, (size_t)slots * 4);
    return base;
}
static inline bool wl_wild_put_slot(wl_wild *t, uint32_t base, uint32_t slots, uint32_t h, uint32_t e) {
    const uint32_t slot = wl_wild_tag(h) << 20 | (e + 1);
    uint32_t *b = t->arena + base + wl_wild_bucket(h, slots), *g = t->arena + base + wl_wild_second(h, slots);
    for (unsigned i = 0; i < 2; i++) if (!(b[i] & 0xfffff)) { b[i] = (b[i] & WL_WILD_OVER) | slot; return true; }
    for (unsigned i = 0; i < 8; i++) if (!(g[i] & 0xfffff)) { g[i] = (g[i] & WL_WILD_OVER) | slot; b[0] |= WL_WILD_OVER; return true; }
    return false;
}
/* The slot of the chain with this masked key, or NULL. */
static inline uint32_t *wl_wild_slot(wl_wild *t, const wl_wild_tuple *u, const uint32_t *masked) {
    const uint32_t h = wl_wild_hash(masked, NULL, t->words, u->seed);
    uint32_t *b = t->arena + u->base + wl_wild_bucket(h, u->slots), *g = t->arena + u->base + wl_wild_second(h, u->slots);
    for (unsigned i = 0; i < 10; i++) {
        uint32_t *s = i < 2 ? b + i : g + i - 2, e = *s & 0xfffff;
        if (e && memcmp(t->key + (size_t)(e - 1) * t->words, masked, (size_t)t->words * 4) == 0) return s;
        if (i == 1 && !(b[0] & WL_WILD_OVER)) break;
    }
    return NULL;
}
/* Moves a tuple's entries, and one more chain if `extra` is not UINT32_MAX, to a table in which all fit. */
static inline bool wl_wild_rebuild(wl_wild *t, wl_wild_tuple *u, uint32_t slots, uint32_t extra) {
    for (uint32_t tries = 0; tries < 64; tries++) {
        uint32_t size = slots << (tries / 8), base = wl_wild_take_table(t, size);
        if (base == UINT32_MAX) return false;
        uint32_t seed = (uint32_t)wl_fmix64(((uint64_t)u->seed << 32 | tries) + 1);
        bool ok = true;
        for (uint32_t i = 0; i < u->slots && ok; i++) {
            uint32_t e = t->arena[u->base + i] & 0xfffff;
            if (e) ok = wl_wild_put_slot(t, base, size, wl_wild_hash(t->key + (size_t)(e - 1) * t->words, NULL, t->words, seed), e - 1);
        }
        if (ok && extra != UINT32_MAX) ok = wl_wild_put_slot(t, base, size, wl_wild_hash(t->key + (size_t)extra * t->words, NULL, t->words, seed), extra);
        if (!ok) { wl_wild_give_table(t, base, size); continue; }
        if (u->slots) wl_wild_give_table(t, u->base, u->slots);
        u->base = base; u->slots = size; u->seed = seed;
        return true;
    }
    return false;
}

/* ---- lanes ---- */

static inline void wl_wild_set_lane(wl_wild *t, uint32_t i) {
    WL_LANE_BASE(t)[i] = t->tuple[i].base;
    WL_LANE_SHIFT(t)[i] = t->tuple[i].slots;
    WL_LANE_SEED(t)[i] = t->tuple[i].seed;
}
static inline void wl_wild_swap(wl_wild *t, uint32_t a, uint32_t b) {
    wl_wild_tuple u = t->tuple[a];
    t->tuple[a] = t->tuple[b];
    t->tuple[b] = u;
    for (uint32_t w = 0; w < t->words; w++) {
        uint32_t *m = t->lane + (size_t)w * WL_WILD_TUPLES, x = m[a];
        m[a] = m[b];
        m[b] = x;
    }
    wl_wild_set_lane(t, a);
    wl_wild_set_lane(t, b);
}
/* Puts a tuple whose best priority has changed where it belongs; answers its place. */
static inline uint32_t wl_wild_sort(wl_wild *t, uint32_t i) {
    for (; i > 0 && t->tuple[i - 1].best < t->tuple[i].best; i--) wl_wild_swap(t, i - 1, i);
    for (; i + 1 < t->tuples && t->tuple[i + 1].best > t->tuple[i].best; i++) wl_wild_swap(t, i + 1, i);
    return i;
}
static inline uint32_t wl_wild_tuple_of(const wl_wild *t, const uint32_t *mask) {
    for (uint32_t i = 0; i < t->tuples; i++) {
        uint32_t d = 0;
        for (uint32_t w = 0; w < t->words; w++) d |= t->lane[(size_t)w * WL_WILD_TUPLES + i] ^ mask[w];
        if (!d) return i;
    }
    return UINT32_MAX;
}
/* The best entries side by side, when there are few. */
static inline void wl_wild_list_few(wl_wild *t) {
    if (t->used > WL_WILD_FEW) return;
    uint32_t n = 0, *number = WL_FEW_NUMBER(t);
    for (uint32_t i = 0; i < t->tuples; i++)
        for (uint32_t s = 0; s < t->tuple[i].slots; s++)
            for (uint32_t e = t->arena[t->tuple[i].base + s] & 0xfffff; e && n < WL_WILD_FEW; e = t->next[e - 1]) {
                uint32_t k = n++;
                for (; k > 0 && t->priority[number[k - 1]] < t->priority[e - 1]; k--) number[k] = number[k - 1];
                number[k] = e - 1;
            }
    for (uint32_t k = 0; k < WL_WILD_FEW; k++)
        for (uint32_t w = 0; w < t->words; w++) {
            /* Behind the last one: a key that no mask can give. */
            t->few[(size_t)w * WL_WILD_FEW + k] = k < n ? t->key[(size_t)number[k] * t->words + w] : 1;
            t->few[(size_t)(t->words + w) * WL_WILD_FEW + k] = k < n ? t->mask[(size_t)number[k] * t->words + w] : 0;
        }
}

/* ---- operations ---- */

/* What a marked bucket had no room for. */
static inline __attribute__((noinline)) void wl_wild_over(const wl_wild *t, const wl_wild_tuple *u, uint32_t h, const uint32_t *key, uint32_t *found, uint32_t *best) {
    const uint32_t *g = t->arena + u->base + wl_wild_second(h, u->slots);
    for (unsigned i = 0; i < 8; i++) {
        const uint32_t e = g[i] & 0xfffff;
        if (!e || (g[i] >> 20 & 0x7ff) != wl_wild_tag(h)) continue;
        if ((*found == UINT32_MAX || t->priority[e - 1] > *best) && wl_wild_is(t, e - 1, key)) { *found = e - 1; *best = t->priority[e - 1]; }
    }
}
/* The entry of the highest priority that matches, or UINT32_MAX. `words` is t->words, known where it is inlined. */
static inline __attribute__((always_inline)) uint32_t wl_wild_find(wl_wild *t, const uint32_t *key, const uint32_t words) {
    uint32_t found = UINT32_MAX, best = 0;
    if (t->used <= WL_WILD_FEW) {
        const uint32_t n = t->used;
#if defined(__AVX512F__) && defined(__AVX512BW__)
        for (uint32_t i = 0; i < n; i += 16) {
            __mmask16 hit = 0xffff;
            for (uint32_t w = 0; w < words; w++) {
                __m512i m = _mm512_load_si512(t->few + (size_t)(words + w) * WL_WILD_FEW + i), k = _mm512_load_si512(t->few + (size_t)w * WL_WILD_FEW + i);
                hit = _mm512_mask_cmpeq_epi32_mask(hit, _mm512_and_si512(_mm512_set1_epi32((int)key[w]), m), k);
            }
            if (hit) { uint32_t k = i + (uint32_t)__builtin_ctz(hit); return k < n ? WL_FEW_NUMBER(t)[k] : UINT32_MAX; }
        }
#else
        for (uint32_t i = 0; i < n; i++) if (wl_wild_is(t, WL_FEW_NUMBER(t)[i], key)) return WL_FEW_NUMBER(t)[i];
#endif
        return UINT32_MAX;
    }
    for (uint32_t i = 0; i < t->tuples; i += 16) {
        if (found != UINT32_MAX && best >= t->tuple[i].best) break;
#if defined(__AVX512F__) && defined(__AVX512BW__)
        const uint32_t lanes = t->tuples - i < 16 ? t->tuples - i : 16;
        const __mmask16 all = (__mmask16)((1u << lanes) - 1);
        const __m512i seed = _mm512_load_si512(WL_LANE_SEED(t) + i);
        __m512i h = seed;
        for (uint32_t w = 0; w < words; w++) {
            __m512i k = _mm512_and_si512(_mm512_set1_epi32((int)key[w]), _mm512_load_si512(t->lane + (size_t)w * WL_WILD_TUPLES + i));
            h = _mm512_xor_si512(h, _mm512_mullo_epi32(_mm512_add_epi32(k, seed), _mm512_set1_epi32((int)wl_wild_prime[w & 15])));
        }
        h = _mm512_xor_si512(h, _mm512_srli_epi32(h, 15));
        h = _mm512_mullo_epi32(h, _mm512_set1_epi32(0x2c1b3c6d));
        /* hash * (slots / 2) >> 32, of even and odd lanes. */
        const __m512i half = _mm512_srli_epi32(_mm512_load_si512(WL_LANE_SHIFT(t) + i), 1);
        __m512i even = _mm512_srli_epi64(_mm512_mul_epu32(h, half), 32);
        __m512i odd = _mm512_mul_epu32(_mm512_srli_epi64(h, 32), _mm512_srli_epi64(half, 32));
        __m512i bucket = _mm512_slli_epi32(_mm512_mask_blend_epi32(0xaaaa, even, odd), 1);
        __m512i at = _mm512_add_epi32(bucket, _mm512_load_si512(WL_LANE_BASE(t) + i));
        __m512i a = _mm512_mask_i32gather_epi32(_mm512_setzero_si512(), all, at, t->arena, 4);
        __m512i b = _mm512_mask_i32gather_epi32(_mm512_setzero_si512(), all, at, t->arena + 1, 4);
        const __m512i tag = _mm512_and_si512(h, _mm512_set1_epi32(0x7ff)), low = _mm512_set1_epi32(0xfffff);
        const __m512i tags = _mm512_set1_epi32(0x7ff);
        __mmask16 ma = _mm512_mask_test_epi32_mask(_mm512_cmpeq_epi32_mask(_mm512_and_si512(_mm512_srli_epi32(a, 20), tags), tag), a, low);
        __mmask16 mb = _mm512_mask_test_epi32_mask(_mm512_cmpeq_epi32_mask(_mm512_and_si512(_mm512_srli_epi32(b, 20), tags), tag), b, low);
        __mmask16 mo = _mm512_movepi32_mask(a);
        if (!(ma | mb | mo)) continue;
        uint32_t ea[16], eb[16], hs[16];
        _mm512_storeu_si512(ea, _mm512_and_si512(a, low));
        _mm512_storeu_si512(eb, _mm512_and_si512(b, low));
        if (WL_UNLIKELY(mo)) _mm512_storeu_si512(hs, h);
        for (uint32_t m = (uint32_t)(ma | mb | mo); m; m &= m - 1) {
            const uint32_t k = (uint32_t)__builtin_ctz(m);
            if (found != UINT32_MAX && best >= t->tuple[i + k].best) break;
            for (unsigned s = 0; s < 2; s++) {
                if (!((s ? mb : ma) >> k & 1)) continue;
                const uint32_t e = (s ? eb[k] : ea[k]) - 1;
                if ((found == UINT32_MAX || t->priority[e] > best) && wl_wild_is(t, e, key)) { found = e; best = t->priority[e]; }
            }
            if (WL_UNLIKELY(mo >> k & 1)) wl_wild_over(t, &t->tuple[i + k], hs[k], key, &found, &best);
        }
#else
        for (uint32_t k = i; k < t->tuples && k < i + 16; k++) {
            if (found != UINT32_MAX && best >= t->tuple[k].best) return found;
            uint32_t mask[16];
            for (uint32_t w = 0; w < words; w++) mask[w] = t->lane[(size_t)w * WL_WILD_TUPLES + k];
            const uint32_t h = wl_wild_hash(key, mask, words, t->tuple[k].seed), *b = t->arena + t->tuple[k].base + wl_wild_bucket(h, t->tuple[k].slots);
            for (unsigned s = 0; s < 2; s++) {
                if ((b[s] >> 20 & 0x7ff) != wl_wild_tag(h) || !(b[s] & 0xfffff)) continue;
                const uint32_t e = (b[s] & 0xfffff) - 1;
                if ((found == UINT32_MAX || t->priority[e] > best) && wl_wild_is(t, e, key)) { found = e; best = t->priority[e]; }
            }
            if (b[0] & WL_WILD_OVER) wl_wild_over(t, &t->tuple[k], h, key, &found, &best);
        }
#endif
    }
    return found;
}

static inline uint32_t wl_wild_best(const wl_wild *t, const wl_wild_tuple *u) {
    uint32_t best = 0;
    for (uint32_t i = 0; i < u->slots; i++) {
        uint32_t e = t->arena[u->base + i] & 0xfffff;
        if (e && t->priority[e - 1] > best) best = t->priority[e - 1];
    }
    return best;
}

/* The entry with this key, mask and priority, made if it is missing; UINT32_MAX: the table is full. */
static inline uint32_t wl_wild_insert(wl_wild *t, const uint32_t *key, const uint32_t *mask, uint32_t priority) {
    uint32_t masked[16];
    for (uint32_t w = 0; w < t->words; w++) masked[w] = key[w] & mask[w];
    uint32_t i = wl_wild_tuple_of(t, mask);
    uint32_t *slot = i == UINT32_MAX ? NULL : wl_wild_slot(t, &t->tuple[i], masked);
    for (uint32_t e = slot ? *slot & 0xfffff : 0; e; e = t->next[e - 1]) if (t->priority[e - 1] == priority) return e - 1;
    if (t->used >= t->capacity || (i == UINT32_MAX && t->tuples == WL_WILD_TUPLES)) { t->stats.rejected++; return UINT32_MAX; }
    uint32_t e = t->free_entry ? t->free_entry - 1 : t->fresh++;
    if (t->free_entry) t->free_entry = t->next[e];
    memcpy(t->key + (size_t)e * t->words, masked, (size_t)t->words * 4);
    memcpy(t->mask + (size_t)e * t->words, mask, (size_t)t->words * 4);
    t->priority[e] = priority;
    t->next[e] = 0;
    if (slot) {
        /* Into the chain, by falling priority. */
        uint32_t *at = NULL, first = *slot & 0xfffff;
        if (t->priority[first - 1] < priority) { t->next[e] = first; *slot = (*slot & ~0xfffffu) | (e + 1); }
        else {
            for (at = &t->next[first - 1]; *at && t->priority[*at - 1] > priority; at = &t->next[*at - 1]) {}
            t->next[e] = *at;
            *at = e + 1;
        }
    } else {
        bool fresh = i == UINT32_MAX;
        if (fresh) {
            i = t->tuples++;
            t->tuple[i] = (wl_wild_tuple){.seed = i + 1};
            for (uint32_t w = 0; w < t->words; w++) t->lane[(size_t)w * WL_WILD_TUPLES + i] = mask[w];
        }
        wl_wild_tuple *u = &t->tuple[i];
        uint32_t need = u->slots;
        while (need < 16 || need < 4 * (u->count + 1)) need = need ? 2 * need : 16;
        bool ok = need == u->slots && wl_wild_put_slot(t, u->base, u->slots, wl_wild_hash(masked, NULL, t->words, u->seed), e);
        if (!ok) ok = wl_wild_rebuild(t, u, need, e);
        if (!ok) {
            if (fresh) t->tuples--;
            t->next[e] = t->free_entry;
            t->free_entry = e + 1;
            t->stats.rejected++;
            return UINT32_MAX;
        }
        u->count++;
    }
    t->used++;
    t->stats.entries++;
    t->stats.inserts++;
    if (priority > t->tuple[i].best) t->tuple[i].best = priority;
    wl_wild_set_lane(t, i);
    wl_wild_sort(t, i);
    wl_wild_list_few(t);
    return e;
}

static inline bool wl_wild_delete(wl_wild *t, const uint32_t *key, const uint32_t *mask, uint32_t priority) {
    uint32_t masked[16];
    for (uint32_t w = 0; w < t->words; w++) masked[w] = key[w] & mask[w];
    uint32_t i = wl_wild_tuple_of(t, mask);
    uint32_t *slot = i == UINT32_MAX ? NULL : wl_wild_slot(t, &t->tuple[i], masked);
    if (!slot) return false;
    uint32_t before = 0, e = *slot & 0xfffff;
    while (e && t->priority[e - 1] != priority) { before = e; e = t->next[e - 1]; }
    if (!e) return false;
    wl_wild_tuple *u = &t->tuple[i];
    uint32_t rest = t->next[e - 1];
    if (before) t->next[before - 1] = rest;
    else if (rest) *slot = (*slot & ~0xfffffu) | rest;
    else { *slot &= WL_WILD_OVER; u->count--; }
    t->next[e - 1] = t->free_entry;
    t->free_entry = e;
    t->used--;
    t->stats.entries--;
    if (!u->count) {
        wl_wild_give_table(t, u->base, u->slots);
        u->slots = 0;
        u->best = 0;
        i = wl_wild_sort(t, i);
        /* Those without entries come last. */
        for (; i + 1 < t->tuples; i++) wl_wild_swap(t, i, i + 1);
        t->tuples--;
    } else if (u->best == priority) {
        u->best = wl_wild_best(t, u);
        wl_wild_sort(t, i);
    }
    wl_wild_list_few(t);
    return true;
}
/* The next entry from *cursor on; UINT32_MAX: none near, and if the cursor is all ones, that was all. */
static inline uint32_t wl_wild_next(const wl_wild *t, uint64_t *cursor) {
    for (unsigned near = 0; near < 256; near++) {
        if (*cursor >= t->fresh) { *cursor = UINT64_MAX; break; }
        uint32_t e = (uint32_t)(*cursor)++;
        /* A free entry is in no chain: its slot does not lead to it. */
        uint32_t i = wl_wild_tuple_of(t, t->mask + (size_t)e * t->words);
        if (i == UINT32_MAX) continue;
        uint32_t *slot = wl_wild_slot((wl_wild *)(uintptr_t)t, &t->tuple[i], t->key + (size_t)e * t->words);
        for (uint32_t k = slot ? *slot & 0xfffff : 0; k; k = t->next[k - 1]) if (k - 1 == e) return e;
    }
    return UINT32_MAX;
}
#endif
