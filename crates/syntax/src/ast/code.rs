//! Types, statements and expressions.

use super::names::{Ident, Path, Span};

// ---- types ----

#[derive(Clone, Debug, PartialEq)]
pub struct Type {
    pub span: Span,
    pub kind: TypeKind,
}

#[derive(Clone, Debug, PartialEq)]
pub enum TypeKind {
    /// `u32`, `bytes<250>`, `list<Header, 100>`, `endpoint`, `std.http.Request`: arguments are
    /// types or constants
    Named { path: Path, args: Vec<TypeArg> },
    /// `T?`
    Option(Box<Type>),
    /// `(ip4, u16)`
    Tuple(Vec<Type>),
    /// `[T; N]`
    Array(Box<Type>, Box<Expr>),
    /// `record { packets: u64 }`
    Record(Vec<(Ident, Type)>),
    /// `connection of client`: the port
    Connection(Ident),
    /// `fn(packet) -> bool`
    Fn(Vec<Type>, Box<Type>),
    /// Of a parameter: `endpoint or u16`
    Or(Box<Type>, Box<Type>),
}

#[derive(Clone, Debug, PartialEq)]
pub enum TypeArg {
    /// Also stands for a constant written as a bare name; `lang` decides.
    Type(Type),
    Const(Expr),
}

#[derive(Clone, Debug)]
pub struct Param {
    pub doc: String,
    pub name: Ident,
    pub ty: Type,
    /// Of a record's field: the values that external rows may have.
    pub within: Option<Expr>,
    pub default: Option<Expr>,
}

// ---- statements ----

