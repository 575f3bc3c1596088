//! More units, and an app, of the tests.

use super::fixtures::*;
use wireloom_ir::*;

fn read(ty: TyId, root: Root, f: FieldId) -> Expr {
    Expr::new(ty, ExprKind::Read(Path { root, steps: vec![Step::Field(f)] }))
}

/// Memcached's binary protocol: lengths before what they measure, one of them of three fields.
pub fn binary_unit(b: &mut Build) -> UnitId {
    let (u16t, u32t, u64t, none) = (b.u(16), b.u(32), b.u(64), b.ty(Ty::Unit));
    let (b32, b250, b1m) = (b.b(32), b.b(250), b.b(1 << 20));
    let mut u = b.unit("m.Command");
    let magic = u.uint("magic", 1);
    u.f(magic).within = Some(vec![(0x80, 0x81)]);
    u.uint("opcode", 1);
    let key_len = u.uint("key_len", 2);
    let extras_len = u.uint("extras_len", 1);
    u.uint("", 1);
    u.uint("status", 2);
    let body_len = u.uint("body_len", 4);
    u.uint("opaque", 4);
    u.uint("cas", 8);
    let u8t = u.b.u(8);
    let len = |u: &mut UnitBuild, f, ty| {
        let e = u.b.this(ty, f);
        u.b.cast(64, e)
    };
    let (k, e, n) = (len(&mut u, key_len, u16t), len(&mut u, extras_len, u8t), len(&mut u, body_len, u32t));
    let both = u.b.bin(BinOp::Add, k.clone(), e.clone());
    let cond = u.b.bin(BinOp::Ge, n.clone(), both.clone());
    u.add("", none, FieldKind::Require { cond });
    let rest = u.b.bin(BinOp::Sub, n, both);
    let extras = u.add("extras", b32, blob(32, None, Extent::Length(e)));
    let key = u.add("key", b250, blob(250, None, Extent::Length(k)));
    let value = u.add("value", b1m, blob(1 << 20, None, Extent::Length(rest)));
    u.f(key_len).computed = Some(Computed { lengths: vec![key], plus: 0 });
    u.f(extras_len).computed = Some(Computed { lengths: vec![extras], plus: 0 });
    u.f(body_len).computed = Some(Computed { lengths: vec![extras, key, value], plus: 0 });
    let _ = u64t;
    u.done(Some(12), false)
}

/// RESP: values nested by counting, folded into one list; the bulks are long, so the list is a
/// tail.
pub fn resp_unit(b: &mut Build) -> UnitId {
    let (u64t, i64t, none, b1m) = (b.u(64), b.ty(Ty::Int(64)), b.ty(Ty::Unit), b.b(1 << 20));
    let boolt = b.bool();
    let mut v = b.unit("r.Value");
    let line = v.inner("line", b1m, blob(1000, None, Extent::Until(until(&[b"\r\n"]))));
    let number = FieldKind::Number { radix: 10, digits: 19, exact: false, until: Some(until(&[b"\r\n"])) };
    let size = v.inner("size", i64t, number.clone());
    v.f(size).within = None;
    let count = v.inner("count", u64t, number);
    let minus = Expr::new(i64t, ExprKind::Int(u64::MAX as u128));
    let n = v.b.this(i64t, size);
    let present = v.b.bin(BinOp::Ge, n.clone(), Expr::new(i64t, ExprKind::Int(0)));
    let length = Expr::new(u64t, ExprKind::Cast(n.clone()));
    let data = v.inner("data", b1m, blob(1 << 20, None, Extent::Length(length)));
    let end = v.inner("", none, FieldKind::Literal { values: vec![bytes(b"\r\n")] });
    let null = v.b.bin(BinOp::Eq, n, minus);
    let bulk = v.inner(
        "bulk",
        none,
        FieldKind::Switch {
            cases: vec![
                Case { name: None, guard: Guard::When(present), fields: vec![data, end] },
                Case { name: None, guard: Guard::When(null), fields: vec![] },
            ],
        },
    );
    let lit = |s: &[u8]| Guard::Literal { values: vec![s.to_vec()], peek: false };
    let kind = v.add(
        "kind",
        none,
        FieldKind::Switch {
            cases: vec![
                Case {
                    name: Some("line".into()),
                    guard: Guard::Literal { values: vec![bytes(b"+"), bytes(b"-"), bytes(b":")], peek: false },
                    fields: vec![line],
                },
                Case { name: Some("bulk".into()), guard: lit(b"$"), fields: vec![size, bulk] },
                Case { name: Some("array".into()), guard: lit(b"*"), fields: vec![count] },
            ],
        },
    );
    let children = {
        let is = Expr::new(boolt, ExprKind::Case(Path { root: Root::This, steps: vec![Step::Field(kind)] }, 2));
        let n = v.b.this(u64t, count);
        Expr::new(u64t, ExprKind::If(is, n, Expr::new(u64t, ExprKind::Int(0))))
    };
    let children = v.add("children", u64t, FieldKind::Let { value: children });
    let value = v.done(None, false);

    let mut r = b.unit("r.Reply");
    let element = r.inner("", none, FieldKind::Unit { unit: value, args: vec![] });
    let acc = Expr::new(u64t, ExprKind::Acc);
    let one = Expr::new(u64t, ExprKind::Int(1));
    let less = r.b.bin(BinOp::Sub, acc.clone(), one.clone());
    let step = r.b.bin(BinOp::AddSat, less, read(u64t, Root::Item, children));
    let done = r.b.bin(BinOp::Lt, acc, Expr::new(u64t, ExprKind::Int(1)));
    r.add(
        "values",
        none,
        FieldKind::List { element, max: 40, extent: ListExtent::Fold { init: one, holds: None, step, done } },
    );
    r.done(Some(0), false)
}

