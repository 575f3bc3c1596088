// go-redis with its defaults: `main PORT TAG [PASSWORD]`; says `good`.
package main

import (
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/redis/go-redis/v9"
)

func check(ok bool, what string) {
	if !ok {
		fmt.Println("failed:", what)
		os.Exit(1)
	}
}

func main() {
	ctx, t := context.Background(), os.Args[2]
	options := &redis.Options{Addr: "127.0.0.1:" + os.Args[1]}
	if len(os.Args) > 3 {
		options.Password = os.Args[3]
	}
	c := redis.NewClient(options)
	check(c.Ping(ctx).Val() == "PONG", "ping")
	check(c.Get(ctx, t+"none").Err() == redis.Nil, "a miss")
	check(c.Set(ctx, t+"a", "1", 0).Err() == nil && c.Get(ctx, t+"a").Val() == "1", "set and get")
	check(c.HSet(ctx, t+"h", "f", "x").Val() == 1 && c.HGetAll(ctx, t+"h").Val()["f"] == "x", "a hash")
	check(c.ZAdd(ctx, t+"z", redis.Z{Score: 1.5, Member: "m"}).Val() == 1, "zadd")
	z := c.ZRangeWithScores(ctx, t+"z", 0, -1).Val()
	check(len(z) == 1 && z[0].Score == 1.5, "scores")
	var pairs []any
	var names []string
	for i := range 50 {
		n := fmt.Sprint(t, "m", i)
		pairs, names = append(pairs, n, n), append(names, n)
	}
	check(c.MSet(ctx, pairs...).Err() == nil, "mset")
	for i, v := range c.MGet(ctx, names...).Val() {
		check(v == names[i], "mget")
	}
	check(c.Del(ctx, names...).Val() == 50, "del")
	big := strings.Repeat("0123456789", 100000)
	check(c.Set(ctx, t+"big", big, 0).Err() == nil && c.Get(ctx, t+"big").Val() == big, "a large value")
	p := c.TxPipeline()
	p.Set(ctx, "{"+t+"}x", 1, 0)
	n := p.Incr(ctx, "{"+t+"}x")
	_, err := p.Exec(ctx)
	check(err == nil && n.Val() == 2, "a transaction")
	check(strings.Contains(fmt.Sprint(c.LPush(ctx, t+"a", 1).Err()), "WRONGTYPE"), "an error")
	check(c.Close() == nil, "close")
	fmt.Println("good")
}
