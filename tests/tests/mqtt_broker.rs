//! `apps/mqtt_broker.loom` between real clients: Paho and mosquitto's, on two cores.

use std::process::Command;
use wireloom_tests::folder::Folder;
use wireloom_tests::{admin, finish, free_port, python, require_tool, root, Client, Process, Wireloom};

/// The beginning of each script: clients of Paho in either of its versions.
const PAHO: &str = "
import os, random, signal, subprocess, sys, threading, time
import paho.mqtt.client as mqtt
versions = [mqtt.CallbackAPIVersion.VERSION2] if hasattr(mqtt, 'CallbackAPIVersion') else []
port = int(sys.argv[1])
got = {}
ready = threading.Semaphore(0)
def client(name, topics, qos=1, will=None):
    c = mqtt.Client(*versions, client_id=name)
    c.max_inflight_messages_set(500)
    c.on_subscribe = lambda *a: ready.release()
    mine = got.setdefault(name, [])
    c.on_message = lambda c, u, m: mine.append((m.topic, m.payload, m.qos, m.retain))
    if will: c.will_set(*will)
    c.connect('127.0.0.1', port)
    c.loop_start()
    for t in topics:
        c.subscribe(t, qos=qos)
        assert ready.acquire(timeout=20), name
    return c
def until(what, holds):
    end = time.time() + 30
    while not holds():
        assert time.time() < end, what
        time.sleep(0.02)
";

/// A broker on two cores, where there are two; its admin page.
fn broker() -> (Process, u16) {
    let page = free_port();
    let cores = std::thread::available_parallelism().map_or(1, |n| n.get().min(2));
    let list = if cores == 2 { "0,1" } else { "0" };
    let admin_at = format!("127.0.0.1:{page}");
    (Wireloom::run("mqtt_broker", &["--cores", list, "--admin", &admin_at]), page)
}

fn paho(python: &str, port: u16, script: &str) {
    let out = finish(Command::new(python).args(["-c", &[PAHO, script].concat(), &port.to_string()]));
    assert_eq!((out.code, out.out.as_str()), (Some(0), "done\n"), "{}", out.text);
}

