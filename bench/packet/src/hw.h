/* hw.h: the common part of the hand-written jobs. A job has a trace and a function that handles
   BATCH frames of it. */
#ifndef HW_H
#define HW_H
#include "trace.h"
#include <immintrin.h>
#include <stdbool.h>

#define BATCH 64u
#define ALWAYS static inline __attribute__((always_inline))

struct job {
    const char *name;
    uint32_t frames;                  /* of the trace; a multiple of BATCH */
    void (*setup)(void);
    void (*batch)(uint32_t from);     /* handles frames from .. from + BATCH - 1 */
    void (*round)(uint32_t number);   /* before each pass over the trace; may be NULL */
    void (*check)(void);              /* prints ,"name":value … after the run; may be NULL */
};
extern struct job parse_job, flow_jobs[5], rule_jobs[3], balance_jobs[3];

/* A table for so many flows, and 64 frames counted in it. */
void flow_table(uint32_t flows);
void flow_count(const uint8_t *frames);

/* Counters that every job keeps, so that no work can be left out. */
extern struct counts { uint64_t frames, bytes, bad, udp; } counts;

/* Ethernet, IPv4 without options, and a length that fits. */
ALWAYS bool parse(const uint8_t *p, uint32_t n) {
    uint16_t type, total;
    memcpy(&type, p + 12, 2);
    memcpy(&total, p + 16, 2);
    total = __builtin_bswap16(total);
    return (type == 8) & (p[14] == 0x45) & (total >= 28) & (total + 14u <= n);
}
ALWAYS uint32_t fold(uint64_t s) {
    s = (s & 0xffffffff) + (s >> 32);
    s = (s & 0xffffffff) + (s >> 32);
    s = (s & 0xffff) + (s >> 16);
    return (uint32_t)((s & 0xffff) + (s >> 16));
}
/* A flow: both addresses; both ports; protocol. */
struct key { uint64_t addresses; uint32_t ports, proto; };
ALWAYS struct key key_of(const uint8_t *p) {
    struct key k = {.proto = p[23]};
    memcpy(&k.addresses, p + 26, 8);
    memcpy(&k.ports, p + 34, 4);
    return k;
}
ALWAYS uint32_t hash_key(struct key k) {
    uint64_t h = _mm_crc32_u64(0x1234567, k.addresses), g = _mm_crc32_u64(0x89abcdef, (uint64_t)k.proto << 32 | k.ports);
    return (uint32_t)((h ^ g * 0x9e3779b1u) * 0x85ebca77u >> 7);
}
ALWAYS bool same_key(struct key a, struct key b) { return a.addresses == b.addresses && a.ports == b.ports && a.proto == b.proto; }
#endif
