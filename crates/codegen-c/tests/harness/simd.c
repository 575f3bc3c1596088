/* What simd.h makes of sixteen frames, against its plain meaning: words at any places, lengths,
 * fields of entries, where frames go. Each frame ends where a page ends, behind which there is
 * nothing. */
#include "wireloom.h"
#include "simd.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define NEED(e) do { if (!(e)) { printf("line %d: %s\n", __LINE__, #e); exit(1); } } while (0)
#ifdef WL_LANES
static uint64_t seed = 5;
static uint32_t next(void) { uint64_t z = (seed += UINT64_C(0x9e3779b97f4a7c15)); z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9); return (uint32_t)((z ^ z >> 27) * UINT64_C(0x94d049bb133111eb) >> 32); }

static uint8_t *pages[WL_LANES];
static wl_frame frames[WL_LANES * 4];

static void fill(uint32_t n) {
    for (unsigned k = 0; k < WL_LANES; k++) {
        frames[k] = (wl_frame){.p = pages[k] + 4096 - n, .n = n, .wire = next()};
        for (uint32_t i = 0; i < n; i++) frames[k].p[i] = (uint8_t)next();
    }
}
static void same(wl_lanes v, const uint32_t *want) {
    uint32_t got[WL_LANES];
    wl_lanes_store(got, v);
    for (unsigned k = 0; k < WL_LANES; k++) NEED(got[k] == want[k]);
}
#define WORDS(from, end, ...) do { \
    const uint32_t place[8] = {__VA_ARGS__}; \
    for (unsigned longer = 0; longer < 3; longer++) { \
        fill(end + 7 * longer); \
        const wl_lanes_8 got = wl_lanes_words(frames, from, end, __VA_ARGS__); \
        for (unsigned w = 0; w < 8; w++) { \
            uint32_t want[WL_LANES]; \
            for (unsigned k = 0; k < WL_LANES; k++) memcpy(&want[k], frames[k].p + place[w], 4); \
            same(got.w[w], want); \
        } \
    } \
} while (0)

static void words(void) {
    WORDS(0, 54, 12, 16, 20, 26, 30, 34, 38, 46);
    WORDS(0, 34, 12, 16, 20, 20, 20, 20, 20, 20);
    WORDS(0, 28, 0, 4, 8, 12, 12, 12, 12, 12);
    WORDS(0, 28, 24, 0, 1, 7, 11, 13, 22, 24);
    WORDS(0, 64, 60, 59, 3, 17, 42, 12, 1, 0);
    WORDS(70, 98, 70, 74, 80, 86, 91, 94, 94, 94);
    WORDS(60, 64, 60, 60, 60, 60, 60, 60, 60, 60);
    WORDS(33, 97, 33, 93, 40, 51, 62, 73, 84, 92);
}
static void lengths(void) {
    fill(60);
    uint32_t want[WL_LANES];
    for (unsigned k = 0; k < WL_LANES; k++) want[k] = frames[k].n = 54 + next() % 100;
    const wl_lanes v = wl_lanes_lengths(frames);
    same(v, want);
    NEED(wl_lanes_hold(v, 54));
    frames[next() % WL_LANES].n = 53;
    NEED(!wl_lanes_hold(wl_lanes_lengths(frames), 54));
}
/* Fields of as many entries as there are, from one of a byte to more than a line. */
#define FIELDS(size, place, bits) do { \
    for (uint32_t used = 1; used < 100; used++) { \
        uint8_t *const entries = malloc((size_t)used * size + 3); \
        for (uint32_t i = 0; i < used * size; i++) entries[i] = (uint8_t)next(); \
        uint32_t index[WL_LANES], want[WL_LANES], got[WL_LANES]; \
        const uint32_t who = next() & WL_LANES_ALL; \
        for (unsigned k = 0; k < WL_LANES; k++) { \
            index[k] = who >> k & 1 ? next() % used : UINT32_MAX; \
            want[k] = 0; \
            if (who >> k & 1) memcpy(&want[k], entries + index[k] * size + place, bits / 8); \
        } \
        wl_lanes_store(got, wl_lanes_and(wl_lanes_at(entries, wl_lanes_load(index), size, place, used, who), wl_lanes_set(UINT32_MAX >> (32 - bits)))); \
        for (unsigned k = 0; k < WL_LANES; k++) NEED(got[k] == want[k]); \
        free(entries); \
    } \
} while (0)

static void leave(void) {
    wl_lanes_left left = {.bytes = wl_lanes_set(0)};
    uint64_t bytes = 0, n = 0;
    for (unsigned round = 0; round < 100; round++) {
        fill(60);
        uint32_t out[WL_LANES];
        for (unsigned k = 0; k < WL_LANES; k++) {
            frames[k].n = next() % 65536;
            out[k] = next() % 2 ? WL_GONE : 0x10002;
            if (out[k] != WL_GONE) { n++; bytes += frames[k].n; }
        }
        wl_lanes_count_left(&left, wl_lanes_load(out), wl_lanes_lengths(frames));
        wl_lanes_leave(frames, wl_lanes_load(out));
        for (unsigned k = 0; k < WL_LANES; k++) NEED(frames[k].out == out[k]);
    }
    wl_core core = {0};
    wl_lanes_all_left(&core, left, 0x10002);
    NEED(core.left.known == 1 && core.left.frames == n && core.left.bytes == bytes && core.left.out == 0x10002);
}
int main(void) {
    for (unsigned k = 0; k < WL_LANES; k++) {
        pages[k] = mmap(0, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        NEED(pages[k] != MAP_FAILED && mprotect(pages[k] + 4096, 4096, PROT_NONE) == 0);
    }
    words();
    lengths();
    FIELDS(1, 0, 8);
    FIELDS(2, 0, 16);
    FIELDS(4, 0, 32);
    FIELDS(8, 4, 32);
    FIELDS(8, 3, 8);
    FIELDS(24, 22, 16);
    FIELDS(72, 64, 32);
    leave();
    puts("good");
    return 0;
}
#else
int main(void) { puts("good"); return 0; }
#endif
