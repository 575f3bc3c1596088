/* wl_tuple_space_find_each against a search through all rules. Rules as of a firewall come and go:
 * addresses of both families, prefixes, ranges of ports, protocols. Keys stand in columns, of which
 * any may ask; some words are the same in all. The number of masks goes from few to more than are
 * looked up side by side. */
#include "wireloom.h"
#include "base.h"
#include "builtin.h"
#include "tuple_space_batch.h"
#include <stdio.h>
#include <stdlib.h>

enum { WORDS = 11, RULES = 700 };
static struct rule { uint32_t k[WORDS + 1], m[WORDS + 1], priority; uint32_t entry; bool there; } rules[RULES];
static _Alignas(64) uint32_t column[WORDS][WL_TUPLE_SPACE_KEYS];
static uint64_t seed = 11;
static uint32_t next(void) { uint64_t z = (seed += UINT64_C(0x9e3779b97f4a7c15)); z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9); return (uint32_t)((z ^ z >> 27) * UINT64_C(0x94d049bb133111eb) >> 32); }
#define NEED(e) do { if (!(e)) { printf("line %d: %s\n", __LINE__, #e); exit(1); } } while (0)

/* An address of few, so that rules and keys meet. */
static void address(uint32_t *k, bool six) {
    static const uint32_t net[4] = {0x0000000a, 0x0000a8c0, 0x0101140a, 0x000010ac};
    const uint32_t host = net[next() % 4] ^ (next() % 4) << 24 ^ (next() % 2) << 20;
    if (six) { k[0] = 0xb80d0120; k[1] = next() % 2; k[2] = 0; k[3] = host; }
    else { k[0] = k[1] = 0; k[2] = 0xffff0000; k[3] = host; }
}
static void prefix(uint32_t *m, bool six, unsigned bits) {
    static const uint32_t part[5] = {0, 0x000000ff, 0x0000ffff, 0x00ffffff, 0xffffffff};
    for (unsigned w = 0; w < 4; w++) m[w] = 0;
    if (!bits) return;
    if (six && bits < 4) { m[0] = 0xffffffff; m[1] = part[bits]; return; }
    m[0] = m[1] = m[2] = 0xffffffff;
    m[3] = part[bits];
}
static void key(uint32_t *k, bool six) {
    address(k, six);
    address(k + 4, six);
    k[8] = next() % 8 ? next() % 4 * 1000 : 65536;
    k[9] = next() % 4 * 1000 + next() % 3;
    k[10] = next() % 2 ? 6 : 17;
    k[11] = 0;
}
/* `masks`: how many different ones there are, about. */
static void make(struct rule *x, unsigned masks, bool both) {
    const uint32_t shape = next() % masks * 2654435761u;
    const bool six = both && next() % 3 == 0;
    key(x->k, six);
    prefix(x->m, six, shape >> 4 & 7 ? (shape >> 4 & 7) % 5 : 4);
    prefix(x->m + 4, six, (shape >> 7 & 7) % 5);
    x->m[8] = shape >> 10 & 3 ? 0 : 0xffffffff;
    x->m[9] = shape >> 12 & 1 ? 0 : shape >> 13 & 1 ? 0xffffffff : 0xfffffffc;
    x->m[10] = shape >> 14 & 1 ? 0xff : 0;
    x->m[11] = 0;
    x->priority = next() % 1000;
}
static bool fits(const uint32_t *k, const struct rule *x) {
    uint32_t d = 0;
    for (unsigned w = 0; w < WORDS; w++) d |= (k[w] ^ x->k[w]) & x->m[w];
    return !d;
}
static bool same(const struct rule *a, const struct rule *b) { return a->priority == b->priority && !memcmp(a->m, b->m, sizeof a->m) && fits(a->k, b); }

static void check(const wl_tuple_space *t, bool both) {
    static uint32_t keys[WL_TUPLE_SPACE_KEYS][WORDS + 1];
    uint32_t found[WL_TUPLE_SPACE_KEYS];
    const uint64_t even = next() % 2 ? 0 : both ? next() & next() & 0x7ff : 0x77 | (next() & next() & 0x7ff);
    for (unsigned k = 0; k < WL_TUPLE_SPACE_KEYS; k++) {
        key(keys[k], both && next() % 3 == 0);
        for (unsigned w = 0; w < WORDS; w++) if (even >> w & 1) keys[k][w] = keys[0][w];
        for (unsigned w = 0; w < WORDS; w++) column[w][k] = keys[k][w];
        found[k] = 77;
    }
    uint64_t who = (uint64_t)next() << 32 | next();
    if (next() % 2) who = UINT64_MAX;
    if (next() % 4 == 0) who &= (uint64_t)next() << 32 | next();
    if (next() % 4 == 0) who >>= next() % 64;
    wl_tuple_space_find_each(t, column[0], who, found, WORDS, even);
    for (unsigned k = 0; k < WL_TUPLE_SPACE_KEYS; k++) {
        if (!(who >> k & 1)) continue;
        const struct rule *best = NULL;
        for (unsigned i = 0; i < RULES; i++) if (rules[i].there && fits(keys[k], &rules[i]) && (!best || rules[i].priority > best->priority)) best = &rules[i];
        NEED((found[k] == UINT32_MAX) == !best);
        if (!best) continue;
        NEED(*wl_tuple_space_priority(t, found[k]) == best->priority);
        bool right = false;
        for (unsigned i = 0; i < RULES; i++) right |= rules[i].there && rules[i].entry == found[k] && fits(keys[k], &rules[i]);
        NEED(right);
    }
}
int main(int argc, char **argv) {
    const unsigned long rounds = argc > 1 ? strtoul(argv[1], NULL, 10) : 200;
    wl_tuple_space *t = malloc(sizeof *t);
    uint32_t *memory = malloc(4 * WL_TUPLE_SPACE_WORDS(WORDS, RULES));
    /* Masks; rules at most; both families. */
    static const struct { unsigned masks, rules; bool both; } phase[] = {{12, 6, false}, {6, 12, false}, {12, 48, true}, {9, 300, false}, {9, 300, true}, {30, 600, true}, {400, RULES, true}, {2, 400, false}};
    for (unsigned p = 0; p < sizeof phase / sizeof phase[0]; p++) {
        memset(rules, 0, sizeof rules);
        wl_tuple_space_init(t, memory, WORDS, RULES);
        unsigned n = 0;
        for (unsigned long r = 0; r < rounds; r++) {
            /* Up in the first half, down in the second. */
            for (unsigned c = 0; c < phase[p].rules * 4 / rounds + 1; c++) {
                struct rule *x = &rules[next() % phase[p].rules];
                if (x->there && (2 * r >= rounds || next() % 8 == 0)) {
                    NEED(wl_tuple_space_delete(t, x->k, x->m, x->priority));
                    x->there = false;
                    n--;
                } else if (!x->there && 2 * r < rounds) {
                    make(x, phase[p].masks, phase[p].both);
                    bool twice = false;
                    for (unsigned i = 0; i < RULES && !twice; i++) twice = rules[i].there && same(x, &rules[i]);
                    if (twice) continue;
                    x->entry = wl_tuple_space_insert(t, x->k, x->m, x->priority);
                    NEED(x->entry != UINT32_MAX);
                    x->there = true;
                    n++;
                }
            }
            NEED(t->used == n);
            check(t, phase[p].both || r % 5 == 0);
        }
    }
    puts("good");
    return 0;
}
