/* A frame as it was, for the program behind: a test run does not make the frame anew. `WL_REQUEST`
 * are its bytes, and `WL_ANSWER` its length when it leaves. With `WL_FLOWS` each run is of the next
 * flow, and each pass over all flows has an order of its own. */

struct { WL_MAP_NUMBER(type, BPF_MAP_TYPE_PROG_ARRAY); WL_MAP_TYPE(key, uint32_t); WL_MAP_TYPE(value, uint32_t); WL_MAP_NUMBER(max_entries, 1); } after SEC(".maps");
static const uint8_t get[] __attribute__((aligned(8))) = WL_REQUEST;
/* The program behind it may move the frame's beginning by so much: the first frame of a run is not
   moved. */
#ifndef WL_MOVED
#define WL_MOVED 0
#endif
#ifdef WL_FLOWS
static uint32_t turn;
#endif
WL_INLINE bool restore(struct xdp_md *ctx) {
    const int n = (int)(ctx->data_end - ctx->data);
    if (n != sizeof get && bpf_xdp_adjust_tail(ctx, WL_MOVED + (int)sizeof get - n)) return false;
    if (n != sizeof get && WL_MOVED && bpf_xdp_adjust_head(ctx, WL_MOVED)) return false;
    uint8_t *d = (uint8_t *)(long)ctx->data, *e = (uint8_t *)(long)ctx->data_end;
    if (d + sizeof get > e) return false;
    for (unsigned i = 0; i < sizeof get / 8; i++) ((uint64_t *)d)[i] = ((const uint64_t *)get)[i];
#ifdef WL_FLOWS
    /* The next flow: the client's address and port. */
    const uint32_t pass = turn / WL_FLOWS, flow = turn++ * (1 + pass * 0x9e3779b0u) & (WL_FLOWS - 1);
    *(uint16_t *)(d + 28) = (uint16_t)(flow >> 16);
    *(uint16_t *)(d + 34) = (uint16_t)flow;
#endif
    return true;
}
/* Makes the frame a request again, for the program behind it. */
SEC("xdp") int restored(struct xdp_md *ctx) {
    if (restore(ctx)) bpf_tail_call(ctx, &after, 0);
    return XDP_ABORTED;
}
/* The same alone; the frame becomes as long as an answer. */
SEC("xdp") int restored_alone(struct xdp_md *ctx) {
    if (!restore(ctx) || (WL_MOVED && bpf_xdp_adjust_head(ctx, -WL_MOVED))) return XDP_ABORTED;
    return bpf_xdp_adjust_tail(ctx, WL_ANSWER - (int)sizeof get - WL_MOVED) ? XDP_ABORTED : XDP_TX;
}
