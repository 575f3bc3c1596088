//! The functions that hash the names of a ring's points ([`Port::consistent`]). The runtime calls
//! them outside of handlers: they see their argument, and parameters of the app.

use crate::{walk, Expr, ExprKind, Func, FuncBody, FuncId, Module, Port, Ty};

/// Bytes of the longest name of a point: a server's name, `-`, and the point's number.
pub const POINT_NAME_MAX: u64 = 512;

impl Module {
    /// Whether a function can hash the names of points.
    pub fn hashes_points(&self, f: FuncId) -> bool {
        let mut seen = vec![false; self.funcs.len()];
        let mut open = vec![f];
        let mut alone = true;
        while let Some(f) = open.pop() {
            let Some(func) = self.funcs.get(f.index()) else { return false };
            if std::mem::replace(&mut seen[f.index()], true) {
                continue;
            }
            if let FuncBody::Body(body) = &func.body {
                walk::block_exprs(&body.block, &mut |e| alone &= is_of_values(e, &mut open));
            }
        }
        alone
    }

    /// Whether a port's function is there, and of the right type.
    pub(crate) fn points_are_hashed(&self, port: &Port) -> bool {
        let Some(f) = port.consistent else { return true };
        let takes_bytes = |func: &Func| match &func.body {
            FuncBody::Body(b) => b.locals.first().is_some_and(|l| self.holds_names(self.ty(l.ty))),
            FuncBody::Extern { .. } => true,
        };
        port.kind.is_connect()
            && self
                .funcs
                .get(f.index())
                .is_some_and(|func| func.params == 1 && matches!(self.ty(func.ret), Ty::UInt(32)) && takes_bytes(func))
            && self.hashes_points(f)
    }

    fn holds_names(&self, ty: &Ty) -> bool {
        matches!(ty, Ty::Bytes(n) if *n >= POINT_NAME_MAX)
    }
}

/// Whether the value follows from the function's argument and from parameters.
#[allow(clippy::wildcard_enum_match_arm, reason = "a few kinds of many are looked for")]
fn is_of_values(e: &Expr, open: &mut Vec<FuncId>) -> bool {
    use ExprKind::*;
    match &*e.kind {
        Call(f, _) => {
            open.push(*f);
            true
        }
        Now | Draining | Random(_) | State(_) | Session(_) | Counter(_) => false,
        PortLen(_) | PortUp(..) | PortLoad(..) | PortServer(..) | PortFind(..) => false,
        Ketama(..) | Consistent(..) | Modula(..) | Maglev(..) | Pooled { .. } => false,
        ConnPeer | ConnLocal | ConnId | ConnHandle | ConnFlow | UpstreamFact(..) => false,
        _ => true,
    }
}
