/* export.h: a program as a part of another program (`wireloom build --export`).
 *
 * An instance is a core of its own. It has memory for the program's state and tables, scratch, and
 * the functions of the host that a program without ports can call. Nothing here is global, so
 * instances know nothing of each other. */
#ifndef WL_EXPORT_H
#define WL_EXPORT_H
#include "wireloom.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { WL_EXPORT_OUT_MAX = 16 << 20, WL_EXPORT_LINE = 64, WL_EXPORT_NO_MEMORY = -1, WL_EXPORT_BAD_ARGUMENT = -2 };

/* Bytes that host->keep() has copied. */
typedef struct wl_kept { struct wl_kept *next; } wl_kept;

typedef struct wl_instance {
    wl_core core;
    wl_host host;
    const wl_program *program;
    void *state, *shared, *frame;   /* as they were allocated */
    wl_param *param;
    wl_kept *kept;
    const uint8_t *result;          /* the answer of the segment that has run last */
    uint32_t result_n, answered;
    uint64_t lead;                  /* from the monotonic clock to `now` */
} wl_instance;

static inline wl_instance *wl_instance_of(wl_task *t) { return t->core->rt; }

static inline void wl_export_reply(wl_task *t, wl_bytes head, uint32_t tail, uint32_t flags) {
    wl_instance *i = wl_instance_of(t);
    (void)tail; (void)flags;
    i->result = head.p;
    i->result_n = head.n;
    i->answered = 1;
}

static inline int wl_export_grow(wl_core *core, uint32_t need) {
    size_t used = (size_t)(core->out.p - core->out.start), size = (size_t)(core->out.end - core->out.start);
    size_t want = used + need;
    if (want > WL_EXPORT_OUT_MAX) return 0;
    if (want > size) {
        while (size < want) size *= 2;
        uint8_t *p = realloc(core->out.start, size);
        if (!p) return 0;
        core->out.start = p;
        core->out.end = p + size;
    }
    core->out.p = core->out.start + used;
    return 1;
}

static inline void wl_export_log(wl_core *core, uint32_t level, wl_bytes text) {
    (void)core; (void)level;
    fprintf(stderr, "%.*s\n", (int)text.n, (const char *)text.p);
}

static inline void wl_export_fault(wl_core *core, uint32_t kind, uint32_t place) { (void)core; (void)kind; (void)place; }
static inline void wl_export_pause(wl_core *core) { core->fuel = UINT32_MAX; }

/* The thread is its caller's: it has no limit. */
static inline int wl_export_late(wl_core *core, uint64_t *begun) { (void)core; (void)begun; return 0; }

static inline int wl_export_keep(wl_task *t, wl_bytes bytes) {
    wl_instance *i = wl_instance_of(t);
    wl_kept *k = malloc(sizeof *k + bytes.n);
    if (!k) return 0;
    k->next = i->kept;
    i->kept = k;
    if (bytes.n) memcpy(k + 1, bytes.p, bytes.n);
    t->kept = (wl_bytes){(const uint8_t *)(k + 1), bytes.n, 0};
    return 1;
}

