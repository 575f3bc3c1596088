/* bpf_tables.h: exact tables of programs for the kernel's XDP hook, and their locks. bpf.h includes
 * it. */
#ifndef WL_BPF_TABLES_H
#define WL_BPF_TABLES_H

/* Locks. One is an even number while it is free, and odd while a processor holds it. Each holder
   leaves another number behind. So a reader without the lock can tell that nobody has held it
   meanwhile. That needs processors that see each other's loads and stores in their order: on others
   readers take the lock. */
#ifdef WL_X86_64
#define WL_ORDERED 1
#define WL_FENCE WL_READ_AGAIN
#else
#define WL_ORDERED 0
#define WL_FENCE do { uint64_t f_ = 0; (void)__sync_lock_test_and_set(&f_, 1); WL_READ_AGAIN; } while (0)
#endif
#define wl_turn(lock) (*(volatile const uint32_t *)(lock))
WL_INLINE bool wl_take(uint32_t *lock) {
    const uint32_t free = wl_turn(lock);
    return !(free & 1) && __sync_val_compare_and_swap(lock, free, free | 1) == free;
}
struct wl_wait { uint32_t *lock; uint32_t got; };
static long wl_try(uint32_t round, void *with) {
    struct wl_wait *w = with;
    (void)round;
    w->got = wl_take(w->lock);
    return w->got;
}
/* A processor holds a lock for a fraction of a microsecond, unless its machine is stopped. */
#define WL_TRIES (1u << 20)
static __attribute__((noinline)) int wl_wait_for(uint32_t *lock) {
    struct wl_wait w = {lock, 0};
    if (!lock) return 0;
    bpf_loop(WL_TRIES, wl_try, &w, 0);
    return (int)w.got;
}
/* Small functions of tables. All calls together have a stack of 512 bytes, of which each takes at
   least 16. With WL_FLAT these are parts of their callers. */
#ifdef WL_FLAT
#define WL_SMALL WL_INLINE
#else
#define WL_SMALL __attribute__((noinline))
#endif
/* Whether no other processor can be at a table: the program's only interface has one receiving
   queue, whose frames the kernel handles one after the other, and the process changes nothing. An
   atomic operation would wait for its line to come from memory. */
#define WL_ALONE(x) (WL_ORDERED && WL_LIKELY((x)->state->alone))
/* The same for this processor's part of tables, of which each has its own. */
#define WL_MINE(x) (WL_ORDERED && WL_LIKELY((x)->state->mine))
WL_INLINE bool wl_lock_if(bool shared, uint32_t *lock) {
    if (!shared) {
        *(volatile uint32_t *)lock = wl_turn(lock) | 1;
        WL_FENCE;
        return true;
    }
    return WL_LIKELY(wl_take(lock)) || wl_wait_for(lock);
}
WL_INLINE void wl_unlock(uint32_t *lock) {
    const uint32_t next = wl_turn(lock) + 1;
    WL_FENCE;
    if (WL_ORDERED) *(volatile uint32_t *)lock = next;
    else (void)__sync_lock_test_and_set(lock, next);
}
/* The locked line of a key, and the key's hash. A line begins with its lock, which is not taken
   where no other processor can be: nobody looks at it then, and it stays free. */
typedef struct wl_held { void *line; uint64_t hash; } wl_held;
/* The locked entry of an array. */
typedef struct wl_slot { uint32_t *lock; } wl_slot;
WL_INLINE void wl_unlock_line(wl_held at) { if (wl_turn(at.line) & 1) wl_unlock(at.line); }
WL_INLINE void wl_unlock_slot(wl_slot at) { wl_unlock(at.lock); }
#define wl_table_unlock(at) _Generic((at), wl_held: wl_unlock_line, wl_slot: wl_unlock_slot)(at)
/* Reads an array's entry without its lock; false: somebody has held it meanwhile. */
#define WL_PEEK(words, to, slot) ({ bool ok_ = false; \
    if (WL_ORDERED) { \
        const uint32_t turn_ = wl_turn(&(slot)->lock); \
        WL_FENCE; \
        WL_COPY(words, to, (slot)->value); \
        WL_FENCE; \
        ok_ = !(turn_ & 1) && wl_turn(&(slot)->lock) == turn_; \
    } \
    ok_; })
