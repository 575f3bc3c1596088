//! The script: traffic, a backend of each proxy killed, traffic without it, the backends back,
//! drain, summary. Then the filter of packets on two devices.

use crate::cast::Cast;
use crate::filter;
use crate::load::{self, Kind, Meter};
use crate::stage::{Act, Frame, SideFrame, Stage};
use std::process::ExitCode;
use std::sync::atomic::Ordering;
use std::sync::Arc;
use std::time::{Duration, Instant};

const KILL_AT: Duration = Duration::from_secs(5);
const REVIVE_AT: Duration = Duration::from_secs(10);
const END_AT: Duration = Duration::from_secs(17);
const TICK: Duration = Duration::from_millis(500);
/// The backend that is killed.
const VICTIM: usize = 1;

/// Counts at one moment.
#[derive(Clone, Copy, Default)]
struct Counts {
    answers: u64,
    errors: u64,
}

impl Counts {
    fn of(meter: &Meter) -> Counts {
        Counts { answers: meter.answers.load(Ordering::Relaxed), errors: meter.errors.load(Ordering::Relaxed) }
    }
}

/// The summary of one side.
struct Story {
    name: &'static str,
    meter: Arc<Meter>,
    at_kill: Counts,
    at_revival: Counts,
    /// Last time an error was seen after the revival.
    last_error: Option<Duration>,
    memory: u64,
}

pub fn perform(mut cast: Cast) -> ExitCode {
    let stories = [Kind::Memcached, Kind::Http].map(|kind| Story {
        name: if kind == Kind::Memcached { "memcached_proxy" } else { "http_balancer" },
        meter: Meter::new(),
        at_kill: Counts::default(),
        at_revival: Counts::default(),
        last_error: None,
        memory: 0,
    });
    let mut stories = stories;
    let mut clients = load::start(Kind::Memcached, cast.memcached.proxy.port, &stories[0].meter);
    clients.extend(load::start(Kind::Http, cast.http.proxy.port, &stories[1].meter));

    let mut stage = Stage::new();
    let outcome = run(&mut cast, &mut stories, &mut stage);
    stories.iter().for_each(|s| s.meter.stop());
    clients.into_iter().for_each(|c| drop(c.join()));
    stage.close();
    let whole = match outcome {
        Ok(whole) => whole,
        Err(e) => {
            eprintln!("demo: {e}");
            return ExitCode::from(1);
        }
    };
    let bad_exits = cast.stop();
    if whole {
        let good = summary(&stories, &bad_exits) & filter::perform(&cast.folder);
        println!("{}", if good { "\nAll as it should be." } else { "\nNot as it should be: see above." });
        return if good { ExitCode::SUCCESS } else { ExitCode::from(1) };
    }
    println!("demo: stopped before its end");
    bad_exits.iter().for_each(|bad| println!("  {bad}"));
    if bad_exits.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::from(1)
    }
}

/// Whether the play came to its end; otherwise someone asked to stop.
fn run(cast: &mut Cast, stories: &mut [Story; 2], stage: &mut Stage) -> Result<bool, String> {
    let begin = Instant::now();
    let mut act = Act::Calm;
    let mut before = [Counts::default(); 2];
    let mut cpu_before = [cast.memcached.proxy.cpu(), cast.http.proxy.cpu()];
    let mut tick = 1;
    while begin.elapsed() < END_AT && !stage.quit() {
        std::thread::sleep((TICK * tick).saturating_sub(begin.elapsed()));
        tick += 1;
        let now = begin.elapsed();
        if act == Act::Calm && now >= KILL_AT {
            act = Act::Lost;
            for (story, side) in stories.iter_mut().zip([&mut cast.memcached, &mut cast.http]) {
                story.at_kill = Counts::of(&story.meter);
                side.backends[VICTIM].kill();
            }
        }
        if act == Act::Lost && now >= REVIVE_AT {
            act = Act::Back;
            for (story, side) in stories.iter_mut().zip([&mut cast.memcached, &mut cast.http]) {
                story.at_revival = Counts::of(&story.meter);
                side.backends[VICTIM].start()?;
            }
        }
        let mut sides = Vec::new();
        for (i, side) in [&cast.memcached, &cast.http].into_iter().enumerate() {
            let story = &mut stories[i];
            let counts = Counts::of(&story.meter);
            let answers = counts.answers - before[i].answers;
            let errors = counts.errors - before[i].errors;
            let cpu = side.proxy.cpu();
            if act == Act::Back && errors > 0 {
                story.last_error = Some(now - REVIVE_AT);
            }
            story.memory = story.memory.max(side.proxy.memory());
            let (p50, p99) = story.meter.take_latency();
            sides.push(SideFrame {
                proxy: side.proxy.name.clone(),
                port: side.proxy.port,
                backends: side.backends.iter().map(|b| (b.name.clone(), b.port, b.alive())).collect(),
                status: side.proxy.status(),
                per_second: (answers - errors) as f64 / TICK.as_secs_f64(),
                errors_per_second: errors as f64 / TICK.as_secs_f64(),
                wrong: story.meter.wrong.load(Ordering::Relaxed),
                p50,
                p99,
                cpu_us: if answers > 0 { (cpu - cpu_before[i]) * 1e6 / answers as f64 } else { 0.0 },
                memory_kib: side.proxy.memory(),
            });
            before[i] = counts;
            cpu_before[i] = cpu;
        }
        stage.draw(&Frame { now, end: END_AT, act, sides });
    }
    Ok(begin.elapsed() >= END_AT)
}

/// Whether all was as it should be.
fn summary(stories: &[Story; 2], bad_exits: &[String]) -> bool {
    let mut good = bad_exits.is_empty();
    println!(
        "\nSummary: {:.0} s of traffic, one backend of each proxy killed at {} s and started again at {} s.\n",
        END_AT.as_secs_f64(),
        KILL_AT.as_secs(),
        REVIVE_AT.as_secs()
    );
    for s in stories {
        let total = Counts::of(&s.meter);
        let wrong = s.meter.wrong.load(Ordering::Relaxed);
        let h = s.meter.total.lock().unwrap_or_else(|e| e.into_inner());
        println!("  {}", s.name);
        println!("    answers               {:>9}   ({} clients, closed loop)", total.answers, load::CONNECTIONS);
        println!(
            "    latency               p50 {} µs, p99 {} µs, largest {} µs",
            h.value_at_quantile(0.5),
            h.value_at_quantile(0.99),
            h.max()
        );
        println!(
            "    errors before / while the backend was lost / after:  {} / {} / {}",
            s.at_kill.errors,
            s.at_revival.errors - s.at_kill.errors,
            total.errors - s.at_revival.errors
        );
        println!(
            "    last error after the revival:  {}",
            s.last_error.map_or("none".into(), |d| format!("{:.1} s", d.as_secs_f64()))
        );
        println!("    wrong answers, lost connections:  {wrong}");
        println!("    memory of the proxy   {:.1} MiB\n", s.memory as f64 / 1024.0);
        good &= wrong == 0 && total.answers > 0 && s.at_kill.errors == 0;
    }
    for bad in bad_exits {
        println!("  {bad}");
    }
    if bad_exits.is_empty() {
        println!("  SIGTERM: every program drained and exited 0.");
    }
    good
}
