//! Interfaces through AF_XDP, with one socket per queue of the interface.
//!
//! The kernel puts frames into buffers of the pool and sends from them, for every core and port.
//! The pool's region is the UMEM of all sockets.
//!
//! The driver's own path is used where it has one, else the generic one. Zero-copy is used where
//! the driver can do it. Frames that do not fit one buffer (jumbo frames) come and go in several.
//! On interfaces without hardware (veth pairs, say), missing checksums are completed, and TCP
//! segments beyond the MTU are cut.

use super::batch::{bytes, prefetch, Batch, Buf};
use super::bpf::{put_socket, set, Attached};
use super::hooked::{Gives, Hooked};
use super::offload::{complete_if_partial, Large};
use super::pool::{Pool, Region, Umem, CHUNK, FRAME_MAX, NOTE};
use super::port::{FramePort, Sent};
use super::send_errors::SendErrors;
use crate::abi::wl_frame;
use crate::engine::common;
use std::io;
use std::mem::size_of;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicU32, Ordering::Acquire, Ordering::Relaxed, Ordering::Release};
use std::sync::Arc;

/// Entries of each of a socket's rings.
const ENTRIES: u32 = 2048;
/// Buffers that a socket may hold, in its rings for receiving and sending.
pub const BUFFERS: usize = 2 * ENTRIES as usize;
/// Buffers that are left for copies and other ports.
const RESERVE: usize = 256;
/// Without zero-copy a call sends so many at least; a full ring is given up after this many calls.
const KICKS: u32 = 256;
/// The kernel is asked for its drops, and for the MTU, this often.
const ASK_NS: u64 = 100_000_000;
/// The kernel leaves this much of a buffer free before a frame (XDP_PACKET_HEADROOM).
const KERNEL_HEADROOM: usize = 256;
/// Ethernet's header and two VLAN tags, which an MTU does not count.
const LINK_MAX: usize = 14 + 8;
/// A frame without a whole header of Ethernet is not sent.
const LINK_MIN: usize = 14;
/// Buffers of one frame: as many as the kernel takes for one packet (MAX_SKB_FRAGS + 1).
const PIECES: usize = 18;

/// Receiving queues of an interface.
pub fn queues(name: &str) -> usize {
    let Ok(list) = std::fs::read_dir(format!("/sys/class/net/{name}/queues")) else { return 1 };
    list.flatten().filter(|e| e.file_name().to_string_lossy().starts_with("rx-")).count().max(1)
}

/// Largest packet of an interface, without its link header.
pub fn mtu(name: &str) -> usize {
    let text = std::fs::read_to_string(format!("/sys/class/net/{name}/mtu")).unwrap_or_default();
    text.trim().parse().unwrap_or(1500)
}

pub fn exists(name: &str) -> bool {
    super::afpacket::index_of(name).is_ok()
}

/// A ring shared with the kernel: one side moves `producer`, the other `consumer`.
struct XskRing<T> {
    base: *mut u8,
    len: usize,
    producer: *mut u32,
    consumer: *mut u32,
    flags: *mut u32,
    items: *mut T,
    /// Our own side's position, and the other's as last seen.
    at: u32,
    seen: u32,
}

// SAFETY: the mapping belongs to this value alone.
unsafe impl<T> Send for XskRing<T> {}

impl<T> Drop for XskRing<T> {
    fn drop(&mut self) {
        // SAFETY: the mapping made in `map`.
        unsafe { libc::munmap(self.base.cast(), self.len) };
    }
}

impl<T: Copy> XskRing<T> {
    fn map(fd: &OwnedFd, at: &libc::xdp_ring_offset, page: u64) -> io::Result<XskRing<T>> {
        let len = at.desc as usize + ENTRIES as usize * size_of::<T>();
        let (prot, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED | libc::MAP_POPULATE);
        // SAFETY: a new mapping of the socket's ring.
        let base = unsafe { libc::mmap(std::ptr::null_mut(), len, prot, flags, fd.as_raw_fd(), page as libc::off_t) };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let base: *mut u8 = base.cast();
        // SAFETY: the kernel gives offsets within the mapping.
        unsafe {
            let word = |n: u64| base.add(n as usize).cast::<u32>();
            Ok(XskRing {
                base,
                len,
                producer: word(at.producer),
                consumer: word(at.consumer),
                flags: word(at.flags),
                items: base.add(at.desc as usize).cast(),
                at: 0,
                seen: 0,
            })
        }
    }

