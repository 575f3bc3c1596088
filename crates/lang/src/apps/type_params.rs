//! Units and types as parameters of elements: `element Tag<U: unit>`, `tag = Tag<Vlan>()`.

use super::scope::{AppName, AppScope, Named, TypeBindings, TypeName};
use crate::compiler::{Compiler, Reported, R};
use crate::items::Item;
use crate::names::{Meaning, ModId};
use crate::ty::Ty;
use wireloom_syntax::ast::{self, Arg, Expr, ExprKind, Ident, Path, Span, TypeKind};
use wireloom_syntax::Diagnostic;

impl Compiler<'_> {
    /// The arguments that are types, and the others.
    pub fn type_args<'e>(
        &mut self,
        owner: ModId,
        module: ModId,
        element: &ast::Element,
        args: &'e [Arg],
        span: Span,
    ) -> R<(TypeBindings, &'e [Arg])> {
        let mut found = Vec::new();
        if self.any_types && self.making.is_empty() {
            for (n, _) in &element.types {
                found.push((n.clone(), AppName::Type(TypeName { module: owner, what: Named::Unknown })));
            }
            return Ok((found, args));
        }
        for (at, (name, kind)) in element.types.iter().enumerate() {
            let Some(Arg { name: None, value }) = args.get(at) else {
                let whole = element.types.iter().map(|(n, _)| n.name.as_str()).collect::<Vec<_>>().join(", ");
                let d = Diagnostic::error(
                    "E0308",
                    span,
                    format!("`{}` needs its type parameter `{}`", element.name.name, name.name),
                );
                return Err(self.report(d.hint(format!("write `{}<{whole}>(…)`", element.name.name))));
            };
            let what = if self.is_any_type(module, value) {
                Named::Unknown
            } else if kind.name == "unit" {
                self.unit_arg(module, value, element)?
            } else {
                self.type_arg(module, value, element)?
            };
            found.push((name.clone(), AppName::Type(TypeName { module: owner, what })));
        }
        Ok((found, &args[element.types.len()..]))
    }

    /// A type parameter of an element that is checked by itself, which may be anything.
    fn is_any_type(&self, module: ModId, e: &Expr) -> bool {
        let Some(ast::Type { kind: TypeKind::Named { path, args }, .. }) = as_type(e) else { return false };
        let [one] = path.parts.as_slice() else { return false };
        args.is_empty()
            && matches!(self.app.get(&one.name), Some(AppName::Type(t)) if t.module == module && matches!(t.what, Named::Unknown))
    }

    /// A type as it is meant where these names are known.
    pub fn ty_in(&mut self, scope: &AppScope, module: ModId, t: &ast::Type) -> R<Ty> {
        let outer = std::mem::replace(&mut self.app, scope.clone());
        let ty = self.ty(module, t);
        self.app = outer;
        ty
    }

    fn unit_arg(&mut self, module: ModId, e: &Expr, element: &ast::Element) -> R<Named> {
        let t = as_type(e);
        if let Some(ast::Type { kind: TypeKind::Named { path, args }, .. }) = &t {
            if args.is_empty() {
                let id = self.path_item(module, path, "unit")?;
                if matches!(self.item(id, path.span)?, Item::Unit(_)) {
                    return Ok(Named::Unit(id));
                }
            }
        }
        Err(self.error("E0301", e.span, format!("a unit is given here: `{}<Unit>(…)`", element.name.name)))
    }

    fn type_arg(&mut self, module: ModId, e: &Expr, element: &ast::Element) -> R<Named> {
        let Some(t) = as_type(e) else {
            return Err(self.error("E0301", e.span, format!("a type is given here: `{}<u32>(…)`", element.name.name)));
        };
        let ty = self.ty(module, &t)?;
        self.storable(module, &ty, e.span)?;
        Ok(Named::Type(ty))
    }

    /// A type parameter has a name that nothing else of its module has.
    pub fn type_params(&mut self, module: ModId, e: &ast::Element) {
        let made = self.distinct(e.types.iter().map(|(n, _)| n));
        self.settle(made, e.name.span);
        for (n, _) in &e.types {
            if let Some((Meaning::Item(id), 1)) = self.names.find(module, &[&n.name]) {
                let first = self.names.items[id].item.span;
                let d = Diagnostic::error("E0203", n.span, format!("`{}` is defined twice", n.name))
                    .label("defined again here")
                    .also(first, "first defined here");
                self.report(d.hint("give the type parameter another name"));
            }
        }
    }

    /// The meaning of a name that is a type parameter.
    #[allow(clippy::wildcard_enum_match_arm, reason = "a few kinds of many are looked for")]
    pub fn type_name(&self, module: ModId, path: &Path) -> Option<R<Meaning>> {
        let [one] = path.parts.as_slice() else { return None };
        match self.app.get(&one.name)? {
            AppName::Type(t) if t.module == module => Some(match &t.what {
                Named::Unit(id) => Ok(Meaning::Item(*id)),
                Named::Type(_) => return None,
                Named::Unknown => Err(Reported),
            }),
            _ => None,
        }
    }

    /// The type that a name stands for.
    #[allow(clippy::wildcard_enum_match_arm, reason = "a few kinds of many are looked for")]
    pub fn named_type(&self, module: ModId, name: &str) -> Option<Ty> {
        match self.app.get(name)? {
            AppName::Type(t) if t.module == module => match &t.what {
                Named::Type(t) => Some(t.clone()),
                Named::Unknown => Some(Ty::Error),
                Named::Unit(_) => None,
            },
            _ => None,
        }
    }
}

/// The text between `<` and `>`, as a type.
fn as_type(e: &Expr) -> Option<ast::Type> {
    if let ExprKind::Type(t) = &*e.kind {
        return Some(t.clone());
    }
    let ExprKind::Name(n) = &*e.kind else { return None };
    let parts = n.name.split('.').map(|p| Ident { name: p.trim().into(), span: e.span }).collect();
    Some(ast::Type { span: e.span, kind: TypeKind::Named { path: Path { parts, span: e.span }, args: vec![] } })
}
