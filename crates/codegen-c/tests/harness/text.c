/* Searches and comparisons of text against their plain meaning: every length to 80, from every
 * byte. Texts end where their memory does, so that the sanitizer finds a read behind them. */
#include "builtin.h"
#include <stdio.h>
#include <stdlib.h>

static uint64_t state = 1;
static uint32_t below(uint32_t n) {
    state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)((state >> 33) % n);
}
#define GOOD(e) do { if (!(e)) { fprintf(stderr, "line %d: %s\n", __LINE__, #e); exit(1); } } while (0)

/* A set, in its three shapes. */
static wl_set set_of(const char *bytes, uint32_t n) {
    wl_set s = {0};
    for (uint32_t i = 0; i < n; i++) {
        uint8_t b = (uint8_t)bytes[i];
        s.map[b >> 6] |= UINT64_C(1) << (b & 63);
        uint8_t row = (uint8_t)(1u << (b >> 4 & 7));
        if (b >> 4 < 8) s.lo[b & 15] |= row; else s.hi[b & 15] |= row;
    }
    return s;
}
static void searches(const uint8_t *p, uint32_t n) {
    const wl_set sets[] = {set_of("\r\n", 2), set_of(":", 1), set_of("\0", 1), set_of("\200\377 ", 3)};
    for (uint32_t i = 0; i <= n; i++) {
        for (uint32_t k = 0; k < 4; k++) {
            uint32_t at = i;
            while (at < n && !wl_in(&sets[k], p[at])) at++;
            GOOD(wl_scan_set(p, i, n, &sets[k]) == at);
            GOOD(wl_all_in(wl_b(p + i, n - i), &sets[k]) == (at == n));
        }
        uint32_t at = i;
        while (at < n && p[at] != ':' && p[at] != 0) at++;
        GOOD(wl_scan_two(p, i, n, ':', 0) == at);
    }
}
static bool same(wl_bytes a, wl_bytes b) {
    if (a.n != b.n) return false;
    for (uint32_t i = 0; i < a.n; i++) if (wl_lower1(a.p[i]) != wl_lower1(b.p[i])) return false;
    return true;
}
/* Every pair of bytes, at every place of texts of lengths to 20. */
static void pairs(void) {
    for (uint32_t n = 1; n <= 20; n++) {
        uint8_t *a = malloc(n), *b = malloc(n);
        for (uint32_t at = 0; at < n; at++) {
            memset(a, 'x', n);
            memset(b, 'X', n);
            for (uint32_t x = 0; x < 256; x++) for (uint32_t y = 0; y < 256; y++) {
                a[at] = (uint8_t)x;
                b[at] = (uint8_t)y;
                GOOD(wl_eq_case(wl_b(a, n), wl_b(b, n)) == (wl_lower1((uint8_t)x) == wl_lower1((uint8_t)y)));
            }
        }
        free(a);
        free(b);
    }
}
/* Every byte at every place, among letters and among bytes beside letters. */
static void lowered(void) {
    for (uint32_t n = 1; n <= 20; n++) {
        uint8_t *a = malloc(n), *d = malloc(n);
        for (uint32_t at = 0; at < n; at++) for (uint32_t x = 0; x < 256; x++) {
            memset(a, "AZ@[\200\332"[x % 6], n);
            a[at] = (uint8_t)x;
            wl_lower_to(d, a, n);
            for (uint32_t i = 0; i < n; i++) GOOD(d[i] == wl_lower1(a[i]));
        }
        free(a);
        free(d);
    }
}
/* Elements of a list, taken one by one. */
static bool lists(wl_bytes list, wl_bytes token) {
    for (uint32_t from = 0, i = 0; i <= list.n; i++) {
        if (i < list.n && list.p[i] != ',') continue;
        uint32_t a = from, b = i;
        while (a < b && (list.p[a] == ' ' || list.p[a] == '\t')) a++;
        while (b > a && (list.p[b - 1] == ' ' || list.p[b - 1] == '\t')) b--;
        if (b > a && same(wl_b(list.p + a, b - a), token)) return true;
        from = i + 1;
    }
    return false;
}
static void tokens(void) {
    static const char *const names[] = {"", "a", "ab", "abA"};
    for (uint32_t round = 0; round < 200000; round++) {
        uint32_t n = below(24);
        uint8_t *p = malloc(n ? n : 1);
        for (uint32_t i = 0; i < n; i++) p[i] = (uint8_t)"aAbB,, \t"[below(8)];
        wl_bytes token = wl_b(names[round % 4], round % 4);
        GOOD(wl_has_token(wl_b(p, n), token) == lists(wl_b(p, n), token));
        free(p);
    }
}
static void number(uint64_t v, unsigned radix) {
    uint8_t b[64];
    char want[65];
    int n = snprintf(want, sizeof want, radix == 10 ? "%llu" : "%llx", (unsigned long long)v);
    GOOD(wl_digits_of(b, v, radix) == (uint32_t)n && memcmp(b + 64 - n, want, (size_t)n) == 0);
}
static void numbers(void) {
    for (uint64_t v = 0; v < 20000; v++) number(v, 10);
    for (uint64_t v = 1; v < UINT64_MAX / 10; v *= 10) for (int d = -1; d <= 1; d++) { number(v + (uint64_t)d, 10); number(v + (uint64_t)d, 16); }
    number(UINT64_MAX, 10);
    number(UINT64_MAX, 16);
    for (uint32_t i = 0; i < 100000; i++) number(((uint64_t)below(UINT32_MAX) << 32 | below(UINT32_MAX)) >> below(64), i % 2 ? 10 : 16);
}
#define IS(text, name) GOOD(wl_eq_case(wl_b(text, sizeof text - 1), wl_b(name, sizeof name - 1)) == same(wl_b(text, sizeof text - 1), wl_b(name, sizeof name - 1)))
int main(void) {
    static const char few[] = {0, ':', '\r', '\n', 'a', 'Z', '@', '[', (char)0x80, (char)0xff, ' ', '{'};
    for (uint32_t n = 0; n <= 80; n++) for (uint32_t round = 0; round < 20; round++) {
        uint8_t *p = malloc(n ? n : 1), *q = malloc(n ? n : 1);
        for (uint32_t i = 0; i < n; i++) {
            p[i] = round % 2 && i + 1 < n ? 'a' : (uint8_t)few[below(sizeof few)];
            q[i] = below(12) ? (uint8_t)(p[i] ^ (below(2) ? 0x20 : 0)) : (uint8_t)few[below(sizeof few)];
        }
        if (n) searches(p, n);
        GOOD(wl_eq_case(wl_b(p, n), wl_b(q, n)) == same(wl_b(p, n), wl_b(q, n)));
        free(p);
        free(q);
    }
    pairs();
    lowered();
    tokens();
    numbers();
    IS("Host", "host"); IS("HOST", "host"); IS("hos", "host"); IS("Content-Length", "content-length"); IS("Content\rLength", "content-length");
    IS("TRANSFER-ENCODING", "transfer-encoding"); IS("transfer_encoding", "transfer-encoding"); IS("a", "A"); IS("@", "`"); IS("[", "{"); IS("", "");
    puts("good");
    return 0;
}
