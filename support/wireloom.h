/* wireloom.h: the ABI between generated code and the runtime. WL_ABI is its version.
 *
 * A program (compiled C, or the interpreter behind the same function table) supplies `wl_program`.
 * The runtime supplies `wl_host` and owns connections, buffers, tasks and time. All calls of one
 * core happen on that core's thread. Nothing here allocates on the data path.
 *
 * crates/runtime/src/abi.rs mirrors every type below; a test there compares sizes and offsets. */
#ifndef WIRELOOM_H
#define WIRELOOM_H
#include <stddef.h>
#include <stdint.h>

#define WL_ABI 29u

typedef struct wl_bytes { const uint8_t *p; uint32_t n; uint32_t _pad; } wl_bytes;

/* ---- parsing -------------------------------------------------------------------------------- */

/* Results of parse() and tail(). */
enum { WL_MORE = 0,   /* needs bytes beyond `n`; call again with the same start and more bytes     */
       WL_HEAD = 1,   /* the head is complete (view->head bytes), a tail follows                   */
       WL_WHOLE = 2,  /* the message is complete                                                   */
       WL_BAD = 3 };  /* view->fault and view->place say what and where; the stream is out of step */

/* Facts about a message, known when its head is complete (view->flags). */
enum { WL_M_CLOSE = 1,       /* the connection ends after this message (and its answer)            */
       WL_M_INTERIM = 2,     /* a response that another response to the same request follows       */
       WL_M_TUNNEL = 4,      /* after this response both connections become a byte tunnel          */
       WL_M_NO_REPLY = 8,    /* a request that is not answered                                     */
       WL_M_UNTIL_EOF = 16,  /* the tail ends where the connection ends                            */
       WL_M_IN_STEP = 32,    /* a fault the grammar can recover from: parse() answers WL_HEAD with this flag
                                and fault/place set; drop the head, drop what tail() uses until it answers
                                WL_BAD, tell the client, go on with the next message               */
       WL_M_REPEAT = 64,     /* a request that may be sent again if a pooled connection was closed under it */
       WL_M_PRIVATE = 128,   /* the backend's connection has come to know its client and serves it alone from now on */
       WL_M_OMIT = 256,      /* tail(): the bytes that come next belong to the message, but are not passed on. tail()
                                answers WL_MORE wherever this changes, though bytes may be left: it is called again */
       WL_M_ENDS = 512,      /* where it is passed on, the message ends with the connection (`pass as`)  */
       WL_M_REFUSAL = 1024,  /* a response that refuses its request: a greeting so answered closes the connection */
       WL_M_ALONE = 2048,    /* a request that waits for the answers before it, and is waited for by those behind it */
       WL_M_STRAY = 4096,    /* a response that is not its request's: the connection has lost its order */
       WL_M_IDLE = 8192,     /* behind this message of a server its session may go to another client    */
       WL_M_RESET = 16384,   /* this message of a server says that its session is reset                 */
       WL_M_CHUNKS = 32768,  /* pieces of its body that a handler changes go on in chunks (RFC 9112 section 7.1) */
       WL_M_EXPECTS = 65536, /* the client of the request waits until it is told to send the rest    */
       WL_M_OWES = 131072,   /* the server answers this message of a client, at last with WL_M_SETTLES  */
       WL_M_UNFINISHED = 262144, /* this message of a client is done with once one of WL_M_OWES follows */
       WL_M_SETTLES = 524288,    /* this message of a server ends an answer that is owed               */
       WL_M_ITEMS = 1048576, /* set by the runtime behind parse(): tail() answers WL_MORE where an item of a stream
                                of units with a handler begins or ends, though bytes may be left: it is called again */
       WL_M_BORDER = 2097152,    /* changes at each such place                                         */
       WL_M_ITEM = 4194304,  /* times the stream's number: the bytes that come next are an item's; else 0 */
       WL_M_ITEM_MASK = 62914560 };

/* First member of every unit's view. A view is the parser's whole state: position independent (all
 * offsets count from the message's first byte), resumable at any byte, freely movable by memcpy. */
