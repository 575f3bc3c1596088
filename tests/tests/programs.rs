//! The compiler and both ways to run a program, inside of this process or by one call of
//! `wireloom`.
//!
//! One binary: `cargo test -p wireloom-tests --test programs -- NAME::` runs one file of it.

mod answer_storm;
mod apps_sim;
mod ask_storm;
mod circles;
mod cli_odds;
mod compiler_fuzz;
mod conversation_storm;
mod differential;
mod element_graph;
mod elements;
mod elements_in_c;
mod export;
mod export_names;
mod extents;
mod framing;
mod functions_in_c;
mod fuzz;
mod generated;
mod grammars;
mod inner_checksums;
mod list_ends;
mod names_in_c;
mod page_names;
mod rebuild;
mod renamed;
mod sent_as_read;
mod sent_at_random;
mod std_units;
mod text;
mod type_names;
mod until_end;
mod whole_programs;
mod whole_rules;
mod wide_numbers;

#[test]
fn every_file_is_in_a_binary() {
    let folder = wireloom_tests::root().join("tests/tests");
    let names = |ending: &str| -> Vec<String> {
        let files = std::fs::read_dir(&folder)
            .expect("the tests")
            .flatten()
            .map(|e| e.file_name().into_string().expect("a name"));
        files.filter_map(|f| f.strip_suffix(ending).map(str::to_string)).collect()
    };
    let manifest = std::fs::read_to_string(folder.join("../Cargo.toml")).expect("the manifest");
    let (roots, files): (Vec<_>, Vec<_>) =
        names(".rs").into_iter().partition(|n| manifest.contains(&format!("path = \"tests/{n}.rs\"")));
    let text: String =
        roots.iter().map(|r| std::fs::read_to_string(folder.join(format!("{r}.rs"))).expect("a root")).collect();
    for f in files {
        assert_eq!(
            text.matches(&format!("\nmod {f};\n")).count(),
            1,
            "tests/tests/{f}.rs: name it in one of {roots:?}"
        );
    }
}

/// A crate that its manifest declares to have no tests of its own, so that it is compiled once, has
/// none that would never run.
#[test]
fn crates_without_tests_have_none() {
    let files = |folder: &std::path::Path| -> Vec<std::path::PathBuf> {
        std::fs::read_dir(folder).into_iter().flatten().flatten().map(|e| e.path()).collect()
    };
    for crate_ in files(&wireloom_tests::root().join("crates")) {
        let manifest = std::fs::read_to_string(crate_.join("Cargo.toml")).expect("a manifest");
        if !manifest.contains("\ntest = false\n") {
            continue;
        }
        let mut left = vec![crate_.join("src")];
        while let Some(path) = left.pop() {
            match std::fs::read_to_string(&path) {
                Ok(text) => assert!(
                    !text.contains("#[test]"),
                    "{} has tests that never run: {} says `test = false`",
                    path.display(),
                    crate_.display()
                ),
                Err(_) => left.extend(files(&path)),
            }
        }
    }
}
