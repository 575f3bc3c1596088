/* Merges the inputs given as arguments (text, `\n` as `/`), with windows and output of every small
 * size. Prints the result of the first and stops where another differs. */
#include GENERATED
#include <stdio.h>
#include <stdlib.h>

static char *merge(int n, char **text, uint32_t step, uint32_t cap) {
    uint32_t count;
    const wl_merge *m = &wireloom_merges(&count)[0];
    void *state = calloc(1, m->state_size);
    wl_window w[128] = {{0}};
    uint32_t given[128] = {0};
    char *out = calloc(1, 1 << 18);
    size_t have = 0;
    for (;;) {
        wl_merge_at at;
        uint8_t *room = malloc(cap);
        int r = m->run(NULL, state, w, (uint32_t)n, room, cap, &at);
        memcpy(out + have, room, at.used);
        have += at.used;
        free(room);
        if (r == WL_G_DONE) break;
        if (r == WL_G_BAD) { sprintf(out + have, "BAD input %u fault %u", at.input, at.fault); break; }
        if (r == WL_G_FULL) { if (!at.used) { sprintf(out + have, "STUCK"); break; } continue; }
        /* More for the dry input, in a fresh buffer that begins at pos. */
        wl_window *d = &w[at.input];
        uint32_t all = (uint32_t)strlen(text[at.input]), from = given[at.input] - (d->n - d->pos);
        given[at.input] = given[at.input] + step < all ? given[at.input] + step : all;
        free((void *)(uintptr_t)d->buf);
        uint8_t *b = malloc(given[at.input] - from + 1);
        for (uint32_t i = from; i < given[at.input]; i++) b[i - from] = text[at.input][i] == '/' ? '\n' : (uint8_t)text[at.input][i];
        *d = (wl_window){b, 0, given[at.input] - from, given[at.input] == all, 0};
    }
    for (char *c = out; *c; c++) if (*c == '\n') *c = '/';
    return out;
}

int main(int argc, char **argv) {
    char *first = merge(argc - 1, argv + 1, 1000, 4000);
    printf("%s\n", first);
    static const uint32_t steps[] = {1, 2, 3, 7, 11, 31, 64, 65, 97, 200};
    for (uint32_t i = 0; i < sizeof steps / sizeof *steps; i++) {
        uint32_t step = steps[i];
        char *other = merge(argc - 1, argv + 1, step, 1200 + step);
        if (strcmp(first, other)) { printf("DIFFERENT at %u: %s\n", step, other); return 1; }
    }
    return 0;
}
