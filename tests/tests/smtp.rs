//! `apps/smtp_gateway.loom` between Python's smtplib and a server of aiosmtpd.

use std::process::Command;
use wireloom_tests::control::Controlled;
use wireloom_tests::folder::Folder;
use wireloom_tests::postfix::Postfix;
use wireloom_tests::{admin, finish, free_port, python, require_tool, servers, Client, Process};

/// A server that writes each mail to a file: its recipients, then its content.
const SERVER: &str = r#"
import sys, time
from aiosmtpd.controller import Controller
class Keep:
    n = 0
    async def handle_DATA(self, server, session, envelope):
        Keep.n += 1
        with open("%s/%d.part" % (sys.argv[2], Keep.n), "wb") as f:
            f.write((" ".join(envelope.rcpt_tos) + "\n").encode() + envelope.content)
        import os
        os.rename("%s/%d.part" % (sys.argv[2], Keep.n), "%s/%d" % (sys.argv[2], Keep.n))
        return "250 kept"
c = Controller(Keep(), hostname="127.0.0.1", port=int(sys.argv[1]), data_size_limit=1 << 30)
c.start()
time.sleep(3600)
"#;

fn server(python: &str, folder: &Folder) -> Process {
    let port = free_port();
    let mut command = Command::new(python);
    command.args(["-c", SERVER, &port.to_string(), &folder.path().display().to_string()]);
    Process::start("aiosmtpd", &mut command, port)
}

fn gateway(server: &Process) -> (Controlled, u16) {
    gateway_to(server.port)
}

fn gateway_to(server: u16) -> (Controlled, u16) {
    let port = free_port();
    let set = format!("port={port}");
    let args = ["apps/smtp_gateway.loom", "--set", &set, "--set", &servers(&[server])];
    (Controlled::run("smtp_gateway", &args), port)
}

fn mail(folder: &Folder, n: usize) -> (String, String) {
    let text = std::fs::read_to_string(folder.file(&n.to_string())).expect("the mail is there");
    let (to, content) = text.split_once('\n').expect("a line of recipients");
    (to.into(), content.into())
}

#[test]
fn mails_of_any_size_pass_and_recipients_are_refused_live() {
    let Some(python) = python::with("aiosmtpd") else { return };
    let folder = Folder::new("smtp");
    let server = server(python, &folder);
    let (gateway, port) = gateway(&server);
    gateway.told(&["table", "denied", "insert", "key=bad@example.org", "value=true"]);
    let text = format!(
        "
import smtplib
s = smtplib.SMTP('127.0.0.1', {port}, timeout=20)
body = 'Subject: one\\r\\n\\r\\n.\\r\\n..\\r\\n.hidden\\r\\nRCPT TO:<x@y>\\r\\nend\\r\\n'
refused = s.sendmail('me@example.org', ['good@example.org', 'Bad@Example.org', 'other@example.org'], body)
assert list(refused) == ['Bad@Example.org'] and refused['Bad@Example.org'][0] == 550, refused
big = 'Subject: two\\r\\n\\r\\n' + ('.' + 'x' * 70 + '\\r\\n') * 150000
s.sendmail('me@example.org', ['good@example.org'], big)
try:
    s.sendmail('me@example.org', ['bad@example.org'], body)
    assert False
except smtplib.SMTPRecipientsRefused:
    pass
s.quit()
print('done')
",
    );
    let out = finish(Command::new(python).args(["-c", &text]));
    assert_eq!((out.code, out.out.as_str()), (Some(0), "done\n"), "{}", out.text);
    let (to, content) = mail(&folder, 1);
    assert_eq!(to, "good@example.org other@example.org");
    assert_eq!(content, "Subject: one\r\n\r\n.\r\n..\r\n.hidden\r\nRCPT TO:<x@y>\r\nend\r\n");
    let (_, content) = mail(&folder, 2);
    assert_eq!(content.len(), "Subject: two\r\n\r\n".len() + 73 * 150_000);
    assert!(gateway.app.rss_kib() < 100_000, "{} KiB", gateway.app.rss_kib());
    // From now on that one is served, too.
    gateway.told(&["table", "denied", "delete", "key=bad@example.org"]);
    let mut client = Client::connect(port);
    client.take_line();
    client.send("EHLO me\r\n");
    while client.take_line().as_bytes().get(3) == Some(&b'-') {}
    client.send("MAIL FROM:<a@b.c>\r\nRCPT TO:<bad@example.org>\r\nDATA\r\n");
    for code in ["250", "250", "354"] {
        assert!(client.take_line().starts_with(code), "{code}");
    }
    client.send("Subject: three\r\n\r\nx\r\n.\r\nQUIT\r\n");
    assert!(client.take_line().starts_with("250 kept"));
    assert!(client.take_line().starts_with("221"));
    client.expect_closed();
    assert_eq!(mail(&folder, 3).0, "bad@example.org");
}

