//! Whole apps in the simulated network: random clients (valid and damaged, several at once) and
//! random backends. Interpreter and compiled code get the same play, and again with the bytes cut
//! differently. Every byte on every connection must be the same, and every fault counted.

use std::time::Duration;
use wireloom_interp::generate::{Generator, Rng};
use wireloom_interp::grammar::args;
use wireloom_ir::desc::{ParamType, PortKind};
use wireloom_ir::{Module, UnitId};
use wireloom_runtime::engine::memory::{Ending, Peer};
use wireloom_runtime::{App, Program, Sim};
use wireloom_tests::programs::{is_c, no_internal_errors, seeds, twins};

const CLIENTS: usize = 3;
const ROUNDS: usize = 6;

/// The script of the outside world: for each round, the bytes of each client; and the backends'
/// answers, in the order of the requests.
struct Script {
    clients: Vec<Vec<Vec<u8>>>,
    answers: Vec<Vec<u8>>,
}

fn message(module: &Module, g: &mut Generator, unit: UnitId, ctx: u64, damage: u64) -> Vec<u8> {
    g.stream(unit, &args(module, unit, ctx), 1, damage)
}

fn script(module: &Module, seed: u64, known: &[&[u8]]) -> Script {
    let mut g = Generator::new(module, seed);
    let mut rng = Rng::new(seed ^ 0xd1ff);
    let port = |listen: bool| module.ports.iter().filter(move |p| matches!(p.kind, PortKind::Listen(_)) == listen);
    let requests: Vec<UnitId> =
        port(true).flat_map(|p| &p.protocols).map(|p| module.protocols[p.index()].request).collect();
    let responses: Vec<UnitId> =
        port(false).flat_map(|p| &p.protocols).filter_map(|p| module.protocols[p.index()].response).collect();
    let damage = if seed.is_multiple_of(2) { 0 } else { 20 };
    // A client speaks one protocol.
    let speaks: Vec<UnitId> = (0..CLIENTS).map(|_| requests[rng.below(requests.len() as u64) as usize]).collect();
    let mut say = |unit: UnitId| match known {
        [_, ..] if rng.chance(60) => known[rng.below(known.len() as u64) as usize].to_vec(),
        _ => message(module, &mut g, unit, 0, damage),
    };
    let clients = (0..ROUNDS).map(|_| speaks.iter().map(|u| say(*u)).collect()).collect();
    let answers = match responses.is_empty() {
        true => Vec::new(),
        false => (0..40).map(|i| message(module, &mut g, responses[i % responses.len()], 1 << 63, damage)).collect(),
    };
    Script { clients, answers }
}

/// Everything that could be seen from outside.
#[derive(Debug, PartialEq)]
struct Seen {
    clients: Vec<(String, Ending)>,
    backends: Vec<(String, usize, String)>,
    faults: Vec<(u32, u64)>,
}

fn sets(module: &Module) -> Vec<(String, String)> {
    let needed = module.params.iter().filter(|p| p.default.is_none());
    needed
        .map(|p| {
            let value =
                if matches!(p.ty, ParamType::Endpoints(_)) { "10.1.0.1:1000,10.1.0.2:1000" } else { "10.1.0.1:1000" };
            (p.name.clone(), value.to_string())
        })
        .collect()
}

fn send(sim: &mut Sim, peer: &Peer, bytes: &[u8], cut: Option<usize>) {
    for piece in bytes.chunks(cut.unwrap_or(usize::MAX).max(1)) {
        peer.send(piece);
        sim.settle();
    }
}

