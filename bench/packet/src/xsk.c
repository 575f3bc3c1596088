/* xsk forward IN OUT: the plainest AF_XDP forwarder. It sends the frames of one interface out
 * through the other, untouched: one queue, copy mode, batches of 64; it sleeps in poll() when idle.
 * xsk drop IF: an XDP program that drops all (the far end, which must not load the forwarder's
 * core). xsk send IF PCAP RATE SECONDS BURST: sends the frames of a capture, in bursts, RATE a
 * second. xsk live IF SIZE RATE SECONDS BURST: the same with UDP frames of a size. They come as a
 * card's do: in pages, each line of memory written anew by another CPU. Each prints "ok" when it is
 * ready and runs until it is killed. System calls only, no library. */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/if_link.h>
#include <linux/if_packet.h>
#include <linux/if_xdp.h>
#include <net/if.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
#include <arpa/inet.h>

#define ENTRIES 2048u
#define CHUNK 4096u
#define BUFFERS 4096u
#define BATCH 64u

static void need(int ok, const char *what) { if (!ok) { perror(what); exit(1); } }
static int bpf(int command, union bpf_attr *a) { return (int)syscall(SYS_bpf, command, a, sizeof *a); }

/* ---- the XDP program ---- */

static int load(const struct bpf_insn *code, uint32_t n) {
    union bpf_attr a = {.prog_type = BPF_PROG_TYPE_XDP, .insn_cnt = n, .insns = (uint64_t)(uintptr_t)code, .license = (uint64_t)(uintptr_t) "Apache-2.0", .expected_attach_type = BPF_XDP};
    int fd = bpf(BPF_PROG_LOAD, &a);
    need(fd >= 0, "load");
    return fd;
}
static void attach(int program, uint32_t interface) {
    union bpf_attr a = {.link_create = {.prog_fd = (uint32_t)program, .target_ifindex = interface, .attach_type = BPF_XDP, .flags = XDP_FLAGS_DRV_MODE}};
    need(bpf(BPF_LINK_CREATE, &a) >= 0, "attach");
}
static void drop_all(uint32_t interface) {
    const struct bpf_insn code[] = {{.code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = BPF_REG_0, .imm = XDP_DROP}, {.code = BPF_JMP | BPF_EXIT}};
    attach(load(code, 2), interface);
}
/* All frames go to the socket of their queue. */
static void redirect(uint32_t interface, int socket) {
    union bpf_attr m = {.map_type = BPF_MAP_TYPE_XSKMAP, .key_size = 4, .value_size = 4, .max_entries = 1};
    int map = bpf(BPF_MAP_CREATE, &m);
    need(map >= 0, "map");
    uint32_t queue = 0;
    union bpf_attr u = {.map_fd = (uint32_t)map, .key = (uint64_t)(uintptr_t)&queue, .value = (uint64_t)(uintptr_t)&socket};
    need(!bpf(BPF_MAP_UPDATE_ELEM, &u), "map entry");
    const struct bpf_insn code[] = {
        {.code = BPF_LDX | BPF_MEM | BPF_W, .dst_reg = BPF_REG_2, .src_reg = BPF_REG_1, .off = 16},
        {.code = BPF_LD | BPF_DW | BPF_IMM, .dst_reg = BPF_REG_1, .src_reg = BPF_PSEUDO_MAP_FD, .imm = map},
        {.code = 0},
        {.code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = BPF_REG_3, .imm = XDP_DROP},
        {.code = BPF_JMP | BPF_CALL, .imm = BPF_FUNC_redirect_map},
        {.code = BPF_JMP | BPF_EXIT},
    };
    attach(load(code, 6), interface);
}

/* A program that a test run executes. Each frame gets another source port and new bytes in each of
 * its lines, and leaves through the interface. Each `burst` frames, a power of two, wait for their
 * time. */
