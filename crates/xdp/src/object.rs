//! A loaded program, with its maps.

use crate::compile::Thrift;
use crate::direct::Direct;
use crate::error::{missing, of_program};
use crate::layout::{core_size, words_of_tables};
use crate::lines::text_of;
use crate::machine::Machine;
use crate::maps::map_of;
use crate::match_tables::{Patterns, WildcardTable};
use crate::programs::{load_programs, program};
use crate::ring::Ring;
use crate::shared::Shared;
use crate::sums;
use crate::wildcard_entries::WildcardEntries;
use crate::wildcard_masks::{WildcardMasks, WildcardMemory};
use crate::{kernel, Error, Verdict};
use aya::maps::{DevMap, Map};
use aya::programs::{ProgramError, ProgramFd, XdpMode};
use aya::{Ebpf, EbpfLoader};
use std::collections::{BTreeMap, HashSet};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::time::{Duration, Instant};
use wireloom_codegen_c::xdp::{
    tables, XdpSource, XdpTable, ALONE, COUNTERS, FATES, HELD, LINES_BYTES, LOST, MINE, PARAM_WORDS, PART, RING,
    RINGED, STATISTICS,
};
use wireloom_interp::{Pattern, Ranked};
use wireloom_ir::{PortId, TableId, TableKind, HLL_REGISTERS};
use wireloom_runtime::clock;

/// Where the kernel runs a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// In the driver, or else in the network stack.
    Auto,
    /// In the driver.
    Native,
    /// In the network stack, after the kernel has made a packet buffer: slower.
    Generic,
}

/// A program that is in front of an interface.
#[derive(Debug)]
pub struct Attached {
    pub mode: Mode,
    /// The reason for which the driver has not taken it.
    pub not_native: Option<Error>,
    /// The reason for which checksums stay undone that senders have left to hardware.
    pub unfinished: Option<String>,
}

/// The result of a test run.
#[derive(Clone, Debug, PartialEq)]
pub struct Ran {
    pub verdict: Verdict,
    /// The frame as it leaves.
    pub frame: Vec<u8>,
    /// Of a run, on average.
    pub nanoseconds: f64,
}

pub struct Object {
    pub(crate) ebpf: Ebpf,
    /// The reason for which no program can be in front of another one.
    pub(crate) no_fronts: Option<String>,
    source: XdpSource,
    /// The state of each processor, one behind the other.
    cores: Arc<Shared>,
    core_size: usize,
    /// Parts of frames go through rings; what wakes a sleeping process.
    ringed: Arc<AtomicBool>,
    bell: u64,
    processors: u32,
    /// The lines of each exact table.
    tables: Vec<Option<Shared>>,
    /// One queue brings all frames, and whether tables are without locks just now.
    one_queue: bool,
    lockless: AtomicBool,
    /// Processors have parts of tables of their own, which packets use without locks just as long.
    parted: bool,
    /// By table: the entries of those of patterns, and rings.
    patterns: Vec<Patterns>,
    rings: Vec<Option<Ring>>,
    /// The time that the kernel needed to load the programs.
    took: Duration,
    /// Of lines of the log.
    lines: Option<Ring>,
    /// By table: the registers of a HyperLogLog.
    registers: Vec<Option<Shared>>,
    pub(crate) once: Option<String>,
    pub(crate) thrift: Thrift,
}

/// The values for which programs are loaded.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// Interfaces of ports with several instances, by number.
    pub interfaces: Vec<(PortId, Vec<u32>)>,
    /// Values of parameters that are not in the text: by number, all words that each may have.
    pub params: Vec<[u64; PARAM_WORDS]>,
    /// An interface may have a program in front of the handler's.
    pub fronted: bool,
    /// The time is what [`Object::set_time`] says: for tests.
    pub manual_time: bool,
    /// The kind of programs that is tried before all others: for tests.
    pub begin: Thrift,
    /// Called before clang runs.
    pub starting: Option<fn()>,
}

/// Values of the word [`RINGED`]: `WL_AWAKE` and `WL_ASLEEP` of `support/bpf.h`.
const AWAKE: u64 = 1;
const ASLEEP: u64 = 2;

