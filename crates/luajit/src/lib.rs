//! LuaJIT with the project's patches. The library is built and linked by `build/`; what the patches
//! are for says `README.md`. Functions of C are declared where they are called: by mlua, and in the
//! crate `lua`.
#![forbid(unsafe_code)]

#[cfg(test)]
#[path = "../build/patch.rs"]
mod patch;
