//! Flow control (RFC 9113 §5.2, §6.9).

use std::collections::BTreeMap;

use pinion_http::h2::session::Settings;
use proptest::prelude::*;

use super::peer::*;

fn windows(stream: u32, connection: u32) -> Settings {
    Settings {
        stream_window_bytes: stream,
        stream_window_max_bytes: 50_000,
        connection_window_bytes: connection,
        ..Settings::default()
    }
}

/// RFC 9113 §6.9.1: "The sender MUST NOT send a flow-controlled frame with a length that exceeds
/// the space available in either of the flow-control windows".
#[test]
fn room_is_the_smallest_window() {
    let mut peer = Peer::open();
    peer.send(&[settings(&[(4, 20_000)]), get(1), get(3), get(5), get(7)].concat());
    for stream in [1, 3, 5, 7] {
        peer.begin(stream);
    }
    assert_eq!((peer.content(1), peer.content(1), peer.content(1)), (16_384, 3616, 0));
    assert_eq!(peer.session.room(3), 16_384);
    assert_eq!(peer.content(3) + peer.content(3) + peer.content(5) + peer.content(5), 40_000);
    // 65535 are those of the connection (§6.9.2).
    assert_eq!((peer.content(7), peer.session.room(7)), (5535, 0));
    assert_eq!(peer.session.next_ready(), None);
    assert_eq!(peer.send(&window_update(0, 10)), ["opened"]);
    assert_eq!((peer.session.next_ready(), peer.session.room(7)), (Some(7), 10));
    assert!(peer.send(&window_update(0, 10)).is_empty());
    assert_eq!(peer.send(&window_update(1, 5)), ["opened"]);
    assert_eq!(peer.session.room(1), 5);
    // Larger frames, when the client says so.
    peer.send(
        &[settings(&[(5, 40_000)]), window_update(0, 1 << 20), window_update(3, 1 << 20)].concat(),
    );
    assert_eq!(peer.session.room(3), 40_000);
    // None for a stream that is not open for content.
    assert_eq!(peer.session.room(9), 0);
    assert!(peer.session.data(3, 0, true, &mut peer.out));
    assert_eq!(peer.session.room(3), 0);
    assert!(!peer.session.data(3, 0, true, &mut peer.out));
}

/// RFC 9113 §6.9.1: "A sender MUST NOT allow a flow-control window to exceed 2^31-1 octets."
/// §6.9: "A receiver MUST treat the receipt of a WINDOW_UPDATE frame with a flow-control window
/// increment of 0 as a stream error (Section 5.4.2) of type PROTOCOL_ERROR; errors on the
/// connection flow-control window MUST be treated as a connection error".
#[test]
fn wrong_increments() {
    let most = (1 << 31) - 1 - 65_535;
    let mut peer = Peer::open();
    peer.send(&[get(1), get(3), get(5)].concat());
    assert!(peer.send(&[window_update(1, most), window_update(0, most)].concat()).is_empty());
    assert_eq!(peer.send(&window_update(1, 1)), ["reset 1 FlowControlError by us"]);
    assert_eq!(peer.send(&window_update(3, 0)), ["reset 3 ProtocolError by us"]);
    assert_eq!(peer.sent(), ["RST_STREAM 1 FLOW_CONTROL_ERROR", "RST_STREAM 3 PROTOCOL_ERROR"]);
    assert_eq!(peer.send(&window_update(0, 1)), ["fatal FlowControlError"]);
    assert_eq!(Peer::open().send(&window_update(0, 0)), ["fatal ProtocolError"]);
}

