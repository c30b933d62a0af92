//! Values as they lie in the file: little-endian, one behind the other in the order of their declaration, without gaps.

use std::fmt;

/// Something of a fixed length in the file.
pub(crate) trait Field: Sized {
    /// Bytes that it takes.
    const BYTES: usize;

    /// Writes it at the beginning of `to`, which is as long at least.
    fn put(&self, to: &mut [u8]);

    /// What lies at the beginning of `from`, which is as long at least. Any bytes are some value.
    fn take(from: &[u8]) -> Self;
}

macro_rules! integers {
    ($($kind:ty)*) => {$(
        impl Field for $kind {
            const BYTES: usize = size_of::<$kind>();

            #[inline]
            fn put(&self, to: &mut [u8]) {
                to[..Self::BYTES].copy_from_slice(&self.to_le_bytes());
            }

            #[inline]
            fn take(from: &[u8]) -> Self {
                let mut bytes = [0; Self::BYTES];
                bytes.copy_from_slice(&from[..Self::BYTES]);
                Self::from_le_bytes(bytes)
            }
        }
    )*};
}

integers!(u8 u16 u32 u64 i32);

impl<T: Field + Copy + Default, const N: usize> Field for [T; N] {
    const BYTES: usize = N * T::BYTES;

    fn put(&self, to: &mut [u8]) {
        for (value, place) in self.iter().zip(to.chunks_mut(T::BYTES)) {
            value.put(place);
        }
    }

    fn take(from: &[u8]) -> Self {
        std::array::from_fn(|at| T::take(&from[at * T::BYTES..]))
    }
}

/// A short text for people, of at most `N` bytes: what is longer is cut.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Text<const N: usize>([u8; N]);

impl<const N: usize> Text<N> {
    /// As much of a text as fits.
    pub fn new(text: &str) -> Self {
        let mut end = text.len().min(N);
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        let mut bytes = [0; N];
        bytes[..end].copy_from_slice(&text.as_bytes()[..end]);
        Self(bytes)
    }

    /// What it says, fit for a terminal: whoever wrote the file may not move its cursor.
    pub fn show(&self) -> String {
        let text = String::from_utf8_lossy(self.bytes());
        text.chars().map(|letter| if letter.is_control() { '?' } else { letter }).collect()
    }

    /// The bytes that it says, as whoever wrote the file put them there.
    fn bytes(&self) -> &[u8] {
        let end = self.0.iter().position(|byte| *byte == 0).unwrap_or(N);
        &self.0[..end]
    }

    /// It says this.
    pub fn is(&self, text: &str) -> bool {
        self.bytes() == text.as_bytes()
    }

    /// It begins so.
    pub fn starts_with(&self, text: &str) -> bool {
        self.bytes().starts_with(text.as_bytes())
    }

    /// It says nothing.
    pub fn is_empty(&self) -> bool {
        self.0.first().is_none_or(|byte| *byte == 0)
    }
}

impl<const N: usize> Default for Text<N> {
    fn default() -> Self {
        Self([0; N])
    }
}

impl<const N: usize> fmt::Debug for Text<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.show())
    }
}

impl<const N: usize> fmt::Display for Text<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.show())
    }
}

impl<const N: usize> Field for Text<N> {
    const BYTES: usize = N;

    fn put(&self, to: &mut [u8]) {
        to[..N].copy_from_slice(&self.0);
    }

    fn take(from: &[u8]) -> Self {
        let mut bytes = [0; N];
        bytes.copy_from_slice(&from[..N]);
        Self(bytes)
    }
}

/// A struct as a field: its fields one behind the other.
macro_rules! record {
    ($(#[$about:meta])* $name:ident { $($(#[$doc:meta])* $field:ident: $kind:ty,)* }) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct $name { $($(#[$doc])* pub $field: $kind,)* }

        impl $crate::field::Field for $name {
            const BYTES: usize = 0 $(+ <$kind as $crate::field::Field>::BYTES)*;

            #[allow(unused_assignments, reason = "behind the last field nothing comes")]
            fn put(&self, to: &mut [u8]) {
                let mut at = 0;
                $(
                    self.$field.put(&mut to[at..]);
                    at += <$kind as $crate::field::Field>::BYTES;
                )*
            }

            #[allow(unused_assignments, reason = "behind the last field nothing comes")]
            fn take(from: &[u8]) -> Self {
                let mut at = 0;
                $(
                    let $field = <$kind as $crate::field::Field>::take(&from[at..]);
                    at += <$kind as $crate::field::Field>::BYTES;
                )*
                Self { $($field,)* }
            }
        }
    };
}
pub(crate) use record;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_cut_between_letters_and_cannot_move_a_cursor() {
        assert_eq!(Text::<4>::new("abcdef").show(), "abcd");
        assert_eq!(Text::<4>::new("aäöü").show(), "aä");
        assert_eq!(Text::<8>::new("a\x1b[2Jb").show(), "a?[2Jb");
        assert_eq!(Text::<4>::take(&[0xff, b'x', 0, b'y']).show(), "\u{fffd}x");
        assert!(Text::<4>::new("").is_empty() && !Text::<4>::new("a").is_empty());
        let text = Text::<4>::new("abcd");
        assert!(
            text.is("abcd") && text.starts_with("ab") && !text.is("abc") && !text.starts_with("b")
        );
    }
}
