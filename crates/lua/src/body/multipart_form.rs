//! A form with files, as it arrives: fields in memory, files in one spool.

use pinion_http::limits::PART_HEAD_MAX_BYTES;
use pinion_http::multipart_form::{FormEvent, FormReader, PartHead};
use pinion_jobs::safe_file_name;
use pinion_jobs::upload_quota::UploadQuota;
use pinion_jobs::upload_spool::{StoreError, UploadSpool};

use super::received_content::ContentRefusal;
use crate::limits::{FORM_FIELDS_MAX_BYTES, FORM_FILES_MAX};
use std::io;
use std::sync::Arc;

/// A form, as far as it has arrived. Its files are dropped with it.
#[derive(Debug)]
pub(crate) struct MultipartForm {
    reader: FormReader,
    form: UploadedForm,
    is_complete: bool,
}

/// The part of the form that has been read.
#[derive(Debug, Default)]
struct UploadedForm {
    entries: Vec<FormEntry>,
    spool: UploadSpool,
    files: usize,
    /// Bytes of names and of values that are no files.
    fields_bytes: usize,
    /// Whether the file that is being read has a name, or content.
    is_file_there: bool,
    refusal: Option<ContentRefusal>,
}

/// A field of a form.
#[derive(Debug)]
pub(crate) struct FormEntry {
    pub(crate) name: Vec<u8>,
    pub(crate) value: FormValue,
}

#[derive(Debug)]
pub(crate) enum FormValue {
    Text(Vec<u8>),
    File(StoredFile),
}

/// A file of a form.
#[derive(Debug)]
pub(crate) struct StoredFile {
    /// The client's name for the file, made safe.
    pub(crate) name: String,
    /// The media type that the client has sent.
    pub(crate) kind: Option<Vec<u8>>,
    /// The offset of the file in the spool, and its length.
    at: u64,
    pub(crate) bytes: u64,
}

impl MultipartForm {
    pub(crate) fn new(reader: FormReader) -> Self {
        Self { reader, form: UploadedForm::default(), is_complete: false }
    }

    /// Sets the quota of its files.
    pub(crate) fn belong_to(&mut self, quota: &Arc<UploadQuota>) {
        self.form.spool.belong_to(quota);
    }

    /// Returns whether it takes some of the quota of all uploads.
    pub(crate) fn is_stored(&self) -> bool {
        self.form.spool.is_stored()
    }

    /// Parses the next bytes of the form.
    pub(crate) fn push(&mut self, bytes: &[u8]) -> Result<(), ContentRefusal> {
        let Self { reader, form, .. } = self;
        reader.push(bytes, &mut |event| form.event(event))?;
        form.refusal.take().map_or(Ok(()), Err)
    }

    /// Ends the form.
    pub(crate) fn finish(&mut self) -> Result<(), ContentRefusal> {
        self.reader.finish()?;
        self.form.spool.finish().map_err(not_stored)?;
        self.is_complete = true;
        Ok(())
    }

    pub(crate) fn is_complete(&self) -> bool {
        self.is_complete
    }

    /// Returns how much memory it takes.
    pub(crate) fn held_bytes(&self) -> usize {
        let form = &self.form;
        let entries_bytes = form.entries.capacity() * size_of::<FormEntry>();
        let texts_bytes: usize = form.entries.iter().map(FormEntry::held_bytes).sum();
        PART_HEAD_MAX_BYTES + entries_bytes + texts_bytes + form.spool.held_bytes()
    }

    pub(crate) fn entries(&self) -> &[FormEntry] {
        &self.form.entries
    }

    /// Returns a file by the number of its entry.
    pub(crate) fn file(&self, number: usize) -> Option<&StoredFile> {
        match &self.form.entries.get(number)?.value {
            FormValue::File(file) => Some(file),
            FormValue::Text(_) => None,
        }
    }

    /// Reads up to so many bytes of a file, from `at` on.
    pub(crate) fn read(&self, file: &StoredFile, at: u64, bytes: u64) -> io::Result<Vec<u8>> {
        let bytes = bytes.min(file.bytes.saturating_sub(at));
        self.form.spool.read(file.at + at.min(file.bytes), bytes)
    }
}

impl FormEntry {
    fn held_bytes(&self) -> usize {
        let value_bytes = match &self.value {
            FormValue::Text(text) => text.capacity(),
            FormValue::File(file) => {
                file.name.capacity() + file.kind.as_ref().map_or(0, Vec::capacity)
            }
        };
        self.name.capacity() + value_bytes
    }
}

impl UploadedForm {
    fn event(&mut self, event: FormEvent<'_>) {
        if self.refusal.is_some() {
            return;
        }
        let done = match event {
            FormEvent::Part(part) => self.begin(part),
            FormEvent::Data(bytes) => self.data(bytes),
            FormEvent::PartEnd => {
                self.end();
                Ok(())
            }
            FormEvent::End => Ok(()),
        };
        self.refusal = done.err();
    }

