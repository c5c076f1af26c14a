//! `--log FILE`: diagnostics of the program itself, one JSON object per line, with known secrets masked. Only events
//! of our own crates are written, because libraries log headers and bodies.

use crate::base_dirs::BaseDirs;
use crate::context::AppContext;
use crate::environment::SystemClock;
use crate::failure::Failure;
use crate::secrets::mask;
use althing_protocol::Clock;
use serde_json::{Map, Value};
use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::{Mutex, OnceLock, PoisonError};
use tracing::field::{Field, Visit};
use tracing::level_filters::LevelFilter;
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

const TARGET_PREFIX: &str = "althing";

/// The first write error; reported at exit.
static WRITE_ERROR: OnceLock<String> = OnceLock::new();

/// Starts the log if `path` is set. The caller must have registered the known secrets.
pub fn start(
    path: Option<&Path>,
    level: Option<LevelFilter>,
    task: Option<&str>,
    app: &AppContext,
) -> Result<(), Failure> {
    let Some(path) = path else {
        return match level {
            Some(_) => Err(Failure::usage("--log-level has no effect without --log FILE")),
            None => Ok(()),
        };
    };
    let from = BaseDirs::of(&app.environment);
    let real = from.real_path(&format!("--log {}", path.display()), path)?;
    let named = from.path(path);
    // `/dev/stderr` may be a link to a pipe, which has no path of its own.
    let path = if named.metadata().is_err() || named.is_file() { real } else { named };
    let file = OpenOptions::new().create(true).append(true).mode(0o600).open(&path).map_err(|error| {
        Failure::usage(format!("--log: {} cannot be written: {error}", path.display()))
            .hint("name a file in a directory that exists and that you may write to")
    })?;
    let level = level.unwrap_or(LevelFilter::INFO);
    // Fails only if it is called twice.
    let _ = tracing::subscriber::set_global_default(JsonLines { level, file: Mutex::new(file) });
    let args: Vec<String> = std::env::args().skip(1).map(|arg| redact_argument(arg, task)).collect();
    tracing::info!(
        version = env!("CARGO_PKG_VERSION"),
        pid = std::process::id(),
        cwd = %app.environment.cwd.display(),
        args = args.join(" "),
        "started"
    );
    Ok(())
}

/// Hides the task, every argument with white space, and everything but the host of an address: they may contain a
/// secret that is only known later or not at all.
fn redact_argument(arg: String, task: Option<&str>) -> String {
    let hidden = |text: &str| format!("({} characters)", text.chars().count());
    if task == Some(&arg) || arg.contains(char::is_whitespace) {
        return hidden(&arg);
    }
    let Some((scheme, rest)) = arg.split_once("://") else { return arg };
    let (authority, path) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
    let (user, host) = authority
        .rsplit_once('@')
        .map_or((String::new(), authority), |(user, host)| (format!("{}@", hidden(user)), host));
    let path = if path.len() > 1 { format!("/{}", hidden(path)) } else { path.to_owned() };
    format!("{scheme}://{user}{host}{path}")
}

/// Writes the last line, and reports a write error to the user.
pub fn finish(status: u8, notify: &dyn Fn(&str)) {
    tracing::info!(status, "ended");
    if let Some(why) = WRITE_ERROR.get() {
        notify(&format!("warning: the --log file could not be written: {why}"));
    }
}

struct JsonLines {
    level: LevelFilter,
    file: Mutex<File>,
}

impl Subscriber for JsonLines {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.is_event() && *metadata.level() <= self.level && metadata.target().starts_with(TARGET_PREFIX)
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(self.level)
    }

    fn event(&self, event: &Event<'_>) {
        let mut fields = MaskedFields(Map::new());
        let metadata = event.metadata();
        fields.insert("at", SystemClock.now().to_string().into());
        fields.insert("level", metadata.level().as_str().to_ascii_lowercase().into());
        fields.insert("from", metadata.target().into());
        event.record(&mut fields);
        let line = format!("{}\n", Value::Object(fields.0));
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        if let Err(error) = file.write_all(line.as_bytes()) {
            let _ = WRITE_ERROR.set(error.to_string());
        }
    }

    // Spans are exported by `--otlp`, not here.
    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }
    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

struct MaskedFields(Map<String, Value>);

impl MaskedFields {
    fn insert(&mut self, key: &str, value: Value) {
        self.0.insert(key.to_owned(), value);
    }
}

impl Visit for MaskedFields {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.record_str(field, &format!("{value:?}"));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.insert(field.name(), mask(value).into());
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.insert(field.name(), value.into());
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.insert(field.name(), value.into());
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.insert(field.name(), value.into());
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.insert(field.name(), value.into());
    }
}
