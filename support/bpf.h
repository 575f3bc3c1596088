/* bpf.h: what generated programs for the kernel's XDP hook use. It takes the place of base.h,
 * builtin.h and frame.h there.
 *
 * No header of the system is needed: the few types and numbers of the kernel's interface
 * (include/uapi/linux/bpf.h) stand here. `x` is the activation in all code that includes this. */
#ifndef WL_BPF_H
#define WL_BPF_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ---- the kernel's interface ---- */

struct xdp_md { uint32_t data, data_end, data_meta, ingress_ifindex, rx_queue_index, egress_ifindex; };
enum { XDP_ABORTED = 0, XDP_DROP = 1, XDP_PASS = 2, XDP_TX = 3, XDP_REDIRECT = 4 };
enum { BPF_MAP_TYPE_HASH = 1, BPF_MAP_TYPE_ARRAY = 2, BPF_MAP_TYPE_PROG_ARRAY = 3, BPF_MAP_TYPE_LPM_TRIE = 11, BPF_MAP_TYPE_DEVMAP = 14, BPF_MAP_TYPE_XSKMAP = 17, BPF_MAP_TYPE_RINGBUF = 27, BPF_F_MMAPABLE = 1024 };
enum { BPF_F_BROADCAST = 8, BPF_F_EXCLUDE_INGRESS = 16 };
/* Nobody is woken by a record of a ring: the process looks when it wants. */
enum { WL_NO_WAKEUP = 1 };
static void *(*const bpf_map_lookup_elem)(void *map, const void *key) = (void *)1;
static uint32_t (*const bpf_get_smp_processor_id)(void) = (void *)8;
static long (*const bpf_tail_call)(void *ctx, void *map, uint32_t at) = (void *)12;
static long (*const bpf_xdp_adjust_head)(struct xdp_md *ctx, int delta) = (void *)44;
static long (*const bpf_xdp_adjust_tail)(struct xdp_md *ctx, int delta) = (void *)65;
static long (*const bpf_probe_read_kernel)(void *to, uint32_t n, const void *from) = (void *)113;
static long (*const bpf_xdp_load_bytes)(struct xdp_md *ctx, uint32_t at, void *to, uint32_t n) = (void *)189;
static long (*const bpf_xdp_store_bytes)(struct xdp_md *ctx, uint32_t at, void *from, uint32_t n) = (void *)190;
static long (*const bpf_redirect_map)(void *map, uint64_t key, uint64_t flags) = (void *)51;
static long (*const bpf_xdp_adjust_meta)(struct xdp_md *ctx, int delta) = (void *)54;
static uint64_t (*const bpf_jiffies64)(void) = (void *)118;
static long (*const bpf_ringbuf_output)(void *ring, const void *record, uint64_t n, uint64_t flags) = (void *)130;
static void *(*const bpf_ringbuf_reserve)(void *ring, uint64_t n, uint64_t flags) = (void *)131;
static void (*const bpf_ringbuf_submit)(void *record, uint64_t flags) = (void *)132;
static uint64_t (*const bpf_ringbuf_query)(void *ring, uint64_t what) = (void *)134;
static long (*const bpf_loop)(uint32_t rounds, void *body, void *with, uint64_t flags) = (void *)181;
#define SEC(name) __attribute__((section(name), used))
#define WL_MAP_NUMBER(name, n) int (*name)[n]
#define WL_MAP_TYPE(name, type) type *name

/* ---- for the verifier ---- */

#define WL_INLINE static inline __attribute__((always_inline))
/* Whether a handler's first calls are in line (`_near`): it needs more of the stack. */
#ifdef WL_NO_NEAR
#define WL_IN_LINE false
#else
#define WL_IN_LINE true
#endif
#define WL_LIKELY(e) __builtin_expect(!!(e), 1)
#define WL_UNLIKELY(e) __builtin_expect(!!(e), 0)
/* One register for the pointer that is tested and the one that is used. */
#define WL_KEEP(v) __asm__ volatile("" : "+r"(v))
/* 0, which the verifier cannot know: without it each way to a place of the code would be verified
   by itself to the end. */
extern volatile uint64_t wl_unknown;
/* 0, too. Each n gives a value of its own, and what is not used costs nothing. */
#define WL_UNKNOWN(n) ({ uint64_t z_; __asm__("%0 = *(u64 *)(%1 + 0)" : "=r"(z_) : "r"(&wl_unknown), "i"(n)); z_; })
/* A value of its own at each place. */
#define WL_ANEW WL_UNKNOWN(100000 + __COUNTER__)
/* A round of a loop: the kernel counts them, and ends the loop at its limit of 8 million (may_goto,
   Linux 6.9). So the verifier needs no proof that the loop ends. */
#define WL_ROUND(end) do { __label__ over_, on_; \
    __asm__ volatile goto("1:.byte 0xe5; .byte 0; .long ((%l[over_] - 1b - 8) / 8) & 0xffff; .short 0" : : : : over_); \
    goto on_; over_:; end; on_:; } while (0)
/* Memory is read again, which the verifier does not know. */
#define WL_READ_AGAIN __asm__ volatile("" : : : "memory")
/* No header begins behind this place: each is there at most once, and all together are shorter. */
#define WL_AT 16383

/* Values of the wire and of tables. */
typedef struct wl_ip { union { uint8_t b[16]; uint64_t w[2]; }; } wl_ip;
typedef struct wl_endpoint { union { uint8_t ip[16]; uint64_t w[2]; }; uint16_t port, v4; uint32_t pad; } wl_endpoint;
/* A place in the processor's scratch, and how many there are. */
typedef struct wl_bytes { uint32_t p, n; } wl_bytes;
typedef struct wl_opt_wl_bytes { bool has; wl_bytes v; } wl_opt_wl_bytes;
typedef struct wl_opt_uint32_t { bool has; uint32_t v; } wl_opt_uint32_t;
typedef struct wl_opt_uint64_t { bool has; uint64_t v; } wl_opt_uint64_t;

enum { WL_F_MALFORMED = 1, WL_F_TOO_LONG = 2, WL_F_TRUNCATED = 3, WL_F_CONSTRAINT = 4, WL_F_INDEX = 5, WL_F_DIVISION = 6,
       WL_F_NONE_VALUE = 7, WL_F_OVERLOAD = 12, WL_F_FULL = 14 };
enum { WL_T_DONE = 0, WL_T_FAULT = 2 };

#include "bpf_activation.h"
#include "bpf_lengths.h"
/* A number of 64 bits that the loader puts into its instruction. So objects can be kept. */
#define WL_NUMBER(number) ({ uint64_t n_; __asm__("%0 = " number " ll" : "=r"(n_)); n_; })
/* Things of one type lie side by side in the only value of an array, whose address the loader puts
   in the place of a number. So no lookup is needed. NULL: there are fewer. */
