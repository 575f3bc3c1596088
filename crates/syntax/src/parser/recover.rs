//! Reports unexpected tokens, and finds the point from which parsing continues.

use super::{Abort, Parser, P};
use crate::ast::Span;
use crate::diagnostic::Diagnostic;
use crate::token::Tok;

/// Words that start an item. At the very start of a line they end all open constructs.
pub(super) const ITEM_WORDS: &[&str] = &[
    "use", "const", "fault", "charset", "type", "enum", "record", "unit", "packet", "protocol", "fn", "extern",
    "element", "app", "table", "global", "test", "event", "segment", "export", "cache", "queue",
];

/// Those of them that stand only outside of everything.
const OUTER_WORDS: &[&str] =
    &["use", "charset", "enum", "record", "unit", "packet", "protocol", "element", "app", "test"];

/// Brackets that are open.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
struct OpenBrackets {
    braces: usize,
    parens: usize,
}

impl OpenBrackets {
    fn count(&mut self, tok: &Tok) {
        match tok {
            Tok::Sign("{") => self.braces += 1,
            Tok::Sign("}") => self.braces = self.braces.saturating_sub(1),
            Tok::Sign("(" | "[") => self.parens += 1,
            Tok::Sign(")" | "]") => self.parens = self.parens.saturating_sub(1),
            _ => {}
        }
    }
}

