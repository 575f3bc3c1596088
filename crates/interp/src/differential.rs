//! Runs two programs over the same bytes and compares their effects.
//!
//! Parsers ([`trace_stream`]): a byte stream goes in pieces to `parse` and `tail`, as the runtime
//! gives it. The comparison covers every message's length, flags and fault, but not the number of
//! calls. Handlers ([`Mock`]): a host notes calls, replies and sends, and answers calls from a
//! script. Both take any `wl_program`: the interpreter with different cuts, or the interpreter and
//! compiled C.

mod mock;
mod view;

pub use mock::{HandlerAct, Mock, MockAnswer};

use crate::generate::{Generator, Rng};
use crate::grammar::args;
use view::{feed, parser, pass_run, view, ComparedView};
use wireloom_ir::*;
use wireloom_runtime::abi::*;

/// The effects of a parser on a stream of messages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// `omitted`: the sum of the places of all bytes that are not passed on.
    Message {
        head: u32,
        total: u64,
        flags: u32,
        omitted: u64,
    },
    /// A fault after which the stream goes on `total` bytes behind the message's start.
    InStep {
        total: u64,
        kind: u16,
        place: u32,
    },
    Bad {
        kind: u16,
        place: u32,
    },
    /// The bytes ended inside a message, and the parser rightly waits.
    Waiting,
    /// Something the ABI forbids.
    Broken(String),
}

/// Public bits of `wl_parser::flags`; a program may use others for itself.
const FLAGS: u32 = 31 | WL_M_ENDS;
const MOST_EVENTS: usize = 10_000;

/// Parses a stream of messages of one unit. `cuts` are the sizes of the pieces in which it arrives
/// (then the rest at once), `eof` whether it ends after them.
///
/// # Safety
/// `table` and all it names are valid.
pub unsafe fn trace_stream(
    table: *const wl_program,
    unit: u32,
    input: &[u8],
    ctx: u64,
    cuts: &[usize],
    eof: bool,
) -> Vec<Event> {
    // SAFETY: by contract.
    let mut s = unsafe { Stream::new(table, unit, input, cuts, eof) };
    let mut events = Vec::new();
    while s.start < input.len() && events.len() < MOST_EVENTS {
        let event = s.message(ctx);
        let ends = !matches!(event, Event::Message { .. } | Event::InStep { .. });
        let stuck = matches!(event, Event::Message { total: 0, .. } | Event::InStep { total: 0, .. });
        let (Event::Message { total, .. } | Event::InStep { total, .. }) = &event else {
            events.push(event);
            break;
        };
        s.start += *total as usize;
        events.push(event);
        if ends || stuck {
            break;
        }
    }
    events
}

/// The bytes of the tail of the message at the front of `input` that are passed on, however it
/// ends. `cuts` and `eof` are those of [`trace_stream`].
///
/// # Safety
/// `table` and all it names are valid.
pub unsafe fn passed_on(
    table: *const wl_program,
    unit: u32,
    input: &[u8],
    ctx: u64,
    cuts: &[usize],
    eof: bool,
) -> (Event, Vec<u8>) {
    // SAFETY: by contract.
    let mut s = unsafe { Stream::new(table, unit, input, cuts, eof) };
    let event = s.message(ctx);
    (event, s.passed)
}

struct Stream<'a> {
    t: &'a wl_program,
    unit: u32,
    input: &'a [u8],
    cuts: &'a [usize],
    next_cut: usize,
    /// Bytes that have arrived.
    have: usize,
    /// Start of the current message.
    start: usize,
    eof: bool,
    /// The bytes of tails that are passed on.
    passed: Vec<u8>,
}

