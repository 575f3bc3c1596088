//! Connections of conversations that change their protocol: HTTP's Upgrade, STARTTLS.
//!
//! In: a program's wish, in a handler of some member. Out: the member's next message is read in the
//! other protocol, and messages to it are sent in that one.
//!
//! A change must not fall between two readings of the same bytes. So the member must stand at a
//! boundary that the program knows. Its message is at hand, or it is on hold, or it has said
//! nothing yet. Bytes that it has sent ahead are refused, unless the program takes them as the
//! `rest`. Else a stranger could send commands behind STARTTLS, which the server would take for a
//! part of the encrypted conversation (CVE-2011-0411).

use super::conversation::ENDING;
use super::slab::Id;
use super::types::{flag, Mode, NO_PROTO};
use super::Core;
use crate::abi::*;
use crate::engine::Waiting;

impl Core {
    /// A member of a task's conversation, by its number in the ABI.
    fn member_of(&self, task: Id, member: u32) -> Option<Id> {
        let client = self.tasks[task].conn;
        match member.checked_sub(1) {
            None => Some(client),
            Some(number) => self.upstream(client, number),
        }
    }

    /// No message of a member is read, or they are read again.
    pub(super) fn host_hold(&mut self, task: Id, member: u32, on: bool) {
        let Some(id) = self.member_of(task, member).filter(|id| self.conns.alive(*id)) else { return };
        self.conns[id].on_hold = on;
        if !on {
            self.unstall(id);
        }
    }

    /// A member speaks another protocol from now on. A member that is not ready for it, or has sent
    /// bytes ahead, ends its conversation.
    pub(super) fn host_become(&mut self, task: Id, member: u32, proto: u16, rest: bool) -> Result<(), u32> {
        let id = self.member_of(task, member).ok_or(WL_F_LOST)?;
        let c = self.conns.get(id).filter(|c| !c.has(ENDING) && c.mode != Mode::Drain).ok_or(WL_F_LOST)?;
        let protos = &self.apps[c.app as usize].ports[c.port as usize].protos;
        let alt = protos.iter().position(|p| *p == proto).ok_or(WL_F_INDEX)? as u16;
        let at_hand = self.tasks[task].src == id;
        if !self.is_ready(task, id) || !rest && self.has_sent_ahead(task, id) {
            let client = self.tasks[task].conn;
            self.ends_by(client, WL_F_EARLY);
            self.end_conversation(client);
            return Err(WL_F_EARLY);
        }
        let c = &mut self.conns[id];
        c.speaks = proto;
        c.on_hold = false;
        c.becomes = alt;
        if at_hand {
            // Its protocol's end of the connection is none of the new one.
            c.clear(flag::LAST);
        } else {
            self.change_protocol(id);
            self.unstall(id);
        }
        Ok(())
    }

    /// Whether the next byte of a member begins a message, and the program knows which.
    fn is_ready(&self, task: Id, id: Id) -> bool {
        let c = &self.conns[id];
        if self.tasks[task].src == id {
            return true;
        }
        let at_boundary = c.count == 0 && c.mode == Mode::Head && c.view.is_none();
        let silent = c.input.is_empty() && (c.answered == 0 || c.has(flag::CONNECTING));
        at_boundary && (c.on_hold || silent)
    }

    /// Whether bytes of a member have come behind its last message.
    fn has_sent_ahead(&mut self, task: Id, id: Id) -> bool {
        let (t, c) = (&self.tasks[task], &self.conns[id]);
        let behind = t.src == id && (t.bytes_behind || t.req_more);
        behind || !c.input.is_empty() || self.engine.waiting(c.token) == Waiting::Bytes
    }

    /// Between two messages of a member: the next one is read in the protocol that it has become.
    pub(super) fn change_protocol(&mut self, id: Id) {
        let c = &mut self.conns[id];
        if c.becomes == NO_PROTO {
            return;
        }
        c.alt = std::mem::replace(&mut c.becomes, NO_PROTO);
        c.proto = self.apps[c.app as usize].ports[c.port as usize].protos[c.alt as usize];
        // Answers that were owed in the protocol before do not come.
        c.uncounted |= c.owed > 0;
        self.asks_unspoken(id);
    }
}
