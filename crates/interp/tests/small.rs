//! Small parts: digests, tokens, tables, what is looked for in bytes.

use wireloom_interp::builtin::{crc32, crc32c, fmix64, fnv1a32, fnv1a64, has_token, murmur64, ring_lookup, siphash};
use wireloom_interp::exec::sketch::Sketch;
use wireloom_interp::exec::tables::{Limits, Table};
use wireloom_interp::grammar::scan::{delimiter, literal, DelimiterSearch, Match};
use wireloom_interp::value::Value;
use wireloom_ir::{ByteSet, TableKind};
use wireloom_runtime::consistent_hashing::md5;

#[test]
fn known_digests() {
    assert_eq!(md5(b""), *b"\xd4\x1d\x8c\xd9\x8f\x00\xb2\x04\xe9\x80\x09\x98\xec\xf8\x42\x7e");
    assert_eq!(md5(b"abc"), *b"\x90\x01\x50\x98\x3c\xd2\x4f\xb0\xd6\x96\x3f\x7d\x28\xe1\x7f\x72");
    assert_eq!(crc32(b"123456789"), 0xcbf4_3926);
    // RFC 3720, B.4.
    let up: Vec<u8> = (0..32).collect();
    let down: Vec<u8> = (0..32).rev().collect();
    let vectors = [&[0; 32][..], &[0xff; 32], &up, &down].map(crc32c);
    assert_eq!(vectors, [0x8a91_36aa, 0x62a8_ab43, 0x46dd_794e, 0x113f_db5c]);
    assert_eq!(fnv1a32(b"a"), 0xe40c_292c);
    assert_eq!(fnv1a64(b"a"), 0xaf63_dc4c_8601_ec8c);
    assert_eq!(fmix64(0), 0);
    // The verification of SMHasher: hashes of 0, 1, 2, … of each length with seeds 256, 255, … are
    // hashed once more.
    let all: Vec<u8> =
        (0..=255u8).flat_map(|n| murmur64(256 - u64::from(n), &(0..n).collect::<Vec<_>>()).to_le_bytes()).collect();
    assert_eq!(murmur64(0, &all) as u32, 0x1f0d_3804);
    // The first and some later vectors of the reference implementation: 0, 1, 2, … of each length.
    let of = |n: u8| siphash([0x0706_0504_0302_0100, 0x0f0e_0d0c_0b0a_0908], &(0..n).collect::<Vec<_>>());
    assert_eq!(
        [0, 1, 8, 15].map(of),
        [0x726f_db47_dd0e_0e31, 0x74f8_39c5_93dc_67fd, 0x93f5_f579_9a93_2462, 0xa129_ca61_49be_45e5]
    );
}

#[test]
fn tokens() {
    assert!(has_token(b"gzip , Chunked", b"chunked"));
    assert!(!has_token(b"xchunked", b"chunked"));
    assert!(!has_token(b", ,", b""));
}

#[test]
fn ring_wraps() {
    let ring = [10, 0, 20, 1, 30, 2];
    assert_eq!([5, 10, 11, 30, 31].map(|h| ring_lookup(&ring, h).map(|(_, i)| i)), [0, 0, 1, 2, 0].map(Some));
}

fn table(capacity: u64, idle: u64, evict_lru: bool) -> Table {
    Table::new(Limits { capacity, idle, evict_lru, from_write: false, blocks: None }, None)
}

#[test]
fn a_filter_has_what_was_added_and_little_else() {
    let mut s = Sketch::new(TableKind::Bloom, 1000).expect("a sketch");
    assert_eq!(s.value(b"a"), Value::Bool(false));
    for n in 0..1000u32 {
        s.note(&n.to_le_bytes(), &Value::Bool(true));
    }
    let has = |s: &Sketch, n: u32| s.value(&n.to_le_bytes()) == Value::Bool(true);
    assert!((0..1000).all(|n| has(&s, n) && !s.note(&n.to_le_bytes(), &Value::Bool(true))));
    let wrong = (1000..21_000).filter(|n| has(&s, *n)).count();
    assert!(wrong < 400, "{wrong} of 20,000");
}

/// Nor do they grow with the keys.
#[test]
fn counts_are_never_too_small() {
    let mut s = Sketch::new(TableKind::CountMin, 100).expect("a sketch");
    let count = |s: &Sketch, n: u32| s.value(&n.to_le_bytes()).as_int().expect("a number");
    for round in 1..=5 {
        for n in 0..100 {
            let next = Value::Int(count(&s, n) + 1);
            s.note(&n.to_le_bytes(), &next);
        }
        assert!((0..100).all(|n| count(&s, n) >= round));
    }
    let wrong = (0..100).filter(|n| count(&s, *n) > 5).count();
    assert!(wrong < 50, "{wrong} of 100");
    assert!(Sketch::new(TableKind::Exact, 100).is_none());
}

#[test]
fn evicts_the_least_recently_used() {
    let mut t = table(2, 0, true);
    for (k, v) in [(b"a", 1), (b"b", 2)] {
        assert!(t.put(k, Value::Int(v), 1, 0));
    }
    assert_eq!(t.get(b"a", 1), Some(Value::Int(1)));
    assert!(t.put(b"c", Value::Int(3), 1, 2));
    assert_eq!((t.get(b"b", 3), t.len(3), t.stats.evictions), (None, 2, 1));
}

#[test]
fn rejects_when_full_and_expires() {
    let mut t = table(1, 10, false);
    assert!(t.put(b"a", Value::Int(1), 1, 0));
    assert!(!t.put(b"b", Value::Int(2), 1, 5));
    assert!(!t.put(b"b", Value::Int(2), 1, 10));
    assert!(t.put(b"b", Value::Int(2), 1, 11));
    assert_eq!((t.get(b"a", 11), t.get(b"b", 21), t.get(b"b", 32)), (None, Some(Value::Int(2)), None));
    assert_eq!((t.stats.rejected, t.stats.expired), (2, 2));
}

#[test]
fn undecided_is_more() {
    let crlf = [b"\r\n".to_vec()];
    let find = |b: &[u8], max| delimiter(b, &crlf, max, None, false);
    assert_eq!(find(b"ab\r", 9), DelimiterSearch::More(2));
    assert_eq!(find(b"ab\r\n", 9), DelimiterSearch::At(2, 2));
    assert_eq!(find(b"abc\r", 2), DelimiterSearch::TooLong);
    assert_eq!(find(b"ab\r", 2), DelimiterSearch::More(2));
    assert_eq!(find(b"ab", 2), DelimiterSearch::More(2));
    let lower = ByteSet::range(b'a', b'z');
    assert_eq!(delimiter(b"aB", &crlf, 9, Some(&lower), false), DelimiterSearch::Illegal(1));
    assert_eq!(delimiter(b"ab\r", &crlf, 9, Some(&lower), false), DelimiterSearch::More(2));
    // Where no more bytes come, a part of a delimiter is none.
    assert_eq!(delimiter(b"ab\r", &crlf, 9, Some(&lower), true), DelimiterSearch::Illegal(2));
    assert_eq!(literal(b"ge", &[b"get ".to_vec(), b"ge".to_vec()], false), Match::More);
    assert_eq!(literal(b"ge", &[b"get ".to_vec(), b"ge".to_vec()], true), Match::Yes(2));
}