/// Numbers in the place of addresses: `support/bpf.h` and `bpf_bytes.h`.
const DIRECT_CORES: u64 = 0x5157_bd31_a90c_66e1;
const DIRECT_SCRATCH: u64 = 0x68e2_c94f_1b07_d35b;

/// Sets a word of the states of all processors.
fn set_all(cores: &Shared, (size, processors): (usize, u32), word: usize, to: u64) {
    (0..processors as usize).for_each(|n| cores.set(n * size + 8 * word, to))
}

/// The consumer of the rings for parts of frames.
#[derive(Clone)]
pub struct RingReader {
    cores: Arc<Shared>,
    /// Bytes of a processor's state, and the number of processors.
    of: (usize, u32),
    ringed: Arc<AtomicBool>,
    bell: u64,
}

impl RingReader {
    /// It looks at the rings by itself, or wants to be woken.
    pub fn is_awake(&self, awake: bool) {
        if self.ringed.load(Ordering::Relaxed) {
            set_all(&self.cores, self.of, RINGED, if awake { AWAKE } else { ASLEEP })
        }
    }

    /// As of [`Object::lost`].
    pub fn lost(&self) -> u64 {
        let (size, processors) = self.of;
        (0..processors as usize).fold(0, |a, n| a.wrapping_add(self.cores.word(n * size + 8 * (PROCESS + 2))))
    }

    /// The number that a frame to a sleeping process begins with; it has nothing else.
    pub fn bell(&self) -> u64 {
        self.bell
    }
}

/// An entry of a table, and the place behind it.
pub type Entry = (u64, Vec<u8>, Vec<u8>);

