//! `wireloom build --export`: an app without ports as a static library and a C header.
//!
//! In: a module with exported segments. Out: `libNAME.a` and `NAME.h`. The library has the compiled
//! program, and a function for each segment that runs the segment's handler. Its arguments and
//! results are plain C. An instance is an object of its own (`support/export.h`).

use crate::args::Build;
use crate::load;
use crate::{Failure, Outcome};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use wireloom_codegen_c::export_names::{self, Outer};
use wireloom_codegen_c::{emit, find_compiler, CSource, Options, PrivateFolder, HEADERS};
use wireloom_ir::desc::{ParamType, ParamValue, ResultType};
use wireloom_ir::{Builtin, ExprKind, Module, On, Param, Signal};

const SUPPORT: &str = include_str!("../../../support/export.h");
/// Faults that a segment can end with, by their numbers in the ABI.
const FAULTS: [(&str, u32); 8] = [
    ("malformed", 1),
    ("too_long", 2),
    ("constraint", 4),
    ("index", 5),
    ("division", 6),
    ("none_value", 7),
    ("full", 14),
    ("no_reply", 16),
];

pub fn export(args: &Build) -> Outcome {
    let (_, module) = load::load_both(&args.file)?;
    suits(&module).map_err(Failure::Said)?;
    let folder = args.output.clone().unwrap_or_else(|| PathBuf::from("."));
    let library = Library::new(&module);
    // Nothing is written before all is there.
    let bytes = library.archive(&module, args.portable).map_err(Failure::Said)?;
    let told = |e: std::io::Error| Failure::Said(format!("cannot write to {}: {e}", folder.display()));
    std::fs::create_dir_all(&folder).map_err(told)?;
    let (header, archive) = (folder.join(format!("{}.h", library.name)), folder.join(format!("lib{}.a", library.name)));
    std::fs::write(&header, library.header()).map_err(told)?;
    std::fs::write(&archive, bytes).map_err(told)?;
    eprintln!("wireloom: built {} and {}", archive.display(), header.display());
    Ok(())
}

/// An exported app has segments to call, and needs nothing of the world but memory and time.
fn suits(m: &Module) -> Result<(), String> {
    let app = &m.app;
    if !m.signals.iter().any(|s| s.exported) {
        return Err(format!("app `{app}` exports nothing: write `export segment name(…) {{ … }}`"));
    }
    if let Some(p) = m.ports.first() {
        return Err(format!("app `{app}` has a port (`{}`): what is exported is called, and has no ports", p.name));
    }
    let timer = |h: &&wireloom_ir::Handler| matches!(h.on, On::Every(_) | On::End);
    if let Some(h) = m.handlers.iter().find(timer) {
        return Err(format!("app `{app}` has the handler `{}`: what is exported runs when it is called", h.name));
    }
    let mut cipher = false;
    m.program_exprs(&mut |e, _| {
        wireloom_ir::walk::expr(e, &mut |e| {
            use Builtin::*;
            cipher |= matches!(
                &*e.kind,
                ExprKind::Builtin(
                    AesCtr
                        | AesCbcEncrypt
                        | AesCbcDecrypt
                        | AesGcmSeal
                        | AesGcmOpen
                        | HmacSha1
                        | HmacSha256
                        | Sha1
                        | Sha256
                        | RandomBytes,
                    _
                )
            )
        });
    });
    if cipher {
        return Err(format!("app `{app}` uses ciphers or digests, which an exported library does not have"));
    }
    for p in &m.params {
        if !matches!(p.ty, ParamType::Bool | ParamType::UInt(_) | ParamType::Duration | ParamType::Bytes(_)) {
            return Err(format!(
                "parameter `{}` of app `{app}` is an address: an exported app takes numbers and bytes",
                p.name
            ));
        }
    }
    for s in m.signals.iter().filter(|s| s.exported) {
        if s.args.iter().any(|(_, t)| matches!(t, ParamType::Endpoint | ParamType::Endpoints(_) | ParamType::Texts(..)))
        {
            return Err(format!("segment `{}` takes an address: an exported one takes numbers and bytes", s.name));
        }
    }
    Ok(())
}

