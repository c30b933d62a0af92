//! The fields of messages, read and written.

use super::{Carrier, HOLDINGS_MAX, Holding, MAGIC, Malformed, NAME_BYTES, REASON_BYTES};

/// What is left of a message.
pub(super) struct Fields<'a> {
    pub(super) kind: u8,
    rest: &'a [u8],
    /// Of the whole.
    length: usize,
}

impl<'a> Fields<'a> {
    pub(super) fn of(bytes: &'a [u8]) -> Result<Self, Malformed> {
        let (kind, rest) = bytes.split_first().ok_or(Malformed::Length(0))?;
        Ok(Self { kind: *kind, rest, length: bytes.len() })
    }

    pub(super) fn take<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        let (front, rest) = self.rest.split_first_chunk().ok_or(Malformed::Length(self.length))?;
        self.rest = rest;
        Ok(*front)
    }

    pub(super) fn magic(&mut self) -> Result<(), Malformed> {
        if self.take()? == MAGIC { Ok(()) } else { Err(Malformed::Magic) }
    }

    pub(super) fn truth(&mut self) -> Result<bool, Malformed> {
        match self.take()? {
            [0] => Ok(false),
            [1] => Ok(true),
            _ => Err(Malformed::Field("a yes or no that is neither")),
        }
    }

    pub(super) fn half(&mut self) -> Result<u16, Malformed> {
        self.take().map(u16::from_be_bytes)
    }

    pub(super) fn word(&mut self) -> Result<u32, Malformed> {
        self.take().map(u32::from_be_bytes)
    }

    pub(super) fn long(&mut self) -> Result<u64, Malformed> {
        self.take().map(u64::from_be_bytes)
    }

    pub(super) fn carrier(&mut self) -> Result<Carrier, Malformed> {
        Ok(Carrier { index: self.word()?, mtu: self.word()?, mac: self.take()? })
    }

    /// All the rest, which may be nothing.
    pub(super) fn holdings(&mut self) -> Result<Vec<Holding>, Malformed> {
        let mut all = Vec::new();
        while !self.rest.is_empty() {
            if all.len() == HOLDINGS_MAX {
                return Err(Malformed::Length(self.length));
            }
            all.push(Holding { tag: self.half()?, user: self.word()? });
        }
        Ok(all)
    }

    /// The name of an interface: what the kernel takes for one, then zeros.
    pub(super) fn name(&mut self) -> Result<String, Malformed> {
        let bytes = self.take::<NAME_BYTES>()?;
        let length = bytes.iter().position(|byte| *byte == 0).unwrap_or(NAME_BYTES);
        let (name, padding) = bytes.split_at(length);
        let fits = |byte: &u8| byte.is_ascii_graphic() && *byte != b'/';
        let ends = !padding.is_empty() && padding.iter().all(|byte| *byte == 0);
        if name.is_empty() || !ends || !name.iter().all(fits) {
            return Err(Malformed::Field("a name that no interface can have"));
        }
        Ok(name.iter().copied().map(char::from).collect())
    }

    /// The same, or nothing but zeros.
    pub(super) fn optional_name(&mut self) -> Result<String, Malformed> {
        if self.rest.starts_with(&[0; NAME_BYTES]) {
            return self.take::<NAME_BYTES>().map(|_| String::new());
        }
        self.name()
    }

    /// All the rest as a line of text.
    pub(super) fn line(&mut self) -> Result<String, Malformed> {
        let bytes = std::mem::take(&mut self.rest);
        self.text(bytes)
    }

    /// A line behind its length.
    pub(super) fn short_line(&mut self) -> Result<String, Malformed> {
        let [length] = self.take()?;
        let split = self.rest.split_at_checked(length.into());
        let (bytes, rest) = split.ok_or(Malformed::Length(self.length))?;
        self.rest = rest;
        self.text(bytes)
    }

    fn text(&self, bytes: &[u8]) -> Result<String, Malformed> {
        if bytes.len() > REASON_BYTES {
            return Err(Malformed::Length(self.length));
        }
        let text = std::str::from_utf8(bytes).ok().filter(|text| !text.contains(char::is_control));
        text.map(str::to_owned).ok_or(Malformed::Field("a reason that is no line of text"))
    }

    pub(super) fn end(&self) -> Result<(), Malformed> {
        if self.rest.is_empty() { Ok(()) } else { Err(Malformed::Length(self.length)) }
    }
}

/// A message being written.
pub(super) struct Writer(pub(super) Vec<u8>);

impl Writer {
    pub(super) fn new(kind: u8) -> Self {
        Self(vec![kind])
    }

    pub(super) fn bytes(mut self, bytes: &[u8]) -> Self {
        self.0.extend_from_slice(bytes);
        self
    }

    /// A name that is too long becomes one that nobody has: the receiver says so.
    pub(super) fn name(mut self, name: &str) -> Self {
        let mut field = [0; NAME_BYTES];
        let length = name.len().min(NAME_BYTES);
        field[..length].copy_from_slice(&name.as_bytes()[..length]);
        self.0.extend(field);
        self
    }

    pub(super) fn carrier(self, carrier: &Carrier) -> Self {
        self.bytes(&carrier.index.to_be_bytes())
            .bytes(&carrier.mtu.to_be_bytes())
            .bytes(&carrier.mac)
    }

    /// A line behind its length, of 255 bytes at most.
    pub(super) fn short_line(self, text: &str) -> Self {
        let bytes = &text.as_bytes()[..text.len().min(255)];
        self.bytes(&[bytes.len() as u8]).bytes(bytes)
    }

    /// As much of a text as there is room for, as one line.
    pub(super) fn line(mut self, text: &str) -> Self {
        for letter in text.chars().map(|letter| if letter.is_control() { ' ' } else { letter }) {
            if self.0.len() + letter.len_utf8() > 1 + REASON_BYTES {
                break;
            }
            self.0.extend(letter.encode_utf8(&mut [0; 4]).as_bytes());
        }
        self
    }
}
