//! The environment that makes an MPI take EMP, and those that make it take TCP, to compare.

use std::collections::BTreeSet;
use std::path::Path;

use super::{Family, Mpi};

/// The parameter of Open MPI that names the variables which ranks on other hosts get.
const ENV_LIST: &str = "OMPI_MCA_mca_base_env_list";

/// What EMP's own variables begin with.
const PREFIXES: [&str; 2] = ["FI_EMP_", "EMP_"];

/// Those that say something of the host on which a job is started, and of no other.
const OF_LAUNCHERS: [&str; 2] = ["EMP_LAB", "EMP_MPI_PATH"];

/// What carries the messages between hosts.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize, clap::ValueEnum,
)]
#[serde(rename_all = "lowercase")]
pub enum Transport {
    /// EMP, as a libfabric provider.
    Emp,
    /// What the MPI has for TCP of its own: btl/tcp of Open MPI, the `tcp` provider elsewhere.
    Tcp,
    /// libfabric's `tcp` provider with connections managed by `ofi_rxm`.
    Rxm,
    /// UCX over TCP.
    Ucx,
}

impl Transport {
    /// How tables name it with this MPI.
    pub fn name(self, mpi: &Mpi) -> &'static str {
        match (self, mpi.family) {
            (Self::Emp, _) => "EMP",
            (Self::Tcp, Family::OpenMpi) => "btl/tcp",
            (Self::Tcp, _) => "tcp",
            (Self::Rxm, _) => "tcp;ofi_rxm",
            (Self::Ucx, _) => "UCX tcp",
        }
    }

    /// Whether the MPI has it at all.
    pub fn is_there(self, mpi: &Mpi) -> bool {
        match self {
            Self::Emp | Self::Rxm => mpi.libfabric.is_some(),
            Self::Tcp => mpi.family == Family::OpenMpi || mpi.libfabric.is_some(),
            Self::Ucx => mpi.ucx,
        }
    }
}

/// Names of the variables that are set for this process.
pub fn names_set() -> impl Iterator<Item = String> {
    std::env::vars_os().filter_map(|(name, _)| name.into_string().ok())
}

/// Variables to set. Launchers hand them on to the ranks: hydra does so with all, Open MPI with its own and with those
/// that its `mca_base_env_list` names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// Name and value, in the order in which they are told.
    pub variables: Vec<(String, String)>,
}

impl Settings {
    /// For one MPI. `provider` is the directory of EMP's provider.
    pub fn new(mpi: &Mpi, transport: Transport, provider: &Path) -> Self {
        Self::on(mpi, transport, provider, &[])
    }

    /// The same on these interfaces together; none: as the provider chooses.
    pub fn on(mpi: &Mpi, transport: Transport, provider: &Path, interfaces: &[String]) -> Self {
        let mut settings = Self::default();
        if !interfaces.is_empty() {
            settings.set("FI_EMP_INTERFACES", interfaces.join(","));
        }
        match transport {
            Transport::Emp => settings.libfabric("emp", Some(provider)),
            Transport::Tcp if mpi.family != Family::OpenMpi => settings.libfabric("tcp", None),
            Transport::Rxm => settings.libfabric("tcp;ofi_rxm", None),
            Transport::Tcp | Transport::Ucx => {}
        }
        if transport == Transport::Ucx {
            // Shared memory would join ranks whose hosts are namespaces of one machine.
            settings.set("UCX_TLS", "tcp,self");
        }
        match mpi.family {
            Family::OpenMpi => settings.open_mpi(mpi, transport),
            Family::Mpich => {
                let module = if transport == Transport::Ucx { "ucx" } else { "ofi" };
                if mpi.ucx {
                    settings.set("MPIR_CVAR_CH4_NETMOD", module);
                }
            }
            Family::Intel => settings.set("I_MPI_FABRICS", "shm:ofi"),
        }
        settings
    }

    /// The same, with what the user has set of EMP's own variables: Open MPI hands nothing on that its list does not name, so a choice
    /// made where the job starts would not hold on other hosts.
    pub fn handing_on(mut self, mpi: &Mpi, set: impl IntoIterator<Item = String>) -> Self {
        if mpi.family != Family::OpenMpi {
            return self;
        }
        let listed = |(name, _): &&mut (String, String)| name == ENV_LIST;
        let Some((_, list)) = self.variables.iter_mut().find(listed) else { return self };
        let known: Vec<&str> = list.split(';').collect();
        let own = |name: &String| {
            let is_own = PREFIXES.iter().any(|prefix| name.starts_with(prefix));
            is_own && !OF_LAUNCHERS.contains(&&**name) && !known.contains(&&**name)
        };
        let more: BTreeSet<String> = set.into_iter().filter(own).collect();
        *list = known.into_iter().map(str::to_owned).chain(more).collect::<Vec<_>>().join(";");
        self
    }

    fn set(&mut self, name: &str, value: impl Into<String>) {
        self.variables.push((name.to_owned(), value.into()));
    }

    fn libfabric(&mut self, provider: &str, path: Option<&Path>) {
        if let Some(path) = path {
            self.set("FI_PROVIDER_PATH", path.display().to_string());
        }
        self.set("FI_PROVIDER", provider);
    }

