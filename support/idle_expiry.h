/* idle_expiry.h: entries of a core hash table expire when they were not used for the table's idle
 * time. The end of core_hash_table.h includes this file.
 *
 * Expiry costs nothing per frame. An expired entry is absent for lookups (wl_slot_expired), and the
 * next insertion that passes takes its slot (wl_core_table_expire). As time goes on,
 * wl_core_table_tend sweeps the whole table in small parts, before stamps wrap. */
#ifndef WL_IDLE_EXPIRY_H
#define WL_IDLE_EXPIRY_H

/* Time has come to `ticks`: sweeps as much as is due. All slots are seen in less than half the time
   after which stamps come round. */
static __attribute__((noinline)) void wl_core_table_sweep(wl_core_table *t, const wl_shape *g, uint64_t ticks, uint32_t tick) {
    uint64_t gone = ticks > t->tended ? ticks - t->tended : 0;
    t->tended = ticks;
    for (unsigned p = 0; p < 2; p++) {
        if (!t->used[p] || !gone) continue;
        if (gone >> 21) {
            /* A jump: nothing is as young as that. */
            for (uint32_t i = 0; i < t->top[p]; i++) wl_slot_touch(wl_slot_at(t, p, g[p], i), g[p], 0);
            if (g[p].front) memset(t->front[p], 0, (size_t)g[p].front * g[p].size);
            t->stats.expired += t->used[p];
            t->stats.entries -= t->used[p];
            t->used[p] = 0;
            t->moves++;
        } else {
            const uint64_t top = t->top[p], wish = top * gone / t->idle, must = (top * gone >> 20) + 1, n = wish < 64 ? wish : 64;
            wl_core_table_sweep_on(t, p, g[p], (uint32_t)(n < must ? must : n), tick);
        }
        if (!t->used[p]) wl_core_table_begin(t, p, g[p]);
    }
}
/* To be called before a table that expires is used at a new time. */
WL_INLINE void wl_core_table_tend(wl_core_table *t, const wl_shape *g, const wl_core *c, const unsigned shift) {
    if (WL_UNLIKELY(c->now >> shift != t->tended)) wl_core_table_sweep(t, g, c->now >> shift, wl_tick(c, shift));
}
#endif
