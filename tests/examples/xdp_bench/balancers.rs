//! Balancers of connections: ours, and katran if it is there (`bench/xdp/katran.sh`). A program in
//! front of each makes the frame as it was, and changes its flow.
//!
//! Both have one VIP, four servers behind it, tunnels of IP in IP, and room for two million flows.

use std::path::{Path, PathBuf};
use wireloom_codegen_c::xdp::emit;
use wireloom_ir::placement::{candidates, specialise};
use wireloom_runtime::params;
use wireloom_tests::folder::Folder;
use wireloom_tests::programs::bare_module;
use wireloom_tests::root;
use wireloom_xdp::{Hand, Object, Settings, Verdict};

const VIP: [u8; 4] = [192, 0, 2, 1];
const SERVERS: u32 = 4;
const ROOM: u64 = 1 << 21;
/// The places of katran's ring, and of ours.
const RING: u32 = 65537;
const PLACES: u32 = 16381;
/// The header of a tunnel.
const OUTER: usize = 20;

/// A balancer with so many flows, and nanoseconds of its runs: behind the program, and of that
/// program alone.
pub struct Measured {
    pub name: &'static str,
    pub flows: u32,
    program: Hand,
    /// The program that it calls.
    _called: Called,
    pub runs: [Vec<f64>; 2],
}

enum Called {
    Ours(Box<Object>),
    Katran(Hand),
}

fn server(n: u32) -> [u8; 4] {
    [10, 0, 1, n as u8 + 1]
}

/// A packet of TCP to the VIP, of 64 bytes.
fn frame() -> Vec<u8> {
    let mut f = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0];
    f.extend([0x45, 0, 0, 50, 0, 0, 0, 0, 64, 6, 0, 0, 10, 9, 0, 1]);
    f.extend(VIP);
    f.extend([0, 0, 0, 80, 0, 0, 0, 1, 0, 0, 0, 1, 0x50, 0x10, 0xff, 0xff, 0, 0, 0, 0]);
    f.resize(64, 0);
    f
}

/// The app, which sends frames back to the interface that they came from, as katran does.
fn ours() -> Object {
    let text = std::fs::read_to_string(root().join("apps/l4_balancer.loom")).expect("the app");
    assert!(text.contains("p -> out"), "the balancer's way out");
    let folder = Folder::new("xdp-bench-balancer");
    let file = folder.path().join("l4_balancer.loom");
    std::fs::write(&file, text.replace("p -> out", "p -> wire")).expect("the folder is writable");
    let mut m = bare_module(&file);
    m.tables.iter_mut().filter(|t| t.name == "connections").for_each(|t| t.capacity = ROOM);
    let sets = [("vip", "192.0.2.1"), ("dips", "10.0.1.1")].map(|(n, v)| (n.to_string(), v.to_string()));
    let values = params::resolve(&m.desc(), &sets).expect("parameters").values.clone();
    let (mut special, all) = (m.clone(), candidates(&m));
    all.iter().for_each(|h| specialise(&mut special, *h, &values));
    let source = emit(&special, &all, &|_| 1).expect("a handler of frames");
    let mut object = Object::load(&source, &Settings::default()).unwrap_or_else(|e| panic!("l4_balancer: {e}"));
    let table = |name: &str| {
        let n = m.tables.iter().position(|t| t.name == name).expect("a table of the app");
        object.table(wireloom_ir::TableId(n as u32)).expect("the hook has it")
    };
    let (servers, ring) = (table("servers"), table("ring"));
    for n in 0..SERVERS {
        assert!(object.put(servers, &n.to_le_bytes(), &u32::from_be_bytes(server(n)).to_le_bytes()));
    }
    for n in 0..PLACES {
        assert!(object.put(ring, &n.to_le_bytes(), &(n % SERVERS + 1).to_le_bytes()));
    }
    object.set_one_queue(true);
    object
}

fn katran(object: &Path) -> Hand {
    let katran = Hand::load_object(object, Path::new("/sys/fs/bpf")).unwrap_or_else(|e| panic!("katran: {e}"));
    let mut vip = VIP.to_vec();
    vip.resize(16, 0);
    vip.extend([0, 80, 6, 0]);
    katran.set_entry("vip_map", &vip, &[0; 8]).expect("katran has a VIP");
    katran.set("ctl_array", 0, &[2, 0, 0, 0, 0, 9, 0, 0]).expect("katran has a gateway");
    for n in 0..SERVERS {
        let mut real = server(n).to_vec();
        real.resize(20, 0);
        katran.set("reals", n + 1, &real).expect("katran has a server");
    }
    for n in 0..RING {
        katran.set("ch_rings", n, &(n % SERVERS + 1).to_ne_bytes()).expect("katran has a ring");
    }
    katran.put_map_everywhere("lru_mapping", "fallback_cache").unwrap_or_else(|e| panic!("katran: {e}"));
    katran
}

/// Both balancers, with a thousand flows and with a million. `restored`: the programs in front.
pub fn all(restored: &dyn Fn(&[u8], usize, &str) -> Hand) -> Vec<Measured> {
    let theirs = std::env::var_os("KATRAN").map(PathBuf::from);
    let mut found = Vec::new();
    for flows in [1 << 10, 1 << 20] {
        let (more, frame) = (format!("#define WL_MOVED {OUTER}\n#define WL_FLOWS {flows}\n"), frame());
        let program = || restored(&frame, frame.len() + OUTER, &more);
        let mut add = |name, mut program: Hand, called: Called| {
            match &called {
                Called::Ours(object) => program.put_after(object, 0),
                Called::Katran(hand) => program.put_after_hand(hand, "balancer_ingress"),
            }
            .unwrap_or_else(|e| panic!("{name}: {e}"));
            let (verdict, out) = program.test(super::KV, &frame).expect("the kernel runs it");
            let inner = &out[14 + OUTER..];
            assert!(verdict == Verdict::Tx && out.len() == frame.len() + OUTER, "{name}: {verdict:?}, {out:?}");
            assert!(out[23] == 4 && inner[16..20] == VIP && out[30..32] == [10, 0], "{name}: {out:?}");
            found.push(Measured { name, flows, program, _called: called, runs: [Vec::new(), Vec::new()] });
        };
        add("l4_balancer", program(), Called::Ours(Box::new(ours())));
        if let Some(object) = &theirs {
            add("katran", program(), Called::Katran(katran(object)));
        }
    }
    found
}

impl Measured {
    /// The first round fills tables.
    pub fn run(&mut self, round: usize) {
        for (n, name) in [super::KV, "restored_alone"].iter().enumerate() {
            let repeat = (4 * self.flows).max(1 << 20);
            let ns = self.program.run(name, &frame(), repeat).expect("the program runs");
            self.runs[n].extend((round > 0).then_some(ns));
        }
    }

    /// Nanoseconds above the program in front.
    pub fn above(&self) -> f64 {
        super::median(&mut self.runs[0].clone()) - super::median(&mut self.runs[1].clone())
    }
}
