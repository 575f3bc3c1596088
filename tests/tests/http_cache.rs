//! `http_cache` before nginx and a scripted server, with curl and scripted clients. It is counted
//! how often the server is asked. Nothing may be put into the cache for others.

use std::process::Command;
use std::time::Duration;
use wireloom_tests::{admin, free_port, require_tool, servers, Backend, Client, Process, Wireloom};

fn cache(port: u16, sets: &[&str]) -> Process {
    let list = servers(&[port]);
    let mut args = vec!["--set", &list];
    sets.iter().for_each(|s| args.extend(["--set", s]));
    Wireloom::run("http_cache", &args)
}

fn get(target: &str, fields: &str) -> String {
    format!("GET {target} HTTP/1.1\r\nHost: a\r\n{fields}\r\n")
}

fn answer(fields: &str, body: &str) -> String {
    format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n{fields}\r\n{body}", body.len())
}

/// An answer's head and body, as they are.
fn read(c: &mut Client) -> (String, String) {
    let head = c.take_head();
    let length = head.split("content-length: ").nth(1).and_then(|l| l.split("\r\n").next());
    let n: usize = length.expect("a length").parse().expect("a number");
    (head, String::from_utf8_lossy(&c.take(n)).into_owned())
}

/// A server that takes one request after another on one connection.
struct Asked {
    server: Client,
}

impl Asked {
    fn by(backend: &Backend, reply: &str) -> Asked {
        let mut server = backend.accept();
        server.take_head();
        server.send(reply);
        Asked { server }
    }
}

#[test]
fn hits_come_from_the_cache_until_their_time_is_over() {
    let backend = Backend::new();
    let front = cache(backend.port, &["stale=0s"]);
    let mut client = Client::connect(front.port);
    client.send(get("/a", ""));
    let mut asked = Asked::by(&backend, &answer("Cache-Control: max-age=1\r\n", "one"));
    assert_eq!(read(&mut client).1, "one");
    client.send(get("/a", "").repeat(3));
    for _ in 0..3 {
        let (head, body) = read(&mut client);
        assert!(head.contains("age: 0\r\n") && body == "one", "{head}{body}");
    }
    client.send("HEAD /a HTTP/1.1\r\nHost: a\r\n\r\n");
    assert!(client.take_head().contains("content-length: 3\r\n"));
    std::thread::sleep(Duration::from_millis(1200));
    client.send(get("/a", ""));
    asked.server.take_head();
    asked.server.send(answer("Cache-Control: max-age=9\r\n", "two"));
    assert_eq!(read(&mut client).1, "two");
}

#[test]
fn one_request_for_many_clients_on_several_cores() {
    let backend = Backend::new();
    let list = servers(&[backend.port]);
    let front = Wireloom::run("http_cache", &["--set", &list, "--cores", "0-1"]);
    let mut clients: Vec<Client> = (0..40).map(|_| Client::connect(front.port)).collect();
    for c in &mut clients {
        c.send(get("/one", ""));
    }
    let mut server = backend.accept();
    server.take_head();
    std::thread::sleep(Duration::from_millis(300));
    server.send(answer("Cache-Control: max-age=60\r\n", "shared"));
    for c in &mut clients {
        assert_eq!(read(c).1, "shared");
    }
    server.expect_silence(Duration::from_millis(100));
    assert!(backend.accept_within(Duration::from_millis(100)).is_none(), "the server was asked again");
}

/// Those that wait look for the entry again and again, and must not wake each other.
#[test]
fn one_request_for_many_clients_of_a_slow_server() {
    let backend = Backend::new();
    let front = cache(backend.port, &[]);
    let mut clients: Vec<Client> = (0..40).map(|_| Client::connect(front.port)).collect();
    let mut first = Client::connect(front.port);
    first.send(get("/slow", ""));
    let mut server = backend.accept();
    server.take_head();
    for c in &mut clients {
        c.send(get("/slow", ""));
    }
    assert!(backend.accept_within(Duration::from_secs(4)).is_none(), "the server was asked again");
    server.send(answer("Cache-Control: max-age=60\r\n", "shared"));
    for c in clients.iter_mut().chain([&mut first]) {
        assert_eq!(read(c).1, "shared");
    }
    server.expect_silence(Duration::from_millis(100));
}