    fn word(p: *mut u32) -> &'static AtomicU32 {
        // SAFETY: an aligned word of the mapping, used within calls of the ring's owner only.
        unsafe { AtomicU32::from_ptr(p) }
    }

    /// The number of entries in a ring that we consume.
    fn ready(&mut self) -> u32 {
        if self.seen == self.at {
            self.seen = Self::word(self.producer).load(Acquire);
        }
        self.seen.wrapping_sub(self.at)
    }

    fn take(&mut self) -> T {
        // SAFETY: `ready` has said that there is one.
        let item = unsafe { *self.items.add((self.at & (ENTRIES - 1)) as usize) };
        self.at = self.at.wrapping_add(1);
        item
    }

    fn taken(&self) {
        Self::word(self.consumer).store(self.at, Release);
    }

    /// Of a ring that we put into: how many it has room for. Looks at the other side only if there
    /// seem to be less than `want`.
    fn room(&mut self, want: u32) -> u32 {
        if ENTRIES - self.at.wrapping_sub(self.seen) < want {
            self.seen = Self::word(self.consumer).load(Acquire);
        }
        ENTRIES - self.at.wrapping_sub(self.seen)
    }

    fn put(&mut self, item: T) {
        // SAFETY: `room` has said that there is some.
        unsafe { *self.items.add((self.at & (ENTRIES - 1)) as usize) = item };
        self.at = self.at.wrapping_add(1);
    }

    fn given(&self) {
        Self::word(self.producer).store(self.at, Release);
    }

    /// Whether the other side has taken all.
    fn is_drained(&self) -> bool {
        Self::word(self.consumer).load(Acquire) == self.at
    }

    fn wants_call(&self) -> bool {
        Self::word(self.flags).load(Relaxed) & libc::XDP_RING_NEED_WAKEUP != 0
    }
}

/// How a socket is bound.
struct Bind {
    /// Frames may take several buffers, if the kernel knows that.
    frags: bool,
    /// Frames are copied, whatever the driver can do.
    copied: bool,
}

/// The sentence about a system call that failed.
fn failure(name: &str, what: &str, e: io::Error) -> String {
    match e.raw_os_error() {
        Some(libc::EPERM) => format!("no permission for `{name}`: AF_XDP needs CAP_NET_RAW, CAP_NET_ADMIN and CAP_BPF; run as root, or give the executable the rights: `sudo setcap cap_net_raw,cap_net_admin,cap_bpf+ep FILE`"),
        Some(libc::EBUSY) => format!("`{name}` is in use by another XDP program (`ip link show dev {name}` names it)"),
        _ => format!("{what} `{name}`: {e}"),
    }
}

/// The socket of one queue.
pub struct AfXdp {
    receive: XskRing<libc::xdp_desc>,
    fill: XskRing<u64>,
    send: XskRing<libc::xdp_desc>,
    done: XskRing<u64>,
    fd: Arc<OwnedFd>,
    receives: bool,
    name: String,
    errors: SendErrors,
    /// The interface has no hardware: checksums and the cut of segments may be left undone.
    no_hardware: bool,
    mtu: usize,
    /// The parts of a frame of several buffers that have come.
    parts: Parts,
    large: Large,
    /// Buffers given to the kernel to be sent and not yet given back.
    under_way: u32,
    /// When the kernel is asked next.
    ask_at: u64,
    lost: u64,
    /// The kernel's count of lost frames at the last reading.
    lost_before: u64,
    /// Frames come from a program in the hook, and where to.
    gives: Option<Gives>,
    /// The ring by which parts of frames come.
    ring: Option<super::hook_ring::RingSource>,
    /// Of the segment that is being cut.
    large_to: (u32, u32),
    _attached: Option<Arc<Attached>>,
    _promiscuous: Option<Arc<OwnedFd>>,
    _region: Arc<Region>,
}

