//! What takes part: EMP as it chooses its links, EMP over each link, the bare links, TCP.

use clap::ValueEnum;

use crate::bail_user;
use crate::bench::job::{LinkChoice, Spec, SubjectKind};
use crate::bench::session::Session;
use crate::error::UserError;

/// The subjects that `--vs` names; `none` names none.
pub fn yardsticks(names: &[String]) -> anyhow::Result<Vec<SubjectKind>> {
    let known = [SubjectKind::Raw, SubjectKind::Tcp, SubjectKind::TcpBlock];
    let mut kinds = Vec::new();
    for name in names.iter().filter(|name| *name != "none") {
        match known.into_iter().find(|kind| kind.name() == name) {
            Some(kind) if kinds.contains(&kind) => {}
            Some(kind) => kinds.push(kind),
            None => bail_user!("--vs knows raw, tcp, tcp-block and none, not `{name}`"),
        }
    }
    Ok(kinds)
}

/// All subjects, EMP's own choice of links first, and what that choice is. `open` tries a session.
pub fn all(
    emp: &Spec,
    yardsticks: &[SubjectKind],
    open: impl Fn(Vec<Spec>) -> anyhow::Result<Session>,
) -> anyhow::Result<(Vec<Spec>, Option<String>)> {
    let links = |spec: &Spec| Ok(open(vec![spec.clone()])?.cards()[0].links.join("+"));
    let (emps, auto) = if emp.link == LinkChoice::Auto {
        let auto: String = links(emp)?;
        (over_each_link(emp, &auto, links)?, Some(auto))
    } else {
        (vec![emp.clone()], None)
    };
    let mut specs = emps.clone();
    for &kind in yardsticks {
        if kind != SubjectKind::Raw {
            specs.push(emp.against(kind));
            continue;
        }
        // A choice of several links is no single bare link.
        for spec in emps.iter().filter(|spec| spec.link != LinkChoice::Auto) {
            let raw = spec.against(kind);
            // Beside EMP, as both are to be there at once.
            match open(vec![spec.clone(), raw.clone()]) {
                Ok(_) => specs.push(raw),
                Err(error) if error.is::<UserError>() => {
                    eprintln!("without {}: {error}", raw.describe())
                }
                Err(error) => return Err(error),
            }
        }
    }
    Ok((specs, auto))
}

/// EMP over every link that is to be had, first over what it chooses by itself. Not over xdp, unless it is named: its
/// program on the interface is in the way of all other subjects' frames, and slows them down.
fn over_each_link(
    emp: &Spec,
    auto: &str,
    links: impl Fn(&Spec) -> anyhow::Result<String>,
) -> anyhow::Result<Vec<Spec>> {
    let mut specs = Vec::new();
    let mut chosen = Some(emp.clone());
    // Shared memory is no network: only who asks for it by name gets it. The same goes for xdp.
    // And for the service's ways, which stand in for packet.
    let apart =
        [LinkChoice::Auto, LinkChoice::Shm, LinkChoice::Xdp, LinkChoice::Lent, LinkChoice::Empd];
    for &link in LinkChoice::value_variants().iter().filter(|link| !apart.contains(link)) {
        let spec = Spec { link, ..emp.clone() };
        match links(&spec) {
            // What it chooses is a link that has a name: measured once, under that name.
            Ok(found) if found == auto => chosen = Some(spec),
            Ok(_) => specs.push(spec),
            Err(error) if error.is::<UserError>() => eprintln!("without {link}: {error}"),
            Err(error) => return Err(error),
        }
    }
    specs.splice(0..0, chosen.take());
    Ok(specs)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::user_error;

    #[test]
    fn yardsticks_are_named_once() {
        let names = ["raw", "tcp", "raw"].map(str::to_owned);
        assert_eq!(yardsticks(&names).unwrap(), [SubjectKind::Raw, SubjectKind::Tcp]);
        assert!(yardsticks(&["none".to_owned()]).unwrap().is_empty());
        assert!(yardsticks(&["pigeon".to_owned()]).unwrap_err().is::<UserError>());
    }

    fn chosen(auto: &str, udp: bool) -> Vec<LinkChoice> {
        let links = |spec: &Spec| match spec.link {
            LinkChoice::Auto => Ok(auto.to_owned()),
            LinkChoice::Udp if !udp => Err(user_error("no address")),
            link => Ok(link.to_string()),
        };
        let specs = over_each_link(&Spec::emp(LinkChoice::Auto), auto, links).unwrap();
        specs.into_iter().map(|spec| spec.link).collect()
    }

    #[test]
    fn no_link_is_measured_twice_and_the_chosen_one_comes_first() {
        assert_eq!(chosen("udp", true)[0], LinkChoice::Udp);
        assert!(!chosen("udp", true).contains(&LinkChoice::Auto));
        let both = chosen("packet+udp", true);
        assert_eq!(both[0], LinkChoice::Auto);
        assert!(both.contains(&LinkChoice::Packet) && both.contains(&LinkChoice::Udp));
        assert!(!chosen("packet", false).contains(&LinkChoice::Udp));
        assert!(!both.contains(&LinkChoice::Xdp), "only by name");
    }
}
