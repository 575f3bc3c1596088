/* flow.h: exact-match tables of one core, for frames: keys and values of fixed size, no locks.
 *
 * Open addressing with linear probing over slots of one size; a quarter more slots than the capacity. A slot: when it was last
 * used (0: it is empty), the low half of its key's hash, the key in whole words, the value. Keys are compared by words, so one
 * cache line is touched where the table is not crowded, and it can be fetched ahead for a whole batch (wl_flow_prefetch).
 *
 * Expiry costs nothing per frame: what has expired is absent when it is looked up, is taken by the next insertion that passes, and a few
 * slots are swept per batch. `evict lru` in a full table evicts the oldest of the 16 slots from the key's own place on. All sizes are
 * compile-time constants at every call, so the loops over words unroll. */
#ifndef WL_FLOW_H
#define WL_FLOW_H
#include "table.h"
#include "frame.h"

typedef struct wl_flows {
    uint8_t *slot;
    wl_table_stats stats;        /* since the last flush */
    uint64_t seed;
    uint32_t slots, capacity, used, sweep;
    uint32_t idle;               /* ticks, 0: never */
    bool lru;
} wl_flows;

typedef struct wl_slot { uint32_t seen, hash; } wl_slot;   /* then key words, then the value */

/* A tick is 2^20 ns, about a millisecond. Never 0. */
static inline uint32_t wl_tick(const wl_core *c) { uint32_t t = (uint32_t)(c->now >> 20); return t ? t : 1; }

WL_INLINE uint64_t wl_mix(uint64_t a, uint64_t b) { unsigned __int128 m = (unsigned __int128)a * b; return (uint64_t)m ^ (uint64_t)(m >> 64); }
WL_INLINE uint64_t wl_flow_hash(const wl_flows *t, const uint64_t *k, const unsigned words) {
    uint64_t h = t->seed;
    unsigned i = 0;
    for (; i + 1 < words; i += 2) h = wl_mix(k[i] ^ h, k[i + 1] ^ UINT64_C(0x9e3779b97f4a7c15));
    if (i < words) h = wl_mix(k[i] ^ h, UINT64_C(0xd6e8feb86659fd93));
    return h;
}
WL_INLINE wl_slot *wl_flow_slot(const wl_flows *t, uint32_t i, const unsigned size) { return (wl_slot *)(void *)(t->slot + (size_t)i * size); }
WL_INLINE uint32_t wl_flow_home(const wl_flows *t, uint32_t hash) { return (uint32_t)((uint64_t)hash * t->slots >> 32); }
WL_INLINE uint64_t *wl_slot_key(wl_slot *s) { return (uint64_t *)(void *)(s + 1); }
WL_INLINE void wl_flow_prefetch(const wl_flows *t, uint64_t h, const unsigned size) {
    const uint8_t *p = t->slot + (size_t)wl_flow_home(t, (uint32_t)h) * size;
    __builtin_prefetch(p, 1);
    if (size > 64 || ((uintptr_t)p & 63) + size > 64) __builtin_prefetch(p + size - 1, 1);
}
static inline bool wl_slot_expired(const wl_flows *t, const wl_slot *s, uint32_t tick) { return t->idle && (uint32_t)(tick - s->seen) > t->idle && (int32_t)(tick - s->seen) > 0; }

