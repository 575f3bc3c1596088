//! Sizes and offsets in frames that all backends share.

use crate::*;
use std::collections::BTreeSet;

/// The layers of a frame's unit that a program asks for anywhere, and the layers on the way to
/// them. Only these are parsed, and only mismatches in these are faults. A program with `on fault`
/// asks for all. Headers that are never there (see [`is_looked_for`]) are added where they could
/// stand.
pub fn needed_layers(m: &Module, u: UnitId) -> (BTreeSet<u32>, BTreeSet<u32>) {
    if m.unit(u).frame.is_none() {
        return Default::default();
    }
    let asked = asked_layers(m, u);
    let all = layers(m, u);
    let mut needed = leading_to(
        m,
        u,
        if m.handlers.iter().any(|h| h.on == On::Fault) { (0..all.len() as u32).collect() } else { asked.clone() },
    );
    let told = |n: &usize| {
        is_refused(m, all[*n].unit) && (0..all[*n].after.len()).any(|i| is_looked_for(m, all, &needed, *n, i))
    };
    let told: Vec<u32> = (0..all.len()).filter(told).map(|n| n as u32).collect();
    needed.extend(told);
    (asked, needed)
}

/// Whether a needed header is looked for by its `after` number `i`. A header that its own rules
/// always refuse marks frames that are not parsed further (LLC). It matters where the program looks
/// for others behind the same header.
pub fn is_looked_for(m: &Module, layers: &[Layer], needed: &BTreeSet<u32>, n: usize, i: usize) -> bool {
    let here = layers[n].after[i].layer;
    let other =
        |k: &u32| !is_refused(m, layers[*k as usize].unit) && layers[*k as usize].after.iter().any(|a| a.layer == here);
    !is_refused(m, layers[n].unit) || needed.iter().any(other)
}

/// Whether no bytes are such a header: its conditions contradict each other.
pub fn is_refused(m: &Module, header: UnitId) -> bool {
    let header = m.unit(header);
    header.body.iter().any(|f| {
        let FieldKind::Require { cond } = &header.fields[f.index()].kind else { return false };
        matches!(&*cond.kind, ExprKind::Binary(BinOp::Ne, a, b) if a == b)
    })
}

fn layers(m: &Module, u: UnitId) -> &[Layer] {
    m.unit(u).frame.as_ref().map_or(&[], |f| &f.layers)
}

#[allow(clippy::wildcard_enum_match_arm, reason = "a few kinds of many are looked for")]
fn asked_layers(m: &Module, u: UnitId) -> BTreeSet<u32> {
    let layers = layers(m, u);
    let mut asked = BTreeSet::new();
    let mut all = false;
    let by_field = |f: FieldId| layers.iter().position(|l| l.switch == f || l.header == f).map(|n| n as u32);
    m.bodies(&mut |body| {
        let is = |l: LocalId| body.locals.get(l.index()).is_some_and(|l| *m.ty(l.ty) == Ty::Msg(u));
        walk::block_exprs(&body.block, &mut |e| match &*e.kind {
            ExprKind::Payload(l, None) if is(*l) => all = true,
            ExprKind::Payload(l, Some(n)) | ExprKind::ChecksumOk(l, n) if is(*l) => {
                asked.insert(*n);
            }
            _ => {
                if let Some(Path { root: Root::Local(l), steps }) = walk::path_of(e) {
                    if let (true, Some(Step::Field(f))) = (is(*l), steps.first()) {
                        asked.extend(by_field(*f))
                    }
                }
            }
        });
        walk::stmts(&body.block, &mut |s| match &s.kind {
            StmtKind::Frame { frame, act } if is(*frame) => match act {
                // The place of a change must be known, with the headers that cover it: the headers
                // on the way there.
                FrameAct::Insert { before: Some(n), .. }
                | FrameAct::Remove { layer: n }
                | FrameAct::Payload { layer: Some(n), .. } => {
                    asked.insert(*n);
                }
                FrameAct::Insert { before: None, .. } | FrameAct::Payload { layer: None, .. } => all = true,
                FrameAct::Set { layer, .. } => {
                    asked.insert(*layer);
                    asked.extend(summed_with(m, layers, *layer))
                }
                FrameAct::Swap { layer, .. } | FrameAct::Checksum { layer } => {
                    asked.insert(*layer);
                }
                FrameAct::InC { .. }
                | FrameAct::Parse
                | FrameAct::Send { .. }
                | FrameAct::Save { .. }
                | FrameAct::Restore { .. } => {}
            },
            _ => {}
        });
    });
    for e in m.steer.iter().filter(|s| s.unit == u).flat_map(|s| &s.keys) {
        walk::expr(e, &mut |e| {
            if let Some(Path { root: Root::Local(LocalId(0)), steps }) = walk::path_of(e) {
                if let Some(Step::Field(f)) = steps.first() {
                    asked.extend(by_field(*f))
                }
            }
        });
    }
    if all {
        (0..layers.len() as u32).collect()
    } else {
        asked
    }
}

