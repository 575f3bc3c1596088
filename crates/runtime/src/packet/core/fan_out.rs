//! Several apps on one core. In: frames of a port that some of them read. Out: each app's handler
//! has seen each frame once, on the core that the key of its cluster says.
//!
//! The first app has the inputs, the buffers and the rings. The others borrow buffers and rings
//! during their turn. Each app in turn sees a frame in place. The last one owns it. Before that, an
//! app that changes frames gets copies, and a frame that an app sends is copied. Buffers that cross
//! cores carry a count of their holders.

use super::entries::EntryOf;
use super::PacketCore;
use crate::abi::{wl_frame, WL_F_OVERLOAD, WL_GONE};
use crate::packet::batch::{bytes, Batch, Buf};
use crate::packet::core_mesh::core_of;
use crate::packet::pool::NOTE;
use crate::stats::NO_PLACE;
use std::sync::Arc;
use wireloom_ir::desc::FrameUse;

/// An app that reads a port.
#[derive(Clone, Copy, Debug)]
pub struct Member {
    pub app: usize,
    pub port: u16,
    pub instance: u16,
    pub handler: u32,
    pub does: FrameUse,
}

/// Members whose frames are on one core, as they have one steering hash.
#[derive(Clone, Debug, Default)]
struct Cluster {
    /// Those that change frames come last.
    members: Vec<Member>,
    /// Whose program has the hash.
    hashes: usize,
}

/// The apps that read one instance of a port.
#[derive(Clone, Debug, Default)]
pub struct Fan {
    clusters: Vec<Cluster>,
}

impl Fan {
    pub fn clusters(&self) -> usize {
        self.clusters.len()
    }

    /// Names a cluster of a fan between cores.
    fn name(fan: usize, cluster: usize) -> u32 {
        (fan << 16 | cluster) as u32
    }

    pub fn is_read_by(&self, app: usize) -> bool {
        self.members().any(|m| m.app == app)
    }

    fn members(&self) -> impl Iterator<Item = &Member> {
        self.clusters.iter().flat_map(|c| &c.members)
    }
}

impl PacketCore {
    /// Has an app work, with this core's buffers and rings.
    pub fn with<R>(&mut self, app: usize, f: impl FnOnce(&mut PacketCore) -> R) -> R {
        let Some(k) = app.checked_sub(1) else { return f(self) };
        let swap = |this: &mut PacketCore| {
            let other = &mut this.others[k];
            std::mem::swap(&mut this.pool, &mut other.pool);
            std::mem::swap(&mut this.mesh, &mut other.mesh);
        };
        swap(self);
        let r = f(&mut self.others[k]);
        swap(self);
        r
    }

    fn of_app(&self, app: usize) -> &PacketCore {
        app.checked_sub(1).map_or(self, |k| &self.others[k])
    }

    /// Has all apps do something, the first one last.
    pub fn each(&mut self, mut f: impl FnMut(&mut PacketCore)) {
        for app in (0..=self.others.len()).rev() {
            self.with(app, &mut f);
        }
    }

    /// The apps of this core by themselves, at the end of a run.
    pub fn apart(mut self) -> Vec<PacketCore> {
        let others = std::mem::take(&mut self.others);
        std::iter::once(self).chain(others).collect()
    }

    /// Says when frames came, and counts them for all that read them.
    pub(super) fn came(&mut self, batch: &mut Batch, fan: usize) {
        let fans = self.fans.clone();
        let Some(first) = fans[fan].members().next() else { return };
        let now = self.with(first.app, |c| {
            if c.capture.is_none() {
                c.read_clock();
            }
            c.now
        });
        let size = batch.stamp(now, |_| {});
        for m in fans[fan].members() {
            self.stats[self.index].apps[m.app].ports[usize::from(m.port)].frames.came(batch.len(), size);
        }
    }

    pub(super) fn lost(&self, fan: usize, n: u64) {
        for m in self.fans[fan].members() {
            self.stats[self.index].apps[m.app].ports[usize::from(m.port)].frames.lost.add(n);
        }
    }

    /// The name of an input's port: that of the first app that reads it.
    pub(super) fn fan_name(&self, fan: usize) -> String {
        let Some(m) = self.fans[fan].members().next() else { return String::new() };
        let core = self.of_app(m.app);
        format!("{}.{}", core.app.app.desc.app, core.port_name(m.port.into(), m.instance.into()))
    }

