//! The loaded programs of the hook, which threads of the process share.

use std::sync::{Mutex, MutexGuard};
use wireloom_xdp::Object;

pub fn locked(object: &Mutex<Object>) -> MutexGuard<'_, Object> {
    object.lock().unwrap_or_else(|e| e.into_inner())
}
