//! Handlers: calls and suspensions, passing, editing and building messages, state, tables,
//! functions, builtins.
mod common;
use common::*;
use wireloom_ir::*;

fn hex(b: &[u8]) -> String {
    b.iter().map(|b| format!("{b:02x}")).collect()
}

struct Code {
    b: Build,
    locals: Vec<Local>,
}

impl Code {
    fn local(&mut self, name: &str, ty: TyId) -> LocalId {
        self.locals.push(Local { name: name.into(), ty, in_frame: false });
        LocalId(self.locals.len() as u32 - 1)
    }
    fn get(&self, l: LocalId) -> Expr {
        Expr::new(self.locals[l.index()].ty, ExprKind::Local(l))
    }
    fn bytes(&mut self, s: &[u8]) -> Expr {
        let t = self.b.b(s.len() as u64);
        Expr::new(t, ExprKind::Bytes(s.to_vec()))
    }
    fn call(&mut self, bits: u8, f: Builtin, args: Vec<Expr>) -> Expr {
        let t = self.b.u(bits);
        Expr::new(t, ExprKind::Builtin(f, args))
    }
    fn handler(&mut self, name: &str, on: On, block: Block) {
        let locals = std::mem::take(&mut self.locals);
        self.b.m.handlers.push(Handler {
            name: name.into(),
            span: Span::default(),
            on,
            segment: None,
            device: Default::default(),
            body: Body { locals, block },
            steps: 1,
            plan: Default::default(),
        });
    }
}

fn st(kind: StmtKind) -> Stmt {
    Stmt { span: Span::default(), kind }
}
fn emit(e: Expr) -> Stmt {
    st(StmtKind::Emit(Emit::Bytes(e)))
}
fn path(l: LocalId, steps: &[u32]) -> Path {
    Path { root: Root::Local(l), steps: steps.iter().map(|f| Step::Field(FieldId(*f))).collect() }
}
fn read(ty: TyId, l: LocalId, steps: &[u32]) -> Expr {
    Expr::new(ty, ExprKind::Read(path(l, steps)))
}

/// Unit 0: an item `name:value;`. Unit 1: the message, `length id key\n` with a length that depends
/// on the key, items up to `.`, and a value in the tail. Unit 2: the response with a parameter.
fn units(b: &mut Build) {
    let (none, b20, b250, b1m, u32t) = (b.ty(Ty::Unit), b.b(20), b.b(250), b.b(1 << 20), b.u(32));
    let mut i = b.unit("h.Item");
    i.add(
        "name",
        b20,
        FieldKind::Bytes {
            min: 1,
            max: 20,
            class: Some(ByteSet::range(b'a', b'z')),
            extent: Extent::Until(until(&[b":"])),
            trim: None,
            caseless: false,
        },
    );
    i.add("value", b250, blob(250, None, Extent::Until(until(&[b";"]))));
    let item = i.done(None, false);
    let mut r = b.unit("h.Request");
    let key_len = r.uint("key_len", 1); // 0
    let id = r.uint("id", 2); // 1
    let len = {
        let t = r.b.u(8);
        r.b.this(t, key_len)
    };
    let key = r.add("key", b250, blob(250, None, Extent::Length(len))); // 2
    let el = r.inner("", none, FieldKind::Unit { unit: item, args: vec![] }); // 3
    let items =
        r.add("items", none, FieldKind::List { element: el, max: 8, extent: ListExtent::Until(until(&[b"."])) }); // 4
    let size = r.uint("size", 2); // 5
    let n = {
        let t = r.b.u(16);
        let e = r.b.this(t, size);
        r.b.cast(32, e)
    };
    r.add("value", b1m, blob(1 << 20, None, Extent::Length(n))); // 6
    for f in [key_len, id, key, items] {
        r.f(f).extent_used = true
    }
    let _ = u32t;
    r.done(Some(4), false);
    let mut s = b.unit("h.Response");
    let boolt = s.b.bool();
    s.unit.params.push(UnitParam { name: "short".into(), ty: boolt, shift: 3, bits: 1 });
    s.uint("code", 1); // 0
    let text = s.inner("text", b250, blob(250, None, Extent::Until(until(&[b"\n"])))); // 1
    let short = Expr::new(boolt, ExprKind::UnitParam(Root::This, 0));
    s.add(
        "body",
        none,
        FieldKind::Switch {
            cases: vec![
                // 2
                Case { name: Some("none".into()), guard: Guard::When(short), fields: vec![] },
                Case { name: None, guard: Guard::Else, fields: vec![text] },
            ],
        },
    );
    s.done(None, false);
}

