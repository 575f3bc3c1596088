//! Checks in memcached's binary protocol that every server of it must pass; `kv_server` and the
//! proxy run the same.

use super::binary::{op, status, Packet};
use crate::client::Client;
use crate::dialogue::tag;

fn value_of(c: &mut Client, key: &str) -> Option<Vec<u8>> {
    let answer = c.ask(&Packet::request(op::GET, key));
    assert!(matches!(answer.status, status::OK | status::NOT_FOUND), "{answer:?}");
    (answer.status == status::OK).then_some(answer.value)
}

fn status_of(c: &mut Client, packet: &Packet) -> u16 {
    let answer = c.ask(packet);
    assert_eq!((answer.opcode, answer.opaque), (packet.opcode, packet.opaque), "{answer:?}");
    answer.status
}

pub fn storage(port: u16) {
    let (mut c, t) = (Client::connect(port), tag());
    assert_eq!(value_of(&mut c, &t), None);
    assert_eq!(status_of(&mut c, &Packet::store(op::SET, &t, b"abc").opaque(77)), status::OK);
    let got = c.ask(&Packet::request(op::GET, &t).opaque(0xffff_ffff));
    assert_eq!(
        (got.status, got.opaque, got.extras.as_slice(), got.value.as_slice()),
        (0, 0xffff_ffff, &[0, 0, 0, 7][..], &b"abc"[..])
    );
    let got = c.ask(&Packet::request(op::GETK, &t));
    assert_eq!((got.status, got.key.as_slice(), got.value.as_slice()), (0, t.as_bytes(), &b"abc"[..]));
    assert_eq!(status_of(&mut c, &Packet::store(op::ADD, &t, b"x")), status::EXISTS);
    assert_eq!(status_of(&mut c, &Packet::store(op::REPLACE, &format!("{t}none"), b"x")), status::NOT_FOUND);
    assert_eq!(status_of(&mut c, &Packet::store(op::REPLACE, &t, b"mid")), status::OK);
    assert_eq!(status_of(&mut c, &Packet::join(op::APPEND, &t, b"-end")), status::OK);
    assert_eq!(status_of(&mut c, &Packet::join(op::PREPEND, &t, b"start-")), status::OK);
    assert_eq!(value_of(&mut c, &t).as_deref(), Some(&b"start-mid-end"[..]));
    assert_eq!(status_of(&mut c, &Packet::join(op::APPEND, &format!("{t}none"), b"x")), status::NOT_STORED);
    assert_eq!(status_of(&mut c, &Packet::store(op::SET, &t, b"")), status::OK);
    assert_eq!(value_of(&mut c, &t).as_deref(), Some(&b""[..]));
    assert_eq!(status_of(&mut c, &Packet::request(op::DELETE, &t)), status::OK);
    assert_eq!(status_of(&mut c, &Packet::request(op::DELETE, &t)), status::NOT_FOUND);
    assert_eq!(c.ask(&Packet::request(op::GETK, &t)).status, status::NOT_FOUND);
    c.in_step();
}

pub fn compare_and_set(port: u16) {
    let (mut c, t) = (Client::connect(port), tag());
    let stamp = c.ask(&Packet::store(op::SET, &t, b"1")).cas;
    assert_ne!(stamp, 0);
    assert_eq!(c.ask(&Packet::request(op::GET, &t)).cas, stamp);
    assert_eq!(status_of(&mut c, &Packet::store(op::SET, &t, b"2").cas(stamp)), status::OK);
    assert_eq!(status_of(&mut c, &Packet::store(op::SET, &t, b"3").cas(stamp)), status::EXISTS);
    assert_eq!(status_of(&mut c, &Packet::store(op::SET, &format!("{t}none"), b"3").cas(stamp)), status::NOT_FOUND);
    assert_eq!(value_of(&mut c, &t).as_deref(), Some(&b"2"[..]));
    c.in_step();
}

pub fn numbers(port: u16) {
    let (mut c, t) = (Client::connect(port), tag());
    let number = |p: Packet| p.value.as_slice().try_into().map(u64::from_be_bytes).unwrap_or(u64::MAX);
    assert_eq!(number(c.ask(&Packet::change(op::INCREMENT, &t, 5, 40))), 40, "the initial value");
    assert_eq!(number(c.ask(&Packet::change(op::INCREMENT, &t, 5, 40))), 45);
    assert_eq!(number(c.ask(&Packet::change(op::DECREMENT, &t, 3, 40))), 42);
    assert_eq!(number(c.ask(&Packet::change(op::DECREMENT, &t, 100, 40))), 0);
    assert_eq!(value_of(&mut c, &t).map(|v| v[0]), Some(b'0'));
    assert_eq!(status_of(&mut c, &Packet::store(op::SET, &t, b"x")), status::OK);
    assert_eq!(status_of(&mut c, &Packet::change(op::INCREMENT, &t, 1, 0)), status::NOT_NUMERIC);
    c.in_step();
}

pub fn touching(port: u16) {
    let (mut c, t) = (Client::connect(port), tag());
    assert_eq!(status_of(&mut c, &Packet::touch(op::TOUCH, &t, 100)), status::NOT_FOUND);
    assert_eq!(status_of(&mut c, &Packet::touch(op::GAT, &t, 100)), status::NOT_FOUND);
    c.ask(&Packet::store(op::SET, &t, b"v"));
    assert_eq!(status_of(&mut c, &Packet::touch(op::TOUCH, &t, 100)), status::OK);
    let got = c.ask(&Packet::touch(op::GAT, &t, 100));
    assert_eq!((got.status, got.value.as_slice()), (0, &b"v"[..]));
    c.send(Packet::touch(op::GATQ, &format!("{t}none"), 100).bytes());
    c.send(Packet::touch(op::GATQ, &t, 100).opaque(9).bytes());
    let got = Packet::take(&mut c);
    assert_eq!((got.opcode, got.opaque, got.value.as_slice()), (op::GATQ, 9, &b"v"[..]));
    c.in_step();
}

