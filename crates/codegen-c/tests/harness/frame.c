/* Drives the module of tests/frames.rs. Handler 0 counts UDP flows and rewrites, handler 1 puts
 * frames into a tunnel, handler 2 puts bytes behind all headers. */
#include GENERATED
#include <stdio.h>
#include <stdlib.h>

static unsigned faults[32];
static void fault(wl_core *c, uint32_t kind, uint32_t place) { (void)c; (void)place; faults[kind & 31]++; }
static uint8_t scratch[65536];
static int grow(wl_core *c, uint32_t need) { (void)c; (void)need; return 0; }
static struct { uint32_t port, n; uint8_t b[2048]; } copies[16];
static unsigned copied;
static void transmit(wl_core *c, uint32_t port, uint32_t instance, const uint8_t *p, uint32_t n) {
    (void)c; (void)instance;
    copies[copied].port = port; copies[copied].n = n; memcpy(copies[copied++].b, p, n);
}
#define NEED(e) do { if (!(e)) { printf("line %d: %s\n", __LINE__, #e); exit(1); } } while (0)

static wl_frame make(uint32_t dst, uint16_t port, unsigned options, unsigned payload, bool sum) {
    uint32_t ihl = 20 + options, n = 14 + ihl + 8 + payload;
    /* Exactly as long as the frame with its rooms: ASan sees what goes beyond. */
    uint8_t *room = malloc(WL_HEADROOM + n + WL_TAILROOM), *p = room + WL_HEADROOM;
    memset(p, 0, n);
    p[12] = 8;
    uint8_t *ip = p + 14, *udp = ip + ihl;
    ip[0] = (uint8_t)(0x40 | ihl / 4); ip[8] = 64; ip[9] = 17;
    wl_set_be(ip + 2, 2, ihl + 8 + payload);
    wl_set_be(ip + 12, 4, 0x0a000001); wl_set_be(ip + 16, 4, dst);
    for (unsigned i = 0; i < payload; i++) udp[8 + i] = (uint8_t)(i * 7);
    wl_set_be(udp, 2, 1234); wl_set_be(udp + 2, 2, port); wl_set_be(udp + 4, 2, 8 + payload);
    wl_sum_set(&Packet__headers[1], ip, ihl, ihl, NULL, NULL);
    if (sum) wl_sum_set(&Packet__headers[2], udp, 8, 8 + payload, ip, &Packet__headers[1]);
    return (wl_frame){.p = p, .n = n, .head = WL_HEADROOM, .tail = WL_TAILROOM, .wire = n, .out = WL_GONE};
}
static bool sums_are_right(const wl_frame *f, uint32_t ip_at) {
    const uint8_t *ip = f->p + ip_at;
    uint32_t ihl = (ip[0] & 15u) * 4, total = (uint32_t)wl_get_be(ip + 2, 2);
    if (wl_fold(wl_sum(ip, ihl, 0)) != 0xffff || ip_at + total > f->n) return false;
    if (ip[9] == 4) return true;
    const uint8_t *udp = ip + ihl;
    if (!udp[6] && !udp[7]) return true;
    return wl_fold(wl_sum(udp, total - ihl, wl_pseudo(ip, &Packet__headers[1], 17, total - ihl))) == 0xffff;
}

/* Sums are folded as by adding what is carried out, again and again. */
static void folds(void) {
    uint64_t x = 1;
    for (unsigned i = 0; i < 100000; i++) {
        x = x * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        /* Many with halves and quarters that are all ones or none. */
        uint64_t s = x >> i % 64, plain;
        for (unsigned k = 0; k < 4; k++) if (x >> 20 >> k & 1) s = x >> 30 >> k & 1 ? s | UINT64_C(0xffff) << 16 * k : s & ~(UINT64_C(0xffff) << 16 * k);
        for (plain = s; plain >> 32;) plain = (plain & 0xffffffff) + (plain >> 32);
        while (plain >> 16) plain = (plain & 0xffff) + (plain >> 16);
        NEED(wl_fold(s) == plain);
    }
}