static int pacer(uint32_t interface, uint32_t size, uint64_t gap, uint32_t burst) {
    /* How many frames have come, and when the next burst is due. */
    union bpf_attr m = {.map_type = BPF_MAP_TYPE_ARRAY, .key_size = 4, .value_size = 16, .max_entries = 1};
    int map = bpf(BPF_MAP_CREATE, &m);
    need(map >= 0, "map");
    /* The kernel follows at most 8,192 branches, so a look takes some time. */
    enum { LOOKS = 8000, CLOCKS = 4, MOST = 256 };
    struct bpf_insn code[MOST];
    uint32_t n = 0;
#define I(op, dst, src, o, im) code[n++] = (struct bpf_insn){.code = (op), .dst_reg = (dst), .src_reg = (src), .off = (int16_t)(o), .imm = (int32_t)(im)}
    I(BPF_LDX | BPF_MEM | BPF_W, 7, 1, 0, 0);          /* r7, r8: begin and end of the frame */
    I(BPF_LDX | BPF_MEM | BPF_W, 8, 1, 4, 0);
    I(BPF_ST | BPF_MEM | BPF_W, 10, 0, -4, 0);
    I(BPF_ALU64 | BPF_MOV | BPF_X, 2, 10, 0, 0);
    I(BPF_ALU64 | BPF_ADD | BPF_K, 2, 0, 0, -4);
    I(BPF_LD | BPF_DW | BPF_IMM, 1, BPF_PSEUDO_MAP_FD, 0, map);
    I(0, 0, 0, 0, 0);
    I(BPF_JMP | BPF_CALL, 0, 0, 0, BPF_FUNC_map_lookup_elem);
    I(BPF_JMP | BPF_JNE | BPF_K, 0, 0, 1, 0);
    I(BPF_JMP | BPF_EXIT, 0, 0, 0, 0);
    I(BPF_ALU64 | BPF_MOV | BPF_X, 9, 0, 0, 0);        /* r9: the map's value */
    I(BPF_LDX | BPF_MEM | BPF_DW, 6, 9, 0, 0);         /* r6: the frame's number */
    I(BPF_ALU64 | BPF_MOV | BPF_X, 1, 6, 0, 0);
    I(BPF_ALU64 | BPF_ADD | BPF_K, 1, 0, 0, 1);
    I(BPF_STX | BPF_MEM | BPF_DW, 9, 1, 0, 0);
    I(BPF_ALU64 | BPF_MOV | BPF_X, 1, 6, 0, 0);
    I(BPF_ALU64 | BPF_AND | BPF_K, 1, 0, 0, burst - 1);
    const uint32_t paced = n;
    I(BPF_JMP | BPF_JNE | BPF_K, 1, 0, 0, 0);          /* not the first of a burst: write */
    I(BPF_STX | BPF_MEM | BPF_DW, 10, 6, -16, 0);
    I(BPF_ALU64 | BPF_MOV | BPF_K, 6, 0, 0, LOOKS);
    for (uint32_t i = 0; i < CLOCKS; i++) I(BPF_JMP | BPF_CALL, 0, 0, 0, BPF_FUNC_ktime_get_ns);
    I(BPF_LDX | BPF_MEM | BPF_DW, 1, 9, 8, 0);
    I(BPF_JMP | BPF_JGE | BPF_X, 0, 1, 2, 0);          /* due */
    I(BPF_ALU64 | BPF_SUB | BPF_K, 6, 0, 0, 1);
    I(BPF_JMP | BPF_JNE | BPF_K, 6, 0, -4 - CLOCKS, 0);  /* look again */
    /* One that is late by more than a burst does not catch up. */
    I(BPF_ALU64 | BPF_MOV | BPF_X, 2, 0, 0, 0);
    I(BPF_ALU64 | BPF_SUB | BPF_X, 2, 1, 0, 0);
    I(BPF_JMP | BPF_JLT | BPF_K, 2, 0, 1, gap);
    I(BPF_ALU64 | BPF_MOV | BPF_X, 1, 0, 0, 0);
    I(BPF_ALU64 | BPF_ADD | BPF_K, 1, 0, 0, gap);
    I(BPF_STX | BPF_MEM | BPF_DW, 9, 1, 8, 0);
    I(BPF_LDX | BPF_MEM | BPF_DW, 6, 10, -16, 0);
    code[paced].off = (int16_t)(n - paced - 1);
    for (uint32_t at = 56; at + 8 <= size; at += 64) {
        I(BPF_ALU64 | BPF_MOV | BPF_X, 1, 7, 0, 0);
        I(BPF_ALU64 | BPF_ADD | BPF_K, 1, 0, 0, at + 8);
        I(BPF_JMP | BPF_JGT | BPF_X, 1, 8, 1, 0);
        I(BPF_STX | BPF_MEM | BPF_DW, 7, 6, at, 0);
    }
    I(BPF_ALU64 | BPF_AND | BPF_K, 6, 0, 0, 1023);
    I(BPF_ALU64 | BPF_MOV | BPF_X, 1, 7, 0, 0);
    I(BPF_ALU64 | BPF_ADD | BPF_K, 1, 0, 0, 36);
    I(BPF_JMP | BPF_JGT | BPF_X, 1, 8, 1, 0);
    I(BPF_STX | BPF_MEM | BPF_H, 7, 6, 34, 0);
    I(BPF_ALU64 | BPF_MOV | BPF_K, 1, 0, 0, interface);
    I(BPF_ALU64 | BPF_MOV | BPF_K, 2, 0, 0, 0);
    I(BPF_JMP | BPF_CALL, 0, 0, 0, BPF_FUNC_redirect);
    I(BPF_JMP | BPF_EXIT, 0, 0, 0, 0);
#undef I
    return load(code, n);
}

