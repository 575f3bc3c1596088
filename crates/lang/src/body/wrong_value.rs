//! The diagnostics of values that cannot stand in a message: each cause has its code.

/// The mistake in a value that is given for a field, and its reason.
#[derive(Clone, Copy)]
pub enum Wrong<'a> {
    /// The field takes no such value.
    Value(&'a str),
    Items(&'a str),
    /// A length that is given says otherwise, or cannot say it.
    Length,
    /// The delimiter that ends the field is in it.
    Delimiter,
    /// It begins like something else that could stand there.
    Beginning(&'a str),
}

impl<'a> Wrong<'a> {
    /// Code, message and note.
    pub fn told(self) -> (&'static str, &'static str, &'a str) {
        match self {
            Wrong::Value(why) => ("E0433", "this value is not valid in this field", why),
            Wrong::Items(why) => ("E0437", "this list has a wrong number of items", why),
            Wrong::Length => ("E0438", "the length of this field does not fit its bytes", ""),
            Wrong::Delimiter => ("E0439", "this value has the delimiter in it that ends the field", ""),
            Wrong::Beginning(why) => ("E0440", "this value would be read as something else", why),
        }
    }
}
