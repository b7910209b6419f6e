//! A file as the content of a response: its fields, and its pieces.

use std::collections::VecDeque;
use std::fmt::Write as _;
use std::fs::File;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::sync::{Arc, OnceLock};

use pinion_http::conditional::{self, PreconditionVerdict, Validators};
use pinion_http::date::{self, UnixSeconds};
use pinion_http::h1::response_encoder;
use pinion_http::multipart_byteranges;
use pinion_http::prepared_response::ContentRange;
use pinion_http::range::{self, ByteRange, Ranges};
use pinion_http::request_head::ConditionalRequest as _;
use pinion_jobs::confined_folders::{FileErrorKind, Folders};
use pinion_jobs::job_queue::{BlockingJob, JobOutcome};
use pinion_jobs::piecewise_job::{PieceSource, PiecewiseJob};
use pinion_jobs::safe_file_name;

use crate::copied_value::CopiedValue;
use crate::limits::FILE_PIECE_BYTES;
use crate::lua_job::{LuaJob, file_error};
use crate::request::HandledRequest;
use crate::script_response::ScriptResponse;

/// An open file, with its state at that time.
#[derive(Debug)]
pub(crate) struct FileSource {
    file: File,
    size: u64,
    modified: UnixSeconds,
    /// A text that no later state of the file has, unless it changes within one tick.
    state: String,
}

/// The file that is the content of a response, and the bytes that are left to send.
#[derive(Debug, Default)]
pub(crate) struct FileTransfer {
    /// Set by the thread that opens it.
    source: Arc<OnceLock<FileSource>>,
    /// The pieces of the file, once it is described.
    pieces: Option<PiecewiseJob<FilePieces>>,
    /// The bytes that are left to send.
    left_bytes: u64,
}

/// The source of the pieces of a file.
#[derive(Debug)]
struct FilePieces {
    source: Arc<OnceLock<FileSource>>,
    /// The parts that are left to read, in this order.
    parts: VecDeque<FilePart>,
}

/// A part of the content of a response.
#[derive(Debug, PartialEq)]
enum FilePart {
    /// The text around the ranges of a multipart body.
    Text(Vec<u8>),
    /// So many bytes of the file, from a position on.
    File { at: u64, bytes: u64 },
}

impl FilePart {
    fn bytes(&self) -> u64 {
        match self {
            Self::Text(text) => text.len() as u64,
            Self::File { bytes, .. } => *bytes,
        }
    }
}

/// The part of a file that a client receives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SentContent {
    /// The whole file.
    Whole,
    /// Ranges of it.
    Ranges,
    /// No content: the status is the reason.
    Nothing,
}

/// The options of a script for the file that it sends.
#[derive(Debug, Default)]
pub(crate) struct FileOptions<'s> {
    /// `Content-Type`.
    pub(crate) media_type: Option<&'s [u8]>,
    /// The name under which a browser stores the file instead of showing it.
    pub(crate) download: Option<&'s [u8]>,
}

/// The type of files that have no better one: browsers do not interpret it.
const UNKNOWN: &str = "application/octet-stream";

impl FileTransfer {
    /// Returns the job that opens a file.
    pub(crate) fn opening(&self, folders: &Folders, name: Vec<u8>) -> LuaJob {
        let (source, folders) = (Arc::clone(&self.source), folders.clone());
        BlockingJob::files(name.len(), move || {
            let open = || {
                let file = folders.open_file(&name)?;
                let found = file.metadata()?;
                let parts = [found.mtime(), found.mtime_nsec(), found.ctime(), found.ctime_nsec()];
                let times = parts.map(|part| format!("{part:x}")).join("-");
                let state = format!("{times}-{:x}-{:x}", found.ino(), found.len());
                Ok(FileSource { size: found.len(), file, modified: found.mtime(), state })
            };
            let opened =
                open().map_err(|kind: FileErrorKind| file_error(&kind.of("send", &name)))?;
            Ok(CopiedValue::Boolean(source.set(opened).is_ok()))
        })
    }

