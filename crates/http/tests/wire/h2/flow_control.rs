//! Flow control (RFC 9113 §5.2, §6.9).

use std::collections::BTreeMap;

use pinion_http::h2::session::SessionSettings;
use proptest::prelude::*;

use super::raw_client::*;

/// The initial size of every window (RFC 9113 §6.9.2).
const FIRST: i64 = 65_535;
/// The maximum size of a stream window.
const MOST: i64 = 2 << 20;

/// RFC 9113 §6.9.1: "The sender MUST NOT send a flow-controlled frame with a length that exceeds
/// the space available in either of the flow-control windows".
#[test]
fn sendable_bytes_are_limited_by_the_smallest_window() {
    let mut peer = Peer::open();
    peer.send(&[settings(&[(4, 20_000)]), get(1), get(3), get(5), get(7)].concat());
    for stream in [1, 3, 5, 7] {
        peer.begin(stream);
    }
    assert_eq!((peer.content(1), peer.content(1), peer.content(1)), (16_384, 3616, 0));
    assert_eq!(peer.session.room(3), 16_384);
    assert_eq!(peer.content(3) + peer.content(3) + peer.content(5) + peer.content(5), 40_000);
    // Of these, 65535 are those of the connection (§6.9.2).
    assert_eq!((peer.content(7), peer.session.room(7)), (5535, 0));
    assert_eq!(peer.session.next_ready(), None);
    assert_eq!(peer.send(&window_update(0, 10)), ["opened"]);
    assert_eq!((peer.session.next_ready(), peer.session.room(7)), (Some(7), 10));
    assert!(peer.send(&window_update(0, 10)).is_empty());
    assert_eq!(peer.send(&window_update(1, 5)), ["opened"]);
    assert_eq!(peer.session.room(1), 5);
    // The frames are larger after the client has allowed it.
    peer.send(
        &[settings(&[(5, 40_000)]), window_update(0, 1 << 20), window_update(3, 1 << 20)].concat(),
    );
    assert_eq!(peer.session.room(3), 40_000);
    // A stream that is not open for content has no window.
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
fn changes_of_the_initial_window_apply_to_open_streams() {
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
    // In one frame only the last value counts, and it applies to a new stream.
    assert!(peer.send(&settings(&[(4, 0), (4, 9_999)])).is_empty());
    assert_eq!((peer.session.room(1), peer.session.room(3)), (0, 9_999));
    assert_eq!(peer.send(&settings(&[(4, 10_001)])), ["opened"]);
    peer.send(&get(5));
    peer.begin(5);
    assert_eq!((peer.session.room(1), peer.session.room(5)), (2, 10_001));
    peer.send(&window_update(3, (1 << 31) - 1 - 10_001));
    assert_eq!(peer.send(&settings(&[(4, 10_002)])), ["fatal FlowControlError"]);
}

/// RFC 9113 §6.9.1: more content than a window allows, including padding.
#[test]
fn content_beyond_a_window_is_an_error() {
    let mut peer = Peer::open();
    peer.consumes = false;
    peer.send(&[post(1), post(3)].concat());
    for stream in [1, 3] {
        for _ in 0..3 {
            assert_eq!(peer.send(&data(stream, 0, &[0; 16_384])).len(), 1);
        }
    }
    assert_eq!(peer.send(&data(1, 0, &[0; 16_383])).len(), 1);
    assert_eq!(peer.send(&data(1, 0, b"y")), ["reset 1 FlowControlError by us"]);
    let padded = [&[255][..], &[b'x'; 16_128], &[0; 255]].concat();
    assert_eq!(peer.send(&data(3, PADDED, &padded)), ["reset 3 FlowControlError by us"]);
}

/// Unread content closes the window of its stream, and never that of the connection.
#[test]
fn unread_streams_do_not_close_the_connection_window() {
    let mut peer = Peer::open();
    peer.consumes = false;
    let (mut used, mut returned) = (0, 0);
    for stream in (1..256).step_by(2) {
        peer.send(&post(stream));
        for bytes in [16_384, 16_384, 16_384, 16_383] {
            used += bytes as i64;
            for frame in peer.ask(&data(stream, 0, &vec![0; bytes])) {
                if let Some(bytes) = frame.strip_prefix("WINDOW_UPDATE 0 ") {
                    returned += bytes.parse::<i64>().unwrap();
                }
                assert!(!frame.starts_with("WINDOW_UPDATE") || frame.contains(" 0 "), "{frame}");
            }
            assert!(used - returned <= 4 << 20, "{used} came, {returned} were returned");
        }
    }
}

/// Consumed content opens the window again, in few frames.
#[test]
fn consumed_content_opens_the_window() {
    let mut peer = Peer::open();
    peer.consumes = false;
    let fields = [&POST[..], &[("content-length", "150000")]].concat();
    peer.send(&headers(1, 0, &fields));
    let content = || data(1, 0, &[0; 15_000]);
    assert_eq!(peer.ask(&content()), ["PING windows."]);
    assert!(peer.ask(&content()).is_empty());
    assert!(peer.ask(&content()).is_empty());
    peer.session.consumed(1, 15_000, &mut peer.out);
    assert!(peer.sent().is_empty(), "less than a quarter of the window");
    peer.session.consumed(1, 30_000, &mut peer.out);
    assert_eq!(peer.sent(), ["WINDOW_UPDATE 1 45000"]);
    for _ in 3..6 {
        assert!(peer.ask(&content()).is_empty());
    }
    peer.session.consumed(1, 45_000, &mut peer.out);
    assert_eq!(peer.sent(), ["WINDOW_UPDATE 1 45000"]);
    // The remaining 30 000 bytes still fit into the window.
    assert!(peer.ask(&[content(), content()].concat()).is_empty());
    peer.session.consumed(1, 30_000, &mut peer.out);
    assert!(peer.sent().is_empty());
    assert!(peer.ask(&content()).is_empty());
    peer.session.consumed(1, 15_000, &mut peer.out);
    assert!(peer.sent().is_empty(), "all that is announced may come");
    assert!(peer.ask(&data(1, END_STREAM, &[0; 15_000])).is_empty());
    peer.session.consumed(1, 15_000, &mut peer.out);
    assert!(peer.sent().is_empty(), "nothing comes any more");
}

/// An upload of little more than a frame is not worth a PING.
#[test]
fn small_uploads_cause_no_round_trip_measurement() {
    let mut peer = Peer::open();
    peer.send(&headers(1, 0, &[&POST[..], &[("content-length", "16384")]].concat()));
    assert!(peer.ask(&data(1, 0, &[0; 10_000])).is_empty());
    assert!(peer.ask(&data(1, END_STREAM, &[0; 6384])).is_empty());
}

/// Sends content for as long as the windows allow, and returns its length.
fn send_window(peer: &mut Peer, account: &mut Account) -> i64 {
    let mut bytes = 0;
    let mut left = account.granted - account.used;
    while left > 0 {
        let now = left.min(16_384);
        peer.send(&data(1, 0, &vec![0; now as usize]));
        account.used += now;
        (bytes, left) = (bytes + now, left - now);
    }
    for frame in frames(&std::mem::take(&mut peer.out)) {
        if (frame.kind, frame.stream) == (WINDOW_UPDATE, 1) {
            account.granted += i64::from(frame.number(0));
        }
    }
    bytes
}

/// The window grows, up to the limit, for a client that sends a whole window in each round trip,
/// and is the default when memory is short. The window of a slower client does not grow.
#[test]
fn a_window_grows_to_the_bytes_of_a_round_trip() {
    let mut peer = Peer::open();
    let ack = frame(PING, ACK, 0, b"windows.");
    assert!(peer.ask(&ack).is_empty(), "nothing is measured");
    peer.send(&post(1));
    let mut account = Account { granted: FIRST, used: 0 };
    let mut trips = Vec::new();
    for _ in 0..12 {
        trips.push(send_window(&mut peer, &mut account));
        peer.send(&ack);
    }
    assert_eq!(trips[0], FIRST);
    assert!(trips[6..].iter().all(|bytes| (MOST / 2..=MOST).contains(bytes)), "{trips:?}");
    peer.session.shrink_windows();
    let after = [(); 4].map(|()| send_window(&mut peer, &mut account));
    assert!(after[3] <= FIRST, "{after:?}");
    // Small parts in each round trip.
    let mut peer = Peer::open();
    peer.send(&post(1));
    let mut account = Account { granted: FIRST, used: 0 };
    for _ in 0..2000 {
        peer.send(&[data(1, 0, &[0; 1000]), ack.clone()].concat());
        account.used += 1000;
        for frame in frames(&std::mem::take(&mut peer.out)) {
            if (frame.kind, frame.stream) == (WINDOW_UPDATE, 1) {
                account.granted += i64::from(frame.number(0));
            }
        }
        assert!(account.granted - account.used <= FIRST);
    }
}

/// Returns the round trips in which a client sends `upload` bytes, as many in each as its
/// congestion window allows, which begins with `first` and doubles. With `peer` it also keeps to
/// the windows of that peer.
fn trips(upload: i64, first: i64, frame_bytes: i64, mut peer: Option<&mut Peer>) -> u32 {
    let (mut account, mut congestion, mut trips) = (Account { granted: FIRST, used: 0 }, first, 0);
    let mut is_measured = false;
    while account.used < upload {
        trips += 1;
        if std::mem::take(&mut is_measured) {
            let peer = peer.as_mut().expect("it has sent a PING");
            peer.send(&frame(PING, ACK, 0, b"windows."));
        }
        let credit = if peer.is_some() { account.granted - account.used } else { MOST };
        let bytes = credit.min(congestion);
        congestion *= if bytes == congestion { 2 } else { 1 };
        account.used += bytes;
        let Some(peer) = &mut peer else { continue };
        for at in (0..bytes).step_by(frame_bytes as usize) {
            peer.send(&data(1, 0, &vec![0; (bytes - at).min(frame_bytes) as usize]));
        }
        for frame in frames(&std::mem::take(&mut peer.out)) {
            match (frame.kind, frame.stream) {
                (WINDOW_UPDATE, 1) => account.granted += i64::from(frame.number(0)),
                (PING, _) => is_measured = true,
                _ => {}
            }
        }
    }
    trips
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    /// Whatever the initial window of TCP is (ten segments by RFC 6928), and wherever within a
    /// burst the measurement of a round trip begins: a few round trips later the window does not
    /// limit a client that sends all it may in each.
    #[test]
    fn bursts_open_the_window(first in 10_000..200_000i64, frame_bytes in 1_000..=16_384i64) {
        const UPLOAD: i64 = 16 << 20;
        let mut peer = Peer::open();
        peer.send(&post(1));
        let ideal = trips(UPLOAD, first, frame_bytes, None);
        let needed = trips(UPLOAD, first, frame_bytes, Some(&mut peer));
        prop_assert!(needed <= ideal + 12, "{} instead of {}", needed, ideal);
    }
}

/// The reference data for one direction of a stream.
#[derive(Default)]
struct Account {
    granted: i64,
    used: i64,
}

#[derive(Clone, Debug)]
enum Act {
    /// The client sends as much as allowed, up to this much, with padding.
    Upload {
        stream: usize,
        bytes: usize,
        padding: u8,
    },
    /// The application consumes some of the received content.
    Consume {
        stream: usize,
        bytes: i64,
    },
    /// The client acknowledges the PING of a round trip.
    RoundTrip,
    /// Memory is short.
    Shrink,
    /// The server sends as much as the windows allow.
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
        3 => (stream.clone(), 0..100_000i64)
            .prop_map(|(stream, bytes)| Act::Consume { stream, bytes }),
        1 => Just(Act::RoundTrip),
        1 => Just(Act::Shrink),
        3 => Just(Act::Download),
        2 => (proptest::option::of(stream.clone()), 1..50_000u32)
            .prop_map(|(stream, bytes)| Act::Grant { stream, bytes }),
        1 => (0..100_000u32).prop_map(Act::FirstWindow),
        1 => (stream, any::<bool>()).prop_map(|(stream, by_peer)| Act::Reset { stream, by_peer }),
    ]
}

