//! Keys of sixteen frames at a time, packed as in core_table.rs. They serve lookups of a whole
//! batch in a table of masks, or prefetches of the entries of an exact table.

use super::{part, words, Mask, VectorValue, Vectorizer};
use crate::batch_lookup::{BatchPlan, HoistedState, KeySite};
use crate::core_table::Form;
use crate::gen::Gen;
use std::collections::BTreeMap;
use wireloom_ir::packed_keys::{packed, short};
use wireloom_ir::*;

/// What becomes of the frames of the shape that most have, of a handler whose first table is an
/// exact one.
pub(crate) struct VectorKeys {
    /// Statements that tell which frames are of the shape (`ok`), pack their keys into `words`, and
    /// say which of them ask (`asks`).
    pub ready: String,
    /// Words of a key.
    pub words: usize,
    /// Bytes that each of the frames must have.
    pub least: u32,
    /// Headers that all have, a bit for each; those of which each has one.
    pub has: u64,
    pub either: Vec<u32>,
    /// Where the headers begin.
    pub at: BTreeMap<u32, u32>,
    /// They are looked up for the whole batch.
    pub seen: bool,
}

impl<'m> Gen<'m> {
    /// Keys in lanes, for a handler that looks up one exact table ahead and no other, and uses it
    /// first.
    pub fn vector_keys(&mut self, h: &'m Handler, unit: UnitId, ahead: &BatchPlan<'m>) -> Option<VectorKeys> {
        let (Some(u), None) = (&ahead.exact, &ahead.masked) else { return None };
        let (shape, kept) = (self.stack(unit)?, HoistedState::default());
        let mut l = Vectorizer::new(self, unit, shape, &kept, None);
        let mut keys = None;
        // The first time to see what is read.
        for _ in 0..2 {
            l.words = words(&l.reads, shape.least)?;
            l.begin(&h.body);
            l.shape()?;
            let count = l.exact_key(u)?;
            let single = shape.stages.iter().filter(|list| list.len() == 1).flatten();
            keys = Some(VectorKeys {
                ready: std::mem::take(&mut l.out),
                words: count,
                least: shape.least,
                has: single.fold(0, |has, s| has | 1 << s.layer),
                either: l.either.iter().map(|e| e.0).collect(),
                at: shape.stages.iter().flatten().map(|s| (s.layer, s.at)).collect(),
                seen: ahead.seen,
            });
        }
        keys
    }
}