static inline uint64_t wl_export_clock(clockid_t which) {
    struct timespec t = {0, 0};
    clock_gettime(which, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* Zeroed memory; the program's part begins at a cache line. */
static inline void *wl_export_line(void *p) {
    return (void *)(((uintptr_t)p + WL_EXPORT_LINE - 1) & ~(uintptr_t)(WL_EXPORT_LINE - 1));
}

static inline void wl_export_close(wl_instance *i) {
    if (!i) return;
    free(i->state);
    free(i->shared);
    free(i->frame);
    free(i->param);
    free(i->core.out.start);
    free(i);
}

/* Runs a handler with its arguments: 0, or the number of a fault. */
static inline int wl_export_run(wl_instance *i, uint32_t handler, const wl_param *args) {
    wl_task t;
    memset(&t, 0, sizeof t);
    i->core.now = wl_export_clock(CLOCK_MONOTONIC) + i->lead;
    i->core.wall = wl_export_clock(CLOCK_REALTIME);
    i->core.out.p = i->core.out.start;
    i->core.fuel = UINT32_MAX;
    i->answered = 0;
    t.core = &i->core;
    t.frame = i->frame;
    t.handler = handler;
    t.place = UINT32_MAX;
    t.req.base = (const uint8_t *)args;
    int how = i->program->run(i->program->self, &t);
    while (i->kept) {
        wl_kept *k = i->kept;
        i->kept = k->next;
        free(k);
    }
    if (how == WL_T_DONE) return 0;
    return t.fault ? t.fault : 16 /* no_reply */;
}

/* An instance; the parameters' values, which have `bytes` bytes with all that they name, are
 * copied. NULL: there is no memory. */
static inline wl_instance *wl_export_open(const wl_program *program, const wl_param *params, uint32_t n) {
    wl_instance *i = calloc(1, sizeof *i);
    if (!i) return NULL;
    size_t bytes = (n + 1) * sizeof *params;
    for (uint32_t k = 0; k < n; k++) bytes += params[k].b.n;
    i->program = program;
    i->host = (wl_host){.reply = wl_export_reply, .grow = wl_export_grow, .log = wl_export_log,
                        .fault = wl_export_fault, .pause = wl_export_pause, .late = wl_export_late, .keep = wl_export_keep};
    i->state = calloc(1, program->state_size + WL_EXPORT_LINE);
    i->shared = calloc(1, program->shared_size + WL_EXPORT_LINE);
    i->frame = calloc(1, program->frame_size + 8);
    i->param = calloc(1, bytes);
    i->core.out.start = malloc(4096);
    if (!i->state || !i->shared || !i->frame || !i->param || !i->core.out.start) {
        wl_export_close(i);
        return NULL;
    }
    uint8_t *text = (uint8_t *)(i->param + n + 1);
    for (uint32_t k = 0; k < n; k++) {
        i->param[k] = params[k];
        if (params[k].b.n) memcpy(text, params[k].b.p, params[k].b.n);
        i->param[k].b.p = text;
        text += params[k].b.n;
    }
    wl_core *c = &i->core;
    c->host = &i->host;
    c->rt = i;
    c->state = wl_export_line(i->state);
    c->shared = wl_export_line(i->shared);
    c->param = i->param;
    c->wall = c->now = wl_export_clock(CLOCK_REALTIME);
    i->lead = c->now - wl_export_clock(CLOCK_MONOTONIC);
    c->seed = c->wall ^ (uint64_t)(uintptr_t)i;
    c->cores = 1;
    c->out.p = c->out.start;
    c->out.end = c->out.start + 4096;
    c->self = program->self;
    if (program->init_shared) program->init_shared(program->self, c->shared, i->param);
    if (program->init_core) program->init_core(program->self, c);
    return i;
}

/* The answer is a list of texts with their lengths in front: `2:17`. */
typedef struct wl_answer { const uint8_t *p, *end; } wl_answer;

static inline wl_answer wl_export_answer(const wl_instance *i) {
    return (wl_answer){i->result, i->result + (i->answered ? i->result_n : 0)};
}

static inline wl_bytes wl_export_text(wl_answer *a) {
    uint64_t n = 0;
    while (a->p < a->end && *a->p >= '0' && *a->p <= '9') n = n * 10 + (uint64_t)(*a->p++ - '0');
    if (a->p < a->end) a->p++;
    if (n > (uint64_t)(a->end - a->p)) n = (uint64_t)(a->end - a->p);
    wl_bytes b = {a->p, (uint32_t)n, 0};
    a->p += n;
    return b;
}

static inline uint64_t wl_export_number(wl_answer *a) {
    wl_bytes b = wl_export_text(a);
    uint64_t n = 0;
    uint32_t k = b.n && b.p[0] == '-';
    for (uint32_t at = k; at < b.n; at++) n = n * 10 + (uint64_t)(b.p[at] - '0');
    return k ? 0 - n : n;
}

static inline int wl_export_truth(wl_answer *a) { return wl_export_text(a).n == 4; }

/* Whether the option that comes next has a value. */
static inline int wl_export_there(wl_answer *a) { return a->p < a->end && *a->p++ == '+'; }
#endif
