//! What an `atomic` frame asks for (`ATOMIC-1`): the operator and the type of its operands, by number.

macro_rules! numbered {
    ($(#[$about:meta])* $name:ident { $($(#[$doc:meta])* $variant:ident = $number:literal, $label:literal;)* }) => {
        $(#[$about])*
        #[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
        #[repr(u8)]
        pub enum $name { $($(#[$doc])* $variant = $number,)* }

        impl $name {
            /// All of them, in the order of their numbers.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// The one of this number on the wire.
            pub const fn from_number(number: u8) -> Option<Self> {
                match number { $($number => Some(Self::$variant),)* _ => None }
            }

            /// Name for people.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $label,)* }
            }
        }
    };
}

numbered! {
    /// Type of the elements of an atomic operation: little endian, in the region as on the wire, and of any alignment
    /// (`ATOMIC-2`).
    Datatype {
        /// Signed, 8 bits.
        Int8 = 1, "int8";
        /// Unsigned, 8 bits.
        Uint8 = 2, "uint8";
        /// Signed, 16 bits.
        Int16 = 3, "int16";
        /// Unsigned, 16 bits.
        Uint16 = 4, "uint16";
        /// Signed, 32 bits.
        Int32 = 5, "int32";
        /// Unsigned, 32 bits.
        Uint32 = 6, "uint32";
        /// Signed, 64 bits.
        Int64 = 7, "int64";
        /// Unsigned, 64 bits.
        Uint64 = 8, "uint64";
        /// Signed, 128 bits.
        Int128 = 9, "int128";
        /// Unsigned, 128 bits.
        Uint128 = 10, "uint128";
        /// IEEE 754, 32 bits.
        Float = 11, "float";
        /// IEEE 754, 64 bits.
        Double = 12, "double";
        /// Two floats: real and imaginary part.
        FloatComplex = 13, "float complex";
        /// Two doubles: real and imaginary part.
        DoubleComplex = 14, "double complex";
    }
}

numbered! {
    /// Operator of an atomic operation. Each element of the target becomes `target OP operand`.
    AtomicOp {
        /// The lesser.
        Min = 1, "min";
        /// The greater.
        Max = 2, "max";
        /// The sum; integers wrap.
        Sum = 3, "sum";
        /// The product; integers wrap.
        Prod = 4, "prod";
        /// 1 if either is not zero, else 0.
        Lor = 5, "lor";
        /// 1 if both are not zero, else 0.
        Land = 6, "land";
        /// Bitwise or.
        Bor = 7, "bor";
        /// Bitwise and.
        Band = 8, "band";
        /// 1 if exactly one is not zero, else 0.
        Lxor = 9, "lxor";
        /// Bitwise exclusive or.
        Bxor = 10, "bxor";
        /// The target as it is: only fetched.
        Read = 11, "atomic read";
        /// The operand.
        Write = 12, "atomic write";
        /// The operand if compare = target.
        Cswap = 13, "cswap";
        /// The operand if compare ≠ target.
        CswapNe = 14, "cswap-ne";
        /// The operand if compare ≤ target.
        CswapLe = 15, "cswap-le";
        /// The operand if compare < target.
        CswapLt = 16, "cswap-lt";
        /// The operand if compare ≥ target.
        CswapGe = 17, "cswap-ge";
        /// The operand if compare > target.
        CswapGt = 18, "cswap-gt";
        /// The operand's bits where compare has ones, the target's elsewhere.
        Mswap = 19, "mswap";
    }
}

impl Datatype {
    /// Bytes of one element.
    pub const fn bytes(self) -> usize {
        match self {
            Self::Int8 | Self::Uint8 => 1,
            Self::Int16 | Self::Uint16 => 2,
            Self::Int32 | Self::Uint32 | Self::Float => 4,
            Self::Int64 | Self::Uint64 | Self::Double | Self::FloatComplex => 8,
            Self::Int128 | Self::Uint128 | Self::DoubleComplex => 16,
        }
    }

    /// Whole numbers: those that have bits.
    pub const fn integer(self) -> bool {
        !matches!(self, Self::Float | Self::Double | Self::FloatComplex | Self::DoubleComplex)
    }

    /// Pairs, which have no order.
    pub const fn complex(self) -> bool {
        matches!(self, Self::FloatComplex | Self::DoubleComplex)
    }
}

impl AtomicOp {
    /// It takes a second list of operands, to compare with.
    pub const fn compares(self) -> bool {
        self as u8 >= Self::Cswap as u8
    }

    /// It takes operands at all. Only a read does not.
    pub const fn has_operands(self) -> bool {
        !matches!(self, Self::Read)
    }

    /// True if the operator is defined for elements of this type: bits only for integers, order not for complex numbers.
    pub const fn defined_for(self, datatype: Datatype) -> bool {
        match self {
            Self::Bor | Self::Band | Self::Bxor | Self::Mswap => datatype.integer(),
            Self::Min | Self::Max => !datatype.complex(),
            Self::CswapLe | Self::CswapLt | Self::CswapGe | Self::CswapGt => !datatype.complex(),
            _ => true,
        }
    }
}
