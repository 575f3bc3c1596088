//! Rounds of loops as functions of their own, also where they need the frame.
//!
//! Where loops stand in loops, the verifier follows the inner one anew for each state of the outer
//! one. So a handler with locals in memory has each round apart: nothing else has to be passed but
//! what `support/bpf_activation.h` keeps.

use super::gives_away;
use super::parts::Round;
use crate::body::{BodyGen, Owner};
use crate::parser::line;
use wireloom_ir::*;

/// Statements of a round that is worth a call.
const STATEMENTS: usize = 4;

/// Bytes of `struct wl_between`. `entry`: of the largest entry of a queue.
pub(super) fn between_bytes(entry: Option<u32>) -> usize {
    88 + (entry.unwrap_or(0) as usize).max(8)
}

/// Signs in the code: the view goes to a part, and comes back from it.
const GIVE: &str = "WL_GIVE_ALL;";
const TAKE: &str = "WL_TAKE_ALL;";
/// Numbers of a view.
const NUMBERS: [&str; 4] = ["has", "n", "end", "top"];

/// The code of a function with what it gives to parts and takes back. Numbers that it has no use
/// for are left out: each would have a place on its stack. `ends_with_fate`: it returns the fate,
/// which any part may have set.
fn with_used(code: &str, view: &str, ends_with_fate: bool) -> String {
    let is_end = |c: Option<char>| !c.is_some_and(|c| c.is_alphanumeric() || c == '_');
    let names = |what: &str| code.match_indices(what).any(|(at, _)| is_end(code[at + what.len()..].chars().next()));
    // Functions that edit frames get the whole view.
    let whole = [",", ")"].iter().any(|end| code.contains(&format!("x, {view}{end}")));
    let has = |n: &str| n == "has" && names(&format!("WL_HAS({view}"));
    let used: Vec<&str> = NUMBERS.into_iter().filter(|n| whole || has(n) || names(&format!("{view}->{n}"))).collect();
    let all = |what: &str| used.iter().map(|n| format!("WL_{what}(x, {view}, {n}); ")).collect::<String>();
    let takes_fate = ends_with_fate || names("fate");
    let fate = |what: &str| if takes_fate { format!("WL_{what}_FATE(x, fate);") } else { String::new() };
    let give = format!("{}{}", all("GIVE"), fate("GIVE"));
    let take = format!("WL_TAKE_FRAME(x, {view}); {}{}", all("TAKE"), fate("TAKE"));
    code.replace(GIVE, &give).replace(TAKE, &take)
}

/// The code of a handler whose parts have the frame.
pub(super) fn with_parts(code: &str, view: &str) -> String {
    if !code.contains(GIVE) {
        return code.to_string();
    }
    let first: String = NUMBERS.iter().map(|n| format!("WL_GIVE(x, {view}, {n}); ")).collect();
    format!("{first}WL_GIVE_FATE(x, fate);\n{}", with_used(code, view, true))
}

impl<'m> BodyGen<'_, 'm> {
    /// Whether the rounds of a loop are a part with the frame.
    pub(super) fn is_framed_part(&self, body: &[Stmt]) -> bool {
        let mut n = 0;
        walk::stmts(body, &mut |_| n += 1);
        self.g.xdp_far.apart && matches!(self.owner, Owner::Frame) && !self.xdp.frameless && n >= STATEMENTS
    }

    /// Prints a round of a loop as a function, and its call. `end`: the label behind the loop.
    pub(super) fn xdp_framed_part(&mut self, body: &'m Block, end: Option<&str>) {
        let (m, view) = (self.g.m, self.name(LocalId(0)));
        let filter = self.xdp.whole.is_some_and(|b| gives_away(m, b));
        let Round { name, i, code, locals } = self.xdp_round(body);
        let ends = format!("return {i} ? 0 : 2;\nlost:;\nfault:;\n{GIVE}\nreturn 1;\ndone:;\n{GIVE}\nreturn 3;\n");
        let code = with_used(&format!("{TAKE}\n{locals}{code}{GIVE}\n{ends}"), &view, false);
        self.xdp.functions.push_str(&format!(
            "/* A round of a loop. */\n__attribute__((noinline)) int {name}(struct xdp_md *ctx) {{\nwl_core core = {{0}};\n\
             wl_fx fx = {{.core = &core, .ctx = ctx, .filter = {filter}}}, *x = &fx;\nconst uint32_t cpu = bpf_get_smp_processor_id();\n\
             x->state = wl_state_of(cpu);\nWL_KEEP(ctx); /* the kernel wants an argument, also if nothing uses it */\nif (!x->state) return 1;\n\
             wl_view view = {{0}}, *{view} = &view;\nint fate = XDP_DROP;\nconst uint32_t mark_in = 0;\n(void)fate;\n(void)mark_in;\n\
             WL_PART_FRAME(x, {view});\n{code}}}\n\n"
        ));
        let leave = self.leave_fault();
        let end = end.map(|label| format!("if (r_ == 2) goto {label};\n")).unwrap_or_default();
        line!(
            self,
            "{{ {GIVE}\nconst int r_ = {name}(x->ctx);\n{TAKE}\nif (WL_UNLIKELY(r_ == 1)) {{ {leave} }}\nif (r_ == 3) goto done;\n{end}}}"
        );
    }
}