/* Words of a table's statistics. */
enum { WL_HITS = 0, WL_MISSES = 1, WL_INSERTS = 2, WL_EVICTIONS = 3, WL_EXPIRED = 4, WL_REJECTED = 5 };
enum { WL_GET = 1, WL_PUT = 2, WL_REMOVE = 3, WL_SWEEP = 4, WL_LOOK = 5 };
/* The part of tables that belongs to this processor, or that a change from outside is for. */
#define wl_part() ({ \
    const uint32_t cpu_ = bpf_get_smp_processor_id(); \
    const struct app_state *s_ = wl_state_of(cpu_); \
    s_ ? s_->part : WL_PROCESSORS; \
})
/* Entries of a table, and whether packets need no locks: of one part, and of a table that all
   processors share. `by` is added to the number. */
#define WL_ENTRIES 6
#define WL_PARTS(map, number, capacity) \
WL_INLINE uint64_t map##_count(uint64_t by) { \
    struct app_state *s = wl_state_of(wl_part()); \
    return s ? __sync_fetch_and_add(&s->table[number][WL_ENTRIES], by) : (capacity); \
} \
WL_INLINE bool map##_alone(const wl_fx *x) { return WL_MINE(x); }
#define WL_WHOLE(map) \
WL_INLINE uint64_t map##_count(uint64_t by) { return __sync_fetch_and_add(&map##_entries, by); } \
WL_INLINE bool map##_alone(const wl_fx *x) { return WL_ALONE(x); }
/* A change of the part whose number stands above the lowest byte. Neither a packet nor another
   change runs on this processor meanwhile. */
#define WL_CHANGES_OF_PART(ctx, change) \
    uint64_t *what_ = (uint64_t *)(long)(ctx)->data; \
    const uint32_t cpu_ = bpf_get_smp_processor_id(); \
    struct app_state *state_ = wl_state_of(cpu_); \
    if (!state_ || (uint8_t *)(what_ + 1) > (uint8_t *)(long)(ctx)->data_end) return 0; \
    state_->part = *what_ >> 8; \
    *what_ &= 255; \
    const int done_ = change(ctx); \
    state_ = wl_state_of(cpu_); \
    if (state_) state_->part = cpu_; \
    return done_;
/* The hash's secret: no sender can choose keys that share their lines. */
#define WL_SEED WL_NUMBER("0x4ac1e86d927f35b3")

/* A loop over the words of a long key that count. The first ones need no count of rounds, which
   would cost as much as a word. The verifier follows two rounds of the others. */
#define WL_WORDS(words, used, i, body) do { \
    uint32_t u_ = (used); \
    _Pragma("unroll") for (uint32_t k_ = 0; k_ < 4; k_++) { if (k_ < u_) { const uint64_t i = k_; body; } } \
    _Pragma("nounroll") for (uint32_t j_ = 4 + (uint32_t)wl_unknown; j_ < u_; j_++) { \
        WL_ROUND({ u_ = 0; }); \
        uint64_t i = j_; \
        WL_KEEP(i); \
        if (i >= (words)) break; \
        body; \
    } } while (0)
/* Long keys are compared by a loop: else their words would be kept on the stack. `used`: the words
   of `b` that count; its length is among them, so the others need no look. */
#define WL_SAME(words, used, a, b) ({ uint64_t d_ = 0; \
    if ((words) > WL_FEW) WL_WORDS(words, used, w_, d_ |= (a)[w_] ^ (b)[w_]); \
    else { _Pragma("unroll") for (unsigned j_ = 0; j_ < (words); j_++) d_ |= (a)[j_] ^ (b)[j_]; } \
    d_ == 0; })
#define WL_COPY(words, to, from) do { _Pragma("unroll") for (unsigned j_ = 0; j_ < (words); j_++) (to)[j_] = (from)[j_]; } while (0)
/* Many words are copied by the kernel. Both places are in its memory, not on the stack. `used`: how
   many words count. */
#define WL_MOVE(words, used, to, from) do { if ((words) <= WL_FEW) WL_COPY(words, to, from); else { \
    uint64_t u_ = (used); WL_KEEP(u_); if (u_ > (words)) u_ = (words); \
    (void)bpf_probe_read_kernel((to), (uint32_t)(8 * u_), (from)); } } while (0)
#define WL_FEW 16
/* The same of long values: the first words without the kernel, whose function takes longer. */
#define WL_FIRST 16
#define WL_MOVE_FIRST(words, used, to, from) do { if ((words) <= WL_FEW) WL_COPY(words, to, from); else { \
    uint64_t c_ = (used); WL_KEEP(c_); if (c_ > (words)) c_ = (words); \
    _Pragma("unroll") for (unsigned j_ = 0; j_ < WL_FIRST && j_ < (words); j_++) { if (j_ >= c_) break; (to)[j_] = (from)[j_]; } \
    if ((words) > WL_FIRST && c_ > WL_FIRST) (void)bpf_probe_read_kernel((to) + WL_FIRST, (uint32_t)(8 * (c_ - WL_FIRST)), (from) + WL_FIRST); } } while (0)
