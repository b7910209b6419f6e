//! Sites that are one script in Lua.

use crate::matrix::Matrix;
use crate::server::Server;
use crate::temporary_folder::Folder;
use std::path::PathBuf;

/// Writes a script to a temporary folder, which is removed with the value.
#[must_use]
pub fn script(text: &str) -> (Folder, PathBuf) {
    let folder = Folder::with("script", [("site.lua", text)]);
    let path = folder.join("site.lua");
    (folder, path)
}

/// Runs a case with a script in every way that a folder can be served, by one worker: later
/// requests see the state that earlier ones have left.
#[track_caller]
pub fn in_every_way(text: &str, case: impl Fn(&Server)) {
    in_every_way_with(text, &[], case);
}

/// Does the same with more flags.
#[track_caller]
pub fn in_every_way_with(text: &str, flags: &[&str], case: impl Fn(&Server)) {
    let (_folder, path) = script(text);
    let flags = [&["--workers", "1"], flags].concat();
    Matrix::of(&path).folder_only("a script is no archive").serve(&flags).run(case);
}
