//! Packets that a program would handle for ever.
//!
//! In: a lowered module. Out: the queues whose handlers pop each other in a circle, and where one
//! of them sends a packet back into the circle. A popped packet is handled as soon as the handler
//! that popped it has ended. So a circle of pops alone ends when its queues are empty. With a
//! packet that is sent back, the queues are never empty. A way back into the program
//! (`FrameEngine::Loop`) is a queue that is popped by itself.

use crate::*;
use std::collections::BTreeMap;

/// A circle that never ends.
#[derive(Clone, Debug, PartialEq)]
pub struct Endless {
    /// The queue, or the way back, that a packet is sent to again.
    pub queue: PortId,
    /// Where it is sent.
    pub sends: Span,
    /// Where the queue is popped again.
    pub pops: Span,
}

/// The queues that the handler of a queue pops, and those that it sends to.
#[derive(Default)]
struct Handles {
    pops: BTreeMap<PortId, Span>,
    sends: BTreeMap<PortId, Span>,
}

/// The first circle of each queue, in the order of the queues.
pub fn endless(m: &Module) -> Vec<Endless> {
    let mut all: BTreeMap<PortId, Handles> = BTreeMap::new();
    for h in &m.handlers {
        let On::Frame { port, .. } = h.on else { continue };
        if m.ports.get(port.index()).is_some_and(|p| p.kind.is_inside()) {
            let handles = all.entry(port).or_default();
            m.reached(&h.body.block, &mut |b| handles.block(m, b));
        }
    }
    let mut found = Vec::new();
    for (from, handles) in &all {
        for (queue, sends) in &handles.sends {
            // From the sender to the queue's pop, and from the queue's handler back to the sender.
            let Some(pops) = popped(&all, *from, *queue) else { continue };
            if from == queue || popped(&all, *queue, *from).is_some() {
                found.push(Endless { queue: *queue, sends: *sends, pops });
            }
        }
    }
    found
}

/// Where a queue is popped in the end, once a packet of `from` is handled.
fn popped(all: &BTreeMap<PortId, Handles>, from: PortId, queue: PortId) -> Option<Span> {
    let (mut open, mut seen) = (vec![from], vec![from]);
    while let Some(at) = open.pop() {
        let Some(handles) = all.get(&at) else { continue };
        if let Some(span) = handles.pops.get(&queue) {
            return Some(*span);
        }
        for next in handles.pops.keys().filter(|q| !seen.contains(q)).copied().collect::<Vec<_>>() {
            seen.push(next);
            open.push(next);
        }
    }
    None
}

impl Handles {
    #[allow(clippy::wildcard_enum_match_arm, reason = "a few kinds of many are looked for")]
    fn block(&mut self, m: &Module, block: &[Stmt]) {
        walk::stmts(block, &mut |s| match &s.kind {
            StmtKind::Queue { port, act: QueueAct::Pop, .. } => drop(self.pops.entry(*port).or_insert(s.span)),
            StmtKind::Frame { act: FrameAct::Send { port, .. }, .. } | StmtKind::SendFrame { port, .. } => {
                self.send(m, *port, s.span);
            }
            StmtKind::Output { wire, .. } => {
                if let Some(Target::Port { port, .. }) = m.wires.get(wire.index()).map(|w| w.to) {
                    self.send(m, port, s.span);
                }
            }
            _ => {}
        });
        self.functions(m, block);
    }

    fn send(&mut self, m: &Module, port: PortId, span: Span) {
        self.sends.entry(port).or_insert(span);
        if m.ports.get(port.index()).is_some_and(|p| p.kind.is_loop()) {
            self.pops.entry(port).or_insert(span);
        }
    }

    /// Functions that pop are part of the handlers that call them.
    fn functions(&mut self, m: &Module, block: &[Stmt]) {
        for f in walk::calls(block) {
            if let Some(Func { body: FuncBody::Body(b), .. }) = m.funcs.get(f.index()) {
                self.block(m, &b.block);
            }
        }
    }
}
