//! The hosts file (hosts(5)): lines with an address, and the names that have it.

use std::collections::HashMap;
use std::net::IpAddr;

use crate::connect_target::HostName;
use crate::limits::ADDRESSES_PER_FAMILY_MAX;

/// The names of a hosts file.
#[derive(Debug, Default)]
pub(super) struct HostsFile {
    addresses: HashMap<Box<str>, Vec<IpAddr>>,
}

impl HostsFile {
    /// Parses a file. Malformed lines are left out, as the C library does: one line must not remove
    /// all other names. So are addresses with a zone.
    pub(super) fn parse(text: &[u8]) -> Self {
        let mut hosts = Self::default();
        let text = text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text);
        for line in text.split(|byte| *byte == b'\n') {
            let line = line.split(|byte| *byte == b'#').next().unwrap_or_default();
            let Ok(line) = std::str::from_utf8(line) else { continue };
            let mut words = line.split_ascii_whitespace();
            let Some(Ok(address)) = words.next().map(str::parse::<IpAddr>) else { continue };
            for name in words.filter_map(|word| HostName::parse(word).ok()) {
                let addresses = hosts.addresses.entry(name.as_str().into()).or_default();
                let is_full = addresses.len() >= 2 * ADDRESSES_PER_FAMILY_MAX;
                if !is_full && !addresses.contains(&address) {
                    addresses.push(address);
                }
            }
        }
        hosts
    }

    /// Returns the addresses of a name, of both families.
    pub(super) fn get(&self, name: &HostName) -> Option<&[IpAddr]> {
        self.addresses.get(name.as_str()).map(Vec::as_slice)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_the_addresses_of_their_lines() {
        let text =
            b"\xef\xbb\xbf# a comment\n127.0.0.1\tlocalhost\n\n  10.0.0.1 Db.Internal db # db\n\
                     2001:db8::1 db\r\n10.0.0.2 db db\n10.0.0.3\nnonsense db\nfe80::1%eth0 zone\n\
                     10.0.0.4 b\xfcd\n10.0.0.5 bad..name good_name.\n999.0.0.1 other";
        let hosts = HostsFile::parse(text);
        let get = |name: &str| -> Vec<String> {
            let found = hosts.get(&HostName::parse(name).expect(name)).unwrap_or_default();
            found.iter().map(ToString::to_string).collect()
        };
        assert_eq!(get("db"), ["10.0.0.1", "2001:db8::1", "10.0.0.2"]);
        assert_eq!(get("DB.internal."), ["10.0.0.1"]);
        assert_eq!(get("good_name"), ["10.0.0.5"]);
        for absent in ["zone", "other", "nonsense", "bd"] {
            assert_eq!(get(absent), [""; 0], "{absent}");
        }
    }

    #[test]
    fn one_name_has_a_bounded_number_of_addresses() {
        let text: String = (0..200).map(|n| format!("10.0.0.{n} many\n")).collect();
        let hosts = HostsFile::parse(text.as_bytes());
        let many = hosts.get(&HostName::parse("many").expect("a name")).expect("addresses");
        assert_eq!(many.len(), 2 * ADDRESSES_PER_FAMILY_MAX);
    }
}
