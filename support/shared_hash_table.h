/* shared_hash_table.h: exact-match tables, shared by the cores.
 *
 * Keys and values are byte strings (generated code encodes and decodes them). An entry keeps its
 * first `inl` bytes in place. The rest lies in fixed-size blocks of the table's memory. So any mix
 * of sizes fits without fragmentation: at most one block per entry is not full. Entries and blocks
 * come from two pools of fixed size.
 *
 * A key's bucket belongs to one of up to 64 stripes. A stripe's spin lock guards its buckets and
 * its list of entries in the order of their last use (reads count). That list makes expiry free:
 * each use of the stripe checks its oldest entry. `evict lru` evicts the oldest entry of the key's
 * own stripe. That entry is the least recently used of 1/64 of the table, or of the whole table
 * below 1024 entries, which has one stripe. A table with `reject` first removes expired entries in
 * any stripe.
 *
 * In a run on captures each core has a time of its own. The entry of a key that a core asks for
 * expires by that core's time. Other entries may be those of a core that has not come so far: they
 * expire by the time of the slowest core. */
#ifndef WL_TABLE_H
#define WL_TABLE_H
#include "builtin.h"

typedef struct wl_table_stats { uint64_t entries, hits, misses, inserts, evictions, expired, rejected, bytes; } wl_table_stats;

typedef struct wl_entry {
    uint32_t next, tag;           /* of the bucket's chain; part of the hash */
    uint32_t older, newer;
    uint64_t seen;
    uint32_t kn, vn, block, home; /* home: the bucket */
} wl_entry;                       /* then inl bytes */

typedef struct wl_stripe { uint32_t lock, oldest, newest; uint8_t pad[52]; } wl_stripe;

typedef struct wl_table {
    wl_table_stats *stats;
    wl_stripe *stripe;
    uint32_t *bucket;
    uint8_t *entry, *block;
    uint64_t idle, seed;
    uint32_t stripes, buckets;    /* powers of two */
    uint32_t entry_size, inl, capacity, blocks, block_data;
    uint32_t pool_lock, free_entry, used_entry, free_block, used_block, blocks_left;
    bool lru, from_write;         /* from_write: `idle` counts from the last write */
} wl_table;

/* Places that one step of a walk looks at, at most. */
#define WL_WALK 4096u

/* A core's time, and that of the slowest core: not later. */
typedef struct wl_instant { uint64_t now, past; } wl_instant;
static inline wl_instant wl_instant_of(const wl_core *c) { return (wl_instant){c->now, c->now - c->behind}; }

/* A place in an entry's bytes, or in a flat buffer. */
typedef struct wl_cursor { wl_table *t; uint8_t *p; uint32_t room, next; } wl_cursor;

static inline void wl_count(uint64_t *c, uint64_t n) { __atomic_fetch_add(c, n, __ATOMIC_RELAXED); }
static inline void wl_lock(uint32_t *l) {
    while (__atomic_exchange_n(l, 1, __ATOMIC_ACQUIRE)) {
        while (__atomic_load_n(l, __ATOMIC_RELAXED)) {
#if defined(__x86_64__)
            __builtin_ia32_pause();
#endif
        }
    }
}
static inline bool wl_trylock(uint32_t *l) { return !__atomic_exchange_n(l, 1, __ATOMIC_ACQUIRE); }
static inline void wl_unlock(uint32_t *l) { __atomic_store_n(l, 0, __ATOMIC_RELEASE); }
static inline void wl_table_unlock(wl_stripe *s) { wl_unlock(&s->lock); }

static inline wl_entry *wl_entry_at(wl_table *t, uint32_t i) { return (wl_entry *)(void *)(t->entry + (size_t)i * t->entry_size); }
static inline uint8_t *wl_block_at(wl_table *t, uint32_t i) { return t->block + (size_t)i * (t->block_data + 4); }
static inline uint32_t wl_next_block(wl_table *t, uint32_t i) { return wl_le32(wl_block_at(t, i)); }
static inline void wl_set_next(wl_table *t, uint32_t i, uint32_t next) { memcpy(wl_block_at(t, i), &next, 4); }

/* ---- cursors ---- */

