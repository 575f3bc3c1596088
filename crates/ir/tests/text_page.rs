//! The page docs/ir.md: each of its examples is read, printed and read again, and every statement
//! has one.

use std::collections::BTreeSet;
use wireloom_ir::{text, walk, Module, StmtKind};

const PAGE: &str = include_str!("../../../docs/ir.md");

/// Blocks marked `ir`, as modules: those marked `ir body` are statements.
fn examples() -> Vec<Module> {
    let mut all = Vec::new();
    let mut rest = PAGE;
    while let Some(at) = rest.find("```ir") {
        let block = &rest[at + 3..];
        let end = block.find("\n```").expect("a block ends");
        let (mark, code) = block[..end].split_once('\n').expect("a block has lines");
        let source = match mark {
            "ir" => code.to_string(),
            "ir body" => format!("handler \"x\" on start steps 0 {{\n{code}\n}}"),
            other => panic!("an unknown mark {other}"),
        };
        all.push(text::parse(&source).unwrap_or_else(|e| panic!("{e}\n{source}")));
        rest = &block[end + 4..];
    }
    all
}

#[test]
fn examples_are_read_and_printed() {
    let all = examples();
    assert!(all.len() >= 9, "{} examples", all.len());
    for m in all {
        let printed = text::print(&m);
        assert_eq!(text::parse(&printed).unwrap_or_else(|e| panic!("{e}\n{printed}")), m);
    }
}

/// The word of a statement; exhaustive, so that a new one is missed here.
fn word(s: &StmtKind) -> &'static str {
    use StmtKind::*;
    match s {
        Set(..) => "set",
        SetField(..) => "set_field",
        SetState(..) => "set_state",
        SetSession(..) => "set_session",
        Count(..) => "count",
        Push(..) => "push",
        If { .. } => "if",
        Switch { .. } => "switch",
        For { .. } => "for",
        Loop { .. } => "loop",
        Break => "break",
        Continue => "continue",
        Return(_) => "return",
        Require { .. } => "require",
        Fault { .. } => "fault",
        TableGet { .. } => "table_get",
        TablePut { .. } => "table_put",
        TableRemove { .. } => "table_remove",
        TableUpdate { .. } => "table_update",
        TableLen { .. } => "table_len",
        Call { .. } => "call",
        Await { .. } => "await",
        AwaitBody => "await_body",
        SetPiece(_) => "set_piece",
        DropBody => "drop_body",
        BindPart { .. } => "bind",
        Reply { .. } => "reply",
        Outcome(_) => "outcome",
        Send { .. } => "send",
        Close => "close",
        Tell { .. } => "tell",
        Ask { .. } => "ask",
        Deliver { .. } => "deliver",
        OpenUpstream { .. } => "open",
        CloseUpstream(_) => "shut",
        TakeUpstream { .. } => "take",
        PoolUpstream { .. } => "pool",
        Become { .. } => "become",
        Hold(_) => "hold",
        Release(_) => "release",
        Dismiss(_) => "dismiss",
        Log(_) => "log",
        Emit(_) => "emit",
        Wait { .. } => "wait",
        Parse { .. } => "parse",
        Render { .. } => "render",
        Reread { .. } => "reread",
        SendFrame { .. } => "send_frame",
        Output { .. } => "output",
        Frame { .. } => "frame",
        TableNext { .. } => "table_next",
        TableInsert { .. } => "table_insert",
        TableDelete { .. } => "table_delete",
        TablePush { .. } => "table_push",
        TablePop { .. } => "table_pop",
        GroupBegin { .. } => "group_begin",
        GroupAdd { .. } => "group_add",
        GroupRun { .. } => "group_run",
        Queue { .. } => "queue",
    }
}

/// As many as `word` tells apart.
const STATEMENTS: usize = 59;

#[test]
fn every_statement_has_a_row_and_an_example() {
    let mut shown = BTreeSet::new();
    for m in examples() {
        m.bodies(&mut |b| {
            walk::stmts(&b.block, &mut |s| {
                shown.insert(word(&s.kind));
            })
        });
    }
    assert_eq!(shown.len(), STATEMENTS, "{shown:?}");
    let begin = PAGE.find("## Bodies and statements").expect("the section is there");
    let table = &PAGE[begin..begin + PAGE[begin..].find("```ir").expect("an example follows")];
    for word in shown {
        assert!(table.contains(&format!("`{word}")), "`{word}` has no row in docs/ir.md");
    }
}
