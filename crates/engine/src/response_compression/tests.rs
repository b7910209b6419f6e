use std::io::{Read, Write};

use flate2::write::GzDecoder;
use proptest::prelude::*;

use super::content_encoder::ResponseEncoder;
use super::*;
use crate::buffer_pool::Pool;
use crate::limits::{CHUNK_BYTES, ENCODE_MIN_BYTES, ENCODERS_MAX};
use pinion_http::field::Field;
use pinion_http::h1::head_parser::{HeadStorage, Parsed, parse};
use pinion_http::limits::Limits;

fn chosen(accept: &str) -> Coding {
    let text = format!("GET / HTTP/1.1\r\nHost: a\r\n{accept}\r\n");
    let mut storage = HeadStorage::reserved();
    let parsed = parse(text.as_bytes(), 0, &mut storage, &Limits::default()).expect("a head");
    let Parsed::Head { head, .. } = parsed else { panic!("not whole") };
    choose(&head)
}

#[test]
fn the_preferred_coding_is_chosen_and_gzip_before_brotli() {
    for (accept, coding) in [
        ("", Coding::Identity),
        ("Accept-Encoding: gzip, deflate, br, zstd\r\n", Coding::Gzip),
        ("Accept-Encoding: gzip, deflate\r\n", Coding::Gzip),
        ("Accept-Encoding: zstd, deflate\r\n", Coding::Identity),
        ("Accept-Encoding: br;q=0.5, gzip\r\n", Coding::Gzip),
        ("Accept-Encoding: br, gzip;q=0.9\r\n", Coding::Brotli),
        ("Accept-Encoding: br\r\n", Coding::Brotli),
        ("Accept-Encoding: br;q=0, gzip;q=0\r\n", Coding::Identity),
        ("Accept-Encoding: identity, gzip;q=0.5\r\n", Coding::Identity),
        ("Accept-Encoding: *\r\n", Coding::Gzip),
    ] {
        assert_eq!(chosen(accept), coding, "{accept}");
    }
}

fn fields(lines: &str) -> Vec<Field<'_>> {
    let field = |line: &'static str| -> Option<Field<'static>> {
        let (name, value) = line.split_once(": ")?;
        Some(Field { name: name.as_bytes(), value: value.as_bytes() })
    };
    let lines: &'static str = String::leak(lines.to_owned());
    lines.lines().filter_map(field).collect()
}

#[test]
fn only_suitable_responses_are_compressed() {
    let html = "Content-Type: text/html; charset=utf-8";
    let suited = |status, lines: &str, length| is_suited(status, fields(lines).into_iter(), length);
    assert!(suited(200, html, None));
    assert!(suited(404, html, Some(ENCODE_MIN_BYTES)));
    assert!(suited(200, "content-type: text/event-stream\ncache-control: no-cache", None));
    assert!(!suited(200, html, Some(ENCODE_MIN_BYTES - 1)));
    assert!(!suited(200, "Content-Type: image/png", None));
    assert!(!suited(200, "", None));
    for status in [204, 206] {
        assert!(!suited(status, html, None), "{status}");
    }
    assert!(suited(304, "ETag: \"a\"", None));
    assert!(!suited(304, "ETag: \"a\"\nContent-Type: image/png", None));
    for forbids in [
        "content-encoding: gzip",
        "Content-Range: bytes 0-4/5",
        "Cache-Control: public, No-Transform",
        "Content-Digest: sha-256=:AAAA:",
        "Repr-Digest: sha-256=:AAAA:",
        "Digest: sha-256=AAAA",
        "Content-MD5: AAAA",
    ] {
        assert!(!suited(200, &format!("{html}\n{forbids}"), None), "{forbids}");
    }
}

fn recoded(coding: Coding, status: u16, lines: &str) -> String {
    let fields = fields(lines);
    let recoded = Recoded::new(coding, status, fields.iter().copied());
    let line = |field: Field<'_>| {
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).expect("text");
        text(field.name) + ": " + &text(field.value)
    };
    recoded.apply(fields.into_iter()).map(line).collect::<Vec<_>>().join("\n")
}

/// The encoder changes the fields of a response as RFC 9110 §8.4, §8.8.1, §12.5.5 and §15.4.5
/// require.
#[test]
fn compression_adjusts_the_response_fields() {
    let given = "X: y\nETag: \"a\"\nAccept-Ranges: bytes";
    assert_eq!(
        recoded(Coding::Gzip, 200, given),
        "X: y\nETag: W/\"a\"\nContent-Encoding: gzip\nVary: Accept-Encoding"
    );
    assert_eq!(
        recoded(Coding::Identity, 200, given),
        "X: y\nETag: \"a\"\nAccept-Ranges: bytes\nVary: Accept-Encoding"
    );
    assert_eq!(recoded(Coding::Brotli, 304, given), "X: y\nETag: W/\"a\"\nVary: Accept-Encoding");
    for (own, vary) in [
        ("vary: Cookie", "Cookie, Accept-Encoding"),
        ("Vary: Cookie\nVary: Origin", "Cookie, Origin, Accept-Encoding"),
        ("Vary: accept-encoding, Cookie", "accept-encoding, Cookie"),
        ("Vary: *", "*"),
    ] {
        let all = format!("Content-Encoding: br\nVary: {vary}");
        assert_eq!(recoded(Coding::Brotli, 200, own), all, "{own}");
    }
    assert!(recoded(Coding::Brotli, 200, "ETag: W/\"a\"").starts_with("ETag: W/\"a\"\n"));
}

