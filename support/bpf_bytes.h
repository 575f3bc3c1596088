/* bpf_bytes.h: text and bytes in programs for the kernel's XDP hook. bpf.h includes it, if a
 * program has any.
 *
 * Bytes lie in the scratch of their processor: a value is a place there and a length. So it is a
 * number for the verifier, and holds when the frame moves. Scratch is given out front to back, and
 * is free again with the next frame. Bytes of a frame are copied to it where they are read.
 *
 * Functions that are not inlined are no part of their callers for the verifier. They find the
 * scratch by themselves. */
#ifndef WL_BPF_BYTES_H
#define WL_BPF_BYTES_H

/* Bytes that a frame's handling may make, and that a new payload may have. Each array is twice as
   large: a place below WL_ROOM and a length up to it need no other test. */
#define WL_ROOM 32768
#define WL_IN (WL_ROOM - 1)
struct wl_scratch { uint8_t b[2 * WL_ROOM], out[2 * WL_ROOM]; uint64_t wide[WL_WIDE]; };
_Static_assert(sizeof(struct wl_scratch) == WL_SCRATCH, "the loader makes room for it");
WL_INLINE struct wl_scratch *wl_scratch_here(void) { const uint32_t cpu = bpf_get_smp_processor_id(); return WL_VALUE_OF("0x68e2c94f1b07d35b", cpu, WL_PROCESSORS, struct wl_scratch); }
#define WL_BYTES_BEGIN(x) do { (x)->scratch = wl_scratch_here(); if (!(x)->scratch) return XDP_ABORTED; WL_X(x)->used = (WL_LITERALS ^ (uint32_t)WL_ANEW) & WL_USED; WL_CHANGED(x); WL_X(x)->seen_at = (uint32_t)WL_ANEW; WL_X(x)->out = 0; } while (0)
/* Of a part of a handler. */
#define WL_PART_BEGIN(x, io) do { (x)->scratch = wl_scratch_here(); if (!(x)->scratch) return 1; WL_X(x)->used = (io)->used; } while (0)
#define WL_PART_END(x, io) ((io)->used = WL_X(x)->used)
#define WL_PART_BACK(x, io) (WL_X(x)->used = (io)->used)

/* A place in an array of the scratch. The mask is for the verifier: what the compiler knows is kept
   from it. */
#define WL_SPOT(array, at) ({ uint64_t o_ = (at); WL_KEEP(o_); o_ &= WL_IN; WL_KEEP(o_); (array) + o_; })
/* A length as the verifier wants it: at most WL_ROOM, and not 0. */
#define WL_SOME(n) ({ uint64_t n_ = (uint64_t)(n) - 1; WL_KEEP(n_); n_ &= WL_IN; WL_KEEP(n_); n_ + 1; })
#define wl_word_of(s, at) (*(const uint64_t *)WL_SPOT((s)->b, at))
#define wl_word(at) wl_word_of(x->scratch, at)
#define WL_LOW(n) ((n) >= 8 ? UINT64_MAX : (UINT64_C(1) << 8 * ((n) & 7)) - 1)

/* The smaller one of any number and a length, without a branch for the verifier to follow. */
WL_INLINE uint32_t wl_least(uint64_t a, uint32_t n) {
    uint64_t high = a >> 32, over = (high | (0 - high)) >> 63;
    WL_KEEP(over);
    a = (a | (0 - over)) & UINT32_MAX;
    uint64_t d = a - n, less = d >> 63;
    WL_KEEP(less);
    return (uint32_t)(n + (d & (0 - less)));
}

