//! The urgency of a response (RFC 9218): the field `priority` and the payload of PRIORITY_UPDATE,
//! in the syntax of structured fields (RFC 9651); the same in HTTP/2 and HTTP/3. It is a hint, so
//! unreadable values are ignored.

use crate::field::Fields;
use crate::grammar;

/// The order in which a client wants a response to be sent among others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Priority {
    /// 0 is the most urgent, 7 the least.
    pub urgency: u8,
    /// Whether a part of the response is of use, so that answers of the same urgency take turns.
    pub incremental: bool,
}

impl Default for Priority {
    fn default() -> Priority {
        Priority { urgency: 3, incremental: false }
    }
}

impl Priority {
    /// Parses a value; of a parameter that occurs twice the last one counts (RFC 9651 §3.2).
    /// Parameters of other names, and values out of range, are ignored (RFC 9218 §4).
    #[must_use]
    pub fn parse(value: &[u8]) -> Priority {
        let mut priority = Priority::default();
        priority.read(value);
        priority
    }

    /// Returns the priority in the fields of a request.
    #[inline]
    pub(crate) fn of(fields: &Fields<'_>) -> Priority {
        let mut priority = Priority::default();
        for value in fields.all(b"priority") {
            priority.read(value);
        }
        priority
    }

    /// Lets a further line of the field change the values of the lines before it.
    fn read(&mut self, value: &[u8]) {
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

/// Priorities that came ahead of their streams (RFC 9218 §7.1, §7.2), by the number of the stream.
#[derive(Debug)]
pub(crate) struct EarlyPriorities<N>(Vec<(N, Priority)>);

impl<N: Copy + Ord> EarlyPriorities<N> {
    pub(crate) const fn new() -> EarlyPriorities<N> {
        EarlyPriorities(Vec::new())
    }

    /// Keeps the priority of a stream that is to come; the last one said counts. False when it
    /// would be one stream more than `streams_max`.
    #[must_use]
    pub(crate) fn set(&mut self, stream: N, priority: Priority, streams_max: usize) -> bool {
        if let Some(entry) = self.0.iter_mut().find(|entry| entry.0 == stream) {
            entry.1 = priority;
            return true;
        }
        let has_room = self.0.len() < streams_max;
        if has_room {
            self.0.push((stream, priority));
        }
        has_room
    }

    /// Takes the priority that was received for a stream that begins now. Those of lower numbers
    /// are for streams that will never begin.
    #[inline]
    pub(crate) fn take(&mut self, stream: N) -> Option<Priority> {
        if self.0.is_empty() {
            return None;
        }
        let priority = self.0.iter().find(|entry| entry.0 == stream).map(|entry| entry.1);
        self.0.retain(|entry| entry.0 > stream);
        priority
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        self.0.capacity() * size_of::<(N, Priority)>()
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