/// Headers, then a body by what they say: a length, chunks with trailers, or the end of the
/// connection; parameters decide, too.
pub fn http_unit(b: &mut Build) -> UnitId {
    let (u64t, none, boolt, u16t) = (b.u(64), b.ty(Ty::Unit), b.bool(), b.u(16));
    let (b64, b1k) = (b.b(64), b.b(1024));
    let opt_b = b.ty(Ty::Option(b1k));
    let opt_u = b.ty(Ty::Option(u64t));
    let mut h = b.unit("h.Header");
    let name = ByteSet::range(b'a', b'z').union(&ByteSet::range(b'A', b'Z')).union(&set("-"));
    h.add(
        "name",
        b64,
        FieldKind::Bytes {
            min: 1,
            max: 64,
            class: Some(name),
            extent: Extent::Until(until(&[b":"])),
            trim: None,
            caseless: true,
        },
    );
    let text = ByteSet::range(0x20, 0x7e);
    h.add(
        "value",
        b1k,
        FieldKind::Bytes {
            min: 0,
            max: 1024,
            class: Some(text),
            extent: Extent::Until(until(&[b"\r\n", b"\n"])),
            trim: Some(set(" \t")),
            caseless: false,
        },
    );
    let header = h.done(None, false);

    let mut c = b.unit("h.Chunk");
    let size = c.add("size", u64t, FieldKind::Number { radix: 16, digits: 8, exact: false, until: None });
    c.add("extension", b64, blob(64, Some(text), Extent::Until(until(&[b"\r\n"]))));
    let n = c.b.this(u64t, size);
    let some = c.b.bin(BinOp::Gt, n.clone(), Expr::new(u64t, ExprKind::Int(0)));
    let data = c.inner("data", none, FieldKind::StreamBytes { extent: Extent::Length(n) });
    let eol = c.inner("", none, FieldKind::Literal { values: vec![bytes(b"\r\n")] });
    let trailer = c.inner("", none, FieldKind::Unit { unit: header, args: vec![] });
    let trailers = c.inner(
        "trailers",
        none,
        FieldKind::List { element: trailer, max: 3, extent: ListExtent::Until(until(&[b"\r\n"])) },
    );
    c.add(
        "rest",
        none,
        FieldKind::Switch {
            cases: vec![
                Case { name: None, guard: Guard::When(some), fields: vec![data, eol] },
                Case { name: None, guard: Guard::Else, fields: vec![trailers] },
            ],
        },
    );
    let chunk = c.done(None, true);

    let mut r = b.unit("h.Response");
    r.unit.params = vec![UnitParam { name: "head".into(), ty: boolt, shift: 0, bits: 1 }];
    r.add("", none, FieldKind::Literal { values: vec![bytes(b"HTTP/1.")] });
    let digit =
        r.add("minor", u16t, FieldKind::Number { radix: 10, digits: 1, exact: true, until: Some(until(&[b" "])) });
    r.f(digit).within = Some(vec![(0, 1)]);
    let status =
        r.add("status", u16t, FieldKind::Number { radix: 10, digits: 3, exact: true, until: Some(until(&[b"\r\n"])) });
    let element = r.inner("", none, FieldKind::Unit { unit: header, args: vec![] });
    let headers =
        r.add("headers", none, FieldKind::List { element, max: 6, extent: ListExtent::Until(until(&[b"\r\n"])) });
    let list = || Path { root: Root::This, steps: vec![Step::Field(headers)] };
    let word = |s: &[u8]| Expr::new(b64, ExprKind::Bytes(s.to_vec()));
    let head = Expr::new(boolt, ExprKind::UnitParam(Root::This, 0));
    let status_is = |r: &mut UnitBuild, n: u128| {
        let s = r.b.this(u16t, status);
        r.b.bin(BinOp::Eq, s, Expr::new(u16t, ExprKind::Int(n)))
    };
    let no_content = status_is(&mut r, 204);
    let bodiless = Expr::new(boolt, ExprKind::Binary(BinOp::Or, head, no_content));
    let chunked = Expr::new(
        boolt,
        ExprKind::AnyToken { list: list(), name: word(b"Transfer-Encoding"), token: word(b"chunked") },
    );
    let find = Expr::new(opt_b, ExprKind::Find { list: list(), name: word(b"content-length") });
    let has_length = Expr::new(boolt, ExprKind::IsSome(find.clone()));
    let text_of = Expr::new(b1k, ExprKind::Unwrap(find));
    let parsed = Expr::new(opt_u, ExprKind::Builtin(Builtin::ParseU64, vec![text_of]));
    let length = r.inner("length", opt_u, FieldKind::Let { value: parsed });
    let is_number = Expr::new(boolt, ExprKind::IsSome(read(opt_u, Root::This, length)));
    let number = r.inner("", none, FieldKind::Require { cond: is_number });
    let n = Expr::new(u64t, ExprKind::Unwrap(read(opt_u, Root::This, length)));
    let data = r.inner("data", none, FieldKind::StreamBytes { extent: Extent::Length(n) });
    let last = {
        let n = read(u64t, Root::Item, size);
        r.b.bin(BinOp::Eq, n, Expr::new(u64t, ExprKind::Int(0)))
    };
    let chunks = r.inner("chunks", none, FieldKind::StreamUnit { unit: chunk, args: vec![], until: Some(last) });
    let rest = r.inner("rest", none, FieldKind::StreamBytes { extent: Extent::Close });
    r.add(
        "body",
        none,
        FieldKind::Switch {
            cases: vec![
                Case { name: None, guard: Guard::When(bodiless), fields: vec![] },
                Case { name: Some("chunks".into()), guard: Guard::When(chunked), fields: vec![chunks] },
                Case { name: Some("data".into()), guard: Guard::When(has_length), fields: vec![length, number, data] },
                Case { name: Some("rest".into()), guard: Guard::Else, fields: vec![rest] },
            ],
        },
    );
    let id = r.done(Some(4), true);
    let interim = {
        let s = read(u16t, Root::This, status);
        Expr::new(boolt, ExprKind::InRanges(s, vec![(100, 199)]))
    };
    let mut p = protocol("h", id, Some(id));
    p.interim = Some(interim);
    p.close_response =
        Some(Expr::new(boolt, ExprKind::AnyToken { list: list(), name: word(b"connection"), token: word(b"close") }));
    p.response_args = vec![Expr::new(boolt, ExprKind::Bool(false))];
    b.m.protocols.push(p);
    id
}

