//! The control socket of a server: its path, and how it is bound. Only the user of the server and
//! root can open the socket and its folder.

use crate::failure::{Failure, without_number};
use crate::server::socket_files::SocketFiles;
use crate::settings::ControlSetting;
use crate::{state_folder, warnings_and_notes};
use anyhow::anyhow;
use pinion_engine::listener::{bind_unix_private, is_stale_unix};
use rustix::fs::{FlockOperation, Mode, OFlags, flock, open};
use rustix::process::geteuid;
use std::fs::{self, DirBuilder, Metadata};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

/// The name of the socket of the first server; that of another one has its process number in it.
const NAME: &str = "pinion.sock";

/// Folders of the units of systemd that come with Pinion, for commands that run outside of them.
const UNIT_FOLDERS: [&str; 2] = ["/run/pinion/control", "/run/pinion-apps/control"];

/// Binds the control socket of this server, unless it is to have none. Its file is added to
/// `files`.
///
/// # Errors
/// [`Failure::Failed`]: it cannot listen on the path that `--control` names. If the default path
/// cannot be used, this is logged, and the server has no control socket.
pub(crate) fn bind(
    setting: &ControlSetting,
    files: &SocketFiles,
) -> Result<Option<OwnedFd>, Failure> {
    match setting {
        ControlSetting::Off => Ok(None),
        ControlSetting::At(path) => {
            let cannot = |why: String| -> Failure {
                anyhow!("cannot listen on the control socket {}: {why}", path.display()).into()
            };
            match bind_at(path, files) {
                Ok(bound) => Ok(Some(bound)),
                Err(error) if error.kind() == io::ErrorKind::AddrInUse => Err(cannot(
                    "another server listens there already, or it is no socket; choose another \
                     path with --control, or stop the other server"
                        .to_owned(),
                )),
                Err(error) => Err(cannot(format!(
                    "{}; choose another path with --control, or `off`",
                    without_number(&error.to_string())
                ))),
            }
        }
        ControlSetting::Found => Ok(bind_found(files)),
    }
}

/// Binds in the folder that the service manager or the session has for that.
fn bind_found(files: &SocketFiles) -> Option<OwnedFd> {
    let folder = own_folder()?;
    let first = folder.join(NAME);
    // Without this, `pinion status` finds more than there is; that keeps no server from starting.
    let _removed = remove_stale(&folder);
    let bound = match bind_at(&first, files) {
        Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
            let own = folder.join(format!("pinion-{}.sock", std::process::id()));
            let bound = bind_at(&own, files);
            if bound.is_ok() {
                warnings_and_notes::note(format_args!(
                    "another server has {}, so commands for this one need --socket {}",
                    first.display(),
                    own.display()
                ));
            }
            bound
        }
        bound => bound,
    };
    bound
        .inspect_err(|error| {
            warnings_and_notes::note(format_args!(
                "no control socket in {}, so `pinion status` does not find this server: {}",
                folder.display(),
                without_number(&error.to_string())
            ));
        })
        .ok()
}

fn bind_at(path: &Path, files: &SocketFiles) -> io::Result<OwnedFd> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let folder = folder.unwrap_or(Path::new("."));
    DirBuilder::new().recursive(true).mode(state_folder::PRIVATE).create(folder)?;
    // Of two servers that find the file of one that was killed, the second must not take the
    // socket of the first for that file.
    let _lock = lock(folder)?;
    let socket = bind_unix_private(path)?;
    files.add(path)?;
    Ok(socket)
}

