//! The certificate that the server makes itself when it is given none. It is kept, so that a client
//! that trusts it need not be configured again.

use crate::failure::Failure;
use crate::settings::{CertificateFiles, SelfSignedKey};
use crate::state_folder;
use crate::timestamp_format;
use anyhow::{Context as _, anyhow};
use pinion_engine::tls::certificate::Certificate;
use rcgen::{
    CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, KeyPair,
    KeyUsagePurpose, PKCS_ECDSA_P256_SHA256, PKCS_ED25519, PKCS_RSA_SHA256, RsaKeySize, SanType,
};
use rustix::fs::{FlockOperation, flock};
use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// How long one is valid. Apple's systems take none above 825 days, even when configured to trust
/// it.
const VALID: Duration = Duration::from_secs(800 * 86_400);

/// The remaining validity at which another one is made: a server is started more often than once a
/// month, or checks the certificate while it runs.
const RENEWED_BEFORE_END: Duration = Duration::from_secs(30 * 86_400);

/// A clock that goes wrong by some hours is no reason to refuse a new certificate.
const VALID_BEFORE_NOW: Duration = Duration::from_secs(86_400);

/// Other users can open a file whose name they know, and cannot open the folder itself: a user who
/// could open it might lock it, and keep every start waiting.
const FOLDER_MODE: u32 = 0o711;

/// The mode of the file with the key.
const KEY_MODE: u32 = 0o600;

/// The mode of the file for clients, who may be other users.
const PUBLIC_MODE: u32 = 0o644;

/// Returns the file, which holds a certificate that is valid for a while. It is made when there is
/// none.
///
/// # Errors
/// One line that names the file or the folder.
pub(crate) fn files(
    key: SelfSignedKey,
    given_state: Option<&Path>,
) -> Result<CertificateFiles, Failure> {
    let state = state_folder::folder(given_state)?;
    state_folder::make(&state, state_folder::PRIVATE)?;
    let folder = state.join("tls");
    state_folder::make(&folder, FOLDER_MODE)?;
    let shown = folder.display();
    let lock = File::open(&folder)
        .map_err(|error| state_folder::unusable(&format!("cannot open {shown}"), &error))?;
    // Of two servers that start at the same time one makes it, and the other one finds it.
    flock(&lock, FlockOperation::LockExclusive).with_context(|| format!("cannot lock {shown}"))?;
    let file = folder.join(format!("self-signed-{}.pem", key.name()));
    let files = CertificateFiles { cert: file.clone(), key: file };
    if files.cert.try_exists().unwrap_or(true) {
        let kept = files
            .load()
            .map_err(|bad| anyhow!("{bad}; remove the file, and another certificate is made"))?;
        if is_valid_for_long(&kept) {
            publish(&folder, &lock, &files.cert)?;
            return Ok(files);
        }
    }
    let cannot = || format!("cannot write {}", files.cert.display());
    let pem = make(key).context("cannot make a self-signed certificate")?;
    write(&folder, &lock, &files.cert, &pem, KEY_MODE)
        .map_err(|error| state_folder::unusable(&cannot(), &error))?;
    publish(&folder, &lock, &files.cert)?;
    Ok(files)
}

/// Returns the file with the certificate alone, for clients that are to trust it: no key has to be
/// passed around, and OpenSSL does not read every key that stands before a certificate.
pub(crate) fn for_clients(file: &Path) -> PathBuf {
    file.with_extension("crt")
}

/// Writes the file of [`for_clients`] anew if it is missing, or has another certificate.
fn publish(folder: &Path, lock: &File, file: &Path) -> Result<(), Failure> {
    let cannot = || format!("cannot read {}", file.display());
    let both = std::fs::read_to_string(file).with_context(cannot)?;
    let (begin, end) = ("-----BEGIN CERTIFICATE-----", "-----END CERTIFICATE-----");
    let inside = both.split_once(begin).and_then(|(_, rest)| rest.split_once(end));
    let certificate = inside.map(|(inside, _)| format!("{begin}{inside}{end}\n"));
    let certificate = certificate.unwrap_or_default();
    let public = for_clients(file);
    if std::fs::read_to_string(&public).is_ok_and(|known| known == certificate) {
        return Ok(());
    }
    let cannot = || format!("cannot write {}", public.display());
    write(folder, lock, &public, &certificate, PUBLIC_MODE)
        .map_err(|error| state_folder::unusable(&cannot(), &error))?;
    Ok(())
}

fn is_valid_for_long(certificate: &Certificate) -> bool {
    certificate.not_after() > timestamp_format::unix_seconds(SystemTime::now() + RENEWED_BEFORE_END)
}

/// Makes the key and the certificate, as one text.
fn make(key: SelfSignedKey) -> Result<String, rcgen::Error> {
    let pair = match key {
        SelfSignedKey::P256 => KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256),
        SelfSignedKey::Ed25519 => KeyPair::generate_for(&PKCS_ED25519),
        SelfSignedKey::Rsa2048 => KeyPair::generate_rsa_for(&PKCS_RSA_SHA256, RsaKeySize::_2048),
    }?;
    let mut parameters = CertificateParams::default();
    parameters.subject_alt_names = names()?;
    parameters.distinguished_name = DistinguishedName::new();
    parameters.distinguished_name.push(DnType::CommonName, "Pinion, self-signed");
    let now = SystemTime::now();
    parameters.not_before = (now - VALID_BEFORE_NOW).into();
    parameters.not_after = (now + VALID).into();
    parameters.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    parameters.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    let certificate = parameters.self_signed(&pair)?;
    Ok(format!("{}{}", pair.serialize_pem(), certificate.pem()))
}

/// Returns the names that a client on this machine, or in its network, may ask for.
fn names() -> Result<Vec<SanType>, rcgen::Error> {
    let mut names = vec![SanType::DnsName("localhost".try_into()?)];
    let uname = rustix::system::uname();
    let host = uname.nodename().to_string_lossy().to_ascii_lowercase();
    let is_plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'.');
    if !host.is_empty() && host != "localhost" && host.bytes().all(is_plain) {
        names.push(SanType::DnsName(host.try_into()?));
    }
    for address in [IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST)] {
        names.push(SanType::IpAddress(address));
    }
    Ok(names)
}

/// Writes a file that appears under its name complete or not at all, readable for the users that
/// `mode` lets. The folder is locked.
fn write(folder: &Path, locked: &File, file: &Path, text: &str, mode: u32) -> std::io::Result<()> {
    let partial: PathBuf = folder.join("self-signed.partial");
    // A start that was cut off may have left a file, with any rights.
    let _none = std::fs::remove_file(&partial);
    let mut options = OpenOptions::new();
    let mut new = options.write(true).create_new(true).mode(mode).open(&partial)?;
    new.write_all(text.as_bytes())?;
    new.sync_all()?;
    std::fs::rename(&partial, file)?;
    locked.sync_all()
}
