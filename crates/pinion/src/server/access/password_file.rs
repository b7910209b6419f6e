//! Files of users and the hashes of their passwords, as `htpasswd` of Apache writes them: one user
//! in each line, `NAME:HASH`. After another colon there may be a comment, as in nginx.

use super::limits::{
    BCRYPT_COST_ADVISED, BCRYPT_COST_MAX, LINE_MAX_BYTES, PASSWORD_FILE_MAX_MIB, USER_MAX_BYTES,
    USERS_MAX,
};
use crate::config::{ConfigFault, TextPlace};
use crate::regular_file;
use bcrypt::HashParts;
use pinion_lua::library::passwords::{PasswordLimits, is_outdated, verify_password};
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fmt;
use std::path::Path;

/// The users of a file.
pub(crate) struct PasswordFile {
    users: HashMap<Box<str>, usize>,
    /// Never empty.
    hashes: Vec<StoredHash>,
    /// Users whose hashes cost too little.
    weak: usize,
    /// The digest of all bytes of the file: two readings have the same one if and only if they are
    /// equal.
    digest: blake3::Hash,
}

/// The hash of a password.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum StoredHash {
    /// A hash by bcrypt: `$2y$`, `$2b$` or `$2a$`.
    Bcrypt(Box<str>),
    /// A hash by Argon2id (RFC 9106), as a PHC string.
    Argon2id(Box<str>),
}

/// The reason why a line has no user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum HashError {
    /// A hash of another kind: its name.
    Other(&'static str),
    /// A hash by bcrypt or Argon2id that is malformed.
    Malformed,
    /// It would take too long to verify, or too much memory.
    TooCostly,
}

impl PasswordFile {
    /// Reads a file.
    ///
    /// # Errors
    /// Each fault, with its line.
    pub(crate) fn read(path: &Path) -> Result<Self, Vec<ConfigFault>> {
        let bytes = regular_file::read(path, PASSWORD_FILE_MAX_MIB);
        let bytes = bytes.map_err(|why| vec![ConfigFault::of(path, why)])?;
        Self::parse(&bytes, path)
    }

    /// Parses the content of a file. Faults have the name of the file, and never a hash.
    ///
    /// # Errors
    /// Each fault, with its line.
    pub(crate) fn parse(bytes: &[u8], path: &Path) -> Result<Self, Vec<ConfigFault>> {
        let mut faults = Vec::new();
        let digest = blake3::hash(bytes);
        let mut file = Self { users: HashMap::new(), hashes: Vec::new(), weak: 0, digest };
        for (number, line) in (1..).zip(bytes.split(|byte| *byte == b'\n')) {
            let line = line.strip_suffix(b"\r").unwrap_or(line);
            if line.trim_ascii().is_empty() || line.starts_with(b"#") {
                continue;
            }
            if let Err(why) = file.line(line) {
                faults.push(ConfigFault::at(path, TextPlace::of_line(number), why));
            }
        }
        if file.users.len() > USERS_MAX {
            faults.push(ConfigFault::of(path, format!("has more than {USERS_MAX} users")));
        } else if file.users.is_empty() && faults.is_empty() {
            let message = "has no user; add one with htpasswd -B";
            faults.push(ConfigFault::of(path, message));
        }
        if faults.is_empty() { Ok(file) } else { Err(faults) }
    }

    fn line(&mut self, line: &[u8]) -> Result<(), String> {
        if line.len() > LINE_MAX_BYTES {
            return Err(format!("a line has at most {LINE_MAX_BYTES} bytes"));
        }
        let line = std::str::from_utf8(line).map_err(|_| "this line is not UTF-8".to_owned())?;
        let Some((user, rest)) = line.split_once(':') else {
            return Err("this line has no colon; write NAME:HASH".to_owned());
        };
        if user.is_empty() || user.len() > USER_MAX_BYTES || user.contains(char::is_control) {
            let expected = format!("1 to {USER_MAX_BYTES} bytes without control characters");
            return Err(format!("the name of a user has {expected}"));
        }
        let hash = rest.split(':').next().unwrap_or_default();
        let hash = StoredHash::parse(hash).map_err(|why| format!("{user}: {why}"))?;
        match self.users.entry(user.into()) {
            Entry::Occupied(_) => return Err(format!("{user} is given twice; remove one line")),
            Entry::Vacant(entry) => entry.insert(self.hashes.len()),
        };
        self.weak += usize::from(hash.is_weak());
        self.hashes.push(hash);
        Ok(())
    }

