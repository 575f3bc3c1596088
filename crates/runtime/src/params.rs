//! Settings: `--set name=value` becomes the program's parameters, `--set PORT.option=value` its
//! port options.
//!
//! In: the description and the pairs as written. Out: [`Settings`] with the `wl_param` table and
//! its memory, and per port its options, addresses and their names. Errors name the parameter and
//! the expected form.

use crate::abi::{wl_bytes, wl_endpoint, wl_param};
use crate::consistent_hashing::{self, Server};
use crate::error::{Error, Origin};
use crate::program::point_hash::PointHash;
use crate::server_names::ServerNames;
use crate::server_places::{HashTables, ServerPlaces};
use crate::value_syntax::{duration, expected, number, parse, parse_as, server};
use std::net::SocketAddr;
use std::sync::Arc;
use wireloom_ir::desc::{
    Desc, Failover, Form, HandlerOn, ParamDesc, ParamType, ParamValue, PortDesc, PortKind, PortOptions, Reuse, Sharing,
    Value,
};
use wireloom_ir::explain::{self, PortValues};
use wireloom_ir::port_options::{self, Slot};
use wireloom_ir::{suggestions, Rate};

/// Everything that was set, resolved.
#[derive(Default)]
pub struct Settings {
    pub params: Vec<wl_param>,
    pub values: Vec<ParamValue>,
    pub ports: Vec<PortSetting>,
    /// The addresses of servers that have names.
    pub names: ServerNames,
    /// Memory that `params` points into: never changed once built.
    _bytes: Vec<Box<[u8]>>,
    _endpoints: Vec<Box<[wl_endpoint]>>,
    _lists: Vec<Box<[wl_bytes]>>,
}

// SAFETY: the pointers in `params` name memory owned by the same value and are only read.
unsafe impl Send for Settings {}
// SAFETY: as above.
unsafe impl Sync for Settings {}

/// Bytes of a server's name, where points of a ring are made of names: a point has a number, too.
const SERVER_NAME_MAX: usize = wireloom_ir::consistent::POINT_NAME_MAX as usize - 8;

pub struct PortSetting {
    pub listen: bool,
    pub options: PortOptions,
    /// Listen: one address. Connect: the backends.
    pub addrs: Vec<SocketAddr>,
    /// As written, without weight and name: for metrics, and `maglev`.
    pub names: Vec<String>,
    /// Connect: as keys are spread over them.
    pub servers: Vec<Server>,
    /// Connect, of an app that serves: where cores keep their books, and tables by which the
    /// program picks a server.
    pub places: ServerPlaces,
    pub tables: Arc<HashTables>,
    /// The address of each instance, as programs see it.
    pub shown: Vec<wl_endpoint>,
}

impl PortSetting {
    /// The tables that the program asks for. Names of points are hashed by the program's function.
    pub(crate) fn hash_tables(
        &self,
        of: (&Desc, usize),
        hash: Option<&mut PointHash>,
    ) -> Result<Arc<HashTables>, Error> {
        let port = &of.0.ports[of.1];
        let mut tables = HashTables::of(&self.servers, &self.names, (port.ketama, port.maglev));
        if let (true, Some(hash)) = (port.consistent, hash) {
            if let Some(long) = self.servers.iter().find(|s| s.name.len() > SERVER_NAME_MAX) {
                let text = format!("port `{}`: the name of a server is too long: `{}`", port.name, long.name);
                return Err(Error::Param(text).at(Origin::of_port(of.0, of.1)));
            }
            tables.consistent = consistent_hashing::consistent(&self.servers, |name| hash.hash(of.1, name));
        }
        Ok(Arc::new(tables))
    }

    pub(crate) fn take_places(&mut self, places: ServerPlaces) {
        self.shown = places.of.iter().map(|place| places.all[*place as usize].addr.into()).collect();
        self.places = places;
    }