/* ---- sockets ---- */

struct ring { uint32_t *producer, *consumer, *flags; void *items; };
struct xsk { int fd; struct ring rx, tx, fill, done; };

static struct ring ring(int fd, const struct xdp_ring_offset *o, size_t item, uint64_t page) {
    char *p = mmap(NULL, o->desc + ENTRIES * item, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, (off_t)page);
    need(p != MAP_FAILED, "ring");
    return (struct ring){(void *)(p + o->producer), (void *)(p + o->consumer), (void *)(p + o->flags), p + o->desc};
}
/* `umem`: the memory, for the first socket; the others share that of `first`. */
static struct xsk open_xsk(uint32_t interface, void *umem, int first) {
    struct xsk x = {.fd = socket(AF_XDP, SOCK_RAW, 0)};
    const uint32_t n = ENTRIES;
    need(x.fd >= 0, "socket");
    if (umem) {
        struct xdp_umem_reg r = {.addr = (uint64_t)(uintptr_t)umem, .len = (uint64_t)BUFFERS * CHUNK, .chunk_size = CHUNK};
        need(!setsockopt(x.fd, SOL_XDP, XDP_UMEM_REG, &r, sizeof r), "umem");
    }
    static const int rings[] = {XDP_UMEM_FILL_RING, XDP_UMEM_COMPLETION_RING, XDP_RX_RING, XDP_TX_RING};
    for (unsigned i = 0; i < 4; i++) need(!setsockopt(x.fd, SOL_XDP, rings[i], &n, sizeof n), "ring size");
    struct xdp_mmap_offsets o;
    socklen_t size = sizeof o;
    need(!getsockopt(x.fd, SOL_XDP, XDP_MMAP_OFFSETS, &o, &size), "offsets");
    x.rx = ring(x.fd, &o.rx, sizeof(struct xdp_desc), XDP_PGOFF_RX_RING);
    x.tx = ring(x.fd, &o.tx, sizeof(struct xdp_desc), XDP_PGOFF_TX_RING);
    x.fill = ring(x.fd, &o.fr, 8, XDP_UMEM_PGOFF_FILL_RING);
    x.done = ring(x.fd, &o.cr, 8, XDP_UMEM_PGOFF_COMPLETION_RING);
    struct sockaddr_xdp a = {.sxdp_family = AF_XDP, .sxdp_ifindex = interface, .sxdp_flags = umem ? XDP_COPY | XDP_USE_NEED_WAKEUP : XDP_SHARED_UMEM, .sxdp_shared_umem_fd = umem ? 0 : (uint32_t)first};
    need(!bind(x.fd, (void *)&a, sizeof a), "bind");
    return x;
}
static uint32_t load_acquire(const uint32_t *p) { return __atomic_load_n(p, __ATOMIC_ACQUIRE); }
static void store_release(uint32_t *p, uint32_t v) { __atomic_store_n(p, v, __ATOMIC_RELEASE); }

