//! The common part of the Redis tests: a proxy before real servers (or one real server with
//! `PLAIN=1`), and RESP2 as dialogues.

use crate::client::Client;
use crate::{plain, servers, Process, Wireloom};

pub struct Service {
    pub port: u16,
    pub front: Process,
    pub backends: Vec<Process>,
}

impl Service {
    pub fn proxy(n: usize, extra: &[&str]) -> Service {
        if plain() {
            let front = Process::redis();
            return Service { port: front.port, front, backends: Vec::new() };
        }
        let backends: Vec<Process> = (0..n).map(|_| Process::redis()).collect();
        let ports: Vec<u16> = backends.iter().map(|b| b.port).collect();
        let list = servers(&ports);
        let mut args = vec!["--set", list.as_str()];
        args.extend(extra);
        let front = Wireloom::run("redis_proxy", &args);
        Service { port: front.port, front, backends }
    }
}

/// A request: an array of bulk strings.
pub fn request<A: AsRef<[u8]>>(words: &[A]) -> Vec<u8> {
    let mut out = format!("*{}\r\n", words.len()).into_bytes();
    for w in words {
        out.extend(bulk(w.as_ref()));
    }
    out
}

pub fn bulk(data: &[u8]) -> Vec<u8> {
    [format!("${}\r\n", data.len()).as_bytes(), data, b"\r\n"].concat()
}

/// A request from words in one string; `@` in it is replaced by a tag.
pub fn words(line: &str, tag: &str) -> Vec<u8> {
    let line = line.replace('@', tag);
    request(&line.split(' ').collect::<Vec<_>>())
}

/// An answer written for people: `+OK`, `:3`, `$abc`, `nil`, `-` (any error), `[$a nil :3 [+x]]`.
#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
    Status(String),
    Error(String),
    Integer(i64),
    Bulk(Vec<u8>),
    Nil,
    NilArray,
    Array(Vec<Answer>),
}

impl Answer {
    pub fn bulk(data: impl AsRef<[u8]>) -> Answer {
        Answer::Bulk(data.as_ref().to_vec())
    }

    pub fn ok() -> Answer {
        Answer::Status("OK".into())
    }

    pub fn is_error(&self) -> bool {
        matches!(self, Answer::Error(_))
    }

    /// Takes one answer off the connection.
    pub fn take(client: &mut Client) -> Answer {
        let line = client.take_line();
        let (kind, rest) = line.split_at(line.len().min(1));
        let number = || rest.parse::<i64>().unwrap_or_else(|_| panic!("a number follows {kind:?}, not {rest:?}"));
        match kind {
            "+" => Answer::Status(rest.into()),
            "-" => Answer::Error(rest.into()),
            ":" => Answer::Integer(number()),
            "$" if rest == "-1" => Answer::Nil,
            "$" => {
                let data = client.take(number() as usize);
                client.expect("\r\n");
                Answer::Bulk(data)
            }
            "*" if rest == "-1" => Answer::NilArray,
            "*" => Answer::Array((0..number()).map(|_| Answer::take(client)).collect()),
            _ => panic!("no RESP: {line:?}"),
        }
    }

    /// Reads the short form from a test's table.
    pub fn read(text: &str, tag: &str) -> Answer {
        let text = text.replace('@', tag);
        let mut tokens = text.split_whitespace().peekable();
        Self::parse(&mut tokens)
    }

    fn parse<'a>(tokens: &mut std::iter::Peekable<impl Iterator<Item = &'a str>>) -> Answer {
        let token = tokens.next().expect("a token");
        if token == "[" {
            let mut items = Vec::new();
            while tokens.peek() != Some(&"]") {
                items.push(Self::parse(tokens));
            }
            tokens.next();
            return Answer::Array(items);
        }
        if token == "nil" {
            return Answer::Nil;
        }
        let (kind, rest) = token.split_at(1);
        match kind {
            "+" => Answer::Status(rest.into()),
            "-" => Answer::Error(rest.into()),
            ":" => Answer::Integer(rest.parse().expect("a number")),
            "$" => Answer::bulk(rest),
            _ => panic!("not a short form: {token}"),
        }
    }

    /// Equal, where a wanted error accepts every error that begins alike.
    pub fn agrees(&self, got: &Answer) -> bool {
        match (self, got) {
            (Answer::Error(a), Answer::Error(b)) => b.starts_with(a.as_str()),
            (Answer::Array(a), Answer::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.agrees(b)),
            _ => self == got,
        }
    }
}

impl Client {
    pub fn redis(&mut self, words: &[&str]) -> Answer {
        self.send(request(words));
        Answer::take(self)
    }
}

pub fn check(c: &mut Client, say: &str, hear: &str, tag: &str) {
    let got = Answer::take(c);
    assert!(Answer::read(hear, tag).agrees(&got), "{say}: wanted {hear}, got {got:?}");
}
