//! Arbitrary bytes of a client: the replies are the same however the bytes are cut.

use pinion_store::client::Client;
use pinion_store::settings::Settings;
use pinion_store::store::Store;
use pinion_store::{OutputPart, ReplyOutput};

const NOW_MS: u64 = 1_700_000_000_000;

/// Longer numbers make strings of many megabytes, which only shows how fast memory is.
const DIGITS_MAX: usize = 5;

/// Checks the input of a client. The first two bytes determine the cuts of the others.
pub(crate) fn check(data: &[u8]) {
    let Some((&[first, second], sent)) = data.split_first_chunk() else { return };
    if sent.split(|byte| !byte.is_ascii_digit()).any(|digits| digits.len() > DIGITS_MAX) {
        return;
    }
    let whole = replies(sent, |_| sent.len());
    // The last command in `CLIENT LIST` and `CLIENT INFO` depends on the cuts.
    let is_about_clients = sent.windows(6).any(|word| word.eq_ignore_ascii_case(b"client"));
    let (step, change) = (usize::from(first % 64) + 1, usize::from(second % 8));
    for (step, change) in [(1, 0), (step, change)] {
        let cut = replies(sent, |number| step + number * change);
        if !is_about_clients {
            let (whole, cut) = (whole.0.escape_ascii(), cut.0.escape_ascii());
            assert_eq!(whole.to_string(), cut.to_string(), "{}", sent.escape_ascii());
        }
        assert!(whole.1 == cut.1 || is_about_clients, "closed: {}, and cut {}", whole.1, cut.1);
    }
}

/// Sends bytes in pieces, whose lengths follow from their numbers. Returns all replies, and whether
/// the connection is closed.
fn replies(sent: &[u8], bytes_of: impl Fn(usize) -> usize) -> (Vec<u8>, bool) {
    let store = Store::new(Settings::default(), [7; 24], NOW_MS);
    let mut client = Client::new(&store, "", NOW_MS);
    let mut replies = Vec::new();
    let (mut rest, mut number) = (sent, 0);
    while !rest.is_empty() && !client.is_closing() {
        let (piece, behind) = rest.split_at(bytes_of(number).clamp(1, rest.len()));
        let mut output = ReplyOutput::default();
        client.receive(&store, piece, NOW_MS, &mut output);
        client.run_jobs(&store, NOW_MS, &mut output);
        for part in output.parts() {
            match part {
                OutputPart::Bytes(part) => replies.extend_from_slice(part),
                OutputPart::Shared(part) => replies.extend_from_slice(part),
            }
        }
        (rest, number) = (behind, number + 1);
    }
    let is_closing = client.is_closing();
    client.disconnect(&store);
    (replies, is_closing)
}