/// RFC 9113 §6.9.2: "When the value of SETTINGS_INITIAL_WINDOW_SIZE changes, a receiver MUST adjust
/// the size of all stream flow-control windows [...] a sender MUST track the negative flow-control
/// window"; an overflow is a connection error of type FLOW_CONTROL_ERROR.
#[test]
fn first_window_changes() {
    let mut peer = Peer::open();
    peer.send(&[get(1), get(3)].concat());
    peer.begin(1);
    peer.begin(3);
    assert_eq!(peer.content(1), 16_384);
    assert!(peer.send(&settings(&[(4, 10_000)])).is_empty());
    assert_eq!((peer.session.room(1), peer.session.room(3)), (0, 10_000));
    assert!(peer.send(&window_update(1, 6384)).is_empty());
    assert_eq!(peer.session.room(1), 0);
    assert_eq!(peer.send(&window_update(1, 1)), ["opened"]);
    assert_eq!(peer.session.room(1), 1);
    // In one frame only what stands last counts, and a new stream begins with it.
    assert!(peer.send(&settings(&[(4, 0), (4, 9_999)])).is_empty());
    assert_eq!((peer.session.room(1), peer.session.room(3)), (0, 9_999));
    assert_eq!(peer.send(&settings(&[(4, 10_001)])), ["opened"]);
    peer.send(&get(5));
    peer.begin(5);
    assert_eq!((peer.session.room(1), peer.session.room(5)), (2, 10_001));
    peer.send(&window_update(3, (1 << 31) - 1 - 10_001));
    assert_eq!(peer.send(&settings(&[(4, 10_002)])), ["fatal FlowControlError"]);
}

/// RFC 9113 §6.9.1: more content than a window has, padding counted.
#[test]
fn content_beyond_a_window() {
    let mut peer = Peer::open_with(&windows(1000, 0));
    peer.send(&[post(1), post(3)].concat());
    assert_eq!(peer.send(&data(1, 0, &[b'x'; 1000])), ["data 1 (1000 bytes)"]);
    assert_eq!(peer.send(&data(1, 0, b"y")), ["reset 1 FlowControlError by us"]);
    let padded = [&[255][..], &[b'x'; 745], &[0; 255]].concat();
    assert_eq!(peer.send(&data(3, PADDED, &padded)), ["reset 3 FlowControlError by us"]);
    let mut peer = Peer::open_with(&windows(60_000, 0));
    peer.consumes = false;
    peer.send(&[post(1), post(3)].concat());
    let mut sent = 0;
    for stream in [1, 3, 1] {
        assert_eq!(peer.send(&data(stream, 0, &[0; 16_384])).len(), 1);
        sent += 16_384;
    }
    assert_eq!(peer.send(&data(3, 0, &vec![0; 65_535 - sent])).len(), 1);
    assert!(peer.out.is_empty());
    assert_eq!(peer.send(&data(3, 0, b"x")), ["fatal FlowControlError"]);
}

/// Until the client has read our settings it has the windows that everybody begins with, and when
/// it has, all move (RFC 9113 §6.9.2).
#[test]
fn before_our_settings_are_taken_up() {
    for (ours, then) in [(1000, 1000 - 65_535 + 40_000), (100_000, 100_000 - 40_000)] {
        let mut peer = Peer::new(&windows(ours, 200_000));
        peer.send(&[PREFACE, &settings(&[]), &post(1)].concat());
        for _ in 0..4 {
            assert_eq!(peer.send(&data(1, 0, &[0; 10_000])), ["data 1 (10000 bytes)"]);
        }
        peer.sent();
        peer.send(&[frame(SETTINGS, ACK, 0, b""), post(3)].concat());
        let mut left: i32 = then;
        while left > 0 {
            let now = left.min(16_384);
            assert_eq!(peer.send(&data(1, 0, &vec![0; now as usize])).len(), 1);
            left -= now;
        }
        assert_eq!(peer.send(&data(1, 0, b"x")), ["reset 1 FlowControlError by us"]);
        assert_eq!(peer.send(&data(3, 0, &[0; 1000])), ["data 3 (1000 bytes)"]);
    }
}

/// What was wanted before that may come nevertheless.
#[test]
fn wanted_before_our_settings_are_taken_up() {
    let mut peer = Peer::new(&windows(1000, 200_000));
    peer.send(&[PREFACE, &settings(&[]), &post(1)].concat());
    peer.sent();
    peer.session.want(1, 50_000, &mut peer.out);
    assert!(peer.sent().is_empty());
    assert_eq!(peer.ask(&frame(SETTINGS, ACK, 0, b"")), ["WINDOW_UPDATE 1 49000"]);
}

