//! Gives the names of a program to words that mean something to C: keywords, macros of its headers, functions of its library, what
//! compilers define by themselves. In: a program. Out: the same program under other names, each one everywhere.

use super::corpus::Program;
use std::collections::{HashMap, HashSet};
use wireloom_interp::generate::Rng;
use wireloom_syntax::ast::FileId;
use wireloom_syntax::lexer;

/// None of them is a word of Wireloom.
const C_NAMES: &[&str] = &[
    "int", "char", "short", "long", "float", "double", "void", "signed", "unsigned", "struct", "union", "typedef", "sizeof", "goto", "do", "while", "auto",
    "register", "volatile", "restrict", "inline", "static", "asm", "typeof", "alignas", "alignof", "nullptr", "constexpr", "noreturn", "complex",
    "NULL", "EOF", "BUFSIZ", "EXIT_FAILURE", "INT_MAX", "UINT8_MAX", "UINT64_C", "SIGTERM", "INFINITY", "CHAR_BIT", "_GNU_SOURCE", "__FILE__", "__LINE__",
    "errno", "stdin", "stdout", "stderr", "environ", "assert", "offsetof", "unix", "linux", "i386", "major", "minor", "makedev", "alloca", "main",
    "memcpy", "memset", "memcmp", "memchr", "strlen", "malloc", "free", "abort", "exit", "printf", "puts", "abs", "div", "rand", "qsort", "fork", "signal",
    "select", "sleep", "usleep", "index", "rindex", "ffs", "pow", "sin", "y0", "j1", "gamma", "remainder", "clock", "gets", "ungetc",
    "uint8_t", "uint32_t", "size_t", "ssize_t", "pid_t", "va_list", "FILE", "wl_fx", "wl_bytes", "wl_core", "app_state", "vector", "s6_addr", "st_mtime", "sa_handler",
];

/// Words of Wireloom that the library may not have.
const WORDS: &[&str] = &[
    "session", "limiter", "meter", "rate", "burst", "cir", "cbs", "pir", "pbs", "queue", "depth", "instances", "take", "mark", "push", "pop", "merge", "greet",
    "every", "signal", "start", "end", "opened", "closed", "fault", "global", "cache", "evict", "lru", "steer", "broadcast", "tee", "publish", "subscribe",
    "where", "within", "hold", "expect", "nothing", "cancelled", "extern", "sketch", "bloom", "count_min", "hyper_log_log", "ring", "lpm", "wildcard", "array", "exact",
    "estimate", "add", "insert", "delete", "remove", "append", "update", "modula", "maglev", "ketama", "udp", "tcp", "nic", "pcap", "tun", "tap", "kernel", "memory",
];

/// A program's words with their places.
fn words(text: &str) -> Vec<(usize, &str)> {
    let tokens = lexer::lex(FileId(0), text, &mut Vec::new()).tokens;
    let word = |from: usize, to: usize| text.get(from..to).filter(|w| w.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')).map(|w| (from, w));
    tokens.iter().filter_map(|t| word(t.span.start as usize, t.span.end as usize)).collect()
}

pub struct Renamer {
    /// Words of the language and of the library.
    taken: HashSet<String>,
    pub rng: Rng,
}

impl Renamer {
    pub fn new(programs: &[Program], seed: u64) -> Renamer {
        let library = programs.iter().filter(|p| p.name.starts_with("std."));
        let mut taken: HashSet<String> = library.flat_map(|p| words(&p.text)).map(|(_, w)| w.to_string()).collect();
        taken.extend(WORDS.iter().map(|w| w.to_string()));
        Renamer { taken, rng: Rng(seed) }
    }

    /// The program with all names that are its own exchanged, and how many those are.
    pub fn renamed(&mut self, program: &Program) -> (String, usize) {
        let words = words(&program.text);
        let there: HashSet<&str> = words.iter().map(|(_, w)| *w).collect();
        let mut free: Vec<&str> = C_NAMES.iter().copied().filter(|c| !self.taken.contains(*c) && !there.contains(c)).collect();
        let mut names: HashMap<&str, &str> = HashMap::new();
        for (_, w) in &words {
            if free.is_empty() || *w == "_" || self.taken.contains(*w) || names.contains_key(w) {
                continue;
            }
            let i = self.rng.below(free.len() as u64) as usize;
            names.insert(w, free.swap_remove(i));
        }
        let (mut out, mut end) = (String::with_capacity(program.text.len()), 0);
        for (at, w) in words {
            out.push_str(&program.text[end..at]);
            out.push_str(names.get(w).unwrap_or(&w));
            end = at + w.len();
        }
        out.push_str(&program.text[end..]);
        (out, names.len())
    }
}
