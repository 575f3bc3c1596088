//! Changes of a frame: fields, headers, the payload. Lengths and checksums around follow.

use super::checksum::{covered, fix, fold, is_optional, place, range, sum};
use super::{moved, shift_node, Frame};
use crate::stop::{internal, Res};
use crate::value::{mask, Value};
use wireloom_ir::frame::{field_size, fixed_offset, leads_to};
use wireloom_ir::*;

/// Part of a built frame: its header's unit, if it is one, and its bytes.
pub type Built = Vec<(Option<UnitId>, Vec<u8>)>;

fn set_number(bytes: &mut [u8], mut n: u64) {
    for b in bytes.iter_mut().rev() {
        *b = n as u8;
        n >>= 8;
    }
}

/// A length of `bytes` bytes that is `by` more than it was. It stays within its field.
fn length(was: u64, by: i64, bytes: usize) -> u64 {
    was.saturating_add_signed(by).min(if bytes < 8 { (1 << (8 * bytes)) - 1 } else { u64::MAX })
}

/// Fills in lengths and checksums of new headers; `behind` is the payload of all, `net` a network
/// header before them. So many bytes of the payload are missing.
pub(super) fn finish(
    m: &Module,
    parts: &Built,
    built: &mut Vec<u8>,
    behind: &[u8],
    missing: usize,
    net: Option<(UnitId, &[u8])>,
) {
    let n = built.len();
    let starts: Vec<usize> = parts
        .iter()
        .scan(0, |at, p| {
            let here = *at;
            *at += p.1.len();
            Some(here)
        })
        .collect();
    let next = |i: usize| starts.get(i + 1).copied().unwrap_or(n);
    built.extend_from_slice(behind);
    let end = built.len();
    for (i, (unit, _)) in parts.iter().enumerate() {
        let Some((u, c)) = unit.and_then(|u| Some((u, m.unit(u).header.covers?))) else { continue };
        let Some(r) = range(m, u, c.field) else { continue };
        let at = starts[i];
        let n = end - if c.own { at } else { next(i) };
        let n = length(n as u64, missing as i64, r.len());
        set_number(&mut built[at + r.start..at + r.end], n);
    }
    for (i, (unit, _)) in parts.iter().enumerate().rev() {
        let Some((u, c)) = unit.and_then(|u| Some((u, m.unit(u).header.checksum?))) else { continue };
        let (Some(r), at) = (place(m, u, &built[starts[i]..next(i)]), starts[i]) else { continue };
        built[at + r.start..at + r.end].fill(0);
        if missing > 0 && c.over != Over::Header {
            continue;
        }
        let inner = (0..i).rev().find_map(|j| {
            parts[j].0.filter(|u| m.unit(*u).header.addresses.is_some()).map(|u| (u, built[starts[j]..].to_vec()))
        });
        let net = inner.as_ref().map(|(u, b)| (*u, b.as_slice())).or(net);
        let mut fresh = !fold(covered(m, &c, &built[at..next(i)], &built[at..end], net));
        if fresh == 0 && matches!(c.over, Over::Transport { .. }) {
            fresh = 0xffff;
        }
        built[at + r.start..at + r.end].copy_from_slice(&fresh.to_be_bytes());
    }
    built.truncate(n);
}

