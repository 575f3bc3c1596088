//! Sixteen frames at a time.
//!
//! In: handlers of frames with their plans (batch lookup, hoisted state), and the most common
//! header stack of their unit. In it all headers lie at constant offsets. Out: [`VectorPlan`].
//!
//! A vectorized handler may read numbers of at most 32 bits, addresses and the frame's length. It
//! may branch on them, set locals, count, and send frames as they are. It may look up the table of
//! masks whose keys are looked up for the batch. It cannot fault, and changes nothing that another
//! frame sees. So the order of the frames does not matter, and frames of other stacks are handled
//! one by one.
//!
//! A condition becomes a mask. Both branches run, each for its own frames. A local that a branch
//! sets keeps its value where the branch is not taken. Each value is computed once.
//!
//! Of handlers that look up an exact table and do more, only the keys are vectorized (keys.rs).
//! They run frame by frame, in order.

mod expr;
mod headers;
mod keys;
mod stmt;
mod value;
mod words;

use crate::plans::{
    BatchLookup, HeaderStack, HoistedState, KeySite, MaskRef, NumberRef, VectorOp, VectorPlan, VectorStep, VectorValue,
};
use crate::*;
use std::collections::BTreeSet;
use value::VectorForm;

pub fn run(m: &mut Module) {
    let plans: Vec<_> = m.handlers.iter().map(|h| plan(m, h)).collect();
    for (h, plan) in m.handlers.iter_mut().zip(plans) {
        h.plan.vector = plan
    }
}

/// The plan of a handler; None: it runs frame by frame.
pub fn plan(m: &Module, h: &Handler) -> Option<VectorPlan> {
    let On::Frame { unit, .. } = h.on else { return None };
    let stack = m.unit(unit).frame.as_ref()?.fast_path.as_ref()?.stack.as_ref()?;
    match &h.plan.batch {
        Some(BatchLookup { exact: Some(exact), masked: None, .. }) => {
            let exact = KeySite::of(exact, &h.body)?;
            Vectorizer::new(m, unit, stack, &HoistedState::default()).keys(&h.body, &exact)
        }
        batch => {
            let masked = match batch {
                Some(b) => Some(Lookups::of(b, &h.body)?),
                None => None,
            };
            if moves_bytes(m) || m.has_queues() {
                return None;
            }
            let mut v = Vectorizer::new(m, unit, stack, &h.plan.hoisted);
            v.lookups = masked.as_ref();
            v.handler(&h.body)
        }
    }
}

/// Why a backend must not follow a plan; None: it may. A plan is another wording of the handler: it
/// must be the one that the pass makes.
pub fn illegal(m: &Module, h: &Handler, told: &VectorPlan) -> Option<&'static str> {
    match plan(m, h) {
        None => Some("the handler cannot be vectorized"),
        Some(made) if made.least != told.least || made.stack != told.stack => {
            Some("its test of the header stack is not that of the unit's fast path")
        }
        Some(made) if made.key != told.key => Some("its key is not that of the batch lookup"),
        Some(made) if made.run != told.run => Some("it does not do what the handler does"),
        Some(_) => None,
    }
}

/// Whether some handler moves the bytes of a frame, or changes its length.
pub fn moves_bytes(m: &Module) -> bool {
    let mut moves = false;
    m.bodies(&mut |b| {
        walk::stmts(&b.block, &mut |s| {
            moves |= matches!(&s.kind, StmtKind::Frame { act, .. } if act.moves());
        })
    });
    moves
}

/// The lookups of a batch in a table of masks, and perhaps in an exact one before it.
struct Lookups<'a> {
    exact: Option<KeySite<'a>>,
    masked: KeySite<'a>,
    unused: BTreeSet<LocalId>,
}

impl<'a> Lookups<'a> {
    fn of(b: &'a BatchLookup, body: &'a Body) -> Option<Self> {
        Some(Lookups {
            exact: b.exact.as_ref().and_then(|l| KeySite::of(l, body)),
            masked: KeySite::of(b.masked.as_ref()?, body)?,
            unused: b.unused.iter().copied().collect(),
        })
    }
}

