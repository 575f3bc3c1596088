//! What packets are steered by, which tables are local and why, and where a frame is used last.

use std::path::Path;
use wireloom_ir::{passes, verify, walk, FrameAct, Module, StmtKind};
use wireloom_syntax::{diagnostic, MemoryWorld};

fn module(app: &str) -> Module {
    let mut world = MemoryWorld::new().with("/app/main.loom", format!("app a {{\n    port wire = memory(\"w\"), other = memory(\"o\")\n{app}\n}}\n"));
    for file in std::fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../std")).expect("std is there").flatten().filter(|f| f.path().is_file()) {
        world.add(Path::new("/std").join(file.file_name()), std::fs::read(file.path()).expect("a module of std"));
    }
    let checked = wireloom_lang::compile(&world, Path::new("/app/main.loom"), None);
    let said = diagnostic::render_all(&checked.diagnostics, &checked.map, false);
    let mut m = checked.module.unwrap_or_else(|| panic!("{said}"));
    passes::run_all(&mut m);
    assert_eq!(verify::verify(&m), vec![]);
    let text = wireloom_ir::text::print(&m);
    assert_eq!(wireloom_ir::text::parse(&text).as_ref(), Ok(&m), "the text form loses something");
    m
}

fn local(m: &Module) -> Vec<bool> { m.tables.iter().map(|t| t.local).collect() }

#[test]
fn the_common_part_of_two_keys() {
    let m = module("table open: flow5 -> bool { capacity 16 }\n table stage: (ip, ip, u8) -> u8 { capacity 16 }\n\
        on wire(p) where p.tcp { if open[p.flow5] { return }\n let who = (p.ip.src, p.ip.dst, p.ip.proto)\n stage[who] += 1 }");
    assert_eq!(local(&m), [true, true]);
    assert_eq!((m.steer.len(), m.steer[0].keys.len(), m.steer[0].symmetric), (1, 3, false));
}

#[test]
fn a_flow_and_its_answer_are_a_pair() {
    let m = module("table seen: (ip, ip) -> u64 { capacity 16 }\n on wire(p) where p.ip { seen[(p.ip.src, p.ip.dst)] += 1\n if seen[(p.ip.dst, p.ip.src)] { p -> other } }");
    assert_eq!(local(&m), [true]);
    assert!(m.steer[0].symmetric && m.steer[0].keys.len() == 2);
    let m = module("table seen: (ip, ip) -> u64 { capacity 16 }\n on wire(p) { seen[p.pair] += 1 }");
    assert!(local(&m) == [true] && m.steer[0].symmetric);
}

#[test]
fn no_common_key_is_shared() {
    let m = module("table macs: mac -> u32 { capacity 16 }\n on wire(p) where p.eth { macs[p.eth.src] = p.port\n if macs[p.eth.dst] { p -> other } }");
    assert_eq!((local(&m), m.steer.len()), (vec![false], 0));
    let why = &passes::steer::plan(&m).tables[0].1;
    assert!(why.contains("different uses"), "{why}");
}

#[test]
fn an_edited_field_is_no_key() {
    let m = module("table t: ip4 -> u64 { capacity 16 }\n on wire(p) where p.ip4 { p.ip4.src = 10.0.0.1\n t[p.ip4.src] += 1 }");
    assert_eq!(local(&m), [false]);
    let m = module("table t: ip4 -> u64 { capacity 16 }\n on wire(p) where p.ip4 { let src = p.ip4.src\n p.ip4.src = 10.0.0.1\n t[src] += 1 }");
    assert_eq!(local(&m), [true]);
}

fn moves(m: &Module) -> Vec<bool> {
    let mut all = Vec::new();
    for h in &m.handlers {
        walk::stmts(&h.body.block, &mut |s| if let StmtKind::Frame { act: FrameAct::Send { last, .. }, .. } = &s.kind { all.push(*last) });
    }
    all
}

#[test]
fn the_last_use_moves_the_frame() {
    assert_eq!(moves(&module("on wire(p) { p -> other }")), [true]);
    assert_eq!(moves(&module("on wire(p) { p -> other\n p -> wire }")), [false, true]);
    assert_eq!(moves(&module("on wire(p) { if p.udp { p -> other; return }\n p -> wire }")), [true, true]);
    assert_eq!(moves(&module("on wire(p) { if p.udp { p -> other }\n p -> wire }")), [false, true]);
    assert_eq!(moves(&module("on wire(p) { p -> other\n if p.len > 100 { log 1 } }")), [false]);
    assert_eq!(moves(&module("on wire(p) { loop max 3 { p -> other } }")), [false]);
}

