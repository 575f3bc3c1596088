//! Names of an exported library. In: the names of an app, its segments, arguments, fields,
//! parameters and faults. Out: a name in C for each.
//!
//! A name stays as it is, unless C, C++, their headers or the library itself need it. Then it gets
//! `_` at its end, as often as it takes. Names that stay come first, so that none of them changes
//! for another's sake. All names of a scope differ.

use std::collections::HashSet;
use wireloom_ir::c_words::WORDS;

/// Words of C++ that are no words of C.
const CPP: &str = "and and_eq bitand bitor catch char16_t char32_t char8_t class co_await co_return co_yield compl \
    concept const_cast consteval constinit decltype delete dynamic_cast explicit export friend mutable namespace new \
    noexcept not not_eq operator or or_eq private protected public reinterpret_cast requires static_cast template \
    this throw try typeid typename using virtual wchar_t xor xor_eq";

/// Macros with capitals of the headers that a library, or what it is linked with, includes.
const MACROS: &str = "BUFSIZ CHAR_BIT CHAR_MAX CHAR_MIN CLOCKS_PER_SEC CLOCK_MONOTONIC CLOCK_REALTIME EOF \
    EXIT_FAILURE EXIT_SUCCESS FILENAME_MAX FOPEN_MAX INT_MAX INT_MIN LONG_MAX LONG_MIN L_tmpnam MB_CUR_MAX NULL \
    PATH_MAX P_tmpdir RAND_MAX SCHAR_MAX SCHAR_MIN SEEK_CUR SEEK_DATA SEEK_END SEEK_HOLE SEEK_SET SHRT_MAX SHRT_MIN \
    TIMER_ABSTIME TIME_UTC TMP_MAX UCHAR_MAX UINT_MAX ULONG_MAX USHRT_MAX";

/// Types and functions of the C library, and of POSIX.
const LIBRARY: &str = "FILE DIR abort abs accept access acos aio_error aio_read aio_write alarm aligned_alloc asin \
    asprintf atan atexit atof atoi atol basename bcmp bcopy bind brk bsearch bzero calloc cbrt ceil chdir chmod chown \
    clearerr clock clock_getres clock_gettime clock_nanosleep clock_settime clock_t clockid_t close closedir connect \
    copysign cos cosh creat ctermid ctime cuserid daemon daylight difftime dirname div div_t dprintf dup erf exec \
    execv exit exp fabs fchmod fclose fcntl fdopen feof ferror fflush ffs fgetc fgets fileno floor fmax fmemopen fmin \
    fmod fopen fork fprintf fputc fputs fread free freopen frexp fscanf fseek fsync ftell ftruncate fwrite gamma getc \
    getchar getcwd getdate getdelim getegid getenv geteuid getgid getline getlogin getopt getpid getppid getpw getpwent \
    getrandom gets getsubopt getuid getw gmtime gsignal hypot index inet_addr inet_aton inet_ntoa inet_ntop inet_pton \
    int16_t int32_t int64_t int8_t intmax_t intptr_t ioctl isalpha isatty iscntrl isdigit ispunct isspace j0 j1 jn kill \
    killpg labs lchown ldexp ldiv lgamma link listen localtime log logb lrand48 lseek malloc max_align_t mbstate_t \
    memccpy memchr memcmp memcpy memfrob memmem memmove memset mkdir mkfifo mktime mlock mmap modf mprotect mq_close \
    mq_open mq_receive mq_send mremap msync munmap nan nanosleep nice off_t open open_memstream opendir pause pclose \
    perror pid_t pipe poll popen posix_memalign pow ppoll pread printf psignal pthread_cancel pthread_create \
    pthread_detach pthread_exit pthread_join pthread_kill pthread_once pthread_self ptrdiff_t putc putchar putenv puts \
    pwrite qsort quick_exit raise rand random read readdir readlink realloc realpath recv regcomp remainder remove \
    rename rewind rindex rint rmdir round sbrk scanf sched_yield seed48 select sem_close sem_destroy sem_getvalue \
    sem_init sem_open sem_post sem_t sem_unlink sem_wait send setbuf setenv setgid setuid shm_open shm_unlink shutdown \
    sigaction sigevent signal sin sinh size_t sleep snprintf socket sprintf sqrt srand ssize_t stat strcat strchr \
    strcmp strcpy strdup strerror strlen strsep strstr strtok strtol swab symlink sync syscall sysconf system \
    syslog tan tanh tempnam time time_t timer_create timer_delete timer_settime timespec timespec_get timezone tm \
    tmpfile tmpnam toascii tolower toupper trunc truncate ttyname tzname tzset uint16_t uint32_t uint64_t uint8_t \
    uintmax_t uintptr_t ulong umask uname uint ungetc unlink unsetenv ushort usleep utime vprintf wait waitpid wctomb \
    write y0 y1 yn";

/// Apps of these names would have files that hide those of the system (`string.h`, `libm.a`), or
/// functions of the C library (`sem_open`).
const FILES: &str = "aio assert c complex crypt ctype dirent dl elf errno fcntl fenv float gcc inttypes iso646 libgen \
    limits locale m malloc math mq netdb poll pthread pwd regex resolv rt sched sem semaphore setjmp shm \
    signal spawn stdalign stdarg stdatomic stdbool stddef stdint stdio stdlib stdnoreturn string strings \
    syslog termios tgmath time uchar ucontext unistd util utime utmp wchar wctype wordexp";

