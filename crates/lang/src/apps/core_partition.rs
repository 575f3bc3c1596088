//! Reports the conflicts of the core partition: parts of an app that cannot be divided between the
//! cores of packets and those of connections.

use crate::compiler::Compiler;
use ir::core_partition::{self, PartitionConflict, Resource};
use wireloom_ir as ir;
use wireloom_syntax::ast::{self, Span};
use wireloom_syntax::Diagnostic;

impl Compiler<'_> {
    pub fn core_partition(&mut self) {
        for c in core_partition::of(&self.m).map_or(Vec::new(), |h| h.conflicts) {
            let d = match c {
                PartitionConflict::Ports { handler } => {
                    Diagnostic::error("E0624", self.at(handler), "one handler uses frame ports and connections")
                        .label("packets and connections have cores of their own")
                        .hint("put the values for the other side into a table: `every 1ms { … }` there takes them out")
                }
                PartitionConflict::Resource { thing, packets, services } => {
                    let (what, name, hint) = self.thing(thing);
                    let text = format!(
                        "{what} `{name}` is used for packets and for connections, which have cores of their own"
                    );
                    Diagnostic::error("E0624", self.at(services), text)
                        .label("each core has its own")
                        .also(self.at(packets), "used for packets here")
                        .hint(hint)
                }
            };
            self.report(d);
        }
    }

    pub fn at(&self, handler: usize) -> Span {
        let s = self.m.handlers[handler].span;
        Span { file: ast::FileId(s.file), start: s.start, end: s.end }
    }

    pub fn thing(&self, thing: Resource) -> (&'static str, String, String) {
        match thing {
            Resource::State(s) => {
                let name = self.m.states[s.index()].name.clone();
                let hint =
                    format!("keep it in a table, which both use: `table {name}: array u8 -> … {{ capacity 1 }}`");
                ("state", name, hint)
            }
            Resource::Counter(c) => {
                let name = self.m.counters[c.index()].name.clone();
                let hint = "handlers of packets may read only counters of packets: use two counters, and add them in a handler of connections".to_string();
                ("counter", name, hint)
            }
            Resource::Queue(q) => ("queue", self.m.ports[q.index()].name.clone(), String::new()),
            Resource::Table(t) => {
                let t = &self.m.tables[t.index()];
                let hint = if t.kind == ir::TableKind::Ring {
                    "a ring belongs to one core: use an exact table"
                } else {
                    "each core has a copy: fill it from outside (`--load`, `wireloom table`), or change it by a signal, which runs on all cores"
                };
                ("table", t.name.clone(), hint.to_string())
            }
        }
    }
}
