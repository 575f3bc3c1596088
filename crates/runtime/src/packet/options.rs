//! Divides the command line among several apps. In: the options, their ports and tables with or
//! without the app's name before them. Out: options for each app.

use super::memory::{FrameSink, Frames};
use super::nic::{Joint, Link, ProcessSide, Role};
use crate::error::{Error, Origin};
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use wireloom_ir::desc::{Desc, HandlerOn};

/// The command line's options for a packet app.
#[derive(Clone, Default)]
pub struct Options {
    /// (port, targets): `--bind` and `--out`.
    pub bind: Vec<(String, String)>,
    pub out: Vec<(String, String)>,
    /// (table, file).
    pub load: Vec<(String, PathBuf)>,
    pub dump: Vec<(String, PathBuf)>,
    /// Whether a core that receives for all hands frames to the others.
    pub rps: super::rps::Policy,
    /// Captures are read at the speed at which they were made.
    pub pace: bool,
    /// Of apps with service ports, too, packets alone: connections are not taken.
    pub alone: bool,
    /// Entries that are inserted into a table while frames flow.
    pub inserts: Option<Arc<Inserts>>,
    /// Interfaces with a program in the kernel's XDP hook in front of them.
    pub hooked: Vec<super::hooked::Hooked>,
    /// All such interfaces, by name.
    pub hook_interfaces: Vec<String>,
    /// Of an app with segments `on nic`. It has the part of this process, what it shares with the
    /// other one, the modelled link, and the CPUs of the NIC's cores.
    pub nic: Role,
    pub joint: Option<Arc<Joint>>,
    pub link: Link,
    pub nic_cpus: Vec<usize>,
    /// The frames behind `memory:NAME`.
    pub memory: HashMap<String, (Frames, Option<Arc<FrameSink>>)>,
}

impl Options {
    pub fn side(&self) -> ProcessSide {
        self.joint.as_ref().map_or(ProcessSide::All, |j| j.side)
    }

    /// The options that name a port or a table, and their names.
    pub fn pairs(&self) -> impl Iterator<Item = (&'static str, &str)> {
        let ports = [("bind", &self.bind), ("out", &self.out)];
        let tables = [("load", &self.load), ("dump", &self.dump)];
        let ports = ports.into_iter().flat_map(|(option, list)| list.iter().map(move |p| (option, p.0.as_str())));
        ports.chain(tables.into_iter().flat_map(|(option, list)| list.iter().map(move |t| (option, t.0.as_str()))))
    }

    /// The option or parameter that names the targets of a frame port, or those of its output.
    pub(super) fn origin(&self, desc: &Desc, port: usize) -> Option<Origin> {
        let name = &desc.ports[port].name;
        let names = |list: &[(String, String)]| list.iter().any(|b| b.0 == *name);
        match (names(&self.bind), names(&self.out)) {
            (true, _) => Some(Origin::of_app("bind", desc, name)),
            (false, true) => Some(Origin::of_app("out", desc, name)),
            (false, false) => Origin::of_port(desc, port),
        }
    }
}

/// Entries that are put into a table while frames flow, and how long each holds them up: for
/// benches.
pub struct Inserts {
    pub table: String,
    pub file: PathBuf,
    /// Batches of frames between two of them.
    pub every: u64,
    /// Nanoseconds of each.
    pub took: Mutex<Vec<u64>>,
}

/// Each app's part of the options: `PORT=…` is for all apps that have the port, `APP.PORT=…` for
/// one.
pub fn of_each(apps: &[&Desc], all: Options) -> Result<Vec<Options>, Error> {
    for (flag, list) in [("bind", &all.bind), ("out", &all.out)] {
        if let Some(name) =
            list.iter().enumerate().find_map(|(n, (name, _))| list[..n].iter().any(|b| b.0 == *name).then_some(name))
        {
            return Err(Error::Param(format!(
                "`--{flag} {name}=…` is given twice; the instances of one port stand in one, with commas between them"
            )));
        }
    }
    if apps.len() == 1 {
        return Ok(vec![all]);
    }
    let blank = Options { pace: all.pace, alone: all.alone, memory: all.memory.clone(), ..Options::default() };
    let mut each = vec![blank; apps.len()];
    let port = |d: &Desc, n: &str| d.ports.iter().any(|p| p.name == n);
    let table = |d: &Desc, n: &str| d.tables.iter().any(|t| t.name == n);
    for (flag, list) in [("bind", &all.bind), ("out", &all.out)] {
        for (name, text) in list {
            for (n, own) in addressees(flag, name, apps, &port)? {
                let to = if flag == "bind" { &mut each[n].bind } else { &mut each[n].out };
                to.push((own, text.clone()));
            }
        }
    }
    for (flag, list) in [("load", &all.load), ("dump", &all.dump)] {
        for (name, file) in list {
            let found = addressees(flag, name, apps, &table)?;
            if flag == "dump" && found.len() > 1 {
                let app = &apps[found[0].0].app;
                let text = format!("`--dump {name}`: several apps have this table; say which: --dump {app}.{name}=…");
                return Err(Error::Param(text).at(Origin { name: name.clone(), ..Origin::option(flag) }));
            }
            for (n, own) in found {
                let to = if flag == "load" { &mut each[n].load } else { &mut each[n].dump };
                to.push((own, file.clone()));
            }
        }
    }
    one_writer(apps, &each)?;
    Ok(each)
}

/// The apps that a name addresses, with the name inside each app.
fn addressees(
    flag: &'static str,
    name: &str,
    apps: &[&Desc],
    has: &dyn Fn(&Desc, &str) -> bool,
) -> Result<Vec<(usize, String)>, Error> {
    if let Some((app, rest)) = name.split_once('.') {
        if let Some(n) = apps.iter().position(|d| d.app == app && has(d, rest)) {
            return Ok(vec![(n, rest.to_string())]);
        }
    }
    let found: Vec<_> = (0..apps.len()).filter(|n| has(apps[*n], name)).map(|n| (n, name.to_string())).collect();
    if found.is_empty() {
        let names: Vec<&str> = apps.iter().map(|d| d.app.as_str()).collect();
        let text = format!("`--{flag} {name}`: none of the apps has it; they are: {}", names.join(", "));
        return Err(Error::Param(text).at(Origin { name: name.into(), ..Origin::option(flag) }));
    }
    Ok(found)
}

fn reads(d: &Desc, port: &str) -> bool {
    let at = d.ports.iter().position(|p| p.name == port);
    at.is_some_and(|n| d.handlers.iter().any(|h| h.on == HandlerOn::Frame { port: n as u32 }))
}

/// A capture is written by one app.
fn one_writer(apps: &[&Desc], each: &[Options]) -> Result<(), Error> {
    let mut writers: HashMap<&str, usize> = HashMap::new();
    for (n, (d, o)) in apps.iter().zip(each).enumerate() {
        let written = o.bind.iter().filter(|(p, _)| !reads(d, p)).chain(&o.out);
        for (port, text) in written.filter(|(_, t)| t.starts_with("pcap:")) {
            if *writers.entry(text).or_insert(n) != n {
                let text =
                    format!("`{port}={text}`: two apps cannot write one capture; name two: --bind {}.{port}=…", d.app);
                let option = if o.bind.iter().any(|b| b.0 == *port) { "bind" } else { "out" };
                return Err(Error::Param(text).at(Origin::of_app(option, d, port)));
            }
        }
    }
    Ok(())
}
