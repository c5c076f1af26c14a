//! Reads, checks and explains Althing's YAML config and workflow files. This crate never opens a file, reads the
//! environment or prints; its callers do, so that every rule here can be tested with a string.

mod abilities;
mod backends;
mod compose;
#[cfg(test)]
mod consumers;
mod cross_key_checks;
mod decision_rules;
mod diagnostic;
mod dotenv;
mod key_checker;
mod keys;
mod limits;
mod local_team;
mod memory;
mod misplaced;
#[cfg(test)]
mod most_used;
mod parse;
mod patterns;
mod quotes;
mod reference;
mod render;
mod report;
mod resolve;
mod scalar;
mod schema;
mod secrets;
mod shown_values;
mod small_models;
mod starter_config;
mod substitute;
mod surroundings;
mod syntax;
mod tools;
mod tree;
mod trust;
mod values;
mod variables;
mod workflow;

pub use backends::{
    BACKENDS, BackendApi, BackendType, BackendTypes, backend_type, is_loopback as is_on_this_machine,
};
pub use diagnostic::{Diagnostic, Severity};
pub use dotenv::{dotenv_assignments, parse_dotenv};
pub use local_team::{DetectedModel, DetectedServer};
pub use memory::memory_bytes;
pub use reference::reference;
pub use render::Style;
pub use report::{ConfigReport, LoadedConfig};
pub use schema::{schema, workflow_schema};
pub use secrets::{
    may_be_found_secret, may_be_masked_if_found, redact, secrets_in_found_variable, secrets_in_variable,
};
pub use shown_values::quoted_command;
pub use small_models::is_small_local_model;
pub use starter_config::{
    DetectedBackends, DetectedProvider, detect_cli_agents, detect_providers, starter_config,
};
pub use substitute::{WORKSPACE_PLACEHOLDER, fill_variables};
pub use surroundings::{Surroundings, UnknownModel};
pub use trust::TrustRequirement;
pub use variables::Variables;
pub use workflow::{
    TaskBody, WorkflowAgent, WorkflowContext, WorkflowFile, WorkflowStage, WorkflowTask, load_workflow,
    workflow_agents,
};

use althing_protocol::{McpTransport, Secret};

/// A config's text and its name for messages.
#[derive(Clone, Copy, Debug)]
pub struct Source<'a> {
    /// The file's name, for messages.
    pub name: &'a str,
    /// The content.
    pub text: &'a str,
}

/// What a config is read for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoadPurpose {
    /// To check the file: a missing API key or variable, or an unsupported backend type, is a warning.
    Check,
    /// To run the config now: a missing variable, a missing API key (except for a custom address), or an unsupported
    /// backend type is an error.
    Run,
    /// To run the config on the offline model: what other backends would need does not matter.
    Offline,
}

/// The minimum length in bytes: masking shorter secrets in logs and output would match too much.
const SHORTEST_SECRET: usize = 8;

/// Reads a config and reports all its problems. All variables count as the user's own.
pub fn load_config(
    source: Source<'_>,
    env: &dyn Fn(&str) -> Option<String>,
    purpose: LoadPurpose,
) -> ConfigReport {
    load_config_with(&BACKENDS, source, Variables::all_own(env), purpose)
}

/// Like [`load_config`], with this table of backend types and these variables.
pub fn load_config_with(
    backends: &'static BackendTypes,
    source: Source<'_>,
    env: Variables<'_>,
    purpose: LoadPurpose,
) -> ConfigReport {
    load_config_in(None, backends, source, env, purpose)
}

/// Like [`load_config_with`]; also reports problems that only the surroundings show.
pub fn load_config_in(
    surroundings: Option<Surroundings<'_>>,
    backends: &'static BackendTypes,
    source: Source<'_>,
    env: Variables<'_>,
    purpose: LoadPurpose,
) -> ConfigReport {
    let mut report = ConfigReport::empty(source.name);
    let quotable = if source.text.len() > limits::MAX_BYTES { "" } else { source.text };
    let mut sink = diagnostic::Sink::new(quotable);
    let mut parsed = match parse::parse(source.text) {
        Ok(parsed) => parsed,
        Err(problems) => {
            for parse::Located { span, path, problem } in problems {
                sink.error(span, &path, problem);
            }
            (report.errors, report.warnings) = sink.finish();
            return report;
        }
    };

    let literals = secrets::literals(&parsed);
    sink.set_secret_spans(literals.iter().map(|literal| literal.span).collect());
    for parse::Located { span, path, problem } in parsed.duplicates.drain(..) {
        sink.error(span, &path, problem);
    }
    // Must come before variables are substituted: a person who is asked for trust must see the names of variables,
    // not their values.
    let needs_trust = trust::find(&parsed.root, backends);
    let adapters = workflow::adapters::resolve(&parsed.root);
    let substituted = substitute::substitute(&mut parsed.root, env);
    let root = &parsed.root;
    if substituted.too_much {
        let problem = diagnostic::Problem::new("substituting variables makes the text too large");
        sink.error(root.span, "", problem.hint("use fewer `${VARIABLE}`s"));
    }
    key_checker::KeyChecker::new(&keys::ROOT, backends, &mut sink, purpose).document(root);
    cross_key_checks::check(root, env, purpose, backends, &mut sink);
    small_models::check(root, env, purpose, backends, &mut sink);
    if let Some(surroundings) = surroundings {
        surroundings::check(root, env, purpose, backends, surroundings, &mut sink);
    }
    (report.errors, report.warnings) = sink.finish();

    let mut seen: Vec<String> = literals.into_iter().map(|literal| literal.value).collect();
    seen.extend(secrets::literals(&parsed).into_iter().map(|literal| literal.value));
    seen.extend(substituted.secrets);
    if report.is_valid() {
        let mut config = resolve::config(root, env, backends);
        config.adapters = adapters;
        let own = config.interactive.iter().filter_map(|interactive| interactive.backend.as_ref());
        let all = config.agents.iter().map(|agent| &agent.backend).chain(own);
        // Any header may contain a key, regardless of its name.
        let sent = all
            .flat_map(|backend| backend.api_key.iter().chain(backend.headers.iter().map(|(_, value)| value)));
        let tools = config.agents.iter().map(|agent| &agent.tools);
        let tools = tools.chain(config.interactive.iter().map(|interactive| &interactive.tools));
        let servers = tools.flat_map(|tools| &tools.mcp_servers);
        let to_servers = servers.flat_map(|server| match &server.transport {
            // Secrets in a server's `env` were already found by the names of the variables.
            McpTransport::Stdio { .. } => &[],
            McpTransport::Http { headers, .. } => headers.as_slice(),
        });
        let sent = sent.chain(to_servers.map(|(_, value)| value));
        seen.extend(sent.map(|secret| secret.reveal().to_owned()));
        let plain_progress = resolve::plain_progress(root);
        report.config = Some(LoadedConfig { config, plain_progress, needs_trust });
    }
    report.secrets = worth_masking(&seen);
    report
}

fn worth_masking(seen: &[String]) -> Vec<Secret> {
    let mut cores: Vec<String> = seen.iter().map(|secret| secrets::search_term(secret).to_owned()).collect();
    cores.retain(|secret| secret.len() >= SHORTEST_SECRET && !secret.starts_with("${"));
    cores.sort();
    cores.dedup();
    cores.into_iter().map(Secret::new).collect()
}
