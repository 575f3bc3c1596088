//! The options of ports, and one list, by which the language, the command line and the text form
//! name and set them.

use crate::sharing::Sharing;
use serde::{Deserialize, Serialize};

/// Limits and times of a port. Every one has a default and can be set in the program
/// (`port … { idle 60s }`), from a parameter or on the command line (`--set PORT.idle=60s`). Times
/// are in nanoseconds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct PortOptions {
    pub connect_timeout: u64,
    /// From a request's dispatch to the beginning of its answer. Of conversations: from a message
    /// that the server answers. 0: as long as it takes.
    pub answer_timeout: u64,
    /// Between two pieces of an answer that comes bit by bit.
    pub stream_timeout: u64,
    /// From a message's first byte to its head's last (slow client: `WL_F_IDLE`), and between bytes
    /// of a tail.
    pub read_timeout: u64,
    /// Connection without a message under way.
    pub idle_timeout: u64,
    /// A peer that takes no output.
    pub write_timeout: u64,
    /// Connections at once: accepted ones of a listen port; per backend and core of an exclusive
    /// connect port.
    pub max_connections: u32,
    /// Listen: how long a connection over `max_connections` waits in the accept queue before it is
    /// told `overload`.
    pub accept_timeout: u64,
    /// Listen: a client that ends its direction while it awaits answers is taken to have left.
    /// Connect: so is one whose next answer is to come from here.
    pub cancel: bool,
    /// Listen: how long the messages of one connection may use a core before others have their
    /// turn.
    pub slice: u64,
    /// Listen: most requests of one connection under way.
    pub max_outstanding: u32,
    /// Connect, pipelined: shared connections per backend and core.
    pub connections: u32,
    /// Connect, pipelined: requests share connections. If not, each has one to itself while it is
    /// under way.
    pub share: bool,
    /// Connect, exclusive: requests under way on a connection that those of `pipeline when` share;
    /// 1: none do. 0 (`auto`): what the runtime finds good for the backend.
    pub pipeline: u32,
    /// Connect, exclusive: which requests go out on idle connections.
    pub reuse: Reuse,
    /// Connect: whether a request that no backend has seen goes to another server when the one
    /// named cannot be reached.
    pub failover: Failover,
    /// Connect: failures in a row before a backend is ejected, and the time between two attempts to
    /// reach it then.
    pub eject_after: u32,
    pub eject_time: u64,
    /// Connect, conversations: most sessions of a pool, per backend, key and core. 0: no pools.
    pub pool: u32,
    /// How long a client waits for a session of its pool.
    pub pool_timeout: u64,
    /// Sessions of pools that are older are closed when they are idle. 0: they are not.
    pub pool_lifetime: u64,
    /// Of sockets over TCP: after so long without a byte the peer is asked whether it is there. 0:
    /// it is not.
    pub keepalive: u64,
    /// Connect: a backend that is down is sent the protocol's probe.
    pub probe: bool,
    /// Streams of a merge: the byte behind the last message, without which a stream is not whole.
    /// 0: the end of the connection is the end of the stream.
    pub end_mark: u8,
    /// Listen, UDP: most bytes of the answer to one datagram. A longer answer is not sent.
    pub max_answer: u32,
    /// Listen, conversations: bytes of output beyond which a client gets no messages that are sent
    /// to its handle.
    pub max_queued: u32,
    /// Frame ports: a frame may be a segment beyond the MTU (GSO), and checksums may be left to the
    /// kernel.
    pub offload: bool,
    /// Streamed bytes of a message up to so many are held, so that the program reads them as one.
    pub hold_body: u32,
    /// Bytes that the messages which are held may take together, on each core.
    pub hold_memory: u32,
}

impl PortOptions {
    /// The defaults of a port over UDP, where a lost datagram is told by nothing but time.
    pub fn udp() -> PortOptions {
        PortOptions { answer_timeout: 5_000_000_000, ..PortOptions::default() }
    }

