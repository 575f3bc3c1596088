//! Addresses: literals, and the test whether an address lies in a prefix. An IPv4 address is always
//! in its IPv6-mapped form, so that one comparison serves both.

use super::Lower;
use crate::compiler::{Reported, R, T_BOOL, T_U32};
use crate::ir_builder as build;
use crate::ty::Ty;
use crate::val::{Val, Vk};
use ir::{BinOp as B, Expr as X, ExprKind as K};
use std::net::{IpAddr, SocketAddr};
use wireloom_ir as ir;
use wireloom_syntax::ast::{self, Expr, Span};
use wireloom_syntax::Diagnostic;

impl Lower<'_, '_> {
    pub fn address(&mut self, text: &str, span: Span) -> R<Val> {
        if let Ok(a) = text.parse::<SocketAddr>() {
            return Ok(Val::pure(Ty::Endpoint, self.endpoint_const(number(a.ip()), a.port())));
        }
        if let Ok(ip) = text.parse::<IpAddr>() {
            return Ok(Val::pure(Ty::Ip, self.ip_const(number(ip))));
        }
        if let Some(mac) = mac(text) {
            let t = self.cx.lower_ty(&Ty::Mac);
            return Ok(Val::pure(Ty::Mac, build::int(t, mac)));
        }
        self.prefix(text, span)
    }

    fn prefix(&mut self, text: &str, span: Span) -> R<Val> {
        let wrong = |s: &mut Self| Err(s.err("E0304", span, format!("`{text}` is no address")));
        let Some((ip, len)) = text.split_once('/') else { return wrong(self) };
        let (Ok(ip), Ok(len)) = (ip.parse::<IpAddr>(), len.parse::<u32>()) else { return wrong(self) };
        let (bits, above) = if ip.is_ipv4() { (32, 96) } else { (128, 0) };
        if len > bits {
            return Err(self.err("E0304", span, format!("a prefix of this address has at most {bits} bits")));
        }
        let mask = u128::MAX.checked_shl(128 - (len + above)).unwrap_or(0);
        let net = number(ip) & mask;
        if net != number(ip) {
            let d = Diagnostic::error("E0304", span, format!("`{text}` has bits set behind its {len}"))
                .hint(format!("write `{}/{len}`, or the address alone", shown(net, ip.is_ipv4())));
            return Err(self.cx.report(d));
        }
        Ok(Val::pure(Ty::Prefix, self.prefix_const(net, mask)))
    }

    /// `prefix(address, bits)`: the first bits of an address; more than it has are all. An address
    /// of either family has those of its own.
    #[allow(clippy::wildcard_enum_match_arm, reason = "a few kinds of many are looked for")]
    pub fn prefix_of(&mut self, address: &Expr, bits: &Expr) -> R<Val> {
        let v = self.expr(address, None)?;
        let v = self.defined(v, address.span)?;
        let most = match v.ty {
            Ty::Ip4 => Some(32),
            Ty::Ip6 => Some(128),
            Ty::Ip => None,
            Ty::Error => return Err(crate::compiler::Reported),
            _ => {
                let s = self.show(&v.ty);
                return Err(self.err("E0301", address.span, format!("expected an address, found {s}")));
            }
        };
        let from = v.ty.clone();
        let e = self.coerce(v, &from, address.span)?;
        let ip = if from == Ty::Ip { e } else { self.address_as(e, &from, &Ty::Ip, address.span)? };
        let wide = self.cx.lower_ty(&Ty::Int { bits: 128, signed: false });
        let bits = self.expr_as(bits, &crate::ty::U32)?;
        let value = X::new(wide, K::Cast(ip));
        let mapped =
            || build::cmp(B::Eq, build::bin(wide, B::Shr, value.clone(), build::u32(32)), build::int(wide, 0xffff));
        let most = most.map_or_else(|| build::if_(T_U32, mapped(), build::u32(32), build::u32(128)), build::u32);
        let left = build::bin(T_U32, B::SubSat, most, bits);
        let mask = build::bin(wide, B::Shl, build::int(wide, u128::MAX), left);
        let net = build::bin(wide, B::BitAnd, value, mask.clone());
        let pair = X::new(self.cx.lower_ty(&Ty::Prefix), K::Make(vec![net, mask]));
        Ok(Val::pure(Ty::Prefix, crate::fold::fold(&self.cx.m, &pair)))
    }

