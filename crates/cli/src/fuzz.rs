//! `wireloom fuzz`: random streams of a unit's messages, half of them damaged, cut at random, through the interpreter and compiled code.

use crate::args::{Compile, Fuzz};
use crate::engine::{self, How};
use crate::world::CliWorld;
use crate::{load, Failure, Outcome};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};
use wireloom_interp::differential::{Pair, Summary};
use wireloom_ir::{Module, UnitId};
use wireloom_syntax::World;

/// Streams per seed.
const ROUNDS: usize = 200;

pub fn fuzz(args: Fuzz) -> Outcome {
    let (file, name) = place(&args.unit)?;
    let module = Arc::new(load::load(&file)?);
    let unit = find(&module, &name)?;
    let reference = engine::interpret(&module)?;
    let made = engine::make(&module, &Compile { interpret: false, ..args.compile.clone() })?;
    let whom = if matches!(made.how, How::Compiled(_)) { "interpreter and compiled code" } else { "the interpreter, cut differently" };
    let time = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(1, |d| d.as_nanos() as u64);
    let mut seed = args.seed.unwrap_or(time);
    eprintln!("wireloom: fuzzing {} for {} s: {whom}, first seed {seed}", module.unit(unit).name, args.seconds);
    // Both sides of a protocol read different clauses: requests have bit 63 of their context clear, responses set.
    let contexts = [0, 1 << 63, 1 << 63 | 1, 1 << 63 | 2, 1 << 63 | 7];
    let until = Instant::now() + Duration::from_secs(args.seconds);
    let mut total = Summary::default();
    let mut next = 0;
    while Instant::now() < until {
        let pair = Pair { module: &module, a: reference.program.table(), b: made.program.table(), unit, ctx: contexts[next % contexts.len()] };
        // SAFETY: both tables live as long as the process.
        let sum = unsafe { pair.compare_random(seed, ROUNDS) }.map_err(|e| Failure::Said(format!("{e}\nrepeat with --seed {seed}")))?;
        total.messages += sum.messages;
        total.in_step += sum.in_step;
        total.bad += sum.bad;
        total.bytes += sum.bytes;
        next += 1;
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    }
    println!(
        "no difference in {} streams: {} messages, {} faults in step, {} faults, {} KiB",
        next * ROUNDS, total.messages, total.in_step, total.bad, total.bytes >> 10
    );
    Ok(())
}

/// `std.http.Request` or `file.loom:Unit` as a file and a unit's name.
fn place(text: &str) -> Result<(PathBuf, String), Failure> {
    if let Some((file, unit)) = text.rsplit_once(':') {
        return Ok((PathBuf::from(file), unit.to_string()));
    }
    let parts: Vec<&str> = text.split('.').collect();
    let (Some((unit, module)), world) = (parts.split_last(), CliWorld::new()) else {
        return Err(Failure::Said("name a unit".into()));
    };
    match world.resolve(Path::new("."), module) {
        Some((path, taken)) if taken == module.len() => Ok((path, unit.to_string())),
        _ => Err(Failure::Said(format!("there is no module `{}`; expected std.http.Request or file.loom:Unit", module.join(".")))),
    }
}

fn find(module: &Module, name: &str) -> Result<UnitId, Failure> {
    let short = |full: &str| full.rsplit('.').next().unwrap_or(full).to_string();
    if let Some(i) = module.units.iter().position(|u| u.name == name || short(&u.name) == name) {
        return Ok(UnitId(i as u32));
    }
    let known: Vec<String> = module.units.iter().map(|u| short(&u.name)).collect();
    Err(Failure::Said(format!("there is no unit `{name}`; the file has {}", known.join(", "))))
}
