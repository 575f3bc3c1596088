//! Frames sixteen at a time.
//!
//! In: a handler of frames, and the shape that most frames have (`Gen::shape`), in which all
//! headers lie at constant places. Out: C (over support/simd.h) that runs the handler for sixteen
//! frames side by side, or nothing. Such a handler may read numbers of at most 32 bits and
//! addresses, at constant offsets, and the frame's length. It may branch on them, set locals,
//! count, and send frames as they are. It may look up the wildcard table whose keys were looked up
//! ahead (batch_lookup.rs). It cannot fault, and changes nothing that another frame sees. So the
//! frames' order does not matter: those of other stacks are handled one by one, as before.
//!
//! Conditions become masks, a bit per frame. Both branches run, each for its own frames. A local
//! that is set in a branch keeps its value where the branch is not taken. Each value is computed
//! once and has a name. Values of which nothing is known are `VectorValue::Unknown`: a handler that
//! needs one is none for lanes.
//!
//! Of handlers that look up an exact table and do more, only the keys are made in this way
//! (keys.rs); they run frame by frame, in order.

mod expr;
mod keys;

pub(crate) use keys::VectorKeys;

use crate::batch_lookup::{BatchPlan, HoistedState, KeySite};
use crate::gen::Gen;
use crate::names;
use std::collections::{BTreeMap, BTreeSet};
use wireloom_ir::frame::field_size;
use wireloom_ir::header_bits::{always, value, Bits};
use wireloom_ir::packed_keys::packed;
use wireloom_ir::plans::{HeaderStack, Stage};
use wireloom_ir::*;

/// What an expression is for sixteen frames.
#[derive(Clone, PartialEq)]
enum VectorValue {
    /// A number that is the same for all.
    Const(u128),
    /// A number of 32 bits: its C name, and between what it is.
    Word {
        name: String,
        least: u64,
        most: u64,
    },
    /// An address, or a number of 128 bits: four numbers of 32 bits, the lowest first.
    Wide(Vec<VectorValue>),
    Mask(Mask),
    /// An option: whether there is a value, and which.
    Maybe(Mask, Box<VectorValue>),
    Record(Vec<VectorValue>),
    Unknown,
}

/// A condition: the same for all frames, or a C name of their bits.
#[derive(Clone, PartialEq)]
enum Mask {
    Is(bool),
    Bits(String),
}

/// Where frames leave: a port and an instance.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Destination {
    pub port: u32,
    pub instance: u32,
}

/// Of a handler: what comes first, and what comes behind the lookups of a batch.
pub(crate) struct VectorHandler {
    /// Statements that tell which frames are of the shape (`ok`), and pack their keys.
    pub ready: String,
    /// The handler for them.
    pub run: String,
    /// Counters whose sums the handler keeps in vectors.
    pub sums: BTreeSet<u32>,
    /// Bytes that each of the frames must have.
    pub least: u32,
    /// Words of the keys that are the same for all frames of the shape.
    pub even: BTreeMap<usize, u32>,
    /// The one way out, as port and instance, if frames leave through no other.
    pub way: Option<Destination>,
}

struct Vectorizer<'a, 'm> {
    g: &'a mut Gen<'m>,
    unit: UnitId,
    shape: &'a HeaderStack,
    kept: &'a HoistedState,
    ahead: Option<&'a BatchPlan<'m>>,
    /// Places of bytes that are read, and how many: found out by a first run, whose text is thrown
    /// away.
    reads: BTreeSet<(u32, u32)>,
    /// Where the words begin that hold them all.
    words: Vec<u32>,
    out: String,
    names: BTreeMap<String, String>,
    locals: Vec<VectorValue>,
    /// The header whose own fields are at hand.
    this: Option<(UnitId, u32)>,
    /// Headers that are known to be absent where we are.
    absent: BTreeSet<u32>,
    sums: BTreeSet<u32>,
    /// Where frames may leave.
    ways: BTreeSet<Destination>,
    /// Words of a key in columns that are the same for all frames.
    even: BTreeMap<usize, u32>,
    /// Of the last headers, if it may be one of several: which frames have it.
    either: Vec<(u32, Mask)>,
}

