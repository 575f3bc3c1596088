//! Reasons for which a port's frames cannot be sent: each is told once.

use std::fmt::Display;

/// Numbers of errors that were told, one bit for each.
#[derive(Default)]
pub struct SendErrors(u128);

impl SendErrors {
    /// Tells the system's reason, if it is a new one. `port`: its target, as it is bound.
    #[cold]
    pub fn tell(&mut self, port: impl Display, errno: i32) {
        let bit = 1u128.checked_shl(errno.unsigned_abs()).unwrap_or(0);
        if self.0 & bit == 0 {
            self.0 |= bit;
            let why = std::io::Error::from_raw_os_error(errno);
            log::warn!(target: "wireloom", "{port}: frames cannot be sent: {why}");
        }
    }
}
