//! Frames in the XDP hook. It sends one once, or to all interfaces of a port, and puts
//! headers of fixed size in.

use super::{fate, Search};
use crate::desc::{FrameEngine, PortKind};
use crate::*;

/// A loop that does nothing but send the frame through all instances of a port. `true`: but for the
/// one that it came from.
pub fn broadcast(m: &Module, s: &StmtKind) -> Option<(PortId, bool)> {
    let StmtKind::For { var, from, to, body, .. } = s else { return None };
    let (ExprKind::Int(0), ExprKind::PortLen(port)) = (&*from.kind, &*to.kind) else { return None };
    let is_var = |e: &Expr| matches!(&*e.kind, ExprKind::Local(l) if l == var);
    let sends = |b: &[Stmt]| match b {
        [Stmt { kind: StmtKind::Frame { act: FrameAct::Send { port: to, index, .. }, .. }, .. }] => {
            to == port && is_var(index)
        }
        _ => false,
    };
    let nic = matches!(m.ports[port.index()].kind, PortKind::Frames { engine: FrameEngine::Nic, .. });
    match &body[..] {
        _ if !nic => None,
        body if sends(body) => Some((*port, false)),
        [Stmt { kind: StmtKind::If { cond, then, other }, .. }] if sends(then) && other.is_empty() => {
            let ExprKind::Binary(BinOp::Ne, a, b) = &*cond.kind else { return None };
            let came = |e: &Expr| matches!(&*e.kind, ExprKind::FrameInstance(_));
            (is_var(a) && came(b) || came(a) && is_var(b)).then_some((*port, true))
        }
        _ => None,
    }
}

/// Bytes of new headers that have one size, and whose checksums cover no more than themselves.
/// `None`: they are others.
#[allow(clippy::wildcard_enum_match_arm, reason = "a few kinds of many are looked for")]
pub fn fixed_parts(m: &Module, parts: &[Part]) -> Option<u32> {
    let own = |u: UnitId| matches!(m.unit(u).header.checksum.map(|c| c.over), None | Some(Over::Header));
    if !parts.iter().all(|p| p.unit.is_none_or(own)) {
        return None;
    }
    parts.iter().flat_map(|p| &p.body).map(fixed_size).sum()
}

/// Bytes that a statement builds, if they are always so many.
#[allow(clippy::wildcard_enum_match_arm, reason = "a few kinds of many are looked for")]
fn fixed_size(s: &Stmt) -> Option<u32> {
    match &s.kind {
        StmtKind::Emit(Emit::UInt { bytes, .. }) => Some(u32::from(*bytes)),
        _ => None,
    }
}

/// The reason for which the hook cannot put in new headers, and the remedy.
pub struct CannotInsert {
    what: String,
    hint: &'static str,
}

/// Bytes of new headers that the hook can put in.
pub fn hook_parts(m: &Module, parts: &[Part]) -> Result<u32, CannotInsert> {
    let refuse = |p: &Part, why: &str, hint| {
        let name = p.unit.map_or("a run of bytes".to_string(), |u| format!("`{}`", m.unit(u).name));
        CannotInsert { what: format!("XDP cannot insert {name}: it {why}"), hint }
    };
    let mut all = 0;
    for (n, p) in parts.iter().enumerate() {
        let size: Option<u32> = p.body.iter().map(fixed_size).sum();
        all += size.ok_or_else(|| {
            refuse(p, "varies in size", "build it of fields of one size, or leave this handler to the CPU")
        })?;
        let over = p.unit.and_then(|u| m.unit(u).header.checksum).map(|c| c.over);
        if matches!(over, Some(Over::Transport { .. })) && new_network(m, parts, n).is_none() {
            return Err(refuse(
                p,
                "has a checksum over addresses of a header that is not put in with it",
                "insert it together with its network header: `insert [Ipv4 { … }, Udp { … }]`",
            ));
        }
    }
    Ok(all)
}

/// Of new headers: the last one with addresses before number `n`.
pub fn new_network(m: &Module, parts: &[Part], n: usize) -> Option<usize> {
    (0..n).rev().find(|k| parts[*k].unit.is_some_and(|u| m.unit(u).header.addresses.is_some()))
}

/// Bytes that one insertion may add: they lie on the program's stack meanwhile.
const INSERTED_MAX: u32 = 128;

