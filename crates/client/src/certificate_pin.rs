//! Certificate pins: a server is trusted by the hash of its certificate or of its public key,
//! regardless of the issuer of the certificate.

use std::fmt;
use std::str::FromStr;

use aws_lc_rs::digest::{SHA256, digest};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rustls::SignatureScheme;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{WebPkiSupportedAlgorithms, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, DigitallySignedStruct, Error as RustlsError, OtherError};
use thiserror::Error;

/// A SHA-256 hash that the certificate of a server has to have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CertificatePin {
    /// The hash of the certificate (DER), as `openssl x509 -fingerprint -sha256` prints it.
    Certificate([u8; 32]),
    /// The hash of the public key (SubjectPublicKeyInfo in DER, RFC 7469 §2.4). It stays the same
    /// when the certificate is renewed with the same key.
    PublicKey([u8; 32]),
}

/// The error of a text that is not a pin.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error(
    "`{0}` is not a pin: write the SHA-256 fingerprint of a certificate as 64 hexadecimal digits, \
     with or without colons, or that of a public key as sha256//BASE64"
)]
pub struct PinError(String);

/// The prefix of the pin of a public key, as in curl's `--pinnedpubkey`.
const PUBLIC_KEY: &str = "sha256//";

/// Parses `AB:CD:…` (a certificate) or `sha256//BASE64` (a public key).
impl FromStr for CertificatePin {
    type Err = PinError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let pin = match text.strip_prefix(PUBLIC_KEY) {
            Some(base64) => base64_hash(base64).map(Self::PublicKey),
            None => hexadecimal_hash(text).map(Self::Certificate),
        };
        pin.ok_or_else(|| PinError(text.to_owned()))
    }
}

impl fmt::Display for CertificatePin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Certificate(hash) => {
                let digits: Vec<String> = hash.iter().map(|byte| format!("{byte:02X}")).collect();
                f.write_str(&digits.join(":"))
            }
            Self::PublicKey(hash) => write!(f, "{PUBLIC_KEY}{}", STANDARD.encode(hash)),
        }
    }
}

fn base64_hash(text: &str) -> Option<[u8; 32]> {
    STANDARD.decode(text).ok()?.try_into().ok()
}

/// Parses 32 bytes as pairs of digits, either all with colons between them or none.
fn hexadecimal_hash(text: &str) -> Option<[u8; 32]> {
    let pairs: Vec<&[u8]> = if text.contains(':') {
        text.split(':').map(str::as_bytes).collect()
    } else {
        text.as_bytes().chunks(2).collect()
    };
    let byte = |pair: &&[u8]| -> Option<u8> {
        let [high, low] = **pair else { return None };
        let digit = |byte: u8| char::from(byte).to_digit(16);
        u8::try_from(digit(high)? * 16 + digit(low)?).ok()
    };
    let bytes: Option<Vec<u8>> = pairs.iter().map(byte).collect();
    bytes?.try_into().ok()
}

fn sha256(bytes: &[u8]) -> [u8; 32] {
    let mut hash = [0; 32];
    for (to, from) in hash.iter_mut().zip(digest(&SHA256, bytes).as_ref()) {
        *to = *from;
    }
    hash
}

/// The error of a server with another certificate and another key than the pinned ones.
#[derive(Debug, Error)]
#[error(
    "the certificate of the server matches no pin; its fingerprint is {certificate}, that of its \
     public key is {public_key}"
)]
struct PinMismatch {
    certificate: CertificatePin,
    public_key: CertificatePin,
}

/// A verifier that trusts servers by pins. The server proves with the signature of the handshake
/// that it has the key of the certificate.
#[derive(Debug)]
pub(crate) struct PinVerifier {
    pins: Box<[CertificatePin]>,
    algorithms: WebPkiSupportedAlgorithms,
}

impl PinVerifier {
    pub(crate) fn new(pins: &[CertificatePin], algorithms: WebPkiSupportedAlgorithms) -> Self {
        Self { pins: pins.into(), algorithms }
    }
}

impl ServerCertVerifier for PinVerifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, RustlsError> {
        let key = ParsedCertificate::try_from(end_entity)?.subject_public_key_info();
        let certificate = CertificatePin::Certificate(sha256(end_entity));
        let public_key = CertificatePin::PublicKey(sha256(&key));
        if self.pins.contains(&certificate) || self.pins.contains(&public_key) {
            return Ok(ServerCertVerified::assertion());
        }
        let mismatch = PinMismatch { certificate, public_key };
        Err(CertificateError::Other(OtherError(std::sync::Arc::new(mismatch))).into())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, RustlsError> {
        verify_tls12_signature(message, cert, dss, &self.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, RustlsError> {
        verify_tls13_signature(message, cert, dss, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn pins_are_parsed_in_the_formats_of_tools() {
        let hash: [u8; 32] = std::array::from_fn(|index| index as u8 * 8);
        let colons = CertificatePin::Certificate(hash).to_string();
        assert!(colons.starts_with("00:08:10:18:20") && colons.ends_with("F0:F8"), "{colons}");
        for text in [colons.clone(), colons.to_lowercase(), colons.replace(':', "")] {
            assert_eq!(text.parse(), Ok(CertificatePin::Certificate(hash)), "{text}");
        }
        let text = "sha256//AAgQGCAoMDhASFBYYGhweICIkJigqLC4wMjQ2ODo8Pg=";
        assert_eq!(text.parse(), Ok(CertificatePin::PublicKey(hash)));
        assert_eq!(CertificatePin::PublicKey(hash).to_string(), text);
    }

    #[test]
    fn malformed_pins_are_refused() {
        let digits = "00".repeat(32);
        for text in [
            "".to_owned(),
            "sha256//".to_owned(),
            "sha256//AAAA".to_owned(),
            "sha256/AAgQGCAoMDhASFBYYGhweICIkJigqLC4wMjQ2ODo8Pg=".to_owned(),
            digits[1..].to_owned(),
            format!("{digits}00"),
            format!("+{}", &digits[1..]),
            format!("00:{}", &digits[2..]),
            format!("{digits}:"),
            digits.replace("00", "0:0"),
        ] {
            assert_eq!(text.parse::<CertificatePin>(), Err(PinError(text.clone())), "{text}");
        }
    }

    proptest! {
        #[test]
        fn pins_round_trip(hash: [u8; 32]) {
            for pin in [CertificatePin::Certificate(hash), CertificatePin::PublicKey(hash)] {
                prop_assert_eq!(pin.to_string().parse::<CertificatePin>(), Ok(pin));
            }
        }
    }
}
