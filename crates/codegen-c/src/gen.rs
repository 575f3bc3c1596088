//! The state of one emission: the module and the growing parts of the C file.

use crate::frame_facts::Frames;
use crate::names;
use std::collections::{BTreeMap, BTreeSet};
use wireloom_ir::*;

/// The parts of the file, in the order in which they are written out.
pub(crate) struct Gen<'m> {
    pub m: &'m Module,
    /// Types and units' structs.
    pub types: String,
    /// Byte sets.
    pub data: String,
    /// Small functions made on demand (hash, equality, find, load and store of values).
    pub helpers: String,
    /// Functions of the program, parsers, handlers.
    pub code: String,
    pub done: BTreeSet<String>,
    sets: BTreeMap<[u64; 4], usize>,
    /// C sources named by `extern` functions.
    pub externs: BTreeSet<String>,
    pub extern_names: BTreeSet<String>,
    pub lines: bool,
    /// For the kernel's XDP hook: `support/bpf.h` takes the place of the other headers.
    pub xdp: bool,
    /// There: bytes of what a part of a handler, or a part of a part, shares with its caller.
    pub xdp_io: usize,
    /// There: locals in memory.
    pub xdp_far: crate::xdp::Far,
    /// There: lines of the log, by number.
    pub xdp_lines: Vec<Vec<crate::xdp::LinePart>>,
    /// There: constants and wide entries of tables.
    pub scratch: crate::xdp::Scratch,
    /// There: parameters that the loader sets.
    pub xdp_params: BTreeSet<ParamId>,
    /// There: instances of each port.
    pub instances: Vec<u32>,
    /// With marks: the names that they distinguish.
    pub marks: Option<Vec<String>>,
    /// Forced by edits: extents that must be in the view.
    pub extents: BTreeSet<(u32, u32)>,
    /// Forced by merges: values that must be in the view.
    pub values: BTreeSet<(u32, u32)>,
    /// List fields whose items must be in the view.
    pub items: BTreeSet<(u32, u32)>,
    pub frames: Frames,
    /// Which functions pause in their long loops.
    pub pauses: Vec<bool>,
    /// Parts that handlers share look at the time.
    looks: bool,
    /// The fields of the packet's state that the handler at hand gets from its queue.
    pub carried_in: BTreeSet<PacketFieldId>,
    /// Tables for whose entries handlers wait.
    pub awaited: BTreeSet<TableId>,
}

fn awaited(m: &Module) -> BTreeSet<TableId> {
    let mut found = BTreeSet::new();
    m.bodies(&mut |b| {
        walk::stmts(&b.block, &mut |s| {
            if let StmtKind::Wait { table, .. } = s.kind {
                found.insert(table);
            }
        })
    });
    found
}

impl<'m> Gen<'m> {
    pub fn new(m: &'m Module) -> Self {
        Gen {
            m,
            types: String::new(),
            data: String::new(),
            helpers: String::new(),
            code: String::new(),
            done: BTreeSet::new(),
            sets: BTreeMap::new(),
            externs: BTreeSet::new(),
            extern_names: BTreeSet::new(),
            lines: false,
            xdp: false,
            xdp_io: 0,
            xdp_far: Default::default(),
            xdp_lines: Vec::new(),
            xdp_params: BTreeSet::new(),
            scratch: Default::default(),
            instances: Vec::new(),
            marks: None,
            extents: BTreeSet::new(),
            values: BTreeSet::new(),
            items: BTreeSet::new(),
            frames: Frames::default(),
            pauses: passes::pauses::funcs(m),
            looks: passes::time_limit::in_parts(m),
            carried_in: BTreeSet::new(),
            awaited: awaited(m),
        }
    }

    /// Whether a handler may look at the time.
    pub fn may_look(&self, h: &Handler) -> bool {
        self.looks || passes::time_limit::has_look(&h.body)
    }

