//! The secrets that this process knows. They are masked in everything that it writes: logs, terminal output, panic
//! messages.

use crate::environment::Environment;
use althing_engine::EventMasker;
use althing_journal::{Masker, MaskingStream};
use althing_protocol::{Event, Fact, MaskStream, OutputMasking, Secret};
use althing_text::sanitize;
use std::borrow::Cow;
use std::io::Write;
use std::sync::{Arc, PoisonError, RwLock};

// The masker is static, because the panic hook has no other way to reach it. It is built only when it is needed,
// because that takes some milliseconds.
static MASKER: RwLock<Option<Arc<Masker>>> = RwLock::new(None);
static KNOWN: RwLock<Vec<Secret>> = RwLock::new(Vec::new());

// The secrets that occur only in `.env`, a config or a session that was found in the working directory. They are not
// masked in questions to the user: their author could otherwise hide a part of what the user approves.
static FOUND: RwLock<Vec<Secret>> = RwLock::new(Vec::new());

/// Registers an environment's secrets to be masked.
pub fn register_environment(environment: &Environment) {
    FOUND.write().unwrap_or_else(PoisonError::into_inner).extend(environment.found_secrets());
    register_secrets(environment.secrets());
}

/// Shows the secrets of a found config or session in questions to the user, except those that are the user's own.
pub(crate) fn show_in_questions(secrets: &[Secret], environment: &Environment) {
    let found = environment.found_secrets();
    let is_found = |secret: &Secret| found.iter().any(|found| found.reveal() == secret.reveal());
    let own: Vec<Secret> = environment.secrets().into_iter().filter(|secret| !is_found(secret)).collect();
    let is_own = |secret: &&Secret| own.iter().any(|own| own.reveal() == secret.reveal());
    let shown = secrets.iter().filter(|secret| !is_own(secret)).cloned();
    FOUND.write().unwrap_or_else(PoisonError::into_inner).extend(shown);
}

/// Registers secrets to be masked.
pub fn register_secrets(secrets: Vec<Secret>) {
    KNOWN.write().unwrap_or_else(PoisonError::into_inner).extend(secrets);
    *MASKER.write().unwrap_or_else(PoisonError::into_inner) = None;
}

fn masker() -> Option<Arc<Masker>> {
    if let Some(masker) = &*MASKER.read().unwrap_or_else(PoisonError::into_inner) {
        return Some(masker.clone());
    }
    // No lock is held while the masker is built: if building it panics, the panic hook calls this function again.
    let known = KNOWN.read().unwrap_or_else(PoisonError::into_inner).clone();
    if known.is_empty() {
        return None;
    }
    let masker = Arc::new(Masker::new(known.iter().map(Secret::reveal)));
    // The masker is kept only if no secrets were registered meanwhile. None can be registered while `now` is held.
    let now = KNOWN.read().unwrap_or_else(PoisonError::into_inner);
    let is_current = now.len() == known.len();
    if is_current {
        *MASKER.write().unwrap_or_else(PoisonError::into_inner) = Some(masker.clone());
    }
    drop(now);
    if !is_current {
        return self::masker();
    }
    if !masker.is_searchable() {
        tracing::error!("the secret masker could not be built: all output is masked");
    }
    Some(masker)
}

/// The text with known secrets masked.
pub fn mask(text: &str) -> Cow<'_, str> {
    match masker() {
        Some(masker) => Cow::Owned(masker.mask_text(text).into_owned()),
        None => Cow::Borrowed(text),
    }
}

fn question_masker() -> Option<Arc<Masker>> {
    let found = FOUND.read().unwrap_or_else(PoisonError::into_inner).clone();
    if found.is_empty() {
        return masker();
    }
    let known = KNOWN.read().unwrap_or_else(PoisonError::into_inner).clone();
    let is_found = |value: &&str| found.iter().any(|found| found.reveal() == *value);
    Some(Arc::new(Masker::new(known.iter().map(Secret::reveal).filter(|value| !is_found(value)))))
}

/// A text that the user has to judge. Known secrets are masked, except those that occur only in something that was found
/// in the working directory.
pub fn mask_question(text: &str) -> Cow<'_, str> {
    match question_masker() {
        Some(masker) => Cow::Owned(masker.mask_text(text).into_owned()),
        None => Cow::Borrowed(text),
    }
}

/// Masks a session's events with the secrets known now.
pub fn session_mask() -> Arc<dyn EventMasker> {
    Arc::new(SessionMasker {
        all: masker().unwrap_or_default(),
        questions: question_masker().unwrap_or_default(),
    })
}

/// Masks the stored output of a program with the secrets that are known when the program starts.
pub fn output_masking() -> Arc<dyn OutputMasking> {
    Arc::new(CurrentSecrets)
}

#[derive(Debug)]
struct CurrentSecrets;

impl OutputMasking for CurrentSecrets {
    fn stream(&self) -> Box<dyn MaskStream> {
        Box::new(MaskingStream::new(masker().unwrap_or_default()))
    }
}

struct SessionMasker {
    all: Arc<Masker>,
    questions: Arc<Masker>,
}

impl EventMasker for SessionMasker {
    fn event(&self, event: Event) -> Event {
        let masker =
            if matches!(event.fact, Fact::InteractionOpened(_)) { &self.questions } else { &self.all };
        masker.mask_event(event)
    }

    fn text(&self, text: &str) -> String {
        self.all.mask_text(text).into_owned()
    }

    fn unfinished(&self, text: &str) -> usize {
        self.all.unfinished(text)
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
