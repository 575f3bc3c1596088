//! Pauses: which handlers yield between two rounds of a long loop.
//!
//! A handler of a request pauses if no other handler can observe it. Its uses of shared things
//! (state, tables, sessions, counters that it reads) must lie in one stretch without a pause. The
//! stretch runs from its start, or from a call, to the next call or its end. So others see all of
//! the changes or none. A handler does not pause behind bytes of `state` that are not copied. While
//! calls are under way it pauses only if their answers are kept.
//!
//! Where it makes no difference to these rules, a handler also pauses *within* messages. It does so
//! between the items that it puts together, and between the pieces of a large message that it
//! sends.
//!
//! A session belongs to one connection. A handler may pause anywhere between its uses of it if no
//! other request of the connection is under way. That is so for large requests only
//! ([`LARGE`]), which the runtime then handles alone.
//!
//! In: handlers, behind the pass `steps`. Out: [`Pause`] of each.

use super::steps;
use crate::plans::Pause;
use crate::*;

/// A loop with a higher bound of steps is long: its rounds look at the clock. (Some ten
/// microseconds.)
pub const LONG: u64 = 1 << 14;

/// Requests, and answers that are kept, below this many bytes make loops over bytes short enough:
/// preparing for a pause would cost more.
pub const SMALL: u32 = 4096;
/// Requests of so many bytes are handled alone on their connection if their handler then pauses.
/// Smaller ones take some hundred microseconds at most, and share their connection. Requests whose
/// parts go to several servers pause from this size on, too: most are small and many.
pub const LARGE: u32 = 64 << 10;
/// That is so if a round has at most so many steps.
const ROUND: u64 = 256;

pub fn is_long(m: &Module, s: &StmtKind, locals: &[Local]) -> bool {
    let several = !matches!(s, StmtKind::For { max: 0..=1, .. } | StmtKind::Loop { max: 0..=1, .. });
    several && !is_scatter(s) && steps::of_loop(m, s, locals).is_some_and(|n| n > LONG)
}

/// A loop over servers that sends a request to each. Its calls are under way behind its first
/// round.
fn is_scatter(s: &StmtKind) -> bool {
    let StmtKind::For { body, max, .. } = s else { return false };
    let (mut calls, mut other) = (false, false);
    walk::stmts(body, &mut |s| {
        calls |= s.kind.is_awaited();
        other |= matches!(s.kind, StmtKind::Await { .. } | StmtKind::For { .. } | StmtKind::Loop { .. });
    });
    calls && !other && *max <= 64
}

/// Whether a statement puts items together, one by one.
fn joins_items(s: &StmtKind) -> bool {
    let mut found = matches!(s, StmtKind::Emit(Emit::Items { .. } | Emit::InOrder { .. } | Emit::Whole { .. }));
    walk::stmt_exprs(s, &mut |e| walk::expr(e, &mut |e| found |= matches!(&*e.kind, ExprKind::GroupBytes(_))));
    found
}

/// Whether a loop goes over bytes or items, a few steps for each.
fn over_bytes(m: &Module, s: &StmtKind, locals: &[Local]) -> bool {
    let StmtKind::For { to, max, .. } = s else { return false };
    let mut length = false;
    walk::expr(to, &mut |e| {
        length |=
            matches!(&*e.kind, ExprKind::Builtin(Builtin::LenBytes, _) | ExprKind::Count(_) | ExprKind::ListLen(_))
    });
    length && steps::of_loop(m, s, locals).is_some_and(|n| n / (*max).max(1) <= ROUND)
}

pub fn run(m: &mut Module) {
    let of = Funcs::new(m);
    let plans: Vec<Pause> = m.handlers.iter().map(|h| handler(m, &of, h)).collect();
    for (h, plan) in m.handlers.iter_mut().zip(plans) {
        h.plan.pause = plan
    }
}

/// Why a backend must not follow a plan; None: it may.
pub fn illegal(m: &Module, h: &Handler) -> Option<&'static str> {
    let Pause::Yes { least, in_place, alone, within } = h.plan.pause else { return None };
    match planned(m, &Funcs::new(m), h, within) {
        Pause::Yes { least: l, in_place: i, alone: a, .. } if l <= least && (in_place || !i) && (alone || !a) => None,
        Pause::Yes { .. } => Some("a pause is worth its cost only for larger requests, or for whole answers"),
        Pause::No(_) => Some("another handler can observe a pause"),
        Pause::Short => Some("it has no long loop"),
    }
}

