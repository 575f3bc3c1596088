//! Small parts: dates, near names, options of ports, copies of state that is set to parts of
//! itself.

use wireloom_ir::date::{civil, http};
use wireloom_ir::desc::{Failover, PortOptions, Reuse};
use wireloom_ir::port_options::{slot, texts, Slot, BOTH, NAMES};
use wireloom_ir::suggestions::{hint, nearest};
use wireloom_ir::*;

#[test]
fn days_are_those_of_the_calendar() {
    for (day, date) in [
        (0, (1970, 1, 1)),
        (11_016, (2000, 2, 29)),
        (19_782, (2024, 2, 29)),
        (19_783, (2024, 3, 1)),
        (47_541, (2100, 3, 1)),
        (20_818, (2026, 12, 31)),
    ] {
        assert_eq!(civil(day), date, "{day}");
    }
}

#[test]
fn dates_of_http() {
    assert_eq!(http(784_111_777), "Sun, 06 Nov 1994 08:49:37 GMT");
    assert_eq!(http(0), "Thu, 01 Jan 1970 00:00:00 GMT");
    assert_eq!(http(u64::MAX), "Fri, 31 Dec 9999 23:59:59 GMT");
}

#[test]
fn slips_are_found_and_other_words_are_not() {
    let known = ["port", "servers", "idle_timeout"];
    let near = |w| nearest(w, known);
    assert_eq!(near("prot"), Some("port"));
    assert_eq!(near("server"), Some("servers"));
    assert_eq!(near("idel_timout"), Some("idle_timeout"));
    assert_eq!(nearest("htp", ["gtp", "http"]), Some("http"));
    assert_eq!(near("x"), None);
    assert_eq!(near("body"), None);
    assert_eq!(near(&"s".repeat(1000)), None);
    assert_eq!(hint("prot", known), "; did you mean `port`?");
}

#[test]
fn every_name_has_a_place_of_its_own() {
    let mut o = PortOptions::default();
    for name in NAMES {
        assert!(slot(&mut o, name).is_some(), "{name}");
    }
    assert!(slot(&mut o, "nonsense").is_none());
    // A set option shows as one change, under its own name (or two).
    for name in NAMES {
        let mut o = PortOptions::default();
        match slot(&mut o, name).expect("a place") {
            Slot::Time(n, _) => *n = 77,
            Slot::Times(all) => all.into_iter().for_each(|n| *n = 77),
            Slot::Count(n, _) | Slot::Auto(n, _) => *n = 77,
            Slot::Switch(on) => *on = !*on,
            Slot::Byte(b) => *b = 77,
            Slot::Reuse(r) => *r = Reuse::Never,
            Slot::Failover(f) => *f = Failover::Next,
        }
        let changed: Vec<&str> =
            texts(&o).zip(texts(&PortOptions::default())).filter(|(a, b)| a != b).map(|(a, _)| a.0).collect();
        if name == BOTH {
            assert_eq!(changed, ["answer_timeout", "stream_timeout"])
        } else {
            assert_eq!(changed, [name])
        }
    }
}

/// `state r: (bytes<8>, bytes<8>)`, set to parts of itself.
fn set_to(parts: [u32; 2]) -> Expr {
    let types = vec![Ty::Bytes(8), Ty::Tuple(vec![TyId(0), TyId(0)])];
    let mut m = Module {
        types,
        states: vec![State { name: "r".into(), ty: TyId(1), init: None, memory: false }],
        ..Module::default()
    };
    let whole = || Expr::new(TyId(1), ExprKind::State(StateId(0)));
    let value = Expr::new(
        TyId(1),
        ExprKind::Make(parts.iter().map(|i| Expr::new(TyId(0), ExprKind::Get(whole(), *i))).collect()),
    );
    let body = Body {
        locals: Vec::new(),
        block: vec![Stmt { span: Span::default(), kind: StmtKind::SetState(StateId(0), value) }],
        ..Body::default()
    };
    m.handlers.push(Handler {
        name: "start".into(),
        span: Span::default(),
        on: On::Start,
        segment: None,
        device: Default::default(),
        steps: 1,
        body,
        plan: Default::default(),
    });
    (passes::find("frame_last_use").expect("a pass").run)(&mut m);
    match &m.handlers[0].body.block[0].kind {
        StmtKind::SetState(_, e) => e.clone(),
        _ => unreachable!(),
    }
}

fn copies(e: &Expr) -> usize {
    let mut n = 0;
    walk::expr(e, &mut |e| n += matches!(&*e.kind, ExprKind::Builtin(Builtin::Keep, _)) as usize);
    n
}

#[test]
fn parts_are_copied_if_they_change_places() {
    assert_eq!([[0, 1], [1, 0], [0, 0], [1, 1]].map(|parts| copies(&set_to(parts))), [0, 2, 1, 1]);
}
