//! Pauses between two rounds of a long loop.

/// The act of a handler whose slice is used up.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Pause {
    /// It has no long loop.
    #[default]
    Short,
    /// It pauses, if its request has so many bytes; `in_place`: not behind a call whose answer is
    /// used where it has come. `alone`: no other request of its connection is under way then, and
    /// its request's head has so many bytes. `within`: also between the items of a message that it
    /// puts together, and between the pieces of a large one that it sends.
    Yes { least: u32, in_place: bool, alone: bool, within: bool },
    /// It runs on: why.
    No(String),
}

impl Pause {
    pub fn is_yes(&self) -> bool {
        matches!(self, Pause::Yes { .. })
    }

    /// Whether such a request is handled alone on its connection.
    pub fn alone(&self) -> bool {
        matches!(self, Pause::Yes { alone: true, .. })
    }

    /// Whether it also pauses between items and pieces of messages.
    pub fn within(&self) -> bool {
        matches!(self, Pause::Yes { within: true, .. })
    }

    /// Bytes of a request from which on the handler pauses, if it does.
    pub fn least(&self) -> Option<u32> {
        match self {
            Pause::Yes { least, .. } => Some(*least),
            Pause::Short | Pause::No(_) => None,
        }
    }
}