impl Destination {
    /// As `wl_frame.out` has it.
    pub fn text(self) -> String {
        format!("{:#x}u", self.port << 16 | self.instance & 0xffff)
    }
}

impl<'m> Gen<'m> {
    /// A handler for lanes, if it is one.
    pub fn lanes(
        &mut self,
        h: &'m Handler,
        unit: UnitId,
        ahead: Option<&BatchPlan<'m>>,
        kept: &HoistedState,
    ) -> Option<VectorHandler> {
        let exact_only = ahead.is_some_and(|a| a.masked.is_none());
        if exact_only || self.frames.moved || !self.serve().is_empty() {
            return None;
        }
        let shape = self.stack(unit)?;
        let mut l = Vectorizer::new(self, unit, shape, kept, ahead);
        let mut halves = None;
        // The first time to see what is read.
        for _ in 0..2 {
            l.words = words(&l.reads, shape.least)?;
            l.begin(&h.body);
            let ready = l.ready()?;
            if ahead.is_some() {
                l.begin(&h.body)
            } else {
                l.out.push_str("if (ok) {\n")
            }
            l.block(&h.body.block, &Mask::Bits("ok".into()))?;
            let mut run = std::mem::take(&mut l.out);
            let way = l.ways.first().copied().filter(|_| l.ways.len() == 1);
            let counted = if way.is_some() { "wl_lanes_count_left(&left, to, lengths);\n" } else { "" };
            // A frame that has not been sent is dropped.
            if !l.ways.is_empty() {
                run = format!("wl_lanes to = wl_lanes_set(WL_GONE);\n{run}{counted}wl_lanes_leave(g, to);\n")
            }
            if ahead.is_none() {
                run.push_str("}\n")
            }
            halves =
                Some(VectorHandler { ready, run, sums: l.sums.clone(), least: shape.least, even: l.even.clone(), way });
        }
        halves
    }
}

/// Frames of a shape have at least so many bytes, or are not looked at side by side. (Without VBMI,
/// wl_lanes_words loads sixteen bytes around each word.)
const LEAST: u32 = 28;
/// Words and bytes that one use of wl_lanes_words takes.
const WORDS: usize = 8;
const WINDOW: u32 = 64;

/// Words of four bytes in which all that is read lies, within the `least` bytes that frames have.
fn words(reads: &BTreeSet<(u32, u32)>, least: u32) -> Option<Vec<u32>> {
    let mut words: Vec<u32> = Vec::new();
    for (at, n) in reads {
        if at + n > least || least < LEAST {
            return None;
        }
        if words.iter().any(|word| holds(*word, *at, *n)) {
            continue;
        }
        // Best so that it lies in one row with the one before.
        let fits = |word: &u32| holds(*word, *at, *n) && *word + 4 <= least;
        let near = words.last().and_then(|last| (*last..=*at).rev().find(|word| (word - last) % 4 == 0).filter(fits));
        words.push(near.unwrap_or((*at).min(least - 4)));
    }
    Some(words)
}

fn holds(word: u32, at: u32, n: u32) -> bool {
    at >= word && at + n <= word + 4
}

/// Which words are taken from the frames together with one, and where the bytes begin that are
/// loaded for them.
fn taken(words: &[u32], word: u32) -> (&[u32], u32) {
    let mut rest = words;
    loop {
        let n = rest.iter().take(WORDS).take_while(|w| **w + 4 <= rest[0] + WINDOW).count();
        let (list, others) = rest.split_at(n);
        // Frames most often begin with a line of the cache.
        if list.contains(&word) {
            return (list, if list[n - 1] + 4 <= WINDOW { 0 } else { list[0] });
        }
        rest = others;
    }
}

fn truth(b: bool) -> VectorValue {
    VectorValue::Mask(Mask::Is(b))
}

/// The number of 32 bits `i` of a wide one.
fn part(l: &VectorValue, i: usize) -> Option<VectorValue> {
    match l {
        VectorValue::Const(v) => Some(VectorValue::Const(v >> (32 * i) & 0xffff_ffff)),
        VectorValue::Word { .. } => Some(if i == 0 { l.clone() } else { VectorValue::Const(0) }),
        VectorValue::Wide(w) => w.get(i).cloned(),
        _ => None,
    }
}

