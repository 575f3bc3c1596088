//! Exact tables whose keys or values have bytes. Both lie in the scratch and not on the stack, and
//! what is read from a table stays there as long as the frame's handling.

use super::scratch::Call;
use super::tables::Leaf;
use crate::body::BodyGen;
use crate::gen::Gen;
use crate::parser::line;
use std::collections::BTreeSet;
use wireloom_ir::placement::canonical_size;
use wireloom_ir::*;

impl Gen<'_> {
    /// Words of a value's form that have more than bytes: those begin as zero.
    fn xdp_plain_words(&self, ty: TyId) -> BTreeSet<usize> {
        let (mut words, mut at) = (BTreeSet::new(), 0);
        self.xdp_leaves(ty, "v", &mut |_, leaf, n| {
            let plain = if matches!(leaf, Leaf::Bytes(_)) { 4 } else { n };
            words.extend(at / 8..(at + plain).div_ceil(8));
            at += n;
        });
        words
    }
}

/// Words that generated code copies and compares by itself: `WL_FEW` of `support/bpf_tables.h`.
const FEW: usize = 16;

impl<'m> BodyGen<'_, 'm> {
    /// Text that makes the words of a long key zero into which its parts are put. Of bytes at its
    /// end that is the last word: those behind them do not count.
    pub(super) fn xdp_key_zeros(&self, ty: TyId, words: usize) -> String {
        let all = format!("_Pragma(\"unroll\") for (unsigned j_ = 0; j_ < {words}; j_++) k_->w[j_] = 0;\n");
        let Some((begin, _, place)) = self.g.xdp_tail(ty, "key_").filter(|_| words > FEW) else { return all };
        let plain: String = self.g.xdp_plain_words(ty).iter().map(|n| format!("k_->w[{n}] = ")).collect();
        format!(
            "{plain}0;\n{{ uint64_t e_ = ({} + (uint64_t){place}.n) / 8; WL_KEEP(e_); if (e_ >= {words}) e_ = {}; k_->w[e_] = 0; }}\n",
            begin + 3,
            words - 1
        )
    }

    /// Declares `v_`, a value in its form. `value`: its text; else it is room for one.
    fn xdp_wide_value(&mut self, t: TableId, value: Option<&str>) {
        let ty = self.g.m.tables[t.index()].value;
        let at = self.g.xdp_wide_room(canonical_size(self.g.m, ty).div_ceil(8));
        line!(self, "uint64_t *v_ = x->scratch->wide + {at};");
        if let Some(text) = value {
            let (codec, zero) = (self.g.xdp_codec(ty), self.g.xdp_plain_words(ty));
            let zero: String = zero.iter().map(|n| format!("v_[{n}] = ")).collect();
            line!(self, "{zero}0;\npack_{codec}(x, v_, {text});");
        }
    }

    /// Copies words to the scratch and reads a value from them; opens no block.
    fn xdp_wide_read(&mut self, t: TableId, name: &str) {
        let ty = self.g.m.tables[t.index()].value;
        let codec = self.g.xdp_codec(ty);
        line!(self, "{name} = unpack_{codec}(v_, b_);\nwl_used_up(x, {});", self.xdp_wide_bytes(t));
    }

    fn xdp_wide_bytes(&self, t: TableId) -> usize {
        8 * canonical_size(self.g.m, self.g.m.tables[t.index()].value).div_ceil(8)
    }

    /// Declares `b_`, where a value that is read is to lie, and `v_`, the same as a pointer.
    fn xdp_wide_place(&mut self, t: TableId) {
        let leave = self.leave_fault();
        line!(
            self,
            "const uint32_t b_ = WL_X(x)->used;\nif (WL_UNLIKELY(!wl_has_room(x, {}))) {{ {leave} }}\n\
             uint64_t *v_ = (uint64_t *)WL_SPOT(x->scratch->b, b_);",
            self.xdp_wide_bytes(t)
        );
    }

    pub(super) fn xdp_wide(&mut self, t: TableId, s: TableStmt<'m>) {
        let (map, table) = (self.g.xdp_of(t).map, &self.g.m.tables[t.index()]);
        match s {
            TableStmt::Get { key, dst, .. } => {
                self.xdp_key(t, key);
                self.xdp_wide_place(t);
                let near = self.g.scratch.in_line.suffix(Call::Read);
                line!(self, "const int f_ = {map}_get{near}(x, k_, v_);");
                self.xdp_lockless("f_ == 3");
                let name = self.name(*dst);
                line!(self, "{name}.has = f_ == 1;\nif (f_ == 1) {{");
                self.xdp_wide_read(t, &format!("{name}.v"));
                line!(self, "}} }}");
                if let Some(text) = self.forget(*dst) {
                    line!(self, "{text}")
                }
            }
            TableStmt::Put { key, value: new, place, .. } => {
                let (text, c) = (self.expr(new), self.g.cty(table.value));
                line!(self, "{{ const {c} new_ = {text};");
                self.check(true);
                self.xdp_key(t, key);
                self.xdp_wide_value(t, Some("new_"));
                self.xdp_wide_do(t, "WL_PUT");
                let leave = self.leave_fault();
                line!(self, "if (WL_UNLIKELY(f_ == 2)) {{ wl_fail(x, WL_F_FULL, {}); {leave} }} }} }}", place.0);
            }
            TableStmt::Remove { key, dst, .. } => {
                self.xdp_key(t, key);
                self.xdp_wide_value(t, None);
                self.xdp_wide_do(t, "WL_REMOVE");
                let set = dst.map(|d| format!("{0} = f_ == 1;\n}}\nWL_FORGET_FLAG({0});", self.name(d)));
                line!(self, "{}", set.unwrap_or("}".into()));
            }
            TableStmt::Update { key, entry, body, place, .. } => self.xdp_wide_update(t, key, *entry, body, *place),
            // `placement` keeps handlers with these off the hook.
            TableStmt::Len { .. }
            | TableStmt::Next { .. }
            | TableStmt::Insert { .. }
            | TableStmt::Delete { .. }
            | TableStmt::Push { .. }
            | TableStmt::Pop { .. } => {}
        }
    }

    fn xdp_wide_do(&mut self, t: TableId, what: &str) {
        let (map, now) = (self.g.xdp_of(t).map, self.xdp_now(t));
        line!(self, "const int f_ = {map}_do({what}, k_, (struct {map}_copy *)v_, {now});");
        self.xdp_lockless("f_ == 3");
    }

    fn xdp_wide_update(&mut self, t: TableId, key: &Expr, entry: LocalId, body: &'m Block, place: PlaceId) {
        let (map, ty) = (self.g.xdp_of(t).map, self.g.m.tables[t.index()].value);
        let (zero, at) = (self.g.zero(ty), format!("held{}", self.xdp_temp()));
        let words = canonical_size(self.g.m, ty).div_ceil(8);
        self.decls.push_str(&format!("wl_held {at} = {{0}};\n"));
        self.xdp_key(t, key);
        self.xdp_lockless(&format!("!{map}_lock(x, k_, &{at})"));
        let name = self.name(entry);
        line!(self, "bool far_ = false;\nstruct {map}_slot *s_ = {map}_find(x, k_, &{at}, &far_);\n{name} = {zero};");
        self.locked.push(at.clone());
        line!(self, "if (s_) {{");
        self.xdp_wide_place(t);
        line!(self, "WL_MOVE({words}, {map}_value_words(s_->value), v_, s_->value);");
        self.xdp_wide_read(t, &name);
        line!(self, "}}");
        if let Some(text) = self.forget(entry) {
            line!(self, "{text}")
        }
        self.block(body);
        self.locked.pop();
        self.xdp_wide_value(t, Some(&name));
        let (now, leave) = (self.xdp_now(t), self.leave_fault());
        line!(
            self,
            "bool done_ = true;\nif (s_) {{\nWL_MOVE({words}, {map}_value_words(v_), s_->value, v_);\ns_->used = {map}_stamp({now});\n}} \
             else done_ = {map}_add(x, k_, v_, &{at});\nwl_table_unlock({at});\n\
             if (WL_UNLIKELY(!done_)) {{ wl_fail(x, WL_F_FULL, {}); {leave} }} }}",
            place.0
        );
    }
}
