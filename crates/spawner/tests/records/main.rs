//! Requests of workers as bytes.

mod record_law;

use std::fs;
use std::path::Path;

use pinion_spawner::limits::{
    ARGUMENTS_MAX, ARGUMENTS_MAX_BYTES, CGI_VARIABLES_MAX, CGI_VARIABLES_MAX_BYTES,
    RECORD_MAX_BYTES, SCRIPT_PATH_MAX_BYTES,
};
use pinion_spawner::worker_request::{CgiScript, SpawnerRequest, StartRequest};
use proptest::prelude::*;

/// A request without borrowed arguments.
#[derive(Clone, Debug)]
enum Owned {
    Start(u64, u16, u32, Vec<Vec<u8>>, Option<(Vec<u8>, Vec<u8>)>),
    Signal(u64, u8),
    Stop(u64),
}

impl Owned {
    fn request(&self) -> SpawnerRequest<'_> {
        match self {
            Owned::Start(id, start, generation, arguments, script) => {
                SpawnerRequest::Start(StartRequest {
                    id: *id,
                    start: *start,
                    generation: *generation,
                    arguments: arguments.iter().map(Vec::as_slice).collect(),
                    script: script.as_ref().map(|(path, variables)| CgiScript { path, variables }),
                })
            }
            Owned::Signal(id, signal) => SpawnerRequest::Signal { id: *id, signal: *signal },
            Owned::Stop(id) => SpawnerRequest::Stop { id: *id },
        }
    }
}

fn requests() -> impl Strategy<Value = Owned> {
    let argument = prop::collection::vec(1..=u8::MAX, 0..100);
    let arguments = prop::collection::vec(argument, 0..=ARGUMENTS_MAX);
    let variable =
        ("[A-Z]{1,8}", "[^\0]{0,30}").prop_map(|(name, value)| format!("{name}={value}\0"));
    let variables = prop::collection::vec(variable, 0..10).prop_map(|list| list.concat());
    let path = prop::collection::vec("[^/\0.]{1,10}", 1..5).prop_map(|segments| segments.join("/"));
    let script = (path, variables).prop_map(|(path, block)| (path.into(), block.into()));
    let script = prop::option::of(script);
    prop_oneof![
        (any::<u64>(), any::<u16>(), any::<u32>(), arguments, script).prop_map(
            |(id, start, generation, list, script)| {
                Owned::Start(id, start, generation, list, script)
            }
        ),
        (any::<u64>(), 1..=31u8).prop_map(|(id, signal)| Owned::Signal(id, signal)),
        any::<u64>().prop_map(Owned::Stop),
    ]
}

proptest! {
    #[test]
    fn requests_round_trip(owned in requests()) {
        let request = owned.request();
        let bytes = request.encode().expect("within the limits");
        prop_assert_eq!(SpawnerRequest::decode(&bytes), Some(request));
    }

    #[test]
    fn truncated_and_longer_records_are_malformed(owned in requests(), at in any::<u16>()) {
        let mut bytes = owned.request().encode().expect("within the limits");
        let cut = usize::from(at) % bytes.len();
        prop_assert_eq!(SpawnerRequest::decode(&bytes[..cut]), None);
        bytes.push(0);
        prop_assert_eq!(SpawnerRequest::decode(&bytes), None);
    }

    #[test]
    fn changed_records_are_valid_requests_or_refused(
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
    fn any_bytes_are_a_valid_request_or_refused(
        bytes in prop::collection::vec(any::<u8>(), 0..200),
    ) {
        record_law::check(&bytes);
    }
}

#[test]
fn the_spawner_request_corpus_keeps_the_law() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/spawner_request");
    let (mut files, mut requests) = (0, 0);
    for entry in fs::read_dir(folder).expect("the corpus") {
        let data = fs::read(entry.expect("an entry").path()).expect("a file");
        record_law::check(&data);
        requests += usize::from(SpawnerRequest::decode(&data).is_some());
        files += 1;
    }
    assert!(requests >= 5 && files > requests, "{requests} of {files}");
}

