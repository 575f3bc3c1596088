/* Programs by hand that generated ones are measured beside. Short IPv4 keys, no options, no tags:
 * what somebody writes who knows all frames. `head.bpf.c` stands before it. */

struct count { uint64_t packets, bytes; };
struct frame { uint8_t *p; uint64_t n; };

WL_INLINE bool udp(struct xdp_md *ctx, struct frame *f) {
    uint8_t *d = (uint8_t *)(long)ctx->data, *e = (uint8_t *)(long)ctx->data_end;
    uint64_t n = (uint64_t)(long)e - (uint64_t)(long)d;
    WL_KEEP(n);
    if (d + 42 > e || wl_known_le16(d + 12) != 8 || d[14] != 0x45) return false;
    f->p = d;
    f->n = n;
    return true;
}

SEC("xdp") int empty(struct xdp_md *ctx) { (void)ctx; return XDP_DROP; }

/* ---- parse and count ---- */

struct count per_cpu[64][8] __attribute__((aligned(64)));
SEC("xdp") int parse_count(struct xdp_md *ctx) {
    struct frame f;
    if (!udp(ctx, &f)) return XDP_PASS;
    struct count *c = &per_cpu[bpf_get_smp_processor_id() & 63][f.p[23] == 17];
    c->packets++;
    c->bytes += f.n;
    return XDP_DROP;
}

/* The same with the function of ours: a datagram is no fragment, its lengths are true, and what
   becomes of frames is counted, too. */
WL_INLINE bool datagram(struct xdp_md *ctx, struct frame *f) {
    if (!udp(ctx, f)) return false;
    const uint32_t total = wl_known_be16(f->p + 16), part = wl_known_be16(f->p + 38);
    return !(wl_known_le16(f->p + 20) & 0xff3f) && f->p[23] == 17 && total >= 28 && total + 14 <= f->n && part >= 8 && part + 20 <= total;
}
struct { uint64_t fate[8], udp, others, bytes; } counts[64] __attribute__((aligned(64)));
SEC("xdp") int parse_count_checked(struct xdp_md *ctx) {
    struct frame f;
    const uint32_t cpu = bpf_get_smp_processor_id() & 63;
    if (!datagram(ctx, &f)) { counts[cpu].fate[XDP_PASS]++; return XDP_PASS; }
    counts[cpu].udp++;
    counts[cpu].bytes += f.n;
    counts[cpu].fate[XDP_DROP]++;
    return XDP_DROP;
}

/* ---- flows: the frame of the next run has other ports ---- */

struct flow { uint32_t src, dst, ports, proto; };
/* The packet's identification says how far the next flow is. */
WL_INLINE void next(struct frame *f, uint32_t ports) {
    const uint32_t step = wl_known_be16(f->p + 18), n = (wl_known_be32(f->p + 34) + step) & ports;
    *(uint32_t *)(f->p + 34) = __builtin_bswap32(n);
}
static long (*const update)(void *map, const void *key, const void *value, uint64_t flags) = (void *)2;
struct { WL_MAP_NUMBER(type, BPF_MAP_TYPE_HASH); WL_MAP_TYPE(key, struct flow); WL_MAP_TYPE(value, struct count); WL_MAP_NUMBER(max_entries, 2097152); } hashed SEC(".maps");
WL_INLINE int kernel_hash(struct xdp_md *ctx, uint32_t ports) {
    struct frame f;
    if (!udp(ctx, &f)) return XDP_PASS;
    const struct flow k = {wl_known_le32(f.p + 26), wl_known_le32(f.p + 30), wl_known_le32(f.p + 34), f.p[23]};
    struct count *c = bpf_map_lookup_elem(&hashed, &k);
    if (c) {
        c->packets++;
        c->bytes += f.n;
    } else {
        const struct count first = {1, f.n};
        update(&hashed, &k, &first, 1);
    }
    next(&f, ports);
    return XDP_DROP;
}
SEC("xdp") int hash_1k(struct xdp_md *ctx) { return kernel_hash(ctx, 1023); }
SEC("xdp") int hash_1m(struct xdp_md *ctx) { return kernel_hash(ctx, (1 << 20) - 1); }

/* Lines of two slots, each processor its own, no locks, no expiry. */
#define LINES (1u << 20)
struct slot { uint64_t a, b, packets, bytes; };
struct line { struct slot s[2]; };
struct { WL_MAP_NUMBER(type, BPF_MAP_TYPE_ARRAY); WL_MAP_TYPE(key, uint32_t); WL_MAP_TYPE(value, struct line); WL_MAP_NUMBER(max_entries, 2097152); WL_MAP_NUMBER(map_flags, BPF_F_MMAPABLE); } lines SEC(".maps");
WL_INLINE int own_lines(struct xdp_md *ctx, uint32_t ports) {
    struct frame f;
    if (!udp(ctx, &f)) return XDP_PASS;
    const uint64_t a = wl_known_le64(f.p + 26), b = wl_known_le32(f.p + 34) | (uint64_t)f.p[23] << 32 | 1ull << 63;
    uint64_t h = a * 0x9e3779b97f4a7c15ull;
    h ^= h >> 29;
    h = (h ^ b) * 0xbf58476d1ce4e5b9ull;
    h ^= h >> 32;
    const uint32_t base = (bpf_get_smp_processor_id() & 1) * LINES;
    for (uint32_t t = 0; t < 8; t++) {
        const uint32_t at = base + (((uint32_t)h + t) & (LINES - 1));
        struct line *l = bpf_map_lookup_elem(&lines, &at);
        if (!l) return XDP_PASS;
        for (int j = 0; j < 2; j++) {
            struct slot *s = &l->s[j];
            if (s->b && (s->b != b || s->a != a)) continue;
            s->a = a;
            s->b = b;
            s->packets++;
            s->bytes += f.n;
            next(&f, ports);
            return XDP_DROP;
        }
    }
    /* No room: else all further runs would meet this flow. */
    next(&f, ports);
    return XDP_PASS;
}
SEC("xdp") int lines_1k(struct xdp_md *ctx) { return own_lines(ctx, 1023); }
SEC("xdp") int lines_1m(struct xdp_md *ctx) { return own_lines(ctx, (1 << 20) - 1); }

