//! Python applications that are served by their path alone: `pinion serve app.py`, and a folder
//! with `manage.py`, which is a Django project.

use super::python_flags::FOUND_APPLICATION;
use super::{SiteSettings, optional};
use crate::failure::Failure;
use crate::raw_settings::Low;
use crate::server::python::django_settings::DjangoFolders;
use crate::warnings_and_notes;
use anyhow::anyhow;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, absolute};

/// The program of a Django project.
const MANAGE: &str = "manage.py";

/// Most bytes of `manage.py` that are read: it has some hundred.
const MANAGE_MAX_BYTES: usize = 64 * 1024;

/// The variable that names the settings of a Django project.
const SETTINGS_VARIABLE: &str = "DJANGO_SETTINGS_MODULE";

/// Returns the command line of a server whose path is a Python application, as flags would have
/// named it; `None` for any other path.
///
/// # Errors
/// [`Failure`]: the path is a Django project that cannot be served.
pub(super) fn with_found_project(low: &Low) -> Result<Option<Low>, Failure> {
    let Some(path) = optional(low, "PATH")? else { return Ok(None) };
    let named = ["wsgi", "asgi"].iter().any(|flag| low.given(flag));
    let is_file = path.extension().is_some_and(|extension| extension == "py") && path.is_file();
    let is_project = path.is_dir() && path.join(MANAGE).is_file();
    if named || !is_file && !is_project {
        return Ok(None);
    }
    let path = absolute(&path).map_err(|error| anyhow!("{}: {error}", path.display()))?;
    let mut low = low.without(&["PATH"]);
    let is_manage = path.file_name().is_some_and(|name| name == MANAGE);
    if is_project || is_manage {
        let folder = if is_project { &path } else { path.parent().unwrap_or(&path) };
        find_django(folder, &mut low)?;
    } else {
        let folder = path.parent().unwrap_or(Path::new("/")).to_owned();
        let name = path.file_name().unwrap_or_default().to_owned();
        set_unless_given(&mut low, "python-folder", folder.into());
        low.set(FOUND_APPLICATION, vec![name]);
    }
    Ok(Some(low))
}

/// Adds the settings that a Django project needs.
fn find_django(folder: &Path, low: &mut Low) -> Result<(), Failure> {
    let manage = folder.join(MANAGE);
    let text = fs::read(&manage).map_err(|error| anyhow!("{}: {error}", manage.display()))?;
    let text = text.get(..MANAGE_MAX_BYTES).unwrap_or(&text);
    let Some(module) = settings_module(&String::from_utf8_lossy(text)) else {
        return Err(Failure::usage(format!(
            "{} does not set {SETTINGS_VARIABLE}, so it is no Django project; name the \
             application with --wsgi or --asgi",
            manage.display()
        )));
    };
    let package = module.split('.').next().unwrap_or(&module);
    let is_there = |name: &str| folder.join(package).join(name).is_file();
    let (flag, application) = match (is_there("wsgi.py"), is_there("asgi.py")) {
        (false, true) => ("asgi", format!("{package}.asgi:application")),
        _ => ("wsgi", format!("{package}.wsgi:application")),
    };
    set_unless_given(low, "python-folder", folder.into());
    low.set(flag, vec![application.clone().into()]);
    // Nothing of the project runs as root.
    SiteSettings::from_low(low)?;
    let folders = DjangoFolders::ask(low, folder, &module)?;
    let mut live: Vec<OsString> = low.values("live").map(ToOwned::to_owned).collect();
    let mut words = Vec::new();
    for (kind, found) in [("static", folders.static_files), ("media", folders.media)] {
        let Some((url, path)) = found else { continue };
        if !Path::new(&path).is_dir() {
            let advice = match kind {
                "static" => "; make it with `python manage.py collectstatic`",
                _ => "",
            };
            warnings_and_notes::note(format_args!(
                "the {kind} files of the Django project are not served: there is no folder \
                 {path}{advice}"
            ));
            continue;
        }
        words.push(format!("{url} from {path}"));
        live.push(format!("{url}={path}").into());
    }
    if !live.is_empty() {
        low.set("live", live);
    }
    let files = if words.is_empty() { "no files".to_owned() } else { words.join(", ") };
    warnings_and_notes::note(format_args!("Django project: {flag} {application}, {files}"));
    Ok(())
}

fn set_unless_given(low: &mut Low, name: &'static str, value: OsString) {
    if !low.given(name) {
        low.set(name, vec![value]);
    }
}

/// Returns the module that the text of `manage.py` sets as that of the settings.
fn settings_module(text: &str) -> Option<String> {
    let (_, rest) = text.split_once(SETTINGS_VARIABLE)?;
    let rest = rest.get(1..)?.trim_start().strip_prefix([',', ']'])?;
    let rest = rest.trim_start().trim_start_matches('=').trim_start();
    let quote = rest.chars().next().filter(|quote| matches!(quote, '"' | '\''))?;
    let (module, _) = rest.get(1..)?.split_once(quote)?;
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.');
    (!module.is_empty() && module.bytes().all(is_name)).then(|| module.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_settings_of_a_django_project_are_named_by_its_manage_py() {
        for (text, expected) in [
            (
                "os.environ.setdefault('DJANGO_SETTINGS_MODULE', 'shop.settings')",
                Some("shop.settings"),
            ),
            ("os.environ.setdefault(\n  \"DJANGO_SETTINGS_MODULE\",\n \"a.b.c\")", Some("a.b.c")),
            ("os.environ['DJANGO_SETTINGS_MODULE'] = \"shop.settings\"", Some("shop.settings")),
            ("os.environ.setdefault('DJANGO_SETTINGS_MODULE', name)", None),
            ("os.environ.setdefault('DJANGO_SETTINGS_MODULE', 'a b')", None),
            ("DJANGO_SETTINGS_MODULE", None),
            ("print('no project')", None),
        ] {
            assert_eq!(settings_module(text).as_deref(), expected, "{text}");
        }
    }
}
