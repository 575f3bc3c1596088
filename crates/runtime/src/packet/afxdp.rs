//! Interfaces through AF_XDP: the kernel puts frames right into buffers of the pool and sends from them, whichever core or port they belong
//! to, as the pool's region is the UMEM of all sockets. One socket per queue of the interface.
//!
//! The driver's own path is used where it has one, else the generic one; zero-copy where the driver can do that. On interfaces without hardware
//! (veth pairs, say) checksums that a sender has left to it are completed.

use super::bpf::{set, Attached};
use super::offload::complete_if_partial;
use super::pool::{Buf, Pool, Region, CHUNK, NOTE};
use super::port::{bytes, Batch, FramePort, Sent};
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
/// The kernel is asked for its drops once per so many looks.
const ASK: u32 = 4096;

/// Receiving queues of an interface.
pub fn queues(name: &str) -> usize {
    let Ok(list) = std::fs::read_dir(format!("/sys/class/net/{name}/queues")) else { return 1 };
    list.flatten().filter(|e| e.file_name().to_string_lossy().starts_with("rx-")).count().max(1)
}

pub fn exists(name: &str) -> bool {
    super::afpacket::index_of(name).is_ok()
}

/// A ring shared with the kernel: one side moves `producer`, the other `consumer`.
struct Ring<T> {
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
unsafe impl<T> Send for Ring<T> {}

impl<T> Drop for Ring<T> {
    fn drop(&mut self) {
        // SAFETY: the mapping made in `map`.
        unsafe { libc::munmap(self.base.cast(), self.len) };
    }
}

impl<T: Copy> Ring<T> {
    fn map(fd: &OwnedFd, at: &libc::xdp_ring_offset, page: u64) -> io::Result<Ring<T>> {
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
            Ok(Ring { base, len, producer: word(at.producer), consumer: word(at.consumer), flags: word(at.flags), items: base.add(at.desc as usize).cast(), at: 0, seen: 0 })
        }
    }

    fn word(p: *mut u32) -> &'static AtomicU32 {
        // SAFETY: an aligned word of the mapping, used within calls of the ring's owner only.
        unsafe { AtomicU32::from_ptr(p) }
    }

    /// Of a ring that we take from: what is in it.
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

    /// Of a ring that we put into: how many it has room for. Looks at the other side only if there seem to be less than `want`.
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

/// The socket of one queue.
pub struct AfXdp {
    receive: Ring<libc::xdp_desc>,
    fill: Ring<u64>,
    send: Ring<libc::xdp_desc>,
    done: Ring<u64>,
    fd: Arc<OwnedFd>,
    receives: bool,
    /// The interface has no hardware: checksums may be left undone.
    no_hardware: bool,
    /// Frames given to the kernel to be sent and not yet given back.
    under_way: u32,
    looks: u32,
    lost: u64,
    /// What the kernel had lost when it was last asked.
    lost_before: u64,
    _attached: Option<Arc<Attached>>,
    _promiscuous: Option<Arc<OwnedFd>>,
    _region: Arc<Region>,
}

impl AfXdp {
    /// A socket for each queue of the interface.
    pub fn open_all(name: &str, region: &Arc<Region>, receives: bool) -> Result<Vec<AfXdp>, String> {
        let index = super::afpacket::index_of(name)?;
        let fail = |what: &str, e: io::Error| match e.raw_os_error() {
            Some(libc::EPERM) => format!("no permission for `{name}`: AF_XDP needs CAP_NET_RAW, CAP_NET_ADMIN and CAP_BPF; run as root, or give the executable the rights: `sudo setcap cap_net_raw,cap_net_admin,cap_bpf+ep FILE`"),
            Some(libc::EBUSY) => format!("`{name}` is in use by another XDP program"),
            _ => format!("{what} `{name}`: {e}"),
        };
        let queues = queues(name);
        let attached = match receives {
            true => Some(Arc::new(Attached::new(index, queues).map_err(|e| fail("cannot attach an XDP program to", e))?)),
            false => None,
        };
        let promiscuous = match receives {
            true => Some(Arc::new(super::afpacket::promiscuous(index).map_err(|e| fail("cannot listen to all of", e))?)),
            false => None,
        };
        let no_hardware = !std::path::Path::new(&format!("/sys/class/net/{name}/device")).exists();
        let mut all = Vec::new();
        // A port that is only written needs one.
        for queue in 0..if receives { queues as u32 } else { 1 } {
            let mut s = AfXdp::open(index, queue, region, receives, attached.clone(), promiscuous.clone()).map_err(|e| fail("cannot open", e))?;
            s.no_hardware = no_hardware;
            if let Some(a) = &attached {
                a.give(queue, &s.fd).map_err(|e| fail("cannot redirect frames of", e))?;
            }
            all.push(s);
        }
        if attached.as_ref().is_some_and(|a| a.generic) {
            log::info!("{name}: AF_XDP on the generic path");
        }
        Ok(all)
    }

    fn open(index: u32, queue: u32, region: &Arc<Region>, receives: bool, attached: Option<Arc<Attached>>, promiscuous: Option<Arc<OwnedFd>>) -> io::Result<AfXdp> {
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
        let at = offsets(&fd)?;
        let s = AfXdp {
            receive: Ring::map(&fd, &at.rx, libc::XDP_PGOFF_RX_RING as u64)?,
            fill: Ring::map(&fd, &at.fr, libc::XDP_UMEM_PGOFF_FILL_RING)?,
            send: Ring::map(&fd, &at.tx, libc::XDP_PGOFF_TX_RING as u64)?,
            done: Ring::map(&fd, &at.cr, libc::XDP_UMEM_PGOFF_COMPLETION_RING)?,
            fd,
            receives,
            no_hardware: false,
            under_way: 0,
            looks: 0,
            lost: 0,
            lost_before: 0,
            _attached: attached,
            _promiscuous: promiscuous,
            _region: region.clone(),
        };
        s.bind(index, queue, umem.as_deref())?;
        umem.get_or_insert(s.fd.clone());
        Ok(s)
    }

