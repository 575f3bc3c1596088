//! State that the whole compilation shares: modules, the IR module under construction, and the
//! results of resolved items.

use crate::apps::declarations::{Cache, CallSite, MessageQueue};
use crate::apps::scope::{AppScope, FunctionArg};
use crate::apps::test_names::TestNames;
use crate::apps::wire_ends::{Loop, Outlet, Pending};
use crate::items::{FieldSays, FnInfo, How, Item, ProtocolInfo, TableTy};
use crate::names::{self, ItemId, Meaning, ModId, Names};
use crate::ty::{self, Ty};
use crate::units::info::UnitInfo;
use crate::val::Vk;
use std::collections::{HashMap, HashSet};
use std::rc::Rc;
use wireloom_ir as ir;
use wireloom_syntax::ast::{self, ItemKind, Span};
use wireloom_syntax::{Diagnostic, SourceMap, World};

/// The walk is recursive, and a definition or function leads to the next: all levels together stay
/// within the stack.
const MAX_NESTING: u32 = 400;
/// The depth that a definition or function inside another one adds.
pub const DEFINITION: u32 = 4;
/// Types nest no deeper and have no more parts, records in records counted through: the backends
/// write types out.
const MAX_TYPE_DEPTH: u32 = 24;
const MAX_TYPE_PARTS: u32 = 1000;
/// A C compiler refuses arrays a little larger than this.
const MAX_TYPE_BYTES: u64 = 1 << 60;

/// How large a type is.
#[derive(Clone, Copy)]
pub struct TypeSize {
    depth: u32,
    /// Of the type and all in it.
    parts: u32,
    /// The most bytes of a value in any form, rounded up generously.
    bytes: u64,
}

/// So many unknown names are told with what was meant: all that is known is looked through for
/// each.
pub const HINTS: usize = 100;

/// The error has been reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reported;
pub type R<T> = Result<T, Reported>;

pub use crate::ty::{T_BOOL, T_U16, T_U32, T_U64, T_U8};

#[derive(Clone)]
pub struct Compiler<'a> {
    /// Type parameters stand for any type: an element is checked by itself.
    pub any_types: bool,
    /// Functions that elements were given.
    pub given: Vec<Rc<FunctionArg>>,
    pub world: &'a dyn World,
    pub map: &'a SourceMap,
    pub names: Names,
    pub diags: Vec<Diagnostic>,
    pub m: ir::Module,
    pub cache: HashMap<ItemId, Option<Item>>,
    /// Where something failed before anything was reported: see [`Compiler::must_be_told`].
    pub untold: Option<Span>,
    /// Items being resolved, for finding circles.
    pub busy: Vec<ItemId>,
    pub units: Vec<UnitInfo>,
    pub protocols: Vec<ProtocolInfo>,
    pub records: Vec<Vec<(String, Ty)>>,
    /// The clauses of records' fields.
    pub record_says: HashMap<(ir::RecordId, String), FieldSays>,
    pub tables: Vec<TableTy>,
    /// The caches of the app, and its calls and sends.
    pub caches: Vec<Rc<Cache>>,
    pub elements_in_c: Vec<ir::Module>,
    pub call_sites: Vec<CallSite>,
    /// While the signals of tables are made.
    pub signal_names: std::collections::HashSet<String>,
    /// Units made of records, and their byte order.
    pub record_units: HashMap<ir::UnitId, (ir::RecordId, bool)>,
    /// Enums whose values are text: the longest, and all in order of the variants.
    pub texts: HashMap<ir::EnumId, (u64, Vec<Vec<u8>>)>,
    pub fault_ids: HashMap<(ModId, String), ir::FaultKind>,
    place_ids: HashMap<ir::FaultPlace, ir::PlaceId>,
    /// Bytes of all `state` so far, and of all `session`.
    pub state_bytes: u64,
    pub session_bytes: u64,
    /// Unknown names so far.
    pub unknowns: usize,
    /// How deep the walk is in expressions, definitions and functions together: see
    /// [`MAX_NESTING`].
    pub nesting: u32,
    /// Calls that were replaced by the function's body.
    pub inlined: u32,
    /// Protocols and directions whose `forward` blocks have been lowered.
    pub forwarded: std::collections::HashSet<(ir::ProtocolId, bool)>,
    /// Elements so far.
    pub elements: u32,
    /// Elements of which instances are being made, for finding circles.
    pub making: Vec<ItemId>,
    pub message_queues: Vec<Rc<MessageQueue>>,
    /// The fields of the state of packets, by the element that declares them (None: the app).
    pub packet_fields: HashMap<(Option<ItemId>, String), (ir::PacketFieldId, Ty)>,
    /// Of each record, as of [`Compiler::measure`].
    pub record_sizes: Vec<TypeSize>,
    pub app: AppScope,
    /// The handler at hand, of a conversation, parses bytes.
    pub parses: bool,
    /// Constants of the app or element at hand are visible in constants.
    pub app_constants: bool,
    /// Ports back into the program.
    pub loops: Vec<Loop>,
    /// Wirings that begin at an instance: its name, the first node behind it, and the beginning.
    pub ways_apart: Vec<(String, Span, Span)>,
    /// Those of instances that other wirings go on behind: the first node, and the beginning.
    pub ways_in_doubt: Vec<(Span, Span)>,
    /// The first nodes behind ways out that something is sent to.
    pub ways_taken: std::collections::HashSet<Span>,
    /// Where the segments stand.
    pub segment_spans: Vec<ast::Span>,
    /// Queues that are said to be lossless, or not, and where.
    pub lossless: std::collections::BTreeMap<ir::PortId, (bool, ast::Span)>,
    /// The channels of queues that have some.
    pub channels: std::collections::BTreeMap<ir::PortId, Vec<ast::Ident>>,
    /// The inputs that packets are given to, lowered or still to be lowered.
    pub inputs: Vec<Pending>,
    /// Numbers of instances, by what is around them and what they are wired to.
    pub element_numbers: std::collections::HashMap<(u32, String), u32>,
    pub wire_ids: std::collections::HashMap<String, ir::WireId>,
    /// The packet types of frame ports.
    pub frame_units: Vec<ir::UnitId>,
    /// Where the ways out of the elements around lead, while a function of theirs is checked.
    pub around: Vec<Outlet>,
    /// The app as it is written.
    pub app_ast: Option<Rc<ast::Element>>,
    /// Ports whose clients' handles the app keeps.
    pub handle_ports: Vec<ast::Ident>,
    /// Ports whose handlers of pieces may change them, with the protocol.
    pub changing: std::collections::HashSet<(ir::PortId, ir::ProtocolId)>,
    /// Values that begin anew with each request.
    pub of_requests: Vec<(ir::SessionId, Ty)>,
    pub holds: crate::items::Holds,
    pub test_names: TestNames,
    /// The element whose statements are being made: see [`ir::Span::element`].
    pub element: u32,
}

