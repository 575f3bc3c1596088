//! The part in the XDP hook of an executable made by `wireloom build`.
//!
//! In: the compiled programs of the hook, their description, and the app as IR. Out: the programs,
//! loaded with the values and interfaces of this start. Numbers, addresses and switches are set
//! then. Other parameters, and how many interfaces a port has, are parts of the programs.

use super::args::Built;
use super::{frames, say, sets, AppPorts, Failure, Part, Placed};
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use wireloom_codegen_c::xdp::XdpSource;
use wireloom_ir::desc::{Desc, ParamValue};
use wireloom_ir::{text, HandlerId, Module, ParamId, PortId};
use wireloom_runtime::packet::nic::Role;
use wireloom_runtime::params;
use wireloom_xdp::{Object, Portable};

#[derive(Serialize, Deserialize)]
pub struct BuiltHook {
    pub source: XdpSource,
    /// Handlers, and whether each is a filter.
    pub parts: Vec<(HandlerId, PortId, bool)>,
    /// Parameters whose values are in the programs.
    pub fixed: Vec<(ParamId, ParamValue)>,
    /// Interfaces of each port that has some.
    pub interfaces: Vec<(PortId, u32)>,
    /// clang's words if handlers could not be compiled twice.
    pub once: Option<String>,
    /// The app, in the text form of the IR.
    pub module: String,
}

/// Of compression: the best that takes no noticeable time.
const LEVEL: i32 = 12;

impl BuiltHook {
    /// `None`: nothing runs in the hook.
    pub fn read(bytes: &[u8]) -> Result<Option<BuiltHook>, Failure> {
        match bytes {
            [] => Ok(None),
            bytes => Ok(Some(serde_json::from_slice(&zstd::decode_all(bytes)?)?)),
        }
    }

    /// The parts of an executable: this, and its programs, compressed.
    #[allow(dead_code, reason = "the compiler packs, the runtime unpacks")]
    pub fn pack(&self, programs: &Portable) -> Result<(Vec<u8>, [Vec<u8>; 2]), Failure> {
        let packed = |bytes: &[u8]| zstd::encode_all(bytes, LEVEL);
        let hook = packed(&serde_json::to_vec(self)?)?;
        Ok((hook, [packed(&programs.first)?, packed(&programs.spare)?]))
    }

    /// Loads the programs. Where a port of theirs is bound to something else than interfaces, the
    /// CPU runs all handlers.
    pub fn place(
        &self,
        desc: &Desc,
        programs: [Vec<u8>; 2],
        args: &mut Built,
    ) -> Result<(Arc<Module>, Placed), Failure> {
        let m = Arc::new(text::parse(&self.module).map_err(|e| format!("internal error: the app's IR: {e}"))?);
        // The hook belongs to the process of the CPU, not to that of a NIC.
        if Role::is_second() {
            return Ok((m, Placed::default()));
        }
        let sets = sets(&[desc], args.serve.sets())?.pop().unwrap_or_default();
        let (settings, bind) = (params::resolve(desc, &sets)?, frames(&args.serve)?.bind);
        self.check_values(desc, &settings)?;
        let ports = AppPorts { m: &m, settings, bind, mode: args.xdp_mode };
        let Some(parts) = self.parts_here(&ports)? else { return Ok((m.clone(), Placed::default())) };
        let [first, spare] = programs.map(|packed| zstd::decode_all(&packed[..]));
        let programs = Portable { first: first?, spare: spare?, once: self.once.clone() };
        let load = |values: &_| Object::load_portable(&self.source, values, programs);
        let placed = ports.placed(&self.source, parts, load, &mut args.serve.bind)?;
        Ok((m.clone(), placed))
    }

    fn check_values(&self, desc: &Desc, settings: &params::Settings) -> Result<(), Failure> {
        let other = |f: &&(ParamId, ParamValue)| settings.values.get(f.0.index()) != Some(&f.1);
        let Some((p, _)) = self.fixed.iter().find(other) else { return Ok(()) };
        let name = desc.params.get(p.index()).map_or("", |p| &p.name);
        Err(Failure::Said(format!(
            "the value of parameter `{name}` is a part of the program for XDP; for another one build it again with \
             `wireloom build --set {name}=…`"
        )))
    }

    /// The handlers with their interfaces. `None`: the CPU runs them, which is told.
    fn parts_here(&self, ports: &AppPorts) -> Result<Option<Vec<Part>>, Failure> {
        let used = |port: PortId| {
            self.parts.iter().any(|p| p.1 == port)
                || self.source.ports.iter().any(|p| p.0 == port)
                || self.source.broadcasts.contains(&port)
        };
        for (port, built) in &self.interfaces {
            let name = &ports.m.ports[port.index()].name;
            match ports.interfaces(*port) {
                Ok(all) if all.len() == *built as usize => {}
                Ok(all) => {
                    return Err(Failure::Said(format!(
                        "port `{name}` has {built} interfaces in the program for XDP, and {} are given; for these \
                         build it again with `wireloom build --set …`",
                        all.len()
                    )))
                }
                Err(other) if used(*port) => {
                    say!("all handlers stay on the CPU: port `{name}` is bound to {other}");
                    return Ok(None);
                }
                Err(_) => {}
            }
        }
        let part = |(handler, port, filter): &(HandlerId, PortId, bool)| {
            let interfaces = ports.interfaces(*port).unwrap_or_default();
            Part { handler: *handler, port: *port, interfaces, filter: *filter }
        };
        Ok(Some(self.parts.iter().map(part).collect()))
    }
}
