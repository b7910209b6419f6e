//! Jobs of scripts: their results are values that become values of Lua.

use pinion_jobs::confined_folders::{FileError, FileErrorKind, FileKind, FileStat};
use pinion_jobs::job_queue::{BlockingJob, JobDone, JobOutcome, JobResult, JobValue};
use rustix::io::Errno;

use crate::copied_value::CopiedValue;

/// A job of a script.
pub(crate) type LuaJob = BlockingJob<CopiedValue>;

/// The result of a job of a script.
pub(crate) type LuaJobResult = JobResult<CopiedValue>;

/// The message that a job of a script is done.
pub(crate) type LuaJobDone = JobDone<CopiedValue>;

impl JobValue for CopiedValue {
    fn held_bytes(&self) -> usize {
        self.bytes()
    }
}

/// Converts the result of a file operation for a script.
pub(crate) fn file_outcome<T: Into<CopiedValue>>(
    result: Result<T, FileError>,
) -> JobOutcome<CopiedValue> {
    result.map(T::into).map_err(|error| file_error(&error))
}

impl From<()> for CopiedValue {
    fn from((): ()) -> Self {
        Self::Boolean(true)
    }
}

impl From<Vec<u8>> for CopiedValue {
    fn from(bytes: Vec<u8>) -> Self {
        Self::Bytes(bytes)
    }
}

impl From<Vec<Vec<u8>>> for CopiedValue {
    fn from(names: Vec<Vec<u8>>) -> Self {
        Self::Table((1..).map(Self::Integer).zip(names.into_iter().map(Self::Bytes)).collect())
    }
}

impl From<FileStat> for CopiedValue {
    /// Converts it to a table with `type`, `size` in bytes, and `modified` in seconds since 1970.
    fn from(stat: FileStat) -> Self {
        let kind = match stat.kind {
            FileKind::File => "file",
            FileKind::Folder => "folder",
            FileKind::Other => "other",
        };
        let field = |name: &str, value| (Self::Bytes(name.into()), value);
        Self::Table(vec![
            field("type", Self::Bytes(kind.into())),
            field("size", Self::Integer(stat.size as i64)),
            field("modified", Self::Number(stat.modified)),
        ])
    }
}

/// Returns the text of an error, with a hint for the author of the script.
pub(crate) fn file_error(error: &FileError) -> String {
    format!("{error}{}", hint(&error.kind))
}

/// Returns the text of an error that names no file, as [`file_error`].
pub(crate) fn file_error_kind(kind: &FileErrorKind) -> String {
    format!("{kind}{}", hint(kind))
}

/// Returns the hint for the author of a script, as the end of the text of an error.
fn hint(kind: &FileErrorKind) -> String {
    match kind {
        FileErrorKind::NoFolders => "; name one with --lua-folder NAME=PATH",
        FileErrorKind::UnknownFolder { known, .. } => {
            return format!("; a path begins with a name of --lua-folder: {known}");
        }
        FileErrorKind::ReadOnlyFolder(_) => "; remove `:ro` from its --lua-folder to change it",
        FileErrorKind::InvalidPath { known } => {
            return format!(
                ": write NAME/path with a NAME of --lua-folder ({known}), without a leading /, \
                 empty parts, \".\", \"..\" or NUL"
            );
        }
        FileErrorKind::MissingParent(_) => "; create it with pinion.fs.make_folder",
        FileErrorKind::TooLarge { .. } => {
            "; read the file in parts, with the options `from` and `bytes`"
        }
        FileErrorKind::TooManyNames => {
            ", the most that pinion.fs.list returns; use folders below it"
        }
        FileErrorKind::System(Errno::LOOP | Errno::XDEV) => {
            "; name the folder that it leads to with another --lua-folder"
        }
        FileErrorKind::System(Errno::ISDIR) => "; pinion.fs.list has the names in it",
        FileErrorKind::System(Errno::EXIST) => "; pinion.fs.write replaces a file",
        _ => "",
    }
    .to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_errors_tell_the_author_of_a_script_the_remedy() {
        let known = || "data, shown".to_owned();
        for (kind, text) in [
            (
                FileErrorKind::NoFolders,
                "the site has no folders for files; name one with --lua-folder NAME=PATH",
            ),
            (
                FileErrorKind::UnknownFolder { name: "x".to_owned(), known: known() },
                "there is no folder of the name \"x\"; a path begins with a name of --lua-folder: \
                 data, shown",
            ),
            (
                FileErrorKind::InvalidPath { known: known() },
                "not a valid path: write NAME/path with a NAME of --lua-folder (data, shown), \
                 without a leading /, empty parts, \".\", \"..\" or NUL",
            ),
            (
                FileErrorKind::MissingParent("data/no".to_owned()),
                "the folder \"data/no\" does not exist; create it with pinion.fs.make_folder",
            ),
            (
                FileErrorKind::System(Errno::EXIST),
                "it exists already; pinion.fs.write replaces a file",
            ),
            (FileErrorKind::FolderExists, "it exists already"),
            (FileErrorKind::MissingFile, "no such file"),
        ] {
            assert_eq!(file_error_kind(&kind), text);
            let error = kind.of("read", b"data/x");
            assert_eq!(file_error(&error), format!("cannot read \"data/x\": {text}"));
        }
    }
}