impl<'a> Stream<'a> {
    /// # Safety
    /// `table` and all it names are valid.
    unsafe fn new(table: *const wl_program, unit: u32, input: &'a [u8], cuts: &'a [usize], eof: bool) -> Stream<'a> {
        // SAFETY: by contract.
        let t = unsafe { &*table };
        let mut s = Stream { t, unit, input, cuts, next_cut: 0, have: 0, start: 0, eof, passed: Vec::new() };
        s.more();
        s
    }

    fn more(&mut self) -> bool {
        let before = self.have;
        let n = self.cuts.get(self.next_cut).copied().unwrap_or(usize::MAX);
        self.next_cut += 1;
        self.have = self.have.saturating_add(n.max(1)).min(self.input.len());
        self.have > before
    }

    fn at_end(&self) -> bool {
        self.eof && self.have == self.input.len()
    }

    fn message(&mut self, ctx: u64) -> Event {
        let mut v = view(self.t, self.unit, ctx);
        let code = loop {
            // SAFETY: the table is valid by the contract of trace_stream.
            let (code, _) = unsafe {
                feed(
                    self.t,
                    self.unit,
                    &mut v,
                    &self.input[self.start..self.have.max(self.start)],
                    self.at_end(),
                    false,
                )
            };
            if code != WL_MORE {
                break code;
            }
            if self.at_end() {
                return Event::Broken("parse() wants more after the end".into());
            }
            if !self.more() {
                return Event::Waiting;
            }
        };
        let p = parser(&v);
        let there = (self.have.max(self.start) - self.start) as u64;
        match code {
            WL_WHOLE | WL_HEAD if p.head as u64 > there => {
                Event::Broken(format!("a head of {} bytes of {there}", p.head))
            }
            WL_WHOLE => Event::Message { head: p.head, total: p.head as u64, flags: p.flags & FLAGS, omitted: 0 },
            WL_HEAD => self.tail(v, p.head),
            _ => Event::Bad { kind: p.fault, place: p.place },
        }
    }

    fn tail(&mut self, mut v: ComparedView, head: u32) -> Event {
        let (mut at, mut omitted) = (self.start + head as usize, 0);
        for turn in 0.. {
            let (from, omit) = (at, parser(&v).flags & WL_M_OMIT);
            // Bytes of a run may be passed on without asking the parser: every other time they are.
            if turn % 2 == 1 {
                at += pass_run(&mut v, self.have.max(at) - at);
            }
            // The view is moved before every call: it must not care.
            v = v.moved();
            let given = &self.input[at..self.have.max(at)];
            // SAFETY: as above.
            let (code, used) = unsafe { feed(self.t, self.unit, &mut v, given, self.at_end(), true) };
            if used as usize > given.len() {
                return Event::Broken(format!("tail() used {used} bytes of {}", given.len()));
            }
            at += used as usize;
            let (p, total) = (parser(&v), (at - self.start) as u64);
            if omit == 0 {
                self.passed.extend_from_slice(&self.input[from..at]);
            } else {
                omitted += (from..at).map(|n| n as u64).sum::<u64>();
            }
            match code {
                WL_WHOLE => return Event::Message { head, total, flags: p.flags & FLAGS, omitted },
                WL_MORE if p.flags & WL_M_OMIT != omit => {}
                WL_MORE if self.at_end() => return Event::Broken("tail() wants more after the end".into()),
                WL_MORE if !self.more() => return Event::Waiting,
                WL_MORE => {}
                _ if p.flags & WL_M_IN_STEP != 0 => return Event::InStep { total, kind: p.fault, place: p.place },
                _ => return Event::Bad { kind: p.fault, place: p.place },
            }
        }
        Event::Waiting
    }
}

/// Of [`random_cuts`]: so many pieces at the beginning, and so many bytes at the end, are cut
/// finely whatever the length.
const FINE: usize = 1000;
const LAST: usize = 200;
/// The rest of a long input makes twice as many pieces.
const COARSE: u64 = 100;

/// Sizes of random pieces for an input of `n` bytes. Behind the first thousand pieces, and but for
/// the last bytes, pieces of long inputs are larger. A message's bytes are given again with each
/// piece: a megabyte in single bytes would take minutes.
pub fn random_cuts(rng: &mut Rng, n: usize) -> Vec<usize> {
    let largest = [1, 2, 3, 7, 40, 1500][rng.below(6) as usize];
    let (mut cuts, mut sum) = (Vec::new(), 0);
    while sum < n {
        let fine = cuts.len() < FINE || n - sum < LAST;
        let c = 1 + rng.below(if fine { largest } else { largest.max(n as u64 / COARSE) }) as usize;
        sum += c;
        cuts.push(c);
    }
    cuts
}

/// The first difference between two traces. Where the input ends inside a message only the kind
/// counts: programs may wait for the bytes of several fields at once.
pub fn difference(a: &[Event], b: &[Event]) -> Option<String> {
    for i in 0..a.len().max(b.len()) {
        let same = match (a.get(i), b.get(i)) {
            (Some(Event::Bad { kind: x, .. }), Some(Event::Bad { kind: y, .. }))
                if x == y && *x == FaultKind::TRUNCATED.0 =>
            {
                true
            }
            (Some(Event::Broken(_)), _) | (_, Some(Event::Broken(_))) => false,
            (x, y) => x == y,
        };
        if !same {
            return Some(format!("event {i}: {:?} and {:?}", a.get(i), b.get(i)));
        }
    }
    None
}

