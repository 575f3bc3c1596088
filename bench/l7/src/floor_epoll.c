/* floor_epoll: the least a layer-4 proxy can do. One thread, edge-triggered epoll, one backend
 * connection per client, backends in turn. Bytes are copied through one shared buffer.
 * usage: floor_epoll LISTENPORT BACKENDPORT[,BACKENDPORT...] */
#define _GNU_SOURCE
#include "common.h"
#include <errno.h>
#include <sys/epoll.h>

enum { MAX_EVENTS = 256, COPY_SIZE = 65536 };

/* One end of a forwarded connection; `pending` holds bytes the kernel did not yet take for it. */
struct side {
    int fd;
    char eof, dead;
    struct side *peer;
    char *pending;
    size_t pending_len, pending_off;
    struct side *next_dead;
};

static int ep;
static char copy[COPY_SIZE];
static struct side *graveyard; /* freed after the batch: later events may still name them */

static void kill_pair(struct side *s)
{
    struct side *pair[2] = {s, s->peer};
    if (s->dead)
        return;
    for (int i = 0; i < 2; i++) {
        pair[i]->dead = 1;
        close(pair[i]->fd);
        pair[i]->next_dead = graveyard;
        graveyard = pair[i];
    }
}

/* 1: all sent, 0: the socket is full again, -1: broken. */
static int flush(struct side *s)
{
    while (s->pending_len) {
        ssize_t sent = send(s->fd, s->pending + s->pending_off, s->pending_len, MSG_NOSIGNAL);
        if (sent < 0)
            return errno == EAGAIN ? 0 : -1;
        s->pending_off += (size_t)sent;
        s->pending_len -= (size_t)sent;
    }
    free(s->pending);
    s->pending = NULL;
    s->pending_off = 0;
    return 1;
}

/* Copies from `s` to its peer until `s` is drained or the peer is full. */
static void pump(struct side *s)
{
    struct side *to = s->peer;
    while (!s->dead && !to->pending_len) {
        ssize_t got = recv(s->fd, copy, sizeof copy, 0);
        if (got < 0) {
            if (errno != EAGAIN)
                kill_pair(s);
            return;
        }
        if (got == 0) {
            s->eof = 1;
            shutdown(to->fd, SHUT_WR);
            if (to->eof)
                kill_pair(s);
            return;
        }
        ssize_t sent = send(to->fd, copy, (size_t)got, MSG_NOSIGNAL);
        if (sent < 0) {
            if (errno != EAGAIN) {
                kill_pair(s);
                return;
            }
            sent = 0;
        }
        if (sent < got) {
            to->pending_len = (size_t)(got - sent);
            to->pending = malloc(to->pending_len);
            memcpy(to->pending, copy + sent, to->pending_len);
            to->pending_off = 0;
            return;
        }
        if (got < (ssize_t)sizeof copy)
            return; /* drained: new data or a FIN raises a new edge */
    }
}

static void watch(struct side *s)
{
    struct epoll_event ev = {.events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET, .data.ptr = s};
    set_nodelay(s->fd);
    epoll_ctl(ep, EPOLL_CTL_ADD, s->fd, &ev);
}

static void accept_all(int listener, const int *backends, int count)
{
    static int turn;
    int fd;
    while ((fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK)) >= 0) {
        struct sockaddr_in addr = loopback(backends[turn++ % count]);
        int out = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
        if (connect(out, (struct sockaddr *)&addr, sizeof addr) && errno != EINPROGRESS) {
            close(fd);
            close(out);
            continue;
        }
        struct side *client = calloc(1, sizeof *client), *backend = calloc(1, sizeof *backend);
        client->fd = fd;
        backend->fd = out;
        client->peer = backend;
        backend->peer = client;
        watch(client);
        watch(backend);
    }
}

static void on_event(struct side *s, uint32_t events)
{
    const uint32_t hangup = EPOLLRDHUP | EPOLLHUP | EPOLLERR;
    if (s->dead)
        return;
    if ((events & EPOLLOUT) && s->pending_len) {
        int state = flush(s);
        if (state < 0) {
            kill_pair(s);
            return;
        }
        if (state > 0)
            pump(s->peer);
    }
    if (s->dead || !(events & (EPOLLIN | hangup)))
        return;
    pump(s);
    /* The data was drained by a short read; the end of the stream is still to be read. */
    if (!s->dead && !s->eof && !s->peer->pending_len && (events & hangup))
        pump(s);
}

static void bury(void)
{
    while (graveyard) {
        struct side *s = graveyard;
        graveyard = s->next_dead;
        free(s->pending);
        free(s);
    }
}

int main(int argc, char **argv)
{
    int backends[MAX_BACKENDS];
    if (argc < 3)
        return 2;
    raise_fd_limit();
    int count = parse_ports(argv[2], backends);
    int listener = listen_on(atoi(argv[1]), SOCK_NONBLOCK);

    ep = epoll_create1(0);
    struct epoll_event ev = {.events = EPOLLIN, .data.ptr = NULL}, events[MAX_EVENTS];
    epoll_ctl(ep, EPOLL_CTL_ADD, listener, &ev);
    for (;;) {
        int n = epoll_wait(ep, events, MAX_EVENTS, -1);
        for (int i = 0; i < n; i++) {
            if (events[i].data.ptr)
                on_event(events[i].data.ptr, events[i].events);
            else
                accept_all(listener, backends, count);
        }
        bury();
    }
}
