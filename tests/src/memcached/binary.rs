//! Packets of memcached's binary protocol.

use crate::client::Client;

pub mod op {
    pub const GET: u8 = 0x00;
    pub const SET: u8 = 0x01;
    pub const ADD: u8 = 0x02;
    pub const REPLACE: u8 = 0x03;
    pub const DELETE: u8 = 0x04;
    pub const INCREMENT: u8 = 0x05;
    pub const DECREMENT: u8 = 0x06;
    pub const QUIT: u8 = 0x07;
    pub const FLUSH: u8 = 0x08;
    pub const GETQ: u8 = 0x09;
    pub const NOOP: u8 = 0x0a;
    pub const VERSION: u8 = 0x0b;
    pub const GETK: u8 = 0x0c;
    pub const GETKQ: u8 = 0x0d;
    pub const APPEND: u8 = 0x0e;
    pub const PREPEND: u8 = 0x0f;
    pub const STAT: u8 = 0x10;
    pub const SETQ: u8 = 0x11;
    pub const ADDQ: u8 = 0x12;
    pub const REPLACEQ: u8 = 0x13;
    pub const DELETEQ: u8 = 0x14;
    pub const INCREMENTQ: u8 = 0x15;
    pub const DECREMENTQ: u8 = 0x16;
    pub const QUITQ: u8 = 0x17;
    pub const FLUSHQ: u8 = 0x18;
    pub const APPENDQ: u8 = 0x19;
    pub const PREPENDQ: u8 = 0x1a;
    pub const VERBOSITY: u8 = 0x1b;
    pub const TOUCH: u8 = 0x1c;
    pub const GAT: u8 = 0x1d;
    pub const GATQ: u8 = 0x1e;
    pub const GATK: u8 = 0x23;
    pub const GATKQ: u8 = 0x24;
}

pub mod status {
    pub const OK: u16 = 0;
    pub const NOT_FOUND: u16 = 1;
    pub const EXISTS: u16 = 2;
    pub const TOO_LARGE: u16 = 3;
    pub const INVALID: u16 = 4;
    pub const NOT_STORED: u16 = 5;
    pub const NOT_NUMERIC: u16 = 6;
    pub const UNKNOWN_COMMAND: u16 = 0x81;
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Packet {
    pub magic: u8,
    pub opcode: u8,
    pub status: u16,
    pub opaque: u32,
    pub cas: u64,
    pub extras: Vec<u8>,
    pub key: Vec<u8>,
    pub value: Vec<u8>,
}

impl Packet {
    pub fn request(opcode: u8, key: &str) -> Packet {
        Packet { magic: 0x80, opcode, key: key.into(), ..Packet::default() }
    }

    /// set, add, replace and their quiet forms.
    pub fn store(opcode: u8, key: &str, value: &[u8]) -> Packet {
        Packet {
            extras: [7u32.to_be_bytes(), 0u32.to_be_bytes()].concat(),
            value: value.into(),
            ..Packet::request(opcode, key)
        }
    }

    /// append, prepend: no extras.
    pub fn join(opcode: u8, key: &str, value: &[u8]) -> Packet {
        Packet { value: value.into(), ..Packet::request(opcode, key) }
    }

    /// increment, decrement.
    pub fn change(opcode: u8, key: &str, by: u64, initial: u64) -> Packet {
        let extras = [&by.to_be_bytes()[..], &initial.to_be_bytes(), &0u32.to_be_bytes()].concat();
        Packet { extras, ..Packet::request(opcode, key) }
    }

    /// touch, gat.
    pub fn touch(opcode: u8, key: &str, expires: u32) -> Packet {
        Packet { extras: expires.to_be_bytes().to_vec(), ..Packet::request(opcode, key) }
    }

    pub fn opaque(self, opaque: u32) -> Packet {
        Packet { opaque, ..self }
    }

    pub fn cas(self, cas: u64) -> Packet {
        Packet { cas, ..self }
    }

    pub fn bytes(&self) -> Vec<u8> {
        let body = self.extras.len() + self.key.len() + self.value.len();
        let mut b = vec![self.magic, self.opcode];
        b.extend((self.key.len() as u16).to_be_bytes());
        b.extend([self.extras.len() as u8, 0]);
        b.extend(self.status.to_be_bytes());
        b.extend((body as u32).to_be_bytes());
        b.extend(self.opaque.to_be_bytes());
        b.extend(self.cas.to_be_bytes());
        [b, self.extras.clone(), self.key.clone(), self.value.clone()].concat()
    }

    /// Takes one packet off the connection.
    pub fn take(client: &mut Client) -> Packet {
        let h = client.take(24);
        let u16_at = |i: usize| u16::from_be_bytes([h[i], h[i + 1]]);
        let u32_at = |i: usize| u32::from_be_bytes([h[i], h[i + 1], h[i + 2], h[i + 3]]);
        let (key, extras, body) = (usize::from(u16_at(2)), usize::from(h[4]), u32_at(8) as usize);
        assert!(h[0] == 0x81, "a response's magic, not {:#x}", h[0]);
        assert!(key + extras <= body, "lengths agree: key {key}, extras {extras}, body {body}");
        let b = client.take(body);
        Packet {
            magic: h[0],
            opcode: h[1],
            status: u16_at(6),
            opaque: u32_at(12),
            cas: (u64::from(u32_at(16)) << 32) | u64::from(u32_at(20)),
            extras: b[..extras].to_vec(),
            key: b[extras..extras + key].to_vec(),
            value: b[extras + key..].to_vec(),
        }
    }
}

impl Client {
    /// Sends one packet and takes one.
    pub fn ask(&mut self, packet: &Packet) -> Packet {
        self.send(packet.bytes());
        Packet::take(self)
    }

    /// A noop; its answer must be the very next packet.
    pub fn in_step(&mut self) {
        let answer = self.ask(&Packet::request(op::NOOP, "").opaque(0x5eed));
        assert_eq!(
            (answer.opcode, answer.status, answer.opaque),
            (op::NOOP, 0, 0x5eed),
            "a noop's answer follows: {answer:?}"
        );
    }
}
