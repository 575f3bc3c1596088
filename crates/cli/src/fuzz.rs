//! `wireloom fuzz`: random streams of messages run through the interpreter and compiled code.
//!
//! A unit is named, or a module, for all messages of its protocols. Half of the messages are
//! damaged, and streams are cut at random. For an app with frame ports, frames take the place of
//! messages (`fuzz_frames`). A child process does the work. If it crashes, the parent knows the
//! seed that reproduces the crash.

use crate::args::{Compile, Fuzz};
use crate::engine::{self, How};
use crate::fuzz_limit::Limit;
use crate::output::READER_GONE;
use crate::world::{self, CliWorld};
use crate::{fuzz_frames, load, sanitize, Failure, Outcome};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;
use wireloom_codegen_c::PrivateFolder;
use wireloom_interp::differential::{contexts, is_message, Pair, Summary};
use wireloom_ir::desc::PortKind;
use wireloom_ir::{suggestions, Module, UnitId};
use wireloom_runtime::abi::wl_program;
use wireloom_syntax::World;

/// Streams per seed.
const ROUNDS: usize = 200;

/// Names the file in which the inner process notes the current seed.
const NOTE: &str = "WIRELOOM_FUZZ_NOTE";

pub fn fuzz(args: Fuzz) -> Outcome {
    if sanitize::is_inner() {
        inner(args)
    } else {
        outer(args)
    }
}

fn outer(args: Fuzz) -> Outcome {
    let time = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(1, |d| d.as_nanos() as u64);
    let scratch = PrivateFolder::new().map_err(|e| Failure::Said(format!("cannot make a temporary folder: {e}")))?;
    let note = scratch.path().join("seed");
    std::env::set_var(NOTE, &note);
    let extra = if args.seed.is_some() { Vec::new() } else { vec![format!("--seed={time}")] };
    let status = sanitize::run_again(args.compile.sanitize, &extra);
    let seed = std::fs::read_to_string(&note).unwrap_or_default();
    drop(scratch);
    match status? {
        s if s.success() => Ok(()),
        // The inner process has said why.
        s if s.code() == Some(1) => Err(Failure::Silent),
        s if s.code() == Some(READER_GONE) => std::process::exit(READER_GONE),
        s => {
            // The seed, and the current frame or message.
            let (seed, at) = seed.split_once('\n').unwrap_or((&seed, ""));
            let at = at.lines().next().map_or(String::new(), |at| format!(" at {at}"));
            Err(Failure::Said(format!("{} crashes ({s}){at}\nrepeat with --seed {seed}", args.unit)))
        }
    }
}

fn inner(args: Fuzz) -> Outcome {
    let limit = Limit::new(args.seconds);
    let note = std::env::var_os(NOTE).map(PathBuf::from);
    let (file, name) = place(&args.unit)?;
    let module = match name {
        Some(_) => load::load_all(&file)?.remove(0),
        None => match load::load_both(&file)? {
            both if has_frames(&both.1) => return fuzz_frames::inner(&args, both, note.as_deref(), &limit),
            (_, module) => module,
        },
    };
    let module = Arc::new(module);
    let messages = messages(&module, &file, name.as_deref())?;
    if let Some(f) = engine::extern_function(&module) {
        return Err(Failure::Said(format!("`{f}` is a function in C: fuzzing compares with the interpreter, which cannot run it; fuzz a file with the units alone [E0717]")));
    }
    let reference = engine::interpret(&module)?;
    let made = limit.make(&module, &Compile { interpret: false, ..args.compile.clone() })?;
    let whom = if matches!(made.how, How::Compiled) {
        "interpreter and compiled code"
    } else {
        "the interpreter, cut differently"
    };
    let mut seed = args.seed.unwrap_or(1);
    let names: Vec<&str> = messages.iter().map(|m| module.unit(m.unit).name.as_str()).collect();
    eprintln!("wireloom: fuzzing {} for {}: {whom}, first seed {seed}", names.join(", "), limit.shown());
    let mut total = Summary::default();
    loop {
        for message in &messages {
            if let Some(file) = &note {
                std::fs::write(file, format!("{seed}\nmessage {}", module.unit(message.unit).name))?;
            }
            let programs = (reference.program.table(), made.program.table());
            // SAFETY: both tables live as long as the process.
            let sum = unsafe { message.compare(&module, programs, seed, &limit) }
                .map_err(|e| Failure::Said(format!("{e}\nrepeat with --seed {seed}")))?;
            total.add(&sum);
        }
        if !limit.is_time_left() {
            break;
        }
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    }
    println!(
        "no difference in {} streams: {} messages, {} faults in step, {} faults, {} KiB",
        total.streams,
        total.messages,
        total.in_step,
        total.bad,
        total.bytes >> 10
    );
    Ok(())
}

