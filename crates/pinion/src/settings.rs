//! The command line, as meant: every value read, checked and typed, with defaults in place.

use crate::address::Address;
use crate::command_line::Low;
use crate::directives::verbs::Verb;
use crate::directives::{self, Default, Directive};
use crate::failure::Failure;
use crate::terminal::shown;
use crate::values;
use pinion_build::CodingLevel;
use std::ffi::OsStr;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::time::Duration;

/// A verb with everything it needs.
#[derive(Debug)]
pub(crate) enum Settings {
    /// `pinion build`
    Build(Build),
    /// `pinion cat`
    Cat(Cat),
    /// `pinion inspect`
    Inspect(Look),
    /// `pinion ls`
    Ls(Look),
    /// `pinion serve`
    Serve(Box<Serve>),
    /// `pinion verify`
    Verify(Look),
    /// `pinion version`
    Version {
        /// `--json`
        json: bool,
    },
}

/// `pinion build`.
#[derive(Debug)]
pub(crate) struct Build {
    /// The folder.
    pub(crate) source: PathBuf,
    /// The archive.
    pub(crate) output: PathBuf,
    /// Replace a file that is no archive.
    pub(crate) force: bool,
    /// What goes in, and how.
    pub(crate) content: Content,
    /// `--json`
    pub(crate) json: bool,
}

/// How a folder becomes an archive.
#[derive(Clone, Debug, Default)]
pub(crate) struct Content {
    /// As written; none when the flag was not given.
    pub(crate) codings: Option<Vec<CodingLevel>>,
    /// Globs over paths below the folder.
    pub(crate) exclude: Vec<String>,
    /// Field value for resources without a fingerprint.
    pub(crate) cache_control: Option<String>,
    /// Whether responses carry the security fields.
    pub(crate) security_fields: bool,
    /// Build without the files that cannot be read.
    pub(crate) keep_going: bool,
    /// Threads that compress.
    pub(crate) jobs: Option<NonZeroUsize>,
}

/// A verb that reads one archive.
#[derive(Debug)]
pub(crate) struct Look {
    /// The archive.
    pub(crate) file: PathBuf,
    /// `--json`
    pub(crate) json: bool,
}

/// `pinion cat`.
#[derive(Debug)]
pub(crate) struct Cat {
    /// The archive.
    pub(crate) file: PathBuf,
    /// A path key: raw bytes after decoding.
    pub(crate) path: Vec<u8>,
    /// A word of `--coding`.
    pub(crate) coding: &'static str,
    /// `--json`
    pub(crate) json: bool,
}

/// `pinion serve`.
#[derive(Debug)]
pub(crate) struct Serve {
    /// What to serve, as written.
    pub(crate) path: Option<PathBuf>,
    /// How a folder becomes an archive.
    pub(crate) content: Content,
    /// The flags of `content` that were given: they mean nothing for a ready archive.
    pub(crate) content_flags: Vec<&'static str>,
    /// Never empty.
    pub(crate) listen: Vec<Address>,
    /// None: one for each core.
    pub(crate) workers: Option<usize>,
    /// How to talk to the kernel.
    pub(crate) io: Io,
    /// How the archive is held.
    pub(crate) memory: Memory,
    /// Where requests are logged.
    pub(crate) access_log: Option<LogTarget>,
    /// How a line looks.
    pub(crate) log_format: LogFormat,
    /// Take up changes by itself.
    pub(crate) watch: bool,
    /// Answer every request with the same bytes.
    pub(crate) dummy: bool,
    /// How long running requests may take after SIGTERM.
    pub(crate) grace: Duration,
    /// None: from the limit on open files.
    pub(crate) max_connections: Option<u64>,
    /// None: as many as the client likes.
    pub(crate) max_requests_per_connection: Option<u32>,
    /// None: from the number of connections.
    pub(crate) memory_budget_bytes: Option<u64>,
    /// Value of the `Server` field.
    pub(crate) server_name: Option<String>,
}

/// `--io`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Io {
    /// io_uring where it works, else epoll.
    Auto,
    /// epoll.
    Epoll,
    /// io_uring or fail.
    Uring,
}

/// `--memory`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Memory {
    /// A sealed copy in memory.
    Copy,
    /// Mapped, read as needed.
    Map,
    /// Mapped, read before the first request.
    Preload,
}

/// `--access-log`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum LogTarget {
    /// Appended to, reopened on SIGHUP.
    File(PathBuf),
    /// `-`
    Stdout,
}

