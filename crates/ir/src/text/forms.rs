//! The forms of statements and expressions: one row gives the printer and the reader.
//!
//! A row has the word and the variant with its operands. Then come the parts behind the word: text,
//! operands, and in brackets an operand that may be left out. Forms with blocks, and literals,
//! stand in `print_body` and `parse_body`.

use super::lex::{Token, ARROW};
use super::names::{value_of, Word};
use super::parser::{Parser, Res};
use super::print::{reference, Printer};
use crate::walk::Scope;
use crate::*;

/// An operand.
trait Operand: Sized {
    fn print(&self, p: &Printer, scope: Scope) -> String;
    fn read(p: &mut Parser) -> Res<Self>;
}

/// An operand that may be left out, with the text before it.
trait Maybe: Sized {
    fn print(&self, text: &str, p: &Printer, scope: Scope) -> String;
    fn read(text: &str, p: &mut Parser) -> Res<Self>;
}

impl<T: Operand> Maybe for Option<T> {
    fn print(&self, text: &str, p: &Printer, scope: Scope) -> String {
        self.as_ref().map_or(String::new(), |v| format!("{text}{}", v.print(p, scope)))
    }

    fn read(text: &str, p: &mut Parser) -> Res<Self> {
        if !p.begins(text) {
            return Ok(None);
        }
        p.text(text)?;
        T::read(p).map(Some)
    }
}

/// The text alone.
impl Maybe for bool {
    fn print(&self, text: &str, _: &Printer, _: Scope) -> String {
        if *self {
            text.into()
        } else {
            String::new()
        }
    }

    fn read(text: &str, p: &mut Parser) -> Res<Self> {
        let there = p.begins(text);
        if there {
            p.text(text)?
        }
        Ok(there)
    }
}

/// The state that goes with a packet, if there is any.
impl Maybe for Vec<Carried> {
    fn print(&self, text: &str, p: &Printer, scope: Scope) -> String {
        let one = |c: &Carried| format!("{} = {}", c.field.print(p, scope), c.value.print(p, scope));
        match self.as_slice() {
            [] => String::new(),
            all => format!("{text}({})", all.iter().map(one).collect::<Vec<_>>().join(", ")),
        }
    }

    fn read(text: &str, p: &mut Parser) -> Res<Self> {
        if !p.begins(text) {
            return Ok(Vec::new());
        }
        p.text(text)?;
        p.list(|p| {
            let field = PacketFieldId::read(p)?;
            p.sign('=')?;
            Ok(Carried { field, value: Expr::read(p)? })
        })
    }
}

/// The words and signs of a text.
fn tokens(text: &str) -> impl Iterator<Item = Token> + '_ {
    let mut rest = text;
    std::iter::from_fn(move || {
        rest = rest.trim_start();
        let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(rest.len());
        let (token, n) = match rest.chars().next()? {
            _ if end > 0 => (Token::Word(rest[..end].into()), end),
            '-' if rest.starts_with("->") => (Token::Sign(ARROW), 2),
            c => (Token::Sign(c), c.len_utf8()),
        };
        rest = &rest[n..];
        Some(token)
    })
}

impl Parser {
    fn text(&mut self, text: &str) -> Res<()> {
        tokens(text).try_for_each(|t| match t {
            Token::Word(w) => self.word(&w),
            Token::Sign(c) => self.sign(c),
            Token::Int(_) | Token::Str(_) | Token::Bytes(_) | Token::End => Ok(()),
        })
    }

    /// Whether a text comes next, by its first token. A blank one stands for all but the end.
    fn begins(&self, text: &str) -> bool {
        tokens(text).next().map_or(!self.is(';'), |t| *self.peek() == t)
    }
}

macro_rules! parts {
    ($($type:ty: |$v:ident, $p:ident, $scope:ident| $print:expr, |$r:ident| $read:expr;)*) => {$(
        impl Operand for $type {
            fn print(&self, $p: &Printer, $scope: Scope) -> String {
                let $v = self;
                $print
            }
            fn read($r: &mut Parser) -> Res<Self> {
                $read
            }
        }
    )*};
}

