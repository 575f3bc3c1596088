/* tuple_space.h: tables whose entries have masks: wildcard rules with priorities, longest
 * prefixes. Tables belong to one core and have no locks.
 *
 * Tuple space search: entries of one mask (a tuple) share a hash table over the masked key. Tuples
 * are sorted by descending best priority, 16 side by side. One vector computes 16 hashes, and two
 * fetch 16 buckets of two slots. The search ends where no later tuple can hold a better entry. Up
 * to WL_TUPLE_SPACE_FEW entries are not hashed but compared one after the other, 16 at a time. A
 * bucket of more than two entries is marked, and its entries lie in a group of eight slots of a
 * second hash. If that is full, too, the tuple's table is rebuilt with another seed, or larger. All
 * memory is laid out at the start: entries, tuples, and an arena for the tuples' tables, cut in
 * powers of two.
 *
 * The hash is a sum of products: each word of the key times that word's factor. Some words have
 * the same value in all entries that match on them (the front of an IPv4 address, while all rules
 * are of IPv4). These are compared once for all, and their part of the sum is known beforehand. A
 * word that each mask takes whole or not at all (ports, protocols) is multiplied once, and each
 * lane takes the product or leaves it. Only words of which masks take different parts cost a
 * multiplication per lane.
 *
 * Entries with the same key and mask are a chain by descending priority. Keys, masks and values
 * are whole 32-bit words. The priority of a prefix table's entry is the prefix's length. An
 * entry's key, priority and chain lie side by side in one cache line. The limits are
 * WL_TUPLE_SPACE_TUPLES masks at once, 16 words and 2^20 - 2 entries. */
#ifndef WL_TUPLE_SPACE_H
#define WL_TUPLE_SPACE_H
#include "shared_hash_table.h"
#if defined(WL_AVX512) && defined(__AVX512BW__)
#define WL_TUPLE_SPACE_VECTOR 1
#endif

/* Rules with prefixes of all lengths and ranges of ports have thousands of masks. The number is a
 * multiple of 16. It is no power of two: a lane of one word must not evict those of the others from
 * the cache. */
#define WL_TUPLE_SPACE_TUPLES 65552u
#define WL_TUPLE_SPACE_FEW 48u
#define WL_TUPLE_SPACE_FEW_WORDS 4u
#define WL_TUPLE_SPACE_CLASSES 24u
/* Slots that are looked at for each entry that goes, at most, to know a tuple's best priority. */
#define WL_TUPLE_SPACE_LOOKS 1024u
#define WL_TUPLE_SPACE_MAX_WORDS 16u
#define WL_TUPLE_SPACE_INLINE static inline __attribute__((always_inline))

/* slots: a power of two, base: into the arena. No entry has a higher priority than `best`; one has
 * it unless some have gone since it was found out (`gone`). */
typedef struct wl_tuple_space_tuple { uint32_t slots, base, seed, best, count, gone; } wl_tuple_space_tuple;

/* Words of the few: `entries` has a bit for each that asks for them, and all of these ask for the
   same. */
typedef struct wl_tuple_space_fixed { uint64_t entries; uint8_t from, to; } wl_tuple_space_fixed;

typedef struct wl_tuple_space {
    wl_table_stats stats;
    uint32_t *entry;             /* [capacity][stride]: the masked key, then the priority, then the next of the chain or of the free list, + 1 */
    uint32_t *mask;              /* of entries: [capacity][words] */
    uint32_t *lane;              /* masks by word: [words][TUPLES], then base, shift, seed, and the seed with what is the same for all, by lane; zeros */
    uint32_t *tuple_mask;        /* [TUPLES][16] */
    uint32_t *few;               /* the first entries by falling priority: [2 * words][FEW], then their numbers */
    uint32_t *arena;             /* slots: tag << 20 | entry + 1; bit 31 of a bucket's first: it has overflowed */
    wl_tuple_space_tuple tuple[WL_TUPLE_SPACE_TUPLES];
    uint32_t free_table[WL_TUPLE_SPACE_CLASSES];   /* tables by the logarithm of their size: base + 1, linked through their first slot */
    uint32_t words, stride, capacity, used, free_entry, fresh, tuples, arena_slots, arena_used;
    uint32_t factor[WL_TUPLE_SPACE_MAX_WORDS];
    /* Of each word: the bits that masks use; whether all masks that use any use the same; the
       value, where it is the same for all. */
    uint32_t asked[WL_TUPLE_SPACE_MAX_WORDS], want_mask[WL_TUPLE_SPACE_MAX_WORDS], want_key[WL_TUPLE_SPACE_MAX_WORDS];
    bool whole[WL_TUPLE_SPACE_MAX_WORDS], loose[WL_TUPLE_SPACE_MAX_WORDS];
    /* The loose words, of which entries want different things: those that masks take whole, in
     * parts, and all. Filled up to two, two and four; `row` is where their lanes begin. */
    uint32_t whole_row[WL_TUPLE_SPACE_MAX_WORDS], part_row[WL_TUPLE_SPACE_MAX_WORDS];
    uint8_t whole_word[WL_TUPLE_SPACE_MAX_WORDS], part_word[WL_TUPLE_SPACE_MAX_WORDS], loose_word[WL_TUPLE_SPACE_MAX_WORDS];
    uint8_t wholes, parts, looses, hashed;   /* hashed: looses, not filled up */
    /* Of the few. */
    wl_tuple_space_fixed fixed[WL_TUPLE_SPACE_MAX_WORDS];
    uint32_t fixed_mask[WL_TUPLE_SPACE_MAX_WORDS], fixed_key[WL_TUPLE_SPACE_MAX_WORDS];
    uint8_t varying[WL_TUPLE_SPACE_MAX_WORDS], fixeds, varyings;   /* words of the few that must be compared one by one */
    uint8_t few_asks[WL_TUPLE_SPACE_FEW];                          /* which of the first of these each of the few asks for, a bit for each */
} wl_tuple_space;

