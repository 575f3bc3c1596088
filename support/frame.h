/* frame.h: acts of generated programs on whole frames: places of headers, checksums, insertion and
 * removal.
 *
 * The generated file defines WL_LAYERS (most headers of one frame) and WL_SLOTS (the number of
 * kept places behind fields of variable size), then includes this. A wl_view has the places of the
 * current frame's headers, and the generated `NAME_parse` fills it. All functions here are inlined
 * into it or into handlers, so that a view whose address does not escape lives in registers. */
#ifndef WL_FRAME_H
#define WL_FRAME_H
#include "base.h"
#include "checksum.h"

typedef struct wl_view {
    wl_frame *f;
    uint8_t *p;                  /* first byte: that of f, but that stores to frames and tables cannot touch it here */
    uint32_t n;                  /* bytes of the frame, those of f */
    uint32_t end;                /* where the payload ends: what follows is padding */
    uint32_t top;                /* where the last header that is there ends */
    uint64_t has;                /* bit per header */
    /* A header's first byte, and the one behind it. At a line's beginning: places of common frames
     * are stored in one go, which takes long across two lines, and longer across two pages. */
    _Alignas(64) uint16_t at[WL_LAYERS], to[WL_LAYERS];
    uint16_t lim[WL_LAYERS];     /* where its payload ends */
    uint8_t net[WL_LAYERS];      /* the network header around it */
    uint16_t slot[WL_SLOTS];     /* offsets and lengths of fields behind ones of variable size */
} wl_view;

/* A view of a frame that has been opened before. */
static inline __attribute__((always_inline)) void wl_view_again(wl_view *v, wl_frame *f, uint64_t has) {
    v->f = f;
    v->p = f->p;
    v->n = f->n;
    v->end = f->n > 65535 ? 65535 : f->n;
    v->top = 0;
    v->has = has;
}
/* A view of a frame whose headers are not looked for. */
WL_INLINE void wl_view_unseen(wl_fx *x, wl_view *v, wl_frame *f) { (void)x; wl_view_again(v, f, 0); }

/* ---- entries of queues: the layout is that of `Entry` in crates/ir/src/layout.rs ---- */

/* That of a frame of the batch at hand, and that of a copy; `all`: bytes of the largest one. */
#define WL_ENTRY(x, frame, all) ((x)->core->entries + (size_t)((frame) - (x)->core->frames) * (all))
#define WL_ENTRY_OF_COPY(x, all) ((x)->core->entries - (all))
#define WL_ENTRY_VALUES(name, type) \
    WL_INLINE void wl_entry_##name(uint8_t *entry, uint32_t at, type v) { memcpy(entry + at, &v, sizeof v); } \
    WL_INLINE type wl_entry_get_##name(const uint8_t *entry, uint32_t at) { type v; memcpy(&v, entry + at, sizeof v); return v; }
WL_ENTRY_VALUES(u8, uint8_t)
WL_ENTRY_VALUES(u16, uint16_t)
WL_ENTRY_VALUES(u32, uint32_t)
WL_ENTRY_VALUES(u64, uint64_t)
WL_ENTRY_VALUES(ip, wl_ip)
/* Of a frame of n bytes as many are needed. */
WL_INLINE uint32_t wl_there(uint32_t n, uint32_t needed) { return needed < n ? needed : n; }

/* The headers that are there, i being the layer, first to last. */
#define WL_EACH(v, i) for (uint64_t has_ = (v)->has, i; has_ && (i = (uint64_t)__builtin_ctzll(has_), 1); has_ &= has_ - 1)

#define WL_HAS(v, layer) (((v)->has >> (layer) & 1) != 0)

/* ---- bytes that a capture has cut off ---- */

static inline uint64_t wl_get_be(const uint8_t *p, unsigned n) { uint64_t v = 0; for (unsigned i = 0; i < n; i++) v = v << 8 | p[i]; return v; }
WL_INLINE void wl_set_be(uint8_t *p, unsigned n, uint64_t v) { for (unsigned i = n; i-- > 0; v >>= 8) p[i] = (uint8_t)v; }

/* Bytes of the wire behind `end`, which count as the payload of the headers that begin before
   `until`. It ends where the lengths of these headers say, or with the frame. */