/* The same with the function of ours: true datagrams, a hash with a secret, entries that expire,
   and what becomes of frames. Each line has three slots and a mark for each. An entry lies in the
   line of its hash, or in the next ones. */
struct kept { uint64_t used, a, b, packets, bytes; };
struct kept_line { uint32_t marks, unused; struct kept s[3]; };
struct { WL_MAP_NUMBER(type, BPF_MAP_TYPE_ARRAY); WL_MAP_TYPE(key, uint32_t); WL_MAP_TYPE(value, struct kept_line); WL_MAP_NUMBER(max_entries, 1048576); WL_MAP_NUMBER(map_flags, BPF_F_MMAPABLE); } kept SEC(".maps");
static const uint64_t secret = 0x243f6a8885a308d3ull, minute = 60000000000ull;
WL_INLINE int kept_lines(struct xdp_md *ctx, uint32_t ports) {
    struct frame f;
    const uint32_t cpu = bpf_get_smp_processor_id() & 63;
    const uint64_t now = bpf_jiffies64() * 1000000;
    if (!datagram(ctx, &f)) { counts[cpu].fate[XDP_PASS]++; return XDP_PASS; }
    const uint64_t a = wl_known_le64(f.p + 26), b = wl_known_le32(f.p + 34) | (uint64_t)f.p[23] << 32;
    uint64_t h = (secret ^ a) * 0x9e3779b97f4a7c15ull;
    h ^= h >> 29;
    h = (h ^ b) * 0x9e3779b97f4a7c15ull;
    h ^= h >> 29;
    h *= 0xbf58476d1ce4e5b9ull;
    const uint32_t mark = (h & 127) | 128;
    for (uint32_t t = 0; t < 8; t++) {
        const uint32_t at = (uint32_t)((h >> 32) + t) & 1048575;
        struct kept_line *l = bpf_map_lookup_elem(&kept, &at);
        if (!l) break;
        struct kept *free = NULL;
        for (int j = 0; j < 3; j++) {
            struct kept *s = &l->s[j];
            const uint32_t is = l->marks >> 8 * j & 255;
            if (!is || s->used < now) { if (!free) free = s; if (!is) break; continue; }
            if (is != mark || s->a != a || s->b != b) continue;
            s->used = now + minute;
            s->packets++;
            s->bytes += f.n;
            goto done;
        }
        if (!free) continue;
        const uint64_t place = (uint64_t)(free == &l->s[1]) + 2 * (uint64_t)(free == &l->s[2]);
        l->marks = (l->marks & ~(255u << 8 * place)) | mark << 8 * place;
        free->used = now + minute;
        free->a = a;
        free->b = b;
        free->packets = 1;
        free->bytes = f.n;
        goto done;
    }
done:
    next(&f, ports);
    counts[cpu].fate[XDP_DROP]++;
    return XDP_DROP;
}
SEC("xdp") int kept_1k(struct xdp_md *ctx) { return kept_lines(ctx, 1023); }
SEC("xdp") int kept_1m(struct xdp_md *ctx) { return kept_lines(ctx, (1 << 20) - 1); }

/* What the change of the ports costs alone. */
SEC("xdp") int change(struct xdp_md *ctx) {
    struct frame f;
    if (!udp(ctx, &f)) return XDP_PASS;
    next(&f, 1023);
    return XDP_DROP;
}

/* ---- notes of eight bytes for the process: in front of the frame, or as its first header ---- */

/* A test run does not make the frame anew: so the note is taken away again, by a second call. */
SEC("xdp") int note_meta(struct xdp_md *ctx) {
    if (bpf_xdp_adjust_meta(ctx, -8)) return XDP_ABORTED;
    uint64_t *note = (uint64_t *)(long)ctx->data_meta;
    if ((uint8_t *)(note + 1) > (uint8_t *)(long)ctx->data) return XDP_ABORTED;
    *note = UINT64_C(3) << 48;
    return bpf_xdp_adjust_meta(ctx, 8) ? XDP_ABORTED : XDP_DROP;
}
SEC("xdp") int note_head(struct xdp_md *ctx) {
    if (bpf_xdp_adjust_head(ctx, -8)) return XDP_ABORTED;
    uint64_t *note = (uint64_t *)(long)ctx->data;
    if ((uint8_t *)(note + 1) > (uint8_t *)(long)ctx->data_end) return XDP_ABORTED;
    *note = UINT64_C(3) << 48;
    return bpf_xdp_adjust_head(ctx, 8) ? XDP_ABORTED : XDP_DROP;
}