/// Functions whose long loops handlers pause in.
pub fn funcs(m: &Module) -> Vec<bool> {
    let mut funcs = vec![false; m.funcs.len()];
    for h in m.handlers.iter().filter(|h| h.plan.pause.is_yes()) {
        reach(m, &h.body.block, &mut funcs)
    }
    funcs
}

/// Within messages, too, if no other request runs on for that.
fn handler(m: &Module, of: &Funcs, h: &Handler) -> Pause {
    let loops = planned(m, of, h, false);
    match planned(m, of, h, true) {
        more if more.is_yes() && (more.least(), more.alone()) == (loops.least(), loops.alone()) => more,
        _ => loops,
    }
}

fn planned(m: &Module, of: &Funcs, h: &Handler, within: bool) -> Pause {
    if h.steps <= LONG || !of.pauses(&h.body) {
        return Pause::Short;
    }
    if !matches!(h.on, On::Message { .. }) {
        return Pause::No("only handlers of requests pause".into());
    }
    let session = |p: &Protocol| p.sharing == desc::Sharing::Session;
    if m.message_of(h.on).is_some_and(|(p, _)| session(&m.protocols[p.index()])) {
        return Pause::No("handlers of conversations do not pause".into());
    }
    // Their views would lie on the handler's stack.
    if explain::own_views(m, &h.body) > stack::LIMIT {
        return Pause::No("the views of messages that it reads by itself are too large".into());
    }
    let way = checked(m, of, h, within);
    let (alone, in_place) = (way.alone.is_some(), way.in_place);
    if let Some(why) = way.why.or(way.alone.filter(|_| seen_elsewhere(m, of).is_some())) {
        return Pause::No(why);
    }
    let least = of.least(&h.body);
    let mut scatters = false;
    walk::stmts(&h.body.block, &mut |s| scatters |= is_scatter(&s.kind));
    if !alone && !scatters {
        return Pause::Yes { least, in_place, alone, within };
    }
    if !may_be_large(m, h) {
        return Pause::No("its requests are never so large that a pause is worth its cost".into());
    }
    Pause::Yes { least: LARGE, in_place, alone, within }
}

/// Whether requests of a handler may be far above [`LARGE`].
fn may_be_large(m: &Module, h: &Handler) -> bool {
    let On::Message { protocol, .. } = h.on else { return false };
    m.protocols.get(protocol.index()).is_some_and(|p| m.unit(p.request).head_max >= 2 * u64::from(LARGE))
}

fn checked<'a, 'm>(m: &'m Module, of: &'a Funcs<'m>, h: &'a Handler, within: bool) -> PauseCheck<'a, 'm> {
    let (mut counts, mut ordered) = (false, false);
    walk::stmts(&h.body.block, &mut |s| ordered |= matches!(s.kind, StmtKind::Emit(Emit::InOrder { .. })));
    walk::block_exprs(&h.body.block, &mut |e| counts |= matches!(&*e.kind, ExprKind::Counter(_)));
    let mut way = PauseCheck {
        m,
        of,
        locals: &h.body.locals,
        within,
        ordered,
        counts,
        at: PathEvents::start(),
        loops: Vec::new(),
        why: None,
        in_place: false,
        alone: None,
        goes_on: false,
        line: 0,
    };
    way.block(&h.body.block);
    way
}

/// A handler that may see a session while a request is handled alone. It is one without a request,
/// or one that waits for an answer when its request is over.
fn seen_elsewhere<'m>(m: &'m Module, of: &Funcs<'m>) -> Option<&'m Handler> {
    m.handlers.iter().filter(|h| !matches!(h.on, On::Opened(_)) && !h.on.is_test()).find(|h| {
        let session = of.block_sessions(&h.body.block).is_some();
        session && (!matches!(h.on, On::Message { .. }) || checked(m, of, h, false).goes_on)
    })
}

/// Of each function, with those that it calls: whether it has a long loop, and what it uses that
/// others use too.
struct Funcs<'m> {
    m: &'m Module,
    long: Vec<bool>,
    uses: Vec<Option<String>>,
    /// A session that it uses.
    sessions: Vec<Option<String>>,
}

impl<'m> Funcs<'m> {
    fn new(m: &'m Module) -> Self {
        let mut of = Funcs {
            m,
            long: vec![false; m.funcs.len()],
            uses: vec![None; m.funcs.len()],
            sessions: vec![None; m.funcs.len()],
        };
        // They do not recurse: as many rounds as there are functions reach a fixed point.
        loop {
            let before = (of.long.clone(), of.uses.clone(), of.sessions.clone());
            for (n, f) in m.funcs.iter().enumerate() {
                match &f.body {
                    FuncBody::Body(b) => {
                        of.long[n] = of.pauses(b);
                        of.uses[n] = of.block_uses(&b.block);
                        of.sessions[n] = of.block_sessions(&b.block);
                    }
                    // It may keep anything.
                    FuncBody::Extern { .. } => of.uses[n] = Some(format!("`{}`", f.name)),
                }
            }
            if before == (of.long.clone(), of.uses.clone(), of.sessions.clone()) {
                return of;
            }
        }
    }

