/* A packet program by hand, for the tests of the runtime. Parameter 0 says what it does with the
   frames of port 0. */
#include "wireloom.h"
#include <stdio.h>
#include <string.h>

enum { FORWARD, DROP, ORDER, TEE, SHRINK, GROW, CROSS, FAULT, CLOCK, BRIDGE, ECHO, REPLY, FILTER };
enum { ON_FRAME, ON_TICK, NEXT, INSERT, ON_FAULT };
struct state { uint64_t seen, ticks, faults, first_tick, keys[64], values[64], n, batches; uint32_t last[4096]; };

static wl_packets packets;

/* So many flows have one steering hash. */
#ifndef BY
#define BY 1
#endif

/* Every other batch reports the fate of its frames. */
#ifndef TELLS
#define TELLS 0
#endif

static void one(wl_core *c, uint64_t mode, wl_frame *f) {
    struct state *s = c->state;
    uint32_t to = 1u << 16, flow, seq;
    s->seen++;
    switch (mode) {
    case FORWARD: f->out = to; break;
    case ORDER: /* frames of a flow have numbers that go up by one */
        memcpy(&flow, f->p + 42, 4);
        memcpy(&seq, f->p + 46, 4);
        if (seq != s->last[flow]) c->host->fault(c, WL_F_USER, 0);
        s->last[flow] = seq + 1;
        f->out = to;
        break;
    case TEE: /* a copy to port 2, then, changed, every other one to port 2 as well */
        packets.transmit(c, 2, 0, f->p, f->n);
        f->p[0] ^= 0x80;
        if (!(f->p[1] & 1)) f->out = 2u << 16;
        break;
    case SHRINK: f->p += 4; f->n -= 4; f->head += 4; f->out = to; break;
    case GROW: f->p -= 20; f->n += 20; f->head -= 20; memset(f->p, 0x11, 20); f->out = to; break;
    case CROSS: f->out = to | f->instance; break;
    case FAULT: c->host->fault(c, WL_F_USER, 0); break;
    case BRIDGE: f->out = 1u - f->instance; break;
    case ECHO: f->out = f->instance; break;
    case REPLY: { /* to a ping, as IP without Ethernet */
        uint8_t *p = f->p, a[4];
        uint32_t sum;
        if (f->n < 28 || p[0] != 0x45 || p[9] != 1 || p[20] != 8) break;
        memcpy(a, p + 12, 4);
        memcpy(p + 12, p + 16, 4);
        memcpy(p + 16, a, 4);
        p[20] = 0;
        sum = (uint32_t)(p[22] << 8 | p[23]) + 0x0800;
        sum += sum >> 16;
        p[22] = (uint8_t)(sum >> 8);
        p[23] = (uint8_t)sum;
        f->out = f->instance;
        break;
    }
    case FILTER: /* by the last byte: dropped, to port 1, or to port 2 */
        if (f->p[f->n - 1] & 1) f->out = f->p[f->n - 1] & 2 ? 2u << 16 : to;
        break;
    case CLOCK: memcpy(f->p, &c->now, 8); memcpy(f->p + 8, &s->ticks, 8); f->out = to; break;
    }
}

/* Reports the fate of a batch, if the frames that leave all go one way. */
static void tell(wl_core *c, const wl_frame *f, uint32_t n) {
    wl_left left = {.known = 1};
    for (uint32_t i = 0; i < n; i++) {
        if (f[i].out == WL_GONE) continue;
        if (left.frames++ && left.out != f[i].out) return;
        left.out = f[i].out;
        left.bytes += f[i].n;
    }
    c->left = left;
}

static void batch(void *self, wl_core *c, uint32_t handler, wl_frame *f, uint32_t n) {
    (void)self; (void)handler;
    for (uint32_t i = 0; i < n; i++) one(c, c->param[0].u, f + i);
    if (TELLS && ++((struct state *)c->state)->batches % 2) tell(c, f, n);
}

static void batch_nothing(void *self, wl_core *c, uint32_t handler, wl_frame *f, uint32_t n) { (void)self; (void)c; (void)handler; (void)f; (void)n; }

static void steer(void *self, uint32_t port, const wl_frame *f, uint32_t n, uint32_t *hashes) {
    (void)self; (void)port;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t flow = 0;
        if (f[i].n >= 46) memcpy(&flow, f[i].p + 42, 4);
        hashes[i] = flow / BY * 2654435761u;
    }
}

static int run(void *self, wl_task *t) {
    wl_core *c = t->core;
    struct state *s = c->state;
    const wl_param *arg = (const void *)t->req.base;
    char text[200], key[32], value[32], cursor[32];
    (void)self;
    switch (t->handler) {
    case ON_TICK: if (!s->ticks++) s->first_tick = c->now; return WL_T_DONE;
    case ON_FAULT: s->faults++; return WL_T_DONE;
    case INSERT:
        if (s->n == 64) { t->fault = WL_F_FULL; t->place = 0; return WL_T_FAULT; }
        s->keys[s->n] = arg[0].u;
        s->values[s->n++] = arg[1].u;
        c->host->reply(t, (wl_bytes){0}, WL_TAIL_NONE, 0);
        return WL_T_DONE;
    case NEXT: {
        uint64_t i = arg[0].u;
        int n = snprintf(text, sizeof text, "20:%llu-", (unsigned long long)UINT64_MAX);
        if (i < s->n) {
            snprintf(key, sizeof key, "%llu", (unsigned long long)s->keys[i]);
            snprintf(value, sizeof value, "%llu", (unsigned long long)s->values[i]);
            snprintf(cursor, sizeof cursor, "%llu", (unsigned long long)i + 1);
            n = snprintf(text, sizeof text, "%zu:%s+%zu:%s1:x%zu:%s", strlen(cursor), cursor, strlen(key), key, strlen(value), value);
        }
        c->host->reply(t, (wl_bytes){(const uint8_t *)text, (uint32_t)n, 0}, WL_TAIL_NONE, 0);
        return WL_T_DONE;
    }
    }
    return WL_T_FAULT;
}

static const wl_program program = { .abi = WL_ABI, .handlers = 5, .state_size = sizeof(struct state), .run = run };
const wl_program *wireloom_program(void) { return &program; }

static wl_packets packets = { .batch = batch };

/* Compiled with -DNOTHING: a batch function that does nothing; with -DSTEER: frames have a steering
   hash. */
wl_packets *wireloom_packets(void) {
#ifdef NOTHING
    packets.batch = batch_nothing;
#else
    (void)batch_nothing;
#endif
#ifdef STEER
    packets.steer = steer;
#else
    (void)steer;
#endif
    return &packets;
}
