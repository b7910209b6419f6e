//! Python applications that flags name: each flag `--wsgi` or `--asgi` is a mount with the keys of
//! a configuration file.

use super::mount_python::application;
use super::row;
use crate::directives::Kind;
use crate::failure::Failure;
use crate::raw_settings::Low;
use crate::server::mounts::{Mount, MountPath};
use pinion_python::command_line::Interface;

/// The application of a path that was given to `pinion serve`: it is asked itself whether it is
/// WSGI or ASGI. No flag has this name.
pub(crate) const FOUND_APPLICATION: &str = "python-application";

/// Flags that say something about applications, and the keys that they are.
const OPTIONS: [(&str, &str); 7] = [
    ("python-factory", "mount-python-factory"),
    ("python-folder", "mount-python-folder"),
    ("python", "mount-python"),
    ("python-processes", "mount-python-processes"),
    ("python-threads", "mount-python-threads"),
    ("python-nice", "mount-python-nice"),
    ("python-user", "mount-python-user"),
];

/// The application of a flag, and the path that it responds to.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct PythonApplicationFlag {
    path: MountPath,
    application: String,
}

impl PythonApplicationFlag {
    /// Reads `app:app`, which responds to all paths, or `/api=app:app`.
    ///
    /// # Errors
    /// A phrase that names the fault.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let (path, application) = match text.split_once('=') {
            Some((path, application)) if path.starts_with('/') => (path, application),
            _ => ("/", text),
        };
        if application.is_empty() || application.contains('\0') {
            let bounds = Kind::PythonApplication.bounds();
            return Err(format!("{text:?} names no application: {bounds}"));
        }
        Ok(Self { path: MountPath::parse(path)?, application: application.to_owned() })
    }

    /// Returns its mount, with the values of the other flags about it.
    fn mount(self, low: &Low, interface: Interface) -> Result<Mount, Failure> {
        let mut written = Low::new(low.verb);
        let name = match interface {
            Interface::Wsgi => "mount-wsgi",
            Interface::Asgi => "mount-asgi",
            Interface::Auto => "mount-python-application",
        };
        written.set(name, vec![self.application.into()]);
        for (flag, key) in OPTIONS {
            if low.given(flag) {
                written.set(key, low.values(flag).map(ToOwned::to_owned).collect());
            }
        }
        // The keys have the names of the flags.
        let application = application(&written, &self.path, interface);
        let application = application.map_err(|fault| Failure::usage(format!("--{fault}")))?;
        Ok(Mount::of_application(self.path, application))
    }
}

/// Returns the mounts of the applications that flags name.
///
/// # Errors
/// [`Failure::Usage`]: a flag is wrong, or has no effect.
pub(super) fn python_mounts(low: &Low) -> Result<Vec<Mount>, Failure> {
    let flags = [("wsgi", Interface::Wsgi), ("asgi", Interface::Asgi)];
    let has_application = ["wsgi", "asgi", FOUND_APPLICATION].iter().any(|name| low.given(name));
    let mut options = OPTIONS.into_iter();
    if !has_application && let Some((flag, _)) = options.find(|(flag, _)| low.given(flag)) {
        return Err(Failure::usage(format!(
            "--{flag} has no effect without a Python application; add --wsgi or --asgi"
        )));
    }
    let mut mounts = Vec::new();
    for text in low.values(FOUND_APPLICATION) {
        let application = text.to_string_lossy().into_owned();
        let flag = PythonApplicationFlag { path: MountPath::root(), application };
        mounts.push(flag.mount(low, Interface::Auto)?);
    }
    for (name, interface) in flags {
        for text in low.values(name) {
            let flag = super::read(row(name), text, PythonApplicationFlag::parse)?;
            mounts.push(flag.mount(low, interface)?);
        }
    }
    Ok(mounts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_may_stand_before_the_application() {
        let parsed = |text: &str| {
            let flag = PythonApplicationFlag::parse(text).expect(text);
            (flag.path.to_string(), flag.application)
        };
        let pair = |path: &str, application: &str| (path.to_owned(), application.to_owned());
        assert_eq!(parsed("app:app"), pair("/", "app:app"));
        assert_eq!(parsed("/api=app:app"), pair("/api", "app:app"));
        assert_eq!(parsed("/srv/app.py"), pair("/", "/srv/app.py"));
        for wrong in ["", "/api=", "/a b=app"] {
            assert!(PythonApplicationFlag::parse(wrong).is_err(), "{wrong}");
        }
    }
}
