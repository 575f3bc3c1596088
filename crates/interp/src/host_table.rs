//! The table of functions that programs call, for hosts that are no runtime.

/// A `wl_host` of the functions of these names where it stands. Ciphers and stacks are the
/// runtime's.
macro_rules! host_table {
    () => {
        wl_host {
            call: Some(call),
            reply: Some(reply),
            send: Some(send),
            grow: Some(grow),
            close: Some(close),
            log: Some(log),
            fault: Some(fault),
            crypto: Some(wireloom_runtime::crypto::entry),
            pause: Some(wireloom_runtime::core::stacks::run_on),
            late: Some(wireloom_runtime::time_limit::late),
            keep: Some(keep),
            tell: Some(tell),
            ask: Some(ask),
            open: Some(open),
            shut: Some(shut),
            deliver: Some(deliver),
            dismiss: Some(dismiss),
            wait: Some(wait),
            changed: None,
            pool: Some(pool),
            take: Some(take),
            pooled: Some(pooled),
            upstream_fact: Some(upstream_fact),
            change_protocol: Some(become_protocol),
            hold: Some(hold),
        }
    };
}

pub(crate) use host_table;
