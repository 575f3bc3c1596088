//! Clusters: apps of one process that read one port and can be steered by one key. All apps of a
//! cluster handle a frame on one core.
//!
//! In: the modules of a process, their passes run, and the bindings of their ports ([`Bound`]).
//! Out: the clusters. [`apply`] sets the members' [`Module::steer`] to the cluster's: the parts
//! that the keys of all members have in common. A part of a key serves as a key, so each member's
//! tables stay divided by core. The parts are compared in the terms of the first member. Apps whose
//! packets have other headers form no cluster.

use super::flow_affinity::{self, LocalTables, Plan};
use super::flow_keys::{self, KeyPart};
use crate::*;

/// Of each app the frame ports that are read, and what each is bound to: apps that read the same
/// thing share it.
pub type Bound = Vec<Vec<(String, Vec<String>)>>;

/// As long as nothing else is known, ports of one name are one: `--bind` binds them together.
pub fn by_name(apps: &[Module]) -> Bound {
    let read = |m: &Module| {
        m.ports.iter().filter(|p| reads(m, &p.name)).map(|p| (p.name.clone(), vec![p.name.clone()])).collect()
    };
    apps.iter().map(read).collect()
}

/// Apps that are steered together.
#[derive(Clone, Debug, PartialEq)]
pub struct Cluster {
    /// Which of the modules.
    pub apps: Vec<usize>,
    /// The common key, in the terms of the first app that has one; empty: by flow, or all on one
    /// core.
    parts: Vec<KeyPart>,
    keyed: Option<usize>,
    one_core: bool,
    /// The key in words.
    pub key: String,
    /// How each member's key is related to the common one, and why it is in no cluster before this
    /// one.
    pub why: Vec<String>,
}

/// The clusters of all apps that read frames, in the order of their first apps.
pub fn clusters(apps: &[Module], bound: &Bound) -> Vec<Cluster> {
    let mut all: Vec<Cluster> = Vec::new();
    for (n, m) in apps.iter().enumerate() {
        if !m.handlers.iter().any(|h| matches!(h.on, On::Frame { .. })) {
            continue;
        }
        let plan = flow_affinity::plan(m);
        let mut refusals = Vec::new();
        let joined =
            all.iter_mut().filter(|c| c.apps.iter().any(|a| !shared(bound, *a, n).is_empty())).any(|c| {
                match c.join(apps, n, &plan) {
                    Ok(()) => true,
                    Err(reason) => {
                        refusals.push((reason, c.names(apps)));
                        false
                    }
                }
            });
        if !joined {
            all.push(Cluster::new(n, m, &plan, alone(refusals)))
        }
    }
    for c in &mut all {
        c.explain(apps)
    }
    all
}

