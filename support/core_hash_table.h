/* core_hash_table.h: exact-match tables of one core, for frames. Keys and values have a fixed
 * size, and there are no locks.
 *
 * Open addressing with linear probing over slots of one size. A slot is the key in whole words, a
 * stamp, and the value. The stamp is the time of the last use. It takes 24 bits of the key's last
 * word if they are free (0: the slot is empty). Most slots fit in one cache line, which can be
 * prefetched for a whole batch (wl_core_table_prefetch).
 *
 * A table whose keys hold addresses of either family has two such arrays. One has a short form of
 * the key for IPv4, the other the whole key for the rest. Its capacity counts both. Pages of an
 * unused array are never touched.
 *
 * Entries expire by their stamps (idle_expiry.h). `evict lru` in a full table evicts the oldest of
 * the 16 slots from the key's own slot on. Shapes are compile-time constants at every frequent
 * call, so loops over words unroll.
 *
 * A large table begins with a small part of its slots and grows in place. So few entries lie close
 * together, in few pages and cache lines. The number of buckets in use doubles: bucket b becomes
 * the buckets 2b and 2b + 1. Buckets move from the last to the first, a few with each insertion,
 * so that none moves onto another. Those from `split` on have moved (linear hashing, in the other
 * direction).
 *
 * The keys of a batch can be looked up one behind the other, before the first handler runs
 * (wl_places, wl_place_peek). Many searches then overlap, because no handler's work lies between
 * them. A result holds until an entry moves or goes (`moves`).
 *
 * A table may have a cache in front (`cache N`): copies of slots that were read, each in the one
 * place that its hash names. A copy is valid while the clock has not advanced since the slot's
 * last use, so that no stamp of the table is too old. Every change or removal of a slot drops its
 * copy. A program sees the same with and without a cache. Copies are used only while they answer
 * most lookups (wl_front_weigh), because a search for a missing copy costs as much as a lookup. */
#ifndef WL_CORE_HASH_TABLE_H
#define WL_CORE_HASH_TABLE_H
#include "shared_hash_table.h"
#include "frame.h"

/* The layout of slots of one kind. It has bytes and words of the key, offsets of stamp and value,
 * bytes of a slot, and the number of slots. Also the slots in front (0, or a power of two), and how
 * often the slots are halved for an empty table. */
typedef struct wl_shape { uint32_t key, words, stamp, value, size, slots, front, halvings; } wl_shape;

#define WL_UP(n, to) (((n) + (to) - 1) / (to) * (to))
#define WL_STAMP_INSIDE(key) ((key) % 8 >= 1 && (key) % 8 <= 5)
#define WL_STAMP_AT(key) (WL_STAMP_INSIDE(key) ? (key) : WL_UP(key, 4))
#define WL_VALUE_AT(key, type) WL_UP(WL_STAMP_AT(key) + (WL_STAMP_INSIDE(key) ? 3 : 4), (int)_Alignof(type))
/* Slots for so many entries, in whole cache lines: four per entry, so that a search seldom goes
   beyond the first line, but two in large tables. */
#define WL_SLOTS_LEAST(capacity, size) ((uint64_t)(capacity) * ((uint64_t)(capacity) * (size) <= (32u << 20) ? 4 : 2) + 16)
/* An empty table has at most so many bytes of slots, and no fewer halvings than that takes. */
#define WL_FIRST_BYTES (256u << 10)
#define WL_OVER(bytes, n) ((bytes) > (uint64_t)WL_FIRST_BYTES << (n))
#define WL_OVER_8(bytes, n) (WL_OVER(bytes, n) + WL_OVER(bytes, (n) + 1) + WL_OVER(bytes, (n) + 2) + WL_OVER(bytes, (n) + 3) + WL_OVER(bytes, (n) + 4) + WL_OVER(bytes, (n) + 5) + WL_OVER(bytes, (n) + 6) + WL_OVER(bytes, (n) + 7))
#define WL_HALVINGS(bytes) (WL_OVER_8(bytes, 0) + WL_OVER_8(bytes, 8))
/* Names for the numbers of slots called `n`, which its array and its shape need. The compiler
   computes each once: written out, they take longer to read than the rest of the program. */
#define WL_SLOT_NAMES(n, capacity, key, type) enum { n##_value = WL_VALUE_AT(key, type), \
    n##_least = WL_UP(n##_value + (int)sizeof(type), _Alignof(type) > 8 ? (int)_Alignof(type) : 8), \
    /* A multiple of 8; no slot crosses a cache line if a third more makes that so. */ \
    n##_size = n##_least == 24 ? 32 : n##_least >= 48 && n##_least <= 64 ? 64 : n##_least, \
    n##_halvings = WL_HALVINGS(WL_SLOTS_LEAST(capacity, n##_size) * n##_size) }
