//! The CGI scripts of a mount. All workers share it.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use pinion_engine::exchange_address::Address;
use pinion_http::request_head::Framing;

use super::script_queue::ScriptQueue;
use crate::field_changes::FieldChanges;
use crate::limits::{
    CGI_QUEUE_MAX, CGI_RUNNING_MAX, CGI_TIMEOUT_MS, CGI_TOTAL_TIMEOUT_MS, STORED_UPLOAD_MAX_BYTES,
};
use crate::path_prefix::PathPrefix;
use crate::script_location::application_root;
use crate::upstream_group::PassedFields;

/// Which content of requests is stored before a script is started. A script that gets content as it
/// comes is a process for as long as the client takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ContentStorage {
    /// Content up to the limit. Longer content is streamed if its length is known, and is refused
    /// with status 411 otherwise: a script has to know its length (RFC 3875 §4.1.2).
    #[default]
    UpToLimit,
    /// All content. Longer content is refused with status 413.
    Always,
    /// None. Content whose length the client has not announced is streamed without
    /// `CONTENT_LENGTH`, as Apache httpd does; the script has to read it up to its end.
    Never,
}

/// The CGI scripts of a mount. All workers share it.
#[derive(Debug)]
pub struct CgiScripts {
    /// The row of the spawner's table, once it has one.
    pub row: OnceLock<u16>,
    /// The folder of the scripts as this process sees it.
    pub folder: PathBuf,
    /// The folder of the scripts as they see it, inside of their root directory, without a slash at
    /// its end.
    pub script_folder: Box<[u8]>,
    /// The root directory of the scripts, for messages.
    pub chroot: Option<PathBuf>,
    /// The one script of the folder that responds to all paths, by its name; `None` if the path
    /// says which script responds.
    pub script: Option<Box<[u8]>>,
    /// The path of the mount.
    pub mount: PathPrefix,
    /// Whether scripts get `Authorization`.
    pub passes_authorization: bool,
    /// How long a script may do nothing, in milliseconds.
    pub timeout_ms: u64,
    /// How long a script may run in all, in milliseconds.
    pub total_timeout_ms: u64,
    /// Which content is stored before a script is started.
    pub content_storage: ContentStorage,
    /// Most bytes of the content of one request that are stored.
    pub stored_max_bytes: u64,
    /// Fields that are set or removed in responses.
    pub response_fields: FieldChanges,
    /// Fields of responses that hold for the whole host and are passed on all the same.
    pub passed_fields: PassedFields,
    /// Whether a response may name a [file](crate::x_sendfile) that is sent in place of its
    /// content.
    pub sends_files: bool,
    /// Which scripts run, and which requests wait.
    pub(super) queue: ScriptQueue<Address>,
}

impl CgiScripts {
    /// Returns the scripts of a folder with default settings at the root of a site.
    #[must_use]
    pub fn new(folder: impl AsRef<Path>) -> Self {
        let folder = folder.as_ref();
        Self {
            row: OnceLock::new(),
            folder: folder.to_owned(),
            script_folder: application_root(folder),
            chroot: None,
            script: None,
            mount: PathPrefix::new("/"),
            passes_authorization: false,
            timeout_ms: CGI_TIMEOUT_MS,
            total_timeout_ms: CGI_TOTAL_TIMEOUT_MS,
            content_storage: ContentStorage::default(),
            stored_max_bytes: STORED_UPLOAD_MAX_BYTES,
            response_fields: FieldChanges::default(),
            passed_fields: PassedFields::default(),
            sends_files: false,
            queue: ScriptQueue::new(CGI_RUNNING_MAX, CGI_QUEUE_MAX),
        }
    }

    /// Sets how many scripts run at the same time, in all workers together; at least one does.
    #[must_use]
    pub fn with_running_max(self, running_max: usize) -> Self {
        Self { queue: ScriptQueue::new(running_max, CGI_QUEUE_MAX), ..self }
    }

    /// Returns how many bytes of the content of a request are stored before its script is started;
    /// `None` if the script gets the content as it comes, or there is none.
    pub(super) fn stored_max_bytes_of(&self, framing: Framing) -> Option<u64> {
        let max_bytes = self.stored_max_bytes;
        match (self.content_storage, framing) {
            (_, Framing::None) | (ContentStorage::Never, _) => None,
            (ContentStorage::UpToLimit, Framing::Length(bytes)) if bytes > max_bytes => None,
            _ => Some(max_bytes),
        }
    }

    /// Returns the path of a script as it sees it itself: `SCRIPT_FILENAME`.
    pub(super) fn filename(&self, path: &[u8]) -> Vec<u8> {
        [&*self.script_folder, path].join(&b'/')
    }

    /// Returns the path of a script for messages.
    pub(super) fn shown(&self, path: &[u8]) -> String {
        self.filename(path).escape_ascii().to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_storage_setting_determines_which_content_is_stored() {
        use ContentStorage::{Always, Never, UpToLimit};
        let (fits, larger) = (Framing::Length(10), Framing::Length(11));
        for (content_storage, expected) in [
            (UpToLimit, [None, Some(10), None, Some(10), Some(10)]),
            (Always, [None, Some(10), Some(10), Some(10), Some(10)]),
            (Never, [None; 5]),
        ] {
            let scripts =
                CgiScripts { content_storage, stored_max_bytes: 10, ..CgiScripts::new("/cgi") };
            let framings = [Framing::None, fits, larger, Framing::Chunked, Framing::Frames];
            let stored = framings.map(|framing| scripts.stored_max_bytes_of(framing));
            assert_eq!(stored, expected, "{content_storage:?}");
        }
    }
}