impl<'a> Compiler<'a> {
    pub fn new(world: &'a dyn World, map: &'a SourceMap, names: Names) -> Self {
        let mut m = ir::Module::default();
        for t in [ir::Ty::Unit, ir::Ty::Bool, ir::Ty::UInt(8), ir::Ty::UInt(16), ir::Ty::UInt(32), ir::Ty::UInt(64)] {
            m.intern(t);
        }
        m.files = map.files().map(|(_, f)| f.shown()).collect();
        Compiler {
            world,
            map,
            names,
            diags: Vec::new(),
            untold: None,
            m,
            cache: HashMap::new(),
            busy: Vec::new(),
            units: Vec::new(),
            protocols: Vec::new(),
            records: Vec::new(),
            record_says: HashMap::new(),
            tables: Vec::new(),
            caches: Vec::new(),
            elements_in_c: Vec::new(),
            call_sites: Vec::new(),
            signal_names: Default::default(),
            record_units: HashMap::new(),
            texts: HashMap::new(),
            fault_ids: HashMap::new(),
            place_ids: HashMap::new(),
            state_bytes: 0,
            session_bytes: 0,
            unknowns: 0,
            nesting: 0,
            inlined: 0,
            forwarded: Default::default(),
            elements: 0,
            making: Vec::new(),
            packet_fields: HashMap::new(),
            message_queues: Vec::new(),
            record_sizes: Vec::new(),
            app: Default::default(),
            parses: false,
            app_constants: false,
            any_types: false,
            given: Vec::new(),
            loops: Vec::new(),
            ways_apart: Vec::new(),
            ways_in_doubt: Vec::new(),
            ways_taken: Default::default(),
            segment_spans: Vec::new(),
            lossless: Default::default(),
            channels: Default::default(),
            inputs: Vec::new(),
            element_numbers: Default::default(),
            wire_ids: Default::default(),
            frame_units: Vec::new(),
            around: Vec::new(),
            app_ast: None,
            handle_ports: Vec::new(),
            changing: Default::default(),
            of_requests: Vec::new(),
            holds: Default::default(),
            test_names: Default::default(),
            element: 0,
        }
    }

    pub fn report(&mut self, d: Diagnostic) -> Reported {
        self.diags.push(d);
        Reported
    }

    /// Something failed here, which leaves a part out. An error must have told so before.
    pub fn must_be_told(&mut self, span: Span) {
        if self.untold.is_none() && !self.diags.iter().any(Diagnostic::is_error) {
            self.untold = Some(span);
        }
    }

