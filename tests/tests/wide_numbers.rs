//! Numbers at the bounds of their types, of up to 128 bits. Each operator has the result that the
//! reference gives it, computed here. Constants, interpreted and compiled functions agree.

use std::fmt::Write;
use wireloom_interp::differential::Mock;
use wireloom_interp::generate::Rng;
use wireloom_ir::{Module, TestKind};
use wireloom_runtime::abi::WL_T_DONE;
use wireloom_runtime::Program;
use wireloom_tests::programs::{no_internal_errors, twins_at};

const PAIRS: usize = 10;
const TYPES: [Int; 7] = [
    Int { bits: 8, signed: false },
    Int { bits: 16, signed: false },
    Int { bits: 32, signed: false },
    Int { bits: 64, signed: false },
    Int { bits: 128, signed: false },
    Int { bits: 8, signed: true },
    Int { bits: 64, signed: true },
];
const OPERATORS: [&str; 18] =
    ["+", "-", "*", "/", "%", "&", "|", "^", "+|", "-|", "<<", ">>", "min", "max", "<", "<=", "==", "!="];

#[derive(Clone, Copy)]
struct Int {
    bits: u32,
    signed: bool,
}

impl Int {
    fn name(self) -> String {
        format!("{}{}", if self.signed { 'i' } else { 'u' }, self.bits)
    }

    fn cut(self, n: u128) -> u128 {
        n & (u128::MAX >> (128 - self.bits))
    }

    fn signed_value(self, n: u128) -> i128 {
        let up = 128 - self.bits;
        ((n << up) as i128) >> up
    }

    fn literal(self, n: u128) -> String {
        match self.signed {
            true => format!("{}(u{}({n}))", self.name(), self.bits),
            false => format!("{}({n})", self.name()),
        }
    }

    /// A number near a bound of some type.
    fn any(self, rng: &mut Rng) -> u128 {
        let bound = [0, 3, 7, 8, 16, 31, 32, 63, 64, 65, 127][rng.below(11) as usize];
        self.cut((1u128 << bound).wrapping_add(u128::from(rng.below(4))).wrapping_sub(2))
    }

    /// Text of the result, for operands of this type; a shift is by any unsigned number.
    fn result(self, op: &str, a: u128, b: u128) -> String {
        let (p, q) = (self.signed_value(a), self.signed_value(b));
        let less = if self.signed { p < q } else { a < b };
        let top = u128::MAX >> (128 - self.bits + u32::from(self.signed));
        let low = if self.signed { -(top as i128) - 1 } else { 0 };
        let n = match op {
            "+" => a.wrapping_add(b),
            "-" => a.wrapping_sub(b),
            "*" => a.wrapping_mul(b),
            "/" if self.signed => p.wrapping_div(q) as u128,
            "%" if self.signed => p.wrapping_rem(q) as u128,
            "/" => a / b,
            "%" => a % b,
            "&" => a & b,
            "|" => a | b,
            "^" => a ^ b,
            "+|" if self.signed => (p + q).clamp(low, top as i128) as u128,
            "-|" if self.signed => (p - q).clamp(low, top as i128) as u128,
            "+|" => a.saturating_add(b).min(top),
            "-|" => a.saturating_sub(b),
            "<<" | ">>" if b >= u128::from(self.bits) => 0,
            "<<" => a << b,
            ">>" if self.signed => (p >> b) as u128,
            ">>" => a >> b,
            "min" => {
                if less {
                    a
                } else {
                    b
                }
            }
            "max" => {
                if less {
                    b
                } else {
                    a
                }
            }
            "<" => return less.to_string(),
            "<=" => return (less || a == b).to_string(),
            "==" => return (a == b).to_string(),
            _ => return (a != b).to_string(),
        };
        self.literal(self.cut(n))
    }
}

fn applied(op: &str, a: &str, b: &str) -> String {
    match op {
        "min" | "max" => format!("{op}({a}, {b})"),
        _ => format!("({a} {op} {b})"),
    }
}

/// A function of one operator, and a test of it.
fn operator(rng: &mut Rng, (ty, by): (Int, Int), op: &str, out: &mut String) {
    let of_bool = ["<", "<=", "==", "!="].contains(&op);
    let ret = if of_bool { "bool".into() } else { ty.name() };
    let n = out.lines().count();
    let _ = writeln!(out, "fn f{n}(a: {}, b: {}) -> {ret} = {}", ty.name(), by.name(), applied(op, "a", "b"));
    let _ = writeln!(out, "test \"{} {op} {}\" {{", ty.name(), by.name());
    for _ in 0..PAIRS {
        let (a, mut b) = (ty.any(rng), by.any(rng));
        if ["/", "%"].contains(&op) && b == 0 {
            b = 1;
        }
        let result = ty.result(op, a, b);
        let (a, b) = (ty.literal(a), by.literal(b));
        let _ = writeln!(out, "    expect f{n}({a}, {b}) == {result}");
        let _ = writeln!(out, "    expect {} == {result}", applied(op, &a, &b));
    }
    out.push_str("}\n");
}

/// The tests that do not hold, with the number of the place where they end.
fn failed(module: &Module, program: &Program) -> Vec<(String, u32)> {
    // SAFETY: the program lives as long as the process.
    let mut mock = unsafe { Mock::new(program.table(), module, &[]) };
    let handlers = module.tests.iter().filter_map(|t| match &t.kind {
        TestKind::Code(h) => Some((t.name.clone(), h.0)),
        _ => None,
    });
    let run = |(name, handler)| {
        let (code, _, place) = mock.run_plain(handler);
        (code != WL_T_DONE).then_some((name, place))
    };
    handlers.filter_map(run).collect()
}

#[test]
fn operators_give_what_the_reference_says() {
    let mut rng = Rng::new(7);
    let mut source = String::new();
    for op in OPERATORS {
        for ty in TYPES {
            match op {
                "<<" | ">>" => {
                    TYPES.iter().filter(|by| !by.signed).for_each(|by| operator(&mut rng, (ty, *by), op, &mut source))
                }
                _ => operator(&mut rng, (ty, ty), op, &mut source),
            }
        }
    }
    // An index or a number of an enum is not cut to 64 bits.
    source.push_str(
        "enum Kind { zero, one }\nfn kind(n: u128) -> bool = Kind(n) is none\n\
         fn at(l: list<u8, 4>, b: bytes<4>, n: u128) -> u8 = if n < 4 { l[n] } else { 0 }\n\
         fn part(b: bytes<4>, n: u128) -> u8 = b[n]\n\
         test \"enum\" { expect kind(18446744073709551616)  expect not kind(1) }\n\
         test \"index\" { expect part(\"abcd\", 1) == 'b' }\n\
         test \"index beyond\" { let c = part(\"abcd\", 18446744073709551616)  expect c != 'b' }\n",
    );
    let file = std::env::temp_dir().join(format!("wireloom-wide-{}.loom", std::process::id()));
    std::fs::write(&file, &source).expect("the temporary folder is writable");
    let t = twins_at(&file, None, 0);
    std::fs::remove_file(&file).ok();
    let count = t.module.tests.len();
    assert!(count > 100, "{count} tests");
    let programs = [("interpreted", Some(&t.interpreted)), ("compiled", t.compiled.as_ref())];
    for (how, program) in programs.into_iter().filter_map(|(how, p)| p.map(|p| (how, p))) {
        let failed = failed(&t.module, program);
        let names: Vec<_> = failed.iter().map(|f| f.0.as_str()).collect();
        assert_eq!(names, ["index beyond"], "{how}: {failed:?}\n{source}");
    }
    no_internal_errors();
}
