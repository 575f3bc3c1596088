//! The documentation is true: every program in it compiles and does as the text says, and every
//! transcript is real. Every diagnostic has its page, every metric is there.
//!
//! Marks behind the language of a block: ```` ```loom,check ```` compiles without a word; `test`
//! also runs its `test` blocks, by the interpreter and by compiled code; `error=E0301` is refused
//! with that code; `warn=W0902` compiles with that warning; `file=x.loom` is kept under that name
//! for the blocks after it. ```` ```sh,transcript ````: lines that begin with `$ ` are commands,
//! what follows is what they print. `…` stands for any text.
//!
//! Each page, example and code is a test. `BLESS=1 cargo test -p wireloom-tests --test docs --
//! page::tutorial` writes the transcripts of a page anew and formats its programs; `code::` writes
//! the pages of the codes.

#[path = "docs/codes.rs"]
mod codes;
#[path = "docs/page.rs"]
mod page;
#[path = "docs/shell.rs"]
mod shell;

use page::{matches, Block, Page};
use shell::Shell;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use wireloom_golden::{blessing, diff, panics, test};
use wireloom_ir::desc::Sharing;
use wireloom_ir::port_options;
use wireloom_tests::{admin, free_port, quickly_compiled, root, servers, Client, Output, Process, Wireloom};

fn main() {
    // This is about our binary alone.
    if wireloom_tests::plain() {
        return;
    }
    let all = pages();
    assert!(all.len() >= 5, "the pages are there: {all:?}");
    let mut tests: Vec<_> =
        all.into_iter().map(|p| test(format!("page::{}", relative(&p)), move || page_is_true(&p))).collect();
    tests.extend(
        examples()
            .into_iter()
            .map(|n| panics(format!("example::{}", n.trim_end_matches(".loom")), move || example_works(&n))),
    );
    tests.extend(codes::tests());
    tests.push(panics("links_lead_somewhere", links_lead_somewhere));
    tests.push(panics("metrics_are_those_of_the_page", metrics_are_those_of_the_page));
    tests.push(panics("port_options_are_those_of_the_page", port_options_are_those_of_the_page));
    wireloom_golden::run(tests)
}

/// A page's name below the root, without its ending.
fn relative(path: &Path) -> String {
    let name = path.strip_prefix(root()).unwrap_or(path).with_extension("").display().to_string();
    name.strip_prefix("docs/").map_or(name.clone(), str::to_string)
}

/// Pages that people write.
fn pages() -> Vec<PathBuf> {
    ["docs", "examples"]
        .iter()
        .flat_map(|d| std::fs::read_dir(root().join(d)).into_iter().flatten().flatten())
        .map(|e| e.path())
        .chain([root().join("README.md")])
        .filter(|p| p.extension().is_some_and(|e| e == "md"))
        .collect()
}

fn wireloom(folder: &Path, args: &[&str]) -> Output {
    Wireloom::command_with(args, |c| {
        c.current_dir(folder);
    })
}

/// The tests of a program; they do not ask for optimised code.
fn tests_of(folder: &Path, name: &str) -> Output {
    Wireloom::command_with(&["test", name], |c| {
        quickly_compiled(c).current_dir(folder);
    })
}