#define WL_VALUE_OF(number, at, count, type) ({ type *v_ = NULL; \
    uint64_t at_ = (at); \
    WL_KEEP(at_); /* the verifier sees the test, whatever the compiler knows */ \
    if (at_ < (count)) { uint8_t *d_; WL_KEEP(at_); /* and nothing is computed before it */ __asm__("%0 = " number " ll" : "=r"(d_)); v_ = (type *)(d_ + at_ * sizeof(type)); __builtin_assume(v_ != NULL); } \
    v_; })
#ifdef WL_ANY_MACHINE /* the loader sets the number, which the verifier knows then */
volatile const uint64_t wl_processors SEC(".rodata") = 1;
#define WL_PROCESSORS wl_processors
#endif
/* The states of processors, of which there may be WL_PROCESSORS. */
#define wl_state_of(cpu) WL_VALUE_OF("0x5157bd31a90c66e1", cpu, WL_PROCESSORS, struct app_state)
#define wl_state(x) ((x)->state)
#define wl_fail(x, kind, at) do { if (!WL_X(x)->fault) { WL_X(x)->fault = (kind); WL_X(x)->place = (at); } } while (0)
/* A header that is there but wrong: counted, and left out. A filter only notes it: the process
   counts. */
#define WL_WRONG 63
#define wl_header_fault(of, kind, at) do { \
    if ((of) == NULL) break; \
    if (WL_FILTERS && x->filter) v->has |= UINT64_C(1) << WL_WRONG; else wl_count_fault(x, kind, at); \
} while (0)
/* By kind, and by place. */
#define wl_count_fault(x, kind, at) do { \
    uint64_t kind_ = (kind), place_ = (at); \
    if (!__builtin_constant_p(kind)) WL_KEEP(kind_); \
    if (kind_ < WL_FAULTS) (x)->state->fault[kind_]++; \
    if (kind_ < WL_KINDS) { WL_KEEP(place_); if (place_ < WL_PLACES) { WL_KEEP(kind_); if (kind_ < WL_KINDS) (x)->state->placed[place_][kind_]++; } } \
} while (0)

/* ---- to the process ---- */

/* The fate of a frame that the process takes, where fates are counted, and that of one for which no
   socket is there. An interface has at most WL_QUEUES queues. */
enum { WL_PROCESS = 5, WL_UNHEARD = 6, WL_QUEUES = 256 };
/* Port, instance and mark. WL_OWN: the handler of the frame's own port. */
#define WL_NOTE(port, instance, mark) ((uint64_t)(port) << 48 | (uint64_t)((instance) & 0xffff) << 32 | (uint32_t)(mark))
#define WL_OWN WL_NOTE(0xffff, 0, 0)
/* WL_NOTED says what goes along in front of a frame. 0: nothing, as all frames have one note, which
   the process knows; 1: the note; 2: of long frames entry, length and note, of others nothing; 3: entry,
   length and note. The note is next to the frame. The entry is that of the queue: `Entry` in
   crates/ir/src/layout.rs. A long frame of which not all is needed is cut; one that is longer than
   frames of Ethernet is not, since the process may have to divide it. */
enum { WL_LONG = 256, WL_LONGEST = 1522 };
#define WL_NOTE_WORDS (WL_NOTED < 2 ? 1 : 2 + WL_ENTRY_WORDS)
#define WL_ENTRY_VALUES(name, type) WL_INLINE void wl_entry_##name(uint8_t *entry, uint32_t at, type v) { *(type *)(entry + at) = v; }
WL_ENTRY_VALUES(u8, uint8_t)
WL_ENTRY_VALUES(u16, uint16_t)
WL_ENTRY_VALUES(u32, uint32_t)
WL_ENTRY_VALUES(u64, uint64_t)
WL_ENTRY_VALUES(ip, wl_ip)
WL_INLINE uint32_t wl_there(uint32_t n, uint32_t needed) { return needed < n ? needed : n; }
/* Parts of frames go through a ring, if the process says so (`ringed` of the state). Then nothing
   but these parts is copied, and no buffer is kept. The frame itself ends here, which counts as a
   redirection: WL_TAKEN & 7. A frame that finds no room is lost. If the process sleeps, one frame
   goes on to its socket with nothing but `wl_bell` in it: the kernel wakes the process when it has
   handled the frames at hand, not at each record. */
enum { WL_TAKEN = 12, WL_LOST = 7, WL_SHORT = 128, WL_AWAKE = 1, WL_ASLEEP = 2, WL_BELL = 14 };
volatile const uint64_t wl_bell SEC(".rodata") = 0;
#define WL_RECORD(name, room) struct name { uint64_t note; uint32_t n, there; uint64_t entry[WL_ENTRY_WORDS]; uint8_t bytes[room]; }
WL_RECORD(wl_short, WL_SHORT);
WL_RECORD(wl_long, (WL_LONGEST + 63) / 64 * 64);
/* The first bytes of a frame: at least `there`. */
WL_INLINE void wl_copy_long(uint8_t *to, struct xdp_md *ctx, uint32_t there) {
    uint64_t len = there;
    WL_KEEP(len);
    if (len > 0 && len <= WL_LONGEST) bpf_xdp_load_bytes(ctx, 0, to, (uint32_t)len);
}
WL_INLINE void wl_copy_short(uint8_t *to, struct xdp_md *ctx, uint32_t there) {
    const uint8_t *d = (const uint8_t *)(long)ctx->data, *e = (const uint8_t *)(long)ctx->data_end;
    _Pragma("unroll") for (uint32_t at = 0; at < WL_SHORT; at += 64) {
        if (at >= there) return;
        if (d + at + 64 > e) {
            uint64_t len = there;
            WL_KEEP(len);
            if (len > 0 && len <= WL_SHORT) bpf_xdp_load_bytes(ctx, 0, to, (uint32_t)len);
            return;
        }
        _Pragma("unroll") for (uint32_t i = at / 8; i < at / 8 + 8; i++) ((uint64_t *)to)[i] = ((const uint64_t *)d)[i];
    }
}
#define WL_PUT(x, ring, kind, copy, n_) ({ \
    struct kind *r_ = bpf_ringbuf_reserve(&ring, sizeof(struct kind), 0); \
    if (r_) { \
        r_->note = WL_X(x)->note; \
        r_->n = (uint32_t)n_; \
        r_->there = wl_there((uint32_t)n_, WL_X(x)->keep); \
        _Pragma("unroll") for (unsigned w_ = 0; w_ < WL_ENTRY_WORDS; w_++) r_->entry[w_] = ((uint64_t *)WL_X(x)->entry)[w_]; \
        copy(r_->bytes, (x)->ctx, wl_there((uint32_t)n_, WL_X(x)->keep)); \
        bpf_ringbuf_submit(r_, 1); /* nobody is woken by it */ \
    } \
    r_ != NULL; \
})
/* The process looks at the ring after it has said that it sleeps, so it sees what came before. */
#define wl_ring_bell(x, sockets, n_) ({ \
    int rung_ = WL_TAKEN; \
    if (*(volatile uint64_t *)&(x)->state->ringed == WL_ASLEEP) { \
        (x)->state->ringed = WL_AWAKE; \
        bpf_xdp_adjust_tail((x)->ctx, (int)(WL_BELL - n_)); \
        uint64_t *d_ = (uint64_t *)(long)(x)->ctx->data; \
        const uint32_t queue_ = (x)->ctx->rx_queue_index; \
        if ((uint8_t *)d_ + WL_BELL <= (uint8_t *)(long)(x)->ctx->data_end && queue_ < WL_QUEUES) { \
            *d_ = wl_bell; \
            if (bpf_redirect_map(&sockets, WL_X(x)->instance * WL_QUEUES + queue_, XDP_DROP) == XDP_REDIRECT) rung_ = XDP_REDIRECT; \
        } \
    } \
    rung_; \
})
#define wl_to_ring(x, sockets, ring, n_) ({ \
    bool put_ = WL_X(x)->keep <= WL_SHORT ? WL_PUT(x, ring, wl_short, wl_copy_short, n_) : WL_PUT(x, ring, wl_long, wl_copy_long, n_); \
    if (!put_) (x)->state->fate[WL_LOST]++; \
    (x)->state->fate[WL_PROCESS]++; \
    wl_ring_bell(x, sockets, n_); \
})
#define WL_VERDICT(fate) ((fate) == WL_TAKEN ? XDP_DROP : (fate))

