/* base.h: the parts that every generated program uses: values, arithmetic, scratch, building
 * messages, text. */
#ifndef WL_BASE_H
#define WL_BASE_H
#include "wireloom.h"
#include "scan.h"
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#define WL_LIKELY(e) __builtin_expect(!!(e), 1)
#define WL_UNLIKELY(e) __builtin_expect(!!(e), 0)
/* A number whose origin the compiler does not see, so that it makes no branch of it. For choices
   that change from frame to frame. */
static inline __attribute__((always_inline)) uint64_t wl_whole(uint64_t v) { __asm__("" : "+r"(v)); return v; }
/* One of two numbers, without a branch. */
static inline __attribute__((always_inline)) uint32_t wl_choose(bool first, uint32_t a, uint32_t b) { return b ^ ((a ^ b) & (uint32_t)(0 - wl_whole(first))); }
/* A large file is compiled in parts side by side: WL_PART says which; 0: all at once. */
#ifndef WL_PART
#define WL_PART 0
#endif
#define WL_IN_PART(n) (WL_PART == 0 || WL_PART == (n))
#if WL_PART == 0
#define WL_PARTED static
#define WL_PARTED_HEAD static
#elif WL_PART == 1
#define WL_PARTED __attribute__((visibility("hidden")))
#define WL_PARTED_HEAD WL_PARTED
#else
#define WL_PARTED __attribute__((visibility("hidden")))
#define WL_PARTED_HEAD extern WL_PARTED
#endif
/* Inlined at every call. Without optimisation that costs only: the code of a parser would stand in
   every handler, and compiling takes three times as long. */
#ifdef __OPTIMIZE__
#define WL_INLINE static inline __attribute__((always_inline))
#else
#define WL_INLINE static inline __attribute__((unused))
#endif
/* Needs much of the stack, which its caller then takes only while this runs. */
#define WL_APART __attribute__((noinline, unused))
/* Runs now and then: small code, which is compiled in half the time. (What gcc calls cold is small
   by itself.) */
#ifdef __clang__
#define WL_RARE __attribute__((cold, noinline, minsize))
#else
#define WL_RARE __attribute__((cold, noinline))
#endif

/* Part of a message: offset from its first byte, length. */
typedef struct wl_ext { uint32_t o, n; } wl_ext;
typedef struct wl_ip { uint8_t b[16]; } wl_ip;
typedef struct wl_opt_wl_bytes { bool has; wl_bytes v; } wl_opt_wl_bytes;
typedef struct wl_opt_uint32_t { bool has; uint32_t v; } wl_opt_uint32_t;
typedef struct wl_opt_uint64_t { bool has; uint64_t v; } wl_opt_uint64_t;

/* An activation: where it runs, its scratch, and the fault that ends it. A fault sticks; the code
 * that follows sees zero values until the next check. */
typedef struct wl_fx {
    wl_core *core;
    wl_conn *conn;
    wl_task *task;
    uint8_t *tmp;
    uint32_t tmp_n, tmp_max;
    uint32_t place;
    uint16_t fault;
    uint16_t within;      /* The handler may pause between items. */
    uint32_t groups;      /* Instances that have a group: wl_group_begin. */
    struct wl_group *group;
    uint32_t items, first_item, last_item;   /* Of all groups, in the order in which they came. */
    uint64_t spent;       /* Steps since the last look at the time. */
    uint64_t begun;       /* At the first look: wl_host.late. */
    uint32_t runs;        /* Parts of which the items are known: wl_group_run. */
    struct wl_run *run;
} wl_fx;

static inline void wl_fail(wl_fx *x, uint16_t kind, uint32_t place) {
    if (!x->fault) { x->fault = kind; x->place = place; }
}

/* Scratch that lives to the end of the activation; NULL and a fault when there is no more. */
static inline uint8_t *wl_tmp(wl_fx *x, uint32_t n) {
    if (WL_UNLIKELY(n > x->tmp_max - x->tmp_n)) { wl_fail(x, WL_F_OVERLOAD, 0); return NULL; }
    uint8_t *p = x->tmp + x->tmp_n;
    x->tmp_n += n;
    return p;
}

/* A round of a long loop is over. */
static inline void wl_round(wl_fx *x) {
    if (x->core && WL_UNLIKELY(--x->core->fuel == 0)) x->core->host->pause(x->core);
}

/* So many steps are between two looks at the time. */
#define WL_STEPS_MAX (1u << 26)