/* Words of memory behind the struct that a table needs. */
#define WL_TUPLE_SPACE_STRIDE(words) ((words) <= 2 ? 4u : (words) <= 6 ? 8u : (words) <= 14 ? 16u : 32u)
#define WL_TUPLE_SPACE_ARENA(capacity) (16u * (capacity) + 32768u)
#define WL_TUPLE_SPACE_WORDS(words, capacity) \
    ((size_t)(WL_TUPLE_SPACE_STRIDE(words) + (words)) * (capacity) + (size_t)((words) + 21) * WL_TUPLE_SPACE_TUPLES + (size_t)(2 * (words) + 1) * WL_TUPLE_SPACE_FEW + WL_TUPLE_SPACE_ARENA(capacity) + 64)

#define WL_LANE_BASE(t) ((t)->lane + (size_t)(t)->words * WL_TUPLE_SPACE_TUPLES)
#define WL_LANE_SHIFT(t) (WL_LANE_BASE(t) + WL_TUPLE_SPACE_TUPLES)
#define WL_LANE_SEED(t) (WL_LANE_BASE(t) + 2 * WL_TUPLE_SPACE_TUPLES)
#define WL_LANE_BIAS(t) (WL_LANE_BASE(t) + 3 * WL_TUPLE_SPACE_TUPLES)
#define WL_LANE_ZERO(t) (WL_LANE_BASE(t) + 4 * WL_TUPLE_SPACE_TUPLES)
#define WL_FEW_NUMBER(t) ((t)->few + (size_t)2 * (t)->words * WL_TUPLE_SPACE_FEW)
/* Says anew which words are compared and hashed how. */
static inline void wl_tuple_space_list(wl_tuple_space *t) {
    const uint32_t zero = (t->words + 4) * WL_TUPLE_SPACE_TUPLES;
    t->wholes = t->parts = t->looses = 0;
    for (uint32_t w = 0; w < t->words; w++) {
        if (!t->loose[w]) continue;
        t->loose_word[t->looses++] = (uint8_t)w;
        if (t->whole[w]) { t->whole_word[t->wholes] = (uint8_t)w; t->whole_row[t->wholes++] = w * WL_TUPLE_SPACE_TUPLES; }
        else { t->part_word[t->parts] = (uint8_t)w; t->part_row[t->parts++] = w * WL_TUPLE_SPACE_TUPLES; }
    }
    t->hashed = t->looses;
    for (; t->wholes < 2; t->wholes++) { t->whole_word[t->wholes] = 0; t->whole_row[t->wholes] = zero; }
    for (; t->parts < 2; t->parts++) { t->part_word[t->parts] = 0; t->part_row[t->parts] = zero; }
    for (; t->looses < 4 && t->looses; t->looses++) t->loose_word[t->looses] = t->loose_word[0];
}
static inline void wl_tuple_space_init(wl_tuple_space *t, uint32_t *memory, uint32_t words, uint32_t capacity) {
    memset(t, 0, sizeof *t);
    t->words = words;
    t->stride = WL_TUPLE_SPACE_STRIDE(words);
    t->capacity = capacity;
    /* Lanes, few, masks and entries are loaded 16 words at a time. */
    uint32_t *p = (uint32_t *)(void *)(((uintptr_t)memory + 63) & ~(uintptr_t)63);
    t->entry = p; p += (size_t)t->stride * capacity;
    p = (uint32_t *)(void *)(((uintptr_t)p + 63) & ~(uintptr_t)63);
    t->lane = p; p += (size_t)(words + 5) * WL_TUPLE_SPACE_TUPLES;
    t->tuple_mask = p; p += (size_t)16 * WL_TUPLE_SPACE_TUPLES;
    t->few = p; p += (size_t)(2 * words + 1) * WL_TUPLE_SPACE_FEW;
    t->arena = p; p += WL_TUPLE_SPACE_ARENA(capacity);
    t->arena_slots = WL_TUPLE_SPACE_ARENA(capacity);
    t->mask = p;
    uint64_t random = wl_table_seed(t);
    for (uint32_t w = 0; w < WL_TUPLE_SPACE_MAX_WORDS; w++) { random = wl_fmix64(random + w + 1); t->factor[w] = (uint32_t)random | 1; }
    memset(WL_LANE_ZERO(t), 0, 4 * WL_TUPLE_SPACE_TUPLES);
    wl_tuple_space_list(t);
}
/* An entry's masked key, its priority and the fields behind it. */
static inline uint32_t *wl_tuple_space_key(const wl_tuple_space *t, uint32_t e) { return t->entry + (size_t)e * t->stride; }
static inline uint32_t *wl_tuple_space_mask(const wl_tuple_space *t, uint32_t e) { return t->mask + (size_t)e * t->words; }
static inline uint32_t *wl_tuple_space_priority(const wl_tuple_space *t, uint32_t e) { return wl_tuple_space_key(t, e) + t->words; }
static inline uint32_t *wl_tuple_space_after(const wl_tuple_space *t, uint32_t e) { return wl_tuple_space_key(t, e) + t->words + 1; }

/* Of a masked key, for a tuple with this seed. */
static inline uint32_t wl_tuple_space_hash(const wl_tuple_space *t, const uint32_t *masked, uint32_t seed) {
    uint32_t h = seed;
    for (uint32_t w = 0; w < t->words; w++) h += masked[w] * t->factor[w];
    h ^= h >> 15;
    h *= 0x2c1b3c6d;
    return h;
}
/* Never 0, which is the tag of an empty slot. */
static inline uint32_t wl_tuple_space_tag(uint32_t h) { return (h & 0x7ff) ? h & 0x7ff : 1; }
/* Slots to the shift that leaves a bucket's number of a hash. At least 16 slots. */
static inline uint32_t wl_tuple_space_shift(uint32_t slots) { return slots ? 33u - (uint32_t)__builtin_ctz(slots) : 31u; }
/* The even slot of a bucket: the hash's high bits. */
static inline uint32_t wl_tuple_space_bucket(uint32_t h, uint32_t slots) { return (h >> wl_tuple_space_shift(slots)) * 2; }

