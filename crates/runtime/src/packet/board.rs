//! The state that cores show to each other: how far each has come, its time, and whether it sleeps.
//!
//! Each core writes its own place and reads the others'. The places lie in memory of the process,
//! or in memory that two processes share ([`super::nic`]).

use std::sync::atomic::{
    AtomicU32, AtomicU64, Ordering::Acquire, Ordering::Relaxed, Ordering::Release, Ordering::SeqCst,
};
use std::sync::Arc;

/// How far a core has come; it goes on to greater ones only.
pub mod stage {
    pub const READY: u32 = 1;
    /// Its inputs have ended.
    pub const POLLED: u32 = 2;
    pub const HANDLED: u32 = 3;
}

/// The state that a core publishes to its receivers.
#[repr(C, align(64))]
#[derive(Default)]
pub struct Upstream {
    pub clock: AtomicU64,
    /// Not 0: it sends no more. (No `AtomicBool`: another process may write any number.)
    ended: AtomicU32,
}

impl Upstream {
    pub fn has_ended(&self) -> bool {
        self.ended.load(Acquire) != 0
    }

    pub fn end(&self) {
        self.ended.store(1, Release);
    }
}

/// The state that it tells all.
#[repr(C, align(64))]
#[derive(Default)]
struct Told {
    stage: AtomicU32,
    sleeping: AtomicU32,
    /// It is at work: it does not wait for others, and has not ended.
    works: AtomicU32,
    /// How often it had something to do, modulo 2^32.
    turns: AtomicU32,
}

#[repr(C, align(128))]
#[derive(Default)]
pub struct Place {
    upstream: Upstream,
    told: Told,
}

/// Memory that outlives a board within it.
pub trait BoardMemory: Send + Sync {
    fn places(&self) -> &[Place];
}

impl BoardMemory for Vec<Place> {
    fn places(&self) -> &[Place] {
        self
    }
}

#[derive(Clone)]
pub struct Board(Arc<dyn BoardMemory>);

impl Board {
    pub fn new(cores: usize) -> Board {
        Board(Arc::new((0..cores).map(|_| Place::default()).collect::<Vec<_>>()))
    }

    pub fn within(memory: Arc<dyn BoardMemory>) -> Board {
        Board(memory)
    }

    pub fn cores(&self) -> usize {
        self.0.places().len()
    }

    pub fn upstream(&self, core: usize) -> &Upstream {
        &self.0.places()[core].upstream
    }

    /// A core has come so far.
    pub fn reach(&self, core: usize, stage: u32) {
        self.0.places()[core].told.stage.fetch_max(stage, SeqCst);
    }

    /// Cores that have come so far.
    pub fn reached(&self, stage: u32) -> usize {
        self.0.places().iter().filter(|p| p.told.stage.load(SeqCst) >= stage).count()
    }

    pub fn sleeps(&self, core: usize) -> bool {
        self.0.places()[core].told.sleeping.load(SeqCst) != 0
    }

    pub fn set_sleeping(&self, core: usize, sleeping: bool) {
        self.0.places()[core].told.sleeping.store(sleeping.into(), SeqCst);
    }

    pub fn works(&self, core: usize) -> bool {
        self.0.places()[core].told.works.load(SeqCst) != 0
    }

    pub fn set_works(&self, core: usize, works: bool) {
        self.0.places()[core].told.works.store(works.into(), SeqCst);
    }

    pub fn turns(&self, core: usize) -> u32 {
        self.0.places()[core].told.turns.load(SeqCst)
    }

    /// A core had something to do.
    pub fn turned(&self, core: usize) {
        self.0.places()[core].told.turns.fetch_add(1, Relaxed);
    }

    /// A core begins anew.
    pub fn forget(&self, core: usize) {
        let p = &self.0.places()[core];
        p.told.stage.store(0, SeqCst);
        p.told.sleeping.store(0, SeqCst);
        p.told.works.store(0, SeqCst);
        p.upstream.ended.store(0, SeqCst);
    }
}
