//! The names that are never served from a live folder. This is the one place that lists them; those
//! that no build publishes (`builder/src/walk/name_filter.rs`) are withheld as well.

use pinion_builder::NameFilter;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

/// Endings of files that applications and editors leave behind, and that have code, data or
/// passwords in them. Compared without regard to case.
pub(crate) const WITHHELD_SUFFIXES: [&[u8]; 12] = [
    b"~",
    b".bak",
    b".inc",
    b".ini",
    b".log",
    b".old",
    b".orig",
    b".save",
    b".sql",
    b".sqlite",
    b".sqlite3",
    b".swp",
];

/// Endings of logs and data, which names that were made of them have, too: `a.log.1`,
/// `a.log-20261128`, `a.sql.gz`, `a.sqlite-wal`.
const WITHHELD_STEMS: [&[u8]; 3] = [b".log", b".sql", b".sqlite"];

/// Logs that PHP writes to the folder of a script where its administrator has set no other one.
const WITHHELD_LOGS: [&[u8]; 2] = [b"error_log", b"php_errorlog"];

/// Endings that servers for PHP execute beside `.php`.
const PHP_SUFFIXES: [&[u8]; 4] = [b".phar", b".phps", b".pht", b".phtml"];

/// The decision about a request for a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NameVerdict {
    /// A file of this name may be served.
    Serve,
    /// It is for a mount: no live file, and the other parts of the site respond.
    PassOn,
    /// It is never served, also where nothing else responds.
    Withhold,
}

/// The rules that decide about names.
pub(crate) struct WithheldNames {
    names: NameFilter,
    /// The extensions of mounts such as `*.php`, in lower case, with their dots.
    mounted: Vec<Box<[u8]>>,
}

impl WithheldNames {
    /// Makes the rules for the names that builds of the site leave out, and for the extensions of
    /// its mounts.
    pub(crate) fn new<'e>(names: NameFilter, extensions: impl Iterator<Item = &'e str>) -> Self {
        let mounted = extensions.map(|one| one.to_ascii_lowercase().into_bytes().into()).collect();
        Self { names, mounted }
    }

    /// Decides about a decoded path, which begins with a slash.
    pub(crate) fn verdict(&self, path: &[u8]) -> NameVerdict {
        let below = path.get(1..).unwrap_or_default();
        let mut segments = below.split(|&byte| byte == b'/');
        let last = segments.next_back().unwrap_or_default();
        // `/index.php/pages/1`: the rest of the path is for the script.
        if segments.clone().any(|segment| self.is_mounted(segment)) {
            return NameVerdict::PassOn;
        }
        let path = Path::new(OsStr::from_bytes(below));
        let folder = path.parent().unwrap_or(Path::new(""));
        if !self.names.may_be_part(folder) {
            return NameVerdict::Withhold;
        }
        if below.split(|&byte| byte == b'/').any(is_withheld) && !self.names.includes(path) {
            return NameVerdict::Withhold;
        }
        // No build has sources of scripts, but a mount may respond to them.
        if !last.starts_with(b".") && self.is_mounted(last) {
            return NameVerdict::PassOn;
        }
        if !self.names.may_be_part(path) {
            return NameVerdict::Withhold;
        }
        if segments.chain([last]).any(|segment| self.is_source(segment)) {
            return NameVerdict::Withhold;
        }
        NameVerdict::Serve
    }

    fn is_mounted(&self, segment: &[u8]) -> bool {
        self.mounted.iter().any(|extension| has_extension(segment, extension))
    }

    /// Returns whether a name could be that of a source file of a mounted kind for some server, or
    /// of a copy of one: `a.PHP`, `a.php.`, `a.php5`, `a.php.txt`, `a.phtml`.
    fn is_source(&self, segment: &[u8]) -> bool {
        let name = trimmed(&segment.to_ascii_lowercase()).to_vec();
        let is_php = self.mounted.iter().any(|extension| **extension == *b".php");
        let is_kind = |suffix: &[u8]| inner_extensions(&name, suffix).any(|rest| !is_renamed(rest));
        self.mounted.iter().any(|extension| is_kind(extension))
            || is_php && PHP_SUFFIXES.iter().any(|suffix| is_kind(suffix))
    }
}

/// Returns whether a mount for an extension covers a name.
fn has_extension(name: &[u8], extension: &[u8]) -> bool {
    name.len() > extension.len() && name.ends_with(extension)
}

/// Returns the rest after an extension, for each position of a name at which the extension stands:
/// the rest may be a version, or another extension, but does not begin with a letter.
fn inner_extensions<'n>(name: &'n [u8], extension: &'n [u8]) -> impl Iterator<Item = &'n [u8]> {
    let windows = name.windows(extension.len()).enumerate();
    windows.filter(move |(_, window)| *window == extension).filter_map(move |(at, _)| {
        let rest = name.get(at + extension.len()..)?;
        (!rest.first().is_some_and(u8::is_ascii_alphabetic)).then_some(rest)
    })
}

