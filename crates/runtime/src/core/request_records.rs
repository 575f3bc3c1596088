//! Records about requests: the class counts of their answers, and their lines in the access log.
//! Each answer that this process made because of a failure also gets a warning.

use super::app::{App, AppCore};
use super::slab::Id;
use super::types::{Conn, Side, Target, BACKENDS, CLIENT, NO_BACKEND};
use super::Core;
use crate::abi::*;
use crate::access_log::{LoggedRequest, Note};
use crate::signal::HandlerFault;
use crate::stats::NO_PLACE;

/// Whether a fault comes from us or a backend, not from the client or its bytes.
fn ours(kind: u32) -> bool {
    kind < WL_F_USER
        && !matches!(
            kind,
            WL_F_MALFORMED | WL_F_TOO_LONG | WL_F_TRUNCATED | WL_F_CONSTRAINT | WL_F_IDLE | WL_F_CANCELLED
        )
}

impl Core {
    /// Begins a note of a request, if requests are logged. `request`: where it was read.
    #[inline]
    pub(super) fn note(&mut self, slot: Id, request: Option<wl_msg>) {
        if self.access.on() {
            self.begin_note(slot, request);
        }
    }

    #[cold]
    fn begin_note(&mut self, slot: Id, request: Option<wl_msg>) {
        self.noting = Some(self.access.note());
        let c = &self.conns[self.slots[slot].conn];
        let (a, proto) = (c.app as usize, c.proto);
        if let (Some(request), Some(note)) = (request, self.apps[a].app.program.table().note) {
            let table = *self.apps[a].app.program.table();
            self.enter(a);
            let wl: *mut wl_core = &mut *self.apps[a].wl;
            // SAFETY: the program's own function; the message is in place.
            unsafe { note(table.self_, wl, u32::from(proto), &request) };
        }
        self.slots[slot].note = self.noting.take();
    }

    /// Takes the class that the program has just given to its answer.
    #[inline]
    pub(super) fn take_outcome(&mut self, a: usize, slot: Id) {
        let outcome = std::mem::take(&mut self.apps[a].wl.outcome);
        if let Some(s) = self.slots.get_mut(slot) {
            s.outcome = outcome;
        }
    }

    /// A request is over: it is counted, and its line is written. `fault`: the fault that ended it,
    /// if the slot has none.
    #[inline]
    pub(super) fn count_answer(&mut self, slot: Id, fault: u32) {
        let s = &self.slots[slot];
        let c = &self.conns[s.conn];
        let (a, p) = (c.app as usize, c.port as usize);
        let app = &self.apps[a];
        if s.bytes > 0 && !app.app.classes.is_empty() {
            let class = app.app.class(c.proto, s.outcome);
            let st = &self.stats[self.index].apps[a];
            st.ports[p].classes[class].add(1);
            let backend = || st.ports.get(s.backend.0 as usize)?.backends.get(s.backend.1 as usize);
            if let (true, 0, Some(b)) = (s.heard, s.fault, backend()) {
                b.classes[class].add(1);
            }
        }
        match self.slots[slot].note.take() {
            None => {}
            Some(note) if self.slots[slot].tunnel && self.slots[slot].done => self.keep_line(slot, note),
            Some(note) => self.write_line(slot, note, fault),
        }
    }

    /// A backend has answered a request that asked several at once. No reply passes the answer on
    /// alone, so the program is asked for its class.
    #[inline]
    pub(super) fn count_joined(&mut self, at: Target, proto: u16, task: Id, answer: &wl_msg) {
        if self.tasks.get(task).is_some_and(|t| t.parts.len() > 1) && !self.apps[at.a].app.classes.is_empty() {
            self.count_part(at, proto, answer)
        }
    }

    fn count_part(&mut self, at: Target, proto: u16, answer: &wl_msg) {
        let table = *self.apps[at.a].app.program.table();
        let wl: *mut wl_core = &mut *self.apps[at.a].wl;
        if let Some(f) = table.answer {
            self.enter(at.a);
            // SAFETY: the program's own function; the message is in place.
            unsafe { f(table.self_, wl, u32::from(proto), answer) };
        }
        let outcome = std::mem::take(&mut self.apps[at.a].wl.outcome);
        let class = self.apps[at.a].app.class(proto, outcome);
        self.my_stats().apps[at.a].ports[at.p].backends[at.i].classes[class].add(1);
    }

