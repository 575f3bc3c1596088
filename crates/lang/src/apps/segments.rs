//! Segments: `segment rx on cpu(0) { … }`, and handlers `on cpu(0)` or `on nic`. In: handlers and
//! wirings that stand in one. Out: the segment of each handler, the queues between segments, and
//! the conflicts of what cannot be divided.

use crate::compiler::{Compiler, R};
use crate::names::ModId;
use crate::units::findings::source;
use ir::core_partition::Resource;
use ir::desc::{FrameEngine, PortKind};
use ir::ops::Device;
use ir::segments::{self, Conflict, Crossings};
use ir::{PortId, SegmentId};
use wireloom_ir as ir;
use wireloom_syntax::ast::{self, Ident, MemberKind, Span};
use wireloom_syntax::Diagnostic;

/// Cores that can be named.
const CPUS: u64 = 1024;

impl Compiler<'_> {
    /// Notes the segments, and sees to it that they hold handlers and wirings only. A handler that
    /// names its cores, or the NIC, is a segment of its own. So is one that names another device in
    /// an app with segments.
    pub fn note_segments(&mut self, module: ModId, app: &ast::Element) {
        for m in &app.members {
            if let MemberKind::Segment { name, device } = &m.kind {
                let made = self.segment(module, name, device, m.span);
                self.settle(made, m.span);
            } else if self.segment_at(m.span).is_some()
                && !matches!(m.kind, MemberKind::Handler(_) | MemberKind::Wiring(_))
            {
                let d = Diagnostic::error("E0651", m.span, "a segment holds handlers, timers and wirings only");
                self.report(d.hint("move this out of the segment: all segments of the app know its names"));
            }
        }
        for cpu in [true, false] {
            if !cpu && self.m.segments.is_empty() {
                return;
            }
            for m in &app.members {
                let MemberKind::Handler(ast::Handler { on, device: Some(device), .. }) = &m.kind else { continue };
                let ast::On::Message { port, .. } = on else { continue };
                if (device.cores.is_some() || device.name.name == "nic") == cpu
                    && (cpu || self.segment_at(m.span).is_none())
                {
                    let made = self.segment(module, port, device, m.span);
                    self.settle(made, m.span);
                }
            }
        }
    }

    pub fn segment(&mut self, module: ModId, name: &Ident, device: &ast::Device, whole: Span) -> R<()> {
        if let Some(at) = self.segment_at(whole) {
            let first = self.m.segments[at.index()].name.clone();
            let d = Diagnostic::error("E0651", name.span, "a segment holds handlers, timers and wirings only");
            return Err(self.report(d.label(format!("inside of segment `{first}`")).hint("write one behind the other")));
        }
        if self.m.segments.iter().any(|s| s.name == name.name) {
            return Err(self.error("E0203", name.span, format!("segment `{}` is defined twice", name.name)));
        }
        let on = self.device_of(device)?;
        let (first, cores) = match &device.cores {
            None => (0, 1),
            Some(n) if on == Device::Nic => (0, self.cores_of_nic(module, n)?),
            Some(cores) => self.cores(module, cores)?,
        };
        let (span, device) = (self.span(name.span), on);
        self.m.segments.push(ir::Segment { name: name.name.clone(), device, cpu: first, cores, span });
        self.segment_spans.push(whole);
        Ok(())
    }

    /// `cpu(2)`, `cpu(0..2)`: the first core, and the number of cores.
    fn cores(&mut self, module: ModId, cpu: &ast::Expr) -> R<(u32, u32)> {
        let (first, end) = if let ast::ExprKind::Range(first, end, inclusive) = &*cpu.kind {
            (self.number_in_app(module, first)?, self.number_in_app(module, end)?.saturating_add(u64::from(*inclusive)))
        } else {
            self.number_in_app(module, cpu).map(|n| (n, n.saturating_add(1)))?
        };
        if end > CPUS {
            return Err(self.error("E0304", cpu.span, format!("a core's number is below {CPUS}")));
        }
        if first >= end {
            let d = Diagnostic::error("E0304", cpu.span, "a segment has at least one core");
            return Err(self.report(d.hint("`0..2` are the cores 0 and 1")));
        }
        Ok((first as u32, (end - first) as u32))
    }

    /// `nic(cores 2)`: the number of cores.
    fn cores_of_nic(&mut self, module: ModId, cores: &ast::Expr) -> R<u32> {
        if matches!(&*cores.kind, ast::ExprKind::Range(..)) {
            let d = Diagnostic::error("E0304", cores.span, "a NIC is told how many cores a segment takes, not which");
            return Err(self.report(d.hint("`nic(cores 2)` takes two")));
        }
        match self.number_in_app(module, cores)? {
            0 => Err(self.error("E0304", cores.span, "a segment has at least one core")),
            n @ 1..=CPUS => Ok(n as u32),
            _ => Err(self.error("E0304", cores.span, format!("a segment has at most {CPUS} cores"))),
        }
    }

    pub fn segment_at(&self, at: Span) -> Option<SegmentId> {
        let holds = |s: &Span| s.file == at.file && s.start <= at.start && at.end <= s.end;
        self.segment_spans.iter().position(holds).map(|n| SegmentId(n as u32))
    }

    /// The handlers from `first` on were made for a member that stands there.
    pub fn in_segment(&mut self, first: usize, at: Span) {
        let segment = self.segment_at(at);
        for h in &mut self.m.handlers[first..] {
            h.segment = segment;
        }
        if segment.is_some_and(|s| self.m.segments[s.index()].device == Device::Xdp) {
            let made = self.on_xdp(at, first);
            self.settle(made, at);
        }
    }

    /// Divides the app.
    pub fn place_segments(&mut self) {
        // Where bodies are missing, so are the reasons for a place.
        if self.diags.iter().any(Diagnostic::is_error) {
            return;
        }
        let placed = segments::place(&self.m).unwrap_or_default();
        let failed = !placed.conflicts.is_empty();
        for (h, s) in self.m.handlers.iter_mut().zip(placed.handlers) {
            h.segment = s;
        }
        for c in placed.conflicts {
            let d = self.conflict(c);
            self.report(d);
        }
        if !failed {
            let _ = self.crossing_queues(&placed.crossings);
        }
    }

    fn crossing_queues(&mut self, crossings: &Crossings) -> R<()> {
        for (queue, (lossless, at)) in self.lossless.clone() {
            if !crossings.contains_key(&queue) {
                let word = if lossless { "lossless" } else { "lossy" };
                let name = self.m.ports[queue.index()].name.clone();
                let d = Diagnostic::error("E0657", at, format!("`{name}` does not lead from one segment to another"))
                    .label(format!("`{word}` is for queues between segments"))
                    .note("any other queue discards a packet that finds it full");
                return Err(self.report(d.hint(format!("leave out `{word}`"))));
            }
        }
        for queue in crossings.keys() {
            let lossless = self.lossless.get(queue).is_some_and(|l| l.0);
            if let PortKind::Frames { engine, .. } = &mut self.m.ports[queue.index()].kind {
                *engine = if lossless { FrameEngine::Lossless } else { FrameEngine::Lossy };
            }
        }
        Ok(())
    }

    fn conflict(&self, c: Conflict) -> Diagnostic {
        match c {
            Conflict::Connections => {
                let at = self.segment_spans.first().copied().unwrap_or_default();
                Diagnostic::error("E0652", at, "an app with connections has no segments")
                    .label("a segment is for packets")
                    .hint("make the packets an app of their own: `wireloom run a.loom b.loom` runs both")
            }
            Conflict::Unplaced { handler } => {
                let name = &self.m.handlers[handler].name;
                Diagnostic::error("E0653", self.at(handler), format!("the packets of `{name}` belong to no segment"))
                    .label("outside of the segments")
                    .hint("move it into a segment: `segment name on cpu(0) { … }`")
            }
            Conflict::Resource { thing, first, second } => {
                let (what, name, hint) = self.divided(thing);
                let all = self.m.handlers[second].segment.is_none() || self.m.handlers[first].segment.is_none();
                let text = match all {
                    true => format!("{what} `{name}` is used by a segment, and by a handler that runs in all of them"),
                    false => format!("{what} `{name}` is used by two segments, each on a core of its own"),
                };
                Diagnostic::error("E0654", self.at(second), text)
                    .label(format!("used in {}", self.where_is(second)))
                    .also(self.at(first), format!("used in {}", self.where_is(first)))
                    .hint(hint)
            }
            Conflict::Asked { queue, handler } => {
                let name = &self.m.ports[queue.index()].name;
                let text = format!("`{name}` leads from one segment to another, and is asked for its packets");
                Diagnostic::error("E0655", self.at(handler), text)
                    .label("asked here")
                    .note("such a queue gives its packets to its handler by itself")
                    .hint("leave out `pop`, `discard`, `first` and `len`, or keep its senders in the segment")
            }
            Conflict::Several { handler } => {
                let text = "a segment of several cores gets its packets from queues only";
                Diagnostic::error("E0658", self.at(handler), text)
                    .label("the packets of a port")
                    .note("a port is read by one core")
                    .hint(
                        "read the port in a segment of one core, and send its packets to a queue: \
                         `p -> steer q by p.pair`",
                    )
            }
            Conflict::Copied { table, handler } => {
                let name = &self.m.tables[table.index()].name;
                let text = format!("the packets of a segment of several cores cannot change `{name}`");
                Diagnostic::error("E0658", self.at(handler), text)
                    .label(format!("`{name}` is changed here"))
                    .note("each core has a copy of a wildcard or LPM table")
                    .hint("change it in a signal or a timer, or give the segment one core")
            }
            Conflict::Few { queue, instances } => {
                let port = &self.m.ports[queue.index()];
                let at = source(port.span);
                let text = format!("`{}` has {instances} instances, fewer than the cores that it leads to", port.name);
                Diagnostic::error("E0658", at, text.replace(" 1 instances", " 1 instance"))
                    .label("some cores would have nothing to do")
                    .hint("`instances 2` for two cores: instance i goes to core i of the segment")
            }
            Conflict::Circle(queues) => {
                let at = |q: &PortId| source(self.m.ports[q.index()].span);
                let name = |q: &PortId| format!("`{}`", self.m.ports[q.index()].name);
                let text = match queues.as_slice() {
                    [one] => format!("{} leads from a segment back to it", name(one)),
                    all => format!("{} lead in a circle", all.iter().map(name).collect::<Vec<_>>().join(" and ")),
                };
                let first = queues.first().map(at).unwrap_or_default();
                let d = Diagnostic::error("E0656", first, text).label("begins here");
                let d = queues.iter().skip(1).fold(d, |d, q| d.also(at(q), "goes on here"));
                d.note("each segment would wait for the other").hint("put both ends into one segment")
            }
            Conflict::Port { port, nic, other } => {
                let name = &self.m.ports[port.index()].name;
                self.on_both(format!("port `{name}` is used by the NIC, and by the CPU"), (nic, other)).hint(format!(
                    "send the packets to a queue of the segment that has `{name}`: `queue q {{ depth 1K }}`, `q -> {name}`"
                ))
            }
            Conflict::Table { table, nic, other } => {
                let name = &self.m.tables[table.index()].name;
                self.on_both(format!("table `{name}` is read by the NIC, and by the CPU"), (nic, other))
                    .hint("use a table for each of them, or send what was found with the packet, in `.mark`")
            }
        }
    }

    /// Something that the processes of NIC and CPU would share, with a handler of each.
    fn on_both(&self, text: String, (nic, other): (usize, usize)) -> Diagnostic {
        Diagnostic::error("E0659", self.at(other), text)
            .label(format!("used in {}", self.where_is(other)))
            .also(self.at(nic), format!("used in {}, on the NIC", self.where_is(nic)))
            .note("they are two processes, joined by queues only")
    }

    fn where_is(&self, handler: usize) -> String {
        match self.m.handlers[handler].segment.map(|s| &self.m.segments[s.index()].name) {
            Some(name) => format!("segment `{name}`"),
            None => "all segments".into(),
        }
    }

    fn divided(&self, thing: Resource) -> (&'static str, String, &'static str) {
        match thing {
            Resource::State(s) => (
                "state",
                self.m.states[s.index()].name.clone(),
                "send the value with the packet, in `.mark`, or use one state for each segment",
            ),
            Resource::Counter(c) => (
                "counter",
                self.m.counters[c.index()].name.clone(),
                "a segment reads only counters that no other one counts: use two counters",
            ),
            Resource::Table(t) => (
                "table",
                self.m.tables[t.index()].name.clone(),
                "use it in one segment only; tables that only signals fill may be read in all",
            ),
            Resource::Queue(q) => (
                "queue",
                self.m.ports[q.index()].name.clone(),
                "give its packets to a handler in a segment: `on q(p) { … }` or `q -> …`",
            ),
        }
    }
}
