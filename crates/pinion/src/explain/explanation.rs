//! The document of `pinion why --json`, which is also a member of a control response. The member
//! names are a promise (docs/reference/json.md).

use serde::{Deserialize, Serialize};
use std::fmt;

/// The version of the document. It changes when a member gets another meaning.
pub(crate) const VERSION: u32 = 1;

/// The response to a request, and why it is that one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Explanation {
    /// [`VERSION`].
    pub(crate) version: u32,
    /// The URL, with its host.
    pub(crate) url: String,
    /// The method of the request.
    pub(crate) method: String,
    /// The listener that the client connects to; none of a server that has only a source.
    pub(crate) listener: Option<ListenerShown>,
    /// The site of the host.
    pub(crate) site: Option<SiteShown>,
    /// The steps of the look-up, in order. The last step gives the response.
    pub(crate) steps: Vec<ExplanationStep>,
    /// The status; none if a handler of a script decides about it.
    pub(crate) status: Option<u16>,
    /// The headers of the response, in their order. With a handler, the headers that it may
    /// replace.
    pub(crate) headers: Vec<HeaderShown>,
    /// Headers that a rule has removed.
    pub(crate) removed: Vec<RemovedHeader>,
    /// The stored codings of the file that is sent.
    pub(crate) codings: Vec<CodingShown>,
    /// Further remarks. They are safe to be shown at a terminal.
    pub(crate) notes: Vec<String>,
}

/// A listener.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ListenerShown {
    /// The text as written.
    pub(crate) address: String,
    /// The kind of content at the listener.
    pub(crate) kind: ListenerKind,
}

/// The kinds of content at a listener.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum ListenerKind {
    /// HTTP without TLS.
    Http,
    /// A redirect to HTTPS.
    Redirect,
    /// HTTP over TLS or QUIC.
    Tls,
}

/// A site.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SiteShown {
    /// The folder, archive or script.
    pub(crate) path: String,
    /// The kind of content at the path.
    pub(crate) kind: SiteKind,
    /// The entry of `hosts` that the host matches; none for a site for every other host.
    pub(crate) host: Option<String>,
}

/// The kinds of sources of the content of a site.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum SiteKind {
    Archive,
    Folder,
    Proxy,
    Releases,
    Script,
}

/// One step.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ExplanationStep {
    /// Its number in docs/resolution.md; none for steps before or after these.
    pub(crate) number: Option<u8>,
    /// Its name.
    pub(crate) name: StepName,
    /// Whether it gives the response.
    pub(crate) responds: bool,
    /// The response that it sends, or the reason why it sends none. It is safe to be shown at a
    /// terminal.
    pub(crate) reason: String,
    /// The rule that it is about.
    pub(crate) rule: Option<RuleShown>,
}

/// The name of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum StepName {
    Access,
    AcmeChallenge,
    BuiltInPage,
    Condition,
    Damage,
    FallbackPage,
    File,
    ForcedRule,
    HealthCheck,
    Host,
    LiveFile,
    LoadError,
    Method,
    NotFoundHandler,
    NotFoundPage,
    Path,
    Proxy,
    RedirectToHttps,
    Request,
    Route,
    Rule,
    SinglePage,
    SlashForm,
}

/// A rule of `_redirects`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct RuleShown {
    /// The file; none of an archive that keeps no rules files.
    pub(crate) file: Option<String>,
    /// Its line, from 1.
    pub(crate) line: Option<usize>,
    /// The line, or the rule as the archive has it.
    pub(crate) text: String,
}

/// A header of the response.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct HeaderShown {
    /// Its name.
    pub(crate) name: String,
    /// Its value.
    pub(crate) value: String,
    /// Where it comes from.
    pub(crate) source: HeaderSource,
    /// The source in words.
    pub(crate) reason: String,
    /// The lines of rules files that it comes from.
    pub(crate) lines: Vec<FileLine>,
}

/// Where a header comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum HeaderSource {
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
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct FileLine {
    /// The file.
    pub(crate) file: String,
    /// The line, from 1.
    pub(crate) line: usize,
}

/// A header that a rule has removed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct RemovedHeader {
    /// Its name.
    pub(crate) name: String,
    /// The line that removes it.
    #[serde(flatten)]
    pub(crate) line: FileLine,
}

/// A stored form of a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct CodingShown {
    /// The token of `Content-Encoding`.
    pub(crate) coding: String,
    /// Its size.
    pub(crate) bytes: u64,
    /// Whether the request gets this one.
    pub(crate) sent: bool,
    /// Whether a client that accepts all of them, as browsers do, gets this one.
    pub(crate) smallest: bool,
}

impl ExplanationStep {
    /// Returns a step that does not give the response.
    pub(crate) fn passed(
        number: impl Into<Option<u8>>,
        name: StepName,
        reason: String,
    ) -> ExplanationStep {
        ExplanationStep { number: number.into(), name, responds: false, reason, rule: None }
    }

    /// Returns the step that gives the response.
    pub(crate) fn responds(
        number: impl Into<Option<u8>>,
        name: StepName,
        reason: String,
    ) -> ExplanationStep {
        ExplanationStep { responds: true, ..ExplanationStep::passed(number, name, reason) }
    }

    /// Returns the step with a rule that it is about.
    pub(crate) fn with_rule(self, rule: Option<RuleShown>) -> ExplanationStep {
        ExplanationStep { rule, ..self }
    }
}

impl fmt::Display for FileLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.file, self.line)
    }
}
