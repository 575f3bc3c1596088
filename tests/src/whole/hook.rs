//! Programs that run on each device: interpreted, compiled, in the XDP hook, on a NIC.
//!
//! Two segments: one handles the frames of a port, as the hook can, with elements and timers of its
//! own. The other one has the handlers of queues, of which the CPU runs the hook's, too. No thing
//! belongs to both. What the hook's handler and its timers share are tables.

use super::{fixed, Kind, Make, Parts, Table, TableKind, Ty, Var, BACK_PORTS, FRONT_PORTS, STORED};
use std::fmt::Write;

/// States, results and parts of packets in the hook.
const KEPT: [Ty; 7] = [Ty::Bool, Ty::U8, Ty::U16, Ty::U32, Ty::U64, Ty::I32, Ty::MaybeU32];
/// Values that come and go with a packet.
const PASSING: [Ty; 11] =
    [Ty::Bool, Ty::U8, Ty::U16, Ty::U32, Ty::U64, Ty::I32, Ty::Bytes, Ty::MaybeU32, Ty::MaybeBytes, Ty::Two, Ty::Tuple];
/// Values of exact tables.
const ENTRIES: [Ty; 10] =
    [Ty::U32, Ty::U64, Ty::Two, Ty::Two, Ty::Two, Ty::Bool, Ty::U8, Ty::I32, Ty::MaybeU32, Ty::Bytes];

impl Make {
    pub(super) fn state_type(&mut self) -> Ty {
        match self.hook {
            true => self.pick(&KEPT),
            false => self.pick(&STORED),
        }
    }

    pub(super) fn local_type(&mut self) -> Ty {
        match self.hook {
            true => self.pick(&PASSING),
            false => self.pick(&STORED),
        }
    }

    pub(super) fn hook_program(&mut self) -> Parts {
        let mut parts = Parts::default();
        let wire = format!("{}_in", self.prefix);
        let _ = writeln!(parts.members, "    port {wire} = nic(\"{wire}\")");
        self.ways = FRONT_PORTS.map(String::from).to_vec();
        // A sender that changes packets gives whole ones to queues.
        let queues = self.pick(&[0, 1, 1, 2, 2]);
        self.still = self.rng.chance(if queues > 0 { 75 } else { 40 });
        for _ in 0..queues {
            self.hook_queue(&mut parts)
        }
        self.hook = true;
        parts.members += &self.state_members(Kind::Hook);
        if self.rng.chance(20) {
            self.limiter(&mut parts.members)
        }
        for _ in 0..self.below(3) {
            let mut text = String::new();
            self.element(&mut parts.items, &mut text);
            let (instance, wires) = text.split_at(text.find('\n').map_or(0, |n| n + 1));
            parts.members += instance;
            parts.front += wires;
        }
        let (guard, headers) = self.guard();
        let _ = writeln!(parts.front, "on {wire}(p){guard} {{");
        self.packet_body(headers, 6, &mut parts.front);
        self.tables_beside(&mut parts);
        parts
    }

    /// A queue, and what stands behind it.
    fn hook_queue(&mut self, parts: &mut Parts) {
        let (q, mut b) = (self.name("q"), Make::new(self.rng.any(), 0));
        b.prefix = format!("{q}b");
        b.ways = BACK_PORTS.map(String::from).to_vec();
        let instances = self.rng.chance(30);
        let options = self.pick(&["", "", ", carries whole"]);
        let many = if instances { ", instances 3" } else { "" };
        let _ = writeln!(parts.members, "queue {q} {{ depth 8192{many}{options} }}");
        let place = if instances { format!("[{}]", self.below(3)) } else { String::new() };
        self.ways.push(format!("{q}{place}"));
        self.queues.push(format!("{q}{place}"));
        let (head, out) = (if instances { format!("on {q}[place](p)") } else { format!("on {q}(p)") }, &mut parts.back);
        match b.below(8) {
            0 if !instances => {
                let _ = writeln!(out, "{q} -> {} // wired", b.ways[0]);
            }
            0..=2 => {
                let _ = writeln!(
                    out,
                    "{head} {{ // state only\nlog p.f0, p.len\nif p.f2 {{ log \"state \", p.f3, \" \", p.f5 }}\n}}"
                );
            }
            3..=5 => {
                let _ = writeln!(out, "{head} {{ // headers only\nif p.udp {{ log p.f1, \" \", p.udp.dst, \" \", len(p.payload) }}\nif p.ip4 {{ log p.ip4.src, slice(p.payload, 0, 4) }}\n}}");
            }
            _ => {
                parts.members += &b.state_members(Kind::Packets);
                let _ = writeln!(out, "{head} {{ // waited");
                if instances {
                    b.vars.push(Var { name: "place".into(), ty: Ty::U32, mutable: false });
                }
                b.packet_body(&[], 4, out);
            }
        }
    }