static WL_RARE bool wl_look(wl_fx *x) {
    x->spent = 0;
    return x->core && x->core->host->late(x->core, &x->begun);
}

/* A round of a loop that may take very long begins: whether its handler has used up its time.
 * Behind a fault an expression is still evaluated to its end, without further rounds. */
static inline bool wl_out_of_time(wl_fx *x, uint32_t steps) {
    x->spent += steps;
    return WL_UNLIKELY(x->fault) || (WL_UNLIKELY(x->spent > WL_STEPS_MAX) && wl_look(x));
}

/* The same of an item that is put together with others. */
static inline void wl_item_done(wl_fx *x) { if (x->within) wl_round(x); }

/* ---- bytes ---- */

static inline wl_bytes wl_b(const void *p, uint32_t n) { return (wl_bytes){(const uint8_t *)p, n, 0}; }
static inline wl_bytes wl_at(const uint8_t *base, wl_ext e) { return (wl_bytes){base + e.o, e.n, 0}; }
static inline void wl_copy(void *d, const void *s, size_t n) { if (n) memcpy(d, s, n); }
/* The same, quick for a few bytes of a number that is not known. */
static inline void wl_copy_few(uint8_t *d, const uint8_t *s, size_t n) {
    if (n > 16) { memcpy(d, s, n); return; }
    if (n >= 8) {
        uint64_t a, b;
        memcpy(&a, s, 8); memcpy(&b, s + n - 8, 8);
        memcpy(d, &a, 8); memcpy(d + n - 8, &b, 8);
    } else if (n >= 4) {
        uint32_t a, b;
        memcpy(&a, s, 4); memcpy(&b, s + n - 4, 4);
        memcpy(d, &a, 4); memcpy(d + n - 4, &b, 4);
    } else if (n) {
        uint8_t a = s[0], b = s[n / 2], c = s[n - 1];
        d[0] = a; d[n / 2] = b; d[n - 1] = c;
    }
}
static inline bool wl_eq(wl_bytes a, wl_bytes b) { return a.n == b.n && (a.n == 0 || memcmp(a.p, b.p, a.n) == 0); }
static inline int wl_cmp(wl_bytes a, wl_bytes b) {
    uint32_t n = a.n < b.n ? a.n : b.n;
    int c = n ? memcmp(a.p, b.p, n) : 0;
    return c ? c : (a.n > b.n) - (a.n < b.n);
}
static inline uint8_t wl_lower1(uint8_t c) { return (uint8_t)(c - 'A') < 26 ? (uint8_t)(c | 32) : c; }
static inline uint8_t wl_upper1(uint8_t c) { return (uint8_t)(c - 'a') < 26 ? (uint8_t)(c & ~32) : c; }
/* Up to eight bytes in a number: of as many bytes only the same give the same. */
WL_INLINE uint64_t wl_word(const uint8_t *p, uint32_t n) {
    if (n == 8) { uint64_t v; memcpy(&v, p, 8); return v; }
    if (n >= 4) { uint32_t a, b; memcpy(&a, p, 4); memcpy(&b, p + n - 4, 4); return (uint64_t)b << 32 | a; }
    return n ? (uint64_t)p[0] | (uint64_t)p[n / 2] << 8 | (uint64_t)p[n - 1] << 16 : 0;
}
/* Whether eight bytes differ at most in the case of letters. */
WL_INLINE bool wl_word_case(uint64_t a, uint64_t b) {
    const uint64_t ones = UINT64_C(0x0101010101010101), low = (b | ones * 0x20) & ones * 0x7f;
    const uint64_t letters = (low + ones * (0x80 - 'a')) & ~(low + ones * (0x80 - 'z' - 1)) & ~b & ones * 0x80;
    return ((a ^ b) & ~(letters >> 2)) == 0;
}
/* Where `b` is a constant, a few comparisons of words remain. */
WL_INLINE bool wl_eq_case(wl_bytes a, wl_bytes b) {
    if (a.n != b.n) return false;
    if (b.n <= 8) return wl_word_case(wl_word(a.p, b.n), wl_word(b.p, b.n));
    for (uint32_t i = 0; i + 8 < b.n; i += 8) if (!wl_word_case(wl_word(a.p + i, 8), wl_word(b.p + i, 8))) return false;
    return wl_word_case(wl_word(a.p + b.n - 8, 8), wl_word(b.p + b.n - 8, 8));
}
static inline wl_ext wl_trim(const uint8_t *base, wl_ext e, const wl_set *s) {
    while (e.n && wl_in(s, base[e.o])) { e.o++; e.n--; }
    while (e.n && wl_in(s, base[e.o + e.n - 1])) e.n--;
    return e;
}