/* Gives a frame to the process: through the ring, or by the socket of its queue. */
#define wl_ring_or_socket(x, sockets, ring) ({ \
    uint64_t all_ = (uint64_t)(x)->ctx->data_end - (uint64_t)(x)->ctx->data; \
    WL_KEEP(all_); \
    int way_; \
    if ((x)->state->ringed && WL_X(x)->keep && all_ <= WL_LONGEST) way_ = wl_to_ring(x, sockets, ring, all_); \
    else way_ = wl_to_process(x, sockets); \
    way_; \
})

/* Redirects a frame to the socket of its queue. */
#define wl_to_process(x, sockets) ({ \
    int to_ = XDP_DROP; \
    bool room_ = true; \
    uint64_t n_ = (uint64_t)(x)->ctx->data_end - (uint64_t)(x)->ctx->data; \
    WL_KEEP(n_); \
    if (WL_NOTED >= 2 && WL_X(x)->keep && n_ >= WL_LONG && n_ <= WL_LONGEST) { \
        uint64_t keep_ = WL_X(x)->keep, least_ = WL_NOTED == 2 ? WL_LONG : 14; \
        if (keep_ < least_) keep_ = least_; \
        if (keep_ < n_) bpf_xdp_adjust_tail((x)->ctx, (int)(keep_ - n_)); \
    } \
    if (WL_NOTED == 1 || WL_NOTED == 3 || (WL_NOTED == 2 && n_ >= WL_LONG)) { \
        room_ = bpf_xdp_adjust_meta((x)->ctx, -8 * WL_NOTE_WORDS) == 0; \
        uint64_t *note_ = (uint64_t *)(long)(x)->ctx->data_meta; \
        if (room_ && (uint8_t *)(note_ + WL_NOTE_WORDS) <= (uint8_t *)(long)(x)->ctx->data) { \
            if (WL_NOTED >= 2) { \
                _Pragma("unroll") for (unsigned w_ = 0; w_ < WL_ENTRY_WORDS; w_++) note_[w_] = ((uint64_t *)WL_X(x)->entry)[w_]; \
                note_[WL_ENTRY_WORDS] = n_; \
            } \
            note_[WL_NOTE_WORDS - 1] = WL_X(x)->note; \
        } else room_ = false; \
    } \
    const uint32_t queue_ = (x)->ctx->rx_queue_index; \
    if (!room_) wl_count_fault(x, WL_F_OVERLOAD, 0); \
    else if (queue_ < WL_QUEUES) to_ = (int)bpf_redirect_map(&sockets, WL_X(x)->instance * WL_QUEUES + queue_, XDP_DROP); \
    (x)->state->fate[to_ == XDP_REDIRECT ? WL_PROCESS : WL_UNHEARD]++; \
    to_; \
})

/* ---- loads ---- */

/* Of bytes that have been tested. */
#define wl_known_u8(p) (*(const uint8_t *)(p))
#define wl_known_be16(p) __builtin_bswap16(*(const uint16_t *)(p))
#define wl_known_be32(p) __builtin_bswap32(*(const uint32_t *)(p))
#define wl_known_be64(p) __builtin_bswap64(*(const uint64_t *)(p))
#define wl_known_le16(p) (*(const uint16_t *)(p))
#define wl_known_le32(p) (*(const uint32_t *)(p))
#define wl_known_le64(p) (*(const uint64_t *)(p))
WL_INLINE uint64_t wl_join_be(const uint8_t *p, const unsigned n) { uint64_t v = 0; _Pragma("unroll") for (unsigned i = 0; i < n; i++) v = v << 8 | p[i]; return v; }
WL_INLINE uint64_t wl_join_le(const uint8_t *p, const unsigned n) { uint64_t v = 0; _Pragma("unroll") for (unsigned i = n; i-- > 0;) v = v << 8 | p[i]; return v; }
#define wl_known_be(p, n) wl_join_be((p), (n))
#define wl_known_le(p, n) wl_join_le((p), (n))
/* Whether a place is a constant one that is there for sure, which the verifier knows, too. Where
   the headers have constant places that is WL_SURE_OF. (With x->data clang does not see it in
   time.) */
#define WL_SURE(x, q, n) false
#define WL_SURE_OF(v, x, q, n) (__builtin_constant_p((q) - (v)->p) && (uint64_t)((q) - (v)->p) + (n) <= (x)->sure)
/* Of bytes that the walk over the headers has found: the verifier has forgotten it. Functions that
   load have a label `lost`, which no frame reaches. */
#define WL_LOAD(p, n, load) ({ const uint8_t *q_ = (p); if (!WL_SURE(x, q_, n)) { WL_KEEP(q_); if (q_ + (n) > x->end) goto lost; } load; })
#define wl_u8(p) WL_LOAD(p, 1, *q_)
#define wl_be16(p) WL_LOAD(p, 2, wl_known_be16(q_))
#define wl_be32(p) WL_LOAD(p, 4, wl_known_be32(q_))
#define wl_be64(p) WL_LOAD(p, 8, wl_known_be64(q_))
#define wl_le16(p) WL_LOAD(p, 2, wl_known_le16(q_))
#define wl_le32(p) WL_LOAD(p, 4, wl_known_le32(q_))
#define wl_le64(p) WL_LOAD(p, 8, wl_known_le64(q_))
#define wl_be(p, n) WL_LOAD(p, n, wl_join_be(q_, n))
#define wl_le(p, n) WL_LOAD(p, n, wl_join_le(q_, n))

