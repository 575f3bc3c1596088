//! Tests of the access log: dates, escaped bytes, cut columns, lost lines.

use super::*;

fn entry() -> LoggedRequest<'static> {
    let client = ([127, 0, 0, 1], 9).into();
    LoggedRequest {
        wall: 1500,
        took: 2_000_001_000,
        app: "a",
        port: "p",
        client,
        status: 200,
        class: "2xx",
        bytes: 3,
        backend: None,
        fault: "-",
    }
}

fn line(columns: &[&[u8]], e: &LoggedRequest) -> String {
    let mut lines = Lines { date: String::from("d"), ..Lines::default() };
    let mut note = lines.note();
    columns.iter().for_each(|c| note.column(c));
    lines.line(note, e);
    String::from_utf8(lines.lines).expect("ASCII")
}

#[test]
fn dates_are_those_of_the_calendar() {
    for (second, text) in [
        (0, "1970-01-01T00:00:00"),
        (951_782_400, "2000-02-29T00:00:00"),
        (1_709_164_799, "2024-02-28T23:59:59"),
        (1_709_251_200, "2024-03-01T00:00:00"),
        (4_107_542_400, "2100-03-01T00:00:00"),
        (1_798_761_599, "2026-12-31T23:59:59"),
    ] {
        assert_eq!(wireloom_ir::date::rfc3339(second), text);
    }
}

#[test]
fn no_byte_of_a_request_ends_its_line_or_its_quotes() {
    let l = line(&[b"GET", b"/\"\\\x1b[2J\x00\xff\n x\x7f\xc2\x85"], &entry());
    assert_eq!(l, "d.000001Z a.p 127.0.0.1:9 \"GET\" \"/\\x22\\x5C\\x1B[2J\\x00\\xFF\\x0A x\\x7F\\xC2\\x85\" 200 3 2.000001 - -\n");
}

#[test]
fn what_is_not_known_is_a_dash() {
    assert_eq!(
        line(&[], &LoggedRequest { status: 0, class: "", ..entry() }),
        "d.000001Z a.p 127.0.0.1:9 - - - 3 2.000001 - -\n"
    );
    let l = line(&[b"PING"], &LoggedRequest { status: 0, class: "ok", backend: Some("b:1"), fault: "lost", ..entry() });
    assert_eq!(l, "d.000001Z a.p 127.0.0.1:9 \"PING\" - ok 3 2.000001 b:1 lost\n");
}

#[test]
fn long_columns_are_cut() {
    let l = line(&[b"GET", &[b'a'; 5000]], &entry());
    assert_eq!(l.len(), line(&[b"GET", b"a"], &entry()).len() + 1023);
}

/// Lines beyond the room are lost and counted; written lines are whole.
#[test]
fn a_writer_that_does_not_come_costs_lines_and_no_waiting() {
    let log =
        Arc::new(AccessLog { waiting: vec![Mutex::default()], lost: AtomicU64::new(0), ended: AtomicBool::new(false) });
    let mut lines = Lines::of(log.clone(), 0);
    let n = 100_000;
    for i in 0..n {
        let mut note = lines.note();
        note.column(b"GET");
        note.column(&[b'a'; 100]);
        lines.line(note, &entry());
        if i % 64 == 0 {
            lines.give(false);
        }
    }
    lines.give(false);
    let kept = held(&log.waiting[0]);
    assert!(kept.len() <= WAITING_MAX && kept.ends_with(b"\n"));
    assert!(log.lost() > 0);
    assert_eq!(count(&kept) + log.lost(), n);
}

/// Takes so many bytes in all, at most seven at a time.
struct Small(Vec<u8>, usize);

impl Write for Small {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let n = bytes.len().min(7).min(self.1 - self.0.len());
        if n == 0 {
            return Err(std::io::ErrorKind::StorageFull.into());
        }
        self.0.extend_from_slice(&bytes[..n]);
        Ok(n)
    }
    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Half a line that found no room is not the beginning of the next one, and counts as lost.
#[test]
fn a_line_that_was_cut_stays_alone() {
    let (mut file, mut torn) = (Small(Vec::new(), 14), false);
    let (e, lost) = append(&mut file, b"first one\nsecond\nthird\n", &mut torn).unwrap_err();
    assert_eq!((e.kind(), lost, torn), (std::io::ErrorKind::StorageFull, 2, true));
    assert_eq!(append(&mut file, b"x\n", &mut torn).unwrap_err().1, 1);
    file.1 = 100;
    append(&mut file, b"fourth\n", &mut torn).unwrap();
    assert_eq!((String::from_utf8_lossy(&file.0).as_ref(), torn), ("first one\nseco\nfourth\n", false));
    file.1 = file.0.len();
    assert_eq!(append(&mut file, b"fifth\n", &mut torn).unwrap_err().1, 1);
    assert!(!torn, "the line before is whole");
}