/// The apps of a file.
fn apps(text: &str, names: &[&str]) -> Vec<Module> {
    let mut world = MemoryWorld::new().with("/app/main.loom", text.to_string());
    for file in std::fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../std")).expect("std is there").flatten().filter(|f| f.path().is_file()) {
        world.add(Path::new("/std").join(file.file_name()), std::fs::read(file.path()).expect("a module of std"));
    }
    let one = |name: &&str| {
        let checked = wireloom_lang::compile(&world, Path::new("/app/main.loom"), Some(name));
        let said = diagnostic::render_all(&checked.diagnostics, &checked.map, false);
        let mut m = checked.module.unwrap_or_else(|| panic!("{said}"));
        passes::run_all(&mut m);
        m
    };
    names.iter().map(one).collect()
}

const SEVERAL: &str = r#"
app flows { port wire = memory("w")
  table seen: flow5 -> u64 { capacity 16 }
  on wire(p) { seen[p.flow5] += 1 } }
app sources { port wire = memory("w"), out = memory("o")
  table seen: (u8, ip) -> u64 { capacity 16 }
  on wire(p) where p.ip4 { seen[(p.ip.proto, p.ip.src)] += 1
    p -> out } }
app pairs { port wire = memory("w")
  table seen: (ip, ip) -> u64 { capacity 16 }
  on wire(p) where p.ip { seen[(p.ip.src, p.ip.dst)] += 1
    if seen[(p.ip.dst, p.ip.src)] { p.eth.src = p.eth.dst
      p -> wire } } }
app stations { port wire = memory("w")
  table seen: mac -> u64 { capacity 16 }
  on wire(p) where p.eth { seen[p.eth.src] += 1 } }
app counts { port wire = memory("w")
  counter all
  on wire(p) { all += 1 } }
app elsewhere { port other = memory("w")
  table seen: ip -> u64 { capacity 16 }
  on other(p) where p.ip { seen[p.ip.src] += 1 } }
"#;

#[test]
fn apps_of_one_port_with_a_common_key_are_a_cluster() {
    let mut all = apps(SEVERAL, &["flows", "sources", "pairs", "stations", "counts", "elsewhere"]);
    let found = passes::cluster::clusters(&all);
    let members: Vec<(Vec<usize>, &str)> = found.iter().map(|c| (c.apps.clone(), c.key.as_str())).collect();
    assert_eq!(members.iter().map(|m| m.0.clone()).collect::<Vec<_>>(), [vec![0, 1, 4], vec![2], vec![3], vec![5]], "{members:?}");
    assert!(members[0].1.starts_with("steered by ip4.src or ip6.src") && !members[0].1.contains("tcp"), "{members:?}");
    assert!(members[1].1.ends_with("ip4.src or ip6.src with ip4.dst or ip6.dst"), "{members:?}");
    let before = all.clone();
    assert_eq!(passes::cluster::apply(&mut all), [Some(0), Some(0), Some(1), Some(2), Some(0), Some(3)]);
    // The two are steered by the same expressions; the others by their own.
    assert_eq!((before[0].steer[0].keys.len(), all[0].steer[0].keys.len(), all[1].steer[0].keys.len()), (5, 2, 2));
    assert!(all[2..] == before[2..] && all[4].steer.is_empty());
    for m in &all {
        assert_eq!(verify::verify(m), vec![]);
    }
    assert_eq!(local(&all[0]), [true], "the table stays divided");
    // Twice is once.
    let once = all.clone();
    passes::cluster::apply(&mut all);
    assert_eq!(once, all);
}

#[test]
fn what_a_handler_does_with_frames() {
    use wireloom_ir::desc::FrameUse::{Edits, Reads, Sends};
    let all = apps(SEVERAL, &["flows", "sources", "pairs"]);
    assert_eq!(all.iter().map(|m| m.handlers[0].frame_use()).collect::<Vec<_>>(), [Reads, Sends, Edits]);
}
