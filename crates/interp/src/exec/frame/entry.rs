//! Entries of queues: what goes through a queue beside a frame. Their layout is that of
//! [`layout::Entry`].

use crate::env::Env;
use crate::exec::activation::Activation;
use crate::value::Value;
use wireloom_ir::*;
use wireloom_runtime::abi::{wl_core, wl_frame};

/// The fields that come or go with a packet.
pub type CarriedFields = Vec<(PacketFieldId, Value)>;

/// The entry of a frame of the batch at hand, or (None) that of a copy.
///
/// # Safety
/// The core is the program's own, and the frame is of its batch.
unsafe fn slot<'a>(m: &Module, core: *const wl_core, frame: Option<*const wl_frame>) -> Option<&'a mut [u8]> {
    let bytes = layout::entry_max(m) as usize;
    // SAFETY: by contract.
    unsafe {
        if bytes == 0 || (*core).entries.is_null() {
            return None;
        }
        let at = match frame {
            Some(f) => f.offset_from((*core).frames) * bytes as isize,
            None => -(bytes as isize),
        };
        Some(std::slice::from_raw_parts_mut((*core).entries.offset(at), bytes))
    }
}

/// How many bytes of a frame have come through its queue, and the state that it brings.
///
/// # Safety
/// As for [`slot`].
pub unsafe fn brought(m: &Module, core: *const wl_core, f: &wl_frame) -> (u32, CarriedFields) {
    let Some(carries) = m.carries(PortId(f.port.into())) else { return (f.n, Vec::new()) };
    // SAFETY: by contract.
    let slot = unsafe { slot(m, core, Some(f)) };
    let entry = slot.as_deref().unwrap_or_default();
    let fields = layout::Entry::of(m, carries).fields;
    let state = fields.iter().map(|f| (f.field, read(m, f.field, entry, *f))).collect();
    (carries.part.there(entry, f.n), state)
}

fn read(m: &Module, field: PacketFieldId, entry: &[u8], at: layout::EntryField) -> Value {
    let bytes = entry.get(at.at as usize..(at.at + at.bytes) as usize).unwrap_or_default();
    let mut wide = [0; 16];
    wide[..bytes.len()].copy_from_slice(bytes);
    match m.ty(m.packet[field.index()].ty) {
        Ty::Ip => Value::Ip(wide),
        Ty::Bool => Value::Bool(wide[0] != 0),
        // The low bytes come first, or last.
        ty => {
            let n = u128::from_ne_bytes(wide);
            let n = if cfg!(target_endian = "big") { n >> (8 * (16 - bytes.len())) } else { n };
            Value::Int(crate::value::int_type(ty).map_or(n, |(bits, _)| n & crate::value::mask(bits)))
        }
    }
}

/// Fills the entry of a frame that goes to a queue: that of the frame at hand if it is `moved`.
/// `n`: its bytes; `top`: where its headers end.
pub fn fill(
    m: &Module,
    a: &Activation,
    port: PortId,
    state: &CarriedFields,
    (moved, n, top): (Option<*const wl_frame>, u32, u32),
) {
    let Some(carries) = m.carries(port) else { return };
    // SAFETY: the core is the program's own while it runs.
    let Some(entry) = (unsafe { slot(m, a.core, moved) }) else { return };
    if let FramePart::Headers(behind) = carries.part {
        entry[..4].copy_from_slice(&n.min(top.saturating_add(behind)).to_ne_bytes())
    }
    for f in layout::Entry::of(m, carries).fields {
        let given = state.iter().find(|s| s.0 == f.field).map(|s| s.1.clone());
        let value = given.unwrap_or_else(|| begins_with(m, f.field));
        let bytes = &mut entry[f.at as usize..(f.at + f.bytes) as usize];
        match value {
            Value::Ip(ip) => bytes.copy_from_slice(&ip),
            v => {
                let n = v.as_int().unwrap_or(0);
                let all = if cfg!(target_endian = "big") { n << (8 * (16 - bytes.len())) } else { n }.to_ne_bytes();
                bytes.copy_from_slice(&all[..bytes.len()])
            }
        }
    }
}

/// The value of a field that nobody has written.
pub fn begins_with(m: &Module, field: PacketFieldId) -> Value {
    let init = &m.packet[field.index()].init;
    let env = Env::plain(m, &[]);
    env.eval(init).unwrap_or(Value::Int(0))
}
