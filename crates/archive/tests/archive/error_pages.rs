//! Error pages: copied when an archive is opened, left out when they are damaged.

use pinion_archive::limits::ERROR_PAGE_MAX_BYTES;
use pinion_archive::{Layout, NewEntry, WriteError, verify};
use pinion_http::content_coding::Coding;

use crate::sample_archive::{
    TAGGED_TYPE, add_shared_block, body, finish, is_sound, representation, resource, writer,
};

fn with_pages(pages: &[(u16, &[u8])]) -> Vec<u8> {
    let mut w = writer();
    // The type whose tags are used here.
    let html = add_shared_block(&mut w, TAGGED_TYPE);
    for &(status, content) in pages {
        let representations = [representation(Coding::Identity, html, body(&mut w, content))];
        w.error_page(&NewEntry { status, ..resource(b"/", &representations) }).expect("a page");
    }
    finish(w)
}

/// Returns the content of the page of a status.
fn page(bytes: &[u8], status: u16) -> Option<Vec<u8>> {
    let layout = Layout::open(bytes).expect("opens");
    let page = layout.view(bytes).error_page(status)?;
    assert!(page.shared.full.starts_with(b"Content-Type: type\r\n"));
    Some(page.body.to_vec())
}

#[test]
fn each_status_has_its_page() {
    let bytes = with_pages(&[(500, b"five"), (400, b"four"), (599, b"")]);
    assert!(is_sound(&bytes));
    for (status, content) in [
        (400, Some(&b"four"[..])),
        (500, Some(b"five")),
        (599, Some(b"")),
        (404, None),
        (200, None),
    ] {
        assert_eq!(page(&bytes, status).as_deref(), content, "{status}");
    }
    // The pages are available whatever happens to the bytes later.
    let layout = Layout::open(&bytes).expect("opens");
    let page = layout.view(&[]).error_page(500).expect("copied");
    assert_eq!(page.body, b"five");
}

#[test]
fn a_damaged_error_page_is_omitted_and_found_by_verify() {
    let whole = with_pages(&[(500, b"a page of five hundred"), (503, b"another")]);
    let mut hits = 0;
    for at in 0..whole.len() {
        let mut bytes = whole.clone();
        bytes[at] ^= 1;
        // Damage of a section that is checked at opening fails it; other damage can only remove the
        // page.
        let Ok(layout) = Layout::open(&bytes) else { continue };
        let found = layout.view(&bytes).error_page(500).map(|page| page.body.to_vec());
        assert!(found.as_deref().is_none_or(|body| body == b"a page of five hundred"), "{at}");
        if found.is_none() {
            hits += 1;
            let report = verify(&bytes, &mut |_, _| {}).expect("opens");
            assert!(!report.is_sound(), "{at}");
        }
    }
    assert!(hits > 22, "{hits}");
}

#[test]
fn error_pages_of_wrong_status_or_size_are_refused() {
    let mut w = writer();
    let html = add_shared_block(&mut w, "text/html");
    let large = vec![b'x'; ERROR_PAGE_MAX_BYTES as usize + 1];
    let small = [representation(Coding::Identity, html, body(&mut w, b"x"))];
    let large = [representation(Coding::Identity, html, body(&mut w, &large))];
    let refused = |result: Result<(), WriteError>| result.expect_err("must be refused").to_string();
    for status in [200, 308, 399, 600] {
        let page = NewEntry { status, ..resource(b"/", &small) };
        assert!(refused(w.error_page(&page)).contains("status"), "{status}");
    }
    let page = NewEntry { status: 500, ..resource(b"/", &large) };
    assert!(refused(w.error_page(&page)).starts_with("error:500: "));
}
