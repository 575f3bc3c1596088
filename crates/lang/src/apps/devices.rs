//! `on xdp` behind a handler, a segment or an element's instance: the device that runs it.
//!
//! In: the word, and the handlers that were lowered from the member. Out: their device, or a
//! diagnostic for each thing that the device does not have.

use crate::compiler::{Compiler, R};
use crate::names::ModId;
use crate::units::findings::source;
use ir::desc::{FrameEngine, PortKind};
use wireloom_ir as ir;
use wireloom_ir::ops::Device;
use wireloom_syntax::ast::{self, FileId, Ident, MemberKind, Span};
use wireloom_syntax::Diagnostic;

impl Compiler<'_> {
    /// The device that a program names.
    pub fn device_of(&mut self, device: &ast::Device) -> R<Device> {
        match device.name.name.as_str() {
            "cpu" => Ok(Device::Cpu),
            "xdp" => Ok(Device::Xdp),
            "nic" => Ok(Device::Nic),
            other => {
                let d = Diagnostic::error("E0675", device.name.span, format!("`{other}` is no device"));
                Err(self.report(d.hint("write `on xdp` or `on nic`, or leave it out: then the CPU runs it")))
            }
        }
    }

    /// Gives the handlers from a number on to a device.
    pub fn on_device(&mut self, device: &ast::Device, first: usize) -> R<()> {
        match self.device_of(device)? {
            Device::Xdp => self.on_xdp(device.name.span, first),
            // Segments are on the NIC, not handlers.
            Device::Cpu | Device::Nic | Device::Fpga => Ok(()),
        }
    }

    /// Gives the handlers of packets from a number on to the XDP hook.
    pub fn on_xdp(&mut self, at: Span, first: usize) -> R<()> {
        for n in first..self.m.handlers.len() {
            let h = &self.m.handlers[n];
            // The process runs timers, over the same tables.
            if matches!(h.on, ir::On::Every(_)) {
                continue;
            }
            if !self.is_of_nic(h) {
                let d = Diagnostic::error("E0674", at, "XDP runs handlers of the packets of a `nic(…)` only");
                return Err(self.report(d.hint("leave `on xdp` out: then the CPU runs the handler")));
            }
            self.m.handlers[n].device = Device::Xdp;
        }
        Ok(())
    }

    fn is_of_nic(&self, h: &ir::Handler) -> bool {
        let of_nic = |kind: &PortKind| matches!(kind, PortKind::Frames { engine: FrameEngine::Nic, .. });
        matches!(h.on, ir::On::Frame { port, .. } if of_nic(&self.m.ports[port.index()].kind))
    }

    /// Gives the handlers whose packets come to an instance to its device.
    pub fn instances_on_devices(&mut self, module: ModId, app: &ast::Element) -> R<()> {
        for m in &app.members {
            let MemberKind::Instance { name, device: Some(device), .. } = &m.kind else { continue };
            let on = self.device_of(device)?;
            if matches!(on, Device::Cpu | Device::Nic) {
                let made = self.instance_in_segment(module, name, device);
                self.settle(made, name.span);
                continue;
            }
            let comes = |h: &ir::Handler| self.comes_to(h, &name.name) && self.is_of_nic(h);
            let all: Vec<usize> = (0..self.m.handlers.len()).filter(|n| comes(&self.m.handlers[*n])).collect();
            if all.is_empty() {
                let text = format!("no packets of a `nic(…)` come to `{}`", name.name);
                let d = Diagnostic::error("E0674", device.name.span, text);
                self.report(d.hint("leave `on xdp` out: then the CPU runs the element"));
            }
            all.into_iter().for_each(|n| self.m.handlers[n].device = Device::Xdp);
        }
        Ok(())
    }

    /// The handlers whose packets come to an instance make a segment, which has its name.
    fn instance_in_segment(&mut self, module: ModId, name: &Ident, device: &ast::Device) -> R<()> {
        let comes = |h: &ir::Handler| matches!(h.on, ir::On::Frame { .. }) && self.comes_to(h, &name.name);
        let all: Vec<usize> = (0..self.m.handlers.len()).filter(|n| comes(&self.m.handlers[*n])).collect();
        if all.is_empty() {
            let d = Diagnostic::error("E0674", device.name.span, format!("no packets come to `{}`", name.name));
            return Err(self.report(d.hint(format!("leave `on {}` out", device.name.name))));
        }
        if let Some(h) = all.iter().map(|n| &self.m.handlers[*n]).find(|h| h.segment.is_some()) {
            let text = format!("the packets that come to `{}` belong to a segment already", name.name);
            let d = Diagnostic::error("E0651", device.name.span, text).also(source(h.span), "in it");
            return Err(self.report(d.hint("leave the device out here, and name it at the segment")));
        }
        let id = ir::SegmentId(self.m.segments.len() as u32);
        self.segment(module, name, device, name.span)?;
        all.into_iter().for_each(|n| self.m.handlers[n].segment = Some(id));
        Ok(())
    }

    /// Whether a handler's packets come to an instance of the app.
    fn comes_to(&self, h: &ir::Handler, instance: &str) -> bool {
        let own = |e: ir::ElementId| self.m.elements.get(e.index()).is_some_and(|e| e.name == instance);
        let leads = |block: &ir::Block| {
            let inputs = self.m.outputs(block);
            inputs.iter().any(|i| self.m.inputs[i.index()].element.is_some_and(own))
        };
        let mut comes = false;
        self.m.reached(&h.body.block, &mut |b| comes |= leads(b));
        comes
    }

    /// Reports what the named devices do not have. The module is whole.
    pub fn check_devices(&mut self) {
        if self.diags.iter().any(Diagnostic::is_error) {
            return;
        }
        for o in ir::placement::refused(&self.m) {
            let at = Span { file: FileId(o.span.file), start: o.span.start, end: o.span.end };
            let d = Diagnostic::error(o.code, at, o.what).label("the handler stands `on xdp`");
            self.report(if o.hint.is_empty() { d } else { d.hint(o.hint) });
        }
    }
}
