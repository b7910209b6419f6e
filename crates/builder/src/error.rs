//! The errors of a build, by their origin: the source, the options, the output.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use pinion_archive::{Damage, WriteError};

use crate::rules::RuleError;
use crate::site_layout_guard::{PublishGuard, SiteLayout};

/// The reason why no archive was built. Displays as one line.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    /// The source is not a folder that can be read.
    #[error("{}", source_line(path, error))]
    Source {
        /// The folder.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// Files that cannot become resources, all of them.
    #[error("{}", problems_line(.0))]
    Problems(Vec<FileProblem>),
    /// Rules files that cannot be read, all of them. No build can do without them.
    #[error("{}", problems_line(.0))]
    UnreadRules(Vec<FileProblem>),
    /// Rules files that cannot be understood: everything that is wrong in them.
    #[error("{}", rules_line(.0))]
    Rules(Vec<RuleError>),
    /// Code that cannot be read, or that cannot be understood: everything that is wrong with it.
    #[error("{}", code_line(.0))]
    Code(Vec<CodeError>),
    /// The file for [`Options::single_page`](crate::Options::single_page) is not in the site.
    #[error("the site has no file {0:?}; give its path below the folder, such as index.html")]
    SinglePage(String),
    /// The folder for the content of a dynamic site cannot be entered, is no folder, or is left
    /// out. The files beside it are never published in its place.
    #[error(
        "public_html is excluded or cannot be read as a folder, and a site with main.lua or pages \
         publishes only what is in it; make it a readable folder, or rename it"
    )]
    ContentFolder,
    /// [`Options::follows`](crate::Options::follows): the folder has lost its code, its main script
    /// or the folder for its content.
    #[error("{}", lost_line(*.before, *.now))]
    Lost {
        /// Its properties before.
        before: PublishGuard,
        /// Its properties now.
        now: PublishGuard,
    },
    /// More names than [`FILES_MAX`](crate::limits::FILES_MAX).
    #[error(
        "more than {} files and folders, the limit of a site; leave folders out with --exclude",
        crate::limits::FILES_MAX
    )]
    TooManyFiles,
    /// Links lead to the same folders by more paths than
    /// [`REPEATED_FOLDERS_MAX`](crate::limits::REPEATED_FOLDERS_MAX); this is one of them.
    #[error(
        "{}: symbolic links lead to the same folders by more than {} paths, the limit; remove some \
         of them, or leave them out with --exclude",
        ShownPath(.0), crate::limits::REPEATED_FOLDERS_MAX
    )]
    RepeatedFolders(PathBuf),
    /// A pattern that is none.
    #[error("{message}")]
    Glob {
        /// The name of the option that it was given by.
        option: &'static str,
        /// The fault of the pattern.
        message: String,
    },
    /// A field value with a line break or another forbidden character.
    #[error("{field}: {value:?} is not a header value; use visible ASCII characters and spaces")]
    FieldValue {
        /// The field's name.
        field: &'static str,
        /// The requested value.
        value: String,
    },
    /// The archive cannot be written.
    #[error("cannot write the archive: {0}")]
    Archive(#[from] WriteError),
    /// The archive's file cannot be made, or not be given its name.
    #[error("cannot write {}: {error}", ShownPath(path))]
    Output {
        /// The archive.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// The file with the archive's name must not be lost.
    #[error("{}: will not replace {by}", ShownPath(path))]
    Occupied {
        /// The archive.
        path: PathBuf,
        /// The kind of file that is there.
        by: Occupant,
    },
    /// An archive of an earlier release is damaged.
    #[error("{} is damaged: {damage}; build without --previous for it", ShownPath(path))]
    Previous {
        /// The archive.
        path: PathBuf,
        /// The damage.
        damage: Damage,
    },
    /// [`Progress::cancelled`](crate::Progress::cancelled) said so.
    #[error("cancelled")]
    Cancelled,
}

/// An error in the code of a dynamic site. Displays as `file:line: message`.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct CodeError {
    /// The file, below the source.
    pub file: PathBuf,
    /// Its line, from 1; `None` for an error of the file as a whole.
    pub line: Option<u32>,
    /// The message.
    pub message: String,
    /// The source as it was named, so that the message has a path that an editor can open.
    pub folder: PathBuf,
}

impl fmt::Display for CodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:", ShownPath(&self.folder.join(&self.file)))?;
        self.line.map_or(Ok(()), |line| write!(f, "{line}:"))?;
        write!(f, " {}", self.message)
    }
}

/// Kinds of files that an archive does not replace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Occupant {
    /// A block or character device.
    Device,
    /// A folder.
    Folder,
    /// A file that is neither empty nor an archive.
    OtherFile,
    /// A named pipe.
    Pipe,
    /// A socket.
    Socket,
}

/// A file that cannot become a resource, or not be read for its rules.
#[derive(Debug)]
pub struct FileProblem {
    /// Its path below the source; the path of a rules file that the options name has another form,
    /// see [`path_on_disk`](crate::path_on_disk).
    pub path: PathBuf,
    /// Why.
    pub reason: Reason,
}

/// The reason why a file cannot become a resource.
#[derive(Debug)]
pub enum Reason {
    /// A symbolic link to nothing.
    DanglingLink,
    /// A symbolic link that leads back to itself without ever reaching a file.
    CircularLink,
    /// A socket.
    Socket,
    /// A named pipe.
    Pipe,
    /// A block or character device.
    Device,
    /// A folder of proc(5) or sysfs(5).
    KernelFolder,
    /// Its size or modification time changed, or it became something else.
    Changed,
    /// A rule says that it is in a coding, and decoded it is larger than
    /// [`HELD_MAX_BYTES`](crate::limits::HELD_MAX_BYTES).
    TooLargeToDecode,
    /// It has more or less content than its size says: files that the kernel makes up as they are
    /// read, as below /proc and /sys.
    WrongSize,
    /// The error of the system.
    Unreadable(io::Error),
}