parts! {
    Expr: |v, p, s| p.expr_scoped(v, s), |r| r.expr();
    LocalId: |v, p, s| p.local(*v, s.locals), |r| r.local();
    Path: |v, p, s| p.path(v, s, true), |r| r.path();
    Root: |v, p, s| p.root(*v, s.locals), |r| r.root();
    TableId: |v, p, _s| p.table(*v), |r| r.table();
    PortId: |v, p, _s| p.port_ref(*v), |r| r.index().map(PortId);
    ProtocolId: |v, p, _s| p.protocol_ref(*v), |r| r.index().map(ProtocolId);
    Peer: |v, p, _s| p.peer(*v), |r| r.peer();
    UnitId: |v, p, _s| p.unit_ref(*v), |r| r.index().map(UnitId);
    WireId: |v, p, _s| p.wire_ref(*v), |r| r.index().map(WireId);
    ParamId: |v, p, _s| reference(p.m.params.get(v.index()).map(|x| x.name.as_str()), v.0), |r| r.index().map(ParamId);
    StateId: |v, p, _s| reference(p.m.states.get(v.index()).map(|x| x.name.as_str()), v.0), |r| r.index().map(StateId);
    SessionId: |v, p, _s| reference(p.m.sessions.get(v.index()).map(|x| x.name.as_str()), v.0),
        |r| r.index().map(SessionId);
    UpstreamId: |v, p, _s| reference(p.m.upstreams.get(v.index()).map(|x| x.name.as_str()), v.0),
        |r| r.index().map(UpstreamId);
    CounterId: |v, p, _s| reference(p.m.counters.get(v.index()).map(|x| x.name.as_str()), v.0),
        |r| r.index().map(CounterId);
    FuncId: |v, p, _s| reference(p.m.funcs.get(v.index()).map(|x| x.name.as_str()), v.0), |r| r.index().map(FuncId);
    PacketFieldId: |v, p, _s| p.packet_field(*v), |r| r.index().map(PacketFieldId);
    FieldId: |v, _p, _s| format!("#{}", v.0), |r| r.index().map(FieldId);
    PlaceId: |v, _p, _s| v.0.to_string(), |r| r.num().map(PlaceId);
    FaultKind: |v, _p, _s| v.0.to_string(), |r| r.num().map(FaultKind);
    u8: |v, _p, _s| v.to_string(), |r| r.num();
    u32: |v, _p, _s| v.to_string(), |r| r.num();
    QueueAct: |v, _p, _s| v.word().into(), |r| {
        let word = r.any_word()?;
        value_of(&word).map_or_else(|| r.error(format!("unknown act `{word}` of a queue")), Ok)
    };
    UpstreamFact: |v, _p, _s| v.word().into(), |r| {
        let word = r.any_word()?;
        value_of(&word).map_or_else(|| r.error(format!("unknown fact `{word}` of an upstream")), Ok)
    };
    // The order of an integer's bytes.
    bool: |v, _p, _s| if *v { "big" } else { "little" }.into(), |r| match r.any_word()?.as_str() {
        "big" => Ok(true),
        "little" => Ok(false),
        w => r.error(format!("unknown order of bytes `{w}`")),
    };
    Vec<Expr>: |v, p, s| list(v, p, s), |r| r.list(Operand::read);
    Vec<LocalId>: |v, p, s| list(v, p, s), |r| r.list(Operand::read);
    // The way to a part of a record.
    Vec<u32>: |v, _p, _s| format!("[{}]", v.iter().map(u32::to_string).collect::<Vec<_>>().join(", ")), |r| {
        r.sign('[')?;
        let mut path = Vec::new();
        while !r.eat(']') {
            if !path.is_empty() {
                r.sign(',')?
            }
            path.push(r.num()?);
        }
        Ok(path)
    };
    Vec<(u64, u64)>: |v, p, _s| p.ranges(v), |r| {
        let mut ranges = Vec::new();
        while !r.is(')') {
            if !ranges.is_empty() {
                r.sign(',')?
            }
            ranges.push(r.range()?);
        }
        Ok(ranges)
    };
    // A mask and a priority.
    (LocalId, LocalId): |v, p, s| format!("{} priority {}", v.0.print(p, s), v.1.print(p, s)), |r| {
        let mask = r.local()?;
        r.word("priority")?;
        Ok((mask, r.local()?))
    };
    Emit: |v, p, s| emit(v, p, s).unwrap_or_default(), |r| {
        let word = r.any_word()?;
        read_emit(&word, r)?.map_or_else(|| r.error(format!("unknown emission `{word}`")), Ok)
    };
    FrameAct: |v, p, s| act(v, p, s).unwrap_or_default(), |r| {
        let word = r.any_word()?;
        match read_act(&word, r)? {
            Some(act) => Ok(act),
            None => r.frame_act(&word),
        }
    };
}