    /// The defaults of a conversation's port. A statement may take hours there, so a server has a
    /// time for its answer only if the program or the command line says so.
    pub fn conversation() -> PortOptions {
        PortOptions { answer_timeout: 0, ..PortOptions::default() }
    }
}

impl PortOptions {
    /// The time that the server of a pool has to reset a session.
    pub fn reset_timeout(&self) -> u64 {
        match self.answer_timeout {
            0 => 60_000_000_000,
            span => span,
        }
    }
}

/// Whose requests share idle connections (as `http-reuse` of HAProxy).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Reuse {
    /// All but the first request of a client's connection that may not be sent twice.
    #[default]
    Safe,
    /// Each client's connection has backend connections of its own.
    Never,
    /// All.
    Always,
}

impl Reuse {
    pub const NAMES: &'static [(Reuse, &'static str)] =
        &[(Reuse::Safe, "safe"), (Reuse::Never, "never"), (Reuse::Always, "always")];
}

/// The fate of a request whose server is down or cannot be reached.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Failover {
    /// It fails.
    #[default]
    None,
    /// It goes to the next server of the port that is up.
    Next,
}

impl Failover {
    pub const NAMES: &'static [(Failover, &'static str)] = &[(Failover::None, "none"), (Failover::Next, "next")];
}

impl Default for PortOptions {
    fn default() -> Self {
        const S: u64 = 1_000_000_000;
        PortOptions {
            connect_timeout: 2 * S,
            answer_timeout: 60 * S,
            stream_timeout: 300 * S,
            read_timeout: 30 * S,
            idle_timeout: 300 * S,
            write_timeout: 60 * S,
            max_connections: 65_536,
            max_outstanding: 128,
            connections: 1,
            share: true,
            pipeline: 1,
            reuse: Reuse::Safe,
            failover: Failover::None,
            eject_after: 3,
            eject_time: S,
            probe: true,
            pool: 0,
            pool_timeout: 10 * S,
            pool_lifetime: 0,
            keepalive: 60 * S,
            end_mark: 0,
            offload: false,
            hold_body: 0,
            hold_memory: 64 << 20,
            max_answer: 4096,
            max_queued: 1 << 20,
            accept_timeout: S,
            cancel: false,
            slice: 50_000,
        }
    }
}

/// The full names of all options, in the order of docs/operations.md.
pub const NAMES: [&str; 30] = [
    "connect_timeout",
    "answer_timeout",
    "stream_timeout",
    "call_timeout",
    "accept_timeout",
    "cancel",
    "slice",
    "read_timeout",
    "idle_timeout",
    "write_timeout",
    "max_connections",
    "max_outstanding",
    "connections",
    "share",
    "pipeline",
    "reuse",
    "failover",
    "eject_after",
    "eject_time",
    "probe",
    "pool",
    "pool_timeout",
    "pool_lifetime",
    "keepalive",
    "end_mark",
    "max_answer",
    "max_queued",
    "offload",
    "hold_body",
    "hold_memory",
];

/// The most streamed bytes of a message that are held.
pub const HOLD_MAX: u32 = 16 << 20;

/// The name that sets two others.
pub const BOTH: &str = "call_timeout";

/// Names in short, and the options that they name.
pub const SHORT: [(&str, &str); 6] = [
    ("connect", "connect_timeout"),
    ("call", BOTH),
    ("timeout", BOTH),
    ("read", "read_timeout"),
    ("idle", "idle_timeout"),
    ("write", "write_timeout"),
];

/// The name in full of an option.
pub fn in_full(name: &str) -> &str {
    SHORT.iter().find(|s| s.0 == name).map_or(name, |s| s.1)
}

/// Timers of connections are no finer, in nanoseconds.
pub const TICK: u64 = 1_000_000;

/// Whether an option has an effect on ports that listen, or on ports that connect.
pub fn applies(name: &str, listen: bool) -> bool {
    match in_full(name) {
        "accept_timeout" | "slice" | "read_timeout" | "max_outstanding" | "max_answer" | "max_queued" => listen,
        "connect_timeout" | "answer_timeout" | "stream_timeout" | "call_timeout" | "connections" | "share"
        | "pipeline" | "reuse" | "failover" | "eject_after" | "eject_time" | "probe" | "pool" | "pool_timeout"
        | "pool_lifetime" => !listen,
        _ => true,
    }
}

