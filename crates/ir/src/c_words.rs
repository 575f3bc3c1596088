//! Words that mean something to a C compiler before any program says so.

/// Words of C and of its compilers' extensions, and macros of its headers in small letters.
pub const WORDS: &[&str] = &[
    "alignas", "alignof", "asm", "auto", "bool", "break", "case", "char", "const", "constexpr", "continue", "default", "do", "double", "else",
    "enum", "extern", "false", "float", "for", "goto", "if", "inline", "int", "long", "nullptr", "register", "restrict", "return", "short",
    "signed", "sizeof", "static", "static_assert", "struct", "switch", "thread_local", "true", "typedef", "typeof", "typeof_unqual", "union",
    "unsigned", "void", "volatile", "while", "noreturn", "complex", "imaginary",
    "errno", "stdin", "stdout", "stderr", "environ", "assert", "offsetof", "unix", "linux", "i386", "vector", "pixel",
    "st_atime", "st_mtime", "st_ctime", "s6_addr", "s6_addr16", "s6_addr32", "major", "minor", "makedev", "alloca", "strdupa", "strndupa",
    "sa_handler", "sa_sigaction", "main",
];

/// Whether a name is a word of C, or may be a macro of its headers: those have no small letters, or are listed.
pub fn is_c_word(name: &str) -> bool { WORDS.contains(&name) || (name.len() > 1 && !name.bytes().any(|b| b.is_ascii_lowercase())) }
