//! Blocks of a pcapng file: section headers, interfaces and frames; the others are skipped.

use super::super::pool::FRAME_MAX;
use super::link::LinkType;
use super::record::{u16_at, u32_at, Next};

const SECTION: u32 = 0x0a0d_0d0a;
const INTERFACE: u32 = 1;
/// The obsolete packet block.
const OLD_PACKET: u32 = 2;
const SIMPLE: u32 = 3;
const PACKET: u32 = 6;
const INTERFACES_MAX: usize = 65_536;
const OPTION_RESOLUTION: u16 = 9;
const OPTION_OFFSET: u16 = 14;
/// Later times (from the year 2262 on) are reduced to this one. A sum with a time must not wrap,
/// and the largest number means that there is no time.
const LATEST: u64 = i64::MAX as u64;

/// How an interface counts time.
#[derive(Clone, Copy, Debug)]
struct Interface {
    /// The number of its link type, which may be unsupported: dumpcap describes interfaces that
    /// have no frame.
    link: u32,
    snap: u32,
    /// Ticks times `factor`, divided by `divisor`, are nanoseconds.
    factor: u64,
    divisor: u128,
    /// Added to the times, in seconds.
    offset: i64,
}

/// The state of the current section.
#[derive(Default)]
pub struct Section {
    big: bool,
    interfaces: Vec<Interface>,
    /// Of all frames of the file.
    link: Option<LinkType>,
    /// Of the last frame: simple packets have no time.
    time: u64,
}

impl Section {
    /// Kind and length of the block that begins here; 12 bytes are there.
    pub fn block(&mut self, h: &[u8]) -> Result<(u32, usize), String> {
        let kind = u32_at(h, 0, self.big);
        // The same in both orders; the byte order is that of the word behind the length.
        if kind == SECTION {
            self.big = match u32_at(h, 8, false) {
                0x1a2b_3c4d => false,
                0x4d3c_2b1a => true,
                x => return Err(format!("a section with the byte order mark {x:08x}")),
            };
        }
        let length = u32_at(h, 4, self.big) as usize;
        if length < 12 || !length.is_multiple_of(4) {
            return Err(format!("a block of {length} bytes"));
        }
        Ok((kind, length))
    }

    /// The link type of the frames. Without a frame so far it is that of the first supported
    /// interface.
    pub fn link(&self) -> Option<LinkType> {
        self.link.or_else(|| self.interfaces.iter().find_map(|i| LinkType::of(i.link).ok()))
    }

    /// Whether a block of this kind is parsed.
    pub fn needs_all(kind: u32) -> bool {
        matches!(kind, SECTION | INTERFACE | OLD_PACKET | SIMPLE | PACKET)
    }

    /// Takes note of a whole block; a frame if it holds one.
    pub fn take(&mut self, kind: u32, b: &[u8]) -> Result<Option<Next>, String> {
        let n = b.len();
        if u32_at(b, n - 4, self.big) as usize != n {
            return Err("a block whose two lengths differ".into());
        }
        let least = match kind {
            SECTION => 28,
            INTERFACE => 20,
            SIMPLE => 16,
            _ => 32,
        };
        if n < least {
            return Err(format!("a block of {n} bytes, which needs {least}"));
        }
        match kind {
            SECTION => {
                self.interfaces.clear();
                let major = u16_at(b, 12, self.big);
                if major == 1 {
                    Ok(None)
                } else {
                    Err(format!("version {major} of the pcapng format is not known"))
                }
            }
            INTERFACE => self.interface(b).map(|()| None),
            SIMPLE => self.simple(b).map(Some),
            PACKET => self.packet(b, u32_at(b, 8, self.big) as usize).map(Some),
            _ => self.packet(b, usize::from(u16_at(b, 8, self.big))).map(Some),
        }
    }

