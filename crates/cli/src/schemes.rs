//! The placements that are asked for: the multi-CPU paper's by name (I17), that of the board `split:io`, and any other by a table.

use emp_model::tigon2::Placement;

use crate::bail_user;

/// Those of these names, `all` for all that have one.
pub fn named(names: &[String]) -> anyhow::Result<Vec<Placement>> {
    let known = || Placement::PAPER.into_iter().chain([Placement::IO]);
    let mut found: Vec<Placement> = Vec::new();
    for name in names {
        let wanted: Vec<Placement> = match Placement::by_name(name) {
            Some(one) => vec![one],
            None if name == "all" => known().collect(),
            None => {
                let known = known().map(|one| one.name()).collect::<Vec<_>>().join(", ");
                bail_user!("there is no scheme {name}; there are {known}, and all");
            }
        };
        for placement in wanted {
            if !found.contains(&placement) {
                found.push(placement);
            }
        }
    }
    Ok(found)
}

/// The one that a table gives.
pub fn parse(table: &str) -> anyhow::Result<Placement> {
    match Placement::parse(table) {
        Ok(placement) => Ok(placement),
        Err(problem) => bail_user!("{problem}"),
    }
}

/// It may be on so many processors.
pub fn within(placement: &Placement, processors: usize) -> anyhow::Result<()> {
    let on = placement.processors();
    if on > processors {
        bail_user!("{} is on {on} processors, and {processors} may be used", placement.name());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::UserError;

    #[test]
    fn placements_are_found_once_and_mistakes_are_the_users() {
        let all = named(&["all".to_owned(), "so".to_owned()]).unwrap();
        let names: Vec<_> = all.iter().map(|one| one.name()).collect();
        assert_eq!(names, ["base", "SO", "RO", "DSR", "SR", "io"]);
        let errors = [
            (named(&["XY".to_owned()]).unwrap_err(), "base, SO, RO, DSR, SR, io, and all"),
            (parse("A=tea").unwrap_err(), "there is no stage tea"),
            (within(&all[1], 1).unwrap_err(), "SO is on 2 processors, and 1 may be used"),
        ];
        for (error, says) in errors {
            assert!(error.is::<UserError>() && error.to_string().contains(says), "{error}");
        }
        assert!(within(&all[0], 1).is_ok() && within(&all[1], 2).is_ok());
    }
}
