//! Frames of the usual shapes: the shortest ways to the headers that the program asks for, without
//! options.
//!
//! In: a frame unit, and which header may follow which. Out: the body of `NAME_fast`, and that of
//! `NAME_most`, which knows one way only: to the headers that most frames have (IPv4, and TCP or
//! UDP), so that behind it all places are constants. All places in such a frame are constants, and
//! much of it has to have one value: what says which header follows, versions, lengths of headers.
//! The bits of a header that are known in this way are compared at once, a word at a time; whether
//! its bytes are there at all is tested before, once. Whatever else it meets, `NAME_fast` leaves to
//! `NAME_parse`. `NAME_known` is that of most frames where nothing is tested any more.

use crate::expr::{may_fault, Inst, Scope};
use crate::gen::Gen;
use crate::names;
use crate::parse_packet::{layer_scope, Chain, Miss, Next};
use crate::types::int_of;
use std::collections::{BTreeMap, BTreeSet};
use wireloom_ir::frame::{exclusive, field_size, fixed_offset};
use wireloom_ir::*;

/// Most headers that are looked at, over all ways.
const USUAL_MAX: usize = 8;

/// By place in the frame: bits of a byte, and what they are.
pub(crate) type Bits = BTreeMap<u32, (u8, u8)>;

/// Values of a header's fields.
pub(crate) type Known = BTreeMap<FieldId, u64>;

/// Steps from header to header.
type Steps = BTreeSet<(Option<u32>, u32)>;

/// What a frame must have for a header to be there.
struct HeaderGuards<'m> {
    /// Bytes of the header, without what varies.
    least: u32,
    bits: Bits,
    /// Conditions that no bits stand for.
    rest: Vec<&'m Expr>,
    /// Statements that leave if a rule is broken; they may make `size` larger.
    rules: String,
    /// How far the header says that it and its payload go, from its first byte.
    covers: Option<String>,
}

/// The shape that most frames have, as `NAME_most` knows it: header behind header.
pub(crate) struct HeaderStack {
    /// Bytes that such a frame has at least, and 16.
    pub least: u32,
    /// Each header, or several of which one is there; only the last are several.
    pub stages: Vec<Vec<Stage>>,
}

/// A header of such a frame.
pub(crate) struct Stage {
    pub layer: u32,
    pub unit: UnitId,
    /// Where it begins.
    pub at: u32,
    /// Its bytes, without what varies.
    pub least: u32,
    /// What must be there, at its own fields or at those of the header before it.
    pub bits: Bits,
    /// Fields whose values these bits say.
    pub known: Known,
}

/// How far a way has come.
#[derive(Clone, Copy)]
struct HeaderPath {
    /// The last header and where it begins.
    from: Option<(u32, u32)>,
    /// Where it ends.
    at: u32,
    /// What has been tested of the frame's size.
    size: Size,
    /// It is the way of most frames, the only one to be looked for.
    most: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Size {
    /// Nothing.
    Open,
    /// That the last header is there; `v->end` is the frame's end.
    Whole,
    /// A header has said where its payload ends, which is `v->end`.
    Ends,
}

impl<'m> Gen<'m> {
    /// Steps from the frame's beginning to each layer.
    fn depths(&self, chain: &Chain) -> BTreeMap<u32, u32> {
        let (mut depth, mut front) = (BTreeMap::new(), vec![None]);
        for d in 0.. {
            let next: Vec<u32> = front
                .iter()
                .flat_map(|k| chain.get(k).into_iter().flatten())
                .map(|x| x.layer)
                .filter(|n| !depth.contains_key(n))
                .collect();
            if next.is_empty() {
                break;
            }
            for n in &next {
                depth.entry(*n).or_insert(d);
            }
            front = next.into_iter().map(Some).collect();
        }
        depth
    }

