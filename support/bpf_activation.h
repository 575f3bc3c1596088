/* bpf_activation.h: what programs for the kernel's XDP hook know of the frame at hand, and how it
 * goes to parts of a handler. bpf.h includes it.
 *
 * A part that is a function of its own is followed by the verifier once, whatever its caller knows.
 * No pointer to a frame can be passed to it, nor the caller's stack. So with WL_FAR notes lie in
 * the state of the processor, and the view of the frame does while a part begins or ends. */
#ifndef WL_BPF_ACTIVATION_H
#define WL_BPF_ACTIVATION_H

typedef struct wl_core { uint64_t now; } wl_core;
/* Notes of the frame that is handled. */
#define WL_NOTES \
    uint64_t note;               /* of a frame that goes to the process */ \
    uint64_t seen;               /* the bytes of the frame that were copied last, and where they are */ \
    uint8_t entry[WL_ENTRY_WORDS ? 8 * WL_ENTRY_WORDS : 8] __attribute__((aligned(8))); \
    uint32_t keep;               /* how many bytes go to the process; 0: all */ \
    uint32_t place, instance;    /* of a fault; of the port */ \
    uint32_t used, out, seen_at; /* bytes in the scratch, and of a new payload */ \
    uint16_t fault;
struct wl_notes { WL_NOTES };
/* The size is known to the loader: `between_bytes` in crates/codegen-c/src/xdp/framed_parts.rs. */
struct wl_between {
    struct wl_notes notes;
    wl_core core;
    uint64_t has;
    uint32_t n, end, top;
    int64_t fate;
};
/* An activation. */
typedef struct wl_fx {
    struct app_state *state;     /* this processor's */
    struct xdp_md *ctx;
    uint8_t *data;               /* the frame */
    const uint8_t *end;
    wl_core *core;
#ifdef WL_FAR
    struct wl_notes *notes;
#else
    WL_NOTES
#endif
#ifdef WL_BYTES
    struct wl_scratch *scratch;
#endif
    uint32_t sure;               /* so many bytes of the frame are there for sure; 0: not known */
    bool filter;                 /* it leaves no trace of a frame that goes to the process */
} wl_fx;
#ifdef WL_FAR
#define WL_X(x) ((x)->notes)
#define WL_FIND_NOTES(x) do { (x)->notes = &(x)->state->between.notes; (x)->core = &(x)->state->between.core; } while (0)
#define WL_BEGIN_NOTES(x) do { WL_FIND_NOTES(x); *(x)->notes = (struct wl_notes){0}; } while (0)
#else
#define WL_X(x) (x)
#define WL_FIND_NOTES(x) (void)0
#define WL_BEGIN_NOTES(x) (void)0
#endif
#ifdef WL_BYTES
/* The frame has changed. */
#define WL_CHANGED(x) (WL_X(x)->seen = ~WL_ANEW)
#define WL_FIND_BYTES(x) do { (x)->scratch = wl_scratch_here(); if (!(x)->scratch) return 1; } while (0)
#else
#define WL_CHANGED(x) (void)0
#define WL_BYTES_BEGIN(x) (void)0
#define WL_PART_BEGIN(x, io) (void)0
#define WL_PART_END(x, io) (void)0
#define WL_PART_BACK(x, io) (void)0
#define WL_FIND_BYTES(x) (void)0
#endif

/* Before a part begins, and before it ends: what is known of the frame. */
#define WL_GIVE(x, v, member) ((x)->state->between.member = (v)->member)
#define WL_GIVE_FATE(x, fate_) ((x)->state->between.fate = (fate_))
/* When it has begun, and behind it: the frame may have moved. */
#define WL_TAKE(x, v, member) ((v)->member = (x)->state->between.member)
#define WL_TAKE_FATE(x, fate_) ((fate_) = (int)(x)->state->between.fate)
#define WL_TAKE_FRAME(x, v) do { \
    WL_READ_AGAIN; \
    (x)->data = (uint8_t *)(long)(x)->ctx->data; (x)->end = (const uint8_t *)(long)(x)->ctx->data_end; \
    (v)->p = (x)->data; \
} while (0)
/* The beginning of a part. */
#define WL_PART_FRAME(x, v) do { \
    WL_FIND_NOTES(x); \
    WL_NO_PLACES(x, v); \
    WL_FIND_BYTES(x); \
    WL_TAKE_FRAME(x, v); \
} while (0)
#endif