/// Returns whether an application has made an extension harmless by a suffix after it: WordPress
/// stores an upload `a.php.jpg` as `a.php_.jpg`, which no server takes for a script.
fn is_renamed(rest: &[u8]) -> bool {
    rest.strip_prefix(b"_.").is_some_and(|extension| !extension.is_empty())
}

/// Returns a name without dots and spaces at its end: some systems take such names for the same.
fn trimmed(name: &[u8]) -> &[u8] {
    let last = name.iter().rposition(|byte| !matches!(byte, b'.' | b' '));
    last.and_then(|last| name.get(..=last)).unwrap_or_default()
}

/// Returns whether a name is withheld with any mounts. Hidden names are those of builds, too, but
/// for `.well-known`.
fn is_withheld(segment: &[u8]) -> bool {
    let lower = segment.to_ascii_lowercase();
    let name = trimmed(&lower);
    let is_log = |log: &&[u8]| {
        let rest = name.strip_prefix(*log);
        rest.is_some_and(|rest| !rest.first().is_some_and(u8::is_ascii_alphanumeric))
    };
    WITHHELD_SUFFIXES.iter().any(|suffix| name.ends_with(suffix))
        || WITHHELD_STEMS.iter().any(|stem| inner_extensions(name, stem).next().is_some())
        || WITHHELD_LOGS.iter().any(is_log)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn withheld(extensions: &[&str], include: &[&str]) -> WithheldNames {
        let include: Vec<String> = include.iter().map(|&one| one.to_owned()).collect();
        let names = NameFilter::new(&["*.psd".to_owned()], &include).expect("patterns");
        WithheldNames::new(names, extensions.iter().copied())
    }

    #[test]
    fn secrets_and_leftovers_are_withheld() {
        let names = withheld(&[], &[]);
        for path in [
            "/.env",
            "/a/.git/config",
            "/.htaccess",
            "/a.inc",
            "/a.php~",
            "/a.bak",
            "/a.BAK",
            "/dump.sql",
            "/dump.SQL.",
            "/a.log",
            "/a.log.1",
            "/a.log.2.gz",
            "/A.LOG-20261128",
            "/dump.sql.gz",
            "/a.sqlite-wal",
            "/error_log",
            "/a/error_log-20261128",
            "/php_errorlog",
            "/a.tmp",
            "/db.sqlite3",
            "/a.ini",
            "/_headers",
            "/_redirects",
            "/pinion.toml",
            "/main.lua",
            "/a.dyn.html",
            "/a.priv.txt",
            "/Thumbs.db",
            "/a.psd",
            "/backup.bak/a.png",
            "/#a#",
            "/.user.ini",
            "/a.php",
        ] {
            assert_eq!(names.verdict(path.as_bytes()), NameVerdict::Withhold, "{path}");
        }
        for path in [
            "/",
            "/a.png",
            "/a/b.html",
            "/.well-known/x",
            "/a.logo",
            "/bak",
            "/error_logs",
            "/a.logs.gz",
            "/log.1",
        ] {
            assert_eq!(names.verdict(path.as_bytes()), NameVerdict::Serve, "{path}");
        }
        let included = withheld(&[], &["*.log", "*.sql"]);
        for path in ["/a.log", "/dump.sql"] {
            assert_eq!(included.verdict(path.as_bytes()), NameVerdict::Serve, "{path}");
        }
    }

    #[test]
    fn sources_of_a_mounted_kind_are_passed_on_or_withheld() {
        let names = withheld(&[".php"], &[]);
        for path in ["/a.php", "/a/b.php", "/a.php/x", "/a.php/x.bak", "/A.php"] {
            assert_eq!(names.verdict(path.as_bytes()), NameVerdict::PassOn, "{path}");
        }
        for path in [
            "/a.PHP",
            "/a.Php",
            "/a.php.",
            "/a.php ",
            "/a.php. .",
            "/a.php5",
            "/a.phtml",
            "/a.pht",
            "/a.phar",
            "/a.PHAR",
            "/a.phps",
            "/a.php.txt",
            "/a.php.png",
            "/a.php-dist",
            "/a.php_",
            "/a.php_.",
            "/a.php_old.txt",
            "/a.php_.php.jpg",
            "/.php",
            "/a.PHP/x.png",
        ] {
            assert_eq!(names.verdict(path.as_bytes()), NameVerdict::Withhold, "{path}");
        }
        for path in ["/a.php_.jpg", "/a.phtml_.png", "/a.phpx", "/php", "/a.png", "/phar/a.png"] {
            assert_eq!(names.verdict(path.as_bytes()), NameVerdict::Serve, "{path}");
        }
        let names = withheld(&[".cgi"], &[]);
        assert_eq!(names.verdict(b"/a.cgi"), NameVerdict::PassOn);
        assert_eq!(names.verdict(b"/a.CGI"), NameVerdict::Withhold);
        assert_eq!(names.verdict(b"/a.phtml"), NameVerdict::Withhold);
    }
}
