//! Dialogues in memcached's ASCII protocol. `kv_server` holds the basic ones, the proxy all of
//! them.

use crate::dialogue::Dialogue;

/// The answers that are equal in all memcached servers.
pub const BASIC: &[Dialogue] = &[
    Dialogue {
        name: "storage",
        steps: &[
            ("set @a 5 0 3\r\nabc\r\n", "STORED\r\n"),
            ("get @a\r\n", "VALUE @a 5 3\r\nabc\r\nEND\r\n"),
            ("add @a 0 0 1\r\nx\r\n", "NOT_STORED\r\n"),
            ("add @b 4294967295 0 1\r\nx\r\n", "STORED\r\n"),
            ("get @b\r\n", "VALUE @b 4294967295 1\r\nx\r\nEND\r\n"),
            ("replace @c 0 0 1\r\ny\r\n", "NOT_STORED\r\n"),
            ("replace @a 1 0 0\r\n\r\n", "STORED\r\n"),
            ("get @a\r\n", "VALUE @a 1 0\r\n\r\nEND\r\n"),
            ("append @a 0 0 2\r\nyz\r\n", "STORED\r\n"),
            ("prepend @a 0 0 1\r\nx\r\n", "STORED\r\n"),
            ("get @a\r\n", "VALUE @a 1 3\r\nxyz\r\nEND\r\n"),
            ("append @none 0 0 1\r\nx\r\n", "NOT_STORED\r\n"),
            ("prepend @none 0 0 1\r\nx\r\n", "NOT_STORED\r\n"),
            ("set @a 0 -1 1\r\nx\r\n", "STORED\r\n"),
            ("get @a\r\n", "END\r\n"),
        ],
    },
    Dialogue {
        name: "values that look like protocol",
        steps: &[
            ("set @a 0 0 13\r\nEND\r\nVALUE \r\n\r\n", "STORED\r\n"),
            ("get @a\r\n", "VALUE @a 0 13\r\nEND\r\nVALUE \r\n\r\nEND\r\n"),
            ("set @b 0 0 7\r\nget x\r\n\r\n", "STORED\r\n"),
            ("get @none @b\r\n", "VALUE @b 0 7\r\nget x\r\n\r\nEND\r\n"),
        ],
    },
    Dialogue {
        name: "numbers",
        steps: &[
            ("set @n 0 0 2\r\n10\r\n", "STORED\r\n"),
            ("incr @n 5\r\n", "15\r\n"),
            ("decr @n 3\r\n", "12\r\n"),
            ("decr @n 100\r\n", "0\r\n"),
            ("set @n 0 0 20\r\n18446744073709551615\r\n", "STORED\r\n"),
            ("incr @n 2\r\n", "1\r\n"),
            ("incr @none 1\r\n", "NOT_FOUND\r\n"),
            ("decr @none 1\r\n", "NOT_FOUND\r\n"),
            ("set @s 0 0 1\r\nx\r\n", "STORED\r\n"),
            ("incr @s 1\r\n", "CLIENT_ERROR cannot increment or decrement non-numeric value\r\n"),
            ("incr @n x\r\n", "CLIENT_ERROR invalid numeric delta argument\r\n"),
        ],
    },
    Dialogue {
        name: "deletion and touch",
        steps: &[
            ("delete @a\r\n", "NOT_FOUND\r\n"),
            ("set @a 0 0 1\r\nx\r\n", "STORED\r\n"),
            ("touch @a 100\r\n", "TOUCHED\r\n"),
            ("touch @none 100\r\n", "NOT_FOUND\r\n"),
            ("gat 100 @a\r\n", "VALUE @a 0 1\r\nx\r\nEND\r\n"),
            ("gat 100 @none\r\n", "END\r\n"),
            ("delete @a\r\n", "DELETED\r\n"),
            ("get @a\r\n", "END\r\n"),
            ("set @a 0 0 1\r\nx\r\n", "STORED\r\n"),
            ("delete @a 1\r\n", "CLIENT_ERROR bad command line format.  Usage: delete <key> [noreply]\r\n"),
            ("delete @a 00\r\n", "CLIENT_ERROR bad command line format.  Usage: delete <key> [noreply]\r\n"),
            ("delete @a 0noreply\r\n", "CLIENT_ERROR bad command line format.  Usage: delete <key> [noreply]\r\n"),
            ("delete @a  0\r\n", "DELETED\r\n"),
            ("set @a 0 0 1\r\nx\r\n", "STORED\r\n"),
            ("delete @a 0 noreply\r\nget @a\r\n", "END\r\n"),
            ("set @a 0 0 1\r\nx\r\n", "STORED\r\n"),
            ("touch @a -1\r\n", "TOUCHED\r\n"),
            ("get @a\r\n", "END\r\n"),
        ],
    },
    Dialogue {
        name: "no reply, then in step",
        steps: &[
            ("set @a 0 0 1 noreply\r\n1\r\nget @a\r\n", "VALUE @a 0 1\r\n1\r\nEND\r\n"),
            ("add @a 0 0 1 noreply\r\n2\r\nget @a\r\n", "VALUE @a 0 1\r\n1\r\nEND\r\n"),
            ("replace @a 0 0 1 noreply\r\n3\r\nget @a\r\n", "VALUE @a 0 1\r\n3\r\nEND\r\n"),
            ("append @a 0 0 1 noreply\r\n4\r\nget @a\r\n", "VALUE @a 0 2\r\n34\r\nEND\r\n"),
            ("prepend @a 0 0 1 noreply\r\n2\r\nget @a\r\n", "VALUE @a 0 3\r\n234\r\nEND\r\n"),
            ("incr @a 1 noreply\r\nget @a\r\n", "VALUE @a 0 3\r\n235\r\nEND\r\n"),
            ("decr @a 2 noreply\r\nget @a\r\n", "VALUE @a 0 3\r\n233\r\nEND\r\n"),
            ("touch @a 100 noreply\r\nget @a\r\n", "VALUE @a 0 3\r\n233\r\nEND\r\n"),
            ("cas @a 0 0 1 1 noreply\r\nx\r\nget @a\r\n", "VALUE @a 0 3\r\n233\r\nEND\r\n"),
            ("delete @a noreply\r\ndelete @a noreply\r\nget @a\r\n", "END\r\n"),
        ],
    },
    Dialogue {
        name: "line ends",
        steps: &[("set @a 0 0 1\r\nx\r\n", "STORED\r\n"), ("get @a\n", "VALUE @a 0 1\r\nx\r\nEND\r\n")],
    },
];

