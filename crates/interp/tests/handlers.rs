//! Handlers: the interpreter's results, and that compiled C has the same.
mod common;
use common::*;
use wireloom_interp::differential::{compare_module, HandlerAct, Mock, MockAnswer};
use wireloom_interp::generate::{Generator, Rng};
use wireloom_interp::stop::Stop;
use wireloom_ir::{text, TableId, UnitId};

const FORWARD: u32 = 0;
const JOIN: u32 = 1;
/// The unit of requests and answers.
const LINE: UnitId = UnitId(0);

fn line(key: &str, data: &[u8]) -> Vec<u8> {
    [format!("{key} {}\r\n", data.len()).as_bytes(), data, b"\r\n"].concat()
}

fn shown(b: &[u8]) -> String {
    b.escape_ascii().to_string()
}

#[test]
fn forwards_with_edits() {
    let m = annotated(module("line_proxy"));
    let program = interpreted(&m);
    // SAFETY: the table lives as long as the mock.
    let mut mock = unsafe { Mock::new(program.table(), program.module(), &[]) };
    let answers = [MockAnswer::Bytes(line("yes", b"hello"))];
    let acts = mock.run_message(FORWARD, &line("xyz", b"ab"), &answers);
    let [HandlerAct::Call { port: 1, bytes, timeout: 50_000_000, .. }, HandlerAct::Reply { bytes: back, flags: 0 }, HandlerAct::Done] =
        &acts[..]
    else {
        panic!("{acts:?}")
    };
    assert_eq!((shown(bytes), shown(back)), (shown(&line("XYZ", b"ab")), shown(&line("yesyes", b"hello"))));
    // Not begun with x: as it came. Its size is known now, and the session has seen two requests.
    let acts = mock.run_message(FORWARD, &line("abc", b"123"), &answers);
    assert!(matches!(&acts[0], HandlerAct::Call { bytes, .. } if *bytes == line("abc", b"123")), "{acts:?}");
    let acts = mock.run_message(FORWARD, &line("abc", b"1"), &[MockAnswer::Fault(8)]);
    let [_, HandlerAct::Reply { bytes, flags: 1 }, HandlerAct::Done] = &acts[..] else { panic!("{acts:?}") };
    assert_eq!(shown(bytes), "sorry 3 11 3\\r\\n\\r\\n");
    let acts = mock.run_message(FORWARD, &line("abc", &[b'y'; 5001]), &answers);
    let [HandlerAct::Fault { kind: 32, place: 1 }, HandlerAct::FaultReply { bytes, flags: 0 }] = &acts[..] else {
        panic!("{acts:?}")
    };
    assert_eq!(shown(bytes), "ERROR 032 with request\\r\\n");
    no_internal_errors();
}

#[test]
fn joins_all_answers() {
    let m = annotated(module("line_proxy"));
    let program = interpreted(&m);
    // SAFETY: the table lives as long as the mock.
    let mut mock = unsafe { Mock::new(program.table(), program.module(), &[]) };
    let answers = [
        MockAnswer::Bytes(line("a", b"one")),
        MockAnswer::Bytes(line("b", b"")),
        MockAnswer::Bytes(line("c", &[b'z'; 5000])),
    ];
    let acts = mock.run_message(JOIN, &line("k", b"q"), &answers);
    let want = line("k", &[b"one".as_slice(), &[b'z'; 5000]].concat());
    assert_eq!(acts.len(), 5, "{acts:?}");
    assert_eq!(acts[3], HandlerAct::Reply { bytes: want, flags: 0 });
    let acts = mock.run_message(JOIN, &line("k", b"q"), &[answers[0].clone(), MockAnswer::Fault(10)]);
    assert!(matches!(&acts[3..], [HandlerAct::Fault { kind: 8, place: 1 }, HandlerAct::FaultReply { .. }]), "{acts:?}");
    no_internal_errors();
}

