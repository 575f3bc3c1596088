//! The C files of `extern` functions, looked at before the program is compiled.
//!
//! In: a module. Out: what keeps its functions in C from being called, each with its function. The
//! C compiler compiles each file by itself. The names that the object defines are the functions
//! that can be called. Behind the file the types are compared with those of the program. Types with
//! a form of their own in generated code (records, lists, …) are not compared.

use crate::compile::{find_compiler, folder, of_no_use, CompileError, CompileOptions, Job};
use crate::compile_cache::unique;
use crate::types::int_width;
use crate::CSource;
use object::{Object, ObjectSymbol};
use std::collections::{BTreeMap, HashMap};
use std::ffi::CString;
use std::path::{Path, PathBuf};
use wireloom_ir::{suggestions, FuncBody, FuncId, Module, Ty, TyId};

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ExternProblem {
    /// The C compiler refuses the file; its messages.
    Refused { func: FuncId, messages: String },
    /// The file has no function of this name that others may call. `hidden`: it is `static` there.
    /// `near`: a similar name.
    Missing { func: FuncId, hidden: bool, near: Option<String> },
    /// The name is defined by two files.
    Twice { func: FuncId, name: String, other: String },
    /// The file uses a name that no file of the program defines.
    Undefined { func: FuncId, name: String },
    /// The function has other types; those that it should have.
    Types { func: FuncId, wanted: String },
}

/// The name of the text that compares the types, in the compiler's messages.
const COMPARED: &str = "wireloom-types";

/// The obstacles to calls of the functions in C. An error: there is no compiler, or it cannot
/// be run.
pub fn extern_problems(m: &Module, options: &CompileOptions) -> Result<Vec<ExternProblem>, CompileError> {
    match problems(m, options) {
        Err(e) if of_no_use(&options.cache_dir, &e).is_some() => {
            problems(m, &CompileOptions { cache_dir: PathBuf::new(), ..options.clone() })
        }
        found => found,
    }
}

fn problems(m: &Module, options: &CompileOptions) -> Result<Vec<ExternProblem>, CompileError> {
    let mut files: BTreeMap<&str, Vec<(FuncId, &str)>> = BTreeMap::new();
    for (n, f) in m.funcs.iter().enumerate() {
        if let FuncBody::Extern { file, symbol } = &f.body {
            files.entry(file).or_default().push((FuncId(n as u32), symbol));
        }
    }
    if files.is_empty() {
        return Ok(Vec::new());
    }
    let (cc, _) = find_compiler(options.cc.as_deref())?;
    let (folder, _) = folder(options)?;
    let source = CSource {
        name: "extern".into(),
        externs: files.keys().map(ToString::to_string).collect(),
        extern_names: files.values().flatten().map(|(_, symbol)| symbol.to_string()).collect(),
        ..CSource::default()
    };
    let job = Job::new(&cc, &source, options, &folder)?;
    job.write_headers()?;
    let signatures = signatures(m);
    let files: Vec<CFile> = job
        .externs
        .iter()
        .zip(&files)
        .map(|(path, (file, funcs))| CFile { job: &job, path, file, funcs, signatures: &signatures })
        .collect();
    let (mut problems, mut objects) = (Vec::new(), Vec::new());
    for file in &files {
        match file.object("") {
            Ok(object) => objects.push((file, names(&object))),
            // The compiler also fails where its output finds no room.
            Err(e) if of_no_use(&options.cache_dir, &e).is_some() => return Err(e),
            Err(CompileError::Failed { messages, .. }) => {
                problems.push(ExternProblem::Refused { func: file.first(), messages })
            }
            Err(e) => return Err(e),
        }
    }
    if problems.is_empty() {
        problems.extend(linked(&objects));
    }
    for (file, names) in &objects {
        file.functions(names, &mut problems)?;
    }
    Ok(problems)
}

