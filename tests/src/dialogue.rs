//! Dialogues: a client's bytes and the expected answers, step by step. One table serves as plain
//! steps, as one pipelined write and in pieces of any size. It runs against any server that speaks
//! the protocol.
//!
//! `@` in the text becomes a tag that is new in every run, so that runs do not see each other's
//! keys.

use crate::client::Client;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The request, and the whole answer.
pub type Step = (&'static str, &'static str);

pub struct Dialogue {
    pub name: &'static str,
    pub steps: &'static [Step],
}

/// A key prefix that no other run uses.
pub fn tag() -> String {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    format!("t{}_{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed))
}

impl Dialogue {
    fn tagged(&self) -> Vec<(String, String)> {
        let tag = tag();
        self.steps.iter().map(|(say, hear)| (say.replace('@', &tag), hear.replace('@', &tag))).collect()
    }

    /// Each step after the answer to the one before.
    pub fn hold(&self, port: u16) {
        eprintln!("dialogue {}, step by step", self.name);
        let mut client = Client::connect(port);
        for (say, hear) in self.tagged() {
            client.send(say).expect(hear);
        }
        client.expect_nothing_more();
    }

    /// All steps in one write.
    pub fn hold_pipelined(&self, port: u16) {
        eprintln!("dialogue {}, pipelined", self.name);
        let steps = self.tagged();
        let mut client = Client::connect(port);
        client.send(steps.iter().map(|s| s.0.as_str()).collect::<String>());
        client.expect(steps.iter().map(|s| s.1.as_str()).collect::<String>()).expect_nothing_more();
    }

    /// All steps, in pieces of n bytes.
    pub fn hold_in_pieces(&self, port: u16, n: usize) {
        eprintln!("dialogue {}, in pieces of {n}", self.name);
        let steps = self.tagged();
        let mut client = Client::connect(port);
        let all: String = steps.iter().map(|s| s.0.as_str()).collect();
        client.send_in_pieces(all.as_bytes(), n);
        client.expect(steps.iter().map(|s| s.1.as_str()).collect::<String>()).expect_nothing_more();
    }
}
