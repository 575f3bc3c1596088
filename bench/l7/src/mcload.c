/* mcload: closed-loop memcached GET load generator. One thread, epoll, N connections with P
 * outstanding GETs each, ASCII or binary protocol. Keys have 32 bytes, values 64; a value is a
 * function of its key and every reply is compared in full.
 * usage: mcload -p PORT -c CONNS -d SECONDS [-P DEPTH] [-b] [-k] [-n KEYS]     -b binary, -k getk
 *        mcload -L port,port,... [-n KEYS]           store every key on each of these servers */
#define _GNU_SOURCE
#include "common.h"
#include "histogram.h"
#include <errno.h>
#include <fcntl.h>
#include <sys/epoll.h>

enum { KEY_LEN = 32, VALUE_LEN = 64, BINARY_HEAD = 24, IN_SIZE = 32768, OUT_SIZE = 65536 };
enum { MAX_EVENTS = 256, OP_GET = 0x00, OP_GETK = 0x0c };

static struct {
    int port, conns, depth, binary, getk, keys;
    double seconds;
    char *preload;
} opt = {.conns = 128, .depth = 1, .keys = 10000, .seconds = 3};

/* Prepared once: every key, value, request and expected reply, back to back. */
static char *keys, *values, *requests, *replies;
static uint32_t request_len, reply_len;

struct conn {
    int fd;
    uint32_t in_len;
    uint32_t head;      /* ring position of the oldest outstanding GET */
    uint32_t *asked;    /* ring: which key */
    uint64_t *asked_at; /* ring: when */
    char in[IN_SIZE];
};

static struct histogram latency;
static uint64_t done, misses, wrong, lost;
static int epoll_fd, live;

static uint32_t random_key(void)
{
    static uint64_t seed = 88172645463325252ull; /* xorshift */
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return (uint32_t)((seed >> 16) % (uint64_t)opt.keys);
}

static void make_key(int i)
{
    char text[128], *value = values + (size_t)i * VALUE_LEN;
    snprintf(text, sizeof text, "key:%08x:%019u", (unsigned)i * 2654435761u, (unsigned)i);
    memcpy(keys + (size_t)i * KEY_LEN, text, KEY_LEN);
    for (int j = 0; j < VALUE_LEN; j++)
        value[j] = (char)('a' + ((i >> (j % 12)) + j * 7 + i) % 26);
}

static void make_ascii(int i)
{
    char *key = keys + (size_t)i * KEY_LEN, *value = values + (size_t)i * VALUE_LEN;
    char *req = requests + (size_t)i * request_len, *rep = replies + (size_t)i * reply_len;
    memcpy(req, "get ", 4);
    memcpy(req + 4, key, KEY_LEN);
    memcpy(req + 4 + KEY_LEN, "\r\n", 2);
    memcpy(rep, "VALUE ", 6);
    memcpy(rep + 6, key, KEY_LEN);
    memcpy(rep + 6 + KEY_LEN, " 0 64\r\n", 7);
    memcpy(rep + 13 + KEY_LEN, value, VALUE_LEN);
    memcpy(rep + 13 + KEY_LEN + VALUE_LEN, "\r\nEND\r\n", 7);
}

static void make_binary(int i)
{
    char *key = keys + (size_t)i * KEY_LEN, *value = values + (size_t)i * VALUE_LEN;
    char *req = requests + (size_t)i * request_len, *rep = replies + (size_t)i * reply_len;
    char echoed_key = opt.getk ? KEY_LEN : 0;
    uint32_t opaque = (uint32_t)i;

    memset(req, 0, BINARY_HEAD);
    req[0] = (char)0x80;
    req[1] = opt.getk ? OP_GETK : OP_GET;
    req[3] = KEY_LEN;  /* key length, low byte */
    req[11] = KEY_LEN; /* body length, low byte */
    memcpy(req + 12, &opaque, sizeof opaque);
    memcpy(req + BINARY_HEAD, key, KEY_LEN);

    memset(rep, 0, BINARY_HEAD + 4); /* head and the four bytes of flags */
    rep[0] = (char)0x81;
    rep[1] = req[1];
    rep[3] = echoed_key;
    rep[4] = 4;
    rep[11] = (char)(4 + VALUE_LEN + echoed_key);
    memcpy(rep + 12, &opaque, sizeof opaque);
    memcpy(rep + BINARY_HEAD + 4, key, (size_t)echoed_key);
    memcpy(rep + BINARY_HEAD + 4 + echoed_key, value, VALUE_LEN);
}

