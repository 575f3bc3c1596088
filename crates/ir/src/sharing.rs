//! How clients share the connections of a backend.

use serde::{Deserialize, Serialize};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Sharing {
    /// Many requests under way on one connection, from any client.
    Pipelined,
    /// One request at a time; idle connections are pooled.
    Exclusive,
    /// Each belongs to one client's connection: messages in both directions.
    Session,
}
