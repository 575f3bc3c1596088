//! The one diagnostic type of the compiler, and how it is shown: as text with source excerpts, or
//! as JSON.

use crate::ast::Span;
use crate::codes;
use crate::source::{Source, SourceMap};
use std::collections::BTreeMap;
use std::fmt::Write;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    Error,
    Warning,
    Note,
}

impl Severity {
    pub fn name(self) -> &'static str {
        match self {
            Severity::Error => "error",
            Severity::Warning => "warning",
            Severity::Note => "note",
        }
    }
}

/// A place in the source and a text about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Label {
    pub span: Span,
    pub text: String,
}

/// A message of the compiler. `code` is stable and listed in [`codes`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    pub code: &'static str,
    pub severity: Severity,
    pub message: String,
    /// None where no source is to blame, such as a file that cannot be read.
    pub primary: Option<Label>,
    pub secondary: Vec<Label>,
    pub notes: Vec<String>,
    /// The remedy.
    pub hint: Option<String>,
}

/// For functions that stop at their first error. Boxed: the error is large and rare.
pub type Result<T> = std::result::Result<T, Box<Diagnostic>>;

/// Returns from the function with an error: `bail!("E0301", span, "expected {x}")`.
#[macro_export]
macro_rules! bail {
    ($code:expr, $span:expr, $($message:tt)+) => {
        return Err(Box::new($crate::diagnostic::Diagnostic::error($code, $span, format!($($message)+))).into())
    };
}

impl Diagnostic {
    pub fn error(code: &'static str, span: Span, message: impl Into<String>) -> Self {
        Self::at(code, Some(span), message)
    }

    pub fn warning(code: &'static str, span: Span, message: impl Into<String>) -> Self {
        Diagnostic { severity: Severity::Warning, ..Self::at(code, Some(span), message) }
    }

    /// An error that may have no place.
    pub fn at(code: &'static str, span: Option<Span>, message: impl Into<String>) -> Self {
        Diagnostic {
            code,
            severity: Severity::Error,
            message: message.into(),
            primary: span.map(|span| Label { span, text: String::new() }),
            secondary: Vec::new(),
            notes: Vec::new(),
            hint: None,
        }
    }

    /// The text at the primary place.
    pub fn label(mut self, text: impl Into<String>) -> Self {
        if let Some(primary) = &mut self.primary {
            primary.text = text.into();
        }
        self
    }

    /// Another place that matters.
    pub fn also(mut self, span: Span, text: impl Into<String>) -> Self {
        self.secondary.push(Label { span, text: text.into() });
        self
    }

    pub fn note(mut self, text: impl Into<String>) -> Self {
        self.notes.push(text.into());
        self
    }

    pub fn hint(mut self, text: impl Into<String>) -> Self {
        self.hint = Some(text.into());
        self
    }

    pub fn is_error(&self) -> bool {
        self.severity == Severity::Error
    }

    pub fn span(&self) -> Option<Span> {
        self.primary.as_ref().map(|l| l.span)
    }

    /// The text form, with excerpts of the source; `colour` adds ANSI sequences for a terminal.
    pub fn render(&self, map: &SourceMap, colour: bool) -> String {
        Renderer { map, colour, out: String::new() }.run(self)
    }

    /// One JSON object on one line.
    pub fn to_json(&self, map: &SourceMap) -> String {
        let mut out = String::new();
        let _ = write!(out, "{{\"code\":\"{}\",\"severity\":\"{}\"", self.code, self.severity.name());
        let title = codes::find(self.code).map_or("", |c| c.title);
        let _ = write!(out, ",\"title\":{},\"message\":{}", json_string(title), json_string(&self.message));
        let primary = self.primary.as_ref().map_or("null".to_string(), |l| json_label(l, map));
        let _ = write!(out, ",\"primary\":{primary}");
        let secondary: Vec<_> = self.secondary.iter().map(|l| json_label(l, map)).collect();
        let _ = write!(out, ",\"secondary\":[{}]", secondary.join(","));
        let notes: Vec<_> = self.notes.iter().map(|n| json_string(n)).collect();
        let _ = write!(out, ",\"notes\":[{}]", notes.join(","));
        let hint = self.hint.as_ref().map_or("null".to_string(), |h| json_string(h));
        let _ = write!(out, ",\"hint\":{hint}}}");
        out
    }
}