/// The contexts (`wl_parser::ctx`) in which a unit is parsed as a message. A request has 0. A
/// response has one for every value of its parameters, or for some if there are many. Units that
/// some code gives to `parse` are as requests. None if the unit is only part of others.
pub fn contexts(m: &Module, unit: UnitId) -> Vec<u64> {
    let mut all = Vec::new();
    if m.protocols.iter().any(|p| p.request == unit) || (!is_message(m, unit) && is_parsed(m, unit)) {
        all.push(0);
    }
    if m.protocols.iter().any(|p| p.response == Some(unit)) {
        let Unit { params, asked, .. } = m.unit(unit);
        let bits = params.iter().chain(asked).map(|p| p.shift as u32 + p.bits as u32).max().unwrap_or(0).min(4);
        all.extend((0..1 << bits).map(|args| WL_CTX_RESPONSE | args));
    }
    all
}

/// Whether a unit arrives on a connection.
pub fn is_message(m: &Module, unit: UnitId) -> bool {
    m.protocols.iter().any(|p| p.request == unit || p.response == Some(unit)) || m.merges.iter().any(|g| g.unit == unit)
}

/// Whether `parse` is used on a unit of this module. Frames have parsers of another kind.
fn is_parsed(m: &Module, unit: UnitId) -> bool {
    let mut found = false;
    m.bodies(&mut |b| {
        walk::stmts(&b.block, &mut |s| found |= matches!(&s.kind, StmtKind::Parse { unit: u, .. } if *u == unit))
    });
    found && m.unit(unit).frame.is_none() && m.unit(unit).params.is_empty()
}

/// Two programs and the unit they are compared on.
pub struct Pair<'a> {
    pub module: &'a Module,
    pub a: *const wl_program,
    pub b: *const wl_program,
    pub unit: UnitId,
    pub ctx: u64,
}

impl Pair<'_> {
    /// Compares both on one input: `a` all at once, `b` in pieces, `a` in the same pieces.
    ///
    /// # Safety
    /// Both tables are valid.
    pub unsafe fn compare(&self, input: &[u8], cuts: &[usize], eof: bool) -> Result<(), String> {
        if !is_message(self.module, self.unit) {
            // SAFETY: by contract.
            return unsafe { self.compare_whole(input) };
        }
        // SAFETY: by contract.
        let run = |t, cuts: &[usize]| unsafe { trace_stream(t, self.unit.0, input, self.ctx, cuts, eof) };
        let whole = run(self.a, &[]);
        for (who, table) in [("a in pieces", self.a), ("b in pieces", self.b)] {
            if let Some(d) = difference(&whole, &run(table, cuts)) {
                return Err(format!(
                    "{}: a at once and {who} differ in {d}\ninput: \"{}\"\ncuts: {cuts:?}, eof: {eof}",
                    self.module.unit(self.unit).name,
                    input.escape_ascii()
                ));
            }
        }
        Ok(())
    }

    /// Compares both on bytes that are there as a whole, as `parse` in a program does. Both say
    /// how long the message is, or that it is none.
    ///
    /// # Safety
    /// Both tables are valid.
    unsafe fn compare_whole(&self, input: &[u8]) -> Result<(), String> {
        // SAFETY: by contract.
        let [a, b] = [self.a, self.b]
            .map(|t| unsafe { trace_stream(t, self.unit.0, input, self.ctx, &[], true) }.into_iter().next());
        let same = match (&a, &b) {
            (Some(Event::Message { total: x, .. }), Some(Event::Message { total: y, .. })) => x == y,
            (Some(Event::Bad { kind: x, .. }), Some(Event::Bad { kind: y, .. })) => x == y,
            (Some(Event::InStep { total: x, kind: k, .. }), Some(Event::InStep { total: y, kind: l, .. })) => {
                (x, k) == (y, l)
            }
            _ => a.is_none() && b.is_none(),
        };
        let name = &self.module.unit(self.unit).name;
        if same {
            Ok(())
        } else {
            Err(format!("{name}: of the whole bytes a makes {a:?} and b {b:?}\ninput: \"{}\"", input.escape_ascii()))
        }
    }

    /// Compares both on `rounds` random streams, half of them damaged.
    ///
    /// # Safety
    /// Both tables are valid.
    pub unsafe fn compare_random(&self, seed: u64, rounds: usize) -> Result<Summary, String> {
        // SAFETY: by contract.
        unsafe { self.compare_random_while(seed, rounds, || true) }
    }

    /// As [`Pair::compare_random`], ending early when `go_on` says no.
    ///
    /// # Safety
    /// Both tables are valid.
    pub unsafe fn compare_random_while(
        &self,
        seed: u64,
        rounds: usize,
        go_on: impl Fn() -> bool,
    ) -> Result<Summary, String> {
        let mut g = Generator::new(self.module, seed);
        let mut rng = Rng::new(seed ^ 0x5eed);
        let args = args(self.module, self.unit, self.ctx);
        let mut sum = Summary::default();
        for round in (0..rounds).take_while(|_| go_on()) {
            sum.streams += 1;
            let input = g.stream(self.unit, &args, 1 + rng.below(4) as usize, if round % 2 == 0 { 0 } else { 50 });
            let (cuts, eof) = (random_cuts(&mut rng, input.len()), rng.chance(50));
            // SAFETY: by contract.
            unsafe {
                self.compare(&input, &cuts, eof).map_err(|e| format!("seed {seed}, round {round}: {e}"))?;
                for e in trace_stream(self.a, self.unit.0, &input, self.ctx, &[], eof) {
                    sum.note(&e);
                }
            }
            sum.bytes += input.len();
        }
        Ok(sum)
    }
}