/// Layers, the layers before them, and the layers that may be in place of any.
fn leading_to(m: &Module, u: UnitId, mut needed: BTreeSet<u32>) -> BTreeSet<u32> {
    let layers = layers(m, u);
    loop {
        let mut more: BTreeSet<u32> =
            needed.iter().flat_map(|n| layers[*n as usize].after.iter().filter_map(|a| a.layer)).collect();
        for n in &needed {
            let n = *n as usize;
            more.extend((0..layers[n].after.len()).flat_map(|i| alternatives(m, layers, n, i)).map(|k| k as u32));
        }
        if more.is_subset(&needed) {
            return needed;
        }
        needed.extend(more);
    }
}

/// Layers whose checksum a change in this one may touch.
fn summed_with(m: &Module, layers: &[Layer], layer: u32) -> Vec<u32> {
    let over = |l: &Layer| m.unit(l.unit).header.checksum.map(|c| c.over);
    let addresses = m.unit(layers[layer as usize].unit).header.addresses.is_some();
    (0..layers.len() as u32)
        .filter(|n| *n != layer && matches!(over(&layers[*n as usize]), Some(Over::Message | Over::Transport { .. })))
        .filter(|n| (addresses && leads_to(layers, layer, *n)) || leads_to(layers, *n, layer))
        .collect()
}

/// Whether header `from` can be followed, directly or not, by `to`. Each header is looked at once,
/// since many ways may lead to it.
pub fn leads_to(layers: &[Layer], from: u32, to: u32) -> bool {
    let (mut seen, mut left) = (BTreeSet::from([to]), vec![to]);
    while let Some(n) = left.pop() {
        for k in layers[n as usize].after.iter().filter_map(|a| a.layer) {
            if k == from {
                return true;
            }
            if seen.insert(k) {
                left.push(k)
            }
        }
    }
    false
}

/// Bytes by which a field moves the position; of bit fields only the last one of a group does.
pub fn step(m: &Module, f: &Field) -> u32 {
    match &f.kind {
        FieldKind::UInt { bytes, advance, .. } => {
            if *advance {
                u32::from(*bytes)
            } else {
                0
            }
        }
        FieldKind::Number { .. }
        | FieldKind::Varint { .. }
        | FieldKind::Bytes { .. }
        | FieldKind::Literal { .. }
        | FieldKind::Flag { .. }
        | FieldKind::Unit { .. }
        | FieldKind::List { .. }
        | FieldKind::StreamBytes { .. }
        | FieldKind::StreamUnit { .. }
        | FieldKind::Switch { .. }
        | FieldKind::Let { .. }
        | FieldKind::Require { .. }
        | FieldKind::Recover { .. }
        | FieldKind::Pass { .. }
        | FieldKind::Align { .. }
        | FieldKind::Nothing => field_size(m, f).unwrap_or(0),
    }
}

/// Bytes that a field takes, if that is always the same.
#[allow(clippy::wildcard_enum_match_arm, reason = "a few kinds of many are looked for")]
pub fn field_size(m: &Module, f: &Field) -> Option<u32> {
    Some(match &f.kind {
        FieldKind::UInt { bytes, .. } => u32::from(*bytes),
        FieldKind::Bytes { extent: Extent::Length(e), .. } => match &*e.kind {
            ExprKind::Int(n) => u32::try_from(*n).ok()?,
            _ => return None,
        },
        FieldKind::Literal { values } => values.first().map_or(0, |v| v.len() as u32),
        FieldKind::Unit { unit, .. } => m
            .unit(*unit)
            .body
            .iter()
            .map(|f| {
                let f = &m.unit(*unit).fields[f.index()];
                field_size(m, f).map(|_| step(m, f))
            })
            .sum::<Option<u32>>()?,
        FieldKind::Let { .. }
        | FieldKind::Require { .. }
        | FieldKind::Recover { .. }
        | FieldKind::Pass { .. }
        | FieldKind::Nothing => 0,
        FieldKind::Number { .. }
        | FieldKind::Varint { .. }
        | FieldKind::Bytes { .. }
        | FieldKind::Flag { .. }
        | FieldKind::List { .. }
        | FieldKind::StreamBytes { .. }
        | FieldKind::StreamUnit { .. }
        | FieldKind::Switch { .. }
        | FieldKind::Align { .. } => return None,
    })
}

