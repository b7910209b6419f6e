//! What `pinion why` finds out, in the form of its document. The member names are part of the
//! `--json` contract.

use serde::Serialize;

/// The version of the document. It changes when a member gets another meaning.
pub(super) const VERSION: u32 = 1;

/// The response to a request, and why it is that one.
#[derive(Debug, Serialize)]
pub(super) struct Explanation {
    /// [`VERSION`].
    pub(super) version: u32,
    /// The URL, with its host.
    pub(super) url: String,
    /// The method of the request.
    pub(super) method: String,
    /// The listener of the configuration that the client connects to.
    pub(super) listener: Option<ListenerShown>,
    /// The site of the host.
    pub(super) site: Option<SiteShown>,
    /// What was tried, in its order. The last step gives the response.
    pub(super) steps: Vec<Step>,
    /// The status; none if a handler of a script decides about it.
    pub(super) status: Option<u16>,
    /// The headers of the response, in their order. With a handler: those that it may replace.
    pub(super) headers: Vec<HeaderShown>,
    /// Headers that a rule has removed.
    pub(super) removed: Vec<RemovedHeader>,
    /// The stored codings of the file that is sent.
    pub(super) codings: Vec<CodingShown>,
    /// What else is worth knowing. Safe to be shown at a terminal.
    pub(super) notes: Vec<String>,
}

/// A listener.
#[derive(Debug, Serialize)]
pub(super) struct ListenerShown {
    /// As it is written.
    pub(super) address: String,
    /// `http`, `tls` or `redirect`.
    pub(super) kind: &'static str,
}

/// A site.
#[derive(Debug, Serialize)]
pub(super) struct SiteShown {
    /// The folder, archive or script.
    pub(super) path: String,
    /// `folder`, `archive`, `releases` or `script`.
    pub(super) kind: &'static str,
    /// The entry of `hosts` that the host matches; none for a site for every other host.
    pub(super) host: Option<String>,
}

/// One step.
#[derive(Debug, Serialize)]
pub(super) struct Step {
    /// Its number in docs/resolution.md; none for what comes before or after these.
    pub(super) number: Option<u8>,
    /// Its name.
    pub(super) name: StepName,
    /// Whether it gives the response.
    pub(super) responds: bool,
    /// What it sends, or why it does not. Safe to be shown at a terminal.
    pub(super) reason: String,
    /// The rule that it is about.
    pub(super) rule: Option<RuleShown>,
}

/// The name of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum StepName {
    AcmeChallenge,
    BuiltInPage,
    Condition,
    FallbackPage,
    File,
    ForcedRule,
    HealthCheck,
    Host,
    Method,
    NotFoundHandler,
    NotFoundPage,
    Path,
    RedirectToHttps,
    Request,
    Route,
    Rule,
    SinglePage,
    SlashForm,
}

/// A rule of `_redirects`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct RuleShown {
    /// The file; none of an archive that keeps no rules files.
    pub(super) file: Option<String>,
    /// Its line, from 1.
    pub(super) line: Option<usize>,
    /// The line, or the rule as the archive has it.
    pub(super) text: String,
}

/// A header of the response.
#[derive(Debug, Serialize)]
pub(super) struct HeaderShown {
    /// Its name.
    pub(super) name: String,
    /// Its value.
    pub(super) value: String,
    /// Where it comes from.
    pub(super) source: HeaderSource,
    /// The same in words.
    pub(super) reason: String,
    /// The lines of rules files that it comes from.
    pub(super) lines: Vec<FileLine>,
}

/// Where a header comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum HeaderSource {
    /// It is written into the archive, by another server or with a flag of the build.
    Archive,
    /// Every response of that kind has it.
    BuiltIn,
    /// The file that is sent, or its stored codings.
    File,
    /// A flag, or a key of the configuration.
    Flag,
    /// A rule of `_headers`, or of `_redirects` for a Location.
    Rule,
    /// The server computes it for the request.
    Server,
}

/// A line of a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct FileLine {
    /// The file.
    pub(super) file: String,
    /// The line, from 1.
    pub(super) line: usize,
}

/// A header that a rule has removed.
#[derive(Debug, Serialize)]
pub(super) struct RemovedHeader {
    /// Its name.
    pub(super) name: String,
    /// The line that removes it.
    #[serde(flatten)]
    pub(super) line: FileLine,
}

/// A stored form of a file.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub(super) struct CodingShown {
    /// The token of `Content-Encoding`.
    pub(super) coding: &'static str,
    /// Its size.
    pub(super) bytes: u64,
    /// Whether the request gets this one.
    pub(super) sent: bool,
    /// Whether a client that accepts all of them, as browsers do, gets this one.
    pub(super) smallest: bool,
}

impl Step {
    /// A step that does not give the response.
    pub(super) fn passed(number: impl Into<Option<u8>>, name: StepName, reason: String) -> Step {
        Step { number: number.into(), name, responds: false, reason, rule: None }
    }

    /// The step that gives the response.
    pub(super) fn responds(number: impl Into<Option<u8>>, name: StepName, reason: String) -> Step {
        Step { responds: true, ..Step::passed(number, name, reason) }
    }

    /// The same, about a rule.
    pub(super) fn with_rule(self, rule: Option<RuleShown>) -> Step {
        Step { rule, ..self }
    }
}

impl std::fmt::Display for FileLine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}", self.file, self.line)
    }
}
