//! The memory and the descriptors that two processes share.

use super::layout::{nic_cores, Layout, LinkRing, ProcessSide, HEAD};
use super::meter::Link;
use super::ring;
use crate::engine::common;
use crate::error::Error;
use crate::packet::board::{Board, BoardMemory, Place};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::Arc;
use wireloom_ir::desc::{Desc, HandlerOn, ParamValue, PortKind, Value};

/// Mapped memory.
struct Mapping {
    at: *mut u8,
    bytes: usize,
    cores: usize,
    file: OwnedFd,
}

// SAFETY: it hands out atomic words and rings, whose ends see to themselves.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: mapped by `map`, with this length; whoever uses it keeps it.
        unsafe { libc::munmap(self.at.cast(), self.bytes) };
    }
}

impl BoardMemory for Mapping {
    fn places(&self) -> &[Place] {
        // SAFETY: the layout has so many there, of atomic words, aligned to a page.
        unsafe { std::slice::from_raw_parts(self.at.add(HEAD).cast::<Place>(), self.cores) }
    }
}

fn map(file: OwnedFd, layout: &Layout) -> io::Result<Mapping> {
    let bytes = layout.bytes();
    // SAFETY: a new mapping of a file of that length.
    let at = unsafe {
        libc::mmap(
            std::ptr::null_mut(),
            bytes,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_SHARED | libc::MAP_NORESERVE,
            file.as_raw_fd(),
            0,
        )
    };
    if at == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    Ok(Mapping { at: at.cast(), bytes, cores: layout.cores, file })
}

/// One process's view of what both share.
pub struct Joint {
    pub side: ProcessSide,
    pub link: Link,
    pub layout: Layout,
    map: Arc<Mapping>,
    bells: Vec<Arc<OwnedFd>>,
    /// This process takes the place of one that has ended.
    anew: bool,
    /// The other one has ended for good.
    pub gone: Arc<AtomicBool>,
    /// Names of the app and its queues, for messages.
    pub app: String,
    pub queues: Vec<String>,
    pub restarts: AtomicU64,
}

/// A number for the program and what it is told.
fn digest(desc: &Desc, layout: &Layout, link: &Link) -> u64 {
    let mut desc = desc.clone();
    for h in &mut desc.handlers {
        // The first process alone knows which handlers of frames run in the XDP hook.
        if matches!(h.on, HandlerOn::Frame { .. }) {
            h.on = HandlerOn::Elsewhere
        }
    }
    for p in desc.ports.iter_mut().filter(|p| !p.nic) {
        // So it is with ports that nothing outside the hook uses: they are bound to nothing.
        if let PortKind::Frames { names, .. } = &mut p.kind {
            *names = Value::Const(ParamValue::Endpoints(Vec::new()))
        }
    }
    let text = format!("{}{layout:?}{link:?}", serde_json::to_string(&desc).unwrap_or_default());
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |h, b| (h ^ u64::from(b)).wrapping_mul(0x100_0000_01b3))
}

impl Joint {
    /// Makes the memory, in the process of the CPU.
    pub fn make(desc: &Desc, ways: Vec<LinkRing>, link: Link) -> Result<Joint, Error> {
        let layout = Layout::new(desc, ways, link.entry as usize);
        let fail = |e| Error::Io("cannot make memory for the process of the NIC".into(), e);
        // SAFETY: a plain system call; the descriptor has no other owner.
        let file = unsafe {
            OwnedFd::from_raw_fd(
                common::check(libc::memfd_create(c"wireloom-nic".as_ptr(), libc::MFD_CLOEXEC)).map_err(fail)?,
            )
        };
        // SAFETY: a plain system call.
        common::check(unsafe { libc::ftruncate(file.as_raw_fd(), layout.bytes() as libc::off_t) }).map_err(fail)?;
        let bells = (0..layout.cores).map(|_| common::bell(libc::EFD_NONBLOCK).map(Arc::new));
        let bells = bells.collect::<io::Result<_>>().map_err(fail)?;
        let joint = Joint::with(ProcessSide::Cpu, desc, link, map(file, &layout).map_err(fail)?, (layout, bells));
        joint.words(0, 1)[0].store(digest(desc, &joint.layout, &link), Relaxed);
        (0..joint.layout.ways.len()).for_each(|k| joint.ring(k).clear());
        Ok(joint)
    }