    /// Returns the hash to verify the password of a user with, and whether the user is known. For
    /// an unknown user, it is the hash of another user, which `decoy` chooses: so the response
    /// takes as long as for a known one. Give the same number for the same user.
    pub(crate) fn hash_for(&self, user: &str, decoy: u64) -> (&StoredHash, bool) {
        let found = self.users.get(user).and_then(|at| self.hashes.get(*at));
        let other = || &self.hashes[(decoy % self.hashes.len() as u64) as usize];
        found.map_or_else(|| (other(), false), |hash| (hash, true))
    }

    /// Returns the digest of the content of the file.
    pub(crate) fn digest(&self) -> &blake3::Hash {
        &self.digest
    }

    /// Returns a warning about a file that can be used.
    pub(crate) fn warning(&self, path: &Path) -> Option<String> {
        (self.weak > 0).then(|| {
            format!(
                "{}: {} of {} passwords have a bcrypt hash of a cost below {BCRYPT_COST_ADVISED}, \
                 which can be guessed quickly if the file is stolen; make them anew with \
                 htpasswd -B -C 12",
                path.display(),
                self.weak,
                self.users.len()
            )
        })
    }
}

impl fmt::Debug for PasswordFile {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("PasswordFile").field("users", &self.users.len()).finish()
    }
}

impl StoredHash {
    fn parse(text: &str) -> Result<Self, HashError> {
        let is_one_of = |fronts: &[&str]| fronts.iter().any(|front| text.starts_with(front));
        if is_one_of(&["$2y$", "$2b$", "$2a$"]) {
            let parts: HashParts = text.parse().map_err(|_| HashError::Malformed)?;
            return match parts.get_cost() {
                4..=BCRYPT_COST_MAX => Ok(Self::Bcrypt(text.into())),
                0..4 => Err(HashError::Malformed),
                _ => Err(HashError::TooCostly),
            };
        }
        if is_one_of(&["$argon2id$"]) {
            let limits = PasswordLimits::default();
            return match is_outdated(text, &limits) {
                Ok(_) => Ok(Self::Argon2id(text.into())),
                Err(_) if has_large_numbers(text) => Err(HashError::TooCostly),
                Err(_) => Err(HashError::Malformed),
            };
        }
        Err(HashError::Other(match text {
            _ if is_one_of(&["$apr1$", "$1$"]) => "an MD5 hash",
            _ if is_one_of(&["{SHA}", "{SSHA}"]) => "a SHA-1 hash",
            _ if is_one_of(&["$5$", "$6$", "$y$", "$7$", "$gy$", "$sha1$"]) => "a hash of crypt(3)",
            _ if is_one_of(&["$2x$"]) => "a hash of a faulty bcrypt",
            _ if is_one_of(&["$argon2i$", "$argon2d$"]) => "a hash of another Argon2",
            _ if is_one_of(&["{PLAIN}"]) => "a password that is not hashed",
            _ => "a password that is not hashed, or a hash of crypt(3)",
        }))
    }

    /// Returns whether a password is the one of this hash, compared in constant time.
    ///
    /// # Errors
    /// The hash needs more memory than this server has for one.
    pub(crate) fn verify(&self, password: &str, limits: &PasswordLimits) -> Result<bool, String> {
        match self {
            Self::Bcrypt(hash) => bcrypt::verify(password, hash).map_err(|why| why.to_string()),
            Self::Argon2id(hash) => {
                let verified = verify_password(password.as_bytes(), hash, limits);
                verified.map_err(|why| why.to_string())
            }
        }
    }

    fn is_weak(&self) -> bool {
        let Self::Bcrypt(text) = self else { return false };
        let parts: Option<HashParts> = text.parse().ok();
        parts.is_none_or(|parts| parts.get_cost() < BCRYPT_COST_ADVISED)
    }
}

/// Returns whether a hash by Argon2id is well-formed but for its costs: with smaller numbers it
/// could be verified.
fn has_large_numbers(text: &str) -> bool {
    let mut parts: Vec<&str> = text.split('$').collect();
    match parts.iter_mut().find(|part| part.starts_with("m=")) {
        Some(costs) => *costs = "m=19456,t=2,p=1",
        None => return false,
    }
    is_outdated(&parts.join("$"), &PasswordLimits::default()).is_ok()
}

impl fmt::Display for HashError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Other(kind) => write!(
                f,
                "has {kind}; only bcrypt and Argon2id are accepted, make another one with \
                 htpasswd -B -C 12"
            ),
            Self::Malformed => f.write_str("the hash is malformed; make another one"),
            Self::TooCostly => write!(
                f,
                "the hash takes too long to verify: bcrypt has a cost of {BCRYPT_COST_MAX} at \
                 most, Argon2id 512 MiB, 16 passes and 16 lanes"
            ),
        }
    }
}

#[cfg(any(test, fuzzing))]
pub(crate) mod fuzz_properties;
#[cfg(test)]
mod tests;
