//! The steering key of packets, the local tables with reasons, and the last use of a frame.

use std::path::Path;
use wireloom_ir::{passes, verify, walk, FrameAct, Module, StmtKind};
use wireloom_syntax::{diagnostic, MemoryWorld};

fn world(text: String) -> MemoryWorld {
    let mut world = MemoryWorld::new().with("/app/main.loom", text);
    for file in std::fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../std"))
        .expect("std is there")
        .flatten()
        .filter(|f| f.path().is_file())
    {
        world.add(Path::new("/std").join(file.file_name()), std::fs::read(file.path()).expect("a module of std"));
    }
    world
}

fn module(app: &str) -> Module {
    whole(format!("app a {{\n    port wire = memory(\"w\"), other = memory(\"o\")\n{app}\n}}\n"))
}

fn whole(text: String) -> Module {
    let world = world(text);
    let checked = wireloom_lang::compile(&world, Path::new("/app/main.loom"), None);
    let said = diagnostic::render_all(&checked.diagnostics, &checked.map, false);
    let mut m = checked.module.unwrap_or_else(|| panic!("{said}"));
    passes::run_all(&mut m);
    assert_eq!(verify::verify(&m), vec![]);
    let text = wireloom_ir::text::print(&m);
    assert_eq!(wireloom_ir::text::parse(&text).as_ref(), Ok(&m), "the text form loses something");
    m
}

fn local(m: &Module) -> Vec<bool> {
    m.tables.iter().map(|t| t.local).collect()
}

#[test]
fn the_common_part_of_two_keys() {
    let m = module("table open: flow5 -> bool { capacity 16 }\n table stage: (ip, ip, u8) -> u8 { capacity 16 }\n\
        on wire(p) where p.tcp { if open[p.flow5] { return }\n let who = (p.ip.src, p.ip.dst, p.ip.proto)\n stage[who] += 1 }");
    assert_eq!(local(&m), [true, true]);
    assert_eq!((m.steer.len(), m.steer[0].keys.len(), m.steer[0].symmetric), (1, 3, false));
}

/// A field that differs from packet to packet would spread a flow over the cores.
#[test]
fn flows_are_not_torn_apart() {
    let m = module("table parts: (ip4, ip4, u16) -> u64 { capacity 16 }\n on wire(p) where p.ip4 { parts[(p.ip4.src, p.ip4.dst, p.ip4.id)] += 1\n p -> other }");
    assert_eq!(local(&m), [true]);
    assert_eq!((m.steer.len(), m.steer[0].keys.len()), (1, 2));
    let m =
        module("table seen: u32 -> u64 { capacity 16 }\n on wire(p) where p.tcp { seen[p.tcp.seq] += 1\n p -> other }");
    assert_eq!((local(&m), m.steer.len()), (vec![false], 0));
}

/// A program's own header has the clauses of the library's: fields that differ between packets, and
/// the link of a frame.
#[test]
fn units_say_what_differs_and_what_begins() {
    let keys = |says: &str, key: &str| {
        let m = whole(format!("unit H {{ order big  id: u32  number: u16  size: u16 covers own  sum: u16 checksum header  let low = number & 15  {says} }}\npacket P {{ h: H }}\n\
            app a {{ port wire = memory(\"w\") as P, other = memory(\"o\") as P\n table seen: (u32, u16) -> u64 {{ capacity 16 }}\n on wire(p) where p.h {{ seen[(p.h.id, {key})] += 1\n p -> other }} }}"));
        let begins = m.desc().handlers[0].begins;
        (m.steer.first().map_or(0, |s| s.keys.len()), begins)
    };
    use wireloom_ir::desc::Begins::{Any, Ethernet, Ip};
    assert_eq!(keys("", "p.h.number"), (2, Any));
    assert_eq!(keys("per_packet number", "p.h.number"), (1, Any));
    // Also fields computed from it; and lengths and checksums without a declaration.
    assert_eq!(keys("link ip", "u16(p.h.low)"), (2, Ip));
    assert_eq!(keys("per_packet number link ethernet", "u16(p.h.low)"), (1, Ethernet));
    assert_eq!(keys("", "p.h.size").0, 1);
    assert_eq!(keys("", "p.h.sum").0, 1);
    // An app of the library's packets begins as they do.
    let m = module("on wire(p) { p -> other }\n port t = tun(\"t0\")\n on t(p) { p -> other }");
    assert_eq!(m.desc().handlers.iter().map(|h| h.begins).collect::<Vec<_>>(), [Ethernet, Ip]);
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
    let why = &passes::flow_affinity::plan(&m).tables[0].1;
    assert!(why.contains("different uses"), "{why}");
}

