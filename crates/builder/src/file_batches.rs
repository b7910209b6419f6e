//! Processes the files of a site on all cores: in batches, so that small files cost few hand-overs.

use std::io::{Seek, Write};
use std::ops::Range;

use crate::assemble::Assembly;
use crate::encode::Encoders;
use crate::error::BuildError;
use crate::limits::{BATCH_BYTES_MAX, BATCH_FILES_MAX, WINDOW_MAX_BYTES, WINDOW_MIN_BYTES};
use crate::ordered_thread_pool;
use crate::process_file::BuildState;
use crate::progress::Progress;
use crate::walk::found_files::SourceFile;

/// Processes all files in batches, on all cores, and passes the results to the assembly in order.
pub(crate) fn process_files<W: Write + Seek>(
    state: &BuildState<'_>,
    workers: usize,
    files: &[SourceFile],
    assembly: &mut Assembly<'_, W>,
    progress: &dyn Progress,
) -> Result<(), BuildError> {
    let batches = batches(files);
    let of = |batch: usize| batches.get(batch).cloned().unwrap_or_default();
    let cost = |batch: usize| {
        let files = of(batch).zip(files.get(of(batch)).unwrap_or_default());
        files.map(|(rank, file)| state.cost(rank, file)).sum()
    };
    let costs: Vec<u64> = (0..batches.len()).map(cost).collect();
    let (mut files_done, mut bytes_done) = (0, 0);
    ordered_thread_pool::in_order(
        &costs,
        window(&costs, workers),
        workers,
        Encoders::default,
        |encoders, batch| {
            let range = of(batch);
            let files = files.get(range.clone()).unwrap_or_default();
            let stock = state.stock(range.start, files);
            let read =
                range.zip(files).map(|(rank, file)| state.file(encoders, &stock, rank, file));
            read.collect::<Vec<_>>()
        },
        |batch, products| {
            let range = of(batch);
            let files = files.get(range.clone()).unwrap_or_default();
            files_done += range.len() as u64;
            bytes_done += files.iter().map(|file| file.bytes).sum::<u64>();
            range.zip(products).try_for_each(|(file, product)| assembly.take(file, product))?;
            progress.advanced(files_done, bytes_done);
            if progress.cancelled() { Err(BuildError::Cancelled) } else { Ok(()) }
        },
    )
}

/// Returns the room for the largest batch on each worker, and for as much that waits after it.
fn window(costs: &[u64], workers: usize) -> u64 {
    let largest = costs.iter().max().copied().unwrap_or_default();
    let room = largest.saturating_mul(2 * workers as u64);
    room.clamp(WINDOW_MIN_BYTES, WINDOW_MAX_BYTES)
}

/// Cuts the list into the batches that one worker processes at once.
fn batches(files: &[SourceFile]) -> Vec<Range<usize>> {
    let mut batches = Vec::new();
    let (mut start, mut bytes) = (0, 0);
    for (number, file) in files.iter().enumerate() {
        let full = number - start == BATCH_FILES_MAX || bytes + file.bytes > BATCH_BYTES_MAX;
        if full && number > start {
            batches.push(start..number);
            (start, bytes) = (number, 0);
        }
        bytes += file.bytes;
    }
    if start < files.len() {
        batches.push(start..files.len());
    }
    batches
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn batches_hold_every_file_exactly_once(
            sizes in prop::collection::vec(0..2 * BATCH_BYTES_MAX, 0..300),
        ) {
            let files: Vec<SourceFile> =
                sizes.iter().map(|&bytes| SourceFile { key: Box::default(), bytes }).collect();
            let batches = batches(&files);
            let all: Vec<usize> = batches.iter().cloned().flatten().collect();
            prop_assert_eq!(all, (0..files.len()).collect::<Vec<_>>());
            for batch in batches {
                let bytes: u64 = sizes[batch.clone()].iter().sum();
                prop_assert!(batch.len() == 1 || bytes <= BATCH_BYTES_MAX);
                prop_assert!((1..=BATCH_FILES_MAX).contains(&batch.len()));
            }
        }
    }
}