    pub(super) fn hook_table(&mut self, out: &mut String) {
        let name = self.name("t");
        let key = self.pick(&[Ty::U32, Ty::U16, Ty::Ip4, Ty::U64, Ty::Bytes]);
        let kept = self.pick(&KEPT);
        let (kind, key, value, text) = match self.below(16) {
            14 | 15 => {
                let value = self.pick(&[Ty::U8, Ty::U16, Ty::U32, Ty::U64]);
                let (key, of) = match self.rng.chance(30) {
                    true => (Ty::U32, "array u32".to_string()),
                    false => (key, key.text().to_string()),
                };
                // Each processor's part has room for all that packets and timers add.
                (TableKind::Sums, key, value, format!("{of} -> {} {{ capacity 2000, per_core }}", value.text()))
            }
            0 | 1 => {
                let capacity = self.pick(&[1, 4, 64]);
                let text = format!("array u32 -> {} {{ capacity {capacity} }}", kept.text());
                (TableKind::Array, Ty::U32, kept, text)
            }
            2 => (TableKind::Ring, Ty::U32, kept, format!("ring {} {{ capacity 500 }}", kept.text())),
            3 | 4 => match (fixed(key), self.below(3)) {
                (k, 0) => (TableKind::Bloom, k, Ty::Bool, format!("bloom {} {{ capacity 1000 }}", k.text())),
                (k, 1) => {
                    (TableKind::CountMin, k, Ty::U64, format!("count_min {} -> u64 {{ capacity 1000 }}", k.text()))
                }
                (k, _) => (TableKind::HyperLogLog, k, Ty::U64, format!("hyper_log_log {}", k.text())),
            },
            5 | 6 => (TableKind::Wildcard, Ty::U32, kept, format!("wildcard u32 -> {} {{ capacity 8 }}", kept.text())),
            7 => (TableKind::Lpm, Ty::Ip4, kept, format!("lpm ip4 -> {} {{ capacity 8 }}", kept.text())),
            _ => {
                let value = self.pick(&ENTRIES);
                let idle = if self.rng.chance(30) { " idle 10s" } else { "" };
                let room = self.pick(&["capacity 2", "capacity 8", "capacity 64", "capacity 2000", "capacity 2000"]);
                let full = match room {
                    "capacity 2000" => self.pick(&["", " evict lru"]),
                    _ => self.pick(&["", " reject"]),
                };
                (TableKind::Exact, key, value, format!("{} -> {} {{ {room}{idle}{full} }}", key.text(), value.text()))
            }
        };
        let _ = writeln!(out, "    table {name}: {text}");
        self.tables.push(Table { name, kind, key, value });
    }

    /// Statements of tables that the hook has, and a timer beside it. False: it is as elsewhere.
    pub(super) fn hook_table_statement(&mut self, t: &Table, key: &str, depth: u32, out: &mut String) -> bool {
        let n = &t.name;
        let _ = match (&t.kind, self.beside) {
            (TableKind::Wildcard | TableKind::Lpm, false) => {
                self.found(t, key, depth, out);
                return true;
            }
            (TableKind::Ring, false) => {
                let value = self.expr(t.value, 2);
                writeln!(out, "if not {n}.push({value}) {{ log \"{n} is full\" }}")
            }
            // A packet sees the part of its processor, not what a timer would set.
            (TableKind::Sums, false) if self.rng.chance(70) => {
                let value = self.expr(t.value, 1);
                writeln!(out, "{n}[{key}] += {value}")
            }
            (TableKind::Sums, _) => {
                self.found(t, key, depth, out);
                return true;
            }
            (TableKind::Ring, true) => return false,
            (TableKind::HyperLogLog, false) => writeln!(out, "{n}.add({key})"),
            (TableKind::HyperLogLog, true) => writeln!(out, "log \"{n}\", {n}.estimate()"),
            (TableKind::CountMin, true) => writeln!(out, "log \"{n}\", {n}[{key}]"),
            (TableKind::Wildcard | TableKind::Lpm, true)
            | (TableKind::Exact | TableKind::Array | TableKind::Bloom | TableKind::CountMin, _) => return false,
        };
        true
    }

    /// Entries at the start, and a timer that changes the tables of the handler.
    fn tables_beside(&mut self, parts: &mut Parts) {
        self.beside = true;
        let (states, counters) = (std::mem::take(&mut self.states), std::mem::take(&mut self.counters));
        let own = self.name("beside");
        let _ = writeln!(parts.members, "    state {own}: u32 = 3");
        self.states.push(Var { name: own, ty: Ty::U32, mutable: true });
        // Tables that packets do not fill.
        let start: Vec<Table> =
            self.tables.iter().filter(|t| matches!(t.kind, TableKind::Wildcard | TableKind::Lpm)).cloned().collect();
        if !self.tables.is_empty() && (!start.is_empty() || self.rng.chance(50)) {
            let _ = writeln!(parts.front, "every {} {{ // beside", self.pick(&["1ms", "20ms", "3s"]));
            for t in start {
                for _ in 0..2 {
                    let (key, value) = (self.key(t.key, 5), self.expr(t.value, 1));
                    let _ = match t.kind {
                        TableKind::Lpm => {
                            let bits = self.pick(&[8, 24, 30, 32]);
                            writeln!(
                                parts.front,
                                "if len({0}) < 7 {{ {0}.insert(prefix({key}, {bits}), {value}) }}",
                                t.name
                            )
                        }
                        _ => {
                            let (mask, priority) = self.pick(&[(7, 1), (3, 2), (15, 3), (0, 0)]);
                            writeln!(
                                parts.front,
                                "if len({0}) < 7 {{ {0}.insert({key}, u32({mask}), u32({priority}), {value}) }}",
                                t.name
                            )
                        }
                    };
                }
            }
            for _ in 0..3 {
                self.statement(1, &mut parts.front)
            }
            parts.front.push_str("}\n");
            self.vars.clear();
        }
        (self.states, self.counters, self.beside) = (states, counters, false);
    }
}
