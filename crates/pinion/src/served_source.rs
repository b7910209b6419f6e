//! Finds the source that `pinion serve` is asked to serve, by the kind of PATH: a folder, or a file
//! with the archive's magic. A folder that `pinion publish` made stands for its current archive.
//! Configuration files and scripts are known by name, and so are addresses, so that the message
//! about them can give the right form.

use crate::directives::config_file_tables::Table;
use crate::failure::Failure;
use crate::raw_settings::Low;
use crate::releases::folder::{CURRENT, is_release_folder};
use crate::settings::{FOUND_APPLICATION, SERVER_ROWS};
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

/// Something that can be served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ServedSource {
    /// A ready archive.
    Archive(PathBuf),
    /// A folder, to be built first.
    Folder(PathBuf),
    /// A release folder: its current archive.
    Releases(PathBuf),
    /// A Lua script that makes all responses.
    Script(PathBuf),
    /// No files: other servers respond. The path is the URL of the first of them.
    Upstream(PathBuf),
}

impl ServedSource {
    /// Returns whether a flag about the content of a folder has an effect. Without files, the
    /// fields of scripts and other servers are all that there is to change.
    pub(crate) fn takes_content_flag(&self, flag: &str) -> bool {
        match self {
            Self::Folder(_) => true,
            Self::Script(_) | Self::Upstream(_) => flag == "no-security-headers",
            Self::Archive(_) | Self::Releases(_) => false,
        }
    }

    /// Returns its path, as written.
    pub(crate) fn path(&self) -> &Path {
        match self {
            Self::Archive(path)
            | Self::Folder(path)
            | Self::Releases(path)
            | Self::Script(path)
            | Self::Upstream(path) => path,
        }
    }

    /// Returns the file that is served, an archive or a script; `None` for a folder, which has to
    /// be built.
    pub(crate) fn file(&self) -> Option<PathBuf> {
        match self {
            Self::Archive(path) | Self::Script(path) => Some(path.clone()),
            Self::Folder(_) | Self::Upstream(_) => None,
            Self::Releases(path) => Some(path.join(CURRENT)),
        }
    }

    /// Returns the source of a site that has no path, if it forwards requests: the value of its
    /// first `proxy`, that of its first mount, its Python application, or its pages of the store.
    pub(crate) fn of_proxy(low: &Low) -> Option<Self> {
        let mounts = low.tables(Table::Mount).iter();
        let rows = SERVER_ROWS.iter();
        let of_mounts = mounts.flat_map(|mount| rows.clone().flat_map(|row| mount.values(row)));
        let of_python = [FOUND_APPLICATION, "wsgi", "asgi"].iter().flat_map(|row| low.values(row));
        let first = low.values("proxy").chain(of_mounts).chain(of_python);
        let first = first.chain(low.values("store-pages")).next()?;
        let first = first.to_string_lossy();
        let url = match first.split_once('=') {
            Some((path, url)) if path.starts_with('/') => url,
            _ => &first,
        };
        Some(Self::Upstream(url.into()))
    }

    /// Returns whether it is watched by default: every release is published to be served.
    pub(crate) fn is_watched(&self) -> bool {
        matches!(self, Self::Releases(_))
    }
}

/// The result for a command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum FoundSource {
    /// A configuration file, which names the sites.
    Configuration(PathBuf),
    /// The only site.
    Site(ServedSource),
}

/// The configuration file that is looked for in the current folder.
pub(crate) const CONFIGURATION: &str = "pinion.toml";

/// The environment variable that names the source to serve when no argument does.
const PUBLIC_HTML: &str = "PUBLIC_HTML";

