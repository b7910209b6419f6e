//! The access rules of a site, with the content of the files that they name.

use super::password_file::PasswordFile;
use super::path_scope::{PathReadings, PathScope};
use crate::cidr_network::Network;
use crate::failure::Failure;
use crate::settings::{AccessTable, SiteAccess};
use crate::warnings_and_notes;
use anyhow::anyhow;
use pinion_archive::layout::{FALLBACK_PREFIX, SINGLE_PAGE_KEY, VARIANT_PREFIX};
use pinion_archive::{Archive, Entry, Scratch};
use pinion_site::lookup_trace::{LookupOutcome, LookupStep, Trace};
use std::cell::Cell;
use std::fmt;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

/// The rules of one generation of a site.
#[derive(Debug, Default)]
pub(crate) struct AccessRules {
    rules: Vec<AccessRule>,
    /// The rules that cover the file of the page of a single-page application.
    single_page: RuleSet,
    /// Whether each request gets a number.
    pub(crate) gives_request_ids: bool,
}

/// One table `[[site.access]]`.
#[derive(Debug)]
pub(crate) struct AccessRule {
    scope: PathScope,
    pub(crate) table: AccessTable,
    pub(crate) password: Option<Arc<PasswordRule>>,
    /// The number of its table: a table that a reload does not change keeps it, so that its limits
    /// continue.
    pub(crate) number: u64,
}

/// Whose passwords a rule asks for.
#[derive(Debug)]
pub(crate) struct PasswordRule {
    pub(crate) file: PasswordFile,
    /// The line of the field that asks for a password (RFC 7617 §2).
    pub(crate) challenge: String,
}

/// Some of the rules of a site.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct RuleSet(u64);

impl RuleSet {
    /// Returns these and others.
    pub(crate) const fn with(self, others: Self) -> Self {
        Self(self.0 | others.0)
    }

    /// Returns these without others.
    pub(crate) const fn without(self, others: Self) -> Self {
        Self(self.0 & !others.0)
    }

    pub(crate) const fn is_empty(self) -> bool {
        self.0 == 0
    }

    const fn of(index: usize) -> Self {
        Self(1 << index)
    }
}

impl AccessRules {
    /// Reads the files that the settings of a site name; `None` if no request needs a check.
    /// `source` is the path of the site, and `hosts` distinguish sites of the same path.
    ///
    /// # Errors
    /// The error in its password files.
    pub(crate) fn load(
        settings: &SiteAccess,
        source: &Path,
        hosts: &[String],
        warns: bool,
    ) -> Result<Option<Self>, Failure> {
        if settings.is_empty() {
            return Ok(None);
        }
        let mut rules = Vec::new();
        for table in &settings.tables {
            let password = match &table.password {
                None => None,
                Some(password) => {
                    if let Some(wrong) = published_password_file(source, &password.file) {
                        return Err(anyhow!("password-file: {wrong}").into());
                    }
                    let file = PasswordFile::read(&password.file).map_err(Failure::ConfigFaults)?;
                    if let Some(warning) = file.warning(&password.file).filter(|_| warns) {
                        warnings_and_notes::warning(warning);
                    }
                    Some(Arc::new(PasswordRule::new(file, &password.realm)))
                }
            };
            let mut hasher = DefaultHasher::new();
            (source, hosts, &table.path).hash(&mut hasher);
            rules.push(AccessRule {
                scope: PathScope::new(&table.path),
                table: table.clone(),
                password,
                number: hasher.finish(),
            });
        }
        let gives_request_ids = settings.gives_request_ids;
        Ok(Some(Self { rules, single_page: RuleSet::default(), gives_request_ids }))
    }

    /// Looks for the file of the page of a single-page application, which is sent for any path. An
    /// archive has it once more under a key of its own.
    pub(crate) fn with_single_page(self, archive: &Archive<'_>) -> Self {
        let tag = |entry: &Entry<'_>| entry.representations().next().map(|form| *form.etag());
        let mut scratch = Scratch::new();
        let page = archive.find(SINGLE_PAGE_KEY, &mut scratch).ok().flatten();
        let Some(page) = page.and_then(|page| tag(&page)).filter(|_| !self.rules.is_empty()) else {
            return self;
        };
        let (mut single_page, mut entries) = (RuleSet::default(), archive.entries());
        while let Ok(Some(entry)) = entries.next_entry() {
            if let Some(path) = path_of_key(entry.path()).filter(|_| tag(&entry) == Some(page)) {
                single_page = single_page.with(self.covering(&PathReadings::of_decoded(path)));
            }
        }
        Self { single_page, ..self }
    }

    /// Returns the rules that cover a path.
    pub(crate) fn covering(&self, path: &PathReadings<'_>) -> RuleSet {
        let covers = |(_, rule): &(usize, &AccessRule)| rule.scope.covers(path);
        let covering = self.rules.iter().enumerate().filter(covers);
        covering.map(|(index, _)| RuleSet::of(index)).fold(RuleSet::default(), RuleSet::with)
    }

    /// Returns the rules of a set, each with the set of it alone.
    pub(crate) fn of(&self, set: RuleSet) -> impl Iterator<Item = (RuleSet, &AccessRule)> {
        let rules = self.rules.iter().enumerate();
        let rules = rules.map(|(index, rule)| (RuleSet::of(index), rule));
        rules.filter(move |(one, _)| !set.without(*one).eq(&set))
    }

    /// Returns those of these rules that stand for rules of a set of an earlier generation.
    pub(crate) fn same_as(&self, earlier: &Self, set: RuleSet) -> RuleSet {
        let is_same = |rule: &AccessRule| earlier.of(set).any(|(_, one)| one.number == rule.number);
        let rules = self.rules.iter().enumerate().filter(|(_, rule)| is_same(rule));
        rules.map(|(index, _)| RuleSet::of(index)).fold(RuleSet::default(), RuleSet::with)
    }

