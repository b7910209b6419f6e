//! The settings of a command, from their written form: every value read, checked and typed, with
//! defaults in place.

mod build;
mod cgi_flags;
mod diff_extract_import;
mod listeners_and_tls;
mod live_folder;
mod lua;
mod mount;
mod mount_cgi;
mod mount_fastcgi_scgi;
mod mount_python;
mod php;
mod python_flags;
mod python_project;
mod releases;
mod script_access;
mod sendfile_folder;
mod serve;
mod site;
mod site_access;
mod store;
mod supervised_program;
mod why;

use crate::cidr_network::Network;
use crate::control::protocol::ServerCommand;
use crate::directive_value_parsers::{self, http_values};
use crate::directives::verbs::Verb;
use crate::directives::{self, Default, Directive};
use crate::failure::Failure;
use crate::raw_settings::Low;
use crate::terminal::shown;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

pub(crate) use build::{Build, BuildSettings, NamedSources, content_flags};
pub(crate) use cgi_flags::ScriptFolderFlag;
pub(crate) use diff_extract_import::{Diff, Extract, Import};
pub(crate) use listeners_and_tls::{
    AltSvc, CanonicalHost, CertificateFiles, Certificates, LISTEN_KINDS, Listen, ListenKind,
    SelfSignedKey, Spoken, TlsSettings, without_effect,
};
pub(crate) use live_folder::{LiveFolder, LiveFolderLocation, live_folders};
pub(crate) use lua::{LuaSettings, Run};
pub(crate) use mount::{MountFault, mount, mount_with};
pub(crate) use mount_cgi::CgiMount;
pub(crate) use mount_fastcgi_scgi::SERVER_ROWS;
pub(crate) use mount_python::{ProcessLimits, PythonMount, PythonSettings};
pub(crate) use php::{INDEX as PHP_INDEX, PhpSettings, php_wish};
pub(crate) use python_flags::{FOUND_APPLICATION, PythonApplicationFlag};
pub(crate) use releases::{Publish, Releases, Rollback};
pub(crate) use script_access::{ProgramFile, ScriptAccess, SecretFile};
pub(crate) use sendfile_folder::SentFolder;
pub(crate) use serve::{
    ControlSetting, Dummy, HealthCheck, Io, LogFormat, LogTarget, Serve, ServedContent,
};
pub(crate) use site::{MemoryMode, SiteSettings};
pub(crate) use site_access::{AccessTable, SiteAccess, access_faults, access_tables_faults};
pub(crate) use supervised_program::{
    ProgramFault, check_program_files, default_variables, supervised_program,
};
pub(crate) use why::{ExplainedServer, Why};

/// A verb with everything it needs.
#[derive(Debug)]
pub(crate) enum Settings {
    /// `pinion build`
    Build(Build),
    /// `pinion cat`
    Cat(Cat),
    /// `pinion check`
    Check(Check),
    /// `pinion completions`
    Completions {
        /// The word for it, as written.
        shell: String,
    },
    /// A command for a running server.
    Control(ControlCommand),
    /// `pinion diff`
    Diff(Diff),
    /// `pinion extract`
    Extract(Extract),
    /// `pinion import`
    Import(Import),
    /// `pinion inspect`
    Inspect(Look),
    /// `pinion ls`
    Ls(Look),
    /// `pinion man`
    Man {
        /// A verb or a file; none for the program itself.
        page: Option<String>,
    },
    /// `pinion publish`
    Publish(Publish),
    /// `pinion releases`
    Releases(Releases),
    /// `pinion rollback`
    Rollback(Rollback),
    /// `pinion run`
    Run(Run),
    /// `pinion serve`
    Serve(Box<Serve>),
    /// `pinion store`
    Store(Box<Serve>),
    /// `pinion verify`
    Verify(Look),
    /// `pinion version`
    Version {
        /// `--sbom`
        sbom: bool,
        /// `--json`
        json: bool,
    },
    /// `pinion why`
    Why(Why),
}