impl AfXdp {
    /// A socket for each queue of the interface.
    pub fn open_all(name: &str, region: &Arc<Region>, receives: bool) -> Result<Vec<AfXdp>, String> {
        let index = super::afpacket::index_of(name)?;
        let fail = |what: &str, e: io::Error| failure(name, what, e);
        let queues = queues(name);
        let attached = match receives {
            true => {
                Some(Arc::new(Attached::new(index, queues).map_err(|e| fail("cannot attach an XDP program to", e))?))
            }
            false => None,
        };
        let promiscuous = match receives {
            true => {
                Some(Arc::new(super::afpacket::promiscuous(index).map_err(|e| fail("cannot listen to all of", e))?))
            }
            false => None,
        };
        let no_hardware = !std::path::Path::new(&format!("/sys/class/net/{name}/device")).exists();
        let large = is_large(mtu(name));
        // Some drivers do without zero-copy where frames may take several buffers.
        let frags = (large || no_hardware) && attached.as_ref().is_none_or(|a| a.frags);
        let mut all = Vec::new();
        // A port that is only written needs one.
        for queue in 0..if receives { queues as u32 } else { 1 } {
            let how = Bind { frags, copied: false };
            let mut s = AfXdp::open((index, queue), region, how).map_err(|e| fail("cannot open", e))?;
            (s.name, s.no_hardware, s.mtu, s.receives) = (name.to_string(), no_hardware, mtu(name), receives);
            (s._attached, s._promiscuous) = (attached.clone(), promiscuous.clone());
            if let Some(a) = &attached {
                a.give(queue, &s.fd).map_err(|e| fail("cannot redirect frames of", e))?;
            }
            all.push(s);
        }
        let frags =
            frags && region.umem_socket().lock().unwrap_or_else(|e| e.into_inner()).as_ref().is_some_and(|u| u.frags);
        fits(mtu(name), receives, frags)?;
        if attached.as_ref().is_some_and(|a| a.generic) {
            log::info!("{name}: AF_XDP on the generic path");
        }
        Ok(all)
    }

    /// A socket for each queue of an interface that has a program of the app in front of it. The
    /// program gives frames to the sockets, each in one buffer.
    pub fn open_hooked(name: &str, region: &Arc<Region>, hooked: &Hooked) -> Result<Vec<AfXdp>, String> {
        let index = super::afpacket::index_of(name)?;
        let queues = queues(name) as u32;
        if queues > hooked.queues {
            return Err(format!("`{name}` has {queues} queues, of which a program in XDP can use {}; set fewer: `ethtool -L {name} combined {}`", hooked.queues, hooked.queues));
        }
        let no_hardware = !std::path::Path::new(&format!("/sys/class/net/{name}/device")).exists();
        let promiscuous =
            super::afpacket::promiscuous(index).map_err(|e| failure(name, "cannot listen to all of", e))?;
        let (promiscuous, mut all) = (Arc::new(promiscuous), Vec::new());
        for queue in 0..queues {
            let how = Bind { frags: false, copied: hooked.copied };
            let mut s = AfXdp::open((index, queue), region, how).map_err(|e| failure(name, "cannot open", e))?;
            (s.name, s.no_hardware, s.mtu, s.receives) = (name.to_string(), no_hardware, mtu(name), true);
            (s.gives, s.ring, s._promiscuous) = (Some(hooked.gives), hooked.ring.clone(), Some(promiscuous.clone()));
            put_socket(&hooked.sockets, hooked.first + queue, &s.fd)
                .map_err(|e| failure(name, "cannot take frames of", e))?;
            all.push(s);
        }
        Ok(all)
    }

