/* builtin.h: the language's built-in functions (ir::Builtin defines their results). */
#ifndef WL_BUILTIN_H
#define WL_BUILTIN_H
#include "base.h"
#include "json.h"

/* Whether v is in one of n ranges, which are in order. */
static inline bool wl_in_ranges(const uint64_t (*ranges)[2], size_t n, unsigned __int128 v) {
    size_t low = 0;
    while (n > 0) {
        size_t half = n / 2;
        if (ranges[low + half][1] < v) low += half + 1, n -= half + 1;
        else if (ranges[low + half][0] > v) n = half;
        else return true;
    }
    return false;
}

/* ---- hashes ---- */

#define WL_FNV64 UINT64_C(0xcbf29ce484222325)
static inline uint64_t wl_fnv64(uint64_t h, const uint8_t *p, size_t n) {
    for (size_t i = 0; i < n; i++) h = (h ^ p[i]) * UINT64_C(0x100000001b3);
    return h;
}
static inline uint64_t wl_h_bytes(uint64_t h, wl_bytes b) { return wl_fnv64(h, b.p, b.n); }
/* The low n bytes of v, little endian. */
static inline uint64_t wl_h_int(uint64_t h, uint64_t v, unsigned n) {
    for (unsigned i = 0; i < n; i++) h = (h ^ (v >> (8 * i) & 255)) * UINT64_C(0x100000001b3);
    return h;
}
static inline uint64_t wl_h_u128(uint64_t h, unsigned __int128 v) { return wl_h_int(wl_h_int(h, (uint64_t)v, 8), (uint64_t)(v >> 64), 8); }
static inline uint64_t wl_h_ip(uint64_t h, wl_ip a) { return wl_fnv64(h, a.b, 16); }
static inline uint64_t wl_h_endpoint(uint64_t h, wl_endpoint e) {
    uint8_t port[2] = {(uint8_t)(e.port >> 8), (uint8_t)e.port};
    return wl_fnv64(wl_fnv64(h, e.ip, 16), port, 2);
}
static inline uint64_t wl_fmix64(uint64_t k) {
    k ^= k >> 33; k *= UINT64_C(0xff51afd7ed558ccd);
    k ^= k >> 33; k *= UINT64_C(0xc4ceb9fe1a85ec53);
    return k ^ k >> 33;
}
/* A connection's flow: hash of its peer, then of its own address (each 16 bytes of ip and the port,
   big endian). */
static inline uint64_t wl_conn_flow(wl_fx *x) {
    return wl_fmix64(wl_h_endpoint(wl_h_endpoint(WL_FNV64, wl_peer(x)), wl_local(x)));
}
static inline uint32_t wl_fnv1a32(wl_bytes b) {
    uint32_t h = 0x811c9dc5u;
    for (uint32_t i = 0; i < b.n; i++) h = (h ^ b.p[i]) * 0x01000193u;
    return h;
}
/* A reflected CRC of 32 bits, four bits at a time. */
static inline uint32_t wl_crc(const uint32_t t[16], wl_bytes b) {
    uint32_t c = ~0u;
    for (uint32_t i = 0; i < b.n; i++) {
        c = t[(c ^ b.p[i]) & 15] ^ c >> 4;
        c = t[(c ^ (uint32_t)(b.p[i] >> 4)) & 15] ^ c >> 4;
    }
    return ~c;
}
/* IEEE 802.3. */
static inline uint32_t wl_crc32(wl_bytes b) {
    static const uint32_t t[16] = {
        0x00000000, 0x1db71064, 0x3b6e20c8, 0x26d930ac, 0x76dc4190, 0x6b6b51f4, 0x4db26158, 0x5005713c,
        0xedb88320, 0xf00f9344, 0xd6d6a3e8, 0xcb61b38c, 0x9b64c2b0, 0x86d3d2d4, 0xa00ae278, 0xbdbdf21c};
    return wl_crc(t, b);
}
/* Castagnoli (RFC 3720). */
static inline uint32_t wl_crc32c(wl_bytes b) {
    static const uint32_t t[16] = {
        0x00000000, 0x105ec76f, 0x20bd8ede, 0x30e349b1, 0x417b1dbc, 0x5125dad3, 0x61c69362, 0x7198540d,
        0x82f63b78, 0x92a8fc17, 0xa24bb5a6, 0xb21572c9, 0xc38d26c4, 0xd3d3e1ab, 0xe330a81a, 0xf36e6f75};
    return wl_crc(t, b);
}

/* MurmurHash64A (A. Appleby). */
static inline uint64_t wl_murmur64(uint64_t seed, wl_bytes b) {
    const uint64_t by = UINT64_C(0xc6a4a7935bd1e995);
    uint64_t h = seed ^ b.n * by, rest = 0;
    uint32_t i = 0;
    for (; b.n - i >= 8; i += 8) {
        uint64_t k = wl_le64(b.p + i) * by;
        k = (k ^ k >> 47) * by;
        h = (h ^ k) * by;
    }
    if (i < b.n) {
        for (unsigned j = 0; j < b.n - i; j++) rest |= (uint64_t)b.p[i + j] << 8 * j;
        h = (h ^ rest) * by;
    }
    h = (h ^ h >> 47) * by;
    return h ^ h >> 47;
}

