/* The beginning of each text of programs by hand: what they need of `bpf.h`, and it of them. */
#define WL_FAULTS 1
#define WL_ENTRY_WORDS 0
#define WL_MARKS 0
#include "bpf.h"

#pragma clang diagnostic ignored "-Wunused-function"

char _license[] SEC("license") = "GPL";
struct app_state { uint64_t unused; };
volatile uint64_t wl_unknown SEC(".data") = 0;
volatile const uint64_t wl_tick SEC(".rodata") = 1, wl_wall SEC(".rodata") = 0,
    wl_manual SEC(".rodata") = 0;