    fn begin(&mut self, part: PartHead) -> Result<(), ContentRefusal> {
        let PartHead { name, file_name, content_type } = part;
        let kind_bytes = content_type.as_ref().map_or(0, Vec::len);
        self.charge(name.len() + file_name.as_ref().map_or(0, Vec::len) + kind_bytes)?;
        let value = match file_name {
            None => FormValue::Text(Vec::new()),
            Some(sent) => {
                self.is_file_there = !sent.is_empty();
                self.files += 1;
                if self.files > FORM_FILES_MAX {
                    return Err(too_much(format!(
                        "the form has more than {FORM_FILES_MAX} files, which no flag raises"
                    )));
                }
                let name = safe_file_name::safe(&sent);
                let at = self.spool.bytes();
                FormValue::File(StoredFile { name, kind: content_type, at, bytes: 0 })
            }
        };
        self.entries.push(FormEntry { name, value });
        Ok(())
    }

    fn data(&mut self, bytes: &[u8]) -> Result<(), ContentRefusal> {
        let is_text =
            matches!(self.entries.last(), Some(FormEntry { value: FormValue::Text(_), .. }));
        if is_text {
            self.charge(bytes.len())?;
        }
        match self.entries.last_mut().map(|entry| &mut entry.value) {
            Some(FormValue::Text(text)) => text.extend_from_slice(bytes),
            Some(FormValue::File(file)) => {
                self.is_file_there = true;
                file.bytes += bytes.len() as u64;
                self.spool.append(bytes).map_err(not_stored)?;
            }
            None => {}
        }
        Ok(())
    }

    /// Browsers send a file without a name and without content when the user has chosen none.
    fn end(&mut self) {
        let is_file =
            matches!(self.entries.last(), Some(FormEntry { value: FormValue::File(_), .. }));
        if is_file && !self.is_file_there {
            self.entries.pop();
        }
    }

    fn charge(&mut self, bytes: usize) -> Result<(), ContentRefusal> {
        self.fields_bytes += bytes;
        if self.fields_bytes > FORM_FIELDS_MAX_BYTES {
            return Err(too_much(format!(
                "the text fields of the form are larger than {} KiB in all, which no flag raises; \
                 send large content as a file",
                FORM_FIELDS_MAX_BYTES >> 10
            )));
        }
        Ok(())
    }
}

fn too_much(why: String) -> ContentRefusal {
    ContentRefusal { status: 413, why }
}

#[cold]
fn not_stored(error: StoreError) -> ContentRefusal {
    let (status, why) = match error {
        StoreError::Full(why) => (503, why),
        StoreError::Io(error) => (500, error.to_string()),
    };
    let folder = std::env::temp_dir();
    ContentRefusal { status, why: format!("cannot store an upload in {}: {why}", folder.display()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn upload(form: &[u8]) -> Result<MultipartForm, ContentRefusal> {
        let mut upload = MultipartForm::new(FormReader::new(b"b"));
        for piece in form.chunks(1000) {
            upload.push(piece)?;
        }
        upload.finish()?;
        Ok(upload)
    }

    fn part(parameters: &str, content: &str) -> String {
        let head = format!("Content-Disposition: form-data; {parameters}");
        format!("--b\r\n{head}\r\n\r\n{content}\r\n")
    }

    #[test]
    fn form_files_are_stored_one_after_the_other() {
        let (small, large) = ("s".repeat(10), "l".repeat(100_000));
        let form = part("name=a", "1")
            + &part("name=f; filename=small", &small)
            + &part("name=none; filename=\"\"", "")
            + &part("name=f; filename=empty", "")
            + &part("name=g; filename=\"\"", &large)
            + &part("name=f; filename=small", &small)
            + "--b--";
        let upload = upload(form.as_bytes()).expect("a form");
        let found: Vec<_> = upload
            .entries()
            .iter()
            .enumerate()
            .map(|(number, entry)| match (&entry.value, upload.file(number)) {
                (FormValue::Text(text), None) => ("", text.clone()),
                (_, Some(file)) => {
                    (&*file.name, upload.read(file, 0, u64::MAX).expect("its content"))
                }
                other => panic!("{other:?}"),
            })
            .collect();
        let bytes = |text: &str| text.as_bytes().to_vec();
        let expected = [
            ("", bytes("1")),
            ("small", bytes(&small)),
            ("empty", Vec::new()),
            ("unnamed", bytes(&large)),
            ("small", bytes(&small)),
        ];
        assert_eq!(found, expected);
        let last = upload.file(4).expect("a file");
        assert_eq!(upload.read(last, 8, 100).expect("its end"), b"ss");
        assert_eq!(upload.read(last, 80, 100).expect("behind its end"), b"");
    }

    #[test]
    fn too_many_form_files_or_fields_are_refused_with_413() {
        let file = part("name=f; filename=x", "");
        let most = file.repeat(FORM_FILES_MAX);
        assert!(upload(format!("{most}--b--").as_bytes()).is_ok());
        let refusal = upload(format!("{most}{file}--b--").as_bytes()).expect_err("too many");
        assert_eq!(refusal.status, 413);
        let files = format!("more than {FORM_FILES_MAX} files");
        assert!(refusal.why.contains(&files), "{}", refusal.why);
        let fits = part("name=a", &"x".repeat(FORM_FIELDS_MAX_BYTES - 1));
        assert!(upload(format!("{fits}--b--").as_bytes()).is_ok());
        let refusal = upload(format!("{fits}{}--b--", part("name=b", "")).as_bytes());
        assert_eq!(refusal.expect_err("too much").status, 413);
        assert_eq!(upload(file.as_bytes()).expect_err("no end").status, 400);
    }
}
