//! Other questions to the kernel: its parts, its ticks, test runs.

use crate::direct::Direct;
use crate::feature::Feature;
use crate::Error;
use std::fs;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::path::Path;
use std::time::Duration;
use wireloom_runtime::clock;

/// Whether the kernel has a part that programs need.
pub fn has(feature: Feature) -> bool {
    match feature {
        Feature::Btf => has_btf(),
        // Without an object to link the command is refused for that, if it is known.
        Feature::Links => {
            let no = [u32::MAX; 8];
            let size = std::mem::size_of_val(&no) as libc::c_uint;
            // SAFETY: the attribute is as long as its size says; no descriptor in it is one.
            let done = unsafe { libc::syscall(libc::SYS_bpf, BPF_LINK_CREATE, no.as_ptr(), size) };
            done < 0 && io::Error::last_os_error().raw_os_error() == Some(libc::EBADF)
        }
        Feature::Rings => Direct::ring("wl_probe").is_ok(),
    }
}

/// Loads the smallest type information: one number.
fn has_btf() -> bool {
    let head: [u32; 6] = [0x0001_eb9f, 24, 0, 16, 16, 5];
    // `int`, with 32 bits.
    let number: [u32; 4] = [1, 1 << 24, 4, 32];
    let mut blob: Vec<u8> = head.iter().chain(&number).flat_map(|w| w.to_ne_bytes()).collect();
    blob.extend(b"\0int\0");
    let attribute = [blob.as_ptr() as u64, 0, blob.len() as u64, 0];
    let size = std::mem::size_of_val(&attribute) as libc::c_uint;
    // SAFETY: the attribute has the kernel's layout, and names bytes that live here.
    let fd = unsafe { libc::syscall(libc::SYS_bpf, BPF_BTF_LOAD, attribute.as_ptr(), size) };
    if fd < 0 {
        return false;
    }
    // SAFETY: a new descriptor, which nobody else has.
    drop(unsafe { OwnedFd::from_raw_fd(fd as i32) });
    true
}

const BPF_BTF_LOAD: libc::c_int = 18;
const BPF_LINK_CREATE: libc::c_int = 28;

/// Nanoseconds of a tick of the kernel, and the tick at which the process's clock was 0.
pub fn ticks() -> Result<(u64, u64), Error> {
    let first = tick_now()?;
    std::thread::sleep(Duration::from_millis(60));
    let second = tick_now()?;
    let (ticks, ns) = (second.0.wrapping_sub(first.0), second.1 - first.1);
    let wanted = ticks as f64 * 1e9 / ns.max(1) as f64;
    let hz = [100u64, 250, 300, 1000].into_iter().min_by_key(|hz| (*hz as f64 - wanted).abs() as u64).unwrap_or(250);
    let tick = 1_000_000_000 / hz;
    Ok((tick, second.0.wrapping_sub(clock::of_monotonic(second.1) / tick)))
}

/// The tick and the monotonic clock now.
fn tick_now() -> Result<(u64, u64), Error> {
    let path = "/proc/timer_list";
    let fail = |e| Error::System(format!("cannot read {path}"), e);
    let text = fs::read_to_string(path).map_err(fail)?;
    let number = |key: &str| {
        text.lines().find_map(|l| l.trim().strip_prefix(key)?.split_whitespace().next()?.parse::<u64>().ok())
    };
    match (number("jiffies:"), number("now at")) {
        (Some(tick), Some(ns)) => Ok((tick, ns)),
        _ => Err(fail(io::Error::from(io::ErrorKind::InvalidData))),
    }
}

/// `BPF_PROG_TEST_RUN` of `union bpf_attr`.
#[repr(C)]
#[derive(Default)]
struct TestRun {
    program: u32,
    result: u32,
    size_in: u32,
    size_out: u32,
    data_in: u64,
    data_out: u64,
    repeat: u32,
    /// Whole ones.
    nanoseconds: u32,
    context: [u64; 3],
    flags: u32,
    cpu: u32,
    batch: u32,
    pad: u32,
}

const BPF_PROG_TEST_RUN: libc::c_int = 10;
const BPF_MAP_UPDATE_ELEM: libc::c_int = 2;
const BPF_MAP_DELETE_ELEM: libc::c_int = 3;

/// `BPF_MAP_*_ELEM` of `union bpf_attr`.
#[repr(C)]
struct Element {
    map: u32,
    pad: u32,
    key: u64,
    value: u64,
    flags: u64,
}

