//! Notices about interfaces of the XDP hook: which frames a program there does not see whole, and
//! which frames are lost behind it.

use super::hook_object::locked;
use super::{notice, say, without_signals};
use log::Level;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use wireloom_runtime::packet::mtu;
use wireloom_xdp::{Attached, Error, Mode, Object, Unsent};

/// Of an interface that a program is put in front of.
pub fn before(interface: &str) {
    if wireloom_xdp::takes_tags_off(interface) {
        say!("{interface} takes VLAN tags off frames: XDP does not see them (`ethtool -K {interface} rxvlan off`)");
    }
}

/// The same when it stands there. `name`: of the program.
pub fn behind(name: &str, interface: &str, found: &Attached) {
    match found.mode {
        Mode::Generic => {
            let why = found.not_native.as_ref().map_or(String::new(), |e| format!(": {}", cause(interface, e)));
            say!("{name} runs in XDP at {interface} in generic mode, which is slower than native{why}");
        }
        Mode::Auto | Mode::Native => say!("{name} runs in XDP at {interface}"),
    }
    if let Some(e) = &found.unfinished {
        say!("checksums that senders at {interface} leave to hardware stay undone (`ethtool -K IF tx off` there): {e}");
    }
    tell_if_down(interface);
}

/// A sentence about an interface that is down.
pub fn tell_if_down(interface: &str) {
    if wireloom_xdp::is_down(interface) {
        say!("{interface} is down: no frames come or go (`ip link set {interface} up`)");
    }
}

/// The reason for which a driver has not taken a program.
fn cause(interface: &str, e: &Error) -> String {
    let Error::Mode { why, .. } = e else { return e.to_string() };
    match why.raw_os_error() {
        Some(libc::EOPNOTSUPP) => "its driver has no XDP".into(),
        Some(libc::ERANGE) => {
            format!("its driver refuses frames as long as the MTU allows, which is {}", mtu(interface))
        }
        _ => format!("its driver refuses the program: {why}"),
    }
}

/// Tells once for each reason that frames to other interfaces are lost, for as long as the process
/// lives.
pub fn watch_redirects(object: Arc<Mutex<Object>>, targets: String) {
    if !locked(&object).source().redirects() {
        return;
    }
    if let Err(e) = locked(&object).count_unsent() {
        say!("frames that an interface does not take count as sent: {e}");
        return;
    }
    let work = move || {
        let mut told = [false; Unsent::ALL.len()];
        while told.contains(&false) {
            std::thread::sleep(Duration::from_secs(1));
            let lost = locked(&object).unsent();
            for (n, reason) in Unsent::ALL.iter().enumerate().filter(|(n, _)| lost[*n] > 0) {
                if !std::mem::replace(&mut told[n], true) {
                    notice!(Level::Warn, "frames that XDP sends to {targets} are lost: {reason}");
                }
            }
        }
    };
    without_signals(|| std::thread::Builder::new().name("redirects".into()).spawn(work).ok());
}
