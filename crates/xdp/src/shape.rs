//! The form of a table's keys or values in the hook. It is as the canonical form, but with room for
//! as many bytes as there may be, behind their length.

use wireloom_ir::placement::canonical_size;
use wireloom_ir::{layout, Module, Ty, TyId};

/// Parts of a key or value, in order.
pub struct Shape(Vec<Part>);

enum Part {
    /// So many bytes, the same in both forms.
    Plain(usize),
    /// A length in four bytes, little endian, and at most so many bytes.
    Bytes(usize),
}

const LENGTH: usize = 4;

impl Shape {
    pub fn of(m: &Module, ty: TyId) -> Shape {
        let mut parts = Vec::new();
        add(m, ty, &mut parts);
        Shape(parts)
    }

    /// From the canonical form to that in the hook.
    pub fn spread(&self, mut form: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        for part in &self.0 {
            match part {
                Part::Plain(n) => out.extend_from_slice(take(&mut form, *n)),
                Part::Bytes(most) => {
                    let length = take(&mut form, LENGTH);
                    let bytes = take(&mut form, number(length));
                    out.extend_from_slice(length);
                    out.extend_from_slice(bytes);
                    out.resize(out.len() + most.saturating_sub(bytes.len()), 0);
                }
            }
        }
        out.extend_from_slice(form);
        out
    }

    /// From the form in the hook to the canonical one.
    pub fn gather(&self, mut form: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        for part in &self.0 {
            match part {
                Part::Plain(n) => out.extend_from_slice(take(&mut form, *n)),
                Part::Bytes(most) => {
                    let length = take(&mut form, LENGTH);
                    let (bytes, n) = (take(&mut form, *most), number(length));
                    out.extend_from_slice(length);
                    out.extend_from_slice(&bytes[..n.min(bytes.len())]);
                }
            }
        }
        out.extend_from_slice(form);
        out
    }
}

fn add(m: &Module, ty: TyId, parts: &mut Vec<Part>) {
    match m.ty(ty) {
        Ty::Bytes(most) => parts.push(Part::Bytes(*most as usize)),
        Ty::Record(r) if layout::has_bytes(m, ty) => {
            m.records[r.index()].fields.iter().for_each(|f| add(m, f.1, parts));
        }
        Ty::Tuple(ts) if layout::has_bytes(m, ty) => ts.iter().for_each(|t| add(m, *t, parts)),
        Ty::Unit
        | Ty::Bool
        | Ty::UInt(_)
        | Ty::Int(_)
        | Ty::Endpoint
        | Ty::Ip
        | Ty::Option(_)
        | Ty::List(..)
        | Ty::Record(_)
        | Ty::Tuple(_)
        | Ty::Msg(_) => parts.push(Part::Plain(canonical_size(m, ty))),
    }
}

fn take<'a>(form: &mut &'a [u8], n: usize) -> &'a [u8] {
    let (a, rest) = form.split_at(n.min(form.len()));
    *form = rest;
    a
}

fn number(length: &[u8]) -> usize {
    length.iter().rev().fold(0, |n, b| n << 8 | usize::from(*b))
}

#[cfg(test)]
mod tests {
    use super::{Part, Shape};

    #[test]
    fn bytes_have_room_for_the_most() {
        let shape = Shape(vec![Part::Plain(2), Part::Bytes(5), Part::Plain(1)]);
        let canonical = [1, 2, 3, 0, 0, 0, b'a', b'b', b'c', 9];
        let spread = shape.spread(&canonical);
        assert_eq!(spread, [1, 2, 3, 0, 0, 0, b'a', b'b', b'c', 0, 0, 9]);
        assert_eq!(shape.gather(&spread), canonical);
        // A length from memory that changes meanwhile.
        assert_eq!(shape.gather(&[0, 0, 255, 255, 255, 255, 1, 2, 3, 4, 5, 6]).len(), 12);
    }
}
