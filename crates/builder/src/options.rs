//! The options of a build.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use pinion_http::date::UnixSeconds;

use crate::coding_options::{CodingEffort, CodingLevel, CodingsFor};
use crate::error::CodeError;
use crate::limits::EXTERNAL_MIN_BYTES;
use crate::path_aliases::{FAVICON, UrlConventions};
use crate::rules::Rules;
use crate::rules::redirects::Redirect;
use crate::site_layout_guard::PublishGuard;
use crate::walk::file_metadata::{FileId, id_of};

/// Finds the errors in the code of a folder beside its templates, which a build compiles itself:
/// given the source, and contents by their paths in the archive.
pub type CodeCheck = fn(&Path, &BTreeMap<Box<[u8]>, Vec<u8>>) -> Vec<CodeError>;

/// The options of a build. All but `threads`, `keep_going`, `force`, `reuse`, `reuse_from`,
/// `report`, `check_code` and `now` is input: it decides the bytes (and see the crate's promises
/// for `now`).
#[derive(Clone, Debug)]
pub struct Options {
    /// Codings to try, each at most once. The identity is always stored.
    pub codings: Vec<CodingLevel>,
    /// Other codings for the files whose names match; of several the last one counts.
    pub codings_for: Vec<CodingsFor>,
    /// Globs of names to leave out. One without a slash is compared with the name, at any depth;
    /// one with a slash with the path below the source. `*` and `?` do not match a slash, `**`
    /// does. A folder that matches is not entered.
    pub exclude: Vec<String>,
    /// Globs, read like those of `exclude`, of names to publish although the fixed rules leave them
    /// out: hidden files and leftovers. A folder that matches is entered. Code, private files and
    /// rules files are never published, and `exclude` comes first.
    pub include: Vec<String>,
    /// Folders whose files are no part of the archive because the server reads them for each
    /// request: their paths below the source, without a slash at either end. They are not entered.
    /// The empty path is the source itself; then only pages for errors, rules and code are read.
    pub live: Vec<String>,
    /// Globs, read like those of `exclude`, of files whose names change with their content: clients
    /// keep them for a year and do not ask for them again.
    pub immutable: Vec<String>,
    /// Whether the folder is that of a site of 80s; also if its main script loads `aio.aio`.
    pub compat_80s: bool,
    /// Builds without the files that have a problem; otherwise they fail the build at its end.
    pub keep_going: bool,
    /// Lets an archive file replace a file that is no archive. Folders, pipes, sockets and devices
    /// are never replaced.
    pub force: bool,
    /// Lets [`build_file`](crate::build_file) reuse contents of the archive that it replaces, and
    /// of the file of fingerprints beside it, which need not be read and encoded again.
    pub reuse: bool,
    /// More archives to take bodies from; and, with `reuse`, the fingerprints beside the first that
    /// has some, if there are none of an archive that is replaced.
    pub reuse_from: Vec<PathBuf>,
    /// Workers; `None` is one per core.
    pub threads: Option<NonZeroUsize>,
    /// The current time, only asked whether a modification time lies in the future.
    pub now: UnixSeconds,
    /// `SOURCE_DATE_EPOCH`: later modification times become this one.
    pub source_date_epoch: Option<UnixSeconds>,
    /// `Cache-Control` of everything that has no fingerprint in its name; `None` is the default.
    pub cache_control: Option<String>,
    /// Whether an index file responds for its folder (`/dir/`).
    pub index: bool,
    /// Whether a page responds without its extension too (`/name`).
    pub clean_urls: bool,
    /// Whether the slash form that does not exist leads to the one that does.
    pub slash_redirects: bool,
    /// Whether a folder without a response of its own responds with a listing.
    pub listings: bool,
    /// Whether responses carry an `ETag`.
    pub etags: bool,
    /// Whether responses carry a `Cache-Control` unless `_headers` gives one.
    pub cache_control_field: bool,
    /// The file that responds to navigations to missing resources, by its path below the source.
    pub single_page: Option<String>,
    /// Whether another server responds to paths that the site lacks: a rule that rewrites every
    /// path would leave nothing for it, and is an error.
    pub has_fallback_server: bool,
    /// Whether responses carry `X-Content-Type-Options`, `Referrer-Policy` and `X-Frame-Options`.
    pub security_fields: bool,
    /// More files of redirects and rewrites. They count as if they stood at the end of the folder's
    /// own `_redirects`, in this order, and are no part of the site if they lie in the folder. In
    /// messages such a path begins with `/`, `./` or `../`, and one below the source with a name.
    pub rules: Vec<PathBuf>,
    /// More files of rules for fields, which count in the same way after the folder's `_headers`.
    pub fields: Vec<PathBuf>,
    /// Leaves out the lines of rules files that are wrong, each with a warning; otherwise they fail
    /// the build.
    pub lax_rules: bool,
    /// The hosts that the site responds to, in lower case, perhaps with `*.` at the front. They
    /// decide which redirects lead back to the site, and which rules are for other hosts. Empty:
    /// any.
    pub hosts: Vec<String>,
    /// Whether the summary has a [`BuildReport`](crate::report::BuildReport).
    pub report: bool,
    /// Files larger than this stay outside the archive, as open files; `None`: all go in.
    pub external_min_bytes: Option<u64>,
    /// The guard with which the folder was served until now: a build of one that has lost its code,
    /// its main script or the folder for its content fails. `None`: the site is not served yet.
    pub follows: Option<PublishGuard>,
    /// Checks the code; its errors fail the build before anything is written.
    pub check_code: Option<CodeCheck>,
}