/* The first of the eight slots for entries that overflow a bucket. */
static inline uint32_t wl_tuple_space_second(uint32_t h, uint32_t slots) { return (uint32_t)((uint64_t)(h * 0x85ebca6bu) * (slots / 8) >> 32) * 8; }
#define WL_TUPLE_SPACE_OVER 0x80000000u

static inline bool wl_tuple_space_fits(const uint32_t *k, const uint32_t *m, const uint32_t *key, uint32_t words) {
    uint32_t d = 0;
    for (uint32_t w = 0; w < words; w++) d |= (key[w] & m[w]) ^ k[w];
    return d == 0;
}

/* ---- tables of tuples ---- */

static inline uint32_t wl_tuple_space_class(uint32_t slots) { return 31u - (uint32_t)__builtin_clz(slots); }
static inline void wl_tuple_space_give_table(wl_tuple_space *t, uint32_t base, uint32_t slots) {
    uint32_t c = wl_tuple_space_class(slots);
    t->arena[base] = t->free_table[c];
    t->free_table[c] = base + 1;
}
/* Base of a zeroed table, or UINT32_MAX. A larger free table is split. */
static inline uint32_t wl_tuple_space_take_table(wl_tuple_space *t, uint32_t slots) {
    uint32_t want = wl_tuple_space_class(slots), c = want;
    while (c < WL_TUPLE_SPACE_CLASSES && !t->free_table[c]) c++;
    uint32_t base;
    if (c < WL_TUPLE_SPACE_CLASSES) {
        base = t->free_table[c] - 1;
        t->free_table[c] = t->arena[base];
        for (; c > want; c--) wl_tuple_space_give_table(t, base + (1u << (c - 1)), 1u << (c - 1));
    } else {
        if (t->arena_slots - t->arena_used < slots) return UINT32_MAX;
        base = t->arena_used;
        t->arena_used += slots;
    }
    memset(t->arena + base, 0, (size_t)slots * 4);
    return base;
}
static inline bool wl_tuple_space_put_slot(wl_tuple_space *t, uint32_t base, uint32_t slots, uint32_t h, uint32_t e) {
    const uint32_t slot = wl_tuple_space_tag(h) << 20 | (e + 1);
    uint32_t *b = t->arena + base + wl_tuple_space_bucket(h, slots), *g = t->arena + base + wl_tuple_space_second(h, slots);
    for (unsigned i = 0; i < 2; i++) if (!(b[i] & 0xfffff)) { b[i] = (b[i] & WL_TUPLE_SPACE_OVER) | slot; return true; }
    for (unsigned i = 0; i < 8; i++) if (!(g[i] & 0xfffff)) { g[i] = (g[i] & WL_TUPLE_SPACE_OVER) | slot; b[0] |= WL_TUPLE_SPACE_OVER; return true; }
    return false;
}
/* The slot of the chain with this masked key, or NULL. */
static inline uint32_t *wl_tuple_space_slot(wl_tuple_space *t, const wl_tuple_space_tuple *u, const uint32_t *masked) {
    const uint32_t h = wl_tuple_space_hash(t, masked, u->seed);
    uint32_t *b = t->arena + u->base + wl_tuple_space_bucket(h, u->slots), *g = t->arena + u->base + wl_tuple_space_second(h, u->slots);
    for (unsigned i = 0; i < 10; i++) {
        uint32_t *s = i < 2 ? b + i : g + i - 2, e = *s & 0xfffff;
        if (e && memcmp(wl_tuple_space_key(t, e - 1), masked, (size_t)t->words * 4) == 0) return s;
        if (i == 1 && !(b[0] & WL_TUPLE_SPACE_OVER)) break;
    }
    return NULL;
}
/* Up to this number of entries, other seeds are tried until no bucket overflows, because overflow
 * costs each lookup that passes. With more entries the tries fail, and an insertion would repeat
 * them each time that a bucket overflows. */
#define WL_TUPLE_SPACE_NEAT 128u
#define WL_TUPLE_SPACE_NEAT_TRIES 8u

/* Whether a bucket has no room for one more. */
static inline bool wl_tuple_space_is_full(const wl_tuple_space *t, uint32_t base, uint32_t slots, uint32_t h) {
    const uint32_t *b = t->arena + base + wl_tuple_space_bucket(h, slots);
    return (b[0] & 0xfffff) && (b[1] & 0xfffff);
}
static inline bool wl_tuple_space_put_neatly(wl_tuple_space *t, uint32_t base, uint32_t slots, uint32_t h, uint32_t e, bool neat) {
    return !(neat && wl_tuple_space_is_full(t, base, slots, h)) && wl_tuple_space_put_slot(t, base, slots, h, e);
}
/* Moves a tuple's entries, and one more chain if `extra` is not UINT32_MAX, to a table in which all
   fit. */
