//! Elements of atomic operations: numbers, and how they lie in regions and on the wire (little endian, `ATOMIC-2`).

use std::marker::PhantomData;

use emp_firmware::Datatype;

use crate::memory::buffer::ReceiveBuffer;

/// A number that atomic operations work on.
pub trait Element: Copy + Send + sealed::Sealed + 'static {
    /// Its type's name on the wire.
    const DATATYPE: Datatype;

    /// Appends it as it lies in a region.
    fn put(self, into: &mut Vec<u8>);

    /// Reads it as it lies in a region. The slice has the type's length.
    fn take(from: &[u8]) -> Self;
}

mod sealed {
    pub trait Sealed {}
}

macro_rules! elements {
    ($($number:ident is $datatype:ident,)*) => { $(
        impl sealed::Sealed for $number {}

        impl Element for $number {
            const DATATYPE: Datatype = Datatype::$datatype;

            fn put(self, into: &mut Vec<u8>) {
                into.extend_from_slice(&self.to_le_bytes());
            }

            fn take(from: &[u8]) -> Self {
                Self::from_le_bytes(from.try_into().expect("the caller gives the type's length"))
            }
        }
    )* };
}

elements! {
    i8 is Int8, u8 is Uint8, i16 is Int16, u16 is Uint16, i32 is Int32, u32 is Uint32, i64 is Int64, u64 is Uint64,
    i128 is Int128, u128 is Uint128, f32 is Float, f64 is Double,
}

/// Numbers as they lie in a region.
pub(crate) fn bytes_of<T: Element>(values: &[T]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(size_of_val(values));
    values.iter().for_each(|value| value.put(&mut bytes));
    bytes
}

/// Numbers that an atomic operation has fetched: what was there before it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Values<T> {
    bytes: Vec<u8>,
    of: PhantomData<T>,
}

impl<T: Element> Values<T> {
    /// Room for so many.
    pub(crate) fn room(count: usize) -> Self {
        Self { bytes: vec![0; count * size_of::<T>()], of: PhantomData }
    }

    /// The numbers.
    pub fn iter(&self) -> impl Iterator<Item = T> + '_ {
        self.bytes.chunks_exact(size_of::<T>()).map(T::take)
    }

    /// The first number.
    ///
    /// # Panics
    ///
    /// If there are none; an operation fetches as many as it has operands.
    pub fn first(&self) -> T {
        self.iter().next().expect("as many as operands")
    }

    /// The numbers.
    pub fn to_vec(&self) -> Vec<T> {
        self.iter().collect()
    }
}

// SAFETY: the memory is the vector's, on the heap and its own; any bytes are numbers.
unsafe impl<T: Element> ReceiveBuffer for Values<T> {
    fn visit_mut(&mut self, run: &mut dyn FnMut(*mut u8, usize)) {
        self.bytes.visit_mut(run);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_lie_little_endian() {
        assert_eq!(bytes_of(&[1u16, 0x0203]), [1, 0, 3, 2]);
        assert_eq!(bytes_of(&[-1i8]), [255]);
        let mut values = Values::<f64>::room(2);
        values.bytes = bytes_of(&[1.5, -0.25]);
        assert_eq!(values.to_vec(), [1.5, -0.25]);
        assert_eq!(<f64 as Element>::DATATYPE.bytes(), 8);
    }
}
