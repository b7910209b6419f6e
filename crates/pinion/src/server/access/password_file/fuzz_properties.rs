//! Properties that hold for any bytes as a password file. The fuzz target checks them, and so does
//! the replay of its corpus.

use super::PasswordFile;
use crate::config::ConfigFault;
use std::collections::BTreeSet;
use std::path::Path;

/// Reads the lines once more, plainly. A file without faults has exactly their users, with hashes
/// of the accepted kinds; a fault is one line, has the number of its line, and shows no hash.
pub(crate) fn check(bytes: &[u8]) {
    let lines: Vec<&[u8]> = bytes.split(|byte| *byte == b'\n').collect();
    let parsed = PasswordFile::parse(bytes, Path::new("users"));
    let faults = match parsed {
        Ok(file) => return assert_is_right(&file, &lines),
        Err(faults) => faults,
    };
    assert!(!faults.is_empty(), "a file that is refused says why");
    for fault in faults {
        assert!(!fault.message.is_empty() && !fault.message.contains('\n'), "{fault}");
        let Some(place) = fault.place else { continue };
        let line = lines.get(place.line - 1).expect("a line of the file");
        // The message about a line that is not UTF-8 is always the same.
        let Ok(text) = std::str::from_utf8(line) else { continue };
        let (user, rest) = text.split_once(':').unwrap_or(("", ""));
        let hash = rest.split(':').next().unwrap_or_default().trim_end();
        // A short text may stand in a message by chance, and a name may be its own password.
        if hash.len() <= 12 || user.contains(hash) || !fault.message.contains(hash) {
            continue;
        }
        // So may a longer one that is a part of the message: then another hash gets the same one.
        let mut lines = lines.clone();
        let other = text.replacen(hash, &"x".repeat(hash.len()), 1);
        lines[place.line - 1] = other.as_bytes();
        let parsed = PasswordFile::parse(&lines.join(&b'\n'), Path::new("users"));
        let is_same = |other: &ConfigFault| other.to_string() == fault.to_string();
        assert!(parsed.err().is_some_and(|faults| faults.iter().any(is_same)), "{fault}");
    }
}

fn assert_is_right(file: &PasswordFile, lines: &[&[u8]]) {
    let mut users = BTreeSet::new();
    for line in lines {
        let text = std::str::from_utf8(line);
        let text = text.map(|text| text.strip_suffix('\r').unwrap_or(text));
        let is_empty = line.trim_ascii().is_empty();
        if is_empty || line.starts_with(b"#") {
            continue;
        }
        let parts: Vec<&str> = text.expect("UTF-8").splitn(3, ':').collect();
        let [user, hash, ..] = parts[..] else { panic!("{parts:?} has a user and a hash") };
        assert!(users.insert(user), "{user} is there once");
        assert!(!user.is_empty() && !user.chars().any(char::is_control), "{user:?}");
        let fronts = ["$2a$", "$2b$", "$2y$", "$argon2id$"];
        assert!(fronts.iter().any(|front| hash.starts_with(front)), "{user}");
        let (stored, is_known) = file.hash_for(user, 0);
        assert!(is_known && *stored == super::StoredHash::parse(hash).expect("a hash"), "{user}");
    }
    assert_eq!(users.len(), file.users.len());
    assert!(!file.hash_for("\u{1}", 7).1, "no user has this name");
}

#[cfg(test)]
mod tests {
    use super::check;
    use std::fs;
    use std::path::Path;

    #[test]
    fn the_corpus_is_replayed() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/password_file");
        let mut count = 0;
        for entry in fs::read_dir(&folder).expect("the corpus") {
            let path = entry.expect("an entry").path();
            println!("{}", path.display());
            check(&fs::read(&path).expect("a file"));
            count += 1;
        }
        assert!(count >= 10, "{}: only {count} files", folder.display());
    }
}