/// A client that keeps to the rules, and the windows that both sides must know.
struct Model {
    peer: Peer,
    ids: [u32; 4],
    next_id: u32,
    first_window: i64,
    up: BTreeMap<u32, Account>,
    down: BTreeMap<u32, Account>,
    /// Received bytes that were not consumed.
    unread: BTreeMap<u32, i64>,
    /// The current maximum of a stream window.
    window: i64,
}

impl Model {
    fn new() -> Model {
        let settings =
            SessionSettings { connection_window_bytes: 100_000, ..SessionSettings::default() };
        let mut peer = Peer::open_with(&settings);
        peer.consumes = false;
        let mut model = Model {
            peer,
            ids: [0; 4],
            next_id: 1,
            first_window: 65_535,
            up: BTreeMap::from([(0, Account { granted: 100_000, used: 0 })]),
            down: BTreeMap::from([(0, Account { granted: 65_535, used: 0 })]),
            unread: BTreeMap::new(),
            window: FIRST,
        };
        (0..4).for_each(|place| model.renew(place));
        model
    }

    /// Replaces a stream by a new one.
    fn renew(&mut self, place: usize) {
        let id = self.next_id;
        self.next_id += 2;
        self.ids[place] = id;
        assert_eq!(self.peer.send(&post(id)), [format!("head {id} POST /")]);
        self.peer.begin(id);
        self.up.insert(id, Account { granted: FIRST, used: 0 });
        self.down.insert(id, Account { granted: self.first_window, used: 0 });
        self.unread.insert(id, 0);
    }

