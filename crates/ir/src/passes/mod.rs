//! The passes between the lowering and the backends, one pass per file.
//!
//! In: a verified [`Module`] whose grammars are analysed ([`crate::grammar::analyze`]). Out: the
//! same, annotated. A pass changes only the parts that its line in [`TABLE`] names. Running all of
//! them twice gives the same module.

pub mod affinity_groups;
pub mod batch_lookup;
pub mod carries;
pub mod copied_values;
pub mod copies;
pub mod edits;
pub mod field_liveness;
pub mod flow_affinity;
pub(crate) mod flow_keys;
pub mod fold;
pub mod frame_last_use;
mod frame_ways;
pub mod fresh_headers;
pub mod header_facts;
pub mod header_slots;
pub mod hoisted_state;
pub mod implied_conditions;
pub mod inline_elements;
pub mod late_keys;
pub mod liveness;
mod local_set;
mod memory;
pub mod message_runs;
mod moves;
mod on_request;
pub mod packet_fast_path;
pub mod pauses;
pub mod payload_in_place;
pub mod selects;
pub mod specialize;
pub mod steps;
pub mod straight;
pub mod string_range;
pub mod swaps;
pub mod time_limit;
pub mod vectorize;
pub mod zero_init;

use crate::{verify, Module};
pub use on_request::{find, ON_REQUEST};

pub struct Pass {
    pub name: &'static str,
    pub doc: &'static str,
    pub run: fn(&mut Module),
}

/// All passes, in the order in which they run.
pub const TABLE: &[Pass] = &[
    Pass {
        name: "fresh_headers",
        doc: "which elements get packets with other headers than their sender has found",
        run: fresh_headers::run,
    },
    Pass {
        name: "inline_elements",
        doc: "puts elements into their senders, up to a size; larger ones are joined to",
        run: inline_elements::run,
    },
    Pass {
        name: "string_range",
        doc: "drops checks of lengths and characters that a text's construction guarantees",
        run: string_range::run,
    },
    Pass {
        name: "implied_conditions",
        doc: "replaces conditions that earlier ones imply by constants",
        run: implied_conditions::run,
    },
    Pass {
        name: "fold",
        doc: "constant folding; drops requirements that hold and branches that are never taken",
        run: fold::run,
    },
    Pass { name: "zero_init", doc: "sets locals to zero that may be read before they are set", run: zero_init::run },
    Pass { name: "edits", doc: "sorts the edits of passed messages into wire order", run: edits::run },
    Pass {
        name: "field_liveness",
        doc: "marks the fields whose value or extent is read; the rest is not stored",
        run: field_liveness::run,
    },
    Pass {
        name: "copies",
        doc: "drops copies of packets that nobody uses behind the element they were made for",
        run: copies::run,
    },
    Pass { name: "swaps", doc: "two fields of a header that change places, without their checksums", run: swaps::run },
    Pass {
        name: "carries",
        doc: "finds the fields of the packet's state, and the part of the frame, that cross a queue",
        run: carries::run,
    },
    Pass {
        name: "flow_affinity",
        doc: "the flow key of packets, and which tables each core has for itself",
        run: flow_affinity::run,
    },
    Pass {
        name: "frame_last_use",
        doc: "moves a frame at its last use; copies bytes that are used behind a change of their frame or state",
        run: frame_last_use::run,
    },
    Pass {
        name: "copied_values",
        doc: "tables whose values are copied when they are read, as the same body changes them",
        run: copied_values::run,
    },
    Pass {
        name: "payload_in_place",
        doc: "the part of a new payload that stays where it is",
        run: payload_in_place::run,
    },
    Pass {
        name: "liveness",
        doc: "live locals at suspensions; which messages are held across them",
        run: liveness::run,
    },
    Pass { name: "time_limit", doc: "long loops look at the time that they have used", run: time_limit::run },
    Pass { name: "steps", doc: "worst-case steps per handler", run: steps::run },
    Pass { name: "pauses", doc: "which handlers pause between two rounds of a long loop", run: pauses::run },
    Pass {
        name: "message_runs",
        doc: "which messages of conversations are passed on in runs, as one piece",
        run: message_runs::run,
    },
    Pass { name: "packet_fast_path", doc: "which header stacks are looked for first", run: packet_fast_path::run },
    Pass { name: "header_slots", doc: "the header fields whose places a parser notes", run: header_slots::run },
    Pass {
        name: "batch_lookup",
        doc: "which lookups are done ahead for a batch of frames, with which keys",
        run: batch_lookup::run,
    },
    Pass {
        name: "hoisted_state",
        doc: "values that a handler of frames keeps in registers over a batch",
        run: hoisted_state::run,
    },
    Pass {
        name: "late_keys",
        doc: "records of a frame's fields that are made where they are used",
        run: late_keys::run,
    },
    Pass {
        name: "specialize",
        doc: "which small handlers are compiled again for the most common header stack",
        run: specialize::run,
    },
    Pass { name: "selects", doc: "branches that are carried out without a jump", run: selects::run },
    Pass {
        name: "vectorize",
        doc: "which handlers, or keys of lookups, are computed for sixteen frames at a time, and how",
        run: vectorize::run,
    },
];

/// Runs all passes. In debug builds the verifier follows each: on a module that was sound before,
/// its complaint is a bug of that pass.
pub fn run_all(m: &mut Module) {
    run_each(m, TABLE.iter())
}

/// Runs all passes but the one that puts elements into their senders: the graph stays as it was
/// lowered. Its tables lie where those of the same program lie whose elements are inlined, so that
/// the two can be compared.
pub fn run_on_graph(m: &mut Module) {
    run_both(m);
}

/// The same; gives the program whose elements are inlined, too.
pub fn run_both(m: &mut Module) -> Module {
    let mut inlined = m.clone();
    run_all(&mut inlined);
    run_each(m, TABLE.iter().filter(|p| p.name != "inline_elements"));
    for (t, other) in m.tables.iter_mut().zip(&inlined.tables) {
        t.local = other.local
    }
    replan(m);
    inlined
}

/// Makes the plans anew: they depend on where tables lie, and on which headers are asked for.
pub(crate) fn replan(m: &mut Module) {
    for pass in [
        packet_fast_path::run,
        header_slots::run,
        batch_lookup::run,
        hoisted_state::run,
        late_keys::run,
        specialize::run,
        selects::run,
        vectorize::run,
    ] {
        pass(m)
    }
}

const VERIFIES: bool = cfg!(debug_assertions);

/// Builds with assertions verify behind each pass, unless `WIRELOOM_VERIFY=end` is set. Tests set
/// it that start hundreds of programs, each of which is compiled elsewhere, too.
fn behind_each_pass() -> bool {
    std::env::var_os("WIRELOOM_VERIFY").is_none_or(|when| when != "end")
}

fn run_each<'p>(m: &mut Module, passes: impl Iterator<Item = &'p Pass>) {
    let sound = VERIFIES && behind_each_pass() && verify::verify_lowered(m).is_empty();
    for pass in passes {
        (pass.run)(m);
        debug_assert!(
            !sound || verify::verify_lowered(m).is_empty(),
            "pass {} breaks the module: {:?}",
            pass.name,
            verify::verify_lowered(m)
        );
    }
    debug_assert!(!sound || verify::verify(m).is_empty(), "after all passes: {:?}", verify::verify(m));
}
