/* floor_static: the least an HTTP server can do. One thread, edge-triggered epoll; every complete
 * request head gets one fixed reply with a 137-byte body. No checking of any kind.
 * usage: floor_static LISTENPORT [close]      close: one request per connection */
#define _GNU_SOURCE
#include "common.h"
#include <errno.h>
#include <sys/epoll.h>

enum { BODY_LEN = 137, MAX_EVENTS = 256, IN_SIZE = 16384, OUT_SIZE = 65536 };

static char reply[512];
static int reply_len;
static int close_after;

static void make_reply(void)
{
    char body[BODY_LEN + 1];
    for (int i = 0; i < BODY_LEN; i++)
        body[i] = (char)('0' + i % 10);
    body[BODY_LEN] = 0;
    reply_len = snprintf(reply, sizeof reply,
                         "HTTP/1.1 200 OK\r\nServer: floor\r\nContent-Type: text/plain\r\n"
                         "Content-Length: %d\r\nConnection: %s\r\n\r\n%s",
                         BODY_LEN, close_after ? "close" : "keep-alive", body);
}

static void accept_all(int ep, int listener)
{
    int fd;
    while ((fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK)) >= 0) {
        struct epoll_event ev = {.events = EPOLLIN | EPOLLRDHUP | EPOLLET, .data.fd = fd};
        set_nodelay(fd);
        epoll_ctl(ep, EPOLL_CTL_ADD, fd, &ev);
    }
}

/* Appends one reply per blank line in the input; returns the bytes to send. */
static int replies_for(const char *in, size_t in_len, char *out)
{
    const char *end = in + in_len, *at = in;
    int len = 0;
    while ((at = memmem(at, (size_t)(end - at), "\r\n\r\n", 4)) && len + reply_len <= OUT_SIZE) {
        memcpy(out + len, reply, (size_t)reply_len);
        len += reply_len;
        at += 4;
    }
    return len;
}

static void serve(int fd, uint32_t events)
{
    static char in[IN_SIZE], out[OUT_SIZE];
    for (;;) {
        ssize_t got = recv(fd, in, sizeof in, 0);
        if (got < 0 && errno == EAGAIN)
            return;
        if (got <= 0) {
            close(fd);
            return;
        }
        int len = replies_for(in, (size_t)got, out);
        if (len) {
            send(fd, out, (size_t)len, MSG_NOSIGNAL);
            if (close_after) {
                close(fd);
                return;
            }
        }
        /* A short read drained the socket, unless the end of the stream is still to be read. */
        if (got < (ssize_t)sizeof in && !(events & EPOLLRDHUP))
            return;
    }
}

int main(int argc, char **argv)
{
    if (argc < 2)
        return 2;
    close_after = argc > 2;
    raise_fd_limit();
    make_reply();

    int listener = listen_on(atoi(argv[1]), SOCK_NONBLOCK);
    int ep = epoll_create1(0);
    struct epoll_event ev = {.events = EPOLLIN, .data.fd = listener}, events[MAX_EVENTS];
    epoll_ctl(ep, EPOLL_CTL_ADD, listener, &ev);
    for (;;) {
        int n = epoll_wait(ep, events, MAX_EVENTS, -1);
        for (int i = 0; i < n; i++) {
            if (events[i].data.fd == listener)
                accept_all(ep, listener);
            else
                serve(events[i].data.fd, events[i].events);
        }
    }
}
