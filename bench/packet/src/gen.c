/* gen DIR: writes the traces as captures and the rules as JSON, for programs that read files.
 * gen DIR FRAMES: only the traces that are measured at several sizes, with so many frames each. */
#include "trace.h"

uint32_t trace_frames;

static FILE *create(const char *dir, const char *name, uint32_t n, const char *suffix) {
    char path[512];
    snprintf(path, sizeof path, "%s/%s%u%s", dir, name, n, suffix);
    FILE *f = fopen(path, "wb");
    if (!f) { perror(path); exit(1); }
    setvbuf(f, NULL, _IOFBF, 1 << 20);
    return f;
}
/* Writes the frames, and frees them. */
static void capture(const char *dir, const char *name, uint32_t n, const char *suffix, uint8_t *trace, uint32_t frames) {
    FILE *f = create(dir, name, n, suffix);
    uint32_t head[6] = {0xa1b2c3d4, 0x00040002, 0, 0, 65535, 1};
    fwrite(head, 1, sizeof head, f);
    for (uint32_t i = 0; i < frames; i++) {
        uint32_t record[4] = {1700000000u + i / 1000000, i % 1000000, FRAME, FRAME};
        fwrite(record, 1, sizeof record, f);
        fwrite(trace + (size_t)i * FRAME, 1, FRAME, f);
    }
    if (fclose(f)) { perror(name); exit(1); }
    munmap(trace, (size_t)frames * FRAME);
}
/* Packets of `bytes` from many sources to the VIP's network, for tunnels. */
static void sized(const char *dir, uint32_t bytes, uint32_t frames) {
    FILE *f = create(dir, "plain", bytes, ".pcap");
    uint32_t head[6] = {0xa1b2c3d4, 0x00040002, 0, 0, 65535, 1};
    fwrite(head, 1, sizeof head, f);
    for (uint32_t i = 0; i < frames; i++) {
        static uint8_t p[14 + 2048];
        struct tuple t = flow_tuple(i);
        make_frame(p, t.src, VIP, t.sport, t.dport, 17);
        uint16_t total = htons((uint16_t)bytes), udp = htons((uint16_t)(bytes - 20)), sum = 0;
        memcpy(p + 16, &total, 2);
        memcpy(p + 38, &udp, 2);
        memcpy(p + 24, &sum, 2);
        sum = header_sum(p + 14, 20);
        memcpy(p + 24, &sum, 2);
        uint32_t record[4] = {1700000000u + i / 1000000, i % 1000000, 14 + bytes, 14 + bytes};
        fwrite(record, 1, sizeof record, f);
        fwrite(p, 1, 14 + bytes, f);
    }
    if (fclose(f)) { perror("plain"); exit(1); }
}
static void address(FILE *f, const char *name, uint32_t a, unsigned bits) {
    if (bits) fprintf(f, "\"%s\":\"%u.%u.%u.%u/%u\",", name, a >> 24, a >> 16 & 255, a >> 8 & 255, a & 255, bits);
}
/* The first rule has the highest priority. */
static void rules_json(FILE *f, const struct rule *r, uint32_t n, uint32_t above) {
    for (uint32_t i = 0; i < n; i++) {
        fprintf(f, "%s{\"priority\":%u,", i ? ",\n" : "[", above + n - i);
        address(f, "src", r[i].src, r[i].src_bits);
        address(f, "dst", r[i].dst, r[i].dst_bits);
        if (r[i].has_dport) fprintf(f, "\"dport\":%u,", r[i].dport);
        if (r[i].has_proto) fprintf(f, "\"proto\":%u,", r[i].proto);
        fprintf(f, "\"action\":\"%s\"}", r[i].accept ? "accept" : "drop");
    }
    fprintf(f, "]\n");
    if (fclose(f)) { perror("rules"); exit(1); }
}

/* One behind the other: a trace of each kind, with `frames` in its name if that was asked for. */
static void traces(const char *dir) {
    static const uint32_t flows[] = {1000, 100000, 1000000}, rules[] = {10, 1000, 16384};
    char suffix[32] = ".pcap";
    if (trace_frames) snprintf(suffix, sizeof suffix, "-%u.pcap", trace_frames);
    for (unsigned i = 0; i < 3; i++) capture(dir, "flow", flows[i], suffix, flow_trace(flows[i], flow_frames(flows[i]), 7 + i, 0), flow_frames(flows[i]));
    capture(dir, "vip", 1000, suffix, flow_trace(1000, flow_frames(1000), 5, VIP), flow_frames(1000));
    capture(dir, "vip", 1000000, suffix, flow_trace(1000000, flow_frames(1000000), 7, VIP), flow_frames(1000000));
    for (unsigned i = 0; i < 3; i++) {
        struct rule *r = make_rules(rules[i], 42);
        capture(dir, "rules", rules[i], suffix, rule_trace(r, rules[i], 99), rule_frames());
        if (!trace_frames) rules_json(create(dir, "rules", rules[i], ".json"), r, rules[i], 100000);
    }
}

int main(int argc, char **argv) {
    if (argc != 2 && argc != 3) { fprintf(stderr, "usage: gen DIR [FRAMES]\n"); return 2; }
    if (argc == 3) {
        trace_frames = (uint32_t)strtoul(argv[2], NULL, 10);
        traces(argv[1]);
        return 0;
    }
    traces(argv[1]);
    capture(argv[1], "burst", 1000, ".pcap", burst_trace(1000, flow_frames(1000), 7, 0, BURST), flow_frames(1000));
    capture(argv[1], "vip", EACH, ".pcap", each_flow_trace(), EACH);
    sized(argv[1], 64, 16384);
    sized(argv[1], 1500, 4096);
    /* Further rules to insert while frames flow: of lower priority than the others, so that the
       verdicts stay. */
    struct rule *more = make_rules(8192, 43);
    rules_json(create(argv[1], "more", 8192, ".json"), more, 8192, 0);
    return 0;
}
