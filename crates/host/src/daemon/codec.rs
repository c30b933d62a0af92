//! Numbers in records, little endian: both ends are on one machine, and which byte comes first must still be settled.

/// A record that cannot be.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{0}")]
pub struct Wrong(pub &'static str);

/// What is left of a record.
pub(super) struct Fields<'a>(pub(super) &'a [u8]);

impl<'a> Fields<'a> {
    pub(super) fn take<const N: usize>(&mut self) -> Result<[u8; N], Wrong> {
        let (front, rest) =
            self.0.split_first_chunk().ok_or(Wrong("a record that is too short"))?;
        self.0 = rest;
        Ok(*front)
    }

    pub(super) fn byte(&mut self) -> Result<u8, Wrong> {
        self.take::<1>().map(|[byte]| byte)
    }

    pub(super) fn half(&mut self) -> Result<u16, Wrong> {
        self.take().map(u16::from_le_bytes)
    }

    pub(super) fn word(&mut self) -> Result<u32, Wrong> {
        self.take().map(u32::from_le_bytes)
    }

    pub(super) fn long(&mut self) -> Result<u64, Wrong> {
        self.take().map(u64::from_le_bytes)
    }

    pub(super) fn truth(&mut self) -> Result<bool, Wrong> {
        match self.byte()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(Wrong("a yes or no that is neither")),
        }
    }

    /// So many bytes.
    pub(super) fn bytes(&mut self, bytes: usize) -> Result<&'a [u8], Wrong> {
        let (front, rest) =
            self.0.split_at_checked(bytes).ok_or(Wrong("a record that is too short"))?;
        self.0 = rest;
        Ok(front)
    }

    /// A text behind its length.
    pub(super) fn text(&mut self) -> Result<&'a str, Wrong> {
        let bytes = self.byte()?.into();
        std::str::from_utf8(self.bytes(bytes)?).map_err(|_| Wrong("a text that is none"))
    }

    /// A number that may not be there.
    pub(super) fn option(&mut self) -> Result<Option<u64>, Wrong> {
        let (there, value) = (self.truth()?, self.long()?);
        Ok(there.then_some(value))
    }

    /// Nothing is left.
    pub(super) fn end(&self) -> Result<(), Wrong> {
        if self.0.is_empty() { Ok(()) } else { Err(Wrong("a record that is too long")) }
    }
}

/// A record being written.
#[derive(Default)]
pub(super) struct Writer(pub(super) Vec<u8>);

impl Writer {
    pub(super) fn bytes(mut self, bytes: &[u8]) -> Self {
        self.0.extend_from_slice(bytes);
        self
    }

    pub(super) fn byte(self, byte: u8) -> Self {
        self.bytes(&[byte])
    }

    pub(super) fn half(self, half: u16) -> Self {
        self.bytes(&half.to_le_bytes())
    }

    pub(super) fn word(self, word: u32) -> Self {
        self.bytes(&word.to_le_bytes())
    }

    pub(super) fn long(self, long: u64) -> Self {
        self.bytes(&long.to_le_bytes())
    }

    pub(super) fn option(self, value: Option<u64>) -> Self {
        self.byte(value.is_some().into()).long(value.unwrap_or(0))
    }

    /// As much of a text as its length can say.
    pub(super) fn text(self, text: &str) -> Self {
        let mut length = text.len().min(255);
        while !text.is_char_boundary(length) {
            length -= 1;
        }
        self.byte(length as u8).bytes(&text.as_bytes()[..length])
    }
}