    /// Returns the number of bytes that are left to send; none where no file was opened.
    pub(crate) fn bytes(&self) -> Option<u64> {
        self.source.get().map(|_| self.left_bytes)
    }

    /// Returns the job that reads the next piece; none when all of it has been sent.
    pub(crate) fn next(&self) -> Option<LuaJob> {
        let pieces = self.pieces.as_ref().filter(|_| self.left_bytes > 0)?;
        Some(pieces.next_piece().map(CopiedValue::Bytes))
    }

    /// Records that so many more bytes have been sent.
    pub(crate) fn sent(&mut self, sent: u64) {
        self.left_bytes = self.left_bytes.saturating_sub(sent);
    }

    /// Sets the parts of the file to send.
    fn send(&mut self, parts: VecDeque<FilePart>) {
        self.left_bytes = parts.iter().map(FilePart::bytes).sum();
        let source = Arc::clone(&self.source);
        self.pieces = Some(PiecewiseJob::new(FilePieces { source, parts }));
    }

    /// Adds the fields of the file to a response, and decides which part of it is sent: the
    /// preconditions and ranges of a request are those of a file that is published (RFC 9110
    /// §13.2.2), as far as the script has left the status at 200.
    ///
    /// # Errors
    /// Returns the error in the script's options.
    pub(crate) fn describe(
        &mut self,
        name: &[u8],
        said: &FileOptions<'_>,
        folders: &Folders,
        request: &HandledRequest,
        response: &mut ScriptResponse,
        now: UnixSeconds,
    ) -> Result<SentContent, String> {
        let Some(source) = self.source.get() else {
            return Err("no file is open".to_owned());
        };
        let (total, tag) = (source.size, source.tag(now));
        let is_selected = response.status == 200 && request.method().selects_representation();
        let validators = Validators {
            etag: tag.as_deref().map(str::as_bytes),
            // RFC 9110 §8.8.2.1: no date later than that of the message.
            last_modified: Some(source.modified).filter(|modified| *modified <= now),
        };
        let (verdict, ranges) = if is_selected {
            asked(request, &validators, total, now)
        } else {
            (PreconditionVerdict::Proceed, Ranges::Ignore)
        };
        if verdict == PreconditionVerdict::PreconditionFailed {
            return Ok(refuse(response, 412));
        }
        if ranges == Ranges::Unsatisfiable {
            refuse(response, 416);
            set_content_range(response, ContentRange::Unsatisfied { total })?;
            return Ok(SentContent::Nothing);
        }
        let kind = set_type(name, said, folders, response)?;
        if let Some(download) = said.download {
            response.field(b"Content-Disposition", &disposition(download), true)?;
        }
        if let Some(tag) = &tag {
            response.field(b"ETag", format!("\"{tag}\"").as_bytes(), true)?;
        }
        if let Some(modified) = validators.last_modified {
            response.field(b"Last-Modified", &date::format(modified), true)?;
        }
        if is_selected && request.only_reads() {
            response.field(b"Accept-Ranges", b"bytes", true)?;
        }
        if verdict == PreconditionVerdict::NotModified {
            response.status = 304;
            return Ok(SentContent::Nothing);
        }
        if let Ranges::Satisfiable(set) = ranges
            && let Some(parts) = ranges_of(set.as_slice(), kind.as_deref(), total, response)?
        {
            response.status = 206;
            self.send(parts);
            return Ok(SentContent::Ranges);
        }
        // Nothing is read of an empty file.
        let whole = Some(FilePart::File { at: 0, bytes: total }).filter(|_| total > 0);
        self.send(whole.into_iter().collect());
        Ok(SentContent::Whole)
    }
}

