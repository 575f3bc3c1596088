//! The ends of conversations.
//!
//! In: members whose direction has ended, that are lost, or that a handler closes. Out: the members
//! that end with them. Messages that no server has seen go to the next one.

use super::client::move_queue;
use super::conversation::{ENDING, UPSTREAM};
use super::ejection::Why;
use super::slab::Id;
use super::types::{begin, flag, Conn, Mode, Order, Pooling, Side, Sink, Start, CLIENT, NO_GROUP};
use super::Core;
use crate::abi::*;
use crate::buffer::ChunkQueue;
use crate::stats::NO_PLACE;

impl Conn {
    /// An upstream of which nothing is heard, until the handler of its client's end has run.
    fn is_silenced(&self) -> bool {
        self.on_hold && self.has(flag::LEFT) && !self.has(ENDING)
    }
}

impl Core {
    /// A member has ended its direction, and all of its input has been handled.
    pub(super) fn member_eof(&mut self, id: Id) {
        let c = &self.conns[id];
        if c.count > 0 || c.complaint.is_some() {
            return;
        }
        if c.mode == Mode::Head && (!c.input.is_empty() || c.view.is_some()) && !c.has(flag::LAST) {
            return self.kept_fault(id, WL_F_TRUNCATED);
        }
        self.member_over(id);
    }

    /// No further message comes from a member. The end of a client's direction is passed on to its
    /// upstreams; the answers still come. An upstream that ends ends its conversation.
    pub(super) fn member_over(&mut self, id: Id) {
        if self.conns[id].pooling.is_nobodys() {
            return self.close_session(id);
        }
        if self.conns[id].member != CLIENT {
            return self.upstream_closed(id);
        }
        let upstreams = self.upstreams(id);
        if self.may_say_last_words(id, &upstreams) {
            return self.end_conversation(id);
        }
        for upstream in &upstreams {
            self.conns[*upstream].set(flag::SHUT_WANTED);
            self.mark_dirty(*upstream);
        }
        if upstreams.is_empty() {
            self.end_conversation(id);
        }
    }

    /// An upstream's connection has ended, or is given up.
    pub(super) fn upstream_ended(&mut self, id: Id) {
        if self.conns[id].pooling.is_nobodys() {
            return self.close_session(id);
        }
        let c = &self.conns[id];
        // A server that ends without a greeting was never there.
        let broken = c.has(flag::DOOMED | flag::CONNECTING) || !c.has(flag::EOF);
        let cut = !c.input.is_empty() || c.view.is_some() || c.mode == Mode::Tail;
        if c.has(flag::LEFT) {
            self.remove_upstream(id, true);
        } else if broken || cut && !c.has(flag::LAST) {
            self.upstream_lost(id, WL_F_LOST);
        } else if c.count == 0 {
            self.upstream_closed(id);
        }
    }

    /// A server has closed in order. That is a fault if it owes an answer of which it has said
    /// nothing. It says nothing about the server: it may have closed before it got the question.
    fn upstream_closed(&mut self, id: Id) {
        let c = &self.conns[id];
        let lost = c.is_silent() && !c.has(flag::LAST);
        self.upstream_over(id, lost.then_some((WL_F_LOST, NO_PLACE)));
    }

    /// An upstream that says or takes nothing. A server that has begun its answer may wait for its
    /// client, and is not to blame.
    pub(super) fn upstream_silent(&mut self, id: Id) {
        let c = &self.conns[id];
        if c.owed > 0 && !c.is_silent() && c.out.is_empty() {
            return self.upstream_over(id, Some((WL_F_TIMEOUT, NO_PLACE)));
        }
        self.upstream_lost(id, WL_F_TIMEOUT)
    }

    /// Nothing has moved at a client, or in its conversation, for long. If a server owes an answer,
    /// its client is told so.
    pub(super) fn client_idle(&mut self, client: Id) {
        if let Some(c) = self.conns[client].complaint.take_if(|c| !c.in_step) {
            return self.client_over(client, c.fault, c.start);
        }
        let owing = self.upstreams(client).into_iter().find(|id| {
            let c = &self.conns[*id];
            (c.owed > 0 || self.is_asked(c)) && !c.has(ENDING | flag::LEFT) && !c.pooling.is_nobodys()
        });
        match owing {
            Some(upstream) => self.upstream_over(upstream, Some((WL_F_TIMEOUT, NO_PLACE))),
            None => {
                self.ends_by(client, WL_F_IDLE);
                self.close_conn(client, false)
            }
        }
    }

