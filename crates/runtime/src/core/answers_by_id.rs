//! Shared connections whose answers carry ids (`order by`): each call is answered, or late, by
//! itself.
//!
//! In: requests, answers, calls that are late. Out: requests with numbers of ours in the place of
//! their ids, and answers with their clients' ids. A number is one connection's or one socket's
//! ([`RequestNumbers`]). A call that nobody waits for any more keeps its number until its answer
//! has come. So a late answer is known, and dropped.
//!
//! A connection *retires* if it is silent, or owes an answer for twice its time. It takes no new
//! requests, and ends with the last call that is waited for. An answer with the number of no call
//! ends its connection at once: nothing that comes behind it can be trusted.
//!
//! Requests wait if all numbers of their server's connections are taken.

use super::ejection::Why;
use super::input::FoundMessage;
use super::ports::IdField;
use super::request_numbers::RequestNumbers;
use super::slab::Id;
use super::types::{flag, Mode, Sink, Target};
use super::{Core, Raw, WAITERS_MAX};
use crate::abi::*;

/// Requests under way on one socket for datagrams: few of all numbers are those of requests.
const DATAGRAMS_MAX: u32 = 4096;

/// An id as a number.
fn number_of(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0, |n, b| n << 8 | u64::from(*b))
}

// Numbers.

impl Core {
    /// Where the messages of a connection carry their id.
    pub(super) fn id_field(&self, conn: Id) -> Option<IdField> {
        let c = &self.conns[conn];
        self.apps[c.app as usize].protos[c.proto as usize].id
    }

    /// A number for a call, whose client's id is noted.
    pub(super) fn number_for(&mut self, conn: Id, call: Id, head: Raw, field: IdField) -> Result<u64, u32> {
        let place = field.of_request(head.n).ok_or(WL_F_CONSTRAINT)?;
        let (width, now) = (field.width, self.now);
        let numbers = self.conns[conn].numbers.get_or_insert_with(|| Box::new(RequestNumbers::new(width, None)));
        let number = numbers.take(call, now).ok_or(WL_F_OVERLOAD)?;
        let k = &mut self.calls[call];
        // SAFETY: program bytes, valid during the call, and long enough.
        k.client_id[..width].copy_from_slice(unsafe { &head.slice()[place] });
        k.number = number;
        Ok(number)
    }

    /// The number of a call may be given to another one.
    pub(super) fn give_number_back(&mut self, conn: Id, call: Id) {
        let number = self.calls[call].number;
        if let Some(n) = self.conns.get_mut(conn).and_then(|c| c.numbers.as_mut()) {
            if n.find(number) == Some(call) {
                n.give_back(number);
            }
        }
    }

    /// Appends a request with a number in the place of its id.
    pub(super) fn append_with_id(
        &mut self,
        conn: Id,
        number: u64,
        request: (Raw, Raw),
        at: IdField,
    ) -> Result<(), u32> {
        let own = number.to_be_bytes();
        let c = &mut self.conns[conn];
        if c.out.is_empty() {
            c.last_tx = self.now;
        }
        // SAFETY: program bytes, valid during the call.
        let parts = unsafe { with_number(request, at, &own) };
        let fits = c.out.append_all(&mut self.pool, &parts);
        self.mark_dirty(conn);
        if fits {
            Ok(())
        } else {
            Err(WL_F_OVERLOAD)
        }
    }

    /// Appends a message without an answer. It has the number of no request: a server that answers
    /// it nevertheless reaches nobody.
    pub(super) fn append_unanswered(&mut self, conn: Id, head: Raw, here: Raw) -> Result<(), u32> {
        match self.id_field(conn).filter(|f| f.of_request(head.n).is_some()) {
            Some(field) => self.append_with_id(conn, self.nobodys_number(conn), (head, here), field),
            None => self.append_out(conn, head, here),
        }
    }

