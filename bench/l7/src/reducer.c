/* reducer: accepts one connection, reads "word\tcount\n" lines to its end, checks that the words
 * rise strictly, and prints what came as JSON. A reset or half a line is an error in `clean`. So
 * is, if MARK is 1, a stream that does not end with an empty line. usage: reducer PORT [MARK] */
#define _GNU_SOURCE
#include "common.h"
#include "words.h"

enum { IN_SIZE = 1 << 18 };

static struct digest seen;
static uint64_t disorder, malformed;
static int mark, marked;
static char previous[MAX_LINE];
static size_t previous_len;

static void take_line(const char *line, size_t len)
{
    if (mark && !len && !marked) {
        marked = 1;
        return;
    }
    malformed += marked;
    const char *tab = memchr(line, '\t', len);
    if (!tab || len > MAX_LINE || tab + 1 == line + len) {
        malformed++;
        return;
    }
    size_t word = (size_t)(tab - line);
    uint64_t count = 0;
    for (const char *p = tab + 1; p < line + len; p++) {
        malformed += *p < '0' || *p > '9';
        count = count * 10 + (uint64_t)(*p - '0');
    }
    size_t common = word < previous_len ? word : previous_len;
    int order = memcmp(previous, line, common);
    disorder += seen.lines && (order > 0 || (order == 0 && previous_len >= word));
    memcpy(previous, line, word);
    previous_len = word;
    digest_line(&seen, line, len, count);
}

int main(int argc, char **argv)
{
    static char in[IN_SIZE];
    if (argc < 2)
        return 2;
    mark = argc > 2 && atoi(argv[2]);
    int listener = listen_on(atoi(argv[1]), 0);
    int fd = accept(listener, NULL, NULL);
    uint64_t start = 0;
    size_t have = 0;
    ssize_t got;
    while ((got = recv(fd, in + have, sizeof in - have, 0)) > 0) {
        if (!start)
            start = now_ns();
        size_t len = have + (size_t)got, used = 0;
        char *end;
        while ((end = memchr(in + used, '\n', len - used))) {
            take_line(in + used, (size_t)(end - in) - used);
            used = (size_t)(end - in) + 1;
        }
        have = len - used;
        if (have == sizeof in) {
            malformed++;
            break;
        }
        memmove(in, in + used, have);
    }
    printf("{");
    print_digest(stdout, "output", &seen);
    printf(",\"disorder\":%lu,\"malformed\":%lu,\"clean\":%s,\"seconds\":%.4f}\n", disorder, malformed,
           got == 0 && have == 0 && marked == mark ? "true" : "false",
           start ? (double)(now_ns() - start) / 1e9 : 0.0);
    return 0;
}
