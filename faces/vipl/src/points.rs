//! Who is who: handles, addresses of NICs, connection points, and the node that everyone can find.

use emp_face::handles::Kind;
use emp_face::machines::{Claim, Places, is_number};
use emp_face::whereabouts::Whereabouts;
use emp_host::NodeId;

use crate::abi::{NetAddress, Return};

pub const NIC: Kind = Kind::new(1);
pub const VI: Kind = Kind::new(2);
pub const CQ: Kind = Kind::new(3);
pub const PTAG: Kind = Kind::new(4);
pub const CONN: Kind = Kind::new(5);

/// Bytes of a NIC's address.
pub const HOST_BYTES: usize = 6;

/// Most bytes of a discriminator: more than the addresses and port numbers that programs make them of, and few enough for the
/// name of a socket.
pub const DISCRIMINATOR_MAX: usize = 64;

/// The node of a machine's NIC that everyone can find is the only place there. Its mark is an `I`.
const PLACES: Places = Places::new("vipl", 0x49, 0xf400);
const DOOR: u32 = 0;

/// The node of a NIC that everyone can find.
pub fn door_of(host: u64) -> NodeId {
    PLACES.node(host, DOOR)
}

/// The NIC of such a node; `None` if it is none.
pub fn host_of(node: NodeId) -> Option<u64> {
    PLACES.of(node).filter(|(host, place)| *place == DOOR && is_number(*host)).map(|(host, _)| host)
}

/// The port where such a node takes datagrams.
pub fn door_port() -> u16 {
    PLACES.port(DOOR)
}

/// Where such a node may be found.
pub fn door_at(host: u64) -> Whereabouts {
    PLACES.whereabouts(host, DOOR)
}

/// Makes this process the one that has such a node, unless another one of this machine has it.
pub fn claim_door(host: u64) -> Option<Claim> {
    PLACES.claim(host, DOOR).ok()
}

/// A connection point: `VIP_NET_ADDRESS`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Point {
    pub host: u64,
    pub discriminator: Vec<u8>,
}

impl Point {
    /// Reads one.
    ///
    /// # Errors
    ///
    /// It is null, or cannot be a connection point of such a NIC.
    ///
    /// # Safety
    ///
    /// Null, or an address with as many bytes as it says.
    pub unsafe fn read(address: *const NetAddress) -> Result<Self, Return> {
        if address.is_null() {
            return Err(Return::INVALID_PARAMETER);
        }
        // SAFETY: not null, so valid as the caller says.
        let (host_len, len) = unsafe { ((*address).host_len, (*address).discriminator_len) };
        let (host_len, len) = (usize::from(host_len), usize::from(len));
        if host_len != HOST_BYTES || len > DISCRIMINATOR_MAX {
            return Err(Return::INVALID_PARAMETER);
        }
        // SAFETY: likewise: there are so many bytes.
        let bytes = unsafe {
            std::slice::from_raw_parts((&raw const (*address).bytes).cast::<u8>(), host_len + len)
        };
        let host = bytes[..host_len].iter().fold(0, |host, byte| host << 8 | u64::from(*byte));
        if !is_number(host) {
            return Err(Return::INVALID_PARAMETER);
        }
        Ok(Self { host, discriminator: bytes[host_len..].to_vec() })
    }

    /// Writes one.
    ///
    /// # Safety
    ///
    /// Null, or with room for it.
    pub unsafe fn write(&self, into: *mut NetAddress) {
        if into.is_null() {
            return;
        }
        let host = host_bytes(self.host);
        // SAFETY: not null, so there is room for all of it, as the caller says.
        unsafe {
            (*into).host_len = HOST_BYTES as u16;
            (*into).discriminator_len = self.discriminator.len() as u16;
            let bytes = (&raw mut (*into).bytes).cast::<u8>();
            bytes.copy_from_nonoverlapping(host.as_ptr(), HOST_BYTES);
            let rest = bytes.add(HOST_BYTES);
            rest.copy_from_nonoverlapping(self.discriminator.as_ptr(), self.discriminator.len());
        }
    }

    /// The name of the socket by which the process that waits there is told.
    pub fn socket(&self) -> Vec<u8> {
        let mut name = format!("emp-vipl-{:012x}-", self.host).into_bytes();
        name.extend(&self.discriminator);
        name
    }
}

/// The bytes of a NIC's address.
pub fn host_bytes(host: u64) -> [u8; HOST_BYTES] {
    host.to_be_bytes()[2..].try_into().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_survive_the_way() {
        for length in [0, 1, DISCRIMINATOR_MAX] {
            let point = Point { host: 0x0245_0a01_0203, discriminator: vec![7; length] };
            let mut room = [0u64; 16];
            let address = room.as_mut_ptr().cast::<NetAddress>();
            // SAFETY: there is room for 124 bytes.
            unsafe { point.write(address) };
            // SAFETY: it was just written.
            assert_eq!(unsafe { Point::read(address) }, Ok(point.clone()));
            assert!(point.socket().len() <= 106);
            // SAFETY: likewise.
            unsafe { (*address).discriminator_len = DISCRIMINATOR_MAX as u16 + 1 };
            // SAFETY: it is not looked at, as it says that it is too long.
            assert_eq!(unsafe { Point::read(address) }, Err(Return::INVALID_PARAMETER));
        }
        // SAFETY: null is allowed.
        assert_eq!(unsafe { Point::read(std::ptr::null()) }, Err(Return::INVALID_PARAMETER));
    }

    #[test]
    fn doors_are_told_from_other_nodes() {
        let host = 0x0245_0a01_0203;
        assert_eq!(host_of(door_of(host)), Some(host));
        assert_eq!(host_of(NodeId(0x4901 << 48 | host)), None);
        assert_eq!(host_of(NodeId(7)), None);
        assert_eq!(door_at(host).udp, Some("10.1.2.3:62464".parse().unwrap()));
        assert_eq!(door_at(0x0203_0405_06ff).mac, Some([2, 3, 4, 5, 6, 0xff]));
    }
}
