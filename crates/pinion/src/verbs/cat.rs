//! `pinion cat FILE URLPATH`: one stored body to stdout, as its client would get it.

use crate::archive_file::ArchiveFile;
use crate::failure::Failure;
use crate::listed_entry::ListedEntry;
use crate::settings::Cat;
use crate::terminal::shown;
use anyhow::anyhow;
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use pinion_archive::layout::FILE_PREFIX;
use pinion_archive::{Archive, Entry, Scratch};
use pinion_http::content_coding::Coding;
use pinion_http::request_target;
use std::io::{self, Write};

/// Writes the body, or a JSON document that holds it.
pub(crate) fn run(cat: &Cat) -> Result<(), Failure> {
    let file = ArchiveFile::open(&cat.file)?;
    let archive = file.view();
    let mut scratch = Scratch::new();
    if !load(&archive, &cat.path, &mut scratch).map_err(|damage| file.damaged(damage))? {
        let (path, shown_file) = (shown(&cat.path), cat.file.display());
        let code = archive.code().map_err(|damage| file.damaged(damage))?;
        if code.iter().any(|(known, _)| *known == *cat.path) {
            let advice = "code is never sent; `pinion extract` writes it";
            return Err(anyhow!("{shown_file}: {path} is code, and {advice}").into());
        }
        return Err(anyhow!("{shown_file} has no {path}; `pinion ls` lists its paths").into());
    }
    let Some(entry) = scratch.entry() else {
        return Err(anyhow!("{}: the entry cannot be read", cat.file.display()).into());
    };
    let coding = Coding::from_token(cat.coding.as_bytes()).unwrap_or(Coding::Identity);
    let body = body(&file, &entry, coding)?;
    let mut out = io::stdout().lock();
    if cat.json {
        let listed = ListedEntry::new(&archive, &entry).map_err(|damage| file.damaged(damage))?;
        let value = document(&listed, coding, body).map_err(io::Error::from)?;
        writeln!(out, "{value}")?;
    } else {
        out.write_all(body)?;
    }
    Ok(out.flush()?)
}

/// Finds a path as it stands in the archive, else as a client would write it, else a file that no
/// client gets.
fn load(
    archive: &Archive<'_>,
    path: &[u8],
    scratch: &mut Scratch,
) -> Result<bool, pinion_archive::Damage> {
    if archive.load(path, scratch)? {
        return Ok(true);
    }
    let mut decoded = Vec::new();
    let Ok(key) = request_target::decode_path(path, &mut decoded) else { return Ok(false) };
    Ok(archive.load(key, scratch)? || archive.load(&[FILE_PREFIX, key].concat(), scratch)?)
}

fn body<'a>(file: &'a ArchiveFile, entry: &Entry<'_>, coding: Coding) -> Result<&'a [u8], Failure> {
    let (path, archive) = (shown(entry.path()), file.path().display());
    let Some(form) = entry.representations().find(|form| form.coding() == coding) else {
        let stored: Vec<&str> = entry.representations().map(|form| form.coding().token()).collect();
        return Err(match (stored.is_empty(), entry.target()) {
            (true, Some(target)) => anyhow!("{path} has no body: it leads to {}", shown(target)),
            (true, None) => anyhow!("{path} has no body"),
            (false, _) => anyhow!(
                "{path} is not stored as {}; there is: {}",
                coding.token(),
                stored.join(", ")
            ),
        }
        .into());
    };
    match file.view().body(&form) {
        Ok(Some(body)) => Ok(body),
        Ok(None) => Err(anyhow!("{archive}: the body of {path} is in a file outside of it").into()),
        Err(damage) => Err(file.damaged(damage)),
    }
}

/// Returns the entry as `pinion ls --json` has it, with the body: as text where it is text, else as
/// base64.
fn document(
    listed: &ListedEntry,
    coding: Coding,
    body: &[u8],
) -> serde_json::Result<serde_json::Value> {
    let mut value = serde_json::to_value(listed)?;
    value["coding"] = coding.token().into();
    match std::str::from_utf8(body) {
        Ok(text) => value["body"] = text.into(),
        Err(_) => value["body_base64"] = BASE64_STANDARD.encode(body).into(),
    }
    Ok(value)
}