/// `--log-format`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LogFormat {
    /// The combined format of the common web servers.
    Combined,
    /// One JSON object in each line.
    Json,
}

impl Settings {
    /// Reads what was written.
    ///
    /// # Errors
    /// [`Failure::Usage`] that names the flag and its bounds.
    pub(crate) fn from_low(low: &Low) -> Result<Self, Failure> {
        Ok(match low.verb {
            Verb::Build => Self::Build(build(low)?),
            Verb::Cat => Self::Cat(cat(low)?),
            Verb::Inspect => Self::Inspect(look(low)?),
            Verb::Ls => Self::Ls(look(low)?),
            Verb::Serve => Self::Serve(Box::new(serve(low)?)),
            Verb::Verify => Self::Verify(look(low)?),
            Verb::Version => Self::Version { json: low.given("json") },
        })
    }
}

/// The flags that [`Content`] is made of.
const CONTENT_FLAGS: &[&str] =
    &["codings", "exclude", "cache-control", "no-security-headers", "keep-going", "jobs"];

/// An archive is written at many places of its file, which a pipe does not have.
fn output(low: &Low) -> Result<PathBuf, Failure> {
    match path(low, "output")? {
        Some(path) if path.as_os_str() == "-" => {
            Err(Failure::usage("an archive cannot go to stdout; a file of that name is ./-"))
        }
        Some(path) => Ok(path),
        None => Err(Failure::usage("say where the archive goes: -o site.pinion")),
    }
}

fn build(low: &Low) -> Result<Build, Failure> {
    Ok(Build {
        source: operand(low, "SRC")?,
        output: output(low)?,
        force: low.given("force"),
        content: content(low)?,
        json: low.given("json"),
    })
}

fn look(low: &Low) -> Result<Look, Failure> {
    Ok(Look { file: operand(low, "FILE")?, json: low.given("json") })
}

fn cat(low: &Low) -> Result<Cat, Failure> {
    let path = operand(low, "URLPATH")?.into_os_string().into_encoded_bytes();
    if path.first() != Some(&b'/') {
        let shown = shown(&path);
        return Err(Failure::usage(format!("a URLPATH begins with a slash: write /{shown}")));
    }
    Ok(Cat {
        file: operand(low, "FILE")?,
        path,
        coding: choice(low, "coding")?,
        json: low.given("json"),
    })
}

fn serve(low: &Low) -> Result<Serve, Failure> {
    refuse_without_effect(low)?;
    let path = if low.given("PATH") { Some(operand(low, "PATH")?) } else { None };
    let mut listen = Vec::new();
    for text in low.values("listen") {
        listen.push(read(row("listen"), text, Address::parse)?);
    }
    if listen.is_empty() {
        listen.push(Address::UNCONFIGURED);
    }
    Ok(Serve {
        path,
        content: content(low)?,
        content_flags: CONTENT_FLAGS.iter().copied().filter(|flag| low.given(flag)).collect(),
        listen,
        workers: number(low, "workers")?,
        io: match choice(low, "io")? {
            "epoll" => Io::Epoll,
            "uring" => Io::Uring,
            _ => Io::Auto,
        },
        memory: match choice(low, "memory")? {
            "copy" => Memory::Copy,
            "preload" => Memory::Preload,
            _ => Memory::Map,
        },
        access_log: path_or_stdout(low, "access-log")?,
        log_format: match choice(low, "log-format")? {
            "json" => LogFormat::Json,
            _ => LogFormat::Combined,
        },
        watch: low.given("watch"),
        dummy: low.given("dummy"),
        grace: Duration::from_secs(number(low, "grace")?.unwrap_or_default()),
        max_connections: number(low, "max-connections")?,
        max_requests_per_connection: number(low, "max-requests-per-connection")?,
        memory_budget_bytes: number::<u64>(low, "memory-budget")?.map(|mebibytes| mebibytes << 20),
        server_name: field_value(low, "server-name")?,
    })
}

/// Flags that would be taken in silence and do nothing.
fn refuse_without_effect(low: &Low) -> Result<(), Failure> {
    if low.given("dummy") {
        if low.given("PATH") {
            return Err(Failure::usage("--dummy serves no site; leave out PATH or --dummy"));
        }
        let mut about_a_site = ["watch", "memory"].iter().chain(CONTENT_FLAGS);
        if let Some(flag) = about_a_site.find(|flag| low.given(flag)) {
            return Err(Failure::usage(format!(
                "--{flag} has no effect with --dummy, which serves no site; leave out one of them"
            )));
        }
    }
    if low.given("log-format") && !low.given("access-log") {
        return Err(Failure::usage("--log-format has no effect without --access-log; give both"));
    }
    Ok(())
}

