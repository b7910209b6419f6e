//! The program PHP-FPM: where it is, and its version.

use super::limits::{VERSION_MAX_BYTES, VERSION_TIMEOUT};
use crate::server::program_output::program_output;
use anyhow::{Context as _, anyhow};
use std::env;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Folders beside those of `PATH`: that of a user often has no folders of programs for services.
const FOLDERS: [&str; 4] = ["/usr/local/sbin", "/usr/sbin", "/usr/local/bin", "/usr/bin"];

/// A PHP-FPM of this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PhpFpm {
    /// An absolute path.
    pub(super) path: PathBuf,
    /// Such as `8.2.36`.
    pub(super) version: String,
}

impl PhpFpm {
    /// Finds the program, or takes the one that is named, and asks it for its version.
    ///
    /// # Errors
    /// There is none, or it is no PHP-FPM that can be run.
    pub(super) fn find(named: Option<&Path>) -> anyhow::Result<Self> {
        let path = match named {
            Some(path) => {
                std::path::absolute(path).with_context(|| format!("{}", path.display()))?
            }
            None => search().context(
                "there is no php-fpm in PATH or /usr/sbin; install it (apt install php-fpm), or \
                 name it with --php-fpm",
            )?,
        };
        let shown = path.display();
        let printed = version_of(&path).map_err(|error| {
            anyhow!("cannot run {shown} -v: {error:#}; name another program with --php-fpm")
        })?;
        let version = parse_version(&printed).ok_or_else(|| {
            anyhow!(
                "{shown} is no php-fpm: `{shown} -v` does not say so; name another one \
                 with --php-fpm"
            )
        })?;
        Ok(Self { version: version.to_owned(), path })
    }
}

/// Returns the first program without a version in its name, else the newest one.
fn search() -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let folders = env::split_paths(&path).filter(|folder| folder.is_absolute());
    let folders: Vec<PathBuf> = folders.chain(FOLDERS.map(PathBuf::from)).collect();
    newest(&folders)
}

fn newest(folders: &[PathBuf]) -> Option<PathBuf> {
    let mut found: Vec<(Vec<u32>, PathBuf)> = Vec::new();
    for folder in folders {
        let Ok(entries) = folder.read_dir() else { continue };
        for entry in entries.flatten() {
            let name = entry.file_name();
            let version = name.to_str().and_then(version_in_name);
            if let Some(version) = version.filter(|_| is_executable(&entry.path())) {
                found.push((version, entry.path()));
            }
        }
    }
    // The first of several equal ones is that of the first folder.
    found.sort_by(|(one, _), (two, _)| two.cmp(one));
    found.into_iter().next().map(|(_, path)| path)
}

/// Returns the version in the name of a PHP-FPM: `php-fpm8.2`, `php8.2-fpm`, `php-fpm-8.2`,
/// `php-fpm82`. A name without a version is that of the administrator's choice, and comes first.
/// Returns `None` for any other name.
fn version_in_name(name: &str) -> Option<Vec<u32>> {
    let version = match name.strip_prefix("php-fpm") {
        Some("") => return Some(vec![u32::MAX]),
        Some(version) => version.strip_prefix('-').unwrap_or(version),
        None => name.strip_prefix("php")?.strip_suffix("-fpm")?,
    };
    let numbers: Option<Vec<u32>> = version.split('.').map(|part| part.parse().ok()).collect();
    match numbers?.as_slice() {
        // Alpine Linux has no point in it: 82 is 8.2.
        [number @ 10..=99] => Some(vec![number / 10, number % 10]),
        numbers => Some(numbers.to_vec()),
    }
}

fn is_executable(path: &Path) -> bool {
    let metadata = fs::metadata(path);
    metadata.is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
}

/// Returns the output of `php-fpm -v`.
fn version_of(path: &Path) -> anyhow::Result<String> {
    let mut command = Command::new(path);
    command.arg("-v").stderr(Stdio::null());
    let (_, printed) = program_output(&mut command, VERSION_TIMEOUT, VERSION_MAX_BYTES)?;
    Ok(printed)
}

/// Returns the version in the first line: `PHP 8.2.36 (fpm-fcgi) (built: …)`.
fn parse_version(printed: &str) -> Option<&str> {
    let mut words = printed.lines().next()?.strip_prefix("PHP ")?.split(' ');
    let version = words.next()?;
    (words.next()? == "(fpm-fcgi)").then_some(version)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_parsed_from_program_names() {
        for (name, expected) in [
            ("php-fpm", Some(&[u32::MAX][..])),
            ("php-fpm8.2", Some(&[8, 2])),
            ("php-fpm-8.10", Some(&[8, 10])),
            ("php8.4-fpm", Some(&[8, 4])),
            ("php-fpm82", Some(&[8, 2])),
            ("php-fpm7", Some(&[7])),
            ("php-fpm8.x", None),
            ("php-fpm.conf", None),
            ("php8.2", None),
            ("php-fpm-", None),
        ] {
            assert_eq!(version_in_name(name).as_deref(), expected, "{name}");
        }
    }

    #[test]
    fn the_newest_program_of_the_first_folder_is_found() {
        let folder = env::temp_dir().join(format!("pinion-php-fpm-{}", std::process::id()));
        let folders = [folder.join("a"), folder.join("b")];
        let add = |path: &str, mode| {
            let path = folder.join(path);
            fs::create_dir_all(path.parent().expect("a folder")).expect("made");
            fs::write(&path, "").expect("written");
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).expect("set");
        };
        assert_eq!(newest(&folders), None);
        let found = || newest(&folders).map(|path| path.strip_prefix(&folder).expect("in").into());
        add("b/php-fpm8.2", 0o755);
        add("b/php-fpm8.10", 0o755);
        add("a/php-fpm9.0", 0o644);
        assert_eq!(found(), Some(PathBuf::from("b/php-fpm8.10")));
        add("a/php8.10-fpm", 0o755);
        assert_eq!(found(), Some("a/php8.10-fpm".into()));
        add("b/php-fpm", 0o755);
        assert_eq!(found(), Some("b/php-fpm".into()));
        fs::remove_dir_all(&folder).expect("removed");
    }

    #[test]
    fn only_php_fpm_has_a_version() {
        let line = "PHP 8.2.36 (fpm-fcgi) (built: Nov 18 2026 20:02:04)\nCopyright\n";
        assert_eq!(parse_version(line), Some("8.2.36"));
        for line in ["", "PHP 8.2.36 (cli) (built: x)", "8.2 (fpm-fcgi)", "PHP 8"] {
            assert_eq!(parse_version(line), None, "{line}");
        }
    }
}