#define WL_SLOT_COUNT(n, capacity) WL_UP(WL_SLOTS_LEAST(capacity, n##_size), (uint64_t)8 << n##_halvings)
#define WL_SHAPE(n, capacity, key, front) {key, ((key) + 7) / 8, WL_STAMP_AT(key), n##_value, n##_size, (uint32_t)WL_SLOT_COUNT(n, capacity), front, n##_halvings}
#define WL_SHAPE_NONE {0, 0, 0, 0, 0, 0, 0, 0}
/* Buckets that one insertion moves while a table grows: it is done after an eighth as many
   insertions as there were buckets. */
#define WL_MOVED 8u
/* A stamp: 23 bits of time below one that says that the slot is taken. */
#define WL_STAMPS 0x7fffffu
#define WL_TAKEN 0x800000u

typedef struct wl_core_table {
    uint8_t *slot[2];            /* short keys (or all), whole keys */
    uint8_t *front[2];           /* their copies in front, if any */
    wl_table_stats stats;        /* since the last flush */
    uint64_t seed[2];
    uint64_t tended;             /* ticks, uncut */
    uint32_t used[2], sweep[2], capacity;
    uint32_t buckets[2];         /* in use; of a table that grows, those before it began to */
    uint32_t split[2];           /* buckets from this one on have been moved; all: the table does not grow now */
    uint32_t most[2];            /* with so many entries it grows; 0 while it does */
    uint32_t top[2];             /* no slot from this one on has ever been taken */
    uint32_t idle;               /* ticks, 0: never */
    uint32_t moves;              /* counted up when an entry moves or goes */
    bool lru;
    bool copies;                 /* those in front are used */
    uint64_t asked, copied;      /* since that was decided: lookups, and of these by copies */
    uint64_t walk, walked;       /* the cursor last given out, and the hash of the key before it */
} wl_core_table;

/* The time in ticks of 2^shift ns, as a stamp. */
WL_INLINE uint32_t wl_tick(const wl_core *c, const unsigned shift) { return ((uint32_t)(c->now >> shift) & WL_STAMPS) | WL_TAKEN; }

WL_INLINE uint64_t wl_mix(uint64_t a, uint64_t b) { unsigned __int128 m = (unsigned __int128)a * b; return (uint64_t)m ^ (uint64_t)(m >> 64); }
/* Both factors are secret: keys that collide cannot be chosen. */
WL_INLINE uint64_t wl_core_table_hash(const wl_core_table *t, const uint64_t *k, const unsigned words) {
    uint64_t h = t->seed[0];
    for (unsigned i = 0; i < words; i += 2) h = wl_mix(k[i] ^ h, (i + 1 < words ? k[i + 1] : 0) ^ t->seed[1]);
    return h;
}

/* ---- a slot ---- */

WL_INLINE uint64_t wl_slot_word(const uint8_t *s, unsigned i) { uint64_t w; memcpy(&w, s + 8 * i, 8); return w; }
WL_INLINE uint64_t wl_key_mask(const wl_shape g) { return g.key % 8 ? (UINT64_C(1) << g.key % 8 * 8) - 1 : UINT64_MAX; }
WL_INLINE uint32_t wl_slot_stamp(const uint8_t *s, const wl_shape g) {
    if (WL_STAMP_INSIDE(g.key)) return (uint32_t)(wl_slot_word(s, g.words - 1) >> g.key % 8 * 8) & (WL_TAKEN | WL_STAMPS);
    return wl_le32(s + g.stamp);
}
WL_INLINE void wl_slot_touch(uint8_t *s, const wl_shape g, uint32_t tick) {
    if (WL_STAMP_INSIDE(g.key)) {
        /* The word as a whole, so that a load of it right behind need not wait. */
        uint64_t w = wl_slot_word(s, g.words - 1);
        w = (w & ~((uint64_t)(WL_TAKEN | WL_STAMPS) << g.key % 8 * 8)) | (uint64_t)tick << g.key % 8 * 8;
        memcpy(s + 8 * (g.words - 1), &w, 8);
    } else {
        memcpy(s + g.stamp, &tick, 4);
    }
}
/* Whether the slot is taken and has the key. */
WL_INLINE bool wl_slot_has(const uint8_t *s, const wl_shape g, const uint64_t *k) {
    uint64_t taken = WL_STAMP_INSIDE(g.key) ? (uint64_t)WL_TAKEN << g.key % 8 * 8 : 0;
    uint64_t d = (wl_slot_word(s, g.words - 1) ^ (k[g.words - 1] | taken)) & (wl_key_mask(g) | taken);
    for (unsigned i = 0; i + 1 < g.words; i++) d |= wl_slot_word(s, i) ^ k[i];
    if (!WL_STAMP_INSIDE(g.key)) d |= !wl_le32(s + g.stamp);
    return d == 0;
}
/* The key's words, at most 64 of them. */
static inline void wl_slot_key(const uint8_t *s, const wl_shape g, uint64_t *k) {
    memcpy(k, s, 8 * g.words);
    k[g.words - 1] &= wl_key_mask(g);
}
WL_INLINE bool wl_slot_expired(const wl_core_table *t, uint32_t stamp, uint32_t tick) { return t->idle && ((tick - stamp) & WL_STAMPS) > t->idle; }