#[test]
fn messages_retained_ones_wildcards_and_wills() {
    let Some(python) = python::with("paho.mqtt") else { return };
    let (broker, _) = broker();
    paho(
        python,
        broker.port,
        "
early = client('early', [])
early.publish('kept/a', b'old', qos=1, retain=True).wait_for_publish(20)
early.publish('kept/a', b'new', qos=1, retain=True).wait_for_publish(20)
early.publish('kept/b', b'gone', qos=0, retain=True)
early.publish('kept/b', b'', qos=1, retain=True).wait_for_publish(20)
names = {'all': '#', 'plus': '+/a', 'deep': 'x/+/z/#', 'exact': 'kept/a', 'kept': 'kept/#', 'low': 'x/#'}
subs = {n: client(n, [t], qos=0 if n == 'low' else 1) for n, t in names.items()}
kept = ('kept/a', b'new', 1, True)
until('retained', lambda: all(got[n] == [kept] for n in ('plus', 'exact', 'kept')))
for topic in ('kept/a', 'x/y/z', 'x/y/z/deeper/still', 'x/y', '/a', '$SYS/a', 'ba/a'):
    early.publish(topic, b'1', qos=1).wait_for_publish(20)
want = {
    'all': {'kept/a', 'x/y/z', 'x/y/z/deeper/still', 'x/y', '/a', 'ba/a'},
    'plus': {'kept/a', '/a', 'ba/a'},
    'deep': {'x/y/z', 'x/y/z/deeper/still'},
    'exact': {'kept/a'}, 'kept': {'kept/a'}, 'low': {'x/y/z', 'x/y/z/deeper/still', 'x/y'},
}
fresh = lambda n: [m for m in got[n] if not m[3]]
until('all', lambda: all(len(fresh(n)) >= len(w) for n, w in want.items()))
time.sleep(0.3)
for n, w in want.items():
    assert sorted(m[0] for m in fresh(n)) == sorted(w), (n, got[n])
    assert all(m[2] == (0 if n == 'low' else 1) for m in fresh(n)), got[n]
left = threading.Event()
subs['exact'].on_unsubscribe = lambda *a: left.set()
subs['exact'].unsubscribe('kept/a')
assert left.wait(20)
# Long payloads, and many at once.
big = bytes(range(256)) * 250
early.publish('kept/a', big, qos=1).wait_for_publish(20)
until('big', lambda: fresh('kept')[-1][1] == big)
assert len(fresh('exact')) == 1
# A client that is killed has a will; one that leaves in order has none.
child = subprocess.Popen([sys.executable, '-c', '''
import paho.mqtt.client as mqtt, sys, time
versions = [mqtt.CallbackAPIVersion.VERSION2] if hasattr(mqtt, 'CallbackAPIVersion') else []
c = mqtt.Client(*versions, client_id='mortal')
c.will_set('x/last', b'words', qos=1)
c.on_connect = lambda *a: print('in', flush=True)
c.connect('127.0.0.1', ''' + str(port) + ''')
c.loop_forever()
'''], stdout=subprocess.PIPE)
assert child.stdout.readline() == b'in\\n'
child.kill()
until('will', lambda: fresh('low')[-1][:2] == ('x/last', b'words'))
polite = client('polite', [], will=('x/polite', b'never'))
polite.disconnect()
# The second client of a name takes the place of the first.
lost = threading.Event()
first = client('twin', ['t'])
first.on_disconnect = lambda *a: (lost.set(), first.loop_stop())
second = client('twin', ['t'])
assert lost.wait(20)
early.publish('t', b'once', qos=1).wait_for_publish(20)
until('twin', lambda: [m[:2] for m in got['twin']] == [('t', b'once')])
assert not any(m[0] == 'x/polite' for m in got['low'])
print('done')
",
    );
}

/// A publisher that sends thousands of messages at once is not read until its subscriber has
/// acknowledged most of them. None is lost.
#[test]
fn bursts_lose_nothing() {
    let Some(python) = python::with("paho.mqtt") else { return };
    let (broker, _) = broker();
    paho(
        python,
        broker.port,
        "
import socket, struct
client('sub', ['burst'])
s = socket.create_connection(('127.0.0.1', port))
s.sendall(b'\\x10\\x0d\\0\\x04MQTT\\x04\\x02\\0\\0\\0\\x01p')
count = 3000
s.sendall(b''.join(b'\\x32\\x0d\\0\\x05burst' + struct.pack('>HI', 1 + n, n) for n in range(count)))
acks, need = b'', 4 + 4 * count
while len(acks) < need:
    more = s.recv(65536)
    assert more, len(acks)
    acks += more
until('all are there', lambda: len(got['sub']) >= count)
assert [struct.unpack('>I', m[1])[0] for m in got['sub']] == list(range(count)), len(got['sub'])
print('done')
",
    );
}

/// Topics that are no strings end their client (OASIS MQTT 3.1.1, section 1.5.3): a subscriber's
/// library would fail at them. The other clients are served on.
#[test]
fn topics_that_no_client_could_read() {
    let (broker, _) = broker();
    let open = |name: &str| {
        let mut c = Client::connect(broker.port);
        c.send([b"\x10\x0f\0\x04MQTT\x04\x02\0\x3c\0\x03", name.as_bytes()].concat());
        assert_eq!(c.take(4), b"\x20\x02\0\0");
        c
    };
    let mut reader = open("abc");
    reader.send(b"\x82\x06\0\x07\0\x01#\x01");
    assert_eq!(reader.take(5), b"\x90\x03\0\x07\x01");
    for (n, topic) in [&b"a\xffb"[..], b"a\0b", b"\xed\xa0\x80", b"\xc0\xaf", b"a+b", b"#"].iter().enumerate() {
        let mut bad = open(&format!("x{n:02}"));
        let length = [0x31, topic.len() as u8 + 4, 0, topic.len() as u8];
        bad.send([&length[..], topic, b"hi"].concat());
        bad.expect_closed();
    }
    open("def").send(b"\x30\x05\0\x01ahi");
    assert_eq!(reader.take(7), b"\x30\x05\0\x01ahi");
    // None of them was kept.
    let mut late = open("ghi");
    late.send(b"\x82\x06\0\x07\0\x01#\x01");
    assert_eq!(late.take(5), b"\x90\x03\0\x07\x01");
    late.expect_silence(std::time::Duration::from_millis(200));
}