/// Offset of a field that only fields of fixed size precede.
pub fn fixed_offset(m: &Module, u: UnitId, field: FieldId) -> Option<u32> {
    let mut at = 0;
    for f in &m.unit(u).body {
        if *f == field {
            return Some(at);
        }
        let f = &m.unit(u).fields[f.index()];
        field_size(m, f)?;
        at += step(m, f);
    }
    None
}

/// The bit that says whether a header has its checksum: the offset of its byte, and its mask. None:
/// the checksum is always there.
pub fn checksum_flag(m: &Module, u: UnitId) -> Option<(u32, u8)> {
    let f = m.unit(u).header.checksum?.when?;
    let FieldKind::UInt { bytes, shift, big, .. } = m.unit(u).fields[f.index()].kind else { return None };
    let byte = u32::from(shift) / 8;
    let byte = if big { u32::from(bytes).checked_sub(1 + byte)? } else { byte };
    Some((fixed_offset(m, u, f)? + byte, 1 << (shift % 8)))
}

/// Whether two headers cannot both begin at one place: they ask for different values of the same
/// bits.
pub fn contradict(m: &Module, a: UnitId, b: UnitId) -> bool {
    let (a, b) = (asked(m, a), asked(m, b));
    a.iter().any(|(bits, x)| b.iter().any(|(other, y)| bits == other && disjoint(x, y)))
}

/// Whether another header is tried where this one, which was expected by its `after` number `i`,
/// does not fit: then that is no fault.
pub fn has_alternative(m: &Module, layers: &[Layer], n: usize, i: usize) -> bool {
    alternatives(m, layers, n, i).next().is_some()
}

/// The later headers that are expected at the same place as a header by its `after` number `i`. At
/// most one of them can be there.
pub fn alternatives<'a>(m: &'a Module, layers: &'a [Layer], n: usize, i: usize) -> impl Iterator<Item = usize> + 'a {
    let (own, unit) = (&layers[n].after[i], layers[n].unit);
    let same = |a: &After| a.layer == own.layer && (a.cond.is_none() || a.cond == own.cond);
    (n + 1..layers.len()).filter(move |k| layers[*k].after.iter().any(same) && contradict(m, unit, layers[*k].unit))
}

/// Bits (first one, number) of a header, and the values that they may have.
type Asked<'m> = ((u32, u32), &'m [(u64, u64)]);

fn asked(m: &Module, u: UnitId) -> Vec<Asked<'_>> {
    let of = |f: &FieldId| {
        let field = &m.unit(u).fields[f.index()];
        let FieldKind::UInt { bytes, shift, bits, big, .. } = field.kind else { return None };
        let ranges = field.within.as_deref().filter(|_| big || bytes == 1)?;
        let first = fixed_offset(m, u, *f)? * 8 + u32::from(bytes) * 8 - u32::from(shift) - u32::from(bits);
        Some(((first, u32::from(bits)), ranges))
    };
    m.unit(u).body.iter().filter_map(of).collect()
}

/// Whether two conditions cannot both hold: both ask a value of the same field, and not the same
/// one.
pub fn exclusive(a: &Expr, b: &Expr) -> bool {
    if let ExprKind::Binary(BinOp::Or, x, y) = &*a.kind {
        return exclusive(x, b) && exclusive(y, b);
    }
    if let ExprKind::Binary(BinOp::Or, x, y) = &*b.kind {
        return exclusive(a, x) && exclusive(a, y);
    }
    let (mut x, mut y) = (Vec::new(), Vec::new());
    demands(a, &mut x);
    demands(b, &mut y);
    x.iter().any(|(field, r)| y.iter().any(|(other, s)| field == other && disjoint(r, s)))
}

/// The demands of all parts of a condition: a field, and the ranges of its values.
#[allow(clippy::wildcard_enum_match_arm, reason = "a few kinds of many are looked for")]
fn demands<'e>(e: &'e Expr, out: &mut Vec<(&'e Path, Vec<(u64, u64)>)>) {
    use BinOp::*;
    let number = |e: &Expr| match &*e.kind {
        ExprKind::Int(n) => u64::try_from(*n).ok(),
        _ => None,
    };
    let field = |e: &'e Expr| match &*e.kind {
        ExprKind::Read(p) => Some(p),
        _ => None,
    };
    match &*e.kind {
        ExprKind::Binary(And, a, b) => {
            demands(a, out);
            demands(b, out)
        }
        ExprKind::Binary(op @ (Eq | Ne), a, b) => {
            if let (Some(p), Some(n)) = (field(a).or(field(b)), number(a).or(number(b))) {
                let others = [n.checked_sub(1).map(|n| (0, n)), n.checked_add(1).map(|n| (n, u64::MAX))];
                out.push((p, if *op == Eq { vec![(n, n)] } else { others.into_iter().flatten().collect() }))
            }
        }
        ExprKind::Binary(Lt, a, b) => {
            if let (Some(p), Some(n)) = (field(a), number(b)) {
                out.push((p, n.checked_sub(1).map(|n| (0, n)).into_iter().collect()))
            }
        }
        ExprKind::InRanges(a, ranges) => {
            if let Some(p) = field(a) {
                out.push((p, ranges.clone()))
            }
        }
        _ => {}
    }
}

