//! Tells an OpenTelemetry collector what happens in this process's sessions, where `--otlp` asks for it: what is sent and
//! with which headers, and what is said when it does not arrive.

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

/// How long the exit may wait for the last spans to be sent.
const PATIENCE: Duration = Duration::from_secs(1);
/// The same where somebody asked us to stop, and has waited already.
const LITTLE_PATIENCE: Duration = Duration::from_millis(400);
/// How long a connection may take to be made.
const CONNECT: Duration = Duration::from_secs(3);

const HEADERS: &str = "OTEL_EXPORTER_OTLP_HEADERS";
const TRACES_HEADERS: &str = "OTEL_EXPORTER_OTLP_TRACES_HEADERS";
const RESOURCE: &str = "OTEL_RESOURCE_ATTRIBUTES";
const CONTENT: &str = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT";

// A static, as there is one collector for all the sessions of a process, and one end of the process.
static EXPORTER: OnceLock<Exporter> = OnceLock::new();

/// Gets ready to tell, if that is asked for. The standard variables say how; none of them turns it on.
pub fn prepare(app: &AppContext) -> Result<(), Failure> {
    let Some(address) = &app.settings.otlp else { return Ok(()) };
    let endpoint = Endpoint::parse(address).map_err(|error| {
        Failure::usage(format!("--otlp: {error}"))
            .hint("give a collector's address for OTLP over HTTP, such as http://localhost:4318")
    })?;
    secrets::remember(endpoint.password().map(Secret::new).into_iter().collect());
    let read = |name: &str| match app.environment.variable(name) {
        Some(text) => parse_pairs(&text).map_err(|error| {
            Failure::usage(format!("{name}: {error}")).hint("write name=value,name=value, or unset it")
        }),
        None => Ok(Vec::new()),
    };
    // The headers of traces stand in for the general ones, as the standard has it.
    let headers = if app.environment.variable(TRACES_HEADERS).is_some() { TRACES_HEADERS } else { HEADERS };
    let (from, headers) = (headers, read(headers)?);
    secrets::remember(headers.iter().flat_map(|(_, value)| in_header(value)).map(Secret::new).collect());
    let name = app.environment.variable("OTEL_SERVICE_NAME").map(|name| ("service.name".to_owned(), name));
    let ours = [("service.name", "althing"), ("service.version", env!("CARGO_PKG_VERSION"))];
    let ours = ours.map(|(key, value)| (key.to_owned(), value.to_owned()));
    let attributes = name.into_iter().chain(read(RESOURCE)?).chain(ours).collect();
    let told = app.environment.variable(CONTENT).is_some_and(|value| {
        ["true", "span_only", "span_and_event"].contains(&value.to_ascii_lowercase().as_str())
    });
    let content = if told { ContentCapture::Include } else { ContentCapture::Omit };
    let http =
        if endpoint.is_secure() { session::http_options(&app.environment)? } else { HttpOptions::default() };
    let client = HttpClient::new(&http)?.service(endpoint.host(), CONNECT)?;
    let settings = ExporterSettings { endpoint, headers, resource: Resource { attributes }, content, client };
    let exporter = Exporter::new(settings).map_err(|error| Failure::usage(format!("{from}: {error}")))?;
    // Set once: a process has one command line.
    let _ = EXPORTER.set(exporter);
    Ok(())
}

/// What in a header is a secret: all of it, and what stands behind `Bearer`.
fn in_header(value: &str) -> impl Iterator<Item = &str> {
    [Some(value), value.split_once(' ').map(|(_, rest)| rest)].into_iter().flatten()
}

/// Tells of a session from now on; what happened up to `told`, an earlier process could tell.
pub fn follow(orchestrator: &Orchestrator, told: Seq) {
    if let Some(exporter) = EXPORTER.get() {
        exporter.follow(Box::new(orchestrator.feed().subscribe(Seq(0), Interest::Facts)), told);
    }
}

/// Sends the last of it before the process ends, and says what could not be sent.
pub fn finish(interrupted: bool, notify: &dyn Fn(&str)) {
    let Some(exporter) = EXPORTER.get() else { return };
    let patience = if interrupted { LITTLE_PATIENCE } else { PATIENCE };
    let Some(report) = exporter.finish(patience) else { return };
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