static void forward(uint32_t in, uint32_t out) {
    void *umem = mmap(NULL, (size_t)BUFFERS * CHUNK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    need(umem != MAP_FAILED, "memory");
    struct xsk r = open_xsk(in, umem, -1), s = open_xsk(out, NULL, r.fd);
    uint64_t *fill = r.fill.items, *done = s.done.items;
    for (uint32_t i = 0; i < ENTRIES; i++) fill[i] = (uint64_t)i * CHUNK;
    uint32_t filled = ENTRIES, received = 0, sent = 0, back = 0;
    store_release(r.fill.producer, filled);
    redirect(in, r.fd);
    puts("ok");
    fflush(stdout);
    struct pollfd p = {.fd = r.fd, .events = POLLIN};
    for (;;) {
        /* Sent buffers may be filled again. */
        uint32_t ready = load_acquire(s.done.producer) - back;
        for (uint32_t i = 0; i < ready; i++) fill[filled++ & (ENTRIES - 1)] = done[back++ & (ENTRIES - 1)] & ~(uint64_t)(CHUNK - 1);
        if (ready) { store_release(s.done.consumer, back); store_release(r.fill.producer, filled); }
        uint32_t n = load_acquire(r.rx.producer) - received;
        if (!n) {
            if (sent != back) { sendto(s.fd, NULL, 0, MSG_DONTWAIT, NULL, 0); continue; }
            poll(&p, 1, 100);
            continue;
        }
        n = n < BATCH ? n : BATCH;
        for (uint32_t i = 0; i < n; i++) ((struct xdp_desc *)s.tx.items)[sent++ & (ENTRIES - 1)] = ((struct xdp_desc *)r.rx.items)[received++ & (ENTRIES - 1)];
        store_release(r.rx.consumer, received);
        store_release(s.tx.producer, sent);
        while (load_acquire(s.tx.consumer) != sent && (sendto(s.fd, NULL, 0, MSG_DONTWAIT, NULL, 0) >= 0 || errno == EAGAIN || errno == EBUSY)) {}
    }
}

/* ---- the generator ---- */

static uint64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}
static void generate(uint32_t interface, const char *file, double rate, double seconds, uint32_t burst) {
    enum { FRAMES = 4096, MOST = 2048 };
    static uint8_t frame[FRAMES][MOST];
    static uint32_t length[FRAMES];
    uint32_t n = 0, record[4];
    FILE *f = fopen(file, "rb");
    need(f != NULL, file);
    fseek(f, 24, SEEK_SET);
    while (n < FRAMES && fread(record, 16, 1, f) == 1 && record[2] <= MOST && fread(frame[n], record[2], 1, f) == 1) length[n++] = record[2];
    need(n > 0, "no frames");
    int fd = socket(AF_PACKET, SOCK_RAW, 0), one = 1;
    need(fd >= 0, "socket");
    struct sockaddr_ll a = {.sll_family = AF_PACKET, .sll_protocol = htons(ETH_P_ALL), .sll_ifindex = (int)interface};
    setsockopt(fd, SOL_PACKET, PACKET_QDISC_BYPASS, &one, sizeof one);
    need(!bind(fd, (void *)&a, sizeof a), "bind");
    puts("ok");
    fflush(stdout);
    struct mmsghdr message[1024];
    struct iovec part[1024];
    burst = burst < 1024 ? burst : 1024;
    const uint64_t begin = now_ns(), end = begin + (uint64_t)(seconds * 1e9);
    uint64_t sent = 0;
    for (uint64_t due = begin; due < end; due += (uint64_t)(burst * 1e9 / rate)) {
        while (now_ns() < due) { struct timespec t = {0, 20000}; nanosleep(&t, NULL); }
        for (uint32_t i = 0; i < burst; i++) {
            uint32_t k = (uint32_t)((sent + i) % n);
            part[i] = (struct iovec){frame[k], length[k]};
            message[i] = (struct mmsghdr){.msg_hdr = {.msg_iov = &part[i], .msg_iovlen = 1}};
        }
        int done = sendmmsg(fd, message, burst, 0);
        if (done > 0) sent += (uint32_t)done;
    }
    printf("%lu\n", (unsigned long)sent);
}

