//! What a client does, and what has to come of it.

use super::{End, Outcome, Row, Write, bare_control, control, fields, head, request, section, uni};
use pinion_tests::client::http3::{kind, stream};
use pinion_tests::client::qpack;
use pinion_tests::client::quic::{frame, integer};

// RFC 9114 §8.1, RFC 9204 §6.
const STREAM_CREATION: u64 = 0x103;
const CLOSED_CRITICAL_STREAM: u64 = 0x104;
const FRAME_UNEXPECTED: u64 = 0x105;
const FRAME: u64 = 0x106;
const ID: u64 = 0x108;
const SETTINGS: u64 = 0x109;
const MISSING_SETTINGS: u64 = 0x10a;
const REQUEST_INCOMPLETE: u64 = 0x10d;
const MESSAGE: u64 = 0x10e;
const DECOMPRESSION_FAILED: u64 = 0x200;
const ENCODER_STREAM: u64 = 0x201;
const DECODER_STREAM: u64 = 0x202;

/// RFC 9218 §7.2.
const PRIORITY_UPDATE: u64 = 0xf0700;
const PUSH_PRIORITY_UPDATE: u64 = 0xf0701;

/// Of no meaning, whether for frames, streams or settings (§7.2.8, §6.2.3, §7.2.4.1).
const GREASE: [u64; 3] = [0x21, 0x21 + 0x1f * 7, 0x21 + 0x1f * 0x0210_0842_1084_2107];

/// Rows of one section and one outcome.
fn rows<const N: usize>(
    section: &'static str,
    outcome: Outcome,
    of: [(&str, Vec<Write>); N],
) -> Vec<Row> {
    of.map(|(what, writes)| Row { section, what: what.to_owned(), writes, outcome }).into()
}

/// Rows that differ in the type of a frame.
fn kinds(
    section: &'static str,
    outcome: Outcome,
    kinds: &[u64],
    writes: impl Fn(Vec<u8>) -> Vec<Write>,
) -> Vec<Row> {
    let row = |&kind: &u64| {
        let what = format!("a frame of type {kind:#x}");
        Row { section, what, writes: writes(frame(kind, &[0])), outcome }
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

fn data(bytes: &[u8]) -> Vec<u8> {
    frame(kind::DATA, bytes)
}

pub(crate) fn control_stream() -> Vec<Row> {
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
            ],
        ),
    ]
    .into_iter()
    .flatten()
    .collect()
}

pub(crate) fn settings() -> Vec<Row> {
    let mut all: Vec<Row> = [0x0, 0x2, 0x3, 0x4, 0x5]
        .map(|name| Row {
            section: "§7.2.4.1, §11.2.2",
            what: format!("setting {name:#x}"),
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

pub(crate) fn streams() -> Vec<Row> {
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
            [(&*format!("the {name} stream ends"), alone(End::Fin))],
        ));
    }
    all
}

