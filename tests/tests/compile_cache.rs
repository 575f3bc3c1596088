//! The folder of compiled programs runs nothing that others put there, and nothing that is damaged.

use std::os::unix::fs::{chown, symlink, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};
use wireloom_tests::folder::{gone, left_behind, Folder};
use wireloom_tests::{free_port, Output, Process, Wireloom};

const SOURCE: &str = "extern fn seven(x: u32) -> u32 from \"seven.c\"\nunit L { a: u8 }\n\
    protocol p { stateless  request L  response L  order in_order  sharing pipelined }\n\
    app a { port c = listen tcp(7997) as p\n on c(req) { reply L { a: req.a } } }\ntest \"code\" { expect seven(3) == 10 }\n";

const UNSAFE: &str = "compiled programs are not kept";

/// A program that calls C, which includes a header, and a folder for compiled programs.
struct Setting {
    folder: Folder,
}

impl Setting {
    fn new(name: &str) -> Setting {
        let folder = Folder::new(name);
        std::fs::write(folder.file("a.loom"), SOURCE).expect("written");
        std::fs::write(
            folder.file("seven.c"),
            "#include <stdint.h>\n#include \"seven.h\"\nuint32_t seven(uint32_t x) { return x + SEVEN; }\n",
        )
        .expect("written");
        std::fs::write(folder.file("seven.h"), "#define SEVEN 7\n").expect("written");
        std::fs::create_dir(folder.file("base")).expect("made");
        std::fs::create_dir(folder.file("tmp")).expect("made");
        Setting { folder }
    }

    fn cache(&self) -> PathBuf {
        self.folder.file("base/wireloom")
    }

    fn test_with(&self, adjust: impl FnOnce(&mut Command)) -> Output {
        Wireloom::command_with(&["test", &self.folder.name_of("a.loom")], |c| {
            c.env("TMPDIR", self.folder.file("tmp"))
                .env("XDG_CACHE_HOME", self.folder.file("base"))
                .env("HOME", self.folder.file("base"));
            adjust(c);
        })
    }

    /// Passes; returns whether the compiled program could be kept.
    fn passes(&self) -> bool {
        self.passes_with(|_| {})
    }

    fn passes_with(&self, adjust: impl FnOnce(&mut Command)) -> bool {
        let out = self.test_with(adjust);
        assert!(out.code == Some(0) && out.out.contains("1 passed"), "{:?} {}", out.code, out.text);
        assert_eq!(files(&self.folder.file("tmp")), Vec::<PathBuf>::new(), "left behind");
        !out.text.contains(UNSAFE)
    }

    fn library(&self) -> PathBuf {
        let all = files(&self.cache());
        all.into_iter().find(|f| f.extension().is_some_and(|e| e == "so")).expect("a compiled program")
    }
}

fn files(dir: &Path) -> Vec<PathBuf> {
    std::fs::read_dir(dir).expect("a folder").flatten().map(|e| e.path()).collect()
}

fn mode(path: &Path, mode: u32) {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).expect("our own");
}

fn root() -> bool {
    // SAFETY: a plain system call.
    unsafe { libc::geteuid() == 0 }
}

#[test]
fn a_folder_that_others_may_write_to_is_not_used() {
    let s = Setting::new("cache-shared");
    assert!(s.passes());
    // A file in such a folder could be another user's, and would be loaded.
    std::fs::write(s.library(), "planted").expect("written");
    for open in [0o777, 0o1777, 0o770] {
        mode(&s.cache(), open);
        assert!(!s.passes(), "{open:o}");
        assert_eq!(std::fs::read(s.library()).expect("there"), b"planted");
    }
    mode(&s.cache(), 0o755);
    assert!(s.passes(), "ours, and only read by others");
    assert_eq!(std::fs::metadata(s.cache()).expect("there").permissions().mode() & 0o777, 0o700);
}

#[test]
fn what_belongs_to_another_user_is_not_run() {
    if !root() {
        eprintln!("SKIPPED: only root can plant files of other users");
        return;
    }
    let s = Setting::new("cache-planted");
    assert!(s.passes());
    let library = s.library();
    std::fs::write(&library, "planted").expect("written");
    chown(&library, Some(65534), None).expect("root may");
    assert!(s.passes(), "the file alone is made anew");
    assert_ne!(std::fs::read(&library).expect("there"), b"planted");
    std::fs::write(&library, "planted").expect("written");
    chown(s.cache(), Some(65534), None).expect("root may");
    assert!(!s.passes());
    assert_eq!(std::fs::read(&library).expect("there"), b"planted");
}