/// The obstacles to linking the objects with each other.
fn linked(objects: &[(&CFile, Vec<Name>)]) -> Vec<ExternProblem> {
    let (mut found, mut owners) = (Vec::new(), HashMap::new());
    for (file, names) in objects {
        for n in names.iter().filter(|n| n.kind == Kind::Strong) {
            if let Some(other) = owners.insert(n.name.as_str(), file.file) {
                found.push(ExternProblem::Twice { func: file.first(), name: n.name.clone(), other: other.to_string() });
            }
        }
    }
    let somewhere = |name: &str| objects.iter().any(|(_, n)| n.iter().any(|n| n.is_global() && n.name == name));
    for (file, names) in objects {
        for n in names.iter().filter(|n| n.kind == Kind::Undefined && !somewhere(&n.name) && !in_process(&n.name)) {
            found.push(ExternProblem::Undefined { func: file.first(), name: n.name.clone() });
        }
    }
    found
}

/// Whether the libraries of this process have a name, as those of the program will. Names with two
/// underscores are the compiler's own.
fn in_process(name: &str) -> bool {
    let Ok(c) = CString::new(name) else { return false };
    // SAFETY: a C string; the address is not used.
    name.starts_with("__")
        || name == "_GLOBAL_OFFSET_TABLE_"
        || !unsafe { libc::dlsym(libc::RTLD_DEFAULT, c.as_ptr()) }.is_null()
}

struct CFile<'a> {
    job: &'a Job<'a>,
    path: &'a Path,
    file: &'a str,
    funcs: &'a [(FuncId, &'a str)],
    signatures: &'a HashMap<FuncId, Signature>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Strong,
    /// The linker may choose another one of the name.
    Weak,
    /// Of the file alone.
    Local,
    Undefined,
}

/// A name in an object's symbol table.
struct Name {
    name: String,
    kind: Kind,
}

impl Name {
    fn is_global(&self) -> bool {
        matches!(self.kind, Kind::Strong | Kind::Weak)
    }
}

impl CFile<'_> {
    fn first(&self) -> FuncId {
        self.funcs[0].0
    }

    /// The mistakes in the functions of the file.
    fn functions(&self, names: &[Name], found: &mut Vec<ExternProblem>) -> Result<(), CompileError> {
        let mut compared = Vec::new();
        for (func, symbol) in self.funcs {
            if names.iter().any(|n| n.name == *symbol && n.is_global()) {
                compared.extend(self.signatures.get(func).map(|s| (*func, *symbol, s)));
                continue;
            }
            let hidden = names.iter().any(|n| n.name == *symbol && n.kind == Kind::Local);
            let known = names.iter().filter(|n| n.is_global()).map(|n| n.name.as_str());
            let near = suggestions::nearest(symbol, known).map(str::to_string);
            found.push(ExternProblem::Missing { func: *func, hidden, near });
        }
        found.extend(self.compare(&compared)?);
        Ok(())
    }

    /// The file as an object, with a text behind it.
    fn object(&self, behind: &str) -> Result<Vec<u8>, CompileError> {
        let (c, out) = (format!("extern-{}.c", unique()), format!("extern-{}.o", unique()));
        let job = self.job;
        let mut command = job.extern_command(&out);
        let done = if behind.is_empty() {
            job.run(command.arg(self.path))
        } else {
            job.folder.write(&c, behind.as_bytes()).map_err(|e| job.io(&c, e))?;
            // All of the comparisons that fail are told.
            if job.cc.contains("clang") {
                command.arg("-ferror-limit=0");
            }
            job.run(command.arg("-include").arg(self.path).arg(&c))
        };
        let object = job.folder.read(&out);
        job.folder.remove(&c);
        job.folder.remove(&out);
        done?;
        object.and_then(|o| o.ok_or_else(|| std::io::ErrorKind::NotFound.into())).map_err(|e| job.io(&out, e))
    }

    /// Compares types: each function has a line of its own, which an error of the compiler names.
    fn compare(&self, funcs: &[(FuncId, &str, &Signature)]) -> Result<Vec<ExternProblem>, CompileError> {
        if funcs.is_empty() {
            return Ok(Vec::new());
        }
        let mut text = String::from("#include <stdbool.h>\n#include <stdint.h>\n#include \"wireloom.h\"\n");
        for (n, (_, symbol, signature)) in funcs.iter().enumerate() {
            let types =
                signature.accepted().map(|t| format!("__builtin_types_compatible_p(__typeof__({symbol}), {t})"));
            let one = types.join(" || ");
            text += &format!("#undef {symbol}\n#line {} \"{COMPARED}\"\n_Static_assert({one}, \"\");\n", n + 1);
        }
        let messages = match self.object(&text) {
            Ok(_) => return Ok(Vec::new()),
            Err(CompileError::Failed { messages, .. }) => messages,
            Err(e) => return Err(e),
        };
        let of_line = |n: usize| messages.lines().any(|l| l.starts_with(&format!("{COMPARED}:{}:", n + 1)));
        let differs = funcs.iter().enumerate().filter(|(n, _)| of_line(*n));
        Ok(differs
            .map(|(_, (func, symbol, s))| ExternProblem::Types { func: *func, wanted: s.declaration(symbol) })
            .collect())
    }
}

