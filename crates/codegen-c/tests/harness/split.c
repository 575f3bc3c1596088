/* Reads messages in hex from the arguments (`unit:hex`) and prints the parser's answers. Every cut
 * of a message in two, and one byte by byte, must give the same result. With `!` before the hex the
 * connection ends after the bytes. */
#include GENERATED
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct result { int r; uint32_t head, used, fault, place, flags; uint8_t *view; } result;
static const wl_program *prog;

/* Cut positions: bit i of the plan = a cut before byte i+1; step 0 = whole. Bytes are copied to
 * exact-size heap blocks so that any read beyond what was given is caught. */
static result feed(uint32_t unit, const uint8_t *b, uint32_t n, int eof, uint32_t cut, uint32_t step, int runs) {
    const wl_unit *u = &prog->unit[unit];
    result x = {0};
    wl_parser *v = calloc(1, u->view_size);
    uint32_t have = step ? (step < n ? step : n) : (cut < n ? cut : n);
    int r;
    for (;;) {
        uint8_t *copy = malloc(have ? have : 1);
        memcpy(copy, b, have);
        r = u->parse(prog->self, unit, v, copy, have, eof && have == n);
        free(copy);
        if (r != WL_MORE || have == n) break;
        have = step ? (have + step < n ? have + step : n) : n;
    }
    uint32_t at = 0;
    if (r == WL_HEAD) {
        at = v->head;
        for (int idle = 0; idle < 3;) {
            if (runs && v->left) {   /* the runtime skips a run by itself */
                uint32_t k = v->left < have - at ? (uint32_t)v->left : have - at;
                at += k; v->left -= k;
            }
            uint32_t used = 0;
            uint8_t *copy = malloc(have - at ? have - at : 1);
            memcpy(copy, b + at, have - at);
            r = u->tail(prog->self, unit, v, copy, have - at, eof && have == n, &used);
            free(copy);
            if (used > have - at) { printf("used too much\n"); exit(1); }
            at += used;
            if (r != WL_MORE) break;
            if (have == n && used == 0) idle++;
            have = step ? (have + step < n ? have + step : n) : n;
        }
    } else {
        at = v->head;
    }
    x.r = r; x.head = v->head; x.used = at; x.flags = v->flags & 0x7fffffff & ~(uint32_t)WL_M_OMIT;
    if (r == WL_BAD) { x.fault = v->fault; x.place = v->place; if (!(v->flags & WL_M_IN_STEP)) { x.used = 0; } }
    x.view = (uint8_t *)v;
    return x;
}

static int same(const result *a, const result *b, uint32_t unit) {
    if (a->r != b->r || a->head != b->head || a->used != b->used || a->fault != b->fault || a->flags != b->flags) return 0;
    if (a->r == WL_MORE || a->r == WL_BAD) return 1;
    /* Whole messages: all that was read is the same. */
    size_t from = unit == 2 ? offsetof(u__t__Request__view, f) : offsetof(u__t__Stream__view, f);
    size_t n = unit == 2 ? sizeof(u__t__Request_) : 0;
    return memcmp(a->view + from, b->view + from, n) == 0;
}

int main(int argc, char **argv) {
    prog = wireloom_program();
    for (int i = 1; i < argc; i++) {
        uint32_t unit = (uint32_t)atoi(argv[i]), n = 0;
        const char *s = strchr(argv[i], ':') + 1;
        int eof = *s == '!';
        s += eof;
        uint8_t *b = malloc(strlen(s) + 1);
        for (; s[0] && s[1]; s += 2, n++) { unsigned x; sscanf(s, "%2x", &x); b[n] = (uint8_t)x; }
        result whole = feed(unit, b, n, eof, n, 0, 0);
        printf("%d head %u used %u fault %u flags %u\n", whole.r, whole.head, whole.used, whole.fault, whole.flags);
        for (uint32_t cut = 0; cut <= n && n < 3000; cut++) for (int runs = 0; runs < 2; runs++) {
            result x = feed(unit, b, n, eof, cut, 0, runs);
            if (!same(&whole, &x, unit)) { printf("DIFFERENT at cut %u: %d head %u used %u fault %u flags %u\n", cut, x.r, x.head, x.used, x.fault, x.flags); return 1; }
            free(x.view);
        }
        for (uint32_t step = 1; step < 40; step += step < 4 ? 1 : 7) {
            result x = feed(unit, b, n, eof, 0, step, (int)step & 1);
            if (!same(&whole, &x, unit)) { printf("DIFFERENT at step %u: %d head %u used %u fault %u flags %u\n", step, x.r, x.head, x.used, x.fault, x.flags); return 1; }
            free(x.view);
        }
        free(whole.view);
        free(b);
    }
    return 0;
}