/// Decodes the bytes that a client has received so far.
fn decoded(coding: Coding, bytes: &[u8]) -> Vec<u8> {
    let mut content = Vec::new();
    if coding == Coding::Gzip {
        let mut decoder = GzDecoder::new(&mut content);
        decoder.write_all(bytes).expect("gzip");
        decoder.flush().expect("gzip");
        drop(decoder);
    } else {
        // After the last byte, the decoder reports that more bytes must follow.
        let mut decoder = pinion_brotli::Decoder::new(bytes);
        let mut piece = [0; 4096];
        while let Ok(count @ 1..) = decoder.read(&mut piece) {
            content.extend_from_slice(&piece[..count]);
        }
    }
    content
}

/// Returns whether the bytes are one whole stream of a coding, with nothing after it.
fn is_whole(coding: Coding, bytes: &[u8]) -> bool {
    if coding == Coding::Gzip {
        let mut decoder = flate2::bufread::GzDecoder::new(bytes);
        decoder.read_to_end(&mut Vec::new()).is_ok() && decoder.into_inner().is_empty()
    } else {
        pinion_brotli::Decoder::new(bytes).read_to_end(&mut Vec::new()).is_ok()
    }
}

fn content() -> impl Strategy<Value = Vec<u8>> {
    let noise = prop::collection::vec(any::<u8>(), 0..3000);
    let text = (0u8..4, 0usize..150_000).prop_map(|(seed, bytes)| {
        (0..bytes).map(|at| b'a' + (at * at / 7 % 13) as u8 + seed).collect()
    });
    prop_oneof![Just(Vec::new()), noise, text]
}

fn run(
    encoder: &mut ResponseEncoder,
    input: &[u8],
    operation: EncoderOperation,
    wire: &mut Vec<u8>,
) {
    let (mut at, mut out) = (0, Vec::new());
    loop {
        let step = encoder.step(&input[at..], operation, &mut out).expect("it works");
        assert!(out.len() <= CHUNK_BYTES && out.capacity() <= CHUNK_BYTES);
        wire.extend_from_slice(&out);
        at += step.used;
        if step.is_done {
            break;
        }
    }
    assert_eq!(at, input.len());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// However content is cut and flushed, a client can decode after a flush all content that was
    /// written before, and the whole stream decodes to the whole content.
    #[test]
    fn decoded_content_equals_the_written_content(
        pieces in prop::collection::vec((content(), any::<bool>()), 0..8),
        gzip in any::<bool>(),
    ) {
        let coding = if gzip { Coding::Gzip } else { Coding::Brotli };
        let mut encoder = ResponseEncoder::new(coding).expect("a coding that is made");
        let (mut wire, mut all) = (Vec::new(), Vec::new());
        for (piece, flushes) in pieces {
            run(&mut encoder, &piece, EncoderOperation::Process, &mut wire);
            all.extend_from_slice(&piece);
            if flushes && !all.is_empty() {
                run(&mut encoder, b"", EncoderOperation::Flush, &mut wire);
                prop_assert!(decoded(coding, &wire) == all, "behind a flush");
            }
            prop_assert!(!is_whole(coding, &wire), "it looks complete and is not");
        }
        run(&mut encoder, b"", EncoderOperation::Finish, &mut wire);
        prop_assert!(is_whole(coding, &wire));
        prop_assert!(decoded(coding, &wire) == all);
    }
}

#[test]
fn the_number_of_encoders_is_limited() {
    let bytes = ResponseEncoder::bytes_of(Coding::Gzip);
    let mut pool = Pool::new(bytes * ENCODERS_MAX * 4);
    let mut encoders = Encoders::default();
    let mut take = |pool: &mut Pool| encoders.take(Coding::Gzip, pool);
    let mut taken: Vec<_> = (0..ENCODERS_MAX).map(|_| take(&mut pool)).collect();
    assert!(taken.iter().all(Option::is_some));
    assert_eq!(take(&mut pool), None, "one too many");
    encoders.give_back(&mut taken[7], &mut pool);
    assert_eq!(taken[7], None);
    encoders.give_back(&mut taken[7], &mut pool);
    taken[7] = encoders.take(Coding::Gzip, &mut pool);
    assert!(taken[7].is_some());
    assert_eq!(pool.used_bytes(), bytes * ENCODERS_MAX);
    taken.iter_mut().for_each(|id| encoders.give_back(id, &mut pool));
    assert_eq!(pool.used_bytes(), 0);
}

#[test]
fn encoders_leave_the_reserve_alone() {
    let bytes = ResponseEncoder::bytes_of(Coding::Gzip);
    // A quarter of so small a budget is the reserve.
    let mut pool = Pool::new(2 * bytes);
    let mut encoders = Encoders::default();
    assert!(encoders.take(Coding::Gzip, &mut pool).is_some());
    assert_eq!(encoders.take(Coding::Gzip, &mut pool), None);
    assert_eq!(pool.used_bytes(), bytes);
    assert_eq!(encoders.take(Coding::Zstd, &mut pool), None, "not made on demand");
}