    fn interface(&mut self, b: &[u8]) -> Result<(), String> {
        if self.interfaces.len() == INTERFACES_MAX {
            return Err(format!("more than {INTERFACES_MAX} interfaces"));
        }
        let mut i = Interface {
            link: u16_at(b, 8, self.big).into(),
            snap: u32_at(b, 12, self.big),
            factor: 1000,
            divisor: 1,
            offset: 0,
        };
        let mut rest = &b[16..b.len() - 4];
        while rest.len() >= 4 {
            let (code, n) = (u16_at(rest, 0, self.big), usize::from(u16_at(rest, 2, self.big)));
            let Some(value) = rest.get(4..4 + n) else { return Err("an option that is longer than its block".into()) };
            match (code, n) {
                (0, _) => break,
                (OPTION_RESOLUTION, 1) => (i.factor, i.divisor) = resolution(value[0])?,
                (OPTION_OFFSET, 8) => i.offset = offset(value, self.big),
                _ => {}
            }
            rest = rest.get(4 + n.next_multiple_of(4)..).unwrap_or_default();
        }
        self.interfaces.push(i);
        Ok(())
    }

    fn packet(&mut self, b: &[u8], interface: usize) -> Result<Next, String> {
        let Some(&i) = self.interfaces.get(interface) else {
            return Err(format!("a frame of interface {interface}, which is not described"));
        };
        self.frame_of(i)?;
        let ticks = u64::from(u32_at(b, 12, self.big)) << 32 | u64::from(u32_at(b, 16, self.big));
        let (n, wire) = (u32_at(b, 20, self.big) as usize, u32_at(b, 24, self.big));
        if n > b.len() - 32 || n > FRAME_MAX {
            return Err(format!("a frame of {n} bytes in a block of {}", b.len()));
        }
        self.time = i.time(ticks);
        Ok(Next::new(self.time, wire, 28, n, b.len()))
    }

    /// Frames of all interfaces begin alike.
    fn frame_of(&mut self, i: Interface) -> Result<(), String> {
        let link = LinkType::of(i.link)?;
        if *self.link.get_or_insert(link) == link {
            Ok(())
        } else {
            Err("some frames begin with Ethernet, others with IP".into())
        }
    }

    fn simple(&mut self, b: &[u8]) -> Result<Next, String> {
        let Some(&i) = self.interfaces.first() else { return Err("a frame before its interface is described".into()) };
        self.frame_of(i)?;
        let wire = u32_at(b, 8, self.big);
        let snap = if i.snap == 0 { u32::MAX } else { i.snap };
        let n = (wire.min(snap) as usize).min(b.len() - 16).min(FRAME_MAX);
        Ok(Next::new(self.time, wire, 12, n, b.len()))
    }
}

impl Interface {
    fn time(&self, ticks: u64) -> u64 {
        let plain = match self.divisor {
            1 => ticks.saturating_mul(self.factor),
            d => (u128::from(ticks) * u128::from(self.factor) / d).min(u128::from(u64::MAX)) as u64,
        };
        let shift = self.offset.unsigned_abs().saturating_mul(1_000_000_000);
        let time = if self.offset < 0 { plain.saturating_sub(shift) } else { plain.saturating_add(shift) };
        time.min(LATEST)
    }
}

/// `if_tsresol`: a power of ten or, with the high bit set, of two.
fn resolution(code: u8) -> Result<(u64, u128), String> {
    let n = u32::from(code & 0x7f);
    match (code & 0x80 != 0, n) {
        (false, 0..=9) => Ok((10u64.pow(9 - n), 1)),
        (false, 10..=36) => Ok((1, 10u128.pow(n - 9))),
        (true, 0..=63) => Ok((1_000_000_000, 1u128 << n)),
        _ => Err(format!("a time resolution of {code:#04x}")),
    }
}

fn offset(value: &[u8], big: bool) -> i64 {
    let mut b = [0; 8];
    b.copy_from_slice(value);
    if big {
        i64::from_be_bytes(b)
    } else {
        i64::from_le_bytes(b)
    }
}
