//! The algorithms a token can be signed by (RFC 7518 §3, RFC 8037).

use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED, ECDSA_P256_SHA256_FIXED_SIGNING, ECDSA_P384_SHA384_FIXED,
    ECDSA_P384_SHA384_FIXED_SIGNING, ED25519, EcdsaKeyPair, EcdsaSigningAlgorithm, Ed25519KeyPair,
    ParsedPublicKey, RSA_PKCS1_2048_8192_SHA256, RSA_PKCS1_SHA256, RSA_PSS_2048_8192_SHA256,
    RSA_PSS_SHA256, RsaEncoding, RsaKeyPair, VerificationAlgorithm,
};
use aws_lc_rs::{error::KeyRejected, hmac};
use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{PrivateKeyDer, SubjectPublicKeyInfoDer};

/// Bits of the shortest RSA key (RFC 7518 §3.3).
const RSA_MIN_BITS: usize = 2048;

/// The algorithm of a signature.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Algorithm {
    Hs256,
    Hs384,
    Hs512,
    Rs256,
    Ps256,
    Es256,
    Es384,
    EdDsa,
}

/// The reason why a key does not fit an algorithm.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum KeyError {
    #[error("{name} needs a key of at least {bytes} random bytes, as long as its digest")]
    Short { name: &'static str, bytes: usize },
    /// The public key is no secret: if it were taken for one, everyone could sign.
    #[error("{name} needs a secret, and this is a key as PEM: for RS256, ES256 or EdDSA?")]
    Pem { name: &'static str },
    #[error(
        "{name} signs with a private key as PEM, which begins with -----BEGIN PRIVATE KEY-----"
    )]
    NoPrivateKey { name: &'static str },
    #[error("{name} verifies by a public key as PEM, which begins with -----BEGIN PUBLIC KEY-----")]
    NoPublicKey { name: &'static str },
    #[error("the key is not one for {name}: {needs}")]
    OfAnotherKind { name: &'static str, needs: &'static str },
    #[error("{name} could not sign with this key")]
    NotSigned { name: &'static str },
}

/// A key that verifies signatures.
pub(super) enum Verifier {
    Secret(Box<hmac::Key>),
    Public(ParsedPublicKey),
}

impl Verifier {
    pub(super) fn is_signature(&self, message: &[u8], signature: &[u8]) -> bool {
        match self {
            Verifier::Secret(key) => hmac::verify(key, message, signature).is_ok(),
            Verifier::Public(key) => key.verify_sig(message, signature).is_ok(),
        }
    }
}

impl Algorithm {
    pub(super) const ALL: &[Algorithm] = &[
        Algorithm::Hs256,
        Algorithm::Hs384,
        Algorithm::Hs512,
        Algorithm::Rs256,
        Algorithm::Ps256,
        Algorithm::Es256,
        Algorithm::Es384,
        Algorithm::EdDsa,
    ];

    pub(super) fn named(name: &[u8]) -> Option<Algorithm> {
        Algorithm::ALL.iter().copied().find(|algorithm| algorithm.name().as_bytes() == name)
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Algorithm::Hs256 => "HS256",
            Algorithm::Hs384 => "HS384",
            Algorithm::Hs512 => "HS512",
            Algorithm::Rs256 => "RS256",
            Algorithm::Ps256 => "PS256",
            Algorithm::Es256 => "ES256",
            Algorithm::Es384 => "ES384",
            Algorithm::EdDsa => "EdDSA",
        }
    }

    pub(super) fn sign(self, key: &[u8], message: &[u8]) -> Result<Vec<u8>, KeyError> {
        match self {
            Algorithm::Hs256 | Algorithm::Hs384 | Algorithm::Hs512 => {
                Ok(hmac::sign(&self.secret(key)?, message).as_ref().to_vec())
            }
            Algorithm::Rs256 => self.sign_rsa(&RSA_PKCS1_SHA256, key, message),
            Algorithm::Ps256 => self.sign_rsa(&RSA_PSS_SHA256, key, message),
            Algorithm::Es256 => self.sign_ecdsa(&ECDSA_P256_SHA256_FIXED_SIGNING, key, message),
            Algorithm::Es384 => self.sign_ecdsa(&ECDSA_P384_SHA384_FIXED_SIGNING, key, message),
            Algorithm::EdDsa => {
                let PrivateKeyDer::Pkcs8(der) = self.private(key)? else {
                    return Err(self.of_another_kind());
                };
                // Other programs leave the public half out of the file, or include it.
                let key = Ed25519KeyPair::from_pkcs8_maybe_unchecked(der.secret_pkcs8_der());
                Ok(self.fitting(key)?.sign(message).as_ref().to_vec())
            }
        }
    }

    /// Returns the key that verifies signatures by this algorithm.
    pub(super) fn verifier(self, key: &[u8]) -> Result<Verifier, KeyError> {
        let algorithm: &'static dyn VerificationAlgorithm = match self {
            Algorithm::Hs256 | Algorithm::Hs384 | Algorithm::Hs512 => {
                return self.secret(key).map(Box::new).map(Verifier::Secret);
            }
            Algorithm::Rs256 => &RSA_PKCS1_2048_8192_SHA256,
            Algorithm::Ps256 => &RSA_PSS_2048_8192_SHA256,
            Algorithm::Es256 => &ECDSA_P256_SHA256_FIXED,
            Algorithm::Es384 => &ECDSA_P384_SHA384_FIXED,
            Algorithm::EdDsa => &ED25519,
        };
        let name = self.name();
        let der = SubjectPublicKeyInfoDer::from_pem_slice(key);
        let der = der.map_err(|_| KeyError::NoPublicKey { name })?;
        self.fitting(ParsedPublicKey::new(algorithm, &der)).map(Verifier::Public)
    }

    /// Returns a secret that both sides know, at least as long as the digest (RFC 7518 §3.2).
    fn secret(self, key: &[u8]) -> Result<hmac::Key, KeyError> {
        let algorithm = match self {
            Algorithm::Hs384 => hmac::HMAC_SHA384,
            Algorithm::Hs512 => hmac::HMAC_SHA512,
            _ => hmac::HMAC_SHA256,
        };
        let (name, bytes) = (self.name(), algorithm.tag_len());
        if key.trim_ascii_start().starts_with(b"-----BEGIN ") {
            return Err(KeyError::Pem { name });
        }
        if key.len() < bytes {
            return Err(KeyError::Short { name, bytes });
        }
        Ok(hmac::Key::new(algorithm, key))
    }

    fn sign_rsa(
        self,
        encoding: &'static dyn RsaEncoding,
        key: &[u8],
        message: &[u8],
    ) -> Result<Vec<u8>, KeyError> {
        let key = match self.private(key)? {
            PrivateKeyDer::Pkcs8(der) => RsaKeyPair::from_pkcs8(der.secret_pkcs8_der()),
            PrivateKeyDer::Pkcs1(der) => RsaKeyPair::from_der(der.secret_pkcs1_der()),
            _ => return Err(self.of_another_kind()),
        };
        let key = self.fitting(key)?;
        if key.public_modulus_len() * 8 < RSA_MIN_BITS {
            return Err(self.of_another_kind());
        }
        let mut signature = vec![0; key.public_modulus_len()];
        let signed = key.sign(encoding, &SystemRandom::new(), message, &mut signature);
        signed.map(|()| signature).map_err(|_| KeyError::NotSigned { name: self.name() })
    }

    fn sign_ecdsa(
        self,
        algorithm: &'static EcdsaSigningAlgorithm,
        key: &[u8],
        message: &[u8],
    ) -> Result<Vec<u8>, KeyError> {
        let key = match self.private(key)? {
            PrivateKeyDer::Pkcs8(der) => {
                EcdsaKeyPair::from_pkcs8(algorithm, der.secret_pkcs8_der())
            }
            PrivateKeyDer::Sec1(der) => {
                EcdsaKeyPair::from_private_key_der(algorithm, der.secret_sec1_der())
            }
            _ => return Err(self.of_another_kind()),
        };
        let signature = self.fitting(key)?.sign(&SystemRandom::new(), message);
        let signature = signature.map_err(|_| KeyError::NotSigned { name: self.name() })?;
        Ok(signature.as_ref().to_vec())
    }

    fn private(self, key: &[u8]) -> Result<PrivateKeyDer<'static>, KeyError> {
        let key = PrivateKeyDer::from_pem_slice(key);
        key.map_err(|_| KeyError::NoPrivateKey { name: self.name() })
    }

    fn fitting<K>(self, key: Result<K, KeyRejected>) -> Result<K, KeyError> {
        key.map_err(|_| self.of_another_kind())
    }

    fn of_another_kind(self) -> KeyError {
        let needs = match self {
            Algorithm::Rs256 | Algorithm::Ps256 => "it needs one of RSA with 2048 to 8192 bits",
            Algorithm::Es256 => "it needs one on the curve P-256",
            Algorithm::Es384 => "it needs one on the curve P-384",
            _ => "it needs one of Ed25519",
        };
        KeyError::OfAnotherKind { name: self.name(), needs }
    }
}