impl<'m> Vectorizer<'_, 'm> {
    /// Which frames use a table.
    fn asks(&mut self, u: &KeySite<'m>) -> Option<Mask> {
        let mut who = Mask::Bits("ok".into());
        for c in u.guard {
            let VectorValue::Mask(t) = self.expr(c)? else { return None };
            who = self.and(&who, &t);
        }
        Some(who)
    }

    /// Packs the key of an exact table; answers how many words of 64 bits it has.
    fn exact_key(&mut self, u: &KeySite<'m>) -> Option<usize> {
        let m = self.g.m;
        let ty = m.tables[u.table.index()].key;
        let (form, bytes) = match short(m, ty) {
            Some(n) => (Form::Short, n),
            None => (Form::Whole, packed(m, ty)?),
        };
        let who = self.asks(u)?;
        let key = self.expr(u.key)?;
        let count = bytes.div_ceil(8) as usize;
        let mut words = vec![VectorValue::Const(0); 2 * count];
        self.pack(ty, &key, form, 0, &mut words)?;
        for (w, pair) in words.chunks(2).enumerate() {
            let (low, high) = (self.text(&pair[0])?, self.text(&pair[1])?);
            self.out.push_str(&format!("wl_lanes_pairs(&words[{w}][k], {low}, {high});\n"));
        }
        for (layer, is) in self.either.clone() {
            let text = self.truth_text(&is);
            self.out.push_str(&format!("is_{layer} |= (uint64_t){text} << k;\n"));
        }
        let text = self.truth_text(&who);
        self.out.push_str(&format!("asks |= (uint64_t){text} << k;\n"));
        Some(count)
    }

    fn swapped(&mut self, v: &VectorValue) -> Option<VectorValue> {
        if let VectorValue::Const(v) = v {
            return Some(VectorValue::Const(u128::from((*v as u32).swap_bytes())));
        }
        let text = self.text(v)?;
        // Most often it is a field that has been turned round when it was read.
        let raw = self
            .names
            .iter()
            .find(|(_, name)| **name == text)
            .and_then(|(by, _)| by.strip_prefix("wl_lanes_swap(")?.strip_suffix(')'))
            .map(str::to_string);
        if let Some(name) = raw {
            return Some(VectorValue::Word { name, least: 0, most: u64::from(u32::MAX) });
        }
        Some(self.word(format!("wl_lanes_swap({text})"), 0, u64::from(u32::MAX)))
    }

    /// Packs the key of a table of masks into the columns of its batch, but for words that are the
    /// same for all frames.
    pub(super) fn masked_key(&mut self, u: &KeySite<'m>) -> Option<()> {
        let t = &self.g.m.tables[u.table.index()];
        let who = self.asks(u)?;
        let key = self.expr(u.key)?;
        let mut words = vec![VectorValue::Const(0); self.g.words32(t) as usize];
        self.pack(t.key, &key, Form::Whole, 0, &mut words)?;
        for (w, word) in words.iter().enumerate() {
            if let VectorValue::Const(v) = word {
                self.even.insert(w, u32::try_from(*v).ok()?);
                continue;
            }
            let text = self.text(word)?;
            self.out.push_str(&format!("wl_lanes_store(column[{w}] + k, {text});\n"));
        }
        let text = self.truth_text(&who);
        self.out
            .push_str(&format!("who |= (uint64_t){} << k;\n", if text == "ok" { text } else { format!("({text})") }));
        Some(())
    }

    /// Puts a value where `core_table.rs` packs it; answers its size.
    fn pack(&mut self, ty: TyId, v: &VectorValue, form: Form, at: u64, words: &mut [VectorValue]) -> Option<u64> {
        let n = packed(self.g.m, ty)?;
        match (self.g.m.ty(ty).clone(), v) {
            (Ty::Record(_) | Ty::Tuple(_), VectorValue::Record(list)) => {
                let mut sum = 0;
                for ((_, t), v) in self.g.members(ty).iter().zip(list) {
                    sum += self.pack(*t, v, form, at + sum, words)?
                }
                return Some(sum);
            }
            (Ty::Ip, _) if form == Form::Short => {
                // IPv4 for sure: ::ffff:0:0/96.
                if [3, 2, 1].map(|i| part(v, i)) != [0, 0, 0xffff].map(|n| Some(VectorValue::Const(n))) {
                    return None;
                }
                let word = self.swapped(&part(v, 0)?)?;
                self.put(&word, at, 4, words)?;
                return Some(4);
            }
            // The first byte is the highest.
            (Ty::Ip, _) => {
                for i in 0..4 {
                    let word = self.swapped(&part(v, 3 - i)?)?;
                    self.put(&word, at + 4 * i as u64, 4, words)?;
                }
            }
            (Ty::Bool, VectorValue::Mask(t)) => {
                let word = self.choose(t, VectorValue::Const(1), VectorValue::Const(0))?;
                self.put(&word, at, n, words)?;
            }
            (Ty::UInt(_), _) => {
                for i in 0..n.div_ceil(4) {
                    let word = part(v, i as usize)?;
                    self.put(&word, at + 4 * i, (n - 4 * i).min(4), words)?
                }
            }
            _ => return None,
        }
        Some(n)
    }

    fn put(&mut self, v: &VectorValue, at: u64, bytes: u64, words: &mut [VectorValue]) -> Option<()> {
        let (word, by) = ((at / 4) as usize, at % 4 * 8);
        let low = self.shifted("shl", v, by)?;
        words[word] = self.arithmetic(BinOp::BitOr, &words[word].clone(), &low, 32)?;
        if by + bytes * 8 > 32 {
            let high = self.shifted("shr", v, 32 - by)?;
            words[word + 1] = self.arithmetic(BinOp::BitOr, &words[word + 1].clone(), &high, 32)?;
        }
        Some(())
    }
}
