//! The secrets that this process knows, masked in everything it writes: log, terminal, and panic messages.

use althing_engine::Mask;
use althing_journal::{MaskedStream, Masker};
use althing_protocol::{Event, MaskStream, Masks, Secret};
use std::borrow::Cow;
use std::io::Write;
use std::sync::{Arc, PoisonError, RwLock};

// Static, because the panic hook has no other way to reach it.
static MASKER: RwLock<Option<Arc<Masker>>> = RwLock::new(None);
static KNOWN: RwLock<Vec<Secret>> = RwLock::new(Vec::new());

/// Registers secrets to be masked.
pub fn remember(secrets: Vec<Secret>) {
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
pub fn session_mask() -> Arc<dyn Mask> {
    Arc::new(SessionMask(masker().unwrap_or_default()))
}

/// Masks the stored output of programs with the secrets known when the program starts.
pub fn masks() -> Arc<dyn Masks> {
    Arc::new(KnownNow)
}

#[derive(Debug)]
struct KnownNow;

impl Masks for KnownNow {
    fn stream(&self) -> Box<dyn MaskStream> {
        Box::new(MaskedStream::new(masker().unwrap_or_default()))
    }
}

struct SessionMask(Arc<Masker>);

impl Mask for SessionMask {
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
        let _ = writeln!(std::io::stderr(), "  everything shown so far is saved: `althing resume` continues");
    }));
}
