/* A host of one core with canned replies: runs handlers and prints what they do. Arguments:
 * `handler:hex of the request`; `=hex` sets what the next replies are; `time:ns` moves the clock;
 * `fault:kind` asks for protocol 0's words. */
#include GENERATED
#include <stdio.h>
#include <stdlib.h>

static const wl_program *prog;
static uint8_t reply_bytes[4096];
static uint32_t reply_n, calls;
static wl_msg parts[64];

static void show(const char *what, wl_bytes b) {
    printf("%s \"", what);
    for (uint32_t i = 0; i < b.n; i++) {
        if (b.p[i] >= 32 && b.p[i] < 127) putchar(b.p[i]); else printf("\\x%02x", b.p[i]);
    }
    printf("\"");
}
static wl_parser *view_of(uint32_t unit, uint64_t ctx, const uint8_t *b, uint32_t n) {
    wl_parser *v = calloc(1, prog->unit[unit].view_size);
    v->ctx = ctx;
    int r = prog->unit[unit].parse(prog->self, unit, v, b, n, 0);
    if (r != WL_WHOLE && r != WL_HEAD) { printf("parse %d fault %u\n", r, v->fault); exit(1); }
    if (r == WL_HEAD) {   /* held whole */
        uint32_t used;
        prog->unit[unit].tail(prog->self, unit, v, b + v->head, n - v->head, 0, &used);
    }
    return v;
}
static void host_call(wl_task *t, uint32_t port, uint32_t index, wl_bytes head, uint32_t tail, const wl_call *c) {
    (void)t;
    printf("call port %u index %u ", port, index);
    show("head", head);
    printf(" tail %u timeout %llu ctx %llx flags %u\n", tail, (unsigned long long)c->timeout_ns, (unsigned long long)c->ctx, c->flags);
    if (reply_n) {
        uint8_t *copy = malloc(reply_n);
        memcpy(copy, reply_bytes, reply_n);
        wl_parser *v = view_of(RESPONSE_UNIT, c->ctx, copy, reply_n);
        parts[calls++] = (wl_msg){.view = v, .base = copy, .head = v->head};
    } else {
        parts[calls++] = (wl_msg){.status = WL_F_REFUSED};
    }
}
static void host_reply(wl_task *t, wl_bytes head, uint32_t tail, uint32_t flags) {
    (void)t;
    show("reply", head);
    printf(" tail %u flags %u\n", tail, flags);
}
static void host_send(wl_task *t, uint32_t port, uint32_t index, wl_bytes head, uint32_t tail) {
    (void)t;
    printf("send port %u index %u ", port, index);
    show("head", head);
    printf(" tail %u\n", tail);
}
static int host_grow(wl_core *c, uint32_t need) {
    size_t at = (size_t)(c->out.p - c->out.start), size = (size_t)(c->out.end - c->out.start);
    if (at + need > 1 << 22) return 0;
    while (size < at + need) size = size ? size * 2 : 1;
    c->out.start = realloc(c->out.start, size);
    c->out.p = c->out.start + at;
    c->out.end = c->out.start + size;
    return 1;
}
static void host_close(wl_task *t) { (void)t; printf("close\n"); }
static void host_log(wl_core *c, uint32_t level, wl_bytes text) { (void)c; printf("log %u ", level); show("", text); printf("\n"); }
static void host_fault(wl_core *c, uint32_t kind, uint32_t place) { (void)c; printf("caught %u at %u\n", kind, place); }

static uint32_t unhex(const char *s, uint8_t *b) {
    uint32_t n = 0;
    for (; s[0] && s[1]; s += 2, n++) { unsigned x; sscanf(s, "%2x", &x); b[n] = (uint8_t)x; }
    return n;
}

int main(int argc, char **argv) {
    prog = wireloom_program();
    static const wl_host host = {.call = host_call, .reply = host_reply, .send = host_send, .grow = host_grow, .close = host_close, .log = host_log, .fault = host_fault};
    static const uint32_t load[4] = {3, 1, 2, 0};
    static const uint8_t up[4] = {1, 1, 0, 1};
    static const uint32_t ring[8] = {1000, 0, 1000000000, 1, 2000000000, 2, 4000000000u, 3};
    wl_port ports[4] = {{0}, {.n = 4, .load = load, .up = up, .ring = ring, .ring_n = 4}, {0}, {0}};
    wl_param params[4] = {{.u = 4}, {.u = 7}, {0}, {0}};
    wl_core core = {.host = &host, .state = calloc(1, prog->state_size), .shared = aligned_alloc(64, (prog->shared_size + 64) / 64 * 64), .param = params, .port = ports, .now = 1000, .seed = 1, .cores = 1};
    memset(core.shared, 0, prog->shared_size);
    prog->init_shared(prog->self, core.shared, params);
    prog->init_core(prog->self, &core);
    wl_conn conn = {.session = calloc(1, prog->session_size + 1), .id = 9};
    conn.peer.ip[10] = conn.peer.ip[11] = 255;
    conn.peer.ip[12] = 127; conn.peer.ip[15] = 1; conn.peer.port = 4711; conn.peer.v4 = 1;
    for (int i = 1; i < argc; i++) {
        if (argv[i][0] == '=') { reply_n = unhex(argv[i] + 1, reply_bytes); continue; }
        if (!strncmp(argv[i], "time:", 5)) { core.now = strtoull(argv[i] + 5, NULL, 10); continue; }
        if (!strncmp(argv[i], "fault:", 6)) {
            wl_fault f = {.kind = (uint16_t)atoi(argv[i] + 6), .side = WL_SIDE_IN_STEP};
            uint32_t r = prog->fault_reply(prog->self, &core, 0, &f, NULL);
            show("says", wl_b(core.out.start, (uint32_t)(core.out.p - core.out.start)));
            printf(" flags %u\n", r);
            continue;
        }
        uint8_t *req = malloc(strlen(argv[i]) + 1);
        uint32_t n = unhex(strchr(argv[i], ':') + 1, req);
        wl_task t = {.core = &core, .conn = &conn, .frame = calloc(1, prog->frame_size + 1), .handler = (uint32_t)atoi(argv[i])};
        if (n) {
            req = realloc(req, n);
            wl_parser *v = view_of(REQUEST_UNIT, 0, req, n);
            t.req = (wl_msg){.view = v, .base = req, .head = v->head};
        }
        int r;
        while ((r = prog->run(prog->self, &t)) == WL_T_SUSPEND) {
            t.part = parts; t.parts = calls; t.rep = parts[0];
            calls = 0;
            if (n) {   /* what is held moves */
                uint8_t *copy = malloc(n);
                memcpy(copy, t.req.base, n);
                memset((void *)(uintptr_t)t.req.base, 'X', n);
                free((void *)(uintptr_t)t.req.base);
                t.req.base = copy;
            }
        }
        printf("%s", r == WL_T_FAULT ? "fault " : "done\n");
        if (r == WL_T_FAULT) printf("%u at %u\n", t.fault, t.place);
    }
    return 0;
}
