//! Names of servers, and the addresses that they stand for.
//!
//! In: endpoints as written, `host:port`. Out: one address for each, the first of the system's
//! resolver. At a reload all names are resolved again. One keeps its address if the resolver still
//! lists it, in whatever order, and if it cannot be resolved any more.

use crate::value_syntax::{resolved, server_endpoint};
use std::collections::HashMap;
use std::net::SocketAddr;

/// The resolver's answers, by name.
pub(crate) type Answers = HashMap<String, Result<Vec<SocketAddr>, String>>;

#[derive(Clone, Default)]
pub struct ServerNames {
    /// The addresses with which each name was used first: for what no reload changes.
    first: HashMap<String, SocketAddr>,
    before: HashMap<String, SocketAddr>,
    found: HashMap<String, SocketAddr>,
    /// A line for each name that could not be resolved again.
    pub failed: Vec<String>,
    known: Answers,
}

impl ServerNames {
    /// For settings that follow these. `known`: names that are not asked for.
    pub(crate) fn again(&self, known: Answers) -> ServerNames {
        ServerNames { first: self.first.clone(), before: self.found.clone(), known, ..ServerNames::default() }
    }

    /// Whether no server has a name, only addresses.
    pub fn is_empty(&self) -> bool {
        self.first.is_empty()
    }

    /// The addresses of a list. `live`: those of a reload may be others.
    pub(crate) fn addresses(&mut self, list: &[String], live: bool) -> Result<Vec<SocketAddr>, String> {
        list.iter().map(|text| self.address(server_endpoint(text)?, live)).collect()
    }

    fn address(&mut self, text: &str, live: bool) -> Result<SocketAddr, String> {
        if let Ok(address) = text.parse() {
            return Ok(address);
        }
        let known = if live { None } else { self.first.get(text) };
        if let Some(address) = known.or(self.found.get(text)) {
            return Ok(*address);
        }
        let before = self.before.get(text).copied();
        let address = match (self.resolve(text), before) {
            (Ok(all), Some(before)) if all.contains(&before) => before,
            (Ok(all), _) => *all.first().ok_or_else(|| format!("`{text}` has no address"))?,
            (Err(e), Some(before)) => {
                self.failed.push(format!("`{text}` keeps its address {}: {e}", before.ip()));
                before
            }
            (Err(e), None) => return Err(e),
        };
        self.found.insert(text.into(), address);
        self.first.entry(text.into()).or_insert(address);
        Ok(address)
    }

    fn resolve(&self, text: &str) -> Result<Vec<SocketAddr>, String> {
        self.known.get(text).cloned().unwrap_or_else(|| resolved(text))
    }

    /// All names, and their addresses.
    pub(crate) fn all(&self) -> HashMap<String, SocketAddr> {
        self.found.clone()
    }

    /// A line for each name that has another address than before.
    pub fn changes(&self) -> Vec<String> {
        let other = |(name, is): (&String, &SocketAddr)| {
            let was = self.before.get(name).filter(|was| *was != is)?;
            Some(format!("`{name}` is now {} and was {}", is.ip(), was.ip()))
        };
        let mut lines: Vec<_> = self.found.iter().filter_map(other).collect();
        lines.sort();
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known(all: &[(&str, &[&str])]) -> Answers {
        let answer = |name: &str, list: &[&str]| match list {
            [] => Err(format!("cannot resolve `{name}`")),
            list => Ok(list.iter().map(|a| a.parse().unwrap()).collect()),
        };
        all.iter().map(|(name, list)| (name.to_string(), answer(name, list))).collect()
    }

    fn at_first() -> Answers {
        known(&[("a:1", &["10.0.0.1:1", "10.0.0.2:1"]), ("b:1", &["10.0.0.3:1"]), ("c:1", &["10.0.0.5:1"])])
    }

    /// `a` has two addresses in another order, `b` another one, and the others none.
    fn later() -> Answers {
        known(&[("a:1", &["10.0.0.2:1", "10.0.0.1:1"]), ("b:1", &["10.0.0.4:1"]), ("c:1", &[]), ("d:1", &[])])
    }

    #[test]
    fn names_are_resolved_again() {
        let list = ["a:1", "b:1", "c:1", "10.0.0.9:1"].map(String::from);
        let mut names = ServerNames { known: at_first(), ..ServerNames::default() };
        let texts = |all: Vec<SocketAddr>| all.iter().map(|a| a.ip().to_string()).collect::<Vec<_>>().join(" ");
        assert_eq!(texts(names.addresses(&list, true).unwrap()), "10.0.0.1 10.0.0.3 10.0.0.5 10.0.0.9");
        let mut again = names.again(later());
        assert_eq!(texts(again.addresses(&list, false).unwrap()), "10.0.0.1 10.0.0.3 10.0.0.5 10.0.0.9");
        assert_eq!((again.changes().len(), again.failed.len()), (0, 0));
        assert_eq!(texts(again.addresses(&list, true).unwrap()), "10.0.0.1 10.0.0.4 10.0.0.5 10.0.0.9");
        assert_eq!(again.changes(), ["`b:1` is now 10.0.0.4 and was 10.0.0.3"]);
        assert_eq!(again.failed, ["`c:1` keeps its address 10.0.0.5: cannot resolve `c:1`"]);
        assert!(again.addresses(&["d:1".into()], true).is_err(), "a new name has no other address");
        // A setting that no reload changes keeps the first address, whatever the others do.
        let mut third = again.again(later());
        assert_eq!(texts(third.addresses(&list[1..2], false).unwrap()), "10.0.0.3");
        assert_eq!(texts(third.addresses(&list[1..2], true).unwrap()), "10.0.0.4");
    }
}
