"""Random JSON texts, many of them damaged: values of a service by their paths beside Python's `json`.

json_values.py PORT SEED TEXTS
"""
import json
import random
import socket
import sys

PATHS = {"/": [], "/a": ["a"], "/a/b": ["a", "b"], "/0": [0], "/a/1": ["a", 1], "/1/a": [1, "a"], "/quote": ['a"b'], "/other": ["\u00e9"]}
KEYS = ["a", "b", "a", 'a"b', "\u00e9", "", "\U0001f600"]
VALUES = [0, 1, -1, -0.5, 1e30, 2**63 - 1, 2**63, -(2**63), -(2**63) - 1, True, False, None, "x", "a\nb", "\ud800", "\U0001f600", "", '\u00ff"\\', 1.0]
DEPTH = 64


def refuse(word):
    raise ValueError(word)


def depth(text):
    """Objects and arrays in one another."""
    deep = most = at = 0
    quoted = False
    while at < len(text):
        c = text[at]
        if quoted:
            at += c == "\\"
            quoted = c != '"'
        elif c == '"':
            quoted = True
        elif c in "[{":
            deep += 1
            most = max(most, deep)
        elif c in "]}":
            deep -= 1
        at += 1
    return most


def find(body, path):
    """None, or the value in a list of one. Numbers are tuples: their text, and whether it is a whole number's."""
    try:
        text = body.decode()
        if text.startswith("\ufeff") or depth(text) > DEPTH:
            return None
        value = json.loads(text, parse_constant=refuse, parse_float=lambda t: (t, False), parse_int=lambda t: (t, True))
    except ValueError:
        return None
    for step in path:
        if isinstance(step, str) and isinstance(value, dict) and step in value:
            value = value[step]
        elif isinstance(step, int) and isinstance(value, list) and step < len(value):
            value = value[step]
        else:
            return None
    return [value]


def wanted(body, path):
    """What the service says, but for the text of the value."""
    found, yes = find(body, path), find(body, ["a"])
    text = number = "-"
    if found and isinstance(found[0], str):
        try:
            text = "+" + found[0].encode().decode("latin-1")
        except UnicodeEncodeError:
            pass
    if found and isinstance(found[0], tuple) and found[0][1] and -(2**63) <= int(found[0][0]) < 2**63:
        number = "+" + str(int(found[0][0]))
    told = "0" if not yes or not isinstance(yes[0], bool) else "2" if yes[0] else "1"
    return found, text, number, told


def value(r, deep=0):
    x = r.random()
    if deep > 4 or x < 0.25:
        return r.choice(VALUES)
    if x < 0.7:
        return {r.choice(KEYS): value(r, deep + 1) for _ in range(r.randint(0, 3))}
    return [value(r, deep + 1) for _ in range(r.randint(0, 3))]


def text(r):
    s = json.dumps(value(r), ensure_ascii=r.random() < 0.5, indent=r.choice([None, 1]))
    if r.random() < 0.3:
        s = '{"a":%s,"\\u0061":%s}' % (s, json.dumps(value(r)))
    if r.random() < 0.05:
        n = r.choice([62, 63, 64, 65, 70])
        s = "[" * n + s + "]" * n
    b = bytearray(s.encode("utf-8", "surrogatepass"))
    for _ in range(r.choice([0, 0, 0, 1, 2, 5])):
        if not b:
            break
        at, x = r.randrange(len(b)), r.random()
        if x < 0.4:
            b[at] = r.choice(b'{}[]",:\\u0123eE+-. \n\x00\x1f\xff\xc3tfn')
        elif x < 0.7:
            del b[at]
        else:
            b[at:at] = r.choice([b'"', b"{", b"}", b",", b"\\", b"0", b"-", b"\\ud83d", b"\\ude00", b"\xed\xa0\x80", b"\xc0\x80", b"e", b"null", b" "])
    return bytes(b)


def ask(sock, target, body):
    sock.sendall(b"POST %s HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n" % (target.encode(), len(body)) + body)
    data = b""
    while b"\r\n\r\n" not in data:
        data += sock.recv(65536) or refuse("the connection ended")
    head, _, answer = data.partition(b"\r\n\r\n")
    length = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
    while len(answer) < length:
        answer += sock.recv(65536) or refuse("the answer was cut")
    return answer.decode("latin-1")


def main():
    port, seed, texts = map(int, sys.argv[1:])
    r = random.Random(seed)
    sock = socket.create_connection(("127.0.0.1", port))
    with_value = 0
    for _ in range(texts):
        body, target = text(r), r.choice(list(PATHS))
        answer = ask(sock, target, body)
        found, string, number, told = wanted(body, PATHS[target])
        end = f"|{string}|{number}|{told}"
        assert answer.endswith(end), (body, target, answer, end)
        raw = answer[: len(answer) - len(end)]
        assert (raw[0] == "+") == bool(found), (body, target, answer, found)
        if found:
            with_value += 1
            again = find(raw[1:].encode("latin-1"), [])
            assert again == found, (body, target, raw, found)
    assert with_value > texts // 20, with_value
    print(texts, "texts,", with_value, "with a value")


main()
