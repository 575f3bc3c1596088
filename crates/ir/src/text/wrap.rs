//! Lines of at most [`WIDTH`] columns. The reader takes any white space between tokens for one.
//!
//! A longer line is broken at its last space outside of strings that fits. Without one it is broken
//! behind the last `(` that fits, or else in front of a `)` or a type. The rest is indented by four
//! columns more than the line's beginning. A string that is too long for a line ends in `\` there.
//! It continues at the first character of the next line that is no space.

/// Columns of a line.
pub const WIDTH: usize = 120;
/// Columns by which what follows a break is indented.
const DEEPER: usize = 4;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Break {
    No,
    /// In the place of a space.
    Space,
    /// Behind a `(`.
    Open,
    /// In front of a `)` or of the `:` before a type.
    Close,
    /// Within a string.
    Text,
}

/// A text that stays together, and whether a line may end behind it.
struct Atom {
    from: usize,
    to: usize,
    then: Break,
}

/// Appends a line and what it goes on in.
pub fn push(out: &mut String, indent: usize, text: &str) {
    let mut width = WIDTH - indent.min(WIDTH / 2);
    let mut blank = indent;
    let mut add = |line: &str, blank: usize| {
        // A name that is longer than the room behind the indentation begins further left.
        let blank = blank.min(WIDTH.saturating_sub(line.chars().count()));
        out.extend(std::iter::repeat_n(' ', blank));
        out.push_str(line);
        out.push('\n');
    };
    if text.chars().count() <= width {
        return add(text, blank);
    }
    let atoms = atoms(text);
    let mut first = 0;
    loop {
        let Some(last) = last_of_line(text, &atoms[first..], width) else {
            return add(&text[atoms[first].from..], blank);
        };
        let atom = &atoms[first + last];
        match atom.then {
            Break::Text => add(&format!("{}\\", &text[atoms[first].from..atom.to]), blank),
            Break::No | Break::Space | Break::Open | Break::Close => {
                add(text[atoms[first].from..atom.to].trim_end(), blank)
            }
        }
        first += last + 1;
        (blank, width) = (indent + DEEPER, WIDTH - (indent + DEEPER).min(WIDTH / 2));
    }
}

/// The atom behind which the line is best broken; None: all fits, or nothing can be broken.
fn last_of_line(text: &str, atoms: &[Atom], width: usize) -> Option<usize> {
    let (mut columns, mut best) = (0, None);
    let rank = |b: Break| match b {
        Break::No => 0,
        Break::Text => 1,
        Break::Close => 2,
        Break::Open => 3,
        Break::Space => 4,
    };
    for (n, a) in atoms.iter().enumerate() {
        columns += text[a.from..a.to].chars().count();
        // A space at the end is left out; a backslash is added.
        let fits = match a.then {
            Break::Space => columns <= width + 1,
            Break::Text => columns < width,
            Break::No | Break::Open | Break::Close => columns <= width,
        };
        if !fits && best.is_some() {
            return best.map(|(n, _)| n);
        }
        let better = best.is_none_or(|(_, so_far)| rank(a.then) >= rank(so_far));
        if a.then != Break::No && better && n + 1 < atoms.len() {
            best = Some((n, a.then))
        }
    }
    if columns <= width {
        None
    } else {
        best.map(|(n, _)| n)
    }
}

fn atoms(text: &str) -> Vec<Atom> {
    let chars: Vec<(usize, char)> = text.char_indices().collect();
    let end = |i: usize| chars.get(i).map_or(text.len(), |c| c.0);
    let (mut atoms, mut i, mut quoted, mut from) = (Vec::new(), 0, false, 0);
    while i < chars.len() {
        let c = chars[i].1;
        let mut next = i + 1;
        if quoted && c == '\\' {
            next = match chars.get(i + 1).map(|c| c.1) {
                Some('x') => i + 4,
                Some('u') => chars[i..].iter().position(|c| c.1 == '}').map_or(i + 2, |n| i + n + 1),
                _ => i + 2,
            };
        } else if c == '"' {
            quoted = !quoted;
        }
        let goes_on = chars.get(next).is_some_and(|c| !c.1.is_whitespace() && c.1 != '"');
        let then = match c {
            _ if quoted && c != '"' && goes_on => Break::Text,
            ' ' if !quoted => Break::Space,
            '(' if !quoted => Break::Open,
            _ if !quoted && chars.get(next).is_some_and(|c| matches!(c.1, ')' | ':')) => Break::Close,
            _ => Break::No,
        };
        if then != Break::No {
            atoms.push(Atom { from, to: end(next), then });
            from = end(next);
        }
        i = next;
    }
    if from < text.len() {
        atoms.push(Atom { from, to: text.len(), then: Break::No })
    }
    atoms
}
