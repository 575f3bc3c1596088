//! Bytes: in tables, in conditions, in payloads.

use super::*;

/// UDP frames of a few small texts, then hostile ones.
fn texts(random: usize) -> impl FnMut(Taker) {
    let mut hostile = hostile(random);
    move |each| {
        for text in ["", "a", "get key", "get key\r\n", "GET key12345678901234567890 x", "get 17\r\n", "get 0017\r\n"] {
            for n in 0..6usize {
                let text = text.replace("key", &"key".repeat(n));
                each(&udp(text.as_bytes()));
            }
        }
        hostile(each)
    }
}

/// A frame with UDP and this payload; the checksums are right.
pub(super) fn udp(payload: &[u8]) -> Vec<u8> {
    datagram((12345, 11211), payload)
}

/// The same frame with its IPv4 addresses exchanged: no checksum changes.
pub(super) fn turned(frame: &[u8]) -> Vec<u8> {
    [&frame[..26], &frame[30..34], &frame[26..30], &frame[34..]].concat()
}

/// The same from one port to another.
pub(super) fn datagram((from, to): (u16, u16), payload: &[u8]) -> Vec<u8> {
    let mut ip = vec![0x45, 0, 0, 0, 0, 1, 0, 0, 64, 17, 0, 0, 10, 0, 0, 9, 10, 0, 0, 1];
    let total = (28 + payload.len()) as u16;
    ip[2..4].copy_from_slice(&total.to_be_bytes());
    let sum = sum(&ip, 0);
    ip[10..12].copy_from_slice(&sum.to_be_bytes());
    let mut udp = [&from.to_be_bytes()[..], &to.to_be_bytes(), &[0; 4]].concat();
    udp[4..6].copy_from_slice(&((8 + payload.len()) as u16).to_be_bytes());
    udp.extend_from_slice(payload);
    let pseudo = [&ip[12..20], &[0, 17], &udp[4..6]].concat();
    let over = self::sum(&[&pseudo[..], &udp[..]].concat(), 0);
    udp[6..8].copy_from_slice(&if over == 0 { 0xffff } else { over }.to_be_bytes());
    [&[2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0][..], &ip, &udp].concat()
}

fn sum(bytes: &[u8], more: u32) -> u16 {
    let word = |w: &[u8]| u32::from(w[0]) << 8 | u32::from(*w.get(1).unwrap_or(&0));
    let mut n = bytes.chunks(2).map(word).sum::<u32>() + more;
    while n > 0xffff {
        n = (n & 0xffff) + (n >> 16)
    }
    !(n as u16)
}

