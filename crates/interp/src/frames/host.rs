//! The host of a program under comparison, and its queues. In: the program's calls. Out: notes of
//! them.
//!
//! A frame that goes to a queue waits there, first in, first out. The queue's handler handles a
//! popped frame when the current handler has ended, as in the runtime.

use super::{Did, FrameIn};
use std::collections::{BTreeMap, VecDeque};
use std::os::raw::c_void;
use wireloom_ir::desc::{FrameEngine, PortKind};
use wireloom_ir::FramePart;
use wireloom_runtime::abi::*;
use wireloom_runtime::program::Packets;
use wireloom_runtime::App;

/// Popped frames that are handled at one go: a program may send what it pops to the same queue.
const AT_ONCE: usize = 1 << 12;

struct Queue {
    part: FramePart,
    depth: usize,
    /// It gives its frames to its handler by itself.
    crossing: bool,
    waiting: VecDeque<FrameIn>,
}

impl Queue {
    /// Bytes that do not cross a queue may be anything.
    fn holds_same(&self, other: &Queue) -> bool {
        let part = |f: &FrameIn| f.bytes[..self.part.there(&f.entry, f.bytes.len() as u32) as usize].to_vec();
        let all = |f: &FrameIn| (f.port, f.instance, f.time, f.wire, f.mark, f.bytes.len(), part(f));
        self.waiting.iter().map(all).eq(other.waiting.iter().map(all))
    }
}

/// The frame that the program is at.
struct Lent {
    frame: *mut wl_frame,
    /// Its memory.
    from: usize,
    to: usize,
    /// The core, of a frame that comes from a queue. As long as the program has not taken its mark
    /// (`wl_core.at`), the mark stands where it leaves through.
    marked: Option<*const wl_core>,
    /// It has been moved, and is gone.
    taken: bool,
    /// The entry of a copy, and that of the frame.
    entries: Vec<u8>,
}

pub struct Host {
    pub did: Vec<Did>,
    /// The answer of a signal.
    pub result: Vec<u8>,
    /// Handler by port.
    pub handlers: Vec<Option<u32>>,
    /// The program has broken the ABI.
    pub breach: Option<String>,
    batch: BatchFn,
    this: *mut c_void,
    /// By port; by instance.
    queues: BTreeMap<u32, Vec<Queue>>,
    popped: VecDeque<FrameIn>,
    serving: bool,
    lent: Option<Lent>,
    /// Bytes of an entry, and what the bytes of a frame become that do not cross its queue.
    entry: usize,
    pub gone: u8,
    /// That of a copy, while no frame is at hand.
    pub own_entry: Vec<u8>,
}

impl Host {
    /// Makes the program call this module's functions.
    ///
    /// # Safety
    /// Nothing runs the program now, nor later but with a core whose `rt` is such a host.
    pub unsafe fn new(app: &App, packets: Packets, handlers: Vec<Option<u32>>) -> Host {
        // SAFETY: by contract.
        unsafe { packets.set_host(transmit, queue, serve) };
        let depth = |kind: &PortKind, n: &String| match kind {
            PortKind::Frames { engine: FrameEngine::Lossless, .. } => usize::MAX,
            _ => n.parse().unwrap_or(1),
        };
        let queue = |(kind, part): (&PortKind, FramePart), n: &String| Queue {
            part,
            depth: depth(kind, n),
            crossing: kind.is_crossing(),
            waiting: VecDeque::new(),
        };
        let ports = app.desc.ports.iter().zip(&app.settings.ports).enumerate();
        let queues = ports
            .filter(|(_, (p, _))| p.kind.is_queue())
            .map(|(i, (p, s))| (i as u32, s.names.iter().map(|n| queue((&p.kind, p.part), n)).collect()))
            .collect();
        Host {
            did: Vec::new(),
            result: Vec::new(),
            handlers,
            breach: None,
            batch: packets.batch,
            this: packets.this,
            queues,
            popped: VecDeque::new(),
            serving: false,
            lent: None,
            entry: app.desc.entry as usize,
            gone: 0,
            own_entry: vec![0; app.desc.entry as usize],
        }
    }

    pub fn is_queue(&self, port: u32) -> bool {
        self.queues.contains_key(&port)
    }

    /// How many frames wait, in both alike.
    pub fn compare_queues(&self, other: &Host) -> Result<u64, String> {
        let mut sum = 0;
        for (port, list) in &self.queues {
            for (i, q) in list.iter().enumerate() {
                let theirs = other.queues.get(port).and_then(|l| l.get(i));
                if !theirs.is_some_and(|o| q.holds_same(o)) {
                    return Err(format!(
                        "queue {port}[{i}] at the end: a has {} packets, b {}, or others",
                        q.waiting.len(),
                        theirs.map_or(0, |q| q.waiting.len())
                    ));
                }
                sum += q.waiting.len() as u64;
            }
        }
        Ok(sum)
    }

