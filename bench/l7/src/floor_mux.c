/* floor_mux: the least a multiplexing memcached proxy can do (twemproxy's design point). One
 * thread, edge-triggered epoll. A key's hash picks the backend; each backend has ONE connection
 * shared by all clients; all output is sent once per batch of events. Understands the ASCII "get"
 * of one key and the binary get/getk. One GET may be outstanding per client: replies are not put
 * back in order. usage: floor_mux LISTENPORT BACKENDPORT[,BACKENDPORT...] [WAIT_US] With WAIT_US it
 * sleeps that long before each look at the sockets, to find more events per look. */
#define _GNU_SOURCE
#include "common.h"
#include <errno.h>
#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/prctl.h>

enum { MAX_EVENTS = 512, READ_SIZE = 65536, WAITING = 65536, BINARY_HEAD = 24 };
enum { MAGIC_REQUEST = 0x80, MAGIC_RESPONSE = 0x81 };

struct buffer {
    char *data;
    size_t len, capacity;
};

struct conn {
    int fd;
    int is_backend, dirty, dead;
    int awaited;           /* client: replies still on their way to it */
    struct buffer in, out; /* in: an incomplete message; out: not yet sent */
    size_t sent;           /* bytes of `out` already sent */
    struct conn *next_dirty;
    struct conn **waiting; /* backend: ring of the clients whose replies come next */
    unsigned head, tail;
};

static int ep, backend_count;
static struct conn backends[MAX_BACKENDS];
static struct conn *dirty_list;

static void reserve(struct buffer *b, size_t capacity)
{
    if (b->capacity < capacity) {
        b->capacity = capacity;
        b->data = realloc(b->data, capacity);
    }
}

static void queue_output(struct conn *to, const char *data, size_t len)
{
    if (to->out.len + len > to->out.capacity)
        reserve(&to->out, (to->out.len + len) * 2 + 256);
    memcpy(to->out.data + to->out.len, data, len);
    to->out.len += len;
    if (!to->dirty) {
        to->dirty = 1;
        to->next_dirty = dirty_list;
        dirty_list = to;
    }
}

static void flush(struct conn *c)
{
    while (c->sent < c->out.len) {
        ssize_t n = send(c->fd, c->out.data + c->sent, c->out.len - c->sent, MSG_NOSIGNAL);
        if (n < 0) {
            if (errno == EAGAIN)
                return;
            break;
        }
        c->sent += (size_t)n;
    }
    c->sent = c->out.len = 0;
}

/* Closes a client; its memory goes once no reply and no output names it. */
static void drop(struct conn *c)
{
    if (!c->dead) {
        c->dead = 1;
        close(c->fd);
    }
    if (!c->awaited && !c->dirty) {
        free(c->in.data);
        free(c->out.data);
        free(c);
    }
}

static uint32_t hash_key(const char *key, size_t len)
{
    uint32_t h = 2166136261u; /* FNV-1a */
    for (size_t i = 0; i < len; i++)
        h = (h ^ (unsigned char)key[i]) * 16777619u;
    return h;
}

static uint32_t binary_length(const char *msg)
{
    uint32_t body;
    memcpy(&body, msg + 8, sizeof body);
    return BINARY_HEAD + ntohl(body);
}

/* Length of the request at `msg` with its key, or 0 if it is not complete. */
static size_t request_length(const char *msg, size_t have, const char **key, size_t *key_len)
{
    if ((unsigned char)msg[0] == MAGIC_REQUEST) {
        if (have < BINARY_HEAD || have < binary_length(msg))
            return 0;
        *key = msg + BINARY_HEAD + (unsigned char)msg[4];
        *key_len = (unsigned char)msg[3];
        return binary_length(msg);
    }
    const char *end = memchr(msg, '\n', have);
    if (!end)
        return 0;
    size_t len = (size_t)(end - msg) + 1;
    *key = msg + 4;
    *key_len = len - 6;
    return len;
}

/* Length of the reply at `msg`, or 0 if its head is not complete. */
static size_t reply_length(const char *msg, size_t have)
{
    if ((unsigned char)msg[0] == MAGIC_RESPONSE)
        return have < BINARY_HEAD ? 0 : binary_length(msg);
    const char *end = memchr(msg, '\n', have);
    if (!end)
        return 0;
    size_t len = (size_t)(end - msg) + 1;
    if (msg[0] == 'V') { /* "VALUE key flags LEN\r\n": the digits before CRLF, read backwards */
        size_t value = 0, place = 1;
        for (const char *p = end - 2; *p >= '0' && *p <= '9'; p--, place *= 10)
            value += (size_t)(*p - '0') * place;
        len += value + 2 + 5; /* CRLF, "END\r\n" */
    }
    return len;
}