/* The first slot of a line with a mark, or a number that is none of a slot. The lowest byte that is
   0 is found for sure, others above it may be. */
#define WL_MARKED(slots, line, is) ({ \
    const uint64_t marks_ = (slots) > 3 ? *(const uint32_t *)(line)->mark : *(const uint32_t *)&(line)->away >> 8; \
    const uint64_t ones_ = (slots) > 3 ? 0x01010101 : 0x010101, t_ = marks_ ^ (uint64_t)(is) * ones_; \
    uint64_t z_ = (t_ - ones_) & ~t_ & ones_ << 7, first_ = (slots); \
    if (z_) { \
        z_ &= 0 - z_; \
        first_ = (z_ >> 15 & 1) | (z_ >> 22 & 2); \
        if ((slots) > 3) first_ |= (z_ >> 30 & 2) | (z_ >> 31 & 1); \
    } \
    first_; })
/* In a mark: the entry belongs to another line. */
#define WL_GUEST 128
/* A line knows so many entries of its own that lie in others. */
#define WL_AWAY 255
/* Lines besides its own in which the entry of a key may lie. */
#define WL_OTHERS 16
/* Of so many entries the one that is unused longest makes room. */
#define WL_VICTIMS 8
/* A place: the numbers of a line and of a slot; why the slot was free. */
#define WL_PLACE(line, slot) (UINT64_C(1) << 63 | (uint64_t)(line) << 8 | (slot))
#define WL_HAD_EXPIRED (UINT64_C(1) << 62)
#define WL_MADE_ROOM (UINT64_C(1) << 61)
#define WL_LINE_OF(place) ((uint32_t)((place) >> 8))
#define WL_SLOT_OF(place) ((place) & 255)

/* The functions of a table, behind `map_at`, which gives a line by its number: the table's number,
   words of a key and a value, slots of a line, lines, entries at most, time without use (0: no end), whether the least recently used entry makes room, whether
   keys and values lie in scratch and not on the stack. `map_key_words` and `map_value_words` give
   the words that count: of bytes at the end only as many as there are.

   The lock of a key's own line is that of its entry, wherever it lies: so an operation holds one
   lock. A free slot belongs to the line that it lies in. `away` is the number of entries that lie in
   other lines. A slot has a mark in its line's head: seven bits of its key's hash, and whether the
   entry belongs to another line. So one load tells which slot may have a key, without a branch for
   each slot, which the processor would often predict wrong. A mark may be out of date: `used` and
   the key decide.

   Functions that are not inlined are no part of their callers for the verifier: they are for what
   is rare, or not in a hurry. */
#define WL_TABLE(map, number, keys, values, slots, lines, capacity, idle, lru, wide) \
struct map##_copy { uint64_t v[(values) > 0 ? (values) : 1]; }; \
/* Of long keys by a function: the verifier follows it once. */ \
WL_INLINE uint64_t map##_hash_here(const struct map##_key *k) { \
    uint64_t h = WL_SEED; \
    if ((keys) > WL_FEW) { \
        WL_WORDS(keys, map##_key_words(k->w), i, h = (h ^ k->w[i]) * 0x9e3779b97f4a7c15ull; h ^= h >> 29); \
    } else { _Pragma("unroll") for (unsigned i = 0; i < (keys); i++) { h = (h ^ k->w[i]) * 0x9e3779b97f4a7c15ull; h ^= h >> 29; } } \
    return h * 0xbf58476d1ce4e5b9ull; \
} \
__attribute__((noinline)) uint64_t map##_hash_long(const struct map##_key *k) { return k ? map##_hash_here(k) : 0; } \
WL_INLINE uint64_t map##_hash(const struct map##_key *k) { return (keys) > WL_FEW ? map##_hash_long(k) : map##_hash_here(k); } \
WL_INLINE uint32_t map##_mark(uint64_t hash) { return (uint32_t)hash >> 25; } \
WL_INLINE uint32_t map##_own(uint64_t hash) { return (uint32_t)((hash >> 32) * (lines) >> 32); } \
/* Of a small table each line is one of the others: what has expired anywhere makes room. */ \
WL_INLINE uint32_t map##_other(uint64_t hash, uint32_t n) { \
    if ((lines) <= 1 + WL_OTHERS) return (map##_own(hash) + 1 + n) % (lines); \
    return (uint32_t)((wl_fmix64(hash + 1 + n) >> 32) * (lines) >> 32); \
} \
/* The time from which on an entry is unused for too long, if it is not used again. It lies in the \
   entry's slot; one before `over` is over. */ \