/// Compares two programs of a module. It does so on random streams of each of its units, and on
/// random requests to each of its handlers of messages, with random answers.
///
/// # Safety
/// Both tables are valid.
pub unsafe fn compare_module(
    m: &Module,
    both: [*const wl_program; 2],
    seed: u64,
    rounds: usize,
) -> Result<Summary, String> {
    let (mut sum, [a, b]) = (Summary::default(), both);
    for unit in (0..m.units.len()).map(|n| UnitId(n as u32)) {
        for ctx in contexts(m, unit).into_iter().take(2) {
            let pair = Pair { module: m, a, b, unit, ctx };
            // SAFETY: by contract.
            sum.add(&unsafe { pair.compare_random(seed, rounds) }?);
        }
    }
    for (n, h) in m.handlers.iter().enumerate().filter(|_| m.params.is_empty()) {
        if let Some((_, request)) = m.message_of(h.on) {
            // SAFETY: by contract.
            unsafe { compare_handler(m, both, (n as u32, request), seed, rounds) }
                .map_err(|e| format!("handler {}: {e}", h.name))?;
        }
    }
    Ok(sum)
}

/// # Safety
/// Both tables are valid.
unsafe fn compare_handler(
    m: &Module,
    both: [*const wl_program; 2],
    (handler, request): (u32, UnitId),
    seed: u64,
    rounds: usize,
) -> Result<(), String> {
    // SAFETY: by contract.
    let [mut a, mut b] = both.map(|t| unsafe { Mock::new(t, m, &[]) });
    let (mut made, mut rng) = (Generator::new(m, seed), Rng::new(seed ^ 0xa25));
    // A module that was written by hand may read an answer without asking whether it has come.
    let mut faults = false;
    walk::block_exprs(&m.handlers[handler as usize].body.block, &mut |e| {
        faults |= matches!(*e.kind, ExprKind::PartStatus(_))
    });
    let responses: Vec<UnitId> = m.protocols.iter().filter_map(|p| p.response).collect();
    for _ in 0..rounds {
        let Some(message) = made.message(request, &args(m, request, 0)) else { continue };
        let mut answer = || {
            if faults && rng.chance(20) || responses.is_empty() {
                return Some(MockAnswer::Fault(WL_F_LOST));
            }
            let unit = responses[rng.below(responses.len() as u64) as usize];
            made.message(unit, &args(m, unit, WL_CTX_RESPONSE)).map(MockAnswer::Bytes)
        };
        let Some(answers) = (0..3).map(|_| answer()).collect::<Option<Vec<_>>>() else { continue };
        let [x, y] = [&mut a, &mut b].map(|mock| mock.run_message(handler, &message, &answers));
        if x != y {
            return Err(format!(
                "a does {x:?}, b {y:?}\nrequest: \"{}\", answers: {answers:?}",
                message.escape_ascii()
            ));
        }
    }
    Ok(())
}

/// The contents of random streams, so that a test can check that they reached the parser.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    pub streams: usize,
    pub messages: usize,
    pub in_step: usize,
    pub bad: usize,
    pub bytes: usize,
}

impl Summary {
    pub fn add(&mut self, other: &Summary) {
        self.streams += other.streams;
        self.messages += other.messages;
        self.in_step += other.in_step;
        self.bad += other.bad;
        self.bytes += other.bytes;
    }

    fn note(&mut self, e: &Event) {
        match e {
            Event::Message { .. } => self.messages += 1,
            Event::InStep { .. } => self.in_step += 1,
            Event::Bad { .. } | Event::Broken(_) => self.bad += 1,
            Event::Waiting => {}
        }
    }
}
