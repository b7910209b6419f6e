//! Long commands, while other clients continue.

use pinion_store::client::Client;
use pinion_store::job::{Job, JobQueue};
use pinion_store::limits::{COPIED_COMMAND_MAX_BYTES, WORK_MAX, WORK_UNIT_BYTES};
use pinion_store::settings::Settings;
use pinion_store::store::{ExpiryCursor, Store, StoredValue};
use pinion_store::{OutputPart, ReplyOutput};
use proptest::prelude::*;

const NOW_MS: u64 = 1_700_000_000_000;

fn store() -> Store {
    Store::new(Settings::default(), [7; 24], NOW_MS)
}

fn client(store: &Store) -> Client {
    Client::new(store, "127.0.0.1:1", NOW_MS)
}

fn text(output: &ReplyOutput) -> String {
    let mut bytes = Vec::new();
    for part in output.parts() {
        match part {
            OutputPart::Bytes(part) => bytes.extend_from_slice(part),
            OutputPart::Shared(part) => bytes.extend_from_slice(part),
        }
    }
    String::from_utf8_lossy(&bytes).trim_end().replace("\r\n", " ")
}

/// Sends lines. Returns the immediate replies, and the job for which the client waits then.
fn send(store: &Store, client: &mut Client, lines: &str) -> (String, Option<Job>) {
    let mut output = ReplyOutput::default();
    let lines = lines.replace('\n', "\r\n") + "\r\n";
    client.receive(store, lines.as_bytes(), NOW_MS, &mut output);
    (text(&output), client.take_job())
}

/// Sends lines, of which none is a job.
#[track_caller]
fn say(store: &Store, client: &mut Client, lines: &str) -> String {
    let (replies, job) = send(store, client, lines);
    assert!(job.is_none(), "{lines}: a job");
    assert!(!client.is_waiting());
    replies
}

/// Sends a line that is a job.
#[track_caller]
fn job(store: &Store, client: &mut Client, line: &str) -> Job {
    let (replies, job) = send(store, client, line);
    assert_eq!(replies, "");
    assert!(client.is_waiting());
    job.unwrap_or_else(|| panic!("{line}: no job"))
}

/// Passes the result of a job to the client. Returns the replies from that of the job on.
fn finish(store: &Store, client: &mut Client, job: Job) -> String {
    let mut finished = job.run(store, NOW_MS);
    let mut output = finished.take_output();
    client.finish(store, finished, NOW_MS, &mut output);
    text(&output)
}

/// Creates a set of numbers by commands that are not jobs.
fn fill(store: &Store, client: &mut Client, key: &str, count: usize) {
    let numbers: Vec<_> = (0..count).map(|number| format!("member:{number}")).collect();
    for part in numbers.chunks(100) {
        say(store, client, &format!("SADD {key} {}", part.join(" ")));
    }
}

/// Returns a key in the shard of `key`, or in another one.
fn key_beside(store: &Store, key: &str, is_same: bool) -> String {
    let mut probe = client(store);
    fill(store, &mut probe, key, WORK_MAX + 1);
    let job = job(store, &mut probe, &format!("SMEMBERS {key}"));
    let locked = job.lock(store, NOW_MS);
    let mut other = client(store);
    let mut found = None;
    for number in 0..10_000 {
        let key = format!("{key}:{number}");
        let (_, job) = send(store, &mut other, &format!("GET {key}"));
        let is_busy = job.is_some();
        if is_busy {
            other = client(store);
        }
        if is_busy == is_same {
            found = Some(key);
            break;
        }
    }
    drop(locked);
    found.expect("keys are spread over shards")
}