static inline bool wl_tuple_space_rebuild(wl_tuple_space *t, wl_tuple_space_tuple *u, uint32_t slots, uint32_t extra) {
    for (uint32_t tries = 0; tries < 64 + WL_TUPLE_SPACE_NEAT_TRIES; tries++) {
        const bool neat = u->count <= WL_TUPLE_SPACE_NEAT && tries < WL_TUPLE_SPACE_NEAT_TRIES;
        uint32_t size = slots << (tries < WL_TUPLE_SPACE_NEAT_TRIES ? 0 : tries / 8 - 1), base = wl_tuple_space_take_table(t, size);
        if (base == UINT32_MAX) return false;
        uint32_t seed = (uint32_t)wl_fmix64(((uint64_t)u->seed << 32 | tries) + 1);
        bool ok = true;
        for (uint32_t i = 0; i < u->slots && ok; i++) {
            uint32_t e = t->arena[u->base + i] & 0xfffff;
            if (e) ok = wl_tuple_space_put_neatly(t, base, size, wl_tuple_space_hash(t, wl_tuple_space_key(t, e - 1), seed), e - 1, neat);
        }
        if (ok && extra != UINT32_MAX) ok = wl_tuple_space_put_neatly(t, base, size, wl_tuple_space_hash(t, wl_tuple_space_key(t, extra), seed), extra, neat);
        if (!ok) { wl_tuple_space_give_table(t, base, size); continue; }
        if (u->slots) wl_tuple_space_give_table(t, u->base, u->slots);
        u->base = base; u->slots = size; u->seed = seed;
        return true;
    }
    return false;
}

/* ---- lanes ---- */

static inline void wl_tuple_space_set_lane(wl_tuple_space *t, uint32_t i) {
    WL_LANE_BASE(t)[i] = t->tuple[i].base / 2;
    WL_LANE_SHIFT(t)[i] = wl_tuple_space_shift(t->tuple[i].slots);
    uint32_t bias = WL_LANE_SEED(t)[i] = t->tuple[i].seed;
    for (uint32_t w = 0; w < t->words; w++) if (t->tuple_mask[(size_t)i * 16 + w] && !t->loose[w]) bias += t->want_key[w] * t->factor[w];
    WL_LANE_BIAS(t)[i] = bias;
    for (uint32_t w = 0; w < t->words; w++) t->lane[(size_t)w * WL_TUPLE_SPACE_TUPLES + i] = t->tuple_mask[(size_t)i * 16 + w];
}
/* Puts an element at another place of its array; those between move up. */
static inline void wl_tuple_space_rotate(void *array, size_t size, uint32_t from, uint32_t to) {
    char keep[64], *a = array;
    memcpy(keep, a + from * size, size);
    if (from < to) memmove(a + from * size, a + (from + 1) * size, (to - from) * size);
    else memmove(a + (to + 1) * size, a + to * size, (from - to) * size);
    memcpy(a + to * size, keep, size);
}
/* Puts a tuple at another place. */
static inline void wl_tuple_space_move(wl_tuple_space *t, uint32_t from, uint32_t to) {
    if (from == to) return;
    wl_tuple_space_rotate(t->tuple, sizeof t->tuple[0], from, to);
    wl_tuple_space_rotate(t->tuple_mask, 16 * sizeof t->tuple_mask[0], from, to);
    for (uint32_t row = 0; row < t->words + 4; row++) wl_tuple_space_rotate(t->lane + (size_t)row * WL_TUPLE_SPACE_TUPLES, sizeof t->lane[0], from, to);
}
/* Puts a tuple whose best priority has changed where it belongs. */
static inline void wl_tuple_space_sort(wl_tuple_space *t, uint32_t i) {
    const uint32_t best = t->tuple[i].best;
    uint32_t to = i;
    while (to > 0 && t->tuple[to - 1].best < best) to--;
    while (to >= i && to + 1 < t->tuples && t->tuple[to + 1].best > best) to++;
    wl_tuple_space_move(t, i, to);
}
static inline uint32_t wl_tuple_space_tuple_of(const wl_tuple_space *t, const uint32_t *mask) {
#ifdef WL_TUPLE_SPACE_VECTOR
    for (uint32_t i = 0; i < t->tuples; i += 16) {
        const uint32_t left = t->tuples - i;
        __mmask16 same = left < 16 ? (__mmask16)((1u << left) - 1) : 0xffff;
        for (uint32_t w = 0; w < t->words && same; w++) same = _mm512_mask_cmpeq_epi32_mask(same, _mm512_set1_epi32((int)mask[w]), _mm512_load_si512(t->lane + (size_t)w * WL_TUPLE_SPACE_TUPLES + i));
        if (same) return i + (uint32_t)__builtin_ctz(same);
    }
#else
    for (uint32_t i = 0; i < t->tuples; i++) if (memcmp(t->tuple_mask + (size_t)i * 16, mask, (size_t)t->words * 4) == 0) return i;
#endif
    return UINT32_MAX;
}
/* Notes a new entry: a value that was the same for all entries may now differ. Notes of removed
   entries stay valid. */
static inline void wl_tuple_space_plan(wl_tuple_space *t, const uint32_t *masked, const uint32_t *mask) {
    bool changed = false;
    for (uint32_t w = 0; w < t->words; w++) {
        if (!mask[w]) continue;
        const bool first = !t->asked[w], same = t->asked[w] == mask[w] && t->whole[w];
        if (first) { t->whole[w] = true; t->want_mask[w] = mask[w]; t->want_key[w] = masked[w]; }
        else if (!same && t->whole[w]) { t->whole[w] = false; changed = true; }
        t->asked[w] |= mask[w];
        if (!t->loose[w] && (!t->whole[w] || masked[w] != t->want_key[w])) { t->loose[w] = changed = true; t->want_mask[w] = t->want_key[w] = 0; }
    }
    if (!changed) return;
    wl_tuple_space_list(t);
    for (uint32_t i = 0; i < t->tuples; i++) wl_tuple_space_set_lane(t, i);
}
/* The words of a short list. Words in which all entries want the same value are compared once for
   all. */
