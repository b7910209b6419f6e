//! Dumped values that are damaged are refused, and all others can be dumped and restored again.

use pinion_store::client::Client;
use pinion_store::settings::Settings;
use pinion_store::store::Store;
use pinion_store::{OutputPart, ReplyOutput};

use super::payload_checksum::seal;

const NOW_MS: u64 = 1_700_000_000_000;

/// The data are the type and the value of a payload, whose end is made for them.
pub(crate) fn check(data: &[u8]) {
    const VERSION: u16 = 12;
    let store = Store::new(Settings::default(), [7; 24], NOW_MS);
    let mut client = Client::new(&store, "", NOW_MS);
    let mut say = |arguments: &[&[u8]]| say(&mut client, &store, arguments);
    let reply = say(&[b"RESTORE", b"a", b"0", &seal(data, VERSION)]);
    if reply != b"+OK\r\n" {
        assert_eq!(reply, b"-ERR Bad data format\r\n");
        assert_eq!(say(&[b"DBSIZE"]), b":0\r\n");
        return;
    }
    let dumped = say(&[b"DUMP", b"a"]);
    if dumped == b"$-1\r\n" {
        // All fields of a hash have expired.
        return;
    }
    let head = dumped.iter().position(|&byte| byte == b'\n').expect("a string has a head") + 1;
    let payload = &dumped[head..dumped.len() - 2];
    assert_eq!(
        say(&[b"RESTORE", b"a", b"0", payload]),
        b"-BUSYKEY Target key name already exists.\r\n"
    );
    assert_eq!(say(&[b"RESTORE", b"b", b"0", payload]), b"+OK\r\n");
    assert_eq!(say(&[b"TYPE", b"a"]), say(&[b"TYPE", b"b"]));
    // Tables have their elements in another order.
    let sorted = |mut bytes: Vec<u8>| {
        bytes.sort_unstable();
        bytes
    };
    let dumped_again = say(&[b"DUMP", b"b"]);
    let value_bytes = dumped.len() - "12xxxxxxxx\r\n".len();
    let values = [dumped, dumped_again].map(|it| sorted(it[..value_bytes.min(it.len())].to_vec()));
    assert_eq!(values[0], values[1]);
    assert_eq!(say(&[b"DEL", b"a", b"b"]), b":2\r\n");
}

fn say(client: &mut Client, store: &Store, arguments: &[&[u8]]) -> Vec<u8> {
    let mut sent = format!("*{}\r\n", arguments.len()).into_bytes();
    for argument in arguments {
        sent.extend_from_slice(format!("${}\r\n", argument.len()).as_bytes());
        sent.extend_from_slice(argument);
        sent.extend_from_slice(b"\r\n");
    }
    let mut output = ReplyOutput::default();
    client.receive(store, &sent, NOW_MS, &mut output);
    let mut bytes = Vec::new();
    for part in output.parts() {
        match part {
            OutputPart::Bytes(part) => bytes.extend_from_slice(part),
            OutputPart::Shared(part) => bytes.extend_from_slice(part),
        }
    }
    bytes
}