impl Object {
    /// `globals`: constants of programs that were compiled for any machine.
    pub(crate) fn load_compiled(
        source: &XdpSource,
        settings: &Settings,
        mut bytes: Vec<u8>,
        (here, globals): (&Machine, &[(&str, u64)]),
    ) -> Result<Object, Error> {
        here.put_into(&mut bytes);
        let (processors, core_size) = (kernel::processors(), core_size(source));
        let states = Direct::new("wl_cores", DIRECT_CORES, core_size * processors as usize)?;
        states.put_into(&mut bytes);
        // The programs keep the map.
        let scratch = match source.scratch_bytes {
            0 => None,
            n => Some(Direct::new("wl_scratches", DIRECT_SCRATCH, n * processors as usize)?),
        };
        if let Some(scratch) = &scratch {
            scratch.put_into(&mut bytes)
        }
        let mut wildcard = Vec::new();
        for (n, t) in source.tables.iter().enumerate().filter(|(_, t)| t.kind == TableKind::Wildcard) {
            let memory = WildcardMemory::new(t)?;
            memory.put_into(&mut bytes);
            wildcard.push((n, memory));
        }
        let mut loader = EbpfLoader::new();
        let mut lines_of = BTreeMap::new();
        for t in source.tables.iter().filter(|t| t.kind == TableKind::Exact) {
            let parts = if t.sums.is_some() { processors } else { 1 };
            if let Some(number) = t.direct.filter(|_| t.is_direct(parts)) {
                let lines = Direct::new(&t.map, number, t.bytes() * parts as usize)?;
                lines.put_into(&mut bytes);
                lines_of.insert(&t.map, lines);
            } else {
                loader.map_max_entries(&t.map, t.lines.saturating_mul(parts));
            }
        }
        for t in source.tables.iter().filter(|t| t.kind == TableKind::Array && t.sums.is_some()) {
            loader.map_max_entries(&t.map, (t.capacity as u32).saturating_mul(processors));
        }
        for (name, value) in globals {
            loader.override_global(name, value, true);
        }
        let params: Vec<(String, &[u64; PARAM_WORDS], usize)> = source
            .params
            .iter()
            .filter_map(|(p, words)| Some((XdpSource::param(*p), settings.params.get(p.index())?, *words)))
            .collect();
        for (name, value, words) in &params {
            loader.override_global(name, &value[..*words], true);
        }
        let bell = kernel::random()?;
        loader.override_global("wl_bell", &bell, false);
        let fronted = u64::from(settings.fronted);
        loader.override_global("wl_fronted", &fronted, false);
        let interfaces = source.programs.iter().filter_map(|p| Some((p.interfaces()?, p.port)));
        let interfaces: Vec<(String, &Vec<u32>)> = interfaces
            .filter_map(|(name, port)| Some((name, &settings.interfaces.iter().find(|i| i.0 == port)?.1)))
            .collect();
        for (name, numbers) in &interfaces {
            loader.override_global(name, numbers.as_slice(), false);
        }
        let begin = Instant::now();
        let (ebpf, no_fronts) = load_programs(&mut loader, &bytes, source, settings.fronted)?;
        let took = begin.elapsed();
        let cores = Arc::new(Shared::writable(states.map(), core_size * processors as usize)?);
        let lines = |t: &XdpTable| {
            if t.kind != TableKind::Exact {
                return Ok(None);
            }
            let map = match lines_of.get(&t.map) {
                Some(lines) => lines.map(),
                None => map_of(&ebpf, &t.map).map_err(|_| missing(&t.map))?,
            };
            let parts = if t.sums.is_some() { processors } else { 1 };
            Shared::new(map, t.bytes() * parts as usize).map(Some)
        };
        let tables = source.tables.iter().map(lines).collect::<Result<_, _>>()?;
        let mut patterns: Vec<Patterns> = source.tables.iter().map(|_| Patterns::default()).collect();
        for (n, memory) in &wildcard {
            let t = &source.tables[*n];
            patterns[*n].wildcard =
                Some(WildcardTable::new(WildcardMasks::new(t, memory)?, WildcardEntries::new(&ebpf, t)?, t));
        }
        let ring = |t: &XdpTable| {
            if t.kind != TableKind::Ring {
                return Ok(None);
            }
            let map = map_of(&ebpf, &t.map).map_err(|_| missing(&t.map))?;
            Ring::new(map, t.ring as usize, 8 * t.value_words().max(1)).map(Some)
        };
        let rings = source.tables.iter().map(ring).collect::<Result<_, _>>()?;
        let register = |t: &XdpTable| {
            if t.kind != TableKind::HyperLogLog {
                return Ok(None);
            }
            let map = map_of(&ebpf, &t.map).map_err(|_| missing(&t.map))?;
            Shared::writable(map, 8 * HLL_REGISTERS as usize).map(Some)
        };
        let registers = source.tables.iter().map(register).collect::<Result<_, _>>()?;
        let lines = match source.lines.is_empty() {
            true => None,
            false => {
                let map = map_of(&ebpf, "wl_lines").map_err(|_| missing("wl_lines"))?;
                Some(Ring::new(map, LINES_BYTES as usize, 0)?)
            }
        };
        let (source, lockless, one_queue) = (source.clone(), AtomicBool::new(false), false);
        let ringed = Arc::default();
        (0..processors as usize).for_each(|n| cores.set(n * core_size + 8 * PART, n as u64));
        let parted = source.tables.iter().any(|t| t.sums.is_some()) && kernel::await_programs();
        let object = Object {
            ebpf,
            no_fronts: no_fronts.map(|e| e.to_string()),
            source,
            cores,
            core_size,
            ringed,
            bell,
            processors,
            tables,
            one_queue,
            lockless,
            parted,
            patterns,
            rings,
            took,
            lines,
            registers,
            once: None,
            thrift: Thrift::Fast,
        };
        object.settle();
        Ok(object)
    }

    /// Runs a program on a frame of 14 to 3,520 bytes that comes from the interface number 1. The
    /// program has a place among those of the source.
    pub fn test(&self, program: usize, frame: &[u8]) -> io::Result<Ran> {
        self.test_many(program, frame, 1)
    }

    /// The same several times, for benches.
    pub fn test_many(&self, program: usize, frame: &[u8], repeat: u32) -> io::Result<Ran> {
        let program = self.source.programs.get(program).ok_or(io::ErrorKind::NotFound)?;
        let (verdict, frame, nanoseconds) = self.run(&program.name, frame, repeat)?;
        Ok(Ran { verdict: verdict.into(), frame, nanoseconds })
    }

