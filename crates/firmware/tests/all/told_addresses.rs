//! Where a peer is asked on another link, by the addresses that it tells (`PATH-2`).

use crate::common::forge::*;
use emp_firmware::*;
use emp_wire::{Flags, HELLO_BODY_BYTES_MAX, Hello, Kind, LinkAddress};

fn udp(address: &str) -> LinkAddress {
    LinkAddress::udp(address.parse().unwrap())
}

/// Addresses of a node on four links: one of IPv4, one that means the same everywhere, and two that are valid on their cables only, as the
/// node numbers its interfaces.
fn addresses(end: u8, scopes: [u32; 2]) -> [LinkAddress; 4] {
    [
        udp("10.0.0.1:7"),
        udp(&format!("[fd77::{end}]:7")),
        udp(&format!("[fe80::{end}%{}]:7", scopes[0])),
        udp(&format!("[fe80::1{end}%{}]:7", scopes[1])),
    ]
}

/// A node on all four, of which long trains take any but the first.
fn on_four_links(own: &[LinkAddress; 4]) -> Real {
    let [first, other] = LinkCost::divided(5, 5);
    let mut links = [first, other, other, other]
        .map(|cost| LinkInfo { cost: Some(cost), ..LinkInfo::new(MTU, false) });
    for (link, info) in links.iter_mut().enumerate() {
        for (other, address) in own.iter().enumerate().filter(|(other, _)| *other != link) {
            assert!(info.set_beside(LinkIndex(other as u8), *address));
        }
    }
    Real::over(&Profile::DEFAULT, links.into())
}

fn reply(from: &Forged, nonce: u64, told: &[LinkAddress]) -> Vec<u8> {
    let mut body = [0; HELLO_BODY_BYTES_MAX];
    let hello = Hello::new(from.node, OWN, nonce, MTU as u16, "");
    let bytes = hello.with_addresses(told.iter().copied()).emit(&mut body);
    from.frame(Kind::HelloReply, Flags(0), 0, 0, &body[..bytes])
}

/// An address that means the same everywhere takes none of the places of those that are valid on one cable only.
#[test]
fn addresses_of_one_cable_are_told_in_their_own_order() {
    let (own, theirs) = (addresses(1, [2, 3]), addresses(2, [12, 13]));
    let mut real = on_four_links(&own);
    let peer = Forged::met(2, &mut real);
    real.send(&peer, 60_000);
    let mut asked = of_kind(&real.pass(Span::ms(3)), Kind::Hello);
    asked.retain(|said| said.to == peer.address());
    let mut nonces: Vec<u64> =
        asked.iter().map(|said| Hello::parse(&said.body).unwrap().nonce).collect();
    nonces.sort_unstable();
    nonces.dedup();
    assert_eq!(nonces.len(), 3, "one for each of the other links");
    let mut met = Vec::new();
    for nonce in nonces {
        real.hear(&peer, &reply(&peer, nonce, &theirs[1..]));
        let said = of_kind(&real.speak(), Kind::Hello);
        met.extend(said.iter().filter(|said| said.to != peer.address()).map(|said| said.to));
    }
    // On this node's links, as it numbers them.
    for place in [theirs[1], udp("[fe80::2%2]:7"), udp("[fe80::12%3]:7")] {
        assert!(met.contains(&place), "{place} is not asked: {met:?}");
    }
    assert_eq!(met.len(), 3, "{met:?}");
}
