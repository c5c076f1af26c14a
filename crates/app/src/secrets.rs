//! The secrets that this process knows, masked in everything it writes: log, terminal, and panic messages.

use althing_engine::EventMasker;
use althing_journal::{Masker, MaskingStream};
use althing_protocol::{Event, MaskStream, OutputMasking, Secret};
use std::borrow::Cow;
use std::io::Write;
use std::sync::{Arc, PoisonError, RwLock};

// Static, because the panic hook has no other way to reach the masker.
static MASKER: RwLock<Option<Arc<Masker>>> = RwLock::new(None);
// The secrets from which the masker is built.
static KNOWN: RwLock<Vec<Secret>> = RwLock::new(Vec::new());

/// Registers secrets to be masked.
pub fn register_secrets(secrets: Vec<Secret>) {
    let mut known = KNOWN.write().unwrap_or_else(PoisonError::into_inner);
    known.extend(secrets);
    let masker = Masker::new(known.iter().map(Secret::reveal));
    if !masker.is_searchable() {
        tracing::error!("the secret masker could not be built: all output is masked");
    }
    *MASKER.write().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(masker));
}

fn masker() -> Option<Arc<Masker>> {
    MASKER.read().unwrap_or_else(PoisonError::into_inner).clone()
}

/// The text with known secrets masked.
pub fn mask(text: &str) -> Cow<'_, str> {
    match masker() {
        Some(masker) => Cow::Owned(masker.mask_text(text).into_owned()),
        None => Cow::Borrowed(text),
    }
}

/// Masks a session's events with the secrets known now.
pub fn session_mask() -> Arc<dyn EventMasker> {
    Arc::new(SessionMasker(masker().unwrap_or_default()))
}

/// Masks the stored output of programs with the secrets known when the program starts.
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

struct SessionMasker(Arc<Masker>);

impl EventMasker for SessionMasker {
    fn event(&self, event: Event) -> Event {
        self.0.mask_event(event)
    }

    fn text(&self, text: &str) -> String {
        self.0.mask_text(text).into_owned()
    }

    fn unfinished(&self, text: &str) -> usize {
        self.0.unfinished(text)
    }
}

/// Installs a panic hook that masks secrets in the message.
pub fn guard_panics() {
    std::panic::set_hook(Box::new(|panic| {
        let text = panic.to_string();
        tracing::error!(text, "internal error");
        let _ = writeln!(std::io::stderr(), "althing: internal error: {}", mask(&text));
        let _ = writeln!(
            std::io::stderr(),
            "  all recorded events are saved; `althing resume` continues the session"
        );
    }));
}