static inline void wl_tuple_space_plan_few(wl_tuple_space *t, const uint32_t *number, uint32_t n) {
    t->fixeds = t->varyings = 0;
    for (uint32_t w = 0; w < t->words; w++) {
        uint64_t asking = 0;
        uint32_t mask = 0, key = 0;
        bool same = true;
        for (uint32_t k = 0; k < n; k++) {
            const uint32_t m = wl_tuple_space_mask(t, number[k])[w], v = wl_tuple_space_key(t, number[k])[w];
            if (!m) continue;
            if (asking) same &= m == mask && v == key;
            asking |= UINT64_C(1) << k;
            mask = m;
            key = v;
        }
        t->fixed_mask[w] = mask;
        t->fixed_key[w] = key;
        wl_tuple_space_fixed *last = t->fixeds ? &t->fixed[t->fixeds - 1] : NULL;
        if (!asking) continue;
        if (!same) t->varying[t->varyings++] = (uint8_t)w;
        else if (last && last->to == w && last->entries == asking) last->to++;
        else t->fixed[t->fixeds++] = (wl_tuple_space_fixed){asking, (uint8_t)w, (uint8_t)(w + 1)};
    }
    for (uint32_t k = 0; k < n; k++) {
        t->few_asks[k] = 0;
        for (uint32_t j = 0; j < t->varyings && j < WL_TUPLE_SPACE_FEW_WORDS; j++) t->few_asks[k] |= (uint8_t)((wl_tuple_space_mask(t, number[k])[t->varying[j]] != 0) << j);
    }
}
/* The best entries side by side, when there are few. */
static inline void wl_tuple_space_list_few(wl_tuple_space *t) {
    if (t->used > WL_TUPLE_SPACE_FEW) return;
    uint32_t n = 0, *number = WL_FEW_NUMBER(t);
    for (uint32_t i = 0; i < t->tuples; i++)
        for (uint32_t s = 0; s < t->tuple[i].slots; s++)
            for (uint32_t e = t->arena[t->tuple[i].base + s] & 0xfffff; e && n < WL_TUPLE_SPACE_FEW; e = *wl_tuple_space_after(t, e - 1)) {
                uint32_t k = n++;
                for (; k > 0 && *wl_tuple_space_priority(t, number[k - 1]) < *wl_tuple_space_priority(t, e - 1); k--) number[k] = number[k - 1];
                number[k] = e - 1;
            }
    for (uint32_t k = 0; k < WL_TUPLE_SPACE_FEW; k++)
        for (uint32_t w = 0; w < t->words; w++) {
            t->few[(size_t)w * WL_TUPLE_SPACE_FEW + k] = k < n ? wl_tuple_space_key(t, number[k])[w] : 0;
            t->few[(size_t)(t->words + w) * WL_TUPLE_SPACE_FEW + k] = k < n ? wl_tuple_space_mask(t, number[k])[w] : 0;
        }
    wl_tuple_space_plan_few(t, number, n);
}

/* ---- operations ---- */

/* A word of the key. Most keys were packed just before, word by word. The barrier stops the
 * compiler from loading several words at once, which would wait for these stores. */
WL_TUPLE_SPACE_INLINE uint32_t wl_tuple_space_word(const uint32_t *key, uint32_t w) {
    uint32_t v = key[w];
    __asm__("" : "+r"(v));
    return v;
}
/* Two of them. */
WL_TUPLE_SPACE_INLINE uint64_t wl_tuple_space_two(const uint32_t *p) { uint64_t v; memcpy(&v, p, 8); return v; }
/* The entries for which a marked bucket had no room. */
static __attribute__((noinline, unused)) void wl_tuple_space_over(const wl_tuple_space *t, uint32_t i, uint32_t h, const uint32_t *key, uint32_t *found, uint32_t *best) {
    const uint32_t *g = t->arena + t->tuple[i].base + wl_tuple_space_second(h, t->tuple[i].slots);
    for (unsigned s = 0; s < 8; s++) {
        if (!(g[s] & 0xfffff) || (g[s] >> 20 & 0x7ff) != wl_tuple_space_tag(h)) continue;
        const uint32_t e = (g[s] & 0xfffff) - 1;
        if ((*found == UINT32_MAX || *wl_tuple_space_priority(t, e) > *best) && wl_tuple_space_fits(wl_tuple_space_key(t, e), t->tuple_mask + (size_t)i * 16, key, t->words)) {
            *found = e;
            *best = *wl_tuple_space_priority(t, e);
        }
    }
}
/* The entry of a short list, in falling order of priority. */
WL_TUPLE_SPACE_INLINE uint32_t wl_tuple_space_find_few(const wl_tuple_space *t, const uint32_t *key, const uint32_t words) {
    const uint32_t n = t->used;
    uint64_t out = n < 64 ? ~UINT64_C(0) << n : 0;
    for (uint32_t i = 0; i < t->fixeds; i++) {
        const wl_tuple_space_fixed *f = &t->fixed[i];
        uint32_t d = 0;
        for (uint32_t w = f->from; w < f->to; w++) d |= (key[w] & t->fixed_mask[w]) ^ t->fixed_key[w];
        if (d) out |= f->entries;
    }
    for (uint32_t i = 0; i < n; i += 16) {
#ifdef WL_TUPLE_SPACE_VECTOR
        __m512i d = _mm512_setzero_si512();
        for (uint32_t j = 0; j < t->varyings; j++) {
            const uint32_t w = t->varying[j];
            const __m512i m = _mm512_load_si512(t->few + (size_t)(words + w) * WL_TUPLE_SPACE_FEW + i), k = _mm512_load_si512(t->few + (size_t)w * WL_TUPLE_SPACE_FEW + i);
            d = _mm512_or_si512(d, _mm512_xor_si512(_mm512_and_si512(_mm512_set1_epi32((int)key[w]), m), k));
        }
        const uint32_t hit = _mm512_testn_epi32_mask(d, d) & ~(uint32_t)(out >> i) & 0xffff;
#else
        uint32_t hit = 0;
        for (uint32_t k = i; k < n && k < i + 16; k++) {
            uint32_t d = 0;
            for (uint32_t j = 0; j < t->varyings; j++) { const uint32_t w = t->varying[j]; d |= (key[w] & t->few[(size_t)(words + w) * WL_TUPLE_SPACE_FEW + k]) ^ t->few[(size_t)w * WL_TUPLE_SPACE_FEW + k]; }
            hit |= (uint32_t)(d == 0 && !(out >> k & 1)) << (k - i);
        }
#endif
        if (hit) return WL_FEW_NUMBER(t)[i + (uint32_t)__builtin_ctz(hit)];
    }
    return UINT32_MAX;
}
/* Takes entry e of a lane if it fits and is better than the best so far. With `looses` only
   loose words are looked at. */
