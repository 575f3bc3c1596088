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
    let told = |e: std::io::Error| Failure::Said(format!("cannot write to {}: {e}", folder.display()));
    std::fs::create_dir_all(&folder).map_err(told)?;
    let header = folder.join(format!("{}.h", library.name));
    std::fs::write(&header, library.header()).map_err(told)?;
    let archive = library.archive(&module, &folder, args.portable).map_err(Failure::Said)?;
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

struct Library<'m> {
    name: String,
    upper: String,
    module: &'m Module,
    segments: Vec<(usize, &'m Signal)>,
}

impl<'m> Library<'m> {
    fn new(module: &'m Module) -> Library<'m> {
        let name = module.app.clone();
        let handler = |n: usize| module.handlers.iter().position(|h| h.on == On::Signal(n as u32));
        let segments = module.signals.iter().enumerate().filter(|(_, s)| s.exported);
        let segments = segments.filter_map(|(n, s)| Some((handler(n)?, s))).collect();
        Library { upper: name.to_uppercase(), name, module, segments }
    }

    /// The error numbers: those of the library, of the language, and the app's own.
    fn errors(&self) -> Vec<(String, i64, String)> {
        let own = self.module.faults.iter().enumerate();
        let own = own.map(|(n, f)| (f.name.clone(), 32 + n as i64, f.doc.trim().replace('\n', " ")));
        let plain = |(name, n): (&str, u32)| (name.to_string(), i64::from(n), format!("fault {name}"));
        [
            ("no_memory".to_string(), -1, "out of memory".to_string()),
            ("bad_argument".into(), -2, "a bad argument".into()),
        ]
        .into_iter()
        .chain(FAULTS.into_iter().map(plain))
        .chain(own.map(|(name, n, doc)| {
            let text = if doc.is_empty() { format!("fault {name}") } else { doc };
            (name, n, text)
        }))
        .collect()
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
            let _ = writeln!(h, "    {u}_{} = {number},", name.to_uppercase());
        }
        let _ = writeln!(h, "}};\n\n/* The words for a status. */\nconst char *{n}_error(int status);\n");
        let _ = writeln!(h, "/* The app's parameters. {n}_defaults() fills in those that have a default. */");
        let _ = writeln!(h, "typedef struct {n}_params {{");
        for p in &self.module.params {
            let _ = writeln!(h, "    {} {};{}", param_type(n, p.ty), p.name, comment(&p.doc));
        }
        if self.module.params.is_empty() {
            let _ = writeln!(h, "    int none;");
        }
        let _ = writeln!(h, "}} {n}_params;\n\nvoid {n}_defaults({n}_params *params);\n");
        let _ = writeln!(h, "/* Makes an instance. `params` may be NULL: the defaults. They are copied. */");
        let _ = writeln!(h, "int {n}_open({n} **instance, const {n}_params *params);");
        let _ = writeln!(h, "/* Ends it; NULL is none. */\nvoid {n}_close({n} *instance);\n");
        for (_, s) in &self.segments {
            if let Some(t) = self.result_type(s) {
                h += &t;
            }
            if !s.doc.is_empty() {
                let _ = writeln!(h, "/* {} */", s.doc.trim().replace('\n', "\n * "));
            }
            let _ = writeln!(h, "{};\n", self.prototype(s));
        }
        let _ = writeln!(h, "#ifdef __cplusplus\n}}\n#endif\n#endif");
        h
    }

    /// The declaration of a segment's result, if it is no plain type.
    fn result_type(&self, s: &Signal) -> Option<String> {
        match &s.result {
            ResultType::Option(_) | ResultType::Record(_) => {
                Some(format!("typedef {} {}_{}_result;\n", c_type(&self.name, &s.result, 0), self.name, s.name))
            }
            _ => None,
        }
    }

