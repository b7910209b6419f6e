//! Limits the bytes and the open files of uploads in the folder for temporary files, for all
//! workers together.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::limits::UPLOAD_RESERVE_DIVISOR;

/// The quota of all uploads: the limits and the current use of bytes and open files.
#[derive(Debug)]
pub struct UploadQuota {
    max_bytes: u64,
    max_files: u64,
    bytes: AtomicU64,
    files: AtomicU64,
}

impl Default for UploadQuota {
    /// Returns a quota without limits.
    fn default() -> Self {
        Self::new(u64::MAX, u64::MAX)
    }
}

impl UploadQuota {
    /// Creates a quota of so many bytes in so many open files.
    #[must_use]
    pub const fn new(max_bytes: u64, max_files: u64) -> Self {
        let (bytes, files) = (AtomicU64::new(0), AtomicU64::new(0));
        Self { max_bytes, max_files, bytes, files }
    }

    /// Returns whether so much of the quota is used that stalled uploads should be aborted.
    #[must_use]
    pub fn is_short(&self) -> bool {
        let is_above = |used: &AtomicU64, max| used.load(Ordering::Relaxed) > without_reserve(max);
        is_above(&self.bytes, self.max_bytes) || is_above(&self.files, self.max_files)
    }
}

/// Returns the amount that uploads may use before stalled uploads are aborted.
fn without_reserve(max: u64) -> u64 {
    max - max / UPLOAD_RESERVE_DIVISOR
}

/// The share of one upload in the quota. It returns to the quota when it is dropped.
#[derive(Debug, Default)]
pub struct UploadShare {
    quota: Option<Arc<UploadQuota>>,
    bytes: u64,
    has_file: bool,
}

impl UploadShare {
    /// Makes the share belong to this quota from now on, unless it belongs to one already.
    pub fn belong_to(&mut self, quota: &Arc<UploadQuota>) {
        if self.quota.is_none() {
            self.quota = Some(Arc::clone(quota));
        }
    }

    /// Takes one open file from the quota. Returns false if none is left.
    #[must_use]
    pub fn take_file(&mut self) -> bool {
        debug_assert!(!self.has_file, "an upload has one file");
        self.has_file =
            self.quota.as_ref().is_none_or(|quota| take(&quota.files, 1, quota.max_files));
        self.has_file
    }

    /// Takes more bytes from the quota. Returns false, and takes none, if fewer are left.
    #[must_use]
    pub fn take_bytes(&mut self, bytes: u64) -> bool {
        let is_taken =
            self.quota.as_ref().is_none_or(|quota| take(&quota.bytes, bytes, quota.max_bytes));
        if is_taken {
            self.bytes += bytes;
        }
        is_taken
    }

    /// Returns the limit in bytes of all uploads together, as a text with a unit.
    #[must_use]
    pub fn space(&self) -> String {
        let bytes = self.quota.as_ref().map_or(0, |quota| quota.max_bytes);
        if bytes >= 1 << 20 { format!("{} MiB", bytes >> 20) } else { format!("{bytes} bytes") }
    }

    /// Returns the limit of open files of all uploads together.
    #[must_use]
    pub fn files_max(&self) -> u64 {
        self.quota.as_ref().map_or(0, |quota| quota.max_files)
    }

    /// Returns whether the upload uses any part of the quota.
    #[must_use]
    pub fn is_holding(&self) -> bool {
        self.has_file || self.bytes > 0
    }
}

fn take(used: &AtomicU64, more: u64, max: u64) -> bool {
    let sum = |used: u64| used.checked_add(more).filter(|sum| *sum <= max);
    used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, sum).is_ok()
}

impl Drop for UploadShare {
    fn drop(&mut self) {
        if let Some(quota) = &self.quota {
            quota.bytes.fetch_sub(self.bytes, Ordering::Relaxed);
            quota.files.fetch_sub(u64::from(self.has_file), Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn share(quota: &Arc<UploadQuota>) -> UploadShare {
        let mut share = UploadShare::default();
        share.belong_to(quota);
        share
    }

    #[test]
    fn the_upload_quota_is_limited_and_returned() {
        let quota = Arc::new(UploadQuota::new(100, 2));
        let (mut one, mut two, mut three) = (share(&quota), share(&quota), share(&quota));
        assert!(one.take_file() && two.take_file() && !three.take_file());
        assert!(one.take_bytes(60) && !two.take_bytes(41) && two.take_bytes(40));
        assert!(!two.take_bytes(1) && !two.take_bytes(u64::MAX));
        drop(one);
        assert!(three.take_file() && three.take_bytes(60));
        drop((two, three));
        assert_eq!(
            (quota.bytes.load(Ordering::Relaxed), quota.files.load(Ordering::Relaxed)),
            (0, 0)
        );
    }

    #[test]
    fn the_upload_quota_is_short_before_it_is_used_up() {
        let quota = Arc::new(UploadQuota::new(1000, 1000));
        let mut one = share(&quota);
        assert!(one.take_bytes(without_reserve(1000)));
        assert!(!quota.is_short());
        assert!(one.take_bytes(1));
        assert!(quota.is_short());
        assert!(!UploadQuota::default().is_short());
    }
}
