/* The plain C, by which targets are judged: hand-written, on the frames and rules of trace.h and
 * behind the command line of hw.c. Of its matchers these are used: linear for ten rules, vectors
 * over tuple space for more. Its flow table is the one that fetches a batch ahead. It is at most a
 * quarter full. Nothing in it is tuned further: hw_*.c is. It has no job of 32M flows and none of
 * 16K rules. Its tables must be free of collisions, and with so many rules whole hashes of one mask
 * collide. */
#include "hw.h"

#define B 64
#define AI ALWAYS
static uint8_t *TR;      /* current trace */
AI int parse_ok(const uint8_t *p, uint32_t len) {
    uint16_t et, tl;
    memcpy(&et, p + 12, 2);
    memcpy(&tl, p + 16, 2);
    tl = __builtin_bswap16(tl);
    return (et == 8) & (p[14] == 0x45) & (tl >= 28) & (tl + 14u <= len);
}

/* ---- parse and count ---- */

static void t_parse(uint32_t from) {
    uint64_t by = 0, bad = 0, u = 0;
    for (int i = 0; i < B; i++) { uint8_t *p = TR + (size_t)(from + (uint32_t)i) * 64; int ok = parse_ok(p, 64); int ud = ok & (p[23] == 17); u += (uint64_t)ud; bad += !ok; by += ok ? 64 : 0; }
    counts.frames += B; counts.bytes += by; counts.bad += bad; counts.udp += u;
}
static void parse_setup(void) { TR = flow_trace(1000, flow_frames(1000), 7, 0); }
struct job parse_job = {"parse", 1u << 18, parse_setup, t_parse, NULL, NULL};

/* ---- flow table: open addressing, 32-byte entries, CRC32C hash ---- */

struct fe { uint64_t k0; uint32_t k1, k2; uint64_t pk, by; };
static struct fe *FT;
static uint32_t FM;
AI uint32_t h5(uint64_t k0, uint32_t k1, uint32_t k2) {
    uint64_t h = _mm_crc32_u64(0x1234567, k0), g = _mm_crc32_u64(0x89abcdef, (uint64_t)k2 << 32 | k1);
    return (uint32_t)((h ^ (g * 0x9e3779b1u)) * 0x85ebca77u >> 7);
}
AI void flow_add(uint64_t k0, uint32_t k1, uint32_t k2, uint32_t h) {
    for (uint32_t j = h & FM;; j = (j + 1) & FM) {
        struct fe *e = FT + j;
        if (e->k0 == k0 && e->k1 == k1 && e->k2 == k2) { e->pk++; e->by += 64; return; }
        if (!e->k2) { e->k0 = k0; e->k1 = k1; e->k2 = k2; e->pk = 1; e->by = 64; return; }
    }
}
void flow_count(const uint8_t *first) {
    uint64_t k0[B];
    uint32_t k1[B], k2[B], h[B];
    for (int i = 0; i < B; i++) {
        const uint8_t *p = first + (size_t)i * 64;
        int ok = parse_ok(p, 64);
        memcpy(&k0[i], p + 26, 8); memcpy(&k1[i], p + 34, 4);
        k2[i] = (ok ? 0x100u : 0) | p[23];
        h[i] = h5(k0[i], k1[i], k2[i]);
        __builtin_prefetch(FT + (h[i] & FM), 1);
    }
    for (int i = 0; i < B; i++) if (k2[i] & 0x100) flow_add(k0[i], k1[i], k2[i], h[i]); else counts.bad++;
    counts.frames += B;
}
static void t_flow(uint32_t from) { flow_count(TR + (size_t)from * 64); }
void flow_table(uint32_t flows) {
    uint32_t c = 1;
    while (c < 2 * flows) c *= 2;
    c *= 2;
    FT = big_alloc((size_t)c * sizeof *FT);
    FM = c - 1;
}
static void flow_setup(uint32_t flows, uint64_t seed) { flow_table(flows); TR = flow_trace(flows, flow_frames(flows), seed, 0); }
static void flow_1k(void) { flow_setup(1000, 7); }
static void flow_100k(void) { flow_setup(100000, 8); }
static void flow_1m(void) { flow_setup(1000000, 9); }
/* One core's part of flow_1m on two cores. */
static void flow_half(void) { flow_table(500000); TR = flow_trace(500000, 1u << 20, 9, 0); }
static void flow_burst(void) { flow_table(1000); TR = burst_trace(1000, flow_frames(1000), 7, 0, BURST); }
static void flow_check(void) {
    uint64_t e = 0, q = 0;
    for (uint64_t j = 0; j <= FM; j++) if (FT[j].k2) { e++; q += FT[j].pk; }
    printf(",\"entries\":%lu,\"exact\":%s", (unsigned long)e, q == counts.frames - counts.bad ? "true" : "false");
}
struct job flow_jobs[5] = {{"flow_1k", 1u << 18, flow_1k, t_flow, NULL, flow_check}, {"flow_100k", 1u << 18, flow_100k, t_flow, NULL, flow_check},
                           {"flow_1m", 1u << 21, flow_1m, t_flow, NULL, flow_check},
                           {"flow_burst", 1u << 18, flow_burst, t_flow, NULL, flow_check},
                           {"flow_half", 1u << 20, flow_half, t_flow, NULL, flow_check}};