/// Finds the kind of `path`; without one, the source that the environment names or, at last, the
/// one with our names in the current folder.
///
/// # Errors
/// [`Failure::Usage`] when it is nothing that can be served, [`Failure::Failed`] when it cannot be
/// looked at.
pub(crate) fn find(path: Option<&Path>) -> Result<FoundSource, Failure> {
    match path {
        Some(path) if is_configuration(path) => Ok(FoundSource::Configuration(path.to_owned())),
        Some(path) => recognise_among(path, Choices::WithConfiguration).map(FoundSource::Site),
        None => match std::env::var_os(PUBLIC_HTML).filter(|path| !path.is_empty()) {
            Some(path) => find_named_by_environment(Path::new(&path)),
            None => find_in(Path::new("")),
        },
    }
}

/// Finds the source that the environment names.
fn find_named_by_environment(path: &Path) -> Result<FoundSource, Failure> {
    let found = recognise(path).map(FoundSource::Site);
    let variable = format!("{PUBLIC_HTML} in the environment");
    found.map_err(|failure| match failure {
        Failure::Usage(message) => Failure::Usage(format!("{variable}: {message}")),
        Failure::Failed(error) => Failure::Failed(error.context(variable)),
        other => other,
    })
}

/// The sources that a path may name, for a message about a path that names none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Choices {
    /// Sources of a site.
    Site,
    /// A configuration file, too.
    WithConfiguration,
}

/// Returns whether a path is a configuration file by its name, unless it is a folder or an archive.
fn is_configuration(path: &Path) -> bool {
    let is_named = path.extension().is_some_and(|extension| extension == "toml");
    is_named && path.exists() && !is_dir(path) && !is_archive(path).unwrap_or(false)
}

/// Finds the kind of source at the path of a site.
///
/// # Errors
/// The errors of [`find`].
pub(crate) fn recognise(path: &Path) -> Result<ServedSource, Failure> {
    recognise_among(path, Choices::Site)
}

fn recognise_among(path: &Path, choices: Choices) -> Result<ServedSource, Failure> {
    let shown = path.display();
    if is_release_folder(path) {
        return Ok(ServedSource::Releases(path.to_owned()));
    }
    if is_dir(path) {
        return Ok(ServedSource::Folder(path.to_owned()));
    }
    if is_archive(path)
        .map_err(|e| anyhow::Error::from(e).context(format!("cannot read {shown}")))?
    {
        return Ok(ServedSource::Archive(path.to_owned()));
    }
    if is_script(path) {
        return Ok(ServedSource::Script(path.to_owned()));
    }
    let may_be_configuration = choices == Choices::WithConfiguration;
    Err(Failure::usage(match path.extension().and_then(|extension| extension.to_str()) {
        Some("toml") if path.exists() => {
            format!("{shown} is a configuration file; a site is a folder or an archive")
        }
        _ if path.to_string_lossy().contains("://") => format!(
            "{shown}: addresses are not supported yet; give a folder or an archive of this machine"
        ),
        _ if !path.exists() && names_python(&path.to_string_lossy()) => format!(
            "{shown} does not exist; for a Python application write --wsgi {shown} or --asgi \
             {shown}"
        ),
        _ if !path.exists() => {
            let advice = match choices {
                Choices::Site => "give a folder, an archive or a script",
                Choices::WithConfiguration => {
                    "give a folder, an archive, a script or a configuration file (.toml)"
                }
            };
            format!("{shown} does not exist; {advice}{}", unexpanded(path))
        }
        _ if may_be_configuration => format!(
            "{shown} is neither a folder nor a Pinion archive, a script or a configuration file; \
             the name of a script ends in `.lua`, that of a configuration file in `.toml`, and \
             `pinion build` makes an archive of a folder"
        ),
        _ => format!(
            "{shown} is neither a folder nor a Pinion archive nor a script; `pinion build` makes \
             an archive of a folder, and the name of a script ends in `.lua`"
        ),
    }))
}

/// Returns a remark about characters of a path that a shell would have replaced; an empty one for
/// any other path.
pub(crate) fn unexpanded(path: &Path) -> &'static str {
    let is_of_shell = |name: &std::ffi::OsStr| {
        let bytes = name.as_encoded_bytes();
        bytes == b"~" || bytes.starts_with(b"$")
    };
    if path.iter().any(is_of_shell) { "; ~ and $HOME are not expanded" } else { "" }
}