    /// How long a request took that ends now. The time of a batch is that of its poll. A request
    /// that is answered in the batch that brought it needs a clock of its own.
    #[inline]
    pub(super) fn took(&self, since: u64) -> u64 {
        let now = if since == self.now { self.engine.now() } else { self.now };
        now.saturating_sub(since)
    }

    /// A request has become a tunnel: its line is written at the end of it.
    #[cold]
    fn keep_line(&mut self, slot: Id, mut note: Box<Note>) {
        let s = &self.slots[slot];
        let c = &self.conns[s.conn];
        (note.since, note.outcome, note.backend) = (Some(s.since), s.outcome, s.backend);
        note.before = given_to(c).wrapping_sub(s.bytes);
        self.tunnels.insert(s.conn, note);
    }

    /// The line of a tunnel that is over, if a client has one.
    #[inline]
    pub(super) fn log_tunnel(&mut self, id: Id) {
        if !self.tunnels.is_empty() {
            self.tunnels.remove(&id).into_iter().for_each(|note| self.write_tunnel(id, note));
        }
    }

    #[cold]
    fn write_tunnel(&mut self, id: Id, note: Box<Note>) {
        let Some(c) = self.conns.get(id) else { return };
        let here = &self.apps[c.app as usize];
        let fault = reason_of(here, c);
        let entry = LoggedRequest {
            took: self.took(note.since.unwrap_or(c.opened)),
            status: note.outcome >> 8,
            class: here.app.class_name(c.proto, note.outcome),
            bytes: given_to(c).wrapping_sub(note.before),
            backend: here.backend_name(note.backend),
            fault: &fault,
            ..here.line_of(c, self.now.wrapping_add(self.ahead))
        };
        self.access.line(note, &entry);
    }

    /// Notes when a request began that was not read to its end.
    pub(super) fn note_since(&mut self, slot: Id, begun: u64) {
        if self.access.on() {
            self.note(slot, None);
            self.slots[slot].note.iter_mut().for_each(|n| n.since = Some(begun));
        }
    }

    #[cold]
    fn write_line(&mut self, slot: Id, note: Box<Note>, fault: u32) {
        let s = &self.slots[slot];
        let c = &self.conns[s.conn];
        let here = &self.apps[c.app as usize];
        let app = &here.app;
        let fault = if s.fault != 0 { u32::from(s.fault) } else { fault };
        let own = if fault >= WL_F_USER { app.fault_name(fault) } else { String::new() };
        let entry = LoggedRequest {
            took: self.took(note.since.unwrap_or(s.since)),
            status: s.outcome >> 8,
            class: app.class_name(c.proto, s.outcome),
            bytes: s.bytes,
            backend: here.backend_name(s.backend),
            fault: if fault == 0 {
                "-"
            } else if own.is_empty() {
                fault_name(fault)
            } else {
                &own
            },
            ..here.line_of(c, self.now.wrapping_add(self.ahead))
        };
        self.access.line(note, &entry);
    }

    /// The line of a conversation that is over.
    #[cold]
    pub(super) fn log_conversation(&mut self, id: Id) {
        let mut note = self.access.note();
        let c = &self.conns[id];
        note.column(b"conversation");
        note.column(c.answered.to_string().as_bytes());
        let app = &self.apps[c.app as usize];
        let fault = reason_of(app, c);
        let entry = LoggedRequest {
            took: self.took(c.opened),
            bytes: c.left,
            backend: app.backend_name(c.served_by),
            fault: &fault,
            ..app.line_of(c, self.now.wrapping_add(self.ahead))
        };
        self.access.line(note, &entry);
    }

