//! Runs of messages in conversations: messages that the program would only pass on go on as one
//! piece of bytes, without a task for each.
//!
//! In: bytes at a message boundary. Out: the same bytes in another member's output. The program
//! says how many of them are such messages. Where an output is not open, is full, or has a message
//! that streams into it, each message takes the usual way.

use super::conversation::{ENDING, UPSTREAM};
use super::ports::NO_HANDLER;
use super::slab::Id;
use super::types::{flag, Mode, CLIENT};
use super::{Core, Raw, HIGH};
use crate::abi::*;

/// Bytes of a run at most, so that others have their turns.
const RUN_MAX: usize = 64 << 10;

impl Core {
    /// Passes on a run of messages at the front of `rest`; the bytes that are done with.
    pub(super) fn message_run(&mut self, id: Id, ctx: u64, rest: Raw) -> Option<usize> {
        let c = &self.conns[id];
        let (a, p, member) = (c.app as usize, c.port as usize, c.member);
        let app = &self.apps[a];
        let handler = match member {
            CLIENT => app.ports[p].handlers[c.alt as usize],
            n => app.upstreams[usize::from(n - UPSTREAM)].message[c.alt as usize],
        };
        if handler == NO_HANDLER || c.view.is_some() || self.piece_handler(id).is_some() {
            return None;
        }
        let run = app.app.desc.handlers.get(handler as usize)?;
        let (to, proto) = (run.run_to?, run.run_as as u16);
        let run_of = app.app.program.table().run_of?;
        let client = if member == CLIENT { id } else { c.client };
        let dst = match to.checked_sub(1) {
            None => client,
            Some(number) => self.upstream(client, number)?,
        };
        let d = self.conns.get(dst)?;
        let takes = !d.has(ENDING) && d.mode != Mode::Drain && d.after.is_none() && d.out.len() <= HIGH;
        if !takes || d.speaks != proto || self.conns.alive(d.feeder) {
            return None;
        }
        let (used, messages) =
            self.ask_for_run(a, client, (handler, ctx), Raw { n: rest.n.min(RUN_MAX), ..rest }, run_of)?;
        let run = Raw { n: used, ..rest };
        let gone = self.write_uncopied(dst, run);
        if gone < used && self.append_out(dst, run.from(gone), Raw::of(&[])).is_err() {
            self.doom(dst, WL_F_OVERLOAD);
        }
        let c = &mut self.conns[id];
        c.answered = c.answered.saturating_add(messages);
        (c.ignored, c.heard) = (0, true);
        debug_assert!(!c.has(flag::FLOW), "nobody would end its pause");
        c.behind = Id::NIL;
        if id == client {
            c.at_rest = false;
        }
        if self.conns[dst].out.len() > HIGH {
            self.falls_behind(id, dst);
        }
        self.count_run(id, dst, messages);
        Some(used)
    }

    /// The program's answer: bytes and messages of the run. None: there is none.
    fn ask_for_run(
        &mut self,
        a: usize,
        client: Id,
        (handler, ctx): (u32, u64),
        bytes: Raw,
        run_of: RunOfFn,
    ) -> Option<(usize, u32)> {
        let conn: *mut wl_conn = &mut self.conns.get_mut(client)?.c;
        self.enter(a);
        let this = self.apps[a].app.program.table().self_;
        let wl: *mut wl_core = &mut *self.apps[a].wl;
        let mut messages = 0;
        // SAFETY: the program's own function; the connection and the bytes are in place.
        let used = unsafe { run_of(this, wl, conn, handler, ctx, bytes.p, bytes.n as u32, &mut messages) } as usize;
        (messages > 0 && used > 0 && used <= bytes.n).then_some((used, messages))
    }

    fn count_run(&mut self, src: Id, dst: Id, messages: u32) {
        let n = u64::from(messages);
        let (s, d) = (&self.conns[src], &self.conns[dst]);
        let all = &self.my_stats().apps[s.app as usize].ports;
        let (from, to) = (&all[s.port as usize], &all[d.port as usize]);
        match s.member {
            CLIENT => from.requests.add(n),
            _ => from.replies.add(n),
        }
        if d.member == CLIENT {
            to.replies.add(n);
        } else {
            to.requests.add(n);
            to.backends[d.instance as usize].requests.add(n);
        }
    }
}