/// Expressions and statements of a handler.
pub struct Code<'a> {
    pub b: &'a mut Build,
    pub locals: Vec<Local>,
}

impl Code<'_> {
    pub fn local(&mut self, name: &str, ty: TyId) -> LocalId {
        self.locals.push(Local { name: name.into(), ty, in_frame: false });
        LocalId(self.locals.len() as u32 - 1)
    }

    pub fn get(&self, l: LocalId) -> Expr {
        Expr::new(self.locals[l.index()].ty, ExprKind::Local(l))
    }

    pub fn field(&self, msg: LocalId, f: FieldId, ty: TyId) -> Expr {
        read(ty, Root::Local(msg), f)
    }

    pub fn text(&mut self, s: &[u8]) -> Expr {
        let t = self.b.b(s.len() as u64);
        Expr::new(t, ExprKind::Bytes(s.to_vec()))
    }

    pub fn call(&mut self, ty: Ty, f: Builtin, args: Vec<Expr>) -> Expr {
        let t = self.b.ty(ty);
        Expr::new(t, ExprKind::Builtin(f, args))
    }
}

pub fn stmt(kind: StmtKind) -> Stmt {
    Stmt { span: Span::default(), kind }
}

fn emit(e: Expr) -> Stmt {
    stmt(StmtKind::Emit(Emit::Bytes(e)))
}

pub struct App {
    pub m: Module,
    pub line: UnitId,
}

/// One line with a key and a number, then so many bytes: requests and replies of the app's
/// protocol.
fn line_unit(b: &mut Build) -> (UnitId, [FieldId; 3]) {
    let (u32t, none, b50, b8k) = (b.u(32), b.ty(Ty::Unit), b.b(50), b.b(8192));
    let mut u = b.unit("q.Line");
    u.add("", none, FieldKind::Recover { how: Recover::Until(until(&[b"\n"])) });
    let word = ByteSet::range(0x21, 0x7e);
    let key = u.add(
        "key",
        b50,
        FieldKind::Bytes {
            min: 1,
            max: 50,
            class: Some(word),
            extent: Extent::Until(until(&[b" "])),
            trim: None,
            caseless: false,
        },
    );
    let n = u.add("n", u32t, FieldKind::Number { radix: 10, digits: 6, exact: false, until: Some(until(&[b"\r\n"])) });
    let length = u.b.this(u32t, n);
    let length = u.b.cast(64, length);
    let data = u.add("data", b8k, blob(8192, None, Extent::Length(length)));
    u.add("", none, FieldKind::Literal { values: vec![bytes(b"\r\n")] });
    u.f(n).computed = Some(Computed { lengths: vec![data], plus: 0 });
    (u.done(Some(3), false), [key, n, data])
}