/* ---- SipHash-2-4 (Aumasson and Bernstein, INDOCRYPT 2012) ---- */

static inline uint64_t wl_rol64(uint64_t v, unsigned s) { return v << s | v >> (64 - s); }
static inline void wl_sip_rounds(uint64_t v[4], unsigned n) {
    for (unsigned i = 0; i < n; i++) {
        v[0] += v[1]; v[1] = wl_rol64(v[1], 13) ^ v[0]; v[0] = wl_rol64(v[0], 32);
        v[2] += v[3]; v[3] = wl_rol64(v[3], 16) ^ v[2];
        v[2] += v[1]; v[1] = wl_rol64(v[1], 17) ^ v[2]; v[2] = wl_rol64(v[2], 32);
        v[0] += v[3]; v[3] = wl_rol64(v[3], 21) ^ v[0];
    }
}
static inline void wl_sip_word(uint64_t v[4], uint64_t w) {
    v[3] ^= w;
    wl_sip_rounds(v, 2);
    v[0] ^= w;
}
static inline uint64_t wl_siphash(uint64_t k0, uint64_t k1, wl_bytes b) {
    uint64_t v[4] = {k0 ^ UINT64_C(0x736f6d6570736575), k1 ^ UINT64_C(0x646f72616e646f6d),
                     k0 ^ UINT64_C(0x6c7967656e657261), k1 ^ UINT64_C(0x7465646279746573)};
    uint32_t i = 0;
    for (; b.n - i >= 8; i += 8) wl_sip_word(v, wl_le64(b.p + i));
    uint64_t last = (uint64_t)b.n << 56;
    for (unsigned j = 0; j < b.n - i; j++) last |= (uint64_t)b.p[i + j] << 8 * j;
    wl_sip_word(v, last);
    v[2] ^= 255;
    wl_sip_rounds(v, 4);
    return v[0] ^ v[1] ^ v[2] ^ v[3];
}

/* ---- md5 (RFC 1321), for ketama ---- */

static inline uint32_t wl_rol(uint32_t v, unsigned s) { return v << s | v >> (32 - s); }
static inline void wl_md5_block(uint32_t h[4], const uint8_t *p) {
    static const uint8_t shift[16] = {7, 12, 17, 22, 5, 9, 14, 20, 4, 11, 16, 23, 6, 10, 15, 21};
    static const uint32_t k[64] = {
        0xd76aa478, 0xe8c7b756, 0x242070db, 0xc1bdceee, 0xf57c0faf, 0x4787c62a, 0xa8304613, 0xfd469501,
        0x698098d8, 0x8b44f7af, 0xffff5bb1, 0x895cd7be, 0x6b901122, 0xfd987193, 0xa679438e, 0x49b40821,
        0xf61e2562, 0xc040b340, 0x265e5a51, 0xe9b6c7aa, 0xd62f105d, 0x02441453, 0xd8a1e681, 0xe7d3fbc8,
        0x21e1cde6, 0xc33707d6, 0xf4d50d87, 0x455a14ed, 0xa9e3e905, 0xfcefa3f8, 0x676f02d9, 0x8d2a4c8a,
        0xfffa3942, 0x8771f681, 0x6d9d6122, 0xfde5380c, 0xa4beea44, 0x4bdecfa9, 0xf6bb4b60, 0xbebfbc70,
        0x289b7ec6, 0xeaa127fa, 0xd4ef3085, 0x04881d05, 0xd9d4d039, 0xe6db99e5, 0x1fa27cf8, 0xc4ac5665,
        0xf4292244, 0x432aff97, 0xab9423a7, 0xfc93a039, 0x655b59c3, 0x8f0ccc92, 0xffeff47d, 0x85845dd1,
        0x6fa87e4f, 0xfe2ce6e0, 0xa3014314, 0x4e0811a1, 0xf7537e82, 0xbd3af235, 0x2ad7d2bb, 0xeb86d391};
    uint32_t a = h[0], b = h[1], c = h[2], d = h[3], f, g, w[16];
    for (unsigned i = 0; i < 16; i++) w[i] = wl_le32(p + 4 * i);
    for (unsigned i = 0; i < 64; i++) {
        switch (i >> 4) {
        case 0: f = (b & c) | (~b & d); g = i; break;
        case 1: f = (d & b) | (~d & c); g = (5 * i + 1) & 15; break;
        case 2: f = b ^ c ^ d; g = (3 * i + 5) & 15; break;
        default: f = c ^ (b | ~d); g = (7 * i) & 15; break;
        }
        f += a + k[i] + w[g];
        a = d; d = c; c = b;
        b += wl_rol(f, shift[(i >> 4) * 4 + (i & 3)]);
    }
    h[0] += a; h[1] += b; h[2] += c; h[3] += d;
}
static inline uint32_t wl_md5_u32(wl_bytes b) {
    uint32_t h[4] = {0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476};
    uint32_t i = 0;
    uint8_t last[128] = {0};
    for (; b.n - i >= 64; i += 64) wl_md5_block(h, b.p + i);
    uint32_t rest = b.n - i, len = rest < 56 ? 64 : 128;
    wl_copy(last, b.p + i, rest);
    last[rest] = 0x80;
    uint64_t bits = (uint64_t)b.n * 8;
    memcpy(last + len - 8, &bits, 8);
    wl_md5_block(h, last);
    if (len == 128) wl_md5_block(h, last + 64);
    return h[0];
}

