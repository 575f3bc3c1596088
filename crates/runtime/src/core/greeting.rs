//! Greetings: messages to a server on each connection before any request, such as a password.
//!
//! They are built when the connection is there, and go in front of the requests that wait for it.
//! Their answers come first, too, and are discarded. An answer that refuses (`refusal when`) ends
//! the connection. The waiting requests then get no answer from it.

use super::health::Why;
use super::input::{run_tail, Parsed};
use super::slab::Id;
use super::types::flag;
use super::{Core, Raw};
use crate::abi::*;
use crate::buffer::ChunkQueue;
use crate::program::{Unit, Verdict};

/// Bytes of a refusal that are logged.
const SHOWN: usize = 120;
/// A backend's refusals are logged once in so many nanoseconds.
const TOLD_EVERY: u64 = 1_000_000_000;

impl Core {
    /// Puts the program's greeting in front of all output. False: there is none to be had, and the
    /// connection has failed.
    pub(super) fn greet(&mut self, id: Id) -> bool {
        let (a, p) = (self.conns[id].app as usize, self.conns[id].port as usize);
        let Some(&handler) = self.apps[a].ports[p].greeting.first() else { return true };
        (self.result, self.last_fault) = (None, (0, 0));
        self.run_event(a, handler, id, None);
        let bytes = self.result.take().unwrap_or_default();
        let request = self.apps[a].protos[self.conns[id].proto as usize].request;
        let messages = if self.last_fault.0 == 0 { self.messages(a, request, &bytes) } else { None };
        let sent = messages.filter(|_| self.prepend(id, &bytes));
        match sent {
            Some(n) => self.conns[id].greets = n,
            None => self.not_greeted(id, Why::Refused),
        }
        sent.is_some()
    }

    /// How many messages these bytes are.
    fn messages(&mut self, a: usize, unit: Unit, bytes: &[u8]) -> Option<u16> {
        let mut view = self.apps[a].take_view();
        let (mut rest, mut n) = (Raw::of(bytes), 0);
        while rest.n > 0 && n < u16::MAX {
            view.fill(0);
            let v: *mut wl_parser = view.as_mut_ptr().cast();
            // SAFETY: the view is as large as the app's largest; the bytes are in place.
            let verdict = unsafe { unit.parse(v, rest.p, rest.n as u32, true) };
            // SAFETY: the parser has set `head`.
            let head = unsafe { (*v).head } as usize;
            let used = match verdict {
                Verdict::Whole => head,
                Verdict::Bad | Verdict::More => 0,
                _ => whole_tail(unit, v, rest.from(head)).map_or(0, |tail| head + tail),
            };
            if used == 0 {
                break;
            }
            (rest, n) = (rest.from(used), n + 1);
        }
        self.apps[a].give_view(Some(view));
        (rest.n == 0).then_some(n)
    }

    fn prepend(&mut self, id: Id, bytes: &[u8]) -> bool {
        let mut greeting = ChunkQueue::new();
        if !greeting.append(&mut self.pool, bytes) {
            return false;
        }
        let c = &mut self.conns[id];
        greeting.join(&mut self.pool, std::mem::take(&mut c.out));
        c.out = greeting;
        (c.last_tx, c.since) = (self.now, self.now);
        true
    }

    /// The answer to a greeting lies at the front of `rest`.
    pub(super) fn greeted(&mut self, id: Id, unit: Unit, rest: Raw) -> Option<usize> {
        let m = match self.parse(id, unit, WL_CTX_RESPONSE, rest, true) {
            Parsed::More => return None,
            Parsed::Bad { kind, place } => {
                self.backend_bad(id, if kind == WL_F_TRUNCATED { WL_F_LOST } else { WL_F_BAD_REPLY }, place);
                return Some(rest.n);
            }
            Parsed::Message(m) => m,
        };
        // SAFETY: the view is live until `end_message`.
        let flags = unsafe { (*m.view).flags };
        let refused = WL_M_REFUSAL | WL_M_CLOSE | WL_M_UNTIL_EOF | WL_M_TUNNEL | WL_M_IN_STEP;
        if !m.whole || flags & refused != 0 {
            let at = self.target_of(id);
            let now = self.now;
            let b = &mut self.apps[at.a].ports[at.p].backends[at.i];
            if now >= b.told {
                b.told = now + TOLD_EVERY;
                // SAFETY: bytes in place.
                let text = unsafe { &rest.slice()[..m.have.min(SHOWN)] };
                log::error!("backend {} refuses the greeting: {}", b.addr, text.trim_ascii().escape_ascii());
            }
            self.not_greeted(id, Why::Refused);
            return Some(rest.n);
        }
        if flags & WL_M_INTERIM == 0 {
            self.conns[id].greets -= 1;
        }
        self.end_message(id);
        if self.conns[id].greets == 0 {
            self.ready(id);
        }
        Some(m.have)
    }

    /// The connection is of no use: its requests fail, and so has its server.
    pub(super) fn not_greeted(&mut self, id: Id, why: Why) {
        let at = self.target_of(id);
        self.fail_backend(id, WL_F_REFUSED, WL_F_REFUSED);
        self.backend_failed(at, why);
    }

    /// The connection can carry requests: a probe has found its server well.
    pub(super) fn ready(&mut self, id: Id) {
        if self.conns[id].has(flag::PROBE) {
            let at = self.target_of(id);
            self.conns[id].clear(flag::PROBE);
            self.probe_connected(at, id);
        }
    }
}

/// The size of a tail that is all there.
fn whole_tail(unit: Unit, view: *mut wl_parser, rest: Raw) -> Option<usize> {
    let mut off = 0;
    loop {
        let ran = run_tail(unit, view, rest.from(off), true, false);
        off += ran.used;
        match ran.verdict {
            Verdict::Whole => return Some(off),
            Verdict::Bad => return None,
            // The parser stops where passed bytes and dropped bytes meet.
            _ if ran.used == 0 => return None,
            _ => {}
        }
    }
}
