// Clients of node's `ws` in a room of apps/websocket_gateway.loom. Argument: the port.
const { WebSocket } = require('ws');
const at = (name) => new WebSocket(`ws://127.0.0.1:${process.argv[2]}/${name}`, { perMessageDeflate: false });
const opened = (ws) => new Promise((good, bad) => ws.on('open', good).on('error', bad));
const fail = (why) => { console.log(why); process.exit(1); };
setTimeout(() => fail('too late'), 30000).unref();

(async () => {
    const [a, b] = [at('node'), at('node')];
    await Promise.all([opened(a), opened(b)]);
    const got = [];
    b.on('message', (data, binary) => got.push([data.toString('latin1'), binary]));
    a.send('text');
    a.send(Buffer.from([0, 255]));
    a.send('fra', { fin: false });
    a.send('gment', { fin: true });
    a.send('y'.repeat(65536));
    const pong = new Promise((good) => a.on('pong', (data) => good(data.toString())));
    a.ping('here?');
    if (await pong !== 'here?') fail('pong');
    while (got.length < 4) await new Promise((good) => setTimeout(good, 10));
    const want = [['text', false], ['\u0000\u00ff', true], ['fragment', false], ['y'.repeat(65536), false]];
    if (JSON.stringify(got) !== JSON.stringify(want)) fail(JSON.stringify(got).slice(0, 300));
    const over = new Promise((good) => a.on('close', (code) => good(code)));
    a.close(3456, 'bye');
    if (await over !== 3456) fail('close');
    const refused = new Promise((good) => b.on('close', (code) => good(code)));
    b.send('z'.repeat(65537));
    if (await refused !== 1009) fail('too big');
    console.log('done');
})();