    /// Requests and conversations that the end of the service cuts off have their lines, too.
    pub fn log_cut_off(&mut self) {
        if !self.access.on() {
            return;
        }
        for id in self.conns.ids() {
            if self.conns[id].side != Side::Client {
                continue;
            }
            if self.conns[id].member == CLIENT {
                self.ends_by(id, WL_F_SHUTDOWN);
                self.log_conversation(id);
                continue;
            }
            if self.tunnels.contains_key(&id) {
                self.ends_by(id, WL_F_SHUTDOWN);
                self.log_tunnel(id);
            }
            let mut slot = self.conns[id].first;
            while let Some(s) = self.slots.get(slot) {
                let next = s.next;
                if let Some(note) = self.slots[slot].note.take() {
                    self.write_line(slot, note, WL_F_SHUTDOWN);
                }
                slot = next;
            }
        }
        self.access.give(true);
    }

    /// Notes the fault of a request.
    pub(super) fn note_fault(&mut self, slot: Id, kind: u32) {
        if let Some(s) = self.slots.get_mut(slot) {
            s.fault = kind as u16;
        }
    }

    /// An answer was made here for a fault, or one was cut off. Where that is no fault of the
    /// client, a line on standard error tells the reason, at most one a second for each kind.
    pub(super) fn complain(&mut self, slot: Id, kind: u32, place: u32, cut: bool) {
        if !(ours(kind) || self.log_faults) || self.virtual_time {
            return;
        }
        let Some(s) = self.slots.get(slot) else { return };
        let c = &self.conns[s.conn];
        let app = &self.apps[c.app as usize].app;
        let Some(more) = app.told.may(kind, self.now / 1_000_000_000) else { return };
        // A message of the program's own that breaks a rule is `internal` for the client.
        let name = app.fault_name(if s.fault != 0 && kind == WL_F_INTERNAL { u32::from(s.fault) } else { kind });
        let at = app.place_at(place);
        let client = std::net::SocketAddr::from(c.c.peer);
        let backend =
            self.apps[c.app as usize].backend_name(s.backend).map(|b| format!(", backend {b}")).unwrap_or_default();
        let status = s.outcome >> 8;
        let answer = if cut {
            ", cut off".into()
        } else if status > 0 {
            format!(", answered {status}")
        } else {
            String::new()
        };
        let more = if more > 0 { format!("; {more} more since the last such line") } else { String::new() };
        log::warn!(target: "app", "{}.{}: {name}{at}: client {client}{backend}{answer}{more}", app.desc.app, app.desc.ports[c.port as usize].name);
    }

    /// Answers are cut off that their client does not take: that is counted, and a line tells it.
    pub(super) fn count_cut(&mut self, id: Id, kind: u32) {
        let (a, port) = (self.conns[id].app, self.conns[id].port);
        self.ends_by(id, kind);
        self.tell_cut(id, kind);
        self.add_fault(a, kind, NO_PLACE, u32::from(port));
    }

    fn tell_cut(&self, id: Id, kind: u32) {
        let c = &self.conns[id];
        let here = &self.apps[c.app as usize];
        if !(ours(kind) || kind == WL_F_IDLE || self.log_faults) || self.virtual_time {
            return;
        }
        let Some(more) = here.app.told.may(kind, self.now / 1_000_000_000) else { return };
        let served = self.slots.get(c.first).and_then(|s| here.backend_name(s.backend));
        let backend = served.map(|b| format!(", backend {b}")).unwrap_or_default();
        let how = if kind == WL_F_IDLE { ", cut off by write_timeout" } else { ", cut off" };
        let more = if more > 0 { format!("; {more} more since the last such line") } else { String::new() };
        let (name, peers, desc) = (here.app.fault_name(kind), self.peers_of(id), &here.app.desc);
        log::warn!(target: "app", "{}.{}: {name}{peers}{backend}{how}{more}", desc.app, desc.ports[c.port as usize].name);
    }

    /// A line about a fault that ends no request, if all faults are logged. `id`: its connection.
    /// One of a conversation that is no fault of its client is told anyway, as the client is.
    pub(super) fn log_fault(&self, a: u16, (kind, place): HandlerFault, port: u32, id: Id) {
        let told = ours(kind) && self.conns.get(id).is_some_and(|c| c.member != 0);
        if !(told || self.log_faults) || self.virtual_time {
            return;
        }
        let app = &self.apps[a as usize].app;
        let Some(more) = app.told.may(kind, self.now / 1_000_000_000) else { return };
        let port = app.desc.ports.get(port as usize).map(|p| format!(".{}", p.name)).unwrap_or_default();
        let peer = self.peers_of(id);
        let (name, at) = (app.fault_name(kind), app.place_at(place));
        let more = if more > 0 { format!("; {more} more since the last such line") } else { String::new() };
        log::warn!(target: "app", "{}{port}: {name}{at}{peer}{more}", app.desc.app);
    }

