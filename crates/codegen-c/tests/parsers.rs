//! Parsers: fragmentation, limits, recovery, streams, with sanitizers.
mod common;
use common::*;

fn hex(b: &[u8]) -> String {
    b.iter().map(|b| format!("{b:02x}")).collect()
}

/// Feeds messages; each line of the answer is (result, head, used, fault, flags).
fn results(unit: u32, messages: &[(&[u8], bool)]) -> Vec<Vec<u64>> {
    let args: Vec<String> =
        messages.iter().map(|(m, eof)| format!("{unit}:{}{}", if *eof { "!" } else { "" }, hex(m))).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let out = drive(&module("grammars"), "split", &args);
    assert!(!out.contains("DIFFERENT"), "{out}");
    out.lines().map(|l| l.split_whitespace().filter_map(|w| w.parse().ok()).collect()).collect()
}

const MORE: u64 = 0;
const WHOLE: u64 = 2;
const BAD: u64 = 3;

#[test]
fn text_messages() {
    let long = [b"get ".as_slice(), &[b'k'; 250], b"\r\n"].concat();
    let longer = [b"get ".as_slice(), &[b'k'; 251], b"\r\nnext"].concat();
    let got = results(
        2,
        &[
            (b"get a bb  ccc\r\nrest", false),
            (b"gets a\n", false),
            (b"get a b c d\r\n", false),
            (b"get a b c d e\r\nx", false),
            (&long, false),
            (&longer, false),
            (b"set k 7 5 noreply\r\nhello\r\nnext", false),
            (b"set k 7 a\r\n0123456789\r\n", false),
            (b"set k 7 0\r\n\r\n", false),
            (b"set k 70000 1\r\nx\r\n", false),
            (b"set k 70001 1\r\nx\r\n", false),
            (b"set k 7 5\r\nhelloXXnext", false),
            (b"set k 7 ffffffff\r\nhel", false),
            (b"set k 7 100001\r\nhel", false),
            (b"set k 7 5\r\nhel", true),
            (b"HTTP/1.1\r\nhost: example \r\nx-y:\r\n\r\n\x81\x01\x07\x09\xab\xcd", false),
            (b"HTTP/1.1\r\nno: example\r\n\r\n\x01\x01\xab\xcd", false),
            (b"HTTP/1.x\r\n", false),
            (b"HTTQ", false),
            (b"bad x", false),
            (b"something else\nx", false),
            (b"", true),
            (b"ge", false),
        ],
    );
    let check = |i: usize, want: &[u64]| assert_eq!(&got[i][..want.len()], want, "message {i}: {:?}", got[i]);
    check(0, &[WHOLE, 15, 15]);
    check(1, &[WHOLE, 7, 7]);
    check(2, &[WHOLE, 13, 13]);
    check(3, &[BAD, 0, 15, 2, 32]);
    check(4, &[WHOLE, 256, 256]);
    check(5, &[BAD, 0, 257, 2, 32]);
    check(6, &[WHOLE, 19, 26]);
    check(7, &[WHOLE, 11, 23]);
    check(8, &[WHOLE, 13, 13]);
    check(9, &[WHOLE, 15, 18]);
    check(10, &[BAD, 0, 15, 1, 32]);
    check(11, &[BAD, 11, 18, 32, 32]);
    // Longer than the maximum: skipped as `recover` says, if that many bytes can be counted.
    check(12, &[BAD, 0, 0, 33]);
    check(13, &[MORE, 16]);
    check(14, &[BAD, 11, 0, 3]);
    check(15, &[WHOLE, 40, 40]);
    check(16, &[BAD, 0, 10, 1, 32]);
    check(17, &[BAD, 0, 10, 1, 32]);
    check(18, &[MORE]);
    check(19, &[WHOLE, 0, 0]);
    check(20, &[WHOLE, 15, 15]);
    check(21, &[BAD, 0, 0, 3]);
    check(22, &[MORE]);
}

#[test]
fn streams() {
    let got = results(
        1 + 3,
        &[
            (b"c5\r\nhello\r\n10\r\n0123456789abcdef\r\n0\r\n\r\nnext", false),
            (b"c5\r\nhelloXX", false),
            (b"c5\r\nhel", true),
            (b"cfffffffffffffffff\r\n", false),
            (b"l5\nhello", false),
            (b"l0\n", false),
            (b"l18446744073709551615\nabc", false),
            (b"l18446744073709551616\nabc", false),
            (b"efghij", true),
            (b"e", true),
            (b"x", false),
        ],
    );
    let check = |i: usize, want: &[u64]| assert_eq!(&got[i][..want.len()], want, "message {i}: {:?}", got[i]);
    check(0, &[WHOLE, 1, 38, 0, 0]);
    check(1, &[BAD, 1, 0, 1]);
    check(2, &[BAD, 1, 0, 3]);
    check(3, &[BAD, 1, 0, 2]);
    check(4, &[WHOLE, 3, 8]);
    check(5, &[WHOLE, 3, 3]);
    check(6, &[MORE, 22, 25]);
    check(7, &[BAD, 0, 0, 1]);
    check(8, &[WHOLE, 1, 6, 0, 16]);
    check(9, &[WHOLE, 1, 1, 0, 16]);
    check(10, &[WHOLE, 1, 1]);
}

/// Mutations of good messages: the result is the same for every way of cutting them.
#[test]
fn mutations() {
    let seeds: [(u32, &[u8]); 6] = [
        (2, b"get a bb  ccc\r\n"),
        (2, b"set k 7 5 noreply\r\nhello\r\n"),
        (2, b"HTTP/1.1\r\nhost: ex\r\nx:\r\n\r\n\x81\x01\x07\x09\xab\xcd\0\0\0"),
        (2, b"set kk 70000 a\n0123456789\r\n"),
        (4, b"c5\r\nhello\r\n3\r\n012\r\n0\r\n\r\n"),
        (4, b"l5\nhello"),
    ];
    let mut rng = fastrand::Rng::with_seed(1);
    let mut random = |below: usize| rng.usize(..below);
    let mut args = Vec::new();
    for _ in 0..400 {
        let (unit, seed) = seeds[random(seeds.len())];
        let mut m = seed.to_vec();
        for _ in 0..1 + random(3) {
            let at = random(m.len());
            match random(4) {
                0 => m[at] = random(256) as u8,
                1 => m[at] = b" \r\n0:9f"[random(7)],
                2 => m.insert(at, b" \r\n0:9f"[random(7)]),
                _ => {
                    m.remove(at);
                }
            }
        }
        args.push(format!("{unit}:{}{}", if random(3) == 0 { "!" } else { "" }, hex(&m)));
    }
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let out = drive(&module("grammars"), "split", &args);
    assert!(!out.contains("DIFFERENT"), "{out}");
    assert_eq!(out.lines().count(), 400);
}