/// The traits of a port over TCP or UDP that decide which options have an effect there.
#[derive(Clone, Copy, Debug)]
pub struct Traits<'p> {
    pub udp: bool,
    /// Of each of its protocols.
    pub sharing: &'p [Sharing],
    /// One of its protocols says what a server is sent while it is down.
    pub probes: bool,
    /// A merge reads it or sends to it.
    pub merges: bool,
}

/// The ports that an option is for, if it would have no effect at this one.
pub fn only_for(name: &str, port: Traits) -> Option<&'static str> {
    let has = |sharing| port.sharing.contains(&sharing);
    let exclusive = has(Sharing::Exclusive) && !port.udp;
    match in_full(name) {
        "max_answer" if !port.udp => Some("ports over UDP"),
        "connect_timeout" | "accept_timeout" | "read_timeout" | "stream_timeout" | "write_timeout" | "cancel"
        | "keepalive" | "share"
            if port.udp =>
        {
            Some("ports over TCP")
        }
        "max_queued" | "pool" | "pool_timeout" | "pool_lifetime" if !has(Sharing::Session) => {
            Some("ports of conversations")
        }
        "max_outstanding" | "connections" | "share" if !has(Sharing::Pipelined) => {
            Some("protocols with `sharing pipelined`")
        }
        "pipeline" | "reuse" if !exclusive => Some("protocols with `sharing exclusive`, over TCP"),
        "probe" if !port.probes => Some("protocols with `on probe`"),
        "end_mark" if !port.merges => Some("ports of a merge"),
        "offload" => Some("ports of frames"),
        _ => None,
    }
}

/// Whether an option is about sessions in pools.
pub fn of_pools(name: &str) -> bool {
    matches!(in_full(name), "pool" | "pool_timeout" | "pool_lifetime")
}

/// Whether an option may change while the port is open.
pub fn is_live(name: &str) -> bool {
    // `keepalive` is set where a socket is made. The next three decide about memory and handlers at
    // the start. The others are of UDP, of frame ports, of merge nodes.
    !matches!(name, "keepalive" | "connections" | "probe" | "hold_body" | "max_answer" | "offload" | "end_mark")
}

/// The ports for which an option is whose name [`applies`] to one kind only.
pub fn where_it_applies(name: &str) -> &'static str {
    if applies(name, true) {
        "ports that listen"
    } else {
        "ports that connect"
    }
}

