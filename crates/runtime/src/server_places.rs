//! The servers of a connect port: the list that programs see, and the places where cores keep their
//! books.
//!
//! In: the lists of two settings, one after the other. Out: the place of each server. A server that
//! is in both lists keeps its place, and with it its connections, its health and its numbers. The
//! place of a server that is gone is given out again once no core has anything of that server.

use crate::consistent_hashing::{self, Continuum, Server};
use std::net::SocketAddr;
use std::sync::Arc;

/// Places of a port beyond four for each server of its list.
const MORE_PLACES: usize = 64;

/// The servers of a port.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct ServerPlaces {
    /// The place of each instance.
    pub of: Vec<u32>,
    /// The server of each place, also of those that are not in the list any more.
    pub all: Vec<ServerPlace>,
}

/// A place, and the server that has it or had it last.
#[derive(Clone, PartialEq, Eq)]
pub struct ServerPlace {
    pub addr: SocketAddr,
    /// As written, without weight and name.
    pub name: Arc<str>,
    /// How many servers have had the place.
    pub server: u32,
}

impl ServerPlace {
    /// As written, and the address of a name.
    pub fn shown(&self) -> String {
        match self.name.parse::<SocketAddr>() {
            Ok(_) => self.name.to_string(),
            Err(_) => format!("{} ({})", self.name, self.addr.ip()),
        }
    }
}

impl ServerPlaces {
    /// The places of the first list: its own order.
    pub fn first(addrs: &[SocketAddr], names: &[String]) -> ServerPlaces {
        let server =
            |(addr, name): (&SocketAddr, &String)| ServerPlace { addr: *addr, name: name.as_str().into(), server: 1 };
        let all: Vec<_> = addrs.iter().zip(names).map(server).collect();
        ServerPlaces { of: (0..all.len() as u32).collect(), all }
    }

    /// The places of another list. `left`: whether all cores have done with the server that had a
    /// place. None: there are too many servers that they have not done with.
    pub fn next(&self, addrs: &[SocketAddr], names: &[String], left: impl Fn(usize) -> bool) -> Option<ServerPlaces> {
        let mut new = ServerPlaces { of: vec![u32::MAX; addrs.len()], all: self.all.clone() };
        let mut taken = vec![false; new.all.len()];
        let listed: Vec<bool> = (0..new.all.len()).map(|place| self.instance(place).is_some()).collect();
        // Those that stay, then those that come back before they have been let go.
        for stays in [true, false] {
            for (k, addr) in addrs.iter().enumerate() {
                let fits =
                    |i: &usize| !taken[*i] && new.all[*i].addr == *addr && listed[*i] == stays && (stays || !left(*i));
                let place = (0..taken.len()).find(fits).filter(|_| new.of[k] == u32::MAX);
                if let Some(place) = place {
                    (taken[place], new.of[k]) = (true, place as u32);
                    new.all[place].name = names[k].as_str().into();
                }
            }
        }
        let most = 4 * self.of.len().max(addrs.len()) + MORE_PLACES;
        for k in 0..addrs.len() {
            if new.of[k] != u32::MAX {
                continue;
            }
            let place = (0..taken.len()).find(|i| !taken[*i] && !listed[*i] && left(*i));
            let (addr, name) = (addrs[k], Arc::from(names[k].as_str()));
            new.of[k] = match place {
                Some(i) => {
                    let server = new.all[i].server.wrapping_add(1);
                    (taken[i], new.all[i]) = (true, ServerPlace { addr, name, server });
                    i as u32
                }
                None if taken.len() >= most => return None,
                None => {
                    taken.push(true);
                    new.all.push(ServerPlace { addr, name, server: 1 });
                    taken.len() as u32 - 1
                }
            };
        }
        Some(new)
    }

    /// The instance that has a place.
    pub fn instance(&self, place: usize) -> Option<usize> {
        self.of.iter().position(|i| *i as usize == place)
    }
}

/// Tables by which a program picks a server of a port, where it asks for them.
#[derive(Default)]
pub struct HashTables {
    pub ring: Continuum,
    /// libmemcached's ring without weights: point and instance in turn.
    pub consistent: Vec<u32>,
    pub maglev: Vec<u32>,
}

impl HashTables {
    /// `ketama`, `maglev`: whether the program asks for them.
    pub fn of(servers: &[Server], names: &[String], (ketama, maglev): (bool, bool)) -> HashTables {
        let ring = if ketama { consistent_hashing::ketama(servers) } else { Continuum::default() };
        let maglev = match maglev {
            true => consistent_hashing::maglev(names, consistent_hashing::MAGLEV_SLOTS),
            false => Vec::new(),
        };
        HashTables { ring, consistent: Vec::new(), maglev }
    }

    /// The ketama ring: point and instance in turn.
    pub fn points(&self) -> &[u32] {
        &self.ring.words[..2 * self.ring.points as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(ports: &[u16]) -> (Vec<SocketAddr>, Vec<String>) {
        let addrs: Vec<_> = ports.iter().map(|p| SocketAddr::from(([10, 0, 0, 1], *p))).collect();
        let names = addrs.iter().map(SocketAddr::to_string).collect();
        (addrs, names)
    }

    fn first(ports: &[u16]) -> ServerPlaces {
        let (addrs, names) = list(ports);
        ServerPlaces::first(&addrs, &names)
    }

    fn next(before: &ServerPlaces, ports: &[u16], left: impl Fn(usize) -> bool) -> Option<ServerPlaces> {
        let (addrs, names) = list(ports);
        before.next(&addrs, &names, left)
    }

    #[test]
    fn servers_that_stay_keep_their_places() {
        let begin = first(&[1, 2, 3]);
        let then = next(&begin, &[3, 4, 1], |_| false).unwrap();
        assert_eq!(then.of, [2, 3, 0]);
        assert_eq!((then.all.len(), then.instance(1), then.instance(3)), (4, None, Some(1)));
        // One that comes back before it has been let go is the same server.
        let back = next(&then, &[2, 3], |_| false).unwrap();
        assert_eq!((&back.of[..], back.all[1].server), (&[1, 2][..], 1));
        // Behind that it is a new one.
        let anew = next(&then, &[2, 3], |i| i == 1).unwrap();
        assert_eq!((&anew.of[..], anew.all[1].server), (&[1, 2][..], 2));
        // One address twice has two places.
        let twice = next(&begin, &[1, 1], |_| false).unwrap();
        assert_eq!(twice.of, [0, 3]);
    }

    #[test]
    fn places_are_bounded() {
        let mut all = first(&[1]);
        for n in 2..10_000 {
            all = next(&all, &[n], |_| true).unwrap();
        }
        assert_eq!(all.all.len(), 2);
        let refused = (2..10_000).find(|n| match next(&all, &[10_000 + *n], |_| false) {
            Some(more) => {
                all = more;
                false
            }
            None => true,
        });
        assert!(refused.is_some() && all.all.len() == 4 + MORE_PLACES, "{refused:?} {}", all.all.len());
    }
}