/// The same requests and answers to the interpreter and to compiled C: the same acts.
#[test]
fn as_compiled() {
    let m = annotated(module("line_proxy"));
    let Some(c) = compiled(&m) else { return };
    let program = interpreted(&m);
    let mut made = Generator::new(&m, 11);
    let mut rng = Rng::new(5);
    // SAFETY: both tables live as long as the mocks.
    let (mut a, mut b) =
        unsafe { (Mock::new(program.table(), program.module(), &[]), Mock::new(c, program.module(), &[])) };
    let mut replies = 0;
    for round in 0..400 {
        let now = 1_000_000_000 + round * 3;
        a.set_now(now);
        b.set_now(now);
        let Some(request) = made.message(LINE, &[]) else { continue };
        let answers: Vec<MockAnswer> = (0..3)
            .map(|_| match (rng.below(4), made.message(LINE, &[])) {
                (1.., Some(m)) => MockAnswer::Bytes(m),
                _ => MockAnswer::Fault(8 + rng.below(4) as u32),
            })
            .collect();
        for handler in [FORWARD, JOIN] {
            let (x, y) = (a.run_message(handler, &request, &answers), b.run_message(handler, &request, &answers));
            assert_eq!(x, y, "round {round}, handler {handler}, request {}", shown(&request));
            assert_eq!(a.table_stats(TableId(0)), b.table_stats(TableId(0)), "round {round}");
            replies += x.iter().filter(|a| matches!(a, HandlerAct::Reply { .. })).count();
        }
    }
    assert!(replies > 300, "{replies}");
    no_internal_errors();
}

/// Each module of the backends' tests, by random streams, requests and answers.
#[test]
fn every_module_as_compiled() {
    for name in names() {
        let m = annotated(module(&name));
        let Some(c) = compiled(&m) else { return };
        let program = interpreted(&m);
        // SAFETY: both tables live as long as the process.
        let sum = unsafe { compare_module(program.module(), [program.table(), c], 3, 60) };
        eprintln!("{name}: {:?}", sum.unwrap_or_else(|e| panic!("{name}: {e}")));
    }
    no_internal_errors();
}

/// Calls, edits, state, tables, functions: the handlers that the C backend's tests drive.
#[test]
fn handlers_as_compiled() {
    let m = annotated(module("handlers"));
    let Some(c) = compiled(&m) else { return };
    let program = interpreted(&m);
    let mut made = Generator::new(&m, 7);
    // SAFETY: both tables live as long as the mocks.
    let (mut a, mut b) =
        unsafe { (Mock::new(program.table(), program.module(), &[]), Mock::new(c, program.module(), &[])) };
    let good = vec![MockAnswer::Bytes(b"\x07hello\n".to_vec()); 3];
    let mut done = 0;
    for round in 0..200 {
        let Some(request) = made.message(UnitId(1), &[]) else { continue };
        for handler in 0..m.handlers.len() as u32 {
            // The first handler asks for the status of its answer.
            let answers = if handler == 0 && round % 2 == 1 { vec![MockAnswer::Fault(9)] } else { good.clone() };
            let (x, y) = (a.run_message(handler, &request, &answers), b.run_message(handler, &request, &answers));
            assert_eq!(x, y, "round {round}, handler {handler}, request {}", shown(&request));
            done += usize::from(matches!(x.last(), Some(HandlerAct::Done)));
        }
    }
    assert!(done > 300, "{done}");
    no_internal_errors();
}

/// Every operator and builtin over random operands.
#[test]
fn calculates_as_compiled() {
    let m = annotated(module("calculator"));
    let Some(c) = compiled(&m) else { return };
    let program = interpreted(&m);
    let mut made = Generator::new(&m, 3);
    // SAFETY: both tables live as long as the mocks.
    let (mut a, mut b) =
        unsafe { (Mock::new(program.table(), program.module(), &[]), Mock::new(c, program.module(), &[])) };
    for round in 0..300 {
        let Some(mut request) = made.message(LINE, &[]) else { continue };
        if round % 3 == 0 {
            request = line(["0", "184467440737095516159", "18446744073709551615", "007"][round / 3 % 4], b"x, A ,b");
        }
        let (x, y) = (a.run_message(0, &request, &[]), b.run_message(0, &request, &[]));
        let show = |acts: &[HandlerAct]| match acts {
            [HandlerAct::Reply { bytes, .. }, ..] => shown(bytes),
            other => format!("{other:?}"),
        };
        assert!(
            matches!(x[..], [HandlerAct::Reply { .. }, HandlerAct::Done]),
            "{} {:?}",
            show(&x),
            wireloom_interp::internal_errors()
        );
        assert_eq!(show(&x), show(&y), "round {round}, request {}", shown(&request));
    }
    no_internal_errors();
}

