//! Generated programs: functions of random expressions and statements over integers of all widths,
//! bytes, options, lists, tuples, records and nested matches. They are well typed by construction.
//! Their results and faults must be the same interpreted and compiled. Many functions make one
//! module, so that the C compiler runs a few times only.

use std::fmt::Write;
use wireloom_interp::differential::{HandlerAct, Mock};
use wireloom_interp::generate::Rng;
use wireloom_ir::{Module, TestKind};
use wireloom_runtime::abi::WL_T_DONE;
use wireloom_runtime::Program;
use wireloom_tests::programs::{no_internal_errors, seeds, twins_at};

const FUNCTIONS: usize = 60;
const INTS: [&str; 9] = ["u8", "u16", "u32", "u64", "u128", "i8", "i16", "i32", "i64"];
const UNSIGNED: [&str; 5] = ["u8", "u16", "u32", "u64", "u128"];

/// Items that the functions use.
const ITEMS: &str = "record Rec { a: u32  b: u64  c: i16  d: u8? }\n\nenum Kind: u8 { zero, one, seven = 7, _ }\n\n";

struct Make {
    rng: Rng,
    /// Variables in scope: name, type, whether it may be assigned.
    vars: Vec<(String, &'static str, bool)>,
    next: usize,
}

impl Make {
    fn pick<T: Copy>(&mut self, list: &[T]) -> T {
        list[self.rng.below(list.len() as u64) as usize]
    }

    fn literal(&mut self, ty: &str) -> String {
        let n = self.pick(&[0, 1, 2, 3, 7, 10, 31, 100, 127, 200, 255]) as u64;
        match ty {
            "bool" => self.pick(&["true", "false"]).into(),
            "bytes<64>" => format!(
                "\"{}\"",
                self.pick(&["", "a", "Ab", "12", "x=1,y=2", "\\0\\xff", "18446744073709551615", "a, b"])
            ),
            "u32?" => {
                if n.is_multiple_of(3) {
                    "none".into()
                } else {
                    format!("some(u32({n}))")
                }
            }
            "list<u32, 8>" => format!("[u32({n}), u32({}), u32({})]", n / 2, n + 1),
            "u64" if n == 31 => "u64(18446744073709551615)".into(),
            "u128" if n >= 31 => format!("u128({})", (1u128 << (n & 127)) + self.rng.below(3) as u128),
            "i8" => format!("i8({})", n & 127),
            _ => format!("{ty}({n})"),
        }
    }

    fn variable(&mut self, ty: &str) -> Option<String> {
        let fit: Vec<String> = self.vars.iter().filter(|v| v.1 == ty).map(|v| v.0.clone()).collect();
        (!fit.is_empty()).then(|| fit[self.rng.below(fit.len() as u64) as usize].clone())
    }

    fn expr(&mut self, ty: &'static str, depth: u32) -> String {
        if depth == 0 || self.rng.chance(15) {
            let found = if self.rng.chance(75) { self.variable(ty) } else { None };
            return found.unwrap_or_else(|| self.literal(ty));
        }
        let d = depth - 1;
        if self.rng.chance(12) {
            return format!("(if {} {{ {} }} else {{ {} }})", self.expr("bool", d), self.expr(ty, d), self.expr(ty, d));
        }
        match ty {
            "bool" => self.truth(d),
            "bytes<64>" => match self.rng.below(4) {
                0 => format!("lower({})", self.expr(ty, d)),
                1 => format!("upper({})", self.expr(ty, d)),
                2 => format!("slice({}, u32({}), {})", self.expr(ty, d), self.rng.below(4), self.expr("u32", d)),
                _ => self.literal(ty),
            },
            "u32?" => match self.rng.below(3) {
                0 => format!("find({}, {})", self.expr("bytes<64>", d), self.literal("bytes<64>")),
                1 => format!("{}.first(|x| x > {})", self.expr("list<u32, 8>", 0), self.expr("u32", 0)),
                _ => format!("some({})", self.expr("u32", d)),
            },
            "list<u32, 8>" => {
                format!("[x ^ {} for x in {} if x != {}]", self.expr("u32", 0), self.expr(ty, 0), self.expr("u32", 0))
            }
            _ => self.integer(ty, d),
        }
    }

