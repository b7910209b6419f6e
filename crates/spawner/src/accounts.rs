//! Numbers of users and groups by their names, from `/etc/passwd` and `/etc/group`.
//!
//! The files are read as passwd(5) and group(5) describe them. Other sources of the name service
//! switch (LDAP, systemd-homed) are not queried, because the C library of a static program cannot
//! load them. Users of these sources can be named by number.

use std::path::Path;
use std::{fs, io};

use crate::start_table::Identity;

/// The accounts of a system: the contents of both files.
#[derive(Clone, Debug)]
pub struct Accounts {
    passwd: String,
    group: String,
}

/// The reason why a name has no number.
#[derive(Debug, thiserror::Error)]
pub enum AccountError {
    /// A file of accounts cannot be read.
    #[error("cannot read {path}: {error}")]
    Unreadable {
        /// The path of the file.
        path: &'static str,
        /// The error of the system.
        error: io::Error,
    },
    /// There is no such user.
    #[error("unknown user `{0}`: create it, or use the number of a user")]
    UnknownUser(String),
    /// There is no such group.
    #[error("unknown group `{0}`: create it, or use the number of a group")]
    UnknownGroup(String),
    /// A user is given by a number that is not in `/etc/passwd`, so its group is not known.
    #[error("user {0} is not in /etc/passwd: name its group, too")]
    NoGroup(u32),
}

const PASSWD: &str = "/etc/passwd";
const GROUP: &str = "/etc/group";

impl Accounts {
    /// Reads the accounts of the system. A missing file counts as empty.
    ///
    /// # Errors
    /// A file exists and cannot be read.
    pub fn read() -> Result<Self, AccountError> {
        let read = |path: &'static str| match fs::read(Path::new(path)) {
            Ok(bytes) => Ok(String::from_utf8_lossy(&bytes).into_owned()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(String::new()),
            Err(error) => Err(AccountError::Unreadable { path, error }),
        };
        Ok(Self { passwd: read(PASSWD)?, group: read(GROUP)? })
    }

    /// Creates the accounts from the contents of both files.
    pub fn from_files(passwd: &str, group: &str) -> Self {
        Self { passwd: passwd.to_owned(), group: group.to_owned() }
    }

    /// Returns the identity of a program that runs as `user`, given by its name or number. Without
    /// `group`, the group is the user's own. The supplementary groups are those that have the user
    /// as a member, as initgroups(3) finds them.
    ///
    /// # Errors
    /// There is no such user or group.
    pub fn identity(&self, user: &str, group: Option<&str>) -> Result<Identity, AccountError> {
        let row = self.user_row(user);
        let uid = match (&row, user.parse()) {
            (Some(row), _) => row.uid,
            (None, Ok(uid)) => uid,
            (None, Err(_)) => return Err(AccountError::UnknownUser(user.to_owned())),
        };
        let gid = match (group, &row) {
            (Some(group), _) => self.gid(group)?,
            (None, Some(row)) => row.gid,
            (None, None) => return Err(AccountError::NoGroup(uid)),
        };
        let mut groups = vec![gid];
        if let Some(row) = row {
            groups.extend(self.groups_of(row.name).filter(|other| *other != gid));
        }
        Ok(Identity { uid, gid, groups })
    }

    /// Returns the name and the home directory of a user that is given by its name or number, if
    /// `/etc/passwd` has it.
    pub fn home(&self, user: &str) -> Option<(&str, &str)> {
        self.user_row(user).map(|row| (row.name, row.home))
    }

    /// Returns the number of a group that is given by its name or number.
    ///
    /// # Errors
    /// There is no such group.
    pub fn gid(&self, group: &str) -> Result<u32, AccountError> {
        let named = rows(&self.group).find(|row| row[0] == group && row.len() > 2);
        let gid = named.and_then(|row| row[2].parse().ok()).or_else(|| group.parse().ok());
        gid.ok_or_else(|| AccountError::UnknownGroup(group.to_owned()))
    }

    fn user_row(&self, user: &str) -> Option<UserRow<'_>> {
        let users = || rows(&self.passwd).filter_map(|row| UserRow::of(&row));
        let by_name = users().find(|row| row.name == user);
        by_name.or_else(|| users().find(|row| user.parse() == Ok(row.uid)))
    }

    fn groups_of<'a>(&'a self, user: &'a str) -> impl Iterator<Item = u32> + 'a {
        let is_member = move |row: &Vec<&str>| {
            row.get(3).is_some_and(|members| members.split(',').any(|member| member == user))
        };
        rows(&self.group).filter(is_member).filter_map(|row| row[2].parse().ok())
    }
}

struct UserRow<'a> {
    name: &'a str,
    uid: u32,
    gid: u32,
    home: &'a str,
}

impl<'a> UserRow<'a> {
    fn of(row: &[&'a str]) -> Option<Self> {
        let [name, _, uid, gid, ref rest @ ..] = *row else { return None };
        // The field with the name of the person comes before the home directory.
        let home = rest.get(1).copied().unwrap_or("/");
        Some(Self { name, uid: uid.parse().ok()?, gid: gid.parse().ok()?, home })
    }
}

/// Returns the fields of each line; a line has at least one.
fn rows(file: &str) -> impl Iterator<Item = Vec<&str>> {
    file.lines().map(|line| line.split(':').collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn accounts() -> Accounts {
        let passwd = "root:x:0:0:root:/root:/bin/sh\nbroken\napp:x:1001:1002::/srv:/bin/false\n";
        let group = "root:x:0:\napp:x:1002:\nmedia:x:44:www,app\nlog:x:4:app2\n123name:x:9:\n";
        Accounts::from_files(passwd, group)
    }

    fn identity(uid: u32, gid: u32, groups: &[u32]) -> Identity {
        Identity { uid, gid, groups: groups.to_vec() }
    }

    #[test]
    fn users_have_their_groups() {
        let found = |user, group| accounts().identity(user, group).expect("an identity");
        assert_eq!(found("app", None), identity(1001, 1002, &[1002, 44]));
        assert_eq!(found("1001", None), identity(1001, 1002, &[1002, 44]));
        assert_eq!(found("app", Some("media")), identity(1001, 44, &[44]));
        assert_eq!(found("4000", Some("123name")), identity(4000, 9, &[9]));
    }

    #[test]
    fn users_have_a_home_directory() {
        assert_eq!(accounts().home("1001"), Some(("app", "/srv")));
        assert_eq!(accounts().home("root"), Some(("root", "/root")));
        assert_eq!(accounts().home("broken"), None);
    }

    #[test]
    fn unknown_names_are_errors() {
        let error =
            |user, group| accounts().identity(user, group).expect_err("unknown").to_string();
        assert!(error("nouser", None).starts_with("unknown user `nouser`"));
        assert!(error("broken", None).starts_with("unknown user `broken`"));
        assert!(error("app", Some("nogroup")).starts_with("unknown group `nogroup`"));
        assert!(error("4000", None).starts_with("user 4000 is not in /etc/passwd"));
    }
}