    /// Whether code may reach a long loop.
    fn pauses(&self, body: &Body) -> bool {
        let mut found = false;
        walk::stmts(&body.block, &mut |s| found |= is_long(self.m, &s.kind, &body.locals));
        found || walk::calls(&body.block).iter().any(|f| self.long[f.index()])
    }

    /// Whether all long loops that code reaches go over bytes: then small requests need no pause.
    fn least(&self, body: &Body) -> u32 {
        let mut reached = vec![false; self.m.funcs.len()];
        reach(self.m, &body.block, &mut reached);
        let called = self.m.funcs.iter().zip(&reached).filter(|(_, r)| **r).filter_map(|(f, _)| match &f.body {
            FuncBody::Body(b) => Some(b),
            FuncBody::Extern { .. } => None,
        });
        let mut all = true;
        for b in called.chain([body]) {
            walk::stmts(&b.block, &mut |s| {
                all &= !is_long(self.m, &s.kind, &b.locals) || over_bytes(self.m, &s.kind, &b.locals)
            });
        }
        if all {
            SMALL
        } else {
            0
        }
    }

    fn block_uses(&self, block: &Block) -> Option<String> {
        let mut found = None;
        walk::stmts(block, &mut |s| {
            if found.is_none() {
                found = writes(self.m, &s.kind, true)
            }
        });
        walk::block_exprs(block, &mut |e| {
            if found.is_none() {
                found = self.reads(e)
            }
        });
        found
    }

    fn block_sessions(&self, block: &Block) -> Option<String> {
        let mut found = None;
        walk::stmts(block, &mut |s| found = found.take().or_else(|| self.sets_session(&s.kind)));
        walk::block_exprs(block, &mut |e| found = found.take().or_else(|| self.session(e)));
        found
    }

    fn sets_session(&self, s: &StmtKind) -> Option<String> {
        let StmtKind::SetSession(id, _) = s else { return None };
        self.m.sessions.get(id.index()).map(|s| format!("session `{}`", s.name))
    }

    /// The session that an expression itself uses.
    fn session(&self, e: &Expr) -> Option<String> {
        if let ExprKind::Session(s) = &*e.kind {
            return self.m.sessions.get(s.index()).map(|s| format!("session `{}`", s.name));
        }
        if let ExprKind::Call(f, _) = &*e.kind {
            return self.sessions[f.index()].clone();
        }
        None
    }

    /// The thing that an expression itself uses, but for sessions.
    #[allow(clippy::wildcard_enum_match_arm, reason = "a few kinds of many are looked for")]
    fn reads(&self, e: &Expr) -> Option<String> {
        match &*e.kind {
            ExprKind::State(s) => self.m.states.get(s.index()).map(|s| format!("state `{}`", s.name)),
            ExprKind::Counter(c) => self.m.counters.get(c.index()).map(|c| format!("counter `{}`", c.name)),
            ExprKind::Call(f, _) => self.uses[f.index()].clone(),
            _ => None,
        }
    }
}

/// Marks the functions that a block calls, directly or not.
pub(super) fn reach(m: &Module, block: &Block, to: &mut [bool]) {
    for f in walk::calls(block) {
        if std::mem::replace(&mut to[f.index()], true) {
            continue;
        }
        if let FuncBody::Body(b) = &m.funcs[f.index()].body {
            reach(m, &b.block, to)
        }
    }
}

/// The thing, but for sessions, that a statement changes, or reads by itself, and that others use
/// too.
#[allow(clippy::wildcard_enum_match_arm, reason = "a few kinds of many are looked for")]
fn writes(m: &Module, s: &StmtKind, counts: bool) -> Option<String> {
    use StmtKind::*;
    match s {
        SetState(id, _) => m.states.get(id.index()).map(|s| format!("state `{}`", s.name)),
        Count(id, _) if counts => m.counters.get(id.index()).map(|c| format!("counter `{}`", c.name)),
        SendFrame { .. } | Frame { .. } | Queue { .. } => Some("a packet".into()),
        s => s.table().and_then(|t| m.tables.get(t.index())).map(|t| format!("table `{}`", t.name)),
    }
}

