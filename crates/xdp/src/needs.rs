//! The needs of programs, and whether this kernel meets them.
//!
//! In: [`Needs`] of programs, and what was [`Found`] out about kernel and process. Out: one error
//! that names the first thing that is missing.

use crate::error::{OLDEST, OLDEST_LOOPED, OLDEST_RINGED};
use crate::feature::Feature;
use crate::{kernel, Error};
use std::fs;
use wireloom_codegen_c::xdp::XdpSource;
use wireloom_ir::TableKind;

/// The capabilities that the hook needs, by number.
const NEEDED: [(&str, u32); 3] = [("CAP_NET_ADMIN", 12), ("CAP_PERFMON", 38), ("CAP_BPF", 39)];
/// It includes `CAP_BPF` and `CAP_PERFMON`.
const CAP_SYS_ADMIN: u32 = 21;

#[derive(Clone, Copy, Default)]
pub struct Needs {
    /// Programs have loops.
    pub looped: bool,
    /// They copy parts of frames.
    pub parts: bool,
    /// They have ring buffers.
    pub rings: bool,
}

impl Needs {
    pub fn of(source: &XdpSource) -> Needs {
        let parts = source.programs.iter().any(|p| p.ringed);
        let rings = parts || !source.lines.is_empty() || source.tables.iter().any(|t| t.kind == TableKind::Ring);
        Needs { looped: source.looped, parts, rings }
    }
}

/// Of a kernel and a process.
#[derive(Clone)]
pub struct Found {
    /// `6.18.0-1-amd64`
    pub release: String,
    /// Effective capabilities.
    pub rights: u64,
    /// Whether the kernel was built with it: asked only where there are the rights.
    pub has: fn(Feature) -> bool,
}

impl Found {
    pub fn here() -> Found {
        let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
        let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
        let effective = status.lines().find_map(|l| u64::from_str_radix(l.strip_prefix("CapEff:")?.trim(), 16).ok());
        Found { release: release.trim().to_string(), rights: effective.unwrap_or(0), has: kernel::has }
    }

    /// Fails with what is missing first: the kernel's age, the rights, or a part of it.
    pub fn check(&self, needs: Needs) -> Result<(), Error> {
        let mut oldest = OLDEST;
        if needs.parts {
            oldest = oldest.max(OLDEST_RINGED)
        }
        if needs.looped {
            oldest = oldest.max(OLDEST_LOOPED)
        }
        let mut numbers = self.release.split(['.', '-']).map_while(|n| n.trim().parse::<u32>().ok());
        if (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0)) < oldest {
            return Err(Error::Old { oldest, release: self.release.clone() });
        }
        let has = |n: u32| self.rights >> n & 1 != 0;
        let lacks = |n: u32| !(has(n) || n > CAP_SYS_ADMIN && has(CAP_SYS_ADMIN));
        let missing: Vec<&'static str> = NEEDED.iter().filter(|c| lacks(c.1)).map(|c| c.0).collect();
        if !missing.is_empty() {
            return Err(Error::Rights(missing));
        }
        let wanted = [Feature::Btf, Feature::Links].into_iter().chain(needs.rings.then_some(Feature::Rings));
        match wanted.into_iter().find(|f| !(self.has)(*f)) {
            Some(feature) => Err(Error::Lacks { feature, release: self.release.clone() }),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: Needs = Needs { looped: true, parts: true, rings: true };

    fn found(release: &str, rights: u64, has: fn(Feature) -> bool) -> Found {
        Found { release: release.into(), rights, has }
    }

    fn told(found: Found, needs: Needs) -> String {
        found.check(needs).err().map_or_else(String::new, |e| e.to_string())
    }

    /// Kernels that nobody here has: each lack is one sentence, and nothing is asked in vain.
    #[test]
    fn old_kernels_are_told_apart() {
        let root = u64::MAX;
        let none: fn(Feature) -> bool = |_| false;
        for (release, needs, oldest) in [
            ("5.16.20", Needs::default(), "5.17"),
            ("5.17.0-rc1", Needs { parts: true, rings: true, looped: false }, "5.18"),
            ("6.8.12-generic", ALL, "6.9"),
            ("4.18.0-553.el8", ALL, "6.9"),
            ("nonsense", Needs::default(), "5.17"),
        ] {
            let text = told(found(release, root, none), needs);
            assert_eq!(text, format!("XDP needs Linux {oldest} or newer for this app; this is {release}"));
        }
        assert_eq!(told(found("6.9.0", root, |_| true), ALL), "");
        assert_eq!(told(found("5.17.0", root, |_| true), Needs::default()), "");
    }

    #[test]
    fn parts_that_a_kernel_was_built_without_are_named() {
        for (has, sign) in [
            ((|f| f != Feature::Btf) as fn(Feature) -> bool, "(BTF)"),
            (|f| f != Feature::Links, "links of BPF programs"),
            (|f| f != Feature::Rings, "ring buffers of BPF programs"),
        ] {
            let text = told(found("6.18.0", u64::MAX, has), ALL);
            assert!(text.starts_with("XDP needs ") && text.contains(sign) && text.contains("6.18.0"), "{text}");
            assert!(text.contains("CONFIG_") && !text.contains('\n'), "{text}");
        }
        // An app without rings needs none.
        assert_eq!(told(found("6.18.0", u64::MAX, |f| f != Feature::Rings), Needs::default()), "");
    }

    #[test]
    fn rights_are_told_before_the_kernel_is_asked() {
        let asked: fn(Feature) -> bool = |_| panic!("without rights nothing is asked");
        let text = told(found("6.18.0", 1 << 12 | 1 << 38, asked), ALL);
        assert!(text.ends_with("this process lacks CAP_BPF"), "{text}");
        // CAP_SYS_ADMIN includes two of them.
        assert_eq!(told(found("6.18.0", 1 << 12 | 1 << 21, |_| true), ALL), "");
        assert!(told(found("6.18.0", 0, asked), ALL).contains("CAP_NET_ADMIN and CAP_PERFMON and CAP_BPF"));
    }

    /// This kernel has what it is asked for, where tests load programs.
    #[test]
    fn this_kernel_is_asked() {
        let here = Found::here();
        if here.check(Needs::default()).is_ok() {
            assert!([Feature::Btf, Feature::Links, Feature::Rings].into_iter().all(here.has));
        } else {
            eprintln!("SKIPPED: no XDP here");
        }
    }
}
