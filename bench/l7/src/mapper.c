/* mapper: connects and sends a file at full speed, then closes.
 * usage: mapper PORT FILE */
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
    shutdown(fd, SHUT_WR);
    close(fd);
    return 0;
}
