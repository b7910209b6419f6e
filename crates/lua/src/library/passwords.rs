//! Hashes of passwords by Argon2id (RFC 9106), as PHC strings: `$argon2id$v=19$m=…,t=…,p=…$…`.
//!
//! Slow by intent, some tens of milliseconds each: never on the thread of a worker.

use super::limits::PASSWORD_MAX_BYTES;
use argon2::password_hash::phc::PasswordHash;
use argon2::password_hash::{self, PasswordHasher as _, PasswordVerifier as _};
use argon2::{Algorithm, Argon2, Params, Version};
use aws_lc_rs::rand;

/// OWASP's first choice of five that cost an attacker alike (Password Storage Cheat Sheet):
/// 19 MiB, so that many can be had at a time.
const MEMORY_KIB: u32 = 19 * 1024;

/// Goes with [`MEMORY_KIB`].
const PASSES: u32 = 2;

/// Goes with [`MEMORY_KIB`]; more would want threads of their own.
const LANES: u32 = 1;

/// What RFC 9106 §3.1 recommends.
const SALT_BYTES: usize = 16;

/// A stored hash says itself what it costs to try. Above this much it is refused, not tried: eight
/// times what RFC 9106 §4 recommends where memory is short, 64 MiB.
const STORED_MEMORY_MAX_KIB: u32 = 512 * 1024;

/// As [`STORED_MEMORY_MAX_KIB`]; people who have less memory make more passes, but not this many.
const STORED_PASSES_MAX: u32 = 16;

/// As [`STORED_MEMORY_MAX_KIB`]; RFC 9106 §4 has 4.
const STORED_LANES_MAX: u32 = 16;

/// Why a password was neither hashed nor compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PasswordError {
    /// Longer than anybody types.
    #[error("a password has at most {PASSWORD_MAX_BYTES} bytes")]
    TooLong,
    /// What was stored is no hash by Argon2, or one that costs too much.
    #[error("what is stored is no hash of a password, or one that costs too much to try")]
    NoHash,
    /// The machine has no random bytes, or no memory.
    #[error("the system has no memory or no random bytes for a hash")]
    System,
}

/// A hash to store, another one each time.
///
/// # Errors
/// [`PasswordError::TooLong`], [`PasswordError::System`].
pub fn hash_password(password: &[u8]) -> Result<String, PasswordError> {
    bounded(password)?;
    let mut salt = [0; SALT_BYTES];
    rand::fill(&mut salt).map_err(|_| PasswordError::System)?;
    let hash = argon2()?.hash_password_with_salt(password, &salt);
    hash.map(|hash| hash.to_string()).map_err(|_| PasswordError::System)
}

/// Whether this is the password of a stored hash, compared in constant time. Hashes by other
/// programs are understood: Argon2id, Argon2i and Argon2d with any parameters that are not
/// exorbitant.
///
/// # Errors
/// [`PasswordError::TooLong`], [`PasswordError::NoHash`].
pub fn verify_password(password: &[u8], stored: &str) -> Result<bool, PasswordError> {
    bounded(password)?;
    let (hash, _) = read(stored)?;
    match argon2()?.verify_password(password, &hash) {
        Ok(()) => Ok(true),
        Err(password_hash::Error::PasswordInvalid) => Ok(false),
        Err(_) => Err(PasswordError::NoHash),
    }
}

/// Whether a stored hash is weaker than those that are made now: then hash the password anew when
/// it has just been verified.
///
/// # Errors
/// [`PasswordError::NoHash`].
pub fn is_outdated(stored: &str) -> Result<bool, PasswordError> {
    let (hash, params) = read(stored)?;
    let is_ours = hash.algorithm == Algorithm::Argon2id.ident()
        && hash.version == Some(Version::V0x13.into());
    Ok(!is_ours
        || params.m_cost() < MEMORY_KIB
        || params.t_cost() < PASSES
        || params.p_cost() < LANES)
}

fn argon2() -> Result<Argon2<'static>, PasswordError> {
    let params = Params::new(MEMORY_KIB, PASSES, LANES, None).map_err(|_| PasswordError::System)?;
    Ok(Argon2::new(Algorithm::Argon2id, Version::V0x13, params))
}

fn bounded(password: &[u8]) -> Result<(), PasswordError> {
    if password.len() > PASSWORD_MAX_BYTES { Err(PasswordError::TooLong) } else { Ok(()) }
}

