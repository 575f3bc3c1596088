//! Building IR modules by hand, compiling them with sanitizers, driving them from a C harness.
#![allow(dead_code)]

use std::path::{Path, PathBuf};
use std::process::Command;
use wireloom_codegen_c::*;
use wireloom_ir::*;

pub struct Build {
    pub m: Module,
}

pub fn field(ty: TyId, kind: FieldKind) -> Field {
    Field {
        name: None,
        span: Span::default(),
        ty,
        kind,
        place: PlaceId(1),
        too_long: FaultKind::TOO_LONG,
        bad: FaultKind::MALFORMED,
        doc: String::new(),
        within: None,
        computed: None,
        value_used: true,
        extent_used: false,
    }
}

pub fn bytes(s: &[u8]) -> Vec<u8> {
    s.to_vec()
}

pub fn until(d: &[&[u8]]) -> Until {
    Until { delimiters: d.iter().map(|d| d.to_vec()).collect(), peek: false }
}

pub fn blob(max: u64, class: Option<ByteSet>, extent: Extent) -> FieldKind {
    FieldKind::Bytes { min: 0, max, class, extent, trim: None, caseless: false }
}

impl Build {
    pub fn new() -> Self {
        Build { m: Module { app: "test".into(), ..Module::default() } }
    }
    pub fn ty(&mut self, t: Ty) -> TyId {
        self.m.intern(t)
    }
    pub fn u(&mut self, bits: u8) -> TyId {
        self.ty(Ty::UInt(bits))
    }
    pub fn b(&mut self, max: u64) -> TyId {
        self.ty(Ty::Bytes(max))
    }
    pub fn bool(&mut self) -> TyId {
        self.ty(Ty::Bool)
    }

    pub fn unit(&mut self, name: &str) -> UnitBuild<'_> {
        UnitBuild {
            b: self,
            unit: Unit {
                name: name.into(),
                doc: String::new(),
                span: Span::default(),
                params: vec![],
                asked: vec![],
                fields: vec![],
                body: vec![],
                tail: 0,
                streams: false,
                limit: None,
                min: 1,
                max: 1 << 20,
                head_max: 1 << 16,
                first: ByteSet::ALL,
                frame: None,
                header: Header::default(),
            },
        }
    }
    pub fn int(&mut self, bits: u8, v: u128) -> Expr {
        let t = self.u(bits);
        Expr::new(t, ExprKind::Int(v))
    }
    pub fn bin(&mut self, op: BinOp, a: Expr, b: Expr) -> Expr {
        let t = match op {
            BinOp::Eq | BinOp::Ne | BinOp::Lt | BinOp::Le | BinOp::Gt | BinOp::Ge | BinOp::EqCase => self.bool(),
            _ => a.ty,
        };
        Expr::new(t, ExprKind::Binary(op, a, b))
    }
    pub fn cast(&mut self, bits: u8, a: Expr) -> Expr {
        let t = self.u(bits);
        Expr::new(t, ExprKind::Cast(a))
    }
    pub fn this(&mut self, ty: TyId, f: FieldId) -> Expr {
        Expr::new(ty, ExprKind::Read(wireloom_ir::Path { root: Root::This, steps: vec![Step::Field(f)] }))
    }
}

pub struct UnitBuild<'b> {
    pub b: &'b mut Build,
    pub unit: Unit,
}

impl UnitBuild<'_> {
    pub fn add(&mut self, name: &str, ty: TyId, kind: FieldKind) -> FieldId {
        let id = self.inner(name, ty, kind);
        self.unit.body.push(id);
        id
    }
    /// A field that is not in the body: of a case or a list.
    pub fn inner(&mut self, name: &str, ty: TyId, kind: FieldKind) -> FieldId {
        let mut f = field(ty, kind);
        if !name.is_empty() {
            f.name = Some(name.into())
        }
        self.unit.fields.push(f);
        FieldId(self.unit.fields.len() as u32 - 1)
    }
    pub fn f(&mut self, id: FieldId) -> &mut Field {
        &mut self.unit.fields[id.index()]
    }
    pub fn uint(&mut self, name: &str, bytes: u8) -> FieldId {
        let t = self.b.u(bytes * 8);
        self.add(name, t, FieldKind::UInt { bytes, shift: 0, bits: bytes * 8, big: true, signed: false, advance: true })
    }
    /// `tail`: position in the body, or none.
    pub fn done(mut self, tail: Option<u32>, streams: bool) -> UnitId {
        self.unit.tail = tail.unwrap_or(self.unit.body.len() as u32);
        self.unit.streams = streams;
        self.b.m.units.push(self.unit);
        UnitId(self.b.m.units.len() as u32 - 1)
    }
}

