//! Work that local senders leave to a network card: checksums, and the cut of a large segment into
//! frames. Frames that never pass a card lack it. In: a frame from the kernel, with the kernel's
//! notes on it. Out: frames as they would be on the wire.

/// The offload work that is left for a frame from a port of the kernel. It lies in the note of the
/// frame's buffer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Undone {
    /// The checksum of TCP or UDP is not complete.
    checksum: bool,
    /// Bytes of payload of each frame into which this one is to be cut; 0: it is one.
    segment: u16,
}

impl Undone {
    pub const SIZE: usize = 4;

    pub fn read(b: &[u8]) -> Undone {
        Undone { checksum: b[0] != 0, segment: u16::from_ne_bytes([b[2], b[3]]) }
    }

    pub fn write(self, b: &mut [u8]) {
        b[0] = u8::from(self.checksum);
        b[2..4].copy_from_slice(&self.segment.to_ne_bytes());
    }

    /// Whether the frame is one, not several.
    pub fn is_one(self) -> bool {
        self.segment == 0
    }

    pub fn is_nothing(self) -> bool {
        self == Undone::default()
    }

    /// The kernel's header for a frame of TCP or UDP that the kernel completes and cuts. The
    /// frame's checksum field gets the sum of the pseudo header. `None`: the kernel cannot do it
    /// for this frame.
    pub fn header(self, f: &mut [u8]) -> Option<[u8; HEADER]> {
        let l = Layers::of(f).filter(|l| l.count == 1)?;
        let size = l.transport_size(f);
        let (field, end) = (l.field(), f.len());
        if l.transport + size > end || l.end(f) != end {
            return None;
        }
        let pseudo = fold(l.pseudo(f, end));
        f[field..field + 2].copy_from_slice(&pseudo.to_be_bytes());
        let kind = match (self.segment, l.proto, f[l.inner()] >> 4) {
            (0, ..) => 0,
            (_, 17, _) => UDP,
            (_, _, 4) => TCP4,
            _ => TCP6,
        };
        let mut h = [0; HEADER];
        (h[0], h[1]) = (NEEDS_CHECKSUM, kind);
        let lengths = [l.transport + size, self.segment.into(), l.transport, field - l.transport];
        for (to, n) in h[2..].chunks_exact_mut(2).zip(lengths) {
            to.copy_from_slice(&(n as u16).to_ne_bytes());
        }
        Some(h)
    }

    /// Completes a frame's checksum here; the old field does not matter.
    pub fn complete(self, f: &mut [u8]) {
        let Some(l) = Layers::of(f).filter(|_| self.checksum) else { return };
        let (field, end) = (l.field(), l.end(f));
        if end > f.len() || field + 2 > end {
            return;
        }
        f[field..field + 2].fill(0);
        let sum = l.pseudo(f, end) + ones(&f[l.transport..end]);
        write_sum(f, field, l.proto == 17, sum);
    }

    /// Has `large` cut the frame here. `false`: it is one, or of no kind that can be cut.
    pub fn cut(self, f: &[u8], large: &mut Large) -> bool {
        let Some(l) = Layers::of(f).filter(|_| self.segment > 0) else { return false };
        let left = OffloadHeader { checksum: Some((l.transport, l.field())), segment: self.segment.into() };
        large.set(f, &left, 0, true)
    }
}

/// The kernel's header before a frame (`struct virtio_net_hdr`).
pub const HEADER: usize = 10;
const NEEDS_CHECKSUM: u8 = 1;
const TCP4: u8 = 1;
const TCP6: u8 = 4;
const UDP: u8 = 5;

/// The part of that header that matters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OffloadHeader {
    /// Where the transport header begins and its checksum lies, if that is not complete.
    checksum: Option<(usize, usize)>,
    /// Bytes of payload per frame; 0: it is one.
    segment: usize,
}

impl OffloadHeader {
    pub fn of(h: &[u8; HEADER]) -> OffloadHeader {
        let word = |at: usize| usize::from(u16::from_ne_bytes([h[at], h[at + 1]]));
        let checksum = (h[0] & NEEDS_CHECKSUM != 0).then(|| (word(6), word(6) + word(8)));
        let cut = matches!(h[1] & 0x7f, TCP4 | TCP6 | UDP);
        OffloadHeader { checksum, segment: if cut { word(4) } else { 0 } }
    }

