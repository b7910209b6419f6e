//! Folders are read before the walk comes to them, by several threads: the system takes its time
//! for each name.

use std::collections::VecDeque;
use std::io;
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::sync::{Mutex, PoisonError};
use std::thread;

/// Reads folders for a walk. Without a thread it reads none, and the walk does it.
pub(super) struct ReadAhead<T>(Option<Sender<ReadAheadJob<T>>>);

/// Folders that are being read, in the order of their names.
pub(super) type PendingFolders<T> = VecDeque<Receiver<io::Result<T>>>;

struct ReadAheadJob<T> {
    folder: Vec<u8>,
    reply: SyncSender<io::Result<T>>,
}

/// Calls `walk` with threads that `read` folders for it.
pub(super) fn with_readers<T: Send, R>(
    threads: usize,
    read: impl Fn(&[u8]) -> io::Result<T> + Sync,
    walk: impl FnOnce(ReadAhead<T>) -> R,
) -> R {
    let (sender, receiver) = channel::<ReadAheadJob<T>>();
    let receiver = Mutex::new(receiver);
    let next = || receiver.lock().unwrap_or_else(PoisonError::into_inner).recv();
    let work = || {
        while let Ok(ReadAheadJob { folder, reply }) = next() {
            // The walk may have ended early.
            let _ = reply.send(read(&folder));
        }
    };
    thread::scope(|scope| {
        let spawn = |_: &usize| {
            thread::Builder::new().name("walk".to_owned()).spawn_scoped(scope, work).is_ok()
        };
        let started = (0..threads).filter(spawn).count();
        // Dropped at the end of the walk, and the threads end.
        walk(ReadAhead((started > 0).then_some(sender)))
    })
}

impl<T> ReadAhead<T> {
    /// Has a folder read. Returns false when no thread can do it.
    pub(super) fn ask(&self, folder: Vec<u8>, waiting: &mut PendingFolders<T>) -> bool {
        let (reply, content) = sync_channel(1);
        let asked =
            self.0.as_ref().is_some_and(|jobs| jobs.send(ReadAheadJob { folder, reply }).is_ok());
        if asked {
            waiting.push_back(content);
        }
        asked
    }
}
