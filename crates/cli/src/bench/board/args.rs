//! What is asked of `emp bench board`.

/// Measure what a crossing between a program and the service `empd` costs: a frame from one client of it to another, both of this process, or
/// with --engine a question to an engine and its answer, and messages through engines.
///
/// With --clients or --flood it is measured in turns with two clients alone and with the others beside them, and what they cost is said.
#[derive(clap::Args)]
pub struct Args {
    /// Interface that the service serves.
    #[arg(long)]
    pub interface: String,
    /// Bytes behind a frame's header.
    #[arg(long, default_value_t = 64)]
    pub size: usize,
    /// Frames there and back.
    #[arg(long, default_value_t = 200_000, value_parser = clap::value_parser!(u32).range(1..))]
    pub rounds: u32,
    /// Clients in all, those two among them; the others do nothing.
    #[arg(long, default_value_t = 2)]
    pub clients: usize,
    /// One client more floods: the wire with frames that are for nobody, or with --engine another node with messages.
    #[arg(long)]
    pub flood: bool,
    /// Turns with the others, and as many without.
    #[arg(long, default_value_t = 5)]
    pub turns: usize,
    /// Sleep between a frame and its answer, as the service may.
    #[arg(long)]
    pub sleep: bool,
    /// Measure engines in the service, and not its link.
    #[arg(long)]
    pub engine: bool,
}
