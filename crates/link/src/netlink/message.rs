//! Messages and attributes, as bytes.

/// Bytes of `struct nlmsghdr` and of a `struct rtattr`.
const HEAD_BYTES: usize = 16;
const ATTRIBUTE_BYTES: usize = 4;

/// Types that every family has, and the flags of a question that is answered with all there is.
pub(super) const ERROR: u16 = libc::NLMSG_ERROR as u16;
pub(super) const DONE: u16 = libc::NLMSG_DONE as u16;
const DUMP: u16 = (libc::NLM_F_REQUEST | libc::NLM_F_DUMP) as u16;

/// A message that asks for all there is of a kind; `body` is the structure that such messages begin with.
pub(super) fn question(kind: u16, body: &[u8]) -> Vec<u8> {
    let mut message = Vec::with_capacity(HEAD_BYTES + body.len());
    message.extend(((HEAD_BYTES + body.len()) as u32).to_ne_bytes());
    message.extend(kind.to_ne_bytes());
    message.extend(DUMP.to_ne_bytes());
    // Number and sender: there is one question at a time, and the kernel knows who asked.
    message.extend([0; 8]);
    message.extend(body);
    message
}

/// Type and body of each message of an answer.
pub(super) fn messages(bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    let mut rest = bytes;
    std::iter::from_fn(move || {
        let length = u32_at(rest, 0)? as usize;
        let kind = u16_at(rest, 4)?;
        let body = rest.get(HEAD_BYTES..length)?;
        rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
        Some((kind, body))
    })
}

/// Type and value of each attribute.
pub(super) fn attributes(bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    /// A bit of the type that says that there are attributes in it.
    const NESTED: u16 = 1 << 15;
    let mut rest = bytes;
    std::iter::from_fn(move || {
        let length = usize::from(u16_at(rest, 0)?);
        let kind = u16_at(rest, 2)? & !NESTED;
        let value = rest.get(ATTRIBUTE_BYTES..length)?;
        rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
        Some((kind, value))
    })
}

/// A number in this machine's order of bytes.
pub(super) fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(*bytes.get(at..)?.first_chunk()?))
}

/// Likewise.
pub(super) fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(*bytes.get(at..)?.first_chunk()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_cut_ends_the_list() {
        let one = question(18, &[7; 5]);
        let mut two = one.clone();
        two.resize(24, 0);
        two.extend(&one);
        let seen: Vec<_> = messages(&two).collect();
        assert_eq!(seen, [(18, &[7u8; 5][..]), (18, &[7; 5])]);
        for end in 0..two.len() {
            assert!(messages(&two[..end]).count() < 2);
        }
        let list = [8, 0, 3, 0, b'a', b'b', b'c', 0, 3, 0, 9, 0, 5, 0, 1, 128, 1];
        let names: Vec<_> = attributes(&list[..8]).collect();
        assert_eq!(names, [(3, &b"abc\0"[..])]);
        assert_eq!(attributes(&list).count(), 1, "shorter than its own head");
        assert_eq!(attributes(&list[12..]).collect::<Vec<_>>(), [(1, &[1u8][..])]);
    }
}