/// Brings diagnostics into the order of the source and drops repeated ones.
pub fn sort(diagnostics: &mut Vec<Diagnostic>) {
    diagnostics.sort_by_key(|d| d.span().map(|s| (s.file, s.start, s.end)));
    diagnostics.dedup();
}

/// All of them as text, with a last line that counts.
pub fn render_all(diagnostics: &[Diagnostic], map: &SourceMap, colour: bool) -> String {
    let mut out = String::new();
    for diagnostic in diagnostics {
        out.push_str(&diagnostic.render(map, colour));
        out.push('\n');
    }
    let count = |s| diagnostics.iter().filter(|d| d.severity == s).count();
    let plural = |n: usize, what: &str| format!("{n} {what}{}", if n == 1 { "" } else { "s" });
    match (count(Severity::Error), count(Severity::Warning)) {
        (0, 0) => {}
        (0, w) => out.push_str(&format!("{}\n", plural(w, "warning"))),
        (e, 0) => out.push_str(&format!("{}\n", plural(e, "error"))),
        (e, w) => out.push_str(&format!("{}, {}\n", plural(e, "error"), plural(w, "warning"))),
    }
    out
}

fn json_label(label: &Label, map: &SourceMap) -> String {
    let path = map.file(label.span.file).map(|f| f.shown()).unwrap_or_default();
    let start = map.position(label.span);
    let end = map.position(Span { start: label.span.end, ..label.span });
    format!(
        "{{\"file\":{},\"start\":{},\"end\":{},\"line\":{},\"column\":{},\"end_line\":{},\"end_column\":{},\"text\":{}}}",
        json_string(&path),
        label.span.start,
        label.span.end,
        start.line,
        start.column,
        end.line,
        end.column,
        json_string(&label.text)
    )
}

fn json_string(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            c if (c as u32) < 0x20 => {
                let _ = write!(out, "\\u{:04x}", c as u32);
            }
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

struct Renderer<'a> {
    map: &'a SourceMap,
    colour: bool,
    out: String,
}

/// A label cut to one line of the excerpt.
struct LineMark<'a> {
    from: usize,
    to: usize,
    primary: bool,
    text: &'a str,
}

const BOLD: &str = "1";
const RED: &str = "1;31";
const YELLOW: &str = "1;33";
const BLUE: &str = "1;34";
const GREEN: &str = "1;32";

impl<'a> Renderer<'a> {
    fn run(mut self, d: &'a Diagnostic) -> String {
        let colour = match d.severity {
            Severity::Error => RED,
            Severity::Warning => YELLOW,
            Severity::Note => GREEN,
        };
        self.paint(colour, &format!("{}[{}]", d.severity.name(), d.code));
        self.paint(BOLD, &format!(": {}", visible(&d.message)));
        self.out.push('\n');
        let labels: Vec<(&Label, bool)> =
            d.primary.iter().map(|l| (l, true)).chain(d.secondary.iter().map(|l| (l, false))).collect();
        let width = labels.iter().map(|(l, _)| self.map.position(l.span).line.to_string().len()).max().unwrap_or(1);
        let mut done = Vec::new();
        for (label, _) in &labels {
            if !done.contains(&label.span.file) {
                done.push(label.span.file);
                let here: Vec<_> = labels.iter().filter(|(l, _)| l.span.file == label.span.file).copied().collect();
                self.excerpt(&here, width, colour);
            }
        }
        for note in &d.notes {
            self.remark(width, "note", note);
        }
        if let Some(hint) = &d.hint {
            self.remark(width, "hint", hint);
        }
        self.out
    }

