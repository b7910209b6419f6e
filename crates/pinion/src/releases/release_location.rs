//! The location of a release folder: on this machine, or at `ssh://[user@]host[:port]/DIR`.

use super::remote::Remote;
use std::ffi::OsStr;
use std::path::PathBuf;

/// A release folder of some machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ReleaseLocation {
    /// A folder of this machine.
    Here(PathBuf),
    /// A folder of another machine.
    There(Remote),
}

/// The scheme of an address.
const SCHEME: &str = "ssh://";

impl ReleaseLocation {
    /// Reads an operand.
    ///
    /// # Errors
    /// A phrase that names the fault of an address.
    pub(crate) fn parse(text: &OsStr) -> Result<Self, String> {
        let Some(url) = text.to_str().filter(|text| text.contains("://")) else {
            return Ok(Self::Here(PathBuf::from(text)));
        };
        let Some(rest) = url.strip_prefix(SCHEME) else {
            return Err(format!("{url:?}: only ssh://host/DIR is another machine"));
        };
        remote(url, rest).map(Self::There).map_err(|why| format!("{url:?} {why}"))
    }

    /// Returns the place as written, or as near as Unicode comes.
    pub(crate) fn text(&self) -> String {
        match self {
            Self::Here(path) => path.to_string_lossy().into_owned(),
            Self::There(remote) => remote.url.clone(),
        }
    }
}

fn remote(url: &str, rest: &str) -> Result<Remote, String> {
    let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
    let (user, host) = match authority.rsplit_once('@') {
        Some((user, host)) => (Some(user), host),
        None => (None, authority),
    };
    let (host, port) = host_and_port(host)?;
    // ssh would take a name that begins with a dash for an option.
    let is_name = |text: &str| {
        let plain = |b: u8| b.is_ascii_alphanumeric() || b".-_".contains(&b);
        !text.is_empty() && !text.starts_with('-') && text.bytes().all(plain)
    };
    let is_address = host.contains(':') && host.bytes().all(|b| b.is_ascii_hexdigit() || b == b':');
    if !is_name(host) && !is_address {
        return Err("has no host that ssh could be given".to_owned());
    }
    if user.is_some_and(|user| !is_name(user)) {
        return Err("has no user that ssh could be given".to_owned());
    }
    Ok(Remote {
        url: url.to_owned(),
        destination: user.map_or_else(|| host.to_owned(), |user| format!("{user}@{host}")),
        port,
        folder: folder(path)?,
    })
}

/// Reads `host`, `host:22`, `[::1]:22`.
fn host_and_port(text: &str) -> Result<(&str, Option<u16>), String> {
    let (host, port) = match text.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((host, rest)) => (host, rest.strip_prefix(':')),
        None => match text.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (text, None),
        },
    };
    let read = |port: &str| match port.parse() {
        Ok(0) | Err(_) => Err(format!("has no port in {port:?}")),
        Ok(port) => Ok(port),
    };
    Ok((host, port.map(read).transpose()?))
}

/// Returns the folder at the other end: `/~/` begins at the home folder, as ssh does.
fn folder(path: &str) -> Result<String, String> {
    let path = decoded(path).ok_or("has a wrong escape in its path")?;
    if path.contains('\0') {
        return Err("has a path that no file system knows".to_owned());
    }
    // In every form, it is never an option and never an address.
    match path.strip_prefix("~/") {
        _ if path.is_empty() || path == "~" => Err("names no folder: ssh://host/DIR".to_owned()),
        Some("") => Err("names no folder: ssh://host/~/DIR".to_owned()),
        Some(below_home) => Ok(format!("./{below_home}")),
        None => Ok(format!("/{path}")),
    }
}

/// Returns the path without percent-escapes; `None` when one is wrong.
fn decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'%' => {
                let digit = |byte: u8| char::from(byte).to_digit(16);
                let (high, low) = (digit(rest.next()?)?, digit(rest.next()?)?);
                (high * 16 + low) as u8
            }
            byte => byte,
        });
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn there(text: &str) -> (String, Option<u16>, String) {
        match ReleaseLocation::parse(OsStr::new(text)) {
            Ok(ReleaseLocation::There(remote)) => (remote.destination, remote.port, remote.folder),
            other => panic!("{text}: {other:?}"),
        }
    }

    #[test]
    fn ssh_urls_are_parsed() {
        let expected = |destination: &str, port, folder: &str| {
            (destination.to_owned(), port, folder.to_owned())
        };
        for (text, remote) in [
            ("ssh://host/srv/site", expected("host", None, "/srv/site")),
            ("ssh://anna@a.example:2222/x", expected("anna@a.example", Some(2222), "/x")),
            ("ssh://[2001:db8::1]:22/x", expected("2001:db8::1", Some(22), "/x")),
            ("ssh://[::1]/x", expected("::1", None, "/x")),
            ("ssh://host/~/sites/-a", expected("host", None, "./sites/-a")),
            ("ssh://host/~anna/x", expected("host", None, "/~anna/x")),
            ("ssh://host/a%20b'c", expected("host", None, "/a b'c")),
        ] {
            assert_eq!(there(text), remote, "{text}");
        }
        for here in ["live", "/srv/ssh:/x", "./-x"] {
            assert_eq!(
                ReleaseLocation::parse(OsStr::new(here)),
                Ok(ReleaseLocation::Here(here.into()))
            );
        }
    }

    #[test]
    fn malformed_urls_and_ssh_options_are_refused() {
        for wrong in [
            "ssh://-oProxyCommand=x/d",
            "ssh://-x@host/d",
            "ssh://@host/d",
            "ssh:///d",
            "ssh://host",
            "ssh://host/",
            "ssh://host/~/",
            "ssh://host:0/d",
            "ssh://host:x/d",
            "ssh://host:-1/d",
            "ssh://ho st/d",
            "ssh://host/%zz",
            "ssh://host/%00",
            "ssh://a:b@host/d",
            "scp://host/d",
        ] {
            assert!(ReleaseLocation::parse(OsStr::new(wrong)).is_err(), "{wrong}");
        }
    }
}