/// A proxy with state, a session, a counter, tables, edits, fan-out and fault replies.
pub fn app() -> App {
    let mut build = Build::new();
    let (line, [key, n, data]) = line_unit(&mut build);
    let b = &mut build;
    let (u32t, u64t, u16t, boolt, b50, b8k) = (b.u(32), b.u(64), b.u(16), b.bool(), b.b(50), b.b(8192));
    let msg = b.ty(Ty::Msg(line));
    let opt = b.ty(Ty::Option(u32t));
    b.m.faults = vec![OwnFault { name: "too_many".into(), doc: String::new() }];
    b.m.places = vec![
        Place { name: "none".into(), span: Span::default() },
        Place { name: "place".into(), span: Span::default() },
    ];
    b.m.counters = vec![Counter { name: "requests".into(), doc: String::new() }];
    let init = Some(Expr::new(u32t, ExprKind::Int(5)));
    b.m.states =
        vec![State { name: "total".into(), ty: u32t, init }, State { name: "last".into(), ty: b50, init: None }];
    b.m.sessions = vec![Session { name: "seen".into(), ty: opt }];
    b.m.tables = vec![Table {
        name: "sizes".into(),
        span: Span::default(),
        kind: TableKind::Exact,
        local: false,
        key: b50,
        value: u32t,
        capacity: 3,
        idle: 20,
        evict_lru: true,
        memory: 0,
        cache: 0,
    }];
    let mut p = protocol("q", line, Some(line));
    p.on_fault = Some(on_fault(b, u16t, boolt, msg));
    p.no_reply = Some(Expr::new(
        boolt,
        ExprKind::Binary(BinOp::Eq, read(b50, Root::This, key), Expr::new(b50, ExprKind::Bytes(bytes(b"quiet")))),
    ));
    b.m.protocols.push(p);
    let port = |name: &str, kind| Port {
        name: name.into(),
        span: Span::default(),
        kind,
        protocols: vec![ProtocolId(0)],
        options: desc::PortOptions::default(),
        ketama: true,
        maglev: true,
    };
    let endpoints = desc::Value::Const(desc::ParamValue::Endpoints(vec!["127.0.0.1:1".into()]));
    b.m.ports = vec![
        port("client", desc::PortKind::Listen(desc::Value::Const(desc::ParamValue::UInt(1)))),
        port("backends", desc::PortKind::Connect(endpoints)),
    ];

    let body = forward(b, [key, n, data], msg, (u32t, u64t, u16t, b50, opt));
    handler(b, "forward", body);
    let body = join(b, [key, n, data], msg, (u32t, u64t, boolt, b50, b8k));
    handler(b, "join", body);
    build.m = super::annotated(build.m);
    App { m: build.m, line }
}

fn handler(b: &mut Build, name: &str, body: Body) {
    let on = On::Message { port: PortId(0), protocol: ProtocolId(0) };
    b.m.handlers.push(Handler {
        name: name.into(),
        span: Span::default(),
        on,
        segment: None,
        device: Default::default(),
        body,
        steps: 0,
        plan: Default::default(),
    });
}

/// `ERROR <kind> <in step> <request's key>`, closing where out of step.
fn on_fault(b: &mut Build, u16t: TyId, boolt: TyId, msg: TyId) -> Body {
    let mut c = Code { b, locals: Vec::new() };
    let kind = c.local("kind", u16t);
    let in_step = c.local("in_step", boolt);
    let request = c.local("request", msg);
    let start = c.b.ty(Ty::Bytes(32));
    c.local("start", start);
    let (error, there, absent) = (c.text(b"ERROR "), c.text(b" with request\r\n"), c.text(b" without\r\n"));
    let has = Expr::new(boolt, ExprKind::HasMsg(request));
    let text = vec![
        emit(error),
        stmt(StmtKind::Emit(Emit::Number { value: c.get(kind), radix: 10, width: 3 })),
        stmt(StmtKind::If { cond: has, then: vec![emit(there)], other: vec![emit(absent)] }),
    ];
    let reply =
        |close| vec![stmt(StmtKind::Reply { msg: Outgoing::Built { unit: UnitId(0), body: text.clone() }, close })];
    let block = vec![stmt(StmtKind::If { cond: c.get(in_step), then: reply(false), other: reply(true) })];
    Body { locals: c.locals, block }
}

type Types = (TyId, TyId, TyId, TyId, TyId);