/* Room for n bytes; false: the frame's handling has made too many. */
WL_INLINE bool wl_has_room(wl_fx *x, uint32_t n) {
    if (WL_LIKELY(n <= WL_ROOM && WL_X(x)->used <= WL_ROOM - n)) return true;
    wl_fail(x, WL_F_OVERLOAD, 0);
    return false;
}
#define WL_USED 0xfff8
#define wl_used_up(x, n) (WL_X(x)->used = ((WL_X(x)->used + (n) + 7) ^ (uint32_t)WL_ANEW) & WL_USED)
/* Copies within the scratch. */
__attribute__((noinline)) int wl_copy_bytes(uint32_t to, uint32_t from, uint32_t n) {
    struct wl_scratch *s = wl_scratch_here();
    if (!s || !n) return 0;
    return (int)bpf_probe_read_kernel(WL_SPOT(s->b, to), (uint32_t)WL_SOME(n), WL_SPOT(s->b, from));
}
__attribute__((noinline)) int wl_append(uint32_t to, uint32_t from, uint32_t n) {
    struct wl_scratch *s = wl_scratch_here();
    if (!s || !n) return 0;
    return (int)bpf_probe_read_kernel(WL_SPOT(s->out, to), (uint32_t)WL_SOME(n), WL_SPOT(s->b, from));
}

/* ---- of frames and of the program ---- */

/* So many bytes are copied word by word: a function of the kernel takes longer. The last word may
   begin within the one before it. */
#define WL_BRIEF 96
#define WL_BRIEF_BITS 127
#define WL_BRIEFER 64
/* A pointer to 8 bytes of the frame. A frame of several pieces may have them elsewhere: then the
   kernel's function is asked. */
#define WL_IN_FRAME(at) ({ uint64_t o_ = (at); WL_KEEP(o_); o_ &= WL_AT; const uint8_t *w_ = data + o_; WL_KEEP(w_); \
    if (w_ + 8 > data_end) goto elsewhere; \
    (uint64_t *)w_; })
__attribute__((noinline)) int wl_load_bytes(struct xdp_md *ctx, uint32_t to, uint32_t at, uint32_t n) {
    struct wl_scratch *s = wl_scratch_here();
    if (!s || !n) return 0;
    return bpf_xdp_load_bytes(ctx, at, WL_SPOT(s->b, to), (uint32_t)WL_SOME(n)) == 0;
}
/* The same of few bytes; false: they are not few. */
WL_INLINE bool wl_load_few(wl_fx *x, uint32_t to, uint32_t at, uint32_t n) {
#ifndef WL_PLACES_KEPT
    const uint8_t *data = x->data, *data_end = x->end;
    uint8_t *t = WL_SPOT(x->scratch->b, to);
    uint32_t all = n, begin = at;
    WL_FORGET_NUMBER(all); /* numbers of their own for the verifier: the ways from here join */
    WL_FORGET_NUMBER(begin);
    if (all < 8 || all > WL_BRIEFER || begin > WL_AT - WL_BRIEFER) return false;
    _Pragma("unroll") for (uint32_t i = 0; i + 8 < WL_BRIEFER; i += 8) {
        if (i + 8 >= all) break;
        *(uint64_t *)(t + i) = *WL_IN_FRAME(at + i);
    }
    *(uint64_t *)WL_SPOT(x->scratch->b, to + n - 8) = *WL_IN_FRAME(at + n - 8);
    return true;
elsewhere:
#endif
    return false;
}
/* Bytes of the frame. They are not copied a second time while the frame does not change. */
WL_INLINE wl_bytes wl_of_frame(wl_fx *x, uint32_t at, uint32_t end) {
    const uint64_t which = (uint64_t)at << 32 | end;
    const uint32_t n = end - wl_least(at, end);
    if (WL_X(x)->seen != which && n && wl_has_room(x, n)) {
        if (!wl_load_few(x, WL_X(x)->used, at, n) && !wl_load_bytes(x->ctx, WL_X(x)->used, at, n)) wl_fail(x, WL_F_OVERLOAD, 0);
        WL_X(x)->seen = which;
        WL_X(x)->seen_at = WL_X(x)->used;
        wl_used_up(x, n);
    }
    WL_X(x)->seen ^= WL_ANEW;
    WL_X(x)->seen_at ^= (uint32_t)WL_ANEW;
    WL_FORGET_NUMBER(WL_X(x)->fault);
    return (wl_bytes){WL_X(x)->seen_at, WL_X(x)->fault ? 0 : n};
}
/* The bytes at a pointer to the frame. */
#define wl_b(p, n) wl_of_place(x, (uint32_t)((const uint8_t *)(p) - x->data), (n))
#define wl_of_place(x, at, n) ({ const uint32_t at_ = (at); wl_of_frame(x, at_, at_ + (n)); })
/* Bytes as a table has them: at most so many. A few of a key are copied word by word: a call of the
   kernel takes longer. What is behind them in their last word becomes 0, as it was. */