    /// An upstream is lost, or was never there. Messages that nobody has seen go to the next
    /// server, or to the one that the program opens instead.
    pub(super) fn upstream_lost(&mut self, id: Id, kind: u32) {
        let at = self.target_of(id);
        match kind {
            WL_F_OVERLOAD => {}
            WL_F_REFUSED => self.backend_failed(at, Why::Refused),
            WL_F_TIMEOUT => self.backend_failed(at, Why::Silent),
            WL_F_BAD_REPLY => self.backend_failed(at, Why::Nonsense),
            _ => self.backend_failed(at, Why::Lost),
        }
        if self.conns.get(id).is_some_and(|c| c.pooling.is_nobodys()) {
            return self.close_session(id);
        }
        if self.conns.alive(id) && !self.upstream_moved(id) {
            self.upstream_over(id, Some((kind, NO_PLACE)));
        }
    }

    /// Whether the messages of an upstream without a connection have gone to another server.
    pub(super) fn upstream_moved(&mut self, id: Id) -> bool {
        let at = self.target_of(id);
        let c = &self.conns[id];
        let (tries, client, member) = (c.answered + 1, c.client, c.member);
        // Messages that wait for a session are for one of its pool.
        let attempt = c.has(flag::CONNECTING) && !c.begins(begin::GREETED) && c.pooling == Pooling::Owned;
        let possible = attempt && !c.has(flag::LEFT) && self.conns.alive(client);
        let servers = self.apps[at.a].ports[at.p].places.len() + usize::from(!self.is_listed(at));
        if !possible || tries as usize >= servers {
            return false;
        }
        let Some(to) = self.next_server(at, &mut Order::from_server(at.i)) else { return false };
        let (g, number) = (self.conns[id].group, u32::from(member - UPSTREAM));
        let made = match g {
            NO_GROUP => self.connect_upstream(to, client, number),
            // It is to be a session of a pool.
            g => self.log_in_for(to, client, number, g),
        };
        let Ok(new) = made else { return false };
        self.conns[new].answered = tries;
        self.my_stats().apps[to.a].ports[to.p].failovers.add(1);
        let unsent = std::mem::take(&mut self.conns[id].out);
        let shut = self.conns[id].flags & flag::SHUT_WANTED;
        self.inherit(id, new, unsent);
        self.conns[new].set(shut);
        self.remove_upstream(id, false);
        true
    }

    /// Messages that were for one upstream go out on another, with what still streams there.
    pub(super) fn inherit(&mut self, old: Id, new: Id, mut unsent: ChunkQueue) {
        for s in self.members(self.client_of(new)) {
            if self.conns[s].sink == Sink::Conn(old) {
                self.conns[s].sink = Sink::Conn(new);
            }
            if self.conns[s].behind == old {
                self.conns[s].behind = new;
            }
        }
        let o = &mut self.conns[old];
        let (feeder, after, waited) = (std::mem::take(&mut o.feeder), o.after.take(), o.waited);
        let spoken = (o.proto, o.alt, o.speaks, o.on_hold);
        let owed = (std::mem::take(&mut o.owed), std::mem::take(&mut o.unfinished));
        self.inherit_asks(old, new, owed.0);
        let n = &mut self.conns[new];
        n.owes_for(owed, self.now);
        // The messages that are sent on it may have changed the protocol.
        (n.proto, n.alt, n.speaks, n.on_hold) = spoken;
        // The messages that the program has sent since follow.
        let mut later = std::mem::take(&mut n.out);
        (n.feeder, n.after, n.waited) = (feeder, after, waited);
        let fits =
            move_queue(&mut self.pool, &mut unsent, &mut n.out) && move_queue(&mut self.pool, &mut later, &mut n.out);
        if !fits {
            self.doom(new, WL_F_OVERLOAD);
        }
        self.mark_dirty(new);
        self.arm_answer(new);
    }

