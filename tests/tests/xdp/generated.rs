//! Programs at random all load, and agree with the interpreter.

use super::*;

/// A program of what the hook has: numbers, branches, loops, functions, a state, counters, tables,
/// edits, ways.
struct Make {
    rng: fastrand::Rng,
    text: String,
    locals: usize,
    /// Loops around, and headers that have been put in.
    loops: u32,
    inserted: u32,
    /// An entry is held: no table is read.
    held: bool,
}

impl Make {
    fn pick<'t>(&mut self, all: &[&'t str]) -> &'t str {
        all[self.rng.usize(..all.len())]
    }

    /// A number of 64 bits.
    fn number(&mut self, depth: u32) -> String {
        if depth == 0 || self.rng.u8(..) < 90 {
            let local = self.rng.usize(..self.locals.max(1));
            return match self.rng.u8(..9) {
                0 => format!("u64({})", self.rng.u64(..1 << 20)),
                1 if self.locals > 0 => format!("v{local}"),
                2 => "u64(p.ip4.ttl)".into(),
                3 => "u64(p.ip4.total)".into(),
                4 => "u64(u32(p.ip4.src))".into(),
                5 => "turn".into(),
                6 => "u64(p.time)".into(),
                7 if !self.held => "u64(routes[p.ip4.dst] else 9)".into(),
                _ => "u64(p.len)".into(),
            };
        }
        let (a, b) = (self.number(depth - 1), self.number(depth - 1));
        match self.rng.u8(..11) {
            0 => format!("({a} * {b})"),
            1 => format!("({a} & {b})"),
            2 => format!("({a} ^ {b})"),
            3 => format!("({a} >> {})", self.rng.u8(..70)),
            4 => format!("({a} << {})", self.rng.u8(..70)),
            5 => format!("({a} / {})", self.rng.u64(1..999)),
            6 => format!("min({a}, {b})"),
            7 => format!("(if {} {{ {a} }} else {{ {b} }})", self.condition(depth - 1)),
            8 => format!("hash(({a}, u16({b})))"),
            9 if !self.held => format!("mixed({a}, {b})"),
            _ => format!("({a} + {b})"),
        }
    }

    fn condition(&mut self, depth: u32) -> String {
        match self.rng.u8(..10) {
            0 => "p.tcp".into(),
            1 => "(p.udp and p.len > 60)".into(),
            2 => "(p.ip4.dst == 10.0.0.1)".into(),
            3 => "(p.ip4.src in 10.0.0.0/8)".into(),
            4 if !self.held => "(u32(turn) in numbers)".into(),
            5 if !self.held => "(p.ip4.src in routes)".into(),
            6 => "checksum_ok(p.ip4)".into(),
            _ => {
                let (a, b) = (self.number(depth), self.number(depth));
                format!("({a} {} {b})", self.pick(&["<", "<=", "==", "!=", ">"]))
            }
        }
    }

    /// Sets fields, or puts a header in.
    fn edit(&mut self, n: &str) -> String {
        match self.rng.u8(..11) {
            8 => "if p.len > 30 { let was = p.ip4.src\np.ip4.src = p.ip4.dst\np.ip4.dst = was }\n".into(),
            9 => "if p.udp { let was = p.udp.src\np.udp.src = p.udp.dst\np.udp.dst = was }\n".into(),
            0 => format!("p.ip4.ttl = u8({n})\n"),
            1 => format!("p.ip4.src = ip4(u32({n}))\n"),
            2 => format!("p.ip4.dscp = u6({n})\np.ip4.id = u16({n})\n"),
            3 => format!("if p.tcp {{ p.tcp.dst = u16({n}) }}\n"),
            4 => format!("if p.udp {{ p.udp.src = u16({n}) }}\n"),
            5 => format!("p.eth.dst = mac(u48({n}))\n"),
            6 => "update_checksum(p.ip4)\n".into(),
            7 if self.loops == 0 && self.inserted < 2 => {
                self.inserted += 1;
                format!("insert Ipv4 {{ version: 4, ihl: 5, ttl: 9, proto: 4, id: u16({n}), src: 10.9.0.1, dst: p.ip4.dst }} before p.ip4\n")
            }
            _ if self.loops == 0 => "if p.vlan { remove p.vlan }\n".into(),
            _ => "one += 1\n".into(),
        }
    }

    fn inner(&mut self, depth: u32) {
        let locals = self.locals;
        self.block(depth - 1);
        self.locals = locals;
    }

    fn block(&mut self, depth: u32) {
        for _ in 0..self.rng.usize(1..4) {
            let n = self.number(2);
            match self.rng.u8(..17) {
                0 | 1 => {
                    self.text += &format!("let v{} = {n}\n", self.locals);
                    self.locals += 1;
                }
                2 => self.text += &format!("turn = {n}\n"),
                3 => {
                    let counter = self.pick(&["one", "two"]);
                    self.text += &format!("{counter} += {n}\n")
                }
                4 => self.text += &format!("numbers[u32({n})] = {n}\n"),
                5 => {
                    self.held = true;
                    let n = self.number(2);
                    self.held = false;
                    self.text += &format!("update hosts[p.ip.src] {{\n.times += 1\n.last = {n}\n.odd = {n} > 5\n}}\n")
                }
                6 => self.text += &format!("remove numbers[u32({n})]\n"),
                7 => self.text += &format!("if let h = hosts[p.ip.dst] {{ two += h.last }} else {{ one += {n} }}\n"),
                8 => self.text += &format!("places[u32({n}) % 66] = {n}\n"),
                9 => self.text += &format!("if let at = places[u32({n}) % 70] {{ one += at }}\n"),
                10 | 11 => {
                    let edit = self.edit(&n);
                    self.text += &edit
                }
                16 => {
                    let least = self.number(1);
                    self.text += &format!("if not seen.push({{ at: {n}, odd: {least} > 5 }}) {{ one += 1 }}\n")
                }
                12 if depth > 0 && self.loops < 2 => {
                    self.loops += 1;
                    let (rounds, end) = (self.rng.u32(1..40), self.condition(1));
                    self.text += &match self.rng.bool() {
                        true => format!("for i{} in 0..{rounds} {{\n", self.loops),
                        false => format!("loop max {rounds} {{\nif {end} {{ break }}\n"),
                    };
                    self.inner(depth);
                    self.text += "}\n";
                    self.loops -= 1;
                }
                15 if self.rng.bool() => {
                    let c = self.condition(1);
                    self.text += &format!("log \"at \", p.ip.src, \" \", {n}, \" \", i16(p.ip4.total), {c}\n")
                }
                _ if depth > 0 => {
                    let c = self.condition(2);
                    self.text += &format!("if {c} {{\n");
                    self.inner(depth);
                    self.text += "} else {\n";
                    self.inner(depth);
                    self.text += "}\n";
                }
                _ => self.text += "two += 1\n",
            }
        }
        if self.rng.u8(..) < 60 {
            let end = self.pick(&[
                "p -> kernel\nreturn\n",
                "p -> wire\nreturn\n",
                "p -> taps[p.len % 3]\nreturn\n",
                "return\n",
            ]);
            self.text += end
        }
    }

    /// Statements of which a filter has the first ones: tests, counters, sends, and lines.
    fn lines(&mut self, depth: u32) {
        for _ in 0..self.rng.usize(1..4) {
            let n = self.number(1);
            match self.rng.u8(..9) {
                0 => {
                    self.text += &format!("let v{} = {n}\n", self.locals);
                    self.locals += 1;
                }
                1 => self.text += &format!("one += {n}\n"),
                2 => self.text += &format!("log \"seen \", {n}\n"),
                3 => self.text += &format!("turn = {n}\n"),
                4 => self.text += "p.ip4.ttl = 3\n",
                _ if depth > 0 => {
                    let c = self.condition(1);
                    self.text += &format!("if {c} {{\n");
                    for end in ["} else {\n", "}\n"] {
                        let locals = self.locals;
                        self.lines(depth - 1);
                        self.locals = locals;
                        self.text += end
                    }
                }
                _ => self.text += "two += 1\n",
            }
        }
        if self.rng.u8(..) < 150 {
            let end = self.pick(&["p -> kernel\nreturn\n", "p -> wire\nreturn\n", "return\n"]);
            self.text += end
        }
    }
}

