//! One request to the admin page (RFC 9112): `httparse` reads it; its target and its origin are
//! checked.
//!
//! A web page in a browser on this machine can send requests here. So `Host` must name this page;
//! else another name could resolve to it (DNS rebinding). A foreign `Origin` is refused. A request
//! that changes state must be a POST of JSON, which a page of another origin cannot send without a
//! preflight.

use std::net::IpAddr;

/// The largest head, in bytes.
const HEAD_MAX: usize = 8192;
/// The most header fields.
const FIELDS_MAX: usize = 64;
/// The largest body, in bytes.
const BODY_MAX: usize = 64 << 10;

/// A whole request.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Request {
    pub method: String,
    pub target: String,
    pub body: Vec<u8>,
}

/// The answer to a refused request: a status line and the reason.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Refusal(pub &'static str, pub &'static str);

const BAD: &str = "400 Bad Request";
const NOT_A_REQUEST: &str = "the request line is not METHOD /PATH HTTP/1.1";
const TOO_LARGE: &str = "431 Request Header Fields Too Large";
const FORBIDDEN: &str = "403 Forbidden";

/// Names of this page: its address, `localhost`, and the names of `--admin-host`.
pub(super) struct Names<'a> {
    /// The address that the client has connected to.
    pub own: IpAddr,
    pub given: &'a [String],
}

impl Names<'_> {
    /// `host` or `host:port`. The port is not compared: it may have been forwarded.
    fn has(&self, authority: &str) -> bool {
        let host = match authority.rsplit_once(':') {
            Some((host, port))
                if port.bytes().all(|b| b.is_ascii_digit()) && (!host.contains(':') || host.ends_with(']')) =>
            {
                host
            }
            _ => authority,
        };
        let bare = host.strip_prefix('[').and_then(|h| h.strip_suffix(']')).unwrap_or(host);
        match bare.parse::<IpAddr>() {
            Ok(ip) => ip.to_canonical() == self.own.to_canonical(),
            Err(_) => host.eq_ignore_ascii_case("localhost") || self.given.iter().any(|n| n.eq_ignore_ascii_case(host)),
        }
    }
}

/// Reads a request from the input so far; None: incomplete.
pub(super) fn read(bytes: &[u8], names: &Names) -> Result<Option<Request>, Refusal> {
    let window = &bytes[..bytes.len().min(HEAD_MAX)];
    let mut fields = [httparse::EMPTY_HEADER; FIELDS_MAX];
    let mut head = httparse::Request::new(&mut fields);
    let end = match head.parse(window) {
        Ok(httparse::Status::Complete(end)) => end,
        Ok(httparse::Status::Partial) if bytes.len() < HEAD_MAX => return Ok(None),
        Ok(httparse::Status::Partial) => return Err(Refusal(TOO_LARGE, "a head has at most 8192 bytes")),
        Err(httparse::Error::TooManyHeaders) => return Err(Refusal(TOO_LARGE, "a head has at most 64 fields")),
        Err(httparse::Error::HeaderName) => return Err(Refusal(BAD, "a header field is not NAME: VALUE")),
        Err(httparse::Error::HeaderValue) => return Err(Refusal(BAD, "a header field has forbidden bytes")),
        Err(httparse::Error::NewLine | httparse::Error::Status | httparse::Error::Token | httparse::Error::Version) => {
            return Err(Refusal(BAD, NOT_A_REQUEST))
        }
    };
    let (Some(method), Some(target), Some(minor)) = (head.method, head.path, head.version) else {
        return Err(Refusal(BAD, NOT_A_REQUEST));
    };
    if !target.starts_with('/') {
        return Err(Refusal(BAD, NOT_A_REQUEST));
    }
    let fields = HeaderFields(head.headers);
    asked_for(&fields, minor, names)?;
    let length = body_length(&fields)?;
    if method == "POST" && !fields.one("content-type")?.is_some_and(is_json) {
        return Err(Refusal("415 Unsupported Media Type", "a POST has Content-Type: application/json"));
    }
    match bytes[end..].get(..length) {
        Some(body) => Ok(Some(Request { method: method.into(), target: target.into(), body: body.to_vec() })),
        None => Ok(None),
    }
}

/// Checks that the request names this page by `Host`, and has no `Origin` but its own.
fn asked_for(fields: &HeaderFields, minor: u8, names: &Names) -> Result<(), Refusal> {
    let asked = fields.one("host")?;
    match asked {
        Some(host) if names.has(host) => {}
        Some(_) => {
            return Err(Refusal(
                FORBIDDEN,
                "Host is no name or address of this page; --admin-host NAME gives it a name",
            ))
        }
        // Of old clients, which are no browsers.
        None if minor == 0 => {}
        None => return Err(Refusal(BAD, "Host is missing")),
    }
    // An origin is scheme, host and port (RFC 6454, 4): another port of this host is another one.
    let own = |authority: &str| names.has(authority) && asked.is_none_or(|host| same_authority(authority, host));
    let foreign = |origin: &str| !origin.strip_prefix("http://").is_some_and(own);
    if fields.one("origin")?.is_some_and(foreign) {
        return Err(Refusal(FORBIDDEN, "a page of another origin may not ask"));
    }
    Ok(())
}

/// Whether two are one host and port of `http`.
fn same_authority(a: &str, b: &str) -> bool {
    let plain = |text: &str| text.strip_suffix(":80").unwrap_or(text).to_ascii_lowercase();
    plain(a) == plain(b)
}