#[test]
fn an_edited_field_is_no_key() {
    let m = module(
        "table t: ip4 -> u64 { capacity 16 }\n on wire(p) where p.ip4 { p.ip4.src = 10.0.0.1\n t[p.ip4.src] += 1 }",
    );
    assert_eq!(local(&m), [false]);
    let m = module("table t: ip4 -> u64 { capacity 16 }\n on wire(p) where p.ip4 { let src = p.ip4.src\n p.ip4.src = 10.0.0.1\n t[src] += 1 }");
    assert_eq!(local(&m), [true]);
}

fn moves(m: &Module) -> Vec<bool> {
    let mut all = Vec::new();
    for h in &m.handlers {
        walk::stmts(&h.body.block, &mut |s| {
            if let StmtKind::Frame { act: FrameAct::Send { last, .. }, .. } = &s.kind {
                all.push(*last)
            }
        });
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
    for file in std::fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../std"))
        .expect("std is there")
        .flatten()
        .filter(|f| f.path().is_file())
    {
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
    let found = passes::affinity_groups::clusters(&all, &passes::affinity_groups::by_name(&all));
    let members: Vec<(Vec<usize>, &str)> = found.iter().map(|c| (c.apps.clone(), c.key.as_str())).collect();
    assert_eq!(
        members.iter().map(|m| m.0.clone()).collect::<Vec<_>>(),
        [vec![0, 1, 4], vec![2], vec![3], vec![5]],
        "{members:?}"
    );
    assert!(members[0].1.starts_with("steered by ip4.src or ip6.src") && !members[0].1.contains("tcp"), "{members:?}");
    assert!(members[1].1.ends_with("ip4.src or ip6.src with ip4.dst or ip6.dst"), "{members:?}");
    let before = all.clone();
    let names = passes::affinity_groups::by_name(&all);
    assert_eq!(
        passes::affinity_groups::apply(&mut all, &names),
        [Some(0), Some(0), Some(1), Some(2), Some(0), Some(3)]
    );
    // The two are steered by the same expressions; the others by their own.
    assert_eq!((before[0].steer[0].keys.len(), all[0].steer[0].keys.len(), all[1].steer[0].keys.len()), (5, 2, 2));
    assert!(all[2..] == before[2..] && all[4].steer.is_empty());
    for m in &all {
        assert_eq!(verify::verify(m), vec![]);
    }
    assert_eq!(local(&all[0]), [true], "the table stays divided");
    // One interface under two names is one.
    let mut bound = names.clone();
    bound[0][0].1 = vec!["nic:a".into(), "nic:b".into()];
    bound[5][0].1 = vec!["nic:b".into()];
    let found = passes::affinity_groups::clusters(&before, &bound);
    assert_eq!(found.iter().map(|c| c.apps.clone()).collect::<Vec<_>>(), [vec![0, 5], vec![1, 4], vec![2], vec![3]]);
    assert!(wireloom_ir::explain::clusters(&before, &bound).contains("Clusters of port nic:b "));
    // Twice is once.
    let once = all.clone();
    passes::affinity_groups::apply(&mut all, &names);
    assert_eq!(once, all);
}

#[test]
fn what_a_handler_does_with_frames() {
    use wireloom_ir::desc::FrameUse::{Edits, Reads, Sends};
    let all = apps(SEVERAL, &["flows", "sources", "pairs"]);
    assert_eq!(all.iter().map(|m| m.handlers[0].frame_use()).collect::<Vec<_>>(), [Reads, Sends, Edits]);
}

/// Frames and connections in one app: resources of each core belong to one half, and resources that
/// both use are shared.
#[test]
fn apps_of_two_halves() {
    use wireloom_ir::desc::CoreKind;
    const TOP: &str = "unit M { n: u8  m: u8 }\nprotocol p { stateless  request M  response M }\n";
    const PORTS: &str =
        "port w = memory(\"w\")\nport c = listen tcp(80) as p\nport b = connect tcp(127.0.0.1:81) as p\n";
    let compiled = |members: &str| {
        wireloom_lang::compile(
            &world(format!("{TOP}app a {{\n{PORTS}{members}\n}}\n")),
            Path::new("/app/main.loom"),
            None,
        )
    };
    let refused = |members: &str| {
        let errors = compiled(members).diagnostics;
        errors
            .iter()
            .filter(|d| d.code == "E0624")
            .map(|d| d.message.clone())
            .next()
            .unwrap_or_else(|| panic!("{members}: {errors:?}"))
    };
    let reply = "on c(r) { reply nothing }";
    assert!(refused("state s: u32\non w(x) { s = x.len }\non c(r) { s = 1\n reply nothing }")
        .starts_with("state `s` is used for packets and for connections"));
    assert!(refused("on w(x) { x -> w }\non c(r) { [\"a\"] -> w\n reply nothing }")
        .starts_with("one handler uses frame ports and connections"));
    assert!(refused("counter k\non w(x) { k += 1\n if k > 5 { x -> w } }\non c(r) { k += 1\n reply nothing }")
        .starts_with("counter `k`"));
    assert!(refused("counter k\non w(x) { if k > 5 { x -> w } }\non c(r) { k += 1\n reply nothing }")
        .starts_with("counter `k`"));
    let both = compiled("counter k\non w(x) { k += 1 }\non c(r) { k += 1\n if k > 5 { k += 1 }\n reply nothing }");
    assert!(both.diagnostics.iter().all(|d| !d.code.starts_with('E')), "{:?}", both.diagnostics);
    assert!(refused("table t: lpm ip4 -> u8 { capacity 5 }\non w(x) where x.ip4 { if t[x.ip4.src] is none { return }\n x -> w }\non c(r) { t.insert(10.0.0.0/8, 1)\n reply nothing }").starts_with("table `t`"));
    // A counter of packets is read; a timer follows the resources that it uses; a table that both
    // use is no core's own.
    let members = "counter k\nstate s: u32\nstate q: u32\ntable t: u16 -> u64 { capacity 5 }\ntable u: u16 -> u64 { capacity 5 }\n\
        on w(x) where x.udp { k += 1\n s = x.len\n t[x.udp.dst] += 1\n u[x.udp.dst] += 1 }\nevery 1s { s = 0 }\nevery 2s { q += 1 }\n\
        on c(r) { q = 5\n if k > 5 or t[1] is some(_) { q = 6 }\n reply nothing }\nsignal read() -> u64 { k }\nsignal all() -> u32 { 7 }";
    let made = compiled(members);
    assert!(made.diagnostics.iter().all(|d| !d.code.starts_with('E')), "{:?}", made.diagnostics);
    let mut m = made.module.expect("compiled");
    passes::run_all(&mut m);
    let d = m.desc();
    let of = |name: &str| {
        d.handlers
            .iter()
            .find(|h| h.name == name)
            .map(|h| h.core_kind)
            .unwrap_or_else(|| panic!("{name} is not in {:?}", d.handlers))
    };
    let timers: Vec<CoreKind> = d
        .handlers
        .iter()
        .filter(|h| matches!(h.on, wireloom_ir::desc::HandlerOn::Every { .. }))
        .map(|h| h.core_kind)
        .collect();
    assert_eq!(
        (of("w"), of("c"), &timers[..]),
        (CoreKind::Packets, CoreKind::Services, &[CoreKind::Packets, CoreKind::Services][..])
    );
    assert_eq!(
        (of("signal read"), of("signal all"), d.counters[0].core_kind),
        (CoreKind::Packets, CoreKind::Both, CoreKind::Packets)
    );
    let per_core: Vec<&str> = d.tables.iter().filter(|t| t.is_per_core()).map(|t| t.name.as_str()).collect();
    assert_eq!(per_core, ["u"]);
    assert!(
        d.is_mixed()
            && !compiled(&format!("on w(x) {{ x -> w }}\n{reply}")).diagnostics.iter().any(|d| d.code == "E0624")
    );
}
