/* Tables of one core (support/core_hash_table.h) against a plain list. Keys have 9 to 37 bytes;
 * slots fill a cache line in fours, in twos and alone. Use, removal, expiry, eviction, walks and
 * growth are tested, with and without a cache in front. */
#define WL_LAYERS 1
#define WL_SLOTS 2
#include "wireloom.h"
#include "base.h"
#include "core_hash_table.h"
#include <stdio.h>
#include <stdlib.h>

#define NEED(e) do { if (!(e)) { printf("line %d: %s\n", __LINE__, #e); exit(1); } } while (0)
#define CAPACITY 40u
#define KEYS 120u
#define SHIFT 20u
#define IDLE 1000u

typedef struct entry { uint64_t a, b; } entry;
#define FRONT 16u
WL_SLOT_NAMES(of_13, CAPACITY, 13, entry);
WL_SLOT_NAMES(of_37, CAPACITY, 37, entry);
WL_SLOT_NAMES(of_16, CAPACITY, 16, uint32_t);
WL_SLOT_NAMES(of_9, CAPACITY, 9, uint32_t);
static const wl_shape shape[2] = {WL_SHAPE(of_13, CAPACITY, 13, 0), WL_SHAPE(of_37, CAPACITY, 37, 0)};
static const wl_shape plain[2] = {WL_SHAPE(of_16, CAPACITY, 16, 0), WL_SHAPE_NONE};
static const wl_shape narrow[2] = {WL_SHAPE(of_9, CAPACITY, 9, 0), WL_SHAPE_NONE};
static const wl_shape cached[2] = {WL_SHAPE(of_13, CAPACITY, 13, FRONT), WL_SHAPE(of_37, CAPACITY, 37, FRONT)};
/* Tables that begin with a quarter of their places. */
#define GROWN_SLOTS 96u
#define GROWS(n, key, front) {key, ((key) + 7) / 8, WL_STAMP_AT(key), n##_value, n##_size, GROWN_SLOTS, front, 2}
static const wl_shape grows[2] = {GROWS(of_13, 13, 0), GROWS(of_37, 37, 0)};
static const wl_shape grows_cached[2] = {GROWS(of_13, 13, FRONT), GROWS(of_37, 37, FRONT)};
static const wl_shape grows_narrow[2] = {GROWS(of_9, 9, 0), WL_SHAPE_NONE};
static _Alignas(64) uint8_t front[2][FRONT * of_37_size];
/* Reads that have been answered by the cache. */
static uint64_t quick;
static _Alignas(64) uint8_t memory[2][WL_SLOT_COUNT(of_37, CAPACITY) * of_37_size];

static uint64_t state = 1;
static uint32_t any(uint32_t below) {
    state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)((state >> 33) % below);
}

/* Number n as a key: the first half short, the others whole. Key 0 is all zeros. */
static unsigned key(uint32_t n, const wl_shape *g, uint64_t *k) {
    unsigned part = g[1].slots && n >= KEYS / 2;
    memset(k, 0, 40);
    k[0] = n * UINT64_C(0x9e3779b97f4a7c15);
    k[g[part].words - 1] |= n & 255;
    return part;
}

typedef struct { bool there; uint64_t used, value; } model;
static model m[KEYS];
static uint64_t now;   /* ticks */

static uint64_t live(uint32_t idle) {
    uint64_t n = 0;
    for (uint32_t i = 0; i < KEYS; i++) {
        if (m[i].there && idle && now - m[i].used > idle) m[i].there = false;
        n += m[i].there;
    }
    return n;
}
static uint64_t get(const void *v, const wl_shape *g) { uint32_t w; if (!g[1].slots) { memcpy(&w, v, 4); return w; } return ((const entry *)v)->b; }
static void set(void *v, const wl_shape *g, uint64_t x) { uint32_t w = (uint32_t)x; if (!g[1].slots) memcpy(v, &w, 4); else *(entry *)v = (entry){~x, x}; }

/* All entries, each once; `take` removes them on the way. */
static uint64_t walk(wl_core_table *t, const wl_shape *g, uint32_t tick, bool take) {
    uint64_t n = 0, at = 0;
    bool seen[KEYS] = {false};
    while (at != UINT64_MAX) {
        unsigned part;
        const uint8_t *s = wl_core_table_next(t, g, &at, &part, tick);
        if (!s) continue;
        uint64_t k[64], mine[5];
        wl_slot_key(s, g[part], k);
        uint32_t i = 0;
        while (i < KEYS && !(key(i, g, mine) == part && memcmp(mine, k, 8 * g[part].words) == 0)) i++;
        NEED(i < KEYS && !seen[i] && m[i].there && get(s + g[part].value, g) == m[i].value);
        seen[i] = true;
        n++;
        if (take) { NEED(wl_core_table_remove(t, g, part, k, wl_core_table_hash_of(t, g, part, k), tick)); m[i].there = false; }
    }
    return n;
}

