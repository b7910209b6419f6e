//! The folders with files that the settings of a Django project name. Django itself is asked, as
//! settings are a program.

use super::interpreter;
use super::limits::{DJANGO_RESPONSE_MAX_BYTES, DJANGO_TIMEOUT};
use crate::failure::Failure;
use crate::raw_settings::Low;
use crate::server::program_output::program_output;
use crate::settings::default_variables;
use anyhow::{Context as _, anyhow};
use pinion_spawner::accounts::Accounts;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf, absolute};
use std::process::Command;

/// The question: each line of the output is a response.
const QUESTION: &str = "\
import sys
sys.path.insert(0, '.')
from django.conf import settings as s
def local(url):
    return url if url and url.startswith('/') and url.strip('/') else ''
for url, root in ((s.STATIC_URL, s.STATIC_ROOT), (s.MEDIA_URL, s.MEDIA_ROOT)):
    print('pinion:', local(url) if root else '', root or '', sep='\\t')
";

/// The folders, each with its path in URLs; `None` for one that the settings do not name.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct DjangoFolders {
    pub(crate) static_files: Option<(String, String)>,
    pub(crate) media: Option<(String, String)>,
}

impl DjangoFolders {
    /// Asks Django about the project in a folder, as the user that flags name for applications.
    ///
    /// # Errors
    /// There is no Python or no Django, or the settings cannot be loaded.
    pub(crate) fn ask(low: &Low, folder: &Path, settings: &str) -> Result<Self, Failure> {
        let named = low.values("python").next().map(PathBuf::from);
        let named = named.map(absolute).transpose().context("--python")?;
        let interpreter = interpreter::find(named.as_deref(), folder)?;
        let mut command = Command::new(&interpreter);
        command.args(["-c", QUESTION]).current_dir(folder).env_clear();
        command.envs(default_variables(false)).env("DJANGO_SETTINGS_MODULE", settings);
        if let Some(user) = low.values("python-user").next().and_then(|user| user.to_str()) {
            let wrong = |error| Failure::usage(format!("--python-user: {error}"));
            let identity = Accounts::read().map_err(wrong)?.identity(user, None).map_err(wrong)?;
            command.uid(identity.uid).gid(identity.gid);
        }
        let output = program_output(&mut command, DJANGO_TIMEOUT, DJANGO_RESPONSE_MAX_BYTES);
        let output = output.and_then(|(status, output)| {
            if status.success() { Ok(output) } else { Err(anyhow!("{status}; the error is above")) }
        });
        let output = output.map_err(|error| {
            anyhow!(
                "cannot ask the Django project in {} for its settings with {}: {error:#}",
                folder.display(),
                interpreter.display()
            )
        })?;
        Ok(Self::parse(&output, folder))
    }

    fn parse(output: &str, folder: &Path) -> Self {
        let responses = output.lines().filter_map(|line| line.strip_prefix("pinion:\t"));
        let mut responses = responses.map(|response| {
            let (url, root) = response.split_once('\t')?;
            let url = url.trim_end_matches('/');
            let root = folder.join(root).to_str()?.to_owned();
            (!url.is_empty()).then(|| (url.to_owned(), root))
        });
        Self { static_files: responses.next().flatten(), media: responses.next().flatten() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_parsed_among_other_output() {
        let output = "hello\npinion:\t/static/\t/srv/static\npinion:\t\t/srv/media\n";
        let found = DjangoFolders::parse(output, Path::new("/srv"));
        let expected = Some(("/static".to_owned(), "/srv/static".to_owned()));
        assert_eq!(found, DjangoFolders { static_files: expected, media: None });
        let output = "pinion:\t\t\npinion:\t/a/media/\tmedia/\n";
        let found = DjangoFolders::parse(output, Path::new("/srv"));
        assert_eq!(found.media, Some(("/a/media".to_owned(), "/srv/media/".to_owned())));
        assert_eq!(DjangoFolders::parse("", Path::new("/")), DjangoFolders::default());
    }
}