/// Passes the request on, its key changed if it begins with `x`; notes sizes; the reply goes back
/// with its number changed.
fn forward(b: &mut Build, [key, n, _]: [FieldId; 3], msg: TyId, (u32t, u64t, u16t, b50, opt): Types) -> Body {
    let boolt = b.bool();
    let mut c = Code { b, locals: Vec::new() };
    let req = c.local("req", msg);
    let known = c.local("known", opt);
    let i = c.local("i", u32t);
    let rep = c.local("rep", msg);
    let times = c.local("times", u32t);
    let the_key = c.field(req, key, b50);
    let one = Expr::new(u64t, ExprKind::Int(1));
    let hash = c.call(Ty::UInt(64), Builtin::Hash, vec![the_key.clone()]);
    let len = Expr::new(u32t, ExprKind::PortLen(PortId(1)));
    let len64 = Expr::new(u64t, ExprKind::Cast(len));
    let index = Expr::new(u32t, ExprKind::Cast(Expr::new(u64t, ExprKind::Binary(BinOp::Rem, hash, len64))));
    let x = c.text(b"x");
    let starts = c.call(Ty::Bool, Builtin::StartsWith, vec![the_key.clone(), x]);
    let upper = c.call(Ty::Bytes(50), Builtin::Upper, vec![the_key.clone()]);
    let full =
        Expr::new(boolt, ExprKind::Binary(BinOp::Le, c.field(req, n, u32t), Expr::new(u32t, ExprKind::Int(5000))));
    let seen = Expr::new(opt, ExprKind::Session(SessionId(0)));
    let before = Expr::new(
        u32t,
        ExprKind::If(
            Expr::new(boolt, ExprKind::IsSome(seen.clone())),
            Expr::new(u32t, ExprKind::Unwrap(seen.clone())),
            Expr::new(u32t, ExprKind::Int(0)),
        ),
    );
    let next = Expr::new(u32t, ExprKind::Binary(BinOp::Add, before, Expr::new(u32t, ExprKind::Int(1))));
    let total = Expr::new(u32t, ExprKind::State(StateId(0)));
    let sum = Expr::new(u32t, ExprKind::Binary(BinOp::Add, total.clone(), c.field(req, n, u32t)));
    let failed = Expr::new(
        boolt,
        ExprKind::Binary(
            BinOp::Ne,
            Expr::new(u16t, ExprKind::PartStatus(Expr::new(u32t, ExprKind::Int(0)))),
            Expr::new(u16t, ExprKind::Int(0)),
        ),
    );
    let known_size = Expr::new(
        u32t,
        ExprKind::If(
            Expr::new(boolt, ExprKind::IsSome(c.get(known))),
            Expr::new(u32t, ExprKind::Unwrap(c.get(known))),
            Expr::new(u32t, ExprKind::Int(7)),
        ),
    );
    let number = |e: Expr| stmt(StmtKind::Emit(Emit::Number { value: e, radix: 10, width: 1 }));
    let (sorry, space, end) = (c.text(b"sorry "), c.text(b" "), c.text(b"\r\n\r\n"));
    let lost = Outgoing::Built {
        unit: UnitId(0),
        body: vec![
            emit(sorry),
            number(known_size),
            emit(space.clone()),
            number(total),
            emit(space.clone()),
            number(seen_or_zero(&seen, u32t, boolt)),
            emit(end),
        ],
    };
    let set_key = Edit::Set { field: vec![key], cond: Some(starts), body: vec![emit(upper)] };
    let rep_key = c.field(rep, key, b50);
    let twice = vec![emit(rep_key.clone()), emit(rep_key)];
    let back = Edit::Set { field: vec![key], cond: None, body: twice };
    let looped = vec![
        stmt(StmtKind::Set(
            times,
            Expr::new(u32t, ExprKind::Binary(BinOp::Add, c.get(times), Expr::new(u32t, ExprKind::Int(1)))),
        )),
        stmt(StmtKind::If {
            cond: Expr::new(boolt, ExprKind::Binary(BinOp::Gt, c.get(times), Expr::new(u32t, ExprKind::Int(3)))),
            then: vec![stmt(StmtKind::Break)],
            other: vec![],
        }),
    ];
    let block = vec![
        stmt(StmtKind::Count(CounterId(0), one)),
        stmt(StmtKind::Require { cond: full, kind: FaultKind(FaultKind::USER), place: PlaceId(1) }),
        stmt(StmtKind::SetSession(SessionId(0), Expr::new(opt, ExprKind::Some(next)))),
        stmt(StmtKind::SetState(StateId(0), sum)),
        stmt(StmtKind::SetState(StateId(1), the_key.clone())),
        stmt(StmtKind::TableGet { table: TableId(0), key: the_key.clone(), dst: known }),
        stmt(StmtKind::TablePut { table: TableId(0), key: the_key, value: c.field(req, n, u32t), place: PlaceId(1) }),
        stmt(StmtKind::Loop { max: 10, body: looped }),
        stmt(StmtKind::Set(i, index)),
        stmt(StmtKind::Call {
            port: PortId(1),
            index: c.get(i),
            msg: Outgoing::Pass { msg: req, edits: vec![set_key] },
            within: Some(Expr::new(u64t, ExprKind::Int(50_000_000))),
            response_args: vec![],
        }),
        stmt(StmtKind::Await { hold: false, hold_req: false, live: vec![] }),
        stmt(StmtKind::If {
            cond: failed,
            then: vec![stmt(StmtKind::Reply { msg: lost, close: true }), stmt(StmtKind::Return(None))],
            other: vec![],
        }),
        stmt(StmtKind::BindPart { dst: rep, part: Expr::new(u32t, ExprKind::Int(0)) }),
        stmt(StmtKind::Reply { msg: Outgoing::Pass { msg: rep, edits: vec![back] }, close: false }),
    ];
    Body { locals: c.locals, block }
}

fn seen_or_zero(seen: &Expr, u32t: TyId, boolt: TyId) -> Expr {
    Expr::new(
        u32t,
        ExprKind::If(
            Expr::new(boolt, ExprKind::IsSome(seen.clone())),
            Expr::new(u32t, ExprKind::Unwrap(seen.clone())),
            Expr::new(u32t, ExprKind::Int(0)),
        ),
    )
}