/* ---- one array ---- */

WL_INLINE uint8_t *wl_slot_at(const wl_core_table *t, const unsigned part, const wl_shape g, uint32_t i) { return t->slot[part] + (size_t)i * g.size; }
/* Slots that fill a cache line. A search begins at the first of them, and looks at all of them at
   once. */
WL_INLINE unsigned wl_core_table_bucket(const wl_shape g) { return 64 % g.size ? 1 : 64 / g.size; }
/* The bucket of a hash, of so many in use. */
WL_INLINE uint32_t wl_bucket_of(const wl_shape g, uint64_t h, uint32_t buckets, uint32_t split) {
    if (!g.halvings) return (uint32_t)((uint64_t)(uint32_t)h * (g.slots / wl_core_table_bucket(g)) >> 32);
    const uint64_t place = (uint64_t)(uint32_t)h * buckets;
    const uint32_t old = (uint32_t)(place >> 32);
    return old < split ? old : (uint32_t)(place >> 31);
}
WL_INLINE uint32_t wl_core_table_home(const wl_core_table *t, const unsigned part, const wl_shape g, uint64_t h) {
    return wl_bucket_of(g, h, t->buckets[part], t->split[part]) * wl_core_table_bucket(g);
}

/* Where the copy of a key's slot would be, in front. */
WL_INLINE uint8_t *wl_front_at(const wl_core_table *t, const unsigned part, const wl_shape g, uint64_t h) { return t->front[part] + (size_t)((uint32_t)(h >> 32) & (g.front - 1)) * g.size; }
WL_INLINE bool wl_front_has(const uint8_t *c, const wl_shape g, const uint64_t *k, uint32_t tick) { return ((unsigned)(wl_slot_stamp(c, g) == tick) & (unsigned)wl_slot_has(c, g, k)) != 0; }
/* Whether there are copies to look at. */
WL_INLINE bool wl_front_used(const wl_core_table *t, const wl_shape g) { return g.front && t->copies; }
WL_INLINE void wl_front_drop(const wl_core_table *t, const unsigned part, const wl_shape g, const uint64_t *k, uint64_t h) {
    if (!wl_front_used(t, g)) return;
    uint8_t *c = wl_front_at(t, part, g, h);
    if (wl_slot_has(c, g, k)) wl_slot_touch(c, g, 0);
}

/* Empties slot i; entries behind it move up, so that no search is cut. */
static __attribute__((noinline)) void wl_core_table_free(wl_core_table *t, unsigned part, const wl_shape g, uint32_t i) {
    uint32_t hole = i, j = i;
    if (wl_front_used(t, g)) {
        uint64_t k[64];
        wl_slot_key(wl_slot_at(t, part, g, i), g, k);
        wl_front_drop(t, part, g, k, wl_core_table_hash(t, k, g.words));
    }
    for (;;) {
        if (++j == g.slots) j = 0;
        const uint8_t *s = wl_slot_at(t, part, g, j);
        if (!wl_slot_stamp(s, g)) break;
        uint64_t k[64];
        wl_slot_key(s, g, k);
        uint32_t home = wl_core_table_home(t, part, g, wl_core_table_hash(t, k, g.words));
        /* It may fill the hole if its home is not between the hole (not included) and itself. */
        bool between = hole < j ? home > hole && home <= j : home > hole || home <= j;
        if (between) continue;
        memcpy(wl_slot_at(t, part, g, hole), s, g.size);
        hole = j;
    }
    wl_slot_touch(wl_slot_at(t, part, g, hole), g, 0);
    t->used[part]--;
    t->stats.entries--;
    t->moves++;
}
/* The slots of a bucket that are taken and have the key, a bit for each. There are no branches,
 * because the slot cannot be predicted. Loads are word by word. In a burst of one flow, the frame
 * before has just stored into the slot, and a wider load would wait for that. */