/// Replies stay in the order of pipelined commands, those of the gateway among them.
#[test]
fn refusals_stand_in_the_order_of_commands() {
    let Some(python) = python::with("aiosmtpd") else { return };
    let folder = Folder::new("smtp_order");
    let server = server(python, &folder);
    let (gateway, port) = gateway(&server);
    gateway.told(&["table", "denied", "insert", "key=no@x.y", "value=true"]);
    let mut client = Client::connect(port);
    client.take_line();
    client.send("HELO me\r\n");
    assert!(client.take_line().starts_with("250"));
    for _ in 0..20 {
        let all = "MAIL FROM:<a@b.c>\r\nRCPT TO:<no@x.y>\r\nRCPT TO:<yes@x.y>\r\nRCPT TO:<no@x.y>\r\nRSET\r\n";
        client.send(all);
        for code in ["250", "550", "250", "550", "250"] {
            let line = client.take_line();
            assert!(line.starts_with(code), "{code}: {line}");
        }
    }
}

/// Mails reach Postfix as they were sent, its refusals reach the client, and recipients that are
/// denied reach nobody.
#[test]
fn postfix_gets_the_mails_and_answers_through_the_gateway() {
    let Some(server) = Postfix::start("gateway") else { return };
    let (gateway, port) = gateway_to(server.port());
    gateway.told(&["table", "denied", "insert", "key=bad@example.org", "value=true"]);
    let text = format!(
        "
import smtplib
s = smtplib.SMTP('127.0.0.1', {port}, timeout=60)
s.ehlo()
# Postfix reads pieces by BDAT, which the gateway does not.
assert s.has_extn('pipelining') and not s.has_extn('chunking') and not s.has_extn('starttls'), s.esmtp_features
body = 'Subject: one\\r\\n\\r\\n.\\r\\n..\\r\\n.hidden\\r\\nRCPT TO:<x@y>\\r\\nend\\r\\n'
refused = s.sendmail('me@example.net', ['good@example.org', 'Bad@Example.org', 'far@example.com'], body)
assert sorted((k, v[0]) for k, v in refused.items()) == [('Bad@Example.org', 550), ('far@example.com', 554)], refused
assert b'Relay access denied' in refused['far@example.com'][1], refused
s.sendmail('me@example.net', ['good@example.org'], 'Subject: two\\r\\n\\r\\n' + ('.' + 'x' * 70 + '\\r\\n') * 100000)
try:
    s.sendmail('me@example.net', ['good@example.org'], 'Subject: large\\r\\n\\r\\n' + ('x' * 70 + '\\r\\n') * 10, ['SIZE=200000000'])
    assert False
except smtplib.SMTPSenderRefused as e: assert e.smtp_code == 552, e
assert s.vrfy('good@example.org')[0] == 252 and s.noop()[0] == 250 and s.docmd('NONSENSE')[0] in (500, 502)
s.quit()
print('done')
"
    );
    let out = finish(Command::new("python3").args(["-c", &text]));
    assert_eq!((out.code, out.out.as_str()), (Some(0), "done\n"), "{}", out.text);
    // Commands in one segment, with a recipient that is denied among them.
    let mut client = Client::connect(port);
    assert!(client.take_line().starts_with("220"));
    client.send("EHLO me\r\n");
    while client.take_line().as_bytes().get(3) == Some(&b'-') {}
    let all = "MAIL FROM:<me@example.net>\r\nRCPT TO:<bad@example.org>\r\nRCPT TO:<one@example.org>\r\nDATA\r\n";
    client.send(all);
    for code in ["250 2.1.0", "550 5.1.1", "250 2.1.5", "354"] {
        let line = client.take_line();
        assert!(line.starts_with(code), "{code}: {line}");
    }
    client.send("Subject: three\r\n\r\nthe end\r\n.\r\n");
    assert!(client.take_line().starts_with("250 2.0.0 Ok: queued"));
    // Postfix takes the first two for bad@example.org.
    for other in ["bad%example.org", "example.org!bad", "bad@[127.0.0.1]", "=?utf-8?q?bad?=@example.org"] {
        client.send(format!("MAIL FROM:<me@example.net>\r\nRCPT TO:<{other}>\r\nRSET\r\n"));
        for code in ["250 2.1.0", "550 5.1.1 this address is not served", "250 2.0.0"] {
            let line = client.take_line();
            assert!(line.starts_with(code), "{other}: {line}");
        }
    }
    client.send("QUIT\r\n");
    assert!(client.take_line().starts_with("221"));
    client.expect_closed();
    let mails = server.mails(3);
    let of = |subject: &str| {
        let found: Vec<_> = mails.iter().filter(|m| m.contains(&format!("\nSubject: {subject}\n"))).collect();
        assert_eq!(found.len(), 1, "{subject}");
        found[0].clone()
    };
    let text = |mail: &str| mail.split_once("\n\n").expect("a text behind the head").1.to_string();
    let one = of("one");
    assert_eq!(text(&one), ".\n..\n.hidden\nRCPT TO:<x@y>\nend\n");
    assert!(one.contains("X-Original-To: good@example.org\n"), "{one}");
    assert_eq!(text(&of("two")), format!(".{}\n", "x".repeat(70)).repeat(100_000));
    assert!(of("three").contains("X-Original-To: one@example.org\n"));
    assert_eq!(server.mails(3).len(), 3);
}