/// More content comes only against `want`, in few grants, and never more than the limit at once.
#[test]
fn wanted_content() {
    let mut peer = Peer::open_with(&windows(1000, 1 << 20));
    peer.send(&post(1));
    peer.session.want(1, 1500, &mut peer.out);
    assert!(peer.sent().is_empty(), "most of it may come already");
    peer.send(&data(1, 0, &[0; 700]));
    // 800 are wanted, 300 may come.
    assert_eq!(peer.sent(), ["WINDOW_UPDATE 1 500"]);
    assert!(peer.ask(&data(1, 0, &[0; 800])).is_empty());
    peer.session.want(1, 1 << 40, &mut peer.out);
    assert_eq!(peer.sent(), ["WINDOW_UPDATE 1 50000"]);
    assert!(peer.ask(&data(1, 0, &[0; 16_000])).is_empty());
    assert_eq!(peer.ask(&data(1, 0, &[0; 9_000])), ["WINDOW_UPDATE 1 25000"]);
    // The end needs no window, and nothing is granted behind it.
    assert!(peer.ask(&data(1, 0, &[0; 16_000])).is_empty());
    assert!(peer.ask(&data(1, END_STREAM, &[0; 16_000])).is_empty());
    peer.session.want(1, 1 << 40, &mut peer.out);
    assert!(peer.sent().is_empty());
}

/// What a reference knows of one direction of a stream.
#[derive(Default)]
struct Account {
    granted: i64,
    used: i64,
}

#[derive(Clone, Debug)]
enum Act {
    /// The client sends as much as it may, up to so much, with padding.
    Upload {
        stream: usize,
        bytes: usize,
        padding: u8,
    },
    Want {
        stream: usize,
        bytes: u64,
    },
    /// The server sends what there is room for.
    Download,
    Grant {
        stream: Option<usize>,
        bytes: u32,
    },
    FirstWindow(u32),
    Reset {
        stream: usize,
        by_peer: bool,
    },
}

fn act() -> impl Strategy<Value = Act> {
    let stream = 0..4usize;
    prop_oneof![
        3 => (stream.clone(), 0..20_000usize, any::<u8>())
            .prop_map(|(stream, bytes, padding)| Act::Upload { stream, bytes, padding }),
        2 => (stream.clone(), 0..200_000u64)
            .prop_map(|(stream, bytes)| Act::Want { stream, bytes }),
        3 => Just(Act::Download),
        2 => (proptest::option::of(stream.clone()), 1..50_000u32)
            .prop_map(|(stream, bytes)| Act::Grant { stream, bytes }),
        1 => (0..100_000u32).prop_map(Act::FirstWindow),
        1 => (stream, any::<bool>()).prop_map(|(stream, by_peer)| Act::Reset { stream, by_peer }),
    ]
}

/// A client that keeps to the rules, and the windows as both sides must know them.
struct Model {
    peer: Peer,
    ids: [u32; 4],
    next_id: u32,
    first_window: i64,
    up: BTreeMap<u32, Account>,
    down: BTreeMap<u32, Account>,
    wanted: BTreeMap<u32, u64>,
}

const UP_FIRST: u32 = 7000;

impl Model {
    fn new() -> Model {
        let mut model = Model {
            peer: Peer::open_with(&windows(UP_FIRST, 100_000)),
            ids: [0; 4],
            next_id: 1,
            first_window: 65_535,
            up: BTreeMap::from([(0, Account { granted: 100_000, used: 0 })]),
            down: BTreeMap::from([(0, Account { granted: 65_535, used: 0 })]),
            wanted: BTreeMap::new(),
        };
        (0..4).for_each(|place| model.renew(place));
        model
    }

    /// Another stream in this place.
    fn renew(&mut self, place: usize) {
        let id = self.next_id;
        self.next_id += 2;
        self.ids[place] = id;
        assert_eq!(self.peer.send(&post(id)), [format!("head {id} POST /")]);
        self.peer.begin(id);
        self.up.insert(id, Account { granted: i64::from(UP_FIRST), used: 0 });
        self.down.insert(id, Account { granted: self.first_window, used: 0 });
        self.wanted.insert(id, 0);
    }

