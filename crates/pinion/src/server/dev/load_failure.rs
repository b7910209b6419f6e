//! The reason why a site could not be loaded, shown to its developer in the browser until it can.

use super::developer_error_page::{DeveloperPage, SourceError};
use super::next_version;
use crate::failure::Failure;
use crate::served_source::ServedSource;
use std::fs;
use std::path::{Path, PathBuf};

/// Bytes of a source that is shown at most: more than people write by hand.
const SOURCE_MAX_BYTES: u64 = 4 << 20;

const RELOADS: &str = "This page reloads as soon as something of the site changes.";

/// A load that failed.
#[derive(Debug)]
pub(crate) struct LoadFailure {
    /// Later than that of the state of the site that is served meanwhile.
    pub(crate) version: u64,
    /// The page without its end.
    pub(crate) page: Vec<u8>,
    /// The message for programs: a line for each error.
    pub(crate) text: String,
}

/// The version that is served after a load that failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Meanwhile {
    /// The previous version.
    Previous,
    /// Nothing: there is no previous version.
    Nothing,
}

impl Meanwhile {
    const fn note(self) -> &'static str {
        match self {
            Self::Previous => {
                "The previous version of the site is served; only pages show this instead."
            }
            Self::Nothing => "The site is not served until this is corrected.",
        }
    }
}

/// The files that a message about a site may name: those of the site, and the rules files that lie
/// elsewhere. A script can make up a message, and no other file is shown for that.
pub(crate) struct SiteFiles<'s> {
    /// The source of the site.
    pub(crate) source: &'s ServedSource,
    /// Rules files that the settings name.
    pub(crate) named: Vec<&'s Path>,
}

impl LoadFailure {
    /// Returns the failure of a load.
    pub(crate) fn new(files: &SiteFiles<'_>, failure: &Failure, meanwhile: Meanwhile) -> Self {
        Self::of_messages(files, &failure.messages(), meanwhile)
    }

    /// Returns a failure with these messages, of which there is one at least.
    pub(crate) fn of_messages(
        files: &SiteFiles<'_>,
        messages: &[String],
        meanwhile: Meanwhile,
    ) -> Self {
        let error = |message: &String| SourceError::new(message, |name| files.read(name));
        let errors: Vec<SourceError> = messages.iter().map(error).collect();
        let subject = files.source.path().display().to_string();
        Self::with_errors(&subject, messages, &errors, meanwhile)
    }

    /// Returns the failure of a script that a worker cannot start; `read` as [`SourceError::new`].
    pub(crate) fn of_script(
        subject: &str,
        message: &str,
        read: impl Fn(&str) -> Option<String>,
        meanwhile: Meanwhile,
    ) -> Self {
        let errors = [SourceError::new(message, read)];
        Self::with_errors(subject, &[message.to_owned()], &errors, meanwhile)
    }

    fn with_errors(
        subject: &str,
        messages: &[String],
        errors: &[SourceError],
        meanwhile: Meanwhile,
    ) -> Self {
        let kind = "Cannot load the site";
        let note = format!("{} {RELOADS}", meanwhile.note());
        // The message of a script has its stack.
        let with_stack = messages.iter().filter(|message| message.contains('\n'));
        let details = with_stack.map(String::as_str).collect::<Vec<_>>().join("\n\n");
        let page = DeveloperPage { kind, subject, errors, details: &details, note: &note };
        let text = format!("{kind} {subject}:\n{}\n{}\n", messages.join("\n"), meanwhile.note());
        Self { version: next_version(), page: page.html(), text }
    }
}

impl SiteFiles<'_> {
    /// Returns the text of a file by the name that a message has for it.
    fn read(&self, name: &str) -> Option<String> {
        let path = self.find(name)?;
        let metadata = fs::metadata(&path).ok()?;
        if !metadata.is_file() || metadata.len() > SOURCE_MAX_BYTES {
            return None;
        }
        Some(String::from_utf8_lossy(&fs::read(path).ok()?).into_owned())
    }

    fn find(&self, name: &str) -> Option<PathBuf> {
        if let Some(named) = self.named.iter().find(|path| is_called(path, name)) {
            return Some(named.to_path_buf());
        }
        match self.source {
            ServedSource::Script(path) => is_called(path, name).then(|| path.clone()),
            ServedSource::Folder(folder) => find_below(folder, name),
            // An archive has no files on the disk.
            ServedSource::Archive(_) | ServedSource::Releases(_) | ServedSource::Upstream(_) => {
                None
            }
        }
    }
}

