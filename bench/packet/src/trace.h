/* trace.h: deterministic frames and rules that all programs of this bench share.
 *
 * Frames are 64 bytes of Ethernet, IPv4 and UDP or TCP, one behind the other. In: numbers of flows
 * or rules and a seed. Out: the frames in memory (large pages), which `gen` writes as captures and
 * `hw` reads where they lie. */
#ifndef TRACE_H
#define TRACE_H
#include <arpa/inet.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#define FRAME 64u
#define VIP 0xc0a80001u   /* 192.168.0.1 */

static inline uint64_t rng_next(uint64_t *s) {
    uint64_t z = (*s += UINT64_C(0x9e3779b97f4a7c15));
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}
/* A number below n. */
static inline uint32_t rng_below(uint64_t *s, uint32_t n) { return (uint32_t)((rng_next(s) >> 32) * (uint64_t)n >> 32); }

/* Zeroed memory in large pages. */
static inline void *big_alloc(size_t n) {
    const size_t page = (size_t)1 << 21;
    n = (n + page - 1) & ~(page - 1);
    char *p = mmap(0, n + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED) { perror("mmap"); exit(1); }
    p = (char *)(((uintptr_t)p + page - 1) & ~(uintptr_t)(page - 1));
    madvise(p, n, MADV_HUGEPAGE);
    memset(p, 0, n);
    return p;
}
static inline double cpu_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static inline uint16_t header_sum(const uint8_t *h, int n) {
    uint32_t s = 0;
    for (int i = 0; i < n; i += 2) s += (uint32_t)(h[i] << 8 | h[i + 1]);
    while (s >> 16) s = (s & 0xffff) + (s >> 16);
    return htons((uint16_t)~s);
}
/* Addresses and ports in host order; without a UDP checksum. */
static inline void make_frame(uint8_t *p, uint32_t src, uint32_t dst, uint16_t sport, uint16_t dport, uint8_t proto) {
    static const uint8_t eth[14] = {2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0};
    memset(p, 0, FRAME);
    memcpy(p, eth, 14);
    uint8_t *ip = p + 14, *l4 = ip + 20;
    ip[0] = 0x45; ip[3] = 50; ip[6] = 0x40; ip[8] = 64; ip[9] = proto;
    uint32_t a = htonl(src), b = htonl(dst);
    memcpy(ip + 12, &a, 4);
    memcpy(ip + 16, &b, 4);
    uint16_t sum = header_sum(ip, 20), s = htons(sport), d = htons(dport);
    memcpy(ip + 10, &sum, 2);
    memcpy(l4, &s, 2);
    memcpy(l4 + 2, &d, 2);
    if (proto == 17) l4[5] = 30; else { l4[12] = 0x50; l4[13] = 0x10; }
}

/* ---- flows ---- */

struct tuple { uint32_t src, dst; uint16_t sport, dport; };
/* Flow i; all differ. */
static inline struct tuple flow_tuple(uint32_t i) {
    uint32_t h = i * 2654435761u;
    return (struct tuple){0x0a000000u | (h & 0xffffff), 0xc0a80000u | ((i * 40503u) & 0xff), (uint16_t)(1024 + ((i >> 24) | ((h >> 24) << 3))), (uint16_t)(53 + (i & 3))};
}
/* `frames` frames of uniformly random flows, of each so many in a row. To one address if `vip` is
   not 0. */
static inline uint8_t *burst_trace(uint32_t flows, uint32_t frames, uint64_t seed, uint32_t vip, uint32_t burst) {
    uint8_t *t = big_alloc((size_t)frames * FRAME);
    struct tuple f = {0};
    for (uint32_t i = 0; i < frames; i++) {
        if (i % burst == 0) f = flow_tuple(rng_below(&seed, flows));
        make_frame(t + (size_t)i * FRAME, f.src, vip ? vip : f.dst, f.sport, f.dport, 17);
    }
    return t;
}
static inline uint8_t *flow_trace(uint32_t flows, uint32_t frames, uint64_t seed, uint32_t vip) { return burst_trace(flows, frames, seed, vip, 1); }
#define BURST 16u
/* Frames of a trace: the number asked for; else 16 MiB of few flows, 128 MiB of a million. */
extern uint32_t trace_frames;
static inline uint32_t flow_frames(uint32_t flows) { return trace_frames ? trace_frames : flows > 100000 ? 1u << 21 : 1u << 18; }

