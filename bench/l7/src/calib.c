/* calib: a fixed amount of work on the pinned core. Prints CPU nanoseconds per unit of three: pure
 * user arithmetic, an empty system call, and a 64-byte send+recv pair over loopback TCP in one
 * process. Shows how fast the core is at that moment. */
#define _GNU_SOURCE
#include "common.h"
#include <sys/syscall.h>

enum { USER_ROUNDS = 20000000, SYSCALL_ROUNDS = 300000, TCP_ROUNDS = 30000 };

static double cpu_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static double user_work(void)
{
    volatile uint64_t sink;
    uint64_t x = 88172645463325252ull;
    double start = cpu_ns();
    for (int i = 0; i < USER_ROUNDS; i++) { /* xorshift */
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
    }
    sink = x;
    (void)sink;
    return (cpu_ns() - start) / USER_ROUNDS;
}

static double syscall_work(void)
{
    double start = cpu_ns();
    for (int i = 0; i < SYSCALL_ROUNDS; i++)
        syscall(SYS_getppid);
    return (cpu_ns() - start) / SYSCALL_ROUNDS;
}

static double tcp_work(void)
{
    struct sockaddr_in addr;
    socklen_t len = sizeof addr;
    int listener = listen_on(0, 0);
    getsockname(listener, (struct sockaddr *)&addr, &len);
    int out = connect_to(ntohs(addr.sin_port));
    int in = accept(listener, NULL, NULL);
    char msg[64] = {0};
    double start = cpu_ns();
    for (int i = 0; i < TCP_ROUNDS; i++)
        if (send(out, msg, sizeof msg, 0) < 0 || recv(in, msg, sizeof msg, 0) < 0)
            die("loopback");
    return (cpu_ns() - start) / TCP_ROUNDS;
}

int main(void)
{
    double user = user_work(), sys = syscall_work(), tcp = tcp_work();
    printf("{\"user_ns\":%.3f,\"syscall_ns\":%.1f,\"tcp_pair_ns\":%.1f}\n", user, sys, tcp);
    return 0;
}