struct Vectorizer<'a> {
    m: &'a Module,
    unit: UnitId,
    stack: &'a HeaderStack,
    hoisted: &'a HoistedState,
    lookups: Option<&'a Lookups<'a>>,
    /// Places of bytes that are read, and how many. A first run finds them; its steps are dropped.
    reads: BTreeSet<(u32, u32)>,
    /// Where the words begin that hold them all.
    words: Vec<u32>,
    steps: Vec<VectorStep>,
    /// The operations of the values so far: each is computed once.
    values: Vec<VectorOp>,
    locals: Vec<VectorForm>,
    /// Headers that the steps of this loop have looked at.
    headers: BTreeSet<u32>,
    /// The header whose own fields are read, and where it begins.
    this: Option<(UnitId, u32)>,
    /// Headers that are known to be absent here.
    absent: BTreeSet<u32>,
    /// Of the last headers, if there are several: which frames have each.
    last: Vec<(u32, MaskRef)>,
}

impl<'a> Vectorizer<'a> {
    fn new(m: &'a Module, unit: UnitId, stack: &'a HeaderStack, hoisted: &'a HoistedState) -> Self {
        Vectorizer {
            m,
            unit,
            stack,
            hoisted,
            lookups: None,
            reads: BTreeSet::new(),
            words: Vec::new(),
            steps: Vec::new(),
            values: Vec::new(),
            locals: Vec::new(),
            headers: BTreeSet::new(),
            this: None,
            absent: BTreeSet::new(),
            last: Vec::new(),
        }
    }

    /// Makes a plan twice: the first run finds the bytes that are read.
    fn twice(&mut self, make: impl Fn(&mut Self) -> Option<VectorPlan>) -> Option<VectorPlan> {
        self.words = words::words(&self.reads, self.stack.least)?;
        make(self)?;
        self.words = words::words(&self.reads, self.stack.least)?;
        make(self)
    }

    /// The whole handler.
    fn handler(&mut self, body: &'a Body) -> Option<VectorPlan> {
        self.twice(|v| {
            v.begin(body);
            v.stack()?;
            let stack = std::mem::take(&mut v.steps);
            let key = match v.lookups {
                None => Vec::new(),
                Some(l) => {
                    v.masked_key(&l.masked)?;
                    let key = std::mem::take(&mut v.steps);
                    v.begin(body);
                    key
                }
            };
            v.block(&body.block, MaskRef::Stack)?;
            let run = std::mem::take(&mut v.steps);
            Some(VectorPlan { least: v.stack.least, stack, key, run: Some(run) })
        })
    }

    /// At the beginning of a loop nothing has a value but which frames have the stack.
    fn begin(&mut self, body: &Body) {
        self.steps.clear();
        self.values.clear();
        self.headers.clear();
        self.absent.clear();
        self.last.clear();
        self.locals = body.locals.iter().map(|l| value::zero(self.m, l.ty)).collect();
    }

    fn layers(&self) -> &'a [Layer] {
        parse_graph::layers(self.m, self.unit)
    }

    /// The value of an operation: the one that has it, or a new one.
    fn value(&mut self, field: Option<&str>, op: VectorOp) -> u32 {
        if let Some(n) = self.values.iter().position(|o| *o == op) {
            return n as u32;
        }
        self.steps.push(VectorStep::Let(VectorValue { field: field.map(str::to_string), op: op.clone() }));
        self.values.push(op);
        self.values.len() as u32 - 1
    }

    fn number(&mut self, op: VectorOp, least: u64, most: u64) -> VectorForm {
        VectorForm::Number { of: NumberRef::Value(self.value(None, op)), least, most }
    }

    fn mask(&mut self, op: VectorOp) -> MaskRef {
        MaskRef::Value(self.value(None, op))
    }
}
