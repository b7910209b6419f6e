use super::*;
use pinion_gateway::upstream::Upstream;

fn mounts(paths: &[&str]) -> Result<Mounts, MountPath> {
    let mount = |path: &&str| {
        let upstream = Upstream::parse("http://a").expect("a URL");
        Mount::new(MountPath::parse(path).expect(path), UpstreamGroup::of_one(upstream))
    };
    Mounts::new(paths.iter().map(mount).collect())
}

#[test]
fn the_longest_path_covers_itself_and_all_below() {
    let mounts = mounts(&["/", "/api", "/api/v2/"]).expect("mounts");
    let mount_before_files =
        |path: &str| mounts.mount_before_files(path.as_bytes()).map(|found| found.path.to_string());
    for (path, expected) in [
        ("/api", Some("/api")),
        ("/api/", Some("/api")),
        ("/api/v2", Some("/api/v2")),
        ("/api/v2/x", Some("/api/v2")),
        ("/api/v22", Some("/api")),
        ("/%61p%69/x", Some("/api")),
        ("/x/../api/x", Some("/api")),
        ("/./api", Some("/api")),
        ("/api%2Fx", None),
        ("/apis", None),
        ("/%6", None),
        ("/ap", None),
        ("*", None),
        ("", None),
    ] {
        assert_eq!(mount_before_files(path).as_deref(), expected, "{path}");
    }
    assert!(mounts.has_root_mount() && !mounts.is_empty());
    assert!(Mounts::default().is_empty());
}

#[test]
fn extensions_precede_the_root() {
    let mounts = mounts(&["/", "*.gz", "*.tar.gz"]).expect("mounts");
    for (path, expected) in [
        ("/a/b.gz", "*.gz"),
        ("/a.tar.gz", "*.tar.gz"),
        ("/.gz", "/"),
        ("/b.gz/x", "/"),
        ("/b.GZ", "/"),
    ] {
        let found = mounts.fallback_for(path.as_bytes()).map(|found| found.path.to_string());
        assert_eq!(found.as_deref(), Some(expected), "{path}");
    }
}

#[test]
fn a_path_has_one_mount() {
    let twice = |paths: &[&str]| mounts(paths).err().map(|path| path.to_string());
    assert_eq!(twice(&["/a", "/b", "/a/"]).as_deref(), Some("/a"));
    assert_eq!(twice(&["/", "/a", "/"]).as_deref(), Some("/"));
    assert_eq!(twice(&["*.a", "/a", "*.a"]).as_deref(), Some("*.a"));
}

/// Mounts come before files, however a client spells a path: if the archive would find a key that
/// is the path of a mount or is below it, the response never comes from the archive.
mod any_spelling {
    use super::*;
    use proptest::prelude::*;

    /// How a byte of a path is spelled.
    #[derive(Clone, Copy, Debug)]
    enum Spelling {
        Plain,
        Upper,
        Lower,
    }

    fn spelling() -> impl Strategy<Value = Spelling> {
        prop_oneof![
            6 => Just(Spelling::Plain),
            1 => Just(Spelling::Upper),
            1 => Just(Spelling::Lower),
        ]
    }

    /// Returns a byte as it may stand in a target; `/` is one between two segments.
    fn spelled(byte: u8, spelling: Spelling) -> String {
        let is_sent = byte.is_ascii_graphic() && !b"%?#*/".contains(&byte);
        match spelling {
            Spelling::Plain if is_sent => char::from(byte).to_string(),
            Spelling::Lower => format!("%{byte:02x}"),
            _ => format!("%{byte:02X}"),
        }
    }

    /// A segment of a key, and two ways to write it.
    fn segment() -> impl Strategy<Value = (Vec<u8>, String, String)> {
        let byte = prop_oneof![
            4 => Just(b'a'),
            2 => Just(b'b'),
            1 => Just(b'A'),
            1 => Just(b'.'),
            1 => Just(b'~'),
            1 => Just(b'^'),
            1 => Just(b':'),
            1 => Just(b' '),
            1 => Just(b'%'),
            1 => Just(0xc3),
        ];
        let bytes = prop::collection::vec((byte, spelling(), spelling()), 1..3);
        let bytes = bytes
            .prop_filter("no dot segment", |bytes| !bytes.iter().all(|(byte, ..)| *byte == b'.'));
        bytes.prop_map(|bytes| {
            let write = |way: fn(&(u8, Spelling, Spelling)) -> Spelling| {
                bytes.iter().map(|byte| spelled(byte.0, way(byte))).collect::<String>()
            };
            let key = bytes.iter().map(|(byte, ..)| *byte).collect();
            (key, write(|byte| byte.1), write(|byte| byte.2))
        })
    }

    /// Texts between two segments that change nothing for the archive, or something.
    const BETWEEN: [&str; 8] =
        ["/./", "/%2E/", "/x/../", "/x/%2e./", "//", "%2F", "/a/b/../../", "/.%2e/"];

    fn between() -> impl Strategy<Value = &'static str> {
        prop_oneof![6 => Just("/"), 2 => prop::sample::select(&BETWEEN[..])]
    }

    proptest! {
        #[test]
        fn the_archive_does_not_respond_to_paths_of_a_mount(
            segments in prop::collection::vec((segment(), between()), 1..4),
            mounted in prop::collection::vec(1_usize..4, 1..3),
            front in prop_oneof![4 => Just(""), 1 => Just("/."), 1 => Just("/x/..")],
            end in prop_oneof![4 => Just(""), 1 => Just("/"), 1 => Just("/."), 1 => Just("/c")],
        ) {
            let mut mounted: Vec<usize> =
                mounted.iter().map(|count| *count.min(&segments.len())).collect();
            mounted.sort_unstable();
            mounted.dedup();
            let keys: Vec<Vec<u8>> = mounted.iter().map(|count| {
                segments[..*count].iter().flat_map(|((key, ..), _)| [b"/", &key[..]].concat())
                    .collect()
            }).collect();
            let texts: Vec<String> = mounted.iter().map(|count| {
                segments[..*count].iter().map(|((_, text, _), _)| format!("/{text}")).collect()
            }).collect();
            let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
            let mounts = mounts(&texts).expect("mounts");
            let mut path = front.to_owned();
            for (number, ((_, _, text), between)) in segments.iter().enumerate() {
                path.push_str(if number == 0 { "/" } else { between });
                path.push_str(text);
            }
            path.push_str(end);
            let mut decoded = Vec::new();
            let Ok(found) = decode_path(path.as_bytes(), &mut decoded) else { return Ok(()) };
            let lies_below = |key: &Vec<u8>| {
                matches!(found.strip_prefix(&key[..]), Some([] | [b'/', ..]))
            };
            if keys.iter().any(lies_below) {
                prop_assert!(
                    mounts.mount_before_files(path.as_bytes()).is_some(),
                    "{path} is {} below one of {texts:?}", found.escape_ascii()
                );
            }
        }
    }
}

#[test]
fn a_path_is_a_prefix_or_an_extension() {
    for text in ["/", "/a", "/a/b/", "/%20", "*.php", "*.tar.gz"] {
        assert!(MountPath::parse(text).is_ok(), "{text}");
    }
    let dotted = ["/.", "/a/../b", "/a/%2E%2e", "/.%2e/b"];
    let wrong = ["", "a", "*", "*.", "*php", "/a*", "/*.php", "/a?b", "/a b", "*.p/p", "*.%70"];
    for text in wrong.into_iter().chain(dotted) {
        assert!(MountPath::parse(text).is_err(), "{text}");
    }
}