    /// `ip in prefix`, `ip in {prefix, ip}`, `ip in list`.
    #[allow(clippy::wildcard_enum_match_arm, reason = "a few kinds of many are looked for")]
    pub fn ip_in(&mut self, ip: X, set: &Expr) -> R<X> {
        if let ast::ExprKind::Set(items) = &*set.kind {
            self.cx.set_has_items(items, set.span)?;
            let mut any = build::boolean(false);
            for i in items {
                any = build::or(any, self.ip_in(ip.clone(), i)?);
            }
            return Ok(any);
        }
        let v = self.expr(set, None)?;
        let v = self.defined(v, set.span)?;
        match (&v.ty, &v.kind) {
            (Ty::Prefix, Vk::Pure(p)) => {
                let p = p.clone();
                Ok(self.in_prefix(ip, &p))
            }
            (Ty::Ip, Vk::Pure(other)) => Ok(build::cmp(B::Eq, ip, other.clone())),
            (Ty::List(t, _), Vk::Pure(list)) if matches!(**t, Ty::Prefix | Ty::Ip) => match &*list.kind {
                K::MakeList(items) => {
                    let prefixes = **t == Ty::Prefix;
                    let mut any = build::boolean(false);
                    for i in items {
                        any = build::or(
                            any,
                            if prefixes {
                                self.in_prefix(ip.clone(), i)
                            } else {
                                build::cmp(B::Eq, ip.clone(), i.clone())
                            },
                        );
                    }
                    Ok(any)
                }
                _ => Err(self.cx.report(
                    Diagnostic::error("E0301", set.span, "this list is not known at compile time")
                        .hint("`list.any(|p| ip in p)` asks its items"),
                )),
            },
            (Ty::Error, _) => Err(Reported),
            (t, _) => {
                let text = format!("expected prefixes or addresses, found {}", self.show(t));
                let d = Diagnostic::error("E0301", set.span, text);
                let hint = self.quoted(&Ty::Prefix, t, set.span);
                Err(self.cx.report(match hint {
                    Some(hint) => d.hint(hint),
                    None => d,
                }))
            }
        }
    }

    /// An address as one of another type: of either family, or (a constant) of the current family.
    pub fn address_as(&mut self, e: X, from: &Ty, to: &Ty, span: Span) -> R<X> {
        let wide = self.cx.lower_ty(&Ty::Int { bits: 128, signed: false });
        match (from, to) {
            (Ty::Ip4, _) => {
                let mapped = build::bin(wide, B::BitOr, self.recast(wide, e), build::int(wide, 0xffff << 32));
                Ok(X::new(self.cx.lower_ty(&Ty::Ip), K::Cast(crate::fold::fold(&self.cx.m, &mapped))))
            }
            (Ty::Ip6, _) => Ok(X::new(self.cx.lower_ty(&Ty::Ip), K::Cast(e))),
            _ => {
                let t = self.cx.lower_ty(to);
                match constant(&e) {
                    Some(n) if *to == Ty::Ip6 => Ok(build::int(t, n)),
                    Some(n) if n >> 32 == 0xffff => Ok(build::int(t, n & 0xffff_ffff)),
                    Some(_) => Err(self.err("E0304", span, "this is no IPv4 address")),
                    None => Err(self.cx.report(
                        Diagnostic::error("E0301", span, "an `ip` may be of either family")
                            .label("wanted: one family")
                            .hint("use the header's own address (`p.ip4.src`), or let the other side be an `ip`"),
                    )),
                }
            }
        }
    }

    /// Two addresses, one of them a constant, compare as the other one's family.
    pub fn same_family(&mut self, a: Val, b: Val) -> (Val, Val) {
        let narrow = |s: &mut Self, family: &Val, v: Val| -> Val {
            let (Ty::Ip4 | Ty::Ip6, Ty::Ip, Vk::Pure(e)) = (&family.ty, &v.ty, &v.kind) else { return v };
            match constant(e) {
                Some(n) if family.ty == Ty::Ip6 || n >> 32 == 0xffff => {
                    let t = s.cx.lower_ty(&family.ty);
                    Val::pure(family.ty.clone(), build::int(t, if family.ty == Ty::Ip6 { n } else { n & 0xffff_ffff }))
                }
                _ => v,
            }
        };
        let a = narrow(self, &b, a);
        let b = narrow(self, &a, b);
        (a, b)
    }

    /// Whether an address is one of IPv4.
    pub fn is_v4(&mut self, ip: X) -> X {
        let mapped = self.prefix_const(0xffff << 32, u128::MAX << 32);
        self.in_prefix(ip, &mapped)
    }

    fn in_prefix(&mut self, ip: X, p: &X) -> X {
        let t = self.cx.lower_ty(&Ty::Int { bits: 128, signed: false });
        let wide = Ty::Int { bits: 128, signed: false };
        let (net, mask) = (self.get(p, 0, &wide), self.get(p, 1, &wide));
        build::bin(T_BOOL, B::Eq, build::bin(t, B::BitAnd, X::new(t, K::Cast(ip)), mask), net)
    }
}

/// The number of a constant address.
#[allow(clippy::wildcard_enum_match_arm, reason = "a few kinds of many are looked for")]
fn constant(e: &X) -> Option<u128> {
    match &*e.kind {
        K::Cast(n) => build::as_int(n),
        _ => None,
    }
}

fn number(ip: IpAddr) -> u128 {
    match ip {
        IpAddr::V4(a) => a.to_ipv6_mapped().into(),
        IpAddr::V6(a) => a.into(),
    }
}

fn shown(n: u128, v4: bool) -> String {
    if v4 {
        std::net::Ipv4Addr::from(n as u32).to_string()
    } else {
        std::net::Ipv6Addr::from(n).to_string()
    }
}

/// `02:00:00:00:00:01`
fn mac(text: &str) -> Option<u128> {
    let parts: Vec<&str> = text.split(':').collect();
    if parts.len() != 6 || parts.iter().any(|p| p.len() != 2) {
        return None;
    }
    parts.iter().try_fold(0u128, |n, p| Some(n << 8 | u128::from(u8::from_str_radix(p, 16).ok()?)))
}