/// Returns whether a message means a path by a name. Lua shortens long names at their front.
fn is_called(path: &Path, name: &str) -> bool {
    let path = path.to_string_lossy();
    let path = path.strip_prefix("./").unwrap_or(&path);
    match name.strip_prefix("...") {
        Some(end) => !end.is_empty() && path.ends_with(end),
        None => path == name.strip_prefix("./").unwrap_or(name),
    }
}

/// Returns the file below a folder that a name means: relative to the folder, or with it. The file
/// never lies elsewhere, also when there are links.
fn find_below(folder: &Path, name: &str) -> Option<PathBuf> {
    let root = folder.canonicalize().ok()?;
    let shown = folder.to_string_lossy();
    let inside = name.strip_prefix(&*shown).unwrap_or(name).trim_start_matches('/');
    let mains = ["main.lua", "public_html/main.lua"].map(|main| folder.join(main));
    let main = mains.into_iter().find(|main| is_called(main, name));
    let inner = [folder.join(inside), folder.join("public_html").join(inside)];
    let mut paths = main.into_iter().chain(inner);
    paths.find_map(|path| {
        let found = path.canonicalize().ok()?;
        (found.starts_with(&root) && found.is_file()).then_some(found)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    struct Temporary(PathBuf);

    impl Temporary {
        fn new(name: &str) -> Self {
            let name = format!("pinion-dev-{name}-{}", std::process::id());
            let path = std::env::temp_dir().join(name);
            fs::create_dir_all(path.join("site/lib")).expect("a folder");
            Self(path)
        }
    }

    impl Drop for Temporary {
        fn drop(&mut self) {
            let _gone = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn only_files_of_the_site_are_shown() {
        let folder = Temporary::new("files");
        let site = folder.0.join("site");
        for (name, text) in [
            ("site/main.lua", "main"),
            ("site/_redirects", "rules"),
            ("site/lib/a b.lua", "module"),
            ("secret", "secret"),
            ("our-rules", "ours"),
        ] {
            fs::write(folder.0.join(name), text).expect("written");
        }
        symlink(folder.0.join("secret"), site.join("link")).expect("a link");
        let source = ServedSource::Folder(site.clone());
        let ours = folder.0.join("our-rules");
        let files = SiteFiles { source: &source, named: vec![&ours] };
        let read = |name: &str| files.read(name);
        let whole = site.join("main.lua").to_string_lossy().into_owned();
        let (_, end) = whole.split_at(whole.len() - 10);
        for (name, expected) in [
            ("main.lua", Some("main")),
            ("/main.lua", Some("main")),
            (&*whole, Some("main")),
            (&*format!("...{end}"), Some("main")),
            ("_redirects", Some("rules")),
            ("lib/a b.lua", Some("module")),
            (&*ours.to_string_lossy(), Some("ours")),
            ("link", None),
            ("../secret", None),
            ("lib", None),
            ("...", None),
            (&*folder.0.join("secret").to_string_lossy(), None),
            ("/etc/passwd", None),
        ] {
            assert_eq!(read(name).as_deref(), expected, "{name}");
        }
    }

    #[test]
    fn the_page_shows_each_error() {
        let folder = Temporary::new("page");
        fs::write(folder.0.join("site/_redirects"), "/a /b\n/c nowhere\n").expect("written");
        let source = ServedSource::Folder(folder.0.join("site"));
        let files = SiteFiles { source: &source, named: Vec::new() };
        let messages =
            ["_redirects:2:4: expected a target".to_owned(), "and another one".to_owned()];
        let failure = LoadFailure::of_messages(&files, &messages, Meanwhile::Nothing);
        assert!(failure.text.contains("\n_redirects:2:4: expected a target\nand another one\n"));
        assert!(failure.text.contains("not served until"), "{}", failure.text);
        let page = String::from_utf8(failure.page).expect("text");
        assert!(page.contains("<h1>expected a target</h1>"), "{page}");
        assert!(page.contains("<i>2</i>/c nowhere"), "{page}");
        assert!(page.contains("<h1>and another one</h1>"), "{page}");
        assert!(page.contains("not served until") && !page.contains("previous version"), "{page}");
        let later = LoadFailure::of_messages(&files, &messages, Meanwhile::Previous);
        let page = String::from_utf8(later.page).expect("text");
        assert!(page.contains("previous version of the site is served"), "{page}");
        assert!(next_version() > failure.version);
    }
}
