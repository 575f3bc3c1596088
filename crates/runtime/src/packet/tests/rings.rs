//! Cores that exchange frames as fast as they can, without programs. Each frame arrives once, whole
//! and in order, no wake-up is lost, and all buffers return. ThreadSanitizer runs of this test are
//! manual. It knows the order of atomics but not of fences in a standard library that was built
//! without it.

use crate::abi::wl_frame;
use crate::packet::batch::{bytes, Buf, BATCH};
use crate::packet::core_mesh::Mesh;
use crate::packet::pool::Pool;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::Arc;

/// Frames that each core makes, and the buffers it has.
const FRAMES: u64 = 10_000;
const BUFFERS: usize = 300;

struct Worker {
    me: usize,
    cores: usize,
    /// Every frame is for all cores.
    shared: bool,
    pool: Pool,
    mesh: Mesh,
    made: u64,
    /// The last number that came from each core.
    last: Vec<u64>,
    done: Arc<AtomicU64>,
}

impl Worker {
    /// Runs until all cores have seen all their frames.
    fn run(mut self, all: u64) -> Worker {
        while self.done.load(SeqCst) < all {
            let busy = self.take_sends() | self.take_work() | self.make();
            self.mesh.send_late();
            self.mesh.ring_bells(false);
            if !busy {
                self.rest(all);
            }
        }
        self.mesh.shared.wake_all();
        self
    }

    /// A frame of number `n`: all of it says so.
    fn frame(&mut self, n: u64) -> Option<(Buf, wl_frame)> {
        let mut data = vec![n as u8; 24 + (n * 7919 % 300) as usize];
        data[0] = self.me as u8;
        data[8..16].copy_from_slice(&n.to_le_bytes());
        self.pool.store(&data)
    }

    fn make(&mut self) -> bool {
        let before = self.made;
        if before == FRAMES || !self.mesh.has_room() || !self.mesh.send_late() {
            return false;
        }
        while self.made < FRAMES.min(before + BATCH as u64) {
            let Some((buf, frame)) = self.frame(self.made + 1) else { break };
            self.made += 1;
            let to = (self.made * 31 % self.cores as u64) as usize;
            for core in (0..self.cores).filter(|c| *c != self.me && (self.shared || *c == to)) {
                self.pool.hold(buf);
                assert!(self.mesh.give(core, &frame, buf, 0));
            }
            // Otherwise it belongs to the other core now.
            if self.shared || to == self.me {
                self.finish(buf);
            }
        }
        self.mesh.given();
        self.made > before
    }

    fn finish(&mut self, buf: Buf) {
        self.pool.put(buf);
        self.done.fetch_add(1, SeqCst);
    }

    /// The maker of a frame, and its number.
    fn look(frame: &wl_frame) -> (usize, u64) {
        let b = bytes(frame);
        let n = u64::from_le_bytes(b[8..16].try_into().unwrap());
        assert!(b[16..].iter().all(|x| *x == n as u8) && b.len() == 24 + (n * 7919 % 300) as usize);
        (b[0].into(), n)
    }

    fn take_work(&mut self) -> bool {
        let mut busy = false;
        for from in 0..self.mesh.neighbours() {
            for _ in 0..BATCH {
                let Some(item) = self.mesh.next_work(from) else { break };
                let (maker, n) = Worker::look(&item.frame);
                assert!(n > self.last[maker], "{n} behind {}", self.last[maker]);
                self.last[maker] = n;
                busy = true;
                if n % 3 == 0 {
                    self.mesh.send((self.me + 1) % self.cores, item)
                } else {
                    self.finish(item.buf)
                }
            }
        }
        busy
    }

    fn take_sends(&mut self) -> bool {
        let mut busy = false;
        while let Some(item) = self.mesh.next_send() {
            Worker::look(&item.frame);
            self.finish(item.buf);
            busy = true;
        }
        busy
    }

    /// Sleeps until somebody rings, unless it has frames to make, for which buffers come home
    /// without a bell.
    fn rest(&mut self, all: u64) {
        if self.mesh.may_sleep() && self.made == FRAMES {
            let mut p = libc::pollfd { fd: self.mesh.bell(), events: libc::POLLIN, revents: 0 };
            // SAFETY: one pollfd that lives here.
            let rang = unsafe { libc::poll(&mut p, 1, 60_000) } > 0;
            assert!(rang || self.done.load(SeqCst) == all, "nobody has rung");
            let mut count = 0u64;
            // SAFETY: eight bytes that live here; the descriptor does not block.
            unsafe { libc::read(self.mesh.bell(), (&raw mut count).cast(), 8) };
        } else {
            std::thread::yield_now();
        }
        self.mesh.awake();
    }
}

#[test]
fn frames_between_cores_come_once_and_buffers_come_home() {
    for (cores, shared) in [(2, false), (3, false), (2, true), (3, true)] {
        let pools = if shared { Pool::all_shared(cores, BUFFERS) } else { Pool::all(cores, BUFFERS) }.unwrap();
        let all = FRAMES * cores as u64 * if shared { cores as u64 } else { 1 };
        let done = Arc::new(AtomicU64::new(0));
        let workers = pools.into_iter().zip(Mesh::all(cores, 1).unwrap()).enumerate();
        let workers = workers.map(|(me, (pool, mesh))| Worker {
            me,
            cores,
            shared,
            pool,
            mesh,
            made: 0,
            last: vec![0; cores],
            done: done.clone(),
        });
        let threads: Vec<_> = workers.map(|w| std::thread::spawn(move || w.run(all))).collect();
        let mut ended: Vec<Worker> = threads.into_iter().map(|t| t.join().unwrap()).collect();
        for w in &mut ended {
            w.pool.collect();
        }
        assert!(ended.iter_mut().all(|w| w.pool.free() == BUFFERS), "{cores} cores, shared: {shared}");
        assert_eq!(done.load(SeqCst), all);
    }
}
