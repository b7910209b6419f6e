//! Tests of the limits of memory: responses in brotli, requests that wait, responses that are not
//! read.

use pinion_brotli::{BrotliEncoder, EncoderMemory, EncoderOperation};

use super::*;
use crate::limits::REQUEST_MEMORY_SITE_DIVISOR;

fn brotli(content: &[u8]) -> Vec<u8> {
    let mut encoder = BrotliEncoder::new(&EncoderMemory::new(5), 5, 22, content.len());
    let mut data = vec![0; content.len() + 100];
    let step = encoder.step(EncoderOperation::Finish, content, &mut data).expect("an encoder");
    assert!(step.is_done);
    data.truncate(step.written);
    data
}

fn encoded_as(coding: &str, content: &[u8]) -> Vec<u8> {
    let fields = format!("Content-Encoding: {coding}\r\nContent-Length: {}", content.len());
    [format!("HTTP/1.1 200 OK\r\n{fields}\r\n\r\n").as_bytes(), content].concat()
}

fn run_with_decoders(brotli_decoders_max: usize) -> Run {
    Run::with(HttpClientSettings { brotli_decoders_max, ..HttpClientSettings::default() })
}

/// Starts a request that opens a connection. Returns it with its server and the sent bytes.
fn started(run: &mut Run, request: ClientRequest) -> (RequestId, Client, String) {
    let id = run.start(request);
    let (server, _) = run.accept();
    let head = run.requested(server);
    (id, server, head)
}

#[test]
fn brotli_responses_are_limited_by_the_decoders() {
    const MAX: usize = 3;
    let mut run = run_with_decoders(MAX);
    let open: Vec<_> = (0..10).map(|_| started(&mut run, get(URL))).collect();
    let asking = open.iter().filter(|(.., head)| head.contains("Accept-Encoding: gzip, br\r\n"));
    let others = open.iter().filter(|(.., head)| head.contains("Accept-Encoding: gzip\r\n"));
    assert_eq!((asking.count(), others.count()), (MAX, 10 - MAX));
    let content = vec![b'x'; 100_000];
    for (number, (id, server, _)) in open.iter().enumerate() {
        let is_brotli = number < MAX;
        let (coding, data) =
            if is_brotli { ("br", brotli(&content)) } else { ("gzip", gzip(&content)) };
        let response = encoded_as(coding, &data);
        let (front, back) = response.split_at(response.len() - 3);
        run.respond(*server, front);
        assert_eq!(run.client().brotli.left(), number.min(MAX), "half of it keeps its decoder");
        run.respond(*server, back);
        assert_eq!(run.read_all(*id), (content.clone(), ReadOutcome::End));
        assert_eq!(run.client().brotli.left(), (number + 1).min(MAX));
    }
    run.end(&open.iter().map(|(id, ..)| *id).collect::<Vec<_>>());
}

#[test]
fn every_end_of_a_response_frees_its_decoder() {
    let damaged = encoded_as("br", b"\xff\xff\xff\xff");
    let plain = b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n".to_vec();
    let gzipped = encoded_as("gzip", &gzip(b"text")[..9]);
    let redirect = redirect_to("ftp://a/");
    let empty = b"HTTP/1.1 204 No Content\r\nContent-Encoding: br\r\n\r\n".to_vec();
    for response in [damaged, plain, gzipped, redirect, empty, b"garbage\r\n\r\n".to_vec()] {
        let mut run = run_with_decoders(1);
        let (id, server, _) = started(&mut run, get(URL));
        assert_eq!(run.client().brotli.left(), 0);
        run.respond(server, &response);
        assert_eq!(run.client().brotli.left(), 1, "{}", response.escape_ascii());
        run.end(&[id]);
    }
    // Nothing comes, or half of it.
    let half = encoded_as("br", &brotli(b"some text")[..4]);
    for (response, is_closed) in [(&b""[..], true), (b"", false), (&half, true), (&half, false)] {
        let mut run = run_with_decoders(1);
        let (id, server, _) = started(&mut run, get(URL));
        if !response.is_empty() {
            run.respond(server, &response[..response.len() - 1]);
        }
        assert_eq!(run.client().brotli.left(), 0);
        if is_closed {
            run.client().close(id);
        } else {
            let end_ms = run.now_ms() + TIMEOUT_MS + 100;
            run.pass_until(end_ms);
            assert!(run.client().response(id).is_err() || !response.is_empty());
        }
        assert_eq!(run.client().brotli.left(), 1, "{is_closed}");
        run.end(&[id]);
    }
}