#[test]
fn links_are_not_followed() {
    let s = Setting::new("cache-links");
    std::fs::create_dir(s.folder.file("elsewhere")).expect("made");
    symlink(s.folder.file("elsewhere"), s.cache()).expect("made");
    assert!(!s.passes());
    assert!(files(&s.folder.file("elsewhere")).is_empty());
    std::fs::remove_file(s.cache()).expect("the link");
    assert!(s.passes());
    let (library, target) = (s.library(), s.folder.file("target"));
    std::fs::rename(&library, &target).expect("moved");
    std::fs::write(&target, "planted").expect("written");
    symlink(&target, &library).expect("made");
    assert!(s.passes());
    assert_eq!(std::fs::read(&target).expect("there"), b"planted");
    assert!(!library.is_symlink());
}

/// A file that is cut is mapped whole and read beyond its end: every run ended with SIGBUS.
#[test]
fn a_file_that_is_damaged_is_made_anew() {
    let s = Setting::new("cache-cut");
    assert!(s.passes());
    let whole = std::fs::read(s.library()).expect("there");
    let mut changed = whole.clone();
    changed[whole.len() / 2] ^= 1;
    for damaged in [&whole[..0], &whole[..4096], &whole[..whole.len() / 2], &whole[..whole.len() - 1], &changed] {
        std::fs::write(s.library(), damaged).expect("written");
        assert!(s.passes());
        assert_eq!(std::fs::read(s.library()).expect("there").len(), whole.len());
    }
    // So are the headers that go into it.
    let headers = files(&s.cache()).into_iter().find(|f| f.is_dir()).expect("a folder of headers");
    let base = headers.join("base.h");
    let text = std::fs::read_to_string(&base).expect("there");
    std::fs::write(&base, text.replace("static", "statiC")).expect("written");
    std::fs::remove_file(s.library()).expect("there");
    assert!(s.passes());
    assert_eq!(std::fs::read_to_string(&base).expect("there"), text);
}

#[test]
fn a_changed_header_of_an_extern_file_is_noticed() {
    let s = Setting::new("cache-header");
    assert!(s.passes());
    std::fs::write(s.folder.file("seven.h"), "#define SEVEN 8\n").expect("written");
    let out = s.test_with(|_| {});
    assert!(out.code == Some(1) && out.text.contains("1 failed"), "{}", out.text);
    std::fs::write(s.folder.file("seven.h"), "#define SEVEN 7\n").expect("written");
    assert!(s.passes());
}

#[test]
fn without_a_home_nothing_is_kept() {
    let s = Setting::new("cache-homeless");
    assert!(!s.passes_with(|c| {
        c.env_remove("HOME").env_remove("XDG_CACHE_HOME");
    }));
    assert!(!s.passes_with(|c| {
        c.env("HOME", s.folder.file("a.loom")).env_remove("XDG_CACHE_HOME");
    }));
    let below_home = s.passes_with(|c| {
        c.env_remove("XDG_CACHE_HOME");
    });
    assert!(below_home);
    assert!(s.folder.file("base/.cache/wireloom").is_dir());
}

/// A user's folder is not another user's, root or not.
#[test]
fn another_user_has_a_folder_of_his_own() {
    if !root() {
        eprintln!("SKIPPED: only root can be another user");
        return;
    }
    let s = Setting::new("cache-other");
    assert!(s.passes());
    let binary = s.folder.file("wireloom");
    std::fs::copy(Wireloom::binary(), &binary).expect("a copy that everybody may run");
    mode(&binary, 0o755);
    mode(s.folder.path(), 0o755);
    mode(&s.folder.file("tmp"), 0o1777);
    let mut command = Command::new("setpriv");
    command
        .args(["--reuid=65534", "--regid=65534", "--clear-groups"])
        .arg(&binary)
        .arg("test")
        .arg(s.folder.file("a.loom"));
    command.env("TMPDIR", s.folder.file("tmp")).env("XDG_CACHE_HOME", s.folder.file("base"));
    let out = wireloom_tests::finish(&mut command);
    assert!(out.code == Some(0) && out.text.contains(UNSAFE), "{}", out.text);
    assert!(files(&s.folder.file("tmp")).is_empty());
}