    /// The same for a result that is needed no more.
    pub fn settle<T>(&mut self, made: R<T>, span: Span) {
        if made.is_err() {
            self.must_be_told(span);
        }
    }

    /// A program with a part left out is refused, even if nothing has told about that part.
    pub fn refuse_untold(&mut self) {
        let Some(span) = self.untold.filter(|_| !self.diags.iter().any(Diagnostic::is_error)) else { return };
        self.report(
            Diagnostic::error("E0801", span, "internal error: the compiler cannot tell why this fails")
                .label("left out of the program")
                .hint("please report it; another form of this line may work"),
        );
    }

    pub fn error(&mut self, code: &'static str, span: Span, message: impl Into<String>) -> Reported {
        self.report(Diagnostic::error(code, span, message))
    }

    pub fn show(&self, t: &Ty) -> String {
        ty::show(t, &self.m)
    }

    /// The name of a unit or protocol, as the text of a module writes it.
    pub fn written<'n>(&self, module: ModId, name: &'n str) -> &'n str {
        let (Some((owner, own)), Some(here)) = (name.rsplit_once('.'), self.names.modules.get(module)) else {
            return name;
        };
        let at_home = here.name == owner && here.names.contains_key(own);
        let brought_in = |u: &names::Import| {
            u.item.as_deref() == Some(own) && self.names.modules.get(u.module).is_some_and(|m| m.name == owner)
        };
        if at_home || here.uses.iter().any(brought_in) {
            own
        } else {
            name
        }
    }

    /// A protocol as a handler's parameter names it: of a conversation with its direction.
    pub fn handled_as(&self, module: ModId, protocol: ir::ProtocolId, listens: bool) -> String {
        let name = self.written(module, &self.m.protocols[protocol.index()].name);
        match (self.is_session(protocol), listens) {
            (false, _) => format!("req: {name}"),
            (true, true) => format!("m: {name}.up"),
            (true, false) => format!("m: {name}.down"),
        }
    }

    pub fn lower_ty(&mut self, t: &Ty) -> ir::TyId {
        ty::lower(t, &mut self.m)
    }

    pub fn span(&self, s: Span) -> ir::Span {
        let p = self.map.position(s);
        ir::Span {
            file: s.file.0,
            start: s.start,
            end: s.end,
            line: p.line as u32,
            column: p.column as u32,
            element: self.element,
        }
    }

    pub fn place(&mut self, name: impl Into<String>, span: Span) -> ir::PlaceId {
        self.place_of(name.into(), span, None)
    }

    /// The place of a fault in the library. `call`: where the program has called it.
    pub fn place_of(&mut self, name: String, span: Span, call: Option<Span>) -> ir::PlaceId {
        let inside = ir::Span { element: 0, ..self.span(span) };
        let call = call.map(|c| ir::Span { element: 0, ..self.span(c) });
        let place = ir::FaultPlace { name, span: call.unwrap_or(inside), library: call.map(|_| inside) };
        let next = ir::PlaceId(self.m.places.len() as u32);
        let places = &mut self.m.places;
        *self.place_ids.entry(place.clone()).or_insert_with(|| {
            places.push(place);
            next
        })
    }

    /// Whether a module is one of the library.
    pub fn in_library(&self, module: ModId) -> bool {
        self.names.modules.get(module).is_some_and(|m| m.path.starts_with(self.world.std_root()))
    }

    /// Whether a file is one of the library.
    pub fn library_file(&self, span: Span) -> bool {
        self.map.file(span.file).is_some_and(|f| f.path.starts_with(self.world.std_root()))
    }

    /// Whether one more unknown name is told with what was meant.
    pub fn has_hints(&mut self) -> bool {
        self.unknowns += 1;
        self.unknowns <= HINTS
    }

    pub fn unknown(&mut self, module: ModId, name: &str, span: Span, what: &str, extra: &[String]) -> Reported {
        let d = Diagnostic::error("E0201", span, format!("unknown {what} `{name}`")).label("not known here");
        if !self.has_hints() {
            return self.report(d);
        }
        let known = self.names.known(module);
        let hint = names::suggest(name, known.iter().map(|k| &**k).chain(extra.iter().map(String::as_str)));
        let mut has: Vec<&str> = extra.iter().map(String::as_str).collect();
        has.sort_unstable();
        if let Some(note) = name.rsplit_once('.').and_then(|(m, _)| self.names.contents(module, m)) {
            return self.report(names::with_hint(d.note(note), hint));
        }
        if extra.is_empty() && self.app.get(name).is_some() {
            return self.report(
                d.note(format!("the app has a `{name}`, which functions and units outside of it do not see"))
                    .hint("give it to them as an argument, or put the function into the app"),
            );
        }
        if let Some(d) = self.is_module(module, name, what == "protocol", &d) {
            return self.report(d);
        }
        if let Some(hint) = self.foreign(module, name).or_else(|| self.beside(module, name, what)) {
            return self.report(d.hint(hint));
        }
        let d = if what == "port" && !has.is_empty() { d.note(format!("the app has: {}", has.join(", "))) } else { d };
        self.report(names::with_hint(d, hint))
    }

    /// The module beside this file that a protocol, or a name with a dot, may be from.
    fn beside(&self, module: ModId, name: &str, what: &str) -> Option<String> {
        let (first, dotted) = name.split_once('.').map_or((name, false), |(first, _)| (first, true));
        if !dotted && what != "protocol" {
            return None;
        }
        let own = &self.names.modules.get(module)?.path;
        let (file, taken) = self.world.resolve(own.parent()?, &[first])?;
        (taken == 1 && file != *own).then(|| format!("`use {first}` at the top of the file brings it in"))
    }

    /// The name here for a word of other languages, or for a module that is not used.
    fn foreign(&self, module: ModId, name: &str) -> Option<String> {
        let first = name.split('.').next().unwrap_or(name);
        let from = self.names.modules.get(module)?.path.parent()?;
        let std = ["std", first];
        if self.world.resolve(from, &std).is_some_and(|(_, taken)| taken == std.len()) {
            return Some(format!("`use std.{first}` at the top of the file brings it in"));
        }
        let word = match name {
            "null" | "nil" | "None" | "NULL" | "undefined" => "an option without a value is `none`",
            "int" | "uint" | "integer" | "usize" | "isize" | "size_t" | "long" => {
                "integers are `u8` to `u64`, `u128` and `i8` to `i64`"
            }
            "string" | "String" | "str" | "char" => "text is `bytes<N>`, where N is its largest size",
            "float" | "double" | "f32" | "f64" => "there are no fractions: count in a smaller unit",
            "drop" => "a packet is dropped by `drop p`, or at the end of a wiring",
            "filter" | "Filter" => "`where c` passes messages for which c holds",
            "map" | "dict" | "HashMap" => "keyed state is a table: `table t: K -> V { capacity 10K }`",
            "substr" | "substring" => "a part of bytes is `slice(b, from, to)`",
            "strlen" | "length" | "sizeof" => "the number of bytes or items is `len(x)`",
            "print" | "println" | "printf" | "console" => "`log \"text\", x` writes a line",
            "log" => "write `log \"text\", x`, without parentheses",
            "expect" => "write `expect a == b`, without parentheses",
            "reply" | "fault" | "close" | "remove" | "append" | "update" | "insert" | "forget" | "hold" | "release" => {
                return Some(format!("`{name} …` is a statement: write it without parentheses"))
            }
            _ if is_sized(name, "le") => {
                "the order of a number stands behind it: `u16 little`; `order little` is for all"
            }
            _ if is_sized(name, "be") => "the order of a number stands behind it: `u16 big`; `order big` is for all",
            _ if is_sized(name, "_t") => "integers are `u8` to `u64`, `u128` and `i8` to `i64`",
            "record" => "a record without a name is built as `{ field: value }`, where its type is known",
            "while" | "boolean" => {
                return Some(format!("write `{}`", if name == "while" { "loop max N" } else { "bool" }))
            }
            _ => return None,
        };
        Some(word.to_string())
    }

    /// The item that a path names as a whole.
    pub fn path_item(&mut self, module: ModId, path: &ast::Path, what: &str) -> R<ItemId> {
        if let Some(Meaning::Item(id)) = self.type_name(module, path).transpose()? {
            return Ok(id);
        }
        let parts: Vec<&str> = path.parts.iter().map(|p| p.name.as_str()).collect();
        match self.names.find(module, &parts) {
            Some((Meaning::Item(id), n)) if n == parts.len() => Ok(id),
            _ => Err(self.unknown(module, &parts.join("."), path.span, what, &[])),
        }
    }

    /// The kind of a fault that is raised, by name: the module's own (or used) ones, then the
    /// built-in ones.
    pub fn fault_kind(&mut self, module: ModId, name: &ast::Ident) -> R<ir::FaultKind> {
        match self.find_fault(module, &name.name) {
            Some(k) if k.can_be_raised() => Ok(k),
            Some(_) => {
                let d = Diagnostic::error("E0665", name.span, format!("`{}` is no fault of a program", name.name));
                let hint = "it only says why a connection has ended; declare a kind of your own: `fault name`";
                Err(self.report(d.label("no program raises it").hint(hint)))
            }
            None => {
                let raised = BUILTIN_FAULTS.iter().filter(|(_, k)| k.can_be_raised());
                let builtin: Vec<String> = raised.map(|(n, _)| n.to_string()).collect();
                Err(self.unknown(module, &name.name, name.span, "fault kind", &builtin))
            }
        }
    }

    pub fn find_fault(&mut self, module: ModId, name: &str) -> Option<ir::FaultKind> {
        if let Some((Meaning::Item(id), 1)) = self.names.find(module, &[name]) {
            if let ItemKind::Fault(_) = self.names.items[id].item.kind {
                return Some(self.user_fault(id, name));
            }
        }
        BUILTIN_FAULTS.iter().find(|(n, _)| *n == name).map(|(_, k)| *k)
    }

    pub fn user_fault(&mut self, declared: ItemId, name: &str) -> ir::FaultKind {
        let next = ir::FaultKind(ir::FaultKind::USER + self.m.faults.len() as u16);
        let (m, by) = (&mut self.m, &self.names.items[declared]);
        *self.fault_ids.entry((by.module, name.to_string())).or_insert_with(|| {
            m.faults.push(ir::OwnFault { name: name.to_string(), doc: by.item.doc.clone() });
            next
        })
    }

    /// An item, resolved at its first use.
    pub fn item(&mut self, id: ItemId, at: Span) -> R<Item> {
        if let Some(found) = self.cache.get(&id) {
            return found.clone().ok_or(Reported);
        }
        if self.busy.contains(&id) {
            let name = item_name(&self.names.items[id].item).unwrap_or("this");
            let d = Diagnostic::error("E0501", at, format!("`{name}` is defined by itself"))
                .label("the circle closes here")
                .also(self.names.items[id].item.span, "in the definition of this")
                .hint("every definition must end in something known");
            return Err(self.report(d));
        }
        self.busy.push(id);
        // Items do not see the names of the app that uses them.
        let visible = std::mem::replace(&mut self.app_constants, false);
        let found = self.within(at, DEFINITION, |cx| cx.resolve_item(id));
        self.app_constants = visible;
        self.busy.pop();
        self.settle(found.clone(), at);
        self.cache.insert(id, found.clone().ok());
        found
    }

    /// Runs `f` some levels deeper; refuses what would exhaust the stack.
    pub fn within<T>(&mut self, span: Span, levels: u32, f: impl FnOnce(&mut Self) -> R<T>) -> R<T> {
        self.descend(span, levels)?;
        let r = f(self);
        self.nesting -= levels;
        r
    }

    pub fn descend(&mut self, span: Span, levels: u32) -> R<()> {
        if self.nesting + levels > MAX_NESTING {
            let d = Diagnostic::error("E0504", span, "this is nested too deeply")
                .note("definitions that need each other, functions and expressions count together");
            return Err(
                self.report(d.hint("split it with functions or `let`, and let definitions build on fewer others"))
            );
        }
        self.nesting += levels;
        Ok(())
    }

    /// Depth and number of parts of a type, the records in it counted through.
    fn measure(&self, t: &Ty) -> TypeSize {
        let own = TypeSize { depth: 1, parts: 1, bytes: 24 };
        if let Ty::Record(r) = t {
            return self.record_sizes.get(r.index()).copied().unwrap_or(own);
        }
        let mut all = own;
        for part in t.parts().unwrap_or(&[]).iter().map(|t| self.measure(t)) {
            all.depth = all.depth.max(part.depth + 1);
            all.parts = all.parts.saturating_add(part.parts);
            all.bytes = all.bytes.saturating_add(part.bytes);
        }
        if let Ty::Bytes(n) = t {
            all.bytes = all.bytes.saturating_add(*n)
        }
        if let Ty::List(_, n) = t {
            all.bytes = all.bytes.saturating_mul(u64::from(*n))
        }
        all
    }

    /// The type, unless it is so large that programs could not be written with it.
    pub fn measured(&mut self, t: Ty, span: Span) -> R<Ty> {
        let TypeSize { depth, parts, bytes } = self.measure(&t);
        if depth <= MAX_TYPE_DEPTH && parts <= MAX_TYPE_PARTS {
            if bytes <= MAX_TYPE_BYTES {
                return Ok(t);
            }
            let d = Diagnostic::error("E0512", span, "the values of this type are too large")
                .note("a value of it may take more than 1 EiB, and the limit is 1 EiB");
            return Err(self.report(d.hint("bound its lists: their maxima are multiplied where lists hold lists")));
        }
        let (what, limit, found) =
            if depth > MAX_TYPE_DEPTH { ("levels", MAX_TYPE_DEPTH, depth) } else { ("parts", MAX_TYPE_PARTS, parts) };
        let d = Diagnostic::error("E0512", span, format!("this type has too many {what}"))
            .note(format!("it has {found} {what}, and the limit is {limit}"));
        Err(self.report(d.hint("keep less in one value: a table, or several variables")))
    }

    fn resolve_item(&mut self, id: ItemId) -> R<Item> {
        let module = self.names.items[id].module;
        let item = self.names.items[id].item.clone();
        match &item.kind {
            ItemKind::Use(_) | ItemKind::Test(_) => Err(Reported),
            ItemKind::Const { ty, value, .. } => self.const_item(module, ty.as_ref(), value).map(Item::Const),
            ItemKind::Charset { value, .. } => self.charset(module, value).map(Item::Charset),
            ItemKind::Alias { ty, .. } => self.ty(module, ty).map(Item::Alias),
            ItemKind::Fault(names) => {
                let kinds: Vec<_> = names.iter().map(|n| self.user_fault(module, &n.name)).collect();
                kinds.first().map(|_| Item::Fault).ok_or(Reported)
            }
            ItemKind::Enum { name, base, variants, open } => {
                self.enum_item(module, name, base.as_ref(), variants, *open).map(Item::Enum)
            }
            ItemKind::Record { name, fields } => {
                let types =
                    fields.iter().map(|f| Ok((f.name.clone(), self.ty(module, &f.ty)?))).collect::<R<Vec<_>>>()?;
                let record = self.record(&name.name, types, name.span)?;
                let wrong = fields.iter().filter(|f| self.field_says(module, record, f).is_err()).count();
                if wrong == 0 {
                    Ok(Item::Record(record))
                } else {
                    Err(Reported)
                }
            }
            ItemKind::Unit(u) => self.unit_item(module, u, &item.doc).map(Item::Unit),
            ItemKind::Packet(p) => self.packet_item(module, p, &item.doc).map(Item::Unit),
            ItemKind::Protocol(p) => self.protocol_item(module, p, &item).map(Item::Protocol),
            ItemKind::Fn(f) => self.fn_info(module, f, false).map(Item::Fn),
            ItemKind::Table(t) => self.table(module, t).map(Item::Table),
            ItemKind::App(_) => Ok(Item::App),
            ItemKind::Element(_) => Ok(Item::Element),
        }
    }

    pub fn fn_info(&mut self, module: ModId, f: &ast::Fn, in_app: bool) -> R<Rc<FnInfo>> {
        self.distinct(f.params.iter().map(|p| &p.name))?;
        let params = f.params.iter().map(|p| Ok((p.name.clone(), self.ty(module, &p.ty)?))).collect::<R<Vec<_>>>()?;
        let ret = match &f.ret {
            Some(t) => self.ty(module, t)?,
            None => Ty::Unit,
        };
        Ok(Rc::new(FnInfo {
            name: f.name.name.clone(),
            module,
            in_app,
            ast: f.clone(),
            params,
            ret,
            how: How::Unseen.into(),
        }))
    }

    /// Names that are bound together: each once, but for `_`.
    pub fn distinct<'n>(&mut self, names: impl Iterator<Item = &'n ast::Ident>) -> R<()> {
        let mut seen: HashMap<&str, Span> = HashMap::new();
        for n in names.filter(|n| n.name != "_") {
            if let Some(first) = seen.insert(&n.name, n.span) {
                let d = Diagnostic::error("E0203", n.span, format!("`{}` is bound twice", n.name))
                    .label("bound again here");
                return Err(self.report(d.also(first, "first bound here").hint("rename one of them, or write `_`")));
            }
        }
        Ok(())
    }

    /// Each option stands once. Of options that exclude each other one stands.
    pub fn options_once<'n>(&mut self, names: impl Iterator<Item = &'n ast::Ident>) {
        const ONE_OF: [[&str; 3]; 3] =
            [["evict", "reject", "lru"], ["lossless", "lossy", "lossy"], ["idle", "expire", "expire"]];
        let slot = |n: &'n str| ONE_OF.iter().find(|set| set.contains(&n)).map_or(n, |set| set[0]);
        let mut seen: HashMap<&str, &ast::Ident> = HashMap::new();
        for n in names {
            let Some(first) = seen.insert(slot(&n.name), n) else { continue };
            let text = match first.name == n.name {
                true => format!("`{}` is given twice", n.name),
                false => format!("`{}` and `{}` exclude each other", first.name, n.name),
            };
            self.report(Diagnostic::error("E0203", n.span, text).label("given here").also(first.span, "and here"));
        }
    }

    pub fn record(&mut self, name: &str, fields: Vec<(ast::Ident, Ty)>, span: Span) -> R<ir::RecordId> {
        let mut seen: Vec<(String, Ty)> = Vec::new();
        for (f, t) in fields {
            if seen.iter().any(|(n, _)| *n == f.name) {
                self.error("E0203", f.span, format!("`{}` is defined twice", f.name));
                continue;
            }
            let t = self.kept(t);
            if !t.is_plain() {
                let shown = self.show(&t);
                self.error("E0301", f.span, format!("a record cannot hold {shown}"));
            }
            seen.push((f.name, t));
        }
        let whole = Ty::Tuple(seen.iter().map(|(_, t)| t.clone()).collect());
        let size = self.measure(&whole);
        self.measured(whole, span)?;
        self.record_sizes.push(size);
        let lowered = seen.iter().map(|(n, t)| (n.clone(), ty::lower(t, &mut self.m))).collect();
        self.m.records.push(ir::Record { name: name.to_string(), fields: lowered });
        self.records.push(seen);
        Ok(ir::RecordId(self.m.records.len() as u32 - 1))
    }

    /// The value of a record's field where it is left out, if that is not zero, empty or none. Then
    /// the values that are accepted from outside.
    fn field_says(&mut self, module: ModId, record: ir::RecordId, f: &ast::Param) -> R<()> {
        let Some((_, ty)) = self.records[record.index()].iter().find(|(n, _)| *n == f.name.name).cloned() else {
            return Ok(());
        };
        let mut says = FieldSays::default();
        if let Some(e) = &f.within {
            if !matches!(ty, Ty::Int { signed: false, bits } if bits <= 64) {
                let shown = self.show(&ty);
                return Err(self.error("E0301", e.span, format!("`in` is for unsigned integers, and this is {shown}")));
            }
            says.within = self.ranges(module, e, &ty)?;
        }
        if let Some(e) = &f.default {
            let Vk::Pure(value) = self.constant(module, e, Some(&ty))?.kind else { return Err(Reported) };
            let outside = crate::ir_builder::as_int(&value)
                .is_some_and(|n| !says.within.iter().any(|(a, b)| (u128::from(*a)..=u128::from(*b)).contains(&n)));
            if outside && !says.within.is_empty() {
                return Err(self.error("E0304", e.span, "the default is outside of the values of `in`"));
            }
            says.default = Some(value);
        }
        self.record_says.insert((record, f.name.name.clone()), says);
        Ok(())
    }

    fn enum_item(
        &mut self,
        module: ModId,
        name: &ast::Ident,
        base: Option<&ast::Type>,
        variants: &[ast::Variant],
        open: bool,
    ) -> R<ir::EnumId> {
        if variants.is_empty() && !open {
            let d = Diagnostic::error("E0316", name.span, format!("`{}` has no variants", name.name));
            return Err(self.report(d.label("has no value").hint("name its values, or write `_` for any other value")));
        }
        if let Some(t) = base {
            if let Ty::Bytes(max) = self.ty(module, t)? {
                return self.text_enum(module, name, max, variants, open);
            }
        }
        let mut next = 0u64;
        let mut list: Vec<(String, u64)> = Vec::new();
        // By name, and whose each value is.
        let (mut names, mut values): (HashSet<&str>, HashMap<u64, &str>) = Default::default();
        for v in variants {
            let value = match &v.value {
                Some(e) if matches!(&*e.kind, ast::ExprKind::Unary(ast::UnOp::Neg, _)) => {
                    return Err(self.error("E0304", e.span, "an enum has no values below zero"));
                }
                Some(e) => self.const_u64(module, e)?,
                None => next,
            };
            if !names.insert(&v.name.name) {
                self.error("E0203", v.name.span, format!("`{}` is defined twice", v.name.name));
            }
            if let Some(other) = values.get(&value) {
                let text = format!("`{}` has the value of `{other}`: {value}", v.name.name);
                self.error("E0203", v.name.span, text);
            }
            values.entry(value).or_insert(&v.name.name);
            list.push((v.name.name.clone(), value));
            next = value.wrapping_add(1);
        }
        let top = list.iter().map(|(_, v)| *v).max().unwrap_or(0);
        let bits = match base.map(|t| (t, self.ty(module, t))) {
            None => {
                if top > 0xffff {
                    32
                } else if top > 0xff {
                    16
                } else {
                    8
                }
            }
            Some((_, Ok(Ty::Int { bits, signed: false }))) => bits.min(64),
            Some((t, Ok(_))) => return Err(self.error("E0301", t.span, "an enum's base is an unsigned integer")),
            Some((_, Err(r))) => return Err(r),
        };
        if bits < 64 && top >> bits != 0 {
            self.error("E0304", name.span, format!("the value {top} does not fit into u{bits}"));
        }
        self.m.enums.push(ir::Enum { name: name.name.clone(), bits, open, variants: list });
        Ok(ir::EnumId(self.m.enums.len() as u32 - 1))
    }
}

