//! `apps/mqtt_balancer.loom` between clients of Paho and two mosquittos.

use std::process::Command;
use wireloom_tests::folder::Folder;
use wireloom_tests::{admin, finish, free_port, python, require_tool, Process, Wireloom};

fn broker(folder: &Folder) -> Process {
    let port = free_port();
    let file = folder.name_of(&format!("{port}.conf"));
    let text =
        format!("listener {port} 127.0.0.1\nallow_anonymous true\nmessage_size_limit 0\nmax_packet_size 100000000\n");
    std::fs::write(&file, text).expect("the folder is writable");
    let mut command = Command::new("/usr/sbin/mosquitto");
    command.args(["-c", &file]);
    Process::start("mosquitto", &mut command, port)
}

#[test]
fn messages_in_both_directions_of_any_size() {
    if !require_tool("mosquitto") {
        return;
    }
    let Some(python) = python::with("paho.mqtt") else { return };
    let folder = Folder::new("mqtt");
    let (one, two) = (broker(&folder), broker(&folder));
    let brokers = format!("brokers=127.0.0.1:{},127.0.0.1:{}", one.port, two.port);
    let page = free_port();
    let admin_at = format!("127.0.0.1:{page}");
    let proxy = Wireloom::run("mqtt_balancer", &["--set", &brokers, "--admin", &admin_at]);
    let text = format!(
        "
import paho.mqtt.client as mqtt, threading
versions = [mqtt.CallbackAPIVersion.VERSION2] if hasattr(mqtt, 'CallbackAPIVersion') else []
got = {{}}
ready = threading.Semaphore(0)
done = threading.Semaphore(0)
def client(name):
    c = mqtt.Client(*versions, client_id=name)
    c.on_subscribe = lambda *a: ready.release()
    def message(c, u, m):
        got.setdefault(name, []).append((m.topic, m.payload))
        done.release()
    c.on_message = message
    c.connect('127.0.0.1', {port})
    c.loop_start()
    c.subscribe('to/' + name + '/#', qos=1)
    assert ready.acquire(timeout=20), name
    return c
all = [client('client%d' % n) for n in range(20)]
big = b'x' * 3000000
for n, c in enumerate(all):
    for k in range(10):
        c.publish('to/client%d/%d' % (n, k), b'%d %d' % (n, k), qos=k % 3)
    c.publish('to/client%d/big' % n, big, qos=1).wait_for_publish(20)
for n in range(20 * 11):
    assert done.acquire(timeout=20), n
for n in range(20):
    mine = got['client%d' % n]
    assert sorted(mine) == sorted([('to/client%d/%d' % (n, k), b'%d %d' % (n, k)) for k in range(10)] + [('to/client%d/big' % n, big)])
[c.disconnect() for c in all]
print('done')
",
        port = proxy.port
    );
    let out = finish(Command::new(python).args(["-c", &text]));
    assert_eq!((out.code, out.out.as_str()), (Some(0), "done\n"), "{}", out.text);
    admin::eventually("the messages are counted", || {
        let counters = &admin::status(page)["apps"][0]["counters"];
        (&counters["sessions"], &counters["published"], &counters["delivered"])
            == (&20.into(), &220.into(), &220.into())
    });
    assert!(proxy.rss_kib() < 100_000, "{} KiB", proxy.rss_kib());
}
