//! The processors, as far as they decide about latency.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use crate::finding::{Finding, read};

/// Microseconds. Waking from a deeper idle state costs more than a whole message does.
const TOLERABLE_WAKE: u32 = 5;

/// CPUs. With fewer, a progress thread and the application share one.
const WANTED_CPUS: usize = 3;

/// Looks at the processors. `root` is `/` but in tests.
pub fn inspect(root: &Path) -> Vec<Finding> {
    let cpus = cpu_directories(root);
    vec![model(root), count(cpus.len()), clock(root), governor(&cpus), idle_states(&cpus)]
}

fn cpu_directories(root: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(root.join("sys/devices/system/cpu")) else { return Vec::new() };
    let mut paths: Vec<_> = entries.flatten().map(|entry| entry.path()).collect();
    paths.retain(|path| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let number = name.strip_prefix("cpu").unwrap_or_default();
        !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())
    });
    paths
}

fn model(root: &Path) -> Finding {
    let text = read(&root.join("proc/cpuinfo")).unwrap_or_default();
    let field = |label: &str| {
        text.lines().find_map(|line| {
            let (name, value) = line.split_once(':')?;
            (name.trim() == label).then(|| value.trim().to_owned())
        })
    };
    let virtual_machine = field("flags").is_some_and(|f| f.split(' ').any(|f| f == "hypervisor"));
    match field("model name").or_else(|| field("Model")) {
        Some(name) if virtual_machine => Finding::note("model", name + ", in a virtual machine"),
        Some(name) => Finding::note("model", name),
        None => Finding::not_visible("model"),
    }
}

fn count(cpus: usize) -> Finding {
    match cpus {
        0 => Finding::not_visible("CPUs"),
        n if n < WANTED_CPUS => Finding::warn(
            "CPUs",
            n.to_string(),
            "spinning processes share CPUs here; measure with one busy process a CPU",
        ),
        n => Finding::ok("CPUs", n.to_string()),
    }
}

fn clock(root: &Path) -> Finding {
    const NAME: &str = "clock";
    let path = "sys/devices/system/clocksource/clocksource0/current_clocksource";
    match read(&root.join(path)).as_deref() {
        None => Finding::not_visible(NAME),
        // Those that are read without a call into the kernel or the hypervisor.
        Some(fast @ ("tsc" | "kvm-clock" | "arch_sys_counter" | "hyperv_clocksource_tsc_page")) => {
            Finding::ok(NAME, fast)
        }
        Some(slow) => Finding::warn(
            NAME,
            format!("{slow}: slow to read"),
            "if the machine has a stable TSC, boot with clocksource=tsc",
        ),
    }
}

fn governor(cpus: &[PathBuf]) -> Finding {
    const NAME: &str = "governor";
    let found: BTreeSet<_> =
        cpus.iter().filter_map(|cpu| read(&cpu.join("cpufreq/scaling_governor"))).collect();
    let names = found.iter().map(String::as_str).collect::<Vec<_>>().join(", ");
    match found.len() {
        0 => Finding::not_visible(NAME),
        1 if names == "performance" => Finding::ok(NAME, names),
        _ => Finding::warn(NAME, names, "sudo cpupower frequency-set -g performance"),
    }
}

fn idle_states(cpus: &[PathBuf]) -> Finding {
    const NAME: &str = "idle states";
    let Some(states) = cpus.first().map(|cpu| enabled_states(cpu)) else {
        return Finding::not_visible(NAME);
    };
    let Some((_, wake)) = states.iter().max_by_key(|(_, wake)| *wake) else {
        return Finding::not_visible(NAME);
    };
    let list = states.iter().map(|(name, wake)| format!("{name} ({wake} µs)"));
    let list = list.collect::<Vec<_>>().join(", ");
    if *wake <= TOLERABLE_WAKE {
        return Finding::ok(NAME, list);
    }
    let advice = format!(
        "a sleeping receiver wakes up to {wake} µs late; spinning ones do not; \
         sudo cpupower idle-set -D {TOLERABLE_WAKE}"
    );
    Finding::warn(NAME, list, advice)
}

/// Names of the states a CPU may sleep in, with the microseconds it takes to wake.
fn enabled_states(cpu: &Path) -> Vec<(String, u32)> {
    let Ok(entries) = fs::read_dir(cpu.join("cpuidle")) else { return Vec::new() };
    let mut states: Vec<_> = entries
        .flatten()
        .filter_map(|entry| {
            let file = |name: &str| read(&entry.path().join(name));
            let enabled = file("disable").is_none_or(|disable| disable == "0");
            enabled.then_some((file("name")?, file("latency")?.parse().ok()?))
        })
        .collect();
    states.sort_by_key(|(_, wake)| *wake);
    states
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::Mark;

    struct Machine(tempfile::TempDir);

    impl Machine {
        fn new(cpus: usize) -> Self {
            let machine = Self(tempfile::tempdir().unwrap());
            (0..cpus).for_each(|n| machine.write(n, "topology/core_id", "0"));
            machine
        }

        fn write(&self, cpu: usize, file: &str, text: &str) {
            let path = self.0.path().join(format!("sys/devices/system/cpu/cpu{cpu}/{file}"));
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }

        fn finding(&self, name: &str) -> Finding {
            inspect(self.0.path()).into_iter().find(|finding| finding.name == name).unwrap()
        }
    }

    #[test]
    fn what_is_not_there_is_not_visible() {
        let bare = Machine::new(0);
        for name in ["model", "CPUs", "clock", "governor", "idle states"] {
            assert_eq!(bare.finding(name), Finding::not_visible(name));
        }
        assert_eq!(Machine::new(4).finding("governor"), Finding::not_visible("governor"));
        assert_eq!(Machine::new(4).finding("CPUs").mark, Mark::Ok);
        assert_eq!(Machine::new(2).finding("CPUs").mark, Mark::Warn);
    }

    #[test]
    fn one_cpu_with_another_governor_is_told() {
        let machine = Machine::new(3);
        (0..3).for_each(|cpu| machine.write(cpu, "cpufreq/scaling_governor", "performance\n"));
        assert_eq!(machine.finding("governor").mark, Mark::Ok);
        machine.write(2, "cpufreq/scaling_governor", "powersave\n");
        let finding = machine.finding("governor");
        assert_eq!((finding.mark, finding.value.as_str()), (Mark::Warn, "performance, powersave"));
    }

    #[test]
    fn deep_idle_states_are_told_unless_disabled() {
        let machine = Machine::new(1);
        for (state, name, wake) in [(0, "POLL", "0"), (1, "C1", "2"), (2, "C6", "133")] {
            machine.write(0, &format!("cpuidle/state{state}/name"), name);
            machine.write(0, &format!("cpuidle/state{state}/latency"), wake);
            machine.write(0, &format!("cpuidle/state{state}/disable"), "0");
        }
        let finding = machine.finding("idle states");
        assert_eq!(finding.value, "POLL (0 µs), C1 (2 µs), C6 (133 µs)");
        assert!(finding.advice.unwrap().contains("133 µs late"));
        machine.write(0, "cpuidle/state2/disable", "1");
        assert_eq!(machine.finding("idle states").mark, Mark::Ok);
    }
}