static void generate_live(uint32_t interface, uint32_t size, double rate, double seconds, uint32_t burst) {
    static uint8_t frame[2048] = {2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0, 0x45, 0, 0, 0, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 1, 0, 1, 0, 0, 0, 53};
    if (size < 60 || size > sizeof frame || burst & (burst - 1)) { fprintf(stderr, "size or burst\n"); exit(2); }
    const uint32_t ip = size - 14, udp = size - 34;
    (frame[16] = (uint8_t)(ip >> 8), frame[17] = (uint8_t)ip, frame[38] = (uint8_t)(udp >> 8), frame[39] = (uint8_t)udp);
    uint32_t sum = 0;
    for (uint32_t i = 14; i < 34; i += 2) sum += (uint32_t)frame[i] << 8 | frame[i + 1];
    sum = (sum & 0xffff) + (sum >> 16);
    sum = ~((sum & 0xffff) + (sum >> 16));
    (frame[24] = (uint8_t)(sum >> 8), frame[25] = (uint8_t)sum);
    int program = pacer(interface, size, (uint64_t)(burst * 1e9 / rate), burst);
    puts("ok");
    fflush(stdout);
    union bpf_attr a = {.test = {.prog_fd = (uint32_t)program, .data_in = (uint64_t)(uintptr_t)frame, .data_size_in = size, .repeat = (uint32_t)(rate * seconds), .flags = BPF_F_TEST_XDP_LIVE_FRAMES, .batch_size = burst}};
    need(bpf(BPF_PROG_TEST_RUN, &a) >= 0 || errno == EINTR, "test run");
}

int main(int argc, char **argv) {
    const char *what = argc > 2 ? argv[1] : "";
    uint32_t first = argc > 2 ? if_nametoindex(argv[2]) : 0, second = argc > 3 ? if_nametoindex(argv[3]) : 0;
    if (!strcmp(what, "forward") && first && second) forward(first, second);
    else if (!strcmp(what, "drop") && first) { drop_all(first); puts("ok"); fflush(stdout); for (;;) pause(); }
    else if (!strcmp(what, "send") && first && argc == 7) generate(first, argv[3], atof(argv[4]), atof(argv[5]), (uint32_t)atoi(argv[6]));
    else if (!strcmp(what, "live") && first && argc == 7) generate_live(first, (uint32_t)atoi(argv[3]), atof(argv[4]), atof(argv[5]), (uint32_t)atoi(argv[6]));
    else { fprintf(stderr, "usage: xsk forward IN OUT | drop IF | send IF PCAP RATE SECONDS BURST | live IF SIZE RATE SECONDS BURST\n"); return 2; }
    return 0;
}