/* ---- bytes ---- */

/* Eight letters at a time: a byte's top bit says whether it is from 'A' to 'Z', and moved down
   twice is what makes it small. */
static inline uint64_t wl_lower8(uint64_t w) {
    const uint64_t ones = UINT64_C(0x0101010101010101), low = w & 0x7f * ones;
    return w | ((low + (0x80 - 'A') * ones) & ~(low + (0x7f - 'Z') * ones) & ~w & 0x80 * ones) >> 2;
}
static inline void wl_lower_to(uint8_t *d, const uint8_t *s, uint32_t n) {
    uint32_t i = 0;
    for (uint64_t w; n - i >= 8; i += 8) {
        memcpy(&w, s + i, 8);
        w = wl_lower8(w);
        memcpy(d + i, &w, 8);
    }
    for (; i < n; i++) d[i] = wl_lower1(s[i]);
}
static inline wl_bytes wl_lower(wl_fx *x, wl_bytes b) {
    uint8_t *d = wl_tmp(x, b.n);
    if (!d) return wl_b(NULL, 0);
    wl_lower_to(d, b.p, b.n);
    return wl_b(d, b.n);
}
static inline wl_bytes wl_upper(wl_fx *x, wl_bytes b) {
    uint8_t *d = wl_tmp(x, b.n);
    if (!d) return wl_b(NULL, 0);
    for (uint32_t i = 0; i < b.n; i++) d[i] = wl_upper1(b.p[i]);
    return wl_b(d, b.n);
}
static inline bool wl_starts(wl_bytes b, wl_bytes p) { return b.n >= p.n && wl_eq(wl_b(b.p, p.n), p); }
static inline bool wl_ends(wl_bytes b, wl_bytes p) { return b.n >= p.n && wl_eq(wl_b(b.n ? b.p + b.n - p.n : b.p, p.n), p); }
static inline wl_opt_uint32_t wl_find(wl_bytes b, wl_bytes w) {
    if (w.n == 0) return (wl_opt_uint32_t){true, 0};
    if (b.n < w.n) return (wl_opt_uint32_t){false, 0};
    uint32_t last = b.n - w.n + 1;
    for (uint32_t i = 0; (i = wl_scan_two(b.p, i, last, w.p[0], w.p[0])) < last; i++)
        if (memcmp(b.p + i, w.p, w.n) == 0) return (wl_opt_uint32_t){true, i};
    return (wl_opt_uint32_t){false, 0};
}
static inline wl_bytes wl_slice(wl_bytes b, uint64_t from, uint64_t to) {
    uint32_t t = to > b.n ? b.n : (uint32_t)to, f = from > t ? t : (uint32_t)from;
    return wl_b(b.n ? b.p + f : b.p, t - f);
}
/* From a byte on, and counted from there. */
static inline wl_opt_uint32_t wl_find_from(wl_bytes b, wl_bytes w, uint64_t from) { return wl_find(wl_slice(b, from, b.n), w); }
static inline uint8_t wl_byte(wl_bytes b, uint64_t i) { return i < b.n ? b.p[i] : 0; }
static inline wl_bytes wl_concat(wl_fx *x, unsigned k, const wl_bytes *s) {
    uint64_t n = 0;
    for (unsigned i = 0; i < k; i++) n += s[i].n;
    uint8_t *d = n > UINT32_MAX ? wl_tmp(x, UINT32_MAX) : wl_tmp(x, (uint32_t)n), *at = d;
    if (!d) return wl_b(NULL, 0);
    for (unsigned i = 0; i < k; i++) { wl_copy_few(at, s[i].p, s[i].n); at += s[i].n; }
    return wl_b(d, (uint32_t)n);
}
static inline wl_bytes wl_keep(wl_fx *x, wl_bytes b) { return wl_concat(x, 1, &b); }
/* ---- groups: the items of each instance of a port ---- */

/* Items and their bytes; the first and the last of them in scratch, counted from 1. */
typedef struct wl_group { uint32_t n, bytes, first, last; } wl_group;
/* The header of an item in scratch, before its bytes. */
typedef struct wl_group_item { uint32_t next, n, then, group; } wl_group_item;