    /// The same for a frame into which so many bytes were put in front of the network header.
    pub fn shifted(self, by: usize) -> OffloadHeader {
        OffloadHeader { checksum: self.checksum.map(|(a, b)| (a + by, b + by)), ..self }
    }

    /// The same, for those behind this port to do.
    pub fn undone(&self) -> Undone {
        Undone { checksum: self.checksum.is_some(), segment: if self.is_large() { self.segment as u16 } else { 0 } }
    }

    /// Whether the frame is really several.
    pub fn is_large(&self) -> bool {
        self.segment != 0 && self.checksum.is_some()
    }

    /// Computes a frame's checksum if that was left undone. The field holds the sum of the pseudo
    /// header.
    pub fn complete(&self, frame: &mut [u8]) {
        if let Some((start, at)) = self.checksum {
            if at >= start && at + 2 <= frame.len() {
                let udp = at - start == 6;
                write_sum(frame, at, udp, ones(&frame[start..]));
            }
        }
    }
}

fn word(f: &[u8], at: usize) -> u16 {
    f.get(at..at + 2).map_or(0, |b| u16::from_be_bytes([b[0], b[1]]))
}

/// The sum of the 16-bit words.
fn ones(b: &[u8]) -> u64 {
    let mut sum = 0u64;
    let fours = b.chunks_exact(4);
    let rest = fours.remainder();
    for p in fours {
        sum += u64::from(u32::from_be_bytes([p[0], p[1], p[2], p[3]]));
    }
    let mut last = [0; 4];
    last[..rest.len()].copy_from_slice(rest);
    sum + u64::from(u32::from_be_bytes(last))
}