/// Chrome's fields; the answer does not depend on them. And an age that no number of seconds has.
#[test]
fn browsers_get_what_is_kept_and_the_old_is_not() {
    let accept = "Accept: text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,image/apng,\
                  */*;q=0.8,application/signed-exchange;v=b3;q=0.7\r\nAccept-Encoding: gzip, deflate, br, zstd\r\n";
    for (age, kept) in [("", true), ("Age: 18446744074\r\n", false), ("Age: 61\r\n", false)] {
        let backend = Backend::new();
        let front = cache(backend.port, &[]);
        let mut client = Client::connect(front.port);
        client.send(get("/b", accept));
        let mut asked = Asked::by(&backend, &answer(&format!("Cache-Control: max-age=60\r\n{age}"), "page"));
        assert_eq!(read(&mut client).1, "page");
        client.send(get("/b", accept));
        if !kept {
            asked.server.take_head();
            asked.server.send(answer("", "page"));
        }
        assert_eq!(read(&mut client).1, "page");
    }
}

/// Of an answer without a tag a client has nothing.
#[test]
fn only_the_tag_that_the_client_has_is_not_modified() {
    for (tag, has, same) in [("", "none", false), ("ETag:\r\n", "", false), ("ETag: \"a\"\r\n", "\"a\"", true)] {
        let backend = Backend::new();
        let front = cache(backend.port, &[]);
        let mut client = Client::connect(front.port);
        client.send(get("/t", ""));
        Asked::by(&backend, &answer(&format!("Cache-Control: max-age=60\r\n{tag}"), "body"));
        assert_eq!(read(&mut client).1, "body");
        for field in [format!("If-None-Match: {has}\r\n"), String::new()] {
            client.send(get("/t", &field));
            if same && !field.is_empty() {
                assert!(client.take_head().starts_with("http/1.1 304"));
            } else {
                assert_eq!(read(&mut client).1, "body", "{tag}{has}");
            }
        }
    }
}

#[test]
fn a_client_that_leaves_does_not_keep_the_others_waiting() {
    let backend = Backend::new();
    let front = cache(backend.port, &[]);
    let mut first = Client::connect(front.port);
    first.send(get("/x", ""));
    let mut server = backend.accept();
    server.take_head();
    let mut second = Client::connect(front.port);
    second.send(get("/x", ""));
    drop(server);
    // The lost fetch is answered with an error; the other client's request fetches anew.
    assert!(first.take_head().starts_with("http/1.1 502"));
    let mut server = backend.accept();
    server.take_head();
    server.send(answer("Cache-Control: max-age=60\r\n", "late"));
    assert_eq!(read(&mut second).1, "late");
}

#[test]
fn private_answers_stay_with_their_client() {
    for fields in [
        "Cache-Control: private, max-age=60\r\n",
        "Cache-Control: no-store\r\n",
        "Cache-Control: max-age=60\r\nSet-Cookie: id=1\r\n",
        "Cache-Control: max-age=60\r\nVary: *\r\n",
        "Cache-Control: max-age=60\r\nCache-Control: private\r\n",
        "Cache-Control: max-age=60\r\nAge: 60\r\n",
        "",
    ] {
        let backend = Backend::new();
        let front = cache(backend.port, &[]);
        let mut client = Client::connect(front.port);
        client.send(get("/p", ""));
        let mut asked = Asked::by(&backend, &answer(fields, "mine"));
        assert_eq!(read(&mut client).1, "mine");
        let mut other = Client::connect(front.port);
        other.send(get("/p", ""));
        asked.server.take_head();
        asked.server.send(answer(fields, "his"));
        assert_eq!(read(&mut other).1, "his", "{fields}");
    }
}