    fn with(side: ProcessSide, desc: &Desc, link: Link, map: Mapping, of: (Layout, Vec<Arc<OwnedFd>>)) -> Joint {
        Joint {
            side,
            link,
            layout: of.0,
            map: Arc::new(map),
            bells: of.1,
            anew: false,
            gone: Arc::default(),
            app: desc.app.clone(),
            queues: desc.ports.iter().map(|p| p.name.clone()).collect(),
            restarts: AtomicU64::new(0),
        }
    }

    /// Maps it, in the process of the NIC. `files`: the memory, then the bells.
    pub fn join(
        desc: &Desc,
        ways: Vec<LinkRing>,
        link: Link,
        mut files: Vec<OwnedFd>,
        anew: bool,
    ) -> Result<Joint, Error> {
        let layout = Layout::new(desc, ways, link.entry as usize);
        let other = || Error::Program("the process of the NIC has another program than that of the CPU".into());
        if files.len() != 1 + layout.cores {
            return Err(other());
        }
        let file = files.remove(0);
        // SAFETY: plain calls with a structure that lives here.
        let size = unsafe {
            let mut stat: libc::stat = std::mem::zeroed();
            libc::fstat(file.as_raw_fd(), &mut stat);
            stat.st_size as usize
        };
        if size != layout.bytes() {
            return Err(other());
        }
        let map = map(file, &layout).map_err(|e| Error::Io("cannot map the memory of the CPU's process".into(), e))?;
        let bells = files.into_iter().map(Arc::new).collect();
        let joint = Joint { anew, ..Joint::with(ProcessSide::Nic, desc, link, map, (layout, bells)) };
        match joint.words(0, 1)[0].load(Relaxed) == digest(desc, &joint.layout, &link) {
            true => Ok(joint),
            false => Err(other()),
        }
    }

    /// Descriptors for the other process: the memory, then the bells.
    pub fn files(&self) -> Vec<RawFd> {
        std::iter::once(self.map.file.as_raw_fd()).chain(self.bells.iter().map(|b| b.as_raw_fd())).collect()
    }

    pub fn bells(&self) -> Vec<Arc<OwnedFd>> {
        self.bells.clone()
    }

    pub fn board(&self) -> Board {
        Board::within(self.map.clone())
    }

    pub fn ring(&self, way: usize) -> ring::RingMemory {
        // SAFETY: the layout has a ring of this form there, whose memory was zero.
        unsafe {
            ring::RingMemory::at(self.map.at.add(self.layout.ring(way)), self.layout.forms[way], self.map.clone())
        }
    }

    fn words(&self, at: usize, count: usize) -> &[AtomicU64] {
        // SAFETY: the layout has them there.
        unsafe { std::slice::from_raw_parts(self.map.at.add(at).cast::<AtomicU64>(), count) }
    }

    /// The counters of a core, as its process shows them.
    pub fn core_words(&self, core: usize) -> &[AtomicU64] {
        let (at, count) = self.layout.core(core);
        self.words(at, count)
    }

    pub fn table_words(&self) -> &[AtomicU64] {
        let (at, count) = self.layout.tables();
        self.words(at, count)
    }

    pub fn is_anew(&self) -> bool {
        self.anew
    }

    /// The NIC's cores.
    pub fn nic_cores(desc: &Desc) -> Vec<usize> {
        nic_cores(desc).into_iter().enumerate().filter(|c| c.1).map(|c| c.0).collect()
    }
}
