//! A file as the content of an answer: its fields, and its pieces.

use std::fmt::Write as _;
use std::fs::File;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::sync::{Arc, OnceLock};

use pinion_http::date::{self, UnixSeconds};

use super::{Folders, of};
use crate::answer::Answer;
use crate::file_name;
use crate::job::{Finished, Job};
use crate::limits::FILE_PIECE_BYTES;
use crate::plain::Plain;
use crate::request::Request;

/// A file that is open, and what it was then.
#[derive(Debug)]
pub(crate) struct Source {
    file: File,
    size: u64,
    modified: UnixSeconds,
    /// What no later state of the file has, unless it changes within one tick.
    state: String,
}

/// The file that a request is answered with, and how far it has been sent.
#[derive(Debug, Default, Clone)]
pub(crate) struct Sending {
    /// Set by the thread that opens it.
    source: Arc<OnceLock<Source>>,
    /// What has been sent of it, in bytes.
    sent_bytes: u64,
}

/// What a script says about the file it sends.
#[derive(Debug, Default)]
pub(crate) struct Said<'s> {
    /// `Content-Type`.
    pub(crate) media_type: Option<&'s [u8]>,
    /// The name under which a browser is to store it; then it shows it to nobody.
    pub(crate) download: Option<&'s [u8]>,
}

/// What goes without a better type: no browser makes anything of it.
const UNKNOWN: &str = "application/octet-stream";

impl Sending {
    /// Opens a file for it.
    pub(crate) fn opening(&self, folders: &Folders, name: Vec<u8>) -> Job {
        let (source, folders) = (Arc::clone(&self.source), folders.clone());
        Job::new(move || {
            let open = || {
                let file = folders.regular(&name)?;
                let found = file.metadata().map_err(|error| error.to_string())?;
                let parts = [found.mtime(), found.mtime_nsec(), found.ctime(), found.ctime_nsec()];
                let times = parts.map(|part| format!("{part:x}")).join("-");
                let state = format!("{times}-{:x}-{:x}", found.ino(), found.len());
                Ok(Source { size: found.len(), file, modified: found.mtime(), state })
            };
            let opened = open().map_err(|why: String| of(&name, &why))?;
            Ok(Plain::Boolean(source.set(opened).is_ok()))
        })
    }

    /// The length of the content; none where no file was opened.
    pub(crate) fn bytes(&self) -> Option<u64> {
        self.source.get().map(|source| source.size)
    }

    /// Reads the next piece; none when all of it has been sent.
    pub(crate) fn next(&self) -> Option<Job> {
        let at = self.sent_bytes;
        let left = self.bytes()?.checked_sub(at).filter(|&left| left > 0)?;
        let source = Arc::clone(&self.source);
        Some(Job::new(move || match source.get() {
            Some(source) => source.piece(at, left.min(FILE_PIECE_BYTES) as usize),
            None => Err("the file is not open".to_owned()),
        }))
    }

    /// So many bytes more have been sent.
    pub(crate) fn sent(&mut self, bytes: u64) {
        self.sent_bytes += bytes;
    }

    /// Gives an answer the fields of the file, or says that the client has it: false.
    ///
    /// # Errors
    /// What is wrong with what the script says.
    pub(crate) fn describe(
        &self,
        name: &[u8],
        said: &Said<'_>,
        folders: &Folders,
        request: &Request,
        answer: &mut Answer,
        now: UnixSeconds,
    ) -> Result<bool, String> {
        let Some(source) = self.source.get() else {
            return Err("no file is open".to_owned());
        };
        if let Some(media_type) = said.media_type {
            answer.field(b"Content-Type", media_type, true)?;
        } else if !answer.has_type() {
            let known = folders.0.media_type.and_then(|of| of(&String::from_utf8_lossy(name)));
            answer.field(b"Content-Type", known.as_deref().unwrap_or(UNKNOWN).as_bytes(), true)?;
        }
        if let Some(download) = said.download {
            answer.field(b"Content-Disposition", &disposition(download), true)?;
        }
        let tag = source.tag(now);
        if let Some(tag) = &tag {
            answer.field(b"ETag", tag.as_bytes(), true)?;
        }
        answer.field(b"Last-Modified", &date::format(source.modified), true)?;
        let is_unchanged = answer.status == 200
            && request.only_reads()
            && is_known(request, tag.as_deref(), source.modified, now);
        if is_unchanged {
            answer.status = 304;
        }
        Ok(!is_unchanged)
    }
}

impl Source {
    /// Bytes of it. A file that has become shorter has none left.
    fn piece(&self, at: u64, bytes: usize) -> Finished {
        let mut piece = vec![0; bytes];
        let read = self.file.read_at(&mut piece, at).map_err(|error| error.to_string())?;
        piece.truncate(read);
        Ok(Plain::Bytes(piece))
    }

    /// A strong tag. A file that has just changed has none: another change within the same tick of
    /// the file system's clock would look alike.
    fn tag(&self, now: UnixSeconds) -> Option<String> {
        let is_settled = now.saturating_sub(self.modified) >= SETTLED_AFTER_SECONDS;
        is_settled.then(|| format!("\"{}\"", self.state))
    }
}

/// Longer than the tick of any file system's clock.
const SETTLED_AFTER_SECONDS: i64 = 2;

/// Whether the client has the file as it is (RFC 9110 §13.1.2 and §13.1.3).
fn is_known(request: &Request, tag: Option<&str>, modified: UnixSeconds, now: UnixSeconds) -> bool {
    let mut is_asked = false;
    for value in request.values_of(b"if-none-match") {
        is_asked = true;
        // Our tags have no commas, so that no part of another one equals one of ours.
        let mut members = value.split(|&byte| byte == b',').map(<[u8]>::trim_ascii);
        let is_ours = |member: &[u8]| {
            let opaque = member.strip_prefix(b"W/").unwrap_or(member);
            member == b"*" || tag.is_some_and(|tag| tag.as_bytes() == opaque)
        };
        if members.any(is_ours) {
            return true;
        }
    }
    let since = request.only_field(b"if-modified-since").and_then(|text| date::parse(text, now));
    !is_asked && since.is_some_and(|since| modified <= since)
}

/// A browser stores the content under this name (RFC 6266). The name is made safe first.
fn disposition(name: &[u8]) -> Vec<u8> {
    let name = file_name::safe(name);
    let plain = |c: char| matches!(c, ' '..='~') && !matches!(c, '"' | '\\' | '%');
    let ascii: String = name.chars().map(|c| if plain(c) { c } else { '_' }).collect();
    let mut text = format!("attachment; filename=\"{ascii}\"");
    if ascii != name {
        text.push_str("; filename*=UTF-8''");
        for byte in name.bytes() {
            match byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
                true => text.push(char::from(byte)),
                false => {
                    let _infallible = write!(text, "%{byte:02X}");
                }
            }
        }
    }
    text.into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_a_download_is_safe_and_read_by_every_browser() {
        for (name, text) in [
            ("a b.txt", "attachment; filename=\"a b.txt\""),
            ("../x\"y\r\n", "attachment; filename=\"x_y\"; filename*=UTF-8''x%22y"),
            ("ä.pdf", "attachment; filename=\"_.pdf\"; filename*=UTF-8''%C3%A4.pdf"),
            ("", "attachment; filename=\"unnamed\""),
        ] {
            assert_eq!(String::from_utf8_lossy(&disposition(name.as_bytes())), text);
        }
    }
}