    /// An upstream is over, by a fault if there is one. So is its conversation, unless the program
    /// has opened another.
    pub(super) fn upstream_over(&mut self, id: Id, fault: Option<(u32, u32)>) {
        let at = self.target_of(id);
        let c = &mut self.conns[id];
        let (client, member, left) = (c.client, c.member, c.has(flag::LEFT));
        if left {
            self.remove_upstream(id, fault.is_some());
            return;
        }
        let declared = self.apps[at.a].upstreams[usize::from(member - UPSTREAM)].place;
        let fault = fault.map(|(kind, place)| (kind, if place == NO_PLACE { declared } else { place }));
        if let Some((kind, place)) = fault {
            self.count_fault_at(id, kind, place);
        }
        // It is no upstream of its client's any more, but its unsent messages may still be wanted.
        let unseen = self.conns[id].has(flag::CONNECTING);
        self.conns[id].set(flag::LEFT);
        let talks = |s: &Core| s.conns.get(client).is_some_and(|c| !c.has(flag::DOOMED | flag::CLOSING));
        if talks(self) {
            let why = self.why(id);
            for h in self.apps[at.a].upstreams[usize::from(member - UPSTREAM)].closed.clone() {
                self.run_event(at.a, h, client, Some(why));
            }
        }
        let new = self.upstream(client, u32::from(member - UPSTREAM)).filter(|_| talks(self));
        if let (Some(new), true) = (new, unseen) {
            let unsent = std::mem::take(&mut self.conns[id].out);
            self.inherit(id, new, unsent);
        }
        // Handlers that wait for an answer may open another one, too.
        let told = self.faults_told;
        self.fail_asks(id, fault.map_or(WL_F_LOST, |(kind, _)| kind));
        if !self.conns.alive(id) {
            return;
        }
        let told = self.faults_told != told;
        let new = self.upstream(client, u32::from(member - UPSTREAM)).filter(|_| talks(self));
        self.remove_upstream(id, fault.is_some());
        if new.is_some() || !talks(self) {
            return self.complain_if_due(client);
        }
        let complaint = self.conns[client].complaint.take();
        if let Some(fault) = fault {
            if !told {
                self.tell_fault(client, fault, Start::default(), false);
            }
            self.ends_by(client, fault.0);
        } else if let Some(c) = complaint {
            return self.client_over(client, c.fault, c.start);
        }
        self.end_conversation(client);
    }

    /// Takes an upstream out of the books. A message of it that is under way into another member is
    /// cut short, and so is that member.
    pub(super) fn remove_upstream(&mut self, id: Id, reset: bool) {
        self.stop_handler(id);
        if !self.conns.alive(id) {
            return;
        }
        let at = self.target_of(id);
        self.conns[id].set(flag::LEFT | flag::CLOSING);
        self.fail_asks(id, WL_F_LOST);
        if !self.conns.alive(id) {
            return;
        }
        if !self.conns[id].has(flag::CONNECTING) {
            self.run_closed(id);
        }
        self.cut_off_readers(id);
        self.apps[at.a].ports[at.p].change_load(at.i, -1);
        let client = self.conns[id].client;
        self.remove_conn(id, reset);
        for member in self.members(client) {
            if self.conns[member].behind == id {
                self.conns[member].behind = Id::NIL;
                self.read_on(member);
            }
        }
        if self.conns.alive(client) {
            self.unstall(client);
        }
        self.answers_no_more(client);
    }

    /// A client has an upstream less. If it has ended its direction and has none any more, its
    /// conversation is over.
    pub(super) fn answers_no_more(&mut self, client: Id) {
        let alone = |c: &super::types::Conn| c.member == CLIENT && c.has(flag::EOF) && c.own.is_empty();
        if self.conns.get(client).is_some_and(|c| alone(c) && !c.has(ENDING)) {
            self.mark_again(client);
        }
    }

    /// A handler that waits for an answer is not resumed.
    pub(super) fn stop_handler(&mut self, id: Id) {
        let c = &mut self.conns[id];
        let (owner, busy) = (c.owner, std::mem::take(&mut c.count) > 0);
        c.begin &= !begin::HANDLERS;
        if busy && self.tasks.alive(owner) && self.tasks[owner].suspended {
            self.cancel_task(owner);
        }
    }

    /// The connection into which a message of this one streams gets no more of it.
    pub(super) fn cut_off_readers(&mut self, id: Id) {
        let c = &mut self.conns[id];
        if c.mode != Mode::Tail {
            return;
        }
        let counted = c.why != 0;
        let Sink::Conn(dst) = std::mem::replace(&mut c.sink, Sink::Discard) else { return };
        if !counted {
            return self.doom(dst, WL_F_LOST);
        }
        self.ends_by(dst, WL_F_LOST);
        self.close_unsent(dst);
    }

