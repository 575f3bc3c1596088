//! Interfaces through AF_PACKET. Frames are received from a TPACKET_V3 ring that the kernel fills
//! block by block. Many frames are sent per system call.
//!
//! The engine restores parts that the kernel has taken out of a frame: the VLAN tag, and checksums
//! that were left to hardware. Segments larger than a frame (of senders on this machine, or joined
//! by the kernel) are cut into frames again. With several cores each has a socket of its own, and
//! the kernel deals the flows out among them.

use super::batch::{Batch, BATCH};
use super::offload::{Large, OffloadHeader, HEADER};
use super::pool::Pool;
use super::port::{FramePort, Sent};
use super::socket::Messages;
use crate::abi::wl_frame;
use crate::clock;
use crate::engine::common;
use std::ffi::CString;
use std::io;
use std::mem::size_of;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicU32, Ordering};

const BLOCK: usize = 256 << 10;
const BLOCKS: usize = 32;
/// A block that is not full is handed over after this long.
const RETIRE_MS: u32 = 1;
/// Bytes that may wait to be sent where segments are sent whole.
const SEND_ROOM: i32 = 8 << 20;
/// The interval of reading the kernel's drops.
const ASK_NS: u64 = 100_000_000;

// linux/if_packet.h; the libc crate lacks them.
const PACKET_IGNORE_OUTGOING: i32 = 23;
const PACKET_QDISC_BYPASS: i32 = 20;
const PACKET_VNET_HDR: i32 = 15;

/// The kernel's ring of blocks.
struct PacketRing {
    base: *mut u8,
    /// The current block, the frames left in it, and the next one's offset in it.
    block: usize,
    left: u32,
    next: u32,
    /// The rest of a large segment, and the count of segments whose end did not fit into a block.
    large: Large,
    cut: u64,
    /// Checksums and segments stay as they come.
    offload: bool,
}

// SAFETY: the mapping belongs to this value alone.
unsafe impl Send for PacketRing {}

impl Drop for PacketRing {
    fn drop(&mut self) {
        // SAFETY: the mapping made in `open`.
        unsafe { libc::munmap(self.base.cast(), BLOCK * BLOCKS) };
    }
}

pub struct AfPacket {
    ring: Option<PacketRing>,
    /// The ring's socket; one that only sends is its own.
    fd: OwnedFd,
    /// Sends: the ring's socket would want a header before each frame.
    sender: Option<OwnedFd>,
    messages: Messages,
    offload: bool,
    /// When the kernel's drops are read next.
    ask_at: u64,
    lost: u64,
}

/// The error for a missing interface, with a similar name.
fn missing(name: &str) -> String {
    let list = std::fs::read_dir("/sys/class/net").into_iter().flatten().flatten();
    let mut there: Vec<String> = list.filter_map(|e| e.file_name().into_string().ok()).collect();
    there.sort();
    let hint = wireloom_ir::suggestions::lead(name, there.iter().map(String::as_str));
    format!("there is no interface `{name}`{hint} there are: {}", there.join(", "))
}

/// The index of an interface.
pub fn index_of(name: &str) -> Result<u32, String> {
    let c = CString::new(name).map_err(|_| format!("`{name}` is no name of an interface"))?;
    // SAFETY: a C string.
    match unsafe { libc::if_nametoindex(c.as_ptr()) } {
        0 => Err(missing(name)),
        i => Ok(i),
    }
}

fn set<T>(fd: &OwnedFd, option: i32, value: &T) -> io::Result<()> {
    let at = (value as *const T).cast();
    // SAFETY: the value lives here and has the size given.
    common::check(unsafe { libc::setsockopt(fd.as_raw_fd(), libc::SOL_PACKET, option, at, size_of::<T>() as u32) })
        .map(drop)
}

