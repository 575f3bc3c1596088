//! Parsing: units, their fields and layers.

use super::lex::FAT_ARROW;
use super::parser::{Parser, Res};
use crate::*;

impl Parser {
    pub fn unit(&mut self) -> Res<Unit> {
        let mut u = Unit {
            name: self.str()?,
            doc: String::new(),
            span: Span::default(),
            params: Vec::new(),
            asked: Vec::new(),
            fields: Vec::new(),
            body: Vec::new(),
            tail: 0,
            streams: false,
            limit: None,
            min: 0,
            max: 0,
            head_max: 0,
            first: ByteSet::EMPTY,
            frame: None,
            header: Header::default(),
        };
        self.braces(|p| {
            let word = p.any_word()?;
            match word.as_str() {
                "field" => {
                    let f = p.field(u.fields.len())?;
                    u.fields.push(f);
                    return Ok(());
                }
                "fast_path" => {
                    u.frame.get_or_insert_default().fast_path = Some(p.fast_path()?);
                    return Ok(());
                }
                "doc" => u.doc = p.str()?,
                "param" | "asked" => {
                    let name = p.str()?;
                    p.sign(':')?;
                    let ty = p.ty()?;
                    p.word("shift")?;
                    let shift = p.num()?;
                    p.word("bits")?;
                    let list = if word == "param" { &mut u.params } else { &mut u.asked };
                    list.push(UnitParam { name, ty, shift, bits: p.num()? });
                }
                "limit" => u.limit = Some(p.num()?),
                "checksum" => u.header.checksum = Some(p.checksum()?),
                "addresses" => {
                    let a = FieldId(p.index()?);
                    p.sign(',')?;
                    u.header.addresses = Some((a, FieldId(p.index()?)));
                }
                "per_packet" => u.header.per_packet = p.list(|p| Ok(FieldId(p.index()?)))?,
                "link" => {
                    u.header.link = match p.any_word()?.as_str() {
                        "ethernet" => desc::Begins::Ethernet,
                        "ip" => desc::Begins::Ip,
                        w => return p.error(format!("unknown link `{w}`")),
                    }
                }
                "partial" => u.header.partial = Some(FieldId(p.index()?)),
                "covers" => u.header.covers = Some(Covers { field: FieldId(p.index()?), own: p.eat_word("own") }),
                "layer" => {
                    let l = p.layer()?;
                    u.frame.get_or_insert_default().layers.push(l)
                }
                "no_layers" => drop(u.frame.get_or_insert_default()),
                "branch_free" => u.frame.get_or_insert_default().branch_free = true,
                "slot" => {
                    let layer = p.index()?;
                    let slot = plans::HeaderSlot { layer, field: FieldId(p.index()?) };
                    u.frame.get_or_insert_default().slots.push(slot)
                }
                "measure" => {
                    p.word("tail")?;
                    u.tail = p.num()?;
                    u.streams = p.eat_word("streams");
                    p.word("min")?;
                    u.min = p.num()?;
                    p.word("max")?;
                    u.max = p.num()?;
                    p.word("head_max")?;
                    u.head_max = p.num()?;
                    p.word("first")?;
                    u.first = p.set()?;
                }
                "body" => u.body = p.list(|p| p.index().map(FieldId))?,
                _ => return p.error(format!("unknown word `{word}` in a unit")),
            }
            p.sign(';')
        })?;
        u.span = self.span()?;
        Ok(u)
    }

    fn checksum(&mut self) -> Res<Checksum> {
        let field = FieldId(self.index()?);
        self.word("over")?;
        let over = match self.any_word()?.as_str() {
            "header" => Over::Header,
            "message" => Over::Message,
            "transport" => Over::Transport { protocol: self.num()?, optional: self.eat_word("optional") },
            w => return self.error(format!("unknown extent of a checksum `{w}`")),
        };
        let when = if self.eat_word("when") { Some(FieldId(self.index()?)) } else { None };
        Ok(Checksum { field, over, when })
    }

    fn layer(&mut self) -> Res<Layer> {
        let (switch, header) = (FieldId(self.index()?), FieldId(self.index()?));
        self.word("of")?;
        let unit = UnitId(self.index()?);
        self.word("after")?;
        let after = self.list(|p| {
            let layer = if p.eat_word("start") { None } else { Some(p.num()?) };
            Ok(After { layer, cond: if p.eat_word("if") { Some(p.expr()?) } else { None } })
        })?;
        Ok(Layer { switch, header, unit, after })
    }

    fn field(&mut self, n: usize) -> Res<Field> {
        if self.index()? as usize != n {
            return self.error("fields are numbered in order");
        }
        let name = self.name()?;
        self.sign(':')?;
        let ty = self.ty()?;
        self.word("at")?;
        let place = PlaceId(self.num()?);
        self.word("bad")?;
        let bad = FaultKind(self.num()?);
        self.word("too_long")?;
        let too_long = FaultKind(self.num()?);
        let within = if self.eat_word("in") { Some(self.list(Self::range)?) } else { None };
        let lies_in = if self.eat_word("lies_in") { Some(self.expr()?) } else { None };
        let computed = if self.eat_word("computed") {
            let lengths = self.list(|p| p.index().map(FieldId))?;
            self.word("plus")?;
            let negative = self.eat('-');
            let n: u64 = self.num()?;
            Some(Computed { lengths, plus: if negative { (n as i64).wrapping_neg() } else { n as i64 } })
        } else {
            None
        };
        let (value_used, extent_used) = (self.eat_word("value"), self.eat_word("extent"));
        let doc = if self.eat_word("doc") { self.str()? } else { String::new() };
        self.sign('=')?;
        let (kind, span) = if self.eat_word("switch") {
            let mut cases = Vec::new();
            self.braces(|p| {
                cases.push(p.case()?);
                Ok(())
            })?;
            (FieldKind::Switch { cases }, self.span()?)
        } else {
            (self.field_kind()?, self.end()?)
        };
        Ok(Field {
            name,
            doc,
            span,
            ty,
            kind,
            place,
            too_long,
            bad,
            within,
            lies_in,
            computed,
            value_used,
            extent_used,
        })
    }