/// Whether a statement may set a local to bytes that lie in a table: those of an exact one are
/// copied.
fn reads_in_place(m: &Module, s: &StmtKind) -> bool {
    let (StmtKind::TableGet { table, .. } | StmtKind::TableNext { table, .. } | StmtKind::TablePop { table, .. }) = s
    else {
        return false;
    };
    m.tables
        .get(table.index())
        .is_none_or(|t| t.kind != TableKind::Exact && (layout::has_bytes(m, t.value) || layout::has_bytes(m, t.key)))
}

/// Events since the last call, on some way to a place.
#[derive(Clone, Copy, PartialEq, Eq)]
struct PathEvents {
    /// Some way leads here.
    reached: bool,
    /// Something was used and no pause has come since; and one has.
    used: bool,
    stale: bool,
    /// The same of a session.
    used_session: bool,
    stale_session: bool,
    /// Locals may be slices of state, or of a table.
    slices: bool,
    /// And of a session.
    session_slices: bool,
    /// Calls are under way; and a pause has come since.
    calls: bool,
    early: bool,
    /// The request is answered: its connection may end at any time.
    replied: bool,
    /// The answer of the last call lies where it has come.
    in_place: bool,
}

impl PathEvents {
    fn start() -> PathEvents {
        PathEvents { reached: true, ..PathEvents::nowhere() }
    }
    fn nowhere() -> PathEvents {
        PathEvents {
            reached: false,
            used: false,
            stale: false,
            used_session: false,
            stale_session: false,
            slices: false,
            session_slices: false,
            calls: false,
            early: false,
            replied: false,
            in_place: false,
        }
    }
    fn or(self, o: PathEvents) -> PathEvents {
        PathEvents {
            reached: self.reached | o.reached,
            used: self.used | o.used,
            stale: self.stale | o.stale,
            used_session: self.used_session | o.used_session,
            stale_session: self.stale_session | o.stale_session,
            slices: self.slices | o.slices,
            session_slices: self.session_slices | o.session_slices,
            calls: self.calls | o.calls,
            early: self.early | o.early,
            replied: self.replied | o.replied,
            in_place: self.in_place | o.in_place,
        }
    }
}

struct Loop {
    at_break: PathEvents,
    at_next: PathEvents,
}

struct PauseCheck<'a, 'm> {
    m: &'m Module,
    of: &'a Funcs<'m>,
    locals: &'a [Local],
    /// It pauses within messages; it keeps the order of the items that it groups.
    within: bool,
    ordered: bool,
    /// Counters are read.
    counts: bool,
    at: PathEvents,
    loops: Vec<Loop>,
    why: Option<String>,
    in_place: bool,
    /// Its request must be alone on its connection: why.
    alone: Option<String>,
    /// It waits for an answer when its own is given.
    goes_on: bool,
    line: u32,
}

impl PauseCheck<'_, '_> {
    fn refuse(&mut self, why: String) {
        if self.why.is_none() {
            self.why = Some(self.placed(&why))
        }
    }

    fn placed(&self, why: &str) -> String {
        let line = if self.line > 0 { format!("line {}: ", self.line) } else { String::new() };
        format!("{line}{why}")
    }

    fn uses_session(&mut self, what: &str) {
        if self.at.reached {
            if self.at.stale_session && self.alone.is_none() {
                self.alone = Some(self.placed(&format!("{what} is used on both sides of a pause")))
            }
            self.at.used_session = true
        }
    }

    fn uses(&mut self, what: &str) {
        if !self.at.reached {
            return;
        }
        if self.at.stale {
            self.refuse(format!("{what} is used on both sides of a pause"))
        }
        self.at.used = true;
    }

    fn pause(&mut self) {
        if !self.at.reached {
            return;
        }
        self.at.early |= self.at.calls;
        if self.at.slices {
            self.refuse("bytes that lie in state or table are used around a long loop".into())
        }
        if self.at.session_slices && self.alone.is_none() {
            self.alone = Some(self.placed("bytes that lie in a session are used around a long loop"))
        }
        if self.at.replied {
            self.refuse("its request is answered before a long loop".into())
        }
        self.in_place |= self.at.in_place;
        self.at.stale |= self.at.used;
        self.at.stale_session |= self.at.used_session;
        (self.at.used, self.at.used_session) = (false, false);
    }

    fn block(&mut self, block: &Block) {
        for s in block {
            self.line = s.span.line;
            self.stmt(&s.kind);
        }
    }

