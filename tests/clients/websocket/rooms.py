"""Clients of Python's `websockets` in rooms of apps/websocket_gateway.loom. Arguments: the port, a part."""

import asyncio
import random
import sys

import websockets
from websockets.asyncio.client import connect

PORT, PART = int(sys.argv[1]), sys.argv[2]


def room(name, **more):
    return connect(f"ws://127.0.0.1:{PORT}/{name}", compression=None, ping_interval=None, **more)


async def rooms():
    async with room("news") as a, room("news?from=b") as b, room("sports") as c:
        await a.send("hello")
        assert await b.recv() == "hello"
        # Text and bytes keep their kind.
        await b.send(b"\x00\xff")
        assert await a.recv() == b"\x00\xff"
        # Lengths around those where the form changes.
        for n in (0, 1, 125, 126, 127, 65535, 65536):
            await a.send("x" * n)
            got = await b.recv()
            assert got == "x" * n, (n, len(got))
        # Fragments, and a character that is cut between two.
        await a.send(["fr", "ag", "ments"])
        assert await b.recv() == "fragments"
        # A ping between messages is answered with its payload.
        pong = await a.ping("are you there")
        await asyncio.wait_for(pong, 10)
        await c.send("nobody hears it")
        await asyncio.sleep(0.2)
        for other in (a, b):
            try:
                got = await asyncio.wait_for(other.recv(), 0.05)
                raise AssertionError(got)
            except asyncio.TimeoutError:
                pass
        await a.close(4321, "enough")
        assert a.close_code == 4321
    # A member that has left gets nothing, and leaves nobody behind.
    async with room("news") as a, room("news") as b:
        await a.send("again")
        assert await b.recv() == "again"


async def killed():
    """Members come, are killed and leave; those that stay get each message of the others, in order."""
    rng, over = random.Random(7), asyncio.Event()

    async def churn(k):
        while not over.is_set():
            ws = await room(f"r{k % 3}")
            try:
                async with asyncio.timeout(rng.random() * 0.05):
                    while True:
                        got = await ws.recv()
                        assert got.startswith(f"r{k % 3} "), got
            except TimeoutError:
                pass
            if rng.random() < 0.5:
                ws.transport.abort()
            else:
                await ws.close()

    stay = [await room(f"r{n % 3}", max_queue=None) for n in range(9)]
    pubs = [await room(f"r{n}", max_queue=None) for n in range(3)]
    churning = [asyncio.create_task(churn(k)) for k in range(12)]
    rounds = 400

    async def talk(n):
        for i in range(rounds):
            await pubs[n].send(f"r{n} {i} " + "." * rng.choice([0, 100, 5000]))
            if i % 10 == 0:
                await asyncio.sleep(0.005)

    async def hear(n):
        for i in range(rounds):
            got = await asyncio.wait_for(stay[n].recv(), 60)
            assert got.startswith(f"r{n % 3} {i} "), (n, i, got[:20])

    await asyncio.gather(*(talk(n) for n in range(3)), *(hear(n) for n in range(9)))
    over.set()
    await asyncio.gather(*churning)
    for ws in stay + pubs:
        await ws.close()


async def slow():
    """A member that does not read holds up nobody."""
    deaf = await room("slow", max_queue=1)
    async with room("slow", max_queue=None) as a, room("slow", max_queue=None) as b:
        # One that reads is never more than 8 messages behind.
        for i in range(0, 600, 8):
            for k in range(i, i + 8):
                await a.send(f"{k} " + "." * 60000)
            for k in range(i, i + 8):
                got = await asyncio.wait_for(b.recv(), 60)
                assert got.startswith(f"{k} "), (k, got[:20])
    deaf.transport.abort()


async def refused():
    """Handshakes that a browser would not make."""
    for headers, want in [({"Sec-WebSocket-Version": "8"}, 426), ({"Sec-WebSocket-Key": "short"}, 400)]:
        reader, writer = await asyncio.open_connection("127.0.0.1", PORT)
        lines = {
            "Host": "a", "Connection": "keep-alive, Upgrade", "Upgrade": "WebSocket",
            "Sec-WebSocket-Version": "13", "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
        }
        lines.update(headers)
        writer.write(b"GET /a HTTP/1.1\r\n" + b"".join(f"{k}: {v}\r\n".encode() for k, v in lines.items()) + b"\r\n")
        head = await reader.read()
        assert head.startswith(f"HTTP/1.1 {want} ".encode()), head
        assert b"sec-websocket-version: 13\r\n" in head, head
        writer.close()
    # A room that is full.
    full = [await room("full") for _ in range(5)]
    try:
        await room("full")
        raise AssertionError("there was room")
    except websockets.exceptions.InvalidStatus as e:
        assert e.response.status_code == 503, e.response
    for ws in full:
        await ws.close()


async def subprotocols():
    """The gateway prefers v2.chat to v1.chat."""
    for offered, want in [
        (["v1.chat", "v2.chat"], "v2.chat"), (["v1.chat"], "v1.chat"), (["soap", "v1.chat"], "v1.chat"),
        (["soap"], None), (["V1.chat"], None), (None, None),
    ]:
        async with room("sub", subprotocols=offered) as ws:
            assert ws.subprotocol == want, (offered, ws.subprotocol)


asyncio.run(globals()[PART]())
print("done")
