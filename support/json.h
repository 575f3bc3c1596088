/* json.h: values of a JSON text (RFC 8259) by their path, without memory of its own. The text is
 * read once, from its beginning to its end: a value is given only if all of it is valid. */
#ifndef WL_JSON_H
#define WL_JSON_H
#include "base.h"

/* Objects and arrays in one another. */
#define WL_JSON_DEPTH 64u
/* Steps of a path: 1, the length (2 bytes, low first), a key; or 2, an index (4 bytes, low first).
 * */
#define WL_JSON_STEPS 16u

typedef struct wl_json {
    const uint8_t *p;
    uint32_t n, at;
    const uint8_t *step[WL_JSON_STEPS];
    uint32_t steps;
    /* Bit d: the container at depth d is an array; the index of its item at hand. */
    uint64_t arrays;
    uint32_t index[WL_JSON_DEPTH];
    /* Containers around the value at hand, and how many of their steps are the path's. */
    uint32_t depth, hit;
    bool found;
    uint32_t from, to;
} wl_json;

static inline void wl_json_blank(wl_json *j) {
    while (j->at < j->n) {
        uint8_t c = j->p[j->at];
        if (c != ' ' && c != '\n' && c != '\r' && c != '\t') return;
        j->at++;
    }
}
static inline bool wl_json_is(const wl_json *j, uint8_t c) { return j->at < j->n && j->p[j->at] == c; }

/* The bytes of the character at p in UTF-8 (RFC 3629); 0: it is none. */
static inline uint32_t wl_utf8(const uint8_t *p, uint32_t n) {
    uint8_t c = p[0];
    if (c < 0x80) return 1;
    uint32_t k = c >= 0xc2 && c <= 0xdf ? 2 : (c & 0xf0) == 0xe0 ? 3 : c >= 0xf0 && c <= 0xf4 ? 4 : 0;
    if (!k || n < k) return 0;
    for (uint32_t i = 1; i < k; i++) if ((p[i] & 0xc0) != 0x80) return 0;
    if (c == 0xe0 && p[1] < 0xa0) return 0;
    if (c == 0xed && p[1] > 0x9f) return 0;
    if (c == 0xf0 && p[1] < 0x90) return 0;
    if (c == 0xf4 && p[1] > 0x8f) return 0;
    return k;
}
static inline uint32_t wl_utf8_of(uint32_t c, uint8_t *to) {
    if (c < 0x80) { to[0] = (uint8_t)c; return 1; }
    if (c < 0x800) { to[0] = (uint8_t)(0xc0 | c >> 6); to[1] = (uint8_t)(0x80 | (c & 63)); return 2; }
    if (c < 0x10000) {
        to[0] = (uint8_t)(0xe0 | c >> 12); to[1] = (uint8_t)(0x80 | (c >> 6 & 63)); to[2] = (uint8_t)(0x80 | (c & 63));
        return 3;
    }
    to[0] = (uint8_t)(0xf0 | c >> 18); to[1] = (uint8_t)(0x80 | (c >> 12 & 63));
    to[2] = (uint8_t)(0x80 | (c >> 6 & 63)); to[3] = (uint8_t)(0x80 | (c & 63));
    return 4;
}
/* Four hexadecimal digits; -1: they are none. */
static inline int32_t wl_json_hex4(const uint8_t *p, uint32_t n) {
    if (n < 4) return -1;
    int32_t v = 0;
    for (int i = 0; i < 4; i++) {
        int d = wl_hex1(p[i]);
        if (d < 0) return -1;
        v = v << 4 | d;
    }
    return v;
}
/* A character of a string, as UTF-8 in `to`; gives how many bytes of the text it takes, 0: it is
 * not valid. `*n`: its bytes; 0: half of a surrogate pair, which no UTF-8 has. */