#[test]
fn other_clients_continue_while_a_job_holds_a_shard() {
    let store = store();
    let same = key_beside(&store, "large", true);
    let elsewhere = key_beside(&store, "large", false);
    let (mut first, mut second, mut third) = (client(&store), client(&store), client(&store));
    say(&store, &mut first, &format!("SET {same} 1\nSET {elsewhere} 2"));

    let members = job(&store, &mut first, "SMEMBERS large");
    let locked = members.lock(&store, NOW_MS);
    // Values in other shards are available, also for a transaction.
    assert_eq!(say(&store, &mut second, &format!("GET {elsewhere}")), "$1 2");
    let transaction = format!("MULTI\nINCR {elsewhere}\nEXEC");
    assert_eq!(say(&store, &mut second, &transaction), "+OK +QUEUED *1 :3");
    // Commands for the same shard wait, and so do those after them; replies to earlier ones are
    // sent at once.
    let lines = format!("GET {elsewhere}\nGET {same}\nINCR {same}\nPING");
    let (replies, waiting) = send(&store, &mut second, &lines);
    assert_eq!(replies, "$1 3");
    let waiting = waiting.expect("a job");
    let (replies, none) = send(&store, &mut second, &format!("GET {elsewhere}"));
    assert!(replies.is_empty() && none.is_none(), "{replies}");
    // No part of a command is executed if one of its shards is not free.
    let both = job(&store, &mut third, &format!("MSET {elsewhere} 5 {same} 5"));
    // Maintenance skips the shard.
    let mut cursor = ExpiryCursor::default();
    while !store.remove_expired(&mut cursor, 100, NOW_MS) {}
    let mut fields = store.remove_expired_fields(0, NOW_MS);
    while fields != 0 {
        fields = store.remove_expired_fields(fields, NOW_MS);
    }

    let mut finished = locked.run();
    let mut output = finished.take_output();
    first.finish(&store, finished, NOW_MS, &mut output);
    assert!(text(&output).starts_with(&format!("*{} ", WORK_MAX + 1)));
    assert_eq!(finish(&store, &mut second, waiting), "$1 1 :2 +PONG $1 3");
    assert_eq!(finish(&store, &mut third, both), "+OK");
    assert_eq!(say(&store, &mut first, &format!("MGET {elsewhere} {same}")), "*2 $1 5 $1 5");
}

#[test]
fn a_transaction_with_much_work_is_a_single_job() {
    let store = store();
    let mut client = client(&store);
    fill(&store, &mut client, "large", WORK_MAX + 1);
    say(&store, &mut client, "WATCH large\nMULTI\nSMEMBERS large\nSELECT 3\nSET a 1");
    let job = job(&store, &mut client, "EXEC");
    let replies = finish(&store, &mut client, job);
    assert!(replies.starts_with("*3 *4097 "), "{}", &replies[..40]);
    assert!(replies.ends_with("+OK +OK"));
    // The changes of the client by the transaction stay, and its keys are not watched any more.
    assert_eq!(say(&store, &mut client, "GET a\nSELECT 0\nDEL large"), "$1 1 +OK :1");
    assert_eq!(say(&store, &mut client, "MULTI\nPING\nEXEC"), "+OK +QUEUED *1 +PONG");
}

/// A command within a transaction can increase the work of the next one.
#[test]
fn a_transaction_counts_what_its_commands_write() {
    let store = store();
    let mut client = client(&store);
    fill(&store, &mut client, "a", WORK_MAX / 8);
    say(&store, &mut client, "MULTI");
    let mut from = "a".to_owned();
    for number in 0..20 {
        let to = format!("to:{number}");
        say(&store, &mut client, &format!("COPY {from} {to}\nSUNION {from} {to}"));
        from = to;
    }
    let job = job(&store, &mut client, "EXEC");
    assert!(finish(&store, &mut client, job).starts_with("*40 :1 *512 "));
    for small in ["MULTI\nSMEMBERS a\nSADD a x\nSCARD a\nEXEC", "MULTI\nGET b\nSET b 1\nEXEC"] {
        say(&store, &mut client, small);
    }
}

#[test]
fn a_transaction_with_a_watched_key_of_a_busy_shard_waits() {
    let store = store();
    let same = key_beside(&store, "large", true);
    let (mut first, mut second) = (client(&store), client(&store));
    say(&store, &mut second, &format!("WATCH {same}\nMULTI\nPING"));
    let locked = job(&store, &mut first, "SMEMBERS large").lock(&store, NOW_MS);
    let exec = job(&store, &mut second, "EXEC");
    drop(locked);
    assert_eq!(finish(&store, &mut second, exec), "*1 +PONG");
    // Watched keys of a busy shard are removed later.
    let mut third = client(&store);
    say(&store, &mut third, &format!("WATCH {same}"));
    let mut first = client(&store);
    let locked = job(&store, &mut first, "SMEMBERS large").lock(&store, NOW_MS);
    assert_eq!(say(&store, &mut third, "UNWATCH"), "+OK");
    drop(locked);
    store.free_garbage();
    assert_eq!(say(&store, &mut second, &format!("SET {same} 1")), "+OK");
    assert_eq!(say(&store, &mut third, "MULTI\nPING\nEXEC"), "+OK +QUEUED *1 +PONG");
}