fn fold(mut sum: u64) -> u16 {
    while sum >> 16 != 0 {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

fn write_sum(frame: &mut [u8], at: usize, udp: bool, sum: u64) {
    let sum = match !fold(sum) {
        // By UDP 0 says that there is none.
        0 if udp => 0xffff,
        s => s,
    };
    frame[at..at + 2].copy_from_slice(&sum.to_be_bytes());
}

/// A network header with a transport header behind it, or with another one (IP in IP).
struct Layers {
    /// First bytes of the network headers, outer ones first; how many there are.
    ip: [usize; 4],
    count: usize,
    transport: usize,
    /// 6 or 17.
    proto: u8,
}

impl Layers {
    /// Of a frame of TCP or UDP. The fields are not to be trusted, but all named bytes up to
    /// `transport` are there.
    #[inline]
    fn of(f: &[u8]) -> Option<Layers> {
        let (mut kind, mut at) = (word(f, 12), 14);
        while matches!(kind, 0x8100 | 0x88a8) && at < 22 {
            kind = word(f, at + 2);
            at += 4;
        }
        let mut proto = match kind {
            0x0800 => 4,
            0x86dd => 41,
            _ => return None,
        };
        let mut l = Layers { ip: [0; 4], count: 0, transport: 0, proto: 0 };
        while matches!(proto, 4 | 41) && l.count < l.ip.len() {
            l.ip[l.count] = at;
            l.count += 1;
            if proto == 4 {
                let h = f.get(at..at + 20)?;
                if h[0] >> 4 != 4 || h[0] & 15 < 5 || word(h, 6) & 0x3fff != 0 {
                    return None;
                }
                proto = h[9];
                at += usize::from(h[0] & 15) * 4;
            } else {
                let h = f.get(at..at + 40)?;
                if h[0] >> 4 != 6 {
                    return None;
                }
                proto = h[6];
                at += 40;
                while matches!(proto, 0 | 43 | 60) {
                    let e = f.get(at..at + 8)?;
                    proto = e[0];
                    at += usize::from(e[1]) * 8 + 8;
                }
            }
        }
        (l.transport, l.proto) = (at, proto);
        (matches!(proto, 6 | 17) && at <= f.len()).then_some(l)
    }

    /// The IPv6 header behind which hop-by-hop options tell the length of a packet of more than 64
    /// KiB (RFC 2675), and nothing else.
    fn jumbo(&self, f: &[u8]) -> Option<usize> {
        let tells =
            |at: &usize| f[*at] >> 4 == 6 && f[at + 6] == 0 && matches!(f.get(at + 41..at + 44), Some([0, 0xc2, 4]));
        self.ip[..self.count].iter().copied().find(tells)
    }

    /// Bytes of the TCP or UDP header, by its own length field.
    fn transport_size(&self, f: &[u8]) -> usize {
        if self.proto == 17 {
            return 8;
        }
        f.get(self.transport + 12).map_or(0, |b| usize::from(b >> 4) * 4).max(20)
    }

    fn inner(&self) -> usize {
        self.ip[self.count - 1]
    }

    /// Where its checksum lies.
    fn field(&self) -> usize {
        self.transport + if self.proto == 6 { 16 } else { 6 }
    }

    /// Where the inner packet ends by its own length.
    fn end(&self, f: &[u8]) -> usize {
        let at = self.inner();
        if f[at] >> 4 == 4 {
            at + usize::from(word(f, at + 2))
        } else {
            at + 40 + usize::from(word(f, at + 4))
        }
    }

    /// The sum of the pseudo header of a packet that ends at `end`.
    fn pseudo(&self, f: &[u8], end: usize) -> u64 {
        let at = self.inner();
        let addresses = if f[at] >> 4 == 4 { at + 12..at + 20 } else { at + 8..at + 40 };
        u64::from(self.proto) + (end - self.transport) as u64 + ones(&f[addresses])
    }
}

/// Completes the checksum of a TCP or UDP packet that has the sum of its pseudo header in its
/// place. Senders leave it so to their hardware. (A complete checksum that is equal by chance is
/// the right one, and stays.)
#[inline]
pub fn complete_if_partial(f: &mut [u8]) {
    let Some(l) = Layers::of(f) else { return };
    let (field, end) = (l.field(), l.end(f));
    if end > f.len() || field + 2 > end {
        return;
    }
    let pseudo = fold(l.pseudo(f, end));
    if word(f, field) == pseudo {
        write_sum(f, field, l.proto == 17, ones(&f[l.transport..end]));
    }
}

/// A large segment of TCP or UDP, from which frames are taken one after the other.
#[derive(Default)]
pub struct Large {
    bytes: Vec<u8>,
    segment: usize,
    /// Where the payload begins, and the number of bytes and frames taken so far.
    headers: usize,
    taken: usize,
    count: u16,
    /// The end is there.
    whole: bool,
    pub time: u64,
}

impl Large {
    /// The next frame. `false`: it cannot be cut, and must be taken whole. Cuts only if all before
    /// was taken. If its end is missing (not `whole`), only full frames are taken, and none counts
    /// as the last.
    pub fn set(&mut self, frame: &[u8], left: &OffloadHeader, time: u64, whole: bool) -> bool {
        let Some(l) = Layers::of(frame) else { return false };
        let Some((start, _)) = left.checksum.filter(|_| left.segment > 0) else { return false };
        let size = l.transport_size(frame);
        let Some(payload) = frame.len().checked_sub(start + size) else { return false };
        let payload = if whole { payload } else { payload / left.segment * left.segment };
        if l.transport != start || payload == 0 {
            return false;
        }
        let frame = &frame[..start + size + payload];
        self.bytes.clear();
        self.bytes.extend_from_slice(frame);
        (self.segment, self.headers, self.taken, self.count, self.time) = (left.segment, start + size, 0, 0, time);
        self.whole = whole;
        if let Some(at) = l.jumbo(frame) {
            // Only the whole needs it: its pieces are of usual length.
            self.bytes[at + 6] = frame[at + 40];
            self.bytes.drain(at + 40..at + 48);
            self.headers -= 8;
        }
        true
    }

    /// The length of the next frame; 0: all have been taken.
    pub fn next(&self) -> usize {
        let rest = self.bytes.len().saturating_sub(self.headers + self.taken);
        if rest == 0 {
            0
        } else {
            self.headers + rest.min(self.segment)
        }
    }

    /// A TCP segment beyond the MTU, whose sender has not said how it is to be cut: into packets of
    /// the MTU. `false`: it is nothing of that kind.
    pub fn set_to_mtu(&mut self, frame: &[u8], mtu: usize) -> bool {
        let Some(l) = Layers::of(frame).filter(|l| l.proto == 6 && l.end(frame) <= frame.len()) else { return false };
        let Some(segment) = mtu.checked_sub(l.transport - l.ip[0] + l.transport_size(frame)).filter(|n| *n > 0) else {
            return false;
        };
        let partial = word(frame, l.field()) == fold(l.pseudo(frame, l.end(frame)));
        partial && self.set(frame, &OffloadHeader { checksum: Some((l.transport, l.field())), segment }, 0, true)
    }

    /// Writes the next frame, which has the length that `next` says.
    pub fn take(&mut self, to: &mut [u8]) {
        let (payload, from) = (to.len() - self.headers, self.headers + self.taken);
        to[..self.headers].copy_from_slice(&self.bytes[..self.headers]);
        to[self.headers..].copy_from_slice(&self.bytes[from..from + payload]);
        let (first, last) = (self.taken == 0, self.whole && from + payload == self.bytes.len());
        if let Some(l) = Layers::of(to) {
            self.adjust(to, &l, first, last);
        }
        self.taken += payload;
        self.count = self.count.wrapping_add(1);
    }

    /// Lengths, numbers, flags and checksums of a frame that was cut out.
    fn adjust(&self, f: &mut [u8], l: &Layers, first: bool, last: bool) {
        let n = f.len();
        for at in &l.ip[..l.count] {
            if f[*at] >> 4 == 6 {
                f[at + 4..at + 6].copy_from_slice(&((n - at - 40) as u16).to_be_bytes());
                continue;
            }
            let id = word(f, at + 4).wrapping_add(self.count);
            f[at + 2..at + 4].copy_from_slice(&((n - at) as u16).to_be_bytes());
            f[at + 4..at + 6].copy_from_slice(&id.to_be_bytes());
            f[at + 10..at + 12].fill(0);
            let size = usize::from(f[*at] & 15) * 4;
            write_sum(f, at + 10, false, ones(&f[*at..at + size]));
        }
        let t = l.transport;
        if l.proto == 6 {
            let sequence = u32::from_be_bytes([f[t + 4], f[t + 5], f[t + 6], f[t + 7]]).wrapping_add(self.taken as u32);
            f[t + 4..t + 8].copy_from_slice(&sequence.to_be_bytes());
            // FIN and PSH are the last one's, CWR is the first one's.
            f[t + 13] &= if last { 0xff } else { !0x09 };
            f[t + 13] &= if first { 0xff } else { !0x80 };
        } else {
            f[t + 4..t + 6].copy_from_slice(&((n - t) as u16).to_be_bytes());
        }
        let (field, pseudo) = (l.field(), l.pseudo(f, n));
        f[field..field + 2].fill(0);
        let sum = pseudo + ones(&f[t..]);
        write_sum(f, field, l.proto == 17, sum);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packet(proto: u8, transport: &[u8]) -> Vec<u8> {
        let mut f = vec![0u8; 12];
        f.extend([8, 0, 0x45, 0, 0, 0, 0xff, 0xff, 0, 0, 64, proto, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
        f.extend(transport);
        let total = (f.len() - 14) as u16;
        f[16..18].copy_from_slice(&total.to_be_bytes());
        f
    }

    fn sums_are_right(f: &[u8]) -> bool {
        let l = Layers::of(f).unwrap();
        let end = l.end(f);
        l.ip[..l.count].iter().all(|at| f[*at] >> 4 == 6 || fold(ones(&f[*at..at + 20])) == 0xffff)
            && fold(l.pseudo(f, end) + ones(&f[l.transport..end])) == 0xffff
    }

    #[test]
    fn checksums_are_completed() {
        // UDP with "abc", and two bytes of padding behind.
        let mut f = packet(17, &[0, 1, 0, 2, 0, 11, 0, 0, b'a', b'b', b'c']);
        f[24..26].fill(0);
        let sum = !fold(ones(&f[14..34]));
        f[24..26].copy_from_slice(&sum.to_be_bytes());
        let l = Layers::of(&f).unwrap();
        let pseudo = fold(l.pseudo(&f, f.len()));
        f[40..42].copy_from_slice(&pseudo.to_be_bytes());
        let mut by_header = f.clone();
        OffloadHeader { checksum: Some((34, 40)), segment: 0 }.complete(&mut by_header);
        assert!(sums_are_right(&by_header));
        f.extend([9, 9]);
        let mut by_look = f.clone();
        complete_if_partial(&mut by_look);
        assert_eq!(by_look[..45], by_header[..]);
        // A complete checksum stays, a wrong one too.
        for add in [0, 1] {
            let mut same = by_look.clone();
            same[41] = same[41].wrapping_add(add);
            let before = same.clone();
            complete_if_partial(&mut same);
            assert_eq!(same, before);
        }
        for cut in 0..f.len() {
            complete_if_partial(&mut f[..cut].to_vec());
            OffloadHeader { checksum: Some((34, 40)), segment: 0 }.complete(&mut f[..cut].to_vec());
        }
    }

    #[test]
    fn large_segments_are_cut() {
        let mut tcp = vec![0, 1, 0, 2, 0xff, 0xff, 0xff, 0, 0, 0, 0, 0, 0x60, 0x99, 1, 1, 0, 0, 0, 0, 1, 1, 1, 1];
        tcp.extend((0..2500u32).map(|i| i as u8));
        for tunnelled in [false, true] {
            let mut f = packet(6, &tcp);
            if tunnelled {
                let inner = f[14..].to_vec();
                f = packet(4, &inner);
            }
            let start = f.len() - tcp.len();
            let left = OffloadHeader { checksum: Some((start, start + 16)), segment: 1000 };
            let mut large = Large::default();
            assert!(left.is_large() && large.set(&f, &left, 7, true));
            let mut frames = Vec::new();
            while large.next() > 0 {
                let mut to = vec![0xee; large.next()];
                large.take(&mut to);
                frames.push(to);
            }
            assert_eq!(frames.iter().map(|f| f.len() - start - 24).collect::<Vec<_>>(), [1000, 1000, 500]);
            let joined: Vec<u8> = frames.iter().flat_map(|f| f[start + 24..].to_vec()).collect();
            assert_eq!(joined, tcp[24..]);
            assert_eq!(frames.iter().map(|f| f[start + 13]).collect::<Vec<_>>(), [0x90, 0x10, 0x19], "flags");
            assert_eq!(
                frames.iter().map(|f| (word(f, start + 4), word(f, start + 6))).collect::<Vec<_>>(),
                [(0xffff, 0xff00), (0, 0x2e8), (0, 0x6d0)]
            );
            assert_eq!(frames.iter().map(|f| word(f, 18)).collect::<Vec<_>>(), [0xffff, 0, 1], "identifications");
            assert!(frames.iter().all(|f| sums_are_right(f)));
            // Without its end it has no last frame: FIN would stand at a wrong place.
            let mut large = Large::default();
            assert!(
                large.set(&f[..f.len() - 1], &left, 7, false) && !large.set(&f[..start + 24 + 999], &left, 7, false)
            );
            let mut frames = Vec::new();
            while large.next() > 0 {
                let mut to = vec![0xee; large.next()];
                large.take(&mut to);
                frames.push((to.len() - start - 24, to[start + 13]));
            }
            assert_eq!(frames, [(1000, 0x90), (1000, 0x10)]);
            // Lies in the header are no reason to panic.
            for at in 0..start + 24 {
                for value in [0, 0x45, 0xff, f[at] ^ 0x10] {
                    let mut g = f.clone();
                    g[at] = value;
                    let mut large = Large::default();
                    if large.set(&g, &left, 7, true) {
                        while large.next() > 0 {
                            let mut to = vec![0; large.next()];
                            large.take(&mut to);
                        }
                    }
                }
            }
        }
    }

    /// BIG TCP: the kernel puts a length above 64 KiB into hop-by-hop options.
    #[test]
    fn jumbograms_are_cut_into_plain_packets() {
        let mut f = vec![0u8; 12];
        f.extend([0x86, 0xdd, 0x60, 0, 0, 0, 0, 0, 0, 64]);
        f.extend([1; 16]);
        f.extend([2; 16]);
        f.extend([6, 0, 0xc2, 4, 0, 1, 0x86, 0xb4]);
        f.extend([0, 1, 0, 2, 0, 0, 0, 9, 0, 0, 0, 0, 0x50, 0x18, 1, 1, 0, 0, 0, 0]);
        let start = f.len() - 20;
        f.extend((0..100_000u32).map(|i| (i % 251) as u8));
        let (mut large, mut joined, mut count) = (Large::default(), Vec::new(), 0);
        assert!(large.set(&f, &OffloadHeader { checksum: Some((start, start + 16)), segment: 1440 }, 7, true));
        while large.next() > 0 {
            let mut to = vec![0; large.next()];
            large.take(&mut to);
            assert!(
                to.len() <= 1514 && to[20] == 6 && usize::from(word(&to, 18)) == to.len() - 54 && sums_are_right(&to)
            );
            joined.extend_from_slice(&to[74..]);
            count += 1;
        }
        assert_eq!((count, joined == f[start + 20..]), (70, true));
        // Cut off within the options.
        assert!((0..start + 20).all(|n| !large.set(
            &f[..n],
            &OffloadHeader { checksum: Some((start, start + 16)), segment: 1440 },
            7,
            true
        )));
    }

    #[test]
    fn what_is_undone_is_told_to_the_kernel_or_done_here() {
        let mut tcp = vec![0, 1, 0, 2, 0, 0, 0, 1, 0, 0, 0, 0, 0x50, 0x10, 1, 1, 0, 0, 0, 0];
        tcp.extend((0..2500u32).map(|i| i as u8));
        let undone = Undone { checksum: true, segment: 1000 };
        let mut note = [0xee; Undone::SIZE];
        undone.write(&mut note);
        assert_eq!(Undone::read(&note), undone);
        // A program has changed an address, and with it the field as if that were complete: its
        // content does not matter.
        let mut f = packet(6, &tcp);
        f[50..52].copy_from_slice(&[0xab, 0xcd]);
        let h = undone.header(&mut f).unwrap();
        assert_eq!(OffloadHeader::of(&h), OffloadHeader { checksum: Some((34, 50)), segment: 1000 });
        assert_eq!((h[0], h[1], word(&f, 50)), (1, TCP4, fold(Layers::of(&f).unwrap().pseudo(&f, f.len()))));
        // The kernel's header cannot describe a tunnel.
        let mut tunnelled = packet(4, &f[14..]);
        assert_eq!(undone.header(&mut tunnelled), None);
        let mut large = Large::default();
        assert!(undone.cut(&tunnelled, &mut large));
        while large.next() > 0 {
            let mut to = vec![0; large.next()];
            large.take(&mut to);
            assert!(to.len() <= 14 + 20 + 20 + 20 + 1000 && sums_are_right(&to));
        }
        let one = Undone { checksum: true, segment: 0 };
        assert_eq!(one.header(&mut f).map(|h| (h[0], h[1])), Some((1, 0)));
        f[24..26].fill(0);
        let sum = !fold(ones(&f[14..34]));
        f[24..26].copy_from_slice(&sum.to_be_bytes());
        one.complete(&mut f);
        assert!(sums_are_right(&f));
        // Cut off, or with wrong lengths in its headers, it is sent unchanged.
        for n in 0..55 {
            let mut g = f[..n].to_vec();
            assert_eq!(one.header(&mut g), None, "{n}");
            one.complete(&mut g);
            assert!(!undone.cut(&g, &mut large), "{n}");
        }
    }

    #[test]
    fn what_the_kernel_says_is_read() {
        let mut h = [1, TCP4 | 0x80, 54, 0, 0, 0, 0, 0, 0, 0];
        h[4..6].copy_from_slice(&1448u16.to_ne_bytes());
        h[6..8].copy_from_slice(&34u16.to_ne_bytes());
        h[8..10].copy_from_slice(&16u16.to_ne_bytes());
        assert_eq!(OffloadHeader::of(&h), OffloadHeader { checksum: Some((34, 50)), segment: 1448 });
        assert_eq!(OffloadHeader::of(&h).shifted(4), OffloadHeader { checksum: Some((38, 54)), segment: 1448 });
        assert_eq!(OffloadHeader::of(&[0; 10]), OffloadHeader::default());
    }
}