/// A stored hash and what it costs.
fn read(stored: &str) -> Result<(PasswordHash, Params), PasswordError> {
    let hash = PasswordHash::new(stored).map_err(|_| PasswordError::NoHash)?;
    Algorithm::try_from(hash.algorithm.as_str()).map_err(|_| PasswordError::NoHash)?;
    if hash.salt.is_none() || hash.hash.is_none() {
        return Err(PasswordError::NoHash);
    }
    let params = Params::try_from(&hash).map_err(|_| PasswordError::NoHash)?;
    let is_bearable = params.m_cost() <= STORED_MEMORY_MAX_KIB
        && params.t_cost() <= STORED_PASSES_MAX
        && params.p_cost() <= STORED_LANES_MAX;
    if is_bearable { Ok((hash, params)) } else { Err(PasswordError::NoHash) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_password_and_no_other() {
        let stored = hash_password("correct horse".as_bytes()).expect("hashed");
        assert!(stored.starts_with("$argon2id$v=19$m=19456,t=2,p=1$"), "{stored}");
        assert_eq!(verify_password(b"correct horse", &stored), Ok(true));
        assert_eq!(verify_password(b"correct horsf", &stored), Ok(false));
        assert_eq!(verify_password(b"", &stored), Ok(false));
        assert_eq!(is_outdated(&stored), Ok(false));
        assert_ne!(hash_password(b"correct horse").expect("hashed"), stored, "salted");
    }

    /// Made by the reference implementation (its `test.c`, version 0x13).
    #[test]
    fn hashes_of_other_programs() {
        for stored in [
            "$argon2id$v=19$m=256,t=2,p=1$c29tZXNhbHQ$nf65EOgLrQMR/uIPnA4rEsF5h7TKyQwu9U1bMCHGi/4",
            "$argon2id$v=19$m=256,t=2,p=2$c29tZXNhbHQ$bQk8UB/VmZZF4Oo79iDXuL5/0ttZwg2f/5U52iv1cDc",
            "$argon2i$v=19$m=256,t=2,p=1$c29tZXNhbHQ$iekCn0Y3spW+sCcFanM2xBT63UP2sghkUoHLIUpWRS8",
        ] {
            assert_eq!(verify_password(b"password", stored), Ok(true), "{stored}");
            assert_eq!(verify_password(b"Password", stored), Ok(false), "{stored}");
            assert_eq!(is_outdated(stored), Ok(true), "{stored}");
        }
    }

    #[test]
    fn what_is_too_much_is_refused_before_it_is_tried() {
        let long = vec![b'a'; PASSWORD_MAX_BYTES + 1];
        assert_eq!(hash_password(&long), Err(PasswordError::TooLong));
        for costs in ["m=524289,t=1,p=1", "m=256,t=17,p=1", "m=256,t=1,p=17", "m=4294967295,t=4"] {
            let stored = format!(
                "$argon2id$v=19${costs}$c29tZXNhbHQ$nf65EOgLrQMR/uIPnA4rEsF5h7TKyQwu9U1bMCHGi/4"
            );
            assert_eq!(
                verify_password(b"password", &stored),
                Err(PasswordError::NoHash),
                "{costs}"
            );
        }
        assert_eq!(verify_password(&long, "x"), Err(PasswordError::TooLong));
    }

    #[test]
    fn what_is_no_hash() {
        for stored in [
            "",
            "password",
            "$argon2id$v=19$m=256,t=2,p=1",
            "$argon2id$v=19$m=256,t=2,p=1$c29tZXNhbHQ",
            "$argon2id$v=18$m=256,t=2,p=1$c29tZXNhbHQ$nf65EOgLrQMR/uIPnA4rEsF5h7TKyQwu9U1bMCHGi/4",
            "$2b$12$GhvMmNVjRW29ulnudl.LbuAnUtN/LRfe1JsBm1Xu6LE3059z5Tr8m",
            "$scrypt$ln=16,r=8,p=1$aM15713r3Xsvxbi31lqr1Q$nFNh2CVHVjNldFVKDHDlm4CbdRSCdEBsjjJxD+iC",
        ] {
            assert_eq!(
                verify_password(b"password", stored),
                Err(PasswordError::NoHash),
                "{stored}"
            );
        }
    }

    proptest! {
        #[test]
        fn no_stored_text_panics(
            head in "[$]argon2(id|i|d|x)([$]v=[0-9]{1,3})?[$][mtp=,0-4]{0,12}",
            tail in "([$][A-Za-z0-9+/]{0,48}){0,3}",
        ) {
            // Reading it is what may go wrong; what it costs is bounded, but not little.
            let _ = is_outdated(&format!("{head}{tail}"));
        }
    }
}
