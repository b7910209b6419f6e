//! The directive table: one row for every flag and every key of a configuration file. The command
//! line, the file, the help, the man pages and the reference (`docs/reference/`) are all made from
//! these rows, so a directive is described in exactly one place.
//!
//! Rows stand in one file for each side of the program: [`command_flags`] (how an archive is looked
//! into), [`build`] (how a folder becomes one), [`serve`] (how it is served), [`server_limits`]
//! (connections, timeouts, memory and space for uploads), [`server_header`] (how it names itself),
//! [`lua`] (how its scripts are run), [`tls`] (how it is encrypted), [`site`] (which sites a server
//! has), [`proxy`] and [`mount`] (which paths other servers respond to), `cgi` (CGI scripts that
//! flags name), `php` (PHP that the server starts), [`access`] (who may request what) and
//! [`supervised_program`] (which programs it keeps running). The tables of the keys are in
//! [`config_file_tables`], the headings above flags in [`mod@group`]. The texts of a flag that
//! differ under one verb are in [`verb_wording`]. Examples and the like, which follow the flags in
//! the help, are in [`manual_sections`].

mod access;
pub(crate) mod build;
mod cgi;
pub(crate) mod command_flags;
pub(crate) mod config_file_tables;
pub(crate) mod group;
pub(crate) mod lua;
pub(crate) mod manual_sections;
mod mount;
mod php;
pub(crate) mod proxy;
pub(crate) mod python;
#[cfg(test)]
mod reference_pages;
mod script_access;
pub(crate) mod serve;
mod server_header;
mod server_limits;
pub(crate) mod site;
mod store;
mod supervised_program;
pub(crate) mod tls;
pub(crate) mod verb_wording;
pub(crate) mod verbs;
pub(crate) mod why;

use config_file_tables::Key;
use group::DirectiveGroup;
use pinion_spawner::limits::NAME_MAX_BYTES;
use verbs::Verb;

/// One flag, or one key of a configuration file, or both.
#[derive(Debug)]
pub(crate) struct Directive {
    /// Its long name without the dashes; the same word names it in every table of the program.
    pub(crate) name: &'static str,
    /// Its one-letter name.
    pub(crate) short: Option<char>,
    /// The verbs that take it as a flag; none for a directive that stands in a configuration file
    /// alone.
    pub(crate) verbs: &'static [Verb],
    /// Where it stands in a configuration file.
    pub(crate) file: Option<Key>,
    /// The heading above its flag.
    pub(crate) group: DirectiveGroup,
    /// The thing whose property it is.
    pub(crate) level: DirectiveLevel,
    /// The kind of its value.
    pub(crate) kind: Kind,
    /// May be given more than once; the values add up.
    pub(crate) repeatable: bool,
    /// Its default.
    pub(crate) default: Default,
    /// When a changed value takes effect.
    pub(crate) change: TakesEffect,
    /// One line, no full stop.
    pub(crate) brief: &'static str,
    /// The facts that a user needs to decide, in whole sentences. Empty when the line above says
    /// everything.
    pub(crate) long: &'static str,
}

/// The things whose property a directive can be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DirectiveLevel {
    /// One run of the builder.
    Build,
    /// One run of a verb that reads an archive.
    Command,
    /// One listening socket.
    Listener,
    /// The whole server.
    Server,
    /// One site of a server.
    Site,
}

