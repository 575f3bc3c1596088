//! Names in messages: of types that differ by their module only, and of modules in the place of
//! what they hold.

use crate::compiler::{item_name, Compiler};
use crate::items::Item;
use crate::names::ModId;
use crate::ty::{self, Ty};
use wireloom_syntax::ast::ItemKind;
use wireloom_syntax::Diagnostic;

impl Compiler<'_> {
    /// Two types as texts that differ: with the modules of their names, where these are the same.
    #[allow(clippy::wildcard_enum_match_arm, reason = "a few kinds of many are looked for")]
    pub fn show_apart(&self, a: &Ty, b: &Ty) -> (String, String) {
        let (first, second) = (self.show(a), self.show(b));
        if first != second {
            return (first, second);
        }
        let named = |t: &Ty| {
            let of = |is: &dyn Fn(&Item) -> bool| {
                let id = self.cache.iter().find(|(_, i)| i.as_ref().is_some_and(is))?.0;
                let entry = &self.names.items[*id];
                Some(format!("{}.{}", self.names.modules[entry.module].name, item_name(&entry.item)?))
            };
            match t {
                Ty::Record(r) => of(&|i| matches!(i, Item::Record(o) if o == r)),
                Ty::Enum(e) => of(&|i| matches!(i, Item::Enum(o) if o == e)),
                _ => None,
            }
        };
        (ty::show_as(a, &self.m, &named), ty::show_as(b, &self.m, &named))
    }

    /// For the name of a module that is brought in already, and stands for something in it.
    pub fn is_module(&self, module: ModId, name: &str, protocol: bool, d: &Diagnostic) -> Option<Diagnostic> {
        let note = self.names.contents(module, name)?;
        let uses = &self.names.modules.get(module)?.uses;
        let of = uses.iter().find(|u| u.item.is_none() && u.parts.last().is_some_and(|l| l == name))?.module;
        let own = self.names.items.iter().filter(|i| i.module == of);
        let protocols = own.filter(|i| protocol && matches!(i.item.kind, ItemKind::Protocol(_)));
        let names: Vec<_> = protocols.filter_map(|i| Some(format!("`{name}.{}`", item_name(&i.item)?))).collect();
        Some(match names.is_empty() {
            true => d.clone().note(note),
            false => d.clone().hint(format!("`{name}` is a module; its protocols are {}", names.join(", "))),
        })
    }
}
