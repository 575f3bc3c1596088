//! The fast path: the shortest code to the headers that the program uses, for the common header
//! stacks without options.
//!
//! In: a frame unit with its plan ([`FastPath`]). Out: the bodies of these functions:
//!
//! - `NAME_fast` handles the common header stacks, and leaves other frames to `NAME_parse`;
//! - `NAME_most` handles only the most common one, such as IPv4 with TCP or UDP;
//! - `NAME_known` is for frames that are known to have it, and tests nothing.
//!
//! In such a frame all offsets are constants. Many bits must have one value: the type of the next
//! header, versions, lengths of headers. These bits of a header are compared a word at a time.
//! Before that, one test shows that the header's bytes are there.

use crate::gen::Gen;
use crate::names;
use crate::parse_packet::{layer_scope, Miss};
use crate::scope::{Inst, Scope};
use wireloom_ir::header_bits::{options, value, zero_bits, Bits};
use wireloom_ir::parse_graph::{least, Chain, Next};
use wireloom_ir::passes::packet_fast_path::HeaderSteps;
use wireloom_ir::plans::{FastPath, HeaderStack, Stage};
use wireloom_ir::*;

/// The conditions for a header to be there.
struct HeaderGuards<'m> {
    /// Bytes of the header, without its variable part.
    least: u32,
    bits: Bits,
    /// Conditions that no bits stand for.
    rest: Vec<&'m Expr>,
    /// Statements that leave if a rule is broken; they may make `size` larger.
    rules: String,
    /// How far the header says that it and its payload go, from its first byte.
    covers: Option<String>,
}

