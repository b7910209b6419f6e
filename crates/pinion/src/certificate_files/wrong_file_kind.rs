//! Recognizes files that are given as a certificate or a key and hold something else, or hold it in
//! another form, and advises about them.

use std::path::Path;

/// Which file it was given as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// That of a certificate, perhaps with the key in it.
    Certificate,
    /// That of a private key.
    Key,
}

/// Returns the kind of a file that has neither a certificate nor a key in PEM, as a phrase that
/// follows its name; `None` if the kind cannot be recognized.
pub(super) fn foreign_kind(file: &Path, content: &[u8], role: Role) -> Option<String> {
    let holds = |label: &str| {
        let begin = format!("-----BEGIN {label}-----");
        content.windows(begin.len()).any(|window| window == begin.as_bytes())
    };
    if content.iter().all(u8::is_ascii_whitespace) {
        return Some(format!("is empty; give the file of {}", wanted(role)));
    }
    if holds("CERTIFICATE REQUEST") || holds("NEW CERTIFICATE REQUEST") {
        let advice = match role {
            Role::Certificate => "give the certificate that the authority issued",
            Role::Key => "give the private key that it was made with",
        };
        return Some(format!("is a certificate request; {advice}"));
    }
    if holds("PUBLIC KEY") || holds("RSA PUBLIC KEY") {
        return Some(format!("is a public key; give {}", wanted(role)));
    }
    let (shown, pem) = (file.display(), as_pem(file));
    if holds("PKCS7") {
        let command = format!("openssl pkcs7 -print_certs -in {shown} -out {pem}");
        return Some(format!("is a PKCS #7 file; convert it: {command}"));
    }
    let (kind, command) = match der(content)? {
        Der::Certificate => {
            ("a certificate in the form DER", format!("x509 -inform der -in {shown} -out {pem}"))
        }
        Der::Key => {
            ("a private key in the form DER", format!("pkey -inform der -in {shown} -out {pem}"))
        }
        Der::Pkcs12 => ("a PKCS #12 file", format!("pkcs12 -in {shown} -nodes -out {pem}")),
        Der::Pkcs7 => {
            ("a PKCS #7 file", format!("pkcs7 -inform der -print_certs -in {shown} -out {pem}"))
        }
    };
    Some(format!("is {kind}, not a PEM file; convert it: openssl {command}"))
}

/// Returns the expected content of a file, in words.
fn wanted(role: Role) -> &'static str {
    match role {
        Role::Certificate => "the certificate",
        Role::Key => "the private key",
    }
}

/// Returns a name for the converted file.
fn as_pem(file: &Path) -> String {
    let pem = file.with_extension("pem");
    let pem = if pem == file { file.with_extension("converted.pem") } else { pem };
    pem.display().to_string()
}

/// The kinds of content of a file in DER.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Der {
    /// A certificate (RFC 5280 §4.1).
    Certificate,
    /// A private key: PKCS #8 (RFC 5958), PKCS #1 (RFC 8017) or SEC 1 (RFC 5915).
    Key,
    /// Certificates and keys below a password (RFC 7292).
    Pkcs12,
    /// Certificates alone (RFC 2315).
    Pkcs7,
}

/// Recognizes the kind of content in DER by the first values of the outer sequence.
fn der(bytes: &[u8]) -> Option<Der> {
    const SEQUENCE: u8 = 0x30;
    const OBJECT_IDENTIFIER: u8 = 0x06;
    const INTEGER: u8 = 0x02;
    let inner = within(bytes, SEQUENCE)?;
    match inner {
        // The version: 3 in PKCS #12, 0 or 1 in a key.
        [INTEGER, 1, 3, ..] => Some(Der::Pkcs12),
        [INTEGER, 1, 0 | 1, ..] => Some(Der::Key),
        [OBJECT_IDENTIFIER, ..] => Some(Der::Pkcs7),
        // The version of a certificate is in a tag of its own.
        _ => within(inner, SEQUENCE)?.starts_with(&[0xa0, 3]).then_some(Der::Certificate),
    }
}

/// Returns the bytes after the tag and the length of a value in DER, if it has this tag.
fn within(bytes: &[u8], tag: u8) -> Option<&[u8]> {
    let (first, rest) = bytes.split_first()?;
    let (length, rest) = rest.split_first()?;
    if *first != tag {
        return None;
    }
    // A length of 128 or more stands in as many bytes as the lower bits say.
    let more = if *length < 0x80 { 0 } else { usize::from(*length & 0x7f) };
    rest.get(more..)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair() -> rcgen::CertifiedKey<rcgen::KeyPair> {
        rcgen::generate_simple_self_signed(["a.test".to_owned()]).expect("a pair")
    }

    #[test]
    fn each_wrong_kind_of_file_is_named_with_advice() {
        let pair = pair();
        let (cert, key) = (pair.cert.der().to_vec(), pair.signing_key.serialize_der());
        let pem = |label: &str| format!("-----BEGIN {label}-----\nAA==\n-----END {label}-----\n");
        let pem = |label: &str| pem(label).into_bytes();
        let pkcs12 = [&[0x30, 0x82, 9, 0x40, 2, 1, 3, 0x30, 0x82][..], &[0; 90]].concat();
        use Role::{Certificate, Key};
        for (content, role, expected) in [
            (vec![], Certificate, "is empty; give the file of the certificate"),
            (b" \n".to_vec(), Key, "is empty; give the file of the private key"),
            (
                cert,
                Certificate,
                "is a certificate in the form DER, not a PEM file; convert it: openssl x509 \
                 -inform der -in d/a.der -out d/a.pem",
            ),
            (
                key,
                Key,
                "is a private key in the form DER, not a PEM file; convert it: openssl pkey \
                 -inform der -in d/a.der -out d/a.pem",
            ),
            (
                pkcs12,
                Certificate,
                "is a PKCS #12 file, not a PEM file; convert it: openssl pkcs12 -in d/a.der \
                 -nodes -out d/a.pem",
            ),
            (
                pem("CERTIFICATE REQUEST"),
                Certificate,
                "is a certificate request; give the certificate that the authority issued",
            ),
            (pem("PUBLIC KEY"), Key, "is a public key; give the private key"),
            (pem("PUBLIC KEY"), Certificate, "is a public key; give the certificate"),
        ] {
            let said = foreign_kind(Path::new("d/a.der"), &content, role);
            assert_eq!(said.as_deref(), Some(expected));
        }
    }

    #[test]
    fn unrecognised_files_are_not_guessed() {
        for content in [&b"text"[..], &[0x30], &[0x30, 0x82], &[0x30, 0xff, 1], &[0x30, 2, 5, 0]] {
            let said = foreign_kind(Path::new("a"), content, Role::Certificate);
            assert_eq!(said, None, "{content:?}");
        }
        assert_eq!(as_pem(Path::new("a.pem")), "a.converted.pem");
    }
}
