//! Words of the text form for acts on queues, kinds of tables, engines and operations of vectors.

use crate::desc::FrameEngine;
use crate::plans::{BinaryOp, Compare};
use crate::{QueueAct, TableKind, UpstreamFact};

/// Things that the text form has one word for, each.
pub trait Word: Copy + 'static {
    const WORDS: &'static [(Self, &'static str)];

    fn word(self) -> &'static str;
}

/// A variant without a word does not compile.
macro_rules! words {
    ($type:ident: $($variant:ident $word:literal),* $(,)?) => {
        impl Word for $type {
            const WORDS: &'static [($type, &'static str)] = &[$(($type::$variant, $word)),*];

            fn word(self) -> &'static str {
                match self {
                    $($type::$variant => $word,)*
                }
            }
        }
    };
}

words!(
    QueueAct:
    Pop "pop",
    Drop "drop",
    Len "len",
    First "first",
);

words!(
    UpstreamFact:
    Id "id",
    Instance "instance",
    Owed "owed",
);

words!(
    TableKind:
    Exact "exact",
    Wildcard "wildcard",
    Lpm "lpm",
    Array "array",
    Bloom "bloom",
    CountMin "count_min",
    Ring "ring",
    HyperLogLog "hyper_log_log",
);

words!(
    FrameEngine:
    Nic "nic",
    Pcap "pcap",
    Tun "tun",
    Tap "tap",
    Kernel "kernel",
    Memory "memory",
    Udp "udp",
    Loop "loop",
    Queue "queue",
    Lossy "lossy",
    Lossless "lossless",
);

words!(
    BinaryOp:
    Add "add",
    Sub "sub",
    Mul "mul",
    And "and",
    Or "or",
    Xor "xor",
);

words!(
    Compare:
    Eq "eq",
    Lt "lt",
    Le "le",
);

pub fn value_of<T: Word>(word: &str) -> Option<T> {
    T::WORDS.iter().find(|(_, w)| *w == word).map(|(v, _)| *v)
}