#[test]
fn bytes_as_keys_and_values() {
    let folder = Folder::new("xdp-bytes");
    let path = written(
        &folder,
        "record Word { text: bytes<9>, times: u32, last: bytes<100> }
app words {
    port wire = nic(\"eth0\")
    table seen: bytes<21> -> Word { capacity 512 }
    table pairs: (bytes<4>, u16, bytes<300>) -> bytes<33> { capacity 64 }
    table short: u16 -> bytes<3> { capacity 300 }
    counter removed
    counter odd
    fn first(b: bytes<200>) -> bytes<21> = slice(b, 0, min(find(b, \" \") else 21, 21))
    on wire(p) where p.udp {
        let q = p.payload
        let key = first(slice(q, 0, 200))
        update seen[key] {
            if .times == 0 { .text = slice(q, 1, 10) }
            .times += 1
            .last = slice(q, 4, 104)
        }
        let pair = (slice(q, 0, 4), u16(len(q)), slice(q, 2, 302))
        if let was = pairs[pair] {
            if was == \"remove\" { remove pairs[pair]; removed += 1 }
            else if starts_with(was, \"get \") { pairs[pair] = \"remove\" }
            else { odd += 1 }
        } else { pairs[pair] = slice(q, 0, 33) }
        short[p.udp.dst] = slice(q, 3, 6)
        p -> kernel
    }
}
",
    );
    let Some(sum) = compare(&path, &[], |each| {
        texts(20_000)(each);
        texts(0)(each);
    }) else {
        return;
    };
    assert!(sum.entries > 60 && sum.counted > 10, "{sum:?}");
}

/// A handler's first calls are in line where their bytes are few. Each length and each place of a
/// byte, on both sides of that border.
#[test]
fn few_bytes_and_many() {
    let folder = Folder::new("xdp-few");
    let path = written(
        &folder,
        "app few {
    port wire = nic(\"eth0\")
    table kept: bytes<60> -> bytes<140> { capacity 4K }
    counter blanks
    counter crosses
    counter hashes
    on wire(p) where p.udp {
        let q = p.payload
        if let n = find(q, \" \") { blanks += u64(n) + 1 }
        if let n = find(slice(q, 3, 90), \"x\") { crosses += u64(n) + 1 }
        hashes += murmur64(7, slice(q, 0, 50)) % 1000
        let key = slice(q, 0, 60)
        if let was = kept[key] { p.payload = was }
        else { kept[key] = slice(q, min(len(q), u64(p.udp.src % 4)), 150) }
        p -> wire
    }
}
",
    );
    let lengths = |each: Taker| {
        for n in (0..=44).chain([62, 63, 64, 65, 87, 95, 96, 97, 98, 103, 104, 127, 128, 129, 140]) {
            for at in (0..=n).step_by(1 + n / 46) {
                let mut text: Vec<u8> = (0..n).map(|i| b'a' + (i % 23) as u8).collect();
                text[at..].iter_mut().take(1).for_each(|b| *b = b' ');
                text.iter_mut().skip(n - at).take(1).for_each(|b| *b = b'x');
                (0..2).for_each(|turn| each(&datagram((4000 + (at % 3) as u16, turn), &text)));
            }
        }
    };
    let Some(sum) = compare(&path, &[], lengths) else { return };
    assert!(sum.entries > 1000 && sum.counted > 1000, "{sum:?}");
}

#[test]
fn functions_of_bytes() {
    let folder = Folder::new("xdp-functions");
    let path = written(
        &folder,
        "app functions {
    port wire = nic(\"eth0\")
    counter equal
    counter found
    counter begins
    counter ends
    counter less
    counter numbers
    counter sums
    counter hashes
    counter cased
    counter texts
    counter bytes_
    on wire(p) where p.eth {
        let q = payload(p.eth)
        let r = p.payload
        if slice(q, 0, 4) == slice(r, 0, 4) { equal += 1 }
        if r == \"get keykey\" { equal += 100 }
        if slice(r, 0, 4) != \"get \" { equal += 1000 }
        if let n = find(r, \"key\") { found += u64(n) }
        if let n = find(q, slice(r, 0, 11)) { found += u64(n) * 7 }
        if let n = find(r, \"12345678901\") { found += u64(n) * 13 }
        if starts_with(r, \"GET \") { begins += 1 }
        if starts_with(q, slice(r, 0, 3)) { begins += 10 }
        if ends_with(r, \"\\r\\n\") { ends += 1 }
        if r < \"get k\" { less += 1 }
        if slice(q, 3, 20) >= slice(r, 2, 9) { less += 10 }
        if let n = u64(slice(r, 4, len(r) - min(len(r), 2))) { numbers += n % 1000 }
        sums += hash(r) % 1000
        hashes += hash(slice(r, 1, 30)) % 1000
        if lower(slice(r, 0, 40)) == \"get keykey12345678901234567890 x\" { cased += 1 }
        if upper(slice(r, 0, 40)) == slice(r, 0, 40) { cased += 10 }
        let t = concat(\"<\", slice(r, 0, 20), text(u64(p.len)), \">\")
        texts += hash(t) % 1000
        if len(r) > 3 { bytes_ += u64(r[3]) }
        p -> kernel
    }
}
",
    );
    let Some(sum) = compare(&path, &[], texts(20_000)) else { return };
    assert!(sum.counted > 1000, "{sum:?}");
}
