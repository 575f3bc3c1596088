/* Waits of a light client beside others' work.
 *
 * Usage: waits PORT PID CORE ASK ANSWER
 *
 * Sends ASK to 127.0.0.1:PORT over and over, every 200 us, and awaits ANSWER (both with \r and \n
 * written so). It runs on CORE with real-time priority, so what else runs there does not delay it.
 * Beside the wait it measures the processor time that process PID has used meanwhile. A wait is
 * the process's own only as far as that goes: the smaller of both counts as "held".
 *
 * Each line on standard input ends a stretch. For each, one line is written. It has the number of
 * waits, then p50, p99 and longest wait, then p99 and longest of the time held, in microseconds. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { MOST = 1 << 20, PAUSE_NS = 200000 };

static int s;
static clockid_t theirs;
static char ask[256], answer[256];
static double waited[MOST], held[MOST];
static size_t waits;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void fail(const char *what) {
    perror(what);
    exit(1);
}
static double micros(clockid_t clock) {
    struct timespec t;
    if (clock_gettime(clock, &t)) fail("clock_gettime");
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}
static void text(char *to, const char *from) {
    for (; *from; from++) *to++ = *from == '\\' ? (*++from == 'r' ? '\r' : '\n') : *from;
    *to = 0;
}
static void *asks(void *unused) {
    (void)unused;
    struct sched_param p = {.sched_priority = 50};
    if (pthread_setschedparam(pthread_self(), SCHED_FIFO, &p)) fail("SCHED_FIFO");
    const size_t n = strlen(answer);
    for (;;) {
        char got[256];
        double worked = micros(theirs), begin = micros(CLOCK_MONOTONIC);
        if (send(s, ask, strlen(ask), 0) < 0) fail("send");
        for (size_t have = 0; have < n;) {
            ssize_t k = recv(s, got + have, n - have, 0);
            if (k <= 0) fail("recv");
            have += (size_t)k;
        }
        double took = micros(CLOCK_MONOTONIC) - begin;
        worked = micros(theirs) - worked;
        if (memcmp(got, answer, n)) { fprintf(stderr, "another answer than asked for\n"); exit(1); }
        pthread_mutex_lock(&lock);
        if (waits < MOST) {
            waited[waits] = took;
            held[waits++] = worked < took ? worked : took;
        }
        pthread_mutex_unlock(&lock);
        nanosleep(&(struct timespec){0, PAUSE_NS}, NULL);
    }
}
static int by_size(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}
static double part(const double *of, double p) { return waits ? of[(size_t)((double)(waits - 1) * p)] : 0; }

int main(int argc, char **argv) {
    if (argc != 6) { fprintf(stderr, "usage: waits PORT PID CORE ASK ANSWER\n"); return 2; }
    cpu_set_t core;
    CPU_ZERO(&core);
    CPU_SET((unsigned)atoi(argv[3]), &core);
    if (sched_setaffinity(0, sizeof core, &core)) fail("sched_setaffinity");
    if (clock_getcpuclockid(atoi(argv[2]), &theirs)) { fprintf(stderr, "no process %s\n", argv[2]); return 1; }
    text(ask, argv[4]);
    text(answer, argv[5]);
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(argv[1])), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    s = socket(AF_INET, SOCK_STREAM, 0);
    if (s < 0 || connect(s, (struct sockaddr *)&to, sizeof to)) fail("connect");
    setsockopt(s, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int));
    pthread_t thread;
    if (pthread_create(&thread, NULL, asks, NULL)) fail("pthread_create");
    for (int c; (c = getchar()) != EOF;) {
        if (c != '\n') continue;
        pthread_mutex_lock(&lock);
        qsort(waited, waits, sizeof *waited, by_size);
        qsort(held, waits, sizeof *held, by_size);
        printf("%zu %.1f %.1f %.1f %.1f %.1f\n", waits, part(waited, 0.5), part(waited, 0.99), part(waited, 1), part(held, 0.99), part(held, 1));
        fflush(stdout);
        waits = 0;
        pthread_mutex_unlock(&lock);
    }
    return 0;
}