/// Evaluates the preconditions of a request and its ranges, as for a file that is published.
fn asked(
    request: &HandledRequest,
    validators: &Validators<'_>,
    total: u64,
    now: UnixSeconds,
) -> (PreconditionVerdict, Ranges) {
    let verdict = conditional::evaluate(request, validators, now);
    let ranges = match range::requested(request, total) {
        _ if verdict != PreconditionVerdict::Proceed => Ranges::Ignore,
        ranges if conditional::if_range_holds(request, validators, now) => ranges,
        _ => Ranges::Ignore,
    };
    (verdict, ranges)
}

/// Turns a response into an error without content, which no cache stores.
fn refuse(response: &mut ScriptResponse, status: u16) -> SentContent {
    response.status = status;
    for name in [&b"Cache-Control"[..], b"Content-Type"] {
        response.remove(name);
    }
    SentContent::Nothing
}

/// Sets the type of the file where the script has not, and returns the type.
fn set_type(
    name: &[u8],
    said: &FileOptions<'_>,
    folders: &Folders,
    response: &mut ScriptResponse,
) -> Result<Option<Vec<u8>>, String> {
    let kind = match said.media_type {
        Some(kind) => kind.to_vec(),
        None if response.has_type() => return Ok(response.value(b"content-type")),
        None => folders.media_type(name).unwrap_or_else(|| UNKNOWN.to_owned()).into_bytes(),
    };
    response.field(b"Content-Type", &kind, true)?;
    Ok(Some(kind))
}

fn set_content_range(response: &mut ScriptResponse, range: ContentRange) -> Result<(), String> {
    let mut text = Vec::new();
    response_encoder::content_range(&mut text, range);
    response.field(b"Content-Range", &text, true)
}

/// Returns the parts of a response with some ranges, and its fields. Returns none where the system
/// has no random bytes for a boundary, and the whole file is sent.
fn ranges_of(
    ranges: &[ByteRange],
    kind: Option<&[u8]>,
    total: u64,
    response: &mut ScriptResponse,
) -> Result<Option<VecDeque<FilePart>>, String> {
    let file = |range: &ByteRange| FilePart::File { at: range.first, bytes: range.bytes() };
    if let [range] = ranges {
        let ByteRange { first, last } = *range;
        set_content_range(response, ContentRange::Bytes { first, last, total })?;
        return Ok(Some(VecDeque::from([file(range)])));
    }
    // The boundary is random, so the content cannot contain it on purpose.
    let mut random = [0; BOUNDARY_BYTES];
    if getrandom::fill(&mut random).is_err() {
        return Ok(None);
    }
    let boundary: String = random.iter().map(|byte| format!("{byte:02x}")).collect();
    let boundary = boundary.as_bytes();
    let type_line = kind.map(|kind| [b"Content-Type: ", kind, b"\r\n"].concat());
    let type_line = type_line.unwrap_or_default();
    let mut parts = VecDeque::new();
    for range in ranges {
        let mut heading = Vec::new();
        multipart_byteranges::write_heading(&mut heading, boundary, &type_line, *range, total);
        parts.extend([FilePart::Text(heading), file(range)]);
    }
    let (mut end, mut media_type) = (Vec::new(), Vec::new());
    multipart_byteranges::write_end(&mut end, boundary);
    parts.push_back(FilePart::Text(end));
    multipart_byteranges::write_type(&mut media_type, boundary);
    response.field(b"Content-Type", &media_type, true)?;
    Ok(Some(parts))
}

/// The length of a boundary between ranges: as long as an entity tag of a published file, which is
/// the boundary there.
const BOUNDARY_BYTES: usize = 16;

impl PieceSource for FilePieces {
    type Piece = Vec<u8>;

