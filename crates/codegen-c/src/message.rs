//! Outgoing messages: passed on as their own bytes, edited in wire order, or built.

use crate::body::{BodyGen, Owner};
use crate::names;
use crate::parser::line;
use crate::scope::At;
use wireloom_ir::*;

/// The storage of a view for a message that is read again. A view may be larger than a stack. No
/// other code of the thread runs before the statement is over.
const VIEW: &str = "static _Thread_local ";

impl<'m> BodyGen<'_, 'm> {
    /// Whether a message leaves as the bytes it came in.
    fn untouched(msg: &Outgoing) -> bool {
        matches!(msg, Outgoing::Pass { edits, .. } if edits.is_empty())
    }

    /// Whether a message local is the one that started the handler.
    fn is_request(&self, l: LocalId) -> bool {
        match self.owner {
            Owner::Handler { on: On::Message { .. } | On::Upstream { .. } } => l.0 == 0,
            Owner::Protocol { msg } => l.0 == msg,
            Owner::Handler { .. } | Owner::Frame | Owner::Func { .. } => false,
        }
    }

    /// Whether the program itself has parsed a message.
    fn is_own(&self, l: LocalId) -> bool {
        self.views.iter().any(|(v, _)| *v == l)
    }

    /// Builds a message in `core->out`, unless it goes out as it is.
    pub fn build(&mut self, msg: &'m Outgoing) {
        match msg {
            Outgoing::Nothing => {}
            Outgoing::Built { unit, body } => {
                line!(self, "wl_begin(x); /* {} */", names::comment(&self.g.m.unit(*unit).name));
                self.block(body);
                self.check(true);
            }
            Outgoing::Pass { msg, edits } if !edits.is_empty() => self.edit(*msg, edits),
            Outgoing::Pass { .. } => {}
        }
    }

    /// All bytes of a message that has been built (tests).
    pub fn built_bytes(&self, msg: &Outgoing) -> String {
        match msg {
            Outgoing::Nothing => "wl_b(NULL, 0)".into(),
            Outgoing::Pass { msg, edits } if edits.is_empty() => {
                let name = self.name(*msg);
                format!("wl_b({name}.base, wl_held({name}))")
            }
            Outgoing::Pass { .. } | Outgoing::Built { .. } => "wl_built(x)".into(),
        }
    }

    /// Head bytes and tail of a message that has been built.
    fn parts(&self, msg: &Outgoing) -> (String, String) {
        match msg {
            Outgoing::Nothing => ("wl_b(NULL, 0)".into(), "WL_TAIL_NONE".into()),
            Outgoing::Built { .. } => ("wl_built(x)".into(), "WL_TAIL_NONE".into()),
            Outgoing::Pass { msg, edits } => {
                let name = self.name(*msg);
                let request = self.is_request(*msg);
                if self.is_own(*msg) {
                    let head = if edits.is_empty() {
                        format!("wl_b({name}.base, wl_held({name}))")
                    } else {
                        "wl_built(x)".into()
                    };
                    return (head, "WL_TAIL_NONE".into());
                }
                let tail = if request { "WL_TAIL_REQ" } else { "WL_TAIL_REP" };
                match (edits.is_empty(), request) {
                    (true, true) => (format!("wl_b({name}.base, {name}.head)"), tail.into()),
                    // A reply that is held lies there whole.
                    (true, false) => (
                        format!("wl_b({name}.base, held ? wl_held({name}) : {name}.head)"),
                        format!("held ? WL_TAIL_NONE : {tail}"),
                    ),
                    (false, true) => ("wl_built(x)".into(), tail.into()),
                    (false, false) => ("wl_built(x)".into(), format!("held ? WL_TAIL_NONE : {tail}")),
                }
            }
        }
    }

    /// The message with its edits: a walk from the first byte to the last, `from` being the first
    /// byte not yet copied.
    fn edit(&mut self, msg: LocalId, edits: &'m [Edit]) {
        let name = self.name(msg);
        let from = self.temp("uint32_t");
        line!(self, "wl_begin(x);\n{from} = 0;");
        for e in edits {
            match e {
                Edit::Set { field, cond, body } => {
                    let Some((i, f)) = self.edited(msg, field) else { continue };
                    let x = self.g.extent_of(&i, f);
                    self.guarded(cond.as_ref(), |b| {
                        line!(b, "wl_put(x, wl_b({name}.base + {from}, {x}.o - {from}));\n{from} = {x}.o + {x}.n;");
                        b.block(body);
                    });
                }
                Edit::Remove { list, index, cond } => self.remove(msg, &from, list, *index, cond),
                Edit::Append { list, cond, body } => {
                    let Some((i, f)) = self.edited(msg, list) else { continue };
                    let x = self.g.extent_of(&i, f);
                    self.guarded(cond.as_ref(), |b| {
                        line!(b, "if ({x}.o + {x}.n > {from}) {{ wl_put(x, wl_b({name}.base + {from}, {x}.o + {x}.n - {from})); {from} = {x}.o + {x}.n; }}");
                        b.block(body);
                    });
                }
            }
        }
        let end = self.end_of(msg);
        line!(self, "if ({end} > {from}) wl_put(x, wl_b({name}.base + {from}, {end} - {from}));");
        self.check(true);
    }

    /// Where the part of a message ends that lies at its base.
    pub fn end_of(&self, msg: LocalId) -> String {
        let name = self.name(msg);
        match (self.is_own(msg) || self.rendering, self.is_request(msg)) {
            // Parsed by the program itself, as a whole, or to be kept as a whole.
            (true, _) => format!("wl_held({name})"),
            (false, true) => format!("{name}.head"),
            (false, false) => format!("(held ? wl_held({name}) : {name}.head)"),
        }
    }

    fn guarded(&mut self, cond: Option<&Expr>, f: impl FnOnce(&mut Self)) {
        match cond {
            Some(c) => {
                let text = self.expr(c);
                line!(self, "{{ bool c_ = {text};");
                self.check(c.may_fault());
                line!(self, "if (c_) {{");
                f(self);
                line!(self, "}} }}");
            }
            None => f(self),
        }
    }

    fn edited(&mut self, msg: LocalId, path: &[FieldId]) -> Option<(crate::scope::Inst, FieldId)> {
        let path = Path { root: Root::Local(msg), steps: path.iter().map(|f| Step::Field(*f)).collect() };
        match self.g.resolve(&self.scope, &path) {
            At::Field(i, f) => Some((i, f)),
            At::Unit(_) | At::Item(..) => None,
        }
    }

    /// Leaves out items of a list: each reaches to the next one's start, so its delimiter goes with
    /// it.
    fn remove(&mut self, msg: LocalId, from: &str, list: &[FieldId], index: LocalId, cond: &Expr) {
        let Some((i, f)) = self.edited(msg, list) else { return };
        let name = self.name(msg);
        let (member, x) = (format!("{}.{}", i.at, names::field(self.g.m, i.unit, f)), self.g.extent_of(&i, f));
        let (index, text) = (self.name(index), self.expr(cond));
        line!(self, "for ({index} = 0; {index} < {member}.n; {index}++) {{\nbool c_ = {text};");
        self.check(cond.may_fault());
        line!(self, "if (!c_) continue;");
        line!(self, "uint32_t o_ = {member}.at[{index}].x.o, e_ = {index} + 1 < {member}.n ? {member}.at[{index} + 1].x.o : {x}.o + {x}.n;");
        line!(self, "if (o_ > {from}) wl_put(x, wl_b({name}.base + {from}, o_ - {from}));\n{from} = e_;\n}}");
    }

    /// `asked`: what the protocol says of the request, the arguments of its answer and its clauses.
    pub fn call(&mut self, to: (PortId, &Expr), msg: &'m Outgoing, within: Option<&Expr>, asked: (&[Expr], &[Expr])) {
        let ((port, index), (args, clauses)) = (to, asked);
        let flags = self.flags_of_call();
        self.build(msg);
        let index_text = self.expr(index);
        let timeout = within.map_or_else(|| "0".into(), |e| self.expr(e));
        let ctx = self.ctx(port, args);
        let shares = self.shares(port, args) + &self.judged(msg, clauses);
        let (head, tail) = self.parts(msg);
        let pieces = if self.within { " | WL_C_PIECES" } else { "" };
        line!(self, "{{ uint32_t i_ = (uint32_t)({index_text});\nwl_call c_ = {{.timeout_ns = {timeout}, .ctx = {ctx}, .flags = {flags}{shares}{pieces}}};");
        self.check(
            index.may_fault() || within.is_some_and(Expr::may_fault) || args.iter().chain(clauses).any(Expr::may_fault),
        );
        line!(self, "x->core->host->call(t, {}, i_, {head}, {tail}, &c_); }}", port.0);
    }

    /// The response's parameters, packed, with the bit that marks a response; and behind the one
    /// argument more, values that the answer is compared with.
    fn ctx(&mut self, port: PortId, args: &[Expr]) -> String {
        let m = self.g.m;
        let response = m.ports[port.index()].protocols.first().and_then(|p| m.protocols[p.index()].response);
        let mut text = String::from("WL_CTX_RESPONSE");
        let Some(unit) = response else { return text };
        let unit = m.unit(unit);
        let kept = args.get(unit.params.len() + 1..).unwrap_or_default();
        for (p, a) in unit.params.iter().zip(args).chain(unit.asked.iter().zip(kept)) {
            let value = self.expr(a);
            text.push_str(&format!(" | ((uint64_t)({value}) & UINT64_C({:#x})) << {}", p.mask(), p.shift));
        }
        text
    }

    /// The parameters of a unit, packed; of a response's unit with the bit that marks one.
    pub fn packed(&mut self, unit: UnitId, args: &[Expr]) -> String {
        let m = self.g.m;
        let response = m.protocols.iter().any(|p| p.response == Some(unit));
        let mut text = String::from(if response { "WL_CTX_RESPONSE" } else { "0" });
        for (p, a) in m.unit(unit).params.iter().zip(args) {
            let value = self.expr(a);
            text.push_str(&format!(" | ((uint64_t)({value}) & UINT64_C({:#x})) << {}", p.mask(), p.shift));
        }
        text
    }

    /// The argument behind the response's parameters: whether the request may share a connection.
    fn shares(&mut self, port: PortId, args: &[Expr]) -> String {
        let m = self.g.m;
        let response = m.ports[port.index()].protocols.first().and_then(|p| m.protocols[p.index()].response);
        let Some(shares) = response.and_then(|u| args.get(m.unit(u).params.len())) else { return String::new() };
        let value = self.expr(shares);
        format!(" | (({value}) ? WL_C_PIPELINE : 0)")
    }

    /// Flags of a call: the protocol's clauses about the message that is sent.
    fn judged(&mut self, msg: &Outgoing, clauses: &[Expr]) -> String {
        let mut text = String::from(if clauses.is_empty() { "" } else { " | WL_C_JUDGED" });
        for (e, flag) in clauses.iter().zip(["NO_REPLY", "REPEAT", "PRIVATE", "ENDS"]) {
            let value = self.expr(e);
            if !matches!(*e.kind, ExprKind::Bool(false)) {
                text.push_str(&format!(" | (({value}) ? WL_C_{flag} : 0)"));
            }
        }
        match msg {
            Outgoing::Pass { msg, .. } if self.is_own(*msg) => {
                text.push_str(&format!(" | (wl_until_end({}) ? WL_C_ENDS : 0)", self.name(*msg)))
            }
            Outgoing::Pass { .. } | Outgoing::Built { .. } | Outgoing::Nothing => {}
        }
        text
    }

    pub fn reply(&mut self, msg: &'m Outgoing, close: bool) {
        self.build(msg);
        if let Owner::Protocol { .. } = self.owner {
            match msg {
                Outgoing::Nothing => line!(self, "wl_begin(x); flags |= WL_R_NOTHING;"),
                m if Self::untouched(m) => {
                    let (head, _) = self.parts(m);
                    line!(self, "wl_begin(x); wl_put(x, {head});");
                }
                Outgoing::Pass { .. } | Outgoing::Built { .. } => {}
            }
            if close {
                line!(self, "flags |= WL_R_CLOSE;")
            }
            return;
        }
        let (head, tail) = self.parts(msg);
        let nothing = matches!(msg, Outgoing::Nothing);
        let flags = match (close, nothing) {
            (false, false) => "0",
            (true, false) => "WL_R_CLOSE",
            (false, true) => "WL_R_NOTHING",
            _ => "WL_R_CLOSE | WL_R_NOTHING",
        };
        let pieces = if self.within { " | WL_R_PIECES" } else { "" };
        let ends = match msg {
            Outgoing::Pass { msg, .. } if self.is_own(*msg) => {
                format!(" | (wl_until_end({}) ? WL_R_CLOSE : 0)", self.name(*msg))
            }
            Outgoing::Pass { .. } | Outgoing::Built { .. } | Outgoing::Nothing => String::new(),
        };
        line!(self, "x->core->host->reply(t, {head}, {tail}, {flags}{ends}{pieces});");
    }

    pub fn send(&mut self, port: PortId, index: &Expr, msg: &'m Outgoing) {
        self.build(msg);
        let (text, (head, tail)) = (self.expr(index), self.parts(msg));
        line!(self, "{{ uint32_t i_ = (uint32_t)({text});");
        self.check(index.may_fault());
        line!(self, "x->core->host->send(t, {}, i_, {head}, {tail}); }}", port.0);
    }

    pub fn tell(&mut self, (to, protocol): (Peer, Option<ProtocolId>), msg: &'m Outgoing, place: PlaceId) {
        let proto = self.g.m.spoken(to, protocol).map_or(0, |p| p.0);
        self.build(msg);
        let (head, tail) = self.parts(msg);
        line!(self, "{{ const uint32_t lost_ = x->core->host->tell(t, {}, {proto}, {head}, {tail});", to.number());
        self.unless_lost(place);
    }

    /// `matched`: values that the answer is compared with.
    pub fn ask(
        &mut self,
        (upstream, protocol): (UpstreamId, Option<ProtocolId>),
        msg: &'m Outgoing,
        within: Option<&Expr>,
        matched: &[Expr],
    ) {
        let m = self.g.m;
        let spoken = m.spoken(Peer::Upstream(upstream), protocol);
        let response = spoken.and_then(|p| m.protocols[p.index()].response);
        let flags = self.flags_of_call();
        self.build(msg);
        let timeout = within.map_or_else(|| "0".into(), |e| self.expr(e));
        let mut ctx = String::from("WL_CTX_RESPONSE");
        for (p, a) in response.iter().flat_map(|u| &m.unit(*u).asked).zip(matched) {
            let value = self.expr(a);
            ctx.push_str(&format!(" | ((uint64_t)({value}) & UINT64_C({:#x})) << {}", p.mask(), p.shift));
        }
        let matches = if matched.is_empty() { "" } else { " | WL_C_MATCHES" };
        let (head, tail) = self.parts(msg);
        line!(self, "{{ wl_call c_ = {{.timeout_ns = {timeout}, .ctx = {ctx}, .flags = {flags}{matches}}};");
        self.check(within.is_some_and(Expr::may_fault) || matched.iter().any(Expr::may_fault));
        let proto = spoken.map_or(0, |p| p.0);
        line!(self, "x->core->host->ask(t, {}, {proto}, {head}, {tail}, &c_); }}", upstream.0);
    }

    /// The values that name clients, as the host takes them: a pointer and a number. Opens a block.
    fn handles(&mut self, to: &Expr) -> String {
        let text = self.expr(to);
        let list = matches!(self.g.m.ty(to.ty), Ty::List(..));
        if list && matches!(*to.kind, ExprKind::Local(_)) {
            // A long list is not copied.
            line!(self, "{{");
            return format!("{text}.v, {text}.n");
        }
        let ty = self.g.cty(to.ty);
        line!(self, "{{ const {ty} h_ = {text};");
        self.check(to.may_fault());
        if list { "h_.v, h_.n" } else { "&h_, 1" }.into()
    }

    pub fn deliver(&mut self, (to, protocol): (&Expr, Option<ProtocolId>), msg: &'m Outgoing, place: PlaceId) {
        let proto = self.g.m.spoken(Peer::Client, protocol).map_or(0, |p| p.0);
        self.build(msg);
        let handles = self.handles(to);
        let (head, tail) = self.parts(msg);
        line!(self, "x->core->host->deliver(t, {handles}, {head}, {tail}, {proto}, {}); }}", place.0);
    }

    pub fn dismiss(&mut self, to: &Expr) {
        let handles = self.handles(to);
        line!(self, "x->core->host->dismiss(t, {handles}); }}");
    }

    /// Opens an upstream by a host's function.
    pub fn open(
        &mut self,
        by: &str,
        (upstream, index, place): (UpstreamId, &'m Expr, PlaceId),
        key: Option<Option<&'m Expr>>,
    ) {
        let text = self.expr(index);
        line!(self, "{{ const uint32_t i_ = (uint32_t)({text});");
        self.check(index.may_fault());
        let more = match key {
            None => "",
            Some(None) => ", 0, (wl_bytes){0}",
            Some(Some(key)) => {
                let text = self.expr(key);
                line!(self, "const wl_bytes k_ = {text};");
                self.check(key.may_fault());
                ", 1, k_"
            }
        };
        line!(self, "const uint32_t lost_ = x->core->host->{by}(t, {}, i_{more});", upstream.0);
        self.unless_lost(place);
    }

    /// Ends the handler with the fault by which a host's function has failed, and the block around.
    pub fn unless_lost(&mut self, place: PlaceId) {
        let leave = self.leave_fault();
        line!(self, "if (WL_UNLIKELY(lost_)) {{ wl_fail(x, (uint16_t)lost_, {}); {leave} }} }}", place.0);
    }

    /// Whether it may be added in one go with what is before and behind it. Their sum is never
    /// too large for a number.
    pub fn joins(&self, e: &Emit) -> bool {
        let Emit::Bytes(e) = e else { return constant(e).is_some() };
        matches!(self.g.m.ty(e.ty), Ty::Bytes(max) if *max <= 16 << 20)
    }

    /// Adds several: constants next to each other as one, in room that is made once.
    pub fn emit_run(&mut self, run: &'m [Stmt]) {
        if let Some(first) = run.first() {
            self.origin(first)
        }
        let mut pieces: Vec<Result<Vec<u8>, &Expr>> = Vec::new();
        for s in run {
            let StmtKind::Emit(e) = &s.kind else { continue };
            match (constant(e), pieces.last_mut()) {
                (Some(more), Some(Ok(text))) => text.extend(more),
                (Some(text), _) => pieces.push(Ok(text)),
                (None, _) => {
                    if let Emit::Bytes(e) = e {
                        pieces.push(Err(e))
                    }
                }
            }
        }
        if let [Ok(text)] = pieces.as_slice() {
            line!(self, "wl_put(x, wl_b({}, {}));", names::literal(text), text.len());
            return;
        }
        line!(self, "{{");
        let (mut room, mut adds) = (Vec::new(), String::new());
        for (i, piece) in pieces.iter().enumerate() {
            match piece {
                Ok(text) => {
                    room.push(text.len().to_string());
                    adds.push_str(&format!("d_ = wl_add(d_, wl_b({}, {}));\n", names::literal(text), text.len()));
                }
                Err(e) => {
                    let text = self.expr(e);
                    line!(self, "const wl_bytes b{i}_ = {text};");
                    room.push(format!("b{i}_.n"));
                    adds.push_str(&format!("d_ = wl_add(d_, b{i}_);\n"));
                }
            }
        }
        line!(self, "uint8_t *d_ = wl_room(x, {});\nif (WL_LIKELY(d_ != NULL)) {{\n{adds}}}\n}}", room.join(" + "));
    }

    pub fn emit(&mut self, e: &Emit) {
        match e {
            Emit::Bytes(e) => {
                let text = self.expr(e);
                line!(self, "wl_put(x, {text});");
            }
            Emit::UInt { value, bytes, big } => {
                let text = self.expr(value);
                match bytes {
                    1 => line!(self, "wl_put_u8(x, (uint8_t)({text}));"),
                    _ if matches!(self.g.m.ty(value.ty), Ty::Int(_)) => {
                        line!(self, "wl_put_uint(x, (unsigned __int128)(uint64_t)({text}), {bytes}, {big});")
                    }
                    _ => line!(self, "wl_put_uint(x, {text}, {bytes}, {big});"),
                }
            }
            Emit::Number { value, radix, width } => {
                let text = self.expr(value);
                if matches!(self.g.m.ty(value.ty), Ty::Int(_)) {
                    line!(self, "wl_put_signed(x, {text}, {radix}, {width});");
                } else {
                    line!(self, "wl_put_number(x, {text}, {radix}, {width});");
                }
            }
            Emit::Items { unit, bytes, count, max } => {
                let (text, count, u) = (self.expr(bytes), self.expr(count), names::unit(self.g.m, *unit));
                line!(self, "{{ {VIEW}{u}_view v_;\nwl_put_items(x, {u}_parse, &v_.p, {text}, {count}, {max}u); }}");
                self.check(true);
            }
            Emit::InOrder { unit, count, max } => {
                let (count, u) = (self.expr(count), names::unit(self.g.m, *unit));
                line!(self, "{{ {VIEW}{u}_view v_;\nwl_put_in_order(x, t, {u}_parse, &v_.p, {count}, {max}u); }}");
                self.check(true);
            }
            Emit::Mark(l) => {
                let name = self.name(*l);
                line!(self, "{name} = wl_built(x).n;");
            }
            Emit::Whole { unit, args, from, max, place } => {
                let (u, from, ctx) = (names::unit(self.g.m, *unit), self.expr(from), self.packed(*unit, args));
                let place = place.0;
                line!(self, "{{ {VIEW}{u}_view v_;\nv_.p.ctx = {ctx};\nwl_read_whole(x, {u}_parse, {u}_tail, &v_.p, {from}, {max}u, {place}); }}");
                self.check(true);
            }
            Emit::Begins { not, with, from, place } => {
                let texts: Vec<String> = with.iter().map(|e| self.expr(e)).collect();
                let (from, n, texts) = (self.expr(from), texts.len(), texts.join(", "));
                let place = place.0;
                line!(self, "wl_check_beginning(x, {from}, (const wl_bytes[]){{{texts}}}, {n}u, {not}, {place});");
                self.check(true);
            }
            Emit::Varint(value) => {
                let text = self.expr(value);
                line!(self, "wl_put_varint(x, {text});");
            }
        }
    }
}

/// The bytes of what is the same each time.
#[allow(clippy::wildcard_enum_match_arm, reason = "a few kinds of many are looked for")]
fn constant(e: &Emit) -> Option<Vec<u8>> {
    match e {
        Emit::Bytes(e) => match &*e.kind {
            ExprKind::Bytes(b) => Some(b.clone()),
            _ => None,
        },
        Emit::Number { value, radix: 10, width } => match *value.kind {
            ExprKind::Int(n) if n <= u128::from(u32::MAX >> 1) => {
                Some(format!("{n:0width$}", width = usize::from(*width)).into_bytes())
            }
            _ => None,
        },
        Emit::UInt { .. }
        | Emit::Number { .. }
        | Emit::Varint(_)
        | Emit::Items { .. }
        | Emit::InOrder { .. }
        | Emit::Mark(_)
        | Emit::Whole { .. }
        | Emit::Begins { .. } => None,
    }
}