typedef struct wl_parser {
    uint16_t pc;       /* resume point of the parser, 0 = start                                    */
    uint16_t fault;    /* fault kind when WL_BAD                                                   */
    uint32_t place;    /* index into the program's table of places (unit field, source span)       */
    uint32_t pos;      /* next byte to look at                                                     */
    uint32_t scan;     /* bytes a delimiter search has already looked at beyond pos                */
    uint32_t head;     /* length of the head, once known                                           */
    uint32_t flags;    /* WL_M_*                                                                   */
    uint64_t left;     /* tail: bytes of the current run still to come; they need no parsing        */
    uint64_t ctx;      /* the unit's parameters, packed (a response: computed from its request);
                          set by the runtime before the first parse(); it zeroes the other members
                          of wl_parser, and no more of the view: the rest is parse()'s to set up    */
} wl_parser;

/* Bit 63 of ctx: the message is a response. A unit may be request and response of one protocol; the
 * facts in `flags` then follow the clauses of its side. The runtime sets the bit for responses;
 * generated code sets it in wl_call.ctx. */
#define WL_CTX_RESPONSE ((uint64_t)1 << 63)

/* A run (view->left > 0 when tail() answers WL_MORE): all n bytes were used, and the next `left`
 * bytes of the message need no parsing. The runtime may pass them on without calling tail(), and
 * decrements `left`. At 0 it calls tail() again, even with n = 0, because a message that ends with
 * the run is complete only then. Calls of tail() with `left` > 0 are allowed. The same holds while
 * tail() skips bytes after WL_M_IN_STEP. At the end of the connection inside of a run, the runtime
 * calls tail(eof = 1), which answers WL_BAD.
 *
 * The framing of a stream is passed on when it is accepted, so *used may be less than the bytes
 * that tail() has read. The next call gives the bytes from there on again, in front of later ones,
 * and never fewer.
 *
 * WL_BAD: the *used bytes are good, those behind are not. With WL_M_IN_STEP in `flags`, tail() has
 * found a fault behind the head and is past the message. *used bytes more belong to it, and the
 * next message follows. A fault behind the head that the grammar recovers from sets WL_M_OMIT, too.
 * After WL_WHOLE, view->pos is the length of the whole message if its unit has no stream fields. */

/* A message as a handler sees it. Field offsets in `view` are relative to `base`. */
typedef struct wl_msg {
    wl_parser *view;       /* NULL: no message                                                     */
    const uint8_t *base;   /* the head bytes                                                       */
    uint32_t head;         /* head length                                                          */
    uint32_t status;       /* WL_S_*: for a reply, whether it is there                             */
    wl_bytes body;         /* its streamed bytes as one; p == NULL: not all of them are there      */
    uint32_t whole;        /* bytes of the whole message at `base`; 0: the parser's state says it  */
    uint32_t unit;         /* the number of its unit plus one; 0: unknown, its view is not copied      */
} wl_msg;

/* Facts about an upstream: the number of its connection, its instance, answers that it owes. */
enum { WL_UPSTREAM_ID = 0, WL_UPSTREAM_INSTANCE = 1, WL_UPSTREAM_OWED = 2 };

/* Where the rest of an outgoing message comes from, after the head bytes given. */
enum { WL_TAIL_NONE = 0, WL_TAIL_REQ = 1 /* the tail of task->req */, WL_TAIL_REP = 2 /* of task->rep */ };

/* ---- faults --------------------------------------------------------------------------------- */

/* Fault kinds. A program's own kinds (`fault name`) follow from WL_F_USER on, in order of
   declaration. */
