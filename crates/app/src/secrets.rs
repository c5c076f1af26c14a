//! The secrets this process knows, kept out of everything it writes: log, terminal, and the text of a panic.

use althing_engine::Mask;
use althing_journal::{MaskedStream, Masker};
use althing_protocol::{Event, MaskStream, Masks, Secret};
use std::borrow::Cow;
use std::io::Write;
use std::sync::{Arc, PoisonError, RwLock};

// A static, because a panic hook has nothing else to reach it by.
static MASKER: RwLock<Option<Arc<Masker>>> = RwLock::new(None);
static KNOWN: RwLock<Vec<Secret>> = RwLock::new(Vec::new());

/// Adds secrets to those that are kept out.
pub fn remember(secrets: Vec<Secret>) {
    let mut known = KNOWN.write().unwrap_or_else(PoisonError::into_inner);
    known.extend(secrets);
    let masker = Masker::new(known.iter().map(Secret::reveal));
    if !masker.is_searchable() {
        tracing::error!("the secrets cannot be searched for: everything that is written is masked");
    }
    *MASKER.write().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(masker));
}

fn masker() -> Option<Arc<Masker>> {
    MASKER.read().unwrap_or_else(PoisonError::into_inner).clone()
}

/// A text without the secrets.
pub fn mask(text: &str) -> Cow<'_, str> {
    match masker() {
        Some(masker) => Cow::Owned(masker.mask_text(text).into_owned()),
        None => Cow::Borrowed(text),
    }
}

/// Takes the secrets known now out of a session.
pub fn session_mask() -> Arc<dyn Mask> {
    Arc::new(SessionMask(masker().unwrap_or_default()))
}

/// Takes the secrets that are known when a program starts out of what is kept of its output.
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

/// Makes panics say what happened without saying a secret.
pub fn guard_panics() {
    std::panic::set_hook(Box::new(|panic| {
        let text = panic.to_string();
        tracing::error!(text, "internal error");
        let _ = writeln!(std::io::stderr(), "althing: internal error: {}", mask(&text));
        let _ =
            writeln!(std::io::stderr(), "  what was shown is on disk: `althing resume` goes on from there");
    }));
}