/* ---- integers ---- */

static inline uint16_t wl_be16(const uint8_t *p) { uint16_t v; memcpy(&v, p, 2); return __builtin_bswap16(v); }
static inline uint32_t wl_be32(const uint8_t *p) { uint32_t v; memcpy(&v, p, 4); return __builtin_bswap32(v); }
static inline uint64_t wl_be64(const uint8_t *p) { uint64_t v; memcpy(&v, p, 8); return __builtin_bswap64(v); }
static inline uint16_t wl_le16(const uint8_t *p) { uint16_t v; memcpy(&v, p, 2); return v; }
static inline uint32_t wl_le32(const uint8_t *p) { uint32_t v; memcpy(&v, p, 4); return v; }
static inline uint64_t wl_le64(const uint8_t *p) { uint64_t v; memcpy(&v, p, 8); return v; }
static inline unsigned __int128 wl_be(const uint8_t *p, unsigned n) {
    unsigned __int128 v = 0;
    for (unsigned i = 0; i < n; i++) v = v << 8 | p[i];
    return v;
}
static inline unsigned __int128 wl_le(const uint8_t *p, unsigned n) {
    unsigned __int128 v = 0;
    for (unsigned i = n; i > 0; i--) v = v << 8 | p[i - 1];
    return v;
}
/* The low `bits` bits as a two's complement number. */
static inline int64_t wl_sext(uint64_t v, unsigned bits) { return (int64_t)(v << (64 - bits)) >> (64 - bits); }
static inline uint64_t wl_add_sat(uint64_t a, uint64_t b, uint64_t max) {
    uint64_t r;
    return __builtin_add_overflow(a, b, &r) || r > max ? max : r;
}
static inline uint64_t wl_sub_sat(uint64_t a, uint64_t b) { return a > b ? a - b : 0; }
static inline int64_t wl_adds_sat(int64_t a, int64_t b, int64_t min, int64_t max) {
    int64_t r;
    if (__builtin_add_overflow(a, b, &r)) return a < 0 ? min : max;
    return r < min ? min : r > max ? max : r;
}
static inline int64_t wl_subs_sat(int64_t a, int64_t b, int64_t min, int64_t max) {
    int64_t r;
    if (__builtin_sub_overflow(a, b, &r)) return a < 0 ? min : max;
    return r < min ? min : r > max ? max : r;
}
/* A guarded divisor is not 0; the test only keeps a broken guard from being undefined behaviour. */
static inline int64_t wl_sdiv(int64_t a, int64_t b) { return b == 0 ? 0 : b == -1 ? (int64_t)(0 - (uint64_t)a) : a / b; }
static inline int64_t wl_srem(int64_t a, int64_t b) { return b == 0 || b == -1 ? 0 : a % b; }
static inline uint64_t wl_udiv(uint64_t a, uint64_t b) { return b ? a / b : 0; }
static inline uint64_t wl_urem(uint64_t a, uint64_t b) { return b ? a % b : 0; }
static inline uint64_t wl_shl(uint64_t a, uint32_t s, uint32_t w) { return s < w ? a << s : 0; }
static inline uint64_t wl_shr(uint64_t a, uint32_t s, uint32_t w) { return s < w ? a >> s : 0; }
static inline int64_t wl_sar(int64_t a, uint32_t s, uint32_t w) { return s < w ? a >> s : 0; }
static inline uint64_t wl_min(uint64_t a, uint64_t b) { return a < b ? a : b; }
static inline uint64_t wl_max(uint64_t a, uint64_t b) { return a > b ? a : b; }
static inline int64_t wl_smin(int64_t a, int64_t b) { return a < b ? a : b; }
static inline unsigned __int128 wl_wmin(unsigned __int128 a, unsigned __int128 b) { return a < b ? a : b; }
static inline unsigned __int128 wl_wmax(unsigned __int128 a, unsigned __int128 b) { return a > b ? a : b; }
static inline int64_t wl_smax(int64_t a, int64_t b) { return a > b ? a : b; }

/* ---- parsers ---- */

