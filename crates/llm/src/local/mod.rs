//! What is known about a model on a server of the user's own: whether it supports native tool calls, its context length, how many calls
//! the server serves at once. Shared by all backends of the process that use the same model at the same address;
//! hosted providers are never asked.

mod facts;
mod fit;
mod plan;
mod shorten;

pub use facts::LocalModel;
pub(crate) use facts::{NoAnswer, ServerFacts, ServerKind, listed_models, listed_ollama_models};
pub(crate) use plan::{CallPlan, Finding, RequestShape};

use crate::BuildError;
use crate::http::is_private;
use crate::limits::whole_number;
use crate::providers::{Api, Provider};
use crate::tool_calling::{self, CallForm};
use althing_protocol::{BackendConfig, Notice, NoticeLevel};
use facts::Probe;
use reqwest::header::HeaderMap;
use reqwest::{Client, Url};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use tokio::sync::{Mutex as AsyncMutex, OwnedSemaphorePermit, Semaphore};

/// Models with fewer parameters begin with `schema`, because small models write their tool calls as text.
const SMALL_MODEL: u64 = 4_000_000_000;

#[derive(Debug, Default)]
pub(crate) struct ModelState {
    facts: AsyncMutex<Option<Arc<ServerFacts>>>,
    known: Mutex<Known>,
    slots: OnceLock<Arc<Semaphore>>,
}

#[derive(Debug, Default)]
struct Known {
    /// The form to which `auto` has moved.
    form: Option<CallForm>,
    /// By how many percent prompts are shortened, learned from rejections of long prompts.
    shrink: u32,
}

/// The states of the whole process, by address and model.
static STATES: Mutex<Vec<(Url, String, Arc<ModelState>)>> = Mutex::new(Vec::new());

fn state_of(url: &Url, model: &str) -> Arc<ModelState> {
    let mut states = STATES.lock().unwrap_or_else(PoisonError::into_inner);
    let known = states.iter().find(|(at, name, _)| at == url && name == model);
    if let Some((_, _, state)) = known {
        return Arc::clone(state);
    }
    let state = Arc::<ModelState>::default();
    states.push((url.clone(), model.to_owned(), Arc::clone(&state)));
    state
}

#[derive(Debug)]
pub(crate) struct LocalCalls {
    /// The parameter `tool_calling`; `None` means `auto`.
    setting: Option<CallForm>,
    /// Whether the form of tool calls may be changed, and calls written as text are understood in the native form, too.
    pub(crate) adapts: bool,
    context: Option<u64>,
    at_once: Option<usize>,
    probe: Option<Probe>,
    state: Arc<ModelState>,
}

impl LocalCalls {
    pub(crate) fn new(
        config: &BackendConfig,
        provider: &'static Provider,
        client: &Client,
        (url, headers): (&Url, &HeaderMap),
    ) -> Result<Self, BuildError> {
        let setting = tool_calling::from_params(&config.params)?;
        let is_chat = matches!(provider.api_for(config)?, Api::Chat | Api::AzureChat);
        if !is_chat && setting.is_some_and(|form| form != CallForm::Native) {
            return Err(BuildError::BadParam {
                name: "tool_calling",
                expected: "`auto` or `native` here: `schema` and `text` need the chat-completions API (`api: chat`)",
            });
        }
        let model = config.model.clone().unwrap_or_default();
        let is_own = is_chat && provider.key_variable.is_none();
        let host = url.host_str().unwrap_or_default();
        let is_asked = is_own && (provider.kind != "chatcompletion" || is_private(host));
        let probe = is_asked.then(|| Probe::new(client, url, headers, &model));
        let at_once = match whole_number(&config.params, "max_concurrent")? {
            Some(0) => {
                return Err(BuildError::BadParam {
                    name: "max_concurrent",
                    expected: "a whole number above 0",
                });
            }
            n => n.map(|n| usize::try_from(n).unwrap_or(usize::MAX).min(Semaphore::MAX_PERMITS)),
        };
        Ok(Self {
            setting,
            adapts: is_own && setting.is_none(),
            context: whole_number(&config.params, "context_length")?.filter(|n| *n > 0),
            at_once,
            probe,
            state: state_of(url, &model),
        })
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.state.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The server is asked once, and again if it could not be reached.
    pub(crate) async fn facts(&self) -> Arc<ServerFacts> {
        let Some(probe) = &self.probe else { return Arc::default() };
        let mut facts = self.state.facts.lock().await;
        if let Some(facts) = &*facts {
            return Arc::clone(facts);
        }
        match probe.ask().await {
            Some(found) => Arc::clone(facts.insert(Arc::new(found))),
            None => Arc::default(),
        }
    }

    pub(crate) fn form(&self, facts: &ServerFacts) -> CallForm {
        self.setting.or_else(|| self.known().form).unwrap_or_else(|| {
            let is_small = facts.parameters.is_some_and(|count| count < SMALL_MODEL);
            let is_known = facts.server != ServerKind::Unknown;
            if self.adapts && is_known && (is_small || facts.calls_tools == Some(false)) {
                CallForm::Schema
            } else {
                CallForm::Native
            }
        })
    }

    /// Returns the notice about the change; `None` if another call has already changed the form, or if the form cannot
    /// change.
    pub(crate) fn move_down(&self, from: CallForm, name: &str, why: &str) -> Option<Notice> {
        let below = from.below().filter(|_| self.adapts)?;
        let mut known = self.known();
        if known.form.is_some_and(|form| form > from) {
            return None;
        }
        known.form = Some(below);
        let how = match below {
            CallForm::Schema => "tool calls are now requested as JSON with a schema",
            CallForm::Text | CallForm::Native => "tool calls are now read from the text of replies",
        };
        let hint = format!("set `tool_calling: {}` in the backend's config to begin with this", below.name());
        Some(Notice { level: NoticeLevel::Info, text: format!("{name}: {why}; {how}"), hint: Some(hint) })
    }

    pub(crate) fn has_moved(&self, form: CallForm) -> bool {
        self.known().form.is_some_and(|now| now > form)
    }

    /// The context length in tokens.
    pub(crate) fn context(&self, facts: &ServerFacts) -> Option<u64> {
        self.context.or(facts.context)
    }

    pub(crate) fn shrink(&self) -> bool {
        let mut known = self.known();
        known.shrink += 20;
        known.shrink <= 80
    }

    pub(crate) fn shrink_percent(&self) -> u32 {
        self.known().shrink.min(80)
    }

    fn slots(&self, facts: &ServerFacts) -> Option<&Arc<Semaphore>> {
        let at_once = self.at_once.or(facts.slots)?;
        Some(self.state.slots.get_or_init(|| Arc::new(Semaphore::new(at_once))))
    }

    /// Fails if no slot is free now; `Ok(None)` if the number of calls is not limited.
    pub(crate) fn try_slot(
        &self,
        facts: &ServerFacts,
    ) -> Result<Option<OwnedSemaphorePermit>, Arc<Semaphore>> {
        let Some(slots) = self.slots(facts) else { return Ok(None) };
        Arc::clone(slots).try_acquire_owned().map(Some).map_err(|_| Arc::clone(slots))
    }
}
