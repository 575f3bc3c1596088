/* sketch.h: Bloom filters, count-min sketches and rings of one core. Keys are hashed words (wl_sketch_hash); the two halves of the hash give
 * any number of places (Kirsch and Mitzenmacher). */
#ifndef WL_SKETCH_H
#define WL_SKETCH_H
#include "flow.h"

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
    for (unsigned i = 0; i < 7; i++) { uint64_t b = wl_sketch_place(s, h, i); if (!(s->words[b >> 6] >> (b & 63) & 1)) return false; }
    return true;
}
static inline void wl_bloom_add(wl_sketch *s, uint64_t h) {
    bool fresh = false;
    for (unsigned i = 0; i < 7; i++) {
        uint64_t b = wl_sketch_place(s, h, i), bit = UINT64_C(1) << (b & 63);
        fresh |= !(s->words[b >> 6] & bit);
        s->words[b >> 6] |= bit;
    }
    if (fresh) { s->stats.entries++; s->stats.inserts++; }
}
/* A row has `places` counters; the estimate is the smallest of the key's. */
static inline uint64_t wl_cms_get(const wl_sketch *s, uint64_t h) {
    uint64_t least = UINT64_MAX;
    for (unsigned i = 0; i < WL_CMS_ROWS; i++) { uint64_t v = s->words[i * s->places + wl_sketch_place(s, h, i)]; if (v < least) least = v; }
    return least;
}
/* Raises the key's counters to a value, as far as they are below it (conservative update). */
static inline void wl_cms_raise(wl_sketch *s, uint64_t h, uint64_t to) {
    for (unsigned i = 0; i < WL_CMS_ROWS; i++) { uint64_t *v = &s->words[i * s->places + wl_sketch_place(s, h, i)]; if (*v < to) *v = to; }
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
