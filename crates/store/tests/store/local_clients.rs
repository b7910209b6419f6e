//! Clients in the same process, without a connection.

use pinion_store::local_client::{LocalClient, LocalCommand, LocalExecution, has_command};
use pinion_store::settings::{LiveSettings, Settings};
use pinion_store::store::Store;
use pinion_store::{ReplyElement, ReplyOutput, ReplyReader};

const NOW_MS: u64 = 1_700_000_000_000;

fn store() -> Store {
    Store::new(Settings::default(), [7; 24], NOW_MS)
}

fn command(words: &[&str]) -> LocalCommand {
    let mut command = LocalCommand::default();
    words.iter().for_each(|word| command.push(word.as_bytes()));
    command
}

/// Writes all elements of the replies as text.
fn text(output: &ReplyOutput) -> String {
    let mut reader = ReplyReader::new(output);
    let mut texts = Vec::new();
    while let Some(element) = reader.next_element() {
        texts.push(match element {
            ReplyElement::Null => "null".to_owned(),
            ReplyElement::Integer(number) => number.to_string(),
            ReplyElement::Double(number) => format!("{number:?}"),
            ReplyElement::Bytes(bytes) => format!("{:?}", String::from_utf8_lossy(bytes)),
            ReplyElement::Error(text) => format!("error {}", String::from_utf8_lossy(text)),
            ReplyElement::List(count) => format!("list of {count}:"),
            ReplyElement::Map(count) => format!("map of {count}:"),
        });
    }
    texts.join(" ")
}

/// Executes a command. Returns its reply, and whether it was a job.
fn execute(store: &Store, client: &mut LocalClient, words: &[&str]) -> (String, bool) {
    let (mut command, mut output) = (command(words), ReplyOutput::default());
    command.check().expect("a command");
    match client.execute(store, &mut command, NOW_MS, &mut output) {
        LocalExecution::Done => (text(&output), false),
        LocalExecution::Job(job) => {
            assert!(output.is_empty());
            (text(&job.run(store, NOW_MS).take_output()), true)
        }
    }
}

#[test]
fn local_replies_have_their_types() {
    let (store, mut client) = (store(), LocalClient::new("test", NOW_MS));
    let long = "x".repeat(100_000);
    for (words, reply) in [
        (&["SET", "a", "1"][..], "\"OK\""),
        (&["INCR", "a"], "2"),
        (&["GET", "b"], "null"),
        (
            &["LPUSH", "a", "x"],
            "error WRONGTYPE Operation against a key holding the wrong kind of \
                                value",
        ),
        (&["HSET", "h", "f", "v"], "1"),
        (&["HGETALL", "h"], "map of 1: \"f\" \"v\""),
        (&["MGET", "a", "no"], "list of 2: \"2\" null"),
        (&["ZADD", "z", "1.5", "m"], "1"),
        (&["ZSCORE", "z", "m"], "1.5"),
        (&["SADD", "s", "m"], "1"),
        (&["SMEMBERS", "s"], "list of 1: \"m\""),
        (&["SET", "long", &long], "\"OK\""),
        (&["GET", "long"], &format!("{long:?}")),
        // Database 0, and no name of a client.
        (&["DBSIZE"], "5"),
    ] {
        assert_eq!(execute(&store, &mut client, words), (reply.to_owned(), false), "{words:?}");
    }
}

#[test]
fn commands_about_connections_are_refused_for_local_clients() {
    for (words, error) in [
        (&["SELECT", "1"][..], "ERR the command 'select' is only for connections"),
        (&["MULTI"], "ERR the command 'multi' is only for connections"),
        (&["QUIT"], "ERR the command 'quit' is only for connections"),
        (
            &["CONFIG", "GET", "*"],
            "ERR the command 'config' is for operators, with a client of Redis",
        ),
        (&["GET"], "ERR wrong number of arguments for 'get' command"),
        (&["no\nsuch"], "ERR unknown command 'no\\nsuch'"),
        (&[], "ERR unknown command ''"),
    ] {
        let error_text = command(words).check().expect_err("refused").to_string();
        assert_eq!(error_text, error);
    }
    assert!(has_command(b"hgetall") && !has_command(b"HGETALL") && !has_command(b"select"));
}

