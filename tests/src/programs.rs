//! Programs inside the test's own process: a file's module, interpreted and compiled, for tests
//! that compare the two.

use std::path::Path;
use std::sync::Arc;
use wireloom_interp::differential::{HandlerAct, Mock};
use wireloom_ir::{FuncBody, Module, TestKind};
use wireloom_runtime::{App, Program, Sim};
use wireloom_syntax::source::OsWorld;

/// A module, its meaning, and its twin by a backend. The interpreter runs the graph of elements as
/// it was lowered, a backend has them in their senders.
pub struct Twins {
    pub module: Arc<Module>,
    pub interpreted: Program,
    pub compiled: Option<Program>,
}

/// Checks and lowers a file, whose path is relative to the repository's root.
pub fn module(path: impl AsRef<Path>) -> Module {
    module_of(path, None)
}

/// The same without the app's tests, as it is run.
pub fn bare_module(path: impl AsRef<Path>) -> Module {
    let bare = |m: &mut Module| {
        m.drop_tests();
        wireloom_ir::passes::run_all(m)
    };
    lowered(path.as_ref(), None, bare).unwrap_or_else(|errors| panic!("{}:\n{errors}", path.as_ref().display()))
}

/// The same with one of several apps.
pub fn module_of(path: impl AsRef<Path>, app: Option<&str>) -> Module {
    checked(path.as_ref(), app).unwrap_or_else(|errors| panic!("{}:\n{errors}", path.as_ref().display()))
}

/// The same, or the checker's errors.
pub fn checked(path: &Path, app: Option<&str>) -> Result<Module, String> {
    lowered(path, app, wireloom_ir::passes::run_all)
}

/// The same: its graph of elements as it was lowered, and the module with elements inlined.
pub fn checked_both(path: &Path, app: Option<&str>) -> Result<(Module, Module), String> {
    let mut inlined = None;
    let graph = lowered(path, app, |m| inlined = Some(wireloom_ir::passes::run_both(m)))?;
    let inlined = inlined.expect("the passes have run");
    sound(path, &inlined);
    Ok((graph, inlined))
}

fn sound(path: &Path, module: &Module) {
    let wrong = wireloom_ir::verify::verify(module);
    assert!(wrong.is_empty(), "{}: {}", path.display(), wrong[0]);
}

fn lowered(path: &Path, app: Option<&str>, passes: impl FnOnce(&mut Module)) -> Result<Module, String> {
    let root = crate::root();
    let path = root.join(path);
    let checked = wireloom_lang::compile(&OsWorld::new(root.join("std")), &path, app);
    let errors: Vec<String> =
        checked.diagnostics.iter().filter(|d| d.is_error()).map(|d| d.render(&checked.map, false)).collect();
    if !errors.is_empty() {
        return Err(errors.concat());
    }
    let mut module = checked.module.expect("a module without errors");
    passes(&mut module);
    sound(&path, &module);
    Ok(module)
}

pub fn twins(path: impl AsRef<Path>) -> Twins {
    twins_of(path, None)
}

pub fn twins_of(path: impl AsRef<Path>, app: Option<&str>) -> Twins {
    twins_at(path, app, 0)
}

/// The same, the compiled one optimised so far (see [`compiled_at`]).
pub fn twins_at(path: impl AsRef<Path>, app: Option<&str>, level: u8) -> Twins {
    let (graph, module) =
        checked_both(path.as_ref(), app).unwrap_or_else(|errors| panic!("{}:\n{errors}", path.as_ref().display()));
    let (interpreted, module) = (interpreted(&Arc::new(graph)), Arc::new(module));
    let compiled = compiled_at(&module, level).unwrap_or_else(|e| panic!("{e}"));
    Twins { module, interpreted, compiled }
}

pub fn interpreted(module: &Arc<Module>) -> Program {
    let program = Box::leak(Box::new(wireloom_interp::program(module.clone())));
    let packets = (program.table_self(), program.packets());
    // SAFETY: leaked just above, so it lives as long as the process.
    unsafe { Program::from_table(program.table()).expect("the interpreter's table").with_packets(packets.0, packets.1) }
}

/// Set for long runs, see [`seeds`].
pub const LONG: &str = "WIRELOOM_SEEDS";

/// Set: the C is compiled with the sanitizers. Their runtime must be there before all else, so by
/// hand: `LD_PRELOAD=$(clang-19 -print-file-name=libclang_rt.asan-x86_64.so)
/// ASAN_OPTIONS=detect_leaks=0 WIRELOOM_SANITIZE=1 cargo test …`
const SANITIZE: &str = "WIRELOOM_SANITIZE";

/// A way to make a program of a module, optimised so far. None: it cannot be made here, or the
/// backend does not know a construct of the module.
type Make = fn(&Module, u8) -> Result<Option<Program>, String>;

/// The backends that are compared with the interpreter: the first, or the one that
/// `WIRELOOM_BACKEND` names.
const BACKENDS: &[(&str, Make)] = &[("c", by_c), ("text", by_text)];

