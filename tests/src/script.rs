//! A backend under the test's control: accepts when told, and each accepted connection is a
//! [`Client`] to speak over.

use crate::client::{Client, PATIENCE};
use crate::free_port;
use std::net::TcpListener;
use std::time::{Duration, Instant};

pub struct Backend {
    listener: Option<TcpListener>,
    pub port: u16,
}

impl Default for Backend {
    fn default() -> Self {
        Self::new()
    }
}

impl Backend {
    pub fn new() -> Backend {
        // Somebody else may take a free port before it is listened on.
        loop {
            let port = free_port();
            if let Ok(listener) = TcpListener::bind(("127.0.0.1", port)) {
                listener.set_nonblocking(true).expect("a socket");
                return Backend { listener: Some(listener), port };
            }
        }
    }

    /// A port without a listener.
    pub fn refusing() -> Backend {
        Backend { listener: None, port: free_port() }
    }

    pub fn listen(&mut self) {
        let listener = TcpListener::bind(("127.0.0.1", self.port)).expect("the port is free");
        listener.set_nonblocking(true).expect("a socket");
        self.listener = Some(listener);
    }

    /// Refuses from now on. Accepted connections live on.
    pub fn refuse(&mut self) {
        self.listener = None;
    }

    pub fn accept(&self) -> Client {
        self.accept_within(PATIENCE).expect("the proxy connects")
    }

    /// A connection that is there already, or comes in the next moment.
    pub fn accept_now(&self) -> Option<Client> {
        self.accept_within(Duration::from_millis(50))
    }

    /// A fresh connection, or the old one if the next message comes over that.
    pub fn accept_or(&self, mut old: Client) -> Client {
        let until = Instant::now() + PATIENCE;
        while Instant::now() < until {
            if let Some(fresh) = self.accept_within(Duration::from_millis(5)) {
                return fresh;
            }
            if old.has_something() {
                return old;
            }
        }
        panic!("the proxy neither connects nor sends")
    }

    pub fn accept_within(&self, time: Duration) -> Option<Client> {
        let until = Instant::now() + time;
        let listener = self.listener.as_ref().expect("the backend listens");
        while Instant::now() < until {
            if let Ok((stream, _)) = listener.accept() {
                stream.set_nonblocking(false).expect("a socket");
                return Some(Client::over(stream));
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        None
    }
}
