//! Messages that end with the connection (`to end`, `until close`): the end is passed on as it is,
//! in both directions.

use wireloom_tests::folder::Folder;
use wireloom_tests::{servers, Backend, Client, Process, Wireloom};

/// A proxy for a protocol of such messages.
fn proxy(folder: &Folder, name: &str, sharing: &str, units: &str, backend: &Backend) -> Process {
    let app = format!(
        "{units}
protocol p {{ stateless  request Request  response Response  sharing {sharing} }}
app passes {{
    param port:    u16 = 7000
    param servers: list<endpoint, 4>
    port client  = listen  tcp(port)    as p
    port backend = connect tcp(servers) as p
    on client(req) {{ reply call backend[0](req) }}
}}
"
    );
    let file = folder.name_of(&format!("{name}.loom"));
    std::fs::write(&file, app).expect("the folder is writable");
    Wireloom::run_file(&file, &["--set", &servers(&[backend.port])], |_| {})
}

#[test]
fn an_answer_until_the_end_ends_the_clients_connection() {
    let folder = Folder::new("until_end");
    let ways = [
        ("short", "unit Response { tag: u8  rest: bytes<20> to end }"),
        ("long", "unit Response { tag: u8  rest: bytes<64KiB> to end }"),
        ("list", "unit Response { tag: u8  rest: list<u8, 20> to end }"),
        ("behind", "unit Response { tag: u8  data: stream bytes [2]  rest: bytes<20> to end }"),
        ("stream", "unit Response { tag: u8  rest: stream bytes until close }"),
    ];
    for (name, response) in ways {
        let backend = Backend::new();
        let proxy = proxy(&folder, name, "exclusive", &format!("unit Request {{ n: u8 }}\n{response}"), &backend);
        let mut client = Client::connect(proxy.port);
        client.send(b"1");
        let mut server = backend.accept();
        server.expect(b"1");
        server.send(b"thello");
        drop(server);
        assert_eq!(client.rest(), b"thello", "{name}");
    }
}

#[test]
fn a_request_until_the_end_ends_there_for_the_backend() {
    let folder = Folder::new("until_end_requests");
    let ways = [
        ("short", "unit Request { tag: u8  rest: bytes<20> to end }"),
        ("long", "unit Request { tag: u8  rest: bytes<64KiB> to end }"),
        ("behind", "unit Request { tag: u8  data: stream bytes [2]  rest: list<u8, 20> to end }"),
        ("stream", "unit Request { tag: u8  rest: stream bytes until close }"),
    ];
    for (name, request) in ways {
        let backend = Backend::new();
        let proxy = proxy(&folder, name, "exclusive", &format!("{request}\nunit Response {{ n: u8 }}"), &backend);
        // The second one needs a connection of its own.
        for _ in 0..2 {
            let mut client = Client::connect(proxy.port);
            client.send(b"qhello").finish_sending();
            let mut server = backend.accept();
            assert_eq!(server.rest(), b"qhello", "{name}");
            server.send(b"1");
            assert_eq!(client.rest(), b"1", "{name}");
        }
    }
}

/// On a shared connection nothing can come behind such a request: it is refused.
#[test]
fn a_request_until_the_end_cannot_share() {
    let folder = Folder::new("until_end_shared");
    let backend = Backend::new();
    let units = "unit Request { tag: u8  rest: bytes<20> to end }\nunit Response { n: u8 }";
    let proxy = proxy(&folder, "shared", "pipelined", units, &backend);
    let mut client = Client::connect(proxy.port);
    client.send(b"qhello").finish_sending();
    assert_eq!(client.rest(), b"");
    assert!(backend.accept_now().is_none());
}
