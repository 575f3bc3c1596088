/* Flow counters: open addressing, 32-byte entries, CRC32C hash, the whole batch fetched ahead, load
   factor at most a quarter. */
#include "hw.h"

struct entry { struct key key; uint64_t packets, bytes; };
static struct entry *table;
static uint32_t mask;
static uint8_t *trace;
static uint64_t created;

ALWAYS void count(struct key k, uint32_t h) {
    for (uint32_t i = h & mask;; i = (i + 1) & mask) {
        struct entry *e = table + i;
        if (same_key(e->key, k)) { e->packets++; e->bytes += FRAME; return; }
        if (!e->key.proto) { *e = (struct entry){k, 1, FRAME}; created++; return; }
    }
}
ALWAYS void count_batch(const uint8_t *first) {
    /* By column: a key that is stored in pieces and loaded whole has to wait for its stores. */
    uint64_t addresses[BATCH];
    uint32_t ports[BATCH], proto[BATCH], h[BATCH];
    for (uint32_t i = 0; i < BATCH; i++) {
        const uint8_t *p = first + (size_t)i * FRAME;
        struct key k = key_of(p);
        k.proto |= parse(p, FRAME) ? 0x100 : 0;
        h[i] = hash_key(k);
        addresses[i] = k.addresses; ports[i] = k.ports; proto[i] = k.proto;
        __builtin_prefetch(table + (h[i] & mask), 1);
    }
    for (uint32_t i = 0; i < BATCH; i++) if (proto[i] & 0x100) count((struct key){addresses[i], ports[i], proto[i]}, h[i]); else counts.bad++;
    counts.frames += BATCH;
}
static void batch(uint32_t from) { count_batch(trace + (size_t)from * FRAME); }
void flow_count(const uint8_t *frames) { count_batch(frames); }
void flow_table(uint32_t flows) {
    uint32_t slots = 1;
    while (slots < 4 * flows) slots *= 2;
    table = big_alloc((size_t)slots * sizeof *table);
    mask = slots - 1;
}
static void setup(uint32_t flows, uint64_t seed) {
    flow_table(flows);
    trace = flow_trace(flows, flow_frames(flows), seed, 0);
}
static void setup_1k(void) { setup(1000, 7); }
static void setup_100k(void) { setup(100000, 8); }
static void setup_1m(void) { setup(1000000, 9); }
static void setup_burst(void) { flow_table(1000); trace = burst_trace(1000, flow_frames(1000), 7, 0, BURST); }
static void check(void) {
    uint64_t entries = 0, packets = 0;
    for (uint64_t i = 0; i <= mask; i++) { entries += table[i].key.proto != 0; packets += table[i].packets; }
    printf(",\"entries\":%lu,\"exact\":%s", (unsigned long)entries, packets == counts.frames - counts.bad ? "true" : "false");
}
struct job flow_jobs[5] = {{"flow_1k", 1u << 18, setup_1k, batch, NULL, check}, {"flow_100k", 1u << 18, setup_100k, batch, NULL, check}, {"flow_1m", 1u << 21, setup_1m, batch, NULL, check}, {"flow_burst", 1u << 18, setup_burst, batch, NULL, check}};