int main(void) {
    folds();
    const wl_program *pr = wireloom_program();
    wl_packets *pk = wireloom_packets();
    wl_host host = {.grow = grow, .fault = fault};
    pk->transmit = transmit;
    wl_core core = {.host = &host, .now = 1u << 30, .out = {scratch, scratch, scratch + sizeof scratch}};
    core.state = aligned_alloc(64, (pr->state_size + 63) & ~63ull);
    memset(core.state, 0, pr->state_size);
    core.shared = aligned_alloc(64, (pr->shared_size + 63) & ~63ull);
    memset(core.shared, 0, pr->shared_size);
    pr->init_shared(NULL, core.shared, NULL);
    pr->init_core(NULL, &core);

    /* Flows are counted; fields and checksums follow. 130 frames are more than two batches. */
    wl_frame f[130];
    for (unsigned i = 0; i < 130; i++) f[i] = make(0x0a000002 + i % 3, 53, i % 5 * 4, 1 + i % 9, i % 2);
    pk->batch(NULL, &core, 0, f, 130);
    uint64_t packets = 0, bytes = 0, real = 0;
    for (unsigned i = 0; i < 130; i++) {
        NEED(f[i].out == 0 && f[i].p[14 + 8] == 63 && wl_get_be(f[i].p + 14 + 16, 4) == 0x0a000063 && wl_get_be(f[i].p, 6) == 0x020000000009);
        NEED(sums_are_right(&f[i], 14));
        real += f[i].n;
    }
    app_state *s = core.state;
    NEED(s->t_flows_.used[0] == 3);
    unsigned part;
    const uint8_t *e;
    for (uint64_t at = 0; (e = wl_core_table_next(&s->t_flows_, t_flows__shape, &at, &part, WL_TAKEN)) != NULL;) {
        NEED(part == 0);
        packets += wl_le64(e + t_flows__shape[0].value); bytes += wl_le64(e + t_flows__shape[0].value + 8);
    }
    NEED(packets == 130 && bytes == real);
    for (unsigned i = 0; i < 32; i++) NEED(!faults[i]);

    /* The ninth flow is one too many: its frame ends in a fault, the others go on. */
    wl_frame g[8];
    for (unsigned i = 0; i < 8; i++) g[i] = make(0x0b000000 + i, 53, 0, 4, true);
    pk->batch(NULL, &core, 0, g, 8);
    for (unsigned i = 0; i < 8; i++) NEED((g[i].out == 0) == (i < 5));
    NEED(faults[WL_F_FULL] == 3 && s->t_flows_.used[0] == 8);

    /* Every prefix, and every byte changed: no fault of the machine, no read beyond. */
    memset(faults, 0, sizeof faults);
    wl_frame whole = make(0x0a000002, 53, 8, 20, true);
    for (uint32_t n = 0; n < whole.n; n++) {
        uint8_t *room = malloc(WL_HEADROOM + n + WL_TAILROOM);
        memcpy(room + WL_HEADROOM, whole.p, n);
        wl_frame cut = {.p = room + WL_HEADROOM, .n = n, .head = WL_HEADROOM, .tail = WL_TAILROOM, .wire = n, .out = WL_GONE};
        pk->batch(NULL, &core, 0, &cut, 1);
        /* The IP length says more than there is: the header is absent. */
        NEED(cut.out == WL_GONE);
        free(room);
    }
    NEED(faults[WL_F_TRUNCATED] > 0 && faults[WL_F_CONSTRAINT] > 0);
    for (uint32_t i = 0; i < whole.n; i++)
        for (unsigned bit = 0; bit < 8; bit++) {
            wl_frame c = make(0x0a000002, 53, 8, 20, true);
            c.p[i] ^= (uint8_t)(1u << bit);
            wl_frame d = c;
            pk->batch(NULL, &core, (i + bit) % 2, &c, 1);
            copied = 0;
            free(d.p - WL_HEADROOM);
        }

    /* Into the tunnel: the outer header's length and checksum are right, the inner packet is as it
       was; a copy went out before. */
    wl_frame t = make(0x0a000002, 53, 4, 30, true);
    uint32_t n = t.n;
    uint8_t before[256];
    memcpy(before, t.p, n);
    copied = 0;
    pk->batch(NULL, &core, 1, &t, 1);
    NEED(t.out == 1u << 16 && t.n == n + 20 && t.head == WL_HEADROOM - 20 && t.tail == WL_TAILROOM);
    NEED(copied == 1 && copies[0].port == 0 && copies[0].n == n && memcmp(copies[0].b, before, n) == 0);
    NEED(memcmp(t.p, before, 14) == 0 && memcmp(t.p + 34, before + 14, n - 14) == 0);
    NEED(wl_get_be(t.p + 16, 2) == n - 14 + 20 && t.p[14] == 0x45 && t.p[23] == 4 && sums_are_right(&t, 14) && sums_are_right(&t, 34));

    /* The same whichever room it takes, the one in front first; without room it is a fault. */
    static const uint32_t rooms[][4] = {{20, 0, 0, 0}, {19, 20, 19, 0}, {0, 20, 0, 0}, {0, 33, 0, 13}, {12, 8, 0, 0}, {12, 15, 0, 7}, {0, 19, 0, 19}, {12, 7, 12, 7}};
    for (unsigned k = 0; k < sizeof rooms / sizeof *rooms; k++) {
        const uint32_t head = rooms[k][0], tail = rooms[k][1];
        uint8_t *room = malloc(head + n + tail);
        memcpy(room + head, before, n);
        wl_frame r = {.p = room + head, .n = n, .head = head, .tail = tail, .wire = n, .out = WL_GONE};
        memset(faults, 0, sizeof faults);
        copied = 0;
        pk->batch(NULL, &core, 1, &r, 1);
        NEED(r.head == rooms[k][2] && r.tail == rooms[k][3] && faults[WL_F_OVERLOAD] == (k >= 6));
        if (k < 6) NEED(r.out == 1u << 16 && r.n == t.n && r.p == room + r.head && memcmp(r.p, t.p, t.n) == 0);
        else NEED(r.out == WL_GONE && r.n == n && r.p == room + head && memcmp(r.p, before, n) == 0);
        free(room);
    }

    /* Behind UDP: both lengths and both checksums follow, and the payload moves. Behind IP, and
       behind Ethernet alone: what is there follows. */
    static const uint8_t six[6] = {0x12, 0x34, 0x56, 0x78, 0x9a, 0xbc};
    for (unsigned kind = 0; kind < 3; kind++) {
        wl_frame b = make(0x0a000002, 53, 4, 30, true);
        uint32_t at = kind == 0 ? 14 + 24 + 8 : kind == 1 ? 14 + 24 : 14;
        if (kind == 1) { b.p[23] = 99; wl_sum_set(&Packet__headers[1], b.p + 14, 24, 24, NULL, NULL); }
        if (kind == 2) b.p[12] = 0x88;
        n = b.n;
        memcpy(before, b.p, n);
        pk->batch(NULL, &core, 2, &b, 1);
        NEED(b.out == 2u << 16 && b.n == n + 6 && memcmp(b.p + at, six, 6) == 0 && memcmp(b.p + at + 6, before + at, n - at) == 0);
        NEED(memcmp(b.p, before, 14) == 0);
        if (kind == 2) continue;
        NEED(wl_get_be(b.p + 16, 2) == n - 14 + 6 && wl_fold(wl_sum(b.p + 14, 24, 0)) == 0xffff);
        if (kind == 0) NEED(wl_get_be(b.p + 14 + 24 + 4, 2) == 8 + 30 + 6 && sums_are_right(&b, 14));
    }
    puts("good");
    return 0;
}