#[test]
fn unrequested_brotli_is_refused() {
    let mut run = run_with_decoders(0);
    let (id, server, head) = started(&mut run, get(URL));
    assert!(head.contains("Accept-Encoding: gzip\r\n"), "{head}");
    run.respond(server, &encoded_as("br", &brotli(b"text")));
    let error = run.error(id).expect("an error");
    assert!(error.contains("in brotli, which was not asked for"), "{error}");
    // A caller that requests brotli decodes it.
    let mut fields = OwnedFields::default();
    fields.push(b"accept-encoding", b"br");
    let (own, server, _) = started(&mut run, ClientRequest { fields, ..get(URL) });
    let data = brotli(b"text");
    run.respond(server, &encoded_as("br", &data));
    assert_eq!(run.read_all(own), (data, ReadOutcome::End));
    run.end(&[id, own]);
}

/// Starts requests of a site until there is no memory for more; one connection serves them.
fn start_until_full(run: &mut Run, site: u64) -> (Vec<RequestId>, String) {
    let mut ids = Vec::new();
    loop {
        let now_ms = run.now_ms();
        match run.client().start(ClientRequest { site, ..get(URL) }, now_ms) {
            Ok(id) => ids.push(id),
            Err(error) => return (ids, error.to_string()),
        }
        assert!(ids.len() < 10_000, "they are not bounded");
    }
}

#[test]
fn requests_that_wait_are_bounded_for_each_site_and_in_all() {
    let bytes = 400_000;
    let pool = PoolSettings { connections_per_key_max: 1, ..PoolSettings::default() };
    let bounds = HttpClientSettings { pool, request_memory_bytes: bytes, ..Default::default() };
    let mut run = Run::with(bounds);
    let (mut all, mut counts) = (Vec::new(), Vec::new());
    for site in 0..REQUEST_MEMORY_SITE_DIVISOR as u64 {
        let (ids, error) = start_until_full(&mut run, site);
        assert!(error.contains("requests of this site"), "{error}");
        counts.push(ids.len());
        all.extend(ids);
    }
    let (others, error) = start_until_full(&mut run, 99);
    // The memory that is left to each site is less than one request takes.
    assert!(others.len() < REQUEST_MEMORY_SITE_DIVISOR, "{}", others.len());
    assert!(error.contains("requests of all sites"), "{error}");
    all.extend(others);
    assert!(run.client().memory.bytes() <= bytes);
    // All sites have the same number. The memory of one request is as documented at
    // `REQUEST_MEMORY_MAX_BYTES`.
    assert!(counts.iter().all(|count| *count == counts[0]), "{counts:?}");
    let each_bytes = run.client().memory.bytes() / all.len();
    assert!((2500..3500).contains(&each_bytes), "{each_bytes} bytes");
    // A request that ends makes room for another one of its site.
    run.client().close(all[0]);
    let (more, _) = start_until_full(&mut run, 0);
    assert_eq!(more.len(), 1);
    all.extend(more);
    run.end(&all);
}

#[test]
fn unread_responses_count_towards_the_memory_of_requests() {
    let bounds = HttpClientSettings { request_memory_bytes: 400_000, ..Default::default() };
    let mut run = Run::with(bounds);
    let mut ids = Vec::new();
    let head = b"HTTP/1.1 200 OK\r\nContent-Length: 30000\r\n\r\n";
    let response = [&head[..], &[b'x'; 30_000]].concat();
    let first = run.start(get(URL));
    let (server, _) = run.accept();
    run.respond(server, &response);
    ids.push(first);
    let refused = loop {
        let now_ms = run.now_ms();
        match run.client().start(get(URL), now_ms) {
            Ok(id) => ids.push(id),
            Err(error) => break error,
        }
        run.passes();
        run.respond(server, &response);
        assert!(ids.len() < 100, "they are not bounded");
    };
    assert!(refused.to_string().contains("that are not read"), "{refused}");
    assert!((4..=6).contains(&ids.len()), "{} of 30 kB", ids.len());
    // The waiting responses are read to their end, and then there is room again.
    for id in &ids {
        assert_eq!(run.read_all(*id).0.len(), 30_000);
        run.client().close(*id);
    }
    let id = run.start(get(URL));
    run.end(&[id]);
}
