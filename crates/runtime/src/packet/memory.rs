//! Frames in memory. Preloaded frames are replayed without a system call. Sent frames are counted
//! or kept. For benches and tests.

use super::batch::{bytes, prefetch_far, Batch, BATCH, NONE};
use super::pcap::Reader;
use super::pool::{Pool, COLOURED_MAX};
use super::port::{FramePort, Label, Sent};
use crate::abi::{wl_frame, WL_GONE, WL_HEADROOM, WL_TAILROOM};
use crate::clock;
use crate::large_pages::LINE;
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Instant;

/// Frames this far ahead of the one at hand are prefetched: some batches, because naming or copying
/// the frames of one batch takes no time.
const AHEAD: usize = 256;
/// More bytes of frames than most last-level caches hold. Their lines come from memory at a fixed
/// rate, and a processor waits for few of them at a time. So their prefetches go in short bursts.
const CACHED_MAX: usize = 64 << 20;
/// So many copies are lent at once: few enough to stay in the nearest cache.
const LENT: usize = 128;
/// Frames up to this length are lent.
const LENT_MAX: usize = 2048;

/// A cache line.
#[repr(C, align(64))]
#[derive(Clone, Copy)]
struct CacheLine([u8; LINE]);

/// The cost of a core's measured rounds.
#[derive(Clone, Copy, Debug)]
pub struct Spent {
    pub core: usize,
    pub cpu_ns: u64,
    /// Of all threads.
    pub process_ns: u64,
    pub wall_ns: u64,
    pub frames: u64,
}

/// Measures replays: from the end of the first `warm` rounds, in which memory is touched and tables
/// fill, to the end of the last one.
#[derive(Default)]
pub struct Timing {
    /// At least 1.
    pub warm: u64,
    pub spent: Mutex<Vec<Spent>>,
}

/// Frames to replay.
#[derive(Clone, Default)]
pub struct Frames {
    /// All bytes, frame behind frame.
    pub data: Vec<u8>,
    /// (first byte in `data`, length, time) of each; time 0: when it is replayed.
    pub index: Vec<(u32, u32, u64)>,
    /// How often all of them are replayed.
    pub rounds: u64,
    /// Handled where they lie, without room around them and without a fresh copy for each round:
    /// for programs that do not change them.
    pub in_place: bool,
    /// A factor for the number of flows. Each of so many rounds has source ports of its own, in the
    /// port's highest bits, of IPv4; checksums are not changed. At most 16; not in place.
    pub many: u8,
    pub timing: Option<Arc<Timing>>,
    /// The first core receives all frames and passes on those of other cores. Otherwise they are
    /// dealt out beforehand, as by an interface with a queue for each core.
    pub one_queue: bool,
}

impl Frames {
    pub fn new(rounds: u64) -> Frames {
        Frames { rounds, ..Frames::default() }
    }

    /// All frames of a capture, without their times. Places in `data` are numbers of 32 bits, and
    /// it may be moved by a line, and is longer by one.
    pub fn load(file: &Path) -> Result<Frames, String> {
        Frames::read(Reader::open(file)?, u32::MAX as usize - 2 * LINE).map_err(|e| format!("{}: {e}", file.display()))
    }

    /// At most so many bytes of frames.
    fn read(mut reader: Reader, most: usize) -> Result<Frames, String> {
        let mut frames = Frames::new(1);
        while let Some(n) = reader.peek() {
            let bytes = reader.bytes(&n);
            if frames.data.len() + bytes.len() > most {
                return Err(format!("its frames are more than the {most} bytes that are held in memory; take a part of it, or read it as `pcap:`"));
            }
            frames.push(bytes, 0);
            reader.advance();
        }
        reader.failure().map_or(Ok(frames), Err)
    }

    /// Moves the bytes to large pages, so that replaying them costs no walks of the page tables.
    /// They begin at a cache line, so that frames of whole lines share none.
    pub fn huge_pages(&mut self) {
        let mut data: Vec<u8> = Vec::with_capacity(self.data.len() + (8 << 20));
        crate::large_pages::huge_pages(data.spare_capacity_mut());
        let skip = data.as_ptr().align_offset(LINE).min(LINE);
        data.resize(skip, 0);
        data.extend_from_slice(&self.data);
        self.data = data;
        self.index.iter_mut().for_each(|f| f.0 += skip as u32);
    }

