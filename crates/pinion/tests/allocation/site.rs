//! A small site, served by this process.

use std::fs;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

/// So long that only a server that hangs meets it.
const PATIENCE: Duration = Duration::from_secs(60);

/// A site and a server for it that ends with this process.
pub(crate) struct Site {
    folder: PathBuf,
    socket: PathBuf,
}

impl Site {
    /// Serves some static files.
    pub(crate) fn serve(name: &str, flags: &[&str]) -> Self {
        let files = [
            ("index.html", b"home".to_vec()),
            ("about.html", "<p>about</p>\n".repeat(100).into()),
            ("docs/index.html", b"docs".to_vec()),
            ("404.html", b"nothing here".to_vec()),
            ("middle.bin", vec![b'x'; 20_000]),
            ("large.bin", vec![b'x'; 200_000]),
        ];
        Self::serve_files(name, &files, flags)
    }

    /// Serves these files.
    pub(crate) fn serve_files(name: &str, files: &[(&str, Vec<u8>)], flags: &[&str]) -> Self {
        let id = std::process::id();
        let folder = std::env::temp_dir().join(format!("pinion-allocation-{id}-{name}"));
        for (path, content) in files {
            let path = folder.join("site").join(path);
            fs::create_dir_all(path.parent().expect("a parent")).expect("folders");
            fs::write(path, content).expect("a file");
        }
        let socket = folder.join("socket");
        let mut arguments = vec!["pinion".into(), "serve".into(), folder.join("site").into()];
        arguments.extend(["--workers", "1", "--listen"].map(Into::into));
        arguments.push(format!("unix:{}", socket.display()).into());
        arguments.extend(flags.iter().map(Into::into));
        thread::spawn(move || pinion::run(arguments.into_iter()));
        let site = Self { folder, socket };
        drop(site.connect());
        site
    }

    pub(crate) fn connect(&self) -> UnixStream {
        let began = Instant::now();
        loop {
            match UnixStream::connect(&self.socket) {
                Ok(stream) => {
                    stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
                    return stream;
                }
                Err(error) => assert!(began.elapsed() < PATIENCE, "{error}"),
            }
            thread::sleep(Duration::from_millis(10));
        }
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        let _left_for_the_system = fs::remove_dir_all(&self.folder);
    }
}
