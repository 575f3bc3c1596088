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

/// RESP: values nested by counting, folded into one list; the bulks are long, so the list is a tail.
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
    let bulk = v.inner("bulk", none, FieldKind::Switch {
        cases: vec![
            Case { name: None, guard: Guard::When(present), fields: vec![data, end] },
            Case { name: None, guard: Guard::When(null), fields: vec![] },
        ],
    });
    let lit = |s: &[u8]| Guard::Literal { values: vec![s.to_vec()], peek: false };
    let kind = v.add("kind", none, FieldKind::Switch {
        cases: vec![
            Case { name: Some("line".into()), guard: Guard::Literal { values: vec![bytes(b"+"), bytes(b"-"), bytes(b":")], peek: false }, fields: vec![line] },
            Case { name: Some("bulk".into()), guard: lit(b"$"), fields: vec![size, bulk] },
            Case { name: Some("array".into()), guard: lit(b"*"), fields: vec![count] },
        ],
    });
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
    r.add("values", none, FieldKind::List { element, max: 40, extent: ListExtent::Fold { init: one, step, done } });
    r.done(Some(0), false)
}

/// Headers, then a body by what they say: a length, chunks with trailers, or the end of the connection; parameters
/// decide, too.
pub fn http_unit(b: &mut Build) -> UnitId {
    let (u64t, none, boolt, u16t) = (b.u(64), b.ty(Ty::Unit), b.bool(), b.u(16));
    let (b64, b1k) = (b.b(64), b.b(1024));
    let opt_b = b.ty(Ty::Option(b1k));
    let opt_u = b.ty(Ty::Option(u64t));
    let mut h = b.unit("h.Header");
    let name = ByteSet::range(b'a', b'z').union(&ByteSet::range(b'A', b'Z')).union(&set("-"));
    h.add("name", b64, FieldKind::Bytes { min: 1, max: 64, class: Some(name), extent: Extent::Until(until(&[b":"])), trim: None, caseless: true });
    let text = ByteSet::range(0x20, 0x7e);
    h.add("value", b1k, FieldKind::Bytes { min: 0, max: 1024, class: Some(text), extent: Extent::Until(until(&[b"\r\n", b"\n"])), trim: Some(set(" \t")), caseless: false });
    let header = h.done(None, false);

    let mut c = b.unit("h.Chunk");
    let size = c.add("size", u64t, FieldKind::Number { radix: 16, digits: 8, exact: false, until: None });
    c.add("extension", b64, blob(64, Some(text), Extent::Until(until(&[b"\r\n"]))));
    let n = c.b.this(u64t, size);
    let some = c.b.bin(BinOp::Gt, n.clone(), Expr::new(u64t, ExprKind::Int(0)));
    let data = c.inner("data", none, FieldKind::StreamBytes { extent: Extent::Length(n) });
    let eol = c.inner("", none, FieldKind::Literal { values: vec![bytes(b"\r\n")] });
    let trailer = c.inner("", none, FieldKind::Unit { unit: header, args: vec![] });
    let trailers = c.inner("trailers", none, FieldKind::List { element: trailer, max: 3, extent: ListExtent::Until(until(&[b"\r\n"])) });
    c.add("rest", none, FieldKind::Switch {
        cases: vec![
            Case { name: None, guard: Guard::When(some), fields: vec![data, eol] },
            Case { name: None, guard: Guard::Else, fields: vec![trailers] },
        ],
    });
    let chunk = c.done(None, true);

    let mut r = b.unit("h.Response");
    r.unit.params = vec![UnitParam { name: "head".into(), ty: boolt, shift: 0, bits: 1 }];
    r.add("", none, FieldKind::Literal { values: vec![bytes(b"HTTP/1.")] });
    let digit = r.add("minor", u16t, FieldKind::Number { radix: 10, digits: 1, exact: true, until: Some(until(&[b" "])) });
    r.f(digit).within = Some(vec![(0, 1)]);
    let status = r.add("status", u16t, FieldKind::Number { radix: 10, digits: 3, exact: true, until: Some(until(&[b"\r\n"])) });
    let element = r.inner("", none, FieldKind::Unit { unit: header, args: vec![] });
    let headers = r.add("headers", none, FieldKind::List { element, max: 6, extent: ListExtent::Until(until(&[b"\r\n"])) });
    let list = || Path { root: Root::This, steps: vec![Step::Field(headers)] };
    let word = |s: &[u8]| Expr::new(b64, ExprKind::Bytes(s.to_vec()));
    let head = Expr::new(boolt, ExprKind::UnitParam(Root::This, 0));
    let status_is = |r: &mut UnitBuild, n: u128| {
        let s = r.b.this(u16t, status);
        r.b.bin(BinOp::Eq, s, Expr::new(u16t, ExprKind::Int(n)))
    };
    let no_content = status_is(&mut r, 204);
    let bodiless = Expr::new(boolt, ExprKind::Binary(BinOp::Or, head, no_content));
    let chunked = Expr::new(boolt, ExprKind::AnyToken { list: list(), name: word(b"Transfer-Encoding"), token: word(b"chunked") });
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
    r.add("body", none, FieldKind::Switch {
        cases: vec![
            Case { name: None, guard: Guard::When(bodiless), fields: vec![] },
            Case { name: Some("chunks".into()), guard: Guard::When(chunked), fields: vec![chunks] },
            Case { name: Some("data".into()), guard: Guard::When(has_length), fields: vec![length, number, data] },
            Case { name: Some("rest".into()), guard: Guard::Else, fields: vec![rest] },
        ],
    });
    let id = r.done(Some(4), true);
    let interim = {
        let s = read(u16t, Root::This, status);
        Expr::new(boolt, ExprKind::InRanges(s, vec![(100, 199)]))
    };
    let mut p = protocol("h", id, Some(id));
    p.interim = Some(interim);
    p.close_response = Some(Expr::new(boolt, ExprKind::AnyToken { list: list(), name: word(b"connection"), token: word(b"close") }));
    p.response_args = vec![Expr::new(boolt, ExprKind::Bool(false))];
    b.m.protocols.push(p);
    id
}