/* Both consume the complete messages in data[0..len) and return how many bytes that was. */
static size_t forward_requests(struct conn *client, const char *data, size_t len)
{
    size_t used = 0;
    while (used < len) {
        const char *key;
        size_t key_len, n = request_length(data + used, len - used, &key, &key_len);
        if (!n)
            break;
        struct conn *b = &backends[hash_key(key, key_len) % (unsigned)backend_count];
        queue_output(b, data + used, n);
        b->waiting[b->tail++ % WAITING] = client;
        client->awaited++;
        used += n;
    }
    return used;
}

static size_t forward_replies(struct conn *backend, const char *data, size_t len)
{
    size_t used = 0;
    while (used < len) {
        size_t n = reply_length(data + used, len - used);
        if (!n || n > len - used)
            break;
        struct conn *client = backend->waiting[backend->head++ % WAITING];
        client->awaited--;
        if (client->dead)
            drop(client);
        else
            queue_output(client, data + used, n);
        used += n;
    }
    return used;
}

static void pump(struct conn *c)
{
    static char shared[READ_SIZE];
    ssize_t got;
    do {
        char *data = shared;
        if (c->in.len) { /* an incomplete message is kept: read behind it */
            reserve(&c->in, c->in.len + READ_SIZE);
            data = c->in.data;
        }
        got = recv(c->fd, data + c->in.len, READ_SIZE, 0);
        if (got < 0 && errno == EAGAIN)
            return;
        if (got <= 0) {
            if (c->is_backend) {
                fprintf(stderr, "backend lost\n");
                exit(1);
            }
            drop(c);
            return;
        }
        size_t len = c->in.len + (size_t)got;
        size_t used = c->is_backend ? forward_replies(c, data, len) : forward_requests(c, data, len);
        if (used < len) {
            reserve(&c->in, len - used > READ_SIZE ? len - used : READ_SIZE);
            memmove(c->in.data, (data == shared ? shared : c->in.data) + used, len - used);
        }
        c->in.len = len - used;
    } while (got == READ_SIZE);
}

static void watch(struct conn *c)
{
    struct epoll_event ev = {.events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET, .data.ptr = c};
    epoll_ctl(ep, EPOLL_CTL_ADD, c->fd, &ev);
}

static void accept_all(int listener)
{
    int fd;
    while ((fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK)) >= 0) {
        struct conn *c = calloc(1, sizeof *c);
        c->fd = fd;
        set_nodelay(fd);
        watch(c);
    }
}

static void connect_backends(char *list)
{
    int ports[MAX_BACKENDS];
    backend_count = parse_ports(list, ports);
    for (int i = 0; i < backend_count; i++) {
        struct conn *b = &backends[i];
        b->fd = connect_to(ports[i]);
        b->is_backend = 1;
        b->waiting = calloc(WAITING, sizeof *b->waiting);
        fcntl(b->fd, F_SETFL, O_NONBLOCK);
        watch(b);
    }
}

static void flush_dirty(void)
{
    while (dirty_list) {
        struct conn *c = dirty_list;
        dirty_list = c->next_dirty;
        c->dirty = 0;
        if (c->dead)
            drop(c);
        else
            flush(c);
    }
}

int main(int argc, char **argv)
{
    if (argc < 3)
        return 2;
    useconds_t wait_us = argc > 3 ? (useconds_t)atoi(argv[3]) : 0;
    raise_fd_limit();
    prctl(PR_SET_TIMERSLACK, 1000); /* ns */
    ep = epoll_create1(0);
    connect_backends(argv[2]);
    int listener = listen_on(atoi(argv[1]), SOCK_NONBLOCK);
    struct epoll_event ev = {.events = EPOLLIN, .data.ptr = NULL}, events[MAX_EVENTS];
    epoll_ctl(ep, EPOLL_CTL_ADD, listener, &ev);
    for (;;) {
        if (wait_us)
            usleep(wait_us);
        int n = epoll_wait(ep, events, MAX_EVENTS, -1);
        for (int i = 0; i < n; i++) {
            struct conn *c = events[i].data.ptr;
            if (!c) {
                accept_all(listener);
                continue;
            }
            if (c->dead)
                continue;
            if ((events[i].events & EPOLLOUT) && c->out.len && !c->dirty)
                flush(c);
            if (events[i].events & ~(uint32_t)EPOLLOUT)
                pump(c);
        }
        flush_dirty();
    }
}
