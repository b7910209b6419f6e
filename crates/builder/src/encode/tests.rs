use std::io::Read;

use proptest::prelude::*;

use super::*;
use crate::coding_options::{CodingEffort, codings_at};
use pinion_http::content_coding::Coding;

fn decoded(coding: Coding, encoded: &EncodedContent) -> Vec<u8> {
    let mut content = Vec::new();
    match coding {
        Coding::Identity => unreachable!("the identity is not encoded"),
        Coding::Gzip => {
            let tail = encoded.stored.last_chunk::<4>().unwrap();
            content.resize(u32::from_le_bytes(*tail) as usize, 0);
            let mut decompressor = libdeflater::Decompressor::new();
            decompressor.gzip_decompress(&encoded.stored, &mut content).unwrap();
        }
        Coding::Brotli => {
            let mut reader = pinion_brotli::Decoder::new(&encoded.stored[..]);
            reader.read_to_end(&mut content).unwrap();
        }
        Coding::Zstd => content = zstd::decode_all(&encoded.stored[..]).unwrap(),
    }
    content
}

/// Encoders that have done nothing yet, and the codings they are asked for.
struct Fresh(Vec<CodingLevel>, Encoders);

fn fresh(codings: &str) -> Fresh {
    Fresh(codings_at(codings, CodingEffort::Best).unwrap(), Encoders::default())
}

impl Fresh {
    /// The codings that are worth keeping.
    fn encode(&mut self, content: &[u8]) -> Vec<EncodedContent> {
        let Fresh(codings, encoders) = self;
        codings.iter().filter_map(|choice| encoders.encode(*choice, content)).collect()
    }
}

/// Text with repetitions: long enough to be worth a coding from a few hundred bytes on.
fn text(bytes: usize, seed: u64) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut text = Vec::with_capacity(bytes + 8);
    while text.len() < bytes {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        text.extend_from_slice(format!("word{} ", state >> 57).as_bytes());
    }
    text.truncate(bytes);
    text
}

#[test]
fn every_level_of_every_coding_round_trips() {
    for method in Method::ALL {
        // Zopfli takes a hundred times as long as the others.
        let content = text(if method == Method::Zopfli { 1000 } else { 20_000 }, 1);
        for level in method.levels() {
            let choice = CodingLevel { method, level };
            let encoded = Encoders::default().encode(choice, &content).unwrap();
            assert_eq!(decoded(choice.coding(), &encoded), content, "{choice}");
            assert_eq!(encoded.digest, Digest::of(&encoded.stored));
        }
    }
}

#[test]
fn codings_that_save_too_little_are_not_kept() {
    let noise: Vec<u8> =
        (0..4096u32).flat_map(|n| n.wrapping_mul(0x9e37_79b1).to_le_bytes()).collect();
    let mut encoders = fresh("gzip,br,zstd");
    for content in [&b""[..], b"x", &[b'a'; 67], &noise] {
        assert!(encoders.encode(content).is_empty(), "{} bytes", content.len());
    }
    assert_eq!(encoders.encode(&[b'a'; 2000]).len(), 3);
}

/// stored + 64 ≤ 0.95 × identity, at its edge.
#[test]
fn the_largest_kept_size_is_exact_at_its_limit() {
    assert_eq!(largest_kept(0), None);
    assert_eq!(largest_kept(67), None);
    assert_eq!(largest_kept(68), None);
    assert_eq!(largest_kept(69), Some(1));
    assert_eq!(largest_kept(1000), Some(886));
    assert_eq!(largest_kept(u64::MAX), Some((u128::from(u64::MAX) * 95 / 100) as u64 - 64));
    for bytes in 0..2000u64 {
        let kept = |stored: u64| (stored + 64) * 100 <= bytes * 95;
        match largest_kept(bytes) {
            Some(most) => assert!(kept(most) && !kept(most + 1), "{bytes}"),
            None => assert!(!kept(1), "{bytes}"),
        }
    }
}

