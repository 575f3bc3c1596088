//! The pool of backend connections: which clients a connection serves, and the requests that no
//! backend has seen.
//!
//! Idle connections of an exclusive protocol serve any client (`reuse`). With `reuse = never`, and
//! where a message ties the connection to its client (`private when`: NTLM, say), they serve that
//! client only, and end with it.
//!
//! An idle connection may have received bytes without a request, or may have ended. It is checked
//! before the next request is written ([`flag::UNSENT`]). Such a connection is closed, and the
//! unseen request goes out on another. If the connection of a request cannot be made, and the port
//! says `failover next`, the request goes to another server.

use super::client::move_queue;
use super::slab::Id;
use super::types::{flag, Mode, Order, Sink, Target, BACKENDS, NO_BACKEND};
use super::{Core, Raw};
use crate::abi::*;
use crate::engine::common::is_exhaustion;
use crate::engine::Waiting;
use wireloom_ir::desc::Reuse;

/// A backend that has sent bytes behind an answer has no connection reused for so many nanoseconds.
const UNSTEADY_FOR: u64 = 60_000_000_000;
/// That no connection can be opened is said once in so many nanoseconds.
const WANT_TOLD_EVERY: u64 = 10_000_000_000;

impl Core {
    /// An idle connection that this call may have.
    pub(super) fn pooled_conn(&mut self, at: Target, call: Id, more: bool) -> Option<Id> {
        let k = &self.calls[call];
        let (client, repeats) = (self.tasks[k.task].conn, k.repeat && !more);
        if let Some(id) = self.own_conn(at, client) {
            self.conns[id].set(flag::REUSED | flag::UNSENT);
            return Some(id);
        }
        let port = &self.apps[at.a].ports[at.p];
        let room = port.backends[at.i].open < port.options.max_connections;
        let first = || self.conns.get(client).is_some_and(|c| c.answered <= 1);
        match port.options.reuse {
            Reuse::Never => None,
            // If the connection is lost under its first request, the client has had no answer yet,
            // and could get only an error.
            Reuse::Safe if !repeats && room && first() => None,
            Reuse::Safe | Reuse::Always => self.take_idle(at),
        }
    }

    pub(super) fn take_idle(&mut self, at: Target) -> Option<Id> {
        let b = &mut self.apps[at.a].ports[at.p].backends[at.i];
        while let Some(id) = b.idle.pop() {
            if let Some(c) = self.conns.get_mut(id) {
                if !c.has(flag::DOOMED | flag::CLOSING | flag::EOF) {
                    c.set(flag::REUSED | flag::UNSENT);
                    return Some(id);
                }
            }
        }
        None
    }

    /// A client's own connection to a backend, if it is idle.
    fn own_conn(&self, at: Target, client: Id) -> Option<Id> {
        let list = &self.conns.get(client)?.own;
        let idle = |id: &&Id| {
            self.conns.get(**id).is_some_and(|c| {
                let usable = !c
                    .has(flag::DOOMED | flag::CLOSING | flag::EOF | flag::NO_REUSE | flag::CONNECTING | flag::RELEASE);
                usable && c.count == 0 && c.mode == Mode::Head
            })
        };
        list.iter().find(|id| idle(id) && self.target_of(**id).i == at.i && self.target_of(**id).p == at.p).copied()
    }

    /// Whether a call's connection is to be its client's own from the start.
    pub(super) fn wants_own(&self, at: Target, call: Id) -> bool {
        let k = &self.calls[call];
        let client = self.tasks.get(k.task).map_or(Id::NIL, |t| t.conn);
        let has = self.conns.get(client).is_some_and(|c| !c.own.is_empty());
        k.private || has || self.apps[at.a].ports[at.p].options.reuse == Reuse::Never
    }

    /// From now on a connection serves this client only. Without a client it is not used again.
    pub(super) fn make_own(&mut self, id: Id, client: Id) {
        if self.conns[id].has(flag::PRIVATE) {
            return;
        }
        let by = (self.conns[id].port, self.conns[id].instance);
        match self.conns.get_mut(client) {
            Some(c) => {
                c.own.push(id);
                c.served_by = if [by, NO_BACKEND].contains(&c.served_by) { by } else { BACKENDS };
                self.conns[id].client = client;
                self.conns[id].set(flag::PRIVATE);
            }
            None => self.conns[id].set(flag::NO_REUSE),
        }
    }

    /// A client has left: so do its own connections.
    pub(super) fn close_own(&mut self, client: Id) {
        let own = self.conns.get_mut(client).map(|c| std::mem::take(&mut c.own)).unwrap_or_default();
        for id in own {
            if self.conns.alive(id) {
                self.close_conn(id, false);
            }
        }
    }

    // Before a request is written.

