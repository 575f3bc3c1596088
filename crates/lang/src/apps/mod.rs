//! Apps: parameters, ports, state, tables, handlers, wiring and tests of one program.

pub mod arrays;
mod cache_ways;
pub mod caches;
pub mod channels;
pub mod controls;
pub mod conversations;
pub mod core_partition;
mod core_tables;
pub mod declarations;
pub mod devices;
pub mod element_check;
pub mod elements;
pub mod frame_tests;
pub mod frames;
pub mod gauges;
pub mod handlers;
mod in_c;
pub mod inputs;
pub mod instances;
mod join_inputs;
pub mod join_notes;
mod kept_numbers;
mod link;
mod merge_nodes;
pub mod message_queues;
pub mod nodes;
mod packet_caches;
mod packet_fields;
pub mod pieces;
pub mod ports;
pub mod queues;
pub mod scope;
pub mod segments;
pub mod signals;
pub mod tables;
pub mod test_names;
pub mod tests;
pub mod type_params;
mod value_texts;
pub mod wire_ends;
pub mod wiring;
pub mod write_back;

use crate::compiler::{Compiler, Reported, R};
use crate::items::FnInfo;
use crate::names::ModId;
use crate::ty::Ty;
use crate::val::Vk;
use scope::AppName;
use std::rc::Rc;
use wireloom_ir as ir;
use wireloom_syntax::ast::{self, Ident, MemberKind, Span};
use wireloom_syntax::Diagnostic;

/// The most memory of a table's keys and values: more than machines have.
const TABLE_MAX: u64 = 1 << 40;
/// Most bytes of the sessions of a connection together.
const SESSIONS_MAX: u64 = 1 << 30;
/// The most entries of a table's cache.
const CACHE_MAX: u64 = 16 << 20;

/// The most nodes of one wiring.
pub const MOST_NODES: usize = 256;