/// Streamed bodies pass; only the head is touched.
#[test]
fn http_proxy_as_compiled() {
    let (m, unit) = (annotated(module("http_proxy")), UnitId(2));
    let program = interpreted(&m);
    let c = compiled(&m).unwrap_or(program.table());
    let mut made = Generator::new(&m, 8);
    // SAFETY: both tables live as long as the mocks.
    let (mut a, mut b) =
        unsafe { (Mock::new(program.table(), program.module(), &[]), Mock::new(c, program.module(), &[])) };
    let (chunked, other) = (
        b"HTTP/1.1 200\r\nTransfer-Encoding: chunked\r\nconnection: x\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
        b"HTTP/1.1 204\r\n\r\n",
    );
    let acts = a.run_message(0, chunked, &[MockAnswer::Bytes(other.to_vec())]);
    let [HandlerAct::Call { bytes, .. }, HandlerAct::Reply { bytes: back, .. }, HandlerAct::Done] = &acts[..] else {
        panic!("{acts:?}")
    };
    let want = "HTTP/1.1 200\r\nTransfer-Encoding: chunked\r\nvia: us\r\n\r\n3\r\nabc\r\n0\r\n\r\n";
    assert_eq!((shown(bytes), shown(back)), (shown(want.as_bytes()), shown(other)));
    b.run_message(0, chunked, &[MockAnswer::Bytes(other.to_vec())]);
    let no = [wireloom_interp::value::Value::Bool(false)];
    let mut replies = 0;
    for round in 0..150 {
        let (Some(request), Some(answer)) = (made.message(unit, &no), made.message(unit, &no)) else {
            continue;
        };
        let answers = [MockAnswer::Bytes(answer)];
        let (x, y) = (a.run_message(0, &request, &answers), b.run_message(0, &request, &answers));
        assert_eq!(x, y, "round {round}, request {}", shown(&request));
        replies += x.iter().filter(|a| matches!(a, HandlerAct::Reply { .. })).count();
    }
    assert!(replies > 50, "{replies}");
    no_internal_errors();
}

#[test]
fn tests_run() {
    let sum = |two: &str| {
        let from = "add(1:u32, 1:u32):u32, 2:u32";
        let text = source("sums");
        assert!(text.contains(from));
        annotated(text::parse(&text.replace(from, &format!("add(1:u32, 1:u32):u32, {two}"))).unwrap())
    };
    assert_eq!(wireloom_interp::eval_test(&sum("2:u32"), 0), Ok(()));
    let failure = wireloom_interp::eval_test(&sum("3:u32"), 0).unwrap_err();
    assert_eq!((failure.kind.0, failure.place.0), (17, 1));
}

#[test]
fn merges() {
    let m = module("pairs");
    let pair =
        |key: &str, count: u32| [&(key.len() as u16).to_be_bytes()[..], &count.to_be_bytes(), key.as_bytes()].concat();
    let a = [pair("a", 1), pair("b", 2), pair("d", u32::MAX)].concat();
    let b = [pair("b", 3), pair("b", 4), pair("c", 5), pair("d", 2)].concat();
    let want = [pair("a", 1), pair("b", 9), pair("c", 5), pair("d", 1)].concat();
    assert_eq!(wireloom_interp::merge_reference(&m, 0, &[&a, &b]), Ok(want));
    assert_eq!(wireloom_interp::merge_reference(&m, 0, &[]), Ok(Vec::new()));
    let cut = &a[..a.len() - 1];
    let fault = |r: Result<Vec<u8>, Stop>| match r {
        Err(Stop::Fault { kind, .. }) => kind.0,
        other => panic!("{other:?}"),
    };
    assert_eq!(fault(wireloom_interp::merge_reference(&m, 0, &[cut])), 3);
    let unsorted = [pair("b", 1), pair("a", 1)].concat();
    assert_eq!(fault(wireloom_interp::merge_reference(&m, 0, &[&unsorted])), 4);
}
