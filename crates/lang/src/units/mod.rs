//! Units: from the source's grammar to the IR's fields. [`fields`] lowers one field, [`shapes`] its
//! shape, [`computed`] the lengths that are filled in when a message is built. [`findings`] turns
//! the findings of the grammar analysis into diagnostics.

pub mod computed;
pub mod enclosed;
pub mod fields;
pub mod findings;
pub mod header;
pub mod info;
pub mod packets;
pub mod records;
pub mod shapes;

use crate::compiler::{Compiler, R};
use crate::ir_builder as build;
use crate::names::ModId;
use crate::ty::{Elem, Ty};
use crate::val::Val;
use info::{Member, Members, UnitInfo};
use wireloom_ir as ir;
use wireloom_syntax::{ast, Diagnostic};

/// Fields of headers, and the names that they have elsewhere.
const OTHER_NAMES: &[(&str, &[&str])] = &[
    ("src", &["sport", "source", "src_port", "source_port", "saddr", "src_ip", "src_addr", "src_mac"]),
    ("dst", &["dport", "dest", "destination", "dst_port", "dest_port", "daddr", "dst_ip", "dst_addr", "dst_mac"]),
    ("proto", &["protocol", "next_header", "ip_proto"]),
    ("next", &["proto", "protocol", "next_header"]),
    ("type", &["ethertype", "ether_type", "eth_type", "proto"]),
    ("hops", &["ttl", "hop_limit", "hlim"]),
    ("total", &["length", "len", "tot_len", "total_length"]),
    ("length", &["len", "payload_length", "payload_len", "total"]),
    ("offset", &["doff", "data_offset", "frag_offset"]),
    ("checksum", &["csum", "check", "chksum"]),
    ("vid", &["vlan", "id", "vlan_id"]),
    ("target", &["path", "url", "uri"]),
    ("data", &["body", "payload", "content"]),
];