WL_INLINE unsigned wl_bucket_has(const uint8_t *s, const wl_shape g, const uint64_t *k) {
    unsigned has = 0;
    for (unsigned j = 0; j < wl_core_table_bucket(g); j++) {
        unsigned one = wl_slot_has(s + j * g.size, g, k);
        __asm__("" : "+r"(one));   /* no wider loads */
        has |= one << j;
    }
    return has;
}
/* The key's slot, or NULL. */
WL_INLINE uint8_t *wl_core_table_seek_in(wl_core_table *t, const unsigned part, const wl_shape g, const uint64_t *k, uint64_t h, uint32_t tick) {
    const unsigned bucket = wl_core_table_bucket(g);
    for (uint32_t i = wl_core_table_home(t, part, g, h);;) {
        uint8_t *s = wl_slot_at(t, part, g, i);
        const unsigned here = wl_bucket_has(s, g, k);
        if (WL_LIKELY(here)) {
            const unsigned j = bucket > 1 ? (unsigned)__builtin_ctz(here) : 0;
            if (WL_LIKELY(!wl_slot_expired(t, wl_slot_stamp(s + j * g.size, g), tick))) return s + j * g.size;
            wl_core_table_free(t, part, g, i + j);
            t->stats.expired++;
            return NULL;
        }
        for (unsigned j = 0; j < bucket; j++) if (!wl_slot_stamp(s + j * g.size, g)) return NULL;
        i += bucket;
        if (WL_UNLIKELY(i == g.slots)) i = 0;
    }
}
/* Begins with an empty array. */
static inline void wl_core_table_begin(wl_core_table *t, const unsigned part, const wl_shape g) {
    if (!g.slots) return;
    t->buckets[part] = t->split[part] = g.slots / wl_core_table_bucket(g) >> g.halvings;
    t->most[part] = g.halvings ? t->buckets[part] * wl_core_table_bucket(g) / 8 * 3 : UINT32_MAX;
    t->top[part] = t->sweep[part] = 0;
}
/* Looks at n slots from `from` on; how many had expired. */
static __attribute__((noinline)) uint32_t wl_core_table_expire(wl_core_table *t, unsigned part, const wl_shape g, uint32_t from, uint32_t n, uint32_t tick) {
    uint32_t gone = 0;
    for (uint32_t i = from; n-- > 0; i = i + 1 == g.slots ? 0 : i + 1)
        /* An entry that moves up into the slot is checked, too. */
        for (uint32_t stamp; (stamp = wl_slot_stamp(wl_slot_at(t, part, g, i), g)) && wl_slot_expired(t, stamp, tick); gone++) {
            wl_core_table_free(t, part, g, i);
            t->stats.expired++;
        }
    return gone;
}
/* Evicts the oldest entry of at least `least` slots from i on, going on to one that is taken if
   `on`. */
static inline bool wl_core_table_evict(wl_core_table *t, unsigned part, const wl_shape g, uint32_t i, uint32_t least, bool on, uint32_t tick) {
    uint32_t oldest = UINT32_MAX, age = 0;
    for (uint32_t k = 0; k < g.slots && (k < least || (on && oldest == UINT32_MAX)); k++, i = i + 1 == g.slots ? 0 : i + 1) {
        uint32_t stamp = wl_slot_stamp(wl_slot_at(t, part, g, i), g), old = (tick - stamp) & WL_STAMPS;
        if (stamp && (oldest == UINT32_MAX || old > age)) { oldest = i; age = old; }
    }
    if (oldest == UINT32_MAX) return false;
    wl_core_table_free(t, part, g, oldest);
    t->stats.evictions++;
    return true;
}

/* ---- a table: g[0] is the shape of short keys (or all), g[1] that of whole ones (or none) ---- */

WL_INLINE uint64_t wl_core_table_hash_of(const wl_core_table *t, const wl_shape *g, unsigned part, const uint64_t *k) {
    return g[1].slots && part ? wl_core_table_hash(t, k, g[1].words) : wl_core_table_hash(t, k, g[0].words);
}
/* Whether there are entries. */
WL_INLINE bool wl_core_table_any(const wl_core_table *t) { return (t->used[0] + t->used[1]) != 0; }
/* Whether more than three of eight slots are taken, so that a search often goes on in the next
   line. */
WL_INLINE bool wl_core_table_crowded(const wl_core_table *t, unsigned part, const wl_shape g) { return t->used[part] > g.slots / 8 * 3; }
/* Fetches a slot: both lines, if it lies in two; the next line, too, where a search often goes on
   in it. */
