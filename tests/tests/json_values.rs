//! Values of JSON texts by their paths, beside Python's `json`: random texts, many of them damaged,
//! in both engines.

use std::process::Command;
use wireloom_tests::{finish, require_tool, root, Wireloom};

#[test]
fn values_are_those_of_python() {
    if !require_tool("python3") {
        return;
    }
    for (extra, texts) in [(&[][..], "4000"), (&["--interpret"], "1500")] {
        let service = Wireloom::run_file("tests/programs/json_values.loom", extra, |_| {});
        let script = root().join("tests/clients/json_values.py");
        let out = finish(Command::new("python3").arg(script).args([&service.port.to_string(), "7", texts]));
        assert_eq!(out.code, Some(0), "{}", out.text);
    }
}
