//! The kind of frames that a capture has, and how one is written.

use crate::packet::pool::FRAME_MAX;

/// Others that captures often have.
const LINKS: [(u32, &str); 7] = [
    (0, "BSD loopback"),
    (105, "802.11"),
    (108, "OpenBSD loopback"),
    (113, "Linux cooked, as of tcpdump -i any"),
    (127, "802.11 with radiotap"),
    (195, "802.15.4"),
    (276, "Linux cooked v2, as of tcpdump -i any"),
];

/// The first header of the frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkType {
    Ethernet,
    /// IPv4 or IPv6, told by the first four bits.
    Ip,
}

/// The message about an unsupported link type begins with this.
pub(super) const OTHER_LINK: &str = "link type ";

impl LinkType {
    /// By its number in a file.
    pub(super) fn of(number: u32) -> Result<LinkType, String> {
        match number & 0xffff {
            1 => Ok(LinkType::Ethernet),
            12 | 14 | 101 | 228 | 229 => Ok(LinkType::Ip),
            n => {
                let name = LINKS.iter().find(|l| l.0 == n).map_or(String::new(), |l| format!(" ({})", l.1));
                Err(format!("{OTHER_LINK}{n}{name} is not supported: only Ethernet (1) and raw IP (101, 228, 229)"))
            }
        }
    }
    pub(super) fn number(self) -> u16 {
        match self {
            LinkType::Ethernet => 1,
            LinkType::Ip => 101,
        }
    }
}

/// How a capture is written: as the first one that is read, so that unchanged frames are written
/// unchanged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Style {
    pub link: LinkType,
    pub nanos: bool,
    pub snap: u32,
}

impl Default for Style {
    fn default() -> Self {
        Style { link: LinkType::Ethernet, nanos: true, snap: FRAME_MAX as u32 }
    }
}
