//! Runs pages with LuaJIT and checks their output, their escaping and the refused ones.

mod compile_laws;
mod escaping_contexts;
mod fuzz_corpus;
mod golden;
mod random_pages;
mod refused_pages;
mod script_injection;
mod test_site;

// Links LuaJIT, whose functions mlua calls.
use pinion_luajit as _;
