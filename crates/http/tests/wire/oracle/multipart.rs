//! Forms according to RFC 2046 §5.1 and RFC 7578, parsed from a whole buffer.

use pinion_http::limits::{PART_HEAD_MAX_BYTES, PART_NAME_MAX_BYTES, PARTS_MAX};
use pinion_http::multipart_form::{FormEvent, FormFault, FormReader, PartHead, boundary};

/// Possible boundaries of a form; some begin like the text around them.
const BOUNDARIES: [&[u8]; 4] = [b"b", b"--", b"-b-b", b"a b"];

/// Checks a form. The first byte selects the boundary (from 128 on, the rest is a `Content-Type`),
/// the second one determines the cuts; the rest is the form.
pub(crate) fn check(data: &[u8]) {
    let [choice, cut, form @ ..] = data else { return };
    if *choice >= 128 {
        if let Some(Ok(boundary)) = boundary(form) {
            assert!((1..=70).contains(&boundary.len()) && boundary.is_ascii());
        }
        return;
    }
    let boundary = BOUNDARIES[usize::from(*choice) % BOUNDARIES.len()];
    let expected = plain(boundary, form);
    assert_eq!(run(boundary, &[form]), expected, "in one piece");
    let pieces: Vec<_> = form.chunks(usize::from(*cut).max(1)).collect();
    assert_eq!(run(boundary, &pieces), expected, "in pieces of {cut}");
    for at in 0..form.len().min(200) {
        let (front, back) = form.split_at(at);
        assert_eq!(run(boundary, &[front, back]), expected, "cut at {at}");
    }
}

/// The complete parts, and the error of the form.
type Found = (Vec<(PartHead, Vec<u8>)>, Option<FormFault>);

fn run(boundary: &[u8], pieces: &[&[u8]]) -> Found {
    let (mut parts, mut open, mut is_over) = (Vec::new(), None, false);
    let mut reader = FormReader::new(boundary);
    let mut fault = None;
    for piece in pieces {
        let pushed = reader.push(piece, &mut |event| {
            assert!(!is_over, "behind the end");
            match event {
                FormEvent::Part(part) => assert!(open.replace((part, Vec::new())).is_none()),
                FormEvent::Data(bytes) => {
                    assert!(!bytes.is_empty());
                    open.as_mut().expect("a part").1.extend_from_slice(bytes);
                }
                FormEvent::PartEnd => parts.push(open.take().expect("a part")),
                FormEvent::End => is_over = true,
            }
        });
        fault = pushed.err();
        if fault.is_some() {
            break;
        }
    }
    let finished = reader.finish();
    assert!(finished.is_err() || is_over && open.is_none());
    (parts, fault.or(finished.err()))
}

/// Parses a form in the simplest way.
fn plain(boundary: &[u8], form: &[u8]) -> Found {
    let delimiter = [b"\r\n--", boundary].concat();
    let mut parts = Vec::new();
    let text = [b"\r\n", form].concat();
    let Some(at) = find(&text, &delimiter) else { return (parts, Some(FormFault::Incomplete)) };
    let mut rest = &text[at + delimiter.len()..];
    for count in 1.. {
        if let Some(last) = rest.strip_prefix(b"--") {
            let fault = match skip_padding(last) {
                [] | b"\r" | [b'\r', b'\n', ..] => None,
                _ => Some(FormFault::Delimiter),
            };
            return (parts, fault);
        }
        if rest == b"-" {
            return (parts, Some(FormFault::Incomplete));
        }
        let Some(head) = skip_padding(rest).strip_prefix(b"\r\n") else {
            let is_cut = matches!(skip_padding(rest), b"" | b"\r");
            let fault = if is_cut { FormFault::Incomplete } else { FormFault::Delimiter };
            return (parts, Some(fault));
        };
        if count > PARTS_MAX {
            return (parts, Some(FormFault::TooManyParts));
        }
        let seen = &head[..head.len().min(PART_HEAD_MAX_BYTES)];
        let end = if seen.starts_with(b"\r\n") { Some(0) } else { find(seen, b"\r\n\r\n") };
        let Some(end) = end else {
            let is_large = head.len() >= PART_HEAD_MAX_BYTES;
            let fault = if is_large { FormFault::PartHeadTooLarge } else { FormFault::Incomplete };
            return (parts, Some(fault));
        };
        // The lines include the last line break, because the delimiter may follow at once.
        let lines = if end == 0 { &[][..] } else { &head[..end + 2] };
        let content = if end == 0 { head } else { &head[end + 2..] };
        let part = match part(lines) {
            Ok(part) => part,
            Err(fault) => return (parts, Some(fault)),
        };
        let Some(at) = find(content, &delimiter) else {
            return (parts, Some(FormFault::Incomplete));
        };
        parts.push((part, content[..at].get(2..).unwrap_or_default().to_vec()));
        rest = &content[at + delimiter.len()..];
    }
    unreachable!("numbers do not end")
}

