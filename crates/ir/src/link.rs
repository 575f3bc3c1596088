//! The parameters of the modelled link between the processes of CPU and NIC: `link { … }` in an
//! app, and `--link`. `crates/runtime/src/packet/nic/meter.rs` has the model.

macro_rules! parameters {
    ($($name:ident = $value:literal $doc:literal;)*) => {
        /// The parameters of the link (`--link NAME=VALUE`).
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub struct Link {
            $(#[doc = $doc] pub $name: u64,)*
        }

        impl Default for Link {
            fn default() -> Link {
                Link { $($name: $value,)* }
            }
        }

        /// Name, default and meaning of each parameter.
        pub const PARAMETERS: &[(&str, u64, &str)] = &[$((stringify!($name), $value, $doc),)*];

        impl Link {
            /// Name and value of each parameter.
            pub fn all(&self) -> Vec<(&'static str, u64)> {
                vec![$((stringify!($name), self.$name),)*]
            }

            fn parameter(&mut self, name: &str) -> Option<&mut u64> {
                match name {
                    $(stringify!($name) => Some(&mut self.$name),)*
                    _ => None,
                }
            }
        }
    };
}

parameters! {
    batch = 16 "entries of one transaction, at most";
    wait = 2000 "ns from a batch's first entry to its last";
    blocking = 0 "1: each transaction waits for the one before";
    entry = 2048 "bytes of a slot of a ring, a multiple of 64; a longer entry takes several";
    payload = 256 "bytes of one TLP's payload, at most";
    request = 512 "bytes that one read request asks for, at most";
    write_header = 24 "bytes before the payload of a write, and of a read request";
    completion_header = 20 "bytes before the payload of a completion";
    doorbell = 4 "bytes of a doorbell";
    status = 8 "bytes of a status word";
    mbits = 63015 "speed of each direction, in million bits per second";
    read = 550 "ns from a read request to its completion";
    write = 250 "ns from a write to its arrival";
    op = 100 "ns of the engine for each transaction";
}

impl Link {
    /// The values that a program gives, and over them those of arguments, `batch=8`.
    pub fn of(program: &[(String, u64)], given: &[String]) -> Result<Link, String> {
        let mut link = Link::default();
        for (name, value) in program {
            link.set(name, *value)?;
        }
        for text in given.iter().flat_map(|t| t.split(',')) {
            let said = |e: String| format!("`--link {text}`: {e}");
            let Some((name, value)) = text.split_once('=') else {
                return Err(said("expected NAME=NUMBER, as in batch=16".into()));
            };
            let number = value.parse().map_err(|_| said(format!("`{value}` is no number")))?;
            link.set(name, number).map_err(said)?;
        }
        Ok(link)
    }

    /// Sets a parameter. An error says what it may be.
    pub fn set(&mut self, name: &str, value: u64) -> Result<(), String> {
        let (from, to, of) = match name {
            "batch" => (1, 4096, 1),
            "entry" => (128, 65536, 64),
            "payload" | "request" => (16, 4096, 1),
            "mbits" => (1, 10_000_000, 1),
            "blocking" => (0, 1, 1),
            "write_header" | "completion_header" => (0, 4096, 1),
            "doorbell" | "status" => (1, 64, 1),
            _ => (0, 1_000_000_000, 1),
        };
        let Some(parameter) = self.parameter(name) else {
            return Err(format!("the link has {}", PARAMETERS.iter().map(|p| p.0).collect::<Vec<_>>().join(", ")));
        };
        if !(from..=to).contains(&value) {
            return Err(format!("`{name}` is {from} to {to}"));
        }
        if !value.is_multiple_of(of) {
            return Err(format!("`{name}` is a multiple of {of}"));
        }
        *parameter = value;
        Ok(())
    }
}