    /// The descriptor of a program for frames.
    pub(crate) fn descriptor(&self, program: usize) -> Result<&ProgramFd, Error> {
        let name = self.source.programs.get(program).map_or("", |p| &p.name);
        self.ebpf.program(name).ok_or_else(|| missing(name))?.fd().map_err(|e| of_program(name, e))
    }

    /// Sets the time of programs that were loaded with [`Settings::manual_time`], in nanoseconds.
    pub fn set_time(&self, now: u64) -> io::Result<()> {
        kernel::map_update(map_of(&self.ebpf, "wl_clock")?, &0u32.to_ne_bytes(), &now.to_ne_bytes())
    }

    fn run(&self, name: &str, data: &[u8], repeat: u32) -> io::Result<(u32, Vec<u8>, f64)> {
        let gone = || io::Error::from(io::ErrorKind::NotFound);
        let program = self.ebpf.program(name).ok_or_else(gone)?;
        kernel::test_run(program.fd().map_err(|_| gone())?.as_fd(), data, repeat)
    }

    /// Instructions that the kernel's verifier has followed, of the largest program for frames.
    /// `None`: the kernel does not tell.
    pub fn verified(&self) -> Option<u32> {
        let of = |name: &str| self.ebpf.program(name)?.info().ok()?.verified_instruction_count();
        self.source.programs.iter().map(|p| of(&p.name)).collect::<Option<Vec<u32>>>()?.into_iter().max()
    }

    /// Puts a program in front of an interface.
    pub fn attach(&mut self, program_number: usize, interface: &str, mode: Mode) -> Result<Attached, Error> {
        let wanted: &[(Mode, XdpMode)] = match mode {
            Mode::Auto => &[(Mode::Native, XdpMode::Driver), (Mode::Generic, XdpMode::Skb)],
            Mode::Native => &[(Mode::Native, XdpMode::Driver)],
            Mode::Generic => &[(Mode::Generic, XdpMode::Skb)],
        };
        let (mut not_native, mut unfinished) = (None, None);
        let name = self.source.programs.get(program_number).map_or(String::new(), |p| p.name.clone());
        for (mode, kernel) in wanted {
            // In generic mode the kernel itself completes checksums.
            let front = match self.front(program_number, interface).filter(|_| *mode == Mode::Native).transpose() {
                Ok(front) => front,
                Err(why) => {
                    unfinished = Some(why);
                    None
                }
            };
            match program(&mut self.ebpf, front.as_ref().unwrap_or(&name))?.attach(interface, *kernel) {
                Ok(_) => return Ok(Attached { mode: *mode, not_native, unfinished }),
                Err(e) => {
                    let e = of_attaching(interface, *mode, e);
                    if !matches!(e, Error::Mode { .. }) {
                        return Err(e);
                    }
                    not_native = Some(e)
                }
            }
        }
        Err(not_native.unwrap_or_else(|| Error::NoInterface(interface.into())))
    }

    /// Makes a place of a map of interfaces an interface. `None`: of the map of ports; else of the
    /// map of all interfaces of a port.
    pub fn redirect(&mut self, all_of: Option<PortId>, place: u32, interface: &str) -> Result<(), Error> {
        let index = number_of(interface)?;
        let name = all_of.map_or("wl_ports".to_string(), XdpSource::broadcast_map);
        let map = self.ebpf.map_mut(&name).ok_or_else(|| missing(&name))?;
        let mut ports = DevMap::try_from(map).map_err(|e| Error::Compile(e.to_string()))?;
        ports
            .set(place, index, None, 0)
            .map_err(|e| Error::System(format!("cannot send to `{interface}`"), io::Error::other(e.to_string())))
    }