    /// Without addresses.
    pub(crate) fn new(listen: bool, options: PortOptions) -> PortSetting {
        PortSetting {
            listen,
            options,
            addrs: Vec::new(),
            names: Vec::new(),
            servers: Vec::new(),
            places: ServerPlaces::default(),
            tables: Arc::default(),
            shown: Vec::new(),
        }
    }
}

/// Splits `name=value`.
pub fn pair(text: &str) -> Result<(String, String), Error> {
    match text.split_once('=') {
        Some((n, v)) if !n.trim().is_empty() => Ok((n.trim().to_string(), v.to_string())),
        _ => Err(Error::Param(format!("`--set {text}`: expected NAME=VALUE, for example `--set port=8080`"))),
    }
}

/// Resolves all parameters and options of `desc` from the pairs given.
pub fn resolve(desc: &Desc, sets: &[(String, String)]) -> Result<Settings, Error> {
    resolve_again(desc, sets, ServerNames::default())
}

/// The same with names that may have had addresses before.
pub(crate) fn resolve_again(desc: &Desc, sets: &[(String, String)], names: ServerNames) -> Result<Settings, Error> {
    let given = Given::of(desc, sets)?;
    let values = given
        .values
        .into_iter()
        .zip(&desc.params)
        .map(|(v, p)| v.ok_or_else(|| missing(p)))
        .collect::<Result<Vec<_>, _>>()?;
    let settings = build(desc, values, given.options, names)?;
    check_ports(desc, &settings)?;
    Ok(settings)
}

/// Nothing can listen on port 0 of a server.
fn check_ports(desc: &Desc, settings: &Settings) -> Result<(), Error> {
    for (n, port) in settings.ports.iter().enumerate().filter(|(_, p)| !p.listen) {
        if let Some(i) = port.addrs.iter().position(|a| a.port() == 0) {
            let text =
                format!("port `{}`: `{}`: a server has a port from 1 to 65535", desc.ports[n].name, port.names[i]);
            return Err(Error::Param(text).at(Origin::of_port(desc, n)));
        }
    }
    Ok(())
}

/// The description with other defaults.
pub fn with_defaults(desc: Desc, sets: &[(String, String)]) -> Result<Desc, Error> {
    let given = Given::of(&desc, sets)?;
    let mut desc = desc;
    desc.params.iter_mut().zip(given.values).for_each(|(p, v)| p.default = v);
    desc.ports.iter_mut().zip(given.options).for_each(|(p, o)| p.options = o);
    Ok(desc)
}

/// The settings before an app is started: a parameter without a value has one of its type.
pub fn provisional(desc: &Desc) -> Result<Settings, Error> {
    let Given { values, options } = Given::defaults(desc);
    let any = |p: &ParamDesc| match p.ty {
        // It may name an interface.
        ParamType::Bytes(_) => ParamValue::Bytes(b"?".to_vec()),
        ty => ty.empty(),
    };
    let values = values.into_iter().zip(&desc.params).map(|(v, p)| v.unwrap_or_else(|| any(p)));
    build(desc, values.collect(), options, ServerNames::default())
}

/// Whether an app has a parameter or an option of this name, with this as one of its values.
pub fn check(desc: &Desc, name: &str, text: &str) -> Result<(), Error> {
    Given::defaults(desc).set(desc, name, text)
}

/// Whether a setting is a list: of texts or servers, or the names of a frame port's interfaces.
pub fn is_list(desc: &Desc, name: &str) -> bool {
    let Some(n) = desc.params.iter().position(|p| p.name == name) else { return false };
    let names_ports =
        |p: &PortDesc| matches!(&p.kind, PortKind::Frames { names: Value::Param(i), .. } if *i as usize == n);
    matches!(desc.params[n].ty, ParamType::Texts(..) | ParamType::Endpoints(_)) || desc.ports.iter().any(names_ports)
}

/// Whether an app has a setting of this name, and it is no list.
pub fn has_one_value(desc: &Desc, name: &str) -> bool {
    let has = match name.split_once('.') {
        Some((port, option)) => {
            let port = desc.ports.iter().find(|p| p.name == port);
            port.is_some_and(|p| port_options::slot(&mut p.options.clone(), option).is_some())
        }
        None => desc.params.iter().any(|p| p.name == name),
    };
    has && !is_list(desc, name)
}

