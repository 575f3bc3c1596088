//! The host functions that programs call. They stage frames, count and answer. They never run
//! program code.

use super::PacketCore;
use crate::abi::*;
use crate::core::app::AppCore;
use std::os::raw::c_int;

/// The function behind `wl_packets.transmit`.
///
/// # Safety
/// Called by the program inside `batch` or `run`, with `n` valid bytes at `p`.
pub unsafe extern "C" fn transmit(core: *mut wl_core, port: u32, instance: u32, p: *const u8, n: u32) {
    // SAFETY: by contract.
    unsafe {
        let data = if n == 0 { &[][..] } else { std::slice::from_raw_parts(p, n as usize) };
        of(core).copy_out(port, instance, data);
    }
}

/// The function behind `wl_packets.queue`.
///
/// # Safety
/// Called by the program inside `batch` or `run`.
pub unsafe extern "C" fn queue(core: *mut wl_core, port: u32, instance: u32, act: u32) -> u32 {
    // SAFETY: by contract.
    unsafe { of(core) }.ask_queue(port, instance, act)
}

/// The function behind `wl_packets.serve`.
///
/// # Safety
/// Called by the program inside `batch`, between two frames.
pub unsafe extern "C" fn serve(core: *mut wl_core) {
    // SAFETY: by contract. The program is entered again from within its call, with a batch of its
    // own. The core that runs it is reached through `rt` alone until this returns.
    unsafe { of(core) }.serve_popped();
}

/// # Safety
/// Inside a call of the program, which `enter` has prepared.
unsafe fn of<'a>(core: *mut wl_core) -> &'a mut PacketCore {
    // SAFETY: `rt` was set by `enter`, and nothing else uses the core until the program returns.
    unsafe { &mut *(*core).rt.cast::<PacketCore>() }
}

/// Leaves a core the handlers of its segment, and those that every core runs.
pub fn keep_segment(app: &mut AppCore, segment: Option<u32>) {
    let Some(segment) = segment else { return };
    let desc = app.app.desc.clone();
    let here = |h: &u32| desc.handlers[*h as usize].segment.is_none_or(|s| s == segment);
    app.every.retain(|(h, _)| here(h));
    for list in [&mut app.start, &mut app.end, &mut app.fault_handlers] {
        list.retain(here);
    }
}

pub fn table() -> wl_host {
    wl_host {
        reply: Some(reply),
        send: Some(send),
        grow: Some(grow),
        log: Some(log_line),
        fault: Some(fault),
        ..wl_host::without_connections()
    }
}

unsafe extern "C" fn reply(task: *mut wl_task, head: wl_bytes, _: u32, _: u32) {
    // SAFETY: called by the program inside `run`; its bytes are valid during the call.
    unsafe { of((*task).core).result = Some(head.as_slice().to_vec()) }
}

unsafe extern "C" fn send(task: *mut wl_task, port: u32, index: u32, head: wl_bytes, _: u32) {
    // SAFETY: as above.
    unsafe { of((*task).core).copy_out(port, index, head.as_slice()) }
}

unsafe extern "C" fn grow(core: *mut wl_core, need: u32) -> c_int {
    // SAFETY: as above.
    unsafe { of(core) }.app.grow(need) as c_int
}

unsafe extern "C" fn log_line(core: *mut wl_core, level: u32, text: wl_bytes) {
    // SAFETY: as above.
    let (this, text) = unsafe { (of(core), text.as_slice()) };
    this.app.log_line(level, text);
}

unsafe extern "C" fn fault(core: *mut wl_core, kind: u32, place: u32) {
    // SAFETY: as above.
    unsafe { of(core) }.count_fault(kind, place);
}
