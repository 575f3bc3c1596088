//! Finding the headers of a frame.

use super::{FoundHeader, Frame};
use crate::env::Seen;
use crate::grammar::parse::{Halt, Parser};
use crate::grammar::tree::{Content, Node};
use crate::grammar::Grammar;
use crate::value::Value;
use wireloom_ir::frame::{contradict, has_alternative};
use wireloom_ir::*;
use wireloom_runtime::abi::{wl_frame, WL_GONE};

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
            state: Vec::new(),
            head: f.head as usize,
            tail: f.tail as usize,
            cut,
            beyond: f.wire.saturating_sub(f.n),
            raw: std::ptr::null_mut(),
            kept: Vec::new(),
        };
        // Nothing of it has crossed its queue.
        let part = m.carries(PortId(f.port.into())).map(|c| c.part);
        let layers = if part == Some(FramePart::Nothing) { &[][..] } else { layers };
        let mut net = None;
        let mut node = frame.node(m);
        for (n, l) in layers.iter().enumerate() {
            if let Some(p) = frame.layer(grammar, &node, (n, l), net, fault) {
                if m.unit(l.unit).header.addresses.is_some() {
                    net = Some(n);
                }
                let more = m.unit(l.unit).header.partial.and_then(|f| p.node.field(f)).map(|f| &f.content);
                if matches!(more, Some(Content::Scalar(Value::Int(n))) if *n != 0) {
                    frame.cut = 65535;
                }
                (frame.end, frame.top) = (p.lim, p.to);
                super::see(&mut node, l, Some(&p));
                frame.layers[n] = Some(p);
            }
        }
        frame
    }

    /// Finds the headers of the frame as it is now.
    pub fn look_again(&mut self, grammar: &Grammar) {
        let n = self.bytes.len() as u32;
        let f = wl_frame {
            n,
            wire: n + self.beyond,
            time: self.time,
            port: u16::MAX,
            instance: self.instance as u16,
            head: self.head as u32,
            tail: self.tail as u32,
            p: std::ptr::null_mut(),
            out: WL_GONE,
        };
        let found = Frame::open(grammar, self.unit, &f, std::mem::take(&mut self.bytes), &mut |_, _| ());
        let was = std::mem::replace(self, found);
        (self.mark, self.state, self.raw, self.kept) = (was.mark, was.state, was.raw, was.kept);
    }

    /// The header of a layer. `seen`: those before it.
    fn layer(
        &self,
        grammar: &Grammar,
        seen: &Node,
        (n, l): (usize, &Layer),
        net: Option<usize>,
        fault: &mut dyn FnMut(FaultKind, PlaceId),
    ) -> Option<FoundHeader> {
        let m = &*grammar.module;
        let (by, at) = l.after.iter().enumerate().find_map(|(i, a)| {
            let at = match a.layer {
                Some(n) => self.layers[n as usize].as_ref()?.to,
                None => 0,
            };
            let env = grammar.env(Seen { node: seen, buf: &self.bytes });
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
        let node = match grammar.parser(&self.bytes[..self.end], true).unit(l.unit, def, at, Vec::new(), def.body.len())
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
        let (to, mut lim) = (node.end, self.end);
        if let Some(c) = def.header.covers {
            let value = match node.field(c.field).map(|f| &f.content) {
                Some(Content::Scalar(Value::Int(n))) => *n as usize,
                _ => 0,
            };
            let all = match value {
                // All of the frame.
                0 if c.own => self.end - at,
                n if c.own => n,
                n => n + (to - at),
            };
            if all < to - at || all > self.end - at + self.cut {
                fault(FaultKind::CONSTRAINT, def.fields[c.field.index()].place);
                return None;
            }
            lim = lim.min(at + all);
        }
        Some(FoundHeader { node, at, to, lim, net })
    }

    /// A field's value after its bytes have changed. Places do not change.
    pub(super) fn reread(&mut self, m: &Module, layer: usize, f: FieldId) {
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
}