#define WL_FEW_BYTES 24
#define WL_KEY_BYTES 512
#define wl_pack_bytes(x, to, most, from) do { const wl_bytes p_ = (from); uint64_t c_ = p_.n; WL_KEEP(c_); if (c_ > (most)) c_ = (most); \
    if ((most) >= WL_FEW_BYTES && (most) <= WL_KEY_BYTES && WL_LIKELY(c_ <= WL_FEW_BYTES)) { \
        _Pragma("unroll") for (unsigned w_ = 0; w_ < WL_FEW_BYTES; w_ += 8) { \
            if (w_ >= c_) break; \
            const uint64_t left_ = c_ - w_; \
            *(uint64_t *)((uint8_t *)(to) + w_) = wl_word_of((x)->scratch, p_.p + w_) & WL_LOW(left_); \
        } \
    } else (void)bpf_probe_read_kernel((to), (uint32_t)c_, WL_SPOT((x)->scratch->b, p_.p)); } while (0)
/* A constant has a place of its own, before all others. */
#define WL_LITERAL_WORD(at, word) (*(uint64_t *)(x->scratch->b + (at)) = (word))
#define wl_literal(at, n, ...) ({ __VA_ARGS__; (wl_bytes){(at), (n)}; })

/* ---- functions of the language: as base.h and builtin.h have them ---- */

WL_INLINE wl_bytes wl_slice(wl_bytes b, uint64_t from, uint64_t to) {
    const uint32_t t = wl_least(to, b.n), f = wl_least(from, t);
    return (wl_bytes){b.p + f, t - f};
}
WL_INLINE uint8_t wl_byte_of(wl_fx *x, wl_bytes b, uint64_t i) { return i < b.n ? *WL_SPOT(x->scratch->b, b.p + (uint32_t)i) : 0; }
#define wl_byte(b, i) wl_byte_of(x, b, i)
/* The place of the first difference of n bytes; n: there is none. */
__attribute__((noinline)) uint32_t wl_differ(uint32_t a, uint32_t b, uint32_t n) {
    const struct wl_scratch *s = wl_scratch_here();
    if (!s) return 0;
    for (uint32_t i = (uint32_t)wl_unknown; i < n; i += 8) {
        WL_ROUND({ return 0; });
        uint64_t d = wl_word_of(s, a + i) ^ wl_word_of(s, b + i);
        if (!d) continue;
        for (uint32_t k = 0; k < 8; k++) {
            if (d & 255) return i + k < n ? i + k : n;
            d >>= 8;
        }
    }
    return n;
}
WL_INLINE bool wl_eq(wl_bytes a, wl_bytes b) { return a.n == b.n && wl_differ(a.p, b.p, a.n) == a.n; }
/* Below 0, 0 or above, as a dictionary has them. */
__attribute__((noinline)) int wl_order(uint32_t a, uint32_t an, uint32_t b, uint32_t bn) {
    const struct wl_scratch *s = wl_scratch_here();
    const uint32_t n = an < bn ? an : bn, at = wl_differ(a, b, n);
    if (!s) return 0;
    if (at < n) return (int)*WL_SPOT(s->b, a + at) - (int)*WL_SPOT(s->b, b + at);
    return an < bn ? -1 : an > bn;
}
WL_INLINE int wl_cmp(wl_bytes a, wl_bytes b) { return wl_order(a.p, a.n, b.p, b.n); }
/* Whether nothing differs and nothing is missing, without a branch for the verifier to follow.
   `missing`: below 0 if bytes are. */
