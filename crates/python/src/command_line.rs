//! The command line of a Python process.

use std::ffi::OsString;
use std::num::NonZeroU16;
use std::path::PathBuf;

/// Where a process finds its program: its descriptor 3.
pub const PROGRAM_PATH: &str = "/dev/fd/3";

/// How the server calls an application.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Interface {
    /// WSGI, as PEP 3333 defines it.
    Wsgi,
    /// ASGI, version 3.
    Asgi,
    /// The process finds out by the application which of them it is.
    Auto,
}

impl Interface {
    /// Returns the name of the interface as the program knows it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Wsgi => "wsgi",
            Self::Asgi => "asgi",
            Self::Auto => "auto",
        }
    }
}

/// An application and how a process runs it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ApplicationCommand {
    /// How the application is called.
    pub interface: Interface,
    /// `module:callable`, `path/to/file.py:callable`, or either without the callable, which is
    /// `application` or `app` then. A relative path begins at `folder`.
    pub application: OsString,
    /// The folder that modules are searched in first.
    pub folder: PathBuf,
    /// How many requests one process runs at the same time.
    pub threads: NonZeroU16,
    /// How many processes run the application: it is told whether there are several.
    pub processes: NonZeroU16,
    /// Whether the callable returns the application.
    pub is_factory: bool,
}

impl ApplicationCommand {
    /// Returns the arguments of an interpreter, without its own name. No argument has a NUL byte
    /// unless the application or the folder has one.
    #[must_use]
    pub fn arguments(&self) -> Vec<OsString> {
        let mut arguments: Vec<OsString> = vec![PROGRAM_PATH.into()];
        arguments.extend(["--interface".into(), self.interface.name().into()]);
        arguments.extend(["--folder".into(), self.folder.clone().into()]);
        arguments.extend(["--threads".into(), self.threads.to_string().into()]);
        arguments.extend(["--processes".into(), self.processes.to_string().into()]);
        if self.is_factory {
            arguments.push("--factory".into());
        }
        // An application may have a name that looks like an option.
        arguments.extend(["--".into(), self.application.clone()]);
        arguments
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_name_the_application_last() {
        let mut command = ApplicationCommand {
            interface: Interface::Wsgi,
            application: "shop.web:app".into(),
            folder: "/srv/shop".into(),
            threads: NonZeroU16::MIN,
            processes: NonZeroU16::new(2).unwrap(),
            is_factory: false,
        };
        let arguments = command.arguments();
        assert_eq!(arguments[0], PROGRAM_PATH);
        let expected =
            "--interface wsgi --folder /srv/shop --threads 1 --processes 2 -- shop.web:app";
        assert_eq!(arguments[1..].join(" ".as_ref()), expected);
        command.is_factory = true;
        assert_eq!(command.arguments()[9..], ["--factory", "--", "shop.web:app"]);
    }
}