    /// Which headers usually follow which: steps of the shortest ways to what is asked for, those
    /// first that many headers lead to.
    fn usual_steps(&self, u: UnitId, chain: &Chain) -> BTreeSet<(Option<u32>, u32)> {
        let (layers, depth) = (self.all_layers(u), self.depths(chain));
        let asked = self.frames.asked.get(&u.0).cloned().unwrap_or_default();
        let level = |k: Option<u32>| k.map_or(0, |k| depth.get(&k).map_or(u32::MAX, |d| d + 1));
        let nearer = |k: Option<u32>, n: u32| depth.get(&n).is_some_and(|d| *d == level(k));
        // Carriers: on a shortest way to a layer that is asked for, the first such way.
        let mut wanted = asked.clone();
        for n in &asked {
            let mut n = *n;
            while let Some(k) = layers[n as usize].after.iter().filter(|a| nearer(a.layer, n)).find_map(|a| a.layer) {
                if !wanted.insert(k) {
                    break;
                }
                n = k;
            }
        }
        let mut steps: Vec<_> = chain
            .iter()
            .flat_map(|(k, list)| list.iter().map(|x| (*k, x.layer)))
            .filter(|(k, n)| nearer(*k, *n) && wanted.contains(n) && k.is_none_or(|k| wanted.contains(&k)))
            .collect();
        steps.sort_by_key(|(k, n)| (level(*k), std::cmp::Reverse(layers[*n as usize].after.len()), *n));
        let mut taken = BTreeSet::new();
        for (k, n) in steps {
            if taken.len() < USUAL_MAX && k.is_none_or(|k| taken.iter().any(|(_, n)| *n == k)) {
                taken.insert((k, n));
            }
        }
        taken
    }

    /// The bodies of `NAME_fast` and of `NAME_most`, if that is another.
    pub(crate) fn open_usual(&mut self, u: UnitId, chain: &Chain<'m>) -> Option<(String, Option<String>)> {
        let steps = self.usual_steps(u, chain);
        if !steps.iter().any(|(k, _)| k.is_none()) {
            return None;
        }
        let mut body =
            |most| self.usual_from(u, chain, &steps, HeaderPath { from: None, at: 0, size: Size::Open, most });
        let (usual, most) = (body(false), body(true));
        let other = Some(most).filter(|most| *most != usual && self.has_rules());
        Some((usual, other))
    }

    /// What follows the last header of a way.
    fn usual_from(&mut self, u: UnitId, chain: &Chain<'m>, steps: &Steps, way: HeaderPath) -> String {
        let (layers, k) = (self.all_layers(u), way.from.map(|f| f.0));
        let list: Vec<_> = chain.get(&k).into_iter().flatten().collect();
        let mut tried = self.usual_tried(u, chain, steps, way);
        if way.most {
            let ends = self.usual_ends(u, chain, &tried, way);
            if !ends.is_empty() {
                return self.usual_one_of(u, &ends, way);
            }
            tried.truncate(1);
        }
        let mut text = String::new();
        for x in &tried {
            let (title, (test, found, next)) =
                (self.layer_title(u, &layers[x.layer as usize]), self.usual_header(u, x, way));
            let rest = self.usual_from(u, chain, steps, next);
            // Nothing else can be there.
            if test.is_empty() {
                return format!("/* {title} */\n{found}{rest}");
            }
            let test = if tried.len() == 1 { format!("WL_LIKELY({test})") } else { test };
            if way.most {
                return format!("/* {title} */\nif (WL_UNLIKELY(!({test}))) return false;\n{found}{rest}");
            }
            text.push_str(&format!("/* {title} */\nif ({test}) {{\n{found}{rest}}}\n"));
        }
        if way.size == Size::Open {
            text.push_str(&format!("if (!({})) return false;\n", holds(way.at)));
        }
        for x in list {
            let cond = x.cond.map_or("true".into(), |c| self.expr(&layer_scope(u), c));
            text.push_str(&format!("if ({cond}) return false;\n"));
        }
        text + "return true;\n"
    }