    fn truth(&mut self, d: u32) -> String {
        let ty = self.pick(&INTS);
        match self.rng.below(8) {
            0 => format!("({} and {})", self.expr("bool", d), self.expr("bool", d)),
            1 => format!("({} or {})", self.expr("bool", d), self.expr("bool", d)),
            2 => format!("(not {})", self.expr("bool", d)),
            3 => format!("starts_with({}, {})", self.expr("bytes<64>", d), self.literal("bytes<64>")),
            4 => format!(
                "({} {} {})",
                self.expr("bytes<64>", d),
                self.pick(&["==", "!=", "<", "~="]),
                self.expr("bytes<64>", d)
            ),
            5 => format!("has_token({}, \"b\")", self.expr("bytes<64>", d)),
            _ => format!(
                "({} {} {})",
                self.expr(ty, d),
                self.pick(&["==", "!=", "<", "<=", ">", ">="]),
                self.expr(ty, d)
            ),
        }
    }

    fn integer(&mut self, ty: &'static str, d: u32) -> String {
        match self.rng.below(16) {
            12 => format!(
                "(match {} {{ 0 => {}, 1..=9 | 100 => {}, x if x % 2 == 0 => {}, _ => {} }})",
                {
                    let on = self.pick(&UNSIGNED);
                    self.expr(on, d)
                },
                self.expr(ty, d),
                self.expr(ty, 0),
                self.expr(ty, 0),
                self.expr(ty, d)
            ),
            13 => {
                let (p, q, other) = (self.name(), self.name(), self.pick(&INTS));
                format!("{{ let ({p}, {q}) = ({}, {}); {p} ^ {ty}({q}) }}", self.expr(ty, d), self.expr(other, d))
            }
            14 => {
                let (a, b, c, e) = (self.expr("u32", d), self.expr("u64", d), self.expr("i16", d), self.expr("u8", 0));
                let field = self.pick(&["a", "b", "c", "d else 9"]);
                format!("{ty}(Rec {{ a: {a}, b: {b}, c: {c}, d: {e} }}.{field})")
            }
            15 => format!(
                "(match (Kind({}), {}) {{ (zero, _) => {}, (seven, true) => {}, (_, false) => {}, _ => {} }})",
                self.expr("u8", d),
                self.expr("bool", d),
                self.expr(ty, 0),
                self.expr(ty, d),
                self.expr(ty, 0),
                self.expr(ty, 0)
            ),
            0 => format!("{ty}({})", {
                let from = self.pick(&INTS);
                self.expr(from, d)
            }),
            1 => {
                let by = self.pick(&UNSIGNED);
                let by = if self.rng.chance(30) { self.expr(by, 0) } else { self.literal("u8") };
                format!("({} {} {by})", self.expr(ty, d), self.pick(&["<<", ">>"]))
            }
            2 => format!("{}({}, {})", self.pick(&["min", "max"]), self.expr(ty, d), self.expr(ty, d)),
            3 => format!("({} {} {})", self.expr(ty, d), self.pick(&["+|", "-|"]), self.expr(ty, d)),
            // The divisor is never 0.
            4 if !ty.starts_with('i') => {
                format!("({} {} ({} | {ty}(1)))", self.expr(ty, d), self.pick(&["/", "%"]), self.expr(ty, d))
            }
            5 if ty == "u32" => format!("({} else {})", self.expr("u32?", d), self.expr("u32", d)),
            11 if ty == "u32" => format!("{}.count(|x| x >= {})", self.expr("list<u32, 8>", d), self.expr("u32", 0)),
            6 if ty == "u32" => {
                format!("(fold {} from u32(0) with |a, x| a * u32(31) + x)", self.expr("list<u32, 8>", 0))
            }
            7 if ty == "u64" => format!("hash({})", self.expr("bytes<64>", d)),
            8 if ty == "u64" => format!("(u64({}) else {})", self.expr("bytes<64>", d), self.expr("u64", 0)),
            9 if ty == "u32" => format!("crc32({})", self.expr("bytes<64>", d)),
            _ => format!("({} {} {})", self.expr(ty, d), self.pick(&["+", "-", "*", "&", "|", "^"]), self.expr(ty, d)),
        }
    }

    fn name(&mut self) -> String {
        self.next += 1;
        format!("v{}", self.next)
    }

    fn statements(&mut self, n: usize, depth: u32, out: &mut String) {
        let scope = self.vars.len();
        for _ in 0..n {
            self.statement(depth, out);
        }
        // The outermost scope is read by the function's result.
        if depth < 2 {
            self.vars.truncate(scope);
        }
    }