/// Values of parameters, where there are any, and the options of ports.
struct Given {
    values: Vec<Option<ParamValue>>,
    options: Vec<PortOptions>,
}

impl Given {
    fn of(desc: &Desc, sets: &[(String, String)]) -> Result<Given, Error> {
        let mut given = Given::defaults(desc);
        for (n, (name, text)) in sets.iter().enumerate() {
            if let Some((_, before)) = sets[..n].iter().find(|(other, _)| other == name) {
                return Err(Error::Param(format!("`{name}` is set twice, to `{before}` and to `{text}`")));
            }
            given.set(desc, name, text)?;
        }
        given.check_rates(desc, sets)?;
        Ok(given)
    }

    /// Those of meters, as far as they are known.
    fn check_rates(&self, desc: &Desc, sets: &[(String, String)]) -> Result<(), Error> {
        let number = |rate: &Rate| match rate {
            Rate::Number(n) => Some(*n),
            Rate::Param(i) => match self.values.get(*i as usize)? {
                Some(ParamValue::UInt(n)) => Some(*n),
                _ => None,
            },
        };
        for t in &desc.tables {
            let Some([committed, peak]) = &t.rates else { continue };
            let (Some(cir), Some(pir)) = (number(committed), number(peak)) else { continue };
            if pir < cir {
                let text = format!(
                    "meter `{}`: its peak rate `pir` is {pir}, below its committed rate `cir` of {cir}",
                    t.name
                );
                let origin = |rate: &Rate| match rate {
                    Rate::Number(_) => None,
                    Rate::Param(n) => Origin::of_param(desc, *n),
                };
                let origins = [peak, committed].into_iter().filter_map(origin);
                let given = origins.into_iter().find(|o| sets.iter().any(|(name, _)| *name == o.name));
                return Err(Error::Param(text).at(given));
            }
        }
        Ok(())
    }

    fn defaults(desc: &Desc) -> Given {
        Given {
            values: desc.params.iter().map(|p| p.default.clone()).collect(),
            options: desc.ports.iter().map(|p| p.options.clone()).collect(),
        }
    }

    fn set(&mut self, desc: &Desc, name: &str, text: &str) -> Result<(), Error> {
        if let Some((port, option)) = name.split_once('.') {
            let i = desc.ports.iter().position(|p| p.name == port).ok_or_else(|| no_such("port", port, desc))?;
            let fail = |e: String| Error::Param(format!("`{name}={text}`: {e}"));
            has_effect(desc, i, option).map_err(fail)?;
            return set_option(&mut self.options[i], option, text).map_err(fail);
        }
        let i = desc.params.iter().position(|p| p.name == name).ok_or_else(|| no_such("parameter", name, desc))?;
        let form = &desc.params[i].form;
        let bare_port = *form == Form::OrPort && number(text.trim()).is_ok();
        let v = if bare_port { all_ipv4(text) } else { parse_as(desc.params[i].ty, form, text) };
        let wrong = |e: String| {
            if *form == Form::Plain || bare_port {
                e
            } else {
                format!("expected {}, as in {}", expected(desc.params[i].ty, form), example(&desc.params[i]))
            }
        };
        self.values[i] =
            Some(v.map_err(wrong).map_err(|e| Error::Param(format!("parameter `{name}`: {e}{}", got(&e, text))))?);
        Ok(())
    }
}

/// The endpoint of a port's number: all IPv4 addresses.
fn all_ipv4(port: &str) -> Result<ParamValue, String> {
    let ParamValue::UInt(port) = parse(ParamType::UInt(16), port)? else { return Err("expected a port".into()) };
    Ok(ParamValue::Endpoints(vec![format!("0.0.0.0:{port}")]))
}

