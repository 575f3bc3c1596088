//! One C file, compiled in parts side by side, because a compiler uses one core only and users wait
//! for it.
//!
//! Functions that are called only by name or through a table (parsers, handlers, fault replies) are
//! set off while code is emitted. A large file gives each of them to one part. `WL_PART` is the
//! number of the part that is compiled, and the other parts see a prototype. Without `WL_PART` the
//! file is whole. Types, small functions and the program's tables stand in each part. If a part
//! does not use them, it costs only their reading.

/// Parts of a large file. More than two would read the headers more often, and few machines that
/// wait have the cores.
pub(crate) const PARTS: usize = 2;
/// Bytes of functions from which on parts are worth their headers.
const LARGE: usize = 48 << 10;

const BEGIN: char = '\u{1}';
const END: char = '\u{2}';

/// Sets functions apart. `protos` are the first lines of functions that others call, without
/// `static`. Without any: functions that the runtime calls.
pub(crate) fn apart(protos: &[String], text: &str) -> String {
    format!("{BEGIN}{}\n{text}{END}", protos.join("\t"))
}

/// The file's code with each function in its part, and how many parts there are.
pub(crate) fn divide(code: &str, whole: bool) -> (String, usize) {
    let pieces: Vec<Piece> = code.split(BEGIN).enumerate().flat_map(|(i, text)| Piece::of(text, i > 0)).collect();
    let all: usize = pieces.iter().map(|p| p.text.len()).sum();
    if whole || all < LARGE || pieces.iter().filter(|p| p.protos.is_some()).count() < 2 {
        return (pieces.iter().map(|p| p.text).collect(), 1);
    }
    // Text that is not set apart is in the first part: most of it is types, which cost little.
    let mut weights = [0; PARTS];
    weights[0] = pieces.iter().filter(|p| p.protos.is_none()).map(|p| p.text.len() / 2).sum();
    let mut order: Vec<usize> = (0..pieces.len()).filter(|i| pieces[*i].protos.is_some()).collect();
    order.sort_by_key(|i| std::cmp::Reverse(pieces[*i].text.len()));
    let mut part = vec![0; pieces.len()];
    for i in order {
        let calls_all = pieces[i].protos == Some("");
        let lightest = if calls_all { 0 } else { (0..PARTS).min_by_key(|p| weights[*p]).unwrap_or(0) };
        weights[lightest] += pieces[i].text.len();
        part[i] = lightest + 1;
    }
    (pieces.iter().zip(part).map(|(p, part)| p.in_part(part)).collect(), PARTS)
}

struct Piece<'a> {
    /// None: not set off.
    protos: Option<&'a str>,
    text: &'a str,
}

impl<'a> Piece<'a> {
    /// The text behind a mark: functions set apart, and the rest.
    fn of(text: &'a str, apart: bool) -> Vec<Piece<'a>> {
        if !apart {
            return vec![Piece { protos: None, text }];
        }
        let (head, rest) = text.split_once(END).unwrap_or((text, ""));
        let (protos, body) = head.split_once('\n').unwrap_or((head, ""));
        vec![Piece { protos: Some(protos), text: body }, Piece { protos: None, text: rest }]
    }

    fn in_part(&self, part: usize) -> String {
        let Some(protos) = self.protos else { return self.text.to_string() };
        let mut text = self.text.to_string();
        let mut declared = String::new();
        for proto in protos.split('\t').filter(|p| !p.is_empty()) {
            text = text.replacen(&format!("static {proto} {{"), &format!("WL_PARTED {proto} {{"), 1);
            declared.push_str(&format!("WL_PARTED {proto};\n"));
        }
        format!("#if WL_IN_PART({part})\n{text}#else\n{declared}#endif\n\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_files_stay_whole() {
        let code = format!(
            "a\n{}b\n{}",
            apart(&["int f(void)".into()], "static int f(void) {\n}\n"),
            apart(&["int g(void)".into()], "static int g(void) {\n}\n")
        );
        assert_eq!(divide(&code, false), ("a\nstatic int f(void) {\n}\nb\nstatic int g(void) {\n}\n".into(), 1));
    }

    #[test]
    fn large_files_have_each_function_once() {
        let body = "x;\n".repeat(LARGE / 6);
        let function =
            |name: &str| apart(&[format!("int {name}(void)")], &format!("static int {name}(void) {{\n{body}}}\n"));
        let code = ["f", "g", "h"].map(function).concat();
        let (text, parts) = divide(&code, false);
        assert_eq!(parts, PARTS);
        for (name, part) in [("f", 1), ("g", 2), ("h", 1)] {
            assert!(text.contains(&format!("#if WL_IN_PART({part})\nWL_PARTED int {name}(void) {{\n")), "{name}");
            assert!(text.contains(&format!("#else\nWL_PARTED int {name}(void);\n#endif\n")), "{name}");
        }
        assert!(!text.contains([BEGIN, END]));
        assert_eq!(divide(&code, true).1, 1);
    }
}
