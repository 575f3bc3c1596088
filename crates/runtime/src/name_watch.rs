//! Names of servers, looked up again and again while services run.
//!
//! In: the apps, and the time between two looks. Out: the answers of a look in which a name has
//! another address, for a reload of these names. A thread of its own asks the resolver, which may
//! take long.

use crate::os_signals::without_signals;
use crate::server_names::Answers;
use crate::value_syntax::resolved;
use crate::view::Group;
use std::collections::{HashMap, HashSet};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

pub(crate) struct NameWatch {
    shared: Arc<Shared>,
    thread: JoinHandle<()>,
}

#[derive(Default)]
struct Shared {
    ended: AtomicBool,
    answers: Mutex<Option<Answers>>,
}

impl NameWatch {
    /// Looks at the names of these apps every `d`.
    pub fn start(group: Arc<Group>, d: Duration) -> Option<NameWatch> {
        let shared = Arc::new(Shared::default());
        let of_thread = shared.clone();
        let run = move || watch(&of_thread, &group, d);
        let named = std::thread::Builder::new().name("names".into());
        let thread = without_signals(|| named.spawn(run)).ok()?;
        Some(NameWatch { shared, thread })
    }

    /// The answers of a look in which a name has another address, once.
    pub fn take(&self) -> Option<Answers> {
        self.shared.answers.lock().unwrap_or_else(|e| e.into_inner()).take()
    }
}

impl Drop for NameWatch {
    /// The thread ends by itself, behind the resolver's answer.
    fn drop(&mut self) {
        self.shared.ended.store(true, Ordering::Release);
        self.thread.thread().unpark();
    }
}

fn watch(shared: &Shared, group: &Group, d: Duration) {
    let mut looks = Looks::default();
    let mut next = Instant::now() + d;
    while !shared.ended.load(Ordering::Acquire) {
        match next.checked_duration_since(Instant::now()) {
            Some(left) if !left.is_zero() => std::thread::park_timeout(left),
            _ => {
                let names = group.apps.iter().flat_map(|a| a.renewed().names.all()).collect();
                if let Some(answers) = looks.look(&names, &resolved) {
                    *shared.answers.lock().unwrap_or_else(|e| e.into_inner()) = Some(answers);
                }
                next = Instant::now() + d;
            }
        }
    }
}

/// Findings of earlier looks.
#[derive(Default)]
struct Looks {
    /// The other addresses that were told of a name: a setting that keeps its address tells nothing
    /// twice.
    told: HashMap<String, Vec<SocketAddr>>,
    /// Names without an answer, which were told.
    lost: HashSet<String>,
}

impl Looks {
    /// Asks for all names. The answers, if one has another address than before.
    fn look(
        &mut self,
        names: &HashMap<String, SocketAddr>,
        resolve: &dyn Fn(&str) -> Result<Vec<SocketAddr>, String>,
    ) -> Option<Answers> {
        let (mut answers, mut other) = (Answers::new(), false);
        for (name, address) in names {
            let answer = resolve(name);
            match &answer {
                Ok(all) => {
                    if self.lost.remove(name) {
                        log::info!(target: "wireloom", "`{name}` can be resolved again")
                    }
                    if !all.is_empty() && !all.contains(address) {
                        other |= self.told.insert(name.clone(), all.clone()).as_ref() != Some(all);
                    } else {
                        self.told.remove(name);
                    }
                }
                Err(e) => {
                    if self.lost.insert(name.clone()) {
                        log::warn!(target: "wireloom", "`{name}` keeps its address {}: {e}", address.ip())
                    }
                }
            }
            answers.insert(name.clone(), answer);
        }
        other.then_some(answers)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_another_address_is_told_and_once() {
        let at = |text: &str| text.parse::<SocketAddr>().unwrap();
        let mut names = HashMap::from([("a:1".to_string(), at("10.0.0.1:1")), ("b:1".to_string(), at("10.0.0.5:1"))]);
        let mut looks = Looks::default();
        let none = |_: &str| Err("no answer".to_string());
        let same = |n: &str| Ok(vec![at("10.0.0.9:1"), if n == "a:1" { at("10.0.0.1:1") } else { at("10.0.0.5:1") }]);
        let other = |n: &str| Ok(vec![if n == "a:1" { at("10.0.0.2:1") } else { at("10.0.0.5:1") }]);
        assert!(looks.look(&names, &same).is_none());
        assert!(looks.look(&names, &none).is_none() && looks.lost.len() == 2);
        assert!(looks.look(&names, &|_| Ok(Vec::new())).is_none() && looks.lost.is_empty());
        let told = looks.look(&names, &other).expect("a name has another address");
        assert_eq!(told["a:1"], Ok(vec![at("10.0.0.2:1")]));
        // A setting that keeps its address until the next start.
        assert!(looks.look(&names, &other).is_none());
        names.insert("a:1".into(), at("10.0.0.2:1"));
        assert!(looks.look(&names, &other).is_none());
        // Back and forth.
        assert!(looks.look(&names, &same).is_some());
        names.insert("a:1".into(), at("10.0.0.1:1"));
        assert!(looks.look(&names, &same).is_none());
        assert!(looks.look(&names, &other).is_some());
    }
}