/// Several keys in a line. Of one server the values come in the order asked; of several, those of
/// each.
pub const MANY: &[Dialogue] = &[
    Dialogue {
        name: "retrieval of many",
        steps: &[
            ("set @a 1 0 1\r\n1\r\nset @b 2 0 1\r\n2\r\nset @c 3 0 1\r\n3\r\n", "STORED\r\nSTORED\r\nSTORED\r\n"),
            ("get @a @b @c\r\n", "VALUE @a 1 1\r\n1\r\nVALUE @b 2 1\r\n2\r\nVALUE @c 3 1\r\n3\r\nEND\r\n"),
            ("get @c @b @a\r\n", "VALUE @c 3 1\r\n3\r\nVALUE @b 2 1\r\n2\r\nVALUE @a 1 1\r\n1\r\nEND\r\n"),
            ("get @b @b @b\r\n", "VALUE @b 2 1\r\n2\r\nVALUE @b 2 1\r\n2\r\nVALUE @b 2 1\r\n2\r\nEND\r\n"),
            ("get @x @b @y\r\n", "VALUE @b 2 1\r\n2\r\nEND\r\n"),
            ("get @x @y @z\r\n", "END\r\n"),
            ("get   @a   @c  \r\n", "VALUE @a 1 1\r\n1\r\nVALUE @c 3 1\r\n3\r\nEND\r\n"),
        ],
    },
    Dialogue {
        name: "gat of many",
        steps: &[
            ("set @a 1 0 1\r\nx\r\nset @b 2 0 1\r\ny\r\n", "STORED\r\nSTORED\r\n"),
            ("gat 100 @none @a @a @b\r\n", "VALUE @a 1 1\r\nx\r\nVALUE @a 1 1\r\nx\r\nVALUE @b 2 1\r\ny\r\nEND\r\n"),
            ("gat -1 @a @b\r\n", "VALUE @a 1 1\r\nx\r\nVALUE @b 2 1\r\ny\r\nEND\r\n"),
            ("get @a @b\r\n", "END\r\n"),
        ],
    },
];