    /// The same as a datagram.
    pub(super) fn send_unanswered(&mut self, conn: Id, head: Raw, here: Raw) -> Result<(), u32> {
        let own = self.nobodys_number(conn).to_be_bytes();
        // SAFETY: program bytes, valid during the call.
        unsafe {
            match self.id_field(conn).filter(|f| f.of_request(head.n).is_some()) {
                Some(field) => self.send_datagram(conn, &with_number((head, here), field, &own)),
                None => self.send_datagram(conn, &[head.slice(), here.slice()]),
            }
        }
    }

    fn nobodys_number(&self, conn: Id) -> u64 {
        self.conns[conn].numbers.as_ref().map_or(0, |n| n.nobodys())
    }

    /// The call on a connection whose answer begins with `rest`.
    pub(super) fn call_by_id(&self, conn: Id, rest: Raw, field: IdField) -> Option<Id> {
        let place = field.of_response(rest.n)?;
        // SAFETY: bytes in place.
        let number = number_of(unsafe { &rest.slice()[place] });
        let call = self.conns[conn].numbers.as_ref()?.find(number)?;
        self.calls.get(call).filter(|k| k.conn == conn).map(|_| call)
    }

    /// An answer at the front of `rest`, as a copy with the client's id in the place of ours.
    pub(super) fn with_client_id(
        &mut self,
        field: Option<IdField>,
        id: [u8; 8],
        mut m: FoundMessage,
        rest: Raw,
    ) -> (FoundMessage, Raw) {
        let Some(field) = field else { return (m, rest) };
        let whole = m.passed.unwrap_or(Raw { n: m.have, ..rest });
        self.patch.clear();
        // SAFETY: bytes in place.
        self.patch.extend_from_slice(unsafe { whole.slice() });
        if let Some(place) = field.of_response(whole.n) {
            self.patch[place].copy_from_slice(&id[..field.width]);
        }
        let copy = Raw::of(&self.patch);
        m.passed = m.passed.map(|_| copy);
        (m, copy)
    }
}

/// A request with a number in the place of its id.
///
/// # Safety
/// As for [`Raw::slice`].
pub(super) unsafe fn with_number(
    (head, here): (Raw, Raw),
    IdField { width, request, .. }: IdField,
    own: &[u8; 8],
) -> [&[u8]; 4] {
    // SAFETY: by contract.
    let (h, t) = unsafe { (head.slice(), here.slice()) };
    [&h[..request], &own[8 - width..], &h[request + width..], t]
}

// Requests that wait for a number.

impl Core {
    /// Whether requests to a server wait for ids, rather than for connections.
    pub(super) fn waits_for_ids(&self, at: Target) -> bool {
        let app = &self.apps[at.a];
        let proto = &app.protos[app.ports[at.p].protos[0] as usize];
        proto.id.is_some() && !proto.exclusive
    }

    /// A shared connection with room for a call. None: there is none, or others have waited longer.
    pub(super) fn conn_with_id(&mut self, at: Target) -> Result<Option<Id>, u32> {
        let b = &self.apps[at.a].ports[at.p].backends[at.i];
        match b.waiters.is_empty() {
            true => self.find_conn_with_id(at),
            false => Ok(None),
        }
    }

    /// A new connection for requests that have their numbers already. It is one of the shared, or
    /// takes no others.
    pub(super) fn new_shared_conn(&mut self, at: Target) -> Result<Id, u32> {
        let id = self.connect(at)?;
        let conns = &self.conns;
        let free = |s: &&mut Id| conns.get(**s).is_none_or(|c| c.has(flag::DOOMED | flag::CLOSING));
        match self.apps[at.a].ports[at.p].backends[at.i].shared.iter_mut().find(free) {
            Some(place) => *place = id,
            None => self.conns[id].set(flag::LEFT),
        }
        Ok(id)
    }