/// Why an app could not join others.
fn alone(refusals: Vec<(&'static str, String)>) -> String {
    let mut text = String::new();
    let mut before = "";
    for (reason, others) in refusals {
        let so_far = if text.is_empty() { "" } else { "; " };
        text += &if reason == before { format!("{so_far}{others}") } else { format!("{so_far}{reason} {others}") };
        before = reason;
    }
    text
}

/// Has the members of each cluster steer by its key. Answers each app's cluster.
pub fn apply(apps: &mut [Module], bound: &Bound) -> Vec<Option<u32>> {
    let mut of = vec![None; apps.len()];
    for (number, c) in clusters(apps, bound).into_iter().enumerate() {
        for n in &c.apps {
            of[*n] = Some(number as u32)
        }
        let Some(first) = c.keyed.filter(|_| c.apps.len() > 1) else { continue };
        for n in c.apps {
            let plan = flow_affinity::plan(&apps[n]);
            // One without a key of its own is steered by another's.
            if plan.parts.is_empty() {
                continue;
            }
            let parts = if n == first { Some(c.parts.clone()) } else { moved_into(apps, first, n, &c.parts) };
            match parts {
                Some(parts) => {
                    flow_affinity::by(&mut apps[n], Plan { parts, ..plan }, true);
                    super::replan(&mut apps[n])
                }
                None => of[n] = None,
            }
        }
    }
    of
}

/// The parts of one app's key in the terms of another, whose types are added to as needed.
fn moved_into(apps: &mut [Module], from: usize, to: usize, parts: &[KeyPart]) -> Option<Vec<KeyPart>> {
    let all = |e: &KeyPart, f: &mut dyn FnMut(&Ty)| {
        for e in e.exprs() {
            walk::expr(e, &mut |e| f(apps[from].ty(e.ty)))
        }
    };
    let mut types = Vec::new();
    for p in parts {
        all(p, &mut |t| types.push(t.clone()))
    }
    for t in types {
        apps[to].intern(t);
    }
    Terms::between(&apps[from], &apps[to])?.parts(parts).into_iter().collect()
}

impl Cluster {
    fn new(n: usize, m: &Module, plan: &Plan, why: String) -> Cluster {
        let one_core = plan.one_core.is_some();
        let keyed = (!one_core && !plan.parts.is_empty()).then_some(n);
        Cluster {
            apps: vec![n],
            parts: if keyed.is_some() { plan.parts.clone() } else { Vec::new() },
            keyed,
            one_core,
            key: words(m, plan),
            why: vec![why],
        }
    }

    fn names(&self, apps: &[Module]) -> String {
        self.apps.iter().map(|a| apps[*a].app.as_str()).collect::<Vec<_>>().join(", ")
    }

    /// Takes an app in, or says why not: words before the names of those who are here.
    fn join(&mut self, apps: &[Module], n: usize, plan: &Plan) -> Result<(), &'static str> {
        match (self.one_core, plan.one_core.is_some()) {
            (true, true) => {}
            (true, false) => return Err("need not be on one core as"),
            (false, true) => return Err("changes a table of which every core would have a copy, unlike"),
            _ if self.meet(apps, n, plan) => {}
            _ if plan.parts.is_empty() => return Err("a flow may be on several cores by the key of"),
            _ => return Err("no part of its key is in that of"),
        }
        self.apps.push(n);
        self.why.push(String::new());
        Ok(())
    }

    /// Finds the key with one more app; false: there is none.
    fn meet(&mut self, apps: &[Module], n: usize, plan: &Plan) -> bool {
        let m = &apps[n];
        match (self.keyed, plan.parts.is_empty()) {
            (None, true) => true,
            (None, false) => {
                let fits = plan.parts.iter().all(|p| of_flow(m, plan.unit, p));
                if fits {
                    (self.keyed, self.parts) = (Some(n), plan.parts.clone())
                }
                fits
            }
            (Some(k), true) => self.parts.iter().all(|p| of_flow(&apps[k], flow_affinity::plan(&apps[k]).unit, p)),
            (Some(k), false) => {
                let Some(terms) = Terms::between(m, &apps[k]) else { return false };
                let theirs: Vec<KeyPart> = terms.parts(&plan.parts).into_iter().flatten().collect();
                let mut common = flow_keys::common(&self.parts, &theirs);
                for a in self.apps.iter().chain([&n]) {
                    keep(apps, (k, &mut common), *a)
                }
                let found = !common.is_empty();
                if found {
                    self.parts = common
                }
                found
            }
        }
    }

    /// Says what the key is, once all members are here, and how each member's own is related to it.
    fn explain(&mut self, apps: &[Module]) {
        let Some(k) = self.keyed else { return };
        let common = flow_affinity::named(&apps[k], flow_affinity::plan(&apps[k]).unit, &self.parts);
        self.key = format!("steered by {common}");
        if self.apps.len() == 1 {
            return;
        }
        for (n, why) in self.apps.iter().zip(&mut self.why) {
            let plan = flow_affinity::plan(&apps[*n]);
            let own = flow_affinity::named(&apps[*n], plan.unit, &plan.parts);
            let related = if own.is_empty() {
                "no key of its own: any that keeps flows together will do".to_string()
            } else if plan.parts.len() == self.parts.len() {
                "its key is the common one".to_string()
            } else {
                format!("its key, {own}, has the common one in it")
            };
            *why = if why.is_empty() { related } else { format!("{related}; {why}") };
        }
    }
}

fn words(m: &Module, plan: &Plan) -> String {
    match (plan.one_core, plan.parts.is_empty()) {
        (Some(_), _) => "all packets on one core".into(),
        (None, false) => format!("steered by {}", flow_affinity::named(m, plan.unit, &plan.parts)),
        (None, true) => "steered by flow, for want of a key".into(),
    }
}

/// Ports that two apps both read.
pub fn shared(bound: &Bound, a: usize, b: usize) -> Vec<&str> {
    let things = |n: usize| bound.get(n).into_iter().flatten().flat_map(|(_, to)| to);
    things(a).filter(|t| things(b).any(|u| u == *t)).map(String::as_str).collect()
}

/// The port by which an app reads a thing.
pub fn port_of<'b>(bound: &'b Bound, app: usize, thing: &str) -> Option<&'b str> {
    bound.get(app)?.iter().find(|(_, to)| to.iter().any(|t| t == thing)).map(|(port, _)| port.as_str())
}

/// Whether an app has frames of a port come in.
fn reads(m: &Module, port: &str) -> bool {
    handlers(m, port).next().is_some()
}

/// The most that it does with them.
pub fn frame_use(m: &Module, port: &str) -> desc::FrameUse {
    handlers(m, port).map(Handler::frame_use).max().unwrap_or(desc::FrameUse::Reads)
}

fn handlers<'m>(m: &'m Module, port: &'m str) -> impl Iterator<Item = &'m Handler> {
    m.handlers.iter().filter(move |h| matches!(h.on, On::Frame { port: p, .. } if !is_inside(m, p) && m.ports.get(p.index()).is_some_and(|p| p.name == port)))
}

fn is_inside(m: &Module, p: PortId) -> bool {
    m.ports.get(p.index()).is_some_and(|p| p.kind.is_inside())
}

