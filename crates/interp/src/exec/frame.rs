//! Frames: the meaning of `packet` units, their headers, and the acts on them. `support/frame.h` is
//! the same for compiled code.

use super::activation::{Activation, Message};
use super::flatten::Code;
use crate::eval::{internal, Env, Res, Seen, Stop};
use crate::grammar::parse::{Halt, Parser};
use crate::grammar::tree::{Content, FieldNode, Node};
use crate::grammar::Grammar;
use crate::value::{MsgRef, Value};
use std::rc::Rc;
use wireloom_ir::frame::{contradict, field_size, fixed_offset, has_alternative, leads_to};
use wireloom_ir::*;
use wireloom_runtime::abi::*;

/// A header that is there. Positions count from the frame's first byte.
#[derive(Clone, Debug)]
struct FoundHeader {
    node: Node,
    at: usize,
    to: usize,
    /// Where its payload ends.
    lim: usize,
    /// The network header around it.
    net: Option<usize>,
}

/// The current frame.
#[derive(Clone, Debug)]
pub struct Frame {
    unit: UnitId,
    pub bytes: Vec<u8>,
    layers: Vec<Option<FoundHeader>>,
    end: usize,
    top: usize,
    pub instance: u32,
    pub time: u64,
    /// Of one that comes from a queue.
    pub mark: u32,
    /// Free bytes before and behind.
    pub head: usize,
    pub tail: usize,
    /// Bytes of the wire behind `end` on arrival: a capture has cut them off, or they lie too far
    /// behind for a header's length.
    cut: usize,
    /// Bytes behind `end` that lengths count, and a capture has cut off.
    miss: usize,
    /// Where the runtime's frame is.
    pub raw: *mut wl_frame,
    /// As it was before the elements that are under way changed it.
    kept: Vec<Frame>,
}

/// Part of a built frame: its header's unit, if it is one, and its bytes.
pub type Built = Vec<(Option<UnitId>, Vec<u8>)>;

fn sum(bytes: &[u8]) -> u64 {
    let mut chunks = bytes.chunks_exact(2);
    let all: u64 = chunks.by_ref().map(|c| u64::from(u16::from_be_bytes([c[0], c[1]]))).sum();
    all + chunks.remainder().first().map_or(0, |b| u64::from(*b) << 8)
}

fn fold(mut s: u64) -> u16 {
    while s >> 16 != 0 {
        s = (s & 0xffff) + (s >> 16);
    }
    s as u16
}

fn set_number(bytes: &mut [u8], mut n: usize) {
    for b in bytes.iter_mut().rev() {
        *b = n as u8;
        n >>= 8;
    }
}

fn range(m: &Module, u: UnitId, f: FieldId) -> Option<std::ops::Range<usize>> {
    let (at, n) = (fixed_offset(m, u, f)? as usize, field_size(m, &m.unit(u).fields[f.index()])? as usize);
    Some(at..at + n)
}