/* The same for stores: a pointer. */
#define WL_SPACE(p, n) ({ uint8_t *q_ = (uint8_t *)(p); if (!WL_SURE(x, q_, n)) { WL_KEEP(q_); if (q_ + (n) > x->end) goto lost; } q_; })
/* Copies of a constant size that is a power of two: one load and one store. */
#define memcpy(d, s, n) __builtin_memcpy(__builtin_assume_aligned((d), (n)), (s), (n))
/* Stores the low n bytes of a number. BPF has no shifts of 128 bits but by a constant. */
WL_INLINE void wl_put_few(uint8_t *d, uint64_t v, const unsigned n, const bool big) { _Pragma("unroll") for (unsigned i = 0; i < n; i++) d[big ? n - 1 - i : i] = (uint8_t)(v >> (8 * i)); }
WL_INLINE void wl_put_at(uint8_t *d, unsigned __int128 v, const unsigned n, const bool big) {
    if (n <= 8) { wl_put_few(d, (uint64_t)v, n, big); return; }
    wl_put_few(big ? d + n - 8 : d, (uint64_t)v, 8, big);
    wl_put_few(big ? d : d + 8, (uint64_t)(v >> 64), n - 8, big);
}

/* Two fields of a constant size change places. */
#define WL_SWAP_WORDS(type) \
    _Pragma("unroll") for (; i + sizeof(type) <= n; i += sizeof(type)) { \
        const type w_ = *(type *)(a + i); \
        *(type *)(a + i) = *(type *)(b + i); \
        *(type *)(b + i) = w_; \
    }
WL_INLINE void wl_swap(uint8_t *a, uint8_t *b, const unsigned n) {
    unsigned i = 0;
    WL_SWAP_WORDS(uint64_t)
    WL_SWAP_WORDS(uint32_t)
    WL_SWAP_WORDS(uint16_t)
    WL_SWAP_WORDS(uint8_t)
}

/* Bytes that are built as words, in the place of others; places and numbers are constants. */
#define WL_BYTES_LOW(n) ((n) >= 8 ? UINT64_MAX : (UINT64_C(1) << 8 * ((n) & 7)) - 1)
WL_INLINE void wl_set_few(uint64_t *w, const unsigned at, uint64_t v, const unsigned n, const bool big) {
    const unsigned shift = 8 * (at & 7);
    const uint64_t low = WL_BYTES_LOW(n);
    if (big) v = __builtin_bswap64(v) >> (64 - 8 * n);
    v &= low;
    w[at / 8] = (w[at / 8] & ~(low << shift)) | v << shift;
    if ((at & 7) + n > 8) w[at / 8 + 1] = (w[at / 8 + 1] & ~(low >> (64 - shift))) | v >> (64 - shift);
}
WL_INLINE void wl_set(uint64_t *w, const unsigned at, unsigned __int128 v, const unsigned n, const bool big) {
    if (n <= 8) { wl_set_few(w, at, (uint64_t)v, n, big); return; }
    wl_set_few(w, big ? at + n - 8 : at, (uint64_t)v, 8, big);
    wl_set_few(w, big ? at : at + 8, (uint64_t)(v >> 64), n - 8, big);
}
/* Writes n bytes to the frame. */
WL_INLINE void wl_store(uint8_t *d, const uint64_t *w, const unsigned n) {
    unsigned i = 0;
    _Pragma("unroll") for (; i + 8 <= n; i += 8) *(uint64_t *)(d + i) = w[i / 8];
    if (n & 4) { *(uint32_t *)(d + i) = (uint32_t)(w[i / 8] >> 8 * (i & 7)); i += 4; }
    if (n & 2) { *(uint16_t *)(d + i) = (uint16_t)(w[i / 8] >> 8 * (i & 7)); i += 2; }
    if (n & 1) d[i] = (uint8_t)(w[i / 8] >> 8 * (i & 7));
}

/* ---- hashes: as builtin.h has them ---- */

#define WL_FNV64 UINT64_C(0xcbf29ce484222325)
WL_INLINE uint64_t wl_h_int(uint64_t h, uint64_t v, const unsigned n) { _Pragma("unroll") for (unsigned i = 0; i < n; i++) h = (h ^ (v >> (8 * i) & 255)) * UINT64_C(0x100000001b3); return h; }
WL_INLINE uint64_t wl_h_u128(uint64_t h, unsigned __int128 v) { return wl_h_int(wl_h_int(h, (uint64_t)v, 8), (uint64_t)(v >> 64), 8); }
WL_INLINE uint64_t wl_h_ip(uint64_t h, wl_ip a) { return wl_h_int(wl_h_int(h, a.w[0], 8), a.w[1], 8); }
WL_INLINE uint64_t wl_h_endpoint(uint64_t h, wl_endpoint e) { return wl_h_int(wl_h_int(wl_h_int(h, e.w[0], 8), e.w[1], 8), __builtin_bswap16(e.port), 2); }
WL_INLINE uint64_t wl_fmix64(uint64_t k) {
    k ^= k >> 33; k *= UINT64_C(0xff51afd7ed558ccd);
    k ^= k >> 33; k *= UINT64_C(0xc4ceb9fe1a85ec53);
    return k ^ k >> 33;
}

/* ---- integers ---- */

WL_INLINE uint32_t wl_choose(bool first, uint32_t a, uint32_t b) { return first ? a : b; }
WL_INLINE int64_t wl_sext(uint64_t v, unsigned bits) { return (int64_t)(v << (64 - bits)) >> (64 - bits); }
WL_INLINE uint64_t wl_add_sat(uint64_t a, uint64_t b, uint64_t max) { const uint64_t r = a + b; return r < a || r > max ? max : r; }
WL_INLINE uint64_t wl_sub_sat(uint64_t a, uint64_t b) { return a > b ? a - b : 0; }
WL_INLINE int64_t wl_adds_sat(int64_t a, int64_t b, int64_t min, int64_t max) {
    const int64_t r = (int64_t)((uint64_t)a + (uint64_t)b);
    if (((a ^ r) & (b ^ r)) < 0) return a < 0 ? min : max;
    return r < min ? min : r > max ? max : r;
}
WL_INLINE int64_t wl_subs_sat(int64_t a, int64_t b, int64_t min, int64_t max) {
    const int64_t r = (int64_t)((uint64_t)a - (uint64_t)b);
    if (((a ^ b) & (a ^ r)) < 0) return a < 0 ? min : max;
    return r < min ? min : r > max ? max : r;
}
WL_INLINE uint64_t wl_udiv(uint64_t a, uint64_t b) { return b ? a / b : 0; }
WL_INLINE uint64_t wl_urem(uint64_t a, uint64_t b) { return b ? a % b : 0; }
WL_INLINE uint64_t wl_shl(uint64_t a, uint32_t s, uint32_t w) { return s < w ? a << s : 0; }
WL_INLINE uint64_t wl_shr(uint64_t a, uint32_t s, uint32_t w) { return s < w ? a >> s : 0; }
WL_INLINE int64_t wl_sar(int64_t a, uint32_t s, uint32_t w) { return s < w ? a >> s : 0; }
WL_INLINE uint64_t wl_min(uint64_t a, uint64_t b) { return a < b ? a : b; }
WL_INLINE uint64_t wl_max(uint64_t a, uint64_t b) { return a > b ? a : b; }
WL_INLINE unsigned __int128 wl_wmin(unsigned __int128 a, unsigned __int128 b) { return a < b ? a : b; }
WL_INLINE unsigned __int128 wl_wmax(unsigned __int128 a, unsigned __int128 b) { return a > b ? a : b; }
WL_INLINE int64_t wl_smin(int64_t a, int64_t b) { return a < b ? a : b; }
WL_INLINE int64_t wl_smax(int64_t a, int64_t b) { return a > b ? a : b; }

