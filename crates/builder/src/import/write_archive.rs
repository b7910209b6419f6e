//! A plan → an archive: contents decoded and encoded anew on all cores, then entries and rules.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::io::{Seek, Write};
use std::num::NonZeroUsize;
use std::thread;

use pinion_archive::{
    BodyRef, Digest, ETag, EntryKind, NewEntry, NewOrigin, NewRepresentation, NewRule, NewShared,
    PathPart, Role, SharedId, TargetPart, Writer,
};
use pinion_http::content_coding::Coding;

use crate::coding_options::CodingLevel;
use crate::coding_rules::CodingRules;
use crate::encode::{EncodedContent, Encoders};
use crate::error::BuildError;
use crate::import::archive_plan::{ImportPlan, PlannedPage, Rule};
use crate::import::decoded_contents::{ContentFault, StoredBytes};
use crate::import::reference_responses::ImportedResponse;
use crate::import::{ImportError, Imported};
use crate::limits::{HELD_MAX_BYTES, WINDOW_MAX_BYTES};
use crate::media_type::MediaType;
use crate::options::Options;
use crate::ordered_thread_pool;
use crate::path_aliases;
use crate::progress::Progress;
use crate::response_fields::{FieldBlocks, NEVER_CACHED};
use crate::summary::CodingSummary;

/// Writes everything.
pub(super) fn write<W: Write + Seek>(
    plan: ImportPlan<'_>,
    options: &Options,
    out: W,
    progress: &dyn Progress,
) -> Result<Imported, ImportError> {
    let lists = CodingRules::new(options)?;
    let mut fields = FieldBlocks::new(options, &[])?;
    let mut writer = Writer::new(out)?;
    fields.write_generated(&mut writer, plan.slash_cache_control)?;
    if !plan.redirects_slashes {
        writer.without_slash_redirects();
    }
    let imported = Imported { codings: CodingSummary::none_of(lists.all()), ..Imported::default() };
    let contents = ImportedContents::of(&plan);
    let mut import =
        ArchiveImport { plan: &plan, options, lists: &lists, fields, writer, imported };
    let stored = import.contents(&contents, progress)?;
    let responses = import.responses(&contents, &stored)?;
    import.writer.end_bodies()?;
    import.entries(&responses)?;
    let ArchiveImport { writer, mut imported, .. } = import;
    imported.rules = plan.rules.len() as u64;
    imported.leftovers = plan.leftovers;
    let files = imported.pages.to_string();
    let facts = [
        ("generator", concat!("pinion ", env!("CARGO_PKG_VERSION"))),
        ("imported-from", "kawipiko"),
        ("files", files.as_str()),
    ];
    let (written, _) = writer.finish(&facts)?;
    imported.archive_bytes = written.total_bytes;
    imported.digest = written.digest;
    Ok(imported)
}

/// The contents of the responses, each once.
struct ImportedContents<'a> {
    list: Vec<ImportedContent<'a>>,
    /// The rank in `list`, by the number of a response; `None` for a redirect.
    of_response: Vec<Option<usize>>,
}

struct ImportedContent<'a> {
    stored: StoredBytes<'a>,
    /// One of the paths with this content.
    path: Vec<u8>,
    /// Whether one of its types is worth encoding.
    encoded: bool,
    /// Whether a response does not name its type.
    untyped: bool,
}

/// A content that a worker has read.
struct ImportedBody<'a> {
    digest: Digest,
    identity: Cow<'a, [u8]>,
    /// The result of each of its codings.
    tried: Vec<(CodingLevel, Option<EncodedContent>)>,
    media: String,
}

/// A content in the archive: its forms, the identity first, and its type if nothing names it.
struct KeptContent {
    forms: Vec<(Coding, Digest, BodyRef)>,
    media: String,
}

/// The parts from which a response is written.
enum ReadyResponse {
    Content(Vec<NewRepresentation>),
    Redirect(Vec<u8>, SharedId),
}

