//! The graph of elements. A graph with too many paths to compile each one is small and compiled at
//! once. It does the same interpreted as it was lowered, and compiled with elements in their
//! senders or joined.

use std::fmt::Write;
use std::sync::Arc;
use std::time::Duration;
use wireloom_interp::frames::{hex, samples, FramePair, Mutator};
use wireloom_ir::{walk, Module, StmtKind};
use wireloom_tests::fuzz::judge::spent;
use wireloom_tests::programs::{checked_both, compiled, interpreted, no_internal_errors};

/// Elements with two outputs each, one behind the other. Each counts, keeps a table, changes the
/// packet and its mark, and has another element change it before it goes on.
fn chain(n: usize) -> String {
    let mut text = "element Tap {
    in  x: packet
    out y: packet
    on x(p) where p.eth {
        p.mark += 3
        p.eth.type = 0x88b5
        p -> y
    }
}

element Step {
    param n: u32
    in  x: packet [2]
    out y: packet
    out z: packet
    out tap: packet
    table seen: u32 -> record { n: u64 } { capacity 2K }
    counter passed
    on x[way](p) where p.eth {
        passed += 1
        p.mark += n + way
        update seen[p.len] { .n += u64(p.mark) }
        if p.len % 5 == 0 { p -> tap }
        if p.eth.dst == 02:00:00:00:00:07 { return }
        p.eth.src = 02:00:00:00:00:07
        if way == 1 { p.eth.type = 0x9001 }
        if (p.len + n) % 3 == 0 { p -> y; return }
        p -> z
    }
}

app chain {
    port wire = memory(\"wire\"), far = memory(\"far\"), side = memory(\"side\")
    tap = Tap()
    on wire(p) {
        p.mark = 1
        p -> s0.x[p.len % 2]
        p -> side
    }
    tap -> side
"
    .to_string();
    for i in 0..n {
        let next = |way| if i + 1 < n { format!("s{}.x[{way}]", i + 1) } else { "far".into() };
        let (y, z) = (next(0), next(1));
        let _ = writeln!(text, "    s{i} = Step({i})\n    s{i}.y -> {y}\n    s{i}.z -> {z}\n    s{i}.tap -> tap");
    }
    text + "}\n"
}

fn statements(m: &Module) -> usize {
    let mut n = 0;
    m.bodies(&mut |b| walk::stmts(&b.block, &mut |_| n += 1));
    n
}

#[test]
fn sixty_four_elements_with_two_ways_out_each() {
    let path = std::env::temp_dir().join(format!("wireloom-chain-{}.loom", std::process::id()));
    std::fs::write(&path, chain(64)).expect("the temporary folder is writable");
    let begun = spent();
    let (graph, module) = checked_both(&path, None).expect("it is sound");
    let (graph, module) = (Arc::new(graph), Arc::new(module));
    let took = spent() - begun;
    assert!(took < Duration::from_secs(5), "checked and lowered in {took:?} of processor time; it is some 40 ms");
    // A `where` and an output each; as lowered, nothing stands twice.
    assert_eq!((graph.elements.len(), graph.inputs.len()), (65, 65));
    assert!(graph.inputs.iter().all(|i| i.body.is_some()));
    assert!(
        statements(&module) < 8 * statements(&graph),
        "{} statements of {}",
        statements(&module),
        statements(&graph)
    );
    let mut joined = 0;
    module.bodies(&mut |b| {
        walk::stmts(&b.block, &mut |s| joined += usize::from(matches!(s.kind, StmtKind::Output { .. })))
    });
    assert!(joined > 4, "{joined} outputs are left");
    let Some(other) = compiled(&module).expect("C") else { return };
    let mut pair = FramePair::new(&module, interpreted(&graph), other, &[]).expect("both start");
    let mut maker = Mutator::new(7, samples(&[]), vec![], pair.inputs());
    for i in 0..400 {
        let f = maker.random();
        pair.frame(&f).unwrap_or_else(|e| panic!("frame {i}, {}: {e}", hex(&f.bytes)));
    }
    pair.finish().expect("tables hold the same");
    assert!(pair.sum.sent > 400, "{:?}", pair.sum);
    no_internal_errors();
    std::fs::remove_file(path).ok();
}

/// A mark goes through queues: with a moved packet, with a copy, through inlined elements, and in
/// the graph as it was lowered.
const MARKED: &str = "element Hold {
    in  x: packet
    out y: packet
    queue waiting { depth 8 }
    on x(p) {
        p.mark += 1
        p -> waiting
        if len(waiting) > 2 { waiting.pop() }
    }
    on waiting(p) {
        p.mark += 100
        p -> y
    }
}

element Tell {
    in  x: packet
    out y: packet
    table marks: u32 -> record { n: u64 } { capacity 2K }
    on x(p) where p.eth {
        update marks[p.mark] { .n += 1 }
        p.eth.type = u16(p.mark & 0xffff)
        p -> y
    }
}

app marked {
    port wire = memory(\"wire\"), far = memory(\"far\"), side = memory(\"side\")
    queue late { depth 4 }
    hold = Hold()
    tell = Tell()
    on wire(p) {
        p.mark = p.len * 65536 + 7
        p -> late
        if p.len % 2 == 0 { p -> hold } else { p -> side }
        if len(late) > 1 { late.pop() }
    }
    hold.y -> tell
    late -> tell
    tell -> far
}
";

/// Random frames, as the graph was lowered and with elements inlined, beside compiled code.
fn agree(name: &str, text: &str) {
    let path = std::env::temp_dir().join(format!("wireloom-{name}-{}.loom", std::process::id()));
    std::fs::write(&path, text).expect("the temporary folder is writable");
    let (graph, module) = checked_both(&path, None).expect("it is sound");
    let (graph, module) = (Arc::new(graph), Arc::new(module));
    for meaning in [&module, &graph] {
        let Some(other) = compiled(&module).expect("C") else { return };
        let mut pair = FramePair::new(&module, interpreted(meaning), other, &[]).expect("both start");
        let mut maker = Mutator::new(11, samples(&[]), vec![], pair.inputs());
        for i in 0..300 {
            let f = maker.random();
            pair.frame(&f).unwrap_or_else(|e| panic!("frame {i}, {}: {e}", hex(&f.bytes)));
        }
        pair.finish().expect("tables and queues hold the same");
        assert!(pair.sum.sent > 200, "{:?}", pair.sum);
    }
    no_internal_errors();
    std::fs::remove_file(path).ok();
}

#[test]
fn marks_go_through_queues() {
    agree("marks", MARKED)
}

/// With the element inlined the second send is the last use of the frame; in the graph it is not.
const NOTED: &str = "element Shorten {
    in  x: packet
    out y: packet
    on x(p) {
        if p.udp { p.payload = \"Bc\" }
        p -> y
    }
}

app noted {
    port wire = memory(\"wire\"), far = memory(\"far\")
    shorten = Shorten()
    shorten -> where .ip4 or .len > 40 -> far
    on wire(p) {
        if p.udp { p -> shorten }
        p -> shorten
        log \"behind the last use\"
        if p.len % (p.len % 3) == 0 { log \"even\" }
    }
}
";

#[test]
fn log_lines_and_faults_behind_the_last_use_of_a_frame() {
    agree("noted", NOTED)
}