    pub fn push(&mut self, frame: &[u8], time: u64) {
        self.index.push((self.data.len() as u32, frame.len() as u32, time));
        self.data.extend_from_slice(frame);
    }

    fn clone_settings(&self) -> Frames {
        let Frames { rounds, in_place, many, ref timing, one_queue, .. } = *self;
        Frames { data: Vec::new(), index: Vec::new(), rounds, in_place, many, timing: timing.clone(), one_queue }
    }

    /// Those for which `keep` holds, as a port of their own.
    pub fn filter(&self, keep: impl Fn(&[u8]) -> bool) -> Frames {
        let mut out = self.clone_settings();
        for &(at, n, time) in &self.index {
            let frame = &self.data[at as usize..(at + n) as usize];
            if keep(frame) {
                out.push(frame, time);
            }
        }
        out
    }
}

/// Where sent frames go: counted, and kept if asked for.
#[derive(Default)]
pub struct FrameSink {
    pub keep: bool,
    /// (core, time, bytes).
    pub frames: Mutex<Vec<(usize, u64, Vec<u8>)>>,
}

/// A port on such frames.
pub struct MemoryPort {
    frames: Frames,
    /// Where each frame begins, and where the last one ends. Then where the first [`AHEAD`] of the
    /// next round begin.
    starts: Vec<u32>,
    /// The longest of them.
    longest: usize,
    /// Copies of the frames at hand, with room around each ([`FramePort::lends`]); none before the
    /// first are asked for.
    lent: Vec<CacheLine>,
    at: usize,
    capture: bool,
    sink: Option<Arc<FrameSink>>,
    core: usize,
    /// The number of finished rounds, and the start of the measured ones.
    done: u64,
    began: Option<(u64, u64, Instant)>,
}

impl MemoryPort {
    pub fn new(frames: Frames, sink: Option<Arc<FrameSink>>, core: usize) -> MemoryPort {
        let rounds = if frames.index.is_empty() { 0 } else { frames.rounds };
        let mut frames = frames;
        if frames.data.len() > 1 << 20 {
            frames.huge_pages();
        }
        let capture = frames.index.first().is_some_and(|f| f.2 != 0);
        let end = frames.data.len() as u32;
        let begins = || frames.index.iter().map(|f| f.0);
        let starts = begins().chain([end]).chain(begins().cycle().take(AHEAD)).collect();
        let longest = frames.index.iter().map(|f| f.1 as usize).max().unwrap_or(0);
        // Whole lines are copied.
        frames.data.resize(frames.data.len() + LINE, 0);
        MemoryPort {
            frames: Frames { rounds, ..frames },
            starts,
            longest,
            lent: Vec::new(),
            at: 0,
            capture,
            sink,
            core,
            done: 0,
            began: None,
        }
    }

    fn next_round(&mut self) {
        if self.at == self.frames.index.len() {
            self.at = 0;
            self.frames.rounds -= 1;
            self.done += 1;
            self.measure();
        }
    }

    /// At the end of a round.
    #[cold]
    fn measure(&mut self) {
        let Some(timing) = &self.frames.timing else { return };
        if self.done == timing.warm {
            self.began = Some((clock::of_processor(), clock::of_process(), Instant::now()));
        }
        if let (0, Some((cpu, process, wall))) = (self.frames.rounds, self.began) {
            let frames = (self.done - timing.warm) * self.frames.index.len() as u64;
            let spent = Spent {
                core: self.core,
                cpu_ns: clock::of_processor() - cpu,
                process_ns: clock::of_process() - process,
                wall_ns: wall.elapsed().as_nanos() as u64,
                frames,
            };
            timing.spent.lock().unwrap_or_else(|e| e.into_inner()).push(spent);
        }
    }