    /// The map of the sockets that take the frames which a program gives to the process.
    pub fn sockets(&self, program: usize) -> Result<OwnedFd, Error> {
        let name = self.source.programs.get(program).map_or(String::new(), |p| p.sockets());
        match self.ebpf.map(&name) {
            Some(Map::XskMap(data)) => data
                .fd()
                .as_fd()
                .try_clone_to_owned()
                .map_err(|e| Error::System("cannot share the map of sockets".into(), e)),
            _ => Err(missing(&name)),
        }
    }

    /// The ring of a program for parts of frames, and its bytes. None: it has none.
    pub fn ring(&self, program: usize) -> Result<Option<(OwnedFd, usize)>, Error> {
        let Some(p) = self.source.programs.get(program).filter(|p| p.ringed) else { return Ok(None) };
        let map = map_of(&self.ebpf, &p.ring()).map_err(|_| missing(&p.ring()))?;
        let own = map.try_clone_to_owned().map_err(|e| Error::System("cannot share the ring of frames".into(), e))?;
        Ok(Some((own, RING as usize)))
    }

    /// Says whether parts of frames go through the rings.
    pub fn set_ringed(&self, ringed: bool) {
        self.ringed.store(ringed, Ordering::SeqCst);
        set_all(&self.cores, (self.core_size, self.processors), RINGED, if ringed { ASLEEP } else { 0 })
    }

    /// The consumer's end of the word of all rings: it waits for nobody.
    pub fn reader(&self) -> RingReader {
        let of = (self.core_size, self.processors);
        RingReader { cores: self.cores.clone(), of, ringed: self.ringed.clone(), bell: self.bell }
    }

    /// Parts of frames for which a ring had no room; they are among those given.
    pub fn lost(&self) -> u64 {
        self.sum(PROCESS + 2)
    }

    /// The sum of a word over all processors.
    pub(crate) fn sum(&self, word: usize) -> u64 {
        (0..self.processors as usize).fold(0, |a, n| a.wrapping_add(self.cores.word(n * self.core_size + 8 * word)))
    }

    /// A counter of the app.
    pub fn counter(&self, n: usize) -> u64 {
        self.sum(COUNTERS + n)
    }

    /// Frames that had this fate.
    pub fn fate(&self, verdict: Verdict) -> u64 {
        self.sum(match verdict {
            Verdict::Aborted => 0,
            Verdict::Drop => 1,
            Verdict::Pass => 2,
            Verdict::Tx => 3,
            Verdict::Redirect => 4,
            Verdict::Other(n) => n as usize % FATES,
        })
    }

    /// Frames that were redirected to the process; they are among those of `Verdict::Redirect`.
    pub fn given(&self) -> u64 {
        self.sum(PROCESS)
    }

    /// Frames for the process for which there was no socket, or no room for a note; they are among
    /// those of `Verdict::Drop`.
    pub fn unheard(&self) -> u64 {
        self.sum(PROCESS + 1)
    }

    /// Faults of a kind.
    pub fn faults(&self, kind: u16) -> u64 {
        if (kind as usize) < self.source.faults {
            self.sum(COUNTERS + self.source.counters.max(1) + kind as usize)
        } else {
            0
        }
    }

    /// Kind, place and number of the faults that occurred.
    pub fn faults_by_place(&self) -> Vec<(u32, u32, u64)> {
        let first = words_of_tables(&self.source) + self.source.tables.len().max(1) * STATISTICS;
        let mut all = Vec::new();
        for kind in 0..self.source.faults {
            let mut rest = self.faults(kind as u16);
            for place in 0..self.source.places {
                if rest == 0 {
                    break;
                }
                let n = self.sum(first + place * self.source.faults + kind);
                if n > 0 {
                    all.push((kind as u32, place as u32, n));
                }
                rest = rest.saturating_sub(n);
            }
            if rest > 0 {
                all.push((kind as u32, u32::MAX, rest));
            }
        }
        all
    }

    /// The place of a table of the app among those of the program.
    pub fn table(&self, table: TableId) -> Option<usize> {
        self.source.tables.iter().position(|t| t.table == table)
    }