    /// An upstream is not needed any more: it is closed when its output is sent.
    pub(super) fn dismiss(&mut self, id: Id) {
        let fed = self.is_fed(id);
        let Some(c) = self.conns.get_mut(id) else { return };
        let unused = c.has(flag::CONNECTING) && c.out.is_empty() || c.pooling.waits();
        // It ends as a whole.
        c.clear(flag::SHUT_WANTED);
        c.set(flag::LEFT | if fed || unused { flag::DOOMED } else { flag::CLOSING });
        self.mark_dirty(id);
        self.cut_off_readers(id);
        self.unstall_client(id);
    }

    /// The conversation is over: the client is closed when it has got all output. Called by host
    /// functions, too, so it only marks.
    pub(super) fn end_conversation(&mut self, client: Id) {
        let fed = self.is_fed(client);
        let c = &mut self.conns[client];
        c.set(flag::LAST | flag::LINGER | if fed { flag::DOOMED } else { flag::CLOSING });
        self.mark_dirty(client);
        self.cut_off_readers(client);
        let silent = self.has_last_words(client);
        for upstream in self.upstreams(client) {
            if silent {
                self.silence(upstream);
            } else {
                self.dismiss(upstream);
            }
        }
    }

    /// Whether a handler of the client's end is still to come. It may send to the upstreams.
    fn has_last_words(&self, client: Id) -> bool {
        let c = &self.conns[client];
        !self.apps[c.app as usize].ports[c.port as usize].closed.is_empty() && !self.lingers(client)
    }

    /// A client has ended its direction: whether its last words go out before its upstreams are
    /// told. That is so if nothing is owed. A server that owes something may wait for that end, and
    /// of one whose answers are not counted nobody knows.
    fn may_say_last_words(&self, client: Id, upstreams: &[Id]) -> bool {
        let rests = |id: &Id| {
            self.conns.get(*id).is_some_and(|c| {
                let proto = &self.apps[c.app as usize].protos[usize::from(c.proto)];
                proto.tells_owed && !c.owes() && !self.is_fed(*id)
            })
        };
        !upstreams.is_empty() && self.has_last_words(client) && upstreams.iter().all(rests)
    }

    /// Nothing is heard of an upstream any more, but the handler of its client's end may send to
    /// it.
    fn silence(&mut self, id: Id) {
        let fed = self.is_fed(id);
        let Some(c) = self.conns.get_mut(id) else { return };
        if c.is_silenced() {
            return;
        }
        let unused = c.has(flag::CONNECTING) && c.out.is_empty();
        if fed || unused || c.has(ENDING | flag::LEFT) || c.pooling.waits() || c.pooling.is_nobodys() {
            return self.dismiss(id);
        }
        c.set(flag::LEFT);
        c.on_hold = true;
        self.cut_off_readers(id);
        self.unstall_client(id);
    }

    /// The handlers of a client's end, behind which its upstreams are dismissed.
    pub(super) fn last_words(&mut self, client: Id) {
        for upstream in self.upstreams(client) {
            if let Some(c) = self.conns.get_mut(upstream).filter(|c| c.is_silenced()) {
                c.clear(flag::LEFT);
            }
        }
        self.run_closed(client);
        self.dismiss_upstreams(client);
    }

    fn dismiss_upstreams(&mut self, client: Id) {
        self.cut_off_readers(client);
        for upstream in self.upstreams(client) {
            if self.conns.alive(upstream) {
                self.stop_handler(upstream);
                self.conns[upstream].on_hold = false;
                self.dismiss(upstream);
            }
        }
    }

    /// Closes a member at once.
    pub(super) fn close_member(&mut self, id: Id, reset: bool) {
        if self.conns[id].side == Side::Backend {
            self.conns[id].set(flag::LEFT);
            return self.remove_upstream(id, reset);
        }
        let (a, p) = (self.conns[id].app as usize, self.conns[id].port as usize);
        let (turned_away, told) = (self.turned_away(id), self.lingers(id));
        // Its last handler sends to the upstreams only.
        self.conns[id].set(flag::DOOMED);
        self.stop_handler(id);
        match turned_away || told {
            true => self.dismiss_upstreams(id),
            false => self.last_words(id),
        }
        if self.conns.alive(id) {
            self.remove_conn(id, reset);
            self.place_free(a, p, turned_away);
        }
    }

    /// Called for each connection that is taken out of the books.
    pub(super) fn leave_conversation(&mut self, id: Id) {
        if self.conns[id].member == CLIENT && self.access.on() {
            self.log_conversation(id);
        }
        self.leave_pool(id);
        if let Some(mut after) = self.conns[id].after.take() {
            after.clear(&mut self.pool);
        }
    }
}
