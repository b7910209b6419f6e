//! Bodies of the archive that is replaced go into the new one without passing through this program:
//! the kernel copies them, whole runs at once, while the rest of the new archive is written.
//!
//! This is for an archive that is our own work and has not changed since
//! (`ReusableArchives::carries`). All others are read, and their contents are checked.

use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{self, JoinHandle};

use pinion_archive::{BodyRoom, Digest};
use rustix::fs::{FallocateFlags, fallocate};
use rustix::io::Errno;

use crate::limits::{CARRIED_PIECE_BYTES, PIECE_BYTES};
use crate::walk::source_stamp::SourceStamp;

/// A body that need not be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CarriedBody {
    pub(crate) digest: Digest,
    /// Its place in the old archive.
    pub(crate) offset: u64,
    pub(crate) bytes: u64,
    /// Its number there.
    pub(crate) number: u32,
}

/// Copies bodies to where the new archive has room for them.
pub(crate) struct KernelCopier {
    runs: Option<SyncSender<BodyRun>>,
    /// Grows as long as the next body follows the last one, here and there.
    run: Option<(BodyRun, BodyNumbers)>,
    stopped: Arc<AtomicBool>,
    thread: Option<JoinHandle<io::Result<()>>>,
    from: Arc<File>,
    /// The stamp of the old archive when it was opened.
    stamp: SourceStamp,
    /// The number of its names.
    links: u64,
    to: Arc<File>,
}

/// The numbers of a body in the old archive and in the new one. Between bodies with consecutive
/// numbers there is padding, and nothing else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct BodyNumbers {
    old: u32,
    new: u32,
}

/// A part of the old archive that is a part of the new one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct BodyRun {
    from: u64,
    to: u64,
    bytes: u64,
}

/// Runs that wait to be copied: each takes the kernel longer than it took to find it.
const WAITING_RUNS: usize = 1024;

impl KernelCopier {
    /// Returns `None` when the system refuses a resource that this needs.
    pub(crate) fn start(from: Arc<File>, stamp: SourceStamp, to: File) -> Option<KernelCopier> {
        let links = from.metadata().ok()?.nlink();
        let (sender, receiver) = sync_channel(WAITING_RUNS);
        let to = Arc::new(to);
        let stopped = Arc::new(AtomicBool::new(false));
        let (source, out) = (Arc::clone(&from), Arc::clone(&to));
        let stop = Arc::clone(&stopped);
        let work = move || copy_all(&source, &out, &receiver, &stop);
        let thread = thread::Builder::new().name("carry".to_owned()).spawn(work).ok()?;
        let (runs, thread) = (Some(sender), Some(thread));
        Some(KernelCopier { runs, run: None, stopped, thread, from, stamp, links, to })
    }

    /// Allocates blocks for the bodies that will be copied, at most `bytes`, all at once: the
    /// copies then find them there instead of asking for each. The output is still empty.
    pub(crate) fn make_room(&self, bytes: u64) {
        let bytes = bytes.min(self.stamp.bytes);
        if fallocate(&*self.to, FallocateFlags::KEEP_SIZE, 0, bytes).is_err() {
            // Blocks that it got before the disk was full are given back: others would lack them.
            let _ = self.to.set_len(0);
        }
    }

    /// Has a body copied to its room in the new archive.
    pub(crate) fn add(&mut self, body: &CarriedBody, room: BodyRoom) -> io::Result<()> {
        let next = BodyRun { from: body.offset, to: room.offset, bytes: body.bytes };
        let numbers = BodyNumbers { old: body.number, new: room.number };
        // A new body may fit into the padding between two that stay where they are.
        let joined = self.run.filter(|(_, last)| numbers.follow(*last));
        let joined = joined.and_then(|(run, _)| run.joined(&next));
        let mut run = match joined {
            Some(joined) => joined,
            None => {
                self.send_rest()?;
                next
            }
        };
        if let Some(pieces) = run.take_pieces() {
            self.send(pieces)?;
        }
        self.run = Some((run, numbers));
        Ok(())
    }

    /// Waits until everything is copied.
    pub(crate) fn finish(mut self) -> io::Result<()> {
        let rest = self.send_rest();
        self.runs = None;
        self.join()?;
        rest?;
        let metadata = self.from.metadata()?;
        let now = SourceStamp::of(&metadata);
        // Another build to the same place takes its name from it, which is a change of its own.
        let was_replaced =
            || metadata.nlink() < self.links.max(1) && now.is_content_of(&self.stamp);
        if now == self.stamp || was_replaced() {
            Ok(())
        } else {
            Err(io::Error::other("the archive to be replaced was changed meanwhile"))
        }
    }

