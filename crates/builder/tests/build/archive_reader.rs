//! An archive in the form for tests: everything is read and checked in one step.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Cursor, Read};

use pinion_archive::{Archive, Entry, Layout, verify};
use pinion_builder::{BuildError, Built, Options, Summary, build};
use pinion_http::content_coding::Coding;

use crate::temporary_folder::Folder;

/// The time tests run at: 2021.
pub(crate) const NOW: i64 = 1_609_459_200;

/// A built archive.
pub(crate) struct Site {
    pub(crate) bytes: Vec<u8>,
    pub(crate) summary: Summary,
    pub(crate) externals: Vec<File>,
    /// By key; not-found pages by `404:/dir/`.
    pub(crate) entries: BTreeMap<String, Page>,
    /// Keys of files, without aliases and not-found pages, in the order of the archive.
    pub(crate) files: Vec<Vec<u8>>,
}

/// The entry of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Page {
    pub(crate) status: u16,
    pub(crate) target: Option<String>,
    pub(crate) modified: Option<i64>,
    pub(crate) forms: Vec<Form>,
}

/// A representation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Form {
    pub(crate) coding: Coding,
    /// Stored bytes; None when they are outside.
    pub(crate) stored: Option<Vec<u8>>,
    pub(crate) etag: String,
    pub(crate) fields: String,
    pub(crate) not_modified: String,
}

pub(crate) fn options() -> Options {
    Options::new(NOW)
}

pub(crate) fn built(folder: &Folder) -> Site {
    built_with(folder, &options()).unwrap()
}

pub(crate) fn built_with(folder: &Folder, options: &Options) -> Result<Site, BuildError> {
    let Built { summary, out, externals } =
        build(folder.path(), options, Cursor::new(Vec::new()), &())?;
    Ok(Site { summary, externals, ..read(out.into_inner()) })
}

/// Reads any archive.
pub(crate) fn read(bytes: Vec<u8>) -> Site {
    let layout = Layout::open(&bytes).unwrap();
    let archive = layout.view(&bytes);
    let report = verify(&bytes, &mut |_, _| {}).unwrap();
    assert!(report.is_sound(), "{report:?}");
    let (mut entries, mut files) = (BTreeMap::new(), Vec::new());
    let mut all = archive.entries();
    while let Some(entry) = all.next_entry().unwrap() {
        let key = entry.path().escape_ascii().to_string();
        if key.starts_with('/') && entry.target().is_none() {
            files.push(entry.path().to_vec());
        }
        assert!(entries.insert(key, page(&archive, &entry)).is_none());
    }
    Site { bytes, summary: Summary::default(), externals: Vec::new(), entries, files }
}

fn page(archive: &Archive<'_>, entry: &Entry<'_>) -> Page {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    let form = |form: pinion_archive::Representation<'_>| {
        let shared = archive.shared(form.shared()).unwrap();
        assert_eq!(shared.status, entry.status());
        Form {
            coding: form.coding(),
            stored: archive.body(&form).unwrap().map(<[u8]>::to_vec),
            etag: text(form.etag()),
            fields: text(shared.full),
            not_modified: text(shared.not_modified),
        }
    };
    Page {
        status: entry.status(),
        target: entry.target().map(text),
        modified: entry.modified(),
        forms: entry.representations().map(form).collect(),
    }
}

impl Site {
    #[track_caller]
    pub(crate) fn page(&self, key: &str) -> &Page {
        self.entries.get(key).unwrap_or_else(|| panic!("no entry {key}: {:?}", self.keys()))
    }

    pub(crate) fn keys(&self) -> Vec<&str> {
        self.entries.keys().map(String::as_str).collect()
    }
}

impl Page {
    pub(crate) fn codings(&self) -> Vec<Coding> {
        self.forms.iter().map(|form| form.coding).collect()
    }

    /// Returns the content, which all forms must decode to.
    #[track_caller]
    pub(crate) fn content(&self) -> Vec<u8> {
        let content = self.forms[0].stored.clone().unwrap();
        for form in &self.forms {
            assert_eq!(form.decoded(), content, "{:?}", form.coding);
        }
        content
    }

    /// Returns the value of a field of the identity.
    pub(crate) fn field(&self, name: &str) -> Option<&str> {
        self.forms[0].field(name)
    }
}

impl Form {
    pub(crate) fn field(&self, name: &str) -> Option<&str> {
        value(&self.fields, name)
    }

    pub(crate) fn decoded(&self) -> Vec<u8> {
        let stored = self.stored.as_deref().unwrap();
        let mut content = Vec::new();
        match self.coding {
            Coding::Identity => content.extend_from_slice(stored),
            Coding::Gzip => {
                let length = u32::from_le_bytes(*stored.last_chunk().unwrap());
                content.resize(length as usize, 0);
                libdeflater::Decompressor::new().gzip_decompress(stored, &mut content).unwrap();
            }
            Coding::Brotli => {
                pinion_brotli::Decoder::new(stored).read_to_end(&mut content).unwrap();
            }
            Coding::Zstd => content = zstd::decode_all(stored).unwrap(),
        }
        content
    }
}

/// Returns the value of the field with that name in whole field lines.
pub(crate) fn value<'a>(lines: &'a str, name: &str) -> Option<&'a str> {
    lines.split("\r\n").find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
}