fn content(low: &Low) -> Result<Content, Failure> {
    let mut exclude = Vec::new();
    for glob in low.values("exclude") {
        exclude.push(read(row("exclude"), glob, |glob| Ok(glob.to_owned()))?);
    }
    Ok(Content {
        codings: single(low, "codings", values::codings)?,
        exclude,
        cache_control: field_value(low, "cache-control")?,
        security_fields: !low.given("no-security-headers"),
        keep_going: low.given("keep-going"),
        jobs: number(low, "jobs")?.and_then(NonZeroUsize::new),
    })
}

/// An operand that clap has made sure of.
fn operand(low: &Low, name: &str) -> Result<PathBuf, Failure> {
    match low.values(name).next() {
        Some(text) if !text.is_empty() => Ok(PathBuf::from(text)),
        _ => Err(Failure::usage(format!("{name} is empty"))),
    }
}

fn path(low: &Low, name: &str) -> Result<Option<PathBuf>, Failure> {
    match low.values(name).next() {
        Some(text) if text.is_empty() => Err(Failure::usage(format!("--{name} is empty"))),
        path => Ok(path.map(PathBuf::from)),
    }
}

fn path_or_stdout(low: &Low, name: &str) -> Result<Option<LogTarget>, Failure> {
    Ok(path(low, name)?.map(|path| match path.to_str() {
        Some("-") => LogTarget::Stdout,
        _ => LogTarget::File(path),
    }))
}

/// The bounds of each row make the conversion certain; see the test of all rows below.
fn number<N: TryFrom<u64>>(low: &Low, name: &'static str) -> Result<Option<N>, Failure> {
    single(low, name, |text| {
        let value = values::number(&row(name).kind, text)?;
        N::try_from(value).map_err(|_| format!("{value} is too large for this machine"))
    })
}