enum { WL_F_NONE = 0,
       WL_F_MALFORMED = 1,   /* the bytes do not match the grammar                                 */
       WL_F_TOO_LONG = 2,    /* a field is longer than its maximum                                 */
       WL_F_TRUNCATED = 3,   /* the connection ended inside a message                              */
       WL_F_CONSTRAINT = 4,  /* `in` or `require` does not hold                                    */
       WL_F_INDEX = 5, WL_F_DIVISION = 6, WL_F_NONE_VALUE = 7,
       WL_F_LOST = 8,        /* backend connection lost before the answer was complete             */
       WL_F_REFUSED = 9,     /* no connection to the backend (refused, ejected, connect timed out) */
       WL_F_TIMEOUT = 10,    /* no answer within the time                                          */
       WL_F_BAD_REPLY = 11,  /* the backend's answer does not match the grammar                    */
       WL_F_OVERLOAD = 12,   /* a pool, a queue or a limit is full                                 */
       WL_F_IDLE = 13,       /* client too slow within a message (HTTP 408)                        */
       WL_F_FULL = 14,       /* a table with `reject` is full                                      */
       WL_F_CANCELLED = 15,  /* client went away; nobody is told                                   */
       WL_F_NO_REPLY = 16,   /* handler ended without answering                                    */
       WL_F_INTERNAL = 18,   /* raised by programs; in fault_reply also for a handler's MALFORMED, CONSTRAINT, TOO_LONG */
       WL_F_EARLY = 19,      /* bytes have come ahead of a change of protocol                      */
       WL_F_UNSPOKEN = 20,   /* a message of a protocol that its receiver does not speak at present */
       WL_F_SHUTDOWN = 21,   /* fault_reply only: the service ends; a client of a conversation is told  */
       WL_F_ENDED = 22,      /* no fault: a connection has ended in order                           */
       WL_F_USER = 32 };

/* side: flags. WL_SIDE_IN_STEP: the faulty message has been read to its end, the next one
   follows. */
enum { WL_SIDE_IN_STEP = 1 };
/* The maximum number of first bytes of a refused message in wl_fault.start. */
#define WL_START 32u
typedef struct wl_fault {
    uint16_t kind; uint16_t side; uint32_t place; uint32_t port;
    /* fault_reply only, where the request is not given. `start` is the first bytes of the refused
     * message, as many as have come. `ctx` is the response's parameters, as packed for the last
     * call for the request. */
    uint32_t start_n; uint64_t ctx; uint8_t start[WL_START];
} wl_fault;

/* ---- building messages ----------------------------------------------------------------------- */

/* Scratch of a core in which a head is built. grow() gives room for `need` more bytes. Past the
 * program's largest message it returns 0, and the task faults with WL_F_OVERLOAD. */
typedef struct wl_out { uint8_t *start, *p, *end; } wl_out;

/* ---- tasks ---------------------------------------------------------------------------------- */

struct wl_core; struct wl_task; struct wl_frame;

enum { WL_S_OK = 0 };  /* else the WL_F_* that took the reply's place */

typedef struct wl_endpoint { uint8_t ip[16]; /* IPv4 as ::ffff:a.b.c.d */ uint16_t port; uint16_t v4; uint32_t _pad; } wl_endpoint;

/* The connection a task belongs to. `session` is zeroed when the connection opens. */
typedef struct wl_conn {
    void *session;
    wl_endpoint peer, local;
    uint32_t port, instance;    /* instance: the backend's index on a connect port */
    uint64_t id;
    uint64_t handle;            /* names a client's connection of a conversation, while it lives; else 0 */
} wl_conn;

/* One activation of a handler. Everything the handler needs after a suspension is in frame. */
typedef struct wl_task {
    struct wl_core *core;
    wl_conn *conn;              /* NULL for timers and start */
    void *frame;                /* frame_size bytes, zeroed */
    uint32_t handler, pc;       /* pc: resume point, the handler's own */
    uint16_t fault; uint16_t _pad; uint32_t place;   /* set by the handler when it returns WL_T_FAULT */
    wl_msg req;                 /* the message that started it; after a suspension only if held */
    wl_msg rep;                 /* = part[0] */
    wl_msg *part; uint32_t parts; uint32_t _pad2;    /* replies, in the order of the calls */
    wl_bytes kept;              /* what keep() was given last */
} wl_task;

enum { WL_T_DONE = 0, WL_T_SUSPEND = 1, WL_T_FAULT = 2 };

/* tell(), from a handler of pieces: these bytes go on in the place of the piece; neither this piece
 * nor the rest goes on. */
#define WL_TO_PIECE (UINT32_MAX - 1)
#define WL_TO_NONE UINT32_MAX
/* wait(): for the rest of the request. */
#define WL_BODY UINT32_MAX
/* A handler of pieces has the head of the message in task->req, with the piece in its `body`. It
 * makes no calls. What it replies ends the request. */

