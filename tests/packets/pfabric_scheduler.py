"""Short and long flows that want more than the link has: the order in which the app sends is the model's, and short flows end far
sooner than behind a drop-tail queue of the same size."""
from common import *

RATE = 10_000_000


def tx(size):
    return size * 8 * NS // RATE


def pfabric(arrivals):
    """arrivals: (time, size, remaining, flow). In which order they are sent, and when each has been."""
    queue, free, sent = [], 0, []

    def due(t):
        nonlocal free
        while queue and free <= t:
            first = min(queue, key=lambda i: (arrivals[i][2], i))
            i = min(j for j in queue if arrivals[j][3] == arrivals[first][3])
            queue.remove(i)
            free += tx(arrivals[i][1])
            sent.append((i, free))
    for n, (t, size, left, _) in enumerate(arrivals):
        due(t)
        if not queue and free <= t:
            free = t + tx(size)
            sent.append((n, free))
            continue
        queue.append(n)
        if len(queue) > 32:  # whoever has most left; of equals the newest of those that waited, and the one that comes before any
            most = max(arrivals[i][2] for i in queue)
            queue.remove(n if left == most else max(i for i in queue if arrivals[i][2] == most))
    return sent


def drop_tail(arrivals):
    ends, sent, free = [], [], 0
    for n, (t, size, _, _) in enumerate(arrivals):
        ends = [e for e in ends if e > t]
        if len(ends) <= 32:
            free = max(free, t) + tx(size)
            ends.append(free)
            sent.append((n, free))
    return sent


def completion(arrivals, sent, flows):
    """Mean time of short flows of which all was sent, and their share."""
    done, count = {}, {}
    for i, t in sent:
        f = arrivals[i][3]
        done[f], count[f] = max(done.get(f, 0), t), count.get(f, 0) + 1
    short = [f for f, (_, n) in flows.items() if n <= 5]
    whole = [f for f in short if count.get(f) == flows[f][1]]
    return sum(done[f] - flows[f][0] for f in whole) / max(len(whole), 1), len(whole) / len(short)


def make(folder):
    arrivals, frames, flows, t = [], [], {}, START
    for f in range(300):
        t += int(random.expovariate(1 / 40e6))  # ns between flows
        n = random.choice([1, 2, 3, 5]) if f % 4 else random.randrange(100, 300)
        flows[f] = (t, n)
        for k in range(n):  # long flows send a little faster than the link, short ones at once
            gap = tx(1000) * 9 // 10 if n > 5 else tx(1000) // 10
            arrivals.append((t + k * gap + f, 1000 if n > 5 else random.randrange(200, 1000), (n - k) * 1000, f))
    arrivals.sort()
    for i in range(40):  # quiet packets at the end give the link time to send all
        arrivals.append((arrivals[-1][0] + 2 * NS, 100, 1, 1000))
    for t, size, left, f in arrivals:
        data = struct.pack("!I", left) + bytes(size - 14 - 20 - 8 - 4)
        frames.append((t, frame4(f"10.0.{f >> 8}.{f & 255}", "10.9.0.1", 17, 4000, 5160, data, ident=len(frames) & 0xFFFF)))
    write(f"{folder}/in.pcap", frames)
    save(folder, "arrivals.json", arrivals)
    save(folder, "flows.json", flows)


def check(folder):
    arrivals = [tuple(a) for a in load(folder, "arrivals.json")]
    flows = {int(f): tuple(v) for f, v in load(folder, "flows.json").items()}
    frames, got = read(f"{folder}/in.pcap"), read(f"{folder}/out.pcap")
    sent = pfabric(arrivals)
    need(len(sent) < len(arrivals) * 0.99, "the link is not overloaded")
    want = [(frames[i][1], end - tx(len(frames[i][1]))) for i, end in sent]
    for n, ((t, g), (w, begin)) in enumerate(zip(got, want)):
        need(g == w, "packet", n, "that is sent is another one")
        need(begin <= t <= begin + NS // 10_000, "packet", n, "leaves", t - begin, "ns after the link is free")
    need(len(got) == len(want), len(got), "packets are sent, not", len(want))
    (ours, whole), (tail, tail_whole) = completion(arrivals, sent, flows), completion(arrivals, drop_tail(arrivals), flows)
    need(whole > 0.99 and whole > tail_whole + 0.2, "short flows that came through whole:", whole, "of drop-tail's", tail_whole)
    need(ours < tail / 2, "short flows take", ours / 1e6, "ms; behind drop-tail", tail / 1e6)
    print(f"short flows: {ours / 1e6:.2f} ms, {whole:.1%} whole; drop-tail: {tail / 1e6:.2f} ms, {tail_whole:.1%} whole")


main(make, check)