impl AfPacket {
    /// `group`: sockets of one group share the frames, a flow always to the same one. `offload`:
    /// checksums and the cut of segments are left to the kernel, in both directions.
    pub fn open(name: &str, receives: bool, group: Option<u16>, offload: bool) -> Result<AfPacket, String> {
        let index = index_of(name)?;
        let fail = |e: io::Error| {
            match e.raw_os_error() {
            Some(libc::EPERM | libc::EACCES) => format!("no permission for `{name}`: AF_PACKET needs CAP_NET_RAW; run as root, or give the executable the right: `sudo setcap cap_net_raw,cap_net_admin,cap_bpf+ep FILE`"),
            _ => format!("cannot open `{name}` by AF_PACKET: {e}"),
        }
        };
        let sender = socket().map_err(fail)?;
        // Refused by old kernels, and only faster.
        let _ = set(&sender, PACKET_QDISC_BYPASS, &1i32);
        if offload {
            set(&sender, PACKET_VNET_HDR, &1i32).map_err(fail)?;
            // The usual room holds three segments. More needs a right that is not needed otherwise.
            let _ = common::set_option(sender.as_raw_fd(), libc::SOL_SOCKET, libc::SO_SNDBUFFORCE, SEND_ROOM);
        }
        bind(&sender, index, 0).map_err(fail)?;
        if !receives {
            return Ok(AfPacket {
                ring: None,
                fd: sender,
                sender: None,
                offload,
                messages: Messages::new(format!("afpacket:{name}")),
                ask_at: 0,
                lost: 0,
            });
        }
        let fd = socket().map_err(fail)?;
        let mut ring = ring(&fd, index).map_err(fail)?;
        ring.offload = offload;
        let ring = Some(ring);
        bind(&fd, index, libc::ETH_P_ALL as u16).map_err(fail)?;
        if let Some(group) = group {
            let hash = u32::from(group) | libc::PACKET_FANOUT_HASH << 16;
            set(&fd, libc::PACKET_FANOUT, &hash).map_err(fail)?;
        }
        Ok(AfPacket {
            ring,
            fd,
            sender: Some(sender),
            offload,
            messages: Messages::new(format!("afpacket:{name}")),
            ask_at: 0,
            lost: 0,
        })
    }
}

impl AfPacket {
    /// Reads how many frames the kernel has dropped, if the interval is over, or `now`.
    fn ask_lost(&mut self, now: bool) {
        let time = clock::now();
        if time < self.ask_at && !now || self.ring.is_none() {
            return;
        }
        self.ask_at = time + ASK_NS;
        let mut s = [0u32; 3];
        let mut size = size_of::<[u32; 3]>() as libc::socklen_t;
        // SAFETY: three words, as the kernel gives for this version of the ring.
        let r = unsafe {
            libc::getsockopt(
                self.fd.as_raw_fd(),
                libc::SOL_PACKET,
                libc::PACKET_STATISTICS,
                s.as_mut_ptr().cast(),
                &mut size,
            )
        };
        self.lost += if r == 0 { u64::from(s[1]) } else { 0 };
    }
}

fn socket() -> io::Result<OwnedFd> {
    // SAFETY: a plain system call; the descriptor is new.
    unsafe {
        Ok(OwnedFd::from_raw_fd(common::check(libc::socket(libc::AF_PACKET, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0))?))
    }
}

/// To an interface; frames of this kind are received, none if it is 0.
fn bind(fd: &OwnedFd, index: u32, kind: u16) -> io::Result<()> {
    // SAFETY: a plain struct of numbers.
    let mut at: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
    at.sll_family = libc::AF_PACKET as u16;
    at.sll_protocol = kind.to_be();
    at.sll_ifindex = index as i32;
    let size = size_of::<libc::sockaddr_ll>() as u32;
    // SAFETY: the address lives here.
    common::check(unsafe { libc::bind(fd.as_raw_fd(), (&at as *const libc::sockaddr_ll).cast(), size) }).map(drop)
}