impl Compiler<'_> {
    pub fn app_item(&mut self, module: ModId, app: &ast::Element) {
        self.m.app = app.name.name.clone();
        self.app_ast = Some(std::rc::Rc::new(app.clone()));
        self.no_controls(app);
        let errors = self.errors();
        if let Some((n, _)) = app.types.first() {
            self.error("E0613", n.span, "an app has no type parameters");
        }
        let mut fns = Vec::new();
        for m in &app.members {
            let made = self.declare(module, m, &mut fns);
            self.settle(made, m.span);
        }
        for m in &app.members {
            if let MemberKind::Upstream { name, port } = &m.kind {
                self.declare_upstream(module, name, port);
            }
        }
        self.check_handle_ports();
        self.note_segments(module, app);
        for m in &app.members {
            if let MemberKind::State { name, ty: _, init: Some(e) } = &m.kind {
                let made = self.state_init(module, name, e);
                self.settle(made, name.span);
            }
        }
        self.chains(&app.members);
        self.message_handlers(&app.members);
        self.write_back_handlers(&app.members);
        for f in fns {
            let made = self.function(&f, f.ast.name.span);
            self.settle(made, f.ast.name.span);
        }
        // Whether pieces are changed decides how their messages are passed on.
        let (pieces, others): (Vec<_>, Vec<_>) = app.members.iter().partition(|m| is_of_pieces(m));
        for m in pieces.into_iter().chain(others) {
            let before = self.m.handlers.len();
            let made = self.define(module, app, m);
            self.settle(made, m.span);
            self.in_segment(before, m.span);
        }
        if self.errors() == errors {
            self.unused_options(app);
        }
        self.instance_handlers(module, &app.members);
        self.writers_back(module);
        self.behind_handlers(&app.name.name);
        self.protocols_probes();
        self.protocols_resets();
        self.unhandled_queues();
        self.signals(module, app);
        self.behind_handlers(&app.name.name);
        self.unused_given(module);
        self.check_graph();
        self.unwritten_fields();
        let made = self.instances_on_devices(module, app);
        self.settle(made, app.name.span);
        self.endless_queues();
        self.table_signals();
        self.unhandled(module);
        self.unhandled_upstreams(module);
        self.unopened_upstreams();
        self.asks_that_wait_for_themselves();
        self.unneeded_clauses();
        self.check_holds();
        self.kept_numbers();
        self.check_caches();
        self.place_segments();
        self.core_partition();
        self.core_tables();
        self.merge_nodes();
        self.full_for_ever();
    }

    pub fn add(&mut self, name: &Ident, what: AppName) {
        if let Some((_, first)) = self.app.names.get(&name.name) {
            let first = *first;
            let d = Diagnostic::error("E0203", name.span, format!("`{}` is defined twice", name.name))
                .label("defined again here")
                .also(first, "first defined here");
            self.report(d);
            return;
        }
        Rc::make_mut(&mut self.app.names).insert(name.name.clone(), (what, name.span));
    }

    /// Declarations first, so that handlers see all names.
    pub fn declare(&mut self, module: ModId, m: &ast::Member, fns: &mut Vec<Rc<FnInfo>>) -> R<()> {
        let (name, made) = match &m.kind {
            MemberKind::Param(p) => (&p.name, self.param(module, p, &m.doc)),
            MemberKind::Port(p) => (&p.name, self.port(module, p)),
            MemberKind::State { name, ty, .. } => (name, self.state(module, name, ty)),
            MemberKind::PacketState(fields) => return self.packet_fields(module, fields),
            MemberKind::Link { word, options } => return self.link(module, *word, options),
            MemberKind::Session { name, ty, of_request } => (name, self.session(module, name, ty, *of_request)),
            MemberKind::Counter(name) => {
                self.m.counters.push(ir::Counter { name: name.name.clone(), doc: m.doc.clone() });
                (name, Ok(AppName::Counter(ir::CounterId(self.m.counters.len() as u32 - 1))))
            }
            MemberKind::Table(t) => (&t.name, self.table(module, t).map(AppName::Table)),
            MemberKind::Queue(q) => (&q.name, self.queue(module, q)),
            MemberKind::Gauge(g) => (&g.name, self.gauge(module, g)),
            MemberKind::Cache(c) => (&c.name, self.cache(module, c)),
            MemberKind::Const { name, ty, value } => {
                (name, self.const_item(module, ty.as_ref(), value).map(AppName::Const))
            }
            MemberKind::Fn(f) => {
                let info = self.fn_info(module, f, true);
                if let Ok(i) = &info {
                    fns.push(i.clone());
                }
                (&f.name, info.map(AppName::Fn))
            }
            MemberKind::Instance { name, element, args, .. } => (name, self.instance(module, name, element, args)),
            MemberKind::In { name, .. } | MemberKind::Out { name, .. } => {
                let d = Diagnostic::error(
                    "E0613",
                    name.span,
                    "an app has no `in` and `out`: its ports are bound to the world",
                )
                .hint("write `port name = listen tcp(…) as protocol`");
                return Err(self.report(d));
            }
            // When all ports are known.
            MemberKind::Upstream { .. } => return Ok(()),
            MemberKind::Handler(_) | MemberKind::Signal { .. } | MemberKind::Wiring(_) | MemberKind::Segment { .. } => {
                return Ok(())
            }
        };
        let name = name.clone();
        match made {
            Ok(what) => {
                self.add(&name, what);
                Ok(())
            }
            Err(r) => {
                self.add(&name, AppName::Failed);
                Err(r)
            }
        }
    }

    #[allow(clippy::wildcard_enum_match_arm, reason = "a few kinds of many are looked for")]
    fn define(&mut self, module: ModId, app: &ast::Element, m: &ast::Member) -> R<()> {
        match &m.kind {
            _ if self.channel_queue(m).is_some() => match self.channel_queue(m) {
                Some(queue) => self.channel_handlers(module, app, queue),
                None => Ok(()),
            },
            MemberKind::Handler(h) => {
                let before = self.m.handlers.len();
                let done = self.handler(module, &app.name.name, h, m.span);
                if let Some(device) = &h.device {
                    self.on_device(device, before)?
                }
                done
            }
            MemberKind::Wiring(nodes) => {
                let nodes = self.named_nodes(nodes);
                self.wiring(module, &app.name.name, &nodes, m.span)
            }
            _ => Ok(()),
        }
    }

    /// `cnt -> out`: what follows an instance, however messages reach it.
    #[allow(clippy::wildcard_enum_match_arm, reason = "a few kinds of many are looked for")]
    fn chain(&mut self, m: &ast::Member) {
        let MemberKind::Wiring(nodes) = &m.kind else { return };
        let nodes = self.named_nodes(nodes);
        if nodes.len() > MOST_NODES {
            let d = Diagnostic::error("E0508", m.span, format!("a wiring of {} nodes is too long", nodes.len()));
            self.report(d.note(format!("the limit is {MOST_NODES}")).hint("put a part of it into an element"));
            return;
        }
        self.note_behind(&nodes, &[]);
        let Some((ast::Node { kind: ast::NodeKind::Expr(e), .. }, rest)) = nodes.split_first() else { return };
        let Some((n, out, index)) = arrays::instance_at(e) else { return };
        let i = match self.app.get(&n.name).cloned() {
            Some(AppName::Instance(i)) => i,
            // In a compound element: from one of its ways in.
            None if out.is_none() => {
                // A second one has been told of where the element was read.
                let whole = n.name.clone() + &arrays::place_name(index);
                Rc::make_mut(&mut self.app.chains).entry(whole).or_insert_with(|| rest.to_vec());
                return;
            }
            Some(AppName::Port(p)) if out.is_none() && index.is_none() && self.is_queue(p) => {
                self.chained(n.name.clone(), rest, e.span, "this queue");
                return;
            }
            Some(AppName::Messages(_)) if out.is_none() && index.is_none() => {
                self.chained(n.name.clone(), rest, e.span, "this queue");
                return;
            }
            _ => return,
        };
        let at = match index {
            None => String::new(),
            Some(i) => match &*i.kind {
                ast::ExprKind::Int(i) => format!("[{i}]"),
                _ => {
                    self.error("E0306", i.span, "the index of a wired output must be a constant");
                    return;
                }
            },
        };
        let Ok(out) = self.way_out(&i, n, out, index, e.span) else { return };
        if let Some(first) = rest.first() {
            self.ways_apart.push((n.name.clone(), first.span, e.span));
        }
        self.chained(format!("{}.{out}{at}", n.name), rest, e.span, "this way out");
    }

    /// The wirings that begin at instances, in an app or an element.
    pub fn chains(&mut self, members: &[ast::Member]) {
        for m in members {
            self.chain(m);
        }
        // Beside one that goes on behind its instance it may get nothing.
        for (name, first, at) in std::mem::take(&mut self.ways_apart) {
            if self.app.behind.contains_key(&name) {
                self.ways_in_doubt.push((first, at));
            }
        }
    }

    /// A wiring from an instance that no packet takes, since all go on in the wirings that lead to
    /// it.
    fn unused_ways(&mut self) {
        if self.errors() > 0 {
            return;
        }
        for (first, at) in std::mem::take(&mut self.ways_in_doubt) {
            if !self.ways_taken.contains(&first) {
                let d = Diagnostic::error("E0203", at, "this way out is wired already")
                    .label("nothing comes here")
                    .note("each wiring that leads to it goes on behind it, `a -> e -> b`");
                self.once(d.hint("to send to both, wire it once: `a -> e  e -> broadcast [b, c]`"));
            }
        }
    }

    fn chained(&mut self, key: String, rest: &[ast::Node], span: Span, what: &str) {
        if Rc::make_mut(&mut self.app.chains).insert(key, rest.to_vec()).is_some() {
            let d = Diagnostic::error("E0203", span, format!("{what} is wired already"));
            self.once(d.hint("send to both in an element's handler"));
        }
    }

    /// The name of the way out that a wiring begins at, which the instance has: `t.y[1]`. Of a
    /// single one it may be left out.
    #[allow(clippy::wildcard_enum_match_arm, reason = "a few kinds of many are looked for")]
    fn way_out(
        &mut self,
        i: &std::rc::Rc<scope::Instance>,
        n: &Ident,
        out: Option<&Ident>,
        index: Option<&ast::Expr>,
        span: Span,
    ) -> R<String> {
        let outs: Vec<&str> = i
            .element
            .members
            .iter()
            .filter_map(|m| match &m.kind {
                MemberKind::Out { name, .. } => Some(name.name.as_str()),
                _ => None,
            })
            .collect();
        let element = &i.element.name.name;
        let name = match (out, outs.as_slice()) {
            (Some(o), _) if outs.contains(&o.name.as_str()) => o.name.as_str(),
            (Some(o), _) => {
                let d =
                    Diagnostic::error("E0201", o.span, format!("`{element}` has no `out` of the name `{}`", o.name));
                let d = if outs.is_empty() { d } else { d.note(format!("it has: {}", outs.join(", "))) };
                return Err(
                    self.report(crate::names::with_hint(d, crate::names::suggest(&o.name, outs.iter().copied())))
                );
            }
            (None, [one]) => one,
            (None, []) => {
                return Err(self.report(
                    Diagnostic::error("E0629", span, format!("`{}` has no output", n.name))
                        .hint("it is the end of a wiring"),
                ))
            }
            (None, all) => {
                let each = all.iter().map(|o| format!("`{}.{o} -> …`", n.name)).collect::<Vec<_>>().join(", ");
                return Err(self.report(
                    Diagnostic::error("E0629", span, format!("`{}` has {} outputs", n.name, all.len()))
                        .hint(format!("wire each: {each}")),
                ));
            }
        };
        let count =
            self.array_sizes(i, wire_ends::Direction::Out)?.into_iter().find(|(o, _)| o == name).map(|(_, c)| c);
        let whole = out.map_or(n.name.clone(), |o| format!("{}.{}", n.name, o.name));
        let d = match (index.map(|i| &*i.kind), count) {
            (None, Some(c)) => Diagnostic::error("E0629", span, format!("`{whole}` has {c} outputs"))
                .hint(format!("wire each: `{whole}[0] -> …`")),
            (Some(_), None) => Diagnostic::error("E0629", span, format!("`{whole}` is one output, no array")),
            (Some(ast::ExprKind::Int(at)), Some(c)) if *at >= u128::from(c) => {
                Diagnostic::error("E0304", span, format!("`{whole}` has {c} outputs, counted from 0"))
            }
            _ => return Ok(name.to_string()),
        };
        Err(self.report(d))
    }

    /// Notes what follows instances in the middle of a wiring; `after`: what follows the nodes.
    fn note_behind(&mut self, nodes: &[ast::Node], after: &[ast::Node]) {
        for (n, node) in nodes.iter().enumerate() {
            let rest = || nodes[n + 1..].iter().chain(after).cloned().collect::<Vec<_>>();
            match &node.kind {
                ast::NodeKind::Match(ways) => {
                    let rest = rest();
                    for (_, way) in ways {
                        self.note_behind(way, &rest);
                    }
                }
                ast::NodeKind::Expr(e) if n > 0 || !after.is_empty() => {
                    let Some((name, ..)) = arrays::instance_at(e) else { continue };
                    if n + 1 == nodes.len() && after.is_empty()
                        || !matches!(self.app.get(&name.name), Some(AppName::Instance(_)))
                    {
                        continue;
                    }
                    let rest = rest();
                    Rc::make_mut(&mut self.app.behind).entry(name.name.clone()).or_default().push(rest);
                }
                ast::NodeKind::Expr(_) | ast::NodeKind::Word { .. } | ast::NodeKind::Merge { .. } => {}
            }
        }
    }

    pub fn storable(&mut self, module: ModId, ty: &Ty, span: Span) -> R<()> {
        if ty.is_plain() && !self.has_kept(ty) {
            return Ok(());
        }
        if matches!(ty, Ty::Msg(_)) {
            let s = self.show(ty);
            let d = Diagnostic::error("E0309", span, format!("{s} cannot be stored here"));
            let unit = self.written(module, &s);
            return Err(self.report(d.hint(format!("messages are kept in tables: `table t: K -> {unit} {{ … }}`"))));
        }
        self.storable_in_table(ty, span)?;
        let d = Diagnostic::error("E0309", span, format!("{} has a message in it", self.show(ty)));
        Err(self.report(d.label("not here").hint("messages are kept as values of tables, or in records there")))
    }

    /// Values of tables may have messages in them.
    fn storable_in_table(&mut self, ty: &Ty, span: Span) -> R<()> {
        if ty.is_plain() {
            return Ok(());
        }
        let s = self.show(ty);
        Err(self.report(
            Diagnostic::error("E0309", span, format!("{s} cannot be stored"))
                .hint("messages live in their handler; store the data you need"),
        ))
    }

    fn within_memory(&mut self, word: &str, all: u64, limit: u64, name: &Ident) -> R<u64> {
        if all <= limit {
            return Ok(all);
        }
        let d = Diagnostic::error("E0712", name.span, format!("`{}` takes more memory than a `{word}` may", name.name))
            .note(format!("{all} bytes with each `{word}` before it; the limit is {limit}"));
        Err(self.report(d.hint("hold less: shorter lists and bytes, or a table")))
    }

    fn state(&mut self, module: ModId, name: &Ident, ty: &ast::Type) -> R<AppName> {
        let t = self.ty(module, ty)?;
        self.storable(module, &t, ty.span)?;
        let lowered = self.lower_ty(&t);
        let all = self.state_bytes.saturating_add(ir::layout::size(&self.m, lowered));
        self.state_bytes = self.within_memory("state", all, TABLE_MAX, name)?;
        self.m.states.push(ir::State { name: name.name.clone(), ty: lowered, init: None, memory: false });
        Ok(AppName::State(ir::StateId(self.m.states.len() as u32 - 1), t))
    }

    pub fn state_init(&mut self, module: ModId, name: &Ident, e: &ast::Expr) -> R<()> {
        let Some(AppName::State(id, t)) = self.app.get(&name.name).cloned() else { return Err(Reported) };
        let v = self.constant(module, e, Some(&t))?;
        if let Vk::Pure(x) = v.kind {
            self.m.states[id.index()].init = Some(x);
        }
        Ok(())
    }

    fn session(&mut self, module: ModId, name: &Ident, ty: &ast::Type, of_request: bool) -> R<AppName> {
        let (id, t) = self.session_of(module, name, ty)?;
        if of_request {
            self.m.sessions[id.index()].of_request = true;
            self.of_requests.push((id, t.clone()));
        }
        Ok(AppName::Session(id, t))
    }

    pub fn session_of(&mut self, module: ModId, name: &Ident, ty: &ast::Type) -> R<(ir::SessionId, Ty)> {
        let t = self.ty(module, ty)?;
        self.storable(module, &t, ty.span)?;
        let lowered = self.lower_ty(&t);
        let all = self.session_bytes.saturating_add(ir::layout::size(&self.m, lowered));
        self.session_bytes = self.within_memory("session", all, SESSIONS_MAX, name)?;
        self.m.sessions.push(ir::Session { name: name.name.clone(), ty: lowered, of_request: false });
        Ok((ir::SessionId(self.m.sessions.len() as u32 - 1), t))
    }

    /// A table's declaration, in an app or outside.
    pub fn table(&mut self, module: ModId, t: &ast::Table) -> R<ir::TableId> {
        let (key, value) = (self.ty(module, &t.key), self.ty(module, &t.value));
        let (key, value) = (key?, self.kept(value?));
        self.storable(module, &key, t.key.span)?;
        self.storable_in_table(&value, t.value.span)?;
        let (k, v) = (self.lower_ty(&key), self.lower_ty(&value));
        if ir::layout::bytes_in(&self.m, k) > 64 << 10 {
            return Err(self.report(
                Diagnostic::error("E0703", t.key.span, "a table's key is at most 64KiB long")
                    .hint("use a hash of it as the key"),
            ));
        }
        if t.global {
            self.error("E0609", t.name.span, "`global table` is not compiled yet: leave out `global`");
        }
        let span = self.span(t.name.span);
        let kind = self.table_kind(t, &key, &value)?;
        let mut table = ir::Table::new(t.name.name.clone(), span, kind, k, v);
        self.options_once(t.options.iter().map(|(n, _)| n));
        for (name, e) in &t.options {
            let made = self.table_option(module, &mut table, name, e.as_ref());
            self.settle(made, name.span);
            if kind != ir::TableKind::Exact
                && matches!(name.name.as_str(), "idle" | "expire" | "evict" | "lru" | "memory")
            {
                let text = format!("`{}` is for exact tables", name.name);
                self.report(Diagnostic::error("E0641", name.span, text).label("it would have no effect here"));
            }
        }
        self.core_entries(&mut table, &t.options);
        if kind == ir::TableKind::HyperLogLog {
            if let Some((n, _)) = t.options.first() {
                return Err(self.error("E0641", n.span, "a HyperLogLog has one size and no options"));
            }
            table.capacity = ir::HLL_REGISTERS;
        }
        // One that was given and refused has been told of.
        if table.capacity == 0 && !t.options.iter().any(|(n, _)| n.name == "capacity") {
            let d = Diagnostic::error("E0704", t.name.span, format!("table `{}` has no capacity", t.name.name))
                .label("how many entries?")
                .hint("write `{ capacity 100K }`");
            return Err(self.report(d));
        }
        self.within_table(&table, t.name.span)?;
        self.m.tables.push(table);
        self.tables.push(crate::items::TableTy { key, value });
        Ok(ir::TableId(self.m.tables.len() as u32 - 1))
    }

    /// A table with `memory` keeps a part of each entry in place, and the rest there.
    fn within_table(&mut self, table: &ir::Table, span: Span) -> R<()> {
        let size = |ty| ir::layout::size(&self.m, ty);
        let show = |n| if n == u64::MAX { "more than 16 EiB".to_string() } else { ir::explain::bytes(n) };
        let (entry, more) = match ir::packed_keys::entry_blocks(&self.m, table) {
            Some(blocks) => (blocks.inline, table.memory),
            None => (size(table.key).saturating_add(size(table.value)), 0),
        };
        let whole = entry.saturating_mul(table.capacity).saturating_add(more);
        if whole <= TABLE_MAX {
            return Ok(());
        }
        let parts = format!("{} entries of {} each", table.capacity, show(entry));
        let (with, hint) = match more {
            0 => (String::new(), "hold fewer entries, or shorter keys and values: a table's memory is for the largest"),
            more => (format!(", and {} for long ones", show(more)), "hold fewer entries, or less `memory`"),
        };
        let d = Diagnostic::error("E0706", span, format!("table `{}` takes {} of memory", table.name, show(whole)))
            .label("larger than a table may be")
            .note(format!("{parts}{with}; the limit is {}", show(TABLE_MAX)));
        Err(self.report(d.hint(hint)))
    }

    pub fn table_option(&mut self, module: ModId, t: &mut ir::Table, name: &Ident, e: Option<&ast::Expr>) -> R<()> {
        let known = ["capacity", "idle", "expire", "evict", "reject", "memory", "cache", "lru", "per_core"];
        match (name.name.as_str(), e) {
            ("capacity", Some(e)) => {
                let n = self.number_in_app(module, e)?;
                if n == 0 || n > 1 << 32 {
                    return Err(self.error("E0714", e.span, "a table holds 1 to 4G entries"));
                }
                t.capacity = n;
                Ok(())
            }
            (word @ ("idle" | "expire"), Some(e)) => {
                t.idle = self.const_duration(module, e)?;
                t.from_write = word == "expire";
                if t.idle < ir::LEAST_IDLE {
                    let least = ir::explain::duration(ir::LEAST_IDLE);
                    let what =
                        if t.from_write { "the time after which entries expire" } else { "the idle time of a table" };
                    let text = format!("{what} is at least {least}");
                    return Err(self.error("E0304", e.span, text));
                }
                Ok(())
            }
            ("cache", Some(e)) => {
                t.cache = self.number_in_app(module, e)?;
                if t.cache == 0 || t.cache > CACHE_MAX {
                    return Err(self.error("E0714", e.span, "a cache holds 1 to 16M entries"));
                }
                if t.kind != ir::TableKind::Exact {
                    return Err(self.error("E0641", name.span, "only exact tables have a cache"));
                }
                Ok(())
            }
            ("memory", Some(e)) => {
                t.memory = self.const_u64(module, e)?;
                Ok(())
            }
            ("evict", Some(ast::Expr { kind, .. })) if matches!(&**kind, ast::ExprKind::Name(n) if n.name == "lru") => {
                t.evict_lru = true;
                Ok(())
            }
            ("evict", None) | ("lru", None) => {
                t.evict_lru = true;
                Ok(())
            }
            ("per_core", None) => {
                t.per_core = true;
                Ok(())
            }
            ("reject", None) => {
                t.evict_lru = false;
                Ok(())
            }
            _ => {
                let hint = crate::names::suggest(&name.name, known.into_iter()).map(|h| {
                    if h == "evict" {
                        "evict lru".into()
                    } else {
                        h
                    }
                });
                let d = Diagnostic::error(
                    "E0614",
                    name.span,
                    format!("a table has no option `{}` of this form", name.name),
                )
                .note("options: `capacity N`, `idle D`, `expire D`, `evict lru`, `reject`, `memory B`, `cache N`, `per_core`");
                Err(self.report(crate::names::with_hint(d, hint)))
            }
        }
    }
}

fn is_of_pieces(m: &ast::Member) -> bool {
    matches!(&m.kind, MemberKind::Handler(h) if matches!(h.on, ast::On::Body { .. }))
}