fn list<T: Operand>(all: &[T], p: &Printer, scope: Scope) -> String {
    format!("({})", all.iter().map(|v| v.print(p, scope)).collect::<Vec<_>>().join(", "))
}

macro_rules! print {
    ($out:ident $p:ident $scope:ident [$text:literal $field:ident]) => {
        $out.push_str(&Maybe::print($field, $text, $p, $scope))
    };
    ($out:ident $p:ident $scope:ident $text:literal) => {
        $out.push_str($text)
    };
    ($out:ident $p:ident $scope:ident $field:ident) => {
        $out.push_str(&Operand::print($field, $p, $scope))
    };
}

macro_rules! read {
    ($p:ident [$text:literal $field:ident]) => {
        let $field = Maybe::read($text, $p)?;
    };
    ($p:ident $text:literal) => {
        $p.text($text)?;
    };
    ($p:ident $field:ident) => {
        let $field = Operand::read($p)?;
    };
}

macro_rules! forms {
    ($type:ident, $print:ident, $read:ident: $(
        $word:literal $variant:ident $(($($operand:ident),*))? $({$($field:ident),*})? = [$($part:tt)*];
    )*) => {
        /// None: the form stands elsewhere.
        pub(super) fn $print(v: &$type, p: &Printer, scope: Scope) -> Option<String> {
            Some(match v {
                $($type::$variant $(($($operand),*))? $({$($field),*})? => {
                    #[allow(unused_mut)]
                    let mut out = String::from($word);
                    $(print!(out p scope $part);)*
                    out
                })*
                #[allow(unreachable_patterns)]
                _ => return None,
            })
        }

        pub(super) fn $read(word: &str, p: &mut Parser) -> Res<Option<$type>> {
            Ok(Some(match word {
                $($word => {
                    $(read!(p $part);)*
                    $type::$variant $(($($operand),*))? $({$($field),*})?
                })*
                _ => return Ok(None),
            }))
        }
    };
}

