//! Reads `NAME=PATH`: the folders, secrets and programs that Lua scripts reach by a name.

use crate::directives::Kind;
use crate::settings::{ProgramFile, SecretFile};
use pinion_jobs::confined_folders::FolderAt;

/// The longest name of a folder, secret or program, in bytes: scripts write it again and again.
const NAME_MAX_BYTES: usize = 64;

/// Checks a name by which scripts call a folder, secret or program.
fn check_name(name: &str) -> Result<(), String> {
    let is_fine = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    if name.is_empty() || name.len() > NAME_MAX_BYTES || !name.bytes().all(is_fine) {
        return Err(format!("{name:?} is not a valid name: letters, digits, - and _, at most 64"));
    }
    Ok(())
}

/// Reads `data=/srv/data`, or `data=/srv/data:ro` for one that is only read.
pub(crate) fn lua_folder(text: &str) -> Result<FolderAt, String> {
    let Some((name, path)) = text.split_once('=') else {
        return Err(format!("{text:?} has no =: {}", Kind::LuaFolder.bounds()));
    };
    check_name(name)?;
    let (path, is_read_only) = match path.strip_suffix(":ro") {
        Some(path) => (path, true),
        None => (path, false),
    };
    if path.is_empty() || path.contains('\0') {
        return Err(format!("{text:?} names no folder: {}", Kind::LuaFolder.bounds()));
    }
    Ok(FolderAt { name: name.to_owned(), path: path.into(), is_read_only })
}

/// Reads `token=/etc/pinion/token`.
pub(crate) fn secret(text: &str) -> Result<SecretFile, String> {
    let Some((name, path)) = text.split_once('=') else {
        return Err(format!("{text:?} has no =: {}", Kind::Secret.bounds()));
    };
    check_name(name)?;
    if path.is_empty() || path.contains('\0') {
        return Err(format!("{text:?} names no file: {}", Kind::Secret.bounds()));
    }
    Ok(SecretFile { name: name.to_owned(), path: path.into() })
}

/// Reads `convert=/usr/bin/convert`: the name of a program in scripts, and its path.
pub(crate) fn lua_program(text: &str) -> Result<ProgramFile, String> {
    let Some((name, path)) = text.split_once('=') else {
        return Err(format!("{text:?} has no =: {}", Kind::Program.bounds()));
    };
    check_name(name)?;
    if !path.starts_with('/') || path.contains('\0') {
        return Err(format!("{path:?} is not an absolute path: {}", Kind::Program.bounds()));
    }
    Ok(ProgramFile { name: name.to_owned(), path: path.into() })
}
