/* kv_get ADDRESS KEYS SECONDS BATCH SIZE: gets of a memcached over UDP, a batch at a time. Each
 * answer is compared with the value that `kv.py` has set. Prints: answers, lost, wrong. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

enum { BATCH_MAX = 64, DATAGRAM = 1500 };

static double seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

int main(int count, char **args) {
    if (count != 6) return 2;
    const unsigned keys = (unsigned)atoi(args[2]), size = (unsigned)atoi(args[5]);
    const int batch = atoi(args[4]) < BATCH_MAX ? atoi(args[4]) : BATCH_MAX;
    const int s = socket(AF_INET, SOCK_DGRAM, 0), room = 4 << 20;
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(11211)};
    const struct timeval patience = {0, 100000};
    static char out[BATCH_MAX][64], in[BATCH_MAX][DATAGRAM];
    struct mmsghdr sent[BATCH_MAX], got[BATCH_MAX];
    struct iovec from[BATCH_MAX], into[BATCH_MAX];
    unsigned asked[BATCH_MAX], seed = 1;
    unsigned long answers = 0, lost = 0, wrong = 0;
    uint16_t round = 0;
    inet_aton(args[1], &to.sin_addr);
    connect(s, (struct sockaddr *)&to, sizeof to);
    setsockopt(s, SOL_SOCKET, SO_RCVBUF, &room, sizeof room);
    setsockopt(s, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    const double end = seconds() + atof(args[3]);
    while (seconds() < end) {
        round++;
        memset(sent, 0, sizeof sent);
        for (int i = 0; i < batch; i++) {
            asked[i] = (unsigned)rand_r(&seed) % keys;
            memcpy(out[i], "\0\0\0\0\0\1\0\0", 8);
            /* The number of a request: its place in the batch, and the round. */
            out[i][0] = (char)round;
            out[i][1] = (char)i;
            from[i] = (struct iovec){out[i], 8 + (size_t)sprintf(out[i] + 8, "get key%08u\r\n", asked[i])};
            sent[i].msg_hdr.msg_iov = &from[i];
            sent[i].msg_hdr.msg_iovlen = 1;
        }
        int left = sendmmsg(s, sent, (unsigned)batch, 0);
        while (left > 0) {
            memset(got, 0, sizeof got);
            for (int i = 0; i < left; i++) {
                into[i] = (struct iovec){in[i], DATAGRAM};
                got[i].msg_hdr.msg_iov = &into[i];
                got[i].msg_hdr.msg_iovlen = 1;
            }
            const int n = recvmmsg(s, got, (unsigned)left, MSG_WAITFORONE, NULL);
            if (n <= 0) { lost += (unsigned long)left; break; }
            for (int i = 0; i < n; i++) {
                char want[DATAGRAM];
                const unsigned k = (unsigned char)in[i][1];
                if ((uint8_t)in[i][0] != (uint8_t)round || k >= (unsigned)batch) continue;
                const int length = snprintf(want, sizeof want, "VALUE key%08u 0 %u\r\n%0*u\r\nEND\r\n", asked[k], size, (int)size, asked[k]);
                wrong += got[i].msg_len != 8 + (unsigned)length || memcmp(in[i] + 8, want, (size_t)length) != 0;
                answers++;
                left--;
            }
        }
    }
    printf("answers=%lu lost=%lu wrong=%lu\n", answers, lost, wrong);
    return 0;
}
