//! Finds a CGI script below its folder and enters the folder that it is in. A new process does so
//! right before it executes the script, inside of its root directory and as its user: it calls the
//! system and allocates nothing.
//!
//! A worker chooses the path. No part of it may be a symbolic link or lead out of the folder, so an
//! attacker who controls a worker can execute only files of the folder.

use std::ffi::CStr;

use rustix::fs::{FileType, Mode, OFlags, ResolveFlags, fstat, open, openat2};
use rustix::io::Errno;
use rustix::process::fchdir;

use crate::exec_plan::PreparedScript;
use crate::fork_exec::Failure;
use crate::reply::StartStage;

/// Changes the working directory to the folder of a script (RFC 3875 §7.2), and checks that the
/// script is a regular file with an execute permission. `folder` is the folder of all scripts.
///
/// # Errors
/// The failed step, and the error of the system.
pub(crate) fn enter_script_folder(folder: &CStr, script: &PreparedScript) -> Result<(), Failure> {
    let directory = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let file = OFlags::PATH | OFlags::CLOEXEC;
    let below = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    let none = Mode::empty();
    let not_found = |error| (StartStage::Script, error);
    let folder =
        open(folder, directory, none).map_err(|error| (StartStage::ScriptFolder, error))?;
    let parent = match script.parent() {
        Some(parent) => openat2(&folder, parent, directory, none, below).map_err(not_found)?,
        None => folder,
    };
    let file = openat2(&parent, script.name(), file, none, below).map_err(not_found)?;
    let stat = fstat(&file).map_err(not_found)?;
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => {}
        FileType::Directory => return Err((StartStage::ScriptType, Errno::ISDIR)),
        _ => return Err((StartStage::ScriptType, Errno::ACCESS)),
    }
    let execute = Mode::XUSR | Mode::XGRP | Mode::XOTH;
    if !Mode::from_raw_mode(stat.st_mode).intersects(execute) {
        return Err((StartStage::ScriptMode, Errno::ACCESS));
    }
    fchdir(&parent).map_err(|error| (StartStage::WorkingDirectory, error))
}
