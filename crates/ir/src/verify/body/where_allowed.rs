//! Statements that only some bodies may have, or only some places in them.

use super::{BodyKind, Flow, Inside};
use crate::*;

impl Flow<'_, '_, '_> {
    #[allow(clippy::wildcard_enum_match_arm, reason = "a few kinds of many are looked for")]
    pub(super) fn where_allowed(&mut self, path: &str, s: &StmtKind) {
        let sends = walk::outgoing(s).is_some() && !matches!(s, StmtKind::Render { .. } | StmtKind::Reread { .. });
        let waits = s.is_awaited() || matches!(s, StmtKind::Await { .. });
        let suspends = waits || matches!(s, StmtKind::BindPart { .. });
        if self.inside != Inside::Handler {
            // Binding a part only names it; a message is often built from several.
            self.c.need(
                walk::outgoing(s).is_none()
                    && !waits
                    && !matches!(s, StmtKind::Return(_) | StmtKind::TableUpdate { .. }),
                path,
                "a table update or a message being built may not do this",
            );
            // Its body may run under a lock, and entries may not move meanwhile.
            let output = match s {
                StmtKind::Output { wire, .. } => self.c.m.input_of(*wire),
                _ => None,
            };
            let table = s.table().is_some()
                || self.inside == Inside::Update && output.is_some_and(|to| self.c.m.input_uses_tables(to));
            self.c.need(self.inside != Inside::Update || !table, path, "a table update may not use tables");
            self.c.need(
                self.inside != Inside::Message || !matches!(s, StmtKind::Output { .. }),
                path,
                "an output in a message being built",
            );
        }
        self.c.need(
            (self.inside == Inside::Message) == matches!(s, StmtKind::Emit(_)) || !matches!(s, StmtKind::Emit(_)),
            path,
            "an emission outside a message",
        );
        match self.code.kind {
            BodyKind::Function => {
                let touches = sends
                    || suspends
                    || s.table().is_some()
                    || s.changes_connection()
                    || matches!(
                        s,
                        StmtKind::SetState(..)
                            | StmtKind::SetSession(..)
                            | StmtKind::Count(..)
                            | StmtKind::Dismiss(_)
                            | StmtKind::Queue { .. }
                            | StmtKind::Frame { .. }
                            | StmtKind::SendFrame { .. }
                            | StmtKind::Output { .. }
                    );
                self.c.need(!touches, path, "a function may not do this");
            }
            BodyKind::OnFault => {
                let closes = matches!(s, StmtKind::Close | StmtKind::CloseUpstream(_));
                let sends = s.changes_connection() && !closes
                    || matches!(
                        s,
                        StmtKind::Send { .. } | StmtKind::Tell { .. } | StmtKind::Deliver { .. } | StmtKind::Dismiss(_)
                    );
                self.c.need(!suspends && !sends, path, "`on fault` may not do this")
            }
            BodyKind::Event => self.c.need(!matches!(s, StmtKind::Reply { .. }), path, "an answer where none is due"),
            BodyKind::Message => {}
        }
    }
}