impl Options {
    /// Returns the defaults of `pinion build`: gzip and brotli at the levels above which time grows
    /// several times as fast as size falls. A release that may take its time asks for
    /// [`CodingEffort::Max`].
    #[must_use]
    pub fn new(now: UnixSeconds) -> Options {
        Options {
            codings: CodingEffort::Best.codings(),
            codings_for: Vec::new(),
            exclude: Vec::new(),
            include: Vec::new(),
            live: Vec::new(),
            immutable: Vec::new(),
            compat_80s: false,
            keep_going: false,
            force: false,
            reuse: true,
            reuse_from: Vec::new(),
            threads: None,
            now,
            source_date_epoch: None,
            cache_control: None,
            index: true,
            clean_urls: true,
            slash_redirects: true,
            listings: false,
            etags: true,
            cache_control_field: true,
            single_page: None,
            has_fallback_server: false,
            security_fields: true,
            rules: Vec::new(),
            fields: Vec::new(),
            lax_rules: false,
            hosts: Vec::new(),
            report: false,
            external_min_bytes: None,
            follows: None,
            check_code: None,
        }
    }

    /// Returns the options for serving a folder at once: fast codings, large files stay where they
    /// are.
    #[must_use]
    pub fn serving(now: UnixSeconds) -> Options {
        Options {
            codings: CodingEffort::Fast.codings(),
            external_min_bytes: Some(EXTERNAL_MIN_BYTES),
            ..Options::new(now)
        }
    }
}

impl Options {
    /// Returns the files that a build reads, and that are no part of the site.
    pub(crate) fn named_files(&self) -> impl Iterator<Item = FileId> {
        self.rules.iter().chain(&self.fields).filter_map(|path| id_of(path))
    }

    /// Returns which conventions hold beside rules. One for the icon itself comes before another
    /// icon.
    pub(crate) fn conventions(&self, rules: &Rules) -> UrlConventions {
        let of_icon = |rule: &Redirect| rule.only_path().is_some_and(|path| path == FAVICON);
        UrlConventions {
            index: self.index,
            clean_urls: self.clean_urls,
            listings: self.listings,
            favicon: !rules.redirects.iter().any(of_icon),
        }
    }
}