/* ---- rules ---- */

static int RN;
static uint64_t ACC, DENY, NONE;
static uint32_t *vs, *vsm, *vd, *vdm, *vp, *vpm;   /* columns; p = dport | proto << 16 */
static uint8_t *act2;                              /* act2[r + 1]: 0 deny, 1 accept, 2 none */
AI void vcount(const uint8_t *v) {
    __m512i x = _mm512_loadu_si512(v);
    uint64_t a = _mm512_cmpeq_epi8_mask(x, _mm512_set1_epi8(1)), n = _mm512_cmpeq_epi8_mask(x, _mm512_set1_epi8(2));
    ACC += (uint64_t)__builtin_popcountll(a); NONE += (uint64_t)__builtin_popcountll(n); DENY += (uint64_t)__builtin_popcountll(~(a | n));
}
AI void fields(const uint8_t *p, uint32_t *s, uint32_t *d, uint32_t *pp) {
    uint16_t q;
    memcpy(s, p + 26, 4); memcpy(d, p + 30, 4); memcpy(&q, p + 36, 2);
    *s = __builtin_bswap32(*s); *d = __builtin_bswap32(*d); *pp = __builtin_bswap16(q) | ((uint32_t)p[23] << 16);
}
static void t_lin512(uint32_t from) {
    uint8_t V[B];
    for (int i = 0; i < B; i++) {
        uint32_t s, d, pp;
        fields(TR + (size_t)(from + (uint32_t)i) * 64, &s, &d, &pp);
        int r = -1;
        __m512i S = _mm512_set1_epi32((int)s), D = _mm512_set1_epi32((int)d), P = _mm512_set1_epi32((int)pp);
        for (int j = 0; j < RN; j += 16) {
            __mmask16 m = _mm512_cmpeq_epi32_mask(_mm512_and_si512(S, _mm512_load_si512(vsm + j)), _mm512_load_si512(vs + j));
            m = _mm512_mask_cmpeq_epi32_mask(m, _mm512_and_si512(D, _mm512_load_si512(vdm + j)), _mm512_load_si512(vd + j));
            m = _mm512_mask_cmpeq_epi32_mask(m, _mm512_and_si512(P, _mm512_load_si512(vpm + j)), _mm512_load_si512(vp + j));
            if (m) { r = j + __builtin_ctz(m); break; }
        }
        V[i] = act2[r + 1];
    }
    vcount(V);
    counts.frames += B;
}
/* 16 lanes = 12 masks, one gather of tag << 16 | rule + 1 from tables without collisions,
   candidates verified in the order of the rules. */