/// RFC 9659: no window above 8 MiB, even at the levels that would like one.
#[test]
fn zstd_windows_stay_within_the_standard() {
    let content = vec![0; (8 << 20) + 1];
    let mut encoders = fresh("zstd:22");
    let encoded = encoders.encode(&content);
    // RFC 8878 §3.1.1.1: after the magic number, a descriptor; bit 5 is Single_Segment_Flag.
    let (descriptor, window) = (encoded[0].stored[4], encoded[0].stored[5]);
    assert_eq!(descriptor & 0x20, 0, "a single segment's window is its content");
    let (exponent, mantissa) = (u64::from(window >> 3), u64::from(window & 7));
    let base = 1u64 << (10 + exponent);
    assert!(base + base / 8 * mantissa <= 8 << 20);
}

/// The same in one call, with memory that is fresh every time.
fn brotli_with_fresh_memory(level: u8, content: &[u8]) -> Option<Vec<u8>> {
    brotli_with_hint(level, content, brotli_hint(content.len()))
}

fn brotli_with_hint(level: u8, content: &[u8], size_hint: usize) -> Option<Vec<u8>> {
    let memory = EncoderMemory::new(level);
    let mut encoder =
        pinion_brotli::BrotliEncoder::new(&memory, level, BROTLI_WINDOW_LOG, size_hint);
    let mut out = vec![0; usize::try_from(largest_kept(content.len() as u64)?).unwrap()];
    let step = encoder.step(EncoderOperation::Finish, content, &mut out)?;
    out.truncate(step.written);
    step.is_done.then_some(out)
}

/// The encoder has one kind of table below 1 MiB of content and one from there on.
#[test]
fn reused_brotli_tables_do_not_change_the_output() {
    for level in [5, 7, 9] {
        let mut encoders = fresh(&format!("br:{level}"));
        for bytes in [3_000, 1_100_000, 4_000, 4_300_000, 1_000_000, 4_200_000, 1_200_000, 3_000] {
            let content = text(bytes, bytes as u64);
            let [encoded] = &encoders.encode(&content)[..] else { panic!("br:{level}") };
            let expected = brotli_with_fresh_memory(level, &content).unwrap();
            assert!(*encoded.stored == *expected, "br:{level}, {bytes} bytes");
        }
    }
}

/// Level 6 is libdeflate's 6 or 7, the other levels are themselves.
#[test]
fn gzip_level_6_searches_medium_content_at_level_7() {
    let alone = |level: i32, content: &[u8]| {
        let mut compressor = Compressor::new(CompressionLvl::new(level).unwrap());
        let mut out = vec![0; compressor.gzip_compress_bound(content.len())];
        let bytes = compressor.gzip_compress(content, &mut out).unwrap();
        out.truncate(bytes);
        out
    };
    let content = index(GZIP_HARDER_BYTES.end);
    let mut encoders = fresh("gzip:6");
    for (bytes, level) in [
        (GZIP_HARDER_BYTES.start - 1, 6),
        (GZIP_HARDER_BYTES.start, 7),
        (GZIP_HARDER_BYTES.end - 1, 7),
        (GZIP_HARDER_BYTES.end, 6),
    ] {
        let content = &content[..bytes];
        let [six, seven] = [6, 7].map(|level| alone(level, content));
        assert!(seven.len() < six.len(), "{bytes} bytes");
        let expected = if level == 7 { seven } else { six };
        assert!(*encoders.encode(content)[0].stored == *expected, "{bytes} bytes");
    }
    let middle = &content[..GZIP_HARDER_BYTES.start];
    for level in [1, 5, 7] {
        let mut encoders = fresh(&format!("gzip:{level}"));
        assert_eq!(*encoders.encode(middle)[0].stored, *alone(level, middle), "{level}");
    }
}

