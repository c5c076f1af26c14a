//! The key `notify`: how the user wants to be notified while looking at another window.
//!
//! Only the user's own config, or one that the user names, may say so: its program runs with all rights of the user, and
//! its address gets the beginning of tasks. What a config that was found in the working directory says has no effect,
//! even if the user trusts that config otherwise.

use crate::context::AppContext;
use crate::session;
use crate::team;
use althing_config::LoadPurpose;
use althing_llm::HttpClient;
use althing_protocol::NotifyConfig;
use std::path::Path;
use std::time::Duration;

/// How long connecting, and the whole request, may take.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);

/// How the user wants to be notified; None if no config of the user says so, or with `--offline`.
pub fn configured(app: &AppContext) -> Option<NotifyConfig> {
    if app.settings.offline {
        return None;
    }
    let named = app.settings.config.as_ref().map(|path| app.environment.named_path(path));
    let own = app.environment.config_dir().map(|dir| dir.join("config.yaml"));
    named.into_iter().chain(own).find_map(|path| read(&path, app))
}

fn read(path: &Path, app: &AppContext) -> Option<NotifyConfig> {
    // A config that cannot be read is reported where it is used.
    let text = team::read_text(path).ok()?;
    let name = path.display().to_string();
    let (report, _) = team::check(&name, &text, &app.environment, LoadPurpose::Check);
    if report.config.is_none() {
        tracing::warn!(path = name, "the config has errors, so its `notify` has no effect");
    }
    report.config?.config.notify
}

/// The text of a notification as the JSON that programs and addresses get.
pub fn as_json(text: &str) -> String {
    serde_json::json!({ "text": text }).to_string()
}

/// Sends a notification to an address. Blocks until it is sent.
pub fn post(url: &str, text: &str, app: &AppContext) -> Result<(), String> {
    let options = session::http_options(&app.environment).map_err(|failure| failure.message)?;
    let http = HttpClient::new(&options).map_err(|error| error.to_string())?;
    let host = url.split("://").nth(1).and_then(|rest| rest.split(['/', ':', '?']).next());
    let client =
        http.service(host.unwrap_or_default(), CONNECT_TIMEOUT).map_err(|error| error.to_string())?;
    let request = client.post(url).header("content-type", "application/json");
    let request = request.timeout(REQUEST_TIMEOUT).body(as_json(text));
    let runtime = session::runtime().map_err(|failure| failure.message)?;
    // The address may contain a token.
    let response =
        runtime.block_on(async { request.send().await }).map_err(|error| error.without_url().to_string())?;
    if response.status().is_success() { Ok(()) } else { Err(format!("it answered {}", response.status())) }
}