/// The error of a block of Wireloom.
fn loom(block: &Block, folder: &Path, changed: &mut Vec<(usize, String)>) -> Result<(), String> {
    let name = block.mark("file").map_or(format!("block_{}.loom", block.line), str::to_string);
    std::fs::write(folder.join(&name), &block.text).expect("the folder is writable");
    let checked = wireloom(folder, &["check", &name]);
    let said = |code: &str| checked.text.contains(&format!("[{code}]"));
    if let Some(code) = block.mark("error") {
        return if checked.code == Some(1) && said(code) {
            Ok(())
        } else {
            Err(format!("{code} was expected, not:\n{}", checked.text))
        };
    }
    if checked.code != Some(0) {
        return Err(checked.text);
    }
    match block.mark("warn") {
        Some(code) if said(code) => {}
        None if checked.text.contains(" 0 warnings") => {}
        _ => return Err(format!("other warnings than expected:\n{}", checked.text)),
    }
    let formatted = wireloom(folder, &["fmt", "--check", &name]);
    if formatted.code != Some(0) {
        wireloom(folder, &["fmt", &name]);
        let text = std::fs::read_to_string(folder.join(&name)).unwrap_or_default();
        if !blessing() {
            return Err(format!("not formatted:\n{}", diff(&name, &block.text, &text)));
        }
        changed.push((block.line, text));
    }
    if block.mark("test").is_none() {
        return if block.text.contains("\ntest \"") {
            Err("its tests are not run: mark it `test`".into())
        } else {
            Ok(())
        };
    }
    let tested = tests_of(folder, &name);
    if tested.code != Some(0) || tested.text.contains("\n0 passed") || tested.text.starts_with("0 passed") {
        return Err(tested.text);
    }
    Ok(())
}

/// The real output of a transcript's commands, as the page would show it.
fn transcript(block: &Block, shell: &mut Shell) -> (String, bool) {
    let (mut real, mut same) = (String::new(), true);
    let mut lines = block.text.lines().peekable();
    while let Some(line) = lines.next() {
        let _ = writeln!(real, "{line}");
        let Some(command) = line.strip_prefix("$ ") else { continue };
        let mut command = command.to_string();
        while command.ends_with('\\') {
            let next = lines.next().unwrap_or_default();
            let _ = writeln!(real, "{next}");
            command = format!("{} {}", command.trim_end_matches('\\').trim_end(), next.trim());
        }
        let mut shown = Vec::new();
        while let Some(line) = lines.next_if(|l| !l.starts_with("$ ")) {
            shown.push(line);
        }
        let said = shell.run(&command);
        let said: Vec<&str> = said.iter().map(String::as_str).collect();
        let right = matches(&shown, &said);
        same &= right;
        for line in if right { shown } else { said } {
            let _ = writeln!(real, "{}", without_times(line));
        }
    }
    (real, same)
}

/// How long a start took is different each time.
fn without_times(line: &str) -> String {
    match line.split_once("ready after ") {
        Some((before, after)) => format!("{before}ready after … {}", after.split_once(' ').map_or("", |a| a.1)),
        None => line.to_string(),
    }
}

/// Goes through a page from top to bottom; returns its errors.
fn walk(path: &Path) -> Vec<String> {
    let page = Page::read(path);
    let name = path.strip_prefix(root()).unwrap_or(path).display().to_string().replace(['/', '.'], "-");
    let mut shell = Shell::new(&name);
    let (mut wrong, mut changed) = (Vec::new(), Vec::new());
    for block in &page.blocks {
        let problem = match block.language.as_str() {
            "loom" if block.marks.is_empty() => Err("say what it is for: ```loom,check".to_string()),
            "loom" if block.mark("fragment").is_some() => Ok(()),
            "loom" => loom(block, shell.folder(), &mut changed),
            "c" => match block.mark("file") {
                Some(name) => std::fs::write(shell.folder().join(name), &block.text).map_err(|e| e.to_string()),
                None => Ok(()),
            },
            "sh" if block.mark("transcript").is_some() => {
                let (real, same) = transcript(block, &mut shell);
                if !same && blessing() {
                    changed.push((block.line, real));
                    Ok(())
                } else if same {
                    Ok(())
                } else {
                    Err(format!("the commands print something else:\n{}", diff("the page", &block.text, &real)))
                }
            }
            _ => Ok(()),
        };
        if let Err(text) = problem {
            wrong.push(format!("{}:{}: {text}", path.display(), block.line));
        }
    }
    if !changed.is_empty() {
        page.rewrite(&changed);
    }
    wrong
}

fn page_is_true(path: &Path) -> Result<(), String> {
    let wrong = walk(path);
    if wrong.is_empty() {
        Ok(())
    } else {
        Err(format!("{} problems\n\n{}", wrong.len(), wrong.join("\n\n")))
    }
}