static __attribute__((cold, noinline)) uint32_t wl_missing_of(const wl_view *v, const wl_header *h, uint32_t until, uint32_t end) {
    uint64_t last = v->f->wire;
    WL_EACH(v, i) {
        if (h[i].covers < 0 || v->at[i] >= until) continue;
        const uint64_t said = wl_get_be(v->p + v->at[i] + h[i].covers, h[i].covers_bytes);
        const uint64_t to = said + (h[i].covers_own ? v->at[i] : v->to[i]);
        if ((said || !h[i].covers_own) && to < last) last = to;
    }
    return end < v->n || last <= end ? 0 : (uint32_t)(last - end);
}
WL_INLINE uint32_t wl_missing(const wl_view *v, const wl_header *h, uint32_t until, uint32_t end) {
    return WL_LIKELY(v->f->wire <= v->f->n) ? 0 : wl_missing_of(v, h, until, end);
}
WL_INLINE uint32_t wl_layer_missing(const wl_view *v, const wl_header *h, unsigned layer) { return wl_missing(v, h, v->at[layer] + 1u, v->lim[layer]); }

/* ---- a view's checksums ---- */

/* The network header before a layer; none: there was none, or it was taken out. */
WL_INLINE bool wl_net_there(const wl_view *v, unsigned layer) { return v->net[layer] < WL_LAYERS && WL_HAS(v, v->net[layer]); }
WL_INLINE const uint8_t *wl_net_at(const wl_view *v, unsigned layer) { return wl_net_there(v, layer) ? v->p + v->at[v->net[layer]] : NULL; }
WL_INLINE const wl_header *wl_net_of(const wl_view *v, const wl_header *h, unsigned layer) { return wl_net_there(v, layer) ? &h[v->net[layer]] : NULL; }

/* Whether a layer has its checksum, as its flag says. */
WL_INLINE bool wl_layer_summed(const wl_view *v, const wl_header *h, unsigned layer) {
    return wl_sum_there(&h[layer], v->p + v->at[layer], (uint32_t)(v->to[layer] - v->at[layer]));
}

static inline bool wl_view_sum_ok(const wl_view *v, const wl_header *h, unsigned layer) {
    const wl_header *own = &h[layer];
    const uint8_t *p = v->p + v->at[layer];
    if (!wl_layer_summed(v, h, layer)) return true;
    if (own->optional && p[own->sum] == 0 && p[own->sum + 1] == 0) return true;
    return wl_fold(wl_covered(own, p, (uint32_t)(v->to[layer] - v->at[layer]), (uint32_t)(v->lim[layer] - v->at[layer]), wl_net_at(v, layer), wl_net_of(v, h, layer))) == 0xffff;
}
/* Computes it anew, an optional one that is absent included. That over bytes which a capture has
   cut off is not known: an optional one is absent then, another one stays. */
static inline void wl_view_sum(wl_view *v, const wl_header *h, unsigned layer) {
    if (!wl_layer_summed(v, h, layer)) return;
    if (h[layer].over >= WL_OVER_MESSAGE && WL_UNLIKELY(wl_layer_missing(v, h, layer))) {
        uint8_t *at = v->p + v->at[layer] + h[layer].sum;
        if (h[layer].optional) at[0] = at[1] = 0;
        return;
    }
    wl_sum_set(&h[layer], v->p + v->at[layer], (uint32_t)(v->to[layer] - v->at[layer]), (uint32_t)(v->lim[layer] - v->at[layer]), wl_net_at(v, layer), wl_net_of(v, h, layer));
}
/* The payload of a header has changed: its checksum follows, if it covers that. */
WL_INLINE void wl_layer_resum(wl_view *v, const wl_header *h, const unsigned layer) {
    const uint8_t *p = v->p + v->at[layer];
    if (h[layer].over < WL_OVER_MESSAGE || (h[layer].optional && p[h[layer].sum] == 0 && p[h[layer].sum + 1] == 0)) return;
    wl_view_sum(v, h, layer);
}
/* After a change at `pos`: the first `layers` headers whose checksum covers that byte. The header
   that was changed has a checksum of its own, which a wrong one stays. */
static inline void wl_view_resum(wl_view *v, const wl_header *h, unsigned layers, uint32_t pos) {
    for (uint64_t left = layers < 64 ? v->has & ((UINT64_C(1) << layers) - 1) : v->has; left;) {
        const unsigned i = 63u - (unsigned)__builtin_clzll(left);
        left ^= UINT64_C(1) << i;
        if (pos >= v->at[i] && pos <= v->lim[i]) wl_layer_resum(v, h, i);
    }
}

