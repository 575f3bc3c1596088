/* stream: a neighbour that goes through memory without end: copies 256 MiB, again and again, until
   it is killed. */
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

int main(void) {
    const size_t half = (size_t)1 << 28;
    char *p = mmap(0, 2 * half, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED) { perror("mmap"); return 1; }
    madvise(p, 2 * half, MADV_HUGEPAGE);
    memset(p, 1, 2 * half);
    for (;;) {
        memcpy(p, p + half, half);
        __asm__ volatile("" ::: "memory");   /* each copy counts */
    }
}
