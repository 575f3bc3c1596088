/* bpf_lengths.h: lengths of headers in programs for the kernel's XDP hook, behind a change of what
 * they count. bpf.h includes it. */
#ifndef WL_BPF_LENGTHS_H
#define WL_BPF_LENGTHS_H

/* A length that is `by` more than it was, within its field. No branch is left for the verifier. */
WL_INLINE uint64_t wl_length_of(uint64_t was, int64_t by, const uint64_t most) {
    uint64_t n = was + (uint64_t)by, less = 0 - (n >> 63);
    WL_KEEP(less);
    n &= ~less;
    uint64_t over = 0 - ((most - n) >> 63);
    WL_KEEP(over);
    return (n & ~over) | (most & over);
}
/* The same of one for which 0 stands for `all`, what is there now. */
WL_INLINE uint64_t wl_own_length_of(uint64_t was, int64_t by, const uint64_t most, uint64_t all) {
    uint64_t said = 0 - ((was | (0 - was)) >> 63);
    WL_KEEP(said);
    return wl_length_of((was & said) | ((all - (uint64_t)by) & ~said), by, most);
}

#endif