static inline uint32_t wl_json_char(const uint8_t *p, uint32_t left, uint8_t *to, uint32_t *n) {
    if (p[0] < 0x20) return 0;
    if (p[0] != '\\') {
        uint32_t k = *n = wl_utf8(p, left);
        for (uint32_t i = 0; i < k; i++) to[i] = p[i];
        return k;
    }
    if (left < 2) return 0;
    static const char names[] = "\"\\/bfnrt", values[] = "\"\\/\b\f\n\r\t";
    for (int i = 0; names[i]; i++) {
        if ((uint8_t)names[i] == p[1]) { to[0] = (uint8_t)values[i]; *n = 1; return 2; }
    }
    if (p[1] != 'u') return 0;
    int32_t c = wl_json_hex4(p + 2, left - 2);
    if (c < 0) return 0;
    if (c >= 0xd800 && c < 0xdc00 && left >= 12 && p[6] == '\\' && p[7] == 'u') {
        int32_t low = wl_json_hex4(p + 8, left - 8);
        if (low >= 0xdc00 && low < 0xe000) {
            *n = wl_utf8_of(0x10000 + (((uint32_t)c - 0xd800) << 10 | ((uint32_t)low - 0xdc00)), to);
            return 12;
        }
    }
    *n = c >= 0xd800 && c < 0xe000 ? 0 : wl_utf8_of((uint32_t)c, to);
    return 6;
}
/* A string at its quote. `key`: whether it is that. */
static inline bool wl_json_string(wl_json *j, const uint8_t *key, uint32_t key_n, bool *same) {
    uint32_t k = 0;
    bool eq = key != NULL;
    for (j->at++; j->at < j->n && j->p[j->at] != '"';) {
        uint8_t to[4];
        uint32_t n = 0, used = wl_json_char(j->p + j->at, j->n - j->at, to, &n);
        if (!used) return false;
        j->at += used;
        eq = eq && n && key_n - k >= n;
        for (uint32_t i = 0; eq && i < n; i++) eq = key[k + i] == to[i];
        k = eq ? k + n : k;
    }
    if (j->at >= j->n) return false;
    j->at++;
    *same = eq && k == key_n;
    return true;
}
static inline bool wl_json_digits(wl_json *j) {
    uint32_t from = j->at;
    while (j->at < j->n && (uint8_t)(j->p[j->at] - '0') < 10) j->at++;
    return j->at > from;
}
static inline bool wl_json_number(wl_json *j) {
    if (wl_json_is(j, '-')) j->at++;
    if (wl_json_is(j, '0')) j->at++;
    else if (!wl_json_digits(j)) return false;
    if (wl_json_is(j, '.')) {
        j->at++;
        if (!wl_json_digits(j)) return false;
    }
    if (wl_json_is(j, 'e') || wl_json_is(j, 'E')) {
        j->at++;
        if (wl_json_is(j, '+') || wl_json_is(j, '-')) j->at++;
        if (!wl_json_digits(j)) return false;
    }
    return true;
}
static inline bool wl_json_word(wl_json *j, const char *word, uint32_t n) {
    if (j->n - j->at < n || memcmp(j->p + j->at, word, n) != 0) return false;
    j->at += n;
    return true;
}
/* A string, a number, or one of the three words. */
static inline bool wl_json_simple(wl_json *j) {
    bool same;
    if (j->at >= j->n) return false;
    switch (j->p[j->at]) {
    case '"': return wl_json_string(j, NULL, 0, &same);
    case 't': return wl_json_word(j, "true", 4);
    case 'f': return wl_json_word(j, "false", 5);
    case 'n': return wl_json_word(j, "null", 4);
    default: return wl_json_number(j);
    }
}
/* The step of the container at hand is on the path: of duplicates the last one counts. */
static inline void wl_json_on_path(wl_json *j) { j->hit = j->depth; j->found = false; }
/* The path's step for the container at hand, if that is on the path. */
static inline const uint8_t *wl_json_step(const wl_json *j, uint8_t kind) {
    uint32_t at = j->depth - 1;
    return j->hit == at && at < j->steps && j->step[at][0] == kind ? j->step[at] + 1 : NULL;
}
/* A key and its colon. */
static inline bool wl_json_key(wl_json *j) {
    wl_json_blank(j);
    if (!wl_json_is(j, '"')) return false;
    const uint8_t *step = wl_json_step(j, 1);
    bool same = false;
    if (!wl_json_string(j, step ? step + 2 : NULL, step ? (uint32_t)(step[0] | step[1] << 8) : 0, &same)) return false;
    if (same) wl_json_on_path(j);
    wl_json_blank(j);
    if (!wl_json_is(j, ':')) return false;
    j->at++;
    return true;
}
static inline void wl_json_item(wl_json *j) {
    const uint8_t *step = wl_json_step(j, 2);
    if (step && (step[0] | (uint32_t)step[1] << 8 | (uint32_t)step[2] << 16 | (uint32_t)step[3] << 24) == j->index[j->depth - 1])
        wl_json_on_path(j);
}
/* Opens a container; `*empty`: it is closed at once. */
static inline bool wl_json_open(wl_json *j, bool *empty) {
    bool array = j->p[j->at] == '[';
    if (j->depth == WL_JSON_DEPTH) return false;
    j->at++;
    j->arrays = (j->arrays & ~(UINT64_C(1) << j->depth)) | (uint64_t)array << j->depth;
    j->index[j->depth] = 0;
    j->depth++;
    wl_json_blank(j);
    *empty = wl_json_is(j, array ? ']' : '}');
    if (*empty) { j->at++; j->depth--; return true; }
    if (!array) return wl_json_key(j);
    wl_json_item(j);
    return true;
}
/* Behind a value: the comma and what leads to the next value (1), the end of all (2), or nothing
 * valid (0). */