    /// The socket of a queue of an interface.
    fn open(at: (u32, u32), region: &Arc<Region>, how: Bind) -> io::Result<AfXdp> {
        // SAFETY: a plain system call.
        let fd = common::check(unsafe { libc::socket(libc::AF_XDP, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0) })?;
        // SAFETY: opened just now.
        let fd = Arc::new(unsafe { OwnedFd::from_raw_fd(fd) });
        let mut umem = region.umem_socket().lock().unwrap_or_else(|e| e.into_inner());
        if umem.is_none() {
            let (base, len) = region.umem();
            // SAFETY: a plain struct of numbers.
            let mut reg: libc::xdp_umem_reg = unsafe { std::mem::zeroed() };
            (reg.addr, reg.len, reg.chunk_size, reg.headroom) = (base as u64, len as u64, CHUNK as u32, NOTE as u32);
            set(&fd, libc::XDP_UMEM_REG, &reg)?;
        }
        for ring in [libc::XDP_UMEM_FILL_RING, libc::XDP_UMEM_COMPLETION_RING, libc::XDP_RX_RING, libc::XDP_TX_RING] {
            set(&fd, ring, &ENTRIES)?;
        }
        let rings = offsets(&fd)?;
        let s = AfXdp {
            receive: XskRing::map(&fd, &rings.rx, libc::XDP_PGOFF_RX_RING as u64)?,
            fill: XskRing::map(&fd, &rings.fr, libc::XDP_UMEM_PGOFF_FILL_RING)?,
            send: XskRing::map(&fd, &rings.tx, libc::XDP_PGOFF_TX_RING as u64)?,
            done: XskRing::map(&fd, &rings.cr, libc::XDP_UMEM_PGOFF_COMPLETION_RING)?,
            fd,
            receives: false,
            name: String::new(),
            errors: SendErrors::default(),
            no_hardware: false,
            mtu: 0,
            parts: Parts::default(),
            large: Large::default(),
            under_way: 0,
            ask_at: 0,
            lost: 0,
            lost_before: 0,
            gives: None,
            ring: None,
            large_to: (0, 0),
            _attached: None,
            _promiscuous: None,
            _region: region.clone(),
        };
        match &*umem {
            Some(first) => s.bind(at, libc::XDP_SHARED_UMEM, first.socket.as_raw_fd())?,
            None => {
                let plain = libc::XDP_USE_NEED_WAKEUP | if how.copied { libc::XDP_COPY } else { 0 };
                let frags = how.frags && s.bind(at, plain | libc::XDP_USE_SG, 0).is_ok();
                if !frags {
                    s.bind(at, plain, 0)?;
                }
                *umem = Some(Umem { socket: s.fd.clone(), frags });
            }
        }
        Ok(s)
    }

    /// `shared`: the socket whose UMEM this one uses, if the flags say so.
    fn bind(&self, (index, queue): (u32, u32), flags: u16, shared: RawFd) -> io::Result<()> {
        // SAFETY: a plain struct of numbers.
        let mut a: libc::sockaddr_xdp = unsafe { std::mem::zeroed() };
        a.sxdp_family = libc::AF_XDP as u16;
        (a.sxdp_ifindex, a.sxdp_queue_id) = (index, queue);
        (a.sxdp_flags, a.sxdp_shared_umem_fd) = (flags, shared as u32);
        let size = size_of::<libc::sockaddr_xdp>() as u32;
        // SAFETY: the address lives here.
        common::check(unsafe { libc::bind(self.fd.as_raw_fd(), (&a as *const libc::sockaddr_xdp).cast(), size) })
            .map(drop)
    }

    /// Gives the kernel buffers to receive into.
    fn refill(&mut self, pool: &mut Pool) {
        let room = self.fill.room(super::BATCH as u32) as usize;
        let spare = pool.free().saturating_sub(RESERVE);
        if room < super::BATCH || spare == 0 {
            return;
        }
        for _ in 0..room.min(spare) {
            let Some(buf) = pool.take_small() else { break };
            self.fill.put(u64::from(buf) * CHUNK as u64);
        }
        self.fill.given();
    }

    /// Takes back the buffers of sent frames.
    fn reap(&mut self, pool: &mut Pool) {
        let n = self.done.ready();
        for _ in 0..n {
            let at = self.done.take();
            pool.put((at / CHUNK as u64) as Buf);
        }
        if n > 0 {
            self.done.taken();
            self.under_way = self.under_way.saturating_sub(n);
        }
    }

