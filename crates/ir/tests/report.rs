//! `explain` and `graph` on the sample.

use wireloom_ir::*;

fn sample() -> Module {
    let mut m = text::parse(include_str!("sample.ir")).unwrap();
    assert_eq!(grammar::analyze(&mut m), []);
    passes::run_all(&mut m);
    m
}

#[test]
fn report_names_what_there_is() {
    let report = explain::report(&sample(), &Default::default());
    if std::env::var_os("SHOW").is_some() {
        println!("{report}")
    }
    for part in [
        "app sample",
        "listen tcp(port = 11211)",
        "at most 100 connections",
        "answers matched by `opaque`",
        "on client as memcached.binary: at most",
        "suspension 1 carries",
        "the request's head",
        "key: bytes<250> (254 B)",
        "table stats",
        "shared by the cores",
        "evicts the least recently used",
        "entries expire after 1m",
        "session chosen",
        "per client connection",
        "the tail begins at or in `value`",
        "head at most",
        "\nMemory\n",
        "pool: messages held",
        "in all, on one core",
    ] {
        assert!(report.contains(part), "{part} is not in\n{report}");
    }
    assert!(report.lines().all(|l| l.trim_end() == l));
}

/// Calls of a loop are under way together until they are waited for.
#[test]
fn calls_at_once_are_in_the_bill() {
    let in_all = |report: &str| report.lines().find(|l| l.contains("in all, on one core")).map(str::to_string);
    let bill = |calls: u64, waits: bool| {
        let mut m = sample();
        // Few, or their share hides that of calls.
        m.ports.iter_mut().for_each(|p| p.options.max_connections = 100);
        for h in &mut m.handlers {
            let call = h.body.block.iter().find(|s| matches!(s.kind, StmtKind::Call { .. })).cloned();
            let Some(call) = call else { continue };
            let wait = Stmt { kind: StmtKind::Await { hold: true, hold_req: false, live: vec![] }, ..call.clone() };
            let body = if waits { vec![call.clone(), wait] } else { vec![call.clone()] };
            h.body.block = vec![Stmt { kind: StmtKind::Loop { max: calls, body }, ..call }];
        }
        explain::report(&m, &Default::default())
    };
    let (one, eight) = (bill(1, false), bill(8, false));
    assert!(!one.contains("a further call") && in_all(&bill(1, true)) == in_all(&bill(8, true)), "{one}");
    assert!(
        eight.contains("a further call")
            && eight.contains("at once; 7 per request: ")
            && in_all(&one) != in_all(&eight),
        "{eight}"
    );
}

/// The number of bytes in a row of the bill.
fn billed(report: &str, row: &str) -> String {
    let line = report.lines().find(|l| l.contains(row)).unwrap_or_else(|| panic!("{row} is not in\n{report}"));
    line[line.find(row).unwrap() + row.len()..].split_whitespace().take(2).collect::<Vec<_>>().join(" ")
}

/// `2.5 GiB` as bytes.
fn bytes_of(text: &str) -> f64 {
    let (number, unit) = text.trim_end_matches([',', ';']).split_once(' ').unwrap();
    let factor = ["B", "KiB", "MiB", "GiB"].iter().position(|u| *u == unit).unwrap();
    number.parse::<f64>().unwrap() * 1024f64.powi(factor as i32)
}

/// Each core accepts `max_connections` and opens as many to each backend.
#[test]
fn each_core_pays_for_its_connections() {
    let sums = |connections: u32| {
        let mut m = sample();
        m.ports.iter_mut().for_each(|p| p.options.max_connections = connections);
        let report = explain::report(&m, &Default::default());
        ["in all, on one core", "on two", "on four"].map(|row| bytes_of(&billed(&report, row)))
    };
    let (none, many) = (sums(0), sums(4_000_000));
    let [one, two, four] = std::array::from_fn(|n| many[n] - none[n]);
    assert!(one > 2e9 && (two / one - 2.0).abs() < 0.02 && (four / one - 4.0).abs() < 0.04, "{one} {two} {four}");
}

/// Messages that a request keeps while it waits have views.
#[test]
fn views_that_are_kept_are_in_the_bill() {
    let bill = |request: bool, answers: bool| {
        let mut m = sample();
        for h in &mut m.handlers {
            walk::stmts_mut(&mut h.body.block, &mut |s| {
                if let StmtKind::Await { hold, hold_req, .. } = &mut s.kind {
                    (*hold, *hold_req) = (answers, request);
                }
            });
        }
        (billed(&explain::report(&m, &Default::default()), ": a request"), explain::view_bytes(&m))
    };
    let (none, view) = bill(false, false);
    for (request, answers, kept) in [(true, false, 1), (false, true, 1), (true, true, 2)] {
        let more = bytes_of(&bill(request, answers).0) - bytes_of(&none);
        assert!((more - (kept * view) as f64).abs() < 110.0, "{request} {answers}: {more} for {kept} of {view}");
    }
}

