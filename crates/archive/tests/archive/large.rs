//! Archives larger than 4 GiB, and the bytes that one entry adds to the file.

use std::io::{self, Read, Seek, SeekFrom, Write};

use pinion_archive::{Digest, Layout, Scratch, Writer};
use pinion_http::content_coding::Coding;

use crate::sample_archive::{add_shared_block, body, finish, representation, resource, writer};

/// A writer to a large buffer of zeros. It skips writes of zeros, so that the untouched pages of
/// the buffer take no memory.
struct SparseBuffer {
    bytes: Vec<u8>,
    position: usize,
}

impl Write for SparseBuffer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let end = self.position + bytes.len();
        if bytes.iter().any(|&byte| byte != 0) {
            self.bytes[self.position..end].copy_from_slice(bytes);
        }
        self.position = end;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Seek for SparseBuffer {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let SeekFrom::Start(position) = to else { return Err(io::ErrorKind::Unsupported.into()) };
        self.position = position as usize;
        Ok(position)
    }
}

#[test]
fn bodies_records_and_index_beyond_4_gib_are_found() {
    const LARGE: u64 = (4 << 30) + 12_345;
    const CHUNK: u64 = 1 << 20;
    let digest = {
        let mut hasher = blake3::Hasher::new();
        let zeros = vec![0; CHUNK as usize];
        for _ in 0..LARGE / CHUNK {
            hasher.update(&zeros);
        }
        hasher.update(&zeros[..(LARGE % CHUNK) as usize]);
        Digest(*hasher.finalize().as_bytes())
    };
    let out = SparseBuffer { bytes: vec![0; (LARGE + CHUNK) as usize], position: 0 };
    let mut w = Writer::new(out).expect("memory");
    let block = w
        .shared(&pinion_archive::NewShared {
            role: pinion_archive::Role::Ordinary,
            status: 200,
            content_type: Some("text/plain"),
            fields: &[],
            not_modified: &[],
        })
        .expect("well-formed");
    let large = w.body_from(&digest, LARGE, &mut io::repeat(0).take(LARGE)).expect("zeros");
    let after = Digest::of(b"after");
    let small = w.body(&after, b"after").expect("memory");
    for (path, body) in [(&b"/large"[..], (digest, large)), (b"/small", (after, small))] {
        w.entry(&resource(path, &[representation(Coding::Identity, block, body)])).expect("valid");
    }
    let (summary, SparseBuffer { mut bytes, .. }) = w.finish(&[]).expect("well-formed");
    assert!(summary.total_bytes > LARGE);
    bytes.truncate(summary.total_bytes as usize);

    let layout = Layout::open(&bytes).expect("sound");
    let archive = layout.view(&bytes);
    let mut scratch = Scratch::new();
    let entry = archive.find(b"/small", &mut scratch).expect("sound").expect("there");
    assert!(entry.offset() > LARGE);
    let stored = archive.body(&entry.representation(0).expect("one"));
    assert_eq!(stored, Ok(Some(&b"after"[..])));
    let entry = archive.find(b"/large", &mut scratch).expect("sound").expect("there");
    assert_eq!(entry.representation(0).expect("one").bytes(), LARGE);
    let stored = archive.body(&entry.representation(0).expect("one")).expect("sound");
    assert_eq!(stored.map(|body| body.len() as u64), Some(LARGE));
}

/// A path of 40 bytes with one representation costs at most 256 bytes in addition to its body, so
/// that a million of them, with bodies of 40 bytes, fit into 300 MB.
#[test]
fn a_path_costs_at_most_256_bytes() {
    const ENTRIES: u64 = 50_000;
    let mut w = writer();
    let block = add_shared_block(&mut w, "text/html; charset=utf-8");
    for number in 0..ENTRIES {
        let path = format!("/articles/2026/{:02}/{number:016}/index", number % 12);
        assert_eq!(path.len(), 40);
        let stored = body(&mut w, path.as_bytes());
        let representations = [representation(Coding::Identity, block, stored)];
        w.entry(&resource(path.as_bytes(), &representations)).expect("a valid entry");
    }
    let bytes = finish(w).len() as u64;
    let each = (bytes - ENTRIES * 40) / ENTRIES;
    assert!(each <= 256, "{each} bytes");
}
