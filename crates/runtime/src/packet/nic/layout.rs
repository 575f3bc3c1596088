//! How the memory of two processes is divided. In: the app, and the queues that lead over the link.
//! Out: offsets, the same in both processes.

use super::ring::{Form, CONTENT_MAX};
use crate::packet::board::Place;
use wireloom_ir::desc::{Desc, SegmentDesc};

/// The part of an app with segments `on nic` that a process runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ProcessSide {
    /// All of it.
    #[default]
    All,
    Cpu,
    Nic,
}

impl ProcessSide {
    fn has(self, nic: bool) -> bool {
        match self {
            ProcessSide::All => true,
            ProcessSide::Cpu => !nic,
            ProcessSide::Nic => nic,
        }
    }

    pub fn has_port(self, desc: &Desc, port: usize) -> bool {
        self.has(desc.ports[port].nic)
    }

    pub fn has_table(self, desc: &Desc, table: &str) -> bool {
        self.has(desc.tables.iter().any(|t| t.name == table && t.nic))
    }

    /// Of each core of the app, in their order.
    pub fn cores(self, desc: &Desc) -> Vec<bool> {
        nic_cores(desc).into_iter().map(|nic| self.has(nic)).collect()
    }
}

/// Which cores are the NIC's.
pub fn nic_cores(desc: &Desc) -> Vec<bool> {
    SegmentDesc::of_cores(&desc.segments).into_iter().map(|s| desc.segments[s].nic).collect()
}

/// An instance of a queue that leads from a core of one process to one of the other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkRing {
    pub port: usize,
    pub instance: usize,
    pub from: usize,
    pub to: usize,
    pub depth: usize,
    pub to_card: bool,
}

/// Words of a core's counters.
pub const FRAME_WORDS: usize = 8;
pub const FAULT_SLOTS: usize = 256;
pub const TABLE_WORDS: usize = 8;

pub fn core_words(desc: &Desc) -> usize {
    1 + FRAME_WORDS * desc.ports.len() + 2 * FAULT_SLOTS + desc.counters.len()
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    pub cores: usize,
    /// Words of each core's counters, and of the tables' behind those of all cores.
    pub core_words: usize,
    pub table_words: usize,
    pub ways: Vec<LinkRing>,
    pub forms: Vec<Form>,
}

/// Before the board: words that both processes compare.
pub const HEAD: usize = 4096;

impl Layout {
    pub fn new(desc: &Desc, ways: Vec<LinkRing>, slot: usize) -> Layout {
        let forms = ways.iter().map(|w| Form::of(w.depth, slot, CONTENT_MAX)).collect();
        Layout {
            cores: nic_cores(desc).len(),
            core_words: core_words(desc),
            table_words: TABLE_WORDS * desc.tables.len(),
            ways,
            forms,
        }
    }

    fn words_at(&self) -> usize {
        HEAD + (self.cores * std::mem::size_of::<Place>()).next_multiple_of(4096)
    }

    /// Offsets in bytes and lengths in words: of a core's counters, and of the tables'.
    pub fn core(&self, core: usize) -> (usize, usize) {
        (self.words_at() + 8 * core * self.core_words, self.core_words)
    }

    pub fn tables(&self) -> (usize, usize) {
        (self.core(self.cores).0, self.table_words)
    }

    pub fn ring(&self, way: usize) -> usize {
        let (at, words) = self.tables();
        (at + 8 * words).next_multiple_of(4096) + self.forms[..way].iter().map(Form::bytes).sum::<usize>()
    }

    pub fn bytes(&self) -> usize {
        self.ring(self.forms.len())
    }

    /// The ring of a queue's instance from a core.
    pub fn way(&self, port: usize, instance: usize, from: usize) -> Option<usize> {
        self.ways.iter().position(|w| (w.port, w.instance, w.from) == (port, instance, from))
    }
}