    /// Gives received frames to all that read them.
    pub(super) fn fan_out(&mut self, batch: &mut Batch, fan: usize) {
        let (fans, cores) = (self.fans.clone(), self.stats.len());
        let clusters = &fans[fan].clusters;
        for (n, c) in clusters.iter().enumerate() {
            let last = n + 1 == clusters.len();
            match (cores, last) {
                (1, _) => self.deliver(batch, c, last),
                (_, true) => {
                    self.scatter(batch, c);
                    self.give_away(batch, Fan::name(fan, n));
                    self.deliver(batch, c, true);
                }
                (_, false) => {
                    let mut own = self.share_out(batch, c, Fan::name(fan, n));
                    self.deliver(&mut own, c, false);
                    own.clear();
                    self.part = own;
                }
            }
        }
        if clusters.is_empty() {
            batch.release(&mut self.pool);
        }
    }

    /// Finds out which core each frame is for.
    fn scatter(&mut self, batch: &Batch, c: &Cluster) {
        let (m, cores) = (&c.members[c.hashes], self.stats.len());
        let hashes = self.of_app(m.app).hashes(u32::from(m.port), &batch.frames);
        self.scatter.sort(batch.len(), |k| core_of(hashes[k], cores));
    }

    /// Gives other cores their frames, which stay in the batch; those of this core are the answer.
    fn share_out(&mut self, batch: &Batch, c: &Cluster, of: u32) -> Batch {
        self.scatter(batch, c);
        let mut own = std::mem::replace(&mut self.part, Batch::absent());
        for to in 0..self.stats.len() {
            for k in self.scatter.of(to).iter().map(|k| usize::from(*k)) {
                let (frame, buf) = (&batch.frames[k], batch.bufs[k]);
                if to == self.index {
                    own.push(buf, *frame);
                    continue;
                }
                self.pool.hold(buf);
                if !self.mesh.give(to, frame, buf, of) {
                    self.pool.put(buf); // cannot be: there was room
                }
            }
        }
        self.mesh.given();
        own
    }

    /// Frames that another core has given, for a cluster of this one.
    pub(super) fn deliver_given(&mut self, batch: &mut Batch, of: u32) {
        let fans = self.fans.clone();
        let (fan, cluster) = ((of >> 16) as usize, (of & 0xffff) as usize);
        match fans.get(fan).and_then(|f| f.clusters.get(cluster)) {
            Some(c) => self.deliver(batch, c, true),
            None => batch.release(&mut self.pool),
        }
    }

    /// Shows frames to each app of a cluster. `ours`: nobody on this core needs them afterwards.
    fn deliver(&mut self, batch: &mut Batch, c: &Cluster, ours: bool) {
        if batch.is_empty() {
            return;
        }
        let Some((last, before)) = c.members.split_last() else { return };
        for m in before {
            self.show(batch, m);
        }
        if !ours {
            return self.show(batch, last);
        }
        if self.only_looks(last) {
            self.look(batch, last);
            return batch.release(&mut self.pool);
        }
        let pool = &self.pool;
        let shared = batch.bufs.iter().enumerate().fold(0, |bits, (k, b)| bits | u128::from(pool.is_shared(*b)) << k);
        for f in &mut batch.frames {
            *f = last.sees(f);
        }
        self.with(last.app, |app| app.handle_for(batch, last, shared, false));
    }

    /// Whether an app leaves frames as they are and sends none.
    fn only_looks(&self, m: &Member) -> bool {
        m.does == FrameUse::Reads && self.of_app(m.app).is_quiet(m.handler)
    }

    /// Has an app that only looks handle frames: nothing is to be copied, routed or given back.
    fn look(&mut self, batch: &mut Batch, m: &Member) {
        for f in &mut batch.frames {
            (f.port, f.instance, f.out) = (m.port, m.instance, WL_GONE);
        }
        self.with(m.app, |app| {
            if app.capture.is_none() {
                app.read_clock();
            }
            app.run_batch(batch, m.handler, false);
        });
    }

    /// Has an app handle frames that stay where they are.
    fn show(&mut self, batch: &mut Batch, m: &Member) {
        if self.only_looks(m) {
            return self.look(batch, m);
        }
        let mut view = std::mem::replace(&mut self.view, Batch::absent());
        view.frames.extend(batch.frames.iter().map(|f| m.sees(f)));
        view.bufs.extend_from_slice(&batch.bufs);
        self.with(m.app, |app| app.handle_for(&mut view, m, u128::MAX, true));
        self.view = view;
    }

    /// `shared`: a bit for each frame that others need, too; `borrowed`: all are others', who give
    /// them back.
    fn handle_for(&mut self, batch: &mut Batch, m: &Member, shared: u128, borrowed: bool) {
        if self.capture.is_none() {
            self.read_clock();
        }
        if shared != 0 && m.does == FrameUse::Edits {
            self.copy_shared(batch, shared, borrowed);
            return self.handle(batch, m.handler);
        }
        (self.shared, self.borrowed) = (shared, borrowed);
        self.handle(batch, m.handler);
        self.shared = 0;
    }