/// The value as given, where the error does not quote a part of it.
fn got(error: &str, text: &str) -> String {
    if error.contains('`') {
        String::new()
    } else {
        format!(" (got `{text}`)")
    }
}

/// Puts values into the memory that programs read.
pub(crate) fn build(
    desc: &Desc,
    values: Vec<ParamValue>,
    options: Vec<PortOptions>,
    mut names: ServerNames,
) -> Result<Settings, Error> {
    let (mut bytes, mut endpoints, mut lists, mut params) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for (value, p) in values.iter().zip(&desc.params) {
        let mut out = wl_param::default();
        match value {
            ParamValue::Bool(b) => out.u = u64::from(*b),
            ParamValue::UInt(u) | ParamValue::Duration(u) => out.u = *u,
            ParamValue::Bytes(b) => {
                let kept: Box<[u8]> = b.clone().into_boxed_slice();
                out.b = wl_bytes::of(&kept);
                out.u = kept.len() as u64;
                bytes.push(kept);
            }
            ParamValue::Endpoints(list) => {
                let wrong = |e: String| Error::Param(format!("parameter `{}`: {e}", p.name));
                let addrs =
                    names.addresses(list, p.live).map_err(|e| wrong(e).at(Origin::of_app("set", desc, &p.name)))?;
                let list: Box<[wl_endpoint]> = addrs.into_iter().map(wl_endpoint::from).collect();
                out.u = list.len() as u64;
                out.ep = list.first().copied().unwrap_or_default();
                endpoints.push(list);
            }
            ParamValue::Texts(list) => {
                let most = if let ParamType::Texts(most, _) = p.ty { most as usize } else { list.len() };
                let mut items = vec![wl_bytes::EMPTY; most.max(list.len()) + 1];
                for (text, item) in list.iter().zip(&mut items[1..]) {
                    let kept: Box<[u8]> = text.clone().into_boxed_slice();
                    *item = wl_bytes::of(&kept);
                    bytes.push(kept);
                }
                // A list of the C: its length stands in the second half of the first place.
                items[0].n = list.len() as u32;
                let items = items.into_boxed_slice();
                // SAFETY: the list has one place at least.
                let from = unsafe { items.as_ptr().cast::<u8>().add(std::mem::offset_of!(wl_bytes, n)) };
                out.b = wl_bytes { p: from, n: 0, ..wl_bytes::EMPTY };
                out.u = list.len() as u64;
                lists.push(items);
            }
        }
        params.push(out);
    }
    let ports = desc
        .ports
        .iter()
        .zip(options)
        .enumerate()
        .map(|(n, (port, options))| {
            let addresses = |list: &[String]| names.addresses(list, may_change(desc, n));
            port_setting(port, options, &values, addresses).map_err(|e| e.at(Origin::of_port(desc, n)))
        })
        .collect::<Result<Vec<_>, _>>()?;
    Ok(Settings { params, values, ports, names, _bytes: bytes, _endpoints: endpoints, _lists: lists })
}

/// Whether a reload may give a port other servers.
fn may_change(desc: &Desc, n: usize) -> bool {
    let merged = desc.merges.iter().any(|m| m.from == n as u32 || m.to == n as u32);
    !merged
        && match &desc.ports[n].kind {
            PortKind::Connect(Value::Param(i)) => desc.params.get(*i as usize).is_some_and(|p| p.live),
            PortKind::Connect(Value::Const(_)) => true,
            PortKind::Listen(_) | PortKind::Frames { .. } => false,
        }
}