    /// Makes the kernel send the frames of the ring; false: it cannot now.
    fn kick(&mut self) -> bool {
        if !self.send.wants_call() {
            return true;
        }
        // SAFETY: no memory is named.
        let r =
            unsafe { libc::sendto(self.fd.as_raw_fd(), std::ptr::null(), 0, libc::MSG_DONTWAIT, std::ptr::null(), 0) };
        if r >= 0 || matches!(common::errno(), libc::EAGAIN | libc::EBUSY | libc::ENOBUFS | libc::EINTR) {
            return true;
        }
        self.errors.tell(&self.name, common::errno());
        false
    }

    /// Kicks until all has been taken, or it seems in vain.
    fn push(&mut self, pool: &mut Pool) {
        for _ in 0..KICKS {
            let going = self.kick();
            self.reap(pool);
            if !going || self.send.is_drained() {
                return;
            }
        }
    }

    /// Puts a frame into the ring.
    fn put(&mut self, pool: &mut Pool, buf: Buf, f: &wl_frame) -> bool {
        // The kernel would drop it without a word. AF_PACKET gives these reasons.
        if !(LINK_MIN..=self.mtu + LINK_MAX).contains(&(f.n as usize)) {
            let short = (f.n as usize) < LINK_MIN;
            self.errors.tell(&self.name, if short { libc::EINVAL } else { libc::EMSGSIZE });
            pool.put(buf);
            return false;
        }
        let Some(at) = pool.address_of(buf, f) else {
            // It lies in a large buffer, or in none of ours.
            let sent = self.put_copy(pool, bytes(f));
            pool.put(buf);
            return sent;
        };
        if !self.has_room(pool, 1) {
            pool.put(buf);
            return false;
        }
        self.offer(at, f.n, 0);
        true
    }

    /// The same for bytes from elsewhere, in as many buffers as they take.
    fn put_copy(&mut self, pool: &mut Pool, frame: &[u8]) -> bool {
        const ROOM: usize = CHUNK - NOTE;
        let pieces = frame.len().div_ceil(ROOM);
        if pieces > PIECES || pool.free() < pieces || !self.has_room(pool, pieces as u32) {
            return false;
        }
        for (k, piece) in frame.chunks(ROOM).enumerate() {
            let Some(buf) = pool.take_small() else { return false }; // cannot be: there were enough
            let (room, at) = pool.room_of(buf);
            room[..piece.len()].copy_from_slice(piece);
            let more = if k + 1 < pieces { libc::XDP_PKT_CONTD } else { 0 };
            self.offer(at, piece.len() as u32, more);
        }
        true
    }

    /// Whether the ring takes so many buffers. If it is full, its entries are pushed to the kernel
    /// first.
    fn has_room(&mut self, pool: &mut Pool, n: u32) -> bool {
        if self.send.room(n) < n {
            self.send.given();
            self.push(pool);
        }
        self.send.room(n) >= n
    }

    fn offer(&mut self, addr: u64, len: u32, options: u32) {
        self.send.put(libc::xdp_desc { addr, len, options });
        self.under_way += 1;
    }

    /// The next frame; `None`: there is none, or no buffer for it.
    fn next(&mut self, pool: &mut Pool) -> Option<(Buf, wl_frame)> {
        loop {
            if self.large.next() > 0 {
                let (buf, mut f) = pool.take_piece(&mut self.large)?;
                if self.gives.is_some() {
                    f.out = self.large_to.0;
                    f.set_mark(self.large_to.1);
                }
                return Some((buf, f));
            }
            if self.receive.ready() == 0 {
                return None;
            }
            let d = self.receive.take();
            // Anything else would be the kernel's mistake.
            let Some((buf, mut f)) = pool.at_address(d.addr, d.len) else { continue };
            if self.ring.as_ref().is_some_and(|r| r.is_bell(&f)) {
                pool.put(buf);
                continue;
            }
            let mut came = None;
            if let Some(gives) = self.gives {
                came = gives.read(&mut f);
                let Some(came) = came else {
                    self.lost += 1;
                    pool.put(buf);
                    continue;
                };
                pool.region().entry(buf, usize::MAX, |own| came.entry(&f, own));
                self.large_to = (f.out, f.mark());
            }
            if let Some(came) = came.filter(|c| c.n > f.n) {
                // Bytes that its reader does not read have not come. The program cuts no segment.
                came.whole(&mut f);
                return Some((buf, f));
            }
            let more = d.options & libc::XDP_PKT_CONTD != 0;
            let (buf, f) = match more || self.parts.begun {
                true => match self.join(pool, (buf, f), more) {
                    Some(whole) => whole,
                    None => continue,
                },
                false => (buf, f),
            };
            // SAFETY: a buffer that is ours alone.
            let frame = unsafe { std::slice::from_raw_parts_mut(f.p, f.n as usize) };
            if self.no_hardware && frame.len() > self.mtu + LINK_MAX {
                // A segment that its sender has left to hardware to cut.
                self.lost += u64::from(!self.large.set_to_mtu(frame, self.mtu));
                pool.put(buf);
                continue;
            }
            if self.no_hardware {
                complete_if_partial(frame);
            }
            return Some((buf, f));
        }
    }

