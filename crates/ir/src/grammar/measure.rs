//! Sizes and first bytes of units: bottom-up, every nested unit before the units that contain it.

use super::extents;
use crate::*;

/// The facts about a field, a sequence of fields or a unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fact {
    pub min: u64,
    pub max: u64,
    /// Bytes that may come first where it is not empty.
    pub first: ByteSet,
    /// It may have no bytes, or (a peeked literal) leave the first ones to the next field.
    pub empty: bool,
}

impl Fact {
    const NOTHING: Fact = Fact { min: 0, max: 0, first: ByteSet::EMPTY, empty: true };
    /// A refusal: nothing goes on behind it.
    const NEVER: Fact = Fact { min: u64::MAX, max: 0, first: ByteSet::EMPTY, empty: false };
    fn fixed(n: u64, first: ByteSet) -> Fact {
        Fact { min: n, max: n, first, empty: n == 0 }
    }
    fn then(self, o: Fact) -> Fact {
        Fact {
            min: self.min.saturating_add(o.min),
            max: self.max.saturating_add(o.max),
            first: if self.empty { self.first.union(&o.first) } else { self.first },
            empty: self.empty && o.empty,
        }
    }
    fn or(self, o: Fact) -> Fact {
        Fact {
            min: self.min.min(o.min),
            max: self.max.max(o.max),
            first: self.first.union(&o.first),
            empty: self.empty || o.empty,
        }
    }
    /// As a set that the next byte must be in; everything if there may be none.
    pub fn first_or_all(&self) -> ByteSet {
        if self.empty {
            ByteSet::ALL
        } else {
            self.first
        }
    }
}

/// Facts of all units; filled in order by [`Facts::add`].
#[derive(Default)]
pub struct Facts {
    units: Vec<Option<Fact>>,
}

impl Facts {
    pub fn new(m: &Module) -> Self {
        Facts { units: vec![None; m.units.len()] }
    }

    pub fn unit(&self, u: UnitId) -> Fact {
        self.units.get(u.index()).copied().flatten().unwrap_or(Fact { first: ByteSet::ALL, ..Fact::NOTHING })
    }

    /// Nested units must have been added.
    pub fn add(&mut self, m: &Module, u: UnitId) {
        self.units[u.index()] = Some(self.sequence(m, u, &m.unit(u).body))
    }

    pub fn sequence(&self, m: &Module, unit: UnitId, fields: &[FieldId]) -> Fact {
        let mut sum = Fact::NOTHING;
        // Bits of one container: all its fields must hold, so the sets of first bytes meet.
        let mut container = ByteSet::ALL;
        for (n, &f) in fields.iter().enumerate() {
            let mut fact = self.field(m, unit, f);
            if let Some(most) = extents::most(m, unit, fields, n) {
                fact.max = fact.max.min(most)
            }
            if let FieldKind::UInt { advance, .. } = &m.unit(unit).fields[f.index()].kind {
                for i in 0..4 {
                    container.0[i] &= fact.first.0[i]
                }
                if !advance {
                    continue;
                }
                fact.first = std::mem::replace(&mut container, ByteSet::ALL);
            }
            sum = sum.then(fact);
        }
        sum
    }

    pub fn field(&self, m: &Module, unit: UnitId, f: FieldId) -> Fact {
        let field = &m.unit(unit).fields[f.index()];
        match &field.kind {
            FieldKind::UInt { bytes, advance, .. } => {
                Fact::fixed(if *advance { *bytes as u64 } else { 0 }, uint_first(field))
            }
            FieldKind::Number { radix, digits, exact, until } => {
                let min = if *exact { *digits as u64 } else { 1 };
                with_until(Fact { min, max: *digits as u64, first: digit_set(*radix), empty: false }, until.as_ref())
            }
            FieldKind::Varint { max_bytes } => {
                Fact { min: 1, max: *max_bytes as u64, first: ByteSet::ALL, empty: false }
            }
            FieldKind::Bytes { min, max, class, extent, trim, .. } => bytes_fact(*min, *max, class, extent, trim),
            FieldKind::Literal { values } => literal_fact(values),
            FieldKind::Flag { value } => Fact { min: 0, empty: true, ..literal_fact(std::slice::from_ref(value)) },
            FieldKind::Unit { unit, .. } => self.unit(*unit),
            FieldKind::List { element, max, extent } => self.list(m, unit, *element, *max, extent),
            FieldKind::StreamBytes { .. } => Fact { first: ByteSet::ALL, ..Fact::NOTHING },
            // Its bytes are not part of the sizes.
            FieldKind::StreamUnit { unit, .. } => Fact { max: 0, ..self.unit(*unit) },
            FieldKind::Switch { cases } => cases.iter().fold(Fact::NEVER, |a, c| a.or(self.case(m, unit, c))),
            FieldKind::Align { to } => {
                Fact { min: 0, max: to.saturating_sub(1) as u64, first: ByteSet::ALL, empty: true }
            }
            FieldKind::Let { .. }
            | FieldKind::Require { .. }
            | FieldKind::Recover { .. }
            | FieldKind::Pass { .. }
            | FieldKind::Nothing => Fact::NOTHING,
        }
    }

