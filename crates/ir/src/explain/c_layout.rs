//! Sizes of values in generated C.

use crate::*;

/// Size and alignment of a value in C, if it has a fixed size.
pub(super) fn c_layout(m: &Module, ty: TyId) -> Option<(u64, u64)> {
    let all = |members: &[TyId]| {
        let (mut size, mut align) = (0u64, 1);
        for t in members {
            let (n, a) = c_layout(m, *t)?;
            size = size.next_multiple_of(a) + n;
            align = align.max(a);
        }
        Some((size.next_multiple_of(align), align))
    };
    match m.ty(ty) {
        Ty::Unit | Ty::Bool => Some((1, 1)),
        Ty::UInt(b) | Ty::Int(b) => Some((layout::int_bytes(*b), layout::int_bytes(*b))),
        Ty::Ip => Some((16, 1)),
        Ty::Endpoint => Some((20, 2)),
        Ty::Option(t) => {
            let (n, a) = c_layout(m, *t)?;
            Some(((a + n).next_multiple_of(a), a))
        }
        Ty::Record(r) => all(&m.records[r.index()].fields.iter().map(|f| f.1).collect::<Vec<_>>()),
        Ty::Tuple(ts) => all(ts),
        Ty::Bytes(_) | Ty::List(..) | Ty::Msg(_) => None,
    }
}