    /// How many of the next frames there is room and time for.
    fn next_frames(&self, room: usize, until: u64) -> usize {
        if self.frames.rounds == 0 {
            return 0;
        }
        let here = &self.frames.index[self.at..self.frames.index.len().min(self.at + room)];
        if self.capture {
            here.iter().take_while(|f| f.2 <= until).count()
        } else {
            here.len()
        }
    }

    /// The change to the first byte of source ports in this round.
    fn change(&self) -> u8 {
        if self.frames.many > 1 {
            (self.done % u64::from(self.frames.many.min(16))) as u8 * 16
        } else {
            0
        }
    }
}

/// Changes the source port behind a plain IPv4 header.
fn change_port(f: &mut wl_frame, by: u8) {
    // SAFETY: a copy without other references.
    let frame = unsafe { std::slice::from_raw_parts_mut(f.p, f.n as usize) };
    if frame.len() > 34 && frame[12..14] == [8, 0] {
        let at = 14 + usize::from(frame[14] & 15) * 4;
        if let Some(port) = frame.get_mut(at) {
            *port ^= by;
        }
    }
}

/// Prefetches the first line of a frame some batches later. Called between other work, since the
/// processor drops most of many prefetches in a row.
#[inline(always)]
fn fetch(data: *const u8, later: u32) {
    prefetch_far(data.wrapping_add(later as usize));
}

/// Describes consecutive frames: address, length, time and origin, and that they are not sent.
/// `starts` has [`AHEAD`] more entries; the first of these is the end of the last frame. Prefetches
/// go in the order of the frames: vectorized handlers read them in an order that no processor
/// predicts.
///
/// # Safety
/// `data` has as many bytes as `starts` says.
unsafe fn place(frames: &mut [wl_frame], data: *mut u8, starts: &[u32], label: Label) {
    let done = place_many(frames, data, starts, label);
    // SAFETY: by contract.
    unsafe { place_each(&mut frames[done..], data, &starts[done..], label) };
}

/// The same, one by one.
///
/// # Safety
/// `data` has as many bytes as `starts` says.
unsafe fn place_each(frames: &mut [wl_frame], data: *mut u8, starts: &[u32], label: Label) {
    for ((f, s), later) in frames.iter_mut().zip(starts.windows(2)).zip(&starts[AHEAD..]) {
        fetch(data, *later);
        // SAFETY: by contract.
        f.p = unsafe { data.add(s[0] as usize) };
        (f.n, f.wire, f.time) = (s[1] - s[0], s[1] - s[0], label.time);
        (f.out, f.port, f.instance) = (WL_GONE, label.port, label.instance);
    }
}

/// The same for several at a time, as far as they go; answers how many that were.
#[cfg(target_arch = "x86_64")]
fn place_many(frames: &mut [wl_frame], data: *mut u8, starts: &[u32], label: Label) -> usize {
    if is_x86_feature_detected!("avx2") {
        // SAFETY: the processor has these instructions.
        return unsafe { place_whole(frames, data, starts, label) };
    }
    0
}

#[cfg(not(target_arch = "x86_64"))]
fn place_many(_: &mut [wl_frame], _: *mut u8, _: &[u32], _: Label) -> usize {
    0
}

