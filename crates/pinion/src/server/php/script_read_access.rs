//! Checks whether the user that scripts run as can read them. PHP-FPM itself only says "No input
//! file specified", as a response with status 404.

use crate::settings::PHP_INDEX;
use pinion_spawner::start_table::Identity;
use rustix::fs::getxattr;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

/// The extended attribute with the access control list of a file (acl(5)).
const ACL: &str = "system.posix_acl_access";

/// The right that is needed on a path, as the bit of others in its mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Needed {
    /// The right to pass through a folder.
    Enter = 0o1,
    /// The right to read a file.
    Read = 0o4,
}

/// Checks that a user can enter a folder, which is an absolute path, and read its `index.php`, if
/// there is one. `name` is the user in messages.
///
/// The mode bits decide. A path with an access control list is left out, as is one that this
/// process cannot see: the check never refuses a setup that would work.
///
/// # Errors
/// The first part of the path that the user cannot pass, and the advice.
pub(super) fn check(folder: &Path, name: &str, user: &Identity) -> Result<(), String> {
    // A link counts with the folders that lead to it and with those that it leads to.
    let real = fs::canonicalize(folder).unwrap_or_else(|_| folder.to_owned());
    let parts = |path: &Path| -> Vec<PathBuf> {
        let mut parts: Vec<PathBuf> = path.ancestors().map(Path::to_owned).collect();
        parts.reverse();
        parts
    };
    for part in parts(folder).into_iter().chain(parts(&real)) {
        check_part(&part, Needed::Enter, name, user)?;
    }
    let index = folder.join(PHP_INDEX);
    // Links are not followed to scripts.
    match index.symlink_metadata() {
        Ok(found) if found.is_file() => check_part(&index, Needed::Read, name, user),
        _ => Ok(()),
    }
}

fn check_part(part: &Path, needed: Needed, name: &str, user: &Identity) -> Result<(), String> {
    let Ok(found) = fs::metadata(part) else { return Ok(()) };
    let owner = Owner { uid: found.uid(), gid: found.gid() };
    let (who, shift) = owner.class_of(user);
    if found.mode() >> shift & needed as u32 != 0 || has_acl(part) {
        return Ok(());
    }
    let (verb, letter) = match needed {
        Needed::Enter => ("enter", 'x'),
        Needed::Read => ("read", 'r'),
    };
    let (path, mode) = (part.display(), found.mode() & 0o7777);
    let Owner { uid, gid } = owner;
    Err(format!(
        "PHP runs as {name}, who cannot {verb} {path} (mode {mode:04o}, owner {uid}:{gid}): run \
         `chmod {who}+{letter} {path}`, or name another user (php-user)"
    ))
}

/// Whom a file belongs to.
#[derive(Clone, Copy, Debug)]
struct Owner {
    uid: u32,
    gid: u32,
}

impl Owner {
    /// Returns which bits of the mode count for a user (path_resolution(7)): their letter for
    /// chmod(1), and how far left they are of those of others.
    fn class_of(self, user: &Identity) -> (char, u32) {
        if user.uid == self.uid {
            ('u', 6)
        } else if user.gid == self.gid || user.groups.contains(&self.gid) {
            ('g', 3)
        } else {
            ('o', 0)
        }
    }
}

fn has_acl(path: &Path) -> bool {
    // Its length is all that is asked for.
    getxattr(path, ACL, &mut [0_u8; 0]).is_ok_and(|bytes| bytes > 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    #[test]
    fn each_part_of_the_path_and_the_index_are_checked() {
        let base = std::env::temp_dir().join(format!("pinion-php-access-{}", std::process::id()));
        let folder = base.join("a/site");
        fs::create_dir_all(&folder).expect("made");
        let index = folder.join(PHP_INDEX);
        fs::write(&index, "").expect("written");
        let set = |path: &Path, mode| {
            fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("set");
        };
        let found = fs::metadata(&base).expect("there");
        let (uid, gid) = (found.uid(), found.gid());
        let own = Identity { uid, gid, groups: vec![] };
        let member = Identity { uid: uid + 1, gid: gid + 1, groups: vec![gid] };
        let other = Identity { uid: uid + 1, gid: gid + 1, groups: vec![] };
        let check = |user: &Identity| check(&folder, "www", user);
        for path in [&base, &base.join("a"), &folder] {
            set(path, 0o711);
        }
        set(&index, 0o644);
        for user in [&own, &member, &other] {
            assert_eq!(check(user), Ok(()));
        }
        set(&base.join("a"), 0o750);
        assert_eq!((check(&own), check(&member)), (Ok(()), Ok(())));
        let wrong = check(&other).expect_err("it cannot enter");
        let path = base.join("a");
        let expected = format!("www, who cannot enter {} (mode 0750", path.display());
        assert!(wrong.contains(&expected), "{wrong}");
        assert!(wrong.contains(&format!("`chmod o+x {}`", path.display())), "{wrong}");
        // The bits of the class count, and no others.
        set(&base.join("a"), 0o705);
        assert_eq!(check(&other), Ok(()));
        assert!(check(&member).is_err_and(|wrong| wrong.contains("chmod g+x")));
        set(&base.join("a"), 0o711);
        set(&index, 0o640);
        let wrong = check(&other).expect_err("it cannot read");
        assert!(wrong.contains(&format!("chmod o+r {}", index.display())), "{wrong}");
        assert_eq!(check(&member), Ok(()));
        set(&index, 0o244);
        assert!(check(&own).is_err_and(|wrong| wrong.contains("chmod u+r")));
        // A link in another folder leads there.
        let link = base.join("link");
        symlink(&folder, &link).expect("a link");
        set(&index, 0o644);
        set(&base.join("a"), 0o710);
        let wrong = super::check(&link, "www", &other).expect_err("it cannot enter");
        assert!(wrong.contains(&format!("enter {} (mode 0710", path.display())), "{wrong}");
        fs::remove_dir_all(&base).expect("removed");
    }
}