fn module() -> Module {
    let mut c = Code { b: Build::new(), locals: vec![] };
    c.b.m.places = vec![Place { name: "p".into(), span: Span::default() }; 8];
    units(&mut c.b);
    let (u8t, u16t, u32t, u64t, boolt, b250) = (c.b.u(8), c.b.u(16), c.b.u(32), c.b.u(64), c.b.bool(), c.b.b(250));
    let (req_t, rep_t) = (c.b.ty(Ty::Msg(UnitId(1))), c.b.ty(Ty::Msg(UnitId(2))));
    let mut p = protocol("h", UnitId(1), Some(UnitId(2)));
    p.response_args = vec![];
    // on fault: code, and whether it is in step
    c.local("kind", u16t);
    c.local("in_step", boolt);
    c.local("request", req_t);
    let b32 = c.b.b(32);
    c.local("start", b32);
    c.local("short", boolt);
    let (kind, in_step) = (c.get(LocalId(0)), c.get(LocalId(1)));
    let digit = {
        let (a, b) = (c.bytes(b"yes\n"), c.bytes(b"no\n"));
        Expr::new(b250, ExprKind::If(in_step, a, b))
    };
    p.on_fault = Some(Body {
        locals: std::mem::take(&mut c.locals),
        block: vec![st(StmtKind::Reply {
            msg: Outgoing::Built {
                unit: UnitId(2),
                body: vec![st(StmtKind::Emit(Emit::UInt { value: kind, bytes: 1, big: true })), emit(digit)],
            },
            close: true,
        })],
    });
    c.b.m.protocols.push(p);
    let opts = desc::PortOptions::default();
    let port = |name: &str, kind| Port {
        name: name.into(),
        span: Span::default(),
        kind,
        protocols: vec![ProtocolId(0)],
        options: opts.clone(),
        ketama: true,
        maglev: false,
    };
    c.b.m.ports.push(port("client", desc::PortKind::Listen(desc::Value::Const(desc::ParamValue::UInt(1)))));
    c.b.m.ports.push(port("backends", desc::PortKind::Connect(desc::Value::Param(0))));
    c.b.m.counters.push(Counter { name: "seen".into(), doc: String::new() });
    let seven = c.b.int(32, 7);
    c.b.m.states.push(State { name: "next".into(), ty: u32t, init: Some(seven) });
    let opt_b = c.b.ty(Ty::Option(b250));
    c.b.m.sessions.push(Session { name: "last".into(), ty: opt_b });
    c.b.m.records.push(Record { name: "Entry".into(), fields: vec![("hits".into(), u64t), ("note".into(), b250)] });
    let entry_t = c.b.ty(Ty::Record(RecordId(0)));
    let table = |name: &str, capacity, evict_lru, memory| Table {
        name: name.into(),
        span: Span::default(),
        kind: TableKind::Exact,
        local: false,
        key: b250,
        value: entry_t,
        capacity,
        idle: 1000,
        evict_lru,
        memory,
        cache: 0,
    };
    c.b.m.tables.push(table("seen_keys", 3, true, 0));
    c.b.m.tables.push(table("full_keys", 2, false, 4096));
    // fn double(n: u32) -> u32, faulting over 1000
    c.local("n", u32t);
    let n = c.get(LocalId(0));
    let (limit, two) = (c.b.int(32, 1000), c.b.int(32, 2));
    let ok = c.b.bin(BinOp::Le, n.clone(), limit);
    let twice = c.b.bin(BinOp::Mul, n, two);
    c.b.m.funcs.push(Func {
        name: "double".into(),
        span: Span::default(),
        params: 1,
        ret: u32t,
        body: FuncBody::Body(Body {
            locals: std::mem::take(&mut c.locals),
            block: vec![
                st(StmtKind::Require { cond: ok, kind: FaultKind(40), place: PlaceId(3) }),
                st(StmtKind::Return(Some(twice))),
            ],
        }),
    });

    let on = On::Message { port: PortId(0), protocol: ProtocolId(0) };
    // 0: proxy: key kept over the suspension, the reply passed on
    let req = c.local("req", req_t);
    let (key, i, rep) = (c.local("key", b250), c.local("i", u32t), c.local("rep", rep_t));
    let h = c.call(64, Builtin::Hash, vec![read(b250, req, &[2])]);
    let len = {
        let e = Expr::new(u32t, ExprKind::PortLen(PortId(1)));
        c.b.cast(64, e)
    };
    let index = {
        let e = c.b.bin(BinOp::Rem, h, len);
        c.b.cast(32, e)
    };
    let zero = c.b.int(32, 0);
    let status = Expr::new(u16t, ExprKind::PartStatus(zero.clone()));
    let fine = {
        let z = c.b.int(16, 0);
        c.b.bin(BinOp::Eq, status.clone(), z)
    };
    let (key_e, i_e) = (c.get(key), c.get(i));
    let within = c.b.int(64, 50);
    let block = vec![
        st(StmtKind::Set(key, read(b250, req, &[2]))),
        st(StmtKind::Set(i, index)),
        st(StmtKind::Call {
            port: PortId(1),
            index: i_e.clone(),
            msg: Outgoing::Pass { msg: req, edits: vec![] },
            within: Some(within),
            response_args: vec![Expr::new(boolt, ExprKind::Bool(false))],
        }),
        st(StmtKind::Await { hold: false, hold_req: true, live: vec![key, i] }),
        st(StmtKind::Log(vec![key_e, c.b.cast(64, i_e), Expr::new(u32t, ExprKind::Parts), read(b250, req, &[2])])),
        st(StmtKind::If {
            cond: fine,
            then: vec![],
            other: vec![st(StmtKind::Fault { kind: FaultKind::REFUSED, place: PlaceId(2) })],
        }),
        st(StmtKind::BindPart { dst: rep, part: zero.clone() }),
        st(StmtKind::Reply { msg: Outgoing::Pass { msg: rep, edits: vec![] }, close: false }),
    ];
    c.handler("client", on, block);

    // 1: fan out to all, join the answers
    let req = c.local("req", req_t);
    let (i, j, rep, sum) = (c.local("i", u32t), c.local("j", u32t), c.local("rep", rep_t), c.local("sum", u64t));
    let (i_e, j_e, sum_e) = (c.get(i), c.get(j), c.get(sum));
    let ports = Expr::new(u32t, ExprKind::PortLen(PortId(1)));
    let parts = Expr::new(u32t, ExprKind::Parts);
    let (one, two) = (c.b.int(32, 1), c.b.int(32, 2));
    let up = Expr::new(boolt, ExprKind::PortUp(PortId(1), i_e.clone()));
    let code = {
        let e = read(u8t, rep, &[0]);
        c.b.cast(64, e)
    };
    let add = c.b.bin(BinOp::Add, sum_e.clone(), code);
    let last = {
        let e = c.b.bin(BinOp::Sub, parts.clone(), one);
        c.b.bin(BinOp::Eq, j_e.clone(), e)
    };
    let sep = {
        let (a, b) = (c.bytes(b"\n"), c.bytes(b","));
        Expr::new(b250, ExprKind::If(last, a, b))
    };
    let text_at = path(rep, &[1]);
    let rounds = two.clone();
    let block = vec![
        st(StmtKind::For {
            var: i,
            from: c.b.int(32, 0),
            to: ports,
            max: 64,
            body: vec![
                st(StmtKind::If { cond: up, then: vec![], other: vec![st(StmtKind::Continue)] }),
                st(StmtKind::Call {
                    port: PortId(1),
                    index: i_e,
                    msg: Outgoing::Pass { msg: req, edits: vec![] },
                    within: None,
                    response_args: vec![],
                }),
            ],
        }),
        st(StmtKind::Await { hold: true, hold_req: false, live: vec![] }),
        st(StmtKind::Reply {
            close: true,
            msg: Outgoing::Built {
                unit: UnitId(2),
                body: vec![
                    st(StmtKind::For {
                        var: j,
                        from: c.b.int(32, 0),
                        to: parts,
                        max: 64,
                        body: vec![
                            st(StmtKind::BindPart { dst: rep, part: j_e.clone() }),
                            st(StmtKind::Set(sum, add)),
                            emit(Expr::new(b250, ExprKind::Read(text_at))),
                            emit(sep),
                        ],
                    }),
                    st(StmtKind::Emit(Emit::Number { value: sum_e, radix: 10, width: 5 })),
                ],
            },
        }),
        st(StmtKind::Loop { max: 3, body: vec![st(StmtKind::Break)] }),
        st(StmtKind::Switch {
            on: rounds,
            cases: vec![(vec![1, 2], vec![st(StmtKind::Return(None))])],
            default: vec![],
        }),
    ];
    c.handler("all", on, block);

    // 2: edits: another id and key, items whose name is `x` go, one is added
    let req = c.local("req", req_t);
    let (ix, new) = (c.local("ix", u32t), c.local("new_key", b250));
    let (ix_e, new_e) = (c.get(ix), c.get(new));
    let name = Expr::new(
        b250,
        ExprKind::Read(Path {
            root: Root::Local(req),
            steps: vec![Step::Field(FieldId(4)), Step::Index(ix_e), Step::Field(FieldId(0))],
        }),
    );
    let x = c.bytes(b"x");
    let is_x = c.b.bin(BinOp::Eq, name, x);
    let upper = Expr::new(b250, ExprKind::Builtin(Builtin::Upper, vec![read(b250, req, &[2])]));
    let plus = c.bytes(b"+");
    let joined = Expr::new(b250, ExprKind::Builtin(Builtin::Concat, vec![upper, plus]));
    let new_len = c.call(64, Builtin::LenBytes, vec![new_e.clone()]);
    let added = c.bytes(b"via:me;");
    let id = {
        let i = read(u16t, req, &[1]);
        let one = c.b.int(16, 1);
        c.b.bin(BinOp::Add, i, one)
    };
    let block = vec![
        st(StmtKind::Set(new, joined)),
        st(StmtKind::Send {
            port: PortId(1),
            index: c.b.int(32, 1),
            msg: Outgoing::Pass {
                msg: req,
                edits: vec![
                    Edit::Set {
                        field: vec![FieldId(0)],
                        cond: None,
                        body: vec![st(StmtKind::Emit(Emit::UInt { value: new_len, bytes: 1, big: true }))],
                    },
                    Edit::Set {
                        field: vec![FieldId(1)],
                        cond: Some(Expr::new(boolt, ExprKind::Bool(true))),
                        body: vec![st(StmtKind::Emit(Emit::UInt { value: id, bytes: 2, big: true }))],
                    },
                    Edit::Set { field: vec![FieldId(2)], cond: None, body: vec![emit(new_e)] },
                    Edit::Remove { list: vec![FieldId(4)], index: ix, cond: is_x },
                    Edit::Append { list: vec![FieldId(4)], cond: None, body: vec![emit(added)] },
                ],
            },
        }),
        st(StmtKind::Reply { msg: Outgoing::Nothing, close: false }),
    ];
    c.handler("edit", on, block);

    // 3: state, session, counter, function
    let req = c.local("req", req_t);
    let last = Expr::new(opt_b, ExprKind::Session(SessionId(0)));
    let dash = c.bytes(b"-");
    let shown = Expr::new(
        b250,
        ExprKind::If(Expr::new(boolt, ExprKind::IsSome(last.clone())), Expr::new(b250, ExprKind::Unwrap(last)), dash),
    );
    let next = Expr::new(u32t, ExprKind::State(StateId(0)));
    let twice = Expr::new(u32t, ExprKind::Call(FuncId(0), vec![next.clone()]));
    let block = vec![
        st(StmtKind::Log(vec![shown, next, Expr::new(u64t, ExprKind::Counter(CounterId(0)))])),
        st(StmtKind::SetSession(SessionId(0), Expr::new(opt_b, ExprKind::Some(read(b250, req, &[2]))))),
        st(StmtKind::Count(CounterId(0), c.b.int(64, 2))),
        st(StmtKind::SetState(StateId(0), twice)),
        st(StmtKind::Reply { msg: Outgoing::Nothing, close: true }),
    ];
    c.handler("state", on, block);

    // 4, 5: tables: get, update, length; 5 puts into a table that rejects
    for (t, name) in [(TableId(0), "lru"), (TableId(1), "reject")] {
        let req = c.local("req", req_t);
        let opt = c.b.ty(Ty::Option(entry_t));
        let (found, entry, len, gone) =
            (c.local("found", opt), c.local("entry", entry_t), c.local("len", u64t), c.local("gone", boolt));
        let key = read(b250, req, &[2]);
        let (found_e, entry_e, len_e, gone_e) = (c.get(found), c.get(entry), c.get(len), c.get(gone));
        let hits = Expr::new(u64t, ExprKind::Get(entry_e.clone(), 0));
        let more = {
            let one = c.b.int(64, 1);
            c.b.bin(BinOp::Add, hits, one)
        };
        let note = {
            let n = Expr::new(b250, ExprKind::Get(entry_e, 1));
            Expr::new(b250, ExprKind::Builtin(Builtin::Concat, vec![n, key.clone()]))
        };
        let here = Expr::new(boolt, ExprKind::IsSome(found_e.clone()));
        let value = Expr::new(entry_t, ExprKind::Unwrap(found_e));
        let del = c.bytes(b"del");
        let is_del = c.b.bin(BinOp::Eq, key.clone(), del);
        let block = vec![
            st(StmtKind::TableGet { table: t, key: key.clone(), dst: found }),
            st(StmtKind::If {
                cond: is_del,
                then: vec![
                    st(StmtKind::TableRemove { table: t, key: c.bytes(b"a"), dst: Some(gone) }),
                    st(StmtKind::Log(vec![gone_e])),
                ],
                other: vec![st(StmtKind::TableUpdate {
                    table: t,
                    key,
                    entry,
                    place: PlaceId(4),
                    body: vec![
                        st(StmtKind::SetField(entry, vec![0], more)),
                        st(StmtKind::SetField(entry, vec![1], note)),
                    ],
                })],
            }),
            st(StmtKind::TableLen { table: t, dst: len }),
            st(StmtKind::Log(vec![
                here,
                Expr::new(u64t, ExprKind::Get(value.clone(), 0)),
                Expr::new(b250, ExprKind::Get(value, 1)),
                len_e,
            ])),
        ];
        c.handler(name, on, block);
    }

    // 6: builtins and arithmetic
    let req = c.local("req", req_t);
    let key = read(b250, req, &[2]);
    let _ = b250;
    let mut logs = vec![];
    for f in [Builtin::Fnv1a32, Builtin::Crc32, Builtin::Md5U32] {
        {
            let e = c.call(32, f, vec![key.clone()]);
            logs.push(e)
        }
    }
    logs.push(c.call(64, Builtin::Fnv1a64, vec![key.clone()]));
    logs.push(c.call(64, Builtin::Hash, vec![key.clone()]));
    let pair = {
        let t = c.b.ty(Ty::Tuple(vec![u16t, b250]));
        let n = c.b.int(16, 258);
        Expr::new(t, ExprKind::Make(vec![n, key.clone()]))
    };
    logs.push(c.call(64, Builtin::Hash, vec![pair]));
    logs.push(Expr::new(u32t, ExprKind::Ketama(PortId(1), key.clone())));
    let i8t = c.b.ty(Ty::Int(8));
    let int8 = |v: i128| Expr::new(i8t, ExprKind::Int(v as u128));
    for op in [BinOp::Add, BinOp::Sub, BinOp::Mul, BinOp::Div, BinOp::Rem, BinOp::AddSat, BinOp::SubSat] {
        logs.push(Expr::new(i8t, ExprKind::Binary(op, int8(-128), int8(-1))))
    }
    let u12 = c.b.u(12);
    for op in [BinOp::Add, BinOp::AddSat, BinOp::SubSat, BinOp::Shl] {
        let (a, b) = (c.b.int(12, 4000), c.b.int(12, 200));
        let b = if op == BinOp::Shl { c.b.int(32, 4) } else { b };
        logs.push(Expr::new(u12, ExprKind::Binary(op, a, b)));
    }
    let ipt = c.b.ty(Ty::Ip);
    let ept = c.b.ty(Ty::Endpoint);
    let peer = Expr::new(ept, ExprKind::ConnPeer);
    logs.push(peer.clone());
    logs.push(Expr::new(ipt, ExprKind::Builtin(Builtin::EndpointIp, vec![peer])));
    logs.push({
        let list = c.bytes(b"a, Keep-Alive ,b");
        let tok = c.bytes(b"keep-alive");
        Expr::new(boolt, ExprKind::Builtin(Builtin::HasToken, vec![list, tok]))
    });
    logs.push({
        let e = c.bytes(b"18446744073709551616");
        let t = c.b.ty(Ty::Option(u64t));
        let p = Expr::new(t, ExprKind::Builtin(Builtin::ParseU64, vec![e]));
        Expr::new(boolt, ExprKind::IsSome(p))
    });
    logs.push({
        let n = c.b.int(16, 99);
        Expr::new(boolt, ExprKind::InRanges(n, vec![(0, 5), (99, 99)]))
    });
    let block = logs.into_iter().map(|e| st(StmtKind::Log(vec![e]))).collect();
    c.handler("builtins", on, block);
    c.b.m
}