    fn statement(&mut self, depth: u32, out: &mut String) {
        let assignable: Vec<(String, &'static str)> =
            self.vars.iter().filter(|v| v.2).map(|v| (v.0.clone(), v.1)).collect();
        match self.rng.below(if depth == 0 { 2 } else { 5 }) {
            0 => {
                let (name, ty) = (
                    self.name(),
                    self.pick(&[
                        "u8",
                        "u32",
                        "u64",
                        "u128",
                        "i8",
                        "i16",
                        "i32",
                        "i64",
                        "bool",
                        "bytes<64>",
                        "u32?",
                        "list<u32, 8>",
                    ]),
                );
                let value = self.expr(ty, 3);
                let _ = writeln!(out, "    var {name}: {ty} = {value}");
                self.vars.push((name, ty, true));
            }
            2 => {
                let _ = writeln!(out, "    if {} {{", self.expr("bool", 2));
                self.statements(2, depth - 1, out);
                out.push_str("    } else {\n");
                self.statements(1, depth - 1, out);
                out.push_str("    }\n");
            }
            3 => {
                let i = self.name();
                let _ = writeln!(out, "    for {i} in 0..{} {{", 1 + self.rng.below(5));
                self.vars.push((i, "u32", false));
                self.statements(2, depth - 1, out);
                self.vars.pop();
                out.push_str("    }\n");
            }
            _ if !assignable.is_empty() => {
                let (name, ty) = assignable[self.rng.below(assignable.len() as u64) as usize].clone();
                let value = self.expr(ty, 3);
                let _ = writeln!(out, "    {name} = {value}");
            }
            _ => {}
        }
    }

    fn function(&mut self, n: usize, out: &mut String) {
        let _ = writeln!(out, "fn f{n}(a: u32, b: u64, s: bytes<64>, c: i32) -> u64 {{");
        self.vars = [("a", "u32"), ("b", "u64"), ("s", "bytes<64>"), ("c", "i32")]
            .map(|(n, t)| (n.to_string(), t, false))
            .to_vec();
        self.statements(6, 2, out);
        let mut sum = "hash(s)".to_string();
        for (name, ty, _) in self.vars.clone() {
            let part = match ty {
                "bool" => format!("(if {name} {{ u64(1) }} else {{ u64(2) }})"),
                "bytes<64>" | "u128" => format!("hash({name})"),
                "u32?" => format!("u64({name} else 77)"),
                "list<u32, 8>" => format!("u64(fold {name} from u32(len({name})) with |a, x| a * u32(7) + x)"),
                _ => format!("u64({name})"),
            };
            sum = format!("({sum} * u64(31) + {part})");
        }
        let _ = writeln!(out, "    {sum}\n}}");
        let _ = writeln!(out, "test \"f{n}\" {{");
        for args in ["0, 0, \"\", 0", "7, 1000, \"a, b\", 100", "4294967295, 18446744073709551615, \"12\", 2147483647"]
        {
            let _ = writeln!(out, "    log f{n}({args})");
        }
        out.push_str("}\n");
    }
}

fn outcomes(module: &Module, program: &Program) -> Vec<(String, i32, u16, u32, Vec<HandlerAct>)> {
    // SAFETY: the program lives as long as the process.
    let mut mock = unsafe { Mock::new(program.table(), module, &[]) };
    let handlers = module.tests.iter().filter_map(|t| match &t.kind {
        TestKind::Code(h) => Some((t.name.clone(), h.0)),
        _ => None,
    });
    let run = |(name, handler)| {
        let (code, kind, place) = mock.run_plain(handler);
        (name, code, kind, place, mock.take_acts())
    };
    handlers.map(run).collect()
}

#[test]
fn functions_compute_the_same() {
    for seed in seeds(4) {
        let mut source = ITEMS.to_string();
        let mut make = Make { rng: Rng::new(seed), vars: Vec::new(), next: 0 };
        (0..FUNCTIONS).for_each(|n| make.function(n, &mut source));
        let file = std::env::temp_dir().join(format!("wireloom-generated-{}-{seed}.loom", std::process::id()));
        std::fs::write(&file, &source).expect("the temporary folder is writable");
        // The first is optimised as for users.
        let t = twins_at(&file, None, if seed == 1 { 2 } else { 0 });
        let meant = outcomes(&t.module, &t.interpreted);
        assert!(meant.len() == FUNCTIONS && meant.iter().all(|o| !o.4.is_empty()), "seed {seed}: {:?}", meant.first());
        // Only guarded operations in them can fault: nearly all must come to their end.
        let ended = meant.iter().filter(|o| o.1 == WL_T_DONE).count();
        assert!(ended * 10 >= FUNCTIONS * 9, "seed {seed}: only {ended} of {FUNCTIONS} functions come to their end");
        if let Some(compiled) = &t.compiled {
            for (a, b) in meant.iter().zip(outcomes(&t.module, compiled)) {
                assert_eq!(*a, b, "seed {seed}, {}: left interpreted, right compiled", file.display());
            }
        }
        std::fs::remove_file(&file).ok();
    }
    no_internal_errors();
}