/* A frame of each of 2^21 flows to the VIP. Replayed MANY times, each time with other source ports,
   they are 32M flows. */
#define EACH (1u << 21)
#define MANY 16u
static inline uint8_t *each_flow_trace(void) {
    uint8_t *t = big_alloc((size_t)EACH * FRAME);
    for (uint32_t i = 0; i < EACH; i++) {
        struct tuple f = flow_tuple((i * 747796405u + 1) & (EACH - 1));
        make_frame(t + (size_t)i * FRAME, f.src, VIP, f.sport, f.dport, 17);
    }
    return t;
}

/* ---- rules ---- */

struct rule { uint32_t src, dst; uint16_t dport; uint8_t src_bits, dst_bits, has_dport, has_proto, proto, accept; };
/* The masks of the rules: 12. */
static const struct { uint8_t src, dst, dport, proto; } rule_masks[12] = {{24, 24, 1, 1}, {32, 0, 0, 0}, {0, 32, 1, 1}, {16, 24, 0, 1}, {24, 32, 1, 1}, {8, 16, 0, 0},
                                                                          {0, 24, 1, 1}, {32, 32, 1, 1}, {16, 0, 0, 1}, {0, 16, 0, 0}, {24, 0, 1, 1}, {32, 24, 0, 1}};
static inline uint32_t prefix(unsigned bits) { return bits ? UINT32_MAX << (32 - bits) : 0; }

/* The first of two rules that a frame fits decides. */
static inline struct rule *make_rules(uint32_t n, uint64_t seed) {
    struct rule *r = calloc(n, sizeof *r);
    for (uint32_t i = 0; i < n; i++) {
        uint64_t a = rng_next(&seed), b = rng_next(&seed);
        unsigned m = i % 12;
        r[i] = (struct rule){.src_bits = rule_masks[m].src, .dst_bits = rule_masks[m].dst, .has_dport = rule_masks[m].dport, .has_proto = rule_masks[m].proto, .accept = b >> 24 & 1};
        r[i].src = ((uint32_t)a % 0xdf000000u + 0x01000000u) & prefix(r[i].src_bits);
        r[i].dst = ((uint32_t)(a >> 32) % 0xdf000000u + 0x01000000u) & prefix(r[i].dst_bits);
        if (r[i].has_dport) r[i].dport = (uint16_t)(1 + (b & 0x3ff));
        if (r[i].has_proto) r[i].proto = b >> 20 & 1 ? 6 : 17;
    }
    return r;
}
static inline uint32_t rule_frames(void) { return trace_frames ? trace_frames : 1u << 16; }
/* One frame in ten is made without looking at the rules. */
static inline uint8_t *rule_trace(const struct rule *rules, uint32_t n, uint64_t seed) {
    const uint32_t frames = rule_frames();
    uint8_t *t = big_alloc((size_t)frames * FRAME);
    for (uint32_t i = 0; i < frames; i++) {
        uint64_t a = rng_next(&seed), b = rng_next(&seed), c = rng_next(&seed);
        uint32_t src = (uint32_t)a % 0xdf000000u + 0x01000000u, dst = (uint32_t)(a >> 32) % 0xdf000000u + 0x01000000u;
        uint16_t sport = (uint16_t)(1024 + (b & 0x7fff)), dport = (uint16_t)(2000 + (b >> 16 & 0x7fff));
        uint8_t proto = b >> 40 & 1 ? 6 : 17;
        if (c % 10) {
            const struct rule *r = rules + (c >> 8) % n;
            src = (src & ~prefix(r->src_bits)) | r->src;
            dst = (dst & ~prefix(r->dst_bits)) | r->dst;
            if (r->has_dport) dport = r->dport;
            if (r->has_proto) proto = r->proto;
        }
        make_frame(t + (size_t)i * FRAME, src, dst, sport, dport, proto);
    }
    return t;
}
#endif