fn port_setting(
    port: &PortDesc,
    options: PortOptions,
    values: &[ParamValue],
    mut addresses: impl FnMut(&[String]) -> Result<Vec<SocketAddr>, String>,
) -> Result<PortSetting, Error> {
    let (value, listen, frames) = match &port.kind {
        PortKind::Listen(v) => (v, true, false),
        PortKind::Connect(v) => (v, false, false),
        PortKind::Frames { names, .. } => (names, false, true),
    };
    let value = match value {
        Value::Const(v) => v,
        Value::Param(i) => values
            .get(*i as usize)
            .ok_or_else(|| Error::Program(format!("port `{}` names a parameter that does not exist", port.name)))?,
    };
    let bad = |e: String| Error::Param(format!("port `{}`: {e}", port.name));
    if frames {
        let names =
            instances(value).ok_or_else(|| bad("needs the name of an interface, a file or an address".into()))?;
        return Ok(PortSetting { names, ..PortSetting::new(false, options) });
    }
    let (names, addrs, servers) = match value {
        ParamValue::UInt(n) if listen => {
            let n = u16::try_from(*n).map_err(|_| bad(format!("{n} is no port number (0 to 65535)")))?;
            (vec![format!("0.0.0.0:{n}")], vec![SocketAddr::from(([0, 0, 0, 0], n))], Vec::new())
        }
        ParamValue::Endpoints(list) => {
            let each = list.iter().map(|s| server(s)).collect::<Result<Vec<_>, _>>().map_err(&bad)?;
            let (names, servers): (Vec<String>, Vec<Server>) =
                each.into_iter().map(|(at, s)| (at.to_string(), s)).unzip();
            (names, addresses(list).map_err(bad)?, servers)
        }
        _ => return Err(bad("needs an endpoint, `host:port`".into())),
    };
    if listen && addrs.len() != 1 {
        return Err(bad("listens on exactly one endpoint".into()));
    }
    Ok(PortSetting { addrs, names, servers, ..PortSetting::new(listen, options) })
}

/// The instances of a frame port: a name, or several with commas between.
fn instances(value: &ParamValue) -> Option<Vec<String>> {
    let names: Vec<String> = match value {
        ParamValue::Bytes(b) => std::str::from_utf8(b).ok()?.split(',').map(|s| s.trim().to_string()).collect(),
        ParamValue::Endpoints(list) => list.clone(),
        ParamValue::UInt(n) => vec![n.to_string()],
        ParamValue::Bool(_) | ParamValue::Duration(_) | ParamValue::Texts(_) => return None,
    };
    (!names.is_empty() && names.len() <= usize::from(u16::MAX)).then_some(names)
}

fn no_such(what: &str, name: &str, desc: &Desc) -> Error {
    let known: Vec<&str> = match what {
        "port" => desc.ports.iter().map(|p| p.name.as_str()).collect(),
        _ => desc.params.iter().map(|p| p.name.as_str()).collect(),
    };
    let hint = suggestions::lead(name, known.iter().copied());
    let known = if known.is_empty() { "none".to_string() } else { known.join(", ") };
    Error::Param(format!("app `{}` has no {what} `{name}`{hint} it has: {known}", desc.app))
}

fn missing(p: &ParamDesc) -> Error {
    let doc = if p.doc.is_empty() { String::new() } else { format!(" ({})", p.doc.trim()) };
    Error::Param(format!("parameter `{}`{doc} has no value; give `--set {}={}`", p.name, p.name, example(p)))
}

fn example(p: &ParamDesc) -> &'static str {
    match p.ty {
        _ if p.form == Form::Ip4 => "192.0.2.1",
        _ if p.form == Form::Mac => "02:00:00:00:00:01",
        ParamType::Bool => "true",
        ParamType::UInt(_) => "8080",
        ParamType::Duration => "10ms",
        ParamType::Bytes(_) => "text",
        ParamType::Endpoint if p.form == Form::OrPort => "8080",
        ParamType::Endpoint => "127.0.0.1:8080",
        ParamType::Texts(..) => "one,two",
        ParamType::Endpoints(_) => "127.0.0.1:9001,127.0.0.1:9002",
    }
}

