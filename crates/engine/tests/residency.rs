//! In a process of its own, because nothing else may run beside it.

use pinion_engine::residency;

/// Resident KiB of mapped program code.
fn code_kib() -> u64 {
    let smaps = std::fs::read_to_string("/proc/self/smaps").expect("smaps");
    let mut is_code = false;
    let mut kib = 0;
    for line in smaps.lines() {
        let mut words = line.split_whitespace();
        match (words.next(), words.next()) {
            (Some("Rss:"), Some(rss)) if is_code => kib += rss.parse::<u64>().expect("a number"),
            (Some(range), Some(rights)) if range.contains('-') => is_code = rights == "r-xp",
            _ => {}
        }
    }
    kib
}

#[test]
fn pages_of_code_are_given_back_and_come_again() {
    let before = code_kib();
    residency::release();
    let after = code_kib();
    assert!(after < before, "{after} of {before} KiB");
    // Code that was dropped runs all the same.
    let mut words = ["c", "a", "b"];
    words.sort_unstable();
    assert_eq!(words.concat(), "abc");
}