/// Whether a part of a key is the same for all frames of a flow: of addresses, ports and the
/// protocol.
fn of_flow(m: &Module, unit: Option<UnitId>, part: &KeyPart) -> bool {
    let layers = unit.and_then(|u| m.unit(u).frame.as_ref()).map_or(&[][..], |f| &f.layers);
    let mut ok = true;
    for e in part.exprs() {
        walk::expr(e, &mut |e| {
            if let ExprKind::Read(p) = &*e.kind {
                let [Step::Field(h), Step::Field(f)] = p.steps.as_slice() else {
                    ok = false;
                    return;
                };
                let Some(header) = layers.iter().find(|l| l.header == *h).map(|l| m.unit(l.unit)) else {
                    ok = false;
                    return;
                };
                let named = |names: &[&str]| {
                    header.fields.get(f.index()).and_then(|f| f.name.as_deref()).is_some_and(|n| names.contains(&n))
                };
                let address = header.header.addresses.is_some_and(|(a, b)| *f == a || *f == b);
                let transport = header.header.checksum.is_some_and(|c| matches!(c.over, Over::Transport { .. }));
                ok &= address || named(&["proto", "next"]) || transport && named(&["src", "dst"]);
            }
        });
    }
    ok
}

/// Leaves the parts, in the terms of one app, that the keys of all of another's local tables have.
fn keep(apps: &[Module], (of, parts): (usize, &mut Vec<KeyPart>), by: usize) {
    let Some(terms) = Terms::between(&apps[of], &apps[by]) else { return parts.clear() };
    let local = LocalTables::of(&apps[by]);
    if !local.is_empty() {
        let theirs = terms.parts(parts);
        let mut kept = theirs.iter().map(|p| p.as_ref().is_some_and(|p| local.have(p)));
        parts.retain(|_| kept.next() == Some(true))
    }
}

/// From one module's numbers to another's, for expressions over frames of the same headers.
struct Terms<'m> {
    from: &'m Module,
    to: &'m Module,
    /// Fields of the frame units: headers and switches.
    fields: Vec<(FieldId, FieldId)>,
}

impl<'m> Terms<'m> {
    /// None: the packets of the two differ.
    fn between(from: &'m Module, to: &'m Module) -> Option<Terms<'m>> {
        let layers = |m: &'m Module| m.unit(flow_affinity::plan(m).unit?).frame.as_ref().map(|f| &f.layers);
        let (a, b) = (layers(from)?, layers(to)?);
        let fields = a.iter().zip(b).flat_map(|(x, y)| [(x.switch, y.switch), (x.header, y.header)]).collect();
        let terms = Terms { from, to, fields };
        let alike = a.len() == b.len() && a.iter().zip(b).all(|(x, y)| terms.same_layer(x, y));
        alike.then_some(terms)
    }

    fn same_layer(&self, a: &Layer, b: &Layer) -> bool {
        let (x, y) = (self.from.unit(a.unit), self.to.unit(b.unit));
        let fields = |u: &Unit| u.fields.iter().map(|f| f.name.clone()).collect::<Vec<_>>();
        let after = |(p, q): (&After, &After)| {
            p.layer == q.layer
                && match (&p.cond, &q.cond) {
                    (Some(p), Some(q)) => self.expr(p).as_ref() == Some(q),
                    (p, q) => p.is_none() && q.is_none(),
                }
        };
        (&x.name, x.min, x.max, x.first, &x.header) == (&y.name, y.min, y.max, y.first, &y.header)
            && fields(x) == fields(y)
            && a.after.len() == b.after.len()
            && a.after.iter().zip(&b.after).all(after)
    }

    fn parts(&self, parts: &[KeyPart]) -> Vec<Option<KeyPart>> {
        parts
            .iter()
            .map(|p| {
                Some(match p {
                    KeyPart::One(e) => KeyPart::One(self.expr(e)?),
                    KeyPart::Pair(a, b) => KeyPart::Pair(self.expr(a)?, self.expr(b)?),
                })
            })
            .collect()
    }

    fn expr(&self, e: &Expr) -> Option<Expr> {
        let (mut e, mut ok) = (e.clone(), true);
        walk::expr_mut(&mut e, &mut |e| {
            match self.ty(e.ty) {
                Some(t) => e.ty = t,
                None => ok = false,
            }
            let (ExprKind::Read(p) | ExprKind::Case(p, _)) = &mut *e.kind else { return };
            if let Some(Step::Field(f)) = p.steps.first_mut() {
                match self.fields.iter().find(|x| x.0 == *f) {
                    Some(x) => *f = x.1,
                    None => ok = false,
                }
            }
        });
        ok.then_some(e)
    }

    fn ty(&self, t: TyId) -> Option<TyId> {
        let t = self.from.ty(t);
        let plain = matches!(t, Ty::Bool | Ty::UInt(_) | Ty::Int(_) | Ty::Bytes(_) | Ty::Ip | Ty::Endpoint);
        let at = self.to.types.iter().position(|x| x == t).filter(|_| plain)?;
        Some(TyId(at as u32))
    }
}