fn element(command: libc::c_int, map: BorrowedFd, key: &[u8], value: &[u8]) -> io::Result<()> {
    // The kernel wants 0 where a command has no value.
    let value = if value.is_empty() { 0 } else { value.as_ptr() as u64 };
    let (map, key) = (map.as_raw_fd() as u32, key.as_ptr() as u64);
    let mut attribute = Element { map, pad: 0, key, value, flags: 0 };
    let size = std::mem::size_of::<Element>() as libc::c_uint;
    // SAFETY: the attribute has the kernel's layout. Key and value live here, and have the sizes of
    // the map's, which the callers know from its table.
    match unsafe { libc::syscall(libc::SYS_bpf, command, &raw mut attribute, size) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Adds or replaces an entry of a map. Key and value have the map's sizes.
pub fn map_update(map: BorrowedFd, key: &[u8], value: &[u8]) -> io::Result<()> {
    element(BPF_MAP_UPDATE_ELEM, map, key, value)
}

/// Removes an entry of a map.
pub fn map_delete(map: BorrowedFd, key: &[u8]) -> io::Result<()> {
    element(BPF_MAP_DELETE_ELEM, map, key, &[])
}

/// Runs a program on a frame: its result, the frame as it then is, and nanoseconds of a run. The
/// kernel tells whole ones only, so the time is this thread's on its processor.
pub fn test_run(program: BorrowedFd, frame: &[u8], repeat: u32) -> io::Result<(u32, Vec<u8>, f64)> {
    // A program may make a frame longer, up to a page.
    let mut out = vec![0u8; frame.len() + 4096];
    let mut run = TestRun {
        program: program.as_raw_fd() as u32,
        size_in: frame.len() as u32,
        size_out: out.len() as u32,
        data_in: frame.as_ptr() as u64,
        data_out: out.as_mut_ptr() as u64,
        repeat,
        ..TestRun::default()
    };
    let begin = clock::of_processor();
    // SAFETY: the attribute has the kernel's layout; its pointers name living memory of these
    // sizes.
    let done = unsafe {
        libc::syscall(libc::SYS_bpf, BPF_PROG_TEST_RUN, &raw mut run, std::mem::size_of::<TestRun>() as libc::c_uint)
    };
    if done < 0 {
        return Err(io::Error::last_os_error());
    }
    let took = clock::of_processor() - begin;
    out.truncate(run.size_out as usize);
    Ok((run.result, out, took as f64 / f64::from(repeat.max(1))))
}

/// The number of the XDP program in front of an interface, as far as `ip` tells.
pub fn program_of(interface: &str) -> Option<u32> {
    let out = std::process::Command::new("ip").args(["link", "show", "dev", interface]).output().ok()?;
    let text = String::from_utf8_lossy(&out.stdout).into_owned();
    let at = text.find("prog/xdp id ")?;
    text[at + "prog/xdp id ".len()..].split_whitespace().next()?.parse().ok()
}

/// The number of processors that the kernel may ever have.
pub fn processors() -> u32 {
    let text = fs::read_to_string("/sys/devices/system/cpu/possible").unwrap_or_default();
    let last = text.trim().rsplit([',', '-']).next().and_then(|n| n.parse::<u32>().ok());
    last.map_or(1, |n| n + 1)
}

/// Waits until each program that runs now has ended. False: the kernel cannot tell.
pub fn await_programs() -> bool {
    const MEMBARRIER_CMD_GLOBAL: libc::c_int = 1;
    // SAFETY: a plain system call. The kernel waits for all processors to leave what they are in:
    // programs run with switches of tasks turned off.
    unsafe { libc::syscall(libc::SYS_membarrier, MEMBARRIER_CMD_GLOBAL, 0, 0) == 0 }
}

/// The receiving queues of an interface; 0: not known.
pub fn receiving_queues(interface: &str) -> usize {
    let Ok(all) = fs::read_dir(format!("/sys/class/net/{interface}/queues")) else { return 0 };
    all.flatten().filter(|e| e.file_name().to_string_lossy().starts_with("rx-")).count()
}

/// Eight random bytes.
pub fn random() -> Result<u64, Error> {
    let mut bytes = [0u8; 8];
    // SAFETY: writes eight bytes to a buffer of eight.
    let n = unsafe { libc::getrandom(bytes.as_mut_ptr().cast(), bytes.len(), 0) };
    if n == 8 {
        Ok(u64::from_ne_bytes(bytes))
    } else {
        Err(Error::System("cannot get random bytes".into(), io::Error::last_os_error()))
    }
}

/// `struct ethtool_value` of the kernel.
#[repr(C)]
struct EthtoolValue {
    command: u32,
    data: u32,
}

/// `struct ifreq`, with a pointer.
#[repr(C)]
struct Request {
    name: [u8; libc::IFNAMSIZ],
    data: *mut EthtoolValue,
    pad: [u64; 2],
}

const ETHTOOL_GFLAGS: u32 = 0x25;
const ETH_FLAG_RXVLAN: u32 = 1 << 8;
const SIOCETHTOOL: libc::c_ulong = 0x8946;

/// Whether an interface takes VLAN tags off the frames that it receives. What cannot be found out
/// is false.
pub fn takes_tags_off(interface: &str) -> bool {
    let mut value = EthtoolValue { command: ETHTOOL_GFLAGS, data: 0 };
    let mut request = Request { name: [0; libc::IFNAMSIZ], data: &mut value, pad: [0; 2] };
    if interface.len() >= libc::IFNAMSIZ {
        return false;
    }
    request.name[..interface.len()].copy_from_slice(interface.as_bytes());
    // SAFETY: a socket of our own, closed below; the request names a value that lives here.
    unsafe {
        let socket = libc::socket(libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0);
        if socket < 0 {
            return false;
        }
        let done = libc::ioctl(socket, SIOCETHTOOL as _, &raw mut request);
        libc::close(socket);
        done == 0 && value.data & ETH_FLAG_RXVLAN != 0
    }
}

/// Whether an interface is down. What cannot be found out is false.
pub fn is_down(interface: &str) -> bool {
    let text = fs::read_to_string(format!("/sys/class/net/{interface}/flags")).unwrap_or_default();
    let flags = text.trim().strip_prefix("0x").and_then(|n| u32::from_str_radix(n, 16).ok());
    flags.is_some_and(|f| f & libc::IFF_UP as u32 == 0)
}

/// Whether a card stands behind an interface. A sender's checksums may be left undone where none
/// does.
pub fn has_hardware(interface: &str) -> bool {
    Path::new(&format!("/sys/class/net/{interface}/device")).exists()
}
