//! What `pinion serve` is asked to serve, told by what PATH is: a folder, or a file with the
//! archive's magic. Configuration files, scripts and addresses are known by name, so that the
//! answer to them says what to do instead.

use crate::failure::Failure;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

/// Something that can be served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    /// A ready archive.
    Archive(PathBuf),
    /// A folder, to be built first.
    Folder(PathBuf),
}

impl Source {
    /// Its path, as written.
    pub(crate) fn path(&self) -> &Path {
        match self {
            Self::Archive(path) | Self::Folder(path) => path,
        }
    }
}

/// Finds out what `path` is; without one, what stands in the current folder under our names.
///
/// # Errors
/// [`Failure::Usage`] when it is nothing that can be served, [`Failure::Failed`] when it cannot be
/// looked at.
pub(crate) fn recognise(path: Option<&Path>) -> Result<Source, Failure> {
    match path {
        Some(path) => recognise_path(path),
        None => recognise_folder(Path::new(".")),
    }
}

fn recognise_path(path: &Path) -> Result<Source, Failure> {
    let shown = path.display();
    if is_dir(path) {
        return Ok(Source::Folder(path.to_owned()));
    }
    if is_archive(path)
        .map_err(|e| anyhow::Error::from(e).context(format!("cannot read {shown}")))?
    {
        return Ok(Source::Archive(path.to_owned()));
    }
    Err(Failure::usage(match path.extension().and_then(|extension| extension.to_str()) {
        Some("toml") => configuration(path),
        Some("lua") => format!(
            "{shown}: Lua scripts are not supported yet; give a folder or an archive instead"
        ),
        _ if path.to_string_lossy().contains("://") => format!(
            "{shown}: addresses are not supported yet; give a folder or an archive of this machine"
        ),
        _ if !path.exists() => {
            format!("{shown} does not exist; give a folder or an archive made by `pinion build`")
        }
        _ => format!(
            "{shown} is neither a folder nor a Pinion archive; `pinion build` makes an archive of \
             a folder"
        ),
    }))
}

/// No PATH: the current folder is never implied, only these two names in it.
fn recognise_folder(current: &Path) -> Result<Source, Failure> {
    if current.join("pinion.toml").exists() {
        return Err(Failure::usage(configuration(Path::new("./pinion.toml"))));
    }
    let public = current.join("public");
    if is_dir(&public) {
        return Ok(Source::Folder(public));
    }
    Err(Failure::usage(
        "nothing to serve: give a folder or an archive (there is no folder `public` here)",
    ))
}

fn configuration(path: &Path) -> String {
    format!(
        "{}: configuration files are not supported yet in this version; give a folder or an \
         archive, and flags: pinion serve public --listen 8080",
        path.display()
    )
}

fn is_dir(path: &Path) -> bool {
    path.metadata().is_ok_and(|metadata| metadata.is_dir())
}

/// Whether a regular file begins with the archive's magic. A file that does not exist does not.
fn is_archive(path: &Path) -> io::Result<bool> {
    match path.metadata() {
        // Opening a pipe would wait for its other end.
        Ok(metadata) if !metadata.is_file() => return Ok(false),
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => return Err(error),
        Err(_) => return Ok(false),
        Ok(_) => {}
    }
    let mut magic = Vec::new();
    let file = File::open(path)?;
    file.take(pinion_archive::layout::MAGIC.len() as u64).read_to_end(&mut magic)?;
    Ok(magic == pinion_archive::layout::MAGIC)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Self {
            let id = std::process::id();
            let folder = std::env::temp_dir().join(format!("pinion-source-{id}-{name}"));
            fs::create_dir_all(&folder).expect("a temporary folder");
            Self(folder)
        }

        fn file(&self, name: &str, bytes: &[u8]) -> PathBuf {
            let path = self.0.join(name);
            fs::write(&path, bytes).expect("written");
            path
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _left_for_the_system = fs::remove_dir_all(&self.0);
        }
    }

    fn usage(result: Result<Source, Failure>) -> String {
        match result {
            Err(Failure::Usage(message)) => message,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_folder_and_an_archive_are_known_by_what_they_are() {
        let folder = Folder::new("known");
        // The magic counts, not the name.
        let archive =
            folder.file("site.lua", &[&pinion_archive::layout::MAGIC[..], b"rest"].concat());
        assert!(matches!(recognise(Some(&archive)), Ok(Source::Archive(path)) if path == archive));
        let named = folder.0.join("a.toml");
        fs::create_dir(&named).expect("made");
        assert!(matches!(recognise(Some(&named)), Ok(Source::Folder(path)) if path == named));
    }

    #[test]
    fn what_is_not_supported_yet_is_named() {
        let folder = Folder::new("later");
        for (name, hint) in [("a.toml", "configuration files"), ("a.lua", "Lua scripts")] {
            let path = folder.file(name, b"x");
            assert!(usage(recognise(Some(&path))).contains(hint));
        }
        let address = usage(recognise(Some(Path::new("s3://bucket/site"))));
        assert!(address.contains("addresses are not supported yet"));
    }

    #[test]
    fn anything_else_is_a_wrong_command_line() {
        let folder = Folder::new("else");
        let text = folder.file("site.pinion", b"PI");
        assert!(usage(recognise(Some(&text))).contains("neither a folder nor a Pinion archive"));
        assert!(usage(recognise(Some(&folder.0.join("none")))).contains("does not exist"));
        let device = usage(recognise(Some(Path::new("/dev/null"))));
        assert!(device.contains("neither a folder"));
    }

    #[test]
    fn without_a_path_the_current_folder_is_never_implied() {
        let folder = Folder::new("implied");
        folder.file("index.html", b"x");
        assert!(usage(recognise_folder(&folder.0)).contains("nothing to serve"));
        fs::create_dir(folder.0.join("public")).expect("made");
        assert!(matches!(recognise_folder(&folder.0), Ok(Source::Folder(_))));
        folder.file("pinion.toml", b"");
        assert!(usage(recognise_folder(&folder.0)).contains("configuration files"));
    }
}