static inline void wl_group_begin(wl_fx *x, uint32_t n) {
    uint32_t skip = (uint32_t)(-(uintptr_t)(x->tmp + x->tmp_n) & 7);
    uint8_t *p = wl_tmp(x, n * (uint32_t)sizeof(wl_group) + skip);
    x->groups = p ? n : 0;
    x->items = x->first_item = x->last_item = 0;
    if (!p) return;
    x->group = (wl_group *)(p + skip);
    memset(x->group, 0, n * sizeof(wl_group));
}
static inline void wl_group_add(wl_fx *x, uint64_t i, unsigned parts, const wl_bytes *part) {
    uint64_t n = 0;
    for (unsigned k = 0; k < parts; k++) n += part[k].n;
    if (i >= x->groups) return;
    uint32_t at = x->tmp_n;
    uint8_t *d = n < UINT32_MAX / 2 ? wl_tmp(x, (uint32_t)n + sizeof(wl_group_item)) : wl_tmp(x, UINT32_MAX);
    if (!d) return;
    wl_group *g = &x->group[i];
    wl_group_item item = {0, (uint32_t)n, 0, (uint32_t)i};
    memcpy(d, &item, sizeof item);
    d += sizeof item;
    for (unsigned k = 0; k < parts; k++) { wl_copy_few(d, part[k].p, part[k].n); d += part[k].n; }
    uint32_t me = at + 1;
    if (g->n++) memcpy(x->tmp + g->last - 1, &me, 4); else g->first = me;
    g->last = me;
    if (x->items++) memcpy(x->tmp + x->last_item - 1 + offsetof(wl_group_item, then), &me, 4); else x->first_item = me;
    x->last_item = me;
    g->bytes += (uint32_t)n;
}
static inline uint32_t wl_group_count(const wl_fx *x, uint64_t i) { return i < x->groups ? x->group[i].n : 0; }
static inline wl_bytes wl_group_bytes(wl_fx *x, uint64_t i) {
    if (i >= x->groups) return wl_b(NULL, 0);
    uint32_t n = x->group[i].bytes;
    uint8_t *d = wl_tmp(x, n), *to = d;
    if (!d) return wl_b(NULL, 0);
    wl_group_item item;
    for (uint32_t at = x->group[i].first; at; at = item.next) {
        memcpy(&item, x->tmp + at - 1, sizeof item);
        wl_copy_few(to, x->tmp + at - 1 + sizeof item, item.n);
        to += item.n;
        wl_item_done(x);
    }
    return wl_b(d, n);
}

/* Has the host keep, of each item in the order in which they came, the number of its group's part:
   a part is a group with items. */
static inline bool wl_group_keep(wl_fx *x, wl_task *t) {
    if (!x->items) return true;
    uint16_t *rank = (uint16_t *)(void *)wl_tmp(x, 2 * x->groups + 1), *order = (uint16_t *)(void *)wl_tmp(x, 2 * x->items + 1);
    if (!rank || !order) return false;
    /* Scratch begins anywhere. */
    rank = (uint16_t *)(((uintptr_t)rank + 1) & ~(uintptr_t)1);
    order = (uint16_t *)(((uintptr_t)order + 1) & ~(uintptr_t)1);
    uint32_t parts = 0, n = 0;
    for (uint32_t i = 0; i < x->groups; i++) { rank[i] = (uint16_t)parts; parts += x->group[i].n > 0; }
    wl_group_item item;
    for (uint32_t at = x->first_item; at; at = item.then) {
        memcpy(&item, x->tmp + at - 1, sizeof item);
        order[n++] = rank[item.group];
        wl_item_done(x);
    }
    if (x->core->host->keep(t, wl_b(order, 2 * n))) return true;
    wl_fail(x, WL_F_OVERLOAD, 0);
    return false;
}

typedef struct wl_run { const uint8_t *p, *end; } wl_run;

/* The items of a part; said of all parts, from 0 on. */
static inline void wl_group_run(wl_fx *x, const wl_task *t, uint32_t part, wl_bytes b) {
    if (part == 0) {
        uint32_t skip = (uint32_t)(-(uintptr_t)(x->tmp + x->tmp_n) & 7);
        uint8_t *p = wl_tmp(x, t->parts * (uint32_t)sizeof(wl_run) + skip);
        x->runs = p ? t->parts : 0;
        x->run = (wl_run *)(void *)(p + skip);
    }
    if (part < x->runs) x->run[part] = (wl_run){b.p, b.p + b.n};
}

typedef int wl_item_parser(void *, uint32_t, wl_parser *, const uint8_t *, uint32_t, int);

