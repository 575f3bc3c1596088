//! Greetings and probes: messages of the program's own to a server.
//!
//! A greeting, such as a password, is sent on each connection before any request. It is built when
//! the connection is there, and goes in front of the requests that wait for it. Its answers come
//! first, too, and are discarded. An answer that refuses (`refusal when`) ends the connection. The
//! waiting requests then get no answer from it.
//!
//! A probe is sent, behind the greeting, to a server that is down. Its connection has no other
//! purpose and ends with the answer. Of the last answer only the head is awaited. Where the server
//! speaks first (`server_first`), its own greeting is awaited before, and is all where the port has
//! no probe.

use super::ejection::Why;
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
/// The same of answers to probes.
const PROBE_TOLD_EVERY: u64 = 60_000_000_000;

impl Core {
    /// Puts the program's greeting in front of all output. False: there is none to be had, and the
    /// connection has failed.
    pub(super) fn greet(&mut self, id: Id) -> bool {
        let port = &self.apps[self.conns[id].app as usize].ports[self.conns[id].port as usize];
        let probe = port.probe.first().filter(|_| self.conns[id].has(flag::PROBE)).copied();
        let handlers = [port.greeting.first().copied(), probe];
        if handlers == [None, None] {
            return true;
        }
        let mut all = Vec::new();
        let mut messages = Some(0u16);
        for handler in handlers.into_iter().flatten() {
            let (bytes, n) = self.spoken(id, handler);
            all.extend_from_slice(&bytes);
            messages = messages.zip(n).and_then(|(before, n)| before.checked_add(n));
        }
        // A server that is not asked anything could not answer.
        let sent = messages.filter(|n| (probe.is_none() || *n > 0) && self.prepend(id, &all));
        match sent {
            Some(n) => self.conns[id].greets = n,
            None => self.not_greeted(id, Why::Refused),
        }
        sent.is_some()
    }

    /// The messages of a handler for a connection; none if it fails.
    pub(super) fn spoken(&mut self, id: Id, handler: u32) -> (Vec<u8>, Option<u16>) {
        let a = self.conns[id].app as usize;
        (self.result, self.last_fault) = (None, (0, 0));
        self.run_event(a, handler, id, None);
        let bytes = self.result.take().unwrap_or_default();
        let request = self.apps[a].protos[self.conns[id].proto as usize].request;
        let messages = if self.last_fault.0 == 0 { self.messages(a, request, &bytes) } else { None };
        (bytes, messages)
    }