WL_TUPLE_SPACE_INLINE void wl_tuple_space_try(const wl_tuple_space *t, uint32_t e, uint32_t lane, const uint32_t *key, const uint32_t words, const uint32_t looses, uint32_t *found, uint32_t *best) {
    const uint32_t *k = t->entry + (size_t)e * WL_TUPLE_SPACE_STRIDE(words), *m = t->tuple_mask + (size_t)lane * 16;
    uint32_t d = 0;
    if (looses) for (uint32_t j = 0; j < looses; j++) { const uint32_t w = t->loose_word[j]; d |= (key[w] & m[w]) ^ k[w]; }
    else for (uint32_t w = 0; w < words; w++) d |= (wl_tuple_space_word(key, w) & m[w]) ^ k[w];
    if (!d && (*found == UINT32_MAX || k[words] > *best)) { *found = e; *best = k[words]; }
}
#ifdef WL_TUPLE_SPACE_VECTOR
/* The candidates of 16 tuples from `i` on, whose sums are in h. */
WL_TUPLE_SPACE_INLINE void wl_tuple_space_block(const wl_tuple_space *t, uint32_t i, __m512i h, const uint32_t *key, const uint32_t words, const uint32_t looses, uint32_t *found, uint32_t *best) {
    const uint32_t left = t->tuples - i;
    const __mmask16 all = left < 16 ? (__mmask16)((1u << left) - 1) : 0xffff;
    h = _mm512_mullo_epi32(_mm512_xor_si512(h, _mm512_srli_epi32(h, 15)), _mm512_set1_epi32(0x2c1b3c6d));
    const __m512i at = _mm512_add_epi32(_mm512_srlv_epi32(h, _mm512_load_si512(WL_LANE_SHIFT(t) + i)), _mm512_load_si512(WL_LANE_BASE(t) + i));
    /* Both slots of each bucket, 8 buckets a vector; the tags beside them. */
    const __m512i twice = _mm512_setr_epi32(0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7), tags = _mm512_set1_epi32(0x7ff00000);
    const __m512i a = _mm512_mask_i32gather_epi64(_mm512_setzero_si512(), (__mmask8)all, _mm512_castsi512_si256(at), t->arena, 8);
    const __m512i b = _mm512_mask_i32gather_epi64(_mm512_setzero_si512(), (__mmask8)(all >> 8), _mm512_extracti64x4_epi64(at, 1), t->arena, 8);
    const __m512i tag = _mm512_slli_epi32(_mm512_max_epu32(_mm512_and_si512(h, _mm512_set1_epi32(0x7ff)), _mm512_set1_epi32(1)), 20);
    const __m512i ta = _mm512_permutexvar_epi32(twice, tag), tb = _mm512_permutexvar_epi32(_mm512_add_epi32(twice, _mm512_set1_epi32(8)), tag);
    uint32_t hit = (uint32_t)_mm512_testn_epi32_mask(_mm512_xor_si512(a, ta), tags) | (uint32_t)_mm512_testn_epi32_mask(_mm512_xor_si512(b, tb), tags) << 16;
    const uint32_t over = (uint32_t)_mm512_movepi32_mask(a) | (uint32_t)_mm512_movepi32_mask(b) << 16;
    if (!(hit | over)) return;
    uint32_t slot[32], hash[16];
    _mm512_storeu_si512(slot, a);
    _mm512_storeu_si512(slot + 16, b);
    if (WL_UNLIKELY(over)) _mm512_storeu_si512(hash, h);
    for (uint32_t m = hit | over; m; m &= m - 1) {
        const uint32_t k = (uint32_t)__builtin_ctz(m), lane = i + k / 2;
        if (*found != UINT32_MAX && *best >= t->tuple[lane].best) return;
        if (WL_LIKELY(hit >> k & 1)) wl_tuple_space_try(t, (slot[k] & 0xfffff) - 1, lane, key, words, looses, found, best);
        if (WL_UNLIKELY(over >> k & 1)) wl_tuple_space_over(t, lane, hash[k / 2], key, found, best);
    }
}
/* The sums of 16 tuples for a key that has the bits that all entries want. */
WL_TUPLE_SPACE_INLINE __m512i wl_tuple_space_sums(const wl_tuple_space *t, uint32_t i, const uint32_t *product, const uint32_t *key, const uint32_t wholes, const uint32_t parts) {
    __m512i h = _mm512_load_si512(WL_LANE_BIAS(t) + i);
    for (uint32_t j = 0; j < wholes; j++) {
        const __m512i m = _mm512_load_si512(t->lane + t->whole_row[j] + i);
        h = _mm512_mask_add_epi32(h, _mm512_test_epi32_mask(m, m), h, _mm512_set1_epi32((int)product[j]));
    }
    for (uint32_t j = 0; j < parts; j++) {
        const __m512i k = _mm512_and_si512(_mm512_set1_epi32((int)key[t->part_word[j]]), _mm512_load_si512(t->lane + t->part_row[j] + i));
        h = _mm512_add_epi32(h, _mm512_mullo_epi32(k, _mm512_set1_epi32((int)t->factor[t->part_word[j]])));
    }
    return h;
}
/* For a key that has the bits that all entries want; the numbers of words of each kind are known
   where it is inlined. */