/* Zeroes the bytes [from, to) of a view. */
static inline void wl_clear(void *v, size_t from, size_t to) { if (to > from) memset((uint8_t *)v + from, 0, to - from); }
/* Copies the bytes [from, end) of a view and answers how many they are. To NULL it only answers. */
static inline uint64_t wl_copy_part(void *to, const void *v, size_t from, size_t end) {
    if (end <= from) return 0;
    if (to) memcpy((uint8_t *)to + from, (const uint8_t *)v + from, end - from);
    return end - from;
}
/* The offset behind a member of a view. */
#define WL_END(view, member) (offsetof(view, member) + sizeof(((view *)0)->member))

/* Internal: the head is complete. */
#define WL_IN_TAIL 0x80000000u

/* Ways out of NAME_step(). */
#define WAIT(label, at) { v->p.pc = label; fp = at; goto more; }
#define FAIL(kind, at) { fk = kind; fp = at; goto bad; }
/* A part of a unit needs more than the bytes that the unit lies in. */
#define LIMIT() { pos = v->limit_start; FAIL(WL_F_MALFORMED, v->limit_place) }
/* The bytes before `from` are passed on. Those from there up to `pos` have been read, and are
   held. */
#define RETURN(r) { v->p.pos = pos; v->from = from; *used = from - base; return r; }
#define HEAD(label, facts) { v->p.head = from = pos; v->p.flags |= (facts) | WL_IN_TAIL; v->p.pc = label; RETURN(WL_HEAD) }
/* The rest of a run of bytes that needs no look is the runtime's. A streaming message does not
   count its position on. */
#define RUN(label, len, at, stream) { \
    uint64_t rest_ = (len) - (end - pos); \
    v->p.pc = label; \
    *used = end - base; \
    v->p.pos = v->from = stream ? v->p.head : pos + (uint32_t)(len); \
    if (eof) { fk = WL_F_TRUNCATED; fp = at; pos = from = end; goto bad; } \
    v->p.left = rest_; \
    v->p.place = at; \
    return WL_MORE; }
/* A stream may be longer than offsets can count: start again from the head's length. */
#define WL_REBASE { uint32_t d_ = pos - v->p.head; p += d_; pos -= d_; from -= d_; end -= d_; base -= d_; }

/* tail(): takes the available bytes of a run; returns their number. */
static inline uint32_t wl_skip_run(wl_parser *v, uint32_t n) {
    uint32_t k = v->left < n ? (uint32_t)v->left : n;
    v->left -= k;
    return k;
}
/* The connection ended within a run, whose place is noted. */
static inline int wl_cut(wl_parser *v) {
    v->left = 0;
    if (!v->fault) { v->fault = WL_F_TRUNCATED; }
    v->flags &= ~(uint32_t)WL_M_IN_STEP;
    return WL_BAD;
}
/* Of a unit that only occurs inside others: no bytes are a message of it. */
static inline int wl_nested_parse(void *self, uint32_t unit, wl_parser *v, const uint8_t *buf, uint32_t n, int eof) {
    (void)self; (void)unit; (void)buf; (void)n; (void)eof;
    v->fault = WL_F_MALFORMED;
    return WL_BAD;
}
static inline int wl_nested_tail(void *self, uint32_t unit, wl_parser *v, const uint8_t *buf, uint32_t n, int eof, uint32_t *used) {
    *used = 0;
    return wl_nested_parse(self, unit, v, buf, n, eof);
}
/* Whether bytes are exactly one message. */
static inline bool wl_parse_whole(int (*parse)(void *, uint32_t, wl_parser *, const uint8_t *, uint32_t, int),
                                  int (*tail)(void *, uint32_t, wl_parser *, const uint8_t *, uint32_t, int, uint32_t *),
                                  wl_parser *v, wl_bytes b) {
    uint32_t used = 0;
    int r = parse(NULL, 0, v, b.p, b.n, 1);
    if (r == WL_WHOLE) return v->head == b.n;
    if (r != WL_HEAD || v->flags & WL_M_IN_STEP) return false;
    uint32_t at = v->head, omit;
    do {
        omit = v->flags & WL_M_OMIT;
        r = tail(NULL, 0, v, b.p + at, b.n - at, 1, &used);
        at += used;
    } while (r == WL_MORE && (v->flags & WL_M_OMIT) != omit);
    return r == WL_WHOLE && at == b.n;
}