    fn run(&mut self, act: &Act) {
        match *act {
            Act::Upload { stream, bytes, padding } => self.upload(self.ids[stream], bytes, padding),
            Act::Consume { stream, bytes } => {
                let id = self.ids[stream];
                let unread = self.unread.get_mut(&id).unwrap();
                let bytes = bytes.min(*unread);
                *unread -= bytes;
                self.peer.session.consumed(id, bytes as usize, &mut self.peer.out);
            }
            Act::RoundTrip => {
                self.window = (4 * self.window).min(MOST);
                self.peer.send(&frame(PING, ACK, 0, b"windows."));
            }
            Act::Shrink => self.peer.session.shrink_windows(),
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
        *self.unread.get_mut(&id).unwrap() += bytes as i64;
        for id in [0, id] {
            self.up.get_mut(&id).unwrap().used += payload.len() as i64;
        }
    }

    /// Adds the written frames to the accounts, and checks the laws.
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
        // Nothing is stuck: the connection is open whatever is read, and so is a stream of which
        // everything was read. Received and allowed bytes are bounded.
        let left = |account: &Account| account.granted - account.used;
        assert!(left(&self.up[&0]) >= 75_000, "the connection's window is lost");
        for id in self.ids {
            let (may_come, unread) = (left(&self.up[&id]), self.unread[&id]);
            assert!(unread > 0 || may_come >= FIRST / 2, "stream {id} is stuck");
            assert!(may_come + unread <= self.window, "too much is granted");
            // The server sends when it may.
            let room = left(&self.down[&0]).min(left(&self.down[&id])).clamp(0, 16_384);
            assert_eq!(self.peer.session.room(id) as i64, room);
        }
    }
}

proptest! {
    #[test]
    fn windows_match_a_simple_model(acts in proptest::collection::vec(act(), 0..60)) {
        let mut model = Model::new();
        for act in &acts {
            model.run(act);
        }
    }
}
