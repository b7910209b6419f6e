//! LuaJIT with the project's patches. `build/` builds and links the library, and `README.md`
//! explains the patches. C functions are declared by their callers: mlua and the crate `lua`. The
//! module `patch` is a part of the build script, which is included here for its tests.
#![forbid(unsafe_code)]

#[cfg(test)]
#[path = "../build/patch.rs"]
mod patch;