    /// Whether an idle connection still has no input and no end; if not it is given up.
    #[inline]
    pub(super) fn still_idle(&mut self, id: Id) -> bool {
        let c = &self.conns[id];
        if !c.has(flag::UNSENT) || c.has(flag::IN_FLIGHT) {
            return true;
        }
        match self.engine.waiting(c.token) {
            Waiting::Nothing => true,
            waiting => {
                self.spoilt(id, waiting == Waiting::Bytes);
                false
            }
        }
    }

    /// A connection that was idle has got bytes, or has ended, before its next request was written:
    /// that goes out on another.
    pub(super) fn spoilt(&mut self, id: Id, bytes: bool) {
        if bytes {
            self.count_surplus(id);
        }
        if self.conns[id].has(flag::IN_FLIGHT) {
            // It may have been written by now.
            return self.fail_backend(id, WL_F_LOST, WL_F_LOST);
        }
        let at = self.target_of(id);
        let order = self.order_on(id);
        self.carry_over(id, at, order);
    }

    /// Bytes have come behind an answer without a request: the connection is out of step.
    pub(super) fn surplus(&mut self, id: Id) {
        self.count_surplus(id);
        self.close_conn(id, false);
    }

    pub(super) fn count_surplus(&mut self, id: Id) {
        let (at, now) = (self.target_of(id), self.now);
        let st = &self.my_stats().apps[at.a].ports[at.p].surplus;
        st.add(1);
        if st.get() == 1 {
            let addr = self.apps[at.a].ports[at.p].backends[at.i].addr;
            log::warn!("backend {addr} has sent an answer that nobody has asked for, or bytes behind a complete answer; such connections are closed and counted (surplus)");
        }
        self.on_violation(at, now);
        let b = &mut self.apps[at.a].ports[at.p].backends[at.i];
        b.unsteady_until = now + UNSTEADY_FOR;
        // Those too may carry an answer that nobody has asked for.
        for other in std::mem::take(&mut b.idle) {
            if other != id && self.conns.alive(other) {
                self.close_conn(other, false);
            }
        }
    }

    /// Whether a connection is not to serve another client, since its backend has sent bytes behind
    /// an answer of late. Such bytes may also come when the next request has been written, and then
    /// cannot be told from its answer.
    pub(super) fn out_of_step(&self, id: Id) -> bool {
        let at = self.target_of(id);
        let port = &self.apps[at.a].ports[at.p];
        self.now < port.backends[at.i].unsteady_until
            && port.options.reuse != Reuse::Always
            && !self.conns[id].has(flag::PRIVATE)
    }

    /// A connection cannot be tried. Where this process has no descriptors or ports left for it,
    /// that says nothing about the server.
    #[cold]
    pub(super) fn no_connection(&mut self, at: Target, e: &std::io::Error) -> u32 {
        let addr = self.apps[at.a].ports[at.p].backends[at.i].addr;
        log::debug!("connect {addr}: {e}");
        if e.raw_os_error().is_some_and(is_exhaustion) {
            if self.now >= self.want_told {
                self.want_told = self.now + WANT_TOLD_EVERY;
                log::warn!("no connection to {addr} can be opened: {e}");
            }
            return WL_F_OVERLOAD;
        }
        // Inside a handler: the consequences of the failure wait until the handler has ended.
        self.failures.push(at);
        WL_F_REFUSED
    }

    // Requests that no backend has seen.

    /// Books a call over to another server of its port.
    pub(super) fn redirect(&mut self, call: Id, to: Target, order: Order) {
        let k = &mut self.calls[call];
        let from = Target { i: k.inst as usize, ..to };
        (k.inst, k.order) = (to.i as u32, order);
        let (task, part) = (k.task, k.part);
        self.asks(task, part, (to.p as u16, to.i as u32));
        self.tried_out(from, call);
        let port = &mut self.apps[to.a].ports[to.p];
        port.change_load(from.i, -1);
        port.change_load(to.i, 1);
        let st = &self.my_stats().apps[to.a].ports[to.p];
        st.failovers.add(1);
        st.backends[to.i].requests.add(1);
        self.try_out(to, call);
    }

    /// Sends a call that waits for a connection to another server. False: there is none.
    pub(super) fn fail_over(&mut self, at: Target, call: Id) -> bool {
        let (task, mut order) = (self.calls[call].task, self.calls[call].order);
        if !self.tasks.alive(task) {
            return false;
        }
        let Some(to) = self.next_server(at, &mut order) else { return false };
        self.redirect(call, to, order);
        self.send_kept(to, call);
        true
    }

    /// A connection could not be made: its calls go to the next server of the first, or fail.
    pub(super) fn unreachable(&mut self, id: Id) {
        let at = self.target_of(id);
        let mut order = self.order_on(id);
        match self.next_server(at, &mut order) {
            Some(to) => self.carry_over(id, to, order),
            None => self.fail_backend(id, WL_F_REFUSED, WL_F_REFUSED),
        }
    }

    /// The order of the requests on a connection: that of the first. Messages without an answer
    /// have none of their own.
    fn order_on(&mut self, id: Id) -> Order {
        let at = self.target_of(id);
        match self.calls.get(self.conns[id].first) {
            Some(k) => k.order,
            None => Order::from_server(at.i),
        }
    }

