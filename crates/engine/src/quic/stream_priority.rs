//! The order in which QUIC sends the data of several streams (RFC 9218 §10).
//!
//! The streams of requests hand their output over in this order, too. But a packet may be lost
//! later, and then its data has to overtake what was handed over since: otherwise the end of a
//! small response would wait until a large one that is less urgent has been sent.

use pinion_http::priority::Priority;

/// Bits of the number of a stream that take part in the order. A connection with more requests than
/// that sends a few of them in another order.
const NUMBER_BITS: u32 = 27;

/// Returns the priority for quinn-proto of a request stream, by the number of the stream and the
/// priority of its response. Higher is sent first; streams of equal priority take turns, packet by
/// packet. All are below 0, the priority of the streams that control the connection.
pub(crate) fn stream_priority(number: u32, priority: Priority) -> i32 {
    let number_mask = (1 << NUMBER_BITS) - 1;
    let order = if priority.incremental { 0 } else { number & number_mask };
    let rank = u32::from(priority.urgency.min(7)) << (NUMBER_BITS + 1)
        | u32::from(priority.incremental) << NUMBER_BITS
        | order;
    // A rank has 31 bits, so it is never the lowest number.
    -1 - rank.cast_signed()
}

#[cfg(test)]
mod tests {
    use quinn_proto::Dir;

    use super::super::congestion::CongestionControl;
    use super::super::tests::client_server_pair::Path;
    use super::*;

    const fn priority(urgency: u8, incremental: bool) -> Priority {
        Priority { urgency, incremental }
    }

    #[test]
    fn the_order_is_urgency_then_whole_responses_then_requests() {
        let ordered = [
            stream_priority(1, priority(0, false)),
            stream_priority(u32::MAX, priority(0, false)),
            stream_priority(0, priority(0, true)),
            stream_priority(0, priority(3, false)),
            stream_priority(1, priority(3, false)),
            stream_priority(0, priority(3, true)),
            stream_priority(0, priority(7, false)),
            stream_priority(0, priority(7, true)),
        ];
        assert!(ordered.is_sorted_by(|before, after| before > after), "{ordered:?}");
        assert!(ordered[0] < 0, "control streams go first");
        assert_eq!(stream_priority(1, priority(3, true)), stream_priority(9, priority(3, true)));
    }

    /// RFC 9218 §10: whichever packets are lost, a response is not kept waiting by another that is
    /// to be sent later. Without that, the whole second response would come before the end of the
    /// first.
    #[test]
    fn lost_data_overtakes_responses_that_come_later() {
        const FIRST_BYTES: usize = 60_000;
        const SECOND_BYTES: usize = 2 << 20;
        let losses = (0..60).step_by(6);
        let cases = [priority(3, false), priority(5, true)]
            .into_iter()
            .flat_map(|later| losses.clone().map(move |lost| (later, lost)));
        for (later, first_lost) in cases {
            let mut path = Path::new(CongestionControl::Cubic);
            path.settle(Path::read);
            path.lost = path.sent + first_lost..path.sent + first_lost + 3;
            let first = path.server().streams().open(Dir::Uni).expect("a stream");
            let second = path.server().streams().open(Dir::Uni).expect("a stream");
            let streams = [(first, priority(3, false)), (second, later)];
            for (number, (stream, priority)) in (0..).zip(streams) {
                let mut sender = path.server().send_stream(stream);
                sender.set_priority(stream_priority(number, priority)).expect("open");
            }
            let mut left = [(first, FIRST_BYTES), (second, SECOND_BYTES)];
            let mut came_before = 0;
            path.settle(|path| {
                for (stream, left) in left.iter_mut().filter(|(_, left)| *left > 0) {
                    let mut sender = path.server().send_stream(*stream);
                    *left -= sender.write(&vec![b'x'; *left]).unwrap_or(0);
                    if *left == 0 {
                        sender.finish().expect("open");
                    }
                }
                path.read();
                let received = |stream| path.received.get(&stream).copied().unwrap_or_default();
                if !received(first).1 {
                    came_before = received(second).0;
                }
            });
            assert_eq!(path.received[&first], (FIRST_BYTES, true));
            assert_eq!(path.received[&second], (SECOND_BYTES, true));
            // As much as may be on its way while a loss is noticed and mended.
            assert!(came_before < SECOND_BYTES / 4, "{first_lost}: {came_before}");
        }
    }
}