/// Has the interface take in all frames, for as long as the descriptor is open.
pub fn promiscuous(index: u32) -> io::Result<OwnedFd> {
    let fd = socket()?;
    let all = libc::packet_mreq {
        mr_ifindex: index as i32,
        mr_type: libc::PACKET_MR_PROMISC as u16,
        mr_alen: 0,
        mr_address: [0; 8],
    };
    set(&fd, libc::PACKET_ADD_MEMBERSHIP, &all)?;
    Ok(fd)
}

fn ring(fd: &OwnedFd, index: u32) -> io::Result<PacketRing> {
    set(fd, libc::PACKET_VERSION, &(libc::tpacket_versions::TPACKET_V3 as i32))?;
    set(fd, PACKET_IGNORE_OUTGOING, &1i32)?;
    set(fd, PACKET_VNET_HDR, &1i32)?;
    let request = libc::tpacket_req3 {
        tp_block_size: BLOCK as u32,
        tp_block_nr: BLOCKS as u32,
        tp_frame_size: 2048,
        tp_frame_nr: (BLOCK * BLOCKS / 2048) as u32,
        tp_retire_blk_tov: RETIRE_MS,
        tp_sizeof_priv: 0,
        tp_feature_req_word: 0,
    };
    set(fd, libc::PACKET_RX_RING, &request)?;
    let all = libc::packet_mreq {
        mr_ifindex: index as i32,
        mr_type: libc::PACKET_MR_PROMISC as u16,
        mr_alen: 0,
        mr_address: [0; 8],
    };
    set(fd, libc::PACKET_ADD_MEMBERSHIP, &all)?;
    // SAFETY: a new mapping of the socket's ring.
    let base = unsafe {
        libc::mmap(
            std::ptr::null_mut(),
            BLOCK * BLOCKS,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_SHARED,
            fd.as_raw_fd(),
            0,
        )
    };
    if base == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    Ok(PacketRing { base: base.cast(), block: 0, left: 0, next: 0, large: Large::default(), cut: 0, offload: false })
}

impl PacketRing {
    fn start(&self) -> *mut u8 {
        // SAFETY: `block` is below `BLOCKS`.
        unsafe { self.base.add(self.block * BLOCK) }
    }

    fn header(&self) -> *mut libc::tpacket_hdr_v1 {
        // SAFETY: a block begins with its description, whose header is of this type; only its
        // address is taken.
        unsafe { &raw mut (*self.start().cast::<libc::tpacket_block_desc>()).hdr.bh1 }
    }

    fn status(&self) -> &AtomicU32 {
        // SAFETY: an aligned word of the mapping that kernel and program both change.
        unsafe { AtomicU32::from_ptr(&raw mut (*self.header()).block_status) }
    }

    /// Makes a frame current; false if there is none.
    fn has_frame(&mut self) -> bool {
        while self.left == 0 {
            if self.status().load(Ordering::Acquire) & libc::TP_STATUS_USER == 0 {
                return false;
            }
            // SAFETY: the block is ours while its status says so.
            let h = unsafe { *self.header() };
            (self.left, self.next) = (h.num_pkts, h.offset_to_first_pkt);
            if self.left == 0 {
                self.release();
            }
        }
        true
    }

    fn release(&mut self) {
        self.status().store(libc::TP_STATUS_KERNEL, Ordering::Release);
        self.block = (self.block + 1) % BLOCKS;
    }

    /// Leaves a frame behind.
    fn advance(&mut self, by: u32) {
        self.left -= 1;
        self.next += by;
        if self.left == 0 {
            self.release();
        }
    }