WL_TUPLE_SPACE_INLINE uint32_t wl_tuple_space_find_plain(const wl_tuple_space *t, const uint32_t *key, const uint32_t words, const uint32_t wholes, const uint32_t parts, const uint32_t looses) {
    uint32_t product[WL_TUPLE_SPACE_MAX_WORDS], found = UINT32_MAX, best = 0;
    for (uint32_t j = 0; j < wholes; j++) { const uint32_t w = t->whole_word[j]; product[j] = (key[w] & t->asked[w]) * t->factor[w]; }
    for (uint32_t i = 0; i < t->tuples; i += 16) {
        if (found != UINT32_MAX && best >= t->tuple[i].best) break;
        wl_tuple_space_block(t, i, wl_tuple_space_sums(t, i, product, key, wholes, parts), key, words, looses, &found, &best);
    }
    return found;
}
static __attribute__((noinline, unused)) uint32_t wl_tuple_space_find_many(const wl_tuple_space *t, const uint32_t *key, const uint32_t words) {
    return wl_tuple_space_find_plain(t, key, words, t->wholes, t->parts, t->looses);
}
/* For any key. */
static __attribute__((noinline, unused)) uint32_t wl_tuple_space_find_other(const wl_tuple_space *t, const uint32_t *key, const uint32_t words) {
    uint32_t found = UINT32_MAX, best = 0;
    for (uint32_t i = 0; i < t->tuples; i += 16) {
        if (found != UINT32_MAX && best >= t->tuple[i].best) break;
        __m512i h = _mm512_load_si512(WL_LANE_SEED(t) + i);
        for (uint32_t w = 0; w < words; w++) {
            const __m512i k = _mm512_and_si512(_mm512_set1_epi32((int)key[w]), _mm512_load_si512(t->lane + (size_t)w * WL_TUPLE_SPACE_TUPLES + i));
            h = _mm512_add_epi32(h, _mm512_mullo_epi32(k, _mm512_set1_epi32((int)t->factor[w])));
        }
        wl_tuple_space_block(t, i, h, key, words, 0, &found, &best);
    }
    return found;
}
#else
static inline uint32_t wl_tuple_space_find_other(const wl_tuple_space *t, const uint32_t *key, const uint32_t words) {
    uint32_t found = UINT32_MAX, best = 0;
    for (uint32_t lane = 0; lane < t->tuples; lane++) {
        const wl_tuple_space_tuple *u = &t->tuple[lane];
        if (found != UINT32_MAX && best >= u->best) break;
        uint32_t masked[WL_TUPLE_SPACE_MAX_WORDS];
        for (uint32_t w = 0; w < words; w++) masked[w] = key[w] & t->tuple_mask[(size_t)lane * 16 + w];
        const uint32_t h = wl_tuple_space_hash(t, masked, u->seed), *b = t->arena + u->base + wl_tuple_space_bucket(h, u->slots);
        for (unsigned s = 0; s < 2; s++) if ((b[s] >> 20 & 0x7ff) == wl_tuple_space_tag(h)) wl_tuple_space_try(t, (b[s] & 0xfffff) - 1, lane, key, words, 0, &found, &best);
        if (b[0] & WL_TUPLE_SPACE_OVER) wl_tuple_space_over(t, lane, h, key, &found, &best);
    }
    return found;
}
#endif
/* The entry of the highest priority that matches, or UINT32_MAX. `words` is t->words, known where
   it is inlined. */
WL_TUPLE_SPACE_INLINE uint32_t wl_tuple_space_find(const wl_tuple_space *t, const uint32_t *key, const uint32_t words) {
    if (t->used <= WL_TUPLE_SPACE_FEW) return wl_tuple_space_find_few(t, key, words);
#ifdef WL_TUPLE_SPACE_VECTOR
    uint64_t d = 0;
    for (uint32_t w = 0; w + 1 < words; w += 2) {
        d |= (wl_tuple_space_two(key + w) & wl_tuple_space_two(t->want_mask + w)) ^ wl_tuple_space_two(t->want_key + w);
        __asm__("" : "+r"(d));   /* see wl_tuple_space_word */
    }
    if (words & 1) d |= (wl_tuple_space_word(key, words - 1) & t->want_mask[words - 1]) ^ t->want_key[words - 1];
    if (WL_LIKELY(!d)) return t->wholes == 2 && t->parts == 2 && t->looses == 4 ? wl_tuple_space_find_plain(t, key, words, 2, 2, 4) : wl_tuple_space_find_many(t, key, words);
#endif
    return wl_tuple_space_find_other(t, key, words);
}

static inline uint32_t wl_tuple_space_best(const wl_tuple_space *t, const wl_tuple_space_tuple *u) {
    uint32_t best = 0;
    for (uint32_t i = 0; i < u->slots; i++) {
        uint32_t e = t->arena[u->base + i] & 0xfffff;
        if (e && *wl_tuple_space_priority(t, e - 1) > best) best = *wl_tuple_space_priority(t, e - 1);
    }
    return best;
}

/* The entry with this key, mask and priority, made if it is missing; UINT32_MAX: the table is
   full. */
