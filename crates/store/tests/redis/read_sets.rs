//! As long as a set of read keys is current, the commands that have read them give the same
//! replies.

use std::collections::BTreeMap;
use std::sync::Arc;

use pinion_store::local_client::{LocalClient, LocalCommand, LocalExecution};
use pinion_store::read_set::ReadSet;
use pinion_store::settings::Settings;
use pinion_store::store::Store;
use pinion_store::{OutputPart, ReplyOutput};
use proptest::prelude::*;
use proptest::test_runner::{TestCaseResult, TestRunner};

use crate::GROUPS;
use crate::generator::{Request, requests};

const START_MS: u64 = 1_700_000_000_000;

/// Random conversations for each group, unless `PROPTEST_CASES` sets another number.
const CASES: u32 = 300;

/// A command with its reply and the keys that it has read.
struct Read {
    request: Request,
    reply: Vec<u8>,
    set: ReadSet,
}

fn local(request: &Request) -> Option<LocalCommand> {
    let mut command = LocalCommand::default();
    request.arguments.iter().for_each(|argument| command.push(argument));
    command.check().is_ok().then_some(command)
}

fn execute(
    store: &Store,
    client: &mut LocalClient,
    mut command: LocalCommand,
    now_ms: u64,
) -> Vec<u8> {
    let mut output = ReplyOutput::default();
    if let LocalExecution::Job(job) = client.execute(store, &mut command, now_ms, &mut output) {
        output = job.run(store, now_ms).take_output();
    }
    let bytes = output.parts().map(|part| match part {
        OutputPart::Bytes(bytes) => bytes.to_vec(),
        OutputPart::Shared(bytes) => bytes.to_vec(),
    });
    bytes.collect::<Vec<_>>().concat()
}

/// Counts the commands that were repeated, by name.
fn check(requests: &[(Request, u64)], counts: &mut BTreeMap<String, u32>) -> TestCaseResult {
    let store = Arc::new(Store::new(Settings::default(), [7; 24], START_MS));
    let (mut client, mut checker) =
        (LocalClient::new("reader", START_MS), LocalClient::new("checker", START_MS));
    let mut reads: Vec<Read> = Vec::new();
    let mut now_ms = START_MS;
    for (request, pause_ms) in requests {
        now_ms += pause_ms;
        let Some(command) = local(request) else { continue };
        prop_assert!(client.record_reads(&store));
        let reply = execute(&store, &mut client, command, now_ms);
        if let Some(set) = client.recorded_reads() {
            reads.push(Read { request: request.clone(), reply, set });
        }
        reads.retain(|read| read.set.is_current(now_ms));
        for Read { request, reply, set } in &reads {
            let command = local(request).expect("it was one before");
            let again = execute(&store, &mut checker, command, now_ms);
            prop_assert!(
                again == *reply && set.is_current(now_ms),
                "{request:?}: \"{}\", and before \"{}\"",
                again.escape_ascii(),
                reply.escape_ascii(),
            );
            let name = String::from_utf8_lossy(&request.arguments[0]).to_ascii_lowercase();
            *counts.entry(name).or_default() += 1;
        }
    }
    Ok(())
}

#[test]
fn replies_are_unchanged_while_their_read_set_is_current() {
    let mut config = ProptestConfig::default();
    if std::env::var_os("PROPTEST_CASES").is_none() {
        config.cases = CASES;
    }
    let counts = std::cell::RefCell::default();
    for group in GROUPS {
        let pause_ms = prop_oneof![3 => Just(0), 1 => 1..20_000_u64];
        let requests = requests(group, |_| true).prop_flat_map(move |requests| {
            let pauses = prop::collection::vec(pause_ms.clone(), requests.len());
            (Just(requests), pauses)
        });
        let result = TestRunner::new(config.clone()).run(&requests, |(requests, pauses)| {
            let requests: Vec<_> = requests.into_iter().zip(pauses).collect();
            check(&requests, &mut counts.borrow_mut())
        });
        if let Err(error) = result {
            panic!("{error}");
        }
    }
    let counts = counts.take();
    for read in GROUPS.iter().flat_map(|group| group.final_reads) {
        let is_stable = !["object", "ttl", "pttl", "httl", "hpttl"].contains(&read.name);
        let count = counts.get(read.name).copied().unwrap_or_default();
        assert!(!is_stable || count > 0, "{} was never current: {counts:?}", read.name);
    }
}

#[test]
fn reads_that_depend_on_more_than_keys_are_never_current() {
    let store = Arc::new(Store::new(Settings::default(), [7; 24], START_MS));
    let mut client = LocalClient::new("reader", START_MS);
    let text = |words: &[&str]| {
        let mut command = LocalCommand::default();
        words.iter().for_each(|word| command.push(word.as_bytes()));
        command
    };
    execute(&store, &mut client, text(&["SADD", "s", "1", "2"]), START_MS);
    for (words, is_stable) in [
        (&["SMEMBERS", "s"][..], true),
        (&["GET", "none"], true),
        (&["SRANDMEMBER", "s"], false),
        (&["SSCAN", "s", "0"], false),
        (&["TTL", "s"], false),
        (&["OBJECT", "IDLETIME", "s"], false),
        (&["DBSIZE"], false),
        (&["RANDOMKEY"], false),
        (&["KEYS", "*"], false),
        (&["SCAN", "0"], false),
        (&["TIME"], false),
        (&["SADD", "s", "1"], false),
        (&["COPY", "none", "s", "DB", "5"], false),
        (&["SORT_RO", "s"], true),
        (&["SORT_RO", "s", "BY", "weight_*"], false),
    ] {
        assert!(client.record_reads(&store) && !client.record_reads(&store));
        execute(&store, &mut client, text(words), START_MS);
        assert_eq!(client.recorded_reads().is_some(), is_stable, "{words:?}");
    }
    // The recorder does not see the reads of a transaction.
    assert!(client.record_reads(&store));
    drop(client.transaction());
    assert!(client.recorded_reads().is_none());
}