    /// Headers that are looked for behind the last one, those first that many headers lead to: they
    /// are met more often.
    fn usual_tried<'c>(&self, u: UnitId, chain: &'c Chain<'m>, steps: &Steps, way: HeaderPath) -> Vec<&'c Next<'m>> {
        let (layers, k) = (self.all_layers(u), way.from.map(|f| f.0));
        let list: Vec<_> = chain.get(&k).into_iter().flatten().collect();
        // Of headers that only their first bits tell apart, the first is tried here.
        let here = |x: &&&Next| {
            steps.contains(&(k, x.layer))
                && !list.iter().take_while(|y| y.layer != x.layer).any(|y| y.again.is_some() && y.cond == x.cond)
        };
        let mut tried: Vec<&Next> = list.iter().copied().filter(|x| here(&x)).collect();
        tried.sort_by_key(|x| std::cmp::Reverse(layers[x.layer as usize].after.len()));
        tried
    }

    /// The shape that most frames have, if it can be told by bits, and by what headers say of their
    /// fields.
    pub(crate) fn shape(&mut self, u: UnitId) -> Option<HeaderStack> {
        let chain = self.chain(u)?;
        let (steps, layers) = (self.usual_steps(u, &chain), self.all_layers(u));
        let mut shape = HeaderStack { least: 16, stages: Vec::new() };
        let mut way = HeaderPath { from: None, at: 0, size: Size::Open, most: true };
        loop {
            let tried = self.usual_tried(u, &chain, &steps, way);
            let ends = self.usual_ends(u, &chain, &tried, way);
            let Some(first) = tried.first() else { break };
            let several = !ends.is_empty();
            let stage = (if several { ends } else { vec![*first] })
                .into_iter()
                .map(|x| self.stage(u, x, way))
                .collect::<Option<Vec<_>>>()?;
            shape.least = stage.iter().map(|s| s.at + s.least).fold(shape.least, u32::max);
            let (n, at) = (stage[0].layer, stage[0].at + stage[0].least);
            shape.stages.push(stage);
            if several {
                return Some(shape);
            }
            way = HeaderPath {
                from: Some((n, at - self.least(layers[n as usize].unit))),
                at,
                size: Size::Whole,
                most: true,
            };
        }
        // What may follow the last header would have to be looked for.
        let end = chain.get(&way.from.map(|f| f.0)).is_none_or(Vec::is_empty);
        (end && !shape.stages.is_empty()).then_some(shape)
    }

    /// Defines `NAME_known`: what is noted of a frame that is known to be of the shape that most
    /// have (sixteen are looked at side by side). It is told by a truth for each which of several
    /// last headers is there, but for the last of those. Answers which they are.
    pub(crate) fn open_known(&mut self, u: UnitId) -> Option<Vec<u32>> {
        let shape = self.shape(u)?;
        let name = names::unit(self.m, u);
        let (last, before) = shape.stages.split_last()?;
        let told: Vec<u32> = last[..last.len() - 1].iter().map(|s| s.layer).collect();
        if !self.first(&format!("known {}", u.0)) {
            return Some(told);
        }
        let mut text: String = before.iter().flatten().map(|s| self.known_header(u, s)).collect();
        for s in last {
            let header = self.known_header(u, s);
            text.push_str(&if told.contains(&s.layer) { format!("if (is_{}) {header}else ", s.layer) } else { header });
        }
        let args: String = told.iter().map(|n| format!(", const bool is_{n}")).collect();
        self.helpers.push_str(&format!(
            "/* The same for frames of which is known that they are of the shape that most have. */\n\
             WL_INLINE void {name}_known(wl_view *v, wl_frame *f{args}) {{\nwl_view_again(v, f, 0);\nif (v->n < {} || v->n > 65535) __builtin_unreachable();\n\
             memset(v->at, 0, sizeof v->at);\nuint8_t net = 0xff;\n(void)net;\n{text}}}\n\n", shape.least
        ));
        Some(told)
    }

    fn known_header(&mut self, u: UnitId, s: &Stage) -> String {
        let (m, n) = (self.m, s.layer);
        let (header, title) = (m.unit(s.unit), self.layer_title(u, &self.all_layers(u)[n as usize]));
        let mut rules = self.header_rules(u, n, s.unit, Miss::Never, &s.known);
        if let Some(c) = header.header.covers {
            let inst = self.header_inst(u, n, s.unit, "v", "h");
            let value = self.header_field(&inst, "v", u, n, c.field, header.fields[c.field.index()].ty);
            rules.push_str(&format!("v->end = at + (uint32_t)({value}){};\n", if c.own { "" } else { " + size" }));
        }
        let note = self.note_header(u, n);
        format!("/* {title} */\n{{\nconst uint32_t at = {};\nconst uint8_t *h = v->p + at;\nuint32_t size = {};\n(void)h;\n{rules}{note}}}\n", s.at, s.least)
    }

