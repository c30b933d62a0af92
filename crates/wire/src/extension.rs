//! What may follow the name in a `hello` (`HELLO-6`) and the words of an `ack` (`ACK-10`): items of type, length and value, of which a receiver
//! skips those that it does not know. So a later version can say more to nodes that speak this one.

use crate::{LinkAddress, NodeId, Reason};

/// Ends the list: what is behind it are the zeros of a hello that tries a length (`LIMIT-2`).
const END: u8 = 0;
/// An address of the sender on another link: family and bytes (`PATH-1`).
const ADDRESS: u8 = 1;
/// The largest frame that the sender takes on this link, in two bytes (`HELLO-7`).
const LENGTH: u8 = 2;
/// What of the sender's name does not fit its place (`HELLO-9`).
const NAME: u8 = 3;
/// Another node: its identity alone asks where it is, and with an address tells that (`HELLO-10`).
const OTHER: u8 = 4;
/// Bytes of type and length.
pub(crate) const HEAD_BYTES: usize = 2;
/// Bytes of an item of that type.
pub(crate) const LENGTH_ITEM_BYTES: usize = HEAD_BYTES + 2;

/// The items of a list: type and value, or why there is no more to be read.
pub(crate) struct Extensions<'a> {
    rest: &'a [u8],
}

impl<'a> Extensions<'a> {
    /// Those that begin here and end with these bytes, or before.
    pub(crate) const fn of(list: &'a [u8]) -> Self {
        Self { rest: list }
    }
}

impl<'a> Iterator for Extensions<'a> {
    type Item = Result<(u8, &'a [u8]), Reason>;

    fn next(&mut self) -> Option<Self::Item> {
        let (kind, rest) = self.rest.split_first().filter(|(kind, _)| **kind != END)?;
        let item =
            rest.split_first().and_then(|(bytes, rest)| rest.split_at_checked(usize::from(*bytes)));
        let (value, rest) = item.unzip();
        self.rest = rest.unwrap_or(&[]);
        Some(value.map(|value| (*kind, value)).ok_or(Reason::BodyShort))
    }
}

/// The address that an item tells. `None`: it tells something else, or an address of a family or length that is not known here.
pub(crate) fn address(kind: u8, value: &[u8]) -> Option<LinkAddress> {
    let (family, bytes) = value.split_first().filter(|_| kind == ADDRESS)?;
    LinkAddress::told(*family, bytes)
}

/// Writes an item that tells this address; returns its bytes.
pub(crate) fn emit_address(address: LinkAddress, into: &mut [u8]) -> usize {
    let bytes = address.bytes();
    into[0] = ADDRESS;
    into[1] = 1 + bytes.len() as u8;
    into[HEAD_BYTES] = address.family() as u8;
    let end = HEAD_BYTES + 1 + bytes.len();
    into[HEAD_BYTES + 1..end].copy_from_slice(bytes);
    end
}

/// The largest frame that an item tells. `None`: it tells something else, or in another form.
pub(crate) fn length(kind: u8, value: &[u8]) -> Option<u16> {
    let value = value.try_into().ok().filter(|_| kind == LENGTH)?;
    Some(u16::from_be_bytes(value))
}

/// Writes an item that tells it; returns its bytes.
pub(crate) fn emit_length(frame_bytes: u16, into: &mut [u8]) -> usize {
    let [high, low] = frame_bytes.to_be_bytes();
    into[..LENGTH_ITEM_BYTES].copy_from_slice(&[LENGTH, 2, high, low]);
    LENGTH_ITEM_BYTES
}

/// The rest of a name that an item tells. `None`: it tells something else.
pub(crate) fn name(kind: u8, value: &[u8]) -> Option<&[u8]> {
    (kind == NAME).then_some(value)
}

/// Writes an item that tells it; returns its bytes.
pub(crate) fn emit_name(rest: &[u8], into: &mut [u8]) -> usize {
    let end = HEAD_BYTES + rest.len();
    into[..HEAD_BYTES].copy_from_slice(&[NAME, rest.len() as u8]);
    into[HEAD_BYTES..end].copy_from_slice(rest);
    end
}

/// Another node, and where it is told to be, if it is. `None`: the item tells something else, or in another form.
pub(crate) fn other(kind: u8, value: &[u8]) -> Option<(NodeId, Option<LinkAddress>)> {
    let (node, place) = value.split_first_chunk().filter(|_| kind == OTHER)?;
    let node = NodeId(u64::from_be_bytes(*node));
    let place = match place.split_first() {
        Some((family, bytes)) => Some(LinkAddress::told(*family, bytes)?),
        None => None,
    };
    (node != NodeId::ANY).then_some((node, place))
}

/// Writes an item that asks for another node, or tells where it is; returns its bytes.
pub(crate) fn emit_other(node: NodeId, place: Option<LinkAddress>, into: &mut [u8]) -> usize {
    let mut end = HEAD_BYTES + 8;
    into[HEAD_BYTES..end].copy_from_slice(&node.0.to_be_bytes());
    if let Some(place) = place {
        let bytes = place.bytes();
        into[end] = place.family() as u8;
        into[end + 1..end + 1 + bytes.len()].copy_from_slice(bytes);
        end += 1 + bytes.len();
    }
    into[..HEAD_BYTES].copy_from_slice(&[OTHER, (end - HEAD_BYTES) as u8]);
    end
}