    /// Says whether frames come by one receiving queue only, in native mode: the kernel handles
    /// them one after the other. Then packets need no locks while the process changes no table.
    pub fn set_one_queue(&mut self, one: bool) {
        self.with_locks();
        self.one_queue = one && self.source.tables.iter().any(XdpTable::is_locked) && kernel::await_programs();
        self.settle();
    }

    /// Whether packets use tables without locks, as long as the process changes none.
    pub fn has_one_queue(&self) -> bool {
        self.one_queue
    }

    /// The process has changed what it wanted to: packets go on without locks.
    pub fn settle(&self) {
        if (self.one_queue || self.parted) && !self.lockless.swap(true, Ordering::Relaxed) {
            self.set_lockless(u64::from(self.one_queue), u64::from(self.parted))
        }
    }

    /// Packets take locks from now on: no program runs any more that began without them.
    fn with_locks(&self) {
        if self.lockless.swap(false, Ordering::Relaxed) {
            self.set_lockless(0, 0);
            kernel::await_programs();
        }
    }

    fn set_lockless(&self, alone: u64, mine: u64) {
        set_all(&self.cores, (self.core_size, self.processors), ALONE, alone);
        set_all(&self.cores, (self.core_size, self.processors), MINE, mine)
    }

    /// The parts of a table: one for each processor, or the whole.
    fn parts(&self, t: &XdpTable) -> u64 {
        if t.sums.is_some() {
            u64::from(self.processors)
        } else {
            1
        }
    }

    /// A change of a part of a table by its program in the kernel: the result, and the entry's
    /// value.
    fn change(&self, (table, part): (usize, u64), what: u64, key: &[u8], value: &[u8]) -> io::Result<(u32, Vec<u8>)> {
        self.with_locks();
        let t = self.source.tables.get(table).ok_or(io::ErrorKind::NotFound)?;
        let (keys, values) = (8 * t.key_words(), 8 * t.value_words());
        let mut frame = vec![0u8; (8 + keys + values).max(16)];
        frame[..8].copy_from_slice(&(part << 8 | what).to_le_bytes());
        frame[8..8 + key.len().min(keys)].copy_from_slice(&key[..key.len().min(keys)]);
        let at = 8 + keys;
        frame[at..at + value.len().min(values)].copy_from_slice(&value[..value.len().min(values)]);
        let program = t.program.as_deref().ok_or(io::ErrorKind::NotFound)?;
        let (result, out, _) = self.run(program, &frame, 1)?;
        Ok((result, out.get(at..at + t.value).unwrap_or_default().to_vec()))
    }

    fn is_done(&self, of: (usize, u64), what: u64, key: &[u8], value: &[u8]) -> bool {
        self.change(of, what, key, value).is_ok_and(|r| r.0 == 1)
    }

    fn value_of(&self, of: (usize, u64), what: u64, key: &[u8]) -> Option<Vec<u8>> {
        self.change(of, what, key, &[]).ok().filter(|r| r.0 == 1).map(|r| r.1)
    }

    /// The value of an entry; that counts as a use of it. Of a table in parts: the sum of them.
    pub fn get(&self, table: usize, key: &[u8]) -> Option<Vec<u8>> {
        let t = self.source.tables.get(table)?;
        let Some(numbers) = &t.sums else { return self.value_of((table, 0), tables::GET, key) };
        let (mut sum, mut used) = (None, 0);
        for part in 0..self.parts(t) {
            let Some(value) = self.value_of((table, part), tables::LOOK, key) else { continue };
            match &mut sum {
                None => (sum, used) = (Some(value), part),
                Some(sum) => sums::add(numbers, sum, &value),
            }
        }
        // One use, of the part that has the entry.
        self.value_of((table, used), tables::GET, key);
        sum
    }

    /// Adds or replaces an entry. False: there is no room. Of a table in parts the first one has it
    /// then.
    pub fn put(&self, table: usize, key: &[u8], value: &[u8]) -> bool {
        let Some(t) = self.source.tables.get(table) else { return false };
        let done = self.is_done((table, 0), tables::PUT, key, value);
        if done {
            (1..self.parts(t)).for_each(|part| drop(self.change((table, part), tables::REMOVE, key, &[])))
        }
        done
    }