    /// The client and the backend that a connection's fault is about.
    fn peers_of(&self, id: Id) -> String {
        let Some(c) = self.conns.get(id) else { return String::new() };
        let (client, backend) = match (c.side, c.member) {
            (Side::Client, CLIENT) => (Some(id), self.upstreams(id).first().copied().filter(|_| c.own.len() == 1)),
            (Side::Client, _) => (Some(id), None),
            (Side::Backend, 0) => {
                (self.calls.get(c.first).filter(|_| c.count == 1).map(|k| self.asker(k.task)), Some(id))
            }
            (Side::Backend, _) => (Some(c.client), Some(id)),
        };
        let client = client.and_then(|c| self.conns.get(c)).map(|c| std::net::SocketAddr::from(c.c.peer));
        let backend = backend
            .and_then(|b| self.conns.get(b))
            .and_then(|b| self.apps[b.app as usize].backend_name((b.port, b.endpoint())));
        match (client, backend) {
            (Some(c), Some(b)) => format!(": client {c}, backend {b}"),
            (Some(c), None) => format!(": client {c}"),
            (None, Some(b)) => format!(": backend {b}"),
            (None, None) => String::new(),
        }
    }

    fn asker(&self, task: Id) -> Id {
        self.tasks.get(task).map_or(Id::NIL, |t| t.conn)
    }

    /// Every fault gets a line from now on.
    pub fn log_faults(&mut self, on: bool) {
        self.log_faults = on;
    }

    /// Logs the number of failures without a line.
    pub(super) fn tell_left(&self) {
        if self.virtual_time {
            return;
        }
        for app in self.apps.iter().map(|a| &a.app) {
            for (kind, n) in app.told.left(self.now / 1_000_000_000) {
                log::warn!(target: "app", "{}: {}: {n} more", app.desc.app, app.fault_name(kind));
            }
        }
    }

    /// Requests are logged from now on.
    pub fn log_access(&mut self, lines: crate::access_log::Lines) {
        self.access = lines;
    }
}

/// The bytes that a connection has got so far.
fn given_to(c: &Conn) -> u64 {
    c.left.wrapping_add(c.out.len() as u64)
}

/// The reason why a client's connection has ended, for its line.
fn reason_of(here: &AppCore, c: &Conn) -> String {
    match u32::from(c.why) {
        0 | WL_F_ENDED => "-".into(),
        kind => here.app.fault_name(kind),
    }
}

impl AppCore {
    /// A line with the columns that are the connection's. `wall`: nanoseconds since 1970.
    fn line_of(&self, c: &Conn, wall: u64) -> LoggedRequest<'_> {
        let desc = &self.app.desc;
        LoggedRequest {
            wall,
            app: &desc.app,
            port: &desc.ports[c.port as usize].name,
            client: c.c.peer.into(),
            took: 0,
            status: 0,
            class: "",
            bytes: 0,
            backend: None,
            fault: "-",
        }
    }

    /// The address of a backend (`Slot::backend`), as the settings have it.
    fn backend_name(&self, (port, n): (u16, u32)) -> Option<&str> {
        match (port, n) {
            NO_BACKEND => None,
            BACKENDS => Some("several"),
            _ => Some(&*self.seen.last().ports.get(port as usize)?.places.all.get(n as usize)?.name),
        }
    }
}

impl App {
    /// The class of an answer (`wl_core.outcome`) by its number in [`App::classes`].
    #[inline]
    fn class(&self, proto: u16, outcome: u32) -> usize {
        let of = self.class_numbers.get(proto as usize).and_then(|c| c.get((outcome & 0xff) as usize));
        of.map_or(0, |c| usize::from(*c))
    }

    fn class_name(&self, proto: u16, outcome: u32) -> &str {
        match self.class(proto, outcome) {
            0 => "",
            n => self.classes[n].as_str(),
        }
    }
}