    /// Frames on their way to another segment, which nobody has handled.
    pub fn crossed(&mut self) -> Vec<FrameIn> {
        std::iter::from_fn(|| self.next_crossed()).collect()
    }

    fn next_crossed(&mut self) -> Option<FrameIn> {
        let crossing = self.queues.values_mut().flatten().filter(|q| q.crossing);
        crossing.into_iter().find_map(|q| q.waiting.pop_front())
    }

    /// A frame leaves, or begins to wait.
    fn deliver(&mut self, (port, instance): (u32, u32), with: (u32, Vec<u8>), mut bytes: Vec<u8>, time: u64) {
        let (mark, entry) = with;
        let Some(list) = self.queues.get_mut(&port) else { return self.did.push(Did::Sent { port, instance, bytes }) };
        if let Some(q) = list.get_mut(instance as usize).filter(|q| q.waiting.len() < q.depth) {
            let wire = bytes.len() as u32;
            let there = q.part.there(&entry, wire);
            bytes[there as usize..].fill(self.gone);
            q.waiting.push_back(FrameIn {
                port: port as usize,
                instance: instance as u16,
                time,
                wire,
                bytes,
                rooms: (WL_HEADROOM, WL_TAILROOM),
                mark,
                entry,
            });
        }
    }

    /// If the current frame has been moved, it leaves. Other effects ask first: elements inlined
    /// or not, a send is the last use of its frame or not, and effects keep their order.
    fn take_moved(&mut self) {
        let Some(lent) = self.lent.as_mut().filter(|l| !l.taken) else { return };
        // SAFETY: the frame lives while it is lent, and the program is inside a call of ours or has
        // ended.
        let f = unsafe { *lent.frame };
        // SAFETY: as above.
        let has_mark = lent.marked.is_some_and(|core| unsafe { (*core).at } != lent.frame);
        if f.out == WL_GONE || has_mark {
            return;
        }
        lent.taken = true;
        let at = f.p as usize;
        let end = at.wrapping_add(f.n as usize);
        if at < lent.from
            || end > lent.to
            || end < at
            || f.head as usize != at - lent.from
            || f.tail as usize != lent.to - end
        {
            self.breach = Some(format!(
                "the frame that leaves is not where it says: {} bytes, rooms {} and {}",
                f.n, f.head, f.tail
            ));
            return;
        }
        // SAFETY: within the frame's memory, as was just seen.
        let bytes = unsafe { std::slice::from_raw_parts(f.p, f.n as usize) }.to_vec();
        let entry = lent.entries[self.entry..].to_vec();
        self.deliver((f.out >> 16, f.out & 0xffff), (f.mark(), entry), bytes, f.time);
    }

    fn entry_of_copy(&self) -> Vec<u8> {
        match &self.lent {
            Some(l) => l.entries[..self.entry].to_vec(),
            None => self.own_entry.clone(),
        }
    }

    fn ask(&mut self, port: u32, instance: u32, act: u32) -> u32 {
        self.take_moved();
        let Some(q) = self.queues.get_mut(&port).and_then(|l| l.get_mut(instance as usize)) else { return 0 };
        match act {
            WL_Q_LEN => q.waiting.len() as u32,
            WL_Q_FIRST => q.waiting.front().map_or(0, |f| f.bytes.len() as u32),
            _ => {
                let Some(f) = q.waiting.pop_front() else { return 0 };
                if act == WL_Q_POP {
                    self.popped.push_back(f);
                }
                1
            }
        }
    }
}

/// # Safety
/// The core is a runner's; whoever has this does not let the program run meanwhile.
unsafe fn host<'a>(core: *mut wl_core) -> &'a mut Host {
    // SAFETY: by contract.
    unsafe { &mut *(*core).rt.cast::<Host>() }
}

