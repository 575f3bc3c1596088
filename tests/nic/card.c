/* The generated code of tests/nic/split.loom, for card.rs: one frame at a time. */
#include GENERATED
#include <stdlib.h>

static void fault(wl_core *c, uint32_t kind, uint32_t place) { (void)c; (void)kind; (void)place; }
static int grow(wl_core *c, uint32_t need) { (void)c; (void)need; return 0; }
static void transmit(wl_core *c, uint32_t port, uint32_t instance, const uint8_t *p, uint32_t n) {
    (void)c; (void)port; (void)instance; (void)p; (void)n;
    abort(); /* each frame is sent once */
}
/* No queue is asked, and none serves others. */
static void serve(wl_core *c) { (void)c; }
static wl_host host = {.grow = grow, .fault = fault};
static uint8_t scratch[65536];
static wl_core core;

void card_begin(void) {
    const wl_program *pr = wireloom_program();
    wireloom_packets()->transmit = transmit;
    wireloom_packets()->serve = serve;
    core = (wl_core){.host = &host, .now = 1u << 30, .out = {scratch, scratch, scratch + sizeof scratch}};
    core.state = aligned_alloc(64, (pr->state_size + 63) & ~63ull);
    memset(core.state, 0, pr->state_size);
    core.shared = aligned_alloc(64, (pr->shared_size + 63) & ~63ull);
    memset(core.shared, 0, pr->shared_size);
    pr->init_shared(NULL, core.shared, NULL);
    pr->init_core(NULL, &core);
}

/* Handles a frame with rooms before and behind it. Where it goes: port and instance. */
uint32_t card_handle(uint32_t handler, uint8_t *p, uint32_t n, uint32_t *mark) {
    wl_frame f = {.p = p, .n = n, .head = WL_HEADROOM, .tail = WL_TAILROOM, .wire = n, .out = *mark};
    wireloom_packets()->batch(NULL, &core, handler, &f, 1);
    *mark = (uint32_t)f.port | (uint32_t)f.instance << 16;
    return f.p == p && f.n == n ? f.out : WL_GONE - 1;
}

uint32_t card_headroom(void) { return WL_HEADROOM; }
uint32_t card_tailroom(void) { return WL_TAILROOM; }
