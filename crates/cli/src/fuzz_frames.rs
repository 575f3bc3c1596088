//! `wireloom fuzz APP.loom` for an app with frame ports.
//!
//! Whole and damaged frames run through the interpreter and compiled code. The interpreter runs the
//! graph of elements as it was lowered. The effects of each frame are compared. This runs in the
//! child process of `fuzz`.

use crate::args::Fuzz;
use crate::engine::{self, How};
use crate::fuzz_limit::Limit;
use crate::{Failure, Outcome};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use wireloom_interp::frames::{hex, samples, FrameIn, FramePair, Mutator};
use wireloom_ir::{Module, TableKind};
use wireloom_runtime::packet::Frames;
use wireloom_runtime::params;

/// Sketches of so many entries make hardly a mistake in the frames of a run. Interpreter and
/// compiled code make theirs for different keys.
const SKETCH: u64 = 1 << 22;

fn enlarge_sketches(m: &mut Module) {
    let sketches = m.tables.iter_mut().filter(|t| matches!(t.kind, TableKind::Bloom | TableKind::CountMin));
    sketches.for_each(|t| t.capacity = t.capacity.max(SKETCH));
}

/// `both`: the graph as it was lowered, and the module that is compiled.
pub fn inner(args: &Fuzz, both: (Module, Module), note: Option<&Path>, limit: &Limit) -> Outcome {
    let [graph, module] = [both.0, both.1].map(|mut m| {
        enlarge_sketches(&mut m);
        Arc::new(m)
    });
    let sets: Vec<(String, String)> = args.set.iter().map(|s| params::pair(s)).collect::<Result<_, _>>()?;
    let reference = engine::interpret(&graph)?;
    let made = limit.make(&module, &args.compile)?;
    let whom =
        if matches!(made.how, How::Compiled) { "interpreter and compiled code" } else { "the interpreter, twice" };
    let seed = args.seed.unwrap_or(1);
    let failed = |e: String| Failure::Said(format!("{e}\nrepeat with --seed {seed}"));
    eprintln!("wireloom: fuzzing {} for {}: {whom}, seed {seed}", module.app, limit.shown());
    let mut pair = FramePair::new(&module, reference.program, made.program, &sets).map_err(failed)?;
    let addresses: Vec<[u8; 4]> = sets
        .iter()
        .flat_map(|(_, v)| v.split(','))
        .filter_map(|t| t.parse::<std::net::Ipv4Addr>().ok())
        .map(|a| a.octets())
        .collect();
    let mut corpus = samples(&addresses);
    for file in &args.frames {
        let frames = Frames::load(file).map_err(Failure::Said)?;
        corpus.extend(frames.index.iter().map(|&(at, n, _)| frames.data[at as usize..(at + n) as usize].to_vec()));
    }
    let inputs = pair.inputs();
    if inputs.is_empty() {
        return Err(Failure::Said(format!("app `{}` handles no frames", module.app)));
    }
    let mut maker = Mutator::new(seed, corpus, addresses, inputs);
    let mut run = FuzzRun { pair: &mut pair, note: note.map(File::create).transpose()?, seed };
    for (bytes, wire) in maker.systematic().into_iter().take_while(|_| limit.goes_on()) {
        let frame = maker.place(bytes, wire);
        run.one(&frame).map_err(failed)?;
    }
    while limit.is_time_left() {
        run.one(&maker.random()).map_err(failed)?;
    }
    pair.finish().map_err(failed)?;
    let s = pair.sum;
    println!(
        "no difference in {} frames: {} sent, {} faults, {} headers cut off or broken; at the end {} entries in tables, {} packets in queues",
        s.frames, s.sent, s.faults, s.header_faults, s.entries, s.waiting
    );
    Ok(())
}

struct FuzzRun<'a, 'm> {
    pair: &'a mut FramePair<'m>,
    /// The outer process reports this if the inner one crashes.
    note: Option<File>,
    seed: u64,
}

impl FuzzRun<'_, '_> {
    fn one(&mut self, f: &FrameIn) -> Result<(), String> {
        if let Some(note) = &self.note {
            // The frame's length first: a longer one may have been noted before.
            let text = format!(
                "{}\nframe {} port {} rooms {:?} wire {}: {}\n",
                self.seed,
                self.pair.sum.frames,
                f.port,
                f.rooms,
                f.wire,
                hex(&f.bytes)
            );
            note.write_all_at(text.as_bytes(), 0).map_err(|e| format!("cannot note the frame at hand: {e}"))?;
        }
        let said = self.pair.frame(f).map_err(|e| {
            let (n, wire) = (f.bytes.len(), f.wire);
            format!(
                "frame {} on port {}[{}] at {}, {n} bytes of {wire}, rooms {:?}: {}\n{e}",
                self.pair.sum.frames,
                f.port,
                f.instance,
                f.time,
                f.rooms,
                hex(&f.bytes)
            )
        });
        if let (1.., Some(why)) = wireloom_interp::internal_errors() {
            return Err(format!("internal error of the interpreter: {why}\nat frame {}", hex(&f.bytes)));
        }
        said
    }
}
