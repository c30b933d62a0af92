//! A lab's cables as a drawing: a row for each run of cables from host to host, a tree for each switch.

use super::plan::{Cable, End, Place, Plan};

/// Columns of a row: those of a terminal that people have.
const WIDTH: usize = 96;

/// The drawing, a line each.
pub fn draw(plan: &Plan) -> Vec<String> {
    let mut lines = Vec::new();
    for run in runs(plan) {
        lines.extend(row(plan, &run));
    }
    (0..plan.switches.len()).for_each(|switch| lines.extend(tree(plan, switch)));
    lines
}

/// One cable in the direction in which it is drawn.
struct Step<'p> {
    cable: &'p Cable,
    from: &'p End,
    to: &'p End,
}

/// The cables between hosts in runs, each of which goes on where it has come to: a ring is one, and so is a line.
fn runs(plan: &Plan) -> Vec<Vec<Step<'_>>> {
    let direct = |cable: &&Cable| cable.far.place != Place::Switch;
    let mut left: Vec<&Cable> = plan.cables.iter().filter(direct).collect();
    let mut runs = Vec::new();
    while !left.is_empty() {
        // From a host with an odd number of cables, where there is one: a run that begins elsewhere would leave its beginning over.
        let count = |place| {
            left.iter().flat_map(|cable| cable.ends()).filter(|end| end.place == place).count()
        };
        let places = (0..plan.hosts.len()).map(Place::Host).filter(|place| count(*place) > 0);
        let odd = places.clone().find(|place| count(*place) % 2 == 1);
        let Some(mut at) = odd.or_else(|| places.clone().next()) else { break };
        let mut run = Vec::new();
        while let Some(found) =
            left.iter().position(|cable| cable.ends().iter().any(|end| end.place == at))
        {
            let cable = left.remove(found);
            let (from, to) = match cable.near.place == at {
                true => (&cable.near, &cable.far),
                false => (&cable.far, &cable.near),
            };
            at = to.place;
            run.push(Step { cable, from, to });
        }
        runs.push(run);
    }
    runs
}

/// A run, on as many lines as it needs: `emp-a emp0───emp0 emp-b emp1───emp0 emp-c`.
fn row(plan: &Plan, run: &[Step<'_>]) -> Vec<String> {
    let Some(first) = run.first() else { return Vec::new() };
    let mut lines = vec![host(plan, first.from)];
    for step in run {
        let more = format!(
            " {}{}{} {}",
            step.from.interface,
            line(plan, step.cable),
            step.to.interface,
            host(plan, step.to)
        );
        let last = lines.len() - 1;
        if lines[last].chars().count() + more.chars().count() > WIDTH {
            lines.push(format!("  ⋯ {}{more}", host(plan, step.from)));
        } else {
            lines[last].push_str(&more);
        }
    }
    lines
}

fn host(plan: &Plan, end: &End) -> String {
    match end.place {
        Place::Host(index) => plan.hosts[index].name.clone(),
        Place::Switch => plan.switches.get(end.switch).cloned().unwrap_or_default(),
    }
}

/// What is between the two interfaces of a cable: what it has of its own, and whether it is pulled.
fn line(plan: &Plan, cable: &Cable) -> String {
    let mut words = Vec::new();
    words.extend(cable.limit.map(|limit| limit.words()));
    if cable.mtu != plan.mtu {
        words.push(format!("MTU {}", cable.mtu));
    }
    let words = if words.is_empty() { String::new() } else { format!(" {} ", words.join(", ")) };
    match cable.pulled {
        Some(_) => format!("──╳ {words}╳──"),
        None if words.is_empty() => "─────".to_owned(),
        None => format!("──{words}──"),
    }
}

/// A switch with what hangs on it.
fn tree(plan: &Plan, switch: usize) -> Vec<String> {
    let name = &plan.switches[switch];
    let here = |end: &&End| end.place == Place::Switch && end.switch == switch;
    let ports = plan.cables.iter().filter(|cable| cable.ends().iter().any(here));
    let port_words =
        plan.ports.map(|ports| format!("; ports {}", ports.words())).unwrap_or_default();
    let mut lines = vec![format!("switch {name}{port_words}")];
    let ports: Vec<_> = ports.collect();
    for (nth, cable) in ports.iter().enumerate() {
        let corner = if nth + 1 == ports.len() { "└" } else { "├" };
        let is_near = here(&&cable.near);
        let other = if is_near { &cable.far } else { &cable.near };
        let interface = match other.place {
            Place::Host(_) => format!("{} ", other.interface),
            Place::Switch => String::new(),
        };
        lines.push(format!("  {corner}{}{interface}{}", line(plan, cable), host(plan, other)));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::super::plan::{Side, Topology};
    use super::super::ports::Ports;
    use super::*;

    fn plan(hosts: usize, topology: Topology) -> Plan {
        Plan::new(hosts, topology, 1500).unwrap()
    }

    #[test]
    fn a_ring_is_one_run_that_ends_where_it_began() {
        let mut plan = plan(3, Topology::Ring);
        let ring = "emp-a emp0─────emp0 emp-b emp1─────emp0 emp-c emp1─────emp1 emp-a";
        assert_eq!(draw(&plan), [ring]);
        plan.cables[1].pulled = Some(Side::Far);
        plan.cables[2].mtu = 9000;
        plan.cables[2].limit = Some(Ports::parse("500mbit", "128K").unwrap());
        let ring = "emp-a emp0─────emp0 emp-b emp1──╳ ╳──emp0 emp-c emp1── 500 Mb/s 128 KiB, MTU 9000 ──emp1 emp-a";
        assert_eq!(draw(&plan), [ring]);
    }

    #[test]
    fn a_line_is_one_run_whatever_the_order_of_its_cables() {
        let mut plan = plan(4, Topology::Line);
        plan.cables.reverse();
        assert_eq!(draw(&plan).len(), 1);
        assert!(draw(&plan)[0].starts_with("emp-a ") && draw(&plan)[0].ends_with(" emp-d"));
    }

    #[test]
    fn every_cable_is_drawn_once_and_no_line_is_too_long() {
        for hosts in [4, 7, 32] {
            let plan = plan(hosts, Topology::Mesh);
            let lines = draw(&plan);
            let drawn: usize = lines.iter().map(|line| line.matches("─────").count()).sum();
            assert_eq!(drawn, plan.cables.len());
            assert!(lines.iter().all(|line| line.chars().count() <= WIDTH), "{lines:#?}");
        }
    }

    #[test]
    fn a_switch_is_a_tree() {
        let plan = plan(2, Topology::Switch);
        assert_eq!(draw(&plan), ["switch sw", "  ├─────emp0 emp-a", "  └─────emp0 emp-b"]);
        let slow = plan.with_ports(Ports::parse("2.5gbit", "1M").unwrap()).unwrap();
        assert_eq!(draw(&slow)[0], "switch sw; ports 2.5 Gb/s 1 MiB");
    }
}