    /// A part of a frame; the frame, with its last one.
    fn join(&mut self, pool: &mut Pool, (buf, f): (Buf, wl_frame), more: bool) -> Option<(Buf, wl_frame)> {
        self.parts.add(bytes(&f));
        pool.put(buf);
        if more {
            return None;
        }
        let whole = self.parts.whole().and_then(|frame| pool.store(frame));
        self.parts.end();
        self.lost += u64::from(whole.is_none());
        whole
    }

    /// Reads how many frames the kernel has dropped, if the interval is over.
    fn ask(&mut self) {
        let now = crate::clock::now();
        if now < self.ask_at {
            return;
        }
        self.ask_at = now + ASK_NS;
        self.mtu = mtu(&self.name);
        self.ask_lost();
    }

    fn ask_lost(&mut self) {
        // SAFETY: a plain struct of numbers.
        let mut s: libc::xdp_statistics = unsafe { std::mem::zeroed() };
        let mut size = size_of::<libc::xdp_statistics>() as libc::socklen_t;
        // SAFETY: the struct lives here.
        let r = unsafe {
            libc::getsockopt(self.fd.as_raw_fd(), libc::SOL_XDP, libc::XDP_STATISTICS, (&raw mut s).cast(), &mut size)
        };
        if r == 0 {
            // Looks at an empty fill ring are counted by the kernel, too, but each lost frame is
            // one of these.
            let all = s.rx_dropped + s.rx_ring_full;
            self.lost += all.saturating_sub(self.lost_before);
            self.lost_before = all;
        }
    }
}

/// Whether frames of an interface may take several buffers.
fn is_large(mtu: usize) -> bool {
    mtu + LINK_MAX > CHUNK - NOTE - KERNEL_HEADROOM
}

/// Whether a socket can have the frames of an interface. The kernel would drop those that need
/// several buffers without a word.
fn fits(mtu: usize, receives: bool, frags: bool) -> Result<(), String> {
    if !is_large(mtu) || !receives || frags {
        return Ok(());
    }
    let most = CHUNK - NOTE - KERNEL_HEADROOM - LINK_MAX;
    Err(format!("its MTU of {mtu} bytes needs frames of several buffers, which kernel, driver or an interface opened before do not allow; lower the MTU to {most}"))
}

/// The parts of one frame, until its last one has come.
#[derive(Default)]
struct Parts {
    bytes: Vec<u8>,
    begun: bool,
    /// They are more than a frame may have.
    over: bool,
}

impl Parts {
    fn add(&mut self, part: &[u8]) {
        self.begun = true;
        self.over |= self.bytes.len() + part.len() > FRAME_MAX;
        if !self.over {
            self.bytes.extend_from_slice(part);
        }
    }

    /// The frame; `None`: it is too large, and no part of it goes on.
    fn whole(&self) -> Option<&[u8]> {
        (!self.over).then_some(&self.bytes)
    }

    fn end(&mut self) {
        self.bytes.clear();
        (self.begun, self.over) = (false, false);
    }
}