impl Compiler<'_> {
    /// `enum Method: bytes<16> { get = "GET", put = "PUT", _ }`: on the wire its text, else a
    /// number by position; 255 is any other text.
    fn text_enum(
        &mut self,
        module: ModId,
        name: &ast::Ident,
        max: u64,
        variants: &[ast::Variant],
        open: bool,
    ) -> R<ir::EnumId> {
        if variants.len() > 255 {
            return Err(self.error("E0304", name.span, "an enum of text has at most 255 variants"));
        }
        let (mut list, mut texts): (Vec<(String, u64)>, Vec<Vec<u8>>) = (vec![], vec![]);
        for v in variants {
            let text = match &v.value {
                None => v.name.name.clone().into_bytes(),
                Some(e) => {
                    let made = self.constant(module, e, Some(&Ty::Bytes(max)))?.kind.into_pure().ok_or(Reported)?;
                    let ir::ExprKind::Bytes(b) = *made.kind else { return Err(Reported) };
                    b
                }
            };
            if list.iter().any(|(n, _)| *n == v.name.name) || texts.contains(&text) {
                self.error("E0203", v.name.span, format!("`{}` is defined twice", v.name.name));
                continue;
            }
            if text.is_empty() || text.len() as u64 > max {
                self.error("E0302", v.name.span, format!("a value has 1 to {max} bytes"));
            }
            list.push((v.name.name.clone(), list.len() as u64));
            texts.push(text);
        }
        let id = ir::EnumId(self.m.enums.len() as u32);
        self.m.enums.push(ir::Enum { name: name.name.clone(), bits: 8, open, variants: list });
        self.texts.insert(id, (max, texts));
        Ok(id)
    }
}