    fn stage(&mut self, u: UnitId, x: &Next<'m>, way: HeaderPath) -> Option<Stage> {
        let (m, layers, n) = (self.m, self.all_layers(u), x.layer);
        let unit = layers[n as usize].unit;
        let last = !layers.iter().any(|other| other.after.iter().any(|a| a.layer == Some(n)));
        let known = self.usual_values(unit, last);
        let varies = !last && self.options(unit).into_iter().any(|e| self.value(unit, e, &known).is_none());
        let parts = m
            .unit(unit)
            .header
            .partial
            .is_some_and(|more| self.lengths_follow(u, n) && self.zero_bits(unit, more, way.at).is_none());
        let asks = self.usual_asks(u, x, way, Miss::Usual);
        (!varies && !parts && asks.rest.is_empty()).then_some(Stage {
            layer: n,
            unit,
            at: way.at,
            least: asks.least,
            bits: asks.bits,
            known,
        })
    }

    /// What is asked of a header, and what it says.
    fn usual_asks(&mut self, u: UnitId, x: &Next<'m>, way: HeaderPath, miss: Miss) -> HeaderGuards<'m> {
        let (m, layers, n, at) = (self.m, self.all_layers(u), x.layer, way.at);
        let l = &layers[n as usize];
        let header = m.unit(l.unit);
        let last = !layers.iter().any(|other| other.after.iter().any(|a| a.layer == Some(n)));
        let mut asks = HeaderGuards {
            least: self.least(l.unit),
            bits: Bits::new(),
            rest: Vec::new(),
            rules: String::new(),
            covers: None,
        };
        if let Some(cond) = x.cond {
            self.demands(layers, cond, way.from, &mut asks.bits, &mut asks.rest)
        }
        let known = self.usual_values(l.unit, last);
        for (f, value) in &known {
            merge(&mut asks.bits, self.field_bits(l.unit, *f, at, *value, u64::MAX).unwrap_or_default())
        }
        let inst = self.header_inst(u, n, l.unit, "v", "h");
        for e in self.options(l.unit) {
            if last || self.value(l.unit, e, &known).is_some() {
                continue;
            }
            let value = self.expr(&this(&inst), e);
            asks.rules.push_str(&miss.if_so(&format!("({value}) != 0"), "", 0));
        }
        asks.rules.push_str(&self.header_rules(u, n, l.unit, miss, &known));
        if let Some(more) = header.header.partial.filter(|_| self.lengths_follow(u, n)) {
            match self.zero_bits(l.unit, more, at) {
                Some(zero) => merge(&mut asks.bits, zero),
                None => {
                    let value = self.header_field(&inst, "v", u, n, more, header.fields[more.index()].ty);
                    asks.rules.push_str(&miss.if_so(&value, "", 0));
                }
            }
        }
        if let Some(c) = header.header.covers {
            let value = self.header_field(&inst, "v", u, n, c.field, header.fields[c.field.index()].ty);
            asks.covers = Some(format!("(uint32_t)({value}){}", if c.own { "" } else { " + size" }));
        }
        asks
    }

    /// The test for a header (empty: none), what is noted of it once it has passed, and how far
    /// that leads.
    fn usual_header(&mut self, u: UnitId, x: &Next<'m>, way: HeaderPath) -> (String, String, HeaderPath) {
        let (n, at) = (x.layer, way.at);
        let asks = self.usual_asks(u, x, way, Miss::Usual);
        let least = asks.least;
        // A header that may be anything is looked at together with what follows it.
        let plain = asks.bits.is_empty() && asks.rest.is_empty() && asks.rules.is_empty() && asks.covers.is_none();
        let mut tests: Vec<String> = asks.rest.iter().map(|c| self.expr(&layer_scope(u), c)).collect();
        tests.splice(0..0, same_bits(&asks.bits, at + least));
        match (way.size, plain) {
            (Size::Open, true) => {}
            (Size::Ends, _) => tests.insert(0, format!("v->end - {at} >= {least}")),
            _ => tests.insert(0, holds(at + least)),
        }
        let mut found = format!("{{\nconst uint32_t at = {at};\nconst uint8_t *h = v->p + at;\nuint32_t left = v->end - at, size = {least};\n(void)h; (void)left;\n{}", asks.rules);
        if let Some(covers) = &asks.covers {
            found.push_str(&format!("const uint32_t covers = {covers};\nif (WL_UNLIKELY(covers - size > left - size)) return false;\nv->end = at + covers;\n"));
        }
        found.push_str(&self.note_header(u, n));
        let size = match (asks.covers.is_some(), plain) {
            (true, _) => Size::Ends,
            (_, true) => way.size,
            _ if way.size == Size::Ends => Size::Ends,
            _ => Size::Whole,
        };
        (tests.join(" && "), found + "}\n", HeaderPath { from: Some((n, at)), at: at + least, size, ..way })
    }

    /// Those of several headers behind which nothing is looked for, and which can all be looked for
    /// at once: they exclude one another, and what is asked of each is within its least size and
    /// cannot fault.
    fn usual_ends<'a>(
        &self,
        u: UnitId,
        chain: &Chain<'m>,
        tried: &[&'a Next<'m>],
        way: HeaderPath,
    ) -> Vec<&'a Next<'m>> {
        let layers = self.all_layers(u);
        if way.size == Size::Open {
            return Vec::new();
        }
        let within = |x: &&&Next<'m>| {
            let unit = layers[x.layer as usize].unit;
            let (body, fields) = (&self.m.unit(unit).body, &self.m.unit(unit).fields);
            let varies = body.iter().position(|f| {
                !matches!(fields[f.index()].kind, FieldKind::Let { .. })
                    && field_size(self.m, &fields[f.index()]).is_none()
            });
            let mut faults = self.options(unit).into_iter().any(may_fault);
            for f in body {
                faults |= matches!(&fields[f.index()].kind, FieldKind::Require { cond } if may_fault(cond))
            }
            !faults && varies.is_none_or(|n| n + 1 == body.len())
        };
        let alone = |x: &&&Next<'m>| {
            let (mut bits, mut rest) = (Bits::new(), Vec::new());
            let Some(cond) = x.cond else { return false };
            self.demands(layers, cond, way.from, &mut bits, &mut rest);
            rest.is_empty()
                && tried.iter().all(|y| y.layer == x.layer || y.cond.is_some_and(|other| exclusive(cond, other)))
        };
        let ends: Vec<_> = tried
            .iter()
            .filter(|x| chain.get(&Some(x.layer)).is_none_or(Vec::is_empty))
            .filter(within)
            .filter(alone)
            .copied()
            .collect();
        if ends.len() > 1 {
            ends
        } else {
            Vec::new()
        }
    }

    /// Looks for all of these headers at once, without a branch: which of them it is changes from
    /// frame to frame. They begin at the same place, and the frame must be as long as the longest
    /// of them.
    fn usual_one_of(&mut self, u: UnitId, ends: &[&Next<'m>], way: HeaderPath) -> String {
        let (layers, at) = (self.all_layers(u), way.at);
        let titles: Vec<String> = ends.iter().map(|x| self.layer_title(u, &layers[x.layer as usize])).collect();
        let asks: Vec<HeaderGuards> = ends.iter().map(|x| self.usual_asks(u, x, way, Miss::Other)).collect();
        let most = asks.iter().map(|a| a.least).max().unwrap_or(0);
        let mut text = format!("/* {} */\nif (WL_UNLIKELY(v->n < {})) return false;\nconst uint32_t at = {at}, left = v->end - at;\nconst uint8_t *h = v->p + at;\n(void)h;\n", titles.join(" or "), at + most);
        for (x, a) in ends.iter().zip(&asks) {
            let (n, least) = (x.layer, a.least);
            let tests: String = same_bits(&a.bits, at + least).iter().map(|t| format!(" & ({t})")).collect();
            let covers = a.covers.as_ref().map_or(String::new(), |c| {
                format!("const uint32_t covers = {c};\nis &= covers - size <= left - size;\nend_{n} = at + covers;\n")
            });
            text.push_str(&format!(
                "bool is_{n};\nuint32_t to_{n}, end_{n} = v->end;\n{{\nbool is = (left >= {least}){tests};\nuint32_t size = {least};\n{}{covers}is_{n} = is;\nto_{n} = at + size;\n}}\n", a.rules
            ));
        }
        let any: Vec<String> = ends.iter().map(|x| format!("(uint64_t)is_{0} << {0}", x.layer)).collect();
        let noted: String = ends.iter().map(|x| {
            let n = x.layer;
            format!("v->at[{n}] = (uint16_t)at;\nv->to[{n}] = (uint16_t)to_{n};\nv->lim[{n}] = (uint16_t)end_{n};\nv->net[{n}] = net;\n")
        }).collect();
        let choose = |what: &str| {
            let (last, before) = (ends.len() - 1, &ends[..ends.len() - 1]);
            before.iter().map(|x| format!("is_{0} ? {what}_{0} : ", x.layer)).collect::<String>()
                + &format!("{what}_{}", ends[last].layer)
        };
        let any = any.join(" | ");
        text + &format!("const uint64_t any = wl_whole({any});\nif (WL_UNLIKELY(!any)) return false;\n{noted}v->has |= any;\nv->top = {};\nv->end = {};\nreturn true;\n", choose("to"), choose("end"))
    }

    /// The parts of a condition that ask the last header for one value, as bits of the frame; the
    /// others.
    fn demands(
        &self,
        layers: &[Layer],
        cond: &'m Expr,
        from: Option<(u32, u32)>,
        bits: &mut Bits,
        rest: &mut Vec<&'m Expr>,
    ) {
        if let ExprKind::Binary(BinOp::And, a, b) = &*cond.kind {
            self.demands(layers, a, from, bits, rest);
            return self.demands(layers, b, from, bits, rest);
        }
        let asked = || {
            let (n, at) = from?;
            let (path, value) = one_value(cond)?;
            let [Step::Field(h), Step::Field(f)] = path.steps[..] else { return None };
            let l = layers.get(n as usize).filter(|l| l.header == h && path.root == Root::This)?;
            self.field_bits(l.unit, f, at, value, u64::MAX)
        };
        match asked() {
            Some(found) => merge(bits, found),
            None => rest.push(cond),
        }
    }

    /// Where the bits of a header's field that are in `mask` lie in the frame, if it has `value`;
    /// the header begins at `at`.
    fn field_bits(&self, unit: UnitId, f: FieldId, at: u32, value: u64, mask: u64) -> Option<Bits> {
        let FieldKind::UInt { bytes, shift, bits, big, signed: false, .. } = self.m.unit(unit).fields[f.index()].kind
        else {
            return None;
        };
        if bytes > 8 || bits == 0 {
            return None;
        }
        let at = at + fixed_offset(self.m, unit, f)?;
        let mask = (mask & u64::MAX >> (64 - u32::from(bits.min(64)))) << shift;
        let byte = |i: u8| {
            let by = 8 * u32::from(if big { bytes - 1 - i } else { i });
            (at + u32::from(i), ((mask >> by) as u8, ((value << shift & mask) >> by) as u8))
        };
        Some((0..bytes).map(byte).filter(|b| b.1 .0 != 0).collect())
    }

    /// Bits that are 0 if a field is, which is some bits of another one.
    fn zero_bits(&self, unit: UnitId, f: FieldId, at: u32) -> Option<Bits> {
        let FieldKind::Let { value } = &self.m.unit(unit).fields[f.index()].kind else { return None };
        let ExprKind::Binary(BinOp::BitAnd, a, b) = &*bare(value).kind else { return None };
        let (ExprKind::Read(p), ExprKind::Int(mask)) = (&*bare(a).kind, &*bare(b).kind) else { return None };
        let ([Step::Field(f)], Root::This) = (&p.steps[..], p.root) else { return None };
        self.field_bits(unit, *f, at, 0, u64::try_from(*mask).ok()?)
    }

    /// Lengths of a header's parts of variable size.
    fn options(&self, unit: UnitId) -> Vec<&'m Expr> {
        let m = self.m;
        let of = |f: &FieldId| {
            let field = &m.unit(unit).fields[f.index()];
            match &field.kind {
                FieldKind::Bytes { extent: Extent::Length(e), .. } if field_size(m, field).is_none() => Some(e),
                _ => None,
            }
        };
        m.unit(unit).body.iter().filter_map(of).collect()
    }

    /// Fields that must have one value, and those that do if there are no options (which the last
    /// header may have).
    fn usual_values(&self, unit: UnitId, last: bool) -> Known {
        let m = self.m;
        let mut known = Known::new();
        for f in &m.unit(unit).body {
            if let Some([(low, high)]) = m.unit(unit).fields[f.index()].within.as_deref() {
                if low == high {
                    known.insert(*f, *low);
                }
            }
        }
        for e in self.options(unit).into_iter().filter(|_| !last) {
            let fields: BTreeSet<FieldId> = m.unit(unit).body.iter().copied().filter(|f| reads(e, *f)).collect();
            let Some(f) = fields.first().filter(|_| fields.len() == 1) else { continue };
            let FieldKind::UInt { bits: bits @ 1..=8, .. } = m.unit(unit).fields[f.index()].kind else { continue };
            let none = |v: &u64| self.value(unit, e, &Known::from([(*f, *v)])) == Some(0);
            let list: Vec<u64> = (0..1 << bits).filter(none).collect();
            if let [v] = list[..] {
                known.insert(*f, v);
            }
        }
        known.retain(|f, v| self.field_bits(unit, *f, 0, *v, u64::MAX).is_some());
        known
    }

    /// Whether an expression in field `at` comes to nothing else, whatever the fields before it are
    /// that have passed their own checks. That is found by trial: it must read one small field.
    pub(crate) fn always(&self, unit: UnitId, at: FieldId, e: &Expr, known: &Known, ok: impl Fn(u64) -> bool) -> bool {
        if let Some(v) = self.value(unit, e, known) {
            return ok(v);
        }
        let u = self.m.unit(unit);
        let before = u.body.iter().take_while(|f| **f != at);
        let read: Vec<FieldId> = before.copied().filter(|f| reads(e, *f)).collect();
        let ([f], true) = (&read[..], read.len() == u.body.iter().filter(|f| reads(e, **f)).count()) else {
            return false;
        };
        let FieldKind::UInt { bits: bits @ 1..=8, signed: false, .. } = u.fields[f.index()].kind else { return false };
        let within = |v: &u64| {
            u.fields[f.index()].within.as_ref().is_none_or(|r| r.iter().any(|(low, high)| (low..=high).contains(&v)))
        };
        let with = |v: u64| known.iter().map(|(f, v)| (*f, *v)).chain([(*f, v)]).collect();
        (0..1u64 << bits).filter(within).all(|v| self.value(unit, e, &with(v)).is_some_and(&ok))
    }

    /// What an expression over a header's fields comes to, as far as they are known.
    pub(crate) fn value(&self, unit: UnitId, e: &Expr, known: &Known) -> Option<u64> {
        let fit = |v: u64| match int_of(self.m, e.ty) {
            Some((bits @ 1..=64, false)) => Some(v & u64::MAX >> (64 - u32::from(bits))),
            _ => None,
        };
        match &*e.kind {
            ExprKind::Int(n) => u64::try_from(*n).ok(),
            ExprKind::Bool(b) => Some(u64::from(*b)),
            ExprKind::Cast(a) => fit(self.value(unit, a, known)?),
            ExprKind::Read(Path { root: Root::This, steps }) => match steps[..] {
                [Step::Field(f)] => match &self.m.unit(unit).fields[f.index()].kind {
                    FieldKind::Let { value } => self.value(unit, value, known),
                    _ => known.get(&f).copied(),
                },
                _ => None,
            },
            ExprKind::Binary(op, a, b) => {
                let (a, b) = (self.value(unit, a, known)?, self.value(unit, b, known)?);
                match op {
                    BinOp::Add => fit(a.wrapping_add(b)),
                    BinOp::Sub => fit(a.wrapping_sub(b)),
                    BinOp::Mul => fit(a.wrapping_mul(b)),
                    BinOp::BitAnd | BinOp::And => Some(a & b),
                    BinOp::BitOr | BinOp::Or => Some(a | b),
                    BinOp::Eq => Some(u64::from(a == b)),
                    BinOp::Ne => Some(u64::from(a != b)),
                    BinOp::Lt => Some(u64::from(a < b)),
                    BinOp::Le => Some(u64::from(a <= b)),
                    BinOp::Gt => Some(u64::from(a > b)),
                    BinOp::Ge => Some(u64::from(a >= b)),
                    _ => None,
                }
            }
            _ => None,
        }
    }
}

