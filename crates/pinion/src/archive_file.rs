//! An archive on the disk, open for looking into.

use crate::failure::Failure;
use crate::served_source;
use anyhow::{Context as _, anyhow};
use pinion_archive::{Archive, Damage, Layout};
use pinion_engine::file_mapping::{self, Mapping};
use rustix::fs::{OFlags, fcntl_setfl};
use rustix::io::Errno;
use std::fs::File;
use std::io;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

/// A mapped archive and where everything is in it.
pub(crate) struct ArchiveFile {
    path: PathBuf,
    mapping: Mapping,
    layout: Layout,
}

impl ArchiveFile {
    /// Opens an archive.
    ///
    /// # Errors
    /// [`Failure::Failed`] names the file and the mistake in it.
    pub(crate) fn open(path: &Path) -> Result<Self, Failure> {
        let mapping = map(path)?;
        let layout = Layout::open(mapping.bytes());
        let layout = layout.map_err(|error| anyhow!("{}: {error}", path.display()))?;
        Ok(Self { path: path.to_owned(), mapping, layout })
    }

    /// Returns the archive.
    pub(crate) fn view(&self) -> Archive<'_> {
        self.layout.view(self.mapping.bytes())
    }

    /// Returns its path, as written.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the failure for damage that a look-up met, with the file it is in.
    pub(crate) fn damaged(&self, damage: Damage) -> Failure {
        let advice = "`pinion verify` lists all damage";
        anyhow!("{} is damaged: {damage}; {advice}", self.path.display()).into()
    }
}

/// Maps a file that should be an archive.
///
/// # Errors
/// [`Failure::Failed`] that names the file and why it cannot be one.
pub(crate) fn map(path: &Path) -> Result<Mapping, Failure> {
    // A file that is truncated while it is read shows as damage instead of ending the program.
    file_mapping::guard_lost_pages().context("cannot watch over mapped files")?;
    let mapping = Mapping::new(open(path)?, Vec::new());
    Ok(mapping.with_context(|| format!("cannot map {}", path.display()))?)
}

/// Opens a file that should be an archive, without waiting for another process: a pipe that has its
/// name is refused, where a plain open would wait for the pipe's other end.
///
/// # Errors
/// [`Failure::Failed`] that names the file and why it cannot be one.
pub(crate) fn open(path: &Path) -> Result<File, Failure> {
    let shown = path.display();
    let is_no_file =
        || anyhow!("{shown} is not a regular file; make an archive with `pinion build`");
    let flags = (OFlags::NONBLOCK | OFlags::NOCTTY).bits() as i32;
    let file = match File::options().read(true).custom_flags(flags).open(path) {
        Ok(file) => file,
        // `open` fails with ENXIO for a socket.
        Err(error) if error.raw_os_error() == Some(Errno::NXIO.raw_os_error()) => {
            return Err(is_no_file().into());
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let remark = served_source::unexpanded(path);
            return Err(
                anyhow!("{shown} does not exist; give the path of an archive{remark}").into()
            );
        }
        Err(error) => return Err(anyhow!(error).context(format!("cannot open {shown}")).into()),
    };
    let metadata = file.metadata().with_context(|| format!("cannot read {shown}"))?;
    if metadata.is_dir() {
        let advice = format!("{shown} is a folder; make an archive of it with `pinion build`");
        return Err(anyhow!(advice).into());
    }
    if !metadata.is_file() {
        return Err(is_no_file().into());
    }
    if metadata.len() == 0 {
        return Err(anyhow!("{shown}: not a Pinion archive: the file is empty").into());
    }
    // From here on it is read as any other file.
    fcntl_setfl(&file, OFlags::empty()).with_context(|| format!("cannot open {shown}"))?;
    Ok(file)
}