    /// Ends the run that has grown so far.
    fn send_rest(&mut self) -> io::Result<()> {
        match self.run.take() {
            Some((run, _)) if run.bytes > 0 => self.send(run),
            _ => Ok(()),
        }
    }

    fn send(&mut self, run: BodyRun) -> io::Result<()> {
        match self.runs.as_ref().map(|runs| runs.send(run)) {
            Some(Ok(())) => Ok(()),
            // It has ended: with an error, which says more than this one.
            _ => {
                self.join()?;
                Err(io::ErrorKind::BrokenPipe.into())
            }
        }
    }

    fn join(&mut self) -> io::Result<()> {
        match self.thread.take().map(JoinHandle::join) {
            Some(Ok(result)) => result,
            Some(Err(panic)) => std::panic::resume_unwind(panic),
            None => Ok(()),
        }
    }
}

impl Drop for KernelCopier {
    fn drop(&mut self) {
        self.stopped.store(true, Ordering::Relaxed);
        self.runs = None;
        // The build has failed for another reason, or this has been waited for.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

impl BodyNumbers {
    fn follow(self, last: BodyNumbers) -> bool {
        last.old.checked_add(1) == Some(self.old) && last.new.checked_add(1) == Some(self.new)
    }
}

impl BodyRun {
    /// Returns both runs with the padding between them, if that is the same in both archives.
    fn joined(self, next: &BodyRun) -> Option<BodyRun> {
        let gap = next.from.checked_sub(self.from + self.bytes)?;
        let is_same = next.to.checked_sub(self.to + self.bytes) == Some(gap);
        is_same.then_some(BodyRun { bytes: self.bytes + gap + next.bytes, ..self })
    }

    /// Takes the part of the run up to the last multiple of a piece's length: whole blocks of the
    /// new archive except the first. The rest may still grow.
    fn take_pieces(&mut self) -> Option<BodyRun> {
        let end = self.to + self.bytes;
        let bytes = (end - end % CARRIED_PIECE_BYTES).checked_sub(self.to)?;
        let pieces = BodyRun { bytes, ..*self };
        (self.from, self.to) = (self.from + bytes, self.to + bytes);
        self.bytes -= bytes;
        (bytes > 0).then_some(pieces)
    }
}

fn copy_all(from: &File, to: &File, runs: &Receiver<BodyRun>, stop: &AtomicBool) -> io::Result<()> {
    let mut copy: fn(&File, &File, BodyRun) -> io::Result<()> = copy_in_kernel;
    for run in runs {
        if stop.load(Ordering::Relaxed) {
            return Ok(());
        }
        match copy(from, to, run) {
            // Not between these two files, or not on this system.
            Err(error) if !is_about_the_files(&error) => {
                copy = copy_by_hand;
                copy(from, to, run)?;
            }
            result => result?,
        }
    }
    Ok(())
}

fn copy_in_kernel(from: &File, to: &File, run: BodyRun) -> io::Result<()> {
    let (mut here, mut there) = (run.from, run.to);
    let end = run.from + run.bytes;
    while here < end {
        let most = usize::try_from(end - here).unwrap_or(usize::MAX);
        let copied = rustix::fs::copy_file_range(from, Some(&mut here), to, Some(&mut there), most);
        match copied {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// Returns whether another way to copy would fail in the same way.
fn is_about_the_files(error: &io::Error) -> bool {
    use io::ErrorKind::{FileTooLarge, QuotaExceeded, StorageFull, UnexpectedEof};
    matches!(error.kind(), StorageFull | QuotaExceeded | FileTooLarge | UnexpectedEof)
}

fn copy_by_hand(from: &File, to: &File, run: BodyRun) -> io::Result<()> {
    let mut piece = vec![0; PIECE_BYTES];
    let mut done = 0;
    while done < run.bytes {
        let most = usize::try_from(run.bytes - done).unwrap_or(usize::MAX).min(piece.len());
        let piece = piece.get_mut(..most).unwrap_or_default();
        from.read_exact_at(piece, run.from + done)?;
        to.write_all_at(piece, run.to + done)?;
        done += most as u64;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn file(name: &str) -> (std::path::PathBuf, File) {
        let name = format!("pinion-{}-{name}", std::process::id());
        let path = std::env::temp_dir().join(name);
        let mut options = File::options();
        let file = options.read(true).write(true).create(true).truncate(true).open(&path).unwrap();
        (path, file)
    }

    #[test]
    fn adjacent_bodies_are_copied_as_one_run() {
        let run = |from, to, bytes| BodyRun { from, to, bytes };
        assert_eq!(run(8, 80, 5).joined(&run(16, 88, 3)), Some(run(8, 80, 11)));
        assert_eq!(run(8, 80, 8).joined(&run(16, 88, 3)), Some(run(8, 80, 11)));
        assert_eq!(run(8, 80, 5).joined(&run(16, 96, 3)), None);
        assert_eq!(run(16, 80, 5).joined(&run(8, 88, 3)), None);
    }

    #[test]
    fn runs_are_split_at_block_boundaries() {
        let run = |from, to, bytes| BodyRun { from, to, bytes };
        let piece = CARRIED_PIECE_BYTES;
        let cut = |mut run: BodyRun| (run.take_pieces(), run);
        assert_eq!(cut(run(8, 80, 5)), (None, run(8, 80, 5)));
        assert_eq!(
            cut(run(8, 80, piece)),
            (Some(run(8, 80, piece - 80)), run(piece - 72, piece, 80))
        );
        assert_eq!(
            cut(run(0, piece, 2 * piece)),
            (Some(run(0, piece, 2 * piece)), run(2 * piece, 3 * piece, 0))
        );
    }

    #[test]
    fn a_truncated_or_changed_previous_archive_is_an_error() {
        let ((old, from), (new, to)) = (file("carry-old"), file("carry-new"));
        from.write_all_at(b"0123456789", 0).unwrap();
        let stamp = SourceStamp::of(&from.metadata().unwrap());
        let from = Arc::new(from);
        let start =
            || KernelCopier::start(Arc::clone(&from), stamp, to.try_clone().unwrap()).unwrap();
        let body =
            |offset, bytes| CarriedBody { digest: Digest::default(), offset, bytes, number: 7 };
        let mut copier = start();
        copier.add(&body(8, 3), BodyRoom { number: 0, offset: 0 }).unwrap();
        assert_eq!(copier.finish().unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
        let mut copier = start();
        copier.add(&body(8, 2), BodyRoom { number: 0, offset: 0 }).unwrap();
        // Within its length, and with the time put back.
        thread::sleep(std::time::Duration::from_millis(20));
        let modified = from.metadata().unwrap().modified().unwrap();
        from.write_all_at(b"x", 3).unwrap();
        from.set_modified(modified).unwrap();
        assert!(copier.finish().unwrap_err().to_string().contains("changed"));
        [old, new].iter().for_each(|path| std::fs::remove_file(path).unwrap());
    }

    #[test]
    fn bodies_of_a_replaced_archive_are_still_copied() {
        let ((old, from), (new, to)) = (file("carry-replaced"), file("carry-by"));
        from.write_all_at(b"0123456789", 0).unwrap();
        let stamp = SourceStamp::of(&from.metadata().unwrap());
        let mut copier =
            KernelCopier::start(Arc::new(from), stamp, to.try_clone().unwrap()).unwrap();
        std::fs::remove_file(old).unwrap();
        let body = CarriedBody { digest: Digest::default(), offset: 8, bytes: 2, number: 7 };
        copier.add(&body, BodyRoom { number: 0, offset: 0 }).unwrap();
        copier.finish().unwrap();
        assert_eq!(std::fs::read(&new).unwrap(), b"89");
        std::fs::remove_file(new).unwrap();
    }

    proptest! {
        /// Both ways of copying put every body where it is to be.
        #[test]
        fn bodies_are_copied_to_their_positions(
            bodies in prop::collection::vec(
                (1u64..300_000, 0u64..9, 0u64..9, any::<bool>()),
                1..20,
            ),
            in_kernel in any::<bool>(),
        ) {
            let name = format!("carry-{in_kernel}");
            let ((old, from), (new, to)) = (file(&(name.clone() + "-from")), file(&name));
            let bytes: u64 = bodies.iter().map(|(bytes, gap, ..)| bytes + gap).sum();
            let content: Vec<u8> = (0..bytes).map(|at| (at * 31 / 7) as u8).collect();
            from.write_all_at(&content, 0).unwrap();
            let (mut here, mut there, mut runs) = (0, 0, Vec::<BodyRun>::new());
            for (bytes, gap, other_gap, is_same) in bodies {
                let run = BodyRun { from: here, to: there, bytes };
                match runs.last().and_then(|last| last.joined(&run)) {
                    Some(joined) => *runs.last_mut().unwrap() = joined,
                    None => runs.push(run),
                }
                here += bytes + gap;
                there += bytes + if is_same { gap } else { other_gap };
            }
            for &run in &runs {
                let copy = if in_kernel { copy_in_kernel } else { copy_by_hand };
                copy(&from, &to, run).unwrap();
            }
            for run in runs {
                let mut copied = vec![0; run.bytes as usize];
                to.read_exact_at(&mut copied, run.to).unwrap();
                prop_assert!(copied == content[run.from as usize..][..run.bytes as usize]);
            }
            [old, new].iter().for_each(|path| std::fs::remove_file(path).unwrap());
        }
    }
}