/// Returns whether a path is a script by its name.
pub(crate) fn is_script(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "lua") && path.exists()
}

/// Finds the source without a PATH: the current folder is never implied, only these two names in
/// it.
fn find_in(current: &Path) -> Result<FoundSource, Failure> {
    let configuration = current.join(CONFIGURATION);
    if configuration.exists() {
        return Ok(FoundSource::Configuration(configuration));
    }
    let public = current.join(PUBLIC);
    if is_dir(&public) {
        return Ok(FoundSource::Site(ServedSource::Folder(public)));
    }
    let near = OUTPUT_FOLDERS.iter().find(|name| is_dir(&current.join(name)));
    let hint = near.map_or(String::new(), |name| format!("; did you mean `pinion serve {name}`?"));
    Err(Failure::usage(format!(
        "nothing to serve: give a folder, an archive or a configuration file (there is neither \
         `pinion.toml` nor a folder `public` here){hint}"
    )))
}

/// The folder that is served without being named.
pub(crate) const PUBLIC: &str = "public";

/// Returns whether tools write finished sites to a folder of this name.
pub(crate) fn is_output(name: &str) -> bool {
    OUTPUT_FOLDERS.contains(&name)
}

/// Folders that tools write finished sites to, in the order in which they are suggested: Vite and
/// Astro, Jekyll and Eleventy, MkDocs, Docusaurus, Next.js, and names that people choose by hand.
const OUTPUT_FOLDERS: [&str; 8] =
    ["dist", "_site", "site", "build", "out", "www", "htdocs", "html"];

fn is_dir(path: &Path) -> bool {
    path.metadata().is_ok_and(|metadata| metadata.is_dir())
}

/// Returns whether a path looks like a Python application: `app:app`, `shop.wsgi:application`.
fn names_python(path: &str) -> bool {
    let is_name = |name: &str| {
        let mut parts = name.split('.');
        parts.all(|part| !part.is_empty() && part.chars().all(|c| c.is_alphanumeric() || c == '_'))
    };
    path.split_once(':').is_some_and(|(module, object)| is_name(module) && is_name(object))
}

