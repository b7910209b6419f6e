//! One case in every way a site can be served: over both ways to talk to the kernel, from a folder
//! and from an archive.
//!
//! HTTP/2, HTTP/3 and TLS join here: as one more dimension of [`Way`] and a client that speaks
//! what the way says.

use crate::folder::Folder;
use crate::server::{Server, Start, build};
use std::path::Path;

/// How the server talks to the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Io {
    /// `--io epoll`
    Epoll,
    /// `--io uring`
    Uring,
}

impl Io {
    /// The word of the flag.
    pub fn as_str(self) -> &'static str {
        match self {
            Io::Epoll => "epoll",
            Io::Uring => "uring",
        }
    }
}

/// What the server is given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// A folder, built as the server starts.
    Folder,
    /// An archive of that folder.
    Archive,
}

/// One way to serve a site.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Way {
    /// How the server talks to the kernel.
    pub io: Io,
    /// What the server is given.
    pub form: Form,
}

/// Every way.
pub const WAYS: [Way; 4] = [
    Way { io: Io::Epoll, form: Form::Folder },
    Way { io: Io::Epoll, form: Form::Archive },
    Way { io: Io::Uring, form: Form::Folder },
    Way { io: Io::Uring, form: Form::Archive },
];

/// A site and the flags it is built and served with.
#[derive(Clone, Copy, Debug)]
pub struct Matrix<'a> {
    site: &'a Path,
    build: &'a [&'a str],
    serve: &'a [&'a str],
    forms: &'a [Form],
}

impl<'a> Matrix<'a> {
    /// Without flags.
    pub fn of(site: &'a Path) -> Matrix<'a> {
        Matrix { site, build: &[], serve: &[], forms: &[Form::Folder, Form::Archive] }
    }

    /// With flags for the build, wherever it happens.
    #[must_use]
    pub fn build(self, build: &'a [&'a str]) -> Matrix<'a> {
        Matrix { build, ..self }
    }

    /// With flags for the server.
    #[must_use]
    pub fn serve(self, serve: &'a [&'a str]) -> Matrix<'a> {
        Matrix { serve, ..self }
    }

    /// From an archive alone, because of `_why`: the case has nothing to do with how the site
    /// came to be, or cannot be had from a folder.
    #[must_use]
    pub fn archive_only(self, _why: &str) -> Matrix<'a> {
        Matrix { forms: &[Form::Archive], ..self }
    }

    /// From a folder alone, because of `_why`.
    #[must_use]
    pub fn folder_only(self, _why: &str) -> Matrix<'a> {
        Matrix { forms: &[Form::Folder], ..self }
    }

    /// Runs a case in every way, each with a server of its own.
    #[track_caller]
    pub fn run(self, case: impl Fn(&Server)) {
        self.run_and_stop(|server| {
            case(&server);
            server.stop();
        });
    }

    /// Runs a case that stops the server itself.
    #[track_caller]
    pub fn run_and_stop(self, case: impl Fn(Server)) {
        let workshop = Folder::new("matrix");
        let archive = workshop.join("site.pinion");
        build(self.site, &archive, self.build);
        for way in WAYS.into_iter().filter(|way| self.forms.contains(&way.form)) {
            // Shown when the case fails: cargo captures what passes.
            eprintln!("{way:?}");
            let start = match way.form {
                Form::Folder => Start::site(self.site).flags(self.build),
                Form::Archive => Start::site(&archive),
            };
            case(start.flags(self.serve).flags(&["--io", way.io.as_str()]).start());
        }
    }
}

/// Runs a case over a folder in every way, without flags.
#[track_caller]
pub fn every_way(site: &Folder, case: impl Fn(&Server)) {
    Matrix::of(site.path()).run(case);
}
