//! What came of a verify run, for people and in figures.

use anyhow::bail;

use super::job::{Pattern, SubjectKind};
use super::results::Row;
use super::session::Session;
use super::verify::Tally;

/// The run in a few words; an error if anything was not as it must be.
pub fn outcome(tallies: &[Tally; 2]) -> anyhow::Result<String> {
    for (end, tally) in ["here", "at the other end"].iter().zip(tallies) {
        if let Some(mismatch) = &tally.mismatch {
            bail!("verify failed {end}: {mismatch}");
        }
    }
    let sum = |of: fn(&Tally) -> u64| tallies.iter().map(of).sum::<u64>();
    if sum(|t| t.messages_sent) != sum(|t| t.messages_checked) {
        bail!(
            "verify failed: {} messages were sent but {} arrived",
            sum(|t| t.messages_sent),
            sum(|t| t.messages_checked)
        );
    }
    for (end, other) in [(0, 1), (1, 0)] {
        let (there, is) = (tallies[end].number_there, tallies[other].number_here);
        if tallies[end].atomics > 0 && there != is {
            bail!("verify failed: a number that was left at {there} is {is}");
        }
    }
    let seconds = tallies[0].seconds;
    Ok(format!(
        "verify: {} messages, {:.1} MB, every byte right, in {seconds:.1} s ({:.2} Gb/s)\n\
         one-sided: {} puts, {} gets, {} atomics\n\
         frames resent {}, lost on purpose {}\n\
         messages unexpected {}, cut short on purpose {}; receives cancelled {}\n",
        sum(|t| t.messages_checked),
        sum(|t| t.bytes_checked) as f64 / 1e6,
        sum(|t| t.bytes_checked) as f64 * 8e-9 / seconds.max(1e-9),
        sum(|t| t.puts),
        sum(|t| t.gets),
        sum(|t| t.atomics),
        sum(|t| t.frames_resent),
        sum(|t| t.faults),
        sum(|t| t.unexpected),
        sum(|t| t.truncated),
        sum(|t| t.cancelled),
    ))
}

/// What a run was like, in figures.
pub fn row(session: &Session, tallies: &[Tally; 2]) -> Row {
    let seconds = tallies[0].seconds.max(1e-9);
    let messages: u64 = tallies.iter().map(|tally| tally.messages_checked).sum();
    let bytes: u64 = tallies.iter().map(|tally| tally.bytes_checked).sum();
    Row {
        pattern: Pattern::Verify,
        subject: SubjectKind::Emp,
        link: Some(session.cards()[0].links.join("+")),
        mtu: session.place().mtu(),
        size: None,
        one_way_us: None,
        mean_us: None,
        gbps: Some(bytes as f64 * 8e-9 / seconds),
        messages_per_s: Some(messages as f64 / seconds),
        samples: 1,
        copies: None,
        congestion: None,
        pair: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tally() -> Tally {
        let bytes = 5_000_000;
        let messages = 10;
        Tally {
            messages_sent: messages,
            messages_checked: messages,
            bytes_checked: bytes,
            seconds: 1.0,
            ..Tally::default()
        }
    }

    #[test]
    fn the_first_mismatch_fails_the_run() {
        assert!(outcome(&[tally(), tally()]).unwrap().contains("20 messages, 10.0 MB"));
        let bad = Tally { mismatch: Some("byte 3 of message 7".to_owned()), ..tally() };
        let error = outcome(&[tally(), bad]).unwrap_err();
        assert_eq!(error.to_string(), "verify failed at the other end: byte 3 of message 7");
        let short = Tally { messages_checked: 9, ..tally() };
        let added = Tally { atomics: 3, number_there: 3, ..tally() };
        let lost = outcome(&[added.clone(), Tally { number_here: 2, ..tally() }]).unwrap_err();
        assert!(lost.to_string().contains("left at 3 is 2"), "{lost}");
        assert!(outcome(&[added, Tally { number_here: 3, ..tally() }]).is_ok());
        assert!(outcome(&[tally(), short]).unwrap_err().to_string().contains("19 arrived"));
    }
}
