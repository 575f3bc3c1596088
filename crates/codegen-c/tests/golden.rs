//! The C text of a small module, compared with a file. `BLESS=1` writes the file anew.
mod common;
use common::*;
use wireloom_codegen_c::{compile, emit, CompileError, CompileOptions, Options};
use wireloom_ir::*;

fn small() -> Module {
    let mut b = Build::new();
    let (b250, u32t, none) = (b.b(250), b.u(32), b.ty(Ty::Unit));
    let mut u = b.unit("echo.Line");
    let word = u.add(
        "word",
        b250,
        FieldKind::Bytes {
            min: 1,
            max: 250,
            class: Some(ByteSet::range(b'!', b'~')),
            extent: Extent::Until(until(&[b" "])),
            trim: None,
            caseless: false,
        },
    );
    u.add("times", u32t, FieldKind::Number { radix: 10, digits: 3, exact: false, until: None });
    u.add("", none, FieldKind::Literal { values: vec![bytes(b"\r\n"), bytes(b"\n")] });
    let line = u.done(None, false);
    b.m.protocols.push(protocol("echo", line, Some(line)));
    b.m.files.push("echo.loom".into());
    b.m.counters.push(Counter { name: "lines".into(), doc: String::new() });
    let msg = b.ty(Ty::Msg(line));
    b.m.ports.push(Port {
        name: "client".into(),
        span: Span::default(),
        kind: desc::PortKind::Listen(desc::Value::Const(desc::ParamValue::UInt(7))),
        protocols: vec![ProtocolId(0)],
        options: desc::PortOptions::default(),
        ketama: false,
        maglev: false,
    });
    let stmt = |line, kind| Stmt { span: Span { line, ..Span::default() }, kind };
    let one = b.int(64, 1);
    let text = Expr::new(b250, ExprKind::Read(Path { root: Root::Local(LocalId(0)), steps: vec![Step::Field(word)] }));
    let end = Expr::new(b250, ExprKind::Bytes(b" 1\r\n".to_vec()));
    b.m.handlers.push(Handler {
        name: "client".into(),
        span: Span::default(),
        on: On::Message { port: PortId(0), protocol: ProtocolId(0) },
        segment: None,
        device: Default::default(),
        steps: 3,
        body: Body {
            locals: vec![Local { name: "req".into(), ty: msg, in_frame: false }],
            block: vec![
                stmt(3, StmtKind::Count(CounterId(0), one)),
                stmt(
                    4,
                    StmtKind::Reply {
                        close: false,
                        msg: Outgoing::Built {
                            unit: line,
                            body: vec![
                                stmt(4, StmtKind::Emit(Emit::Bytes(text))),
                                stmt(4, StmtKind::Emit(Emit::Bytes(end))),
                            ],
                        },
                    },
                ),
            ],
        },
        plan: Default::default(),
    });
    b.m
}

#[test]
fn small_module() {
    let text = emit(&small(), &Options::default()).text;
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/small.c");
    wireloom_golden::compare(&[wireloom_golden::Golden { path, text: Some(text) }]).unwrap_or_else(|e| panic!("{e}"));
}

#[test]
fn cached_and_with_all_flags() {
    let dir = cache().join(format!("flags-{}", std::process::id()));
    let plain = CompileOptions { cache_dir: dir.clone(), ..CompileOptions::default() };
    let source = emit(&small(), &Options { lines: true, ..Default::default() });
    assert!(source.text.contains("#line 4 \"echo.loom\""));
    let path = |o: &CompileOptions| compile(&source, o).unwrap().path.unwrap();
    let first = path(&plain);
    let time = std::fs::metadata(&first).unwrap().modified().unwrap();
    assert_eq!(path(&plain), first);
    assert_eq!(std::fs::metadata(&first).unwrap().modified().unwrap(), time, "compiled twice");
    let other = |o: CompileOptions| assert_ne!(path(&o), first);
    other(CompileOptions { sanitize: true, ..plain.clone() });
    other(CompileOptions { portable: true, opt: 1, ..plain.clone() });
    other(CompileOptions { cc: Some("gcc".into()), ..plain.clone() });
    let missing = compile(&source, &CompileOptions { cc: Some("no-such-compiler".into()), ..plain });
    assert!(matches!(missing, Err(CompileError::NoCompiler { .. })));
    std::fs::remove_dir_all(dir).unwrap();
}
