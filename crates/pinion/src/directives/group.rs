//! The groups in which flags stand in help texts, manual pages and the reference.

use super::verbs::Verb;
use super::{Directive, of};

/// The subject of a directive: the heading above its flag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DirectiveGroup {
    /// Addresses, protocols, proxies.
    Network,
    /// Encryption, and the settings that depend on it.
    Tls,
    /// Which content is served, and when it is loaded.
    Site,
    /// Paths, redirects and headers.
    Responses,
    /// Content codings.
    Compression,
    /// Archives of earlier builds.
    Earlier,
    /// Scripts.
    Lua,
    /// Keys and values for clients of Redis.
    Store,
    /// Logs and statistics.
    Logging,
    /// The most that clients may use.
    Limits,
    /// Threads, the kernel, shutdown.
    Process,
    /// Releases and where they are.
    Releases,
    /// The output of a command.
    Output,
    /// The request that a command looks at.
    Request,
    /// A server without a site.
    Measurement,
}

impl DirectiveGroup {
    /// Every group, in the order of the help.
    pub(crate) const ALL: [Self; 15] = [
        Self::Network,
        Self::Tls,
        Self::Request,
        Self::Output,
        Self::Site,
        Self::Responses,
        Self::Compression,
        Self::Earlier,
        Self::Lua,
        Self::Store,
        Self::Logging,
        Self::Limits,
        Self::Process,
        Self::Releases,
        Self::Measurement,
    ];

    /// Returns the words of the heading.
    pub(crate) fn title(self) -> &'static str {
        match self {
            Self::Network => "Network",
            Self::Tls => "TLS",
            Self::Site => "Site",
            Self::Responses => "Responses",
            Self::Compression => "Compression",
            Self::Earlier => "Earlier archives",
            Self::Lua => "Lua",
            Self::Store => "Store",
            Self::Logging => "Logging",
            Self::Limits => "Limits",
            Self::Process => "Process",
            Self::Releases => "Releases",
            Self::Output => "Output",
            Self::Request => "Request",
            Self::Measurement => "Measurement",
        }
    }
}

/// Returns the rows of a verb by their groups, without the groups that have none.
pub(crate) fn grouped(
    verb: Verb,
) -> impl Iterator<Item = (DirectiveGroup, Vec<&'static Directive>)> {
    let of_group = move |group| of(verb).filter(move |row| row.group == group).collect();
    let groups = DirectiveGroup::ALL.into_iter().map(move |group| (group, of_group(group)));
    groups.filter(|(_, rows): &(DirectiveGroup, Vec<_>)| !rows.is_empty())
}

#[cfg(test)]
mod tests {
    use super::super::verbs;
    use super::*;

    #[test]
    fn every_row_of_a_verb_is_in_one_group() {
        for (at, group) in DirectiveGroup::ALL.iter().enumerate() {
            let others = DirectiveGroup::ALL.iter().skip(at + 1);
            assert!(others.clone().all(|other| other.title() != group.title()), "{group:?}");
        }
        for verb in verbs::ALL {
            let mut found: Vec<&str> =
                grouped(verb.verb).flat_map(|(_, rows)| rows).map(|row| row.name).collect();
            let mut expected: Vec<&str> = of(verb.verb).map(|row| row.name).collect();
            found.sort_unstable();
            expected.sort_unstable();
            assert_eq!(found, expected, "{}", verb.name);
        }
    }
}