/* ---- addresses ---- */

WL_INLINE bool wl_ip_eq(wl_ip a, wl_ip b) { return ((a.w[0] ^ b.w[0]) | (a.w[1] ^ b.w[1])) == 0; }
WL_INLINE wl_ip wl_v4_ip(uint32_t n) { return (wl_ip){.w = {0, 0xffff0000u | (uint64_t)__builtin_bswap32(n) << 32}}; }
WL_INLINE unsigned __int128 wl_ip_u128(wl_ip a) { return (unsigned __int128)__builtin_bswap64(a.w[0]) << 64 | __builtin_bswap64(a.w[1]); }
WL_INLINE wl_ip wl_u128_ip(unsigned __int128 n) { return (wl_ip){.w = {__builtin_bswap64((uint64_t)(n >> 64)), __builtin_bswap64((uint64_t)n)}}; }
WL_INLINE bool wl_is_v4(wl_ip a) { return a.w[0] == 0 && (uint32_t)a.w[1] == 0xffff0000u; }
WL_INLINE wl_endpoint wl_ep_of(wl_ip a, uint16_t port) { return (wl_endpoint){.w = {a.w[0], a.w[1]}, .port = port, .v4 = wl_is_v4(a)}; }
WL_INLINE wl_ip wl_ip_of(wl_endpoint e) { return (wl_ip){.w = {e.w[0], e.w[1]}}; }
WL_INLINE bool wl_ep_eq(wl_endpoint a, wl_endpoint b) { return a.port == b.port && ((a.w[0] ^ b.w[0]) | (a.w[1] ^ b.w[1])) == 0; }
/* The order of addresses is that of their bytes. */
WL_INLINE int wl_ip_order(wl_ip a, wl_ip b) {
    const uint64_t x0 = __builtin_bswap64(a.w[0]), y0 = __builtin_bswap64(b.w[0]), x1 = __builtin_bswap64(a.w[1]), y1 = __builtin_bswap64(b.w[1]);
    return x0 != y0 ? (x0 < y0 ? -1 : 1) : x1 != y1 ? (x1 < y1 ? -1 : 1) : 0;
}

/* ---- frames ---- */

#ifdef WL_LAYERS
typedef struct wl_frame { uint32_t n, wire; } wl_frame;
/* Where headers are, and how far the last one goes. It lies in the state of the processor: the
   verifier does not know what lies in memory, so no way to here is followed by itself. */
struct wl_places { uint16_t at[WL_LAYERS], to[WL_LAYERS], lim[WL_LAYERS], slot[WL_SLOTS]; uint8_t net[WL_LAYERS]; uint32_t end, top; } __attribute__((aligned(8)));
typedef struct wl_view {
    const uint8_t *p;
    uint32_t n, end, top;
    uint64_t has;
    uint16_t *at, *to, *lim, *slot;
    uint8_t *net;
} wl_view;
/* The beginning of a view. The pointer is another one than x->data for the verifier: else it would
   know more of a frame of the usual shape than of others. */
#define WL_FRAME(x, v) do { \
    (x)->data = (uint8_t *)(long)(x)->ctx->data; \
    (x)->end = (const uint8_t *)(long)(x)->ctx->data_end; \
    uint64_t n_ = (uint64_t)(x)->end - (uint64_t)(x)->data; \
    WL_KEEP(n_); \
    if (n_ > 65535) n_ = 65535; \
    n_ ^= wl_unknown; \
    (v)->p = (x)->data + ((uint32_t)wl_unknown & WL_AT); \
    (v)->n = (v)->end = (uint32_t)n_; \
    (v)->top = 0; \
    (v)->has = 0; \
} while (0)
/* The same of a frame whose headers have constant places. They lie in the view itself, so that
   clang sees the constants early. */
typedef struct wl_near {
    const uint8_t *p;
    uint32_t n, end, top;
    uint64_t has;
    uint16_t at[WL_LAYERS], to[WL_LAYERS], lim[WL_LAYERS], slot[WL_SLOTS];
    uint8_t net[WL_LAYERS];
} wl_near;
#define WL_FRAME_NEAR(x, v) do { \
    (x)->data = (uint8_t *)(long)(x)->ctx->data; \
    (x)->end = (const uint8_t *)(long)(x)->ctx->data_end; \
    uint64_t n_ = (uint64_t)(x)->end - (uint64_t)(x)->data; \
    WL_KEEP(n_); /* fewer than 65,536: no program here takes frames in several pieces */ \
    (v)->p = (x)->data; \
    (v)->n = (v)->end = (uint32_t)n_; \
    (v)->top = 0; \
    (v)->has = 0; \
} while (0)
#define WL_NO_PLACES(x, v) do { struct wl_places *p_ = &(x)->state->in; (v)->at = p_->at; (v)->to = p_->to; (v)->lim = p_->lim; (v)->slot = p_->slot; (v)->net = p_->net; } while (0)
/* The view within the walk, whose places the verifier knows: the walk uses them for its next steps.
   With WL_PLACES_KEPT it finds them in memory, too: the stack has 512 bytes. */
#ifdef WL_PLACES_KEPT
typedef wl_view wl_walk;
#define WL_WALK_PLACES WL_NO_PLACES
#else
typedef wl_near wl_walk;
/* A plain 0, or one unknown value for all, would keep ways apart that differ only in the headers
   that they have met. */
#define WL_WALK_PLACES(x, v) do { _Pragma("unroll") for (unsigned j_ = 0; j_ < WL_LAYERS; j_++) { \
    (v)->at[j_] = (uint16_t)WL_UNKNOWN(j_) & WL_AT; (v)->to[j_] = (uint16_t)WL_UNKNOWN(1000 + j_); (v)->lim[j_] = (uint16_t)WL_UNKNOWN(2000 + j_); \
    (v)->net[j_] = (uint8_t)WL_UNKNOWN(3000 + j_); } \
    _Pragma("unroll") for (unsigned j_ = 0; j_ < WL_SLOTS; j_++) (v)->slot[j_] = (uint16_t)WL_UNKNOWN(4000 + j_); } while (0)
#endif
#define WL_HAS(v, layer) (((v)->has >> (layer) & 1) != 0)
#define WL_JOIN do { const uint64_t z_ = wl_unknown; at = (at ^ (uint32_t)z_) & WL_AT; v->has ^= z_; v->end = (v->end ^ (uint32_t)z_) & 65535; \
    v->top ^= (uint32_t)z_; cut ^= (uint32_t)z_; net ^= (uint8_t)z_; } while (0)
