//! Reading a command line meant for `ssh`.

use crate::bail_user;

/// The options of `ssh` that take a value, which may be the next argument.
const WITH_VALUE: &str = "BbcDEeFIiJLlmOoPpQRSWw";

/// What `ssh [options] host command…` asks for.
#[derive(Debug, PartialEq, Eq)]
pub struct Call {
    /// Where to run it, without a user's name.
    pub host: String,
    /// For the shell there, which takes words and quotes apart, as over a real `ssh`.
    pub command: String,
}

impl Call {
    /// Takes the arguments apart; options mean nothing in a lab and are skipped.
    pub fn parse(arguments: &[String]) -> anyhow::Result<Self> {
        let mut rest = arguments.iter();
        let mut host = None;
        while let Some(argument) = rest.next() {
            let Some(option) = argument.strip_prefix('-') else {
                host = Some(argument);
                break;
            };
            // `-o value` has its value in the next argument, `-ovalue` and `-x` do not.
            if option.len() == 1 && WITH_VALUE.contains(option) {
                rest.next();
            }
        }
        let words: Vec<_> = rest.map(String::as_str).collect();
        let Some(host) = host.filter(|_| !words.is_empty()) else {
            bail_user!("emp lab rsh wants a host and a command");
        };
        let host = host.rsplit_once('@').map_or(host.as_str(), |(_user, host)| host);
        Ok(Self { host: host.to_owned(), command: words.join(" ") })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> anyhow::Result<Call> {
        Call::parse(&line.split(' ').map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn options_are_skipped_with_their_values() {
        let expected = Call { host: "emp-b".to_owned(), command: "orted --x -o y".to_owned() };
        let lines = ["emp-b", "-x emp-b", "-q -o A=b -p22 root@emp-b", "-l root -T emp-b"];
        for line in lines.map(|line| format!("{line} orted --x -o y")) {
            assert_eq!(parse(&line).unwrap(), expected, "{line}");
        }
    }

    #[test]
    fn a_host_and_a_command_are_needed() {
        assert!(parse("-x").is_err());
        assert!(parse("emp-a").is_err());
    }
}