impl Frame {
    pub(super) fn set(&mut self, m: &Module, layer: usize, f: FieldId, value: &Value) -> Res<()> {
        let unit = self.unit_of(m, layer);
        let (def, all) = (m.unit(unit), m.unit(self.unit).frame.as_ref().map_or(&[][..], |f| &f.layers));
        let Some((at, start, end)) = self.layers[layer].as_ref().and_then(|p| {
            let f = p.node.field(f)?;
            Some((p.at, f.start, f.end))
        }) else {
            return internal("a header that is not there");
        };
        let fixed = field_size(m, &def.fields[f.index()]);
        let size = fixed.map_or(end - start, |n| n as usize);
        let words = match fixed_offset(m, unit, f).filter(|_| fixed.is_some()) {
            Some(n) => {
                let n = n as usize;
                // The last byte of a frame may be the first one of its word.
                at + (n & !1)..(at + (n + size).next_multiple_of(2)).min(self.bytes.len())
            }
            None => start..start + size,
        };
        let was = sum(&self.bytes[words.clone()]);
        match (&def.fields[f.index()].kind, value) {
            (FieldKind::UInt { bytes, shift, bits, big, .. }, v) => {
                let (n, v) = (*bytes as usize, v.as_int().unwrap_or(0) & mask(*bits));
                let field = &mut self.bytes[start..start + n];
                if !big {
                    field.reverse()
                }
                let old = field.iter().fold(0u128, |a, b| a << 8 | u128::from(*b));
                let new = old & !(mask(*bits) << shift) | v << shift;
                field.copy_from_slice(&new.to_be_bytes()[16 - n..]);
                if !big {
                    field.reverse()
                }
            }
            (_, Value::Bytes(b)) if b.len() == size => self.bytes[start..start + size].copy_from_slice(b),
            _ => {}
        }
        let now = sum(&self.bytes[words]);
        self.reread(m, layer, f);
        let own = &def.header;
        if own.checksum.is_some_and(|c| c.field == f) {
            return Ok(());
        }
        if let Some(c) = own.checksum {
            let to = self.layers[layer].as_ref().map_or(at, |p| p.to);
            if let Some(r) = place(m, unit, &self.bytes[at..to]) {
                fix(&mut self.bytes[at + r.start..at + r.end], was, now, is_optional(&c));
                self.reread(m, layer, c.field);
            }
        }
        if own.addresses.is_some_and(|(a, b)| a == f || b == f) {
            for (n, other) in all.iter().enumerate() {
                let Some(c) = m.unit(other.unit).header.checksum.filter(|c| matches!(c.over, Over::Transport { .. }))
                else {
                    continue;
                };
                let Some(p) = self.layers[n].as_ref().filter(|p| p.net == Some(layer)) else { continue };
                let Some(r) = range(m, other.unit, c.field) else { continue };
                let place = p.at;
                fix(&mut self.bytes[place + r.start..place + r.end], was, now, is_optional(&c));
                self.reread(m, n, c.field);
            }
        }
        if (0..all.len() as u32).any(|n| leads_to(all, n, layer as u32)) {
            self.resum_around(m, layer, at);
        }
        Ok(())
    }

    pub(super) fn swap(&mut self, m: &Module, layer: usize, a: FieldId, b: FieldId) {
        let places = self.layers[layer].as_ref().and_then(|p| Some((p.node.field(a)?, p.node.field(b)?)));
        let Some((x, y)) = places.map(|(x, y)| (x.start..x.end, y.start..y.end)) else { return };
        let kept = self.bytes[x.clone()].to_vec();
        self.bytes.copy_within(y.clone(), x.start);
        self.bytes[y].copy_from_slice(&kept);
        self.reread(m, layer, a);
        self.reread(m, layer, b);
    }

    fn shift(&mut self, pos: usize, by: isize) {
        for p in self.layers.iter_mut().flatten() {
            if p.at >= pos {
                shift_node(&mut p.node, by);
                (p.at, p.to) = (moved(p.at, by), moved(p.to, by));
            }
            if p.lim >= pos {
                p.lim = moved(p.lim, by);
            }
        }
        if self.top >= pos {
            self.top = moved(self.top, by);
        }
        self.end = moved(self.end, by);
    }

    /// The bytes from `pos` on are `by` more: lengths around follow, outer ones first, then
    /// checksums.
    fn grown(&mut self, m: &Module, pos: usize, by: i64) {
        for n in 0..self.layers.len() {
            let unit = self.unit_of(m, n);
            let (Some(c), Some(p)) = (m.unit(unit).header.covers, &self.layers[n]) else { continue };
            if p.at >= pos || pos > p.lim {
                continue;
            }
            self.covers_grown(m, n, &c, by);
            self.reread(m, n, c.field);
            if let Some(c) = m.unit(unit).header.checksum {
                self.reread(m, n, c.field)
            }
        }
        self.resum_around(m, self.layers.len(), pos.saturating_sub(1));
    }

    /// The length that a header declares, and the bytes of its field.
    fn declared(&self, m: &Module, layer: usize) -> Option<(u64, std::ops::Range<usize>)> {
        let (unit, p) = (self.unit_of(m, layer), self.layers[layer].as_ref()?);
        let r = range(m, unit, m.unit(unit).header.covers?.field)?;
        let r = p.at + r.start..p.at + r.end;
        Some((self.bytes[r.clone()].iter().fold(0, |n, b| n << 8 | u64::from(*b)), r))
    }

    /// Bytes of the wire behind `end` that a capture has cut off, and which count as the payload of
    /// the headers that begin before `until`. It ends where the lengths of these headers say, or
    /// with the frame.
    fn missing(&self, m: &Module, until: usize, end: usize) -> usize {
        if self.beyond == 0 || end < self.bytes.len() {
            return 0;
        }
        let mut last = self.bytes.len() as u64 + u64::from(self.beyond);
        for (n, p) in self.layers.iter().enumerate() {
            let Some(p) = p.as_ref().filter(|p| p.at < until) else { continue };
            let Some(c) = m.unit(self.unit_of(m, n)).header.covers else { continue };
            match self.declared(m, n) {
                Some((0, _)) if c.own => {}
                Some((all, _)) => last = last.min(all.saturating_add(if c.own { p.at } else { p.to } as u64)),
                None => {}
            }
        }
        last.saturating_sub(end as u64) as usize
    }

