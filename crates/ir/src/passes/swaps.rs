//! Two fields of a header that change places, as one act.
//!
//! In: a field that is kept in a local, set to another one, which is then set to the local. Out:
//! [`FrameAct::Swap`] in the place of these three statements. A checksum over both fields is the
//! same behind it: sums of pairs of bytes (RFC 1071, section 2) do not depend on their order.

#![allow(clippy::wildcard_enum_match_arm, reason = "its functions look for one kind of many")]

use crate::frame::{field_size, fixed_offset};
use crate::*;
use std::collections::HashMap;

pub fn run(m: &mut Module) {
    let mut all = Vec::new();
    m.bodies(&mut |body| all.push(Exchanges::of(m, body)));
    let mut all = all.into_iter();
    m.bodies_mut(&mut |body| {
        if let Some(found) = all.next().filter(|p| !p.swaps.is_empty()) {
            found.apply(&mut body.block)
        }
    });
}

/// The swaps of a body, by the local that keeps the first field.
struct Exchanges {
    swaps: HashMap<LocalId, FrameAct>,
}

impl Exchanges {
    fn of(m: &Module, body: &Body) -> Exchanges {
        let mut uses: HashMap<LocalId, u32> = HashMap::new();
        let mut use_of = |l: LocalId| *uses.entry(l).or_default() += 1;
        walk::stmts(&body.block, &mut |s| {
            walk::stmt_locals_read(&s.kind, &mut use_of);
            walk::defined(&s.kind).into_iter().flatten().for_each(&mut use_of);
        });
        let mut swaps = HashMap::new();
        blocks(&body.block, &mut |block| {
            for three in block.windows(3) {
                // Set once, and read once.
                if let Some((l, act)) = swap(m, body, three).filter(|(l, _)| uses.get(l) == Some(&2)) {
                    swaps.insert(l, act);
                }
            }
        });
        Exchanges { swaps }
    }

    fn apply(&self, block: &mut Block) {
        let mut at = 0;
        while at < block.len() {
            let act = match &block[at].kind {
                StmtKind::Set(l, _) => self.swaps.get(l),
                _ => None,
            };
            if let Some(act) = act {
                block.drain(at..at + 2);
                if let StmtKind::Frame { act: old, .. } = &mut block[at].kind {
                    *old = act.clone()
                }
            }
            walk::stmt_blocks_mut(&mut block[at].kind, &mut |b| self.apply(b));
            at += 1;
        }
    }
}

fn blocks(block: &Block, f: &mut dyn FnMut(&Block)) {
    f(block);
    for s in block {
        walk::stmt_blocks(&s.kind, &mut |b| blocks(b, f))
    }
}

/// The act that three statements are together, and the local between them.
fn swap(m: &Module, body: &Body, three: &[Stmt]) -> Option<(LocalId, FrameAct)> {
    let [Stmt { kind: StmtKind::Set(l, kept), .. }, Stmt { kind: StmtKind::Frame { frame, act: FrameAct::Set { layer, field: a, value: other } }, .. }, Stmt {
        kind: StmtKind::Frame { frame: second, act: FrameAct::Set { layer: below, field: b, value: back } },
        ..
    }] = three
    else {
        return None;
    };
    let is_back = matches!(&*back.kind, ExprKind::Local(n) if n == l);
    if frame != second || layer != below || !is_back {
        return None;
    }
    let Ty::Msg(unit) = *m.ty(body.locals.get(frame.index())?.ty) else { return None };
    let header = parse_graph::layers(m, unit).get(*layer as usize)?;
    let reads = |e: &Expr, f: FieldId| match &*e.kind {
        ExprKind::Read(Path { root: Root::Local(r), steps }) => {
            r == frame && matches!(steps[..], [Step::Field(h), Step::Field(g)] if h == header.header && g == f)
        }
        _ => false,
    };
    let same = reads(kept, *a) && reads(other, *b) && keeps_sums(m, header.unit, *a, *b);
    same.then_some((*l, FrameAct::Swap { layer: *layer, a: *a, b: *b }))
}

/// The offsets of two fields in fixed places, and the size of the first.
pub fn places(m: &Module, header: UnitId, a: FieldId, b: FieldId) -> Option<[u32; 3]> {
    let size = field_size(m, &m.unit(header).fields[a.index()])?;
    Some([fixed_offset(m, header, a)?, fixed_offset(m, header, b)?, size])
}

/// Whether two fields are whole, of one size, in fixed places, and part of the same sums.
pub fn keeps_sums(m: &Module, header: UnitId, a: FieldId, b: FieldId) -> bool {
    let unit = m.unit(header);
    let whole = |f: FieldId| match unit.fields[f.index()].kind {
        FieldKind::UInt { bytes, shift: 0, bits, big, .. } if u32::from(bits) == 8 * u32::from(bytes) => {
            Some((bytes, big))
        }
        _ => None,
    };
    let is_address = |f: FieldId| unit.header.addresses.is_some_and(|(x, y)| f == x || f == y);
    let is_computed = |f: FieldId| {
        unit.header.checksum.is_some_and(|c| c.field == f) || unit.header.covers.is_some_and(|c| c.field == f)
    };
    let Some([x, y, _]) = places(m, header, a, b) else { return false };
    whole(a).is_some()
        && whole(a) == whole(b)
        && a != b
        && x.abs_diff(y) % 2 == 0
        && is_address(a) == is_address(b)
        && !is_computed(a)
        && !is_computed(b)
}
