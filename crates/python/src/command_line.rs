//! The command line of a Python process.

use std::ffi::OsString;
use std::num::NonZeroU16;
use std::path::PathBuf;

/// The path of the program in its process: descriptor 3.
pub const PROGRAM_PATH: &str = "/dev/fd/3";

/// The interface between the server and an application.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Interface {
    /// WSGI, as PEP 3333 defines it.
    Wsgi,
    /// ASGI, version 3.
    Asgi,
    /// The process detects the interface from the application.
    Auto,
}

impl Interface {
    /// Returns the name of the interface in the arguments of the program.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Wsgi => "wsgi",
            Self::Asgi => "asgi",
            Self::Auto => "auto",
        }
    }
}

/// An application, with the settings of the processes that run it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ApplicationCommand {
    /// The interface of the application.
    pub interface: Interface,
    /// `module:callable`, `path/to/file.py:callable`, or either without the callable, which is
    /// `application` or `app` then. A relative path begins at `folder`.
    pub application: OsString,
    /// The folder in which modules are searched first.
    pub folder: PathBuf,
    /// The number of requests that one process runs at the same time.
    pub threads: NonZeroU16,
    /// The number of processes that run the application. The application can see whether there is
    /// more than one.
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
        // The name of an application may look like an option, so `--` ends the options.
        arguments.extend(["--".into(), self.application.clone()]);
        arguments
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_application_is_the_last_argument() {
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