#[test]
fn an_empty_module_has_a_report_and_a_picture() {
    let m = Module::default();
    assert!(explain::report(&m, &Default::default()).contains("\nMemory\n"));
    assert!(graph::svg(&m).ends_with("</svg>\n"));
}

#[test]
fn sizes_read_well() {
    assert_eq!(
        [explain::bytes(1023), explain::bytes(1024), explain::bytes(1536), explain::bytes(u64::MAX)],
        ["1023 B", "1 KiB", "1.5 KiB", "unbounded"]
    );
    assert_eq!([explain::count(7), explain::count(1234567)], ["7", "1 234 567"]);
}

/// A small check that tags nest and text is escaped; not a whole XML parser.
fn well_formed(xml: &str) {
    let mut open: Vec<&str> = Vec::new();
    let mut rest = xml;
    while let Some(at) = rest.find('<') {
        assert!(!rest[..at].contains('>'), "a bare > in {}", &rest[..at]);
        let end = at + rest[at..].find('>').expect("a tag ends");
        let tag = &rest[at + 1..end];
        if let Some(name) = tag.strip_prefix('/') {
            assert_eq!(open.pop(), Some(name))
        } else if !tag.ends_with('/') {
            open.push(tag.split_whitespace().next().unwrap_or(""))
        }
        assert_eq!(tag.matches('"').count() % 2, 0, "{tag}");
        rest = &rest[end + 1..];
    }
    assert!(open.is_empty(), "{open:?}");
}

#[test]
fn picture() {
    let mut m = sample();
    m.app = "<script>&\"\u{1}".into();
    m.ports[0].name = "a<b".into();
    let svg = graph::svg(&m);
    well_formed(&svg);
    assert!(svg.contains("&lt;script&gt;&amp;") && !svg.contains("<script>") && !svg.contains('\u{1}'));
    for class in ["box port", "box handler", "box table", "box event", "marker-start"] {
        assert!(svg.contains(class), "{class}")
    }
    assert_eq!(svg.matches("class=\"box ").count(), 4 + 3 + 2, "ports, handlers, tables; no tests");
    assert!(!svg.contains("data-live=\"port"), "numbers are for running apps");
    let live = graph::live_svg(&m);
    well_formed(&live);
    assert!(live.contains("data-live=\"port a&lt;b requests\""), "{live}");
    assert_eq!(graph::svg(&m), svg);
    if let Some(path) = std::env::var_os("SHOW") {
        std::fs::write(path, graph::svg(&sample())).unwrap()
    }
}

/// Elements stand between the ports that are read and the ports that are not; every table's own
/// signals are left out.
#[test]
fn elements_are_in_the_picture() {
    let mut m = text::parse(include_str!("passes/inline_elements.ir")).unwrap();
    passes::run_on_graph(&mut m);
    let svg = graph::svg(&m);
    well_formed(&svg);
    assert_eq!(svg.matches("box element").count(), 2);
    let x_of = |title: &str| {
        let at = svg.find(&format!(">{title}</text>")).unwrap_or_else(|| panic!("{title}"));
        let tag = &svg[..at][svg[..at].rfind("x=\"").expect("a place") + 3..];
        tag[..tag.find('"').expect("its end")].parse::<i64>().expect("a number")
    };
    let columns = ["wire", "edge.hop", "count", "out"].map(x_of);
    assert!(columns.is_sorted() && columns.windows(2).all(|c| c[0] != c[1]), "{columns:?}");
}

/// The rectangles of boxes: none covers another, and all are on the paper.
fn boxes_apart(svg: &str) -> usize {
    let number = |tag: &str, name: &str| {
        let at = tag.find(&format!(" {name}=\"")).expect("an attribute") + name.len() + 3;
        tag[at..at + tag[at..].find('"').expect("its end")].parse::<i64>().expect("a number")
    };
    let of = |tag: &str| ["x", "y", "width", "height"].map(|n| number(tag, n));
    let boxes: Vec<[i64; 4]> = svg
        .match_indices("class=\"box ")
        .map(|(at, _)| of(&svg[at..at + svg[at..].find('>').expect("a tag")]))
        .collect();
    let (width, height) = (number(svg, "width"), number(svg, "height"));
    for (n, [x, y, w, h]) in boxes.iter().enumerate() {
        assert!(*x >= 0 && *y >= 0 && x + w <= width && y + h <= height, "{:?} outside", boxes[n]);
        for [x2, y2, w2, h2] in &boxes[..n] {
            assert!(x + w <= *x2 || x2 + w2 <= *x || y + h <= *y2 || y2 + h2 <= *y, "{:?} and {x2} {y2}", boxes[n])
        }
    }
    boxes.len()
}

