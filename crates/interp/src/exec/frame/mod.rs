//! Frames: the meaning of `packet` units, their headers, and the acts on them. `support/frame.h` is
//! the same for compiled code.

pub mod acts;
mod checksum;
mod edit;
pub mod entry;
mod headers;

use super::message::Message;
use crate::grammar::tree::{Content, FieldNode, Node};
use std::rc::Rc;
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
    /// The state that it brings from there.
    pub state: entry::CarriedFields,
    /// Free bytes before and behind.
    pub head: usize,
    pub tail: usize,
    /// Bytes of the wire behind `end` on arrival: a capture has cut them off, or they lie too far
    /// behind for a header's length.
    cut: usize,
    /// Bytes of the wire behind the frame: a capture has cut them off.
    beyond: u32,
    /// Where the runtime's frame is.
    pub raw: *mut wl_frame,
    /// As it was before the elements that are under way changed it.
    kept: Vec<Frame>,
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

/// Notes in the node of a frame whether a header is there.
fn see(node: &mut Node, l: &Layer, found: Option<&FoundHeader>) {
    let (case, start, end) = found.map_or((1, 0, 0), |p| (0, p.at, p.to));
    let of = |content| Some(FieldNode { start, end, next: end, content });
    node.fields[l.switch.index()] = of(Content::Case(case));
    if let Some(p) = found {
        node.fields[l.header.index()] = of(Content::Unit(Box::new(p.node.clone())));
    }
}

impl Frame {
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

    /// Where the last header that is there ends.
    fn top(&self) -> u32 {
        self.top as u32
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
        f.wire = f.n + self.beyond;
        f.tail = room - (f.head + f.n);
        Some((f.p.cast_const(), f.n as usize))
    }

    /// The frame as a parsed unit.
    fn node(&self, m: &Module) -> Node {
        let def = m.unit(self.unit);
        let mut node = Node::new(self.unit, def, 0, Vec::new());
        node.end = self.bytes.len();
        for (l, p) in def.frame.iter().flat_map(|f| &f.layers).zip(&self.layers) {
            see(&mut node, l, p.as_ref());
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
            rest: Vec::new(),
            body: None,
            ends: false,
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
}
