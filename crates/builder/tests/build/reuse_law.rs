//! Laws of a build over a damaged older archive and a damaged file of fingerprints.

use std::fs;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, OnceLock, PoisonError};

use pinion_archive::Layout;
use pinion_archive::layout::{FileHeader, HEADER_PAGE_BYTES, SectionRow};
use pinion_builder::{Options, build_file};
use xxhash_rust::xxh3::xxh3_64;
use zerocopy::{FromBytes, IntoBytes};

/// A time that is late enough for no file to count as just changed.
const NOW: i64 = 4_000_000_000;
/// Bytes after the rows of a file of fingerprints: the identity of its archive, the number of rows,
/// a checksum of all.
const TRAILER_BYTES: usize = 32 + 48 + 8 + 32;
/// Flag in the first byte of an input: the checksums of the archive are corrected.
const SEALS_ARCHIVE: u8 = 1;
/// Flag: those of the file of fingerprints are corrected too, so that it names the archive.
const SEALS_STAMPS: u8 = 2;

/// A small site, and the files that a build makes of it.
struct Site {
    folder: PathBuf,
    archive: Vec<u8>,
    stamps: Vec<u8>,
}

/// Checks a build. `data` is a byte of flags for the corrections, then edits of four bytes each:
/// the file, the position, and the change.
pub(crate) fn check(data: &[u8]) {
    static SITE: OnceLock<Mutex<Site>> = OnceLock::new();
    let Some((&seals, edits)) = data.split_first() else { return };
    let site = SITE.get_or_init(|| Mutex::new(Site::new()));
    let site = site.lock().unwrap_or_else(PoisonError::into_inner);
    let (mut archive, mut stamps) = (site.archive.clone(), site.stamps.clone());
    for edit in edits.as_chunks::<4>().0 {
        let bytes = if edit[0] & 1 == 0 { &mut archive } else { &mut stamps };
        let place = usize::from(u16::from_le_bytes([edit[1], edit[2]])) % bytes.len();
        bytes[place] ^= edit[3];
    }
    if seals & SEALS_ARCHIVE != 0 {
        seal_archive(&mut archive);
    }
    let out = site.folder.join("site.pinion");
    fs::write(&out, &archive).expect("an archive");
    if seals & SEALS_STAMPS != 0 {
        seal_stamps(&mut stamps, &archive, &out);
    }
    fs::write(site.folder.join(".site.pinion.stat"), &stamps).expect("a file of fingerprints");
    let built = build_file(&site.folder.join("files"), &options(), &out, &());
    built.expect("a build that takes nothing from them");
    let bytes = fs::read(&out).expect("an archive");
    // If the checksum is correct, a false statement that an archive is the old one, or that a file
    // is unchanged, is accepted: preventing that is the purpose of the checksum.
    if seals & SEALS_STAMPS == 0 {
        assert!(bytes == site.archive, "another archive");
    } else {
        Layout::open(&bytes).expect("an archive");
    }
}

fn options() -> Options {
    Options { force: true, threads: NonZeroUsize::new(1), ..Options::new(NOW) }
}

impl Site {
    fn new() -> Site {
        let name = format!("pinion-reuse-law-{}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(folder.join("files")).expect("a folder");
        let page = |number: u8| format!("<p>page {number}, like the others</p>").repeat(9);
        for number in 0..4 {
            fs::write(folder.join(format!("files/{number}.html")), page(number)).expect("a file");
        }
        fs::write(folder.join("files/same.html"), page(2)).expect("a file");
        fs::write(folder.join("files/same.svg"), page(2)).expect("a file");
        fs::write(folder.join("files/noise.bin"), [7, 9, 3]).expect("a file");
        let out = folder.join("site.pinion");
        build_file(&folder.join("files"), &options(), &out, &()).expect("an archive");
        let archive = fs::read(&out).expect("an archive");
        let stamps = fs::read(folder.join(".site.pinion.stat")).expect("fingerprints");
        Site { folder, archive, stamps }
    }
}

/// Corrects the digests of all sections that have one, and the checksum of the first page.
fn seal_archive(bytes: &mut [u8]) {
    let whole = bytes.to_vec();
    let (header, table) = FileHeader::mut_from_prefix(bytes).expect("a page");
    let most = (HEADER_PAGE_BYTES - size_of::<FileHeader>()) / size_of::<SectionRow>();
    let count = (header.sections.get() as usize).min(most);
    let (rows, _) = <[SectionRow]>::mut_from_prefix_with_elems(table, count).expect("a page");
    for row in rows.iter_mut().filter(|row| row.digest != [0; 32]) {
        let start = usize::try_from(row.offset.get()).unwrap_or(usize::MAX);
        let end = start.saturating_add(usize::try_from(row.bytes.get()).unwrap_or(usize::MAX));
        if let Some(section) = whole.get(start..end) {
            row.digest = *blake3::hash(section).as_bytes();
        }
    }
    header.checksum = 0.into();
    let checksum = xxh3_64(&bytes[..HEADER_PAGE_BYTES]);
    FileHeader::mut_from_prefix(bytes).expect("a page").0.checksum = checksum.into();
}

/// Makes the file of fingerprints name the archive at `out`.
fn seal_stamps(stamps: &mut [u8], archive: &[u8], out: &Path) {
    use std::os::unix::fs::MetadataExt;
    let Ok(layout) = Layout::open(archive) else { return };
    let metadata = fs::metadata(out).expect("an archive");
    let mut trailer = layout.digest().0.to_vec();
    trailer.extend_from_slice(&metadata.dev().to_le_bytes());
    trailer.extend_from_slice(&metadata.ino().to_le_bytes());
    trailer.extend_from_slice(&metadata.len().to_le_bytes());
    trailer.extend_from_slice(&metadata.mtime().to_le_bytes());
    trailer.extend_from_slice(&metadata.ctime().to_le_bytes());
    trailer.extend_from_slice((metadata.mtime_nsec() as u32).as_bytes());
    trailer.extend_from_slice((metadata.ctime_nsec() as u32).as_bytes());
    let start = stamps.len() - TRAILER_BYTES;
    stamps[start..start + trailer.len()].copy_from_slice(&trailer);
    let (all, checksum) = stamps.split_last_chunk_mut::<32>().expect("a checksum");
    *checksum = *blake3::hash(all).as_bytes();
}