/// The names in an object's symbol table.
fn names(object: &[u8]) -> Vec<Name> {
    let Ok(file) = object::File::parse(object) else { return Vec::new() };
    let kind = |s: &object::Symbol| match s {
        // One that may be missing is no use of it.
        s if s.is_undefined() => (!s.is_weak() && !s.name().unwrap_or("").is_empty()).then_some(Kind::Undefined),
        s if !(s.is_definition() || s.is_common()) => None,
        s if !s.is_global() => Some(Kind::Local),
        s if s.is_weak() || s.is_common() => Some(Kind::Weak),
        _ => Some(Kind::Strong),
    };
    file.symbols().filter_map(|s| Some(Name { name: s.name().ok()?.to_string(), kind: kind(&s)? })).collect()
}

/// The types of a function as C has them.
struct Signature {
    result: String,
    params: Vec<String>,
}

impl Signature {
    fn with(&self, change: impl Fn(&str) -> String) -> String {
        let params: Vec<String> = self.params.iter().map(|p| change(p)).collect();
        format!("{} ({})", change(&self.result), if params.is_empty() { "void".into() } else { params.join(", ") })
    }

    /// Numbers of 64 bits have two types in C that are the same to a caller.
    fn accepted(&self) -> [String; 2] {
        let other = |t: &str| match t {
            "uint64_t" => "unsigned long long".to_string(),
            "int64_t" => "long long".to_string(),
            t => t.to_string(),
        };
        [self.with(str::to_string), self.with(other)]
    }

    fn declaration(&self, name: &str) -> String {
        let params = if self.params.is_empty() { "void".to_string() } else { self.params.join(", ") };
        format!("{} {name}({params})", self.result)
    }
}

/// The types of the functions in C that are called, where all of them can be compared.
fn signatures(m: &Module) -> HashMap<FuncId, Signature> {
    let mut found = HashMap::new();
    for call in crate::in_c::calls(m) {
        let func = &m.funcs[call.func.index()];
        let given = call.given.iter().map(|t| Some(t.to_string()));
        let params: Option<Vec<String>> = given.chain(call.args.iter().map(|t| c_type(m, *t))).collect();
        let result = if *m.ty(func.ret) == Ty::Unit { Some("void".into()) } else { c_type(m, func.ret) };
        if let (Some(params), Some(result)) = (params, result) {
            found.insert(call.func, Signature { result, params });
        }
    }
    found
}

/// A type that C files have, too.
fn c_type(m: &Module, ty: TyId) -> Option<String> {
    Some(match m.ty(ty) {
        Ty::Bool => "bool".into(),
        Ty::UInt(bits) if *bits > 64 => "unsigned __int128".into(),
        Ty::UInt(bits) => format!("uint{}_t", int_width(*bits)),
        Ty::Int(bits) => format!("int{}_t", int_width(*bits)),
        Ty::Bytes(_) => "wl_bytes".into(),
        Ty::Endpoint => "wl_endpoint".into(),
        Ty::Ip => "wl_ip".into(),
        Ty::Unit | Ty::Msg(_) | Ty::Option(_) | Ty::List(..) | Ty::Record(_) | Ty::Tuple(_) => return None,
    })
}