/// Checks a folder of control sockets, and locks it against other servers that bind there. The lock
/// ends with the descriptor.
fn lock(folder: &Path) -> io::Result<OwnedFd> {
    check_folder(folder, &folder.metadata()?)?;
    let lock = open(folder, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
    flock(&lock, FlockOperation::LockExclusive)?;
    Ok(lock)
}

/// Removes the sockets of further servers that were killed: no later server has their names.
///
/// # Errors
/// The folder cannot be locked, read or written to.
fn remove_stale(folder: &Path) -> io::Result<()> {
    let _lock = lock(folder)?;
    for path in sockets(folder)? {
        if !path.ends_with(NAME) && is_stale_unix(&path) {
            fs::remove_file(path)?;
        }
    }
    Ok(())
}

/// Checks that no other user can put a socket into the folder, or reach ours.
fn check_folder(folder: &Path, metadata: &Metadata) -> io::Result<()> {
    let shown = folder.display();
    let (owner, own) = (metadata.uid(), geteuid().as_raw());
    if owner != own {
        return Err(io::Error::other(format!("the folder {shown} belongs to another user")));
    }
    let mode = metadata.mode() & 0o777;
    if mode & 0o077 != 0 {
        return Err(io::Error::other(format!(
            "the folder {shown} is open to other users (mode {mode:04o}); it must have mode 0700"
        )));
    }
    Ok(())
}

/// Returns the folder for the socket of this server, if there is a place for such folders that is
/// its own. It may not be there yet.
fn own_folder() -> Option<PathBuf> {
    let is_own = |folder: &PathBuf| {
        folder.metadata().is_ok_and(|metadata| metadata.uid() == geteuid().as_raw())
    };
    folders_named().find(|(runtime, _)| is_own(runtime)).map(|(_, folder)| folder)
}

/// Returns the folders that the environment names: that of the service or session, and the one in
/// it for the socket.
fn folders_named() -> impl Iterator<Item = (PathBuf, PathBuf)> {
    let below = |runtime: PathBuf, name: &str| (runtime.clone(), runtime.join(name));
    let service =
        state_folder::service_folder("RUNTIME_DIRECTORY").map(|folder| below(folder, "control"));
    let session = state_folder::folder_of("XDG_RUNTIME_DIR").map(|folder| below(folder, "pinion"));
    [service, session].into_iter().flatten()
}

/// Returns the folders in which a command looks for servers: those of this environment and those
/// of the units of systemd.
pub(crate) fn folders() -> Vec<PathBuf> {
    let mut folders: Vec<PathBuf> = folders_named().map(|(_, folder)| folder).collect();
    folders.extend(UNIT_FOLDERS.map(PathBuf::from));
    folders.push(format!("/run/user/{}/pinion", geteuid().as_raw()).into());
    let mut seen = Vec::new();
    folders.retain(|folder| {
        let is_new = !seen.contains(folder);
        seen.push(folder.clone());
        is_new
    });
    folders
}

/// Returns the sockets in a folder, the first server's first; none where there is no such folder.
///
/// # Errors
/// The folder cannot be read.
pub(crate) fn sockets(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let entries = match folder.read_dir() {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let mut found = Vec::new();
    for entry in entries {
        let name = entry?.file_name();
        let text = name.to_string_lossy();
        if text == NAME || text.starts_with("pinion-") && text.ends_with(".sock") {
            found.push(folder.join(name));
        }
    }
    found.sort_by_key(|path| (path.file_name().is_none_or(|name| name != NAME), path.clone()));
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::env;
    use std::os::unix::fs::PermissionsExt as _;
    use std::os::unix::net::UnixStream;

    fn folder(name: &str) -> PathBuf {
        let folder = env::temp_dir().join(format!("pinion-control-{name}-{}", std::process::id()));
        let _gone = fs::remove_dir_all(&folder);
        folder
    }

    #[test]
    fn the_socket_and_its_folder_are_for_one_user_alone() {
        let (folder, files) = (folder("mode"), SocketFiles::default());
        let path = folder.join("deep/x.sock");
        let bound = bind_at(&path, &files).expect("bound");
        let mode = |path: &Path| path.metadata().expect("there").permissions().mode() & 0o777;
        assert_eq!((mode(&folder), mode(&folder.join("deep")), mode(&path)), (0o700, 0o700, 0o600));
        assert!(UnixStream::connect(&path).is_ok());
        drop((bound, files));
        assert!(!path.exists());
        let open = folder.join("open");
        fs::create_dir(&open).expect("made");
        fs::set_permissions(&open, fs::Permissions::from_mode(0o750)).expect("set");
        let error = bind_at(&open.join("x.sock"), &SocketFiles::default()).expect_err("open");
        assert!(error.to_string().contains("open to other users (mode 0750)"), "{error}");
        fs::remove_dir_all(&folder).expect("removed");
    }

    #[test]
    fn a_live_socket_stays_and_a_stale_one_is_replaced() {
        let (folder, files) = (folder("stale"), SocketFiles::default());
        let path = folder.join(NAME);
        let live = bind_at(&path, &files).expect("bound");
        let error = bind_at(&path, &files).expect_err("taken");
        assert_eq!(error.kind(), io::ErrorKind::AddrInUse);
        assert!(UnixStream::connect(&path).is_ok(), "it is still there");
        drop(live);
        assert!(path.exists(), "as after SIGKILL");
        let _again = bind_at(&path, &files).expect("replaced");
        assert_eq!(sockets(&folder).expect("read"), [path]);
        fs::remove_dir_all(&folder).expect("removed");
    }

    #[test]
    fn sockets_of_killed_servers_are_removed_and_other_files_kept() {
        let (folder, files) = (folder("killed"), SocketFiles::default());
        let [first, live, killed] = [NAME, "pinion-1.sock", "pinion-2.sock"];
        let live = bind_at(&folder.join(live), &files).expect("bound");
        for name in [first, killed, "other.sock"] {
            drop(bind_at(&folder.join(name), &files).expect("bound"));
        }
        fs::write(folder.join("pinion-3.sock"), "no socket").expect("written");
        remove_stale(&folder).expect("removed");
        let mut left: Vec<_> =
            fs::read_dir(&folder).expect("read").flatten().map(|entry| entry.file_name()).collect();
        left.sort();
        assert_eq!(left, ["other.sock", "pinion-1.sock", "pinion-3.sock", NAME]);
        assert!(UnixStream::connect(folder.join("pinion-1.sock")).is_ok());
        drop(live);
        remove_stale(&folder).expect("removed");
        assert!(!folder.join("pinion-1.sock").exists());
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o755)).expect("set");
        assert!(remove_stale(&folder).is_err(), "others could put sockets there");
        fs::remove_dir_all(&folder).expect("removed");
    }

    #[test]
    fn the_first_server_is_listed_first() {
        let folder = folder("list");
        assert!(sockets(&folder).expect("none").is_empty());
        fs::create_dir(&folder).expect("made");
        for name in ["pinion-7.sock", NAME, "other.sock", "pinion-1.sock", "pinion-1.txt"] {
            fs::write(folder.join(name), "").expect("written");
        }
        let found = sockets(&folder).expect("read");
        let names: Vec<_> = found.iter().filter_map(|path| path.file_name()?.to_str()).collect();
        assert_eq!(names, [NAME, "pinion-1.sock", "pinion-7.sock"]);
        fs::remove_dir_all(&folder).expect("removed");
    }
}
