//! What runs the programs of workflows here.

use crate::args::Options;
use crate::surroundings::Surroundings;
use althing_protocol::{CustomAdapter, Programs};
use std::sync::Arc;
use tokio::runtime::Runtime;

/// The adapters that are built in, by name.
pub const BUILT_IN: [&str; 5] = ["claude", "codex", "command", "gemini", "opencode"];

/// Makes what runs programs, with the adapters that the user described.
pub fn assemble(
    custom: Vec<CustomAdapter>,
    options: &Options,
    surroundings: &Surroundings,
    runtime: &Runtime,
) -> Option<Arc<dyn Programs>> {
    let _ = (custom, options, surroundings, runtime);
    None
}