static inline int wl_json_behind(wl_json *j) {
    for (;;) {
        if (j->depth == j->steps && j->hit == j->depth && !j->found) { j->found = true; j->to = j->at; }
        if (!j->depth) return 2;
        if (j->hit == j->depth) j->hit--;
        bool array = j->arrays >> (j->depth - 1) & 1;
        wl_json_blank(j);
        if (wl_json_is(j, ',')) {
            j->at++;
            if (!array) return wl_json_key(j);
            j->index[j->depth - 1]++;
            wl_json_item(j);
            return 1;
        }
        if (!wl_json_is(j, array ? ']' : '}')) return 0;
        j->at++;
        j->depth--;
    }
}
static inline bool wl_json_path(wl_json *j, wl_bytes path) {
    for (uint32_t at = 0; at < path.n;) {
        if (j->steps == WL_JSON_STEPS || path.n - at < 3) return false;
        j->step[j->steps++] = path.p + at;
        at += path.p[at] == 1 ? 3 + (uint32_t)(path.p[at + 1] | path.p[at + 2] << 8) : 5;
    }
    return true;
}
/* The text of the value at a path. Of equal keys the last one counts. */
static inline wl_opt_wl_bytes wl_json_raw(wl_bytes b, wl_bytes path) {
    const wl_opt_wl_bytes none = {0};
    wl_json json = {.p = b.p, .n = b.n}, *j = &json;
    if (!wl_json_path(j, path)) return none;
    for (;;) {
        wl_json_blank(j);
        if (j->at >= j->n) return none;
        if (j->depth == j->steps && j->hit == j->depth) j->from = j->at;
        if (j->p[j->at] == '{' || j->p[j->at] == '[') {
            bool empty;
            if (!wl_json_open(j, &empty)) return none;
            if (!empty) continue;
        } else if (!wl_json_simple(j)) return none;
        int next = wl_json_behind(j);
        if (!next) return none;
        if (next == 2) break;
    }
    wl_json_blank(j);
    return j->at == j->n && j->found ? (wl_opt_wl_bytes){true, wl_b(b.p + j->from, j->to - j->from)} : none;
}
/* The characters of the string at a path. They lie in the text, or in scratch if it has escapes. */
static inline wl_opt_wl_bytes wl_json_text(wl_fx *x, wl_bytes b, wl_bytes path) {
    const wl_opt_wl_bytes none = {0};
    wl_opt_wl_bytes r = wl_json_raw(b, path);
    if (!r.has || r.v.p[0] != '"') return none;
    wl_bytes s = wl_b(r.v.p + 1, r.v.n - 2);
    if (!s.n || !memchr(s.p, '\\', s.n)) return (wl_opt_wl_bytes){true, s};
    uint8_t *d = wl_tmp(x, s.n), to[4];
    if (!d) return none;
    uint32_t k = 0;
    for (uint32_t at = 0, n = 0; at < s.n;) {
        at += wl_json_char(s.p + at, s.n - at, to, &n);
        if (!n) return none;
        for (uint32_t i = 0; i < n; i++) d[k++] = to[i];
    }
    return (wl_opt_wl_bytes){true, wl_b(d, k)};
}
/* The whole number at a path, of 64 bits with its sign: without fraction and exponent. */
static inline wl_opt_uint64_t wl_json_int(wl_bytes b, wl_bytes path) {
    const wl_opt_uint64_t none = {0};
    wl_opt_wl_bytes r = wl_json_raw(b, path);
    if (!r.has) return none;
    bool minus = r.v.p[0] == '-';
    uint64_t v = 0, most = (uint64_t)INT64_MAX + minus;
    uint32_t i = minus;
    for (; i < r.v.n; i++) {
        uint8_t d = (uint8_t)(r.v.p[i] - '0');
        if (d > 9 || v > (most - d) / 10) return none;
        v = v * 10 + d;
    }
    return (wl_opt_uint64_t){true, minus ? 0 - v : v};
}
#endif