/* The size of the item that bytes begin with; 0: none. */
static inline uint32_t wl_item(wl_item_parser *parse, wl_parser *v, const uint8_t *p, size_t n) {
    memset(v, 0, sizeof *v);
    return n && parse(NULL, 0, v, p, n > UINT32_MAX ? UINT32_MAX : (uint32_t)n, 1) == WL_WHOLE ? v->head : 0;
}
/* Whether so many items are `count` (all ones: any number) of at most `max`. */
static inline bool wl_counted(wl_fx *x, uint64_t n, uint64_t count, uint32_t max) {
    if (WL_UNLIKELY(n > max)) wl_fail(x, WL_F_TOO_LONG, 0);
    else if (WL_UNLIKELY(count != UINT64_MAX && n != count)) wl_fail(x, WL_F_CONSTRAINT, 0);
    else return true;
    return false;
}
/* Of many bytes so many are copied without a pause. */
#define WL_PIECE (64u << 10)
/* Bytes that are items. */
static inline void wl_put_items(wl_fx *x, wl_item_parser *parse, wl_parser *v, wl_bytes b, uint64_t count, uint32_t max) {
    uint64_t n = 0;
    for (uint32_t at = 0; at < b.n; n++) {
        uint32_t size = wl_item(parse, v, b.p + at, b.n - at);
        if (WL_UNLIKELY(!size)) { wl_fail(x, WL_F_MALFORMED, 0); return; }
        at += size;
        wl_item_done(x);
    }
    if (!wl_counted(x, n, count, max)) return;
    for (uint32_t at = 0; at < b.n;) {
        uint32_t size = b.n - at < WL_PIECE ? b.n - at : WL_PIECE;
        wl_put(x, wl_b(b.p + at, size));
        at += size;
        if (x->within && at < b.n) x->core->host->pause(x->core);
    }
}
/* An item of each part's run, in the order that was kept. */
static inline void wl_put_in_order(wl_fx *x, const wl_task *t, wl_item_parser *parse, wl_parser *v, uint64_t count, uint32_t max) {
    const uint16_t *order = (const uint16_t *)(const void *)t->kept.p;
    for (uint32_t i = 0, n = t->kept.n / 2; i < n; i++) {
        if (WL_UNLIKELY(order[i] >= x->runs)) { wl_fail(x, WL_F_BAD_REPLY, 0); return; }
        wl_run *r = &x->run[order[i]];
        uint32_t size = wl_item(parse, v, r->p, (size_t)(r->end - r->p));
        if (WL_UNLIKELY(!size)) { wl_fail(x, WL_F_BAD_REPLY, 0); return; }
        wl_put(x, wl_b(r->p, size));
        if (WL_UNLIKELY(x->fault)) return;
        r->p += size;
        wl_item_done(x);
    }
    for (uint32_t i = 0; i < x->runs; i++) if (WL_UNLIKELY(x->run[i].p != x->run[i].end)) wl_fail(x, WL_F_BAD_REPLY, 0);
    wl_counted(x, t->kept.n / 2, count, max);
}

typedef int wl_tail_parser(void *, uint32_t, wl_parser *, const uint8_t *, uint32_t, int, uint32_t *);
/* The end of the message that was written from `from` on; 0: there is none. The parser gets a long
   one in pieces, so that others have their turns. */
static inline uint32_t wl_read_one(wl_fx *x, wl_item_parser *parse, wl_tail_parser *tail, wl_parser *v, uint32_t from) {
    wl_bytes b = wl_built(x);
    uint32_t seen = from, used = 0, omit;
    *v = (wl_parser){.ctx = v->ctx};
    int r;
    for (;;) {
        seen = b.n - seen < WL_PIECE ? b.n : seen + WL_PIECE;
        r = parse(NULL, 0, v, b.p + from, seen - from, seen == b.n);
        if (r != WL_MORE || seen == b.n) break;
        if (x->within) x->core->host->pause(x->core);
        b = wl_built(x);
    }
    uint32_t at = from + v->head;
    if (r == WL_HEAD && !(v->flags & WL_M_IN_STEP)) {
        do {
            omit = v->flags & WL_M_OMIT;
            r = tail(NULL, 0, v, b.p + at, b.n - at, 1, &used);
            at += used;
        } while (r == WL_MORE && (v->flags & WL_M_OMIT) != omit);
    }
    return r == WL_WHOLE ? at : 0;
}
/* The bytes that were written from `from` on must be messages, at most so many. */
static inline void wl_read_whole(wl_fx *x, wl_item_parser *parse, wl_tail_parser *tail, wl_parser *v, uint32_t from, uint32_t max,
                                 uint32_t place) {
    if (WL_UNLIKELY(x->fault)) return;
    uint32_t at = from;
    while (max--) {
        at = wl_read_one(x, parse, tail, v, at);
        if (at == wl_built(x).n && at > 0) return;
        if (!at) break;
    }
    wl_fail(x, WL_F_CONSTRAINT, place);
}

/* The bytes written from a mark on begin with one of these texts, or with none of them. Too few
   bytes tell nothing, and a mark of all ones is behind the last byte. */
