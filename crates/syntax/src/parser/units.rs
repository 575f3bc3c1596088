//! Units: fields and their form in the bytes.

use super::exprs::Level;
use super::{Column, Parser, P};
use crate::ast::{
    BytesWord, Case, CaseBody, Expr, Extent, Field, FieldKind, Guard, Ident, ListExtent, Mark, Packet, PacketAfter,
    PacketHeader, Shape, ShapeKind, Type, Unit, Until,
};
use crate::diagnostic::Diagnostic;
use crate::token::Tok;

/// The clauses that may follow a field's shape.
#[derive(Default)]
struct Tail {
    within: Option<Expr>,
    computed: Option<Expr>,
    or: Option<Ident>,
    mark: Option<Box<Mark>>,
}

impl Parser<'_> {
    /// `unit Name(params) { fields }`
    pub(super) fn unit(&mut self) -> P<Unit> {
        self.bump();
        let name = self.name("a unit")?;
        let params = if self.at_sign("(") { self.params()? } else { Vec::new() };
        self.column(Column::Options);
        let fields = self.fields()?;
        Ok(Unit { name, params, fields })
    }

    fn fields(&mut self) -> P<Vec<Field>> {
        self.nested(|p| p.braced(Self::field))
    }

    fn field(&mut self) -> P<Field> {
        let (doc, start) = (self.doc(), self.span());
        let kind = self.field_kind()?;
        Ok(Field { doc, span: self.since(start), kind })
    }

    fn field_kind(&mut self) -> P<FieldKind> {
        if let Tok::Bytes(_) = self.tok() {
            let values = self.delimiters()?;
            return Ok(FieldKind::Literal { values, or: self.or_fault()? });
        }
        let Some(word) = self.word_text(0) else { return self.unexpected("a field") };
        if self.sign_at(1, ":") || self.sign_at(1, "=") && word != "let" {
            return self.value_field();
        }
        match word {
            "order" => {
                self.bump();
                let word = self.word_text(0);
                if !matches!(word, Some("big" | "little")) {
                    return self.unexpected("`big` or `little`");
                }
                self.column(Column::Type);
                self.bump();
                Ok(FieldKind::Order { big: word == Some("big") })
            }
            "let" => {
                self.bump();
                let name = self.name("a value")?;
                let ty = self.type_annotation()?;
                self.column(Column::Equals);
                let value = self.value("let", name.span)?;
                Ok(FieldKind::Let { name, ty, value })
            }
            "require" => {
                self.bump();
                let cond = self.expr_no_else()?;
                Ok(FieldKind::Require { cond, or: self.or_fault()? })
            }
            "append" if self.word_here(1) => {
                self.bump();
                let list = self.any_word("a list")?;
                let fields = self.build_fields()?;
                if !self.eat_word("when") {
                    return self.unexpected("`when`");
                }
                Ok(FieldKind::Append { list, fields, when: self.expr()? })
            }
            "limit" => self.limit_field(),
            "recover" => self.recover_field(),
            "pass" => self.pass_field(),
            "partial" if self.word_here(1) => {
                self.bump();
                Ok(FieldKind::Partial(self.any_word("the field that says so")?))
            }
            "addresses" if self.word_here(1) => self.addresses(),
            "per_packet" if self.word_here(1) => {
                self.bump();
                let mut fields = vec![self.any_word("a field")?];
                while self.eat(",") {
                    fields.push(self.any_word("a field")?);
                }
                Ok(FieldKind::PerPacket(fields))
            }
            "link" if self.word_here(1) => {
                self.bump();
                if !self.at_word("ethernet") && !self.at_word("ip") {
                    return self.unexpected("`ethernet` or `ip`");
                }
                Ok(FieldKind::Link(self.any_word("a link")?))
            }
            "switch" => {
                self.bump();
                self.unexpected_with("`:` after the field's name `switch`", |d| {
                    d.hint("a switch is a field with a name, too: `body: switch kind { … }`")
                })
            }
            _ => {
                let name = self.any_word("a field")?;
                self.unexpected_with(&format!("`:` after the field's name `{}`", name.name), |d| {
                    d.hint(
                        "a field is `name: shape`, a literal, `let`, `require`, `order`, `recover`, `pass` or `append`",
                    )
                })
            }
        }
    }

    /// `limit 16MiB`
    fn limit_field(&mut self) -> P<FieldKind> {
        self.bump();
        Ok(FieldKind::Limit(self.expr()?))
    }

    fn recover_field(&mut self) -> P<FieldKind> {
        self.bump();
        if self.at_word("until") {
            let until = self.until()?;
            return Ok(FieldKind::Recover { until: Some(until), length: None });
        }
        if self.at_sign("[") {
            let length = self.length()?;
            return Ok(FieldKind::Recover { until: None, length: Some(length) });
        }
        self.unexpected("`until` or `[length]`")
    }

    fn pass_field(&mut self) -> P<FieldKind> {
        self.bump();
        if self.one_of(&["when", "as"])? == 0 {
            return Ok(FieldKind::PassWhen(self.expr()?));
        }
        Ok(FieldKind::PassAs(self.any_word("a case of the switch")?))
    }

    /// `name: shape in set = expr else fault`
    fn value_field(&mut self) -> P<FieldKind> {
        let name = self.any_word("a field's name")?;
        let name = (name.name != "_").then_some(name);
        self.colon("between the field's name and its shape")?;
        self.column(Column::Type);
        let shape = self.shape()?;
        let tail = self.tail()?;
        Ok(FieldKind::Value { name, shape, within: tail.within, computed: tail.computed, or: tail.or, mark: tail.mark })
    }

    /// Whether `in` says more of a field, and is not the next field's name.
    pub(super) fn at_within(&self) -> bool {
        self.at_word("in") && !(self.breaks(0) && self.sign_at(1, ":"))
    }

    /// `in 5..=15`, `in {1, 2}`
    pub(super) fn within(&mut self) -> P<Expr> {
        self.column(Column::Equals);
        self.bump();
        if self.at_sign("{") {
            self.set()
        } else {
            self.nested(|p| p.binary(Level::Range))
        }
    }

    fn tail(&mut self) -> P<Tail> {
        let mut tail = Tail::default();
        loop {
            if tail.within.is_none() && self.at_within() {
                tail.within = Some(self.within()?);
            } else if self.at_sign("=") && tail.computed.is_none() {
                self.column(Column::Equals);
                self.bump();
                tail.computed = Some(self.expr_no_else()?);
            } else if matches!(self.word_text(0), Some("checksum" | "covers"))
                && !self.sign_at(1, ":")
                && tail.mark.is_none()
            {
                self.column(Column::Equals);
                tail.mark = Some(Box::new(self.header_mark()?));
            } else if self.at_else_fault() && tail.or.is_none() {
                tail.or = self.or_fault()?;
            } else {
                return Ok(tail);
            }
        }
    }

    /// `addresses src, dst`
    fn addresses(&mut self) -> P<FieldKind> {
        self.bump();
        let src = self.any_word("the field of the source address")?;
        self.expect(",")?;
        Ok(FieldKind::Addresses(src, self.any_word("the field of the destination address")?))
    }

    /// `checksum transport 17 optional`, `covers own`
    fn header_mark(&mut self) -> P<Mark> {
        let covers = self.at_word("covers");
        self.bump();
        if covers {
            let own = self.at_word("own");
            if !own && !self.at_word("rest") {
                return self.unexpected("`own` or `rest`");
            }
            self.bump();
            return Ok(Mark::Covers { own });
        }
        if !matches!(self.word_text(0), Some("header" | "message" | "transport")) {
            return self.unexpected("`header`, `message` or `transport` and a protocol's number");
        }
        let over = self.any_word("an extent")?;
        let protocol = if over.name == "transport" { Some(self.nested(|p| p.binary(Level::Sum))?) } else { None };
        let optional = self.at_word("optional") && !self.sign_at(1, ":") && self.eat_word("optional");
        Ok(Mark::Checksum { over, protocol, optional })
    }

    // ---- packets ----

    /// `packet Name { header: Unit after other where cond, let name = e }`
    pub(super) fn packet(&mut self) -> P<Packet> {
        self.bump();
        let name = self.name("a packet type")?;
        self.column(Column::Options);
        let (mut headers, mut lets) = (Vec::new(), Vec::new());
        self.braced(|p| {
            if p.at_word("let") && p.word_here(1) {
                p.bump();
                let name = p.any_word("a member")?;
                let ty = p.type_annotation()?;
                p.column(Column::Equals);
                p.expect("=")?;
                lets.push((name, ty, p.expr()?));
                return Ok(());
            }
            let doc = p.doc();
            let name = p.any_word("a header's name")?;
            p.colon("between the header's name and its unit")?;
            p.column(Column::Type);
            let unit = p.ty()?;
            let mut after = Vec::new();
            while p.at_word("after") && !p.sign_at(1, ":") {
                p.column(Column::Extent);
                p.bump();
                let header = p.any_word("the header before")?;
                let cond = if p.eat_word("where") { Some(p.expr_no_else()?) } else { None };
                after.push(PacketAfter { header, cond });
            }
            headers.push(PacketHeader { doc, name, unit, after });
            Ok(())
        })?;
        Ok(Packet { name, headers, lets })
    }

    /// `else` that is not the next case of the switch around.
    fn at_else_fault(&self) -> bool {
        self.at_word("else") && !self.sign_at(1, "=>") && !self.sign_at(1, "->")
    }

    /// `else fault_name`, also `else fault fault_name`
    fn or_fault(&mut self) -> P<Option<Ident>> {
        if !self.at_else_fault() {
            return Ok(None);
        }
        self.bump();
        if self.at_word("fault") && self.word_here(1) {
            self.bump();
        }
        self.any_word("a fault's name").map(Some)
    }

    // ---- shapes ----

    pub(super) fn shape(&mut self) -> P<Shape> {
        self.nested(|p| {
            let start = p.span();
            let kind = p.shape_kind()?;
            Ok(Shape { span: p.since(start), kind })
        })
    }

    fn shape_kind(&mut self) -> P<ShapeKind> {
        let next_string = matches!(self.token(1).tok, Tok::Bytes(_));
        match self.word_text(0) {
            Some("decimal") => self.number(10),
            Some("hex") => self.number(16),
            Some("varint") if self.sign_at(1, "<") => {
                self.bump();
                let mut types = self.angled(Self::ty)?;
                if types.len() != 1 {
                    return self.missing_size("`varint` takes one type: `varint<u64>`");
                }
                Ok(ShapeKind::Varint { ty: types.remove(0) })
            }
            Some(word @ ("bytes" | "token" | "text")) => self.bytes_shape(word),
            Some("list") => self.list_shape(),
            Some("stream") => self.stream_shape(),
            Some("switch") => self.switch_shape(),
            Some("nothing") => {
                self.bump();
                Ok(ShapeKind::Nothing)
            }
            Some("flag") if next_string => {
                self.bump();
                Ok(ShapeKind::Flag(self.string("the bytes of the flag")?))
            }
            Some("pad") if self.operand_follows() => {
                self.bump();
                Ok(ShapeKind::Align(self.nested(|p| p.binary(Level::Sum))?))
            }
            Some("skip") if self.operand_follows() => {
                self.bump();
                Ok(ShapeKind::Skip(self.nested(|p| p.binary(Level::Sum))?))
            }
            _ => self.named_shape(),
        }
    }

    fn operand_follows(&self) -> bool {
        !self.token(1).newline
            && matches!(self.token(1).tok, Tok::Int(_) | Tok::Scaled(..) | Tok::Word | Tok::Sign("("))
    }

    #[cold]
    fn missing_size<T>(&mut self, message: &str) -> P<T> {
        self.report(Diagnostic::error("E0109", self.span(), message));
        Err(super::Abort)
    }

    /// `decimal<u32, 3> until "\r\n"`
    fn number(&mut self, radix: u8) -> P<ShapeKind> {
        self.bump();
        if !self.at_sign("<") {
            return self.missing_size("a number written as text names its type: `decimal<u32>`, `hex<u64>`");
        }
        self.open_angle()?;
        let ty = self.ty()?;
        let digits = if self.eat_kept_comma() { Some(self.const_arg()?) } else { None };
        self.close_angle()?;
        let until = if self.at_word("until") {
            self.column(Column::Extent);
            Some(self.until()?)
        } else {
            None
        };
        Ok(ShapeKind::Number { radix, ty, digits, until })
    }

    /// `bytes<N> of set [n] trim set caseless`
    fn bytes_shape(&mut self, word: &str) -> P<ShapeKind> {
        let name = self.bump();
        let word = match word {
            "token" => BytesWord::Token,
            "text" => BytesWord::Text,
            _ => BytesWord::Bytes,
        };
        let max = self.max_size(name)?;
        let (mut of, mut trim, mut caseless, mut extent) = (None, None, false, Extent::None);
        loop {
            if self.at_word("of") && of.is_none() {
                self.bump();
                of = Some(self.set_operand()?);
            } else if self.at_word("trim") && trim.is_none() && !self.sign_at(1, ":") {
                self.bump();
                trim = Some(self.set_operand()?);
            } else if self.at_word("caseless") && !caseless && !self.sign_at(1, ":") {
                self.bump();
                caseless = true;
            } else if self.at_extent() && matches!(extent, Extent::None) {
                extent = self.extent()?;
            } else {
                break;
            }
        }
        self.no_condition(&extent);
        if of.is_none() && word != BytesWord::Token && matches!(extent, Extent::None) {
            self.no_extent(name, "this field")?;
        }
        Ok(ShapeKind::Bytes { word, max, of, extent, trim, caseless })
    }

    /// The operand of `of` and `trim`: a set's name or a set, which an extent `[n]` may follow.
    fn set_operand(&mut self) -> P<Expr> {
        let saved = std::mem::replace(&mut self.no_index, true);
        let set = if self.at_sign("{") { self.set() } else { self.place() };
        self.no_index = saved;
        set
    }

    /// `<N>` after `bytes` and the like
    fn max_size(&mut self, name: crate::ast::Span) -> P<Expr> {
        if !self.at_sign("<") {
            let word = self.slice(name);
            let d = Diagnostic::error("E0109", name, format!("`{word}` needs its largest size"))
                .hint(format!("write `{word}<N>`: at most N bytes"));
            self.report(d);
            return Err(super::Abort);
        }
        self.open_angle()?;
        let max = self.const_arg()?;
        self.close_angle()?;
        Ok(max)
    }

    /// `until` with a condition looks at items; bytes have none.
    fn no_condition(&mut self, extent: &Extent) {
        if let Extent::Done(e) = extent {
            let d = Diagnostic::error("E0101", e.span, "expected a string after `until`")
                .hint("a condition ends a `list` or a `stream` of units; bytes end at a delimiter: `until \"\\r\\n\"`");
            self.report(d);
        }
    }

    /// Reports a shape that does not say where it ends.
    #[cold]
    fn no_extent(&mut self, at: crate::ast::Span, what: &str) -> P<()> {
        let span = self.since(at);
        let d = Diagnostic::error("E0109", span, format!("nothing says where {what} ends"));
        let string = matches!(self.tok(), Tok::Bytes(_)) && !self.token(0).newline;
        if string {
            let text = self.slice(self.span());
            self.report(d.hint(format!("write `until {text}`")));
            // Take the delimiter, so that it is no literal of its own.
            self.bump();
        } else {
            self.report(
                d.hint("add `[length]`, `until \"…\"` or `to end`; `bytes<N> of set` takes the longest run of the set"),
            );
        }
        Ok(())
    }

    fn at_extent(&self) -> bool {
        let word = matches!(self.word_text(0), Some("until" | "to")) && !self.sign_at(1, ":");
        word || self.at_sign("[") && !self.breaks(0)
    }

    /// `[n]`, `until "…"`, `until close`, `until .size == 0`, `to end`
    fn extent(&mut self) -> P<Extent> {
        self.column(Column::Extent);
        if self.at_sign("[") {
            return self.length().map(Extent::Length);
        }
        if self.eat_word("to") {
            self.expect_word("end")?;
            return Ok(Extent::ToEnd);
        }
        if self.word_at(1, "close") {
            self.bump();
            self.bump();
            return Ok(Extent::Close);
        }
        if self.word_at(1, "peek") || matches!(self.token(1).tok, Tok::Bytes(_)) {
            return self.until().map(Extent::Until);
        }
        self.bump();
        if matches!(self.tok(), Tok::Sign(_) | Tok::Word) && !self.breaks(0) {
            return self.expr_no_else().map(Extent::Done);
        }
        self.unexpected("a string, `close`, or a condition on the item (`.size == 0`)")
    }

    /// `[n]`
    fn length(&mut self) -> P<Expr> {
        let opened = self.expect("[")?;
        self.inside(false, |p| {
            let length = p.expr()?;
            p.close("]", opened)?;
            Ok(length)
        })
    }

    /// `until "\r\n" or "\n"`, `until peek "\r\n"`
    fn until(&mut self) -> P<Until> {
        let start = self.expect_word("until")?;
        let peek = self.eat_word("peek");
        let delimiters = self.delimiters()?;
        Ok(Until { span: self.since(start), delimiters, peek })
    }

    /// `"\r\n" or "\n"`
    fn delimiters(&mut self) -> P<Vec<Vec<u8>>> {
        let mut values = vec![self.string("a string")?];
        while self.at_word("or") && matches!(self.token(1).tok, Tok::Bytes(_)) {
            self.bump();
            values.push(self.string("a string")?);
        }
        Ok(values)
    }

    /// `list<shape, N> extent`
    fn list_shape(&mut self) -> P<ShapeKind> {
        let start = self.bump();
        if !self.at_sign("<") {
            return self.missing_size("a list names its element and its largest length: `list<Header, 100>`");
        }
        self.open_angle()?;
        let around = std::mem::replace(&mut self.in_angles, true);
        let element = self.shape();
        self.in_angles = around;
        let element = Box::new(element?);
        if !self.at_sign(",") {
            return self.missing_size("a list needs its largest length: `list<Header, 100>`");
        }
        self.eat_kept_comma();
        let max = self.const_arg()?;
        self.close_angle()?;
        let extent = self.list_extent(start)?;
        Ok(ShapeKind::List { element, max, extent })
    }

    fn list_extent(&mut self, start: crate::ast::Span) -> P<ListExtent> {
        if self.at_word("fold") && self.word_here(1) {
            return self.fold_extent();
        }
        if !self.at_extent() {
            self.no_extent(start, "this list")?;
            return Ok(ListExtent::ToEnd);
        }
        match self.extent()? {
            Extent::Length(count) => Ok(ListExtent::Count(count)),
            Extent::Until(until) => Ok(ListExtent::Until(until)),
            Extent::Done(done) => Ok(ListExtent::Done(done)),
            _ => Ok(ListExtent::ToEnd),
        }
    }

    /// `fold left = 1 then left - 1 + .children until left == 0`
    fn fold_extent(&mut self) -> P<ListExtent> {
        self.column(Column::Extent);
        self.bump();
        let name = self.name("the accumulator")?;
        self.expect("=")?;
        let init = self.expr_no_else()?;
        self.expect_word("then")?;
        let step = self.expr_no_else()?;
        self.expect_word("until")?;
        let done = self.expr_no_else()?;
        Ok(ListExtent::Fold { name, init, step, done })
    }

    /// `stream bytes [n]`, `stream Chunk`
    fn stream_shape(&mut self) -> P<ShapeKind> {
        let from = self.bump();
        let plain = self.at_word("bytes") && !self.sign_at(1, "<");
        let element = if plain {
            self.bump();
            None
        } else {
            Some(Box::new(self.named_plain()?))
        };
        let extent = if self.at_extent() { self.extent()? } else { Extent::None };
        if plain {
            self.no_condition(&extent);
        }
        if plain && matches!(extent, Extent::None) {
            let d = Diagnostic::error("E0109", self.since(from), "nothing says where this stream ends")
                .hint("add `[length]`, `until close` or `to end`");
            self.report(d);
        }
        Ok(ShapeKind::Stream { element, extent })
    }

    /// An integer, an enum, a unit: by name, with its suffixes.
    fn named_shape(&mut self) -> P<ShapeKind> {
        let inner = self.named_plain()?;
        if !self.at_extent() {
            return Ok(inner.kind);
        }
        let extent = self.extent()?;
        self.no_condition(&extent);
        Ok(ShapeKind::Enclosed { inner: Box::new(inner), extent })
    }

    /// `u16 little`, `Chunk(x)`
    fn named_plain(&mut self) -> P<Shape> {
        let start = self.span();
        let ty: Type = self.ty()?;
        let args = if self.at_sign("(") && !self.breaks(0) { self.plain_args()? } else { Vec::new() };
        let order = match self.word_text(0) {
            Some(word @ ("big" | "little")) if !self.sign_at(1, ":") && !self.breaks(0) => {
                self.bump();
                Some(word == "big")
            }
            _ => None,
        };
        Ok(Shape { span: self.since(start), kind: ShapeKind::Named { ty, args, order } })
    }

    // ---- switch ----

    fn switch_shape(&mut self) -> P<ShapeKind> {
        self.bump();
        let on = if self.at_sign("{") { None } else { Some(Box::new(self.condition_expr()?)) };
        let has_value = on.is_some();
        let cases = self.braced(|p| p.case(has_value))?;
        Ok(ShapeKind::Switch { on, cases })
    }

    fn case(&mut self, has_value: bool) -> P<Case> {
        let start = self.span();
        let guard = self.guard(has_value)?;
        self.column(Column::Arrow);
        self.arrow("=>", "->", "after the case")?;
        let body = self.case_body()?;
        Ok(Case { span: self.since(start), guard, body })
    }

    fn guard(&mut self, has_value: bool) -> P<Guard> {
        if self.eat_word("else") {
            return Ok(Guard::Else);
        }
        if self.at_word("when") {
            self.bump();
            if self.at_any_word() && self.sign_at(1, "=") {
                let name = self.name("a value")?;
                self.bump();
                return Ok(Guard::WhenSome(name, self.expr_no_else()?));
            }
            return Ok(Guard::When(self.expr_no_else()?));
        }
        let peeks = self.at_word("peek") && matches!(self.token(1).tok, Tok::Bytes(_));
        if !has_value && (peeks || matches!(self.tok(), Tok::Bytes(_))) {
            return self.literal_guard();
        }
        if !has_value {
            return self.unexpected_with("a case: `when …`, a string or `else`", |d| {
                d.hint("`switch value { … }` has cases by value")
            });
        }
        self.mark_tight_if(",");
        let mut values = vec![self.alternative()?];
        while self.eat("|") {
            values.push(self.alternative()?);
        }
        Ok(Guard::Values(values))
    }

    /// `"get " | "gets "`, `peek "VALUE " | peek "END"`
    fn literal_guard(&mut self) -> P<Guard> {
        let peek = self.at_word("peek");
        let mut values = Vec::new();
        loop {
            if self.at_word("peek") != peek {
                return self.unexpected("the same form as the case's first string: all with `peek`, or none");
            }
            self.eat_word("peek");
            values.push(self.string("a string")?);
            if !self.eat("|") && !self.eat_word("or") {
                return Ok(Guard::Literal { values, peek });
            }
        }
    }

    fn case_body(&mut self) -> P<CaseBody> {
        if self.at_sign("{") {
            return self.fields().map(CaseBody::Fields);
        }
        if self.at_word("nothing") && !self.sign_at(1, ":") {
            self.bump();
            return Ok(CaseBody::Nothing);
        }
        if self.at_word("fault") && self.word_here(1) {
            self.bump();
            return self.any_word("a fault's name").map(CaseBody::Fault);
        }
        let (doc, start) = (self.doc(), self.span());
        let name = if self.at_any_word() && self.sign_at(1, ":") {
            let name = self.any_word("a field's name")?;
            self.colon("between the field's name and its shape")?;
            self.column(Column::Type);
            Some(name)
        } else {
            None
        };
        let shape = self.shape()?;
        let tail = self.tail()?;
        let kind = FieldKind::Value {
            name: name.clone(),
            shape,
            within: tail.within,
            computed: tail.computed,
            or: tail.or,
            mark: tail.mark,
        };
        Ok(CaseBody::Field(name, Box::new(Field { doc, span: self.since(start), kind })))
    }
}