/* What a batch's end does: the lookups since the last time are judged. */
static void weigh(wl_core_table *t, const wl_shape *g, uint64_t *judged) {
    const wl_table_stats all = t->stats;
    t->stats.hits = all.hits + all.misses - *judged;
    t->stats.misses = 0;
    wl_front_weigh(t, g);
    t->stats = all;
    *judged = all.hits + all.misses;
}

static uint64_t look(wl_core_table *t, uint32_t n, uint32_t tick, uint64_t *seen) {
    uint64_t k[5];
    entry e;
    key(n, cached, k);
    NEED(wl_core_table_read(t, cached, 0, k, wl_core_table_hash_of(t, cached, 0, k), tick, &e, sizeof e));
    wl_core_table_asked(t, true);
    weigh(t, cached, seen);
    return e.b;
}
/* Copies are used as long as they answer most lookups, and tried again after a while; none is older
   than that. */
static void copies_must_pay(void) {
    wl_core_table table = {.slot = {memory[0], memory[1]}, .front = {front[0], front[1]}, .seed = {123, 456}, .capacity = CAPACITY, .copies = true}, *t = &table;
    const uint32_t tick = WL_TAKEN | 7, trial = 16 * FRONT;
    uint64_t k[5], seen = 0;
    memset(memory, 0, sizeof memory);
    memset(front, 0, sizeof front);
    for (unsigned p = 0; p < 2; p++) wl_core_table_begin(t, p, cached[p]);
    for (uint32_t i = 0; i < CAPACITY; i++) { key(i, cached, k); set(wl_core_table_add(t, cached, 0, k, wl_core_table_hash_of(t, cached, 0, k), tick), cached, i); }
    /* The last ones are of entry 3, so that it has a copy. */
    for (uint32_t r = 1; r < trial; r++) { const uint32_t n = r + 3 < trial ? r % CAPACITY : 3; NEED(look(t, n, tick, &seen) == n && t->copies); }
    NEED(t->copied && look(t, 3, tick, &seen) == 3 && !t->copies);
    key(3, cached, k);
    set(wl_core_table_seek(t, cached, 0, k, wl_core_table_hash_of(t, cached, 0, k), tick), cached, 1003);
    for (uint32_t r = 0; r < 64 * trial; r++) NEED(!t->copies && look(t, 3, tick, &seen) == 1003);
    for (uint32_t r = 0; r < 3 * trial; r++) NEED(t->copies && look(t, 3, tick, &seen) == 1003);
    NEED(t->copied == 0 && t->asked == 0);
}

