//! The steps of a lookup, for a caller that explains a response (`pinion why`).
//!
//! A server looks paths up with [`Untraced`], whose function is empty: a lookup is compiled for it
//! as if there were no steps.

use pinion_archive::EntryKind;
use pinion_http::request_target::PathError;

/// Receives the steps of a lookup, in the order in which they are taken. An implementation keeps
/// its data behind a reference, so that [`Untraced`] takes no room among the arguments of the
/// lookup.
pub trait Trace: Copy {
    /// Receives one step.
    fn step(self, step: LookupStep<'_>);
}

/// Ignores all steps, without any cost.
#[derive(Clone, Copy, Debug)]
pub struct Untraced;

impl Trace for Untraced {
    #[inline(always)]
    fn step(self, _: LookupStep<'_>) {}
}

/// One step of a lookup. Paths are decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LookupStep<'t> {
    /// The path of the request was decoded.
    Path(&'t [u8]),
    /// The path of the request was not decoded to the path of a resource.
    NoPath(PathError),
    /// The entry of a path was looked up.
    Entry {
        /// The purpose of the lookup.
        sought: Sought,
        /// The path.
        path: &'t [u8],
        /// The kind of the entry; `None` if there is none.
        found: Option<EntryKind>,
    },
    /// The entry is replaced by the JSON form of the listing, which the client prefers.
    Variant,
    /// The other slash form is not looked up, because the site does not redirect to it.
    NoSlashRedirects,
    /// A rule whose path pattern matches was compared with the request.
    Rule {
        /// Its number in the archive.
        number: u32,
        /// The result.
        matched: RuleMatch<'t>,
    },
    /// The first rule that matches is not forced, and another step comes first.
    NotForced {
        /// Its number in the archive.
        number: u32,
    },
    /// A rule that matches is applied.
    Applied {
        /// Its number in the archive.
        number: u32,
    },
    /// A rule that uses captures is not applied to a path with `%00`.
    NulInPath {
        /// Its number in the archive.
        number: u32,
    },
    /// The `Location` or the path that a rule leads to is longer than allowed.
    TooLong,
    /// A rewrite leads to this path.
    Rewritten(&'t [u8]),
    /// The folder of this path, which has no slash at its end, was searched for a fallback page of
    /// its own with status 200.
    PageOfFolder {
        /// The path.
        path: &'t [u8],
        /// Whether it has one.
        found: bool,
    },
    /// The fallback page that is nearest to a path was looked up.
    Fallback {
        /// The path.
        path: &'t [u8],
        /// The status of the page; `None` if there is no page.
        found: Option<u16>,
    },
    /// The page of the single-page application was considered.
    SinglePage(SinglePage),
    /// The lookup is over.
    End {
        /// The result.
        outcome: LookupOutcome,
        /// The key of the entry that is sent; `None` for a response without an entry.
        key: Option<&'t [u8]>,
        /// The `Content-Location` of that entry, escaped, if it is a resource that has one: the
        /// path of its file, where that is another one.
        location: Option<&'t [u8]>,
    },
}

/// The path for which an entry is looked up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sought {
    /// The path of the request.
    Path,
    /// The other slash form of that path.
    OtherSlashForm,
    /// The path that a rewrite leads to.
    Target,
    /// The other slash form of that path.
    TargetOtherSlashForm,
}

/// The result of comparing a request with a rule whose path matches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RuleMatch<'t> {
    /// The rule matches.
    Yes,
    /// The rule is for another host.
    OtherHost,
    /// The query does not have the parameter of this name as the rule requires it.
    Query(&'t [u8]),
}

/// The result for the page of a single-page application.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SinglePage {
    /// The site has none.
    None,
    /// The request is no navigation.
    NoNavigation,
    /// It is sent.
    Sent,
}

/// The result of a lookup.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LookupOutcome {
    /// A resource under its own path.
    Resource,
    /// A resource that is sent for another path: by a rewrite, or for a missing one.
    StandIn,
    /// The content of a resource as a page with this status.
    Page(u16),
    /// A redirect that is stored as an entry.
    Redirect,
    /// A redirect to the other slash form.
    SlashRedirect,
    /// A redirect by a rule, with this status.
    RuleRedirect(u16),
    /// A built-in page.
    Error(u16),
}
