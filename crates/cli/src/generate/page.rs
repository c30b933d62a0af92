//! A manual page, and what all pages say of themselves.

/// Whose pages these are.
pub const SOURCE: &str = concat!("EMP ", env!("CARGO_PKG_VERSION"));

/// What they are pages of.
pub const MANUAL: &str = "Ethernet Message Passing";

/// One manual page: its name, its section, its text in roff.
pub struct Page {
    pub name: String,
    pub section: u8,
    pub text: String,
}

/// The day that a package's build calls its own (SOURCE_DATE_EPOCH), else none: a page must not differ from build to build.
/// Not an empty one, in whose place clap_mangen would put what follows.
pub fn date() -> String {
    let seconds = std::env::var("SOURCE_DATE_EPOCH").ok().and_then(|text| text.parse::<i64>().ok());
    seconds.map_or_else(|| " ".to_owned(), day)
}

/// `2026-11-26` of seconds since 1970, by Howard Hinnant's method for the Gregorian calendar.
fn day(seconds: i64) -> String {
    let days = seconds.div_euclid(86_400) + 719_468;
    let (era, of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let shifted = (5 * of_year + 2) / 153;
    let day = of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    let year = year + era * 400 + i64::from(month <= 2);
    format!("{year:04}-{month:02}-{day:02}")
}

#[cfg(test)]
mod tests {
    #[test]
    fn days_are_those_of_the_calendar() {
        assert_eq!(super::day(0), "1970-01-01");
        assert_eq!(super::day(951_782_400), "2000-02-29");
        assert_eq!(super::day(1_795_651_199), "2026-11-25");
    }
}
