//! Signals on a core: a handler that is called from outside, runs to its end at once, and gives its
//! result to `reply`.

use super::slab::Id;
use super::Core;
use crate::abi::*;
use crate::signal::HandlerFault;
use wireloom_ir::desc::ParamValue;

impl Core {
    /// Runs a signal's handler; its result as the program wrote it, or the fault that it ended with
    /// (and that was counted).
    pub fn signal(&mut self, app: usize, handler: u32, args: &[ParamValue]) -> Result<Vec<u8>, HandlerFault> {
        let values: Vec<wl_param> = args.iter().map(value).collect();
        self.result = None;
        let task = self.new_task(app, handler, Id::NIL, Id::NIL);
        self.tasks[task].c.req.base = values.as_ptr().cast();
        self.last_fault = (WL_F_NO_REPLY, crate::stats::NO_PLACE);
        self.with_own_counters(app, handler, |core| core.run(task));
        let fault = self.last_fault;
        self.run_fault_handlers();
        self.flush();
        self.result.take().ok_or(fault)
    }

    /// Stores the answer of a task without a client: a signal's result.
    pub(super) fn signal_result(&mut self, head: wl_bytes) {
        // SAFETY: the program's bytes are valid during the call.
        self.result = Some(unsafe { head.as_slice() }.to_vec());
    }
}

/// An argument as the ABI has it; its bytes belong to the caller.
pub(crate) fn value(v: &ParamValue) -> wl_param {
    let mut out = wl_param::default();
    match v {
        ParamValue::Bool(b) => out.u = u64::from(*b),
        ParamValue::UInt(u) | ParamValue::Duration(u) => out.u = *u,
        ParamValue::Bytes(b) => (out.b, out.u) = (wl_bytes::of(b), b.len() as u64),
        ParamValue::Endpoints(list) => {
            // Parsed before: an argument that is no address never comes here.
            let addr = list.first().and_then(|a| a.parse::<std::net::SocketAddr>().ok());
            out.ep = addr.map(wl_endpoint::from).unwrap_or_default();
            out.u = list.len() as u64;
        }
        // Signals take no lists.
        ParamValue::Texts(list) => out.u = list.len() as u64,
    }
    out
}