/// Has the program handle a frame, which lies in memory of just its size and rooms.
///
/// # Safety
/// The core is a runner's; the program is at rest, or between two frames.
pub unsafe fn handle(core: *mut wl_core, f: &FrameIn) {
    // SAFETY: by contract.
    let h = unsafe { host(core) };
    let Some(handler) = h.handlers.get(f.port).copied().flatten() else { return };
    let (head, tail, n) = (f.rooms.0 as usize, f.rooms.1 as usize, f.bytes.len());
    let mut memory = vec![0xa5u8; head + n + tail].into_boxed_slice();
    memory[head..head + n].copy_from_slice(&f.bytes);
    let range = memory.as_mut_ptr_range();
    // SAFETY: within the box.
    let p = unsafe { range.start.add(head) };
    let mut frame = wl_frame {
        p,
        n: n as u32,
        head: f.rooms.0,
        tail: f.rooms.1,
        port: f.port as u16,
        instance: f.instance,
        time: f.time,
        wire: f.wire.max(n as u32),
        out: if h.is_queue(f.port as u32) { f.mark } else { WL_GONE },
    };
    // SAFETY: by contract.
    let at_before = unsafe { (*core).at };
    let outer = h.lent.replace(Lent {
        frame: &raw mut frame,
        from: range.start as usize,
        to: range.end as usize,
        marked: h.is_queue(f.port as u32).then_some(core.cast_const()),
        taken: false,
        entries: [vec![0; h.entry], f.entry.clone(), vec![0; h.entry - f.entry.len().min(h.entry)]].concat(),
    });
    let at = h.entry;
    let entries = h.lent.as_mut().map_or(std::ptr::null_mut(), |l| l.entries.as_mut_ptr().wrapping_add(at));
    let (batch, this) = (h.batch, h.this);
    // SAFETY: one frame, in memory that lives here; the program builds anew.
    unsafe {
        (*core).out.p = (*core).out.start;
        let before = ((*core).frames, (*core).entries);
        (*core).at = std::ptr::null_mut();
        ((*core).frames, (*core).entries) = (&raw mut frame, entries);
        batch(this, core, handler, &raw mut frame, 1);
        ((*core).frames, (*core).entries) = before;
    }
    // SAFETY: the program has ended.
    let h = unsafe { host(core) };
    h.take_moved();
    h.lent = outer;
    // SAFETY: by contract.
    unsafe { (*core).at = at_before };
}

/// The functions that a runner's programs call.
pub fn table() -> wl_host {
    wl_host {
        reply: Some(reply),
        send: Some(send),
        grow: Some(grow),
        log: Some(log),
        fault: Some(fault),
        ..wl_host::without_connections()
    }
}

unsafe extern "C" fn transmit(core: *mut wl_core, port: u32, instance: u32, p: *const u8, n: u32) {
    // SAFETY: called by the program with n valid bytes.
    unsafe {
        let bytes = if n == 0 { Vec::new() } else { std::slice::from_raw_parts(p, n as usize).to_vec() };
        // A frame that was moved before goes first.
        host(core).take_moved();
        let entry = host(core).entry_of_copy();
        host(core).deliver((port, instance & 0xffff), ((*core).mark, entry), bytes, (*core).now);
    }
}

unsafe extern "C" fn queue(core: *mut wl_core, port: u32, instance: u32, act: u32) -> u32 {
    // SAFETY: as for transmit.
    unsafe { host(core) }.ask(port, instance, act)
}

/// Handles what was sent from one segment to another.
///
/// # Safety
/// As for [`handle`].
pub unsafe fn serve_crossings(core: *mut wl_core) {
    // SAFETY: by contract; no reference is kept while the program runs.
    unsafe {
        for _ in 0..AT_ONCE {
            let Some(f) = host(core).next_crossed() else { break };
            handle(core, &f);
            serve(core);
        }
    }
}

/// Handles what was popped.
///
/// # Safety
/// As for [`handle`].
pub unsafe extern "C" fn serve(core: *mut wl_core) {
    // SAFETY: by contract; no reference is kept while the program runs.
    unsafe {
        if host(core).serving || host(core).popped.is_empty() {
            return;
        }
        host(core).take_moved();
        host(core).serving = true;
        for _ in 0..AT_ONCE {
            let Some(f) = host(core).popped.pop_front() else { break };
            handle(core, &f);
        }
        host(core).serving = false;
    }
}

unsafe extern "C" fn send(task: *mut wl_task, port: u32, index: u32, head: wl_bytes, _: u32) {
    // SAFETY: as for transmit.
    unsafe {
        let core = (*task).core;
        host(core).take_moved();
        host(core).deliver((port, index & 0xffff), (0, Vec::new()), head.as_slice().to_vec(), (*core).now);
    }
}

unsafe extern "C" fn log(core: *mut wl_core, level: u32, text: wl_bytes) {
    // SAFETY: as for transmit.
    unsafe {
        host(core).take_moved();
        host(core).did.push(Did::Log { level, text: text.as_slice().to_vec() })
    }
}

unsafe extern "C" fn fault(core: *mut wl_core, kind: u32, place: u32) {
    // SAFETY: as for transmit.
    unsafe {
        host(core).take_moved();
        host(core).did.push(Did::Fault { kind: kind as u16, place })
    }
}

unsafe extern "C" fn grow(_: *mut wl_core, _: u32) -> i32 {
    0
}

unsafe extern "C" fn reply(task: *mut wl_task, head: wl_bytes, _: u32, _: u32) {
    // SAFETY: as for transmit.
    unsafe { host((*task).core).result = head.as_slice().to_vec() }
}
