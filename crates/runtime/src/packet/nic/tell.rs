//! The counts of the link, for `/metrics` and for the end of a run.

use super::layout::LinkRing;
use super::meter::{batch_cost, Link, NAMES};
use super::ring::Form;
use super::shared::Joint;
use crate::admin::Family;
use crate::view::View;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::Arc;
use wireloom_ir::desc::{Desc, HandlerOn};
use wireloom_ir::FramePart;

fn joints(view: &View) -> Vec<(&str, Arc<Joint>)> {
    view.apps.iter().filter_map(|a| Some((a.name(), a.app.program.outside()?.joint()?))).collect()
}

/// A word of the meters of a queue's rings, summed. Where somebody has spoiled the memory it may be
/// any number.
fn sum(joint: &Joint, port: usize, word: usize) -> u64 {
    of_queue(joint, port).map(|k| joint.ring(k).header().meter.0[word].load(Relaxed)).fold(0, u64::wrapping_add)
}

fn of_queue(joint: &Joint, port: usize) -> impl Iterator<Item = usize> + '_ {
    (0..joint.layout.ways.len()).filter(move |k| joint.layout.ways[*k].port == port)
}

/// The queues that lead over the link, each once.
fn queues(joint: &Joint) -> Vec<&LinkRing> {
    let mut all: Vec<&LinkRing> = Vec::new();
    for w in &joint.layout.ways {
        if !all.iter().any(|a| a.port == w.port) {
            all.push(w);
        }
    }
    all
}

fn damaged(joint: &Joint, port: usize) -> [u64; 2] {
    let of = |k: usize| {
        let ring = joint.ring(k);
        let h = ring.header();
        let damaged = h.consumer.damaged.load(Relaxed).wrapping_add(h.producer.damaged.load(Relaxed));
        [damaged, h.consumer.disordered.load(Relaxed)]
    };
    of_queue(joint, port).map(of).fold([0u64; 2], |a, b| [a[0].wrapping_add(b[0]), a[1].wrapping_add(b[1])])
}

/// In the Prometheus text format; nothing if no app has segments `on nic` in another process.
pub fn metrics(out: &mut String, view: &View) {
    let all = joints(view);
    if all.is_empty() {
        return;
    }
    let mut family = |name: &str, help: &str, words: &[usize]| {
        let mut f = Family::new(out, name, "counter", help);
        for (app, joint) in &all {
            for w in queues(joint) {
                for word in words {
                    f.add(
                        &[("app", app), ("queue", &joint.queues[w.port]), ("kind", NAMES[*word])],
                        sum(joint, w.port, *word),
                    );
                }
            }
        }
    };
    family("wireloom_link_entries_total", "Frames that have crossed the modelled link.", &[0]);
    family("wireloom_link_transactions_total", "Transactions of the modelled link.", &[1, 2, 3]);
    family("wireloom_link_status_reads_total", "Reads of status words over the modelled link.", &[4]);
    family("wireloom_link_tlps_total", "Packets of the modelled link's transaction layer.", &[5]);
    family("wireloom_link_bytes_total", "Bytes on the modelled link.", &[6, 7]);
    family("wireloom_link_virtual_ns_total", "Virtual time of the modelled link, in ns.", &[8, 9]);
    let mut f = Family::new(
        out,
        "wireloom_link_damaged_total",
        "counter",
        "Entries that were damaged, or came out of their turn.",
    );
    for (app, joint) in &all {
        for w in queues(joint) {
            for (kind, n) in ["damaged", "disordered"].iter().zip(damaged(joint, w.port)) {
                f.add(&[("app", app), ("queue", &joint.queues[w.port]), ("kind", kind)], n);
            }
        }
    }
    let mut f = Family::new(
        out,
        "wireloom_nic_restarts_total",
        "counter",
        "How often the process of the NIC was started again.",
    );
    all.iter().for_each(|(app, joint)| f.add(&[("app", app)], joint.restarts.load(Relaxed)));
}

/// A hundredth of a number that is given a hundredfold.
fn hundredths(n: u64, of: u64) -> String {
    let n = (u128::from(n) * 100 + u128::from(of / 2)) / u128::from(of.max(1));
    format!("{}.{:02}", n / 100, n % 100)
}

/// A line for each queue, for the end of a run.
pub fn summary(joint: &Joint) -> Vec<String> {
    let line = |w: &&LinkRing| {
        let [entries, reads, writes, doorbells, _, tlps, payload, overhead] =
            std::array::from_fn(|n| sum(joint, w.port, n));
        let transactions = reads.wrapping_add(writes).wrapping_add(doorbells);
        let way = if w.to_card { "from the CPU to the NIC" } else { "from the NIC to the CPU" };
        let harm = match damaged(joint, w.port) {
            [0, 0] => String::new(),
            [damaged, disordered] => format!(", {damaged} damaged, {disordered} out of turn"),
        };
        format!(
            "modelled link, `{}` {way}: {entries} frames, {transactions} transactions ({} a frame), {tlps} TLPs, \
             {payload} + {overhead} bytes ({} a frame){harm}",
            joint.queues[w.port],
            hundredths(transactions, entries),
            hundredths(payload.wrapping_add(overhead), entries),
        )
    };
    queues(joint).iter().map(line).collect()
}

/// The cost of full batches for queues that lead over the link, and its parameters. Empty: there
/// are none.
pub fn explained(desc: &Desc, link: &Link) -> String {
    let mut lines = Vec::new();
    for (n, port) in desc.ports.iter().enumerate() {
        let home = desc.handlers.iter().find(|h| h.on == HandlerOn::Frame { port: n as u32 });
        let Some(home) = home.and_then(|h| h.segment) else { continue };
        let nic = |s: u32| desc.segments[s as usize].nic;
        if port.senders.iter().any(|s| nic(*s) != nic(home)) {
            lines.push(format!("  {}: {}\n", port.name, costs(desc, link, n, nic(home))));
        }
    }
    if lines.is_empty() {
        return String::new();
    }
    let all: Vec<String> = link.all().iter().map(|(name, n)| format!("{name} {n}")).collect();
    format!("\nModelled link to the NIC\n{}  parameters: {}\n", lines.concat(), all.join(", "))
}

/// Of full batches of small and of large frames.
fn costs(desc: &Desc, link: &Link, port: usize, to_card: bool) -> String {
    let form = Form { slot: link.entry as usize, slots: 0 };
    let entry = desc.ports[port].entry as usize;
    let of = |frame: usize| {
        // A frame that may be cut is cut behind its headers: 54 bytes with IPv4 and TCP.
        let there = match desc.ports[port].part {
            FramePart::Whole => frame,
            FramePart::Headers(more) => frame.min(54 + more as usize),
            FramePart::Nothing => 0,
        };
        let c = batch_cost(link, &vec![form.crossing(entry + there); link.batch as usize], to_card);
        format!(
            "{} transactions and {} bytes per packet of {frame} bytes",
            hundredths(c.transactions(), c.entries),
            hundredths(c.payload + c.overhead, c.entries)
        )
    };
    format!("{}, {}", of(64), of(1500))
}