#[test]
fn a_started_job_of_a_disconnected_client_completes() {
    let store = store();
    let mut gone = client(&store);
    fill(&store, &mut gone, "large", WORK_MAX + 1);
    say(&store, &mut gone, "WATCH large");
    let rename = job(&store, &mut gone, "SUNIONSTORE to large");
    gone.disconnect(&store);
    rename.run(&store, NOW_MS).abandon(&store);
    // A job that was not fetched is not executed.
    let mut gone = client(&store);
    let mut output = ReplyOutput::default();
    gone.receive(&store, b"SUNIONSTORE other large\r\n", NOW_MS, &mut output);
    gone.disconnect(&store);
    assert!(gone.take_job().is_none());
    let mut client = client(&store);
    assert_eq!(say(&store, &mut client, "SCARD to\nEXISTS other"), ":4097 :0");
    let list = say(&store, &mut client, "CLIENT LIST");
    assert_eq!(list.matches("id=").count(), 1, "{list}");
}

/// The memory of a job is counted until it has ended, in whichever order it and its client end.
#[test]
fn the_memory_of_a_job_is_counted_until_it_ends() {
    let store = store();
    let long = "x".repeat(COPIED_COMMAND_MAX_BYTES * 40);
    let command = format!("*3\n$3\nSET\n$1\na\n${}\n{long}", long.len());
    let is_counted = || store.clients_memory_bytes() > long.len();
    for (case, ends_first) in [("finished", false), ("gone", true), ("gone", false)] {
        assert_eq!(store.clients_memory_bytes(), 0, "{case}");
        let mut client = client(&store);
        let job = job(&store, &mut client, &command);
        assert!(is_counted());
        if case == "finished" {
            assert_eq!(finish(&store, &mut client, job), "+OK");
            assert_eq!(store.clients_memory_bytes(), 0);
            client.disconnect(&store);
        } else if ends_first {
            job.run(&store, NOW_MS).abandon(&store);
            client.disconnect(&store);
        } else {
            client.disconnect(&store);
            assert!(is_counted());
            job.run(&store, NOW_MS).abandon(&store);
        }
    }
    // A job that was not fetched is not executed.
    let mut client = client(&store);
    client.receive(
        &store,
        command.replace('\n', "\r\n").as_bytes(),
        NOW_MS,
        &mut ReplyOutput::default(),
    );
    client.receive(&store, b"\r\n", NOW_MS, &mut ReplyOutput::default());
    assert!(is_counted());
    client.disconnect(&store);
    assert_eq!(store.clients_memory_bytes(), 0);
    // A transaction is executed.
    let mut client = self::client(&store);
    let transaction = format!("MULTI\n{command}\nSTRLEN a");
    assert_eq!(send(&store, &mut client, &transaction).0, "+OK +QUEUED +QUEUED");
    assert!(is_counted());
    let exec = job(&store, &mut client, "EXEC");
    assert!(is_counted());
    assert_eq!(finish(&store, &mut client, exec), format!("*2 +OK :{}", long.len()));
    assert_eq!(store.clients_memory_bytes(), 0);
}

