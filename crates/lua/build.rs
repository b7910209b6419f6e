//! Refuses to build a LuaJIT whose compiled loops nobody can stop.

use std::env;

const CHECKHOOK: &str = "-DLUAJIT_ENABLE_CHECKHOOK";

fn main() {
    println!("cargo:rerun-if-env-changed=CFLAGS");
    println!("cargo:rerun-if-changed=build.rs");
    let with_luajit = env::var_os("CARGO_FEATURE_LUAJIT").is_some();
    let with_lua54 = env::var_os("CARGO_FEATURE_LUA54").is_some();
    if with_luajit == with_lua54 {
        panic!(
            "choose one Lua: --features luajit, which is the default, or \
             --no-default-features --features lua54"
        );
    }
    let flags = env::var("CFLAGS").unwrap_or_default();
    if with_luajit && !flags.split_whitespace().any(|flag| flag == CHECKHOOK) {
        panic!(
            "LuaJIT must be built with CHECKHOOK, or a script in a compiled loop cannot be \
             stopped. `.cargo/config.toml` sets CFLAGS for it; the environment has \
             CFLAGS=\"{flags}\" instead: add {CHECKHOOK} to it. `cargo install --git` does not \
             read that file and needs both of its settings:\n  \
             AWS_LC_SYS_NO_JITTER_ENTROPY=1 CFLAGS={CHECKHOOK} cargo install …"
        );
    }
}
