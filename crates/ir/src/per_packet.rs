//! Fields that differ from packet to packet of one flow.

use crate::walk;
use crate::{Expr, FieldId, FieldKind, Path, Root, Step, Unit};

impl Unit {
    /// Whether a field differs between the packets of a flow.
    pub fn is_per_packet(&self, field: FieldId) -> bool {
        let h = &self.header;
        let mut differs: Vec<bool> = Vec::with_capacity(field.index() + 1);
        for (n, f) in self.fields.iter().enumerate().take(field.index() + 1) {
            let id = FieldId(n as u32);
            let itself = h.per_packet.contains(&id)
                || h.checksum.is_some_and(|c| c.field == id)
                || h.covers.is_some_and(|c| c.field == id);
            differs.push(itself || matches!(&f.kind, FieldKind::Let { value } if reads_one_of(value, &differs)));
        }
        differs.last() == Some(&true)
    }
}

/// Whether a computed field reads one of the marked fields before it.
fn reads_one_of(value: &Expr, marked: &[bool]) -> bool {
    let mut found = false;
    walk::expr(value, &mut |e| {
        let Some(Path { root: Root::This, steps }) = walk::path_of(e) else { return };
        if let Some(Step::Field(f)) = steps.first() {
            found |= marked.get(f.index()) == Some(&true)
        }
    });
    found
}