/// The limits of senders, of domains and of all others, changed while it runs.
#[test]
fn senders_have_limits() {
    let Some(python) = python::with("aiosmtpd") else { return };
    let folder = Folder::new("smtp_limits");
    let server = server(python, &folder);
    let (gateway, port) = gateway(&server);
    for (key, n) in [("ann@a.b", 2), ("@c.d", 1), ("*", 3)] {
        gateway.told(&["table", "mails_per_hour", "insert", &format!("key={key}"), &format!("value={n}")]);
    }
    let mut client = Client::connect(port);
    client.take_line();
    client.send("HELO me\r\n");
    assert!(client.take_line().starts_with("250"));
    let mut codes = |from: &str, n: usize| -> String {
        let all: String = (0..n).map(|_| format!("MAIL FROM:<{from}>\r\nRSET\r\n")).collect();
        client.send(all);
        let mut code = || client.take_line()[..3].to_string();
        let pairs: Vec<(String, String)> = (0..n).map(|_| (code(), code())).collect();
        assert!(pairs.iter().all(|(_, reset)| reset == "250"), "{pairs:?}");
        pairs.into_iter().map(|(mail, _)| mail + " ").collect()
    };
    assert_eq!(codes("Ann@A.b", 4), "250 250 450 450 ");
    // Each address has the limit of its domain for itself.
    assert_eq!(codes("x@c.d", 2), "250 450 ");
    assert_eq!(codes("y@c.d", 2), "250 450 ");
    assert_eq!(codes("any@where.else", 5), "250 250 250 450 450 ");
    // Reports of delivery have no sender. They count as one.
    assert_eq!(codes("", 4), "250 250 250 450 ");
    assert_eq!(codes("\"ann\"@a.b", 1), "550 ");
    // A higher limit holds at once; a second gives as many parts of a mail as it has mails.
    gateway.told(&["table", "mails_per_hour", "insert", "key=ann@a.b", "value=4"]);
    assert_eq!(codes("ann@a.b", 3), "250 250 450 ");
    gateway.told(&["table", "mails_per_hour", "insert", "key=x@c.d", "value=7200"]);
    for _ in 0..4 {
        assert_eq!(codes("x@c.d", 30).matches("250").count(), 30);
    }
    gateway.told(&["table", "mails_per_hour", "delete", "key=*"]);
    assert_eq!(codes("any@where.else", 3), "250 250 250 ");
    if !require_tool("swaks") {
        return;
    }
    let at = format!("127.0.0.1:{port}");
    let swaks = |from: &str| {
        let args =
            ["--server", &at, "--from", from, "--to", "to@x.y", "--helo", "me", "--body", "one\n.\ntwo", "--pipeline"];
        finish(Command::new("swaks").args(args))
    };
    let sent = swaks("bob@x.y");
    assert_eq!(sent.code, Some(0), "{}", sent.text);
    let (to, content) = mail(&folder, 1);
    assert!(to == "to@x.y" && content.contains("one\r\n.\r\ntwo"), "{content}");
    let refused = swaks("ann@a.b");
    assert!(refused.code != Some(0) && refused.text.contains("450 4.7.1"), "{}", refused.text);
}

/// A mail server of Python's own with STARTTLS. Of each client it writes down what came in plain
/// text, and how many bytes came in one piece with STARTTLS.
const SECURE: &str = r#"
import os, socket, ssl, sys, threading
port, folder = int(sys.argv[1]), sys.argv[2]
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain(folder + "/cert.pem", folder + "/key.pem")
listener = socket.create_server(("127.0.0.1", port))
def serve(s):
    seen, secure, data, mail = b"", False, False, []
    s.sendall(b"220 ready\r\n")
    while True:
        try: more = s.recv(65536)
        except OSError: more = b""
        if not more: return
        seen += more
        while b"\r\n" in seen:
            line, seen = seen.split(b"\r\n", 1)
            word = line[:8].upper()
            if data:
                if line == b".":
                    data = False
                    open(folder + "/mail.part", "wb").write((b"secret " if secure else b"plain ") + b"|".join(mail))
                    os.rename(folder + "/mail.part", folder + "/mail")
                    s.sendall(b"250 kept\r\n")
                else: mail.append(line)
            elif word == b"STARTTLS":
                open(folder + "/behind", "w").write(str(len(seen)))
                s.sendall(b"220 go on\r\n")
                try: s = context.wrap_socket(s, server_side=True)
                except OSError: return
                seen, secure = b"", True
            elif word[:4] == b"EHLO": s.sendall(b"250-mail\r\n" + (b"" if secure else b"250-STARTTLS\r\n") + b"250 8BITMIME\r\n")
            elif word[:4] == b"DATA":
                data = True
                s.sendall(b"354 go on\r\n")
            elif word[:4] == b"QUIT":
                s.sendall(b"221 bye\r\n")
                s.close()
                return
            else:
                open(folder + "/" + ("secret" if secure else "plain"), "ab").write(line + b"\n")
                s.sendall(b"250 ok\r\n")
