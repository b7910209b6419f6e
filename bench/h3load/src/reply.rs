//! Parses one response as its bytes arrive: the frames of a request stream (RFC 9114 §4.1).

use pinion_http::h3::varint;

/// A frame of fields (RFC 9114 §7.2.2).
const HEADERS: u64 = 0x1;
/// A frame of content (RFC 9114 §7.2.1).
const DATA: u64 = 0x0;
/// The first bytes of a section whose first field is `:status: 200`: no reference to a dynamic
/// table, and row 25 of the static one (RFC 9204 §4.5.1, §4.5.2, appendix A).
const OK: [u8; 3] = [0, 0, 0xd9];

/// The state of one response.
#[derive(Debug, Default)]
pub(crate) struct Reply {
    /// Bytes of an incomplete header or field section.
    held: Vec<u8>,
    /// Bytes of content that are missing within the frame.
    left: u64,
    pub(crate) content_bytes: u64,
    /// Whether the status is 200; `None` before the first fields.
    pub(crate) is_ok: Option<bool>,
}

impl Reply {
    /// Processes received bytes.
    pub(crate) fn take(&mut self, mut bytes: &[u8]) {
        loop {
            let content = self.left.min(bytes.len() as u64);
            self.left -= content;
            self.content_bytes += content;
            bytes = &bytes[content as usize..];
            if bytes.is_empty() {
                return;
            }
            if self.held.is_empty() {
                // Nearly always the whole frame has arrived.
                bytes = self.frame(bytes);
                if self.left == 0 {
                    self.held.extend_from_slice(bytes);
                    return;
                }
                continue;
            }
            let mut held = std::mem::take(&mut self.held);
            held.extend_from_slice(bytes);
            return self.take(&held);
        }
    }

    /// Parses frames up to content, or to an incomplete one; returns the rest.
    fn frame<'b>(&mut self, mut bytes: &'b [u8]) -> &'b [u8] {
        while self.left == 0 {
            let mut rest = bytes;
            let header = varint::read(&mut rest).zip(varint::read(&mut rest));
            let Some((kind, length)) = header else { break };
            if kind == DATA {
                self.left = length;
            } else {
                let Some((payload, behind)) = rest.split_at_checked(length as usize) else { break };
                if kind == HEADERS && self.is_ok.is_none() {
                    self.is_ok = Some(payload.starts_with(&OK));
                }
                rest = behind;
            }
            bytes = rest;
        }
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Fields, an unknown frame, content in two frames, trailers.
    const WHOLE: [u8; 21] =
        [1, 4, 0, 0, 0xd9, 7, 0x21, 2, 8, 8, 0, 3, 1, 1, 1, 0x40, 0, 1, 5, 1, 0];

    #[test]
    fn a_response_is_parsed_in_any_pieces() {
        for cut in 0..WHOLE.len() {
            for second in cut..WHOLE.len() {
                let mut reply = Reply::default();
                reply.take(&WHOLE[..cut]);
                reply.take(&WHOLE[cut..second]);
                reply.take(&WHOLE[second..]);
                assert_eq!((reply.content_bytes, reply.is_ok), (4, Some(true)), "{cut} {second}");
                assert!(reply.held.is_empty() && reply.left == 0);
            }
        }
    }

    #[test]
    fn a_status_other_than_200_is_an_error() {
        let mut reply = Reply::default();
        reply.take(&[1, 3, 0, 0, 0xdb]);
        assert_eq!(reply.is_ok, Some(false));
    }
}
