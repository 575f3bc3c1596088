/* gen_streams: writes N sorted streams of "word\tcount\n" lines, DIR/stream0.txt and so on. It
 * prints as JSON what went in and what the combined stream must be. The mapper adds the mark of a
 * whole stream where the combiner wants one. usage: gen_streams DIR TOTAL_MIB [STREAMS]
 *
 * One dictionary in sorted order feeds all streams. A word is 6 letters that count upwards and 0 to
 * 8 letters derived from its number. It is in each stream with probability one half. So on average
 * four of eight mappers have a word, as in a word count over texts of one language. */
#define _GNU_SOURCE
#include "common.h"
#include "words.h"

enum { MAX_STREAMS = 64, PREFIX = 6, MAX_SUFFIX = 8, FILE_BUFFER = 1 << 20 };

static const uint64_t PREFIXES = 26ull * 26 * 26 * 26 * 26 * 26;

/* The word with this prefix number; returns its length. */
static size_t make_word(uint64_t prefix, uint64_t random, char *word)
{
    size_t suffix = random % (MAX_SUFFIX + 1);
    for (int i = PREFIX - 1; i >= 0; i--, prefix /= 26)
        word[i] = (char)('a' + prefix % 26);
    random /= MAX_SUFFIX + 1;
    for (size_t i = 0; i < suffix; i++, random /= 26)
        word[PREFIX + i] = (char)('a' + random % 26);
    return PREFIX + suffix;
}

static size_t make_line(char *line, const char *word, size_t len, uint64_t count)
{
    memcpy(line, word, len);
    line[len] = '\t';
    return (size_t)(put_number(line + len + 1, count) - line);
}

/* Mostly small numbers, some of up to five digits. */
static uint64_t make_count(uint64_t random)
{
    return 1 + (random >> 8) % (1ull << (1 + random % 16));
}

int main(int argc, char **argv)
{
    if (argc < 3)
        return 2;
    int streams = argc > 3 ? atoi(argv[3]) : 8;
    uint64_t goal = (uint64_t)(atof(argv[2]) * 1048576.0);
    if (streams < 1 || streams > MAX_STREAMS)
        return 2;

    FILE *files[MAX_STREAMS];
    for (int i = 0; i < streams; i++) {
        char path[4096];
        snprintf(path, sizeof path, "%s/stream%d.txt", argv[1], i);
        if (!(files[i] = fopen(path, "w")))
            die(path);
        setvbuf(files[i], NULL, _IOFBF, FILE_BUFFER);
    }

    /* About 14 bytes a line, half of the streams per word: spread the words over all prefixes. */
    uint64_t words = goal / 7 / (uint64_t)streams + 1;
    uint64_t stride = PREFIXES / words ? PREFIXES / words : 1;
    struct digest in = {0}, out = {0};
    for (uint64_t prefix = 0; in.bytes < goal && prefix < PREFIXES; prefix += stride) {
        uint64_t random = mix(prefix + 0x9e3779b97f4a7c15ull), total = 0;
        char word[MAX_WORD], line[MAX_LINE];
        size_t len = make_word(prefix, random, word);
        for (int i = 0; i < streams; i++) {
            uint64_t mine = mix(random + (uint64_t)i * 0xa0761d6478bd642full + 1);
            if (mine >> 63)
                continue;
            uint64_t count = make_count(mine);
            size_t line_len = make_line(line, word, len, count);
            digest_line(&in, line, line_len, count);
            line[line_len] = '\n';
            fwrite_unlocked(line, 1, line_len + 1, files[i]);
            total += count;
        }
        if (total)
            digest_line(&out, line, make_line(line, word, len, total), total);
    }
    for (int i = 0; i < streams; i++)
        if (fclose(files[i]))
            die("write");
    printf("{");
    print_digest(stdout, "input", &in);
    printf(",");
    print_digest(stdout, "output", &out);
    printf("}\n");
    return 0;
}