fn choice(low: &Low, name: &'static str) -> Result<&'static str, Failure> {
    let word = single(low, name, |text| values::choice(&row(name).kind, text))?;
    Ok(word.unwrap_or_default())
}

fn field_value(low: &Low, name: &'static str) -> Result<Option<String>, Failure> {
    single(low, name, values::field_value)
}

/// The one value of a flag: what was written, else the row's default.
fn single<T>(
    low: &Low,
    name: &'static str,
    parse: impl FnOnce(&str) -> Result<T, String>,
) -> Result<Option<T>, Failure> {
    let row = row(name);
    match (low.values(name).next(), row.default) {
        (Some(text), _) => read(row, text, parse).map(Some),
        (None, Default::Value(text)) => read(row, OsStr::new(text), parse).map(Some),
        (None, _) => Ok(None),
    }
}

fn read<T>(
    row: &Directive,
    text: &OsStr,
    parse: impl FnOnce(&str) -> Result<T, String>,
) -> Result<T, Failure> {
    let text = text.to_str().ok_or_else(|| "is not UTF-8".to_owned());
    let value = text.and_then(|text| values::check(&row.kind, text).and_then(|()| parse(text)));
    value.map_err(|error| Failure::usage(format!("--{}: {error}", row.name)))
}

/// A row of the table by its name.
fn row(name: &'static str) -> &'static Directive {
    directives::all()
        .find(|row| row.name == name)
        .expect("this file asks for rows of the table alone; the tests below ask for all of them")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command_line::{self, Asked};
    use pinion_http::coding::Coding;
    use std::ffi::OsString;

    fn settings(line: &str) -> Result<Settings, Failure> {
        match command_line::parse(line.split(' ').map(OsString::from))? {
            Asked::Run(low) => Settings::from_low(&low),
            Asked::Help(page) => panic!("{page}"),
        }
    }

    fn served(line: &str) -> Serve {
        match settings(line) {
            Ok(Settings::Serve(serve)) => *serve,
            other => panic!("{line}: {other:?}"),
        }
    }

    #[test]
    fn defaults_of_serve() {
        let serve = served("pinion serve");
        assert_eq!(serve.listen, [Address::UNCONFIGURED]);
        assert_eq!((serve.io, serve.memory), (Io::Auto, Memory::Map));
        assert_eq!(serve.log_format, LogFormat::Combined);
        assert_eq!(serve.grace, Duration::from_secs(30));
        assert_eq!((serve.workers, serve.max_connections), (None, None));
        assert_eq!((serve.access_log, serve.server_name), (None, None));
        assert!(serve.content.security_fields && serve.content_flags.is_empty());
    }

    #[test]
    fn every_flag_of_serve_is_taken() {
        let serve = served(
            "pinion serve site -l 80 --listen unix:/a --workers 3 --io epoll --memory copy \
             --access-log - --log-format json --watch --grace 5 --max-connections 9 \
             --max-requests-per-connection 7 --memory-budget 64 --server-name pinion \
             --codings br:4 --exclude a --exclude b --cache-control no-cache \
             --no-security-headers --keep-going --jobs 2",
        );
        assert_eq!(serve.path, Some("site".into()));
        assert_eq!(serve.listen, [Address::Any { port: 80 }, Address::Unix("/a".into())]);
        assert_eq!((serve.workers, serve.io, serve.memory), (Some(3), Io::Epoll, Memory::Copy));
        assert_eq!(serve.access_log, Some(LogTarget::Stdout));
        assert_eq!(serve.log_format, LogFormat::Json);
        assert!(serve.watch && !serve.dummy);
        assert_eq!(serve.grace, Duration::from_secs(5));
        assert_eq!((serve.max_connections, serve.max_requests_per_connection), (Some(9), Some(7)));
        assert_eq!(serve.memory_budget_bytes, Some(64 << 20));
        assert_eq!(serve.server_name.as_deref(), Some("pinion"));
        assert_eq!(serve.content_flags, CONTENT_FLAGS);
        let content = serve.content;
        let brotli = CodingLevel { coding: Coding::Brotli, level: 4 };
        assert_eq!(content.codings, Some(vec![brotli]));
        assert_eq!(content.exclude, ["a", "b"]);
        assert_eq!(content.cache_control.as_deref(), Some("no-cache"));
        assert_eq!((content.keep_going, content.security_fields), (true, false));
        assert_eq!(content.jobs, NonZeroUsize::new(2));
    }

    #[test]
    fn an_archive_does_not_go_to_stdout() {
        assert!(matches!(settings("pinion build src -o -"), Err(Failure::Usage(_))));
        assert!(settings("pinion build src -o ./-").is_ok());
    }

    #[test]
    fn the_other_verbs_are_taken() {
        let Ok(Settings::Build(build)) = settings("pinion build src -o out --json --force") else {
            panic!("build");
        };
        assert!(build.force);
        assert_eq!((build.source, build.output, build.json), ("src".into(), "out".into(), true));
        let Ok(Settings::Cat(cat)) = settings("pinion cat f /a --coding br") else {
            panic!("cat");
        };
        assert_eq!((cat.path.as_slice(), cat.coding, cat.json), (&b"/a"[..], "br", false));
        assert!(matches!(settings("pinion ls f"), Ok(Settings::Ls(_))));
        assert!(matches!(settings("pinion inspect f"), Ok(Settings::Inspect(_))));
        assert!(matches!(settings("pinion verify f"), Ok(Settings::Verify(_))));
        assert!(matches!(settings("pinion version"), Ok(Settings::Version { json: false })));
    }

    #[test]
    fn a_wrong_value_names_its_flag_and_bounds() {
        for (line, hint) in [
            ("pinion build src", "-o site.pinion"),
            ("pinion serve --dummy site", "leave out PATH or --dummy"),
            ("pinion serve --dummy --watch", "--watch has no effect with --dummy"),
            ("pinion serve --dummy --memory copy", "--memory has no effect with --dummy"),
            ("pinion serve --dummy -j 2", "--jobs has no effect with --dummy"),
            ("pinion serve --log-format json", "--log-format has no effect without --access-log"),
            ("pinion serve ", "PATH is empty"),
            ("pinion cat f ", "URLPATH is empty"),
            ("pinion cat f a.html", "a URLPATH begins with a slash: write /a.html"),
            ("pinion serve --listen 70000", "--listen: \"70000\" is not a port"),
            ("pinion serve --workers 0", "--workers: 0 is out of bounds: 1 to 1024"),
            ("pinion serve --workers -1", "--workers: \"-1\" is not a whole number"),
            ("pinion serve --io kqueue", "--io: \"kqueue\" is none of: auto, uring, epoll"),
            ("pinion serve --codings lzma", "--codings: \"lzma\" is not a coding"),
            ("pinion serve --access-log=", "--access-log is empty"),
            ("pinion serve --server-name=", "--server-name: \"\" is no field value"),
        ] {
            match settings(line) {
                Err(Failure::Usage(message)) => assert!(message.contains(hint), "{message}"),
                other => panic!("{line}: {other:?}"),
            }
        }
    }
}