    /// Reads bytes of the file, after the text before them.
    fn next_piece(&mut self) -> JobOutcome<Vec<u8>> {
        let source = self.source.get().ok_or_else(|| "the file is not open".to_owned())?;
        let mut piece = Vec::new();
        while let Some(FilePart::Text(text)) = self.parts.front_mut() {
            piece.append(text);
            self.parts.pop_front();
        }
        let Some(FilePart::File { at, bytes }) = self.parts.front_mut() else { return Ok(piece) };
        let from = piece.len();
        piece.resize(from + (*bytes).min(FILE_PIECE_BYTES) as usize, 0);
        let read =
            source.file.read_at(&mut piece[from..], *at).map_err(|error| error.to_string())?;
        if read == 0 {
            return Err("the file has become shorter while it was sent".to_owned());
        }
        piece.truncate(from + read);
        (*at, *bytes) = (*at + read as u64, *bytes - read as u64);
        if *bytes == 0 {
            self.parts.pop_front();
        }
        Ok(piece)
    }
}

impl FileSource {
    /// Returns a strong tag, without quotes. A file that has just changed has none: another change
    /// within the same tick of the file system's clock would look alike.
    fn tag(&self, now: UnixSeconds) -> Option<String> {
        let is_settled = now.saturating_sub(self.modified) >= SETTLED_AFTER_SECONDS;
        is_settled.then(|| self.state.clone())
    }
}

/// A time longer than the tick of any file system's clock.
const SETTLED_AFTER_SECONDS: i64 = 2;

/// Returns the field by which a browser stores the content under this name (RFC 6266). The name is
/// made safe first.
fn disposition(name: &[u8]) -> Vec<u8> {
    let name = safe_file_name::safe(name);
    let plain = |c: char| matches!(c, ' '..='~') && !matches!(c, '"' | '\\' | '%');
    let ascii: String = name.chars().map(|c| if plain(c) { c } else { '_' }).collect();
    let mut text = format!("attachment; filename=\"{ascii}\"");
    if ascii != name {
        text.push_str("; filename*=UTF-8''");
        for byte in name.bytes() {
            if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
                text.push(char::from(byte));
            } else {
                let _infallible = write!(text, "%{byte:02X}");
            }
        }
    }
    text.into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn opened(path: &std::path::Path) -> Arc<OnceLock<FileSource>> {
        let file = File::open(path).expect("opened");
        let source = FileSource { size: 0, file, modified: 0, state: String::new() };
        Arc::new(OnceLock::from(source))
    }

    /// However many pieces a body has, it is sent once and in order.
    #[test]
    fn pieces_of_a_multipart_body_follow_each_other() {
        let path = std::env::temp_dir().join(format!("pinion-pieces-{}", std::process::id()));
        let content: Vec<u8> = (0..3 * FILE_PIECE_BYTES).map(|at| (at % 251) as u8).collect();
        std::fs::write(&path, &content).expect("written");
        let source = opened(&path);
        std::fs::remove_file(&path).expect("removed");
        for bytes in [1, FILE_PIECE_BYTES - 1, FILE_PIECE_BYTES, 2 * FILE_PIECE_BYTES + 7] {
            let file = FilePart::File { at: 3, bytes };
            let text = |text: &str| FilePart::Text(text.into());
            let parts = VecDeque::from([text("a"), text("b"), file, text("c")]);
            let expected = [b"ab", &content[3..][..bytes as usize], b"c"].concat();
            let mut pieces = FilePieces { source: Arc::clone(&source), parts };
            let mut sent = Vec::new();
            while sent.len() < expected.len() {
                let piece = pieces.next_piece().expect("a piece");
                assert!(!piece.is_empty() && piece.len() <= 3 + FILE_PIECE_BYTES as usize);
                sent.extend_from_slice(&piece);
            }
            assert!(sent == expected, "{bytes}");
        }
        let parts = VecDeque::from([FilePart::File { at: content.len() as u64, bytes: 1 }]);
        let why = FilePieces { source, parts }.next_piece().expect_err("nothing there");
        assert!(why.contains("shorter"), "{why}");
    }

    #[test]
    fn file_names_of_downloads_are_escaped_for_content_disposition() {
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
