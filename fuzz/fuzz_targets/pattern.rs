//! Patterns of Lua against its own functions, and for their end.
#![no_main]

#[path = "../../crates/lua/tests/patterns/oracle.rs"]
mod oracle;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    oracle::check(data);
});