fn links_lead_somewhere() {
    let mut broken = Vec::new();
    let others = ["CHANGELOG.md", "CONTRIBUTING.md", "bench/README.md", "bench/xdp/README.md"];
    for path in pages().into_iter().chain(others.map(|p| root().join(p))) {
        let text = std::fs::read_to_string(&path).expect("a page");
        for part in prose(&text).split("](").skip(1) {
            let target = part.split(')').next().unwrap_or("");
            let (file, heading) = target.split_once('#').unwrap_or((target, ""));
            if file.starts_with("http") {
                continue;
            }
            let at = if file.is_empty() { path.clone() } else { path.parent().unwrap_or(Path::new(".")).join(file) };
            let there =
                std::fs::read_to_string(&at).is_ok_and(|t| heading.is_empty() || headings(&t).any(|h| h == heading));
            if !there && !at.is_dir() {
                broken.push(format!("{}: {target}", path.display()));
            }
        }
    }
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}

/// The text without its code.
fn prose(text: &str) -> String {
    let outside = text.split("\n```").step_by(2);
    outside.flat_map(|t| t.split('`').step_by(2)).collect()
}

/// The anchors of a page's headings.
fn headings(text: &str) -> impl Iterator<Item = String> + '_ {
    text.lines().filter(|l| l.starts_with('#')).map(|l| {
        let words = l.trim_start_matches('#').trim().to_lowercase().replace(' ', "-");
        words.chars().filter(|c| c.is_alphanumeric() || matches!(c, '-' | '_')).collect()
    })
}

fn examples() -> Vec<String> {
    let all = wireloom_golden::files(&root().join("examples"), "loom");
    let names: Vec<String> = all.iter().filter_map(|p| Some(p.file_name()?.to_string_lossy().into_owned())).collect();
    assert!(names.len() >= 4, "{names:?}");
    names
}

/// A program under `examples` is formatted, compiles without a word, passes its tests and is
/// listed.
fn example_works(name: &str) {
    let folder = root().join("examples");
    let table = std::fs::read_to_string(folder.join("README.md")).expect("examples/README.md");
    let said = |args: &[&str]| wireloom(&folder, &[args, &[name]].concat());
    let checked = said(&["check"]);
    assert!(checked.code == Some(0) && checked.text.contains(" 0 warnings"), "{}", checked.text);
    assert_eq!(said(&["fmt", "--check"]).code, Some(0), "{name} is not formatted");
    let tested = tests_of(&folder, name);
    assert!(tested.code == Some(0) && !tested.out.starts_with("0 passed"), "{name}: {}", tested.text);
    assert!(table.contains(name), "examples/README.md does not list {name}");
}

/// Every metric that the page of operations names is there, and every metric that is there is
/// named; so with `/status`.
fn metrics_are_those_of_the_page() {
    let port = free_port();
    let backend = Wireloom::run("kv_server", &[]);
    let proxy = Wireloom::run("memcached_proxy", &["--set", &servers(&[backend.port]), "--admin", &port.to_string()]);
    Client::connect(proxy.port)
        .send("nonsense\r\nset k 0 0 1\r\nx\r\nset k 0 0 1\r\nxyz\r\n")
        .expect("ERROR\r\nSTORED\r\nCLIENT_ERROR");
    let text = std::fs::read_to_string(root().join("docs/operations.md")).expect("docs/operations.md");
    let mut named: Vec<&str> =
        text.split('`').filter(|w| w.starts_with("wireloom_")).map(|w| w.split('{').next().unwrap_or(w)).collect();
    named.sort_unstable();
    named.dedup();
    let metrics = admin::metrics(port);
    let merging = port_of_a_merge();
    let udp = free_port();
    let _relay = Wireloom::run("syslog_relay", &["--set", "collectors=127.0.0.1:9", "--admin", &udp.to_string()]);
    let metrics = format!("{metrics}{}{}", admin::metrics(merging.1), admin::metrics(udp));
    let mut there: Vec<&str> = metrics.lines().filter_map(|l| l.strip_prefix("# TYPE ")?.split(' ').next()).collect();
    there.sort_unstable();
    there.dedup();
    assert_eq!(named, there, "docs/operations.md and /metrics differ");
    let status = admin::status(port);
    let keys = |v: &serde_json::Value| v.as_object().map(|o| o.keys().cloned().collect::<Vec<_>>()).unwrap_or_default();
    let app = &status["apps"][0];
    for key in [
        keys(&status),
        keys(&status["memory"]),
        keys(app),
        keys(&app["ports"][1]),
        keys(&app["ports"][1]["backends"][0]),
        keys(&admin::status(merging.1)["apps"][0]["merges"][0]),
    ]
    .concat()
    {
        assert!(text.contains(&format!("`{key}`")), "docs/operations.md does not name `{key}` of /status");
    }
}