#[test]
fn requests_with_credentials_pass_whole() {
    let backend = Backend::new();
    let front = cache(backend.port, &["keep=60s"]);
    let mut client = Client::connect(front.port);
    for field in ["Authorization: Basic eDp5\r\n", "Cookie: id=1\r\n", "Range: bytes=0-1\r\n"] {
        client.send(get("/c", field));
        let mut server = backend.accept();
        assert!(server.take_head().contains(&field.to_lowercase()));
        server.send(answer("Cache-Control: max-age=60\r\nConnection: close\r\n", "own"));
        assert_eq!(read(&mut client).1, "own");
    }
    let mut other = Client::connect(front.port);
    other.send(get("/c", ""));
    let mut server = backend.accept();
    server.take_head();
    server.send(answer("", "all"));
    assert_eq!(read(&mut other).1, "all");
}

/// Fields that are not in the key do not come to the server, so they cannot change the answer of
/// others.
#[test]
fn what_is_not_in_the_key_does_not_reach_the_server() {
    let backend = Backend::new();
    let front = cache(backend.port, &["keep=60s"]);
    let mut client = Client::connect(front.port);
    client.send(get(
        "/k",
        "X-Forwarded-Host: evil\r\nX-Original-URL: /evil\r\nX-Forwarded-Scheme: nothttps\r\nForwarded: host=evil\r\n\
         User-Agent: evil\r\nReferer: evil\r\nX-Http-Method-Override: POST\r\nAccept-Language: de\r\n\
         Connection: accept-language\r\nIf-None-Match: \"evil\"\r\nPragma: no-cache\r\n",
    ));
    let mut server = backend.accept();
    let head = server.take_head();
    assert!(!head.contains("evil") && !head.contains("override") && !head.contains("nothttps"), "{head}");
    server.send(answer("Connection: x-hop\r\nX-Hop: 1\r\n", "clean"));
    assert_eq!(read(&mut client).1, "clean");
    let mut other = Client::connect(front.port);
    other.send(get("/k", ""));
    let (head, body) = read(&mut other);
    assert!(!head.contains("x-hop") && body == "clean", "{head}");
    // Another host and another target are other keys, whatever bytes they have.
    for request in ["GET /k HTTP/1.1\r\nHost: b\r\n\r\n", "GET /k?a HTTP/1.1\r\nHost: a\r\n\r\n"] {
        other.send(request);
        server.take_head();
        server.send(answer("", "other"));
        assert_eq!(read(&mut other).1, "other");
    }
}

#[test]
fn an_answer_for_each_value_of_vary() {
    let backend = Backend::new();
    let front = cache(backend.port, &["keep=60s"]);
    let mut client = Client::connect(front.port);
    let mut server = None;
    for (language, body) in [("de", "ja"), ("en", "yes")] {
        client.send(get("/v", &format!("Accept-Language: {language}\r\n")));
        let server = server.get_or_insert_with(|| backend.accept());
        server.take_head();
        server.send(answer("Vary: Accept-Language\r\n", body));
        assert_eq!(read(&mut client).1, body);
    }
    for (language, body) in [("de", "ja"), ("en", "yes"), ("de", "ja")] {
        client.send(get("/v", &format!("Accept-Language: {language}\r\n")));
        assert_eq!(read(&mut client).1, body);
    }
}

#[test]
fn long_bodies_stream_and_are_not_kept() {
    let backend = Backend::new();
    let front = cache(backend.port, &["keep=60s"]);
    let mut client = Client::connect(front.port);
    let long = "x".repeat(300 << 10);
    for _ in 0..2 {
        client.send(get("/long", ""));
        let mut server = backend.accept();
        server.take_head();
        server.send(answer("Connection: close\r\n", &long));
        assert_eq!(read(&mut client).1.len(), long.len());
    }
}

