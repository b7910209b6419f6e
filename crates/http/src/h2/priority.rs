//! How urgent an answer is (RFC 9218): the field `priority` and the payload of PRIORITY_UPDATE, in
//! the syntax of structured fields (RFC 9651). It is a hint, so what cannot be read is passed over.

use crate::grammar;

/// How a client wants an answer to be sent beside others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Priority {
    /// 0 is the most urgent, 7 the least.
    pub urgency: u8,
    /// Whether a part of the answer is of use, so that answers of the same urgency take turns.
    pub incremental: bool,
}

impl Default for Priority {
    fn default() -> Priority {
        Priority { urgency: 3, incremental: false }
    }
}

impl Priority {
    /// What a value says; of a parameter that came twice the last one counts (RFC 9651 §3.2).
    /// Parameters of other names, and values out of range, are ignored (RFC 9218 §4).
    #[must_use]
    pub fn parse(value: &[u8]) -> Priority {
        let mut priority = Priority::default();
        priority.read(value);
        priority
    }

    /// Lets a further line of the field change what the lines before it said.
    pub(crate) fn read(&mut self, value: &[u8]) {
        for member in grammar::list(value) {
            // Parameters of a member have no meaning.
            let end = member.iter().position(|&byte| byte == b';').unwrap_or(member.len());
            match member.get(..end).map(grammar::trim).unwrap_or_default() {
                [b'u', b'=', digit @ b'0'..=b'7'] => self.urgency = digit - b'0',
                b"i" | b"i=?1" => self.incremental = true,
                b"i=?0" => self.incremental = false,
                _ => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 9218 §4: the defaults are 3 and false; others are ignored.
    #[test]
    fn values() {
        for (value, urgency, incremental) in [
            ("", 3, false),
            ("u=0", 0, false),
            ("u=7, i", 7, true),
            ("i,u=5", 5, true),
            ("u=1 , i=?0", 1, false),
            ("i=?1;x=y, u=2;q", 2, true),
            ("u=8", 3, false),
            ("u=-1", 3, false),
            ("u=10", 3, false),
            ("u=", 3, false),
            ("u=\"1\"", 3, false),
            ("u=1, u=6", 6, false),
            ("U=1, I", 3, false),
            ("i=1", 3, false),
            ("x=\"u=0, i\", i", 3, true),
            ("u", 3, false),
            ("\0\u{ff}", 3, false),
        ] {
            let expected = Priority { urgency, incremental };
            assert_eq!(Priority::parse(value.as_bytes()), expected, "{value:?}");
        }
    }
}