WL_INLINE bool wl_is(uint64_t differ, int64_t missing) {
    uint64_t yes = (differ | (0 - differ) | (uint64_t)missing) >> 63 ^ 1;
    WL_KEEP(yes);
    return (bool)(yes & 1);
}
/* Of a constant of at most 8 bytes. */
#define wl_eq_few(b, word, count) ({ const wl_bytes e_ = (b); wl_is(((wl_word(e_.p) ^ (word)) & WL_LOW(count)) | (e_.n ^ (count)), 0); })
#define wl_starts_few(b, word, count) ({ const wl_bytes e_ = (b); wl_is((wl_word(e_.p) ^ (word)) & WL_LOW(count), (int64_t)e_.n - (count)); })
#define wl_ends_few(b, word, count) ({ const wl_bytes e_ = (b); wl_is((wl_word(e_.p + e_.n - (count)) ^ (word)) & WL_LOW(count), (int64_t)e_.n - (count)); })
WL_INLINE bool wl_starts(wl_bytes b, wl_bytes p) { return b.n >= p.n && wl_differ(b.p, p.p, p.n) == p.n; }
WL_INLINE bool wl_ends(wl_bytes b, wl_bytes p) { return b.n >= p.n && wl_differ(b.p + b.n - p.n, p.p, p.n) == p.n; }
/* The high bit of each byte that is 0, from the lowest one on up to the first. */
#define WL_ZEROS(w) (((w) - 0x0101010101010101ull) & ~(w) & 0x8080808080808080ull)
/* The place of the lowest of them; 8: there is none. */
#define WL_LOWEST(hit) ((((hit) >> 7 & (0 - ((hit) >> 7))) - 1 & 0x0101010101010101ull) * 0x0101010101010101ull >> 56)
/* The first place of m bytes, of which `word` has up to 8, and others at `rest`. -1: none. */
__attribute__((noinline)) int64_t wl_seek(uint32_t at, uint32_t n, uint64_t word, uint32_t m, uint32_t rest) {
    const struct wl_scratch *s = wl_scratch_here();
    if (!s || m > n) return -1;
    if (!m) return 0;
    const uint64_t low = WL_LOW(m), first = (word & 255) * 0x0101010101010101ull;
    uint32_t i = (uint32_t)wl_unknown;
    /* The first words without a loop: the count of its rounds would cost as much as a word. */
    _Pragma("unroll") for (unsigned k = 0; k < 4; k++) {
        if (i + m > n) return -1;
        const uint64_t w = wl_word_of(s, at + i), hit = WL_ZEROS(w ^ first);
        if (hit) {
            const uint32_t j = i + (uint32_t)WL_LOWEST(hit);
            if (j + m > n) return -1;
            if (m == 1 || (m <= 8 && ((wl_word_of(s, at + j) ^ word) & low) == 0)) return j;
            break;
        }
        i += 8;
    }
    WL_FORGET_NUMBER(i); /* the ways from here join */
    WL_FORGET_NUMBER(n);
    WL_FORGET_NUMBER(m);
    while (i + m <= n) {
        WL_ROUND({ return -1; });
        const uint64_t w = wl_word_of(s, at + i), hit = WL_ZEROS(w ^ first);
        if (!hit) { i += 8; continue; }
        i += (uint32_t)WL_LOWEST(hit);
        if (i + m > n) break;
        if (((wl_word_of(s, at + i) ^ word) & low) == 0 && (m <= 8 || wl_differ(at + i + 8, rest, m - 8) == m - 8)) return i;
        i++;
    }
    return -1;
}
/* The same of one byte, without a call where there are few. A handler's first searches are such
   ones: the verifier follows each by itself. */