#[derive(Clone, Debug, PartialEq)]
pub struct Block {
    pub span: Span,
    pub stmts: Vec<Stmt>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Stmt {
    pub span: Span,
    pub kind: StmtKind,
}

#[derive(Clone, Debug, PartialEq)]
pub enum StmtKind {
    /// `let x: T = e`, `let (a, b) = e`
    Let {
        pattern: Pattern,
        ty: Option<Type>,
        value: Expr,
    },
    /// `var x = e`: may be assigned
    Var {
        name: Ident,
        ty: Option<Type>,
        value: Expr,
    },
    /// `place = e`, `place += e`
    Assign {
        place: Expr,
        op: Option<BinOp>,
        value: Expr,
    },
    Expr(Expr),
    For {
        pattern: Pattern,
        list: Expr,
        body: Block,
    },
    /// `loop max N { … }`
    Loop {
        max: Expr,
        body: Block,
    },
    Break,
    Continue,
    Return(Option<Expr>),
    /// `p -> y`; `p -> broadcast ys` and `p -> steer ys by e` are sent to calls: `broadcast(ys)`,
    /// `steer(ys, by = e)`
    Send {
        value: Expr,
        to: Expr,
    },
    /// `reply e`, `reply nothing`, `reply e then close`
    Reply {
        value: Option<Expr>,
        close: bool,
    },
    /// `fault name`
    Fault(Ident),
    /// `remove stage[who]`
    Remove(Expr),
    /// `remove req.headers where .name ~= b"x"`
    RemoveWhere {
        list: Expr,
        cond: Expr,
    },
    /// `append req.headers { name: b"via", value: v }`
    Append {
        list: Expr,
        fields: Vec<(Ident, Expr)>,
    },
    /// `insert Vlan { … } before p.ip4`, `insert [A { … }, B { … }] behind p.eth`
    Insert {
        parts: Expr,
        before: bool,
        at: Expr,
    },
    /// `drop p`
    Drop(Expr),
    /// `update flows[k] { .packets += 1 }`
    Update {
        entry: Expr,
        body: Block,
    },
    /// `write hot[k] { reply call server(req) }`: the block changes what the cache's entry stands
    /// for. Of packets: `write hot[k] by x { p -> server }`
    Write {
        entry: Expr,
        by: Option<Expr>,
        body: Block,
    },
    /// `uncached hot { reply call server(req) }`: calls in the block change nothing in the cache.
    /// Of packets: `uncached hot by x { p -> server }`
    Uncached {
        cache: Expr,
        by: Option<Expr>,
        body: Block,
    },
    /// `answered hot[k] by x { value } else { … }`: the packet is the answer to an exchange; what
    /// is done if that is not known
    Answered {
        entry: Expr,
        by: Expr,
        body: Block,
        other: Option<Block>,
    },
    /// `forget hot`: nothing is kept any more
    Forget(Expr),
    /// `close client`
    Close(Expr),
    /// `become websocket for client, up with rest`; without a list it is the message's connection.
    Become {
        protocol: Path,
        members: Vec<Expr>,
        rest: bool,
    },
    /// `hold client`, `release client`
    Hold {
        member: Expr,
        on: bool,
    },
    /// `up = open db[i]`, `up = open db[i] for key`
    Open {
        place: Expr,
        target: Expr,
        key: Option<Expr>,
    },
    /// `up = take db[i]`: from the client's pool
    Take {
        place: Expr,
        target: Expr,
    },
    /// `pool up for key`
    Pool {
        place: Expr,
        key: Expr,
    },
    /// `log "text", e, e`
    Log(Vec<Expr>),
    /// `expect e` (tests)
    Expect(Expr),
    /// The body of `signal start`, `signal stop`, `signal reset`, which is not written; with what
    /// the element does at the start
    Control {
        word: Ident,
        start: Vec<Block>,
    },
    /// The statement of the handler of an element in C, which is not written
    InC(InC),
}

/// A call of the function in C that handles the packets of an `in`.
#[derive(Clone, Debug, PartialEq)]
pub struct InC {
    pub file: String,
    /// Where the file is named.
    pub at: Span,
    pub symbol: Ident,
    /// The names of the packet, and of its place in an array of `in`s.
    pub packet: Ident,
    pub place: Option<Ident>,
    /// The element's memory, if it has some.
    pub memory: Option<Ident>,
    pub params: Vec<Ident>,
    /// The values that the function gets; None: it gets the frame.
    pub values: Option<Vec<Expr>>,
    /// The element's `out`s, and whether each is an array.
    pub outs: Vec<(Ident, bool)>,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Pattern {
    Name(Ident),
    /// `_`
    Any(Span),
    Tuple(Vec<Pattern>, Span),
    /// a constant, an enum's variant, a range
    Value(Expr),
    /// `get(g)`: a switch's alternative or an enum-like option (`some(x)`), with what it binds
    Variant {
        path: Path,
        bind: Option<Box<Pattern>>,
    },
    Or(Vec<Pattern>, Span),
}

impl Pattern {
    pub fn span(&self) -> Span {
        match self {
            Pattern::Name(n) => n.span,
            Pattern::Any(span) | Pattern::Tuple(_, span) | Pattern::Or(_, span) => *span,
            Pattern::Value(e) => e.span,
            Pattern::Variant { path, .. } => path.span,
        }
    }
}

// ---- expressions ----

#[derive(Clone, Debug, PartialEq)]
pub struct Expr {
    pub span: Span,
    pub kind: Box<ExprKind>,
}

impl Expr {
    /// The name that the expression is.
    pub fn as_name(&self) -> Option<&Ident> {
        if let ExprKind::Name(n) = &*self.kind {
            return Some(n);
        }
        None
    }