/// Names of arguments and locals in functions of `segments.c`.
const INSIDE: [&str; 9] = ["instance", "result", "args", "fault", "answer", "params", "own", "values", "made"];

fn lists(list: &str, name: &str) -> bool {
    list.split_ascii_whitespace().any(|word| word == name)
}

/// Nothing may have such a name.
fn is_word(name: &str) -> bool {
    WORDS.contains(&name) || lists(CPP, name) || lists(MACROS, name) || is_limit(name)
}

/// A macro of `stdint.h`: `INT8_MAX`, `UINT_LEAST32_WIDTH`, `SIZE_MAX`.
fn is_limit(name: &str) -> bool {
    let Some((of, what)) = name.rsplit_once('_') else { return false };
    let sized = |of: &str| {
        let size = of.strip_prefix("UINT").or_else(|| of.strip_prefix("INT"));
        let size = size.map(|s| s.strip_prefix("_LEAST").or_else(|| s.strip_prefix("_FAST")).unwrap_or(s));
        size.is_some_and(|s| matches!(s, "8" | "16" | "32" | "64" | "MAX" | "PTR"))
    };
    matches!(what, "MAX" | "MIN" | "C" | "WIDTH")
        && (sized(of) || matches!(of, "SIZE" | "SSIZE" | "PTRDIFF" | "WCHAR" | "WINT" | "SIG_ATOMIC"))
}

/// Names of the runtime's own headers.
fn is_ours(name: &str) -> bool {
    name == "wl" || name.starts_with("wl_")
}

/// The app's name in C. Names of its library begin with it.
pub fn app(name: &str) -> String {
    let taken = |n: &str| {
        is_word(n)
            || [LIBRARY, FILES].iter().any(|list| lists(list, n))
            || INSIDE.contains(&n)
            || n == "export"
            || is_ours(n)
    };
    if taken(name) {
        format!("{name}_")
    } else {
        name.to_string()
    }
}

/// Names at the top of a library's header: they share one scope with those of the C library.
pub struct Outer(HashSet<String>);

impl Outer {
    pub fn new(own: impl IntoIterator<Item = String>) -> Outer {
        Outer(own.into_iter().collect())
    }

    /// A name for each of these.
    pub fn names(&mut self, wanted: &[String]) -> Vec<String> {
        unique(wanted, &mut self.0, |n| is_word(n) || lists(LIBRARY, n))
    }
}

/// The names of fields, or of parameters.
pub fn members<'a>(names: impl IntoIterator<Item = &'a str>) -> Vec<String> {
    let wanted: Vec<String> = names.into_iter().map(str::to_string).collect();
    unique(&wanted, &mut HashSet::new(), is_word)
}

/// The names of a function's arguments. `types`: those in its prototype.
pub fn arguments<'a>(names: impl IntoIterator<Item = &'a str>, types: &[&str]) -> Vec<String> {
    let wanted: Vec<String> = names.into_iter().map(str::to_string).collect();
    unique(&wanted, &mut HashSet::new(), |n| {
        is_word(n) || lists(LIBRARY, n) || is_ours(n) || INSIDE.contains(&n) || types.contains(&n)
    })
}

/// Names for these that are in no other use.
fn unique(wanted: &[String], taken: &mut HashSet<String>, is_taken: impl Fn(&str) -> bool) -> Vec<String> {
    let mut free = |n: &str| !is_taken(n) && taken.insert(n.to_string());
    let mut names: Vec<Option<String>> = wanted.iter().map(|n| free(n).then(|| n.clone())).collect();
    for (name, wanted) in names.iter_mut().zip(wanted).filter(|(name, _)| name.is_none()) {
        let mut other = format!("{wanted}_");
        while !free(&other) {
            other.push('_');
        }
        *name = Some(other);
    }
    names.into_iter().flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(names: &[&str]) -> Vec<String> {
        members(names.iter().copied())
    }

    #[test]
    fn names_differ_and_stay_where_they_can() {
        assert_eq!(of(&["int", "int_", "x", "class", "NULL", "TTL"]), ["int__", "int_", "x", "class_", "NULL_", "TTL"]);
        assert_eq!(of(&["new", "new_", "new__"]), ["new___", "new_", "new__"]);
        assert_eq!(arguments(["instance", "n", "a_bytes"], &["a_bytes"]), ["instance_", "n", "a_bytes_"]);
        let mut outer = Outer::new(["a_open".to_string()]);
        assert_eq!(outer.names(&["a_open".into(), "a_x".into()]), ["a_open_", "a_x"]);
        assert_eq!(
            outer.names(&["a_open".into(), "a_open_".into(), "INT8_MAX".into()]),
            ["a_open__", "a_open___", "INT8_MAX_"]
        );
        let renamed = ["int", "class", "time", "wl", "sem", "string"].map(app);
        assert_eq!(renamed, ["int_", "class_", "time_", "wl_", "sem_", "string_"]);
        assert_eq!(app("top_users"), "top_users");
    }
}