static void run(const wl_shape *g, uint32_t idle, bool lru, uint32_t rounds) {
    wl_core_table table = {.slot = {memory[0], memory[1]}, .front = {front[0], front[1]}, .seed = {any(UINT32_MAX) * UINT64_C(0x123456789abcdef), any(UINT32_MAX) * UINT64_C(0xfedcba987654321)}, .capacity = CAPACITY, .copies = true, .idle = idle, .lru = lru}, *t = &table;
    wl_core core = {0};
    memset(memory, 0, sizeof memory);
    memset(front, 0, sizeof front);
    for (unsigned p = 0; p < 2; p++) wl_core_table_begin(t, p, g[p]);
    const uint32_t begin = t->buckets[0];
    uint32_t halfway = 0, full = 0, again = 0;
    quick = 0;
    uint64_t judged = 0;
    bool tried = false, off = false;
    uint8_t *old = NULL;   /* what a search has answered rounds ago, when there had been so many moves */
    uint32_t old_key = 0, old_moves = 0, held = 0, moved = 0;
    memset(m, 0, sizeof m);
    now = 12345678;
    for (uint32_t r = 0; r < rounds; r++) {
        /* Stamps come round many times; now and then much time passes at once. */
        now += any(50) ? any(40) : any(3) ? any(20) * (UINT64_C(1) << 19) : UINT64_C(1) << 23;
        core.now = now << SHIFT;
        if (idle) wl_core_table_tend(t, g, &core, SHIFT);
        uint64_t before = live(idle), k[5];
        const uint32_t i = any(KEYS), tick = wl_tick(&core, SHIFT), what = any(20);
        const unsigned part = key(i, g, k);
        const uint64_t h = wl_core_table_hash_of(t, g, part, k), x = any(1u << 30);
        const bool crowded = t->used[0] + t->used[1] == CAPACITY;
        void *v;
        wl_core_table_prefetch(t, g, part, k, h, tick);
        /* As long as nothing moves, an entry lies where it was found. */
        if (old) {
            uint64_t other[5];
            const unsigned p = key(old_key, g, other);
            if (t->moves == old_moves) NEED(wl_slot_has(old, g[p], other));
            held += t->moves == old_moves;
            moved += t->moves != old_moves;
        }
        const wl_places places = wl_core_table_places(t, part, g[part]);
        uint8_t *const seen = places.any ? wl_place_peek(places, g[part], wl_place_of(places, g[part], h), k, tick) : NULL;
        NEED((seen != NULL) == m[i].there);
        if (!any(4)) { old = seen; old_key = i; old_moves = t->moves; }
        uint8_t *const at = part || any(2) ? NULL : wl_core_table_still(t, g[0], what < 17 ? seen : NULL, t->moves, tick);
        if (what < 14) {
            v = wl_core_table_find_at(t, g, at, part, k, h, tick);
            wl_core_table_asked(t, v != NULL);
            NEED((v != NULL) == m[i].there);
            if (!v) v = wl_core_table_add(t, g, part, k, h, tick);
            if (!v) { NEED(!lru && before == CAPACITY); continue; }
            set(v, g, x);
            if (!m[i].there && crowded) {
                /* At most one has made room: one that has expired, if it was near. */
                NEED(lru || before < CAPACITY);
                uint32_t gone = 0;
                for (uint32_t j = 0; j < KEYS; j++) {
                    uint64_t other[5];
                    const unsigned p = key(j, g, other);
                    if (!m[j].there) continue;
                    uint8_t *s = wl_core_table_seek_in(t, p, g[p], other, wl_core_table_hash_of(t, g, p, other), tick);
                    if (!s) { m[j].there = false; gone++; }
                }
                NEED(gone <= lru && (gone || before < CAPACITY));
            }
            m[i] = (model){true, now, x};
        } else if (what < 17) {
            for (uint32_t again = 1 + any(3); again-- > 0;) {
                entry e;
                const uint8_t *c = g[0].front ? wl_front_at(t, part, g[part], h) : NULL;
                quick += c && t->copies && wl_front_has(c, g[part], k, tick);
                const bool there = wl_core_table_read_at(t, g, at, part, k, h, tick, &e, g[1].slots ? sizeof e : 4);
                wl_core_table_asked(t, there);
                NEED(there == m[i].there && (!there || get(&e, g) == m[i].value));
                if (there) m[i].used = now;
            }
        } else if (what < 19) {
            NEED(wl_core_table_remove(t, g, part, k, h, tick) == m[i].there);
            m[i].there = false;
        } else {
            NEED(walk(t, g, tick, false) == before);
            NEED(wl_core_table_len(t, g, tick) == before && t->stats.entries == before);
            if (!any(40)) { walk(t, g, tick, true); NEED(wl_core_table_len(t, g, tick) == 0); }
        }
        if (g[0].front) weigh(t, g, &judged);
        /* Seen of growth: entries in old and new homes, all places in use, and a table that was
           emptied by time and begins anew. */
        again += full && t->buckets[0] == begin;
        halfway += t->split[0] && t->split[0] < t->buckets[0];
        full += t->buckets[0] * wl_core_table_bucket(g[0]) == g[0].slots;
        for (uint32_t j = t->top[part]; j < g[part].slots; j++) NEED(!wl_slot_stamp(wl_slot_at(t, part, g[part], j), g[part]));
        tried |= off && t->copies;
        off |= !t->copies;
    }
    NEED(t->stats.hits && t->stats.misses && t->stats.inserts && (!idle || t->stats.expired) && (!lru || t->stats.evictions) && (lru || t->stats.rejected));
    NEED(!g[0].halvings || (halfway && full && (!idle || again)));
    NEED(!g[0].front == !quick && !g[0].front == !tried && held && moved);
}

int main(void) {
    NEED(shape[0].size == 32 && shape[1].size == 64 && narrow[0].size == 16 && WL_STAMP_INSIDE(13) && !WL_STAMP_INSIDE(16));
    for (unsigned i = 0; i < 12; i++) {
        run(i >= 8 ? cached : i & 1 ? shape : plain, i & 2 ? IDLE : 0, i >= 8 ? i & 1 : i & 4, 60000);
    }
    copies_must_pay();
    for (unsigned i = 0; i < 4; i++) run(narrow, i & 1 ? IDLE : 0, i & 2, 60000);
    for (unsigned i = 0; i < 4; i++) {
        run(grows, i & 1 ? IDLE : 0, i & 2, 60000);
        run(grows_cached, i & 1 ? IDLE : 0, i & 2, 60000);
        run(grows_narrow, i & 1 ? IDLE : 0, i & 2, 60000);
    }
    WL_SLOT_NAMES(many, 1000000, 13, entry);
    const wl_shape large = WL_SHAPE(many, 1000000, 13, 0);
    NEED(large.halvings == 9 && large.slots % (8u << 9) == 0 && (uint64_t)large.slots * large.size >> 9 <= WL_FIRST_BYTES && shape[0].halvings == 0);
    puts("good");
    return 0;
}