    fn open_mpi(&mut self, mpi: &Mpi, transport: Transport) {
        let handed_on: Vec<String> = self.variables.iter().map(|(name, _)| name.clone()).collect();
        match transport {
            Transport::Emp | Transport::Rxm => {
                let provider = if transport == Transport::Emp { "emp" } else { "tcp;ofi_rxm" };
                self.set("OMPI_MCA_pml", "cm");
                // Debian's own defaults exclude it.
                self.set("OMPI_MCA_mtl", "ofi");
                let include = match mpi.major() {
                    0..5 => "OMPI_MCA_mtl_ofi_provider_include",
                    _ => "OMPI_MCA_opal_common_ofi_provider_include",
                };
                self.set(include, provider);
            }
            Transport::Tcp => {
                self.set("OMPI_MCA_pml", "ob1");
                let own = if mpi.major() < 5 { "tcp,vader,self" } else { "tcp,sm,self" };
                self.set("OMPI_MCA_btl", own);
            }
            Transport::Ucx => {
                self.set("OMPI_MCA_pml", "ucx");
                self.set("OMPI_MCA_osc", "ucx");
                // It leaves UCX to others unless there is hardware for it.
                self.set("OMPI_MCA_opal_common_ucx_tls", "any");
                self.set("OMPI_MCA_opal_common_ucx_devices", "any");
            }
        }
        if transport != Transport::Ucx {
            // One-sided operations by messages: Debian's defaults of 4 exclude them too, and leave none; of 5 this one prints an
            // error for each window that it does not serve.
            self.set("OMPI_MCA_osc", "^ucx");
        }
        if !handed_on.is_empty() {
            self.set(ENV_LIST, handed_on.join(";"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(family: Family, version: &str, transport: Transport) -> Vec<String> {
        let settings = Settings::new(&Mpi::example(family, version), transport, Path::new("/p"));
        settings.variables.iter().map(|(name, value)| format!("{name}={value}")).collect()
    }

    #[test]
    fn emp_is_named_to_libfabric_and_to_the_mpi() {
        assert_eq!(
            lines(Family::Mpich, "5.0.2", Transport::Emp),
            ["FI_PROVIDER_PATH=/p", "FI_PROVIDER=emp", "MPIR_CVAR_CH4_NETMOD=ofi"]
        );
        assert_eq!(
            lines(Family::Intel, "2021.16", Transport::Emp),
            ["FI_PROVIDER_PATH=/p", "FI_PROVIDER=emp", "I_MPI_FABRICS=shm:ofi"]
        );
        let open = lines(Family::OpenMpi, "4.1.4", Transport::Emp);
        for line in [
            "OMPI_MCA_pml=cm",
            "OMPI_MCA_mtl=ofi",
            "OMPI_MCA_mtl_ofi_provider_include=emp",
            "OMPI_MCA_mca_base_env_list=FI_PROVIDER_PATH;FI_PROVIDER",
        ] {
            assert!(open.iter().any(|other| other == line), "{open:?}");
        }
        let later = lines(Family::OpenMpi, "5.0.11", Transport::Emp);
        assert!(later.contains(&"OMPI_MCA_opal_common_ofi_provider_include=emp".to_owned()));
        for transport in [Transport::Emp, Transport::Tcp] {
            let later = lines(Family::OpenMpi, "5.0.11", transport);
            assert!(later.contains(&"OMPI_MCA_osc=^ucx".to_owned()), "{later:?}");
        }
    }

    #[test]
    fn what_the_user_has_chosen_goes_to_the_ranks_of_other_hosts() {
        let set = ["PATH", "FI_EMP_LINK", "EMP_SERVICE", "EMP_LAB", "FI_EMP_LINK", "FI_PROVIDER"];
        let on = |family, transport| {
            let mpi = Mpi::example(family, "4.1.4");
            let settings = Settings::new(&mpi, transport, Path::new("/p"));
            settings.handing_on(&mpi, set.map(str::to_owned)).variables
        };
        let list = |variables: Vec<(String, String)>| {
            variables.into_iter().find(|(name, _)| name == ENV_LIST).map(|(_, list)| list)
        };
        let emp = list(on(Family::OpenMpi, Transport::Emp));
        assert_eq!(emp.as_deref(), Some("FI_PROVIDER_PATH;FI_PROVIDER;EMP_SERVICE;FI_EMP_LINK"));
        assert_eq!(list(on(Family::OpenMpi, Transport::Tcp)), None);
        assert_eq!(list(on(Family::Mpich, Transport::Emp)), None, "hydra hands all on");
    }

    #[test]
    fn tcp_never_meets_emp() {
        for family in [Family::OpenMpi, Family::Mpich, Family::Intel] {
            for transport in [Transport::Tcp, Transport::Rxm, Transport::Ucx] {
                let lines = lines(family, "4.1", transport);
                assert!(!lines.iter().any(|line| line.contains("emp") || line.contains("/p")));
            }
        }
        assert!(lines(Family::OpenMpi, "4.1", Transport::Tcp).contains(&"OMPI_MCA_pml=ob1".into()));
        assert!(
            lines(Family::Mpich, "5", Transport::Ucx).contains(&"MPIR_CVAR_CH4_NETMOD=ucx".into())
        );
    }
}