/* The end of the walk. */
#define WL_JOIN_ALL(v) do { const uint64_t z_ = wl_unknown; (v)->has ^= z_; (v)->end ^= (uint32_t)z_; (v)->top ^= (uint32_t)z_; \
    WL_KEEP((v)->has); (v)->p = x->data; WL_READ_AGAIN; } while (0)
/* The end of a branch: which headers are there is asked anew. */
#define WL_JOIN_BRANCHES(v) do { if (!x->sure) (v)->has ^= wl_unknown; } while (0)
/* A handler's fate of a frame that had a fault. */
enum { WL_FAULTY = -1 };

/* ---- edits ---- */

/* Sums for checksums (RFC 1071, 1624), as frame.h has them. */
WL_INLINE uint64_t wl_sum_few(const uint8_t *p, const unsigned n) {
    uint64_t s = 0;
    unsigned i = 0;
    _Pragma("unroll") for (; i + 4 <= n; i += 4) s += wl_known_le32(p + i);
    if (i + 2 <= n) { s += wl_known_le16(p + i); i += 2; }
    return i < n ? s + p[i] : s;
}
WL_INLINE uint16_t wl_fold(uint64_t s) {
    const uint32_t half = (uint32_t)((s + (s >> 32 | s << 32)) >> 32);
    return (uint16_t)((half + (half >> 16 | half << 16)) >> 16);
}
/* Of the bytes of words from one place on to another. At an odd place the sum's halves are
   exchanged. */
WL_INLINE uint16_t wl_sum_words(const uint64_t *w, const unsigned begin, const unsigned end) {
    uint64_t s = 0;
    _Pragma("unroll") for (unsigned i = begin / 8; i < (end + 7) / 8; i++) {
        uint64_t x = w[i];
        if (begin > 8 * i) x &= ~WL_BYTES_LOW(begin - 8 * i);
        if (end < 8 * i + 8) x &= WL_BYTES_LOW(end - 8 * i);
        s += (uint32_t)x + (x >> 32);
    }
    const uint16_t sum = wl_fold(s);
    return begin & 1 ? __builtin_bswap16(sum) : sum;
}
/* Corrects a checksum; `optional`: 0 stays 0. */
WL_INLINE void wl_sum_fix(uint8_t *at, uint64_t was, uint64_t now, const bool optional) {
    const uint16_t old = wl_known_le16(at);
    if (optional && !old) return;
    uint16_t fresh = (uint16_t)~wl_fold((uint16_t)~old + (uint64_t)(uint16_t)~wl_fold(was) + wl_fold(now));
    if (optional && !fresh) fresh = 0xffff;
    *(uint16_t *)at = fresh;
}
/* The sum over n bytes from a place of the frame. As all functions that are not static, it is no
   part of its callers for the verifier. WL_NO_SUM: they do not all lie within the first
   65,000. */
#define WL_NO_SUM UINT64_MAX
struct wl_summing { struct xdp_md *ctx; uint64_t sum; uint32_t at, left; };
static long wl_sum_step(uint32_t round, void *with) {
    struct wl_summing *w = with;
    const uint8_t *p = (const uint8_t *)(long)w->ctx->data, *end = (const uint8_t *)(long)w->ctx->data_end;
    uint64_t at = w->at;
    (void)round;
    WL_KEEP(at);
    if (!w->left || at > 65000) return 1;
    p += at;
    WL_KEEP(p);
    if (w->left >= 32) {
        if (p + 32 > end) return 1;
        w->sum += (uint64_t)wl_known_le32(p) + wl_known_le32(p + 4) + wl_known_le32(p + 8) + wl_known_le32(p + 12)
            + wl_known_le32(p + 16) + wl_known_le32(p + 20) + wl_known_le32(p + 24) + wl_known_le32(p + 28);
        w->at += 32; w->left -= 32;
    } else if (w->left >= 2) {
        if (p + 2 > end) return 1;
        w->sum += wl_known_le16(p);
        w->at += 2; w->left -= 2;
    } else {
        if (p + 1 > end) return 1;
        w->sum += *p;
        w->at++; w->left--;
    }
    return 0;
}
__attribute__((noinline)) uint64_t wl_sum_far(struct xdp_md *ctx, uint32_t at, uint32_t n) {
    struct wl_summing w = {ctx, 0, at, n};
    bpf_loop(n / 32 + 17, wl_sum_step, &w, 0);
    return w.left ? WL_NO_SUM : w.sum;
}
/* Moves bytes of the frame from one place to another: from the first one on, or from the last. */
struct wl_moving { struct xdp_md *ctx; uint32_t from, to, left, up; };
static long wl_move_step(uint32_t round, void *with) {
    struct wl_moving *w = with;
    uint8_t *p = (uint8_t *)(long)w->ctx->data;
    const uint8_t *end = (const uint8_t *)(long)w->ctx->data_end;
    (void)round;
    if (!w->left) return 1;
    const uint32_t n = w->left >= 8 ? 8 : 1;
    uint64_t from = (w->up ? w->from : w->from + w->left - n) & 32767, to = (w->up ? w->to : w->to + w->left - n) & 32767;
    WL_KEEP(from); WL_KEEP(to);
    uint8_t *s = p + from, *d = p + to;
    WL_KEEP(s); WL_KEEP(d);
    if (n == 8) {
        if (s + 8 > end || d + 8 > end) return 1;
        *(uint64_t *)d = *(const uint64_t *)s;
    } else {
        if (s + 1 > end || d + 1 > end) return 1;
        *d = *s;
    }
    w->left -= n;
    if (w->up) { w->from += n; w->to += n; }
    return 0;
}
__attribute__((noinline)) int wl_move(struct xdp_md *ctx, uint32_t from, uint32_t to, uint32_t n) {
    struct wl_moving w = {ctx, from, to, n, to < from};
    bpf_loop(n / 8 + 9, wl_move_step, &w, 0);
    return w.left == 0;
}
/* The frame's bytes have moved: all pointers to it are void. */
#define wl_again(x, v) do { (x)->data = (uint8_t *)(long)(x)->ctx->data; (x)->end = (const uint8_t *)(long)(x)->ctx->data_end; (v)->p = (x)->data; } while (0)
/* A place, moved if it does not lie before pos; without a branch for the verifier to follow. */
WL_INLINE uint32_t wl_behind(uint32_t place, uint32_t pos, uint32_t by) {
    uint64_t behind = ((uint64_t)pos - place - 1) >> 63;
    WL_KEEP(behind);
    return (place + (by & (uint32_t)(0 - behind))) & 65535;
}
/* Moves the 14 bytes of an Ethernet header. */
WL_INLINE void wl_move_eth(uint8_t *d, const uint8_t *s) {
    const uint64_t a = *(const uint64_t *)s;
    const uint32_t b = *(const uint32_t *)(s + 8);
    const uint16_t c = *(const uint16_t *)(s + 12);
    *(uint64_t *)d = a; *(uint32_t *)(d + 8) = b; *(uint16_t *)(d + 12) = c;
}
/* Opens a gap of n bytes at pos; 0: there is no headroom. The verifier sees it by itself. */
__attribute__((noinline)) int wl_open(struct xdp_md *ctx, uint32_t pos, uint32_t n) {
    if (n > 128 || bpf_xdp_adjust_head(ctx, -(int)n)) return 0;
    uint8_t *p = (uint8_t *)(long)ctx->data;
    const uint8_t *end = (const uint8_t *)(long)ctx->data_end;
    if (pos != 14) return wl_move(ctx, n, 0, pos);
    uint8_t *from = p + n;
    WL_KEEP(from);
    if (p + 14 > end || from + 14 > end) return 0;
    wl_move_eth(p, from);
    return 1;
}
/* Takes n bytes at pos out; 0: fewer than the 14 of an Ethernet header would be left. */
__attribute__((noinline)) int wl_close(struct xdp_md *ctx, uint32_t pos, uint32_t n) {
    if (n > WL_AT || !wl_move(ctx, 0, n, pos)) return 0;
    return bpf_xdp_adjust_head(ctx, (int)n) == 0;
}
WL_INLINE bool wl_gap(wl_fx *x, wl_view *v, const uint32_t pos, const uint32_t n) {
    if (v->n + n > 65535 || !wl_open(x->ctx, pos, n)) return false;
    wl_again(x, v);
    v->top = wl_behind(v->top, pos, n);
    v->end = (v->end + n) & 65535;
    v->n += n;
    return true;
}
WL_INLINE bool wl_cut(wl_fx *x, wl_view *v, const uint32_t pos, const uint32_t n) {
    if (!wl_close(x->ctx, pos, n)) return false;
    wl_again(x, v);
    v->top = wl_behind(v->top, pos, 0 - n);
    v->end = (v->end - n) & 65535;
    v->n -= n;
    return true;
}
#define wl_place_cut(place, pos, n) ((uint16_t)wl_behind((place), (pos), 0 - (n)))
#define wl_layer_cut(v, layer, pos, n) do { \
    const uint16_t at_ = (v)->at[layer]; \
    (v)->at[layer] = wl_place_cut(at_, pos, n); \
    (v)->to[layer] = (uint16_t)((v)->to[layer] - (at_ - (v)->at[layer])); \
    (v)->lim[layer] = wl_place_cut((v)->lim[layer], pos, n); \
} while (0)
#define wl_layer_moved(v, layer, n) do { \
    (v)->at[layer] = (uint16_t)((v)->at[layer] + (n)); (v)->to[layer] = (uint16_t)((v)->to[layer] + (n)); \
    (v)->lim[layer] = (uint16_t)((v)->lim[layer] + (n)); \
} while (0)
#endif