WL_INLINE void wl_slot_prefetch(const wl_shape g, const uint8_t *p, bool crowded) {
    // Into the second cache: a core has more lines on their way to it than to the first.
    __builtin_prefetch(p, 0, 2);
    if (64 % g.size) __builtin_prefetch(p + g.size - 1, 0, 2);
    else if (crowded) __builtin_prefetch(p + 64, 0, 2);
}
WL_INLINE void wl_core_table_prefetch(const wl_core_table *t, const wl_shape *g, unsigned part, const uint64_t *k, uint64_t h, uint32_t tick) {
    if (WL_UNLIKELY(!wl_core_table_any(t))) return;
    if (g[1].slots && WL_UNLIKELY(part)) {
        if (wl_front_used(t, g[1]) && wl_front_has(wl_front_at(t, 1, g[1], h), g[1], k, tick)) return;
        wl_slot_prefetch(g[1], wl_slot_at(t, 1, g[1], wl_core_table_home(t, 1, g[1], h)), wl_core_table_crowded(t, 1, g[1]));
        return;
    }
    const uint8_t *p = wl_slot_at(t, 0, g[0], wl_core_table_home(t, 0, g[0], h));
    /* Chosen without a branch: whether there is a copy cannot be foretold. */
    if (WL_UNLIKELY(wl_front_used(t, g[0]))) { const uint8_t *c = wl_front_at(t, 0, g[0], h); p = wl_front_has(c, g[0], k, tick) ? c : p; }
    wl_slot_prefetch(g[0], p, wl_core_table_crowded(t, 0, g[0]));
}
WL_INLINE bool wl_core_table_has_in(const wl_core_table *t, const unsigned part, const wl_shape g, const uint64_t *k, uint64_t h, uint32_t tick) {
    for (uint32_t i = wl_core_table_home(t, part, g, h);; i = i + 1 == g.slots ? 0 : i + 1) {
        const uint8_t *s = wl_slot_at(t, part, g, i);
        if (!wl_slot_stamp(s, g)) return false;
        if (wl_slot_has(s, g, k)) return !wl_slot_expired(t, wl_slot_stamp(s, g), tick);
    }
}
/* Whether wl_core_table_find would find the key; nothing is changed. */
WL_INLINE bool wl_core_table_has(const wl_core_table *t, const wl_shape *g, unsigned part, const uint64_t *k, uint64_t h, uint32_t tick) {
    return g[1].slots && WL_UNLIKELY(part) ? wl_core_table_has_in(t, 1, g[1], k, h, tick) : wl_core_table_has_in(t, 0, g[0], k, h, tick);
}
/* The slot of a key, used now; NULL: there is none. */
WL_INLINE uint8_t *wl_core_table_use(wl_core_table *t, const unsigned part, const wl_shape g, const uint64_t *k, uint64_t h, uint32_t tick) {
    uint8_t *s = wl_core_table_seek_in(t, part, g, k, h, tick);
    if (s) wl_slot_touch(s, g, tick);
    return s;
}
WL_INLINE void *wl_core_table_change_in(wl_core_table *t, const unsigned part, const wl_shape g, const uint64_t *k, uint64_t h, uint32_t tick) {
    wl_front_drop(t, part, g, k, h);
    uint8_t *s = wl_core_table_use(t, part, g, k, h, tick);
    return s ? s + g.value : NULL;
}
/* The key's value, to be changed, or NULL. */
WL_INLINE void *wl_core_table_seek(wl_core_table *t, const wl_shape *g, unsigned part, const uint64_t *k, uint64_t h, uint32_t tick) {
    return g[1].slots && WL_UNLIKELY(part) ? wl_core_table_change_in(t, 1, g[1], k, h, tick) : wl_core_table_change_in(t, 0, g[0], k, h, tick);
}
/* The same where the program reads it first: that is a lookup, which wl_core_table_asked counts. */
WL_INLINE void *wl_core_table_find(wl_core_table *t, const wl_shape *g, unsigned part, const uint64_t *k, uint64_t h, uint32_t tick) {
    /* Nothing is fetched from a table that has nothing. */
    return WL_UNLIKELY(!wl_core_table_any(t)) ? NULL : wl_core_table_seek(t, g, part, k, h, tick);
}
WL_INLINE void wl_core_table_asked(wl_core_table *t, bool found) { if (WL_LIKELY(found)) t->stats.hits++; else t->stats.misses++; }
/* The value is copied before its slot is written to: a load of bytes that have just been stored has
   to wait for the store. */
WL_INLINE bool wl_core_table_read_in(wl_core_table *t, const unsigned part, const wl_shape g, const uint64_t *k, uint64_t h, uint32_t tick, void *to, const uint32_t n) {
    const bool copies = WL_UNLIKELY(wl_front_used(t, g));
    if (copies) {
        uint8_t *c = wl_front_at(t, part, g, h);
        if (wl_front_has(c, g, k, tick)) { memcpy(to, c + g.value, n); t->copied++; return true; }
    }
    uint8_t *s = wl_core_table_seek_in(t, part, g, k, h, tick);
    if (!s) return false;
    memcpy(to, s + g.value, n);
    wl_slot_touch(s, g, tick);
    if (WL_UNLIKELY(copies)) memcpy(wl_front_at(t, part, g, h), s, g.size);
    return true;
}
/* Reads the key's value of n bytes; false: there is none. To be counted by wl_core_table_asked. */
WL_INLINE bool wl_core_table_read(wl_core_table *t, const wl_shape *g, unsigned part, const uint64_t *k, uint64_t h, uint32_t tick, void *to, const uint32_t n) {
    bool found = false;
    if (WL_LIKELY(wl_core_table_any(t))) found = g[1].slots && WL_UNLIKELY(part) ? wl_core_table_read_in(t, 1, g[1], k, h, tick, to, n) : wl_core_table_read_in(t, 0, g[0], k, h, tick, to, n);
    return found;
}
/* ---- the keys of a batch ---- */

/* The start of searches in one array: in registers, because stores to frames and tables could touch
   it where it lies. */
