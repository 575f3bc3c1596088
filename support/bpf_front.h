/* bpf_front.h: a program in front of a handler's, at interfaces without hardware in native mode.
 *
 * A sender there leaves the checksum of TCP or UDP to hardware that does not exist: the field holds
 * the sum of the pseudo header. This program completes it, since the handler may send the frame out
 * of an interface, or change it. A frame that goes to the host gets its field back. The kernel has
 * noted that the checksum is undone, and completes it if the frame leaves the machine. */
#ifndef WL_BPF_FRONT_H
#define WL_BPF_FRONT_H

/* Headers by their numbers in IP, and two that are none of these. */
enum { WL_HOPS = 0, WL_IP4 = 4, WL_TCP = 6, WL_UDP = 17, WL_IP6 = 41, WL_ROUTES = 43, WL_OPTIONS = 60, WL_TYPE = 256, WL_NONE = 257 };
/* A walk over headers: one of this kind begins at a place, and the last IP header at another. */
struct wl_walk { struct xdp_md *ctx; uint32_t at, kind, ip; };
static long wl_walk_step(uint32_t round, void *with) {
    struct wl_walk *w = with;
    const uint8_t *p = (const uint8_t *)(long)w->ctx->data, *end = (const uint8_t *)(long)w->ctx->data_end;
    uint64_t at = w->at;
    const uint32_t kind = w->kind;
    (void)round;
    WL_KEEP(at);
    if (at > WL_AT) { w->kind = WL_NONE; return 1; }
    p += at;
    WL_KEEP(p);
    if (kind == WL_TYPE) {
        if (p + 2 > end) { w->kind = WL_NONE; return 1; }
        const uint16_t type = wl_known_be16(p);
        const bool tag = (type == 0x8100 || type == 0x88a8) && at < 20;
        w->kind = tag ? WL_TYPE : type == 0x0800 ? WL_IP4 : type == 0x86dd ? WL_IP6 : WL_NONE;
        w->at = (uint32_t)at + (tag ? 4 : 2);
        return w->kind == WL_NONE;
    }
    if (kind == WL_IP4) {
        if (p + 20 > end || *p >> 4 != 4 || (*p & 15) < 5 || wl_known_be16(p + 6) & 0x3fff) { w->kind = WL_NONE; return 1; }
        w->ip = (uint32_t)at;
        w->kind = p[9];
        w->at = (uint32_t)at + 4 * (*p & 15);
        return 0;
    }
    if (kind == WL_IP6) {
        if (p + 40 > end || *p >> 4 != 6) { w->kind = WL_NONE; return 1; }
        w->ip = (uint32_t)at;
        w->kind = p[6];
        w->at = (uint32_t)at + 40;
        return 0;
    }
    if (kind != WL_HOPS && kind != WL_ROUTES && kind != WL_OPTIONS) return 1;
    if (p + 8 > end) { w->kind = WL_NONE; return 1; }
    w->kind = *p;
    w->at = (uint32_t)at + 8 * p[1] + 8;
    return 0;
}
/* The sum of the pseudo header of a packet, and the bytes that its checksum covers; `n`: 0 if there
   is none. */
struct wl_pseudo { uint64_t sum; uint32_t n; };
WL_INLINE struct wl_pseudo wl_pseudo_of(const struct wl_walk *w) {
    const uint8_t *p = (const uint8_t *)(long)w->ctx->data, *end = (const uint8_t *)(long)w->ctx->data_end;
    struct wl_pseudo none = {0, 0}, found;
    uint64_t ip = w->ip;
    WL_KEEP(ip);
    if (ip > WL_AT) return none;
    p += ip;
    WL_KEEP(p);
    if (p + 20 > end) return none;
    if (*p >> 4 == 4) {
        found.sum = wl_sum_few(p + 12, 8);
        found.n = wl_known_be16(p + 2) + (uint32_t)ip - w->at;
    } else {
        if (p + 40 > end) return none;
        found.sum = wl_sum_few(p + 8, 32);
        found.n = 40u + wl_known_be16(p + 4) + (uint32_t)ip - w->at;
    }
    if (found.n < 8 || found.n > 65535) return none;
    found.sum += __builtin_bswap32(found.n) + ((uint64_t)w->kind << 24);
    return found;
}
/* The field of two bytes at a place of the frame, or NULL. */
WL_INLINE uint16_t *wl_field(struct xdp_md *ctx, uint64_t at) {
    uint8_t *p = (uint8_t *)(long)ctx->data;
    const uint8_t *end = (const uint8_t *)(long)ctx->data_end;
    WL_KEEP(at);
    if (at > 65000) return NULL;
    p += at;
    WL_KEEP(p);
    return p + 2 <= end ? (uint16_t *)p : NULL;
}
WL_INLINE uint64_t wl_length(struct xdp_md *ctx) {
    uint64_t n = (uint64_t)ctx->data_end - (uint64_t)ctx->data;
    WL_KEEP(n);
    return n;
}
/* Completes a checksum that was left undone. The result notes the field's distance from the frame's
   end, what it was, and what it is; 0: nothing was undone. (A complete checksum that is equal to
   the sum of the pseudo header by chance is the right one, and stays.) */
__attribute__((noinline)) uint64_t wl_finish(struct xdp_md *ctx) {
    struct wl_walk w = {ctx, 12, WL_TYPE, 0};
    bpf_loop(16, wl_walk_step, &w, 0);
    if (w.kind != WL_TCP && w.kind != WL_UDP) return 0;
    const bool udp = w.kind == WL_UDP;
    const struct wl_pseudo pseudo = wl_pseudo_of(&w);
    const uint64_t at = w.at + (udp ? 6 : 16), n = wl_length(ctx);
    if (!pseudo.n || w.at + pseudo.n > n) return 0;
    const uint16_t *field = wl_field(ctx, at), was = wl_fold(pseudo.sum);
    if (!field || *field != was) return 0;
    const uint64_t sum = wl_sum_far(ctx, w.at, pseudo.n);
    if (sum == WL_NO_SUM) return 0;
    uint16_t now = (uint16_t)~wl_fold(sum), *to = wl_field(ctx, at);
    if (udp && !now) now = 0xffff; /* by UDP 0 says that there is none */
    if (!to) return 0;
    *to = now;
    return (n - at) << 32 | (uint64_t)was << 16 | now;
}
/* Gives a frame to the host as it came, but for what the handler has changed. Where it has changed
   what the checksum covers, the checksum stays complete. */
WL_INLINE void wl_give_back(struct xdp_md *ctx, uint64_t done) {
    uint16_t *field = wl_field(ctx, wl_length(ctx) - (done >> 32));
    if (field && *field == (uint16_t)done) *field = (uint16_t)(done >> 16);
}

/* `next`: the map of handlers' programs. */
#define WL_FRONT(name, next, number) \
SEC("xdp") int name(struct xdp_md *ctx) { \
    const uint32_t cpu = bpf_get_smp_processor_id(); \
    struct app_state *state = wl_state_of(cpu); \
    if (!state) return XDP_ABORTED; \
    state->finished = wl_finish(ctx); \
    bpf_tail_call(ctx, &next, number); \
    return XDP_ABORTED; \
}
/* At the end of a handler's program. The loader says whether one of these stands in front of it. */
#define WL_GIVE_BACK(x, fate) do { \
    if (wl_fronted) { \
        const uint64_t done_ = (x)->state->finished; \
        (x)->state->finished = 0; \
        if ((fate) == XDP_PASS && done_) wl_give_back((x)->ctx, done_); \
    } \
} while (0)
#endif