fn request(key: &str, items: &str, value: &str) -> Vec<u8> {
    [&[key.len() as u8, 0x12, 0xff], key.as_bytes(), items.as_bytes(), b".", &[0, value.len() as u8], value.as_bytes()]
        .concat()
}

fn run(args: &[String]) -> Vec<String> {
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let out = drive(&module(), "run", &args);
    out.lines().map(str::to_string).collect()
}

fn on(handler: u32, key: &str) -> String {
    format!("{handler}:{}", hex(&request(key, "a:1;x:2;b:3;x:4;", "tail")))
}

#[test]
fn calls_and_replies() {
    let got = run(&[
        format!("={}", hex(b"\x07hello\n")),
        on(0, "k"),
        "=".into(),
        on(0, "k"),
        format!("={}", hex(b"\x07hi\n")),
        on(1, "k"),
        "fault:9".into(),
    ]);
    let head = "\\x01\\x12\\xffka:1;x:2;b:3;x:4;.\\x00\\x04";
    assert_eq!(
        got[0],
        format!("call port 1 index 1 head \"{head}\" tail 1 timeout 50 ctx 8000000000000000 flags 2"),
        "{got:#?}"
    );
    assert_eq!(got[1..4], ["log 1  \"k11k\"", "reply \"\\x07hello\\x0a\" tail 2 flags 0", "done"]);
    assert_eq!(got[5..7], ["log 1  \"k11k\"", "fault 9 at 2"]);
    assert_eq!(got[7], format!("call port 1 index 0 head \"{head}\" tail 1 timeout 0 ctx 8000000000000000 flags 1"));
    assert_eq!(got[10..12], ["reply \"hi,hi,hi\\x0a00021\" tail 0 flags 1", "done"]);
    assert_eq!(got[12], "says \"\\x09yes\\x0a\" flags 1");
}

