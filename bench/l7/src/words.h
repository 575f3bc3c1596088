/* The word-count job's text format and its checksum, shared by the generator and the reducer.
 * A stream is lines "word\tcount\n", sorted bytewise by word, each word at most once. */
#ifndef BENCH_WORDS_H
#define BENCH_WORDS_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

enum { MAX_WORD = 32, MAX_LINE = MAX_WORD + 22 };

/* A digest of a stream; two equal digests mean the same lines in the same order. */
struct digest {
    uint64_t bytes, lines, sum, checksum;
};

static inline uint64_t mix(uint64_t x)
{
    x ^= x >> 32;
    x *= 0xd6e8feb86659fd93ull;
    x ^= x >> 32;
    return x;
}

/* `line` is without its newline; `count` is the number after the tab. */
static inline void digest_line(struct digest *d, const char *line, size_t len, uint64_t count)
{
    uint64_t h = len, chunk;
    size_t at = 0;
    for (; at + 8 <= len; at += 8) {
        memcpy(&chunk, line + at, 8);
        h = mix(h ^ chunk);
    }
    chunk = 0;
    memcpy(&chunk, line + at, len - at);
    h = mix(h ^ chunk);
    d->checksum = d->checksum * 0x9e3779b97f4a7c15ull + h; /* the order counts */
    d->bytes += len + 1;
    d->lines++;
    d->sum += count;
}

static inline char *put_number(char *at, uint64_t n)
{
    char digits[20];
    int len = 0;
    do {
        digits[len++] = (char)('0' + n % 10);
        n /= 10;
    } while (n);
    while (len)
        *at++ = digits[--len];
    return at;
}

static inline void print_digest(FILE *to, const char *name, const struct digest *d)
{
    fprintf(to, "\"%s\":{\"bytes\":%lu,\"lines\":%lu,\"sum\":%lu,\"checksum\":\"%016lx\"}", name,
            d->bytes, d->lines, d->sum, d->checksum);
}

#endif