fn play(module: &Module, program: &Program, script: &Script, cut: Option<usize>) -> Seen {
    let app = App::new(program.clone(), module.desc(), &sets(module)).expect("the app starts");
    let mut sim = Sim::new(vec![app]).expect("the app is simulated");
    let listen = &module.ports.iter().find(|p| matches!(p.kind, PortKind::Listen(_))).expect("a port").name;
    let connect: Vec<&str> =
        module.ports.iter().filter(|p| matches!(p.kind, PortKind::Connect(_))).map(|p| p.name.as_str()).collect();
    let clients: Vec<Peer> = (0..CLIENTS).map(|_| sim.client(listen).expect("it accepts")).collect();
    let mut heard = vec![Vec::new(); CLIENTS];
    let mut backends: Vec<(String, usize, Peer, Vec<u8>)> = Vec::new();
    let mut answers = script.answers.iter().cycle();
    for round in &script.clients {
        for (client, bytes) in clients.iter().zip(round) {
            send(&mut sim, client, bytes, cut);
        }
        // Backends answer each request; bytes that arrive in one go are one request here.
        for _ in 0..4 {
            for name in &connect {
                for i in 0..2 {
                    while let Some(peer) = sim.backend(name, i) {
                        backends.push((name.to_string(), i, peer, Vec::new()));
                    }
                }
            }
            for (_, _, peer, heard) in &mut backends {
                let asked = peer.receive();
                heard.extend_from_slice(&asked);
                if let (false, Some(answer)) = (asked.is_empty(), answers.next()) {
                    send(&mut sim, peer, answer, cut);
                }
            }
        }
        for (heard, client) in heard.iter_mut().zip(&clients) {
            heard.extend(client.receive());
        }
        sim.settle();
    }
    clients.iter().for_each(Peer::finish);
    sim.advance(Duration::from_secs(120));
    for (heard, client) in heard.iter_mut().zip(&clients) {
        heard.extend(client.receive());
    }
    let mut faults: Vec<(u32, u64)> = Vec::new();
    for (kind, _, n) in sim.stats(0).faults.list() {
        match faults.iter_mut().find(|f| f.0 == kind) {
            Some(f) => f.1 += n,
            None => faults.push((kind, n)),
        }
    }
    faults.sort();
    Seen {
        clients: heard.iter().zip(&clients).map(|(h, c)| (h.escape_ascii().to_string(), c.ending())).collect(),
        backends: backends
            .into_iter()
            .map(|(n, i, p, mut h)| {
                h.extend(p.receive());
                (n, i, h.escape_ascii().to_string())
            })
            .collect(),
        faults,
    }
}

/// `known`: requests that the app passes on, where random ones hardly ever are.
fn compare(app: &str, known: &[&[u8]]) {
    compare_program(&format!("apps/{app}.loom"), known);
}

/// `wireloom explain` bills views of at least their size, and not of twice as much.
fn views_fit_the_bill(app: &str, module: &Module, compiled: &Program) {
    let (largest, billed) = (8 * compiled.view_words() as u64, wireloom_ir::explain::view_bytes(module));
    assert!((largest..=2 * largest + 512).contains(&billed), "{app}: a view of {largest} bytes is billed as {billed}");
}

fn compare_program(app: &str, known: &[&[u8]]) {
    let t = twins(app);
    let compiled = t.compiled.as_ref().unwrap_or(&t.interpreted);
    if let (Some(compiled), true) = (&t.compiled, is_c()) {
        views_fit_the_bill(app, &t.module, compiled);
    }
    let (mut answered, mut asked, mut plays) = (0, 0, 0);
    for seed in seeds(8) {
        let script = script(&t.module, seed, known);
        let meant = play(&t.module, &t.interpreted, &script, None);
        assert_eq!(
            meant,
            play(&t.module, compiled, &script, None),
            "{app}, seed {seed}: left interpreted, right compiled"
        );
        plays += 1;
        answered += usize::from(meant.clients.iter().any(|(said, _)| !said.is_empty()));
        asked += usize::from(meant.backends.iter().any(|(_, _, heard)| !heard.is_empty()));
        // In pieces more requests are under way at once, so the backends get them in another order:
        // only the two engines are compared.
        let cut = Some(1 + seed as usize % 7);
        let pieces = play(&t.module, &t.interpreted, &script, cut);
        assert_eq!(
            pieces,
            play(&t.module, compiled, &script, cut),
            "{app}, seed {seed}, cut {cut:?}: left interpreted, right compiled"
        );
        // If no backend is used, cutting changes nothing at all.
        if meant.backends.is_empty() && pieces.backends.is_empty() {
            assert_eq!(meant, pieces, "{app}, seed {seed}: left at once, right cut {cut:?}");
        }
    }
    eprintln!("{app}: clients are answered in {answered} of {plays} plays, backends asked in {asked}");
    let asks = t.module.ports.iter().any(|p| matches!(p.kind, PortKind::Connect(_)));
    assert!(
        answered * 4 > plays && (!asks || asked * 4 > plays),
        "{app}: clients are answered in {answered} of {plays} plays, backends asked in {asked}"
    );
    no_internal_errors();
}