/// Forty elements in a line, some with tables, and ways past them: folded into rows.
#[test]
fn forty_elements_fit_a_screen() {
    let mut m = text::parse(include_str!("passes/inline_elements.ir")).unwrap();
    passes::run_on_graph(&mut m);
    let (element, input, wires) = (m.elements[0].clone(), m.inputs[0].clone(), m.wires.len());
    let end = m.inputs.len();
    for n in 0..40 {
        let place = ElementId(m.elements.len() as u32);
        m.elements.push(Element { name: format!("e{n}"), parent: None, ..element.clone() });
        m.inputs.push(Input { element: Some(place), ..input.clone() });
        let to = Target::Input { input: InputId((end + n) as u32), index: 0 };
        m.wires.push(Wire { from: None, out: "y".into(), to });
    }
    let mut next = wires as u32;
    let mut lead = |b: &mut Block| {
        walk::stmts_mut(b, &mut |s| {
            if let StmtKind::Output { wire, .. } = &mut s.kind {
                *wire = WireId(next)
            }
        });
        next += 1
    };
    lead(&mut m.handlers[0].body.block);
    for n in 0..39 {
        if let Some(body) = &mut m.inputs[end + n].body {
            lead(&mut body.block)
        }
    }
    let svg = graph::svg(&m);
    well_formed(&svg);
    assert!(boxes_apart(&svg) > 40);
    let width = svg.split('"').nth(3).and_then(|w| w.parse::<i64>().ok());
    assert!(width.is_some_and(|w| w < 2600), "{width:?}");
    signals_are_lines_of_elements(m)
}

fn signal(name: String) -> Signal {
    Signal {
        name,
        doc: String::new(),
        span: Span::default(),
        args: vec![],
        forms: vec![],
        defaults: vec![],
        masked: false,
        exported: false,
        result: desc::ResultType::Nothing,
        ret: TyId(0),
    }
}

/// Signals of elements have no boxes of their own, unless they send.
fn signals_are_lines_of_elements(mut m: Module) {
    let events = |m: &Module| graph::svg(m).matches("box event").count();
    let before = events(&m);
    for n in 0..40 {
        for name in ["read", "reset"] {
            let on = On::Signal(m.signals.len() as u32);
            m.signals.push(signal(format!("e{n}.{name}")));
            let body = Body { block: vec![], ..m.handlers[0].body.clone() };
            m.handlers.push(Handler { name: format!("signal e{n}.{name}"), on, body, ..m.handlers[0].clone() });
        }
    }
    let svg = graph::svg(&m);
    assert_eq!((svg.matches(">signals read, reset</text>").count(), events(&m)), (40, before));
    m.handlers.last_mut().expect("a signal").body = m.handlers[0].body.clone();
    assert_eq!(events(&m), before + 1);
}

/// Wires between any elements, to themselves and back, with segments: no box covers another.
#[test]
fn graphs_of_any_shape_have_a_picture() {
    let mut source = fastrand::Rng::with_seed(1);
    let mut random = |below: usize| source.usize(..below);
    for round in 0..30 {
        let mut m = text::parse(include_str!("passes/inline_elements.ir")).unwrap();
        let (element, input) = (m.elements[0].clone(), m.inputs[0].clone());
        let end = m.inputs.len();
        let count = 1 + random(30);
        let mut ends: Vec<Vec<usize>> = (0..count).map(|_| (0..random(4)).map(|_| random(count)).collect()).collect();
        ends.push(vec![0, random(count)]);
        for (n, to) in ends.iter().enumerate() {
            let outputs = to.iter().map(|to| {
                let to = Target::Input { input: InputId((end + to) as u32), index: 0 };
                m.wires.push(Wire { from: None, out: "y".into(), to });
                let wire = WireId(m.wires.len() as u32 - 1);
                let mark = Expr::new(TyId(0), ExprKind::Int(0));
                let kind = StmtKind::Output { wire, frame: LocalId(0), mark, state: vec![], last: false, fresh: false };
                Stmt { span: Span::default(), kind }
            });
            let outputs: Vec<Stmt> = outputs.collect();
            if n == count {
                m.handlers[0].body.block.extend(outputs);
                continue;
            }
            let place = ElementId(m.elements.len() as u32);
            m.elements.push(Element { name: format!("e{n}"), parent: None, ..element.clone() });
            let body = input.body.clone().map(|b| Body { block: outputs, ..b });
            m.inputs.push(Input { element: Some(place), body, ..input.clone() });
        }
        if round % 2 == 0 {
            m.segments.push(segments::Segment {
                name: "a".into(),
                device: Default::default(),
                cpu: 0,
                cores: 1,
                span: Span::default(),
            });
            m.handlers[0].segment = Some(SegmentId(0))
        }
        let svg = graph::svg(&m);
        well_formed(&svg);
        assert!(boxes_apart(&svg) > 1, "round {round}");
        assert_eq!(graph::svg(&m), svg, "round {round}");
    }
}
