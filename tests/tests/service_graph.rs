//! Elements of services that come together again. A model in this file says which elements a
//! request passes, and the answer; interpreted and compiled programs do the same. A chain with more
//! paths than could be written down is small, and checked at once.

use fastrand::Rng;
use std::fmt::Write;
use std::time::{Duration, Instant};
use wireloom_tests::folder::Folder;
use wireloom_tests::{admin, free_port, Client, Wireloom};

const HEAD: &str = "
unit Ask { n: decimal<u32> until \"\\n\" }
unit Say { text: text<20> until \"\\n\" }
protocol chat { request Ask  response Say  sharing pipelined  stateless }
";

/// An element's ways out: the divisor of a request's number, and for each rest where it goes.
struct Step {
    ways: Vec<usize>,
    /// The element returns behind its first send.
    returns: bool,
}

/// A graph of elements; an index beyond them is an answer.
struct Graph {
    steps: Vec<Step>,
    answers: usize,
}

impl Graph {
    fn random(rng: &mut Rng) -> Graph {
        let (n, answers) = (rng.usize(3..40), rng.usize(1..4));
        let step = |at: usize| {
            let ways = (0..rng.usize(1..4)).map(|_| (at + 1 + rng.usize(0..4)).min(n + answers - 1)).collect();
            Step { ways, returns: rng.bool() }
        };
        Graph { steps: (0..n).map(step).collect(), answers }
    }

    /// A chain of elements with two sends to the next one each.
    fn chain(n: usize) -> Graph {
        Graph { steps: (0..n).map(|at| Step { ways: vec![at + 1; 2], returns: false }).collect(), answers: 1 }
    }

    fn program(&self) -> String {
        let (mut text, n) = (HEAD.to_string(), self.steps.len());
        let mut wires = String::new();
        for (at, s) in self.steps.iter().enumerate() {
            let outs: String = (0..s.ways.len()).map(|w| format!("    out y{w}: Ask\n")).collect();
            let many = s.ways.len();
            let body = match (many, s.returns) {
                (1, _) => "r -> y0".to_string(),
                (_, true) => {
                    let first = format!("if r.n / {} % {many} == 0 {{ r -> y0 return }}\n        late += 1\n", at + 1);
                    let rest: String = (1..many - 1)
                        .map(|w| format!("if r.n / {} % {many} == {w} {{ r -> y{w} }} else ", at + 1))
                        .collect();
                    first + "        " + &rest + &format!("{{ r -> y{} }}", many - 1)
                }
                (_, false) => {
                    let arms: String = (0..many - 1).map(|w| format!("{w} => r -> y{w}, ")).collect();
                    format!("match r.n / {} % {many} {{ {arms}_ => r -> y{} }}", at + 1, many - 1)
                }
            };
            let late = if body.contains("late") { "    counter late\n" } else { "" };
            let _ = write!(
                text,
                "\nelement Step{at} {{\n    in x: Ask\n{outs}    counter passed\n{late}    on x(r) {{\n        passed += 1\n        {body}\n    }}\n}}\n"
            );
            for (w, to) in s.ways.iter().enumerate() {
                let _ = match to.checked_sub(n) {
                    None => writeln!(wires, "    s{at}.y{w} -> s{to}"),
                    Some(answer) => writeln!(wires, "    s{at}.y{w} -> end{answer}"),
                };
            }
        }
        for a in 0..self.answers {
            let _ = write!(
                text,
                "\nelement End{a} {{\n    in x: Ask\n    on x(r) {{ reply Say {{ text: \"end {a}\" }} }}\n}}\n"
            );
        }
        let steps: String = (0..n).map(|at| format!("    s{at} = Step{at}()\n")).collect();
        let ends: String = (0..self.answers).map(|a| format!("    end{a} = End{a}()\n")).collect();
        text + &format!(
            "\napp graph {{\n    param port: u16 = 7000\n    port client = listen tcp(port) as chat\n{steps}{ends}    client -> s0\n{wires}}}\n"
        )
    }

    /// The answer to a request; what it passes is counted.
    fn follow(&self, n: usize, passed: &mut [u64], late: &mut [u64]) -> usize {
        let mut at = 0;
        while let Some(s) = self.steps.get(at) {
            passed[at] += 1;
            let way = n / (at + 1) % s.ways.len();
            if s.ways.len() > 1 && s.returns && way > 0 {
                late[at] += 1;
            }
            at = s.ways[way];
        }
        at - self.steps.len()
    }

    /// Runs the program, and compares answers and counters with the model.
    fn check(&self, name: &str, way: &[&str]) {
        let folder = Folder::new(name);
        let file = folder.name_of("graph.loom");
        std::fs::write(&file, self.program()).expect("the folder is writable");
        let page = free_port();
        let address = format!("127.0.0.1:{page}");
        let service = Wireloom::run_file(&file, &[&["--cores", "1", "--admin", &address], way].concat(), |_| {});
        let steps = self.steps.len();
        let (mut passed, mut late) = (vec![0; steps], vec![0; steps]);
        let (mut asked, mut answers) = (String::new(), String::new());
        for n in 0..300 {
            let _ = writeln!(asked, "{n}");
            let _ = writeln!(answers, "end {}", self.follow(n, &mut passed, &mut late));
        }
        let mut client = Client::connect(service.port);
        client.send(&asked).expect(&answers);
        let counted = |counters: &serde_json::Value, what: &str, of: &[u64]| {
            (0..steps).all(|at| counters[format!("s{at}.{what}")].as_u64().unwrap_or(0) == of[at])
        };
        admin::eventually(&format!("{name} {way:?}: counters as the model has them: {passed:?} {late:?}"), || {
            let counters = &admin::status(page)["apps"][0]["counters"];
            counted(counters, "passed", &passed) && counted(counters, "late", &late)
        });
    }
}

#[test]
fn elements_that_come_together_do_as_the_model() {
    let mut rng = Rng::with_seed(7);
    for n in 0..8 {
        let graph = Graph::random(&mut rng);
        let way: &[&str] = if n % 2 == 0 { &[] } else { &["--interpret"] };
        graph.check(&format!("service_graph_{n}"), way);
    }
}

/// No graph has too many places, with any wires.
#[test]
fn graphs_are_never_too_large() {
    let (mut rng, folder) = (Rng::with_seed(11), Folder::new("service_graphs"));
    let files: Vec<String> = (0..60)
        .map(|n| {
            let file = folder.name_of(&format!("graph{n}.loom"));
            std::fs::write(&file, Graph::random(&mut rng).program()).expect("the folder is writable");
            file
        })
        .collect();
    let args: Vec<&str> = std::iter::once("check").chain(files.iter().map(String::as_str)).collect();
    let said = Wireloom::command(&args);
    assert!(said.code == Some(0), "{}", said.text);
}

/// 2^64 paths: each element's code is there twice at most.
#[test]
fn a_chain_of_64_elements_with_two_ways_each() {
    let graph = Graph::chain(64);
    let folder = Folder::new("service_chain");
    let file = folder.name_of("graph.loom");
    std::fs::write(&file, graph.program()).expect("the folder is writable");
    let begun = Instant::now();
    let said = Wireloom::command(&["check", &file]);
    assert!(said.code == Some(0) && begun.elapsed() < Duration::from_secs(5), "{}", said.text);
    let ir = Wireloom::command(&["emit", "ir", &file]);
    let counted = (0..64).map(|at| ir.out.matches(&format!("count s{at}_passed")).count()).max();
    assert!(counted.is_some_and(|n| n <= 2), "{counted:?}");
    for way in [&[][..], &["--interpret"]] {
        graph.check("service_chain_run", way);
    }
}

/// Elements that send round are refused, however long the way is.
#[test]
fn a_long_way_round_is_refused() {
    let mut graph = Graph::chain(20);
    graph.steps[19].ways[0] = 3;
    let folder = Folder::new("service_round");
    let file = folder.name_of("graph.loom");
    std::fs::write(&file, graph.program()).expect("the folder is writable");
    let said = Wireloom::command(&["check", &file]);
    assert!(said.code == Some(1) && said.text.contains("error[E0"), "{}", said.text);
    assert!(said.text.contains("leads back"), "{}", said.text);
}
