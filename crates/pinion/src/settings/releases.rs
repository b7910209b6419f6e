//! The settings of the verbs about release folders.

use super::{number, operand, path};
use crate::failure::Failure;
use crate::raw_settings::Low;
use crate::releases::release_location::ReleaseLocation;
use crate::releases::release_switch::Back;
use std::path::PathBuf;

/// `pinion publish`.
#[derive(Debug)]
pub(crate) struct Publish {
    /// The archive; `-` for stdin.
    pub(crate) file: PathBuf,
    /// The release folder.
    pub(crate) folder: ReleaseLocation,
    /// The command that runs pinion at the other end of ssh.
    pub(crate) remote_pinion: String,
    /// The number of releases that are kept.
    pub(crate) keep: usize,
    /// `--unproven`: its code is not run before the switch.
    pub(crate) unproven: bool,
    /// `--json`
    pub(crate) json: bool,
}

/// `pinion releases`.
#[derive(Debug)]
pub(crate) struct Releases {
    /// The release folder.
    pub(crate) folder: ReleaseLocation,
    /// The command that runs pinion at the other end of ssh.
    pub(crate) remote_pinion: String,
    /// `--json`
    pub(crate) json: bool,
}

/// `pinion rollback`.
#[derive(Debug)]
pub(crate) struct Rollback {
    /// The release folder.
    pub(crate) folder: ReleaseLocation,
    /// The command that runs pinion at the other end of ssh.
    pub(crate) remote_pinion: String,
    /// The target of the rollback.
    pub(crate) back: Back,
    /// `--json`
    pub(crate) json: bool,
}

pub(super) fn publish(low: &Low) -> Result<Publish, Failure> {
    let folder = folder(low)?;
    Ok(Publish {
        file: operand(low, "FILE")?,
        remote_pinion: remote_pinion(low, &folder)?,
        folder,
        keep: number(low, "keep")?.unwrap_or_default(),
        unproven: low.given("unproven"),
        json: low.given("json"),
    })
}

pub(super) fn releases(low: &Low) -> Result<Releases, Failure> {
    let folder = folder(low)?;
    let remote_pinion = remote_pinion(low, &folder)?;
    Ok(Releases { folder, remote_pinion, json: low.given("json") })
}

pub(super) fn rollback(low: &Low) -> Result<Rollback, Failure> {
    let back = if low.given("N") {
        let text = operand(low, "N")?;
        let text = text.to_string_lossy();
        Back::parse(&text).map_err(|error| Failure::usage(format!("N: {error}")))?
    } else {
        Back::Steps(1)
    };
    let folder = folder(low)?;
    let remote_pinion = remote_pinion(low, &folder)?;
    Ok(Rollback { folder, remote_pinion, back, json: low.given("json") })
}

fn folder(low: &Low) -> Result<ReleaseLocation, Failure> {
    let text = operand(low, "DIR")?;
    ReleaseLocation::parse(text.as_os_str())
        .map_err(|error| Failure::usage(format!("DIR: {error}")))
}

fn remote_pinion(low: &Low, folder: &ReleaseLocation) -> Result<String, Failure> {
    let path = path(low, "remote-pinion")?;
    if path.is_some() && matches!(folder, ReleaseLocation::Here(_)) {
        return Err(Failure::usage("--remote-pinion has no effect without an ssh:// folder"));
    }
    let path = path.unwrap_or_else(|| PathBuf::from("pinion"));
    Ok(path.to_string_lossy().into_owned())
}