/// Four frames at a time, each with one store: all but its rooms.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn place_whole(frames: &mut [wl_frame], data: *mut u8, starts: &[u32], label: Label) -> usize {
    use std::arch::x86_64::*;
    let done = frames.len() / 4 * 4;
    let (base, came) =
        (_mm256_set1_epi64x(data as i64), _mm256_set_epi64x(came_from(label) as i64, label.time as i64, 0, 0));
    for (k, f) in frames.chunks_exact_mut(4).enumerate() {
        let (s, later) = (&starts[4 * k..4 * k + 5], &starts[4 * k + AHEAD..][..4]);
        later.iter().for_each(|l| fetch(data, *l));
        // SAFETY: five numbers are loaded; of each frame the first 32 bytes are stored.
        unsafe {
            let (begin, end) = (_mm_loadu_si128(s.as_ptr().cast()), _mm_loadu_si128(s.as_ptr().add(1).cast()));
            let n = _mm256_cvtepu32_epi64(_mm_sub_epi32(end, begin));
            let (at, n) =
                (_mm256_add_epi64(base, _mm256_cvtepu32_epi64(begin)), _mm256_or_si256(n, _mm256_slli_epi64::<32>(n)));
            let (even, odd) = (_mm256_unpacklo_epi64(at, n), _mm256_unpackhi_epi64(at, n));
            let first = f.as_mut_ptr();
            let store = |k: usize, frame: __m256i| _mm256_storeu_si256(first.add(k).cast(), frame);
            store(0, _mm256_permute2x128_si256::<0x30>(even, came));
            store(1, _mm256_permute2x128_si256::<0x30>(odd, came));
            store(2, _mm256_permute2x128_si256::<0x31>(even, came));
            store(3, _mm256_permute2x128_si256::<0x31>(odd, came));
        }
    }
    done
}

/// The end of a frame that has not been sent, and where it came from.
#[cfg(target_arch = "x86_64")]
fn came_from(label: Label) -> u64 {
    use std::mem::offset_of;
    const { assert!(offset_of!(wl_frame, n) == 8 && offset_of!(wl_frame, wire) == 12 && offset_of!(wl_frame, time) == 16) };
    const {
        assert!(
            offset_of!(wl_frame, out) == 24 && offset_of!(wl_frame, port) == 28 && offset_of!(wl_frame, instance) == 30
        )
    };
    u64::from(WL_GONE) | u64::from(label.port) << 32 | u64::from(label.instance) << 48
}

/// A frame without bytes and rooms.
fn absent(label: Label) -> wl_frame {
    wl_frame {
        p: std::ptr::null_mut(),
        n: 0,
        wire: 0,
        time: label.time,
        out: WL_GONE,
        port: label.port,
        instance: label.instance,
        head: 0,
        tail: 0,
    }
}

/// Copies a frame, line by line; at least one.
///
/// # Safety
/// Both ends have room for whole lines.
#[inline(always)]
unsafe fn copy_lines(from: *const u8, to: *mut CacheLine, n: usize) {
    // SAFETY: by contract.
    let line =
        |i: usize| unsafe { to.add(i).write(CacheLine(from.add(i * LINE).cast::<[u8; LINE]>().read_unaligned())) };
    line(0);
    if n > LINE {
        (1..n.div_ceil(LINE)).for_each(line);
    }
}

impl MemoryPort {
    /// Lines of a copy: its rooms, and so many that copies begin in all sets of a cache.
    fn lent_lines(&self) -> usize {
        (WL_HEADROOM as usize / LINE + self.longest.div_ceil(LINE) + WL_TAILROOM as usize / LINE) | 1
    }

    /// Copies of the next frames, with their labels.
    fn lend(&mut self, frames: &mut [wl_frame], label: Label) {
        let (lines, change) = (self.lent_lines(), self.change());
        self.lent.resize(lines * LENT, CacheLine([0; LINE]));
        let starts = &self.starts[self.at..self.at + frames.len() + AHEAD];
        // SAFETY: the starts name bytes of `data`, in which a line follows the last frame; each of
        // `LENT` copies has room for the longest frame.
        unsafe { copy_all(frames, starts, self.frames.data.as_ptr(), &mut self.lent, label) };
        if change != 0 {
            frames.iter_mut().for_each(|f| change_port(f, change));
        }
    }
}

/// Lines in front of a copy.
const HEAD: usize = WL_HEADROOM as usize / LINE;

/// Copies consecutive frames from `data`, each to cache lines of its own in `lent`, and describes
/// them. `lent` has [`LENT`] times as many lines. With wide registers, if the processor has them,
/// that takes half as many instructions.
///
/// # Safety
/// `data` has as many bytes as `starts` says, and a line more; the lines of a copy hold its rooms
/// and the longest frame.
unsafe fn copy_all(frames: &mut [wl_frame], starts: &[u32], data: *const u8, lent: &mut [CacheLine], label: Label) {
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx2") {
        // SAFETY: the processor has these instructions; the rest by contract.
        return unsafe { copy_all_wide(frames, starts, data, lent, label) };
    }
    // SAFETY: by contract.
    unsafe { copy_each(frames, starts, data, lent, label) };
}

