//! Message sizes as people write them: `1,32,4K,1M` and `4..1M`.

use crate::bail_user;

/// Bytes. Both ends hold a few buffers of this size; beyond it a measurement says nothing new.
pub const SIZE_MAX: usize = 1 << 30;

/// Reads a list of sizes and ranges. A range goes from its start to its end by doubling, both included.
pub fn parse(text: &str) -> anyhow::Result<Vec<usize>> {
    let mut sizes = Vec::new();
    for item in text.split(',').map(str::trim) {
        match item.split_once("..") {
            None => push(&mut sizes, parse_one(item)?),
            Some((first, last)) => {
                let (first, last) = (parse_one(first)?, parse_one(last)?);
                if first > last {
                    bail_user!("the size range `{item}` runs backwards; write `{last}..{first}`");
                }
                let doubling = std::iter::successors(Some(first), |size| size.checked_mul(2));
                doubling.take_while(|size| *size < last).for_each(|size| push(&mut sizes, size));
                push(&mut sizes, last);
            }
        }
    }
    Ok(sizes)
}

/// A size as the tables show it: `64`, `4K`, `1M`, `1500`.
pub fn show(size: usize) -> String {
    for (unit, letter) in [(1 << 30, 'G'), (1 << 20, 'M'), (1 << 10, 'K')] {
        if size >= unit && size.is_multiple_of(unit) {
            return format!("{}{letter}", size / unit);
        }
    }
    size.to_string()
}

fn push(sizes: &mut Vec<usize>, size: usize) {
    if !sizes.contains(&size) {
        sizes.push(size);
    }
}

/// Reads one size.
pub fn parse_one(text: &str) -> anyhow::Result<usize> {
    let (digits, unit) = match text.char_indices().next_back() {
        Some((at, 'k' | 'K')) => (&text[..at], 1usize << 10),
        Some((at, 'm' | 'M')) => (&text[..at], 1 << 20),
        Some((at, 'g' | 'G')) => (&text[..at], 1 << 30),
        _ => (text, 1),
    };
    let bytes = digits.parse::<usize>().ok().and_then(|number| number.checked_mul(unit));
    match bytes {
        Some(bytes @ 1..=SIZE_MAX) => Ok(bytes),
        Some(_) => bail_user!("size `{text}` is not possible; choose 1 to {}", show(SIZE_MAX)),
        None => bail_user!("`{text}` is not a size; write for example 1,32,4K,1M or 4..1M"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_and_ranges() {
        assert_eq!(parse("1,32,4K,1M").unwrap(), [1, 32, 4096, 1 << 20]);
        assert_eq!(parse("4..64").unwrap(), [4, 8, 16, 32, 64]);
        assert_eq!(parse("1, 3..20 ,1500").unwrap(), [1, 3, 6, 12, 20, 1500]);
        assert_eq!(parse("4..1M").unwrap().len(), 19);
        assert_eq!(parse("8,8..8,8").unwrap(), [8]);
    }

    #[test]
    fn mistakes_are_named() {
        for (text, says) in [
            ("", "`` is not a size"),
            ("32,lots", "`lots` is not a size"),
            ("4..", "`` is not a size"),
            ("-1", "`-1` is not a size"),
            ("0", "choose 1 to 1G"),
            ("2G", "choose 1 to 1G"),
            ("1M..1K", "write `1024..1048576`"),
            ("99999999999999999999", "is not a size"),
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.downcast_ref::<crate::error::UserError>().is_some());
            assert!(error.to_string().contains(says), "{text}: {error}");
        }
    }

    #[test]
    fn shown_as_written() {
        for text in ["1", "1500", "4K", "1M", "1G", "3M"] {
            assert_eq!(show(parse_one(text).unwrap()), text);
        }
    }
}
