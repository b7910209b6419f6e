use std::path::{Path, PathBuf};

use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;

use super::name_group::Alphabet;
use super::word_or_hash::{PartKind, classify};
use super::*;
use crate::media_type::by_extension;

fn no_globs() -> Globs {
    Globs::new(&[]).expect("no pattern")
}

/// The names that are taken for fingerprinted ones, of a site with these.
fn decided<'n>(names: &[&'n str]) -> Vec<&'n str> {
    let keys: Vec<String> = names.iter().map(|name| format!("/{name}")).collect();
    let typed = keys.iter().map(String::as_bytes);
    let typed: Vec<_> = typed.map(|key| (key, by_extension(key).unwrap_or("text/plain"))).collect();
    let files = typed.iter().map(|&(key, essence)| NamedFile { key, essence });
    let decided = decide(files, &no_globs());
    names.iter().zip(decided).filter_map(|(name, decided)| decided.then_some(*name)).collect()
}

#[track_caller]
fn none_of(names: &[&str]) {
    assert_eq!(decided(names), Vec::<&str>::new());
}

#[test]
fn a_single_name_is_not_a_fingerprint() {
    for name in [
        "app.3f2a9c1b.js",
        "index-Bq3xK9zQ.css",
        "a/e6-Z7L2KB24.js",
        "assets/index-DiwrgTda.js",
        "hero-iPhone15Pro.png",
        "team-John2023.jpg",
        "Roboto-Regular400.woff2",
        "app-Version12.js",
        "bg.2024abcd.png",
        "photo-dQw4w9WgXcQ.jpg",
        "IMG_20240131_1234567890123456.jpg",
        "3f2504e0-4f89-41d3-9a0c-0305e82c3301.jpg",
    ] {
        none_of(&[name]);
        none_of(&["index.html", name, "logo.png", "logo.svg"]);
    }
}

#[test]
fn a_single_name_with_a_long_hash_is_a_fingerprint() {
    for name in [
        "main.min.0f3c5a7b9d1e2f4060718293a4b5c6d7e8f90123456789abcdef0123456789ab.css",
        "app-0123456789abcdef.js",
        "hero_hu_59e56ffff1bc1d8d.webp",
        "logo-59E56FFFF1BC1D8D.png",
        "app-59e56ffff1bc1d8d_bg.wasm",
        "app.59e56ffff1bc1d8d.js.map",
        "clip.59e56ffff1bc1d8d.mp4",
    ] {
        assert_eq!(decided(&[name]), [name]);
    }
    none_of(&[
        "page.59e56ffff1bc1d8d.html",
        "data.59e56ffff1bc1d8d.json",
        "59e56ffff1bc1d8d",
        "x-59e56ffff1bc1d8.js",     // 15
        "x-59e56ffff1bc1d8dz.js",   // no hexadecimal digits alone
        "x-1234567890123456.jpg",   // no letter
        "x-abcdefabcdefabcdef.jpg", // no digit
    ]);
}

/// Names that people give, of the same length and in the same position.
#[test]
fn names_given_by_people_are_not_fingerprints() {
    none_of(&[
        "hero-iPhone15Pro.png",
        "team-John2023.jpg",
        "Roboto-Regular400.woff2",
        "app-Version12.js",
        "bg.2024abcd.png",
    ]);
    none_of(&["team-John2023.jpg", "team-Jane2024.jpg", "team-Bill2022.jpg", "team-Sven2021.jpg"]);
    none_of(&["x-iPhone15.png", "x-iPhone16.png", "x-GalaxyS9.png", "x-Pixel900.png"]);
    none_of(&["a-IMG_0001.jpg", "a-IMG_0002.jpg", "a-DSC_0417.jpg", "a-DSC_1234.jpg"]);
    none_of(&["bg.2024abcd.png", "bg.2023abcd.png", "bg.2022beef.png"]);
    none_of(&["shoe-AB12CD34.jpg", "shoe-XY98ZW76.jpg", "shoe-QR45ST67.jpg"]);
    none_of(&["p-20240131.jpg", "p-20240201.jpg", "p-20231224.jpg"]);
    none_of(&["f-a1b2c3d4.png", "f-a1b2c3d5.png", "f-a1b2c3e6.png"]);
    none_of(&["x-homepage.png", "x-security.png", "x-features.png", "x-pricing1.png"]);
    none_of(&["x-MyPhoto1.png", "x-MyHouse2.png", "x-OurTrip3.png"]);
    none_of(&["icon-PORTRAIT.svg", "icon-SHOULDER.svg", "icon-ELEPHANT.svg"]);
    none_of(&[
        "3f2504e0-4f89-41d3-9a0c-0305e82c3301.jpg",
        "9b1deb4d-3b7d-4bad-9bdd-2b0d7b3dcb6d.jpg",
        "x-1b9d6bcd-bbfd-4b2d-9b5d-ab8dfbbd4bed.jpg",
    ]);
    none_of(&["photo-1506744038136-46273834b3fb.jpg", "photo-1441974231531-c6227db76b6e.jpg"]);
    none_of(&["dQw4w9WgXcQ.jpg", "9bZkp7q19f0.jpg", "kJQP7kiw5Fk.jpg"]);
    none_of(&["0001.deadbeef.png", "0002.deadbeef.png", "0003.deadbeef.png"]);
}