pub(crate) fn request_streams() -> Vec<Row> {
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

pub(crate) fn frames() -> Vec<Row> {
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

pub(crate) fn messages() -> Vec<Row> {
    let malformed = |section, what: String, frames: &[Vec<u8>]| {
        let writes = vec![control(&[]), request(frames)];
        Row { section, what, writes, outcome: Outcome::Stream(MESSAGE) }
    };
    let mut all = Vec::new();
    for (section, name, value) in [
        ("§4.2", "Accept", "*/*"),
        ("§4.2", "aCcept", "*/*"),
        ("§4.2", "connection", "close"),
        ("§4.2", "keep-alive", "5"),
        ("§4.2", "proxy-connection", "keep-alive"),
        ("§4.2", "transfer-encoding", "chunked"),
        ("§4.2", "upgrade", "websocket"),
        ("§4.2", "te", "gzip"),
        ("§4.2", "te", "trailers, gzip"),
        ("§10.3", "a b", "x"),
        ("§10.3", "a\n", "x"),
        ("§10.3", "", "x"),
        ("§10.3", "x", "a\nb"),
        ("§10.3", "x", "a\rb"),
        ("§10.3", "x", "a\0b"),
        ("§4.3", ":status", "200"),
        ("§4.3", ":protocol", "websocket"),
        ("§4.3", ":x", "y"),
        ("§4.3.1", ":method", "GET"),
        ("§4.3.1", ":scheme", "https"),
        ("§4.3.1", ":authority", "localhost"),
        ("§4.3.1", ":path", "/"),
    ] {
        let row = malformed(section, format!("{name:?}: {value:?}"), &[fields(&[(name, value)])]);
        all.push(row);
    }
    let pseudo = [(":method", "GET"), (":scheme", "https"), (":authority", "a"), (":path", "/")];
    for missing in [":method", ":scheme", ":path"] {
        let rest: Vec<_> = pseudo.into_iter().filter(|(name, _)| *name != missing).collect();
        all.push(malformed("§4.3.1", format!("no {missing}"), &[section(&rest)]));
    }
    let [method, scheme, authority, path] = pseudo;
    for (section_of, what, fields) in [
        ("§4.3", "a pseudo-field behind a field", vec![method, scheme, ("x", "y"), path]),
        ("§4.3.1", "an empty :path", vec![method, scheme, authority, (":path", "")]),
        ("§4.3.1", "another host", vec![method, scheme, authority, path, ("host", "b")]),
        ("§4.4", "CONNECT with :path", vec![(":method", "CONNECT"), authority, path]),
        ("§4.4", "CONNECT with :scheme", vec![(":method", "CONNECT"), authority, scheme]),
        ("§4.4", "CONNECT without :authority", vec![(":method", "CONNECT")]),
        ("§4.1.2", "no field at all", vec![]),
    ] {
        all.push(malformed(section_of, what.to_owned(), &[section(&fields)]));
    }
    let long = |length: &str, content: &[Vec<u8>]| {
        [&[fields(&[("content-length", length)])], content].concat()
    };
    for (what, frames) in [
        ("less content than announced", long("5", &[data(b"four")])),
        ("more content than announced", long("3", &[data(b"four")])),
        ("more content in the end", long("3", &[data(b"two"), data(b"!")])),
        ("no content though announced", long("3", &[])),
        ("content though none was announced", long("0", &[data(b"x")])),
        ("trailers before the announced end", long("3", &[data(b"x"), section(&[("x", "y")])])),
    ] {
        all.push(malformed("§4.1.2", what.to_owned(), &frames));
    }
    for (name, value) in [(":path", "/"), ("Upper", "x"), ("connection", "close")] {
        let frames = [head(), data(b"x"), section(&[(name, value)])];
        all.push(malformed("§4.1.2, §4.3", format!("{name:?} in trailers"), &frames));
    }
    // "Servers MAY send an HTTP response indicating the error": as over any other protocol.
    all.extend(rows(
        "§4.1.2, §4.3.1",
        Outcome::Status(400),
        [
            (
                "an empty :authority",
                vec![request(&[section(&[method, scheme, (":authority", ""), path])])],
            ),
            ("no authority", vec![request(&[section(&[method, scheme, path])])]),
            ("a length that is none", vec![request(&long("x", &[data(b"x")]))]),
        ],
    ));
    all
}

pub(crate) fn numbers() -> Vec<Row> {
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

pub(crate) fn compression() -> Vec<Row> {
    let mut all = Vec::new();
    for (section, what, fields) in [
        ("RFC 9204 §2.2.1", "entries are required", &b"\x02\0\x80"[..]),
        ("RFC 9204 §3.2.5", "an entry of the dynamic table", b"\0\0\x80"),
        ("RFC 9204 §3.2.6", "one behind the base", b"\0\0\x10"),
        ("RFC 9204 §4.5.4", "a name from the dynamic table", b"\0\0\x40\x01x"),
        ("RFC 9204 §4.5.5", "a name from behind the base", b"\0\0\0\x01x"),
        ("RFC 9204 §3.1", "behind the end of the static table", b"\0\0\xff\x24"),
        ("RFC 9204 §4.5.1", "no prefix", b""),
        ("RFC 9204 §4.5.1", "half a prefix", b"\0"),
        ("RFC 9204 §4.5.6", "a name that is cut", b"\0\0\x23ab"),
        ("RFC 9204 §4.5.6", "a value that is cut", b"\0\0\x21a\x05b"),
        ("RFC 9204 §4.1.1", "an integer without an end", b"\0\0\xff\xff\xff\xff\xff\xff\xff\xff"),
        ("RFC 7541 §5.2", "padding with zeros", b"\0\0\x51\x81\0"),
        ("RFC 7541 §5.2", "padding of a whole byte", b"\0\0\x51\x82\x1f\xff"),
        ("RFC 7541 §5.2", "the end of a string within it", b"\0\0\x51\x84\xff\xff\xff\xff"),
    ] {
        let failed = Outcome::Connection(DECOMPRESSION_FAILED);
        let trailers = vec![request(&[head(), data(b"x"), frame(kind::HEADERS, fields)])];
        let request = vec![control(&[]), request(&[frame(kind::HEADERS, fields)])];
        all.extend(rows(section, failed, [(what, request)]));
        all.extend(rows(section, failed, [(&*format!("{what}, in trailers"), trailers)]));
    }
    for (section, what, bytes) in [
        ("RFC 9204 §4.3.1", "a capacity above 0", &b"\x21"[..]),
        ("RFC 9204 §4.3.1", "a large capacity", b"\x3f\xe1\x1f"),
        ("RFC 9204 §3.2.2", "an entry by a static name", b"\xc0\x01x"),
        ("RFC 9204 §3.2.2", "an entry by its name", b"\x41x\x01y"),
        ("RFC 9204 §4.3.4", "a duplicate of nothing", b"\0"),
        ("RFC 9204 §4.3.2", "an entry by a name that is not there", b"\x80\x01x"),
    ] {
        let writes = vec![control(&[]), uni(stream::ENCODER, bytes)];
        all.extend(rows(section, Outcome::Connection(ENCODER_STREAM), [(what, writes)]));
    }
    for (section, what, bytes) in [
        ("RFC 9204 §4.4.1", "an acknowledged section", &b"\x80"[..]),
        ("RFC 9204 §4.4.3", "no insertions", b"\0"),
        ("RFC 9204 §4.4.3", "an insertion that never was", b"\x01"),
        ("RFC 9204 §4.4.3", "the same behind what is right", b"\x40\x44\x01"),
    ] {
        let writes = vec![control(&[]), uni(stream::DECODER, bytes)];
        all.extend(rows(section, Outcome::Connection(DECODER_STREAM), [(what, writes)]));
    }
    all
}

pub(crate) fn ignored() -> Vec<Row> {
    let mut all = Vec::new();
    for kind in GREASE {
        let noise = || frame(kind, b"of no meaning");
        let frames = [noise(), head(), noise(), data(b"x"), noise(), section(&[("x", "y")])];
        let bare = Write { on: super::Direction::Uni, bytes: Vec::new(), end: End::Fin };
        all.extend(rows(
            "§6.2.3, §7.2.4.1, §7.2.8, §9",
            Outcome::Status(405),
            [
                ("frames", vec![request(&[&frames[..], &[noise()]].concat())]),
                ("frames of control", vec![control(&[noise(), noise()]), request(&[head()])]),
                ("streams", vec![uni(kind, b"x"), uni(kind, b""), request(&[head()])]),
                ("streams that end", vec![uni(kind, b"x").left(End::Fin), request(&[head()])]),
                ("no type", vec![bare, request(&[head()])]),
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
        "§4.1.1",
        Outcome::Nothing,
        [
            ("a request that is taken back", reset(&[head()])),
            ("one taken back within a frame", reset(&[vec![1, 9]])),
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
