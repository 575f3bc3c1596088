/* mapper: connects and sends a file at full speed, then an empty line if MARK is 1 (the stream is
 * whole), then closes.
 * usage: mapper PORT FILE [MARK] */
#define _GNU_SOURCE
#include "common.h"
#include <fcntl.h>
#include <sys/sendfile.h>

int main(int argc, char **argv)
{
    if (argc < 3)
        return 2;
    int file = open(argv[2], O_RDONLY);
    if (file < 0)
        die(argv[2]);
    int fd = connect_to(atoi(argv[1]));
    ssize_t sent;
    while ((sent = sendfile(fd, file, NULL, 1 << 20)) > 0)
        ;
    if (sent < 0)
        die("sendfile");
    if (argc > 3 && atoi(argv[3]))
        send_all(fd, "\n", 1);
    shutdown(fd, SHUT_WR);
    close(fd);
    return 0;
}