/// The checksum's sum over its bytes; `net` is the network header before it, with its unit.
fn covered(m: &Module, unit: UnitId, c: &Checksum, header: &[u8], to_end: &[u8], net: Option<(UnitId, &[u8])>) -> u64 {
    match c.over {
        Over::Header => sum(header),
        Over::Message => sum(to_end),
        Over::Transport { protocol, .. } => {
            let _ = unit;
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
fn fix(at: &mut [u8], was: u64, now: u64, optional: bool) {
    let old = u16::from_be_bytes([at[0], at[1]]);
    if optional && old == 0 {
        return;
    }
    let fresh = !fold(u64::from(!old) + u64::from(!fold(was)) + u64::from(fold(now)));
    let fresh = if optional && fresh == 0 { 0xffff } else { fresh };
    at[..2].copy_from_slice(&fresh.to_be_bytes());
}

fn is_optional(c: &Checksum) -> bool {
    matches!(c.over, Over::Transport { optional: true, .. })
}

fn shift_node(n: &mut Node, by: isize) {
    (n.start, n.end) = (moved(n.start, by), moved(n.end, by));
    n.fields.iter_mut().flatten().for_each(|f| shift_field(f, by));
}

fn shift_field(f: &mut FieldNode, by: isize) {
    (f.start, f.end, f.next) = (moved(f.start, by), moved(f.end, by), moved(f.next, by));
    match &mut f.content {
        Content::Span(a, b) => (*a, *b) = (moved(*a, by), moved(*b, by)),
        Content::Unit(n) => shift_node(n, by),
        Content::Items(list) => list.iter_mut().for_each(|f| shift_field(f, by)),
        Content::None | Content::Scalar(_) | Content::Case(_) => {}
    }
}

fn moved(at: usize, by: isize) -> usize {
    at.saturating_add_signed(by)
}

impl Frame {
    /// Finds the headers. `fault` gets the faults of headers that are there but wrong.
    pub fn open(
        grammar: &Grammar,
        unit: UnitId,
        f: &wl_frame,
        bytes: Vec<u8>,
        fault: &mut dyn FnMut(FaultKind, PlaceId),
    ) -> Frame {
        let m = &*grammar.module;
        let end = bytes.len().min(65535);
        let layers = m.unit(unit).frame.as_ref().map_or(&[][..], |f| &f.layers);
        let cut = (f.wire as usize).saturating_sub(end);
        let mut frame = Frame {
            unit,
            bytes,
            layers: vec![None; layers.len()],
            end,
            top: 0,
            instance: u32::from(f.instance),
            time: f.time,
            mark: if m.is_queue(PortId(f.port.into())) { f.out } else { 0 },
            head: f.head as usize,
            tail: f.tail as usize,
            cut,
            miss: 0,
            raw: std::ptr::null_mut(),
            kept: Vec::new(),
        };
        let mut net = None;
        for (n, l) in layers.iter().enumerate() {
            if let Some((p, beyond)) = frame.layer(grammar, n, l, net, fault) {
                if beyond > frame.miss {
                    frame.miss = beyond.min((f.wire as usize).saturating_sub(f.n as usize))
                }
                if m.unit(l.unit).header.addresses.is_some() {
                    net = Some(n);
                }
                let more = m.unit(l.unit).header.partial.and_then(|f| p.node.field(f)).map(|f| &f.content);
                if matches!(more, Some(Content::Scalar(Value::Int(n))) if *n != 0) {
                    frame.cut = 65535;
                }
                (frame.end, frame.top) = (p.lim, p.to);
                frame.layers[n] = Some(p);
            }
        }
        frame
    }

    /// Leaves as it is; `mark`: to a queue.
    fn leave(&self, port: PortId, instance: u32, mark: Option<u32>) {
        self.write_back();
        // SAFETY: as below.
        if let Some(f) = unsafe { self.raw.as_mut() } {
            f.out = port.0 << 16 | (instance & 0xffff);
            if let Some(mark) = mark {
                f.set_mark(mark)
            }
        }
    }

    fn restore(&mut self, n: usize) {
        let mut kept = std::mem::take(&mut self.kept);
        if let Some(f) = kept.get(n).cloned() {
            *self = f
        }
        kept.truncate(n);
        self.kept = kept;
    }

    /// The runtime's frame becomes this one; where it lies.
    fn write_back(&self) -> Option<(*const u8, usize)> {
        // SAFETY: null, or the frame of the current batch, which has no other user while its
        // handler runs.
        let f = unsafe { self.raw.as_mut() }?;
        let room = f.head + f.n + f.tail;
        // The new address of its first byte: before the old one by the used headroom.
        unsafe {
            f.p = f.p.offset(self.head as isize - f.head as isize);
            std::ptr::copy_nonoverlapping(self.bytes.as_ptr(), f.p, self.bytes.len());
        }
        (f.head, f.n) = (self.head as u32, self.bytes.len() as u32);
        f.tail = room - (f.head + f.n);
        Some((f.p.cast_const(), f.n as usize))
    }

    fn layer(
        &self,
        grammar: &Grammar,
        n: usize,
        l: &Layer,
        net: Option<usize>,
        fault: &mut dyn FnMut(FaultKind, PlaceId),
    ) -> Option<(FoundHeader, usize)> {
        let m = &*grammar.module;
        let node = self.node(m);
        let (by, at) = l.after.iter().enumerate().find_map(|(i, a)| {
            let at = match a.layer {
                Some(n) => self.layers[n as usize].as_ref()?.to,
                None => 0,
            };
            let env = Env::grammar(m, Seen { node: &node, buf: &self.bytes });
            a.cond.as_ref().is_none_or(|c| env.truth(c).unwrap_or(false)).then_some((i, at))
        })?;
        // Where a header is that this one contradicts, there is nothing wrong.
        let all = m.unit(self.unit).frame.as_ref().map_or(&[][..], |f| &f.layers);
        if all
            .iter()
            .zip(&self.layers)
            .any(|(o, p)| p.as_ref().is_some_and(|p| p.at == at) && contradict(m, o.unit, l.unit))
        {
            return None;
        }
        // A header without a reader is no fault, nor is one while another may be there in its
        // place.
        let mut none = |_, _| ();
        let silent = !grammar.looks_at(self.unit, n, by) || has_alternative(m, all, n, by);
        let fault: &mut dyn FnMut(FaultKind, PlaceId) = if silent { &mut none } else { fault };
        let place = m.unit(self.unit).fields[l.header.index()].place;
        let def = m.unit(l.unit);
        let least: u32 = def.body.iter().map(|f| wireloom_ir::frame::step(m, &def.fields[f.index()])).sum();
        if self.end - at < least as usize {
            fault(FaultKind::TRUNCATED, place);
            return None;
        }
        let node = match Parser::new(m, &self.bytes[..self.end], true).unit(l.unit, def, at, Vec::new(), def.body.len())
        {
            Ok(node) => node,
            Err(Halt::More(_)) => {
                fault(FaultKind::TRUNCATED, place);
                return None;
            }
            Err(Halt::Fault { kind, place, .. }) => {
                fault(kind, place);
                return None;
            }
            Err(Halt::Internal(why)) => {
                crate::note_internal(&why);
                return None;
            }
        };
        let (to, mut lim, mut beyond) = (node.end, self.end, 0);
        if let Some(c) = def.header.covers {
            let value = match node.field(c.field).map(|f| &f.content) {
                Some(Content::Scalar(Value::Int(n))) => *n as usize,
                _ => 0,
            };
            let all = match value {
                0 if c.own => self.end - at,
                n if c.own => n,
                n => n + (to - at),
            };
            if all < to - at || all > self.end - at + self.cut {
                fault(FaultKind::CONSTRAINT, def.fields[c.field.index()].place);
                return None;
            }
            lim = lim.min(at + all);
            beyond = (at + all).saturating_sub(self.end);
        }
        Some((FoundHeader { node, at, to, lim, net }, beyond))
    }

    /// The frame as a parsed unit.
    fn node(&self, m: &Module) -> Node {
        let def = m.unit(self.unit);
        let mut node = Node::new(self.unit, def, 0, Vec::new());
        node.end = self.bytes.len();
        for (l, p) in def.frame.iter().flat_map(|f| &f.layers).zip(&self.layers) {
            let (case, at, to) = p.as_ref().map_or((1, 0, 0), |p| (0, p.at, p.to));
            node.fields[l.switch.index()] =
                Some(FieldNode { start: at, end: to, next: to, content: Content::Case(case) });
            if let Some(p) = p {
                node.fields[l.header.index()] =
                    Some(FieldNode { start: at, end: to, next: to, content: Content::Unit(Box::new(p.node.clone())) });
            }
        }
        node
    }

    pub fn message(&self, m: &Module) -> Rc<Message> {
        Rc::new(Message {
            unit: self.unit,
            node: self.node(m),
            bytes: self.bytes.clone(),
            tail: WL_TAIL_NONE,
            base: std::ptr::null(),
        })
    }

    /// The bytes behind a header, or behind the last one.
    pub fn payload(&self, layer: Option<u32>) -> &[u8] {
        match layer.map(|n| self.layers.get(n as usize).and_then(Option::as_ref)) {
            None => &self.bytes[self.top..self.end],
            Some(Some(p)) => &self.bytes[p.to..p.lim.max(p.to)],
            Some(None) => &[],
        }
    }

    fn unit_of(&self, m: &Module, layer: usize) -> UnitId {
        m.unit(self.unit).frame.as_ref().map_or(UnitId(0), |f| f.layers[layer].unit)
    }

    fn sum_over(&self, m: &Module, layer: usize, c: &Checksum) -> u64 {
        let Some(p) = &self.layers[layer] else { return 0 };
        let net = p.net.and_then(|n| Some((self.unit_of(m, n), &self.bytes[self.layers[n].as_ref()?.at..])));
        covered(m, self.unit_of(m, layer), c, &self.bytes[p.at..p.to], &self.bytes[p.at..p.lim], net)
    }

    pub fn checksum_ok(&self, m: &Module, layer: usize) -> bool {
        let Some(c) = m.unit(self.unit_of(m, layer)).header.checksum else { return true };
        let Some(p) = &self.layers[layer] else { return false };
        let Some(r) = range(m, self.unit_of(m, layer), c.field) else { return false };
        if is_optional(&c) && self.bytes[p.at + r.start..][..2] == [0, 0] {
            return true;
        }
        fold(self.sum_over(m, layer, &c)) == 0xffff
    }

    /// Computes a header's checksum anew.
    fn resum(&mut self, m: &Module, layer: usize) {
        let unit = self.unit_of(m, layer);
        let Some(c) = m.unit(unit).header.checksum else { return };
        let (Some(p), Some(r)) = (self.layers[layer].as_ref().map(|p| p.at), range(m, unit, c.field)) else { return };
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
    fn resum_around(&mut self, m: &Module, layers: usize, pos: usize) {
        for n in (0..layers).rev() {
            let unit = self.unit_of(m, n);
            let (Some(c), Some(p)) = (m.unit(unit).header.checksum, self.layers[n].as_ref()) else { continue };
            if c.over == Over::Header || pos < p.at || pos > p.lim {
                continue;
            }
            let Some(r) = range(m, unit, c.field) else { continue };
            if is_optional(&c) && self.bytes[p.at + r.start..][..2] == [0, 0] {
                continue;
            }
            self.resum(m, n);
        }
    }

    /// A field's value after its bytes have changed. Places do not change.
    fn reread(&mut self, m: &Module, layer: usize, f: FieldId) {
        let def = m.unit(self.unit_of(m, layer));
        let Some(p) = &mut self.layers[layer] else { return };
        // Bit fields share bytes: all of the group are read again.
        let start = p.node.field(f).map_or(0, |n| n.start);
        for other in &def.body {
            if !matches!(def.fields[other.index()].kind, FieldKind::UInt { .. })
                || p.node.field(*other).is_none_or(|n| n.start != start)
            {
                continue;
            }
            let mut scratch = p.node.clone();
            let mut free = def.clone();
            free.fields[other.index()].within = None;
            if let Ok(node) = Parser::new(m, &self.bytes, true).shape(&free, &mut scratch, *other, start) {
                p.node.fields[other.index()] = Some(node);
            }
        }
    }

    fn set(&mut self, m: &Module, layer: usize, f: FieldId, value: &Value) -> Res<()> {
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
                at + (n & !1)..at + (n + size).next_multiple_of(2)
            }
            None => start..start + size,
        };
        let was = sum(&self.bytes[words.clone()]);
        match (&def.fields[f.index()].kind, value) {
            (FieldKind::UInt { bytes, shift, bits, big, .. }, v) => {
                let (n, v) = (*bytes as usize, v.as_int().unwrap_or(0) & crate::value::mask(*bits));
                let field = &mut self.bytes[start..start + n];
                if !big {
                    field.reverse()
                }
                let old = field.iter().fold(0u128, |a, b| a << 8 | u128::from(*b));
                let new = old & !(crate::value::mask(*bits) << shift) | v << shift;
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
            if let Some(r) = range(m, unit, c.field) {
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

    /// Lengths around `pos` follow, then checksums.
    fn grown(&mut self, m: &Module, pos: usize) {
        for n in 0..self.layers.len() {
            let unit = self.unit_of(m, n);
            let (Some(c), Some(p)) = (m.unit(unit).header.covers, self.layers[n].clone()) else { continue };
            if p.at >= pos || pos > p.lim {
                continue;
            }
            self.set_covers(m, unit, &c, &p);
            self.reread(m, n, c.field);
            if let Some(c) = m.unit(unit).header.checksum {
                self.reread(m, n, c.field)
            }
        }
        self.resum_around(m, self.layers.len(), pos.saturating_sub(1));
    }

    /// A length of `bytes` bytes, of a payload that ends at `end`: bytes cut off behind the frame
    /// count, too.
    fn length(&self, n: usize, end: usize, bytes: usize) -> usize {
        if self.miss == 0 || end != self.end {
            return n;
        }
        (n + self.miss).min(if bytes < 8 { (1 << (8 * bytes)) - 1 } else { usize::MAX })
    }

    fn set_covers(&mut self, m: &Module, unit: UnitId, c: &Covers, header: &FoundHeader) {
        let FoundHeader { at, to, lim: end, .. } = *header;
        let Some(r) = range(m, unit, c.field) else { return };
        let own = m.unit(unit).header.checksum.filter(|c| c.over == Over::Header);
        let was = sum(&self.bytes[at..to]);
        let n = self.length(end - if c.own { at } else { to }, end, r.len());
        set_number(&mut self.bytes[at + r.start..at + r.end], n);
        let now = sum(&self.bytes[at..to]);
        if let Some(s) = own.and_then(|c| range(m, unit, c.field)) {
            fix(&mut self.bytes[at + s.start..at + s.end], was, now, false);
        }
    }

    fn insert(&mut self, m: &Module, before: Option<u32>, parts: &Built) -> bool {
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
        let missing = if around == self.end { self.miss } else { 0 };
        finish(m, parts, &mut built, &behind, missing, net.as_ref().map(|(u, b)| (*u, b.as_slice())));
        self.bytes.splice(pos..pos, built);
        self.shift(pos, n as isize);
        self.grown(m, pos);
        true
    }

    fn remove(&mut self, m: &Module, layer: usize) {
        let Some(p) = self.layers[layer].take() else { return };
        self.bytes.drain(p.at..p.to);
        self.head += p.to - p.at;
        self.shift(p.at, p.at as isize - p.to as isize);
        self.grown(m, p.at);
    }

    fn set_payload(&mut self, m: &Module, layer: Option<u32>, to: &[u8]) -> bool {
        let place = layer.and_then(|n| self.layers[n as usize].as_ref());
        let (pos, end) = place.map_or((self.top, self.end), |p| (p.to, p.lim));
        let by = to.len() as isize - (end - pos) as isize;
        if by > (self.head + self.tail) as isize || self.bytes.len() as isize + by > 65535 {
            return false;
        }
        let behind = by.min(self.tail as isize);
        (self.head, self.tail) = (moved(self.head, behind - by), moved(self.tail, -behind));
        self.bytes.splice(pos..end, to.iter().copied());
        if end == self.end {
            self.miss = 0
        }
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
        self.grown(m, pos);
        true
    }
}

/// Fills in lengths and checksums of new headers; `behind` is the payload of all, `net` a network
/// header before them.
fn finish(m: &Module, parts: &Built, built: &mut Vec<u8>, behind: &[u8], missing: usize, net: Option<(UnitId, &[u8])>) {
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
        let n = if missing == 0 {
            n
        } else {
            (n + missing).min(if r.len() < 8 { (1 << (8 * r.len())) - 1 } else { usize::MAX })
        };
        set_number(&mut built[at + r.start..at + r.end], n);
    }
    for (i, (unit, _)) in parts.iter().enumerate().rev() {
        let Some((u, c)) = unit.and_then(|u| Some((u, m.unit(u).header.checksum?))) else { continue };
        let (Some(r), at) = (range(m, u, c.field), starts[i]) else { continue };
        built[at + r.start..at + r.end].fill(0);
        let inner = (0..i).rev().find_map(|j| {
            parts[j].0.filter(|u| m.unit(*u).header.addresses.is_some()).map(|u| (u, built[starts[j]..].to_vec()))
        });
        let net = inner.as_ref().map(|(u, b)| (*u, b.as_slice())).or(net);
        let mut fresh = !fold(covered(m, u, &c, &built[at..next(i)], &built[at..end], net));
        if fresh == 0 && matches!(c.over, Over::Transport { .. }) {
            fresh = 0xffff;
        }
        built[at + r.start..at + r.end].copy_from_slice(&fresh.to_be_bytes());
    }
    built.truncate(n);
}

/// An act, with the code of its parts.
#[derive(Clone, Debug)]
pub enum Act {
    Plain(FrameAct),
    Insert { before: Option<u32>, parts: Vec<(Option<UnitId>, Code)>, place: PlaceId },
    Payload { layer: Option<u32>, body: Code, place: PlaceId },
}

/// Runs the code of parts.
fn build(env: &Env, parts: &[(Option<UnitId>, Code)], locals: &mut Vec<Value>) -> Res<Built> {
    parts
        .iter()
        .map(|(unit, code)| {
            let mut bytes = Vec::new();
            super::run(env, code, locals, &mut 0, &mut bytes)?;
            Ok((*unit, bytes))
        })
        .collect()
}

pub fn send_frame(
    env: &Env,
    a: &Activation,
    port: PortId,
    index: &Expr,
    parts: &[(Option<UnitId>, Code)],
    locals: &mut Vec<Value>,
) -> Res<()> {
    let built = build(env, parts, locals)?;
    let index = Env { locals, ..*env }.int(index)? as u32;
    let mut bytes: Vec<u8> = built.iter().flat_map(|p| p.1.iter().copied()).collect();
    finish(env.module, &built, &mut bytes, &[], 0, None);
    a.transmit(port, index, 0, &bytes);
    Ok(())
}

/// The frame as it is now leaves; `last`: it is moved.
fn send(m: &Module, a: &Activation, port: PortId, index: u32, mark: u32, last: bool) -> Res<()> {
    if last {
        let mark = m.is_queue(port).then_some(mark);
        return a.with_frame(|f| f.leave(port, index, mark));
    }
    // From where it lies: by that the runtime knows its time.
    if let Some((p, n)) = a.with_frame(|f| f.write_back())? {
        // SAFETY: a frame names n bytes of its buffer.
        a.transmit(port, index, mark, unsafe { std::slice::from_raw_parts(p, n) });
    }
    Ok(())
}

/// Gives the frame to the target of a wire. The sender does not see the target's changes.
pub fn output(env: &Env, a: &Activation, wire: WireId, mark: Value, last: bool) -> Res<()> {
    let m = env.module;
    let (to, index) = match m.wires[wire.index()].to {
        Target::Port { port, index } => {
            let Value::Int(mark) = mark else { return internal("a mark that is no number") };
            return send(m, a, port, index, mark as u32, last);
        }
        Target::Input { input, index } => (input, index),
    };
    let Some(body) = m.input_body(to) else { return internal("an output to an input without code") };
    let code = super::flatten::body(m, body);
    let mut locals = super::fresh_locals(m, body, code.locals);
    locals[0] = Value::Msg(MsgRef::Frame(m.inputs[to.index()].unit));
    locals[1] = mark;
    if m.inputs[to.index()].indexed {
        locals[2] = Value::Int(index.into())
    }
    let before = a.with_frame(|f| f.clone())?;
    let inner = Env { this: None, item: None, acc: None, ..*env };
    super::run(&inner, &code, &mut locals, &mut 0, &mut Vec::new())?;
    a.with_frame(|f| *f = before)
}

pub fn act(env: &Env, a: &Activation, act: &Act, locals: &mut Vec<Value>) -> Res<()> {
    let m = env.module;
    let full = |place: PlaceId| Err(Stop::Fault { kind: FaultKind::OVERLOAD, place });
    match act {
        Act::Insert { before, parts, place } => {
            let built = build(env, parts, locals)?;
            a.with_frame(|f| f.insert(m, *before, &built)).and_then(|ok| if ok { Ok(()) } else { full(*place) })
        }
        Act::Payload { layer, body, place } => {
            let mut bytes = Vec::new();
            super::run(env, body, locals, &mut 0, &mut bytes)?;
            a.with_frame(|f| f.set_payload(m, *layer, &bytes)).and_then(|ok| if ok { Ok(()) } else { full(*place) })
        }
        Act::Plain(FrameAct::Set { layer, field, value }) => {
            let v = Env { locals, ..*env }.eval(value)?;
            a.with_frame(|f| f.set(m, *layer as usize, *field, &v))?
        }
        Act::Plain(FrameAct::Remove { layer }) => a.with_frame(|f| f.remove(m, *layer as usize)),
        Act::Plain(FrameAct::Save { copy }) => a.with_frame(|f| {
            f.kept.truncate(*copy as usize);
            f.kept.push(f.clone())
        }),
        Act::Plain(FrameAct::Restore { copy }) => a.with_frame(|f| f.restore(*copy as usize)),
        Act::Plain(FrameAct::Checksum { layer }) => a.with_frame(|f| f.resum(m, *layer as usize)),
        Act::Plain(FrameAct::Send { port, index, mark, last }) => {
            let here = Env { locals, ..*env };
            let mark = mark.as_ref().map_or(Ok(0), |e| here.int(e))? as u32;
            send(m, a, *port, here.int(index)? as u32, mark, *last)
        }
        Act::Plain(FrameAct::Insert { .. } | FrameAct::Payload { .. }) => internal("an act whose code is missing"),
    }
}