/* ---- lengths ---- */

/* A length that is `by` more than it was. It stays within its field. */
WL_INLINE uint64_t wl_length_of(const wl_header *h, uint64_t was, int64_t by) {
    const uint64_t most = h->covers_bytes < 8 ? (UINT64_C(1) << (8 * h->covers_bytes)) - 1 : UINT64_MAX;
    if (by < 0) return was > 0 - (uint64_t)by ? was + (uint64_t)by : 0;
    return was > most - (uint64_t)by ? most : was + (uint64_t)by;
}
/* The payload of a view's layer has grown by some bytes: its length follows, whatever it counts,
   then its own checksum. A length that was not given is that of what is there. */
WL_INLINE void wl_covers_grown(const wl_view *v, const wl_header *h, unsigned layer, int64_t by) {
    const wl_header *own = &h[layer];
    uint8_t *p = v->p + v->at[layer];
    const uint32_t size = (uint32_t)(v->to[layer] - v->at[layer]);
    uint64_t was = own->over == WL_OVER_HEADER ? wl_sum(p, size, 0) : 0;
    uint64_t length = wl_get_be(p + own->covers, own->covers_bytes);
    if (own->covers_own && WL_UNLIKELY(!length)) {
        length = (uint32_t)(v->lim[layer] - v->at[layer]);
        by = wl_layer_missing(v, h, layer);
    }
    wl_set_be(p + own->covers, own->covers_bytes, wl_length_of(own, length, by));
    if (own->over == WL_OVER_HEADER) wl_sum_fix(p + own->sum, was, wl_sum(p, size, 0), false);
}

/* The payload or headers from `pos` on grew by `by` bytes: lengths around it follow, outer ones
   first, then checksums, inner ones first. */
static inline void wl_view_grown(wl_view *v, const wl_header *h, unsigned layers, uint32_t pos, int64_t by) {
    WL_EACH(v, i)
        if (h[i].covers >= 0 && v->at[i] < pos && pos <= v->lim[i])
            wl_covers_grown(v, h, (unsigned)i, by);
    wl_view_resum(v, h, layers, pos ? pos - 1 : 0);
}

/* ---- room ---- */

/* Moves the bytes of some headers, mostly those of Ethernet. */
WL_INLINE void wl_move_head(uint8_t *to, const uint8_t *from, uint32_t n) {
    if (WL_LIKELY(n == 14)) {
        uint64_t a, b;
        memcpy(&a, from, 8); memcpy(&b, from + 6, 8);
        memcpy(to, &a, 8); memcpy(to + 6, &b, 8);
    } else {
        memmove(to, from, n);
    }
}
static inline void wl_view_commit(wl_view *v) {
    wl_frame *f = v->f;
    /* tail counts from the old end. */
    uint8_t *limit = f->p + f->n + f->tail, *first = f->p - f->head;
    f->p = v->p;
    f->wire += v->n - f->n;
    f->n = v->n;
    f->head = (uint32_t)(v->p - first);
    f->tail = (uint32_t)(limit - (v->p + v->n));
}
/* The frame has grown by `by` bytes at pos; of its headers nothing is said. */
WL_INLINE void wl_view_longer(wl_view *v, uint32_t pos, int32_t by) {
    if (v->top >= pos) v->top = (uint32_t)((int32_t)v->top + by);
    v->end = (uint32_t)((int32_t)v->end + by);
    v->n = (uint32_t)((int32_t)v->n + by);
}
static inline void wl_view_shift(wl_view *v, const uint8_t *slot_layer, unsigned slots, uint32_t pos, int32_t by) {
    WL_EACH(v, i) {
        if (v->at[i] >= pos) { v->at[i] = (uint16_t)(v->at[i] + by); v->to[i] = (uint16_t)(v->to[i] + by); }
        if (v->lim[i] >= pos) v->lim[i] = (uint16_t)(v->lim[i] + by);
    }
    /* Even slots are offsets, odd ones lengths. */
    for (unsigned i = 0; i < slots; i += 2) if (v->slot[i] >= pos && WL_HAS(v, slot_layer[i / 2])) v->slot[i] = (uint16_t)(v->slot[i] + by);
    wl_view_longer(v, pos, by);
}
/* Opens a gap of n bytes at pos of a frame, whichever of its rooms that takes; false: there is
   none. */
