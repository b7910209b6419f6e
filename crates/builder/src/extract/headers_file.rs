//! The fields of an imported archive → a `_headers` of which a build makes the same ones.
//!
//! The response of a build is computed here beside the response of the archive; differences become
//! lines, and differences that remain when these lines are read again are reported. Archives that a
//! build has made keep their `_headers`; their other fields come from its flags.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet, hash_map};
use std::fmt;
use std::path::Path;

use pinion_archive::layout::FALLBACK_PREFIX;
use pinion_archive::{Archive, Damage, Entry, EntryKind, Role, Scratch, SharedBlock, SharedId};
use pinion_http::content_coding::Coding;

use crate::extract::entry_paths::is_page;
use crate::extract::redirects_file::from_text;
use crate::fingerprint::{self, NamedFile, is_named_by_content};
use crate::limits::{EXTRACTED_PATTERNS_MAX, RULES_FILE_MAX_BYTES};
use crate::media_type::{MediaType, is_packed};
use crate::response_fields::{NEVER_CACHED, Purpose, usual, usual_without_content};
use crate::rules::headers::parse;
use crate::rules::{Changes, ChangesId, FieldList};
use crate::walk::name_globs::Globs;

/// A response that a build of the folder gives otherwise than the archive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// Its path, escaped.
    pub path: String,
    /// Whether it is for everything below that path.
    pub below: bool,
    /// The kind of difference.
    pub reason: DifferenceReason,
}

/// The part of a response that differs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DifferenceReason {
    /// Its fields differ.
    Fields,
    /// Its type is encoded here and not there.
    Codings,
    /// A file under its own path is always 200.
    Status,
    /// The fields of redirects by rules and between slash forms differ.
    SlashRedirects,
    /// The archive has no response for it: a build gives a file one name more.
    Added,
    /// A redirect of one path alone: that of a build is for both slash forms.
    BothForms,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let difference = match self.reason {
            DifferenceReason::Fields => "with other fields",
            DifferenceReason::Codings => "in other codings",
            DifferenceReason::Status => "with status 200",
            DifferenceReason::SlashRedirects => "redirects to it, and by rules, with other fields",
            DifferenceReason::Added => "too",
            DifferenceReason::BothForms => "if it redirects, with and without a slash at its end",
        };
        let below = if self.below { "*" } else { "" };
        write!(f, "a build answers {}{below} {difference}", self.path)
    }
}

/// All responses of an archive.
#[derive(Default)]
pub(super) struct EntryResponses {
    all: Vec<StoredResponse>,
    /// The differences that no fields can remove.
    others: Vec<Difference>,
    /// Whether a path redirects whose other slash form does not.
    one_form: bool,
    /// Files under paths of their own, and their further names.
    files: Vec<NamedResponse>,
}

/// A response with the content of a file.
struct NamedResponse {
    /// Its number among all responses.
    number: usize,
    /// The path of the file.
    key: Box<[u8]>,
    /// The media type that a build gives the file.
    essence: &'static str,
    /// Whether the name of the file begins a digest of its content.
    by_content: bool,
    /// Whether the response is under the path of the file.
    is_own: bool,
}

struct StoredResponse {
    path: Box<[u8]>,
    /// Whether it is for everything below `path`, a folder.
    below: bool,
    fields: Sort,
    /// The media type that a build gives it; `None` for a redirect.
    media: Option<MediaType>,
}

/// The properties that decide over the fields of a response, except its type. There are few
/// combinations.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Sort {
    shared: SharedId,
    /// None: it has no content.
    purpose: Option<Purpose>,
    varies: bool,
}

/// The lines that are written, and the differences that they cannot express.
#[derive(Default)]
pub(super) struct Headers {
    /// The text of the file; empty if none is needed.
    pub(super) text: String,
    pub(super) differences: Vec<Difference>,
}

type Lines = BTreeMap<String, Vec<String>>;