forms! {
    StmtKind, stmt, read_stmt:
    "set" Set(to, value) = [" " to " = " value];
    "set_field" SetField(to, path, value) = [" " to " " path " = " value];
    "set_state" SetState(to, value) = [" " to " = " value];
    "set_session" SetSession(to, value) = [" " to " = " value];
    "count" Count(counter, n) = [" " counter " " n];
    "push" Push(to, value) = [" " to " " value];
    "break" Break = [];
    "continue" Continue = [];
    "return" Return(value) = [[" " value]];
    "require" Require { cond, kind, place } = [" " cond " else " kind " at " place];
    "fault" Fault { kind, place } = [" " kind " at " place];
    "table_get" TableGet { table, key, dst } = [" " table " [" key "] -> " dst];
    "table_put" TablePut { table, key, value, place } = [" " table " [" key "] = " value " at " place];
    "table_remove" TableRemove { table, key, dst } = [" " table " [" key "]" [" -> " dst]];
    "table_len" TableLen { table, dst } = [" " table " -> " dst];
    "table_next" TableNext { table, cursor, key, value, more, masked } =
        [" " table " cursor " cursor " key " key " value " value " more " more [" mask " masked]];
    "table_insert" TableInsert { table, key, mask, priority, value, place } =
        [" " table " [" key "] mask " mask " priority " priority " = " value " at " place];
    "table_delete" TableDelete { table, key, mask, priority, dst } =
        [" " table " [" key "] mask " mask " priority " priority [" -> " dst]];
    "open" OpenUpstream { upstream, index, key, place } = [" " upstream " [" index "]" [" for " key] " at " place];
    "shut" CloseUpstream(upstream) = [" " upstream];
    "take" TakeUpstream { upstream, index, place } = [" " upstream " [" index "] at " place];
    "pool" PoolUpstream { upstream, key } = [" " upstream " for " key];
    "become" Become { member, protocol, rest, place } = [" " member " as " protocol [" rest" rest] " at " place];
    "hold" Hold(member) = [" " member];
    "release" Release(member) = [" " member];
    "dismiss" Dismiss(to) = [" " to];
    "table_push" TablePush { table, value, dst } = [" " table " = " value " -> " dst];
    "table_pop" TablePop { table, dst } = [" " table " -> " dst];
    "group_begin" GroupBegin { port, max } = [" " port " " max];
    "group_add" GroupAdd { index, parts } = [" " index " = " parts];
    "group_run" GroupRun { part, bytes } = [" " part " = " bytes];
    "queue" Queue { port, index, act, dst } = [" " act " " port " [" index "] -> " dst];
    "output" Output { wire, frame, mark, state, last, fresh } =
        [[" last" last] [" fresh" fresh] " " wire " " frame " mark " mark [" state " state]];
    "frame" Frame { frame, act } = [" " frame " " act];
    "await" Await { hold, hold_req, live } = [[" hold" hold] [" hold_req" hold_req] " live " live];
    "bind" BindPart { dst, part } = [" " dst " = part " part];
    "close" Close = [];
    "outcome" Outcome(value) = [" " value];
    "log" Log(values) = [" " values];
    "emit" Emit(emit) = [" " emit];
    "wait" Wait { table, key, within } = [" " table " [" key "] within " within];
    "await_body" AwaitBody = [];
    "set_piece" SetPiece(bytes) = [" " bytes];
    "drop_body" DropBody = [];
    "parse" Parse { unit, kept, bytes, dst, ok } = [" " unit [" kept " kept] " " bytes " -> " dst " ok " ok];
}

forms! {
    FrameAct, act, read_act:
    "set" Set { layer, field, value } = [" " layer " " field " = " value];
    "swap" Swap { layer, a, b } = [" " layer " " a " " b];
    "remove" Remove { layer } = [" " layer];
    "checksum" Checksum { layer } = [" " layer];
    "in_c" InC { func, memory, whole, args, dst, place } =
        [" " func [" memory " memory] [" whole" whole] " " args " -> " dst " at " place];
    "parse" Parse = [];
    "save" Save { copy } = [" " copy];
    "restore" Restore { copy } = [" " copy];
    "send" Send { port, index, mark, state, last } =
        [[" last" last] " " port " [" index "]" [" mark " mark] [" state " state]];
}

forms! {
    Emit, emit, read_emit:
    "bytes" Bytes(bytes) = [" " bytes];
    "uint" UInt { value, bytes, big } = [" " value " bytes " bytes " " big];
    "number" Number { value, radix, width } = [" " value " radix " radix " width " width];
    "varint" Varint(value) = [" " value];
    "items" Items { unit, bytes, count, max } = [" " unit " " bytes " count " count " max " max];
    "in_order" InOrder { unit, count, max } = [" " unit " count " count " max " max];
    "mark" Mark(dst) = [" -> " dst];
    "whole" Whole { unit, args, from, max, place } =
        [" " unit " args " args " from " from " max " max " at " place];
    "begins" Begins { not, with, from, place } = [[" not" not] " " with " from " from " at " place];
}