static inline wl_cursor wl_flat(uint8_t *p, uint32_t n) { return (wl_cursor){NULL, p, n, 0}; }
static inline wl_cursor wl_entry_bytes(wl_table *t, wl_entry *e) { return (wl_cursor){t, (uint8_t *)(e + 1), t->inl, e->block}; }
static inline bool wl_more(wl_cursor *c) {
    if (!c->t || !c->next) return false;
    c->p = wl_block_at(c->t, c->next) + 4;
    c->next = wl_next_block(c->t, c->next);
    c->room = c->t->block_data;
    return true;
}
static inline void wl_give(wl_cursor *c, const void *src, uint32_t n) {
    const uint8_t *s = src;
    while (n) {
        if (!c->room && !wl_more(c)) return;
        uint32_t k = n < c->room ? n : c->room;
        memcpy(c->p, s, k);
        c->p += k; c->room -= k; s += k; n -= k;
    }
}
static inline void wl_take(wl_cursor *c, void *dst, uint32_t n) {
    uint8_t *d = dst;
    while (n) {
        if (!c->room && !wl_more(c)) { memset(d, 0, n); return; }
        uint32_t k = n < c->room ? n : c->room;
        memcpy(d, c->p, k);
        c->p += k; c->room -= k; d += k; n -= k;
    }
}
static inline void wl_skip(wl_cursor *c, uint32_t n) {
    while (n) {
        if (!c->room && !wl_more(c)) return;
        uint32_t k = n < c->room ? n : c->room;
        c->p += k; c->room -= k; n -= k;
    }
}
static inline bool wl_same(wl_cursor c, const uint8_t *s, uint32_t n) {
    while (n) {
        if (!c.room && !wl_more(&c)) return false;
        uint32_t k = n < c.room ? n : c.room;
        if (memcmp(c.p, s, k)) return false;
        c.p += k; c.room -= k; s += k; n -= k;
    }
    return true;
}
/* The entry's value. */
static inline wl_cursor wl_value(wl_table *t, wl_entry *e) {
    wl_cursor c = wl_entry_bytes(t, e);
    wl_skip(&c, e->kn);
    return c;
}
static inline void wl_give_bytes(wl_cursor *c, wl_bytes b) { wl_give(c, &b.n, 4); wl_give(c, b.p, b.n); }
static inline wl_bytes wl_take_bytes(wl_cursor *c, wl_fx *x) {
    uint32_t n;
    wl_take(c, &n, 4);
    uint8_t *d = wl_tmp(x, n);
    if (!d) return wl_b(NULL, 0);
    wl_take(c, d, n);
    return wl_b(d, n);
}

/* ---- pools ---- */

static inline uint32_t wl_blocks_for(wl_table *t, uint32_t n) {
    return n > t->inl ? (n - t->inl + t->block_data - 1) / t->block_data : 0;
}
static inline void wl_free_blocks(wl_table *t, uint32_t first) {
    if (!first) return;
    uint32_t last = first, n = 1;
    for (uint32_t next; (next = wl_next_block(t, last)) != 0; n++) last = next;
    wl_lock(&t->pool_lock);
    wl_set_next(t, last, t->free_block);
    t->free_block = first;
    t->blocks_left += n;
    wl_unlock(&t->pool_lock);
    wl_count(&t->stats->bytes, 0 - (uint64_t)n * t->block_data);
}
/* A chain of n blocks, or 0. */
static inline uint32_t wl_new_blocks(wl_table *t, uint32_t n) {
    uint32_t chain = 0;
    wl_lock(&t->pool_lock);
    if (t->blocks_left >= n) {
        t->blocks_left -= n;
        for (uint32_t k = 0; k < n; k++) {
            uint32_t b = t->free_block;
            if (b) t->free_block = wl_next_block(t, b); else b = ++t->used_block;
            wl_set_next(t, b, chain);
            chain = b;
        }
    }
    wl_unlock(&t->pool_lock);
    if (chain) wl_count(&t->stats->bytes, (uint64_t)n * t->block_data);
    return chain;
}
static inline uint32_t wl_new_entry(wl_table *t) {
    wl_lock(&t->pool_lock);
    uint32_t e = t->free_entry;
    if (e) t->free_entry = wl_entry_at(t, e)->next;
    else if (t->used_entry < t->capacity) e = ++t->used_entry;
    wl_unlock(&t->pool_lock);
    return e;
}

/* ---- a stripe's entries (its lock is held) ---- */

