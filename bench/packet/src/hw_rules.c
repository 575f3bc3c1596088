/* Rules with masks and priorities. Up to 16 are compared at once, one after the other. More go by
 * tuple space, a table of buckets for each of the 12 masks. All 12 are hashed and fetched at once.
 * Candidates are verified in the order of the rules. */
#include "hw.h"

#define MASKS 12u
/* Rules as columns; entries behind the last rule fit nothing. */
static uint32_t *src, *src_mask, *dst, *dst_mask, *rest, *rest_mask, count;
static uint8_t *verdict;              /* of rule + 1; 0: none fits */
static uint8_t *trace;
static uint64_t accepted, denied, unmatched;
/* Of the masks: lanes of masks, buckets' bases and shifts, seeds. A bucket is two slots of tag <<
   16 | rule + 1. */
static __m512i lane_src, lane_dst, lane_rest, lane_shift, lane_seed, lane_base;
static uint64_t *bucket;

enum { DENY, ACCEPT, NONE };

struct fields { uint32_t src, dst, rest; };   /* rest: destination port, protocol << 16 */
ALWAYS struct fields fields_of(const uint8_t *p) {
    struct fields f;
    uint16_t port;
    memcpy(&f.src, p + 26, 4);
    memcpy(&f.dst, p + 30, 4);
    memcpy(&port, p + 36, 2);
    return (struct fields){__builtin_bswap32(f.src), __builtin_bswap32(f.dst), __builtin_bswap16(port) | (uint32_t)p[23] << 16};
}
ALWAYS void tally(const uint8_t *v) {
    __m512i x = _mm512_loadu_si512(v);
    uint64_t a = _mm512_cmpeq_epi8_mask(x, _mm512_set1_epi8(ACCEPT)), n = _mm512_cmpeq_epi8_mask(x, _mm512_set1_epi8(NONE));
    accepted += (uint64_t)__builtin_popcountll(a);
    unmatched += (uint64_t)__builtin_popcountll(n);
    denied += (uint64_t)__builtin_popcountll(~(a | n));
    counts.frames += BATCH;
}
static void linear_batch(uint32_t from) {
    uint8_t v[BATCH];
    for (uint32_t i = 0; i < BATCH; i++) {
        struct fields f = fields_of(trace + (size_t)(from + i) * FRAME);
        __m512i s = _mm512_set1_epi32((int)f.src), d = _mm512_set1_epi32((int)f.dst), r = _mm512_set1_epi32((int)f.rest);
        uint32_t found = 0;
        for (uint32_t j = 0; j < count; j += 16) {
            __mmask16 m = _mm512_cmpeq_epi32_mask(_mm512_and_si512(s, _mm512_load_si512(src_mask + j)), _mm512_load_si512(src + j));
            m = _mm512_mask_cmpeq_epi32_mask(m, _mm512_and_si512(d, _mm512_load_si512(dst_mask + j)), _mm512_load_si512(dst + j));
            m = _mm512_mask_cmpeq_epi32_mask(m, _mm512_and_si512(r, _mm512_load_si512(rest_mask + j)), _mm512_load_si512(rest + j));
            if (m) { found = j + (uint32_t)__builtin_ctz(m) + 1; break; }
        }
        v[i] = verdict[found];
    }
    tally(v);
}
#define MIX1 0x9e3779b1u
#define MIX2 0x85ebca6bu
#define MIX3 0xc2b2ae35u
#define MIX4 0x2c1b3c6du
ALWAYS uint32_t hash_rule(uint32_t s, uint32_t d, uint32_t r, uint32_t seed) {
    uint32_t h = s * MIX1 ^ d * MIX2 ^ r * MIX3 ^ seed;
    h ^= h >> 15;
    return h * MIX4;
}
ALWAYS bool fits(struct fields f, uint32_t r) {
    return ((f.src & src_mask[r]) == src[r]) & ((f.dst & dst_mask[r]) == dst[r]) & ((f.rest & rest_mask[r]) == rest[r]);
}
static void tuples_batch(uint32_t from) {
    uint8_t v[BATCH];
    const __m512i low = _mm512_set1_epi32(0xffff), twice_low = _mm512_setr_epi32(0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7);
    const __m512i twice_high = _mm512_add_epi32(twice_low, _mm512_set1_epi32(8));
    for (uint32_t i = 0; i < BATCH; i++) {
        struct fields f = fields_of(trace + (size_t)(from + i) * FRAME);
        __m512i a = _mm512_and_si512(_mm512_set1_epi32((int)f.src), lane_src), b = _mm512_and_si512(_mm512_set1_epi32((int)f.dst), lane_dst);
        __m512i c = _mm512_and_si512(_mm512_set1_epi32((int)f.rest), lane_rest);
        __m512i h = _mm512_xor_si512(_mm512_ternarylogic_epi32(_mm512_mullo_epi32(a, _mm512_set1_epi32((int)MIX1)), _mm512_mullo_epi32(b, _mm512_set1_epi32((int)MIX2)),
                                                               _mm512_mullo_epi32(c, _mm512_set1_epi32((int)MIX3)), 0x96), lane_seed);
        h = _mm512_mullo_epi32(_mm512_xor_si512(h, _mm512_srli_epi32(h, 15)), _mm512_set1_epi32((int)MIX4));
        __m512i at = _mm512_add_epi32(_mm512_srlv_epi32(h, lane_shift), lane_base);
        __m512i x = _mm512_i32gather_epi64(_mm512_castsi512_si256(at), bucket, 8);
        __m512i y = _mm512_mask_i32gather_epi64(_mm512_setzero_si512(), (1u << (MASKS - 8)) - 1, _mm512_extracti64x4_epi64(at, 1), bucket, 8);
        __m512i tag = _mm512_and_si512(h, low);
        __mmask16 mx = _mm512_mask_cmpeq_epi32_mask(_mm512_test_epi32_mask(x, low), _mm512_srli_epi32(x, 16), _mm512_permutexvar_epi32(twice_low, tag));
        __mmask16 my = _mm512_mask_cmpeq_epi32_mask(_mm512_test_epi32_mask(y, low), _mm512_srli_epi32(y, 16), _mm512_permutexvar_epi32(twice_high, tag));
        uint32_t found = 0;
        while (mx | my) {
            /* The first rule among the candidates. */
            __m512i rx = _mm512_and_si512(x, low), ry = _mm512_and_si512(y, low);
            uint32_t fx = _mm512_mask_reduce_min_epu32(mx, rx), fy = _mm512_mask_reduce_min_epu32(my, ry), first = fx < fy ? fx : fy;
            if (fits(f, first - 1)) { found = first; break; }
            __m512i gone = _mm512_set1_epi32((int)first);
            mx = _mm512_mask_cmpneq_epi32_mask(mx, rx, gone);
            my = _mm512_mask_cmpneq_epi32_mask(my, ry, gone);
        }
        v[i] = verdict[found];
    }
    tally(v);
}
/* Puts the rules of mask m into 2^bits buckets; false: a bucket would need a third slot. */
static bool fill(uint32_t m, uint64_t *table, uint32_t bits, uint32_t seed) {
    memset(table, 0, sizeof *table << bits);
    for (uint32_t r = m; r < count; r += MASKS) {
        uint32_t h = hash_rule(src[r], dst[r], rest[r], seed), *slot = (uint32_t *)(table + (h >> (32 - bits)));
        uint32_t k = 0;
        for (; k < 2 && slot[k]; k++) {
            uint32_t o = (slot[k] & 0xffff) - 1;
            if (src[o] == src[r] && dst[o] == dst[r] && rest[o] == rest[r]) break;   /* the earlier one decides */
        }
        if (k == 2) return false;
        if (!slot[k]) slot[k] = h << 16 | (r + 1);
    }
    return true;
}
static void make_tuples(void) {
    uint32_t s[16] = {0}, d[16] = {0}, r[16] = {0}, shift[16] = {0}, seed[16] = {0}, base[16] = {0}, bits = 4;
    while (1u << bits < 8 * (count / MASKS)) bits++;
    bucket = aligned_alloc(64, sizeof *bucket * MASKS << bits);
    for (uint32_t m = 0; m < MASKS; m++) {
        s[m] = src_mask[m]; d[m] = dst_mask[m]; r[m] = rest_mask[m]; shift[m] = 32 - bits; base[m] = m << bits;
        uint64_t random = m + 1;
        do seed[m] = (uint32_t)rng_next(&random); while (!fill(m, bucket + base[m], bits, seed[m]));
    }
    lane_src = _mm512_loadu_si512(s); lane_dst = _mm512_loadu_si512(d); lane_rest = _mm512_loadu_si512(r);
    lane_shift = _mm512_loadu_si512(shift); lane_seed = _mm512_loadu_si512(seed); lane_base = _mm512_loadu_si512(base);
}
static void setup(uint32_t n) {
    struct rule *rules = make_rules(n, 42);
    uint32_t **column[6] = {&src, &src_mask, &dst, &dst_mask, &rest, &rest_mask}, padded = (n + 15) & ~15u;
    count = n;
    verdict = calloc(n + 1, 1);
    verdict[0] = NONE;
    for (unsigned i = 0; i < 6; i++) *column[i] = memset(aligned_alloc(64, padded * 4), 0, padded * 4);
    for (uint32_t i = 0; i < padded; i++) {
        if (i >= n) { src[i] = 1; continue; }
        const struct rule *x = rules + i;
        src[i] = x->src; src_mask[i] = prefix(x->src_bits); dst[i] = x->dst; dst_mask[i] = prefix(x->dst_bits);
        rest_mask[i] = (x->has_dport ? 0xffff : 0) | (x->has_proto ? 0xff0000 : 0);
        rest[i] = (x->has_dport ? x->dport : 0) | (x->has_proto ? (uint32_t)x->proto << 16 : 0);
        verdict[i + 1] = x->accept ? ACCEPT : DENY;
    }
    if (n > 16) make_tuples();
    trace = rule_trace(rules, n, 99);
}
static void setup_10(void) { setup(10); }
static void setup_1k(void) { setup(1000); }
static void setup_16k(void) { setup(16384); }
/* Of one pass. */
static void check(void) {
    uint64_t passes = counts.frames / rule_frames();
    printf(",\"accepted\":%lu,\"denied\":%lu,\"unmatched\":%lu", (unsigned long)(accepted / passes), (unsigned long)(denied / passes), (unsigned long)(unmatched / passes));
}
struct job rule_jobs[3] = {{"rules_10", 1u << 16, setup_10, linear_batch, NULL, check}, {"rules_1k", 1u << 16, setup_1k, tuples_batch, NULL, check},
                           {"rules_16k", 1u << 16, setup_16k, tuples_batch, NULL, check}};