/// Further commands that a proxy passes on.
pub const MORE: &[Dialogue] = &[
    Dialogue {
        name: "meta",
        steps: &[
            ("mn\r\n", "MN\r\n"),
            ("mg @a v\r\n", "EN\r\n"),
            ("ms @a 3\r\nabc\r\n", "HD\r\n"),
            ("mg @a\r\n", "HD\r\n"),
            ("mg @a v\r\n", "VA 3\r\nabc\r\n"),
            ("mg @a k s v Ox1\r\n", "VA 3 k@a s3 Ox1\r\nabc\r\n"),
            ("ms @b 0 F9 T0\r\n\r\n", "HD\r\n"),
            ("mg @b f v\r\n", "VA 0 f9\r\n\r\n"),
            ("ms @b 1 ME\r\nx\r\n", "NS\r\n"),
            ("ma @n\r\n", "NF\r\n"),
            ("ma @n N0 J10 v\r\n", "VA 2\r\n10\r\n"),
            ("ma @n D5 v\r\n", "VA 2\r\n15\r\n"),
            ("ma @n MD D3 v\r\n", "VA 2\r\n12\r\n"),
            ("me @none\r\n", "EN\r\n"),
            ("md @a\r\n", "HD\r\n"),
            ("md @a\r\n", "NF\r\n"),
        ],
    },
    Dialogue {
        name: "quiet meta, then in step",
        steps: &[
            ("mg @none v q\r\nmn\r\n", "MN\r\n"),
            ("ms @a 3 q\r\nabc\r\nmn\r\n", "MN\r\n"),
            ("mg @a v q\r\nmn\r\n", "VA 3\r\nabc\r\nMN\r\n"),
            ("mg @none v q k\r\nmg @a v q k\r\nmg @none v q\r\nmg @a s v\r\n", "VA 3 k@a\r\nabc\r\nVA 3 s3\r\nabc\r\n"),
            ("md @a q\r\nmn\r\n", "MN\r\n"),
            ("mg @a v\r\n", "EN\r\n"),
        ],
    },
];

/// Bad input, each one line: said, and how the answer begins. A known command without its arguments
/// may also be called a bad line. `@` works as in a dialogue.
pub const BAD: &[(&str, &str, &[&str])] = &[
    ("unknown command", "nonsense\r\n", &["ERROR"]),
    ("empty line", "\r\n", &["ERROR"]),
    ("upper case", "GET @a\r\n", &["ERROR"]),
    ("get without a key", "get\r\n", BAD_LINE),
    ("get with blanks only", "get  \r\n", BAD_LINE),
    ("set without arguments", "set\r\n", BAD_LINE),
    ("set with too few arguments", "set @a 0 0\r\n", BAD_LINE),
    ("delete without a key", "delete\r\n", BAD_LINE),
    ("incr without a delta", "incr @a\r\n", BAD_LINE),
    ("garbage", "\x01\x02\x03\x7f\r\n", BAD_LINE),
];

const BAD_LINE: &[&str] = &["ERROR", "CLIENT_ERROR"];

/// Cases in which servers and proxies may choose their words: any error line will do. More lines
/// may follow it, up to the next answer in step.
pub fn bad_lengths() -> Vec<(&'static str, String)> {
    let long = "k".repeat(251);
    vec![
        ("get with a key of 251", format!("get {long}\r\n")),
        ("set with a key of 251", format!("set {long} 0 0 1\r\nx\r\n")),
        ("delete with a key of 251", format!("delete {long}\r\n")),
        ("incr with a key of 251", format!("incr {long} 1\r\n")),
        ("second key of 251", format!("get a {long}\r\n")),
        ("a size below zero", "set @a 0 0 -1\r\nx\r\n".into()),
        ("a size that is no number", "set @a 0 0 x\r\nx\r\n".into()),
        ("flags that are no number", "set @a x 0 1\r\nx\r\n".into()),
        ("data shorter than its size", "set @a 0 0 5\r\nabc\r\n".into()),
        ("data longer than its size", "set @a 0 0 3\r\nabcdef\r\n".into()),
        ("cas without its number", "cas @a 0 0 1\r\nx\r\n".into()),
        ("cas with a bad number", "cas @a 0 0 1 x\r\nx\r\n".into()),
        ("touch with a bad time", "touch @a x\r\n".into()),
        ("incr below zero", "incr @a -1\r\n".into()),
    ]
}