fn span(l: &VectorValue) -> Option<(u64, u64)> {
    match l {
        VectorValue::Const(v) => u32::try_from(*v).ok().map(|v| (v.into(), v.into())),
        VectorValue::Word { least, most, .. } => Some((*least, *most)),
        _ => None,
    }
}

impl<'a, 'm> Vectorizer<'a, 'm> {
    fn new(
        g: &'a mut Gen<'m>,
        unit: UnitId,
        shape: &'a HeaderStack,
        kept: &'a HoistedState,
        ahead: Option<&'a BatchPlan<'m>>,
    ) -> Self {
        Vectorizer {
            g,
            unit,
            shape,
            kept,
            ahead,
            reads: BTreeSet::new(),
            words: Vec::new(),
            out: String::new(),
            names: BTreeMap::new(),
            locals: Vec::new(),
            this: None,
            absent: BTreeSet::new(),
            sums: BTreeSet::new(),
            ways: BTreeSet::new(),
            even: BTreeMap::new(),
            either: Vec::new(),
        }
    }
}

impl<'m> Vectorizer<'_, 'm> {
    /// Before the first statement: of a handler behind lookups nothing has a name yet but which
    /// frames are of the shape.
    fn begin(&mut self, body: &Body) {
        self.out.clear();
        self.names.clear();
        self.absent.clear();
        self.either.clear();
        self.locals = body.locals.iter().map(|l| self.zero(l.ty)).collect();
    }

    fn zero(&self, ty: TyId) -> VectorValue {
        match self.g.m.ty(ty) {
            Ty::Bool => truth(false),
            Ty::UInt(_) | Ty::Ip => VectorValue::Const(0),
            Ty::Option(t) => VectorValue::Maybe(Mask::Is(false), Box::new(self.zero(*t))),
            Ty::Record(_) | Ty::Tuple(_) => {
                VectorValue::Record(self.g.members(ty).iter().map(|m| self.zero(m.1)).collect())
            }
            _ => VectorValue::Unknown,
        }
    }

    // ---- names ----

    fn named(&mut self, prefix: &str, ty: &str, text: String) -> String {
        if let Some(name) = self.names.get(&text) {
            return name.clone();
        }
        let name = format!("{prefix}{}", self.names.len());
        self.out.push_str(&format!("const {ty} {name} = {text};\n"));
        self.names.insert(text, name.clone());
        name
    }

    fn word(&mut self, text: String, least: u64, most: u64) -> VectorValue {
        VectorValue::Word { name: self.named("w", "wl_lanes", text), least, most }
    }

    fn bits(&mut self, text: String) -> Mask {
        Mask::Bits(self.named("b", "uint32_t", text))
    }

    /// A number as C.
    fn text(&self, l: &VectorValue) -> Option<String> {
        match l {
            VectorValue::Const(v) => Some(format!("wl_lanes_set({}u)", u32::try_from(*v).ok()?)),
            VectorValue::Word { name, .. } => Some(name.clone()),
            _ => None,
        }
    }

    fn truth_text(&self, t: &Mask) -> String {
        match t {
            Mask::Is(b) => {
                if *b {
                    "WL_LANES_ALL".into()
                } else {
                    "0u".into()
                }
            }
            Mask::Bits(name) => name.clone(),
        }
    }

    fn not(&mut self, t: &Mask) -> Mask {
        match t {
            Mask::Is(b) => Mask::Is(!b),
            Mask::Bits(name) => self.bits(format!("{name} ^ WL_LANES_ALL")),
        }
    }

    fn and(&mut self, a: &Mask, b: &Mask) -> Mask {
        match (a, b) {
            (Mask::Is(true), t) | (t, Mask::Is(true)) => t.clone(),
            (Mask::Is(false), _) | (_, Mask::Is(false)) => Mask::Is(false),
            (Mask::Bits(x), Mask::Bits(y)) if x == y => a.clone(),
            (Mask::Bits(x), Mask::Bits(y)) => self.bits(format!("{x} & {y}")),
        }
    }

    fn or(&mut self, a: &Mask, b: &Mask) -> Mask {
        match (a, b) {
            (Mask::Is(false), t) | (t, Mask::Is(false)) => t.clone(),
            (Mask::Is(true), _) | (_, Mask::Is(true)) => Mask::Is(true),
            (Mask::Bits(x), Mask::Bits(y)) if x == y => a.clone(),
            (Mask::Bits(x), Mask::Bits(y)) => self.bits(format!("{x} | {y}")),
        }
    }

    fn choose(&mut self, t: &Mask, a: VectorValue, b: VectorValue) -> Option<VectorValue> {
        match t {
            Mask::Is(true) => return Some(a),
            Mask::Is(false) => return Some(b),
            _ if a == b => return Some(a),
            Mask::Bits(_) => {}
        }
        Some(match (a, b) {
            (VectorValue::Unknown, _) | (_, VectorValue::Unknown) => VectorValue::Unknown,
            (VectorValue::Mask(a), VectorValue::Mask(b)) => {
                let (not, yes) = (self.not(t), self.and(t, &a));
                let no = self.and(&not, &b);
                VectorValue::Mask(self.or(&yes, &no))
            }
            (VectorValue::Maybe(a, x), VectorValue::Maybe(b, y)) => {
                let VectorValue::Mask(has) = self.choose(t, VectorValue::Mask(a), VectorValue::Mask(b))? else {
                    return None;
                };
                VectorValue::Maybe(has, Box::new(self.choose(t, *x, *y)?))
            }
            (VectorValue::Record(a), VectorValue::Record(b)) => {
                VectorValue::Record(a.into_iter().zip(b).map(|(a, b)| self.choose(t, a, b)).collect::<Option<_>>()?)
            }
            (a, b) => match (span(&a), span(&b)) {
                (Some(x), Some(y)) => {
                    let text =
                        format!("wl_lanes_choose({}, {}, {})", self.truth_text(t), self.text(&a)?, self.text(&b)?);
                    self.word(text, x.0.min(y.0), x.1.max(y.1))
                }
                _ => self.wide(|l, i| {
                    let (x, y) = (part(&a, i)?, part(&b, i)?);
                    l.choose(t, x, y)
                })?,
            },
        })
    }

    fn wide(&mut self, mut each: impl FnMut(&mut Self, usize) -> Option<VectorValue>) -> Option<VectorValue> {
        (0..4).map(|i| each(self, i)).collect::<Option<_>>().map(VectorValue::Wide)
    }

    // ---- headers ----

    /// The word that holds bytes of the frames, and where they are in it.
    fn bytes(&mut self, at: u32, n: u32) -> (String, u32) {
        self.reads.insert((at, n));
        let Some(word) = self.words.iter().copied().find(|word| holds(*word, at, n)) else { return ("none".into(), 0) };
        let (list, from) = taken(&self.words, word);
        let places: String =
            (0..WORDS).map(|k| format!(", {}", list.get(k).or(list.last()).copied().unwrap_or(0))).collect();
        let number = list.iter().position(|w| *w == word).unwrap_or(0);
        let text = format!("wl_lanes_words(g, {from}, {}{places})", self.shape.least.min(from + WINDOW));
        let words = self.named("words", "wl_lanes_8", text);
        (format!("{words}.w[{number}]"), at - word)
    }

    /// Which frames have these bits.
    fn same(&mut self, bits: &Bits) -> Mask {
        let mut words: BTreeMap<String, (u32, u32)> = BTreeMap::new();
        for (at, (mask, value)) in bits {
            let (word, by) = self.bytes(*at, 1);
            let w = words.entry(word).or_default();
            *w = (w.0 | u32::from(*mask) << (8 * by), w.1 | u32::from(*value) << (8 * by));
        }
        let mut all = Mask::Is(true);
        for (word, (mask, value)) in words {
            let has = self.bits(format!("wl_lanes_has({word}, {mask:#x}u, {value:#x}u)"));
            all = self.and(&all, &has);
        }
        all
    }

    fn compare(&mut self, op: &str, a: &VectorValue, b: &VectorValue) -> Option<Mask> {
        if let (VectorValue::Const(a), VectorValue::Const(b)) = (a, b) {
            return Some(Mask::Is(match op {
                "eq" => a == b,
                "le" => a <= b,
                _ => a < b,
            }));
        }
        let ((_, am), (bl, _)) = (span(a)?, span(b)?);
        match op {
            "le" if am <= bl => return Some(Mask::Is(true)),
            "lt" if am < bl => return Some(Mask::Is(true)),
            _ => {}
        }
        let text = format!("wl_lanes_{op}({}, {})", self.text(a)?, self.text(b)?);
        Some(self.bits(text))
    }

    /// Which frames have a header, where `end` is the end of what the header before it covers; and
    /// the end of what it covers.
    fn header(&mut self, s: &Stage, end: &VectorValue) -> Option<(Mask, VectorValue)> {
        let (m, unit) = (self.g.m, self.g.layers(self.unit)[s.layer as usize].unit);
        let (header, title) =
            (m.unit(unit), self.g.layer_title(self.unit, &self.g.layers(self.unit)[s.layer as usize]));
        if !self.out.contains(&format!("/* {title} */")) {
            self.out.push_str(&format!("/* {title} */\n"))
        }
        let mut is = self.same(&s.bits);
        let there = self.compare("le", &VectorValue::Const(u128::from(s.at + s.least)), end)?;
        is = self.and(&is, &there);
        let left = self.less(end, u64::from(s.at))?;
        let mut size = VectorValue::Const(u128::from(s.least));
        self.this = Some((unit, s.at));
        for f in header.body.clone() {
            let field = &header.fields[f.index()];
            if let Some(ranges) = field.within.as_ref().filter(|_| !s.known.contains_key(&f)) {
                // What is read here has not been checked yet.
                let value = self.field(unit, s.at, f, false)?;
                let within = self.in_ranges(&value, ranges)?;
                is = self.and(&is, &within);
            }
            match &field.kind {
                FieldKind::Require { cond } if always(m, unit, f, cond, &s.known, |v| v == 1) => {}
                FieldKind::Require { cond } => {
                    let VectorValue::Mask(t) = self.expr(cond)? else { return None };
                    is = self.and(&is, &t);
                }
                FieldKind::UInt { .. } | FieldKind::Let { .. } => {}
                FieldKind::Bytes { .. } if field_size(m, field).is_some() => {}
                FieldKind::Bytes { extent: Extent::Length(e), .. } if value(m, unit, e, &s.known) == Some(0) => {}
                FieldKind::Bytes { max, extent: Extent::Length(e), .. } => {
                    let n = self.expr(e)?;
                    let (short, longer) = (
                        self.compare("le", &n, &VectorValue::Const(u128::from(*max)))?,
                        self.arithmetic(BinOp::Add, &size, &n, 32)?,
                    );
                    let fits = self.compare("le", &longer, &left)?;
                    is = self.and(&is, &short);
                    is = self.and(&is, &fits);
                    size = longer;
                }
                _ => return None,
            }
        }
        let mut to = end.clone();
        if let Some(c) = header.header.covers {
            let mut covers = self.field(unit, s.at, c.field, false)?;
            if !c.own {
                covers = self.arithmetic(BinOp::Add, &covers, &size, 32)?
            }
            let (enough, fits) = (self.compare("le", &size, &covers)?, self.compare("le", &covers, &left)?);
            is = self.and(&is, &enough);
            is = self.and(&is, &fits);
            to = self.arithmetic(BinOp::Add, &covers, &VectorValue::Const(u128::from(s.at)), 32)?;
        }
        self.this = None;
        Some((is, to))
    }

    /// A number less a constant that it is known not to be below.
    fn less(&mut self, a: &VectorValue, by: u64) -> Option<VectorValue> {
        if by == 0 {
            return Some(a.clone());
        }
        let (text, (_, most)) = (self.text(a)?, span(a)?);
        Some(self.word(format!("wl_lanes_sub({text}, wl_lanes_set({by}u))"), 0, most.saturating_sub(by)))
    }

    fn lengths(&mut self) -> VectorValue {
        VectorValue::Word { name: "lengths".into(), least: u64::from(self.shape.least), most: 65535 }
    }

    /// Which of the last headers, one of which must be there, a frame has.
    fn last_header(&mut self, layer: u32) -> Option<Mask> {
        let shape = self.shape;
        let list = shape.stages.last().filter(|l| l.len() > 1)?;
        let mut end = self.lengths();
        for s in shape.stages.iter().filter(|l| l.len() == 1).flatten() {
            end = self.header(s, &end)?.1
        }
        self.header(list.iter().find(|s| s.layer == layer)?, &end).map(|found| found.0)
    }

    /// Whether a header is there, in a frame of the shape.
    fn has(&mut self, layer: u32) -> Option<Mask> {
        let shape = self.shape;
        if shape.stages.iter().any(|l| l.len() == 1 && l[0].layer == layer) {
            return Some(Mask::Is(true));
        }
        let Some(list) = shape.stages.last().filter(|l| l.iter().any(|s| s.layer == layer)) else {
            return Some(Mask::Is(false));
        };
        if self.absent.contains(&layer) {
            return Some(Mask::Is(false));
        }
        if list.iter().all(|s| s.layer == layer || self.absent.contains(&s.layer)) {
            return Some(Mask::Is(true));
        }
        self.last_header(layer)
    }

    /// Which frames are of the shape, and the keys of those that look up a table of masks.
    fn ready(&mut self) -> Option<String> {
        self.shape()?;
        if let Some(u) = self.ahead.and_then(|a| a.masked.as_ref()) {
            self.out.push_str("if (ok) {\n");
            self.masked_key(u)?;
            self.out.push_str("}\n");
        }
        Some(if self.ahead.is_some() { std::mem::take(&mut self.out) } else { String::new() })
    }

    /// Sets `ok` for frames of the shape.
    fn shape(&mut self) -> Option<()> {
        let shape = self.shape;
        let (mut ok, mut end) = (Mask::Is(true), self.lengths());
        for list in &shape.stages {
            let mut any = Mask::Is(false);
            let mut ends = end.clone();
            for s in list {
                let (is, to) = self.header(s, &end)?;
                any = self.or(&any, &is);
                ends = to;
                if list.len() > 1 {
                    self.either.push((s.layer, is))
                }
            }
            ok = self.and(&ok, &any);
            end = ends;
        }
        let text = self.truth_text(&ok);
        self.out.push_str(&format!("ok = {text};\n"));
        Some(())
    }

    fn shifted(&mut self, way: &str, v: &VectorValue, by: u64) -> Option<VectorValue> {
        if by == 0 {
            return Some(v.clone());
        }
        if let VectorValue::Const(v) = v {
            return Some(VectorValue::Const(if way == "shl" { v << by & 0xffff_ffff } else { v >> by }));
        }
        let (text, (least, most)) = (self.text(v)?, span(v)?);
        let (least, most) = if way == "shr" {
            (least >> by, most >> by)
        } else if most << by <= u64::from(u32::MAX) {
            (least << by, most << by)
        } else {
            (0, u64::from(u32::MAX))
        };
        Some(self.word(format!("wl_lanes_{way}({text}, {by})"), least, most))
    }

    // ---- statements ----

    fn set(&mut self, l: LocalId, value: VectorValue, when: &Mask) -> Option<()> {
        let old = self.locals.get(l.index())?.clone();
        self.locals[l.index()] = if *when == Mask::Bits("ok".into()) { value } else { self.choose(when, value, old)? };
        Some(())
    }

    fn block(&mut self, block: &'m Block, when: &Mask) -> Option<()> {
        for s in block {
            self.stmt(&s.kind, when)?
        }
        Some(())
    }

    fn stmt(&mut self, s: &'m StmtKind, when: &Mask) -> Option<()> {
        match s {
            StmtKind::Set(l, _) if self.ahead.is_some_and(|a| a.unused.contains(l)) => {}
            StmtKind::Set(l, e) => {
                let value = self.expr(e)?;
                self.set(*l, value, when)?
            }
            StmtKind::Count(c, e) => self.count(c.0, e, when)?,
            StmtKind::If { cond, then, other } => {
                let t = self.condition(cond)?;
                let yes = self.and(when, &t);
                if yes != Mask::Is(false) {
                    self.block(then, &yes)?
                }
                if other.is_empty() {
                    return Some(());
                }
                let not = self.not(&t);
                let no = self.and(when, &not);
                if no != Mask::Is(false) {
                    self.unless(cond, |l| l.block(other, &no))?
                }
            }
            StmtKind::TableGet { table, key, dst } => self.lookup(*table, key, *dst, when)?,
            StmtKind::Frame { frame: LocalId(0), act: FrameAct::Send { port, index, mark: None, last: true } } => {
                let ExprKind::Int(instance) = *index.kind else { return None };
                let (who, way) =
                    (self.truth_text(when), Destination { port: port.0, instance: u32::try_from(instance).ok()? });
                self.out.push_str(&format!("to = wl_lanes_choose({who}, wl_lanes_set({}), to);\n", way.text()));
                self.ways.insert(way);
            }
            _ => return None,
        }
        Some(())
    }

    fn count(&mut self, c: u32, e: &Expr, when: &Mask) -> Option<()> {
        if !self.kept.counters.contains(&c) {
            return None;
        }
        let (value, who) = (self.expr(e)?, self.truth_text(when));
        match &value {
            VectorValue::Const(n) => {
                let n = u64::try_from(*n).ok()?;
                self.out.push_str(&if n == 1 {
                    format!("keep.c{c} += wl_lanes_count({who});\n")
                } else {
                    format!("keep.c{c} += UINT64_C({n}) * wl_lanes_count({who});\n")
                });
            }
            _ => {
                let text = self.text(&value)?;
                self.sums.insert(c);
                self.out.push_str(&format!("sums_{c} = wl_lanes_more(sums_{c}, {who}, {text});\n"));
            }
        }
        Some(())
    }

    /// What was looked up for the batch: of the exact table nothing, as it has no entries where
    /// lanes run.
    fn lookup(&mut self, table: TableId, key: &Expr, dst: LocalId, when: &Mask) -> Option<()> {
        let a = self.ahead?;
        let is = |u: &Option<KeySite>| u.as_ref().is_some_and(|u| std::ptr::eq(u.site, key));
        let (id, who) = (table.0, self.truth_text(when));
        self.out.push_str(&format!("keep.asked_{id} += (uint64_t)wl_lanes_count({who}) << 32;\n"));
        let m = self.g.m;
        let t = &m.tables[table.index()];
        if is(&a.exact) {
            let none =
                self.zero(self.g.m.types.iter().position(|x| *x == Ty::Option(t.value)).map(|n| TyId(n as u32))?);
            return self.set(dst, none, when);
        }
        if !is(&a.masked) {
            return None;
        }
        let entry = self.named("entries", "wl_lanes", "wl_lanes_load(entry + k)".into());
        let there = self.bits(format!("wl_lanes_eq({entry}, wl_lanes_set(UINT32_MAX)) ^ WL_LANES_ALL"));
        let found = self.and(&there, when);
        let text = self.truth_text(&found);
        let hits = self.named("hits", "uint64_t", format!("wl_lanes_count({text})"));
        self.out.push_str(&format!("keep.asked_{id} += {hits} - ({hits} << 32);\n"));
        let value = self.stored(table, t.value, &entry, &text);
        self.set(dst, VectorValue::Maybe(there, Box::new(value)), when)
    }

    /// Values of entries, as far as they are small numbers.
    fn stored(&mut self, table: TableId, ty: TyId, entry: &str, who: &str) -> VectorValue {
        let m = self.g.m;
        if layout::has_bytes(m, ty) || packed(m, ty).is_none_or(|n| n > 256) {
            return VectorValue::Unknown;
        }
        let (c, name, members) = (self.g.cty(ty), names::table(m, table), self.g.members(ty));
        let mut load = |place: &str, ty: TyId| match m.ty(ty) {
            Ty::UInt(bits @ (8 | 16 | 32)) => {
                let at = self.named("w", "wl_lanes", format!("wl_lanes_at(wl_state(x)->{name}_value, {entry}, sizeof({c}), {place}, wl_state(x)->{name}.fresh, {who})"));
                let top = u64::MAX >> (64 - u32::from(*bits));
                if *bits == 32 {
                    return VectorValue::Word { name: at, least: 0, most: top };
                }
                self.word(format!("wl_lanes_and({at}, wl_lanes_set({top:#x}u))"), 0, top)
            }
            _ => VectorValue::Unknown,
        };
        match m.ty(ty) {
            Ty::Record(_) | Ty::Tuple(_) => {
                VectorValue::Record(members.into_iter().map(|(n, t)| load(&format!("offsetof({c}, {n})"), t)).collect())
            }
            _ => load("0", ty),
        }
    }
}