/// The same with registers of 32 bytes.
///
/// # Safety
/// As [`copy_all`].
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
unsafe fn copy_all_wide(
    frames: &mut [wl_frame],
    starts: &[u32],
    data: *const u8,
    lent: &mut [CacheLine],
    label: Label,
) {
    // SAFETY: by contract.
    unsafe { copy_each(frames, starts, data, lent, label) };
}

/// The same, as the function that it is part of is compiled.
///
/// # Safety
/// As [`copy_all`].
#[inline(always)]
unsafe fn copy_each(frames: &mut [wl_frame], starts: &[u32], data: *const u8, lent: &mut [CacheLine], label: Label) {
    let (lines, mut copy) = (lent.len() / LENT, lent.as_mut_ptr());
    let room = ((lines - HEAD) * LINE) as u32;
    let fresh = wl_frame { head: WL_HEADROOM, ..absent(label) };
    for ((f, s), later) in frames.iter_mut().zip(starts.windows(2)).zip(&starts[AHEAD..]).take(LENT) {
        let n = s[1] - s[0];
        fetch(data, *later);
        // SAFETY: by contract.
        let p = unsafe {
            let (from, to) = (data.add(s[0] as usize), copy.add(HEAD));
            copy_lines(from, to, n as usize);
            copy = copy.add(lines);
            to
        };
        *f = wl_frame { p: p.cast(), n, wire: n, tail: room - n, ..fresh };
    }
}

impl FramePort for MemoryPort {
    fn ready(&self) -> bool {
        self.frames.in_place
    }

    fn lends(&self) -> bool {
        self.longest <= LENT_MAX
    }

    fn receive_ready(&mut self, into: &mut Batch, most: usize, until: u64, label: Label) -> u64 {
        let most = if self.frames.data.len() > CACHED_MAX { most.min(BATCH) } else { most };
        let n = self.next_frames(if self.frames.in_place { most } else { most.min(LENT) }, until);
        if n == 0 {
            into.clear();
            return 0;
        }
        into.frames.resize(n, absent(label));
        into.bufs.resize(n, NONE);
        if self.frames.in_place {
            // SAFETY: the starts name bytes of `data`, which lives as long as the port and moves
            // nowhere.
            unsafe {
                place(
                    &mut into.frames,
                    self.frames.data.as_mut_ptr(),
                    &self.starts[self.at..self.at + n + AHEAD],
                    label,
                )
            };
        } else {
            self.lend(&mut into.frames, label);
        }
        let starts = &self.starts[self.at..=self.at + n];
        if self.capture {
            let times = self.frames.index[self.at..].iter().map(|f| f.2);
            into.frames.iter_mut().zip(times).for_each(|(f, time)| f.time = time);
        }
        let bytes = u64::from(starts[n] - starts[0]);
        self.at += n;
        self.next_round();
        bytes
    }

    fn receive(&mut self, pool: &mut Pool, into: &mut Batch, until: u64) -> io::Result<()> {
        let n = self.next_frames(into.room(), until);
        if n == 0 {
            return Ok(());
        }
        let (first, change) = (into.len(), self.change());
        let starts = &self.starts[self.at..self.at + n + AHEAD];
        let each = starts.windows(2).zip(&starts[AHEAD..]).map(|(s, later)| {
            fetch(self.frames.data.as_ptr(), *later);
            &self.frames.data[s[0] as usize..s[1] as usize]
        });
        if self.longest <= COLOURED_MAX {
            pool.store_all(each, into);
        } else {
            each.map_while(|bytes| pool.store(bytes)).for_each(|(buf, frame)| into.push(buf, frame));
        }
        if self.capture {
            let times = self.frames.index[self.at..].iter().map(|f| f.2);
            into.frames[first..].iter_mut().zip(times).for_each(|(f, time)| f.time = time);
        }
        if change != 0 {
            into.frames[first..].iter_mut().for_each(|f| change_port(f, change));
        }
        self.at += into.len() - first;
        self.next_round();
        Ok(())
    }