#[test]
fn edits() {
    let got = run(&[on(2, "key")]);
    assert_eq!(got[0], "send port 1 index 1 head \"\\x04\\x13\\x00KEY+a:1;b:3;via:me;.\\x00\\x04\" tail 1");
    assert_eq!(got[1], "reply \"\" tail 0 flags 2");
}

#[test]
fn state_and_functions() {
    let got = run(&(0..9).map(|i| on(3, &format!("k{i}"))).collect::<Vec<_>>());
    let logs: Vec<_> = got.iter().filter(|l| l.starts_with("log")).collect();
    assert_eq!(logs[0], "log 1  \"-70\"");
    assert_eq!(logs[1], "log 1  \"k0142\"");
    assert_eq!(logs[8], "log 1  \"k7179216\"");
    assert_eq!(got.last().unwrap(), "fault 40 at 3");
}

#[test]
fn tables() {
    let got = run(&["a", "a", "b", "c", "a", "d", "b", "del"].map(|k| on(4, k)));
    let logs: Vec<_> = got.iter().filter(|l| l.starts_with("log")).map(|l| &l[7..]).collect();
    // Three entries at most: d evicts b (c is younger, a was read).
    assert_eq!(
        logs,
        [
            "\"false01\"",
            "\"true1a1\"",
            "\"false02\"",
            "\"false03\"",
            "\"true2aa3\"",
            "\"false03\"",
            "\"false03\"",
            "\"true\"",
            "\"false02\""
        ]
    );
    let full = run(&[
        on(5, "a"),
        on(5, "b"),
        on(5, "c"),
        "time:1500".into(),
        on(5, "a"),
        "time:2100".into(),
        on(5, "c"),
        on(5, &"l".repeat(250)),
        "time:9000".into(),
        on(5, "z"),
        on(5, &"l".repeat(240)),
    ]);
    let logs: Vec<_> =
        full.iter().filter(|l| l.starts_with("log") || l.starts_with("fault")).map(String::as_str).collect();
    assert_eq!(
        logs[..6],
        [
            "log 1  \"false01\"",
            "log 1  \"false02\"",
            "fault 14 at 4",
            "log 1  \"true1a2\"",
            "log 1  \"false02\"",
            "fault 14 at 4"
        ]
    );
    assert_eq!(logs[6..], ["log 1  \"false01\"", "log 1  \"false02\""]);
}

#[test]
fn builtins() {
    let got = run(&[on(6, "foobar")]);
    let logs: Vec<_> = got.iter().filter(|l| l.starts_with("log")).map(|l| l[8..].trim_end_matches('"')).collect();
    // Published vectors: FNV-1a of "foobar", CRC-32 and md5 (3858f622…) of the same.
    assert_eq!(logs[..4], ["3214735720", "2666930069", "586569784", "9625390261332436968"], "{logs:?}");
    assert_eq!(
        logs[7..18],
        ["127", "-127", "-128", "-128", "0", "-128", "-127", "104", "4095", "3800", "2560"],
        "{logs:?}"
    );
    assert_eq!(logs[18..], ["127.0.0.1:4711", "127.0.0.1", "true", "false", "true"]);
}
