//! The compiler's duties to any text, good or bad. In: the world and a main file in it. Out: the
//! module if it is a program, or what is wrong with the compiler.

use crate::root;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::path::Path;
use std::time::Duration;
use wireloom_ir::{passes, text, verify, Module};
use wireloom_lang::Checked;
use wireloom_syntax::{codes, format, parse, Diagnostic, MemoryWorld, SourceMap};

/// The most that checking may take, of this thread's own time.
const LONGEST: Duration = Duration::from_millis(if cfg!(debug_assertions) { 10_000 } else { 4_000 });

/// This thread's processor time: other load does not count.
pub fn spent() -> Duration {
    let mut t = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: a valid structure to fill.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut t) };
    Duration::new(t.tv_sec as u64, t.tv_nsec as u32)
}

/// The results of a program without errors.
pub struct Sound {
    pub module: Module,
    /// It uses nothing but what its own text says, so that it can be compiled anywhere.
    pub c: wireloom_codegen_c::CSource,
}

/// Checks a file in all ways but running it; `text` is its text, if it is text.
pub fn judge(world: &MemoryWorld, main: &Path, text: Option<&str>) -> Result<Option<Sound>, String> {
    let tried = catch_unwind(AssertUnwindSafe(|| {
        let begun = spent();
        let checked = wireloom_lang::compile(world, main, None);
        let took = spent() - begun;
        if took > LONGEST {
            return Err(format!("checking takes {took:?}"));
        }
        diagnostics(&checked)?;
        if let Some(text) = text {
            layout(text)?;
        }
        checked.module.map(lowered).transpose()
    }));
    match tried {
        Ok(said) => said,
        Err(panic) => {
            let text =
                panic.downcast_ref::<String>().cloned().or_else(|| panic.downcast_ref::<&str>().map(|s| s.to_string()));
            Err(format!("a panic: {}", text.unwrap_or_default()))
        }
    }
}

fn diagnostics(checked: &Checked) -> Result<(), String> {
    if checked.module.is_none() && !checked.has_errors() {
        return Err("refused without an error".into());
    }
    checked.diagnostics.iter().try_for_each(|d| diagnostic(d, &checked.map))
}

/// A code that has a page, places that are in their files, an excerpt, and something that helps.
fn diagnostic(d: &Diagnostic, map: &SourceMap) -> Result<(), String> {
    let wrong = |what: &str| Err(format!("{what}: {d:?}"));
    if codes::find(d.code).is_none() || !root().join(format!("docs/errors/{}.md", d.code)).is_file() {
        return wrong("a code that is not explained");
    }
    for label in d.primary.iter().chain(&d.secondary) {
        let (from, to) = (label.span.start as usize, label.span.end as usize);
        let inside = map
            .file(label.span.file)
            .is_some_and(|f| from <= to && f.text.is_char_boundary(from) && f.text.is_char_boundary(to));
        if !inside {
            return wrong("a place that is not in the source");
        }
    }
    // Only what is wrong with a file as a whole has no place.
    if d.primary.is_none() && !matches!(d.code, "E0010" | "E0011" | "E0204") {
        return wrong("no place");
    }
    let shown = d.render(map, false);
    if d.primary.is_some() && !(shown.contains("\n --> ") || shown.contains("--> ")) {
        return wrong("no excerpt");
    }
    if !d.to_json(map).starts_with('{') {
        return wrong("no JSON");
    }
    Ok(())
}

/// A text that parses is laid out once and for all, and keeps its tree.
fn layout(text: &str) -> Result<(), String> {
    let Ok(once) = format(text) else { return Ok(()) };
    let tree = |text: &str| {
        let parsed = parse(wireloom_syntax::ast::FileId(0), text);
        (!parsed.has_errors()).then(|| wireloom_syntax::format::without_spans(&format!("{:?}", parsed.file)))
    };
    if tree(text).is_none() || tree(text) != tree(&once) {
        return Err(format!("formatting changes the program to:\n{once}"));
    }
    match format(&once) {
        Ok(twice) if twice == once => Ok(()),
        Ok(twice) => Err(format!("formatting is not settled:\n{once}\n---- and again:\n{twice}")),
        Err(_) => Err("formatted text does not parse".into()),
    }
}

/// A module is sound as lowered and after each pass, has a text form, and can be reported on, drawn
/// and emitted.
fn lowered(mut module: Module) -> Result<Sound, String> {
    let sound = |m: &Module, when: &str| match verify::verify_lowered(m).first() {
        Some(e) => Err(format!("the verifier {when}: {e}")),
        None => Ok(()),
    };
    sound(&module, "after lowering")?;
    for pass in passes::TABLE {
        (pass.run)(&mut module);
        sound(&module, pass.name)?;
    }
    if let Some(e) = verify::verify(&module).first() {
        return Err(format!("the verifier in the end: {e}"));
    }
    let printed = text::print(&module);
    match text::parse(&printed) {
        Ok(m) if m == module => {}
        Ok(_) => return Err("another module comes back from the text form".into()),
        Err(e) => {
            return Err(format!(
                "the text form does not come back: {e}\n{}",
                printed.lines().nth(e.line.max(1) as usize - 1).unwrap_or_default()
            ))
        }
    }
    wireloom_ir::explain::report(&module, &Default::default());
    wireloom_ir::graph::svg(&module);
    let c = wireloom_codegen_c::emit(&module, &wireloom_codegen_c::Options::default());
    Ok(Sound { module, c })
}
