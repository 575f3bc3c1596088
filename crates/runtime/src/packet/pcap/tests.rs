//! Captures written are read back; damaged ones end with an error, never with a panic.
use super::*;
use crate::packet::pool::Pool;

/// Time, length on the wire, bytes.
type Frame = (u64, u32, Vec<u8>);

fn read_all(bytes: Vec<u8>) -> Result<(Vec<Frame>, Option<String>), String> {
    let mut r = Reader::new(Box::new(io::Cursor::new(bytes)))?;
    let mut frames = Vec::new();
    while let Some(n) = r.peek() {
        frames.push((n.time, n.wire, r.bytes(&n).to_vec()));
        r.advance();
    }
    Ok((frames, r.failure()))
}

fn temp(name: &str) -> std::path::PathBuf {
    crate::packet::tests::dir().join(name)
}

fn sample() -> Vec<Frame> {
    let frame = |i: u64, n: usize| {
        (
            1_700_000_000_123_456_789 + i * 1_000_017,
            n as u32 + (i as u32 % 3),
            (0..n).map(|k| (k as u64 * 7 + i) as u8).collect(),
        )
    };
    [60, 61, 62, 63, 64, 1514, 9000, 65_549, 262_144, 0, 1]
        .iter()
        .enumerate()
        .map(|(i, n)| frame(i as u64, *n))
        .collect()
}

fn written(name: &str, style: Style) -> Vec<u8> {
    let path = temp(name);
    let mut w = Writer::create(&path, style).unwrap();
    for (time, wire, bytes) in sample() {
        assert!(w.frame(&bytes, time, wire));
    }
    w.finish().unwrap();
    std::fs::read(&path).unwrap()
}

#[test]
fn what_is_written_is_read_back() {
    for name in ["a.pcap", "a.pcapng", "a.pcap.gz", "a.pcapng.zst"] {
        written(name, Style::default());
        let mut r = Reader::open(&temp(name)).unwrap();
        for want in sample() {
            let n = r.peek().unwrap();
            assert_eq!((n.time, n.wire, r.bytes(&n)), (want.0, want.1, &want.2[..]), "{name}");
            r.advance();
        }
        assert_eq!((r.peek(), r.ended()), (None, true), "{name}");
    }
}

/// Sent frames may be longer than received ones, and readers cut frames to the length in the file's
/// header.
#[test]
fn headers_leave_room_for_frames_that_grow() {
    let most = |snap| {
        let file = written("snap.pcap", Style { snap, ..Style::default() });
        u32::from_le_bytes([file[16], file[17], file[18], file[19]])
    };
    assert_eq!([most(0), most(96), most(1514), most(262_144)], [65_535, 65_535, 65_535, 262_144]);
}

#[test]
fn both_byte_orders_and_resolutions() {
    for (nanos, big) in [(false, false), (false, true), (true, false), (true, true)] {
        let put = |v: u32| if big { v.to_be_bytes() } else { v.to_le_bytes() };
        let mut file = Vec::new();
        file.extend(put(if nanos { 0xa1b2_3c4d } else { 0xa1b2_c3d4 }));
        file.extend(if big { [0, 2, 0, 4] } else { [2, 0, 4, 0] });
        [0, 0, 65_535, 101].into_iter().for_each(|v| file.extend(put(v)));
        [7, 5, 3, 90].into_iter().for_each(|v| file.extend(put(v)));
        file.extend(b"abc");
        let (frames, error) = read_all(file).unwrap();
        let time = 7_000_000_000 + if nanos { 5 } else { 5000 };
        assert_eq!((frames, error), (vec![(time, 90, b"abc".to_vec())], None));
    }
}

/// Appends a block of pcapng in one of the byte orders.
fn add_block(file: &mut Vec<u8>, order: fn(u32) -> [u8; 4], kind: u32, body: &[u8]) {
    let n = order((body.len() + 12) as u32);
    for part in [&order(kind)[..], &n, body, &n] {
        file.extend_from_slice(part);
    }
}

