// lettuce and jedis with their defaults: `Clients.java PORT TAG [PASSWORD]`; says `good` twice.
import java.util.*;

public class Clients {
    static void check(boolean ok, String what) {
        if (!ok) {
            System.out.println("failed: " + what);
            System.exit(1);
        }
    }

    static void lettuce(int port, String t, String password) {
        var uri = io.lettuce.core.RedisURI.builder().withHost("127.0.0.1").withPort(port);
        if (password != null) uri.withPassword(password.toCharArray());
        var client = io.lettuce.core.RedisClient.create(uri.build());
        var c = client.connect().sync();
        check(c.ping().equals("PONG") && c.get(t + "none") == null, "ping");
        check(c.set(t + "a", "1").equals("OK") && c.get(t + "a").equals("1"), "set and get");
        check(c.hset(t + "h", "f", "x") && c.hgetall(t + "h").equals(Map.of("f", "x")), "a hash");
        check(c.mset(Map.of(t + "m1", "1", t + "m2", "2", t + "m3", "3")).equals("OK"), "mset");
        check(c.mget(t + "m1", t + "m2", t + "m3").get(2).getValue().equals("3") && c.del(t + "m1", t + "m2") == 2, "mget");
        var big = "0123456789".repeat(100_000);
        check(c.set(t + "big", big).equals("OK") && c.get(t + "big").equals(big), "a large value");
        c.multi();
        c.set("{" + t + "}x", "1");
        c.incr("{" + t + "}x");
        var done = c.exec();
        check(!done.wasDiscarded() && done.get(1).equals(2L), "a transaction");
        client.shutdown(java.time.Duration.ZERO, java.time.Duration.ofSeconds(1));
    }

    static void jedis(int port, String t, String password) {
        try (var c = new redis.clients.jedis.Jedis("127.0.0.1", port)) {
            if (password != null) c.auth(password);
            check(c.ping().equals("PONG") && c.get(t + "none") == null, "ping");
            check(c.set(t + "j", "1").equals("OK") && c.get(t + "j").equals("1"), "set and get");
            check(c.hset(t + "k", "f", "x") == 1 && c.hgetAll(t + "k").equals(Map.of("f", "x")), "a hash");
            check(c.mset(t + "n1", "1", t + "n2", "2", t + "n3", "3").equals("OK"), "mset");
            check(c.mget(t + "n1", t + "n2", t + "n4").equals(Arrays.asList("1", "2", null)), "mget");
            try (var m = c.multi()) {
                m.set("{" + t + "}y", "1");
                m.incr("{" + t + "}y");
                check(m.exec().equals(List.of("OK", 2L)), "a transaction");
            }
        }
        if (password != null) return;
        try (var c = redis.clients.jedis.RedisClient.create("127.0.0.1", port)) {
            check(c.set(t + "r", "1").equals("OK") && c.get(t + "r").equals("1"), "the pooled client");
        }
    }

    public static void main(String[] args) {
        var password = args.length > 2 ? args[2] : null;
        lettuce(Integer.parseInt(args[0]), args[1], password);
        System.out.println("good");
        jedis(Integer.parseInt(args[0]), args[1], password);
        System.out.println("good");
        System.exit(0);
    }
}