/* Empties slot i; entries behind it move up, so that no search is cut. */
static inline void wl_flow_free(wl_flows *t, uint32_t i, const unsigned size) {
    uint32_t hole = i, j = i;
    for (;;) {
        if (++j == t->slots) j = 0;
        wl_slot *s = wl_flow_slot(t, j, size);
        if (!s->seen) break;
        uint32_t home = wl_flow_home(t, s->hash);
        /* It may fill the hole if its home is not between the hole (not included) and itself. */
        bool between = hole < j ? home > hole && home <= j : home > hole || home <= j;
        if (between) continue;
        memcpy(wl_flow_slot(t, hole, size), s, size);
        hole = j;
    }
    wl_flow_slot(t, hole, size)->seen = 0;
    t->used--;
    t->stats.entries--;
}
WL_INLINE bool wl_key_eq(const uint64_t *a, const uint64_t *b, const unsigned words) {
    uint64_t d = 0;
    for (unsigned i = 0; i < words; i++) d |= a[i] ^ b[i];
    return d == 0;
}
/* The key's slot, or NULL. */
WL_INLINE wl_slot *wl_flow_seek(wl_flows *t, const uint64_t *k, uint64_t h, const unsigned words, const unsigned size, uint32_t tick) {
    for (uint32_t i = wl_flow_home(t, (uint32_t)h);;) {
        wl_slot *s = wl_flow_slot(t, i, size);
        if (WL_UNLIKELY(!s->seen)) return NULL;
        if (WL_LIKELY(s->hash == (uint32_t)h && wl_key_eq(wl_slot_key(s), k, words))) {
            if (WL_UNLIKELY(wl_slot_expired(t, s, tick))) { wl_flow_free(t, i, size); t->stats.expired++; return NULL; }
            return s;
        }
        if (WL_UNLIKELY(++i == t->slots)) i = 0;
    }
}
WL_INLINE wl_slot *wl_flow_find(wl_flows *t, const uint64_t *k, uint64_t h, const unsigned words, const unsigned size, uint32_t tick) {
    wl_slot *s = wl_flow_seek(t, k, h, words, size, tick);
    if (s) { s->seen = tick; t->stats.hits++; } else t->stats.misses++;
    return s;
}
static inline uint32_t wl_flow_expire(wl_flows *t, uint32_t from, uint32_t n, const unsigned size, uint32_t tick) {
    uint32_t gone = 0;
    for (uint32_t k = 0; k < n; k++) {
        uint32_t i = (uint32_t)(((uint64_t)from + k) % t->slots);
        wl_slot *s = wl_flow_slot(t, i, size);
        /* What moves up into the slot is looked at, too. */
        while (s->seen && wl_slot_expired(t, s, tick)) { wl_flow_free(t, i, size); t->stats.expired++; gone++; }
    }
    return gone;
}
/* A few slots per batch. */
static inline void wl_flow_sweep(wl_flows *t, const unsigned size, uint32_t tick) {
    if (!t->idle || !t->used) return;
    wl_flow_expire(t, t->sweep, 8, size, tick);
    t->sweep = (uint32_t)(((uint64_t)t->sweep + 8) % t->slots);
}
/* Makes room for one more entry. */
static inline __attribute__((noinline, cold)) bool wl_flow_reclaim(wl_flows *t, uint64_t h, const unsigned size, uint32_t tick) {
    uint32_t home = wl_flow_home(t, (uint32_t)h);
    if (t->idle && wl_flow_expire(t, home, 16, size, tick)) return true;
    if (t->lru) {
        uint32_t oldest = UINT32_MAX, age = 0;
        for (uint32_t k = 0; k < t->slots; k++) {
            /* At least 16 slots, and on to one that is taken. */
            if (k >= 16 && oldest != UINT32_MAX) break;
            uint32_t i = (uint32_t)(((uint64_t)home + k) % t->slots);
            wl_slot *s = wl_flow_slot(t, i, size);
            if (s->seen && (oldest == UINT32_MAX || (uint32_t)(tick - s->seen) > age)) { oldest = i; age = (uint32_t)(tick - s->seen); }
        }
        if (oldest == UINT32_MAX) return false;
        wl_flow_free(t, oldest, size);
        t->stats.evictions++;
        return true;
    }
    /* The whole table, a piece at a time: a full table of live entries stays full. */
    for (uint32_t tries = 0; t->idle && tries < 64; tries++) {
        uint32_t gone = wl_flow_expire(t, t->sweep, 64, size, tick);
        t->sweep = (uint32_t)(((uint64_t)t->sweep + 64) % t->slots);
        if (gone) return true;
    }
    return false;
}
/* A new slot for a key that is not there; NULL: the table is full. */
WL_INLINE wl_slot *wl_flow_add(wl_flows *t, const uint64_t *k, uint64_t h, const unsigned words, const unsigned size, uint32_t tick) {
    if (WL_UNLIKELY(t->used >= t->capacity) && !wl_flow_reclaim(t, h, size, tick)) { t->stats.rejected++; return NULL; }
    uint32_t i = wl_flow_home(t, (uint32_t)h);
    while (wl_flow_slot(t, i, size)->seen) if (++i == t->slots) i = 0;
    wl_slot *s = wl_flow_slot(t, i, size);
    s->seen = tick;
    s->hash = (uint32_t)h;
    for (unsigned w = 0; w < words; w++) wl_slot_key(s)[w] = k[w];
    t->used++;
    t->stats.entries++;
    t->stats.inserts++;
    return s;
}
WL_INLINE bool wl_flow_remove(wl_flows *t, const uint64_t *k, uint64_t h, const unsigned words, const unsigned size, uint32_t tick) {
    wl_slot *s = wl_flow_seek(t, k, h, words, size, tick);
    if (s) wl_flow_free(t, (uint32_t)(((uint8_t *)s - t->slot) / size), size);
    return s != NULL;
}
static inline uint64_t wl_flow_len(wl_flows *t, const unsigned size, uint32_t tick) {
    if (t->idle) wl_flow_expire(t, 0, t->slots, size, tick);
    return t->used;
}
/* Bits that are set: the length of a prefix's mask. */
static inline uint32_t wl_ones(const uint64_t *w, unsigned n) { uint32_t k = 0; for (unsigned i = 0; i < n; i++) k += (uint32_t)__builtin_popcountll(w[i]); return k; }
/* The next taken slot from *cursor on, which moves behind it; NULL: that was all. */
static inline wl_slot *wl_flow_next(wl_flows *t, uint64_t *cursor, const unsigned size, uint32_t tick) {
    while (*cursor < t->slots) {
        wl_slot *s = wl_flow_slot(t, (uint32_t)(*cursor)++, size);
        if (s->seen && !wl_slot_expired(t, s, tick)) return s;
    }
    return NULL;
}
/* Adds a batch's counts to the statistics that all cores share. */
static inline void wl_stats_flush(wl_table_stats *since, wl_table_stats *to) {
    uint64_t *from = (uint64_t *)(void *)since, *all = (uint64_t *)(void *)to;
    for (unsigned i = 0; i < sizeof(wl_table_stats) / 8; i++) if (from[i]) { __atomic_fetch_add(&all[i], from[i], __ATOMIC_RELAXED); from[i] = 0; }
}
#endif