fn has_frames(module: &Module) -> bool {
    module.ports.iter().any(|p| matches!(p.kind, PortKind::Frames { .. }))
}

/// A unit and the contexts in which it is parsed as a message.
struct Message {
    unit: UnitId,
    contexts: Vec<u64>,
}

impl Message {
    /// Compares two programs on the streams of a seed.
    ///
    /// # Safety
    /// All that both tables name is valid.
    unsafe fn compare(
        &self,
        module: &Module,
        programs: (&wl_program, &wl_program),
        seed: u64,
        limit: &Limit,
    ) -> Result<Summary, String> {
        // The seed decides everything, the message's context too.
        let ctx = self.contexts[(seed >> 33) as usize % self.contexts.len()];
        let pair = Pair { module, a: programs.0, b: programs.1, unit: self.unit, ctx };
        // SAFETY: by contract.
        let sum = unsafe { pair.compare_random_while(seed, ROUNDS, || limit.goes_on()) }?;
        if let (1.., Some(why)) = wireloom_interp::internal_errors() {
            return Err(format!("internal error of the interpreter: {why}"));
        }
        Ok(sum)
    }
}

/// The message of a name, or all of a module's protocols.
fn messages(module: &Module, file: &Path, name: Option<&str>) -> Result<Vec<Message>, Failure> {
    let message = |unit| Message { unit, contexts: contexts(module, unit) };
    let Some(name) = name else {
        let units = (0..module.units.len()).map(|u| UnitId(u as u32));
        let all: Vec<Message> = units.filter(|u| is_message(module, *u)).map(message).collect();
        return match all.is_empty() {
            false => Ok(all),
            true => {
                Err(Failure::Said(format!("{} has no frame ports and no protocol: nothing to fuzz", file.display())))
            }
        };
    };
    let one = message(find(module, name)?);
    if one.contexts.is_empty() {
        let others = match load::messages(module) {
            _ if has_frames(module) => format!("`wireloom fuzz {}` fuzzes an app with its frames", file.display()),
            all if all.is_empty() => "nothing in its file is: read it in a test, by `parse`".to_string(),
            all => format!("fuzz one of {all}"),
        };
        return Err(Failure::Said(format!(
            "{name} is no message of a protocol, and no test of its file parses it: {others}"
        )));
    }
    Ok(vec![one])
}

/// `std.http.Request` or `file.loom:Unit` as a file and a unit's name; `std.http` or `file.loom`
/// without a name.
fn place(text: &str) -> Result<(PathBuf, Option<String>), Failure> {
    if text.ends_with(".loom") {
        return Ok((PathBuf::from(text), None));
    }
    if let Some((file, unit)) = text.rsplit_once(':') {
        return Ok((PathBuf::from(file), Some(unit.to_string())));
    }
    let parts: Vec<&str> = text.split('.').collect();
    let (Some((unit, module)), world) = (parts.split_last(), CliWorld::new()) else {
        return Err(Failure::Said("name a unit".into()));
    };
    match world.resolve(Path::new("."), &parts) {
        Some((path, taken)) if taken == parts.len() => Ok((path, None)),
        Some((path, taken)) if taken == module.len() => Ok((path, Some(unit.to_string()))),
        _ if module.is_empty() => Err(Failure::Said(format!(
            "`{text}` names no unit; expected std.http.Request, std.http, file.loom:Unit or file.loom"
        ))),
        _ => {
            let name = module.join(".");
            let known = world::library();
            let hint = suggestions::lead(&name, known.iter().map(String::as_str));
            Err(Failure::Said(format!(
                "there is no module `{name}`{hint} expected std.http.Request, std.http, file.loom:Unit or file.loom"
            )))
        }
    }
}

fn find(module: &Module, name: &str) -> Result<UnitId, Failure> {
    if let Some(i) = module.units.iter().position(|u| u.name == name || load::short(&u.name) == name) {
        return Ok(UnitId(i as u32));
    }
    let known: Vec<String> = module.units.iter().map(|u| load::short(&u.name)).collect();
    let hint = suggestions::lead(name, known.iter().map(String::as_str));
    Err(Failure::Said(format!("there is no unit `{name}`{hint} the file has {}", known.join(", "))))
}
