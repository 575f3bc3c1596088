//! Frames: headers with options and wrong lengths, fields set in place, a header put in front,
//! bytes behind all headers, and a local table. They are driven from C.
mod common;
use common::*;
use wireloom_ir::*;

struct Packet {
    unit: UnitId,
    udp_case: Expr,
    ip_case: Expr,
}

fn uint(bytes: u8, shift: u8, bits: u8, advance: bool) -> FieldKind {
    FieldKind::UInt { bytes, shift, bits, big: true, signed: false, advance }
}

/// Ethernet, IPv4 with options, UDP, and the frame made of them.
fn packet(b: &mut Build) -> Packet {
    let (u4, u8t, u16t, u32t, u64t, mac, b40) = (b.u(4), b.u(8), b.u(16), b.u(32), b.u(64), b.u(48), b.b(40));
    let (five, fifteen) = (5, 15);
    let mut eth = b.unit("Ethernet");
    eth.add("dst", mac, uint(6, 0, 48, true));
    eth.add("src", mac, uint(6, 0, 48, true));
    let ether_type = eth.uint("type", 2);
    let eth = eth.done(None, false);

    let mut ip = b.unit("Ipv4");
    let version = ip.add("version", u4, uint(1, 4, 4, false));
    ip.f(version).within = Some(vec![(4, 4)]);
    let ihl = ip.add("ihl", u4, uint(1, 0, 4, true));
    ip.f(ihl).within = Some(vec![(five, fifteen)]);
    ip.uint("tos", 1);
    let total = ip.uint("total", 2);
    ip.uint("id", 2);
    ip.uint("fragment", 2);
    ip.uint("ttl", 1);
    let proto = ip.uint("proto", 1);
    let sum = ip.uint("sum", 2);
    let (src, dst) = (ip.uint("src", 4), ip.uint("dst", 4));
    let words = ip.b.this(u4, ihl);
    let words = Expr::new(u64t, ExprKind::Cast(words));
    let (four, twenty) = (ip.b.int(64, 4), ip.b.int(64, 20));
    let bytes = ip.b.bin(BinOp::Mul, words, four);
    let length = ip.b.bin(BinOp::Sub, bytes, twenty);
    let options = ip.add("options", b40, blob(40, None, Extent::Length(length)));
    ip.f(options).extent_used = true;
    ip.unit.header = Header {
        checksum: Some(Checksum { field: sum, over: Over::Header }),
        addresses: Some((src, dst)),
        covers: Some(Covers { field: total, own: true }),
        ..Header::default()
    };
    let ip = ip.done(None, false);

    let mut udp = b.unit("Udp");
    udp.uint("src", 2);
    udp.uint("dst", 2);
    let length = udp.uint("length", 2);
    let sum = udp.uint("sum", 2);
    udp.unit.header = Header {
        checksum: Some(Checksum { field: sum, over: Over::Transport { protocol: 17, optional: true } }),
        addresses: None,
        covers: Some(Covers { field: length, own: true }),
        ..Header::default()
    };
    let udp = udp.done(None, false);

    let none = b.ty(Ty::Unit);
    let mut p = b.unit("Packet");
    let mut layers = Vec::new();
    for (name, unit) in [("eth", eth), ("ip", ip), ("udp", udp)] {
        let header = p.inner(name, none, FieldKind::Unit { unit, args: vec![] });
        let always = p.b.bool();
        let case = |name: Option<&str>, guard, fields| Case { name: name.map(String::from), guard, fields };
        let cases = vec![
            case(Some(name), Guard::When(Expr::new(always, ExprKind::Bool(true))), vec![header]),
            case(None, Guard::Else, vec![]),
        ];
        let switch = p.add("", none, FieldKind::Switch { cases });
        layers.push(Layer { switch, header, unit, after: vec![] });
    }
    let this = |ty, header: FieldId, field: FieldId| {
        Expr::new(ty, ExprKind::Read(Path { root: Root::This, steps: vec![Step::Field(header), Step::Field(field)] }))
    };
    layers[0].after = vec![After { layer: None, cond: None }];
    let (is_ip, is_udp) = (p.b.int(16, 0x800), p.b.int(8, 17));
    layers[1].after =
        vec![After { layer: Some(0), cond: Some(p.b.bin(BinOp::Eq, this(u16t, layers[0].header, ether_type), is_ip)) }];
    layers[2].after =
        vec![After { layer: Some(1), cond: Some(p.b.bin(BinOp::Eq, this(u8t, layers[1].header, proto), is_udp)) }];
    let there = |p: &mut UnitBuild, n: usize| {
        let t = p.b.bool();
        Expr::new(
            t,
            ExprKind::Case(Path { root: Root::Local(LocalId(0)), steps: vec![Step::Field(layers[n].switch)] }, 0),
        )
    };
    let (ip_case, udp_case) = (there(&mut p, 1), there(&mut p, 2));
    p.unit.frame = Some(Frame { layers: layers.clone(), fast_path: None });
    let unit = p.done(None, false);
    let _ = u32t;
    Packet { unit, udp_case, ip_case }
}

