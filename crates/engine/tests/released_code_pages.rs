//! The test runs in a process of its own, because no other test may run at the same time.

use pinion_engine::release_memory;

/// Returns the resident KiB of mappings with these rights: program code, or constants.
fn mapped_kib(wanted: &str) -> u64 {
    let smaps = std::fs::read_to_string("/proc/self/smaps").expect("smaps");
    let mut is_wanted = false;
    let mut kib = 0;
    for line in smaps.lines() {
        let mut words = line.split_whitespace();
        match (words.next(), words.next()) {
            (Some("Rss:"), Some(rss)) if is_wanted => kib += rss.parse::<u64>().expect("a number"),
            (Some(range), Some(rights)) if range.contains('-') => is_wanted = rights == wanted,
            _ => {}
        }
    }
    kib
}

#[test]
fn released_code_pages_are_loaded_again() {
    let both = || ["r-xp", "r--p"].map(mapped_kib);
    let before = both();
    release_memory::release_code();
    let after = both();
    assert!(after[0] < before[0] && after[1] < before[1], "{after:?} of {before:?} KiB");
    // Dropped pages can still be used.
    let mut words = ["c", "a", "b"];
    words.sort_unstable();
    assert_eq!(words.concat(), "abc");
}