impl Search<'_> {
    /// The port that a frame is sent to.
    #[allow(clippy::wildcard_enum_match_arm, reason = "a few kinds of many are looked for")]
    pub(super) fn way(&mut self, s: &Stmt) {
        let port = match &s.kind {
            StmtKind::Frame { act: FrameAct::Send { port, .. }, .. } => *port,
            kind => match broadcast(self.m, kind) {
                Some((port, _)) => port,
                None => return,
            },
        };
        if fate(self.m, Some(self.port), port).is_none() {
            let what = format!("queue `{}` is `lossless`: XDP cannot wait for room", self.m.ports[port.index()].name);
            self.add("E0673", s.span, what, "make it `lossy`: what finds no room is counted");
        }
    }

    /// Headers that are put in.
    pub(super) fn parts(&mut self, span: Span, parts: &[Part]) {
        match hook_parts(self.m, parts) {
            Ok(n) if n <= INSERTED_MAX => {
                for s in parts.iter().flat_map(|p| &p.body) {
                    walk::stmt_exprs(&s.kind, &mut |e| walk::expr(e, &mut |e| self.expr(span, e)));
                }
            }
            Ok(n) => {
                let what = format!("XDP cannot insert {n} bytes at a time");
                self.add("E0670", span, what, "insert at most 128 bytes at a time");
            }
            Err(CannotInsert { what, hint }) => self.add("E0670", span, what, hint),
        }
    }

    /// A frame leaves once, and is not changed behind that.
    pub(super) fn frames(&mut self) {
        let mut sends = Sends { m: self.m, found: Vec::new(), loops: Vec::new() };
        sends.block(&self.h.body.block, false);
        for span in sends.found {
            let what = "XDP sends a packet once, and as it then is".to_string();
            self.add("E0673", span, what, TWICE);
        }
    }
}

/// The remedy for a second send.
const TWICE: &str =
    "end the handler behind the send: `return`; or send it to a queue, whose handler on the CPU sends it twice";

/// Finds statements that send a frame again, or change one that has been sent. A way is told by
/// whether the frame may have been sent on it; none: no way leads there.
struct Sends<'m> {
    m: &'m Module,
    found: Vec<Span>,
    /// Of the loops around: their ways at `break`, and at `continue`.
    loops: Vec<[Option<bool>; 2]>,
}

/// Two ways meet.
fn meet(a: Option<bool>, b: Option<bool>) -> Option<bool> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a || b),
        (one, other) => one.or(other),
    }
}

impl Sends<'_> {
    /// The way behind a block.
    fn block(&mut self, block: &[Stmt], sent: bool) -> Option<bool> {
        block.iter().try_fold(sent, |sent, s| self.statement(s, sent))
    }

    #[allow(clippy::wildcard_enum_match_arm, reason = "a few kinds of many are looked for")]
    fn statement(&mut self, s: &Stmt, sent: bool) -> Option<bool> {
        let frame = matches!(s.kind, StmtKind::Frame { .. });
        if frame || broadcast(self.m, &s.kind).is_some() {
            if sent && !self.found.contains(&s.span) {
                self.found.push(s.span)
            }
            return Some(sent || !frame || matches!(&s.kind, StmtKind::Frame { act: FrameAct::Send { .. }, .. }));
        }
        match &s.kind {
            StmtKind::Return(_) | StmtKind::Fault { .. } => None,
            StmtKind::Break | StmtKind::Continue => {
                if let Some(ends) = self.loops.last_mut() {
                    let end = &mut ends[usize::from(matches!(s.kind, StmtKind::Continue))];
                    *end = meet(*end, Some(sent));
                }
                None
            }
            StmtKind::Loop { max, body } => self.rounds(body, *max, sent),
            // It may have no round.
            StmtKind::For { max, body, .. } => meet(Some(sent), self.rounds(body, *max, sent)),
            StmtKind::If { .. } | StmtKind::Switch { .. } => {
                let mut behind = None;
                walk::stmt_blocks(&s.kind, &mut |b| behind = meet(behind, self.block(b, sent)));
                behind
            }
            _ => {
                let mut behind = Some(sent);
                walk::stmt_blocks(&s.kind, &mut |b| behind = meet(behind, self.block(b, sent)));
                behind
            }
        }
    }

    /// The way behind a loop. A frame that is sent in one round is so in the next one.
    fn rounds(&mut self, body: &[Stmt], max: u64, sent: bool) -> Option<bool> {
        self.loops.push([None; 2]);
        let end = self.block(body, sent);
        let [left, again] = self.loops.pop().unwrap_or_default();
        let next = meet(end, again);
        let behind = meet(left, next);
        match next {
            Some(true) if max > 1 && !sent => meet(behind, self.rounds(body, max, true)),
            _ => behind,
        }
    }
}

/// Whether a block ends its handler.
pub(super) fn leaves(block: &[Stmt]) -> bool {
    matches!(block.last().map(|s| &s.kind), Some(StmtKind::Return(_) | StmtKind::Fault { .. }))
}