    fn transmit(&mut self, pool: &mut Pool, batch: &mut Batch) -> Sent {
        let all = Sent::all(batch);
        if let Some(sink) = self.sink.as_ref().filter(|s| s.keep) {
            let mut kept = sink.frames.lock().unwrap_or_else(|e| e.into_inner());
            kept.extend(batch.frames.iter().map(|f| (self.core, f.time, bytes(f).to_vec())));
        }
        batch.release(pool);
        all
    }

    fn swallows(&self) -> bool {
        !self.sink.as_ref().is_some_and(|s| s.keep)
    }

    fn ended(&self) -> bool {
        self.frames.rounds == 0
    }

    fn is_capture(&self) -> bool {
        self.capture
    }

    fn next_time(&mut self) -> Option<u64> {
        (self.capture && self.frames.rounds > 0).then(|| self.frames.index[self.at].2)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Copies are whole and have room, small and large ones; where buffers run out, the rest comes
    /// later.
    #[test]
    fn copied_frames_are_those_that_are_next() {
        for largest in [COLOURED_MAX, COLOURED_MAX + 1, 70_000] {
            let list: Vec<Vec<u8>> =
                (0..100u8).map(|i| vec![i; if i % 10 == 3 { largest } else { 14 + usize::from(i) }]).collect();
            let mut frames = Frames::new(2);
            list.iter().enumerate().for_each(|(i, f)| frames.push(f, 1000 + i as u64));
            let (mut port, mut pool) = (MemoryPort::new(frames, None, 0), Pool::all(1, 7).unwrap().remove(0));
            let (mut batch, mut at) = (Batch::default(), 0);
            while !port.ended() {
                port.receive(&mut pool, &mut batch, u64::MAX).unwrap();
                assert!(!batch.is_empty() && (largest > 4096 || batch.len() <= 7));
                for f in &batch.frames {
                    assert!(bytes(f) == list[at % 100] && f.time == 1000 + at as u64 % 100, "frame {at}");
                    assert!(f.head >= crate::abi::WL_HEADROOM && f.tail >= crate::abi::WL_TAILROOM);
                    at += 1;
                }
                batch.release(&mut pool);
            }
            assert_eq!((at, pool.free()), (200, 7));
        }
    }

    #[test]
    fn a_capture_that_is_too_large_is_refused() {
        let path = crate::packet::tests::dir().join("large.pcap");
        let mut w = crate::packet::pcap::Writer::create(&path, crate::packet::pcap::Style::default()).unwrap();
        assert!((0..3).all(|i| w.frame(&[i; 100], 1, 100)) && w.finish().is_ok());
        let read = |most| Frames::read(Reader::open(&path).unwrap(), most).map(|f| f.index.len());
        assert_eq!(read(300), Ok(3));
        assert!(read(299).unwrap_err().contains("more than the 299 bytes that are held in memory"));
    }

    /// Several at a time, and one by one.
    #[test]
    fn frames_are_placed_alike() {
        let starts: Vec<u32> = (0..=22 + AHEAD as u32).map(|i| 64 * i + i * i % 7).collect();
        let label = Label { port: 7, instance: 9, time: 12345 };
        // The bytes there belong to other frames, which have been sent.
        let stale = wl_frame {
            p: std::ptr::null_mut(),
            n: 1,
            wire: 2,
            time: 3,
            out: 4,
            port: 5,
            instance: 6,
            head: 0,
            tail: 0,
        };
        let (mut each, mut all, mut data) = (vec![stale; 22], vec![stale; 22], vec![0u8; 2048]);
        // SAFETY: there are as many bytes.
        unsafe { place_each(&mut each, data.as_mut_ptr(), &starts, label) };
        unsafe { place(&mut all, data.as_mut_ptr(), &starts, label) };
        let parts = |f: &wl_frame| (f.p, f.n, f.wire, f.time, f.out, f.port, f.instance, f.head, f.tail);
        assert!(each.iter().map(parts).eq(all.iter().map(parts)));
        for (k, f) in each.iter().enumerate() {
            let want = (
                data.as_mut_ptr().wrapping_add(starts[k] as usize),
                starts[k + 1] - starts[k],
                f.n,
                12345,
                WL_GONE,
                7,
                9,
                0,
                0,
            );
            assert_eq!(parts(f), want);
        }
    }

    /// A batch with any old content holds the next frames, with their labels.
    #[test]
    fn ready_frames_are_those_that_are_next() {
        let list: Vec<Vec<u8>> = (0..11u8).map(|i| vec![i; 60 + usize::from(i)]).collect();
        let mut frames = Frames::new(3);
        frames.in_place = true;
        list.iter().for_each(|f| frames.push(f, 0));
        let mut port = MemoryPort::new(frames, None, 0);
        let (mut batch, mut at) = (Batch::absent(), 0);
        for most in [1, 4, 6, 7, 3, 8, 256, 5] {
            let got =
                port.receive_ready(&mut batch, most, u64::MAX, Label { port: 2, instance: 3, time: 100 + most as u64 });
            assert_eq!(batch.len(), batch.bufs.len());
            assert_eq!(got, batch.frames.iter().map(|f| u64::from(f.n)).sum::<u64>());
            for f in &batch.frames {
                assert_eq!(bytes(f), list[at % list.len()]);
                assert_eq!((f.wire, f.port, f.instance, f.time, f.out), (f.n, 2, 3, 100 + most as u64, WL_GONE));
                at += 1;
            }
            match most {
                7 => batch.clear(),
                // The program has sent them.
                6 | 256 => batch.frames.iter_mut().for_each(|f| f.out = 5 << 16),
                _ => {}
            }
        }
        assert!(port.ended() && at == 3 * list.len());
    }

    /// Copies are lent. Each is the next frame with room around it, also after the program has
    /// changed earlier copies.
    #[test]
    fn lent_frames_are_those_that_are_next() {
        let list: Vec<Vec<u8>> =
            (0..=255u8).map(|i| [vec![i; 12], vec![8, 0, 0x45], vec![i; 5 + usize::from(i) * 7]].concat()).collect();
        let mut frames = Frames { many: 4, ..Frames::new(5) };
        list.iter().for_each(|f| frames.push(f, 0));
        let mut port = MemoryPort::new(frames, None, 0);
        assert!(port.lends() && !port.ready());
        let (mut batch, mut at) = (Batch::lent(), 0);
        while !port.ended() {
            let got = port.receive_ready(&mut batch, 1 + at % 500, u64::MAX, Label { port: 2, instance: 3, time: 100 });
            assert!(!batch.is_empty() && batch.len() <= LENT && batch.bufs.iter().all(|b| *b == NONE));
            assert_eq!(got, batch.frames.iter().map(|f| u64::from(f.n)).sum::<u64>());
            for f in &mut batch.frames {
                let (n, round) = (at % list.len(), at / list.len());
                let mut next = list[n].clone();
                if next.len() > 34 {
                    next[34] ^= round as u8 % 4 * 16;
                }
                assert!(bytes(f) == next, "frame {at}");
                assert_eq!((f.wire, f.port, f.instance, f.time, f.out, f.head), (f.n, 2, 3, 100, WL_GONE, WL_HEADROOM));
                assert!(f.tail >= WL_TAILROOM);
                // The program uses all the room there is.
                // SAFETY: a frame lies between its rooms, which are its own.
                unsafe { std::ptr::write_bytes(f.p.sub(f.head as usize), 0xee, (f.head + f.n + f.tail) as usize) };
                (f.out, f.n, f.head) = (5 << 16, f.n + f.head, 0);
                at += 1;
            }
        }
        assert_eq!(at, 5 * list.len());
        let mut long = Frames::new(1);
        long.push(&[0; LENT_MAX + 1], 0);
        assert!(!MemoryPort::new(long, None, 0).lends());
    }
}