pub fn protocol(name: &str, request: UnitId, response: Option<UnitId>) -> Protocol {
    Protocol {
        name: name.into(),
        request,
        response,
        response_args: vec![],
        sharing: desc::Sharing::Pipelined,
        order_by: None,
        close_request: None,
        no_reply: None,
        alone: None,
        repeat: None,
        private_request: None,
        private_response: None,
        close_response: None,
        interim: None,
        tunnel: None,
        refusal: None,
        stray: None,
        ignore: None,
        classes: vec![],
        on_log: None,
        on_fault: None,
        on_interim: None,
    }
}

pub fn set(s: &str) -> ByteSet {
    ByteSet::of(s.as_bytes())
}

/// `key value\r\n`-like text protocol with nearly every field form.
pub fn text_unit(b: &mut Build) -> UnitId {
    let (u8t, u32t, u64t, none, b250, b8k, boolt) =
        (b.u(8), b.u(32), b.u(64), b.ty(Ty::Unit), b.b(250), b.b(8192), b.bool());
    let mut k = b.unit("t.Key");
    let mut class = ByteSet::range(0x21, 0x7e);
    class = class.union(&ByteSet::range(0x80, 0xff));
    let key = k.add(
        "key",
        b250,
        FieldKind::Bytes { min: 1, max: 250, class: Some(class), extent: Extent::Run, trim: None, caseless: false },
    );
    k.f(key).extent_used = true;
    let blank = k.add("", none, blob(1024, Some(set(" ")), Extent::Run));
    k.f(blank).value_used = false;
    let key_unit = k.done(None, false);

    let mut h = b.unit("t.Header");
    h.add(
        "name",
        b250,
        FieldKind::Bytes {
            min: 1,
            max: 250,
            class: Some(ByteSet::range(b'a', b'z').union(&ByteSet::range(b'A', b'Z')).union(&set("-"))),
            extent: Extent::Until(until(&[b":"])),
            trim: None,
            caseless: true,
        },
    );
    h.add(
        "value",
        b8k,
        FieldKind::Bytes {
            min: 0,
            max: 4096,
            class: Some(ByteSet::range(0x20, 0x7e).union(&set("\t"))),
            extent: Extent::Until(until(&[b"\r\n"])),
            trim: Some(set(" \t")),
            caseless: false,
        },
    );
    let header = h.done(None, false);

    let mut r = b.unit("t.Request");
    r.add("", none, FieldKind::Recover { how: Recover::Until(until(&[b"\n"])) });
    let keys_el = r.inner("", none, FieldKind::Unit { unit: key_unit, args: vec![] });
    let keys = r.inner(
        "keys",
        none,
        FieldKind::List { element: keys_el, max: 4, extent: ListExtent::Until(until(&[b"\r\n", b"\n"])) },
    );
    r.f(keys).extent_used = true;
    let key = r.inner("key", none, FieldKind::Unit { unit: key_unit, args: vec![] });
    let flags =
        r.inner("flags", u32t, FieldKind::Number { radix: 10, digits: 10, exact: false, until: Some(until(&[b" "])) });
    r.f(flags).within = Some(vec![(0, 70000)]);
    let size = r.inner("size", u32t, FieldKind::Number { radix: 16, digits: 8, exact: false, until: None });
    let sp = r.inner("", none, blob(1024, Some(set(" ")), Extent::Run));
    let noreply = r.inner("noreply", boolt, FieldKind::Flag { value: bytes(b"noreply") });
    let eol = r.inner("", none, FieldKind::Literal { values: vec![bytes(b"\r\n"), bytes(b"\n")] });
    let size_read = r.b.this(u32t, size);
    let size64 = r.b.cast(64, size_read);
    let two = r.b.int(64, 2);
    let skip = r.b.bin(BinOp::Add, size64.clone(), two);
    let rec = r.inner("", none, FieldKind::Recover { how: Recover::Length(skip) });
    let data = r.inner("data", r.unit.fields[0].ty, blob(1 << 20, None, Extent::Length(size64)));
    let b1m = r.b.b(1 << 20);
    r.f(data).ty = b1m;
    r.f(data).too_long = FaultKind(33);
    let end = r.inner("", none, FieldKind::Literal { values: vec![bytes(b"\r\n")] });
    r.f(end).bad = FaultKind(32);
    let ver = r.inner("major", u8t, FieldKind::Number { radix: 10, digits: 1, exact: true, until: None });
    let dot = r.inner("", none, FieldKind::Literal { values: vec![bytes(b".")] });
    let minor =
        r.inner("minor", u8t, FieldKind::Number { radix: 10, digits: 1, exact: true, until: Some(until(&[b"\r\n"])) });
    let h_el = r.inner("", none, FieldKind::Unit { unit: header, args: vec![] });
    let headers = r.inner(
        "headers",
        none,
        FieldKind::List { element: h_el, max: 5, extent: ListExtent::Until(until(&[b"\r\n"])) },
    );
    r.f(headers).extent_used = true;
    r.f(h_el).extent_used = true;
    let host = {
        let t = r.b.ty(Ty::Option(b8k));
        let name = Expr::new(b250, ExprKind::Bytes(bytes(b"HOST")));
        let v = Expr::new(
            t,
            ExprKind::Find { list: wireloom_ir::Path { root: Root::This, steps: vec![Step::Field(headers)] }, name },
        );
        r.inner("host", t, FieldKind::Let { value: v })
    };
    let cond = {
        let e = r.b.this(r.unit.fields[host.index()].ty, host);
        Expr::new(boolt, ExprKind::IsSome(e))
    };
    let req = r.inner("", none, FieldKind::Require { cond });
    let count = {
        let p = wireloom_ir::Path { root: Root::This, steps: vec![Step::Field(headers)] };
        Expr::new(u32t, ExprKind::Count(p))
    };
    let n = r.inner("n", u64t, FieldKind::Varint { max_bytes: 3 });
    let nums_el =
        r.inner("", u8t, FieldKind::UInt { bytes: 1, shift: 0, bits: 8, big: true, signed: false, advance: true });
    let list_ty = r.b.ty(Ty::List(u8t, 5));
    let nums = r.inner("nums", list_ty, FieldKind::List { element: nums_el, max: 5, extent: ListExtent::Count(count) });
    let hi =
        r.inner("hi", u8t, FieldKind::UInt { bytes: 2, shift: 12, bits: 4, big: true, signed: false, advance: false });
    let lo = {
        let t = r.b.u(16);
        r.inner("lo", t, FieldKind::UInt { bytes: 2, shift: 0, bits: 12, big: true, signed: false, advance: true })
    };
    let align = r.inner("", none, FieldKind::Align { to: 4 });
    let other = r.inner("other", b250, blob(64, None, Extent::Until(until(&[b"\r\n", b"\n"]))));
    let case = |name: &str, lits: &[&[u8]], fields: Vec<FieldId>| Case {
        name: Some(name.into()),
        guard: Guard::Literal { values: lits.iter().map(|l| l.to_vec()).collect(), peek: false },
        fields,
    };
    r.add(
        "command",
        none,
        FieldKind::Switch {
            cases: vec![
                case("get", &[b"get ", b"gets "], vec![keys]),
                case("set", &[b"set "], vec![key, flags, size, sp, noreply, eol, rec, data, end]),
                case("http", &[b"HTTP/"], vec![ver, dot, minor, headers, host, req, n, nums, hi, lo, align]),
                Case { name: None, guard: Guard::Literal { values: vec![bytes(b"bad ")], peek: true }, fields: vec![] },
                Case { name: Some("other".into()), guard: Guard::Else, fields: vec![other] },
            ],
        },
    );
    r.done(Some(1), false)
}

