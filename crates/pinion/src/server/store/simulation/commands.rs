//! Commands of one client, whose replies depend on nothing but the commands before them: its keys
//! begin with its number, and no reply has a time, the number of a client or a random element.

use pinion_engine::backend::sim::Random;

/// Bytes of long values: such a command is not copied when it is kept, and its reply is shared.
const LONG_BYTES: usize = 100_000;

/// Commands that clients send; `@` is the prefix of their keys.
const LINES: &[&str] = &[
    "INCR @n",
    "INCR @n",
    "INCRBY @n 5",
    "GET @n",
    "SET @a some",
    "SET @a other NX",
    "APPEND @a text",
    "GET @a",
    "STRLEN @a",
    "GETRANGE @a 1 -2",
    "SETRANGE @a 5000 x",
    "GETDEL @a",
    "MSET @a 1 @b 2",
    "MGET @a @b @none @n",
    "DEL @a @b",
    "EXISTS @a @n",
    "RPUSH @l a b c d e",
    "LPOP @l",
    "LRANGE @l 0 -1",
    "LREM @l 1 c",
    "SORT @l ALPHA",
    "SORT @l BY weight:* GET #",
    "SADD @s 1 2 3 4 5 6",
    "SREM @s 2 9",
    "SMEMBERS @s",
    "SINTER @s @t",
    "SUNIONSTORE @t @s",
    "ZADD @z 1 one 2 two 3 three",
    "ZINCRBY @z 5 one",
    "ZRANGE @z 0 -1 WITHSCORES",
    "HSET @h f 1 g 2 h 3",
    "HINCRBY @h f 1",
    "HGETALL @h",
    "HDEL @h g",
    "COPY @l @m REPLACE",
    "RENAME @m @k",
    "KEYS @none*",
    "TYPE @l",
    "PING",
    "ECHO text",
    "SELECT 1",
    "SELECT 0",
    "CLIENT SETNAME @name",
    "CLIENT GETNAME",
    "MULTI",
    "MULTI",
    "EXEC",
    "EXEC",
    "DISCARD",
    "WATCH @n @a",
    "UNWATCH",
    "NOTHING at all",
    "GET",
    "INCR @l",
    "GET @big",
    "GET @big",
    "GET @big",
    "APPEND @big more",
    "DEL @big",
];

/// Returns the bytes of random commands of a client with a number.
pub(super) fn script(number: usize, count: u64, random: &mut Random) -> Vec<u8> {
    let prefix = format!("{number}:");
    let mut script = Vec::new();
    for _ in 0..count {
        if random.chance(60) {
            let value = vec![b'a' + random.below(26) as u8; LONG_BYTES];
            append(&mut script, &[b"SET", format!("{prefix}big").as_bytes(), &value]);
            continue;
        }
        let line = random.pick(LINES).replace('@', &prefix);
        if random.chance(200) {
            script.extend_from_slice(line.as_bytes());
            script.extend_from_slice(b"\r\n");
        } else {
            append(&mut script, &line.split(' ').map(str::as_bytes).collect::<Vec<_>>());
        }
    }
    match random.below(8) {
        0 => script.extend_from_slice(b"QUIT\r\n"),
        1 => script.extend_from_slice(b"*1\r\n!"),
        _ => {}
    }
    script
}

/// Adds a command in the form that programs send.
pub(super) fn append(script: &mut Vec<u8>, words: &[&[u8]]) {
    script.extend_from_slice(format!("*{}\r\n", words.len()).as_bytes());
    for word in words {
        script.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
        script.extend_from_slice(word);
        script.extend_from_slice(b"\r\n");
    }
}
