//! No source text makes the checker panic: the programs of the project, with words taken out,
//! doubled and swapped.

use std::path::{Path, PathBuf};
use wireloom_syntax::MemoryWorld;

struct Random(u64);
impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % n.max(1) as u64) as usize
    }
}

/// Words, runs of blanks and single signs.
fn words(text: &str) -> Vec<&str> {
    let mut out = Vec::new();
    let mut start = 0;
    let class = |c: char| {
        if c.is_alphanumeric() || c == '_' {
            0
        } else if c.is_whitespace() {
            1
        } else {
            2
        }
    };
    let mut last = None;
    for (i, c) in text.char_indices() {
        if last.is_some_and(|l| l != class(c) || l == 2) {
            out.push(&text[start..i]);
            start = i;
        }
        last = Some(class(c));
    }
    out.push(&text[start..]);
    out
}

fn sources() -> Vec<(PathBuf, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    ["std", "apps"]
        .iter()
        .flat_map(|d| std::fs::read_dir(root.join(d)).into_iter().flatten().flatten())
        .map(|e| e.path())
        .filter(|p| p.extension().is_some_and(|e| e == "loom"))
        .filter_map(|p| {
            let text = std::fs::read_to_string(&p).ok()?;
            Some((p, text))
        })
        .collect()
}

#[test]
fn mutated_programs_are_refused_politely() {
    let all = sources();
    let mut world = MemoryWorld::new();
    for (p, text) in &all {
        if p.parent().and_then(Path::file_name).is_some_and(|n| n == "std") {
            world.add(Path::new("/std").join(p.file_name().unwrap_or_default()), text.as_str());
        }
    }
    let rounds = std::env::var("ROUNDS").ok().and_then(|r| r.parse().ok()).unwrap_or(12);
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    for (_, text) in &all {
        let words = words(text);
        for _ in 0..rounds {
            let mut mutated: Vec<&str> = words.clone();
            for _ in 0..1 + random.below(3) {
                let (i, j) = (random.below(mutated.len()), random.below(mutated.len()));
                match random.below(4) {
                    0 => {
                        mutated.remove(i);
                    }
                    1 => {
                        let w = mutated[i];
                        mutated.insert(j, w);
                    }
                    2 => mutated.swap(i, j),
                    _ => mutated[i] = words[j % words.len()],
                }
            }
            let text = mutated.concat();
            world.add("/app/main.loom", text.as_str());
            let _ = wireloom_lang::compile(&world, Path::new("/app/main.loom"), None);
        }
    }
}
