//! What EMP's libfabric provider adds to the host API: the same ping-pong through both, in turn, over the same links.

use std::time::Duration;

use clap::ValueEnum;

use super::super::job::{LinkChoice, Measure, Pattern, Spec, SubjectKind};
use super::super::measure::{Effort, alternate};
use super::super::pair::{MTU_DEFAULT, Pair};
use super::super::session::Session;
use super::super::stats;
use super::super::subject::Named;
use crate::bail_user;
use crate::measured::MpiProviderCost as Cost;

/// Bytes of a message: the smallest of the MPI's ping-pongs.
const SIZE: usize = 8;

/// A second for each of the two, in slices so short that many pass undisturbed.
const EFFORT: Effort = Effort { slice: Duration::from_millis(10), runs: 101 };

/// Measures it in a lab of its own; `None` if that cannot be done over the link that the provider is told.
pub fn measure() -> anyhow::Result<Option<Cost>> {
    let Some(host) = host()? else { return Ok(None) };
    let specs = vec![host.against(SubjectKind::LIBFABRIC), host];
    let all = Pair::new(MTU_DEFAULT)?.run(|peer| {
        let mut session = Session::open(peer, specs, &Named::default(), None)?;
        alternate(&mut session, &[0, 1], (Pattern::Pingpong, SIZE, 1), EFFORT, &mut |_| ())
    })?;
    let times =
        |at: usize| all[at].each(|measure| Measure::one_way_us(measure).unwrap_or(f64::NAN));
    Ok(cost(&times(0), &times(1)))
}

/// EMP by its host API, with the links and faults that the provider is told by the environment. `None`: not beside it.
fn host() -> anyhow::Result<Option<Spec>> {
    let told = |name: &str| std::env::var(name).unwrap_or_default();
    let link = match told("FI_EMP_LINK").as_str() {
        "" => LinkChoice::Auto,
        // The provider would get packet beside it.
        "xdp" => return Ok(None),
        name => match LinkChoice::from_str(name, false) {
            Ok(link) => link,
            Err(_) => {
                bail_user!("FI_EMP_LINK={name}: must be auto, packet, lent, empd, xdp, udp or shm")
            }
        },
    };
    Ok(Some(Spec { faults: told("FI_EMP_FAULT"), ..Spec::emp(link) }))
}

fn cost(libfabric: &[f64], host: &[f64]) -> Option<Cost> {
    let differences: Vec<f64> = libfabric.iter().zip(host).map(|(a, b)| a - b).collect();
    Some(Cost {
        size: SIZE,
        host_us: stats::median(host)?,
        libfabric_us: stats::median(libfabric)?,
        adds_us: stats::median(&differences)?,
        samples: differences.len(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_added_is_the_middle_of_the_differences() {
        let cost = cost(&[2.0, 20.0, 3.0], &[1.5, 19.0, 2.0]).unwrap();
        assert_eq!((cost.host_us, cost.libfabric_us, cost.adds_us), (2.0, 3.0, 1.0));
        assert_eq!(cost.samples, 3);
        assert!(super::cost(&[], &[]).is_none());
    }
}