/* ---- tables ---- */

/* Makes the words of a value unknown to the verifier: the ways to here join. */
#define WL_FORGET(words, n) do { const uint64_t z_ = WL_ANEW; _Pragma("unroll") for (unsigned j_ = 0; j_ < (n); j_++) (words)[j_] ^= z_; } while (0)
/* The same but where the headers have constant places: such code is short. */
#define WL_FORGET_FAR(forget) do { if (!x->sure) { forget; } } while (0)
#define WL_FORGET_FLAG(b) ((b) = (bool)(((b) ^ WL_ANEW) & 1))
/* A look at a flag tells the verifier nothing about its variable: the ways from there join. */
#define WL_FLAG(b) ({ bool flag_ = (b); WL_FORGET_FLAG(flag_); flag_; })
/* A number of 32 bits is combined as one: of a combination of 64 bits the upper half would be
   unknown, and not 0 as on other ways. Each such number would double the ways that do not join. */
#define WL_FORGET_NUMBER(v) do { \
    if (sizeof(v) == 8) (v) ^= (__typeof__(v))WL_ANEW; \
    else { uint32_t f_ = (uint32_t)(v); const uint32_t z32_ = (uint32_t)WL_ANEW; __asm__("%0 ^= %1" : "+w"(f_) : "w"(z32_)); (v) = (__typeof__(v))f_; } \
} while (0)
/* Of a number of more than 64 bits. */
#define WL_FORGET_WIDE(v) ((v) ^= (unsigned __int128)WL_ANEW << 64 | WL_ANEW)
#ifdef WL_BYTES
#include "bpf_bytes.h"
#endif
#include "bpf_tables.h"

/* ---- sketches: as sketch.h has them ---- */

/* The upper half of a product with a number below 2^32. */
WL_INLINE uint64_t wl_scale(uint64_t x, uint64_t n) { return ((x >> 32) * n + ((x & 0xffffffffu) * n >> 32)) >> 32; }
#define WL_SKETCH(map, keys, places) \
WL_INLINE uint64_t map##_hash(const struct map##_key *k) { \
    uint64_t h = WL_SEED; \
    _Pragma("unroll") for (unsigned i = 0; i < (keys); i++) { h = (h ^ k->w[i]) * 0x9e3779b97f4a7c15ull; h ^= h >> 29; } \
    return wl_fmix64(h); \
} \
WL_INLINE uint64_t map##_place(uint64_t h, const unsigned i) { \
    return wl_scale((h + i * (h >> 32 | h << 32 | 1)) * UINT64_C(0xd6e8feb86659fd93), places); \
} \
WL_INLINE uint64_t *map##_word(uint64_t at) { const uint32_t n = (uint32_t)at; return bpf_map_lookup_elem(&map, &n); }
#define WL_COUNTS(map, places) \
WL_INLINE uint64_t map##_get(uint64_t h) { \
    uint64_t least = UINT64_MAX; \
    _Pragma("unroll") for (unsigned i = 0; i < 4; i++) { \
        const uint64_t *w = map##_word((uint64_t)i * (places) + map##_place(h, i)); \
        const uint64_t n = w ? *w : 0; \
        least = n < least ? n : least; \
    } \
    return least ^ wl_unknown; \
} \
WL_INLINE void map##_add(uint64_t h, uint64_t by) { \
    _Pragma("unroll") for (unsigned i = 0; i < 4; i++) { \
        uint64_t *w = map##_word((uint64_t)i * (places) + map##_place(h, i)); \
        if (w) __sync_fetch_and_add(w, by); \
    } \
}
#define WL_BLOOM(map, places) \
WL_INLINE bool map##_get(uint64_t h) { \
    uint64_t all = 1; \
    _Pragma("unroll") for (unsigned i = 0; i < 7; i++) { \
        const uint64_t b = map##_place(h, i), *w = map##_word(b >> 6); \
        all &= w ? *w >> (b & 63) : 0; \
    } \
    return (all ^ wl_unknown) & 1; \
} \
WL_INLINE void map##_add(uint64_t h) { \
    _Pragma("unroll") for (unsigned i = 0; i < 7; i++) { \
        const uint64_t b = map##_place(h, i); \
        uint64_t *w = map##_word(b >> 6); \
        if (w) __sync_fetch_and_or(w, UINT64_C(1) << (b & 63)); \
    } \
}
/* A register of a HyperLogLog has a bit for each rank of a hash: its value is the highest one. */
WL_INLINE void wl_estimate_add(void *registers, uint64_t h) {
    const uint32_t at = (uint32_t)(h >> 52);
    const uint64_t rank = (uint64_t)__builtin_clzll(h << 12 | UINT64_C(1) << 11) + 1, bit = UINT64_C(1) << (rank & 63);
    uint64_t *w = bpf_map_lookup_elem(registers, &at);
    if (w && !(*w & bit)) __sync_fetch_and_or(w, bit);
}
/* Changes of sketches from outside. */
#define WL_SKETCH_KEY(map, keys) \
    uint64_t *in = (uint64_t *)(long)ctx->data; \
    struct map##_key k; \
    if ((uint8_t *)in + 8 * (2 + (keys)) > (const uint8_t *)(long)ctx->data_end) return 0; \
    _Pragma("unroll") for (unsigned i = 0; i < (keys); i++) k.w[i] = in[1 + i]; \
    const uint64_t h = map##_hash(&k);