    /// Puts copies in the place of shared frames. One for which there is no buffer is lost to this
    /// app.
    fn copy_shared(&mut self, batch: &mut Batch, shared: u128, borrowed: bool) {
        batch.retain(|k, frame, buf| {
            if shared >> k & 1 == 0 {
                return true;
            }
            let copy = self.copy_of(*frame, *buf, borrowed);
            if let Some(copy) = copy {
                (*frame, *buf) = copy;
            }
            copy.is_some()
        });
    }

    /// A copy of a frame with its port's note; the frame itself is done with.
    fn copy_of(&mut self, f: wl_frame, buf: Buf, borrowed: bool) -> Option<(wl_frame, Buf)> {
        let stored = self.store(bytes(&f), f.n as usize);
        let note: Option<[u8; NOTE]> = self.pool.note(buf).map(|n| *n);
        if !borrowed {
            self.pool.put(buf);
        }
        // Of a frame that leaves to a queue the port that it came through is not known any more.
        let to_queue = f.out != WL_GONE && self.queues.get((f.out >> 16) as usize) == Some(&true);
        let port = self.frame_stats(if to_queue { (f.out >> 16) as usize } else { f.port.into() });
        let Some((to, copy)) = stored else {
            port.dropped.add(1);
            self.count_fault(WL_F_OVERLOAD, NO_PLACE);
            return None;
        };
        port.copied.add(1);
        if let (Some(note), Some(n)) = (note, self.pool.note(to)) {
            *n = note;
        }
        Some((wl_frame { p: copy.p, head: copy.head, tail: copy.tail, ..f }, to))
    }

    /// Sends, of a batch that others need, too, copies.
    #[cold]
    pub(super) fn route_shared(&mut self, batch: &mut Batch) {
        for k in 0..batch.len() {
            match batch.frames[k].out {
                WL_GONE if self.borrowed => {}
                WL_GONE => self.pool.put(batch.bufs[k]),
                _ if k < self.staged => {}
                _ => self.stage_of(batch, k),
            }
        }
        self.entries.of = EntryOf::Buffer;
        batch.clear();
        self.flush();
    }

    /// Stages a frame of the batch at hand, or, if others need it, a copy.
    pub(super) fn stage_of(&mut self, batch: &Batch, k: usize) {
        let (frame, buf) = (self.whole(batch, k), batch.bufs[k]);
        self.entries.of = EntryOf::Frame(k);
        if self.shared >> k & 1 == 0 {
            return self.stage(frame, buf);
        }
        if let Some((copy, to)) = self.copy_of(frame, buf, self.borrowed) {
            self.stage(copy, to);
        }
    }

    /// A capture's time moves on to `time`, for all apps whose time it is.
    /// False: an app has to wait for another segment first.
    pub(super) fn all_catch_up(&mut self, time: u64) -> bool {
        let mut done = true;
        for app in 0..=self.others.len() {
            done &= self.with(app, |c| c.capture.is_none() || c.catch_up(time));
        }
        done
    }

    pub(super) fn all_loops(&mut self) {
        for app in 0..=self.others.len() {
            self.with(app, |c| c.run_loops());
        }
    }

    /// When a handler is due by a capture's time, of whichever app.
    pub(super) fn next_due(&self) -> u64 {
        let captured = self.others.iter().chain([self]).filter(|c| c.capture.is_some());
        captured.map(|c| c.due).min().unwrap_or(u64::MAX)
    }

    pub(super) fn no_queues(&self) -> bool {
        self.queues.is_empty() && self.others.iter().all(|c| c.queues.is_empty())
    }
}

impl Member {
    /// A frame as the app sees it.
    fn sees(&self, f: &wl_frame) -> wl_frame {
        wl_frame { port: self.port, instance: self.instance, out: WL_GONE, ..*f }
    }
}

/// Puts those that read one instance into clusters. `cluster`: by app, of the description;
/// `hashes`: whether its program has a steering hash.
pub fn fan(mut members: Vec<Member>, cluster: &dyn Fn(usize) -> Option<u32>, hashes: &dyn Fn(usize) -> bool) -> Fan {
    let mut clusters: Vec<Cluster> = Vec::new();
    members.sort_by_key(|m| (m.does, m.app));
    for m in members {
        let same = |c: &&mut Cluster| cluster(m.app).is_some() && cluster(c.members[0].app) == cluster(m.app);
        match clusters.iter_mut().find(same) {
            Some(c) => c.members.push(m),
            None => clusters.push(Cluster { members: vec![m], hashes: 0 }),
        }
    }
    for c in &mut clusters {
        c.hashes = c.members.iter().position(|m| hashes(m.app)).unwrap_or(0);
    }
    // The app that changes frames comes last of all.
    clusters.sort_by_key(|c| c.members.iter().map(|m| m.does).max());
    Fan { clusters }
}

/// Of all instances that are read by several apps, or of several.
pub type Fans = Arc<Vec<Fan>>;
