//! A case in each of the ways to serve a site: over both interfaces of the kernel, from a folder
//! and from an archive, and over each protocol.
//!
//! Plain HTTP/1 is tested in all four corners of the first two. Each other protocol has one corner
//! for a case, and another one for another case, so that all cases together cover every corner; the
//! cases of `protocol_equivalence.rs` test every combination. `PINION_WAYS` changes this: `full`,
//! or protocols such as `h1s,h2`, which are then tested in every corner.

use crate::protocol::Protocol;
use crate::server::{Server, Start, build};
use crate::temporary_folder::Folder;
use crate::why_comparison::Served;
use std::path::Path;

/// The variable that selects the tested ways.
const OVERRIDE: &str = "PINION_WAYS";

/// The interface of the kernel that the server uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Io {
    /// `--io epoll`
    Epoll,
    /// `--io uring`
    Uring,
}

impl Io {
    /// Both, for a case about one of which no matrix is made.
    pub const BOTH: [Io; 2] = [Io::Epoll, Io::Uring];

    /// Returns the word of the flag.
    pub fn as_str(self) -> &'static str {
        match self {
            Io::Epoll => "epoll",
            Io::Uring => "uring",
        }
    }
}

/// The form of the site that the server gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// A folder, built as the server starts.
    Folder,
    /// An archive of that folder.
    Archive,
}

/// A way to serve a site.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Way {
    /// The protocol of the server.
    pub protocol: Protocol,
    /// The interface of the kernel that the server uses.
    pub io: Io,
    /// The form of the site that the server gets.
    pub form: Form,
}

/// The corners in which cases run, for any protocol.
const CORNERS: [(Io, Form); 4] = [
    (Io::Epoll, Form::Folder),
    (Io::Epoll, Form::Archive),
    (Io::Uring, Form::Folder),
    (Io::Uring, Form::Archive),
];

/// A site and the flags it is built and served with.
#[derive(Clone, Copy, Debug)]
pub struct Matrix<'a> {
    site: &'a Path,
    build: &'a [&'a str],
    serve: &'a [&'a str],
    forms: &'a [Form],
    speaks: fn(Protocol) -> bool,
    is_full: bool,
    is_explained: bool,
}