    /// Removes an entry; whether it was there.
    pub fn remove(&self, table: usize, key: &[u8]) -> bool {
        let Some(t) = self.source.tables.get(table) else { return false };
        let remove = |part| self.is_done((table, part), tables::REMOVE, key, &[]);
        (0..self.parts(t)).filter(|part| remove(*part)).count() > 0
    }

    /// Masks of wildcard tables come into an order in which packets look at few of them.
    pub fn sort(&mut self) {
        self.patterns.iter_mut().filter_map(|p| p.wildcard.as_mut()).for_each(|w| w.masks.sort())
    }

    /// The value of a key and a mask of prefixes or of a wildcard table from now on. False: there
    /// is no room.
    pub fn stand_for(&mut self, table: usize, pattern: Pattern, entry: Option<Ranked>) -> bool {
        let (Some(patterns), Some(t)) = (self.patterns.get_mut(table), self.source.tables.get(table)) else {
            return false;
        };
        patterns.set(&self.ebpf, t, pattern, entry).is_ok()
    }

    /// Takes the oldest value of a ring.
    pub fn pop(&mut self, table: usize) -> Option<Vec<u8>> {
        let size = self.source.tables.get(table)?.value;
        let mut value = self.rings.get_mut(table)?.as_mut()?.pop()?;
        value.truncate(size);
        Some(value)
    }

    /// The process keeps so many values of a ring itself: packets find that much less room.
    pub fn hold(&self, table: usize, values: u64) {
        let word = words_of_tables(&self.source) + table * STATISTICS + HELD;
        set_all(&self.cores, (self.core_size, self.processors), word, values)
    }

    /// A value of a ring, from the oldest on.
    pub fn at(&self, table: usize, place: u64) -> Option<Vec<u8>> {
        let size = self.source.tables.get(table)?.value;
        let mut value = self.rings.get(table)?.as_ref()?.at(place)?;
        value.truncate(size);
        Some(value)
    }

    /// The time that the kernel needed to load the programs, and to make their maps.
    pub fn took(&self) -> Duration {
        self.took
    }

    /// Short handlers have no second copy for frames of the most common headers, which would be
    /// handled faster: why.
    pub fn once(&self) -> Option<&str> {
        self.once.as_deref()
    }

    /// The kind of programs that clang and the kernel have taken.
    pub fn thrift(&self) -> Thrift {
        self.thrift
    }

    /// Takes the oldest line of the log.
    pub fn line(&mut self) -> Option<Vec<u8>> {
        let record = self.lines.as_mut()?.pop()?;
        text_of(&self.source.lines, &record)
    }

    /// Lines of the log that found no room.
    pub fn lines_lost(&self) -> u64 {
        self.sum(LOST)
    }

    /// Adds a key's hash to a HyperLogLog; false: the table is of another kind.
    pub fn note(&self, table: usize, hash: u64) -> bool {
        let Some(Some(registers)) = self.registers.get(table) else { return false };
        let rank = (hash << 12 | 1 << 11).leading_zeros() + 1;
        registers.or(8 * (hash >> 52) as usize, 1 << rank);
        true
    }

    /// The value of a register of a HyperLogLog.
    pub fn register(&self, table: usize, place: u64) -> Option<u8> {
        let registers = self.registers.get(table)?.as_ref().filter(|_| place < HLL_REGISTERS)?;
        // No rank is 0.
        Some((registers.word(8 * place as usize) | 1).ilog2() as u8)
    }

    /// The first entry from a place on, which is a number of a slot.
    pub fn next(&self, table: usize, place: u64) -> Option<Entry> {
        let (t, lines) = (self.source.tables.get(table)?, self.lines(table)?);
        let slots = u64::from(t.lines) * t.slots as u64;
        for n in place..slots * self.parts(t) {
            let Some(key) = key_at(t, lines, n) else { continue };
            // Entries of several parts are one, which the first of them gives.
            if (0..n / slots).any(|part| self.value_of((table, part), tables::LOOK, &key).is_some()) {
                continue;
            }
            // As it is now, whole; it may have gone meanwhile.
            if let Some(value) = self.get(table, &key) {
                return Some((n + 1, key, value));
            }
        }
        None
    }

