/* checksum.h: the Internet checksum of headers (RFC 1071): computed, compared, and updated for a
 * change (RFC 1624). */
#ifndef WL_CHECKSUM_H
#define WL_CHECKSUM_H
#include "base.h"

enum { WL_OVER_NONE = 0, WL_OVER_HEADER = 1, WL_OVER_MESSAGE = 2, WL_OVER_TRANSPORT = 3 };

/* A unit's clauses about its header; offsets from its first byte, -1: there is none. */
typedef struct wl_header {
    int16_t sum, src, dst, covers;
    uint8_t address_bytes, over, protocol, optional, covers_bytes, covers_own;
    uint8_t flag, flag_at;       /* the bit by which the checksum is there, and its byte's offset; 0: it always is */
} wl_header;

/* Adds the 16-bit words of n bytes to a sum; an odd last byte is the high half of a word. Byte
 * order does not matter as long as sums are compared with words loaded the same way. */
WL_INLINE uint64_t wl_sum(const uint8_t *p, uint32_t n, uint64_t s) {
    uint64_t a = 0;
    for (; n >= 16; p += 16, n -= 16) { s += (uint64_t)wl_le32(p) + wl_le32(p + 4); a += (uint64_t)wl_le32(p + 8) + wl_le32(p + 12); }
    s += a;
    for (; n >= 4; p += 4, n -= 4) s += wl_le32(p);
    if (n >= 2) { s += wl_le16(p); p += 2; n -= 2; }
    if (n) s += *p;
    return s;
}
/* One half is added to the other, with the halves exchanged. The carry out of the lower half comes
   back in at its low end. */
WL_INLINE uint16_t wl_fold(uint64_t s) {
    const uint32_t half = (uint32_t)((s + (s >> 32 | s << 32)) >> 32);
    return (uint16_t)((half + (half >> 16 | half << 16)) >> 16);
}
/* Corrects the checksum at `at` for words whose sum was `was` and is `now` (RFC 1624, equation 3).
   `optional`: 0 stays 0. */
static inline void wl_sum_fix(uint8_t *at, uint64_t was, uint64_t now, bool optional) {
    uint16_t old = wl_le16(at);
    if (optional && !old) return;
    uint16_t fresh = (uint16_t)~wl_fold((uint16_t)~old + (uint64_t)(uint16_t)~wl_fold(was) + wl_fold(now));
    if (optional && !fresh) fresh = 0xffff;
    memcpy(at, &fresh, 2);
}
/* The pseudo header's sum: addresses, protocol, length of header and payload. */
WL_INLINE uint64_t wl_pseudo(const uint8_t *net, const wl_header *h, uint8_t protocol, uint32_t len) {
    uint64_t s = wl_sum(net + h->src, h->address_bytes, 0);
    s = wl_sum(net + h->dst, h->address_bytes, s);
    uint32_t words[2] = {__builtin_bswap32(len), (uint32_t)protocol << 24};
    return s + words[0] + words[1];
}
/* Sum over the bytes that the checksum of the header at p covers, with its field as it is. */
WL_INLINE uint64_t wl_covered(const wl_header *h, const uint8_t *p, uint32_t size, uint32_t to_end, const uint8_t *net, const wl_header *nh) {
    if (h->over == WL_OVER_HEADER) return wl_sum(p, size, 0);
    uint64_t s = h->over == WL_OVER_TRANSPORT && nh && nh->src >= 0 ? wl_pseudo(net, nh, h->protocol, to_end) : 0;
    return wl_sum(p, to_end, s);
}
/* Whether the header at p, of so many bytes, has its checksum, as its flag says. */
WL_INLINE bool wl_sum_there(const wl_header *h, const uint8_t *p, uint32_t size) {
    return !h->flag || (size >= (uint32_t)h->sum + 2 && (p[h->flag_at] & h->flag));
}
WL_INLINE void wl_sum_set(const wl_header *h, uint8_t *p, uint32_t size, uint32_t to_end, const uint8_t *net, const wl_header *nh) {
    p[h->sum] = p[h->sum + 1] = 0;
    uint16_t c = (uint16_t)~wl_fold(wl_covered(h, p, size, to_end, net, nh));
    if (!c && h->over == WL_OVER_TRANSPORT) c = 0xffff;
    memcpy(p + h->sum, &c, 2);
}
#endif