    /// Whether it consists of statements, one after another or one of several.
    pub fn has_ways(&self) -> bool {
        use ExprKind as K;
        matches!(&*self.kind, K::If(..) | K::IfLet(..) | K::Match(..) | K::Block(_) | K::Stmt(_))
    }
}

/// `join E as bytes, n`: of all items for one instance, E of each, one behind the other, and how
/// many they are.
#[derive(Clone, Debug, PartialEq)]
pub struct Join {
    pub value: Expr,
    pub bytes: Ident,
    pub count: Option<Ident>,
}

#[derive(Clone, Debug, PartialEq)]
pub enum ExprKind {
    Name(Ident),
    /// `_` where a value is expected is refused by `lang`
    Int(u128),
    /// `10ms`, `64KiB`, `10Gbps`: the number as written and its suffix
    Scaled(u128, String),
    Bool(bool),
    /// `"…"` and `b"…"` alike are bytes
    Bytes(Vec<u8>),
    /// `10.0.0.0/8`, `02:00:00:00:00:01`, `127.0.0.1:80`, as written
    Address(String),
    /// `none`
    None,
    /// A type between `<` and `>`: `Tag<Vlan>()`
    Type(Type),
    /// `.`: the current message
    Dot,
    /// `e.f`; `.f` (a field of the current message) has no base
    Field(Option<Expr>, Ident),
    Index(Expr, Expr),
    /// `f(a, b)`, `x.count(k)`; named arguments `f(a = 1)`. `parse U(b)` is a call of `parse` with
    /// the call `U(b)`.
    Call(Expr, Vec<Arg>),
    /// `http.Response { status: 200, … }`; with an empty path, `{ a: 1, b: 2 }`: the expected
    /// record
    Build(Path, Vec<(Ident, Expr)>),
    /// `req with { opcode: x }`
    With(Expr, Vec<(Ident, Expr)>),
    Tuple(Vec<Expr>),
    /// `[a, b]`
    List(Vec<Expr>),
    /// `{80, 443}` as in `x in {80, 443}`
    Set(Vec<Expr>),
    /// `a..b`, `a..=b`
    Range(Expr, Expr, bool /* inclusive */),
    Unary(UnOp, Expr),
    Binary(BinOp, Expr, Expr),
    /// `e else d`: the option's value, or d; after `call` and fallible operations, what to do
    /// instead. `d` may be a Block.
    Else(Expr, Expr),
    /// `if c { a } else { b }`; as a statement without else
    If(Expr, Block, Option<Expr /* Block or If */>),
    /// `if let x = option { … }`
    IfLet(Pattern, Expr, Block, Option<Expr>),
    Match(Expr, Vec<Arm>),
    Block(Block),
    /// `|a, b| e`
    Lambda(Vec<Ident>, Expr),
    /// `[x for k in list if c]`; `if let p = e` is a `cond` of kind `IfLet` whose block is empty:
    /// it also binds
    Comprehension {
        value: Expr,
        pattern: Pattern,
        list: Expr,
        cond: Option<Expr>,
    },
    /// `fold list from init with |acc, x| e`
    Fold {
        list: Expr,
        init: Expr,
        acc: Ident,
        item: Pattern,
        body: Expr,
    },
    /// `cached hot[k] { … }`: the value that is kept for the key, or else that of the block. Of
    /// packets: `cached hot[k] by x { … } reply(p)`
    Cached {
        entry: Expr,
        by: Option<Expr>,
        body: Block,
        reply: Option<Expr>,
    },
    /// `call backends[i](req) within 50ms`
    Call1 {
        port: Expr,
        msg: Expr,
        within: Option<Expr>,
    },
    /// `call all backends(req)`: to every instance
    CallEach {
        port: Expr,
        msg: Expr,
        within: Option<Expr>,
    },
    /// `call all for k in keys => backends[i](Get { key: k })`
    /// `call all for k in keys join concat(k, " ") as some, n => backends[i](Get { keys: some })`
    CallAll {
        pattern: Pattern,
        list: Expr,
        cond: Option<Expr>,
        join: Option<Join>,
        port: Expr,
        msg: Expr,
        within: Option<Expr>,
    },
    /// Control in expression position: `return`, `fault name`, `reply …` as the right side of
    /// `else`; an assignment in parentheses (`x else (y = e)`) has the assigned value
    Stmt(Box<Stmt>),
    /// Placed where the parser recovered from an error.
    Error,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Arg {
    pub name: Option<Ident>,
    pub value: Expr,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Arm {
    pub pattern: Pattern,
    pub guard: Option<Expr>,
    pub body: Expr,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnOp {
    Neg,
    Not,
    BitNot,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BinOp {
    Add,
    Sub,
    Mul,
    Div,
    Rem,
    AddSat,
    SubSat,
    BitAnd,
    BitOr,
    BitXor,
    Shl,
    Shr,
    Eq,
    Ne,
    Lt,
    Le,
    Gt,
    Ge,
    /// `~=`: equal but for ASCII case
    EqCase,
    And,
    Or,
    /// `x in set`
    In,
}