/// Returns whether a regular file begins with the archive's magic. A file that does not exist does
/// not.
pub(crate) fn is_archive(path: &Path) -> io::Result<bool> {
    match path.metadata() {
        // Opening a pipe would wait for its other end.
        Ok(metadata) if !metadata.is_file() => return Ok(false),
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => return Err(error),
        Err(_) => return Ok(false),
        Ok(_) => {}
    }
    let mut magic = Vec::new();
    let file = File::open(path)?;
    file.take(pinion_archive::layout::MAGIC.len() as u64).read_to_end(&mut magic)?;
    Ok(magic == pinion_archive::layout::MAGIC)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Self {
            let id = std::process::id();
            let folder = std::env::temp_dir().join(format!("pinion-source-{id}-{name}"));
            fs::create_dir_all(&folder).expect("a temporary folder");
            Self(folder)
        }

        fn file(&self, name: &str, bytes: &[u8]) -> PathBuf {
            let path = self.0.join(name);
            fs::write(&path, bytes).expect("written");
            path
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _left_for_the_system = fs::remove_dir_all(&self.0);
        }
    }

    fn usage<T: std::fmt::Debug>(result: Result<T, Failure>) -> String {
        match result {
            Err(Failure::Usage(message)) => message,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn folders_and_archives_are_recognised_by_content_not_by_name() {
        let folder = Folder::new("known");
        // The magic counts, not the name.
        for name in ["site.lua", "site.toml"] {
            let magic = &pinion_archive::layout::MAGIC[..];
            let archive = folder.file(name, &[magic, b"rest"].concat());
            let found = find(Some(&archive)).expect("found");
            assert_eq!(found, FoundSource::Site(ServedSource::Archive(archive)));
        }
        let named = folder.0.join("a.toml");
        fs::create_dir(&named).expect("made");
        let found = find(Some(&named)).expect("found");
        assert_eq!(found, FoundSource::Site(ServedSource::Folder(named)));
    }

    #[test]
    fn a_configuration_is_recognised_by_its_name_and_is_not_a_site() {
        let folder = Folder::new("configuration");
        let path = folder.file("a.toml", b"x");
        assert_eq!(find(Some(&path)).expect("found"), FoundSource::Configuration(path.clone()));
        assert!(usage(recognise(&path)).contains("a site is a folder or an archive"));
        let missing = usage(find(Some(&folder.0.join("b.toml"))));
        let advice = "does not exist; give a folder, an archive, a script or a configuration file";
        assert!(missing.contains(advice), "{missing}");
        assert!(!usage(recognise(&folder.0.join("b"))).contains("configuration file"));
        let other = usage(find(Some(&folder.file("c.conf", b"x"))));
        assert!(other.contains("that of a configuration file in `.toml`"), "{other}");
    }

    #[test]
    fn unexpanded_shell_syntax_is_noted() {
        let remark = "; ~ and $HOME are not expanded";
        for (path, expected) in [
            ("etc/~/public", remark),
            ("$HOME/public", remark),
            ("~user/public", ""),
            ("a~/public$", ""),
        ] {
            assert_eq!(unexpanded(Path::new(path)), expected, "{path}");
        }
        let missing = usage(recognise(Path::new("/none/~/public")));
        assert!(missing.ends_with(remark), "{missing}");
    }

    #[test]
    fn a_path_of_the_environment_is_named_with_its_variable() {
        let missing = usage(find_named_by_environment(Path::new("/none")));
        assert!(missing.starts_with("PUBLIC_HTML in the environment: /none does not exist;"));
    }

    #[test]
    fn a_script_is_recognised_by_its_name() {
        let folder = Folder::new("script");
        let path = folder.file("a.lua", b"x");
        let found = find(Some(&path)).expect("found");
        assert_eq!(found, FoundSource::Site(ServedSource::Script(path)));
        assert!(usage(find(Some(&folder.0.join("b.lua")))).contains("does not exist"));
    }

    #[test]
    fn unsupported_sources_are_named() {
        let address = usage(find(Some(Path::new("s3://bucket/site"))));
        assert!(address.contains("addresses are not supported yet"));
    }

    #[test]
    fn anything_else_is_a_wrong_command_line() {
        let folder = Folder::new("else");
        let text = folder.file("site.pinion", b"PI");
        assert!(usage(find(Some(&text))).contains("neither a folder nor a Pinion archive"));
        assert!(usage(find(Some(&folder.0.join("none")))).contains("does not exist"));
        let python = usage(find(Some(Path::new("shop.app:create"))));
        assert!(python.ends_with("--wsgi shop.app:create or --asgi shop.app:create"), "{python}");
        let device = usage(find(Some(Path::new("/dev/null"))));
        assert!(device.contains("neither a folder"));
    }

    #[test]
    fn without_a_path_the_current_folder_is_never_implied() {
        let folder = Folder::new("implied");
        folder.file("index.html", b"x");
        assert!(usage(find_in(&folder.0)).contains("nothing to serve"));
        assert!(!usage(find_in(&folder.0)).contains("did you mean"));
        for name in OUTPUT_FOLDERS.iter().rev() {
            fs::create_dir(folder.0.join(name)).expect("made");
            let hint = format!("did you mean `pinion serve {name}`?");
            assert!(usage(find_in(&folder.0)).contains(&hint), "{name}");
        }
        fs::create_dir(folder.0.join("public")).expect("made");
        assert!(matches!(find_in(&folder.0), Ok(FoundSource::Site(ServedSource::Folder(_)))));
        let path = folder.file("pinion.toml", b"");
        assert_eq!(find_in(&folder.0).expect("found"), FoundSource::Configuration(path));
    }
}
