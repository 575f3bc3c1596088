//! A Postfix of a test's own: on the loopback only, with its own folders for settings, queue and
//! mail. Mails to anybody at example.org go to one folder.

use crate::folder::Folder;
use crate::{finish, free_port, require_tool, Process, PATIENCE};
use std::process::Command;
use std::time::Instant;

const PROGRAMS: &str = "/usr/lib/postfix/sbin";
/// Those that take part in a delivery to a folder.
const SERVICES: &str = "pickup unix n - n 60 1 pickup
cleanup unix n - n - 0 cleanup
qmgr unix n - n 300 1 qmgr
rewrite unix - - n - - trivial-rewrite
bounce unix - - n - 0 bounce
defer unix - - n - 0 bounce
trace unix - - n - 0 bounce
verify unix - - n - 1 verify
flush unix n - n 1000? 0 flush
proxymap unix - - n - - proxymap
error unix - - n - - error
retry unix - - n - - error
virtual unix - n n - - virtual
anvil unix - - n - 1 anvil
postlog unix-dgram n - n - 1 postlogd
";

pub struct Postfix {
    pub process: Process,
    folder: Folder,
}

impl Postfix {
    /// None: it is not installed, or must not change its users, which is said.
    pub fn start(name: &str) -> Option<Postfix> {
        if !require_tool("postfix") {
            return None;
        }
        // SAFETY: no arguments, no memory.
        if unsafe { libc::geteuid() } != 0 {
            eprintln!("SKIPPED: Postfix is started by root only");
            return None;
        }
        let folder = Folder::new(&format!("postfix-{name}"));
        let (at, port) = (folder.path().display().to_string(), free_port());
        for (part, user) in [("queue", "root"), ("data", "postfix"), ("mail", "nobody")] {
            std::fs::create_dir_all(folder.file(part)).expect("the folder is writable");
            let out = finish(Command::new("chown").args([user, &folder.name_of(part)]));
            assert_eq!(out.code, Some(0), "{}", out.text);
        }
        let id = |flag| finish(Command::new("id").args([flag, "nobody"])).out.trim().to_string();
        let settings = format!(
            "compatibility_level = 3.6\nqueue_directory = {at}/queue\ndata_directory = {at}/data\n\
             command_directory = /usr/sbin\ndaemon_directory = {PROGRAMS}\n\
             inet_interfaces = 127.0.0.1\ninet_protocols = ipv4\nmyhostname = mail.example.org\nmydestination =\n\
             mynetworks = 127.0.0.0/8\nalias_maps =\nlocal_recipient_maps =\nsmtpd_peername_lookup = no\n\
             virtual_mailbox_domains = example.org\nvirtual_mailbox_base = {at}/mail\n\
             virtual_mailbox_maps = static:all/\nvirtual_uid_maps = static:{}\nvirtual_gid_maps = static:{}\n\
             virtual_minimum_uid = 1\nvirtual_mailbox_limit = 0\nmessage_size_limit = 100000000\n\
             smtpd_recipient_restrictions = reject_unauth_destination\n\
             maillog_file = {at}/log\nmaillog_file_prefixes = {at}\n",
            id("-u"),
            id("-g"),
        );
        std::fs::write(folder.file("main.cf"), settings).expect("the folder is writable");
        let services = format!("127.0.0.1:{port} inet n - n - - smtpd\n{SERVICES}");
        std::fs::write(folder.file("master.cf"), services).expect("the folder is writable");
        // Makes the folders of the queue.
        let made = finish(Command::new("/usr/sbin/postfix").args(["-c", &at, "check"]));
        assert_eq!(made.code, Some(0), "{}", made.text);
        let mut master = Command::new(format!("{PROGRAMS}/master"));
        let process = Process::start("postfix", master.args(["-c", &at, "-d"]), port);
        Some(Postfix { process, folder })
    }

    pub fn port(&self) -> u16 {
        self.process.port
    }

    /// The mails that have been delivered, once there are so many.
    pub fn mails(&self, n: usize) -> Vec<String> {
        let until = Instant::now() + PATIENCE;
        loop {
            let files = std::fs::read_dir(self.folder.file("mail/all/new")).into_iter().flatten().flatten();
            let mut mails: Vec<_> = files.filter_map(|f| std::fs::read_to_string(f.path()).ok()).collect();
            if mails.len() >= n {
                mails.sort();
                return mails;
            }
            let log = || std::fs::read_to_string(self.folder.file("log")).unwrap_or_default();
            assert!(Instant::now() < until, "{} of {n} mails\n{}", mails.len(), log());
            std::thread::sleep(std::time::Duration::from_millis(50));
        }
    }
}
