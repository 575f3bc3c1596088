/* sketch.h: Bloom filters, count-min sketches and rings of one core. Keys are hashed words
 * (wl_sketch_hash); the two halves of the hash give any number of places (Kirsch and
 * Mitzenmacher). */
#ifndef WL_SKETCH_H
#define WL_SKETCH_H
#include "core_hash_table.h"

/* 10 bits per entry and 7 places: 1 in 120 wrong answers at capacity. */
#define WL_BLOOM_BITS(capacity) (((uint64_t)(capacity) * 10 + 511) / 512 * 512)
#define WL_CMS_ROWS 4u

typedef struct wl_sketch { uint64_t *words; uint64_t places; wl_table_stats stats; uint64_t seed; } wl_sketch;

WL_INLINE uint64_t wl_sketch_hash(const wl_sketch *s, const uint64_t *k, const unsigned words) {
    uint64_t h = s->seed;
    for (unsigned i = 0; i < words; i++) h = wl_mix(k[i] ^ h, UINT64_C(0x9e3779b97f4a7c15) + i);
    return wl_fmix64(h);
}
WL_INLINE uint64_t wl_sketch_place(const wl_sketch *s, uint64_t h, unsigned i) {
    uint64_t x = h + i * (h >> 32 | h << 32 | 1);
    return (uint64_t)((unsigned __int128)(x * UINT64_C(0xd6e8feb86659fd93)) * s->places >> 64);
}
static inline bool wl_bloom_has(const wl_sketch *s, uint64_t h) {
    for (unsigned i = 0; i < 7; i++) { uint64_t b = wl_sketch_place(s, h, i); if (!(__atomic_load_n(&s->words[b >> 6], __ATOMIC_RELAXED) >> (b & 63) & 1)) return false; }
    return true;
}
/* `shared`: other cores use the words, too. Bits and registers only grow, so one that is there
   needs no change. */
static inline void wl_bloom_add(wl_sketch *s, uint64_t h, const bool shared) {
    bool fresh = false;
    for (unsigned i = 0; i < 7; i++) {
        uint64_t b = wl_sketch_place(s, h, i), bit = UINT64_C(1) << (b & 63);
        if (__atomic_load_n(&s->words[b >> 6], __ATOMIC_RELAXED) & bit) continue;
        fresh = true;
        if (shared) __atomic_fetch_or(&s->words[b >> 6], bit, __ATOMIC_RELAXED); else s->words[b >> 6] |= bit;
    }
    if (fresh) { s->stats.entries++; s->stats.inserts++; }
}
/* A row has `places` counters; the estimate is the smallest of the key's. */
static inline uint64_t wl_cms_get(const wl_sketch *s, uint64_t h) {
    uint64_t least = UINT64_MAX;
    for (unsigned i = 0; i < WL_CMS_ROWS; i++) { uint64_t v = __atomic_load_n(&s->words[i * s->places + wl_sketch_place(s, h, i)], __ATOMIC_RELAXED); if (v < least) least = v; }
    return least;
}
/* Raises the key's counters to a value, as far as they are below it (conservative update). */
static inline void wl_cms_raise(wl_sketch *s, uint64_t h, uint64_t to, const bool shared) {
    for (unsigned i = 0; i < WL_CMS_ROWS; i++) {
        uint64_t *v = &s->words[i * s->places + wl_sketch_place(s, h, i)];
        if (!shared) { if (*v < to) *v = to; continue; }
        uint64_t old = __atomic_load_n(v, __ATOMIC_RELAXED);
        while (old < to && !__atomic_compare_exchange_n(v, &old, to, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {}
    }
}
/* Where cores share the counters each adds its own counts: raising would lose the counts of others
   meanwhile. */
static inline void wl_cms_count(wl_sketch *s, uint64_t h, uint64_t from, uint64_t to, const bool shared) {
    if (!shared) { wl_cms_raise(s, h, to, false); return; }
    if (to <= from) return;
    for (unsigned i = 0; i < WL_CMS_ROWS; i++) __atomic_fetch_add(&s->words[i * s->places + wl_sketch_place(s, h, i)], to - from, __ATOMIC_RELAXED);
}

/* HyperLogLog (Flajolet et al. 2007): a register is the longest run of zeros, plus one, in the
   hashes that fall to it. */
#define WL_HLL_REGISTERS 4096u
static inline void wl_hll_add(wl_sketch *s, uint64_t h) {
    uint8_t *r = (uint8_t *)(void *)s->words + (h >> 52), old = __atomic_load_n(r, __ATOMIC_RELAXED);
    const uint8_t rank = (uint8_t)(__builtin_clzll(h << 12 | UINT64_C(1) << 11) + 1);
    while (old < rank && !__atomic_compare_exchange_n(r, &old, rank, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {}
}
/* The natural logarithm of 1 to 4096: the interpreter computes the same. */
static inline double wl_ln(double x) {
    double k = 0;
    while (x >= 2) { x /= 2; k += 1; }
    const double y = (x - 1) / (x + 1);
    double power = y, sum = 0;
    for (int i = 1; i < 40; i += 2) { sum += power / i; power *= y * y; }
    return 2 * sum + k * 0.693147180559945309417;
}
static inline uint64_t wl_hll_estimate(const wl_sketch *s) {
    const uint8_t *r = (const uint8_t *)(const void *)s->words;
    double sum = 0;
    unsigned zeros = 0;
    for (unsigned i = 0; i < WL_HLL_REGISTERS; i++) {
        uint8_t v = __atomic_load_n(&r[i], __ATOMIC_RELAXED);
        sum += 1.0 / (double)(UINT64_C(1) << v);
        zeros += v == 0;
    }
    const double m = WL_HLL_REGISTERS, e = 0.7213 / (1 + 1.079 / m) * m * m / sum;
    return (uint64_t)((e <= 2.5 * m && zeros ? m * wl_ln(m / zeros) : e) + 0.5);
}

/* A ring of n values, the oldest one at `first`. */
typedef struct wl_ring { uint64_t first, n; wl_table_stats stats; } wl_ring;

/* Where the value at a place from the oldest on lies; UINT64_MAX: there is none. */
static inline uint64_t wl_ring_at(const wl_ring *r, uint64_t place, uint64_t capacity) {
    if (place >= r->n) return UINT64_MAX;
    uint64_t at = r->first + place;
    return at < capacity ? at : at - capacity;
}
static inline uint64_t wl_ring_push(wl_ring *r, uint64_t capacity) {
    if (r->n == capacity) { r->stats.rejected++; return UINT64_MAX; }
    r->stats.inserts++;
    r->stats.entries++;
    return wl_ring_at(r, r->n++, capacity);
}
static inline uint64_t wl_ring_pop(wl_ring *r, uint64_t capacity) {
    if (r->n == 0) return UINT64_MAX;
    uint64_t at = r->first;
    r->first = at + 1 < capacity ? at + 1 : 0;
    r->n--;
    r->stats.entries--; /* wraps: what is flushed is a difference */
    return at;
}
#endif