impl<'a> ImportedContents<'a> {
    fn of(plan: &ImportPlan<'a>) -> ImportedContents<'a> {
        let mut contents =
            ImportedContents { list: Vec::new(), of_response: vec![None; plan.responses.len()] };
        let mut known = HashMap::new();
        let pages = plan.pages.iter().map(|(path, page)| (path, page.response));
        for (path, response) in
            pages.chain(plan.fallbacks.iter().map(|(path, &response)| (path, response)))
        {
            let Some(found) = plan.responses.get(response) else { continue };
            let rank = *known.entry((found.content, found.stored.coding())).or_insert_with(|| {
                contents.list.push(ImportedContent {
                    stored: found.stored,
                    path: path.clone(),
                    encoded: false,
                    untyped: false,
                });
                contents.list.len() - 1
            });
            if let Some(content) = contents.list.get_mut(rank) {
                content.encoded |= found.is_encoded();
                content.untyped |= found.media.is_none();
            }
            if let Some(of_response) = contents.of_response.get_mut(response) {
                *of_response = Some(rank);
            }
        }
        contents
    }
}

impl<'a> ImportedContent<'a> {
    fn read(
        &self,
        encoders: &mut Encoders,
        codings: &[CodingLevel],
    ) -> Result<ImportedBody<'a>, ContentFault> {
        let identity = self.stored.content()?;
        let encoded = self.encoded && identity.len() as u64 <= HELD_MAX_BYTES;
        let codings = if encoded { codings } else { &[] };
        let tried = codings.iter().map(|&choice| (choice, encoders.encode(choice, &identity)));
        let media = if self.untyped {
            MediaType::of(&self.path, &identity).field().into_owned()
        } else {
            String::new()
        };
        Ok(ImportedBody { digest: Digest::of(&identity), tried: tried.collect(), identity, media })
    }
}

struct ArchiveImport<'p, 'a, W: Write + Seek> {
    plan: &'p ImportPlan<'a>,
    options: &'p Options,
    lists: &'p CodingRules<'p>,
    fields: FieldBlocks<'static>,
    writer: Writer<W>,
    imported: Imported,
}