/// Clients come, are killed and leave, all the time. Those that stay miss nothing that was
/// acknowledged, see it once and in order, and nothing that was not for them.
#[test]
fn clients_are_killed_at_random() {
    let Some(python) = python::with("paho.mqtt") else { return };
    let (broker, page) = broker();
    paho(
        python,
        broker.port,
        "
STAY, TOPICS, ROUNDS = 12, 6, 150
stay = [client('stay%d' % n, ['r/%d/+' % (n % TOPICS), 'none/#']) for n in range(STAY)]
pubs = [client('pub%d' % n, []) for n in range(4)]
over = threading.Event()
import socket
def raw(name, topic):
    s = socket.create_connection(('127.0.0.1', port))
    body = b'\\0\\x04MQTT\\x04\\x02\\0\\0' + len(name).to_bytes(2, 'big') + name
    s.sendall(b'\\x10' + bytes([len(body)]) + body)
    assert s.recv(4) == b' \\x02\\0\\0'
    f = len(topic).to_bytes(2, 'big') + topic + b'\\x01'
    s.sendall(b'\\x82' + bytes([len(f) + 2]) + b'\\0\\x01' + f)
    return s
def churn(k):
    rng = random.Random(k)
    while not over.is_set():
        n = rng.randrange(TOPICS)
        s = raw(b'churn%d' % k, b'r/%d/#' % n)
        s.settimeout(0.01)
        seen, end = b'', time.time() + rng.random() * 0.05
        while time.time() < end:
            try: seen += s.recv(rng.choice([1, 100, 65536]))
            except TimeoutError: pass
        # What it has got was for it.
        for part in seen.split(b'r/')[1:]:
            assert part[:1] in (b'', b'%d' % n), (n, part[:20])
        if rng.random() < 0.7:
            s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b'\\1\\0\\0\\0\\0\\0\\0\\0')
        s.close()
failed = []
def run(k):
    try: churn(k)
    except BaseException as e: failed.append(repr(e))
churners = [threading.Thread(target=run, args=(k,)) for k in range(4)]
[t.start() for t in churners]
for r in range(ROUNDS):
    infos = [p.publish('r/%d/p%d' % (t, i), b'%d' % r, qos=1) for i, p in enumerate(pubs) for t in range(TOPICS)]
    if r % 10 == 0: [i.wait_for_publish(30) for i in infos]
[i.wait_for_publish(30) for i in infos]
over.set()
[t.join() for t in churners]
assert not failed, failed[:2]
want = ROUNDS * len(pubs)
until('all has come', lambda: all(len(got['stay%d' % n]) >= want for n in range(STAY)))
time.sleep(0.3)
for n in range(STAY):
    for i in range(len(pubs)):
        mine = [m[1] for m in got['stay%d' % n] if m[0] == 'r/%d/p%d' % (n % TOPICS, i)]
        assert mine == [b'%d' % r for r in range(ROUNDS)], (n, i, len(mine))
    assert len(got['stay%d' % n]) == want
print('done')
",
    );
    admin::eventually("all clients are gone, and so are their subscriptions", || {
        let app = &admin::status(page)["apps"][0];
        let tables: Vec<_> = ["clients", "owned", "filters", "members", "numbers", "alive"]
            .map(|t| app["tables"][t]["entries"].as_u64())
            .into();
        tables.iter().all(|n| *n == Some(0))
    });
}

