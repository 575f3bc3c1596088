//! Programs of packets: a port, a handler, timers, queues, elements.

use super::{Kind, Make, Parts, Ty, Var, FIELDS};
use std::fmt::Write;

const HEADERS: [&str; 8] = ["eth", "vlan", "ip4", "ip6", "udp", "tcp", "inner_ip4", "ip4"];

impl Make {
    pub(super) fn packet_program(&mut self) -> Parts {
        let mut parts = Parts::default();
        let members = self.state_members(Kind::Packets);
        let wire = format!("{}_in", self.prefix);
        let mut body = format!("    port {wire} = memory(\"{wire}\")\n{members}");
        self.ways = vec!["o0".into(), "o1".into()];
        self.still = self.rng.chance(30);
        for _ in 0..self.below(2) {
            self.limiter(&mut body)
        }
        for _ in 0..self.below(3) {
            self.queue(&mut body)
        }
        for _ in 0..self.below(3) {
            self.element(&mut parts.items, &mut body)
        }
        let (guard, headers) = self.guard();
        let _ = writeln!(body, "on {wire}(p){guard} {{");
        self.packet_body(headers, 7, &mut body);
        if self.rng.chance(40) {
            let _ = writeln!(body, "every {} {{", self.pick(&["1ms", "3s"]));
            for q in self.queues.clone() {
                let _ = match self.below(6) {
                    0..=3 => writeln!(body, "{q}.pop()"),
                    4 => writeln!(body, "if {q}.discard() {{ log \"discarded\" }}"),
                    _ => writeln!(body, "log \"{q} \", len({q}), \" \", {q}.first()"),
                };
            }
            for c in self.controlled.clone() {
                let _ = writeln!(body, "if {} {{ {c}() }}", self.truth(1));
            }
            for _ in 0..3 {
                self.statement(2, &mut body)
            }
            self.vars.clear();
            body.push_str("}\n");
        }
        parts.members = body;
        parts
    }