    /// Returns whether some rule limits the rate of requests.
    pub(crate) fn limits_rates(&self) -> bool {
        self.rules.iter().any(|rule| rule.table.rate.is_some())
    }

    /// Returns whether some rule asks for a password.
    pub(crate) fn asks_for_passwords(&self) -> bool {
        self.rules.iter().any(|rule| rule.password.is_some())
    }

    /// Returns a digest of the content of all password files.
    pub(crate) fn password_digest(&self) -> blake3::Hash {
        let mut hasher = blake3::Hasher::new();
        for password in self.rules.iter().filter_map(|rule| rule.password.as_ref()) {
            hasher.update(password.file.digest().as_bytes());
        }
        hasher.finalize()
    }

    /// Returns the CORS rule of a set: the one with the longest path.
    pub(crate) fn cors_rule(&self, set: RuleSet) -> Option<&AccessRule> {
        let rules = self.of(set).map(|(_, rule)| rule).filter(|rule| rule.table.cors.is_some());
        rules.max_by_key(|rule| rule.scope.bytes())
    }
}

impl AccessRule {
    /// Returns whether clients with this address are refused; `None` is one on a Unix socket.
    pub(crate) fn refuses(&self, client: Option<SocketAddr>) -> bool {
        let has = |networks: &[Network]| networks.iter().any(|network| network.contains(client));
        let AccessTable { allow, deny, .. } = &self.table;
        has(deny) || !(allow.is_empty() || has(allow))
    }
}

/// Describes the requirements of a rule in words.
impl fmt::Display for AccessRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let AccessTable { path, password, allow, deny, rate, concurrent_max, cors } = &self.table;
        let networks = |networks: &[Network]| {
            networks.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
        };
        let mut asked = Vec::new();
        if !deny.is_empty() {
            asked.push(format!("no client of {}", networks(deny)));
        }
        if !allow.is_empty() {
            asked.push(format!("only clients of {}", networks(allow)));
        }
        asked.extend(rate.iter().map(|rate| format!("at most {}", rate.shown)));
        asked
            .extend(concurrent_max.map(|max| format!("at most {max} open requests of one client")));
        if let Some(password) = password {
            asked.push(format!("the password of a user of {}", password.file.display()));
        }
        asked.extend(cors.iter().map(|_| "CORS".to_owned()));
        write!(f, "{path}: {}", asked.join(", "))
    }
}

/// Returns a warning about a password file that a site would publish; `folder` has the files of the
/// site.
pub(crate) fn published_password_file(folder: &Path, file: &Path) -> Option<String> {
    let (folder, real) = (folder.canonicalize().ok()?, file.canonicalize().ok()?);
    let below = real.strip_prefix(folder).ok()?;
    // A build leaves out files whose names begin with a dot.
    let is_left_out = below.iter().any(|name| name.as_encoded_bytes().starts_with(b"."));
    let shown = file.display();
    (!is_left_out)
        .then(|| format!("{shown} is below the folder of the site, which publishes it; move it"))
}

impl PasswordRule {
    fn new(file: PasswordFile, realm: &str) -> Self {
        let realm = realm.replace('\\', "\\\\").replace('"', "\\\"");
        let challenge = format!("WWW-Authenticate: Basic realm=\"{realm}\", charset=\"UTF-8\"\r\n");
        Self { file, challenge }
    }
}

/// The rules that a look-up in an archive meets beside those of the path of the request: those of
/// the file that is sent, and of the path that a rewrite leads to.
pub(crate) struct MetRules<'r> {
    rules: Option<&'r AccessRules>,
    met: Cell<RuleSet>,
}

impl<'r> MetRules<'r> {
    pub(crate) fn new(rules: Option<&'r AccessRules>) -> Self {
        Self { rules, met: Cell::default() }
    }

    /// Returns the rules that were met.
    pub(crate) fn get(&self) -> RuleSet {
        self.met.get()
    }

    fn add(&self, readings: &PathReadings<'_>) {
        if let Some(rules) = self.rules {
            self.met.set(self.met.get().with(rules.covering(readings)));
        }
    }
}

impl Trace for &MetRules<'_> {
    fn step(self, step: LookupStep<'_>) {
        match step {
            LookupStep::Rewritten(path) => self.add(&PathReadings::of_decoded(path)),
            LookupStep::End { outcome, key, location } => {
                let sends_entry = matches!(
                    outcome,
                    LookupOutcome::Resource | LookupOutcome::StandIn | LookupOutcome::Page(_)
                );
                if let (Some(SINGLE_PAGE_KEY), Some(rules)) = (key, self.rules) {
                    self.met.set(self.met.get().with(rules.single_page));
                }
                if let Some(path) = key.and_then(path_of_key).filter(|_| sends_entry) {
                    self.add(&PathReadings::of_decoded(path));
                }
                if let Some(location) = location.filter(|_| sends_entry) {
                    self.add(&PathReadings::of_sent(location));
                }
            }
            _ => {}
        }
    }
}

/// Returns the path that the key of an entry is about, for a fallback page that of its folder;
/// `None` for keys of another form.
fn path_of_key(key: &[u8]) -> Option<&[u8]> {
    let path =
        [VARIANT_PREFIX, FALLBACK_PREFIX].iter().find_map(|prefix| key.strip_prefix(*prefix));
    let path = path.unwrap_or(key);
    path.starts_with(b"/").then_some(path)
}

#[cfg(test)]
mod tests;
