//! Tables with which a program picks a backend: the ketama ring (in libmemcached's layout with
//! weights), libmemcached's ring without weights, and Maglev.
//!
//! In: the backends' addresses as written. Out: the arrays that `wl_port` shows to handlers.

/// Slots of a Maglev table: a prime much larger than the number of backends.
pub const MAGLEV_SLOTS: u32 = 65_537;

/// Points of each server on libmemcached's ring without weights.
const CONSISTENT_POINTS: u32 = 100;

/// A server of a port as keys are spread over servers: by name and weight.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Server {
    pub name: String,
    pub weight: u32,
}

/// The ketama ring: pairs (point, instance), sorted by point, flattened; behind them the slots of
/// `modula`: their number, and the instance of each.
#[derive(Default)]
pub struct Continuum {
    pub words: Vec<u32>,
    pub points: u32,
}

/// The ring as twemproxy lays it out, and libmemcached with weights. Each server gets a share of
/// 160 points per server by its weight, four from each MD5 of `name-i`. The arithmetic is in
/// `float`, as in both, so that the points agree.
pub fn ketama(servers: &[Server]) -> Continuum {
    let total: u32 = servers.iter().map(|s| s.weight).sum();
    let mut points: Vec<(u32, u32)> = Vec::with_capacity(servers.len() * 160);
    for (instance, server) in servers.iter().enumerate() {
        let share = server.weight as f32 / total as f32;
        let hashes = (f64::from(share * 160.0 / 4.0 * servers.len() as f32) + 0.0000000001) as f32;
        for i in 0..hashes.floor() as u32 {
            let digest = md5(format!("{}-{i}", server.name).as_bytes());
            for quarter in digest.chunks_exact(4) {
                points.push((u32::from_le_bytes([quarter[0], quarter[1], quarter[2], quarter[3]]), instance as u32));
            }
        }
    }
    points.sort_unstable();
    // twemproxy orders its servers by their names, shorter ones first.
    let mut order: Vec<usize> = (0..servers.len()).collect();
    order.sort_by_key(|i| (servers[*i].name.len(), &servers[*i].name));
    let slots = order.iter().flat_map(|i| std::iter::repeat_n(*i as u32, servers[*i].weight as usize));
    let words = points.iter().flat_map(|(p, i)| [*p, *i]).chain([total]).chain(slots).collect();
    Continuum { words, points: points.len() as u32 }
}

/// libmemcached's ring without weights: pairs (point, instance), sorted by point, flattened. Each
/// server has 100 points, the hashes of `name-0` to `name-99` (`update_continuum` in
/// libmemcached/hosts.cc).
pub fn consistent(servers: &[Server], mut hash: impl FnMut(&str) -> u32) -> Vec<u32> {
    let mut points: Vec<(u32, u32)> = Vec::with_capacity(servers.len() * CONSISTENT_POINTS as usize);
    for (instance, server) in servers.iter().enumerate() {
        let names = (0..CONSISTENT_POINTS).map(|i| format!("{}-{i}", server.name));
        points.extend(names.map(|name| (hash(&name), instance as u32)));
    }
    points.sort_unstable();
    points.iter().flat_map(|(p, i)| [*p, *i]).collect()
}

/// The Maglev table: for each slot the instance, filled by turns from each server's own permutation
/// of the slots.
pub fn maglev(servers: &[String], slots: u32) -> Vec<u32> {
    if servers.is_empty() {
        return Vec::new();
    }
    let m = u64::from(slots);
    let steps: Vec<(u64, u64)> = servers
        .iter()
        .map(|s| {
            let d = md5(s.as_bytes());
            let offset = u64::from_le_bytes([d[0], d[1], d[2], d[3], d[4], d[5], d[6], d[7]]) % m;
            let skip = u64::from_le_bytes([d[8], d[9], d[10], d[11], d[12], d[13], d[14], d[15]]) % (m - 1) + 1;
            (offset, skip)
        })
        .collect();
    let mut next = vec![0u64; servers.len()];
    let mut table = vec![u32::MAX; slots as usize];
    let mut filled = 0;
    loop {
        for (i, (offset, skip)) in steps.iter().enumerate() {
            let mut slot;
            loop {
                slot = ((offset + next[i] * skip) % m) as usize;
                next[i] += 1;
                if table[slot] == u32::MAX {
                    break;
                }
            }
            table[slot] = i as u32;
            filled += 1;
            if filled == slots {
                return table;
            }
        }
    }
}

/// MD5 (RFC 1321), by AWS-LC; not for secrets, ketama is defined by it.
pub fn md5(data: &[u8]) -> [u8; 16] {
    let mut out = [0; 16];
    // SAFETY: reads `data.len()` bytes at `data` and writes the 16 bytes of a digest to `out`.
    unsafe { aws_lc_sys::MD5(data.as_ptr(), data.len(), out.as_mut_ptr()) };
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hex(d: [u8; 16]) -> String {
        d.iter().map(|b| format!("{b:02x}")).collect()
    }

    #[test]
    fn md5_of_the_rfc() {
        assert_eq!(hex(md5(b"")), "d41d8cd98f00b204e9800998ecf8427e");
        assert_eq!(hex(md5(b"message digest")), "f96b697d7cb7938d525a2f31aaf161d0");
        let long = "1234567890".repeat(8);
        assert_eq!(hex(md5(long.as_bytes())), "57edf4a22be3c955ac49da2e2107b67a");
    }

    #[test]
    fn ketama_has_160_sorted_points_per_server() {
        let ring = ketama(&[server("10.0.1.1", 1), server("10.0.1.2:11212", 1)]);
        assert_eq!((ring.points, ring.words.len()), (320, 2 * 320 + 1 + 2));
        let points = &ring.words[..640];
        assert!(points.chunks(2).zip(points.chunks(2).skip(1)).all(|(a, b)| a[0] <= b[0]));
        // The first server's first hash is md5("10.0.1.1-0").
        let d = md5(b"10.0.1.1-0");
        let point = u32::from_le_bytes([d[0], d[1], d[2], d[3]]);
        assert!(points.chunks(2).any(|p| p == [point, 0]));
    }

    fn server(name: &str, weight: u32) -> Server {
        Server { name: name.into(), weight }
    }

    #[test]
    fn weights_are_points_and_slots() {
        let ring = ketama(&[server("a", 1), server("b", 3)]);
        let own = |i: u32| ring.words[..2 * ring.points as usize].chunks(2).filter(|p| p[1] == i).count();
        assert_eq!((own(0), own(1)), (80, 240));
        assert_eq!(ring.words[2 * ring.points as usize..], [4, 0, 1, 1, 1]);
        let ring = ketama(&[server("long", 1), server("z", 2), server("b", 1)]);
        assert_eq!(ring.words[2 * ring.points as usize..], [4, 2, 1, 1, 0]);
    }

    #[test]
    fn maglev_is_even_and_moves_little() {
        let servers: Vec<String> = (0..7).map(|i| format!("10.0.0.{i}:80")).collect();
        let all = maglev(&servers, MAGLEV_SLOTS);
        let share = |t: &[u32], s: u32| t.iter().filter(|x| **x == s).count();
        for s in 0..7 {
            let n = share(&all, s);
            assert!((9_300..9_450).contains(&n), "server {s} has {n} slots");
        }
        let fewer = maglev(&servers[..6], MAGLEV_SLOTS);
        let moved = all.iter().zip(&fewer).filter(|(a, b)| a != b && **a != 6).count();
        assert!(moved < 65_537 / 10, "{moved} slots moved");
    }
}