fn disjoint(a: &[(u64, u64)], b: &[(u64, u64)]) -> bool {
    a.iter().all(|x| b.iter().all(|y| x.1 < y.0 || y.1 < x.0))
}

/// The fields of frames that expressions read, as their owner names them.
pub trait HeaderReads {
    /// Names a frame.
    type View: PartialEq;

    /// The field of a header that a path leads to.
    fn header_field(&mut self, path: &Path) -> Option<HeaderField<Self::View>>;

    /// The field of a whole frame that a path leads to, and the frame's unit.
    fn frame_field(&mut self, path: &Path) -> Option<(Self::View, UnitId, FieldId)>;
}

/// A field of a header, of a unit of frames.
pub struct HeaderField<V> {
    pub view: V,
    pub frame: UnitId,
    pub layer: u32,
    pub field: FieldId,
}

/// An integer that is the same field of whichever of several headers is there.
pub struct EitherHeader<'e, V> {
    pub view: V,
    /// Offset in each of the headers.
    pub at: u32,
    pub field: FieldKind,
    /// The headers that are asked for.
    pub layers: Vec<u32>,
    /// The header that is there if none of the others is.
    pub last: Option<u32>,
    /// The value if none of the headers is there.
    pub rest: &'e Expr,
}

/// A field at one offset in each of several headers, such as the ports of TCP and UDP. One load
/// reads whichever is there, without a branch. None: it is another expression, or the frame's unit
/// is not `branch_free`.
pub fn either_header<'e, R: HeaderReads>(m: &Module, reads: &mut R, e: &'e Expr) -> Option<EitherHeader<'e, R::View>> {
    let ExprKind::If(_, yes, _) = &*e.kind else { return None };
    let (_, view, at, field) = fixed_read(m, reads, yes)?;
    if !matches!(field, FieldKind::UInt { .. }) || !is_branch_free(m, reads, yes) {
        return None;
    }
    let (mut list, mut rest) = (Vec::new(), e);
    while let ExprKind::If(cond, yes, no) = &*rest.kind {
        let same = fixed_read(m, reads, yes).filter(|f| (&f.1, f.2, &f.3) == (&view, at, &field));
        match same.zip(asked_for(m, reads, cond)) {
            Some(((layer, ..), (other, of))) if layer == other && of == view => list.push(layer),
            _ => break,
        }
        rest = no
    }
    let last = fixed_read(m, reads, rest).filter(|f| (&f.1, f.2, &f.3) == (&view, at, &field)).map(|f| f.0);
    let enough = !list.is_empty() && list.len() + usize::from(last.is_some()) >= 2;
    enough.then_some(EitherHeader { view, at, field, layers: list, last, rest })
}

fn is_branch_free<R: HeaderReads>(m: &Module, reads: &mut R, e: &Expr) -> bool {
    let ExprKind::Read(path) = &*e.kind else { return false };
    let frame = reads.header_field(path).map(|f| f.frame);
    frame.and_then(|u| m.unit(u).frame.as_ref()).is_some_and(|f| f.branch_free)
}

/// A field at a constant offset of a header: the header, the frame, the offset and the field.
fn fixed_read<R: HeaderReads>(m: &Module, reads: &mut R, e: &Expr) -> Option<(u32, R::View, u32, FieldKind)> {
    let ExprKind::Read(path) = &*e.kind else { return None };
    let HeaderField { view, frame, layer, field } = reads.header_field(path)?;
    let header = layers(m, frame).get(layer as usize)?.unit;
    let at = fixed_offset(m, header, field)?;
    Some((layer, view, at, m.unit(header).fields[field.index()].kind.clone()))
}

/// The header that a condition asks for.
fn asked_for<R: HeaderReads>(m: &Module, reads: &mut R, cond: &Expr) -> Option<(u32, R::View)> {
    let ExprKind::Case(switch, 0) = &*cond.kind else { return None };
    let (view, frame, f) = reads.frame_field(switch)?;
    let layer = layers(m, frame).iter().position(|l| l.switch == f)?;
    Some((layer as u32, view))
}