static inline uint32_t wl_tuple_space_insert(wl_tuple_space *t, const uint32_t *key, const uint32_t *mask, uint32_t priority) {
    uint32_t masked[16];
    for (uint32_t w = 0; w < t->words; w++) masked[w] = key[w] & mask[w];
    uint32_t i = wl_tuple_space_tuple_of(t, mask);
    uint32_t *slot = i == UINT32_MAX ? NULL : wl_tuple_space_slot(t, &t->tuple[i], masked);
    for (uint32_t e = slot ? *slot & 0xfffff : 0; e; e = *wl_tuple_space_after(t, e - 1)) if (*wl_tuple_space_priority(t, e - 1) == priority) return e - 1;
    if (t->used >= t->capacity || (i == UINT32_MAX && t->tuples == WL_TUPLE_SPACE_TUPLES)) { t->stats.rejected++; return UINT32_MAX; }
    uint32_t e = t->free_entry ? t->free_entry - 1 : t->fresh++;
    if (t->free_entry) t->free_entry = *wl_tuple_space_after(t, e);
    memcpy(wl_tuple_space_key(t, e), masked, (size_t)t->words * 4);
    memcpy(wl_tuple_space_mask(t, e), mask, (size_t)t->words * 4);
    *wl_tuple_space_priority(t, e) = priority;
    *wl_tuple_space_after(t, e) = 0;
    if (slot) {
        /* Into the chain, by falling priority. */
        uint32_t *at = NULL, first = *slot & 0xfffff;
        if (*wl_tuple_space_priority(t, first - 1) < priority) { *wl_tuple_space_after(t, e) = first; *slot = (*slot & ~0xfffffu) | (e + 1); }
        else {
            for (at = wl_tuple_space_after(t, first - 1); *at && *wl_tuple_space_priority(t, *at - 1) > priority; at = wl_tuple_space_after(t, *at - 1)) {}
            *wl_tuple_space_after(t, e) = *at;
            *at = e + 1;
        }
    } else {
        bool fresh = i == UINT32_MAX;
        if (fresh) {
            i = t->tuples++;
            t->tuple[i] = (wl_tuple_space_tuple){.seed = i + 1};
            for (uint32_t w = 0; w < t->words; w++) t->tuple_mask[(size_t)i * 16 + w] = mask[w];
        }
        wl_tuple_space_tuple *u = &t->tuple[i];
        uint32_t need = u->slots;
        while (need < 16 || need < 4 * (u->count + 1)) need = need ? 2 * need : 16;
        bool ok = need == u->slots && wl_tuple_space_put_neatly(t, u->base, u->slots, wl_tuple_space_hash(t, masked, u->seed), e, u->count < WL_TUPLE_SPACE_NEAT);
        if (!ok) ok = wl_tuple_space_rebuild(t, u, need, e);
        if (!ok) {
            if (fresh) t->tuples--;
            *wl_tuple_space_after(t, e) = t->free_entry;
            t->free_entry = e + 1;
            t->stats.rejected++;
            return UINT32_MAX;
        }
        u->count++;
    }
    t->used++;
    t->stats.entries++;
    t->stats.inserts++;
    wl_tuple_space_plan(t, masked, mask);
    if (priority >= t->tuple[i].best) { t->tuple[i].best = priority; t->tuple[i].gone = 0; }
    wl_tuple_space_set_lane(t, i);
    wl_tuple_space_sort(t, i);
    wl_tuple_space_list_few(t);
    return e;
}

static inline bool wl_tuple_space_delete(wl_tuple_space *t, const uint32_t *key, const uint32_t *mask, uint32_t priority) {
    uint32_t masked[16];
    for (uint32_t w = 0; w < t->words; w++) masked[w] = key[w] & mask[w];
    uint32_t i = wl_tuple_space_tuple_of(t, mask);
    uint32_t *slot = i == UINT32_MAX ? NULL : wl_tuple_space_slot(t, &t->tuple[i], masked);
    if (!slot) return false;
    uint32_t before = 0, e = *slot & 0xfffff;
    while (e && *wl_tuple_space_priority(t, e - 1) != priority) { before = e; e = *wl_tuple_space_after(t, e - 1); }
    if (!e) return false;
    wl_tuple_space_tuple *u = &t->tuple[i];
    uint32_t rest = *wl_tuple_space_after(t, e - 1);
    if (before) *wl_tuple_space_after(t, before - 1) = rest;
    else if (rest) *slot = (*slot & ~0xfffffu) | rest;
    else { *slot &= WL_TUPLE_SPACE_OVER; u->count--; }
    *wl_tuple_space_after(t, e - 1) = t->free_entry;
    t->free_entry = e;
    t->used--;
    t->stats.entries--;
    if (!u->count) {
        wl_tuple_space_give_table(t, u->base, u->slots);
        u->slots = 0;
        u->best = 0;
        wl_tuple_space_move(t, i, t->tuples - 1);
        t->tuples--;
    } else if ((u->best == priority || u->gone) && (uint64_t)++u->gone * WL_TUPLE_SPACE_LOOKS >= u->slots) {
        /* Of many entries not each time: a search that goes on too long is right, too. */
        u->best = wl_tuple_space_best(t, u);
        u->gone = 0;
        wl_tuple_space_sort(t, i);
    }
    wl_tuple_space_list_few(t);
    return true;
}
/* The next entry from *cursor on; UINT32_MAX: none near, and if the cursor is all ones, that was
   all. */
static inline uint32_t wl_tuple_space_next(const wl_tuple_space *t, uint64_t *cursor) {
    for (unsigned near = 0; near < 256; near++) {
        if (*cursor >= t->fresh) { *cursor = UINT64_MAX; break; }
        uint32_t e = (uint32_t)(*cursor)++;
        /* A free entry is in no chain: its slot does not lead to it. */
        uint32_t i = wl_tuple_space_tuple_of(t, wl_tuple_space_mask(t, e));
        if (i == UINT32_MAX) continue;
        uint32_t *slot = wl_tuple_space_slot((wl_tuple_space *)(uintptr_t)t, &t->tuple[i], wl_tuple_space_key(t, e));
        for (uint32_t k = slot ? *slot & 0xfffff : 0; k; k = *wl_tuple_space_after(t, k - 1)) if (k - 1 == e) return e;
    }
    return UINT32_MAX;
}
#endif