/* Flags of call(). */
enum { WL_C_HOLD = 1,           /* store the whole reply (head and tail, contiguous): it must outlive this
                                   resumption, is one of many, or fields of its tail are read */
       WL_C_HOLD_REQ = 2,       /* task->req is read after this suspension: keep its head (and view)         */
       WL_C_PIECES = 8,         /* the handler may pause while a large head is taken over          */
       WL_C_JUDGED = 16,        /* the flags below tell what the clauses of the protocol say of the
                                   request as it is sent; else those of task->req hold for it, where
                                   it is that one, and none for others                           */
       WL_C_NO_REPLY = 32, WL_C_REPEAT = 64, WL_C_PRIVATE = 128, /* as WL_M_*                       */
       WL_C_ENDS = 256,         /* it ends with its connection                                      */
       WL_C_MATCHES = 512,      /* of ask(): the answer is the message that is no WL_M_STRAY with `ctx` */
       WL_C_PIPELINE = 4 };     /* by its protocol (`pipeline when`) the request may be sent
                                 * while answers to others are still due on the connection, and
                                 * sent again if that connection is lost */
/* Operations of crypto(). AES keys have 16 or 32 bytes; blocks, vectors and tags 16; nonces 12. */
enum { WL_X_AES_CTR = 0,          /* key, counter block, data                                                        */
       WL_X_AES_CBC_ENCRYPT = 1,  /* key, vector, whole blocks                                                       */
       WL_X_AES_CBC_DECRYPT = 2,
       WL_X_AES_GCM_SEAL = 3,     /* key, nonce, associated data, data: 16 bytes more come out                       */
       WL_X_AES_GCM_OPEN = 4,     /* the same, data and tag: 16 bytes less come out, or -1                           */
       WL_X_HMAC_SHA1 = 5, WL_X_HMAC_SHA256 = 6,   /* key, parts: 20, 32 bytes                                       */
       WL_X_SHA1 = 7, WL_X_SHA256 = 8,             /* parts                                                          */
       WL_X_RANDOM = 9 };         /* as many random bytes as the argument is long                                    */
/* Flags of reply(), of fault_reply() and of interim(). */
enum { WL_R_CLOSE = 1,          /* close the connection when this is sent */
       WL_R_NOTHING = 2,        /* no bytes: the request is answered by silence */
       WL_R_PIECES = 4 };       /* of reply() only: as WL_C_PIECES */

typedef struct wl_call { uint64_t timeout_ns; /* 0: the port's default */ uint64_t ctx; uint32_t flags; uint32_t _pad; } wl_call;

