// ioredis and node-redis with their defaults: `client.mjs PORT TAG [PASSWORD]`; says `good` twice. WIRELOOM_MODULES: where they are.
import { createRequire } from 'module';
import assert from 'assert';
const [port, t, password] = process.argv.slice(2);
const require = createRequire(process.env.WIRELOOM_MODULES + '/');
const big = '0123456789'.repeat(100000);
const names = [...Array(50).keys()].map(i => `${t}m${i}`);

async function withIoredis() {
  const Redis = require('ioredis');
  const c = new Redis({ port: +port, password, maxRetriesPerRequest: 1 });
  assert.equal(await c.ping(), 'PONG');
  assert.equal(await c.set(t + 'a', '1'), 'OK');
  assert.equal(await c.get(t + 'a'), '1');
  assert.equal(await c.get(t + 'none'), null);
  assert.equal(await c.hset(t + 'h', 'f', 'x'), 1);
  assert.deepEqual({ ...await c.hgetall(t + 'h') }, { f: 'x' });
  assert.equal(await c.mset(...names.flatMap(n => [n, n])), 'OK');
  assert.deepEqual(await c.mget(...names, t + 'none'), [...names, null]);
  assert.equal(await c.del(...names), 50);
  assert.equal(await c.set(t + 'big', big), 'OK');
  assert.equal(await c.get(t + 'big'), big);
  const many = await Promise.all([...Array(100).keys()].map(i => c.set(t + i, i).then(() => c.get(t + i))));
  assert.deepEqual(many, [...Array(100).keys()].map(String));
  assert.deepEqual(await c.multi().set(`{${t}}x`, 1).incr(`{${t}}x`).exec(), [[null, 'OK'], [null, 2]]);
  await assert.rejects(c.lpush(t + 'a', 1), /WRONGTYPE/);
  await c.quit();
}

async function withNodeRedis() {
  const { createClient } = require('redis');
  const c = createClient({ socket: { port: +port, reconnectStrategy: false }, password });
  c.on('error', e => { throw e; });
  await c.connect();
  assert.equal(await c.ping(), 'PONG');
  assert.equal(await c.get(t + 'none'), null);
  assert.equal(await c.hSet(t + 'k', { f: 'x', g: 'y' }), 2);
  assert.deepEqual({ ...await c.hGetAll(t + 'k') }, { f: 'x', g: 'y' });
  assert.equal(await c.mSet(names.map(n => [n, n])), 'OK');
  assert.deepEqual(await c.mGet([...names, t + 'none']), [...names, null]);
  assert.equal(await c.set(t + 'big', big), 'OK');
  assert.equal(await c.get(t + 'big'), big);
  assert.deepEqual(await c.multi().set(`{${t}}y`, 1).incr(`{${t}}y`).exec(), ['OK', 2]);
  await assert.rejects(c.lPush(t + 'a', '1'), /WRONGTYPE/);
  await c.close();
}

await withIoredis();
console.log('good');
await withNodeRedis();
console.log('good');