    /// The expressions of a statement: what they use comes before and behind what pauses within
    /// them.
    fn exprs(&mut self, s: &StmtKind) -> bool {
        let (mut used, mut session) = (None, None);
        let (mut pauses, mut slices, mut own_slices) = (self.within && joins_items(s), false, false);
        walk::stmt_exprs(s, &mut |e| {
            walk::expr(e, &mut |e| {
                if used.is_none() {
                    used = self.of.reads(e)
                }
                session = session.take().or_else(|| self.of.session(e));
                pauses |= matches!(&*e.kind, ExprKind::Call(f, _) if self.of.long[f.index()]);
                let has_bytes = || layout::has_bytes(self.m, e.ty);
                slices |= matches!(&*e.kind, ExprKind::State(_)) && has_bytes();
                own_slices |= matches!(&*e.kind, ExprKind::Session(_)) && has_bytes();
            })
        });
        if let Some(what) = &used {
            self.uses(what)
        }
        if let Some(what) = &session {
            self.uses_session(what)
        }
        self.at.slices |= slices;
        self.at.session_slices |= own_slices;
        if pauses {
            self.pause()
        }
        if let (Some(what), true) = (&used, pauses) {
            self.uses(what)
        }
        if let (Some(what), true) = (&session, pauses) {
            self.uses_session(what)
        }
        pauses
    }

    #[allow(clippy::wildcard_enum_match_arm, reason = "a few kinds of many are looked for")]
    fn stmt(&mut self, s: &StmtKind) {
        let pauses = self.exprs(s);
        match s {
            StmtKind::Break | StmtKind::Continue => {
                let at = std::mem::replace(&mut self.at, PathEvents::nowhere());
                if let Some(l) = self.loops.last_mut() {
                    let to = if matches!(s, StmtKind::Break) { &mut l.at_break } else { &mut l.at_next };
                    *to = to.or(at);
                }
            }
            StmtKind::Return(_) | StmtKind::Fault { .. } => self.at = PathEvents::nowhere(),
            StmtKind::If { then, other, .. } => self.branches(&[then, other]),
            StmtKind::Switch { cases, default, .. } => {
                let all: Vec<&Block> = cases.iter().map(|c| &c.1).chain([default]).collect();
                self.branches(&all);
            }
            StmtKind::For { body, max, .. } | StmtKind::Loop { body, max, .. } => {
                self.looped(body, is_long(self.m, s, self.locals), *max > 1)
            }
            StmtKind::Await { hold, .. } => {
                // Where the order of items is noted.
                if self.within && self.ordered && *hold {
                    self.pause()
                }
                if self.at.early && !hold {
                    self.refuse("an answer that is not kept may arrive in a long loop".into())
                }
                self.goes_on |= self.at.replied;
                self.at = PathEvents {
                    reached: self.at.reached,
                    replied: self.at.replied,
                    in_place: !hold,
                    ..PathEvents::nowhere()
                }
            }
            _ => self.simple(s, pauses),
        }
    }

    fn simple(&mut self, s: &StmtKind, pauses: bool) {
        let writes = writes(self.m, s, self.counts);
        if let Some(what) = &writes {
            // A table may be locked while its statement's operands are worked out.
            if pauses && !matches!(s, StmtKind::SetState(..) | StmtKind::Count(..)) {
                self.refuse(format!("{what} is used with a value that takes a long loop"))
            }
            self.uses(what);
        }
        walk::stmt_blocks(s, &mut |b| {
            let before = self.at;
            self.block(b);
            self.at = self.at.or(before);
        });
        if let Some(what) = &writes {
            self.uses(what)
        }
        if let Some(what) = self.of.sets_session(s) {
            self.uses_session(&what)
        }
        self.at.slices |= reads_in_place(self.m, s);
        // Before it is sent.
        if self.within && matches!(s, StmtKind::Call { .. } | StmtKind::Reply { .. }) {
            self.pause()
        }
        self.at.calls |= s.is_awaited();
        self.at.replied |= matches!(s, StmtKind::Reply { .. } | StmtKind::Close);
    }

    fn branches(&mut self, all: &[&Block]) {
        let (before, mut after) = (self.at, PathEvents::nowhere());
        for b in all {
            self.at = before;
            self.block(b);
            after = after.or(self.at);
        }
        self.at = after;
    }

    /// `again`: it may have a second round.
    fn looped(&mut self, body: &Block, long: bool, again: bool) {
        let mut head = self.at;
        loop {
            self.at = head;
            self.loops.push(Loop { at_break: PathEvents::nowhere(), at_next: PathEvents::nowhere() });
            self.block(body);
            let l =
                self.loops.pop().unwrap_or(Loop { at_break: PathEvents::nowhere(), at_next: PathEvents::nowhere() });
            self.at = self.at.or(l.at_next);
            if long {
                self.pause()
            }
            let next = head.or(self.at);
            if next == head || !again {
                self.at = next.or(l.at_break);
                return;
            }
            head = next;
        }
    }
}