static inline void wl_check_beginning(wl_fx *x, uint32_t from, const wl_bytes *with, uint32_t n, bool none, uint32_t place) {
    if (WL_UNLIKELY(x->fault)) return;
    wl_bytes b = wl_built(x);
    uint32_t have = from < b.n ? b.n - from : 0;
    bool found = false;
    for (uint32_t i = 0; i < n && !found; i++) {
        uint32_t most = with[i].n < have ? with[i].n : have;
        found = (!none || most == with[i].n) && !memcmp(b.p + (have ? from : 0), with[i].p, most);
    }
    if (found == none) wl_fail(x, WL_F_CONSTRAINT, place);
}
static inline wl_opt_uint64_t wl_parse_u64(wl_bytes b) {
    wl_num r = wl_digits10(b.p, b.n, 21);
    if (b.n == 0 || r.digits != b.n) {   /* leading zeros may make it longer than 20 digits */
        uint32_t z = 0;
        while (z < b.n && b.p[z] == '0') z++;
        if (!z || b.n - z > 20) return (wl_opt_uint64_t){false, 0};
        r = wl_digits10(b.p + z, b.n - z, 21);
        r.digits += z;
    }
    return r.digits == b.n && !r.over ? (wl_opt_uint64_t){true, r.v} : (wl_opt_uint64_t){false, 0};
}
static inline wl_bytes wl_text_u64(wl_fx *x, uint64_t v) {
    uint8_t b[64];
    uint32_t n = wl_digits_of(b, v, 10);
    return wl_keep(x, wl_b(b + 64 - n, n));
}
static inline wl_bytes wl_text_i64(wl_fx *x, int64_t v) {
    uint8_t b[64];
    if (v >= 0) return wl_text_u64(x, (uint64_t)v);
    uint32_t n = wl_digits_of(b, 0 - (uint64_t)v, 10);
    b[63 - n] = '-';
    return wl_keep(x, wl_b(b + 63 - n, n + 1));
}
/* A date as HTTP writes it (RFC 9110 section 5.6.7). It changes once a second, so the last one is
   kept for each thread. */
static inline wl_bytes wl_http_date(wl_fx *x, uint64_t seconds) {
    static _Thread_local uint64_t kept = UINT64_MAX;
    static _Thread_local uint8_t text[29];
    static const char names[] = "ThuFriSatSunMonTueWed", months[] = "JanFebMarAprMayJunJulAugSepOctNovDec";
    if (seconds > UINT64_C(253402300799)) seconds = UINT64_C(253402300799);
    if (seconds != kept) {
        /* Days are counted in eras of 400 years that begin with a March. */
        uint64_t days = seconds / 86400, s = seconds % 86400, z = days + 719468, era = z / 146097, day = z % 146097;
        uint64_t year = (day - day / 1460 + day / 36524 - day / 146096) / 365, in_year = day - (365 * year + year / 4 - year / 100);
        uint64_t m = (5 * in_year + 2) / 153, d = in_year - (153 * m + 2) / 5 + 1, month = m < 10 ? m + 3 : m - 9;
        year += era * 400 + (month <= 2);
        memcpy(text, &names[days % 7 * 3], 3);
        memcpy(text + 3, ", dd mmm yyyy hh:mm:ss GMT", 26);
        memcpy(text + 8, &months[(month - 1) * 3], 3);
        const uint64_t pairs[6] = {d, year / 100, year % 100, s / 3600, s / 60 % 60, s % 60};
        static const uint8_t at[6] = {5, 12, 14, 17, 20, 23};
        for (int i = 0; i < 6; i++) { text[at[i]] = (uint8_t)('0' + pairs[i] / 10); text[at[i] + 1] = (uint8_t)('0' + pairs[i] % 10); }
        kept = seconds;
    }
    return wl_keep(x, wl_b(text, 29));
}
static inline bool wl_is_v4(wl_ip a) { return wl_le64(a.b) == 0 && wl_le32(a.b + 8) == 0xffff0000u; }
/* Dotted for IPv4 (mapped), RFC 5952 otherwise. */
static inline wl_bytes wl_text_ip(wl_fx *x, wl_ip a) {
    uint8_t out[48], num[64];
    uint32_t n = 0;
    if (wl_is_v4(a)) {
        for (int i = 12; i < 16; i++) {
            if (i > 12) out[n++] = '.';
            uint32_t d = wl_digits_of(num, a.b[i], 10);
            memcpy(out + n, num + 64 - d, d);
            n += d;
        }
        return wl_keep(x, wl_b(out, n));
    }
    int best = -1, len = 1;   /* the longest run of two or more zero groups */
    for (int i = 0; i < 8; i++) {
        int j = i;
        while (j < 8 && !a.b[2 * j] && !a.b[2 * j + 1]) j++;
        if (j - i > len) { best = i; len = j - i; }
        if (j > i) i = j;
    }
    for (int i = 0; i < 8; i++) {
        if (i == best) { out[n++] = ':'; out[n++] = ':'; i += len - 1; continue; }
        if (n && out[n - 1] != ':') out[n++] = ':';
        uint32_t d = wl_digits_of(num, wl_be16(a.b + 2 * i), 16);
        memcpy(out + n, num + 64 - d, d);
        n += d;
    }
    return wl_keep(x, wl_b(out, n));
}
/* ip:port, [ip]:port */
static inline wl_bytes wl_text_endpoint(wl_fx *x, wl_endpoint e) {
    wl_ip a;
    memcpy(a.b, e.ip, 16);
    bool v4 = wl_is_v4(a);
    return wl_concat(x, 5, (wl_bytes[]){wl_b("[", !v4), wl_text_ip(x, a), wl_b("]", !v4), wl_b(":", 1), wl_text_u64(x, e.port)});
}
static inline wl_bytes wl_be32_bytes(wl_fx *x, uint32_t v) {
    uint8_t b[4] = {(uint8_t)(v >> 24), (uint8_t)(v >> 16), (uint8_t)(v >> 8), (uint8_t)v};
    return wl_keep(x, wl_b(b, 4));
}
static inline uint32_t wl_from_be32(wl_bytes b) {
    uint32_t v = 0;
    for (uint32_t i = 0; i < 4; i++) v = v << 8 | (i < b.n ? b.p[i] : 0u);
    return v;
}
/* The bytes without those of a set at both ends. */
static inline wl_bytes wl_trim_bytes(wl_bytes b, const wl_set *not_in) {
    uint32_t from = wl_scan_set(b.p, 0, b.n, not_in);
    while (b.n > from && !wl_in(not_in, b.p[b.n - 1])) b.n--;
    return wl_b(b.p + from, b.n - from);
}
/* The items of a list, with a separator between them. */
static inline wl_bytes wl_join(wl_fx *x, const wl_bytes *item, uint32_t n, wl_bytes between) {
    uint64_t all = n ? (uint64_t)between.n * (n - 1) : 0;
    for (uint32_t i = 0; i < n; i++) all += item[i].n;
    uint8_t *d = wl_tmp(x, all > UINT32_MAX ? UINT32_MAX : (uint32_t)all), *to = d;
    if (!d) return wl_b(NULL, 0);
    for (uint32_t i = 0; i < n; i++) {
        if (i) { wl_copy(to, between.p, between.n); to += between.n; }
        wl_copy(to, item[i].p, item[i].n);
        to += item[i].n;
    }
    return wl_b(d, (uint32_t)all);
}
/* Pairs of hexadecimal digits, large or small. */
static inline wl_opt_wl_bytes wl_from_hex(wl_fx *x, wl_bytes b) {
    if (b.n % 2) return (wl_opt_wl_bytes){0};
    uint8_t *d = wl_tmp(x, b.n / 2);
    if (!d) return (wl_opt_wl_bytes){0};
    for (uint32_t i = 0; i < b.n; i += 2) {
        int hi = wl_hex1(b.p[i]), lo = wl_hex1(b.p[i + 1]);
        if (hi < 0 || lo < 0) return (wl_opt_wl_bytes){0};
        d[i / 2] = (uint8_t)(hi << 4 | lo);
    }
    return (wl_opt_wl_bytes){true, wl_b(d, b.n / 2)};
}