#[test]
fn all_commands_on_large_values_are_jobs() {
    let store = store();
    let mut client = client(&store);
    let large = WORK_MAX * 2;
    for from in (0..large).step_by(100) {
        let numbers = from..from + 100;
        let list = |text: &dyn Fn(usize) -> String| {
            numbers.clone().map(text).collect::<Vec<_>>().join(" ")
        };
        say(&store, &mut client, &format!("SADD set {}", list(&|number| format!("m{number}"))));
        say(&store, &mut client, &format!("RPUSH list {}", list(&|number| format!("e{number}"))));
        say(&store, &mut client, &format!("HSET hash {}", list(&|it| format!("f{it} {it}"))));
        say(&store, &mut client, &format!("ZADD zset {}", list(&|it| format!("{it} m{it}"))));
    }
    for number in 0..WORK_MAX {
        say(&store, &mut client, &format!("SET key:{number} 1"));
    }
    say(&store, &mut client, &format!("RPUSH few{}", " e".repeat(100)));
    // 100 elements with 50 patterns each, bytes that could be those of 8800 elements, and scans
    // that are short alone.
    let patterns = format!("SORT few BY nosort{}", " GET k*".repeat(50));
    let payload = format!("RESTORE new 0 {}", "x".repeat(200));
    let scans = format!("MULTI\n{}EXEC", "SCAN 0\n".repeat(5));
    let (_, setbit) = send(&store, &mut client, "SETBIT bits 80000000 1");
    finish(&store, &mut client, setbit.expect("ten megabytes are cleared"));
    let wide = "1".repeat(WORK_MAX * WORK_UNIT_BYTES * 2);
    let hset = format!("*6\n$4\nHSET\n$4\nwide\n$1\nf\n${}\n{wide}\n$1\ng\n$1\n1", wide.len());
    let (_, hset) = send(&store, &mut client, &hset);
    finish(&store, &mut client, hset.expect("two megabytes are copied"));
    for line in [
        "HGETALL hash",
        "HKEYS hash",
        "HVALS hash",
        "HRANDFIELD hash 5000",
        "SMEMBERS set",
        "HRANDFIELD hash -5000",
        "HGET wide f",
        "HGETDEL wide FIELDS 2 g f",
        "HGETEX wide PERSIST FIELDS 2 g f",
        "HINCRBYFLOAT wide f 1",
        "SRANDMEMBER set 5000",
        "SPOP set 8000",
        "LRANGE list 0 -1",
        "SINTER set none",
        "SUNION set",
        "SDIFF set zset",
        "SINTERSTORE a set",
        "LREM list 0 x",
        "SUNIONSTORE a set",
        "SDIFFSTORE a set",
        "SINTERCARD 1 set",
        "LPOS list x",
        "KEYS *",
        "LINSERT list BEFORE x y",
        "LPOP list 5000",
        "LMPOP 1 list LEFT COUNT 5000",
        "ZRANGE zset 0 -1",
        "ZRANGE zset 0 10000 BYSCORE",
        "ZRANGESTORE a zset 0 -1",
        "ZPOPMIN zset 5000",
        "ZMPOP 1 zset MIN COUNT 5000",
        "ZREMRANGEBYRANK zset 0 -1",
        "ZREMRANGEBYSCORE zset -inf +inf",
        "ZRANDMEMBER zset 5000",
        "ZUNION 1 zset",
        "ZUNIONSTORE a 1 zset",
        "ZINTER 1 zset",
        "ZDIFF 1 zset",
        "ZDIFFSTORE a 1 zset",
        "ZINTERCARD 1 zset",
        "COPY set b",
        "BITCOUNT bits",
        "BITPOS bits 1",
        "BITOP NOT a bits",
        "GETRANGE bits 0 -1",
        "SETRANGE more 80000000 x",
        "BITFIELD x SET u8 80000000 1",
        "APPEND a y\nSETBIT a 80000000 1",
        "SORT list ALPHA",
        &patterns,
        &payload,
        &scans,
    ] {
        let mut client = Client::new(&store, "127.0.0.1:2", NOW_MS);
        let (replies, job) = send(&store, &mut client, line);
        if replies.starts_with("-ERR unknown command") {
            continue;
        }
        assert!(job.is_some(), "{line}: {}", &replies[..replies.len().min(40)]);
        client.disconnect(&store);
    }
    // Commands that only read a part of a large value are no jobs.
    for line in [
        "LRANGE list 5000 5010",
        "LPOP list",
        "LINDEX list 5000",
        "LTRIM list 0 8000",
        "SPOP set",
        "SPOP set 10",
        "SRANDMEMBER set -5",
        "HSCAN hash 0 COUNT 100000",
        "ZRANGE zset -10 -1",
        "ZRANGEBYSCORE zset 5 8",
        "ZPOPMAX zset 3",
        "GETRANGE bits 0 10",
        "SETBIT bits 7 1",
        "ZREMRANGEBYRANK zset 0 5",
        "HGET hash f1",
        "HGETEX wide PERSIST FIELDS 2 g none",
        "HINCRBYFLOAT wide g 1.5",
        "HGETDEL wide FIELDS 2 g none",
        "SORT few ALPHA LIMIT 0 1",
        "SCAN 0 COUNT 100000",
        "DBSIZE",
        "RANDOMKEY",
        "RENAME hash other",
        "TYPE set",
        "OBJECT ENCODING list",
        "DEL list set few",
        "FLUSHALL",
    ] {
        say(&store, &mut client, line);
    }
    store.free_garbage();
    assert_eq!(say(&store, &mut client, "DBSIZE"), ":0");
}