    /// The next frame, copied to a buffer. It came before `now`.
    fn take(&mut self, pool: &mut Pool, now: u64) -> Option<(u32, wl_frame)> {
        if self.large.next() > 0 {
            return pool.take_piece(&mut self.large);
        }
        // SAFETY: the kernel has put a header here; the block is ours.
        let (at, h) = unsafe {
            let at = self.start().add(self.next as usize);
            (at, &*at.cast::<libc::tpacket3_hdr>())
        };
        // SAFETY: by the kernel's header so many bytes of the frame lie there, behind the offload
        // header.
        let (data, left) = unsafe {
            let data = std::slice::from_raw_parts(at.add(h.tp_mac as usize), h.tp_snaplen as usize);
            (data, OffloadHeader::of(&at.add(h.tp_mac as usize - HEADER).cast::<[u8; HEADER]>().read()))
        };
        let tagged = h.tp_status & libc::TP_STATUS_VLAN_VALID != 0 && data.len() >= 12;
        let extra = if tagged { 4 } else { 0 };
        let left = left.shifted(extra);
        let (buf, mut f) = pool.take(data.len() + extra)?;
        // SAFETY: a buffer of our own with that much room.
        let to = unsafe { std::slice::from_raw_parts_mut(f.p, data.len() + extra) };
        if tagged {
            let kind = if h.tp_status & libc::TP_STATUS_VLAN_TPID_VALID != 0 { h.hv1.tp_vlan_tpid } else { 0x8100 };
            to[..12].copy_from_slice(&data[..12]);
            to[12..14].copy_from_slice(&kind.to_be_bytes());
            to[14..16].copy_from_slice(&(h.hv1.tp_vlan_tci as u16).to_be_bytes());
            to[16..].copy_from_slice(&data[12..]);
        } else {
            to.copy_from_slice(data);
        }
        // The kernel tells the time of day. A clock that has just been set is known a little later.
        let came = u64::from(h.tp_sec) * 1_000_000_000 + u64::from(h.tp_nsec);
        f.time = came.wrapping_sub(clock::lead_of_day()).min(now);
        f.wire = (h.tp_len + extra as u32).max(f.n);
        let whole = h.tp_snaplen >= h.tp_len;
        if self.offload && whole {
            pool.set_undone(buf, left.undone());
            self.advance(h.tp_next_offset);
            return Some((buf, f));
        }
        let large = left.is_large() && self.large.set(to, &left, f.time, whole);
        self.cut += u64::from(large && !whole);
        if !large {
            left.complete(to);
        }
        self.advance(h.tp_next_offset);
        if large {
            pool.put(buf);
            return pool.take_piece(&mut self.large);
        }
        Some((buf, f))
    }
}

impl FramePort for AfPacket {
    fn receive(&mut self, pool: &mut Pool, into: &mut Batch, _: u64) -> io::Result<()> {
        let Some(ring) = &mut self.ring else { return Ok(()) };
        let now = if ring.has_frame() { clock::now() } else { 0 };
        while into.room() > 0 && (ring.large.next() > 0 || ring.has_frame()) {
            let Some((buf, f)) = ring.take(pool, now) else { break };
            into.push(buf, f);
        }
        self.lost += std::mem::take(&mut ring.cut);
        self.ask_lost(false);
        Ok(())
    }

    fn transmit(&mut self, pool: &mut Pool, batch: &mut Batch) -> Sent {
        let n = batch.len().min(BATCH);
        for (i, f) in batch.frames.iter().take(n).enumerate() {
            self.messages.set(i, f.p, f.n as usize, 0);
            if self.offload {
                self.messages.set_header(i, pool.header(batch.bufs[i]));
            }
        }
        // SAFETY: set just above to frames that are ours until they are released.
        let sent = unsafe { self.messages.send(self.sender.as_ref().unwrap_or(&self.fd).as_raw_fd(), n) };
        batch.release(pool);
        sent
    }

    fn offloads(&self) -> bool {
        self.offload
    }

    fn fd(&self) -> Option<RawFd> {
        self.ring.as_ref().map(|_| self.fd.as_raw_fd())
    }

    fn ended(&self) -> bool {
        self.ring.is_none()
    }

    fn finish(&mut self, _: &mut Pool) -> io::Result<()> {
        self.ask_lost(true);
        Ok(())
    }

    fn lost(&mut self) -> u64 {
        std::mem::take(&mut self.lost)
    }
}
