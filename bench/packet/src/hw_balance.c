/* Layer 4 balancing: Maglev ring of 65537 places, connection table with 20-byte keys in 24-byte
 * entries, IP-in-IP in place. Frames lie at a stride of 128 bytes with 64 bytes before them, so
 * that a tunnel is one write. What it overwrote is restored behind each batch. */
#include "hw.h"

#define PLACES 65537u
#define SERVERS 100u
#define STRIDE 128u
struct entry { uint64_t addresses; uint32_t ports; uint16_t proto, server; };
static struct entry *table;
static uint32_t mask, ring[PLACES];
static struct { uint32_t address; uint64_t packets, bytes; } server[SERVERS + 1];
static uint8_t *trace;
static uint64_t hits, misses;

static void make_ring(void) {
    uint32_t offset[SERVERS], skip[SERVERS], next[SERVERS], filled = 0;
    for (uint32_t i = 0; i < SERVERS; i++) {
        uint64_t s = 1000 + i, a = rng_next(&s);
        offset[i] = (uint32_t)(a % PLACES);
        skip[i] = (uint32_t)((a >> 32) % (PLACES - 1) + 1);
        next[i] = 0;
        server[i + 1].address = htonl(0x0a640000u + i + 1);
    }
    for (;;)
        for (uint32_t i = 0; i < SERVERS; i++) {
            uint32_t place;
            do place = (uint32_t)((offset[i] + (uint64_t)next[i]++ * skip[i]) % PLACES); while (ring[place]);
            ring[place] = i + 1;
            if (++filled == PLACES) return;
        }
}
/* The new frame begins 20 bytes before p. */
ALWAYS void tunnel(uint8_t *p, uint32_t to, uint32_t from) {
    uint64_t eth0;
    uint32_t eth1, w[5];
    uint16_t total;
    memcpy(&eth0, p, 8);
    memcpy(&eth1, p + 8, 4);
    memcpy(&total, p + 16, 2);
    w[0] = 0x45 | (uint32_t)__builtin_bswap16((uint16_t)(__builtin_bswap16(total) + 20)) << 16;
    w[1] = 0; w[2] = 0x0440; w[3] = from; w[4] = to;
    w[2] |= (uint32_t)(uint16_t)~fold((uint64_t)w[0] + w[1] + w[2] + w[3] + w[4]) << 16;
    memcpy(p - 20, &eth0, 8);
    memcpy(p - 12, &eth1, 4);
    p[-8] = 8; p[-7] = 0;
    memcpy(p - 6, w, 20);
}
ALWAYS void restore(uint8_t *p) {
    static const uint8_t head[16] = {2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0, 0x45, 0};
    memcpy(p, head, 16);
}
ALWAYS uint32_t server_of(struct key k, uint32_t h) {
    for (uint32_t i = h & mask;; i = (i + 1) & mask) {
        struct entry *e = table + i;
        if (e->addresses == k.addresses && e->ports == k.ports && e->proto == k.proto) { hits++; return e->server; }
        if (!e->proto) {
            uint32_t s = ring[(uint64_t)(h * 2654435761u) * PLACES >> 32];
            *e = (struct entry){k.addresses, k.ports, (uint16_t)k.proto, (uint16_t)s};
            misses++;
            return s;
        }
    }
}
static void batch(uint32_t from) {
    /* By column, as in hw_flow.c. */
    uint64_t addresses[BATCH];
    uint32_t ports[BATCH], proto[BATCH], h[BATCH];
    uint8_t *first = trace + (size_t)from * STRIDE + 64;
    for (uint32_t i = 0; i < BATCH; i++) {
        const uint8_t *p = first + i * STRIDE;
        struct key k = key_of(p);
        bool ours = parse(p, FRAME) & ((uint32_t)(k.addresses >> 32) == __builtin_bswap32(VIP)) & (p[23] == 17);
        k.proto = ours ? 0x111 : 0;
        h[i] = hash_key(k);
        addresses[i] = k.addresses; ports[i] = k.ports; proto[i] = k.proto;
        __builtin_prefetch(table + (h[i] & mask), 1);
    }
    for (uint32_t i = 0; i < BATCH; i++) {
        if (!proto[i]) { counts.bad++; continue; }
        uint32_t s = server_of((struct key){addresses[i], ports[i], proto[i]}, h[i]);
        server[s].packets++;
        server[s].bytes += FRAME;
        tunnel(first + i * STRIDE, server[s].address, __builtin_bswap32(VIP));
    }
    for (uint32_t i = 0; i < BATCH; i++) restore(first + i * STRIDE);
    counts.frames += BATCH;
}
/* Other source ports in each of MANY rounds. */
static void other_ports(uint32_t number) {
    uint8_t change = (uint8_t)((number ^ (number - 1)) % MANY << 4);
    if (number) for (uint32_t i = 0; i < EACH; i++) trace[(size_t)i * STRIDE + 64 + 34] ^= change;
}
static void setup(uint8_t *frames, uint32_t n, uint64_t flows) {
    uint64_t slots = 1;
    while (slots < 2 * flows) slots *= 2;
    table = big_alloc(slots * sizeof *table);
    mask = (uint32_t)(slots - 1);
    trace = big_alloc((size_t)n * STRIDE + 4096);
    for (uint32_t i = 0; i < n; i++) memcpy(trace + (size_t)i * STRIDE + 64, frames + (size_t)i * FRAME, FRAME);
    munmap(frames, (size_t)n * FRAME);
    make_ring();
}
static void setup_1k(void) { setup(flow_trace(1000, flow_frames(1000), 5, VIP), flow_frames(1000), 1000); }
static void setup_1m(void) { setup(flow_trace(1000000, flow_frames(1000000), 7, VIP), flow_frames(1000000), 1000000); }
static void setup_32m(void) { setup(each_flow_trace(), EACH, (uint64_t)EACH * MANY); }
static void check(void) { printf(",\"hits\":%lu,\"entries\":%lu", (unsigned long)hits, (unsigned long)misses); }
struct job balance_jobs[3] = {{"lb_1k", 1u << 18, setup_1k, batch, NULL, check}, {"lb_1m", 1u << 21, setup_1m, batch, NULL, check}, {"lb_32m", EACH, setup_32m, batch, other_ports, check}};