    fn case(&mut self) -> Res<Case> {
        self.word("case")?;
        let name = self.name()?;
        let guard = match self.any_word()?.as_str() {
            "literal" => Guard::Literal { values: self.list(Self::bytes)?, peek: false },
            "peek" => Guard::Literal { values: self.list(Self::bytes)?, peek: true },
            "when" => Guard::When(self.expr()?),
            "else" => Guard::Else,
            "fault" => Guard::Fault(FaultKind(self.num()?)),
            w => return self.error(format!("unknown guard `{w}`")),
        };
        self.sign(FAT_ARROW)?;
        let fields = self.list(|p| p.index().map(FieldId))?;
        self.sign(';')?;
        Ok(Case { name, guard, fields })
    }

    fn until(&mut self) -> Res<Until> {
        self.word("until")?;
        let peek = self.eat_word("peek");
        Ok(Until { peek, delimiters: self.list(Self::bytes)? })
    }

    fn extent(&mut self) -> Res<Extent> {
        if self.is_word("until") {
            return self.until().map(Extent::Until);
        }
        Ok(match self.any_word()?.as_str() {
            "length" => Extent::Length(self.expr()?),
            "run" => Extent::Run,
            "to_end" => Extent::ToEnd,
            "close" => Extent::Close,
            w => return self.error(format!("unknown extent `{w}`")),
        })
    }

    fn list_extent(&mut self) -> Res<ListExtent> {
        if self.is_word("until") {
            return self.until().map(ListExtent::Until);
        }
        Ok(match self.any_word()?.as_str() {
            "count" => ListExtent::Count(self.expr()?),
            "to_end" => ListExtent::ToEnd,
            "fold" => {
                let init = self.expr()?;
                let holds = if self.is_word("holds") {
                    self.word("holds")?;
                    Some(self.expr()?)
                } else {
                    None
                };
                self.word("step")?;
                let step = self.expr()?;
                self.word("done")?;
                ListExtent::Fold { init, holds, step, done: self.expr()? }
            }
            w => return self.error(format!("unknown extent `{w}`")),
        })
    }

    fn field_kind(&mut self) -> Res<FieldKind> {
        Ok(match self.any_word()?.as_str() {
            "uint" => {
                self.word("bytes")?;
                let bytes = self.num()?;
                self.word("shift")?;
                let shift = self.num()?;
                self.word("bits")?;
                let bits = self.num()?;
                let big = if self.eat_word("big") {
                    true
                } else {
                    self.word("little")?;
                    false
                };
                FieldKind::UInt {
                    bytes,
                    shift,
                    bits,
                    big,
                    signed: self.eat_word("signed"),
                    advance: self.eat_word("advance"),
                }
            }
            "number" => {
                self.word("radix")?;
                let radix = self.num()?;
                self.word("digits")?;
                let digits = self.num()?;
                let exact = self.eat_word("exact");
                FieldKind::Number {
                    radix,
                    digits,
                    exact,
                    until: if self.is_word("until") { Some(self.until()?) } else { None },
                }
            }
            "varint" => FieldKind::Varint { max_bytes: self.num()? },
            "bytes" => {
                let (min, max) = self.range()?;
                let class = if self.eat_word("class") { Some(self.set()?) } else { None };
                let trim = if self.eat_word("trim") { Some(self.set()?) } else { None };
                let caseless = self.eat_word("caseless");
                FieldKind::Bytes { min, max, class, trim, caseless, extent: self.extent()? }
            }
            "literal" => FieldKind::Literal { values: self.list(Self::bytes)? },
            "flag" => FieldKind::Flag { value: self.bytes()? },
            "unit" => FieldKind::Unit { unit: UnitId(self.index()?), args: self.list(Self::expr)? },
            "list" => {
                let element = FieldId(self.index()?);
                self.word("max")?;
                FieldKind::List { element, max: self.num()?, extent: self.list_extent()? }
            }
            "stream_bytes" => FieldKind::StreamBytes { extent: self.extent()? },
            "stream_unit" => FieldKind::StreamUnit {
                unit: UnitId(self.index()?),
                args: self.list(Self::expr)?,
                until: if self.eat_word("until") { Some(self.expr()?) } else { None },
            },
            "let" => FieldKind::Let { value: self.expr()? },
            "require" => FieldKind::Require { cond: self.expr()? },
            "recover" => FieldKind::Recover {
                how: if self.eat_word("length") {
                    Recover::Length(self.expr()?)
                } else {
                    Recover::Until(self.until()?)
                },
            },
            "pass" => FieldKind::Pass {
                how: if self.eat_word("when") {
                    PassRule::When(self.expr()?)
                } else {
                    self.word("as")?;
                    PassRule::As { case: self.num()?, endless: self.eat_word("endless") }
                },
            },
            "align" => FieldKind::Align { to: self.num()? },
            "nothing" => FieldKind::Nothing,
            w => return self.error(format!("unknown kind of field `{w}`")),
        })
    }
}