    fn lines(&self, table: usize) -> Option<&Shared> {
        self.tables.get(table)?.as_ref()
    }

    /// Entries of an exact table, or values of a ring.
    pub fn entries(&self, table: usize) -> u64 {
        if let Some(Some(ring)) = self.rings.get(table) {
            return ring.len();
        }
        let (Some(t), Some(lines)) = (self.source.tables.get(table), self.lines(table)) else { return 0 };
        let places = u64::from(t.lines) * t.slots as u64 * self.parts(t);
        match t.sums {
            Some(_) => (0..places).filter_map(|n| key_at(t, lines, n)).collect::<HashSet<_>>().len() as u64,
            None => (0..places).filter(|n| lines.word(slot_at(t, *n)) != 0).count() as u64,
        }
    }

    /// Frees what has expired. Entries expire without it, but keep their places until a packet
    /// comes to their lines.
    pub fn sweep(&self, table: usize) {
        let (Some(t), Some(shared)) = (self.source.tables.get(table), self.lines(table)) else { return };
        if t.idle == 0 {
            return;
        }
        let now = clock::now();
        let over = |line: u64| {
            (0..t.slots).any(|s| {
                let used = shared.word(t.slot_at(line as usize, s));
                used != 0 && used <= now
            })
        };
        for n in (0..u64::from(t.lines) * self.parts(t)).filter(|n| over(*n)) {
            let (part, line) = (n / u64::from(t.lines), n % u64::from(t.lines));
            self.change((table, part), tables::SWEEP, &line.to_le_bytes(), &[]).ok();
        }
    }

    /// A table's statistics but for its entries: hits, misses, inserts, evictions, expired,
    /// rejected.
    pub fn statistics(&self, table: usize) -> [u64; 6] {
        let first = words_of_tables(&self.source) + table * STATISTICS;
        std::array::from_fn(|n| self.sum(first + n))
    }

    pub fn source(&self) -> &XdpSource {
        &self.source
    }
}

/// Where a slot of a table begins, by its number over all lines.
fn slot_at(t: &XdpTable, n: u64) -> usize {
    t.slot_at((n / t.slots as u64) as usize, (n % t.slots as u64) as usize)
}

/// The key in a slot. `None`: the slot is free.
fn key_at(t: &XdpTable, lines: &Shared, n: u64) -> Option<Vec<u8>> {
    let at = slot_at(t, n);
    if lines.word(at) == 0 {
        return None;
    }
    let mut key: Vec<u8> = (1..=t.key_words()).flat_map(|w| lines.word(at + 8 * w).to_le_bytes()).collect();
    key.truncate(t.key);
    Some(key)
}

/// The word of a processor's state that counts frames for the process: `WL_PROCESS` of
/// `support/bpf.h`.
const PROCESS: usize = 5;

/// The number of an interface.
pub fn number_of(interface: &str) -> Result<u32, Error> {
    let gone = || Error::NoInterface(interface.into());
    let name = std::ffi::CString::new(interface).map_err(|_| gone())?;
    // SAFETY: a plain system call; the name is a C string.
    match unsafe { libc::if_nametoindex(name.as_ptr()) } {
        0 => Err(gone()),
        index => Ok(index),
    }
}

fn of_attaching(interface: &str, mode: Mode, e: ProgramError) -> Error {
    let mode = if mode == Mode::Native { "native" } else { "generic" };
    match e {
        ProgramError::UnknownInterface { .. } => Error::NoInterface(interface.into()),
        ProgramError::SyscallError(e) => match e.io_error.raw_os_error() {
            Some(libc::EBUSY | libc::EEXIST) => {
                Error::Taken { interface: interface.into(), program: kernel::program_of(interface) }
            }
            _ => Error::Mode { interface: interface.into(), mode, why: e.io_error },
        },
        e => Error::Mode { interface: interface.into(), mode, why: io::Error::other(e.to_string()) },
    }
}
