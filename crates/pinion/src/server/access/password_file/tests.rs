use super::*;
use proptest::prelude::*;

/// Made by `htpasswd -nbB -C 4` of Apache 2.4; the password is `open`.
const BCRYPT: &str = "$2y$04$sbOc4hgK..xPRVSwN38OlOp3uM7RQLbWx/TM7d.TH76bkRcwE7Iju";
const ARGON2ID: &str =
    "$argon2id$v=19$m=256,t=2,p=1$c29tZXNhbHQ$nf65EOgLrQMR/uIPnA4rEsF5h7TKyQwu9U1bMCHGi/4";

fn parsed(text: &str) -> Result<PasswordFile, Vec<String>> {
    let parsed = PasswordFile::parse(text.as_bytes(), Path::new("users"));
    parsed.map_err(|faults| faults.iter().map(ToString::to_string).collect())
}

fn accepts(file: &PasswordFile, user: &str, password: &str) -> bool {
    let (hash, is_known) = file.hash_for(user, 0);
    hash.verify(password, &PasswordLimits::default()) == Ok(true) && is_known
}

#[test]
fn users_have_the_passwords_of_their_lines() {
    let hash = bcrypt::hash("g\u{fc}n: x", 4).expect("hashed");
    let text = format!(
        "# staff\n\nann:{ARGON2ID}\r\nb\u{fc}:{hash}:a comment\nold:{}\napache:{BCRYPT}",
        hash.replacen("$2b$", "$2a$", 1)
    );
    let file = parsed(&text).expect("users");
    assert_eq!(file.users.len(), 4);
    assert!(accepts(&file, "apache", "open") && !accepts(&file, "apache", "Open"));
    assert!(accepts(&file, "ann", "password") && !accepts(&file, "ann", "Password"));
    assert!(accepts(&file, "b\u{fc}", "g\u{fc}n: x") && accepts(&file, "old", "g\u{fc}n: x"));
    assert!(!accepts(&file, "b\u{fc}", "g\u{fc}n"));
    // Neither the name in another case nor the password of another user.
    assert!(!accepts(&file, "Ann", "password") && !accepts(&file, "old", "password"));
    assert!(!accepts(&file, "", ""));
    let warning = file.warning(Path::new("users")).expect("a warning");
    assert!(warning.contains("3 of 4 passwords"), "{warning}");
    assert_eq!(parsed(&format!("ann:{ARGON2ID}")).expect("users").warning(Path::new("u")), None);
    assert!(!format!("{file:?}").contains("ann"));
}

#[test]
fn a_user_that_is_not_known_is_verified_with_the_hash_of_another_one() {
    let hash = bcrypt::hash("x", 4).expect("hashed");
    let file = parsed(&format!("a:{hash}\nb:{ARGON2ID}\n")).expect("users");
    for (decoy, at) in [(0, 0), (1, 1), (2, 0), (u64::MAX, 1)] {
        let (hash, is_known) = file.hash_for("nobody", decoy);
        assert!(!is_known);
        assert_eq!(*hash, file.hashes[at]);
    }
}

#[test]
fn a_hash_of_another_kind_is_refused_with_its_line_and_not_shown() {
    for (hash, kind) in [
        ("$apr1$Xw7jW3kB$p0Qc6dVvJ8rVYt0nKZzZn1", "an MD5 hash"),
        ("{SHA}W6ph5Mm5Pz8GgiULbPgzG37mj9g=", "a SHA-1 hash"),
        ("$6$saltsalt$abcdef", "a hash of crypt(3)"),
        ("$2x$05$abcdefghijklmnopqrstuuabcdefghijklmnopqrstuvwxyzabcdefg", "a faulty bcrypt"),
        ("$argon2i$v=19$m=256,t=2,p=1$c29tZXNhbHQ$iekCn0Y3spW", "another Argon2"),
        ("rqXexS6ZhobKA", "not hashed, or a hash of crypt(3)"),
        ("secret", "not hashed"),
        ("", "not hashed"),
        ("$2y$05$short", "malformed"),
        ("$2y$03$vJlWtArQR7PYeWcqsqmZyuYOV6K9dKAQm4Fc2MsRYGjSxEV2nkjBG", "malformed"),
        ("$2y$16$vJlWtArQR7PYeWcqsqmZyuYOV6K9dKAQm4Fc2MsRYGjSxEV2nkjBG", "too long to verify"),
        ("$argon2id$v=19$m=256,t=2,p=1$c29tZXNhbHQ", "malformed"),
        (
            "$argon2id$v=19$m=1048576,t=2,p=1$c29tZXNhbHQ$nf65EOgLrQMR/uIPnA4rEsF5h7TKyQwu9U1b",
            "too long to verify",
        ),
    ] {
        let faults = parsed(&format!("a:{ARGON2ID}\nann:{hash}\n")).expect_err(hash);
        let [fault] = faults.as_slice() else { panic!("{faults:?}") };
        assert!(fault.starts_with("users:2: ann: "), "{fault}");
        assert!(fault.contains(kind), "{fault}");
        assert!(hash.len() < 8 || !fault.contains(hash), "{fault}");
    }
}

#[test]
fn all_errors_are_found_at_once() {
    let long = "x".repeat(LINE_MAX_BYTES + 1);
    let text = format!("ann\n:{ARGON2ID}\nb:{ARGON2ID}\nb:{ARGON2ID}\na\tb:{ARGON2ID}\n{long}\n");
    let faults = parsed(&text).expect_err("faults");
    let expected = [
        "users:1: this line has no colon; write NAME:HASH",
        "users:2: the name of a user has 1 to 254 bytes without control characters",
        "users:4: b is given twice; remove one line",
        "users:5: the name of a user has 1 to 254 bytes without control characters",
        "users:6: a line has at most 1024 bytes",
    ];
    assert_eq!(faults, expected);
    for text in ["", "\n", "# a\n"] {
        assert_eq!(
            parsed(text).expect_err("no user"),
            ["users: has no user; add one with htpasswd -B"]
        );
    }
    let faults = PasswordFile::parse(b"a:\xff\n", Path::new("users")).expect_err("a fault");
    assert_eq!(faults[0].to_string(), "users:1: this line is not UTF-8");
}

proptest! {
    #[test]
    fn no_content_panics(bytes: Vec<u8>) {
        let _ = PasswordFile::parse(&bytes, Path::new("users"));
    }

    /// Lines that are nearly right.
    #[test]
    fn no_hash_panics(
        front in "(\\$2[abxy]\\$|\\$argon2(id|i)\\$|\\{SHA\\}|\\$apr1\\$)",
        rest in "[0-9]{0,2}\\$?[./A-Za-z0-9=,$\u{e9}]{0,60}",
    ) {
        let _ = PasswordFile::parse(format!("ann:{front}{rest}\n").as_bytes(), Path::new("users"));
    }
}
