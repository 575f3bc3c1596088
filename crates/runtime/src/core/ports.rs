//! The ports, protocols and upstreams of an app, made ready for a core.
//!
//! In: the description of a program, and its settings. Out: the tables that the data path reads.

use super::piece_state::PieceHandler;
use super::types::Backend;
use crate::abi::*;
use crate::params::{PortSetting, Settings};
use crate::program::Unit;
use std::ops::Range;
use wireloom_ir::desc::{Desc, HandlerOn, Order, PortKind, PortOptions, ProtocolDesc, Sharing, UpstreamDesc};

/// The bytes of a message that hold the id by which answers are matched.
#[derive(Clone, Copy)]
pub struct IdField {
    pub width: usize,
    /// Its offsets in requests and in answers.
    pub request: usize,
    pub response: usize,
}

impl IdField {
    /// Its place in a request, if that is long enough.
    pub fn of_request(self, n: usize) -> Option<Range<usize>> {
        Some(self.request..self.request + self.width).filter(|r| r.end <= n)
    }

    /// Its place in an answer, if that is long enough.
    pub fn of_response(self, n: usize) -> Option<Range<usize>> {
        Some(self.response..self.response + self.width).filter(|r| r.end <= n)
    }
}

/// A protocol, made ready.
#[derive(Clone, Copy)]
pub struct Proto {
    pub request: Unit,
    pub response: Option<Unit>,
    pub exclusive: bool,
    /// Its connections to backends belong to clients' connections.
    pub session: bool,
    /// Nothing is sent to a server before its first message has come.
    pub server_first: bool,
    pub id: Option<IdField>,
    pub ctx: u64,
    /// In a drain its answers say that they are the last.
    pub tells_drain: bool,
    pub tells_idle: bool,
    pub tells_owed: bool,
    /// Whether the units of its messages, `up` and `down`, have parameters.
    pub args: [bool; 2],
    pub ignore: Ignore,
}

/// Bytes that are dropped in front of a request, and how often.
#[derive(Clone, Copy, Default)]
pub struct Ignore {
    bytes: [u8; wireloom_ir::Protocol::MOST_IGNORED as usize],
    n: u8,
    pub max: u8,
}

impl Ignore {
    fn of(p: &ProtocolDesc) -> Ignore {
        let Some((bytes, max)) = &p.ignore else { return Ignore::default() };
        let mut i = Ignore { max: *max, ..Ignore::default() };
        i.n = bytes.len().min(i.bytes.len()) as u8;
        i.bytes[..usize::from(i.n)].copy_from_slice(&bytes[..usize::from(i.n)]);
        i
    }

    /// How many of the bytes lie in front: all, a beginning that may become all, or none.
    pub fn in_front(&self, rest: &[u8]) -> Front {
        let bytes = &self.bytes[..usize::from(self.n)];
        match rest.len() {
            _ if bytes.is_empty() => Front::Other,
            _ if rest.starts_with(bytes) => Front::All(bytes.len()),
            0 => Front::Other,
            n if n < bytes.len() && bytes.starts_with(rest) => Front::Part,
            _ => Front::Other,
        }
    }
}

pub enum Front {
    All(usize),
    Part,
    Other,
}

pub const NO_HANDLER: u32 = u32::MAX;

/// An upstream, made ready: the backend connection that a client's session keeps.
pub struct UpstreamHandlers {
    pub port: u16,
    /// The place of its server's faults.
    pub place: u32,
    /// The handlers of its messages in each protocol of the port, of its opening and of its end.
    pub message: Vec<u32>,
    pub opened: Vec<u32>,
    pub closed: Vec<u32>,
    /// Of each protocol, the handler of its messages' pieces.
    pub pieces: Vec<Option<PieceHandler>>,
}

pub fn upstreams(desc: &Desc) -> Vec<UpstreamHandlers> {
    let all = |on: HandlerOn| -> Vec<u32> {
        desc.handlers.iter().enumerate().filter(|(_, h)| h.on == on).map(|(i, _)| i as u32).collect()
    };
    let protocols = |port: u32| desc.ports.get(port as usize).map_or(0, |p| p.protocols.len() as u32);
    let upstream = |(n, c): (usize, &UpstreamDesc)| {
        let upstream = n as u32;
        let message = |alternative| {
            let on = HandlerOn::Upstream { upstream, alternative };
            all(on).first().copied().unwrap_or(NO_HANDLER)
        };
        UpstreamHandlers {
            port: c.port as u16,
            place: c.place,
            message: (0..protocols(c.port)).map(message).collect(),
            opened: all(HandlerOn::UpstreamOpened { upstream }),
            closed: all(HandlerOn::UpstreamClosed { upstream }),
            pieces: PieceHandler::all(desc, c.port, Some(upstream)),
        }
    };
    desc.upstreams.iter().enumerate().map(upstream).collect()
}

pub struct Port {
    pub listen: bool,
    /// Its messages are datagrams.
    pub udp: bool,
    /// Protocol index of each alternative, and its handler.
    pub protos: Vec<u16>,
    pub handlers: Vec<u32>,
    /// Of each alternative, the handler of its messages' pieces.
    pub pieces: Vec<Option<PieceHandler>>,
    /// Listen: alternative by first byte; 255 = none.
    pub first: Box<[u8; 256]>,
    pub options: PortOptions,
    pub open: u32,
    /// Bytes of messages that are held until their bodies are complete.
    pub held: usize,
    /// Of these, how many are about to be turned away.
    pub turned_away: u32,
    /// Connections from other cores that came when all places were taken.
    pub surplus: u32,
    pub opened: Vec<u32>,
    pub greeting: Vec<u32>,
    /// The handler of its probe; none with `probe = false`.
    pub probe: Vec<u32>,
    /// The handler of the message that resets sessions.
    pub reset: Vec<u32>,
    /// That message, once it has been made.
    pub reset_message: Option<Box<[u8]>>,
    pub closed: Vec<u32>,
    /// By their places ([`ServerPlaces`]), and the place of each instance.
    pub backends: Vec<Backend>,
    pub places: Vec<u32>,
    /// The values that `wl_port` shows, by instance.
    pub load: Box<[u32]>,
    pub up: Box<[u8]>,
}