/// The type of a value, its bounds and its unit.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Kind {
    /// A path that begins with a slash.
    AbsolutePath,
    /// A user or a group, by its name or its number.
    Account,
    /// A value of `Alt-Svc`, or `off` (RFC 7838).
    AltSvc,
    /// A listening address (`listen_address.rs`).
    Address,
    /// An argument of a command, or the path of its program.
    Argument,
    /// A host, and a port if that is not to be found out.
    CanonicalHost,
    /// One of these words.
    Choice(&'static [&'static str]),
    /// Content codings with optional levels: `gzip,br:11`.
    Codings,
    /// How long something takes, with its unit (`60ms`), within the bounds, which are included.
    Duration {
        /// Least value, as a user would write it.
        min: &'static str,
        /// Greatest value.
        max: &'static str,
    },
    /// The name of a field (RFC 9110 §5.1).
    FieldName,
    /// A field value: visible ASCII with single spaces or commas between (RFC 9110 §5.5).
    FieldValue,
    /// A header of a request or a response: `Accept: text/html`.
    Header,
    /// A method of HTTP (RFC 9110 §9.1).
    Method,
    /// A folder of the local file system.
    Folder,
    /// A pattern for paths.
    Glob,
    /// A pattern for paths and the codings of the paths that it matches: `*.svg=br:11`.
    GlobCodings,
    /// A host, or `*.` and a host ([`pinion_site::host_selection`]).
    Host,
    /// How long browsers are to remember something, or `off` (RFC 6797).
    Hsts,
    /// A network of IP addresses.
    IpNetwork,
    /// The hash of a certificate or of a public key.
    CertificatePin,
    /// A folder of CGI scripts, or a single script, with its path in URLs or the name as that:
    /// `/srv/cgi-bin`, `/run=/srv/scripts`.
    ScriptFolder,
    /// A Python application, with its path in URLs if that is not the root: `app:app`,
    /// `/api=app:app`.
    PythonApplication,
    /// The prefix of keys of the store, and the path of their pages.
    StorePages,
    /// A name for scripts and the file with its value: `token=/etc/pinion/token`.
    Secret,
    /// A name for scripts and the program it stands for: `convert=/usr/bin/convert`.
    Program,
    /// A folder of files that are read for each request, below that of the site or with its path in
    /// URLs: `media`, `/media=/srv/app/media`.
    LiveFolder,
    /// `/srv/files`, or `/protected=/srv/files`: a folder with files that applications name.
    SentFolder,
    /// A name for scripts and the folder it stands for: `data=/srv/data:ro`.
    LuaFolder,
    /// A network of IP addresses, or `unix`.
    Network,
    /// A nice value, -20 to 19 (nice(2)).
    Nice,
    /// A whole number within the bounds, which are included.
    Number {
        /// Least value.
        min: u64,
        /// Greatest value.
        max: u64,
        /// The unit of the number; empty for a bare count.
        unit: &'static str,
    },
    /// A file of the local file system; `-` where the long text says so.
    Path,
    /// An origin of web pages as browsers write it, or `*`: `https://example.org`.
    Origin,
    /// The name of a program in the log.
    ProgramName,
    /// Versions of HTTP: `h1,h2`.
    Protocols,
    /// A number of requests in a time: `10/s`, `100/min`.
    Rate,
    /// A file of the site, by its path below the folder.
    SiteFile,
    /// A folder below that of the site: `wp-content/uploads`.
    SiteFolder,
    /// A number of bytes, with a unit: `512M`.
    Size,
    /// Given or not.
    Switch,
    /// A server that requests are forwarded to: `/api=http://127.0.0.1:3000`.
    Upstream,
    /// A server that requests are forwarded to, without a path: `http://127.0.0.1:3000`.
    UpstreamUrl,
    /// An application that speaks FastCGI or SCGI: `unix:/run/php/php-fpm.sock`, `127.0.0.1:9000`.
    Application,
    /// How requests are distributed over several servers: `header-hash:X-User`.
    Balance,
    /// A path and all below it, or an extension: `/api`, `*.php`.
    MountPath,
    /// The name of a server in its certificate.
    ServerName,
    /// The host that a server is asked for: `client`, `upstream` or a name.
    UpstreamHost,
    /// The path of a URL, as clients send it.
    UrlPath,
    /// A variable of an environment: `LANG=C.UTF-8`. In a file it is a key and a value.
    Variable,
}

