//! Faults of conversations: bytes of a member that cannot be read, and the words to its client.
//!
//! In: a fault, of a member or of a handler. Out: the client is told as its protocol says, and the
//! conversation ends or goes on. A client whose own message is at fault first gets the answers that
//! its servers owe.

use super::ejection::Why;
use super::slab::Id;
use super::types::{flag, Complaint, Mode, Start, CLIENT};
use super::{Core, Raw, HIGH};
use crate::abi::*;

impl Core {
    /// A member's bytes cannot be read, or stop inside of a message.
    pub(super) fn member_bad(&mut self, id: Id, kind: u32, place: u32, start: Start) {
        self.end_message(id);
        if self.conns[id].pooling.is_nobodys() {
            return self.close_session(id);
        }
        if self.conns[id].member != CLIENT {
            let told = match kind {
                WL_F_TRUNCATED | WL_F_LOST => WL_F_LOST,
                WL_F_OVERLOAD | WL_F_TIMEOUT => kind,
                _ => WL_F_BAD_REPLY,
            };
            let at = self.target_of(id);
            match told {
                WL_F_BAD_REPLY if kind != WL_F_TOO_LONG => self.backend_failed(at, Why::Nonsense),
                WL_F_LOST => self.backend_failed(at, Why::Lost),
                _ => {}
            }
            if self.conns.alive(id) {
                self.upstream_over(id, Some((told, place)));
            }
            return;
        }
        if self.conns[id].mode == Mode::Head && self.awaits_answers(id, false) {
            let c = &mut self.conns[id];
            c.set(flag::LAST);
            c.complaint = Some(Box::new(Complaint { fault: (kind, place), start, in_step: false }));
            // A server that waits for the client is told that nothing more comes.
            return self.member_over(id);
        }
        self.client_over(id, (kind, place), start);
    }

    /// Whether messages that a client has sent before are still to be answered. `in_step`: the
    /// client goes on, and a server that has said something may wait for it.
    pub(super) fn awaits_answers(&self, client: Id, in_step: bool) -> bool {
        let awaited = |id: &Id| {
            let c = &self.conns[*id];
            let owes = if in_step { c.is_silent() } else { c.owed > 0 };
            let streams = c.mode == Mode::Tail && self.apps[c.app as usize].protos[c.proto as usize].tells_owed;
            let busy = owes || c.count > 0 || streams;
            busy && !c.has(flag::DOOMED | flag::CLOSING | flag::LEFT) && !c.pooling.is_nobodys()
        };
        self.upstreams(client).iter().any(awaited)
    }

    /// A client is told of its fault once the messages before it are answered.
    pub(super) fn complain_if_due(&mut self, client: Id) {
        let Some(in_step) = self.conns.get(client).and_then(|c| c.complaint.as_ref()).map(|c| c.in_step) else {
            return;
        };
        if self.awaits_answers(client, in_step) {
            return;
        }
        let Some(c) = self.conns[client].complaint.take() else { return };
        if !c.in_step {
            return self.client_over(client, c.fault, c.start);
        }
        self.tell_fault(client, c.fault, c.start, true);
        self.keeps_pace(client, client);
        let Some(c) = self.conns.get(client) else { return };
        if c.has(flag::EOF) {
            self.mark_again(client);
        }
        self.unstall(client);
    }

    /// The handler of a message's pieces has ended in a fault. Who has got a part of the message is
    /// cut off. The server is not to blame.
    pub(super) fn cut_message(&mut self, id: Id, kind: u32, place: u32) {
        self.end_message(id);
        if self.conns[id].member != CLIENT {
            return self.upstream_over(id, Some((kind, place)));
        }
        self.client_over(id, (kind, place), Start::default());
    }

    /// A client's conversation ends by a fault of its own message.
    pub(super) fn client_over(&mut self, id: Id, (kind, place): (u32, u32), start: Start) {
        self.count_fault_at(id, kind, place);
        self.cut_off_readers(id);
        self.tell_fault(id, (kind, place), start, false);
        self.conns[id].mode = Mode::Drain;
        self.end_conversation(id);
    }

    /// A member whose faults fill a client's output is not read until that has drained.
    pub(super) fn keeps_pace(&mut self, src: Id, client: Id) {
        if self.conns.get(client).is_some_and(|c| c.out.len() > HIGH) {
            self.falls_behind(src, client);
        }
    }

    /// Tells a client of a fault, as its protocol says. Without words the conversation ends.
    pub(super) fn tell_fault(&mut self, client: Id, fault: (u32, u32), start: Start, in_step: bool) {
        let Some(c) = self.conns.get(client) else { return };
        if c.has(flag::DOOMED | flag::CLOSING | flag::SHUT) || c.mode == Mode::Drain {
            return;
        }
        let in_step = in_step && !c.has(flag::LAST);
        let (a, proto, port) = (c.app as usize, c.speaks, u32::from(c.port));
        let side = if in_step { WL_SIDE_IN_STEP as u16 } else { 0 };
        let told = wl_fault {
            kind: fault.0 as u16,
            side,
            place: fault.1,
            port,
            start_n: start.n,
            ctx: self.context(client, proto, true) | WL_CTX_RESPONSE,
            start: start.bytes,
        };
        let table = *self.apps[a].app.program.table();
        self.enter(a);
        let wl: *mut wl_core = &mut *self.apps[a].wl;
        // SAFETY: the program's own function; the fault is in place.
        let flags =
            table.fault_reply.map_or(0, |f| unsafe { f(table.self_, wl, u32::from(proto), &told, std::ptr::null()) });
        self.apps[a].wl.outcome = 0;
        let built = self.apps[a].built();
        if built.n > 0 && flags & WL_R_NOTHING == 0 && !self.is_fed(client) {
            self.faults_told += 1;
            // SAFETY: the scratch stays until the next entry into the program.
            let bytes = Raw::of(unsafe { built.as_slice() });
            if self.append_out(client, bytes, Raw::of(&[])).is_err() {
                self.doom(client, WL_F_OVERLOAD);
            }
        }
        if flags & WL_R_CLOSE != 0 || built.n == 0 && flags & WL_R_NOTHING == 0 {
            self.ends_by(client, fault.0);
            self.end_conversation(client);
        }
    }
}