/// A segment, and its names in C.
struct Segment<'m> {
    handler: usize,
    signal: &'m Signal,
    name: String,
    /// Of the type of its result, if it needs one.
    result: String,
    args: Vec<String>,
}

struct Library<'m> {
    name: String,
    upper: String,
    module: &'m Module,
    segments: Vec<Segment<'m>>,
    /// Names of the parameters.
    params: Vec<String>,
    /// Those of the error numbers.
    errors: Vec<String>,
}

impl<'m> Library<'m> {
    fn new(module: &'m Module) -> Library<'m> {
        let name = export_names::app(&module.app);
        let upper = name.to_uppercase();
        let handler = |n: usize| module.handlers.iter().position(|h| h.on == On::Signal(n as u32));
        let exported = module.signals.iter().enumerate().filter(|(_, s)| s.exported);
        let exported: Vec<(usize, &Signal)> = exported.filter_map(|(n, s)| Some((handler(n)?, s))).collect();
        let own = ["bytes", "error", "params", "defaults", "open", "close", "wireloom_program"];
        let own = own.iter().map(|o| format!("{name}_{o}"));
        let mut outer = Outer::new(own.chain([name.clone(), format!("{upper}_OK"), format!("{upper}_EXPORT_H")]));
        let errors: Vec<String> =
            numbers(module).iter().map(|(e, ..)| format!("{upper}_{}", e.to_uppercase())).collect();
        let errors = outer.names(&errors);
        let functions: Vec<String> = exported.iter().map(|(_, s)| format!("{name}_{}", s.name)).collect();
        let functions = outer.names(&functions);
        let results: Vec<String> = functions.iter().map(|f| format!("{f}_result")).collect();
        let results = outer.names(&results);
        let segments = exported.into_iter().zip(functions).zip(results).map(|(((handler, signal), f), result)| {
            let bytes = format!("{name}_bytes");
            let args = signal.args.iter().map(|(a, _)| a.as_str());
            let args = export_names::arguments(args, &[&name, &bytes, &result]);
            Segment { handler, signal, name: f, result, args }
        });
        let segments = segments.collect();
        let params = export_names::members(module.params.iter().map(|p| p.name.as_str()));
        Library { name, upper, module, segments, params, errors }
    }

    /// The error numbers with their names and words.
    fn errors(&self) -> impl Iterator<Item = (&String, i64, String)> {
        self.errors.iter().zip(numbers(self.module)).map(|(name, (_, number, text))| (name, number, text))
    }

    fn header(&self) -> String {
        let (n, u) = (&self.name, &self.upper);
        let mut h = format!(
            "/* {n}.h: made by `wireloom build --export`. Link with lib{n}.a.\n *\n\
             * Threads: an instance is used by one thread at a time. Instances share nothing, so each thread may\n\
             * have its own. Nothing is global, nothing is locked, no thread is started.\n *\n\
             * Each segment gives 0 or a number of the enumeration below; {n}_error() names it. A result is\n\
             * written only if it is 0. What was changed before a fault stays changed. Bytes of a result stay\n\
             * until the next call with the instance. */\n\
             #ifndef {u}_EXPORT_H\n#define {u}_EXPORT_H\n#include <stdbool.h>\n#include <stddef.h>\n#include <stdint.h>\n\n\
             #ifdef __cplusplus\nextern \"C\" {{\n#endif\n\n\
             typedef struct {n} {n};\ntypedef struct {n}_bytes {{ const uint8_t *data; size_t size; }} {n}_bytes;\n\n"
        );
        let _ = writeln!(h, "enum {n}_status {{\n    {u}_OK = 0,");
        for (name, number, _) in self.errors() {
            let _ = writeln!(h, "    {name} = {number},");
        }
        let _ = writeln!(h, "}};\n\n/* The words for a status. */\nconst char *{n}_error(int status);\n");
        let _ = writeln!(h, "/* The app's parameters. {n}_defaults() fills in those that have a default. */");
        let _ = writeln!(h, "typedef struct {n}_params {{");
        for (p, name) in self.module.params.iter().zip(&self.params) {
            let _ = writeln!(h, "    {} {name};{}", param_type(n, p.ty), comment(&p.doc));
        }
        if self.module.params.is_empty() {
            let _ = writeln!(h, "    int none;");
        }
        let _ = writeln!(h, "}} {n}_params;\n\nvoid {n}_defaults({n}_params *params);\n");
        let _ = writeln!(h, "/* Makes an instance. `params` may be NULL: the defaults. They are copied. */");
        let _ = writeln!(h, "int {n}_open({n} **instance, const {n}_params *params);");
        let _ = writeln!(h, "/* Ends it; NULL is none. */\nvoid {n}_close({n} *instance);\n");
        for s in &self.segments {
            if let Some(t) = self.result_type(s) {
                h += &t;
            }
            if !s.signal.doc.is_empty() {
                let lines: Vec<String> = s.signal.doc.trim().lines().map(plain).collect();
                let _ = writeln!(h, "/* {} */", lines.join("\n * "));
            }
            let _ = writeln!(h, "{};\n", self.prototype(s));
        }
        let _ = writeln!(h, "#ifdef __cplusplus\n}}\n#endif\n#endif");
        h
    }

    /// The declaration of a segment's result, if it is no plain type.
    fn result_type(&self, s: &Segment) -> Option<String> {
        match &s.signal.result {
            ResultType::Option(_) | ResultType::Record(_) => {
                Some(format!("typedef {} {};\n", c_type(&self.name, &s.signal.result, 0), s.result))
            }
            ResultType::Nothing | ResultType::Bool | ResultType::Int | ResultType::Text => None,
        }
    }

    fn prototype(&self, s: &Segment) -> String {
        let n = &self.name;
        let mut p = format!("int {}({n} *instance", s.name);
        for (name, (_, t)) in s.args.iter().zip(&s.signal.args) {
            let _ = write!(p, ", {} {name}", param_type(n, *t));
        }
        match &s.signal.result {
            ResultType::Nothing => {}
            ResultType::Option(_) | ResultType::Record(_) => {
                let _ = write!(p, ", {} *result", s.result);
            }
            t => {
                let _ = write!(p, ", {} *result", c_type(n, t, 0));
            }
        }
        p + ")"
    }

    /// The functions of the header.
    fn source(&self) -> String {
        let (n, u) = (&self.name, &self.upper);
        let params = &self.module.params;
        let mut c = format!(
            "{}#include \"export.h\"\n\nconst wl_program *{n}_wireloom_program(void);\n\
             struct {n} {{ wl_instance i; }};\n\n",
            self.header()
        );
        let _ = writeln!(
            c,
            "const char *{n}_error(int status) {{\n    switch (status) {{\n    case {u}_OK: return \"ok\";"
        );
        for (name, _, text) in self.errors() {
            let _ = writeln!(c, "    case {name}: return {};", c_string(text.as_bytes()));
        }
        let _ = writeln!(c, "    default: return \"unknown status\";\n    }}\n}}\n");
        let _ = writeln!(c, "void {n}_defaults({n}_params *params) {{\n    memset(params, 0, sizeof *params);");
        for (p, name) in params.iter().zip(&self.params) {
            if let Some(text) = default(n, p) {
                let _ = writeln!(c, "    params->{name} = {text};");
            }
        }
        let _ = writeln!(c, "}}\n\nint {n}_open({n} **instance, const {n}_params *params) {{");
        let _ = writeln!(c, "    {n}_params own;\n    wl_param values[{}];", params.len() + 1);
        let _ = writeln!(c, "    if (!instance) return WL_EXPORT_BAD_ARGUMENT;\n    *instance = NULL;");
        let missing = params.iter().find(|p| p.default.is_none());
        let _ = match missing {
            Some(_) => writeln!(c, "    if (!params) return WL_EXPORT_BAD_ARGUMENT;\n    (void)own;"),
            None => writeln!(c, "    if (!params) {{\n        {n}_defaults(&own);\n        params = &own;\n    }}"),
        };
        let _ = writeln!(c, "    memset(values, 0, sizeof values);");
        for (k, (p, name)) in params.iter().zip(&self.params).enumerate() {
            c += &checked("WL_EXPORT_BAD_ARGUMENT", &format!("params->{name}"), p.ty);
            let _ = writeln!(c, "    values[{k}] = {};", argument(&format!("params->{name}"), p.ty));
        }
        let _ = writeln!(
            c,
            "    {n} *made = ({n} *)wl_export_open({n}_wireloom_program(), values, {});\n    if (!made) return WL_EXPORT_NO_MEMORY;",
            params.len()
        );
        for (h, handler) in self.module.handlers.iter().enumerate() {
            if handler.on == On::Start {
                let _ = writeln!(c, "    {{\n        int fault = wl_export_run(&made->i, {h}, NULL);\n        if (fault) {{\n            wl_export_close(&made->i);\n            return fault;\n        }}\n    }}");
            }
        }
        let _ = writeln!(c, "    *instance = made;\n    return 0;\n}}\n");
        let _ = writeln!(c, "void {n}_close({n} *instance) {{\n    wl_export_close((wl_instance *)instance);\n}}");
        for s in &self.segments {
            c += &self.function(s);
        }
        c
    }

    fn function(&self, segment: &Segment) -> String {
        let (s, handler) = (segment.signal, segment.handler);
        let mut c = format!("\n{} {{\n", self.prototype(segment));
        let _ = writeln!(c, "    wl_param args[{}];", s.args.len() + 1);
        let _ = writeln!(c, "    if (!instance) return WL_EXPORT_BAD_ARGUMENT;\n    memset(args, 0, sizeof args);");
        for (k, (name, (_, t))) in segment.args.iter().zip(&s.args).enumerate() {
            c += &checked("WL_EXPORT_BAD_ARGUMENT", name, *t);
            let _ = writeln!(c, "    args[{k}] = {};", argument(name, *t));
        }
        let _ =
            writeln!(c, "    int fault = wl_export_run(&instance->i, {handler}, args);\n    if (fault) return fault;");
        if s.result != ResultType::Nothing {
            let _ = writeln!(c, "    wl_answer answer = wl_export_answer(&instance->i);\n    if (!result) return 0;");
            if matches!(s.result, ResultType::Option(_) | ResultType::Record(_)) {
                let _ = writeln!(c, "    memset(result, 0, sizeof *result);");
            }
            taken(&mut c, "(*result)", &s.result, 1);
        }
        c + "    return 0;\n}\n"
    }

    /// Compiles the program and the functions, and puts them into an archive: its bytes.
    fn archive(&self, module: &Module, portable: bool) -> Result<Vec<u8>, String> {
        let source = emit(module, &Options::default());
        let scratch = PrivateFolder::new().map_err(|e| format!("cannot make a temporary folder: {e}"))?;
        let work = scratch.path();
        let objects = self.made_in(work, module, &source, portable)?;
        let new = work.join("new.a");
        run(Command::new("ar").arg("rcsD").arg(&new).args(objects))?;
        std::fs::read(&new).map_err(|e| e.to_string())
    }

    fn made_in(&self, work: &Path, module: &Module, source: &CSource, portable: bool) -> Result<Vec<PathBuf>, String> {
        let told = |e: std::io::Error| format!("{}: {e}", work.display());
        let files = HEADERS.iter().copied().chain([("export.h", SUPPORT)]);
        for (name, text) in files {
            std::fs::write(work.join(name), text).map_err(told)?;
        }
        let segments = self.source();
        std::fs::write(work.join("program.c"), &source.text).map_err(told)?;
        std::fs::write(work.join("segments.c"), &segments).map_err(told)?;
        let (cc, _) = find_compiler(None).map_err(|e| e.to_string())?;
        let mut flags: Vec<String> =
            ["-std=c11", "-D_GNU_SOURCE", "-fPIC", "-O2", "-w", "-fno-strict-aliasing", "-c", "-I."]
                .map(String::from)
                .into();
        // Two libraries in one program have no name in common.
        flags.push(format!("-Dwireloom_program={}_wireloom_program", self.name));
        if cc.contains("clang") {
            flags.push("-fbracket-depth=8192".into());
        }
        if !portable {
            flags.push("-march=native".into());
        }
        let each = ["program", "segments"].map(|name| {
            let object = work.join(format!("{}_{name}.o", self.name));
            let mut command = Command::new(&cc);
            command.current_dir(work).args(&flags).arg(format!("{name}.c")).arg("-o").arg(&object);
            let out = command.output().map_err(|e| format!("cannot start {cc}: {e}"))?;
            if !out.status.success() {
                let messages = String::from_utf8_lossy(&out.stderr);
                let text = format!("{}\n/* segments.c */\n{segments}", source.text);
                let both = CSource { text, ..source.clone() };
                return Err(crate::compiler_defect::with_folder(module, &both, &format!("{command:?}"), &messages));
            }
            Ok(object)
        });
        each.into_iter().collect()
    }
}

/// The error numbers: those of the library, of the language, and the app's own.
fn numbers(module: &Module) -> Vec<(String, i64, String)> {
    let own = module.faults.iter().enumerate();
    let own = own.map(|(n, f)| (f.name.clone(), 32 + n as i64, f.doc.trim().replace('\n', " ")));
    let plain = |(name, n): (&str, u32)| (name.to_string(), i64::from(n), format!("fault {name}"));
    [("no_memory".to_string(), -1, "out of memory".to_string()), ("bad_argument".into(), -2, "a bad argument".into())]
        .into_iter()
        .chain(FAULTS.into_iter().map(plain))
        .chain(own.map(|(name, n, doc)| {
            let text = if doc.is_empty() { format!("fault {name}") } else { doc };
            (name, n, text)
        }))
        .collect()
}

fn run(command: &mut Command) -> Result<(), String> {
    let program = command.get_program().to_string_lossy().into_owned();
    let out = command.output().map_err(|e| format!("cannot start {program}: {e}"))?;
    if out.status.success() {
        return Ok(());
    }
    Err(format!("{program} failed:\n{}", String::from_utf8_lossy(&out.stderr)))
}

/// Text that does not end a comment.
fn plain(text: &str) -> String {
    text.replace("*/", "* /").replace("/*", "/ *")
}

fn comment(doc: &str) -> String {
    let doc = plain(&doc.trim().replace('\n', " "));
    if doc.is_empty() {
        String::new()
    } else {
        format!("   /* {doc} */")
    }
}

fn param_type(name: &str, t: ParamType) -> String {
    match t {
        ParamType::Bool => "bool".into(),
        ParamType::UInt(bits) => format!("uint{}_t", u32::from(bits).next_power_of_two().max(8)),
        ParamType::Duration => "uint64_t".into(),
        _ => format!("{name}_bytes"),
    }
}

/// A value as the program takes it.
fn argument(name: &str, t: ParamType) -> String {
    match t {
        ParamType::Bytes(_) => {
            format!("(wl_param){{.u = {name}.size, .b = {{{name}.data, (uint32_t){name}.size, 0}}}}")
        }
        _ => format!("(wl_param){{.u = {name}}}"),
    }
}

/// Leaves with `otherwise` if a value is not of its type.
fn checked(otherwise: &str, name: &str, t: ParamType) -> String {
    match t {
        ParamType::Bytes(most) => {
            format!("    if ({name}.size > {most} || ({name}.size && !{name}.data)) return {otherwise};\n")
        }
        ParamType::UInt(bits) if !bits.is_power_of_two() || bits < 8 => {
            format!("    if ((uint64_t){name} >> {bits}) return {otherwise};\n")
        }
        _ => String::new(),
    }
}

fn default(name: &str, p: &Param) -> Option<String> {
    Some(match p.default.as_ref()? {
        ParamValue::Bool(b) => b.to_string(),
        ParamValue::UInt(n) | ParamValue::Duration(n) => format!("UINT64_C({n})"),
        ParamValue::Bytes(b) => format!("({name}_bytes){{(const uint8_t *){}, {}}}", c_string(b), b.len()),
        ParamValue::Endpoints(_) | ParamValue::Texts(_) => return None,
    })
}

fn c_string(bytes: &[u8]) -> String {
    let text: String = bytes
        .iter()
        .map(|b| match b {
            b'"' | b'\\' | b'?' => format!("\\{}", *b as char),
            0x20..=0x7e => (*b as char).to_string(),
            b => format!("\\{b:03o}"),
        })
        .collect();
    format!("\"{text}\"")
}

fn c_type(name: &str, t: &ResultType, depth: usize) -> String {
    let inner = "    ".repeat(depth + 1);
    let end = "    ".repeat(depth);
    match t {
        ResultType::Nothing => "uint8_t".into(),
        ResultType::Bool => "bool".into(),
        ResultType::Int => "uint64_t".into(),
        ResultType::Text => format!("{name}_bytes"),
        ResultType::Option(t) => {
            format!("struct {{\n{inner}bool there;\n{inner}{} value;\n{end}}}", c_type(name, t, depth + 1))
        }
        ResultType::Record(fields) => {
            let field =
                |(f, (_, t)): (String, &(String, ResultType))| format!("{inner}{} {f};\n", c_type(name, t, depth + 1));
            let fields: String = members(fields).into_iter().zip(fields).map(field).collect();
            format!("struct {{\n{fields}{end}}}")
        }
    }
}

/// The members of a result. Parts of tuples have numbers.
fn members(fields: &[(String, ResultType)]) -> Vec<String> {
    if fields.iter().any(|(f, _)| f.starts_with(|c: char| c.is_ascii_digit())) {
        return fields.iter().map(|(f, _)| format!("part{f}")).collect();
    }
    export_names::members(fields.iter().map(|(f, _)| f.as_str()))
}

/// Statements that take a value from the answer.
fn taken(c: &mut String, to: &str, t: &ResultType, depth: usize) {
    let indent = "    ".repeat(depth);
    let _ = match t {
        ResultType::Nothing => writeln!(c, "{indent}wl_export_text(&answer);"),
        ResultType::Bool => writeln!(c, "{indent}{to} = wl_export_truth(&answer);"),
        ResultType::Int => writeln!(c, "{indent}{to} = wl_export_number(&answer);"),
        ResultType::Text => writeln!(
            c,
            "{indent}{{\n{indent}    wl_bytes b = wl_export_text(&answer);\n{indent}    {to}.data = b.p;\n{indent}    {to}.size = b.n;\n{indent}}}"
        ),
        ResultType::Option(t) => {
            let _ = writeln!(c, "{indent}{to}.there = wl_export_there(&answer);\n{indent}if ({to}.there) {{");
            taken(c, &format!("{to}.value"), t, depth + 1);
            writeln!(c, "{indent}}}")
        }
        ResultType::Record(fields) => {
            for (member, (_, t)) in members(fields).iter().zip(fields) {
                taken(c, &format!("{to}.{member}"), t, depth);
            }
            Ok(())
        }
    };
}