/// Chunked streams.
pub fn stream_unit(b: &mut Build) -> UnitId {
    let (u64t, none, boolt, u8t) = (b.u(64), b.ty(Ty::Unit), b.bool(), b.u(8));
    let mut c = b.unit("t.Chunk");
    let size =
        c.add("size", u64t, FieldKind::Number { radix: 16, digits: 16, exact: false, until: Some(until(&[b"\r\n"])) });
    let len = c.b.this(u64t, size);
    let data = c.inner("data", none, FieldKind::StreamBytes { extent: Extent::Length(len.clone()) });
    let eol = c.inner("", none, FieldKind::Literal { values: vec![bytes(b"\r\n")] });
    let zero = c.b.int(64, 0);
    let some = c.b.bin(BinOp::Gt, len, zero);
    c.add(
        "rest",
        none,
        FieldKind::Switch {
            cases: vec![
                Case { name: None, guard: Guard::When(some), fields: vec![data, eol] },
                Case { name: None, guard: Guard::Else, fields: vec![] },
            ],
        },
    );
    let chunk = c.done(None, true);
    let mut r = b.unit("t.Stream");
    let kind = r.uint("kind", 1);
    let is = |r: &mut UnitBuild, v: u8| {
        let k = r.b.this(u8t, kind);
        let c = r.b.int(8, v as u128);
        r.b.bin(BinOp::Eq, k, c)
    };
    let (is_c, is_l, is_e) = (is(&mut r, b'c'), is(&mut r, b'l'), is(&mut r, b'e'));
    let item = Expr::new(u64t, ExprKind::Read(wireloom_ir::Path { root: Root::Item, steps: vec![Step::Field(size)] }));
    let zero = r.b.int(64, 0);
    let last = r.b.bin(BinOp::Eq, item, zero);
    let chunks = r.inner("chunks", none, FieldKind::StreamUnit { unit: chunk, args: vec![], until: Some(last) });
    let trailer = r.inner("", none, FieldKind::Literal { values: vec![bytes(b"\r\n")] });
    let n = r.inner("n", u64t, FieldKind::Number { radix: 10, digits: 20, exact: false, until: Some(until(&[b"\n"])) });
    let n_read = r.b.this(u64t, n);
    let data = r.inner("data", none, FieldKind::StreamBytes { extent: Extent::Length(n_read) });
    let rest = r.inner("rest", none, FieldKind::StreamBytes { extent: Extent::Close });
    r.add(
        "body",
        none,
        FieldKind::Switch {
            cases: vec![
                Case { name: None, guard: Guard::When(is_c), fields: vec![chunks, trailer] },
                Case { name: None, guard: Guard::When(is_l), fields: vec![n, data] },
                Case { name: None, guard: Guard::When(is_e), fields: vec![rest] },
                Case { name: None, guard: Guard::Else, fields: vec![] },
            ],
        },
    );
    let _ = boolt;
    r.done(Some(1), true)
}