static uint32_t *TV, TSm[12], TDm[12], TPm[12];
static __m512i VS, VD, VP, VB, VSH, VSEED;
AI uint32_t hv1(uint32_t a, uint32_t b, uint32_t c, uint32_t seed) { uint32_t h = (a * 0x9e3779b1u) ^ (b * 0x85ebca6bu) ^ (c * 0xc2b2ae35u) ^ seed; h ^= h >> 15; return h * 0x2c1b3c6du; }
static void t_tssv(uint32_t from) {
    uint8_t V[B];
    const __m512i m1 = _mm512_set1_epi32((int)0x9e3779b1), m2 = _mm512_set1_epi32((int)0x85ebca6b), m3 = _mm512_set1_epi32((int)0xc2b2ae35), m4 = _mm512_set1_epi32(0x2c1b3c6d), lo = _mm512_set1_epi32(0xffff);
    for (int i = 0; i < B; i++) {
        uint32_t s, d, pp;
        fields(TR + (size_t)(from + (uint32_t)i) * 64, &s, &d, &pp);
        __m512i a = _mm512_and_si512(_mm512_set1_epi32((int)s), VS), b = _mm512_and_si512(_mm512_set1_epi32((int)d), VD), c = _mm512_and_si512(_mm512_set1_epi32((int)pp), VP);
        __m512i h = _mm512_xor_si512(_mm512_ternarylogic_epi32(_mm512_mullo_epi32(a, m1), _mm512_mullo_epi32(b, m2), _mm512_mullo_epi32(c, m3), 0x96), VSEED);
        h = _mm512_xor_si512(h, _mm512_srli_epi32(h, 15)); h = _mm512_mullo_epi32(h, m4);
        __m512i ix = _mm512_add_epi32(_mm512_srlv_epi32(h, VSH), VB), e = _mm512_mask_i32gather_epi32(_mm512_setzero_si512(), 0xfff, ix, TV, 4);
        __mmask16 m = _mm512_mask_cmpeq_epi32_mask(0xfff, _mm512_srli_epi32(e, 16), _mm512_and_si512(h, lo));
        m = _mm512_mask_test_epi32_mask(m, e, lo);
        int r = -1;
        if (m) {
            uint32_t c16 = _mm512_mask_reduce_min_epu32(m, _mm512_and_si512(e, lo)) - 1;
            for (;;) {
                if ((s & vsm[c16]) == vs[c16] && (d & vdm[c16]) == vd[c16] && (pp & vpm[c16]) == vp[c16]) { r = (int)c16; break; }
                m &= _mm512_cmpneq_epi32_mask(_mm512_and_si512(e, lo), _mm512_set1_epi32((int)(c16 + 1)));
                if (!m) break;
                c16 = _mm512_mask_reduce_min_epu32(m, _mm512_and_si512(e, lo)) - 1;
            }
        }
        V[i] = act2[r + 1];
    }
    vcount(V);
    counts.frames += B;
}
static void setup_tv(void) {
    uint32_t bs[16] = {0}, sh[16] = {0}, sd[16] = {0}, a1[16] = {0}, a2[16] = {0}, a3[16] = {0};
    size_t tot = 0;
    for (int t = 0; t < 12; t++) { int k = (RN - t + 11) / 12, lg = 6; while ((1 << lg) < k * k / 3) lg++; bs[t] = (uint32_t)tot; sh[t] = 32 - (uint32_t)lg; tot += (size_t)1 << lg; }
    TV = aligned_alloc(64, (tot * 4 + 63) & ~63ul);
    memset(TV, 0, tot * 4);
    for (int t = 0; t < 12; t++) {
        a1[t] = TSm[t]; a2[t] = TDm[t]; a3[t] = TPm[t];
        uint64_t z = (uint64_t)t + 1;
        uint32_t *tb = TV + bs[t], n = 1u << (32 - sh[t]);
        for (;;) {
            sd[t] = (uint32_t)rng_next(&z);
            memset(tb, 0, n * 4);
            int bad = 0;
            for (int i = t; i < RN && !bad; i += 12) {
                uint32_t h = hv1(vs[i], vd[i], vp[i], sd[t]), *e = tb + (h >> sh[t]);
                if (*e) { uint32_t o = (*e & 0xffff) - 1; if (!(vs[o] == vs[i] && vd[o] == vd[i] && vp[o] == vp[i])) bad = 1; } else *e = h << 16 | (uint32_t)(i + 1);
            }
            if (!bad) break;
        }
    }
    VS = _mm512_loadu_si512(a1); VD = _mm512_loadu_si512(a2); VP = _mm512_loadu_si512(a3); VB = _mm512_loadu_si512(bs); VSH = _mm512_loadu_si512(sh); VSEED = _mm512_loadu_si512(sd);
}
static void setup_rules(int n) {
    RN = n;
    struct rule *R = make_rules((uint32_t)n, 42);
    act2 = calloc((size_t)n + 1, 1);
    act2[0] = 2;
    for (int i = 0; i < n; i++) act2[i + 1] = R[i].accept;
    int m = (n + 15) & ~15;
    size_t z = ((size_t)m * 4 + 63) & ~63ul;
    uint32_t **a[6] = {&vs, &vsm, &vd, &vdm, &vp, &vpm};
    for (int i = 0; i < 6; i++) { *a[i] = aligned_alloc(64, z); memset(*a[i], 0, z); }
    for (int i = 0; i < m; i++) {
        if (i >= n) { vs[i] = 1; continue; }
        struct rule *x = R + i;
        vs[i] = x->src; vsm[i] = prefix(x->src_bits); vd[i] = x->dst; vdm[i] = prefix(x->dst_bits);
        vpm[i] = (x->has_dport ? 0xffff : 0) | (x->has_proto ? 0xff0000 : 0);
        vp[i] = (x->has_dport ? x->dport : 0) | (x->has_proto ? (uint32_t)x->proto << 16 : 0);
    }
    for (int i = 0; i < n; i++) { int t = i % 12; TSm[t] = vsm[i]; TDm[t] = vdm[i]; TPm[t] = vpm[i]; }
    setup_tv();
    TR = rule_trace(R, (uint32_t)n, 99);
}
static void rules_10(void) { setup_rules(10); }
static void rules_1k(void) { setup_rules(1000); }
static void rules_check(void) {
    uint64_t passes = counts.frames / rule_frames();
    printf(",\"accepted\":%lu,\"denied\":%lu,\"unmatched\":%lu", (unsigned long)(ACC / passes), (unsigned long)(DENY / passes), (unsigned long)(NONE / passes));
}
struct job rule_jobs[3] = {{"rules_10", 1u << 16, rules_10, t_lin512, NULL, rules_check}, {"rules_1k", 1u << 16, rules_1k, t_tssv, NULL, rules_check}};

