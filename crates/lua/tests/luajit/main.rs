//! The changes that the patches of `crates/luajit` make to LuaJIT. Without them this program does
//! not link.
#![cfg(feature = "luajit")]

mod hash_of_keys;
mod hash_of_strings;
mod refused_machine_code;
mod vm;
mod whole_numbers;
