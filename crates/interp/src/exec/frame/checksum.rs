//! The checksums of headers (RFC 1071, RFC 1624).

use super::Frame;
use wireloom_ir::frame::{checksum_flag, field_size, fixed_offset};
use wireloom_ir::*;

pub(super) fn sum(bytes: &[u8]) -> u64 {
    let mut chunks = bytes.chunks_exact(2);
    let all: u64 = chunks.by_ref().map(|c| u64::from(u16::from_be_bytes([c[0], c[1]]))).sum();
    all + chunks.remainder().first().map_or(0, |b| u64::from(*b) << 8)
}

pub(super) fn fold(mut s: u64) -> u16 {
    while s >> 16 != 0 {
        s = (s & 0xffff) + (s >> 16);
    }
    s as u16
}

pub(super) fn range(m: &Module, u: UnitId, f: FieldId) -> Option<std::ops::Range<usize>> {
    let (at, n) = (fixed_offset(m, u, f)? as usize, field_size(m, &m.unit(u).fields[f.index()])? as usize);
    Some(at..at + n)
}

/// The checksum's sum over its bytes; `net` is the network header before it, with its unit.
pub(super) fn covered(m: &Module, c: &Checksum, header: &[u8], to_end: &[u8], net: Option<(UnitId, &[u8])>) -> u64 {
    match c.over {
        Over::Header => sum(header),
        Over::Message => sum(to_end),
        Over::Transport { protocol, .. } => {
            let pseudo = net.and_then(|(u, b)| {
                let (src, dst) = m.unit(u).header.addresses?;
                let at = |f| range(m, u, f).and_then(|r| b.get(r)).map_or(0, sum);
                let n = to_end.len() as u64;
                Some(at(src) + at(dst) + u64::from(protocol) + (n >> 16) + (n & 0xffff))
            });
            sum(to_end) + pseudo.unwrap_or(0)
        }
    }
}

/// Corrects a checksum (RFC 1624, equation 3).
pub(super) fn fix(at: &mut [u8], was: u64, now: u64, optional: bool) {
    let old = u16::from_be_bytes([at[0], at[1]]);
    if optional && old == 0 {
        return;
    }
    let fresh = !fold(u64::from(!old) + u64::from(!fold(was)) + u64::from(fold(now)));
    let fresh = if optional && fresh == 0 { 0xffff } else { fresh };
    at[..2].copy_from_slice(&fresh.to_be_bytes());
}

/// The place of a header's checksum in it. `header`: its bytes, whose flag may say that there is
/// none.
pub(super) fn place(m: &Module, u: UnitId, header: &[u8]) -> Option<std::ops::Range<usize>> {
    let at = fixed_offset(m, u, m.unit(u).header.checksum?.field)? as usize;
    let flagged = |(byte, mask): (u32, u8)| header.len() >= at + 2 && header[byte as usize] & mask != 0;
    checksum_flag(m, u).is_none_or(flagged).then_some(at..at + 2)
}

pub(super) fn is_optional(c: &Checksum) -> bool {
    matches!(c.over, Over::Transport { optional: true, .. })
}

impl Frame {
    fn sum_over(&self, m: &Module, layer: usize, c: &Checksum) -> u64 {
        let Some(p) = &self.layers[layer] else { return 0 };
        let net = p.net.and_then(|n| Some((self.unit_of(m, n), &self.bytes[self.layers[n].as_ref()?.at..])));
        covered(m, c, &self.bytes[p.at..p.to], &self.bytes[p.at..p.lim], net)
    }

    pub fn checksum_ok(&self, m: &Module, layer: usize) -> bool {
        let Some(c) = m.unit(self.unit_of(m, layer)).header.checksum else { return true };
        let Some(p) = &self.layers[layer] else { return false };
        let Some(r) = place(m, self.unit_of(m, layer), &self.bytes[p.at..p.to]) else { return true };
        if is_optional(&c) && self.bytes[p.at + r.start..][..2] == [0, 0] {
            return true;
        }
        fold(self.sum_over(m, layer, &c)) == 0xffff
    }

    /// Computes a header's checksum anew. That over bytes which a capture has cut off is not known:
    /// an optional one is absent then, another one stays.
    pub(super) fn resum(&mut self, m: &Module, layer: usize) {
        let unit = self.unit_of(m, layer);
        let Some(c) = m.unit(unit).header.checksum else { return };
        let Some(p) = &self.layers[layer] else { return };
        let (p, Some(r)) = (p.at, place(m, unit, &self.bytes[p.at..p.to])) else { return };
        if c.over != Over::Header && self.layer_missing(m, layer) > 0 {
            if is_optional(&c) {
                self.bytes[p + r.start..p + r.end].fill(0);
                self.reread(m, layer, c.field);
            }
            return;
        }
        self.bytes[p + r.start..p + r.end].fill(0);
        let mut fresh = !fold(self.sum_over(m, layer, &c));
        if fresh == 0 && matches!(c.over, Over::Transport { .. }) {
            fresh = 0xffff;
        }
        self.bytes[p + r.start..p + r.end].copy_from_slice(&fresh.to_be_bytes());
        self.reread(m, layer, c.field);
    }

    /// After a change at `pos`: headers of layers below `layers` whose checksum covers it, inner
    /// ones first.
    pub(super) fn resum_around(&mut self, m: &Module, layers: usize, pos: usize) {
        for n in (0..layers).rev() {
            let unit = self.unit_of(m, n);
            let (Some(c), Some(p)) = (m.unit(unit).header.checksum, self.layers[n].as_ref()) else { continue };
            if c.over == Over::Header || pos < p.at || pos > p.lim {
                continue;
            }
            let Some(r) = place(m, unit, &self.bytes[p.at..p.to]) else { continue };
            if is_optional(&c) && self.bytes[p.at + r.start..][..2] == [0, 0] {
                continue;
            }
            self.resum(m, n);
        }
    }
}