fn body_length(fields: &HeaderFields) -> Result<usize, Refusal> {
    if fields.one("transfer-encoding")?.is_some() {
        return Err(Refusal("411 Length Required", "a body needs a Content-Length"));
    }
    let Some(text) = fields.one("content-length")? else { return Ok(0) };
    if text.is_empty() || !text.bytes().all(|b| b.is_ascii_digit()) {
        return Err(Refusal(BAD, "Content-Length is no number"));
    }
    // One that fits no integer is too large, too.
    let length = text.parse().ok().filter(|n| *n <= BODY_MAX);
    length.ok_or(Refusal("413 Content Too Large", "a body has at most 65536 bytes"))
}

fn is_json(kind: &str) -> bool {
    kind.split(';').next().is_some_and(|k| k.trim().eq_ignore_ascii_case("application/json"))
}

struct HeaderFields<'h, 'a>(&'h [httparse::Header<'a>]);

impl<'a> HeaderFields<'_, 'a> {
    /// A field that may be there once.
    fn one(&self, name: &str) -> Result<Option<&'a str>, Refusal> {
        let mut found = self.0.iter().filter(|f| f.name.eq_ignore_ascii_case(name)).map(|f| f.value);
        let first = found.next();
        if found.next().is_some() {
            return Err(Refusal(BAD, "a header field is there twice"));
        }
        let text = first.map(std::str::from_utf8).transpose();
        text.map_err(|_| Refusal(BAD, "a header field is no text"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(text: &str) -> Result<Option<Request>, Refusal> {
        let given = ["status.example".to_string()];
        read(text.as_bytes(), &Names { own: IpAddr::from([127, 0, 0, 1]), given: &given })
    }

    fn status(text: &str) -> &'static str {
        asked(text).err().map_or("", |r| &r.0[..3])
    }

    #[test]
    fn names_of_the_page() {
        for host in
            ["localhost", "LocalHost:9900", "127.0.0.1", "127.0.0.1:80", "status.example:1", "[::ffff:127.0.0.1]:9900"]
        {
            assert!(asked(&format!("GET / HTTP/1.1\r\nHost: {host}\r\n\r\n")).is_ok_and(|r| r.is_some()), "{host}");
        }
        for host in [
            "evil.example",
            "evil.example:9900",
            "10.0.0.1",
            "[::1]",
            "localhost.evil.example",
            "127.0.0.1.evil.example",
            "a:b:c",
            "",
        ] {
            assert_eq!(status(&format!("GET / HTTP/1.1\r\nHost: {host}\r\n\r\n")), "403", "{host}");
        }
        assert_eq!(status("GET / HTTP/1.1\r\n\r\n"), "400");
        assert_eq!(status("GET / HTTP/1.1\r\nHost: localhost\r\nHost: localhost\r\n\r\n"), "400");
        assert!(asked("GET / HTTP/1.0\r\n\r\n").is_ok_and(|r| r.is_some()));
    }

    #[test]
    fn origins() {
        let of =
            |host: &str, origin: &str| status(&format!("GET / HTTP/1.1\r\nHost: {host}\r\nOrigin: {origin}\r\n\r\n"));
        assert_eq!((of("localhost:9900", "http://LocalHost:9900"), of("127.0.0.1", "http://127.0.0.1:80")), ("", ""));
        for foreign in [
            "null",
            "http://evil.example",
            "https://localhost",
            "http://localhost.evil.example",
            "file://",
            "http://localhost:1",
            "http://localhost:9900",
            "http://127.0.0.1",
        ] {
            assert_eq!(of("localhost", foreign), "403", "{foreign}");
        }
    }

    #[test]
    fn bodies() {
        let post = |rest: &str| format!("POST /signal/a/b HTTP/1.1\r\nHost: localhost\r\n{rest}");
        let json = "Content-Type: application/json; charset=utf-8\r\n";
        assert_eq!(status(&post("\r\n")), "415");
        assert_eq!(status(&post("Content-Type: text/plain\r\n\r\n")), "415");
        assert_eq!(status(&post("Content-Type: application/x-www-form-urlencoded\r\n\r\n")), "415");
        let whole = asked(&post(&format!("{json}Content-Length: 2\r\n\r\n{{}}"))).unwrap().unwrap();
        assert_eq!(
            (whole.method.as_str(), whole.target.as_str(), whole.body.as_slice()),
            ("POST", "/signal/a/b", &b"{}"[..])
        );
        assert_eq!(asked(&post(&format!("{json}Content-Length: 2\r\n\r\n{{"))), Ok(None));
        assert_eq!(status(&post(&format!("{json}Content-Length: 70000\r\n\r\n"))), "413");
        assert_eq!(status(&post(&format!("{json}Content-Length: +2\r\n\r\n"))), "400");
        assert_eq!(status(&post(&format!("{json}Transfer-Encoding: chunked\r\n\r\n"))), "411");
    }

    #[test]
    fn pieces_and_nonsense() {
        let whole = "GET /status HTTP/1.1\r\nHost: localhost\r\n\r\n";
        for cut in 0..whole.len() {
            assert_eq!(asked(&whole[..cut]), Ok(None), "{cut}");
        }
        for bad in [
            "GET\r\n\r\n",
            "GET / HTTP/2\r\n\r\n",
            "GET status HTTP/1.1\r\n\r\n",
            "GET / HTTP/1.1\r\nHost : localhost\r\n\r\n",
            "GET / HTTP/1.1 x\r\n\r\n",
        ] {
            assert_eq!(status(bad), "400", "{bad}");
        }
        let Err(Refusal(line, _)) = asked(&"x".repeat(HEAD_MAX)) else { panic!("a head without an end") };
        assert_eq!(line, "431 Request Header Fields Too Large");
    }
}