impl Parser<'_> {
    /// Records a diagnostic; one per token, so that one slip is not told twice.
    pub(super) fn report(&mut self, diagnostic: Diagnostic) {
        if self.reported == Some(self.at) && diagnostic.code == "E0101" {
            return;
        }
        self.reported = Some(self.at);
        if self.diagnostics.len() < super::MAX_ERRORS {
            self.diagnostics.push(diagnostic);
        }
    }

    #[cold]
    pub(super) fn unexpected<T>(&mut self, what: &str) -> P<T> {
        self.unexpected_with(what, |d| d)
    }

    #[cold]
    pub(super) fn unexpected_with<T>(&mut self, what: &str, more: impl FnOnce(Diagnostic) -> Diagnostic) -> P<T> {
        // The lexer has reported the error of a bad token.
        if *self.tok() == Tok::Bad {
            self.reported = Some(self.at);
            return Err(Abort);
        }
        let found = self.found();
        let d = Diagnostic::error("E0101", self.span(), format!("expected {what}, found {found}"))
            .label(format!("expected {what}"));
        let d = match self.slip() {
            Some(hint) => d.hint(hint),
            None => d,
        };
        self.report(more(d));
        Err(Abort)
    }

    /// The current token, for a message.
    fn found(&self) -> String {
        match self.tok() {
            Tok::End => "the end of the file".into(),
            _ => {
                let text: String = self.slice(self.span()).chars().take(30).collect();
                format!("`{text}`")
            }
        }
    }

    /// A hint for a sign that other languages use.
    fn slip(&self) -> Option<&'static str> {
        if self.word_text(0) == Some("not") && self.word_text(1) == Some("in") {
            return Some("write `not a in b`");
        }
        let Tok::Sign(sign) = self.tok() else { return None };
        Some(match *sign {
            "&&" => "write `and`",
            "||" => "write `or`",
            "++" => "write `a += 1`, a statement of its own; byte strings are joined with `concat(a, b)`",
            "--" => "write `a -= 1`, a statement of its own",
            "=>" => "`->` sends and names a result's type; `=>` stands between a case and its body",
            "->" => "`=>` stands between a case and its body; `->` sends",
            "<-" => "`<-` stands only in tests, as a step of its own, and in no `if`",
            "?" => "`if c { a } else { b }` chooses; `x else d` is the value of an option, or `d`",
            "@" | "$" => "this character has no meaning in the language",
            _ => return None,
        })
    }

    /// Reports a bracket that is never closed, at the bracket.
    #[cold]
    pub(super) fn unclosed<T>(&mut self, opened: Span) -> P<T> {
        if *self.tok() != Tok::Bad && self.reported != Some(self.at) {
            let open = self.slice(opened);
            let close = match open {
                "(" => ")",
                "[" => "]",
                "<" => ">",
                _ => "}",
            };
            let d = Diagnostic::error("E0102", opened, format!("this `{open}` is never closed"))
                .label("opened here")
                .also(self.span(), format!("`{close}` is missing before this"));
            self.report(d);
        }
        Err(Abort)
    }

    /// An item starts here, at the very start of a line: brackets that are still open were left
    /// open by mistake.
    pub(super) fn at_new_item(&self) -> bool {
        let start = self.span().start as usize;
        let first = start == 0 || self.text.as_bytes().get(start - 1) == Some(&b'\n');
        first
            && self.word_text(0).is_some_and(|w| OUTER_WORDS.contains(&w))
            && matches!(self.token(1).tok, Tok::Word | Tok::Bytes(_))
            && !self.token(1).newline
    }

    /// Skips the rest of a broken entry. It goes to the end of its line (or of the braces that run
    /// past it), a separator, or the `}` that closes the list. `from` is the start of the entry.
    pub(super) fn skip_entry(&mut self, from: usize) {
        let mut open = self.open_since(from);
        while !self.at_end() && !self.at_new_item() {
            if open.braces == 0 && self.at > from && self.token(0).newline && !self.line_goes_on(open.parens) {
                return;
            }
            match self.tok() {
                Tok::Sign("}") if open.braces == 0 => return,
                Tok::Sign(";" | ",") if open == OpenBrackets::default() && self.at > from => {
                    self.bump();
                    return;
                }
                _ => {}
            }
            open.count(&self.lexed.tokens[self.at].tok);
            self.bump();
        }
    }

    /// A list in parentheses that runs on to this line.
    fn line_goes_on(&self, parens: usize) -> bool {
        parens > 0 && self.at > 0 && matches!(self.lexed.tokens[self.at - 1].tok, Tok::Sign("," | "(" | "["))
    }

    /// The brackets that the tokens since `from` leave open.
    fn open_since(&self, from: usize) -> OpenBrackets {
        let mut open = OpenBrackets::default();
        for token in &self.lexed.tokens[from..self.at] {
            open.count(&token.tok);
        }
        open
    }

    /// Skips to the next item.
    pub(super) fn skip_item(&mut self, from: usize) {
        let mut open = self.open_since(from);
        while !self.at_end() {
            if self.at > from
                && (self.at_new_item() || (open.braces == 0 && (self.at_item_word() || self.at_line_of_words())))
            {
                return;
            }
            open.count(&self.lexed.tokens[self.at].tok);
            self.bump();
        }
    }

    /// Two words at the very start of a line: an item, if a misspelt one.
    fn at_line_of_words(&self) -> bool {
        let start = self.span().start as usize;
        start > 0 && self.text.as_bytes()[start - 1] == b'\n' && self.at_any_word() && self.word_here(1)
    }

    fn at_item_word(&self) -> bool {
        self.token(0).newline && self.word_text(0).is_some_and(|w| ITEM_WORDS.contains(&w))
    }

    /// Reports a construct of a later version and skips it.
    #[cold]
    pub(super) fn not_yet<T>(&mut self, what: &str) -> P<T> {
        let d = Diagnostic::error("E0110", self.span(), format!("{what} is not supported yet in this version"))
            .note("the language has it, but no backend of this version runs it");
        self.report(d);
        Err(Abort)
    }

    /// `=>` where the grammar has `->`, or the other way round: reported, then taken.
    pub(super) fn arrow(&mut self, right: &'static str, wrong: &'static str, what: &str) -> P<()> {
        if self.at_sign(wrong) {
            let d = Diagnostic::error("E0106", self.span(), format!("expected `{right}` {what}, found `{wrong}`"))
                .hint(format!("write `{right}`"));
            self.report(d);
            self.bump();
            return Ok(());
        }
        self.expect(right).map(|_| ())
    }

    /// The `:` between a name and its type or value; `=` is reported and taken.
    pub(super) fn colon(&mut self, what: &str) -> P<()> {
        if self.at_sign("=") {
            let d = Diagnostic::error("E0107", self.span(), format!("expected `:` {what}, found `=`"))
                .hint("write `name: …`; `=` gives a default or says how a field is computed");
            self.report(d);
        } else if !self.at_sign(":") {
            return self.unexpected(&format!("`:` {what}"));
        }
        self.mark_tight();
        self.bump();
        Ok(())
    }
}

/// The word of `known` that `word` is most likely a slip of.
pub(super) fn nearest<'k>(word: &str, known: &[&'k str]) -> Option<&'k str> {
    let limit = if word.len() < 4 { 1 } else { 2 };
    known.iter().map(|k| (distance(word, k), *k)).filter(|(d, _)| *d <= limit).min().map(|(_, k)| k)
}

/// Edits between two words; words longer than any keyword are far from all of them.
fn distance(a: &str, b: &str) -> usize {
    if a.len() > 20 {
        return usize::MAX;
    }
    strsim::levenshtein(a, b)
}
