// A client of the store with the default options of go-redis: it panics at the first wrong reply.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

func main() {
	ctx := context.Background()
	for _, protocol := range []int{0, 2, 3} {
		// 0 is the default.
		client := redis.NewClient(&redis.Options{Addr: os.Args[1], Protocol: protocol})
		try(ctx, client)
		check(client.Close())
	}
	fmt.Println("ok")
}

func try(ctx context.Context, client *redis.Client) {
	check(client.FlushAll(ctx).Err())
	_, err := client.Get(ctx, "a").Result()
	expect(errors.Is(err, redis.Nil), true)
	check(client.Set(ctx, "a", 1, 100*time.Second).Err())
	expect(client.Incr(ctx, "a").Val(), int64(2))
	expect(client.TTL(ctx, "a").Val(), 100*time.Second)
	pipe := client.Pipeline()
	for number := 0; number < 1000; number++ {
		pipe.Set(ctx, fmt.Sprint("key:", number), strings.Repeat("x", number), 0)
	}
	_, err = pipe.Exec(ctx)
	check(err)
	keys := client.Scan(ctx, 0, "key:*", 100).Iterator()
	count := 0
	for keys.Next(ctx) {
		count++
	}
	check(keys.Err())
	expect(count, 1000)
	check(client.HSet(ctx, "hash", "field", "value").Err())
	expect(client.HGetAll(ctx, "hash").Val()["field"], "value")
	check(client.ZAdd(ctx, "ranks", redis.Z{Score: 1.5, Member: "m"}).Err())
	expect(client.ZScore(ctx, "ranks", "m").Val(), 1.5)
	bump := func(tx *redis.Tx) error {
		value, err := tx.Get(ctx, "a").Int()
		if err != nil {
			return err
		}
		_, err = tx.TxPipelined(ctx, func(pipe redis.Pipeliner) error {
			return pipe.Set(ctx, "a", value+1, 0).Err()
		})
		return err
	}
	check(client.Watch(ctx, bump, "a"))
	expect(client.Get(ctx, "a").Val(), "3")
	err = client.Do(ctx, "NOTHING").Err()
	expect(err != nil && strings.HasPrefix(err.Error(), "ERR unknown command"), true)
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}

func expect[T comparable](found, expected T) {
	if found != expected {
		panic(fmt.Sprintf("%v instead of %v", found, expected))
	}
}