/// Names that are the number of a thing and nothing else: of products, devices, cameras, places,
/// colours.
#[test]
fn identifiers_are_not_fingerprints() {
    none_of(&["B07XJ8C8F5.jpg", "B08N5WRWNW.jpg", "B0BDHWDR12.jpg"]);
    none_of(&["001A2B3C4D5E.png", "AC3FA4B1D2E3.png"]);
    none_of(&["10DE1B80.png", "80861C20.png"]);
    none_of(&["3J4A0123.jpg", "BY7A1234.jpg"]);
    none_of(&["8FVC9G8F.png", "9C3W9QCJ.png", "7FG49Q00.png"]);
    none_of(&["ff8800ff.svg", "00ff88ff.svg", "1a2b3cff.svg"]);
    none_of(&["LH1234AB.svg", "BA98KLM2.svg"]);
    none_of(&["card-GT1030D4.png", "card-RX580X8G.png", "card-RTX4090D.png"]);
    none_of(&["shirt-A7K29QXZ.jpg", "cap-9TT0QPL1.jpg", "mug-QX18ZZ4M.jpg", "pen-B2210KLM.jpg"]);
}

/// A file with such a name among those that a tool has written.
#[test]
fn names_given_by_people_among_fingerprints_are_not_fingerprints() {
    let tool = [
        "assets/index-BxK3q2_a.js",
        "assets/index-C-x2dF-Q.css",
        "assets/vendor-DiwrgTda.js",
        "assets/logo-B7vM0kXe.svg",
        "assets/photo-D4fZs9Qw.jpg",
    ];
    let hand = ["assets/x-iPhone15.png", "assets/team-John2023.jpg"];
    let all: Vec<&str> = tool.iter().chain(&hand).copied().collect();
    assert_eq!(decided(&all), tool);
}

#[test]
fn small_folders_of_known_tools_have_fingerprints() {
    let cases: &[&[&str]] = &[
        &["assets/index-DiwrgTda.js", "assets/index-D3kqHlXw.css"],
        &["docs/_astro/index.Dx7z1aPq.css"],
        &["_app/immutable/chunks/Dx7z1aPq.js", "_app/immutable/entry/app.BkW2n_eR.js"],
        &[
            "assets/javascripts/bundle.83f73b43.min.js",
            "assets/javascripts/workers/search.d50fe291.min.js",
            "assets/stylesheets/main.57a0d79d.min.css",
        ],
        &["static/css/main.57a0d79d.css", "static/js/main.d50fe291.js"],
    ];
    for names in cases {
        assert_eq!(decided(names), *names);
        let below: Vec<String> = names.iter().map(|name| format!("a/b/{name}")).collect();
        let below: Vec<&str> = below.iter().map(String::as_str).collect();
        assert_eq!(decided(&below), below);
    }
}

/// What public tools have written, and which of it they have given a hash. Lines begin with `+` for
/// a name with a hash, with `=` for one that only its content proves, and with `-` for all others.
/// `cargo xtask fingerprints` renews the lists.
#[test]
fn fingerprints_match_the_lists_of_public_tools() {
    let kept = || Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fingerprints");
    let folder = std::env::var_os("PINION_FINGERPRINT_LISTS").map_or_else(kept, PathBuf::from);
    let mut count = 0;
    for entry in std::fs::read_dir(&folder).expect("the lists") {
        let path = entry.expect("a list").path();
        if path.extension() != Some("txt".as_ref()) {
            continue;
        }
        let text = std::fs::read_to_string(&path).expect("a list");
        let lines = || text.lines().filter(|line| !line.starts_with('#'));
        let names: Vec<&str> = lines().filter_map(|line| line.get(2..)).collect();
        let expected: Vec<&str> = lines().filter_map(|line| line.strip_prefix("+ ")).collect();
        assert_eq!(decided(&names), expected, "{}", path.display());
        count += 1;
    }
    assert!(count >= 5, "{}: only {count} lists", folder.display());
}

#[test]
fn names_that_match_an_immutable_pattern_are_fingerprints() {
    let globs = Globs::new(&["fonts/*".to_owned(), "*.bin".to_owned()]).expect("patterns");
    let file = |key: &'static str| NamedFile { key: key.as_bytes(), essence: "text/plain" };
    let files = ["/fonts/a.woff2", "/fonts/b/c.woff2", "/d/e.bin", "/index.html"].map(file);
    assert_eq!(decide(files, &globs), [true, false, true, false]);
}