typedef struct wl_host {
    /* Sends a request to instance `index` of connect port `port`. The handler may issue several,
     * then returns WL_T_SUSPEND; it is resumed when all are answered or failed, with task->part[i]
     * in order of issue. `head` is copied (or sent) before call() returns. One call without
     * WL_C_HOLD: the reply is seen in place and its tail streams. */
    void (*call)(struct wl_task *, uint32_t port, uint32_t index, wl_bytes head, uint32_t tail, const wl_call *);
    /* Answers task->req, once. */
    void (*reply)(struct wl_task *, wl_bytes head, uint32_t tail, uint32_t flags);
    /* Sends a message that is not answered. */
    void (*send)(struct wl_task *, uint32_t port, uint32_t index, wl_bytes head, uint32_t tail);
    int  (*grow)(struct wl_core *, uint32_t need);
    void (*close)(struct wl_task *);                      /* close the task's connection when its output is sent */
    void (*log)(struct wl_core *, uint32_t level, wl_bytes text);
    void (*fault)(struct wl_core *, uint32_t kind, uint32_t place);  /* count a fault that was caught in the program */
    /* Ciphers, MACs, digests: the operation WL_X_*, over byte strings into `out`. Answers the bytes
     * written, or -1: not authentic, or an argument of a wrong size. The data of a cipher is the
     * last argument. `out` is the address of the data (in place), or overlaps no argument.
     * Schedules of keys are kept per core and found by the key's bytes. */
    int32_t (*crypto)(uint32_t op, const wl_bytes *arg, uint32_t args, uint8_t *out);
    /* A long loop of a handler has used up core->fuel: sets it anew; where the slice is used up
       too, others run before this returns. */
    void (*pause)(struct wl_core *);
    /* Copies bytes to where they stay until the task ends: task->kept. 0: there is no memory for
       them. */
    int (*keep)(struct wl_task *, wl_bytes);
    /* Of a conversation. `to`: 0 is the client of the task's connection, n its upstream n - 1,
     * which is opened if its port has one instance. `proto`: of the message. tell(), open() and
     * change_protocol() answer 0, or the fault (WL_F_*) by which the message is lost. */
    uint32_t (*tell)(struct wl_task *, uint32_t to, uint32_t proto, wl_bytes head, uint32_t tail);   /* or WL_TO_PIECE, WL_TO_NONE */
    /* As tell() to an upstream, and as call(): a part of the task is answered by the server's one
     * message that answers this one. With WL_C_MATCHES `ctx` tells which: the values of its unit's
     * `asked`, packed. Else the order of answers that are owed does. */
    void (*ask)(struct wl_task *, uint32_t upstream, uint32_t proto, wl_bytes head, uint32_t tail, const wl_call *);
    /* Opens an upstream to an instance of its port. One that is open is closed before. `pooled`: as
     * one of the sessions of the pool of a key. If that is full, the upstream waits for a place. */
    uint32_t (*open)(struct wl_task *, uint32_t upstream, uint32_t index, uint32_t pooled, wl_bytes key);
    /* Closes an upstream when its output is sent. */
    void (*shut)(struct wl_task *, uint32_t upstream);
    /* A message to each of `n` clients of conversations, named by handles (wl_conn.handle), on any
     * core. Those that are gone or full, or speak another protocol than `proto`, get none, and a
     * fault is counted at `place`. */
    void (*deliver)(struct wl_task *, const uint64_t *handle, uint32_t n, wl_bytes head, uint32_t tail, uint32_t proto, uint32_t place);
    /* Closes such connections when their output is sent. */
    void (*dismiss)(struct wl_task *, const uint64_t *handle, uint32_t n);
    /* A part that is answered when the rest of the request has come (table WL_BODY). Of another
     * table: when the entry with this hash has changed, or after so long. It may be answered
     * earlier. `flags`: WL_C_HOLD_REQ. */
    void (*wait)(struct wl_task *, uint32_t table, uint64_t hash, uint64_t timeout_ns, uint32_t flags);
    /* An entry for which handlers wait has been set or removed. */
    void (*changed)(struct wl_core *, uint32_t table, uint64_t hash);
    /* A member of the task's conversation speaks protocol `proto` from now on. Its next message is
     * read in it. It must be that of the task's message, be held, or have said nothing yet. Bytes
     * that are there already are refused, unless `rest`. */
    uint32_t (*change_protocol)(struct wl_task *, uint32_t member, uint32_t proto, uint32_t rest);
    /* No message of a member is read until it becomes another protocol, or is released (`on` is
     * 0). */
    void (*hold)(struct wl_task *, uint32_t member, uint32_t on);
    /* Gives an upstream to the pool of sessions of this key, and lets its client take sessions of
     * that pool. */
    void (*pool)(struct wl_task *, uint32_t upstream, wl_bytes key);
    /* Opens an upstream with a session of its client's pool, to an instance of its port. Messages
     * wait until there is one. Answers as open(). */
    uint32_t (*take)(struct wl_task *, uint32_t upstream, uint32_t index);
    /* The sessions of a key to an instance of a port, on this core. */
    uint32_t (*pooled)(struct wl_core *, uint32_t port, uint32_t index, wl_bytes key);
    /* A fact about an open upstream, WL_UPSTREAM_*; 0: there is none. */
    uint64_t (*upstream_fact)(struct wl_task *, uint32_t upstream, uint32_t fact);
    /* Whether a handler has used up its time. `begun` is 0 at its first look, and the host's then.
     * Handlers that pause have no limit, nor have those with all ones in it. */
    int (*late)(struct wl_core *, uint64_t *begun);
} wl_host;

