//! Chooses which models of local servers agents are made of: different models that fit into memory together, or one
//! model with different approaches.

use crate::small_models::is_small;

const MAX_AGENTS: usize = 3;
const SMALL_MODEL: u64 = 4_000_000_000;
/// What a loaded model needs besides its file: the context of its calls.
const CONTEXT_BYTES: u64 = 500_000_000;

/// The approaches of agents that share one model, so that their answers differ.
const APPROACHES: [&str; MAX_AGENTS] = [
    "Answer directly and simply. Prefer the plainest solution that is complete.",
    "Work step by step. Check each step and the final result before you answer.",
    "Look for what others miss: special cases, wrong assumptions, and errors in the other answers.",
];

/// A model of a local server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DetectedModel {
    /// The name of the model on the server.
    pub name: String,
    /// The size of the model's file in bytes, if the server says it.
    pub bytes: Option<u64>,
    /// The number of parameters, if it is known.
    pub parameters: Option<u64>,
    /// Whether the model is in memory already.
    pub is_loaded: bool,
}

/// A running model server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DetectedServer {
    /// The backend type.
    pub kind: &'static str,
    /// The name of the server program, for people.
    pub title: &'static str,
    /// The address of the server.
    pub base_url: String,
    /// The models that write text.
    pub models: Vec<DetectedModel>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LocalAgent<'a> {
    pub(crate) server: &'a DetectedServer,
    pub(crate) model: &'a DetectedModel,
    pub(crate) system_message: Option<&'static str>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct LocalTeam<'a> {
    pub(crate) agents: Vec<LocalAgent<'a>>,
    /// Models that do not fit into the free memory, even alone.
    pub(crate) too_large: Vec<&'a DetectedModel>,
}

impl<'a> LocalTeam<'a> {
    /// `memory` is the free memory in bytes; if it is not known, every model counts as fitting. Loaded models are
    /// taken first.
    pub(crate) fn choose(servers: &'a [DetectedServer], memory: Option<u64>) -> Self {
        let fits = |bytes: u64| memory.is_none_or(|memory| bytes <= memory);
        let all = servers.iter().flat_map(|server| server.models.iter().map(move |model| (server, model)));
        let (mut fitting, too_large): (Vec<_>, Vec<_>) = all.partition(|(_, model)| fits(need(model)));
        fitting.sort_by_key(|(_, model)| !model.is_loaded);
        let mut used = 0_u64;
        let mut agents: Vec<LocalAgent<'a>> = Vec::new();
        for (server, model) in fitting {
            let together = used.saturating_add(need(model));
            if agents.len() < MAX_AGENTS && fits(together) {
                used = together;
                agents.push(LocalAgent { server, model, system_message: None });
            }
        }
        if let [only] = agents.as_slice() {
            let only = *only;
            let with = |message| LocalAgent { system_message: Some(message), ..only };
            agents = APPROACHES.into_iter().map(with).collect();
        }
        Self { agents, too_large: too_large.into_iter().map(|(_, model)| model).collect() }
    }

    /// Judged by the number of parameters and by the names, as in the check of a config, which knows only names.
    /// Small models judge and present poorly.
    pub(crate) fn is_small(&self) -> bool {
        let is_small = |LocalAgent { model, .. }: &LocalAgent<'_>| {
            is_small(&model.name) || model.parameters.is_some_and(|count| count < SMALL_MODEL)
        };
        !self.agents.is_empty() && self.agents.iter().all(is_small)
    }
}

/// The bytes that the model needs in addition to the memory that is in use.
fn need(model: &DetectedModel) -> u64 {
    match model.bytes {
        Some(bytes) if !model.is_loaded => bytes.saturating_add(CONTEXT_BYTES),
        _ => 0,
    }
}

pub(crate) fn with_size(model: &DetectedModel) -> String {
    match model.bytes {
        Some(bytes) => format!("{} {:.1} GB", model.name, bytes as f64 / 1e9),
        None => model.name.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server(models: &[(&str, u64, bool)]) -> DetectedServer {
        let models = models.iter().map(|(name, gigabytes, is_loaded)| DetectedModel {
            name: (*name).to_owned(),
            bytes: Some(gigabytes * 1_000_000_000),
            parameters: Some(gigabytes * 2_000_000_000),
            is_loaded: *is_loaded,
        });
        DetectedServer { kind: "ollama", title: "Ollama", base_url: String::new(), models: models.collect() }
    }

    fn names(team: &LocalTeam<'_>) -> Vec<String> {
        team.agents.iter().map(|agent| agent.model.name.clone()).collect()
    }

    #[test]
    fn a_team_has_different_models_that_fit_into_memory_together() {
        let servers = [server(&[
            ("big", 40, false),
            ("a", 4, false),
            ("b", 3, false),
            ("c", 2, false),
            ("d", 1, true),
        ])];
        let team = LocalTeam::choose(&servers, Some(9_000_000_000));
        assert_eq!(names(&team), ["d", "a", "b"]);
        assert_eq!(team.too_large.iter().map(|model| model.name.as_str()).collect::<Vec<_>>(), ["big"]);
        assert!(team.agents.iter().all(|agent| agent.system_message.is_none()));
        let team = LocalTeam::choose(&servers, None);
        assert_eq!(names(&team), ["d", "big", "a"], "without a known limit everything fits");
    }

    #[test]
    fn one_model_gets_three_agents_with_different_approaches_and_none_that_does_not_fit() {
        let servers = [server(&[("only", 1, false), ("big", 40, false)])];
        let team = LocalTeam::choose(&servers, Some(8_000_000_000));
        assert_eq!(names(&team), ["only", "only", "only"]);
        let messages: std::collections::BTreeSet<_> =
            team.agents.iter().map(|agent| agent.system_message).collect();
        assert_eq!(messages.len(), 3);
        assert!(team.is_small());
        let none = LocalTeam::choose(&servers, Some(1_000_000));
        assert!(none.agents.is_empty() && none.too_large.len() == 2 && !none.is_small());
    }

    #[test]
    fn a_model_is_small_if_its_name_says_so_as_in_the_check_of_a_config() {
        let mut servers = [server(&[("qwen3-4b", 1, false)])];
        servers[0].models[0].parameters = Some(4_020_000_000);
        assert!(LocalTeam::choose(&servers, None).is_small());
    }
}