/// An app with a merge, whose metrics others have not, and its admin page.
fn port_of_a_merge() -> (Process, u16) {
    let page = free_port();
    let reducer = free_port();
    let args = ["--set", &format!("reducer=127.0.0.1:{reducer}"), "--admin", &page.to_string()];
    (Wireloom::run("word_count_combiner", &args), page)
}

/// Every option of a port that the page names is taken by the command line.
fn port_options_are_those_of_the_page() {
    let text = std::fs::read_to_string(root().join("docs/operations.md")).expect("docs/operations.md");
    let rows = text.lines().skip_while(|l| !l.starts_with("| option ")).skip(2).take_while(|l| l.starts_with('|'));
    let mut options: Vec<String> = rows.filter_map(|r| r.split('`').nth(1)).map(str::to_string).collect();
    assert_eq!(options.len(), 30, "{options:?}");
    let short = text.split_once("are short for these names with `_timeout`").expect("the short names");
    let short = [short.0.rsplit("\n\n").next(), short.1.split("\n\n").next()].map(Option::unwrap_or_default).concat();
    for (name, _) in port_options::SHORT {
        assert!(short.contains(&format!("`{name}`")), "`{name}` is not among the short names");
    }
    assert_eq!(short.matches('`').count(), 2 * port_options::SHORT.len() + 2, "{short}");
    let bad = Wireloom::command(&["run", "apps/static_web.loom", "--set", "client.nonsense=5"]);
    assert!(bad.code == Some(1) && bad.text.contains("no such option"), "{}", bad.text);
    // It is a part of the program.
    options.retain(|o| o != "hold_body");
    let value = |o: &str| match o {
        "reuse" => "always",
        "failover" => "next",
        "max_queued" => "4096",
        "cancel" | "offload" | "probe" | "share" => "true",
        o if o.contains("time") || o == "slice" || o == "keepalive" => "5s",
        _ => "5",
    };
    let port = |o: &str| if port_options::applies(o, true) { "client" } else { "backend" };
    let set = |o: &String| format!("{}.{o}={}", port(o), value(o));
    let servers = servers(&[9001]);
    // Others would have no effect at the ports of requests over TCP, and are refused there.
    let sharing = &[Sharing::Exclusive];
    let traits = port_options::Traits { udp: false, sharing, probes: true, merges: false };
    let (others, here): (Vec<_>, Vec<_>) =
        options.into_iter().partition(|o| port_options::only_for(o, traits).is_some());
    for o in &others {
        let refused =
            Wireloom::command(&["run", "apps/http_balancer.loom", "--set", &set(o), "--set", servers.as_str()]);
        let told = port_options::only_for(o, traits).map(|of| format!("`{o}` is for {of}")).unwrap_or_default();
        assert!(refused.code == Some(1) && refused.text.contains(&told), "{}", refused.text);
    }
    let sets: Vec<String> = here.iter().flat_map(|o| ["--set".to_string(), set(o)]).collect();
    let sets: Vec<&str> = sets.iter().map(String::as_str).collect();
    let sets: Vec<&str> = [&sets[..], &["--set", servers.as_str()]].concat();
    let mut balancer: Process = Wireloom::run("http_balancer", &sets);
    balancer.kill();
}