    fn prototype(&self, s: &Signal) -> String {
        let n = &self.name;
        let mut p = format!("int {n}_{}({n} *instance", s.name);
        for (name, t) in &s.args {
            let _ = write!(p, ", {} {name}", param_type(n, *t));
        }
        match &s.result {
            ResultType::Nothing => {}
            ResultType::Option(_) | ResultType::Record(_) => {
                let _ = write!(p, ", {n}_{}_result *result", s.name);
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
            "#include \"{n}.h\"\n#include \"export.h\"\n\nconst wl_program *{n}_wireloom_program(void);\n\
             struct {n} {{ wl_instance i; }};\n\n"
        );
        let _ = writeln!(
            c,
            "const char *{n}_error(int status) {{\n    switch (status) {{\n    case {u}_OK: return \"ok\";"
        );
        for (name, _, text) in self.errors() {
            let _ = writeln!(c, "    case {u}_{}: return {};", name.to_uppercase(), c_string(text.as_bytes()));
        }
        let _ = writeln!(c, "    default: return \"unknown status\";\n    }}\n}}\n");
        let _ = writeln!(c, "void {n}_defaults({n}_params *params) {{\n    memset(params, 0, sizeof *params);");
        for p in params {
            if let Some(text) = default(n, p) {
                let _ = writeln!(c, "    params->{} = {text};", p.name);
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
        for (k, p) in params.iter().enumerate() {
            c += &checked("WL_EXPORT_BAD_ARGUMENT", &format!("params->{}", p.name), p.ty);
            let _ = writeln!(c, "    values[{k}] = {};", argument(&format!("params->{}", p.name), p.ty));
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
        for (handler, s) in &self.segments {
            c += &self.function(*handler, s);
        }
        c
    }

    fn function(&self, handler: usize, s: &Signal) -> String {
        let mut c = format!("\n{} {{\n", self.prototype(s));
        let _ = writeln!(c, "    wl_param args[{}];", s.args.len() + 1);
        let _ = writeln!(c, "    if (!instance) return WL_EXPORT_BAD_ARGUMENT;\n    memset(args, 0, sizeof args);");
        for (k, (name, t)) in s.args.iter().enumerate() {
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

    /// Compiles the program and the functions, and puts them into an archive.
    fn archive(&self, module: &Module, folder: &Path, portable: bool) -> Result<PathBuf, String> {
        let source = emit(module, &Options::default());
        let scratch = PrivateFolder::new().map_err(|e| format!("cannot make a temporary folder: {e}"))?;
        let work = scratch.path();
        let made = self.made_in(work, &source, portable);
        let archive = folder.join(format!("lib{}.a", self.name));
        made.and_then(|objects| {
            let new = work.join("new.a");
            run(Command::new("ar").arg("rcsD").arg(&new).args(objects))?;
            let bytes = std::fs::read(&new).map_err(|e| e.to_string())?;
            std::fs::write(&archive, bytes).map_err(|e| format!("cannot write {}: {e}", archive.display()))
        })?;
        Ok(archive)
    }

    fn made_in(&self, work: &Path, source: &CSource, portable: bool) -> Result<Vec<PathBuf>, String> {
        let told = |e: std::io::Error| format!("{}: {e}", work.display());
        let files = HEADERS.iter().copied().chain([("export.h", SUPPORT)]);
        for (name, text) in files {
            std::fs::write(work.join(name), text).map_err(told)?;
        }
        std::fs::write(work.join(format!("{}.h", self.name)), self.header()).map_err(told)?;
        std::fs::write(work.join("program.c"), &source.text).map_err(told)?;
        std::fs::write(work.join("segments.c"), self.source()).map_err(told)?;
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
            run(Command::new(&cc).current_dir(work).args(&flags).arg(format!("{name}.c")).arg("-o").arg(&object))?;
            Ok(object)
        });
        each.into_iter().collect()
    }
}

fn run(command: &mut Command) -> Result<(), String> {
    let program = command.get_program().to_string_lossy().into_owned();
    let out = command.output().map_err(|e| format!("cannot start {program}: {e}"))?;
    if out.status.success() {
        return Ok(());
    }
    Err(format!("{program} failed:\n{}", String::from_utf8_lossy(&out.stderr)))
}

fn comment(doc: &str) -> String {
    let doc = doc.trim().replace('\n', " ");
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
            let fields: String =
                fields.iter().map(|(f, t)| format!("{inner}{} {};\n", c_type(name, t, depth + 1), field(f))).collect();
            format!("struct {{\n{fields}{end}}}")
        }
    }
}

/// Parts of tuples have numbers.
fn field(name: &str) -> String {
    if name.starts_with(|c: char| c.is_ascii_digit()) {
        format!("part{name}")
    } else {
        name.to_string()
    }
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
            for (f, t) in fields {
                taken(c, &format!("{to}.{}", field(f)), t, depth);
            }
            Ok(())
        }
    };
}
