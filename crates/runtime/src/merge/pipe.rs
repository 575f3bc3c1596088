//! A bounded stream of blocks from one task of a merge to another. Blocks go round, so nothing is
//! copied or allocated.

use super::socket::Bell;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard};

/// Bytes of whole messages: the first `len` of `bytes`.
pub struct Block {
    pub bytes: Box<[u8]>,
    pub len: usize,
}

/// The result of a read.
pub enum PipeRead {
    Block(Block),
    /// Nothing yet; the reader's bell rings when there is.
    Later,
    End,
}

pub struct Pipe {
    inner: Mutex<Inner>,
    /// Of the task that reads, and of the one that writes.
    reader: Arc<Bell>,
    writer: Arc<Bell>,
}

#[derive(Default)]
struct Inner {
    full: VecDeque<Block>,
    empty: Vec<Box<[u8]>>,
    ended: bool,
    reader_waits: bool,
    writer_waits: bool,
}

impl Pipe {
    pub fn new(blocks: Vec<Box<[u8]>>, reader: Arc<Bell>, writer: Arc<Bell>) -> Pipe {
        Pipe { inner: Mutex::new(Inner { empty: blocks, ..Inner::default() }), reader, writer }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        // The state is consistent at every point where a panic could happen.
        self.inner.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// An empty block to write to; None: the writer's bell rings when there is one.
    pub fn take_empty(&self) -> Option<Box<[u8]>> {
        let mut inner = self.lock();
        let block = inner.empty.pop();
        inner.writer_waits = block.is_none();
        block
    }

    pub fn give_empty(&self, block: Box<[u8]>) {
        let mut inner = self.lock();
        inner.empty.push(block);
        if std::mem::take(&mut inner.writer_waits) {
            self.writer.ring();
        }
    }

    pub fn push(&self, block: Block) {
        let mut inner = self.lock();
        inner.full.push_back(block);
        if std::mem::take(&mut inner.reader_waits) {
            self.reader.ring();
        }
    }

    /// Nothing follows.
    pub fn end(&self) {
        let mut inner = self.lock();
        inner.ended = true;
        if std::mem::take(&mut inner.reader_waits) {
            self.reader.ring();
        }
    }

    pub fn next(&self) -> PipeRead {
        let mut inner = self.lock();
        match inner.full.pop_front() {
            Some(b) => PipeRead::Block(b),
            None if inner.ended => PipeRead::End,
            None => {
                inner.reader_waits = true;
                PipeRead::Later
            }
        }
    }

    /// The blocks, when both ends are done.
    pub fn blocks(&self) -> Vec<Box<[u8]>> {
        let mut inner = self.lock();
        let mut all = std::mem::take(&mut inner.empty);
        all.extend(inner.full.drain(..).map(|b| b.bytes));
        all
    }
}