fn offsets(fd: &OwnedFd) -> io::Result<libc::xdp_mmap_offsets> {
    // SAFETY: a plain struct of numbers.
    let mut at: libc::xdp_mmap_offsets = unsafe { std::mem::zeroed() };
    let mut size = size_of::<libc::xdp_mmap_offsets>() as libc::socklen_t;
    // SAFETY: the struct lives here.
    common::check(unsafe {
        libc::getsockopt(fd.as_raw_fd(), libc::SOL_XDP, libc::XDP_MMAP_OFFSETS, (&raw mut at).cast(), &mut size)
    })?;
    Ok(at)
}

impl FramePort for AfXdp {
    fn receive(&mut self, pool: &mut Pool, into: &mut Batch, _: u64) -> io::Result<()> {
        self.tend(pool);
        if !self.receives {
            return Ok(());
        }
        self.refill(pool);
        let before = self.receive.at;
        while into.room() > 0 {
            let Some((buf, f)) = self.next(pool) else { break };
            prefetch(f.p);
            into.push(buf, f);
        }
        if self.receive.at != before {
            self.receive.taken();
        } else if self.fill.wants_call() {
            // SAFETY: no memory is named.
            unsafe {
                libc::recvfrom(
                    self.fd.as_raw_fd(),
                    std::ptr::null_mut(),
                    0,
                    libc::MSG_DONTWAIT,
                    std::ptr::null_mut(),
                    std::ptr::null_mut(),
                )
            };
        }
        self.ask();
        Ok(())
    }

    fn transmit(&mut self, pool: &mut Pool, batch: &mut Batch) -> Sent {
        self.reap(pool);
        let mut sent = Sent::default();
        for (f, buf) in batch.frames.iter().zip(&batch.bufs) {
            sent = sent.and(f, self.put(pool, *buf, f));
            self.send.given();
        }
        batch.clear();
        self.push(pool);
        sent
    }

    fn fd(&self) -> Option<RawFd> {
        self.receives.then(|| self.fd.as_raw_fd())
    }

    fn ended(&self) -> bool {
        !self.receives
    }

    fn lost(&mut self) -> u64 {
        std::mem::take(&mut self.lost)
    }

    fn tend(&mut self, pool: &mut Pool) {
        if self.under_way > 0 {
            if !self.send.is_drained() {
                self.kick();
            }
            self.reap(pool);
        }
    }

    fn finish(&mut self, pool: &mut Pool) -> io::Result<()> {
        for _ in 0..50 {
            if self.under_way == 0 {
                break;
            }
            self.push(pool);
            std::thread::sleep(std::time::Duration::from_millis(u64::from(self.under_way > 0)));
        }
        self.ask_lost();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::{fits, is_large, Parts, FRAME_MAX};

    #[test]
    fn an_mtu_that_needs_several_buffers_is_refused_where_they_are_not_allowed() {
        assert!(!is_large(1500) && is_large(9000));
        let most = (1500..9000).filter(|n| !is_large(*n)).max().unwrap();
        assert_eq!(fits(most, true, false), Ok(()));
        let said = fits(most + 1, true, false).unwrap_err();
        assert!(said.contains(&format!("MTU of {} bytes", most + 1)), "{said}");
        assert!(said.ends_with(&format!("lower the MTU to {most}")), "{said}");
        // With several buffers, or where nothing is received, any MTU will do.
        assert_eq!((fits(65_000, true, true), fits(65_000, false, false)), (Ok(()), Ok(())));
    }

    #[test]
    fn a_frame_of_too_many_parts_is_dropped_as_a_whole() {
        let mut parts = Parts::default();
        let half = vec![7; FRAME_MAX / 2];
        // A small part behind one that is too much does not make the frame whole again.
        for part in [&half[..], &half, &[1, 2], &[]] {
            parts.add(part);
        }
        assert_eq!(parts.whole(), None);
        parts.end();
        assert!(!parts.begun, "the next frame begins anew");
        parts.add(&half);
        parts.add(&half);
        assert_eq!(parts.whole().map(<[u8]>::len), Some(FRAME_MAX / 2 * 2));
        parts.end();
        parts.add(&[]);
        assert!(parts.begun, "an empty part begins a frame, too");
    }
}
