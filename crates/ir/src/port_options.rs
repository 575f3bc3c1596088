//! The options of ports: one list, by which the language, the command line and the text form name
//! and set them.

use crate::desc::{Failover, PortOptions, Reuse};

/// Their full names, in the order of docs/operations.md.
pub const NAMES: [&str; 29] = [
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

/// Timers of connections are no finer, in nanoseconds.
pub const TICK: u64 = 1_000_000;

/// Whether an option has an effect on ports that listen, or on ports that connect.
pub fn applies(name: &str, listen: bool) -> bool {
    match name {
        "accept_timeout" | "cancel" | "slice" | "read_timeout" | "read" | "max_outstanding" | "max_answer"
        | "max_queued" => listen,
        "connect_timeout" | "connect" | "answer_timeout" | "stream_timeout" | "call_timeout" | "call" | "timeout"
        | "connections" | "pipeline" | "reuse" | "failover" | "eject_after" | "eject_time" | "probe" | "pool"
        | "pool_timeout" | "pool_lifetime" => !listen,
        _ => true,
    }
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
    Some(match name {
        "connect_timeout" | "connect" => Slot::Time(&mut o.connect_timeout, TICK),
        "answer_timeout" => Slot::Time(&mut o.answer_timeout, TICK),
        "stream_timeout" => Slot::Time(&mut o.stream_timeout, TICK),
        "call_timeout" | "call" | "timeout" => Slot::Times([&mut o.answer_timeout, &mut o.stream_timeout]),
        "accept_timeout" => Slot::Time(&mut o.accept_timeout, TICK),
        "cancel" => Slot::Switch(&mut o.cancel),
        "slice" => Slot::Time(&mut o.slice, 1_000),
        "read_timeout" | "read" => Slot::Time(&mut o.read_timeout, TICK),
        "idle_timeout" | "idle" => Slot::Time(&mut o.idle_timeout, TICK),
        "write_timeout" | "write" => Slot::Time(&mut o.write_timeout, TICK),
        "max_connections" => Slot::Count(&mut o.max_connections, ALL),
        "max_outstanding" => Slot::Count(&mut o.max_outstanding, ALL),
        "connections" => Slot::Count(&mut o.connections, 1..=1024),
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