/// More bits; fields that share a byte share no bits of it.
fn merge(bits: &mut Bits, more: Bits) {
    for (at, (mask, value)) in more {
        let b = bits.entry(at).or_default();
        *b = (b.0 | mask, b.1 | value);
    }
}

fn this(i: &Inst) -> Scope {
    Scope { this: Some(i.clone()), ..Scope::default() }
}

/// That a frame holds so many bytes, and no more than any usual one.
fn holds(bytes: u32) -> String {
    format!("v->n - {bytes}u <= {}u", 65535u32.saturating_sub(bytes))
}

/// An expression without conversions around it.
fn bare(e: &Expr) -> &Expr {
    if let ExprKind::Cast(a) = &*e.kind {
        bare(a)
    } else {
        e
    }
}

/// A field that must have one value, and that.
fn one_value(e: &Expr) -> Option<(&Path, u64)> {
    match &*e.kind {
        ExprKind::Binary(BinOp::Eq, a, b) => match (&*a.kind, &*b.kind) {
            (ExprKind::Read(p), ExprKind::Int(n)) | (ExprKind::Int(n), ExprKind::Read(p)) => {
                Some((p, u64::try_from(*n).ok()?))
            }
            _ => None,
        },
        ExprKind::InRanges(a, ranges) => match (&*a.kind, &ranges[..]) {
            (ExprKind::Read(p), [(low, high)]) if low == high => Some((p, *low)),
            _ => None,
        },
        _ => None,
    }
}