    fn find_conn_with_id(&mut self, at: Target) -> Result<Option<Id>, u32> {
        let now = self.now;
        for _ in 0..self.apps[at.a].ports[at.p].backends[at.i].shared.len() {
            let id = self.shared_conn(at)?;
            let c = &mut self.conns[id];
            let few = !c.has(flag::DATAGRAM) || c.count < DATAGRAMS_MAX;
            if few && c.numbers.as_mut().is_none_or(|n| n.has_room(now)) {
                return Ok(Some(id));
            }
        }
        Ok(None)
    }

    /// A request waits for an id.
    pub(super) fn wait_for_id(&mut self, at: Target, call: Id, (head, here): (Raw, Raw)) -> Result<(), u32> {
        let b = &self.apps[at.a].ports[at.p].backends[at.i];
        if b.waiters.len() >= WAITERS_MAX || !self.keep_request(call, head, here) {
            return Err(WL_F_OVERLOAD);
        }
        self.queue_for_id(at, call);
        Ok(())
    }

    /// The same of one that is kept.
    pub(super) fn queue_for_id(&mut self, at: Target, call: Id) {
        let deadline = self.calls[call].deadline;
        self.apps[at.a].ports[at.p].backends[at.i].waiters.push_back(call);
        self.arm_waiters(at, deadline);
        if !self.short_of_ids.contains(&at) {
            self.short_of_ids.push(at);
        }
    }

    /// Sends requests that have waited for an id. Whether any has been sent, or has failed.
    pub(super) fn serve_short_of_ids(&mut self) -> bool {
        let (mut some, mut i) = (false, 0);
        while let Some(at) = self.short_of_ids.get(i).copied() {
            let (moved, left) = self.serve_ids(at);
            some |= moved;
            if left {
                i += 1;
            } else {
                self.short_of_ids.swap_remove(i);
            }
        }
        some
    }

    /// The same for one server. Whether any request has been sent, and whether others still wait.
    fn serve_ids(&mut self, at: Target) -> (bool, bool) {
        let mut some = false;
        loop {
            let Some(&call) = self.apps[at.a].ports[at.p].backends[at.i].waiters.front() else { return (some, false) };
            let wanted = self.calls.get(call).is_some_and(|k| self.tasks.alive(k.task));
            let conn = if wanted { self.find_conn_with_id(at).transpose() } else { None };
            if wanted && conn.is_none() {
                self.wait_for_rest(at);
                return (some, true);
            }
            self.apps[at.a].ports[at.p].backends[at.i].waiters.pop_front();
            if let Some(conn) = conn {
                some = true;
                self.send_waiting(at, call, conn);
            } else if self.calls.alive(call) {
                self.free_call(call);
            }
        }
    }

    fn send_waiting(&mut self, at: Target, call: Id, conn: Result<Id, u32>) {
        let kept = Raw::of(self.calls[call].kept.as_slice());
        let sent = conn.and_then(|c| self.call_on(c, at, call, (kept, kept.none())));
        match sent {
            Err(WL_F_REFUSED) if self.fail_over(at, call) => {}
            Err(kind) => self.fail_call(call, kind),
            Ok(()) => self.calls[call].kept.release(&mut self.pool),
        }
    }

    /// Numbers that rest come back by time alone.
    fn wait_for_rest(&mut self, at: Target) {
        let b = &self.apps[at.a].ports[at.p].backends[at.i];
        let numbers = b.shared.iter().filter_map(|id| self.conns.get(*id)?.numbers.as_ref());
        if let Some(when) = numbers.filter_map(|n| n.rests_until()).min() {
            self.arm_waiters(at, when);
        }
    }
}

// Calls that are late, and connections that retire.

impl Core {
    /// Whether the calls of a connection are answered in any order, and late one by one.
    pub(super) fn is_shared_by_id(&self, id: Id) -> bool {
        let c = &self.conns[id];
        let proto = &self.apps[c.app as usize].protos[c.proto as usize];
        proto.id.is_some() && !proto.exclusive && !c.has(flag::OWN | flag::DATAGRAM)
    }