static __attribute__((noinline)) bool wl_frame_gap(wl_frame *f, uint32_t pos, uint32_t n) {
    const uint32_t head = f->head, tail = f->tail, behind = f->n - pos;
    if ((uint64_t)f->n + n > 65535 || (uint64_t)head + tail < n) return false;
    /* One of the rooms, if it is enough; the one in front first. */
    const uint32_t front = head >= n ? n : tail >= n ? 0 : head;
    uint8_t *p = f->p;
    if (front < n) memmove(p + pos + n - front, p + pos, behind);
    if (front) memmove(p - front, p, pos);
    f->p = p - front;
    f->n += n;
    f->wire += n;
    f->head = head - front;
    f->tail = tail - (n - front);
    return true;
}
/* The same for the frame of a view. Where its headers are is not noted. */
WL_INLINE bool wl_view_gap(wl_view *v, uint32_t pos, uint32_t n) {
    wl_frame *f = v->f;
    /* Most often an Ethernet header moves into the room in front, and the bytes behind it in 16
       bytes is in the gap. */
    if (WL_LIKELY(pos <= 16 && pos + n >= 16 && f->head >= n && v->n >= 16 && v->n <= 65535 && v->n + n <= 65535)) {
        uint64_t w[2];
        memcpy(w, v->p, 16);
        v->p -= n;
        memcpy(v->p, w, 16);
        f->p = v->p;
        f->n = v->n + n;
        f->wire += n;
        f->head -= n;
        return true;
    }
    if (!wl_frame_gap(f, pos, n)) return false;
    v->p = f->p;
    return true;
}
static inline bool wl_view_open(wl_view *v, const uint8_t *slot_layer, unsigned slots, uint32_t pos, uint32_t n) {
    if (!wl_view_gap(v, pos, n)) return false;
    wl_view_shift(v, slot_layer, slots, pos, (int32_t)n);
    return true;
}
/* Takes n bytes at pos out. */
static inline void wl_view_close(wl_view *v, const uint8_t *slot_layer, unsigned slots, uint32_t pos, uint32_t n) {
    memmove(v->p + n, v->p, pos);
    v->p += n;
    wl_view_shift(v, slot_layer, slots, pos, -(int32_t)n);
    wl_view_commit(v);
}

/* ---- new headers ---- */

typedef struct wl_piece { uint32_t at; const wl_header *h; } wl_piece;

/* Fills in lengths and checksums of parts that lie at base + part[i].at. Each part ends where the
 * next begins, the last at `last`. The payload of all parts ends at `end`; so many bytes of it are
 * `missing`. `net`: the network header before them, if any. */
WL_INLINE void wl_parts_done(uint32_t missing, uint8_t *base, const wl_piece *part, unsigned n, uint32_t last, uint32_t end, const uint8_t *net, const wl_header *nh) {
    for (unsigned i = 0; i < n; i++) {
        uint32_t next = i + 1 < n ? part[i + 1].at : last;
        const wl_header *h = part[i].h;
        if (h && h->covers >= 0) wl_set_be(base + part[i].at + h->covers, h->covers_bytes, wl_length_of(h, end - (h->covers_own ? part[i].at : next), missing));
    }
    for (unsigned i = n; i-- > 0;) {
        const wl_header *h = part[i].h;
        if (!h || h->sum < 0) continue;
        if (!wl_sum_there(h, base + part[i].at, (i + 1 < n ? part[i + 1].at : last) - part[i].at)) continue;
        if (WL_UNLIKELY(missing) && h->over >= WL_OVER_MESSAGE) { wl_set_be(base + part[i].at + h->sum, 2, 0); continue; }
        uint32_t next = i + 1 < n ? part[i + 1].at : last;
        const uint8_t *my_net = net;
        const wl_header *my_nh = nh;
        for (unsigned j = i; j-- > 0;) if (part[j].h && part[j].h->src >= 0) { my_net = base + part[j].at; my_nh = part[j].h; break; }
        wl_sum_set(h, base + part[i].at, next - part[i].at, end - part[i].at, my_net, my_nh);
    }
}
/* Puts built bytes into the frame at pos. The payload of the new headers ends at `around`, as that
   of the headers that begin before `until`. */