#define WL_NEAR_WORDS 4
WL_INLINE int64_t wl_seek_near(wl_fx *x, uint32_t at, uint32_t n, uint64_t byte) {
    const uint64_t first = byte * 0x0101010101010101ull;
    int64_t found = -1;
    uint32_t all = n;
    WL_FORGET_NUMBER(all); /* a number of its own for the verifier: the ways from here join */
    if (!WL_IN_LINE || all > 8 * WL_NEAR_WORDS) found = wl_seek(at, n, byte, 1, 0);
    else {
        const struct wl_scratch *s = x->scratch;
        uint64_t i = 0, hit = 0;
        _Pragma("unroll") for (unsigned k = 0; k < WL_NEAR_WORDS; k++) {
            hit = WL_ZEROS(wl_word_of(s, at + 8 * k) ^ first);
            WL_KEEP(hit);
            if (hit) break;
            i += 8;
        }
        WL_FORGET_NUMBER(hit);
        WL_FORGET_NUMBER(i);
        i += WL_LOWEST(hit);
        uint64_t beyond = (i - all) >> 63 ^ 1;
        WL_KEEP(beyond);
        found = (int64_t)(i | (0 - beyond));
    }
    WL_FORGET_NUMBER(found);
    return found;
}
WL_INLINE wl_opt_uint32_t wl_sought(int64_t at) {
    uint64_t none = (uint64_t)at >> 63;
    WL_KEEP(none);
    return (wl_opt_uint32_t){(bool)(none ^ 1), (uint32_t)at & (uint32_t)(none - 1)};
}
#define wl_find_few(b, word, count) ({ const wl_bytes f_ = (b); wl_sought(wl_seek(f_.p, f_.n, word, count, 0)); })
#define wl_find_byte(b, byte) wl_find_few(b, byte, 1)
#define wl_find_byte_near(b, byte) ({ const wl_bytes f_ = (b); wl_sought(wl_seek_near(x, f_.p, f_.n, byte)); })
#define wl_find(b, w) ({ const wl_bytes f_ = (b), w_ = (w); wl_sought(wl_seek(f_.p, f_.n, wl_word(w_.p), w_.n, w_.p + 8)); })
#define wl_find_from(b, w, from) ({ const wl_bytes l_ = (b); wl_find(wl_slice(l_, (from), l_.n), (w)); })
/* Joins bytes in scratch. */
#define wl_concat(x, k, list) ({ const wl_bytes *s_ = (list); uint64_t n_ = 0; \
    _Pragma("unroll") for (unsigned i_ = 0; i_ < (k); i_++) n_ += s_[i_].n; \
    const uint32_t all_ = n_ > WL_ROOM ? WL_ROOM + 1 : (uint32_t)n_; uint32_t to_ = WL_X(x)->used; const uint32_t from_ = to_; \
    const bool fits_ = wl_has_room(x, all_); \
    if (fits_) { _Pragma("unroll") for (unsigned i_ = 0; i_ < (k); i_++) { wl_copy_bytes(to_, s_[i_].p, s_[i_].n); to_ += s_[i_].n; } wl_used_up(x, all_); } \
    (wl_bytes){from_, fits_ ? all_ : 0}; })
#define wl_keep(x, b) ({ const wl_bytes k_ = (b); k_; })
/* FNV-1a. */
__attribute__((noinline)) uint64_t wl_h_run(uint64_t h, uint32_t at, uint32_t n) {
    const struct wl_scratch *s = wl_scratch_here();
    if (!s) return 0;
    for (uint32_t i = (uint32_t)wl_unknown; i < n;) {
        WL_ROUND({ return h; });
        uint64_t w = wl_word_of(s, at + i);
        if (n - i < 8) {
            h = (h ^ (w & 255)) * UINT64_C(0x100000001b3);
            i++;
            continue;
        }
        _Pragma("unroll") for (unsigned k = 0; k < 8; k++) { h = (h ^ (w & 255)) * UINT64_C(0x100000001b3); w >>= 8; }
        i += 8;
    }
    return h;
}
WL_INLINE uint64_t wl_h_bytes(uint64_t h, wl_bytes b) { return wl_h_run(h, b.p, b.n); }
/* MurmurHash64A (A. Appleby). */
#define WL_MURMUR UINT64_C(0xc6a4a7935bd1e995)
#define WL_MURMUR_WORD(h, w) do { uint64_t k_ = (w) * WL_MURMUR; k_ = (k_ ^ k_ >> 47) * WL_MURMUR; (h) = ((h) ^ k_) * WL_MURMUR; } while (0)
/* The last bytes, if there are some, and the end. */
#define WL_MURMUR_END(h, s, at, some, n) do { if (some) (h) = ((h) ^ (wl_word_of(s, at) & WL_LOW(n))) * WL_MURMUR; \
    (h) = ((h) ^ (h) >> 47) * WL_MURMUR; \
    (h) ^= (h) >> 47; } while (0)
