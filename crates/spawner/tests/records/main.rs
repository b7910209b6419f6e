//! Requests of workers as bytes.

mod record_law;

use std::fs;
use std::path::Path;

use pinion_spawner::limits::{ARGUMENTS_MAX, ARGUMENTS_MAX_BYTES};
use pinion_spawner::request::{Request, StartRequest};
use proptest::prelude::*;

/// A request without borrowed arguments.
#[derive(Clone, Debug)]
enum Owned {
    Start(u64, u16, u32, Vec<Vec<u8>>),
    Signal(u64, u8),
    Stop(u64),
}

impl Owned {
    fn request(&self) -> Request<'_> {
        match self {
            Owned::Start(id, start, generation, arguments) => Request::Start(StartRequest {
                id: *id,
                start: *start,
                generation: *generation,
                arguments: arguments.iter().map(Vec::as_slice).collect(),
            }),
            Owned::Signal(id, signal) => Request::Signal { id: *id, signal: *signal },
            Owned::Stop(id) => Request::Stop { id: *id },
        }
    }
}

fn requests() -> impl Strategy<Value = Owned> {
    let argument = prop::collection::vec(1..=u8::MAX, 0..100);
    let arguments = prop::collection::vec(argument, 0..=ARGUMENTS_MAX);
    prop_oneof![
        (any::<u64>(), any::<u16>(), any::<u32>(), arguments)
            .prop_map(|(id, start, generation, list)| Owned::Start(id, start, generation, list)),
        (any::<u64>(), 1..=31u8).prop_map(|(id, signal)| Owned::Signal(id, signal)),
        any::<u64>().prop_map(Owned::Stop),
    ]
}

proptest! {
    #[test]
    fn requests_are_decoded_as_they_were_encoded(owned in requests()) {
        let request = owned.request();
        let bytes = request.encode().expect("within the limits");
        prop_assert_eq!(Request::decode(&bytes), Some(request));
    }

    #[test]
    fn truncated_and_longer_records_are_malformed(owned in requests(), at in any::<u16>()) {
        let mut bytes = owned.request().encode().expect("within the limits");
        let cut = usize::from(at) % bytes.len();
        prop_assert_eq!(Request::decode(&bytes[..cut]), None);
        bytes.push(0);
        prop_assert_eq!(Request::decode(&bytes), None);
    }

    #[test]
    fn changed_records_are_other_requests_or_none(
        owned in requests(),
        at in any::<u16>(),
        byte in any::<u8>(),
    ) {
        let mut bytes = owned.request().encode().expect("within the limits");
        let at = usize::from(at) % bytes.len();
        bytes[at] = byte;
        record_law::check(&bytes);
    }

    #[test]
    fn any_bytes_are_a_request_or_none(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        record_law::check(&bytes);
    }
}

#[test]
fn the_corpus_of_spawner_request() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/spawner_request");
    let (mut files, mut requests) = (0, 0);
    for entry in fs::read_dir(folder).expect("the corpus") {
        let data = fs::read(entry.expect("an entry").path()).expect("a file");
        record_law::check(&data);
        requests += usize::from(Request::decode(&data).is_some());
        files += 1;
    }
    assert!(requests >= 4 && files > requests, "{requests} of {files}");
}

#[test]
fn arguments_are_bounded() {
    let start = |arguments: Vec<&[u8]>| {
        let request = StartRequest { id: 1, start: 0, generation: 1, arguments };
        Request::Start(request).encode()
    };
    let longest = vec![b'x'; ARGUMENTS_MAX_BYTES];
    let bytes = start(vec![&longest]).expect("within the limits");
    assert!(Request::decode(&bytes).is_some());
    let longer = vec![b'x'; ARGUMENTS_MAX_BYTES + 1];
    assert_eq!(start(vec![&longer]), None);
    assert_eq!(start(vec![b""; ARGUMENTS_MAX + 1]), None);
    assert_eq!(start(vec![b"a\0b"]), None);
    // The spawner refuses what no client of this crate would send.
    let mut record = bytes.clone();
    let last = record.len() - 1;
    record[last] = 0;
    assert_eq!(Request::decode(&record), None);
}

#[test]
fn a_request_has_the_documented_layout() {
    let arguments: Vec<&[u8]> = vec![b"ab", b""];
    let request = StartRequest { id: 0x0807_0605_0403_0201, start: 3, generation: 5, arguments };
    let head = [1, 0, 3, 0, 5, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8];
    let rest = [2, 0, 2, 0, b'a', b'b', 0, 0];
    let bytes = Request::Start(request).encode().expect("within the limits");
    assert_eq!(bytes, [&head[..], &rest].concat());
}