#[test]
fn old_answers_are_given_while_one_request_brings_the_new_one() {
    let backend = Backend::new();
    let front = cache(backend.port, &[]);
    let mut client = Client::connect(front.port);
    client.send(get("/s", ""));
    let mut asked = Asked::by(&backend, &answer("Cache-Control: max-age=1, stale-while-revalidate=30\r\n", "old"));
    assert_eq!(read(&mut client).1, "old");
    std::thread::sleep(Duration::from_millis(1200));
    let mut others: Vec<Client> = (0..10).map(|_| Client::connect(front.port)).collect();
    for c in &mut others {
        c.send(get("/s", ""));
        assert_eq!(read(c).1, "old");
    }
    asked.server.take_head();
    asked.server.expect_silence(Duration::from_millis(100));
    asked.server.send(answer("Cache-Control: max-age=30\r\n", "new"));
    std::thread::sleep(Duration::from_millis(200));
    client.send(get("/s", ""));
    assert_eq!(read(&mut client).1, "new");
}

#[test]
fn curl_through_the_cache_before_nginx_and_purge() {
    if !require_tool("curl") {
        return;
    }
    let nginx = Process::nginx(
        "location / { add_header Cache-Control max-age=60; return 200 \"$request_id\"; } \
         location /no { add_header Cache-Control no-store; return 200 \"$request_id\"; }",
    );
    let (list, page) = (servers(&[nginx.port]), free_port());
    let front = Wireloom::run("http_cache", &["--set", &list, "--admin", &page.to_string()]);
    let curl = |args: &[&str], target: &str| {
        let out = Command::new("curl")
            .args(["-s", "--max-time", "10"])
            .args(args)
            .arg(format!("http://127.0.0.1:{}{target}", front.port))
            .output()
            .expect("curl runs");
        String::from_utf8_lossy(&out.stdout).into_owned()
    };
    let first = curl(&[], "/a");
    assert_eq!(first.len(), 32, "{first}");
    for _ in 0..5 {
        assert_eq!(curl(&[], "/a"), first);
    }
    assert_eq!(curl(&["--http1.0"], "/a"), first);
    assert!(curl(&["-I"], "/a").to_lowercase().contains("content-length: 32"));
    assert_ne!(curl(&[], "/no"), curl(&[], "/no"));
    assert_ne!(curl(&["-H", "Authorization: Basic eDp5"], "/a"), first);
    let purged = admin::signal(page, &format!("http_cache/purge?host=127.0.0.1:{}&target=/a", front.port));
    assert!(purged.contains("true"), "{purged}");
    let second = curl(&[], "/a");
    assert_ne!(second, first);
    assert!(admin::signal(page, "http_cache/purge_all").contains("\"sum\":2"));
    assert_ne!(curl(&[], "/a"), second);
}

/// An answer in chunks that an HTTP/1.0 client has fetched is for all clients, and the other way
/// round.
#[test]
fn chunks_are_kept_for_clients_of_both_versions() {
    let backend = Backend::new();
    let front = cache(backend.port, &[]);
    let asks = |target: &str, minor: u8| {
        let mut client = Client::connect(front.port);
        client.send(format!("GET {target} HTTP/1.{minor}\r\nHost: a\r\n\r\n"));
        client
    };
    for (target, versions) in [("/old", [0, 1, 0]), ("/new", [1, 0, 1])] {
        let mut first = asks(target, versions[0]);
        let mut server = backend.accept();
        server.take_head();
        server.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nCache-Control: max-age=60\r\n\r\n");
        server.send("3\r\none\r\n0\r\n\r\n");
        first.take_head();
        first.take_until(b"one");
        // The server is asked no more.
        for minor in &versions[1..] {
            let mut again = asks(target, *minor);
            let (head, body) = read(&mut again);
            assert!(head.contains("age: 0\r\n") && body == "one", "{target}: {head}{body}");
        }
    }
}