impl<'a, W: Write + Seek> ArchiveImport<'_, 'a, W> {
    /// Stores all contents.
    fn contents(
        &mut self,
        contents: &ImportedContents<'a>,
        progress: &dyn Progress,
    ) -> Result<Vec<KeptContent>, ImportError> {
        let (options, lists) = (self.options, self.lists);
        let forms = lists.most_forms() as u64;
        let list = &contents.list;
        let costs: Vec<u64> =
            list.iter().map(|content| content.stored.likely_bytes() * forms).collect();
        progress.found(list.len() as u64, list.iter().map(|one| one.stored.bytes()).sum());
        let workers = options.threads.or_else(|| thread::available_parallelism().ok());
        let (mut kept, mut bytes_done) = (Vec::with_capacity(list.len()), 0);
        ordered_thread_pool::in_order(
            &costs,
            WINDOW_MAX_BYTES,
            workers.map_or(1, NonZeroUsize::get),
            Encoders::default,
            |encoders, rank| {
                let codings =
                    |content: &ImportedContent<'_>| lists.codings(lists.of(&content.path));
                list.get(rank).map(|content| content.read(encoders, codings(content)))
            },
            |rank, product| -> Result<(), ImportError> {
                let (Some(content), Some(product)) = (list.get(rank), product) else {
                    return Ok(());
                };
                let product = product.map_err(|fault| {
                    let path = content.path.as_slice().into();
                    ImportError::Content { path, fault }
                })?;
                kept.push(self.keep(product)?);
                bytes_done += content.stored.bytes();
                progress.advanced(rank as u64 + 1, bytes_done);
                if progress.cancelled() { Err(BuildError::Cancelled.into()) } else { Ok(()) }
            },
        )?;
        Ok(kept)
    }

    fn keep(&mut self, product: ImportedBody<'_>) -> Result<KeptContent, ImportError> {
        let ImportedBody { digest, identity, tried, media } = product;
        self.imported.contents += 1;
        self.imported.content_bytes += identity.len() as u64;
        let content = self.writer.body(&digest, &identity)?;
        let mut forms = vec![(Coding::Identity, digest, content)];
        for (choice, encoded) in &tried {
            let stored = match encoded {
                Some(encoded) => Some(self.writer.body(&encoded.digest, &encoded.stored)?),
                None => None,
            };
            self.writer.origin(&NewOrigin {
                content,
                stored,
                coding: choice.coding(),
                method: choice.method as u8,
                level: choice.level,
                edition: choice.method.edition(),
            });
            let (Some(encoded), Some(body)) = (encoded, stored) else { continue };
            forms.push((choice.coding(), encoded.digest, body));
            let counts = &mut self.imported.codings;
            if let Some(count) = counts.iter_mut().find(|count| count.choice == *choice) {
                count.bodies += 1;
                count.identity_bytes += identity.len() as u64;
                count.stored_bytes += encoded.stored.len() as u64;
            }
        }
        Ok(KeptContent { forms, media })
    }

    /// Returns the fields of all responses, with their contents.
    fn responses(
        &mut self,
        contents: &ImportedContents<'_>,
        kept: &[KeptContent],
    ) -> Result<Vec<ReadyResponse>, ImportError> {
        let plan = self.plan;
        let mut ready = Vec::with_capacity(plan.responses.len());
        for (response, content) in plan.responses.iter().zip(&contents.of_response) {
            ready.push(match content.and_then(|rank| kept.get(rank)) {
                Some(kept) => ReadyResponse::Content(self.representations(response, kept)?),
                None => {
                    let shared = self.block(response, None, Coding::Identity, false)?;
                    ReadyResponse::Redirect(location(response), shared)
                }
            });
        }
        Ok(ready)
    }

    fn representations(
        &mut self,
        response: &ImportedResponse<'_>,
        kept: &KeptContent,
    ) -> Result<Vec<NewRepresentation>, ImportError> {
        let media = response.media.as_deref().unwrap_or(&kept.media);
        let all = if response.is_encoded() { kept.forms.len() } else { 1 };
        let mut forms = Vec::with_capacity(all);
        for &(coding, digest, body) in kept.forms.iter().take(all) {
            let shared = self.block(response, Some(media), coding, all > 1)?;
            let etag = ETag::of(&digest, media.as_bytes(), coding);
            forms.push(NewRepresentation { coding, shared, body, etag });
        }
        Ok(forms)
    }

    /// Returns the fields of a response: those of the other archive, and those that all responses
    /// of ours have.
    fn block(
        &mut self,
        response: &ImportedResponse<'_>,
        content_type: Option<&str>,
        coding: Coding,
        varies: bool,
    ) -> Result<SharedId, ImportError> {
        let cache_control = match response.status {
            // In place of the other server's value: a file that appears must not stay missing.
            400.. => NEVER_CACHED,
            _ => response.cache_control.unwrap_or(self.fields.cache_control()),
        };
        let mut cached = vec![("Cache-Control", cache_control)];
        if varies {
            cached.push(("Vary", "Accept-Encoding"));
        }
        let mut fields = Vec::new();
        if coding != Coding::Identity {
            fields.push(("Content-Encoding", coding.token()));
        }
        fields.extend_from_slice(&cached);
        if content_type.is_some() && response.status == 200 {
            fields.push(("Accept-Ranges", "bytes"));
        }
        fields.extend_from_slice(self.fields.security());
        fields.extend_from_slice(&response.others);
        let describes = |(name, _): &&(&str, &str)| name.eq_ignore_ascii_case("content-language");
        cached.extend(response.others.iter().filter(|field| !describes(field)));
        let not_modified = if content_type.is_some() { &cached[..] } else { &[] };
        let block = NewShared {
            role: Role::Ordinary,
            status: response.status,
            content_type,
            fields: &fields,
            not_modified,
        };
        Ok(self.writer.shared(&block)?)
    }

    /// Writes the entries, fallback pages and rules.
    fn entries(&mut self, responses: &[ReadyResponse]) -> Result<(), ImportError> {
        let plan = self.plan;
        let forced = Forced::of(&plan.rules);
        for (path, page) in &plan.pages {
            let Some(ReadyResponse::Content(forms)) = responses.get(page.response) else {
                continue;
            };
            let target = page.alias_of.as_deref().map(path_aliases::escaped).unwrap_or_default();
            let entry = self.content(path, page.response, forms);
            self.writer.entry(&NewEntry {
                target: &target,
                rules_first: forced.may_match(path),
                ..entry
            })?;
            self.count(page);
        }
        for (folder, &response) in &plan.fallbacks {
            let Some(ReadyResponse::Content(forms)) = responses.get(response) else { continue };
            let entry = self.content(folder, response, forms);
            self.writer.fallback(&entry)?;
            self.imported.fallback_pages += 1;
        }
        for (path, &response) in &plan.moved {
            let Some(ReadyResponse::Redirect(target, shared)) = responses.get(response) else {
                continue;
            };
            let entry = self.content(path, response, &[]);
            self.writer.entry(&NewEntry {
                kind: EntryKind::Redirect,
                target,
                keeps_query: !target.contains(&b'?'),
                shared: Some(*shared),
                rules_first: forced.may_match(path),
                ..entry
            })?;
            self.imported.redirects += 1;
        }
        plan.rules.iter().try_for_each(|rule| self.rule(rule, responses))
    }

    fn content<'e>(
        &self,
        path: &'e [u8],
        response: usize,
        representations: &'e [NewRepresentation],
    ) -> NewEntry<'e> {
        NewEntry {
            kind: EntryKind::Resource,
            status: self.status(response),
            path,
            target: b"",
            keeps_query: false,
            rules_first: false,
            has_variant: false,
            modified: None,
            shared: None,
            representations,
        }
    }

    fn rule(&mut self, rule: &Rule, responses: &[ReadyResponse]) -> Result<(), ImportError> {
        let segments = rule.path.split(|&byte| byte == b'/').skip(1);
        let mut path: Vec<PathPart<'_>> = segments.map(PathPart::Literal).collect();
        if rule.below {
            path.push(PathPart::Rest { prefix: b"" });
        }
        let target = match (&rule.page, responses.get(rule.response)) {
            (Some(page), _) => page.as_slice(),
            (None, Some(ReadyResponse::Redirect(target, _))) => target,
            _ => return Ok(()),
        };
        self.writer.rule(&NewRule {
            force: rule.host.is_some(),
            status: self.status(rule.response),
            host: rule.host.as_deref(),
            path: &path,
            target: &[TargetPart::Literal(target)],
            keeps_query: rule.page.is_none() && !target.contains(&b'?'),
            ..NewRule::EMPTY
        })?;
        Ok(())
    }

    fn status(&self, response: usize) -> u16 {
        self.plan.responses.get(response).map_or(500, |response| response.status)
    }

    fn count(&mut self, page: &PlannedPage) {
        match page.alias_of {
            Some(_) => self.imported.aliases += 1,
            None => self.imported.pages += 1,
        }
    }
}