static inline bool wl_view_insert(wl_view *v, const wl_header *h, unsigned layers, const uint8_t *slot_layer, unsigned slots, uint32_t pos, uint32_t until, uint32_t around, wl_bytes built, wl_piece *part, unsigned parts) {
    const uint32_t missing = wl_missing(v, h, until, around);
    if (!wl_view_open(v, slot_layer, slots, pos, built.n)) return false;
    memcpy(v->p + pos, built.p, built.n);
    const uint8_t *net = NULL;
    const wl_header *nh = NULL;
    WL_EACH(v, i) if (h[i].src >= 0 && v->to[i] <= pos) { net = v->p + v->at[i]; nh = &h[i]; }
    wl_parts_done(missing, v->p + pos, part, parts, built.n, around + built.n - pos, net, nh);
    wl_view_grown(v, h, layers, pos, built.n);
    return true;
}
/* Puts in headers of fixed size that are complete but for their lengths and checksums, which cover
 * no more than themselves. Only the frame's own sizes are not constants
 * where it is inlined. The functions below update the other headers, one by one. */
WL_INLINE bool wl_view_put(wl_view *v, const wl_header *h, const uint32_t pos, uint32_t until, uint32_t around, uint8_t *built, const uint32_t n, const wl_piece *part, const unsigned parts) {
    wl_parts_done(wl_missing(v, h, until, around), built, part, parts, n, around + n - pos, NULL, NULL);
    if (WL_UNLIKELY(!wl_view_gap(v, pos, n))) return false;
    memcpy(v->p + pos, built, n);
    wl_view_longer(v, pos, (int32_t)n);
    return true;
}
/* A header lies n bytes further behind than before. */
WL_INLINE void wl_layer_moved(wl_view *v, const unsigned layer, const uint32_t n) {
    v->at[layer] = (uint16_t)(v->at[layer] + n);
    v->to[layer] = (uint16_t)(v->to[layer] + n);
    v->lim[layer] = (uint16_t)(v->lim[layer] + n);
}
/* The payload of a header has grown by n bytes: its length follows. */
WL_INLINE void wl_layer_grown(wl_view *v, const wl_header *h, const unsigned layer, const uint32_t n) {
    v->lim[layer] = (uint16_t)(v->lim[layer] + n);
    if (h[layer].covers >= 0) wl_covers_grown(v, h, layer, n);
}
/* ---- payloads ---- */

/* Whether bytes lie in the payload from `pos` to `end`; whether they touch no part of the frame and
   its rooms. */
WL_INLINE bool wl_view_holds(const wl_view *v, uint32_t pos, uint32_t end, wl_bytes b) {
    uintptr_t at = (uintptr_t)b.p, from = (uintptr_t)(v->p + pos);
    return b.n && at >= from && at - from <= end - pos && b.n <= end - pos - (at - from);
}
WL_INLINE bool wl_view_free(const wl_view *v, wl_bytes b) {
    const wl_frame *f = v->f;
    uintptr_t at = (uintptr_t)b.p, from = (uintptr_t)(f->p - f->head), to = (uintptr_t)(f->p + f->n + f->tail);
    return !b.n || at >= to || at + b.n <= from;
}
/* Lays out a new payload behind `pos`, where the old one ends at `end`: `before` bytes, the core,
 * `after` bytes. The core lies in the old payload and stays where it is if there is room, the
 * headers move up to it. Answers where the core is now; NULL: no room. `grown`: by how much the
 * lengths around it grow, which count the bytes of the old one that a capture has cut off. */
static inline uint8_t *wl_view_lay(wl_view *v, const wl_header *h, unsigned layers, int64_t *grown, uint32_t pos, uint32_t end, const uint8_t *core, uint32_t core_n, uint32_t before, uint32_t after) {
    const wl_frame *f = v->f;
    const int64_t size = (int64_t)before + core_n + after, by = size - (int64_t)(end - pos), n = (int64_t)v->n + by;
    if (by > (int64_t)f->head + f->tail || n > 65535) return NULL;
    const uint32_t missing = wl_missing(v, h, pos, end);
    *grown = by - missing;
    uint8_t *first = f->p - f->head;
    const uint8_t *head = v->p, *rest = v->p + end;
    const uint32_t behind = v->n - end;
    const int64_t room = (int64_t)f->head + f->n + f->tail, lead = (int64_t)pos + before;
    int64_t start = (core - first) - lead;
    if (start > room - n) start = room - n;
    if (start < 0) start = 0;
    uint8_t *p = first + start, *at = p + lead;
    if (at <= core) {
        if (p != head) wl_move_head(p, head, pos);
        if (at != core) memmove(at, core, core_n);
        if (behind) memmove(p + n - behind, rest, behind);
    } else {
        if (behind) memmove(p + n - behind, rest, behind);
        memmove(at, core, core_n);
        memmove(p, head, pos);
    }
    v->p = p;
    v->n = (uint32_t)n;
    for (unsigned i = 0; i < layers; i++) {
        if (v->lim[i] >= end) v->lim[i] = (uint16_t)(v->lim[i] + by);
        if (v->at[i] >= pos) v->has &= ~(UINT64_C(1) << i);
    }
    v->end = (uint32_t)(pos + size);
    if (v->top > pos) v->top = pos;
    wl_view_commit(v);
    v->f->wire -= missing;
    return at;
}
/* Replaces the payload behind `pos`, which ends at `end`, by bytes from elsewhere, one behind the
   other. */
