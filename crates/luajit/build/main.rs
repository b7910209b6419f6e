//! Builds LuaJIT, from the sources of the crate `luajit-src` and the patches of this one.
#![forbid(unsafe_code)]

mod library;
mod patch;
mod sources;

use std::env;
use std::path::PathBuf;

fn main() {
    if let Some(folder) = env::var_os(sources::COPY_TO) {
        sources::copy(&PathBuf::from(folder));
        return;
    }
    println!("cargo:rerun-if-changed=build");
    println!("cargo:rerun-if-changed=patches");
    if let Err(why) = library::build() {
        panic!("LuaJIT cannot be built: {why}");
    }
}