impl EntryResponses {
    /// Records an entry and the file that it becomes, if it is not another name of one.
    pub(super) fn take(
        &mut self,
        archive: &Archive<'_>,
        entry: &Entry<'_>,
        file: Option<&[u8]>,
    ) -> Result<(), Damage> {
        let Some(form) = entry.representation(0) else {
            if let Some(shared) = entry.shared().filter(|_| entry.kind() == EntryKind::Redirect) {
                let fields = Sort { shared, purpose: None, varies: false };
                self.add(entry.path(), false, fields, None);
                let other = match entry.path() {
                    b"/" => return Ok(()),
                    [without @ .., b'/'] => without.to_vec(),
                    path => [path, b"/"].concat(),
                };
                self.one_form |= !archive.load(&other, &mut Scratch::new())?;
            }
            return Ok(());
        };
        let mut decoded = Vec::new();
        let target = entry.target().unwrap_or(entry.path());
        let named =
            pinion_http::request_target::decode_path(target, &mut decoded).unwrap_or(target);
        let key = file.unwrap_or(named);
        let Some(body) = archive.body(&form)? else { return Ok(()) };
        let media = MediaType::of(key, body);
        let purpose = match entry.status() {
            200 => Purpose::Page,
            _ if is_page(entry) => {
                self.differs(entry.path(), false, DifferenceReason::Status);
                return Ok(());
            }
            404 => Purpose::NotFound,
            status => Purpose::Error(status),
        };
        let fields =
            Sort { shared: form.shared(), purpose: Some(purpose), varies: entry.has_choice() };
        if purpose == Purpose::Page && is_page(entry) {
            let (essence, number) = (media.essence, self.all.len());
            let by_content = is_named_by_content(key, essence, body);
            let (key, is_own) = (key.into(), file.is_some());
            self.files.push(NamedResponse { number, key, essence, by_content, is_own });
        }
        let folder = entry.path().strip_prefix(FALLBACK_PREFIX);
        self.add(folder.unwrap_or(entry.path()), folder.is_some(), fields, Some(media));
        Ok(())
    }

    /// Finds the files whose names change with their content, as a build would.
    fn decide_fingerprints(&mut self) {
        let own = || self.files.iter().filter(|file| file.is_own);
        let named = own().map(|file| NamedFile { key: &file.key, essence: file.essence });
        let decided = fingerprint::decide(named, &Globs::none());
        let decided = own().zip(decided).filter(|(file, decided)| *decided || file.by_content);
        let decided: HashSet<&[u8]> = decided.map(|(file, _)| &*file.key).collect();
        for file in self.files.iter().filter(|file| decided.contains(&*file.key)) {
            if let Some(response) = self.all.get_mut(file.number) {
                response.fields.purpose = Some(Purpose::Fingerprinted);
            }
        }
    }

    fn add(&mut self, path: &[u8], below: bool, fields: Sort, media: Option<MediaType>) {
        self.all.push(StoredResponse { path: path.into(), below, fields, media });
    }

    /// Records a difference that no line can express.
    pub(super) fn differs(&mut self, path: &[u8], below: bool, reason: DifferenceReason) {
        self.others.push(Difference { path: path.escape_ascii().to_string(), below, reason });
    }

    /// Returns the file, and the differences that a build still has with it.
    pub(super) fn headers(mut self, archive: &Archive<'_>) -> Result<Headers, Damage> {
        self.decide_fingerprints();
        let blocks = self.blocks(archive)?;
        let mut lines = Lines::new();
        let everywhere = everywhere(&blocks);
        self.other_fields(&blocks, &everywhere, &mut lines);
        self.types(archive, &mut lines)?;
        let mut text = String::new();
        let patterns = lines.iter().take(EXTRACTED_PATTERNS_MAX);
        let all = ("/*".to_owned(), everywhere);
        for (pattern, lines) in std::iter::once((&all.0, &all.1)).chain(patterns) {
            let block = format!("{pattern}\n  {}\n", lines.join("\n  "));
            // A path can be too long for a line. A block that is not written is reported as a
            // difference.
            let fits = (text.len() + block.len()) as u64 <= RULES_FILE_MAX_BYTES;
            if !lines.is_empty() && fits && parse(Path::new("_headers"), block.as_bytes()).is_ok() {
                text.push_str(&block);
            }
        }
        self.compare(archive, &blocks, &text)?;
        Ok(Headers { text, differences: self.others })
    }

