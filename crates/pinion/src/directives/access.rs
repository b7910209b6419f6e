//! The rules about who may request a part of a site, and how often. They stand in a configuration
//! file alone.

use super::config_file_tables::Table;
use super::{Default, Directive, DirectiveGroup, DirectiveLevel, Kind, TakesEffect};

/// Returns a row of the table `[[site.access]]`, with the properties that all of them share.
const fn row(name: &'static str, key: &'static str, kind: Kind) -> Directive {
    Directive {
        name,
        short: None,
        verbs: &[],
        file: Some(Table::Access.key(key)),
        group: DirectiveGroup::Site,
        level: DirectiveLevel::Site,
        kind,
        repeatable: false,
        default: Default::Nothing("not set"),
        change: TakesEffect::Live,
        brief: "",
        long: "",
    }
}

/// The rows, in the order of the reference.
pub(crate) const ROWS: &[Directive] = &[
    Directive {
        default: Default::Value("/"),
        brief: "The path that the table is about, with all paths below it",
        long: "Every table that covers a path applies, so each of them has to admit a request. \
               Other spellings of a path are covered as well, whether they name a file, a script \
               or another server: escapes, `//`, `..`, upper case, `.html` and `index.html`.",
        ..row("access-path", "path", Kind::UrlPath)
    },
    Directive {
        default: Default::Nothing("no password is needed"),
        brief: "Ask for the password of a user of this file (HTTP Basic authentication)",
        long: "One user in each line, as `htpasswd -B -C 12` writes them: `NAME:HASH`, with a hash \
               by bcrypt or Argon2id. It is read when the server starts and at each reload. \
               `Authorization` of the request is not passed on to scripts and other servers.",
        ..row("access-password-file", "password-file", Kind::Path)
    },
    Directive {
        default: Default::Value("Restricted"),
        brief: "What browsers call the part of the site that they need a password for",
        long: "Needs `password-file`.",
        ..row("access-realm", "realm", Kind::FieldValue)
    },
    Directive {
        repeatable: true,
        default: Default::Nothing("every client"),
        brief: "The only networks that clients may come from",
        long: "All other clients get status 403. `unix` are clients on Unix sockets.",
        ..row("access-allow", "allow", Kind::Network)
    },
    Directive {
        repeatable: true,
        default: Default::Nothing("no client"),
        brief: "Networks whose clients get status 403",
        long: "They come before those of `allow`.",
        ..row("access-deny", "deny", Kind::Network)
    },
    Directive {
        default: Default::Nothing("no limit"),
        brief: "The most requests of one client in a second, a minute or an hour",
        long: "A client is an IPv4 address or the /64 of an IPv6 address; those on Unix sockets \
               are not limited. Requests beyond the limit get status 429 with `Retry-After`. All \
               requests of the table count together.",
        ..row("access-request-rate", "request-rate", Kind::Rate)
    },
    Directive {
        default: Default::Auto("the number of `request-rate`"),
        brief: "How many of these requests may come at once",
        long: "Needs `request-rate`.",
        ..row(
            "access-request-burst",
            "request-burst",
            Kind::Number { min: 1, max: REQUESTS_MAX, unit: "" },
        )
    },
    Directive {
        default: Default::Nothing("no limit"),
        brief: "The most requests that one client may have open at once",
        long: "A request is open until its response has left. Further requests get status 429.",
        ..row(
            "access-max-concurrent-requests",
            "max-concurrent-requests",
            Kind::Number { min: 1, max: 65_535, unit: "" },
        )
    },
    Directive {
        repeatable: true,
        default: Default::Nothing("only pages of the same origin"),
        brief: "Origins whose pages may read the responses (CORS), or `*` for all",
        long: "Preflight requests are responded to by Pinion and need no password. Of several \
               tables that cover a path, the one with the longest path counts. What scripts and \
               other servers say about it is left out.",
        ..row("access-cors-origins", "cors-origins", Kind::Origin)
    },
    Directive {
        repeatable: true,
        default: Default::Nothing("GET, HEAD and POST"),
        brief: "Further methods of requests of these pages",
        long: "Needs `cors-origins`.",
        ..row("access-cors-methods", "cors-methods", Kind::Method)
    },
    Directive {
        repeatable: true,
        default: Default::Nothing("those that need no permission"),
        brief: "Headers that these pages may add to requests, such as Content-Type",
        long: "Needs `cors-origins`.",
        ..row("access-cors-headers", "cors-headers", Kind::FieldName)
    },
    Directive {
        repeatable: true,
        default: Default::Nothing("those that need no permission"),
        brief: "Headers of responses that these pages may read",
        long: "Needs `cors-origins`.",
        ..row("access-cors-exposed-headers", "cors-exposed-headers", Kind::FieldName)
    },
    Directive {
        default: Default::Auto("5 seconds in most browsers"),
        brief: "How long browsers keep the response to a preflight request",
        long: "Needs `cors-origins`.",
        ..row(
            "access-cors-max-age",
            "cors-max-age",
            Kind::Number { min: 0, max: 86_400, unit: "seconds" },
        )
    },
    Directive {
        default: Default::Off,
        brief: "Let these pages send cookies and passwords",
        long: "Needs `cors-origins` without `*`.",
        ..row("access-cors-credentials", "cors-credentials", Kind::Switch)
    },
];

/// Requests in a time, and at once: more are no limit.
const REQUESTS_MAX: u64 = 1_000_000;