__attribute__((noinline)) uint64_t wl_murmur_run(uint64_t seed, uint32_t at, uint32_t n) {
    const struct wl_scratch *s = wl_scratch_here();
    uint64_t h = seed ^ n * WL_MURMUR;
    uint32_t i = (uint32_t)wl_unknown;
    if (!s) return 0;
    /* The first words without a loop: the count of its rounds would cost as much as a word. */
    _Pragma("unroll") for (unsigned k = 0; k < 4; k++) {
        if (n - i < 8) break;
        WL_MURMUR_WORD(h, wl_word_of(s, at + i));
        i += 8;
    }
    WL_FORGET_NUMBER(i); /* the ways from here join */
    WL_FORGET_NUMBER(n);
    WL_FORGET_NUMBER(h);
    while (n - i >= 8) {
        WL_ROUND({ return h; });
        WL_MURMUR_WORD(h, wl_word_of(s, at + i));
        i += 8;
    }
    WL_MURMUR_END(h, s, at + i, i < n, n - i);
    return h;
}
/* The same without a call where there are at most 24 bytes. */
WL_INLINE uint64_t wl_murmur_near(wl_fx *x, uint64_t seed, uint32_t at, uint32_t n) {
    uint32_t all = n;
    WL_FORGET_NUMBER(all); /* a number of its own for the verifier: the ways from here join */
    uint64_t h = 0;
    if (!WL_IN_LINE || all > 24) h = wl_murmur_run(seed, at, n);
    else {
        const struct wl_scratch *s = x->scratch;
        h = seed ^ n * WL_MURMUR;
        uint32_t i = 0;
        _Pragma("unroll") for (unsigned k = 0; k < 3; k++) {
            if (all < 8 * (k + 1)) break;
            WL_MURMUR_WORD(h, wl_word_of(s, at + 8 * k));
            i += 8;
        }
        WL_FORGET_NUMBER(h);
        WL_FORGET_NUMBER(i);
        WL_MURMUR_END(h, s, at + i, i < all, all - i);
    }
    WL_FORGET_NUMBER(h);
    return h;
}
#define wl_murmur64_near(seed, b) ({ const wl_bytes m_ = (b); wl_murmur_near(x, (seed), m_.p, m_.n); })
#define wl_murmur64(seed, b) ({ const wl_bytes m_ = (b); wl_murmur_run((seed), m_.p, m_.n); })
__attribute__((noinline)) uint32_t wl_fnv32(uint32_t at, uint32_t n) {
    const struct wl_scratch *s = wl_scratch_here();
    uint32_t h = 0x811c9dc5u;
    if (!s) return 0;
    for (uint32_t i = (uint32_t)wl_unknown; i < n; i++) {
        WL_ROUND({ return h; });
        h = (h ^ *WL_SPOT(s->b, at + i)) * 0x01000193u;
    }
    return h;
}
WL_INLINE uint32_t wl_fnv1a32(wl_bytes b) { return wl_fnv32(b.p, b.n); }
/* A number of decimal digits; 1: it is one. */
struct wl_number { uint64_t v; };
__attribute__((noinline)) int wl_digits(uint32_t at, uint32_t n, struct wl_number *to) {
    const struct wl_scratch *s = wl_scratch_here();
    uint64_t v = 0;
    if (!s || !to || !n) return 0;
    for (uint32_t i = (uint32_t)wl_unknown; i < n; i++) {
        WL_ROUND({ return 0; });
        const uint64_t d = (uint64_t)*WL_SPOT(s->b, at + i) - '0';
        if (d > 9 || v > UINT64_MAX / 10 || v * 10 > UINT64_MAX - d) return 0;
        v = v * 10 + d;
    }
    to->v = v;
    return 1;
}
#define wl_parse_u64(b) ({ const wl_bytes d_ = (b); struct wl_number to_ = {0}; const int is_ = wl_digits(d_.p, d_.n, &to_); (wl_opt_uint64_t){is_ == 1, is_ == 1 ? to_.v : 0}; })
/* Decimal digits, at least `width`, in the scratch or in a new payload; answers their number. */
__attribute__((noinline)) uint32_t wl_digits_to(uint64_t v, uint32_t to, uint32_t less, uint32_t out) {
    struct wl_scratch *s = wl_scratch_here();
    uint32_t n = 1 + (uint32_t)wl_unknown;
    if (!s) return 0;
    for (uint64_t w = v; w > 9; w /= 10) { WL_ROUND({ return 0; }); n++; }
    if (less) { *WL_SPOT(out ? s->out : s->b, to) = '-'; to++; }
    for (uint32_t i = n; i > 0; i--) {
        WL_ROUND({ return 0; });
        *WL_SPOT(out ? s->out : s->b, to + i - 1) = (uint8_t)('0' + v % 10);
        v /= 10;
    }
    return n + (less ? 1 : 0);
}
WL_INLINE wl_bytes wl_text_of(wl_fx *x, uint64_t v, bool less) {
    if (!wl_has_room(x, 24)) return (wl_bytes){0, 0};
    const wl_bytes b = {WL_X(x)->used, wl_digits_to(v, WL_X(x)->used, less, 0)};
    wl_used_up(x, 24);
    return b;
}
#define wl_text_u64(x, v) wl_text_of(x, v, false)
#define wl_text_i64(x, v) ({ const int64_t i_ = (v); wl_text_of(x, i_ < 0 ? 0 - (uint64_t)i_ : (uint64_t)i_, i_ < 0); })
/* Letters between `first` and `first` + 25, exchanged. */
__attribute__((noinline)) int wl_letters(uint32_t to, uint32_t from, uint32_t n, uint32_t first) {
    struct wl_scratch *s = wl_scratch_here();
    if (!s) return 0;
    for (uint32_t i = (uint32_t)wl_unknown; i < n; i++) {
        WL_ROUND({ return 0; });
        const uint8_t c = *WL_SPOT(s->b, from + i);
        *WL_SPOT(s->b, to + i) = (uint8_t)(c - first) < 26 ? c ^ 32 : c;
    }
    return 1;
}
WL_INLINE wl_bytes wl_cased(wl_fx *x, wl_bytes b, uint32_t first) {
    const uint32_t at = WL_X(x)->used;
    if (!wl_has_room(x, b.n)) return (wl_bytes){0, 0};
    wl_letters(at, b.p, b.n, first);
    wl_used_up(x, b.n);
    return (wl_bytes){at, b.n};
}
#define wl_lower(x, b) wl_cased(x, b, 'A')
#define wl_upper(x, b) wl_cased(x, b, 'a')
WL_INLINE wl_bytes wl_be32_bytes(wl_fx *x, uint32_t v) {
    const uint32_t at = WL_X(x)->used;
    if (!wl_has_room(x, 8)) return (wl_bytes){0, 0};
    *(uint32_t *)WL_SPOT(x->scratch->b, at) = __builtin_bswap32(v);
    wl_used_up(x, 8);
    return (wl_bytes){at, 4};
}
#define wl_from_be32(b) ({ const wl_bytes f_ = (b); __builtin_bswap32((uint32_t)(wl_word(f_.p) & WL_LOW(f_.n))); })