#[test]
fn commands_with_many_or_long_arguments_are_jobs_without_copies() {
    let store = store();
    let mut client = client(&store);
    let long = "x".repeat(COPIED_COMMAND_MAX_BYTES * 40);
    let command = format!("*3\r\n$3\r\nSET\r\n$1\r\na\r\n${}\r\n{long}\r\n", long.len());
    let (begin, end) = command.as_bytes().split_at(100_000);
    let mut output = ReplyOutput::default();
    client.receive(&store, begin, NOW_MS, &mut output);
    assert!(client.take_job().is_none());
    client.receive(&store, &[end, b"STRLEN a\r\n"].concat(), NOW_MS, &mut output);
    let job = client.take_job().expect("a job");
    assert_eq!(finish(&store, &mut client, job), format!("+OK :{}", long.len()));
    // In a transaction, the command is queued without being copied.
    say(&store, &mut client, "MULTI");
    client.receive(&store, begin, NOW_MS, &mut output);
    client.receive(&store, &[end, b"STRLEN a\r\nPING\r\n"].concat(), NOW_MS, &mut output);
    assert_eq!(text(&output), "+QUEUED +QUEUED +QUEUED");
    let (_, job) = send(&store, &mut client, "EXEC");
    let replies = finish(&store, &mut client, job.expect("a job"));
    assert_eq!(replies, format!("*3 +OK :{} +PONG", long.len()));
    let many = (0..=WORK_MAX).map(|number| format!(" key:{number}")).collect::<String>();
    let job = self::job(&store, &mut client, &format!("DEL a{many}"));
    assert_eq!(finish(&store, &mut client, job), ":1");
}

/// A waiting job is started before later ones that need its shards, and together with those that
/// need none of them.
#[test]
fn the_queue_starts_jobs_that_need_no_shard_of_another_job() {
    let store = store().with_work_max(0);
    let job = |line: &str| {
        let mut client = client(&store);
        job(&store, &mut client, line)
    };
    let keys: Vec<_> = (0..100).map(|number| format!("k{number}")).collect();
    let shards = |key: &str| job(&format!("GET {key}")).shards();
    let a = &keys[0];
    let b = keys.iter().find(|key| shards(key) != shards(a)).expect("two shards");
    let mut queue = JobQueue::default();
    for (name, line) in [
        ("a", format!("GET {a}")),
        ("a again", format!("GET {a}")),
        ("both", format!("MGET {a} {b}")),
        ("b", format!("GET {b}")),
        ("none", "PING".to_owned()),
        ("all", "DBSIZE".to_owned()),
    ] {
        queue.push(job(&line).shards(), name);
    }
    let start = |queue: &mut JobQueue<&'static str>| queue.start().map(|(_, name)| name);
    // `b` could run, but `both` came before it.
    assert_eq!([start(&mut queue), start(&mut queue)], [Some("a"), Some("none")]);
    assert_eq!(start(&mut queue), None);
    queue.finished(shards(a));
    assert_eq!([start(&mut queue), start(&mut queue)], [Some("a again"), None]);
    queue.finished(shards(a));
    assert_eq!([start(&mut queue), start(&mut queue)], [Some("both"), None]);
    queue.finished(job(&format!("MGET {a} {b}")).shards());
    assert_eq!([start(&mut queue), start(&mut queue)], [Some("b"), None]);
    queue.finished(shards(b));
    assert_eq!([start(&mut queue), start(&mut queue)], [Some("all"), None]);
}

