//! Keys of sixteen frames, packed as [`crate::packed_keys`] says. They serve lookups of a whole
//! batch in a table of masks, or fetch the entries of an exact table.

use super::value::{members, number, part, VectorForm};
use super::Vectorizer;
use crate::packed_keys::{packed, short, AddressForm};
use crate::plans::{BinaryOp, KeySite, MaskRef, NumberRef, VectorOp, VectorPlan, VectorStep};
use crate::*;

impl<'a> Vectorizer<'a> {
    /// The key of the first use of a table, if that is an exact one.
    pub(super) fn keys(&mut self, body: &'a Body, exact: &KeySite<'a>) -> Option<VectorPlan> {
        self.twice(|v| {
            v.begin(body);
            v.stack()?;
            let stack = std::mem::take(&mut v.steps);
            v.exact_key(exact)?;
            let key = std::mem::take(&mut v.steps);
            Some(VectorPlan { least: v.stack.least, stack, key, run: None })
        })
    }

    /// The frames that look a table up.
    fn asks(&mut self, u: &KeySite) -> Option<MaskRef> {
        let mut who = MaskRef::Stack;
        for c in u.guard {
            let VectorForm::Mask(t) = self.expr(c)? else { return None };
            who = self.and(who, t);
        }
        Some(who)
    }

    fn exact_key(&mut self, u: &KeySite) -> Option<()> {
        let ty = self.m.tables[u.table.index()].key;
        let (form, bytes) = match short(self.m, ty) {
            Some(n) => (AddressForm::Short, n),
            None => (AddressForm::Whole, packed(self.m, ty)?),
        };
        let who = self.asks(u)?;
        let words = self.packed(u, form, bytes.div_ceil(8) as usize * 2)?;
        for (w, pair) in words.chunks(2).enumerate() {
            self.steps.push(VectorStep::Pair(w as u32, number(&pair[0])?, number(&pair[1])?))
        }
        self.steps.extend(self.last.iter().map(|(layer, is)| VectorStep::Last(*layer, *is)));
        self.steps.push(VectorStep::Asks(who));
        Some(())
    }

    /// The key of a table of masks, in columns of words.
    pub(super) fn masked_key(&mut self, u: &KeySite) -> Option<()> {
        let who = self.asks(u)?;
        let bytes = packed(self.m, self.m.tables[u.table.index()].key)?;
        for (w, word) in self.packed(u, AddressForm::Whole, bytes.div_ceil(4) as usize)?.iter().enumerate() {
            let w = w as u32;
            self.steps.push(match word {
                VectorForm::Const(v) => VectorStep::Even(w, u32::try_from(*v).ok()?),
                word @ VectorForm::Number { .. }
                | word @ VectorForm::Wide(_)
                | word @ VectorForm::Mask(_)
                | word @ VectorForm::Maybe(..)
                | word @ VectorForm::Record(_)
                | word @ VectorForm::Unknown => VectorStep::Column(w, number(word)?),
            })
        }
        self.steps.push(VectorStep::Asks(who));
        Some(())
    }

    /// A key as so many words of 32 bits.
    fn packed(&mut self, u: &KeySite, form: AddressForm, count: usize) -> Option<Vec<VectorForm>> {
        let key = self.expr(u.key)?;
        let mut words = vec![VectorForm::Const(0); count];
        self.pack(self.m.tables[u.table.index()].key, &key, form, 0, &mut words)?;
        Some(words)
    }

    /// Puts a value where the packed key has it; answers its size.
    fn pack(&mut self, ty: TyId, v: &VectorForm, form: AddressForm, at: u64, words: &mut [VectorForm]) -> Option<u64> {
        let n = packed(self.m, ty)?;
        match (self.m.ty(ty), v) {
            (Ty::Record(_) | Ty::Tuple(_), VectorForm::Record(list)) => {
                let mut sum = 0;
                for (t, v) in members(self.m, ty).into_iter().zip(list) {
                    sum += self.pack(t, v, form, at + sum, words)?
                }
                return Some(sum);
            }
            (Ty::Ip, _) if form == AddressForm::Short => {
                // IPv4 for sure: ::ffff:0:0/96.
                if [3, 2, 1].map(|i| part(v, i)) != [0, 0, 0xffff].map(|n| Some(VectorForm::Const(n))) {
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
            (Ty::Bool, VectorForm::Mask(t)) => {
                let word = self.choose(*t, VectorForm::Const(1), VectorForm::Const(0))?;
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

    fn put(&mut self, v: &VectorForm, at: u64, bytes: u64, words: &mut [VectorForm]) -> Option<()> {
        let (word, by) = ((at / 4) as usize, (at % 4 * 8) as u32);
        let low = self.shifted_up(v, by)?;
        words[word] = self.arithmetic(BinaryOp::Or, &words[word].clone(), &low, 32)?;
        if u64::from(by) + bytes * 8 > 32 {
            let high = self.shifted_down(v, 32 - by)?;
            words[word + 1] = self.arithmetic(BinaryOp::Or, &words[word + 1].clone(), &high, 32)?;
        }
        Some(())
    }

    fn swapped(&mut self, v: &VectorForm) -> Option<VectorForm> {
        if let VectorForm::Const(v) = v {
            return Some(VectorForm::Const(u128::from((*v as u32).swap_bytes())));
        }
        let of = number(v)?;
        // Most often it is a field whose bytes were reversed when it was read.
        if let NumberRef::Value(n) = of {
            if let VectorOp::Swap(raw) = self.values[n as usize] {
                return Some(VectorForm::Number { of: raw, least: 0, most: u64::from(u32::MAX) });
            }
        }
        Some(self.number(VectorOp::Swap(of), 0, u64::from(u32::MAX)))
    }
}
