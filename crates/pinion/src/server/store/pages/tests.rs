use super::*;
use pinion_http::h1::head_parser::{HeadStorage, Parsed, parse};
use pinion_http::limits::Limits;
use pinion_store::ReplyOutput;
use pinion_store::client::Client;
use pinion_store::settings::Settings;
use std::cell::Cell;

/// The pages of a store, and the number of times that fields were made.
struct Case {
    pages: StoredPages,
    client: Client,
    made: Cell<usize>,
}

impl Case {
    fn new() -> Self {
        let store = Arc::new(Store::new(Settings::default(), [1; 24], 0));
        let client = Client::new(&store, "test", 0);
        Self { pages: StoredPages::new(store), client, made: Cell::new(0) }
    }

    fn run(&mut self, words: &[&[u8]]) {
        let mut request = format!("*{}\r\n", words.len()).into_bytes();
        for word in words {
            request.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
            request.extend_from_slice(word);
            request.extend_from_slice(b"\r\n");
        }
        let mut output = ReplyOutput::default();
        self.client.receive(&self.pages.store, &request, 1, &mut output);
        self.client.run_jobs(&self.pages.store, 1, &mut output);
    }

    fn find(&self, site: u64, path: &str) -> FoundPage {
        let mount = StoreMount::new(b"/a/", b"p:");
        self.pages.find(&mount, (site, path.as_bytes()), 1, |_| {
            self.made.set(self.made.get() + 1);
            FieldLines::default()
        })
    }

    fn page(&self, site: u64, path: &str) -> StoredPage {
        match self.find(site, path) {
            FoundPage::Page(page) => page,
            other => panic!("{path}: {other:?}"),
        }
    }
}