    /// Returns each combination of responses that have a path, and the fields they have.
    fn blocks<'a>(&self, archive: &Archive<'a>) -> Result<HashMap<Sort, SharedBlock<'a>>, Damage> {
        let mut blocks = HashMap::new();
        for response in self.all.iter().filter(|response| !response.below) {
            if let hash_map::Entry::Vacant(new) = blocks.entry(response.fields) {
                new.insert(archive.shared(response.fields.shared)?);
            }
        }
        Ok(blocks)
    }

    /// Adds the lines of single paths, for fields that are not the same everywhere.
    fn other_fields(
        &self,
        blocks: &HashMap<Sort, SharedBlock<'_>>,
        everywhere: &[String],
        lines: &mut Lines,
    ) {
        let mut of_sort: HashMap<Sort, Vec<String>> = HashMap::new();
        for (sort, block) in blocks {
            let mut own = changes(*sort, block);
            own.retain(|line| !everywhere.contains(line));
            of_sort.insert(*sort, own);
        }
        for response in self.all.iter().filter(|response| !response.below) {
            let Some(own) = of_sort.get(&response.fields).filter(|own| !own.is_empty()) else {
                continue;
            };
            lines.entry(from_text(&response.path)).or_default().extend_from_slice(own);
        }
    }

    /// Adds the lines for types that a build would not find: of all files with an extension, where
    /// these agree, else of single paths.
    fn types(&self, archive: &Archive<'_>, lines: &mut Lines) -> Result<(), Damage> {
        let mut by_extension: HashMap<Vec<u8>, BTreeSet<&[u8]>> = HashMap::new();
        let mut wrong = Vec::new();
        for response in self.all.iter().filter(|response| !response.below) {
            let Some(media) = response.media else { continue };
            let shown = archive.shared(response.fields.shared)?.media_type();
            if let Some(extension) = extension(&response.path) {
                by_extension.entry(extension.to_ascii_lowercase()).or_default().insert(shown);
            }
            if media.field().as_bytes() != shown {
                wrong.push((&response.path, shown));
            }
        }
        for (path, shown) in wrong {
            let Ok(shown) = std::str::from_utf8(shown) else { continue };
            let extension = extension(path).map(<[u8]>::to_ascii_lowercase);
            let agree = |known: &Vec<u8>| by_extension.get(known).is_some_and(|all| all.len() == 1);
            let pattern = match extension.filter(agree) {
                Some(extension) => format!("/*.{}", from_text(&extension)),
                None => from_text(path),
            };
            let line = format!("Content-Type: {shown}");
            if !is_said(&line) {
                continue;
            }
            let lines = lines.entry(pattern).or_default();
            if !lines.contains(&line) {
                lines.push(line);
            }
        }
        Ok(())
    }

    /// Compares the responses of a build with a `_headers` of this text to those of the archive.
    fn compare(
        &mut self,
        archive: &Archive<'_>,
        blocks: &HashMap<Sort, SharedBlock<'_>>,
        text: &str,
    ) -> Result<(), Damage> {
        let rules = parse(Path::new("_headers"), text.as_bytes()).unwrap_or_default();
        let mut changes = Changes::new(&rules.rules);
        let mut known: HashMap<(Sort, ChangesId), bool> = HashMap::new();
        for response in std::mem::take(&mut self.all) {
            let id = if response.below {
                changes.of_folder(&response.path)
            } else {
                changes.of_path(&response.path)
            };
            let block = match blocks.get(&response.fields) {
                Some(block) => *block,
                None => archive.shared(response.fields.shared)?,
            };
            let list = FieldList::new(&usual_of(response.fields), changes.get(id));
            let same = *known
                .entry((response.fields, id))
                .or_insert_with(|| is_same(&list, response.fields, &block));
            let media = response.media.map(|media| {
                let takes_type = |purpose: Purpose| purpose.has_given_type();
                let given =
                    list.content_type.filter(|_| response.fields.purpose.is_some_and(takes_type));
                given.unwrap_or_else(|| media.field().into_owned()).into_bytes()
            });
            if !same || media.is_some_and(|found| found != block.media_type()) {
                self.differs(&response.path, response.below, DifferenceReason::Fields);
            }
            if response.media.is_some_and(|media| is_packed(media.essence) != packed_as(&block)) {
                self.differs(&response.path, response.below, DifferenceReason::Codings);
            }
        }
        let id = changes.of_folder(b"/");
        let slash = archive.shared_for(Role::SlashRedirect);
        let usual = FieldList::new(&usual_without_content(), changes.get(id));
        if slash.is_some_and(|block| lines_of(&usual.all()) != block.full) {
            self.differs(b"/", true, DifferenceReason::SlashRedirects);
        }
        if self.one_form {
            self.differs(b"/", true, DifferenceReason::BothForms);
        }
        Ok(())
    }
}