/// How far a way has come.
#[derive(Clone, Copy)]
struct HeaderPath {
    /// The last header and where it begins.
    from: Option<(u32, u32)>,
    /// Where it ends.
    at: u32,
    /// The tests of the frame's size so far.
    size: Size,
    /// It is the path of most frames, the only one to be looked for.
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
    /// The plan of a frame unit.
    pub(crate) fn plan(&self, u: UnitId) -> Option<&'m FastPath> {
        self.m.unit(u).frame.as_ref()?.fast_path.as_ref()
    }

    /// The stack that most frames have, if bits tell it.
    pub(crate) fn stack(&self, u: UnitId) -> Option<&'m HeaderStack> {
        self.plan(u)?.stack.as_ref()
    }

    /// The bodies of `NAME_fast` and of `NAME_most`, if that is another.
    pub(crate) fn open_common(&mut self, u: UnitId, chain: &Chain<'m>) -> Option<(String, Option<String>)> {
        let steps: HeaderSteps = self.plan(u)?.steps.iter().copied().collect();
        let mut body =
            |most| self.common_from(u, chain, &steps, HeaderPath { from: None, at: 0, size: Size::Open, most });
        let (common, most) = (body(false), body(true));
        let branch_free = self.m.unit(u).frame.as_ref().is_some_and(|f| f.branch_free);
        let other = Some(most).filter(|most| *most != common && branch_free);
        Some((common, other))
    }

    /// The body of the way to the most common header stack, whose places are all constants. It is
    /// for the hook's walk only.
    pub(crate) fn open_most(&mut self, u: UnitId, chain: &Chain<'m>) -> Option<String> {
        let steps: HeaderSteps = self.plan(u)?.steps.iter().copied().collect();
        let way = HeaderPath { from: None, at: 0, size: Size::Open, most: true };
        Some(tested_once(&self.common_from(u, chain, &steps, way)))
    }

    /// The code behind the last header of a path.
    fn common_from(&mut self, u: UnitId, chain: &Chain<'m>, steps: &HeaderSteps, way: HeaderPath) -> String {
        let (layers, k) = (self.all_layers(u), way.from.map(|f| f.0));
        let list: Vec<_> = chain.get(&k).into_iter().flatten().collect();
        let graph = self.graph(u);
        let mut tried = graph.tried(chain, steps, k);
        if way.most {
            let one = way.size == Size::Open || self.xdp;
            let ends = if one { Vec::new() } else { graph.ends(chain, &tried, way.from) };
            if !ends.is_empty() {
                return self.common_one_of(u, &ends, way);
            }
            tried.truncate(1);
        }
        let mut text = String::new();
        for x in &tried {
            let (title, (test, found, next)) =
                (self.layer_title(u, &layers[x.layer as usize]), self.common_header(u, x, way));
            let rest = self.common_from(u, chain, steps, next);
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
            text.push_str(&format!("if (!({})) return false;\n", self.holds(way.at)));
        }
        for x in list {
            let cond = x.cond.map_or("true".into(), |c| self.expr(&layer_scope(u), c));
            text.push_str(&format!("if ({cond}) return false;\n"));
        }
        text + "return true;\n"
    }

    /// Defines `NAME_known`: the view of a frame that is known to be of the most common shape
    /// (sixteen are tested side by side). For each of several last headers, except the last of
    /// them, a mask says whether it is there. Returns these headers.
    pub(crate) fn open_known(&mut self, u: UnitId) -> Option<Vec<u32>> {
        let shape = self.stack(u)?;
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
        let unit = self.all_layers(u)[n as usize].unit;
        let (header, title) = (m.unit(unit), self.layer_title(u, &self.all_layers(u)[n as usize]));
        let mut rules = self.header_rules(u, n, unit, Miss::Never, &s.known);
        if let Some(c) = header.header.covers {
            let inst = self.header_inst(u, n, unit, "v", "h");
            let value = self.header_field(&inst, c.field, header.fields[c.field.index()].ty);
            rules.push_str(&format!("v->end = at + (uint32_t)({value}){};\n", if c.own { "" } else { " + size" }));
        }
        let note = self.note_header(u, n);
        format!("/* {title} */\n{{\nconst uint32_t at = {};\nconst uint8_t *h = v->p + at;\nuint32_t size = {};\n(void)h;\n{rules}{note}}}\n", s.at, s.least)
    }

    /// The conditions of a header, and the values that they imply.
    fn common_asks(&mut self, u: UnitId, x: &Next<'m>, way: HeaderPath, miss: Miss) -> HeaderGuards<'m> {
        let (m, layers, n, at) = (self.m, self.all_layers(u), x.layer, way.at);
        let l = &layers[n as usize];
        let header = m.unit(l.unit);
        let graph = self.graph(u);
        let (last, demands) = (graph.is_last(n), graph.demands(x, way.from, at));
        let known = &demands.known;
        let mut asks = HeaderGuards {
            least: least(m, l.unit),
            bits: demands.bits,
            rest: demands.rest,
            rules: String::new(),
            covers: None,
        };
        let inst = self.header_inst(u, n, l.unit, "v", "h");
        for e in options(m, l.unit) {
            if last || value(m, l.unit, e, known).is_some() {
                continue;
            }
            let value = self.expr(&this(&inst), e);
            asks.rules.push_str(&miss.if_so(&format!("({value}) != 0"), "", 0));
        }
        asks.rules.push_str(&self.header_rules(u, n, l.unit, miss, known));
        let more = header.header.partial.filter(|_| graph.lengths_follow(n));
        if let Some(more) = more.filter(|f| zero_bits(m, l.unit, *f, at).is_none()) {
            let value = self.header_field(&inst, more, header.fields[more.index()].ty);
            asks.rules.push_str(&miss.if_so(&value, "", 0));
        }
        if let Some(c) = header.header.covers {
            let value = self.header_field(&inst, c.field, header.fields[c.field.index()].ty);
            asks.covers = Some(format!("(uint32_t)({value}){}", if c.own { "" } else { " + size" }));
        }
        asks
    }

    /// The test for a header (empty: none), its entries in the view, and the path behind it.
    fn common_header(&mut self, u: UnitId, x: &Next<'m>, way: HeaderPath) -> (String, String, HeaderPath) {
        let (n, at) = (x.layer, way.at);
        let asks = self.common_asks(u, x, way, Miss::Common);
        let least = asks.least;
        // A header without conditions is tested together with the next one.
        let plain = asks.bits.is_empty() && asks.rest.is_empty() && asks.rules.is_empty() && asks.covers.is_none();
        let mut tests: Vec<String> = asks.rest.iter().map(|c| self.expr(&layer_scope(u), c)).collect();
        tests.splice(0..0, self.same_bits(&asks.bits, at + least));
        match (way.size, plain) {
            (Size::Open, true) => {}
            (Size::Ends, _) => {
                let verified = if self.xdp { format!(" && {}", self.holds(at + least)) } else { String::new() };
                tests.insert(0, format!("v->end - {at} >= {least}{verified}"))
            }
            _ => tests.insert(0, self.holds(at + least)),
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

    /// Looks for all of these headers at once, without a branch: which of them it is changes from
    /// frame to frame. They begin at the same place, and the frame must be as long as the longest
    /// of them.
    fn common_one_of(&mut self, u: UnitId, ends: &[&Next<'m>], way: HeaderPath) -> String {
        let (layers, at) = (self.all_layers(u), way.at);
        let titles: Vec<String> = ends.iter().map(|x| self.layer_title(u, &layers[x.layer as usize])).collect();
        let asks: Vec<HeaderGuards> = ends.iter().map(|x| self.common_asks(u, x, way, Miss::Other)).collect();
        let most = asks.iter().map(|a| a.least).max().unwrap_or(0);
        let mut text = format!("/* {} */\nif (WL_UNLIKELY(v->n < {})) return false;\nconst uint32_t at = {at}, left = v->end - at;\nconst uint8_t *h = v->p + at;\n(void)h;\n", titles.join(" or "), at + most);
        for (x, a) in ends.iter().zip(&asks) {
            let (n, least) = (x.layer, a.least);
            let tests: String = self.same_bits(&a.bits, at + least).iter().map(|t| format!(" & ({t})")).collect();
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
}

/// A way with one test of the frame's length in place of one for each header.
fn tested_once(way: &str) -> String {
    let (mut most, mut out) = (0u32, String::new());
    let mut parts = way.split("v->p + ");
    out.push_str(parts.next().unwrap_or_default());
    for part in parts {
        match part.split_once(" <= x->end") {
            Some((n, rest)) if n.bytes().all(|b| b.is_ascii_digit()) => {
                most = most.max(n.parse().unwrap_or(0));
                out.push_str("true");
                out.push_str(rest)
            }
            _ => {
                out.push_str("v->p + ");
                out.push_str(part)
            }
        }
    }
    format!("if (WL_UNLIKELY(!(v->p + {most} <= x->end))) return false;\n{out}")
}

fn this(i: &Inst) -> Scope {
    Scope { this: Some(i.clone()), ..Scope::default() }
}

impl Gen<'_> {
    /// That a frame holds so many bytes, and no more than any common one.
    fn holds(&self, bytes: u32) -> String {
        if self.xdp {
            return format!("v->p + {bytes} <= x->end");
        }
        format!("v->n - {bytes}u <= {}u", 65535u32.saturating_sub(bytes))
    }

    /// Compares bits by words of a frame that has `there` bytes.
    fn same_bits(&self, bits: &Bits, there: u32) -> Vec<String> {
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
                _ => format!("{}_le{}(v->p + {from})", if self.xdp { "wl_known" } else { "wl" }, size * 8),
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
}
