//! The stacks on which long handlers run, kept for the next ones.

use crate::abi::wl_out;
use crate::buffer::{ChunkPool, ChunkQueue};
use corosensei::stack::DefaultStack;
use corosensei::{Coroutine, Yielder};
use std::os::raw::c_int;

/// As large as a core's stack, because the same code runs on it.
const STACK: usize = wireloom_ir::desc::STACK;
/// The most scratch that an idle stack keeps.
pub(super) const KEPT_SCRATCH: usize = wireloom_ir::desc::LARGE_SCRATCH as usize;
/// Idle stacks that are kept.
const KEPT: usize = 64;
pub(super) const FIRST_LOOK: u32 = 8;

pub struct HandlerStack {
    /// One of both is there.
    pub(super) stack: Option<DefaultStack>,
    pub(super) run: Option<Coroutine<(), (), c_int, DefaultStack>>,
    pub(super) yielder: *const Yielder<(), ()>,
    pub(super) tmp: Vec<u8>,
    pub(super) out: Vec<u8>,
    pub(super) built: wl_out,
    /// Rounds until the next look at the clock, and the time of the last one.
    pub(super) rounds: u32,
    pub(super) looked: u64,
    /// The outcome and place that the handler has set for its next call or answer, while others
    /// run.
    pub(super) outcome: u32,
    pub(super) place: u64,
    /// The message that it is about to send, in pieces, and where it has built it.
    pub(super) pieces: ChunkQueue,
    pub(super) pieces_of: *const u8,
}

/// The stacks of a core.
pub(super) struct HandlerStacks {
    pub(super) idle: Vec<*mut HandlerStack>,
    /// Handlers that are paused.
    pub paused: usize,
    /// The one that runs now, and when its slice ends.
    pub(super) current: *mut HandlerStack,
    pub(super) end: u64,
}

impl HandlerStacks {
    pub fn new() -> HandlerStacks {
        HandlerStacks { idle: Vec::new(), paused: 0, current: std::ptr::null_mut(), end: 0 }
    }

    pub(super) fn take(&mut self) -> Option<*mut HandlerStack> {
        if let Some(l) = self.idle.pop() {
            return Some(l);
        }
        let stack = DefaultStack::new(STACK).ok()?;
        let mut out = vec![0u8; 4096];
        let built = wl_out::of(&mut out);
        let handler_stack = HandlerStack {
            stack: Some(stack),
            run: None,
            yielder: std::ptr::null(),
            tmp: Vec::new(),
            out,
            built,
            rounds: FIRST_LOOK,
            looked: 0,
            outcome: 0,
            place: 0,
            pieces: ChunkQueue::new(),
            pieces_of: std::ptr::null(),
        };
        Some(Box::into_raw(Box::new(handler_stack)))
    }

    /// Gives back a stack on which nothing runs.
    pub(super) fn give(&mut self, pool: &mut ChunkPool, handler_stack: *mut HandlerStack) {
        // SAFETY: the stack is live, and no other reference to it exists.
        let s = unsafe { &mut *handler_stack };
        if s.tmp.len() > KEPT_SCRATCH {
            pool.give_back(std::mem::take(&mut s.tmp));
        }
        if s.out.len() > KEPT_SCRATCH {
            pool.give_back(std::mem::replace(&mut s.out, vec![0u8; 4096]));
            s.built = wl_out::of(&mut s.out);
        }
        if self.idle.len() < KEPT {
            self.idle.push(handler_stack);
        } else {
            // SAFETY: made by `take`, in no list.
            drop(unsafe { Box::from_raw(handler_stack) });
        }
    }
}

impl Drop for HandlerStacks {
    fn drop(&mut self) {
        for handler_stack in self.idle.drain(..) {
            // SAFETY: made by `take`, in no other list.
            drop(unsafe { Box::from_raw(handler_stack) });
        }
    }
}
