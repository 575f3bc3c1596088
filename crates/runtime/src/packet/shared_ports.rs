//! Ports that several apps of a process share. In: instances as they are opened. Out: for each app
//! an endpoint of its own that sends through the one port, and the app that reads it.

use super::batch::Batch;
use super::core::Member;
use super::pcap::Style;
use super::pool::Pool;
use super::port::{FramePort, Sent};
use std::io;
use std::os::fd::RawFd;
use std::sync::{Arc, Mutex, MutexGuard};

/// A shared port. All its users are on one core: the lock is never waited for.
#[derive(Clone)]
pub struct Common(Arc<Mutex<Box<dyn FramePort>>>);

impl Common {
    pub fn new(port: Box<dyn FramePort>) -> Common {
        Common(Arc::new(Mutex::new(port)))
    }

    fn port(&self) -> MutexGuard<'_, Box<dyn FramePort>> {
        self.0.lock().unwrap_or_else(|e| e.into_inner())
    }
}

/// An end of a shared port: of the core that reads it for all, or of an app that sends.
pub struct Tap {
    port: Common,
    /// Reads; else it only sends.
    reads: bool,
    /// The app's name of the instance, and the name under which it was opened.
    names: [(u16, u16); 2],
}

impl Tap {
    pub fn reader(port: Common) -> Tap {
        Tap { port, reads: true, names: [(0, 0); 2] }
    }

    pub fn sender(port: Common, name: (u16, u16), opened_as: (u16, u16)) -> Tap {
        Tap { port, reads: false, names: [name, opened_as] }
    }
}

impl FramePort for Tap {
    fn receive(&mut self, pool: &mut Pool, into: &mut Batch, until: u64) -> io::Result<()> {
        self.port.port().receive(pool, into, until)
    }

    fn transmit(&mut self, pool: &mut Pool, batch: &mut Batch) -> Sent {
        let [own, opened_as] = self.names;
        if own != opened_as {
            // An answer leaves by the instance from which the frame came.
            for f in batch.frames.iter_mut().filter(|f| (f.port, f.instance) == own) {
                (f.port, f.instance) = opened_as;
            }
        }
        self.port.port().transmit(pool, batch)
    }

    fn offloads(&self) -> bool {
        self.port.port().offloads()
    }

    fn fd(&self) -> Option<RawFd> {
        self.port.port().fd()
    }

    fn ended(&self) -> bool {
        self.port.port().ended()
    }

    fn is_capture(&self) -> bool {
        self.port.port().is_capture()
    }

    fn next_time(&mut self) -> Option<u64> {
        self.port.port().next_time()
    }

    fn lost(&mut self) -> u64 {
        self.port.port().lost()
    }

    fn tend(&mut self, pool: &mut Pool) {
        self.port.port().tend(pool);
    }

    fn finish(&mut self, pool: &mut Pool) -> io::Result<()> {
        // The sending ends report it.
        if self.reads {
            Ok(())
        } else {
            self.port.port().finish(pool)
        }
    }
}

/// An open instance, with all its users.
#[derive(Clone)]
pub struct Opened {
    /// The first app's name for it: port and instance.
    pub opened_as: (u16, u16),
    /// Its ends: each one's core, and where the first app has it.
    pub ends: Vec<(usize, usize, Common)>,
    /// By core, how it is sent to.
    pub ways: Vec<SendsBy>,
    /// Time of a capture's first frame, and how it is written.
    pub capture: Option<u64>,
    pub style: Option<Style>,
    pub readers: Vec<Member>,
}

/// How a core sends through a shared port.
#[derive(Clone, Copy, Debug)]
pub enum SendsBy {
    /// One of its ends.
    End(usize),
    Core(usize),
    Nowhere,
}
