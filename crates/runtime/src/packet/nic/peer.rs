//! The peer: the main thread of the NIC's process. It does what the agent says: it has signals run,
//! shows counters, and ends with the other process.

use super::channel::Channel;
use super::mirror::{show, show_tables};
use super::role::Inherited;
use super::shared::Joint;
use crate::core::app::App;
use crate::error::Error;
use crate::server::options::Stop;
use crate::signal::Post;
use crate::stats::CoreStats;
use serde_json::{json, Value};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;
use wireloom_ir::desc::ParamValue;

/// Between two looks at the counters.
const LOOK: Duration = Duration::from_millis(10);

/// The way to the agent.
pub struct AgentPeer {
    channel: Channel,
    stop: Stop,
}

/// The peer's means.
pub struct Served<'a> {
    pub joint: &'a Joint,
    pub app: &'a App,
    pub stats: &'a Arc<Vec<CoreStats>>,
    pub post: &'a Post,
    pub wake: &'a dyn Fn(),
}

impl AgentPeer {
    pub fn of(inherited: &Inherited, stop: Stop) -> Result<AgentPeer, Error> {
        let socket: Option<OwnedFd> = inherited.socket.lock().unwrap_or_else(|e| e.into_inner()).take();
        let socket = socket.ok_or_else(|| Error::Program("the process of the NIC was started twice".into()))?;
        let channel = Channel::open(socket).map_err(|e| Error::Io("cannot reach the process of the CPU".into(), e))?;
        Ok(AgentPeer { channel, stop })
    }

    pub fn ready(&mut self, ports: &[(String, String, String)]) {
        let _ = self.channel.send(&json!({ "is": "ready", "ports": ports }));
    }

    /// The last word: that all has ended in order, or why not.
    pub fn ended(&mut self, error: Option<String>) {
        let _ = self.channel.send(&json!({ "is": "ended", "error": error }));
    }

    /// Somebody has told this process to end.
    pub fn stop(&mut self) {
        let _ = self.channel.send(&json!({ "is": "stop" }));
    }

    /// One round; `gone`: the other process has ended.
    pub fn step(&mut self, of: &Served) -> bool {
        self.show(of);
        match self.channel.receive(LOOK) {
            Ok(Some(m)) => self.act(&m, of),
            Ok(None) => {}
            Err(_) => {
                self.stop.end();
                (of.wake)();
                return false;
            }
        }
        true
    }

    /// Shows the counters.
    pub fn show(&self, of: &Served) {
        for core in Joint::nic_cores(&of.app.desc) {
            show(&of.stats[core], of.joint.core_words(core));
        }
        show_tables(of.app, of.joint.table_words());
    }

    fn act(&mut self, m: &Value, of: &Served) {
        match m["do"].as_str() {
            Some("drain") => self.stop.drain(),
            Some("end") => self.stop.end(),
            Some("signal") => {
                let mut answer = signal(m, of);
                answer["id"] = m["id"].clone();
                let _ = self.channel.send(&answer);
            }
            _ => {}
        }
        (of.wake)();
    }
}

fn signal(m: &Value, of: &Served) -> Value {
    let refused = json!({ "is": "answer", "fault": [crate::abi::WL_F_REFUSED, crate::stats::NO_PLACE] });
    let (Some(core), Some(handler)) = (m["core"].as_u64(), m["handler"].as_u64()) else { return refused };
    let Ok(args) = serde_json::from_value::<Vec<ParamValue>>(m["args"].clone()) else { return refused };
    if core as usize >= of.stats.len() {
        return refused;
    }
    match of.post.ask(0, core as usize, move |run| run(handler as u32, &args)).answer() {
        Some(Ok(result)) => json!({ "is": "answer", "result": result }),
        Some(Err((kind, place))) => json!({ "is": "answer", "fault": [kind, place] }),
        None => refused,
    }
}
