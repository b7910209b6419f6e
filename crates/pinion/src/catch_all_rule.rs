//! Finds a rule of an archive that responds to every path, where another server is to respond to
//! paths that the site lacks. In a folder the build finds it.

use crate::failure::Failure;
use anyhow::anyhow;
use pinion_archive::layout::FILE_PREFIX;
use pinion_archive::{Archive, Damage};
use pinion_builder::rules::archived_rules::KeptRules;
use std::path::Path;

/// Checks that an archive leaves something for the server of the mount `/`. `path` is its file.
///
/// # Errors
/// The rule that leaves nothing, or damage.
pub(crate) fn check(archive: &Archive<'_>, path: &Path) -> Result<(), Failure> {
    let shown = path.display();
    let found = find(archive).map_err(|damage| anyhow!("{shown} is damaged: {damage}"))?;
    let Some((file, line)) = found else { return Ok(()) };
    Err(anyhow!(
        "{shown}: {file}:{line}:1: the rule responds to every path and leaves nothing for the \
         server of the mount /; build the archive without it, or give the mount another path"
    )
    .into())
}

/// Returns the file and the line of such a rule.
fn find(archive: &Archive<'_>) -> Result<Option<(String, usize)>, Damage> {
    let (mut files, mut entries) = (Vec::new(), archive.entries());
    while let Some(entry) = entries.next_entry()? {
        let Some(key) = entry.path().strip_prefix(FILE_PREFIX) else { continue };
        let form = entry.representations().next();
        let text = form.map(|form| archive.body(&form)).transpose()?.flatten();
        files.push((key.to_vec(), text.unwrap_or_default().to_vec()));
    }
    let kept = KeptRules::parse(files.iter().map(|(key, text)| (&**key, &**text)));
    let rule = kept.rewrite_of_everything();
    Ok(rule.map(|rule| (rule.file.display().to_string(), rule.line)))
}
