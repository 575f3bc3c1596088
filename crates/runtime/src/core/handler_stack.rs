//! The stacks on which long handlers run, kept for the next ones.

use crate::abi::wl_out;
use corosensei::stack::DefaultStack;
use corosensei::{Coroutine, Yielder};
use std::os::raw::c_int;

/// As large as a thread's stack, because the same code runs on it.
const STACK: usize = 2 << 20;
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
    pub(super) tmp: Box<[u64]>,
    pub(super) out: Vec<u8>,
    pub(super) built: wl_out,
    /// Rounds until the next look at the clock, and the time of the last one.
    pub(super) rounds: u32,
    pub(super) looked: u64,
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
            tmp: Box::default(),
            out,
            built,
            rounds: FIRST_LOOK,
            looked: 0,
        };
        Some(Box::into_raw(Box::new(handler_stack)))
    }

    /// Gives back a stack on which nothing runs.
    pub(super) fn give(&mut self, handler_stack: *mut HandlerStack) {
        // SAFETY: the stack is live, and no other reference to it exists.
        let tmp = unsafe { &mut (*handler_stack).tmp };
        if tmp.len() * 8 > KEPT_SCRATCH {
            *tmp = Box::default();
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