static void prepare(void)
{
    request_len = opt.binary ? BINARY_HEAD + KEY_LEN : 4 + KEY_LEN + 2;
    reply_len = opt.binary ? (uint32_t)(BINARY_HEAD + 4 + (opt.getk ? KEY_LEN : 0) + VALUE_LEN)
                           : 6 + KEY_LEN + 7 + VALUE_LEN + 7;
    keys = malloc((size_t)opt.keys * KEY_LEN);
    values = malloc((size_t)opt.keys * VALUE_LEN);
    requests = malloc((size_t)opt.keys * request_len);
    replies = malloc((size_t)opt.keys * reply_len);
    for (int i = 0; i < opt.keys; i++) {
        make_key(i);
        if (opt.binary)
            make_binary(i);
        else
            make_ascii(i);
    }
}

static void preload(void)
{
    int ports[MAX_BACKENDS], count = parse_ports(opt.preload, ports);
    char text[512];
    for (int p = 0; p < count; p++) {
        int fd = connect_to(ports[p]);
        for (int i = 0; i < opt.keys; i++) {
            int n = snprintf(text, sizeof text, "set %.32s 0 0 64 noreply\r\n%.64s\r\n",
                             keys + (size_t)i * KEY_LEN, values + (size_t)i * VALUE_LEN);
            send_all(fd, text, (size_t)n);
        }
        send_all(fd, "version\r\n", 9); /* its answer says that everything before it was read */
        if (read(fd, text, sizeof text) < 8 || memcmp(text, "VERSION", 7))
            die("preload");
        close(fd);
    }
}

static uint32_t ask(struct conn *c, uint32_t slot, uint64_t now, char *out)
{
    uint32_t key = random_key();
    c->asked[slot] = key;
    c->asked_at[slot] = now;
    memcpy(out, requests + (size_t)key * request_len, request_len);
    return request_len;
}

/* Length of the complete reply at `in`, or 0; counts it if it is a miss or not the expected one. */
static uint32_t check_ascii(const char *in, uint32_t have, const char *expected)
{
    if (in[0] == 'V') {
        if (have < reply_len)
            return 0;
        wrong += memcmp(in, expected, reply_len) != 0;
        return reply_len;
    }
    const char *end = memchr(in, '\n', have);
    if (!end)
        return 0;
    if (memcmp(in, "END", 3))
        wrong++;
    else
        misses++;
    return (uint32_t)(end - in) + 1;
}

static uint32_t check_binary(const char *in, uint32_t have, const char *expected)
{
    uint32_t body, len;
    if (have < BINARY_HEAD)
        return 0;
    memcpy(&body, in + 8, sizeof body);
    len = BINARY_HEAD + ntohl(body);
    if (len > IN_SIZE) {
        wrong++;
        return have;
    }
    if (have < len)
        return 0;
    if (in[6] | in[7])
        misses++;
    else if (len != reply_len || memcmp(in, expected, 16) /* all but CAS */ ||
             memcmp(in + BINARY_HEAD, expected + BINARY_HEAD, reply_len - BINARY_HEAD))
        wrong++;
    return len;
}

static void hang_up(struct conn *c)
{
    lost++;
    live--;
    close(c->fd);
}