#[test]
fn a_transaction_is_executed_at_once_or_not() {
    let (store, mut client) = (store(), LocalClient::new("test", NOW_MS));
    let mut transaction = client.transaction();
    let long = "x".repeat(100_000);
    for words in [&["SET", "a", &long][..], &["INCR", "a"], &["STRLEN", "a"]] {
        transaction.queue(&store, &mut command(words), NOW_MS).expect("queued");
    }
    // The transaction has no effect before it is executed.
    let mut other = LocalClient::new("other", NOW_MS);
    assert_eq!(execute(&store, &mut other, &["DBSIZE"]).0, "0");
    let mut output = ReplyOutput::default();
    let execution = transaction.execute(&store, NOW_MS, &mut output);
    assert!(matches!(execution, LocalExecution::Done));
    let not_an_integer = "error ERR value is not an integer or out of range";
    assert_eq!(text(&output), format!("list of 3: \"OK\" {not_an_integer} 100000"));
    // A dropped transaction changes nothing.
    let mut dropped = client.transaction();
    dropped.queue(&store, &mut command(&["DEL", "a"]), NOW_MS).expect("queued");
    drop(dropped);
    assert_eq!(execute(&store, &mut other, &["EXISTS", "a"]).0, "1");
}

#[test]
fn a_full_store_refuses_to_queue_writes() {
    let live = LiveSettings { memory_max_bytes: 1, ..LiveSettings::default() };
    let store = Store::new(Settings { live, ..Settings::default() }, [7; 24], NOW_MS);
    let mut client = LocalClient::new("test", NOW_MS);
    let mut fill = |key: &str| execute(&store, &mut client, &["SET", key, &"x".repeat(1 << 20)]);
    assert_eq!(fill("a").0, "\"OK\"");
    assert!(fill("b").0.starts_with("error OOM"));
    let mut transaction = client.transaction();
    let refused = transaction.queue(&store, &mut command(&["SET", "c", "1"]), NOW_MS);
    let why = refused.expect_err("no memory");
    assert!(why.starts_with(b"OOM command not allowed") && !why.contains(&b'\n'));
}

#[test]
fn a_large_command_is_a_job_and_its_client_continues_after_it() {
    let store = store().with_work_max(10);
    let mut client = LocalClient::new("test", NOW_MS);
    for field in 0..50 {
        execute(&store, &mut client, &["HSET", "h", &field.to_string(), "v"]);
    }
    let (reply, is_job) = execute(&store, &mut client, &["HGETALL", "h"]);
    assert!(is_job && reply.starts_with("map of 50:"), "{reply}");
    assert_eq!(execute(&store, &mut client, &["HLEN", "h"]), ("50".to_owned(), false));
    // While a job has the shard, so is every command on it.
    let mut large = command(&["HGETALL", "h"]);
    let mut output = ReplyOutput::default();
    let LocalExecution::Job(job) = client.execute(&store, &mut large, NOW_MS, &mut output) else {
        panic!("it is a job");
    };
    let locked = job.lock(&store, NOW_MS);
    let mut short = command(&["HLEN", "h"]);
    let LocalExecution::Job(waiting) = client.execute(&store, &mut short, NOW_MS, &mut output)
    else {
        panic!("it waits");
    };
    drop(locked.run());
    assert_eq!(text(&waiting.run(&store, NOW_MS).take_output()), "50");
    // A transaction is one, too.
    let mut transaction = client.transaction();
    transaction.queue(&store, &mut command(&["HGETALL", "h"]), NOW_MS).expect("queued");
    let LocalExecution::Job(job) = transaction.execute(&store, NOW_MS, &mut output) else {
        panic!("it is a job");
    };
    let reply = text(&job.run(&store, NOW_MS).take_output());
    assert!(reply.starts_with("list of 1: map of 50:"), "{reply}");
}
