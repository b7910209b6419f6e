//! Rows with the behaviour of a client, and the required outcome.

use super::{End, Outcome, Row, Write, bare_control, control, fields, head, request, section, uni};
use crate::client::http3::{kind, stream};
use crate::client::qpack;
use crate::client::quic::{frame, integer};

// RFC 9114 §8.1.
const STREAM_CREATION: u64 = 0x103;
const CLOSED_CRITICAL_STREAM: u64 = 0x104;
const FRAME_UNEXPECTED: u64 = 0x105;
const FRAME: u64 = 0x106;
const ID: u64 = 0x108;
const SETTINGS: u64 = 0x109;
const MISSING_SETTINGS: u64 = 0x10a;
const REQUEST_INCOMPLETE: u64 = 0x10d;

/// RFC 9218 §7.2.
const PRIORITY_UPDATE: u64 = 0xf0700;
const PUSH_PRIORITY_UPDATE: u64 = 0xf0701;

/// Reserved numbers without meaning, for frames, streams and settings (§7.2.8, §6.2.3, §7.2.4.1).
const GREASE: [u64; 3] = [0x21, 0x21 + 0x1f * 7, 0x21 + 0x1f * 0x0210_0842_1084_2107];

/// Returns rows of one section and one outcome.
pub(super) fn rows<const N: usize>(
    section: &'static str,
    outcome: Outcome,
    of: [(&str, Vec<Write>); N],
) -> Vec<Row> {
    of.map(|(case, writes)| Row { section, case: case.to_owned(), writes, outcome }).into()
}

/// Returns rows that differ in the type of a frame.
fn kinds(
    section: &'static str,
    outcome: Outcome,
    kinds: &[u64],
    writes: impl Fn(Vec<u8>) -> Vec<Write>,
) -> Vec<Row> {
    let row = |&kind: &u64| {
        let case = format!("a frame of type {kind:#x}");
        Row { section, case, writes: writes(frame(kind, &[0])), outcome }
    };
    kinds.iter().map(row).collect()
}

fn settings_of(pairs: &[(u64, u64)]) -> Vec<u8> {
    let numbers = pairs.iter().flat_map(|&(name, value)| [integer(name), integer(value)].concat());
    frame(kind::SETTINGS, &numbers.collect::<Vec<u8>>())
}

fn number(kind: u64, number: u64) -> Vec<u8> {
    frame(kind, &integer(number))
}

pub(super) fn data(bytes: &[u8]) -> Vec<u8> {
    frame(kind::DATA, bytes)
}