/* A connect port as handlers see it. */
typedef struct wl_port {
    uint32_t n;                 /* instances */
    uint32_t _pad;
    const uint32_t *load;       /* [n] requests outstanding on this core */
    const uint8_t *up;          /* [n] 1 = usable, 0 = ejected */
    const uint32_t *ring;       /* ketama: pairs (point, instance) sorted by point; behind them, for modula, a number of slots
                                 * and the instance of each; NULL if unused */
    uint32_t ring_n; uint32_t maglev_n;
    const uint32_t *maglev;     /* maglev: instance per slot; NULL if unused */
    const uint32_t *points;     /* consistent: pairs (point, instance) sorted by point; NULL if unused */
    uint32_t points_n; uint32_t _pad2;
    const wl_endpoint *server;  /* [n] addresses; NULL if it has none */
} wl_port;

/* A parameter's value. Integers, bools, durations (ns): u. bytes, string: b. endpoint: ep.
   list<endpoint>: u = length. */
typedef struct wl_param { uint64_t u; wl_bytes b; wl_endpoint ep; } wl_param;

/* wl_packets.batch() may summarise its frames here, so that the runtime need not read them: how
 * many leave and their bytes. All leave through one instance of a port (as in wl_frame.out). */
typedef struct wl_left {
    uint64_t bytes;
    uint32_t frames, out;
    uint32_t known;             /* 1: so it is. The runtime sets it to 0 before each batch */
    uint32_t _pad;
} wl_left;

typedef struct wl_core {
    const wl_host *host;
    void *rt;                   /* the runtime's own */
    void *state;                /* this core's state, zeroed: state_size bytes  */
    void *shared;               /* state of all cores: shared_size bytes        */
    const wl_param *param;
    const wl_port *port;        /* one per port, in order of declaration        */
    uint64_t now;               /* ns since 1970, never jumps; read once a batch  */
    uint64_t wall;              /* ns since 1970, also if the clock is set       */
    uint64_t seed;              /* state of the core's random numbers           */
    uint32_t index, cores;
    wl_out out;
    void *self;                 /* program->self */
    wl_left left;
    uint32_t draining;          /* 1: the service ends; connections are to be told so */
    uint32_t fuel;              /* rounds of long loops until host->pause is called; 0: as many as there are numbers */
    uint8_t *tmp;               /* scratch (program->tmp_size bytes) of a handler that may pause; NULL: the state's */
    uint32_t outcome;           /* set before reply(), and by fault_reply(): what the answer is counted as, its status times 256 and its class,
                                 * from 1; the runtime sets it to 0 when it has taken it */
    uint32_t mark;              /* set before transmit() to a queue: the mark that goes with the frame */
    uint64_t place;             /* where ketama(), consistent() or maglev() found its last instance (WL_P_*): a call to it that fails
                                 * goes on from there; the runtime sets it to 0 at each call */
    struct wl_frame *at;        /* of a batch from a queue: the frame at hand. Those behind it have
                                 * their marks in `out`. The program sets it as it takes the mark,
                                 * the runtime sets it to NULL before */
    struct wl_frame *frames;    /* the first frame of the batch at hand */
    uint8_t *entries;           /* of queues: an entry for each frame of the batch, and one before
                                 * them for a frame that is copied. The runtime fills those of
                                 * frames from a queue, the program those of frames to one. NULL:
                                 * they are empty */
    uint64_t behind;            /* of cores that share tables in a run on captures: how far the
                                 * slowest of them is behind `now`, in ns; else 0 */
} wl_core;
/* A place: the port in bits 48 and up, then one of these. Bits 0 to 31 are the index of the ring's
 * point or of the table's slot. */
#define WL_P_RING ((uint64_t)1 << 32)
#define WL_P_MAGLEV ((uint64_t)2 << 32)
#define WL_P_POINTS ((uint64_t)4 << 32)

/* ---- the program ---------------------------------------------------------------------------- */