while True:
    threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True).start()
"#;

/// smtplib's STARTTLS through the gateway, with a mail behind it. Commands that were put behind
/// STARTTLS reach the server neither in plain text nor encrypted (CVE-2011-0411).
#[test]
fn starttls_is_passed_on_and_nothing_is_put_behind_it() {
    if !require_tool("openssl") {
        return;
    }
    let folder = Folder::new("smtp_starttls");
    let key = ["-keyout", &folder.name_of("key.pem"), "-out", &folder.name_of("cert.pem")].map(String::from);
    let made = finish(
        Command::new("openssl")
            .args(["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost"])
            .args(&key),
    );
    assert_eq!(made.code, Some(0), "{}", made.text);
    let at = free_port();
    let mut command = Command::new("python3");
    command.args(["-c", SECURE, &at.to_string(), &folder.path().display().to_string()]);
    let server = Process::start("starttls", &mut command, at);
    let port = free_port();
    let set = format!("port={port}");
    let page = free_port();
    let (set_servers, admin_at) = (servers(&[server.port]), format!("127.0.0.1:{page}"));
    let args = [
        "apps/smtp_gateway.loom",
        "--set",
        &set,
        "--set",
        "starttls=true",
        "--set",
        &set_servers,
        "--admin",
        &admin_at,
    ];
    let _gateway = Controlled::run("smtp_gateway", &args);
    let text = format!(
        "
import smtplib, ssl
context = ssl.create_default_context(cafile='{cert}')
context.check_hostname = False
s = smtplib.SMTP('127.0.0.1', {port}, timeout=20)
s.ehlo()
assert s.has_extn('starttls')
assert s.starttls(context=context)[0] == 220
s.ehlo()
assert not s.has_extn('starttls')
# A large mail passes in both layers.
body = 'Subject: one\\r\\n\\r\\n' + ('x' * 70 + '\\r\\n') * 20000
s.sendmail('me@example.org', ['you@example.org'], body)
s.quit()
print('done')
",
        cert = folder.name_of("cert.pem"),
    );
    let out = finish(Command::new("python3").args(["-c", &text]));
    assert_eq!((out.code, out.out.as_str()), (Some(0), "done\n"), "{}", out.text);
    let mail = std::fs::read_to_string(folder.file("mail")).expect("the mail is there");
    assert!(mail.starts_with("secret Subject: one||xxx") && mail.len() > 1_400_000, "{} bytes", mail.len());
    assert_eq!(std::fs::read_to_string(folder.file("behind")).expect("it is there"), "0");
    let unseen = || !folder.file("plain").exists();
    assert!(unseen(), "a command came in plain text");
    // Commands in the same segment, and in the next one, before the server has answered.
    for pieces in [&["STARTTLS\r\nMAIL FROM:<evil@x.y>\r\n"][..], &["NOOP\r\nSTARTTLS\r\n", "MAIL FROM:<evil@x.y>\r\n"]]
    {
        let mut client = Client::connect(port);
        assert!(client.take_line().starts_with("220"));
        for p in pieces {
            client.send(p);
        }
        let rest = String::from_utf8(client.rest()).expect("text");
        assert!(rest.lines().all(|l| l.starts_with("220") || l.starts_with("250")), "{rest}");
        assert_eq!(std::fs::read_to_string(folder.file("behind")).expect("it is there"), "0");
    }
    let plain = std::fs::read_to_string(folder.file("plain")).unwrap_or_default();
    assert_eq!(plain.replace("NOOP\n", ""), "", "a command was put in");
    admin::eventually("they are counted", || admin::faults(&admin::status(page), "early") == 2);
    // The gateway still works.
    let mut client = Client::connect(port);
    assert!(client.take_line().starts_with("220"));
    client.send("EHLO me\r\nSTARTTLS\r\n");
    while !client.take_line().starts_with("220") {}
    // A client that leaves in the middle of a handshake leaves nothing behind.
    client.send("\x16\x03\x01");
    client.reset();
}
