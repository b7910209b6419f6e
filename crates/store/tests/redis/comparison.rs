//! Requests are sent to a redis-server and to a store, and their replies compared.

use std::cell::RefCell;
use std::time::{SystemTime, UNIX_EPOCH};

use pinion_store::client::Client;
use pinion_store::limits::WORK_MAX;
use pinion_store::settings::Settings;
use pinion_store::store::Store;
use pinion_store::{OutputPart, ReplyOutput};
use proptest::prelude::*;
use proptest::test_runner::{TestCaseResult, TestRunner};

use crate::GROUPS;
use crate::command_table::{Comparison, Group};
use crate::generator::{KEYS, Request, read_request, requests, valid_requests_of_group};
use crate::redis_server::{RedisServer, encode};
use crate::resp_reply::RespReply;

/// The random conversations of one test, unless `PROPTEST_CASES` is set.
const CASES: u32 = 2000;

/// Compares the replies to random requests, most of them of one group.
///
/// # Panics
/// A reply is another one.
pub(crate) fn compare_with_redis(group: &Group) {
    compare_all(requests(group, is_known));
}

/// Compares the replies to random valid requests of one group.
///
/// # Panics
/// A reply is another one.
pub(crate) fn compare_valid_requests_of_group(group: &Group) {
    compare_all(valid_requests_of_group(group));
}

fn compare_all(requests: impl Strategy<Value = Vec<Request>>) {
    /// The time to look for a shorter conversation with different replies.
    const SHRINKING_MS: u32 = 20_000;
    let mut config = ProptestConfig { max_shrink_time: SHRINKING_MS, ..ProptestConfig::default() };
    if std::env::var_os("PROPTEST_CASES").is_none() {
        config.cases = CASES;
    }
    let server = RefCell::new(RedisServer::start());
    let works = prop::sample::select(&[WORK_MAX, 0, 3][..]);
    let strategy = (prop::sample::select(&["2", "3"][..]), works, requests);
    let mut runner = TestRunner::new(config);
    let result = runner.run(&strategy, |(version, work_max, requests)| {
        compare(&mut server.borrow_mut(), (version, work_max), &requests)
    });
    if let Err(error) = result {
        panic!("{error}");
    }
}

/// Returns whether the store has a command. The tables have some that it is still to get.
fn is_known(name: &str) -> bool {
    !StoreClient::new(WORK_MAX).reply(&request(&[name])).is_unknown_command()
}

fn request(words: &[&str]) -> Request {
    let arguments = words.iter().map(|&word| word.into()).collect();
    Request { arguments, comparison: Comparison::Exact }
}

/// Compares replies in a version of the protocol. Commands that are more work than `work_max` are
/// jobs: with 0, all are.
fn compare(
    server: &mut RedisServer,
    (version, work_max): (&str, usize),
    requests: &[Request],
) -> TestCaseResult {
    server.replies(&[request(&["SELECT", "0"]), request(&["FLUSHALL"])]);
    let mut store = StoreClient::new(work_max);
    let hello = request(&["HELLO", version]);
    store.reply(&hello);
    server.replies(&[hello]);
    let all = with_deletions_and_final_reads(requests);
    let replies = server.replies(&all);
    for (index, (request, expected)) in all.iter().zip(&replies).enumerate() {
        let reply = store.reply(request);
        prop_assert!(
            reply.matches(expected, request.comparison),
            "RESP{version}, jobs above {work_max}, request {index}: {request:?}\n\
             redis-server: {expected:?}\n       store: {reply:?}\nall requests:\n{}",
            all[..=index].iter().map(|it| format!("  {it:?}\n")).collect::<String>(),
        );
    }
    Ok(())
}

/// Returns the requests with the deletions that make the values the same again, and the requests
/// that show all values in the end.
fn with_deletions_and_final_reads(requests: &[Request]) -> Vec<Request> {
    let mut all = Vec::new();
    for request in requests {
        all.push(request.clone());
        if request.comparison == Comparison::RandomRemoval
            && let Some(key) = request.arguments.get(1)
        {
            let arguments = vec!["DEL".into(), key.clone()];
            all.push(Request { arguments, comparison: Comparison::TypesAndLengths });
        }
    }
    // Redis unpacks a sorted set when it sorts its members.
    let is_sort =
        |request: &Request| request.arguments[0].to_ascii_lowercase().starts_with(b"sort");
    let has_sort = requests.iter().any(is_sort);
    for key in KEYS {
        let final_reads = GROUPS.iter().flat_map(|group| group.final_reads);
        let final_reads = final_reads.filter(|read| is_known(read.name));
        let final_reads =
            final_reads.filter(|read| !has_sort || read.comparison != Comparison::Encoding);
        all.extend(final_reads.map(|read| read_request(read, key)));
    }
    all
}

fn now_ms() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("it is after 1970");
    now.as_millis() as u64
}

/// A store with one client.
pub(crate) struct StoreClient {
    store: Store,
    client: Client,
}

impl StoreClient {
    pub(crate) fn new(work_max: usize) -> Self {
        let store = Store::new(Settings::default(), [7; 24], now_ms()).with_work_max(work_max);
        let client = Client::new(&store, "127.0.0.1:1", now_ms());
        Self { store, client }
    }

    pub(crate) fn reply(&mut self, request: &Request) -> RespReply {
        let mut output = ReplyOutput::default();
        let sent = encode(std::slice::from_ref(request));
        self.client.receive(&self.store, &sent, now_ms(), &mut output);
        self.client.run_jobs(&self.store, now_ms(), &mut output);
        let mut bytes = Vec::new();
        for part in output.parts() {
            match part {
                OutputPart::Bytes(part) => bytes.extend_from_slice(part),
                OutputPart::Shared(part) => bytes.extend_from_slice(part),
            }
        }
        let parsed = RespReply::parse(&bytes);
        let (reply, parsed_bytes) =
            parsed.unwrap_or_else(|| panic!("{request:?}: half a reply: {}", bytes.escape_ascii()));
        assert_eq!(parsed_bytes, bytes.len(), "{request:?}: more than one reply");
        reply
    }
}