impl Port {
    #[inline]
    pub fn is_up(&self, place: usize) -> bool {
        self.backends[place].up
    }

    pub fn set_up(&mut self, place: usize, up: bool) {
        let b = &mut self.backends[place];
        b.up = up;
        if let Some(shown) = b.instance.and_then(|k| self.up.get_mut(k as usize)) {
            *shown = u8::from(up);
        }
    }

    /// A request or a conversation more, or less, goes to a server.
    #[inline]
    pub fn change_load(&mut self, place: usize, by: i32) {
        let b = &mut self.backends[place];
        b.load = b.load.saturating_add_signed(by);
        if let Some(shown) = b.instance.and_then(|k| self.load.get_mut(k as usize)) {
            *shown = b.load;
        }
    }

    /// The instance of a place; of one that is not in the list, the number of instances.
    pub fn instance(&self, place: usize) -> u32 {
        self.backends[place].instance.unwrap_or(self.places.len() as u32)
    }
}

impl Proto {
    pub fn of(p: &ProtocolDesc, units: &[Unit]) -> Proto {
        Proto {
            request: units[p.request as usize],
            response: p.response.map(|r| units[r as usize]),
            exclusive: p.sharing != Sharing::Pipelined,
            session: p.sharing == Sharing::Session,
            server_first: p.server_first,
            id: match p.order {
                Order::InOrder => None,
                Order::ById { request, response, width } => {
                    Some(IdField { width: width.into(), request: request as usize, response: response as usize })
                }
            },
            ctx: p.default_ctx,
            ignore: Ignore::of(p),
            tells_drain: p.tells_drain,
            tells_idle: p.tells_idle,
            tells_owed: p.tells_owed,
            args: p.args,
        }
    }
}

/// Port `i` of an app, with its settings.
pub fn port(app: &Desc, set: &PortSetting, i: usize) -> Port {
    let desc = &app.ports[i];
    let listen = matches!(desc.kind, PortKind::Listen(_));
    let mut first = Box::new([255u8; 256]);
    let mut handlers = Vec::new();
    for (alt, p) in desc.protocols.iter().enumerate().rev() {
        for byte in &app.protocols[*p as usize].first {
            first[*byte as usize] = alt as u8;
        }
    }
    if desc.protocols.len() == 1 {
        first.fill(0); // the parser itself reports the fault
    }
    for alt in 0..desc.protocols.len() as u32 {
        let on = HandlerOn::Message { port: i as u32, alternative: alt };
        let handler = app.handlers.iter().position(|h| h.on == on);
        handlers.push(handler.map_or(NO_HANDLER, |h| h as u32));
    }
    let of = |f: &dyn Fn(u32) -> HandlerOn| -> Vec<u32> {
        let wanted = f(i as u32);
        let hs = app.handlers.iter().enumerate();
        hs.filter(|(_, h)| h.on == wanted).map(|(j, _)| j as u32).collect()
    };
    let addrs = if listen { &[][..] } else { &set.addrs[..] };
    let instances = if matches!(desc.kind, PortKind::Frames { .. }) { set.names.len() } else { addrs.len() };
    Port {
        listen,
        udp: desc.udp,
        protos: desc.protocols.iter().map(|p| *p as u16).collect(),
        handlers,
        pieces: PieceHandler::all(app, i as u32, None),
        first,
        opened: of(&|port| HandlerOn::Opened { port }),
        greeting: of(&|port| HandlerOn::Greeting { port }),
        probe: if set.options.probe { of(&|port| HandlerOn::Probe { port }) } else { Vec::new() },
        reset: of(&|port| HandlerOn::Reset { port }),
        reset_message: None,
        closed: of(&|port| HandlerOn::Closed { port }),
        open: 0,
        held: 0,
        turned_away: 0,
        surplus: 0,
        backends: addrs.iter().zip(0..).map(|(a, i)| Backend::new(*a, Some(i), &set.options)).collect(),
        places: (0..addrs.len() as u32).collect(),
        load: vec![0; instances].into_boxed_slice(),
        up: vec![1; instances].into_boxed_slice(),
        options: set.options.clone(),
    }
}

/// The ports as handlers see them.
pub fn shown(ports: &[Port], settings: &Settings) -> Box<[wl_port]> {
    let ptr = |v: &Vec<u32>| if v.is_empty() { std::ptr::null() } else { v.as_ptr() };
    let each = ports.iter().zip(&settings.ports).map(|(p, set)| wl_port {
        n: p.load.len() as u32,
        _pad: 0,
        load: p.load.as_ptr(),
        up: p.up.as_ptr(),
        ring: ptr(&set.tables.ring.words),
        ring_n: set.tables.ring.points,
        maglev_n: set.tables.maglev.len() as u32,
        maglev: ptr(&set.tables.maglev),
        points: ptr(&set.tables.consistent),
        points_n: set.tables.consistent.len() as u32 / 2,
        _pad2: 0,
        server: if set.shown.is_empty() { std::ptr::null() } else { set.shown.as_ptr() },
    });
    each.collect()
}