/// The options of each port that can be set, with their values.
pub fn options(desc: &Desc) -> Vec<PortValues> {
    let of = |(number, port): (usize, &PortDesc)| {
        let can_be_set = |name: &&'static str| match port.kind {
            PortKind::Frames { .. } => *name == "offload" && !port.kind.is_inside(),
            PortKind::Listen(_) | PortKind::Connect(_) => {
                !matches!(*name, "hold_body" | "offload") && has_effect(desc, number, name).is_ok()
            }
        };
        let names = port_options::NAMES.into_iter().filter(can_be_set);
        let all = names.filter_map(|name| Some((name, explain::option(&port.options, name)?)));
        (port.name.clone(), all.collect())
    };
    desc.ports.iter().enumerate().map(of).collect()
}

/// Options of the other kind of port would be taken and never used.
fn has_effect(desc: &Desc, number: usize, option: &str) -> Result<(), String> {
    let port = &desc.ports[number];
    let (listen, does) = match port.kind {
        PortKind::Listen(_) => (true, "listens"),
        PortKind::Connect(_) => (false, "connects"),
        PortKind::Frames { .. } => return Ok(()),
    };
    let spoken: Vec<_> = port.protocols.iter().filter_map(|p| desc.protocols.get(*p as usize)).collect();
    let sharing: Vec<_> = spoken.iter().map(|p| p.sharing).collect();
    let talks = sharing.contains(&Sharing::Session);
    let answers = spoken.iter().any(|p| p.tells_owed || p.tells_match);
    if option == "answer_timeout" && !listen && talks && !answers {
        return Err("the protocol does not say which messages a server answers (`owes when`, `matches`)".into());
    }
    if !port_options::applies(option, listen) {
        return Err(format!(
            "`{option}` is for {}, and `{}` {does}",
            port_options::where_it_applies(option),
            port.name
        ));
    }
    let number = number as u32;
    let traits = port_options::Traits {
        udp: port.udp,
        sharing: &sharing,
        probes: desc.handlers.iter().any(|h| h.on == HandlerOn::Probe { port: number }),
        merges: desc.merges.iter().any(|m| m.from == number || m.to == number),
    };
    if let Some(others) = port_options::only_for(option, traits) {
        return Err(format!("`{option}` is for {others}"));
    }
    if port_options::of_pools(option) && !port.pools {
        return Err("the program gives no sessions to pools (`pool … for …`)".into());
    }
    Ok(())
}

fn set_option(o: &mut PortOptions, option: &str, text: &str) -> Result<(), String> {
    let time = |least: u64| match duration(text.trim())? {
        t if t < least => Err(format!("at least {}", explain::duration(least))),
        t => Ok(t),
    };
    let count = |range: std::ops::RangeInclusive<u32>| match number(text.trim())? {
        n if u32::try_from(n).is_ok_and(|n| range.contains(&n)) => Ok(n as u32),
        _ if *range.end() == u32::MAX => Err(format!("between {} and 4G", range.start())),
        _ => Err(format!("between {} and {}", range.start(), range.end())),
    };
    if option == "hold_body" {
        return Err("`hold_body` is a part of the program".into());
    }
    match port_options::slot(o, option) {
        Some(Slot::Time(t, least)) => *t = time(least)?,
        Some(Slot::Times(all)) => {
            let t = time(port_options::TICK)?;
            all.into_iter().for_each(|slot| *slot = t);
        }
        Some(Slot::Count(n, range)) => *n = count(range)?,
        Some(Slot::Auto(n, _)) if text.trim() == "auto" => *n = 0,
        Some(Slot::Auto(n, most)) => {
            *n = count(1..=most)
                .map_err(|e| format!("`auto`, 1 for no sharing, or how many requests may share a connection, {e}"))?
        }
        Some(Slot::Switch(on)) => *on = matches!(parse(ParamType::Bool, text.trim())?, ParamValue::Bool(true)),
        Some(Slot::Byte(b)) => *b = count(0..=255)? as u8,
        Some(Slot::Reuse(r)) => *r = word(Reuse::NAMES, text)?,
        Some(Slot::Failover(f)) => *f = word(Failover::NAMES, text)?,
        None => {
            let hint = suggestions::lead(option, port_options::NAMES);
            return Err(format!("no such option{hint} there are {}", port_options::NAMES.join(", ")));
        }
    }
    Ok(())
}