/// RFC 9111 section 4.4: nginx changes its files by PUT and DELETE.
#[test]
fn writes_through_the_cache_are_seen_at_once() {
    if !require_tool("curl") {
        return;
    }
    let nginx = Process::nginx("location / { dav_methods PUT DELETE; add_header Cache-Control max-age=60 always; }");
    let front = cache(nginx.port, &[]);
    let curl = |args: &[&str], target: &str| {
        let url = format!("http://127.0.0.1:{}{target}", front.port);
        let out = Command::new("curl").args(["-s", "--max-time", "10"]).args(args).arg(url).output();
        String::from_utf8_lossy(&out.expect("curl runs").stdout).into_owned()
    };
    for text in ["one", "two", "three"] {
        curl(&["-X", "PUT", "--data-binary", text], "/page");
        for _ in 0..3 {
            assert_eq!(curl(&[], "/page"), text);
        }
    }
    curl(&["-X", "DELETE"], "/page");
    assert!(curl(&["-i"], "/page").starts_with("HTTP/1.1 404"));
}

/// An answer that was under way when its target was changed is not kept.
#[test]
fn a_write_while_its_target_is_fetched() {
    let backend = Backend::new();
    let front = cache(backend.port, &[]);
    let mut reader = Client::connect(front.port);
    reader.send(get("/a", ""));
    let mut fetch = backend.accept();
    fetch.take_head();
    let mut writer = Client::connect(front.port);
    writer.send("PUT /a HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nnew");
    Asked::by(&backend, &answer("Connection: close\r\n", "done"));
    assert_eq!(read(&mut writer).1, "done");
    fetch.send(answer("Cache-Control: max-age=60\r\n", "old"));
    assert_eq!(read(&mut reader).1, "old");
    reader.send(get("/a", ""));
    fetch.take_head();
    fetch.send(answer("Cache-Control: max-age=60\r\n", "new"));
    assert_eq!(read(&mut reader).1, "new");
}

/// A client has so many requests in a second, another one its own.
#[test]
fn a_client_that_asks_too_often_is_refused() {
    if !require_tool("wrk") || !require_tool("curl") {
        return;
    }
    let nginx = Process::nginx("location / { add_header Cache-Control max-age=60; return 200 page; }");
    let front = cache(nginx.port, &["per_second=100", "at_once=20"]);
    let url = format!("http://127.0.0.1:{}/", front.port);
    let out = Command::new("wrk").args(["-t1", "-c8", "-d1s", &url]).output().expect("wrk runs");
    let text = String::from_utf8_lossy(&out.stdout).into_owned();
    let number = |before: &str, after: &str| -> u64 {
        let line = text.lines().find(|l| l.contains(before) && l.contains(after)).unwrap_or("0");
        let word = line.split(|c: char| !c.is_ascii_digit()).find(|w| !w.is_empty());
        word.and_then(|w| w.parse().ok()).unwrap_or(0)
    };
    let all = number(" requests in ", "read");
    let refused: u64 = text
        .lines()
        .find_map(|l| l.split("Non-2xx or 3xx responses: ").nth(1))
        .and_then(|n| n.trim().parse().ok())
        .unwrap_or_else(|| panic!("{text}"));
    // On a busy machine its second may be longer.
    let given = all - refused;
    assert!(refused > 100 && (60..400).contains(&given), "{given} of {all}: {text}");
    let curl = |from: &str| {
        let args = ["-s", "-o", "/dev/null", "-w", "%{http_code}", "--max-time", "10", "--interface", from, &url];
        String::from_utf8_lossy(&Command::new("curl").args(args).output().expect("curl runs").stdout).into_owned()
    };
    assert_eq!(curl("127.0.0.2"), "200");
}
