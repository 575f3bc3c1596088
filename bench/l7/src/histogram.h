/* Log-linear latency histogram in nanoseconds: 64 sub-buckets per power of two. */
#ifndef BENCH_HISTOGRAM_H
#define BENCH_HISTOGRAM_H

#include <stdint.h>

enum { HIST_SUB = 64, HIST_BUCKETS = HIST_SUB * 48 };

struct histogram {
    uint64_t bucket[HIST_BUCKETS];
    uint64_t total;
};

static inline void hist_add(struct histogram *h, uint64_t ns)
{
    unsigned index = (unsigned)ns;
    if (ns >= HIST_SUB) {
        unsigned top = 63u - (unsigned)__builtin_clzll(ns);
        index = (top - 5) * HIST_SUB + (unsigned)((ns >> (top - 6)) & (HIST_SUB - 1));
    }
    h->bucket[index < HIST_BUCKETS ? index : HIST_BUCKETS - 1]++;
    h->total++;
}

static inline double hist_value(unsigned index)
{
    if (index < HIST_SUB)
        return index;
    return (double)((uint64_t)(HIST_SUB + index % HIST_SUB) << (index / HIST_SUB - 1));
}

/* Microseconds below which `percent` of the samples lie. */
static inline double hist_percentile_us(const struct histogram *h, double percent)
{
    uint64_t want = (uint64_t)((double)h->total * percent / 100), seen = 0;
    for (unsigned i = 0; i < HIST_BUCKETS; i++) {
        seen += h->bucket[i];
        if (seen > want)
            return hist_value(i) / 1000;
    }
    return 0;
}

#endif