impl Reason {
    /// Returns whether the system denies access to it.
    pub(crate) fn is_unreadable(&self) -> bool {
        matches!(self, Reason::Unreadable(_))
    }
}

impl fmt::Display for FileProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", ShownPath(&self.path), self.reason)
    }
}

impl fmt::Display for Occupant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Occupant::Device => "a device",
            Occupant::Folder => "a folder",
            Occupant::OtherFile => "a file that is not an archive",
            Occupant::Pipe => "a named pipe",
            Occupant::Socket => "a socket",
        })
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Reason::DanglingLink => f.write_str("broken symbolic link"),
            Reason::CircularLink => f.write_str("symbolic link that leads back to itself"),
            Reason::Socket => f.write_str("a socket, not a file"),
            Reason::Pipe => f.write_str("a named pipe, not a file"),
            Reason::Device => f.write_str("a device, not a file"),
            Reason::KernelFolder => {
                f.write_str("a folder of the kernel (/proc or /sys), not one with files")
            }
            Reason::Changed => f.write_str("changed while it was read; build again"),
            Reason::TooLargeToDecode => f.write_str(
                "larger than 128 MiB after decoding its Content-Encoding of _headers; put the \
                 decoded file into the folder, and remove that header",
            ),
            Reason::WrongSize => {
                f.write_str("its content is longer or shorter than its size, as below /proc")
            }
            Reason::Unreadable(error) => {
                write!(f, "cannot be read: {}", without_number(error))?;
                match error.kind() {
                    io::ErrorKind::PermissionDenied => f.write_str("; change its permissions"),
                    _ => Ok(()),
                }
            }
        }
    }
}

/// A path for people: control characters, which would break the line or steer the terminal, are
/// escaped; bytes that are not UTF-8 are replaced.
pub(crate) struct ShownPath<'a>(pub(crate) &'a Path);

impl fmt::Display for ShownPath<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use fmt::Write as _;
        self.0.to_string_lossy().chars().try_for_each(|c| {
            if c.is_control() { write!(f, "{}", c.escape_default()) } else { f.write_char(c) }
        })
    }
}

/// Returns the text of a system error without its number, which does not help users.
pub(crate) fn without_number(error: &io::Error) -> String {
    let mut text = error.to_string();
    if error.raw_os_error().is_some()
        && let Some(number) = text.rfind(" (os error ")
    {
        text.truncate(number);
    }
    text
}

fn lost_line(before: PublishGuard, now: PublishGuard) -> &'static str {
    if now.layout.may_follow(before.layout) {
        return "main.lua was removed or is empty, and with it the routes and the middleware of \
                the site; restore it, or restart the server to serve the site without it";
    }
    match before.layout {
        SiteLayout::DynamicBeside => {
            "public_html or the code of the site was removed, and without it the files beside it \
             would be published; restore it, or restart the server to serve the whole folder"
        }
        _ => {
            "main.lua and all pages with code were removed, and without them the folder is a \
             static site; restore them, or restart the server to serve it as a static site"
        }
    }
}

fn rules_line(errors: &[RuleError]) -> String {
    match errors {
        [] => String::from("no error"),
        [only] => only.to_string(),
        [first, rest @ ..] => format!("{first} (and {} more)", rest.len()),
    }
}

fn code_line(errors: &[CodeError]) -> String {
    match errors {
        [] => String::from("no error"),
        [only] => only.to_string(),
        [first, rest @ ..] => format!("{first} (and {} more)", rest.len()),
    }
}

fn source_line(path: &Path, error: &io::Error) -> String {
    let shown = ShownPath(path);
    match error.kind() {
        io::ErrorKind::NotFound => format!("{shown} does not exist; give a folder"),
        io::ErrorKind::NotADirectory => format!("{shown} is not a folder; give a folder"),
        io::ErrorKind::PermissionDenied => format!(
            "cannot read the folder {shown}: {}; give the user that runs Pinion read and execute \
             permission",
            without_number(error)
        ),
        _ => format!("cannot read the folder {shown}: {}", without_number(error)),
    }
}

fn problems_line(problems: &[FileProblem]) -> String {
    match problems {
        [] => String::from("no problem"),
        [only] => only.to_string(),
        [first, rest @ ..] => format!("{first} (and {} more)", rest.len()),
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;

    use super::*;

    #[test]
    fn control_characters_of_file_names_are_escaped_in_messages() {
        let path = OsStr::from_bytes(b"a\n\x1b[31m \xc3\xbc \xff.html").into();
        let problem = FileProblem { path, reason: Reason::Pipe };
        let expected = "a\\n\\u{1b}[31m \u{fc} \u{fffd}.html: a named pipe, not a file";
        assert_eq!(problem.to_string(), expected);
    }

    #[test]
    fn messages_omit_the_number_of_the_os_error() {
        let denied = Reason::Unreadable(rustix::io::Errno::ACCESS.into());
        let expected = "cannot be read: Permission denied; change its permissions";
        assert_eq!(denied.to_string(), expected);
        let error = rustix::io::Errno::ACCESS.into();
        let source = BuildError::Source { path: "a".into(), error }.to_string();
        let expected = "cannot read the folder a: Permission denied; give the user that runs \
                        Pinion read and execute permission";
        assert_eq!(source, expected);
        let own = Reason::Unreadable(io::Error::other("a (os error 5) of our own"));
        assert_eq!(own.to_string(), "cannot be read: a (os error 5) of our own");
    }
}