fn lines(seed: u64) -> String {
    let rng = fastrand::Rng::with_seed(seed);
    let mut make = Make { rng, text: String::new(), locals: 0, loops: 0, inserted: 0, held: true };
    make.lines(4);
    format!(
        "app made {{
    port wire = nic(\"eth0\")
    counter one
    counter two
    state turn: u64 = {}
    on wire(p) where p.ip4 and p.eth {{
        if p.ip4.ttl == 77 {{ log \"one line at least\", p.payload }}
        {}
    }}
}}
",
        seed % 9,
        make.text
    )
}

/// Filters at random, as many as `WIRELOOM_SEEDS` says.
#[test]
fn generated_filters() {
    let folder = Folder::new("xdp-generated-filters");
    for seed in wireloom_tests::programs::seeds(1) {
        let path = written(&folder, &lines(seed));
        let Some(seen) = process::filter(&path, &[], hostile(300)) else { return };
        assert!(seen.decided > 500, "seed {seed}: {seen:?}");
    }
}

fn generated(seed: u64) -> String {
    let rng = fastrand::Rng::with_seed(seed);
    let mut make = Make { rng, text: String::new(), locals: 0, loops: 0, inserted: 0, held: false };
    make.block(3);
    format!(
        "record Host {{ times: u32, last: u64, odd: bool }}
record Seen {{ at: u64, odd: bool }}
app made {{
    port wire = nic(\"eth0\"), taps = memory([\"a\", \"b\", \"c\"])
    table seen: ring Seen {{ capacity 500 }}
    table numbers: u32 -> u64 {{ capacity 4096 }}
    table hosts: ip -> Host {{ capacity 4096 }}
    table places: array u32 -> u64 {{ capacity 64 }}
    table routes: lpm ip4 -> u32 {{ capacity 16 }}
    counter one
    counter two
    state turn: u64 = {}
    on start {{
        routes.insert(10.0.0.0/8, 3)
        routes.insert(10.0.0.1/32, 5)
    }}
    on wire(p) where p.ip4 and p.eth {{
        {}
        p -> kernel
    }}
    fn mixed(a: u64, b: u64) -> u64 {{
        var sum = a
        for i in 0..b % 5 {{
            if sum % 7 == 3 {{ return sum }}
            sum = sum * 3 + (places[u32(i)] else 0)
        }}
        sum ^ b
    }}
}}
",
        seed % 9,
        make.text
    )
}

/// As many as `WIRELOOM_SEEDS` says.
#[test]
fn generated_programs() {
    let folder = Folder::new("xdp-generated");
    let (mut took, mut lines) = (Vec::new(), 0);
    for seed in wireloom_tests::programs::seeds(1) {
        let path = written(&folder, &generated(seed));
        let Some(sum) = compare(&path, &[], hostile(300)) else { return };
        assert!(sum.frames > 1000, "seed {seed}: {sum:?}");
        took.push(sum.took);
        lines += sum.lines;
    }
    took.sort();
    let (most, n) = (took[took.len() * 99 / 100], took.len());
    eprintln!("{n} programs, {lines} lines of the log; the kernel loads one in {most:?} (99 of 100)");
}