#[test]
fn static_web() {
    compare(
        "static_web",
        &[
            b"GET / HTTP/1.1\r\nHost: a\r\n\r\n",
            b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc",
            b"\r\nHEAD /x HTTP/1.0\r\n\r\n",
        ],
    );
}

#[test]
fn http_balancer() {
    compare(
        "http_balancer",
        &[
            b"GET / HTTP/1.1\r\nHost: a\r\n\r\n",
            b"POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nab",
            b"HEAD /y HTTP/1.0\r\n\r\n",
        ],
    );
}

#[test]
fn edits() {
    compare_program(
        "tests/programs/edits.loom",
        &[
            b"GET / HTTP/1.1\r\nHost: a\r\nX-Name: x-tag\r\nX-Value: 7\r\n\r\n",
            b"GET / HTTP/1.1\r\nConnection: keep-alive\r\nX-A: gone\r\nHost: a\r\nAccept: 2\r\n\r\n",
            b"GET / HTTP/1.1\r\nX-A: gone\r\nHost: a\r\nTE: trailers\r\nX-B: gone\r\nX-C: c\r\n\r\n",
            b"POST / HTTP/1.1\r\nContent-Length: 2\r\nX-Name: content-length\r\nX-Value: 2\r\nHost: a\r\n\r\nab",
            b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nConnection: x-a\r\nX-A: a\r\n\r\n2\r\nab\r\n0\r\n\r\n",
            b"GET http://b/ HTTP/1.1\r\nHost: gone\r\nX-Name: connection\r\nX-Value: close\r\n\r\n",
            b"GET / HTTP/1.1\r\nHost: gone\r\n\r\n",
        ],
    );
}

#[test]
fn memcached_proxy() {
    compare("memcached_proxy", &[]);
}

#[test]
fn memcached_proxy_brief() {
    // GET and SET: random commands are hardly ever such as a server answers once.
    compare(
        "memcached_proxy_brief",
        &[
            b"\x80\0\0\x01\0\0\0\0\0\0\0\x01\0\0\0\x07\0\0\0\0\0\0\0\0a",
            b"\x80\x01\0\x01\x08\0\0\0\0\0\0\x0a\0\0\0\x08\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0kv",
        ],
    );
}

#[test]
fn kv_server() {
    compare("kv_server", &[]);
}

#[test]
fn dns_forwarder_and_cache() {
    let question = b"\x12\x34\x01\0\0\x01\0\0\0\0\0\0\x03www\x07example\0\0\x01\0\x01";
    compare("dns_forwarder", &[question]);
    compare("dns_cache", &[question]);
}

#[test]
fn memcached_udp_proxy() {
    compare(
        "memcached_udp_proxy",
        &[b"\x12\x34\0\0\0\x01\0\0get a\r\n", b"\x12\x34\0\0\0\x01\0\0set a 0 0 1\r\nx\r\n"],
    );
}

#[test]
fn kv_cache() {
    compare("kv_cache", &[b"get a\r\n", b"set a 0 0 1\r\nx\r\n", b"get a b\r\n", b"delete a noreply\r\n"]);
}

#[test]
fn redis_proxy() {
    compare(
        "redis_proxy",
        &[
            b"*2\r\n$3\r\nGET\r\n$1\r\na\r\n",
            b"SET b 5\r\n",
            b"*4\r\n$4\r\nMGET\r\n$1\r\na\r\n$1\r\nb\r\n$1\r\nc\r\n",
            b"DEL a b c d\r\n",
        ],
    );
}

