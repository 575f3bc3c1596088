/* combine: the second half of the `sort -m` peer. Reads sorted "word\tcount\n" lines from standard
 * input, adds the counts of equal adjacent words, and sends the result to the reducer over TCP.
 * usage: combine REDUCERPORT < sorted */
#define _GNU_SOURCE
#include "common.h"
#include "words.h"

enum { IN_SIZE = 1 << 18, OUT_SIZE = 1 << 16 };

static int reducer;
static char out[OUT_SIZE];
static size_t out_len;
static char word[MAX_WORD];
static size_t word_len;
static uint64_t total;

static void emit(void)
{
    if (out_len + MAX_LINE > sizeof out) {
        send_all(reducer, out, out_len);
        out_len = 0;
    }
    memcpy(out + out_len, word, word_len);
    char *at = out + out_len + word_len;
    *at++ = '\t';
    at = put_number(at, total);
    *at++ = '\n';
    out_len = (size_t)(at - out);
}

static void take_line(const char *line, const char *end)
{
    const char *tab = memchr(line, '\t', (size_t)(end - line));
    uint64_t count = 0;
    if (!tab || tab - line > MAX_WORD) {
        fprintf(stderr, "malformed line\n");
        exit(1);
    }
    for (const char *p = tab + 1; p < end; p++)
        count = count * 10 + (uint64_t)(*p - '0');
    size_t len = (size_t)(tab - line);
    if (len == word_len && !memcmp(line, word, len)) {
        total += count;
        return;
    }
    if (word_len)
        emit();
    memcpy(word, line, len);
    word_len = len;
    total = count;
}

int main(int argc, char **argv)
{
    static char in[IN_SIZE];
    size_t have = 0;
    ssize_t got;
    if (argc < 2)
        return 2;
    reducer = connect_to(atoi(argv[1]));
    while ((got = read(0, in + have, sizeof in - have)) > 0) {
        size_t len = have + (size_t)got, used = 0;
        char *end;
        while ((end = memchr(in + used, '\n', len - used))) {
            take_line(in + used, end);
            used = (size_t)(end - in) + 1;
        }
        have = len - used;
        memmove(in, in + used, have);
    }
    if (got < 0 || have)
        die("input cut short");
    if (word_len)
        emit();
    send_all(reducer, out, out_len);
    shutdown(reducer, SHUT_WR);
    close(reducer);
    return 0;
}