fn stmt(kind: StmtKind) -> Stmt {
    Stmt { span: Span::default(), kind }
}

fn module() -> Module {
    let mut b = Build::new();
    let p = packet(&mut b);
    b.m.places = vec![Place { name: "somewhere".into(), span: Span::default() }; 2];
    let frames = || desc::PortKind::Frames {
        engine: desc::FrameEngine::Memory,
        names: desc::Value::Const(desc::ParamValue::Bytes(vec![])),
    };
    for name in ["wire", "tunnel", "behind"] {
        b.m.ports.push(Port {
            name: name.into(),
            span: Span::default(),
            kind: frames(),
            protocols: vec![],
            options: desc::PortOptions::default(),
            ketama: false,
            maglev: false,
        });
    }
    let (u8t, u16t, u32t, u64t, mac) = (b.u(8), b.u(16), b.u(32), b.u(64), b.u(48));
    let key = b.ty(Ty::Tuple(vec![u32t, u32t, u16t]));
    let value = b.ty(Ty::Tuple(vec![u64t, u64t]));
    let entry = b.ty(Ty::Option(value));
    b.m.tables.push(Table {
        name: "flows".into(),
        span: Span::default(),
        kind: TableKind::Exact,
        local: true,
        key,
        value,
        capacity: 8,
        idle: 0,
        evict_lru: false,
        memory: 0,
        cache: 0,
    });
    let msg = b.ty(Ty::Msg(p.unit));
    let layers = b.m.units[p.unit.index()].frame.clone().unwrap().layers;
    let field = |unit: UnitId, name: &str, m: &Module| {
        FieldId(m.units[unit.index()].fields.iter().position(|f| f.name.as_deref() == Some(name)).unwrap() as u32)
    };
    let read = |b: &Build, n: usize, name: &str, ty| {
        let f = field(layers[n].unit, name, &b.m);
        Expr::new(
            ty,
            ExprKind::Read(Path {
                root: Root::Local(LocalId(0)),
                steps: vec![Step::Field(layers[n].header), Step::Field(f)],
            }),
        )
    };
    let local = |name: &str, ty| Local { name: name.into(), ty, in_frame: false };
    let k = Expr::new(
        key,
        ExprKind::Make(vec![read(&b, 1, "src", u32t), read(&b, 1, "dst", u32t), read(&b, 2, "dst", u16t)]),
    );
    let get = |n, e: LocalId| Expr::new(u64t, ExprKind::Get(Expr::new(value, ExprKind::Local(e)), n));
    let one = b.int(64, 1);
    let len = Expr::new(u64t, ExprKind::Cast(Expr::new(u32t, ExprKind::FrameLen(LocalId(0)))));
    let (packets, bytes) = (b.bin(BinOp::Add, get(0, LocalId(1)), one), b.bin(BinOp::Add, get(1, LocalId(1)), len));
    let update = StmtKind::TableUpdate {
        table: TableId(0),
        key: k,
        entry: LocalId(1),
        place: PlaceId(1),
        body: vec![
            stmt(StmtKind::SetField(LocalId(1), vec![0], packets)),
            stmt(StmtKind::SetField(LocalId(1), vec![1], bytes)),
        ],
    };
    let act = |act| stmt(StmtKind::Frame { frame: LocalId(0), act });
    let one8 = b.int(8, 1);
    let ttl = b.bin(BinOp::Sub, read(&b, 1, "ttl", u8t), one8);
    let (address, hardware, zero) = (b.int(32, 0x0a00_0063), b.int(48, 0x0200_0000_0009), b.int(32, 0));
    let set = |b: &Build, n: usize, name: &str, value| {
        act(FrameAct::Set { layer: n as u32, field: field(layers[n].unit, name, &b.m), value })
    };
    let send = |port, last| act(FrameAct::Send { port: PortId(port), index: zero.clone(), mark: None, last });
    let block = vec![stmt(StmtKind::If {
        cond: p.udp_case.clone(),
        then: vec![
            stmt(update),
            set(&b, 1, "ttl", ttl),
            set(&b, 1, "dst", address),
            set(&b, 0, "dst", hardware),
            send(0, true),
        ],
        other: vec![],
    })];
    b.m.handlers.push(Handler {
        name: "wire".into(),
        span: Span::default(),
        on: On::Frame { port: PortId(0), unit: p.unit },
        segment: None,
        device: Default::default(),
        steps: 9,
        body: Body { locals: vec![local("p", msg), local("e", value)], block },
        plan: Default::default(),
    });
    // IP in IP, and a copy of the frame as it came.
    let emit = |b: &mut Build, bytes: u8, v: u128| {
        let e = b.int(bytes * 8, v);
        stmt(StmtKind::Emit(Emit::UInt { value: e, bytes, big: true }))
    };
    let outer: Vec<Stmt> =
        [(1, 0x45), (1, 0), (2, 0), (2, 0), (2, 0), (1, 64), (1, 4), (2, 0), (4, 0xc000_0201), (4, 0xc000_0202)]
            .into_iter()
            .map(|(n, v)| emit(&mut b, n, v))
            .collect();
    let outer = |place| FrameAct::Insert {
        before: Some(1),
        parts: vec![Part { unit: Some(layers[1].unit), body: outer.clone() }],
        max: 20,
        place,
    };
    let block = vec![stmt(StmtKind::If {
        cond: p.ip_case,
        then: vec![send(0, false), act(outer(PlaceId(1))), send(1, true)],
        other: vec![],
    })];
    b.m.handlers.push(Handler {
        name: "tunnel".into(),
        span: Span::default(),
        on: On::Frame { port: PortId(1), unit: p.unit },
        segment: None,
        device: Default::default(),
        steps: 9,
        body: Body { locals: vec![local("p", msg), local("e", entry)], block },
        plan: Default::default(),
    });
    // Behind all headers: which are there, only the frame tells.
    let trailer = vec![emit(&mut b, 2, 0x1234), emit(&mut b, 4, 0x5678_9abc)];
    let behind = act(FrameAct::Insert {
        before: None,
        parts: vec![Part { unit: None, body: trailer }],
        max: 6,
        place: PlaceId(1),
    });
    b.m.handlers.push(Handler {
        name: "behind".into(),
        span: Span::default(),
        on: On::Frame { port: PortId(2), unit: p.unit },
        segment: None,
        device: Default::default(),
        steps: 9,
        body: Body { locals: vec![local("p", msg)], block: vec![behind, send(2, true)] },
        plan: Default::default(),
    });
    let _ = mac;
    let problems = verify::verify(&b.m);
    assert!(problems.is_empty(), "{problems:?}");
    b.m
}

#[test]
fn headers_edits_tables_and_tunnels() {
    let m = module();
    assert_eq!(text::parse(&text::print(&m)).as_ref(), Ok(&m));
    let out = drive(&m, "frame", &[]);
    assert_eq!(out.trim(), "good");
}