/// A subscription for which there is no memory is counted nowhere when its client has gone.
#[test]
fn a_full_table_leaves_nothing_behind() {
    let small = std::fs::read_to_string(root().join("apps/mqtt_broker.loom")).expect("the app");
    let small = small.replacen("} { capacity 1M, memory 256MiB }", "} { capacity 2 }", 1);
    assert!(small.contains("capacity 2 }"));
    let folder = Folder::new("small_broker");
    std::fs::write(folder.file("mqtt_broker.loom"), small).expect("written");
    for how in [&[][..], &["--interpret"]] {
        let page = free_port();
        let address = format!("127.0.0.1:{page}");
        let args = [&["--admin", address.as_str(), "--cores", "0"], how].concat();
        let broker = Wireloom::run_file(&folder.name_of("mqtt_broker.loom"), &args, |_| {});
        let connect = |name: &str| {
            let mut c = Client::connect(broker.port);
            c.send(format!("\x10\x0f\0\x04MQTT\x04\x02\0\x3c\0\x03{name}")).expect(b"\x20\x02\0\0");
            c
        };
        let (mut ann, mut bob) = (connect("ann"), connect("bob"));
        ann.send(b"\x82\x08\0\x01\0\x03a/+\0").expect(b"\x90\x03\0\x01\0");
        bob.send(b"\x82\x08\0\x01\0\x03b/b\0").expect(b"\x90\x03\0\x01\0");
        // More shapes of filters than a broker has at a time.
        for n in 1..=70 {
            let levels: Vec<&str> = (0..7).map(|bit| if n >> bit & 1 == 1 { "+" } else { "x" }).collect();
            let mut eve = connect("eve");
            eve.send([&b"\x82\x12\0\x01\0\x0d"[..], levels.join("/").as_bytes(), &[0]].concat());
            eve.rest();
        }
        drop((ann, bob));
        let entries = |table: &str| admin::status(page)["apps"][0]["tables"][table]["entries"].as_u64();
        admin::eventually("nothing is left", || {
            ["clients", "owned", "filters", "members"].iter().all(|t| entries(t) == Some(0))
        });
        // With room again, subscribers of the same shape get their messages once.
        let (mut ann, mut bob) = (connect("ann"), connect("bob"));
        ann.send(b"\x82\x08\0\x01\0\x03+/c\0").expect(b"\x90\x03\0\x01\0");
        bob.send(b"\x30\x07\0\x03x/chi\xc0\0").expect(b"\xd0\0");
        ann.expect(b"\x30\x07\0\x03x/chi");
    }
}

#[test]
fn the_clients_of_mosquitto() {
    if !require_tool("mosquitto_pub") || !require_tool("mosquitto_sub") {
        return;
    }
    let (broker, _) = broker();
    let port = broker.port.to_string();
    let publish = |args: &[&str]| finish(Command::new("mosquitto_pub").args(["-p", &port]).args(args));
    assert_eq!(publish(&["-t", "a/kept", "-m", "first", "-r", "-q", "1"]).code, Some(0));
    let mut sub = Command::new("mosquitto_sub");
    sub.args(["-p", &port, "-t", "a/#", "-q", "1", "-v", "-C", "3", "-W", "20"]);
    let reader = std::thread::spawn(move || finish(&mut sub));
    std::thread::sleep(std::time::Duration::from_millis(500));
    assert_eq!(publish(&["-t", "a/b", "-m", "second"]).code, Some(0));
    assert_eq!(publish(&["-t", "a/c/d", "-m", "third", "-q", "1"]).code, Some(0));
    let out = reader.join().expect("the reader ends");
    assert_eq!((out.code, out.out.as_str()), (Some(0), "a/kept first\na/b second\na/c/d third\n"), "{}", out.text);
    // MQTT 5 and QoS 2 are not there, and clients are told so.
    let five = publish(&["-V", "5", "-t", "a/b", "-m", "x"]);
    assert!(five.code != Some(0) && five.text.contains("ersion"), "{}", five.text);
    assert_ne!(publish(&["-t", "a/b", "-m", "x", "-q", "2"]).code, Some(0));
}