pub fn cache() -> PathBuf {
    std::env::temp_dir().join("wireloom-codegen-test")
}

/// Compiles a module with the sanitizers and a C harness around it; runs it and gives its output.
pub fn drive(m: &Module, harness: &str, args: &[&str]) -> String {
    let source = emit(m, &Options::default());
    // The plain build checks the cache and the exported symbol; the sanitized one is linked to the
    // harness.
    let options = CompileOptions { cache_dir: cache(), opt: 0, ..CompileOptions::default() };
    let so = compile(&source, &options).unwrap_or_else(|e| panic!("{e}")).path.expect("a folder of our own");
    assert!(so.is_file());
    let dir = Path::new(env!("CARGO_MANIFEST_DIR"));
    let c = so.with_extension("c");
    static NEXT: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
    let n = NEXT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    let exe = so.with_extension(format!("{harness}.{}.{n}.exe", std::process::id()));
    let (cc, _) = find_compiler(None).unwrap();
    let run = |cmd: &mut Command| {
        let out = cmd.output().unwrap();
        let text = format!("{}{}", String::from_utf8_lossy(&out.stdout), String::from_utf8_lossy(&out.stderr));
        assert!(out.status.success(), "{cmd:?}\n{text}");
        text
    };
    run(Command::new(cc)
        .args([
            "-std=c11",
            "-D_GNU_SOURCE",
            "-g",
            "-O1",
            "-march=native",
            "-Wall",
            "-Wextra",
            "-Werror",
            "-fsanitize=address,undefined",
            "-fno-sanitize-recover=all",
            "-pthread",
        ])
        .arg("-I")
        .arg(dir.join("../../support"))
        .args(["-DREQUEST_UNIT=1", "-DRESPONSE_UNIT=2"])
        .arg(format!("-DGENERATED=\"{}\"", c.display()))
        .arg("-o")
        .arg(&exe)
        .arg(dir.join("tests/harness").join(format!("{harness}.c"))));
    let text = run(Command::new(&exe).args(args).env("ASAN_OPTIONS", "detect_leaks=0")); // one-shot: the harness frees nothing
    let _ = std::fs::remove_file(&exe);
    text
}
