/* bpf_redirects.h: frames that a program has sent to another interface, and that it does not take.
 *
 * The program's result does not tell it: the kernel looks at the interface only then. It reports
 * such a frame at a tracepoint, with the number of the map that was used. */
#ifndef WL_BPF_REDIRECTS_H
#define WL_BPF_REDIRECTS_H

/* Reasons, by the numbers of Linux. */
enum { WL_EMSGSIZE = 90, WL_EOPNOTSUPP = 95, WL_ENETDOWN = 100 };
enum { WL_NO_REDIRECTS = 0, WL_OVER_MTU = 1, WL_DOWN = 2, WL_OTHER_REASON = 3 };

/* `count`: maps of interfaces. The loader puts their numbers into `wl_ways`. */
#define WL_COUNT_UNSENT(count) \
struct { WL_MAP_NUMBER(type, BPF_MAP_TYPE_ARRAY); WL_MAP_TYPE(key, uint32_t); WL_MAP_TYPE(value, uint32_t); WL_MAP_NUMBER(max_entries, count); } wl_ways SEC(".maps"); \
SEC("raw_tp/xdp_redirect_err") int wl_unsent(uint64_t *told) { \
    const int error = (int)told[3]; \
    const uint32_t map = (uint32_t)told[5]; \
    bool ours = false; \
    _Pragma("unroll") for (uint32_t n = 0; n < (count); n++) { \
        const uint32_t at = n, *way = bpf_map_lookup_elem(&wl_ways, &at); \
        if (way && *way == map) ours = true; \
    } \
    struct app_state *state = wl_state_of(bpf_get_smp_processor_id()); \
    if (!ours || !state) return 0; \
    if (error == -WL_EOPNOTSUPP) state->unsent[WL_NO_REDIRECTS]++; \
    else if (error == -WL_EMSGSIZE) state->unsent[WL_OVER_MTU]++; \
    else if (error == -WL_ENETDOWN) state->unsent[WL_DOWN]++; \
    else state->unsent[WL_OTHER_REASON]++; \
    return 0; \
}
#endif
