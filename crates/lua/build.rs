//! Refuses to build a program with two Luas, or with none.

use std::env;

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    let with_luajit = env::var_os("CARGO_FEATURE_LUAJIT").is_some();
    let with_lua54 = env::var_os("CARGO_FEATURE_LUA54").is_some();
    if with_luajit == with_lua54 {
        panic!(
            "choose one Lua: --features luajit, which is the default, or \
             --no-default-features --features lua54"
        );
    }
}