/// Returns the lines for `/*`: the fields that every response needs, or has already.
fn everywhere(blocks: &HashMap<Sort, SharedBlock<'_>>) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    for (sort, block) in blocks {
        for line in changes(*sort, block) {
            let is_kept = |(other, block): (&Sort, &SharedBlock<'_>)| {
                // Errors are `no-store`, with any lines for all paths.
                let is_error = usual_of(*other).contains(&("Cache-Control", NEVER_CACHED));
                is_error || says(block, &line)
            };
            if !found.contains(&line) && blocks.iter().all(is_kept) {
                found.push(line);
            }
        }
    }
    found.sort_unstable();
    found
}

/// Returns the lines that turn the fields of a build into the fields of a response.
fn changes(sort: Sort, block: &SharedBlock<'_>) -> Vec<String> {
    let usual = usual_of(sort);
    let is = |one: &str, other: &[u8]| one.as_bytes().eq_ignore_ascii_case(other);
    let own = || block.fields().filter(|(name, _)| !is("content-type", name));
    let gone = usual.iter().filter(|(name, _)| !own().any(|(other, _)| is(name, other)));
    let gone = gone.map(|(name, _)| format!("! {name}"));
    let other = own().filter(|(name, value)| {
        !usual.iter().any(|(usual, same)| is(usual, name) && same.as_bytes() == *value)
    });
    let text = |bytes| String::from_utf8_lossy(bytes);
    let given = other.map(|(name, value)| format!("{}: {}", text(name), text(value)));
    gone.chain(given).filter(|line| is_said(line)).collect()
}

/// Returns whether `_headers` may say this.
fn is_said(line: &str) -> bool {
    parse(Path::new("_headers"), format!("/*\n{line}").as_bytes()).is_ok()
}

/// Returns whether a response with these fields is as the line has it.
fn says(block: &SharedBlock<'_>, line: &str) -> bool {
    let named = |name: &str| {
        let name = name.as_bytes().to_vec();
        block.fields().filter(move |(other, _)| other.eq_ignore_ascii_case(&name))
    };
    match (line.strip_prefix("! "), line.split_once(": ")) {
        (Some(name), _) => named(name).next().is_none(),
        (None, Some((name, value))) => named(name).any(|(_, other)| other == value.as_bytes()),
        (None, None) => false,
    }
}

/// Returns the fields that a build gives a response without a `_headers`.
fn usual_of(sort: Sort) -> Vec<(&'static str, &'static str)> {
    match sort.purpose {
        Some(purpose) => usual(Coding::Identity, sort.varies, purpose),
        None => usual_without_content(),
    }
}

fn is_same(list: &FieldList, sort: Sort, block: &SharedBlock<'_>) -> bool {
    let not_modified = match sort.purpose {
        Some(_) => lines_of(&list.not_modified()),
        None => Vec::new(),
    };
    lines_of(&list.all()) == block.without_type() && not_modified == block.not_modified
}

fn lines_of(fields: &[(&str, &str)]) -> Vec<u8> {
    let lines = fields.iter().map(|(name, value)| format!("{name}: {value}\r\n"));
    lines.collect::<String>().into_bytes()
}

/// Returns whether the type that the archive names is one that is not encoded.
fn packed_as(block: &SharedBlock<'_>) -> bool {
    let essence = block.media_type().split(|&byte| byte == b';').next().unwrap_or_default();
    std::str::from_utf8(essence.trim_ascii_end()).is_ok_and(is_packed)
}

/// Returns the text after the last dot of the last name.
fn extension(path: &[u8]) -> Option<&[u8]> {
    let name = path.rsplit(|&byte| byte == b'/').next()?;
    let dot = name.iter().rposition(|&byte| byte == b'.')?;
    name.get(dot + 1..).filter(|extension| !extension.is_empty())
}
