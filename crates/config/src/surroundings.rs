//! Checks that need more than the text of a config: whether context paths exist, and whether providers have the
//! models. The caller answers these questions.

use crate::backends::{BackendApi, BackendTypes};
use crate::cross_key_checks;
use crate::diagnostic::{Problem, Sink};
use crate::tools::paths;
use crate::tree::Node;
use crate::{LoadPurpose, Variables};

/// What the caller knows about the world around a config.
#[derive(Clone, Copy)]
pub struct Surroundings<'a> {
    /// Whether a context path, as written in the config, is missing.
    pub is_missing: &'a dyn Fn(&str) -> bool,
    /// For a backend type and a model's name: Some if the provider does not seem to have the model.
    pub unknown_model: &'a dyn Fn(&str, &str) -> Option<UnknownModel>,
}

/// A model that its provider does not seem to have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnknownModel {
    /// A model of the provider with a similar name.
    pub similar: Option<&'static str>,
}

/// Context paths are only checked by `config check`; a run reports missing ones itself.
pub(crate) fn check(
    root: &Node,
    env: Variables<'_>,
    purpose: LoadPurpose,
    backends: &'static BackendTypes,
    surroundings: Surroundings<'_>,
    sink: &mut Sink<'_>,
) {
    if purpose == LoadPurpose::Check {
        for (node, location) in paths::named(root) {
            let Some(path) = node.as_text().filter(|_| node.unset().is_empty()) else { continue };
            if (surroundings.is_missing)(path) {
                let problem = Problem::new(format!("the context path `{path}` does not exist"))
                    .hint("correct the path, or create it; a relative path starts in the current directory");
                sink.warning(node.span, &location, problem);
            }
        }
    }
    if purpose == LoadPurpose::Offline {
        return;
    }
    let priced = root.get("prices").map(Node::entries).unwrap_or_default();
    for backend in cross_key_checks::backends(root) {
        let Some(kind) = backend.node.get("type").and_then(Node::as_text) else { continue };
        let Some(kind) = backends.named(kind).filter(|kind| kind.is_supported()) else { continue };
        // A server at another address has its own models.
        let is_elsewhere = cross_key_checks::address(backend.node, kind, env).as_deref() != kind.base_url;
        if matches!(kind.api, BackendApi::Offline | BackendApi::Program) || kind.is_local() || is_elsewhere {
            continue;
        }
        let Some(node) = backend.node.get("model").filter(|node| node.unset().is_empty()) else { continue };
        let Some(model) = node.as_text().map(str::trim).filter(|model| !model.is_empty()) else { continue };
        if kind.default_model == Some(model)
            || priced.iter().any(|price| price.key.eq_ignore_ascii_case(model))
        {
            continue;
        }
        let Some(UnknownModel { similar }) = (surroundings.unknown_model)(kind.name, model) else { continue };
        let similar = similar.map(|name| format!("did you mean `{name}`? ")).unwrap_or_default();
        let problem = Problem::new(format!("Althing knows no model `{model}` of {}", kind.title)).hint(format!(
            "{similar}if the name is right, ignore this, or add the model to `prices` so that its cost is known"
        ));
        sink.warning(node.span, &format!("{}.model", backend.path), problem);
    }
}