/// The default of a directive.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Default {
    /// Worked out at start; the phrase says how.
    Auto(&'static str),
    /// No value; the phrase names the absent thing: `no limit`.
    Nothing(&'static str),
    /// A switch that is off.
    Off,
    /// It has to be given.
    Required,
    /// This value, as a user would write it.
    Value(&'static str),
}

/// When a changed value takes effect on a running server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TakesEffect {
    /// The next reload.
    Live,
    /// The next start.
    Restart,
}

/// Returns a flag of a site that stands for keys of a table, with the properties that all of them
/// share.
const fn site_flag(name: &'static str, kind: Kind) -> Directive {
    Directive {
        name,
        short: None,
        verbs: &[Verb::Serve, Verb::Why],
        file: None,
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

/// Returns every row, in the order of the help.
pub(crate) fn all() -> impl Iterator<Item = &'static Directive> {
    let served = site::ROWS.iter().chain(serve::ROWS).chain(server_limits::ROWS);
    let served = served
        .chain(server_header::ROWS)
        .chain(proxy::ROWS)
        .chain(cgi::ROWS)
        .chain(python::ROWS)
        .chain(lua::ROWS)
        .chain(php::ROWS)
        .chain(script_access::ROWS)
        .chain(tls::ROWS)
        .chain(store::ROWS);
    let served = served.chain(mount::ROWS).chain(access::ROWS).chain(supervised_program::ROWS);
    served.chain(build::ROWS).chain(command_flags::ROWS).chain(why::ROWS)
}

/// Returns the rows of the table `[[site.mount]]`.
pub(crate) fn mount_rows() -> impl Iterator<Item = &'static Directive> {
    mount::ROWS.iter()
}

/// Returns the rows about PHP that the server starts.
pub(crate) fn php_rows() -> impl Iterator<Item = &'static Directive> {
    php::ROWS.iter()
}

/// Returns the rows of one verb.
pub(crate) fn of(verb: Verb) -> impl Iterator<Item = &'static Directive> {
    all().filter(move |row| row.verbs.contains(&verb))
}

/// The syntax of a pattern.
const GLOB: &str = "*, **, ?, [a-z], {a,b}";
/// The syntax of a list of codings.
const CODINGS: &str = "gzip[:1-12] or zopfli[:1-30], br[:0-11], zstd[:1-22]; or identity";