    /// A handler's condition, and the headers that are there then.
    pub(super) fn guard(&mut self) -> (&'static str, &'static [&'static str]) {
        let guard = self.pick(&["", "", " where p.ip4", " where p.udp and p.ip4", " where p.vlan"]);
        let headers: &[&str] = match guard {
            "" => &[],
            " where p.ip4" => &["ip4", "eth"],
            " where p.vlan" => &["vlan", "eth"],
            _ => &["ip4", "udp", "eth"],
        };
        (guard, headers)
    }

    /// A handler's statements and its end.
    pub(super) fn packet_body(&mut self, headers: &[&'static str], n: u64, out: &mut String) {
        (self.packet, self.headers) = (true, headers.to_vec());
        let depth = 1 + self.below(2) as u32;
        for _ in 0..n {
            if self.rng.chance(if self.hook { 90 } else { 40 }) {
                self.packet_statement(depth, out)
            }
            self.statement(depth, out);
        }
        self.log(out);
        if self.rng.chance(if self.hook { 90 } else { 70 }) {
            self.send(out)
        }
        out.push_str("}\n");
        (self.packet, self.headers, self.inserted) = (false, vec![], 0);
        self.vars.clear();
    }

    pub(super) fn limiter(&mut self, out: &mut String) {
        let (name, capacity) = (self.name("r"), if self.hook { 2000 } else { 16 });
        let _ = writeln!(
            out,
            "limiter {name}: u32 {{ rate {}, burst {}, capacity {capacity}, evict lru }}",
            1 + self.below(100),
            1 + self.below(4)
        );
        self.limiters.push(name);
    }

    fn queue(&mut self, out: &mut String) {
        let (q, depth) = (self.name("q"), self.pick(&[1, 2, 5]));
        let _ = writeln!(out, "queue {q} {{ depth {depth} }}");
        if self.rng.chance(40) {
            let _ = writeln!(out, "{q} -> {}", self.pick(&["o0", "o1"]));
        } else if self.rng.chance(50) {
            // Little of the packet is needed.
            let read = match self.below(3) {
                0 => "log p.f0, p.len // state only",
                1 => "if p.udp { log p.f1, \" \", p.udp.dst, \" \", len(p.payload) } // headers only",
                _ => "if p.ip4 { log p.ip4.src, slice(p.payload, 0, 4) } // headers only",
            };
            let _ =
                writeln!(out, "on {q}(p) {{ // waited\n{read}\nif p.f2 {{ log \"state \", p.f3, \" \", p.f5 }}\n}}");
        } else {
            let _ = writeln!(out, "on {q}(p) {{ // waited");
            // A waiting packet is not sent to its own queue: the program would not end.
            self.packet_body(&[], 2, out);
        }
        self.ways.push(q.clone());
        self.queues.push(q);
    }

    pub(super) fn element(&mut self, items: &mut String, members: &mut String) {
        let mut e = Make::new(self.rng.any(), 0);
        (e.still, e.hook) = (self.still, self.hook);
        let name = self.name("E");
        e.prefix = name.clone();
        e.ways = vec!["y".into()];
        let state = e.state_members(Kind::Packets);
        let mut body = String::new();
        let headers: &[&'static str] = if e.rng.chance(50) { &["ip4", "eth"] } else { &[] };
        let guard = if headers.is_empty() { "" } else { " where p.ip4" };
        let (places, keep, typed) = (self.rng.chance(40), self.rng.chance(40), self.rng.chance(20));
        let way = if places { "x[way]" } else { "x" };
        if places {
            e.vars.push(Var { name: "way".into(), ty: Ty::U32, mutable: false });
        }
        e.packet_body(headers, 4, &mut body);
        let array = if places { " [3]" } else { "" };
        let (param, given, asked) = match keep {
            true => (
                "param keep: fn(packet) -> bool\n",
                self.pick(&[".len > 60", "|p| p.ip4 and p.ip4.ttl > 8", "any(.udp, .tcp)", "not .vlan"]),
                "if not keep(p) { // given\nreturn }\n",
            ),
            false => ("", "", ""),
        };
        let kinds: &[&str] = if self.hook { &["<u16>", "<ip4>"] } else { &["<u16>", "<ip4>", "<bytes<9>>"] };
        let (types, kind) = if typed { ("<T: type>", self.pick(kinds)) } else { ("", "") };
        let typed = if typed { "state of_type: T\n" } else { "" };
        // A sketch is not emptied.
        let controls = match ["bloom", "count_min", "hyper_log_log"].iter().any(|k| state.contains(k)) {
            true => "signal start, stop",
            false => "signal start, stop, reset",
        };
        let controls = if self.rng.chance(30) && !self.hook { controls } else { "" };
        let _ = writeln!(
            items,
            "element {name}{types} {{\n {param} in x: packet{array}\n out y: packet\n{FIELDS}{typed}{controls}\n{state} on {way}(p){guard} {{\n{asked}{body}}}"
        );
        let instance = self.name("i");
        let _ = writeln!(members, "{instance} = {name}{kind}({given})");
        let n = self.below(self.ways.len() as u64) as usize;
        let to = self.ways[n].clone();
        let filter =
            self.pick(&["", "", "where .len > 60 -> ", "all(.ip4, .len > 60) -> ", "match { .udp => o0, else => o1 }"]);
        let _ = if filter.starts_with("match") {
            writeln!(members, "{instance} -> {filter}")
        } else {
            writeln!(members, "{instance} -> {filter}{to}")
        };
        if !controls.is_empty() {
            self.controlled.push(format!("{instance}.{}", if controls.contains("reset") { "reset" } else { "stop" }));
            self.controlled.push(format!("{instance}.start"));
        }
        let place = if places { format!(".x[{}]", self.below(3)) } else { String::new() };
        self.ways.push(instance + &place);
    }

    fn send(&mut self, out: &mut String) {
        let queues = self.hook && !self.queues.is_empty() && self.rng.chance(60);
        let ways = if queues { &self.queues } else { &self.ways };
        let n = self.rng.below(ways.len() as u64) as usize;
        let way = ways[n].clone();
        // The hook sends a packet once.
        let end = if self.hook { "\nreturn" } else { "" };
        let _ = writeln!(out, "p -> {way}{end}");
    }

    /// A frame of its own.
    fn built(&mut self, out: &mut String) {
        let (data, to) = (self.expr(Ty::Text, 1), self.pick(&["o0", "o1"]));
        let to = if self.ways.iter().any(|w| w == "o0") { to.to_string() } else { self.ways[0].clone() };
        let _ = match self.below(2) {
            0 => writeln!(out, "[Ethernet {{ type: 0x88b5 }}, {data}] -> {to}"),
            _ => writeln!(out, "[Ethernet {{ type: 0x0800 }}, Ipv4 {{ ttl: 9, proto: 17, dst: 10.0.0.1 }}, Udp {{ src: 7, dst: 9 }}, {data}] -> {to}"),
        };
    }

    pub(super) fn packet_statement(&mut self, depth: u32, out: &mut String) {
        let has = |m: &Make, h: &str| m.headers.contains(&h);
        match self.below(17) {
            13 => {
                let (f, ty) =
                    self.pick(&[("f0", Ty::U32), ("f1", Ty::U64), ("f3", Ty::Ip4), ("f4", Ty::U16), ("f5", Ty::I32)]);
                let value = self.expr(ty, 1);
                let _ = writeln!(out, "p.{f} = {value} // state set");
            }
            14 => {
                let (truth, n) = (self.truth(1), self.below(9));
                let _ = writeln!(out, "p.f2 = {truth}\np.f0 += {n} // state added");
            }
            15 | 16 => {
                let f = self.pick(&["f0", "f1", "f3", "f4", "f5"]);
                let _ = writeln!(out, "if p.f2 or p.f4 > 8 {{ log \"state \", p.{f} }}");
            }
            5..=8 | 12 if self.still => {
                let _ = writeln!(out, "if p.ip4 {{ log p.ip4.ttl }}");
            }
            11 => {
                let _ = writeln!(
                    out,
                    "if {} {{ {} }}",
                    self.truth(1),
                    self.pick(&["drop p return", "fault mine", "return"])
                );
            }
            12 if !self.limiters.is_empty() => {
                let key = self.key(Ty::U32, 5);
                let _ = writeln!(out, "if {}[{key}].take(1) {{ log \"taken\" }}", self.limiters[0]);
            }
            12 => self.set_header(out),
            // Behind an element its sender goes on.
            0..=2 if !self.hook || self.ways != ["y"] && self.rng.chance(15) => self.send(out),
            0..=2 if !self.still => self.set_header(out),
            3 | 4 if depth > 0 => {
                let h = self.pick(&HEADERS);
                let _ = writeln!(out, "if p.{h} {{");
                let known = has(self, h);
                if !known {
                    self.headers.push(h)
                }
                self.block(3, depth - 1, out);
                if !known {
                    self.headers.retain(|x| *x != h)
                }
                out.push_str("}\n");
            }
            5..=7 => self.set_header(out),
            8 if !self.hook => self.structure(out),
            10 if !self.hook => self.built(out),
            n if (8..=10).contains(&n) && !self.still && self.loops == 0 && self.inserted < 2 => self.structure(out),
            _ => {
                let _ = writeln!(out, "log \"len \", p.len");
            }
        }
    }

    fn set_header(&mut self, out: &mut String) {
        let all = self.headers.clone();
        if all.is_empty() || self.rng.chance(20) {
            let h = self.pick(&["ip4", "udp", "eth", "vlan"]);
            let _ = writeln!(out, "if p.{h} {{");
            self.set_field(h, out);
            out.push_str("}\n");
            return;
        }
        let h = all[self.below(all.len() as u64) as usize];
        self.set_field(h, out);
    }

    fn set_field(&mut self, h: &str, out: &mut String) {
        let _ = match (h, self.below(4)) {
            ("ip4", 0) => writeln!(out, "p.ip4.ttl = {}", self.expr(Ty::U8, 1)),
            ("ip4", 1) => writeln!(out, "p.ip4.{} = {}", self.pick(&["src", "dst"]), self.expr(Ty::Ip4, 1)),
            ("ip4", 2) => {
                let a = self.name("a");
                writeln!(out, "let {a} = p.ip4.src\np.ip4.src = p.ip4.dst\np.ip4.dst = {a}")
            }
            ("ip4", _) => writeln!(out, "p.ip4.id = {}", self.expr(Ty::U16, 1)),
            ("udp" | "tcp", _) => writeln!(out, "p.{h}.{} = {}", self.pick(&["src", "dst"]), self.expr(Ty::U16, 1)),
            ("eth", 0) => {
                let a = self.name("a");
                writeln!(out, "let {a} = p.eth.src\np.eth.src = p.eth.dst\np.eth.dst = {a}")
            }
            ("eth", _) => writeln!(out, "p.eth.dst = 02:00:00:00:00:0{}", self.below(9)),
            ("vlan", _) => writeln!(out, "p.vlan.vid = u12({})", self.expr(Ty::U16, 0)),
            _ => Ok(()),
        };
    }

    /// Headers and payloads put in and taken out.
    fn structure(&mut self, out: &mut String) {
        self.inserted += 1;
        let (need, text) = match self.below(6) {
            0 => ("vlan", "remove p.vlan".to_string()),
            1 => ("ip4", "remove p.ip4".into()),
            2 => ("eth", format!("insert Vlan {{ vid: {}, type: 0x0800 }} behind p.eth", self.below(4000))),
            3 => ("udp", format!("p.payload = {}", self.expr(Ty::Text, 1))),
            4 => ("ip4", "insert [Ipv4 { ttl: 9, proto: 4 }] before p.ip4".into()),
            _ => ("inner_ip4", "remove p.inner_ip4".into()),
        };
        // A header that may be absent is tested first.
        let _ = match self.headers.contains(&need) {
            true => writeln!(out, "{text}"),
            false => writeln!(out, "if p.{need} {{ {text} log \"{need} \", p.len }}"),
        };
        if text.starts_with("remove") {
            self.headers.retain(|h| *h != need)
        }
    }
}