#define WL_BLOOM_CHANGES(map, keys) \
    WL_SKETCH_KEY(map, keys) \
    if (in[0] == WL_PUT && (in[1 + (keys)] & 1)) map##_add(h); \
    in[1 + (keys)] = map##_get(h); \
    return 1;
#define WL_COUNTS_CHANGES(map, keys) \
    WL_SKETCH_KEY(map, keys) \
    const uint64_t is = map##_get(h), to = in[1 + (keys)]; \
    if (in[0] == WL_PUT && to > is) map##_add(h, to - is); \
    in[1 + (keys)] = map##_get(h); \
    return 1;

/* ---- rings ---- */

/* Of a ring's statistics: values that the process keeps, as a timer adds some, too. */
#define WL_HELD(x, number) (*(volatile const uint64_t *)&(x)->state->table[number][WL_ENTRIES])
/* Whether a record has found room. Processors at it at the same time may add some beyond the
   capacity. */
WL_INLINE bool wl_ring_push(void *ring, const void *record, const uint64_t n, const uint64_t capacity, const uint64_t held) {
    const uint64_t available = 0;
    return held < capacity && bpf_ringbuf_query(ring, available) < (capacity - held) * (n + 8) && bpf_ringbuf_output(ring, record, n, WL_NO_WAKEUP) == 0;
}

/* ---- wildcard tables ---- */

/* The best entry that a key fits: 1 if there is one. `priority` and `top` are one above the number
   that the program has. The list of masks has a head, and room for two lists, of which the head
   names one: how many masks it has, where it begins, and whether masks whose entries have the
   highest priorities stand first. `filter` has a bit for each hash of an entry, and most keys that
   fit no entry of a mask end there. Entries of one bucket are a list. The process alone changes
   them: a linked entry does not change, and is not used again while a program may be at it. No part of its callers for the verifier. */
#define WL_SORTED (UINT64_C(1) << 63)
#define WL_WILDCARD(map, heads, list, filter, keys, values, most, words, buckets) \
/* Weak and quick: it only tells which keys need not be looked up. */ \
WL_INLINE uint64_t map##_hash(const uint64_t *w, uint64_t h) { \
    _Pragma("unroll") for (unsigned i = 0; i < (keys); i++) h += w[i] * (0x9e3779b97f4a7c15ull + 2 * i); \
    return h; \
} \
/* The number of a masked key's entry; 0: there is none. */ \
__attribute__((noinline)) uint64_t map##_place(const struct map##_key *k, uint64_t h) { \
    if (!k) return 0; \
    const uint32_t bucket = (uint32_t)((h ^ h >> 32) * 0xbf58476d1ce4e5b9ull >> 32) & ((buckets) - 1); \
    const uint64_t *head = bpf_map_lookup_elem(&heads, &bucket); \
    uint64_t n = head ? *head : 0; \
    while (n) { \
        WL_ROUND({ return 0; }); \
        const uint32_t at = (uint32_t)n; \
        const struct map##_entry *e = bpf_map_lookup_elem(&map, &at); \
        if (!e) return 0; \
        uint64_t other = e->id ^ k->mask; \
        _Pragma("unroll") for (unsigned j = 0; j < (keys); j++) other |= e->w[j] ^ k->w[j]; \
        if (!other) return n; \
        n = e->next; \
    } \
    return 0; \
} \
__attribute__((noinline)) int map##_find(const struct map##_key *k, struct map##_found *found) { \
    if (!k || !found) return 0; \
    const struct map##_mask *m = WL_VALUE_OF(list, 0, 1, struct map##_mask); \
    if (!m) return 0; \
    const uint64_t head = *(const volatile uint64_t *)&m->top, count = (uint32_t)head, first = 1 + (head >> 32 & 0xffff); \
    uint64_t best = wl_unknown; \
    for (uint64_t i = wl_unknown; i < count; i = (i + 1) ^ wl_unknown) { \
        WL_ROUND({ return best != 0; }); \
        m = WL_VALUE_OF(list, first + i, 1 + 2 * (most), struct map##_mask); \
        if (!m) break; \
        if (m->top <= best) { if (head & WL_SORTED) break; continue; } \
        struct map##_key at; \
        _Pragma("unroll") for (unsigned j = 0; j < (keys); j++) at.w[j] = k->w[j] & m->w[j]; \
        at.mask = m->id; \
        const uint64_t h = map##_hash(at.w, at.mask); \
        const uint64_t *bits = WL_VALUE_OF(filter, (h >> 32 ^ h) & ((words) - 1), words, uint64_t); \
        if (!bits || !(*bits >> (h >> 58) & 1)) continue; \
        const uint32_t n = (uint32_t)map##_place(&at, h); \
        if (!n) continue; \
        const struct map##_entry *s = bpf_map_lookup_elem(&map, &n); \
        if (s && s->priority > best) { \
            best = s->priority; \
            _Pragma("unroll") for (unsigned j = 0; j < (values); j++) found->v[j] = s->v[j]; \
        } \
        best ^= wl_unknown; \
    } \
    return best != 0; \
}

/* The kernel's ticks as nanoseconds since 1970. The loader sets their length and begin, so that the
   process has the same clock. With `wl_manual` a test sets the time. */
extern volatile const uint64_t wl_tick, wl_manual;
/* A loader that compiles knows them: so they are constants of the code. */
#ifndef WL_TICK
#define WL_TICK wl_tick
#define WL_MANUAL wl_manual
#endif
#define WL_FIRST_TICK WL_NUMBER("0x73d9052be84f61ca")
struct { WL_MAP_NUMBER(type, BPF_MAP_TYPE_ARRAY); WL_MAP_TYPE(key, uint32_t); WL_MAP_TYPE(value, uint64_t); WL_MAP_NUMBER(max_entries, 1); } wl_clock SEC(".maps");
WL_INLINE uint64_t wl_now(void) {
    if (WL_MANUAL) {
        const uint32_t zero = 0;
        const uint64_t *set = bpf_map_lookup_elem(&wl_clock, &zero);
        return set ? *set : 0;
    }
    return (bpf_jiffies64() - WL_FIRST_TICK) * WL_TICK;
}
#endif