typedef struct wl_places { uint8_t *slot, *end; uint32_t buckets, split, idle; bool any, crowded; } wl_places;
WL_INLINE wl_places wl_core_table_places(const wl_core_table *t, const unsigned part, const wl_shape g) {
    uint32_t idle = t->idle ? t->idle : WL_STAMPS;
    __asm__("" : "+r"(idle));   /* one comparison, not two */
    return (wl_places){
        .slot = t->slot[part], .end = wl_slot_at(t, part, g, g.slots), .buckets = t->buckets[part], .split = t->split[part],
        .idle = idle, .any = t->used[part] != 0, .crowded = wl_core_table_crowded(t, part, g),
    };
}
/* The slot at which a search begins. */
WL_INLINE uint8_t *wl_place_of(const wl_places p, const wl_shape g, uint64_t h) {
    return p.slot + (uint64_t)wl_bucket_of(g, h, p.buckets, p.split) * (wl_core_table_bucket(g) * g.size);
}
/* As wl_bucket_has, but a bit for each word of eight bytes: those of a slot's first word. All of
 * the line at once, as no frame of this batch has stored anything in it. */
WL_INLINE unsigned wl_slots_with(const uint8_t *s, const wl_shape g, const uint64_t *k) {
    const unsigned each = g.size / 8, slots = wl_core_table_bucket(g);
#ifdef WL_AVX512
    if (slots > 1) {
        const unsigned first = each == 1 ? 0xff : each == 2 ? 0x55 : 0x11, stamped = WL_STAMP_INSIDE(g.key), last = g.words - 1;
        const uint64_t taken = stamped ? (uint64_t)WL_TAKEN << g.key % 8 * 8 : 0;
        const __m512i stamps = _mm512_maskz_set1_epi64((__mmask8)(first << last), (int64_t)taken);
        const __m512i mask = _mm512_mask_set1_epi64(_mm512_set1_epi64(-1), (__mmask8)(first << last), (int64_t)(wl_key_mask(g) | taken));
        __m512i key = _mm512_set1_epi64((int64_t)k[0]);
        for (unsigned w = 1; w < g.words; w++) key = _mm512_mask_set1_epi64(key, (__mmask8)(first << w), (int64_t)k[w]);
        const unsigned same = _mm512_testn_epi64_mask(_mm512_ternarylogic_epi64(_mm512_loadu_si512(s), key, stamps, 0x96), mask);
        unsigned has = same & first;
        for (unsigned w = 1; w < g.words; w++) has &= same >> w;
        if (!stamped) for (unsigned j = 0; j < slots; j++) has &= ~((unsigned)!wl_slot_stamp(s + j * g.size, g) << j * each);
        return has;
    }
#endif
    unsigned has = 0;
    for (unsigned j = 0; j < slots; j++) has |= (unsigned)wl_slot_has(s + j * g.size, g, k) << j * each;
    return has;
}
/* The key's slot, if it is there and has not expired; the search begins at `s`. Nothing is
   changed. */
WL_INLINE uint8_t *wl_place_peek(const wl_places p, const wl_shape g, uint8_t *s, const uint64_t *k, uint32_t tick) {
    for (;;) {
        const unsigned has = wl_slots_with(s, g, k);
        if (WL_LIKELY(has)) {
            s += 8 * (unsigned)__builtin_ctz(has);
            return WL_LIKELY(((tick - wl_slot_stamp(s, g)) & WL_STAMPS) <= p.idle) ? s : NULL;
        }
        for (unsigned j = 0; j < wl_core_table_bucket(g); j++) if (!wl_slot_stamp(s + j * g.size, g)) return NULL;
        s += wl_core_table_bucket(g) * g.size;
        if (WL_UNLIKELY(s == p.end)) s = p.slot;
    }
}
/* Uses the earlier result of wl_place_peek, given the number of moves at that time. NULL: there was
   none, or it may no longer hold. */
WL_INLINE uint8_t *wl_core_table_still(const wl_core_table *t, const wl_shape g, uint8_t *s, uint32_t moves, uint32_t tick) {
    if (WL_UNLIKELY(t->moves != moves || !s)) return NULL;
    wl_slot_touch(s, g, tick);
    return s;
}
/* As wl_core_table_find and wl_core_table_read, with the result of wl_core_table_still for a short
   key. */