#[test]
fn resolutions_of_pcapng() {
    // Big endian, resolution 2^-20, times 2 s earlier; an unknown block, and a simple packet.
    let mut f: Vec<u8> = Vec::new();
    let mut block = |kind, body: &[u8]| add_block(&mut f, u32::to_be_bytes, kind, body);
    block(0x0a0d_0d0a, &[0x1a, 0x2b, 0x3c, 0x4d, 0, 1, 0, 0, 255, 255, 255, 255, 255, 255, 255, 255]);
    let mut idb = vec![0, 1, 0, 0, 0, 0, 0, 4, 0, 9, 0, 1, 0x94, 0, 0, 0, 0, 14, 0, 8];
    idb.extend((-2i64).to_be_bytes());
    idb.extend([0, 0, 0, 0]);
    block(1, &idb);
    block(0x0bad, &[0; 2_000_000]);
    let ticks = (5u64 << 20) + (1 << 19);
    let mut epb = vec![0, 0, 0, 0];
    epb.extend(ticks.to_be_bytes());
    epb.extend([0, 0, 0, 2, 0, 0, 0, 9, b'x', b'y', 0, 0]);
    block(6, &epb);
    block(3, &[0, 0, 0, 6, 1, 2, 3, 4]);
    let (frames, error) = read_all(f).unwrap();
    assert_eq!(error, None);
    assert_eq!(frames, [(3_500_000_000, 9, b"xy".to_vec()), (3_500_000_000, 6, vec![1, 2, 3, 4])]);
}

#[test]
fn while_nothing_comes_what_was_sent_is_in_the_file() {
    let (path, mut pool) = (temp("live.pcap"), Pool::all(1, 8).unwrap().remove(0));
    let mut output = Output { writer: Writer::create(&path, Style::default()).unwrap(), live: false };
    let (mut batch, (buf, f)) = (Batch::default(), pool.store(b"frame").unwrap());
    batch.push(buf, f);
    assert_eq!(output.transmit(&mut pool, &mut batch).frames, 1);
    output.tend(&mut pool);
    assert_eq!(read_all(std::fs::read(&path).unwrap()).unwrap(), (vec![(0, 5, b"frame".to_vec())], None));
}

