/* tuple_space.h against the plain meaning: random rules come and go, every answer is compared with
   a search through all. */
#include "wireloom.h"
#include "base.h"
#include "builtin.h"
#include "tuple_space.h"
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { WORDS = 4, CAPACITY = 20000 };
static struct rule { uint32_t k[WORDS], m[WORDS], priority, value; bool there; } rules[CAPACITY];
static uint64_t seed = 7;
static uint32_t next(void) { uint64_t z = (seed += UINT64_C(0x9e3779b97f4a7c15)); z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9); return (uint32_t)((z ^ z >> 27) * UINT64_C(0x94d049bb133111eb) >> 32); }
#define NEED(e) do { if (!(e)) { printf("line %d: %s\n", __LINE__, #e); exit(1); } } while (0)

int main(int argc, char **argv) {
    unsigned long rounds = argc > 1 ? strtoul(argv[1], NULL, 10) : 20000;
    wl_tuple_space t;
    uint32_t *memory = malloc(4 * WL_TUPLE_SPACE_WORDS(WORDS, CAPACITY)), *value = malloc(4 * CAPACITY);
    wl_tuple_space_init(&t, memory, WORDS, CAPACITY);
    static const unsigned shape[14] = {0x3, 0xf, 0x1, 0x2, 0x6, 0xe, 0x9, 0x8, 0xc, 0xd, 0x7, 0xb, 0x5, 0xa};
    unsigned n = 0;
    for (unsigned long r = 0; r < rounds; r++) {
        /* Grows to a few hundred, shrinks to nothing, and so on. */
        bool grow = (r / 600) % 2 == 0;
        unsigned k = next() % 400;
        struct rule *x = &rules[k];
        if (x->there && (!grow || next() % 4 == 0)) {
            NEED(wl_tuple_space_delete(&t, x->k, x->m, x->priority));
            NEED(!wl_tuple_space_delete(&t, x->k, x->m, x->priority));
            x->there = false;
            n--;
        } else if (!x->there && grow) {
            unsigned s = shape[next() % 14];
            for (unsigned w = 0; w < WORDS; w++) { x->m[w] = s >> w & 1 ? next() % 3 ? 0xffffffff : 0xffff0000 : 0; x->k[w] = next() % 5 * 0x00010001; }
            x->priority = next() % 50;
            bool same = false;
            for (unsigned i = 0; i < 400 && !same; i++) {
                if (!rules[i].there || rules[i].priority != x->priority || memcmp(rules[i].m, x->m, sizeof x->m)) continue;
                same = true;
                for (unsigned w = 0; w < WORDS; w++) same &= (rules[i].k[w] & x->m[w]) == (x->k[w] & x->m[w]);
            }
            if (same) continue;
            uint32_t e = wl_tuple_space_insert(&t, x->k, x->m, x->priority);
            NEED(e < CAPACITY);
            value[e] = k;
            x->there = true;
            n++;
        }
        NEED(t.used == n);
        uint32_t key[WORDS];
        for (unsigned w = 0; w < WORDS; w++) key[w] = next() % 6 * 0x00010001 + next() % 2;
        int64_t best = -1;
        for (unsigned i = 0; i < 400; i++) {
            bool hit = rules[i].there;
            for (unsigned w = 0; w < WORDS; w++) hit &= ((key[w] ^ rules[i].k[w]) & rules[i].m[w]) == 0;
            if (hit && rules[i].priority > best) best = rules[i].priority;
        }
        uint32_t e = wl_tuple_space_find(&t, key, WORDS);
        NEED((e == UINT32_MAX) == (best < 0));
        if (e != UINT32_MAX) {
            NEED(*wl_tuple_space_priority(&t, e) == best && rules[value[e]].there);
            for (unsigned w = 0; w < WORDS; w++) NEED(((key[w] ^ rules[value[e]].k[w]) & rules[value[e]].m[w]) == 0);
        }
        if (r % 64 == 0) {
            uint64_t at = 0;
            unsigned seen = 0;
            for (uint32_t i; (i = wl_tuple_space_next(&t, &at)) != UINT32_MAX; seen++) NEED(rules[value[i]].there);
            NEED(seen == n);
        }
    }
    /* To the brim, and empty again. */
    wl_tuple_space_init(&t, memory, WORDS, CAPACITY);
    uint32_t full[WORDS] = {~0u, ~0u, ~0u, ~0u}, half[WORDS] = {~0u, 0xffff0000, 0, 0};
    for (uint32_t i = 0; i < CAPACITY; i++) {
        uint32_t k[WORDS] = {i * 2654435761u, i << 16, i, i ^ 77};
        NEED(wl_tuple_space_insert(&t, k, i % 4 ? full : half, i) != UINT32_MAX);
    }
    uint32_t k[WORDS] = {1, 2, 3, 4};
    NEED(wl_tuple_space_insert(&t, k, full, 1) == UINT32_MAX && t.stats.rejected == 1);
    for (uint32_t i = 0; i < CAPACITY; i++) {
        uint32_t q[WORDS] = {i * 2654435761u, i << 16, i, i ^ 77};
        uint32_t e = wl_tuple_space_find(&t, q, WORDS);
        NEED(e != UINT32_MAX && *wl_tuple_space_priority(&t, e) == i);
    }
    if (argc > 2) {
        struct timespec a, b;
        uint64_t sum = 0;
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &a);
        for (uint32_t i = 0; i < 4000000; i++) { uint32_t j = i % CAPACITY, q[WORDS] = {j * 2654435761u, j << 16, j, j ^ 77}; sum += wl_tuple_space_find(&t, q, WORDS); }
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &b);
        printf("%u entries, %u masks: %.1f ns (%lu)\n", t.used, t.tuples, ((double)(b.tv_sec - a.tv_sec) * 1e9 + (double)(b.tv_nsec - a.tv_nsec)) / 4e6, (unsigned long)sum);
    }
    /* The best first: not each time all others are looked at for the next. */
    uint32_t looked = 0;
    for (uint32_t i = CAPACITY; i-- > 0;) {
        uint32_t q[WORDS] = {i * 2654435761u, i << 16, i, i ^ 77}, was = t.tuple[0].best;
        NEED(wl_tuple_space_delete(&t, q, i % 4 ? full : half, i));
        looked += t.tuple[0].best != was;
        uint32_t j = i ? next() % i : 0, other[WORDS] = {j * 2654435761u, j << 16, j, j ^ 77}, e = wl_tuple_space_find(&t, other, WORDS);
        NEED(i == 0 || (e != UINT32_MAX && *wl_tuple_space_priority(&t, e) == j));
        NEED(wl_tuple_space_find(&t, q, WORDS) == UINT32_MAX);
    }
    NEED(looked < CAPACITY / 8);
    NEED(t.used == 0 && t.tuples == 0 && wl_tuple_space_find(&t, k, WORDS) == UINT32_MAX);
    /* Each with a mask of its own. */
    wl_tuple_space_init(&t, memory, WORDS, CAPACITY);
    for (uint32_t i = 0; i < CAPACITY; i++) {
        struct rule *x = &rules[i];
        for (unsigned w = 0; w < WORDS; w++) { x->m[w] = next() & next() & (w ? 0xf : 0x7); x->k[w] = next(); }
        x->m[3] = i + 1;
        x->priority = i % 16 ? CAPACITY - i : next() % CAPACITY;
        NEED(wl_tuple_space_insert(&t, x->k, x->m, x->priority) != UINT32_MAX);
    }
    NEED(t.tuples == CAPACITY);
    for (unsigned i = 0; i + 1 < t.tuples; i++) NEED(t.tuple[i].best >= t.tuple[i + 1].best);
    for (unsigned r = 0; r < 300; r++) {
        uint32_t key[WORDS];
        int64_t best = -1;
        for (unsigned w = 0; w < WORDS; w++) key[w] = r % 2 ? rules[r * 60].k[w] : next();
        for (unsigned i = 0; i < CAPACITY; i++) {
            bool hit = true;
            for (unsigned w = 0; w < WORDS; w++) hit &= ((key[w] ^ rules[i].k[w]) & rules[i].m[w]) == 0;
            if (hit && rules[i].priority > best) best = rules[i].priority;
        }
        uint32_t e = wl_tuple_space_find(&t, key, WORDS);
        NEED((e == UINT32_MAX) == (best < 0) && (best < 0 || *wl_tuple_space_priority(&t, e) == best));
    }
    puts("good");
    return 0;
}