impl Kind {
    /// Returns the word that stands for the value in help; empty for a switch.
    pub(crate) fn placeholder(&self) -> &'static str {
        match *self {
            Self::AbsolutePath => "PATH",
            Self::Account => "ACCOUNT",
            Self::Address => "ADDR",
            Self::Argument => "ARGUMENT",
            Self::Choice(_) => "WORD",
            Self::Codings | Self::Protocols => "LIST",
            Self::AltSvc | Self::FieldValue => "VALUE",
            Self::Duration { .. } => "DURATION",
            Self::Folder => "DIR",
            Self::Glob => "GLOB",
            Self::GlobCodings => "GLOB=LIST",
            Self::CanonicalHost | Self::Host => "HOST",
            Self::FieldName | Self::Header => "HEADER",
            Self::ServerName => "NAME",
            Self::Balance => "WORD",
            Self::MountPath => "PATH",
            Self::UpstreamHost => "HOST",
            Self::Origin => "ORIGIN",
            Self::Rate => "RATE",
            Self::Hsts => "AGE",
            Self::CertificatePin => "PIN",
            Self::Method => "METHOD",
            Self::LiveFolder | Self::SentFolder | Self::ScriptFolder => "[PATH=]DIR",
            Self::LuaFolder => "NAME=DIR",
            Self::PythonApplication => "[PATH=]APP",
            Self::StorePages => "[PATH=]PREFIX",
            Self::Program => "NAME=PATH",
            Self::Secret => "NAME=FILE",
            Self::IpNetwork | Self::Network => "NETWORK",
            Self::Nice => "N",
            Self::ProgramName => "NAME",
            Self::Size => "SIZE",
            Self::Variable => "NAME=VALUE",
            Self::Number { unit: "", .. } => "N",
            Self::Number { unit: "bytes", .. } => "BYTES",
            Self::Number { unit: "milliseconds", .. } => "MS",
            Self::Number { unit: "MiB", .. } => "MIB",
            Self::Number { unit: "seconds", .. } => "SECONDS",
            Self::Number { unit, .. } => unit,
            Self::Path | Self::SiteFile => "FILE",
            Self::SiteFolder => "FOLDER",
            Self::Switch => "",
            Self::Upstream => "[PATH=]URL",
            Self::UpstreamUrl => "URL",
            Self::Application => "ADDR",
            Self::UrlPath => "PATH",
        }
    }

    /// Returns the values that are allowed, as a phrase.
    pub(crate) fn bounds(&self) -> String {
        match self {
            Self::AbsolutePath => "an absolute path".to_owned(),
            Self::Account => "www-data, 33".to_owned(),
            Self::Argument => "/usr/bin/node, server.js".to_owned(),
            Self::Nice => "-20 to 19".to_owned(),
            Self::ProgramName => {
                format!("1 to {NAME_MAX_BYTES} letters, digits, -, _ or .")
            }
            Self::Size => "512K, 512M, 2G, or a number of bytes".to_owned(),
            Self::Variable => "{ PORT = \"8000\" }".to_owned(),
            Self::AltSvc => "off, h3=\":443\"; ma=86400".to_owned(),
            Self::Address => "8080, :8080, host:port, [v6]:port, unix:/path".to_owned(),
            Self::CanonicalHost => "example.org, example.org:8443".to_owned(),
            Self::Choice(words) => words.join(", "),
            Self::Codings => CODINGS.to_owned(),
            Self::Duration { min, max } => format!("{min} to {max}"),
            Self::FieldName => "X-Forwarded-For, Forwarded, X-Real-IP".to_owned(),
            Self::FieldValue => "visible ASCII".to_owned(),
            Self::Folder => "the path of a folder".to_owned(),
            Self::Glob => GLOB.to_owned(),
            Self::GlobCodings => format!("{GLOB}; = {CODINGS}"),
            Self::Header => "Name: value".to_owned(),
            Self::Origin => "https://example.org, http://localhost:3000, *".to_owned(),
            Self::Rate => "10/s, 100/min, 1000/h".to_owned(),
            Self::Method => "GET, HEAD, OPTIONS, POST or another token".to_owned(),
            Self::Host => "example.org, *.example.org, 192.0.2.1, [::1]".to_owned(),
            Self::Hsts => "off, 3600s, 180d, 1y; 1y,subdomains; 1y,subdomains,preload".to_owned(),
            Self::CertificatePin => "AB:CD:…, sha256//BASE64".to_owned(),
            Self::IpNetwork => "10.0.0.0/8, 2001:db8::/32, 192.0.2.1".to_owned(),
            Self::LiveFolder => "media, /media=/srv/app/media".to_owned(),
            Self::SentFolder => "/srv/files, /protected=/srv/files".to_owned(),
            Self::LuaFolder => "data=/srv/data, data=/srv/data:ro".to_owned(),
            Self::Program => "convert=/usr/bin/convert".to_owned(),
            Self::PythonApplication => "app:app, main.py, /api=app:app".to_owned(),
            Self::StorePages => "page:, /live=page:".to_owned(),
            Self::ScriptFolder => "/srv/cgi-bin, /run=/srv/scripts".to_owned(),
            Self::Secret => "token=/etc/pinion/token".to_owned(),
            Self::Network => "10.0.0.0/8, 2001:db8::/32, 192.0.2.1, unix".to_owned(),
            Self::Number { min, max, unit: "" } => format!("{min} to {max}"),
            Self::Number { min, max, unit } => format!("{min} to {max} {unit}"),
            Self::Path => "a path".to_owned(),
            Self::Protocols => "h1, h2, h3".to_owned(),
            Self::SiteFile => "a path below the folder".to_owned(),
            Self::SiteFolder => "a folder below that of the site, such as uploads".to_owned(),
            Self::Switch => "given or not".to_owned(),
            Self::Upstream => "http://127.0.0.1:3000, /api=http://127.0.0.1:3000".to_owned(),
            Self::UpstreamUrl => "http://127.0.0.1:3000, unix:/run/app.sock".to_owned(),
            Self::Application => {
                "unix:/run/app.sock, unix:@name, 127.0.0.1:9000, app.internal:9000".to_owned()
            }
            Self::UrlPath => "/path".to_owned(),
            Self::Balance => "least-connections, client-hash, header-hash:NAME".to_owned(),
            Self::MountPath => "/api, *.php".to_owned(),
            Self::ServerName => "app.internal, 192.0.2.1".to_owned(),
            Self::UpstreamHost => "client, upstream, app.internal".to_owned(),
        }
    }
}

