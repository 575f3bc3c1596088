//! Parts that a kernel may have been built without.

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Feature {
    Btf,
    Links,
    Rings,
}

impl Feature {
    /// Its name, and the option of the kernel's configuration.
    pub fn names(self) -> (&'static str, &'static str) {
        match self {
            Feature::Btf => ("type information of BPF programs (BTF)", "CONFIG_BPF_SYSCALL"),
            Feature::Links => ("links of BPF programs to interfaces", "CONFIG_NET"),
            Feature::Rings => ("ring buffers of BPF programs", "CONFIG_BPF_SYSCALL"),
        }
    }
}