impl Compiler<'_> {
    pub fn unit_item(&mut self, module: ModId, u: &ast::Unit, doc: &str) -> R<ir::UnitId> {
        let before = self.errors();
        let id = self.new_unit(module, u, doc);
        // An error of the parser was counted before.
        let whole = fields::Builder::new(self, id, module).unit(u);
        let ok = whole && self.errors() == before;
        self.units[id.index()].ok = ok;
        // A unit that cannot be used still has a name and fields: its users are checked.
        Ok(id)
    }

    /// A unit without fields yet.
    pub fn new_unit(&mut self, module: ModId, u: &ast::Unit, doc: &str) -> ir::UnitId {
        let id = ir::UnitId(self.m.units.len() as u32);
        let owner = self.names.modules[module].name.clone();
        self.m.units.push(ir::Unit {
            name: format!("{owner}.{}", u.name.name),
            doc: doc.to_string(),
            span: self.span(u.name.span),
            params: vec![],
            asked: vec![],
            fields: vec![],
            body: vec![],
            tail: 0,
            streams: false,
            limit: None,
            min: 0,
            max: 0,
            head_max: 0,
            first: ir::ByteSet::ALL,
            frame: None,
            header: ir::Header::default(),
        });
        self.units.push(UnitInfo {
            params: vec![],
            members: Members::default(),
            defaults: vec![],
            texts: vec![],
            enclosed: vec![],
            measured: vec![],
            appended: vec![],
            of: None,
            packet: None,
            lacks_params: false,
            ok: false,
        });
        self.unit_params(module, id, u);
        id
    }

    pub fn errors(&self) -> usize {
        self.diags.iter().filter(|d| d.is_error()).count()
    }

    /// Bits of a value that travels with a message, where it can.
    #[allow(clippy::wildcard_enum_match_arm, reason = "a few kinds of many are looked for")]
    pub fn param_bits(&self, t: &Ty) -> Option<u8> {
        match t {
            Ty::Bool => Some(1),
            Ty::Enum(e) => Some(self.m.enums[e.index()].bits),
            t => t.int_bits(),
        }
    }

    fn unit_params(&mut self, module: ModId, id: ir::UnitId, u: &ast::Unit) {
        let mut shift = 0u32;
        let made = self.distinct(u.params.iter().map(|p| &p.name));
        self.settle(made, u.name.span);
        for p in &u.params {
            let Ok(ty) = self.ty(module, &p.ty) else {
                self.must_be_told(p.ty.span);
                continue;
            };
            let Some(bits) = self.param_bits(&ty) else {
                let shown = self.show(&ty);
                self.error(
                    "E0424",
                    p.ty.span,
                    format!("a unit's parameter is an integer, an enum or a bool, not {shown}"),
                );
                continue;
            };
            if shift + u32::from(bits) > 64 {
                self.error("E0424", p.name.span, "the parameters of a unit are at most 64 bits together");
                continue;
            }
            let t = self.lower_ty(&ty);
            self.m.units[id.index()].params.push(ir::UnitParam {
                name: p.name.name.clone(),
                ty: t,
                shift: shift as u8,
                bits,
            });
            self.units[id.index()].params.push((p.name.name.clone(), ty));
            shift += u32::from(bits);
        }
        let info = &mut self.units[id.index()];
        info.lacks_params = info.params.len() < u.params.len();
    }

    /// The value of a member of the unit reached by a path. With `inside`, the cases it lies in are
    /// part of the value's option.
    pub fn member_val(&mut self, path: &ir::Path, unit: ir::UnitId, member: &Member) -> Val {
        let at = build::step(path, ir::Step::Field(member.field));
        let mut val = if member.ty.is_plain() {
            let t = self.lower_ty(&member.ty);
            Val::pure(member.ty.clone(), build::read(t, at))
        } else {
            Val::path(member.ty.clone(), at)
        };
        val.caseless = member.caseless;
        let _ = unit;
        match member
            .cases
            .iter()
            .map(|(s, n)| build::case(build::step(path, ir::Step::Field(*s)), *n))
            .reduce(build::and)
        {
            None => val,
            Some(cond) => Val { caseless: member.caseless, ..Val::maybe(cond, val) },
        }
    }

    /// The value of an item of a list field.
    pub fn item_val(&mut self, list: &ir::Path, elem: &Elem, index: ir::Expr) -> Val {
        let at = build::step(list, ir::Step::Index(index));
        match elem {
            Elem::Unit(u) => Val::path(Ty::Msg(*u), at),
            Elem::Value(t) => {
                let ty = self.lower_ty(t);
                Val::pure(t.clone(), build::read(ty, at))
            }
        }
    }

    pub fn unknown_field(&mut self, unit: ir::UnitId, name: &ast::Ident) -> crate::compiler::Reported {
        let info = &self.units[unit.index()];
        let computed = info
            .packet
            .iter()
            .flat_map(|p| p.lets.iter().map(|(n, ..)| n.name.as_str()).chain(packets::BUILTIN.iter().copied()));
        let all: Vec<&str> = info.members.iter().map(|m| m.name.as_str()).chain(computed).collect();
        let hint = crate::names::suggest(&name.name, all.iter().copied());
        let other = OTHER_NAMES.iter().filter(|(_, others)| others.contains(&name.name.as_str()));
        let hint = other.map(|(own, _)| *own).find(|own| all.contains(own)).map(str::to_string).or(hint);
        let (what, shown) = if info.packet.is_some() { ("header", 40) } else { ("field", 12) };
        let mut known = all.iter().take(shown).copied().collect::<Vec<_>>().join(", ");
        if all.len() > shown {
            known += ", …";
        }
        let d = Diagnostic::error(
            "E0201",
            name.span,
            format!("{} has no {what} `{}`", self.m.units[unit.index()].name, name.name),
        )
        .label(format!("unknown {what}"))
        .note(format!("its {what}s: {known}"));
        self.report(crate::names::with_hint(d, hint))
    }
}