/* Exclusive or with a key that is repeated; an empty one changes nothing. A key of four bytes, as
   WebSocket has it, takes words. */
static inline wl_bytes wl_xor(wl_fx *x, wl_bytes b, wl_bytes key) {
    if (!key.n) return b;
    uint8_t *d = wl_tmp(x, b.n);
    if (!d) return wl_b(NULL, 0);
    uint32_t i = 0;
    if (key.n == 4) {
        uint32_t k;
        memcpy(&k, key.p, 4);
        const uint64_t kk = (uint64_t)k << 32 | k;
        for (; i + 8 <= b.n; i += 8) {
            uint64_t w;
            memcpy(&w, b.p + i, 8);
            w ^= kk;
            memcpy(d + i, &w, 8);
        }
    }
    for (uint32_t j = i % key.n; i < b.n; i++) {
        d[i] = (uint8_t)(b.p[i] ^ key.p[j]);
        j = j + 1 == key.n ? 0 : j + 1;
    }
    return wl_b(d, b.n);
}
/* RFC 3629, section 4. */
static inline bool wl_is_utf8(wl_bytes b) {
    uint32_t i = 0;
    while (i < b.n) {
        for (; i + 8 <= b.n; i += 8) {
            uint64_t w;
            memcpy(&w, b.p + i, 8);
            if (w & UINT64_C(0x8080808080808080)) break;
        }
        if (i == b.n) break;
        const uint32_t k = wl_utf8(b.p + i, b.n - i);
        if (!k) return false;
        i += k;
    }
    return true;
}

/* ---- ciphers and digests, by the runtime's library ---- */