WL_INLINE uint64_t map##_now(const wl_fx *x) { return (idle) != 0 || (lru) ? x->core->now : 0; } \
WL_INLINE uint64_t map##_stamp(uint64_t now) { return (idle) != 0 || (lru) ? now + 1 + (idle) : 1; } \
WL_INLINE uint64_t map##_over(uint64_t now) { return (idle) != 0 ? now + 1 : 1; } \
/* By a look at all slots. */ \
WL_INLINE uint64_t map##_index_here(const struct map##_line *line, const struct map##_key *k) { \
    uint64_t at = (slots); \
    _Pragma("unroll") for (unsigned i = 0; i < (slots); i++) { \
        if (WL_SAME(keys, map##_key_words(k->w), line->slot[i].key, k->w) && line->slot[i].used) { at = i; break; } \
    } \
    return at ^ wl_unknown; \
} \
__attribute__((noinline)) uint64_t map##_index_all(const struct map##_line *line, const struct map##_key *k) { return line && k ? map##_index_here(line, k) : (slots); } \
WL_INLINE uint64_t map##_index_far(const struct map##_line *line, const struct map##_key *k) { return (keys) > WL_FEW ? map##_index_all(line, k) : map##_index_here(line, k); } \
/* By the mark of a key's hash. */ \
WL_INLINE uint64_t map##_index_marked(const struct map##_line *line, const struct map##_key *k, uint64_t hash) { \
    const uint64_t at = WL_MARKED(slots, line, map##_mark(hash)); \
    if (at >= (slots)) return (slots); \
    const struct map##_slot *s = &line->slot[at]; \
    if (WL_LIKELY(WL_SAME(keys, map##_key_words(k->w), s->key, k->w) && s->used)) return at; \
    return map##_index_all(line, k); \
} \
/* Where a handler looks: long programs have no use for marks. */ \
WL_INLINE uint64_t map##_index(const struct map##_line *line, const struct map##_key *k, uint64_t hash) { \
    return (keys) > WL_FEW || !WL_MARKS ? map##_index_far(line, k) : map##_index_marked(line, k, hash); \
} \
/* The place of a key's entry in other lines than its own, which is locked; 0: it is not there. */ \
struct map##_hunt { const struct map##_key *k; uint64_t hash, place; }; \
static long map##_hunt_step(uint32_t n, void *with) { \
    struct map##_hunt *w = with; \
    const uint32_t at = map##_other(w->hash, n); \
    const struct map##_line *line = map##_at(at); \
    if (!line) return 1; \
    const uint64_t i = map##_index_far(line, w->k); \
    if (i >= (slots)) return 0; \
    /* Another entry may just be put there: it has not been used yet, or is another one now. */ \
    const struct map##_slot *s = &line->slot[i]; \
    const uint64_t used = s->used; \
    WL_FENCE; \
    const bool same = WL_SAME(keys, map##_key_words(w->k->w), s->key, w->k->w); \
    WL_FENCE; \
    if (!used || !same || !s->used) return 0; \
    w->place = WL_PLACE(at, i) ^ wl_unknown; \
    return 1; \
} \
__attribute__((noinline)) uint64_t map##_far(const struct map##_key *k, uint64_t hash) { \
    struct map##_hunt w = {k, hash, wl_unknown}; \
    if (!k) return 0; \
    bpf_loop(WL_OTHERS, map##_hunt_step, &w, 0); \
    return w.place; \
} \
WL_INLINE void map##_free(struct map##_slot *s, struct map##_line *own, bool far) { \
    s->used = 0; \
    if (far) own->away--; \
    map##_count(-1); \
} \
/* The entry of a key whose line is locked. */ \
WL_INLINE struct map##_slot *map##_find(wl_fx *x, const struct map##_key *k, const wl_held *at, bool *far) { \
    struct map##_line *own = at->line, *line = own; \
    uint64_t i = map##_index(line, k, at->hash), place = 0; \
    if (WL_UNLIKELY(i >= (slots))) { \
        if (WL_LIKELY(!own->away)) return NULL; \
        place = map##_far(k, at->hash); \
        line = map##_at(WL_LINE_OF(place)); \
        i = WL_SLOT_OF(place); \
        if (!place || !line || i >= (slots)) return NULL; \
    } \
    struct map##_slot *s = &line->slot[i]; \
    *far = place != 0; \
    if ((idle) == 0 || WL_LIKELY(s->used >= map##_over(x->core->now))) return s; \
    map##_free(s, own, place != 0); \
    x->state->table[number][WL_EXPIRED]++; \
    return NULL; \
} \
WL_INLINE bool map##_lock_if(bool shared, const struct map##_key *k, wl_held *at) { \
    at->hash = map##_hash(k); \
    at->line = map##_at(map##_own(at->hash)); \
    return at->line && (!shared || wl_lock_if(true, at->line)); \
} \
WL_INLINE bool map##_lock(wl_fx *x, const struct map##_key *k, wl_held *at) { return map##_lock_if(!map##_alone(x), k, at); } \
/* Makes a slot of a locked line that of a new entry. Nobody takes half a key for a whole one: \
   the slot is free meanwhile. */ \
WL_INLINE void map##_take(struct map##_line *line, uint64_t i, const struct map##_key *k, uint64_t now, uint32_t mark) { \
    struct map##_slot *s = &line->slot[i]; \
    s->used = 0; \
    line->mark[i] = (uint8_t)mark; \
    WL_FENCE; \
    WL_MOVE(keys, map##_key_words(k->w), s->key, k->w); \
    WL_FENCE; \
    s->used = map##_stamp(now); \
} \
/* Makes an entry of a locked line go, if the lock of its own line is to be had, too. `mine`: \
   another line that is locked. */ \
WL_SMALL int map##_go(struct map##_line *line, uint64_t i, uint32_t mine) { \
    if (!line || i >= (slots) || !line->slot[i].used) return 0; \
    struct map##_slot *s = &line->slot[i]; \
    if (!(line->mark[i] & WL_GUEST)) { s->used = 0; return 1; } \
    const uint32_t n = map##_own(map##_hash((const struct map##_key *)s->key)); \
    struct map##_line *own = map##_at(n); \
    if (!own || (n != mine && !wl_take(&own->lock))) return 0; \
    const bool there = s->used != 0; \
    s->used = 0; \
    if (there) own->away--; \
    if (n != mine) wl_unlock(&own->lock); \
    return there; \
} \
/* Room for a new entry in other lines than its own, which is locked: a free slot, if the entry is \
   counted (`place` begins as 1), or that of an entry that has expired. A line that is locked is \
   passed over. */ \
struct map##_seek { const struct map##_key *k; uint64_t hash, now, place; }; \
static long map##_seek_step(uint32_t n, void *with) { \
    struct map##_seek *w = with; \
    const uint32_t at = map##_other(w->hash, n); \
    struct map##_line *line = map##_at(at); \
    if (!line) return 1; \
    const uint32_t own = map##_own(w->hash); \
    const uint64_t least = (w->place & 1) ^ 1; \
    if (at == own || !wl_take(&line->lock)) return 0; \
    const uint64_t over = map##_over(w->now); \
    uint64_t to = (slots); \
    _Pragma("unroll") for (unsigned i = 0; i < (slots); i++) { \
        const uint64_t used = line->slot[i].used; \
        if (used - least < over - least) { to = i; break; } \
    } \
    to ^= wl_unknown; \
    const bool expired = to < (slots) && line->slot[to].used; \
    if (to < (slots) && (!expired || map##_go(line, to, own))) { \
        map##_take(line, to, w->k, w->now, map##_mark(w->hash) | WL_GUEST); \
        w->place = WL_PLACE(at, to) | (expired ? WL_HAD_EXPIRED : 0); \
    } \
    w->place ^= wl_unknown; \
    wl_unlock(&line->lock); \
    return w->place >> 63; \
} \
/* The entry that is unused longest, of some: in each round others are looked at first. Lines that \
   others have locked are passed over. */ \
struct map##_oldest { uint64_t hash, used, place; uint32_t seen, round; }; \
static long map##_oldest_step(uint32_t n, void *with) { \
    struct map##_oldest *w = with; \
    const uint32_t turn = (n + w->round) % (1 + WL_OTHERS), own = map##_own(w->hash); \
    const uint32_t at = turn ? map##_other(w->hash, turn - 1) : own; \
    const struct map##_line *line = map##_at(at); \
    uint64_t seen = w->seen, least = w->used, place = w->place; \
    if (!line) return 1; \
    if (at != own && wl_turn(&line->lock) & 1) return 0; \
    _Pragma("unroll") for (unsigned i = 0; i < (slots); i++) { \
        const uint64_t used = line->slot[i].used; \
        if (used) { \
            seen++; \
            if (used < least) { least = used; place = WL_PLACE(at, i); } \
        } \
        const uint64_t z = wl_unknown; \
        seen ^= z; least ^= z; place ^= z; \
    } \
    w->seen = (uint32_t)seen; w->used = least; w->place = place; \
    return seen >= WL_VICTIMS; \
} \
/* Its slot for a new entry; 0: others were faster. */ \
__attribute__((noinline)) uint64_t map##_evict(const struct map##_key *k, uint64_t hash, uint64_t now, uint32_t round) { \
    struct map##_oldest w = {hash, ~wl_unknown, wl_unknown, (uint32_t)wl_unknown, round}; \
    if (!k) return 0; \
    bpf_loop(1 + WL_OTHERS, map##_oldest_step, &w, 0); \
    struct map##_line *line = map##_at(WL_LINE_OF(w.place)), *own = map##_at(map##_own(hash)); \
    const uint64_t i = WL_SLOT_OF(w.place); \
    if (!w.place || !own || !line || i >= (slots)) return 0; \
    const bool far = WL_LINE_OF(w.place) != map##_own(hash); \
    if (far && (own->away == WL_AWAY || !wl_take(&line->lock))) return 0; \
    const bool gone = map##_go(line, i, map##_own(hash)); \
    if (gone) { \
        map##_take(line, i, k, now, map##_mark(w.hash) | (far ? WL_GUEST : 0)); \
        if (far) own->away++; \
    } \
    if (far) wl_unlock(&line->lock); \
    return gone ? w.place | WL_MADE_ROOM : 0; \
} \
/* The place of a slot for a new entry. Its line is locked and has no free slot. 0: none. */ \
__attribute__((noinline)) uint64_t map##_room(const struct map##_key *k, uint64_t hash, uint64_t now) { \
    const uint32_t own = map##_own(hash); \
    struct map##_seek w = {k, hash, now, 0}, *again = &w; \
    struct map##_line *line = map##_at(own); \
    if (!k || !line) return 0; \
    WL_KEEP(again); /* not kept in registers, which would need more of the stack */ \
    uint64_t to = (slots); \
    _Pragma("unroll") for (unsigned i = 0; i < (slots); i++) \
        if (line->slot[i].used && line->slot[i].used < map##_over(now)) { to = i; break; } \
    to ^= wl_unknown; \
    if (to < (slots) && map##_go(line, to, own)) { \
        map##_take(line, to, again->k, again->now, map##_mark(again->hash)); \
        return WL_PLACE(map##_own(again->hash), to) | WL_HAD_EXPIRED; \
    } \
    if (line->away == WL_AWAY) return 0; \
    w.place = (map##_count(1) < (capacity)) ^ wl_unknown; \
    const bool counted = w.place & 1; \
    bpf_loop(WL_OTHERS, map##_seek_step, &w, 0); \
    const bool found = w.place >> 63; \
    if (found) line->away++; \
    if (!found || !counted || w.place & WL_HAD_EXPIRED) map##_count(-1); \
    return found ? w.place : 0; \
} \
/* The same, with an entry that makes room. */ \
WL_SMALL uint64_t map##_elsewhere(const struct map##_key *k, uint64_t hash, uint64_t now) { \
    uint64_t place = k ? map##_room(k, hash, now) : 0; \
    for (uint32_t j = 0; j <= WL_OTHERS && !place; j++) place = map##_evict(k, hash, now, j); \
    return place; \
} \
/* The slot of a new entry, whose line is locked. */ \
WL_INLINE struct map##_slot *map##_new(wl_fx *x, const struct map##_key *k, const wl_held *at) { \
    struct map##_line *line = at->line; \
    uint64_t i = (slots); \
    _Pragma("unroll") for (unsigned j = 0; j < (slots); j++) \
        if (!line->slot[j].used) { i = j; break; } \
    i ^= wl_unknown; \
    if (WL_LIKELY(i < (slots))) { \
        if (WL_LIKELY(map##_count(1) < (capacity))) { \
            map##_take(line, i, k, x->core->now, map##_mark(at->hash)); \
            x->state->table[number][WL_INSERTS]++; \
            return &line->slot[i]; \
        } \
        map##_count(-1); \
    } \
    uint64_t place = (lru) ? map##_elsewhere(k, at->hash, x->core->now) : map##_room(k, at->hash, x->core->now); \
    line = map##_at(WL_LINE_OF(place)); \
    i = WL_SLOT_OF(place); \
    if (!place || !line || i >= (slots)) { x->state->table[number][WL_REJECTED]++; return NULL; } \
    x->state->table[number][WL_INSERTS]++; \
    if ((idle) != 0 && place & WL_HAD_EXPIRED) x->state->table[number][WL_EXPIRED]++; \
    if ((lru) && place & WL_MADE_ROOM) x->state->table[number][WL_EVICTIONS]++; \
    return &line->slot[i]; \
} \
WL_INLINE bool map##_add(wl_fx *x, const struct map##_key *k, const uint64_t *v, const wl_held *at) { \
    struct map##_slot *s = map##_new(x, k, at); \
    if (!s) return false; \
    WL_MOVE(values, map##_value_words(v), s->value, v); \
    return true; \
} \
/* Does one thing with an entry: 1 if it was there or is there now, 0 if not, 2 without room, \
   3 if the line could not be locked. */ \
__attribute__((noinline)) int map##_do(uint32_t what, const struct map##_key *k, struct map##_copy *v, uint64_t now) { \
    wl_core core = {.now = now}; \
    wl_fx fx = {.core = &core}, *x = &fx; \
    const uint32_t cpu = bpf_get_smp_processor_id(); \
    wl_held at = {0}; \
    bool far = false; \
    if (!k || !v) return 3; \
    x->state = wl_state_of(cpu); \
    if (!x->state || !map##_lock_if(true, k, &at)) return 3; \
    struct map##_slot *s = map##_find(x, k, &at, &far); \
    int result = s != NULL; \
    if (what == WL_PUT) { \
        if (!s) s = map##_new(x, k, &at); \
        if (s) WL_MOVE(values, map##_value_words(v->v), s->value, v->v); \
        result = s ? 1 : 2; \
    } else if (what == WL_GET || what == WL_LOOK) { \
        if (s) WL_MOVE(values, map##_value_words(s->value), v->v, s->value); \
        if (what == WL_GET) x->state->table[number][s ? WL_HITS : WL_MISSES]++; \
    } \
    if (s && what == WL_REMOVE) map##_free(s, at.line, far); \
    else if (s && what != WL_LOOK) s->used = map##_stamp(now); \
    wl_table_unlock(at); \
    return result; \
} \
/* Reads an entry without its lock, if nobody holds it: 1, 0 if there is none, or 3: it cannot be \
   told. */ \
WL_INLINE int map##_peek(wl_fx *x, const struct map##_key *k, uint64_t *v) { \
    const uint64_t hash = map##_hash_here(k); \
    struct map##_line *line = map##_at(map##_own(hash)); \
    if (!line) return 3; \
    const uint32_t turn = wl_turn(&line->lock); \
    WL_FENCE; \
    const uint64_t i = (keys) > WL_FEW ? map##_index_marked(line, k, hash) : map##_index(line, k, hash); \
    uint64_t used = 0; \
    if (i < (slots)) { \
        used = line->slot[i].used; \
        WL_MOVE_FIRST(values, map##_value_words(line->slot[i].value), v, line->slot[i].value); \
    } \
    const bool known = i < (slots) ? used >= map##_over(x->core->now) : !line->away; \
    WL_FENCE; \
    if (WL_UNLIKELY(!known || turn & 1 || wl_turn(&line->lock) != turn)) return 3; \
    if (i >= (slots)) { x->state->table[number][WL_MISSES]++; return 0; } \
    /* If the entry has gone meanwhile, it stays so. */ \
    const uint64_t stamp = map##_stamp(x->core->now); \
    if (used != stamp) { \
        if (map##_alone(x)) line->slot[i].used = stamp; \
        else (void)__sync_val_compare_and_swap(&line->slot[i].used, used, stamp); \
    } \
    x->state->table[number][WL_HITS]++; \
    return 1; \
} \
/* Of long keys or values by a function: the verifier follows it once. */ \
__attribute__((noinline)) int map##_peek_long(const struct map##_key *k, struct map##_copy *v, uint64_t now) { \
    wl_core core = {.now = now}; \
    wl_fx fx = {.core = &core}, *x = &fx; \
    const uint32_t cpu = bpf_get_smp_processor_id(); \
    x->state = wl_state_of(cpu); \
    WL_KEEP(now); /* the kernel wants an argument, also if nothing uses it */ \
    return k && v && x->state ? map##_peek(x, k, v->v) : 3; \
} \
/* Reads an entry, without its lock if nobody holds it: 1, 0 if there is none, or 3. */ \
WL_INLINE int map##_get_as(wl_fx *x, const struct map##_key *k, uint64_t *v, const bool near) { \
    if (WL_ORDERED) { \
        const int seen = (wide) && !near ? map##_peek_long(k, (struct map##_copy *)v, map##_now(x)) : map##_peek(x, k, v); \
        if (WL_LIKELY(seen < 2)) return seen; \
    } \
    if (wide) return map##_do(WL_GET, k, (struct map##_copy *)v, map##_now(x)); \
    struct map##_copy c = {0}; \
    const int found = map##_do(WL_GET, k, &c, map##_now(x)); \
    WL_COPY(values, v, c.v); \
    return found; \
} \
WL_INLINE int map##_get(wl_fx *x, const struct map##_key *k, uint64_t *v) { return map##_get_as(x, k, v, false); } \
WL_INLINE int map##_get_near(wl_fx *x, const struct map##_key *k, uint64_t *v) { return map##_get_as(x, k, v, WL_IN_LINE); } \
/* Frees the entries of a line that have expired. */ \
WL_INLINE int map##_sweep(wl_fx *x, const uint32_t n) { \
    const uint64_t over = map##_over(x->core->now); \
    struct map##_line *line = map##_at(n); \
    if (!line) return 0; \
    _Pragma("unroll") for (unsigned i = 0; i < (slots); i++) { \
        struct map##_slot *s = &line->slot[i]; \
        if (!s->used || s->used >= over) continue; \
        const bool guest = (line->mark[i] & WL_GUEST) != 0; \
        const uint64_t hash = map##_hash((const struct map##_key *)s->key); \
        struct map##_line *own = map##_at(guest ? map##_own(hash) : n); \
        if (!own || !wl_lock_if(true, &own->lock)) return 3; \
        /* With the lock an entry of this line is what it is. */ \
        if (s->used && s->used < over && ((line->mark[i] & WL_GUEST) != 0) == guest && map##_hash((const struct map##_key *)s->key) == hash) { \
            map##_free(s, own, guest); \
            x->state->table[number][WL_EXPIRED]++; \
        } \
        wl_unlock(&own->lock); \
    } \
    return 1; \
}

/* The body of a table's program for changes: the result is that of `do`. */
#define WL_CHANGES(map, keys, values) \
    wl_core core = {.now = wl_now()}; \
    wl_fx fx = {.core = &core}, *x = &fx; \
    uint8_t *d = (uint8_t *)(long)ctx->data; \
    const uint32_t cpu = bpf_get_smp_processor_id(); \
    x->state = wl_state_of(cpu); \
    if (!x->state || d + 8 * (1 + (keys) + (values)) > (const uint8_t *)(long)ctx->data_end) return 0; \
    uint64_t *in = (uint64_t *)d; \
    struct map##_copy v = {0}; \
    struct map##_key k; \
    WL_COPY(keys, k.w, in + 1); \
    WL_COPY(values, v.v, in + 1 + (keys)); \
    if (in[0] == WL_SWEEP) return map##_sweep(x, (uint32_t)k.w[0]); \
    const int result = map##_do((uint32_t)in[0], &k, &v, core.now); \
    WL_COPY(values, in + 1 + (keys), v.v); \
    return result;

/* The same where keys and values lie in scratch, from a word of it on. */
#define WL_WIDE_CHANGES(map, keys, values, word) \
    wl_core core = {.now = wl_now()}; \
    wl_fx fx = {.core = &core}, *x = &fx; \
    const uint32_t cpu = bpf_get_smp_processor_id(); \
    uint64_t what = 0; \
    x->state = wl_state_of(cpu); \
    x->scratch = wl_scratch_here(); \
    if (!x->state || !x->scratch || bpf_xdp_load_bytes(ctx, 0, &what, 8)) return 0; \
    struct map##_key *k = (struct map##_key *)(x->scratch->wide + (word)); \
    struct map##_copy *v = (struct map##_copy *)(x->scratch->wide + (word) + (keys)); \
    if (bpf_xdp_load_bytes(ctx, 8, k, 8 * (keys)) || bpf_xdp_load_bytes(ctx, 8 + 8 * (keys), v, 8 * (values))) return 0; \
    if (what == WL_SWEEP) return map##_sweep(x, (uint32_t)k->w[0]); \
    const int result = map##_do((uint32_t)what, k, v, core.now); \
    return bpf_xdp_store_bytes(ctx, 8 + 8 * (keys), v, 8 * (values)) ? 0 : result;

/* The same for an array. */
#define WL_ARRAY_CHANGES(map, values, capacity) \
    wl_fx fx = {0}, *x = &fx; \
    const uint32_t cpu = bpf_get_smp_processor_id(); \
    uint64_t *in = (uint64_t *)(long)ctx->data; \
    x->state = wl_state_of(cpu); \
    if (!x->state || (uint8_t *)in + 8 * (2 + (values)) > (const uint8_t *)(long)ctx->data_end || in[1] >= (capacity)) return 0; \
    const uint64_t what = in[0]; \
    const uint32_t at = (uint32_t)in[1]; \
    struct map##_slot *s = map##_at(at); \
    if (!s || !wl_lock_if(true, &s->lock)) return 3; \
    if (what == WL_GET || what == WL_LOOK) WL_COPY(values, in + 2, s->value); \
    if (what == WL_PUT) WL_COPY(values, s->value, in + 2); \
    if (what == WL_REMOVE) { _Pragma("unroll") for (unsigned i = 0; i < (values); i++) s->value[i] = 0; } \
    wl_unlock(&s->lock); \
    return 1;
#endif