#[test]
fn becomes() {
    compare_program(
        "tests/programs/becomes.loom",
        &[
            b"strict\n",
            b"loose\n\x01\x02ab\x09\x00hello\n",
            b"loose\n\x07\x00",
            b"\x01\x01\x03abc",
            b"both\n",
            b"both\nhello\n",
            b"through\n\x01\x03abc",
            b"wrong\n",
            b"hello\n",
            b"\x09\x00",
        ],
    );
}

#[test]
fn asks() {
    compare_program("tests/programs/asks.loom", &[b"1?ann\n", b"2cbob\n", b"3xany\n", b"wann\n", b"nann\n", b"?any\n"]);
}

#[test]
fn websocket_gateway() {
    let ask = b"GET /room HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
                Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";
    let both = [&ask[..], b"\x81\x82abcd\x00\x00"].concat();
    compare(
        "websocket_gateway",
        &[
            &ask[..],
            &both,
            b"\x82\x83mask\x01\x02\x03",
            b"\x01\x81mask\x0c",
            b"\x80\x81mask\x0d",
            b"\x89\x80mask",
            b"\x88\x80mask",
            b"GET /room HTTP/1.1\r\nHost: a\r\n\r\n",
        ],
    );
}

#[test]
fn ordered() {
    compare_program(
        "tests/programs/ordered.loom",
        &[b"bare a\n", b"bare a bb\n", b"bare aa b cc\n", b"bare a b c d e\n", b"bare a  B\n", b"swap\n"],
    );
}

/// A function that calls a server sends for the client of its caller.
#[test]
fn calling_functions() {
    let file = "tests/programs/calling_functions.loom";
    for way in [&["test", file][..], &["test", "--interpret", file]] {
        let said = wireloom_tests::Wireloom::command(way);
        assert!(said.code == Some(0) && said.text.contains("1 passed, 0 failed"), "{}", said.text);
    }
}

/// Each kind of fault that the language lists is raised in units, functions and handlers,
/// interpreted and compiled.
#[test]
fn fault_kinds() {
    let file = "tests/programs/fault_kinds.loom";
    for way in [&["test", file][..], &["test", "--interpret", file]] {
        let said = wireloom_tests::Wireloom::command(way);
        assert!(said.code == Some(0) && said.text.contains("2 passed, 0 failed"), "{}", said.text);
    }
    let page = std::fs::read_to_string(wireloom_tests::root().join("docs/language.md")).expect("the page");
    let table =
        page.split_once("## Faults").and_then(|(_, t)| t.split_once("Fault kinds are values")).expect("a table").0;
    let listed = table.lines().filter_map(|l| l.strip_prefix("| `")?.split_once(" |")).flat_map(|(k, _)| k.split(", "));
    let program = std::fs::read_to_string(wireloom_tests::root().join(file)).expect("the program");
    for kind in listed.map(|k| k.trim_matches('`')) {
        assert!(program.contains(&format!("{{ fault {kind} }}")), "{file} does not raise `{kind}`");
    }
}

/// Conditions for a header in several clauses.
#[test]
fn two_ways_to_a_header() {
    let file = "tests/programs/two_ways_to_a_header.loom";
    for way in [&["test", file][..], &["test", "--interpret", file]] {
        let said = wireloom_tests::Wireloom::command(way);
        assert!(said.code == Some(0) && said.text.contains("3 passed, 0 failed"), "{}", said.text);
    }
}

/// A walk that takes entries out and changes others sees each one once, interpreted and compiled.
#[test]
fn walks() {
    for way in [&["test", "tests/programs/walks.loom"][..], &["test", "--interpret", "tests/programs/walks.loom"]] {
        let said = wireloom_tests::Wireloom::command(way);
        assert!(said.code == Some(0) && said.text.contains("1 passed, 0 failed"), "{}", said.text);
    }
}