pub fn item_name(item: &ast::Item) -> Option<&str> {
    Some(match &item.kind {
        ItemKind::Const { name, .. }
        | ItemKind::Charset { name, .. }
        | ItemKind::Alias { name, .. }
        | ItemKind::Enum { name, .. }
        | ItemKind::Record { name, .. } => &name.name,
        ItemKind::Unit(u) => &u.name.name,
        ItemKind::Packet(p) => &p.name.name,
        ItemKind::Protocol(p) => &p.name.name,
        ItemKind::Fn(f) => &f.name.name,
        ItemKind::Element(e) | ItemKind::App(e) => &e.name.name,
        ItemKind::Table(t) => &t.name.name,
        ItemKind::Use(_) | ItemKind::Fault(_) | ItemKind::Test(_) => return None,
    })
}

/// `u16le`, `le16`, `uint16_t`: an integer's type, as other languages write it.
fn is_sized(name: &str, mark: &str) -> bool {
    let Some(rest) = name.strip_suffix(mark).or_else(|| name.strip_prefix(mark)) else { return false };
    let digits = rest.trim_start_matches(|c: char| c.is_ascii_lowercase());
    let word = &rest[..rest.len() - digits.len()];
    digits.parse::<u8>().is_ok() && matches!(word, "" | "u" | "i" | "s" | "int" | "uint")
}