    /// How many messages these bytes are.
    fn messages(&mut self, a: usize, unit: Unit, bytes: &[u8]) -> Option<u16> {
        let mut view = self.apps[a].views.take(unit);
        let (mut rest, mut n) = (Raw::of(bytes), 0);
        while rest.n > 0 && n < u16::MAX {
            view.reset();
            let v: *mut wl_parser = view.as_mut_ptr();
            // SAFETY: the view is one of this unit; the bytes are in place.
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
        self.apps[a].views.give(Some(view));
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
        c.last_tx = self.now;
        if !c.has(flag::PROBE) {
            c.since = self.now;
        }
        true
    }

    /// A message of a server that is down and speaks first.
    fn server_greets_probe(&mut self, id: Id, unit: Unit, rest: Raw) -> Option<usize> {
        let m = match self.parse(id, unit, WL_CTX_RESPONSE, rest, false) {
            Parsed::More => return None,
            Parsed::Bad { .. } => {
                self.refused(id, rest);
                return Some(rest.n);
            }
            Parsed::Message(m) => m,
        };
        // SAFETY: the view is live until `end_message`.
        let flags = unsafe { (*m.view).flags };
        if !m.whole || flags & (WL_M_REFUSAL | WL_M_TUNNEL | WL_M_IN_STEP | WL_M_CLOSE | WL_M_UNTIL_EOF) != 0 {
            // SAFETY: bytes in place.
            self.refused(id, Raw::of(unsafe { &rest.slice()[..m.have] }));
            return Some(rest.n);
        }
        self.end_message(id);
        let c = &self.conns[id];
        let tells_end = self.apps[c.app as usize].protos[c.proto as usize].tells_owed;
        if tells_end && flags & WL_M_SETTLES == 0 {
            return Some(m.have);
        }
        self.conns[id].clear(flag::CONNECTING);
        self.conns[id].greets = 0;
        self.begin_streams(id);
        if self.greet(id) {
            self.mark_dirty(id);
            if self.conns[id].greets == 0 {
                self.ready(id);
            }
        }
        Some(m.have)
    }

    /// The answer to a greeting or a probe lies at the front of `rest`.
    pub(super) fn greeted(&mut self, id: Id, unit: Unit, rest: Raw) -> Option<usize> {
        if self.conns[id].has(flag::CONNECTING) {
            return self.server_greets_probe(id, unit, rest);
        }
        let last = self.conns[id].greets == 1 && self.probes(id);
        let m = match self.parse(id, unit, WL_CTX_RESPONSE, rest, !last) {
            Parsed::More => return None,
            Parsed::Bad { .. } if self.probes(id) => {
                self.refused(id, rest);
                return Some(rest.n);
            }
            Parsed::Bad { kind, place } => {
                self.backend_bad(id, if kind == WL_F_TRUNCATED { WL_F_LOST } else { WL_F_BAD_REPLY }, place);
                return Some(rest.n);
            }
            Parsed::Message(m) => m,
        };
        // SAFETY: the view is live until `end_message`.
        let flags = unsafe { (*m.view).flags };
        let interim = flags & WL_M_INTERIM != 0 && m.whole;
        let refused = WL_M_REFUSAL | WL_M_TUNNEL | WL_M_IN_STEP;
        if last && !interim {
            match flags & refused {
                0 => self.probe_answered(id),
                _ => self.refused(id, rest),
            }
            return Some(rest.n);
        }
        if !m.whole || flags & (refused | WL_M_CLOSE | WL_M_UNTIL_EOF) != 0 {
            // SAFETY: bytes in place.
            self.refused(id, Raw::of(unsafe { &rest.slice()[..m.have] }));
            return Some(rest.n);
        }
        if !interim {
            self.conns[id].greets -= 1;
        }
        self.end_message(id);
        if self.conns[id].greets == 0 {
            self.ready(id);
        }
        Some(m.have)
    }

    /// Whether a connection is there to probe its server by a message.
    fn probes(&self, id: Id) -> bool {
        let c = &self.conns[id];
        c.has(flag::PROBE) && !self.apps[c.app as usize].ports[c.port as usize].probe.is_empty()
    }

    /// An answer refuses the greeting, or is none that a probe may have.
    fn refused(&mut self, id: Id, answer: Raw) {
        let (at, now, probe) = (self.target_of(id), self.now, self.conns[id].has(flag::PROBE));
        let b = &mut self.apps[at.a].ports[at.p].backends[at.i];
        if now >= b.told {
            b.told = now + if probe { PROBE_TOLD_EVERY } else { TOLD_EVERY };
            // SAFETY: bytes in place.
            let text = unsafe { &answer.slice()[..answer.n.min(SHOWN)] };
            let what = if probe { "stays down: it answers the probe with" } else { "refuses the greeting:" };
            log::error!("backend {} {what} {}", b.addr, text.trim_ascii().escape_ascii());
        }
        self.not_greeted(id, Why::Refused);
    }

    /// The connection is of no use: its requests fail, and so has its server. That one which is
    /// probed does not answer is known.
    pub(super) fn not_greeted(&mut self, id: Id, why: Why) {
        let (at, probe) = (self.target_of(id), self.conns[id].has(flag::PROBE));
        self.fail_backend(id, WL_F_REFUSED, WL_F_REFUSED);
        if !probe {
            self.backend_failed(at, why);
        }
    }

    /// The connection can carry requests: a probe has found its server well.
    pub(super) fn ready(&mut self, id: Id) {
        if self.conns[id].has(flag::PROBE) {
            let at = self.target_of(id);
            self.conns[id].clear(flag::PROBE);
            self.probe_connected(at, id);
        }
    }

    /// A server that is down has answered its probe.
    fn probe_answered(&mut self, id: Id) {
        let at = self.target_of(id);
        self.conns[id].clear(flag::PROBE);
        self.close_conn(id, false);
        self.well_again(at);
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