/// Asks all backends and joins the data of their answers.
fn join(b: &mut Build, [key, n, data]: [FieldId; 3], msg: TyId, (u32t, u64t, boolt, b50, b8k): Types) -> Body {
    let u16t = b.u(16);
    let mut c = Code { b, locals: Vec::new() };
    let req = c.local("req", msg);
    let i = c.local("i", u32t);
    let rep = c.local("rep", msg);
    let size = c.local("size", u32t);
    let count = Expr::new(u32t, ExprKind::PortLen(PortId(1)));
    let zero = Expr::new(u32t, ExprKind::Int(0));
    let call = stmt(StmtKind::Call {
        port: PortId(1),
        index: c.get(i),
        msg: Outgoing::Pass { msg: req, edits: vec![] },
        within: None,
        response_args: vec![],
    });
    let ok = Expr::new(
        boolt,
        ExprKind::Binary(BinOp::Eq, Expr::new(u16t, ExprKind::PartStatus(c.get(i))), Expr::new(u16t, ExprKind::Int(0))),
    );
    let bind = stmt(StmtKind::BindPart { dst: rep, part: c.get(i) });
    let add =
        stmt(StmtKind::Set(size, Expr::new(u32t, ExprKind::Binary(BinOp::Add, c.get(size), c.field(rep, n, u32t)))));
    let each = |body| stmt(StmtKind::For { var: i, from: zero.clone(), to: count.clone(), max: 64, body });
    let (space, line, end) = (c.text(b" "), c.text(b"\r\n"), c.text(b"\r\n"));
    let sizes =
        each(vec![stmt(StmtKind::Require { cond: ok, kind: FaultKind::LOST, place: PlaceId(1) }), bind.clone(), add]);
    let parts = each(vec![bind, emit(c.field(rep, data, b8k))]);
    let number = stmt(StmtKind::Emit(Emit::Number { value: c.get(size), radix: 10, width: 1 }));
    let body = vec![emit(c.field(req, key, b50)), emit(space), number, emit(line), parts, emit(end)];
    let block = vec![
        each(vec![call]),
        stmt(StmtKind::Await { hold: true, hold_req: true, live: vec![] }),
        sizes,
        stmt(StmtKind::Reply { msg: Outgoing::Built { unit: UnitId(0), body }, close: false }),
    ];
    let _ = u64t;
    Body { locals: c.locals, block }
}

/// A handler that answers with the results of every operator and builtin over the request's key,
/// number and data.
pub fn calculator() -> App {
    let mut build = Build::new();
    let (line, [key, n, data]) = line_unit(&mut build);
    let b = &mut build;
    b.m.app = "calculator".into();
    b.m.places = vec![Place { name: "none".into(), span: Span::default() }; 2];
    let p = protocol("q", line, Some(line));
    b.m.protocols.push(p);
    b.m.ports = vec![
        Port {
            name: "client".into(),
            span: Span::default(),
            kind: desc::PortKind::Listen(desc::Value::Const(desc::ParamValue::UInt(1))),
            protocols: vec![ProtocolId(0)],
            options: desc::PortOptions::default(),
            ketama: false,
            maglev: false,
        },
        Port {
            name: "backends".into(),
            span: Span::default(),
            kind: desc::PortKind::Connect(desc::Value::Const(desc::ParamValue::Endpoints(vec!["127.0.0.1:1".into()]))),
            protocols: vec![ProtocolId(0)],
            options: desc::PortOptions::default(),
            ketama: true,
            maglev: true,
        },
    ];
    let on = results(b, [key, n, data]);
    handler(b, "calculate", on);
    build.m = super::annotated(build.m);
    App { m: build.m, line }
}