WL_INLINE void *wl_core_table_find_at(wl_core_table *t, const wl_shape *g, uint8_t *s, unsigned part, const uint64_t *k, uint64_t h, uint32_t tick) {
    if (WL_UNLIKELY(!s)) return wl_core_table_find(t, g, part, k, h, tick);
    wl_front_drop(t, 0, g[0], k, h);
    return s + g[0].value;
}
WL_INLINE bool wl_core_table_read_at(wl_core_table *t, const wl_shape *g, const uint8_t *s, unsigned part, const uint64_t *k, uint64_t h, uint32_t tick, void *to, const uint32_t n) {
    if (WL_UNLIKELY(!s)) return wl_core_table_read(t, g, part, k, h, tick, to, n);
    memcpy(to, s + g[0].value, n);
    return true;
}
/* Looks at the next n slots that have ever been taken; returns how many had expired. */
static __attribute__((noinline)) uint32_t wl_core_table_sweep_on(wl_core_table *t, unsigned part, const wl_shape g, uint32_t n, uint32_t tick) {
    const uint32_t top = t->top[part], from = t->sweep[part] < top ? t->sweep[part] : 0;
    if (n > top) n = top;
    const uint32_t first = n < top - from ? n : top - from;
    t->sweep[part] = first < n ? n - first : from + first;
    return wl_core_table_expire(t, part, g, from, first, tick) + wl_core_table_expire(t, part, g, 0, n - first, tick);
}
/* Moves an entry to its home, and closes the gap. */
static inline void wl_core_table_move(wl_core_table *t, const unsigned part, const wl_shape g, uint32_t from, uint32_t to) {
    while (wl_slot_stamp(wl_slot_at(t, part, g, to), g)) if (++to == g.slots) to = 0;
    memcpy(wl_slot_at(t, part, g, to), wl_slot_at(t, part, g, from), g.size);
    if (to >= t->top[part]) t->top[part] = to + 1;
    wl_core_table_free(t, part, g, from);
    t->used[part]++;
    t->stats.entries++;
}
/* Moves the entries of the last bucket that has not been moved; expired ones are
   dropped. */
static inline void wl_core_table_move_bucket(wl_core_table *t, const unsigned part, const wl_shape g, uint32_t tick) {
    const uint32_t b = --t->split[part];
    /* They lie from their home on, up to the next empty slot. */
    for (uint32_t i = b * wl_core_table_bucket(g); i < g.slots;) {
        const uint8_t *s = wl_slot_at(t, part, g, i);
        const uint32_t stamp = wl_slot_stamp(s, g);
        if (!stamp) break;
        if (wl_slot_expired(t, stamp, tick)) { wl_core_table_free(t, part, g, i); t->stats.expired++; continue; }
        uint64_t k[64];
        wl_slot_key(s, g, k);
        const uint64_t h = wl_core_table_hash(t, k, g.words);
        const uint32_t home = wl_core_table_home(t, part, g, h);
        const bool moves = (uint64_t)(uint32_t)h * t->buckets[part] >> 32 == b && home > i;
        if (moves) wl_core_table_move(t, part, g, i, home); else i++;
    }
}
/* The table grows by a few buckets. */
static __attribute__((noinline)) void wl_core_table_grow(wl_core_table *t, const unsigned part, const wl_shape g, uint32_t tick) {
    t->most[part] = 0;
    for (unsigned n = 0; n < WL_MOVED && t->split[part]; n++) wl_core_table_move_bucket(t, part, g, tick);
    if (t->split[part]) return;
    const uint32_t all = g.slots / wl_core_table_bucket(g);
    t->split[part] = t->buckets[part] *= 2;
    t->most[part] = t->buckets[part] < all ? t->buckets[part] * wl_core_table_bucket(g) / 8 * 3 : UINT32_MAX;
}
/* Makes room for one more entry. */
static __attribute__((noinline, cold)) bool wl_core_table_reclaim(wl_core_table *t, const wl_shape *g, unsigned part, uint64_t h, uint32_t tick) {
    uint32_t home = wl_core_table_home(t, part, g[part], h);
    if (t->idle && wl_core_table_expire(t, part, g[part], home, 16, tick)) return true;
    if (t->lru) {
        if (wl_core_table_evict(t, part, g[part], home, 16, false, tick)) return true;
        unsigned full = t->used[1] > t->used[0];
        return wl_core_table_evict(t, full, g[full], wl_core_table_home(t, full, g[full], h), 16, true, tick);
    }
    /* A piece of each array: a full table of live entries stays full. */
    for (unsigned p = 0; t->idle && p < 2; p++) {
        if (!t->used[p]) continue;
        if (wl_core_table_sweep_on(t, p, g[p], 512, tick)) return true;
    }
    return false;
}
WL_INLINE void *wl_core_table_add_to(wl_core_table *t, const unsigned part, const wl_shape g, const uint64_t *k, uint64_t h, uint32_t tick) {
    if (g.halvings && WL_UNLIKELY(t->used[part] >= t->most[part])) wl_core_table_grow(t, part, g, tick);
    uint32_t i = wl_core_table_home(t, part, g, h);
    while (wl_slot_stamp(wl_slot_at(t, part, g, i), g)) if (++i == g.slots) i = 0;
    if (i >= t->top[part]) t->top[part] = i + 1;
    uint8_t *s = wl_slot_at(t, part, g, i);
    for (unsigned w = 0; w < g.words; w++) memcpy(s + 8 * w, &k[w], 8);
    wl_slot_touch(s, g, tick);
    t->used[part]++;
    return s + g.value;
}
/* Room for the value of a key that is not there; NULL: the table is full. */
WL_INLINE void *wl_core_table_add(wl_core_table *t, const wl_shape *g, unsigned part, const uint64_t *k, uint64_t h, uint32_t tick) {
    if (WL_UNLIKELY(t->used[0] + t->used[1] >= t->capacity) && !wl_core_table_reclaim(t, g, part, h, tick)) { t->stats.rejected++; return NULL; }
    t->stats.entries++;
    t->stats.inserts++;
    return g[1].slots && WL_UNLIKELY(part) ? wl_core_table_add_to(t, 1, g[1], k, h, tick) : wl_core_table_add_to(t, 0, g[0], k, h, tick);
}
WL_INLINE bool wl_core_table_remove(wl_core_table *t, const wl_shape *g, unsigned part, const uint64_t *k, uint64_t h, uint32_t tick) {
    if (!g[1].slots) part = 0;
    uint8_t *s = wl_core_table_seek_in(t, part, g[part], k, h, tick);
    if (s) wl_core_table_free(t, part, g[part], (uint32_t)((size_t)(s - t->slot[part]) / g[part].size));
    return s != NULL;
}
static inline uint64_t wl_core_table_len(wl_core_table *t, const wl_shape *g, uint32_t tick) {
    for (unsigned p = 0; t->idle && p < 2; p++) if (t->used[p]) wl_core_table_expire(t, p, g[p], 0, t->top[p], tick);
    return (uint64_t)t->used[0] + t->used[1];
}
static inline uint64_t wl_slot_hash(const wl_core_table *t, const uint8_t *s, const wl_shape g) {
    uint64_t k[64];
    wl_slot_key(s, g, k);
    return wl_core_table_hash(t, k, g.words);
}
/* The next taken slot from *cursor on, and its array. The cursor moves behind it. NULL: none is
 * near; if the cursor is all ones, the walk has ended. If the last slot was removed and another
 * entry has moved up there, that entry is the next one. */
