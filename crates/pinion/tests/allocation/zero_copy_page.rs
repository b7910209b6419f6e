//! A page with data of the store sends them without a copy.

use std::fs;
use std::path::Path;
use std::sync::PoisonError;

use crate::counting_allocator::{counted, largest_bytes};
use crate::site::Site;
use crate::{ROUNDS, TURN, WARM_UP_ROUNDS, exchange, request};

/// The example of docs/store.md.
const EXAMPLE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/front-page");

/// The page is longer.
const CONTENT_BYTES_MIN: usize = 15_000;

/// The most allocations for one page: the tables and functions of its request in Lua, and the
/// memory of the commands of the store and the head of the response. The content causes none of
/// them.
const PAGE_CALLS_MAX: u64 = 32;

#[test]
fn a_page_of_the_store_is_not_copied_on_its_way() {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let read = |file: &str| fs::read(Path::new(EXAMPLE).join(file)).expect("a file of the example");
    let flags = ["--store-memory", "16"];
    let files = [
        ("main.lua", read("main.lua")),
        ("public_html/index.dyn.html", read("public_html/index.dyn.html")),
    ];
    let site = Site::serve_files("front-page", &files, &flags);
    let page = request("GET /", "");
    let mut stream = site.connect();
    let mut rounds = |count: usize| {
        for _ in 0..count {
            let response = exchange(&mut stream, &page, 1);
            assert_eq!(response.status, "200");
            assert!(response.content_bytes > CONTENT_BYTES_MIN, "{}", response.content_bytes);
        }
    };
    rounds(WARM_UP_ROUNDS);
    let calls = counted(|| rounds(ROUNDS)) / ROUNDS as u64;
    assert!(calls <= PAGE_CALLS_MAX, "{calls} calls of the allocator for each page");
    let largest = largest_bytes(|| rounds(ROUNDS));
    assert!(largest > 0 && largest < CONTENT_BYTES_MIN / 2, "one call asks for {largest} bytes");
}