/// The files that a killed compiler and its starter have left are removed at the next start.
#[test]
fn what_killed_processes_left_goes() {
    let s = Setting::new("cache-left");
    assert!(s.passes());
    let (before, pid) = (files(&s.cache()).len(), gone());
    for rest in ["tmp", "tmp.1.o", "tmp.2-1a2b3c.o.tmp", "part"] {
        left_behind(&s.cache().join(format!("a.so.{pid}-0.{rest}")));
    }
    // Another may still be at work.
    let other = s.cache().join(format!("a.so.{}-0.tmp", std::process::id()));
    left_behind(&other);
    assert!(s.passes());
    assert!(other.exists());
    assert_eq!(files(&s.cache()).len(), before + 1);
}

/// Files made for one run go with it, also when it is killed while the compiler is at work.
#[test]
fn a_run_that_is_killed_leaves_nothing() {
    for signal in [libc::SIGTERM, libc::SIGKILL] {
        let s = Setting::new(&format!("cache-killed-{signal}"));
        let (compiler, begun) = (s.folder.file("cc"), s.folder.file("begun"));
        // It ends with the test, however that ends.
        let script = format!(
            "#!/bin/sh\ntouch {0}\nfor _ in $(seq 400); do [ -e {0} ] || exit; sleep 0.05; done\n",
            begun.display()
        );
        std::fs::write(&compiler, script).expect("written");
        mode(&compiler, 0o755);
        let mut command = Wireloom::program();
        command
            .arg("test")
            .arg(s.folder.file("a.loom"))
            .env("TMPDIR", s.folder.file("tmp"))
            .env("WIRELOOM_CC", &compiler);
        command.env_remove("HOME").env_remove("XDG_CACHE_HOME");
        let mut run = Process::start_saying("killed", &mut command, free_port(), "");
        let eventually = |what: &str, holds: &dyn Fn() -> bool| {
            let until = Instant::now() + Duration::from_secs(20);
            while !holds() {
                assert!(Instant::now() < until, "signal {signal}: {what}");
                std::thread::sleep(Duration::from_millis(5));
            }
        };
        eventually("the compiler does not begin", &|| begun.exists());
        assert_eq!(files(&s.folder.file("tmp")).len(), 1);
        run.signal(signal);
        run.exit();
        eventually("something is left behind", &|| files(&s.folder.file("tmp")).is_empty());
        std::fs::remove_file(&begun).expect("the compiler ends");
    }
}

/// A cache on a file system that is full, or may only be read, is no obstacle.
#[test]
fn a_folder_that_takes_no_files_is_not_used() {
    if !wireloom_tests::require_tool("unshare") {
        return;
    }
    for mount in ["-o size=64k", "-o ro"] {
        let setting = Setting::new("cache-takes-nothing");
        let base = setting.folder.file("base");
        // A folder that is there already, as in an image of a container.
        let script = format!(
            "mount -t tmpfs {} none \"$BASE\" && mkdir -m 700 \"$BASE/wireloom\" && mount {} \"$BASE\" && exec \"$0\" test \"$FILE\"",
            mount.replace("-o ro", ""),
            if mount == "-o ro" { "-o remount,ro" } else { "-o remount" }
        );
        let mut command = Command::new("unshare");
        command.args(["-m", "sh", "-c", &script]).arg(Wireloom::binary());
        command.env("BASE", &base).env("FILE", setting.folder.file("a.loom"));
        command.env("XDG_CACHE_HOME", &base).env("TMPDIR", setting.folder.file("tmp"));
        let out = wireloom_tests::finish(&mut command);
        if out.text.contains("unshare: ") || out.text.contains("mount: ") {
            eprintln!("SKIPPED: no file system can be mounted here: {}", out.text);
            return;
        }
        assert!(out.code == Some(0) && out.out.contains("1 passed"), "{mount}: {:?} {}", out.code, out.text);
        assert!(out.text.contains(UNSAFE), "{mount}: {}", out.text);
        assert_eq!(files(&setting.folder.file("tmp")), Vec::<PathBuf>::new(), "left behind");
    }
}
