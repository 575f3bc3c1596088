/* Four threads on one table: values of any size up to several blocks, evictions, removals, expiry.
 * A value must always be one that was written for its key; at the end, everything removed must be
 * back in the pools. */
#include GENERATED
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

enum { CAPACITY = 4096, BLOCKS = 3000, DATA = 60, INL = 32, THREADS = 4, ROUNDS = 100000 };
static wl_table table;
static uint64_t clock_now = 1;

static uint32_t next(uint32_t *s) { *s ^= *s << 13; *s ^= *s >> 17; *s ^= *s << 5; return *s; }

static void *work(void *arg) {
    uint32_t seed = (uint32_t)(uintptr_t)arg * 2654435761u + 1;
    for (int i = 0; i < ROUNDS; i++) {
        uint32_t k = next(&seed) % 6000, op = next(&seed) % 8, vn = next(&seed) % 400;
        uint8_t key[8] = {(uint8_t)k, (uint8_t)(k >> 8)}, value[400], got[400];
        uint32_t kn = 2 + k % 7;
        uint64_t clock = __atomic_add_fetch(&clock_now, 1, __ATOMIC_RELAXED);
        wl_instant now = {clock, clock - (clock & 63)};
        wl_stripe *s;
        if (op < 4) {
            wl_entry *e = wl_table_find(&table, key, kn, now, &s);
            if (e) {
                wl_cursor c = wl_value(&table, e);
                uint32_t n = e->vn;
                if (n > 400) { printf("length %u\n", n); exit(1); }
                wl_take(&c, got, n);
                for (uint32_t j = 0; j < n; j++) if (got[j] != (uint8_t)(k + n)) { printf("wrong value\n"); exit(1); }
            }
            wl_table_unlock(s);
        } else if (op < 7) {
            uint64_t h;
            uint32_t at = wl_table_seek(&table, key, kn, now, &s, &h);
            memset(value, (int)(k + vn), vn);
            wl_entry *e = wl_table_place(&table, key, kn, vn, now, s, at, h);
            if (e) { wl_cursor c = wl_value(&table, e); wl_give(&c, value, vn); }
            wl_table_unlock(s);
        } else {
            wl_table_remove(&table, key, kn, now);
        }
    }
    return NULL;
}

int main(void) {
    static wl_table_stats stats;
    enum { ENTRY = (sizeof(wl_entry) + INL + 7) & ~7u, STRIPES = 4 };
    table = (wl_table){.stats = &stats, .stripe = aligned_alloc(64, STRIPES * sizeof(wl_stripe)), .bucket = calloc(4096, 4), .entry = calloc(CAPACITY + 1, ENTRY),
                       .block = calloc(BLOCKS + 1, DATA + 4), .idle = 200000, .seed = 7, .stripes = STRIPES, .buckets = 4096, .entry_size = ENTRY, .inl = INL,
                       .capacity = CAPACITY, .blocks = BLOCKS, .blocks_left = BLOCKS, .block_data = DATA, .lru = true};
    memset(table.stripe, 0, STRIPES * sizeof(wl_stripe));
    pthread_t t[THREADS];
    for (uintptr_t i = 0; i < THREADS; i++) pthread_create(&t[i], NULL, work, (void *)i);
    for (int i = 0; i < THREADS; i++) pthread_join(t[i], NULL);
    printf("hits %d evictions %d\n", stats.hits > 1000, stats.evictions > 1000);
    for (uint32_t k = 0; k < 6000; k++) {
        uint8_t key[8] = {(uint8_t)k, (uint8_t)(k >> 8)};
        wl_table_remove(&table, key, 2 + k % 7, (wl_instant){1, 1});
    }
    uint32_t free_entries = 0;
    for (uint32_t e = table.free_entry; e; e = wl_entry_at(&table, e)->next) free_entries++;
    printf("entries %llu bytes %llu blocks %u of %u, free %u of %u\n", (unsigned long long)stats.entries, (unsigned long long)stats.bytes, table.blocks_left, table.blocks, free_entries, table.used_entry);
    return stats.entries || stats.bytes || table.blocks_left != table.blocks || free_entries != table.used_entry;
}