impl<'a> Matrix<'a> {
    /// Returns the matrix of a site, without flags.
    pub fn of(site: &'a Path) -> Matrix<'a> {
        Matrix {
            site,
            build: &[],
            serve: &[],
            forms: &[Form::Folder, Form::Archive],
            speaks: |_| true,
            is_full: false,
            is_explained: false,
        }
    }

    /// Adds flags for the build, wherever it happens.
    #[must_use]
    pub fn build(self, build: &'a [&'a str]) -> Matrix<'a> {
        Matrix { build, ..self }
    }

    /// Adds flags for the server.
    #[must_use]
    pub fn serve(self, serve: &'a [&'a str]) -> Matrix<'a> {
        Matrix { serve, ..self }
    }

    /// Serves from an archive alone, for the reason `_why`: the case does not depend on the
    /// creation of the site, or is impossible with a folder.
    #[must_use]
    pub fn archive_only(self, _why: &str) -> Matrix<'a> {
        Matrix { forms: &[Form::Archive], ..self }
    }

    /// Serves from a folder alone, for the reason `_why`.
    #[must_use]
    pub fn folder_only(self, _why: &str) -> Matrix<'a> {
        Matrix { forms: &[Form::Folder], ..self }
    }

    /// Uses HTTP/1 alone, plain and encrypted, for the reason `_why`: the case is about its bytes.
    #[must_use]
    pub fn http1_only(self, _why: &str) -> Matrix<'a> {
        Matrix { speaks: Protocol::is_http1, ..self }
    }

    /// Uses HTTP/1 on a bare socket alone, for the reason `_why`.
    #[must_use]
    pub fn plain_only(self, _why: &str) -> Matrix<'a> {
        Matrix { speaks: |protocol| protocol == Protocol::Http1, ..self }
    }

    /// Uses only the protocols that `speaks` accepts, for the reason `_why`.
    #[must_use]
    pub fn over(self, speaks: fn(Protocol) -> bool, _why: &str) -> Matrix<'a> {
        Matrix { speaks, ..self }
    }

    /// Tests every protocol in every corner, plain HTTP/1 first: the responses of the others are
    /// compared with its responses.
    #[must_use]
    pub fn full(self) -> Matrix<'a> {
        Matrix { is_full: true, ..self }
    }

    /// Compares each response over plain HTTP/1 with the output of `pinion why`, for a folder and
    /// for an archive, and with the explanation of the server itself.
    #[must_use]
    pub fn explained(self) -> Matrix<'a> {
        Matrix { is_explained: true, ..self }
    }

    /// Returns the ways of a case. The name of the test determines the corner of a protocol, which
    /// therefore stays the same in every run.
    fn ways(&self, test: &str, wanted: Option<&str>) -> Vec<Way> {
        let is_full = self.is_full || wanted.is_some();
        let mut protocols: Vec<Protocol> = match wanted {
            None | Some("full") => Protocol::SPOKEN.to_vec(),
            Some(words) => words.split(',').map(Protocol::named).collect(),
        };
        if self.is_full && !protocols.contains(&Protocol::Http1) {
            protocols.insert(0, Protocol::Http1);
        }
        let corners: Vec<(Io, Form)> =
            CORNERS.into_iter().filter(|(_, form)| self.forms.contains(form)).collect();
        let turn: usize = test.bytes().map(usize::from).sum();
        let mut ways = Vec::new();
        for (number, protocol) in protocols.into_iter().enumerate() {
            if !(self.speaks)(protocol) {
                continue;
            }
            let every = is_full || protocol == Protocol::Http1;
            let own = (turn + number) % corners.len();
            let taken = corners.iter().enumerate().filter(|(at, _)| every || *at == own);
            ways.extend(taken.map(|(_, &(io, form))| Way { protocol, io, form }));
        }
        ways
    }

    /// Returns the ways, for a test that starts its servers itself.
    pub fn list(&self) -> Vec<Way> {
        let wanted = std::env::var(OVERRIDE).ok();
        // Tests run on threads that have their names.
        let current = std::thread::current();
        self.ways(current.name().unwrap_or_default(), wanted.as_deref())
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
        let ways = self.list();
        if ways.iter().any(|way| way.form == Form::Archive) {
            build(self.site, &archive, self.build);
        }
        for way in ways {
            // Shown when the case fails: cargo captures what passes.
            eprintln!("{way:?}");
            let (source, flags) = match way.form {
                Form::Folder => (self.site, self.build),
                Form::Archive => (&*archive, &[][..]),
            };
            let mut start = Start::site(source).flags(flags).flags(self.serve);
            // The interface of the kernel makes no difference.
            let is_explained =
                self.is_explained && way.protocol == Protocol::Http1 && way.io == Io::Epoll;
            let served = is_explained.then(|| Served {
                source: source.to_owned(),
                flags: flags.iter().map(|&flag| flag.to_owned()).collect(),
                socket: workshop.join("control/pinion.sock"),
            });
            if let Some(served) = &served {
                start = start.flags(&served.control_flags());
            }
            case(start.explained(served).in_way(way).start());
        }
    }
}

/// Returns the ways for cases that start servers themselves: both interfaces of the kernel over
/// plain HTTP/1, and one of them over each other protocol that `speaks` accepts.
pub fn ways(speaks: fn(Protocol) -> bool) -> Vec<Way> {
    let matrix = Matrix { speaks, ..Matrix::of(Path::new("")).archive_only("no folder is given") };
    matrix.list()
}

/// Runs a case over a folder in every way, without flags.
#[track_caller]
pub fn every_way(site: &Folder, case: impl Fn(&Server)) {
    Matrix::of(site.path()).run(case);
}

/// Runs a case over a folder in every way, without flags, and compares with `pinion why`.
#[track_caller]
pub fn explained_ways(site: &Folder, case: impl Fn(&Server)) {
    Matrix::of(site.path()).explained().run(case);
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn plain_http1_runs_in_every_combination_and_other_protocols_in_one() {
        let matrix = Matrix::of(Path::new(""));
        let mut seen = HashSet::new();
        for test in ["a", "b", "c", "d"] {
            let ways = matrix.ways(test, None);
            assert_eq!(ways.len(), 4 + Protocol::SPOKEN.len() - 1);
            seen.extend(ways.into_iter().map(|way| format!("{way:?}")));
        }
        assert_eq!(seen.len(), 4 * Protocol::SPOKEN.len());
        assert_eq!(matrix.full().ways("a", None).len(), 4 * Protocol::SPOKEN.len());
    }

    #[test]
    fn a_case_can_exclude_protocols_and_forms() {
        let matrix = Matrix::of(Path::new(""));
        assert_eq!(matrix.plain_only("").ways("a", None).len(), 4);
        let archive = matrix.archive_only("").http1_only("");
        assert_eq!(archive.ways("a", Some("h1,h1s,h2,h3")).len(), 4);
        assert!(archive.ways("a", None).iter().all(|way| way.form == Form::Archive));
        assert!(matrix.http1_only("").ways("a", Some("h2")).is_empty());
        assert_eq!(
            matrix.over(|protocol| protocol != Protocol::Http3, "").ways("a", Some("h2,h3")).len(),
            4
        );
    }
}