/// Frames that are forbidden on a control stream, and forbidden ends of it.
pub fn control_stream() -> Vec<Row> {
    let missing = Outcome::Connection(MISSING_SETTINGS);
    let unexpected = Outcome::Connection(FRAME_UNEXPECTED);
    let closed = Outcome::Connection(CLOSED_CRITICAL_STREAM);
    let no_settings: Vec<u64> =
        [&[kind::DATA, kind::HEADERS, kind::CANCEL_PUSH, kind::GOAWAY][..], &GREASE].concat();
    let misplaced = [kind::DATA, kind::HEADERS, kind::PUSH_PROMISE];
    [
        kinds("§6.2.1", missing, &no_settings, |frame| vec![bare_control(&[frame])]),
        kinds("§6.2.1", missing, &[kind::MAX_PUSH_ID, PRIORITY_UPDATE], |frame| {
            vec![bare_control(&[frame])]
        }),
        rows(
            "§7.2.4",
            unexpected,
            [("settings again", vec![control(&[frame(kind::SETTINGS, &[])])])],
        ),
        kinds("§7.2.1, §7.2.2, §7.2.5", unexpected, &misplaced, |frame| vec![control(&[frame])]),
        kinds("§7.2.8", unexpected, &kind::RESERVED, |frame| vec![control(&[frame])]),
        rows(
            "§6.2.1",
            Outcome::Connection(STREAM_CREATION),
            [("two control streams", vec![control(&[]), control(&[])])],
        ),
        rows(
            "§6.2.1",
            closed,
            [
                ("the control stream ends", vec![control(&[]).left(End::Fin)]),
                ("it ends before its settings", vec![bare_control(&[]).left(End::Fin)]),
                (
                    "it ends within a frame",
                    vec![control(&[vec![kind::GOAWAY as u8, 1]]).left(End::Fin)],
                ),
                ("the control stream is reset", vec![control(&[]).left(End::ResetLater)]),
                ("it is reset before its settings", vec![bare_control(&[]).left(End::ResetLater)]),
                ("the server's control stream is stopped", vec![control(&[]), Write::stop()]),
            ],
        ),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// Settings that are forbidden, repeated or incomplete.
pub fn settings() -> Vec<Row> {
    let mut all: Vec<Row> = [0x0, 0x2, 0x3, 0x4, 0x5]
        .map(|name| Row {
            section: "§7.2.4.1, §11.2.2",
            case: format!("setting {name:#x}"),
            writes: vec![bare_control(&[settings_of(&[(name, 1)])])],
            outcome: Outcome::Connection(SETTINGS),
        })
        .into();
    let twice = |name, one, two| vec![bare_control(&[settings_of(&[(name, one), (name, two)])])];
    all.extend(rows(
        "§7.2.4",
        Outcome::Connection(SETTINGS),
        [
            ("a setting twice", twice(0x6, 1, 2)),
            ("a setting twice with one value", twice(0x6, 1, 1)),
            ("a setting of QPACK twice", twice(0x1, 0, 0)),
        ],
    ));
    let cut = |payload: &[u8]| vec![bare_control(&[frame(kind::SETTINGS, payload)])];
    all.extend(rows(
        "§7.1",
        Outcome::Connection(FRAME),
        [
            ("a setting without a value", cut(&[0x6])),
            ("a setting whose value is cut", cut(&[0x6, 0x40])),
            ("a setting whose name is cut", cut(&[0x6, 1, 0xc0, 0])),
        ],
    ));
    all
}

/// Streams that a client may not open, not open twice, or not end.
pub fn streams() -> Vec<Row> {
    let creation = Outcome::Connection(STREAM_CREATION);
    let closed = Outcome::Connection(CLOSED_CRITICAL_STREAM);
    let mut all = rows(
        "§6.2.2",
        creation,
        [
            ("a push stream of a client", vec![control(&[]), uni(stream::PUSH, &[0])]),
            ("a push stream before anything else", vec![uni(stream::PUSH, &[])]),
        ],
    );
    for (name, kind) in [("encoder", stream::ENCODER), ("decoder", stream::DECODER)] {
        let alone = |end| vec![control(&[]), uni(kind, &[]).left(end)];
        let two = vec![control(&[]), uni(kind, &[]), uni(kind, &[])];
        all.extend(rows("RFC 9204 §4.2", creation, [(&*format!("two {name} streams"), two)]));
        all.extend(rows(
            "RFC 9204 §4.2",
            closed,
            [
                (&*format!("the {name} stream ends"), alone(End::Fin)),
                (&*format!("the {name} stream is reset"), alone(End::ResetLater)),
            ],
        ));
    }
    all
}

/// Frames that are forbidden on a request stream, or at that position.
pub fn request_streams() -> Vec<Row> {
    let unexpected = Outcome::Connection(FRAME_UNEXPECTED);
    let of_control =
        [kind::CANCEL_PUSH, kind::SETTINGS, kind::GOAWAY, kind::MAX_PUSH_ID, PRIORITY_UPDATE];
    let never = [&kind::RESERVED[..], &of_control, &[kind::PUSH_PROMISE]].concat();
    let trailers = section(&[("x", "y")]);
    let behind = |frame| vec![control(&[]), request(&[head(), frame])];
    let mut all = kinds("§7.2", unexpected, &never, |frame| vec![control(&[]), request(&[frame])]);
    all.extend(kinds("§7.2", unexpected, &never, behind));
    all.extend(rows(
        "§4.1",
        unexpected,
        [
            ("DATA before HEADERS", vec![control(&[]), request(&[data(b"x")])]),
            ("empty DATA before HEADERS", vec![control(&[]), request(&[data(b""), head()])]),
            (
                "DATA behind trailers",
                vec![request(&[head(), data(b"x"), trailers.clone(), data(b"x")])],
            ),
            (
                "HEADERS behind trailers",
                vec![request(&[head(), data(b"x"), trailers.clone(), trailers.clone()])],
            ),
            ("trailers twice without DATA", vec![request(&[head(), trailers.clone(), trailers])]),
        ],
    ));
    all.extend(rows(
        "§4.1",
        Outcome::Stream(REQUEST_INCOMPLETE),
        [
            ("a request without HEADERS", vec![control(&[]), request(&[])]),
            ("frames of no meaning, and no HEADERS", vec![request(&[frame(GREASE[0], b"x")])]),
        ],
    ));
    all
}

/// Frames that are incomplete, or contradict their length.
pub fn frames() -> Vec<Row> {
    let cut = |mut frame: Vec<u8>| {
        frame.pop();
        frame
    };
    let cut_behind = |frame: Vec<u8>| vec![control(&[]), request(&[head(), cut(frame)])];
    let mut all = rows(
        "§7.1",
        Outcome::Connection(FRAME),
        [
            ("HEADERS that are cut", vec![control(&[]), request(&[cut(head())])]),
            ("HEADERS without its length", vec![control(&[]), request(&[vec![1]])]),
            ("a length that is cut", vec![control(&[]), request(&[vec![1, 0x40]])]),
            ("a type that is cut", vec![control(&[]), request(&[vec![0x40]])]),
            ("DATA that is cut", cut_behind(data(b"xyz"))),
            ("DATA of which nothing comes", vec![request(&[head(), vec![0, 5]])]),
            ("trailers that are cut", cut_behind(section(&[("x", "y")]))),
            ("a frame of no meaning that is cut", cut_behind(frame(GREASE[1], b"xyz"))),
            ("such a frame before HEADERS", vec![request(&[cut(frame(GREASE[1], b"xyz"))])]),
        ],
    );
    let one = |frame| vec![control(&[frame])];
    for (name, kind) in [("GOAWAY", kind::GOAWAY), ("MAX_PUSH_ID", kind::MAX_PUSH_ID)] {
        all.extend(rows(
            "§7.1",
            Outcome::Connection(FRAME),
            [
                (&*format!("{name} without a number"), one(frame(kind, &[]))),
                (&*format!("{name} whose number is cut"), one(frame(kind, &[0x40]))),
                (&*format!("{name} with more than its number"), one(frame(kind, &[0, 0]))),
            ],
        ));
    }
    all.extend(rows(
        "§7.1",
        Outcome::Connection(FRAME),
        [
            ("PRIORITY_UPDATE without a number", one(frame(PRIORITY_UPDATE, &[]))),
            ("the same of a push", one(frame(PUSH_PRIORITY_UPDATE, &[0x40]))),
            ("CANCEL_PUSH without a number", one(frame(kind::CANCEL_PUSH, &[]))),
            ("CANCEL_PUSH with more than its number", one(frame(kind::CANCEL_PUSH, &[0, 0]))),
        ],
    ));
    all
}

/// Returns invalid IDs of streams and pushes.
pub fn numbers() -> Vec<Row> {
    let id = Outcome::Connection(ID);
    let priority = |stream| frame(PRIORITY_UPDATE, &[&integer(stream)[..], b"u=1"].concat());
    let two = |kind, one, two| vec![control(&[number(kind, one), number(kind, two)])];
    let mut all = rows(
        "§5.2, §7.2.3, §7.2.7",
        id,
        [
            ("GOAWAY with a larger number", two(kind::GOAWAY, 4, 8)),
            ("MAX_PUSH_ID with a smaller number", two(kind::MAX_PUSH_ID, 8, 7)),
            ("CANCEL_PUSH of what nobody promised", vec![control(&[number(kind::CANCEL_PUSH, 0)])]),
            (
                "the same where it could be",
                vec![control(&[number(kind::MAX_PUSH_ID, 8), number(kind::CANCEL_PUSH, 8)])],
            ),
        ],
    );
    all.extend(rows(
        "RFC 9218 §7.2",
        id,
        [
            ("the priority of no request stream", vec![control(&[priority(2)])]),
            ("the priority of the server's stream", vec![control(&[priority(1)])]),
            ("the priority of a stream far ahead", vec![control(&[priority(4 << 40)])]),
            (
                "the priority of a push",
                vec![control(&[frame(PUSH_PRIORITY_UPDATE, &[0, b'u', b'=', b'1'])])],
            ),
        ],
    ));
    all
}

/// Returns a unidirectional stream whose type does not arrive.
fn untyped(end: End) -> Write {
    Write { on: super::Direction::Uni, bytes: Vec::new(), end }
}

/// Returns input without meaning that is no error.
pub fn ignored() -> Vec<Row> {
    let mut all = Vec::new();
    for kind in GREASE {
        let noise = || frame(kind, b"of no meaning");
        let frames = [noise(), head(), noise(), data(b"x"), noise(), section(&[("x", "y")])];
        all.extend(rows(
            "§6.2.3, §7.2.4.1, §7.2.8, §9",
            Outcome::Status(405),
            [
                ("frames", vec![request(&[&frames[..], &[noise()]].concat())]),
                ("frames of control", vec![control(&[noise(), noise()]), request(&[head()])]),
                ("streams", vec![uni(kind, b"x"), uni(kind, b""), request(&[head()])]),
                ("streams that end", vec![uni(kind, b"x").left(End::Fin), request(&[head()])]),
                ("no type", vec![untyped(End::Fin), request(&[head()])]),
                (
                    "settings",
                    vec![bare_control(&[settings_of(&[(kind, 1), (0x6, 9)])]), request(&[head()])],
                ),
            ],
        ));
    }
    let priority = |stream| frame(PRIORITY_UPDATE, &[&integer(stream)[..], b"u=1, x=(1"].concat());
    let pushes = [number(kind::MAX_PUSH_ID, 8), number(kind::MAX_PUSH_ID, 8)];
    let leaves = [number(kind::GOAWAY, 8), number(kind::GOAWAY, 8), number(kind::GOAWAY, 0)];
    let codes = [uni(stream::ENCODER, b"\x20"), uni(stream::DECODER, b"\x40\x7f\x05")];
    all.extend(rows(
        "§4.1.1, §5.2, §7.2.7, RFC 9204 §4.4.2, RFC 9218 §7.2",
        Outcome::Status(405),
        [
            ("nothing but a request", vec![request(&[head()])]),
            ("MAX_PUSH_ID that stays and grows", vec![control(&pushes), request(&[head()])]),
            ("GOAWAY whose number falls", vec![control(&leaves), request(&[head()])]),
            ("priorities", vec![control(&[priority(0), priority(8)]), request(&[head()])]),
            ("QPACK without a table", codes.into_iter().chain([request(&[head()])]).collect()),
            ("te: trailers", vec![request(&[fields(&[("te", "trailers")])])]),
            ("empty DATA", vec![request(&[head(), data(b""), data(b"")])]),
            ("the same host twice", vec![request(&[fields(&[("host", "localhost")])])]),
        ],
    ));
    let reset = |frames: &[Vec<u8>]| vec![control(&[]), request(frames).left(End::Reset)];
    all.extend(rows(
        "§4.1.1, §6.2",
        Outcome::Nothing,
        [
            ("a request that is taken back", reset(&[head()])),
            ("one taken back within a frame", reset(&[vec![1, 9]])),
            ("a stream that is reset before its type", vec![untyped(End::Reset)]),
        ],
    ));
    all.extend(rows(
        "§4.1.1, RFC 9204 §2.1",
        Outcome::Status(405),
        [(
            "fields in every form",
            vec![request(&[frame(
                kind::HEADERS,
                &[&qpack::encode(&[(":method", "POST")])[..], b"\xd7\x50\x01a\xc1"].concat(),
            )])],
        )],
    ));
    all
}