fn results(b: &mut Build, [key, n, data]: [FieldId; 3]) -> Body {
    let (u8t, u32t, u64t, boolt, b50, b8k) = (b.u(8), b.u(32), b.u(64), b.bool(), b.b(50), b.b(8192));
    let (i64t, i16t) = (b.ty(Ty::Int(64)), b.ty(Ty::Int(16)));
    let line = b.ty(Ty::Msg(UnitId(0)));
    let pair = b.ty(Ty::Tuple(vec![b50, u64t]));
    let mut c = Code { b, locals: Vec::new() };
    let req = c.local("req", line);
    let (k, d) = (c.field(req, key, b50), c.field(req, data, b8k));
    let x = Expr::new(u64t, ExprKind::Builtin(Builtin::Fnv1a64, vec![d.clone()]));
    let y = Expr::new(u64t, ExprKind::Cast(c.field(req, n, u32t)));
    let mut out: Vec<Stmt> = Vec::new();
    let comma = c.text(b",");
    let mut show = |e: Expr| {
        out.push(stmt(StmtKind::Emit(Emit::Number { value: e, radix: 10, width: 1 })));
        out.push(emit(comma.clone()));
    };
    let cast = |t: TyId, e: &Expr| Expr::new(t, ExprKind::Cast(e.clone()));
    let bin = |t: TyId, op, a: &Expr, b: &Expr| Expr::new(t, ExprKind::Binary(op, a.clone(), b.clone()));
    let one = |t: TyId| Expr::new(t, ExprKind::Int(1));
    // A bool shows as a number.
    let flag =
        |e: Expr| Expr::new(u8t, ExprKind::If(e, Expr::new(u8t, ExprKind::Int(1)), Expr::new(u8t, ExprKind::Int(0))));
    use BinOp::*;
    for t in [u64t, u32t, u8t, i64t, i16t] {
        let (a, b) = (cast(t, &x), cast(t, &y));
        let by = bin(t, BitOr, &b, &one(t));
        for op in [Add, Sub, Mul, AddSat, SubSat, BitAnd, BitOr, BitXor] {
            show(bin(t, op, &a, &b));
        }
        show(bin(t, Div, &a, &by));
        show(bin(t, Rem, &a, &by));
        for op in [Shl, Shr] {
            show(bin(t, op, &a, &cast(u32t, &bin(u64t, Rem, &y, &Expr::new(u64t, ExprKind::Int(70))))));
        }
        for op in [Eq, Ne, Lt, Le, Gt, Ge] {
            show(flag(bin(boolt, op, &a, &b)));
        }
        for op in [UnOp::Neg, UnOp::BitNot] {
            show(Expr::new(t, ExprKind::Unary(op, a.clone())));
        }
        show(Expr::new(t, ExprKind::Builtin(Builtin::Min, vec![a.clone(), b.clone()])));
        show(Expr::new(t, ExprKind::Builtin(Builtin::Max, vec![a, b])));
    }
    for op in [Eq, Ne, Lt, Le, Gt, Ge, EqCase] {
        show(flag(bin(boolt, op, &k, &d)));
    }
    let mut call = |ty, f, args| c.call(ty, f, args);
    let word = |s: &[u8]| Expr::new(b50, ExprKind::Bytes(s.to_vec()));
    show(call(Ty::UInt(64), Builtin::Hash, vec![k.clone()]));
    show(call(Ty::UInt(64), Builtin::Hash, vec![Expr::new(pair, ExprKind::Make(vec![k.clone(), y.clone()]))]));
    show(call(Ty::UInt(64), Builtin::Hash, vec![cast(u8t, &x)]));
    for f in [Builtin::Fnv1a32, Builtin::Crc32, Builtin::Crc32c, Builtin::Md5U32] {
        show(call(Ty::UInt(32), f, vec![d.clone()]));
    }
    show(call(Ty::UInt(64), Builtin::LenBytes, vec![d.clone()]));
    for f in [Builtin::StartsWith, Builtin::EndsWith, Builtin::HasToken] {
        show(flag(call(Ty::Bool, f, vec![d.clone(), word(b"a")])));
    }
    let found = call(Ty::Option(u32t), Builtin::FindBytes, vec![d.clone(), word(b"a")]);
    show(flag(Expr::new(boolt, ExprKind::IsSome(found))));
    let number = call(Ty::Option(u64t), Builtin::ParseU64, vec![k.clone()]);
    show(flag(Expr::new(boolt, ExprKind::IsSome(number.clone()))));
    let is = Expr::new(boolt, ExprKind::IsSome(number.clone()));
    show(Expr::new(u64t, ExprKind::If(is, Expr::new(u64t, ExprKind::Unwrap(number)), y.clone())));
    show(flag(Expr::new(boolt, ExprKind::InRanges(cast(u8t, &x), vec![(3, 9), (100, 200)]))));
    show(Expr::new(u64t, ExprKind::ConnFlow));
    show(Expr::new(u64t, ExprKind::Random(bin(u64t, BitOr, &y, &one(u64t)))));
    show(Expr::new(u32t, ExprKind::Ketama(PortId(1), k.clone())));
    show(Expr::new(u32t, ExprKind::Maglev(PortId(1), x.clone())));
    show(Expr::new(u64t, ExprKind::Now));
    show(flag(Expr::new(boolt, ExprKind::Draining)));
    let texts = [
        call(Ty::Bytes(50), Builtin::Lower, vec![k.clone()]),
        call(Ty::Bytes(8192), Builtin::Slice, vec![d.clone(), y.clone(), cast(u64t, &cast(u8t, &x))]),
        call(Ty::Bytes(20), Builtin::TextU64, vec![x]),
        call(Ty::Bytes(100), Builtin::Concat, vec![k.clone(), word(b"-"), k]),
    ];
    out.extend(texts.into_iter().map(emit));
    let peer_ty = c.b.ty(Ty::Endpoint);
    let peer = Expr::new(peer_ty, ExprKind::ConnPeer);
    out.push(emit(c.call(Ty::Bytes(45), Builtin::TextIp, vec![peer])));
    let block = vec![stmt(StmtKind::Reply { msg: Outgoing::Built { unit: UnitId(0), body: out }, close: false })];
    Body { locals: c.locals, block }
}

/// Two mapper streams of keys and counts.
pub fn merging() -> Module {
    let mut build = Build::new();
    let b = &mut build;
    let (u32t, b50) = (b.u(32), b.b(50));
    let mut u = b.unit("kv.Pair");
    let key_len = u.uint("key_len", 2);
    let count = u.uint("count", 4);
    let u16t = u.b.u(16);
    let n = u.b.this(u16t, key_len);
    let n = u.b.cast(64, n);
    let key = u.add("key", b50, blob(50, None, Extent::Length(n)));
    u.f(key_len).computed = Some(Computed { lengths: vec![key], plus: 0 });
    let pair = u.done(None, false);
    let local = |name: &str| Local { name: name.into(), ty: u32t, in_frame: false };
    let get = |l| Expr::new(u32t, ExprKind::Local(LocalId(l)));
    let combined = Expr::new(u32t, ExprKind::Binary(BinOp::Add, get(0), get(1)));
    build.m.merges = vec![Merge {
        name: "merge".into(),
        span: Span::default(),
        from: PortId(0),
        to: PortId(1),
        inputs: 2,
        unit: pair,
        key,
        values: vec![MergeValue { field: count, a: LocalId(0), b: LocalId(1), combined }],
        locals: vec![local("a"), local("b")],
    }];
    build.m
}