#[test]
fn arguments_are_bounded() {
    let start = |arguments: Vec<&[u8]>| {
        let request = StartRequest { id: 1, start: 0, generation: 1, arguments, script: None };
        SpawnerRequest::Start(request).encode()
    };
    let longest = vec![b'x'; ARGUMENTS_MAX_BYTES];
    let bytes = start(vec![&longest]).expect("within the limits");
    assert!(SpawnerRequest::decode(&bytes).is_some());
    let longer = vec![b'x'; ARGUMENTS_MAX_BYTES + 1];
    assert_eq!(start(vec![&longer]), None);
    assert_eq!(start(vec![b""; ARGUMENTS_MAX + 1]), None);
    assert_eq!(start(vec![b"a\0b"]), None);
    // The spawner refuses records that no client of this crate would send.
    let mut record = bytes.clone();
    let last = record.len() - 2;
    record[last] = 0;
    assert_eq!(SpawnerRequest::decode(&record), None);
}

fn start_of_script(path: &[u8], variables: &[u8]) -> Option<Vec<u8>> {
    let script = Some(CgiScript { path, variables });
    let arguments = Vec::new();
    SpawnerRequest::Start(StartRequest { id: 1, start: 0, generation: 1, arguments, script })
        .encode()
}

/// A worker cannot name a script outside of the folder, or one in two ways.
#[test]
fn only_plain_relative_paths_of_scripts_are_accepted() {
    for path in ["a", "a/b", "...", "a.cgi/.b", " ", "a/\u{fc}"] {
        assert!(start_of_script(path.as_bytes(), b"").is_some(), "{path}");
    }
    let wrong =
        ["", "/", "/a", "a/", "a//b", ".", "..", "../a", "a/..", "a/../b", "a/./b", "./a", "a\0b"];
    let bytes = start_of_script(b"aaaaaa", b"").expect("a script");
    let at = bytes.len() - 4 - 6;
    for path in wrong {
        assert_eq!(start_of_script(path.as_bytes(), b""), None, "{path}");
        // Nor does the spawner take it from another client.
        let mut record = bytes[..at - 2].to_vec();
        record.extend([path.len() as u8, 0]);
        record.extend_from_slice(path.as_bytes());
        record.extend([0; 4]);
        assert_eq!(SpawnerRequest::decode(&record), None, "{path}");
    }
    assert!(start_of_script(&[b'a'; SCRIPT_PATH_MAX_BYTES], b"").is_some());
    assert_eq!(start_of_script(&[b'a'; SCRIPT_PATH_MAX_BYTES + 1], b""), None);
}

#[test]
fn variables_of_scripts_are_bounded_and_have_names() {
    let variables = |block: &[u8]| start_of_script(b"a", block);
    for block in [&b"A=1\0B=\0"[..], b"", b"A==\0"] {
        assert!(variables(block).is_some(), "{block:?}");
    }
    for block in [&b"A=1"[..], b"A=1\0B", b"=1\0", b"A\0", b"\0", b"A=1\0\0"] {
        assert_eq!(variables(block), None, "{block:?}");
    }
    assert!(variables(&b"A=1\0".repeat(CGI_VARIABLES_MAX)).is_some());
    assert_eq!(variables(&b"A=1\0".repeat(CGI_VARIABLES_MAX + 1)), None);
    let long = |bytes: usize| [b"A=", &*vec![b'x'; bytes - 3], b"\0"].concat();
    assert_eq!(variables(&long(CGI_VARIABLES_MAX_BYTES + 1)), None);
    let script = [b'a'; SCRIPT_PATH_MAX_BYTES];
    let longest = start_of_script(&script, &long(CGI_VARIABLES_MAX_BYTES)).expect("in the limits");
    assert!(longest.len() <= RECORD_MAX_BYTES, "{}", longest.len());
}

#[test]
fn a_request_has_the_documented_layout() {
    let arguments: Vec<&[u8]> = vec![b"ab", b""];
    let id = 0x0807_0605_0403_0201;
    let mut request = StartRequest { id, start: 3, generation: 5, arguments, script: None };
    let head = [1, 0, 3, 0, 5, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8];
    let rest = [2, 0, 2, 0, b'a', b'b', 0, 0];
    let bytes = SpawnerRequest::Start(request.clone()).encode().expect("within the limits");
    assert_eq!(bytes, [&head[..], &rest, &[0]].concat());
    request.script = Some(CgiScript { path: b"s", variables: b"A=b\0" });
    let script = [1, 1, 0, b's', 4, 0, 0, 0, b'A', b'=', b'b', 0];
    let bytes = SpawnerRequest::Start(request).encode().expect("within the limits");
    assert_eq!(bytes, [&head[..], &rest, &script].concat());
}
