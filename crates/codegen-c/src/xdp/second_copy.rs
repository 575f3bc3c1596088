//! The handler a second time, for frames of the most common shape.
//!
//! There the headers have constant places, and the kernel's verifier knows that they are in the
//! frame. So nothing is noted about them, looked up or tested again: that is most of the work of a
//! short handler. A frame of another shape takes the general way.

use crate::gen::Gen;
use crate::names;
use wireloom_ir::parse_graph::Chain;
use wireloom_ir::*;

/// Statements of a handler that is compiled twice, at most.
const STATEMENTS: usize = 64;

/// Whether a handler is short. A longer one gains little, and the verifier would follow it twice.
pub(super) fn is_short(block: &Block) -> bool {
    let mut n = 0;
    walk::stmts(block, &mut |_| n += 1);
    n <= STATEMENTS
}

/// Whether a handler's code has no loops and copies no bytes.
pub(super) fn is_plain(code: &String) -> bool {
    !code.contains("WL_ROUND(") && !super::has_bytes(&[code])
}

impl<'m> Gen<'m> {
    /// The function that finds the headers of the most common shape.
    pub(super) fn xdp_near_walk(&mut self, u: UnitId, chain: &Chain<'m>) -> Option<String> {
        let (body, name) = (self.open_most(u, chain)?, names::unit(self.m, u));
        Some(format!(
            "/* Finds the headers of frames of the most common shape; false: it is of another. */\n\
             WL_INLINE bool {name}_near(wl_fx *x, wl_near *v) {{\nuint8_t net = 0xff;\n(void)net;\n{body}lost:;\nreturn false;\n}}\n\n"
        ))
    }

    /// The second copy of a handler's function, and the beginning of a program that gives frames of
    /// the most common shape to it. WL_NO_NEAR: the stack has no room for it.
    pub(super) fn xdp_near(&mut self, u: UnitId, (handler, view): (&str, &str), on: &str) -> Option<(String, String)> {
        let name = names::unit(self.m, u);
        if self.graph(u).chain().is_none() || self.plan(u).is_none() {
            return None;
        }
        let head = format!("{handler}_on(");
        let copy = on.replace("wl_view *", "wl_near *").replacen(&head, &format!("{handler}_on_near("), 1);
        let begin = format!(
            "#ifndef WL_NO_NEAR\nwl_near near;\nWL_FRAME_NEAR(x, &near);\nif (WL_LIKELY({name}_near(x, &near))) {{\n\
             x->sure = near.top;\nfate = {handler}_on_near(x, &near);\n}} else\n#endif\n"
        );
        let sure = |what: &str| format!("#undef WL_SURE\n#define WL_SURE(x, q, n) {what}\n");
        let of = sure(&format!("WL_SURE_OF({view}, x, q, n)"));
        Some((format!("#ifndef WL_NO_NEAR\n{of}{copy}{}#endif\n", sure("false")), begin))
    }
}
