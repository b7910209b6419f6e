//! The flags of a server with a store.

use super::config_file_tables::Table;
use super::verbs::Verb;
use super::{Default, Directive, DirectiveGroup, DirectiveLevel, Kind, TakesEffect, site_flag};

/// The verbs of a server that can have a store.
pub(super) const SERVE_AND_STORE: &[Verb] = &[Verb::Serve, Verb::Store];

/// The policies of `store-eviction`, by the names that Redis has for them.
pub(crate) const POLICIES: &[&str] = &[
    "noeviction",
    "allkeys-lru",
    "allkeys-lfu",
    "allkeys-random",
    "volatile-lru",
    "volatile-lfu",
    "volatile-random",
    "volatile-ttl",
];

/// The rows, in the order of the help.
pub(crate) const ROWS: &[Directive] = &[
    Directive {
        name: "store",
        short: None,
        verbs: SERVE_AND_STORE,
        file: Some(Table::Listen.key("store")),
        group: DirectiveGroup::Store,
        level: DirectiveLevel::Listener,
        kind: Kind::Address,
        repeatable: true,
        default: Default::Nothing("no store"),
        change: TakesEffect::Restart,
        brief: "Where clients of Redis find the store",
        long: "The store keeps keys and values in memory and speaks the protocol of Redis. An \
               address is written as for `--listen`: `127.0.0.1:6379`, `unix:/run/store.sock`. \
               All data is lost when the server stops. An address that other machines can reach \
               needs --store-password.",
    },
    Directive {
        name: "store-tls",
        short: None,
        verbs: SERVE_AND_STORE,
        file: Some(Table::Listen.key("store-tls")),
        group: DirectiveGroup::Store,
        level: DirectiveLevel::Listener,
        kind: Kind::Address,
        repeatable: true,
        default: Default::Nothing("no encrypted store"),
        change: TakesEffect::Restart,
        brief: "Where clients of Redis find the store, with TLS",
        long: "The certificates are those of --tls, and --client-ca applies.",
    },
    Directive {
        name: "store-password",
        short: None,
        verbs: SERVE_AND_STORE,
        file: Some(Table::Store.key("password-file")),
        group: DirectiveGroup::Store,
        level: DirectiveLevel::Server,
        kind: Kind::Path,
        repeatable: false,
        default: Default::Nothing("no password"),
        change: TakesEffect::Restart,
        brief: "The password of the store, in a file",
        long: "Clients give it with AUTH or HELLO, for the user `default`. The file has one line. \
               Let only its owner read it.",
    },
    Directive {
        repeatable: true,
        default: Default::Nothing("no pages"),
        brief: "Pages that are values of the store",
        long: "`--store-pages page:` sends the value of the key `page:about.html` for \
               `/about.html`, and that of `page:index.html` for `/`, where no file responds. \
               `--store-pages /live=page:` does so for `/live` and all paths below. In a \
               configuration file, write `[[site.mount]]` with `store`.",
        group: DirectiveGroup::Store,
        ..site_flag("store-pages", Kind::StorePages)
    },
    Directive {
        name: "store-memory",
        short: None,
        verbs: SERVE_AND_STORE,
        file: Some(Table::Store.key("memory")),
        group: DirectiveGroup::Store,
        level: DirectiveLevel::Server,
        kind: Kind::Number { min: 1, max: 1 << 24, unit: "MiB" },
        repeatable: false,
        default: Default::Auto("a quarter of the memory"),
        change: TakesEffect::Restart,
        brief: "The most memory for all keys and values of the store",
        long: "Without --store, the store is there for the scripts of the site, as \
               `pinion.store`. `CONFIG SET maxmemory` changes the limit while the server runs.",
    },
    Directive {
        name: "store-eviction",
        short: None,
        verbs: SERVE_AND_STORE,
        file: Some(Table::Store.key("eviction")),
        group: DirectiveGroup::Store,
        level: DirectiveLevel::Server,
        kind: Kind::Choice(POLICIES),
        repeatable: false,
        default: Default::Value("noeviction"),
        change: TakesEffect::Restart,
        brief: "Which keys are removed when the store is full",
        long: "With `noeviction`, commands that need memory fail. `allkeys-lru` removes keys that \
               were not used for the longest time, `allkeys-lfu` those that are used least often. \
               The policies that begin with `volatile` remove only keys with an expiry.",
    },
];

#[cfg(test)]
mod tests {
    use super::*;
    use pinion_store::settings::EvictionPolicy;

    #[test]
    fn every_eviction_policy_is_known_to_the_store() {
        assert_eq!(POLICIES, EvictionPolicy::NAMES.map(|(_, name)| name));
    }
}