/// A page is read while no job has its shard: the read waits in the queue like a job.
#[test]
fn a_read_waits_for_the_job_that_holds_the_shard() {
    let store = store();
    let mut client = client(&store);
    fill(&store, &mut client, "large", WORK_MAX + 1);
    let same = key_beside(&store, "large", true);
    let elsewhere = key_beside(&store, "large", false);
    say(&store, &mut client, &format!("SET {same} 1\nSET {elsewhere} 2"));
    let is = |value: Option<StoredValue<'_>>, expected: &str| match value {
        Some(StoredValue::Short(bytes)) => assert_eq!(bytes, expected.as_bytes()),
        other => panic!("{other:?}"),
    };
    let members = job(&store, &mut client, "SMEMBERS large");
    let shards = members.shards();
    assert_eq!(store.shard_of(same.as_bytes()), shards);
    assert_ne!(store.shard_of(elsewhere.as_bytes()), shards);
    let locked = members.lock(&store, NOW_MS);
    assert!(store.look(0, same.as_bytes(), NOW_MS, |value| is(value, "1")).is_none());
    assert!(store.look(0, elsewhere.as_bytes(), NOW_MS, |value| is(value, "2")).is_some());
    std::thread::scope(|scope| {
        let look = || store.look_as_job(0, same.as_bytes(), NOW_MS, |value| is(value, "1"));
        let looked = scope.spawn(look);
        drop(locked);
        looked.join().expect("the value of the key");
    });
    assert!(store.look(0, same.as_bytes(), NOW_MS, |value| is(value, "1")).is_some());
}

/// Clients that run their jobs in other threads at once, and clients that wait for them.
#[test]
fn threads_with_and_without_jobs_count_the_same() {
    const ROUNDS: usize = 300;
    let store = store();
    std::thread::scope(|scope| {
        for number in 0..6 {
            let store = &store;
            scope.spawn(move || {
                let mut client = client(store);
                let mut output = ReplyOutput::default();
                let key = number % 3;
                for round in 0..ROUNDS {
                    let lines = match round % 3 {
                        0 => format!("INCR n{key}\r\nMGET n0 n1 n2\r\n"),
                        1 => format!("MULTI\r\nINCR n{key}\r\nKEYS *\r\nEXEC\r\n"),
                        _ => format!("SETRANGE s{key} 4000000 x\r\nINCR n{key}\r\nDEL s{key}\r\n"),
                    };
                    client.receive(store, lines.as_bytes(), NOW_MS, &mut output);
                    client.run_jobs(store, NOW_MS, &mut output);
                    output.clear();
                }
            });
        }
    });
    let mut client = client(&store);
    let sum = ROUNDS * 2;
    assert_eq!(
        say(&store, &mut client, "GET n0\nGET n1\nGET n2"),
        format!("$3 {sum} ").repeat(3).trim_end()
    );
}

/// Transactions and pipelines, cut anywhere.
fn lines() -> impl Strategy<Value = Vec<&'static str>> {
    prop::collection::vec(
        prop::sample::select(
            &[
                "SET a 1",
                "INCR a",
                "APPEND a 2",
                "GET a",
                "MULTI",
                "EXEC",
                "DISCARD",
                "WATCH a",
                "UNWATCH",
                "SELECT 1",
                "SELECT 0",
                "KEYS *",
                "SADD s x y z",
                "SMEMBERS s",
                "SUNIONSTORE t s",
                "DEL s",
                "GET",
                "NOTHING",
                "FLUSHDB",
                "SWAPDB 0 1",
                "RESET",
                "HELLO 3",
                "HELLO 2",
                "DBSIZE",
                "MSET a 1 b 2",
                "MGET a b c",
                "PING",
                "",
            ][..],
        ),
        0..40,
    )
}

proptest! {
    /// The replies are the same whether commands are jobs or not, and however the bytes are cut.
    #[test]
    fn replies_do_not_depend_on_jobs(
        lines in lines(),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..4),
        work_max in 0..8_usize,
    ) {
        let input = lines.iter().map(|line| format!("{line}\r\n")).collect::<String>();
        let mut cuts: Vec<_> = cuts.iter().map(|cut| cut.index(input.len() + 1)).collect();
        cuts.extend([0, input.len()]);
        cuts.sort_unstable();
        let replies = |work_max: usize, cuts: &[usize]| {
            let store = store().with_work_max(work_max);
            let mut client = client(&store);
            let mut output = ReplyOutput::default();
            for pair in cuts.windows(2) {
                let piece = &input.as_bytes()[pair[0]..pair[1]];
                client.receive(&store, piece, NOW_MS, &mut output);
                client.run_jobs(&store, NOW_MS, &mut output);
            }
            text(&output)
        };
        let expected = replies(WORK_MAX, &[0, input.len()]);
        prop_assert_eq!(replies(work_max, &cuts), expected.clone());
        prop_assert_eq!(replies(0, &[0, input.len()]), expected);
    }
}