/* Streamed bytes of a message: where they lie, or put together in the scratch. */
typedef struct wl_streamed { const uint8_t *p; uint8_t *to; uint32_t n, all; } wl_streamed;
static inline bool wl_streamed_add(wl_fx *x, wl_streamed *s, const uint8_t *p, uint32_t n) {
    if (!n) return true;
    if (!s->n && !s->to) s->p = p;
    else if (!s->to && s->p + s->n != p) {
        s->to = wl_tmp(x, s->all);
        if (!s->to) return false;
        memcpy(s->to, s->p, s->n);
        s->p = s->to;
    }
    if (s->to) memcpy(s->to + s->n, p, n);
    s->n += n;
    return true;
}
/* Reads a message that the program has kept: the first one in these bytes. Framing is given to the
 * parser one byte more at a time, so that it tells where streamed bytes begin. */
static inline bool wl_parse_kept(wl_fx *x, int (*parse)(void *, uint32_t, wl_parser *, const uint8_t *, uint32_t, int),
                                 int (*tail)(void *, uint32_t, wl_parser *, const uint8_t *, uint32_t, int, uint32_t *),
                                 wl_parser *v, wl_bytes b, wl_msg *m) {
    wl_streamed s = {b.p, NULL, 0, b.n};
    int r = parse(NULL, 0, v, b.p, b.n, 1);
    uint32_t at = v->head, seen = 0, used = 0;
    *m = (wl_msg){v, b.p, v->head, WL_S_OK, {NULL, 0, 0}, 0, 0};
    if (r != WL_WHOLE && (r != WL_HEAD || v->flags & WL_M_IN_STEP)) return false;
    s.p = b.p + at;
    while (r != WL_WHOLE) {
        if (v->left) {
            uint32_t k = v->left < b.n - at ? (uint32_t)v->left : b.n - at;
            if (!wl_streamed_add(x, &s, b.p + at, k)) return false;
            v->left -= k;
            at += k;
            seen = 0;
            if (v->left) return false;
        }
        const bool endless = v->flags & WL_M_UNTIL_EOF;
        uint32_t all = b.n - at, n = endless || seen > all ? all : seen;
        r = tail(NULL, 0, v, b.p + at, n, n == all, &used);
        if (endless && !wl_streamed_add(x, &s, b.p + at, used)) return false;
        at += used;
        if (r == WL_BAD || v->flags & WL_M_OMIT || (r != WL_WHOLE && !v->left && n == all)) return false;
        seen = v->left ? 0 : n - used + 1;
    }
    m->whole = at;
    m->body = wl_b(s.p, s.n);
    return true;
}

/* Whether bytes are the head of a message and `tail` bytes behind it. */
static inline bool wl_parse_head(int (*parse)(void *, uint32_t, wl_parser *, const uint8_t *, uint32_t, int), wl_parser *v, wl_bytes b,
                                 uint32_t tail) {
    int r = parse(NULL, 0, v, b.p, b.n, 1);
    return (r == WL_WHOLE || (r == WL_HEAD && !(v->flags & WL_M_IN_STEP))) && v->head + tail == b.n;
}

/* Whether a message that was built begins with a head. Behind it is its tail. */
static inline bool wl_parse_built(int (*parse)(void *, uint32_t, wl_parser *, const uint8_t *, uint32_t, int), wl_parser *v, wl_bytes b) {
    int r = parse(NULL, 0, v, b.p, b.n, 1);
    return r == WL_WHOLE || (r == WL_HEAD && !(v->flags & WL_M_IN_STEP));
}

/* ---- numbers as text ---- */

typedef struct wl_num { uint64_t v; uint32_t digits; bool over; } wl_num;

