/* Headers looked at, frames and bytes counted. */
#include "hw.h"

static uint8_t *trace;

static void parse_setup(void) { trace = flow_trace(1000, flow_frames(1000), 7, 0); }
static void parse_batch(uint32_t from) {
    uint64_t bytes = 0, bad = 0, udp = 0;
    for (uint32_t i = 0; i < BATCH; i++) {
        const uint8_t *p = trace + (size_t)(from + i) * FRAME;
        bool ok = parse(p, FRAME);
        udp += ok & (p[23] == 17);
        bad += !ok;
        bytes += ok ? FRAME : 0;
    }
    counts.frames += BATCH; counts.bytes += bytes; counts.bad += bad; counts.udp += udp;
}
struct job parse_job = {"parse", 1u << 18, parse_setup, parse_batch, NULL, NULL};