static inline const uint8_t *wl_core_table_next(wl_core_table *t, const wl_shape *g, uint64_t *cursor, unsigned *part, uint32_t tick) {
    const uint64_t all = (uint64_t)g[0].slots + g[1].slots;
    bool back = *cursor && *cursor == t->walk;
    for (unsigned near = 0; near < WL_WALK; near++, back = false) {
        if (*cursor >= all && !back) { *cursor = UINT64_MAX; break; }
        uint64_t at = *cursor - back;
        unsigned p = *part = at >= g[0].slots;
        if (!t->used[p] || at - (p ? g[0].slots : 0) >= t->top[p]) { *cursor = p ? all : g[0].slots; continue; }
        const uint8_t *s = wl_slot_at(t, p, g[p], (uint32_t)(at - (p ? g[0].slots : 0)));
        uint32_t stamp = wl_slot_stamp(s, g[p]);
        *cursor = at + 1;
        if (!stamp || wl_slot_expired(t, stamp, tick)) continue;
        uint64_t hash = wl_slot_hash(t, s, g[p]);
        if (back && hash == t->walked) continue;
        t->walk = *cursor;
        t->walked = hash;
        return s;
    }
    return NULL;
}

/* Whether copies are used from now on; to be called behind a batch. They stay as long as they
 * answer seven of eight lookups. That is judged after sixteen lookups for each slot. If they do
 * not, they are tried again after 64 times as many. */
static inline void wl_front_weigh(wl_core_table *t, const wl_shape *g) {
    const uint64_t trial = UINT64_C(16) * g[0].front;
    t->asked += t->stats.hits + t->stats.misses;
    if (WL_LIKELY(t->asked < (t->copies ? trial : 64 * trial))) return;
    const bool tried = t->copies;
    t->copies = !tried || t->copied >= t->asked / 8 * 7;
    t->asked = t->copied = 0;
    /* Changes since then have dropped no copies. */
    for (unsigned p = 0; p < 2 && !tried; p++) if (t->front[p]) memset(t->front[p], 0, (size_t)g[p].front * g[p].size);
}

/* Bits that are set: the length of a prefix's mask. */
static inline uint32_t wl_ones(const uint64_t *w, unsigned n) { uint32_t k = 0; for (unsigned i = 0; i < n; i++) k += (uint32_t)__builtin_popcountll(w[i]); return k; }
/* Adds a batch's counts to the statistics that all cores share. */
static inline void wl_stats_flush(wl_table_stats *since, wl_table_stats *to) {
    uint64_t *from = (uint64_t *)(void *)since, *all = (uint64_t *)(void *)to;
    for (unsigned i = 0; i < sizeof(wl_table_stats) / 8; i++) if (from[i]) { __atomic_fetch_add(&all[i], from[i], __ATOMIC_RELAXED); from[i] = 0; }
}

#include "idle_expiry.h"
#endif
