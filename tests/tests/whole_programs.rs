//! Whole programs at random (`wireloom_tests::whole`): compiled code treats frames and requests as
//! the interpreter does. Many programs make one app, so that the C compiler runs a few times only.
//! `make test-long` compares ten thousand of them.

use std::path::PathBuf;
use std::sync::Arc;
use wireloom_interp::differential::{Mock, MockAnswer};
use wireloom_interp::frames::{hex, samples, FramePair, Mutator};
use wireloom_interp::generate::Rng;
use wireloom_ir::{Module, On};
use wireloom_runtime::abi::{WL_F_LOST, WL_F_TIMEOUT};
use wireloom_tests::programs::{checked_both, compiled, interpreted, no_internal_errors, seeds};
use wireloom_tests::whole::{accepted, app, Features, Kind, Parts};
use wireloom_tests::{quickly_compiled, Wireloom};

/// Programs of an app.
const TOGETHER: usize = 12;
/// Frames or requests for each program.
const EACH: usize = 60;

fn file(kind: Kind, seed: u64) -> PathBuf {
    std::env::temp_dir().join(format!("wireloom-whole-{}-{kind:?}-{seed}.loom", std::process::id()))
}

/// The graph of elements as it was lowered, and with elements inlined.
fn modules(kind: Kind, programs: &[Parts], path: &PathBuf) -> Result<Both, String> {
    std::fs::write(path, app(kind, programs)).expect("the temporary folder is writable");
    checked_both(path, None).map(|(graph, inlined)| (Arc::new(graph), Arc::new(inlined)))
}

type Both = (Arc<Module>, Arc<Module>);

/// The interpreter runs the graph of elements as it was lowered.
fn packets((graph, m): &Both, seed: u64, programs: usize) -> Result<u64, String> {
    let Some(other) = compiled(m)? else { return Ok(0) };
    let mut pair = FramePair::new(m, interpreted(graph), other, &[])?;
    let mut maker = Mutator::new(seed, samples(&[]), vec![], pair.inputs());
    for i in 0..EACH * programs {
        let f = maker.random();
        pair.frame(&f).map_err(|e| {
            format!(
                "frame {i} on port {} at {}, {} bytes of {}, rooms {:?}: {}\n{e}",
                f.port,
                f.time,
                f.bytes.len(),
                f.wire,
                f.rooms,
                hex(&f.bytes)
            )
        })?;
    }
    pair.finish()?;
    Ok(pair.sum.sent)
}

fn services(m: &Arc<Module>, seed: u64, programs: usize) -> Result<u64, String> {
    let (meant, Some(other)) = (interpreted(m), compiled(m)?) else { return Ok(0) };
    // SAFETY: both tables live as long as the process.
    let [mut a, mut b] = [meant.table(), other.table()].map(|t| unsafe { Mock::new(t, m, &[]) });
    let handlers: Vec<u32> = m
        .handlers
        .iter()
        .enumerate()
        .filter(|(_, h)| matches!(h.on, On::Message { .. }))
        .map(|(i, _)| i as u32)
        .collect();
    let (mut rng, mut now, mut done) = (Rng::new(seed), 1_000_000_000, 0);
    for i in 0..EACH * programs {
        let handler = handlers[rng.below(handlers.len() as u64) as usize];
        let mut word = |most| (0..rng.below(most)).map(|_| b"abAB,=1x"[rng.below(8) as usize]).collect::<Vec<u8>>();
        let (op, data, said) = (word(16), word(16), word(40));
        let request = [&op[..], b" ", rng.below(300).to_string().as_bytes(), b" ", &data[..], b"\n"].concat();
        let answers = [
            MockAnswer::Bytes([&said[..], b"\n"].concat()),
            MockAnswer::Bytes(b"second\n".to_vec()),
            MockAnswer::Fault(if rng.chance(50) { WL_F_LOST } else { WL_F_TIMEOUT }),
        ];
        let answers = &answers[..1 + rng.below(3) as usize];
        now += rng.below(4_000_000_000);
        let [x, y] = [&mut a, &mut b].map(|mock| {
            mock.set_now(now);
            mock.run_message(handler, &request, answers)
        });
        if x != y {
            let n = x.iter().zip(&y).take_while(|(x, y)| x == y).count();
            return Err(format!(
                "request {i}, \"{}\", answers {answers:?}, act {n}:\n  interpreted: {:?}\n  compiled:    {:?}",
                request.escape_ascii(),
                x.get(n),
                y.get(n)
            ));
        }
        done += x.len() as u64;
    }
    Ok(done)
}

fn compare(kind: Kind, both: &Both, seed: u64, programs: usize) -> Result<u64, String> {
    match kind {
        Kind::Packets | Kind::Hook => packets(both, seed, programs),
        Kind::Service => services(&both.1, seed, programs),
    }
}

/// Which program of an app it is that differs.
fn alone(kind: Kind, programs: &[Parts], seed: u64) -> String {
    let mut said = String::new();
    for (n, one) in programs.iter().enumerate() {
        let path = file(kind, seed * 1000 + 500 + n as u64);
        let Ok(both) = modules(kind, std::slice::from_ref(one), &path) else { continue };
        match compare(kind, &both, seed, 4) {
            Err(e) => said += &format!("\n  alone, {}: {e}", path.display()),
            Ok(_) => drop(std::fs::remove_file(path)),
        }
    }
    said
}

fn run(kind: Kind, apps: u64) {
    let (mut all, mut refused, mut done, mut wrong) = (0, 0, 0, Vec::new());
    let mut features = Features::default();
    for seed in seeds(apps) {
        let path = file(kind, seed);
        let (programs, no) = accepted(kind, seed, TOGETHER, &path);
        features.count(&programs);
        let made = modules(kind, &programs, &path).map_err(|e| format!("together they are refused: {e}"));
        match made.and_then(|both| compare(kind, &both, seed, programs.len())) {
            Ok(n) => {
                done += n;
                if std::env::var_os("WIRELOOM_REFUSED").is_none() {
                    std::fs::remove_file(&path).ok();
                }
            }
            Err(e) => {
                let which = alone(kind, &programs, seed);
                eprintln!("{}: {e}{which}", path.display());
                wrong.push(path.display().to_string());
            }
        }
        (all, refused) = (all + programs.len(), refused + no);
        if seed % 20 == 0 {
            eprintln!("{kind:?}: {all} programs, {} apps differ", wrong.len())
        }
    }
    eprintln!("{kind:?}: {all} programs, {refused} refused by the checker, {done} acts");
    features.judge(kind, all);
    assert!(wrong.is_empty(), "interpreter and compiled code differ: {wrong:?}");
    assert!(done > 100 && all * 2 > refused, "{all} programs, {refused} refused, {done} acts: that says nothing");
    no_internal_errors();
}

/// Some of them with the sanitizers, on every prefix and every changed byte of frames, too.
#[test]
fn of_packets_sanitized() {
    let path = file(Kind::Packets, 0);
    let (programs, _) = accepted(Kind::Packets, 777, TOGETHER, &path);
    std::fs::write(&path, app(Kind::Packets, &programs[..programs.len().min(3)]))
        .expect("the temporary folder is writable");
    let out = Wireloom::command_with(&["fuzz", &path.display().to_string(), "--seconds", "0", "--sanitize"], |c| {
        quickly_compiled(c);
    });
    assert!(out.code == Some(0) && out.out.contains("no difference"), "{}: {}", path.display(), out.text);
    std::fs::remove_file(path).ok();
}

#[test]
fn of_packets() {
    run(Kind::Packets, 2)
}

#[test]
fn of_services() {
    run(Kind::Service, 2)
}