/// Rows of an index, as a search page has them: what hashes of four bytes are bad at.
fn index(bytes: usize) -> Vec<u8> {
    let mut state = 1u64;
    let mut index = Vec::with_capacity(bytes + 32);
    while index.len() < bytes {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let (term, first, second) = (state >> 52, (state >> 40) % 700, (state >> 30) % 700);
        index.extend_from_slice(format!("w{term:x}:[{first},{second}],").as_bytes());
    }
    index.truncate(bytes);
    index
}

/// Told its true length, the encoder would be worse by 3 % here.
#[test]
fn brotli_searches_large_content_with_longer_hashes() {
    let bytes = 1 << 20;
    let content = index(bytes);
    for level in 5..=8 {
        let mut encoders = fresh(&format!("br:{level}"));
        let [large] = &encoders.encode(&content)[..] else { panic!("br:{level}") };
        let by_its_length = brotli_with_hint(level, &content, bytes).unwrap();
        let saved = by_its_length.len() - large.stored.len();
        assert!(saved * 100 > by_its_length.len() * 2, "br:{level}: {saved} bytes saved");
        assert_eq!(decoded(Coding::Brotli, large), content, "br:{level}");
    }
    let smaller = content.get(1..).unwrap();
    let by_its_length = brotli_with_hint(6, smaller, smaller.len()).unwrap();
    let mut encoders = fresh("br:6");
    assert_eq!(*encoders.encode(smaller)[0].stored, *by_its_length);
}

/// The bytes of each edition of each method, so that a new version of an encoder cannot pass
/// unnoticed: if this fails, give the method another edition, and note its digest here.
#[test]
fn encoder_output_changes_only_with_the_edition() {
    // Compressed: beside text, what no encoder finds anything in.
    let noise = text(3000, 7).iter().map(|byte| byte.wrapping_mul(197)).rev().collect();
    let contents = [text(300, 1), text(50_000, 2), index(120_000), noise, index(1_300_000)];
    let mut found = Vec::new();
    for (method, levels, edition, _) in EDITIONS {
        let mut hasher = blake3::Hasher::new();
        // Zopfli takes a hundred times as long as the others.
        let contents = if method == Method::Zopfli { &contents[..4] } else { &contents[..] };
        for level in levels {
            for content in contents {
                let choice = CodingLevel { method, level };
                let encoded = Encoders::default().encode(choice, content);
                hasher.update(&encoded.map_or([0; 32], |encoded| encoded.digest.0));
            }
        }
        assert_eq!(method.edition(), edition, "{method:?}");
        let hash = hasher.finalize().to_hex();
        found.push(hash.get(..16).unwrap().to_owned());
    }
    assert_eq!(found, EDITIONS.map(|(_, _, _, expected)| expected));
}

/// Method, some of its levels, edition, and what their bytes hash to.
const EDITIONS: [(Method, [u8; 3], u8, &str); 4] = [
    (Method::Gzip, [1, 6, 12], 1, "e532819bf8bd1d74"),
    (Method::Zopfli, [1, 2, 3], 1, "7f7bb5004fb5c1f9"),
    (Method::Brotli, [4, 6, 9], 1, "9d025f1333ca8499"),
    (Method::Zstd, [3, 9, 12], 2, "f1267b1941b68ee1"),
];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(ProptestConfig::default().cases / 5))]

    /// What an encoder did before has no influence, whatever mix of lengths comes: kept memory is
    /// memory, not history. And everything comes back.
    #[test]
    fn earlier_content_does_not_change_the_output(
        level in 3u8..=9,
        contents in prop::collection::vec((0usize..70_000, 0u64..4), 1..8),
    ) {
        let codings = codings_at(&format!("gzip:3,br:{level},zstd:3"), CodingEffort::Best).unwrap();
        let mut encoders = Encoders::default();
        for (bytes, seed) in contents {
            let content = text(bytes, seed);
            for &choice in &codings {
                let used = encoders.encode(choice, &content);
                prop_assert_eq!(&used, &Encoders::default().encode(choice, &content));
                if let Some(used) = &used {
                    prop_assert_eq!(decoded(choice.coding(), used), content.clone());
                }
                if choice.method == Method::Brotli {
                    let expected = brotli_with_fresh_memory(level, &content);
                    prop_assert_eq!(used.map(|encoded| encoded.stored.to_vec()), expected);
                }
            }
        }
    }
}