/// A value that is one of some words.
fn word<T: Copy>(names: &[(T, &str)], text: &str) -> Result<T, String> {
    let found = names.iter().find(|(_, n)| *n == text.trim());
    found
        .map(|(v, _)| *v)
        .ok_or_else(|| format!("expected {}", names.iter().map(|(_, n)| *n).collect::<Vec<_>>().join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value_syntax::{data_text, parse_data};

    #[test]
    fn values_and_messages() {
        assert_eq!(parse(ParamType::UInt(16), "64KiB").unwrap_err(), "must be at most 65535");
        assert_eq!(parse(ParamType::UInt(32), "64KiB"), Ok(ParamValue::UInt(65536)));
        assert_eq!(parse(ParamType::UInt(32), "192.0.2.1"), Ok(ParamValue::UInt(0xc000_0201)));
        assert_eq!(parse(ParamType::UInt(48), "02:00:00:00:00:ff"), Ok(ParamValue::UInt(0x0200_0000_00ff)));
        assert!(
            parse(ParamType::UInt(32), "192.0.2").is_err() && parse(ParamType::UInt(48), "02:00:00:00:00").is_err()
        );
        assert_eq!(parse(ParamType::Duration, "1.5ms"), Ok(ParamValue::Duration(1_500_000)));
        assert!(parse(ParamType::Duration, "5").is_err());
        assert!(parse(ParamType::Endpoints(2), "127.0.0.1:1,127.0.0.1:2,127.0.0.1:3").is_err());
        assert!(parse(ParamType::Endpoint, "nonsense").is_err());
        assert!(parse(ParamType::Bytes(3), "four").is_err());
        for bytes in [&b"text"[..], b"", b"0x", b"0x12", b"\xff\x00", b"a\0b", "\u{e9}".as_bytes()] {
            assert_eq!(
                parse_data(ParamType::Bytes(16), &data_text(bytes)),
                Ok(ParamValue::Bytes(bytes.to_vec())),
                "{bytes:?}"
            );
        }
        assert_eq!(parse_data(ParamType::Bytes(2), "0xAb0c"), Ok(ParamValue::Bytes(vec![0xab, 0x0c])));
        for wrong in ["0x123", "0xgg", "0x001122"] {
            assert!(parse_data(ParamType::Bytes(2), wrong).is_err(), "{wrong}");
        }
    }

    fn desc() -> Desc {
        let port = |name: &str, kind| PortDesc::plain(name, kind, vec![0]);
        Desc {
            app: "a".into(),
            params: vec![
                ParamDesc {
                    name: "port".into(),
                    ty: ParamType::UInt(16),
                    form: Form::Plain,
                    default: None,
                    doc: String::new(),
                    live: false,
                },
                ParamDesc {
                    name: "servers".into(),
                    ty: ParamType::Endpoints(4),
                    form: Form::Plain,
                    default: None,
                    doc: String::new(),
                    live: false,
                },
            ],
            ports: vec![
                port("client", PortKind::Listen(Value::Param(0))),
                port("backends", PortKind::Connect(Value::Param(1))),
            ],
            ..Desc::default()
        }
    }

    #[test]
    fn resolves_ports_and_options() {
        let sets: Vec<_> = ["port=8080", "servers=127.0.0.1:1,[::1]:2", "backends.idle=5s", "client.max_connections=7"]
            .iter()
            .map(|s| pair(s).unwrap())
            .collect();
        let s = resolve(&desc(), &sets).unwrap();
        assert_eq!(s.ports[0].addrs[0].port(), 8080);
        assert_eq!(s.ports[1].addrs.len(), 2);
        assert_eq!(s.ports[1].options.idle_timeout, 5_000_000_000);
        assert_eq!(s.ports[0].options.max_connections, 7);
        assert_eq!(s.params[1].u, 2);
    }

    #[test]
    fn a_servers_port_is_not_0() {
        let sets = ["port=0", "servers=127.0.0.1:1,127.0.0.1:0"].map(|s| pair(s).unwrap());
        let error = resolve(&desc(), &sets).err().unwrap().to_string();
        assert_eq!(error, "port `backends`: `127.0.0.1:0`: a server has a port from 1 to 65535");
    }

    #[test]
    fn servers_have_weights_and_names() {
        let of = |text| server(text).map(|(at, s)| (at.to_string(), s.name, s.weight));
        let is = |at: &str, name: &str, weight| Ok((at.to_string(), name.to_string(), weight));
        assert_eq!(of("10.0.0.1:11211"), is("10.0.0.1:11211", "10.0.0.1", 1));
        assert_eq!(of("10.0.0.1:11212:3"), is("10.0.0.1:11212", "10.0.0.1:11212", 3));
        assert_eq!(of("10.0.0.1:11211:2 first"), is("10.0.0.1:11211", "first", 2));
        assert_eq!(of("[::1]:11212"), is("[::1]:11212", "::1:11212", 1));
        assert_eq!(of("[::1]:11212:5 x"), is("[::1]:11212", "x", 5));
        assert!(of("10.0.0.1:1:0").is_err() && of("10.0.0.1:1:x").is_err());
    }

    #[test]
    fn errors_name_the_parameter() {
        let text = |sets: &[&str]| {
            let sets: Vec<_> = sets.iter().map(|s| pair(s).unwrap()).collect();
            resolve(&desc(), &sets).err().map(|e| e.to_string()).unwrap_or_default()
        };
        assert!(text(&["port=80"]).contains("`servers`"));
        assert_eq!(text(&["prot=80"]), "app `a` has no parameter `prot`; did you mean `port`? it has: port, servers");
        assert_eq!(text(&["nothing=80"]), "app `a` has no parameter `nothing`; it has: port, servers");
        assert!(text(&["clinet.idle=1s"]).contains("no port `clinet`; did you mean `client`?"));
        assert!(text(&["port=x"]).contains("parameter `port`"));
        assert!(text(&["client.idel_timeout=1s"]).contains("no such option; did you mean `idle_timeout`?"));
        assert_eq!(text(&["port=80", "port=81"]), "`port` is set twice, to `80` and to `81`");
        assert!(text(&["servers=foo"]).contains("parameter `servers`: `foo` has no port; expected host:port"));
        assert!(text(&["servers=foo:x"]).contains("`x` is no port number"));
        assert!(text(&["servers=:80"]).contains("has no host"), "{}", text(&["servers=:80"]));
        assert!(pair("novalue").is_err());
    }

    #[test]
    fn options_without_effect_are_refused() {
        let said = |desc: &Desc, set: &str| {
            let sets: Vec<_> = ["port=80", "servers=127.0.0.1:1", set].iter().map(|s| pair(s).unwrap()).collect();
            Given::of(desc, &sets).err().map(|e| e.to_string()).unwrap_or_default()
        };
        let plain = desc();
        assert_eq!(said(&plain, "backends.pool=3"), "`backends.pool=3`: `pool` is for ports of conversations");
        assert_eq!(
            said(&plain, "client.max_queued=9"),
            "`client.max_queued=9`: `max_queued` is for ports of conversations"
        );
        assert_eq!(said(&plain, "client.max_answer=9"), "`client.max_answer=9`: `max_answer` is for ports over UDP");
        assert_eq!(said(&plain, "client.offload=true"), "`client.offload=true`: `offload` is for ports of frames");
        let mut talks = desc();
        talks.protocols =
            vec![wireloom_ir::desc::ProtocolDesc { sharing: Sharing::Session, ..crate::test_program::protocol(true) }];
        let unused = "`backends.pool=3`: the program gives no sessions to pools (`pool … for …`)";
        assert_eq!(said(&talks, "backends.pool=3"), unused);
        talks.ports[1].pools = true;
        assert_eq!(said(&talks, "backends.pool=3"), "");
    }
}