/// Quiet commands speak only of hits (reads) or failures (writes); the noop's answer comes after
/// all of them.
pub fn quiet(port: u16) {
    let (mut c, t) = (Client::connect(port), tag());
    let key = |i: usize| format!("{t}k{i}");
    let mut batch = Vec::new();
    for i in 0..20 {
        batch.extend(Packet::store(op::SETQ, &key(i), format!("v{i}").as_bytes()).opaque(i as u32).bytes());
    }
    batch.extend(Packet::store(op::ADDQ, &key(3), b"x").opaque(100).bytes());
    batch.extend(Packet::store(op::ADDQ, &key(20), b"v20").opaque(101).bytes());
    batch.extend(Packet::store(op::REPLACEQ, &key(99), b"x").opaque(102).bytes());
    batch.extend(Packet::join(op::APPENDQ, &key(4), b"+").opaque(103).bytes());
    batch.extend(Packet::join(op::PREPENDQ, &key(99), b"+").opaque(104).bytes());
    batch.extend(Packet::change(op::INCREMENTQ, &format!("{t}n"), 1, 7).opaque(105).bytes());
    batch.extend(Packet::request(op::DELETEQ, &key(5)).opaque(106).bytes());
    batch.extend(Packet::request(op::DELETEQ, &key(5)).opaque(107).bytes());
    c.send(batch);
    for (opcode, opaque, wanted) in [
        (op::ADDQ, 100, status::EXISTS),
        (op::REPLACEQ, 102, status::NOT_FOUND),
        (op::PREPENDQ, 104, status::NOT_STORED),
        (op::DELETEQ, 107, status::NOT_FOUND),
    ] {
        let got = Packet::take(&mut c);
        assert_eq!((got.opcode, got.opaque, got.status), (opcode, opaque, wanted), "{got:?}");
    }
    c.in_step();

    let mut batch = Vec::new();
    for i in 0..25 {
        batch.extend(Packet::request(if i % 2 == 0 { op::GETQ } else { op::GETKQ }, &key(i)).opaque(i as u32).bytes());
    }
    batch.extend(Packet::request(op::NOOP, "").opaque(0xabc).bytes());
    c.send(batch);
    for i in (0..21).filter(|i| *i != 5) {
        let got = Packet::take(&mut c);
        let wanted = if i == 4 { "v4+".into() } else { format!("v{i}") };
        assert_eq!((got.opaque, got.status, got.value), (i as u32, 0, wanted.into_bytes()));
        assert_eq!(got.key, if i % 2 == 0 { String::new() } else { key(i) }.into_bytes());
    }
    assert_eq!(Packet::take(&mut c).opaque, 0xabc);
    c.expect_nothing_more();
}

/// Everything at once in pieces of n bytes.
pub fn in_pieces(port: u16, n: usize) {
    let (mut c, t) = (Client::connect(port), tag());
    let batch = [
        Packet::store(op::SET, &t, b"value").opaque(1).bytes(),
        Packet::request(op::GETKQ, &format!("{t}none")).opaque(2).bytes(),
        Packet::request(op::GETK, &t).opaque(3).bytes(),
        Packet::request(op::DELETE, &t).opaque(4).bytes(),
        Packet::request(op::NOOP, "").opaque(5).bytes(),
    ];
    c.send_in_pieces(&batch.concat(), n);
    let set = Packet::take(&mut c);
    assert_eq!((set.opaque, set.status), (1, 0));
    let got = Packet::take(&mut c);
    assert_eq!((got.opaque, got.value.as_slice()), (3, &b"value"[..]));
    assert_eq!(Packet::take(&mut c).opaque, 4);
    assert_eq!(Packet::take(&mut c).opaque, 5);
}

/// Half a packet, then the end.
pub fn half_messages(port: u16) {
    let t = tag();
    let whole = Packet::store(op::SET, &t, b"value").bytes();
    for n in [1, 4, 23, 24, 30, whole.len() - 1] {
        let mut c = Client::connect(port);
        c.send(&whole[..n]).finish_sending();
        c.rest();
        assert_eq!(value_of(&mut Client::connect(port), &t), None, "after {n} bytes");
    }
}

/// A thousand packets in one write, every one answered in order.
pub fn pipelined(port: u16) {
    let (mut c, t) = (Client::connect(port), tag());
    let batch: Vec<u8> = (0..500u32)
        .flat_map(|i| {
            let key = format!("{t}{i}");
            [
                Packet::store(op::SET, &key, &i.to_be_bytes()).opaque(2 * i).bytes(),
                Packet::request(op::GET, &key).opaque(2 * i + 1).bytes(),
            ]
            .concat()
        })
        .collect();
    c.send(batch);
    for i in 0..500u32 {
        assert_eq!(Packet::take(&mut c).opaque, 2 * i);
        let got = Packet::take(&mut c);
        assert_eq!((got.opaque, got.value.as_slice()), (2 * i + 1, &i.to_be_bytes()[..]));
    }
    c.in_step();
}