    pub(super) fn layer_missing(&self, m: &Module, layer: usize) -> usize {
        self.layers[layer].as_ref().map_or(0, |p| self.missing(m, p.at + 1, p.lim))
    }

    /// The length of a header follows its payload, whatever it counts. One that was not given is
    /// that of what is there.
    fn covers_grown(&mut self, m: &Module, layer: usize, c: &Covers, by: i64) {
        let (Some((was, r)), Some(p)) = (self.declared(m, layer), &self.layers[layer]) else { return };
        let (at, to, lim, unit) = (p.at, p.to, p.lim, self.unit_of(m, layer));
        let own = m.unit(unit).header.checksum.filter(|c| c.over == Over::Header);
        let before = sum(&self.bytes[at..to]);
        let n = match was {
            0 if c.own => length((lim - at) as u64, self.layer_missing(m, layer) as i64, r.len()),
            _ => length(was, by, r.len()),
        };
        set_number(&mut self.bytes[r], n);
        let now = sum(&self.bytes[at..to]);
        if let Some(s) = own.and_then(|c| range(m, unit, c.field)) {
            fix(&mut self.bytes[at + s.start..at + s.end], before, now, false);
        }
    }

    pub(super) fn insert(&mut self, m: &Module, before: Option<u32>, parts: &Built) -> bool {
        let place = before.and_then(|n| self.layers[n as usize].as_ref());
        let (pos, around) = place.map_or((self.top, self.end), |p| (p.at, p.lim));
        let mut built = parts.iter().flat_map(|p| p.1.iter().copied()).collect::<Vec<u8>>();
        let n = built.len();
        if self.bytes.len() + n > 65535 || self.head + self.tail < n {
            return false;
        }
        let front = if self.head >= n {
            n
        } else if self.tail >= n {
            0
        } else {
            self.head
        };
        (self.head, self.tail) = (self.head - front, self.tail - (n - front));
        // The network header before the new ones.
        let net = (0..self.layers.len()).rev().find(|k| {
            self.layers[*k].as_ref().is_some_and(|p| p.to <= pos)
                && m.unit(self.unit_of(m, *k)).header.addresses.is_some()
        });
        let net = net.and_then(|k| Some((self.unit_of(m, k), self.bytes[self.layers[k].as_ref()?.at..].to_vec())));
        let behind = self.bytes[pos..around].to_vec();
        let missing = self.missing(m, place.map_or(usize::MAX, |p| p.at + 1), around);
        finish(m, parts, &mut built, &behind, missing, net.as_ref().map(|(u, b)| (*u, b.as_slice())));
        self.bytes.splice(pos..pos, built);
        self.shift(pos, n as isize);
        self.grown(m, pos, n as i64);
        true
    }

    pub(super) fn remove(&mut self, m: &Module, layer: usize) {
        let Some(p) = self.layers[layer].take() else { return };
        self.bytes.drain(p.at..p.to);
        self.head += p.to - p.at;
        self.shift(p.at, p.at as isize - p.to as isize);
        self.grown(m, p.at, p.at as i64 - p.to as i64);
    }

    pub(super) fn set_payload(&mut self, m: &Module, layer: Option<u32>, to: &[u8]) -> bool {
        let place = layer.and_then(|n| self.layers[n as usize].as_ref());
        let (pos, end) = place.map_or((self.top, self.end), |p| (p.to, p.lim));
        let by = to.len() as isize - (end - pos) as isize;
        if by > (self.head + self.tail) as isize || self.bytes.len() as isize + by > 65535 {
            return false;
        }
        let missing = self.missing(m, pos, end);
        let behind = by.min(self.tail as isize);
        (self.head, self.tail) = (moved(self.head, behind - by), moved(self.tail, -behind));
        self.bytes.splice(pos..end, to.iter().copied());
        self.beyond -= missing as u32;
        for p in self.layers.iter_mut().flatten() {
            if p.lim >= end {
                p.lim = moved(p.lim, by)
            }
        }
        (self.end, self.top) = (pos + to.len(), self.top.min(pos));
        for p in &mut self.layers {
            if p.as_ref().is_some_and(|p| p.at >= pos) {
                *p = None
            }
        }
        self.grown(m, pos, by as i64 - missing as i64);
        true
    }
}
