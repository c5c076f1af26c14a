//! The secrets that this process knows. They are masked (redacted) in everything that it writes: logs, terminal output,
//! panic messages.

use crate::environment::Environment;
use althing_config::may_be_masked_if_found;
use althing_engine::EventMasker;
use althing_journal::{Masker, MaskingStream};
use althing_protocol::{Event, Fact, Item, MaskStream, Op, OutputMasking, Secret};
use althing_text::sanitize;
use std::borrow::Cow;
use std::io::Write;
use std::sync::{Arc, PoisonError, RwLock};

// The secrets are static, because the panic hook has no other way to reach them. The maskers are built only when they
// are needed, because that takes some milliseconds.
static MASKERS: RwLock<Option<Arc<Maskers>>> = RwLock::new(None);
static KNOWN: RwLock<Known> = RwLock::new(Known { own: Vec::new(), found: Vec::new() });

#[derive(Clone)]
struct Known {
    /// The user's own secrets.
    own: Vec<Secret>,
    /// Values that only a `.env` in the working directory says are secrets. Its author may be anybody, so they are
    /// masked only in free text: never in what the user approves, nor in commands, paths and other parts of events that
    /// decide what Althing does.
    found: Vec<Secret>,
}

impl Known {
    fn len(&self) -> (usize, usize) {
        (self.own.len(), self.found.len())
    }
}

#[derive(Default)]
struct Maskers {
    all: Arc<Masker>,
    own: Arc<Masker>,
}

impl Maskers {
    fn new(known: &Known) -> Self {
        let own = Arc::new(Masker::new(known.own.iter().map(Secret::reveal)));
        let all = || Masker::new(known.own.iter().chain(&known.found).map(Secret::reveal));
        let all = if known.found.is_empty() { own.clone() } else { Arc::new(all()) };
        Self { all, own }
    }
}

/// Registers an environment's secrets to be masked.
pub fn register_environment(environment: &Environment) {
    register(environment.own_secrets(), environment.found_secrets());
}

/// Registers secrets of the user to be masked.
pub fn register_secrets(secrets: Vec<Secret>) {
    register(secrets, Vec::new());
}

/// Registers the secrets of a file that the user named or trusts. Values that it took from a `.env` in the working
/// directory do not become the user's own.
pub(crate) fn register_secrets_of_file(secrets: Vec<Secret>, environment: &Environment) {
    let (found, own): (Vec<Secret>, Vec<Secret>) =
        secrets.into_iter().partition(|secret| environment.is_value_of_found(secret));
    register(own, found.into_iter().filter(may_be_masked_if_found).collect());
}

fn register(own: Vec<Secret>, found: Vec<Secret>) {
    let mut known = KNOWN.write().unwrap_or_else(PoisonError::into_inner);
    known.own.extend(own);
    known.found.extend(found);
    drop(known);
    *MASKERS.write().unwrap_or_else(PoisonError::into_inner) = None;
}

fn maskers() -> Option<Arc<Maskers>> {
    if let Some(maskers) = &*MASKERS.read().unwrap_or_else(PoisonError::into_inner) {
        return Some(maskers.clone());
    }
    // No lock is held while the maskers are built: if building them panics, the panic hook calls this function again.
    let known = KNOWN.read().unwrap_or_else(PoisonError::into_inner).clone();
    if known.len() == (0, 0) {
        return None;
    }
    let maskers = Arc::new(Maskers::new(&known));
    // The maskers are kept only if no secrets were registered meanwhile. None can be registered while `now` is held.
    let now = KNOWN.read().unwrap_or_else(PoisonError::into_inner);
    let is_current = now.len() == known.len();
    if is_current {
        *MASKERS.write().unwrap_or_else(PoisonError::into_inner) = Some(maskers.clone());
    }
    drop(now);
    if !is_current {
        return self::maskers();
    }
    if !maskers.all.is_searchable() || !maskers.own.is_searchable() {
        tracing::error!("the secret masker could not be built: all output is masked");
    }
    Some(maskers)
}

/// The text with known secrets masked.
pub fn mask(text: &str) -> Cow<'_, str> {
    match maskers() {
        Some(maskers) => Cow::Owned(maskers.all.mask_text(text).into_owned()),
        None => Cow::Borrowed(text),
    }
}

/// Masks only the user's own secrets. For texts of Althing itself, which may list paths or commands, or which the user
/// has to judge: the author of a `.env` in the working directory must not be able to hide anything in them.
pub fn mask_own(text: &str) -> Cow<'_, str> {
    match maskers() {
        Some(maskers) => Cow::Owned(maskers.own.mask_text(text).into_owned()),
        None => Cow::Borrowed(text),
    }
}

/// Masks a session's events with the secrets known now.
pub fn session_mask() -> Arc<dyn EventMasker> {
    Arc::new(SessionMasker { maskers: maskers().unwrap_or_default() })
}

/// Masks the stored output of a program with the secrets that are known when the program starts.
pub fn output_masking() -> Arc<dyn OutputMasking> {
    Arc::new(CurrentSecrets)
}

#[derive(Debug)]
struct CurrentSecrets;

impl OutputMasking for CurrentSecrets {
    fn stream(&self) -> Box<dyn MaskStream> {
        Box::new(MaskingStream::new(maskers().unwrap_or_default().all.clone()))
    }
}

struct SessionMasker {
    maskers: Arc<Maskers>,
}

impl EventMasker for SessionMasker {
    fn event(&self, event: Event) -> Event {
        // A change that has to be allowed becomes a question with the same words.
        let is_question = match &event.fact {
            Fact::InteractionOpened(_) => true,
            Fact::ItemAdded { item: Item::EditProposed { preview, .. }, .. } => preview.ask,
            _ => false,
        };
        let event = if is_question { event } else { self.maskers.all.mask_free_text(event) };
        self.maskers.own.mask_event(event)
    }

    fn secret_place(&self, op: &Op) -> Option<String> {
        self.maskers.own.secret_place(op)
    }

    fn text(&self, text: &str) -> String {
        self.maskers.all.mask_text(text).into_owned()
    }

    fn unfinished(&self, text: &str) -> usize {
        self.maskers.all.unfinished(text)
    }
}

/// Installs a panic hook that masks secrets and sanitizes foreign text in the message.
pub fn guard_panics() {
    std::panic::set_hook(Box::new(|panic| {
        let text = panic.to_string();
        tracing::error!(text, "internal error");
        let _ = writeln!(std::io::stderr(), "althing: internal error: {}", sanitize::output(&mask(&text)));
        let _ = writeln!(
            std::io::stderr(),
            "  hint: everything recorded so far is saved; if a session was running, `althing resume` continues it"
        );
    }));
}
