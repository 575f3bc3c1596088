//! Programs that the checker takes, and the parts of the language that they have.

use super::{app, program, Kind, Parts, FEATURES};
use crate::programs::checked;
use std::path::Path;

/// So many programs that the checker takes, and how many it refuses. `path`: a file for them.
pub fn accepted(kind: Kind, seed: u64, together: usize, path: &Path) -> (Vec<Parts>, usize) {
    let (mut all, mut refused) = (Vec::new(), 0);
    for n in 0.. {
        let one = program(kind, seed * 1000 + n, n as usize);
        std::fs::write(path, app(kind, std::slice::from_ref(&one))).expect("the folder is writable");
        match checked(path, None) {
            Ok(_) => all.push(one),
            Err(why) => {
                if std::env::var_os("WIRELOOM_REFUSED").is_some() {
                    eprintln!("{why}")
                }
                refused += 1;
            }
        }
        if all.len() == together || n > 20 * together as u64 {
            break;
        }
    }
    (all, refused)
}

/// How many programs have each part of the language.
pub struct Features([usize; FEATURES.len()]);

impl Default for Features {
    fn default() -> Features {
        Features([0; FEATURES.len()])
    }
}

/// Of so many programs each part of the language is in one at least.
const FEW: usize = 200;

impl Features {
    pub fn count(&mut self, programs: &[Parts]) {
        for p in programs {
            for (n, (_, _, text)) in self.0.iter_mut().zip(FEATURES) {
                *n += usize::from(p.has(text))
            }
        }
    }

    /// Shows them; of many programs none may be missing.
    pub fn judge(&self, kind: Kind, all: usize) {
        for (n, (_, name, _)) in self.0.iter().zip(FEATURES).filter(|(_, f)| f.0 == kind) {
            eprintln!("{kind:?}: {n} of {all} have {name}");
            assert!(*n > 0 || all < FEW, "no program has {name}");
        }
    }
}
