//! The keys of QUIC, kept in the state folder. A client whose connection was lost with a process,
//! by a crash or a loss of power, continues to send to it until its own timeout. The next process
//! knows by these keys that the connection was the server's, and resets it at once (RFC 9000
//! §10.3).
//!
//! Two processes can have the keys at the same time: while one replaces another, or where two
//! servers share a state folder. A connection says in its ids which process has it, by a number
//! that each process takes from the folder together with the lock of a file of that number. The
//! system releases the lock when the process ends for any reason: the next holder of the lock knows
//! that the connections of that number are lost.

use crate::state_folder;
use pinion_engine::quic::config::QuicKeys;
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Read as _, Seek as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The mode of all files here: a user who knows the keys can end connections of others.
const MODE: u32 = 0o600;

/// The file with the keys and the number that was taken last. Its lock is held while it changes.
const KEYS: &str = "keys";

/// Bytes of the keys: of ids, of resets, of tokens.
const KEY_BYTES: usize = 16 + 64 + 64;

/// Bytes of [`KEYS`]: the keys, and the number in network byte order.
const FILE_BYTES: usize = KEY_BYTES + 2;

/// Returns the keys in the folder `quic` of a state folder, with a number that no other process
/// has. They are made when there are none.
///
/// # Errors
/// One line that names the folder.
pub(crate) fn kept(given_state: Option<&Path>) -> anyhow::Result<QuicKeys> {
    let state = state_folder::folder(given_state)?;
    state_folder::make(&state, state_folder::PRIVATE)?;
    let folder = state.join("quic");
    state_folder::make(&folder, state_folder::PRIVATE)?;
    let cannot = || format!("cannot keep the keys of QUIC in {}", folder.display());
    take(folder.clone()).map_err(|error| state_folder::unusable(&cannot(), &error))
}

/// Takes the keys and the next number.
fn take(folder: PathBuf) -> io::Result<QuicKeys> {
    let mut file = open(&folder.join(KEYS))?;
    file.lock()?;
    let mut keys = read(&mut file)?;
    let mut attempts = 0..=u16::MAX;
    let process = loop {
        keys.epoch = keys.epoch.wrapping_add(1);
        let process = open(&process_file(&folder, keys.epoch))?;
        match process.try_lock() {
            Ok(()) => break process,
            Err(TryLockError::WouldBlock) if attempts.next().is_some() => {}
            Err(error) => return Err(error.into()),
        }
    };
    write(&mut file, &keys)?;
    remove_ended(&folder, keys.epoch);
    let is_ours = keys.epoch;
    keys.has_ended = Arc::new(move |epoch| {
        // The lock lives as long as this function.
        let _lock = &process;
        epoch != is_ours && has_ended(&folder, epoch)
    });
    Ok(keys)
}

fn open(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(MODE).open(path)
}

fn process_file(folder: &Path, epoch: u16) -> PathBuf {
    folder.join(format!("process-{epoch}"))
}

/// Reads the kept keys; makes fresh ones if the file is empty, or not whole because the power was
/// lost.
fn read(file: &mut File) -> io::Result<QuicKeys> {
    let mut bytes = Vec::with_capacity(FILE_BYTES + 1);
    file.take(FILE_BYTES as u64 + 1).read_to_end(&mut bytes)?;
    let mut keys = QuicKeys::random();
    let Ok(bytes) = <[u8; FILE_BYTES]>::try_from(bytes) else { return Ok(keys) };
    let (ids, rest) = bytes.split_at(keys.ids.len());
    let (reset, rest) = rest.split_at(keys.reset.len());
    let (tokens, epoch) = rest.split_at(keys.tokens.len());
    keys.ids.copy_from_slice(ids);
    keys.reset.copy_from_slice(reset);
    keys.tokens.copy_from_slice(tokens);
    keys.epoch = u16::from_be_bytes([epoch[0], epoch[1]]);
    Ok(keys)
}

fn write(file: &mut File, keys: &QuicKeys) -> io::Result<()> {
    let epoch = keys.epoch.to_be_bytes();
    file.rewind()?;
    file.write_all(&[&keys.ids[..], &keys.reset, &keys.tokens, &epoch].concat())?;
    file.set_len(FILE_BYTES as u64)?;
    file.sync_data()
}

/// Returns whether the process with a number has ended. Not if that cannot be found out: a
/// connection that lives must not be reset.
fn has_ended(folder: &Path, epoch: u16) -> bool {
    match File::open(process_file(folder, epoch)) {
        Ok(process) => process.try_lock_shared().is_ok(),
        // The file is there as long as its process, and was removed by a later one.
        Err(error) => error.kind() == io::ErrorKind::NotFound,
    }
}

/// Removes the files of processes that have ended. The keys are locked, so that no process takes
/// one of these numbers meanwhile.
fn remove_ended(folder: &Path, ours: u16) {
    for entry in folder.read_dir().into_iter().flatten().flatten() {
        let name = entry.file_name();
        let number = name.to_str().and_then(|name| name.strip_prefix("process-")?.parse().ok());
        if number.is_some_and(|epoch: u16| epoch != ours && has_ended(folder, epoch)) {
            // One that stays says the same.
            let _removed = std::fs::remove_file(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct StateFolder(PathBuf);

    impl StateFolder {
        fn new(name: &str) -> Self {
            let id = std::process::id();
            Self(std::env::temp_dir().join(format!("pinion-quic-keys-{name}-{id}")))
        }
    }

    impl Drop for StateFolder {
        fn drop(&mut self) {
            let _removed = std::fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn later_processes_share_the_keys_and_detect_ended_processes() {
        let folder = StateFolder::new("processes");
        let kept = || kept(Some(&folder.0)).expect("keys");
        let first = kept();
        let second = kept();
        for (mine, theirs) in [(&first, &second), (&second, &first)] {
            assert_eq!(
                (mine.ids, mine.reset, mine.tokens),
                (theirs.ids, theirs.reset, theirs.tokens)
            );
            assert_ne!(mine.epoch, theirs.epoch);
            assert!(!(mine.has_ended)(theirs.epoch) && !(mine.has_ended)(mine.epoch));
        }
        let ended = first.epoch;
        drop(first);
        assert!((second.has_ended)(ended));
        let third = kept();
        assert!(![ended, second.epoch].contains(&third.epoch));
        // Its file has been removed meanwhile.
        assert!(!process_file(&folder.0.join("quic"), ended).exists());
        assert!((third.has_ended)(ended) && (second.has_ended)(ended));
        assert!(!(third.has_ended)(second.epoch) && !(second.has_ended)(third.epoch));
    }

    #[test]
    fn a_file_that_is_not_whole_is_replaced() {
        let folder = StateFolder::new("damage");
        let kept = || kept(Some(&folder.0)).expect("keys");
        let before = kept();
        for bytes in [0, FILE_BYTES - 1, FILE_BYTES + 1] {
            std::fs::write(folder.0.join("quic/keys"), vec![7; bytes]).expect("written");
            let after = kept();
            assert_ne!(after.reset, before.reset, "{bytes}");
            assert_eq!(kept().reset, after.reset, "{bytes}");
        }
    }
}