    #[allow(clippy::wildcard_enum_match_arm, reason = "a few kinds of many are looked for")]
    fn list(&self, m: &Module, unit: UnitId, element: FieldId, max: u32, extent: &ListExtent) -> Fact {
        let one = self.field(m, unit, element);
        let many = Fact { min: 0, max: one.max.saturating_mul(max as u64), first: one.first, empty: true };
        match extent {
            ListExtent::Count(n) => match *n.kind {
                ExprKind::Int(n) => Fact {
                    min: one.min.saturating_mul(n as u64),
                    max: one.max.saturating_mul(n as u64),
                    empty: n == 0 || one.empty,
                    ..many
                },
                _ => many,
            },
            ListExtent::Until(u) => with_until(many, Some(u)),
            ListExtent::ToEnd | ListExtent::Fold { .. } => many,
        }
    }

    fn case(&self, m: &Module, unit: UnitId, case: &Case) -> Fact {
        match &case.guard {
            Guard::Fault(_) => Fact::NEVER,
            Guard::When(_) | Guard::Else => self.sequence(m, unit, &case.fields),
            Guard::Literal { values, peek: false } => literal_fact(values).then(self.sequence(m, unit, &case.fields)),
            Guard::Literal { values, peek: true } => {
                let fields = self.sequence(m, unit, &case.fields);
                let literal = literal_fact(values);
                Fact { first: literal.first, empty: literal.empty, ..fields }
            }
        }
    }
}

/// Most bytes that a case's guard consumes.
pub fn guard_max(guard: &Guard) -> u64 {
    match guard {
        Guard::Literal { values, peek: false } => literal_fact(values).max,
        Guard::Literal { .. } | Guard::When(_) | Guard::Else | Guard::Fault(_) => 0,
    }
}

fn literal_fact(values: &[Vec<u8>]) -> Fact {
    let lengths = || values.iter().map(|v| v.len() as u64);
    let first: Vec<u8> = values.iter().filter_map(|v| v.first().copied()).collect();
    let min = lengths().min().unwrap_or(0);
    Fact { min, max: lengths().max().unwrap_or(0), first: ByteSet::of(&first), empty: min == 0 }
}

fn with_until(value: Fact, until: Option<&Until>) -> Fact {
    match until {
        None => value,
        Some(u) if u.peek => value.then(Fact { min: 0, max: 0, ..literal_fact(&u.delimiters) }),
        Some(u) => value.then(literal_fact(&u.delimiters)),
    }
}

#[allow(clippy::wildcard_enum_match_arm, reason = "a few kinds of many are looked for")]
fn bytes_fact(min: u64, max: u64, class: &Option<ByteSet>, extent: &Extent, trim: &Option<ByteSet>) -> Fact {
    let mut first = class.unwrap_or(ByteSet::ALL);
    if let (Some(_), Some(trim)) = (class, trim) {
        first = first.union(trim)
    }
    let value = Fact { min, max, first, empty: min == 0 };
    match extent {
        Extent::Length(n) => match *n.kind {
            ExprKind::Int(n) => {
                let n = u64::try_from(n).unwrap_or(u64::MAX);
                Fact { min: n, max: n, first, empty: n == 0 }
            }
            _ => value,
        },
        Extent::Until(u) => {
            // A delimiter of one byte would leave them empty.
            let mut ends = ByteSet::EMPTY;
            u.delimiters.iter().filter(|d| d.len() == 1 && min > 0).for_each(|d| ends.add(d[0]));
            let first = ByteSet(std::array::from_fn(|i| value.first.0[i] & !ends.0[i]));
            with_until(Fact { first, ..value }, Some(u))
        }
        Extent::Run | Extent::ToEnd | Extent::Close => value,
    }
}

/// The digits of a radix.
pub fn digit_set(radix: u8) -> ByteSet {
    let decimal = ByteSet::range(b'0', b'0' + radix.clamp(1, 10) - 1);
    if radix <= 10 {
        return decimal;
    }
    let more = radix.min(36) - 11;
    decimal.union(&ByteSet::range(b'a', b'a' + more)).union(&ByteSet::range(b'A', b'A' + more))
}

/// The first byte of a container whose value is within the field's ranges.
fn uint_first(field: &Field) -> ByteSet {
    let (FieldKind::UInt { bytes, shift, bits, big, signed: false, .. }, Some(ranges)) = (&field.kind, &field.within)
    else {
        return ByteSet::ALL;
    };
    let whole = *shift == 0 && *bits as u32 == *bytes as u32 * 8;
    if *bytes == 1 && *bits > 0 && shift + bits <= 8 {
        let mask = (1u64 << bits) - 1;
        let ok = |b: u8| {
            let v = b as u64 >> shift & mask;
            ranges.iter().any(|(from, to)| (*from..=*to).contains(&v))
        };
        let mut set = ByteSet::EMPTY;
        (0..=255u8).filter(|b| ok(*b)).for_each(|b| set.add(b));
        return set;
    }
    if whole && *big && (2..=8).contains(bytes) {
        let top = |v: u64| (v >> (8 * (bytes - 1))).min(255) as u8;
        return ranges
            .iter()
            .filter(|(a, b)| a <= b)
            .fold(ByteSet::EMPTY, |s, (a, b)| s.union(&ByteSet::range(top(*a), top(*b))));
    }
    ByteSet::ALL
}