/// A program by the backend at hand. C is not optimised, because that takes four times as long.
/// Apps are optimised where their binary runs them.
pub fn compiled(module: &Module) -> Result<Option<Program>, String> {
    compiled_at(module, 0)
}

/// The same, optimised so far, or as far as `WIRELOOM_OPT` says.
pub fn compiled_at(module: &Module, level: u8) -> Result<Option<Program>, String> {
    backend().1(module, level)
}

/// Whether the backend at hand makes C.
pub fn is_c() -> bool {
    backend().0 == BACKENDS[0].0
}

fn backend() -> &'static (&'static str, Make) {
    let Ok(wanted) = std::env::var("WIRELOOM_BACKEND") else { return &BACKENDS[0] };
    let found = BACKENDS.iter().find(|(name, _)| *name == wanted);
    found.unwrap_or_else(|| panic!("there is no backend {wanted} in BACKENDS"))
}

/// The module is printed, read again and interpreted: what the text form loses is a difference.
fn by_text(module: &Module, _: u8) -> Result<Option<Program>, String> {
    let read = wireloom_ir::text::parse(&wireloom_ir::text::print(module)).map_err(|e| e.to_string())?;
    let in_c = module.funcs.iter().any(|f| matches!(f.body, FuncBody::Extern { .. }));
    Ok((!in_c).then(|| interpreted(&Arc::new(read))))
}

/// None without a C compiler; its warnings and errors are an error.
fn by_c(module: &Module, level: u8) -> Result<Option<Program>, String> {
    use wireloom_codegen_c::{compile, emit, CompileError, CompileOptions, Options};
    let sanitize = std::env::var_os(SANITIZE).is_some();
    let opt = std::env::var("WIRELOOM_OPT").ok().and_then(|o| o.parse().ok()).unwrap_or(level);
    // A long run compiles each program once only, so a cache would not help.
    let (long, mut source) = (std::env::var_os(LONG).is_some(), emit(module, &Options::default()));
    let cache_dir = if long { Default::default() } else { std::env::temp_dir().join("wireloom-test-cache") };
    if long && opt == 0 {
        // Its declarations would be read twice, which takes longest.
        source.parts = 1
    }
    let options = CompileOptions { cache_dir, opt, sanitize, ..CompileOptions::default() };
    match compile(&source, &options) {
        Ok(so) => Ok(Some(Program::load(&so.bytes).expect("our own shared object"))),
        Err(CompileError::NoCompiler { .. }) => {
            assert!(std::env::var_os("CI").is_none(), "no C compiler");
            eprintln!("SKIPPED: no C compiler, so nothing to compare with");
            Ok(None)
        }
        Err(e) => Err(e.to_string()),
    }
}

/// An app's output at its port `client` for one message: nothing, if it gives none.
pub fn answer(module: &Module, program: &Program, message: &[u8]) -> Vec<u8> {
    let app = App::new(program.clone(), module.desc(), &[]).expect("the app starts");
    let mut sim = Sim::new(vec![app]).expect("the app is simulated");
    let client = sim.client("client").expect("it accepts");
    client.send(message);
    sim.settle();
    client.receive()
}

/// The seeds of a random test: the usual number, or `WIRELOOM_SEEDS` for a long run. That is a
/// number, or `FROM..TO`, so that a run can be made in parts.
pub fn seeds(usual: u64) -> std::ops::RangeInclusive<u64> {
    let text = std::env::var(LONG).unwrap_or_default();
    let (from, to) = text.split_once("..").unwrap_or(("1", &text));
    from.parse().unwrap_or(1)..=to.parse().unwrap_or(usual)
}

/// The interpreter met nothing that the checker should have ruled out.
pub fn no_internal_errors() {
    let (n, last) = wireloom_interp::internal_errors();
    assert_eq!(n, 0, "internal error: {last:?}");
}

/// Handlers that may take longer are not run.
const MOST_STEPS: u64 = 2_000_000;

/// Bytes of tables of a program that is run.
const MOST_MEMORY: u64 = 8 << 30;

/// The tests of a module that are code, by one of its programs: name, result, and actions.
pub fn code_tests(module: &Module, program: &Program) -> Vec<(String, i32, u16, u32, Vec<HandlerAct>)> {
    // Damage makes tables that no machine here has the memory for.
    if program.table().state_size.max(program.table().shared_size) > MOST_MEMORY {
        return Vec::new();
    }
    // SAFETY: the program lives as long as the process.
    let mut mock = unsafe { Mock::new(program.table(), module, &[]) };
    let brief = module.tests.iter().filter_map(|t| match &t.kind {
        TestKind::Code(h) if module.handlers[h.index()].steps <= MOST_STEPS => Some((t.name.clone(), h.0)),
        _ => None,
    });
    let run = |(name, handler)| {
        let (code, kind, place) = mock.run_plain(handler);
        (name, code, kind, place, mock.take_acts())
    };
    brief.map(run).collect()
}