/* Up to `max` digits at p. */
static inline wl_num wl_digits10(const uint8_t *p, uint32_t n, uint32_t max) {
    wl_num r = {0, 0, false};
    if (n > max) n = max;
    while (r.digits < n && (uint8_t)(p[r.digits] - '0') < 10) {
        uint64_t d = (uint64_t)(p[r.digits] - '0');
        if (r.digits >= 19 && (r.v > UINT64_MAX / 10 || r.v * 10 > UINT64_MAX - d)) r.over = true;
        r.v = r.v * 10 + d;
        r.digits++;
    }
    return r;
}
static inline int wl_hex1(uint8_t c) {
    if ((uint8_t)(c - '0') < 10) return c - '0';
    c |= 32;
    return (uint8_t)(c - 'a') < 6 ? c - 'a' + 10 : -1;
}
static inline wl_num wl_digits16(const uint8_t *p, uint32_t n, uint32_t max) {
    wl_num r = {0, 0, false};
    if (n > max) n = max;
    for (int d; r.digits < n && (d = wl_hex1(p[r.digits])) >= 0; r.digits++) {
        if (r.v >> 60) r.over = true;
        r.v = r.v << 4 | (uint64_t)d;
    }
    return r;
}
/* Any radix from 2 to 16. */
static inline wl_num wl_digits(const uint8_t *p, uint32_t n, uint32_t max, unsigned radix) {
    wl_num r = {0, 0, false};
    if (n > max) n = max;
    for (int d; r.digits < n && (d = wl_hex1(p[r.digits])) >= 0 && (unsigned)d < radix; r.digits++) {
        if (__builtin_mul_overflow(r.v, (uint64_t)radix, &r.v) || __builtin_add_overflow(r.v, (uint64_t)d, &r.v)) r.over = true;
    }
    return r;
}
/* Writes v at the end of b; answers the number of digits. */
static inline uint32_t wl_digits_of(uint8_t b[64], uint64_t v, unsigned radix) {
    uint32_t n = 0;
    if (radix == 10) {
        /* Two at a time: the divisions wait for each other. */
        static const char pairs[] = "00010203040506070809101112131415161718192021222324252627282930313233343536373839404142434445464748495051525354555657585960616263646566676869707172737475767778798081828384858687888990919293949596979899";
        for (; v >= 100; v /= 100, n += 2) memcpy(b + 62 - n, pairs + 2 * (v % 100), 2);
        if (v >= 10) { memcpy(b + 62 - n, pairs + 2 * v, 2); return n + 2; }
        b[63 - n] = (uint8_t)('0' + v);
        return n + 1;
    }
    do { b[63 - n++] = (uint8_t)"0123456789abcdef"[v % radix]; v /= radix; } while (v);
    return n;
}

/* ---- building messages ---- */

/* Room for n bytes in core->out, or NULL and a fault. */
static inline uint8_t *wl_room(wl_fx *x, uint32_t n) {
    wl_out *o = &x->core->out;
    if (WL_UNLIKELY(!o->p || (size_t)(o->end - o->p) < n)) {
        if (!x->core->host->grow(x->core, n) || (size_t)(o->end - o->p) < n) { wl_fail(x, WL_F_OVERLOAD, 0); return NULL; }
    }
    uint8_t *d = o->p;
    o->p += n;
    return d;
}
/* Where room was made for several: adds one, answers where the next goes. */
WL_INLINE uint8_t *wl_add(uint8_t *d, wl_bytes b) {
    if (__builtin_constant_p(b.n)) memcpy(d, b.p, b.n); else wl_copy_few(d, b.p, b.n);
    return d + b.n;
}
static inline void wl_put(wl_fx *x, wl_bytes b) {
    if (!b.n) return;
    uint8_t *d = wl_room(x, b.n);
    if (WL_LIKELY(d != NULL)) wl_add(d, b);
}
static inline void wl_put_uint(wl_fx *x, unsigned __int128 v, unsigned n, bool big) {
    uint8_t *d = wl_room(x, n);
    if (WL_UNLIKELY(!d)) return;
    for (unsigned i = 0; i < n; i++) d[big ? n - 1 - i : i] = (uint8_t)(v >> (8 * i));
}
/* Where there is room. */
static inline __attribute__((always_inline)) void wl_put_at(uint8_t *d, unsigned __int128 v, const unsigned n, const bool big) {
    if (n == 2) { uint16_t w = big ? __builtin_bswap16((uint16_t)v) : (uint16_t)v; memcpy(d, &w, 2); }
    else if (n == 4) { uint32_t w = big ? __builtin_bswap32((uint32_t)v) : (uint32_t)v; memcpy(d, &w, 4); }
    else if (n == 8) { uint64_t w = big ? __builtin_bswap64((uint64_t)v) : (uint64_t)v; memcpy(d, &w, 8); }
    else for (unsigned i = 0; i < n; i++) d[big ? n - 1 - i : i] = (uint8_t)(v >> (8 * i));
}
static inline void wl_put_number(wl_fx *x, uint64_t v, unsigned radix, unsigned width) {
    uint8_t b[64];
    uint32_t n = wl_digits_of(b, v, radix);
    while (n < width && n < 64) b[63 - n++] = '0';
    wl_put(x, wl_b(b + 64 - n, n));
}
static inline void wl_put_u8(wl_fx *x, uint8_t v) {
    uint8_t *d = wl_room(x, 1);
    if (WL_LIKELY(d != NULL)) *d = v;
}
static inline void wl_put_signed(wl_fx *x, int64_t v, unsigned radix, unsigned width) {
    if (v < 0) wl_put_u8(x, '-');
    wl_put_number(x, v < 0 ? 0 - (uint64_t)v : (uint64_t)v, radix, width);
}
static inline void wl_put_varint(wl_fx *x, uint64_t v) {
    uint8_t b[10];
    uint32_t n = 0;
    do { b[n] = (uint8_t)((v & 127) | (v > 127 ? 128 : 0)); n++; v >>= 7; } while (v);
    wl_put(x, wl_b(b, n));
}
static inline void wl_begin(wl_fx *x) { x->core->out.p = x->core->out.start; }
static inline wl_bytes wl_built(wl_fx *x) {
    return wl_b(x->core->out.start, (uint32_t)(x->core->out.p - x->core->out.start));
}