/// Reports of progress change nothing of the result. The reported pieces add up to the content but
/// for the last piece.
#[test]
fn brotli_in_pieces_equals_brotli_at_once() {
    const PIECE: usize = BROTLI_PIECE_BYTES;
    for level in [0, 1, 2, 4, 5, 9, 10] {
        let sizes = [PIECE + 1, PIECE, PIECE - 1, 2 * PIECE, 2 * PIECE + 300_000];
        // The slowest ones take seconds.
        for bytes in sizes.into_iter().take(if level < 9 { 5 } else { 1 }) {
            let content = text(bytes, bytes as u64);
            let choice = CodingLevel { method: Method::Brotli, level };
            let mut pieces = Vec::new();
            let encoded =
                Encoders::default().encode_watched(choice, &content, &mut |read| pieces.push(read));
            let at_once = brotli_with_fresh_memory(level, &content).unwrap();
            assert!(encoded.is_some_and(|one| one.stored == at_once), "br:{level} {bytes}");
            let expected = if level < 2 { 0 } else { (bytes - 1) / PIECE };
            assert_eq!(pieces, vec![PIECE as u64; expected], "br:{level} {bytes}");
        }
    }
}

/// Content in pieces is hardly longer than in one, whether or not it fits into a window, and an
/// encoder whose output had no room for its content is as good as a new one.
#[test]
fn zstd_reports_its_pieces() {
    const PIECE: usize = ZSTD_PIECE_BYTES;
    let content = index(3 * PIECE + 100);
    for (level, bytes) in [(1, content.len()), (3, content.len()), (9, PIECE + 1), (3, PIECE)] {
        let choice = CodingLevel { method: Method::Zstd, level };
        let (content, mut pieces) = (&content[..bytes], Vec::new());
        let mut encoders = Encoders::default();
        let encoded = encoders.encode_watched(choice, content, &mut |read| pieces.push(read));
        let encoded = encoded.expect("it is kept");
        assert_eq!(pieces, vec![PIECE as u64; (bytes - 1) / PIECE], "zstd:{level} {bytes}");
        assert!(decoded(Coding::Zstd, &encoded) == content, "zstd:{level} {bytes}");
        let at_once = zstd::bulk::compress(content, level.into()).expect("it has room");
        let most = at_once.len() + at_once.len() / 100;
        assert!(encoded.stored.len() <= most, "{} of {most} bytes", encoded.stored.len());
        assert!(bytes > PIECE || encoded.stored == at_once);
        assert_eq!(encoders.encode(choice, content).as_ref(), Some(&encoded), "again");
        let noise = noise(bytes);
        assert_eq!(encoders.encode(choice, &noise), None, "it gains nothing");
        assert_eq!(encoders.encode(choice, content), Some(encoded), "behind it");
    }
}

/// Bytes in which no encoder finds anything.
fn noise(bytes: usize) -> Vec<u8> {
    let mut noise = vec![0; bytes];
    blake3::Hasher::new().finalize_xof().fill(&mut noise);
    noise
}

#[test]
fn zopfli_reports_its_pieces() {
    let choice = CodingLevel { method: Method::Zopfli, level: 1 };
    // Sixty-four letters in random order have few matches; those zopfli would search at length.
    let mut state = 3_u64;
    let letters = (0..1_200_000).map(|_| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        b'0' + (state >> 58) as u8
    });
    let (content, mut sum) = (letters.collect::<Vec<u8>>(), 0);
    let encoded = Encoders::default().encode_watched(choice, &content, &mut |read| sum += read);
    assert!(encoded.is_some());
    assert_eq!(sum, content.len() as u64);
}