typedef struct wl_unit {
    uint32_t view_size;         /* bytes, including wl_parser */
    uint32_t head_max;          /* largest head */
    uint64_t whole_max;         /* largest message without `stream` fields; 0: it has such fields, never held whole */
    /* buf[0] is the message's first byte; n bytes are there; eof: no more will come. */
    int (*parse)(void *self, uint32_t unit, wl_parser *, const uint8_t *buf, uint32_t n, int eof);
    /* buf[0] is the first tail byte not yet used. *used (<= n) bytes belong to the message and may
       be passed on. */
    int (*tail)(void *self, uint32_t unit, wl_parser *, const uint8_t *buf, uint32_t n, int eof, uint32_t *used);
    /* Copies what is in use of a view, whose message may be incomplete, and answers how many bytes
       that are; to NULL: it only answers. NULL: all of a view is in use. */
    uint64_t (*copy)(wl_parser *to, const wl_parser *view);
} wl_unit;

typedef struct wl_program {
    uint32_t abi, units, handlers, frame_size;
    uint64_t state_size, shared_size;
    uint32_t session_size;
    uint32_t tmp_size;          /* handlers may pause: each then has scratch of so many bytes for itself; 0: none does */
    void *self;
    const wl_unit *unit;
    void (*init_shared)(void *self, void *shared, const wl_param *);
    void (*init_core)(void *self, wl_core *);
    /* Runs or resumes task->handler. Returns WL_T_*. */
    int (*run)(void *self, wl_task *);
    /* Builds, in core->out, the answer of protocol `proto` to a client on this fault. `req` may be
     * NULL (the message itself was bad). Returns WL_R_* flags; nothing built = just close. */
    uint32_t (*fault_reply)(void *self, wl_core *, uint32_t proto, const wl_fault *, const wl_msg *req);
    /* Builds, in core->out, the head of an interim answer as a client of protocol `proto` gets it.
     * Nothing built: as it came; WL_R_NOTHING: not at all. */
    uint32_t (*interim)(void *self, wl_core *, uint32_t proto, const wl_msg *rep);
    /* Frees what run() keeps for a task that is cancelled in a suspension. May be NULL. */
    void (*cancel)(void *self, wl_task *);
    /* Gives the columns of a request's line in the access log: a log() each. May be NULL. */
    void (*note)(void *self, wl_core *, uint32_t proto, const wl_msg *req);
    /* Sets core->outcome for an answer to one of several calls, which no reply passes on alone. May
       be NULL. */
    void (*answer)(void *self, wl_core *, uint32_t proto, const wl_msg *rep);
    /* The parameters of the next message of a conversation, packed: `down` from a server, else from
     * the client. NULL: no unit has some. */
    uint64_t (*context)(void *self, wl_core *, wl_conn *client, uint32_t proto, uint32_t down);
    /* Of a conversation: the bytes of the whole messages at the front of buf that a handler would
     * only pass on and count. Also how many there are. They have the parameters `ctx`, and are
     * counted. NULL: there is no such handler. */
    uint32_t (*run_of)(void *self, wl_core *, wl_conn *client, uint32_t handler, uint64_t ctx, const uint8_t *buf, uint32_t n,
                       uint32_t *messages);
    /* The hash of a name for the ring of a port (consistent()), which has at most 512 bytes. The
     * core has parameters and zeroed state only. NULL: no port has such a ring. */
    uint32_t (*point)(void *self, wl_core *, uint32_t port, wl_bytes name);
} wl_program;

/* The one symbol a compiled program exports. */
const wl_program *wireloom_program(void);

/* ---- frames
   ----------------------------------------------------------------------------------- */

/* Room that the runtime keeps before and behind every frame, for headers that are put in front and
   payloads that grow. */
#define WL_HEADROOM 256u
#define WL_TAILROOM 256u

/* A whole frame in a buffer of the runtime. A handler may change bytes, move p within the headroom
   and change n. */
typedef struct wl_frame {
    uint8_t *p;              /* first byte */
    uint32_t n;              /* bytes from p */
    uint32_t wire;           /* length on the wire; more than n if the capture cut it */
    uint64_t time;           /* ns since 1970: when it came (a capture's own time) */
    uint32_t out;            /* set by batch(): WL_GONE, or the port and instance it leaves through: port << 16 | instance */
    uint16_t port, instance; /* where it came from. Of one that leaves to a queue: its mark, the low half first */
    uint32_t head, tail;     /* free bytes before p and behind p + n */
} wl_frame;