/// A time that is the largest number would mean that there is no frame: a run would wait for ever.
#[test]
fn times_without_end_are_the_latest_there_is() {
    let mut f: Vec<u8> = Vec::new();
    let mut block = |kind, body: &[u8]| add_block(&mut f, u32::to_le_bytes, kind, body);
    block(0x0a0d_0d0a, &[0x4d, 0x3c, 0x2b, 0x1a, 1, 0, 0, 0, 255, 255, 255, 255, 255, 255, 255, 255]);
    // Seconds; and microseconds, to which the most seconds that there can be are added.
    block(1, &[1, 0, 0, 0, 0, 0, 4, 0, 9, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    let most = i64::MAX.to_le_bytes();
    block(1, &[&[1, 0, 0, 0, 0, 0, 4, 0, 14, 0, 8, 0][..], &most, &[0; 4]].concat());
    for (interface, ticks) in [(0, 255), (1, 0), (0, 0)] {
        block(6, &[&[interface, 0, 0, 0][..], &[ticks; 8], &[1, 0, 0, 0, 1, 0, 0, 0, b'x', 0, 0, 0]].concat());
    }
    let (frames, error) = read_all(f).unwrap();
    assert_eq!(
        (frames.iter().map(|f| f.0).collect::<Vec<_>>(), error),
        (vec![i64::MAX as u64, i64::MAX as u64, 0], None)
    );
    // The plain format counts seconds in 32 bits: later ones are its last.
    let path = temp("late.pcap");
    let mut w = Writer::create(&path, Style::default()).unwrap();
    assert!(w.frame(b"x", i64::MAX as u64, 1) && w.finish().is_ok());
    assert_eq!(read_all(std::fs::read(&path).unwrap()).unwrap().0[0].0 / 1_000_000_000, u64::from(u32::MAX));
}

#[test]
fn other_link_types_are_refused() {
    let mut file = written("link.pcap", Style::default());
    file[20] = 113;
    assert_eq!(read_all(file).unwrap_err(), "link type 113 (Linux cooked, as of tcpdump -i any) is not supported: only Ethernet (1) and raw IP (101, 228, 229)");
    for (text, start) in
        [("too few", &b"\xd4\xc3"[..]), ("not a capture: begins with 50 4b", b"PK\x03\x04aaaaaaaaaaaaaaaaaaaaaaaaaaa")]
    {
        assert!(read_all(start.to_vec()).unwrap_err().contains(text));
    }
}

/// dumpcap on several interfaces describes them all, whether or not a frame comes from them.
#[test]
fn interfaces_without_frames_may_be_of_any_kind() {
    let mut f: Vec<u8> = Vec::new();
    let mut block = |kind, body: &[u8]| add_block(&mut f, u32::to_le_bytes, kind, body);
    block(0x0a0d_0d0a, &[0x4d, 0x3c, 0x2b, 0x1a, 1, 0, 0, 0, 255, 255, 255, 255, 255, 255, 255, 255]);
    for link in [239, 1, 101, 1] {
        block(1, &[link, 0, 0, 0, 0, 0, 4, 0]);
    }
    for interface in [1, 3, 2, 0] {
        block(6, &[&[interface, 0, 0, 0][..], &[0; 8], &[1, 0, 0, 0, 1, 0, 0, 0, interface, 0, 0, 0]].concat());
    }
    let (frames, error) = read_all(f.clone()).unwrap();
    assert_eq!(frames, [(0, 1, vec![1]), (0, 1, vec![3])]);
    assert!(error.unwrap().contains("after 2 frames: some frames begin with Ethernet, others with IP"));
    // The kind is that of the frames, not of the interface that is described first.
    let ip = f.len() - 2 * 36;
    f.drain(ip - 2 * 36..ip);
    let reader = Reader::new(Box::new(std::io::Cursor::new(f.clone()))).unwrap();
    assert_eq!(reader.style().link, LinkType::Ip);
    let (frames, error) = read_all(f).unwrap();
    assert_eq!(frames, [(0, 1, vec![2])]);
    assert!(error.unwrap().contains("frame 2 of the capture cannot be read: link type 239"));
}

#[test]
fn a_cut_capture_gives_what_is_before_the_cut() {
    for name in ["cut.pcap", "cut.pcapng"] {
        let file = written(name, Style::default());
        let whole = sample();
        let mut last = 0;
        for cut in (24..12_000.min(file.len())).chain([file.len() - 1]) {
            match read_all(file[..cut].to_vec()) {
                Ok((frames, error)) => {
                    assert!(frames.len() >= last, "{name} cut at {cut}");
                    last = frames.len();
                    assert_eq!(frames[..], whole[..last], "{name} cut at {cut}");
                    let ends_clean = error.is_none();
                    assert!(
                        ends_clean || error.unwrap().contains(&format!("after {last} frames: cut off")),
                        "{name} cut at {cut}"
                    );
                }
                Err(e) => assert!(cut < 64 && e.contains("cut off"), "{name} cut at {cut}: {e}"),
            }
        }
        assert!(last + 1 >= whole.len());
    }
}

/// Flipped bytes and cuts: errors or other frames, no panic, no hang.
#[test]
fn damaged_captures_do_no_harm() {
    let files = [written("fuzz.pcap", Style::default()), written("fuzz.pcapng", Style::default())];
    const RUNS: usize = 20_000;
    let mut seed = 0x5EEDu64;
    let mut random = move |n: usize| {
        seed = crate::core::mix(seed);
        seed as usize % n
    };
    let mut errors = 0;
    for _ in 0..RUNS {
        let mut file = files[random(2)][..2000].to_vec();
        for _ in 0..1 + random(4) {
            let reach = if random(2) == 0 { 200 } else { file.len() };
            let (at, other) = (random(reach), random(256) as u8);
            file[at] = [0, 1, 0xff, 0x80, other][random(5)];
        }
        file.truncate(file.len() - random(200));
        errors += usize::from(!matches!(read_all(file), Ok((_, None))));
    }
    assert!(errors > RUNS / 2, "{RUNS} runs, {errors} errors");
}

#[test]
fn a_batch_ends_where_time_jumps() {
    let path = temp("jump.pcap");
    let mut w = Writer::create(&path, Style::default()).unwrap();
    for time in [10, 20, 1_000_010, 1_000_011, 5_000_000, 4_999_999] {
        w.frame(b"frame", time, 5);
    }
    w.finish().unwrap();
    let mut pool = Pool::all(1, 256).unwrap().remove(0);
    let mut input = CaptureInput(Reader::open(&path).unwrap());
    let mut sizes = Vec::new();
    while !input.ended() {
        let mut batch = Batch::default();
        input.receive(&mut pool, &mut batch, if sizes.is_empty() { 15 } else { u64::MAX }).unwrap();
        sizes.push(batch.len());
        batch.release(&mut pool);
        input.next_time();
    }
    assert_eq!(sizes, [1, 3, 2]);
}