pub const BUILTIN_FAULTS: &[(&str, ir::FaultKind)] = &[
    ("malformed", ir::FaultKind::MALFORMED),
    ("too_long", ir::FaultKind::TOO_LONG),
    ("truncated", ir::FaultKind::TRUNCATED),
    ("constraint", ir::FaultKind::CONSTRAINT),
    ("index", ir::FaultKind::INDEX),
    ("division", ir::FaultKind::DIVISION),
    ("none_value", ir::FaultKind::NONE_VALUE),
    ("lost", ir::FaultKind::LOST),
    ("refused", ir::FaultKind::REFUSED),
    ("timeout", ir::FaultKind::TIMEOUT),
    ("bad_reply", ir::FaultKind::BAD_REPLY),
    ("overload", ir::FaultKind::OVERLOAD),
    ("idle", ir::FaultKind::IDLE),
    ("full", ir::FaultKind::FULL),
    ("cancelled", ir::FaultKind::CANCELLED),
    ("early", ir::FaultKind::EARLY),
    ("unspoken", ir::FaultKind::UNSPOKEN),
    ("no_reply", ir::FaultKind::NO_REPLY),
    ("internal", ir::FaultKind::INTERNAL),
    ("shutdown", ir::FaultKind::SHUTDOWN),
    ("ended", ir::FaultKind::ENDED),
];
