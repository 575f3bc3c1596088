/* floor_merge: the least a word-count combiner can do. One thread serves eight mappers. A linear
 * scan over the streams' first words finds the smallest. Equal words are added up, and the result
 * goes to the reducer. Blocking sockets with large buffers, no protocol safety, a fixed fan-in.
 * usage: floor_merge LISTENPORT REDUCERPORT */
#define _GNU_SOURCE
#include "common.h"
#include "words.h"

enum { STREAMS = 8, IN_SIZE = 1 << 18, OUT_SIZE = 1 << 18 };

/* One mapper's stream, positioned at a line; `rank` is the word's first 8 bytes, big-endian. */
struct stream {
    int fd, ended;
    char *in; /* IN_SIZE bytes and 8 more, so that `rank` can be loaded anywhere */
    size_t at, len;
    size_t word_len;
    uint64_t rank, count;
};

static struct stream streams[STREAMS];
static int live = STREAMS;

/* Makes room and reads more; 0 at the end of the stream. */
static int refill(struct stream *s)
{
    memmove(s->in, s->in + s->at, s->len - s->at);
    s->len -= s->at;
    s->at = 0;
    ssize_t got = recv(s->fd, s->in + s->len, IN_SIZE - s->len, 0);
    if (got < 0)
        die("recv");
    s->len += (size_t)got;
    return got > 0;
}

/* The word's first 8 bytes as a number that orders as the bytes do; shorter words end in zeros. */
static uint64_t rank_of(const char *word, size_t len)
{
    uint64_t raw;
    memcpy(&raw, word, sizeof raw);
    raw = __builtin_bswap64(raw);
    return len >= 8 ? raw : raw & ~(~0ull >> (8 * len));
}

/* Reads the line at `at`: its word, rank and count. */
static void load(struct stream *s)
{
    const char *end;
    while (!(end = memchr(s->in + s->at, '\n', s->len - s->at)))
        if (!refill(s)) {
            s->ended = 1;
            live--;
            return;
        }
    const char *word = s->in + s->at, *p = word;
    while (*p != '\t')
        p++;
    s->word_len = (size_t)(p - word);
    s->rank = rank_of(word, s->word_len);
    s->count = 0;
    while (++p < end)
        s->count = s->count * 10 + (uint64_t)(*p - '0');
}

static void next(struct stream *s)
{
    const char *end = memchr(s->in + s->at, '\n', s->len - s->at);
    s->at = (size_t)(end - s->in) + 1;
    load(s);
}

static int compare(const struct stream *a, const struct stream *b)
{
    if (a->rank != b->rank)
        return a->rank < b->rank ? -1 : 1;
    size_t common = a->word_len < b->word_len ? a->word_len : b->word_len;
    int order = memcmp(a->in + a->at, b->in + b->at, common);
    return order ? order : (a->word_len > b->word_len) - (a->word_len < b->word_len);
}

/* The streams at the smallest word, as bits. */
static unsigned smallest(void)
{
    const struct stream *best = NULL;
    unsigned equal = 0;
    for (unsigned i = 0; i < STREAMS; i++) {
        if (streams[i].ended)
            continue;
        int order = best ? compare(&streams[i], best) : -1;
        if (order < 0) {
            best = &streams[i];
            equal = 0;
        }
        if (order <= 0)
            equal |= 1u << i;
    }
    return equal;
}

static void merge(int reducer)
{
    static char out[OUT_SIZE];
    size_t out_len = 0;
    while (live) {
        unsigned equal = smallest();
        const struct stream *first = &streams[__builtin_ctz(equal)];
        if (out_len + MAX_LINE > sizeof out) {
            send_all(reducer, out, out_len);
            out_len = 0;
        }
        memcpy(out + out_len, first->in + first->at, first->word_len);
        char *at = out + out_len + first->word_len;
        uint64_t total = 0;
        for (unsigned rest = equal; rest; rest &= rest - 1) {
            struct stream *s = &streams[__builtin_ctz(rest)];
            total += s->count;
            next(s);
        }
        *at++ = '\t';
        at = put_number(at, total);
        *at++ = '\n';
        out_len = (size_t)(at - out);
    }
    send_all(reducer, out, out_len);
}

int main(int argc, char **argv)
{
    if (argc < 3)
        return 2;
    int listener = listen_on(atoi(argv[1]), 0);
    int reducer = connect_to(atoi(argv[2]));
    for (int i = 0; i < STREAMS; i++) {
        streams[i].fd = accept(listener, NULL, NULL);
        streams[i].in = calloc(1, IN_SIZE + 8);
    }
    for (int i = 0; i < STREAMS; i++)
        load(&streams[i]);
    merge(reducer);
    shutdown(reducer, SHUT_WR);
    pause(); /* a service stays; the harness reads its CPU time and ends it */
    return 0;
}