#[test]
fn a_name_with_the_hash_of_its_content_is_a_fingerprint() {
    let essence = "text/javascript";
    // Of the SHA-256 ba7816bf 8f01cfea …, the SHA-1 a9993e36 …, the SHA-512 ddaf35a1 ….
    for key in [
        "/a/abc.ba7816bf.js",
        "/abc-BA7816BF8F.min.js",
        "/ba7816bf8f01cfea.js",
        "/a9993e3647.js",
        "/abc_ddaf35a193.js",
        "/ungWv48Bz-.js",
        "/abc-ungWv48Bz-pB.js",
    ] {
        assert!(is_named_by_content(key.as_bytes(), essence, b"abc"), "{key}");
        assert!(!is_named_by_content(key.as_bytes(), essence, b"abd"), "{key}");
        assert!(!is_named_by_content(key.as_bytes(), "text/html", b"abc"), "{key}");
    }
    for key in ["/abc.ba7816b.js", "/abc.ba7816be.js", "/xba7816bf.js", "/abc.js", "/ungWv48.js"] {
        assert!(!is_named_by_content(key.as_bytes(), essence, b"abc"), "{key}");
    }
}

/// Hashes of eight characters as tools write them.
const HASHES: [(Alphabet, &str); 3] = [
    (Alphabet::Hex, "0123456789abcdef"),
    (Alphabet::Base32, "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"),
    (Alphabet::Base64, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"),
];

/// A hash, chosen at random.
fn hash(characters: &'static str) -> impl Strategy<Value = String> {
    let one = prop::sample::select(characters.chars().collect::<Vec<_>>());
    prop::collection::vec(one, 8).prop_map(|all| all.into_iter().collect())
}

/// The shares that `classify` states. The hashes are the same in every run.
#[test]
fn few_random_hashes_are_classified_as_words_or_ambiguous() {
    const COUNT: usize = 20_000;
    for (alphabet, characters) in HASHES {
        let (mut runner, hash) = (TestRunner::deterministic(), hash(characters));
        let mut counts = [0; 2];
        for _ in 0..COUNT {
            let hash = hash.new_tree(&mut runner).expect("a hash").current();
            match classify(hash.as_bytes(), alphabet) {
                PartKind::Word => counts[0] += 1,
                PartKind::Ambiguous => counts[1] += 1,
                PartKind::Random => {}
            }
        }
        let [words, ambiguous] = counts.map(|count| count as f64 / COUNT as f64);
        assert!(words < 0.004 && ambiguous < 0.1, "{alphabet:?}: {words}, {ambiguous}");
    }
}

proptest! {
    /// Of the names that a tool writes to a folder of its own, all are found that look like no
    /// words, unless by chance more than a third of the hashes are no evidence, or two thirds are
    /// letters alone; and what is decided does not depend on the order of the files.
    #[test]
    fn random_hashes_are_fingerprints(
        (alphabet, hashes) in prop::sample::select(HASHES.to_vec()).prop_flat_map(
            |(alphabet, characters)| (Just(alphabet), prop::collection::vec(hash(characters), 24))
        ),
        turn in 0usize..24,
    ) {
        let of_kind = |wanted: PartKind| {
            let hashes = hashes.iter().map(String::as_bytes);
            hashes.filter(|hash| classify(hash, alphabet) == wanted).collect::<Vec<_>>()
        };
        let (words, evidence) = (of_kind(PartKind::Word).len(), of_kind(PartKind::Random));
        let mixed = evidence.iter().filter(|hash| !hash.iter().all(u8::is_ascii_alphabetic));
        let count = evidence.len();
        let is_usual = count * 3 >= 2 * hashes.len() && mixed.count() * 3 >= count;
        let name = |(number, hash): (usize, &String)| format!("x/{number}-{hash}.js");
        let mut names: Vec<String> = hashes.iter().enumerate().map(name).collect();
        let found = decided(&names.iter().map(String::as_str).collect::<Vec<_>>()).len();
        if is_usual {
            prop_assert_eq!(found, hashes.len() - words, "{:?}", names);
        }
        names.rotate_left(turn);
        let again = decided(&names.iter().map(String::as_str).collect::<Vec<_>>()).len();
        prop_assert_eq!(again, found);
    }

    /// No folder of words, years and numbers is taken for the output of a tool.
    #[test]
    fn words_and_numbers_are_not_fingerprints(
        parts in prop::collection::vec(
            prop::sample::select(vec![
                "John2023", "Anna2024", "Version1", "iPhone15", "Galaxy24", "20240131",
                "homepage", "Portrait", "Regular4", "SemiBold", "MyPhoto1", "Summer24",
                "IMG_0001", "DSC_0417", "2024abcd", "abcd2024", "SCREEN12", "overview",
            ]),
            1..12,
        ),
        separator in prop::sample::select(vec![".", "-", "_"]),
    ) {
        let name = |(number, part): (usize, &&str)| format!("x/{number}{separator}{part}.png");
        let names: Vec<String> = parts.iter().enumerate().map(name).collect();
        none_of(&names.iter().map(String::as_str).collect::<Vec<_>>());
    }
}