fn find(text: &[u8], wanted: &[u8]) -> Option<usize> {
    text.windows(wanted.len()).position(|window| window == wanted)
}

fn skip_padding(text: &[u8]) -> &[u8] {
    let padding = text.iter().take_while(|&&byte| byte == b' ' || byte == b'\t').count();
    &text[padding..]
}

fn part(lines: &[u8]) -> Result<PartHead, FormFault> {
    // Latin-1 represents every byte as one character.
    let text: String = lines.iter().map(|&byte| char::from(byte)).collect();
    let bytes = |text: &str| text.chars().map(|c| c as u8).collect::<Vec<_>>();
    let (mut names, mut kind) = (None, None);
    for line in text.split("\r\n") {
        if line.is_empty() {
            continue;
        }
        if line.contains(['\r', '\n']) {
            return Err(FormFault::PartHead);
        }
        let (name, value) = line.split_once(':').ok_or(FormFault::PartHead)?;
        let value = value.trim_matches([' ', '\t']);
        if !is_token(name) {
            return Err(FormFault::PartHead);
        }
        let was_there = match name.to_ascii_lowercase().as_str() {
            "content-disposition" => names.replace(disposition(value)?).is_some(),
            "content-type" => kind.replace(bytes(value)).is_some(),
            _ => false,
        };
        if was_there {
            return Err(FormFault::PartHead);
        }
    }
    let (name, file): (String, Option<String>) = names.ok_or(FormFault::Nameless)?;
    Ok(PartHead { name: bytes(&name), file_name: file.as_deref().map(bytes), content_type: kind })
}

fn is_token(text: &str) -> bool {
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c);
    !text.is_empty() && text.chars().all(is_allowed)
}

/// Reads the names as RFC 9110 escapes them. Where that makes no sense, backslashes stand for
/// themselves, as browsers write them.
fn disposition(value: &str) -> Result<(String, Option<String>), FormFault> {
    match disposition_with(value, unquoted) {
        Err(FormFault::PartHead) if value.contains('\\') => disposition_with(value, |text| {
            text.split_once('"').map(|(t, rest)| (t.to_owned(), rest))
        }),
        read => read,
    }
}

fn disposition_with(
    value: &str,
    unquoted: fn(&str) -> Option<(String, &str)>,
) -> Result<(String, Option<String>), FormFault> {
    let (kind, mut rest) = value.split_at(value.find(';').unwrap_or(value.len()));
    if !kind.trim_matches([' ', '\t']).eq_ignore_ascii_case("form-data") {
        return Err(FormFault::Nameless);
    }
    let (mut names, mut files) = (Vec::new(), Vec::new());
    loop {
        rest = rest.trim_start_matches([';', ' ', '\t']);
        if rest.is_empty() {
            break;
        }
        let (key, behind) = rest.split_once('=').ok_or(FormFault::PartHead)?;
        if !is_token(key) {
            return Err(FormFault::PartHead);
        }
        let text;
        if let Some(quoted) = behind.strip_prefix('"') {
            (text, rest) = unquoted(quoted).ok_or(FormFault::PartHead)?;
            rest = rest.trim_start_matches([' ', '\t']);
            if !rest.is_empty() && !rest.starts_with(';') {
                return Err(FormFault::PartHead);
            }
        } else {
            let (plain, behind) = behind.split_at(behind.find(';').unwrap_or(behind.len()));
            (text, rest) = (plain.trim_matches([' ', '\t']).to_owned(), behind);
        }
        let escapes = [("%22", "\""), ("%0D", "\r"), ("%0d", "\r"), ("%0A", "\n"), ("%0a", "\n")];
        // No replacement creates another escape.
        let text = escapes.iter().fold(text, |text, (from, to)| text.replace(from, to));
        match key.to_ascii_lowercase().as_str() {
            "name" => names.push(text),
            "filename" => files.push(text),
            _ => {}
        }
        if names.len() > 1 || files.len() > 1 {
            return Err(FormFault::PartHead);
        }
    }
    let name = names.pop().ok_or(FormFault::Nameless)?;
    if name.chars().count() > PART_NAME_MAX_BYTES {
        return Err(FormFault::NameTooLong);
    }
    Ok((name, files.pop()))
}

/// Returns the text before the closing quote, and the text after it.
fn unquoted(text: &str) -> Option<(String, &str)> {
    let mut plain = String::new();
    let mut chars = text.char_indices().peekable();
    while let Some((at, c)) = chars.next() {
        match c {
            '"' => return Some((plain, &text[at + 1..])),
            '\\' => match chars.next_if(|(_, next)| matches!(next, '"' | '\\')) {
                Some((_, escaped)) => plain.push(escaped),
                None => plain.push('\\'),
            },
            other => plain.push(other),
        }
    }
    None
}