forms! {
    ExprKind, expr, read_expr:
    "param" Param(id) = ["(" id ")"];
    "state" State(id) = ["(" id ")"];
    "session" Session(id) = ["(" id ")"];
    "counter" Counter(id) = ["(" id ")"];
    "unit_param" UnitParam(root, n) = ["(" root ", " n ")"];
    "read" Read(path) = ["(" path ")"];
    "items" Count(path) = ["(" path ")"];
    "raw" Raw(path) = ["(" path ")"];
    "case" Case(path, n) = ["(" path ", " n ")"];
    "acc" Acc = [];
    "has_msg" HasMsg(msg) = ["(" msg ")"];
    "held" Held(msg) = ["(" msg ")"];
    "part_status" PartStatus(part) = ["(" part ")"];
    "parts" Parts = [];
    "cast" Cast(value) = ["(" value ")"];
    "if" If(cond, then, other) = ["(" cond ", " then ", " other ")"];
    "in" InRanges(value, ranges) = ["(" value "; " ranges ")"];
    "some" Some(value) = ["(" value ")"];
    "none" None = [];
    "is_some" IsSome(value) = ["(" value ")"];
    "unwrap" Unwrap(value) = ["(" value ")"];
    "make" Make(parts) = [parts];
    "get" Get(value, n) = ["(" value ", " n ")"];
    "make_list" MakeList(items) = [items];
    "list_len" ListLen(list) = ["(" list ")"];
    "list_get" ListGet(list, n) = ["(" list ", " n ")"];
    "call" Call(func, args) = [" " func args];
    "find" Find { list, name } = ["(" list ", " name ")"];
    "count_of" CountOf { list, name } = ["(" list ", " name ")"];
    "any_token" AnyToken { list, name, token } = ["(" list ", " name ", " token ")"];
    "port_len" PortLen(port) = ["(" port ")"];
    "port_up" PortUp(port, n) = ["(" port ", " n ")"];
    "port_load" PortLoad(port, n) = ["(" port ", " n ")"];
    "port_server" PortServer(port, n) = ["(" port ", " n ")"];
    "port_find" PortFind(port, address) = ["(" port ", " address ")"];
    "pooled" Pooled { port, index, key } = ["(" port ", " index ", " key ")"];
    "ketama" Ketama(port, key) = ["(" port ", " key ")"];
    "consistent" Consistent(port, hash) = ["(" port ", " hash ")"];
    "modula" Modula(port, hash) = ["(" port ", " hash ")"];
    "maglev" Maglev(port, hash) = ["(" port ", " hash ")"];
    "group_count" GroupCount(n) = ["(" n ")"];
    "group_bytes" GroupBytes(n) = ["(" n ")"];
    "frame_len" FrameLen(frame) = ["(" frame ")"];
    "frame_instance" FrameInstance(frame) = ["(" frame ")"];
    "frame_time" FrameTime(frame) = ["(" frame ")"];
    "frame_mark" FrameMark(frame) = ["(" frame ")"];
    "packet_state" PacketState(frame, field) = ["(" frame ", " field ")"];
    "payload" Payload(frame, layer) = ["(" frame [", " layer] ")"];
    "checksum_ok" ChecksumOk(frame, layer) = ["(" frame ", " layer ")"];
    "conn_peer" ConnPeer = [];
    "conn_local" ConnLocal = [];
    "conn_id" ConnId = [];
    "upstream_fact" UpstreamFact(upstream, fact) = ["(" upstream ", " fact ")"];
    "conn_handle" ConnHandle = [];
    "conn_flow" ConnFlow = [];
    "now" Now = [];
    "draining" Draining = [];
    "random" Random(below) = ["(" below ")"];
}