/// Whether an expression reads a field of the unit at hand.
fn reads(e: &Expr, f: FieldId) -> bool {
    let mut found = false;
    walk::expr(e, &mut |e| {
        if let ExprKind::Read(p) = &*e.kind {
            found |= p.root == Root::This && p.steps.first() == Some(&Step::Field(f))
        }
    });
    found
}

/// Compares bits by words of a frame of which `there` bytes are there.
fn same_bits(bits: &Bits, there: u32) -> Vec<String> {
    let most = [8, 4, 2, 1].into_iter().find(|n| *n <= there).unwrap_or(1);
    let (mut tests, mut left): (Vec<_>, Vec<_>) = (Vec::new(), bits.iter().collect());
    while let Some((first, _)) = left.first().copied() {
        let n = left.iter().take_while(|b| *b.0 < first + most).count();
        let span = left[n - 1].0 - first + 1;
        let size = span.next_power_of_two();
        let from = (*first).min(there - size);
        let word = |part: fn(&(u8, u8)) -> u8| {
            left[..n].iter().fold(0u64, |w, (at, b)| w | u64::from(part(b)) << (8 * (*at - from)))
        };
        let (mask, value) = (word(|b| b.0), word(|b| b.1));
        let load = match size {
            1 => format!("v->p[{from}]"),
            _ => format!("wl_le{}(v->p + {from})", size * 8),
        };
        let number = |w: u64| if size == 8 { format!("UINT64_C({w:#x})") } else { format!("{w:#x}u") };
        let whole = mask == u64::MAX >> (64 - 8 * size);
        tests.push(if whole {
            format!("{load} == {}", number(value))
        } else {
            format!("({load} & {}) == {}", number(mask), number(value))
        });
        left.drain(..n);
    }
    tests
}