/// The rules that come before entries.
#[derive(Default)]
struct Forced<'a> {
    paths: HashSet<&'a [u8]>,
    folders: Vec<&'a [u8]>,
}

impl<'a> Forced<'a> {
    fn of(rules: &'a [Rule]) -> Forced<'a> {
        let mut forced = Forced::default();
        for rule in rules.iter().filter(|rule| rule.host.is_some()) {
            if rule.below {
                forced.folders.push(&rule.path);
            } else {
                forced.paths.insert(&rule.path);
            }
        }
        forced
    }

    /// Returns whether one of them may apply to `path`, for any host.
    fn may_match(&self, path: &[u8]) -> bool {
        let path = path.strip_suffix(b"/").unwrap_or(path);
        let below = |folder: &&[u8]| {
            path.strip_prefix(*folder).is_some_and(|rest| matches!(rest, [] | [b'/', ..]))
        };
        self.paths.contains(path) || self.folders.iter().any(below)
    }
}

/// Returns the `Location`: bytes that are not allowed in a field are escaped.
fn location(response: &ImportedResponse<'_>) -> Vec<u8> {
    let mut target = Vec::with_capacity(response.location.len());
    for &byte in response.location {
        if byte.is_ascii_graphic() {
            target.push(byte);
        } else {
            target.extend_from_slice(format!("%{byte:02X}").as_bytes());
        }
    }
    target
}