static inline bool wl_view_fill(wl_view *v, const wl_header *h, unsigned layers, uint32_t pos, uint32_t end, wl_bytes a, wl_bytes b, wl_bytes c) {
    if ((uint64_t)a.n + b.n + c.n > 65535) return false;
    int64_t grown;
    uint8_t *at = wl_view_lay(v, h, layers, &grown, pos, end, v->p + pos, 0, 0, a.n + b.n + c.n);
    if (!at) return false;
    wl_copy_few(at, a.p, a.n);
    wl_copy_few(at + a.n, b.p, b.n);
    wl_copy_few(at + a.n + b.n, c.p, c.n);
    wl_view_grown(v, h, layers, pos, grown);
    return true;
}
static inline bool wl_view_payload(wl_view *v, const wl_header *h, unsigned layers, uint32_t pos, uint32_t end, wl_bytes to) {
    return wl_view_fill(v, h, layers, pos, end, wl_b(NULL, 0), to, wl_b(NULL, 0));
}

/* ---- functions in C ---- */

/* Bytes that a frame may have where it lies. */
WL_INLINE uint32_t wl_view_room(const wl_view *v) {
    const uint64_t room = (uint64_t)v->n + v->f->tail;
    return v->n > 65535 ? v->n : room > 65535 ? 65535 : (uint32_t)room;
}
/* The frame has another length behind a function in C; false: it has no room for that, or none is
   left. */
WL_INLINE bool wl_view_resized(wl_view *v, uint32_t n, uint32_t room) {
    if (!n || n > room) return false;
    v->n = n;
    wl_view_commit(v);
    return true;
}

/* ---- leaving ---- */

/* A frame as it was before an element that has it for itself. */
typedef struct wl_saved { wl_view v; uint8_t *p; uint32_t n, wire, head, tail; uint8_t bytes[1 << 17]; } wl_saved;
static inline bool wl_view_save(const wl_view *v, wl_saved *s) {
    if (v->n > sizeof s->bytes) return false;
    s->v = *v;
    s->p = v->f->p; s->n = v->f->n; s->wire = v->f->wire; s->head = v->f->head; s->tail = v->f->tail;
    memcpy(s->bytes, v->p, v->n);
    return true;
}
static inline void wl_view_restore(wl_view *v, const wl_saved *s) {
    *v = s->v;
    v->f->p = s->p; v->f->n = s->n; v->f->wire = s->wire; v->f->head = s->head; v->f->tail = s->tail;
    memcpy(v->p, s->bytes, v->n);
}

/* The frame leaves as it is. */
WL_INLINE void wl_view_pass(wl_view *v, uint32_t port, uint32_t instance) { v->f->out = port << 16 | (instance & 0xffff); }
/* The frame is to wait in a queue. Its input port is not needed any more: its mark stands
   there. */
WL_INLINE void wl_view_wait(wl_view *v, uint32_t port, uint32_t instance, uint32_t mark) {
    wl_view_pass(v, port, instance);
    v->f->port = (uint16_t)mark;
    v->f->instance = (uint16_t)(mark >> 16);
}
WL_INLINE void wl_view_pass_if(wl_view *v, bool leaves, uint32_t port, uint32_t instance) {
    const uint64_t all = 0 - wl_whole(leaves);
    v->f->out = (v->f->out & (uint32_t)~all) | ((port << 16 | (instance & 0xffff)) & (uint32_t)all);
}
#endif