#define WL_GONE UINT32_MAX

/* The functions of a program with frame ports, beside wl_program. */
typedef struct wl_packets {
    /* Runs a handler (of HandlerOn::Frame) for each of n frames, in order, on this core. On entry
     * out is WL_GONE; of a frame from a queue it is the frame's mark. The program takes the mark,
     * sets out to WL_GONE and wl_core.at to the frame, before it does anything else for the frame.
     * Faults are counted through host->fault; they end the handling of their frame, no more.
     * wl_core.now and .wall are set by the runtime before. */
    void (*batch)(void *self, wl_core *, uint32_t handler, wl_frame *f, uint32_t n);
    /* The steering hashes of n frames that came in on a port: frames of one flow key have one hash.
       Of a frame only p, n and wire are read. NULL: no key. */
    void (*steer)(void *self, uint32_t port, const wl_frame *f, uint32_t n, uint32_t *hashes);
    /* Set by the runtime, called by batch(): a copy of a frame, or one that the program built,
       leaves. The bytes are copied. */
    void (*transmit)(wl_core *, uint32_t port, uint32_t instance, const uint8_t *p, uint32_t n);
    /* Set by the runtime. About an instance of a queue port, which keeps the frames that are sent
       to it: see WL_Q_*. */
    uint32_t (*queue)(wl_core *, uint32_t port, uint32_t instance, uint32_t act);
    /* Set by the runtime; a program with queues calls it from batch() after each frame. Runs the
     * queue's handler for every frame that was popped. batch() is then called from within batch();
     * no handler is under way. */
    void (*serve)(wl_core *);
} wl_packets;

enum { WL_Q_POP = 0,    /* the oldest frame is the queue's handler's; whether there was one */
       WL_Q_DROP = 1,   /* the oldest frame is gone; whether there was one                  */
       WL_Q_LEN = 2,    /* frames that wait                                                 */
       WL_Q_FIRST = 3   /* bytes of the oldest frame, 0 if there is none                    */ };

/* Exported beside wireloom_program by programs that have frame ports. */
wl_packets *wireloom_packets(void);

/* ---- merge nodes ---------------------------------------------------------------------------- */

/* A merge combines sorted streams of messages into one (FLICK's foldt). It is a plain function over
 * byte windows. So a merge of many inputs may run as a tree of smaller ones, each on any core. The
 * output of one is an input of the next. */

/* Bytes of one input: buf[pos..n] are not yet used; eof: no more follow n. Between calls the
 * runtime may add bytes, move the buffer and drop bytes before pos, as long as pos still names the
 * same byte. A window must be able to hold message_max bytes. */
typedef struct wl_window { const uint8_t *buf; uint32_t pos, n, eof, messages /* counted up by run() for each one taken */; } wl_window;

enum { WL_G_DRY = 0,    /* input `at->input` needs more bytes (or its end); all of its message is still in the window */
       WL_G_FULL = 1,   /* the output has no room for one more message (message_max bytes are always enough)          */
       WL_G_DONE = 2,   /* all inputs have ended and all is written                                                   */
       WL_G_BAD = 3 };  /* `at`: input, fault, place (malformed, truncated, or a key below the one before it)         */

typedef struct wl_merge_at { uint32_t input, fault, place, used /* bytes written to out by this call */, messages /* and messages */; } wl_merge_at;

typedef struct wl_merge {
    uint64_t state_size;        /* bytes of state, zeroed before the first call */
    uint32_t inputs;            /* most inputs of one call */
    uint32_t message_max;       /* largest message, in and out */
    /* Consumes the inputs (advancing their pos) until one runs dry or the output (cap bytes) is
     * full. The same `inputs` in every call of one merge. */
    int (*run)(void *self, void *state, wl_window *in, uint32_t inputs, uint8_t *out, uint32_t cap, wl_merge_at *at);
} wl_merge;

/* Exported beside wireloom_program by programs that have merge nodes: one entry per
   Desc::merges. */
const wl_merge *wireloom_merges(uint32_t *count);
#endif