    fn remark(&mut self, width: usize, word: &str, text: &str) {
        let _ = write!(self.out, "{:width$} ", "");
        self.paint(BLUE, "= ");
        self.paint(BOLD, word);
        let indent = format!("\n{:pad$}", "", pad = width + 3 + word.len() + 2);
        let _ = writeln!(self.out, ": {}", visible(text).replace('\n', &indent));
    }

    /// The marked lines of one file, the first label's place in front.
    fn excerpt(&mut self, labels: &[(&'a Label, bool)], width: usize, colour: &str) {
        let Some(file) = labels.first().and_then(|(l, _)| self.map.file(l.span.file)) else { return };
        let first = labels[0].0.span;
        let _ = write!(self.out, "{:width$}", "");
        self.paint(BLUE, "--> ");
        let _ = writeln!(self.out, "{}", self.map.describe(first));
        self.gutter(width, "");
        self.out.push('\n');
        let mut lines: BTreeMap<usize, Vec<LineMark>> = BTreeMap::new();
        for (label, primary) in labels {
            let start = file.position(label.span.start);
            let end = file.position(label.span.end.max(label.span.start));
            let last = file.line_length(start.line) + 1;
            let to = if end.line == start.line { end.column } else { last };
            let mark =
                LineMark { from: start.column, to: to.max(start.column + 1), primary: *primary, text: &label.text };
            lines.entry(start.line).or_default().push(mark);
        }
        let mut previous = None;
        for (line, mut marks) in lines {
            if previous.is_some_and(|p| line > p + 1) {
                self.out.push_str("...\n");
            }
            previous = Some(line);
            self.gutter(width, &line.to_string());
            let window = Window::on(file, line, &marks);
            let _ = writeln!(self.out, " {}", window.text);
            window.shift(&mut marks);
            // From the right, so that each text has the rest of its own row.
            marks.sort_by_key(|m| std::cmp::Reverse(m.from));
            for mark in &marks {
                self.gutter(width, "");
                let _ = write!(self.out, "{:pad$}", "", pad = mark.from);
                let sign = if mark.primary { "^" } else { "-" };
                let line = sign.repeat((mark.to - mark.from).min(200));
                let text = if mark.text.is_empty() { line } else { format!("{line} {}", visible(mark.text)) };
                self.paint(if mark.primary { colour } else { BLUE }, &text);
                self.out.push('\n');
            }
        }
    }

    fn gutter(&mut self, width: usize, number: &str) {
        self.paint(BLUE, &format!("{number:>width$} |"));
    }

    fn paint(&mut self, code: &str, text: &str) {
        if self.colour {
            let _ = write!(self.out, "\x1b[{code}m{text}\x1b[0m");
        } else {
            self.out.push_str(text);
        }
    }
}

/// A character of a source as a terminal may get it. Those that control one are not passed on, nor
/// those that change the order of others.
fn shown(c: char) -> char {
    match c {
        '\t' => ' ',
        '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => char::REPLACEMENT_CHARACTER,
        c if c.is_control() => char::REPLACEMENT_CHARACTER,
        c => c,
    }
}

/// A text with names of a source in it.
fn visible(text: &str) -> String {
    text.chars().map(|c| if c == '\n' { c } else { shown(c) }).collect()
}

/// Most characters of a line that are shown, and how many of them stand before the first mark.
const WINDOW: usize = 240;
const BEFORE: usize = 40;

/// The part of a line that is shown: the whole line, unless it is too long to read.
struct Window {
    text: String,
    /// Characters left out in front, less the characters that represent them.
    cut: usize,
}

impl Window {
    fn on(file: &Source, line: usize, marks: &[LineMark]) -> Window {
        // The place that is to blame is seen, others where there is room.
        let first = marks.iter().min_by_key(|m| (!m.primary, m.from)).map_or(1, |m| m.from);
        let cut = if file.line_length(line) > WINDOW { first.saturating_sub(BEFORE) } else { 0 };
        let mut rest = file.line_behind(line, cut).chars().map(shown);
        let mut text: String = rest.by_ref().take(WINDOW).collect();
        if rest.next().is_some() {
            text.push('…');
        }
        match cut {
            0 => Window { text, cut },
            _ => Window { text: format!("…{text}"), cut: cut - 1 },
        }
    }

    /// Moves the marks to where their text is shown. Marks of hidden text go to the nearer end.
    fn shift(&self, marks: &mut [LineMark]) {
        for m in marks {
            m.from = m.from.saturating_sub(self.cut).clamp(1, WINDOW + 2);
            m.to = m.to.saturating_sub(self.cut).clamp(m.from + 1, WINDOW + 3);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> (SourceMap, Diagnostic) {
        let mut map = SourceMap::new();
        let file = map.add("a.loom", "one two\nthree\n");
        let span = |start, end| Span { file, start, end };
        let d = Diagnostic::error("E0101", span(4, 7), "expected \"x\"")
            .label("here")
            .also(span(8, 13), "opened here")
            .note("a note")
            .hint("write `x`");
        (map, d)
    }

    #[test]
    fn the_text_form_shows_the_source() {
        let (map, d) = sample();
        let expected = "error[E0101]: expected \"x\"\n --> a.loom:1:5\n  |\n1 | one two\n  |     ^^^ here\n\
                        2 | three\n  | ----- opened here\n  = note: a note\n  = hint: write `x`\n";
        assert_eq!(d.render(&map, false), expected);
        assert!(d.render(&map, true).contains("\x1b[1;31merror[E0101]"));
    }

    #[test]
    fn the_json_form_is_one_object() {
        let (map, d) = sample();
        let json = d.to_json(&map);
        assert!(json.starts_with("{\"code\":\"E0101\",\"severity\":\"error\""));
        assert!(json.contains("\"message\":\"expected \\\"x\\\"\""));
        assert!(json.contains("\"line\":1,\"column\":5,\"end_line\":1,\"end_column\":8"));
    }

    #[test]
    fn of_a_long_line_the_part_in_question_is_shown() {
        let mut map = SourceMap::new();
        let file = map.add("a.loom", format!("{}bad{}\n", "x".repeat(100_000), "y".repeat(100_000)));
        let shown = Diagnostic::error("E0101", Span { file, start: 100_000, end: 100_003 }, "no")
            .label("here")
            .render(&map, false);
        let (text, mark) = (shown.lines().nth(3).unwrap_or_default(), shown.lines().nth(4).unwrap_or_default());
        assert!(text.ends_with("yyy…") && shown.len() < 600, "{shown}");
        let column = |s: &str, c: char| s.chars().position(|x| x == c);
        assert_eq!(column(text, 'b'), column(mark, '^'), "{shown}");
        assert!(mark.ends_with(" ^^^ here"), "{shown}");
    }

    #[test]
    fn a_source_does_not_control_the_terminal() {
        let mut map = SourceMap::new();
        let text = "let x = \"\u{1b}[31m\u{202e}\r\0\tred\"\n";
        let file = map.add("t.loom", text.to_string());
        let d = Diagnostic::error("E0001", Span { file, start: 8, end: 12 }, "`\u{1b}` means\u{7} nothing")
            .label("\u{9b}")
            .hint("a\nb\u{85}");
        let shown = d.render(&map, false);
        assert!(shown.contains("\u{fffd}[31m") && shown.contains("red"), "{shown}");
        assert!(!shown.chars().any(|c| c != '\n' && (c.is_control() || c == '\u{202e}')), "{shown:?}");
    }

    #[test]
    fn a_span_outside_the_text_is_harmless() {
        let (map, mut d) = sample();
        d.primary =
            Some(Label { span: Span { start: 900, end: 3, ..d.span().unwrap_or_default() }, text: String::new() });
        d.render(&map, false);
        d.to_json(&map);
    }
}
