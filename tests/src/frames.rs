//! A protocol of frames with a session, for tests of conversations. A frame's kind tells messages
//! from the word of a fault.

/// The protocol, in front of a test's app.
pub const FRAMES: &str = "
unit Frame { order big  kind: u8  size: u32 = len(body)  body: bytes<16MiB> [size] }
protocol frames {
    up      Frame
    down    Frame
    sharing session
    on fault(f) {
        match f.kind {
            refused   => reply Frame { kind: 'R', body: \"\" } then close
            lost      => reply Frame { kind: 'L', body: \"\" } then close
            malformed => reply Frame { kind: 'M', body: \"\" } then close
            _         => reply Frame { kind: 'F', body: \"\" } then close
        }
    }
}
";

/// A frame: its kind, the length of its body in four bytes, and the body.
pub fn frame(kind: u8, body: &[u8]) -> Vec<u8> {
    let mut all = vec![kind];
    all.extend((body.len() as u32).to_be_bytes());
    all.extend(body);
    all
}