/* Reads and checks replies, and sends a request for each. */
static void serve(struct conn *c)
{
    static char out[OUT_SIZE];
    uint32_t used = 0, out_len = 0;
    ssize_t got = recv(c->fd, c->in + c->in_len, sizeof c->in - c->in_len, 0);
    if (got <= 0) {
        if (got == 0 || errno != EAGAIN)
            hang_up(c);
        return;
    }
    c->in_len += (uint32_t)got;
    uint64_t now = now_ns();
    while (c->in_len - used >= 5) { /* the shortest reply is "END\r\n" */
        uint32_t slot = c->head % (uint32_t)opt.depth;
        const char *expected = replies + (size_t)c->asked[slot] * reply_len;
        uint32_t len = opt.binary ? check_binary(c->in + used, c->in_len - used, expected)
                                  : check_ascii(c->in + used, c->in_len - used, expected);
        if (!len)
            break;
        used += len;
        done++;
        hist_add(&latency, now - c->asked_at[slot]);
        out_len += ask(c, slot, now, out + out_len);
        c->head++;
        if (out_len + request_len > sizeof out)
            break;
    }
    memmove(c->in, c->in + used, c->in_len - used);
    c->in_len -= used;
    if (!out_len)
        return;
    ssize_t sent = send(c->fd, out, out_len, MSG_NOSIGNAL);
    if (sent == (ssize_t)out_len)
        return;
    if (sent < 0 && errno != EAGAIN) {
        hang_up(c);
        return;
    }
    fprintf(stderr, "the server does not read: short send\n");
    exit(3);
}

static struct conn *open_conn(void)
{
    struct conn *c = calloc(1, sizeof *c);
    c->fd = connect_to(opt.port);
    fcntl(c->fd, F_SETFL, O_NONBLOCK);
    c->asked = calloc((size_t)opt.depth, sizeof *c->asked);
    c->asked_at = calloc((size_t)opt.depth, sizeof *c->asked_at);
    struct epoll_event ev = {.events = EPOLLIN, .data.ptr = c};
    epoll_ctl(epoll_fd, EPOLL_CTL_ADD, c->fd, &ev);
    return c;
}

static double run(void)
{
    char out[OUT_SIZE];
    struct epoll_event events[MAX_EVENTS];
    struct conn **all = calloc((size_t)opt.conns, sizeof *all);
    epoll_fd = epoll_create1(0);
    for (int i = 0; i < opt.conns; i++)
        all[i] = open_conn();
    live = opt.conns;

    uint64_t start = now_ns(), end = start + (uint64_t)(opt.seconds * 1e9);
    for (int i = 0; i < opt.conns; i++) {
        uint32_t len = 0;
        for (int j = 0; j < opt.depth; j++)
            len += ask(all[i], (uint32_t)j, now_ns(), out + len);
        send_all(all[i]->fd, out, len);
    }
    while (live && now_ns() < end) {
        int n = epoll_wait(epoll_fd, events, MAX_EVENTS, 100);
        for (int i = 0; i < n; i++)
            serve(events[i].data.ptr);
    }
    return (double)(now_ns() - start) / 1e9;
}

static int parse_options(int argc, char **argv)
{
    int o;
    while ((o = getopt(argc, argv, "p:c:d:P:bkn:L:")) > 0)
        switch (o) {
        case 'p': opt.port = atoi(optarg); break;
        case 'c': opt.conns = atoi(optarg); break;
        case 'd': opt.seconds = atof(optarg); break;
        case 'P': opt.depth = atoi(optarg); break;
        case 'b': opt.binary = 1; break;
        case 'k': opt.binary = opt.getk = 1; break;
        case 'n': opt.keys = atoi(optarg); break;
        case 'L': opt.preload = optarg; break;
        default: return 0;
        }
    return opt.depth >= 1 && opt.depth <= 512 && opt.keys >= 1 && opt.conns >= 1;
}

int main(int argc, char **argv)
{
    if (!parse_options(argc, argv))
        return 2;
    raise_fd_limit();
    prepare();
    if (opt.preload) {
        preload();
        return 0;
    }
    double seconds = run();
    printf("{\"requests\":%lu,\"seconds\":%.4f,\"rps\":%.1f,\"p50_us\":%.1f,\"p90_us\":%.1f,"
           "\"p99_us\":%.1f,\"p999_us\":%.1f,\"max_us\":%.1f,\"miss\":%lu,\"errors\":%lu}\n",
           done, seconds, (double)done / seconds, hist_percentile_us(&latency, 50),
           hist_percentile_us(&latency, 90), hist_percentile_us(&latency, 99),
           hist_percentile_us(&latency, 99.9), hist_percentile_us(&latency, 99.9999), misses,
           wrong + lost);
    return 0;
}