    /// `shared`: the socket whose UMEM this one uses.
    fn bind(&self, index: u32, queue: u32, shared: Option<&OwnedFd>) -> io::Result<()> {
        // SAFETY: a plain struct of numbers.
        let mut a: libc::sockaddr_xdp = unsafe { std::mem::zeroed() };
        a.sxdp_family = libc::AF_XDP as u16;
        (a.sxdp_ifindex, a.sxdp_queue_id) = (index, queue);
        match shared {
            Some(fd) => (a.sxdp_flags, a.sxdp_shared_umem_fd) = (libc::XDP_SHARED_UMEM, fd.as_raw_fd() as u32),
            None => a.sxdp_flags = libc::XDP_USE_NEED_WAKEUP,
        }
        let size = size_of::<libc::sockaddr_xdp>() as u32;
        // SAFETY: the address lives here.
        common::check(unsafe { libc::bind(self.fd.as_raw_fd(), (&a as *const libc::sockaddr_xdp).cast(), size) }).map(drop)
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

    /// Takes back what was sent.
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

    /// Has the kernel send what is in the ring; false: it cannot now.
    fn kick(&mut self) -> bool {
        if !self.send.wants_call() {
            return true;
        }
        // SAFETY: no memory is named.
        let r = unsafe { libc::sendto(self.fd.as_raw_fd(), std::ptr::null(), 0, libc::MSG_DONTWAIT, std::ptr::null(), 0) };
        r >= 0 || matches!(common::errno(), libc::EAGAIN | libc::EBUSY | libc::ENOBUFS | libc::EINTR)
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
        // What lies elsewhere, in a large buffer or in no buffer of ours, is copied.
        let (buf, at, n) = match pool.address_of(buf, f) {
            Some(at) => (buf, at, f.n),
            None => {
                let copy = pool.store(bytes(f));
                pool.put(buf);
                let Some((copied, c)) = copy else { return false };
                match pool.address_of(copied, &c) {
                    Some(at) => (copied, at, c.n),
                    None => {
                        pool.put(copied);
                        return false;
                    }
                }
            }
        };
        if self.send.room(1) == 0 {
            self.push(pool);
        }
        if self.send.room(1) == 0 || n == 0 {
            pool.put(buf);
            return false;
        }
        self.send.put(libc::xdp_desc { addr: at, len: n, options: 0 });
        self.under_way += 1;
        true
    }

    fn ask_lost(&mut self) {
        // SAFETY: a plain struct of numbers.
        let mut s: libc::xdp_statistics = unsafe { std::mem::zeroed() };
        let mut size = size_of::<libc::xdp_statistics>() as libc::socklen_t;
        // SAFETY: the struct lives here.
        let r = unsafe { libc::getsockopt(self.fd.as_raw_fd(), libc::SOL_XDP, libc::XDP_STATISTICS, (&raw mut s).cast(), &mut size) };
        if r == 0 {
            // Looks at an empty fill ring are counted by the kernel, too, but each lost frame is one of these.
            let all = s.rx_dropped + s.rx_ring_full;
            self.lost += all.saturating_sub(self.lost_before);
            self.lost_before = all;
        }
    }
}

fn offsets(fd: &OwnedFd) -> io::Result<libc::xdp_mmap_offsets> {
    // SAFETY: a plain struct of numbers.
    let mut at: libc::xdp_mmap_offsets = unsafe { std::mem::zeroed() };
    let mut size = size_of::<libc::xdp_mmap_offsets>() as libc::socklen_t;
    // SAFETY: the struct lives here.
    common::check(unsafe { libc::getsockopt(fd.as_raw_fd(), libc::SOL_XDP, libc::XDP_MMAP_OFFSETS, (&raw mut at).cast(), &mut size) })?;
    Ok(at)
}

impl FramePort for AfXdp {
    fn receive(&mut self, pool: &mut Pool, into: &mut Batch, _: u64) -> io::Result<()> {
        self.tend(pool);
        if !self.receives {
            return Ok(());
        }
        self.refill(pool);
        let n = self.receive.ready().min(into.room() as u32);
        for _ in 0..n {
            let d = self.receive.take();
            // Anything else would be the kernel's mistake.
            if let Some((buf, f)) = pool.at_address(d.addr, d.len) {
                if self.no_hardware {
                    // SAFETY: a buffer that the kernel has given to us alone.
                    complete_if_partial(unsafe { std::slice::from_raw_parts_mut(f.p, f.n as usize) });
                }
                into.push(buf, f);
            }
        }
        if n > 0 {
            self.receive.taken();
        } else if self.fill.wants_call() {
            // SAFETY: no memory is named.
            unsafe { libc::recvfrom(self.fd.as_raw_fd(), std::ptr::null_mut(), 0, libc::MSG_DONTWAIT, std::ptr::null_mut(), std::ptr::null_mut()) };
        }
        self.looks += 1;
        if self.looks % ASK == 0 {
            self.ask_lost();
        }
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
        Ok(())
    }
}