/// `pinion check`.
#[derive(Debug)]
pub(crate) struct Check {
    /// A configuration file or a folder. None: the file in the current folder.
    pub(crate) path: Option<PathBuf>,
    /// The content settings of a folder: only those about its rules files.
    pub(crate) content: BuildSettings,
    /// The flags about a folder that were given.
    pub(crate) folder_flags: Vec<&'static str>,
    /// `--json`
    pub(crate) json: bool,
}

impl Check {
    /// Refuses the flags about a folder where they would be taken in silence and do nothing. `why`
    /// follows the name of the checked path.
    ///
    /// # Errors
    /// [`Failure::Usage`] that names the first of them.
    pub(crate) fn refuse_folder_flags(&self, path: &Path, why: &str) -> Result<(), Failure> {
        let Some(flag) = self.folder_flags.first() else { return Ok(()) };
        let shown = path.display();
        Err(Failure::usage(format!("--{flag} has no effect on {shown}, {why}")))
    }
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

/// `pinion status`, `pinion reload` and the like.
#[derive(Debug)]
pub(crate) struct ControlCommand {
    pub(crate) command: ServerCommand,
    /// The socket of the server; `None`: the only one that is found.
    pub(crate) socket: Option<PathBuf>,
    /// `--json`
    pub(crate) json: bool,
}

impl ControlCommand {
    fn from_low(low: &Low, command: ServerCommand) -> Result<Self, Failure> {
        Ok(Self { command, socket: path(low, "socket")?, json: low.given("json") })
    }
}

impl Settings {
    /// Reads the settings of a command from their written form.
    ///
    /// # Errors
    /// [`Failure::Usage`] that names the flag and its bounds.
    pub(crate) fn from_low(low: &Low) -> Result<Self, Failure> {
        Ok(match low.verb {
            Verb::Build => Self::Build(build::build(low)?),
            Verb::Cat => Self::Cat(cat(low)?),
            Verb::Check => Self::Check(check(low)?),
            Verb::Completions => Self::Completions { shell: word(&operand(low, "SHELL")?) },
            Verb::Diff => Self::Diff(diff_extract_import::diff(low)?),
            Verb::Drain => Self::Control(ControlCommand::from_low(low, ServerCommand::Drain)?),
            Verb::Extract => Self::Extract(diff_extract_import::extract(low)?),
            Verb::Import => Self::Import(diff_extract_import::import(low)?),
            Verb::Inspect => Self::Inspect(look(low)?),
            Verb::Ls => Self::Ls(look(low)?),
            Verb::Man => Self::Man { page: optional(low, "PAGE")?.as_deref().map(word) },
            Verb::Publish => Self::Publish(releases::publish(low)?),
            Verb::Releases => Self::Releases(releases::releases(low)?),
            Verb::Reload => Self::Control(ControlCommand::from_low(low, ServerCommand::Reload)?),
            Verb::ReopenLogs => {
                Self::Control(ControlCommand::from_low(low, ServerCommand::ReopenLogs)?)
            }
            Verb::Rollback => Self::Rollback(releases::rollback(low)?),
            Verb::Run => Self::Run(lua::run(low)?),
            Verb::Serve => Self::Serve(Box::new(serve::serve(low)?)),
            Verb::Status => Self::Control(ControlCommand::from_low(low, ServerCommand::Status)?),
            Verb::Stop => Self::Control(ControlCommand::from_low(low, ServerCommand::Stop)?),
            Verb::Store => Self::Store(Box::new(store::store_only(low)?)),
            Verb::Verify => Self::Verify(look(low)?),
            Verb::Why => Self::Why(why::why(low)?),
            Verb::Version => Self::Version { sbom: low.given("sbom"), json: low.given("json") },
        })
    }
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

/// Returns a required operand, which clap has made sure of, if it is not empty.
fn operand(low: &Low, name: &str) -> Result<PathBuf, Failure> {
    match low.values(name).next() {
        Some(text) if !text.is_empty() => Ok(PathBuf::from(text)),
        _ if name == "PATH" => Err(Failure::usage(
            "the path is empty; give a folder, an archive or a configuration file",
        )),
        _ => {
            let help = format!("`pinion {} --help`", low.verb.row().name);
            Err(Failure::usage(format!("{name} is empty; {help} shows how it is written")))
        }
    }
}

/// Reads `pinion check`, whose operand may be missing.
fn check(low: &Low) -> Result<Check, Failure> {
    let content = BuildSettings {
        rules: paths(low, "rules")?,
        fields: paths(low, "fields")?,
        lax_rules: low.given("lax-rules"),
        ..BuildSettings::default()
    };
    let folder_flags = content_flags().filter(|flag| low.given(flag)).collect();
    let (path, json) = (optional(low, "PATH")?, low.given("json"));
    Ok(Check { path, content, folder_flags, json })
}

fn optional(low: &Low, name: &str) -> Result<Option<PathBuf>, Failure> {
    low.given(name).then(|| operand(low, name)).transpose()
}

/// Returns an operand that is one of few words; a text that is not Unicode is none of them.
fn word(text: &Path) -> String {
    text.to_string_lossy().into_owned()
}

fn path(low: &Low, name: &str) -> Result<Option<PathBuf>, Failure> {
    match low.values(name).next() {
        Some(text) if text.is_empty() => {
            Err(Failure::usage(format!("--{name} is empty; give a path")))
        }
        path => Ok(path.map(PathBuf::from)),
    }
}

fn paths(low: &Low, name: &str) -> Result<Vec<PathBuf>, Failure> {
    let path = |text: &OsStr| {
        if text.is_empty() {
            Err(Failure::usage(format!("--{name} is empty; give a path")))
        } else {
            Ok(PathBuf::from(text))
        }
    };
    low.values(name).map(path).collect()
}

fn path_or_stdout(low: &Low, name: &str) -> Result<Option<LogTarget>, Failure> {
    Ok(path(low, name)?.map(|path| match path.to_str() {
        Some("-") => LogTarget::Stdout,
        _ => LogTarget::File(path),
    }))
}

/// Reads a number. The bounds of each row make the conversion certain; see the test of all rows
/// below.
fn number<N: TryFrom<u64>>(low: &Low, name: &'static str) -> Result<Option<N>, Failure> {
    single(low, name, |text| {
        let value = directive_value_parsers::number(&row(name).kind, text)?;
        N::try_from(value).map_err(|_| format!("{value} is too large for this machine"))
    })
}

fn choice(low: &Low, name: &'static str) -> Result<&'static str, Failure> {
    let word = single(low, name, |text| directive_value_parsers::choice(&row(name).kind, text))?;
    Ok(word.unwrap_or_default())
}

fn field_value(low: &Low, name: &'static str) -> Result<Option<String>, Failure> {
    single(low, name, http_values::field_value)
}

/// Returns the one value of a flag: the written one, or else the row's default.
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

fn networks(low: &Low, name: &'static str) -> Result<Vec<Network>, Failure> {
    low.values(name).map(|text| read(row(name), text, Network::parse)).collect()
}

fn read<T>(
    row: &Directive,
    text: &OsStr,
    parse: impl FnOnce(&str) -> Result<T, String>,
) -> Result<T, Failure> {
    let text = text.to_str().ok_or_else(|| "is not UTF-8".to_owned());
    let value = text.and_then(|text| {
        directive_value_parsers::check(&row.kind, text).and_then(|()| parse(text))
    });
    value.map_err(|error| Failure::usage(format!("--{}: {error}", row.name)))
}

/// Returns a row of the table by its name.
fn row(name: &'static str) -> &'static Directive {
    directives::all()
        .find(|row| row.name == name)
        .expect("this file asks for rows of the table alone; the tests below ask for all of them")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command_line::{self, ParsedCommand};
    use pinion_builder::CodingLevel;
    use std::ffi::OsString;

    fn settings(line: &str) -> Result<Settings, Failure> {
        match command_line::parse(line.split(' ').map(OsString::from))? {
            ParsedCommand::Run(low) => Settings::from_low(&low),
            ParsedCommand::Help(page) => panic!("{page}"),
        }
    }

    #[test]
    fn a_level_is_that_of_the_codings_without_one() {
        for (flags, expected) in [
            ("", None),
            (" --level fast", Some("gzip:1 br:4")),
            (" --level max", Some("gzip:12 br:11")),
            (" --codings gzip,br:3", Some("gzip:6 br:3")),
            (" --codings gzip,br:3 --level max", Some("gzip:12 br:3")),
            (" --codings identity --level max", Some("")),
        ] {
            let Ok(Settings::Build(build)) = settings(&format!("pinion build src -o out{flags}"))
            else {
                panic!("{flags}");
            };
            let text = |codings: Vec<CodingLevel>| {
                codings.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")
            };
            assert_eq!(build.content.codings.map(text).as_deref(), expected, "{flags}");
            assert!(build.reuse && build.reuse_from.is_empty());
        }
        let line = "pinion build src -o out --reuse a --reuse b --no-reuse";
        let Ok(Settings::Build(build)) = settings(line) else { panic!("{line}") };
        assert_eq!((build.reuse, build.reuse_from.len()), (false, 2));
    }

    #[test]
    fn an_archive_is_not_written_to_stdout() {
        assert!(matches!(settings("pinion build src -o -"), Err(Failure::Usage(_))));
        assert!(settings("pinion build src -o ./-").is_ok());
    }

    #[test]
    fn the_other_verbs_are_parsed() {
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
        let version = settings("pinion version --sbom");
        assert!(matches!(version, Ok(Settings::Version { sbom: true, json: false })));
    }

    #[test]
    fn a_wrong_value_names_its_flag_and_bounds() {
        for (line, hint) in [
            ("pinion build src", "-o site.pinion"),
            ("pinion serve --dummy site", "leave out PATH or --dummy"),
            ("pinion serve --dummy --watch", "--watch has no effect with --dummy"),
            ("pinion serve --dummy --memory copy", "--memory has no effect with --dummy"),
            ("pinion serve --dummy -j 2", "--jobs has no effect with --dummy"),
            ("pinion serve --dummy-empty site", "leave out PATH or --dummy-empty"),
            ("pinion serve --dummy-empty --watch", "--watch has no effect with --dummy-empty"),
            (
                "pinion serve --dummy-empty --dummy-bytes 1",
                "--dummy-bytes has no effect with --dummy-empty",
            ),
            (
                "pinion serve --dummy --access-log - --dummy-delay 1s",
                "--access-log has no effect with --dummy-delay",
            ),
            ("pinion serve --dummy-delay 1s", "--dummy-delay goes with --dummy; add it"),
            (
                "pinion serve --dummy --dummy-delay 60",
                "--dummy-delay: \"60\" is not a duration: 1ms to 60s",
            ),
            ("pinion serve ", "the path is empty; give a folder, an archive or a"),
            ("pinion cat f ", "URLPATH is empty; `pinion cat --help` shows how it is written"),
            ("pinion cat f a.html", "a URLPATH begins with a slash: write /a.html"),
            ("pinion serve --listen 70000", "--listen: \"70000\" is not a port"),
            ("pinion serve --workers 0", "--workers: 0 is out of bounds: 1 to 1024"),
            ("pinion serve --workers -1", "--workers: \"-1\" is not a whole number"),
            ("pinion serve --io kqueue", "--io: \"kqueue\" is none of: auto, uring, epoll"),
            ("pinion serve --codings lzma", "--codings: \"lzma\" is not a coding"),
            ("pinion build a -o b --codings gzip,zopfli", "both make gzip"),
            ("pinion build a -o b --codings br:9 --level max", "--level has no effect"),
            ("pinion build a -o b --level slow", "--level: \"slow\" is none of: fast, best, max"),
            (
                "pinion build a -o b --codings-for *.svg",
                "--codings-for: \"*.svg\" is not GLOB=LIST",
            ),
            ("pinion build a -o b --reuse=", "--reuse is empty; give a path"),
            ("pinion serve --access-log=", "--access-log is empty; give a path"),
            ("pinion serve --server-name=", "--server-name: the value is empty; give one"),
        ] {
            match settings(line) {
                Err(Failure::Usage(message)) => assert!(message.contains(hint), "{message}"),
                other => panic!("{line}: {other:?}"),
            }
        }
    }
}
