// Prepared statements of mysql2, in the binary protocol, on a pool. Arguments: the port, the password.
const mysql = require("mysql2/promise");
const assert = require("assert");

async function main() {
  const pool = mysql.createPool({
    host: "127.0.0.1", port: +process.argv[2], user: "ann", password: process.argv[3], database: "shop",
    connectionLimit: 4, charset: "utf8mb4_general_ci",
  });
  const one = async (n) => {
    for (let i = 0; i < 50; i++) {
      const [rows] = await pool.execute("select ? + 1 as a, ? as b, ? as c", [n * 100 + i, "x".repeat(i), null]);
      assert.strictEqual(Number(rows[0].a), n * 100 + i + 1);
      assert.strictEqual(rows[0].b, "x".repeat(i));
      assert.strictEqual(rows[0].c, null);
    }
  };
  await Promise.all([...Array(8).keys()].map(one));
  // Prepared, executed and closed by hand, with other commands behind.
  const c = await pool.getConnection();
  for (let i = 0; i < 20; i++) {
    const statement = await c.prepare(`select ? as n, ${i}`);
    const [rows] = await statement.execute([i]);
    assert.equal(rows[0].n, i);
    await statement.close();
    const [[seven]] = await c.query("select 7 as n");
    assert.equal(seven.n, 7);
  }
  // More statements than the driver keeps: it closes the oldest ones.
  for (let i = 0; i < 300; i++) {
    const [rows] = await c.execute(`select ? as n${i}`, [i]);
    assert.equal(rows[0][`n${i}`], i);
  }
  await assert.rejects(c.execute("select nothing from nowhere where a = ?", [1]), (e) => e.errno === 1146);
  const [rows] = await c.execute("select ? as n", [9]);
  assert.equal(rows[0].n, 9);
  c.release();
  await pool.end();
  console.log("done");
}
main().catch((e) => { console.error(e); process.exit(1); });