/* ---- a new payload ---- */

#define wl_begin(x) (WL_X(x)->out = 0)
#define wl_out_room(x, n) ((n) <= WL_ROOM && WL_X(x)->out <= WL_ROOM - (n) ? true : ({ wl_fail(x, WL_F_OVERLOAD, 0); false; }))
WL_INLINE void wl_put(wl_fx *x, wl_bytes b) {
    if (!wl_out_room(x, b.n)) return;
    wl_append(WL_X(x)->out, b.p, b.n);
    WL_X(x)->out += b.n;
}
WL_INLINE void wl_put_uint(wl_fx *x, unsigned __int128 v, const unsigned n, const bool big) {
    if (!wl_out_room(x, n)) return;
    wl_put_at(WL_SPOT(x->scratch->out, WL_X(x)->out), v, n, big);
    WL_X(x)->out += n;
}
WL_INLINE void wl_put_u8(wl_fx *x, uint8_t v) { wl_put_uint(x, v, 1, true); }
/* Puts n bytes in the place of those from pos to end; 0: there is no room. `from`: their place in
   the scratch, or WL_BUILT. A frame grows behind its end, or else in front, where the headers move.
   A veth has room in front only. */
#define WL_BUILT UINT32_MAX
__attribute__((noinline)) int wl_replace(struct xdp_md *ctx, uint32_t pos, uint32_t end, uint32_t n, uint32_t from) {
    struct wl_scratch *s = wl_scratch_here();
    const uint8_t *data = (const uint8_t *)(long)ctx->data, *data_end = (const uint8_t *)(long)ctx->data_end;
    const uint64_t all = (uint64_t)(data_end - data);
    if (!s || pos > end || end > all || n > WL_ROOM) return 0;
    const uint32_t rest = (uint32_t)all - end;
    const int by = (int)n - (int)(end - pos);
    const bool front = by > 0 && bpf_xdp_adjust_tail(ctx, by);
    if (front) {
        uint8_t *headers = s->out + WL_ROOM;
        if (pos && bpf_xdp_load_bytes(ctx, 0, headers, (uint32_t)WL_SOME(pos))) return 0;
        if (bpf_xdp_adjust_head(ctx, -by)) return 0;
        if (pos && bpf_xdp_store_bytes(ctx, 0, headers, (uint32_t)WL_SOME(pos))) return 0;
    } else if (rest && by && !wl_move(ctx, end, end + (uint32_t)by, rest)) return 0;
    if (by < 0 && bpf_xdp_adjust_tail(ctx, by)) return 0;
    const uint8_t *bytes = from == WL_BUILT ? s->out : WL_SPOT(s->b, from);
    return !n || bpf_xdp_store_bytes(ctx, pos, (void *)bytes, (uint32_t)WL_SOME(n)) == 0;
}
/* The same of a few bytes at the end of a frame, without a call of a function. The verifier gets
   numbers of their own, so that the ways from here join. */
