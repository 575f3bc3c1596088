//! The kinds of faults, and the places that they name.

use crate::Span;
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct FaultPlace {
    pub name: String,
    /// In the program; of a fault that it has no part in, in the library.
    pub span: Span,
    /// In the library, which the program has called at `span`.
    pub library: Option<Span>,
}

/// A fault kind that the program declares (`fault name`).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OwnFault {
    pub name: String,
    pub doc: String,
}

/// A fault kind as in `support/wireloom.h` (`WL_F_*`; user kinds from 32).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FaultKind(pub u16);

impl FaultKind {
    pub const MALFORMED: Self = Self(1);
    pub const TOO_LONG: Self = Self(2);
    pub const TRUNCATED: Self = Self(3);
    pub const CONSTRAINT: Self = Self(4);
    pub const INDEX: Self = Self(5);
    pub const DIVISION: Self = Self(6);
    pub const NONE_VALUE: Self = Self(7);
    pub const LOST: Self = Self(8);
    pub const REFUSED: Self = Self(9);
    pub const TIMEOUT: Self = Self(10);
    pub const BAD_REPLY: Self = Self(11);
    pub const OVERLOAD: Self = Self(12);
    pub const IDLE: Self = Self(13);
    pub const FULL: Self = Self(14);
    pub const CANCELLED: Self = Self(15);
    pub const NO_REPLY: Self = Self(16);
    /// The fault that protocols see in the place of MALFORMED, CONSTRAINT and TOO_LONG where a
    /// handler has ended with it. Programs raise it, too.
    pub const INTERNAL: Self = Self(18);
    /// Told where the service ends: no handler raises it.
    pub const SHUTDOWN: Self = Self(21);
    /// Why a connection has ended, without a fault.
    pub const ENDED: Self = Self(22);
    /// An `expect` of a test that does not hold.
    pub const EXPECT: Self = Self(17);
    /// Bytes have come ahead of a change of protocol.
    pub const EARLY: Self = Self(19);
    /// A message of a protocol that its receiver does not speak at present.
    pub const UNSPOKEN: Self = Self(20);
    pub const USER: u16 = 32;
    /// The last kind below `USER` that is there.
    const LAST: Self = Self::ENDED;

    /// Whether a program may raise it. The others say why a connection has ended.
    pub fn can_be_raised(self) -> bool {
        let of_runtime = (Self::MALFORMED.0..=Self::LAST.0).contains(&self.0);
        self.0 >= Self::USER || of_runtime && self != Self::SHUTDOWN && self != Self::ENDED
    }
}