    fn run(&mut self, act: &Act) {
        match *act {
            Act::Upload { stream, bytes, padding } => self.upload(self.ids[stream], bytes, padding),
            Act::Want { stream, bytes } => {
                self.wanted.insert(self.ids[stream], bytes);
                self.peer.session.want(self.ids[stream], bytes, &mut self.peer.out);
            }
            Act::Download => {
                if let Some(id) = self.peer.session.next_ready() {
                    assert!(self.peer.content(id) > 0, "ready without room");
                }
            }
            Act::Grant { stream, bytes } => {
                let id = stream.map_or(0, |stream| self.ids[stream]);
                self.down.entry(id).or_default().granted += i64::from(bytes);
                self.peer.send(&window_update(id, bytes));
            }
            Act::FirstWindow(bytes) => {
                let change = i64::from(bytes) - self.first_window;
                self.first_window = i64::from(bytes);
                self.ids.iter().for_each(|id| self.down.get_mut(id).unwrap().granted += change);
                self.peer.send(&settings(&[(4, bytes)]));
            }
            Act::Reset { stream, by_peer: true } => {
                self.peer.send(&reset(self.ids[stream], 8));
                self.renew(stream);
            }
            Act::Reset { stream, by_peer: false } => {
                let code = pinion_http::h2::frame::ErrorCode::Cancel;
                self.peer.session.reset(self.ids[stream], code, &mut self.peer.out);
                self.renew(stream);
            }
        }
        self.read();
    }

    fn upload(&mut self, id: u32, bytes: usize, padding: u8) {
        let left = |account: &Account| account.granted - account.used;
        let room = left(&self.up[&0]).min(left(&self.up[&id])).min(16_384);
        let overhead = 1 + i64::from(padding);
        if room < overhead {
            return;
        }
        let bytes = bytes.min((room - overhead) as usize);
        let payload = [&[padding][..], &vec![b'x'; bytes], &vec![0; usize::from(padding)]].concat();
        let seen = self.peer.send(&data(id, PADDED, &payload));
        assert_eq!(seen.len(), usize::from(bytes > 0), "{seen:?}");
        let wanted = self.wanted.get_mut(&id).unwrap();
        *wanted = wanted.saturating_sub(bytes as u64);
        for id in [0, id] {
            self.up.get_mut(&id).unwrap().used += payload.len() as i64;
        }
    }

    /// Reads what was written into the accounts, and holds them against the laws.
    fn read(&mut self) {
        let out = std::mem::take(&mut self.peer.out);
        for frame in frames(&out) {
            match frame.kind {
                DATA => {
                    for id in [0, frame.stream] {
                        let account = self.down.get_mut(&id).unwrap();
                        account.used += frame.payload.len() as i64;
                        assert!(account.used <= account.granted, "beyond the window of {id}");
                    }
                }
                WINDOW_UPDATE => {
                    self.up.get_mut(&frame.stream).unwrap().granted += i64::from(frame.number(0));
                }
                _ => {}
            }
        }
        // Nothing is stuck: what was consumed comes back, and what is wanted may come.
        let left = |account: &Account| account.granted - account.used;
        assert!(left(&self.up[&0]) >= 75_000, "the connection's window is lost");
        for id in self.ids {
            let wanted = self.wanted[&id].min(50_000) as i64;
            assert!(left(&self.up[&id]) >= wanted / 2, "stream {id} is stuck");
            assert!(wanted == 0 || left(&self.up[&id]) > 0, "stream {id} is stuck");
            assert!(left(&self.up[&id]) <= wanted.max(50_000), "too much is granted");
            // And who may send does.
            let room = left(&self.down[&0]).min(left(&self.down[&id])).clamp(0, 16_384);
            assert_eq!(self.peer.session.room(id) as i64, room);
        }
    }
}

proptest! {
    #[test]
    fn windows_are_those_of_a_plain_account(acts in proptest::collection::vec(act(), 0..60)) {
        let mut model = Model::new();
        for act in &acts {
            model.run(act);
        }
    }
}