    pub(super) fn is_retired(&self, id: Id) -> bool {
        let c = &self.conns[id];
        c.has(flag::LEFT) && c.has(flag::NO_REUSE) && self.is_shared_by_id(id)
    }

    /// The time of a call, or of an answer, is over.
    pub(super) fn calls_due_by_id(&mut self, id: Id) {
        let c = &self.conns[id];
        let o = &self.apps[c.app as usize].ports[c.port as usize].options;
        let (patience, stalls) = (o.answer_timeout, o.stream_timeout);
        let streams = c.mode == Mode::Tail;
        let quiet = c.last_rx.saturating_add(patience) <= self.now;
        let mut late = self.late(id);
        late.retain(|k| !(streams && *k == c.first));
        let waited = |k: &Id| self.calls[*k].issued.saturating_add(patience) <= self.now;
        let silent = !streams && quiet && late.iter().any(waited);
        // Nobody waits for it, and its answer has had its time once more.
        let overdue = late.iter().any(|k| self.calls[*k].task.is_nil());
        self.end_late(id, late);
        if !self.conns.alive(id) {
            return;
        }
        if silent || overdue {
            self.retire(id);
        }
        self.end_retired(id);
        let c = &self.conns[id];
        if c.mode == Mode::Tail && !c.has(flag::PAUSED) && self.stream_deadline(id, stalls) <= self.now {
            self.stalled(id);
        }
    }

    /// Calls fail that were not answered in time.
    fn end_late(&mut self, id: Id, late: Vec<Id>) {
        let at = self.target_of(id);
        let waits = |k: &&Id| !self.calls[**k].task.is_nil();
        let failures = late.iter().filter(waits).count();
        (0..failures).for_each(|_| self.backend_failed(at, Why::Silent));
        for call in late {
            let Some(k) = self.calls.get_mut(call).filter(|k| !k.task.is_nil()) else { continue };
            let (task, part) = (std::mem::take(&mut k.task), k.part);
            self.complete_part(task, part, WL_F_TIMEOUT, None);
        }
    }

    /// An answer has stopped in the middle: those behind it cannot come.
    fn stalled(&mut self, id: Id) {
        let at = self.target_of(id);
        self.backend_failed(at, Why::Silent);
        if self.conns.alive(id) {
            self.fail_backend(id, WL_F_TIMEOUT, WL_F_LOST);
        }
    }

    /// A connection takes no more requests, and ends with the last call that is waited for.
    fn retire(&mut self, id: Id) {
        self.conns[id].set(flag::NO_REUSE);
        if self.conns[id].has(flag::LEFT) {
            return;
        }
        self.take_no_more(id);
        self.ask_alone(self.conns[id].first);
    }

    /// Closes a retired connection if nobody waits for its answers.
    pub(super) fn end_retired(&mut self, id: Id) {
        let streams = self.conns[id].mode == Mode::Tail;
        if !self.is_retired(id) || streams && self.conns[id].sink != Sink::Discard {
            return;
        }
        let mut call = self.conns[id].first;
        for _ in 0..self.conns[id].count {
            let (task, next) = (self.calls[call].task, self.calls[call].next);
            if self.tasks.alive(task) {
                return;
            }
            if !streams {
                // The next look begins behind it.
                self.take_out(id, call);
                self.put_last(id, call);
            }
            call = next;
        }
        self.conns[id].set(flag::CLOSING);
        self.mark_dirty(id);
    }

    /// An answer has come that belongs to no call: what comes behind it cannot be trusted.
    pub(super) fn nobodys_answer(&mut self, id: Id) {
        let at = self.target_of(id);
        self.count_surplus(id);
        self.fail_backend(id, WL_F_LOST, WL_F_LOST);
        self.backend_failed(at, Why::Nonsense);
    }
}
