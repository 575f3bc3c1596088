//! A report when the C compiler refuses generated code. That is a defect of Wireloom. The folder
//! that is kept has everything needed to find it.

use std::fs;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use wireloom_codegen_c::CSource;
use wireloom_ir::Module;

/// The compiler's messages, and where program, C and messages are kept for a report.
pub fn with_folder(module: &Module, source: &CSource, command: &str, messages: &str) -> String {
    let whose = match source.externs.first() {
        Some(file) => format!("Unless the mistake is in {file}, it is one of Wireloom, not of the program."),
        None => "This is a mistake of Wireloom, not of the program.".to_string(),
    };
    let kept = match keep(&std::env::temp_dir(), module, source, &format!("{command}\n{messages}")) {
        Some(folder) => format!(
            "Please report it with the folder {}: it holds the program, the C and these messages.",
            folder.display()
        ),
        None => "Please report it with the program.".to_string(),
    };
    format!("{messages}\n{whose}\n{kept}")
}

/// A new folder that only this user reads.
fn keep(under: &Path, module: &Module, source: &CSource, messages: &str) -> Option<PathBuf> {
    let folder = (0..100).find_map(|n| {
        let folder = under.join(format!("wireloom-report-{}-{n}", std::process::id()));
        fs::DirBuilder::new().mode(0o700).create(&folder).ok().map(|()| folder)
    })?;
    fs::write(folder.join(format!("{}.c", source.name)), &source.text).ok()?;
    fs::write(folder.join("messages.txt"), messages).ok()?;
    for (n, file) in module.files.iter().enumerate() {
        let name = Path::new(file).file_name().map_or_else(|| "source".into(), |f| f.to_string_lossy().into_owned());
        fs::copy(file, folder.join(format!("{n}-{name}"))).ok();
    }
    Some(folder)
}
