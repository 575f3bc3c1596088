/* merge.h: what generated merge nodes use: keys' prefixes and writing messages to a window. */
#ifndef WL_MERGE_H
#define WL_MERGE_H
#include "base.h"

/* The first eight bytes as a number that orders as the bytes do (shorter keys: zeros behind). */
static inline uint64_t wl_prefix(wl_bytes b) {
    if (WL_LIKELY(b.n >= 8)) return wl_be64(b.p);
    uint64_t v = 0;
    for (uint32_t i = 0; i < b.n; i++) v |= (uint64_t)b.p[i] << (56 - 8 * i);
    return v;
}
static inline uint8_t *wl_w_uint(uint8_t *o, uint64_t v, unsigned n, bool big) {
    for (unsigned i = 0; i < n; i++) { unsigned at = big ? n - 1 - i : i; o[i] = at < 8 ? (uint8_t)(v >> (8 * at)) : 0; }
    return o + n;
}
static inline uint64_t wl_w_sign(uint8_t **o, int64_t v) {
    if (v >= 0) return (uint64_t)v;
    *(*o)++ = '-';
    return 0 - (uint64_t)v;
}
static inline uint8_t *wl_w_number(uint8_t *o, uint64_t v, unsigned radix, unsigned width) {
    uint8_t b[64];
    uint32_t n = wl_digits_of(b, v, radix);
    while (n < width && n < 64) b[63 - n++] = '0';
    memcpy(o, b + 64 - n, n);
    return o + n;
}
static inline uint8_t *wl_w_varint(uint8_t *o, uint64_t v) {
    do { *o++ = (uint8_t)((v & 127) | (v > 127 ? 128 : 0)); v >>= 7; } while (v);
    return o;
}
#endif
