//! First datagrams of clients that are never heard of again, as from forged addresses.

use super::{End, Leave};
use crate::client::byte_stream::Peer;
use crate::client::quic::first_datagram;
use std::net::{Ipv4Addr, UdpSocket};

/// Newcomers of one round. All together are more than the server has places for.
const NEWCOMERS: u32 = 100;

/// Many newcomers, each from a port of its own as long as it is new.
pub(super) fn attack(peer: &Peer, leave: Leave) -> End {
    let mut sent_bytes = 0;
    for _ in 0..NEWCOMERS {
        let datagram = first_datagram(peer);
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
        socket.send_to(&datagram, peer.address()).expect("a datagram leaves");
        sent_bytes += datagram.len() as u64;
        if leave.is_now(sent_bytes, 0) {
            break;
        }
    }
    End::Left
}