WL_INLINE bool wl_replace_near(wl_fx *x, uint32_t pos, uint32_t end, uint32_t n, uint32_t from) {
    const uint64_t all = (uint64_t)(x->ctx->data_end - x->ctx->data);
    uint32_t begin = pos, count = n;
    WL_FORGET_NUMBER(begin);
    WL_FORGET_NUMBER(count);
    if (all != end || begin > end || count < 8 || count > WL_BRIEF || begin > WL_AT - WL_BRIEF) return false;
    const int by = (int)(count + begin - end);
    if (by && bpf_xdp_adjust_tail(x->ctx, by)) return false;
    const uint8_t *data = (const uint8_t *)(long)x->ctx->data, *data_end = (const uint8_t *)(long)x->ctx->data_end;
    const uint8_t *bytes = from == WL_BUILT ? x->scratch->out : WL_SPOT(x->scratch->b, from);
    uint64_t last = n - 8;
    WL_KEEP(last);
    last &= WL_BRIEF_BITS;
    WL_KEEP(last);
    _Pragma("unroll") for (uint32_t i = 0; i + 8 < WL_BRIEF; i += 8) {
        if (i + 8 >= count) break;
        *WL_IN_FRAME(pos + i) = *(const uint64_t *)(bytes + i);
    }
    *WL_IN_FRAME(pos + last) = *(const uint64_t *)(bytes + last);
    return true;
elsewhere:
    if (by) bpf_xdp_adjust_tail(x->ctx, -by);
    return false;
}
WL_INLINE bool wl_refill_as(wl_fx *x, wl_view *v, uint32_t pos, uint32_t end, uint32_t n, uint32_t from, const bool near) {
    if (v->n + n - (end - pos) > 65535) return false;
    if (!(near && wl_replace_near(x, pos, end, n, from)) && !wl_replace(x->ctx, pos, end, n, from)) return false;
    wl_again(x, v);
    v->n += n - (end - pos);
    v->end = (pos + n) & 65535;
    v->top = wl_least(v->top, pos);
    return true;
}
#define wl_refill(x, v, pos, end, n, from) wl_refill_as(x, v, pos, end, n, from, false)
#define wl_refill_near(x, v, pos, end, n, from) wl_refill_as(x, v, pos, end, n, from, WL_IN_LINE)
/* The end of a header's payload, moved if it does not lie before that of the old payload. */
#define wl_lim_moved(v, layer, end, by) ((v)->lim[layer] = (uint16_t)wl_behind((v)->lim[layer], (end), (by)))
#endif