    /// Notes the extents that edits need: of the fields they replace, of the lists they change and
    /// of the items they remove.
    pub fn mark_edited(&mut self) {
        let edited = edited_fields::of(self.m);
        self.extents.extend(edited.extents);
        self.items.extend(edited.items);
    }

    /// A statement that notes where the program is now; empty without marks.
    pub fn mark(&mut self, name: &str) -> String {
        let Some(names) = &mut self.marks else { return String::new() };
        let n = names.iter().position(|n| n == name).unwrap_or_else(|| {
            names.push(name.to_string());
            names.len() - 1
        });
        format!("wl_mark({n}); /* {} */\n", names::comment(name))
    }

    /// True at the first use of a helper of this name.
    pub fn first(&mut self, name: &str) -> bool {
        self.done.insert(name.to_string())
    }

    /// The C constant for a set of bytes.
    pub fn set(&mut self, set: &ByteSet) -> String {
        let next = self.sets.len();
        let id = *self.sets.entry(set.0).or_insert(next);
        if id == next {
            let map = set.0.map(|w| format!("UINT64_C({w:#x})")).join(", ");
            let nibble = |high: bool| {
                (0..16u8)
                    .map(|lo| {
                        (0..8u8)
                            .fold(0u8, |a, hi| a | (set.has((hi + if high { 8 } else { 0 }) << 4 | lo) as u8) << hi)
                            .to_string()
                    })
                    .collect::<Vec<_>>()
                    .join(", ")
            };
            let (lo, hi) = (nibble(false), nibble(true));
            self.data.push_str(&format!("static const wl_set set_{id} = {{{{{map}}}, {{{lo}}}, {{{hi}}}}};\n"));
        }
        format!("set_{id}")
    }

    /// Whether a field's extent is kept in the view.
    pub fn has_extent(&self, u: UnitId, f: FieldId) -> bool {
        self.m.unit(u).fields[f.index()].extent_used || self.extents.contains(&(u.0, f.0))
    }
}

/// The mark, on a cache line of its own: read by another thread.
pub(crate) const MARK: &str = "__attribute__((visibility(\"default\"), aligned(64))) uint32_t wireloom_mark[16];\n\
#define wl_mark(n) do { __atomic_signal_fence(__ATOMIC_SEQ_CST); __atomic_store_n(wireloom_mark, n, __ATOMIC_RELAXED); __atomic_signal_fence(__ATOMIC_SEQ_CST); } while (0)\n";

/// Indents by the depth of braces; labels and preprocessor lines go to the margin.
pub(crate) fn indent(text: &str) -> String {
    let mut out = String::with_capacity(text.len() * 5 / 4);
    let mut depth: usize = 0;
    for line in text.lines() {
        let line = line.trim();
        if line.is_empty() {
            if !out.ends_with("\n\n") {
                out.push('\n')
            }
            continue;
        }
        let (mut open, mut close, mut lead, mut leading) = (0usize, 0usize, 0usize, true);
        let (mut quote, mut escaped, mut prev) = (None, false, ' ');
        for c in line.chars() {
            match quote {
                Some(q) => {
                    if escaped {
                        escaped = false
                    } else if c == '\\' {
                        escaped = true
                    } else if c == q {
                        quote = None
                    }
                }
                None if c == '"' || c == '\'' => quote = Some(c),
                None if prev == '/' && (c == '*' || c == '/') => break,
                None if c == '{' => {
                    open += 1;
                    leading = false
                }
                None if c == '}' => {
                    close += 1;
                    if leading {
                        lead += 1
                    }
                }
                None => leading = false,
            }
            prev = c;
        }
        let label = line.ends_with(":;")
            || line.starts_with('#')
            || (line.starts_with("case ") || line.starts_with("default:")) && depth > 0;
        let at = depth.saturating_sub(lead + label as usize);
        if !line.starts_with('#') {
            for _ in 0..at {
                out.push_str("    ")
            }
        }
        out.push_str(line);
        out.push('\n');
        depth = (depth + open).saturating_sub(close);
    }
    out
}
