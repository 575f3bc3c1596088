//! The head of a handler: its event, its condition and its device, in this order.

use super::{Abort, Parser, P};
use crate::ast::Handler;
use crate::diagnostic::Diagnostic;
use crate::token::Tok;

/// Words of devices.
const DEVICES: [&str; 3] = ["xdp", "nic", "cpu"];

impl Parser<'_> {
    /// `on wire(p) where p.ip4 on xdp { … }`
    pub(super) fn handler(&mut self) -> P<Handler> {
        self.bump();
        self.no_device_first()?;
        let on = self.event()?;
        let guard = if self.eat_word("where") { Some(self.condition_expr()?) } else { None };
        let device = if self.eat_word("on") { Some(self.device()?) } else { None };
        if let Some(device) = device.as_ref().filter(|_| guard.is_none() && self.at_word("where")) {
            let name = &device.name.name;
            let d = Diagnostic::error("E0101", self.span(), format!("`where` stands before `on {name}`"));
            self.report(d.hint(format!("write `on wire(p) where p.ip4 on {name} {{ … }}`")));
            return Err(Abort);
        }
        Ok(Handler { on, guard, device, body: self.block()? })
    }

    /// `on xdp wire(p)`: the device stands behind the event.
    fn no_device_first(&mut self) -> P<()> {
        let Some(device) = DEVICES.into_iter().find(|d| self.at_word(d)).filter(|_| self.token(1).tok == Tok::Word)
        else {
            return Ok(());
        };
        let d = Diagnostic::error("E0101", self.span(), format!("`{device}` stands in the place of a port"));
        self.report(d.hint(format!("the device comes last: `on wire(p) on {device} {{ … }}`")));
        Err(Abort)
    }
}