#[cfg(test)]
impl DirectiveLevel {
    /// Returns the word for the reference.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Build => "Build",
            Self::Command => "Command",
            Self::Listener => "Listener",
            Self::Server => "Server",
            Self::Site => "Site",
        }
    }
}

impl Directive {
    /// Returns the values that are allowed, as a phrase.
    pub(crate) fn bounds(&self) -> String {
        match self.kind {
            // HTTP/3 needs UDP, which Unix sockets do not speak.
            Kind::Address if self.name == "quic" => "443, :443, host:port, [v6]:port".to_owned(),
            kind => kind.bounds(),
        }
    }

    /// Says whether its flag may be given again, as a sentence.
    pub(crate) fn repetition(&self) -> &'static str {
        if self.repeatable { "Can be given more than once." } else { "" }
    }

    /// Returns the effect of a changed value on a running server, for a user.
    pub(crate) fn effect(&self) -> &'static str {
        match (self.level, self.change) {
            (
                DirectiveLevel::Listener | DirectiveLevel::Server | DirectiveLevel::Site,
                TakesEffect::Restart,
            ) => "A change needs a restart; a reload does not apply it.",
            _ => "",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::directive_value_parsers;

    #[test]
    fn names_are_lower_case_and_unique() {
        for (at, row) in all().enumerate() {
            let plain = |b: u8| b.is_ascii_lowercase() || b == b'-';
            assert!(row.name.bytes().all(plain), "{}", row.name);
            assert!(!all().skip(at + 1).any(|other| other.name == row.name), "{}", row.name);
            assert!(!row.verbs.is_empty() || row.file.is_some(), "{}", row.name);
        }
    }

    #[test]
    fn one_letter_names_are_unique_in_each_verb() {
        for verb in verbs::ALL {
            let letters: Vec<char> = of(verb.verb).filter_map(|row| row.short).collect();
            for (at, letter) in letters.iter().enumerate() {
                assert!(!letters[at + 1..].contains(letter), "-{letter} of {}", verb.name);
                assert!(!['h', 'V'].contains(letter), "-{letter} belongs to clap");
            }
        }
    }

    #[test]
    fn every_row_follows_the_documentation_style() {
        for row in all() {
            assert!(!row.brief.is_empty() && !row.brief.ends_with('.'), "{}", row.name);
            assert!(row.brief.len() <= 72, "{}: {}", row.name, row.brief);
            assert!(row.long.is_empty() || row.long.ends_with('.'), "{}", row.name);
        }
    }

    /// A unit is written as in prose, and in capitals only where it stands for the value of a flag.
    #[test]
    fn units_are_words_and_placeholders_are_in_capitals() {
        for row in all().filter(|row| !row.is_switch()) {
            let placeholder = row.kind.placeholder();
            assert!(!placeholder.contains(char::is_lowercase), "{}: {placeholder}", row.name);
            let Kind::Number { unit, .. } = row.kind else { continue };
            assert_eq!(unit.is_empty(), placeholder == "N", "{}", row.name);
            assert!(["", "MiB", "bytes", "milliseconds", "seconds"].contains(&unit), "{unit}");
        }
    }

    #[test]
    fn every_default_is_a_value_of_its_own_type() {
        for row in all() {
            let is_off = matches!(row.default, Default::Off);
            // For a key without a flag, `false` may mean something else than no value.
            let is_automatic = matches!(row.default, Default::Auto(_)) && row.verbs.is_empty();
            let is_switch = is_off || (row.is_switch() && is_automatic);
            assert_eq!(is_switch, row.is_switch(), "{}", row.name);
            if let Default::Value(text) = row.default {
                assert!(
                    directive_value_parsers::check(&row.kind, text).is_ok(),
                    "{}: {text}",
                    row.name
                );
            }
        }
    }
}