static inline void wl_unlink(wl_table *t, wl_stripe *s, wl_entry *e) {
    if (e->older) wl_entry_at(t, e->older)->newer = e->newer; else s->oldest = e->newer;
    if (e->newer) wl_entry_at(t, e->newer)->older = e->older; else s->newest = e->older;
}
static inline void wl_link_newest(wl_table *t, wl_stripe *s, uint32_t i, wl_entry *e) {
    e->older = s->newest;
    e->newer = 0;
    if (s->newest) wl_entry_at(t, s->newest)->newer = i; else s->oldest = i;
    s->newest = i;
}
static inline void wl_see(wl_entry *e, uint64_t now) { if (e->seen < now) e->seen = now; }
static inline void wl_touch(wl_table *t, wl_stripe *s, uint32_t i, wl_entry *e, uint64_t now) {
    if (!t->from_write) wl_see(e, now);
    if (s->newest != i) { wl_unlink(t, s, e); wl_link_newest(t, s, i, e); }
}
static inline void wl_drop(wl_table *t, wl_stripe *s, uint32_t i) {
    wl_entry *e = wl_entry_at(t, i);
    uint32_t *at = &t->bucket[e->home];
    while (*at != i) at = &wl_entry_at(t, *at)->next;
    *at = e->next;
    wl_unlink(t, s, e);
    wl_free_blocks(t, e->block);
    wl_lock(&t->pool_lock);
    e->next = t->free_entry;
    t->free_entry = i;
    wl_unlock(&t->pool_lock);
    wl_count(&t->stats->entries, 0 - (uint64_t)1);
}
static inline bool wl_expired(wl_table *t, uint32_t i, uint64_t now) { return t->idle && i && wl_entry_at(t, i)->seen + t->idle < now; }
static inline bool wl_expire(wl_table *t, wl_stripe *s, uint64_t past, uint32_t most) {
    bool any = false;
    /* Entries lie in the order of their use: an expired one may lie behind others. */
    if (t->from_write) for (uint32_t i = s->oldest, next; i && most; i = next, most--) {
        next = wl_entry_at(t, i)->newer;
        if (!wl_expired(t, i, past)) continue;
        wl_drop(t, s, i);
        wl_count(&t->stats->expired, 1);
        any = true;
    }
    else
    for (; most && wl_expired(t, s->oldest, past); most--) {
        wl_drop(t, s, s->oldest);
        wl_count(&t->stats->expired, 1);
        any = true;
    }
    return any;
}
/* Makes room in a full pool; `keep` is not evicted. */
static inline bool wl_reclaim(wl_table *t, wl_stripe *own, uint32_t keep, uint64_t past) {
    if (t->lru && own->oldest && own->oldest != keep) {
        wl_drop(t, own, own->oldest);
        wl_count(&t->stats->evictions, 1);
        return true;
    }
    /* Stripes that are in use are passed over, and tried again a few times. */
    for (uint32_t k = 0; k < 8 * t->stripes; k++) {
        wl_stripe *s = &t->stripe[k & (t->stripes - 1)];
        if (s == own || !wl_trylock(&s->lock)) continue;
        bool done = wl_expire(t, s, past, 16);
        if (!done && t->lru && s->oldest) {
            wl_drop(t, s, s->oldest);
            wl_count(&t->stats->evictions, 1);
            done = true;
        }
        wl_unlock(&s->lock);
        if (done) return true;
    }
    return false;
}

/* ---- operations ---- */

static inline uint64_t wl_table_hash(const wl_table *t, const uint8_t *k, uint32_t n) {
    uint64_t h = t->seed ^ n;
    for (; n >= 8; k += 8, n -= 8) { h = (h ^ wl_le64(k)) * UINT64_C(0x9e3779b97f4a7c15); h ^= h >> 32; }
    uint64_t last = 0;
    if (n) memcpy(&last, k, n);
    return wl_fmix64(h ^ last);
}

/* Locks the key's stripe (*s, to be unlocked by the caller) and looks for the key. */
static inline uint32_t wl_table_seek(wl_table *t, const uint8_t *k, uint32_t kn, wl_instant at, wl_stripe **s, uint64_t *hash) {
    uint64_t h = wl_table_hash(t, k, kn);
    uint32_t home = (uint32_t)h & (t->buckets - 1);
    *hash = h;
    *s = &t->stripe[home & (t->stripes - 1)];
    wl_lock(&(*s)->lock);
    if (t->idle) wl_expire(t, *s, at.past, 4);
    for (uint32_t i = t->bucket[home]; i; i = wl_entry_at(t, i)->next) {
        wl_entry *e = wl_entry_at(t, i);
        if (e->tag != (uint32_t)(h >> 32) || e->kn != kn || !wl_same(wl_entry_bytes(t, e), k, kn)) continue;
        if (!wl_expired(t, i, at.now)) return i;
        wl_drop(t, *s, i);
        wl_count(&t->stats->expired, 1);
        break;
    }
    return 0;
}
/* The entry or NULL; locked either way. */
static inline wl_entry *wl_table_find(wl_table *t, const uint8_t *k, uint32_t kn, wl_instant at, wl_stripe **s) {
    uint64_t h;
    uint32_t i = wl_table_seek(t, k, kn, at, s, &h);
    wl_count(i ? &t->stats->hits : &t->stats->misses, 1);
    if (!i) return NULL;
    wl_entry *e = wl_entry_at(t, i);
    wl_touch(t, *s, i, e, at.now);
    return e;
}
/* Room for n value bytes in entry i. */
static inline bool wl_table_resize(wl_table *t, wl_stripe *s, uint32_t i, uint32_t vn, uint64_t past) {
    wl_entry *e = wl_entry_at(t, i);
    uint32_t have = wl_blocks_for(t, e->kn + e->vn), want = wl_blocks_for(t, e->kn + vn);
    if (want > t->blocks) return false;
    uint32_t keep = have < want ? have : want, last = 0;
    uint32_t b = e->block;
    for (uint32_t k = 0; k < keep; k++) { last = b; b = wl_next_block(t, b); }
    if (want < have) {
        wl_free_blocks(t, b);
        if (last) wl_set_next(t, last, 0); else e->block = 0;
    } else if (want > have) {
        uint32_t more;
        while (!(more = wl_new_blocks(t, want - have))) if (!wl_reclaim(t, s, i, past)) return false;
        if (last) wl_set_next(t, last, more); else e->block = more;
    }
    e->vn = vn;
    return true;
}
/* The key's entry with room for vn value bytes, made if it is missing; NULL: the table is full. Its
 * stripe must be locked (`s`, and `i`, `h` from wl_table_seek). */