/// A `test` block that expects 1 + 1 == `sum`, and that a built message parses again.
pub fn tested(sum: u128) -> Module {
    let mut build = Build::new();
    let (line, [key, _, data]) = line_unit(&mut build);
    let b = &mut build;
    let (u32t, boolt, b50, b8k) = (b.u(32), b.bool(), b.b(50), b.b(8192));
    let msg = b.ty(Ty::Msg(line));
    b.m.places = vec![
        Place { name: "none".into(), span: Span::default() },
        Place { name: "expect".into(), span: Span::default() },
    ];
    let mut c = Code { b, locals: Vec::new() };
    let parsed = c.local("parsed", msg);
    let ok = c.local("ok", boolt);
    let built = c.local("built", b8k);
    let int = |n| Expr::new(u32t, ExprKind::Int(n));
    let expect = |cond| stmt(StmtKind::Require { cond, kind: FaultKind::EXPECT, place: PlaceId(1) });
    let two = Expr::new(u32t, ExprKind::Binary(BinOp::Add, int(1), int(1)));
    let wire = c.text(b"key 3\r\nabc\r\n");
    let (whole, there) = (c.get(built), c.get(ok));
    let (k, d) = (c.field(parsed, key, b50), c.field(parsed, data, b8k));
    let eq = |a, b| Expr::new(boolt, ExprKind::Binary(BinOp::Eq, a, b));
    let (want_key, want_data, cut) = (c.text(b"key"), c.text(b"abc"), c.text(b"key 3\r\nab"));
    let block = vec![
        stmt(StmtKind::Render { msg: Outgoing::Built { unit: line, body: vec![emit(wire.clone())] }, dst: built }),
        stmt(StmtKind::Parse { unit: line, bytes: whole, dst: parsed, ok }),
        expect(there.clone()),
        expect(eq(k, want_key)),
        expect(eq(d, want_data)),
        stmt(StmtKind::Parse { unit: line, bytes: cut, dst: parsed, ok }),
        expect(Expr::new(boolt, ExprKind::Unary(UnOp::Not, there))),
        expect(eq(two, int(sum))),
    ];
    let body = Body { locals: c.locals, block };
    build.m.handlers.push(Handler {
        name: "test".into(),
        span: Span::default(),
        on: On::Test(0),
        segment: None,
        device: Default::default(),
        body,
        steps: 0,
        plan: Default::default(),
    });
    build.m.tests = vec![Test { name: "sums".into(), span: Span::default(), kind: TestKind::Code(HandlerId(0)) }];
    super::annotated(build.m)
}

/// Passes any request to a backend and its answer back, bodies streamed, with a changed header.
pub fn http_proxy() -> App {
    let mut build = Build::new();
    let line = http_unit(&mut build);
    let b = &mut build;
    b.m.app = "http_proxy".into();
    b.m.places = vec![Place { name: "none".into(), span: Span::default() }; 2];
    let (u32t, u16t, boolt, b1k) = (b.u(32), b.u(16), b.bool(), b.b(1024));
    let msg = b.ty(Ty::Msg(line));
    let endpoints = desc::Value::Const(desc::ParamValue::Endpoints(vec!["127.0.0.1:1".into()]));
    let port = |name: &str, kind| Port {
        name: name.into(),
        span: Span::default(),
        kind,
        protocols: vec![ProtocolId(0)],
        options: desc::PortOptions::default(),
        ketama: false,
        maglev: false,
    };
    b.m.ports = vec![
        port("client", desc::PortKind::Listen(desc::Value::Const(desc::ParamValue::UInt(1)))),
        port("backends", desc::PortKind::Connect(endpoints)),
    ];
    let headers = FieldId(b.m.unit(line).body[3].0);
    let mut c = Code { b, locals: Vec::new() };
    let req = c.local("req", msg);
    let rep = c.local("rep", msg);
    let i = c.local("i", u32t);
    let item = |l, i| {
        let steps = vec![Step::Field(headers), Step::Index(i), Step::Field(FieldId(0))];
        Expr::new(b1k, ExprKind::Read(Path { root: Root::Local(l), steps }))
    };
    let hop = c.text(b"Connection");
    let is_hop = Expr::new(boolt, ExprKind::Binary(BinOp::EqCase, item(req, c.get(i)), hop));
    let via = c.text(b"via: us\r\n");
    let edits = vec![
        Edit::Remove { list: vec![headers], index: i, cond: is_hop },
        Edit::Append { list: vec![headers], cond: None, body: vec![emit(via)] },
    ];
    let head = Expr::new(boolt, ExprKind::UnitParam(Root::Local(req), 0));
    let ok = Expr::new(
        boolt,
        ExprKind::Binary(
            BinOp::Eq,
            Expr::new(u16t, ExprKind::PartStatus(Expr::new(u32t, ExprKind::Int(0)))),
            Expr::new(u16t, ExprKind::Int(0)),
        ),
    );
    let block = vec![
        stmt(StmtKind::Call {
            port: PortId(1),
            index: Expr::new(u32t, ExprKind::Int(0)),
            msg: Outgoing::Pass { msg: req, edits },
            within: None,
            response_args: vec![head],
        }),
        stmt(StmtKind::Await { hold: false, hold_req: false, live: vec![] }),
        stmt(StmtKind::Require { cond: ok, kind: FaultKind::LOST, place: PlaceId(1) }),
        stmt(StmtKind::BindPart { dst: rep, part: Expr::new(u32t, ExprKind::Int(0)) }),
        stmt(StmtKind::Reply { msg: Outgoing::Pass { msg: rep, edits: vec![] }, close: false }),
    ];
    let body = Body { locals: c.locals, block };
    handler(b, "forward", body);
    build.m = super::annotated(build.m);
    App { m: build.m, line }
}
