//! The functions in C of a program, checked with the C compiler. What is wrong with them is told as
//! the checker tells what is wrong with the program.
//!
//! Without a C compiler nothing is checked: the commands that need one say so.

use crate::engine::in_folder;
use crate::Failure;
use wireloom_codegen_c::{extern_problems, CompileError, CompileOptions, ExternProblem};
use wireloom_ir::{FuncBody, FuncId, Module};
use wireloom_lang::Checked;
use wireloom_syntax::ast::{FileId, Span};
use wireloom_syntax::{diagnostic, Diagnostic};

/// Lines of a C compiler's messages that are shown.
const MOST_LINES: usize = 12;

/// Adds the diagnostics of the functions in C to those of a file's apps. Some are of functions that
/// an app has. Others are of elements in C that none uses, or not with each `in`.
pub fn check(all: &mut [Checked]) -> Result<(), Failure> {
    let mut seen: Vec<FuncBody> = all.iter().flat_map(|c| &c.module).flat_map(in_c).cloned().collect();
    for checked in all.iter_mut().filter(|c| !c.has_errors()) {
        let apart = checked.elements_in_c.iter().filter(|m| {
            let new: Vec<_> = in_c(m).filter(|f| !seen.contains(f)).cloned().collect();
            seen.extend(new.iter().cloned());
            !new.is_empty()
        });
        for module in checked.module.iter().chain(apart) {
            let problems = match extern_problems(module, &in_folder(module, &CompileOptions::default())) {
                Ok(problems) => problems,
                Err(CompileError::NoCompiler { .. }) => return Ok(()),
                Err(e) => return Err(e.into()),
            };
            for d in problems.iter().map(|p| told(module, p)) {
                if !checked.diagnostics.iter().any(|o| o.code == d.code && o.span() == d.span()) {
                    checked.diagnostics.push(d);
                }
            }
        }
        diagnostic::sort(&mut checked.diagnostics);
    }
    Ok(())
}

fn in_c(m: &Module) -> impl Iterator<Item = &FuncBody> {
    m.funcs.iter().map(|f| &f.body).filter(|b| matches!(b, FuncBody::Extern { .. }))
}

fn told(m: &Module, problem: &ExternProblem) -> Diagnostic {
    let of = |func: &FuncId| {
        let f = &m.funcs[func.index()];
        let span = Span { file: FileId(f.span.file), start: f.span.start, end: f.span.end };
        let file = match &f.body {
            FuncBody::Extern { file, .. } => file.as_str(),
            FuncBody::Body(_) => "",
        };
        (f.name.as_str(), file, span)
    };
    match problem {
        ExternProblem::Refused { func, messages } => {
            let (_, file, span) = of(func);
            Diagnostic::error("E0687", span, format!("the C compiler refuses `{file}`"))
                .label("this function is there")
                .note(beginning(messages))
                .hint("the C compiler's first error names the line in the C file")
        }
        ExternProblem::Missing { func, hidden, near } => {
            let (name, file, span) = of(func);
            let d = Diagnostic::error("E0688", span, format!("`{file}` has no function `{name}`"));
            match (hidden, near) {
                (true, _) => d.label("it is `static` in the C file").hint("leave out `static` there"),
                (false, Some(near)) => d.label("not in the C file").hint(format!("did you mean `{near}`?")),
                (false, None) => d.label("not in the C file").hint("define it there, under the same name"),
            }
        }
        ExternProblem::Twice { func, name, other } => {
            let (_, file, span) = of(func);
            Diagnostic::error("E0689", span, format!("both `{other}` and `{file}` define `{name}` in C"))
                .label("a C file of this function")
                .hint("write `static` before it in one of the files, or give it another name")
        }
        ExternProblem::Undefined { func, name } => {
            let (_, file, span) = of(func);
            Diagnostic::error("E0691", span, format!("`{file}` uses `{name}`, which no C file of the program defines"))
                .label("a C file of this function")
                .hint("define it in the same C file")
        }
        ExternProblem::Types { func, wanted } => {
            let (name, file, span) = of(func);
            Diagnostic::error("E0690", span, format!("`{name}` has other types in `{file}`"))
                .label("types of this program")
                .hint(format!("in the C file it is `{wanted}`"))
        }
    }
}

fn beginning(messages: &str) -> String {
    let lines: Vec<&str> = messages.lines().collect();
    let mut shown = lines.iter().take(MOST_LINES).copied().collect::<Vec<_>>().join("\n");
    if lines.len() > MOST_LINES {
        shown += &format!("\n… and {} more lines", lines.len() - MOST_LINES);
    }
    shown
}
