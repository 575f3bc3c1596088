/* receiver: accepts one connection and moves its bytes into a FIFO with splice. So `sort -m` reads
 * a mapper's stream of TCP at the least possible cost.
 * usage: receiver PORT FIFO */
#define _GNU_SOURCE
#include "common.h"
#include <fcntl.h>

enum { PIPE_SIZE = 1 << 20 };

int main(int argc, char **argv)
{
    if (argc < 3)
        return 2;
    int listener = listen_on(atoi(argv[1]), 0);
    int fifo = open(argv[2], O_WRONLY);
    if (fifo < 0)
        die(argv[2]);
    fcntl(fifo, F_SETPIPE_SZ, PIPE_SIZE);
    int fd = accept(listener, NULL, NULL);
    ssize_t moved;
    while ((moved = splice(fd, NULL, fifo, NULL, PIPE_SIZE, SPLICE_F_MOVE)) > 0)
        ;
    if (moved < 0)
        die("splice");
    return 0;
}