/* Bytes that come out of an operation at most; the data of a cipher is the last argument. */
static inline uint32_t wl_crypto_room(uint32_t op, uint32_t data) {
    switch (op) {
    case WL_X_HMAC_SHA1: case WL_X_SHA1: return 20;
    case WL_X_HMAC_SHA256: case WL_X_SHA256: return 32;
    case WL_X_AES_GCM_SEAL: return data > UINT32_MAX - 16 ? UINT32_MAX : data + 16;
    default: return data;
    }
}
/* The result is in scratch. Sizes are guarded; a wrong one is a fault all the same. */
static inline wl_bytes wl_crypto(wl_fx *x, uint32_t op, uint32_t args, const wl_bytes *a) {
    if (WL_UNLIKELY(x->fault)) return wl_b(NULL, 0);
    uint8_t *d = wl_tmp(x, wl_crypto_room(op, a[args - 1].n));
    if (!d) return wl_b(NULL, 0);
    int32_t n = x->core->host->crypto(op, a, args, d);
    if (WL_UNLIKELY(n < 0)) { wl_fail(x, WL_F_CONSTRAINT, 0); return wl_b(NULL, 0); }
    return wl_b(d, (uint32_t)n);
}
static inline wl_opt_wl_bytes wl_crypto_open(wl_fx *x, const wl_bytes *a) {
    if (WL_UNLIKELY(x->fault)) return (wl_opt_wl_bytes){0};
    if (a[3].n < 16) return (wl_opt_wl_bytes){0};
    uint8_t *d = wl_tmp(x, a[3].n - 16);
    if (!d) return (wl_opt_wl_bytes){0};
    int32_t n = x->core->host->crypto(WL_X_AES_GCM_OPEN, a, 4, d);
    return n < 0 ? (wl_opt_wl_bytes){0} : (wl_opt_wl_bytes){true, wl_b(d, (uint32_t)n)};
}
/* In a time that depends on the lengths alone: every byte is looked at, and the compiler does not
   know what has been found so far. */
static inline bool wl_same_secret(wl_bytes a, wl_bytes b) {
    if (a.n != b.n) return false;
    uint32_t differ = 0;
    for (uint32_t i = 0; i < a.n; i++) {
        differ |= (uint32_t)(a.p[i] ^ b.p[i]);
        __asm__ volatile("" : "+r"(differ));
    }
    return differ == 0;
}
static inline wl_ip wl_ip_of(wl_endpoint e) { wl_ip a; memcpy(a.b, e.ip, 16); return a; }
static inline bool wl_ep_eq(wl_endpoint a, wl_endpoint b) { return a.port == b.port && memcmp(a.ip, b.ip, 16) == 0; }
/* Addresses of a port's servers. One that is not listed is of no instance: their number. */
static inline wl_endpoint wl_port_server(const wl_port *p, uint32_t i) {
    return p->server && i < p->n ? p->server[i] : (wl_endpoint){0};
}
static inline uint32_t wl_port_find(const wl_port *p, wl_endpoint e) {
    uint32_t i = 0;
    while (p->server && i < p->n && !wl_ep_eq(p->server[i], e)) i++;
    return p->server ? i : p->n;
}
/* An address as a number, the first byte the highest. */
static inline unsigned __int128 wl_ip_u128(wl_ip a) { return (unsigned __int128)wl_be64(a.b) << 64 | wl_be64(a.b + 8); }
static inline wl_ip wl_u128_ip(unsigned __int128 n) {
    uint64_t words[2] = {__builtin_bswap64((uint64_t)(n >> 64)), __builtin_bswap64((uint64_t)n)};
    wl_ip a;
    memcpy(a.b, words, 16);
    return a;
}
static inline wl_ip wl_v4_ip(uint32_t n) {
    /* Two addresses side by side are not made a vector, out of which keys would be taken piece by
       piece. */
    uint64_t last = __builtin_bswap32(n);
    if (!__builtin_constant_p(last)) last = wl_whole(last);
    uint64_t words[2] = {0, 0xffff0000u | last << 32};
    wl_ip a;
    memcpy(a.b, words, 16);
    return a;
}
static inline wl_endpoint wl_ep_of(wl_ip a, uint16_t port) {
    wl_endpoint e = {.port = port, .v4 = wl_is_v4(a)};
    memcpy(e.ip, a.b, 16);
    return e;
}
static inline bool wl_ip_eq(wl_ip a, wl_ip b) { return memcmp(a.b, b.b, 16) == 0; }

/* Whether a comma separated list (RFC 9110 5.6.1) has the token; ASCII caseless, parameters after
   `;` are not looked at. */
static inline bool wl_has_token(wl_bytes list, wl_bytes token) {
    uint32_t i = 0;
    while (list.n - i >= token.n && i < list.n) {
        while (i < list.n && (list.p[i] == ' ' || list.p[i] == '\t' || list.p[i] == ',')) i++;
        uint32_t from = i;
        i = wl_scan_two(list.p, i, list.n, ',', ',');
        uint32_t to = i;
        while (to > from && (list.p[to - 1] == ' ' || list.p[to - 1] == '\t')) to--;
        if (to > from && wl_eq_case(wl_b(list.p + from, to - from), token)) return true;
    }
    return false;
}
static inline bool wl_all_in(wl_bytes b, const wl_set *not_in) { return wl_scan_set(b.p, 0, b.n, not_in) == b.n; }
#endif
