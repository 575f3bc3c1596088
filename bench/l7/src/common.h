/* Shared by the benchmark's C programs: sockets on the loopback interface and a few limits.
 * Errors at set-up end the program: a benchmark that cannot start must say so. */
#ifndef BENCH_COMMON_H
#define BENCH_COMMON_H

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { BACKLOG = 4096, MAX_BACKENDS = 64 };

static inline void die(const char *what)
{
    perror(what);
    exit(1);
}

static inline uint64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000ull + (uint64_t)t.tv_nsec;
}

static inline void raise_fd_limit(void)
{
    struct rlimit limit;
    getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
}

static inline struct sockaddr_in loopback(int port)
{
    struct sockaddr_in addr = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    addr.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return addr;
}

static inline void set_nodelay(int fd)
{
    int one = 1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
}

/* A listening socket; `flags` are extra socket type flags such as SOCK_NONBLOCK. */
static inline int listen_on(int port, int flags)
{
    int one = 1;
    int fd = socket(AF_INET, SOCK_STREAM | flags, 0);
    struct sockaddr_in addr = loopback(port);
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (bind(fd, (struct sockaddr *)&addr, sizeof addr) || listen(fd, BACKLOG))
        die("listen");
    return fd;
}

/* A blocking connected socket. */
static inline int connect_to(int port)
{
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    struct sockaddr_in addr = loopback(port);
    if (connect(fd, (struct sockaddr *)&addr, sizeof addr))
        die("connect");
    set_nodelay(fd);
    return fd;
}

/* Writes everything to a blocking socket. */
static inline void send_all(int fd, const char *data, size_t len)
{
    while (len) {
        ssize_t sent = send(fd, data, len, MSG_NOSIGNAL);
        if (sent <= 0)
            die("send");
        data += sent;
        len -= (size_t)sent;
    }
}

/* Parses "p1,p2,..." into ports[]; returns how many. */
static inline int parse_ports(char *list, int *ports)
{
    int count = 0;
    for (char *p = strtok(list, ","); p && count < MAX_BACKENDS; p = strtok(NULL, ","))
        ports[count++] = atoi(p);
    return count;
}

#endif
