//! Calls of builtins: most are functions of `support/builtin.h`.

use crate::gen::Gen;
use crate::names;
use crate::scope::{At, Scope};
use wireloom_ir::ops::{Effect, Rows};
use wireloom_ir::*;

impl Gen<'_> {
    /// A search by name over a list field of (name, value) units.
    pub(crate) fn over_items(&mut self, s: &Scope, what: &str, list: &Path, args: &[&Expr]) -> String {
        let m = self.m;
        let At::Field(i, f) = self.resolve(s, list) else { return "0".into() };
        let FieldKind::List { element, .. } = m.unit(i.unit).fields[f.index()].kind else { return "0".into() };
        let Some((item, name, value)) = m.name_and_value(i.unit, element) else { return "0".into() };
        let caseless = matches!(m.unit(item).fields[name.index()].kind, FieldKind::Bytes { caseless: true, .. });
        let list_ty = names::field_of(m, i.unit, f);
        let helper = format!("{what}_{list_ty}");
        if self.first(&helper) {
            let eq = if caseless { "wl_eq_case" } else { "wl_eq" };
            let name_at = format!("wl_at(p, l->at[i].v.{})", names::field(m, item, name));
            let value_at = value.map_or_else(
                || "wl_b(NULL, 0)".into(),
                |v| format!("wl_at(p, l->at[i].v.{})", names::field(m, item, v)),
            );
            let head = format!("const struct {list_ty}_l *l, const uint8_t *p, wl_bytes name");
            let each = format!("for (uint32_t i = 0; i < l->n; i++) if ({eq}({name_at}, name)");
            self.helpers.push_str(&match what {
                "find" => format!(
                    "WL_INLINE wl_opt_wl_bytes {helper}({head}) {{\n{each}) return (wl_opt_wl_bytes){{true, {value_at}}};\n\
                     return (wl_opt_wl_bytes){{0}};\n}}\n"
                ),
                "count" => format!("WL_INLINE uint32_t {helper}({head}) {{\nuint32_t k = 0;\n{each}) k++;\nreturn k;\n}}\n"),
                _ => format!(
                    "WL_INLINE bool {helper}({head}, wl_bytes token) {{\n{each} && wl_has_token({value_at}, token)) return true;\nreturn false;\n}}\n"
                ),
            });
        }
        let args: String = args.iter().map(|a| format!(", {}", self.expr(s, a))).collect();
        format!("{helper}(&{}.{}, {}{args})", i.at, names::field(m, i.unit, f), i.base)
    }

    #[allow(clippy::wildcard_enum_match_arm, reason = "a few kinds of many are looked for")]
    pub(crate) fn builtin(&mut self, s: &Scope, b: Builtin, args: &[Expr], ty: TyId) -> String {
        let mut a = self.exprs(s, args);
        if self.xdp {
            // They may be arguments of macros.
            a.iter_mut().for_each(|a| *a = format!("({a})"));
            if let Some(text) = self.xdp_builtin(b, args, &a) {
                return text;
            }
        }
        let arg = |i: usize| a.get(i).cloned().unwrap_or_else(|| "0".into());
        let signed = args.first().is_some_and(|e| matches!(self.m.ty(e.ty), Ty::Int(_)));
        match b {
            Builtin::LenBytes => format!("(uint64_t)({}).n", arg(0)),
            Builtin::Hash => {
                let h = args.iter().zip(&a).fold("WL_FNV64".to_string(), |h, (e, v)| self.hash(e.ty, &h, v));
                format!("wl_fmix64({h})")
            }
            Builtin::Fnv1a64 => format!("wl_h_bytes(WL_FNV64, {})", arg(0)),
            Builtin::Min | Builtin::Max => {
                let name = if b == Builtin::Min { "min" } else { "max" };
                let kind = match layout::int_of(self.m, ty) {
                    Some((65.., _)) => "w",
                    _ if signed => "s",
                    _ => "",
                };
                let text = format!("wl_{kind}{name}({}, {})", arg(0), arg(1));
                self.fit(text, ty)
            }
            Builtin::StartsWith => format!("wl_starts({}, {})", arg(0), arg(1)),
            Builtin::EndsWith => format!("wl_ends({}, {})", arg(0), arg(1)),
            Builtin::FindBytes if args.len() > 2 => format!("wl_find_from({}, {}, {})", arg(0), arg(1), arg(2)),
            Builtin::FindBytes => format!("wl_find({}, {})", arg(0), arg(1)),
            Builtin::ByteAt => format!("wl_byte({}, {})", arg(0), arg(1)),
            Builtin::Concat => format!(
                "wl_concat(x, {}, (wl_bytes[]){{{}}})",
                a.len(),
                if a.is_empty() { "{0}".into() } else { a.join(", ") }
            ),
            Builtin::TextU64 if signed => format!("wl_text_i64(x, {})", arg(0)),
            Builtin::TextU64 => format!("wl_text_u64(x, {})", arg(0)),
            Builtin::TextIp => match args.first().map(|e| self.m.ty(e.ty)) {
                Some(Ty::Endpoint) => format!("wl_text_ip(x, wl_ip_of({}))", arg(0)),
                _ => format!("wl_text_ip(x, {})", arg(0)),
            },
            Builtin::EndpointIp => format!("wl_ip_of({})", arg(0)),
            Builtin::EndpointPort => format!("({}).port", arg(0)),
            Builtin::Be32 => format!("wl_be32_bytes(x, {})", arg(0)),
            Builtin::UnixTime => "(x->core->wall / 1000000000u)".into(),
            Builtin::AesGcmOpen => format!("wl_crypto_open(x, (wl_bytes[]){{{}}})", a.join(", ")),
            Builtin::ConstantTimeEq => format!("wl_same_secret({}, {})", arg(0), arg(1)),
            Builtin::RandomBytes => {
                format!("wl_crypto(x, WL_X_RANDOM, 1, (wl_bytes[]){{wl_b(NULL, (uint32_t)({}))}})", arg(0))
            }
            Builtin::UnixNanos => "x->core->wall".into(),
            Builtin::OutOfTime if self.xdp => "false".into(),
            Builtin::OutOfTime => format!("wl_out_of_time(x, {})", arg(0)),
            Builtin::Keep => format!("{}({}, x)", self.copier(ty), arg(0)),
            Builtin::Join => match args.first().map(|e| (&*e.kind, self.cty(e.ty))) {
                Some((ExprKind::Local(_), _)) | None => format!("wl_join(x, {0}.v, {0}.n, {1})", arg(0), arg(1)),
                Some((_, list)) => {
                    format!("({{ {list} l_ = {}; wl_join(x, l_.v, l_.n, {}); }})", arg(0), arg(1))
                }
            },
            Builtin::AllIn | Builtin::Trim => {
                let set = match args.get(1).map(|e| &*e.kind) {
                    Some(ExprKind::Bytes(b)) => ByteSet::of_bits(b).unwrap_or(ByteSet::EMPTY),
                    _ => ByteSet::EMPTY,
                };
                let set = self.set(&set.complement());
                format!("wl_{}({}, &{set})", b.row().name, arg(0))
            }
            _ if matches!(b.row().effect, Effect::Crypto | Effect::Cipher) => {
                format!("wl_crypto(x, {}, {}, (wl_bytes[]){{{}}})", crypto_op(b), a.len(), a.join(", "))
            }
            // A function of `support/builtin.h`.
            _ => {
                let core = if b.takes_scratch() { "x, " } else { "" };
                format!("wl_{}({core}{})", b.row().name, a.join(", "))
            }
        }
    }
}

/// The runtime's number of an operation of its crypto part.
pub(crate) fn crypto_op(b: Builtin) -> String {
    format!("WL_X_{}", b.row().name.to_uppercase())
}
