//! Why a backend is not asked for a time.

/// The kind of a backend's failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    Refused,
    Lost,
    Silent,
    Nonsense,
}

impl Why {
    pub(super) fn text(self) -> &'static str {
        match self {
            Why::Refused => "it takes no connections",
            Why::Lost => "its connections end before they have answered",
            Why::Silent => "it does not answer in time",
            Why::Nonsense => "its answers cannot be read",
        }
    }

    /// Whether a connection that is made shows that it is over.
    pub(super) fn is_about_connections(self) -> bool {
        matches!(self, Why::Refused | Why::Lost)
    }
}

/// Of a backend that is down.
#[derive(Clone, Copy, Debug)]
pub struct Down {
    pub(super) why: Why,
    pub(super) since: u64,
}
