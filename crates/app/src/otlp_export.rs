//! Exports the spans of this process's sessions to an OpenTelemetry collector, if `--otlp` is given.

use crate::context::AppContext;
use crate::failure::Failure;
use crate::secrets;
use crate::session;
use althing_engine::Orchestrator;
use althing_llm::{HttpClient, HttpOptions};
use althing_protocol::{Interest, Secret, Seq};
use althing_telemetry::{ContentCapture, Endpoint, Exporter, ExporterSettings, Resource, parse_pairs};
use althing_text::count;
use std::sync::OnceLock;
use std::time::Duration;

const EXIT_TIMEOUT: Duration = Duration::from_secs(1);
/// The time limit after a signal, when the user is already waiting for the exit.
const INTERRUPTED_EXIT_TIMEOUT: Duration = Duration::from_millis(400);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);

const HEADERS: &str = "OTEL_EXPORTER_OTLP_HEADERS";
const TRACES_HEADERS: &str = "OTEL_EXPORTER_OTLP_TRACES_HEADERS";
const RESOURCE: &str = "OTEL_RESOURCE_ATTRIBUTES";
const CONTENT: &str = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT";

// All sessions of a process share one exporter.
static EXPORTER: OnceLock<Exporter> = OnceLock::new();

/// Starts the exporter if `--otlp` is given, unless the config is simulated. OpenTelemetry's standard variables
/// configure the exporter; none of them turns it on.
pub fn prepare(app: &AppContext) -> Result<(), Failure> {
    let Some(address) = &app.settings.otlp else { return Ok(()) };
    let endpoint = Endpoint::parse(address).map_err(|error| {
        Failure::usage(format!("--otlp: {error}"))
            .hint("give a collector's address for OTLP over HTTP, such as http://localhost:4318")
    })?;
    secrets::register_secrets(endpoint.password().map(Secret::new).into_iter().collect());
    if app.settings.is_simulated() {
        app.notify("no traces are sent: --offline with --config sends nothing");
        return Ok(());
    }
    let read = |name: &str| match app.environment.variable(name) {
        Some(text) => parse_pairs(&text).map_err(|error| {
            Failure::usage(format!("{name}: {error}"))
                .hint("write name=value,name=value, or unset the variable")
        }),
        None => Ok(Vec::new()),
    };
    // The standard says that `OTEL_EXPORTER_OTLP_TRACES_HEADERS` replaces the general headers.
    let headers = if app.environment.variable(TRACES_HEADERS).is_some() { TRACES_HEADERS } else { HEADERS };
    let (from, headers) = (headers, read(headers)?);
    secrets::register_secrets(
        headers.iter().flat_map(|(_, value)| header_secrets(value)).map(Secret::new).collect(),
    );
    let name = app.environment.variable("OTEL_SERVICE_NAME").map(|name| ("service.name".to_owned(), name));
    let ours = [("service.name", "althing"), ("service.version", env!("CARGO_PKG_VERSION"))];
    let ours = ours.map(|(key, value)| (key.to_owned(), value.to_owned()));
    let attributes = name.into_iter().chain(read(RESOURCE)?).chain(ours).collect();
    let include_content = app.environment.variable(CONTENT).is_some_and(|value| {
        ["true", "span_only", "span_and_event"].contains(&value.to_ascii_lowercase().as_str())
    });
    let content = if include_content { ContentCapture::Include } else { ContentCapture::Omit };
    let http =
        if endpoint.is_secure() { session::http_options(&app.environment)? } else { HttpOptions::default() };
    let client = HttpClient::new(&http)?.service(endpoint.host(), CONNECT_TIMEOUT)?;
    let settings = ExporterSettings { endpoint, headers, resource: Resource { attributes }, content, client };
    let exporter = Exporter::new(settings).map_err(|error| Failure::usage(format!("{from}: {error}")))?;
    // Fails only if it is called twice.
    let _ = EXPORTER.set(exporter);
    Ok(())
}

fn header_secrets(value: &str) -> impl Iterator<Item = &str> {
    [Some(value), value.split_once(' ').map(|(_, rest)| rest)].into_iter().flatten()
}

/// Exports a session's spans, except those that ended at or before `already_exported`.
pub fn follow(orchestrator: &Orchestrator, already_exported: Seq) {
    if let Some(exporter) = EXPORTER.get() {
        exporter.follow(Box::new(orchestrator.feed().subscribe(Seq(0), Interest::Facts)), already_exported);
    }
}

/// Sends the remaining spans before the process ends, and reports what could not be sent.
pub fn finish(interrupted: bool, notify: &dyn Fn(&str)) {
    let Some(exporter) = EXPORTER.get() else { return };
    let timeout = if interrupted { INTERRUPTED_EXIT_TIMEOUT } else { EXIT_TIMEOUT };
    let Some(report) = exporter.finish(timeout) else { return };
    if report.lost > 0 {
        notify(&format!(
            "warning: {} of {} did not reach the OpenTelemetry collector at {}: {}",
            report.lost,
            count(report.lost + report.sent, "span"),
            exporter.endpoint(),
            report.why.unwrap_or_else(|| "it gave no reason".to_owned()),
        ));
    }
}