/// Calls a function with the form for a client that accepts these codings.
fn with_form<R>(page: &StoredPage, accepts: &str, look: impl FnOnce(PageForm<'_>) -> R) -> R {
    let text = format!("GET / HTTP/1.1\r\nHost: a\r\nAccept-Encoding: {accepts}\r\n\r\n");
    let mut storage = HeadStorage::new();
    let parsed = parse(text.as_bytes(), 0, &mut storage, &Limits::default());
    let Ok(Parsed::Head { head, .. }) = parsed else { panic!("a head") };
    look(page.form(&head))
}

#[test]
fn a_path_maps_to_a_key() {
    let key = |path: &str, mount: &str| {
        let key = StoreMount::new(mount.as_bytes(), b"p:").key(path.as_bytes());
        key.map(|key| String::from_utf8(key).expect("text"))
    };
    let is = |path, mount, expected: Option<&str>| {
        assert_eq!(key(path, mount).as_deref(), expected, "{path} of {mount}");
    };
    for mount in ["/a", "/a/"] {
        is("/a/b", mount, Some("p:b"));
        is("/a/b/c.css", mount, Some("p:b/c.css"));
        is("/a/", mount, Some("p:index.html"));
        is("/a", mount, Some("p:index.html"));
        is("/a/b/", mount, Some("p:b/index.html"));
        is("/ab", mount, None);
        is("/", mount, None);
    }
    is("/", "/", Some("p:index.html"));
    is("/b", "/", Some("p:b"));
}

/// Whatever a value is, the data that its responses need is made once for it.
#[test]
fn forms_are_made_once_for_each_value() {
    for bytes in [10, 1024, 1025, 60_000, 100_000] {
        let mut case = Case::new();
        let value = b"ab".repeat(bytes / 2);
        case.run(&[b"SET", b"p:x", &value]);
        let first = case.page(7, "/a/x");
        for _ in 0..3 {
            let again = case.page(7, "/a/x");
            assert_eq!(&*again.content, &*value);
            assert!(Arc::ptr_eq(&first.forms, &again.forms), "{bytes}");
            for accepts in ["br", "gzip", "zstd", "identity"] {
                let place = |page: &StoredPage| {
                    with_form(page, accepts, |form| (form.etag.to_owned(), form.content.as_ptr()))
                };
                assert_eq!(place(&first), place(&again), "{bytes} {accepts}");
            }
        }
        assert_eq!(case.made.get(), 1);
        // Another site has other fields.
        case.page(8, "/a/x");
        assert_eq!(case.made.get(), 2);
        // A change in place, and one that makes another value.
        let changes: [&[&[u8]]; 3] = [
            &[b"SETRANGE", b"p:x", b"3", b"!"],
            &[b"APPEND", b"p:x", b"!"],
            &[b"SET", b"p:x", &value],
        ];
        for (number, change) in changes.into_iter().enumerate() {
            case.run(change);
            let changed = case.page(7, "/a/x");
            assert!(!Arc::ptr_eq(&first.forms, &changed.forms), "{bytes}: {number}");
            assert_eq!(changed.forms.etag == first.forms.etag, number == 2, "{bytes}: {number}");
        }
    }
}

/// A page that is not requested any more holds no long value in memory.
#[test]
fn forms_hold_no_long_value() {
    let mut case = Case::new();
    case.run(&[b"SET", b"p:x", &[b'x'; 100_000]]);
    let known = match &case.page(1, "/a/x").forms.value {
        KnownValue::Long(known) => known.clone(),
        KnownValue::Short(_) => panic!("a long value"),
    };
    assert!(known.upgrade().is_some());
    case.run(&[b"DEL", b"p:x"]);
    case.pages.store.free_garbage();
    assert!(known.upgrade().is_none());
    assert!(matches!(case.find(1, "/a/x"), FoundPage::Nothing));
}

#[test]
fn kept_forms_have_a_limit() {
    let mut case = Case::new();
    case.run(&[b"SET", b"p:x", &[b'x'; 1000]]);
    for site in 0..100_000 {
        case.page(site, "/a/x");
        for shard in &case.pages.shards {
            assert!(shard.lock().expect("no thread has panicked").bytes <= SHARD_MAX_BYTES);
        }
    }
    let kept = case.pages.shards.iter().map(|shard| shard.lock().expect("as above").forms.len());
    assert!(kept.sum::<usize>() > 10_000);
}

#[test]
fn a_key_of_another_type_is_not_served() {
    let mut case = Case::new();
    case.run(&[b"LPUSH", b"p:list", b"x"]);
    match case.find(1, "/a/list") {
        FoundPage::Other { key, why } => {
            assert_eq!((&*key, why), (&b"p:list"[..], NoPage::Type("list")));
        }
        other => panic!("{other:?}"),
    }
    assert!(matches!(case.find(1, "/a/none"), FoundPage::Nothing));
    assert!(matches!(case.find(1, "/b/list"), FoundPage::Nothing));
}

#[test]
fn a_value_that_is_too_long_is_not_served() {
    let mut case = Case::new();
    case.run(&[b"SET", b"p:x", &vec![b'x'; PAGE_MAX_BYTES]]);
    assert_eq!(case.page(1, "/a/x").content.len(), PAGE_MAX_BYTES);
    case.run(&[b"APPEND", b"p:x", b"x"]);
    let why = match case.find(1, "/a/x") {
        FoundPage::Other { why, .. } => why,
        other => panic!("{other:?}"),
    };
    assert_eq!(why, NoPage::TooLong { bytes: PAGE_MAX_BYTES + 1 });
    assert!(why.to_string().ends_with("a page has at most 1 MiB: serve it as a file"));
}

#[test]
fn a_page_that_changes_counts_once() {
    let mut case = Case::new();
    for number in 0..2000 {
        case.run(&[b"SET", b"p:x", format!("{number}{}", "x".repeat(5000)).as_bytes()]);
        case.page(1, "/a/x");
    }
    let bytes = case.pages.shards.iter().map(|shard| shard.lock().expect("no panic").bytes);
    assert!(bytes.sum::<usize>() < 100_000);
}

#[test]
fn the_path_determines_the_media_type() {
    for (path, expected) in [
        ("/a/x.html", "text/html; charset=utf-8"),
        ("/a/x", PAGE_TYPE),
        ("/v1.2/x", PAGE_TYPE),
        ("/a/x.JSON", "application/json"),
        ("/a/x.unheard-of", UNKNOWN_TYPE),
        ("/a/", PAGE_TYPE),
    ] {
        assert_eq!(media_type(path.as_bytes()), expected, "{path}");
    }
}
