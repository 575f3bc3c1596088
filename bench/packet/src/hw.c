/* hw JOB FRAMES [TRACE [hold]]: the hand-written limit. One core, with FRAMES frames of the trace
 * in memory (0: as many as the job has), in batches of 64. It prints CPU ns per frame as JSON. With
 * `hold` it says "ready" behind its setup, and measures from a line of its input on.
 *
 * hw pcap FILE: counts the flows of a capture that is read from a file. hw list: the jobs.
 *
 * Needs AVX-512. Two programs are made of it. With hw_*.c it is the C that is tuned to this machine
 * (clang -O3 -march=native), with plain.c the plain one (clang-19 -O3 -march=native). */
#include "hw.h"
#include <sys/resource.h>

struct counts counts;
uint32_t trace_frames;

static struct job *find(const char *name) {
    struct job *all[] = {&parse_job, flow_jobs, flow_jobs + 1, flow_jobs + 2, flow_jobs + 3, flow_jobs + 4, rule_jobs, rule_jobs + 1, rule_jobs + 2, balance_jobs, balance_jobs + 1, balance_jobs + 2};
    for (unsigned i = 0; i < sizeof all / sizeof *all; i++) {
        if (!all[i]->name) continue;   /* plain.c has fewer */
        if (!name) puts(all[i]->name);
        else if (!strcmp(all[i]->name, name)) return all[i];
    }
    return NULL;
}
/* CPU ns of a pass over the trace. */
static double pass(const struct job *j, uint32_t number) {
    if (j->round) j->round(number);
    double begin = cpu_ns();
    for (uint32_t f = 0; f < j->frames; f += BATCH) j->batch(f);
    return cpu_ns() - begin;
}
static long resident_mib(void) {
    struct rusage u;
    getrusage(RUSAGE_SELF, &u);
    return u.ru_maxrss / 1024;
}

/* Reads a capture of frames of 64 bytes, and counts its flows. */
static int count_capture(const char *file) {
    FILE *f = fopen(file, "rb");
    if (!f) { perror(file); return 1; }
    static uint8_t block[BATCH * (FRAME + 16)], frames[BATCH * FRAME];
    flow_table(1000000);
    fseek(f, 24, SEEK_SET);
    for (size_t n; (n = fread(block, FRAME + 16, BATCH, f)) > 0;) {
        memset(frames, 0, sizeof frames);
        for (size_t i = 0; i < n; i++) memcpy(frames + i * FRAME, block + i * (FRAME + 16) + 16, FRAME);
        flow_count(frames);
    }
    fclose(f);
    printf("{\"bad\":%lu", (unsigned long)counts.bad);
    flow_jobs[2].check();
    puts("}");
    return 0;
}

int main(int argc, char **argv) {
    if (argc == 3 && !strcmp(argv[1], "pcap")) return count_capture(argv[2]);
    if (argc == 2 && !strcmp(argv[1], "list")) { find(NULL); return 0; }
    struct job *j = argc >= 3 && argc <= 5 ? find(argv[1]) : NULL;
    if (!j) { fprintf(stderr, "usage: hw JOB FRAMES [TRACE [hold]]; hw pcap FILE; hw list\n"); return 2; }
    if (argc >= 4 && atoi(argv[3])) trace_frames = j->frames = (uint32_t)strtoul(argv[3], NULL, 10);
    const uint64_t wanted = strtoull(argv[2], NULL, 10);
    /* Tables are filled and memory is touched before the clock runs. Then every flow comes as often
     * as any: the first ones lie where searches begin, and take half as long. */
    const uint32_t warm = j->round ? MANY : 1, least = (uint32_t)((wanted + j->frames - 1) / j->frames), passes = (least + warm - 1) / warm * warm;
    j->setup();
    for (uint32_t i = 0; i < warm; i++) pass(j, i);
    if (argc == 5) { puts("ready"); fflush(stdout); getchar(); }
    double ns = 0;
    for (uint32_t i = 0; i < passes; i++) ns += pass(j, warm + i);
    ns /= (double)j->frames * passes;
    printf("{\"ns\":%.4f,\"frames\":%lu,\"bad\":%lu,\"rss_mib\":%ld", ns, (unsigned long)j->frames * passes, (unsigned long)counts.bad, resident_mib());
    if (j->check) j->check();
    puts("}");
    return 0;
}
