//! The changes that the patches of `crates/luajit` make to LuaJIT. Without them this program does
//! not link.
#![cfg(feature = "luajit")]

mod hash_of_keys;
mod hash_of_strings;
mod inspectable_vm;
mod number_formatting;
mod refused_machine_code;