    /// Moves all requests of an unwritten connection to one of `to`, unchanged; closes it.
    fn carry_over(&mut self, id: Id, to: Target, order: Order) {
        let at = self.target_of(id);
        self.conns[id].set(flag::CLOSING);
        let own = self.conns[id].has(flag::OWN);
        let by_id = self.is_shared_by_id(id);
        let Some((to, order, new)) = self.connection_to((to, order), own, by_id) else {
            return self.fail_backend(id, WL_F_REFUSED, WL_F_REFUSED);
        };
        let call = self.take_calls(id);
        let c = &mut self.conns[id];
        let (mut out, keeps, piped) =
            (std::mem::take(&mut c.out), c.flags & (flag::SHUT_WANTED | flag::NO_REUSE), c.has(flag::PIPED));
        let (connecting, client) = (c.has(flag::CONNECTING), c.client);
        if !connecting {
            self.run_closed(id);
        }
        self.relink(call, new, to, order);
        if self.conns[new].has(flag::LEFT) {
            self.ask_alone(self.conns[new].first);
            self.settle(new);
        }
        let idle = call.is_nil() && self.can_close_alone(new);
        // The numbers in its output are those of the old connection.
        let numbers = self.conns[id].numbers.take();
        self.remove_conn(id, false);
        let c = &mut self.conns[new];
        c.numbers = numbers.or(c.numbers.take());
        c.set(keeps);
        c.last_tx = if c.out.is_empty() { self.now } else { c.last_tx };
        let fits = if c.out.is_empty() {
            c.out = out;
            true
        } else {
            move_queue(&mut self.pool, &mut out, &mut c.out)
        };
        if piped {
            self.share_again(to, new);
        }
        if self.conns.alive(client) {
            self.make_own(new, client);
        }
        if !fits {
            self.conns[new].set(flag::DOOMED);
        } else if idle {
            // Messages without an answer.
            self.apps[to.a].ports[to.p].backends[to.i].idle.push(new);
        }
        self.mark_dirty(new);
        self.serve_waiter(at, None);
    }

    /// Links calls that have left their connection to another, with the streams that feed them.
    fn relink(&mut self, first: Id, new: Id, to: Target, order: Order) {
        let mut call = first;
        while let Some(k) = self.calls.get_mut(call) {
            let next = std::mem::take(&mut k.next);
            let (old, stream, inst) = (k.conn, k.stream, k.inst as usize);
            if let Some(s) = self.conns.get_mut(stream) {
                if s.sink == Sink::Conn(old) {
                    s.sink = Sink::Conn(new);
                }
            }
            if inst != to.i {
                self.redirect(call, to, order);
            }
            self.link_call(new, call);
            call = next;
        }
    }

    /// A connection to a server, or to the next one where that cannot even be tried. `own`: it is
    /// not shared. `by_id`: it has no requests yet.
    fn connection_to(&mut self, to: (Target, Order), own: bool, by_id: bool) -> Option<(Target, Order, Id)> {
        let (mut to, mut order) = to;
        loop {
            let port = &self.apps[to.a].ports[to.p];
            let exclusive = self.apps[to.a].protos[port.protos[0] as usize].exclusive;
            let made = match by_id {
                true => self.new_shared_conn(to),
                false if exclusive || own => self.connect(to),
                false => self.shared_conn(to),
            };
            if let (Ok(id), true) = (&made, own) {
                self.conns[*id].set(flag::OWN);
            }
            match made {
                Ok(id) => return Some((to, order, id)),
                Err(_) => to = self.next_server(to, &mut order)?,
            }
        }
    }

    /// Sends a call by its copy of the request on a fresh connection, or has it wait for one.
    pub(super) fn send_kept(&mut self, at: Target, call: Id) {
        let deadline = self.calls[call].deadline;
        if self.waits_for_ids(at) {
            return self.queue_for_id(at, call);
        }
        let port = &mut self.apps[at.a].ports[at.p];
        let b = &mut port.backends[at.i];
        if b.open >= port.options.max_connections {
            if b.waiters.len() >= super::WAITERS_MAX {
                return self.fail_call(call, WL_F_OVERLOAD);
            }
            b.waiters.push_back(call);
            return self.arm_waiters(at, deadline);
        }
        let conn = self.connect(at);
        self.send_copy(at, call, conn)
    }

    /// Sends a call by its copy of the request on a connection. Without one the call goes to
    /// another server, or fails.
    pub(super) fn send_copy(&mut self, at: Target, call: Id, conn: Result<Id, u32>) {
        let sent = conn.and_then(|conn| {
            let kept = Raw::of(self.calls[call].kept.as_slice());
            self.bind(conn, call, kept, Raw::of(&[]))
        });
        match sent {
            Err(WL_F_REFUSED) if self.fail_over(at, call) => {}
            Err(kind) => self.fail_call(call, kind),
            Ok(()) => {}
        }
    }
}
