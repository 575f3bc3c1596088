//! C types of IR types, and the small functions on values: equality, hash, stored form.
//!
//! A value has two forms. In registers and locals, bytes are a slice (`wl_bytes`). In storage
//! (state, session, frame), bytes lie inline with room for the type's maximum. `put_…` and `get_…`
//! convert between the two.

use crate::gen::Gen;
use crate::names::{self, ident, mangle};
use wireloom_ir::*;

pub(crate) fn int_width(bits: u8) -> u32 {
    (layout::int_bytes(bits) * 8) as u32
}

impl Gen<'_> {
    /// The C type of a value; defines it where it is new.
    pub fn cty(&mut self, ty: TyId) -> String {
        match self.m.ty(ty).clone() {
            Ty::Unit => "uint8_t".into(),
            Ty::Bool => "bool".into(),
            Ty::UInt(b) if b > 64 => "unsigned __int128".into(),
            Ty::UInt(b) => format!("uint{}_t", int_width(b)),
            Ty::Int(b) => format!("int{}_t", int_width(b)),
            Ty::Bytes(_) => "wl_bytes".into(),
            Ty::Endpoint => "wl_endpoint".into(),
            Ty::Ip => "wl_ip".into(),
            Ty::Msg(u) if self.is_frame(u) => "wl_view *".into(),
            Ty::Msg(_) => "wl_msg".into(),
            Ty::Option(t) => {
                let inner = self.cty(t);
                let name = format!("wl_opt_{}", mangle(&inner));
                let known = matches!(name.as_str(), "wl_opt_wl_bytes" | "wl_opt_uint32_t" | "wl_opt_uint64_t");
                if !known && self.first(&name) {
                    self.types.push_str(&format!("typedef struct {name} {{ bool has; {inner} v; }} {name};\n"));
                }
                name
            }
            Ty::List(t, max) => {
                let inner = self.cty(t);
                let name = format!("wl_list_{}_{max}", mangle(&inner));
                if self.first(&name) {
                    self.types.push_str(&format!(
                        "typedef struct {name} {{ uint32_t n; {inner} v[{}]; }} {name};\n",
                        max.max(1)
                    ));
                }
                name
            }
            Ty::Record(r) => {
                let name = format!("r_{}", names::record(self.m, r));
                let fields = self.typed_members(ty);
                self.define_struct(&name, &fields)
            }
            Ty::Tuple(_) => {
                let fields = self.typed_members(ty);
                let parts: Vec<_> = fields.iter().map(|(c, _)| mangle(c)).collect();
                self.define_struct(&format!("wl_tup{}_{}", parts.len(), parts.join("_")), &fields)
            }
        }
    }

    /// Members of a record or tuple: C type, C name.
    fn typed_members(&mut self, ty: TyId) -> Vec<(String, String)> {
        self.members(ty).into_iter().map(|(n, t)| (self.cty(t), n)).collect()
    }

    fn define_struct(&mut self, name: &str, fields: &[(String, String)]) -> String {
        let mut text: String = fields.iter().map(|(c, n)| format!("{c} {n}; ")).collect();
        if text.is_empty() {
            // An initializer of something around it needs a member.
            text = "uint8_t unused_; ".into();
        }
        if self.first(name) {
            self.types.push_str(&format!("typedef struct {name} {{ {text}}} {name};\n"))
        }
        name.to_string()
    }

    /// Members of a record or tuple: C name and type.
    pub fn members(&self, ty: TyId) -> Vec<(String, TyId)> {
        match self.m.ty(ty) {
            Ty::Record(r) => self.m.records[r.index()].fields.iter().map(|(n, t)| (ident(n), *t)).collect(),
            Ty::Tuple(ts) => ts.iter().enumerate().map(|(i, t)| (format!("e{i}"), *t)).collect(),
            Ty::Unit
            | Ty::Bool
            | Ty::UInt(_)
            | Ty::Int(_)
            | Ty::Bytes(_)
            | Ty::Endpoint
            | Ty::Ip
            | Ty::Option(_)
            | Ty::List(..)
            | Ty::Msg(_) => Vec::new(),
        }
    }

    /// A zero value.
    pub fn zero(&mut self, ty: TyId) -> String {
        let c = self.cty(ty);
        match self.m.ty(ty) {
            Ty::Msg(u) if self.is_frame(*u) => "NULL".into(),
            Ty::Unit | Ty::Bool | Ty::UInt(_) | Ty::Int(_) => format!("({c})0"),
            Ty::Bytes(_)
            | Ty::Endpoint
            | Ty::Ip
            | Ty::Option(_)
            | Ty::List(..)
            | Ty::Record(_)
            | Ty::Tuple(_)
            | Ty::Msg(_) => format!("({c}){{0}}"),
        }
    }

    /// An expression that is true where two values are equal.
    pub fn equal(&mut self, ty: TyId, a: &str, b: &str) -> String {
        match self.m.ty(ty).clone() {
            Ty::Unit => "true".into(),
            Ty::Bool | Ty::UInt(_) | Ty::Int(_) => format!("({a} == {b})"),
            Ty::Bytes(_) => format!("wl_eq({a}, {b})"),
            Ty::Endpoint => format!("wl_ep_eq({a}, {b})"),
            Ty::Ip => format!("wl_ip_eq({a}, {b})"),
            Ty::Msg(_) => "false".into(),
            kind @ Ty::Option(_) | kind @ Ty::List(..) | kind @ Ty::Record(_) | kind @ Ty::Tuple(_) => {
                let c = self.cty(ty);
                let name = format!("eq_{}", mangle(&c));
                if self.first(&name) {
                    let body = match kind {
                        Ty::Option(t) => {
                            format!("return a.has == b.has && (!a.has || {});", self.equal(t, "a.v", "b.v"))
                        }
                        Ty::List(t, _) => {
                            let e = self.equal(t, "a.v[i]", "b.v[i]");
                            format!("if (a.n != b.n) return false;\nfor (uint32_t i = 0; i < a.n; i++) if (!{e}) return false;\nreturn true;")
                        }
                        Ty::Unit
                        | Ty::Bool
                        | Ty::UInt(_)
                        | Ty::Int(_)
                        | Ty::Bytes(_)
                        | Ty::Endpoint
                        | Ty::Ip
                        | Ty::Record(_)
                        | Ty::Tuple(_)
                        | Ty::Msg(_) => {
                            let parts: Vec<_> = self
                                .members(ty)
                                .iter()
                                .map(|(n, t)| self.equal(*t, &format!("a.{n}"), &format!("b.{n}")))
                                .collect();
                            format!("return {};", if parts.is_empty() { "true".into() } else { parts.join(" && ") })
                        }
                    };
                    let inline = self.inline();
                    self.helpers.push_str(&format!("{inline} bool {name}({c} a, {c} b) {{\n{body}\n}}\n"));
                }
                format!("{name}({a}, {b})")
            }
        }
    }

    /// The storage of functions of values. BPF has no arguments of more than 16 bytes.
    fn inline(&self) -> &'static str {
        if self.xdp {
            "WL_INLINE"
        } else {
            "static inline"
        }
    }

    /// FNV-1a over a value's bytes, going on from `h`.
    pub fn hash(&mut self, ty: TyId, h: &str, v: &str) -> String {
        match self.m.ty(ty).clone() {
            Ty::Unit | Ty::Msg(_) => h.into(),
            Ty::Bool => format!("wl_h_int({h}, {v}, 1)"),
            Ty::UInt(b) if b > 64 => format!("wl_h_u128({h}, {v})"),
            Ty::UInt(b) | Ty::Int(b) => format!("wl_h_int({h}, (uint64_t)({v}), {})", b.div_ceil(8)),
            Ty::Bytes(_) => format!("wl_h_bytes({h}, {v})"),
            Ty::Endpoint => format!("wl_h_endpoint({h}, {v})"),
            Ty::Ip => format!("wl_h_ip({h}, {v})"),
            kind @ Ty::Option(_) | kind @ Ty::List(..) | kind @ Ty::Record(_) | kind @ Ty::Tuple(_) => {
                let c = self.cty(ty);
                let name = format!("hash_{}", mangle(&c));
                if self.first(&name) {
                    let body = match kind {
                        Ty::Option(t) => {
                            format!("h = wl_h_int(h, v.has, 1);\nif (v.has) h = {};\n", self.hash(t, "h", "v.v"))
                        }
                        Ty::List(t, _) => {
                            format!("for (uint32_t i = 0; i < v.n; i++) h = {};\n", self.hash(t, "h", "v.v[i]"))
                        }
                        Ty::Unit
                        | Ty::Bool
                        | Ty::UInt(_)
                        | Ty::Int(_)
                        | Ty::Bytes(_)
                        | Ty::Endpoint
                        | Ty::Ip
                        | Ty::Record(_)
                        | Ty::Tuple(_)
                        | Ty::Msg(_) => self
                            .members(ty)
                            .iter()
                            .map(|(n, t)| format!("h = {};\n", self.hash(*t, "h", &format!("v.{n}"))))
                            .collect(),
                    };
                    let inline = self.inline();
                    self.helpers
                        .push_str(&format!("{inline} uint64_t {name}(uint64_t h, {c} v) {{\n{body}return h;\n}}\n"));
                }
                format!("{name}({h}, {v})")
            }
        }
    }

    /// The type in which a value is stored. Types without bytes are stored as they are.
    pub fn stored(&mut self, ty: TyId) -> String {
        if !layout::has_bytes(self.m, ty) {
            return self.cty(ty);
        }
        let (name, body) = match self.m.ty(ty).clone() {
            Ty::Bytes(n) => (format!("s_bytes_{n}"), format!("uint32_t n; uint8_t b[{}];", n.max(1))),
            Ty::Option(t) => {
                let s = self.stored(t);
                (format!("s_opt_{}", mangle(&s)), format!("bool has; {s} v;"))
            }
            Ty::List(t, max) => {
                let s = self.stored(t);
                (format!("s_list_{}_{max}", mangle(&s)), format!("uint32_t n; {s} v[{}];", max.max(1)))
            }
            Ty::Unit
            | Ty::Bool
            | Ty::UInt(_)
            | Ty::Int(_)
            | Ty::Endpoint
            | Ty::Ip
            | Ty::Record(_)
            | Ty::Tuple(_)
            | Ty::Msg(_) => {
                let parts: Vec<_> = self.members(ty).iter().map(|(n, t)| (n.clone(), self.stored(*t))).collect();
                let tag = match self.m.ty(ty) {
                    Ty::Record(r) => format!("s_{}", names::record(self.m, *r)),
                    Ty::Unit
                    | Ty::Bool
                    | Ty::UInt(_)
                    | Ty::Int(_)
                    | Ty::Bytes(_)
                    | Ty::Endpoint
                    | Ty::Ip
                    | Ty::Option(_)
                    | Ty::List(..)
                    | Ty::Tuple(_)
                    | Ty::Msg(_) => format!(
                        "s_tup{}_{}",
                        parts.len(),
                        parts.iter().map(|(_, s)| mangle(s)).collect::<Vec<_>>().join("_")
                    ),
                };
                (tag, parts.iter().map(|(n, s)| format!("{s} {n}; ")).collect())
            }
        };
        if self.first(&name) {
            let body = if body.is_empty() { "uint8_t unused_; " } else { &body };
            self.types.push_str(&format!("typedef struct {name} {{ {body} }} {name};\n"))
        }
        name
    }

    /// A statement that stores value `v` at lvalue `at`.
    pub fn store(&mut self, ty: TyId, at: &str, v: &str) -> String {
        if !layout::has_bytes(self.m, ty) {
            return format!("{at} = {v};");
        }
        let (s, c) = (self.stored(ty), self.cty(ty));
        let name = format!("put_{}", mangle(&s));
        if self.first(&name) {
            let body = match self.m.ty(ty).clone() {
                // The checker proves the bound; the clamp keeps memory safe in any case.
                Ty::Bytes(n) => {
                    format!("uint32_t n = v.n > {n}u ? {n}u : v.n;\nif (n) memmove(d->b, v.p, n);\nd->n = n;\n")
                }
                Ty::Option(t) => format!("if (v.has) {{ {} }}\nd->has = v.has;\n", self.store(t, "d->v", "v.v")),
                Ty::List(t, _) => format!(
                    "for (uint32_t i = 0; i < v.n; i++) {{ {} }}\nd->n = v.n;\n",
                    self.store(t, "d->v[i]", "v.v[i]")
                ),
                Ty::Unit
                | Ty::Bool
                | Ty::UInt(_)
                | Ty::Int(_)
                | Ty::Endpoint
                | Ty::Ip
                | Ty::Record(_)
                | Ty::Tuple(_)
                | Ty::Msg(_) => self
                    .members(ty)
                    .iter()
                    .map(|(n, t)| self.store(*t, &format!("d->{n}"), &format!("v.{n}")) + "\n")
                    .collect(),
            };
            self.helpers.push_str(&format!("static inline void {name}({s} *d, {c} v) {{\n{body}}}\n"));
        }
        format!("{name}(&{at}, {v});")
    }

    /// The value stored at lvalue `at`; its bytes point into the store.
    pub fn load(&mut self, ty: TyId, at: &str) -> String {
        if !layout::has_bytes(self.m, ty) {
            return at.into();
        }
        let (s, c) = (self.stored(ty), self.cty(ty));
        let name = format!("get_{}", mangle(&s));
        if self.first(&name) {
            let body = match self.m.ty(ty).clone() {
                Ty::Bytes(_) => "return wl_b(d->b, d->n);".into(),
                Ty::Option(t) => format!(
                    "{c} v = {{0}};\nif (d->has) {{ v.has = true; v.v = {}; }}\nreturn v;",
                    self.load(t, "d->v")
                ),
                Ty::List(t, _) => {
                    format!(
                        "{c} v;\nv.n = d->n;\nfor (uint32_t i = 0; i < v.n; i++) v.v[i] = {};\nreturn v;",
                        self.load(t, "d->v[i]")
                    )
                }
                Ty::Unit
                | Ty::Bool
                | Ty::UInt(_)
                | Ty::Int(_)
                | Ty::Endpoint
                | Ty::Ip
                | Ty::Record(_)
                | Ty::Tuple(_)
                | Ty::Msg(_) => {
                    let sets: String = self
                        .members(ty)
                        .iter()
                        .map(|(n, t)| format!("v.{n} = {};\n", self.load(*t, &format!("d->{n}"))))
                        .collect();
                    // A record may have no fields.
                    let clear = if sets.is_empty() { "memset(&v, 0, sizeof v);\n" } else { "" };
                    format!("{c} v;\n{clear}{sets}return v;")
                }
            };
            self.helpers.push_str(&format!("static inline {c} {name}(const {s} *d) {{\n{body}\n}}\n"));
        }
        format!("{name}(&{at})")
    }
}

/// Ranges hold the bits of a number at its own width; a negative one comes with more ones in front.
pub(crate) fn low_bits(value: &str, int: Option<(u8, bool)>) -> String {
    match int {
        Some((bits, true)) if bits < 64 => format!("({value} & UINT64_C({:#x}))", (1u64 << bits) - 1),
        _ => value.into(),
    }
}