/// An option's place, and its possible values.
#[derive(Debug)]
pub enum Slot<'o> {
    /// Nanoseconds, at least so many.
    Time(&'o mut u64, u64),
    /// Two that are set to the same time, at least [`TICK`].
    Times([&'o mut u64; 2]),
    /// A number in a range, its ends included.
    Count(&'o mut u32, std::ops::RangeInclusive<u32>),
    /// The same from 1 on, or `auto`, which is 0.
    Auto(&'o mut u32, u32),
    Switch(&'o mut bool),
    Byte(&'o mut u8),
    Reuse(&'o mut Reuse),
    Failover(&'o mut Failover),
}

/// The place of the option of this name, which may be one of the short ones.
pub fn slot<'o>(o: &'o mut PortOptions, name: &str) -> Option<Slot<'o>> {
    const ALL: std::ops::RangeInclusive<u32> = 1..=u32::MAX;
    Some(match in_full(name) {
        "connect_timeout" => Slot::Time(&mut o.connect_timeout, TICK),
        "answer_timeout" => Slot::Time(&mut o.answer_timeout, TICK),
        "stream_timeout" => Slot::Time(&mut o.stream_timeout, TICK),
        "call_timeout" => Slot::Times([&mut o.answer_timeout, &mut o.stream_timeout]),
        "accept_timeout" => Slot::Time(&mut o.accept_timeout, TICK),
        "cancel" => Slot::Switch(&mut o.cancel),
        "slice" => Slot::Time(&mut o.slice, 1_000),
        "read_timeout" => Slot::Time(&mut o.read_timeout, TICK),
        "idle_timeout" => Slot::Time(&mut o.idle_timeout, TICK),
        "write_timeout" => Slot::Time(&mut o.write_timeout, TICK),
        "max_connections" => Slot::Count(&mut o.max_connections, ALL),
        "max_outstanding" => Slot::Count(&mut o.max_outstanding, ALL),
        "connections" => Slot::Count(&mut o.connections, 1..=1024),
        "share" => Slot::Switch(&mut o.share),
        "pipeline" => Slot::Auto(&mut o.pipeline, 1024),
        "reuse" => Slot::Reuse(&mut o.reuse),
        "failover" => Slot::Failover(&mut o.failover),
        "eject_after" => Slot::Count(&mut o.eject_after, 0..=u32::MAX),
        "eject_time" => Slot::Time(&mut o.eject_time, TICK),
        "probe" => Slot::Switch(&mut o.probe),
        "pool" => Slot::Count(&mut o.pool, 0..=65_536),
        "pool_timeout" => Slot::Time(&mut o.pool_timeout, TICK),
        "pool_lifetime" => Slot::Time(&mut o.pool_lifetime, 0),
        "keepalive" => Slot::Time(&mut o.keepalive, 0),
        "end_mark" => Slot::Byte(&mut o.end_mark),
        "max_answer" => Slot::Count(&mut o.max_answer, 1..=65_507),
        "max_queued" => Slot::Count(&mut o.max_queued, 1024..=u32::MAX),
        "offload" => Slot::Switch(&mut o.offload),
        "hold_body" => Slot::Count(&mut o.hold_body, 0..=HOLD_MAX),
        "hold_memory" => Slot::Count(&mut o.hold_memory, ALL),
        _ => return None,
    })
}

/// Sets an option as another port has it.
pub fn copy(name: &str, from: &PortOptions, to: &mut PortOptions) {
    let from = &mut from.clone();
    match (slot(to, name), slot(from, name)) {
        (Some(Slot::Time(a, _)), Some(Slot::Time(b, _))) => *a = *b,
        (Some(Slot::Times(a)), Some(Slot::Times(b))) => a.into_iter().zip(b).for_each(|(a, b)| *a = *b),
        (Some(Slot::Count(a, _)), Some(Slot::Count(b, _))) | (Some(Slot::Auto(a, _)), Some(Slot::Auto(b, _))) => {
            *a = *b
        }
        (Some(Slot::Switch(a)), Some(Slot::Switch(b))) => *a = *b,
        (Some(Slot::Byte(a)), Some(Slot::Byte(b))) => *a = *b,
        (Some(Slot::Reuse(a)), Some(Slot::Reuse(b))) => *a = *b,
        (Some(Slot::Failover(a)), Some(Slot::Failover(b))) => *a = *b,
        _ => {}
    }
}

/// The word of a value that is one of some.
pub fn word_of<T: Copy + PartialEq>(names: &'static [(T, &'static str)], value: T) -> &'static str {
    names.iter().find(|(v, _)| *v == value).map_or("", |(_, n)| n)
}

/// Each option with its value, as the text form has it; options that are set together as one are
/// left out.
pub fn texts(o: &PortOptions) -> impl Iterator<Item = (&'static str, String)> {
    let mut o = o.clone();
    NAMES.into_iter().filter_map(move |name| {
        let text = match slot(&mut o, name)? {
            Slot::Time(n, _) => n.to_string(),
            Slot::Times(_) => return None,
            Slot::Count(n, _) | Slot::Auto(n, _) => n.to_string(),
            Slot::Switch(on) => u8::from(*on).to_string(),
            Slot::Byte(b) => b.to_string(),
            Slot::Reuse(r) => word_of(Reuse::NAMES, *r).into(),
            Slot::Failover(f) => word_of(Failover::NAMES, *f).into(),
        };
        Some((name, text))
    })
}