static inline wl_entry *wl_table_place(wl_table *t, const uint8_t *k, uint32_t kn, uint32_t vn, wl_instant at, wl_stripe *s, uint32_t i, uint64_t h) {
    bool fresh = !i;
    if (fresh) {
        while (!(i = wl_new_entry(t))) {
            if (wl_expire(t, s, at.past, 16)) continue;
            if (!wl_reclaim(t, s, 0, at.past)) { wl_count(&t->stats->rejected, 1); return NULL; }
        }
        wl_entry *e = wl_entry_at(t, i);
        e->home = (uint32_t)h & (t->buckets - 1);
        e->tag = (uint32_t)(h >> 32);
        e->kn = 0;
        e->vn = 0;
        e->block = 0;
        e->seen = at.now;
        e->next = t->bucket[e->home];
        t->bucket[e->home] = i;
        wl_link_newest(t, s, i, e);
        wl_count(&t->stats->entries, 1);
    }
    wl_entry *e = wl_entry_at(t, i);
    wl_touch(t, s, i, e, at.now);
    wl_see(e, at.now);
    bool ok;
    if (fresh) {
        ok = wl_table_resize(t, s, i, kn + vn, at.past);   /* no key yet: room for both */
        if (ok) { e->kn = kn; e->vn = vn; }
    } else {
        ok = wl_table_resize(t, s, i, vn, at.past);
    }
    if (!ok) {
        wl_drop(t, s, i);
        wl_count(&t->stats->rejected, 1);
        return NULL;
    }
    if (fresh) {
        wl_cursor c = wl_entry_bytes(t, e);
        wl_give(&c, k, kn);
        wl_count(&t->stats->inserts, 1);
    }
    return e;
}
static inline bool wl_table_remove(wl_table *t, const uint8_t *k, uint32_t kn, wl_instant at) {
    wl_stripe *s;
    uint64_t h;
    uint32_t i = wl_table_seek(t, k, kn, at, &s, &h);
    if (i) wl_drop(t, s, i);
    wl_table_unlock(s);
    return i != 0;
}
/* The next entry from *cursor on (bucket << 16 | place in its chain), which moves behind it; its
 * stripe is locked. NULL: none near, and if the cursor is all ones, that was all. */
static inline wl_entry *wl_table_next(wl_table *t, uint64_t *cursor, wl_instant at, wl_stripe **s) {
    for (unsigned near = 0; *cursor >> 16 < t->buckets; *cursor = ((*cursor >> 16) + 1) << 16) {
        if (near++ == WL_WALK) return NULL;
        uint32_t b = (uint32_t)(*cursor >> 16), i = t->bucket[b];
        if (!i) continue;
        *s = &t->stripe[b & (t->stripes - 1)];
        wl_lock(&(*s)->lock);
        i = t->bucket[b];
        for (uint64_t k = *cursor & 0xffff; i && k; k--) i = wl_entry_at(t, i)->next;
        for (; i; i = wl_entry_at(t, i)->next) {
            ++*cursor;
            if (!wl_expired(t, i, at.past)) return wl_entry_at(t, i);
        }
        wl_table_unlock(*s);
    }
    *cursor = UINT64_MAX;
    return NULL;
}
/* Entries that have not expired. */
static inline uint64_t wl_table_len(wl_table *t, wl_instant at) {
    if (t->idle) for (uint32_t k = 0; k < t->stripes; k++) {
        wl_lock(&t->stripe[k].lock);
        wl_expire(t, &t->stripe[k], at.past, UINT32_MAX);
        wl_unlock(&t->stripe[k].lock);
    }
    return __atomic_load_n(&t->stats->entries, __ATOMIC_RELAXED);
}
static inline uint64_t wl_table_seed(const void *a) {
    uint64_t s = (uint64_t)(uintptr_t)a ^ (uint64_t)(uintptr_t)&s;
    return wl_fmix64(s * UINT64_C(0x9e3779b97f4a7c15));
}
#endif