/* ---- the connection, ports, chance ---- */

/* Bytes of a message that are at its base: its parsed part. */
static inline uint32_t wl_held(wl_msg m) {
    if (m.whole) return m.whole;
    return m.view && m.view->pos > m.head ? m.view->pos : m.head;
}
/* Whether only the end of the connection ends it. */
static inline bool wl_until_end(wl_msg m) { return m.view && m.view->flags & (WL_M_UNTIL_EOF | WL_M_ENDS); }


static inline wl_endpoint wl_peer(wl_fx *x) { return x->conn ? x->conn->peer : (wl_endpoint){0}; }
static inline wl_endpoint wl_local(wl_fx *x) { return x->conn ? x->conn->local : (wl_endpoint){0}; }
static inline uint64_t wl_random(wl_fx *x, uint64_t below) {
    uint64_t s = x->core->seed + UINT64_C(0x9e3779b97f4a7c15);
    x->core->seed = s;
    s = (s ^ s >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    s = (s ^ s >> 27) * UINT64_C(0x94d049bb133111eb);
    return (uint64_t)((unsigned __int128)(s ^ s >> 31) * below >> 64);
}
static inline wl_msg wl_part(const wl_task *t, uint64_t i) {
    if (i < t->parts) return t->part[i];
    return (wl_msg){.status = WL_F_LOST};
}
/* The first point of a ring at or after a hash, around it. The ring has points. */
static inline uint32_t wl_point_at(const uint32_t *ring, uint32_t n, uint32_t h) {
    uint32_t lo = 0, hi = n;
    while (lo < hi) {
        uint32_t mid = lo + (hi - lo) / 2;
        if (ring[2 * mid] < h) lo = mid + 1; else hi = mid;
    }
    return lo == n ? 0 : lo;
}
/* Instance by ketama. */
static inline uint32_t wl_ketama(wl_core *core, uint32_t port, uint32_t h) {
    const wl_port *p = &core->port[port];
    if (!p->ring_n) return 0;
    uint32_t at = wl_point_at(p->ring, p->ring_n, h);
    core->place = (uint64_t)port << 48 | WL_P_RING | at;
    return p->ring[2 * at + 1];
}
/* Instance by libmemcached's ring without weights. */
static inline uint32_t wl_consistent(wl_core *core, uint32_t port, uint32_t h) {
    const wl_port *p = &core->port[port];
    if (!p->points_n) return 0;
    uint32_t at = wl_point_at(p->points, p->points_n, h);
    core->place = (uint64_t)port << 48 | WL_P_POINTS | at;
    return p->points[2 * at + 1];
}
/* Instance by the remainder of a hash; its slots lie behind the ring. */
static inline uint32_t wl_modula(const wl_port *p, uint32_t h) {
    const uint32_t *slots = p->ring ? p->ring + 2 * (size_t)p->ring_n : NULL;
    return slots && *slots ? slots[1 + h % *slots] : 0;
}
static inline uint32_t wl_maglev(wl_core *core, uint32_t port, uint64_t h) {
    const wl_port *p = &core->port[port];
    if (!p->maglev_n) return 0;
    core->place = (uint64_t)port << 48 | WL_P_MAGLEV | h % p->maglev_n;
    return p->maglev[h % p->maglev_n];
}
#endif