/* ---- layer 4: Maglev ring (65537), connection table, IP-in-IP in place, restored behind the
   batch ---- */

#define RING 65537
#define NREAL 100
#define STRIDE 128
static uint32_t ring[RING];
static struct real { uint32_t dst; uint64_t pk, by; } reals[NREAL + 1];
static uint64_t LHIT, LMISS;
struct le { uint64_t k0; uint32_t k1; uint16_t k2, real; };
static struct le *LT;
static uint32_t LM;
static void maglev(void) {
    uint32_t off[NREAL], skip[NREAL], nx[NREAL], n = 0;
    for (uint32_t i = 0; i < NREAL; i++) { uint64_t s = 1000 + i, a = rng_next(&s); off[i] = (uint32_t)(a % RING); skip[i] = (uint32_t)((a >> 32) % (RING - 1) + 1); nx[i] = 0; reals[i + 1].dst = htonl(0x0a640000u + i + 1); }
    for (;;) for (uint32_t i = 0; i < NREAL; i++) {
        uint32_t c;
        do { c = (uint32_t)((off[i] + (uint64_t)nx[i] * skip[i]) % RING); nx[i]++; } while (ring[c]);
        ring[c] = i + 1;
        if (++n == RING) return;
    }
}
AI void encap(uint8_t *p, uint32_t rdst, uint32_t ssrc) {   /* p: the original Ethernet header; the new frame starts at p - 20 */
    uint64_t m0;
    uint32_t m1, w[5];
    uint16_t tl;
    memcpy(&m0, p, 8); memcpy(&m1, p + 8, 4); memcpy(&tl, p + 16, 2);
    uint32_t ntl = (uint32_t)__builtin_bswap16(tl) + 20;
    w[0] = 0x45 | ((uint32_t)__builtin_bswap16((uint16_t)ntl) << 16); w[1] = 0; w[2] = 0x0440; w[3] = ssrc; w[4] = rdst;
    uint32_t s = fold((uint64_t)w[0] + w[1] + w[2] + w[3] + w[4]);
    w[2] |= (uint32_t)(uint16_t)~s << 16;
    memcpy(p - 20, &m0, 8); memcpy(p - 12, &m1, 4);
    p[-8] = 8; p[-7] = 0;
    memcpy(p - 6, w, 20);
}
AI void restore(uint8_t *p) { static const uint8_t mac[16] = {2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0, 0x45, 0}; memcpy(p, mac, 16); }
static void t_lbct(uint32_t from) {
    uint64_t k0[B];
    uint32_t k1[B], h[B];
    uint8_t ok[B], *L = TR + (size_t)from * STRIDE + 64;
    for (int i = 0; i < B; i++) {
        uint8_t *p = L + i * STRIDE;
        memcpy(&k0[i], p + 26, 8); memcpy(&k1[i], p + 34, 4);
        ok[i] = parse_ok(p, 64) & ((uint32_t)(k0[i] >> 32) == __builtin_bswap32(VIP)) & (p[23] == 17);
        h[i] = h5(k0[i], k1[i], 0x111);
        __builtin_prefetch(LT + (h[i] & LM));
    }
    for (int i = 0; i < B; i++) {
        uint8_t *p = L + i * STRIDE;
        if (!ok[i]) { counts.bad++; continue; }
        uint32_t r = 0;
        for (uint32_t j = h[i] & LM;; j = (j + 1) & LM) {
            struct le *e = LT + j;
            if (e->k0 == k0[i] && e->k1 == k1[i] && e->k2 == 0x111) { r = e->real; LHIT++; break; }
            if (!e->k2) { r = ring[(uint64_t)(h[i] * 2654435761u) * RING >> 32]; *e = (struct le){k0[i], k1[i], 0x111, (uint16_t)r}; LMISS++; break; }
        }
        reals[r].pk++; reals[r].by += 64;
        uint32_t ss;
        memcpy(&ss, p + 26, 4);
        encap(p, reals[r].dst, (ss & 0xffff0000) | 0x10ac);
    }
    for (int i = 0; i < B; i++) restore(L + i * STRIDE);
    counts.frames += B;
}
static void lb_setup(uint8_t *frames, uint32_t n, uint64_t flows) {
    uint64_t c = 1;
    while (c < 2 * flows) c *= 2;
    LT = big_alloc(c * sizeof *LT);
    LM = (uint32_t)(c - 1);
    TR = big_alloc((size_t)n * STRIDE + 4096);
    for (uint32_t i = 0; i < n; i++) memcpy(TR + (size_t)i * STRIDE + 64, frames + (size_t)i * 64, 64);
    munmap(frames, (size_t)n * 64);
    maglev();
}
static void lb_1k(void) { lb_setup(flow_trace(1000, flow_frames(1000), 5, VIP), flow_frames(1000), 1000); }
static void lb_1m(void) { lb_setup(flow_trace(1000000, flow_frames(1000000), 7, VIP), flow_frames(1000000), 1000000); }
static void lb_check(void) { printf(",\"hits\":%lu,\"entries\":%lu", (unsigned long)LHIT, (unsigned long)LMISS); }
struct job balance_jobs[3] = {{"lb_1k", 1u << 18, lb_1k, t_lbct, NULL, lb_check}, {"lb_1m", 1u << 21, lb_1m, t_lbct, NULL, lb_check}};
